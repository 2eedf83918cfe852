#!/usr/bin/python3
"""Applications that know nothing of checkpoints, asked by a command of their owner (ckpt-run --checkpoint-cmd) and started again by another one (--restart-cmd), with a
real broker, agent and destination."""
import os
import pathlib
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, grpc, tap, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, RUNNING, TIMED_OUT, all_run, allocation_in, complete, ends, ends_in, hint, says  # noqa: E402

SEED = random.randrange(2 ** 32)
# A counter in a file of its own, which it reads where it begins: what a code with a restart file of its own format does.
COUNTER = r"""
import os, sys, time
state, last = sys.argv[1], int(sys.argv[2])
step = int(open(state).read()) if os.path.exists(state) else 0
print("counts from", step, flush=True)
while step < last:
    step += 1
    with open(state + ".new", "w") as file:
        file.write(str(step))
    os.rename(state + ".new", state)
    time.sleep(0.002)
print("counted to", step, flush=True)
"""


class Counter:
    """The job: its files lie in a folder with a name that a shell would take apart."""

    def __init__(self, cluster, name, save=None, last=10 ** 9, options=(), registered=(), restart=True):
        self.cluster, self.name = cluster, name
        self.folder = cluster.dir / f"it's {name}; $(touch X)"
        self.folder.mkdir()
        self.state = self.folder / "state"
        self.program = cluster.dir / "counter.py"
        self.program.write_text(COUNTER)
        quoted = "'" + str(self.state).replace("'", "'\\''") + "'"
        save = save or f"cp {quoted} {{dir}}/state && echo {{pid}} > {{dir}}/pid"
        back = f"rm -f {quoted}; cp {{dir}}/state {quoted} && exec {sys.executable} {self.program} {quoted} {last}"
        cluster.register(name, [("a", 1, MIB)], **dict(registered))
        self.job = cluster.run_job("a", name, [sys.executable, str(self.program), str(self.state), str(last)],
                                   ("--checkpoint-cmd", save, *(("--restart-cmd", back) if restart else ()), *options))

    def begun(self):
        all_run(self.cluster)
        wait_until(f"{self.name} counts", self.state.exists, 20)
        return self

    def starts(self):
        return [int(step) for step in re.findall(r"counts from (\d+)", self.job.log.read_text())]

    def steps_on(self):
        step = int(self.state.read_text())
        wait_until(f"{self.name} goes on", lambda: int(self.state.read_text()) > step, 10)


def begin(timeout="4s"):
    return Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": timeout})


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def failed_text(cluster, name):
    return ends_in(cluster, name, hint(cluster, name), (FAILED, TIMED_OUT)).detail


def completes(cluster, name):
    """What was asked of an application that died, or of a ckpt-run, may fail first, and is in the way of another one until then."""
    def asked():
        try:
            record = ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED, TIMED_OUT), 30)
        except grpc.RpcError as error:
            assert (error.details() or "").startswith("CHECKPOINT_ACTIVE"), error
            return None
        return record if record.state == COMPLETE else None
    return wait_until(f"a checkpoint of {name}", asked, 60)


def a_program_that_knows_nothing_comes_back():
    """Killed at a random moment, also while its command runs; each start begins with what a checkpoint holds, and it comes to its end."""
    print(f"# SEED={SEED}")
    chance = random.Random(SEED)
    with begin() as cluster:
        cluster.start()
        counter = Counter(cluster, "counter", last=6000, options=("--max-restarts", "10"))
        counter.begun()
        held = 0
        for _ in range(2):
            completes(cluster, "counter")
            hint(cluster, "counter")
            time.sleep(chance.random() * 0.1)
            pid, starts = counter.job.application_pid(), len(counter.starts())
            os.kill(pid, 9)
            wait_until("it was started again", lambda n=starts: len(counter.starts()) > n, 20)
            assert counter.starts()[-1] >= held and counter.starts()[-1] > 0, (counter.starts(), held)
            held = counter.starts()[-1]
        assert ends(counter.job, 60) == 0
        assert int(counter.state.read_text()) == 6000 and not (cluster.dir / "X").exists() and not (counter.folder / "X").exists()
        assert "counted to 6000" in counter.job.log.read_text()


