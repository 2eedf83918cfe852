#!/usr/bin/python3
"""Jobs without a cluster (ckpt-run --standalone): no broker, no agent, no registration, and the program goes on from its newest checkpoint whatever was killed.
S4-007."""
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, often, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
LINES = [3, 1, 4, 1, 5, 9, 2, 6, 5]
MASK = (1 << 64) - 1
# A sum over the lines of its input, which it reads whole at each start; asked by a signal.
SUMS = r"""
import os, signal, sys, time
work, asked = os.environ["CKPT_DIR"], []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
lines, last, result = [int(line) for line in sys.stdin], int(sys.argv[1]), sys.argv[2]
step, value = 0, 0
if "CKPT_RESTORE_DIR" in os.environ:
    step, value = map(int, open(os.environ["CKPT_RESTORE_DIR"] + "/state").read().split())
print("begins at", step, len(lines), flush=True)
while step < last:
    step += 1
    value = (value * 31 + lines[step % len(lines)]) % 1000003
    time.sleep(0.01)
    if asked and os.path.exists(work + "/request"):
        asked.clear()
        told = dict(line.rstrip("\n").split("=", 1) for line in open(work + "/request"))
        state = f"{step} {value}\n"
        open(told["directory"] + "/state", "w").write(state)
        open(work + "/done.new", "w").write(f"hint={told['hint']}\nbytes={len(state)}\nstatus=0\nstep={step}\n")
        os.rename(work + "/done.new", work + "/done")
open(result, "w").write(f"{value}\n")
"""
# It ends with 85 whenever it has saved, and knows nothing of checkpoints.
ENDS = r"""
import pathlib, sys, time
state, last, result = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
step, value = map(int, state.read_text().split()) if state.exists() else (0, 0)
print("begins at", step, flush=True)
while step < last:
    step += 1
    value = (value * 31 + step) % 1000003
    time.sleep(0.01)
    if step % 60 == 0 and step < last:
        state.write_text(f"{step} {value}\n")
        sys.exit(85)
open(result, "w").write(f"{value}\n")
"""


def sums_to(last):
    value = 0
    for step in range(1, last + 1):
        value = (value * 31 + LINES[step % len(LINES)]) % 1000003
    return f"{value}\n"


def ends_to(last):
    value = 0
    for step in range(1, last + 1):
        value = (value * 31 + step) % 1000003
    return f"{value}\n"


def words_to(last):
    value = 0
    for step in range(last):
        z = (value + step * 0x9e3779b97f4a7c15) & MASK
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        value = z ^ (z >> 27)
    return f"{value} signals=0\n"


