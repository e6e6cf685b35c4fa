#!/usr/bin/env python3
"""Loads what this project exports with transformers and compares its logits with those of the original folder.

    python3 tools/reference/check_exports.py MILLRACE FOLDER…

Each folder holds config.json, model.safetensors and golden.safetensors (input_ids, logits), as those in tests/golden/hf_* do. It goes
through `millrace convert` in fp32 (and GPT-2 through llm.c's format and back as well). transformers loads the result by itself, with nothing
missing or left over, and computes the logits of input_ids in fp32. A row of the table says how far they are from the logits that it computes
here from the original folder (0 is expected: the same bits), and from the recorded ones, which other versions may round otherwise: what the
folder's tolerance.json allows, 1e-5 without it. Exits 1 when a row is beyond that.

Run by hand: needs torch, transformers and safetensors from PyPI, which building and testing do without.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

MOST = 1e-5


def most_drift(folder: pathlib.Path) -> float:
    """How far the logits of another version of transformers may be from the recorded ones: what the folder allows to everybody, if it says."""
    file = folder / "tolerance.json"
    return json.loads(file.read_text())["logits"] if file.exists() else MOST


def logits_of(folder: pathlib.Path, ids: torch.Tensor) -> torch.Tensor:
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    left = {key: names for key, names in info.items() if names and key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if left:
        raise SystemExit(f"{folder}: {left}")
    with torch.no_grad():
        return model.eval()(ids, use_cache=False).logits


def convert(millrace: str, *words: str) -> None:
    subprocess.run([millrace, "convert", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def exports(millrace: str, folder: pathlib.Path, scratch: pathlib.Path):
    """(name, folder that transformers loads)"""
    convert(millrace, folder, scratch / "folder", "--dtype", "fp32")
    yield folder.name, scratch / "folder"
    # llm.c's format has a table for the embedding and the head together.
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "gpt2" or not config.get("tie_word_embeddings", True):
        return
    convert(millrace, folder, scratch / "model.bin", "--format", "llmc")
    convert(millrace, scratch / "model.bin", scratch / "back")
    yield f"{folder.name} through llm.c", scratch / "back"


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    good = True
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    print(f"{'model':<24} {'largest logit':>13} {'from the original':>18} {'from the record':>16}")
    for name in sys.argv[2:]:
        folder = pathlib.Path(name)
        golden = load_file(folder / "golden.safetensors")
        ids, recorded = golden["input_ids"].long(), golden["logits"]
        original = logits_of(folder, ids)
        with tempfile.TemporaryDirectory() as scratch:
            for title, export in exports(sys.argv[1], folder, pathlib.Path(scratch)):
                found = logits_of(export, ids)
                difference, drift = ((found - other).abs().max().item() for other in (original, recorded))
                good = good and torch.equal(found, original) and drift <= most_drift(folder)
                print(f"{title:<24} {recorded.abs().max().item():>13.4f} {difference:>18.2e} {drift:>16.2e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
