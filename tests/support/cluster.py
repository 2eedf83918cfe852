"""A cluster of real processes on loopback, for the demo, the integration tests and the benchmarks.

Flow    Cluster() makes a fresh folder, picks free ports, writes one configuration for all members and starts what it is told;
        stop() ends exactly the processes it started. Stubs are generated from proto/ with protoc, so this is also an
        independent client of the API (python3-grpcio, no code of the project in it).
"""
import compileall
import fcntl
import json
import os
import pathlib
import pwd
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
BIN = BUILD / "bin"


def generate_stubs():
    """Generates the Python stubs once per build folder and makes them importable; one program at a time looks."""
    out = BUILD / "pygen"
    protos = sorted((ROOT / "proto").rglob("*.proto"))
    stamp = out / ".stamp"
    newest = max(p.stat().st_mtime for p in protos)
    with open(BUILD / "pygen.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            fresh = pathlib.Path(tempfile.mkdtemp(dir=BUILD))
            subprocess.run(
                [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"--python_out={fresh}",
                 f"--grpc_python_out={fresh}", *map(str, protos)], check=True)
            (fresh / ".stamp").touch()
            if out.exists():
                shutil.rmtree(out)
            fresh.rename(out)
            compileall.compile_dir(out, quiet=1)  # some who use it are users that write nothing here
    sys.path.insert(0, str(out))


generate_stubs()
# Its handler of forks waits for threads that look names up, for ever where a test leads a name elsewhere; children here only exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
import grpc  # noqa: E402
grpc.__path__.append(str(BUILD / "pygen" / "grpc"))  # the generated grpc.health and grpc.reflection beside the package
from ckpt.v1 import agent_pb2, agent_pb2_grpc, broker_pb2, broker_pb2_grpc  # noqa: E402,F401
from ckpt.v1 import common_pb2, operator_pb2, operator_pb2_grpc  # noqa: E402

from site_files import Site  # noqa: E402
from tap import LONG, often, processor_s, tap  # noqa: E402,F401

def own_name(uid=None):
    """The user that this program, or that uid, is: whoever registers a job as somebody else cannot start it."""
    uid = os.geteuid() if uid is None else uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)


PORT_FIRST, PORT_SHARES, PORTS_OF_SHARE = 12000, 200, 100
port_locks = []


