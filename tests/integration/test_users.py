#!/usr/bin/python3
"""What users of a node can do to each other, with real users. Whose job it is: whom the registration names, or, where the policy says so and it
names no user of the node, who came first; nobody else attaches to it, asks it, reads of it or restores it. And a user whose paths hang holds up
nobody else. Run by root: it becomes the users."""
import ctypes
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import uuid

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BUILD, Client, Cluster, broker_pb2, common_pb2, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1h", "checkpoint_timeout": "20s", "grace": "1s"}
GOES_ON = (common_pb2.ALLOCATION_STATE_STARTING, common_pb2.ALLOCATION_STATE_RUNNING)
RUNNING = common_pb2.ALLOCATION_STATE_RUNNING
COMPLETED = common_pb2.ALLOCATION_STATE_COMPLETED
MIB = 1 << 20
ALICE, BOB = (pwd.getpwnam(name) for name in ("nobody", "daemon"))

# Speaks with the agent's socket as ckpt-run does: argv = socket, allocation, work folder, what, or several by commas. "later" waits for a line first.
ATTACH = r"""
import os, queue, subprocess, sys
import grpc
from ckpt.v1 import app_pb2, app_pb2_grpc
path, allocation, work, whats = sys.argv[1:5]
def start():
    child = subprocess.Popen(["sleep", "1000"], process_group=0)
    return child, int(open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[19])
def attach(running, run):
    child, ticks = start() if running else (None, 0)
    up = queue.Queue()
    down = app_pb2_grpc.AppServiceStub(grpc.insecure_channel("unix:" + path)).Attach(iter(up.get, None), wait_for_ready=True)
    up.put(app_pb2.AttachUp(hello=app_pb2.AttachHello(allocation_id=allocation, profile="signal", work_dir=work, running=running,
                                                      pid=child.pid if child else 0, start_time_ticks=ticks, run=run)))
    answer = next(down).ready
    print("error" if answer.error else "ready", answer.error, flush=True)
    if not answer.error and not running:
        child, ticks = start()
        up.put(app_pb2.AttachUp(started=app_pb2.AttachStarted(pid=child.pid, start_time_ticks=ticks)))
        next(down)
    if child:
        child.kill()
        child.wait()
    if not answer.error:
        up.put(app_pb2.AttachUp(exited=app_pb2.AttachExited(wait_status=0 if running else 9, will_restart=not running)))
        up.put(None)
        list(down)
try:
    for what in whats.split(","):
        if what == "later":
            print("prepared", flush=True)
            sys.stdin.readline()
        else:
            attach(what.startswith("steal"), int(what[5:] or 0) if what.startswith("steal") else 0)
except grpc.RpcError as error:
    print(error, file=sys.stderr, flush=True)
os._exit(0)  # gRPC may wait for its own threads at the end, for ever
"""


# A decoy: argv = allocation, work folder, run, socket of the agent. It says that it is a job's, in a group of its own.
DECOY = r"""
import os, sys
os.setpgid(0, 0)
os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"], {"CKPT_ALLOCATION_ID": sys.argv[1], "CKPT_DIR": sys.argv[2],
          "CKPT_RUN": sys.argv[3], "CKPT_NODE_ID": "a", "CKPT_AGENT_SOCKET": sys.argv[4]})
"""

# The application's own call: argv = socket, allocation, where it would listen.
REGISTER = r"""
import sys
import grpc
from ckpt.v1 import app_pb2, app_pb2_grpc
stub = app_pb2_grpc.AppServiceStub(grpc.insecure_channel("unix:" + sys.argv[1]))
try:
    stub.Register(app_pb2.RegisterRequest(allocation_id=sys.argv[2], endpoint="unix:" + sys.argv[3]), timeout=10)
    print("OK")
except grpc.RpcError as error:
    print(error.code().name, error.details())
"""

# A rank's first line: argv = socket, allocation, run.
RANK = r"""
import socket, sys
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
stream.sendall(("hello 1 %s %s 0 0 1 1 plain\n" % (sys.argv[2], sys.argv[3])).encode())
print(stream.recv(512).decode())
"""


