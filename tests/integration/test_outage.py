#!/usr/bin/python3
"""A storage outage with a dead leader in it: paused, not cancelled, resumed exactly once, in order. F-004, F-011, S2-004, I24, I35."""
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, checkpoint_text, common_pb2, grpc, metric, tap, wait_until  # noqa: E402
import uuid  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1s", "checkpoint_timeout": "20s", "grace": "1s",
          "node_failures_per_1000_node_days_milli": 1, "quiesce": "1ms", "near_completion": "1s", "retry_backoff": "200ms"}
PAUSED, COMPLETE = 4, 5
GAUGE = "lattice_checkpoint_storage_unavailable"


def hint(cluster, name):
    return cluster.request_checkpoint(name)


def paused_checkpoints_survive_the_leader_and_resume_once():
    """S1-060, S1-062, S1-064, S1-069, S1-070, S1-071, S1-072, and S1-056: no second hint while one is paused."""
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        names = ["one", "two", "three"]
        held = cluster.dir / "held"
        held.touch()
        for i, name in enumerate(names):
            cluster.register(name, [("a", 1 + i, 4 << 20)], write_bytes_per_s=100000000)
            cluster.run_job("a", name, [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                        "--hold", str(held), "--output", str(cluster.dir / f"{name}.result")])
        wait_until("all jobs run", lambda: all(j.application_pid() for j in cluster.jobs), 15)
        ids = {name: hint(cluster, name) for name in names}
        wait_until("they are being written", lambda: len(cluster.checkpoints(state=3)) == 3, 20)
        cluster.storage_down()
        wait_until("all are paused", lambda: {c.checkpoint_id for c in cluster.checkpoints(state=PAUSED)} == set(ids.values()), 15)
        assert metric(cluster.wait_leader().http, GAUGE) == 1
        dead = cluster.wait_leader()
        dead.kill()
        cluster.wait_leader()
        assert {c.checkpoint_id for c in cluster.checkpoints(state=PAUSED)} == set(ids.values())
        assert metric(cluster.wait_leader().http, GAUGE) == 1, "a new leader knows of the outage without probes of its own"
        for member in cluster.members:
            wait_until(f"{member.name} knows of the outage", lambda m=member: not m.running() or metric(m.http, GAUGE) == 1, 5)
        try:
            hint(cluster, "one")
            raise AssertionError("a second hint was taken while one is paused")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and "CHECKPOINT_ACTIVE" in error.details(), error
        assert all(j.application_pid() for j in cluster.jobs), "a job died of the outage"
        held.unlink()
        cluster.storage_up()
        wait_until("all are complete", lambda: {c.checkpoint_id for c in cluster.checkpoints(state=COMPLETE)} >= set(ids.values()), 40, 0.1)
        assert metric(cluster.wait_leader().http, GAUGE) == 0
        resumed = [e.checkpoint_id for e in cluster.events() if e.kind == broker_pb2.EVENT_KIND_CHECKPOINT_STATE and e.old_state == PAUSED]
        assert sorted(resumed) == sorted(ids.values()), resumed
        hints = [e.checkpoint_id for e in cluster.events() if e.kind == broker_pb2.EVENT_KIND_CHECKPOINT_STATE and e.new_state == 2]
        again = hints[len(ids):]
        assert again == [ids["three"], ids["two"], ids["one"]], "not in the order of recompute_saved (3, 2, 1 GPUs)"
        dead.start()
        cluster.debug_check()


def a_flapping_destination_needs_several_probes():
    """S1-074: fewer failed probes than the configured number change nothing."""
    with Cluster(members=1, policy=POLICY, storage_watch={"interval_ms": 100, "failures_down": 1000, "successes_up": 2}) as cluster:
        cluster.start()
        cluster.storage_down()
        before = wait_until("a first probe", lambda: metric(cluster.wait_leader().http, "ckpt_destination_probes_total"), 20)
        wait_until("ten more probes", lambda: metric(cluster.wait_leader().http, "ckpt_destination_probes_total") >= before + 10, 20)
        assert metric(cluster.wait_leader().http, GAUGE) == 0
        cluster.storage_up()


