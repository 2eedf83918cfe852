#!/usr/bin/python3
"""ckpt-run as shells, nohup, cron and terminals start it: what the application finds of that, at its first start and when it is started again."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, Job, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, ENDED_FAILED, MIB, POLICY, allocation_in, ends_in, heat, hint  # noqa: E402


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


READS = 'read -r line; echo "$CKPT_RESTART_COUNT got $line"; [ "$CKPT_RESTART_COUNT" = 1 ] || kill -9 $$; sed "s/^/rest /"'


def what_was_read_is_read_again_or_the_job_is_not_started_again():
    """A file, read from where the first start read, also when its name is gone, a shell goes on with it, or it is open for writing; the result
    is never one of the rest alone: a pipe of which was read ends the job as failed. Output goes on behind what was there. V-004."""
    whole = "0 got one\n1 got one\nrest two\n"
    shapes = {  # how it is started: what the job writes, as the cluster sees its end
        "file": ('exec "$@" < input > "$OUT"', whole, 0),
        "writable": ('exec "$@" <> input > "$OUT"', whole, 0),
        "later": ('{ read -r first; "$@"; cat; } < longer > "$OUT"', whole, 0),
        "gone": ('exec 3< gone; rm gone; exec "$@" <&3 > "$OUT"', whole, 0),
        "two": ('exec "$@" < input > "$OUT" 2> "$OUT"', None, 0),
        "pipe": ('{ echo one; echo two; } | "$@" > "$OUT"', "0 got one\n", 137),
        "open": ('{ echo one; echo two; sleep 60; } | { "$@" > "$OUT"; code=$?; kill $(jobs -p) 2> /dev/null; exit $code; }', "0 got one\n", 137),
    }
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name, text in (("input", "one\ntwo\n"), ("gone", "one\ntwo\n"), ("longer", "zero\none\ntwo\n")):
            (cluster.dir / name).write_text(text)
        jobs = {}
        for name, (line, _, _) in shapes.items():
            cluster.register(name, [("a", 1, MIB)])
            jobs[name] = ShellJob(cluster, name, ["bash", "-c", READS], line, env={**os.environ, "OUT": str(cluster.dir / f"{name}.out")})
        for name, (_, written, code) in shapes.items():
            out = cluster.dir / f"{name}.out"
            if name == "open":
                wait_until("it has failed", lambda: "not started again" in jobs[name].log.read_text(), 20)
            else:
                assert jobs[name].process.wait(20) == code, (name, jobs[name].log.read_text())
            text = "".join(line for line in out.read_text().splitlines(True) if not line.startswith("ckpt-run: "))
            assert text == (written or whole), (name, out.read_text())
            allocation_in(cluster, name, COMPLETED if code == 0 else ENDED_FAILED)
            if code:
                assert "standard input is a pipe, and the application may have read of it" in jobs[name].log.read_text()
        assert "restart 1 of 3" in (cluster.dir / "two.out").read_text(), "its own lines are there as well"
        assert "standard input is a pipe: once something was read" in jobs["open"].log.read_text()


def an_input_that_is_whole_and_unread_hinders_no_restart():
    """A here-document of the shell, whose pipe nobody can write to any more. V-004."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        command = ["bash", "-c", '[ "$CKPT_RESTART_COUNT" = 1 ] || kill -9 $$; exec cat']
        cluster.register("here", [("a", 1, MIB)])
        job = ShellJob(cluster, "here", command, f'exec "$@" <<< text > {cluster.dir}/here.out')
        assert job.process.wait(20) == 0, job.log.read_text()
        assert "restart 1 of 3" in job.log.read_text() and (cluster.dir / "here.out").read_text() == "text\n"


if __name__ == "__main__":
    sys.exit(tap([what_was_read_is_read_again_or_the_job_is_not_started_again, an_input_that_is_whole_and_unread_hinders_no_restart,
                  nohup_without_descriptors_and_with_blocked_signals_is_no_obstacle]))
