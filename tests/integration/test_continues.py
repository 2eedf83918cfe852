#!/usr/bin/python3
"""A job under a new id goes on from the checkpoints of one that has stopped, on another node: S3-007, S3-008, S3-049."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, checkpoint_text, own_name, tap, wait_until  # noqa: E402
from jobs import COMPLETED, POLICY, REQUEUED, all_run, complete, ends, heat, no_litter, says  # noqa: E402

SPEC = ("--tenant", "physics", "--project", "heat", "--vcluster", "hpc")


def folder(cluster, job):
    return cluster.scratch / "physics" / "heat" / job


def saved_step(path):
    """Of the part at a checkpoint's path, as its application wrote it."""
    return int(re.search(r"iteration=(\d+)", next(pathlib.Path(path).rglob("iteration.txt")).read_text())[1])


def first_step(job):
    return int(re.search(r"starts at iteration (\d+)", says(job, "starts at iteration") and job.log.read_text())[1])


def register(cluster, job, node, *more, owner=None, check=True):
    return cluster.ctl("register", "--alloc", job, *SPEC, "--owner", owner or own_name(), "--node", f"{node}:1:1MiB", "--new-node",
                       "--restart", "MANUAL", *more, check=check)


def saved_twice(cluster, job, node):
    register(cluster, job, node)
    run = cluster.run_job(node, job, heat(cluster, job), ("--max-restarts", "0"))
    all_run(cluster)
    return run, [complete(cluster, job), complete(cluster, job)]


def a_requeued_job_goes_on_under_its_new_id():
    """Its scheduler gives it another id and another node: it goes on from the first one's step. What it saves lies in its own folder beside
    what somebody had put there; the first one's folder goes when the retention of the second lets it."""
    with Cluster(members=3, agents=("a", "b"), policy={**POLICY, "keep_complete": 2}, copies=False) as cluster:
        cluster.start()
        run, (first, second) = saved_twice(cluster, "one", "a")
        refused = register(cluster, "two", "b", "--continues", "one", check=False)
        assert refused.returncode == 4 and "CONTINUES_RUNS" in refused.stderr, refused
        cluster.ctl("end", "one", "--node-failure", "--yes")
        assert cluster.allocation("one").state == REQUEUED
        ends(run)
        stranger = register(cluster, "two", "b", "--continues", "one", owner="mallory", check=False)
        assert stranger.returncode == 7 and "CONTINUES_OTHERS" in stranger.stderr, stranger
        assert [c.allocation_id for c in cluster.checkpoints()] == ["one", "one"]
        there = folder(cluster, "two") / "checkpoints" / checkpoint_text(second.checkpoint_id)
        there.mkdir(parents=True)
        (there / "somebody's").write_text("own")

        register(cluster, "two", "b", "--continues", "one")
        went = {c.checkpoint_id: c for c in cluster.checkpoints("two")}
        assert set(went) == {first.checkpoint_id, second.checkpoint_id} and not cluster.checkpoints("one")
        assert all(c.home == "one" for c in went.values())
        assert went[second.checkpoint_id].path == second.path and pathlib.Path(second.path).is_dir()
        assert cluster.allocation("two").restart_checkpoint_id == second.checkpoint_id
        assert "continued by job two" in cluster.ctl("job", "one").stdout
        assert "in the folder of job one" in cluster.ctl("checkpoint", checkpoint_text(second.checkpoint_id)).stdout
        assert f"two continues one and has its checkpoint {checkpoint_text(second.checkpoint_id)}" in cluster.ctl("events", "two").stdout
        gone = cluster.ctl("restart", "one", "--node", "a:1", check=False)
        assert gone.returncode == 4 and "CONTINUED" in gone.stderr, gone
        cluster.leader().kill()

        step = saved_step(second.path)
        two = cluster.run_job("b", "two", heat(cluster, "two"), ("--max-restarts", "0"))
        all_run(cluster)
        assert first_step(two) == step > 0
        cluster.ctl("policy", "set", "retention=1s")  # holds from its next checkpoint on
        third = complete(cluster, "two")
        assert third.home == "" and pathlib.Path(third.path).parent == there.parent
        assert saved_step(third.path) > step
        fourth = complete(cluster, "two")  # two of its own are kept
        assert fourth.home == "" and pathlib.Path(fourth.path).parent == there.parent
        wait_until("the first one's folder is gone", lambda: not folder(cluster, "one").exists(), 60, 0.2)
        assert pathlib.Path(third.path).is_dir() and pathlib.Path(fourth.path).is_dir()
        assert (there / "somebody's").read_text() == "own"
        for member in cluster.members:
            if not member.running():
                member.start()
        cluster.debug_check()
        no_litter(cluster)


def what_has_ended_for_good_is_gone_on_from():
    """brestart: a new job from a job that was stopped or is COMPLETED, but from none that has saved nothing; the node's own id of a third job."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        register(cluster, "empty", "a")
        cluster.ctl("end", "empty", "--yes")
        nothing = register(cluster, "next", "b", "--continues", "empty", check=False)
        assert nothing.returncode == 4 and "CONTINUES_NOTHING" in nothing.stderr, nothing
        run, (_, second) = saved_twice(cluster, "one", "a")
        cluster.ctl("end", "one", "--yes")
        assert cluster.allocation("one").state == COMPLETED
        ends(run)
        register(cluster, "two", "a", "--continues", "one")
        two = cluster.run_job("a", "two", heat(cluster, "two"), ("--max-restarts", "0"))
        all_run(cluster)
        assert first_step(two) == saved_step(second.path)
        third = complete(cluster, "two")
        cluster.ctl("end", "two", "--yes")
        ends(two)
        register(cluster, "three", "b", "--continues", "two")
        assert {c.checkpoint_id: c.home for c in cluster.checkpoints("three")}[third.checkpoint_id] == "two"
        three = cluster.run_job("b", "three", heat(cluster, "three"), ("--max-restarts", "0"))
        all_run(cluster)
        assert first_step(three) == saved_step(third.path)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([a_requeued_job_goes_on_under_its_new_id, what_has_ended_for_good_is_gone_on_from]))