class Alone:
    """One line, typed again and again, and what it leaves."""

    def __init__(self, root, name, command, options=(), stdin=None, before=()):
        self.root, self.name = root, name
        self.dir, self.work, self.log = root / f"{name}.d", root / f"{name}.w", root / f"{name}.log"
        self.line = [*before, str(BIN / "ckpt-run"), "--standalone", "--every", "1s", "--dir", str(self.dir), "--work-dir", str(self.work), *options, "--", *command]
        self.stdin, self.process = stdin, None

    def start(self):
        with open(self.log, "ab") as log, open(self.stdin or os.devnull, "rb") as stdin:
            self.process = subprocess.Popen(self.line, stdin=stdin, stdout=log, stderr=log, cwd=self.root, start_new_session=True)
        return self

    def said(self):
        return self.log.read_text()

    def says(self, text, count=1, timeout_s=20):
        wait_until(f"{self.name} says \"{text}\" {count} times", lambda: self.said().count(text) >= count, timeout_s, 0.02)

    def ends(self, timeout_s=60):
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.said()) from None

    def checkpoints(self):
        places = (self.dir / "standalone" / "checkpoints").glob("*-*")
        return sorted((p for p in places if (p / "part-0000" / "MANIFEST").exists()), key=lambda p: [int(n) for n in p.name.split("-")])

    def below(self):
        """ckpt-run's agent, and what runs for this job: pids by what they are."""
        found = {"agent": [], "application": []}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:2] == [b"standalone-agent"] and str(self.dir).encode() in words:
                found["agent"].append(int(folder.name))
            elif f"CKPT_DIR={self.work}".encode() in environment:
                found["application"].append(int(folder.name))
        return found

    def own(self):
        """ckpt-run in a container: the parent of its agent."""
        agent, = self.below()["agent"]
        return int(pathlib.Path(f"/proc/{agent}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def kill(self, *what):
        below = self.below()
        for pid in ([self.process.pid] if "ckpt-run" in what and self.process.poll() is None else []) + [pid for kind in what for pid in below.get(kind, [])]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if "ckpt-run" in what:
            self.process.wait()

    def reboot(self):
        """All at once, and nothing of the node's own folder is left."""
        self.kill("ckpt-run", "agent")
        self.kill("application")
        wait_until("all of it has gone", lambda: not any(self.below().values()), 10, 0.02)
        shutil.rmtree(self.work)


def in_folder(test):
    def run():
        root = pathlib.Path(tempfile.mkdtemp(prefix="alone-"))
        try:
            return test(root)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def disturbed(alone, draw, rounds, expected, result):
    alone.start()
    for _ in range(rounds):
        time.sleep(0.3 + 1.2 * draw.random())
        if alone.process.poll() is None:
            what = draw.choice(("application", "agent", "ckpt-run", "both", "reboot"))
            if what == "reboot":
                alone.reboot()
            elif what == "both":
                alone.kill("ckpt-run", "application")
            else:
                alone.kill(what)
        if alone.process.poll() is not None:
            alone.start()
    assert alone.ends() == 0, alone.said()
    assert result.read_text() == expected, (alone.name, result.read_text(), alone.said())
    assert "begins at 0" in alone.said() or "begins at step 0" in alone.said()


@in_folder
def each_way_is_killed_at_random_moments_and_ends_as_if_undisturbed(root):
    """By a signal with a file as input, in shared memory found by itself, and by ends with a status of their own. S4-007, S1-034, S1-037."""
    print(f"# SEED={SEED}", flush=True)
    (root / "input").write_text("".join(f"{line}\n" for line in LINES))
    (root / "ends.dir").mkdir()
    jobs = [(Alone(root, "sums", ["/usr/bin/python3", "-c", SUMS, "250", str(root / "sums")], ("--max-restarts", "99"), root / "input", ("nohup",)),
             sums_to(250), root / "sums"),
            (Alone(root, "words", [str(BIN / "shm_app"), "--output", str(root / "words"), "--steps", "1200", "--delay-us", "2000"],
                   ("--max-restarts", "99", "--profile", "auto")), words_to(1200), root / "words.0"),
            (Alone(root, "ends", ["/usr/bin/python3", "-c", ENDS, "ends.dir/state", "250", str(root / "ends")],
                   ("--max-restarts", "99", "--checkpoint-exit", "85", "--checkpoint-files", "ends.d*")), ends_to(250), root / "ends")]
    failures = []

    def run(index):
        try:
            disturbed(jobs[index][0], random.Random(SEED + index), often(3, 25), *jobs[index][1:])
        except Exception as failure:
            failures.append(failure)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert [("standard input is a file: each restart reads it again" in alone.said()) for alone, _, _ in jobs] == [True, False, False]
    for alone, _, _ in jobs:
        assert len(alone.checkpoints()) <= 4, alone.checkpoints()
        assert all(not list((p / "part-0000").glob("*.d")) for p in alone.checkpoints()), "no checkpoint has the folder of checkpoints"
        wait_until("nothing runs on", lambda a=alone: not any(a.below().values()), 10)
        name = hashlib.sha256(str(alone.dir).encode()).hexdigest()[:12]
        assert not list(pathlib.Path("/dev/shm").glob(f"ckpt-*-standalone-{name}-*")), "the memory by which it was asked has gone"
    assert jobs[0][0].said().count(f" {len(LINES)}\n") == jobs[0][0].said().count("begins at"), "each start has read all of its input"


@in_folder
def a_second_ckpt_run_is_refused_and_a_damaged_checkpoint_is_passed_over(root):
    """S4-007: the pid is named; two stay of those that were taken; the newest whole one is begun from, and its label comes with it."""
    (root / "input").write_text("1\n")
    alone = Alone(root, "sums", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], ("--keep", "2"), root / "input").start()
    alone.says("is written and verified", 3)
    second = subprocess.run(alone.line, capture_output=True, text=True, timeout=20)
    assert second.returncode == 125 and f"pid {alone.process.pid} on " in second.stderr and "--dir" in second.stderr, second
    wait_until("two stay", lambda: len(alone.checkpoints()) == 2, 10, 0.02)
    pid, = alone.below()["application"]
    alone.kill("ckpt-run")
    wait_until("its agent went with it", lambda: alone.below() == {"agent": [], "application": [pid]}, 10, 0.02)
    other = subprocess.run([*alone.line[:alone.line.index("--") + 1], "true"], capture_output=True, text=True, timeout=20)
    assert other.returncode == 125 and "by another command: /usr/bin/python3" in other.stderr and "this one is true" in other.stderr, other
    beside = subprocess.run([word.replace(str(alone.work), str(root / "w2")) for word in alone.line], capture_output=True, text=True, timeout=20, cwd=root)
    assert beside.returncode == 125 and f"--work-dir {alone.work} goes on with it, and `kill -- -{pid}` ends it" in beside.stderr, beside
    alone.reboot()
    older, newest = alone.checkpoints()
    state = newest / "part-0000" / "state"
    state.write_bytes(bytes([state.read_bytes()[0] ^ 1]) + state.read_bytes()[1:])
    alone.start()
    alone.says("started pid", 2)
    said = alone.said()
    assert f"checkpoint {newest.name} is passed over, it is damaged" in said and f"({older.name}, step " in said, said
    wait_until("that is remembered", lambda: "damaged=1" in (newest / ".standalone").read_text(), 10, 0.02)
    alone.process.terminate()
    assert alone.ends() == 143 and "the same line goes on from the newest checkpoint" in alone.said(), alone.said()
    for place in alone.checkpoints():
        (place / "part-0000" / "state").write_bytes(b"?" * (place / "part-0000" / "state").stat().st_size)
    for count in (1, 2):  # found by reading them; remembered
        alone.start()
        assert alone.ends() == 125 and alone.said().count("--from-scratch does all of its work again") == count, alone.said()


@in_folder
def damaged_manifests_are_passed_over_until_none_is_left(root):
    """S4-007: in the folder where the line is typed (--dir .). A flipped byte, a cut end and an empty file are found and told by name; with none that is whole
    nothing starts, whatever else the folder holds."""
    (root / "input").write_text("1\n")
    alone = Alone(root, "sums", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], ("--keep", "3"), root / "input")
    alone.line[alone.line.index("--dir") + 1], alone.dir = ".", root
    alone.start()
    alone.says("is written and verified", 3)
    alone.reboot()
    wait_until("three lie there", lambda: len(alone.checkpoints()) == 3, 10, 0.02)
    oldest, middle, newest = alone.checkpoints()
    text = (newest / "part-0000" / "MANIFEST").read_bytes()
    (newest / "part-0000" / "MANIFEST").write_bytes(text[:-8] + bytes([text[-8] ^ 1]) + text[-7:])
    text = (middle / "part-0000" / "MANIFEST").read_bytes()
    (middle / "part-0000" / "MANIFEST").write_bytes(text[:-20])
    alone.start()
    alone.says("started pid", 2)
    said = alone.said()
    for place in (middle, newest):
        assert f"passed over, it is damaged: {place}: the manifest does not match its own hash" in said, said
    assert f"passed over, it is damaged: {oldest}" not in said and f"({oldest.name}, step " in said, said
    assert f"in {root}, of which the newest 3 stay" in said, said
    alone.reboot()
    for place in alone.checkpoints():
        (place / "part-0000" / "MANIFEST").write_bytes(b"")
    began = alone.said().count("begins at")
    alone.start()
    assert alone.ends() == 125 and alone.said().count("begins at") == began, alone.said()
    assert f"all checkpoints in {root} are damaged" in alone.said() and "--from-scratch does all of its work again" in alone.said(), alone.said()


