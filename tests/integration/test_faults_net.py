#!/usr/bin/python3
"""Broken networks of real interfaces under load: one order explains every answer, a connected majority goes on. I1, I5, I6, I7, L1, Q-002.

Flow    five members in namespaces of their own; filters cut, lose and slow what they send each other, clients reach all of them.
        CUTS=n draws n partitions, default 4.
"""
import contextlib
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import (Client, Cluster, broker_pb2, broker_pb2_grpc, grpc, http_status, metric, often, operator_pb2, operator_pb2_grpc,  # noqa: E402
                     wait_until)
from isolate import main, needs  # noqa: E402
from netns import Network, can_delay, refused  # noqa: E402
from history import check  # noqa: E402
from workload import Load, spec  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
CUTS = int(os.environ.get("CUTS", often(2, 4)))
RAFT = {"snapshot_after_entries": 500}
TOOLS = ("ip", "nft", "tc", "nsenter")


class Broken:
    """A cluster on a network of its own with load on it; the verdict at the end."""

    def __init__(self, members, clients=4):
        self.cluster = Cluster(members=members)
        self.network = Network(self.cluster, raft=RAFT)
        self.clients = clients

    def __enter__(self):
        self.cluster.__enter__()
        self.cluster.start()
        self.load = Load(self.cluster, clients=self.clients, seed=SEED, attempt_s=0.3)
        self.load.progress()
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.network.heal()
            if kind is None and not self.load.judged:
                self.load.verdict()
        except BaseException as error:
            self.cluster.__exit__(type(error), error, None)
            raise
        finally:
            self.cluster.__exit__(kind, value, trace)
            self.network.end()

    def all_ready(self, timeout_s=20):
        wait_until("all members are ready", lambda: all(http_status(m.http, "/readyz") == 200 for m in self.cluster.members), timeout_s)


def links(kind, members, leader, draw):
    """The pairs that stay joined, and who may lead then (None: whoever is in contact with a majority)."""
    others = [m for m in members if m is not leader]
    draw.shuffle(others)
    every = [(a, b) for i, a in enumerate(members) for b in members[i + 1:]]
    if kind == "leader alone":
        return [pair for pair in every if leader not in pair], others
    if kind == "leader in the minority":
        few = {leader, others[0]}
        return [pair for pair in every if len(few.intersection(pair)) != 1], others[1:]
    if kind == "ring":  # each reaches itself and two neighbours: a majority, but never the same
        circle = [leader, *others]
        return list(zip(circle, circle[1:] + circle[:1])), members
    middle = draw.choice(members)  # two halves that only one member joins
    ends = [m for m in members if m is not middle]
    return [pair for pair in every if middle in pair or (pair[0] in ends[:2]) == (pair[1] in ends[:2])], members


@needs(*TOOLS, probe=refused)
def members_parted_in_every_way_keep_one_history():
    """Symmetric: the leader alone, the leader in the minority, a ring of majorities, two halves with a bridge; drawn with one way cuts."""
    print(f"# SEED={SEED}")
    draw = random.Random(SEED)
    kinds = ["ring", "bridge", "leader in the minority", "one way"]
    draw.shuffle(kinds)
    kinds[:0] = ["leader alone", "swizzle"]
    with Broken(5) as broken:
        for number in range(CUTS):
            broken.all_ready()
            broken.load.progress()
            leader, members = broken.cluster.wait_leader(), broken.cluster.members
            kind = kinds[number % len(kinds)]
            started = time.monotonic()
            if kind == "one way":
                for _ in range(6):
                    broken.network.cut(*draw.sample(members, 2))
                time.sleep(1 + draw.random() * 2)  # no majority may be left: only safety is asked for
            elif kind == "swizzle":  # members drop out one by one and come back in another order
                out = draw.sample(members, 4)
                for member in out:
                    broken.network.clog(member)
                    time.sleep(draw.random() * 0.8)
                for member in draw.sample(out, len(out)):
                    broken.network.heal(member)
                    time.sleep(draw.random() * 0.8)
            else:
                joined, may_lead = links(kind, members, leader, draw)
                broken.network.keep(joined)
                wait_until(f"{kind}: a majority goes on", lambda: broken.cluster.leader() in may_lead, 20)
                broken.load.progress()
                if kind not in ("ring", "bridge"):
                    wait_until("the leader that was cut off gives up", lambda: http_status(leader.http, "/leader") != 200, 3)
                time.sleep(2.5)  # two election timeouts: nobody who misses the leader may take its office again and again
                broken.load.progress()
            print(f"# {kind}: {time.monotonic() - started:.1f} s", flush=True)
            broken.network.heal()
        broken.load.verdict()
        taken_for_fresh = check(broken.load.operations + broken.load.stale)
        assert taken_for_fresh, "stale reads of members that were cut off look fresh: this checker or these cuts find nothing"