def own_ports():
    """Ports that no other test program on this machine gives away: a share of the range below the ephemeral ports, under a lock held until this
    program ends. A port stays its member's while that is down."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"ckpt-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for share in random.sample(range(PORT_SHARES), PORT_SHARES):
        lock = open(folder / str(share), "w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        port_locks.append(lock)
        first = PORT_FIRST + share * PORTS_OF_SHARE
        yield from range(first, first + PORTS_OF_SHARE)
    raise RuntimeError(f"no free port between {PORT_FIRST} and {PORT_FIRST + PORT_SHARES * PORTS_OF_SHARE}")


ports = own_ports()


def free_port():
    """A free port, never the same twice."""
    for port in ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("own_ports ends with an error")


PATIENCE = 3  # a dozen programs share two cores: what is waited for comes that much later than alone, and how soon it comes is no test's verdict


def wait_until(what, condition, timeout_s, interval_s=None):
    """Polls until the condition returns something true, and returns it; the name of what was awaited is in the failure. Without an interval the
    pauses grow with the time waited, to a quarter of a second: a dozen tests that wait beside each other would take a core by asking."""
    began = time.monotonic()
    end = began + PATIENCE * timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE * timeout_s} s")
        time.sleep(interval_s if interval_s is not None else min(0.25, 0.02 + (time.monotonic() - began) / 8))


def checkpoint_text(identifier):
    return f"{identifier >> 40}-{identifier & ((1 << 40) - 1)}"


class Client:
    """Follows the leader by the hint trailer; every mutation keeps its request id over all attempts."""

    def __init__(self, addresses, credentials=None):
        self.addresses = list(addresses)
        self.credentials = credentials  # of grpc.secure_channel; None: plain
        self.current = 0
        self.channels = {}
        self.unavailable = {}  # address -> how often in a row
        self.attempt_started = 0.0

    def channel(self, address):
        if address not in self.channels:
            options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50),
                       ("grpc.max_reconnect_backoff_ms", 200), ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
                       ("grpc.dns_min_time_between_resolutions_ms", 100)]
            self.channels[address] = (grpc.insecure_channel(address, options=options) if self.credentials is None
                                      else grpc.secure_channel(address, self.credentials, options=options))
        return self.channels[address]

    def renew(self, address, error):
        """A channel over TLS whose server was killed during the handshake may say "tcp handshaker shutdown" for ever (gRPC for Python 1.51)."""
        if error.code() == grpc.StatusCode.UNAVAILABLE and "handshaker shutdown" in (error.details() or ""):
            self.unavailable[address] = self.unavailable.get(address, 0) + 1
            if self.unavailable[address] > 5:
                self.unavailable[address] = 0
                self.channels.pop(address, None)

    def call(self, service, method, request, timeout_s=10.0, attempt_s=1.0):
        """One unary call to the leader, retried until timeout_s. Raises grpc.RpcError for a final answer."""
        stub_class = {"Broker": broker_pb2_grpc.BrokerServiceStub, "Operator": operator_pb2_grpc.OperatorServiceStub}[service]
        end = time.monotonic() + timeout_s
        while True:
            address = self.addresses[self.current]
            self.attempt_started = time.monotonic()
            try:
                reply = getattr(stub_class(self.channel(address)), method)(request, timeout=attempt_s)
                self.unavailable[address] = 0
                return reply
            except grpc.RpcError as error:
                self.renew(address, error)
                hint = dict(error.trailing_metadata() or ()).get("ckpt-leader-hint")
                moved = error.code() == grpc.StatusCode.UNAVAILABLE and hint is not None
                if not moved and error.code() not in RETRYABLE:
                    raise
                if time.monotonic() > end:
                    raise
                if moved and hint in self.addresses:
                    self.current = self.addresses.index(hint)
                else:
                    self.current = (self.current + 1) % len(self.addresses)
                if not (moved and hint):
                    time.sleep(0.005)

    def broker(self, method, request, **options):
        return self.call("Broker", method, request, **options)

    def operator(self, method, request, **options):
        return self.call("Operator", method, request, **options)

    def close(self):
        for channel in self.channels.values():
            channel.close()
        self.channels = {}


class Member:
    def __init__(self, cluster, number):
        self.cluster, self.id, self.name = cluster, number, f"n{number}"
        self.raft, self.api, self.http = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.data_dir = cluster.dir / self.name
        self.log = cluster.dir / f"{self.name}.log"
        self.process = None
        self.started_before = False
        self.joins = False  # a running cluster adds it
        self.config = cluster.config
        self.prefix = []  # command that starts the member, such as nsenter
        self.extra = []   # further options of ckptd
        self.program = None  # another ckptd than the cluster's

    def start(self, wait=True):
        arguments = [*self.prefix, str(self.program or self.cluster.bin / "ckptd"), "--config", str(self.config), "--name", self.name,
                     "--data-dir", str(self.data_dir)]
        if not self.started_before:
            arguments.append("--join" if self.joins else "--bootstrap")
        arguments += self.extra
        self.started_before = True
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            cwd=self.cluster.dir)
        if wait:
            wait_until(f"{self.name} answers /livez", lambda: http_status(self.http, "/livez") == 200 or self.check_alive(), 15)

    def check_alive(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} exited with {self.process.returncode}: {tail(self.log)}")
        return False

    def kill(self, signal_number=signal.SIGKILL):
        self.process.send_signal(signal_number)
        if signal_number == signal.SIGKILL:
            self.process.wait()

    def running(self):
        return self.process is not None and self.process.poll() is None


class Agent:
    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.state_dir = cluster.dir / f"agent-{name}"
        self.socket = cluster.dir / f"{name}.sock"
        self.log = cluster.dir / f"agent-{name}.log"
        self.process = None
        self.cgroup = "off"  # the one that tests run in is nobody's business either, and no two agents share one
        self.prefix = []  # command that starts the agent
        self.program = None  # another ckpt-agentd than the cluster's
        self.sysfs = cluster.dir / "no-sysfs"  # the sensors of the machine that tests run on are nobody's business

    def start(self):
        self.config = self.cluster.dir / f"agent-{self.name}.yaml"
        self.config.write_text(self.cluster.agent_config.read_text().replace("{node}", self.name) + f'sysfs: "{self.sysfs}"\ncgroup: "{self.cgroup}"\n')
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, str(self.program or self.cluster.bin / "ckpt-agentd"), "--config", str(self.config), "--name", self.name,
                 "--state-dir", str(self.state_dir), "--socket", str(self.socket)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.cluster.dir)
        wait_until(f"agent {self.name} listens", lambda: self.socket.exists() or self.check_alive(), 15)

    check_alive = Member.check_alive
    kill = Member.kill
    running = Member.running


def children(pid):
    try:
        return [int(text) for text in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def stat_of(pid):
    """Name and parent, or "" and 0 when it is gone."""
    try:
        name, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
    except OSError:
        return "", 0
    return name, int(rest.split()[1])


def parent_of(pid):
    return stat_of(pid)[1]


def application_of(pid):
    """Of this ckpt-run: the child of its keeper, or None between two starts. What an application has left may be its child as well."""
    return next((child for keeper in children(pid) if stat_of(keeper)[0] == "ckpt-keeper" for child in children(keeper)), None)


class Job:
    """One ckpt-run on one node."""

    def __init__(self, cluster, agent, allocation, command, options=(), program=None):
        self.cluster, self.agent, self.allocation = cluster, agent, allocation
        self.work_dir = cluster.dir / "work" / f"{allocation}.{agent.name}"
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.log = cluster.dir / f"job-{allocation}.{agent.name}.log"
        self.earlier = program is not None
        self.arguments = [str(program or BIN / "ckpt-run"), "--alloc", allocation, "--work-dir", str(self.work_dir),
                          "--socket", str(agent.socket), *options, "--", *command]
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.cluster.dir,
                                            start_new_session=True)

    def kill(self):
        """SIGKILL of ckpt-run alone: its application runs on."""
        self.process.kill()
        self.process.wait()

    def applications(self):
        """Every living process that was started as this job's application, also without its ckpt-run."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"CKPT_DIR={self.work_dir}".encode() in environment:
                found.append(int(folder.name))
        return found

    def application_pid(self):
        """The child of ckpt-run's keeper, or None between two starts. That of an earlier release is its own child."""
        if self.earlier:
            return next(iter(children(self.process.pid)), None)
        return application_of(self.process.pid) or self.kept_application()

    def kept_application(self):
        """The one that another ckpt-run had started, and that this one goes on with."""
        told = re.findall(r"goes on with pid (\d+)", self.log.read_text(errors="replace"))
        return int(told[-1]) if told and self.running() and int(told[-1]) in self.applications() else None

    def known_to_run(self):
        """Its application's pid when the cluster knows that all its parts run: only then a checkpoint or a preemption may be asked for."""
        pid = self.application_pid()
        state = self.cluster.allocation(self.allocation).state if pid else None
        return pid if state not in (None, common_pb2.ALLOCATION_STATE_STARTING) else None

    def running(self):
        return self.process.poll() is None


