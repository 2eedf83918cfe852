#!/usr/bin/python3
"""Nodes come under the broker one by one: what runs where no agent is goes on untouched, what runs where one is gets checkpoints. S2-010."""
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, tap, wait_until  # noqa: E402
from jobs import POLICY, STARTING, COMPLETED, complete, heat  # noqa: E402

DOWN_AFTER_S = 2
SOON = {**POLICY, "node_degraded_after": "600ms", "node_down_after": f"{DOWN_AFTER_S}s"}


def node(cluster, name):
    return next(n for n in json.loads(cluster.ctl("nodes", "-o", "json").stdout)["nodes"] if n["node_id"] == name)


def untouched(cluster, old):
    """The application runs, and the broker holds nothing against it or its node."""
    assert old.poll() is None, "its application was ended"
    job = cluster.allocation("old")
    assert (job.state, job.requeue_count, job.restart_count) == (STARTING, 0, 0), job
    assert cluster.checkpoints("old") == []
    state = node(cluster, "b")["state"]
    assert state == "unknown", state
    assert not [e for e in cluster.events() if e.subject == "b"], "an event of its node"


def a_node_without_an_agent_is_left_alone_until_it_has_one():
    with Cluster(members=3, agents=("a", "b"), policy=SOON, heartbeat_ms=200) as cluster:
        late = cluster.agents.pop("b")
        cluster.start()
        old = subprocess.Popen(heat(cluster, "old"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            cluster.register("old", [("b", 1, 1 << 20)], preemption_class=10)
            cluster.register("new", [("a", 1, 1 << 20)])
            cluster.run_job("a", "new", heat(cluster, "new"))
            complete(cluster, "new")
            time.sleep(2 * DOWN_AFTER_S)  # longer than a node with an agent may be silent
            untouched(cluster, old)
            dead = cluster.leader()
            dead.kill()
            cluster.wait_leader()
            complete(cluster, "new")
            time.sleep(2 * DOWN_AFTER_S)
            untouched(cluster, old)
            refused = cluster.ctl("hint", "old", check=False)
            assert refused.returncode == 4 and "NOT_STARTED" in refused.stderr, refused
            status = cluster.ctl("status", check=False)
            assert "1 nodes have jobs, and no agent ever reported there (the first: b)" in status.stdout + status.stderr, status
            refused = cluster.ctl("preempt", "--class", "9", "--nodes", "1", "--candidates", "old", "--yes", check=False)
            assert refused.returncode == 4 and "CLASS_TOO_LOW" in refused.stderr, refused  # a job that never started is else the cheapest victim

            cluster.agents["b"] = late  # its turn has come, while the last job of its queue still runs
            late.start()
            wait_until("b is ready", lambda: node(cluster, "b")["state"] == "ready", 10)
            cluster.register("next", [("b", 1, 1 << 20)])
            cluster.run_job("b", "next", heat(cluster, "next"))
            complete(cluster, "next")
            assert old.poll() is None and cluster.allocation("old").state == STARTING, "the agent touched what it did not start"
            cluster.ctl("end", "old", "--yes")
            assert cluster.allocation("old").state == COMPLETED and old.poll() is None
            dead.start()
            cluster.debug_check()
        finally:
            old.kill()
            old.wait()


if __name__ == "__main__":
    sys.exit(tap([a_node_without_an_agent_is_left_alone_until_it_has_one]))
