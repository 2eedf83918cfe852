"""What tests of the data path share: a policy that waits for nothing, jobs that run, what becomes of their checkpoints."""
import os
import subprocess
import uuid

from cluster import BIN, Job, broker_pb2, common_pb2, wait_until

POLICY = {"evaluation_interval": "1s", "min_interval": "1h", "checkpoint_timeout": "20s", "grace": "1s", "max_attempts": 2,
          "node_failures_per_1000_node_days_milli": 1, "quiesce": "1ms", "near_completion": "1s", "retry_backoff": "200ms"}
REQUESTED, DISPATCHED, WRITING, PAUSED, COMPLETE, FAILED, TIMED_OUT = 1, 2, 3, 4, 5, 7, 8
SUPERSEDED = common_pb2.CHECKPOINT_STATE_SUPERSEDED
STARTING = common_pb2.ALLOCATION_STATE_STARTING
RUNNING, SUSPENDED = common_pb2.ALLOCATION_STATE_RUNNING, common_pb2.ALLOCATION_STATE_SUSPENDED
ENDED_FAILED, REQUEUED = common_pb2.ALLOCATION_STATE_FAILED, common_pb2.ALLOCATION_STATE_REQUEUED
COMPLETED = common_pb2.ALLOCATION_STATE_COMPLETED
MIB = 1 << 20


class Started(Job):
    """A ckpt-run that is typed in a folder, as a user does: profiles and options name files below it."""

    def __init__(self, cluster, node, name, folder, options, command, environment=None, prefix=()):
        self.folder, self.environment, self.prefix = folder, environment or {}, prefix
        super().__init__(cluster, cluster.agents[node], name, command, options)
        cluster.jobs.append(self)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.prefix, *self.arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
                                            env={**os.environ, **self.environment})


def heat(cluster, name, *options):
    return [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output",
            str(cluster.dir / f"{name}.result"), *options]


def hint(cluster, name):
    return cluster.request_checkpoint(name)


def restart(cluster, name, nodes="", from_scratch=False, **options):
    return cluster.client.broker("RestartAllocation", broker_pb2.RestartAllocationRequest(
        request_id=uuid.uuid4().hex, allocation_id=name, from_scratch=from_scratch,
        nodes=[common_pb2.NodeShare(node_id=n, gpu_count=1) for n in nodes]), **options)


def restart_point(cluster, name):
    return cluster.client.broker("GetRestartPoint", broker_pb2.GetRestartPointRequest(allocation_id=name))


def checkpoint(cluster, name, identifier):
    return next(c for c in cluster.checkpoints(name) if c.checkpoint_id == identifier)


def ends_in(cluster, name, identifier, states, timeout_s=20):
    return wait_until(f"{name}'s checkpoint in one of {states}",
                      lambda: (lambda c: c if c.state in states else None)(checkpoint(cluster, name, identifier)), timeout_s, 0.05)


def complete(cluster, name):
    return ends_in(cluster, name, hint(cluster, name), (COMPLETE,))


def allocation_in(cluster, name, *states):
    return wait_until(f"{name} in one of {states}", lambda: (lambda a: a if a.state in states else None)(cluster.allocation(name)), 20, 0.05)


def all_run(cluster):
    wait_until("all applications run", lambda: all(j.application_pid() for j in cluster.jobs if j.running()), 15)
    # attached is a moment after started: the agent says so
    for job in cluster.jobs:
        wait_until(f"{job.allocation} is attached", lambda j=job: f"allocation={j.allocation} " in j.agent.log.read_text()
                   and "to=RUNNING" in j.agent.log.read_text(), 10)
    for name in {j.allocation for j in cluster.jobs if j.running()}:
        wait_until(f"{name} has started", lambda name=name: cluster.allocation(name).state != STARTING, 10)


def says(job, text, timeout_s=20):
    return wait_until(f"ckpt-run of {job.allocation} says \"{text}\"", lambda: text in job.log.read_text(), timeout_s)


def ends(job, timeout_s=20):
    wait_until(f"ckpt-run of {job.allocation} ends", lambda: job.process.poll() is not None, timeout_s)
    return job.process.returncode


def no_litter(cluster):
    """Nothing half-written at the destination (whose checkpoints are marked as the cluster's), nothing of an attempt in the work folders."""
    def clean():
        litter = [p for p in cluster.scratch.rglob(".*") if not p.name.startswith((".probe.", ".cluster."))]
        litter += [p for p in (cluster.dir / "work").glob("*/out/*")]
        return not litter
    wait_until("nothing is left over", clean, 10)
