#!/usr/bin/python3
"""Jobs that read their checkpoints from one target at a time, or write them to it: who waits, who is shown it, and what a leader that dies
in between changes (nothing). S2-032, I49."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, common_pb2, metric, tap, wait_until  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, REQUESTED, RUNNING, SUSPENDED, all_run, allocation_in, checkpoint, ends_in, heat, hint, restart, says  # noqa: E402

JOBS = ("j0", "j1", "j2")

# What restores, or is put, is written down, and waits for its job's word.
WORKER = """#!/bin/sh
case "$1" in
{verb})
    name=$(echo "$*" | sed 's|.*/\\([^/]*\\)/checkpoints/.*|\\1|')
    echo "$name $*" >> "{folder}/{verb}s"
    while [ ! -e "{folder}/go-$name" ]; do sleep 0.05; done;;
esac
unset CKPT_WORKER_TASKS  # it is asked for each task
exec "${{0%/*}}/ckpt-worker.real" "$@"
"""


def slow_worker(cluster, verb):
    worker = cluster.bin / "ckpt-worker"
    worker.rename(cluster.bin / "ckpt-worker.real")
    worker.write_text(WORKER.format(folder=cluster.dir, verb=verb))
    worker.chmod(0o755)


def restores(cluster, verb="restore"):
    """The jobs, as their workers began."""
    path = cluster.dir / f"{verb}s"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def stands(cluster, name):
    """(parts that read, parts that wait, place, length of the line)."""
    r = cluster.allocation(name).restoring
    return r.reading_parts, r.waiting_parts, r.place, r.line


def is_at(cluster, name, *wanted):
    wait_until(f"{name} stands at {wanted}", lambda: stands(cluster, name) == wanted, 30)


def stopped_jobs(cluster):
    """Each with a checkpoint that was written on node a; on node b nothing of it is kept."""
    for name in JOBS:
        cluster.register(name, [("a", 1, MIB)])
        cluster.run_job("a", name, heat(cluster, name))
    all_run(cluster)
    for name in JOBS:
        cluster.request_checkpoint(name, after=common_pb2.AFTER_CHECKPOINT_STOP)
    for name in JOBS:
        allocation_in(cluster, name, SUSPENDED)


def jobs_read_one_after_the_other_whoever_leads():
    with Cluster(members=3, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.let_others_in()
        slow_worker(cluster, "restore")
        cluster.start()
        stopped_jobs(cluster)
        cluster.ctl("target", "put", "scratch", "--max-restores", "1", "--read", "100MB/s")
        jobs = {}
        for i, name in enumerate(JOBS):
            restart(cluster, name, "b")
            jobs[name] = cluster.run_job("b", name, heat(cluster, name))
            is_at(cluster, name, *((1, 0, 0, 0) if i == 0 else (0, 1, i, i)))
        wait_until("the first one reads", lambda: restores(cluster) == ["j0"], 20)
        says(jobs["j2"], "waits to read its checkpoint")
        says(jobs["j2"], "2nd of 2 at target scratch")
        assert "2 of 2 at target scratch" in cluster.ctl("job", "j2").stdout
        told = cluster.ctl("explain", "j2", check=False)
        assert "2 of 2" in told.stdout + told.stderr, told
        http = cluster.leader().http
        assert metric(http, 'ckpt_destination_restores{destination="scratch",state="waiting"}') == 2
        assert metric(http, 'ckpt_destination_restores{destination="scratch",state="reading"}') == 1

        dead = cluster.leader()
        dead.kill()
        cluster.wait_leader()
        for i, name in enumerate(JOBS):
            is_at(cluster, name, *((1, 0, 0, 2) if i == 0 else (0, 1, i, 2)))
        assert restores(cluster) == ["j0"], "the others still wait"
        (cluster.dir / "go-j0").touch()
        allocation_in(cluster, "j0", RUNNING)
        is_at(cluster, "j1", 1, 0, 0, 1)
        is_at(cluster, "j2", 0, 1, 1, 1)
        wait_until("the second one reads", lambda: restores(cluster) == ["j0", "j1"], 20)
        dead.start()

        jobs["j1"].kill()  # its ckpt-run: nobody is left who would read
        is_at(cluster, "j2", 1, 0, 0, 0)
        (cluster.dir / "go-j2").touch()
        allocation_in(cluster, "j2", RUNNING)
        is_at(cluster, "j2", 0, 0, 0, 0)
        text = (cluster.dir / "restores").read_text()
        assert restores(cluster) == ["j0", "j1", "j2"] and text.count("--rate 100000000") == 3, text
        cluster.debug_check()


def scratch(cluster):
    targets = json.loads(cluster.ctl("targets", "-o", "json").stdout)["targets"]
    return next(target for target in targets if target["spec"]["target_id"] == "scratch")


def jobs_write_one_after_the_other_whoever_leads():
    with Cluster(members=3, agents=("a",), policy={**POLICY, "checkpoint_timeout": "60s"}) as cluster:
        cluster.let_others_in()
        slow_worker(cluster, "put")
        cluster.start()
        cluster.ctl("target", "put", "scratch", "--max-writes", "1", "--write", "100GB/s")
        for name in JOBS:
            cluster.register(name, [("a", 1, MIB)])
            cluster.run_job("a", name, heat(cluster, name))
        all_run(cluster)
        asked = {name: hint(cluster, name) for name in JOBS}
        wait_until("one writes", lambda: restores(cluster, "put"), 20)
        first, = restores(cluster, "put")
        waiting = [name for name in JOBS if name != first]
        assert scratch(cluster)["parts_writing"] == 1 and scratch(cluster)["spec"]["max_writes"] == 1, scratch(cluster)
        wait_until("it is explained", lambda: "1 parts are written (max_writes 1)" in cluster.ctl("explain", waiting[0], check=False).stdout, 20)

        dead = cluster.leader()
        dead.kill()
        cluster.wait_leader()
        wait_until("it is known who writes", lambda: scratch(cluster)["parts_writing"] == 1, 20)
        assert [checkpoint(cluster, name, asked[name]).state for name in waiting] == [REQUESTED] * 2
        http = cluster.wait_leader().http
        wait_until("the line is measured", lambda: [metric(http, f'ckpt_destination_writes{{destination="scratch",state="{state}"}}')
                                                    for state in ("writing", "waiting")] == [1, 2], 10)
        assert restores(cluster, "put") == [first], "the others still wait"
        dead.start()
        for i in range(len(JOBS)):
            wait_until("one more writes", lambda i=i: len(restores(cluster, "put")) > i, 20)
            *_, name = restores(cluster, "put")
            assert len(restores(cluster, "put")) == i + 1, "two at a time"
            (cluster.dir / f"go-{name}").touch()
            ends_in(cluster, name, asked[name], (COMPLETE,))
        assert sorted(restores(cluster, "put")) == sorted(JOBS)
        wait_until("nobody writes", lambda: scratch(cluster).get("parts_writing", 0) == 0, 20)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([jobs_read_one_after_the_other_whoever_leads, jobs_write_one_after_the_other_whoever_leads]))