class Users(Cluster):
    """One member and agents that other users reach."""

    def __init__(self, owners_register=None, tls=False, rule=None, agents=("a",), target=None):
        pathlib.Path(tempfile.gettempdir()).chmod(0o1777)
        super().__init__(members=1, agents=agents, policy={**POLICY, **({"owner_rule": rule} if rule else {})}, tls=tls, target=target)
        if owners_register:
            self.agent_config.write_text(self.agent_config.read_text() + f"owners_register: {owners_register}\nowners_tenants: \"physics=*\"\n")
        self.let_others_in()
        shutil.copytree(BUILD / "pygen", self.dir / "pygen")
        (self.dir / "pygen").chmod(0o755)

    def folder(self, user):
        path = self.dir / f"work-{user.pw_name}"
        path.mkdir(exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
        return path

    def attach(self, user, allocation, what, work=None):
        return subprocess.Popen([sys.executable, "-c", ATTACH, str(self.agents["a"].socket), allocation, str(work or self.folder(user)), what],
                                user=user.pw_uid, group=user.pw_gid, extra_groups=[], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env={"PYTHONPATH": str(self.dir / "pygen"), "PATH": os.environ["PATH"]})

    def attaches(self, user, allocation, what):
        out, error = self.attach(user, allocation, what).communicate(timeout=90)
        assert out, error
        return out.strip()

    def run_as(self, user, allocation, *command, node="a"):
        work = self.folder(user) / ("w" if node == "a" else f"w-{node}")
        return subprocess.Popen([str(self.bin / "ckpt-run"), "--alloc", allocation, "--work-dir", str(work), "--socket",
                                 str(self.agents[node].socket), "--", *command], user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def decoy(self, user, allocation, run):
        """run: as a number."""
        program = subprocess.Popen([sys.executable, "-c", DECOY, allocation, str(self.folder(ALICE) / allocation), f"{run >> 40}-{run & (1 << 40) - 1}",
                                    str(self.agents["a"].socket)], user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        wait_until("it dresses up", lambda: f"CKPT_ALLOCATION_ID={allocation}".encode() in pathlib.Path(f"/proc/{program.pid}/environ").read_bytes(), 10)
        return program

    def asks(self, user, *words, node="a"):
        """`ckpt-run` with a verb: exit code, and what it printed on both."""
        done = subprocess.run([str(self.bin / "ckpt-run"), *words, "--socket", str(self.agents[node].socket)], user=user.pw_uid,
                              group=user.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def jobs_of(self, user):
        code, out, error = self.asks(user, "status", "-o", "json")
        assert code == 0, error
        return {job["allocation_id"]: job for job in json.loads(out)["jobs"]}

    def run_of(self, allocation):
        return str(self.allocation(allocation).node_runs[0])

    def state(self, allocation):
        return self.allocation(allocation).state


def a_job_that_restarts_in_place_stays_its_owners():
    """Neither while nothing of it runs, nor after the agent has restarted, can another user say how it ended."""
    with Users(rule="first") as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner="")
        # its agent waits for a ckpt-run for 5 s: so whoever comes meanwhile is there before
        others = [cluster.attach(BOB, "job", "later,steal,restart") for _ in range(2)]
        for other in others:
            assert other.stdout.readline() == "prepared\n", other.stderr.read()
        assert cluster.attaches(ALICE, "job", "restart") == "ready"
        for other in others:
            answers = other.communicate("now\n", timeout=90)[0].splitlines()
            assert len(answers) == 2, answers
            for answer in answers:
                assert answer.startswith("error") and f"belongs to uid {ALICE.pw_uid}" in answer and f"you are uid {BOB.pw_uid}" in answer, answer
            assert cluster.state("job") in GOES_ON, cluster.state("job")
            cluster.agents["a"].kill()
            cluster.agents["a"].start()
        cluster.register("second", [("a", 1, MIB)], owner="")
        run = cluster.run_as(ALICE, "second", "sleep", "0.1")
        assert run.wait(30) == 0, run.stderr.read()
        wait_until("it is complete", lambda: cluster.state("second") == COMPLETED, 10)
        run = cluster.run_as(BOB, "second", "true")
        assert run.wait(30) == 125 and f"belongs to uid {ALICE.pw_uid}" in run.stderr.read()


def the_registered_user_is_the_owner_whoever_comes_first():
    """Rule FIRST: a name that a user of the node has; another name, or none, leaves it to who comes first. Root may, and does not become the
    owner."""
    with Users(rule="first") as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        for what in ("steal", "restart"):
            answer = cluster.attaches(BOB, "job", what)
            assert answer.startswith("error") and f"registered for user {ALICE.pw_name} (uid {ALICE.pw_uid})" in answer, answer
        run = cluster.run_as(BOB, "job", "true")
        assert run.wait(30) == 125 and f"registered for user {ALICE.pw_name}" in run.stderr.read()
        assert cluster.state("job") in GOES_ON
        root = cluster.run_job("a", "job", ["false"], ("--max-restarts", "0"))
        assert root.process.wait(30) == 1
        wait_until("its end is told", lambda: cluster.state("job") not in GOES_ON, 10)
        cluster.register("other", [("a", 1, MIB)], owner=ALICE.pw_name)
        run = cluster.run_as(ALICE, "other", "true")
        assert run.wait(30) == 0, run.stderr.read()
        wait_until("it is complete", lambda: cluster.state("other") == COMPLETED, 10)
        cluster.register("nameless", [("a", 1, MIB)], owner="no-such-user-" + uuid.uuid4().hex[:8])
        run = cluster.run_as(BOB, "nameless", "true")
        assert run.wait(30) == 0, run.stderr.read()
        wait_until("it is complete", lambda: cluster.state("nameless") == COMPLETED, 10)


def a_job_of_nobody_on_the_node_is_started_by_root_alone():
    """Rule REGISTERED, the default: the refusal names the owner, the node and what to do; the policy may leave such jobs to who comes first."""
    with Users() as cluster:
        cluster.start()
        ghost = "no-such-user-" + uuid.uuid4().hex[:8]
        for name, owner, said in (("ghosts", ghost, f"registered for owner {ghost}, which is no user of node a"), ("nobodys", "", "registered without an owner")):
            cluster.register(name, [("a", 1, MIB)], owner=owner)
            for what in ("steal", "restart"):
                answer = cluster.attaches(ALICE, name, what)
                assert answer.startswith("error") and said in answer and "ckptctl policy set owner_rule=first" in answer, answer
            run = cluster.run_as(ALICE, name, "true")
            assert run.wait(30) == 125 and said in (text := run.stderr.read()) and "--owner" in text, text
            root = cluster.run_job("a", name, ["false"], ("--max-restarts", "0"))
            assert root.process.wait(30) == 1, root.log.read_text()
            wait_until("its end is told", lambda n=name: cluster.state(n) not in GOES_ON, 10)
            run = cluster.run_as(ALICE, name, "true")
            assert run.wait(30) == 125, "it did not become anybody's by that"
        cluster.ctl("policy", "set", "owner_rule=first")
        cluster.register("later", [("a", 1, MIB)], owner=ghost)
        run = cluster.run_as(ALICE, "later", "true")
        assert run.wait(30) == 0, run.stderr.read()


def nobody_else_attaches_asks_reads_or_restores():
    """Two users without names: a job is registered for the number of one. The other one has its id, its socket and its paths."""
    ann, eve = (types.SimpleNamespace(pw_name=str(uid), pw_uid=uid, pw_gid=uid) for uid in (20001, 20002))
    with Users() as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner=ann.pw_name)
        run = cluster.run_as(eve, "job", "true")
        assert run.wait(30) == 125 and "registered for user 20001 (uid 20001)" in run.stderr.read()
        heat = [str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", str(cluster.folder(ann) / "r")]
        run = cluster.run_as(ann, "job", *heat)
        wait_until("it runs", lambda: cluster.jobs_of(ann).get("job", {}).get("state") == "running", 15)
        record = ended(cluster, "job", requested(cluster, "job"))
        assert record.state == common_pb2.CHECKPOINT_STATE_COMPLETE
        pid = cluster.jobs_of(ann)["job"]["pid"]
        os.kill(pid, signal.SIGKILL)  # it is restored
        wait_until("it runs again", lambda: (cluster.jobs_of(ann)["job"]["pid"] or pid) != pid and cluster.state("job") == RUNNING, 15)
        restored = next((cluster.folder(ann) / "w" / "restore").iterdir())
        part = next(pathlib.Path(record.path).iterdir())
        # attaches: beside it, and in its place
        for what in ("steal", "restart"):
            answer = cluster.attaches(eve, "job", what)
            assert answer.startswith("error") and "registered for user 20001" in answer, answer
        # asks: as the application, and as a rank of it
        call = [sys.executable, "-c", REGISTER, str(cluster.agents["a"].socket), "job", str(cluster.folder(eve) / "s.sock")]
        env = {"PYTHONPATH": str(cluster.dir / "pygen"), "PATH": os.environ["PATH"]}
        answer = subprocess.run(call, env=env, user=eve.pw_uid, group=eve.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=30)
        assert answer.stdout.startswith("PERMISSION_DENIED"), answer
        rank = subprocess.run([sys.executable, "-c", RANK, f"{cluster.agents['a'].socket}.ranks", "job", cluster.run_of("job")],
                              user=eve.pw_uid, group=eve.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=30)
        assert rank.stdout.startswith("refused user%2020002%20has%20no%20job%20job%20on%20this%20node"), rank
        # reads: its status, what was restored for it, its part on the destination
        assert cluster.jobs_of(eve) == {}
        assert cluster.asks(eve, "status", "--alloc", "job")[0] == 3
        for path in (restored, part, next(part.iterdir())):
            read = subprocess.run(["cat" if path.is_file() else "ls", str(path)], user=eve.pw_uid, group=eve.pw_gid, extra_groups=[], capture_output=True)
            assert read.returncode != 0, path
        # restores: after its end, with files that would come
        run.send_signal(signal.SIGTERM)
        run.wait(20)
        wait_until("its end is told", lambda: cluster.state("job") not in GOES_ON, 10)
        cluster.ctl("restart", "job")
        run = cluster.run_as(eve, "job", "true")
        assert run.wait(30) == 125 and "registered for user 20001" in run.stderr.read()
        assert not list((cluster.folder(eve) / "w").glob("restore/*"))
        run = cluster.run_as(ann, "job", "sh", "-c", 'test -f "$CKPT_RESTORE_DIR/MANIFEST" || ls "$CKPT_RESTORE_DIR"/*')
        assert run.wait(30) == 0, run.stderr.read()


def the_owner_sees_the_own_jobs_and_nobody_elses():
    """What the agent knows, without a key of the cluster, also after the agent has restarted; nothing of another user's."""
    with Users() as cluster:
        cluster.start()
        wait_until("the leader is there", lambda: json.loads(cluster.asks(ALICE, "status", "-o", "json")[1])["leader"], 10)
        code, out, _ = cluster.asks(ALICE, "status")
        assert code == 0 and "connected to the cluster's leader" in out and "no job of yours" in out, out
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        run = cluster.run_as(ALICE, "job", str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                             "--output", str(cluster.folder(ALICE) / "r"))
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("job", {}).get("state") == "running", 10)
        _, out, _ = cluster.asks(ALICE, "status", "--alloc", "job")
        assert "job job: running, pid " in out and "none was written or restored" in out, out
        identifier = requested(cluster, "job")
        assert ended(cluster, "job", identifier).state == common_pb2.CHECKPOINT_STATE_COMPLETE
        for _ in range(2):
            job = cluster.jobs_of(ALICE)["job"]
            assert job["last_checkpoint"] == f"{identifier >> 40}-{identifier & (1 << 40) - 1}", job
            assert job["last_checkpoint_bytes"] > 0 and pathlib.Path(job["last_checkpoint_path"]).is_dir(), job
            assert 0 <= time.time() * 1000 - job["last_checkpoint_at_ms"] < 30000, job
            assert cluster.jobs_of(BOB) == {}
            code, out, error = cluster.asks(BOB, "status", "--alloc", "job")
            assert code == 3 and out == "" and "job job is not yours (user 1), or not there" in error, (code, out, error)
            assert error.replace("job job", "job nosuch") == cluster.asks(BOB, "status", "--alloc", "nosuch")[2]
            assert "job" in cluster.jobs_of(pwd.getpwuid(0))
            cluster.agents["a"].kill()
            cluster.agents["a"].start()
            wait_until("it is back", lambda: cluster.asks(ALICE, "status")[0] == 0 and cluster.jobs_of(ALICE)["job"]["pid"] > 0, 10)
        run.send_signal(signal.SIGTERM)
        run.wait(20)
        wait_until("it has ended", lambda: cluster.jobs_of(ALICE)["job"]["state"] == "ended", 10)
        cluster.agents["a"].kill()
        code, out, error = cluster.asks(ALICE, "status")
        assert code == 125 and "cannot reach the agent at" in error, (code, error)


def an_owner_registers_a_job_of_the_own_without_a_key():
    """As oneself, on this node, of class 0; not with an id that somebody has, nor beyond the limits, nor where the site does not have it so."""
    with Users(owners_register="yes", tls=True) as cluster:
        cluster.start()
        wait_until("the leader is there", lambda: json.loads(cluster.asks(ALICE, "status", "-o", "json")[1])["leader"], 10)
        words = ("--tenant", "physics", "--project", "heat", "--walltime", "2h", "--gpus", "1", "--grace", "1s")
        code, out, error = cluster.asks(ALICE, "register", "--alloc", "mine", "--tenant", "chemistry", *words[2:])
        assert code == 4 and "TENANT_NOT_YOURS" in error and "owners_tenants" in error, (code, error)  # V-019
        code, out, error = cluster.asks(ALICE, "register", "--alloc", "named", "--tenant", ALICE.pw_name, *words[2:])
        assert code == 0, (code, error)
        code, out, error = cluster.asks(ALICE, "register", "--alloc", "mine", *words)
        assert code == 0 and f"job mine of {ALICE.pw_name} is registered on node a" in out, (code, out, error)
        spec = cluster.allocation("mine").spec
        assert (spec.owner, [n.node_id for n in spec.nodes], spec.preemption_class, spec.sensitive, spec.walltime_ms, spec.nodes[0].gpu_count) == \
            (ALICE.pw_name, ["a"], 0, False, 7200000, 1), spec
        assert cluster.jobs_of(ALICE)["mine"]["state"] == "not started"
        assert cluster.jobs_of(BOB) == {}
        code, out, error = cluster.asks(BOB, "register", "--alloc", "mine", *words)
        assert code == 4 and "ALLOCATION_EXISTS" in error, (code, error)
        assert cluster.jobs_of(BOB) == {} and cluster.allocation("mine").spec.owner == ALICE.pw_name
        run = cluster.run_as(BOB, "mine", "true")
        assert run.wait(30) == 125 and f"user {ALICE.pw_name}" in run.stderr.read()
        run = cluster.run_as(ALICE, "mine", str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                             "--output", str(cluster.folder(ALICE) / "r"))
        wait_until("it runs", lambda: cluster.jobs_of(ALICE)["mine"]["state"] == "running", 10)
        assert ended(cluster, "mine", requested(cluster, "mine")).state == common_pb2.CHECKPOINT_STATE_COMPLETE
        assert cluster.jobs_of(ALICE)["mine"]["last_checkpoint_bytes"] > 0
        run.send_signal(signal.SIGTERM)
        run.wait(20)
        wait_until("it has stopped", lambda: cluster.allocation("mine").state != common_pb2.ALLOCATION_STATE_RUNNING, 10)
        # the owner alone goes on from it under another id
        code, _, error = cluster.asks(BOB, "register", "--alloc", "bobs", *words, "--continues", "mine")
        assert code == 4 and "CONTINUES_OTHERS" in error, (code, error)
        code, _, error = cluster.asks(ALICE, "register", "--alloc", "next", *words, "--continues", "mine")
        assert code == 0 and cluster.allocation("next").restart_checkpoint_id != 0, (code, error)
        assert cluster.allocation("mine").continued_by == "next"
        for extra, code, said in ((("--walltime", "300"), 125, "--walltime: "), (("--grace", "11m"), 125, "--grace: "),
                                  (("--owner", "root"), 125, "unknown option --owner"), (("--class", "9"), 125, "unknown option --class"),
                                  (("--target", "nosuch"), 3, "TARGET_NOT_FOUND"), (("--profile", "nosuch"), 4, "PROFILE_UNKNOWN")):
            found, _, error = cluster.asks(ALICE, "register", "--alloc", "other", *words, *extra)
            assert found == code and said in error, (extra, found, error)
        # the agent itself is held to its own node by its certificate
        agent = Client([m.api for m in cluster.members], cluster.site.credentials("agent-a"))
        for node, method in (("b", "RegisterOwnAllocation"), ("a", "RegisterAllocation")):
            spec = common_pb2.AllocationSpec(allocation_id="forged", tenant="t", project="p", owner="root",
                                             nodes=[common_pb2.NodeShare(node_id=node)])
            try:
                agent.broker(method, broker_pb2.RegisterAllocationRequest(request_id=uuid.uuid4().hex, spec=spec))
                raise AssertionError(f"{method} on {node} was taken")
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.PERMISSION_DENIED, error
    with Users() as cluster:
        cluster.start()
        code, out, error = cluster.asks(ALICE, "register", "--alloc", "mine", *words)
        assert code == 4 and "owners_register" in error, (code, error)


def a_second_start_by_the_same_user_is_told_of_the_first():
    """Nobody has granted the first one yet: it is not another user's for that."""
    with Users() as cluster:
        cluster.start()
        first = cluster.run_as(ALICE, "unregistered", "true")
        time.sleep(1)
        second = cluster.run_as(ALICE, "unregistered", "true")
        assert second.wait(30) == 125 and "another ckpt-run is attached" in (text := second.stderr.read()), text
        assert first.wait(30) == 125 and "does not know this allocation" in first.stderr.read()


class Hanging:
    """A mount whose server never says a word, as one of FUSE that a user has stopped: whoever asks for anything there waits."""

    def __init__(self, folder, user):
        self.folder = folder
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.fd},rootmode=40000,user_id={user.pw_uid},group_id={user.pw_gid},allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mount(b"hanging", bytes(folder), b"fuse", 0, options.encode()) == 0, os.strerror(ctypes.get_errno())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)  # who waits gets an error
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)


