#!/usr/bin/python3
"""Power cuts, failing, full and hanging disks of real file systems under load: nothing acknowledged is lost. I5, I6, I8, L7, S4.

Flow    every member's data folder is an ext4 of its own on a loop device (disks.py). POWER_CUTS=n draws n power cuts, default 4.
"""
import os
import pathlib
import random
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, http_status, tail, wait_until  # noqa: E402
from disks import LIE, LOGFLUSH, NOLOGFLUSH, SYNCS, BrokenCalls, Disk, refused  # noqa: E402
from isolate import main, needs  # noqa: E402
from workload import Load  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
POWER_CUTS = int(os.environ.get("POWER_CUTS", 4))
RAFT = {"snapshot_after_entries": 300}
TOOLS = ("mount", "umount", "mkfs.ext4")


class OnDisks:
    """A cluster on disks of its own with load on it; the verdict at the end."""

    def __init__(self, start=True, **options):
        self.cluster, self.start_now, self.load = Cluster(raft=RAFT), start, None
        self.disks = {}
        for member in self.cluster.members:
            self.disks[member] = Disk(member.data_dir, **options)

    def __enter__(self):
        self.cluster.__enter__()
        if self.start_now:
            self.start()
        return self

    def start(self):
        self.cluster.start()
        self.load = Load(self.cluster, seed=SEED, attempt_s=0.5)
        self.load.progress()

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and not self.load.judged:
                self.load.verdict(errors_expected=True)
        except BaseException as error:
            self.cluster.__exit__(type(error), error, None)
            raise
        finally:
            for member in self.cluster.members:
                if member.running():
                    member.kill()
            for disk in self.disks.values():
                disk.end()
            self.cluster.__exit__(kind, value, trace)

    def all_ready(self, timeout_s=20):
        wait_until("all members are ready", lambda: all(http_status(m.http, "/readyz") == 200 for m in self.cluster.members), timeout_s)

    def others(self, member):
        return [m for m in self.cluster.members if m is not member]


def stopped_itself(member, since):
    """What it said before it ended, once it has."""
    wait_until(f"{member.name} stops itself", lambda: not member.running(), 15)
    said = member.log.read_bytes()[since:].decode(errors="replace")
    assert member.process.returncode > 0, f"exit {member.process.returncode}: {said}"
    assert "level=error" in said and str(member.data_dir) in said, f"no path in what it said: {said[-1500:]}"
    assert "event=bug" not in said, said[-1500:]
    (fatal,) = [line for line in said.splitlines() if re.search("event=(fatal|start_failed)", line)]
    assert re.search(r"offset \d+|(: |\")(open|open lock|open folder|sync folder|rename to|remove|read folder) ", fatal), f"no place in the file: {fatal}"
    assert re.search(r' next="[^"]+(dmesg|df -h)', fatal), f"no next step: {fatal}"
    return fatal


@needs(*TOOLS, probe=refused)
def power_cuts_under_load_lose_nothing_acknowledged():
    """Of one, two or all members at the same moment: unsynced data is gone, synced data is there."""
    print(f"# SEED={SEED}")
    draw = random.Random(SEED)
    kinds = draw.sample(("leader", "two", "follower"), 3) + ["all"]
    with OnDisks() as it:
        for number in range(POWER_CUTS):
            it.all_ready()
            it.load.progress()
            time.sleep(draw.random() * 0.3)  # the moment of the cut is what is drawn here
            leader = it.cluster.wait_leader()
            kind = kinds[number % 4]
            victims = {"all": it.cluster.members, "leader": [leader], "two": [leader, draw.choice(it.others(leader))],
                       "follower": [draw.choice(it.others(leader))]}[kind]
            sizes = {m: m.log.stat().st_size for m in victims}
            flag = draw.choice((LOGFLUSH, NOLOGFLUSH))
            for victim in victims:
                it.disks[victim].cut_power(flag)
            if kind in ("leader", "follower"):
                it.load.progress()
                stopped_itself(victims[0], sizes[victims[0]])
            elif draw.random() < 0.5:
                stopped_itself(leader, sizes[leader])
            for victim in victims:
                if victim.running():
                    victim.kill()
                it.disks[victim].restore_power()
            for victim in draw.sample(victims, len(victims)):
                victim.start(wait=False)
            it.load.progress()
            print(f"# power cut of {kind} ({'journal flushed' if flag == LOGFLUSH else 'nothing flushed'}): goes on", flush=True)


