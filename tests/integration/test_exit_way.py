#!/usr/bin/python3
"""Programs that know nothing of checkpoints and end when they have saved (ckpt-run --checkpoint-exit), are told so by a signal (--ask-signal), or end with 0 before their
work is complete (--done-if): saved, started again in place, killed while they save, without a leader, an agent or a ckpt-run, to the result of an undisturbed run.
S4-003, S5-001, S5-002, S5-003, S5-004, S5-005, S5-006, S5-007, S5-010, S5-011, S5-012, S5-013, S5-014, S5-015."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, own_name, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, FAILED, MIB, POLICY, all_run, allocation_in, ends, ends_in, hint, says  # noqa: E402

EMPTY = common_pb2.REASON_EMPTY_CHECKPOINT
# A sum over the lines of its standard input, or over its steps: it keeps the state in a folder, by no rename, and ends with a status of its own when it has saved.
PROGRAM = r"""
import os, pathlib, signal, sys, time
folder, last, every, status, delay = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
told, state = [], folder / "state" / "n"
signal.signal(signal.SIGTSTP, lambda *_: told.append(1))
lines = [int(line) for line in sys.stdin] if not sys.stdin.isatty() else []
step, value = map(int, state.read_text().split()) if state.exists() else (0, 0)
print("begins at", step, len(lines), flush=True)
while step < last:
    step += 1
    value = (value * 31 + (lines[step % len(lines)] if lines else step)) % 1000003
    time.sleep(delay)
    if told or (every and step % every == 0 and step < last):
        state.parent.mkdir(exist_ok=True)
        state.write_text(f"{step} ")  # torn until the next write
        if (folder / "hang").exists():
            (folder / "hangs").touch()
            time.sleep(1000)
        state.write_text(f"{step} {value}\n")
        sys.exit(status)
(folder / "result").write_text(f"{value}\n")
"""


def truth(last, lines=()):
    value = 0
    for step in range(1, last + 1):
        value = (value * 31 + (lines[step % len(lines)] if lines else step)) % 1000003
    return f"{value}\n"


def run(cluster, name, options, last=60, every=0, status=85, delay=0.01):
    folder = cluster.dir / name
    folder.mkdir()
    program = cluster.dir / "program.py"
    program.write_text(PROGRAM)
    cluster.register(name, [("a", 1, MIB)])
    command = ["/usr/bin/python3", str(program), str(folder), str(last), str(every), str(status), str(delay)]
    return folder, cluster.run_job("a", name, command, options)


def begun(job):
    return [int(line.split()[2]) for line in job.log.read_text().splitlines() if line.startswith("begins at")]


def newest(cluster, name):
    done = [c for c in cluster.checkpoints(name) if c.state == COMPLETE]
    return done[-1] if done else None


def saved(record):
    return {str(p.relative_to(record.path)): p.read_text() for p in pathlib.Path(record.path).rglob("n")}


def names(record):
    return {p.name for p in pathlib.Path(record.path, "part-0000").rglob("*") if p.is_file() and p.name != "MANIFEST"}


def it_ends_when_it_has_saved_and_comes_back():
    """Unasked: each such end is a checkpoint, and no crash. Killed in the middle of a save it comes back from the last whole one. The leader is absent, then the
    agent is: what was saved meanwhile becomes a checkpoint when they are back, also when all of the job was killed meanwhile."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        folder, job = run(cluster, "unasked", ("--checkpoint-exit", "85", "--checkpoint-files", "unasked/state"), last=350, every=50, delay=0.02)
        first = wait_until("a checkpoint that nobody asked for", lambda: newest(cluster, "unasked"), 30)
        assert list(saved(first)) == ["part-0000/unasked/state/n"] and len(list(saved(first).values())[0].split()) == 2, saved(first)
        wait_until("it goes on behind its save", lambda: len(begun(job)) > 1, 20)
        cluster.members[0].kill(9)
        starts = len(begun(job))
        wait_until("it goes on without a leader", lambda: len(begun(job)) > starts, 20)
        there, starts, pid = begun(job)[-1], len(begun(job)), job.application_pid()
        job.kill()  # and all of the job on its node: no checkpoint has what was saved meanwhile
        os.killpg(pid, 9)
        cluster.members[0].start()
        job.start()
        says(job, "goes on from what the program saved by itself")
        wait_until("it begins again", lambda: len(begun(job)) > starts, 20)
        assert begun(job)[starts] >= there > 50, (begun(job), there)
        (folder / "hang").touch()
        wait_until("what was set aside is a checkpoint", lambda: (lambda c: c and int(list(saved(c).values())[0].split()[0]) >= there)(newest(cluster, "unasked")), 30)
        wait_until("it hangs in a save", (folder / "hangs").exists, 20)
        torn = (folder / "state" / "n").read_text()
        assert len(torn.split()) == 1, torn
        (folder / "hang").unlink()
        starts = len(begun(job))
        cluster.agents["a"].kill(9)
        os.kill(job.application_pid(), 9)
        cluster.agents["a"].start()
        says(job, "from checkpoint")
        wait_until("it begins again", lambda: len(begun(job)) > starts, 20)
        assert begun(job)[starts] >= there > 0, (begun(job), there)
        assert ends(job, 60) == 0, job.log.read_text()
        log = job.log.read_text()
        assert (folder / "result").read_text() == truth(350), log
        assert log.count("restart 2 of") == 1 and "restart 3 of" not in log, log  # the two kills alone
        allocation_in(cluster, "unasked", COMPLETED)
        cluster.debug_check()


