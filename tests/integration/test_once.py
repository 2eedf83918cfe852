#!/usr/bin/python3
"""A job whose last run may go on is begun nowhere else: no second copy, whoever asks for it, and however well its node looks (I61, V-003, S3-045)."""
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, common_pb2, grpc, own_name, tap, wait_until  # noqa: E402
from jobs import ENDED_FAILED, MIB, POLICY, RUNNING, all_run, allocation_in, complete, heat, restart  # noqa: E402

HELD_S = 3.0  # so long the leader holds such a request


def end(cluster, name):
    cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id=name, failed=True))


def refused(cluster, *arguments, node):
    """RUN_NOT_ENDED that names the node, when the leader has waited: nobody has noticed its silence yet."""
    since = time.monotonic()
    done = cluster.ctl(*arguments, check=False)
    assert done.returncode == 4 and f"RUN_NOT_ENDED: {node}: " in done.stderr and "ckptctl node down NODE --is-off" in done.stderr, done
    assert HELD_S - 1 < time.monotonic() - since < HELD_S + 3, time.monotonic() - since


def living(cluster, jobs):
    return [pid for job in jobs for pid in job.applications()]


def gone(job):
    wait_until(f"nothing of {job.allocation} runs on {job.agent.name}", lambda: not job.applications(), 20, 0.05)


def a_person_cannot_begin_a_second_copy_while_the_agent_stands_still():
    """Neither by a restart, nor under another id, nor of another leader. The agent that goes on ends the old run, and then the restart is taken."""
    with Cluster(members=3, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], grace_ms=500)
        old = cluster.run_job("a", "job", heat(cluster, "job"))
        all_run(cluster)
        complete(cluster, "job")
        cluster.agents["a"].process.send_signal(signal.SIGSTOP)
        cluster.ctl("end", "job", "--failed", "--yes")
        refused(cluster, "restart", "job", "--node", "b:1", node="a")
        refused(cluster, "register", "--alloc", "next", "--tenant", "physics", "--project", "heat", "--owner", own_name(), "--node", "b:1", "--continues", "job", node="a")
        shown = cluster.ctl("job", "job").stdout
        assert re.search(r"node a of its last run has not said that it has ended there", shown), shown
        leader = cluster.wait_leader()
        leader.kill()
        cluster.wait_leader()
        refused(cluster, "restart", "job", "--node", "b:1", "--from-scratch", node="a")
        leader.start()
        assert len(living(cluster, [old])) == 1 and cluster.allocation("job").state == ENDED_FAILED
        cluster.agents["a"].process.send_signal(signal.SIGCONT)
        gone(old)
        wait_until("the restart is taken", lambda: cluster.ctl("restart", "job", "--node", "b:1", check=False).returncode == 0, 20, 0.2)
        new = cluster.run_job("b", "job", heat(cluster, "job"))
        allocation_in(cluster, "job", RUNNING)
        assert len(living(cluster, [old, new])) == 1
        cluster.debug_check()


def who_restarts_on_fewer_nodes_leaves_none_out_that_may_compute():
    """A job of two nodes: its scheduler puts it on one of them and on a third, its owner on the fewest that it can go on with."""
    with Cluster(members=1, agents=("a", "b", "c"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], grace_ms=500, reactive_min_nodes=1, reactive_max_nodes=2,
                         restore=common_pb2.RESTORE_MODE_ALL)
        jobs = [cluster.run_job(name, "job", heat(cluster, f"job.{name}"), ("--max-restarts", "0")) for name in "ab"]
        all_run(cluster)
        complete(cluster, "job")
        cluster.agents["b"].process.send_signal(signal.SIGSTOP)
        end(cluster, "job")
        refused(cluster, "restart", "job", "--node", "a:1,c:1", node="b")
        owner = subprocess.run([str(BIN / "ckpt-run"), "restart", "job", "--socket", str(cluster.agents["a"].socket)], capture_output=True, text=True,
                               timeout=60)
        assert owner.returncode == 4 and "RUN_NOT_ENDED: b: " in owner.stderr, owner
        assert living(cluster, jobs[1:]) and cluster.allocation("job").state == ENDED_FAILED
        cluster.agents["b"].process.send_signal(signal.SIGCONT)
        gone(jobs[1])
        wait_until("the restart is taken", lambda: cluster.ctl("restart", "job", "--node", "a:1,c:1", check=False).returncode == 0, 20, 0.2)
        cluster.debug_check()