def no_fuse():
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"needs /dev/fuse: {error}"
    return None


def requested(cluster, name):
    return cluster.request_checkpoint(name)


def ended(cluster, name, identifier):
    def look():
        found = next(c for c in cluster.checkpoints(name) if c.checkpoint_id == identifier)
        return found if found.state not in (1, 2, 3) else None
    return wait_until(f"checkpoint {identifier} of {name} ends", look, 30)


@needs("umount", probe=no_fuse)
def a_user_whose_paths_hang_holds_up_nobody_else():
    """Work folders that hang at the start and at a re-attach, and one that begins to hang while its job is checkpointed."""
    with Users() as cluster:
        cluster.start()
        hung = cluster.folder(ALICE) / "hung"
        hung.mkdir()
        os.chown(hung, ALICE.pw_uid, ALICE.pw_gid)
        heat = [str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000"]
        cluster.register("theirs", [("a", 1, MIB)], owner=BOB.pw_name)
        cluster.register("swapped", [("a", 1, MIB)], owner=ALICE.pw_name)
        theirs = cluster.run_as(BOB, "theirs", *heat, "--output", str(cluster.folder(BOB) / "r"))
        swapped = cluster.run_as(ALICE, "swapped", *heat, "--output", str(cluster.folder(ALICE) / "r"))
        log = cluster.agents["a"].log
        wait_until("both run", lambda: log.read_text().count("to=RUNNING") == 2, 10)
        attempts = []
        with Hanging(hung, ALICE):
            for i in range(12):
                attempts.append(cluster.attach(ALICE, f"job{i}", "steal" if i % 2 else "restart", hung / "w" if i % 3 else hung))
            began = time.monotonic()
            assert ended(cluster, "theirs", requested(cluster, "theirs")).state == common_pb2.CHECKPOINT_STATE_COMPLETE
            took = time.monotonic() - began
            assert took < 5, took
            said = [attempt.communicate(timeout=60)[0] for attempt in attempts[::2]]
            assert any("does not answer" in text for text in said), said
            assert all(text.startswith("error") for text in said), said
            for attempt in attempts:
                attempt.kill()
        # below what the agent has open already
        assert ended(cluster, "swapped", requested(cluster, "swapped")).state == common_pb2.CHECKPOINT_STATE_COMPLETE
        work = cluster.folder(ALICE) / "w"
        with Hanging(work / "out", ALICE):
            failed = ended(cluster, "swapped", requested(cluster, "swapped"))
            assert failed.state != common_pb2.CHECKPOINT_STATE_COMPLETE
            began = time.monotonic()
            assert ended(cluster, "theirs", requested(cluster, "theirs")).state == common_pb2.CHECKPOINT_STATE_COMPLETE
            assert time.monotonic() - began < 5
        for run in (theirs, swapped):
            run.send_signal(signal.SIGTERM)
            run.wait(20)


def child(pid):
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())


