#!/usr/bin/python3
"""Destinations that fail, and checkpoints that are damaged or gone. I24, I27, S1-074, L3."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, checkpoint_text, common_pb2, grpc, metric, tap, wait_until  # noqa: E402
from jobs import (COMPLETE, DISPATCHED, FAILED, MIB, PAUSED, POLICY, REQUESTED, RUNNING, TIMED_OUT, WRITING, all_run, complete, ends,  # noqa: E402
                  ends_in, heat, hint, no_litter, says)


def damaged_and_missing_checkpoints_are_passed_over_and_said():
    """I27: tampered bytes, a deleted manifest, a link, a missing destination; and starts that nobody counts on."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY, copies=False) as cluster:
        cluster.start()
        for name in ("tampered", "unlinked", "ruined", "linked", "away"):
            cluster.register(name, [("a", 1, MIB)], grace_ms=500)
            cluster.run_job("a", name, heat(cluster, name))
        all_run(cluster)
        jobs = {job.allocation: job for job in cluster.jobs}
        first = {name: complete(cluster, name) for name in jobs}
        second = {name: complete(cluster, name) for name in ("tampered", "unlinked", "ruined")}

        def text(record):
            return checkpoint_text(record.checkpoint_id)

        def spoil(record):
            path = pathlib.Path(record.path) / "part-0000" / "grid.bin"
            path.write_bytes(b"tampered" + path.read_bytes()[8:])
        spoil(second["tampered"])
        (pathlib.Path(second["unlinked"].path) / "part-0000" / "MANIFEST").unlink()
        spoil(first["ruined"])
        spoil(second["ruined"])
        folder = pathlib.Path(first["linked"].path).parent
        folder.symlink_to(folder.rename(cluster.dir / "moved"))
        for name in ("tampered", "unlinked", "ruined", "linked"):
            os.kill(jobs[name].application_pid(), signal.SIGKILL)
        for name in ("tampered", "unlinked"):
            says(jobs[name], f"checkpoint {text(second[name])} is passed over, it is damaged: part-0000 (written on a): ")
            assert jobs[name].log.read_text().count("damaged") == 1, jobs[name].log.read_text()
            says(jobs[name], f"from checkpoint {jobs[name].work_dir}/restore/{text(first[name])}")
        for record in (second["ruined"], first["ruined"]):
            says(jobs["ruined"], f"checkpoint {text(record)} is passed over, it is damaged: ")
        says(jobs["ruined"], "no restart point")
        ends(jobs["ruined"])
        assert "from scratch: there is no checkpoint," not in jobs["ruined"].log.read_text(), "never from scratch in silence"
        says(jobs["linked"], f"checkpoint {text(first['linked'])} cannot be restored (part-0000, written on a): ")
        assert ends(jobs["linked"]) == 125, "it does not wait for ever"
        for name in ("ruined", "linked"):
            wait_until("the broker hears that the application did not come back", lambda n=name: cluster.allocation(n).state != RUNNING, 10)

        cluster.storage_down()  # neither lost nor damaged: just not there
        os.kill(jobs["away"].application_pid(), signal.SIGKILL)
        wait_until("the agent looks for it", lambda: "event=restore_failed allocation=away" in cluster.agents["a"].log.read_text(), 10)
        assert jobs["away"].running()
        says(jobs["away"], f"checkpoint {text(first['away'])} waits for {cluster.scratch} since ")
        says(jobs["away"], ": storage unreachable, ckpt-worker ")
        says(jobs["away"], "goes on by itself when that can be read")
        cluster.storage_up()
        says(jobs["away"], f"from checkpoint {jobs['away'].work_dir}/restore/{text(first['away'])}")

        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="unlinked"))
        ends(jobs["unlinked"])
        refused = {"nobody": cluster.run_job("a", "nobody", ["sleep", "60"]), "unlinked": cluster.run_job("a", "unlinked", ["sleep", "60"]),
                   "away": cluster.run_job("b", "away", ["sleep", "60"])}
        says(refused["nobody"], "the broker does not know this allocation")
        says(refused["unlinked"], "allocation unlinked does not run, it is completed")
        says(refused["away"], "allocation away is not registered on node b but on a")
        assert [ends(job) for job in refused.values()] == [125] * 3
        cluster.debug_check()


def a_destination_that_is_full_read_only_or_hangs():
    """ENOSPC fails the attempt, read-only is an outage, a worker that hangs is killed at the deadline; nothing half-written is left."""
    with Cluster(members=1, agents=("a",), policy=POLICY, storage_watch={"timeout_ms": 400}) as cluster:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,mode=1777", "tmpfs", cluster.scratch], capture_output=True, text=True)
        if mounted.returncode != 0:
            return f"mount: {mounted.stderr.strip()}"
        try:
            destination_faults(cluster)
        finally:
            subprocess.run(["umount", "-l", cluster.scratch], check=True)


