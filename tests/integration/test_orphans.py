#!/usr/bin/python3
"""Checkpoints that lie at a target without a record: found by the leader or by a node, shown, and removed when an operator or the policy says so; what
has another cluster's mark or none is left alone. S2-016, S2-017."""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import Cluster, metric, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY as JOBS_POLICY, all_run, complete  # noqa: E402
from test_incremental import APPLICATION  # noqa: E402
from test_places import ANN, BOB, POLICY, Site, need_root, plain_prefix  # noqa: E402

QUICK = {**POLICY, "orphan_age": "1ms", "orphan_scan_interval": "1h"}


def listed(cluster):
    return json.loads(cluster.ctl("gc", "orphans", "-o", "json").stdout)["orphans"]


def scan_anew(cluster):
    cluster.ctl("gc", "orphans", "--scan")


def leave_behind(cluster, name, end):
    """What a store that writes late leaves: the folder of a job's checkpoint, when job and checkpoint are long gone. Returns its path and id."""
    folder = next(iter(cluster.scratch.glob(f"*/*/{name}/checkpoints/*-*")))
    aside = cluster.dir / f"aside-{name}"
    subprocess.run(["cp", "-a", str(folder.parent.parent), str(aside)], check=True)
    end()
    wait_until(f"{name} has left", lambda: name not in cluster.ctl("jobs", "--all", "-o", "name").stdout.split(), 60, 0.2)
    assert not folder.parent.parent.exists(), "nothing of it is left"
    subprocess.run(["cp", "-a", str(aside), str(folder.parent.parent)], check=True)
    return folder


def with_mark(folder, name, mark):
    """The same under another id, of another cluster or of none."""
    other = folder.parent / name
    subprocess.run(["cp", "-a", str(folder), str(other)], check=True)
    for path in other.glob(".cluster.*"):
        path.unlink()
    if mark:
        (other / f".cluster.{mark}").touch()
    return other


def assert_found_and_removed(cluster, folder, kept):
    scan_anew(cluster)
    found = wait_until("the orphan is found", lambda: [o for o in listed(cluster) if o["path"] == str(folder)], 60, 0.5)[0]
    assert [o["path"] for o in listed(cluster)] == [str(folder)], listed(cluster)
    assert int(found["size_bytes"]) > 0 and found["owner"], found
    assert all(path.exists() for path in [folder, *kept]), "looking removes nothing"
    leader = cluster.wait_leader()
    wait_until("metrics tell", lambda: metric(leader.http, "ckpt_orphan_folders") == 1 and metric(leader.http, "ckpt_orphan_bytes") > 0, 10, 0.5)
    removed = cluster.ctl("gc", "run", "--orphans", "--yes")
    assert "remove 1 orphans" in removed.stdout + removed.stderr, removed
    wait_until("it is gone", lambda: not folder.exists(), 60, 0.5)
    assert all(path.exists() for path in kept), "what is not ours, and what has a record, stays"
    wait_until("it is told", lambda: any("deleted" in line for line in cluster.ctl("events", "-o", "wide").stdout.lower().splitlines()
                                         if folder.name in line), 30, 0.5)
    assert listed(cluster) == []
    return found