def what_dresses_up_as_a_job_is_not_taken_for_it():
    """I30, F-025, V-018: an agent that lost its journal finds processes with a job's environment: of its user and of another one, of the run before, of the
    run, of one that never was; and others that begin afterwards, or say so on its socket. The job goes on, with a ckpt-run or without one, whatever
    becomes of them. What is of another run than the cluster's, or another user's, is ended."""
    with Users() as cluster:
        cluster.start()
        agent, jobs, decoys = cluster.agents["a"], {}, {}
        for name in ("attached", "alone"):
            cluster.register(name, [("a", 1, MIB)], owner=ALICE.pw_name, grace_ms=500)
            jobs[name] = subprocess.Popen([str(cluster.bin / "ckpt-run"), "--alloc", name, "--work-dir", str(cluster.folder(ALICE) / name), "--socket",
                                           str(agent.socket), "--", "sleep", "1000"], user=ALICE.pw_uid, group=ALICE.pw_gid, extra_groups=[],
                                          stderr=subprocess.DEVNULL)
            wait_until(f"{name} runs", lambda: cluster.allocation(name).state == RUNNING, 20)
        pids = {name: child(child(job.pid)) for name, job in jobs.items()}  # of the keeper below ckpt-run
        runs = {name: cluster.allocation(name).node_runs[0] for name in jobs}
        jobs["alone"].kill()
        jobs["alone"].wait()
        agent.kill()
        shutil.rmtree(agent.state_dir)
        for when in ("before", "after"):
            for name in jobs:
                for user in (ALICE, BOB):
                    for run in (runs[name] - 1, runs[name], (1 << 40) + 999999999):
                        decoys[when, name, user.pw_name, run] = cluster.decoy(user, name, run)
            if when == "before":
                agent.start()
                wait_until("it is attached again", lambda: f"event=reattached allocation=attached pid={pids['attached']} " in agent.log.read_text(), 15)
        for (when, name, user, run), decoy in decoys.items():
            if when == "before" and (run != runs[name] or (user == BOB.pw_name and name == "attached")):
                wait_until(f"the decoy of {user} for {name} is ended", lambda: decoy.poll() is not None, 40)
        assert "event=adopted" not in agent.log.read_text()
        for user in (ALICE, BOB):
            for run in (runs["attached"], (1 << 40) + 999999999):
                assert cluster.attaches(user, "attached", f"steal{run}").startswith("error")
        assert cluster.attaches(ALICE, "alone", f"steal{(1 << 40) + 999999999}").startswith("error")
        assert cluster.attaches(BOB, "alone", f"steal{runs['alone']}").startswith("error")
        agent.kill()
        agent.start()  # with a journal now: what nobody attaches is found again
        wait_until("it is known", lambda: agent.log.read_text().count(f"event=pretender allocation=alone run=1-{runs['alone'] & (1 << 40) - 1} pid={pids['alone']} ") == 2, 15)
        for decoy in decoys.values():
            decoy.kill()
            decoy.wait()
        time.sleep(1.5)  # whatever they were would be heard of by now
        for name, pid in pids.items():
            assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n" and cluster.allocation(name).state == RUNNING, name
        assert jobs["attached"].poll() is None
        os.kill(pids["alone"], signal.SIGKILL)
        os.kill(pids["attached"], signal.SIGTERM)
        cluster.debug_check()


