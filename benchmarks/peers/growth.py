#!/usr/bin/env python3
"""How the time of a step grows: a small model at some points, and how far each is from the law that its smallest three points follow.

    python3 growth.py sequence|layers|microbatches|stages --millrace PATH --tokens FILE [--rounds 3] [--steps 6] [--threads 2]

Laws, fitted by least squares of the relative distance: a S + b S^2 for the sequence, a + b X for the others. The points take turns, --rounds times.
One line of JSON: "law", "points" as [x, seconds, the law's seconds] and "worst", the largest distance. Seconds are medians of all steps of all
rounds, each run's first two left out, from metrics.jsonl.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODEL = """
[model]
family = "llama"
vocab_size = 512
hidden_size = 128
intermediate_size = 352
layers = {layers}
heads = 4
kv_heads = 4
max_position_embeddings = 4096
[data]
tokens = "{tokens}"
held_out = 0
[run]
directory = "{directory}"
[train]
steps = {steps}
batch = 1
sequence = {sequence}
microbatches = {microbatches}
threads = {threads}
[pipeline]
chunks = {stages}
schedule = "{schedule}"
"""
BASE = {"sequence": 256, "layers": 4, "microbatches": 4, "stages": 1}

# Of each law: the points, what else differs from BASE, and the two functions of x whose sum it is.
LAWS = {
    "sequence": ([256, 512, 1024, 2048, 4096], {"layers": 2}, (lambda x: x, lambda x: x * x), "a S + b S^2"),
    "layers": ([2, 4, 8, 16, 32], {}, (lambda x: 1, lambda x: x), "a + b L"),
    "microbatches": ([1, 2, 4, 8, 16, 32, 64], {}, (lambda x: 1, lambda x: x), "a + b M"),
    "stages": ([1, 2, 4, 8], {"layers": 8, "microbatches": 8}, (lambda x: 1, lambda x: x), "a + b stages"),
}
FITTED = 3


def fit(points, functions):
    """a and b with the least sum of ((a f + b g) / seconds - 1)^2: the normal equations."""
    rows = [(functions[0](x) / seconds, functions[1](x) / seconds) for x, seconds in points]
    ff, fg, gg = sum(f * f for f, _ in rows), sum(f * g for f, g in rows), sum(g * g for _, g in rows)
    f1, g1 = sum(f for f, _ in rows), sum(g for _, g in rows)
    determinant = ff * gg - fg * fg
    return (f1 * gg - g1 * fg) / determinant, (g1 * ff - f1 * fg) / determinant


def steps_at(law, x, arguments):
    """Seconds of each step of a run."""
    values = {**BASE, **LAWS[law][1], law: x}
    with tempfile.TemporaryDirectory() as scratch:
        run = pathlib.Path(scratch, "run.toml")
        directory = pathlib.Path(scratch, "run")
        # More than one stage a rank is what the looped schedules are for; on one rank they run the stages of a microbatch one by one.
        schedule = "1f1b" if values["stages"] == 1 else "looped-bfs"
        run.write_text(
            MODEL.format(**values, tokens=arguments.tokens, directory=directory, steps=arguments.steps + 2, threads=arguments.threads, schedule=schedule)
        )
        done = subprocess.run([arguments.millrace, "train", str(run)], stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"growth: {law} = {x}: millrace ended with status {done.returncode}")
        lines = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
        return [line["seconds"] for line in lines if "seconds" in line][2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("law", choices=LAWS)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    xs, _, functions, text = LAWS[arguments.law]
    steps = {x: [] for x in xs}
    for _ in range(arguments.rounds):
        for x in xs:
            steps[x] += steps_at(arguments.law, x, arguments)
    measured = [(x, statistics.median(seconds)) for x, seconds in steps.items()]
    a, b = fit(measured[:FITTED], functions)
    points = [[x, seconds, a * functions[0](x) + b * functions[1](x)] for x, seconds in measured]
    worst = max(abs(seconds / law - 1) for _, seconds, law in points)
    print(json.dumps({"worst": worst, "law": text, "a": a, "b": b, "points": points}))


if __name__ == "__main__":
    main()