def refused(line, root):
    result = subprocess.run(line, capture_output=True, text=True, timeout=20, cwd=root, stdin=subprocess.DEVNULL)
    assert result.returncode == 125, result
    return result.stderr


@in_folder
def a_file_is_no_folder_for_checkpoints(root):
    """S4-007"""
    (root / "file").write_text("")
    said = refused([str(BIN / "ckpt-run"), "--standalone", "--every", "1s", "--dir", "file", "--", "true"], root)
    assert f"--dir {root}/file is no folder; name one, or one to be made" in said, said


@needs("mount")
@in_folder
def a_full_folder_is_told_and_the_program_goes_on(root):
    """S4-007"""
    alone = Alone(root, "full", [str(BIN / "heat"), "--size", "100", "--iterations", "2200", "--delay-us", "1000", "--output", str(root / "out")])
    alone.dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(alone.dir)], check=True)
    try:
        alone.start()
        alone.says("was not taken (attempt 1): storage full")
        assert alone.ends() == 0 and (root / "out").exists(), alone.said()
        assert not alone.checkpoints()
        failed = list((alone.dir / "standalone" / "checkpoints").iterdir())
        alone.line[-1:] = [str(root / "out2")]
        alone.line.insert(alone.line.index("--"), "--replace")
        alone.start().says("standalone: a checkpoint every", 2)
        assert alone.ends() == 0 and not any(place.exists() for place in failed), failed
    finally:
        subprocess.run(["umount", str(alone.dir)], check=True)