@needs(*TOOLS, probe=refused)
def lost_and_slow_packets_cost_time_only():
    """A tenth of all packets lost, then links of 4 Mbit/s, then (where the kernel can) delays of 20 to 60 ms."""
    with Broken(3) as broken:
        for member in broken.cluster.members:
            broken.network.lose(member, 10)
        for _ in range(3):
            broken.load.progress(20, 30)
        broken.network.heal()
        for member in broken.cluster.members:
            broken.network.slow(member, "tbf", "rate", "4mbit", "burst", "16kb", "latency", "200ms")
        broken.load.progress(100, 30)
        broken.network.heal()
        if can_delay():
            term = metric(broken.cluster.wait_leader().http, "ckpt_raft_term")
            for member in broken.cluster.members:
                broken.network.slow(member, "netem", "delay", "40ms", "20ms")
            broken.load.progress(50, 30)
            assert metric(broken.cluster.wait_leader().http, "ckpt_raft_term") == term, "a delay below the timers cost an election"
        else:
            print("# SKIP delays: the kernel has no netem (sch_netem)")


@needs(*TOOLS, "ss", probe=refused)
def connections_that_died_silently_are_replaced():
    """Half-open TCP: no end and no reset arrives; heartbeats that are not answered must tell."""
    with Broken(3) as broken:
        for which in random.Random(SEED).sample(("leader", "follower"), 1 + (CUTS > 4)):
            broken.all_ready()
            leader = broken.cluster.wait_leader()
            victim = leader if which == "leader" else next(m for m in broken.cluster.members if m is not leader)
            started = time.monotonic()
            count = broken.network.forget_connections(victim)
            assert count >= 2, count
            broken.load.progress(20, 15)
            wait_until("a member that was cut off is in contact again", lambda: in_contact(broken.cluster), 20)
            print(f"# {count} connections of the {which} forgotten: whole again after {time.monotonic() - started:.1f} s", flush=True)
        broken.all_ready()


def in_contact(cluster):
    """All members hear the leader, and apply what it commits: their applied index comes close to its commit index."""
    leader = cluster.leader()
    if leader is None:
        return False
    commit = metric(leader.http, "ckpt_raft_commit_index")
    return commit is not None and all((metric(m.http, "ckpt_raft_applied_index") or 0) >= commit for m in cluster.members)


@needs(*TOOLS, probe=refused)
def packets_that_are_too_large_vanish_and_a_majority_goes_on():
    """A black hole of the MTU around one member: connections come about, heartbeats pass, entries do not."""
    with Broken(3, clients=2) as broken:
        for which in ("follower", "leader"):
            broken.all_ready()
            leader = broken.cluster.wait_leader()
            victim = leader if which == "leader" else next(m for m in broken.cluster.members if m is not leader)
            started, term = time.monotonic(), metric(leader.http, "ckpt_raft_term")
            broken.network.swallow(victim, 576)
            broken.cluster.register(f"large-{which}", [(f"{i:060}", 1, 1 << 20) for i in range(100)])
            broken.load.progress()
            print(f"# around the {which}: writes went on after {time.monotonic() - started:.1f} s", flush=True)
            time.sleep(2)  # two election timeouts
            broken.load.progress()
            if which == "follower":
                assert broken.cluster.leader() is leader and metric(leader.http, "ckpt_raft_term") == term, "it cost the leader its office"
            broken.network.heal()
            healed = time.monotonic()
            wait_until("a member behind the black hole is in contact again", lambda: in_contact(broken.cluster), 20)
            print(f"# in contact again after {time.monotonic() - healed:.1f} s", flush=True)


