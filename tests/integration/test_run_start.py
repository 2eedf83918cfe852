#!/usr/bin/python3
"""ckpt-run as shells, nohup, cron and terminals start it: what the application finds of that, at its first start and when it is started again."""
import fcntl
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, Job, parent_of, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, ENDED_FAILED, MIB, POLICY, REQUEUED, allocation_in, ends_in, heat, hint  # noqa: E402


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


def warnings_of_a_batch_system_end_nothing():
    """Slurm's --signal=USR1@120, submitit's SIGUSR2, LSF's and PBS's SIGXCPU come to whoever the batch system has started. ckpt-run tells them and goes on:
    it would die of each, and the batch system would end all that it has left. V-011."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat(cluster, "job"))
        pid = wait_until("it runs", job.known_to_run, 20)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            job.process.send_signal(number)
            wait_until("it is told", lambda number=number: f"signal {int(number)} (" in job.log.read_text() or job.process.poll() is not None, 5)
            assert job.running(), job.process.returncode
        ends_in(cluster, "job", hint(cluster, "job"), (COMPLETE,))
        assert job.running() and job.application_pid() == pid
        assert not ignored(pid, signal.SIGUSR2) and not ignored(pid, signal.SIGXCPU)
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(20) in (0, 143)


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
                wait_until("it has failed", lambda: "ckpt-run: not started again: " in jobs[name].log.read_text(), 20)
            else:
                assert jobs[name].process.wait(20) == code, (name, jobs[name].log.read_text())
            text = "".join(line for line in out.read_text().splitlines(True) if not re.match(r"\S+ \S+ ckpt-run: ", line))
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


THIRD = 'read -r -u 3 line; echo "$CKPT_RESTART_COUNT got $line"; [ "$CKPT_RESTART_COUNT" = 1 ] || kill -9 $$; sed "s/^/rest /" <&3'


def other_inputs_than_the_standard_one_are_read_again_or_the_job_is_not_started_again():
    """A file on another descriptor; a script or data from <(...), whose second reader would find nothing and end well: the job fails then. V-004."""
    script = """echo 'echo "$CKPT_RESTART_COUNT got one"; [ "$CKPT_RESTART_COUNT" = 1 ] || kill -9 $$'"""
    shapes = {  # how it is started, its command, what it writes, its end
        "file": ('exec "$@" 3< input > "$OUT"', ["bash", "-c", THIRD], "0 got one\n1 got one\nrest two\n", 0),
        "script": (f'exec "$@" <({script}) > "$OUT"', ["bash"], "0 got one\n", 137),
        "pipe": ('exec "$@" 3< <(echo one; echo two) > "$OUT"', ["bash", "-c", THIRD], "0 got one\n", 137),
    }
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        (cluster.dir / "input").write_text("one\ntwo\n")
        jobs = {}
        for name, (line, command, _, _) in shapes.items():
            cluster.register(name, [("a", 1, MIB)])
            jobs[name] = ShellJob(cluster, name, command, line, env={**os.environ, "OUT": str(cluster.dir / f"{name}.out")})
        for name, (_, _, written, code) in shapes.items():
            assert jobs[name].process.wait(20) == code, (name, jobs[name].log.read_text())
            assert (cluster.dir / f"{name}.out").read_text() == written, name
            allocation_in(cluster, name, COMPLETED if code == 0 else ENDED_FAILED)
            assert (", as of <(...), is a pipe" in jobs[name].log.read_text()) == (code != 0), name
        assert "which the command names, is a pipe: once something was read" in jobs["script"].log.read_text()


SAYS = 'read -r line; echo "$CKPT_RESTART_COUNT got $line"; until [ -e "$CKPT_DIR/go" ]; do sleep 0.05; done; rm "$CKPT_DIR/go"; echo "$(cat) $CKPT_RESTART_COUNT"; exit 3'


def the_same_line_with_other_streams_is_no_start_on_other_work():
    """It goes on with the application. Its own input is another file, or none: nothing is started again on that. Its `>` has emptied the output:
    that is said, and what the application writes then stands where the file ends. V-004, V-012."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        (cluster.dir / "input").write_text("one\ntwo\n")
        (cluster.dir / "other").write_text("three\nfour\n")
        second = {"same": 'exec "$@" < input >> "$OUT"', "other": 'exec "$@" < other >> "$OUT"', "none": 'exec "$@" >> "$OUT"', "emptied": 'exec "$@" < input > "$OUT"'}
        for name, line in second.items():
            cluster.register(name, [("a", 1, MIB)])
            out = cluster.dir / f"{name}.out"
            job = ShellJob(cluster, name, ["bash", "-c", SAYS], 'exec "$@" < input > "$OUT"', ("--max-restarts", "1"), env={**os.environ, "OUT": str(out)})
            pid = wait_until("it runs", job.known_to_run, 20)
            wait_until("it has read", lambda out=out: out.read_text() == "0 got one\n", 20)
            job.kill()
            job.line = line
            job.start()
            wait_until("it goes on", lambda job=job, pid=pid: f"goes on with pid {pid}" in job.log.read_text(), 20)
            (job.work_dir / "go").touch()
            if name in ("same", "emptied"):
                wait_until("it is started again", lambda job=job: "restart 1 of 1: the application ended with status 3" in job.log.read_text(), 20)
                (job.work_dir / "go").touch()
            assert job.process.wait(20) == 3, job.log.read_text()
            text, log = out.read_text(), job.log.read_text()
            assert text == {"same": "0 got one\ntwo 0\n1 got one\ntwo 1\n", "emptied": "two 0\n1 got one\ntwo 1\n"}.get(name, "0 got one\ntwo 0\n"), text
            assert ("standard input of this ckpt-run is not what the application was started with" in log) == (name in ("other", "none")), log
            assert ("the file of its output was emptied when this line was started" in log) == (name == "emptied"), log
            allocation_in(cluster, name, ENDED_FAILED)


