"""Earlier releases of this project, built from the history (RELEASES)."""
import fcntl
import os
import pathlib
import subprocess

from cluster import BUILD, ROOT


def released():
    """(level, version, commit) of each release, the newest last."""
    rows = [line.split() for line in (ROOT / "RELEASES").read_text().splitlines() if line and not line.startswith("#")]
    return [(int(level), version, commit) for level, version, commit in rows]


def release_programs(commit):
    """The folder with the programs that were built from the commit, made at need and kept; a text: why they cannot be had."""
    folder = BUILD / "releases" / commit
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "build" / "bin" / "ckpt-run").exists():
            return folder / "build" / "bin"
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True)
        if archive.returncode != 0:
            return f"commit {commit} is not in this checkout's history (git fetch --unshallow)"
        folder.mkdir(exist_ok=True)
        subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
        environment = {name: value for name, value in os.environ.items() if name not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        made = subprocess.run(["make", "-C", str(folder), f"-j{os.cpu_count()}"] + [f"build/bin/{name}" for name in ("ckptd", "ckpt-worker", "ckpt-worker-s3",
                              "ckpt-agentd", "ckptctl", "ckpt-run")], env=environment, capture_output=True, text=True)
        return folder / "build" / "bin" if made.returncode == 0 else f"{folder} does not build: {made.stderr[-500:]}"


def patched_programs(name, change):
    """Programs of this tree with change(folder) applied to a copy; for a build that is yet to come."""
    folder = pathlib.Path(BUILD / "releases" / name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir()
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    packed = subprocess.run(["tar", "c", "-C", str(ROOT), "--null", "--ignore-failed-read", "-T", "-"], input=listing, capture_output=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=packed.stdout, check=True)
    change(folder)
    environment = {key: value for key, value in os.environ.items() if key not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    made = subprocess.run(["make", "-C", str(folder), f"-j{os.cpu_count()}", "build/bin/ckptd", "build/bin/ckpt-worker"], env=environment,
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    return folder / "build" / "bin"
