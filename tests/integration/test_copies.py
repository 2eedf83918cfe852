#!/usr/bin/python3
"""What a node keeps of what its jobs wrote: a restart there reads that, and nobody else's, nor anything older."""
import json
import os
import pathlib
import shutil
import signal
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, checkpoint_text, common_pb2, operator_pb2, tap, wait_until  # noqa: E402
from jobs import (COMPLETE, FAILED, MIB, POLICY, RUNNING, SUSPENDED, all_run, allocation_in, checkpoint, complete, ends, ends_in, heat, hint,  # noqa: E402
                  restart, says)

COPIED = "came from the copy that this node kept"


def kept_on(cluster, name, identifier):
    """The nodes that keep a copy of a part, as the state has it."""
    return sorted(p.node_id for s in checkpoint(cluster, name, identifier).shards for p in s.places if p.node_id)


def is_kept(cluster, name, identifier, *nodes):
    wait_until(f"{nodes} keep {name}'s copy", lambda: kept_on(cluster, name, identifier) == sorted(nodes), 20)


def copy_of(job, identifier, part=0):
    return job.work_dir / "copies" / checkpoint_text(identifier) / f"part-{part:04d}"


def starts_again(cluster, job):
    """Its application dies; the next one runs. What ckpt-run has said since."""
    said = len(job.log.read_text())
    before = job.known_to_run()
    os.kill(before, signal.SIGKILL)
    wait_until("it runs again", lambda: job.known_to_run() not in (None, before), 30)
    return job.log.read_text()[said:]


def is_available(cluster):
    return cluster.client.operator("ListTargets", operator_pb2.ListTargetsRequest()).targets[0].available


def goes_away(cluster):
    cluster.storage_down()
    wait_until("the destination is seen to be away", lambda: not is_available(cluster), 20)


def comes_back(cluster):
    cluster.storage_up()
    wait_until("the destination is back", lambda: is_available(cluster), 20)


def in_configuration(cluster, text):
    with open(cluster.agent_config, "a", encoding="utf-8") as file:
        file.write(text)