def ckpt_run(cluster, *arguments):
    return subprocess.run([str(BIN / "ckpt-run"), *arguments, "--socket", str(cluster.agents["a"].socket)], capture_output=True, text=True, timeout=30)


def gone(pid):
    wait_until(f"pid {pid} is gone", lambda: not os.path.exists(f"/proc/{pid}"), 20)


COUNTS = "n=0; while [ ! -e $CKPT_DIR/stop ]; do sleep 0.05; n=$((n + 1)); done; echo counted; exit $(cat $CKPT_DIR/stop)"


def the_same_line_goes_on_with_its_application():
    """Its ckpt-run was killed: with the application that runs, with its output and its restarts, whoever else was killed as well. Another command is
    refused with the pid, and `ckpt-run end` and --replace end it. Without any ckpt-run how it ended is known all the same. V-012."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        names = ("on", "alone", "ended", "other", "lost")
        jobs, pids = {}, {}
        for name in names:
            cluster.register(name, [("a", 1, MIB)], grace_ms=500)
            jobs[name] = ShellJob(cluster, name, ["sh", "-c", COUNTS], 'exec "$@"')
        for name in names:
            pids[name] = wait_until("it runs", jobs[name].known_to_run, 20)
            jobs[name].kill()

        jobs["on"].start()
        wait_until("it goes on", lambda: f"goes on with pid {pids['on']}, which was started at " in jobs["on"].log.read_text(), 20)
        cluster.agents["a"].kill()
        cluster.agents["a"].start()
        wait_until("the agent has it again", lambda: "event=reattached allocation=on" in cluster.agents["a"].log.read_text(), 20)
        (jobs["on"].work_dir / "stop").write_text("3")
        wait_until("it is started again", lambda: "restart 1 of 3" in jobs["on"].log.read_text(), 20)
        (jobs["on"].work_dir / "stop").write_text("0")
        assert jobs["on"].process.wait(20) == 0
        assert "counted" in jobs["on"].log.read_text()
        allocation_in(cluster, "on", COMPLETED)

        (jobs["alone"].work_dir / "stop").write_text("0")
        allocation_in(cluster, "alone", COMPLETED)
        gone(pids["alone"])

        other = ckpt_run(cluster, "end", "ended")
        assert other.returncode == 0 and f"pid {pids['ended']} was told to end" in other.stdout, other
        allocation_in(cluster, "ended", ENDED_FAILED)
        again = ckpt_run(cluster, "end", "ended")
        assert again.returncode == 4 and "ALLOCATION_ENDED" in again.stderr, again

        for folder, why in ((str(jobs["other"].work_dir), "by another command: sh -c n=0"), (f"{cluster.dir}/elsewhere", "in the work folder")):
            refused = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "other", "--work-dir", folder, "--socket", str(cluster.agents["a"].socket), "--",
                                      "sh", "-c", "exit 0"], capture_output=True, text=True, timeout=30)
            assert refused.returncode == 125, refused
            for part in (f"pid {pids['other']} ", " since ", why, "ckpt-run end other", "--replace"):
                assert part in refused.stderr, (part, refused.stderr)
        jobs["other"].line = 'cd agent-a; exec "$@"'
        jobs["other"].start()
        assert jobs["other"].process.wait(20) == 125
        for part in (f"pid {pids['other']} of allocation other runs since ", f"started in {cluster.dir}, where its file names begin; start it there"):
            assert part in jobs["other"].log.read_text(), jobs["other"].log.read_text()
        jobs["other"].line = 'exec "$@"'
        jobs["other"].arguments.insert(1, "--replace")
        jobs["other"].start()
        gone(pids["other"])
        jobs["other"].process.send_signal(signal.SIGTERM)
        jobs["other"].process.wait(20)

        os.kill(parent_of(pids["lost"]), signal.SIGKILL)
        jobs["lost"].start()
        assert jobs["lost"].process.wait(20) == 125 and "without its ckpt-run" in jobs["lost"].log.read_text()
        assert os.path.exists(f"/proc/{pids['lost']}")
        assert ckpt_run(cluster, "end", "lost").returncode == 4
        cluster.debug_check()


STAYS = "trap '' TERM; (exec setsid sh -c \"trap '' TERM; while :; do sleep 0.2; done\") & while :; do sleep 0.2; done"


def who_does_not_end_when_told_is_killed_after_the_grace():
    """`ckpt-run end` says when: the application takes no notice of SIGTERM, as little as what it has started, with its ckpt-run and without. It is not
    started again, and --now waits for nothing. V-012."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name, grace_ms, options, left in (("short", 1500, (), False), ("alone", 1500, (), True), ("now", 60000, ("--now",), False)):
            cluster.register(name, [("a", 1, MIB)], grace_ms=grace_ms)
            job = ShellJob(cluster, name, ["sh", "-c", STAYS], 'exec "$@"')
            pid = wait_until("it runs", job.known_to_run, 20)
            wait_until("both are there", lambda job=job: len(job.applications()) >= 4, 20)
            if left:
                job.kill()
            told = ckpt_run(cluster, "end", name, *options)
            assert told.returncode == 0, told
            assert ("is killed;" if options else "was told to end, and is killed when it has not ended in 1.5s") in told.stdout, told.stdout
            if not options:
                assert os.path.exists(f"/proc/{pid}"), "its grace has only begun"
            allocation_in(cluster, name, ENDED_FAILED)
            gone(pid)
            wait_until("nothing is left of it", lambda job=job: not job.applications(), 20)
            if not left:
                assert job.process.wait(20) == 137 and job.log.read_text().count("started pid") == 1, job.log.read_text()
                assert "ckpt-run: restart " not in job.log.read_text(), "its last line says what may be typed, and nothing was restarted"
        again = ckpt_run(cluster, "end", "short", "--now")
        assert again.returncode == 4 and "ALLOCATION_ENDED" in again.stderr, again


