#!/usr/bin/python3
"""V-015: the leader of the moment is killed in the middle of each drill, as nobody planned. The drill ends by its timer all the same, its report is there once, and nothing
of its fault is left."""
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, tap, wait_until  # noqa: E402
from drills import drills_of, over, ready, supervised  # noqa: E402

KINDS = ("leader-hang", "member-loss", "storage-outage", "restore", "leader-kill")
STATES = ("ARMED", "FAULT", "SETTLING")


def process_of(member):
    """The daemon under its supervisor."""
    children = pathlib.Path(f"/proc/{member.process.pid}/task/{member.process.pid}/children").read_text().split()
    return int(children[0]) if children else None


def state_of(cluster, number):
    return next(d["state"] for d in drills_of(cluster) if d["drill_id"] == number)


def strike(cluster, kind, number, state):
    ready(cluster, kind)
    led = cluster.leader()
    cluster.ctl("drill", "run", kind, "--duration", "4s", "--yes", "--no-wait")
    if state != "ARMED":
        wait_until(f"{kind} is in {state}", lambda: state_of(cluster, number) in (*STATES[STATES.index(state):], "PASSED", "FAILED", "ABORTED"), 30, 0.05)
    victim = cluster.leader() or led
    process = process_of(victim)
    if process is not None:
        os.kill(process, signal.SIGKILL)
    return over(cluster, number)


def a_leader_that_is_killed_in_the_middle_leaves_nothing_of_a_drill():
    with Cluster(members=3, storage_watch={"interval_ms": 200}) as cluster:
        cluster.start()
        supervised(cluster)
        number, ended = 0, []
        for kind in KINDS:
            for state in STATES[:2]:
                number += 1
                drill = strike(cluster, kind, number, state)
                ended.append((kind, state, drill["state"]))
                assert drill["state"] in ("PASSED", "FAILED", "ABORTED"), drill
                assert state != "ARMED" or drill["state"] != "ABORTED" or not drill.get("fault_ms"), drill
                wait_until("no target is away", lambda: all(t["available"] for t in json.loads(cluster.ctl("targets", "-o", "json").stdout)["targets"]), 20, 0.2)
                cluster.debug_check()  # of all members: none hangs, none is cut off
        assert [d["drill_id"] for d in reversed(drills_of(cluster))] == list(range(1, number + 1)), drills_of(cluster)
        print(f"# {ended}", flush=True)


if __name__ == "__main__":
    sys.exit(tap([a_leader_that_is_killed_in_the_middle_leaves_nothing_of_a_drill]))
