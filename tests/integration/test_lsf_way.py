#!/usr/bin/python3
"""A site's programs for LSF (echkpnt, erestart, echkpnt.METHOD and erestart.METHOD), run unchanged by ckpt-run -k, with a real broker, agent and
destination. The program that they save knows nothing of checkpoints."""
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, Job, common_pb2, tap, wait_until  # noqa: E402
from jobs import (COMPLETE, ENDED_FAILED, FAILED, MIB, POLICY, SUSPENDED, TIMED_OUT, all_run, allocation_in, complete, ends, ends_in, hint, restart,  # noqa: E402
                  says)

STOP = common_pb2.AFTER_CHECKPOINT_STOP
LAST = 900
# Adds the numbers of its input up, and goes on behind those that its state has.
ADDER = r"""
import os, sys, time
state = sys.argv[1]
step, total = map(int, open(state).read().split()) if os.path.exists(state) else (0, 0)
print("goes on from", step, flush=True)
for at, line in enumerate(sys.stdin):
    if at < step:
        continue
    step, total = step + 1, total + int(line)
    with open(state + ".new", "w") as file:
        file.write(f"{step} {total}")
    os.rename(state + ".new", state)
    time.sleep(0.004)
print("total", total, flush=True)
"""
# As sites write them: with getopts, and no word of this broker.
ECHKPNT = r"""#!/bin/sh
dir=. kill= stop= flags=
while getopts cfksxd: option; do
    case $option in
    d) dir=$OPTARG ;;
    k) kill=1 ;;
    s) stop=1 ;;
    c | f | x) flags=$flags$option ;;
    *) echo "usage: $0 [-c] [-f] [-k | -s] [-d dir] pgid" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || exit 2
echo "$(basename $0) flags=$flags stop=$stop kill=$kill pgid=$1 uid=$(id -u) here=$(pwd)" >> SITE/called
env | grep '^LS' > SITE/echkpnt.env
[ ! -e SITE/before ] || . SITE/before
kill -s STOP -- -$1
cp SITE/state "$dir/state" || { kill -s CONT -- -$1; exit 1; }
[ ! -e SITE/after ] || . SITE/after
[ -z "$kill" ] || kill -s KILL -- -$1
[ -n "$stop" ] || kill -s CONT -- -$1
"""
ERESTART_METHOD = r"""#!/bin/sh
while getopts cf option; do [ "$option" != "?" ] || exit 2; done
shift $((OPTIND - 1))
env | grep '^LS' > SITE/erestart.env
[ ! -e SITE/restarting ] || . SITE/restarting
cp "$1/state" SITE/state
echo "LSB_RESTART_CMD=exec $LSB_ERESTART_USRCMD" > "$LSB_CHKPNT_DIR/.restart_cmd"
"""
# The interface itself: it is the job, in a session of its own, and says so.
ERESTART = r"""#!/bin/sh
env | grep '^LS' > SITE/erestart.env
[ ! -e SITE/restarting ] || . SITE/restarting
for folder; do :; done
cp "$folder/state" SITE/state
cd "$LS_SUBCWD"
exec 9<&0
eval "setsid $LSB_ERESTART_USRCMD <&9 2>&$LSB_STDERR_FD &"
printf 'pid=%d pgid=%d' $! $! >&2
exec 2>&-
wait $!
"""


