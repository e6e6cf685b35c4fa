#!/usr/bin/env python3
"""The gain of a plan over uniform 1F1B, for a model with a large vocabulary and a small decoder.

    benchmarks/pipeline/plan_gain.py build/release/millrace [--text FOLDER] [--pairs 3] [--steps 8] [--check]

Four ranks, rehearsed with the costs that are measured here: on fewer than four cores computing ranks would hide each other's bubbles.
Then two ranks that compute, each a process of mpirun, the plan and uniform 1F1B in turn; of each run the median of its steps after the
first, and of the ratios of neighbours the median. With --check it ends with 1 where a gain is below 1.15.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

WANTED = 1.15
MODEL = ["configs/runs/tiny.toml", "model.hidden_size=256", "model.intermediate_size=512", "model.head_dim=64", "model.vocab_size=8192",
         "train.batch=2", "train.sequence=128", "train.microbatches=32", "train.threads=1"]
FOUR = MODEL + ["pipeline.ranks=4", "model.layers=8"]
TWO = MODEL + ["pipeline.ranks=2", "model.layers=4"]
UNIFORM = ["pipeline.layout=", "pipeline.schedule=1f1b", "pipeline.chunks=1"]


def output_of(words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: ended with {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def make_plan(options, run, path):
    """Writes the plan's file; returns its layout, schedule and predicted gain."""
    text = output_of([options.millrace, "plan", *run, "--measure", "--out", path, "--overwrite"])
    kind, gain = re.search(r"^plan +(\S.*)$", text, re.M).group(1), float(re.search(r"^predicts .*?([0-9.]+) x the", text, re.M).group(1))
    layout = re.findall(r"^plan +(E.*?), rematerialize", text, re.M)
    return layout[0] if layout else kind, gain


def rehearsed(options, run, plan, uniform):
    words = [options.millrace, "rehearse", *run, plan, *(UNIFORM if uniform else []), "--steps", 5, "--fastest", "--json"]
    return json.loads(output_of(words))["measured"]


def trained(options, run, plan, uniform):
    """Milliseconds per step."""
    with tempfile.TemporaryDirectory() as folder:
        output_of(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", 2, options.millrace, "train", *run, plan,
                   *(UNIFORM if uniform else []), f"data.text={options.text}", f"train.steps={options.steps}", "train.warmup_steps=1",
                   "data.held_out=0", "sample.tokens=0", "checkpoint.every=0", f"run.directory={folder}"])
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return 1e3 * statistics.median(line["seconds"] for line in lines[1:] if "seconds" in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--text", default="/usr/include/c++/12")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        four = pathlib.Path(folder) / "four.toml"
        layout, predicted = make_plan(options, FOUR, four)
        gain = rehearsed(options, FOUR, four, True) / rehearsed(options, FOUR, four, False)
        print(f"4 ranks, rehearsed: {layout}: predicted {predicted:.3f} x uniform 1f1b, measured {gain:.3f} x", flush=True)
        gains = [predicted, gain]

        two = pathlib.Path(folder) / "two.toml"
        layout, predicted = make_plan(options, TWO, two)
        ratios = []
        for pair in range(options.pairs):
            uniform, plan = trained(options, TWO, two, True), trained(options, TWO, two, False)
            ratios.append(uniform / plan)
            print(f"2 ranks, pair {pair + 1}: uniform {uniform:.0f} ms, plan {plan:.0f} ms per step: {ratios[-1]:.3f} x", flush=True)
        print(f"2 ranks, computing: {layout}: predicted {predicted:.3f} x uniform 1f1b, measured {statistics.median(ratios):.3f} x")
        gains.append(statistics.median(ratios))
    return 1 if options.check and min(gains) < WANTED else 0


if __name__ == "__main__":
    sys.exit(main())