def tail(path, lines=15):
    try:
        return "\n".join(pathlib.Path(path).read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def http_get(address, path, timeout_s=2.0):
    """(status, body) or (0, '') when nobody answers."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
    except OSError:
        return 0, ""
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = head.split()
    return (int(fields[1]) if len(fields) > 1 else 0), body.decode(errors="replace")


def http_status(address, path):
    return http_get(address, path, 0.5)[0]


def metric(address, name):
    """Sum over the label sets of one metric."""
    total = None
    for line in http_get(address, "/metrics")[1].splitlines():
        if line.startswith(name + " ") or line.startswith(name + "{"):
            total = (total or 0.0) + float(line.rsplit(" ", 1)[1])
    return total


class Cluster:
    def __init__(self, members=3, agents=(), policy=None, target=None, storage_watch=None, timers=None, keep=False,
                 heartbeat_ms=1000, raft=None, tls=False, copies=True):
        self.keep = keep
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-"))
        self.bin = BIN
        self.scratch = self.dir / "scratch"
        self.scratch.mkdir()
        self.config, self.agent_config = self.dir / "ckptd.yaml", self.dir / "agent.yaml"
        self.members = [Member(self, i + 1) for i in range(members)]
        self.agents = {name: Agent(self, name) for name in agents}
        self.jobs = []
        self.site = self.make_site() if tls else None
        self.write_config(policy or {}, target or {}, storage_watch or {}, timers or {}, raft or {})
        self.agent_config.write_text(
            f"brokers: \"{','.join(m.api for m in self.members)}\"\nheartbeat_ms: {heartbeat_ms}\nlog_level: info\n"
            + self.tls_section("agent-{name}")
            # False: what a test does to a destination would not be noticed by a job that begins from its node's own copy
            + ("" if copies else "local_copies: {max_bytes: 0}\n"))
        self.client = Client([m.api for m in self.members], self.site and self.site.credentials("operator-test"))

    def make_site(self):
        """A CA in a folder of its own, and a certificate for everybody here."""
        site = Site(self.dir / "tls", BIN / "ckptctl")
        for member in self.members:
            site.issue("replica", member.id, "--host", "127.0.0.1,localhost")
            site.audit_key(member.name)
        for name in self.agents:
            site.issue("agent", name)
        site.issue("operator", "test")
        site.issue("scheduler", "test")
        return site

    def tls_section(self, stem):
        if self.site is None:
            return ""
        return f'tls: {{ca: "{self.site.ca}", cert: "{self.site.dir}/{stem}.crt", key: "{self.site.dir}/{stem}.key"}}\n'

    def write_config(self, policy, target, storage_watch, timers, raft):
        def section(name, values):
            return "" if not values else f"{name}: {{{', '.join(f'{k}: {v}' for k, v in values.items())}}}\n"
        target = {"id": "scratch", "kind": "posix", "prefix": f'"{self.scratch}"', "write_bytes_per_s": 1000000000,
                  "staging_share_ppm": 300000, "default": "yes", **target}
        storage_watch = {"interval_ms": 2500, "timeout_ms": 2000, "failures_down": 2, "successes_up": 2, **storage_watch}
        timers = {"election_ms": 1000, "heartbeat_ms": 100, **timers}
        text = f"cluster_id: demo\ndata_dir: \"{self.dir}/data\"\nmembers:\n"
        for m in self.members:
            text += f"  - {{id: {m.id}, name: {m.name}, raft: \"{m.raft}\", api: \"{m.api}\", http: \"{m.http}\"}}\n"
        text += section("timers", timers) + section("raft", raft) + section("policy", policy)
        text += f"targets:\n  - {{{', '.join(f'{k}: {v}' for k, v in target.items())}}}\n"
        text += section("storage_watch", storage_watch) + "log_level: info\n" + self.tls_section("replica-{id}")
        if self.site:
            text += f'audit: {{key: "{self.site.dir}/audit-{{name}}.key"}}\n'
        self.config.write_text(text)

    def new_member(self, number=None):
        """One more, not started yet, whose configuration knows only itself; the files of the others do not change."""
        member = Member(self, number or max(m.id for m in self.members) + 1)
        member.joins = True
        member.config = self.dir / f"{member.name}.yaml"
        lines = [line for line in self.config.read_text().splitlines() if not line.startswith("  - {id: ") or "name:" not in line]
        at = lines.index("members:") + 1
        lines.insert(at, f"  - {{id: {member.id}, name: {member.name}, raft: \"{member.raft}\", api: \"{member.api}\", "
                         f"http: \"{member.http}\"}}")
        member.config.write_text("\n".join(lines) + "\n")
        if self.site:
            self.site.issue("replica", member.id, "--host", "127.0.0.1,localhost")
            self.site.audit_key(member.name)
        self.members.append(member)
        self.client.addresses.append(member.api)
        return member

    def start(self):
        for member in self.members:
            member.start(wait=False)
        for member in self.members:
            wait_until(f"{member.name} answers /livez", lambda m=member: http_status(m.http, "/livez") == 200 or m.check_alive(), 15)
        self.wait_leader()
        for agent in self.agents.values():
            agent.start()

    def leader(self):
        """The member that serves as leader now, by its /leader URL, or None."""
        for member in self.members:
            if member.running() and http_status(member.http, "/leader") == 200:
                return member
        return None

    def wait_leader(self, timeout_s=20):
        return wait_until("a leader serves", self.leader, timeout_s)

    def ctl(self, *arguments, check=True, endpoints=None, tls=None):
        tls = tls if tls is not None else self.site.arguments("operator-test") if self.site else []
        result = subprocess.run(
            [str(BIN / "ckptctl"), "--endpoints", endpoints or ",".join(m.api for m in self.members), *tls, *arguments],
            capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if check and result.returncode != 0:
            raise RuntimeError(f"ckptctl {' '.join(arguments)}: exit {result.returncode}: {result.stderr}{result.stdout}")
        return result

    def register(self, allocation, nodes, request_id=None, **fields):
        """nodes: [(node, gpus, used GPU memory in bytes)]. Tests are the scheduler, which restarts its jobs itself; restart=AUTO: the broker does."""
        fields.setdefault("restart", common_pb2.RESTART_MODE_MANUAL)
        spec = common_pb2.AllocationSpec(
            allocation_id=allocation, tenant=fields.pop("tenant", "physics"), project=fields.pop("project", "heat"),
            vcluster=fields.pop("vcluster", "hpc"), owner=fields.pop("owner", own_name()),
            nodes=[common_pb2.NodeShare(node_id=n, gpu_count=g, gpu_memory_used_bytes=b) for n, g, b in nodes], **fields)
        return self.client.broker("RegisterAllocation", broker_pb2.RegisterAllocationRequest(
            request_id=request_id or uuid.uuid4().hex, spec=spec))

    def allocation(self, identifier):
        return self.client.broker("GetAllocation", broker_pb2.GetAllocationRequest(allocation_id=identifier))

    def request_checkpoint(self, allocation, after=common_pb2.AFTER_CHECKPOINT_CONTINUE):
        """Asks for one as soon as the cluster knows that all parts run: earlier it is refused (NOT_STARTED). The checkpoint's id."""
        wait_until(f"{allocation} has started", lambda: self.allocation(allocation).state != common_pb2.ALLOCATION_STATE_STARTING, 20)
        return self.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
            request_id=uuid.uuid4().hex, allocation_id=allocation, after=after)).checkpoint_id

    def checkpoints(self, allocation="", state=0):
        found, after = [], 0
        while True:
            page = self.client.broker("ListCheckpoints", broker_pb2.ListCheckpointsRequest(
                allocation_id=allocation, state=state, after_checkpoint_id=after))
            found.extend(page.checkpoints)
            after = page.next_after_checkpoint_id
            if after == 0:
                return found

    def events(self):
        """All events kept, from the leader."""
        for _ in range(100):
            leader = self.wait_leader()
            stub = broker_pb2_grpc.BrokerServiceStub(self.client.channel(leader.api))
            try:
                return list(stub.Watch(broker_pb2.WatchRequest(), timeout=10))
            except grpc.RpcError as error:
                if error.code() not in RETRYABLE:
                    raise
                time.sleep(0.05)
        raise TimeoutError("no leader answered Watch")

    def run_job(self, agent, allocation, command, options=(), program=None):
        job = Job(self, self.agents[agent], allocation, command, options, program)
        self.jobs.append(job)
        return job

    def starts(self, allocation, node):
        """Speaks for the agent of a node that has none: the allocation's application runs there."""
        ups = queue.Queue()
        ups.put(agent_pb2.AgentUp(hello=agent_pb2.AgentHello(node_id=node, boot_id="boot", version="test")))
        stub = agent_pb2_grpc.AgentServiceStub(self.client.channel(self.wait_leader().api))
        downs = stub.Session(iter(ups.get, None), timeout=10)
        for down in downs:
            if down.HasField("welcome"):
                sequence = down.welcome.acknowledged_report_sequence + 1
            for part in down.orders.parts:
                if part.allocation_id == allocation:
                    ups.put(agent_pb2.AgentUp(report=agent_pb2.AgentReport(
                        sequence=sequence, kind=agent_pb2.REPORT_KIND_APPLICATION_STARTED, allocation_id=allocation, run=part.run)))
            if down.HasField("ack") and down.ack.sequence >= sequence:
                break
        ups.put(None)
        downs.cancel()

    def let_others_in(self):
        """Before start(): other users reach the cluster's folder, its destination and a copy of the programs (the agent's workers run
        as the job's user, and the build folder may be private)."""
        self.bin = self.dir / "bin"
        shutil.copytree(BIN, self.bin)
        self.dir.chmod(0o755)
        self.bin.chmod(0o755)
        self.scratch.chmod(0o1777)

    def storage_down(self):
        self.scratch.rename(self.dir / "scratch.offline")

    def storage_up(self):
        (self.dir / "scratch.offline").rename(self.scratch)

    def debug_check(self):
        """Invariants and equal hashes on all members, by the operator's command; returns its output."""
        return wait_until("debug check passes", lambda: self._debug_check_once(), 20, 0.2)

    def _debug_check_once(self):
        result = self.ctl("debug", "check", check=False)
        self.last_check = result
        return result.stdout if result.returncode == 0 else None

    def stop(self):
        self.client.close()
        for job in self.jobs:
            job.kill()
            for pid in job.applications():
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
        for daemon in [*self.agents.values(), *self.members]:
            if daemon.running():
                daemon.process.send_signal(signal.SIGCONT)
                daemon.process.kill()
                daemon.process.wait()
        if not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            for daemon in [*self.members, *self.agents.values(), *self.jobs]:
                print(f"---- {daemon.log.name}\n{tail(daemon.log, 25)}", file=sys.stderr)
        self.stop()
        return False


def fill(cluster, count, prefix="a"):
    for i in range(count):
        cluster.register(f"{prefix}{i}", [("n", 1, 1 << 20)])


def load_json(result):
    return json.loads(result.stdout)
