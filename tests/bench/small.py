#!/usr/bin/python3
"""How long a checkpoint takes from its application's `done` until it is COMPLETE: of 4 KiB beside the syncs alone that its durability takes, done by hand on the
same disk, and of 100 MiB beside a durable copy by hand, each by turns. Real processes, one member, a POSIX destination on the same disk. Ends with 1 when the
former takes over 15 ms more, or the latter over 1.3 times as long. tests/bench/small.py [ROUNDS [ROUNDS_OF_100_MIB]]"""
import os
import pathlib
import re
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, wait_until  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, all_run, checkpoint, hint  # noqa: E402
from pairs import touch_free_memory  # noqa: E402
from small_app import write_bytes  # noqa: E402

APP = pathlib.Path(__file__).resolve().parent / "small_app.py"
OVER_MAX_MS, TIMES_MAX = 15, 1.3
FAST = {"write_bytes_per_s": 10**12}
# of the agent's journal and of the member's log, between `done` and COMPLETE
JOURNAL_SYNCS, LOG_SYNCS = 1, 1


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def append(path):
    with open(path, "ab", buffering=0) as file:
        file.write(bytes(512))
        os.fdatasync(file.fileno())


def syncs_by_hand(folder, number):
    """Seconds of what no checkpoint can do without: a folder in an older one, a file and its list in a hidden folder, its name, and the records of it."""
    new = folder / f"1-{number}"
    spent = 0.0

    def timed(function, *arguments):
        nonlocal spent
        began = time.monotonic()
        function(*arguments)
        spent += time.monotonic() - began
    new.mkdir()
    timed(sync, folder)
    (new / ".tmp").mkdir()
    for name in ("state.bin", "MANIFEST"):
        write_bytes(new / ".tmp" / name, 4096)
        timed(sync, new / ".tmp" / name)
    timed(sync, new / ".tmp")
    (new / ".tmp").rename(new / "part")
    timed(sync, new)
    for _ in range(JOURNAL_SYNCS + LOG_SYNCS):
        timed(append, folder / "log")
    return spent


def copy_by_hand(cluster, source):
    """Seconds of cp and of making it durable."""
    folder = cluster.scratch / "by-hand"
    folder.mkdir()
    began = time.monotonic()
    shutil.copyfile(source, folder / "state.bin")
    for path in (folder / "state.bin", folder, cluster.scratch):
        sync(path)
    took = time.monotonic() - began
    shutil.rmtree(folder)
    return took


def by_request(cluster, name, job, look_s=0.0005):
    """Seconds from done to COMPLETE. Each look costs the broker and this process some of the two cores."""
    said = len(job.log.read_text())
    identifier = hint(cluster, name)
    wait_until("COMPLETE", lambda: checkpoint(cluster, name, identifier).state == COMPLETE, 600, look_s)
    completed = time.monotonic()
    wait_until("it has said when it was done", lambda: "done at" in job.log.read_text()[said:], 10, 0.001)
    return completed - float(re.search(r"done at ([0-9.]+)", job.log.read_text()[said:]).group(1))


def measure_small(cluster, job, rounds):
    by_hand = cluster.scratch / "syncs-by-hand"
    by_hand.mkdir()
    rows = []
    for i in range(rounds):
        rows.append((by_request(cluster, "small", job), syncs_by_hand(by_hand, i)))
        time.sleep(0.2)  # what is kept of it is moved aside meanwhile
    took, syncs = (statistics.median(column) * 1000 for column in zip(*rows))
    over = statistics.median(a - b for a, b in rows) * 1000
    print(f"4 KiB, from done to COMPLETE: {took:.1f} ms, {over:.1f} ms over the {syncs:.1f} ms of the {5 + JOURNAL_SYNCS + LOG_SYNCS} syncs by hand "
          f"({rounds} rounds by turns, medians)", flush=True)
    return over


def measure_large(cluster, job, rounds):
    source = cluster.dir / "source.bin"
    rows = []
    for _ in range(rounds):
        os.sync()
        write_bytes(source, 100 * MIB)  # as an application has just written it
        hand = copy_by_hand(cluster, source)
        source.unlink()
        os.sync()
        rows.append((by_request(cluster, "large", job, 0.005), hand))
        print(f"# 100 MiB: COMPLETE after {rows[-1][0] * 1000:.0f} ms, by hand {hand * 1000:.0f} ms", flush=True)
    took, hand = (statistics.median(column) * 1000 for column in zip(*rows))
    times = statistics.median(a / b for a, b in rows)
    print(f"100 MiB, from done to COMPLETE: {took:.0f} ms, by hand {hand:.0f} ms: {times:.2f} times as long ({rounds} rounds by turns, medians)")
    return times


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    large_rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    touch_free_memory()
    with Cluster(members=1, copies=True, agents=("a",), policy={**POLICY, "checkpoint_timeout": "10m"}, target=FAST,
                 storage_watch={"interval_ms": 5000, "timeout_ms": 5000}) as cluster:  # as in deploy/ckptd.yaml
        cluster.start()
        jobs = {}
        for name, size in (("small", 4096), ("large", 100 * MIB)):
            cluster.register(name, [("a", 1, size)], grace_ms=500)
            jobs[name] = cluster.run_job("a", name, [sys.executable, str(APP), str(size)])
        all_run(cluster)
        for name, job in jobs.items():
            by_request(cluster, name, job)  # the first one has nothing before it
        over = measure_small(cluster, jobs["small"], rounds)
        times = measure_large(cluster, jobs["large"], large_rounds)
    return over > OVER_MAX_MS or times > TIMES_MAX


if __name__ == "__main__":
    sys.exit(main())
