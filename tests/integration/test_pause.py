#!/usr/bin/python3
"""A paused cluster over a leader's death, a second agent with the name of a node, and jobs that nobody knows: each is told to who types. U4, U6, U7, U10."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import BIN, Agent, Cluster, load_json, metric, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402


def paused(cluster):
    return load_json(cluster.ctl("status", "-o", "json"))["status"].get("pause")


def pause_is_told_and_outlives_the_leader(cluster):
    plan = cluster.ctl("cluster", "pause", "new switch", "--for", "1h", "--dry-run")
    assert "plan: for 1h00m" in plan.stderr and paused(cluster) is None, plan
    cluster.ctl("cluster", "pause", "new switch", "--for", "1h")
    refused = cluster.ctl("hint", "j", check=False)
    assert refused.returncode == 4 and "CLUSTER_PAUSED" in refused.stderr and ": new switch" in refused.stderr, refused
    assert "ckptctl cluster resume" in refused.stderr, refused
    assert "PAUSED by" in cluster.ctl("status").stdout
    wait_until("a cycle goes on", lambda: "pause: blocks" in cluster.ctl("explain", "j", check=False).stdout, 20)
    assert "is PAUSED by" in cluster.ctl("top").stderr
    leader = cluster.leader()
    leader.kill()
    wait_until("the next leader knows it", lambda: metric(cluster.wait_leader().http, "ckpt_cluster_paused") == 1, 20)
    assert paused(cluster)["reason"] == "new switch" and cluster.ctl("hint", "j", check=False).returncode == 4
    leader.start()
    cluster.ctl("cluster", "pause", "nearly done", "--for", "1s")  # another end
    wait_until("it ends by itself", lambda: paused(cluster) is None, 20)
    lines = cluster.ctl("events").stdout.splitlines()
    assert any("cluster paused for 1h00m by " in line and ": new switch" in line for line in lines), lines
    assert any("cluster resumed after" in line and "its time was over" in line for line in lines), lines
    complete(cluster, "j")


def second_agent_of_a_name_is_refused(cluster):
    twin = Agent(cluster, "a")
    twin.state_dir, twin.socket, twin.log = cluster.dir / "twin", cluster.dir / "twin.sock", cluster.dir / "twin.log"
    twin.start()
    wait_until("it is refused", lambda: "NODE_TAKEN" in twin.log.read_text(), 20)
    assert "node a has two agents, at 127.0.0.1:" in cluster.ctl("status").stdout
    assert metric(cluster.leader().http, "ckpt_agent_twins_refused_total") >= 1
    twin.kill()
    complete(cluster, "j")  # the first one is the node's as before


def jobs_that_nobody_knows_are_not_found(cluster):
    for command in (["events", "nosuch"], ["events", "nosuch", "-o", "json"], ["events", "nosuch", "--stale"]):
        told = cluster.ctl(*command, check=False)
        assert told.returncode == 3 and "ALLOCATION_NOT_FOUND" in told.stderr and not told.stdout, told
    assert "j" in cluster.ctl("events", "j").stdout
    assert not cluster.ctl("events", "j", "--after", "1000000").stdout  # none so late is no error
    told = subprocess.run([BIN / "ckpt-run", "status", "--alloc", "nosuch", "--socket", cluster.agents["a"].socket], capture_output=True, text=True)
    assert told.returncode == 3 and "job nosuch is not yours (user 0), or not there" in told.stderr and not told.stdout, told
    assert json.loads(cluster.ctl("events", "j", "-o", "json").stdout)["events"]


def what_an_operator_types_is_told():
    with Cluster(members=3, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        pause_is_told_and_outlives_the_leader(cluster)
        second_agent_of_a_name_is_refused(cluster)
        jobs_that_nobody_knows_are_not_found(cluster)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([what_an_operator_types_is_told]))
