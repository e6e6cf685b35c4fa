#!/usr/bin/env python3
"""Runs a benchmark that prints medians of pairs (benchmarks/pipeline/paired_times.hpp) and gives them as one line of JSON: "wall", and "processor" where it
prints the processor's time too.

    python3 pair_ratios.py COMMAND …
"""
import json
import re
import subprocess
import sys


def main():
    done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
    ratios = [float(text) for text in re.findall(r"median of the pairs ([\d.]+)", done.stdout)]
    if done.returncode or not ratios:
        sys.exit(f"status {done.returncode} and {len(ratios)} ratios: {' '.join(sys.argv[1:])}")
    print(json.dumps(dict(zip(("wall", "processor"), ratios))))


if __name__ == "__main__":
    main()
