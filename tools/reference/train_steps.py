#!/usr/bin/env python3
"""Trains a small Llama in PyTorch and writes the results of every step to tests/golden/runs. tests/training/reference_run_test.cpp reads them.

    python3 tools/reference/train_steps.py      # needs torch and safetensors

Nothing here comes from millrace: the model, the order of the data, the initial values and the learning rate are implemented again from their
definitions, and the optimizer is torch.optim.AdamW or torch.optim.SGD. All arithmetic is in float64, so a difference is millrace's rounding.

Each run is one JSON file. It has the arguments for `millrace train`; the loss, the gradient norm before clipping, the learning rate and the
number of targets of every step; the norm of every parameter after the last step; and the FLOPs of one step. `cosine.safetensors` has all
parameters after the last step of the run "cosine".
"""

import json
import math
import os
import random
import statistics
import struct

import torch
from safetensors.torch import load_file, save_file
from torch.utils.flop_counter import FlopCounterMode

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LLAMA = "tests/golden/hf_llama"
RUNS = "tests/golden/runs"
SEPARATOR = 0  # the token that ends a document
SEQUENCE = 16  # tokens of a row
ROWS = 2  # of a microbatch
MICROBATCHES = 4  # of a step
MASK64 = 2**64 - 1


# -- the order of the data: the windows of the token file are shuffled by a Feistel permutation, whose keys are the seed and the epoch --------

SPLITMIX64_GAMMA = 0x9E3779B97F4A7C15


def splitmix64_mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def permuted(index, n, seed, epoch):
    """The place of `index` in the permutation of range(n). An index beyond n is permuted again (cycle walking)."""
    bits = ((n - 1).bit_length() + 1) // 2 if n > 1 else 0
    state = splitmix64_mix(seed) ^ splitmix64_mix((epoch + SPLITMIX64_GAMMA) & MASK64)
    keys = []
    for _ in range(8):
        state = (state + SPLITMIX64_GAMMA) & MASK64
        keys.append(splitmix64_mix(state))
    mask = (1 << bits) - 1
    while True:
        left, right = index >> bits, index & mask
        for key in keys:
            left, right = right, left ^ (splitmix64_mix(right ^ key) & mask)
        index = (left << bits) | right
        if index < n:
            return index


