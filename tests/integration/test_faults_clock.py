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
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, http_status, metric, often, tail, wait_until  # noqa: E402
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
            # who was told by two clocks that its own is off may hold that for a moment longer
            wait_until("another one takes over", lambda: cluster.ctl("transfer", check=False).returncode == 0, 10, 0.5)
            wait_until("another one leads", lambda: cluster.leader() not in (None, leader), 10)
            load.progress()
        load.verdict()
        times = [event.at_ms for event in cluster.events()]
        assert times == sorted(times), "the time of the state went back"
        written = [calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) - time.time() for member in cluster.members
                   for stamp in re.findall(r"^time=([-0-9T:]+)", member.log.read_text(), re.MULTILINE)]
        assert max(written) > 3000 and min(written) < -3000, "no clock was off when a log line was written: the steps did not work"


def clock_off_s(member):
    """How far its wall clock is off as it says itself; None: it does not answer."""
    return metric(member.http, "ckpt_clock_offset_seconds")


def state_is_off_s(cluster):
    """The time of the state less the true one, by an event of now."""
    cluster.register(f"probe-{random.randrange(1 << 30)}", [("probe", 1, 1 << 20)])
    return cluster.events()[-1].at_ms / 1000 - time.time()


def is_alive(cluster, job):
    """Not ended: by its walltime it would be FAILED. STARTING or to be run again as long as its node has no agent."""
    return cluster.allocation(job).state in (common_pb2.ALLOCATION_STATE_STARTING, common_pb2.ALLOCATION_STATE_RUNNING,
                                             common_pb2.ALLOCATION_STATE_REQUEUED)


def warned(cluster, text):
    """What ckptctl status prints, when the text is in it."""
    said = cluster.ctl("status").stdout
    return said if text in said else None


def refused_transfer(cluster, member):
    result = cluster.ctl("transfer", member.name, check=False)
    return result if result.returncode != 0 else None


def only_odd_can_lead(cluster, odd, ahead, behind, load):
    """Leaves the odd member and `behind`, whose log ends before what was acknowledged: nobody else may be elected."""
    behind.kill()
    load.progress(20)
    reached = metric(ahead.http, "ckpt_raft_applied_index")  # the load goes on writing: the two are rarely equal at one moment
    wait_until("the odd one has it all", lambda: metric(odd.http, "ckpt_raft_applied_index") >= reached, 10)
    ahead.kill()


