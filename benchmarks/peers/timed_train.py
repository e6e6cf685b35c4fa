#!/usr/bin/env python3
"""Runs a `millrace train`, alone or under mpirun, and prints its results as one line of JSON: tokens per second, seconds per step, peak memory.

    python3 timed_train.py [--skip 3] COMMAND …

Medians over the steps behind the first few, from the lines that the run prints; the peak is the largest process's resident memory in MiB.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys

SIZES = re.compile(r"(\d+) microbatch(?:es)? of (\d+) x (\d+) tokens")
STEP = re.compile(r"step \d+/\d+ .*?([\d.]+) tok/s.*?\| +(\d+) ms")


def step_seconds(tokens, rate, milliseconds):
    """Both numbers of a line are rounded to units: the larger one is more precise."""
    return tokens / rate if rate > milliseconds else milliseconds / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip", type=int, default=3)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    done = subprocess.run(arguments.command, env={**os.environ, "MILLRACE_LOG_EVERY": "1"}, stdout=subprocess.PIPE, text=True)
    sizes, steps = SIZES.search(done.stdout), STEP.findall(done.stdout)
    if done.returncode or not sizes or len(steps) <= arguments.skip:
        sys.exit(f"status {done.returncode} and {len(steps)} steps, expected more than {arguments.skip}: {' '.join(arguments.command)}")
    microbatches, rows, sequence = map(int, sizes.groups())
    tokens = microbatches * rows * sequence
    seconds = statistics.median(step_seconds(tokens, float(rate), float(ms)) for rate, ms in steps[arguments.skip :])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"tokens_per_s": round(tokens / seconds, 2), "step_s": round(seconds, 5), "peak_mib": round(peak, 1)}))


if __name__ == "__main__":
    main()
