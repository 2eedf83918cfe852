#!/usr/bin/python3
"""The recipe for clients in Python, run as deploy/CLIENTS.md has it: kills, stops and long absences of members, TLS,
and the environment of a site with HTTP proxies. S1-072, K-004, V-021."""
import pathlib
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from clients import STEPS, Calls, fail_over_while_events_are_followed, kill_leader, proxies, run, stop_leader  # noqa: E402
from cluster import Cluster, broker_pb2, broker_pb2_grpc, grpc, tap  # noqa: E402
from recipes import python_events, python_example, python_recipe  # noqa: E402

leader_channel, credentials = python_recipe()


class PythonClient(Calls):
    WRITERS = 4

    def __init__(self, cluster):
        super().__init__("python")
        site = cluster.site
        shown = site and credentials(site.ca, site.cert("scheduler-test"), site.key("scheduler-test"))
        with proxies():
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


def python_is_served_through_kills_stops_and_absences():
    run([PythonClient], False, *STEPS)


def python_is_served_with_tls():
    run([PythonClient], True, kill_leader, stop_leader, kill_leader)


def the_example_registers_a_job():
    """As somebody would who copies the page."""
    with Cluster() as cluster:
        cluster.start()
        with proxies():
            python_example([m.api for m in cluster.members], leader_channel)
        assert cluster.allocation("12345").spec.nodes[0].gpu_count == 8


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


def events_are_followed_over_a_change_of_the_leader():
    with Cluster() as cluster:
        cluster.start()
        with proxies():
            channel = leader_channel([m.api for m in cluster.members])
        follow_events = python_events({"grpc": grpc, "broker_pb2": broker_pb2})
        seen = []

        def follow():
            try:
                for event in follow_events(broker_pb2_grpc.BrokerServiceStub(channel)):
                    seen.append((event.sequence, broker_pb2.EventKind.Name(event.kind), event.allocation_id))
            except (ValueError, grpc.RpcError) as error:
                print(f"# the events end: {error!r:.100}", flush=True)

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            fail_over_while_events_are_followed(cluster, lambda: list(seen))
        finally:
            channel.close()
            thread.join()


if __name__ == "__main__":
    sys.exit(tap([python_is_served_through_kills_stops_and_absences, python_is_served_with_tls, the_example_registers_a_job,
                  a_wrong_name_is_told_to_who_does_not_wait, events_are_followed_over_a_change_of_the_leader]))
