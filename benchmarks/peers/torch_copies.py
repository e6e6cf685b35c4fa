#!/usr/bin/env python3
"""What a PyTorch user would run instead of copies of a pipeline: one copy of the model in each process, over gloo, timed.

    python -m torch.distributed.run --standalone --nproc-per-node 2 torch_copies.py --peers FOLDER --mode fsdp2 --dtype bf16 --microbatches 8 --threads 1

--mode: ddp (DistributedDataParallel) | zero1 (the same with ZeroRedundancyOptimizer) | fsdp2 (fully_shard of each block and the rest). --microbatches are those of a
step, of which each process has its share. --dtype: fp32 | autocast (fp32 weights) | bf16 (fsdp2 alone: fp32 masters, gathered in bf16, reduced in fp32). --peers: the
folder of torch_train.py, whose model this trains. Rank 0 prints one JSON line like torch_train.py's; the peak is that of the largest process. Needs: torch (PyPI).
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time


def arguments_of():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peers", required=True)
    known, rest = parser.parse_known_args()
    sys.path.insert(0, known.peers)
    import torch_train

    more = torch_train.arguments()
    more.description = __doc__
    more.add_argument("--mode", choices=["ddp", "zero1", "fsdp2"], default="ddp")
    return more.parse_args(rest), torch_train.Llama


def wrap(model, arguments):
    """The model and its optimizer as the mode has them."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    adamw = {"lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "fused": True}
    if arguments.mode == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if arguments.dtype == "bf16" else MixedPrecisionPolicy()
        for block in [*model.blocks, model]:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return model, torch.optim.AdamW(model.parameters(), **adamw)
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if arguments.mode == "ddp":
        return model, torch.optim.AdamW(model.parameters(), **adamw)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **adamw)


def main():
    arguments, llama = arguments_of()
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, copies = dist.get_rank(), dist.get_world_size()
    if arguments.dtype == "bf16" and arguments.mode != "fsdp2":
        sys.exit("bf16 goes with fsdp2, expected autocast")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model, optimizer = wrap(llama(arguments), arguments)
    own = arguments.microbatches // copies
    generator = torch.Generator().manual_seed(1 + rank)
    ids = torch.randint(0, arguments.vocab, (own, arguments.batch, arguments.seq + 1), generator=generator)

    def sums_at_the_end(last):
        if arguments.mode == "fsdp2":
            model.set_requires_gradient_sync(last)
        else:
            model.require_backward_grad_sync = last

    times, losses = [], []
    for step in range(arguments.steps + 3):
        dist.barrier()
        begin = time.perf_counter()
        total = 0.0
        for number in range(own):
            sums_at_the_end(number == own - 1)
            with torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == "autocast"):
                loss = model(ids[number][:, :-1], ids[number][:, 1:]) / own
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        dist.barrier()
        if step >= 3:
            times.append(time.perf_counter() - begin)
        losses.append(round(total, 4))
    peak = torch.tensor([float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)])
    dist.all_reduce(peak, dist.ReduceOp.MAX)
    if rank == 0:
        tokens = arguments.microbatches * arguments.batch * arguments.seq
        step = statistics.median(times)
        print(json.dumps({"tokens_per_s": round(tokens / step, 2), "step_s": round(step, 5), "peak_mib": round(peak.item() / 1024, 1), "losses": losses[:5]}))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may abort a process that ends in the usual way


if __name__ == "__main__":
    main()