def a_node_looks_where_the_service_may_not():
    """As deployed: the folders are their users', the control nodes run as a service's user, the agent is root."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy=QUICK) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        cluster.start()
        try:
            for name, user in (("anns", ANN), ("bobs", BOB)):
                site.start_job(name, user)
                site.checkpoint(name)

            def end():
                cluster.ctl("end", "anns", "--yes")
                site.jobs["anns"].wait()
            folder = leave_behind(cluster, "anns", end)
            kept = [with_mark(folder, "1-900", "00000000000000aa"), with_mark(folder, "1-901", None),
                    *cluster.scratch.glob("*/*/bobs/checkpoints/*-*")]
            assert len(kept) >= 3
            found = assert_found_and_removed(cluster, folder, kept)
            assert found["owner"] == str(ANN), found
            text = cluster.ctl("gc", "orphans").stdout + cluster.ctl("gc", "orphans").stderr
            assert "by node a" in text and "no mark of this cluster" in text, text
            cluster.debug_check()
        finally:
            site.close()


def a_leader_looks_itself_where_it_may_and_the_next_one_anew():
    """Members that may read everything need no node; what was found is no state, and another leader finds it again."""
    with Cluster(members=3, agents=("a",), policy={**JOBS_POLICY, **QUICK}) as cluster:
        cluster.start()
        script = cluster.dir / "application.py"
        script.write_text(APPLICATION)
        jobs = {}
        for name in ("gone", "stays"):
            cluster.register(name, [("a", 1, 2 * MIB)])
            jobs[name] = cluster.run_job("a", name, [sys.executable, str(script)])
            all_run(cluster)
            complete(cluster, name)

        def end():
            cluster.ctl("end", "gone", "--yes")
        folder = leave_behind(cluster, "gone", end)
        kept = [with_mark(folder, "1-900", "00000000000000aa"), *cluster.scratch.glob("*/*/stays/checkpoints/*-*")]
        scan_anew(cluster)
        wait_until("the leader finds it", lambda: [o for o in listed(cluster) if o["path"] == str(folder)], 60, 0.5)
        leader = cluster.wait_leader()
        leader.kill()
        wait_until("another one leads", lambda: cluster.leader() not in (None, leader), 30, 0.2)
        wait_until("it finds it without a word", lambda: [o for o in listed(cluster) if o["path"] == str(folder)], 60, 0.5)
        leader.start()
        assert_found_and_removed(cluster, folder, kept)
        cluster.debug_check()


def stale_ones_go_without_an_order_where_the_policy_says_so():
    """S2-016, S2-017: at a leader's start, by the last use of the files; young ones, another cluster's and what has a record stay."""
    with Cluster(members=1, agents=("a",), policy={**JOBS_POLICY, **QUICK}) as cluster:
        cluster.start()
        script = cluster.dir / "application.py"
        script.write_text(APPLICATION)
        for name in ("gone", "stays"):
            cluster.register(name, [("a", 1, 2 * MIB)])
            cluster.run_job("a", name, [sys.executable, str(script)])
            all_run(cluster)
            complete(cluster, name)
        complete(cluster, "gone")
        stale = leave_behind(cluster, "gone", lambda: cluster.ctl("end", "gone", "--yes"))
        (read_lately,) = (path for path in stale.parent.iterdir() if path != stale)
        foreign = with_mark(stale, "1-900", "00000000000000aa")
        kept = [foreign, read_lately, *cluster.scratch.glob("*/*/stays/checkpoints/*-*")]
        long_ago = time.time() - 61 * 86400
        for folder in (stale, read_lately, foreign):
            for path in sorted(folder.rglob("*"), reverse=True) + [folder]:
                os.utime(path, (long_ago, long_ago))
        own_file = next(p for p in read_lately.glob("part-*/*") if p.is_file() and p.stat().st_nlink == 1 and p.name != "MANIFEST")  # not shared
        os.utime(own_file, (time.time(), long_ago))  # as a reader leaves it
        scan_anew(cluster)
        wait_until("it is listed", lambda: [o for o in listed(cluster) if o["path"] == str(stale)], 60, 0.2)
        assert stale.exists(), "the policy as founded only lists"
        cluster.ctl("policy", "set", "orphan_rule=remove")
        leader = cluster.wait_leader()
        leader.kill()
        leader.start()
        wait_until("it is gone", lambda: not stale.exists(), 60, 0.2)
        assert all(path.exists() for path in kept), [str(path) for path in kept if not path.exists()]
        notes = cluster.ctl("gc", "orphans").stderr
        assert "orphan_rule removes each by itself" in notes and "60" in notes, notes
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([a_node_looks_where_the_service_may_not, a_leader_looks_itself_where_it_may_and_the_next_one_anew,
                  stale_ones_go_without_an_order_where_the_policy_says_so]))
