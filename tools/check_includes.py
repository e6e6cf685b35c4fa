#!/usr/bin/env python3
"""Holds the arrows of docs/architecture.md: who may include whom, and through which door each library enters.

Prints one line a violation (file:line: what it includes, what it may) and exits 1 when there is any.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ["kernels", "runtime", "layers", "cluster", "actors", "configs"]
OPEN = ["tools", "tests", "benchmarks", "examples"]

# A room may include itself and the prefixes given here.
ARROWS = {
    "kernels": [],
    "runtime": ["kernels/"],
    "layers": ["runtime/program/", "runtime/io/", "kernels/base/"],
    "cluster": ["kernels/base/"],
    "actors": ["layers/", "runtime/", "cluster/", "kernels/"],
    "configs": [],  # only *_config.hpp of other rooms, and the ground
}
EVERYWHERE = ["kernels/base/check.hpp", "kernels/base/nearest.hpp"]  # what errors are made of

# Library -> pattern of its headers, places that may include it.
DOORS = {
    "CUDA": (r"^(cuda|cublas|cudnn|nccl|nvtx)", ["kernels/cuda/"]),
    "oneDNN": (r"^(dnnl|oneapi/dnnl)", ["kernels/cpu/"]),
    "CAF": (r"^caf/", ["actors/"]),
    "MPI": (r"^mpi\.h", ["cluster/"]),
    "Asio": (r"^boost/", ["cluster/"]),
    "TOML++": (r"^toml\+\+/", ["configs/load.cpp"]),
    "PCRE2": (r"^pcre2\.h", ["runtime/data/tokenizers/pattern_splitter.cpp"]),
    "utf8proc": (r"^utf8proc\.h", ["runtime/data/tokenizers/unicode.cpp"]),
    "SentencePiece": (r"^sentencepiece", ["runtime/data/tokenizers/sentence_piece.cpp"]),
    "GoogleTest": (r"^(gtest|gmock)/", ["tests/"]),
}
# Doors hold for the rooms; tests and benchmarks may compare with a library directly.
FREE = ("tests/", "benchmarks/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def violations(path: pathlib.Path):
    name = path.relative_to(ROOT).as_posix()
    room = name.split("/")[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        if quote == "<":
            for library, (pattern, places) in DOORS.items():
                if re.match(pattern, target) and not name.startswith(tuple(places)) and not name.startswith(FREE):
                    yield f"{name}:{number}: <{target}>: {library} enters in {', '.join(places)} only"
            continue
        if not (ROOT / target).exists():
            yield f'{name}:{number}: "{target}" is not a path from the root'
            continue
        if room not in ARROWS or target.split("/")[0] == room or target in EVERYWHERE:
            continue
        allowed = ARROWS[room]
        if room == "configs" and target.endswith("_config.hpp") and target.split("/")[0] in ROOMS:
            continue
        if not target.startswith(tuple(allowed)):
            yield f'{name}:{number}: "{target}": {room} may include {", ".join(allowed) or "*_config.hpp of other rooms"} only'


def cycle(graph):
    """One cycle of includes, or None."""
    state, path = {}, []

    def visit(node):
        state[node] = 1
        path.append(node)
        for target in graph.get(node, ()):
            if state.get(target) == 1:
                return path[path.index(target):] + [target]
            if target not in state and (found := visit(target)):
                return found
        path.pop()
        state[node] = 2
        return None

    for node in graph:
        if node not in state and (found := visit(node)):
            return found
    return None


def main() -> int:
    files = [p for room in ROOMS + OPEN if (ROOT / room).is_dir() for p in sorted((ROOT / room).rglob("*")) if p.suffix in {".cpp", ".hpp", ".cu", ".cuh", ".inl"}]
    found = [line for path in files for line in violations(path)]
    graph = {}
    for path in files:
        graph[path.relative_to(ROOT).as_posix()] = [m.group(2) for line in path.read_text().splitlines() if (m := INCLUDE.match(line)) and m.group(1) == '"']
    if loop := cycle(graph):
        found.append("cycle of includes: " + " -> ".join(loop))
    for line in found:
        print(line)
    print(f"includes: {len(files)} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