class Adder(Job):
    """A job whose input is a file, and the site whose programs save it."""

    def __init__(self, cluster, name, text, environment, last=LAST, options=()):
        self.site = cluster.dir / f"site-{name}"
        self.site.mkdir()
        self.input = self.site / "input"
        self.input.write_text("".join(f"{number}\n" for number in range(last)))
        self.environment = {key: str(value).replace("SITE", str(self.site)) for key, value in environment.items()}
        (self.site / "adder.py").write_text(ADDER)
        for program, body in (("echkpnt", ECHKPNT), ("erestart", ERESTART), ("echkpnt.add", ECHKPNT), ("erestart.add", ERESTART_METHOD)):
            path = self.site / program
            path.write_text(body.replace("SITE", str(self.site)))
            path.chmod(0o755)
        cluster.register(name, [("a", 1, MIB)], grace_ms=500)
        self.text = text.replace("SITE", str(self.site))
        super().__init__(cluster, cluster.agents["a"], name, [sys.executable, str(self.site / "adder.py"), str(self.site / "state")],
                         ("-k", self.text, "--max-restarts", "5", *options))
        cluster.jobs.append(self)

    def start(self):
        with open(self.log, "ab") as log, open(self.input) as given:
            self.process = subprocess.Popen(self.arguments, stdout=log, stderr=log, stdin=given, cwd=self.cluster.dir, start_new_session=True,
                                            env={**os.environ, **self.environment})

    def begun(self):
        all_run(self.cluster)
        wait_until(f"{self.allocation} adds", lambda: self.step() > 2, 20)

    def step(self):
        try:
            return int((self.site / "state").read_text().split()[0])
        except (OSError, IndexError):
            return 0

    def steps_on(self):
        before = self.step()
        wait_until(f"{self.allocation} goes on from {before}", lambda: self.step() > before + 2, 15)

    def starts(self):
        return [int(step) for step in re.findall(r"goes on from (\d+)", self.log.read_text())]

    def dies_and_comes_back(self):
        starts = len(self.starts())
        os.kill(self.main(), signal.SIGKILL)
        wait_until(f"{self.allocation} was started again", lambda: len(self.starts()) > starts, 30)

    def main(self):
        """The program itself, whatever has started it."""
        for pid in self.applications():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[1:2] == [str(self.site / "adder.py").encode()]:
                return pid
        raise AssertionError(f"{self.allocation} does not run")

    def does(self, when, script=None):
        """What the site's programs do beside, at that place."""
        path = self.site / when
        path.unlink(missing_ok=True)
        if script is not None:
            path.write_text(script)

    def called(self):
        return [dict(word.split("=", 1) for word in line.split()[1:]) for line in (self.site / "called").read_text().splitlines()]

    def variables(self, program):
        return dict(line.split("=", 1) for line in (self.site / f"{program}.env").read_text().splitlines() if "=" in line)


def begin():
    return Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": "6s", "max_deferral": "16s"})


def failed_text(cluster, name, **how):
    return ends_in(cluster, name, cluster.request_checkpoint(name, **how), (FAILED, TIMED_OUT), 30).detail


def a_method_saves_and_restarts_a_program_that_knows_nothing():
    """S3-010, S3-011, S3-013, S3-014, S3-018, S3-020, S3-021, S3-022, S3-023, S3-024, S3-068: echkpnt.METHOD and erestart.METHOD as LSF runs them,
    killed at a moment of its work, with an input that is given again; a forced checkpoint is told as one that may not restart."""
    with begin() as cluster:
        cluster.start()
        job = Adder(cluster, "adder", "SITE/ck 30 method=add", {"LSB_ECHKPNT_METHOD_DIR": "SITE", "LSF_ENVDIR": "SITE"}, options=("--echkpnt-options", "-c -f"))
        job.begun()
        says(job, "the period of 30 min counts where the job is registered")
        done = complete(cluster, "adder")
        first = job.main()
        held = int(next(pathlib.Path(done.path).rglob("state")).read_text().split()[0])
        assert done.label == "forced-may-not-restart", done
        call, told = job.called()[-1], job.variables("echkpnt")
        assert call["flags"] == "cf" and call["stop"] == call["kill"] == "" and call["pgid"] == str(first), (call, first)
        assert call["here"] == told["LSB_CHKPNT_DIR"] and "/out/" in call["here"], (call, told)
        assert (told["LSB_JOBID"], told["LSB_ECHKPNT_METHOD"], told["LS_EXEC_T"], told["LSB_CHKPNT_PERIOD"]) == ("adder", "add", "CHKPNT", "1800"), told
        job.steps_on()
        job.dies_and_comes_back()
        told = job.variables("erestart")
        assert job.starts()[-1] >= held > 0, (job.starts(), held)
        assert (told["LSB_RESTART"], told["LSB_RESTART_PID"], told["LSB_RESTART_PGID"], told["LSB_OLD_JOBID"]) == ("Y", str(first), str(first), "adder"), told
        assert "/restore/" in told["LSB_CHKPNT_DIR"] and "adder.py" in told["LSB_ERESTART_USRCMD"], told

        held, calls = job.site / "held", len(job.called())
        job.does("restarting", f"touch {held}; while [ -e {held} ]; do sleep 0.05; done")
        os.kill(job.main(), signal.SIGKILL)
        wait_until("erestart works", held.exists, 20)
        identifier = hint(cluster, "adder")
        wait_until("the checkpoint is put off", lambda: "to=DEFERRED" in cluster.agents["a"].log.read_text(), 10)
        assert len(job.called()) == calls, "erestart was saved in the place of the job"
        job.does("restarting")
        held.unlink()
        ends_in(cluster, "adder", identifier, (COMPLETE,), 30)

        job.does("restarting", "echo 'the license server is down' >&2; exit 7")
        os.kill(job.main(), signal.SIGKILL)
        says(job, "erestart.add ended with status 7: the license server is down", 30)
        job.does("restarting")
        assert ends(job, 60) == 0 and f"total {sum(range(LAST))}" in job.log.read_text(), job.log.read_text()


