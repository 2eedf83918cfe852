#!/usr/bin/python3
"""A job's user tries to trace the worker that writes the job's checkpoint into an object store, and finds no key. Below an agent that is root the
kernel refuses it; below an agent that is the user itself it works, and there is none either. Run by root: it becomes the user. Some 5 s."""
import errno
import hashlib
import hmac
import json
import os
import pathlib
import pwd
import signal
import subprocess
import sys
import tempfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, tap, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, ends_in, hint  # noqa: E402
from processes import has_in_memory, owner_of, told, workers_of  # noqa: E402
from small_store import SmallStore  # noqa: E402

USER = pwd.getpwnam("nobody")
AS_USER = {"user": USER.pw_uid, "group": USER.pw_gid, "extra_groups": []}
MOVED_TO = pathlib.Path("/proc/sys/fs/suid_dumpable")  # what a process is that has changed its user: prctl(2), PR_SET_DUMPABLE
DEBUG = "1"

# Each way into a process, by who runs this; argv = its pid. Prints errno of each, 0 where it worked, and what was read of its memory as a file.
TRY = r"""
import ctypes, json, os, signal, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = libc.syscall.restype = ctypes.c_long
PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE, PIDFD_GETFD = 16, 17, 0x4206, 438
here = ctypes.create_string_buffer(8)

class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

def call(function, *arguments):
    ctypes.set_errno(0)
    return ctypes.get_errno() if function(*arguments) < 0 else 0

def opened(name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            file.read(1 if name != "mem" else 0)
        return 0
    except OSError as error:
        return error.errno

def listed():
    try:
        os.listdir(f"/proc/{pid}/fd")
        return 0
    except OSError as error:
        return error.errno

def attached():
    failed = call(libc.ptrace, PTRACE_ATTACH, pid, None, None)
    if not failed:
        os.waitpid(pid, 0x40000000)  # __WALL
        libc.ptrace(PTRACE_DETACH, pid, None, None)
    return failed

def taken():
    pidfd = os.pidfd_open(pid)
    return call(libc.syscall, ctypes.c_long(PIDFD_GETFD), pidfd, 2, 0)

def read_there():
    # its first readable page, where that is known; else any: a refusal comes first
    try:
        begin = int(open(f"/proc/{pid}/maps").readline().split("-")[0], 16)
    except OSError:
        begin = 1 << 12
    mine, theirs = Piece(ctypes.addressof(here), 8), Piece(begin, 8)
    return call(libc.process_vm_readv, pid, ctypes.byref(mine), ctypes.c_ulong(1), ctypes.byref(theirs), ctypes.c_ulong(1), ctypes.c_ulong(0))

def stopped():
    try:
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
        return 0
    except OSError as error:
        return error.errno

print(json.dumps({"mem": opened("mem"), "environ": opened("environ"), "maps": opened("maps"), "auxv": opened("auxv"), "fd": listed(),
                  "process_vm_readv": read_there(), "pidfd_getfd": taken(), "ptrace": attached(), "stop": stopped()}))
"""
LOOKS = ("mem", "environ", "maps", "auxv", "fd", "process_vm_readv", "pidfd_getfd", "ptrace")

# What a user would have loaded into a worker, if the job's environment reached it: it says in whose process it is.
SPY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void come_in(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%d", getenv("SPY_MARKS"), (int)getpid());
    close(open(path, O_CREAT | O_WRONLY, 0666));
}
"""


def tries(pid):
    """As the user: errno by way."""
    done = subprocess.run([sys.executable, "-c", TRY, str(pid)], capture_output=True, text=True, timeout=30, **AS_USER)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal():
    """Why this test can say nothing here; None when it can."""
    if os.geteuid() != 0:
        return "it takes root to become another user"
    other = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, **AS_USER)
    try:
        found = tries(other.pid)
    finally:
        other.kill()
        other.wait()
    return None if not any(found.values()) else f"a user may not trace the own processes on this machine: {found}"


def signing_key(secret, day):
    key = b"AWS4" + secret
    for word in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key


class Site(Cluster):
    """One member, one agent, one target in a store; the job's put is held up there. as_user: the agent is the user, its keys are in the environment."""

    def __init__(self, store, as_user):
        pathlib.Path(tempfile.gettempdir()).chmod(0o1777)
        super().__init__(members=1, agents=("a",), policy={**POLICY, "max_discarded": 0}, target={"kind": "s3", "prefix": '"s3://ckpt/site"'}, copies=False)
        self.let_others_in()
        self.secret = uuid.uuid4().hex
        keys = self.dir / "keys"
        keys.touch(mode=0o600)
        keys.write_text(f"access_key=PUBLIC\nsecret_key={self.secret}\n")
        section = 's3:\n  - {{name: small, endpoint: "{}", credentials_file: "{}", buckets: "ckpt"}}\n'
        self.config.write_text(self.config.read_text() + section.format(store.endpoint, keys))
        self.agent_config.write_text(self.agent_config.read_text() + section.format(store.endpoint, "" if as_user else keys))
        self.home = self.dir / "home"
        self.home.mkdir()
        os.chown(self.home, USER.pw_uid, USER.pw_gid)
        agent = self.agents["a"]
        if as_user:
            agent.state_dir, agent.socket = self.home / "state", self.home / "a.sock"
            agent.prefix = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups", "env", "AWS_ACCESS_KEY_ID=PUBLIC",
                            f"AWS_SECRET_ACCESS_KEY={self.secret}"]

    def run_as_user(self, environment):
        """The user's own job, with what he likes in its environment."""
        self.register("job", [("a", 1, MIB)], owner=USER.pw_name)
        return subprocess.Popen([str(self.bin / "ckpt-run"), "--alloc", "job", "--work-dir", str(self.home / "w"), "--socket",
                                 str(self.agents["a"].socket), "--", str(self.bin / "heat"), "--size", "64", "--iterations", "100000000",
                                 "--delay-us", "2000", "--output", str(self.home / "result")], env={**os.environ, **environment},
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **AS_USER)

    def workers(self):
        return workers_of(USER.pw_uid, program=f"{self.bin}/ckpt-worker-s3")


