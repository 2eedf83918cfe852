#!/usr/bin/python3
"""Single calls of a member to its disk that find no room or fail, or are the last that its process makes: each says where, nothing
acknowledged is lost, and the next start goes on. I5, I6, I8, L7.

Flow    broken_calls.c is preloaded (disks.py): the n-th write or sync of a first start for every n; drawn ones under load, ROUNDS=n of
        them, default 6; reads of each file.
"""
import concurrent.futures
import contextlib
import errno
import os
import pathlib
import random
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, http_status, metric, often, wait_until  # noqa: E402
from disks import KILL_AFTER, KILL_BEFORE, READS, SYNCS, WRITES, BrokenCalls  # noqa: E402
from isolate import main, needs  # noqa: E402
from workload import Load  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
ROUNDS = int(os.environ.get("ROUNDS", often(4, 6)))
LANES = 8
NAMES = {errno.ENOSPC: "no room", errno.EIO: "EIO", KILL_BEFORE: "killed before", KILL_AFTER: "killed after"}
CODES = {errno.ENOSPC: "FULL", errno.EIO: "DISK"}


def said_since(member, size):
    return member.log.read_bytes()[size:].decode(errors="replace")


def ended_well(member, action, said):
    """It was killed, or says which file it could not write or read, and what to do."""
    if action in (KILL_BEFORE, KILL_AFTER):
        assert member.process.returncode == -9, said[-1500:]
        return
    (line,) = [line for line in said.splitlines() if "level=error" in line]
    assert member.process.returncode in (1, 3, 4) and f"code={CODES[action]}" in line, (member.process.returncode, said[-1500:])
    assert re.search(rf"{re.escape(str(member.data_dir))}/[a-z0-9-]+.*{os.strerror(action)}", line), line
    assert "event=bug" not in said, said[-1500:]
    assert re.search(r' next="[^"]*' + ("dmesg" if action == errno.EIO else f"df -h {member.data_dir}"), line), line


def leads(member):
    return http_status(member.http, "/leader") == 200


def first_start(member, calls, action, number):
    """The n-th call meets it, and the member is begun again as the runbook says. Whether there was such a call, and whether it ended it."""
    shutil.rmtree(member.data_dir, ignore_errors=True)
    member.log.write_bytes(b"")
    member.started_before = False
    calls.arm(WRITES | SYNCS, action, number)
    member.start(wait=False)
    wait_until(f"{NAMES[action]} at call {number}: it leads or ends", lambda: not member.running() or leads(member), 20)
    hit, lives = calls.count() >= number, member.running()
    calls.disarm()
    if lives:
        member.kill()
    else:
        ended_well(member, action, said_since(member, 0))
    member.started_before = (member.data_dir / "identity").exists()
    member.start(wait=False)
    wait_until(f"{NAMES[action]} at call {number}: it leads again", lambda: leads(member) or member.check_alive(), 20)
    member.kill()
    return hit, not lives


@needs("gcc")
def every_write_of_a_first_start_may_find_no_room_or_be_the_last():
    """New clusters of one, for each n: no room from the n-th call on, or SIGKILL before it; in systems-long both. LANES at once: an only founder
    listens for 2 s."""
    turns = often(6, 1)

    def lane(member, calls, first):
        outcomes = {}
        for place, action in enumerate((errno.ENOSPC, KILL_BEFORE)):
            number, hit = first + (SEED + place) % turns * LANES, True
            while hit:
                hit, ended = first_start(member, calls, action, number)
                outcomes[action, number] = ended
                number += turns * LANES
        return outcomes

    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        members = [stack.enter_context(Cluster(members=1)).members[0] for _ in range(LANES)]
        lanes = list(pool.map(lane, members, map(BrokenCalls, members), range(1, LANES + 1)))
    for action in (errno.ENOSPC, KILL_BEFORE):
        ended = [number for outcomes in lanes for (what, number), ended in outcomes.items() if what == action and ended]
        print(f"# {NAMES[action]}: ended by {len(ended)} calls up to the {max(ended)}th", flush=True)
        assert len(ended) > 30 // turns, "the calls were not reached"


