#!/usr/bin/python3
"""Full disks and damaged files of single members: each is named with path, offset and next step, ends the member with exit code 4 when a
restart cannot help, and mends by itself when it can. I11, L7, S1-062.

Flow    a member's folder is copied whole, changed in one place, and started; small file systems are tmpfs mounts in a namespace of their own.
Absent  failing, hanging and power-cut disks under load: test_faults_disk.py.
"""
import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, common_pb2, fill, grpc, http_status, metric, tap, wait_until  # noqa: E402

INSIDE = "CKPT_TEST_INSIDE"
DATA = 4  # exit code: starting again cannot help


def flip(offset):
    def change(folder, name):
        content = bytearray((folder / name).read_bytes())
        content[offset] ^= 0x10
        (folder / name).write_bytes(content)
    return change


def flip_both(folder, name):
    flip(20)(folder, name)
    flip(4096 + 20)(folder, name)


def zero_from(offset):
    def change(folder, name):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:offset] + bytes(len(content) - offset))
    return change


def damage_anywhere_is_named_with_path_offset_and_next_step():
    with Cluster(raft={"snapshot_after_entries": 150}) as cluster:
        cluster.start()
        fill(cluster, 400)
        victim = next(m for m in cluster.members if m is not cluster.wait_leader())
        wait_until("it has two snapshots", lambda: len(list(victim.data_dir.glob("snapshot-*"))) == 2, 10)
        cluster.debug_check()
        victim.kill()
        whole = cluster.dir / "whole"
        shutil.copytree(victim.data_dir, whole)
        log = sorted(p.name for p in whole.glob("wal-*"))[-1]
        snapshots = sorted(p.name for p in whole.glob("snapshot-*"))
        used = len((whole / log).read_bytes().rstrip(b"\0"))

        cases = [(log, flip(3), "offset 0: segment header"), (log, flip(70), "offset 64"), (log, flip(used // 3), r"offset \d+"),
                 (log, flip(used // 2), r"offset \d+"), (log, zero_from(used // 2), r"offset \d+: the log ends with record \d+"),
                 (log, zero_from(used - 100), r"offset \d+: the log ends with record \d+, but up to \d+ it had been synced"),
                 ("vote", flip_both, "both copies are damaged"), ("identity", flip(20), "identity offset 0"),
                 ("identity", lambda folder, name: (folder / name).unlink(), rf"identity is missing.*ckptctl member replace {victim.name} NEW")]
        for name, change, words in cases:
            shutil.rmtree(victim.data_dir)
            shutil.copytree(whole, victim.data_dir)
            change(victim.data_dir, name)
            before = victim.log.stat().st_size
            victim.start(wait=False)
            code = victim.process.wait(20)
            said = victim.log.read_bytes()[before:].decode(errors="replace")
            line = next((line for line in said.splitlines() if "level=error" in line), said)
            assert code == DATA, f"{name}: exit {code}: {said[-600:]}"
            assert str(victim.data_dir) in line and re.search(words, line), f"{name} {words}: {line}"
            assert "new id" in line or "empty folder" in line, line
        # one copy of the vote, and snapshots that the log can replace, cost nothing
        shutil.rmtree(victim.data_dir)
        shutil.copytree(whole, victim.data_dir)
        flip(4096 + 20)(victim.data_dir, "vote")
        for snapshot in snapshots:
            flip(300)(victim.data_dir, snapshot)
        victim.start()
        cluster.debug_check()
        assert len(list(victim.data_dir.glob("damaged-*"))) == 2
        victim.kill()
        fill(cluster, 20, "meanwhile")
        shutil.rmtree(victim.data_dir)
        shutil.copytree(whole, victim.data_dir)
        victim.start()
        cluster.debug_check()


def the_end_of_a_log_that_was_taken_away_is_missed_after_a_kill():
    """The bound is in the page cache when the process dies: it is exact then, whatever was acknowledged last."""
    with Cluster(members=1) as cluster:
        cluster.start()
        (member,) = cluster.members
        for round_number in range(3):
            fill(cluster, 5, f"r{round_number}-")
            member.kill()
            log = sorted(member.data_dir.glob("wal-*"))[-1]
            content = log.read_bytes()
            used = len(content.rstrip(b"\0"))
            log.write_bytes(content[: used - 8] + bytes(len(content) - used + 8))  # the very last record
            before = member.log.stat().st_size
            member.start(wait=False)
            assert member.process.wait(20) == DATA
            assert "had been synced" in member.log.read_bytes()[before:].decode()
            log.write_bytes(content)
            member.start()
            wait_until("it leads", lambda: http_status(member.http, "/leader") == 200, 10)


def an_older_copy_of_a_folder_ends_its_member():
    """I11: the leader knows what the member had acknowledged; it says so in the greeting, and the member stops for good."""
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 20)
        leader = cluster.wait_leader()
        victim = next(m for m in cluster.members if m is not leader)
        wait_until("it has all", lambda: metric(victim.http, "ckpt_raft_applied_index") == metric(leader.http, "ckpt_raft_applied_index"), 10)
        victim.kill()
        old, new = cluster.dir / "old", cluster.dir / "new"
        shutil.copytree(victim.data_dir, old)
        victim.start()
        fill(cluster, 30, "later")
        wait_until("it has all", lambda: metric(victim.http, "ckpt_raft_applied_index") == metric(leader.http, "ckpt_raft_applied_index"), 10)
        victim.kill()
        victim.data_dir.rename(new)
        shutil.copytree(old, victim.data_dir)
        before = victim.log.stat().st_size
        victim.start(wait=False)
        assert victim.process.wait(20) == DATA
        said = victim.log.read_bytes()[before:].decode()
        assert f"{victim.data_dir} is an older copy" in said and f"to {leader.name}" in said and "new id" in said, said
        fill(cluster, 5, "without")
        shutil.rmtree(victim.data_dir)
        new.rename(victim.data_dir)  # the right one is welcome, however far behind
        victim.start()
        cluster.debug_check()


def with_own_mounts(test):
    @functools.wraps(test)
    def run():
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            return "mounting a small file system needs root and unshare(1)"
        if INSIDE in os.environ:
            return test()
        result = subprocess.run(["unshare", "--mount", sys.executable, __file__, test.__name__], env={**os.environ, INSIDE: "1"},
                                capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        return None
    return run


@contextlib.contextmanager
def small_disk(member, size):
    """Its folder is a file system of its own."""
    member.data_dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(member.data_dir)], check=True)
    try:
        yield member
    finally:
        for other in member.cluster.members:
            if other.running():
                other.kill()
        subprocess.run(["umount", "--lazy", str(member.data_dir)], check=True)


def last_words(member, event):
    """The line of its log, and what it says to do next."""
    (line,) = [line for line in member.log.read_text().splitlines() if f"event={event}" in line]
    return line, line[line.index("next="):]


def take_all_room(folder):
    with open(folder / "ballast", "ab", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(65536))
        except OSError:
            pass


@with_own_mounts
def a_full_disk_is_refused_with_numbers_and_mends_by_itself():
    with Cluster(members=1) as cluster, small_disk(cluster.members[0], "100m") as member:
        cluster.start()
        fill(cluster, 20)
        reserve = member.data_dir / "reserve"
        assert reserve.stat().st_size == 32 << 20
        take_all_room(member.data_dir)
        wait_until("it says so", lambda: "event=disk_low" in member.log.read_text(), 10)
        try:
            request = broker_pb2.RegisterAllocationRequest(request_id="full", spec=common_pb2.AllocationSpec(
                allocation_id="full", tenant="t", project="p", vcluster="v", owner="o", nodes=[common_pb2.NodeShare(node_id="n", gpu_count=1)]))
            cluster.client.broker("RegisterAllocation", request, timeout_s=1, attempt_s=1)
            raise AssertionError("a write was taken with a full disk")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
            assert re.search(r"\d+ MB free and its reserve is (kept|spent); writes need \d+ MB: make room", error.details()), error.details()
        assert metric(member.http, "ckpt_disk_accepts_writes") == 0
        status = cluster.ctl("status", check=False).stdout
        assert "nearly full" in status and str(member.data_dir) in status, status
        refused = cluster.ctl("backup", "save", str(cluster.dir / "b"), check=False)
        assert refused.returncode == 4 and "MB free" in refused.stderr, refused
        assert cluster.ctl("jobs", check=False).returncode == 0, "reads go on"
        (member.data_dir / "ballast").unlink()
        wait_until("it takes writes again", lambda: metric(member.http, "ckpt_disk_accepts_writes") == 1, 15)
        fill(cluster, 20, "again")
        wait_until("the reserve is back", lambda: reserve.exists() and reserve.stat().st_size == 32 << 20, 10)
        wait_until("it says so", lambda: "event=disk_ok" in member.log.read_text(), 5)
        cluster.debug_check()


@with_own_mounts
def a_first_start_on_a_full_disk_asks_for_room_and_to_be_begun_again():
    """There is no reserve yet, and no unit that would start it again."""
    with Cluster() as cluster, small_disk(cluster.members[2], "1m") as member:
        member.start(wait=False)
        assert member.process.wait(10) == 1
        line, following = last_words(member, "start_failed")
        assert "code=FULL" in line and "No space left" in line, line
        for word in ("free space", f"df -h {member.data_dir}", "again in the same way"):
            assert word in following, line
        assert "reserve" not in following and "unit" not in following, line
        room_mb = int(re.search(r"at least (\d+) MB must be free there; then begin", following).group(1))
        subprocess.run(["mount", "-o", f"remount,size={room_mb + 1}000k", str(member.data_dir)], check=True)
        member.started_before = False
        cluster.start()
        cluster.debug_check()


@with_own_mounts
def a_restore_on_a_full_disk_asks_for_room_and_to_be_begun_again():
    """What it left behind is in the way of the next one."""
    with Cluster(members=1) as cluster:
        (member,) = cluster.members
        cluster.start()
        fill(cluster, 20)
        file = cluster.dir / "backup"
        cluster.ctl("backup", "save", str(file))
        member.kill()
        shutil.rmtree(member.data_dir)
        with small_disk(member, "1m"):
            member.started_before, member.extra = False, ["--restore", str(file)]
            member.start(wait=False)
            assert member.process.wait(10) == 1
            line, following = last_words(member, "restore_failed")
            assert "code=FULL" in line and "No space left" in line, line
            for word in ("free space", f"df -h {member.data_dir}", "the size of the backup", "then empty that folder", "again in the same way"):
                assert word in following, line
            assert "reserve" not in following and "unit" not in following, line
            room_mb = int(re.search(r"at least (\d+) MB", following).group(1))
            subprocess.run(["mount", "-o", f"remount,size={room_mb * 1000 + file.stat().st_size // 1000 + 1000}k", str(member.data_dir)], check=True)
            for left in member.data_dir.iterdir():
                left.unlink()
            member.started_before = False
            member.start()
            wait_until("it takes changes", lambda: metric(member.http, "ckpt_disk_accepts_writes") == 1, 10)
            cluster.ctl("cluster", "adopt", "--yes")
            fill(cluster, 20, "after")
            assert (member.data_dir / "reserve").stat().st_size == 32 << 20
            cluster.debug_check()


@with_own_mounts
def a_member_that_a_full_disk_ends_asks_for_room_and_not_for_a_repair():
    with Cluster() as cluster, small_disk(cluster.members[2], "100m") as member:
        cluster.start()
        nodes = [(f"{i:060}", 1, 1 << 20) for i in range(1000)]
        for i in range(1000):  # its log has two segments of room, and the reserve one time
            take_all_room(member.data_dir)
            if not member.running():
                break
            cluster.register(f"a{i}", nodes)
        assert member.process.wait(10) == 3, "its unit must start it again"
        line, following = last_words(member, "fatal")
        assert "code=FULL" in line and re.search(rf"{member.data_dir}/tmp-wal-next .*offset \d+: .*No space left", line), line
        for word in ("free space", f"df -h {member.data_dir}", "reserve", "Disk full", "by itself"):
            assert word in following, line
        assert "repair" not in following and "dmesg" not in following and "corrupt" not in following, line
        (member.data_dir / "ballast").unlink()
        member.start()
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([damage_anywhere_is_named_with_path_offset_and_next_step,
                  the_end_of_a_log_that_was_taken_away_is_missed_after_a_kill, an_older_copy_of_a_folder_ends_its_member,
                  a_full_disk_is_refused_with_numbers_and_mends_by_itself,
                  a_first_start_on_a_full_disk_asks_for_room_and_to_be_begun_again,
                  a_restore_on_a_full_disk_asks_for_room_and_to_be_begun_again,
                  a_member_that_a_full_disk_ends_asks_for_room_and_not_for_a_repair]))
