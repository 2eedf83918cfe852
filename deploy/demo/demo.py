#!/usr/bin/python3
"""The main job, end to end, on this machine: three replicas, two agents, five running jobs, a storage outage, a dead leader, resumed
checkpoints, a restarted job, a forced preemption. Exits non-zero if any of it did not happen as promised.

Flow    each step asks the running system (events, records, process table) and fails with what it saw instead. Nothing is simulated:
        the destination is a folder that is moved away, the leader dies by SIGKILL, the jobs compute.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid
from datetime import datetime, timezone

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
from cluster import BIN, Cluster, broker_pb2, checkpoint_text, common_pb2, metric, wait_until  # noqa: E402

STARTED = time.monotonic()
MIB = 1 << 20
REQUESTED, DISPATCHED, WRITING, PAUSED, COMPLETE = 1, 2, 3, 4, 5
ACTIVE = (REQUESTED, DISPATCHED, WRITING)
RUNNING, SUSPENDED, COMPLETED, FAILED = 1, 3, 4, 5
PREEMPTED_WITHOUT_CHECKPOINT = common_pb2.REASON_PREEMPTED_WITHOUT_CHECKPOINT
EVENT_CHECKPOINT, EVENT_TARGET_DOWN, EVENT_TARGET_UP, EVENT_LEADER = 3, 4, 5, 6

# Cycles of seconds instead of hours: a hazard of one failure per node and 86 s makes the same cost model fire every few
# seconds for jobs whose checkpoints take a fraction of a second.
POLICY = {"evaluation_interval": "1s", "min_interval": "3s", "max_interval": "10m", "checkpoint_timeout": "30s", "grace": "2s",
          "node_failures_per_1000_node_days_milli": 1000000000, "quiesce": "5ms", "near_completion": "1s", "restart_cost": "1s",
          "retry_backoff": "500ms"}
# Room for two nodes writing 150 MB/s each beside the staging share, so that further checkpoints wait for their grant.
TARGET = {"write_bytes_per_s": 500000000, "staging_share_ppm": 300000}
WRITE_BYTES_PER_S = 150000000

JOBS = {  # name: ([(node, GPUs, GPU memory in use)], class, grid size, iterations, microseconds per iteration)
    "climate": ([("gpu-a", 4, 64 * MIB)], 5, 256, 9000, 4000),
    "fusion": ([("gpu-b", 8, 96 * MIB)], 5, 320, 100000000, 4000),
    "protein": ([("gpu-a", 2, 32 * MIB), ("gpu-b", 2, 32 * MIB)], 5, 224, 100000000, 4000),
    "genome": ([("gpu-a", 2, 24 * MIB)], 4, 160, 100000000, 4000),
    "sweep": ([("gpu-b", 1, 16 * MIB)], 1, 192, 100000000, 4000),
}


def say(text):
    print(f"[{time.monotonic() - STARTED:6.2f} s] {text}", flush=True)


def step(number, text):
    print(f"\n--- {number}. {text}", flush=True)


def require(condition, text):
    if not condition:
        raise AssertionError(text)


def heat(name, output, delay=True):
    _, _, size, iterations, delay_us = JOBS[name]
    return [str(BIN / "heat"), "--size", str(size), "--iterations", str(iterations), "--delay-us", str(delay_us if delay else 0),
            "--slow-ms", "1500", "--output", str(output)]


def start_jobs(cluster):
    for name, (nodes, job_class, *_rest) in JOBS.items():
        cluster.register(name, nodes, preemption_class=job_class, strategy=common_pb2.STRATEGY_AUTO, grace_ms=2000,
                         write_bytes_per_s=WRITE_BYTES_PER_S)
        for node, _, _ in nodes:
            job = cluster.run_job(node, name, heat(name, cluster.dir / f"{name}.{node}.result"))
            pid = wait_until(f"{name} runs on {node}", job.application_pid, 15)
            say(f"job {name:8} on {node}: ckpt-run pid {job.process.pid}, application pid {pid}")
    for name in JOBS:  # what has a pid is known to run a moment later: until then no checkpoint is asked of it
        wait_until(f"{name} is RUNNING", lambda: cluster.allocation(name).state == common_pb2.ALLOCATION_STATE_RUNNING, 15)


def first_complete(cluster):
    def all_complete():
        return all(cluster.allocation(name).checkpoint_count > 0 for name in JOBS)
    wait_until("each job has a complete checkpoint", all_complete, 40, 0.1)
    events = cluster.events()
    for name in JOBS:
        record = next(c for c in cluster.checkpoints(name) if c.state == COMPLETE)
        moves = [e for e in events if e.kind == EVENT_CHECKPOINT and e.checkpoint_id == record.checkpoint_id]
        order = [e.new_state for e in moves]
        require(order == [REQUESTED, DISPATCHED, WRITING, COMPLETE], f"{name}: moved through {order}")
        require(moves[0].index < moves[1].index <= moves[2].index, f"{name}: asked before the decision was committed")
        terms = record.terms
        require(terms.value_gpu_ms > terms.cost_gpu_ms, f"{name}: value {terms.value_gpu_ms} is not above cost {terms.cost_gpu_ms}")
        require(all(s.verified and len(s.manifest_sha256) == 64 for s in record.shards), f"{name}: a shard is not verified")
        for shard in record.shards:
            manifest = pathlib.Path(record.path) / f"part-{shard.part:04}"
            check = subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST"], cwd=manifest, capture_output=True, text=True)
            require(check.returncode == 0, f"{name}: sha256sum -c in {manifest}: {check.stderr}")
        say(f"{name:8} checkpoint {checkpoint_text(record.checkpoint_id)}: value {terms.value_gpu_ms / 1000:.2f} > cost "
            f"{terms.cost_gpu_ms / 1000:.2f} GPU-s, committed at {moves[0].index}, dispatched at {moves[1].index}, "
            f"{len(record.shards)} shard(s) verified, complete after {moves[3].at_ms - moves[0].at_ms} ms")


def active(cluster):
    return {c.checkpoint_id: c for s in ACTIVE for c in cluster.checkpoints(state=s)}


def outage(cluster):
    """Takes the destination away while checkpoints are pending and running; returns the paused ones by id."""
    for name in JOBS:  # beside what the evaluator decides; a job whose checkpoint is active already refuses a second one
        asked = cluster.ctl("hint", name, check=False)
        require(asked.returncode in (0, 4), f"ckptctl hint {name}: exit {asked.returncode}: {asked.stderr}")
    caught = wait_until("three checkpoints are pending or running, at least one of each",
                        lambda: (lambda a: a if len(a) >= 3 and {REQUESTED, WRITING} <= {c.state for c in a.values()} else None)(active(cluster)),
                        20, 0.02)
    cluster.storage_down()
    say(f"destination {cluster.scratch} is gone while {len(caught)} checkpoints are active: "
        + ", ".join(f"{c.allocation_id} {common_pb2.CheckpointState.Name(c.state)[17:].lower()}" for c in caught.values()))
    gauge = "lattice_checkpoint_storage_unavailable"
    wait_until("the gauge is 1", lambda: (lambda l: l and metric(l.http, gauge) == 1)(cluster.leader()), 15)
    paused = {c.checkpoint_id: c for c in cluster.checkpoints(state=PAUSED)}
    require(not active(cluster), "a checkpoint is still active in the outage")
    require(paused, "nothing was paused")
    for identifier, record in caught.items():
        state = next(c for c in cluster.checkpoints(record.allocation_id) if c.checkpoint_id == identifier).state
        require(state in (PAUSED, COMPLETE), f"{checkpoint_text(identifier)} is in state {state}: neither paused nor just complete")
    down = [e for e in cluster.events() if e.kind == EVENT_TARGET_DOWN][-1]
    say(f"{len(paused)} PAUSED, none cancelled; gauge {gauge} = 1")
    alive = [job for job in cluster.jobs if job.running() and job.application_pid()]
    require(len(alive) == len(cluster.jobs), "a job stopped because of the outage")
    return paused, down.sequence


def kill_leader(cluster, paused):
    old = cluster.wait_leader()
    say(f"SIGKILL to the leader {old.name}, pid {old.process.pid}")
    killed_ms = time.time() * 1000
    killed = time.monotonic()
    old.kill()
    new = cluster.wait_leader()
    elected = time.monotonic()
    cluster.client.current = cluster.members.index(new)
    cluster.client.broker("ReportQueue", broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="hpc"), attempt_s=0.5)
    committed = time.monotonic()
    after = {c.checkpoint_id for c in cluster.checkpoints(state=PAUSED)}
    require(after == set(paused), f"paused before {sorted(paused)}, after {sorted(after)}")
    leader_event = [e for e in cluster.events() if e.kind == EVENT_LEADER][-1]
    require(leader_event.number == len(paused), f"the leader's event carries {leader_event.number} paused, expected {len(paused)}")
    say(f"{new.name} (pid {new.process.pid}) leads term {leader_event.term}: the same {len(after)} paused checkpoints")
    return old, {"detect": detect_ms(cluster, killed_ms), "elect": (elected - killed) * 1000, "first commit": (committed - killed) * 1000}


def detect_ms(cluster, killed_ms):
    """From the survivors' logs: when the first of them saw the leader's connection close."""
    times = []
    for member in cluster.members:
        for line in member.log.read_text(errors="replace").splitlines():
            if "event=leader_lost" in line:
                stamp = line.split("time=", 1)[1].split(" ", 1)[0]
                parsed = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
                at_ms = parsed.timestamp() * 1000
                if at_ms >= killed_ms - 5:
                    times.append(at_ms - killed_ms)
    require(times, "no survivor logged event=leader_lost")
    return max(0.0, min(times))


def storage_returns(cluster, paused, down_sequence):
    cluster.storage_up()
    say("destination is back")
    wait_until("every paused checkpoint is complete",
               lambda: {c.checkpoint_id for c in cluster.checkpoints(state=COMPLETE)} >= set(paused), 40, 0.1)
    events = cluster.events()
    up = next(e for e in events if e.kind == EVENT_TARGET_UP and e.sequence > down_sequence)
    early = [e for e in events if e.kind == EVENT_CHECKPOINT and e.new_state == DISPATCHED and down_sequence < e.sequence < up.sequence]
    require(not early, f"{len(early)} were dispatched during the outage")
    resumed = [e for e in events if e.kind == EVENT_CHECKPOINT and e.old_state == PAUSED and e.sequence > down_sequence]
    counts = {identifier: sum(1 for e in resumed if e.checkpoint_id == identifier) for identifier in paused}
    duplicated = sum(count - 1 for count in counts.values() if count > 1)
    lost = sum(1 for count in counts.values() if count == 0)
    require(duplicated == 0 and lost == 0, f"resumed counts {counts}")
    records = {c.checkpoint_id: c for c in cluster.checkpoints() if c.checkpoint_id in paused}
    dispatched = [e for e in events if e.kind == EVENT_CHECKPOINT and e.new_state == DISPATCHED and e.sequence > up.sequence
                  and e.checkpoint_id in paused]
    first = {}
    for event in dispatched:
        first.setdefault(event.checkpoint_id, event)
    order = [records[i].recompute_saved_gpu_ms for i in first]
    require(order == sorted(order, reverse=True), f"dispatched after the outage in the order of recompute_saved {order}")
    for identifier, event in first.items():
        record = records[identifier]
        require(record.paused_count == record.resumed_count == 1, f"{checkpoint_text(identifier)}: paused {record.paused_count}, resumed {record.resumed_count}")
        say(f"resumed once: {record.allocation_id:8} {checkpoint_text(identifier)} recompute_saved "
            f"{record.recompute_saved_gpu_ms / 1000:9.2f} GPU-s, dispatched {event.at_ms - up.at_ms} ms after the destination was up, attempt {record.attempt}, COMPLETE")
    return {"first hint": min(e.at_ms for e in dispatched) - up.at_ms, "resumed": len(resumed), "lost": lost, "duplicated": duplicated}


def kill_job(cluster):
    job = next(j for j in cluster.jobs if j.allocation == "climate")
    pid = job.application_pid()
    point = cluster.allocation("climate").last_complete_checkpoint_id
    os.kill(pid, signal.SIGKILL)
    say(f"SIGKILL to climate's application, pid {pid}; last complete checkpoint {checkpoint_text(point)}")
    new_pid = wait_until("ckpt-run started it again", lambda: (lambda p: p if p and p != pid else None)(job.application_pid()), 20)
    say(f"ckpt-run started it again from its checkpoint: pid {new_pid}")
    result = cluster.dir / "climate.gpu-a.result"
    status = wait_until("climate ends", lambda: job.process.poll() is not None and ("ended", job.process.returncode), 60)[1]
    require(status == 0, f"climate ended with status {status}")
    restored = [line for line in job.log.read_text().splitlines() if "from checkpoint" in line]
    require(restored, "ckpt-run did not say from which checkpoint it started the application")
    resumed_at = [line for line in job.log.read_text().splitlines() if f"heat: pid {new_pid} starts at iteration" in line]
    require(resumed_at and not resumed_at[0].endswith(" 0"), f"the application did not continue: {resumed_at}")
    say(f"{restored[-1].strip()}; {resumed_at[0].strip()}")
    reference = cluster.dir / "climate.reference"
    subprocess.run(heat("climate", reference, delay=False), check=True, stdout=subprocess.DEVNULL, cwd=cluster.dir)
    require(result.read_bytes() == reference.read_bytes(), "climate's result differs from an undisturbed run")
    say(f"result equals that of an undisturbed run: {' '.join(result.read_text().split())}")
    wait_until("climate is COMPLETED", lambda: cluster.allocation("climate").state == COMPLETED, 10)


def forced_preemption(cluster):
    cluster.storage_down()
    wait_until("the outage is known", lambda: metric(cluster.wait_leader().http, "lattice_checkpoint_storage_unavailable") == 1, 15)
    job = next(j for j in cluster.jobs if j.allocation == "sweep")
    pid = job.application_pid()
    refused = cluster.ctl("preempt", "--class", "9", "--nodes", "1", "--candidates", "sweep", "--yes", check=False)
    require(refused.returncode == 4, f"preempt without --forced in an outage: exit {refused.returncode}, expected 4 (refused)")
    said = next(line for line in refused.stderr.splitlines() if line.startswith("error:"))
    say(f"not forced: refused: {said}")
    cluster.ctl("preempt", "--class", "9", "--nodes", "1", "--candidates", "sweep", "--forced", "--yes")
    wait_until("sweep's application is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists(), 20)
    allocation = wait_until("sweep has ended", lambda: (lambda a: a if a.state != RUNNING else None)(cluster.allocation("sweep")), 20)
    require(allocation.state == FAILED, f"sweep is in state {allocation.state}, expected FAILED")
    require(allocation.reason == PREEMPTED_WITHOUT_CHECKPOINT, f"sweep failed for reason {allocation.reason}")
    say(f"forced: SIGTERM without a checkpoint, pid {pid} is gone, sweep is FAILED (preempted_without_checkpoint), not SUSPENDED")
    cluster.storage_up()


def main():
    print("Checkpoint broker: the main job on this machine. Nothing is simulated.")
    with Cluster(members=3, agents=("gpu-a", "gpu-b"), policy=POLICY, target=TARGET) as cluster:
        cluster.start()
        for daemon in [*cluster.members, *cluster.agents.values()]:
            say(f"{'ckptd' if hasattr(daemon, 'api') else 'ckpt-agentd':11} {daemon.name:5} pid {daemon.process.pid}")
        start_jobs(cluster)
        step(1, "the leader decides by the cost model, commits, then asks; applications write; shards are verified")
        first_complete(cluster)
        step(2, "the destination becomes unavailable")
        paused, down_sequence = outage(cluster)
        step(3, "the leader is killed during the outage")
        old, times = kill_leader(cluster, paused)
        step(4, "the destination returns")
        table = storage_returns(cluster, paused, down_sequence)
        old.start()
        say(f"{old.name} is started again, pid {old.process.pid}")
        step(5, "a job is killed and restarted from its checkpoint")
        kill_job(cluster)
        step(6, "forced preemption during a second outage")
        forced_preemption(cluster)
        print()
        print(cluster.ctl("status").stdout)
        print(cluster.debug_check())
        print("detect      elect       first commit  first hint  paused carried over  resumed once  lost  duplicated")
        print(f"{times['detect']:6.0f} ms   {times['elect']:6.0f} ms   {times['first commit']:6.0f} ms     {table['first hint']:6.0f} ms   "
              f"{len(paused):19d}  {table['resumed']:12d}  {table['lost']:4d}  {table['duplicated']:10d}")
        print("detect, elect, first commit: since SIGKILL; first hint: since the destination was declared available again.")
    say("all of it happened; everything is stopped and removed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (AssertionError, TimeoutError, RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        sys.exit(1)
