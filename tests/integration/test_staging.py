#!/usr/bin/python3
"""Applications that write at the destination itself, or in their node's memory: by target and by job, of several ranks, killed in each state. Rows
"direct" and "memory" of S2-003."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import LONG, Cluster, checkpoint_text, common_pb2, often, tap, wait_until  # noqa: E402
from jobs import (COMPLETE, FAILED, MIB, POLICY, TIMED_OUT, all_run, checkpoint, complete, ends, ends_in, heat, hint, no_litter, says)  # noqa: E402
from ranks_site import RANKS_POLICY, Ranked, heat as mpi_heat, threads, train  # noqa: E402

DIRECT, LOCAL, MEMORY = common_pb2.STAGING_DIRECT, common_pb2.STAGING_LOCAL, common_pb2.STAGING_MEMORY

# Writes in steps: `writing` stands beside it while it does. What it says at the end is its one argument.
SLOW = r"""
import os, pathlib, signal, sys, time
work = pathlib.Path(os.environ["CKPT_DIR"])

def save(number, frame):
    told = dict(line.split("=", 1) for line in (work / "request").read_text().splitlines() if "=" in line)
    to = pathlib.Path(told["directory"])
    (to / "sub").mkdir()
    with open(to / "sub" / "state", "w") as file:
        for i in range(20):
            file.write("%06d\n" % i * 1000)
            file.flush()
            (work / "writing").write_text(str(i))
            time.sleep(0.05)
    (work / "written").write_text(str(to))
    (work / "done.new").write_text("hint=%s\nbytes=%d\nstatus=%s\nstep=unordered\n" % (told["hint"], (to / "sub" / "state").stat().st_size, sys.argv[1]))
    (work / "done.new").rename(work / "done")

signal.signal(signal.SIGUSR1, save)
while True:
    signal.pause()
"""


def slow(says="0"):
    return [sys.executable, "-c", SLOW, says]


def verifies(record):
    for shard in record.shards:
        folder = pathlib.Path(record.path) / f"part-{shard.part:04}"
        subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "MANIFEST"], cwd=folder, check=True)


def staged(cluster):
    """The hidden folders that applications write into."""
    return sorted(cluster.scratch.rglob(".part-*.tmp.*"))


def direct_cluster(agents=("a",), **options):
    return Cluster(members=1, agents=agents, policy=POLICY, target={"staging": "direct"}, **options)


@contextlib.contextmanager
def memory_cluster(agents=("a",), max_bytes=256 * MIB, **options):
    """Each node has a folder of its own on a tmpfs, as `cluster.memory / NODE`: its agent mounts one there, where it may."""
    memory = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-memory-", dir="/dev/shm"))
    cluster = Cluster(**{"members": 1, "agents": agents, "policy": POLICY, "target": {"staging": "memory"}, **options})
    try:
        with cluster:
            cluster.memory = memory
            with open(cluster.agent_config, "a", encoding="utf-8") as file:
                file.write(f'memory: {{path: "{memory}/{{node}}", max_bytes: {max_bytes}}}\n')
            cluster.start()
            yield cluster
    finally:
        for node in memory.glob("*"):
            if node.is_mount():
                subprocess.run(["umount", "--lazy", str(node)], check=True)
        shutil.rmtree(memory)


def in_memory(cluster, node="a"):
    """The folder of whoever runs this in the node's memory."""
    return cluster.memory / node / str(os.getuid())


def nothing_written_stays_in_memory(cluster):
    wait_until("nothing is left in memory", lambda: not list(cluster.memory.glob("*/*/out/*")), 20)


