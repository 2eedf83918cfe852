"""Real file systems for the members' data folders that lose their power, fail, fill up and hang; and single calls that fail.

Flow    Disk(folder) puts an ext4 on a loop device on a sparse file on a tmpfs and mounts it at the folder. The program runs under
        isolate.py, so the mounts vanish with it, and mount -o loop makes the kernel detach the loop device with the last user.
        BrokenCalls(member) preloads broken_calls.c into the member: the n-th call of a kind fails, lies or is the process's last.
Units   MiB.
Source  EXT4_IOC_SHUTDOWN (fs/ext4/ext4.h, include/uapi/linux/ext4.h), FIFREEZE and FITHAW (include/uapi/linux/fs.h).
"""
import contextlib
import errno
import fcntl
import functools
import mmap
import os
import pathlib
import struct
import subprocess
import tempfile

from cluster import wait_until

EXT4_IOC_SHUTDOWN = 0x8004587D
LOGFLUSH, NOLOGFLUSH = 1, 2
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {result.returncode}: {result.stderr.strip()}")


@functools.lru_cache
def refused():
    """Why there can be no such disk here, or None."""
    with tempfile.TemporaryDirectory() as folder:
        disk = None
        try:
            disk = Disk(folder, 16, 32)
            disk.cut_power()
            return None
        except (OSError, RuntimeError) as error:
            return f"no ext4 on a loop device that can be shut down: {error}"
        finally:
            if disk is not None:
                disk.end()


class Disk:
    def __init__(self, folder, size_mib=256, backing_mib=512, options=()):
        """options: of mkfs.ext4, beside the usual ones."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.backing = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-disk-"))
        run("mount", "-t", "tmpfs", "-o", f"size={backing_mib}m", "none", self.backing)
        self.image = self.backing / "image"
        with open(self.image, "wb") as image:
            image.truncate(size_mib << 20)
        run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", *options, self.image)
        self._mount()

    def _mount(self):
        run("mount", "-o", "loop,errors=remount-ro", self.image, self.folder)

    def _ioctl(self, number, value):
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, number, struct.pack("I", value))
        finally:
            os.close(descriptor)

    def cut_power(self, flag=NOLOGFLUSH):
        """From now on nothing reaches the disk. What was not synced is gone after restore_power(); with LOGFLUSH the journal's part of it
        is still written."""
        self._ioctl(EXT4_IOC_SHUTDOWN, flag)

    def sync(self):
        """All that was written is on the disk."""
        run("sync", "--file-system", self.folder)

    def restore_power(self):
        """Mounts it again, which replays its journal. Nobody may have files open on it."""
        wait_until(f"{self.folder} can be unmounted", lambda: subprocess.run(["umount", self.folder], capture_output=True).returncode == 0, 10)
        self._mount()

    @contextlib.contextmanager
    def hanging(self):
        """Writes and syncs neither fail nor end until the end of the block."""
        self._ioctl(FIFREEZE, 0)
        try:
            yield
        finally:
            self._ioctl(FITHAW, 0)

    def fail(self):
        """As after an error that the file system finds in itself: from now on it is read-only (errors=remount-ro)."""
        number = os.stat(self.folder).st_dev
        device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
        assert device.startswith("loop"), f"{self.folder} is on {device}"
        pathlib.Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")

    def fill_backing(self):
        """Blocks of the disk that were never written cannot be stored any more: EIO."""
        fill(self.backing)

    def free_backing(self):
        (self.backing / "ballast").unlink()

    def fill(self):
        fill(self.folder)

    def free(self):
        (self.folder / "ballast").unlink()

    def end(self):
        subprocess.run(["umount", "--lazy", self.folder], capture_output=True)
        subprocess.run(["umount", "--lazy", self.backing], capture_output=True)
        os.rmdir(self.backing)


def fill(folder):
    """Takes all the free space of a file system."""
    descriptor = os.open(folder / "ballast", os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    os.write(descriptor, b"\xff" * size)
        try:
            os.write(descriptor, b"\xff" * 4096)
            raise AssertionError(f"{folder} is not full")
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
    finally:
        os.close(descriptor)


READS, WRITES, SYNCS = 1, 2, 4
LIE, KILL_BEFORE, KILL_AFTER = 0, -1, -2  # what befalls a call; else the errno with which it fails
FOR_EVER = (1 << 64) - 1


class BrokenCalls:
    """Calls of one member's processes to its disk; made before the member starts."""

    LAYOUT = struct.Struct("=IiQQQ232s")  # struct control of broken_calls.c

    def __init__(self, member):
        library, control = member.cluster.dir / "broken_calls.so", member.cluster.dir / f"{member.name}.calls"
        if not library.exists():
            run("gcc", "-shared", "-fPIC", "-O1", "-o", library, pathlib.Path(__file__).parent / "broken_calls.c", "-ldl")
        self.folder = member.data_dir
        control.write_bytes(bytes(self.LAYOUT.size))
        with open(control, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), self.LAYOUT.size)
        member.prefix = [*member.prefix, "env", f"LD_PRELOAD={library}", f"BROKEN_CALLS={control}"]

    def arm(self, kinds, action, first=1, last=FOR_EVER, name=""):
        """Counts from now; what befalls the first to the last of them, to files whose names in the folder begin with `name`."""
        self.control[:4] = bytes(4)  # not while it changes
        self.control[4:] = self.LAYOUT.pack(kinds, action, first, last, 0, f"{self.folder}/{name}".encode())[4:]
        self.control[:4] = struct.pack("=I", kinds)

    def disarm(self):
        self.control[:4] = bytes(4)

    def count(self):
        """How many there were since they were armed."""
        return self.LAYOUT.unpack(self.control[:])[4]


@contextlib.contextmanager
def file_system(folder, size_mib, *make, options=""):
    """A file system that `make` (mkfs.KIND and what it takes) puts on a loop device, at the folder, which everybody may write to."""
    folder, backing = pathlib.Path(folder), pathlib.Path(tempfile.mkdtemp(prefix="ckpt-disk-"))
    folder.mkdir(exist_ok=True)
    image = backing / "image"
    with open(image, "wb") as file:
        file.truncate(size_mib << 20)
    run(*make, image)
    kind = make[0].removeprefix("mkfs.")
    run("mount", "-t", kind, "-o", ",".join(["loop", *filter(None, [options])]), image, folder)
    try:
        folder.chmod(0o1777)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], capture_output=True)
        image.unlink()
        backing.rmdir()