@needs("mount", "umount")
def members_behind_names_are_found_where_the_names_lead_now():
    """Their machines get other addresses, the leader's first; for a moment nobody can resolve the name."""
    cluster = Cluster(raft=RAFT)
    hosts = cluster.dir / "hosts"
    addresses = {member: f"127.0.0.{10 + member.id}" for member in cluster.members}

    def write_hosts(without=None):
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{a} {m.name}.test\n" for m, a in addresses.items() if m is not without))

    write_hosts()
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
    for member in cluster.members:
        member.raft, member.api = (f"{member.name}.test:{address.split(':')[1]}" for address in (member.raft, member.api))
    cluster.write_config({}, {}, {}, {}, RAFT)
    cluster.config.write_text("insecure: yes\n" + cluster.config.read_text())  # a name may lead anywhere
    cluster.client = Client([m.api for m in cluster.members])
    with cluster:
        try:
            cluster.start()
            load = Load(cluster, seed=SEED, attempt_s=0.5)
            for turn in range(1, 4):
                load.progress()
                moved = cluster.wait_leader()
                moved.kill()
                write_hosts(without=moved)
                load.progress()
                addresses[moved] = f"127.0.{turn}.{10 + moved.id}"
                write_hosts()
                moved.start()
                started = time.monotonic()
                wait_until("it is found", lambda: in_contact(cluster) and http_status(moved.http, "/readyz") == 200, 20)
                print(f"# {moved.name} was found at {addresses[moved]} after {time.monotonic() - started:.1f} s", flush=True)
                assert cluster.ctl("status", endpoints=moved.api).returncode == 0
                with socket.create_connection((addresses[moved], int(moved.raft.split(":")[1])), timeout=5):
                    pass
            load.verdict()
        finally:
            subprocess.run(["umount", "/etc/hosts"], check=True)


@needs(*TOOLS, probe=refused)
def a_leader_whose_host_loses_its_power_is_replaced():
    """Nobody tells the others that it is gone, and it comes back as if from nowhere with the same address."""
    with Broken(3) as broken:
        for _ in range(1 + (CUTS > 4)):
            broken.all_ready()
            leader = broken.cluster.wait_leader()
            dark = time.monotonic()
            broken.network.dark(leader)
            leader.kill()
            gone = time.monotonic()
            first = wait_until("a write is acknowledged", lambda: broken.load.first_answer_after(gone), 20, 0.005)
            print(f"# host of the leader gone to the next acknowledged write: {first - dark:.2f} s")
            broken.load.progress()
            broken.network.heal()
            leader.start()