def microbatch(tokens, seed, step, index, packing):
    """Tokens, targets (-1: ignored), positions and document ids of one microbatch, each [rows, sequence]. Without packing the row is one document."""
    windows = (len(tokens) - 1) // SEQUENCE
    batch = ([], [], [], [])
    for row in range(ROWS):
        sample = (step * MICROBATCHES + index) * ROWS + row
        first = permuted(sample % windows, windows, seed, sample // windows) * SEQUENCE
        window = tokens[first : first + SEQUENCE + 1]
        position = document = 0
        positions, documents, targets = [], [], []
        for t in range(SEQUENCE):
            positions.append(position if packing else t)
            documents.append(document if packing else 0)
            ends = window[t] == SEPARATOR
            targets.append(-1 if ends else window[t + 1])
            position, document = (0, document + 1) if ends else (position + 1, document)
        for field, values in zip(batch, (window[:-1], targets, positions, documents)):
            field.append(values)
    return [torch.tensor(field) for field in batch]


# -- initial values: Philox 4x32-10 with the seed as its key; its counter is the index of a block of four elements and the hash of the name ----


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        product0, product1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (product1 >> 32) ^ counter[1] ^ key[0],
            product1 & 0xFFFFFFFF,
            (product0 >> 32) ^ counter[3] ^ key[1],
            product0 & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def initial_value(name, shape, seed, deviation):
    if len(shape) == 1:  # the weight of a norm
        return torch.ones(shape, dtype=torch.float64)
    name_hash = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        name_hash = ((name_hash ^ byte) * 0x100000001B3) & MASK64
    normal = statistics.NormalDist()
    values = []
    for block in range(math.prod(shape) // 4):
        words = philox(
            (block & 0xFFFFFFFF, block >> 32, name_hash & 0xFFFFFFFF, name_hash >> 32),
            (seed & 0xFFFFFFFF, seed >> 32),
        )
        values += [normal.inv_cdf((word + 0.5) * 2.0**-32) * deviation for word in words]
    return torch.tensor(values).float().double().reshape(shape)  # millrace stores parameters in fp32


# -- the model -----------------------------------------------------------------------------------------------------------------------------


class Llama:
    def __init__(self, config, tied):
        self.config, self.tied = config, tied

    def shapes(self):
        c = self.config
        width, head = c["hidden_size"], c["head_dim"]
        shapes = {"model.embed_tokens.weight": (c["vocab_size"], width)}
        for i in range(c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            shapes[layer + "input_layernorm.weight"] = (width,)
            shapes[layer + "self_attn.q_proj.weight"] = (c["num_attention_heads"] * head, width)
            shapes[layer + "self_attn.k_proj.weight"] = (c["num_key_value_heads"] * head, width)
            shapes[layer + "self_attn.v_proj.weight"] = (c["num_key_value_heads"] * head, width)
            shapes[layer + "self_attn.o_proj.weight"] = (width, c["num_attention_heads"] * head)
            shapes[layer + "post_attention_layernorm.weight"] = (width,)
            shapes[layer + "mlp.gate_proj.weight"] = (c["intermediate_size"], width)
            shapes[layer + "mlp.up_proj.weight"] = (c["intermediate_size"], width)
            shapes[layer + "mlp.down_proj.weight"] = (width, c["intermediate_size"])
        shapes["model.norm.weight"] = (width,)
        if not self.tied:
            shapes["lm_head.weight"] = (c["vocab_size"], width)
        return shapes

    def rms_norm(self, x, weight):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.config["rms_norm_eps"]) * weight

    def apply_rope(self, x, positions):
        """x [rows, heads, sequence, head_dim] → same. Element i of a head is rotated with element i + head_dim / 2."""
        half = x.shape[-1] // 2
        frequencies = self.config["rope_parameters"]["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = positions[:, None, :, None].double() * frequencies
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def logits(self, p, tokens, positions, documents):
        c = self.config
        rows, sequence = tokens.shape
        head = c["head_dim"]
        split_heads = lambda y: y.reshape(rows, sequence, -1, head).transpose(1, 2)
        mask = documents[:, :, None] == documents[:, None, :]
        mask = mask & torch.ones(sequence, sequence, dtype=torch.bool).tril()
        x = p["model.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            w = lambda name: p[f"model.layers.{i}.{name}.weight"]
            h = self.rms_norm(x, w("input_layernorm"))
            q = self.apply_rope(split_heads(h @ w("self_attn.q_proj").T), positions)
            k = self.apply_rope(split_heads(h @ w("self_attn.k_proj").T), positions)
            v = split_heads(h @ w("self_attn.v_proj").T)
            repeats = c["num_attention_heads"] // c["num_key_value_heads"]
            k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
            scores = (q @ k.transpose(2, 3) / math.sqrt(head)).masked_fill(~mask[:, None], -math.inf)
            context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, sequence, -1)
            x = x + context @ w("self_attn.o_proj").T
            h = self.rms_norm(x, w("post_attention_layernorm"))
            gate = h @ w("mlp.gate_proj").T
            x = x + (gate * torch.sigmoid(gate) * (h @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
        x = self.rms_norm(x, p["model.norm.weight"])
        return x @ p["model.embed_tokens.weight" if self.tied else "lm_head.weight"].T

    def loss_sum(self, p, tokens, targets, positions, documents):
        """The sum of the cross entropy over all positions that have a target."""
        log_probabilities = self.logits(p, tokens, positions, documents).log_softmax(-1)
        valid = targets >= 0
        return -log_probabilities.gather(-1, targets.clamp(min=0)[..., None])[..., 0][valid].sum()


def check_model(config):
    """Checks the model above against that of transformers: their losses on the recorded tokens must be equal."""
    golden = load_file(os.path.join(ROOT, LLAMA, "golden.safetensors"))
    weights = {name: value.double() for name, value in load_file(os.path.join(ROOT, LLAMA, "model.safetensors")).items()}
    ids = golden["input_ids"]
    positions = torch.arange(ids.shape[1]).expand(ids.shape)
    targets = torch.cat([ids[:, 1:], torch.full((ids.shape[0], 1), -1)], 1)
    loss = Llama(config, tied=False).loss_sum(weights, ids, targets, positions, torch.zeros_like(ids)) / (targets >= 0).sum()
    assert abs(loss - golden["loss"].double()) < 2e-6, (loss, golden["loss"])


# -- a run -------------------------------------------------------------------------------------------------------------------------------------


def learning_rate(run, step):
    peak, final = run["train.learning_rate"], run.get("train.final_learning_rate", 0.0)
    steps, warmup = run["train.steps"], run.get("train.warmup_steps", 0)
    if step < warmup:
        return peak * (step + 1) / warmup
    if run["train.decay"] == "cosine":
        return final + (peak - final) * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
    if run["train.decay"] == "linear":
        return peak + (final - peak) * (step - warmup) / (steps - warmup)
    if run["train.decay"] == "wsd" and step >= steps - run["train.decay_steps"]:
        return peak + (final - peak) * (step - (steps - run["train.decay_steps"])) / run["train.decay_steps"]
    return peak


def flops_of_step(model, p, tokens):
    """Three times the forward's FLOPs, since the backward costs two forwards. A causal mask leaves half of attention's products."""
    batch_tokens, _, positions, documents = microbatch(tokens, seed=1, step=0, index=0, packing=False)
    with FlopCounterMode(display=False) as counter:
        model.logits(p, batch_tokens, positions, documents)
    counts = {str(op): number for op, number in counter.get_flop_counts()["Global"].items()}
    attention = sum(number for op, number in counts.items() if "bmm" in op)
    return MICROBATCHES * 3 * (sum(counts.values()) - attention / 2)


def train(name, run, config, tokens):
    arguments = {"data.tokens": f"{RUNS}/tokens.bin", "data.separator": SEPARATOR, "data.held_out": 0, "train.sequence": SEQUENCE,
                 "train.batch": ROWS, "train.microbatches": MICROBATCHES, **run}  # fmt: skip
    tied = run.get("model.tie_word_embeddings", False)
    model = Llama(config, tied)
    if "model.from" in run:
        weights = load_file(os.path.join(ROOT, run["model.from"], "model.safetensors"))
        p = {key: weights[key].double() for key in model.shapes()}
    else:
        arguments |= {"model.vocab_size": config["vocab_size"], "model.hidden_size": config["hidden_size"],
                      "model.intermediate_size": config["intermediate_size"], "model.layers": config["num_hidden_layers"],
                      "model.heads": config["num_attention_heads"], "model.kv_heads": config["num_key_value_heads"],
                      "model.head_dim": config["head_dim"], "model.rms_norm_eps": config["rms_norm_eps"],
                      "model.initializer_range": config["initializer_range"]}  # fmt: skip
        p = {key: initial_value(key, shape, run["train.seed"], config["initializer_range"]) for key, shape in model.shapes().items()}
    flops = flops_of_step(model, p, tokens)
    for value in p.values():
        value.requires_grad_()
    weight_decay = run["train.weight_decay"]
    groups = [{"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": weight_decay},
              {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}]  # fmt: skip
    # The rate given here is replaced before every step.
    if run.get("train.optimizer") == "sgd":
        optimizer = torch.optim.SGD(groups, lr=1.0, momentum=run["train.momentum"], nesterov=run.get("train.nesterov", False))
    else:
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(run["train.beta1"], run["train.beta2"]), eps=run["train.epsilon"])
    steps = []
    for step in range(run["train.steps"]):
        batches = [microbatch(tokens, run["train.seed"], step, m, run.get("data.packing", True)) for m in range(MICROBATCHES)]
        targets = sum(int((batch[1] >= 0).sum()) for batch in batches)
        optimizer.zero_grad()
        loss = sum(model.loss_sum(p, *batch) for batch in batches) / targets
        loss.backward()
        max_norm = run["train.clip"] if run["train.clip"] > 0 else math.inf
        norm = torch.nn.utils.clip_grad_norm_(p.values(), max_norm)
        rate = learning_rate(run, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        steps.append({"loss": loss.item(), "gradient_norm": norm.item(), "learning_rate": rate, "targets": targets})
    gradient_norms = [step["gradient_norm"] for step in steps]
    if run["train.clip"] > 0:
        clip = run["train.clip"]
        assert min(gradient_norms) < clip < max(gradient_norms), f"{name}: gradient norms {gradient_norms}, expected some on either side of {clip}"
    text = {key: json.dumps(value) if isinstance(value, bool) else str(value) for key, value in arguments.items()}
    record = {"arguments": [f"{key}={value}" for key, value in text.items()], "flops_per_step": flops, "steps": steps,
              "parameter_norms": {key: value.norm().item() for key, value in p.items()}}  # fmt: skip
    with open(os.path.join(ROOT, RUNS, name + ".json"), "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    print(name, "losses", [round(step["loss"], 4) for step in steps], "gradient norms", [round(norm, 3) for norm in gradient_norms])
    return {key: value.detach().float() for key, value in p.items()}


def write_tokens():
    """Writes documents of 1 to 30 tokens, the separator at their end included; the last one is cut. They fill 21 windows and a part of another."""
    count = 21 * SEQUENCE + 6
    generator = random.Random(5)
    tokens = []
    while len(tokens) < count:
        start = generator.randrange(1, 128)
        tokens += [1 + (start + 3 * i + generator.randrange(4)) % 127 for i in range(generator.randrange(30))] + [SEPARATOR]
    tokens = tokens[:count]
    with open(os.path.join(ROOT, RUNS, "tokens.bin"), "wb") as file:
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))
    return tokens


def main():
    torch.set_num_threads(1)
    with open(os.path.join(ROOT, LLAMA, "config.json")) as file:
        config = json.load(file)
    check_model(config)
    os.makedirs(os.path.join(ROOT, RUNS), exist_ok=True)
    tokens = write_tokens()
    # Epsilon is about as large as the root of the second moment: with a tiny one, rounding would decide the sign of an update whose gradient is
    # almost zero.
    final_parameters = train("cosine", {"model.from": LLAMA, "train.seed": 7, "train.steps": 10, "train.decay": "cosine", "train.warmup_steps": 3,
                             "train.learning_rate": 0.02, "train.final_learning_rate": 0.004, "train.beta1": 0.8, "train.beta2": 0.97,
                             "train.epsilon": 0.003, "train.weight_decay": 0.3, "train.clip": 2.0}, config, tokens)  # fmt: skip
    save_file(final_parameters, os.path.join(ROOT, RUNS, "cosine.safetensors"))
    train("linear", {"train.seed": 11, "train.steps": 8, "train.decay": "linear", "train.warmup_steps": 2, "train.learning_rate": 0.01,
                     "train.final_learning_rate": 0.002, "train.beta1": 0.7, "train.beta2": 0.9, "train.epsilon": 0.001,
                     "train.weight_decay": 0.5, "train.clip": 2.4, "model.tie_word_embeddings": True}, config, tokens)  # fmt: skip
    train("wsd", {"train.seed": 12345678901, "train.steps": 9, "train.decay": "wsd", "train.warmup_steps": 1, "train.decay_steps": 4,
                  "train.learning_rate": 0.015, "train.final_learning_rate": 0.001, "train.beta1": 0.95, "train.beta2": 0.999,
                  "train.epsilon": 0.002, "train.weight_decay": 0.05, "train.clip": 0.0, "data.packing": False}, config, tokens)  # fmt: skip
    train("constant", {"train.seed": 3, "train.steps": 5, "train.decay": "constant", "train.warmup_steps": 2, "train.learning_rate": 0.008,
                       "train.beta1": 0.0, "train.beta2": 0.5, "train.epsilon": 0.001, "train.weight_decay": 1.0,
                       "train.clip": 2.4}, config, tokens)  # fmt: skip
    train("sgd", {"train.optimizer": "sgd", "train.seed": 9, "train.steps": 7, "train.decay": "constant", "train.warmup_steps": 2,
                  "train.learning_rate": 0.04, "train.momentum": 0.7, "train.weight_decay": 0.2, "train.clip": 2.4},
          config, tokens)  # fmt: skip
    train("nesterov", {"train.optimizer": "sgd", "train.seed": 13, "train.steps": 8, "train.decay": "cosine", "train.warmup_steps": 1,
                       "train.learning_rate": 0.05, "train.final_learning_rate": 0.01, "train.momentum": 0.8, "train.nesterov": True,
                       "train.weight_decay": 0.4, "train.clip": 2.4}, config, tokens)  # fmt: skip


if __name__ == "__main__":
    main()
