#!/usr/bin/python3
"""How long an application that died computes nothing: from its death to its first iteration, from the node's own copy and from the
destination. tests/bench/restart.py [MIB [ROUNDS]]; real processes, a POSIX destination on the same disk."""
import os
import pathlib
import signal
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402

COPIED = "came from the copy that this node kept"


def deaths(mebibytes, rounds, copies):
    """Seconds from SIGKILL to the line of the first iteration, of each round."""
    seconds = []
    with Cluster(members=1, copies=True, agents=("a",), policy={**POLICY, "checkpoint_timeout": "10m"}) as cluster:
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


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for name, own in (("the node's own copy", True), ("the destination", False)):
        found = deaths(size, count, own)
        print(f"{size} MiB from {name}: death to first iteration {statistics.median(found):.2f} s "
              f"({min(found):.2f} to {max(found):.2f}, {count} rounds)", flush=True)
