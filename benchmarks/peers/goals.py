"""The comparisons and their expected values. compare_peers.sh takes the measurements, table.py computes the table.

A reading has a set, a round, a program or variant ("who"), and values. `ours` and `control` select a field of all variants in the set whose
name begins with `who`; of several, the one with the best median counts, since a user would choose it.
"""
import dataclasses
import pathlib
import tomllib

BIGGER, SMALLER = max, min


@dataclasses.dataclass(frozen=True)
class Side:
    who: str | tuple[str, ...]
    field: str
    factor: float = 1
    peak: bool = False  # use the best of all rounds for each round


@dataclasses.dataclass(frozen=True)
class Comparison:
    goal: int
    what: str
    set: str
    ours: Side
    control: Side | None
    expected: float
    how: str = "ratio"  # ours divided by the control | "difference", ours minus the control | "value", ours alone
    at_least: bool = True  # if false: at most
    unit: str = "tokens/s"
    better: object = BIGGER  # which value of a side is better
    possible: float = float("inf")  # a larger ratio shows that the machine was not the same for both


def bench_flops_per_token(sequence=512):
    """FLOPs of bench-32m, as its peers count: 6 per weight of a matrix product, plus half of 12 L S D for causal attention."""
    file = pathlib.Path(__file__).parents[2] / "configs/models/bench-32m.toml"
    m = tomllib.loads(file.read_text())["model"]
    width, heads = m["hidden_size"], m["heads"]
    layer = width * (heads + 2 * m["kv_heads"]) * (width // heads) + width * width + 3 * width * m["intermediate_size"]
    return 6 * (m["layers"] * layer + width * m["vocab_size"]) + 6 * m["layers"] * sequence * width


# The PyTorch modes that a user could choose for each dtype.
TORCH = {"fp32": "torch fp32 ", "bf16": ("torch bf16 ", "torch autocast ")}
SPEED = "tokens_per_s"


def train_step():
    for dtype, expected in (("fp32", 1.2), ("bf16", 1.4)):
        ours = Side(f"millrace {dtype}", SPEED)
        yield Comparison(1, f"train step, {dtype}, over PyTorch's best of this dtype", "bench-32m", ours, Side(TORCH[dtype], SPEED), expected)
        yield Comparison(1, f"train step, {dtype}, over PyTorch's best of all six", "bench-32m", ours, Side("torch ", SPEED), expected)


def share_of_peak():
    flops = bench_flops_per_token() / 1e9
    for dtype, expected in (("fp32", 0.86), ("bf16", 0.82)):
        ours = Side(f"millrace {dtype}", SPEED, flops)
        peak = Side(f"matmul {dtype} ", "gflops", peak=True)
        yield Comparison(2, f"model FLOPs, {dtype}, of the best large matmul", "bench-32m", ours, peak, expected, unit="GFLOP/s", possible=1)


def plain_gpt2():
    for sequence in (64, 1024):
        for dtype, expected in (("fp32", 3), ("bf16", 5.5)):
            ours, control = Side(f"millrace {dtype}", SPEED), Side("plain C", SPEED)
            yield Comparison(3, f"GPT-2 124M, 4 x {sequence}, {dtype}, over plain C", f"gpt2 4 x {sequence}", ours, control, expected)


def two_ranks():
    for dtype, expected in (("fp32", 1.25), ("bf16", 1.4)):
        ours, control = Side(f"millrace {dtype} ", SPEED), Side(f"torch {dtype} ", SPEED)
        yield Comparison(4, f"2 ranks of 1 thread, {dtype}, over PyTorch's best schedule", "2 ranks", ours, control, expected)


def ranks_for_threads():
    for dtype in ("fp32", "bf16"):
        ours, control = Side(f"2 ranks {dtype}", SPEED), Side(f"1 rank {dtype}", SPEED)
        yield Comparison(5, f"2 ranks of 1 thread, {dtype}, over 1 rank of 2", "ranks for threads", ours, control, 0.97)


def overheads():
    share = {"how": "value", "at_least": False, "unit": "", "better": SMALLER}
    yield Comparison(6, "step through actors over straight loop, wall time", "actors", Side("actors", "wall"), None, 1.01, **share)
    yield Comparison(6, "the same in processor time of all threads", "actors", Side("actors", "processor"), None, 1.01, **share)
    yield Comparison(6, "step with trace ring on over off", "ring", Side("ring", "wall"), None, 1.01, **share)


def busy_link():
    latency = {"how": "value", "at_least": False, "unit": "us", "better": SMALLER}
    for who, what in (("told", "as in a run"), ("untold", "transport not told of the compute")):
        yield Comparison(
            7, f"link at 8 B while both compute, p90, {what} (MPI beside it)", "link", Side(who, "link_p90_us"), Side(who, "mpi_p90_us"), 100, **latency
        )
    for size in (1, 8, 64):
        yield Comparison(
            7, f"link at {size} MiB while both compute, over MPI", "link", Side("told", f"link_{size}_mib"), Side("told", f"mpi_{size}_mib"), 0.9, unit="GB/s"
        )


def memory():
    share = {"at_least": False, "unit": "MiB", "better": SMALLER}
    for dtype in ("fp32", "bf16"):
        ours, control = Side(f"millrace {dtype}", "peak_mib"), Side(TORCH[dtype], "peak_mib")
        yield Comparison(8, f"peak resident memory, {dtype}, over PyTorch's least", "bench-32m", ours, control, 0.6, **share)
        # Norms and the gates' products are recomputed in the backward.
        ours = Side(f"recomputing {dtype}", "peak_mib")
        yield Comparison(8, f"the same, {dtype}, with policy minimal_with_context", "bench-32m", ours, control, 0.6, **share)
        ours, control = Side(f"recomputing {dtype}", SPEED), Side(f"millrace {dtype}", SPEED)
        yield Comparison(8, f"train step with that policy, {dtype}, over the default", "bench-32m", ours, control, 0.97)


def start():
    ours, control = Side("millrace", "seconds"), Side("mpirun", "seconds")
    yield Comparison(9, "start to first step, 4 ranks, less mpirun alone", "start", ours, control, 1, "difference", False, "s", SMALLER)


def growth():
    for law in ("sequence", "layers", "microbatches", "stages"):
        what = f"growth with {law}: farthest point from its law"
        yield Comparison(10, what, "growth", Side(law, "worst", 100), None, 10, "value", False, "%", SMALLER)


def mixture():
    for dtype in ("fp32", "bf16"):
        torch = ("transformers fp32 ",) if dtype == "fp32" else ("transformers bf16 ", "transformers autocast ")
        ours = Side(f"millrace {dtype}", SPEED)
        yield Comparison(11, f"train step of a mixture, {dtype}, over transformers' best of this dtype", "mixture", ours, Side(torch, SPEED), 1.3)


def delta_rule():
    for field, what in (("forward_ms", "forward"), ("step_ms", "forward and gradient")):
        ours, control = Side("millrace", field), Side("transformers", field)
        yield Comparison(12, f"gated delta rule, {what}, over transformers' chunks", "delta rule", ours, control, 0.5, "ratio", False, "ms", SMALLER)
    for field, what in (("forward_distance", "result"), ("gradient_distance", "farthest gradient")):
        what = f"gated delta rule, {what}: distance from the recurrence"
        yield Comparison(12, what, "delta rule", Side("millrace", field), None, 1e-5, "value", False, "of the largest entry", SMALLER)


def copies():
    for dtype, torch in (("fp32", ("torch fp32 ",)), ("bf16", ("torch bf16 ", "torch autocast "))):
        ours, control = Side(f"millrace {dtype} ", SPEED), Side(torch, SPEED)
        yield Comparison(13, f"2 copies of 1 thread, {dtype}, over PyTorch's best of DDP, ZeRO-1 and FSDP2", "copies", ours, control, 1.25)
        ours, control = Side(f"millrace {dtype} ", "peak_mib"), Side(torch, "peak_mib")
        yield Comparison(13, f"their least peak resident memory, {dtype}, over PyTorch's least", "copies", ours, control, 0.6, "ratio", False, "MiB", SMALLER)
        control = Side(f"one rank {dtype}", SPEED)
        for shard in ("optimizer", "parameters"):
            ours = Side(f"millrace {dtype} {shard}", SPEED)
            yield Comparison(13, f"2 copies of 1 thread, {dtype}, {shard}, over 1 rank of 2 threads", "copies", ours, control, 0.95)


def shared_experts():
    for dtype in ("fp32", "bf16"):
        ours, control = Side(f"2 ranks {dtype} ", SPEED), Side(f"one rank {dtype}", SPEED)
        yield Comparison(14, f"experts on 2 ranks of 1 thread, {dtype}, over 1 rank of 2 threads", "shared experts", ours, control, 0.93)


COMPARISONS = [
    comparison
    for part in (
        *(train_step, share_of_peak, plain_gpt2, two_ranks, ranks_for_threads, overheads, busy_link, memory, start, growth),
        *(mixture, delta_rule, copies, shared_experts),
    )
    for comparison in part()
]
