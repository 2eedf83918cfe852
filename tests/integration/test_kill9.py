#!/usr/bin/python3
"""SIGKILL of any process at any moment leaves nothing half-done: started again, the invariants hold and every checkpoint finds its end.
I5, I6, I20-I24, I27, F-025."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, common_pb2, tail, tap, wait_until  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
POLICY = {"evaluation_interval": "1s", "min_interval": "1s", "checkpoint_timeout": "20s", "grace": "2s", "retry_backoff": "200ms",
          "node_failures_per_1000_node_days_milli": 400000000, "quiesce": "1ms", "near_completion": "1s"}
ACTIVE = {1, 2, 3, 4}


def heat(cluster, name, iterations=100000000):
    return [str(BIN / "heat"), "--size", "96", "--iterations", str(iterations), "--delay-us", "2000", "--slow-ms", "150",
            "--output", str(cluster.dir / f"{name}.result")]


def shards_on_disk_are_whole(cluster):
    for record in cluster.checkpoints(state=5):
        for shard in record.shards:
            folder = pathlib.Path(record.path) / f"part-{shard.part:04}"
            result = subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST"], cwd=folder, capture_output=True, text=True)
            assert result.returncode == 0, f"{folder}: {result.stderr}"


def settled(cluster, job):
    """A job of several nodes ends as a whole when one of its parts dies; the others are started again in place."""
    state = cluster.allocation(job.allocation).state
    if state == common_pb2.ALLOCATION_STATE_STARTING:
        return False  # it is started again in place
    if state != common_pb2.ALLOCATION_STATE_RUNNING:
        assert job.allocation == "pair", f"{job.allocation} is over"
        return not job.running() and not job.applications()
    return job.application_pid() is not None and job.applications() == [job.application_pid()]


def any_process_may_be_killed_at_any_moment(staging="local"):
    print(f"# SEED={SEED}")
    draw = random.Random(SEED)
    with Cluster(agents=("a", "b"), policy=POLICY, target={"staging": staging}) as cluster:
        cluster.start()
        for name, nodes in (("solo", ["a"]), ("pair", ["a", "b"]), ("third", ["b"])):
            cluster.register(name, [(n, 2, 4 << 20) for n in nodes], grace_ms=2000)
            for node in nodes:
                cluster.run_job(node, name, heat(cluster, f"{name}.{node}"), options=("--max-restarts", "50"))
        wait_until("the first checkpoint is complete", lambda: cluster.checkpoints(state=5), 30, 0.1)
        for _ in range(16):
            time.sleep(draw.random() * 0.8)  # the moment of the kill is what is drawn here
            kind = draw.choice(["member", "member", "agent", "worker", "application", "runner", "leader"])
            if kind == "worker":
                found = subprocess.run(["pgrep", "-f", f"ckpt-worker .*{cluster.dir}"], capture_output=True, text=True).stdout.split()
                for pid in found:
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                continue
            if kind == "application":
                pid = draw.choice(cluster.jobs).application_pid()
                if pid:
                    os.kill(pid, signal.SIGKILL)
                continue
            victims = {"agent": list(cluster.agents.values()), "runner": cluster.jobs, "member": cluster.members}
            victim = cluster.wait_leader() if kind == "leader" else draw.choice(victims[kind])
            victim.kill()
            if draw.random() < 0.5:
                time.sleep(draw.random() * 0.3)
            victim.start()
        cluster.wait_leader()
        wait_until("every job runs once under its own ckpt-run, or is over", lambda: all(settled(cluster, j) for j in cluster.jobs), 40, 0.2)
        print("# " + cluster.debug_check().strip().splitlines()[-1])
        shards_on_disk_are_whole(cluster)
        done = len(cluster.checkpoints(state=5))
        wait_until("checkpoints go on completing", lambda: len(cluster.checkpoints(state=5)) > done, 40, 0.2)
        old = {c.checkpoint_id for s in ACTIVE for c in cluster.checkpoints(state=s)}
        wait_until("every checkpoint that was active found its end",
                   lambda: not (old & {c.checkpoint_id for s in ACTIVE for c in cluster.checkpoints(state=s)}), 60, 0.2)
        starts = {}
        for event in cluster.events():
            if event.kind == broker_pb2.EVENT_KIND_CHECKPOINT_STATE and event.new_state == 2:
                starts.setdefault(event.checkpoint_id, []).append(event.number)
        for identifier, attempts in starts.items():
            assert attempts == sorted(set(attempts)), f"{identifier}: attempts {attempts} repeat"
        cluster.debug_check()


def any_process_may_be_killed_while_applications_write_at_the_destination():
    any_process_may_be_killed_at_any_moment("direct")


def an_application_outlives_its_ckpt_run_and_the_next_one_takes_over():
    """SIGKILL of ckpt-run: the application runs on and is checkpointed; the same line goes on with it. With --replace the next ckpt-run ends it and
    goes on from its last checkpoint. While a ckpt-run is attached, another one is refused; at no moment are there two."""
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 2, 4 << 20)], grace_ms=2000)
        job = cluster.run_job("a", "job", heat(cluster, "job"))
        count = wait_until("a checkpoint", lambda: cluster.allocation("job").checkpoint_count, 30)
        pid = job.application_pid()
        intruder = cluster.run_job("a", "job", heat(cluster, "job"))
        wait_until("another ckpt-run beside the living one is refused", lambda: intruder.process.poll() == 125, 10)
        assert f"already runs on this node as pid {pid}" in intruder.log.read_text()
        job.kill()
        wait_until("it is checkpointed as before", lambda: cluster.allocation("job").checkpoint_count > count + 1, 90)
        assert job.applications() == [pid]
        job.start()
        wait_until("the same line goes on with it", lambda: f"goes on with pid {pid}" in job.log.read_text(), 10)
        count = cluster.allocation("job").checkpoint_count
        wait_until("it is checkpointed as before", lambda: cluster.allocation("job").checkpoint_count > count, 90)
        assert job.applications() == [pid] and job.running()
        job.kill()
        job.arguments.insert(1, "--replace")
        job.start()
        most = 0

        def taken_over():
            nonlocal most
            now = job.applications()
            most = max(most, len(now))
            return now and pid not in now
        wait_until("the next one takes over", taken_over, 30, 0.02)
        assert most == 1, f"{most} processes of the application at once"
        wait_until("it says so", lambda: f"pid {pid} ran on after its ckpt-run had gone; it was ended; lost: " in job.log.read_text(), 5)
        assert "from checkpoint" in job.log.read_text()
        count = cluster.allocation("job").checkpoint_count
        wait_until("it is checkpointed again", lambda: cluster.allocation("job").checkpoint_count > count, 30)
        assert cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_RUNNING
        cluster.debug_check()


def a_ckpt_run_that_the_agent_lost_sight_of_keeps_its_application():
    """The agent restarts: a second ckpt-run that comes first must not take over from the one that attaches again."""
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 2, 4 << 20)], grace_ms=2000)
        job = cluster.run_job("a", "job", heat(cluster, "job"))
        wait_until("a checkpoint", lambda: cluster.allocation("job").checkpoint_count, 30)
        pid = job.application_pid()
        os.kill(job.process.pid, signal.SIGSTOP)
        try:
            cluster.agents["a"].kill()
            intruder = cluster.run_job("a", "job", heat(cluster, "job"))
            cluster.agents["a"].start()
            wait_until("the second one waits", lambda: "attach_parked" in tail(cluster.agents["a"].log, 50), 10, 0.02)
        finally:
            os.kill(job.process.pid, signal.SIGCONT)
        wait_until("the second one is refused", lambda: intruder.process.poll() == 125, 10)
        assert job.applications() == [pid]


def a_killed_job_ends_with_the_result_of_an_undisturbed_run():
    """S3-060, S4-005, S5-001."""
    # what the first checkpoint has cost is learned, and a dear one is worth it late: not within such a short job at POLICY's failures
    with Cluster(agents=("a",), policy={**POLICY, "node_failures_per_1000_node_days_milli": 1000000000}) as cluster:
        cluster.start()
        cluster.register("job", [("a", 2, 4 << 20)])
        job = cluster.run_job("a", "job", heat(cluster, "job", iterations=6000))
        for _ in range(2):
            complete = wait_until("a further checkpoint", lambda: cluster.allocation("job").checkpoint_count or None, 30)
            os.kill(wait_until("it runs", job.application_pid, 10), signal.SIGKILL)
            wait_until("it is restarted and checkpointed again", lambda: cluster.allocation("job").checkpoint_count > complete
                       or job.process.poll() is not None, 30, 0.05)
            if job.process.poll() is not None:
                break  # a pause that a busy machine made long puts the next checkpoint off beyond the job's end: one kill has been
        assert wait_until("it ends", lambda: job.process.poll() is not None and (job.process.returncode,), 60)[0] == 0, job.log.read_text()[-2000:]
        reference = cluster.dir / "reference"
        subprocess.run([str(BIN / "heat"), "--size", "96", "--iterations", "6000", "--output", str(reference)], check=True,
                       stdout=subprocess.DEVNULL, cwd=cluster.dir)
        assert (cluster.dir / "job.result").read_bytes() == reference.read_bytes()
        assert "from checkpoint" in job.log.read_text()


if __name__ == "__main__":
    sys.exit(tap([any_process_may_be_killed_at_any_moment, any_process_may_be_killed_while_applications_write_at_the_destination, an_application_outlives_its_ckpt_run_and_the_next_one_takes_over,
                  a_ckpt_run_that_the_agent_lost_sight_of_keeps_its_application,
                  a_killed_job_ends_with_the_result_of_an_undisturbed_run]))