def it_is_told_by_a_signal_and_reads_its_input_again():
    """Status 0 is the answer to the signal, and the end of the work without one. Standard input is a file, which each start reads from where the first one did; its
    ckpt-run is killed, and the same line goes on with it."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        folder = cluster.dir / "told"
        folder.mkdir()
        (cluster.dir / "program.py").write_text(PROGRAM)
        lines = list(range(1, 200))
        (folder / "input").write_text("".join(f"{n}\n" for n in lines))
        cluster.register("told", [("a", 1, MIB)])
        log = cluster.dir / "told.log"
        line = [str(BIN / "ckpt-run"), "--alloc", "told", "--work-dir", str(cluster.dir / "told-work"), "--socket", str(cluster.agents["a"].socket), "--ask-signal", "TSTP",
                "--checkpoint-files", "told/state", "--", "/usr/bin/python3", str(cluster.dir / "program.py"), str(folder), "300", "0", "0", "0.02"]

        def starts():
            return [text.split()[2:] for text in log.read_text().splitlines() if text.startswith("begins at")]

        def start():
            with open(folder / "input") as given, open(log, "ab") as out:
                return subprocess.Popen(line, stdin=given, stdout=out, stderr=out, cwd=cluster.dir)
        process = start()
        wait_until("it begins", lambda: log.exists() and starts() == [["0", "199"]], 20)
        record = ends_in(cluster, "told", hint(cluster, "told"), (COMPLETE, FAILED), 30)
        assert record.state == COMPLETE, (record, log.read_text())
        wait_until("it was started again in place", lambda: len(starts()) == 2, 20)
        assert starts()[1][0] == list(saved(record).values())[0].split()[0] and starts()[1][1] == "199", starts()
        process.kill()
        process.wait()
        process = start()
        wait_until("the same line goes on", lambda: "goes on with pid" in log.read_text(), 20)
        assert ends_in(cluster, "told", hint(cluster, "told"), (COMPLETE, FAILED), 30).state == COMPLETE, log.read_text()
        assert process.wait(60) == 0, log.read_text()
        assert (folder / "result").read_text() == truth(300, lines), log.read_text()
        assert len(starts()) == 3 and {n for _, n in starts()} == {"199"} and "restart 1 of" not in log.read_text(), log.read_text()
        allocation_in(cluster, "told", COMPLETED)
        cluster.debug_check()


def each_sign_and_each_end_counts_for_what_it_is():
    """A list that leaves the files out is an EMPTY_CHECKPOINT; status 0 is not the end of the work while a file says so; a save by a signal; a program that goes on and says so on
    its standard output, or by a tracker; one that does not catch the signal is spared; one that writes `done` is asked by the signal that its user names; one that
    saves by itself alone, and has not since it was asked, gives its last save once more, which says how old it is; one that never saves is not started for ever."""
    shell = "trap 'exit 85' TERM; while :; do sleep 0.5; done"
    prints = "t=0; trap 't=1' USR2; while :; do sleep 0.2; if [ $t = 1 ]; then t=0; echo 5 > it/s; sleep 0.4; echo 0000100 > it/latest; echo step 100 saved; fi; done"
    gmx = "echo begins at $(cat gmx/s 2>/dev/null || echo 0); if [ -e gmx/s ]; then touch gmx/result; exit 0; fi; sleep 0.3; echo 7 > gmx/s; exit 0"
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1, "checkpoint_timeout": "10s"}) as cluster:
        cluster.start()
        jobs = {}
        for name, line, options in (
                ("empty", shell, ("--checkpoint-exit", "85", "--ask-signal", "TERM", "--checkpoint-files", "empty/nothing")),
                ("deaf", "while :; do sleep 0.5; done", ("--ask-signal", "RTMIN+3", "--checkpoint-files", "deaf/*")),
                ("dies", "trap 'echo 5 > dies/s; trap - USR2; kill -USR2 $$' USR2; while :; do sleep 0.5; done",
                 ("--checkpoint-exit", "USR2", "--ask-signal", "USR2", "--checkpoint-files", "dies/*")),
                ("it", prints, ("--ask-signal", "USR2", "--ask", "each", "--ask-then", "goes-on", "--files-quiet", "100ms", "--checkpoint-files", "it/*", "--saved-line", "saved",
                                "--tracker", "it/latest")),
                ("says", "trap '. \"$CKPT_DIR/request\"; echo 7 > \"$directory/n\"; printf \"hint=%s\\nbytes=2\\nstatus=0\\n\" $hint > \"$CKPT_DIR/new\"; "
                 "mv \"$CKPT_DIR/new\" \"$CKPT_DIR/done\"' TSTP; while :; do sleep 0.3; done", ("--ask-signal", "TSTP")),
                ("late", "if [ ! -e late/s ]; then echo 5 > late/s; exit 85; fi; while :; do sleep 0.3; done", ("--checkpoint-exit", "85", "--checkpoint-files", "late/s")),
                ("spins", "exit 85", ("--checkpoint-exit", "85", "--checkpoint-files", "spins/s", "--max-restarts", "0")),
                ("gmx", gmx, ("--done-if", "gmx/result", "--checkpoint-files", "gmx/s"))):
            (cluster.dir / name).mkdir()
            cluster.register(name, [("a", 1, MIB)])
            jobs[name] = cluster.run_job("a", name, ["sh", "-c", line], options)
        all_run(cluster)
        first = wait_until("what it has saved by itself is a checkpoint", lambda: newest(cluster, "late"), 20)
        asked = {name: hint(cluster, name) for name in ("late", "empty", "deaf", "dies", "it", "says")}
        records = {name: ends_in(cluster, name, identifier, (COMPLETE, FAILED), 30) for name, identifier in asked.items()}
        assert records["empty"].state == FAILED and records["empty"].reason == EMPTY, records["empty"]
        says(jobs["empty"], "no file of \"empty/nothing\" is newer")
        assert records["deaf"].state == FAILED, records["deaf"]
        says(jobs["deaf"], "does not catch SIGRTMIN+3, which --ask-signal sends to started")
        assert records["dies"].state == COMPLETE, jobs["dies"].log.read_text()
        assert records["says"].state == COMPLETE, jobs["says"].log.read_text()
        assert records["it"].state == COMPLETE and records["it"].label == "0000100", (records["it"], jobs["it"].log.read_text())
        assert names(records["it"]) == {"s", "latest"}, names(records["it"])
        assert records["late"].state == COMPLETE and abs(records["late"].snapshot_at_ms - first.snapshot_at_ms) < 100, (records["late"], first)
        assert ends(jobs["spins"]) == 85 and "has ended 10 times in a row" in jobs["spins"].log.read_text(), jobs["spins"].log.read_text()
        assert ends(jobs["gmx"], 30) == 0 and begun(jobs["gmx"]) == [0, 7], jobs["gmx"].log.read_text()
        allocation_in(cluster, "gmx", COMPLETED)
        for name in asked:
            assert jobs[name].known_to_run(), jobs[name].log.read_text()
        jobs["empty"].process.send_signal(15)  # to all of the job: it saves, and its work is not complete
        assert ends(jobs["empty"]) == 85 and not jobs["empty"].applications(), jobs["empty"].log.read_text()
        cluster.debug_check()


# Two processes of a number each, both of which catch the signal.
RANKS = r"""
import os, signal, sys, time
number = 0 if os.fork() else 1
if len(sys.argv) > 2 and "CKPT_RANK" not in os.environ:
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "CKPT_RANK": str(number), "CKPT_RANKS": "2"})
elif len(sys.argv) > 2:
    if number == 1:
        os._exit(0)
    number = int(os.environ["CKPT_RANK"])
