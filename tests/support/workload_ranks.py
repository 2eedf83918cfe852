#!/usr/bin/python3
"""A data-parallel training loop in whole numbers, and its launcher.

    workload_ranks.py launch STEPS [--world 4] [--first 0] [--local 4] --meet FOLDER [--ms-per-step N] [--slow RANK:STEP:MS]
                      [--silent RANK:STEP] [--defers] [--signal]

The launcher starts --local ranks from number --first with RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE, as torchrun does, and
ends with the first that fails. Without --world it has CKPT_PARTS times --local of them, and those of CKPT_PART here. Ranks find each
other by files in the folder, and sum their gradients around a ring of sockets. The result (weights after the last step) is the same
with any number of ranks, since a step has the same samples with all of them. A --silent rank goes on without its library from that
step on, in the first run. Two of one number at a time leave a file `two` in the folder. With
--defers all ranks put off each question once. With --signal ranks do without a library: they catch SIGUSR1, agree on the step by their own ring, and write done.RANK themselves.
A file hang.RANK in the folder, "WHERE STEP", makes that rank hang once, at that step or the next one: in a read of a pipe, or, `futex`, in a lock.
"""
import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import ckptapp  # noqa: E402

PRIME, WEIGHTS, BATCH = 2**31 - 1, 32, 48


class Ring:
    """Each rank sends to the next one."""

    def __init__(self, rank, world, meet):
        self.world, self.inbound, self.outbound = world, None, None
        if world == 1:
            return
        meet.mkdir(parents=True, exist_ok=True)
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(60)
        written = meet / f".{rank}"
        written.write_text(str(listener.getsockname()[1]))
        written.rename(meet / str(rank))
        following = meet / str((rank + 1) % world)
        for _ in range(6000):
            if following.exists():
                break
            time.sleep(0.01)
        self.outbound = socket.create_connection(("127.0.0.1", int(following.read_text())))
        self.inbound, _ = listener.accept()
        self.inbound.settimeout(None)
        listener.close()

    def received(self, length):
        data = b""
        while len(data) < length:
            more = self.inbound.recv(length - len(data))
            if not more:
                raise ConnectionError("the rank before this one is gone")
            data += more
        return data

    def summed(self, numbers):
        total, passing = list(numbers), struct.pack(f">{len(numbers)}Q", *numbers)
        for _ in range(self.world - 1):
            self.outbound.sendall(passing)
            passing = self.received(len(passing))
            total = [a + b for a, b in zip(total, struct.unpack(f">{len(total)}Q", passing))]
        return [number % PRIME for number in total]


def gradient(weights, step, samples):
    """Of each weight the sum over the samples of weight * (sample + 3) + step * (index + 1)."""
    all_samples, count = sum(samples) + 3 * len(samples), len(samples)
    return [(weight * all_samples + count * step * (index + 1)) % PRIME for index, weight in enumerate(weights)]


def restored(folders):
    """(step, weights): before that step. All that was saved must be of one step, and of one state."""
    saved = [json.loads((pathlib.Path(folder) / "state.json").read_text()) for folder in folders]
    if not saved:
        return 1, [index + 1 for index in range(WEIGHTS)]
    if any(state != saved[0] for state in saved):
        sys.exit("two checkpoints are mixed")
    return saved[0]["step"], saved[0]["weights"]


class Signalled:
    """What a rank without a library does: all of them save at the step in which the signals of all have come."""

    def __init__(self, rank):
        self.work, self.rank, self.asked, self.served = pathlib.Path(os.environ.get("CKPT_DIR", ".")), rank, False, None
        signal.signal(signal.SIGUSR1, self.hear)

    def hear(self, *_):
        self.asked = True

    def wanted(self):
        return 1 if self.asked and (self.work / "request").exists() else 0

    def save(self, step, state):
        self.asked = False
        try:
            request = dict(line.split("=", 1) for line in (self.work / "request").read_text().splitlines())
        except FileNotFoundError:
            return  # withdrawn
        folder = pathlib.Path(request["directory"]) / f"rank-{self.rank:05}"
        folder.mkdir(exist_ok=True)
        (folder / "state.json").write_text(state)
        fresh = self.work / f".done.{self.rank}"
        fresh.write_text(f"hint={request['hint']}\nbytes={len(state)}\nstatus=0\nstep={step}\n")
        fresh.rename(self.work / f"done.{self.rank}")


def restored_plainly():
    """{...: folder} of all ranks that were restored, as ckptapp's restored() gives them."""
    folder = pathlib.Path(os.environ.get("CKPT_RESTORE_DIR", "/nowhere"))
    return {str(path): path for shape in ("rank-*", "part-*/rank-*") for path in folder.glob(shape)}


