"""The mixed text of the tokenizer tests, as tests/support/mixed_text.hpp makes it: the same bytes from the same seed."""
import pathlib
import re

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
RANGES = [(0xA1, 0x24F), (0x300, 0x36F), (0x391, 0x3A9), (0x400, 0x45F), (0x5D0, 0x5EA), (0x621, 0x64A), (0x905, 0x939), (0xE01, 0xE30),
          (0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2), (0xAC00, 0xD7A3), (0x3041, 0x3096), (0x4E00, 0x9FA5), (0x2000, 0x206F),
          (0x20A0, 0x20BD), (0x2460, 0x249B), (0x1F600, 0x1F64F), (0x1D400, 0x1D454), (0x660, 0x669), (0x2150, 0x2182), (0x1E00, 0x1EFF)]


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + GOLDEN) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return (x ^ (x >> 31)) % n


def unescape(text):
    def one(match):
        body = match.group(1)
        if body[0] == "u":
            return chr(int(body[2:-1], 16))
        return {"s": " ", "n": "\n", "r": "\r", "t": "\t", "\\": "\\"}[body]

    return re.sub(r"\\(u\{[0-9A-F]+\}|[snrt\\])", one, text)


def read_sections(path):
    sections = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line or line.startswith("# "):
            continue
        if line.startswith("= "):
            _, _, weight, joiner = line.split(" ")
            sections.append(("" if joiner == "-" else unescape(joiner), int(weight), []))
        else:
            sections[-1][2].append(unescape(line).encode())
    return [(joiner.encode(), weight, items) for joiner, weight, items in sections]


def mixed_text(size, seed, invalid, words):
    """At least `size` bytes, in paragraphs of one kind each; with `invalid`, bytes among them that are no UTF-8."""
    sections = read_sections(pathlib.Path(words))
    kinds = [i for i, section in enumerate(sections) for _ in range(section[1])]
    runs = len(kinds)  # then: a run of one character, characters at random, bytes at random
    random = Random(seed)
    out = bytearray()
    while len(out) < size:
        kind = random.below(runs + (5 if invalid else 4))
        if kind < runs:
            joiner, _, items = sections[kinds[kind]]
            for _ in range(1 + random.below(24)):
                out += items[random.below(len(items))] + joiner
        elif kind < runs + 2:
            out += [b" ", b"\n", b"7", b"a", b"-", b"\t", "\u4e00".encode(), b"\r\n"][random.below(8)] * (1 + random.below(80))
        elif kind < runs + 4:
            for _ in range(1 + random.below(12)):
                first, last = RANGES[random.below(len(RANGES))]
                out += chr(first + random.below(last - first + 1)).encode()
        else:
            for _ in range(1 + random.below(6)):
                out.append(0x80 + random.below(0x80))
        out += b"\n" if random.below(4) == 0 else b" "
    return bytes(out)
