"""What happens to jobs of several ranks in tests/systems: one function for each fault, the same for each program.

Each of them starts a job on nodes a, b (...) with a spare, does something to it, lets the scheduler of the test go on, and compares the end with
that of an undisturbed run, every complete checkpoint with itself.
"""
import itertools
import os
import re
import shutil
import signal
import time
import uuid

from cluster import BIN, broker_pb2, checkpoint_text, common_pb2, wait_until
from jobs import COMPLETE, REQUEUED, RUNNING, SUSPENDED
from last_words import LastWords
from ranks_site import Ranked, site

FAILED_STATES = (6, 7, 8)


def names(count):
    return "abcdef"[:count]


def ends_well(job, spares=(), checkpoints=1):
    result = job.settle(spares)
    assert result == job.program.expected(), f"{result}, undisturbed it is {job.program.expected()}"
    records = job.complete_checkpoints()
    assert len(records) >= checkpoints, f"{len(records)} checkpoints are complete, {checkpoints} were"
    job.one_writer()
    job.cluster.debug_check()


def undisturbed(make, nodes):
    with site(names(nodes)) as cluster:
        job = Ranked(cluster, "j", make(steps=900), names(nodes))
        job.computes()
        steps = [min(step for _, step in job.shards(job.checkpoint()).values()) for _ in range(2)]
        assert steps[0] < steps[1], steps
        assert (f"rank {nodes - 1} of the job is on this node" in job.logs()) == (job.program.ranks == 1), job.logs()
        ends_well(job, checkpoints=2)
        assert job.restarts == 0


def rank_killed(make, nodes):
    with site(names(nodes)) as cluster:
        job = Ranked(cluster, "j", make(), names(nodes))
        job.computes()
        job.checkpoint()
        ranks = job.ranks()
        job.kill_rank(max(ranks)) if ranks else os.kill(job.runs["a"].application_pid(), signal.SIGKILL)
        ends_well(job)
        assert job.restarts == 1, job.restarts


def node_lost(make, nodes):
    """The node of part 1 goes (of part 0 where there is one alone), a third one takes its place."""
    with site(names(nodes + 1)) as cluster:
        job = Ranked(cluster, "j", make(), names(nodes))
        job.computes()
        job.checkpoint()
        job.lose(names(nodes)[-1])
        ends_well(job, spares=names(nodes + 1)[-1:])
        assert job.restarts == 1 and set(job.nodes) == set(names(nodes + 1)) - job.lost, job.nodes


def leader_killed_in_the_barrier(make, nodes):
    """A rank that is slow for 3 s holds the barrier open meanwhile."""
    with site(names(nodes)) as cluster:
        program = make(steps=900)
        job = Ranked(cluster, "j", program, names(nodes), slow=f"{nodes * program.ranks - 1}:150:3000")
        job.computes()
        identifier = slow_asked(job)
        leader = cluster.wait_leader()
        leader.kill()
        cluster.wait_leader()
        job.completes(identifier)
        leader.start()
        ends_well(job)


def slow_asked(job):
    """A checkpoint that is asked for while a rank sleeps; it is still open a second later."""
    wait_until("a rank sleeps", lambda: asleep(job), 60, 0.02)
    identifier = job.request()
    time.sleep(1)
    record = job.record(identifier)
    assert record.state not in (COMPLETE, *FAILED_STATES), record
    return identifier


def asleep(job):
    """The mark of the program that its slow step has begun."""
    return (job.folder / "slow").exists()


def rank_slow(make, nodes):
    with site(names(nodes)) as cluster:
        program = make(steps=900)
        job = Ranked(cluster, "j", program, names(nodes), slow=f"{nodes * program.ranks - 1}:150:3000")
        job.computes()
        job.completes(slow_asked(job))
        ends_well(job)


def rank_silent(make, nodes):
    """A rank that has registered and never comes to the barrier again: the attempt fails, and says which rank it was. The job goes on."""
    with site(names(nodes), checkpoint_timeout="4s", max_attempts=1) as cluster:
        program = make()
        last = nodes * program.ranks - 1
        job = Ranked(cluster, "j", program, names(nodes), silent=f"{last}:100")
        job.computes()
        wait_until("it is silent", lambda: (job.folder / "silent").exists(), 60, 0.02)
        identifier = job.request()
        record = wait_until("it ends", lambda: (lambda c: c if c.state in (COMPLETE, *FAILED_STATES) else None)(job.record(identifier)), 40)
        assert record.state in FAILED_STATES, record
        assert str(last) in record.detail and "rank" in record.detail, record.detail
        ends_well(job, checkpoints=0)
        assert job.restarts == 0


