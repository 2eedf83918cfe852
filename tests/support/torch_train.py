#!/usr/bin/python3
"""A data-parallel training loop with PyTorch, as torchrun starts it: gradients are averaged by gloo, parameters, optimizer, random numbers and the
position in the data are saved by ckptapp.

    torch_train.py STEPS MS_PER_STEP FOLDER

Noise is drawn at each step from the rank's own generator, and samples are taken in an order that each rank shuffles once an epoch: a loop that went on
with other random numbers or at another sample would end with other weights. Rank 0 says `result` and a hash of them. Each rank leaves begun.PID in the folder at its first step.
"""
import hashlib
import os
import pathlib
import random
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import ckptapp  # noqa: E402

SAMPLES, BATCH = 64, 8


class Data:
    """The position: which epoch's order, and how far in it."""

    def __init__(self):
        self.order, self.at = [], 0

    def state_dict(self):
        return {"order": self.order, "at": self.at}

    def load_state_dict(self, state):
        self.order, self.at = state["order"], state["at"]

    def batch(self):
        if self.at == len(self.order):
            self.order, self.at = random.sample(range(SAMPLES), SAMPLES), 0
        self.at += BATCH
        return self.order[self.at - BATCH:self.at]


def main(last, ms_per_step, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))
    inputs = torch.randn(SAMPLES, 6)
    wanted = inputs.pow(2).sum(1, keepdim=True)
    torch.manual_seed(100 + rank)
    random.seed(100 + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.9)
    data, seen = Data(), {"samples": 0}
    ckpt = ckptapp.open()
    start = ckptapp.torch_load(ckpt, seen, model=model, optimizer=optimizer, scheduler=scheduler, data=data)
    for step in range(start + 1, last + 1):
        if ckpt.barrier(step):
            ckptapp.torch_save(ckpt, step - 1, seen, model=model, optimizer=optimizer, scheduler=scheduler, data=data)
        (folder / f"begun.{os.getpid()}").touch()
        batch = data.batch()
        loss = (model(inputs[batch] + 0.1 * torch.randn(BATCH, 6)) - wanted[batch]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        scheduler.step()
        seen["samples"] += BATCH
        time.sleep(ms_per_step / 1000)
    assert seen["samples"] == BATCH * last, seen
    if rank == 0:
        weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
        print("result", hashlib.sha256(weights).hexdigest()[:16], file=sys.stderr, flush=True)  # torchrun puts a name before what is on stdout
    dist.barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # gloo's threads of a rank that is behind may wait for ever
