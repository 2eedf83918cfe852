#!/usr/bin/python3
"""V-015: what keeps a drill from beginning, and that one which has begun ends by its timer, whatever is done to the cluster meanwhile."""
import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, tap, wait_until  # noqa: E402
from drills import drills_of, over, ready  # noqa: E402

KINDS = ("leader-kill", "leader-hang", "member-loss", "storage-outage", "restore")


def refused(cluster, kind, status):
    """By the plan as well as by the run."""
    run = cluster.ctl("drill", "run", kind, "--yes", check=False)
    plan = cluster.ctl("drill", "plan", kind, check=False)
    assert run.returncode == 4 and status in run.stderr, (kind, run)
    assert plan.returncode == 4 and f"DOES NOT HOLD: {status}" in plan.stdout, (kind, plan)


def another_build(cluster):
    """The same program under another name of its build."""
    build = subprocess.run([BIN / "ckptd", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0].removeprefix("ckptd ").encode()
    program = cluster.dir / "ckptd-other"
    text = (BIN / "ckptd").read_bytes()
    assert build in text, build
    program.write_bytes(text.replace(build, re.sub(rb"^\d", b"9", build)))
    program.chmod(0o755)
    return program


def minute_of_day():
    return int(time.time()) // 60 % 1440


def pauses_windows_upgrades_and_other_drills_keep_one_from_beginning():
    with Cluster(members=3) as cluster:
        cluster.start()
        follower = next(m for m in cluster.members if m is not cluster.leader())
        follower.kill(15)
        assert follower.process.wait(30) == 0
        follower.program = another_build(cluster)
        follower.start()
        wait_until("the leader knows its build", lambda: "DRILL_UPGRADE" in cluster.ctl("drill", "plan", "leader-hang", check=False).stdout, 20)
        for kind in KINDS[1:]:
            refused(cluster, kind, "DRILL_UPGRADE")
        follower.kill(15)
        assert follower.process.wait(30) == 0
        follower.program = None
        follower.start()
        ready(cluster, "member-loss")
        cluster.ctl("policy", "set", f"drill_window_from_minute={(minute_of_day() + 120) % 1440 or 1440}", "drill_window_minutes=60")
        refused(cluster, "member-loss", "DRILL_WINDOW")
        cluster.ctl("policy", "set", "drill_window_from_minute=1440", "drill_window_minutes=1440")
        cluster.ctl("cluster", "pause", "--for", "10m", "a switch is changed")
        for kind in KINDS[1:]:
            refused(cluster, kind, "CLUSTER_PAUSED")
        cluster.ctl("cluster", "resume")
        cluster.ctl("drill", "run", "member-loss", "--duration", "2s", "--yes", "--no-wait")
        for kind in KINDS[1:]:
            refused(cluster, kind, "DRILL_UNDER_WAY")
        # It goes on: no window, and nobody's pause, leaves a fault in force.
        cluster.ctl("policy", "set", f"drill_window_from_minute={(minute_of_day() + 120) % 1440 or 1440}", "drill_window_minutes=60")
        cluster.ctl("cluster", "pause", "--for", "10m", "a switch is changed")
        drill = over(cluster, 1)
        assert drill["state"] == "PASSED", drill
        assert [d["drill_id"] for d in drills_of(cluster)] == [1], drills_of(cluster)
        cluster.debug_check()


def a_restored_cluster_begins_none_before_it_is_adopted():
    with Cluster(members=1) as real, Cluster(members=1) as copy:
        real.start()
        file = copy.dir / "a.ckptbackup"
        # the backup has a drill in the middle, which ends with the cluster that it was of
        real.ctl("drill", "run", "restore", "--duration", "2s", "--yes", "--no-wait")
        real.ctl("backup", "save", str(file))
        real.stop()
        copy.members[0].extra = ["--restore", str(file)]
        copy.start()
        assert [d["state"] for d in drills_of(copy)] == ["ABORTED"], drills_of(copy)
        for kind in KINDS:
            refused(copy, kind, "PASSIVE")
        copy.ctl("cluster", "adopt", "--yes")
        plan = json.loads(copy.ctl("drill", "plan", "restore", "-o", "json", check=False).stdout)["plan"]
        assert not any("PASSIVE" in guard.get("text", "") for guard in plan["guards"]), plan


if __name__ == "__main__":
    sys.exit(tap([pauses_windows_upgrades_and_other_drills_keep_one_from_beginning, a_restored_cluster_begins_none_before_it_is_adopted]))
