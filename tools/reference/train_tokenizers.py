#!/usr/bin/env python3
"""Trains the small tokenizers of tests/golden/tokenizers and records the ids that their own libraries give for the mixed text.

Run by hand, with tokenizers 0.23, sentencepiece 0.1.97 (as Debian 12 has it: later ones choose otherwise among equal unigrams), tiktoken 0.14
and xxhash from PyPI; not part of the build or the tests:

    python3 tools/reference/train_tokenizers.py tests/golden/tokenizers

Writes one tokenizer a kind, and expected.txt: for each the number of ids, the XXH3-128 hash of the ids as little-endian int32, and the first
64 of them. The references take valid text only: each encodes the mixed text without invalid bytes, SentencePiece line by line.
"""
import base64
import io
import json
import pathlib
import struct
import sys

import sentencepiece
import tiktoken
import tokenizers
import xxhash
from mixed_text import mixed_text
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SIZE = 5 << 20
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def split(*patterns):
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_bytes(corpus, pre_tokenizer, normalizer=None, special=("<|endoftext|>",), size=1400, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def string_merges(path):
    """Rewrites merges in the spelling of older files: "a b"."""
    data = json.loads(path.read_text())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def compact(path):
    path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, separators=(",", ":")))


def hugging_face(folder, corpus):
    made = {}
    gpt2 = train_bytes(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False))
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    made["gpt2.json"] = gpt2
    prefixed = train_bytes(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True), size=600)
    made["gpt2_prefix_space.json"] = prefixed
    llama3 = train_bytes(corpus, split(LLAMA3), special=("<|begin_of_text|>", "<|end_of_text|>"), ignore_merges=True)
    begin = llama3.token_to_id("<|begin_of_text|>")
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B", special_tokens=[("<|begin_of_text|>", begin)]),
    ])
    made["llama3.json"] = llama3
    qwen2 = train_bytes(corpus, split(QWEN2), normalizers.NFC())
    qwen2.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False), AddedToken("\u1ebf", normalized=True)])
    made["qwen2.json"] = qwen2
    # An unknown pattern, in several steps, as in DeepSeek's tokenizer.
    steps = [r"\p{N}{1,3}", r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+".encode().decode("unicode_escape"),
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
    made["steps.json"] = train_bytes(corpus, split(*steps), size=900)
    for name, tokenizer in made.items():
        tokenizer.save(str(folder / name))
        compact(folder / name)
    string_merges(folder / "gpt2.json")
    return [folder / name for name in made]


def sentence_pieces(folder, corpus):
    for kind, size in (("bpe", 1600), ("unigram", 1500)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_writer=model, vocab_size=size, model_type=kind, byte_fallback=True, num_threads=1,
            normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, character_coverage=0.99,
            allow_whitespace_only_pieces=True, max_sentence_length=1 << 20, minloglevel=2, hard_vocab_limit=False)
        (folder / f"sentence_{kind}.model").write_bytes(model.getvalue())
    return [folder / "sentence_bpe.model", folder / "sentence_unigram.model"]


def characters(folder):
    """The byte-pair model of SentencePiece converted to tokenizer.json, in Llama 2's spelling and the newer one."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentence_bpe.model"))
    vocabulary = {model.id_to_piece(i): i for i in range(model.get_piece_size())}
    merges = []
    for piece, i in vocabulary.items():
        if model.is_byte(i) or model.is_control(i) or model.is_unknown(i):
            continue
        halves = [(piece[:k], piece[k:]) for k in range(1, len(piece))]
        halves = [(a, b) for a, b in halves if a in vocabulary and b in vocabulary]
        merges += [(i, vocabulary[a], vocabulary[b], a, b) for a, b in halves]
    merges = [(a, b) for *_, a, b in sorted(merges)]
    made = []
    for name in ("llama2.json", "metaspace.json"):
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
        if name == "llama2.json":
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=True)
            tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="first", split=True)
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
        tokenizer.save(str(folder / name))
        compact(folder / name)
        made.append(folder / name)
    return made


def tiktokens(folder, corpus):
    made = {}
    for name, pattern in (("cl100k", CL100K), ("o200k", O200K), ("r50k", R50K), ("llama3", LLAMA3)):
        tokenizer = train_bytes(corpus, split(pattern.replace("{1,3}+", "{1,3}")), special=(), size=1100)
        alphabet = {character: byte for byte, character in byte_characters().items()}
        ranks = {bytes(alphabet[c] for c in piece): i for piece, i in tokenizer.get_vocab().items()}
        path = folder / f"small_{name}.tiktoken"
        path.write_text("".join(f"{base64.b64encode(piece).decode()} {rank}\n" for piece, rank in sorted(ranks.items(), key=lambda item: item[1])))
        made[path] = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return made


def byte_characters():
    printable = [b for b in range(256) if 33 <= b <= 126 or (b >= 161 and b != 173)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def main():
    folder = pathlib.Path(sys.argv[1])
    words = folder / "words.txt"
    corpus = mixed_text(1 << 20, 1, False, words).decode()
    lines = [corpus[i:i + 4000] for i in range(0, len(corpus), 4000)]
    text = mixed_text(SIZE, 2, False, words)
    string = text.decode()
    broken = mixed_text(1 << 20, 3, True, words)
    out = [f"text {len(text)} {xxhash.xxh3_128_hexdigest(text)}", f"broken {len(broken)} {xxhash.xxh3_128_hexdigest(broken)}"]

    def record(path, ids):
        data = struct.pack(f"<{len(ids)}i", *ids)
        out.append(f"{path.name} {len(ids)} {xxhash.xxh3_128_hexdigest(data)} {' '.join(map(str, ids[:64]))}")
        print(path.name, path.stat().st_size, "bytes,", len(ids), "ids")

    json_paths = hugging_face(folder, lines)
    model_paths = sentence_pieces(folder, lines)
    for path in json_paths + characters(folder):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.encode_special_tokens = True
        record(path, tokenizer.encode(string, add_special_tokens=False).ids)
    for path in model_paths:
        # Line by line, since over megabytes a unigram's float sums lose the digits that decide.
        parts = sentencepiece.SentencePieceProcessor(model_file=str(path)).encode(string.removesuffix("\n").split("\n"))
        record(path, [i for part in parts for i in part])
    for path, encoding in tiktokens(folder, lines).items():
        record(path, encoding.encode_ordinary(string))
    (folder / "expected.txt").write_text("\n".join(out) + "\n")
    print("tokenizers", tokenizers.__version__, "sentencepiece", sentencepiece.__version__, "tiktoken", tiktoken.__version__)


if __name__ == "__main__":
    main()
