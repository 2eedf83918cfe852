#!/usr/bin/python3
"""Complete checkpoints are read again, by a control node or by nodes: what storage damaged is found and told before a job needs it.
D-004, I28."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import Cluster, checkpoint_text, common_pb2, metric, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, checkpoint, complete, heat, restart_point  # noqa: E402
from test_incremental import APPLICATION  # noqa: E402
from test_places import ANN, Site, need_root, plain_prefix  # noqa: E402

DAMAGED, VERIFIED, WHOLE, UNREADABLE = 19, 26, 1, 3


def told(cluster, kind, identifier):
    return [e for e in cluster.events() if e.kind == kind and e.checkpoint_id == identifier]


def folder(cluster, name, identifier, part=0):
    found, = cluster.scratch.glob(f"*/*/{name}/checkpoints/{checkpoint_text(identifier)}/part-{part:04d}")
    return found


def flip(path):
    """One bit in the middle, with the times that it had: what storage does."""
    before = path.stat()
    mode = before.st_mode
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.seek(before.st_size // 2)
        byte = file.read(1)
        file.seek(before.st_size // 2)
        file.write(bytes([byte[0] ^ 1]))
    path.chmod(mode)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def largest(path):
    return max((f for f in path.rglob("*") if f.is_file() and f.name != "MANIFEST"), key=lambda f: f.stat().st_size)


def damage_is_found(cluster, name, identifier, part=0):
    """After the newest one was found damaged the one before it is read by itself: then there may be nothing left to ask for."""
    asked = cluster.ctl("scrub", checkpoint_text(identifier), check=False)
    event = wait_until("the damage is told", lambda: next(iter(told(cluster, DAMAGED, identifier)), None), 30)
    assert asked.returncode == 0 or "no complete checkpoint that is whole" in asked.stderr, asked
    assert f"part {part}" in event.subject, event
    assert checkpoint(cluster, name, identifier).damaged
    assert "DAMAGED" in cluster.ctl("checkpoint", checkpoint_text(identifier)).stdout
    row, = [line for line in cluster.ctl("checkpoints", name).stdout.splitlines() if line.startswith(checkpoint_text(identifier) + " ")]
    assert "DAMAGED" in row and "COMPLETE" not in row, row
    listed = json.loads(cluster.ctl("checkpoints", name, "-o", "json").stdout)["checkpoints"]
    assert [c["damaged"] for c in listed if c["checkpoint_id"] == checkpoint_text(identifier)] == [True], listed
    return event


def a_bit_flipped_anywhere_is_found_by_the_control_node():
    """Data, manifest, a part that is gone: nothing begins from it any more, the job goes back to the last one that is whole."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        made = [complete(cluster, "j").checkpoint_id for _ in range(4)]
        listed = cluster.ctl("scrub", "--allocation", "j")
        assert "4 checkpoints are read again" in listed.stderr, listed
        for identifier in made:
            event = wait_until("it is told to be whole", lambda i=identifier: next(iter(told(cluster, VERIFIED, i)), None), 30)
            assert event.new_state == WHOLE, event
            assert checkpoint(cluster, "j", identifier).verified_at_ms > 0
        assert "read again and whole" in cluster.ctl("checkpoint", checkpoint_text(made[0])).stdout
        flip(largest(folder(cluster, "j", made[3])))
        damage_is_found(cluster, "j", made[3])
        assert restart_point(cluster, "j").checkpoint_id == made[2]
        flip(folder(cluster, "j", made[2]) / "MANIFEST")
        damage_is_found(cluster, "j", made[2])
        (folder(cluster, "j", made[1]) / "MANIFEST").unlink()
        damage_is_found(cluster, "j", made[1])
        assert restart_point(cluster, "j").checkpoint_id == made[0]
        warning = "the last checkpoint of job j is DAMAGED, it would begin from " + checkpoint_text(made[0])
        assert warning in cluster.ctl("status").stdout, cluster.ctl("status").stdout
        http = cluster.members[0].http
        assert metric(http, "ckpt_restart_points_damaged_total") == 3
        whole = [event for event in cluster.events() if event.kind == VERIFIED and event.new_state == WHOLE]
        assert len(whole) >= 4 and metric(http, "ckpt_verifications_total") == len(whole), whole
        refused = cluster.ctl("scrub", checkpoint_text(made[3]), check=False)
        assert refused.returncode != 0 and "no complete checkpoint" in refused.stderr, refused
        complete(cluster, "j")
        assert "DAMAGED" not in cluster.ctl("status").stdout, "a newer one is whole"
        refused = cluster.ctl("scrub", checkpoint_text(made[0]), "--target", "scratch", check=False)
        assert refused.returncode == 2 and "--target" in refused.stderr, refused
        cluster.debug_check()


