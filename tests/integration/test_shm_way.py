#!/usr/bin/python3
"""Applications that are asked in shared memory (ckpt-run --profile shm), in C and in Python, polling and waiting, with a real broker, agent and
destination: each that was killed at a random moment goes on to the result of an undisturbed one. S1-030, S1-034, S1-035,
S1-036, S1-037."""
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, ROOT, Cluster, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, ENDED_FAILED, FAILED, MIB, POLICY, SUPERSEDED, allocation_in, checkpoint, ends, ends_in, hint, says  # noqa: E402

PROGRAMS = {"c": [str(BIN / "shm_app")], "python": ["/usr/bin/python3", "-B", str(ROOT / "tests" / "support" / "shm_app.py")]}
MASK = (1 << 64) - 1
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
ENDED = (COMPLETE, FAILED, SUPERSEDED)


def truth(steps, rank=0):
    value = rank
    for step in range(steps):
        z = (value + step * 0x9e3779b97f4a7c15) & MASK
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        value = z ^ (z >> 27)
    return f"{value} signals=0\n"


def command(cluster, name, language="c", *options, steps=3000):
    return [*PROGRAMS[language], "--output", str(cluster.dir / f"{name}.result"), "--steps", str(steps), "--delay-us", "2000", *options]


def result(cluster, name, rank=0):
    return (cluster.dir / f"{name}.result.{rank}").read_text()


def region_of(job):
    def told():  # once the program has taken the place of what was forked for it
        environment = pathlib.Path(f"/proc/{job.application_pid()}/environ").read_bytes().split(b"\0")
        return next((e.split(b"=", 1)[1].decode() for e in environment if e.startswith(b"CKPT_SHM=")), None)
    return wait_until("its region is named to it", told, 10)


def each_language_in_each_way_is_killed_and_ends_as_if_undisturbed():
    """S1-034, S1-035: polling and waiting see the request. S1-036: what was saved is whole. S1-037: no signal came; the result says how many."""
    draw = random.Random(SEED)
    print(f"# SEED={SEED}", flush=True)
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        jobs, regions = {}, {}
        for language in PROGRAMS:
            for waits in ("no", "yes"):
                name = f"shm-{language}-{waits}"
                cluster.register(name, [("a", 1, MIB)], profile="shm")
                jobs[name] = cluster.run_job("a", name, command(cluster, name, language, "--wait", waits))
        for name, job in jobs.items():
            says(job, "begins at step 0")
            assert ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED)).state == COMPLETE, job.log.read_text()
            time.sleep(draw.random() / 2)
            os.kill(job.application_pid(), 9)
        for name, job in jobs.items():
            says(job, "from checkpoint")
            assert ", step " in job.log.read_text(), "the label is the step"
            regions[name] = region_of(job)
            assert ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED)).state == COMPLETE, job.log.read_text()
        for name, job in jobs.items():
            assert ends(job, 60) == 0, job.log.read_text()
            assert result(cluster, name) == truth(3000), name
            assert job.log.read_text().count("begins at step") == 2 and "begins at step 0" in job.log.read_text()
        assert len(set(regions.values())) == 4
        wait_until("no region is left", lambda: not any(map(os.path.exists, regions.values())), 10)
        cluster.debug_check()


def ranks_of_two_parts_save_together():
    """S1-036, with a word pair of each rank: one that is missing is no checkpoint. A rank that dies between its words is seen at once."""
    steps = 4000
    # who starts them notices a dead one later than the agent does
    launch = 'for r in 0 1; do CKPT_RANK=$((2 * CKPT_PART + r)) CKPT_RANKS=4 CKPT_LOCAL_RANK=$r CKPT_LOCAL_RANKS=2 "$@" & done; wait -n || { s=$?; sleep 3; exit $s; }; wait -n'
    with Cluster(members=1, agents=("a", "b"), policy={**POLICY, "checkpoint_timeout": "60s"}) as cluster:
        cluster.start()
        cluster.register("pair", [("a", 1, MIB), ("b", 1, MIB)], profile="shm", restart=common_pb2.RESTART_MODE_AUTO)
        line = ["bash", "-c", launch, "sh", *command(cluster, "pair", "c", "--die", "cleared", steps=steps)]
        jobs = [cluster.run_job(node, "pair", line) for node in "ab"]
        for job in jobs:
            says(job, "begins at step 0")
        record = ends_in(cluster, "pair", hint(cluster, "pair"), (COMPLETE, FAILED))
        assert record.state == COMPLETE and record.label == "unordered", record
        assert sorted(p.name for p in pathlib.Path(record.path).rglob("state.*")) == [f"state.{r}" for r in range(4)]
        (cluster.dir / "pair.result.3.die").touch()
        began = time.monotonic()
        identifier = hint(cluster, "pair")
        assert ends_in(cluster, "pair", identifier, ENDED, 30).state != COMPLETE
        assert time.monotonic() - began < 30, "it did not wait for the timeout of a minute"
        assert "rank 3 (pid" in cluster.agents["b"].log.read_text() and "ended before it was done" in cluster.agents["b"].log.read_text()
        (cluster.dir / "pair.result.3.die").unlink()
        for job in jobs:
            assert ends(job, 90) == 0, job.log.read_text()
        for rank in range(4):
            assert result(cluster, "pair", rank) == truth(steps, rank)
        cluster.debug_check()


