#!/usr/bin/env python3
"""Writes an llm.c token file of random tokens, which suffices for a benchmark.

    python3 random_tokens.py FILE [--vocabulary 8192] [--count 1000000]

Layout: 256 little-endian int32 (20240520, 1, count, zeros), then the tokens as uint16. Needs nothing but Python.
"""
import argparse
import array
import random
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--count", type=int, default=1_000_000)
    arguments = parser.parse_args()
    if not 1 <= arguments.vocabulary <= 65536:
        parser.error("--vocabulary: 1 to 65536, tokens have 16 bits")
    header = array.array("i", [20240520, 1, arguments.count] + [0] * 253)
    generator = random.Random(1)
    tokens = array.array("H", generator.choices(range(arguments.vocabulary), k=arguments.count))
    if sys.byteorder == "big":
        header.byteswap()
        tokens.byteswap()
    with open(arguments.file, "wb") as file:
        header.tofile(file)
        tokens.tofile(file)


if __name__ == "__main__":
    main()
