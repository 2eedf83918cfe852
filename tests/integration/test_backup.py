#!/usr/bin/python3
"""Backups of a running cluster and restoring them: one consistent state per file, refused when a byte is wrong, ids never used again.
I25, I26, "restore wrong cluster's backup".

Flow    every test starts its own cluster; files are damaged on purpose and must be refused with name, offset and the next step.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, fill, grpc, http_status, load_json, metric, operator_pb2, operator_pb2_grpc, tail, tap, wait_until  # noqa: E402


def inspect(cluster, path):
    return load_json(cluster.ctl("-o", "json", "backup", "inspect", str(path)))["backup"]


def a_backup_holds_what_was_acknowledged_and_verifies():
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 300)
        file = cluster.dir / "one.ckptbackup"
        saved = cluster.ctl("backup", "save", str(file)).stdout
        assert f", version {inspect(cluster, file)['version']}\n" in saved, saved
        header = inspect(cluster, file)
        assert header["allocation_count"] == 300 and header["linearizable"], header
        assert header["state_hash"] in saved, saved
        checked = cluster.ctl("debug", "check", "-o", "wide").stdout
        assert header["cluster_id"] == "demo" and header["epoch"] == 1 and len(header["members"]) == 3, header
        verified = cluster.ctl("backup", "verify", str(file)).stdout
        assert cluster.ctl("backup", "verify", str(file), "-o", "name").stdout == f"{file}\n"
        told = json.loads(cluster.ctl("backup", "verify", str(file), "-o", "json").stdout)["verified"]
        assert told == {"file": str(file), "text": verified.strip()}, told
        assert header["state_hash"] in verified and "300 allocations" in verified, verified + checked
        again = cluster.ctl("backup", "save", str(file), check=False)
        assert again.returncode == 4 and "exists already" in again.stderr, again
        fill(cluster, 5, "b")
        cluster.ctl("backup", "save", "--force", str(file))
        assert inspect(cluster, file)["allocation_count"] == 305
        assert not list(cluster.dir.glob("*.part")) and not list(cluster.dir.glob("*/tmp-export*"))


def every_member_gives_one_also_without_a_leader_and_says_how_old_it_is():
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 50)
        leader = cluster.wait_leader()
        followers = [m for m in cluster.members if m is not leader]
        wait_until("all have applied it",
                   lambda: len({metric(m.http, "ckpt_raft_applied_index") for m in cluster.members}) == 1, 10)
        for member in cluster.members:
            file = cluster.dir / f"{member.name}.ckptbackup"
            cluster.ctl("backup", "save", "--stale", str(file), endpoints=member.api)
            header = inspect(cluster, file)
            assert header["member_name"] == member.name and not header.get("linearizable"), header
            assert header["allocation_count"] == 50, header
        refused = cluster.ctl("--timeout", "2s", "backup", "save", str(cluster.dir / "x"), check=False, endpoints=followers[0].api)
        assert refused.returncode == 0, refused  # the hint leads to the leader
        leader.kill()
        followers[0].kill()
        wait_until("it notices", lambda: http_status(followers[1].http, "/readyz") == 503, 15)
        file = cluster.dir / "alone"
        cluster.ctl("backup", "save", "--stale", str(file), endpoints=followers[1].api)
        header = inspect(cluster, file)
        assert header["age_ms"] > 0 and header["allocation_count"] == 50, header
        failed = cluster.ctl("--timeout", "2s", "backup", "save", str(cluster.dir / "y"), check=False)
        assert failed.returncode == 5, failed
        assert not any("event=backup_failed" in m.log.read_text() for m in cluster.members), "nothing failed here: it was the leader's to take"
        assert not (cluster.dir / "y").exists() and not (cluster.dir / "y.part").exists()


def a_backup_under_load_is_one_state():
    """The file's own hash is that of the log at its index: members are asked for it by their history."""
    with Cluster() as cluster:
        cluster.start()
        stop = threading.Event()
        count = [0]

        def write():
            while not stop.is_set():
                count[0] += 1
                cluster.register(f"w{count[0]}", [("n", 1, 1)])

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        wait_until("it writes", lambda: count[0] > 100, 20)
        files = []
        for i in range(3):
            files.append(cluster.dir / f"{i}.ckptbackup")
            before = count[0]
            cluster.ctl("backup", "save", str(files[-1]))
            header = inspect(cluster, files[-1])
            assert header["allocation_count"] >= before - 1, (header, before)
            stub = operator_pb2_grpc.OperatorServiceStub(cluster.client.channel(cluster.wait_leader().api))
            history = {h.index: f"{h.hash:016x}" for h in stub.DebugCheck(operator_pb2.DebugCheckRequest(), timeout=10).history}
            assert history[header["index"]] == header["state_hash"]
        stop.set()
        writer.join(20)
        for file in files:
            cluster.ctl("backup", "verify", str(file))


