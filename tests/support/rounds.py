"""Rounds of faults that a seed draws, under one cluster of four nodes, and one job of several ranks and nodes after another.

Flow    a job has a program, a way to be restored and a number of nodes that are drawn, and some rounds. Each round asks for a checkpoint, after
        which the job goes on or stops, and does one fault at a moment of it; then the scheduler has the job compute again, elsewhere where nodes
        are lost or cut off, and often on another number of nodes; what was cut off comes back before or after that.
Checks  every checkpoint that has become complete is read: of all ranks, of one step, of one run, none of a run before after one of a later run,
        and with the very state that an undisturbed run has then. A round whose fault does not hinder its checkpoint has one that is complete.
"""
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import struct
import time
import uuid

from cluster import broker_pb2, checkpoint_text, common_pb2, grpc, wait_until
from jobs import COMPLETE, DISPATCHED, ENDED_FAILED, PAUSED, REQUESTED, REQUEUED, RUNNING, SUSPENDED, WRITING
from ranks_site import MASK, Ranked, heat, site, threads, train

PRIME, BATCH, CELLS, NODES, ROUNDS_OF_A_JOB = 2**31 - 1, 48, 64, "abcd", 12
OPEN = (REQUESTED, DISPATCHED, WRITING, PAUSED)
CONTINUE, STOP = common_pb2.AFTER_CHECKPOINT_CONTINUE, common_pb2.AFTER_CHECKPOINT_STOP
OWN, ALL, PATH = common_pb2.RESTORE_MODE_OWN, common_pb2.RESTORE_MODE_ALL, common_pb2.RESTORE_MODE_PATH
FOR_EVER = 10**9


class Truth:
    """The state before each step, as one process computes it: next_of(state, step) is what the step makes of it."""

    def __init__(self, first, next_of):
        self.next_of, self.kept = next_of, {1: first}

    def at(self, step):
        known = max(kept for kept in self.kept if kept <= step)
        state = self.kept[known]
        for now in range(known, step):
            state = self.next_of(state, now)
        self.kept[step] = state
        return state


def train_next(weights, step):
    factor = 3 + sum(sample + 3 for sample in range(BATCH))
    return [(factor * weight + BATCH * step * (index + 1)) % PRIME for index, weight in enumerate(weights)]


def heat_next(now, _):
    ends = [0.0, *now, 0.0]
    return [ends[i] + 0.25 * (ends[i - 1] - 2.0 * ends[i] + ends[i + 1]) for i in range(1, len(now) + 1)]


def threads_next(now, step):
    return [((cell ^ behind >> 7) * 6364136223846793005 + step) & MASK for cell, behind in zip(now, [*now[1:], now[0]])]


def weights_of(folder):
    return 0, json.loads((folder / "state.json").read_text())["weights"]


def cells_of(kind):
    def found(folder):
        data = (folder / "cells").read_bytes()
        _, first, count, _ = struct.unpack_from("<4Q", data)
        return first, list(struct.unpack_from(f"<{count}{kind}", data, 32))
    return found


# name: (program, truth, what a rank saved: from which place on it is part of the state)
PROGRAMS = {"train": (lambda: train(steps=FOR_EVER, ms_per_step=15), lambda: Truth([i + 1 for i in range(32)], train_next), weights_of),
            "threads": (lambda: threads(steps=FOR_EVER, cells=CELLS), lambda: Truth(list(range(CELLS)), threads_next), cells_of("Q")),
            "heat": (lambda: heat(steps=FOR_EVER, cells=CELLS),
                     lambda: Truth([float(i * 2654435761 % 2**64 % 1000) for i in range(CELLS)], heat_next), cells_of("d"))}


