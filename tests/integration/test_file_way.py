#!/usr/bin/python3
"""Programs that look for a file by which they are told to save and stop (ckpt-run --profile file), with stubs of four codes and of one that
goes on (tests/support/stop_file_app.py): saved, started again in place, killed, and restarted from the checkpoint in an empty folder to the
result of an undisturbed run. S1-030, S5-002, S5-003, S5-005."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, ROOT, Cluster, checkpoint_text, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, FAILED, MIB, POLICY, allocation_in, ends, ends_in, hint, says  # noqa: E402

APP = ["/usr/bin/python3", "-B", str(ROOT / "tests" / "support" / "stop_file_app.py")]
CODES = {"vasp": ("STOPCAR", "LSTOP = .TRUE.", "{0}/CHGCAR {0}/WAVECAR"), "abinit": ("abinit.exit", "exit", "{0}/o_*"),
         "cp2k": ("EXIT", None, "{0}/*.restart"), "espresso": ("prefix.EXIT", None, "{0}/prefix.save"), "dumps": ("DUMP", None, "{0}/dump.restart")}
STEPS = 2500
MASK = (1 << 64) - 1


def truth():
    value = 0
    for step in range(STEPS):
        z = (value + step * 0x9e3779b97f4a7c15) & MASK
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        value = z ^ (z >> 27)
    return f"{value}\n"


def options(code):
    file, text, files = CODES[code]
    more = ("--ask-then", "goes-on", "--files-quiet", "500ms") if code == "dumps" else ()
    return ("--profile", "file", "--ask-file", f"{code}/{file}", *(("--ask-text", text) if text else ()), "--checkpoint-files", files.format(code), *more)


def run(cluster, code):
    (cluster.dir / code).mkdir(exist_ok=True)
    return cluster.run_job("a", code, [*APP, code, str(cluster.dir / code), str(STEPS), "0.004"], options(code))


def begun(job):
    return [int(line.rsplit(" ", 1)[1]) for line in job.log.read_text().splitlines() if line.startswith("begins at step")]


def each_code_saves_stops_and_goes_on():
    """What it saved is the checkpoint. It is started again in place, by itself; after a kill it begins from what was brought back."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        jobs = {}
        for code in CODES:
            cluster.register(code, [("a", 1, MIB)], profile="file")
            jobs[code] = run(cluster, code)
        for code, job in jobs.items():
            wait_until(f"{code} begins", lambda job=job: begun(job) == [0], 20)
            record = ends_in(cluster, code, hint(cluster, code), (COMPLETE, FAILED), 30)
            assert record.state == COMPLETE, (code, job.log.read_text())
            saved = sorted(str(p) for p in pathlib.Path(record.path, "part-0000").rglob("*") if p.is_file() and p.name != "MANIFEST")
            assert saved and all(f"part-0000/{code}/" in p for p in saved), saved
            if code == "dumps":
                assert begun(job) == [0], "it goes on"
            else:
                wait_until(f"{code} runs again", lambda job=job: len(begun(job)) == 2 and begun(job)[1] > 0, 20)
                assert job.log.read_text().count("restart 1 of") == 0, "not by ckpt-run"
        for code, job in jobs.items():
            pid = job.application_pid()
            os.kill(pid, signal.SIGSTOP)  # nothing of it begins before its folder is empty
            for child in job.applications():
                os.kill(child, signal.SIGSTOP)
            shutil.rmtree(cluster.dir / code)
            (cluster.dir / code).mkdir()
            os.kill(pid, signal.SIGKILL)
        for code, job in jobs.items():
            says(job, "from checkpoint")
            assert ends(job, 60) == 0, job.log.read_text()
            assert begun(job)[-1] > 0, (code, begun(job))
            assert (cluster.dir / code / "result").read_text() == truth(), code
            assert not (cluster.dir / code / CODES[code][0]).exists(), "the stop file is gone"
            allocation_in(cluster, code, COMPLETED)
        cluster.debug_check()


