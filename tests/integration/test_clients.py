#!/usr/bin/python3
"""The recipes for clients in other languages, run as deploy/CLIENTS.md has them: kills, stops and long absences of members, TLS. S1-072, K-004.
ABSENCE=70 lets a member be away for that long (default 17 s: gRPC's own back-off is 6 to 10 s by then, and would show)."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BUILD, ROOT, Cluster, broker_pb2, broker_pb2_grpc, grpc, metric, operator_pb2, tap, wait_until  # noqa: E402
from recipes import node_example, node_recipe, python_example, python_recipe  # noqa: E402

ABSENCE_S = float(os.environ.get("ABSENCE", 17))
KILLED_S, STOPPED_S, ABSENT_S = 3, 5, 3  # the longest that any client may be without service then; seen: under 0.3, 2.2, 0.3
MODULES = BUILD / "node" / "node_modules"
leader_channel, credentials = python_recipe()


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


class PythonClient(Calls):
    WRITERS = 4

    def __init__(self, cluster):
        super().__init__("python")
        site = cluster.site
        shown = site and credentials(site.ca, site.cert("scheduler-test"), site.key("scheduler-test"))
        self.channel = leader_channel([m.api for m in cluster.members], shown, "demo")
        self.stub = broker_pb2_grpc.BrokerServiceStub(self.channel)
        self.running = True
        self.threads = [threading.Thread(target=self.write) for _ in range(self.WRITERS)]
        for thread in self.threads:
            thread.start()

    def call(self, kind, method, request):
        one = {"kind": kind, "began": time.time(), "code": 0, "text": ""}
        try:
            getattr(self.stub, method)(request, timeout=10)
        except grpc.RpcError as error:
            one.update(code=error.code().value[0], text=error.details())
        one["ended"] = time.time()
        self.done.append(one)

    def write(self):
        while self.running:
            self.call("write", "ReportQueue", broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="hpc"))
            time.sleep(0.01)

    def refuse(self, allocation):
        self.call("refusal", "RequestCheckpoint", broker_pb2.RequestCheckpointRequest(request_id=uuid.uuid4().hex, allocation_id=allocation))

    def end(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        self.channel.close()


class NodeClient(Calls):
    def __init__(self, cluster):
        super().__init__("node")
        recipe, site = cluster.dir / "recipe.js", cluster.site
        recipe.write_text(node_recipe())
        files = [str(f) for f in (site.ca, site.key("scheduler-test"), site.cert("scheduler-test"))] if site else []
        self.process = subprocess.Popen(
            ["node", str(ROOT / "tests" / "support" / "node_client.js"), str(recipe), str(ROOT / "proto"),
             ",".join(m.api for m in cluster.members), uuid.uuid4().hex, *files],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "NODE_PATH": str(MODULES)})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.done.append(json.loads(line))

    def refuse(self, allocation):
        self.process.stdin.write(allocation + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.reader.join()
        assert self.process.wait() == 0


def node_is_missing():
    if shutil.which("node") is None or not (MODULES / "@grpc" / "grpc-js").is_dir() or not (MODULES / "@grpc" / "proto-loader").is_dir():
        return "no node, or no @grpc/grpc-js and @grpc/proto-loader in build/node: deploy/install-deps.sh node"
    return None


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


def python_is_served_through_kills_stops_and_absences():
    run([PythonClient], False, *STEPS)


def python_is_served_with_tls():
    run([PythonClient], True, kill_leader, stop_leader, kill_leader)


def node_is_served_through_kills_stops_and_absences():
    return node_is_missing() or run([NodeClient], False, *STEPS)


def node_is_served_with_tls():
    return node_is_missing() or run([NodeClient], True, kill_leader, stop_leader, kill_leader)


def the_examples_register_a_job():
    """As somebody would who copies the page, one after the other: each has a request id of its own, so the second is refused."""
    without_node = node_is_missing()
    with Cluster() as cluster:
        cluster.start()
        addresses = [m.api for m in cluster.members]
        python_example(addresses, leader_channel)
        assert cluster.allocation("12345").spec.nodes[0].gpu_count == 8
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id="end", allocation_id="12345"))
        if without_node:
            return None
        result = subprocess.run(["node", "-e", node_example(addresses)], capture_output=True, text=True, timeout=20, cwd=ROOT,
                                env={**os.environ, "NODE_PATH": str(MODULES)})
        assert "ALLOCATION_EXISTS" in result.stderr, result
        again = node_example(addresses).replace('"12345"', '"12346"')
        result = subprocess.run(["node", "-e", again], capture_output=True, text=True, timeout=20, cwd=ROOT,
                                env={**os.environ, "NODE_PATH": str(MODULES)})
        assert cluster.allocation("12346").spec.nodes[0].gpu_count == 8, result


def a_wrong_name_is_told_to_who_does_not_wait():
    """As the page says: a call that waits ends with a bare deadline, one that does not has the reason."""
    with Cluster(tls=True) as cluster:
        cluster.start()
        site = cluster.site
        channel = leader_channel([m.api for m in cluster.members],
                                 credentials(site.ca, site.cert("scheduler-test"), site.key("scheduler-test")), "other")
        stub, ask = broker_pb2_grpc.BrokerServiceStub(channel), broker_pb2.ReportQueueRequest(request_id="r", vcluster="hpc")
        told = []
        for waits in (True, False):
            try:
                stub.ReportQueue(ask, timeout=2, wait_for_ready=waits)
                raise AssertionError("a certificate without the name was accepted")
            except grpc.RpcError as error:
                told.append((error.code(), error.details()))
        channel.close()
        assert told[0][0] == grpc.StatusCode.DEADLINE_EXCEEDED, told
        assert told[1][0] == grpc.StatusCode.UNAVAILABLE and "Peer name other is not in peer certificate" in told[1][1], told


if __name__ == "__main__":
    sys.exit(tap([python_is_served_through_kills_stops_and_absences, python_is_served_with_tls, node_is_served_through_kills_stops_and_absences,
                  node_is_served_with_tls, the_examples_register_a_job, a_wrong_name_is_told_to_who_does_not_wait]))
