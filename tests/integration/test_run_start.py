#!/usr/bin/python3
"""ckpt-run as shells, nohup, cron and terminals start it: what the application finds of that, at its first start and when it is started again."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, Job, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, ENDED_FAILED, MIB, POLICY, allocation_in, ends_in, heat, hint  # noqa: E402


class ShellJob(Job):
    """A ckpt-run that a shell starts: its arguments are "$@" of `line`."""

    def __init__(self, cluster, allocation, command, line, options=(), **popen):
        self.line, self.popen = line, popen
        super().__init__(cluster, cluster.agents["a"], allocation, command, options)
        cluster.jobs.append(self)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["bash", "-c", self.line, "bash", *self.arguments], stdout=log, stderr=log, cwd=self.cluster.dir,
                                            start_new_session=True, **{"stdin": subprocess.DEVNULL, **self.popen})


def ignored(pid, number):
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("SigIgn:")[1].split()[0], 16) >> (number - 1) & 1


def nohup_without_descriptors_and_with_blocked_signals_is_no_obstacle():
    """Neither ckpt-run nor its application dies of SIGHUP; it is asked by a signal that its caller had blocked, and ended by one. V-011."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = ShellJob(cluster, "job", heat(cluster, "job"), 'exec nohup "$@" <&- >&- 2>&-',
                       preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)))
        pid = wait_until("it runs", job.known_to_run, 20)
        for process in (job.process.pid, pid):
            assert ignored(process, signal.SIGHUP) and not ignored(process, signal.SIGINT), process
            assert all(os.path.exists(f"/proc/{process}/fd/{fd}") for fd in range(3)), process
            os.kill(process, signal.SIGHUP)
        ends_in(cluster, "job", hint(cluster, "job"), (COMPLETE,))
        assert job.running() and job.application_pid() == pid
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(20) in (0, 143)
        allocation_in(cluster, "job", ENDED_FAILED)


if __name__ == "__main__":
    sys.exit(tap([nohup_without_descriptors_and_with_blocked_signals_is_no_obstacle]))
