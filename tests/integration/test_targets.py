#!/usr/bin/python3
"""Several targets: each node's checkpoints go to the target of its domain, a restart reads where its checkpoint lies, old copies elsewhere
leave after success. S2-021, S2-022, S2-023, S2-024, S2-025, S2-026, S2-027, S2-028, S2-030."""
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, checkpoint_text, common_pb2, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, allocation_in, complete, heat, says  # noqa: E402

FAILED, REQUEUED = common_pb2.ALLOCATION_STATE_FAILED, common_pb2.ALLOCATION_STATE_REQUEUED


class Domains(Cluster):
    """Node a is of domain left, b of domain right, c of none; targets left and right beside the default one."""

    def __init__(self, **more):
        super().__init__(members=1, agents=("a", "b", "c"), policy={**POLICY, **more})
        self.plain = self.agent_config.read_text()

    def start_agent(self, name, domain):
        self.agent_config.write_text(self.plain + (f"domain: {domain}\n" if domain else ""))
        self.agents[name].start()

    def start(self):
        for member in self.members:
            member.start()
        self.wait_leader()
        for name, domain in (("a", "left"), ("b", "right"), ("c", "")):
            self.start_agent(name, domain)
        for name in ("left", "right"):
            (self.dir / name).mkdir(mode=0o1777)
            (self.dir / name).chmod(0o1777)
            self.ctl("target", "put", name, "--prefix", str(self.dir / name), "--write", "1GB/s", "--domain", name)
        wait_until("all have told", lambda: sum(n["connected"] for n in self.nodes().values()) == 3, 10)

    def nodes(self):
        return {n["node_id"]: n for n in json.loads(self.ctl("nodes", "-o", "json").stdout)["nodes"]}

    def targets(self):
        return {t["spec"]["target_id"]: t for t in json.loads(self.ctl("targets", "-o", "json").stdout)["targets"]}

    def job(self, name):
        return json.loads(self.ctl("job", name, "-o", "json").stdout)["job"]


def what_is_not_said_of_a_target_stays():
    """A put names what changes; the price, the tier and the bandwidth of restores stay, until they are emptied by name."""
    with Domains() as cluster:
        cluster.start()
        cluster.ctl("target", "put", "left", "--price", "20000", "--tier", "nvme", "--read", "5GB/s")
        cluster.ctl("target", "put", "left", "--write", "2GB/s")
        spec = cluster.targets()["left"]["spec"]
        assert (spec["write_bytes_per_s"], spec["cost_micro_usd_per_gb_month"], spec["tier"], spec["read_bytes_per_s"], spec["domain"]) == (
            2 * 10**9, 20000, "nvme", 5 * 10**9, "left"), spec
        wide = cluster.ctl("targets", "-o", "wide").stdout
        assert "0.020000" in wide and "nvme" in wide and "5.0 GB/s" in wide, wide
        cluster.ctl("target", "put", "left", "--price", "0", "--tier", "-", "--read", "0")
        spec = cluster.targets()["left"]["spec"]
        assert (spec["cost_micro_usd_per_gb_month"], spec["tier"], spec["read_bytes_per_s"], spec["domain"]) == (0, "", 0, "left"), spec


def checkpoints_go_to_the_target_of_the_nodes_domain():
    """The node's choice over the submitter's, and the submitter's where the policy says so or no node has a domain; several nodes choose
    together or not at all."""
    with Domains() as cluster:
        cluster.start()
        assert {name: node["domain"] for name, node in cluster.nodes().items()} == {"a": "left", "b": "right", "c": ""}
        assert "right" in cluster.ctl("nodes", "-o", "wide").stdout
        cluster.register("near", [("a", 1, MIB)], target_id="right")
        cluster.register("own", [("c", 1, MIB)], target_id="right")
        cluster.register("mixed", [("a", 1, MIB), ("b", 1, MIB)])
        assert [cluster.job(name)["next_target_id"] for name in ("near", "own", "mixed")] == ["left", "right", "scratch"]
        cluster.ctl("policy", "set", "node_chooses_target=0")
        assert cluster.job("near")["next_target_id"] == "right"
        cluster.ctl("policy", "set", "node_chooses_target=1")
        cluster.run_job("a", "near", heat(cluster, "near"))
        all_run(cluster)
        record = complete(cluster, "near")
        assert record.target_id == "left" and record.path.startswith(str(cluster.dir / "left")), record
        assert (pathlib.Path(record.path) / "part-0000" / "MANIFEST").exists()
        job = cluster.job("near")
        assert (job["last_target_id"], job["next_target_id"]) == ("left", "left"), job
        assert "last complete one lies on left  the next goes to left" in cluster.ctl("job", "near").stdout
        cluster.debug_check()