def what_was_taken_from_a_running_job_unheard_is_asked_about():
    """Its scheduler takes a node away whose agent stands still, and the job runs on. What lives there is none of its parts any more."""
    with Cluster(members=1, agents=("a", "b", "c"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], grace_ms=500, restore=common_pb2.RESTORE_MODE_ALL)
        jobs = [cluster.run_job(name, "job", heat(cluster, f"job.{name}"), ("--max-restarts", "0")) for name in "ab"]
        all_run(cluster)
        complete(cluster, "job")
        cluster.agents["b"].process.send_signal(signal.SIGSTOP)
        cluster.ctl("update", "job", "--node", "a:1", "--force", "--yes")
        allocation_in(cluster, "job", RUNNING)
        end(cluster, "job")
        gone(jobs[0])
        refused(cluster, "restart", "job", "--node", "c:1", node="b")
        shown = cluster.ctl("job", "job").stdout
        assert re.search(r"node b of its last run has not said that it has ended there", shown), shown
        assert living(cluster, jobs[1:])
        cluster.agents["b"].process.send_signal(signal.SIGCONT)
        gone(jobs[1])
        wait_until("the restart is taken", lambda: cluster.ctl("restart", "job", "--node", "c:1", check=False).returncode == 0, 20, 0.2)
        cluster.debug_check()


def a_scheduler_that_ends_and_restarts_at_once_notices_nothing():
    """With healthy agents the restart waits for the moment that the end takes, and is taken: also where nothing had begun there, and a rank needs its
    grace. A process that ends by SIGKILL alone is waited for as well."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], grace_ms=500)
        took, nodes = [], "ab"
        for turn in range(6):
            here, other = nodes[turn % 2], nodes[(turn + 1) % 2]
            run = cluster.run_job(here, "job", heat(cluster, f"job.{turn}"), ("--from-scratch", "--max-restarts", "0"))
            allocation_in(cluster, "job", RUNNING)
            end(cluster, "job")
            since = time.monotonic()
            restart(cluster, "job", other, from_scratch=True)
            took.append(time.monotonic() - since)
            assert not run.applications(), "the old run lives beside the new one"
            run.process.wait(20)
        end(cluster, "job")
        since = time.monotonic()
        restart(cluster, "job", "b", from_scratch=True)  # nothing had begun on a
        never = time.monotonic() - since
        print(f"# a restart elsewhere right after the end: {' '.join(f'{t * 1000:.0f}' for t in took)} ms; where nothing had begun {never * 1000:.0f} ms", flush=True)
        assert max(*took, never) < HELD_S, (took, never)
        cluster.debug_check()


def what_takes_long_to_end_is_not_overtaken():
    """A job that ignores SIGTERM for longer than a restart is held."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], grace_ms=8000)
        deaf = cluster.dir / "deaf"
        run = cluster.run_job("a", "job", ["sh", "-c", f"trap '' TERM; : > {deaf}; while :; do sleep 0.1; done"], ("--from-scratch", "--max-restarts", "0"))
        all_run(cluster)
        wait_until("it takes no notice", deaf.exists, 20)
        end(cluster, "job")
        try:
            # one attempt: what is kept of a request for those that repeat it does not name the node
            restart(cluster, "job", "b", from_scratch=True, attempt_s=20)
            raise AssertionError("a second copy")
        except grpc.RpcError as error:
            assert "RUN_NOT_ENDED: a: " in error.details(), error
        assert run.applications()
        gone(run)
        restart(cluster, "job", "b", from_scratch=True)


if __name__ == "__main__":
    sys.exit(tap([a_person_cannot_begin_a_second_copy_while_the_agent_stands_still, who_restarts_on_fewer_nodes_leaves_none_out_that_may_compute,
                  what_was_taken_from_a_running_job_unheard_is_asked_about, a_scheduler_that_ends_and_restarts_at_once_notices_nothing,
                  what_takes_long_to_end_is_not_overtaken]))