class Rounds:
    def __init__(self, cluster, seed):
        self.cluster, self.random, self.job = cluster, random.Random(seed), None
        self.jobs = self.restarts = self.spread = self.completes = 0
        self.times, self.outcomes = [], collections.defaultdict(collections.Counter)

    # -- jobs --
    def begin(self):
        name = self.random.choice([name for name, (make, _, _) in PROGRAMS.items() if not make().needs])
        make, truth, self.saved = PROGRAMS[name]
        mode, nodes = self.random.choice((OWN, ALL, ALL, PATH)), self.random.sample(NODES, self.random.choice((1, 2, 2, 3)))
        print(f"# job {self.jobs}: {name} on {','.join(nodes)}, {common_pb2.RestoreMode.Name(mode)}", flush=True)
        self.truth, self.seen, self.ran, self.away, self.elastic = truth(), set(), (0, 0), {}, mode != OWN
        self.job = Ranked(self.cluster, f"j{self.jobs}", make(), nodes, restore=mode)
        self.jobs += 1

    def end_job(self):
        self.compute_again()
        self.cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id=self.job.name))
        wait_until(f"{self.job.name} ends", lambda: all(run.process.poll() is not None and not run.applications() for run in self.job.runs.values()), 40)

    def pids(self):
        if self.job.program.ranks > 1:
            return sorted(self.job.ranks().values())
        return [pid for pid in (run.application_pid() for run in self.job.runs.values()) if pid]

    # -- faults: each is done a moment after the question, and leaves nothing behind but nodes that are away --
    def nothing(self):
        pass

    def rank_killed(self):
        if self.to_a_rank(signal.SIGKILL):  # what is asked for before that is known is the next round's, and would fail of this one
            wait_until("the end of its run is known", lambda: self.job.state() in (REQUEUED, SUSPENDED, ENDED_FAILED), 40)

    def to_a_rank(self, number, pids=None):
        pids = pids or self.pids()
        pid = self.random.choice(pids) if pids else None
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(pid, number)
        return pid

    def stopped(self, seconds):
        pid = self.to_a_rank(signal.SIGSTOP)
        if pid:
            time.sleep(seconds)
            self.to_a_rank(signal.SIGCONT, [pid])

    def rank_slow(self):
        self.stopped(3)

    def rank_silent(self):
        self.stopped(7)

    def node_lost(self):
        node = self.random.choice(self.job.nodes)
        self.job.lose(node)
        self.away[node] = None

    def node_cut_off(self):
        """Its agent is not heard, its ranks go on."""
        node = self.random.choice(self.job.nodes)
        self.cluster.agents[node].kill(signal.SIGSTOP)
        self.away[node] = self.job.cut_off(node)

    def agent_asleep(self):
        """For less than it takes to call its node down."""
        agent = self.cluster.agents[self.random.choice(self.job.nodes)]
        agent.kill(signal.SIGSTOP)
        time.sleep(self.random.uniform(0.2, 2))
        agent.kill(signal.SIGCONT)

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

    HARMLESS = (nothing, nothing, rank_slow, agent_asleep, leader_killed, leader_killed, agent_killed, agent_killed, destination_away)
    FAULTS = (*HARMLESS, rank_killed, rank_killed, rank_silent, node_lost, node_cut_off, node_cut_off)

    # -- the scheduler --
    def ask(self, after):
        """As soon as it is taken: the destination may still be found away by what the round before did."""
        def taken():
            self.compute_again()
            try:
                return self.job.request(after=after)
            except grpc.RpcError as error:
                print(f"# refused: {error.details()}", flush=True)
                return None
        return wait_until("a checkpoint may be asked for", taken, 30, 0.2)

    def places(self):
        """Where the job goes on; None: where it was."""
        free = [node for node in NODES if node not in self.away]
        if self.elastic and self.random.random() < 0.5:
            return self.random.sample(free, self.random.randint(1, min(3, len(free))))
        spares = [node for node in free if node not in self.job.nodes]
        return [spares.pop(0) if node in self.away else node for node in self.job.nodes] if set(self.job.nodes) & set(self.away) else None

    def restart(self):
        places, before = self.places(), len(self.job.nodes)
        self.job.restart(places)
        self.job.lost.clear()
        self.restarts += 1
        self.spread += len(self.job.nodes) != before
        if self.random.random() < 0.5:
            self.come_back()

    def come_back(self):
        """Nodes that were away. What ran on those that were cut off is ended."""
        for node, old in self.away.items():
            if old is None:
                self.cluster.agents[node].start()
            else:
                self.cluster.agents[node].kill(signal.SIGCONT)
        for old in filter(None, self.away.values()):
            wait_until("an old copy is ended", lambda old=old: old.process.poll() is not None and not old.applications(), 40)
        self.away = {}

    def computes(self):
        return self.job.state() == RUNNING and not set(self.away) & set(self.job.nodes) and len(self.pids()) == self.job.program.ranks * len(self.job.nodes)

    def compute_again(self, seconds=90):
        end = time.monotonic() + seconds
        while not self.computes():
            if self.job.state() in (REQUEUED, SUSPENDED, ENDED_FAILED):
                self.restart()
            assert time.monotonic() < end, f"the job is in {common_pb2.AllocationState.Name(self.job.state())}, ranks {self.pids()}"
            time.sleep(0.05)
        self.come_back()

    # -- checks --
    def read(self, record):
        found = self.job.shards(record)
        assert sorted(found) == list(range(self.job.program.ranks * len(record.shards))), f"{record.path}: ranks {sorted(found)}"
        steps = {step for _, step in found.values()}
        assert len(steps) == 1 and record.label == str(min(steps)), f"{record.path}: label {record.label}, {found}"
        state = self.truth.at(min(steps))
        for folder in pathlib.Path(record.path).glob("*/rank-*"):
            first, saved = self.saved(folder)
            assert saved == state[first:first + len(saved)], f"{folder}: step {steps} has another state than undisturbed"
        run = self.job.run_of(record)
        assert run >= self.ran, f"{record.path} is of run {run}, and became complete after one of {self.ran}"
        self.ran = run

    def look(self):
        """Each checkpoint that is complete and was not read yet."""
        fresh = [c for c in self.cluster.checkpoints(self.job.name, COMPLETE) if c.checkpoint_id not in self.seen]
        for record in sorted(fresh, key=lambda c: c.completed_at_ms):
            try:
                self.read(record)
            except FileNotFoundError:
                assert self.job.record(record.checkpoint_id).state != COMPLETE or not pathlib.Path(record.path).exists(), record
            self.seen.add(record.checkpoint_id)
            self.completes += 1
        self.job.one_writer()
        assert "mixed" not in self.job.logs()

    def over(self, identifier):
        record = self.job.record(identifier)
        return record is None or record.state not in OPEN

    def round(self, number):
        after = self.random.choice((CONTINUE, CONTINUE, STOP))
        identifier, began = self.ask(after), time.monotonic()
        fault, moment = self.random.choice(self.FAULTS), self.random.uniform(0, 0.6)
        print(f"# round {number}: {fault.__name__} {moment:.2f} s after {checkpoint_text(identifier)} was asked for"
              f"{' and is to stop the job' if after == STOP else ''}", flush=True)
        time.sleep(moment)
        fault(self)
        if fault is Rounds.nothing:
            wait_until("the checkpoint is over", lambda: self.over(identifier), 60, 0.02)
            self.times.append(time.monotonic() - began)
        self.compute_again()
        end = time.monotonic() + 60
        while not self.over(identifier):  # one that was not begun is for the next run
            assert time.monotonic() < end, self.job.record(identifier)
            time.sleep(0.05)
            self.compute_again()
        self.judge(fault, identifier, after)
        self.look()

    def judge(self, fault, identifier, after):
        record = self.job.record(identifier)
        state = "removed" if record is None else common_pb2.CheckpointState.Name(record.state).removeprefix("CHECKPOINT_STATE_")
        self.outcomes[fault.__name__][state] += 1
        if state != "COMPLETE":
            print(f"#   {state}: {'' if record is None else common_pb2.Reason.Name(record.reason) + ' ' + record.detail}", flush=True)
        assert state == "COMPLETE" or fault not in self.HARMLESS, f"{fault.__name__} hinders no checkpoint, this one is {state}: {record}"
        if after == STOP and fault is Rounds.nothing:
            self.compute_again()
            begun = wait_until("it goes on", lambda: self.cluster.allocation(self.job.name).restart_checkpoint_id, 20)
            assert begun == identifier, f"it went on from {checkpoint_text(begun)}, and was stopped by {checkpoint_text(identifier)}"

    def end(self, count):
        self.times.sort()
        shown = f", undisturbed in {self.times[len(self.times) // 2]:.2f} s, at most {self.times[-1]:.2f} s" if self.times else ""
        print(f"# {count} rounds, {self.jobs} jobs, {self.restarts} restarts ({self.spread} on another number of nodes), {self.completes} "
              f"checkpoints complete{shown}", flush=True)
        for fault, outcomes in sorted(self.outcomes.items()):
            print(f"#   {fault}: " + ", ".join(f"{number} {state}" for state, number in outcomes.most_common()), flush=True)
        assert count < 100 or self.spread > 0, "no restart was on another number of nodes"
        self.cluster.debug_check()


def run(seed, count):
    with site(NODES, checkpoint_timeout="5s", max_attempts=3) as cluster:
        rounds = Rounds(cluster, seed)
        for number in range(count):
            if number % ROUNDS_OF_A_JOB == 0:
                if rounds.job:
                    rounds.end_job()
                rounds.begin()
                rounds.job.computes()
            rounds.round(number)
        rounds.end(count)