def an_application_without_a_handler_is_not_signalled():
    """Decision 11: SIGUSR1's default action would kill it."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("bare", [("a", 1, 1 << 20)])
        job = cluster.run_job("a", "bare", ["sleep", "60"])
        pid = wait_until("it runs", job.known_to_run, 10)
        identifier = hint(cluster, "bare")
        record = wait_until("the checkpoint failed", lambda: next((c for c in cluster.checkpoints("bare") if c.checkpoint_id == identifier
                                                                  and c.state in (7, 8)), None), 20)
        assert record.reason == common_pb2.REASON_NO_HANDLER, record
        assert job.application_pid() == pid, "the application was killed"


def a_work_folder_that_somebody_else_made_first_is_refused():
    """Who made its parent in /var/tmp before the user may exchange what is in it, and so give orders in the job's name."""
    if os.geteuid() != 0:
        print("# SKIP needs root to be several users")
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.let_others_in()
        cluster.start()
        uid = "64913"  # nobody's on this machine
        squatted = pathlib.Path(f"/var/tmp/ckpt-{uid}")
        aside = cluster.dir / "aside"
        aside.mkdir()
        squatted.mkdir()

        def refused():
            result = subprocess.run(["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", str(cluster.bin / "ckpt-run"), "--alloc",
                                     "nobody", "--socket", str(cluster.agents["a"].socket), "--", "true"],
                                    capture_output=True, text=True, timeout=20)
            assert result.returncode == 125, result
            return f"{squatted} is not a folder that you alone can write to" in result.stderr
        try:
            for owner, mode in ((1234, 0o777), (int(uid), 0o777), (int(uid), 0o770)):
                os.chown(squatted, owner, owner)
                squatted.chmod(mode)
                assert refused(), (owner, mode)
            squatted.rmdir()
            squatted.symlink_to(aside)
            assert refused()
            squatted.unlink()
            assert not refused(), "only the broker does"
        finally:
            squatted.unlink() if squatted.is_symlink() else shutil.rmtree(squatted, ignore_errors=True)


def an_unresponsive_application_times_out_and_runs_on():
    """S1-033, S1-046, P-040: asked once, never answered: TIMED_OUT, the allocation runs on, marked unresponsive."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("deaf", [("a", 1, 1 << 20)], checkpoint_timeout_ms=1500)
        job = cluster.run_job("a", "deaf", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--ignore",
                                            "--output", str(cluster.dir / "deaf.result")])
        wait_until("it runs", job.known_to_run, 10)
        identifier = hint(cluster, "deaf")
        wait_until("TIMED_OUT", lambda: next((c for c in cluster.checkpoints("deaf") if c.checkpoint_id == identifier and c.state == 8), None), 20)
        allocation = cluster.allocation("deaf")
        assert allocation.state == common_pb2.ALLOCATION_STATE_RUNNING and allocation.unresponsive, allocation
        assert job.application_pid()
        leftovers = [p for p in cluster.scratch.rglob("*") if p.is_file() and not p.name.startswith((".probe.", ".cluster."))]  # the storage watch's go by
        assert not leftovers, leftovers


def a_preempted_job_is_suspended_with_its_checkpoint():
    """P-020, P-023, P-025, F-020, S4-001, S4-002, I30: checkpoint first, then stop; restart brings it back."""
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("low", [("a", 1, 1 << 20)], preemption_class=1)
        job = cluster.run_job("a", "low", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                           "--output", str(cluster.dir / "low.result")])
        wait_until("it runs", job.known_to_run, 10)
        reply = cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(
            request_id=uuid.uuid4().hex, preemption_class=5, nodes_needed=1))
        assert [v.allocation_id for v in reply.victims] == ["low"] and reply.victims[0].checkpoint_id, reply
        allocation = wait_until("SUSPENDED", lambda: (lambda a: a if a.state == common_pb2.ALLOCATION_STATE_SUSPENDED else None)(cluster.allocation("low")), 30)
        assert allocation.last_complete_checkpoint_id == reply.victims[0].checkpoint_id
        assert allocation.preempted_count == 1
        wait_until("ckpt-run ended with it", lambda: job.process.poll() is not None, 10)
        cluster.client.broker("RestartAllocation", broker_pb2.RestartAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="low"))
        again = cluster.run_job("a", "low", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                             "--output", str(cluster.dir / "low.result")])
        wait_until("it continues from its checkpoint", lambda: "from checkpoint" in again.log.read_text(), 20)
        cluster.debug_check()


def a_restart_in_an_outage_says_what_is_repeated():
    """S2-007, S2-008: it waits as long as what it would repeat is worth, at most max_discarded, and says so at once."""
    work_s = 4
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_discarded": "1h", "min_interval": "1h"}, copies=False) as cluster:
        cluster.start()
        cluster.register("low", [("a", 1, 1 << 20)])
        job = cluster.run_job("a", "low", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                           "--output", str(cluster.dir / "low.result")], ("--max-restarts", "0"))
        wait_until("it runs", job.known_to_run, 10)
        time.sleep(work_s)
        first = hint(cluster, "low")
        wait_until("it is complete", lambda: cluster.checkpoints("low")[-1].state == COMPLETE, 20)
        cluster.ctl("end", "low", "--failed", "--yes")
        wait_until("ckpt-run ended with it", lambda: job.process.poll() is not None, 10)
        began = cluster.ctl("restart", "low")
        assert f"it begins from checkpoint {checkpoint_text(first)}\n" in began.stdout and "warning" not in began.stderr, began
        cluster.ctl("end", "low", "--failed", "--yes")
        cluster.storage_down()
        wait_until("it is known", lambda: metric(cluster.wait_leader().http, GAUGE) == 1, 15)
        waits = cluster.ctl("restart", "low")
        assert checkpoint_text(first) in waits.stdout and "is away: unless it is back before, the job begins at" in waits.stderr, waits
        cluster.ctl("end", "low", "--failed", "--yes")
        time.sleep(work_s + 2)
        discards = cluster.ctl("restart", "low")
        assert "it begins from scratch\n" in discards.stdout and "warning: it repeats" in discards.stderr and " is away" in discards.stderr, discards
        cluster.ctl("end", "low", "--failed", "--yes")
        cluster.ctl("policy", "set", "max_discarded=1s")
        never = cluster.ctl("restart", "low")
        assert checkpoint_text(first) in never.stdout and "the job waits for it" in never.stderr, never
        cluster.debug_check()


def walltime_is_never_extended():
    """F-012, F-019: the agent's own timer ends it, also without a broker."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("short", [("a", 1, 1 << 20)], walltime_ms=4000, grace_ms=500, strategy=common_pb2.STRATEGY_MANUAL)
        job = cluster.run_job("a", "short", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                             "--output", str(cluster.dir / "short.result")])
        wait_until("it runs", job.known_to_run, 10)
        wait_until("the agent knows the deadline", lambda: "event=walltime" in cluster.agents["a"].log.read_text(), 10)
        cluster.members[0].kill()
        wait_until("the agent ended it", lambda: job.process.poll() is not None, 20)
        cluster.members[0].start()
        allocation = wait_until("FAILED", lambda: (lambda a: a if a.state == common_pb2.ALLOCATION_STATE_FAILED else None)(cluster.allocation("short")), 20)
        assert allocation.reason == common_pb2.REASON_WALLTIME_EXCEEDED, allocation