def spy_in(folder):
    """The environment of a job whose user wants to be everywhere, and where it shows."""
    marks = folder / "marks"
    marks.mkdir()
    os.chown(marks, USER.pw_uid, USER.pw_gid)
    (folder / "spy.c").write_text(SPY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "spy.so", folder / "spy.c"], check=True)
    return marks, {"LD_PRELOAD": str(folder / "spy.so"), "SPY_MARKS": str(marks)}


def keys_are_nowhere(site, store, pids):
    """Asked by root, whom nothing is refused."""
    secrets = [site.secret.encode(), *(signing_key(site.secret.encode(), day) for day in store.days)]
    assert len(secrets) > 1, "the worker has had nothing signed"
    assert has_in_memory(site.agents["a"].process.pid, secrets[0]), "the search finds what is there"
    for pid in pids:
        assert owner_of(pid) == USER.pw_uid
        assert not has_in_memory(pid, *secrets), (pid, told(pid))
        assert not any(secret in told(pid) for secret in secrets), pid


def held_put(site, store, look):
    """look() at the workers while one of them waits for the store with signed requests; then the put is completed."""
    site.start()
    marks, environment = spy_in(site.dir)
    run = site.run_as_user(environment)
    try:
        store.hold("/checkpoints/")
        asked = hint(site, "job")
        wait_until("the store holds a write", lambda: store.held > 0, 20)
        workers = site.workers()
        assert workers, "nobody writes"
        look(workers, run.pid)
        spied = {int(path.name) for path in marks.iterdir()}
        assert run.pid in spied, "the library is loaded where the user says so"
        assert not spied & set(workers), "what the job has in its environment came into a worker"
        for pid in workers:
            assert b"spy.so" not in told(pid) + pathlib.Path(f"/proc/{pid}/maps").read_bytes()
        store.release()
        assert ends_in(site, "job", asked, (COMPLETE, FAILED)).state == COMPLETE, "the tries have hurt nothing"
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(20)


def below_root_a_user_neither_traces_a_worker_nor_finds_keys():
    """The worker has changed its user after it was started, and is what fs.suid_dumpable says. It may be stopped, as all that is the user's."""
    reason = refusal()
    if reason:
        return reason
    with SmallStore() as store, Site(store, as_user=False) as site:
        def look(workers, job):
            debug = MOVED_TO.read_text().strip() == DEBUG
            for pid in workers:
                found = tries(pid)
                assert found.pop("stop") == 0, "a worker has the user's number"
                assert set(found) == set(LOOKS)
                wanted = {0} if debug else {errno.EPERM, errno.EACCES}
                assert all(code in wanted for code in found.values()), found
            agent = tries(site.agents["a"].process.pid)
            assert all(agent.values()), agent
            keys_are_nowhere(site, store, [*workers, job])
        held_put(site, store, look)


def below_an_agent_of_the_own_a_user_traces_the_worker_and_finds_no_keys():
    """The worker is then like any process of the user. The agent is closed to him, but where he keeps its keys is his affair."""
    reason = refusal()
    if reason:
        return reason
    with SmallStore() as store, Site(store, as_user=True) as site:
        def look(workers, job):
            for pid in workers:
                found = tries(pid)
                assert not any(found.values()), found
            agent = tries(site.agents["a"].process.pid)
            assert agent.pop("stop") == 0 and all(agent[way] for way in LOOKS), agent
            keys_are_nowhere(site, store, [*workers, job])
        held_put(site, store, look)


if __name__ == "__main__":
    sys.exit(tap([below_root_a_user_neither_traces_a_worker_nor_finds_keys, below_an_agent_of_the_own_a_user_traces_the_worker_and_finds_no_keys]))