def a_restart_on_the_node_needs_no_destination():
    """S2-024, D-004: from the node's own copy, with the destination away, by an agent that was killed meanwhile; the copy is the newest
    complete one's, and the one before has gone. `ckptctl checkpoint` shows where each part lies."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "j", heat(cluster, "j"), ["--max-restarts", "10"])
        all_run(cluster)
        first = complete(cluster, "j").checkpoint_id
        is_kept(cluster, "j", first, "a")
        second = complete(cluster, "j").checkpoint_id
        is_kept(cluster, "j", second, "a")
        is_kept(cluster, "j", first)
        wait_until("the older copy has gone", lambda: not copy_of(job, first).parent.exists(), 10)
        shown = cluster.ctl("checkpoint", checkpoint_text(second)).stdout
        assert "LIES AT" in shown and "node a" in shown, shown
        cluster.agents["a"].kill()
        cluster.agents["a"].start()
        goes_away(cluster)
        said = starts_again(cluster, job)
        assert COPIED in said, said
        assert checkpoint_text(second) in said, said
        started = [e for e in cluster.events() if e.kind == 10]
        assert started[-1].checkpoint_id == second, started
        comes_back(cluster)
        is_kept(cluster, "j", second, "a")
        third = complete(cluster, "j").checkpoint_id
        is_kept(cluster, "j", third, "a")
        assert COPIED in starts_again(cluster, job)
        cluster.debug_check()


def a_copy_that_is_lost_or_damaged_is_not_missed():
    """The destination is read instead, by itself; the state and the events say that the copy has gone."""
    def flips_a_byte(folder):
        file = max(folder.rglob("*.bin"), key=lambda f: f.stat().st_size)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    def cuts_a_file(folder):
        os.truncate(max(folder.rglob("*.bin"), key=lambda f: f.stat().st_size), 1)

    def links_elsewhere(folder):
        file = max(folder.rglob("*.bin"), key=lambda f: f.stat().st_size)
        file.unlink()
        file.symlink_to("/etc/shadow")

    def hangs_its_reader(folder):
        file = max(folder.rglob("*.bin"), key=lambda f: f.stat().st_size)
        file.unlink()
        os.mkfifo(file)

    def edits_the_manifest(folder):
        (folder / "MANIFEST").write_text((folder / "MANIFEST").read_text().replace("mode=0644", "mode=0600"))

    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "j", heat(cluster, "j"), ["--max-restarts", "20"])
        all_run(cluster)
        for spoil in (shutil.rmtree, flips_a_byte, cuts_a_file, links_elsewhere, hangs_its_reader, edits_the_manifest):
            identifier = complete(cluster, "j").checkpoint_id
            is_kept(cluster, "j", identifier, "a")
            spoil(copy_of(job, identifier))
            said = starts_again(cluster, job)
            assert COPIED not in said and checkpoint_text(identifier) in said, (spoil.__name__, said)
            is_kept(cluster, "j", identifier)
            assert any(e.kind == 22 and e.checkpoint_id == identifier for e in cluster.events()), spoil.__name__
            wait_until("nothing of it is left", lambda i=identifier: not copy_of(job, i).parent.exists(), 10)
        cluster.debug_check()


def what_is_not_complete_is_never_begun_from():
    """I27: a part that was verified of a checkpoint that failed elsewhere is no copy to begin from; the one before is, until it goes."""
    with Cluster(members=1, agents=("a", "b"), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB), ("b", 1, MIB)], grace_ms=500)
        jobs = [cluster.run_job(n, "j", heat(cluster, f"j.{n}"), ["--max-restarts", "10", "--stay"]) for n in "ab"]
        all_run(cluster)
        whole = complete(cluster, "j").checkpoint_id
        is_kept(cluster, "j", whole, "a", "b")
        # b's application does not answer any more
        os.kill(jobs[1].known_to_run(), signal.SIGSTOP)
        failed = hint(cluster, "j")
        ends_in(cluster, "j", failed, (FAILED, 8), 40)
        os.kill(jobs[1].application_pid(), signal.SIGCONT)
        is_kept(cluster, "j", whole, "a", "b")
        wait_until("a's part of the failed one has gone", lambda: not copy_of(jobs[0], failed).parent.exists(), 15)
        os.kill(jobs[0].known_to_run(), signal.SIGKILL)
        allocation_in(cluster, "j", *(s for s in (SUSPENDED, 5, 6, 7) if s != RUNNING))
        restart(cluster, "j")
        for number, job in enumerate(jobs):
            says(job, COPIED, 30)
            assert checkpoint_text(whole) in job.log.read_text()
            assert copy_of(job, whole, number).exists()
        cluster.debug_check()


def copies_go_with_what_they_are_for():
    """Removed when the job completes, or goes on elsewhere; nothing is kept without room for it, or more than is allowed."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "j", heat(cluster, "j"), ["--max-restarts", "0"])
        all_run(cluster)
        identifier = cluster.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
            request_id=uuid.uuid4().hex, allocation_id="j", after=common_pb2.AFTER_CHECKPOINT_STOP)).checkpoint_id
        allocation_in(cluster, "j", SUSPENDED)
        ends(job)
        is_kept(cluster, "j", identifier, "a")
        hint_of, = json.loads(cluster.ctl("placement", "-o", "json").stdout)["placement_hints"]
        assert hint_of["waits"] and hint_of["copy_nodes"] == ["a"], hint_of
        assert "1/1" in cluster.ctl("placement").stdout
        restart(cluster, "j")
        job.start()
        says(job, COPIED)
        all_run(cluster)
        is_kept(cluster, "j", identifier, "a")
        identifier = cluster.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
            request_id=uuid.uuid4().hex, allocation_id="j", after=common_pb2.AFTER_CHECKPOINT_STOP)).checkpoint_id
        allocation_in(cluster, "j", SUSPENDED)
        is_kept(cluster, "j", identifier, "a")
        restart(cluster, "j", nodes="b")
        wait_until("a keeps none for a job on b", lambda: not copy_of(job, identifier).parent.exists(), 15)
        is_kept(cluster, "j", identifier)
        other = cluster.run_job("b", "j", heat(cluster, "j"))
        wait_until("it runs on b", other.known_to_run, 20)
        identifier = complete(cluster, "j").checkpoint_id
        is_kept(cluster, "j", identifier, "b")
        cluster.ctl("end", "j", "--yes")
        wait_until("b keeps none of what is over", lambda: not copy_of(other, identifier).parent.exists(), 15)
        cluster.debug_check()