def what_does_not_obey_fails_and_runs_on():
    """No newer file, an end by another status, a withdrawn request: no checkpoint, and the program's own end is the job's."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1, "checkpoint_timeout": "4s"}) as cluster:
        cluster.start()
        stub = 'echo begins at step 0; while [ ! -e stop ]; do sleep 0.05; done; {0}'
        for name, then, state, why in (("nothing", "exit 0", FAILED, "no file of \"saved\" is newer than stop"),
                                       ("deaf", "sleep 1000", 8, "")):
            cluster.register(name, [("a", 1, MIB)], profile="file")
            (cluster.dir / "stop").unlink(missing_ok=True)
            job = cluster.run_job("a", name, ["sh", "-c", stub.format(then)], ("--ask-file", "stop", "--checkpoint-files", "saved"))
            says(job, "begins at step 0")
            record = ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED, 8), 30)
            assert record.state == state, record
            if why:
                says(job, why)
                wait_until("it runs again", lambda job=job: job.log.read_text().count("begins at step 0") == 2, 20)
            wait_until("the stop file is gone", lambda: not (cluster.dir / "stop").exists(), 10)
            assert job.known_to_run()
            job.process.send_signal(signal.SIGTERM)
            ends(job)
        cluster.register("ends", [("a", 1, MIB)], profile="file")
        job = cluster.run_job("a", "ends", ["sh", "-c", "exit 7"], ("--ask-file", "stop", "--checkpoint-files", "saved", "--max-restarts", "0"))
        assert ends(job) == 7, job.log.read_text()
        # a status of its own for the stop: 0 says then that the work is complete
        for name, status in (("stops", 85), ("completes", 0)):
            cluster.register(name, [("a", 1, MIB)], profile="file")
            line = ["sh", "-c", stub.format(f"if [ {status} = 85 ] && [ -e again ]; then rm again; exit 0; fi; touch again; echo 5 > saved; exit {status}")]
            job = cluster.run_job("a", name, line, ("--ask-file", "stop", "--checkpoint-files", "saved", "--ask-then", "exits=85"))
            says(job, "begins at step 0")
            identifier = hint(cluster, name)
            if status == 85:
                assert ends_in(cluster, name, identifier, (COMPLETE, FAILED), 30).state == COMPLETE
                hint(cluster, name)
            assert ends(job) == 0, job.log.read_text()
            allocation_in(cluster, name, COMPLETED)
            assert job.log.read_text().count("begins at step 0") == (2 if status == 85 else 1)
        cluster.register("gone", [("a", 1, MIB)], profile="file")
        job = cluster.run_job("a", "gone", ["./no-such-program"], ("--ask-file", "stop", "--checkpoint-files", "saved"))
        assert ends(job) == 127 and "./no-such-program: No such file" in job.log.read_text(), job.log.read_text()
        cluster.debug_check()


def an_end_with_0_while_nothing_is_asked_is_the_end():
    """A request that is withdrawn is none: who ends with 0 then has done its work, and is not started once more. Who has saved as it was told had read the
    file: its work is not done. Nor is that of who ends with the status of a stop."""
    line = "echo begins at step 0; [ -e again ] && exit 0; touch again; while [ ! -e stop ]; do sleep 0.05; done; : > seen; while [ -e stop ]; do sleep 0.05; done; {0}"
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        for name, then, options, starts in (("done", "exit 0", (), 1), ("late", "echo 5 > saved; exit 0", (), 2),
                                            ("stops", "exit 85", ("--ask-then", "exits=85"), 2)):
            for left in ("again", "seen"):
                (cluster.dir / left).unlink(missing_ok=True)
            cluster.register(name, [("a", 1, MIB)], profile="file")
            job = cluster.run_job("a", name, ["sh", "-c", line.format(then)], ("--ask-file", "stop", "--checkpoint-files", "saved", *options))
            says(job, "begins at step 0")
            identifier = hint(cluster, name)
            wait_until("it has seen that it is told", (cluster.dir / "seen").exists, 20)
            cluster.ctl("cancel", checkpoint_text(identifier), "--yes")
            assert ends(job) == 0, job.log.read_text()
            log = job.log.read_text()
            assert log.count("begins at step 0") == starts, log
            assert ("which is taken for the end of its work" in log) == (starts == 1), log
            allocation_in(cluster, name, COMPLETED)
        cluster.debug_check()


def work_that_is_done_is_not_done_again():
    """A program that goes on after its checkpoint and ends with 0 later has completed: it is started once."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], profile="file")
        line = ["sh", "-c", "echo begins at step 0; while [ ! -e stop ]; do sleep 0.05; done; echo 5 > saved; while [ ! -e finish ]; do sleep 0.05; done; exit 0"]
        job = cluster.run_job("a", "job", line, ("--ask-file", "stop", "--checkpoint-files", "saved", "--ask-then", "goes-on", "--files-quiet", "500ms"))
        says(job, "begins at step 0")
        assert ends_in(cluster, "job", hint(cluster, "job"), (COMPLETE, FAILED), 30).state == COMPLETE, job.log.read_text()
        (cluster.dir / "finish").touch()
        assert ends(job) == 0, job.log.read_text()
        assert job.log.read_text().count("begins at step 0") == 1, job.log.read_text()
        allocation_in(cluster, "job", COMPLETED)