def a_restart_reads_where_the_checkpoint_lies():
    """A job that moves to another domain is restored from the target of the old one and writes to the new one; the old copy leaves when two are
    there."""
    with Domains(keep_complete=2, retention="1h") as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS, max_requeue=9)
        job = cluster.run_job("a", "job", heat(cluster, "job"), ("--max-restarts", "0"))
        all_run(cluster)
        first = complete(cluster, "job")
        assert first.target_id == "left", first
        job.process.send_signal(signal.SIGTERM)
        job.process.wait(20)
        allocation_in(cluster, "job", REQUEUED, FAILED)
        cluster.ctl("restart", "job", "--node", "b:1")
        again = cluster.run_job("b", "job", heat(cluster, "job"), ("--max-restarts", "0"))
        says(again, f"from checkpoint {again.work_dir}/restore/{checkpoint_text(first.checkpoint_id)}")
        all_run(cluster)
        assert pathlib.Path(first.path).exists()
        second = complete(cluster, "job")
        assert second.target_id == "right", second
        third = complete(cluster, "job")
        assert third.target_id == "right", third
        wait_until("the copy elsewhere is collected", lambda: not pathlib.Path(first.path).exists(), 20)
        assert pathlib.Path(second.path).exists() and pathlib.Path(third.path).exists()
        cluster.debug_check()


def the_target_of_a_job_can_be_changed():
    """By an update, also while it is stopped; a name that is none is refused."""
    with Domains() as cluster:
        cluster.start()
        cluster.register("job", [("c", 1, MIB)])
        assert cluster.job("job")["next_target_id"] == "scratch"
        refused = cluster.ctl("update", "job", "--target", "nowhere", check=False)
        assert refused.returncode != 0 and "TARGET_NOT_FOUND" in refused.stderr, refused.stderr
        cluster.ctl("update", "job", "--target", "right")
        assert cluster.job("job")["next_target_id"] == "right"
        cluster.run_job("c", "job", heat(cluster, "job"))
        all_run(cluster)
        assert complete(cluster, "job").target_id == "right"
        refused = cluster.ctl("target", "remove", "right", "--yes", check=False)
        assert refused.returncode != 0 and "TARGET_HAS_JOBS" in refused.stderr, refused.stderr
        refused = cluster.ctl("target", "put", "right", "--prefix", str(cluster.dir / "moved"), check=False)
        assert refused.returncode != 0 and "TARGET_IN_USE" in refused.stderr and "1 checkpoints" in refused.stderr, refused.stderr


def a_target_is_drained_and_removed():
    """New checkpoints go to the default one; the removal is refused while one lies there, says how many, and works when they have gone."""
    with Domains(keep_complete=2, retention="1s") as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], target_id="left")
        cluster.run_job("a", "job", heat(cluster, "job"))
        all_run(cluster)
        first = complete(cluster, "job")
        refused = cluster.ctl("target", "remove", "left", "--yes", check=False)
        assert "TARGET_HAS_JOBS" in refused.stderr and "ckptctl target drain" in refused.stderr, refused.stderr
        refused = cluster.ctl("target", "drain", "scratch", check=False)
        assert refused.returncode != 0 and "TARGET_IS_DEFAULT" in refused.stderr, refused.stderr
        cluster.ctl("target", "drain", "left")
        assert "draining" in cluster.ctl("targets").stdout and cluster.targets()["left"]["draining"]
        refused = cluster.ctl("target", "remove", "left", "--yes", check=False)
        assert "TARGET_HAS_FOLDERS" in refused.stderr and "1 checkpoints" in refused.stderr, refused.stderr
        assert [complete(cluster, "job").target_id for _ in range(2)] == ["scratch", "scratch"]
        wait_until("the copy elsewhere is collected", lambda: not pathlib.Path(first.path).exists(), 20)
        wait_until("it can be removed", lambda: cluster.ctl("target", "remove", "left", "--yes", check=False).returncode == 0, 10)
        assert "left" not in cluster.targets() and cluster.job("job")["next_target_id"] == "scratch"
        assert "target left is drained: new checkpoints go elsewhere" in cluster.ctl("events").stdout
        for words in (["checkpoints"], ["checkpoints", "job"], ["checkpoint", checkpoint_text(first.checkpoint_id)], ["gc", "plan"], ["job", "job"]):
            told = cluster.ctl(*words)  # what is left of the one that lay there: a record, which members ended at
            assert words[0] != "checkpoints" or "left" in told.stdout, told
        cluster.debug_check()


