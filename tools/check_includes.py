#!/usr/bin/env python3
"""Checks the includes against docs/architecture.md: which room may include which, the order of the parts of a room, and the places that may
include each library.

    tools/check_includes.py             prints one line per violation (file:line: what it includes, what it may) and exits with 1 if there is one
    tools/check_includes.py --report    also prints which folder includes which, pairs of folders that include each other, and cycles
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
    "configs": ["layers/family_traits.hpp", "kernels/base/devices.inc"],  # and *_config.hpp of other rooms, and EVERYWHERE
}
# The parts of a room, lowest first: each includes itself and the parts before it. "models/*" is every folder of models, and "*" every folder
# of the room that is not named: they do not include each other.
PARTS = {
    "kernels": ["base", ".", "reference", "cpu/simd", "cpu/gemm", "cpu", "*"],
    "runtime": [".", "io", "checkpoint", "program", "program/ops", "passes", "schedule", "schedule/generators", "schedule/simulator", "optimizers", "engine", "profile", "profile/report", "data", "data/tokenizers", "data/templates"],
    "layers": [".", "attention", "losses", "moe", "formats/hugging_face", "formats/maxtext", "models", "models/*", "formats"],
    "cluster": [".", "host", "links", "exchange", "control", "status"],
    "actors": ["setup", "messages", "rank", ".", "telemetry", "jobs", "planning", "debug"],
    "tools": ["commands", "."],
}
EVERYWHERE = ["kernels/base/check.hpp", "kernels/base/nearest.hpp", "kernels/base/count.hpp"]  # needed to throw errors

# Library -> pattern of its headers, and the only places that may include them.
LIBRARY_PLACES = {
    "CUDA": (r"^(cuda|cublas|cudnn|nccl|nvtx)", ["kernels/cuda/"]),
    "oneDNN": (r"^(dnnl|oneapi/dnnl)", ["benchmarks/kernels/"]),
    "CAF": (r"^caf/", ["actors/"]),
    "MPI": (r"^mpi\.h", ["cluster/"]),
    "spdlog": (r"^spdlog/", ["cluster/host/log.cpp"]),
    "Asio": (r"^boost/(?!crc)", ["cluster/"]),
    "Boost.CRC": (r"^boost/crc", ["runtime/io/crc32c.cpp"]),
    "TOML++": (r"^toml\+\+/", ["configs/load.cpp"]),
    "CLI11": (r"^CLI/", ["tools/commands/command_line.cpp"]),
    "PCRE2": (r"^pcre2\.h", ["runtime/data/tokenizers/pattern_splitter.cpp"]),
    "utf8proc": (r"^utf8proc\.h", ["runtime/data/tokenizers/unicode.cpp"]),
    "SentencePiece": (r"^sentencepiece", ["runtime/data/tokenizers/sentence_piece.cpp"]),
    "GoogleTest": (r"^(gtest|gmock)/", ["tests/"]),
}
# LIBRARY_PLACES applies to the rooms; tests and benchmarks may use a library directly, to compare with it.
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
            for library, (pattern, places) in LIBRARY_PLACES.items():
                if re.match(pattern, target) and not name.startswith(tuple(places)) and not name.startswith(FREE):
                    yield f"{name}:{number}: <{target}>: only {', '.join(places)} may include {library}"
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


def part_of(name):
    """("actors", "rank") of actors/rank/rank.cpp; ("actors", ".") of actors/pipeline.cpp."""
    room, _, rest = name.partition("/")
    return room, rest.rpartition("/")[0] or "."


def place_of(part, order):
    """The index of a part in the order of its room, or None."""
    if part in order:
        return order.index(part)
    parent = part.rpartition("/")[0]
    whole = parent + "/*" if parent else "*"
    return order.index(whole) if whole in order else None


def misplaced(name, targets):
    """Includes of a file that point to a later part of its own room."""
    room, part = part_of(name)
    if room not in PARTS:
        return
    order = PARTS[room]
    place = place_of(part, order)
    if place is None:
        yield f"{name}: {room}/{part} is not a part of {room}; expected one of: {', '.join(order)} (PARTS in tools/check_includes.py)"
        return
    for number, target in targets:
        other_room, other = part_of(target)
        other_place = place_of(other, order) if other_room == room else None
        if other_place is None or other == part:
            continue
        if other_place > place:
            yield f'{name}:{number}: "{target}": {room}/{part} is lower than {room}/{other} and may not include it'
        elif other_place == place:
            yield f'{name}:{number}: "{target}": {room}/{part} and {room}/{other} are of the same height and may not include each other'


def report(graph):
    """Prints the folders' includes. Returns the number of mutual pairs and of folders in cycles."""
    folders = {}
    for name, targets in graph.items():
        if name.split("/")[0] in ROOMS + ["tools"]:
            for target in targets:
                a, b = name.rpartition("/")[0], target.rpartition("/")[0]
                if a != b:
                    folders.setdefault(a, set()).add(b)
    for folder in sorted(folders):
        print(f"{folder} -> {' '.join(sorted(folders[folder]))}")
    mutual = sorted((a, b) for a in folders for b in folders[a] if a < b and a in folders.get(b, ()))
    for a, b in mutual:
        print(f"mutual: {a} <-> {b}")

    def reachable(start):
        seen, stack = set(), [start]
        while stack:
            for target in folders.get(stack.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return seen

    circular = sorted(folder for folder in folders if folder in reachable(folder))
    print(f"{len(folders)} folders, {len(mutual)} mutual pairs, {len(circular)} folders in cycles{': ' if circular else ''}{' '.join(circular)}")


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
        name = path.relative_to(ROOT).as_posix()
        targets = [(number, m.group(2)) for number, line in enumerate(path.read_text().splitlines(), 1) if (m := INCLUDE.match(line)) and m.group(1) == '"']
        found += misplaced(name, targets)
        graph[name] = [target for _, target in targets]
    if loop := cycle(graph):
        found.append("cycle of includes: " + " -> ".join(loop))
    if "--report" in sys.argv[1:]:
        report(graph)
    for line in found:
        print(line)
    print(f"includes: {len(files)} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
