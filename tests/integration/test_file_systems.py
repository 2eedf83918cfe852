#!/usr/bin/python3
"""What real file systems do to checkpoints: no room, a quota that is used up, stamps of whole seconds, a syncfs that leaves the disk's cache
alone."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, wait_until  # noqa: E402
from disks import Disk, file_system, fill, run  # noqa: E402
from isolate import main, needs  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, all_run, ends_in, hint, says  # noqa: E402

EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "nodiscard")
UNAVAILABLE = 5  # ckpt-worker's exit code: worth another try


class Folder:
    """A destination and a source below a folder of files."""

    def __init__(self, prefix, files):
        self.prefix, self.source = pathlib.Path(prefix), pathlib.Path(tempfile.mkdtemp())
        self.path = self.prefix / "t/p/job/checkpoints/1-1"
        for name, size in files.items():
            (self.source / name).write_bytes(os.urandom(size))

    def put(self, *options, before=(), part="part-0000"):
        return subprocess.run([*before, str(BIN / "ckpt-worker"), "put", "--prefix", str(self.prefix), "--path", str(self.path), "--part", part,
                               "--source", str(self.source), *options], capture_output=True, text=True, timeout=120)

    def left(self):
        return [path for path in self.path.rglob("*") if path.is_file()]


def refused_for(done, cause, text):
    assert done.returncode == UNAVAILABLE, done
    assert f"cause={cause}\n" in done.stdout, done
    assert text in done.stderr and done.stderr.rstrip().endswith(", then retry"), done.stderr


def takes_what_fits_afterwards(folder):
    assert folder.left() == [], "a put that found no room leaves nothing in it"
    for path in folder.source.iterdir():
        path.write_bytes(path.read_bytes()[:MIB // 4])
    done = folder.put()
    assert done.returncode == 0, done


@needs("mkfs.ext4", "mkfs.btrfs", "mount")
def a_file_system_without_room_is_named_so():
    """Where the room is missing differs: in write(2), and on btrfs in fsync(2) as well."""
    with tempfile.TemporaryDirectory() as scratch:
        for size_mib, make in ((16, EXT4), (120, ("mkfs.btrfs", "-q"))):
            with file_system(f"{scratch}/{make[0]}", size_mib, *make) as at:
                folder = Folder(at, {"a": size_mib * MIB // 2, "b": size_mib * MIB // 2})
                refused_for(folder.put(), "storage_full", "No space left on device; free space in its file system")
                takes_what_fits_afterwards(folder)


def limited(folder, name, limit):
    """A folder of btrfs with a quota of its own."""
    run("btrfs", "quota", "enable", folder)
    run("btrfs", "subvolume", "create", folder / name)
    run("btrfs", "qgroup", "limit", limit, folder / name)
    return folder / name


@needs("mkfs.btrfs", "btrfs", "mount")
def a_quota_that_is_used_up_is_named_so():
    with tempfile.TemporaryDirectory() as scratch, file_system(f"{scratch}/at", 256, "mkfs.btrfs", "-q") as at:
        folder = Folder(limited(at, "site", "8M"), {"a": 6 * MIB, "b": 6 * MIB})
        refused_for(folder.put(), "storage_quota", "Disk quota exceeded; raise the quota or free space")
        takes_what_fits_afterwards(folder)


@needs("mkfs.btrfs", "btrfs", "mount")
def a_job_hears_of_the_quota_and_goes_on():
    """From the file system to the record, and to the line of ckpt-run; it is no outage of the destination, whose other users write on."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster, file_system(cluster.scratch, 256, "mkfs.btrfs", "-q") as at:
        project = at / "physics" / "heat"
        project.mkdir(parents=True)
        limited(project, "big", "128K")
        cluster.start()
        for name, size in (("small", 64), ("big", 300)):
            cluster.register(name, [("a", 1, MIB)])
            job = cluster.run_job("a", name, [str(BIN / "heat"), "--size", str(size), "--iterations", "100000000", "--delay-us", "2000"])
        all_run(cluster)
        record = ends_in(cluster, "big", hint(cluster, "big"), (COMPLETE, FAILED))
        assert record.state == FAILED and record.reason == common_pb2.REASON_STORAGE_QUOTA, record
        says(job, "Disk quota exceeded; raise the quota or free space, then retry")
        assert ends_in(cluster, "small", hint(cluster, "small"), (COMPLETE, FAILED)).state == COMPLETE
        run("btrfs", "qgroup", "limit", "none", project / "big")
        assert ends_in(cluster, "big", hint(cluster, "big"), (COMPLETE, FAILED)).state == COMPLETE
        cluster.debug_check()


