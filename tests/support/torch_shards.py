#!/usr/bin/python3
"""A job whose state is sharded over its ranks, as torch.distributed.checkpoint has it, started by torchrun.

    torch_shards.py STEPS MS_PER_STEP FOLDER

A vector of whole numbers, of which each rank has an equal piece, and a tensor that all ranks have. Each step needs the sum of all
pieces, so the end is the same with any number of ranks (that divides 48). A rank that goes on must find its own random numbers where
they were. Rank 0 says `result` and a hash. Each rank leaves begun.PID in the folder at its first step.
"""
import dataclasses
import functools
import hashlib
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import ckptapp  # noqa: E402

PRIME, CELLS = 2**31 - 1, 48


def hashable(real, cls=None, **more):
    """What Python 3.11 wants of the dataclasses of PyTorch 1.13."""
    if cls is None:
        return functools.partial(hashable, real, **more)
    made = real(cls, **more)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


real = dataclasses.dataclass
dataclasses.dataclass = functools.partial(hashable, real)
from torch.distributed._shard import sharded_tensor  # noqa: E402
from torch.distributed._shard.metadata import ShardMetadata  # noqa: E402
import torch.distributed._shard.checkpoint  # noqa: E402,F401
dataclasses.dataclass = real


def next_random():
    """What this rank would draw next; it is not drawn."""
    state = torch.get_rng_state()
    drawn = torch.rand(1).item()
    torch.set_rng_state(state)
    return drawn


def main(last, ms_per_step, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    each = CELLS // world
    assert each * world == CELLS, f"{world} ranks do not divide {CELLS}"
    first = each * rank
    piece, common = torch.arange(first + 1, first + each + 1), torch.ones(3, dtype=torch.int64)
    torch.manual_seed(100 + rank)
    shards = [sharded_tensor.Shard(piece, ShardMetadata([first], [each], f"rank:{rank}/cpu"))]
    state = {"pieces": sharded_tensor.init_from_local_shards(shards, CELLS), "common": common}
    ckpt, seen = ckptapp.open(), {}
    start = ckptapp.dcp_load(ckpt, state, seen)
    assert not seen or seen["random"] == next_random(), "the random numbers are not where they were"
    for step in range(start + 1, last + 1):
        if ckpt.barrier(step):
            ckptapp.dcp_save(ckpt, step - 1, state, {"random": next_random()})
        (folder / f"begun.{os.getpid()}").touch()
        total = piece.sum()
        dist.all_reduce(total)
        piece.mul_(3).add_(total).add_(step * torch.arange(first + 1, first + each + 1)).remainder_(PRIME)
        common.mul_(5).add_(total).remainder_(PRIME)
        torch.rand(1)
        time.sleep(ms_per_step / 1000)
    pieces = [torch.zeros_like(piece) for _ in range(world)]
    dist.all_gather(pieces, piece)
    if rank == 0:
        print("result", hashlib.sha256(repr((torch.cat(pieces).tolist(), common.tolist())).encode()).hexdigest()[:16], file=sys.stderr, flush=True)
    dist.barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # gloo's threads of a rank that is behind may wait for ever