def who_came_first_stays_the_owner_without_the_agents_journal():
    """Rule FIRST: an agent that lost its journal is told by the cluster who came first. Another user who comes before the ckpt-run of that one, or says that
    a process of the run is his, neither gets the job nor has its application ended, with a ckpt-run or without one. V-018."""
    with Users(rule="first") as cluster:
        cluster.start()
        agent, jobs = cluster.agents["a"], {}
        for name in ("attached", "alone"):
            cluster.register(name, [("a", 1, MIB)], owner="", grace_ms=500)
            jobs[name] = subprocess.Popen([str(cluster.bin / "ckpt-run"), "--alloc", name, "--work-dir", str(cluster.folder(ALICE) / name), "--socket",
                                           str(agent.socket), "--", "sleep", "1000"], user=ALICE.pw_uid, group=ALICE.pw_gid, extra_groups=[],
                                          stderr=subprocess.DEVNULL)
            wait_until(f"{name} runs", lambda: cluster.allocation(name).state == RUNNING, 20)
        pids = {name: child(child(job.pid)) for name, job in jobs.items()}
        runs = {name: cluster.allocation(name).node_runs[0] for name in jobs}
        jobs["alone"].kill()
        jobs["alone"].wait()
        jobs["attached"].send_signal(signal.SIGSTOP)
        agent.kill()
        shutil.rmtree(agent.state_dir)
        agent.start()
        wait_until("it listens", lambda: agent.log.read_text().count("event=started ") == 2, 20)
        for name in jobs:
            for what in ("restart", f"steal{runs[name]}"):
                said = cluster.attaches(BOB, name, what)
                assert said.startswith("error") and "who came first, and you are uid" in said, (name, what, said)
        jobs["attached"].send_signal(signal.SIGCONT)
        wait_until("it is attached again", lambda: f"event=reattached allocation=attached pid={pids['attached']} " in agent.log.read_text(), 15)
        time.sleep(1.5)  # longer than the grace
        for name, pid in pids.items():
            assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n" and cluster.allocation(name).state == RUNNING, name
        assert "event=pretender_ended" not in agent.log.read_text()
        os.kill(pids["alone"], signal.SIGKILL)
        jobs["attached"].send_signal(signal.SIGTERM)
        jobs["attached"].wait(20)
        cluster.debug_check()


