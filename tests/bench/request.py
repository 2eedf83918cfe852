#!/usr/bin/python3
"""How long a checkpoint takes from the request for it until it is COMPLETE, beside writing the same bytes to the destination's disk by hand, by turns whose order
changes: real processes, one member, a POSIX destination on the same disk. Ends with 1 when it takes more than 1.5 times as long, or, of staging direct, when the application's
own write takes more than 1.1 times as long as by hand. tests/bench/request.py [MIB [ROUNDS [local|direct]]]"""
import os
import pathlib
import re
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, all_run, ends_in, hint  # noqa: E402
from pairs import touch_free_memory  # noqa: E402
from state_app import write_state  # noqa: E402

APP = pathlib.Path(__file__).resolve().parent / "state_app.py"
COMPLETE_MAX, DIRECT_WRITE_MAX = 1.5, 1.1  # times as long as by hand
FAST = {"write_bytes_per_s": 10**12}


def by_hand(cluster, mebibytes, number):
    """Seconds of writing, and of that with making it durable."""
    folder = cluster.scratch / "by-hand"
    folder.mkdir()
    os.sync()
    began = time.monotonic()
    wrote_s = write_state(folder, mebibytes, 1000000 + number)
    with open(folder / "state.bin", "rb") as file:
        os.fsync(file.fileno())
    durable_s = time.monotonic() - began
    shutil.rmtree(folder)
    os.sync()
    return wrote_s, durable_s


def by_request(cluster, job):
    """Seconds until COMPLETE, and of the application's own write."""
    os.sync()
    said = len(job.log.read_text())
    began = time.monotonic()
    ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE,), 600)
    took_s = time.monotonic() - began
    return took_s, float(re.search(r"wrote in ([0-9.]+) s", job.log.read_text()[said:]).group(1))


def main():
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    staging = sys.argv[3] if len(sys.argv) > 3 else "local"
    rows = []
    touch_free_memory()
    with Cluster(members=1, copies=True, agents=("a",), policy={**POLICY, "checkpoint_timeout": "10m"}, target={**FAST, "staging": staging}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, mebibytes * MIB)], grace_ms=500)
        job = cluster.run_job("a", "j", [sys.executable, str(APP), str(mebibytes)])
        all_run(cluster)
        by_request(cluster, job)  # the first one has nothing before it
        for i in range(rounds):
            if i % 2:
                complete_s, wrote_s = by_request(cluster, job)
            hand_s, durable_s = by_hand(cluster, mebibytes, i)
            if i % 2 == 0:
                complete_s, wrote_s = by_request(cluster, job)
            rows.append((complete_s, wrote_s, hand_s, durable_s))
            print(f"# COMPLETE after {complete_s:.2f} s, {wrote_s:.2f} s of it the application's own write; by hand {hand_s:.2f} s, durable after {durable_s:.2f} s", flush=True)
    complete_s, wrote_s, hand_s, durable_s = (statistics.median(column) for column in zip(*rows))
    ratio, write_ratio = (statistics.median(row[a] / row[b] for row in rows) for a, b in ((0, 3), (1, 2)))
    print(f"{mebibytes} MiB, staging {staging}, from the request to COMPLETE: {complete_s:.2f} s, {wrote_s:.2f} s of it the application's own write; by hand {hand_s:.2f} s, and "
          f"durable {durable_s:.2f} s: {ratio:.2f} times as long, the write alone {write_ratio:.2f} times ({rounds} rounds by turns, medians)")
    return ratio > COMPLETE_MAX or (staging == "direct" and write_ratio > DIRECT_WRITE_MAX)


if __name__ == "__main__":
    sys.exit(main())
