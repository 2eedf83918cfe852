#!/usr/bin/python3
"""Nodes change hands with real brokers, agents and applications: a home takes back what it lent, a sensitive claim, a scale-down, what schedulers
see of it. P-005, P-006, P-024, P-050, A-001, A-004, S1-021, S1-047, S1-048, S1-081, R-003."""
import json
import os
import pathlib
import shutil
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, common_pb2, own_name, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1h", "checkpoint_timeout": "20s", "grace": "1s", "quiesce": "1ms",
          "node_failures_per_1000_node_days_milli": 1, "near_completion": "1s", "retry_backoff": "200ms"}
RUNNING, SUSPENDED = common_pb2.ALLOCATION_STATE_RUNNING, common_pb2.ALLOCATION_STATE_SUSPENDED
MIB = 1 << 20


def heat(cluster, name):
    return [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", str(cluster.dir / f"{name}.result")]


def start_lent(cluster, job, nodes, **fields):
    """The job on nodes that the vCluster ml has lent."""
    spec = common_pb2.AllocationSpec(
        allocation_id=job, tenant="physics", project="heat", vcluster="hpc", owner=own_name(),
        nodes=[common_pb2.NodeShare(node_id=n, gpu_count=1, gpu_memory_used_bytes=MIB, borrowed=True, home_vcluster="ml") for n in nodes], **fields)
    cluster.client.broker("RegisterAllocation", broker_pb2.RegisterAllocationRequest(request_id=uuid.uuid4().hex, spec=spec))
    jobs = {n: cluster.run_job(n, job, heat(cluster, job + n)) for n in nodes}
    wait_until(f"{job} runs", lambda: all(j.application_pid() for j in jobs.values()), 15)
    return jobs


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def the_home_takes_back_what_it_lent():
    """P-005, P-024, S1-081, R-003: --wait ends when the applications on the nodes are gone; the elastic job runs on, of class 9."""
    with Cluster(members=3, agents=("a", "b", "c"), policy=POLICY) as cluster:
        cluster.start()
        elastic = start_lent(cluster, "elastic", "ab", preemption_class=9, reactive_min_nodes=1, reactive_max_nodes=2)
        fixed = start_lent(cluster, "fixed", "c", preemption_class=2)
        pids = {n: j.application_pid() for n, j in {**elastic, **fixed}.items()}
        shown = cluster.ctl("preempt", "--reason", "RECLAIM", "--home", "ml", "--nodes", "2", "--for-job", "training", "--yes", "--wait",
                            "--wait-for", "60s", "-o", "json")
        preemption = json.loads(shown.stdout)["preemption"]
        assert preemption["state"] == "RELEASED" and preemption["victims_released"] == 2, shown.stdout
        released = preemption["released_node_ids"]
        assert "c" in released and len(released) == 2, released
        for node in released:
            assert not alive(pids[node]), f"{node} was given away while pid {pids[node]} lives"
        stays = ({"a", "b"} - set(released)).pop()
        allocation = cluster.allocation("elastic")
        assert allocation.state == RUNNING and [n.node_id for n in allocation.spec.nodes] == [stays], allocation
        assert allocation.last_complete_checkpoint_id and not allocation.preempted_count and elastic[stays].application_pid() == pids[stays]
        assert cluster.allocation("fixed").state == SUSPENDED and cluster.allocation("fixed").preempted_count == 1
        listed = cluster.ctl("preemptions").stdout
        assert "RELEASED" in listed and "training" in listed, listed
        cluster.client.broker("RestartAllocation", broker_pb2.RestartAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="fixed"))
        again = cluster.ctl("preempt", "--class", "5", "--nodes", "1", "--candidates", "fixed", "--yes", check=False)
        assert again.returncode == 4 and "JUST_RESUMED" in again.stderr, again.stderr
        cluster.debug_check()