def its_pid_and_folder_are_told():
    with begin() as cluster:
        cluster.start()
        counter = Counter(cluster, "counter", save='test -d "$CKPT_CHECKPOINT_DIR" && kill -0 "$CKPT_PID" && echo {pid} > {dir}/pid && echo step-7 > "$CKPT_LABEL_FILE"')
        counter.begun()
        done = complete(cluster, "counter")
        pid = counter.job.application_pid()
        assert done.label == "step-7", done
        assert any(path.read_text() == f"{pid}\n" for path in pathlib.Path(done.path).rglob("pid")), (done.path, pid)


def a_command_that_fails_takes_no_checkpoint():
    with begin() as cluster:
        cluster.start()
        counter = Counter(cluster, "counter", save="echo half > {dir}/state; exit 3")
        counter.begun()
        told = failed_text(cluster, "counter")
        assert "the checkpoint command ended with status 3" in told and "the application says" not in told, told
        says(counter.job, "the checkpoint command ended with status 3")
        assert "names neither" not in counter.job.log.read_text()
        counter.steps_on()
        other = Counter(cluster, "other", save="kill -SEGV $$")
        other.begun()
        says(other.job, "ckpt-run: --checkpoint-cmd names neither {dir} nor $CKPT_CHECKPOINT_DIR")
        assert "ended by signal 11" in failed_text(cluster, "other")
        other.steps_on()


def one_that_hangs_is_ended_at_the_deadline():
    """Also one that ignores SIGTERM, with what it has started; its application goes on, and the next command runs."""
    with begin() as cluster:
        cluster.start()
        pids = cluster.dir / "pids"
        counter = Counter(cluster, "counter", save=f"trap '' TERM; test -e {pids} && echo 7 > {{dir}}/state && exit; echo $$ > {pids}; sleep 1000")
        counter.begun()
        ends_in(cluster, "counter", hint(cluster, "counter"), (TIMED_OUT, FAILED), 30)
        gone = int(pids.read_text())
        refused = failed_text(cluster, "counter")
        assert re.search(r"the checkpoint command of before ignores SIGTERM, and is killed in \d\S*; then the next one can run", refused), refused
        wait_until("it was killed", lambda: not pathlib.Path(f"/proc/{gone}").exists(), 15)
        counter.steps_on()
        complete(cluster, "counter")


def it_does_not_outlive_its_ckpt_run_and_the_next_one_serves():
    """Nor does what it has begun, also in another session, and the application that it stopped goes on at once."""
    with begin() as cluster:
        cluster.start()
        pids = cluster.dir / "pids"
        counter = Counter(cluster, "counter", save=f"test -e {pids} && echo 7 > {{dir}}/state && exit; kill -s STOP -- -{{pid}}; "
                          f"setsid sh -c 'trap \"\" TERM; echo $$ > {pids}; exec sleep 1000' & echo $$ > {pids}.shell; sleep 1000")
        counter.begun()
        identifier = hint(cluster, "counter")
        both = (pids, pathlib.Path(f"{pids}.shell"))
        wait_until("its command runs", lambda: all(path.exists() and path.read_text() for path in both), 10)
        wait_until("it stopped the application", lambda: state_of(counter.job.application_pid()) == "T", 10)
        counter.job.kill()
        gone = [int(path.read_text()) for path in both]
        wait_until("it ends with its ckpt-run", lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in gone), 10)
        counter.steps_on()
        counter.job.start()
        says(counter.job, "goes on with pid")
        ends_in(cluster, "counter", identifier, (COMPLETE, FAILED, TIMED_OUT), 30)
        completes(cluster, "counter")
        counter.steps_on()


def an_agent_that_restarts_meanwhile_asks_again():
    with begin() as cluster:
        cluster.start()
        counter = Counter(cluster, "counter", save="sleep 1; echo 7 > {dir}/state")
        counter.begun()
        identifier = hint(cluster, "counter")
        time.sleep(0.5)
        cluster.agents["a"].kill(9)
        cluster.agents["a"].start()
        ends_in(cluster, "counter", identifier, (COMPLETE, FAILED), 30)
        complete(cluster, "counter")
        counter.steps_on()


