#!/usr/bin/python3
"""From the commit of a request for a checkpoint until the application's handler runs, for each way of asking by turns in one run: a signal, a word in shared memory, a
command of the owner, and a site's echkpnt. Where a criu works here, also for how long it holds a program. Ends with 1 when the p50 of a way by command is more than 30 ms over that of the signal, or that of shared memory more than 5 ms.

Flow     `tests/bench/ways.py [HINTS]`: one member, one agent, one job of each way.
Source   the commit is the answer to RequestCheckpoint; a handler takes the instant before anything else, a command with its first program, date.
"""
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import criu_site  # noqa: E402
from cluster import Cluster, wait_until  # noqa: E402
from history import quantile  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, all_run, ends_in, hint  # noqa: E402

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
OVER_MS = {"shm": 5, "exec": 30, "echkpnt": 30}
SIGNAL = r"""
import os, signal, time
work = os.environ["CKPT_DIR"]
def asked(number, frame):
    now = time.time()
    with open(work + "/request") as file:
        told = dict(line.split("=", 1) for line in file.read().splitlines())
    with open(work + "/notes", "a") as file:
        file.write("%.6f\n" % now)
    with open(told["directory"] + "/state", "w") as file:
        file.write("x" * 1000)
    with open(work + "/done.new", "w") as file:
        file.write("hint=%s\nbytes=1000\nstatus=0\n" % told["hint"])
    os.rename(work + "/done.new", work + "/done")
signal.signal(signal.SIGUSR1, asked)
open(work + "/ready", "w").close()
while True:
    signal.pause()
"""
SHM = r"""
import os, sys, time
sys.path.insert(0, sys.argv[1])
import ckptshm
work, shm = os.environ["CKPT_DIR"], ckptshm.open(0)
open(work + "/ready", "w").close()
while True:
    word = shm.wait()
    now = time.time()
    if not word:
        continue
    with open(work + "/notes", "a") as file:
        file.write("%.6f\n" % now)
    with open(shm.directory + "/state", "w") as file:
        file.write("x" * 1000)
    shm.done(word, 1000)
"""
WAITS = 'touch "$CKPT_DIR/ready"; exec sleep 100000'
SAVE = 'date +%s.%N >> NOTES && echo state > "$CKPT_CHECKPOINT_DIR/state"'


# 64 MiB, and a gap is noted that is longer than a turn of the scheduler
HELD = r"""
import sys, time
held, last = bytearray(b"x" * (64 << 20)), time.monotonic()
for at in range(0, len(held), 4096):
    held[at] = at // 4096 % 251
open(sys.argv[1], "w").close()
while True:
    time.sleep(0.001)
    now = time.monotonic()
    if now - last > 0.01:
        with open(sys.argv[1], "a") as file:
            file.write("%.1f\n" % (1000 * (now - last)))
    last = time.monotonic()
"""


def pauses_by_criu(cluster, hints):
    """Milliseconds for which a program of 64 MiB stood still, for each checkpoint."""
    gaps, took = cluster.dir / "gaps", []
    cluster.register("criu", [("a", 1, MIB)])
    cluster.run_job("a", "criu", [sys.executable, "-c", HELD, str(gaps)], ("--profile", "criu"))
    all_run(cluster)
    wait_until("it runs", gaps.exists, 30)
    for _ in range(hints):
        before = len(gaps.read_text().split())
        ends_in(cluster, "criu", hint(cluster, "criu"), (COMPLETE,), 60)
        took.append(max(map(float, gaps.read_text().split()[before:]), default=0.0))
    return took


def start(cluster, name):
    work = cluster.dir / "work" / f"{name}.a"
    save = SAVE.replace("NOTES", str(work / "notes"))
    for program in ("echkpnt.bench", "erestart.bench"):
        (cluster.dir / program).write_text(f"#!/bin/sh\n{save}\n")
        (cluster.dir / program).chmod(0o755)
    os.environ.update(LSB_ECHKPNT_METHOD_DIR=str(cluster.dir), LSF_ENVDIR=str(cluster.dir))
    command, options = {"signal": ([sys.executable, "-c", SIGNAL], ()), "shm": ([sys.executable, "-c", SHM, str(PYTHON)], ("--profile", "shm")),
                        "exec": (["sh", "-c", WAITS], ("--checkpoint-cmd", save)), "echkpnt": (["sh", "-c", WAITS], ("-k", "ck method=bench"))}[name]
    cluster.register(name, [("a", 1, MIB)])
    cluster.run_job("a", name, command, options)
    wait_until(f"{name} is ready", (work / "ready").exists, 30)


def one(cluster, name, count):
    """Milliseconds from the commit to the handler."""
    identifier = hint(cluster, name)
    committed = time.time()
    ends_in(cluster, name, identifier, (COMPLETE,), 60)
    notes = (cluster.dir / "work" / f"{name}.a" / "notes").read_text().split()
    assert len(notes) == count, (name, count, notes)
    return 1000 * (float(notes[-1]) - committed)


def main():
    hints = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    ways = ("signal", *OVER_MS)
    took = {name: [] for name in ways}
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name in ways:
            start(cluster, name)
        all_run(cluster)
        for number in range(hints + 1):  # the first one has nothing before it
            for name in ways:
                took[name].append(one(cluster, name, number + 1))
    print(f"\n| asked by, {os.getloadavg()[0]:.0f} load | hints | commit to handler, ms: p50 | p99 |\n|---|--:|--:|--:|")
    median = {}
    for name in ways:
        figures = sorted(took[name][1:])
        median[name] = statistics.median(figures)
        print(f"| {name} | {len(figures)} | {median[name]:.1f} | {quantile(figures, 0.99):.1f} |", flush=True)
    over = {name: median[name] - median["signal"] for name in OVER_MS}
    reason = criu_site.lacking()
    if reason is None:
        with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
            cluster.start()
            paused = sorted(pauses_by_criu(cluster, hints))
        print(f"criu holds a program of 64 MiB for {statistics.median(paused):.0f} ms (p50), {quantile(paused, 0.99):.0f} ms (p99), of {len(paused)}")
    else:
        print(f"criu: {reason}")
    print(", ".join(f"{name} {ms:+.1f} ms (promised: at most {OVER_MS[name]})" for name, ms in over.items()), "over the signal")
    return any(ms > OVER_MS[name] for name, ms in over.items())


if __name__ == "__main__":
    sys.exit(main())