def a_sensitive_claim_stops_who_is_there():
    """P-006, S1-021: purpose preempt at once, SUSPENDED, the node is free; a checkpoint although the job is of class 9."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        for name, node in (("there", "a"), ("elsewhere", "b")):
            cluster.register(name, [(node, 1, MIB)], preemption_class=9)
            job = cluster.run_job(node, name, heat(cluster, name))
            wait_until(f"{name} runs", job.known_to_run, 15)
        reply = cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(
            request_id=uuid.uuid4().hex, preemption_class=10, nodes_needed=1, useful_nodes=["a"],
            reason=broker_pb2.PREEMPTION_REASON_SENSITIVE, value_gpu_ms=1))
        assert [v.allocation_id for v in reply.victims] == ["there"], reply
        wait_until("SUSPENDED", lambda: cluster.allocation("there").state == SUSPENDED, 30)
        purposes = [c.purpose for c in cluster.checkpoints("there") if c.checkpoint_id == reply.victims[0].checkpoint_id]
        assert purposes == [common_pb2.PURPOSE_PREEMPT], purposes
        state = cluster.client.broker("ListPreemptions", broker_pb2.ListPreemptionsRequest(preemption_id=reply.preemption_id)).preemptions[0]
        assert state.state == broker_pb2.PREEMPTION_STATE_RELEASED and list(state.released_node_ids) == ["a"], state
        assert cluster.allocation("elsewhere").state == RUNNING


def a_sensitive_job_in_a_deep_queue_gets_nodes_unasked():
    """S1-021: a queue report is all that the scheduler says; the evaluator preempts in its next cycle, once."""
    with Cluster(members=3, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        for name, node, preemption_class in (("low", "a", 2), ("high", "b", 7)):
            cluster.register(name, [(node, 1, MIB)], preemption_class=preemption_class)
            job = cluster.run_job(node, name, heat(cluster, name))
            wait_until(f"{name} runs", job.known_to_run, 15)
        cluster.client.broker("ReportQueue", broker_pb2.ReportQueueRequest(
            request_id=uuid.uuid4().hex, vcluster="hpc", queued_gpu_ms=3, running_gpu_ms=4,
            waiting=[broker_pb2.WaitingJob(job_id="secret", preemption_class=10, gpu_count=1, sensitive=True)]))
        wait_until("SUSPENDED", lambda: cluster.allocation("low").state == SUSPENDED, 30)
        [claim] = cluster.client.broker("ListPreemptions", broker_pb2.ListPreemptionsRequest()).preemptions
        assert (claim.for_job, claim.reason, claim.gpus_needed) == ("secret", broker_pb2.PREEMPTION_REASON_SENSITIVE, 1), claim
        assert claim.state == broker_pb2.PREEMPTION_STATE_RELEASED and list(claim.released_node_ids) == ["a"], claim
        [checkpoint] = [c for c in cluster.checkpoints("low") if c.checkpoint_id == claim.victims[0].checkpoint_id]
        assert checkpoint.purpose == common_pb2.PURPOSE_PREEMPT and checkpoint.state == common_pb2.CHECKPOINT_STATE_COMPLETE, checkpoint
        assert cluster.allocation("high").state == RUNNING
        cluster.debug_check()


def a_victim_that_cannot_write_goes_on():
    """S1-065, P-050, V-009: its destination is up and refuses its writes alone: it computes on, the next job is taken in its place, and all of it is told."""
    with Cluster(members=3, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        for name, node, preemption_class in (("full", "a", 1), ("spare", "b", 2)):
            cluster.register(name, [(node, 1, MIB)], preemption_class=preemption_class)
        jobs = {node: cluster.run_job(node, name, heat(cluster, name)) for node, name in (("a", "full"), ("b", "spare"))}
        wait_until("both run", lambda: all(cluster.allocation(j).state == RUNNING for j in ("full", "spare")), 15)
        pid = jobs["a"].application_pid()
        folder = pathlib.Path(cluster.scratch) / "physics" / "heat"
        shutil.rmtree(folder / "full", ignore_errors=True)
        (folder / "full").write_text("a file where the job's folder is to be\n")
        shown = cluster.ctl("preempt", "--class", "5", "--nodes", "1", "--yes", "--wait", "--wait-for", "60s")
        assert "one whose checkpoint fails goes on, and another is tried" in shown.stderr, shown.stderr
        lines = {line.split()[0]: line for line in shown.stdout.splitlines() if line.split()}
        assert " withdrawn " in lines["full"] and "Not a directory" in lines["full"] and " released " in lines["spare"], shown.stdout
        assert cluster.allocation("full").state == RUNNING and alive(pid) and not cluster.allocation("full").unresponsive
        assert cluster.allocation("spare").state == SUSPENDED
        [reason] = [v["reason"] for v in json.loads(cluster.ctl("preemptions", "1", "-o", "json").stdout)["preemption"]["victims"] if v["allocation_id"] == "full"]
        failed = cluster.checkpoints("full")[-1]
        assert common_pb2.Reason.Name(failed.reason) == f"REASON_{reason}", (failed, reason)
        last = cluster.ctl("preempt", "--class", "5", "--nodes", "1", "--yes", "--wait", "--wait-for", "60s", check=False)
        assert last.returncode == 1 and "(NO_VICTIMS); full goes on: " in last.stderr, last.stderr
        cluster.debug_check()


def a_scale_down_saves_first():
    """S1-080, S1-081: the answer names the checkpoint of both nodes; then the node's application ends and the job has one node."""
    with Cluster(members=3, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)])
        jobs = {n: cluster.run_job(n, "job", heat(cluster, "job" + n)) for n in "ab"}
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 15)
        pids = {n: j.application_pid() for n, j in jobs.items()}
        reply = cluster.client.broker("UpdateAllocation", broker_pb2.UpdateAllocationRequest(
            request_id=uuid.uuid4().hex, allocation_id="job", nodes=[common_pb2.NodeShare(node_id="a", gpu_count=1)]))
        assert reply.checkpoint_id, reply
        assert len(cluster.allocation("job").spec.nodes) == 2 or cluster.checkpoints("job")[0].state == common_pb2.CHECKPOINT_STATE_COMPLETE
        wait_until("one node", lambda: len(cluster.allocation("job").spec.nodes) == 1, 30)
        checkpoint = [c for c in cluster.checkpoints("job") if c.checkpoint_id == reply.checkpoint_id][0]
        assert checkpoint.state == common_pb2.CHECKPOINT_STATE_COMPLETE and checkpoint.purpose == common_pb2.PURPOSE_SCALE_DOWN, checkpoint
        assert sorted(s.node_id for s in checkpoint.shards) == ["a", "b"], checkpoint.shards
        assert not alive(pids["b"]) and jobs["a"].application_pid() == pids["a"] and cluster.allocation("job").state == RUNNING
        cluster.debug_check()