def an_outage_that_lasts_fails_over():
    """S2-026: the checkpoint that waits begins again at the other target, events say both ends, and the next ones go back afterwards."""
    with Domains(failover_after="1s") as cluster:
        cluster.start()
        cluster.ctl("target", "put", "scratch", "--failover", "right")
        cluster.register("job", [("c", 1, MIB)])
        cluster.run_job("c", "job", heat(cluster, "job"))
        all_run(cluster)
        cluster.storage_down()
        wait_until("the outage is found", lambda: not cluster.targets()["scratch"]["available"], 20)
        wait_until("it has failed over", lambda: cluster.targets()["scratch"].get("failed_over"), 20)
        assert cluster.job("job")["next_target_id"] == "right"
        assert complete(cluster, "job").target_id == "right"
        cluster.storage_up()
        wait_until("it is back", lambda: cluster.targets()["scratch"]["available"], 20)
        assert cluster.job("job")["next_target_id"] == "scratch"
        events = cluster.ctl("events").stdout
        assert "target scratch fails over: " in events and "target scratch no longer fails over" in events, events
        cluster.debug_check()


def hint(cluster):
    return next(h for h in json.loads(cluster.ctl("placement", "-o", "json").stdout)["placement_hints"] if h["allocation_id"] == "job")


def leave_its_node(cluster, rule):
    """A job of one node of the domain `left`, with a checkpoint there, that waits for a node."""
    cluster.start()
    cluster.register("job", [("a", 1, MIB)], requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS, max_requeue=9,
                     domain_rule=common_pb2.DomainRule.Value(f"DOMAIN_RULE_{rule}"))
    assert (hint(cluster)["domain_rule"], hint(cluster)["domain"]) == (rule, ""), hint(cluster)
    job = cluster.run_job("a", "job", heat(cluster, "job"), ("--max-restarts", "0"))
    all_run(cluster)
    complete(cluster, "job")
    assert (hint(cluster)["domain"], hint(cluster)["waits"]) == ("left", False), hint(cluster)
    assert f"left {rule}" in cluster.ctl("placement").stdout
    os.kill(job.application_pid(), signal.SIGKILL)
    job.process.wait(20)
    allocation_in(cluster, "job", REQUEUED)
    assert (hint(cluster)["domain"], hint(cluster)["waits"]) == ("left", True), hint(cluster)


def a_required_domain_is_exported_and_holds():
    """S2-028, S2-030: unbound before the first checkpoint; then hints name the domain, and a restart elsewhere is refused."""
    with Domains() as cluster:
        leave_its_node(cluster, "REQUIRED")
        refused = cluster.ctl("restart", "job", "--node", "b:1", check=False)
        assert refused.returncode != 0 and "NODE_OUTSIDE_DOMAIN" in refused.stderr and "--from-scratch" in refused.stderr, refused.stderr
        cluster.ctl("restart", "job", "--node", "a:1")


def a_preferred_domain_is_exported_and_may_be_left():
    """S2-029: a wish alone: the job may go elsewhere, and its next checkpoint then lies there."""
    with Domains() as cluster:
        leave_its_node(cluster, "PREFERRED")
        cluster.ctl("restart", "job", "--node", "b:1")
        cluster.run_job("b", "job", heat(cluster, "job"), ("--max-restarts", "0"))
        all_run(cluster)
        complete(cluster, "job")
        assert (hint(cluster)["domain_rule"], hint(cluster)["domain"]) == ("PREFERRED", "right"), hint(cluster)


tap([what_is_not_said_of_a_target_stays, checkpoints_go_to_the_target_of_the_nodes_domain, a_restart_reads_where_the_checkpoint_lies,
     the_target_of_a_job_can_be_changed, a_target_is_drained_and_removed, an_outage_that_lasts_fails_over, a_required_domain_is_exported_and_holds,
     a_preferred_domain_is_exported_and_may_be_left])
