#!/usr/bin/env python3
"""Trains a small Llama in PyTorch and writes the results of every step to tests/golden/runs, for tests/training/reference_run_test.cpp.

    python3 tools/reference/train_steps.py      # needs torch and safetensors

Nothing here comes from millrace: the model, the order of the data, the initial values and the learning rate are written again from their
definitions, and the optimizer is torch.optim.AdamW or torch.optim.SGD. All arithmetic is in float64, so that a difference is the other side's rounding.

Each run is a JSON file: the words that `millrace train` gets, and of every step its loss, gradient norm before clipping, learning rate and
targets; then the norm of every parameter at the end, and the FLOPs of a step. `cosine.safetensors` has all parameters of one run's end.
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
SEPARATOR, SEQUENCE, ROWS, MICROBATCHES = 0, 16, 2, 4
MASK64 = 2**64 - 1


# -- the order of the data: a Feistel permutation of the windows, keyed by seed and epoch ---------------------------------------------------

GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def permuted(index, n, seed, epoch):
    bits = ((n - 1).bit_length() + 1) // 2 if n > 1 else 0
    state = mix(seed) ^ mix((epoch + GOLDEN) & MASK64)
    keys = []
    for _ in range(8):
        state = (state + GOLDEN) & MASK64
        keys.append(mix(state))
    mask = (1 << bits) - 1
    while True:
        left, right = index >> bits, index & mask
        for key in keys:
            left, right = right, left ^ (mix(right ^ key) & mask)
        index = (left << bits) | right
        if index < n:
            return index


def microbatch(tokens, seed, step, number, packing):
    """Tokens, targets (-1: none), positions and documents of one microbatch, each [rows, sequence]."""
    windows = (len(tokens) - 1) // SEQUENCE
    columns = ([], [], [], [])
    for row in range(ROWS):
        sample = (step * MICROBATCHES + number) * ROWS + row
        first = permuted(sample % windows, windows, seed, sample // windows) * SEQUENCE
        window = tokens[first : first + SEQUENCE + 1]
        place = document = 0
        places, documents, targets = [], [], []
        for t in range(SEQUENCE):
            places.append(place if packing else t)
            documents.append(document if packing else 0)
            ends = window[t] == SEPARATOR
            targets.append(-1 if ends else window[t + 1])
            place, document = (0, document + 1) if ends else (place + 1, document)
        for column, values in zip(columns, (window[:-1], targets, places, documents)):
            column.append(values)
    return [torch.tensor(column) for column in columns]


# -- initial values: Philox 4x32-10 keyed by the seed, counting elements under the tensor's name -------------------------------------------


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def initial(name, shape, seed, deviation):
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.float64)
    code = 0xCBF29CE484222325  # FNV-1a
    for letter in name.encode():
        code = ((code ^ letter) * 0x100000001B3) & MASK64
    normal = statistics.NormalDist()
    values = []
    for block in range(math.prod(shape) // 4):
        words = philox(
            (block & 0xFFFFFFFF, block >> 32, code & 0xFFFFFFFF, code >> 32),
            (seed & 0xFFFFFFFF, seed >> 32),
        )
        values += [normal.inv_cdf((word + 0.5) * 2.0**-32) * deviation for word in words]
    return torch.tensor(values).float().double().reshape(shape)  # a parameter is stored in fp32


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

    def norm(self, x, scale):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.config["rms_norm_eps"]) * scale

    def rotate(self, x, places):
        """x [rows, heads, sequence, head_dim]; the pairs are the halves of a head."""
        half = x.shape[-1] // 2
        frequencies = self.config["rope_parameters"]["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = places[:, None, :, None].double() * frequencies
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def logits(self, p, tokens, places, documents):
        c = self.config
        rows, sequence = tokens.shape
        head = c["head_dim"]
        sees = documents[:, :, None] == documents[:, None, :]
        sees = sees & torch.ones(sequence, sequence, dtype=torch.bool).tril()
        x = p["model.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            w = lambda name: p[f"model.layers.{i}.{name}.weight"]
            h = self.norm(x, w("input_layernorm"))
            split = lambda y: y.reshape(rows, sequence, -1, head).transpose(1, 2)
            q = self.rotate(split(h @ w("self_attn.q_proj").T), places)
            k = self.rotate(split(h @ w("self_attn.k_proj").T), places)
            v = split(h @ w("self_attn.v_proj").T)
            groups = c["num_attention_heads"] // c["num_key_value_heads"]
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            scores = (q @ k.transpose(2, 3) / math.sqrt(head)).masked_fill(~sees[:, None], -math.inf)
            context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, sequence, -1)
            x = x + context @ w("self_attn.o_proj").T
            h = self.norm(x, w("post_attention_layernorm"))
            gate = h @ w("mlp.gate_proj").T
            x = x + (gate * torch.sigmoid(gate) * (h @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
        x = self.norm(x, p["model.norm.weight"])
        return x @ p["model.embed_tokens.weight" if self.tied else "lm_head.weight"].T

    def loss_sum(self, p, tokens, targets, places, documents):
        logits = self.logits(p, tokens, places, documents)
        logp = logits.log_softmax(-1)
        known = targets >= 0
        return -logp.gather(-1, targets.clamp(min=0)[..., None])[..., 0][known].sum()


def check_model(config):
    """Checks that the model above equals that of transformers, by its loss on the recorded tokens."""
    golden = load_file(os.path.join(ROOT, LLAMA, "golden.safetensors"))
    weights = {name: value.double() for name, value in load_file(os.path.join(ROOT, LLAMA, "model.safetensors")).items()}
    ids = golden["input_ids"]
    places = torch.arange(ids.shape[1]).expand(ids.shape)
    targets = torch.cat([ids[:, 1:], torch.full((ids.shape[0], 1), -1)], 1)
    loss = Llama(config, False).loss_sum(weights, ids, targets, places, torch.zeros_like(ids)) / (targets >= 0).sum()
    assert abs(loss - golden["loss"].double()) < 2e-6, (loss, golden["loss"])


# -- a run -------------------------------------------------------------------------------------------------------------------------------------


def learning_rate(run, s):
    peak, final = run["train.learning_rate"], run.get("train.final_learning_rate", 0.0)
    steps, warmup = run["train.steps"], run.get("train.warmup_steps", 0)
    if s < warmup:
        return peak * (s + 1) / warmup
    if run["train.decay"] == "cosine":
        return final + (peak - final) * (1 + math.cos(math.pi * (s - warmup) / (steps - warmup))) / 2
    if run["train.decay"] == "linear":
        return peak + (final - peak) * (s - warmup) / (steps - warmup)
    if run["train.decay"] == "wsd" and s >= steps - run["train.decay_steps"]:
        return peak + (final - peak) * (s - (steps - run["train.decay_steps"])) / run["train.decay_steps"]
    return peak


def flops_of_step(model, p, tokens):
    """Forward once, backward twice; a causal mask keeps half of the pairs of query and key."""
    batch = microbatch(tokens, 1, 0, 0, False)
    with FlopCounterMode(display=False) as counter:
        model.logits(p, batch[0], batch[2], batch[3])
    counts = {str(op): number for op, number in counter.get_flop_counts()["Global"].items()}
    pairs = sum(number for op, number in counts.items() if "bmm" in op)
    return MICROBATCHES * 3 * (sum(counts.values()) - pairs / 2)


def train(name, run, config, tokens):
    words = {"data.tokens": f"{RUNS}/tokens.bin", "data.separator": SEPARATOR, "data.held_out": 0, "train.sequence": SEQUENCE,
             "train.batch": ROWS, "train.microbatches": MICROBATCHES, **run}  # fmt: skip
    tied = run.get("model.tie_word_embeddings", False)
    model = Llama(config, tied)
    if "model.from" in run:
        weights = load_file(os.path.join(ROOT, run["model.from"], "model.safetensors"))
        p = {key: weights[key].double() for key in model.shapes()}
    else:
        words |= {"model.vocab_size": config["vocab_size"], "model.hidden_size": config["hidden_size"],
                  "model.intermediate_size": config["intermediate_size"], "model.layers": config["num_hidden_layers"],
                  "model.heads": config["num_attention_heads"], "model.kv_heads": config["num_key_value_heads"],
                  "model.head_dim": config["head_dim"], "model.rms_norm_eps": config["rms_norm_eps"],
                  "model.initializer_range": config["initializer_range"]}  # fmt: skip
        p = {key: initial(key, shape, run["train.seed"], config["initializer_range"]) for key, shape in model.shapes().items()}
    flops = flops_of_step(model, p, tokens)
    for value in p.values():
        value.requires_grad_()
    decay = run["train.weight_decay"]
    groups = [{"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": decay},
              {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}]  # fmt: skip
    if run.get("train.optimizer") == "sgd":
        optimizer = torch.optim.SGD(groups, lr=1.0, momentum=run["train.momentum"], nesterov=run.get("train.nesterov", False))
    else:
        optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(run["train.beta1"], run["train.beta2"]), eps=run["train.epsilon"])
    steps = []
    for s in range(run["train.steps"]):
        batches = [microbatch(tokens, run["train.seed"], s, m, run.get("data.packing", True)) for m in range(MICROBATCHES)]
        targets = sum(int((batch[1] >= 0).sum()) for batch in batches)
        optimizer.zero_grad()
        loss = sum(model.loss_sum(p, *batch) for batch in batches) / targets
        loss.backward()
        clip = run["train.clip"]
        norm = torch.nn.utils.clip_grad_norm_(p.values(), clip if clip > 0 else math.inf)
        rate = learning_rate(run, s)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        steps.append({"loss": loss.item(), "gradient_norm": norm.item(), "learning_rate": rate, "targets": targets})
    norms = [step["gradient_norm"] for step in steps]
    if run["train.clip"] > 0:
        assert min(norms) < run["train.clip"] < max(norms), f"{name}: the clip must bite in some steps and not in others: {norms}"
    text = {key: json.dumps(value) if isinstance(value, bool) else str(value) for key, value in words.items()}
    record = {"words": [f"{key}={value}" for key, value in text.items()], "flops_per_step": flops, "steps": steps,
              "norms": {key: value.norm().item() for key, value in p.items()}}  # fmt: skip
    with open(os.path.join(ROOT, RUNS, name + ".json"), "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    print(name, "losses", [round(step["loss"], 4) for step in steps], "norms", [round(norm, 3) for norm in norms])
    return {key: value.detach().float() for key, value in p.items()}


def write_tokens():
    """Documents of 1 to 30 tokens that end with the separator; 21 whole windows of a row and an incomplete one."""
    draw = random.Random(5)
    tokens = []
    while len(tokens) < 21 * SEQUENCE + 6:
        start = draw.randrange(1, 128)
        tokens += [1 + (start + 3 * i + draw.randrange(4)) % 127 for i in range(draw.randrange(30))] + [SEPARATOR]
    tokens = tokens[: 21 * SEQUENCE + 6]
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
    # An epsilon of the order of the roots: with a tiny one, rounding would decide the direction of an entry whose gradient is near zero.
    after = train("cosine", {"model.from": LLAMA, "train.seed": 7, "train.steps": 10, "train.decay": "cosine", "train.warmup_steps": 3,
                             "train.learning_rate": 0.02, "train.final_learning_rate": 0.004, "train.beta1": 0.8, "train.beta2": 0.97,
                             "train.epsilon": 0.003, "train.weight_decay": 0.3, "train.clip": 2.0}, config, tokens)  # fmt: skip
    save_file(after, os.path.join(ROOT, RUNS, "cosine.safetensors"))
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
