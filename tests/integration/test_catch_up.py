#!/usr/bin/python3
"""A member that was away until the log it lacks was gone is brought up by a snapshot while the leader goes on leading. I12, L5."""
import pathlib
import signal
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Client, Cluster, broker_pb2, common_pb2, metric, operator_pb2, tap, wait_until  # noqa: E402

# A registration of 64 nodes takes about a kilobyte of log: a snapshot every thousand.
RAFT = {"snapshot_after_bytes": 1 << 20}
NODES = [common_pb2.NodeShare(node_id=f"rack-{i // 16}-node-{i}", gpu_count=8, gpu_memory_used_bytes=640 << 30) for i in range(64)]


class Writers:
    """Register until told to stop; each waits for its answer. Nothing is retried: a leader that stays leader refuses nobody."""

    def __init__(self, cluster, count=4):
        self.cluster, self.stop = cluster, threading.Event()
        self.acknowledged, self.failed, self.slowest_s = [], [], 0.0
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self):
        client = Client([m.api for m in self.cluster.members])
        client.current = self.cluster.members.index(self.cluster.leader())
        while not self.stop.is_set():
            name, began = uuid.uuid4().hex, time.monotonic()
            spec = common_pb2.AllocationSpec(allocation_id=name, tenant="t", project="p", vcluster="v", owner="o", nodes=NODES)
            try:
                client.broker("RegisterAllocation", broker_pb2.RegisterAllocationRequest(request_id=name, spec=spec), timeout_s=0,
                              attempt_s=20)
            except Exception as error:
                self.failed.append(str(error))
                return
            self.acknowledged.append(name)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        client.close()

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not self.failed, self.failed[:2]


def status(cluster):
    return cluster.client.operator("Status", operator_pb2.StatusRequest(), timeout_s=20, attempt_s=5)


def lead(cluster):
    leader = cluster.wait_leader()
    return leader.name, metric(leader.http, "ckpt_raft_term"), metric(leader.http, "ckpt_raft_leader_changes_total")


def snapshots(member):
    return metric(member.http, "ckpt_raft_snapshots_total") or 0


def caught_up(cluster):
    members = status(cluster).members
    return all(m.reachable for m in members) and all(m.lag_entries < 20 for m in members)


def check(cluster, writers, before):
    writers.end()
    assert lead(cluster) == before, (lead(cluster), before)  # neither an election nor an attempt that raised the term
    cluster.debug_check()
    print(f"# {len(writers.acknowledged)} registrations, the slowest took {writers.slowest_s * 1000:.0f} ms")


def a_member_that_was_away_gets_a_snapshot_while_the_leader_stays():
    with Cluster(raft=RAFT, policy={"evaluation_interval": "30s"}) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        away = next(m for m in cluster.members if m is not leader)
        away.kill()
        writers = Writers(cluster)
        taken = snapshots(leader)
        wait_until("the log that it lacks is gone", lambda: snapshots(leader) >= taken + 3, 120, 0.1)
        before = lead(cluster)
        away.start()
        wait_until("it installed a snapshot", lambda: snapshots(away) > 0, 60, 0.05)
        wait_until("it lacks nothing", lambda: caught_up(cluster), 60, 0.1)
        check(cluster, writers, before)


def a_member_that_stood_still_catches_up_while_the_leader_stays():
    """Its connection stays open: what is not read must not hold up what the others get."""
    with Cluster(raft=RAFT, policy={"evaluation_interval": "30s"}) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        still = next(m for m in cluster.members if m is not leader)
        writers = Writers(cluster)
        wait_until("writes go on", lambda: len(writers.acknowledged) > 100, 20)
        before = lead(cluster)
        still.kill(signal.SIGSTOP)
        taken = snapshots(leader)
        wait_until("the log that it lacks is gone", lambda: snapshots(leader) >= taken + 3, 120, 0.1)
        still.kill(signal.SIGCONT)
        wait_until("it lacks nothing", lambda: caught_up(cluster), 60, 0.1)
        check(cluster, writers, before)


if __name__ == "__main__":
    sys.exit(tap([a_member_that_was_away_gets_a_snapshot_while_the_leader_stays,
                  a_member_that_stood_still_catches_up_while_the_leader_stays]))