@needs(*TOOLS, "gcc", probe=refused)
def a_power_cut_finds_syncs_that_lie():
    """The same cut of all members, but their syncs return without having synced: these tests must see what is lost then."""
    with OnDisks(start=False) as it:
        for member in it.cluster.members:
            BrokenCalls(member).arm(SYNCS, LIE)
        it.start()
        for disk in it.disks.values():
            disk.sync()  # so much is safe
        it.load.progress(100)
        for disk in it.disks.values():
            disk.cut_power(NOLOGFLUSH)
        for member in it.cluster.members:
            member.kill()
            it.disks[member].restore_power()
        for member in it.cluster.members:
            member.start(wait=False)
        wait_until("all members are ready or one has given up", lambda: any(not m.running() for m in it.cluster.members) or all(
            http_status(m.http, "/readyz") == 200 for m in it.cluster.members), 20)
        # a member may see by itself that its folder is not what it left
        found = [f"{m.name} refused to start" for m in it.cluster.members if not m.running() and "event=start_failed" in tail(m.log, 1)]
        if found:
            it.load.stop.set()
            it.load.judged = True
        else:
            try:
                it.load.verdict(errors_expected=True)
            except AssertionError as error:
                found = [str(error)[:160]]
        assert found, "syncs that lie were not found: the power was not cut"
        print(f"# found: {found}")


@needs(*TOOLS, probe=refused)
def a_disk_that_cannot_sync_ends_its_member_and_nobody_else():
    """A sync that fails once may succeed the next time without the data (the kernel forgets): the member must not try again."""
    with OnDisks(backing_mib=96) as it:
        for which in ("leader", "follower"):
            it.all_ready()
            leader = it.cluster.wait_leader()
            victim = leader if which == "leader" else it.others(leader)[0]
            size = victim.log.stat().st_size
            it.disks[victim].fill_backing()
            said = stopped_itself(victim, size)
            print(f"# {which}: {said.split('event=')[1][:230]}")
            # the device says EIO, or ENOSPC as what lies below it did
            assert re.search("code=(DISK|FULL) .*" + re.escape(str(victim.data_dir)) + r"/[a-z0-9-]+ .*offset \d+", said), said
            it.load.progress()
            it.disks[victim].free_backing()
            it.disks[victim].restore_power()
            victim.start()


@needs(*TOOLS, probe=refused)
def a_file_system_that_becomes_read_only_ends_its_member_and_nobody_else():
    """As the kernel does after an error that it finds; a start on it is refused likewise, until it is repaired and mounted again."""
    with OnDisks() as it:
        for which in ("follower", "leader"):
            it.all_ready()
            leader = it.cluster.wait_leader()
            victim = leader if which == "leader" else it.others(leader)[0]
            for start in (False, True):
                size = victim.log.stat().st_size
                if start:
                    victim.start(wait=False)
                else:
                    it.disks[victim].fail()
                it.load.progress()
                said = stopped_itself(victim, size)
                under_way = not start and "Input/output error" in said  # the write that the kernel was at
                assert "code=DISK" in said and ("Read-only file system" in said or under_way), said
            it.disks[victim].restore_power()
            victim.start()


@needs(*TOOLS, probe=refused)
def all_disks_full_refuse_writes_and_recover_by_themselves():
    """L7: reads go on, no member stops, and when there is room again writes go on without anybody's help."""
    with OnDisks() as it:
        for disk in it.disks.values():
            disk.fill()
        wait_until("every member says so", lambda: all("event=disk_low" in m.log.read_text() for m in it.cluster.members), 15)
        before = it.load.acknowledged()
        time.sleep(1)  # answers that were under way have come
        stalled = it.load.acknowledged()
        time.sleep(1)
        assert it.load.acknowledged() == stalled, f"{it.load.acknowledged() - before} writes were taken on full disks"
        assert all(m.running() for m in it.cluster.members), [tail(m.log) for m in it.cluster.members if not m.running()]
        for disk in it.disks.values():
            disk.free()
        it.load.progress(20, 20)
        it.all_ready()


@needs(*TOOLS, probe=refused)
def a_disk_that_hangs_holds_up_its_member_only():
    """Syncs that take seconds: neither lost nor acknowledged early; with one disk hanging a majority goes on."""
    with OnDisks() as it:
        for which, seconds in (("follower", 3), ("leader", 10)):
            it.all_ready()
            leader = it.cluster.wait_leader()
            victim = leader if which == "leader" else it.others(leader)[0]
            hung = time.monotonic()
            with it.disks[victim].hanging():
                time.sleep(0.5)
                it.load.progress(10, 15)
                first = it.load.first_answer_after(hung + 0.5)
                print(f"# disk of the {which} hangs: writes go on {first - hung - 0.5:.2f} s later", flush=True)
                time.sleep(max(0, hung + seconds - time.monotonic()))
            it.load.progress()
        it.all_ready()


if __name__ == "__main__":
    sys.exit(main([power_cuts_under_load_lose_nothing_acknowledged, a_power_cut_finds_syncs_that_lie,
                   a_disk_that_cannot_sync_ends_its_member_and_nobody_else,
                   a_file_system_that_becomes_read_only_ends_its_member_and_nobody_else, all_disks_full_refuse_writes_and_recover_by_themselves,
                   a_disk_that_hangs_holds_up_its_member_only]))
