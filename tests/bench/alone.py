#!/usr/bin/python3
"""What ckpt-run --standalone costs a program that computes: the same program by itself, under ckpt-run with no checkpoint, and with one each second, by turns in one run.
Ends with 1 when the median ratio without a checkpoint is over 1.02, or that with them over 1.10.

Flow     `tests/bench/alone.py [ROUNDS]`: a program of some 2 s that hashes, with a state of 8 MiB that it saves when it is asked by a signal.
Source   the program's own clock around its work: starts of programs and their ends, up to 0.1 s, are told beside it.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
MOST = {"idle": 1.02, "each second": 1.10}
PROGRAM = r"""
import hashlib, os, signal, time
work, state = os.environ.get("CKPT_DIR"), os.urandom(8 << 20)
saves = 0
def asked(*_):
    global saves
    told = dict(line.rstrip("\n").split("=", 1) for line in open(work + "/request"))
    open(told["directory"] + "/state", "wb").write(state)
    open(work + "/done.new", "w").write(f"hint={told['hint']}\nbytes={len(state)}\nstatus=0\n")
    os.rename(work + "/done.new", work + "/done")
    saves += 1
signal.signal(signal.SIGUSR1, asked)
begun, own = time.monotonic(), time.process_time()
digest = b"x" * 65536
for _ in range(40000):
    digest = hashlib.sha256(digest).digest() * 2048
print("%.6f %.6f %d" % (time.monotonic() - begun, time.process_time() - own, saves))
"""


def one(root, way):
    """Seconds of the work, of a processor for it, of all with start and end; and how often it was saved."""
    line = [sys.executable, "-c", PROGRAM]
    if way != "none":
        line = [str(BUILD / "bin" / "ckpt-run"), "--standalone", "--from-scratch", "--quiet", "--every", "1h" if way == "idle" else "1s", "--dir", str(root / "d"),
                "--work-dir", str(root / "w"), "--", *line]
    begun = time.monotonic()
    took, own, saves = subprocess.run(line, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.split()
    return float(took), float(own), time.monotonic() - begun, int(saves)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    root = pathlib.Path(tempfile.mkdtemp(prefix="alone-"))
    ways = ("none", *MOST)
    took = {way: [] for way in ways}
    try:
        for number in range(rounds + 1):  # the first one has nothing before it
            for way in ways[number % len(ways):] + ways[:number % len(ways)]:
                took[way].append(one(root, way))
    finally:
        shutil.rmtree(root)
    print(f"\n| standalone, {os.getloadavg()[0]:.0f} load | rounds | saves | work, s | beside none | range | processor, beside none | with start and end, s |\n"
          "|---|--:|--:|--:|--:|---|--:|--:|")
    ratios = {}
    for way in ways:
        figures, none = took[way][1:], took["none"][1:]
        each = [ours[0] / theirs[0] for ours, theirs in zip(figures, none)]
        own = statistics.median(ours[1] / theirs[1] for ours, theirs in zip(figures, none))
        ratios[way] = statistics.median(each)
        print(f"| {way} | {len(figures)} | {sum(f[3] for f in figures)} | {statistics.median(f[0] for f in figures):.3f} | {ratios[way]:.3f} | "
              f"{min(each):.2f}–{max(each):.2f} | {own:.3f} | {statistics.median(f[2] for f in figures):.3f} |", flush=True)
    return any(ratios[way] > most for way, most in MOST.items())


if __name__ == "__main__":
    sys.exit(main())