def its_application_keeps_its_input():
    """A command that reads its own input finds it empty: what the application reads from a file is not taken away."""
    with begin() as cluster:
        cluster.start()
        cluster.register("reader", [("a", 1, MIB)])
        lines, work, log = cluster.dir / "lines", cluster.dir / "reader-work", cluster.dir / "reader.log"
        lines.write_text("line\n" * 3000)
        with open(lines) as given, open(log, "wb") as out:
            run = subprocess.Popen([str(BIN / "ckpt-run"), "--alloc", "reader", "--work-dir", str(work), "--socket", str(cluster.agents["a"].socket),
                                    "--checkpoint-cmd", "cat > {dir}/input; echo 7 > {dir}/state", "--", sys.executable, "-c",
                                    "import os, time\nn = 0\nwhile os.read(0, 5):\n    n += 1\n    time.sleep(0.002)\nprint('read', n)"], stdin=given, stdout=out, stderr=out)
        wait_until("it reads", lambda: "started pid" in log.read_text(), 20)
        for _ in range(2):
            completes(cluster, "reader")
        assert run.wait(60) == 0 and "read 3000" in log.read_text(), log.read_text()


def what_it_has_stopped_or_begun_goes_on_or_ends_with_it():
    """A command that stops the application and is ended before it lets it go; one that leaves a process that ignores SIGTERM."""
    with begin() as cluster:
        cluster.start()
        long = f"sleep {1000 + os.getpid()}"  # other programs of this machine sleep as well
        counter = Counter(cluster, "counter", save=f"(trap '' TERM; exec {long}) & kill -s STOP -- -{{pid}}; {long}").begun()
        ends_in(cluster, "counter", hint(cluster, "counter"), (TIMED_OUT, FAILED), 30)
        counter.steps_on()
        wait_until("nothing of the command is left", lambda: subprocess.run(["pgrep", "-f", f"^{long}$"], capture_output=True).returncode == 1, 20)
        failing = Counter(cluster, "failing", save="kill -s STOP -- -{pid}; exit 3").begun()
        assert "ended with status 3" in failed_text(cluster, "failing")
        failing.steps_on()


def a_work_folder_that_was_removed_is_served_again():
    with begin() as cluster:
        cluster.start()
        counter = Counter(cluster, "counter").begun()
        completes(cluster, "counter")
        subprocess.run(["rm", "-rf", str(counter.job.work_dir)], check=True)
        starts = len(counter.starts())
        os.kill(counter.job.application_pid(), 9)
        wait_until("it was started again", lambda: len(counter.starts()) > starts, 30)
        completes(cluster, "counter")


def a_job_that_is_registered_so_says_what_it_lacks():
    with begin("20s") as cluster:
        cluster.start()
        cluster.register("bare", [("a", 1, MIB)], profile="exec")
        cluster.run_job("a", "bare", ["sleep", "1000"])
        all_run(cluster)
        told = failed_text(cluster, "bare")
        assert "start it with --checkpoint-cmd" in told, told
        allocation_in(cluster, "bare", RUNNING)
        Counter(cluster, "counter", registered={"profile": "exec"}, restart=False).begun()
        complete(cluster, "counter")


def wrong_options_are_named():
    for options, text in ((("--restart-cmd", "x"), "--restart-cmd is of no use without --checkpoint-cmd"),
                          (("--checkpoint-cmd", ""), "must not be empty"),
                          (("--checkpoint-cmd", "x", "--profile", "grpc"), "--profile says grpc"),
                          (("--checkpoint-cmd", "x", "--work-dir", f"/tmp/{os.getpid()}-{'x' * 100}"), "choose a shorter --work-dir")):
        done = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "a", *options, "--", "true"], capture_output=True, text=True, timeout=20)
        assert done.returncode == 125 and text in done.stderr, (options, done)
        if "--work-dir" in options:
            subprocess.run(["rm", "-rf", options[3]], check=True)


if __name__ == "__main__":
    sys.exit(tap([a_program_that_knows_nothing_comes_back, its_pid_and_folder_are_told, a_command_that_fails_takes_no_checkpoint,
                  one_that_hangs_is_ended_at_the_deadline, it_does_not_outlive_its_ckpt_run_and_the_next_one_serves,
                  an_agent_that_restarts_meanwhile_asks_again, a_job_that_is_registered_so_says_what_it_lacks, its_application_keeps_its_input,
                  what_it_has_stopped_or_begun_goes_on_or_ends_with_it, a_work_folder_that_was_removed_is_served_again, wrong_options_are_named]))
