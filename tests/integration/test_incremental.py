#!/usr/bin/python3
"""What has not changed is not written again: from the files of a job to what ckptctl says of its checkpoints."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, checkpoint_text, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402

APPLICATION = """
import os, pathlib, signal

def save(number, frame):
    folder = pathlib.Path(os.environ["CKPT_DIR"])
    told = dict(line.split("=", 1) for line in (folder / "request").read_text().splitlines() if "=" in line)
    to = pathlib.Path(told["directory"])
    to.mkdir(parents=True, exist_ok=True)
    (to / "weights.bin").write_bytes(bytes(range(256)) * 8192)
    (to / "step").write_text(told["hint"])
    text = f"hint={told['hint']}\\nbytes={2097152 + len(told['hint'])}\\nstatus=0\\n"
    (folder / "done.new").write_text(text)
    (folder / "done.new").rename(folder / "done")

signal.signal(signal.SIGUSR1, save)
while True:
    signal.pause()
"""


def ctl(cluster, *arguments):
    endpoints = ",".join(member.api for member in cluster.members)
    return subprocess.run([str(BIN / "ckptctl"), "--endpoints", endpoints, *arguments], capture_output=True, text=True, timeout=30, check=True).stdout


def unchanged_files_are_saved_and_a_target_says_how_often():
    """The record has what was written; a change of the target counts from the next checkpoint on."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, 2 * MIB)])
        script = cluster.dir / "application.py"
        script.write_text(APPLICATION)
        cluster.run_job("a", "job", [sys.executable, str(script)])
        all_run(cluster)

        def taken():
            record = complete(cluster, "job")
            shard, = record.shards
            assert shard.size_bytes >= 2 * MIB, record
            return record, shard.written_bytes, shard.size_bytes - shard.written_bytes

        record, written, saved = taken()
        assert written >= 2 * MIB and saved == 0, record
        record, written, saved = taken()
        assert written < 100 and saved == 2 * MIB, record
        said = ctl(cluster, "checkpoint", checkpoint_text(record.checkpoint_id))
        assert "saved 2.0 MiB" in said, said
        target = record.target_id
        ctl(cluster, "target", "put", target, "--generations", "0", "--read-back", "always")
        line, = [line for line in ctl(cluster, "targets", "--output", "wide").splitlines() if line.startswith(target)]
        read_back = line.split().index("ALWAYS")
        assert line.split()[read_back + 1] == "0", line
        record, written, saved = taken()
        assert written >= 2 * MIB and saved == 0, record
        inodes = wait_until("it lies there", lambda: {p.stat().st_ino for p in cluster.scratch.rglob("weights.bin")}, 5)
        assert len(inodes) == 2, inodes
        cluster.debug_check()


def files_that_shrink_are_stored_compressed_and_restored():
    """From the node's own copy, which is not compressed, and from the destination; until the target says otherwise."""
    with Cluster(members=1, agents=("a",), policy=POLICY, target={"compression": "lz4"}) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "job", heat(cluster, "job", "--delay-us", "50000"), ["--max-restarts", "10"])  # few numbers that are not 0
        all_run(cluster)

        def starts_again():
            said, before = len(job.log.read_text()), job.known_to_run()
            os.kill(before, signal.SIGKILL)
            wait_until("it runs again", lambda: job.known_to_run() not in (None, before), 30)
            return job.log.read_text()[said:]

        record = complete(cluster, "job")
        shard, = record.shards
        assert shard.written_bytes < shard.size_bytes * 0.9, shard
        text = checkpoint_text(record.checkpoint_id)
        part, = cluster.scratch.rglob(f"{text}/part-0000")
        stored = sorted(p.name for p in part.iterdir() if p.name != "MANIFEST")
        assert stored == ["grid.bin.lz4", "iteration.txt"], stored
        said = ctl(cluster, "checkpoint", text)
        assert "saved" in said, said
        copy = wait_until("a copy is kept", lambda: next(iter(job.work_dir.glob(f"copies/{text}/part-0000")), None), 20)
        read = subprocess.run(["lz4", "-dc", str(part / "grid.bin.lz4")], capture_output=True, check=True).stdout
        assert read == (copy / "grid.bin").read_bytes()
        again = starts_again()
        assert text in again and "came from the copy that this node kept" in again, again
        shutil.rmtree(copy.parent)
        again = starts_again()
        assert text in again and "came from the copy" not in again, again
        target = record.target_id
        line, = [line for line in ctl(cluster, "targets", "--output", "wide").splitlines() if line.startswith(target)]
        assert "LZ4" in line.split(), line
        refused = cluster.ctl("target", "put", "far", "--prefix", "s3://bucket", "--write", "1GB/s", "--compression", "lz4", check=False)
        assert refused.returncode != 0 and "COMPRESSION_UNFIT" in refused.stderr, refused
        ctl(cluster, "target", "put", target, "--compression", "none")
        record = complete(cluster, "job")
        part, = cluster.scratch.rglob(f"{checkpoint_text(record.checkpoint_id)}/part-0000")
        assert not list(part.glob("*.lz4")), list(part.iterdir())
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([unchanged_files_are_saved_and_a_target_says_how_often, files_that_shrink_are_stored_compressed_and_restored]))