def a_checkpoint_that_fails_lets_the_job_go_on():
    """S3-015, S3-016, S3-017, S3-041: -s where the checkpoint ends the job, and what the program has stopped goes on when it fails, before and after
    the agent holds the job; a program that hangs is ended with what it has begun; the agent is killed meanwhile."""
    with begin() as cluster:
        cluster.start()
        job = Adder(cluster, "adder", "SITE/ck method=add", {"LSF_SERVERDIR": "SITE", "LSF_ENVDIR": "SITE"}, last=10 ** 6, options=("--max-restarts", "0"))
        job.begun()
        job.does("before", "echo one >&2; echo 'no room on the tape' >&2; exit 3")
        assert "echkpnt.add ended with status 3: no room on the tape" in failed_text(cluster, "adder")
        job.steps_on()
        job.does("before")
        job.does("after", "exit 0")  # stopped for good, without -s
        complete(cluster, "adder")
        job.steps_on()
        for after in ("exit 4", 'echo "not a label" > "$CKPT_LABEL_FILE"', "mkfifo $dir/pipe"):
            job.does("after", after)
            failed_text(cluster, "adder", after=STOP)
            assert job.called()[-1]["stop"] == "1", job.called()
            job.steps_on()
        job.does("after", "echo $$ > SITE/pid; trap '' TERM; sleep 1000".replace("SITE", str(job.site)))
        identifier = hint(cluster, "adder")
        wait_until("echkpnt runs", (job.site / "pid").exists, 10)
        cluster.agents["a"].kill(9)
        gone = int((job.site / "pid").read_text())
        wait_until("it is ended with its agent", lambda: not pathlib.Path(f"/proc/{gone}").exists(), 15)
        job.does("after")
        cluster.agents["a"].start()
        ends_in(cluster, "adder", identifier, (COMPLETE, FAILED, TIMED_OUT), 30)
        job.steps_on()
        identifier = wait_until("the broker asks again", lambda: cluster.request_checkpoint("adder", after=STOP), 10)
        done = ends_in(cluster, "adder", identifier, (COMPLETE,), 30)
        allocation_in(cluster, "adder", SUSPENDED)
        ends(job)
        assert job.step() == int(next(pathlib.Path(done.path).rglob("state")).read_text().split()[0]), "it computed after its checkpoint"
        restart(cluster, "adder")
        job.start()
        job.steps_on()
        assert job.starts()[-1] > 0 and job.variables("erestart")["LSB_RESTART"] == "Y"


def erestart_itself_is_the_job():
    """S3-025, S3-026, S3-027, S3-028, S3-067: it says whom it has started, and echkpnt gets that process group; or says nothing; or why it has
    failed, which the cluster keeps. Its output is kept below -k's folder."""
    with begin() as cluster:
        cluster.start()
        job = Adder(cluster, "adder", "SITE/ck", {"LSF_ECHKPNTDIR": "SITE", "LSF_SERVERDIR": "/nowhere", "LSF_ENVDIR": "SITE", "LSB_ECHKPNT_KEEP_OUTPUT": "Y"},
                    options=("--max-restarts", "2"))
        job.begun()
        job.does("before", "echo kept >&2")
        complete(cluster, "adder")
        assert (job.site / "ck" / "adder" / "echkpnt.err").read_text() == "kept\n" and (job.site / "ck" / "adder" / "echkpnt.out").exists()
        front = job.application_pid()
        job.dies_and_comes_back()
        wait_until("the front has it", lambda: job.application_pid() not in (None, front, job.main()), 10)
        complete(cluster, "adder")
        assert job.called()[-1]["pgid"] == str(job.main()) == str(os.getpgid(job.main())), job.called()
        job.steps_on()

        job.does("restarting", "exec 2>&-; cp $1/state SITE/state; eval exec $LSB_ERESTART_USRCMD".replace("SITE", str(job.site)))
        job.dies_and_comes_back()
        complete(cluster, "adder")
        job.does("restarting", "echo 'the checkpoint is of another machine' >&2; exit 9")
        os.kill(job.main(), signal.SIGKILL)
        says(job, "erestart has failed: the checkpoint is of another machine", 30)
        allocation_in(cluster, "adder", ENDED_FAILED, SUSPENDED)
        assert "the checkpoint is of another machine" in cluster.ctl("events", "adder").stdout, cluster.ctl("events", "adder").stdout


