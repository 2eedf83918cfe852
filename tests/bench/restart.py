#!/usr/bin/python3
"""How long an application computes nothing: from its death to its first iteration, from the node's own copy and from the destination; and a job of eight parts
that moves to eight other nodes, from the start of its applications to the first iteration of the last one, beside eight `cp` of its parts.
tests/bench/restart.py [MIB [ROUNDS]]; real processes, a POSIX destination on the same disk; as root, nothing of it is in memory when it is read."""
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, checkpoint_text, common_pb2, wait_until  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, SUSPENDED, all_run, allocation_in, complete, ends, ends_in, heat, restart  # noqa: E402

COPIED = "came from the copy that this node kept"


def deaths(mebibytes, rounds, copies):
    """Seconds from SIGKILL to the line of the first iteration, of each round."""
    seconds = []
    with Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": "10m"}) as cluster:
        with open(cluster.agent_config, "a", encoding="utf-8") as file:
            file.write(f"local_copies: {{max_bytes: {'64GiB' if copies else 0}}}\n")
        cluster.start()
        cluster.register("j", [("a", 1, mebibytes * MIB)], grace_ms=500)
        side = int((mebibytes * MIB / 8) ** 0.5)
        job = cluster.run_job("a", "j", heat(cluster, "j", "--size", str(side)), ["--max-restarts", "1000"])
        all_run(cluster)
        identifier = complete(cluster, "j").checkpoint_id
        if copies:
            wait_until("it is kept", lambda: any(p.node_id for s in next(
                c for c in cluster.checkpoints("j") if c.checkpoint_id == identifier).shards for p in s.places), 60)
        for _ in range(rounds):
            before = job.known_to_run()
            said = len(job.log.read_text())
            began = time.monotonic()
            os.kill(before, signal.SIGKILL)
            wait_until("it computes again", lambda s=said: "starts at iteration" in job.log.read_text()[s:], 600, 0.005)
            seconds.append(time.monotonic() - began)
            assert (COPIED in job.log.read_text()[said:]) == copies
            wait_until("it is known to run", job.known_to_run, 20)
    return seconds


APP = pathlib.Path(__file__).resolve().parent / "state_app.py"
SETS = "abcdefgh", "ijklmnop"  # of nodes, by turns


def forget():
    """What storage has to give is not in memory; without root it may be."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass


def begin(cluster, nodes, mebibytes):
    """Seconds until the last of the job's applications computes; the jobs."""
    began = time.monotonic()
    jobs = [cluster.run_job(node, "j", [sys.executable, str(APP), str(mebibytes // 8)]) for node in nodes]
    wait_until("all compute", lambda: all("starts at iteration" in job.log.read_text() for job in jobs), 600, 0.005)
    return time.monotonic() - began, jobs


def copies(cluster, identifier):
    """Seconds of eight `cp`, side by side."""
    parts = sorted(path for path in cluster.scratch.rglob("part-*") if path.parent.name == identifier)
    to = cluster.dir / "by-cp"
    to.mkdir()
    began = time.monotonic()
    running = [subprocess.Popen(["cp", "-r", str(part), str(to / part.name)]) for part in parts]
    assert len(parts) == 8 and all(process.wait() == 0 for process in running)
    took_s = time.monotonic() - began
    shutil.rmtree(to)
    return took_s


def moves(mebibytes, rounds):
    """Pairs of seconds: a job's start on eight nodes that never saw it, and cp of the same bytes."""
    pairs = []
    policy = {**POLICY, "checkpoint_timeout": "10m"}
    with Cluster(members=1, agents=SETS[0] + SETS[1], policy=policy, target={"write_bytes_per_s": 10**12}) as cluster:
        cluster.start()
        cluster.register("j", [(node, 1, mebibytes * MIB // 8) for node in SETS[0]], grace_ms=500)
        _, jobs = begin(cluster, SETS[0], mebibytes)
        for i in range(rounds):
            wait_until("all are known to run", lambda: all(job.known_to_run() for job in jobs), 60)
            identifier = cluster.request_checkpoint("j", common_pb2.AFTER_CHECKPOINT_STOP)
            ends_in(cluster, "j", identifier, (COMPLETE,), 600)
            allocation_in(cluster, "j", SUSPENDED)
            for job in jobs:
                ends(job, 60)
                job.log.unlink()
            nodes = SETS[(i + 1) % 2]
            restart(cluster, "j", nodes=nodes)
            forget()
            took_s, jobs = begin(cluster, nodes, mebibytes)
            forget()
            pairs.append((took_s, copies(cluster, checkpoint_text(identifier))))
            print(f"# {took_s:.2f} s beside {pairs[-1][1]:.2f} s", flush=True)
    return pairs


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for name, own in (("the node's own copy", True), ("the destination", False)):
        found = deaths(size, count, own)
        print(f"{size} MiB from {name}: death to first iteration {statistics.median(found):.2f} s "
              f"({min(found):.2f} to {max(found):.2f}, {count} rounds)", flush=True)
    found = moves(8 * size, count)
    print(f"{8 * size} MiB, 8 parts on 8 other nodes: start to the last one's first iteration {statistics.median(f[0] for f in found):.2f} s; 8 `cp -r` "
          f"{statistics.median(f[1] for f in found):.2f} s: {statistics.median(f[0] / f[1] for f in found):.2f} times ({count} rounds by turns)")
