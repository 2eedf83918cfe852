#!/usr/bin/python3
"""An independent client (grpcio, generated from proto/, as deploy/CLIENTS.md has it) follows the leader through kills; acknowledged registrations survive, once.
I6, S1-072, K-004."""
import pathlib
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, broker_pb2_grpc, common_pb2, grpc, tap, wait_until  # noqa: E402
from recipes import python_recipe  # noqa: E402


def follow_channel(cluster):
    return python_recipe()[0]([m.api for m in cluster.members])


def register_request(name, request_id):
    return broker_pb2.RegisterAllocationRequest(request_id=request_id, spec=common_pb2.AllocationSpec(
        allocation_id=name, tenant="t", project="p", vcluster="v", owner="o",
        nodes=[common_pb2.NodeShare(node_id="n", gpu_count=1, gpu_memory_used_bytes=1 << 30)]))


def registrations_survive_leader_kills_and_are_applied_once():
    acknowledged, unknown, stop = {}, [], threading.Event()

    def writer(number, channel):
        stub = broker_pb2_grpc.BrokerServiceStub(channel)
        i = 0
        while not stop.is_set():
            name, request_id = f"w{number}-{i}", uuid.uuid4().hex
            end = time.monotonic() + 20
            while True:
                try:
                    reply = stub.RegisterAllocation(register_request(name, request_id), timeout=2)
                    acknowledged[name] = (request_id, reply.index)
                    break
                except grpc.RpcError as error:
                    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED) and time.monotonic() < end:
                        time.sleep(0.01)
                        continue
                    unknown.append((name, str(error)))
                    return
            i += 1

    with Cluster() as cluster:
        cluster.start()
        channels = [follow_channel(cluster) for _ in range(4)]
        threads = [threading.Thread(target=writer, args=(n, c)) for n, c in enumerate(channels)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            count = len(acknowledged)
            wait_until("writers progress", lambda: len(acknowledged) > count + 50, 20)
            leader = cluster.wait_leader()
            leader.kill()
            count = len(acknowledged)
            wait_until("writers go on under the next leader", lambda: len(acknowledged) > count + 50, 20)
            leader.start()
        stop.set()
        for thread in threads:
            thread.join()
        for channel in channels:
            channel.close()
        assert not unknown, unknown[:3]
        registered = [e.allocation_id for e in cluster.events() if e.kind == broker_pb2.EVENT_KIND_ALLOCATION_REGISTERED]
        assert len(registered) == len(set(registered)), "an allocation was registered twice"
        lost = set(acknowledged) - set(registered)
        assert not lost, f"{len(lost)} acknowledged registrations are lost, e.g. {sorted(lost)[:3]}"
        print(f"# {len(acknowledged)} acknowledged over 3 leader kills, 0 lost, 0 twice")
        # the same request id gives the first outcome again
        name, (request_id, index) = sorted(acknowledged.items())[0]
        again = cluster.client.broker("RegisterAllocation", register_request(name, request_id))
        assert again.repeated and again.index == index, again
        cluster.debug_check()


def reads_are_labelled_or_linearizable():
    """I7: a stale read answers on any member and says so; a linearizable one goes to the leader."""
    with Cluster() as cluster:
        cluster.start()
        reply = cluster.register("job", [("n", 1, 1 << 30)])
        follower = next(m for m in cluster.members if m is not cluster.wait_leader())
        stub = broker_pb2_grpc.BrokerServiceStub(cluster.client.channel(follower.api))
        try:
            stub.GetAllocation(broker_pb2.GetAllocationRequest(allocation_id="job"), timeout=5)
            raise AssertionError("a follower answered a linearizable read")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            assert dict(error.trailing_metadata())["ckpt-leader-hint"] == cluster.wait_leader().api

        def stale():
            try:
                answer = stub.GetAllocation(broker_pb2.GetAllocationRequest(allocation_id="job", stale=True), timeout=5)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.NOT_FOUND, error  # not applied here yet
                return None
            return answer.applied_index >= reply.index and answer
        assert wait_until("the follower has applied it", stale, 10).spec.allocation_id == "job"


def a_watch_resumes_after_a_failover_without_gap_or_repeat():
    """O-002."""
    with Cluster() as cluster:
        cluster.start()
        for i in range(20):
            cluster.register(f"a{i}", [("n", 1, 1 << 30)])
        seen = [e.sequence for e in cluster.events()]
        cluster.wait_leader().kill()
        cluster.wait_leader()
        for i in range(20):
            cluster.register(f"b{i}", [("n", 1, 1 << 30)])
        leader = cluster.wait_leader()
        stub = broker_pb2_grpc.BrokerServiceStub(cluster.client.channel(leader.api))
        rest = list(stub.Watch(broker_pb2.WatchRequest(after_sequence=seen[-1]), timeout=10))
        sequences = seen + [e.sequence for e in rest]
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences))), sequences
        assert {e.allocation_id for e in rest} >= {f"b{i}" for i in range(20)}


