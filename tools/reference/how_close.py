#!/usr/bin/env python3
"""Prints the tables of "How close" in docs/models.md: millrace parity on every folder of tests/golden.

  tools/reference/how_close.py build/release/millrace          needs no packages
"""

import glob
import os
import re
import subprocess
import sys


def groups_of(millrace, folder, dtype):
    """The lines of groups of `millrace parity`, as (name, rest)."""
    words = [millrace, "parity", folder, "--dtype", dtype]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    lines = [re.match(r"(all gradients, mean|\S+)\s+(?:\d+ tensors \| )?(.*)", line) for line in done.stdout.splitlines()]
    return [(line[1], line[2]) for line in lines if line and line[2].endswith("| ok")]


def largest(groups, prefix, pattern):
    """The largest number that the pattern finds in groups whose name begins with the prefix, and the name; None without such groups."""
    found = [(float(match[1]), name) for name, rest in groups if name.startswith(prefix) and (match := re.search(pattern, rest))]
    return max(found) if found else None


def fp32_row(millrace, folder):
    groups = groups_of(millrace, folder, "fp32")
    cells = [largest(groups, prefix, r"([\d.]+)% of what is allowed") for prefix in ("loss", "logits", "hidden", "grad.")]
    return " | ".join("–" if cell is None else f"{cell[0]:g} %" for cell in cells)


def bf16_row(millrace, folder):
    groups = groups_of(millrace, folder, "bf16")
    ratio = r"([\d.]+) times PyTorch's"
    logits, mean = largest(groups, "logits", ratio), largest(groups, "all gradients", ratio)
    worst = largest([group for group in groups if group[0] != "logits"], "", ratio + r".*at most [24]\.00")  # fewer entries have no limit
    if logits is None or mean is None or worst is None:
        return None
    name = worst[1].removeprefix("grad.").removeprefix("model.").removeprefix("layers.*.")
    return f"{logits[0]:.2f} | {mean[0]:.2f} | {worst[0]:.2f} ({name})"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    millrace = sys.argv[1]
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden")
    folders = sorted(glob.glob(os.path.join(golden, "hf_*"))) + sorted(glob.glob(os.path.join(golden, "maxtext_*")))
    folders = [folder for folder in folders if not os.path.basename(folder).startswith("maxtext_train_")]
    print("| folder | loss | logits | hidden states | gradients |\n|---|---|---|---|---|")
    for folder in folders:
        print(f"| {os.path.basename(folder)} | {fp32_row(millrace, folder)} |", flush=True)
    print("\n| folder | logits | gradients, mean | worst tensor |\n|---|---|---|---|")
    for folder in folders:
        row = bf16_row(millrace, folder) if os.path.exists(os.path.join(folder, "bf16.json")) else None
        if row:
            print(f"| {os.path.basename(folder)} | {row} |", flush=True)


if __name__ == "__main__":
    main()