def metrics_pass_promtool_and_carry_the_documented_names():
    """S1-070, T-004, T-006, P-080."""
    import subprocess
    from cluster import http_get
    with Cluster(policy=POLICY) as cluster:
        cluster.start()
        body = http_get(cluster.wait_leader().http, "/metrics")[1]
        checked = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr + checked.stdout
        for name in (GAUGE, "lattice_raft_leader", "lattice_raft_commit_latency_seconds", "lattice_checkpoint_evaluations_total",
                     "lattice_checkpoint_operations_total", "lattice_checkpoint_failures_total", "lattice_preemptions_total",
                     "ckpt_raft_is_leader", "ckpt_raft_term", "ckpt_raft_commit_index", "ckpt_evaluation_duration_seconds",
                     "ckpt_checkpoints", "ckpt_paused_requests", "ckpt_destination_up", "ckpt_build_info"):
            assert f"# TYPE {name} " in body, f"{name} is missing"
        for path, leader, follower in (("/leader", 200, 503), ("/follower", 503, 200), ("/livez", 200, 200), ("/readyz", 200, 200)):
            for member in cluster.members:
                expected = leader if member is cluster.wait_leader() else follower
                wait_until(f"{member.name} answers {path} with {expected}",  # a follower is ready once it has applied the first entries
                           lambda m=member, p=path, e=expected: http_get(m.http, p)[0] == e, 5)


if __name__ == "__main__":
    sys.exit(tap([paused_checkpoints_survive_the_leader_and_resume_once, a_flapping_destination_needs_several_probes,
                  an_application_without_a_handler_is_not_signalled, a_work_folder_that_somebody_else_made_first_is_refused,
                  an_unresponsive_application_times_out_and_runs_on,
                  a_preempted_job_is_suspended_with_its_checkpoint, a_restart_in_an_outage_says_what_is_repeated, walltime_is_never_extended,
                  metrics_pass_promtool_and_carry_the_documented_names]))
