#!/usr/bin/python3
"""Bursts of requests and of garbage on a leader's ports: it goes on leading, what it holds for the readers stays bounded, others are answered.

Flow    a cluster with jobs to list; a crowd of connections asks for all of them many times at once; meanwhile somebody else writes and reads.
"""
import json
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, broker_pb2_grpc, fill, free_port, grpc, http_get, metric, often, tap, wait_until  # noqa: E402

JOBS = 600  # a page of 500 of them has 100 KiB and more
MIB = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, UNKNOWN = 0, 1, 2, 4, 6, 7, 8, 0xfa


class Memory:
    """What a process held at most since then."""

    def __init__(self, process):
        self.status = pathlib.Path(f"/proc/{process.pid}/status")
        self.before = self.read("VmRSS")
        pathlib.Path(f"/proc/{process.pid}/clear_refs").write_text("5")

    def read(self, name):
        return next(int(line.split()[1]) * 1024 for line in self.status.read_text().splitlines() if line.startswith(name + ":"))

    def grown_at_most(self):
        return self.read("VmHWM") - self.before

    def grown(self):
        return self.read("VmRSS") - self.before


class Others:
    """One who asks for little, all the time: how long each answer took."""

    def __init__(self, address):
        self.stub = broker_pb2_grpc.BrokerServiceStub(own_channel(address))
        self.done, self.took_s, self.failed = threading.Event(), [], []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            begun = time.monotonic()
            try:
                self.stub.GetAllocation(broker_pb2.GetAllocationRequest(allocation_id="a0"), timeout=10)
            except grpc.RpcError as error:
                self.failed.append(f"{error.code()}: {error.details()}")
            self.took_s.append(time.monotonic() - begun)
            time.sleep(0.005)

    def end(self):
        self.done.set()
        self.thread.join(20)
        assert not self.failed, self.failed[:3]
        took = sorted(self.took_s)
        return f"p50 {1e3 * took[len(took) // 2]:.1f} ms, longest {1e3 * took[-1]:.0f} ms"


def own_channel(address):
    return grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def request(stream, method, message=b""):
    """Of a call with one message; nothing is compressed and nothing remembered."""
    fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", b"x"),
              (b"content-type", b"application/grpc"), (b"te", b"trailers"))
    headers = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)
    return frame(HEADERS, 4, stream, headers) + frame(DATA, 1, stream, struct.pack(">BI", 0, len(message)) + message)


class Reader(threading.Thread):
    """One connection that asks for everything at once and takes what comes as fast as it comes: its windows are as large as there are. It answers a PING,
    as every client does: a burst may last for longer than the server waits for that."""

    def __init__(self, address, calls):
        super().__init__(daemon=True)
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=120)
        self.calls, self.messages, self.bytes, self.failed = calls, 0, 0, None
        self.asked = (PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, (1 << 31) - 1)) + frame(SETTINGS, 1, 0) +
                      frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 65536)) +
                      b"".join(request(1 + 2 * i, "/ckpt.v1.BrokerService/ListAllocations") for i in range(calls)))
        self.start()

    def run(self):
        ended, head, rest, chunk = 0, bytearray(), 0, bytearray(1 << 20)
        ping = None  # what has come of one
        try:
            self.socket.sendall(self.asked)
            while ended < self.calls:
                came = self.socket.recv_into(chunk)
                assert came, f"closed after {ended} answers"
                at = 0
                while at < came:
                    passed = min(rest, came - at)  # what other frames carry is not looked at: who measures is slow soon enough
                    if ping is not None:
                        ping += chunk[at:at + passed]
                    rest, at = rest - passed, at + passed
                    if rest > 0:
                        continue
                    if ping is not None:
                        self.socket.sendall(frame(PING, 1, 0, bytes(ping)))
                        ping = None
                    more = chunk[at:min(at + 9 - len(head), came)]
                    head, at = head + more, at + len(more)
                    if len(head) < 9:
                        continue
                    rest, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                    head.clear()
                    assert kind != GOAWAY, f"GOAWAY after {ended} answers"
                    ping = bytearray() if kind == PING and not flags & 1 else None
                    self.messages += kind == DATA and rest > 0
                    self.bytes += rest if kind == DATA else 0
                    ended += kind == HEADERS and flags & 1
        except (OSError, AssertionError) as error:
            self.failed = repr(error)
        self.socket.close()