def alone(meet, rank):
    """Holds the number while this process lives: a copy of it that is left over would write beside it."""
    lock = open(meet / f"lock.{rank}", "a+", encoding="ascii")
    for _ in range(100):  # of a run before, which has just been ended
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            time.sleep(0.02)
    (meet / "two").write_text(f"rank {rank}: pid {os.getpid()} of run {os.environ.get('CKPT_RUN')} came beside another one")
    sys.exit("another process has this rank's number")


def saved(ckpt, step, state, deferred):
    """deferred: the questions that were put off, each once; None: none is."""
    if deferred is not None and ckpt.hint not in deferred:
        deferred.add(ckpt.hint)
        try:
            ckpt.defer(0.3)
            return
        except ConnectionError:  # the agent is away
            pass
    with ckpt.saving(step) as folder:
        (pathlib.Path(folder) / "state.json").write_text(state)


def hang(order, step):
    """For ever, if somebody has ordered it."""
    try:
        where, at = order.read_text().split()
    except FileNotFoundError:
        return
    if step < int(at):
        return
    order.unlink()
    if where == "futex":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    inbound, _ = os.pipe()
    os.read(inbound, 1)


def train(options):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meet = pathlib.Path(options.meet)
    meet.mkdir(parents=True, exist_ok=True)
    held = alone(meet, rank)
    ckpt = None if options.signal else ckptapp.open()
    signalled = Signalled(rank) if options.signal else None
    folders = (restored_plainly() if signalled else ckpt.restored()).values()
    step, weights = restored(folders)
    ring = Ring(rank, world, meet / os.environ.get("CKPT_RUN", "0"))
    slow_rank, slow_step, slow_ms = (int(number) for number in options.slow.split(":"))
    silent_rank, silent_step = (int(number) for number in options.silent.split(":"))
    deferred = set() if options.defers else None
    silent, run = rank == silent_rank and not folders, os.environ.get("CKPT_RUN", "")
    (meet / f"begun.{os.getpid()}").touch()
    for step in range(step, options.steps + 1):
        hang(meet / f"hang.{rank}", step)
        mute, state = silent and step >= silent_step, {"step": step, "weights": weights, "run": run}
        if signalled and ring.summed([signalled.wanted()])[0] == world and not mute:
            signalled.save(step, json.dumps(state))
        if ckpt and not mute and ckpt.barrier(step):
            saved(ckpt, step, json.dumps(state), deferred)
        total = ring.summed(gradient(weights, step, range(rank, BATCH, world)))
        weights = [(3 * weight + change) % PRIME for weight, change in zip(weights, total)]
        time.sleep(options.ms_per_step / 1000)
        if (rank, step) == (slow_rank, slow_step):
            (meet / "slow").touch()
            time.sleep(slow_ms / 1000)
        if silent and step == silent_step:
            (meet / "silent").touch()
    if rank == 0:
        print("result", hashlib.sha256(json.dumps(weights).encode()).hexdigest()[:16], flush=True)
    if ckpt:
        ckpt.close()
    held.close()


def launch(options):
    ranks = []
    if options.world == 0:
        options.local = options.local or 4
        options.world = options.local * int(os.environ.get("CKPT_PARTS", "1"))
        options.first = options.local * int(os.environ.get("CKPT_PART", "0"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for local in range(options.local or options.world):
            told = {"RANK": options.first + local, "LOCAL_RANK": local, "WORLD_SIZE": options.world, "LOCAL_WORLD_SIZE": options.local or options.world}
            ranks.append(subprocess.Popen([sys.executable, __file__, "train", *sys.argv[2:]], env={**os.environ, **{k: str(v) for k, v in told.items()}}))
        for _ in ranks:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # the first that ends is left to its Popen
            number, rank = next((number, rank) for number, rank in enumerate(ranks) if rank.returncode is None and rank.poll() is not None)
            if rank.returncode != 0:
                sys.exit(f"rank {options.first + number} ended with {rank.returncode}")
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.terminate()
                rank.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["launch", "train"])
    parser.add_argument("steps", type=int)
    parser.add_argument("--world", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--local", type=int, default=0)
    parser.add_argument("--meet", required=True)
    parser.add_argument("--ms-per-step", type=int, default=0)
    parser.add_argument("--slow", default="999999:0:0")
    parser.add_argument("--signal", action="store_true")
    parser.add_argument("--defers", action="store_true")
    parser.add_argument("--silent", default="999999:0")
    options = parser.parse_args()
    try:
        (launch if options.what == "launch" else train)(options)
    except ConnectionError as broken:
        sys.exit(f"the ring of ranks is broken: {broken}")


if __name__ == "__main__":
    main()