def a_watch_that_asks_for_it_begins_with_what_is_current():
    """All jobs, each once, up to CURRENT_END; what follows it is new. With a checkpoint's events comes its path. O-002."""
    with Cluster(members=1) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        for i in range(20):
            cluster.register(f"a{i}", [("n", 1, 1 << 30)])
        cluster.ctl("end", "a0", "--yes")
        stub = broker_pb2_grpc.BrokerServiceStub(cluster.client.channel(leader.api))
        told = stub.Watch(broker_pb2.WatchRequest(current=True, follow=True), timeout=20)
        current = []
        for event in told:
            current.append(event)
            if event.kind == broker_pb2.EVENT_KIND_CURRENT_END:
                break
        jobs = [e.allocation_id for e in current if e.kind == broker_pb2.EVENT_KIND_ALLOCATION_STATE]
        assert sorted(jobs) == sorted(f"a{i}" for i in range(1, 20)), jobs
        assert all(e.current for e in current) and current[-1].sequence == cluster.events()[-1].sequence, current[-1]
        cluster.register("new", [("n", 1, 1 << 30)])
        event = next(told)
        assert event.allocation_id == "new" and not event.current and event.sequence == current[-1].sequence + 1, event
        told.cancel()
        text = cluster.ctl("events", "--current", "a1").stdout
        assert "a1 STARTING" in text and text.rstrip().endswith("this holds now; what happens follows"), text
        refused = cluster.ctl("events", "--current", "--after", "3", check=False)
        assert refused.returncode == 2 and "--current begins with what holds now" in refused.stderr, refused


def health_and_reflection_answer():
    with Cluster() as cluster:
        cluster.start()
        from grpc.health.v1 import health_pb2, health_pb2_grpc
        from grpc.reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
        leader = cluster.wait_leader()
        for member in cluster.members:
            stub = health_pb2_grpc.HealthStub(cluster.client.channel(member.api))
            status = stub.Check(health_pb2.HealthCheckRequest(service="quis.RaftLeader"), timeout=5).status
            assert status == (1 if member is leader else 2), (member.name, status)
            assert stub.Check(health_pb2.HealthCheckRequest(), timeout=5).status == 1
        stub = reflection_pb2_grpc.ServerReflectionStub(cluster.client.channel(leader.api))
        answers = list(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5))
        names = {s.name for s in answers[0].list_services_response.service}
        assert {"ckpt.v1.BrokerService", "ckpt.v1.AgentService", "ckpt.v1.OperatorService"} <= names, names


if __name__ == "__main__":
    sys.exit(tap([registrations_survive_leader_kills_and_are_applied_once, reads_are_labelled_or_linearizable,
                  a_watch_resumes_after_a_failover_without_gap_or_repeat, a_watch_that_asks_for_it_begins_with_what_is_current, health_and_reflection_answer]))
