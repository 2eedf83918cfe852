#!/usr/bin/python3
"""The audit trail with real processes: who changed what is told by ckptctl, lies in the files of every member over the death of a leader, and is
proved; an edit, a gap and foreign bytes are found where they are. F-018, V-016, K-001, I41."""
import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, tap, wait_until  # noqa: E402
from ckpt.log.v1 import command_pb2, snapshot_pb2  # noqa: E402


def files(member):
    return sorted((pathlib.Path(member.data_dir) / "audit").glob("audit-*.audit"))


def links_in(data):
    """Each stands behind its length."""
    found = []
    while data:
        length = int.from_bytes(data[:4], "little")
        found.append(data[4:4 + length])
        data = data[4 + length:]
    return found


def joined(links):
    return b"".join(len(link).to_bytes(4, "little") + link for link in links)


def links(member):
    return [link for file in files(member) for link in links_in(file.read_bytes())]


def last(member):
    return max((snapshot_pb2.AuditLink.FromString(link).last for link in links(member)), default=0)


def head(cluster):
    audit = json.loads(cluster.ctl("status", "-o", "json").stdout)["status"]["audit"]
    return int(audit["sequence"]), audit["hash"]


def all_written(cluster):
    sequence, _ = head(cluster)
    for member in cluster.members:
        wait_until(f"{member.name} has {sequence} records", lambda: last(member) == sequence, 15)


def verify(cluster, *arguments, code=0):
    answer = cluster.ctl("audit", "verify", *[str(a) for a in arguments], check=False)
    assert answer.returncode == code, answer
    return answer.stdout


def the_trail_is_told_written_by_all_and_proved():
    with Cluster(members=3, tls=True) as cluster:
        cluster.start()
        cluster.ctl("policy", "set", "hang_after=30m")
        cluster.ctl("policy", "set", "hang_after=40m", "--request-id", "mine")
        cluster.register("job", [("a", 1, 1 << 20)])
        leader = cluster.leader()
        leader.kill()
        cluster.wait_leader()
        cluster.ctl("end", "job", "--yes")
        leader.start()
        all_written(cluster)
        rows = json.loads(cluster.ctl("audit", "list", "-o", "json").stdout)["records"]
        change = next(r for r in rows if r.get("request_id") == "mine")
        assert change["was"] == "hang_after_ms=1800000" and change["is"] == "hang_after_ms=2400000", change
        assert change["caller"].startswith("ckpt://") and "/operator/" in change["caller"] and change["address"].startswith("127."), change
        assert change["method"] == "SetPolicy" and change["subject"] == "policy", change
        told = cluster.ctl("request", "mine").stdout
        assert change["caller"] in told and change["address"] in told, told
        assert f"(by {change['caller']})" in cluster.ctl("events").stdout
        of_job = json.loads(cluster.ctl("audit", "list", "--job", "job", "-o", "json").stdout)["records"]
        assert [r["method"] for r in of_job] == ["RegisterAllocation", "EndAllocation"], of_job
        assert "SetPolicy" in cluster.ctl("audit", "list", "--method", "SetPolicy").stdout
        assert json.loads(cluster.ctl("audit", "list", "--caller", "nobody", "-o", "json").stdout)["records"] == []
        assert cluster.ctl("audit", "list", "--since", "soon", check=False).returncode == 2

        sequence, digest = head(cluster)
        trail = links(cluster.members[0])
        assert all(links(m) == trail for m in cluster.members)
        previous, number = bytes(32), 0
        for packed in trail:  # without a line of ours
            link = snapshot_pb2.AuditLink.FromString(packed)
            assert (link.first, link.last, link.previous) == (number + 1, number + len(link.records), previous), link
            previous, number = hashlib.blake2b(packed, digest_size=32).digest(), link.last
        assert command_pb2.Command.FromString(link.records[-1].command).end_allocation.allocation_id == "job", link
        assert previous.hex() == digest
        assert f"records 1 to {sequence}" in verify(cluster)
        every = [f for m in cluster.members for f in files(m)]
        assert f"records 1 to {sequence}" in verify(cluster, *every, "--head", digest)
        export = pathlib.Path(cluster.dir) / "export"
        export.mkdir()
        assert digest in cluster.ctl("audit", "export", str(export)).stdout
        assert cluster.ctl("audit", "export", str(export), check=False).returncode == 4
        exported = next(export.iterdir())
        assert verify(cluster, exported, "--head", digest)

        rows = json.loads(cluster.ctl("audit", "list", str(exported), "-o", "json").stdout)["records"]
        assert [r["sequence"] for r in rows] == list(range(1, sequence + 1)) and change in rows, rows

        broken = export / "broken"
        broken.write_bytes(exported.read_bytes().replace(b"hang_after_ms=1800000", b"hang_after_ms=1900000"))
        assert "were changed" in verify(cluster, broken, code=1)
        assert "one of them was changed" in verify(cluster, broken, exported, code=1)
        broken.write_bytes(joined(trail[:1] + trail[2:]))
        assert "records 2 to 2 are missing" in verify(cluster, broken, code=1)
        broken.write_bytes(joined(trail[:-1]))
        assert "no link has the hash" in verify(cluster, broken, "--head", digest, code=1)
        broken.write_bytes(exported.read_bytes() + b"{}\n")
        assert "is no link" in verify(cluster, broken, code=1)
        assert "something else" in cluster.ctl("audit", "list", str(broken), check=False).stderr
        assert verify(cluster, export / "none", code=3) == ""


if __name__ == "__main__":
    tap([the_trail_is_told_written_by_all_and_proved])
