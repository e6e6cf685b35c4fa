#!/usr/bin/env python3
"""The peak of PyTorch's matmul: large square products of one dtype, as one line of JSON with "gflops".

    python torch_matmul.py [--dtype fp32|bf16] [--threads 2]

The best of some calls at each size, because what disturbs a call only slows it. Needs: torch.
"""
import argparse
import json
import time

import torch


def gflops(size, dtype):
    a = torch.randn(size, size).to(dtype)
    b = torch.randn(size, size).to(dtype)
    torch.matmul(a, b.T)
    best, end = float("inf"), time.perf_counter() + 0.5
    while time.perf_counter() < end or best == float("inf"):
        begin = time.perf_counter()
        torch.matmul(a, b.T)
        best = min(best, time.perf_counter() - begin)
    return 2e-9 * size**3 / best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[arguments.dtype]
    print(json.dumps({"gflops": round(max(gflops(size, dtype) for size in (1024, 2048, 4096)), 1)}))


if __name__ == "__main__":
    main()
