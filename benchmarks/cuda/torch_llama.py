#!/usr/bin/env python3
"""The alternative in PyTorch on a GPU: timed training steps of the Llama of configs/runs/cuda-1b.toml.

    python3 torch_llama.py --batch 4 --microbatches 4 [--dtype bf16|autocast] [--no-compile] [--steps 10] [--checkpoint]

torch.compile, scaled_dot_product_attention (flash attention), fused AdamW, gradients clipped. Prints one line of JSON: tokens per second and
seconds of a step (medians), model FLOP/s as millrace counts them, the largest device memory, the first losses. --dtype: autocast (fp32
weights, torch.autocast to bf16) or bf16 (bf16 weights, gradients and moments: less exact than millrace, which keeps fp32 masters, moments
and gradient sums; a faster peer than a user should want). --checkpoint: each layer's forward is computed again in backward.
--small: tiny sizes, on a CPU where there is no GPU, to try the script. Needs torch alone.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, mlp):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, hidden // heads
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.width, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * mlp, bias=False)
        self.down = nn.Linear(mlp, hidden, bias=False)
        self.attention_norm, self.mlp_norm = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)

    def forward(self, x, cos, sin):
        rows, tokens, hidden = x.shape
        parts = self.qkv(self.attention_norm(x)).split([self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width], -1)
        q, k, v = (part.view(rows, tokens, -1, self.width).transpose(1, 2) for part in parts)

        def rotated(t):
            a, b = t.chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(v.dtype)

        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.out(y.transpose(1, 2).reshape(rows, tokens, hidden))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(Block(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.mlp) for _ in range(sizes.layers))
        self.norm, self.head = nn.RMSNorm(sizes.hidden, eps=1e-5), nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        self.recompute = sizes.checkpoint
        width = sizes.hidden // sizes.heads
        angles = torch.outer(torch.arange(sizes.sequence).float(), 5e5 ** (-torch.arange(0, width, 2).float() / width))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, self.cos, self.sin, use_reentrant=False) if self.recompute else layer(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), targets.flatten())


def flops_per_token(sizes):
    """6 per weight of a matrix product, plus the unmasked pairs of causal attention, as millrace counts."""
    width = sizes.hidden // sizes.heads
    layer = sizes.hidden * (sizes.heads + 2 * sizes.kv_heads) * width + sizes.hidden**2 + 3 * sizes.hidden * sizes.mlp
    return 6 * (sizes.layers * layer + sizes.hidden * sizes.vocabulary) + 6 * sizes.layers * sizes.sequence * sizes.hidden


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(hidden=2048, layers=18, heads=32, kv_heads=8, mlp=8192, vocabulary=32768, sequence=4096, batch=4, microbatches=4, steps=10, skip=4)
    for name, value in sizes.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--dtype", choices=["autocast", "bf16"], default="bf16")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--mode", default="default", help="of torch.compile: default, max-autotune-no-cudagraphs …")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    if arguments.small:
        arguments.hidden, arguments.layers, arguments.mlp, arguments.vocabulary, arguments.sequence = 64, 2, 128, 257, 32
        arguments.heads, arguments.kv_heads, arguments.steps, arguments.skip = 4, 2, 2, 1
    return arguments


def main():
    sizes = read_arguments()
    on_gpu = torch.cuda.is_available()
    if not on_gpu and not sizes.small:
        raise SystemExit("torch sees no GPU")
    device = "cuda" if on_gpu else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    with torch.device(device):
        model = Llama(sizes)
    if sizes.dtype == "bf16":
        model = model.bfloat16()
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model, mode=None if sizes.mode == "default" else sizes.mode) if sizes.compile else model
    ids = torch.randint(0, sizes.vocabulary, (sizes.microbatches, sizes.batch, sizes.sequence + 1), device=device)
    inputs, targets = ids[:, :, :-1].contiguous(), ids[:, :, 1:].contiguous()

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    seconds, losses = [], []
    for step in range(sizes.skip + sizes.steps):
        wait()
        begin = time.perf_counter()
        total = torch.zeros((), device=device)
        for microbatch in range(sizes.microbatches):
            with torch.autocast(device, torch.bfloat16, enabled=sizes.dtype == "autocast"):
                loss = forward(inputs[microbatch], targets[microbatch]) / sizes.microbatches
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        if step >= sizes.skip:
            seconds.append(time.perf_counter() - begin)
        losses.append(round(total.item(), 4))
    median, tokens = statistics.median(seconds), sizes.microbatches * sizes.batch * sizes.sequence
    print(json.dumps({"peer": "torch " + torch.__version__, "device": torch.cuda.get_device_name() if on_gpu else "cpu", "dtype": sizes.dtype,
                      "compile": sizes.compile, "checkpoint": sizes.checkpoint, "batch": sizes.batch, "tokens_per_s": round(tokens / median, 1),
                      "step_s": round(median, 5), "tflops": round(tokens / median * flops_per_token(sizes) * 1e-12, 2),
                      "parameters": sum(weight.numel() for weight in weights),
                      "device_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if on_gpu else None, "losses": losses[:5]}))


if __name__ == "__main__":
    main()
