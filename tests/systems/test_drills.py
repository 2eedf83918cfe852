#!/usr/bin/python3
"""V-015: drills of storage and of backups on a cluster of real processes, and what ten kills say beside a client outside."""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, checkpoint_text, tap, wait_until  # noqa: E402
from drills import Outside, ready, run, supervised  # noqa: E402
from jobs import POLICY, RUNNING, complete, heat  # noqa: E402

KILLS = 10


def an_outage_of_storage_pauses_what_is_written_and_resumes_it_once():
    with Cluster(members=3, agents=("a",), policy=POLICY, storage_watch={"interval_ms": 200}, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, 1 << 20)])
        cluster.run_job("a", "j", heat(cluster, "j", "--slow-ms", "1500"))
        wait_until("j runs", lambda: cluster.allocation("j").state == RUNNING, 20)
        ready(cluster, "storage-outage")
        unknown = cluster.ctl("drill", "run", "storage-outage", "--target", "nowhere", "--yes", check=False)
        assert unknown.returncode == 3 and "TARGET_NOT_FOUND" in unknown.stderr, unknown
        result = run(cluster, "storage-outage", "--job", "j", "--duration", "4s")
        drill = result["drill"]
        assert drill["state"] == "PASSED" and drill["target_id"] == "scratch" and drill["checkpoint_complete"], result
        assert 0 < drill["down_ms"] < 2500 and 2000 <= drill["up_ms"] < 6000, drill
        assert drill["paused"] == drill["resumed"] == 1 and drill["checkpoint_attempts"] == 2, drill
        targets = json.loads(cluster.ctl("targets", "-o", "json").stdout)["targets"]
        assert all(target["available"] for target in targets), targets
        print(f"# target away after {drill['down_ms']} ms, back after {drill['up_ms']} ms, {drill['paused']} paused", flush=True)


def a_restore_proves_a_backup_and_reads_a_checkpoint():
    with Cluster(members=3, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        backups = cluster.dir / "backups"
        backups.mkdir()
        cluster.config.write_text(cluster.config.read_text() + f'backups: {{ directory: "{backups}" }}\n')
        cluster.start()
        cluster.register("j", [("a", 1, 1 << 20)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        wait_until("j runs", lambda: cluster.allocation("j").state == RUNNING, 20)
        identifier = complete(cluster, "j").checkpoint_id
        ready(cluster, "restore")
        result = run(cluster, "restore")
        drill = result["drill"]
        assert drill["state"] == "PASSED" and drill["checkpoint_id"] == checkpoint_text(identifier) and drill["checkpoint_complete"], result
        assert [m["word"]["backup_restored"] for m in drill["members"]].count(True) == 1 and len(list(backups.iterdir())) == 1, result
        shards = list((cluster.dir / "scratch").rglob("*.bin")) or [p for p in (cluster.dir / "scratch").rglob("*") if p.is_file() and p.name != "MANIFEST" and "checkpoints" in str(p)]
        shards[0].write_bytes(b"damaged" + shards[0].read_bytes()[7:])
        ready(cluster, "restore")
        result = run(cluster, "restore", code=1)
        assert result["drill"]["state"] == "FAILED" and [c["name"] for c in result["checks"] if c["failed"]] == ["the checkpoint did not come"], result


def ten_kills_say_what_a_client_outside_says():
    """No gate by time: the figures are compared for people."""
    with Cluster(members=3, policy=POLICY) as cluster:
        cluster.start()
        supervised(cluster)
        inside, outside = [], []
        for _ in range(KILLS):
            ready(cluster, "leader-kill")
            with Outside(cluster) as client:
                result = run(cluster, "leader-kill", "--duration", "2s")
            assert result["drill"]["state"] == "PASSED", result
            inside.append(result["away_p50_ms"])
            outside.append(client.away_ms)
        ours, theirs = statistics.median(inside), statistics.median(outside)
        agree = abs(ours - theirs) <= max(50, 0.2 * theirs)
        print(f"# service away, medians of {KILLS} kills: {ours:.0f} ms by members, {theirs:.0f} ms by a client outside: "
              f"{'within' if agree else 'NOT within'} 20 % or 50 ms", flush=True)
        print(f"# by members {inside}, outside {[round(ms) for ms in outside]}", flush=True)


if __name__ == "__main__":
    sys.exit(tap([an_outage_of_storage_pauses_what_is_written_and_resumes_it_once, a_restore_proves_a_backup_and_reads_a_checkpoint],
                 long=[ten_kills_say_what_a_client_outside_says]))