@needs(*TOOLS, probe=refused)
def a_leader_that_was_cut_off_answers_nothing_from_memory():
    """Clients still reach it, and it believes for an election timeout that it leads, while the others acknowledge changes: I7."""
    cluster = Cluster(members=3)
    network = Network(cluster)
    with contextlib.ExitStack() as ends:
        ends.callback(network.end)
        ends.enter_context(cluster)
        cluster.start()
        for turn in range(4):
            old = cluster.wait_leader()
            others = [m for m in cluster.members if m is not old]
            broker, operator = (stub(cluster.client.channel(old.api)) for stub in
                                (broker_pb2_grpc.BrokerServiceStub, operator_pb2_grpc.OperatorServiceStub))
            list(broker.Watch(broker_pb2.WatchRequest(), timeout=5, wait_for_ready=True))  # the connection is there
            stub = {m: broker_pb2_grpc.BrokerServiceStub(cluster.client.channel(m.api)) for m in others}
            network.clog(old)
            new = wait_until("another one leads", lambda: next((m for m in others if http_status(m.http, "/leader") == 200), None), 20, 0.005)
            job = f"beyond-{turn}"
            stub[new].RegisterAllocation(broker_pb2.RegisterAllocationRequest(request_id=job, spec=spec(job, 1000000000)), timeout=5)
            asked = {"Watch": lambda: list(broker.Watch(broker_pb2.WatchRequest(allocation_id=job), timeout=5)),
                     "TransferLeadership": lambda: operator.TransferLeadership(operator_pb2.MemberRequest(request_id=job, name=old.name), timeout=5),
                     "PromoteMember": lambda: operator.PromoteMember(operator_pb2.MemberRequest(request_id=job, name=new.name), timeout=5)}
            for method, ask in asked.items():
                try:
                    answer = ask()
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.UNAVAILABLE and "NOT_LEADER" in error.details(), f"{method}: {error}"
                else:
                    raise AssertionError(f"{method}: a deposed leader answered {answer}")
            network.heal()
            wait_until("all are ready", lambda: all(http_status(m.http, "/readyz") == 200 for m in cluster.members), 20)


def http2_request_with_no_window(address):
    """A client that asks for everything and takes nothing: its window is 0, so that no byte of an answer may be sent to it."""
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=5)

    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def literal(name, value):
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    headers = b"".join(literal(*pair) for pair in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/ckpt.v1.BrokerService/ListAllocations"), (b":authority", b"x"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers")))
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + frame(4, 1, 0, b""))
    for number in range(40):
        stream = 1 + 2 * number
        connection.sendall(frame(1, 4, stream, headers) + frame(0, 1, stream, b"\0\0\0\0\0"))
    return connection


def resident_mib(member):
    text = pathlib.Path(f"/proc/{member.process.pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


@needs(*TOOLS, probe=refused)
def readers_that_take_nothing_hold_nobody_up():
    """Clients with a closed window, clients of the side port that never read, a follower that is stopped: memory stays bounded."""
    with Broken(3) as broken:
        wait_until("there is something to list", lambda: broken.load.created > 60, 30)
        leader = broken.cluster.wait_leader()
        follower = next(m for m in broken.cluster.members if m is not leader)
        before, connections = resident_mib(leader), []
        follower.kill(19)
        try:
            for _ in range(30):
                connections.append(http2_request_with_no_window(leader.api))
                side = socket.create_connection(tuple(leader.http.split(":")), timeout=5)
                side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                side.setblocking(False)
                try:
                    for _ in range(400):
                        side.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                except (BlockingIOError, ConnectionResetError, BrokenPipeError):
                    pass  # it takes no more, or hangs up on who asks before the last answer is out
                connections.append(side)
            for _ in range(3):
                broken.load.progress(100, 20)
            grown = resident_mib(leader) - before
            assert broken.cluster.leader() is leader, "readers cost the leader its office"
            print(f"# 30 x 40 unread answers, 30 unread pipelines, one stopped follower: {grown:.0f} MiB")
            assert grown < 100, f"{grown:.0f} MiB"
        finally:
            follower.kill(18)
            for connection in connections:
                connection.close()
        broken.load.progress()


if __name__ == "__main__":
    sys.exit(main([members_parted_in_every_way_keep_one_history, lost_and_slow_packets_cost_time_only,
                   connections_that_died_silently_are_replaced,
                   packets_that_are_too_large_vanish_and_a_majority_goes_on, members_behind_names_are_found_where_the_names_lead_now, a_leader_whose_host_loses_its_power_is_replaced,
                   a_leader_that_was_cut_off_answers_nothing_from_memory, readers_that_take_nothing_hold_nobody_up], tmpfs=True))
