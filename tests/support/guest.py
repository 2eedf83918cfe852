"""A virtual machine with Debian's kernel and an emulated processor, for tests that the kernel or the processor of this machine cannot run.

Flow    tap_where(lacking, tests) is tap() where lacking() is None. Where it tells a reason, and qemu can be had, the program is started again inside,
        with the same arguments, and what it prints there is printed here; else its tests skip themselves as they do without.
        tap_booted(packages, install, tests, long) always starts it again inside: in a Debian of these packages, under systemd.
Root    the files of this machine, or those of a kept root, read only, under an overlay in memory: what a test writes is gone with the guest. Kernel,
        modules, and the tools that begin it are fetched once for the machine (roots.py). It has no network but its loopback.
Speed   no hardware helps it: what computes is some ten times as slow, floating point a hundred times. A processor of its own for each of two cores.
"""
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

from isolate import die_with_parent
from roots import kept_packages, kept_root
from tap import tap

INSIDE, LIMIT_S, MEMORY_MIB, CORES = "CKPT_TEST_GUEST", 1500, 4096, 2
QEMU = "qemu-system-x86_64"
# before there is a root; everything else is loaded at need from the kept folder
FIRST_MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay")
PASSED_ON = ("SEED", "LONG", "BUILD", "CKPT_ROOTS", "PYTHONPATH")
ENDED = re.compile(r"^guest: ended with (\d+)$")
INIT = """#!/busybox sh
b=/busybox
$b mkdir -p /proc /sys /dev /host /memory /root
$b mount -t proc proc /proc && $b mount -t sysfs sysfs /sys && $b mount -t devtmpfs devtmpfs /dev
for module in $($b cat /modules); do $b insmod /$module; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 host /host || $b poweroff -f
$b mount -t tmpfs -o size=70%% memory /memory && $b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/host%(root)s,upperdir=/memory/upper,workdir=/memory/work overlay /root || $b poweroff -f
for folder in proc sys dev; do $b mount --move /$folder /root/$folder; done
%(begin)s
"""
BEGIN_COMMAND = """
$b mkdir -p /root/dev/shm /root/dev/pts
$b mount -t tmpfs shm /root/dev/shm && $b mount -t tmpfs run /root/run && $b mount -t devpts devpts /root/dev/pts
$b mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
exec $b switch_root /root /bin/sh "%(script)s"
"""
# this machine's files stay at /host; nobody logs in
BEGIN_SYSTEMD = """
$b mkdir -p /root/host /root/etc/systemd/system/multi-user.target.wants && $b mount --move /host /root/host
echo guest > /root/etc/hostname
for unit in serial-getty@ttyS0 getty@tty1; do $b ln -s /dev/null /root/etc/systemd/system/$unit.service; done
$b ln -s ../guest.service /root/etc/systemd/system/multi-user.target.wants/guest.service
$b cat > /root/etc/systemd/system/guest.service << END
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh "/host%(script)s"
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
END
exec $b switch_root /root /sbin/init
"""
# its temporary files are on a file system of their own: programs are saved whose files a tool must find by their path
SCRIPT = """
mkdir -p /lib/modules /run/tests && mount --bind %(here)s%(packages)s/lib/modules /lib/modules && mount -t tmpfs tests /run/tests
echo %(here)s%(packages)s/modprobe > /proc/sys/kernel/modprobe
export TMPDIR=/run/tests %(environment)s
ip link set lo up; echo guest > /proc/sys/kernel/hostname
%(command)s
echo "guest: ended with $?"
while :; do read -r nothing < /dev/console; done
"""


def inside():
    return INSIDE in os.environ


def lacking():
    """Why there is no guest here, or None."""
    if platform.machine() != "x86_64":
        return "the guest's kernel is one for x86-64"
    if shutil.which(QEMU) is None:
        return f"no {QEMU} here (deploy/install-deps.sh systems)"
    return packages()[1]


def packages():
    """(folder, None), or (None, why not): the kernel that Debian's linux-image-amd64 stands for, and what begins a guest."""
    def find_modules(folder):
        for name in ("depmod", "modprobe"):
            (folder / name).symlink_to("bin/kmod")
        subprocess.run([folder / "depmod", "-b", folder, version(folder)], check=True)
    return kept_packages("guest", ["linux-image-amd64", "busybox-static", "kmod"], find_modules)


