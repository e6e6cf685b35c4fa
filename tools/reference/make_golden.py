#!/usr/bin/env python3
"""Creates a golden folder for `millrace parity` with transformers and PyTorch.

    python3 tools/reference/make_golden.py SOURCE FOLDER [--rows 2] [--length 24] [--seed 1]      # needs torch, transformers

SOURCE is a folder of transformers (config.json and model.safetensors), or a config.json alone: then the weights are drawn from --seed as
the family draws them, and all vectors (norm scales, biases) are moved by normal numbers of deviation 0.2, so that leaving one out shows.
FOLDER gets

    config.json, model.safetensors   the model, its weights in fp32
    golden.safetensors               what it computes in fp32 on a CPU with eager attention:
        input_ids    int64 [rows, length], drawn from --seed
        logits       [rows, length, vocabulary]
        loss         [], the mean cross-entropy of the next token over rows * (length - 1) positions
        hidden.<i>   [rows, length, width], the residual stream before layer i; the last one is after the final norm
        grad.<name>  the loss's gradient by each parameter, under its name in the file (a tied table carries the sum)
    bf16.json                        how far PyTorch's bf16 is from that: for logits, hidden.<i> and grad.<name>
        {"largest": max|d| / max|reference|, "norm": |d|2 / |reference|2}, and "loss", relative

bf16 means that the parameters are rounded to bf16 once, forward and backward run in bf16, and the loss is taken over logits in fp32. With
another number of threads (--threads, default 2) PyTorch sums the gradients of LayerNorm and RMSNorm weights in other parts, and their
distances differ by up to a half. A model
that chooses (experts) may choose otherwise in bf16. The distances then include the other choices, and are a wide bound for the arithmetic:
docs/numerics.md, "bf16 compared with PyTorch".

--chance N also runs PyTorch's bf16 program 2 * N times with stochastic rounding: each of its stores in bf16 goes to one of the two
neighbours at random, so that all runs are equally good. It prints how the ratio of the distances of two runs is spread, over the N pairs:
for the logits, for the mean over the gradients, and for tensors by their number of entries. This is what chance makes of the limits in
docs/numerics.md, "bf16 compared with PyTorch".
"""

import argparse
import json
import math
import os

import torch
from safetensors.torch import save_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from transformers import AutoConfig, AutoModelForCausalLM

ONE_ROUNDING = 2**-8 / math.sqrt(7)


def random_model(path, seed):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def load(folder, dtype):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").train(False)


def run(model, tokens):
    model.zero_grad()
    output = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    logits = output.logits.float()
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    tensors = {"loss": loss, "logits": logits}
    tensors |= {f"hidden.{i}": hidden for i, hidden in enumerate(output.hidden_states)}
    tensors |= {f"grad.{name}": parameter.grad for name, parameter in model.named_parameters()}
    return {name: tensor.detach().float().clone().contiguous() for name, tensor in tensors.items()}


def relative(difference, reference):
    return 0.0 if difference == 0 else difference / reference if reference > 0 else math.inf


def distances(found, golden):
    result = {"loss": relative(abs(found["loss"] - golden["loss"]).item(), abs(golden["loss"]).item())}
    for name, reference in golden.items():
        if name == "loss":
            continue
        difference = found[name].double() - reference.double()
        result[name] = {
            "largest": relative(difference.abs().max().item(), reference.abs().max().item()),
            "norm": relative(difference.norm().item(), reference.double().norm().item()),
        }
    return result


class StochasticRounding(TorchDispatchMode):
    """Computes every operation whose results are bf16 in fp32 and rounds the results up or down with probabilities that make the mean exact."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def rounded(self, tensor):
        bits = tensor.contiguous().view(torch.int32)
        noise = torch.randint(0, 1 << 16, bits.shape, generator=self.generator, dtype=torch.int32)
        return ((bits + noise) & -(1 << 16)).view(torch.float32).to(torch.bfloat16)

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        result = function(*arguments, **options)
        tensors = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        exact = function.is_view or function._schema.is_mutable or not any(x.dtype == torch.bfloat16 for x in tensors)
        if exact or options.get("dtype") == torch.bfloat16 and not arguments:
            return result
        widen = lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x
        wide_options = {key: torch.float32 if value == torch.bfloat16 else value for key, value in options.items()}
        wide = function(*tree_map(widen, arguments), **tree_map(widen, wide_options))
        narrow = lambda found, again: (
            self.rounded(again) if isinstance(found, torch.Tensor) and found.dtype == torch.bfloat16 and again.dtype == torch.float32 else found
        )
        return tree_map(narrow, result, wide)


def quantiles(values):
    values = sorted(values)
    return " ".join(f"{values[min(int(q * len(values)), len(values) - 1)]:6.2f}" for q in (0.5, 0.9, 0.99, 1))


def print_chance(folder, tokens, golden, pairs):
    logits, means, by_entries = [], [], {}
    for pair in range(pairs):
        found = []
        for seed in (2 * pair, 2 * pair + 1):
            model = load(folder, torch.bfloat16)
            with StochasticRounding(seed):
                found.append(distances(run(model, tokens), golden))
        ratios = {name: found[0][name]["norm"] / max(found[1][name]["norm"], ONE_ROUNDING) for name in golden if name != "loss"}
        logits.append(ratios.pop("logits"))
        means.append(sum(ratio for name, ratio in ratios.items() if name.startswith("grad.")) / sum(name.startswith("grad.") for name in ratios))
        for name, ratio in ratios.items():
            by_entries.setdefault(golden[name].numel(), []).append((ratio, name))
    print(f"{folder}: ratios of two equally good results, median, 90 %, 99 %, largest of {pairs} pairs")
    print(f"  logits                {quantiles(logits)}")
    print(f"  mean over gradients   {quantiles(means)}")
    for entries, ratios in sorted(by_entries.items()):
        beyond = sum(ratio > 2 for ratio, _ in ratios)
        print(f"  {entries:6} entries        {quantiles([r for r, _ in ratios])}   beyond 2: {beyond} of {len(ratios)}   {max(ratios)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--chance", type=int, default=0, metavar="N")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    model = load(options.source, torch.float32) if os.path.isdir(options.source) else random_model(options.source, options.seed)
    model.save_pretrained(options.folder)
    vocabulary = model.config.get_text_config().vocab_size
    tokens = torch.randint(0, vocabulary, (options.rows, options.length), generator=torch.Generator().manual_seed(options.seed))

    golden = run(load(options.folder, torch.float32), tokens)
    save_file({"input_ids": tokens, **golden}, os.path.join(options.folder, "golden.safetensors"))
    with open(os.path.join(options.folder, "bf16.json"), "w") as file:
        json.dump(distances(run(load(options.folder, torch.bfloat16), tokens), golden), file, indent=0)
    if options.chance > 0:
        print_chance(options.folder, tokens, golden, options.chance)


if __name__ == "__main__":
    main()
