#!/usr/bin/python3
"""A job whose state is 100,000 small files, through the whole way: asked, copied, verified, and begun from on another node. FILES chooses another number."""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, POLICY, SUSPENDED, all_run, allocation_in, checkpoint, ends, ends_in, restart, says  # noqa: E402

FILES = int(os.environ.get("FILES", "100000"))
APPLICATION = """
import os, pathlib, signal, sys, time

FILES = int(sys.argv[1])

def name(number):
    return f"{number % 97:02}/{number % 1009:04}/{number}"

def text(number):  # empty ones among them, and no two of the others alike
    return f"{number}:".encode() * (number % 40)

def save(*_):
    own = pathlib.Path(os.environ["CKPT_DIR"])
    told = dict(line.split("=", 1) for line in (own / "request").read_text().splitlines() if "=" in line)
    began, total = time.monotonic(), 0
    for number in range(FILES):
        path, made = os.path.join(told["directory"], name(number)), text(number)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path))
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        total += os.write(file, made)
        os.close(file)
    print(f"wrote in {time.monotonic() - began:.1f} s", flush=True)
    (own / "done.new").write_text(f"hint={told['hint']}\\nbytes={total}\\nstatus=0\\n")
    (own / "done.new").rename(own / "done")

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None

def compare(folder):
    wrong = [number for number in range(FILES) if read(os.path.join(folder, name(number))) != text(number)]
    there = sum(len(files) for _, _, files in os.walk(folder))
    print(f"begins with {there} files, {len(wrong)} of them wrong", flush=True)

signal.signal(signal.SIGUSR1, save)
if "CKPT_RESTORE_DIR" in os.environ:
    compare(os.environ["CKPT_RESTORE_DIR"])
while True:
    signal.pause()
"""


def a_job_of_100000_files_goes_on_elsewhere_with_all_of_them():
    with Cluster(members=3, agents=("a", "b"), policy={**POLICY, "checkpoint_timeout": "10m", "max_attempts": 1}, target={"staging": "local"}) as cluster:
        cluster.start()
        script = cluster.dir / "application.py"
        script.write_text(APPLICATION)
        command = [sys.executable, str(script), str(FILES)]
        cluster.register("job", [("a", 1, 1 << 20)], grace_ms=1000)
        first = cluster.run_job("a", "job", command)
        all_run(cluster)
        began = time.monotonic()
        identifier = cluster.request_checkpoint("job", common_pb2.AFTER_CHECKPOINT_STOP)
        ends_in(cluster, "job", identifier, (COMPLETE,), 600)
        complete_s = time.monotonic() - began
        shard, = checkpoint(cluster, "job", identifier).shards
        allocation_in(cluster, "job", SUSPENDED)
        ends(first)
        restart(cluster, "job", nodes="b")
        began = time.monotonic()
        second = cluster.run_job("b", "job", command)
        says(second, "begins with ", 600)
        begun_s = time.monotonic() - began
        assert f"begins with {FILES} files, 0 of them wrong" in second.log.read_text(), second.log.read_text()
        wait_until("it is known to run", second.known_to_run, 20)
        wrote = next(line for line in first.log.read_text().splitlines() if line.startswith("wrote in"))
        print(f"# {FILES} files, {shard.size_bytes} bytes, staging local: request to COMPLETE {complete_s:.1f} s (the application {wrote}), "
              f"start on the other node to its first word, all read and compared, {begun_s:.1f} s", flush=True)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([a_job_of_100000_files_goes_on_elsewhere_with_all_of_them]))