@needs("mount", "dd")
@in_folder
def a_full_folder_never_has_a_second_program_started(root):
    """S4-007: the room of the notes is there since the first start, and where it is not nothing starts."""
    small = root / "small"
    small.mkdir()
    (root / "input").write_text("1\n")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", str(small)], check=True)
    try:
        alone = Alone(root, "full", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], ("--every", "1m"), root / "input")
        alone.dir = small / "full.d"
        alone.line[alone.line.index("--dir") + 1] = str(alone.dir)
        alone.start().says("begins at")
        alone.process.terminate()
        assert alone.ends() != 125, alone.said()
        (small / "new.d").mkdir()
        subprocess.run(["dd", "if=/dev/zero", f"of={small / 'fill'}", "bs=4k"], capture_output=True)
        new = subprocess.run([word.replace(str(alone.dir), str(small / "new.d")) for word in alone.line], capture_output=True, text=True, timeout=20, cwd=root)
        assert new.returncode == 125 and f"{small / 'new.d'}/.ckpt-run." in new.stderr and "nothing is started without this note" in new.stderr and "--dir" in new.stderr, new
        alone.start().says("begins at", 2)
        pid, = alone.below()["application"]
        alone.kill("ckpt-run")
        beside = subprocess.run([word.replace(str(alone.work), str(root / "w2")) for word in alone.line], capture_output=True, text=True, timeout=20, cwd=root)
        assert beside.returncode == 125 and f"--work-dir {alone.work} goes on with it, and `kill -- -{pid}` ends it" in beside.stderr, beside
        alone.kill("application")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@in_folder
def nothing_of_a_checkpoint_stays_in_the_work_folder_of_a_program_that_has_ended(root):
    """S4-007: what it began from lies there as a whole copy while it runs, also under a ckpt-run that has come to it later."""
    (root / "input").write_text("1\n")
    alone = Alone(root, "copy", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], (), root / "input")
    alone.start().says("is written and verified")
    alone.process.terminate()
    assert alone.ends() == 143, alone.said()
    for killed in (False, True):
        alone.start().says("begins at", 2 + killed)
        copy, = (alone.work / "restore").glob("*-*")
        if killed:
            alone.kill("ckpt-run")
            other = subprocess.run([*alone.line[:-1], str(root / "other")], capture_output=True, text=True, timeout=20, cwd=root)
            assert other.returncode == 125 and (copy / "state").exists(), other
            alone.start().says("goes on with pid")
        assert (copy / "state").exists(), "a program that runs may read it"
        alone.process.terminate()
        assert alone.ends() == 143, alone.said()
        assert not (alone.work / "restore").exists(), list(alone.work.rglob("*"))


@in_folder
def the_last_line_promises_what_the_same_line_does(root):
    """S4-007: without a checkpoint it begins from scratch, as it does with --from-scratch."""
    (root / "input").write_text("1\n")
    alone = Alone(root, "none", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], (), root / "input")
    begun = list(alone.line)
    alone.line[alone.line.index("1s")] = "1h"
    alone.start().says("begins at")
    alone.process.terminate()
    assert alone.ends() == 143 and f"the same line begins from scratch: there is no checkpoint in {alone.dir}" in alone.said(), alone.said()
    assert "goes on from the newest" not in alone.said(), alone.said()
    alone.line = begun
    alone.start().says("is written and verified")
    alone.process.terminate()
    assert alone.ends() == 143 and f"the same line goes on from the newest checkpoint in {alone.dir}" in alone.said(), alone.said()
    alone.line = [*begun[:begun.index("--")], "--from-scratch", *begun[begun.index("--"):]]
    alone.start().says("begins at", 3)
    alone.process.terminate()
    assert alone.ends() == 143 and f"the same line without --from-scratch goes on from the newest checkpoint in {alone.dir}" in alone.said(), alone.said()
    assert alone.said().count("from the newest checkpoint") == 2, alone.said()