def a_killed_keeper_is_no_loss_to_its_ckpt_run():
    """It is the application's parent then, and takes its status. A later ckpt-run cannot be, and says that nobody knows how it ended. V-012."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        cluster.register("later", [("a", 1, MIB)])
        later = ShellJob(cluster, "later", ["sh", "-c", COUNTS], 'exec "$@"')
        pid = wait_until("it runs", later.known_to_run, 20)
        later.kill()
        later.start()
        wait_until("it goes on", lambda: f"goes on with pid {pid}" in later.log.read_text(), 20)
        os.kill(parent_of(pid), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        assert later.process.wait(20) == 125 and "nobody knows how: its keeper was killed" in later.log.read_text()
        allocation_in(cluster, "later", REQUEUED)  # an end that nobody saw is the node's
        job = ShellJob(cluster, "job", ["sh", "-c", COUNTS], 'exec "$@"')
        pid = wait_until("it runs", job.known_to_run, 20)
        os.kill(parent_of(pid), signal.SIGKILL)
        wait_until("it is adopted", lambda: parent_of(pid) == job.process.pid, 20)
        (job.work_dir / "stop").write_text("0")
        assert job.process.wait(20) == 0
        allocation_in(cluster, "job", COMPLETED)


class Terminal:
    """A terminal with an interactive shell, or another program, as its session."""

    def __init__(self, cluster, command=("bash", "--norc", "--noprofile", "-i")):
        self.master, slave = pty.openpty()
        self.text, self.seen = "", 0
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=cluster.dir, start_new_session=True,
                                        env={**os.environ, "PS1": "$ ", "TERM": "dumb", "HISTFILE": "/dev/null"},
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        os.set_blocking(self.master, False)

    def read(self):
        try:
            while chunk := os.read(self.master, 65536):
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass
        return self.text[self.seen:]

    def type(self, keys):
        os.write(self.master, keys.encode())

    def shows(self, pattern):
        """Behind what was awaited before."""
        try:
            found = wait_until(f"the terminal shows /{pattern}/", lambda: re.search(pattern, self.read()), 20)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it shows:\n{self.text}") from None
        self.seen += found.end()
        return found

    def starts(self, line):
        """The pid of the application."""
        self.type(line + "\n")
        return int(self.shows(r"started pid (\d+)")[1])

    def foreground(self, pid):
        wait_until("the application has the terminal", lambda: os.tcgetpgrp(self.master) == pid, 20)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def in_state(pid, state):
    wait_until(f"pid {pid} is {state}", lambda: state_of(pid) in state, 10)


def at_a_terminal(cluster, *names):
    """`./r NAME COMMAND...` there runs a job, as its users type it."""
    cluster.start()
    for name in names:
        cluster.register(name, [("a", 1, MIB)])
    script = cluster.dir / "r"
    script.write_text(f'#!/bin/bash\nname=$1; shift; exec {BIN}/ckpt-run --alloc $name --work-dir {cluster.dir}/work/$name '
                      f'--socket {cluster.agents["a"].socket} -- "$@"\n')
    script.chmod(0o755)


def an_application_has_its_terminal_as_without_ckpt_run():
    """It reads and sets the terminal; Ctrl-Z, fg, bg and Ctrl-C do what they do to any job of a shell; in the background it is told why it does
    not go on. Some 10 s, 5 of them until that is told."""
    names = ("back", "sets", "keys", "bare")
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        at_a_terminal(cluster, *names)
        terminal = Terminal(cluster)
        try:
            pid = terminal.starts("""./r back bash -c 'read -r x; echo "got $x."' &""")
            in_state(pid, "T")
            status = subprocess.run([str(BIN / "ckpt-run"), "status", "--socket", str(cluster.agents["a"].socket)], capture_output=True, text=True,
                                    timeout=20, check=True).stdout
            assert re.search(r"job back: running, but stopped by a signal, .*, pid \d+", status), status
            terminal.shows(rf"the application \(pid {pid}\) is stopped and computes nothing: it reads from the terminal, .*\(fg\)")
            terminal.type("fg\n")
            terminal.foreground(pid)
            terminal.type("one\n")
            terminal.shows(r"got one\.")
            allocation_in(cluster, "back", COMPLETED)

            terminal.starts("""stty tostop; ./r sets bash -c 'echo out.; stty -echo; stty echo; echo "set."'""")
            terminal.shows(r"out\.\s+set\.")
            allocation_in(cluster, "sets", COMPLETED)

            pid = terminal.starts("""./r keys bash -c 'read -r x; echo "got $x."; read -r x; echo "got $x."; read -r x'""")
            terminal.type("one\n")
            terminal.shows(r"got one\.")
            terminal.foreground(pid)
            terminal.type("\x1a")
            terminal.shows("Stopped")
            in_state(pid, "T")
            terminal.type("fg\ntwo\n")
            terminal.shows(r"got two\.")
            terminal.foreground(pid)
            terminal.type("\x03")
            terminal.shows("the application was ended at the terminal")
            terminal.type("echo code=$?.\n")
            terminal.shows(r"code=130\.")
            allocation_in(cluster, "keys", ENDED_FAILED)

            pid = terminal.starts("./r bare sleep 600")  # a shell that has just forked waits for a child that is stopped
            terminal.type("\x1a")
            terminal.shows("Stopped")
            in_state(pid, "T")
            terminal.type("bg\n")
            in_state(pid, "SRD")
            terminal.type("fg\n")
            wait_until("the shell has given the terminal away", lambda: os.tcgetpgrp(terminal.master) != terminal.process.pid, 20)
            terminal.type("\x03")
            terminal.shows("ended by signal 2")
            terminal.type("echo code=$?.\n")
            terminal.shows(r"code=130\.")
            allocation_in(cluster, "bare", ENDED_FAILED)
            assert "restart 1" not in terminal.text, terminal.text
        finally:
            terminal.close()


if __name__ == "__main__":
    sys.exit(tap([the_same_line_goes_on_with_its_application, who_does_not_end_when_told_is_killed_after_the_grace,
                  a_killed_keeper_is_no_loss_to_its_ckpt_run, an_application_has_its_terminal_as_without_ckpt_run,
                  what_was_read_is_read_again_or_the_job_is_not_started_again, an_input_that_is_whole_and_unread_hinders_no_restart,
                  other_inputs_than_the_standard_one_are_read_again_or_the_job_is_not_started_again,
                  the_same_line_with_other_streams_is_no_start_on_other_work,
                  nohup_without_descriptors_and_with_blocked_signals_is_no_obstacle,
                  warnings_of_a_batch_system_end_nothing]))