def damaged_files_are_refused_with_the_offset():
    with Cluster(members=1) as cluster:
        cluster.start()
        fill(cluster, 200)
        whole = cluster.dir / "whole"
        cluster.ctl("backup", "save", str(whole))
        content = whole.read_bytes()
        bad = cluster.dir / "bad"
        cases = [bytes(content[:n]) for n in (0, 7, 15, 40, len(content) // 2, len(content) - 1)] + [content + b"x"]
        for offset in (3, 9, 13, 30, 200, len(content) // 3, len(content) // 2, len(content) - 40, len(content) - 1):
            flipped = bytearray(content)
            flipped[offset] ^= 0x10
            cases.append(bytes(flipped))
        for case in cases:
            bad.write_bytes(case)
            for verb in ("inspect", "verify"):
                result = cluster.ctl("backup", verb, str(bad), check=False)
                assert result.returncode == 1, (len(case), result)
                assert str(bad) in result.stderr and ("offset" in result.stderr or "no backup" in result.stderr
                                                      or "format version" in result.stderr), result.stderr
        missing = cluster.ctl("backup", "inspect", str(cluster.dir / "none"), check=False)
        assert missing.returncode == 3, missing


def abandoned_backups_leave_nothing_and_too_many_are_refused():
    """A client that does not read holds its stream; one that is gone gives its file's space back; a stop does not wait for either."""
    with Cluster(members=1) as cluster:
        cluster.start()
        (member,) = cluster.members
        for i in range(600):  # incompressible names: more than what a stream buffers
            nodes = [(os.urandom(48).hex(), 1, 1) for _ in range(20)]
            cluster.register(os.urandom(60).hex(), nodes)
        file = cluster.dir / "one"
        cluster.ctl("backup", "save", str(file))
        assert file.stat().st_size > 1 << 20, file.stat().st_size
        # a client that widens its window by what it measures would take in the whole file unread
        channel = grpc.insecure_channel(member.api, options=[("grpc.http2.bdp_probe", 0)])
        stub = operator_pb2_grpc.OperatorServiceStub(channel)

        def files():
            return list(member.data_dir.glob("tmp-export-*"))

        streams = [stub.Backup(operator_pb2.BackupRequest(linearizable=True)) for _ in range(4)]
        wait_until("four are under way", lambda: len(files()) == 4, 10)
        try:
            list(stub.Backup(operator_pb2.BackupRequest(), timeout=10))
            raise AssertionError("a fifth backup was begun")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "no more at a time" in error.details(), error
        for stream in streams:
            stream.cancel()
        wait_until("their files are gone", lambda: not files(), 10)
        whole = b"".join(chunk.data for chunk in stub.Backup(operator_pb2.BackupRequest(linearizable=True), timeout=20))
        assert whole[:8] == b"CKPTBKUP"
        held = stub.Backup(operator_pb2.BackupRequest(linearizable=True))
        wait_until("one is under way", files, 10)
        member.kill(signal.SIGTERM)
        assert member.process.wait(15) == 0, tail(member.log)
        held.cancel()
        channel.close()
        member.start()
        assert not files(), "the next start removes what was left"


def with_backups(cluster, directory, **options):
    values = {"directory": f'"{directory}"', "interval": "1s", "keep": 3, **options}
    cluster.config.write_text(cluster.config.read_text() + f"backups: {{{', '.join(f'{k}: {v}' for k, v in values.items())}}}\n")


def backups(directory):
    return sorted(p.name for p in directory.iterdir() if p.name.endswith(".ckptbackup"))


def scheduled_backups_are_written_by_the_leader_kept_and_verify():
    """B-003, B-004: the newest stay, and one is restored in memory by itself."""
    with Cluster() as cluster:
        directory = cluster.dir / "kept"
        directory.mkdir()
        other = directory / "ckpt-demo@00000000-20200101T000000Z-e1-i1.ckptbackup"
        other.write_text("of the history that this one replaced")
        with_backups(cluster, directory)
        cluster.start()
        fill(cluster, 20)
        wait_until("some are written", lambda: (metric(cluster.wait_leader().http, "ckpt_backups_total") or 0) >= 4, 20)
        wait_until("the oldest go", lambda: len(backups(directory)) == 4 and other.name in backups(directory), 5)
        names = [n for n in backups(directory) if n != other.name]
        incarnation = f"{int(load_json(cluster.ctl('-o', 'json', 'status'))['status']['incarnation']):016x}"
        assert all(re.fullmatch(rf"ckpt-demo@{incarnation[:8]}-\d{{8}}T\d{{6}}Z-e1-i\d+\.ckptbackup", n) for n in names), names
        # each second one is written, and the oldest goes: of some tries one is in time
        assert any(cluster.ctl("backup", "verify", str(directory / backups(directory)[-1]), check=False).returncode == 0 for _ in range(5))
        leader = cluster.wait_leader()
        wait_until("one was verified by itself", lambda: "event=backup_verified" in leader.log.read_text(), 10)
        assert metric(leader.http, "ckpt_backup_last_verified_timestamp_seconds") > 0
        leader = cluster.wait_leader()
        assert time.time() - metric(leader.http, "ckpt_backup_last_success_timestamp_seconds") < 10
        assert metric(leader.http, "ckpt_backup_interval_seconds") == 1
        leader.kill()
        before = backups(directory)
        wait_until("the next leader goes on with it", lambda: len(set(backups(directory)) - set(before)) >= 2, 20)
        assert len(backups(directory)) <= 5


def a_full_or_missing_backup_directory_hurts_nobody_and_is_told():
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "mounting a small file system needs root and unshare(1)"
    if "CKPT_TEST_INSIDE" not in os.environ:
        result = subprocess.run(["unshare", "--mount", sys.executable, __file__, "a_full_or_missing"],
                                env={**os.environ, "CKPT_TEST_INSIDE": "1"}, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        return None
    with Cluster(members=1) as cluster:
        directory = cluster.dir / "kept"
        directory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(directory)], check=True)
        try:
            with_backups(cluster, directory)
            cluster.start()
            (member,) = cluster.members
            fill(cluster, 50)
            wait_until("one is written", lambda: backups(directory), 10)
            good = backups(directory)
            with open(directory / "ballast", "wb", buffering=0) as ballast:
                try:
                    while True:
                        ballast.write(bytes(4096))
                except OSError:
                    pass
            wait_until("it is told", lambda: "scheduled backups fail" in cluster.ctl("status", check=False).stdout, 15)
            warning = next(w for w in load_json(cluster.ctl("-o", "json", "status", check=False))["status"]["warnings"] if "backups" in w)
            assert "No space left" in warning, warning
            wait_until("its space is given back", lambda: not [p for p in directory.iterdir() if p.name.endswith(".part")], 5, 0.01)
            assert set(good) & set(backups(directory)), "good ones stay"
            fill(cluster, 50, "while")
            assert http_status(member.http, "/readyz") == 200
            time.sleep(2.5)  # ten tries
            assert metric(member.http, "ckpt_backups_total") >= 5
            assert member.log.read_text().count("event=backup_failed") <= 2, "one line in 10 s says it"
            (directory / "ballast").unlink()
            wait_until("it goes on by itself", lambda: "scheduled backups fail" not in cluster.ctl("status", check=False).stdout, 15)
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
        directory.rmdir()
        wait_until("a missing one is told too", lambda: "scheduled backups fail" in cluster.ctl("status", check=False).stdout, 15)
        fill(cluster, 50, "without")
        wait_until("what was begun is gone", lambda: not list(member.data_dir.glob("tmp-export*")), 10)


if __name__ == "__main__":
    sys.exit(tap([scheduled_backups_are_written_by_the_leader_kept_and_verify,
                  a_full_or_missing_backup_directory_hurts_nobody_and_is_told,
                  abandoned_backups_leave_nothing_and_too_many_are_refused,
                  a_backup_holds_what_was_acknowledged_and_verifies,
                  every_member_gives_one_also_without_a_leader_and_says_how_old_it_is,
                  a_backup_under_load_is_one_state, damaged_files_are_refused_with_the_offset]))
