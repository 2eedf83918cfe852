"""A criu that runs on this kernel: the machine's own, or that of a later Debian, whose files are kept (roots.py) and run by their own loader."""
import functools
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

from roots import kept_root

RELEASE = "trixie"
# its loader and libraries come from there, and nothing else of it is entered: the programs that are saved are this machine's
WRAPPER = '#!/bin/sh\nexec "{root}/lib64/ld-linux-x86-64.so.2" --library-path "{root}/usr/lib/x86_64-linux-gnu" "{root}/usr/sbin/criu" "$@"\n'


SAVED_S = 5


def checked(program):
    return subprocess.run([program, "check"], capture_output=True).returncode == 0


def saves():
    """Why the criu in PATH saves no program here although `criu check` is content, or None: on kernels of some virtual machines it stops in its midst."""
    program = subprocess.Popen([shutil.which("python3"), "-c", "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); time.sleep(60)"],
                               start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = subprocess.run(["criu", "dump", "--tree", str(program.pid), "--images-dir", folder], capture_output=True, text=True, timeout=SAVED_S)
            except subprocess.TimeoutExpired:
                return f"criu has not saved two sleeping threads within {SAVED_S} s on this kernel"
            return None if done.returncode == 0 else f"criu saves no sleeping program on this kernel: {done.stderr.strip().splitlines()[-1:]}"
    finally:
        program.kill()
        program.wait()


@functools.lru_cache
def later_root():
    return kept_root("criu", RELEASE, ["criu"])


@functools.lru_cache
def lacking():
    """Why nothing can be saved by criu here, or None: it then is the first one in PATH."""
    if os.geteuid() != 0:
        return "criu needs root here"
    own = shutil.which("criu", path=f"{os.environ['PATH']}:/usr/sbin")
    if own is not None and checked(own):
        return saves()
    if platform.machine() != "x86_64":
        return "the root of a later Debian is entered by its x86-64 loader alone"
    root, reason = later_root()
    if root is None:
        return f"no criu here that runs on this kernel, and none of a later Debian: {reason}"
    folder = root / "wrapper"
    folder.mkdir(exist_ok=True)
    (folder / "criu").write_text(WRAPPER.format(root=root))
    (folder / "criu").chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    return saves() if checked("criu") else "criu check fails here with that of a later Debian as well"


def for_others(folder):
    """A criu in this folder that a user without rights may run: by capabilities of its file, where it is this root's of its loader. Why not, or None."""
    reason = lacking()
    if reason is not None:
        return reason
    if shutil.which("setcap") is None:
        return "needs setcap"
    own = shutil.which("criu", path=f"{os.environ['PATH']}:/usr/sbin")
    root = pathlib.Path(own).parents[1]
    foreign = pathlib.Path(own).parent.name == "wrapper"
    program = folder / ("loader" if foreign else "criu")
    shutil.copyfile(root / "lib64" / "ld-linux-x86-64.so.2" if foreign else own, program)
    program.chmod(0o755)
    if subprocess.run(["setcap", "cap_checkpoint_restore,cap_sys_ptrace,cap_setpcap+ep", program], capture_output=True).returncode != 0:
        return "no capabilities of files in this folder"
    if foreign:
        (folder / "criu").write_text(WRAPPER.format(root=root).replace(f'"{root}/lib64/ld-linux-x86-64.so.2"', f'"{program}"'))
        (folder / "criu").chmod(0o755)
    tried = subprocess.run([folder / "criu", "check", "--unprivileged"], user=65534, group=65534, extra_groups=[], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"criu check --unprivileged: {tried.stderr.strip().splitlines()[-1:]}"