def another_user_runs_them_as_itself():
    """S3-029, S3-068: the programs run as the job's user, never as root; what that user may not run is named. The same text registers the
    job with its period."""
    if os.geteuid() != 0:
        return "becoming another user needs root"
    user = pwd.getpwnam("nobody")
    with begin() as cluster:
        cluster.let_others_in()
        cluster.agent_config.write_text(cluster.agent_config.read_text() + 'owners_register: yes\nowners_tenants: "physics=*"\n')
        cluster.start()
        site, work, log = cluster.dir / "site", cluster.dir / "theirs", cluster.dir / "theirs.log"
        for folder in (site, work):
            folder.mkdir()
        os.chown(work, user.pw_uid, user.pw_gid)
        for program in ("echkpnt.add", "erestart.add"):
            (site / program).write_text('#!/bin/sh\nid -u > "$LSB_CHKPNT_DIR/uid"\n')
            (site / program).chmod(0o755)
        line = [str(cluster.bin / "ckpt-run"), "--alloc", "theirs", "--work-dir", str(work), "--socket", str(cluster.agents["a"].socket),
                "-k", f"{work}/ck method=add", "--", "sleep", "1000"]
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/",
               "env": {**os.environ, "LSB_ECHKPNT_METHOD_DIR": str(site), "LSF_ENVDIR": str(site)}}
        register = [line[0], "register", "--alloc", "theirs", "--tenant", "physics", "--project", "lsf", "--socket", str(cluster.agents["a"].socket), "-k"]
        subprocess.run([*register, f"{work}/ck init=5 30 method=add"], check=True, capture_output=True, timeout=30, **who)
        spec = cluster.allocation("theirs").spec
        assert (spec.profile, spec.period_ms, spec.first_period_ms) == ("exec", 30 * 60 * 1000, 5 * 60 * 1000), spec
        (site / "site.yaml").write_text("about: theirs\nrequest:\n  echkpnt: ck init=7 90 method=add\n")
        profiled = [*register[:3], "profiled", *register[4:-1], "--profile", str(site / "site.yaml"), "--period", "40m"]
        subprocess.run(profiled, check=True, capture_output=True, timeout=30, **who)
        spec = cluster.allocation("profiled").spec
        assert (spec.profile, spec.period_ms, spec.first_period_ms) == ("exec", 40 * 60 * 1000, 7 * 60 * 1000), spec
        (site / "erestart.add").chmod(0o700)
        refused = subprocess.run(line, capture_output=True, text=True, timeout=20, **who)
        assert refused.returncode == 125 and f"erestart.add cannot be run from {site}" in refused.stderr and "Permission denied" in refused.stderr, refused
        (site / "erestart.add").chmod(0o755)
        with open(log, "wb") as out:
            run = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **who)
        try:
            wait_until("it runs", lambda: "started pid" in log.read_text(), 20)
            done = complete(cluster, "theirs")
            assert next(pathlib.Path(done.path).rglob("uid")).read_text() == f"{user.pw_uid}\n"
        finally:
            run.terminate()
            run.wait(20)