OWN_PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@needs("unshare")
@in_folder
def what_runs_in_another_pid_namespace_is_neither_followed_nor_started_beside(root):
    """S4-007: its numbers mean other processes here. The line says what to do; the note is removed by whoever knows that the container has gone."""
    alone = Alone(root, "boxed", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], (), root / "input", (*OWN_PIDS, "sh", "-c", '"$@"; exec sleep 1000', "sh"))
    outside = alone.line[alone.line.index(str(BIN / "ckpt-run")):]
    beside = [word.replace(str(alone.work), str(root / "w2")) for word in outside]
    note = alone.dir / ".ckpt-run.program"
    (root / "input").write_text("1\n")
    alone.start().says("is written and verified")
    said = refused(beside, root)
    pid = alone.own()
    assert f"in another PID namespace (a container), pid {pid} here; wait until it has ended" in said, said
    os.kill(pid, signal.SIGKILL)
    wait_until("its agent went with it", lambda: not alone.below()["agent"], 10, 0.02)
    program, = alone.below()["application"]
    for line in (outside, beside):
        said = refused(line, root)
        assert "was started in another PID namespace (a container) of this machine and may still run there" in said and f"`rm {note}`" in said, said
    note.unlink()
    said = refused(outside, root)
    assert f"runs in another PID namespace (a container), with its work folder {alone.work}" in said and "goes on with" not in said, said
    assert alone.below()["application"] == [program]
    alone.process.kill()
    alone.process.wait()
    wait_until("the container has gone", lambda: not alone.below()["application"], 10, 0.02)
    alone.line = outside
    alone.start().says("started pid", 2)
    assert "from checkpoint" in alone.said(), alone.said()
    alone.process.terminate()
    alone.ends()


@needs("unshare")
@in_folder
def a_container_that_ends_with_its_ckpt_run_is_begun_again_in_another_one(root):
    """S4-007: the first process of a PID namespace takes all of it along, and a program that has ended under its ckpt-run is noted as gone."""
    alone = Alone(root, "first", ["/usr/bin/python3", "-c", SUMS, "100000", str(root / "out")], (), root / "input", OWN_PIDS)
    (root / "input").write_text("1\n")
    alone.start().says("is written and verified")
    alone.process.kill()
    alone.process.wait()
    wait_until("the container has gone", lambda: not any(alone.below().values()), 10, 0.02)
    alone.line = [*OWN_PIDS, "sh", "-c", '"$@"; exec sleep 1000', "sh", *alone.line[len(OWN_PIDS):]]
    alone.start().says("from checkpoint")
    os.kill(alone.own(), signal.SIGTERM)
    wait_until("it has ended, and its container has not", lambda: not any(alone.below().values()), 10, 0.02)
    alone.process.kill()
    alone.process.wait()
    alone.line = alone.line[alone.line.index(str(BIN / "ckpt-run")):]
    alone.start().says("from checkpoint", 2)
    alone.process.terminate()
    alone.ends()


@in_folder
def a_limit_of_the_length_of_files_is_told(root):
    """S4-007: its agent is not killed by it again and again."""
    alone = Alone(root, "short", ["true"], before=("prlimit", "--fsize=2048")).start()
    log = alone.work / "standalone" / "log"
    wait_until("its agent tells it", lambda: log.exists() and "journal: write file: File too large" in log.read_text(), 10, 0.02)
    alone.kill("ckpt-run", "agent")
    assert "signal 25" not in alone.said(), alone.said()


if __name__ == "__main__":
    sys.exit(main([each_way_is_killed_at_random_moments_and_ends_as_if_undisturbed, a_second_ckpt_run_is_refused_and_a_damaged_checkpoint_is_passed_over,
                   damaged_manifests_are_passed_over_until_none_is_left,
                   a_file_is_no_folder_for_checkpoints, a_full_folder_is_told_and_the_program_goes_on, a_full_folder_never_has_a_second_program_started,
                   nothing_of_a_checkpoint_stays_in_the_work_folder_of_a_program_that_has_ended, the_last_line_promises_what_the_same_line_does,
                   what_runs_in_another_pid_namespace_is_neither_followed_nor_started_beside,
                   a_container_that_ends_with_its_ckpt_run_is_begun_again_in_another_one, a_limit_of_the_length_of_files_is_told]))