def what_is_written_at_the_destination_is_the_checkpoint():
    """No second write: the file that the application wrote is the shard's. The node keeps no copy; the record and ckptctl say where it was written."""
    with direct_cluster(agents=("a", "b"), copies=True) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB), ("b", 1, MIB)])
        jobs = [cluster.run_job(n, "j", slow(), ("--max-restarts", "5")) for n in "ab"]
        all_run(cluster)
        record = hint(cluster, "j")
        wait_until("it writes", lambda: (jobs[0].work_dir / "writing").exists(), 10)
        folder, = [f for f in staged(cluster) if f.name.startswith(".part-0000.")]
        inode = wait_until("there", lambda: (folder / "sub" / "state").exists() and (folder / "sub" / "state").stat().st_ino, 5)
        link, = (jobs[0].work_dir / "out").iterdir()
        assert os.readlink(link) == str(folder), link
        record = ends_in(cluster, "j", record, (COMPLETE,))
        state = pathlib.Path(record.path) / "part-0000" / "sub" / "state"
        assert state.stat().st_ino == inode, state
        assert [(s.staging, s.written_bytes) for s in record.shards] == [(DIRECT, s.size_bytes) for s in record.shards], record
        assert all(p.target_id for s in record.shards for p in s.places), record
        verifies(record)
        no_litter(cluster)
        assert "DIRECT" in cluster.ctl("checkpoint", checkpoint_text(record.checkpoint_id)).stdout
        assert "DIRECT" in cluster.ctl("targets", "--output", "wide").stdout
        cluster.debug_check()