def who_takes_the_name_of_anothers_shared_memory_holds_nobody_up():
    """S1-034: Bob makes a folder, which is not empty, at the name that Alice's job is to have below /dev/shm. Her job starts, with memory of her own."""
    with Users() as cluster:
        cluster.start()
        cluster.register("shared", [("a", 1, MIB)], owner=ALICE.pw_name, profile="shm")
        name = 0xcbf29ce484222325
        for byte in os.fsencode(cluster.folder(ALICE) / "w"):
            name = (name ^ byte) * 0x100000001b3 % (1 << 64)
        region = pathlib.Path(f"/dev/shm/ckpt-{ALICE.pw_uid}-shared-{name:016x}")
        subprocess.run(["mkdir", "-p", str(region / "x")], user=BOB.pw_uid, group=BOB.pw_gid, extra_groups=[], check=True)
        run = cluster.run_as(ALICE, "shared", "sleep", "1000")
        try:
            wait_until("it runs", lambda: cluster.state("shared") == RUNNING, 20)
            assert region.is_file() and region.stat().st_uid == ALICE.pw_uid and region.stat().st_size > 0
            run.terminate()
            run.wait(20)
            wait_until("it is removed with the job", lambda: not region.exists(), 20)
        finally:
            run.kill()
            subprocess.run(["find", "/dev/shm", "-maxdepth", "1", "-user", BOB.pw_name, "-name", "*ckpt-*", "-exec", "rm", "-rf", "{}", "+"], check=True)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become two users")
        sys.exit(0)
    sys.exit(main([a_job_that_restarts_in_place_stays_its_owners, the_registered_user_is_the_owner_whoever_comes_first,
                   a_job_of_nobody_on_the_node_is_started_by_root_alone, nobody_else_attaches_asks_reads_or_restores,
                   the_owner_sees_the_own_jobs_and_nobody_elses, an_owner_registers_a_job_of_the_own_without_a_key,
                   a_second_start_by_the_same_user_is_told_of_the_first, what_dresses_up_as_a_job_is_not_taken_for_it,
                   who_came_first_stays_the_owner_without_the_agents_journal,
                   who_takes_the_name_of_anothers_shared_memory_holds_nobody_up,
                   a_user_whose_paths_hang_holds_up_nobody_else]))