def a_program_may_look_for_the_request_itself():
    """Without --ask-file: $CKPT_DIR/request is the file, and no signal comes."""
    script = ('trap "echo signalled" USR1 USR2; while :; do if [ -e "$CKPT_DIR/request" ] && [ ! -e "$CKPT_DIR/done" ]; then . "$CKPT_DIR/request"; '
              'echo 7 > "$directory/n"; printf "hint=%s\\nbytes=2\\nstatus=0\\n" $hint > "$CKPT_DIR/new"; mv "$CKPT_DIR/new" "$CKPT_DIR/done"; '
              'sleep 1; fi; sleep 0.1; done')
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("looks", [("a", 1, MIB)], profile="file")
        job = cluster.run_job("a", "looks", ["sh", "-c", script])
        wait_until("it runs", job.known_to_run, 10)
        assert ends_in(cluster, "looks", hint(cluster, "looks"), (COMPLETE, FAILED)).state == COMPLETE
        time.sleep(0.5)
        assert "signalled" not in job.log.read_text()
        cluster.debug_check()


def options_that_do_not_go_together_are_refused():
    """Each with the value and the remedy, before anything is started."""
    ask = ("--ask-file", "STOPCAR")
    files = ("--checkpoint-files", "CHGCAR")
    for given, said in ((ask, "--ask-file needs --checkpoint-files"), (files, "go with --ask-file FILE, --ask-signal SIGNAL or --checkpoint-exit STATUS: add one"),
                        (("--ask-text", "x"), "go with --ask-file FILE"), ((*ask, *files, "--profile", "signal"), "no use with --profile signal: name --profile file"),
                        ((*ask, "--checkpoint-files", "/etc/*"), "--checkpoint-files has \"/etc/*\"; its patterns are relative"),
                        ((*ask, "--checkpoint-files", "a ../b"), "has \"../b\""), ((*ask, "--checkpoint-files", " "), "--checkpoint-files is empty"),
                        ((*ask, *files, "--files-quiet", "3s"), "--files-quiet is of no use where the program ends"),
                        ((*ask, *files, "--ask-then", "stays"), "--ask-then is \"stays\", it must be exits, exits=STATUS"),
                        ((*ask, *files, "--ask-then", "goes-on", "--files-quiet", "1ms"), "--files-quiet: "),
                        ((*ask, *files, "--ranks", "4"), "--ranks 4 does not go with --ask-file"), (("--ask-file", "out/", *files), "--ask-file is \"out/\"")):
        result = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "j", *given, "--", "true"], capture_output=True, text=True, check=False)
        assert result.returncode == 125 and said in result.stderr, (given, result)


if __name__ == "__main__":
    sys.exit(tap([each_code_saves_stops_and_goes_on, what_does_not_obey_fails_and_runs_on, an_end_with_0_while_nothing_is_asked_is_the_end,
                  work_that_is_done_is_not_done_again, a_program_may_look_for_the_request_itself,
                  options_that_do_not_go_together_are_refused]))
