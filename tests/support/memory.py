"""A memory limit shared by processes of a test, so that the kernel's out-of-memory killer strikes among them only.

Flow    Group(bytes) makes a control group (v2 where the memory controller is there, else v1) below the root; a process that is started with
        prefix() belongs to it; end() removes it again.
"""
import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import time

from isolate import die_with_parent

ROOT = pathlib.Path("/sys/fs/cgroup")


@functools.lru_cache
def refused():
    """Why there can be no such group here, or None."""
    try:
        Group(64 << 20).end()
        return None
    except OSError as error:
        return f"no control group with a memory limit: {error}"


class Group:
    def __init__(self, limit_bytes):
        v2 = (ROOT / "cgroup.controllers").exists()
        self.folder = (ROOT if v2 else ROOT / "memory") / f"ckpt-test-{os.getpid()}-{time.time_ns()}"
        self.events = self.folder / ("memory.events" if v2 else "memory.oom_control")
        self.limit = limit_bytes
        self.folder.mkdir()
        try:
            (self.folder / ("memory.max" if v2 else "memory.limit_in_bytes")).write_text(str(limit_bytes))
            for swap in ("memory.swap.max", "memory.swappiness"):
                with contextlib.suppress(OSError):
                    if (self.folder / swap).exists():
                        (self.folder / swap).write_text("0")
        except OSError:
            self.end()
            raise

    def prefix(self):
        """Of the command of a process that belongs to the group and is the first to be killed in it."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && echo 1000 > /proc/self/oom_score_adj && exec "$@"', "sh"]

    def kills(self):
        return next(int(line.split()[1]) for line in self.events.read_text().splitlines() if line.startswith("oom_kill "))

    def eater(self):
        """What the group has is taken, until one of it is killed."""
        return Eater(self)

    def end(self):
        """Its processes are gone."""
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.02)


class Eater:
    """Holds memory of a group until give_back(). In a file of the memory, so that it stays taken if the kernel kills the process that takes it as
    well: what the one killed first gives back can come later than the next page that is asked for."""

    PROGRAM = ("import os, sys, time\nwhile 'oom_kill 0\\n' in open(sys.argv[1]).read():\n    os.write(int(sys.argv[2]), bytes(1 << 17))\n"
               "time.sleep(3600)\n")

    def __init__(self, group):
        self.file = os.memfd_create("eaten")
        self.process = subprocess.Popen(["sh", "-c", f'echo $$ > {group.folder}/cgroup.procs && exec "$@"', "sh", sys.executable, "-c",
                                         self.PROGRAM, str(group.events), str(self.file)], preexec_fn=die_with_parent, pass_fds=[self.file])

    def killed(self):
        """How often the kernel killed the process that takes it, which counts among the group's kills."""
        return int(self.process.poll() == -signal.SIGKILL)

    def give_back(self):
        """Again: nothing."""
        if self.file is None:
            return
        self.process.kill()
        self.process.wait()
        os.close(self.file)
        self.file = None