def version(folder):
    return next((folder / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")


def first_modules(folder):
    """In the order in which they are to be loaded."""
    shown = [line.split() for name in FIRST_MODULES for line in subprocess.run(
        [folder / "modprobe", "-d", folder, "-S", version(folder), "--show-depends", name], check=True, capture_output=True, text=True).stdout.splitlines()]
    return list(dict.fromkeys(pathlib.Path(words[1]) for words in shown if words[0] == "insmod"))


def first_root(folder, work, init):
    """An archive for the kernel to begin with: busybox, modules, and what runs first."""
    begin = work / "begin"
    begin.mkdir()
    shutil.copy(folder / "bin/busybox", begin / "busybox")
    modules = first_modules(folder)
    for module in modules:
        shutil.copy(module, begin)
    (begin / "modules").write_text("".join(f"{module.name}\n" for module in modules))
    (begin / "init").write_text(init)
    (begin / "init").chmod(0o755)
    names = "".join(f"{path.name}\n" for path in sorted(begin.iterdir()))
    (work / "first").write_bytes(subprocess.run([folder / "bin/busybox", "cpio", "-o", "-H", "newc"], cwd=begin, input=names.encode(),
                                                check=True, capture_output=True).stdout)
    return work / "first"


def run(command, root="", begin=BEGIN_COMMAND, here=""):
    """Runs a line of the shell in a guest; prints what it prints; returns its status. root: of a kept root. here: where this machine's files are in it."""
    folder, _ = packages()
    passed_on = [f"{name}={os.environ[name]}" for name in PASSED_ON if name in os.environ]
    with tempfile.TemporaryDirectory(prefix="ckpt-guest-") as work:
        work = pathlib.Path(work)
        script = work / "script"
        script.write_text(SCRIPT % {"packages": folder, "here": here, "command": command, "environment": shlex.join([
            f"{INSIDE}=1", f"PATH={os.environ['PATH']}", "HOME=/root", *passed_on])})
        first = first_root(folder, work, INIT % {"root": root, "begin": begin % {"script": script}})
        arguments = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CORES), "-m", str(MEMORY_MIB), "-nic", "none", "-display", "none",
                     "-monitor", "none", "-serial", "stdio", "-no-reboot", "-kernel", folder / "boot" / f"vmlinuz-{version(folder)}", "-initrd", first,
                     "-append", "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off systemd.show_status=no",
                     "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap", "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        sys.stdout.flush()
        with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace", preexec_fn=die_with_parent) as guest:
            limit = threading.Timer(LIMIT_S, guest.kill)
            limit.start()
            try:
                status = printed(guest.stdout)
            finally:
                limit.cancel()
                guest.kill()
    if status is None:
        print(f"error: the guest has not told the end of its program, and has {LIMIT_S} s for it", flush=True)
    return 1 if status is None else status


def printed(lines):
    """What a guest tells, until its program has ended: then its status."""
    for line in lines:
        line = line.replace("\r", "")
        ended = ENDED.match(line)
        if ended:
            return int(ended[1])
        print(line, end="", flush=True)
    return None


def tap_where(wanting, tests, slow=(), long=()):
    """wanting() tells why this machine cannot run the tests, or None. Those in `slow` are among the long ones in a guest."""
    reason = None if inside() else wanting()
    if inside():
        return tap(tests, [*slow, *long])
    tests = [*tests, *slow]
    if reason is None:
        return tap(tests, long)
    without = lacking()
    if without is not None:
        print(f"# no guest instead: {without}", flush=True)
        return tap(tests, long)
    print(f"# in a guest with Debian's kernel and an emulated processor, for here: {reason}", flush=True)
    return run(f"cd {shlex.quote(os.getcwd())} && {shlex.join([sys.executable, '-B', *sys.argv])}")


def tap_booted(names, install, tests, long=()):
    """In a Debian of these packages under systemd, into whose root go the files that install(folder) makes. The tests there have Python alone."""
    if inside():
        return tap(tests, long)
    root, without = kept_root("booted", "bookworm", names)
    without = without or lacking()
    if without is not None:
        for test in tests:
            print(f"ok {test.__name__} # SKIP {without}", flush=True)
        return 0
    with tempfile.TemporaryDirectory(prefix="ckpt-booted-") as folder:
        os.chmod(folder, 0o755)
        install(pathlib.Path(folder))
        command = f"cp -a /host{folder}/. / && /usr/bin/python3 -B {shlex.join([f'/host{os.path.realpath(sys.argv[0])}', *sys.argv[1:]])}"
        return run(command, root, BEGIN_SYSTEMD, "/host")
