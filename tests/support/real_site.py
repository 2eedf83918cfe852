"""Simulation codes as they are, under their shipped profiles, on two nodes that share no folder; and what happens to them.

Flow    Real(cluster, name, code) registers a job and starts it in its folder of node a, as its owner does; each fault of FAULTS is done while it
        computes, at a moment that a seed draws; finished() is the folder in which it has come to its end. carried_on(): another job goes on from a
        checkpoint that its owner has taken home.
Checks  every start but the first is from a checkpoint, and a fault that came too late for the program is an error of the test.
"""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import uuid

from cluster import BIN, Cluster, checkpoint_text, common_pb2, grpc, operator_pb2, wait_until
from jobs import COMPLETE, FAILED, MIB, POLICY, TIMED_OUT, Started, ends, ends_in, hint, restart

HEARTBEAT_MS = 300
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# ranks of machines with fewer cores than ranks give way to each other, and meet in memory alone
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "self,vader", "-n"]


class Code:
    """profile: "", and neither the line nor the registration names a way. command: as its user types it. inputs: a folder with what it reads. grows: the file by whose size one sees it compute."""

    def __init__(self, profile, command, inputs, grows):
        self.options, self.command, self.inputs, self.grows = ("--profile", profile) if profile else (), command, inputs, grows

    def folder(self, path):
        shutil.copytree(self.inputs, path)
        return path

    def undisturbed(self, path):
        """Its folder after a run that nothing disturbs."""
        folder = self.folder(path)
        done = subprocess.run(self.command, cwd=folder, env={**os.environ, **AS_ROOT}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return folder


@contextlib.contextmanager
def site():
    policy = {**POLICY, "node_degraded_after": "1s", "node_down_after": "3s", "checkpoint_timeout": "60s", "grace": "2s", "max_attempts": 3}
    with Cluster(members=1, agents="ab", policy=policy, heartbeat_ms=HEARTBEAT_MS, copies=False) as cluster:
        cluster.start()
        yield cluster


class Real:
    def __init__(self, cluster, name, code, seed):
        self.cluster, self.name, self.code, self.chance = cluster, name, code, random.Random(f"{seed} {name}")
        cluster.register(name, [("a", 1, MIB)], strategy=common_pb2.STRATEGY_MANUAL, requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS, max_requeue=50)
        self.start("a")
        self.computes("its first start")

    def start(self, node):
        self.node, self.folder = node, self.cluster.dir / node / self.name
        if not self.folder.exists():
            self.code.folder(self.folder)
        self.run = Started(self.cluster, node, self.name, self.folder, (*self.code.options, "--max-restarts", "100"), self.code.command, AS_ROOT)

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.cluster.dir.glob(f"job-{self.name}.*.log")))

    def size(self):
        grows = self.folder / self.code.grows
        return grows.stat().st_size if grows.exists() else 0

    def runs(self):
        assert self.run.running(), f"it was done before this came, so it needs more steps: {self.logs()[-3000:]}"
        return True

    def computes(self, what):
        size = self.size()
        wait_until(f"{self.name} computes after {what}", lambda: self.runs() and self.size() != size, 60, 0.02)

    def checkpoint(self):
        def asked():
            self.runs()
            try:
                record = ends_in(self.cluster, self.name, hint(self.cluster, self.name), (COMPLETE, FAILED, TIMED_OUT), 60)
            except grpc.RpcError as error:
                assert (error.details() or "").startswith(("CHECKPOINT_ACTIVE", "NOT_STARTED", "ALLOCATION_NOT_RUNNING")), error
                return None
            assert record.state == COMPLETE, f"{record.detail}: {self.logs()[-3000:]}"
            return record
        return wait_until(f"a checkpoint of {self.name}", asked, 60)

    # -- faults: each is done to a program that computes, and has a checkpoint --
    def starts(self):
        return self.logs().count("started pid")

    def kill(self):
        starts = self.starts()
        os.killpg(self.run.application_pid(), signal.SIGKILL)
        wait_until("it was started again", lambda: self.runs() and self.starts() > starts, 60)

    def killed(self):
        time.sleep(self.chance.random() * 0.4)
        self.runs()
        self.kill()

    def killed_in_a_checkpoint(self):
        hint(self.cluster, self.name)
        time.sleep(self.chance.random() * 0.6)
        wait_until("there is an application", lambda: self.runs() and self.run.application_pid(), 20, 0.01)
        self.kill()

    def node_lost(self):
        """Nothing of it goes on, and its folder is not there on the other node. It comes back empty, for the next time."""
        node, other = self.node, "b" if self.node == "a" else "a"
        self.cluster.agents[node].kill()
        self.run.kill()
        while left := self.run.applications():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

        def taken():
            try:
                self.cluster.client.operator("MarkNodeOff", operator_pb2.MarkNodeOffRequest(request_id=uuid.uuid4().hex, node_id=node))
                return restart(self.cluster, self.name, other)
            except grpc.RpcError as error:
                self.refused = error.details()
                return None
        try:
            wait_until(f"{self.name} restarts on {other}", taken, 30, 0.2)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {self.refused}") from None
        self.start(other)
        self.cluster.agents[node].start()

    def disturb(self, fault):
        self.last, starts = self.checkpoint(), self.starts()
        self.computes("a checkpoint")
        print(f"# {self.name}: {fault.__name__}", flush=True)
        fault(self)
        self.computes(fault.__name__)
        assert self.starts() == starts + 1, self.logs()[-3000:]

    def finished(self):
        wait_until(f"{self.name} ends", lambda: not self.run.running(), 120, 0.05)
        assert self.run.process.returncode == 0, self.logs()[-3000:]
        assert "from scratch" not in self.logs().split("started pid", 2)[2], self.logs()[-3000:]
        return self.folder


FAULTS = (Real.killed, Real.killed_in_a_checkpoint, Real.node_lost)


def disturbed(cluster, name, code, faults, seed):
    """The folder of a run to which these faults came, and its last checkpoint before the last of them."""
    job = Real(cluster, name, code, seed)
    for fault in faults:
        job.disturb(fault)
    return job.finished(), job.last


def carried_on(cluster, name, code, record):
    """The folder of another job, in which nothing but its inputs and what `ckpt-run get` has brought was there."""
    agent, home, folder = cluster.agents["b"], cluster.dir / f"{name}.home", code.folder(cluster.dir / name)
    cluster.register(name, [("b", 1, MIB)])
    for words in (["get", checkpoint_text(record.checkpoint_id), home], ["import", name, home]):
        done = subprocess.run([BIN / "ckpt-run", *words, "--socket", agent.socket], capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr)
    run = Started(cluster, "b", name, folder, code.options, code.command, AS_ROOT)
    assert ends(run, 120) == 0 and "from checkpoint" in run.log.read_text(), run.log.read_text()[-3000:]
    return folder


def same_bytes(one, other, files):
    for name in files:
        assert (one / name).read_bytes() == (other / name).read_bytes(), f"{name} differs: {one / name} {other / name}"
    return True


def rounds(seed, count):
    """Faults in an order that the seed draws, each of them count / 3 times."""
    faults = [FAULTS[i % len(FAULTS)] for i in range(count)]
    random.Random(seed).shuffle(faults)
    return faults


def exists(*programs):
    missing = [name for name in programs if shutil.which(name) is None]
    return f"no {', '.join(missing)} here (deploy/install-deps.sh systems)" if missing else None


def folder_of(root, files):
    root = pathlib.Path(root)
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).write_text(text)
    return root