def destination_faults(cluster):
    gauge = "lattice_checkpoint_storage_unavailable"
    cluster.start()
    cluster.register("big", [("a", 1, MIB)])
    cluster.register("small", [("a", 1, MIB)])
    cluster.register("stuck", [("a", 1, 1000)], checkpoint_timeout_ms=1500, write_bytes_per_s=10000)
    jobs = {"big": cluster.run_job("a", "big", [str(BIN / "heat"), "--size", "300", "--iterations", "100000000", "--delay-us", "2000"])}
    cluster.run_job("a", "small", heat(cluster, "small"))
    cluster.run_job("a", "stuck", heat(cluster, "stuck"))
    all_run(cluster)
    asked = {name: hint(cluster, name) for name in ("big", "stuck")}
    worker = int(wait_until("stuck's worker copies", lambda: subprocess.run(
        ["pgrep", "-f", f"ckpt-worker put .*/stuck/.*{cluster.dir}"], capture_output=True, text=True).stdout, 10))
    os.kill(worker, signal.SIGSTOP)
    record = ends_in(cluster, "big", asked["big"], (COMPLETE, FAILED))
    assert record.state == FAILED and record.attempt == 2, record
    assert record.reason == common_pb2.REASON_STORAGE_FULL, record
    says(jobs["big"], "storage full: ckpt-worker put: ")
    says(jobs["big"], "No space left on device; free space in its file system, then retry")
    assert "No space left on device" in cluster.agents["a"].log.read_text()
    complete(cluster, "small")
    assert ends_in(cluster, "stuck", asked["stuck"], (COMPLETE, FAILED, TIMED_OUT)).state == TIMED_OUT
    wait_until("the stopped worker is killed", lambda: not pathlib.Path(f"/proc/{worker}").exists(), 10)
    wait_until("what it wrote is removed", lambda: not list((cluster.scratch / "physics/heat/stuck").rglob(".part-*.tmp.*")), 10)

    subprocess.run(["mount", "-o", "remount,ro", cluster.scratch], check=True)
    wait_until("read-only is an outage", lambda: metric(cluster.wait_leader().http, gauge) == 1, 10)
    try:
        hint(cluster, "small")
        raise AssertionError("a hint was taken in an outage")
    except grpc.RpcError as error:
        assert "STORAGE_UNAVAILABLE" in error.details(), error
    subprocess.run(["mount", "-o", "remount,rw", cluster.scratch], check=True)
    wait_until("it is over", lambda: metric(cluster.wait_leader().http, gauge) == 0, 10)
    complete(cluster, "small")
    assert all(job.application_pid() for job in cluster.jobs), "the destination's faults are not the applications'"
    no_litter(cluster)
    cluster.debug_check()


def a_flapping_destination_and_dying_leaders_lose_no_checkpoint():
    """I24, S1-074, L3: down and up every 0.7 s, three leader kills: each pause is resumed once, everything asked for completes."""
    with Cluster(members=3, agents=("a", "b"), policy={**POLICY, "max_attempts": 16},
                 storage_watch={"interval_ms": 100, "failures_down": 1, "successes_up": 1}) as cluster:
        cluster.start()
        jobs = {f"f{i}": "ab" if i % 2 else "a" for i in range(4)}
        for name, nodes in jobs.items():
            cluster.register(name, [(node, 1, MIB) for node in nodes], write_bytes_per_s=100000)
            for node in nodes:
                cluster.run_job(node, name, heat(cluster, name + node, "--slow-ms", "300"))
        all_run(cluster)
        asked, down, flips, kills = [], False, 0, 0
        began = time.monotonic()
        while flips < 12:
            for name in jobs:
                try:
                    asked.append(hint(cluster, name))
                except grpc.RpcError as error:
                    assert "CHECKPOINT_ACTIVE" in error.details() or "STORAGE_UNAVAILABLE" in error.details(), error
            if time.monotonic() - began > 0.7 * flips + 0.7:
                (cluster.storage_up if down else cluster.storage_down)()
                down, flips = not down, flips + 1
            if time.monotonic() - began > 2 * kills + 2 and kills < 3:
                dead = cluster.wait_leader()
                dead.kill()
                cluster.wait_leader()
                dead.start()
                kills += 1
            time.sleep(0.05)
        records = wait_until("all is settled", lambda: (lambda c: c if all(r.state not in (REQUESTED, DISPATCHED, WRITING, PAUSED) for r in c)
                                                        else None)(cluster.checkpoints()), 40, 0.1)
        assert sorted(asked) == sorted(r.checkpoint_id for r in records) and len(set(asked)) == len(asked)
        assert all(r.state == COMPLETE and r.paused_count == r.resumed_count for r in records), records
        assert any(r.paused_count for r in records), "the outages met no checkpoint"
        assert all(job.application_pid() for job in cluster.jobs)
        no_litter(cluster)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([damaged_and_missing_checkpoints_are_passed_over_and_said,
                  a_destination_that_is_full_read_only_or_hangs,
                  a_flapping_destination_and_dying_leaders_lose_no_checkpoint]))
