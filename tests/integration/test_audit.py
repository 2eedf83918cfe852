#!/usr/bin/python3
"""The audit trail with real processes: who changed what is told by ckptctl, lies in the files of every member over the death of a leader, and is
proved; an edit, a gap and foreign bytes are found where they are. F-018, V-016, K-001, I41."""
import hashlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, metric, tap, wait_until  # noqa: E402
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
        assert "no records" in cluster.ctl("audit", "list", "--caller", "nobody").stderr
        lines = cluster.ctl("audit", "list", "-o", "jsonl").stdout.splitlines()
        assert [json.loads(line)["record"] for line in lines] == json.loads(cluster.ctl("audit", "list", "-o", "json").stdout)["records"]
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
        exported = next(export.glob("*.audit"))
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


def signature(file):
    return json.loads(pathlib.Path(f"{file}.sig").read_text())


def all_signed(cluster):
    sequence, digest = head(cluster)
    for member in cluster.members:
        wait_until(f"{member.name} has signed record {sequence}", lambda: files(member) and pathlib.Path(f"{files(member)[-1]}.sig").exists()
                   and signature(files(member)[-1])["last"] == sequence and signature(files(member)[-1])["hash"] == digest, 15)


def holds(signed, public, folder):
    """By openssl alone, from what the runbook says of the signed text."""
    lines = ["ckpt audit head 1"] + [f"{name}={signed[name]}" for name in
                                     ("cluster", "member", "key", "epoch", "first", "last", "records", "hash", "at_ms")]
    (folder / "text").write_bytes("".join(line + "\n" for line in lines).encode())
    (folder / "signature").write_bytes(bytes.fromhex(signed["signature"]))
    (folder / "public").write_bytes(public)
    der = subprocess.run(["openssl", "pkey", "-pubin", "-in", str(folder / "public"), "-outform", "DER"], capture_output=True, check=True).stdout
    assert hashlib.sha256(der).hexdigest()[:32] == signed["key"]
    return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(folder / "public"), "-rawin", "-in", str(folder / "text"),
                           "-sigfile", str(folder / "signature")], capture_output=True).returncode == 0


