"""A Slurm of the machine's own, for tests: a controller and as many nodes as are named, all on loopback, without users, accounts or munge's key of
the site.

Flow    with Slurm(folder, ("a", "b")) as slurm: slurm.run([...]) starts a program with the environment in which srun and sbatch find it.
why_not() says what is missing for it.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

CONFIG = """ClusterName=ckpt
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
InactiveLimit=0
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def why_not():
    """None: it can be had."""
    missing = [name for name in ("slurmctld", "slurmd", "srun", "sinfo") if shutil.which(name) is None]
    if missing:
        return f"no Slurm here ({', '.join(missing)} of slurmctld, slurmd, slurm-client)"
    return None if os.geteuid() == 0 else "a Slurm of its own needs root"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Slurm:
    def __init__(self, folder, names):
        self.folder, self.names, self.daemons = pathlib.Path(folder), names, []

    def __enter__(self):
        (self.folder / "state").mkdir(parents=True)
        for name in self.names:
            (self.folder / f"spool.{name}").mkdir()
        self.config = self.folder / "slurm.conf"
        nodes = "\n".join(f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={socket.gethostname()} Port={free_port()} CPUs=16 RealMemory=1024 State=UNKNOWN"
                          for name in self.names)
        self.config.write_text(CONFIG.format(host=socket.gethostname(), port=free_port(), folder=self.folder, nodes=nodes, names=",".join(self.names)))
        self.environment = {**os.environ, "SLURM_CONF": str(self.config)}
        try:
            self.start("slurmctld", "-D", "-c", "-f", self.config)
            for name in self.names:
                self.start("slurmd", "-D", "-c", "-N", name, "-f", self.config)
            self.wait_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, *command):
        with open(self.folder / "daemons.log", "ab") as log:
            self.daemons.append(subprocess.Popen([str(word) for word in command], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 start_new_session=True))

    def wait_idle(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shown = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %t"], env=self.environment, capture_output=True, text=True)
            if sorted(shown.stdout.split("\n"))[1:] == [f"{name} idle" for name in sorted(self.names)]:
                return
            assert all(daemon.poll() is None for daemon in self.daemons), self.logs()
            time.sleep(0.2)
        raise TimeoutError(f"the nodes are not idle: {shown.stdout}{shown.stderr}\n{self.logs()}")

    def logs(self):
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    def run(self, command, log, **options):
        with open(log, "ab") as out:
            return subprocess.Popen([str(word) for word in command], env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    start_new_session=True, **options)

    def left(self, named=""):
        """Of what the daemons have started: slurmstepd leaves its parent, and so do its tasks; each has the environment of this Slurm."""
        own, mark = {daemon.pid for daemon in self.daemons}, f"SLURM_CONF={self.config}".encode()
        left = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (int(process.name) not in own and named in (process / "comm").read_text() and mark in (process / "environ").read_bytes().split(b"\0")):
                    left.append(int(process.name))
        return left

    def await_left(self, seconds, named=""):
        end = time.monotonic() + seconds
        while self.left(named) and time.monotonic() < end:
            time.sleep(0.1)

    def __exit__(self, *_):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["scancel", "--full", "--signal=KILL", "--state=RUNNING"], env=self.environment, capture_output=True, timeout=10)
        self.await_left(10, "slurmstepd")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.await_left(10)
        assert not self.left(), f"processes of Slurm do not end: {self.left()}"