def agent_killed(make, nodes):
    """In whatever state it is: again and again while three checkpoints are taken, and started again."""
    with site(names(nodes)) as cluster:
        job = Ranked(cluster, "j", make(steps=500, ms_per_step=40), names(nodes))
        job.computes()
        for pause_s in (0.0, 0.05, 0.15, 0.3, 0.6):
            identifier = job.request()
            time.sleep(pause_s)
            agent = cluster.agents[names(nodes)[-1]]
            agent.kill()
            agent.start()
            wait_until("that one ends", lambda i=identifier: job.record(i).state in (COMPLETE, *FAILED_STATES), 60)
        job.checkpoint()
        ends_well(job)
        assert job.restarts == 0, "the agent's end is nothing to its applications"


# Of an attempt after which the job goes on, and of one that ends it. What else there is takes a destination that is written to directly (STAGING,
# STAGED), a worker that hangs (HALTING), or who puts it off (DEFERRED): below; or a call (BROKEN): tests/integration/test_grpc_way.py.
STATES, OF_A_STOP = ("WAITING", "ASKING", "ASKED", "RESUMING", "PUTTING", "ABANDONING", "REMOVING"), ("FREEZING", "PUTTING", "STILL")


def agent_dies_in(job, words, state, moment, **asked):
    """With the first line that tells of the state; before: its journal does not have it yet; after: what belongs to it is begun. It is
    started again, and what was asked for has an end."""
    comes_by = {"RESUMING": ("ASKED", "after"), "ABANDONING": ("ASKED", "after")}.get(state, (state, moment))
    words.arm(f" to={comes_by[0]}\n", comes_by[1])
    identifier = job.request(**asked)
    words.dies(f"{comes_by[0]}, {comes_by[1]}")
    if state != comes_by[0]:
        words.arm(f" to={state}\n", moment)
        if state == "ABANDONING":
            job.cluster.storage_down()
        words.agent.start()
        words.dies(f"{state}, {moment}")
        if state == "ABANDONING":
            job.cluster.storage_up()
    words.agent.start()
    wait_until("that one ends", lambda: job.record(identifier).state in (COMPLETE, *FAILED_STATES), 60)
    return job.record(identifier).state


def agent_killed_in_each_state(make, nodes):
    """In each state of an attempt after which the job goes on, of one that ends the job, and while it brings what a part begins from."""
    with site(names(nodes)) as cluster:
        words = with_last_words(cluster, nodes)
        job, ends = Ranked(cluster, "j", make(steps=900, ms_per_step=40), names(nodes)), {}
        job.computes()
        for state, moment in itertools.product(STATES, ("before", "after")):
            ends[state, moment] = agent_dies_in(job, words, state, moment)
        assert job.restarts == 0 and job.state() == RUNNING, "the agent's end is nothing to its applications"
        for state, moment in itertools.product(OF_A_STOP, ("before", "after")):
            ends[f"{state} of a stop", moment] = agent_dies_in(job, words, state, moment, after=common_pb2.AFTER_CHECKPOINT_STOP)
            wait_until("the job has stopped", lambda: job.state() == SUSPENDED, 40)
            words.arm("event=restart_point allocation=j ", moment)
            job.restart()
            words.dies(f"it has brought what its part begins from, {moment}")
            words.agent.start()
            job.computes()
        assert set(ends.values()) == {COMPLETE}, ends
        ends_well(job)


def with_last_words(cluster, nodes):
    words = LastWords(cluster.agents[names(nodes)[-1]])
    words.agent.kill()
    words.agent.start()
    return words


def agent_killed_while_a_folder_is_made(make, nodes):
    """At the destination, for an application that writes there itself."""
    with site(names(nodes)) as cluster:
        words = with_last_words(cluster, nodes)
        job, ends = Ranked(cluster, "j", make(steps=600, ms_per_step=20), names(nodes), staging=common_pb2.STAGING_DIRECT), {}
        job.computes()
        for state, moment in itertools.product(("STAGING", "STAGED"), ("before", "after")):
            ends[state, moment] = agent_dies_in(job, words, state, moment)
        assert set(ends.values()) == {COMPLETE}, ends
        ends_well(job, checkpoints=4)
        assert job.restarts == 0, "the agent's end is nothing to its applications"


