#!/usr/bin/python3
"""What has not changed is not written again: from the files of a job to what ckptctl says of its checkpoints."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, checkpoint_text, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete  # noqa: E402

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
        assert line.split()[-2:] == ["ALWAYS", "0"], line
        record, written, saved = taken()
        assert written >= 2 * MIB and saved == 0, record
        inodes = wait_until("it lies there", lambda: {p.stat().st_ino for p in cluster.scratch.rglob("weights.bin")}, 5)
        assert len(inodes) == 2, inodes
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([unchanged_files_are_saved_and_a_target_says_how_often]))