def ask_for_lists(address, connections, calls):
    """Of readers that take what comes. Returns how many bytes came."""
    readers = [Reader(address, calls) for _ in range(connections)]
    for reader in readers:
        reader.join(300)
        assert not reader.failed, reader.failed
    return sum(reader.bytes for reader in readers)


def bursts_of_lists_cost_neither_the_office_nor_the_memory():
    """I7. A leader that gets no processor for a second loses its office, whatever is asked of it: so it has four, and a turn that computes for one is seen."""
    with Cluster(timers={"election_ms": 4000}) as cluster:
        cluster.start()
        fill(cluster, JOBS)
        leader = cluster.wait_leader()
        term, most = metric(leader.http, "ckpt_raft_term"), 0
        for connections in (2, 8):
            lists = often(120, 1000)
            memory, others = Memory(leader.process), Others(leader.api)
            begun = time.monotonic()
            came = ask_for_lists(leader.api, connections, lists)
            took_s = time.monotonic() - begun
            held, told = memory.grown_at_most(), others.end()
            print(f"# {connections} x {lists} lists of {came // connections // lists} bytes in {took_s:.1f} s: at most {held / MIB:.0f} MiB more, "
                  f"{memory.grown() / MIB:.0f} MiB more afterwards, others meanwhile: {told}, longest turn "
                  f"{1e3 * (metric(leader.http, 'ckpt_loop_lag_max_seconds') or 0):.0f} ms")
            most = max(most, held)
        assert most < 40 * MIB, f"{most / MIB:.0f} MiB"
        assert cluster.leader() is leader and metric(leader.http, "ckpt_raft_term") == term, "the burst cost the leader its office"
        computed = [int(ms) for ms in re.findall(r"event=loop_lag .*cpu_ms=(\d+)", leader.log.read_text())]
        assert max(computed, default=0) < 1000, computed


class Garbage(threading.Thread):
    """Sends the same frames as fast as they are taken, and comes back when it is shown the door."""

    def __init__(self, address, frames, done):
        super().__init__(daemon=True)
        self.address, self.frames, self.done = address, frames * (65536 // len(frames)), done
        self.sent, self.closed, self.socket = 0, 0, None
        self.start()

    def run(self):
        host, port = self.address.rsplit(":", 1)
        while not self.done.is_set():
            try:
                with socket.create_connection((host, int(port)), timeout=5) as connection:
                    connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
                    while not self.done.is_set():
                        connection.sendall(self.frames)
                        self.sent += len(self.frames)
            except OSError:
                self.closed += 1
                self.done.wait(0.05)


KINDS = {"unknown": frame(UNKNOWN, 0, 0), "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
         "PRIORITY": frame(PRIORITY, 0, 3, b"\0\0\0\0\1")}


def crowd_main(address, kind, count):
    """A process of its own, so that who measures is not behind its threads."""
    done = threading.Event()
    crowd = [Garbage(address, KINDS[kind], done) for _ in range(int(count))]
    time.sleep(often(0.3, 1.5))
    end = time.monotonic() + 10
    while any(one.closed < often(1, 2) for one in crowd) and time.monotonic() < end:
        time.sleep(0.05)
    done.set()
    for one in crowd:
        one.join(20)
    print(json.dumps({"sent": sum(one.sent for one in crowd), "closed": [one.closed for one in crowd]}))


def frames_without_use_delay_nobody():
    """Frames of unknown type, PRIORITYs and WINDOW_UPDATEs, by 50 and by 400 connections at once; 50 with one of them by day."""
    crowds = often([(50, random.choice(list(KINDS)))], [(count, kind) for count in (50, 400) for kind in KINDS])
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 3)
        leader = cluster.wait_leader()
        term, heard = metric(leader.http, "ckpt_raft_term"), False
        for count, kind in crowds:
            others = Others(leader.api)
            told = json.loads(subprocess.run([sys.executable, __file__, "--crowd", leader.api, kind, str(count)], check=True,
                                             capture_output=True, timeout=60).stdout)
            print(f"# {count} x {kind}: {told['sent'] / MIB:.0f} MiB sent, {sum(told['closed'])} times closed, "
                  f"others meanwhile: {others.end()}", flush=True)
            heard = heard or not all(told["closed"])
        assert not heard, "one was heard to the end"
        assert cluster.leader() is leader and metric(leader.http, "ckpt_raft_term") == term, "garbage cost the leader its office"


