#!/usr/bin/python3
"""Clocks that step while members run, and folders in the wrong hands. I1, I5, I6, I7, I11.

Flow    libfaketime reads the offset of a member's wall clock from a file, so that it steps while the member runs; the monotonic clock is
        left alone, as the kernel does when the time of a host is set.
"""
import calendar
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, http_status, metric, tail, wait_until  # noqa: E402
from isolate import main  # noqa: E402
from workload import Load  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
RAFT = {"snapshot_after_entries": 500}
STEPS = ("+1h", "-1h", "+0")


def faketime():
    return next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


class Clock:
    """The wall clock of one member; step() moves it by "+1h" and the like from the true time."""

    def __init__(self, member):
        self.file = member.cluster.dir / f"{member.name}.clock"
        self.step("+0")
        member.prefix = ["env", f"LD_PRELOAD={faketime()}", f"FAKETIME_TIMESTAMP_FILE={self.file}", "FAKETIME_NO_CACHE=1",
                         "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]

    def step(self, offset):
        fresh = self.file.with_suffix(".new")
        fresh.write_text(offset + "\n")
        fresh.rename(self.file)


def clock_steps_of_an_hour_move_no_timer_and_lose_nothing():
    """The leader's clock steps forward, back and to the truth, then a follower's that leads afterwards."""
    if faketime() is None:
        return "needs libfaketime (package faketime)"
    with Cluster(raft=RAFT) as cluster:
        clocks = {member: Clock(member) for member in cluster.members}
        cluster.start()
        load = Load(cluster, seed=SEED, attempt_s=0.5)
        load.progress()
        for round_number in range(2):
            leader = cluster.wait_leader()
            term = metric(leader.http, "ckpt_raft_term")
            for offset in STEPS:
                before = time.time()
                clocks[leader].step(offset)
                load.progress(40)
                time.sleep(0.4)
                assert cluster.leader() is leader and metric(leader.http, "ckpt_raft_term") == term, (
                    f"a step of {offset} cost the leader its office")
                stamp = cluster.events()[-1].at_ms / 1000
                assert before - 30 < stamp < time.time() + 30, f"after {offset} the state's time is {stamp - time.time():.0f} s off"
            clocks[leader].step(("+1h", "-1h")[round_number])  # stays off while it follows
            cluster.ctl("transfer")
            wait_until("another one leads", lambda: cluster.leader() not in (None, leader), 10)
            load.progress()
        load.verdict()
        times = [event.at_ms for event in cluster.events()]
        assert times == sorted(times), "the time of the state went back"
        written = [calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) - time.time() for member in cluster.members
                   for stamp in re.findall(r"^time=([-0-9T:]+)", member.log.read_text(), re.MULTILINE)]
        assert max(written) > 3000 and min(written) < -3000, "no clock was off when a log line was written: the steps did not work"


def folders_in_the_wrong_hands_are_refused_and_left_alone():
    """I11: a second process on a folder in use, another member's folder, a folder of another cluster; the members go on undisturbed."""
    with Cluster(raft=RAFT) as cluster, Cluster(members=1) as other:
        cluster.start()
        load = Load(cluster, seed=SEED, clients=2)
        load.progress()
        leader = cluster.wait_leader()
        one, two = [m for m in cluster.members if m is not leader]

        def refused(name, folder, *words):
            before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} if folder != one.data_dir else None
            for extra in ((), ("--bootstrap",)):
                result = subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", name, "--data-dir", str(folder),
                                         *extra], capture_output=True, text=True, timeout=20)
                said = result.stdout + result.stderr
                assert result.returncode == 1 and str(folder) in said and all(w in said for w in words), (extra, result.returncode, said)
            if before is not None:
                assert before == {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}, f"{folder} was changed"

        two.kill()
        copy = cluster.dir / "copy"
        shutil.copytree(two.data_dir, copy)
        refused(one.name, one.data_dir, "LOCKED")
        refused(one.name, copy)
        refused(two.name, one.data_dir)
        other.config.write_text(other.config.read_text().replace("cluster_id: demo", "cluster_id: another"))
        other.start()
        other.members[0].kill()
        foreign = other.dir / "foreign"
        shutil.copytree(other.members[0].data_dir, foreign)
        refused(one.name, foreign)
        two.start()
        wait_until("all members are ready", lambda: all(http_status(m.http, "/readyz") == 200 for m in cluster.members), 20)
        load.progress()
        load.verdict()


if __name__ == "__main__":
    sys.exit(main([clock_steps_of_an_hour_move_no_timer_and_lose_nothing, folders_in_the_wrong_hands_are_refused_and_left_alone]))
