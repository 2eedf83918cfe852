"""A control group (v2) for the agents of a test, and what its jobs' groups hold.

Flow    with own_group() as parent: agents get `cgroup: PARENT/NAME` by site(); parent is None, and the reason said, where none can be had.
        in_both_ways(test) calls test(by, parent) without and with one.
"""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import time

from cluster import Cluster


def mounted():
    """Where version 2 is mounted; None: nowhere."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        words, kind = line.split(" - ", 1)
        if kind.startswith("cgroup2 "):
            return pathlib.Path(words.split()[4])
    return None


def why_not(folder):
    probe = folder / f"ckpt-probe-{os.getpid()}"
    try:
        probe.mkdir()
        missing = [name for name in ("cgroup.freeze", "cgroup.kill", "cgroup.procs") if not os.access(probe / name, os.W_OK)]
        probe.rmdir()
    except OSError as error:
        return f"no control group can be made in {folder}: {error.strerror}"
    return f"{folder} has no {', '.join(missing)} that may be written" if missing else None


def remove(group):
    """With what a test that failed has left in it."""
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")
    end = time.monotonic() + 5
    while group.exists() and time.monotonic() < end:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        time.sleep(0.01)


@contextlib.contextmanager
def own_group():
    """(folder, None), or (None, why there is none)."""
    folder, temporary = mounted(), None
    if folder is None:
        temporary = tempfile.mkdtemp(prefix="ckpt-cgroup-")
        result = subprocess.run(["mount", "-t", "cgroup2", "none", temporary], capture_output=True, text=True)
        folder = pathlib.Path(temporary)
        reason = result.stderr.strip() if result.returncode else why_not(folder)
    else:
        reason = why_not(folder)
    parent = folder / f"ckpt-test-{os.getpid()}"
    try:
        if reason is None:
            parent.mkdir()
        yield (parent, None) if reason is None else (None, reason)
    finally:
        remove(parent)
        if temporary:
            subprocess.run(["umount", temporary], capture_output=True)
            os.rmdir(temporary)


@contextlib.contextmanager
def site(parent, agents="a", **fields):
    """A cluster of one member whose agents' jobs have control groups below `parent`; None: they have none."""
    with Cluster(members=1, agents=tuple(agents), **fields) as cluster:
        for name, agent in cluster.agents.items():
            agent.cgroup = parent / name if parent else "off"
        cluster.start()
        yield cluster
        cluster.debug_check()


def in_both_ways(test):
    """By signals, and by control groups of the jobs where the machine permits them."""
    def by_signals():
        test("signals", None)

    def by_cgroup():
        with own_group() as (parent, reason):
            return reason or test("cgroup", parent)

    by_signals.__name__, by_cgroup.__name__ = f"{test.__name__}_by_signals", f"{test.__name__}_by_cgroup"
    return [by_signals, by_cgroup]


def jobs_of(agent):
    """{name of a job's group: its pids}"""
    jobs = pathlib.Path(agent.cgroup) / "jobs"
    return {group.name: [int(pid) for pid in (group / "cgroup.procs").read_text().split()] for group in jobs.iterdir() if group.is_dir()}