def signed_heads_prove_copies_without_the_cluster():
    """K-008, F-018, N-004: an edit with the chain written anew, a cut, what was added, last week's files: found with public keys alone, after
    the keys were replaced, and after the cluster is gone."""
    with Cluster(members=3, tls=True) as cluster:
        cluster.start()
        site, copy = cluster.site, pathlib.Path(cluster.dir) / "copy"
        copy.mkdir()
        for value in ("20m", "30m", "40m"):
            cluster.ctl("policy", "set", f"hang_after={value}")
        all_signed(cluster)
        member = cluster.members[0]
        early = copy / "early"
        early.write_bytes(files(member)[0].read_bytes())
        shutil.copy(f"{files(member)[0]}.sig", f"{early}.sig")
        # the file of public keys has each member's, and signatures name whose they are
        public = site.audit_public.read_bytes().split(b"-----BEGIN")[1]
        assert holds(signature(early), b"-----BEGIN" + public, copy), signature(early)
        assert signature(early)["cluster"] == "demo" and signature(early)["member"] == member.name
        # replaced keys: new heads are by the new one, and the early copy is proved as before
        old = signature(early)["key"]
        for other in cluster.members:
            site.audit_key(other.name)
            other.process.send_signal(signal.SIGHUP)
        wait_until("the same head is signed by the new key", lambda: signature(files(member)[0])["key"] != old, 10)
        cluster.ctl("policy", "set", "hang_after=50m")
        cluster.ctl("audit", "export", str(copy))
        export = next(copy.glob("audit-export-*.audit"))
        assert json.loads(pathlib.Path(f"{export}.sig").read_text())["records"] == head(cluster)[0]
        assert "signed: by member" in verify(cluster, "--public-key", site.audit_public)  # what the state keeps
        all_signed(cluster)
        late = copy / "late"
        late.write_bytes(files(member)[0].read_bytes())
        shutil.copy(f"{files(member)[0]}.sig", f"{late}.sig")
        every = [f for m in cluster.members for f in files(m)]
        assert "signed: by member" in verify(cluster, *every, "--public-key", site.audit_public, "--since", "10m")
        for m in cluster.members:
            m.kill()

        def proves(file, *words, code=0):
            return verify(cluster, file, "--public-key", site.audit_public, *words, code=code)

        for file in (early, late, export):
            assert "of cluster demo" in proves(file), file
        at_ms = signature(late)["at_ms"]
        assert proves(late, "--since", str(at_ms)) and "before --since" in proves(early, "--since", str(at_ms), code=1)
        # one who has no key writes another history, with hashes that hold
        trail, previous, forged = links_in(late.read_bytes()), bytes(32), []
        for packed in trail:
            link = snapshot_pb2.AuditLink.FromString(packed.replace(b"hang_after_ms=1800000", b"hang_after_ms=1900000"))
            link.previous = previous
            forged.append(link.SerializeToString(deterministic=True))
            previous = hashlib.blake2b(forged[-1], digest_size=32).digest()
        false = copy / "false"
        shutil.copy(f"{late}.sig", f"{false}.sig")
        false.write_bytes(joined(forged))
        assert "whole" in verify(cluster, false) and "they were changed or cut off" in proves(false, code=1)
        false.write_bytes(joined(trail[:-1]))
        assert "whole" in verify(cluster, false) and "they were changed or cut off" in proves(false, code=1)
        false.write_bytes(joined(trail[1:]))
        assert "the first one here is" in proves(false, code=1)
        shutil.copy(f"{early}.sig", f"{false}.sig")
        false.write_bytes(joined(trail))
        assert "no signed head proves" in proves(false, code=1)
        changed = signature(late)
        changed["at_ms"] += 3600000
        pathlib.Path(f"{false}.sig").write_text(json.dumps(changed))
        assert "does not hold" in proves(false, code=1)
        pathlib.Path(f"{false}.sig").unlink()
        assert "no signed head proves" in proves(false, code=1)
        (copy / "other.pem").write_bytes(b"-----BEGIN" + public)
        assert "which is not among the public keys" in verify(cluster, late, "--public-key", copy / "other.pem", code=1)
        assert proves(late, "--since", "soon", code=2) == ""
        # ... and nobody signs it who has a key: not a member either that finds it at a start
        theirs = files(member)[0]
        assert theirs.read_bytes() == late.read_bytes()
        theirs.write_bytes(joined(forged))
        for m in cluster.members:
            m.start()
        wait_until("it is told", lambda: "level=error program=ckptd name=n1 event=audit_changed" in member.log.read_text(), 20)
        assert "signed: by" not in proves(theirs, code=1)
        assert [metric(m.http, "ckpt_audit_changed") for m in cluster.members] == [1, 0, 0]


def a_cluster_with_tls_and_no_key_says_so():
    with Cluster(members=1, tls=True) as cluster:
        text = cluster.config.read_text()
        cluster.config.write_text("".join(line for line in text.splitlines(True) if not line.startswith("audit:")))
        cluster.start()
        member = cluster.members[0]
        assert "level=warning program=ckptd name=n1 event=audit_unsigned" in member.log.read_text(), member.log.read_text()
        assert f"the audit trail of {member.name} is not signed" in cluster.ctl("status").stdout
        # a key that others may read is no key, and stops nothing that runs
        key = cluster.site.dir / f"audit-{member.name}.key"
        key.chmod(0o644)
        cluster.config.write_text(text)
        check = subprocess.run([str(cluster.bin / "ckptd"), "--config", str(cluster.config), "--name", member.name, "--check-config"],
                               capture_output=True, text=True)
        assert check.returncode == 2 and "chmod 600" in check.stderr, check
        member.process.send_signal(signal.SIGHUP)
        wait_until("it is refused", lambda: "event=audit_key_failed" in member.log.read_text(), 10)
        key.chmod(0o600)
        member.process.send_signal(signal.SIGHUP)
        wait_until("it signs", lambda: "is not signed" not in cluster.ctl("status").stdout, 10)
        assert json.loads(cluster.ctl("status", "-o", "json").stdout)["status"]["audit"]["key_id"]


if __name__ == "__main__":
    tap([the_trail_is_told_written_by_all_and_proved, signed_heads_prove_copies_without_the_cluster, a_cluster_with_tls_and_no_key_says_so])