def the_last_one_of_each_job_is_read_again_by_itself():
    """scrub_interval: by schedule, and found damaged without anybody's asking; the job is worth another one at once."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "scrub_interval": "2s", "min_interval": "1s"}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        older, last = (complete(cluster, "j").checkpoint_id for _ in range(2))
        first = wait_until("it was read again", lambda: checkpoint(cluster, "j", last).verified_at_ms, 30)
        wait_until("it was read once more", lambda: checkpoint(cluster, "j", last).verified_at_ms > first, 30)
        assert not told(cluster, VERIFIED, last), "nobody asked"
        before = cluster.allocation("j").last_complete_snapshot_at_ms
        flip(largest(folder(cluster, "j", last)))
        wait_until("the damage is told", lambda: told(cluster, DAMAGED, last), 30)
        assert restart_point(cluster, "j").checkpoint_id == older
        assert cluster.allocation("j").last_complete_snapshot_at_ms < before, "there is more to lose"
        cluster.debug_check()


def what_checkpoints_share_is_found_in_each_and_goes_no_further():
    """Unchanged files are one file: rot in it that keeps its times is in all that took it over. One that is found has the one before read, and
    the next one takes nothing over."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        script = cluster.dir / "application.py"
        script.write_text(APPLICATION)
        cluster.run_job("a", "job", [sys.executable, str(script)])
        all_run(cluster)
        made = [complete(cluster, "job").checkpoint_id for _ in range(3)]
        weights = [folder(cluster, "job", i) / "weights.bin" for i in made]
        assert weights[0].samefile(weights[2]), "they share it"
        flip(weights[2])
        damage_is_found(cluster, "job", made[2])
        for identifier in made[:2]:
            wait_until("the one before was read, too", lambda i=identifier: told(cluster, DAMAGED, i), 30)
        last = complete(cluster, "job")
        assert sum(s.written_bytes for s in last.shards) == last.size_bytes, last
        cluster.ctl("scrub", checkpoint_text(last.checkpoint_id))
        wait_until("the next one is whole", lambda: any(e.new_state == WHOLE for e in told(cluster, VERIFIED, last.checkpoint_id)), 30)
        again = complete(cluster, "job")
        assert sum(s.written_bytes for s in again.shards) < 100, "what is whole is taken over"
        cluster.debug_check()


def what_the_control_node_may_not_read_is_read_by_nodes():
    """Folders 0700 of a user, a service's user without privileges, agents as root: one that did not write the part reads it as its owner."""
    if not need_root():
        return
    with Cluster(members=3, agents=("a", "b"), policy={**POLICY, "min_interval": "1ms"}) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        cluster.start()
        try:
            site.start_job("anns", ANN)
            older, last = (site.checkpoint("anns").checkpoint_id for _ in range(2))
            cluster.ctl("scrub", checkpoint_text(last))
            event = wait_until("it is told to be whole", lambda: next(iter(told(cluster, VERIFIED, last)), None), 30)
            assert event.new_state == WHOLE, event
            said = "kind=REPORT_KIND_VERIFIED allocation=anns"
            assert said in cluster.agents["b"].log.read_text() and said not in cluster.agents["a"].log.read_text()
            flip(largest(folder(cluster, "anns", last)))
            event = damage_is_found(cluster, "anns", last)
            assert "read by b" in event.subject, event
            assert restart_point(cluster, "anns").checkpoint_id == older
            cluster.agents["b"].kill()
            cluster.ctl("scrub", checkpoint_text(older))
            leader = cluster.leader()
            leader.kill()
            cluster.agents["b"].start()
            wait_until("another leader has it read", lambda: told(cluster, VERIFIED, older), 60)
            leader.start()
            cluster.debug_check()
        finally:
            site.close()


def what_nobody_can_read_is_told_and_not_taken_for_damaged():
    """The destination is there and gives nothing: that says nothing of the data."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy={**POLICY, "min_interval": "1ms"}) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        worker = cluster.bin / "ckpt-worker"
        worker.rename(cluster.bin / "ckpt-worker.real")
        worker.write_text("""#!/bin/sh
case "$1 $*" in
"verify "*"--as owner"*) echo "ckpt-worker verify: state.bin: Input/output error" >&2; exit 5;;
*) exec "${0%/*}/ckpt-worker.real" "$@";;
esac
""")
        worker.chmod(0o755)
        cluster.start()
        try:
            site.start_job("anns", ANN)
            identifier = site.checkpoint("anns").checkpoint_id
            cluster.ctl("scrub", checkpoint_text(identifier))
            event = wait_until("it is told", lambda: next(iter(told(cluster, VERIFIED, identifier)), None), 30)
            assert event.new_state == UNREADABLE and "Input/output error" in event.subject, event
            assert not checkpoint(cluster, "anns", identifier).damaged
            lines = cluster.ctl("events", "anns", "-o", "jsonl").stdout.splitlines()
            assert any(json.loads(line)["event"]["kind"] == "VERIFIED" for line in lines)
            assert "could not be read again" in cluster.ctl("events", "anns").stdout
            assert checkpoint(cluster, "anns", identifier).state == common_pb2.CHECKPOINT_STATE_COMPLETE
        finally:
            site.close()


if __name__ == "__main__":
    sys.exit(tap([a_bit_flipped_anywhere_is_found_by_the_control_node, the_last_one_of_each_job_is_read_again_by_itself,
                  what_checkpoints_share_is_found_in_each_and_goes_no_further, what_the_control_node_may_not_read_is_read_by_nodes, what_nobody_can_read_is_told_and_not_taken_for_damaged]))
