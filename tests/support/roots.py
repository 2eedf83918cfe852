"""Roots of other Debians for the tests against real systems: made once for a machine, in CKPT_ROOTS (/var/tmp/ckpt-roots), and used by all clones.

Flow    kept_root(name, release, packages) -> (folder, None), or (None, why there is none). Two tests that want one make it one after the other.
        kept_packages(name, packages): the same for the files of some packages of this machine's own Debian, as they are unpacked, and not installed.
"""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

FOLDER = pathlib.Path(os.environ.get("CKPT_ROOTS", "/var/tmp/ckpt-roots"))


def kept_root(name, release, packages):
    if shutil.which("debootstrap") is None:
        return None, "no debootstrap here (deploy/install-deps.sh systems)"
    if os.geteuid() != 0:
        return None, "debootstrap needs root"

    def make(root):
        done = subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", release, root], capture_output=True, text=True)
        return None if done.returncode == 0 else f"no Debian {release} from a mirror: {' '.join(done.stdout.strip().splitlines()[-1:])}"
    return kept(name, release, packages, make)


def kept_packages(name, packages, finish):
    """A kernel that linux-image-amd64 stands for is taken as well. finish(folder) makes of the files what is kept."""
    def make(folder):
        shown = subprocess.run(["apt-cache", "depends", "--no-recommends", "--no-suggests", *packages], capture_output=True, text=True)
        wanted = packages + [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("  Depends: linux-image-")]
        folder.mkdir()
        done = subprocess.run(["apt-get", "download", *wanted], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            return f"no {', '.join(wanted)} from a mirror: {' '.join(done.stderr.strip().splitlines()[-1:])}"
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
            package.unlink()
        finish(folder)
        return None
    return kept(name, "own", packages, make)


def kept(name, release, packages, make):
    FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    if FOLDER.is_symlink() or FOLDER.stat().st_uid != os.geteuid():
        return None, f"{FOLDER} is somebody else's: name another folder by CKPT_ROOTS"
    # with other packages it is another one
    root = FOLDER / f"{name}-{release}-{hashlib.sha256(' '.join(sorted(packages)).encode()).hexdigest()[:8]}"
    with open(FOLDER / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (root / "made").exists():
            return root, None
        shutil.rmtree(root, ignore_errors=True)
        reason = make(root)
        if reason is not None:
            shutil.rmtree(root, ignore_errors=True)
            return None, reason
        (root / "made").touch()
    return root, None
