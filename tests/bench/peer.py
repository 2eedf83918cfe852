"""etcd 3.4 beside this broker: a cluster of it on the same disk, and one write through either one's gRPC API.

Errors  RuntimeError when etcd is not installed (deploy/install-deps.sh bench) or does not start; its log's end is in the text.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import free_port, http_status, tail, wait_until  # noqa: E402

ATTEMPT_S = 0.1  # how long a client waits for one member before it asks the next


def put_request(key, value):
    """etcdserverpb.PutRequest {bytes key = 1; bytes value = 2;}; both shorter than 128 bytes."""
    return bytes([0x0a, len(key)]) + key + bytes([0x12, len(value)]) + value


class EtcdMember:
    def __init__(self, cluster, number):
        self.cluster, self.name = cluster, f"e{number}"
        self.peer, self.api, self.health = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.log = cluster.dir / f"{self.name}.log"
        self.process = None

    def start(self):
        scheme = "https" if self.cluster.site else "http"
        initial = ",".join(f"{m.name}={scheme}://{m.peer}" for m in self.cluster.members)
        arguments = ["etcd", "--name", self.name, "--data-dir", str(self.cluster.dir / self.name), *self.tls_arguments(),
                     "--listen-metrics-urls", f"http://{self.health}",
                     "--listen-peer-urls", f"{scheme}://{self.peer}", "--initial-advertise-peer-urls", f"{scheme}://{self.peer}",
                     "--listen-client-urls", f"{scheme}://{self.api}", "--advertise-client-urls", f"{scheme}://{self.api}",
                     "--initial-cluster", initial, "--initial-cluster-token", "bench", "--initial-cluster-state", "new",
                     "--heartbeat-interval", "100", "--election-timeout", "1000", "--log-level", "error", "--logger", "zap",
                     *(["--pre-vote"] if self.cluster.pre_vote else [])]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def tls_arguments(self):
        """Certificates of clients and peers are demanded, as this broker does."""
        if self.cluster.site is None:
            return []
        stem, found = f"replica-{self.name[1:]}", []
        for prefix in ("", "peer-"):
            found += [f"--{prefix}cert-file", str(self.cluster.site.cert(stem)), f"--{prefix}key-file", str(self.cluster.site.key(stem)),
                      f"--{prefix}trusted-ca-file", str(self.cluster.site.ca), f"--{prefix}client-cert-auth"]
        return found

    def kill(self):
        self.process.kill()
        self.process.wait()

    def running(self):
        return self.process is not None and self.process.poll() is None


class Etcd:
    """A cluster on the disk that temporary folders are on, as the broker's."""

    def __init__(self, members=3, pre_vote=False, site=None):
        if shutil.which("etcd") is None:
            raise RuntimeError("etcd is not installed: deploy/install-deps.sh bench")
        self.pre_vote = pre_vote
        self.site = site  # tests/support/site_files.py: TLS with its replicas' certificates
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-etcd-"))
        self.members = [EtcdMember(self, i + 1) for i in range(members)]
        self.channels = {}

    def __enter__(self):
        try:
            for member in self.members:
                member.start()
            for member in self.members:
                wait_until(f"{member.name} answers /health", lambda m=member: http_status(m.health, "/health") == 200, 30)
            wait_until("etcd has a leader", self.leader, 30, 0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for channel in self.channels.values():
            channel.close()
        for member in self.members:
            if member.running():
                member.kill()
        shutil.rmtree(self.dir)

    def channel(self, address):
        if address not in self.channels:
            options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 1000),
                       ("grpc.max_reconnect_backoff_ms", 1000), ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
            self.channels[address] = (grpc.insecure_channel(address, options=options) if self.site is None
                                      else grpc.secure_channel(address, self.site.credentials("operator-test"), options=options))
        return self.channels[address]

    def call(self, member, method, request, timeout_s):
        return self.channel(member.api).unary_unary(f"/etcdserverpb.{method}")(request, timeout=timeout_s)

    def statuses(self):
        """{member: (own id, leader's id, raft index)} of those that answer."""
        found = {}
        for member in self.members:
            if not member.running():
                continue
            try:
                found[member] = status_fields(self.call(member, "Maintenance/Status", b"", 0.5))
            except grpc.RpcError:
                pass
        return found

    def leader(self):
        for member, (own, leader, _) in self.statuses().items():
            if own == leader:
                return member
            if not member.running():
                raise RuntimeError(f"{member.name} exited: {tail(member.log)}")
        return None

    def caught_up(self):
        indexes = [index for _, leader, index in self.statuses().values() if leader]
        return len(indexes) == len(self.members) and max(indexes) - min(indexes) < 5

    def write(self, without=None, timeout_s=30.0, attempt_s=ATTEMPT_S):
        """One Put, tried at one member after the other until it is acknowledged."""
        end = time.monotonic() + timeout_s
        while True:
            for member in self.members:
                if member is without:
                    continue
                try:
                    self.call(member, "KV/Put", put_request(b"bench", b"v" * 60), attempt_s)
                    return
                except grpc.RpcError:
                    if time.monotonic() > end:
                        raise


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protobuf message: integers, or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 2:
            length, at = varint(data, at)
            yield tag >> 3, data[at:at + length]
            at += length
        elif tag & 7 == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        else:
            raise ValueError(f"wire type {tag & 7}")


def status_fields(data):
    """etcdserverpb.StatusResponse {ResponseHeader header = 1 {member_id = 2}; leader = 4; raftIndex = 5}."""
    reply = dict(fields(data))
    return dict(fields(reply.get(1, b""))).get(2, 0), reply.get(4, 0), reply.get(5, 0)
