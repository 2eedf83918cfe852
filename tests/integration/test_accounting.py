#!/usr/bin/python3
"""Accounting records: each complete checkpoint is a line in the files of every member, once, over the death of a leader and of the member itself,
and whatever its disk does. D-007."""
import json
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import disks  # noqa: E402
from cluster import Cluster, http_get, tap, wait_until  # noqa: E402
from jobs import POLICY, complete, heat  # noqa: E402

FIELDS = {"epoch", "sequence", "event", "at_ms", "allocation", "tenant", "project", "vcluster", "owner", "checkpoint", "target", "size_bytes", "duration_ms",
          "storage_micro_usd_per_month"}


def records(member):
    file = pathlib.Path(member.data_dir) / "accounting/accounting.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_for(members, count):
    for member in members:
        wait_until(f"{member.name} has {count} records, not {records(member)}", lambda: len(records(member)) == count, 15)


def lost(member):
    text = http_get(member.http, "/metrics")[1]
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith('ckpt_accounting_records_total{result="lost"}'))


def every_member_has_each_checkpoint_once():
    with Cluster(members=3, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, 1 << 20)])
        cluster.run_job("a", "job", heat(cluster, "job"))
        complete(cluster, "job")
        wait_for(cluster.members, 1)
        leader = cluster.leader()
        leader.kill()
        cluster.wait_leader()
        complete(cluster, "job")
        others = [m for m in cluster.members if m is not leader]
        wait_for(others, 2)
        leader.start()
        wait_for([leader], 2)
        others[0].kill()
        others[0].start()
        cluster.wait_leader()
        complete(cluster, "job")
        wait_for(cluster.members, 3)
        lines = records(leader)
        assert [records(m) for m in cluster.members] == [lines] * 3, [records(m) for m in cluster.members]
        assert all(set(line) == FIELDS and line["event"] == "allocation.checkpointed" for line in lines), lines
        assert sorted({line["sequence"] for line in lines}) == [line["sequence"] for line in lines], lines
        known = {c["checkpoint_id"]: c for c in json.loads(cluster.ctl("checkpoints", "job", "-o", "json").stdout)["checkpoints"]}
        for line in lines:
            assert line["allocation"] == "job" and line["duration_ms"] > 0, line
            assert line["checkpoint"] not in known or int(known[line["checkpoint"]]["size_bytes"]) == line["size_bytes"] > 0, (line, known)
        assert {line["checkpoint"] for line in lines} & set(known), (lines, known)


def a_disk_that_takes_none_holds_up_nothing():
    """A file in the place of the folder: what its member cannot write waits, and comes when it can."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        member = cluster.members[0]
        member.kill()
        folder = pathlib.Path(member.data_dir) / "accounting"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        folder.write_text("in the way")
        member.start()
        cluster.wait_leader()
        cluster.register("job", [("a", 1, 1 << 20)])
        cluster.run_job("a", "job", heat(cluster, "job"))
        complete(cluster, "job")
        assert "event=accounting_failed" in pathlib.Path(member.log).read_text()
        folder.unlink()
        wait_for([member], 1)
        assert "event=accounting_works" in pathlib.Path(member.log).read_text()
        assert lost(member) == 0


def a_disk_that_hangs_holds_up_no_answer_and_no_stop():
    """The folder lies on a file system of its own, which is frozen: who writes there waits for ever, and not even a kill ends it before it is thawed."""
    why = disks.refused()
    if why is not None:
        return why
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster, disks.file_system(cluster.dir / "other", 32, "mkfs.ext4", "-q") as other:
        member = cluster.members[0]
        folder = pathlib.Path(member.data_dir) / "accounting"
        folder.parent.mkdir(mode=0o700)
        folder.symlink_to(other)
        cluster.start()
        subprocess.run(["fsfreeze", "-f", str(other)], check=True)
        try:
            cluster.register("job", [("a", 1, 1 << 20)])
            cluster.run_job("a", "job", heat(cluster, "job"))
            complete(cluster, "job")
            complete(cluster, "job")
            assert records(member) == []
            member.process.send_signal(signal.SIGTERM)
            wait_until("it has stopped but for the disk", lambda: "event=files_left" in member.log.read_text(), 5)
        finally:
            subprocess.run(["fsfreeze", "-u", str(other)], check=True)
        assert member.process.wait(5) == 0
        member.start()
        wait_for([member], 2)
        member.kill()
    return None


if __name__ == "__main__":
    tap([every_member_has_each_checkpoint_once, a_disk_that_takes_none_holds_up_nothing, a_disk_that_hangs_holds_up_no_answer_and_no_stop])