def a_job_says_it_itself_and_a_target_changes():
    """A job's word comes before its target's."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name, staging in (("own", DIRECT), ("target", common_pb2.STAGING_UNSPECIFIED), ("local", LOCAL)):
            cluster.register(name, [("a", 1, MIB)], staging=staging)
            cluster.run_job("a", name, heat(cluster, name))
        all_run(cluster)

        def written(name):
            record = complete(cluster, name)
            verifies(record)
            return [s.staging for s in record.shards]

        assert (written("own"), written("target"), written("local")) == ([DIRECT], [LOCAL], [LOCAL])
        cluster.ctl("target", "put", "scratch", "--staging", "direct")
        assert (written("own"), written("target"), written("local")) == ([DIRECT], [DIRECT], [LOCAL])
        refused = cluster.ctl("target", "put", "far", "--prefix", "s3://bucket", "--write", "1GB/s", "--staging", "direct", check=False)
        assert refused.returncode != 0 and "STAGING_UNFIT" in refused.stderr, refused
        no_litter(cluster)
        cluster.debug_check()


def what_an_application_could_not_write_is_told_in_its_words():
    with direct_cluster() as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        job = cluster.run_job("a", "j", slow("No space left on device"))
        all_run(cluster)
        record = ends_in(cluster, "j", hint(cluster, "j"), (FAILED,))
        assert "No space left on device" in record.detail, record
        says(job, "No space left on device")
        no_litter(cluster)


def a_destination_that_is_away_is_told_before_the_application_is_asked():
    with direct_cluster(storage_watch={"interval_ms": 60000}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        job = cluster.run_job("a", "j", slow())
        all_run(cluster)
        cluster.scratch.rename(cluster.dir / "away")
        says_why = hint(cluster, "j")
        says(job, "the prefix")
        assert not (job.work_dir / "writing").exists()
        (cluster.dir / "away").rename(cluster.scratch)
        ends_in(cluster, "j", says_why, (COMPLETE, FAILED), 30)
        no_litter(cluster)


def what_is_written_in_memory_is_copied_and_kept_there():
    """No byte on the node's disk: it goes from memory to the destination, and the next run begins from what memory keeps; when that is gone, as after the
    node has started again, the state is told and the destination is read."""
    with memory_cluster() as cluster:
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "j", slow(), ("--max-restarts", "5"))
        all_run(cluster)
        identifier = hint(cluster, "j")
        wait_until("it writes", lambda: (job.work_dir / "writing").exists(), 10)
        link, = (job.work_dir / "out").iterdir()
        assert os.readlink(link).startswith(str(in_memory(cluster))), link
        record = ends_in(cluster, "j", identifier, (COMPLETE,))
        assert [s.staging for s in record.shards] == [MEMORY], record
        verifies(record)
        nothing_written_stays_in_memory(cluster)
        text = checkpoint_text(record.checkpoint_id)
        assert "MEMORY" in cluster.ctl("checkpoint", text).stdout

        def kept():
            return sorted(p.node_id for s in checkpoint(cluster, "j", record.checkpoint_id).shards for p in s.places if p.node_id)

        wait_until("the node keeps it", lambda: kept() == ["a"], 20)
        assert (in_memory(cluster) / "copies" / text / "part-0000" / "sub" / "state").exists()
        assert not (job.work_dir / "copies").exists()
        said, before = len(job.log.read_text()), job.known_to_run()
        os.kill(before, signal.SIGKILL)
        wait_until("it runs again", lambda: job.known_to_run() not in (None, before), 30)
        assert "came from the copy that this node kept" in job.log.read_text()[said:]
        shutil.rmtree(in_memory(cluster))
        wait_until("the state knows that it is gone", lambda: kept() == [], 40)
        assert any(e.kind == 22 and e.checkpoint_id == record.checkpoint_id for e in cluster.events()), "no event says so"
        record = ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE,))
        verifies(record)
        no_litter(cluster)
        cluster.debug_check()


def a_memory_that_is_full_is_told_by_name():
    """Before the application is asked; a copy of the one before gives way; and for want of a memory at all checkpoints are written as always."""
    for copies in (True, False):
        with memory_cluster(max_bytes=3 * MIB, copies=copies) as cluster:
            fills(cluster, copies)
    with Cluster(members=1, agents=("a",), policy=POLICY, target={"staging": "memory"}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        assert [s.staging for s in complete(cluster, "j").shards] == [LOCAL]


def fills(cluster, copies):
    cluster.register("j", [("a", 1, MIB)])
    job = cluster.run_job("a", "j", slow(), ("--max-restarts", "5"))
    all_run(cluster)
    record = ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE,))
    if not (cluster.memory / "a").is_mount():
        print("# no tmpfs of its own can be mounted here: only a part of it is seen")
        return
    nothing_written_stays_in_memory(cluster)
    if copies:
        wait_until("it is kept", lambda: any(p.node_id for s in checkpoint(cluster, "j", record.checkpoint_id).shards for p in s.places), 20)
    filler = cluster.memory / "a" / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    record = ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE, FAILED), 60)
    assert record.state == COMPLETE and record.attempt == 1 and [s.staging for s in record.shards] == [LOCAL], record
    text = checkpoint_text(record.checkpoint_id)
    says(job, f"checkpoint {text} is written to the work folder, not into the node's memory: ")
    assert "bytes free, and the last checkpoint took" in job.log.read_text(), job.log.read_text()
    verifies(record)
    if copies:
        wait_until("the copy gives way", lambda: any(e.kind == 22 for e in cluster.events()), 20)
    else:
        filler.unlink()
        record = ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE,), 60)
        verifies(record)
        assert [s.staging for s in record.shards] == [MEMORY], record
        junk = in_memory(cluster) / "junk"
        junk.write_bytes(bytes(2 * MIB + MIB // 4))
        record = complete(cluster, "j")
        assert [s.staging for s in record.shards] == [LOCAL], "what a user keeps there is of its share"
        says(job, "memory.user_max_bytes")
        cluster.ctl("end", "j", "--yes")
        ends(job)
        wait_until("its user's folder is closed", lambda: not in_memory(cluster).exists(), 20)
        return
    nothing_written_stays_in_memory(cluster)
    no_litter(cluster)
    cluster.debug_check()


def who_is_killed_leaves_a_whole_one_or_none():
    with direct_cluster() as cluster:
        cluster.start()
        kills_at_each_moment(cluster, "stage|publish")


def who_is_killed_leaves_nothing_in_memory():
    with memory_cluster() as cluster:
        kills_at_each_moment(cluster, "reserve|put")
        nothing_written_stays_in_memory(cluster)


def kills_at_each_moment(cluster, verbs):
    """The application, the agent and the worker, while it writes and when it has written."""
    cluster.register("j", [("a", 1, MIB)])
    job = cluster.run_job("a", "j", slow(), ("--max-restarts", "50"))
    agent = cluster.agents["a"]

    def worker():
        for pid in subprocess.run(["pgrep", "-f", f"ckpt-worker ({verbs}).*({cluster.dir.name}|{getattr(cluster, 'memory', cluster.dir).name})"], capture_output=True, text=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def application():
        os.kill(job.application_pid(), signal.SIGKILL)

    def agent_dies():
        agent.kill()
        agent.start()

    def frozen_agent():
        agent.kill()
        time.sleep(1.5)  # the application says done meanwhile
        agent.start()

    ends = []
    moments = (0.0, 0.3, 1.0, 1.05)
    for turn, kill in enumerate((worker, application, agent_dies, frozen_agent)):
        for when in often(moments[turn % 2::2], moments):  # each killer at two moments, and each moment twice
            wait_until("it runs", job.known_to_run, 30)
            for name in ("writing", "written"):
                (job.work_dir / name).unlink(missing_ok=True)
            identifier = hint(cluster, "j")
            if when:
                wait_until("it writes", lambda: (job.work_dir / "writing").exists(), 10)
                time.sleep(when - 0.3)
            kill()
            record = ends_in(cluster, "j", identifier, (COMPLETE, FAILED, TIMED_OUT), 60)
            ends.append((kill.__name__, when, record.state, record.detail))
            if record.state == COMPLETE:
                verifies(record)
            else:
                assert not list(pathlib.Path(record.path).glob("part-*")) or record.state != COMPLETE, record
    print("#", ends)
    # what the application had written while no agent was there is not lost
    assert all(state == COMPLETE for name, when, state, detail in ends if name == "frozen_agent" and when), ends
    no_litter(cluster)
    cluster.debug_check()


def ranks_of_real_programs():
    with Cluster(members=1, agents=("a", "b"), policy=RANKS_POLICY, target={"staging": "direct"}, heartbeat_ms=300) as cluster:
        cluster.start()
        ranks_write(cluster, DIRECT, 0)


def ranks_of_real_programs_in_memory():
    with memory_cluster(agents=("a", "b"), policy=RANKS_POLICY, heartbeat_ms=300) as cluster:
        ranks_write(cluster, MEMORY, 1)
        nothing_written_stays_in_memory(cluster)


def ranks_write(cluster, staging, first):
    """With the library, by MPI with and without it, with threads: all ranks write there, and what is resumed gives what an undisturbed run does."""
    programs = [train(), train(plain=True), threads()] + [p for p in (mpi_heat(), mpi_heat(plain=True)) if not p.needs]
    for number, program in enumerate(programs if LONG else programs[first::2]):
        ranked = Ranked(cluster, f"{program.name}-{number}", program, ("a", "b"))
        ranked.computes()
        record = ranked.checkpoint()
        assert [s.staging for s in record.shards] == [staging, staging], record
        ranked.complete_checkpoints()
        verifies(record)
        if program.ranks > 1:
            ranked.kill_rank(1)
        else:
            os.kill(ranked.runs["a"].application_pid(), signal.SIGKILL)
        assert ranked.settle() == program.expected(), program.name
        assert ranked.restarts > 0, program.name
        ranked.one_writer()
    no_litter(cluster)
    cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([what_is_written_at_the_destination_is_the_checkpoint, a_job_says_it_itself_and_a_target_changes,
                  what_an_application_could_not_write_is_told_in_its_words, a_destination_that_is_away_is_told_before_the_application_is_asked,
                  what_is_written_in_memory_is_copied_and_kept_there, a_memory_that_is_full_is_told_by_name,
                  who_is_killed_leaves_a_whole_one_or_none, who_is_killed_leaves_nothing_in_memory, ranks_of_real_programs,
                  ranks_of_real_programs_in_memory]))
