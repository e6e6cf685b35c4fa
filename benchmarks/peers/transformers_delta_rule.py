#!/usr/bin/env python3
"""The gated delta rule of transformers' Qwen3-Next in chunks of 64, in fp32 on the CPU, timed: one line of JSON with the milliseconds of a forward
and of a forward with its gradient, and how far its result is from the recurrence.

    python transformers_delta_rule.py [--threads 2] [--seq 2048] [--key-heads 16] [--value-heads 32] [--width 128]

The best of some calls, as delta_bench counts. Needs: torch, transformers.
"""
import argparse
import json
import time

import torch
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next


def best_ms(call):
    call()
    best, end = float("inf"), time.perf_counter() + 2
    while time.perf_counter() < end or best == float("inf"):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return round(best * 1e3, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"threads": 2, "seq": 2048, "key-heads": 16, "value-heads": 32, "width": 128}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    tokens, width = arguments.seq, arguments.width
    keys = [torch.nn.functional.normalize(torch.randn(1, tokens, arguments.key_heads, width), dim=-1) for _ in range(2)]
    value = torch.rand(1, tokens, arguments.value_heads, width) * 2 - 1
    decay, rate = torch.rand(1, tokens, arguments.value_heads) * -0.2, torch.rand(1, tokens, arguments.value_heads) * 0.8 + 0.1
    operands = [operand.requires_grad_() for operand in (*keys, value, decay, rate)]
    result_gradient = torch.rand_like(value)

    def forward():
        with torch.no_grad():
            return qwen3_next.torch_chunk_gated_delta_rule(*operands)[0]

    def step():
        qwen3_next.torch_chunk_gated_delta_rule(*operands)[0].backward(result_gradient)

    with torch.no_grad():
        recurrent = qwen3_next.torch_recurrent_gated_delta_rule(*operands, initial_state=None, output_final_state=False)[0]
    distance = (forward() - recurrent).abs().max().item()
    print(json.dumps({"forward_ms": best_ms(forward), "step_ms": best_ms(step), "distance": distance}))


if __name__ == "__main__":
    main()
