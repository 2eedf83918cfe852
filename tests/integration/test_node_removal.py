#!/usr/bin/python3
"""Nodes that are gone are removed, by ckptctl, over the deaths of leaders and of the whole cluster; an agent that comes back is a new one's."""
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "1h", "grace": "500ms", "node_degraded_after": "600ms", "node_down_after": "2s"}
APPLICATION = [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000"]


def refused(cluster, node, *words):
    result = cluster.ctl("node", "remove", node, "--yes", check=False)
    assert result.returncode == 4 and all(word in result.stderr for word in words), (result.returncode, result.stderr)


def nodes(cluster):
    """Name -> state."""
    return {line.split()[0]: line.split()[1] for line in cluster.ctl("nodes").stdout.splitlines()[1:]}


def is_saved(cluster, job):
    identifier = cluster.request_checkpoint(job)
    wait_until(f"{job} is saved", lambda: any(
        c.checkpoint_id == identifier and c.state == common_pb2.CHECKPOINT_STATE_COMPLETE for c in cluster.checkpoints(job)), 20)


def runs_and_is_saved(cluster, job, node):
    cluster.register(job, [(node, 1, 1 << 20)], grace_ms=500)
    cluster.run_job(node, job, APPLICATION)
    is_saved(cluster, job)


def a_node_that_is_gone_is_removed_and_its_agent_comes_back_as_a_new_one():
    with Cluster(members=3, agents=("a", "b"), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        runs_and_is_saved(cluster, "one", "a")
        refused(cluster, "a", "NODE_NOT_DOWN", "ckptctl node drain")
        cluster.register("typo", [("misspelt", 1, 1 << 20)])
        refused(cluster, "misspelt", "NODE_HAS_JOBS", "1 jobs")
        for job in ("one", "typo"):
            cluster.ctl("end", job, "--yes")
        cluster.ctl("node", "remove", "misspelt", "--yes")
        agent = cluster.agents["a"]
        os.kill(agent.process.pid, signal.SIGSTOP)  # its stream stays open
        wait_until("its agent is lost", lambda: nodes(cluster).get("a") == "agent_lost", 20)
        cluster.leader().kill()
        cluster.wait_leader()
        cluster.ctl("node", "remove", "a", "--yes")
        refused_again = cluster.ctl("node", "remove", "a", "--yes", check=False)
        assert "NODE_NOT_FOUND" in refused_again.stderr, refused_again.stderr
        for member in cluster.members:
            if member.running():
                member.kill()
        for member in cluster.members:
            member.start()
        cluster.wait_leader()
        assert set(nodes(cluster)) == {"b"}, nodes(cluster)
        assert [n.node_id for n in cluster.allocation("one").spec.nodes] == ["a"]
        assert "node a removed" in cluster.ctl("events").stdout
        os.kill(agent.process.pid, signal.SIGCONT)
        wait_until("a is back", lambda: nodes(cluster).get("a") == "ready", 20)
        runs_and_is_saved(cluster, "two", "a")
        cluster.ctl("backup", "save", str(cluster.dir / "state.backup"))
        cluster.ctl("backup", "verify", str(cluster.dir / "state.backup"))
        cluster.debug_check()


def a_stream_that_is_open_ends_with_its_node():
    """The agent stood still for longer than its node was waited for, and goes on when that has been removed: same leader, same stream.
    What runs there still, of a job that is over, is ended."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        runs_and_is_saved(cluster, "one", "a")
        agent, [job] = cluster.agents["a"], cluster.jobs
        os.kill(agent.process.pid, signal.SIGSTOP)
        wait_until("its agent is lost", lambda: nodes(cluster).get("a") == "agent_lost", 20)
        assert cluster.allocation("one").state == common_pb2.ALLOCATION_STATE_REQUEUED
        refused(cluster, "a", "NODE_HAS_JOBS", "1 jobs")
        cluster.ctl("end", "one", "--yes")
        cluster.ctl("node", "remove", "a", "--yes")
        cluster.register("other", [("c", 1, 1 << 20)])
        assert job.applications()
        os.kill(agent.process.pid, signal.SIGCONT)
        wait_until("a is back", lambda: nodes(cluster).get("a") == "ready", 20)
        wait_until("what ran there has ended", lambda: not job.applications(), 20, 0.1)
        runs_and_is_saved(cluster, "two", "a")
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([a_node_that_is_gone_is_removed_and_its_agent_comes_back_as_a_new_one, a_stream_that_is_open_ends_with_its_node]))