@needs("mkfs.ext4", "mount")
def what_is_written_within_the_second_of_a_stamp_is_not_torn():
    """Stamps of ext3 and of ext4 with inodes of 128 bytes are of whole seconds: a second write in the same one leaves them as they were."""
    with tempfile.TemporaryDirectory() as scratch, \
            file_system(f"{scratch}/at", 64, *EXT4, "-I", "128", "-O", "^metadata_csum") as at:
        prefix = pathlib.Path(scratch) / "destination"
        prefix.mkdir()
        folder = Folder(prefix, {})
        folder.source = at / "work"
        folder.source.mkdir()
        files = [folder.source / f"state-{i}" for i in range(8)]

        def write(what, mode):
            for file in files:
                with open(file, mode) as state:
                    state.write(what * MIB)

        def write_again():
            """All of it, within the same second."""
            wait_until("the put has read half of it", lambda: time.time() % 1 > 0.6, 2, 0.002)
            write(b"2", "r+b")
        time.sleep(1 - time.time() % 1)  # a second begins
        write(b"1", "wb")
        assert os.stat(files[0]).st_mtime_ns % 1000000000 == 0, "these stamps are finer than the test is for"
        writer = threading.Thread(target=write_again)
        writer.start()
        done = folder.put("--rate", str(8 * MIB), "--threads", "1")
        writer.join()
        kept = {byte for file in (folder.path / "part-0000").glob("state-*") for byte in file.read_bytes()}
        assert len(kept) == (1 if done.returncode == 0 else 0), f"of {len(kept)} moments: {done}"


@needs("mkfs.ext4", "mkfs.ext2", "mount", "strace")
def many_files_are_synced_by_one_call_where_that_flushes_the_disk():
    """syncfs(2) of ext2's own driver does not: there each file is synced by itself, and all of them are in either way."""
    files = {f"f{i}": 100 for i in range(40)}
    with tempfile.TemporaryDirectory() as scratch:
        for make, options, whole in ((EXT4, "", True), (("mkfs.ext2", "-q", "-F"), "", False)):
            with file_system(f"{scratch}/{make[0]}", 32, *make, options=options) as at:
                folder = Folder(at, files)
                done = folder.put(before=("strace", "-f", "-e", "trace=fsync,fdatasync,syncfs"))
                assert done.returncode == 0, done
                called = re.findall(r"\b(fsync|fdatasync|syncfs)\(", done.stderr)
                assert ("syncfs" in called) == whole, called
                assert whole or sum(call != "syncfs" for call in called) > len(files), called


@needs("mkfs.ext4", "mount", "sync")
def what_was_lost_before_publish_is_told_by_each_file():
    """An error of writing back that somebody else's syncfs has heard of is told to no later one; the file that lost its bytes still has it."""
    with tempfile.TemporaryDirectory() as scratch:
        disk = Disk(f"{scratch}/at", 64, 100, ("-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0"))
        try:
            disk.sync()
            folder = Folder(disk.folder, {})
            where = ["--prefix", str(folder.prefix), "--path", str(folder.path), "--part", "part-0000"]
            staged = subprocess.run([str(BIN / "ckpt-worker"), "stage", *where], capture_output=True, text=True, timeout=60)
            name = re.search("^name=(.*)$", staged.stdout, re.MULTILINE).group(1)
            for i in range(40):
                (folder.path / name / f"f{i}").write_bytes(os.urandom(MIB // 4))
            disk.fill_backing()
            heard = subprocess.run(["sync", "--file-system", str(disk.folder)], capture_output=True, text=True)
            assert heard.returncode != 0, "this disk has lost nothing"
            disk.free_backing()
            done = subprocess.run([str(BIN / "ckpt-worker"), "publish", *where, "--name", name, "--read-back", "never"], capture_output=True,
                                  text=True, timeout=60)
            assert done.returncode == UNAVAILABLE and "fsync" in done.stderr, done
            assert not (folder.path / "part-0000").exists()
        finally:
            disk.end()


@needs("mkfs.xfs", "mount", "cp")
def a_full_disk_whose_files_share_their_blocks_is_emptied():
    """What is written over a block that another file has as well needs a new one: there is none, and nothing would be overwritten."""
    with tempfile.TemporaryDirectory() as scratch, file_system(f"{scratch}/at", 320, "mkfs.xfs", "-q", "-m", "reflink=1") as at:
        folder = Folder(at, {"a": 64 * MIB})
        assert folder.put().returncode == 0
        second = Folder(at, {})
        second.path = second.path.with_name("1-2")
        run("cp", "-r", "--reflink=always", folder.path, second.path)
        fill(at)
        for path, unwiped in ((folder.path, 2), (second.path, 0)):
            done = subprocess.run([str(BIN / "ckpt-worker"), "collect", "--prefix", str(at), "--path", str(path), "--wipe", "yes"],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and not path.exists(), done
            assert f"files=2\nwiped={2 - unwiped}\n" in done.stdout, done
            assert f"unwiped={unwiped}\n" in done.stdout, done
            run("sync", "--file-system", at)  # removed files give their blocks up a little later


if __name__ == "__main__":
    sys.exit(main([a_file_system_without_room_is_named_so, a_quota_that_is_used_up_is_named_so, a_job_hears_of_the_quota_and_goes_on,
                   what_is_written_within_the_second_of_a_stamp_is_not_torn,
                   many_files_are_synced_by_one_call_where_that_flushes_the_disk,
                   what_was_lost_before_publish_is_told_by_each_file, a_full_disk_whose_files_share_their_blocks_is_emptied]))