def the_method_that_comes_with_it_copies_files_in_use():
    """S3-012, S3-013, S3-014, S3-015, S3-016, S3-017, S3-019, S3-022, S3-023: deploy/lsf/echkpnt.files and erestart.files, by LSF's grammar alone."""
    methods = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "lsf"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "read").write_text("old")
        program = ("import sys, time\nr = open(sys.argv[1])\nw = open(sys.argv[2], 'a')\nwhile True:\n    w.write('x')\n    w.flush()\n"
                   "    time.sleep(0.005)")

        def begun():
            writes = folder / "it's written"
            before = writes.stat().st_size if writes.exists() else 0
            running = subprocess.Popen([sys.executable, "-c", program, str(folder / "read"), str(writes)], process_group=0,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until("it writes", lambda: writes.exists() and writes.stat().st_size > before, 10)
            return running, writes

        def runs(method, *words):
            return subprocess.run([str(methods / method), *words], capture_output=True, text=True, timeout=20, cwd=folder)

        def state(running):
            return pathlib.Path(f"/proc/{running.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

        running, writes = begun()
        try:
            for words, said in ((("-z", "5"), "unknown"), (("-k", "-s", "5"), "exclude each other"), ((), "one process group"), (("5x",), "no process group")):
                done = runs("echkpnt.files", *words)
                assert done.returncode == 2 and said in done.stderr and "usage:" in done.stderr, done
            (folder / "full").write_text("")
            done = runs("echkpnt.files", "-s", "-d", str(folder / "full"), str(running.pid))
            assert done.returncode == 1 and state(running) != "T", done
            (folder / "one").mkdir()
            done = runs("echkpnt.files", "-c", "-s", "-d", str(folder / "one"), str(running.pid))
            assert done.returncode == 0 and state(running) == "T", done
            saved = writes.read_bytes()
            assert (folder / "one" / f"written{writes}").read_bytes() == saved and (folder / "one" / f"read{folder}" / "read").read_text() == "old"
            os.kill(running.pid, signal.SIGCONT)
            wait_until("it goes on", lambda: writes.stat().st_size > len(saved), 10)
            (folder / "read").write_text("new")
            (folder / "two").mkdir()
            done = runs("echkpnt.files", "-k", "-d", "two", str(running.pid))
            assert done.returncode == 0 and running.wait(10) == -signal.SIGKILL and not list((folder / "two" / "read").iterdir()), done
            assert runs("erestart.files", str(folder / "one")).returncode == 0
            assert writes.read_bytes() == saved and (folder / "read").read_text() == "new"
            assert runs("erestart.files", "-c", str(folder / "one")).returncode == 0 and (folder / "read").read_text() == "old"
            assert runs("erestart.files", str(folder)).returncode == 1 and runs("erestart.files", "-z").returncode == 2
            running, writes = begun()
            writes.unlink()
            (folder / "three").mkdir()
            done = runs("echkpnt.files", "-d", str(folder / "three"), str(running.pid))
            assert done.returncode == 1 and "no name any more" in done.stderr and state(running) != "T", done
            assert runs("echkpnt.files", "-f", "-d", str(folder / "three"), str(running.pid)).returncode == 0
        finally:
            running.kill()
            running.wait()


def what_is_wrong_is_named_before_the_job_starts():
    """S3-012, S3-019, S3-067, S3-068: an unknown option, -k and -s, a method that is not there, with the folder that was looked into."""
    for words, text in ((("-k", "ck method=none"), "echkpnt.none cannot be run from /usr/share, which LSF_SERVERDIR names: No such file"),
                        (("-k", "ck"), "echkpnt cannot be run from /usr/share"),
                        (("-k", "ck 5x"), 'has the word "5x"'),
                        (("-k", "ck method=../sh"), 'names the method "../sh"'),
                        (("-k", "ck", "--echkpnt-options", "-z"), "-z, which is unknown"),
                        (("-k", "ck", "--echkpnt-options", "-k -s"), "exclude each other"),
                        (("-k", "ck", "--checkpoint-cmd", "x"), "a job is saved in one way"),
                        (("-k", "ck", "--restore", "path"), "name own"),
                        (("-k", "ck", "--profile", "grpc"), "--profile says grpc"),
                        (("--echkpnt-options", "-c"), "of no use without -k")):
        work = f"/tmp/ckpt-lsf-{os.getpid()}"
        done = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "a", "--work-dir", work, *words, "--", "true"], capture_output=True, text=True, timeout=20,
                              env={**os.environ, "LSF_SERVERDIR": "/usr/share", "LSF_ENVDIR": "/nowhere"}, cwd="/")
        subprocess.run(["rm", "-rf", work], check=True)
        assert done.returncode == 125 and text in done.stderr, (words, done.stderr[:600])


if __name__ == "__main__":
    sys.exit(tap([a_method_saves_and_restarts_a_program_that_knows_nothing, a_checkpoint_that_fails_lets_the_job_go_on, erestart_itself_is_the_job,
                  another_user_runs_them_as_itself,
                  the_method_that_comes_with_it_copies_files_in_use, what_is_wrong_is_named_before_the_job_starts]))