def bounds_are_kept():
    """local_copies: max_bytes and keep_free; 0 keeps nothing."""
    for text, kept in (("local_copies: {max_bytes: 0}\n", 0), ("local_copies: {max_bytes: 64KiB}\n", 1),
                       ("local_copies: {keep_free: 1PiB}\n", 0)):
        with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
            in_configuration(cluster, text)
            cluster.start()
            jobs = []
            for name in ("j", "k"):  # a part is some 33 KB
                cluster.register(name, [("a", 1, MIB)], grace_ms=500)
                jobs.append(cluster.run_job("a", name, heat(cluster, name)))
            all_run(cluster)
            ids = [complete(cluster, name).checkpoint_id for name in ("j", "k")]
            time.sleep(1)  # nothing is to come
            wait_until(f"{kept} of two are kept with {text}",
                       lambda: sum(copy_of(j, i).exists() for j, i in zip(jobs, ids)) == kept, 10)
            assert sum(len(kept_on(cluster, n, i)) for n, i in zip(("j", "k"), ids)) == kept
            cluster.debug_check()


def slow_worker(cluster, verb):
    """ckpt-worker waits before this verb as long as the file `slow` is there, and says so by the file `waits`."""
    real = cluster.bin / "ckpt-worker.real"
    if not real.exists():
        (cluster.bin / "ckpt-worker").rename(real)
    script = cluster.bin / "ckpt-worker"
    script.write_text(f'#!/bin/sh\nif [ "$1" = "{verb}" ]; then while [ -e {cluster.dir}/slow ]; do : > {cluster.dir}/waits; sleep 0.05; done; fi\n'
                      f'unset CKPT_WORKER_TASKS  # it is asked for each task\nexec {real} "$@"\n')
    script.chmod(0o755)
    (cluster.dir / "slow").touch()


def a_killed_agent_loses_no_copy():
    """I22: SIGKILL while the files are moved aside, before and after it was reported, and while one is removed."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        shutil.copytree(cluster.bin, cluster.dir / "own-bin")
        cluster.bin = cluster.dir / "own-bin"
        cluster.start()
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "j", heat(cluster, "j"), ["--max-restarts", "20"])
        all_run(cluster)
        agent = cluster.agents["a"]
        for verb in ("retain", "sweep"):
            before = complete(cluster, "j").checkpoint_id
            is_kept(cluster, "j", before, "a")
            agent.kill()
            slow_worker(cluster, verb)
            agent.start()
            identifier = complete(cluster, "j").checkpoint_id
            (cluster.dir / "waits").unlink(missing_ok=True)
            wait_until(f"a worker waits with {verb}", (cluster.dir / "waits").exists, 20)
            agent.kill()
            (cluster.dir / "slow").unlink()
            agent.start()
            is_kept(cluster, "j", identifier, "a")
            wait_until("one is kept", lambda: [f.name for f in (job.work_dir / "copies").iterdir()] ==
                       [checkpoint_text(identifier)], 15)
            goes_away(cluster)
            assert COPIED in starts_again(cluster, job)
            comes_back(cluster)
        # a journal that is lost: the state forgets the copy as well, and the next one is kept again
        agent.kill()
        shutil.rmtree(agent.state_dir)
        agent.start()
        is_kept(cluster, "j", identifier)
        identifier = complete(cluster, "j").checkpoint_id
        is_kept(cluster, "j", identifier, "a")
        cluster.debug_check()


if __name__ == "__main__":
    tap([a_restart_on_the_node_needs_no_destination, a_copy_that_is_lost_or_damaged_is_not_missed,
         what_is_not_complete_is_never_begun_from, copies_go_with_what_they_are_for, bounds_are_kept,
         a_killed_agent_loses_no_copy])
