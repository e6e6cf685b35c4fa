#!/usr/bin/env python3
"""The growth of the step time: a small model at several points, and the deviation of each from the law fitted to the smallest points.

    python3 growth.py sequence|layers|microbatches|stages --millrace PATH --tokens FILE [--rounds 3] [--steps 6] [--threads 2]

Laws, fitted by least squares of the relative distance: a + b S + c S^2 for the sequence, with seven points, a + b X for the others, with
three. (a is what a step costs whatever its size: a millisecond here, a sixteenth of the shortest.) The points take turns, --rounds times.
One line of JSON: "law", "points" as [x, seconds, the law's seconds] and "worst", the largest distance. Seconds are a run's median step, its first two
left out, from metrics.jsonl; of the rounds' runs the least, since a run as a whole can meet a slow minute of the machine, and none meets a fast one.
"""
import argparse
import fractions
import json
import operator
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

# For each law: the points, the number of points that it is fitted to, other differences from BASE, and the powers of x in its sum.
LAWS = {
    "sequence": ([256, 384, 512, 640, 768, 896, 1024, 2048, 4096], 7, {"layers": 2}, (0, 1, 2), "a + b S + c S^2"),
    "layers": ([2, 4, 8, 16, 32], 3, {}, (0, 1), "a + b L"),
    "microbatches": ([1, 2, 4, 8, 16, 32, 64], 3, {}, (0, 1), "a + b M"),
    "stages": ([1, 2, 4, 8], 3, {"layers": 8, "microbatches": 8}, (0, 1), "a + b stages"),
}


def fit(points, powers):
    """The coefficients that minimise the sum of (law / seconds - 1)^2: the normal equations, by elimination; exact, since they are fractions."""
    columns = [[fractions.Fraction(x) ** power / fractions.Fraction(seconds) for x, seconds in points] for power in powers]
    rows = [[sum(map(operator.mul, f, g)) for g in columns] + [sum(f)] for f in columns]
    for pivot, row in enumerate(rows):
        row[:] = [value / row[pivot] for value in row]
        for other in rows:
            if other is not row:
                other[:] = [value - other[pivot] * own for value, own in zip(other, row)]
    return [float(row[-1]) for row in rows]


def median_step(law, x, arguments):
    """Seconds of a run's median step."""
    values = {**BASE, **LAWS[law][2], law: x}
    with tempfile.TemporaryDirectory() as scratch:
        run = pathlib.Path(scratch, "run.toml")
        directory = pathlib.Path(scratch, "run")
        # Looped schedules support more than one stage per rank; on one rank they run the stages of a microbatch one by one.
        schedule = "1f1b" if values["stages"] == 1 else "looped-bfs"
        run.write_text(
            MODEL.format(**values, tokens=arguments.tokens, directory=directory, steps=arguments.steps + 2, threads=arguments.threads, schedule=schedule)
        )
        done = subprocess.run([arguments.millrace, "train", str(run)], stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"growth: {law} = {x}: millrace ended with status {done.returncode}")
        lines = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
        return statistics.median([line["seconds"] for line in lines if "seconds" in line][2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("law", choices=LAWS)
    parser.add_argument("--millrace", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    xs, fitted, _, powers, text = LAWS[arguments.law]
    runs = {x: [] for x in xs}
    for _ in range(arguments.rounds):
        for x in xs:
            runs[x].append(median_step(arguments.law, x, arguments))
    measured = [(x, min(seconds)) for x, seconds in runs.items()]
    coefficients = fit(measured[:fitted], powers)
    points = [[x, seconds, sum(map(operator.mul, coefficients, (x**power for power in powers)))] for x, seconds in measured]
    worst = max(abs(seconds / law - 1) for _, seconds, law in points)
    print(json.dumps({"worst": worst, "law": text, "coefficients": coefficients, "points": points}))


if __name__ == "__main__":
    main()
