"""Clients that write all the time while members are killed, stopped and away: how long each is without service, and what fails.
ABSENCE=70 lets a member be away for that long (default 17 s: gRPC's own back-off is 6 to 10 s by then, and would show)."""
import contextlib
import os
import signal
import time
import uuid

from cluster import Cluster, grpc, metric, operator_pb2, wait_until

ABSENCE_S = float(os.environ.get("ABSENCE", 17))
KILLED_S, STOPPED_S, ABSENT_S = 3, 5, 3  # the longest that any client may be without service then; seen: under 0.3, 2.2, 0.3

# As a site sets them, for all programs: nobody listens there.
PROXIES = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY")}


@contextlib.contextmanager
def proxies():
    """gRPC's C core looks at them when a channel is made."""
    before = dict(os.environ)
    os.environ.update(PROXIES)
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def fail_over_while_events_are_followed(cluster, seen):
    """seen(): [(sequence, name of the kind, allocation)] so far. Each event is told once, in order, over a change of the leader."""
    cluster.register("before", [("n", 1, 1 << 20)])
    wait_until("the first is told", lambda: any(e[2] == "before" for e in seen()), 20)
    leader = cluster.wait_leader()
    leader.kill()
    cluster.register("after", [("n", 1, 1 << 20)])
    wait_until("the next leader's are told", lambda: any(e[2] == "after" for e in seen()), 20)
    events = seen()
    sequences = [e[0] for e in events]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences))), sequences
    assert [e[2] for e in events if e[1].endswith("ALLOCATION_REGISTERED") and e[2] != "12345"] == ["before", "after"], events
    assert any(e[1].endswith("EVENT_KIND_LEADER") for e in events), events
    leader.start()


class Calls:
    """What came of each call: when it began and ended, gRPC code and text."""

    def __init__(self, name):
        self.name, self.done = name, []

    def writes(self):
        return [c for c in self.done if c["kind"] == "write"]

    def gap_s(self, since):
        """The longest time without an answered write from then until now."""
        ends = sorted(c["ended"] for c in self.writes() if c["code"] == 0 and c["ended"] > since)
        return max(b - a for a, b in zip([since, *ends], [*ends, time.time()]))

    def failed(self):
        return [f"{c['code']}: {c['text']}" for c in self.writes() if c["code"] != 0]


class Clients:
    """Both clients on one cluster, writing all the time."""

    def __init__(self, cluster, kinds):
        self.cluster = cluster
        self.all = [kind(cluster) for kind in kinds]
        wait_until("all clients write", lambda: all(len(c.writes()) > 50 for c in self.all), 20)

    def settle(self):
        counts = [len(c.writes()) for c in self.all]
        wait_until("all clients go on", lambda: all(len(c.writes()) > n + 50 for c, n in zip(self.all, counts)), 60)

    def outage(self, what, limit_s, strike):
        since = time.time()
        strike()
        self.settle()
        gaps = {c.name: c.gap_s(since) for c in self.all}
        print(f"# {what}: without service for at most " + ", ".join(f"{name} {gap:.2f} s" for name, gap in gaps.items()), flush=True)
        assert max(gaps.values()) < limit_s, f"{what}: {gaps}, at most {limit_s} s"

    def refusals_come_at_once(self):
        """A refusal of the rules is told as such, and is not sent again: gRPC would take 0.4 s and more for that."""
        self.cluster.register("asked", [("n", 1, 1 << 20)])
        for client in self.all:
            def refused(client=client):
                return [c for c in client.done if c["kind"] == "refusal"]
            for i in range(5):
                client.refuse("asked")
                wait_until("the refusal is told", lambda: len(refused()) > i, 15)
            assert all(c["code"] == 9 and c["text"].startswith("NOT_STARTED") for c in refused()), refused()
            took = min(c["ended"] - c["began"] for c in refused())
            assert took < 0.2, f"{client.name}: a refusal took {took:.2f} s"

    def end(self):
        for client in self.all:
            client.end()
        for client in self.all:
            writes, failed = len(client.writes()), client.failed()
            print(f"# {client.name}: {writes} calls, {len(failed)} failed", flush=True)
            assert not failed, f"{client.name}: {len(failed)} of {writes} calls failed: {failed[:3]}"


def kill_leader(clients):
    leader = clients.cluster.wait_leader()
    clients.outage("leader killed", KILLED_S, leader.kill)
    leader.start()


def stop_leader(clients):
    leader = clients.cluster.wait_leader()
    clients.outage("leader stopped", STOPPED_S, lambda: leader.kill(signal.SIGSTOP))
    leader.kill(signal.SIGCONT)


def lead_by_one_that_was_absent(clients):
    cluster = clients.cluster
    absent = next(m for m in cluster.members if m is not cluster.wait_leader())
    absent.kill()
    time.sleep(ABSENCE_S)
    absent.start()

    def handed_over():
        try:
            return cluster.client.operator("TransferLeadership", operator_pb2.MemberRequest(request_id=uuid.uuid4().hex, name=absent.name))
        except grpc.RpcError as error:  # refused until it has all that the leader has
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
            return None

    clients.outage(f"led by a member that was away for {ABSENCE_S:.0f} s", ABSENT_S,
                   lambda: wait_until("it is handed over", handed_over, 20))
    assert cluster.wait_leader() is absent
    began = time.monotonic()
    wait_until("its agent is there", lambda: metric(absent.http, "ckpt_agent_connected") == 1, 3)
    print(f"# its agent took {time.monotonic() - began:.2f} s more", flush=True)


def run(kinds, tls, *steps):
    with Cluster(agents=["gpu-a"], tls=tls) as cluster:
        cluster.start()
        clients = Clients(cluster, kinds)
        try:
            clients.settle()
            assert not any(c.failed() for c in clients.all), [c.failed()[:3] for c in clients.all]
            clients.refusals_come_at_once()
            for step in steps:
                step(clients)
        finally:
            clients.end()


STEPS = (kill_leader, stop_leader, lead_by_one_that_was_absent, kill_leader)
