"""Roots of other Debians for the tests against real systems: made once for a machine, in CKPT_ROOTS (/var/tmp/ckpt-roots), and used by all clones.

Flow    kept_root(name, release, packages) -> (folder, None), or (None, why there is none). Two tests that want one make it one after the other.
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
        done = subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", release, root], capture_output=True, text=True)
        if done.returncode != 0:
            shutil.rmtree(root, ignore_errors=True)
            return None, f"no Debian {release} from a mirror: {' '.join(done.stdout.strip().splitlines()[-1:])}"
        (root / "made").touch()
    return root, None
