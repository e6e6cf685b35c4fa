#!/usr/bin/env python3
"""Extracts results for acceptance.sh from the output and files of millrace. Needs only Python.

    readings.py steps LOG [--skip 4]        medians of a training's printed steps after the first few: tokens per second, seconds per step
    readings.py flops LOG                   model FLOPs of a token, from what `millrace inspect` printed
    readings.py loss METRICS.jsonl          the last step's loss
    readings.py host PROFILE.json           host time of actions and idle time between operations, of the device's time; lines "what<TAB>percent"
    readings.py memory PROFILE.json [LOG]   planned over measured device memory; lines "what<TAB>planned<TAB>measured<TAB>ratio"

Status 3: what was asked for is not there.
"""
import argparse
import json
import re
import statistics
import sys

SIZES = re.compile(r"(\d+) microbatch(?:es)? of (\d+) x (\d+) tokens")
STEP = re.compile(r"^step \d+/\d+ .*?([\d.]+)([kMG]?) tok/s.*?\| (\d+) ms", re.MULTILINE)
MODEL_FLOPS = re.compile(r"([\d.]+) GFLOP as model FLOPs")
PLANNED = re.compile(r"planned: ([\d.]+) (GiB|MiB)")
ON_DEVICE = re.compile(r"\| gpu ([\d.]+) of ([\d.]+) GiB")
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "MiB": 2.0**20, "GiB": 2.0**30}


def missing(what):
    print(what, file=sys.stderr)
    raise SystemExit(3)


def tokens_of_a_step(text):
    sizes = SIZES.search(text)
    if not sizes:
        missing("no line of sizes")
    microbatches, rows, sequence = map(int, sizes.groups())
    return microbatches * rows * sequence


def steps(arguments):
    text = open(arguments.file, encoding="utf-8", errors="replace").read()
    found = STEP.findall(text)[arguments.skip :]
    if not found:
        missing(f"no more than {arguments.skip} steps")
    tokens = tokens_of_a_step(text)
    # Both numbers of a line are rounded; use the one with more digits.
    seconds = statistics.median(
        float(ms) / 1e3 if float(ms) >= 1000 or unit else tokens / float(rate) if float(rate) > float(ms) else float(ms) / 1e3
        for rate, unit, ms in found)
    print(f"{tokens / seconds:.1f} {seconds:.5f}")


def flops(arguments):
    text = open(arguments.file, encoding="utf-8", errors="replace").read()
    found = MODEL_FLOPS.search(text)
    if not found:
        missing("no line of model FLOPs")
    print(f"{float(found[1]) * 1e9 / tokens_of_a_step(text):.6g}")


def loss(arguments):
    last = None
    for line in open(arguments.file, encoding="utf-8"):
        record = json.loads(line)
        if "loss" in record and "step" in record:
            last = record["loss"]
    if last is None:
        missing("no step")
    print(repr(last))


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def host(arguments):
    """From the section "device" of profile.json, which is from a run whose operations are enqueued one by one."""
    device = load(arguments.file).get("device") or {}
    actions = [action for action in device.get("actions", []) if action.get("count") and action.get("device_ms")]
    if not actions:
        missing("profile.json says nothing of host time: its part \"device\" has no actions")
    for action in actions:
        count = action["count"]
        print(f"host time to queue {action['pass']} of stage {action['stage']}: {action['host_ms'] / count:.3f} ms, device {action['device_ms'] / count:.3f} ms"
              f"\t{100 * action['host_ms'] / action['device_ms']:.2f}")
    gaps = device.get("launch_gaps_ms", [])
    if gaps:
        print(f"device idle inside actions, operations queued one by one\t{100 * sum(gaps) / sum(action['device_ms'] for action in actions):.2f}")


def memory(arguments):
    """From the ranks in profile.json, each device once; else from the line that a training prints."""
    seen = set()
    for rank in load(arguments.file).get("memory", []):
        planned, measured, device = rank.get("device_planned_bytes"), rank.get("device_bytes"), rank.get("device")
        if planned and measured and device not in seen:
            seen.add(device)
            print(f"cuda:{device}\t{planned}\t{measured}\t{planned / measured:.4f}")
    if not seen and arguments.log:
        with open(arguments.log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        plan, used = PLANNED.search(text), ON_DEVICE.findall(text)
        if plan and used and float(used[-1][0]) > 0:
            planned, measured = float(plan[1]) * UNITS[plan[2]], float(used[-1][0]) * UNITS["GiB"]
            print(f"as printed, with the context\t{planned:.0f}\t{measured:.0f}\t{planned / measured:.4f}")
            return
    if not seen:
        missing("nothing says how much device memory was measured")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["steps", "flops", "loss", "host", "memory"])
    parser.add_argument("file")
    parser.add_argument("log", nargs="?")
    parser.add_argument("--skip", type=int, default=4)
    arguments = parser.parse_args()
    try:
        {"steps": steps, "flops": flops, "loss": loss, "host": host, "memory": memory}[arguments.what](arguments)
    except (OSError, ValueError) as error:
        missing(f"{arguments.file}: {error}")


if __name__ == "__main__":
    main()
