#!/usr/bin/python3
"""A checkpoint of GIB (4) in files of 1 GiB to Ceph's gateway on this machine and back: ckpt-worker beside awscli and rclone, in turns, whose order changes.
Prints seconds, MB/s and processor seconds of the client. ckpt-worker's hold its hashing, and its upload is followed by no read-back, as the others'.
What comes back is durable: ckpt-worker sees to that, and a sync(1) after the others counts as theirs. The store's disk, a file of GIB + 4, and the one
for what comes back, an ext4 of GIB + 1 (as root), lie in memory where there is enough of it: one disk that all share would be the limit of all. Else
they lie in TMPDIR, as the source does. Usage: tests/bench/s3.py [GIB [ROUNDS]]. Ends with 1 when a promise is missed."""
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import rgw  # noqa: E402
from cluster import BIN  # noqa: E402
from pairs import touch_free_memory  # noqa: E402

PREFIX, MEMORY = "s3://ckpt/bench", "/dev/shm"
FASTER, CHEAPER = 1.5, 3.0  # than the faster of the others; of its processor time


def timed(arguments, environment):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    took_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, (arguments, result.stderr[-1000:])
    return took_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tools(store, source, back):
    """name: upload, download, what makes room again."""
    environment = store.environment(RCLONE_CONFIG_S_TYPE="s3", RCLONE_CONFIG_S_PROVIDER="Ceph", RCLONE_CONFIG_S_ENDPOINT=store.endpoint,
                                    RCLONE_CONFIG_S_ACCESS_KEY_ID=store.access, RCLONE_CONFIG_S_SECRET_ACCESS_KEY=store.secret)
    path = f"{PREFIX}/t/p/job/checkpoints/1-1"
    worker = [str(BIN / "ckpt-worker")]
    place = ["--prefix", PREFIX, "--path", path, "--part", "part-0000"]
    aws = ["/usr/bin/aws", "--endpoint-url", store.endpoint, "s3"]
    return environment, {
        "ckpt-worker": (worker + ["put", *place, "--source", str(source), "--read-back", "never"], worker + ["restore", *place, "--to", str(back)],
                        worker + ["collect", "--prefix", PREFIX, "--path", path]),
        "awscli": (aws + ["cp", "--recursive", "--only-show-errors", str(source), "s3://ckpt/aws"],
                   aws + ["cp", "--recursive", "--only-show-errors", "s3://ckpt/aws", str(back)], aws + ["rm", "--recursive", "--quiet", "s3://ckpt/aws"]),
        "rclone": (["rclone", "copy", str(source), "s:ckpt/rclone"], ["rclone", "copy", "s:ckpt/rclone", str(back)], ["rclone", "purge", "s:ckpt/rclone"])}


def in_memory(gib):
    """Where the store is to lie; None: in TMPDIR."""
    with open("/proc/meminfo") as lines:
        free = min(next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), shutil.disk_usage(MEMORY).free)
    return MEMORY if free > (2 * gib + 5 + 2) << 30 else None


@contextlib.contextmanager
def disk_for(gib, below, otherwise):
    """A folder for what comes back."""
    if below is None or os.geteuid() != 0:
        yield otherwise
        return
    with tempfile.NamedTemporaryFile(prefix="s3-bench-", dir=below) as image:
        os.posix_fallocate(image.fileno(), 0, (gib + 1) << 30)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image.name], check=True)
        folder = otherwise / "disk"
        folder.mkdir()
        try:
            mounted = subprocess.run(["mount", "-o", "loop", image.name, str(folder)]).returncode == 0
            yield folder if mounted else otherwise
        finally:
            subprocess.run(["umount", "--lazy", "--quiet", str(folder)])


def missing():
    absent = [name for name in ("/usr/bin/aws", "rclone") if shutil.which(name) is None]
    return rgw.missing() or (f"not installed: {', '.join(absent)}" if absent else None)


def main():
    if missing():
        print(f"# no figures beside other tools for object stores: {missing()}; deploy/install-deps.sh bench has them")
        return 0
    gib, rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4, int(sys.argv[2]) if len(sys.argv) > 2 else 2
    below = in_memory(gib)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="s3-bench-"))
    best = {}
    try:
        source = folder / "source"
        source.mkdir()
        for i in range(gib):
            subprocess.run(["dd", "if=/dev/urandom", f"of={source}/{i}.bin", "bs=1M", "count=1024", "status=none"], check=True)
        os.sync()  # what follows pays for nothing of it
        with disk_for(gib, below, folder) as disk, rgw.Rgw(file_gib=gib + 4, below=below) as store:
            for what, fast in (("the store's disk", below is not None), ("the disk for what comes back", disk != folder)):
                print(f"{what} lies {'in memory' if fast else f'in {folder.parent}, whose disk is the limit of all'}", flush=True)
            environment, all_tools = tools(store, source, disk / "back")
            touch_free_memory()
            for i in range(rounds):
                for name, (up, down, remove) in list(all_tools.items())[::-1 if i % 2 else 1]:
                    for way, arguments in (("up", up), ("down", down)):
                        took_s, cpu_s = timed(arguments, environment)
                        if way == "down" and name != "ckpt-worker":
                            took_s += timed(["sync", "-f", str(disk)], environment)[0]
                        print(f"{name:12} {way:5} {took_s:7.1f} s {gib * 1073.741824 / took_s:7.0f} MB/s {cpu_s:6.1f} s of processor", flush=True)
                        key = (name, way)
                        best[key] = min(best.get(key, (took_s, cpu_s)), (took_s, cpu_s))
                    shutil.rmtree(disk / "back")
                    timed(remove, environment)
                    store.free_space()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed = False
    for way in ("up", "down"):
        other = min(best[name, way] for name in ("awscli", "rclone"))
        ours = best["ckpt-worker", way]
        faster, cheaper = other[0] / ours[0], other[1] / ours[1]
        missed |= faster < FASTER or cheaper < CHEAPER
        print(f"{way:5} {faster:.2f} x the faster of the others ({FASTER} promised), 1/{cheaper:.1f} of its processor time (1/{CHEAPER:.0f} promised)")
    return 1 if missed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # what was mounted and started goes as well
    sys.exit(main())
