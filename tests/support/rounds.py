"""Rounds of faults that a seed draws, under one cluster and one job of four ranks on two of three nodes.

Flow    each round asks for a checkpoint and does one fault at a moment of it; then the scheduler has the job compute again, and every
        checkpoint that has become complete is read: of all ranks, of one step, and with the very state that an undisturbed run has then.
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import time

from cluster import checkpoint_text, common_pb2, grpc, wait_until
from jobs import COMPLETE, DISPATCHED, ENDED_FAILED, PAUSED, REQUESTED, REQUEUED, RUNNING, SUSPENDED, WRITING
from ranks_site import Ranked, site, train

PRIME, BATCH, NODES = 2**31 - 1, 48, "abc"
OPEN = (REQUESTED, DISPATCHED, WRITING, PAUSED)


class Truth:
    """The weights before each step, as one process computes them."""

    def __init__(self):
        self.step, self.weights, self.of = 1, [index + 1 for index in range(32)], {}
        self.factor = 3 + sum(sample + 3 for sample in range(BATCH))

    def at(self, step):
        if step < self.step:
            self.__init__()
        while self.step < step:
            self.weights = [(self.factor * w + BATCH * self.step * (i + 1)) % PRIME for i, w in enumerate(self.weights)]
            self.step += 1
        return self.weights


class Rounds:
    def __init__(self, cluster, seed):
        self.cluster, self.random, self.truth, self.seen, self.times = cluster, random.Random(seed), Truth(), set(), []
        self.job = Ranked(cluster, "j", train(steps=10**9), "ab")

    # -- faults: each is done a moment after the question, and leaves nothing behind --
    def nothing(self):
        pass

    def rank_killed(self):
        ranks = self.job.ranks()
        if ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(ranks[self.random.choice(sorted(ranks))], signal.SIGKILL)

    def stopped(self, seconds):
        ranks = self.job.ranks()
        pid = ranks[self.random.choice(sorted(ranks))] if ranks else None
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)

    def rank_slow(self):
        self.stopped(3)

    def rank_silent(self):
        self.stopped(7)

    def node_lost(self):
        self.job.lose(self.random.choice(self.job.nodes))

    def leader_killed(self):
        leader = self.cluster.wait_leader()
        leader.kill()
        self.cluster.wait_leader()
        leader.start()

    def agent_killed(self):
        agent = self.cluster.agents[self.random.choice(self.job.nodes)]
        agent.kill()
        time.sleep(self.random.choice((0, 0.2, 0.5)))
        agent.start()

    def destination_away(self):
        self.cluster.storage_down()
        time.sleep(self.random.uniform(0.2, 1.5))
        self.cluster.storage_up()

    FAULTS = (nothing, rank_killed, rank_killed, rank_slow, rank_silent, node_lost, leader_killed, leader_killed, agent_killed, agent_killed,
              destination_away)

    def ask(self):
        try:
            return self.job.request()
        except grpc.RpcError as error:
            print(f"# refused: {error.details()}", flush=True)
            return None

    def compute_again(self, seconds=60):
        end = time.monotonic() + seconds
        while True:
            state = self.job.state()
            if state in (REQUEUED, SUSPENDED, ENDED_FAILED):
                spare = [node for node in NODES if node not in self.job.nodes]
                if self.job.lost:
                    self.job.restart([spare[0] if node in self.job.lost else node for node in self.job.nodes])
                    for node in self.job.lost:
                        self.cluster.agents[node].start()
                    self.job.lost.clear()
                else:
                    self.job.restart()
            elif state == RUNNING and not self.job.lost and len(self.job.ranks()) == 4:
                return
            assert time.monotonic() < end, f"the job is in {common_pb2.AllocationState.Name(state)}, ranks {self.job.ranks()}"
            time.sleep(0.05)

    def read(self, record):
        found = self.job.shards(record)
        assert sorted(found) == [0, 1, 2, 3], f"{record.path}: ranks {sorted(found)}"
        steps = {step for _, step in found.values()}
        assert len(steps) == 1 and record.label == str(min(steps)), f"{record.path}: label {record.label}, {found}"
        for folder in pathlib.Path(record.path).glob("*/rank-*"):
            state = json.loads((folder / "state.json").read_text())
            assert state["weights"] == self.truth.at(state["step"]), f"{folder}: step {state['step']} has another state than undisturbed"

    def look(self):
        """Each checkpoint that is complete and was not read yet."""
        fresh = [c for c in self.cluster.checkpoints("j", COMPLETE) if c.checkpoint_id not in self.seen]
        for record in fresh:
            try:
                self.read(record)
            except FileNotFoundError:
                assert self.job.record(record.checkpoint_id).state != COMPLETE or not pathlib.Path(record.path).exists(), record
            self.seen.add(record.checkpoint_id)
        self.job.one_writer()
        assert "mixed" not in self.job.logs()

    def over(self, identifier):
        record = self.job.record(identifier)
        return record is None or record.state not in OPEN

    def round(self, number):
        self.compute_again()
        began = time.monotonic()
        identifier = self.ask()
        fault = self.random.choice(self.FAULTS)
        moment = self.random.uniform(0, 0.6)
        print(f"# round {number}: {fault.__name__} {moment:.2f} s after {checkpoint_text(identifier or 0)} was asked for", flush=True)
        time.sleep(moment)
        fault(self)
        if fault is Rounds.nothing and identifier is not None:
            wait_until("the checkpoint is over", lambda: self.over(identifier), 60, 0.02)
            self.times.append(time.monotonic() - began)
        self.compute_again()
        end = time.monotonic() + 60
        while identifier is not None and not self.over(identifier):  # one that was not begun is for the next run
            assert time.monotonic() < end, self.job.record(identifier)
            time.sleep(0.05)
            self.compute_again()
        self.look()

    def end(self, count):
        completes = len(self.seen)
        assert completes * 4 >= count, f"{completes} of {count} checkpoints became complete"
        self.times.sort()
        shown = f", undisturbed in {self.times[len(self.times) // 2]:.2f} s, at most {self.times[-1]:.2f} s" if self.times else ""
        print(f"# {count} rounds, {self.job.restarts} restarts, {completes} checkpoints complete{shown}", flush=True)
        self.cluster.debug_check()


def run(seed, count):
    with site(NODES, checkpoint_timeout="5s", max_attempts=3) as cluster:
        rounds = Rounds(cluster, seed)
        rounds.job.computes()
        for number in range(count):
            rounds.round(number)
        rounds.end(count)