def schedulers_see_what_a_placement_costs():
    """A-001, A-003, A-004, P-060, S1-047, S1-048: f8 and its weight, whether and why nodes cannot be won from a job, the penalty on borrowed nodes."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("plain", [("a", 1, 12 * 10**9)], preemption_class=3, write_bytes_per_s=200 * 10**6)  # one minute
        cluster.ctl("target", "put", "scratch", "--pool", "sensitive", "--encrypted", "yes", "--hot-only", "yes")
        cluster.register("secret", [("s", 1, MIB)], preemption_class=3, sensitive=True)
        cluster.register("none", [("a", 1, MIB)], preemption_class=3, strategy=common_pb2.STRATEGY_NONE)
        kinds = {"ml": common_pb2.VCLUSTER_KIND_ML, "service": common_pb2.VCLUSTER_KIND_SERVICE,
                 "vault": common_pb2.VCLUSTER_KIND_SENSITIVE, "desk": common_pb2.VCLUSTER_KIND_INTERACTIVE}
        for name, kind in kinds.items():
            cluster.register(name, [("v" if name == "vault" else "a", 1, MIB)], preemption_class=3, vcluster_kind=kind)

        def hints_now():
            return {h.allocation_id: h for h in cluster.client.broker("GetPlacementHints", broker_pb2.GetPlacementHintsRequest()).hints}

        hints = hints_now()
        assert {n: hints[n].checkpoint_weight_ppm for n in ("plain", *kinds)} == {
            "plain": 50000, "ml": 100000, "service": 100000, "vault": 0, "desk": 0}
        assert {n: hints[n].why for n in kinds} == {"ml": "", "service": "own_nodes", "vault": "sensitive", "desk": ""}
        plain = hints["plain"]
        assert abs(plain.checkpoint_efficiency_ppm - 500000) < 20000, plain
        assert plain.borrowed_penalty_ppm == 1000000 - plain.checkpoint_efficiency_ppm and not plain.non_preemptible and plain.why == "", plain
        assert plain.preemption_cost_gpu_ms == 0, f"it has not started: {plain}"
        cluster.run_job("a", "plain", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                       "--output", str(cluster.dir / "plain.result")])
        wait_until("its checkpoint costs", lambda: hints_now()["plain"].preemption_cost_gpu_ms >= 60000, 20)
        for name, why, won in (("secret", "sensitive", False), ("none", "no_checkpoint", True)):  # P-070: below class 7 only dearer
            hint = hints[name]
            assert hint.non_preemptible != won and hint.avoid_borrowed_nodes and hint.why == why and hint.borrowed_penalty_ppm == 1000000, hint
        shown = cluster.ctl("placement").stdout
        assert "no: sensitive" in shown and "dear: no_checkpoint" in shown, shown
        cluster.ctl("policy", "set", "f8_weight_ml_ppm=150000")  # takes effect without a restart
        assert hints_now()["ml"].checkpoint_weight_ppm == 150000
        cluster.ctl("policy", "set", "f8_weight_ml=0%")
        assert hints_now()["ml"].checkpoint_weight_ppm == 0
        refused = cluster.ctl("policy", "set", "min_interval=0s", check=False)
        assert refused.returncode != 0 and "min_interval_ms" in refused.stderr, refused


if __name__ == "__main__":
    sys.exit(tap([the_home_takes_back_what_it_lent, a_sensitive_claim_stops_who_is_there,
                  a_sensitive_job_in_a_deep_queue_gets_nodes_unasked, a_victim_that_cannot_write_goes_on, a_scale_down_saves_first,
                  schedulers_see_what_a_placement_costs]))
