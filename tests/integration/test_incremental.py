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
from jobs import FAILED, MIB, POLICY, all_run, complete, ends_in, heat, hint  # noqa: E402
from small_store import SmallStore  # noqa: E402

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


# As the trainers of some frameworks do it; leaves a socket beside it when the file `spoil` is in its work folder, and tells how it began.
LINKER = APPLICATION.replace('(to / "step").write_text(told["hint"])', """(to / "step").write_text(told["hint"])
    (to / "sub").mkdir()
    (to / "sub" / "last.ckpt").symlink_to("../weights.bin")
    (to / "last.ckpt").symlink_to("step")
    if (folder / "spoil").exists():
        socket.socket(socket.AF_UNIX).bind(str(to / "sub" / "store"))""").replace("import os,", "import socket, os,").replace("signal.signal(", """
begun = os.environ.get("CKPT_RESTORE_DIR")
if begun:
    print("begins by", os.readlink(begun + "/last.ckpt"), os.readlink(begun + "/sub/last.ckpt"), open(begun + "/last.ckpt").read(), flush=True)
signal.signal(""", 1)


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


def worker(store, *words):
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL_S3": store.endpoint}
    return subprocess.run([str(BIN / "ckpt-worker"), *words], capture_output=True, text=True, errors="replace", timeout=60, env=environment)


def links_and_names_in_a_store(folder):
    """An object store has no links: the MANIFEST alone has them. Names that are no keys are refused before anything is sent."""
    at = ("--path", "s3://ckpt/site/t/p/j/checkpoints/1-1", "--part", "part-0000")
    source, back = folder / "source", folder / "back"
    (source / "sub").mkdir(parents=True)
    (source / "step-1").write_text("one")
    (source / "last").symlink_to("step-1")
    (source / "sub" / "up").symlink_to("../sub/none")
    with SmallStore() as store:
        def put():
            return worker(store, "put", "--prefix", "s3://ckpt/site", *at, "--source", str(source))
        done = put()
        assert done.returncode == 0, done
        assert sorted(key.rsplit("/", 1)[1] for key in store.objects) == ["MANIFEST", "step-1"], store.objects
        assert "reused=1" in put().stdout
        assert worker(store, "verify", *at).returncode == 0
        done = worker(store, "restore", *at, "--to", str(back))
        assert done.returncode == 0 and os.readlink(back / "last") == "step-1" and os.readlink(back / "sub" / "up") == "../sub/none", done
        (source / "last").unlink()
        (source / "last").symlink_to("sub")
        assert "reused=0" in put().stdout, "another link is another checkpoint"
        before = dict(store.objects)
        for odd in (b"no\xffutf8", b"x" * 250 + b"/" + b"y" * 250 + b"/" + b"z" * 250 + b"/" + b"u" * 250 + b"/f"):
            path = os.fsencode(source) + b"/" + odd
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("x")
            done = put()
            assert done.returncode == 7 and "cause=application_refused" in done.stdout, done
            assert store.objects == before, "nothing was sent"
            os.unlink(path)


def links_come_back_and_what_no_checkpoint_holds_fails_once():
    """last.ckpt -> step-100.ckpt is a habit. A socket is the application's: it is refused with its name, and not tried again."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 3}) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, 2 * MIB)])
        script = cluster.dir / "application.py"
        script.write_text(LINKER)
        job = cluster.run_job("a", "job", [sys.executable, str(script)])
        all_run(cluster)
        first = complete(cluster, "job")
        (job.work_dir / "spoil").touch()
        failed = ends_in(cluster, "job", hint(cluster, "job"), (FAILED,))
        assert failed.attempt == 1, failed
        said = ctl(cluster, "checkpoint", checkpoint_text(failed.checkpoint_id))
        assert "application refused" in said and "sub/store is a socket" in said, said
        told = wait_until("the job is told", lambda: "sub/store is a socket" in job.log.read_text() and job.log.read_text(), 10)
        assert told.count("was not taken") == 1, told
        (job.work_dir / "spoil").unlink()
        assert not list(cluster.scratch.rglob(".*tmp*")), "nothing was begun"
        last = complete(cluster, "job")
        os.kill(job.application_pid(), signal.SIGKILL)
        wanted = f"begins by step ../weights.bin {checkpoint_text(last.checkpoint_id)}-1"
        wait_until("it begins by its links", lambda: wanted in job.log.read_text(), 30)
        assert first.checkpoint_id < last.checkpoint_id
        links_and_names_in_a_store(cluster.dir / "store")
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([links_come_back_and_what_no_checkpoint_holds_fails_once, unchanged_files_are_saved_and_a_target_says_how_often, files_that_shrink_are_stored_compressed_and_restored]))
