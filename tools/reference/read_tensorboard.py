#!/usr/bin/env python3
"""Reads a folder of event files with TensorBoard's own reader and prints its content.

    python3 -m venv VENV && VENV/bin/pip install tensorboard
    VENV/bin/python tools/reference/read_tensorboard.py RUN_DIRECTORY/tensorboard [RUN_DIRECTORY/metrics.jsonl]

With metrics.jsonl the steps of both must be the same, each once, and the losses equal as floats; otherwise it ends with 1. TensorBoard is
no dependency of the project: this stands beside its tests.
"""
import json
import pathlib
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

TAGS = {"train/loss": "loss", "train/gradient_norm": "gradient_norm", "evaluate/loss": "evaluation_loss"}


def as_float(number: float) -> float:
    return struct.unpack("<f", struct.pack("<f", number))[0]


def read(folder: pathlib.Path) -> dict:
    """{tag: {step: value}} of all files of the folder, as TensorBoard would show them; a step that comes twice is an error."""
    accumulator = event_accumulator.EventAccumulator(str(folder), size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    scalars = {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in tags["scalars"]}
    for tag, points in scalars.items():
        steps = [step for step, _ in points]
        if len(set(steps)) != len(steps):
            raise SystemExit(f"{tag} has a step twice: what a resumed run replaced is still there")
    return {tag: dict(points) for tag, points in scalars.items()}


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.iterdir()):
        print(f"{path.name}: {sum(1 for _ in RawEventFileLoader(str(path)).Load())} records")  # each CRC checked
    found = read(folder)
    for tag, points in sorted(found.items()):
        print(f"{tag}: {len(points)} steps, {min(points)} to {max(points)}, last {points[max(points)]:.6g}")
    if len(sys.argv) < 3:
        return 0
    lines = [json.loads(line) for line in pathlib.Path(sys.argv[2]).read_text().splitlines()[1:]]
    wrong = 0
    for tag, field in TAGS.items():
        expected = {line["step"]: as_float(line[field]) for line in lines if field in line}
        same = found.get(tag, {}) == expected
        wrong += not same
        print(f"{tag}: {'equal to' if same else 'DIFFERS FROM'} {field} of {sys.argv[2]} ({len(expected)} steps)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