signal.signal(signal.SIGUSR2, lambda *_: open(f"{sys.argv[1]}/s.{number}", "w").write("5"))
while True:
    time.sleep(0.05)
"""


def a_signal_goes_to_whom_it_is_meant_for():
    """One rank by its number, the whole process group, or the shell that started ckpt-run. A program that requeues itself is not started again here."""
    goes_on = ("--ask-signal", "USR2", "--ask-then", "goes-on", "--files-quiet", "100ms")
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        (cluster.dir / "ranks.py").write_text(RANKS)
        for name in ("rank", "group", "shell", "requeues"):
            (cluster.dir / name).mkdir()
            cluster.register(name, [("a", 1, MIB)])
        python = ["/usr/bin/python3", "-B", str(cluster.dir / "ranks.py")]
        jobs = {"rank": cluster.run_job("a", "rank", ["sh", "-c", f"{' '.join(python)} rank ranks; wait"], (*goes_on, "--ask", "rank=1", "--checkpoint-files", "rank/s.*")),
                "group": cluster.run_job("a", "group", [*python, "group"], (*goes_on, "--ask", "group", "--checkpoint-files", "group/s.*")),
                "requeues": cluster.run_job("a", "requeues", ["sh", "-c", "trap 'echo 5 > requeues/s.0; exit 0' USR2; while :; do sleep 0.5; done"],
                                            ("--ask-signal", "USR2", "--ask-then", "requeues", "--checkpoint-files", "requeues/s.0"))}
        line = [str(BIN / "ckpt-run"), "--alloc", "shell", "--work-dir", str(cluster.dir / "shell-work"), "--socket", str(cluster.agents["a"].socket), *goes_on,
                "--ask", "shell", "--checkpoint-files", "shell/s.*", "--", "sleep", "1000"]
        batch = subprocess.Popen(["sh", "-c", "trap 'echo 5 > shell/s.0' USR2; " + " ".join(line) + " & while kill -0 $!; do wait; done"], cwd=cluster.dir,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(cluster.dir / "shell.log", "wb"), start_new_session=True)
        all_run(cluster)
        asked = {name: hint(cluster, name) for name in ("rank", "group", "shell", "requeues")}
        records = {name: ends_in(cluster, name, identifier, (COMPLETE, FAILED), 30) for name, identifier in asked.items()}
        said = {name: jobs[name].log.read_text() if name in jobs else (cluster.dir / "shell.log").read_text() for name in asked}
        assert all(record.state == COMPLETE for record in records.values()), said
        assert {name: names(record) for name, record in records.items()} == {"rank": {"s.1"}, "group": {"s.0", "s.1"}, "shell": {"s.0"}, "requeues": {"s.0"}}, said
        assert ends(jobs["requeues"]) == 85 and "restart 1 of" not in jobs["requeues"].log.read_text(), jobs["requeues"].log.read_text()
        for name in ("rank", "group"):
            assert jobs[name].known_to_run(), jobs[name].log.read_text()
        os.killpg(batch.pid, 15)
        batch.wait(20)
        cluster.debug_check()


def old_attributes_say_the_same():
    """`register --attr`: ckpt-run needs no option of its own. A save that looks like the end of the work is refused at the registration."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        (cluster.dir / "condor").mkdir()
        (cluster.dir / "program.py").write_text(PROGRAM)
        words = ["register", "--tenant", "physics", "--project", "heat", "--node", "a:1:1MiB", "--new-node", "--restart", "manual", "--owner", own_name()]
        refused = cluster.ctl(*words, "--alloc", "never", "--attr", "checkpoint_exit_code=0", check=False)
        assert refused.returncode != 0 and "CHECKPOINT_EXIT_FINAL" in refused.stderr, refused
        for attribute, name in (("checkpoint_exit_code=x", "ATTRIBUTE_WRONG"), ("CheckpointExitCode=85", "ATTRIBUTES_MUTE")):
            refused = cluster.ctl(*words, "--alloc", "never", "--attr", attribute, check=False)
            assert refused.returncode != 0 and name in refused.stderr, refused
        cluster.ctl(*words, "--alloc", "condor", "--attr", "+WantCheckpointSignal=TRUE", "--attr", "+CheckpointSig=SIGTSTP", "--attr",
                    "+SuccessCheckpointExitCode=77", "--attr", "transfer_output_files=condor/state,condor/more")
        (cluster.dir / "condor" / "more").write_text("x")
        cluster.ctl(*words, "--alloc", "killed", "--attr", "checkpoint_exit_code=85", "--attr", "kill_sig=SIGINT")
        killed = cluster.run_job("a", "killed", ["/usr/bin/python3", "-c", "import signal, sys, time\nsignal.signal(15, lambda *_: print('term', flush=True))\n"
                                                "signal.signal(2, lambda *_: (print('interrupted', flush=True), sys.exit(3)))\nprint('begins at 0', flush=True)\nwhile True: time.sleep(.05)"])
        wait_until("it begins", lambda: begun(killed) == [0], 20)
        killed.process.send_signal(15)
        assert ends(killed) == 3 and "interrupted" in killed.log.read_text() and "\nterm" not in killed.log.read_text(), killed.log.read_text()
        job = cluster.run_job("a", "condor", ["/usr/bin/python3", str(cluster.dir / "program.py"), str(cluster.dir / "condor"), "150", "0", "77", "0.02"])
        wait_until("it begins", lambda: begun(job) == [0], 20)
        record = ends_in(cluster, "condor", hint(cluster, "condor"), (COMPLETE, FAILED), 30)
        assert record.state == COMPLETE, (record, job.log.read_text())
        assert names(record) == {"n", "more"}, names(record)
        assert ends(job, 60) == 0 and len(begun(job)) == 2, job.log.read_text()
        assert (cluster.dir / "condor" / "result").read_text() == truth(150)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([it_ends_when_it_has_saved_and_comes_back, it_is_told_by_a_signal_and_reads_its_input_again, each_sign_and_each_end_counts_for_what_it_is, a_signal_goes_to_whom_it_is_meant_for,
                  old_attributes_say_the_same]))
