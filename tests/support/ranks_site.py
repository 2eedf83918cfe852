"""Jobs of several ranks on several nodes under real brokers and agents, a scheduler that restarts them, and faults.

Flow    Ranked(cluster, name, program, nodes) registers a job and starts a ckpt-run on each node; checkpoint() asks for one; settle() plays
        the scheduler until the job is complete: what ended is restarted, on other nodes where one is lost, and result() is what rank 0 said.
Checks  complete_checkpoints() reads every COMPLETE checkpoint at its destination: all ranks are there, with one step.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import time
import uuid

from cluster import BIN, ROOT, Cluster, broker_pb2, checkpoint_text, common_pb2, grpc, operator_pb2, wait_until
from jobs import COMPLETE, COMPLETED, ENDED_FAILED, MIB, POLICY, REQUEUED, RUNNING, STARTING, SUSPENDED

RANKS_POLICY = {**POLICY, "node_degraded_after": "1s", "node_down_after": "3s", "checkpoint_timeout": "30s", "grace": "2s", "max_attempts": 5}
HEARTBEAT_MS, MASK = 300, 2**64 - 1


# ---- programs: commands, what they save, and what they must give ----

class Program:
    """command(folder) is the same on each node; ranks are of one node. plain: without the library, by signals. begun: each rank leaves a file
    begun.PID in the folder when it has come to its loop, which takes long. run_of: which run wrote a rank's folder, where the program says so."""

    def __init__(self, name, ranks, command, step_of, expected, needs=None, begun=False, run_of=None):
        self.begun, self.run_of = begun, run_of
        self.name, self.ranks, self.command, self.step_of, self.expected, self.needs = name, ranks, command, step_of, expected, needs


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK
    return f"{value:016x}"


def heat_expected(cells, steps):
    now = [float(i * 2654435761 % 2**64 % 1000) for i in range(cells)]
    for _ in range(steps):
        ends = [0.0, *now, 0.0]
        now = [ends[i] + 0.25 * (ends[i - 1] - 2.0 * ends[i] + ends[i + 1]) for i in range(1, cells + 1)]
    return fnv(struct.pack(f"<{cells}d", *now))


def threads_expected(cells, steps):
    now = list(range(cells))
    for step in range(1, steps + 1):
        now = [((now[i] ^ now[(i + 1) % cells] >> 7) * 6364136223846793005 + step) & MASK for i in range(cells)]
    return fnv(struct.pack(f"<{cells}Q", *now))


def train_expected(steps, batch=48, prime=2**31 - 1):
    import hashlib
    weights, samples = [index + 1 for index in range(32)], sum(range(batch)) + 3 * batch
    for step in range(1, steps + 1):
        change = [w * samples + batch * step * (i + 1) for i, w in enumerate(weights)]
        weights = [(3 * w + c) % prime for w, c in zip(weights, change)]
    return hashlib.sha256(json.dumps(weights).encode()).hexdigest()[:16]


def cells_step(folder):
    with open(folder / "cells", "rb") as cells:
        return struct.unpack("<Q", cells.read(8))[0]


def cells_run(folder):
    return (folder / "cells").read_bytes()[-32:].rstrip(b"\0").decode()


def train_run(folder):
    return json.loads((folder / "state.json").read_text())["run"]


def train_step(folder):
    return json.loads((folder / "state.json").read_text())["step"]


def train(steps=1200, ms_per_step=5, ranks=2, plain=False, defers=False):
    support = ROOT / "tests" / "support"
    return Program("train", ranks, lambda folder, slow="999999:0:0", silent="999999:0": [
        "/usr/bin/python3", "-B", str(support / "workload_ranks.py"), "launch", str(steps), "--local", str(ranks), "--meet", str(folder),
        "--ms-per-step", str(ms_per_step), "--slow", slow, "--silent", silent, *(["--signal"] if plain else []), *(["--defers"] if defers else [])], train_step, lambda: train_expected(steps),
        begun=True, run_of=train_run)


def heat(steps=1200, ms_per_step=5, ranks=2, cells=200, plain=False):
    def command(folder, slow="999999:0:0", silent="999999:0"):
        return [*(["env", "HEAT_SIGNAL=1"] if plain else []), str(ROOT / "tests" / "support" / "mpi_node.sh"), str(folder), str(ranks), str(BIN / "mpi_heat"), str(cells), str(steps), str(ms_per_step),
                *slow.split(":"), *silent.split(":")]
    return Program("heat", ranks, command, cells_step, lambda: heat_expected(cells, steps),
                   None if shutil.which("mpirun") and (BIN / "mpi_heat").exists() else "no OpenMPI here", run_of=cells_run)


