"""A personal HTCondor of a later Debian: its files are kept (roots.py), its daemons run there as a user without rights, in the namespaces of the test.

Flow    Pool(folder) as a context; outcome(name, files, submit) is how a job ended in it, and the files that it gave back.
Needs   isolate.py: the mounts, the processes and the loopback addresses are the test's own. reason() says why there is none.
"""
import functools
import re
import shutil
import signal
import subprocess

from cluster import wait_until
from roots import kept_root

RELEASE = "trixie"
# debootstrap does not see that the second one gives what the first one wants
PACKAGES = ["htcondor", "python3-cffi-backend"]
NOBODY, PLACE = 65534, "/mnt"
CONFIG = """RELEASE_DIR = /usr
LOCAL_DIR = /mnt
BIN = /usr/bin
SBIN = /usr/sbin
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
LOG = /mnt/log
SPOOL = /mnt/spool
EXECUTE = /mnt/execute
LOCK = /mnt/lock
RUN = /mnt/lock
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
USE_SHARED_PORT = False
NO_DNS = True
DEFAULT_DOMAIN_NAME = localdomain
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
START = True
SUSPEND = False
PREEMPT = False
KILL = False
NUM_CPUS = 1
MEMORY = 512
RUNBENCHMARKS = False
STARTD_CRON_JOBLIST =
SCHEDD_CRON_JOBLIST =
MACHINE_RESOURCE_INVENTORY_GPUs =
ENABLE_URL_TRANSFERS = False
HIBERNATION_PLUGIN =
VM_TYPE =
JAVA =
DOCKER =
SINGULARITY =
BASE_CGROUP =
UPDATE_INTERVAL = 2
POLLING_INTERVAL = 1
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
PERIODIC_CHECKPOINT = (CurrentTime - LastPeriodicCheckpoint) > 1
"""


@functools.lru_cache
def root():
    return kept_root("condor", RELEASE, PACKAGES)


def reason():
    return root()[1]


class Pool:
    def __init__(self, folder):
        self.folder, self.root = folder, root()[0]

    def command(self, *words):
        return ["chroot", f"--userspec={NOBODY}:{NOBODY}", str(self.root), "env", "-i", f"CONDOR_CONFIG={PLACE}/condor_config", f"HOME={PLACE}",
                "PATH=/usr/bin:/usr/sbin:/bin", *words]

    def ask(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True).stdout.strip()

    def __enter__(self):
        for name in ("log", "spool", "execute", "lock", "jobs"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "condor_config").write_text(CONFIG)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", self.folder], check=True)
        for words in (["--bind", str(self.folder), f"{self.root}{PLACE}"], ["-t", "proc", "proc", f"{self.root}/proc"], ["--bind", "/dev", f"{self.root}/dev"]):
            subprocess.run(["mount", *words], check=True)
        with open(self.folder / "master.out", "wb") as out:
            self.master = subprocess.Popen(self.command("condor_master", "-f"), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.version = self.ask("condor_version").split("\n")[0]
        try:
            wait_until("the pool has a machine and a queue", lambda: self.ask("condor_status", "-af", "Name") and self.ask("condor_status", "-schedd", "-af", "Name"), 30, 0.3)
        except TimeoutError as late:
            logs = "".join(path.read_text(errors="replace")[-1500:] for path in sorted((self.folder / "log").glob("*Log")))
            self.__exit__(None, None, None)
            raise TimeoutError(f"{late}: {logs}") from None
        return self

    def __exit__(self, kind, value, trace):
        self.master.send_signal(signal.SIGQUIT)  # fast shutdown
        try:
            self.master.wait(10)
        except subprocess.TimeoutExpired:
            self.master.kill()
            self.master.wait()
        for place in ("/proc", "/dev", PLACE):
            subprocess.run(["umount", "--lazy", f"{self.root}{place}"], check=True)
        return False

    def outcome(self, name, files, submit):
        """("exit", status) or ("signal", number), and the folder with what the job has given back."""
        folder = self.folder / "jobs" / name
        shutil.copytree(files, folder)
        lines = {"universe": "vanilla", "should_transfer_files": "YES", "when_to_transfer_output": "ON_EXIT", "output": "out", "error": "err", "log": "log", **submit}
        (folder / "job.sub").write_text("".join(f"{key} = {value}\n" for key, value in lines.items()) + "queue\n")
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
        done = subprocess.run(self.command("sh", "-c", f"cd {PLACE}/jobs/{name} && exec condor_submit job.sub"), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        log = folder / "log"

        def ended():
            text = log.read_text() if log.exists() else ""
            assert not re.search(r"^(009|012) ", text, re.M), text  # aborted, held
            return text if re.search(r"^005 ", text, re.M) else None
        text = wait_until(f"{name} ends in HTCondor", ended, 40, 0.1)
        normal, killed = re.search(r"\(1\) Normal termination \(return value (\d+)\)", text), re.search(r"\(0\) Abnormal termination \(signal (\d+)\)", text)
        return (("exit", int(normal.group(1))) if normal else ("signal", int(killed.group(1)))), folder