def a_member_whose_clock_is_off_leads_only_while_nobody_else_can_and_moves_no_time():
    """It says so, leaves elections and hand-overs to the others, and when it leads all the same, also before it has ever heard a leader, jobs
    live as long as before and no time of the state is off."""
    if faketime() is None:
        return "needs libfaketime (package faketime)"
    stood = 0  # elections that the odd one did not leave to a member that was there
    for offset, seconds in (("+3h", 10800), ("-3h", -10800)):
        with Cluster(raft=RAFT) as cluster:
            clocks = {member: Clock(member) for member in cluster.members}
            cluster.start()
            leader = cluster.wait_leader()
            odd, other = [m for m in cluster.members if m is not leader]
            cluster.register("short", [("n", 1, 1 << 20)], walltime_ms=2 * 3600 * 1000)
            odd.kill()
            clocks[odd].step(offset)
            odd.start()  # the cluster is idle: no entry tells it the time

            wait_until("it says how far its clock is off", lambda: abs((clock_off_s(odd) or 0) - seconds) < 5, 15)
            wait_until("it says so in its log", lambda: "event=clock_off" in odd.log.read_text(), 15)
            assert all(abs(clock_off_s(m)) < 5 for m in cluster.members if m is not odd)
            word = "ahead of" if seconds > 0 else "behind"
            warning = f"the clock of {odd.name} is 10"
            status = wait_until("the status warns", lambda: warned(cluster, warning), 5)
            assert word in status and "chronyc" in status and status.count("the clock of") == 1, status
            answer = wait_until("nobody hands over to it", lambda: refused_transfer(cluster, odd), 10, 0.5)
            # by what the leader has heard of its clock, or by what the member asks for itself
            assert "TRANSFER_REFUSED" in answer.stderr, answer.stderr
            assert f"the clock of {odd.name}" in answer.stderr or "its clock is off" in answer.stderr, answer.stderr
            wait_until("a healthy one leads", lambda: cluster.leader() not in (None, odd), 20)  # it may not have known at first
            for _ in range(2):
                old = cluster.wait_leader()
                old.kill()
                stood += wait_until("one leads", cluster.leader, 15) is odd
                wait_until("a healthy one leads", lambda: cluster.leader() not in (None, odd), 15)
                old.start()
                wait_until("it is back", lambda: http_status(old.http, "/readyz") == 200, 15)
                time.sleep(1)  # that somebody else can lead the odd one hears by the leader's next heartbeats

            load = Load(cluster, clients=2, seed=SEED, pause_s=often(0.03, 0.001), attempt_s=0.5)
            load.progress()
            leader = cluster.wait_leader()
            other = next(m for m in cluster.members if m not in (odd, leader))
            only_odd_can_lead(cluster, odd, leader, other, load)
            other.start(wait=False)
            wait_until("the odd one leads", lambda: cluster.leader() is odd, 30)
            load.progress(20)
            assert abs(state_is_off_s(cluster)) < 30, f"{offset}: the time of the state is {state_is_off_s(cluster):.0f} s off"
            assert is_alive(cluster, "short")

            leader.start()
            wait_until("it hands over as soon as it can", lambda: cluster.leader() not in (None, odd), 40)
            assert "reason=clock_off" in odd.log.read_text()
            load.progress()
            leader = cluster.wait_leader()
            other = next(m for m in cluster.members if m not in (odd, leader))
            only_odd_can_lead(cluster, odd, leader, other, load)
            odd.kill()
            odd.start(wait=False)
            other.start(wait=False)
            wait_until("the odd one leads, and has heard no leader", lambda: cluster.leader() is odd, 30)
            off_s = state_is_off_s(cluster)
            assert off_s < 30, f"{offset}: the time of the state is {off_s:.0f} s ahead of the truth"
            assert is_alive(cluster, "short")
            leader.start()
            wait_until("all know the time", lambda: abs(state_is_off_s(cluster)) < 30, 20, 0.5)
            load.verdict()
            times = [event.at_ms for event in cluster.events()]
            assert times == sorted(times), "the time of the state went back"
            for member in cluster.members:
                member.kill()
            for member in cluster.members:
                member.start(wait=False)
            cluster.wait_leader()
            assert abs(state_is_off_s(cluster)) < 30 and is_alive(cluster, "short")
    assert stood <= 1, f"the member whose clock was off took {stood} of 4 elections"  # one: it heard too late who was there


def members_that_stood_still_take_no_clock_for_off():
    """What had waited for them in the sockets is no word of this moment."""
    with Cluster(raft=RAFT) as cluster:
        cluster.start()
        for stopped in ("followers", "leader and one"):
            leader = cluster.wait_leader()
            others = [m for m in cluster.members if m is not leader]
            still = others if stopped == "followers" else [leader, others[0]]
            for member in still:
                member.kill(signal.SIGSTOP)
            time.sleep(7)
            for member in still:
                member.kill(signal.SIGCONT)
            cluster.wait_leader()
            until = time.monotonic() + 8
            while time.monotonic() < until:
                said = warned(cluster, "the clock of")
                assert said is None, said
                time.sleep(0.5)
        assert not any("event=clock_off" in m.log.read_text() for m in cluster.members)


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
    sys.exit(main([clock_steps_of_an_hour_move_no_timer_and_lose_nothing,
                   a_member_whose_clock_is_off_leads_only_while_nobody_else_can_and_moves_no_time, members_that_stood_still_take_no_clock_for_off,
                   folders_in_the_wrong_hands_are_refused_and_left_alone], tmpfs=True))