# What copies waits as long as the file is there.
WORKER = """#!/bin/sh
while [ "$1" = put ] && [ -e "{hold}" ]; do sleep 0.05; done
unset CKPT_WORKER_TASKS  # it is asked for each task
exec "${{0%/*}}/ckpt-worker.real" "$@"
"""


def held_puts(cluster):
    """The file; of agents that start from now on."""
    hold = cluster.dir / "hold"
    cluster.bin = cluster.dir / "bin"
    shutil.copytree(BIN, cluster.bin)
    (cluster.bin / "ckpt-worker").rename(cluster.bin / "ckpt-worker.real")
    (cluster.bin / "ckpt-worker").write_text(WORKER.format(hold=hold))
    (cluster.bin / "ckpt-worker").chmod(0o755)
    return hold


def agent_killed_while_it_ends_a_worker(make, nodes):
    """A checkpoint is cancelled whose worker hangs; that one goes on late, where nobody waits for it any more."""
    with site(names(nodes)) as cluster:
        hold = held_puts(cluster)
        words = with_last_words(cluster, nodes)
        job = Ranked(cluster, "j", make(steps=900, ms_per_step=20), names(nodes))
        job.computes()
        for moment in ("before", "after"):
            hold.touch()
            identifier = job.request()
            wait_until("it is copied", lambda i=identifier: re.search(rf"hint={checkpoint_text(i)}-\d+ .*to=PUTTING", words.agent.log.read_text()), 30)
            words.arm(" to=HALTING\n", moment)
            cluster.client.broker("CancelCheckpoint", broker_pb2.CancelCheckpointRequest(request_id=uuid.uuid4().hex, checkpoint_id=identifier))
            words.dies(f"HALTING, {moment}")
            words.agent.start()
            hold.unlink()
            job.checkpoint()
            assert job.record(identifier).state == common_pb2.CHECKPOINT_STATE_CANCELLED, job.record(identifier)
        ends_well(job, checkpoints=2)
        assert job.restarts == 0, "the agent's end is nothing to its applications"


def agent_killed_while_put_off(make, nodes):
    """All ranks put each question off once, for a second at least."""
    with site(names(nodes), max_deferral="20s") as cluster:
        words = with_last_words(cluster, nodes)
        job, ends = Ranked(cluster, "j", make(steps=1200, ms_per_step=20, defers=True), names(nodes)), {}
        job.computes()
        for moment in ("before", "after"):
            ends[moment] = agent_dies_in(job, words, "DEFERRED", moment)
        assert set(ends.values()) == {COMPLETE}, ends
        ends_well(job, checkpoints=2)
        assert job.restarts == 0, "the agent's end is nothing to its applications"


def destination_away(make, nodes):
    with site(names(nodes)) as cluster:
        job = Ranked(cluster, "j", make(), names(nodes))
        job.computes()
        cluster.storage_down()
        identifier = job.request()
        time.sleep(2)
        assert job.record(identifier).state not in (COMPLETE, *FAILED_STATES), job.record(identifier)
        cluster.storage_up()
        job.completes(identifier)
        ends_well(job)


