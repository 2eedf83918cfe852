"""Runs a test program in namespaces of its own, so that whatever it mounts, links and starts vanishes with it, also after SIGKILL.

Flow    main() starts the program again under unshare(1) with private mount, process and network namespaces and waits for it; the folder
        for temporary files is made outside and removed at the end. Without the right to do so the tests that need none of it still run,
        the others say what is missing: needs() before a test names its tools.
Absent  loop devices have no namespace: disks.py attaches them so that the kernel detaches them with the last user (autoclear).
"""
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from tap import tap

INSIDE = "CKPT_TEST_ISOLATED"
FLAGS = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net"]
PR_SET_PDEATHSIG = 1


def inside():
    return os.environ.get(INSIDE) == "1"


def needs(*tools, probe=None):
    """Before a test: skips it, with the reason, where a tool, the right to isolate it, or what the probe tries is missing."""
    def wrap(test):
        @functools.wraps(test)
        def run():
            missing = [tool for tool in tools if shutil.which(tool) is None]
            if missing:
                return f"needs {', '.join(missing)}"
            if not inside():
                return os.environ.get(INSIDE, "not isolated: run the whole file")
            return (probe() if probe else None) or test()
        return run
    return wrap


def _refused():
    """Why there can be no namespaces here, or None."""
    if os.geteuid() != 0:
        return "namespaces, mounts and loop devices need root"
    if shutil.which("unshare") is None:
        return "needs unshare"
    tried = subprocess.run(["unshare", *FLAGS, "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"unshare is not permitted: {tried.stderr.strip()}"


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _interrupted(number, frame):
    raise KeyboardInterrupt


def main(tests, tmpfs=False, long=()):
    """tap() of the tests, isolated where possible; returns the exit code. tmpfs: their files are in memory, for tests in which a leader
    must stay: one whose disk is held up for a second by whatever else this machine does hands over, and is right to."""
    signal.signal(signal.SIGTERM, _interrupted)
    if inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        if tmpfs:
            subprocess.run(["mount", "-t", "tmpfs", "none", os.environ["TMPDIR"]], check=True)
        return tap(tests, long)
    reason = _refused() or (None if shutil.which("ip") else "needs ip")
    if reason:
        os.environ[INSIDE] = reason
        return tap(tests, long)
    folder = tempfile.mkdtemp(prefix="ckpt-isolated-")
    sys.stdout.flush()
    child = subprocess.Popen(["unshare", *FLAGS, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1", "TMPDIR": folder},
                             preexec_fn=die_with_parent)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.kill()  # and with it everything in its namespaces
        child.wait()
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