@needs("gcc")
def any_write_under_load_may_find_no_room_fail_or_be_the_last():
    """Of the leader or a follower, also while it takes and installs snapshots."""
    print(f"# SEED={SEED}")
    draw, outcomes = random.Random(SEED), []
    with Cluster(raft={"snapshot_after_entries": 100}) as cluster:
        calls = {member: BrokenCalls(member) for member in cluster.members}
        cluster.start()
        load = Load(cluster, clients=2, seed=SEED, attempt_s=0.5)
        for number in range(ROUNDS):
            wait_until("all members are ready", lambda: all(http_status(m.http, "/readyz") == 200 for m in cluster.members), 20)
            load.progress()
            leader = cluster.wait_leader()
            victim = draw.choice([leader, *(m for m in cluster.members if m is not leader)])
            action, size = draw.choice(list(NAMES)) if number > 3 else list(NAMES)[number], victim.log.stat().st_size
            name = draw.choice(("", "", "snapshot", "tmp-"))
            first = draw.randrange(1, 8 if name else 60)
            calls[victim].arm(WRITES | SYNCS, action, first, name=name)
            wait_until(f"call {first} to {name or 'any file'} of {victim.name}",
                       lambda: not victim.running() or calls[victim].count() >= first, 20, 0.005)
            ended = time.monotonic() + 2
            while victim.running() and time.monotonic() < ended:
                time.sleep(0.01)
            calls[victim].disarm()
            outcomes.append(f"{NAMES[action]} from call {first} to {name or 'any file'}: {'lives' if victim.running() else 'ended'}")
            if victim.running():
                said = said_since(victim, size)
                assert action not in (KILL_BEFORE, KILL_AFTER), outcomes[-1]
                assert re.search(r"level=warning .*event=(snapshot_failed|disk_full)", said), (outcomes[-1], said[-1500:])
                continue
            load.progress()
            ended_well(victim, action, said_since(victim, size))
            victim.start()
        print(f"# {', '.join(outcomes)}")
        load.verdict(errors_expected=True)


def content(member):
    """The files of its folder, with what is in them; both copies of the mark and the vote are written again at each start."""
    return {p.name: p.read_bytes() if p.name not in ("synced", "vote") else None for p in member.data_dir.iterdir() if p.is_file()}


@needs("gcc")
def a_file_that_cannot_be_read_is_named_and_left_as_it_is():
    """EIO on read: at a start it is no sign of damage, and of the leader that sends its snapshot it costs nobody anything."""
    with Cluster(raft={"snapshot_after_entries": 100}) as cluster:
        calls = {member: BrokenCalls(member) for member in cluster.members}
        cluster.start()
        load = Load(cluster, seed=SEED, attempt_s=0.5)
        victim = next(m for m in cluster.members if m is not cluster.wait_leader())
        wait_until("it has snapshots", lambda: len(list(victim.data_dir.glob("snapshot-*"))) == 2, 20)
        victim.kill()
        before = content(victim)
        for name in ("identity", "vote", "synced", "snapshot", "wal"):
            size = victim.log.stat().st_size
            calls[victim].arm(READS, errno.EIO, name=name)
            victim.start(wait=False)
            wait_until(f"{name} cannot be read: it ends", lambda: not victim.running(), 20)
            ended_well(victim, errno.EIO, said_since(victim, size))
            after = content(victim)
            assert after == before, f"{name}: {[k for k in {*after, *before} if after.get(k) != before.get(k)]} changed"
        calls[victim].disarm()
        leader = cluster.wait_leader()
        taken = metric(leader.http, "ckpt_raft_snapshots_total")
        wait_until("the log that it needs is gone", lambda: metric(leader.http, "ckpt_raft_snapshots_total") >= taken + 3, 20)
        assert metric(leader.http, "ckpt_raft_snapshot_unreadable_total") == 0
        size = leader.log.stat().st_size
        calls[leader].arm(READS, errno.EIO, name="snapshot")
        victim.start()
        wait_until("the leader tried to send it", lambda: calls[leader].count() > 0, 20)
        wait_until("it says so", lambda: "event=snapshot_unreadable" in said_since(leader, size), 10)
        assert metric(leader.http, "ckpt_raft_snapshot_unreadable_total") > 0
        load.progress()
        assert cluster.leader() is leader, "its snapshot cost the leader its office"
        calls[leader].disarm()
        (line,) = [line for line in said_since(leader, size).splitlines() if "event=snapshot_unreadable" in line]
        for word in ("level=warning", f"{leader.data_dir}/snapshot-", "Input/output error", "next=", "dmesg"):
            assert word in line, line
        load.verdict(errors_expected=True)


if __name__ == "__main__":
    sys.exit(main([every_write_of_a_first_start_may_find_no_room_or_be_the_last,
                   any_write_under_load_may_find_no_room_fail_or_be_the_last, a_file_that_cannot_be_read_is_named_and_left_as_it_is]))