def cut_off_by(fate, state, moment):
    def node_cut_off(make, nodes):
        """The agent of the last part's node is away (it sleeps, or its network is cut) from a moment of a checkpoint on, and what runs there goes on:
        all of it where the job has one node. The job goes on elsewhere; when the agent is back the old copy is ended, no checkpoint of it became
        complete, and the node can take part again."""
        node, spare = names(nodes)[-1], names(nodes + 1)[-1]
        with site(names(nodes + 1)) as cluster:
            words = with_last_words(cluster, nodes)
            job = Ranked(cluster, "j", make(steps=2000), names(nodes))
            job.computes()
            before = job.run_of(job.checkpoint())
            words.arm(f" to={state}\n", moment, fate)
            identifier = job.request()
            words.away(f"{state}, {moment}")
            old = job.cut_off(node)
            wait_until("its node is down", lambda: job.state() == REQUEUED, 40)
            kept = {record.checkpoint_id for record in job.complete_checkpoints()}
            assert identifier not in kept, "it is not complete without this node"
            job.restart([spare if name == node else name for name in job.nodes])
            job.computes()
            job.checkpoint()
            print(f"# what the node was cut off from: {common_pb2.CheckpointState.Name(job.record(identifier).state)}", flush=True)
            assert nodes > 1 or old.applications(), "who needs nobody elsewhere computes on"
            words.comes_back()
            wait_until("the old copy is ended", lambda: old.process.poll() is not None and not old.applications(), 40)
            job.checkpoint()
            job.lost.discard(node)
            job.lose(spare)
            ends_well(job, spares=node, checkpoints=2)
            runs = {checkpoint_text(record.checkpoint_id): job.run_of(record) for record in job.complete_checkpoints() if record.checkpoint_id not in kept}
            assert before not in runs.values(), f"of the old run, {before}: {runs}"
    node_cut_off.__name__ = {"sleeps": "node_cut_off_with_its_agent_asleep", "cut": "node_cut_off_from_the_network"}[fate] + f"_{moment}_{state.lower()}"
    return node_cut_off


# Before the worker that writes at the destination is started, so that it writes and reports what nobody waits for any more; and the other moments.
CUT_OFF = (cut_off_by("sleeps", "PUTTING", "before"), cut_off_by("cut", "PUTTING", "before"))
CUT_OFF_ELSE = (cut_off_by("sleeps", "PUTTING", "after"), cut_off_by("cut", "ASKED", "after"))
FAULTS = (undisturbed, rank_killed, node_lost, leader_killed_in_the_barrier, rank_slow, rank_silent, agent_killed, agent_killed_in_each_state,
          agent_killed_while_a_folder_is_made, agent_killed_while_it_ends_a_worker, destination_away, *CUT_OFF)


def as_test(fault, make, nodes):
    def test():
        needs = make().needs
        return needs if needs else fault(make, nodes)
    test.__name__ = fault.__name__ + ("_on_one_node" if nodes == 1 else "")
    return test


def tests_of(make, nodes=2, faults=FAULTS):
    return [as_test(fault, make, nodes) for fault in faults]


def split(tests, *short):
    """(those that these functions make, the others), for tap(): one round of a program in `make systems`, the others in `make systems-long`."""
    names = {fault.__name__ for fault in short}
    chosen = [test for test in tests if test.__name__.removesuffix("_on_one_node") in names]
    assert len(chosen) >= len(names), (names, [test.__name__ for test in tests])
    return chosen, [test for test in tests if test not in chosen]


def elastic_by(mode):
    """4 -> 2 -> 3 nodes of one rank each. Every part gets all parts, or reads what it needs where they lie."""
    def elastic(make, nodes):
        del nodes
        with site(names(4)) as cluster:
            job = Ranked(cluster, "j", make(ranks=1, steps=1500), names(4), restore=mode)
            job.computes()
            for fewer in (2, 3):
                record = job.checkpoint()
                end_failed(cluster, "j")
                job.restart(names(fewer))
                job.computes()
                for run in job.runs.values():
                    wait_until(f"part of {fewer} says from where it goes on", lambda run=run: went_on(run, record, mode), 10)
            job.checkpoint()
            ends_well(job, checkpoints=1)
    elastic.__name__ = {common_pb2.RESTORE_MODE_ALL: "elastic_with_all_parts", common_pb2.RESTORE_MODE_PATH: "elastic_by_path"}[mode]
    return elastic


def went_on(run, record, mode):
    """What its ckpt-run says: by the path, nothing was copied here."""
    line = next((line for line in reversed(run.log.read_text().splitlines()) if "started pid" in line), "")
    where = f"file://{record.path} " if mode == common_pb2.RESTORE_MODE_PATH else f"/restore/{checkpoint_text(record.checkpoint_id)}"
    return line if where in line and f"({checkpoint_text(record.checkpoint_id)}" in line else None


ELASTIC = (elastic_by(common_pb2.RESTORE_MODE_ALL), elastic_by(common_pb2.RESTORE_MODE_PATH))


def end_failed(cluster, name):
    cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id=name, failed=True))


def elastic_tests_of(make):
    return [as_test(elastic, make, 4) for elastic in ELASTIC]