def half_requests(address, count):
    """Connections with a request whose end never comes: of its headers, of its body."""
    host, port = address.rsplit(":", 1)
    connections = []
    for i in range(count):
        connection = socket.create_connection((host, int(port)), timeout=5)
        connection.sendall(b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nbody" if i % 2 else
                           b"GET /livez HTTP/1.1\r\nHost: x\r\n"[:i % 30])
        connections.append(connection)
    return connections


def asked_in_s(address, path):
    begun = time.monotonic()
    status = http_get(address, path, 20)[0]
    assert status == 200, f"{address}{path}: {status}"
    return time.monotonic() - begun


def half_requests_keep_nobody_from_the_side_ports():
    """Of a member and of an agent, by fewer connections than the port takes and by many more; the late ones are shown out."""
    with Cluster(members=1, agents=["a"]) as cluster:
        agent_http = f"127.0.0.1:{free_port()}"
        cluster.agent_config.write_text(cluster.agent_config.read_text() + f'http: "{agent_http}"\n')
        cluster.start()
        leader = cluster.wait_leader()
        wait_until("the agent answers", lambda: http_get(agent_http, "/livez")[0] == 200, 10)
        for address, paths in ((leader.http, ("/livez", "/leader")), (agent_http, ("/livez", "/metrics"))):
            for count in (64, 600):
                connections = half_requests(address, count)
                took_s = [asked_in_s(address, path) for path in paths for _ in range(5)]
                print(f"# {count} half requests on {address}: others are answered within {1e3 * max(took_s):.0f} ms")
                assert max(took_s) < 2, took_s
                dripping = connections[-20:]
                end = time.monotonic() + 12
                while dripping and time.monotonic() < end:
                    for connection in list(dripping):
                        try:
                            connection.send(b"x")
                        except OSError:
                            dripping.remove(connection)
                    time.sleep(0.5)
                assert not dripping, f"{len(dripping)} half requests stay"
                for connection in connections:
                    connection.close()


def silent_connections_do_not_delay_a_start():
    """As many as the agent's socket takes and more, of the same user and of another one."""
    with Cluster(members=1, agents=["a"]) as cluster:
        cluster.start()
        agent = cluster.agents["a"]
        for turn in range(2):
            name = f"job-{turn}"
            cluster.register(name, [("a", 1, 1 << 20)])
            silent = []
            for _ in range(2500):
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(agent.socket))
                silent.append(connection)
            begun = time.monotonic()
            job = cluster.run_job("a", name, [sys.executable, "-c", "import time; time.sleep(60)"])
            wait_until("the application runs", job.application_pid, 20, 0.01)
            took_s = time.monotonic() - begun
            print(f"# {len(silent)} silent connections: the application began after {took_s:.2f} s")
            assert took_s < 4, f"{took_s:.1f} s"
            wait_until("the silent ones are closed", lambda: all(ended(connection) for connection in silent), 15, 0.2)
            assert job.running(), "the one that speaks was closed with them"
            for connection in silent:
                connection.close()


def ended(connection):
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    if sys.argv[1:2] == ["--crowd"]:
        crowd_main(*sys.argv[2:])
        sys.exit(0)
    sys.exit(tap([bursts_of_lists_cost_neither_the_office_nor_the_memory, frames_without_use_delay_nobody,
                  half_requests_keep_nobody_from_the_side_ports, silent_connections_do_not_delay_a_start]))