def one_word_alone_is_no_checkpoint():
    """S1-036: the application is killed when it has cleared the request and not said done, or has said done and not cleared it."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        for word in ("cleared", "done"):
            name = f"half-{word}"
            cluster.register(name, [("a", 1, MIB)], profile="shm")
            job = cluster.run_job("a", name, command(cluster, name, "c", "--die", word), ("--max-restarts", "0"))
            says(job, "begins at step 0")
            (cluster.dir / f"{name}.result.0.die").touch()
            identifier = hint(cluster, name)
            allocation_in(cluster, name, ENDED_FAILED)
            assert ends_in(cluster, name, identifier, ENDED).state != COMPLETE
            wait_until("its agent says why", lambda: "the application ended before it had written its checkpoint" in cluster.agents["a"].log.read_text(), 10)
        cluster.debug_check()


def the_region_outlives_the_agent():
    """The question that is open, and the answer that comes while no agent is there."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": "60s"}) as cluster:
        cluster.start()
        agent = cluster.agents["a"]
        cluster.register("lives", [("a", 1, MIB)], profile="shm")
        job = cluster.run_job("a", "lives", command(cluster, "lives", steps=6000))
        says(job, "begins at step 0")
        wait_until("it runs", job.known_to_run, 10)
        os.kill(job.application_pid(), 19)  # it sees its request when the agent is dead
        identifier = hint(cluster, "lives")
        wait_until("it is asked", lambda: "to=ASKED" in agent.log.read_text(), 10)
        agent.kill()
        os.kill(job.application_pid(), 18)
        says(job, "saved step")
        agent.start()
        record = ends_in(cluster, "lives", identifier, (COMPLETE, FAILED))
        assert record.state == COMPLETE and record.attempt == 1, record
        assert ends_in(cluster, "lives", hint(cluster, "lives"), (COMPLETE, FAILED)).state == COMPLETE
        assert ends(job, 60) == 0 and result(cluster, "lives") == truth(6000)
        allocation_in(cluster, "lives", COMPLETED)
        cluster.debug_check()


def who_cannot_be_asked_so_is_told_why():
    """S1-030: a job has one way. A program that never opens the region; a name that is taken by a folder; a way that is not the registered one."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        cluster.register("deaf", [("a", 1, MIB)], profile="shm")
        job = cluster.run_job("a", "deaf", ["sleep", "1000"], ("--max-restarts", "0"))
        wait_until("it runs", job.known_to_run, 10)
        record = ends_in(cluster, "deaf", hint(cluster, "deaf"), (COMPLETE, FAILED))
        assert record.reason == common_pb2.REASON_NO_HANDLER
        says(job, "rank 0 has not opened the shared memory of CKPT_SHM")
        region = region_of(job)
        assert os.stat(region).st_mode & 0o777 == 0o600
        os.kill(job.application_pid(), 9)
        wait_until("it is removed", lambda: not os.path.exists(region), 10)
        cluster.register("taken", [("a", 1, MIB)], profile="shm")
        other = cluster.run_job("a", "taken", command(cluster, "taken"), ("--profile", "signal"))
        says(other, "shm")
        assert ends(other) == 125, other.log.read_text()
        taken = cluster.run_job("a", "taken", ["sleep", "1000"])
        wait_until("it runs", taken.known_to_run, 10)
        region = region_of(taken)
        os.unlink(region)
        os.mkdir(region)
        os.kill(taken.application_pid(), 9)
        try:
            says(taken, f"the shared memory {region} is there already and cannot be removed")
            assert ends(taken) == 126, taken.log.read_text()
        finally:
            os.rmdir(region)
        help_text = subprocess.run([str(BIN / "ckpt-run"), "--help"], capture_output=True, text=True, check=True).stdout
        assert "shm (words in shared memory, no signal)" in help_text
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([each_language_in_each_way_is_killed_and_ends_as_if_undisturbed, ranks_of_two_parts_save_together,
                  one_word_alone_is_no_checkpoint, the_region_outlives_the_agent, who_cannot_be_asked_so_is_told_why]))
