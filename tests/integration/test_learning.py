#!/usr/bin/python3
"""What a live cluster learns, and that the next leader goes on with it. S1-004, S1-045."""
import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, common_pb2, grpc, metric, operator_pb2, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "500ms", "min_interval": "1s", "checkpoint_timeout": "20s", "grace": "1s",
          "node_failures_per_1000_node_days_milli": 1, "quiesce": "1ms", "near_completion": "1s", "learned_interval": "1s",
          "max_interval": "6h"}
# What does not grow with the time between two evaluations, as long as no checkpoint comes in between.
FIXED = ("size_bytes", "write_ms", "bandwidth_bytes_per_s", "compute_waste_gpu_ms")
FIXED_INPUTS = ("size_bytes", "bandwidth_bytes_per_s", "success_probability", "stall_factor", "kill_per_s")


def explained(cluster, name):
    """Terms and inputs of the last evaluation."""
    try:
        reply = cluster.client.broker("Explain", broker_pb2.ExplainRequest(allocation_id=name))
    except grpc.RpcError as error:
        assert "NOT_EVALUATED" in error.details(), error
        return None
    inputs = {i.name: i.bits for i in reply.inputs}
    return dict({n: getattr(reply.terms, n) for n in FIXED}, **{n + ", bits": inputs[n] for n in FIXED_INPUTS if n in inputs}), reply.leader_id, reply.evaluated_at_ms


def checkpoint(cluster, name):
    identifier = cluster.request_checkpoint(name)
    wait_until(f"checkpoint of {name} is complete",
               lambda: next(c for c in cluster.checkpoints(name) if c.checkpoint_id == identifier).state == 5, 30)


def the_next_leader_plans_with_what_the_last_one_learned():
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, 4 << 20)], walltime_ms=3600000)
        cluster.run_job("a", "job", [str(BIN / "heat"), "--size", "256", "--iterations", "100000000", "--delay-us", "2000",
                                     "--slow-ms", "300", "--output", str(cluster.dir / "job.result")])
        wait_until("the job runs", lambda: cluster.jobs[0].application_pid(), 15)
        prior = wait_until("an evaluation", lambda: explained(cluster, "job"), 10)[0]
        for _ in range(3):
            checkpoint(cluster, "job")
        learned = cluster.allocation("job").learned
        assert learned.count == 3 and learned.stall_measured, learned
        assert learned.write_ms >= 300, f"the application alone stands still for 300 ms: {learned}"
        assert learned.stall_ppm > 300000, learned
        real = sum(s.size_bytes for s in cluster.checkpoints("job")[-1].shards)
        assert abs(learned.size_bytes - real) <= real / 10, (learned, real)
        # no checkpoint may come in between from here on
        learned_at_ms = max(c.completed_at_ms for c in cluster.checkpoints("job"))
        leader = cluster.wait_leader()

        def settled():
            got = explained(cluster, "job")
            return got if got and got[2] > learned_at_ms and abs(got[0]["write_ms"] - learned.write_ms) <= 1 else None
        before, leader_id, _ = wait_until("an evaluation with what was learned", settled, 10)
        assert before["size_bytes"] == learned.size_bytes and before["write_ms"] != prior["write_ms"], (before, prior, learned)
        waste_ms = learned.write_ms * learned.stall_ppm / 1e6
        assert abs(before["compute_waste_gpu_ms"] - waste_ms) < waste_ms / 20, "one GPU stands still as long as was measured"
        leader.kill()
        cluster.wait_leader()
        after, next_id, _ = wait_until("an evaluation by another leader",
                                    lambda: (lambda got: got if got and got[1] != leader_id else None)(explained(cluster, "job")), 20)
        assert next_id != leader_id
        assert before == after, (before, after)
        assert cluster.allocation("job").learned == learned
        leader.start()
        cluster.debug_check()


def what_the_fleet_taught_is_in_the_log():
    """A node whose agent dies failed; its leader writes that down, and the next one knows it."""
    with Cluster(agents=("a", "b"), policy=dict(POLICY, node_degraded_after="2s", node_down_after="3s"), heartbeat_ms=300) as cluster:
        cluster.start()
        wait_until("both nodes are ready",
                   lambda: metric(cluster.wait_leader().http, "ckpt_learned_saved_timestamp_seconds") > 0, 20)
        before = metric(cluster.wait_leader().http, "ckpt_learned_node_failures_per_second")
        cluster.agents["b"].kill()
        risen = wait_until("the failure is learned", lambda: (lambda now: now if now > before * 1.01 else None)(
            metric(cluster.wait_leader().http, "ckpt_learned_node_failures_per_second")), 30)
        saved = metric(cluster.wait_leader().http, "ckpt_learned_saved_timestamp_seconds")
        leader = cluster.wait_leader()
        wait_until("it is in the log", lambda: metric(leader.http, "ckpt_learned_saved_timestamp_seconds") > saved - 1, 10)
        leader.kill()

        def told():
            now = metric(cluster.wait_leader().http, "ckpt_learned_node_failures_per_second")
            return now if now > before * 1.01 else None
        again = wait_until("the next leader knows it", told, 20)
        assert abs(again - risen) < risen * 0.05, (before, risen, again)
        leader.start()
        cluster.debug_check()


def the_policy_of_sensitive_jobs_and_of_queues_changes_through_the_log():
    with Cluster(policy=POLICY) as cluster:
        cluster.start()
        policy = cluster.client.operator("GetPolicy", operator_pb2.GetPolicyRequest()).policy
        assert (policy.sensitive_min_interval_ms, policy.sensitive_max_interval_ms, policy.sensitive_timeout_ms,
                policy.queue_max_age_ms) == (600000, 3600000, 900000, 300000), policy
        cluster.client.broker("ReportQueue", broker_pb2.ReportQueueRequest(
            request_id=uuid.uuid4().hex, vcluster="hpc", queued_gpu_ms=500, running_gpu_ms=1000,
            waiting=[broker_pb2.WaitingJob(job_id="w", preemption_class=5, gpu_count=8, waited_ms=60000)]))

        def status():
            return cluster.client.operator("Status", operator_pb2.StatusRequest())
        queue = wait_until("the queue is in sight", lambda: next(iter(status().queues), None), 10)
        assert queue.counted and queue.vcluster == "hpc" and queue.waiting_count == 1, queue
        assert status().pressure_ppm == 500000
        cluster.client.operator("SetPolicy", operator_pb2.SetPolicyRequest(
            request_id=uuid.uuid4().hex, policy=common_pb2.Policy(queue_max_age_ms=1000, sensitive_min_interval_ms=7000)))
        wait_until("the report is too old", lambda: not status().queues[0].counted, 10)
        assert status().pressure_ppm == 0
        assert any("queue of hpc" in w for w in status().warnings), status().warnings
        leader = cluster.wait_leader()
        leader.kill()
        cluster.wait_leader()
        policy = cluster.client.operator("GetPolicy", operator_pb2.GetPolicyRequest()).policy
        assert policy.sensitive_min_interval_ms == 7000 and policy.sensitive_max_interval_ms == 3600000, policy


if __name__ == "__main__":
    sys.exit(tap([the_next_leader_plans_with_what_the_last_one_learned, what_the_fleet_taught_is_in_the_log,
                  the_policy_of_sensitive_jobs_and_of_queues_changes_through_the_log]))
