#!/usr/bin/env python3
"""A training step of bench-moe-100m with transformers on the CPU, timed: one line of JSON with tokens per second.

    python transformers_mixture.py [--experts eager|grouped_mm|batched_mm] [--compile] [--dtype fp32|autocast|bf16] [--threads 2] [--steps 10]
                                   [--batch 4] [--seq 512]

`--experts` is transformers' way to multiply them: a loop over experts, torch's grouped product, or one product per choice. bf16 has fp32
masters in the optimizer, as millrace has. Medians over the steps behind the first three. Needs: torch, transformers.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM


def model_of(arguments):
    config = Qwen3MoeConfig(
        vocab_size=8192, hidden_size=512, intermediate_size=1408, moe_intermediate_size=448, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4, head_dim=64, num_experts=16, num_experts_per_tok=2, norm_topk_prob=True, max_position_embeddings=2048,
        rms_norm_eps=1e-6, tie_word_embeddings=False, output_router_logits=False, use_cache=False)
    config._attn_implementation = "sdpa"
    config._experts_implementation = arguments.experts
    return Qwen3MoeForCausalLM(config)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", choices=["eager", "grouped_mm", "batched_mm"], default="eager")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--dtype", choices=["fp32", "autocast", "bf16"], default="fp32")
    for name, default in {"threads": 2, "steps": 10, "batch": 4, "seq": 512}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = model_of(arguments)
    wide = arguments.dtype != "bf16"
    if not wide:
        model = model.bfloat16()
    weights = list(model.parameters())
    masters = weights if wide else [weight.detach().float().requires_grad_() for weight in weights]
    optimizer = torch.optim.AdamW(masters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if arguments.compile else model
    ids = torch.randint(0, 8192, (arguments.batch, arguments.seq + 1), generator=torch.Generator().manual_seed(1))
    times = []
    for step in range(arguments.steps + 3):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == "autocast"):
            logits = run(input_ids=ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        if not wide:
            for weight, master in zip(weights, masters):
                master.grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not wide:
            with torch.no_grad():
                for weight, master in zip(weights, masters):
                    weight.copy_(master)
        loss.item()
        if step >= 3:
            times.append(time.perf_counter() - begin)
    tokens = arguments.batch * arguments.seq
    print(json.dumps({
        "tokens_per_s": round(tokens / statistics.median(times), 2), "step_s": round(statistics.median(times), 5),
        "params_m": round(sum(weight.numel() for weight in weights) / 1e6, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