def threads(steps=1200, ms_per_step=5, ranks=1, cells=200):
    assert ranks == 1, "a process with threads on each node"
    return Program("threads", 1, lambda folder, slow="999999:0:0", silent="999999:0": [
        str(BIN / "threads_app"), str(cells), str(steps), "4", str(ms_per_step), str(folder), *slow.split(":"), *silent.split(":")],
        cells_step, lambda: threads_expected(cells, steps), run_of=cells_run)


# ---- a job ----

@contextlib.contextmanager
def site(agents, members=3, **policy):
    with Cluster(members=members, agents=agents, policy={**RANKS_POLICY, **policy}, heartbeat_ms=HEARTBEAT_MS) as cluster:
        cluster.start()
        yield cluster


class Ranked:
    def __init__(self, cluster, name, program, nodes, slow="999999:0:0", silent="999999:0", restore=common_pb2.RESTORE_MODE_OWN, options=(), **fields):
        self.cluster, self.name, self.program, self.nodes, self.options = cluster, name, program, list(nodes), options
        self.restore = restore
        self.slow, self.silent = slow, silent
        self.runs, self.lost, self.restarts, self.folders = {}, set(), 0, []
        self.meet_anew()
        cluster.register(name, [(node, 1, MIB) for node in nodes], strategy=common_pb2.STRATEGY_MANUAL, restore=restore,
                         requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS, max_requeue=50, **fields)
        self.start()

    def meet_anew(self):
        """In another folder that all nodes see: a copy that is left over may go on in the one before."""
        self.folder = self.cluster.dir / "meet" / (self.name if not self.folders else f"{self.name}.{len(self.folders)}")
        self.folder.mkdir(parents=True)
        self.folders.append(self.folder)
        self.command = self.program.command(self.folder, slow=self.slow, silent=self.silent)

    def start(self, spares=()):
        for node in [*self.nodes, *spares]:
            self.runs[node] = self.cluster.run_job(node, self.name, self.command, ("--max-restarts", "0", *self.options))

    def state(self):
        return self.cluster.allocation(self.name).state

    def ranks(self):
        """{number: pid} of the living ranks, by what their launcher told them."""
        found = {}
        for node, run in self.runs.items():
            for pid in run.applications():
                with contextlib.suppress(OSError):
                    told = dict(entry.split("=", 1) for entry in pathlib.Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0") if "=" in entry)
                    number = told.get("OMPI_COMM_WORLD_RANK", told.get("RANK"))
                    if number is not None:
                        found[int(number)] = pid
        return found

    def computes(self, seconds=40):
        """All parts run, and all ranks have come to their loop and to the agent."""
        wait_until(f"{self.name} runs", lambda: self.state() == RUNNING, seconds, 0.05)
        if self.program.ranks > 1:
            wait_until(f"all ranks of {self.name} are there", lambda: len(self.ranks()) == self.program.ranks * len(self.nodes), seconds, 0.05)
        if self.program.begun:
            wait_until(f"all ranks of {self.name} have come to their loop", lambda: all((self.folder / f"begun.{pid}").exists() for pid in self.ranks().values()), 3 * seconds, 0.2)

    def request(self, **fields):
        return self.cluster.request_checkpoint(self.name, **fields)

    def record(self, identifier):
        return next((c for c in self.cluster.checkpoints(self.name) if c.checkpoint_id == identifier), None)

    def completes(self, identifier, seconds=40):
        """The record when it is COMPLETE; others that end it are failures here."""
        def ended():
            record = self.record(identifier)
            assert record is not None and record.state not in (6, 7, 8), record
            return record if record.state == COMPLETE else None
        return wait_until(f"checkpoint {checkpoint_text(identifier)} of {self.name} is complete", ended, seconds, 0.05)

    def checkpoint(self):
        return self.completes(self.request())

    # -- faults --
    def kill_rank(self, number):
        os.kill(self.ranks()[number], signal.SIGKILL)

    def lose(self, node):
        """The node's power goes: nothing of it goes on, and it does not come back."""
        self.cluster.agents[node].kill()
        run = self.runs.pop(node)
        run.kill()
        for _ in range(3):
            for pid in run.applications():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.lost.add(node)

    def cut_off(self, node):
        """Its agent is not heard any more, and what runs there goes on: the scheduler waits for none of it. Its ckpt-run."""
        self.lost.add(node)
        self.meet_anew()
        return self.runs.pop(node)

    # -- the scheduler --
    def restart(self, nodes=None):
        """On the same nodes, or on those; waits until those who ended have gone, and asks until it is taken."""
        wait_until(f"each ckpt-run of {self.name} ends", lambda: all(run.process.poll() is not None for run in self.runs.values()), 40)
        self.nodes = list(nodes or self.nodes)
        request = broker_pb2.RestartAllocationRequest(
            request_id=uuid.uuid4().hex, allocation_id=self.name,
            nodes=[common_pb2.NodeShare(node_id=node, gpu_count=1) for node in self.nodes] if nodes else [],
            from_scratch=not any(c.state == COMPLETE for c in self.cluster.checkpoints(self.name)))

        def taken():
            for node in self.lost - set(self.nodes):  # only silent for the broker: its operator knows
                with contextlib.suppress(grpc.RpcError):
                    self.cluster.client.operator("MarkNodeOff", operator_pb2.MarkNodeOffRequest(request_id=uuid.uuid4().hex, node_id=node))
            try:
                self.cluster.client.broker("RestartAllocation", request)
                return True
            except grpc.RpcError as error:
                self.refused = error.details()
                request.request_id = uuid.uuid4().hex
                return False
        try:
            wait_until(f"{self.name} restarts", taken, 20, 0.2)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {self.refused}") from None
        self.restarts += 1
        self.runs = {}
        self.start()

    def settle(self, spares=(), seconds=120):
        """Until the job is complete. A node that is lost is replaced by the next of the spares."""
        spares, end = list(spares), time.monotonic() + seconds
        while (state := self.state()) != COMPLETED:
            assert time.monotonic() < end, f"{self.name} is in {common_pb2.AllocationState.Name(state)}"
            if state in (REQUEUED, SUSPENDED, ENDED_FAILED):
                if self.lost & set(self.nodes):
                    self.restart([spares.pop(0) if node in self.lost else node for node in self.nodes])
                else:
                    self.restart()
            time.sleep(0.05)
        return self.result()

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.cluster.dir.glob(f"job-{self.name}.*.log")))

    def result(self):
        def found():
            return [line.split()[1] for line in self.logs().splitlines() if line.startswith("result ")]
        results = wait_until(f"{self.name} has a result", found, 10)
        assert len(set(results)) == 1, results
        return results[0]

    # -- truth at the destination --
    def shards(self, record):
        """{rank: (part's folder, step)} of what lies there."""
        found = {}
        for folder in sorted(pathlib.Path(record.path).glob("*/rank-*")):
            number = int(folder.name.removeprefix("rank-"))
            assert number not in found, f"rank {number} is twice in {record.path}"
            found[number] = (folder.parent.name, self.program.step_of(folder))
        return found

    def run_of(self, record):
        """(epoch, number) of the run that wrote it, which is one; None where the program does not say."""
        if self.program.run_of is None:
            return None
        (run,) = {self.program.run_of(folder) for folder in pathlib.Path(record.path).glob("*/rank-*")}
        return tuple(int(number) for number in run.split("-"))

    def complete_checkpoints(self):
        records = [c for c in self.cluster.checkpoints(self.name) if c.state == COMPLETE and pathlib.Path(c.path).exists()]
        for record in records:
            found = self.shards(record)
            parts = len({part for part, _ in found.values()})
            assert sorted(found) == list(range(self.program.ranks * len(record.shards))), f"{record.path}: ranks {sorted(found)}"
            assert parts == len(record.shards), f"{record.path}: {parts} parts, {len(record.shards)} were verified"
            steps = {step for _, step in found.values()}
            assert len(steps) == 1 and record.label in ("", str(min(steps))), f"{record.path}: label {record.label}, steps {found}"
        runs = [self.run_of(record) for record in sorted(records, key=lambda record: record.completed_at_ms) if self.program.run_of]
        assert runs == sorted(runs), f"a checkpoint of a run before became complete after one of a later run: {runs}"
        return records

    def one_writer(self):
        """What the ranks themselves saw: never two of one number at a time in one folder."""
        for folder in self.folders:
            assert not (folder / "two").exists(), (folder / "two").read_text()
