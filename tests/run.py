#!/usr/bin/python3
"""Runs test programs; ends with a table of the slowest and the line "N passed, N failed, N skipped".

Usage    run.py [--first COMMAND] [--changed FOLDER] PROGRAM...
Kinds    JOBS (1) programs run at a time. Programs of tests/integration and tests/systems wait for real
         processes: up to WAITING_JOBS (JOBS) of them run beside the others, which get a lower priority then.
Crowd    One more of those that wait begins while fewer than CROWD_MAX processes a processor want to run, those that
         compute left out, or while fewer than FEW a processor wait: on a slow machine they would wait for each other.
Order    Programs of tests/slow.tsv start first, the slowest before the others. Those that do not wait
         begin when the command of --first has ended: it builds them. It counts when it fails.
Cases    A program's cases are read from its output: cmocka's "[       OK ]" and "[  FAILED  ]", or TAP's
         "ok" and "not ok" (with "# SKIP"). A program that exits non-zero without a failed case, or that
         reports no case at all, counts as one failure. So does one that runs for TEST_TIMEOUT_S (900).
Again    A waiting program or a unit test that failed beside others runs once more, alone, when all others
         have ended (a waiting one its failed cases), and that counts: the last lines name each of them.
         More than AGAIN_MAX such programs are no accident, and count as they came.
Changed  With --changed, a program that passed before is left out while its bytes, and the bytes of the
         files that its source names, are what they were then. FOLDER remembers them.
"""
import collections
import contextlib
import dataclasses
import glob
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

AGAIN_MAX = 3
CROWD_MAX = 3
FEW = 2
CROWD_SAMPLE_S = 0.1
CROWD_MEMORY_S = 3
BEGIN_S = 2
SLOWEST_SHOWN = 15
LOG_LINES_SHOWN = 80
END_GRACE_S = 10
TIMEOUT_S = int(os.environ.get("TEST_TIMEOUT_S", "900"))
JOBS = int(os.environ.get("JOBS") or 1)
WAITING_JOBS = int(os.environ.get("WAITING_JOBS") or JOBS)
BUILD = Path(os.environ.get("BUILD", "build"))
SLOW = Path(__file__).with_name("slow.tsv")
PASSED = re.compile(r"^(?:\[       OK \]|ok )", re.M)
SKIPPED = re.compile(r"^(?:\[  SKIPPED \]|ok .*# SKIP)", re.M)
TAP_SKIPPED = re.compile(r"^ok .*# SKIP.*", re.M)
FAILED = re.compile(r"^(?:\[  FAILED  \] [a-z_A-Z0-9]+$|not ok .*)", re.M)
FAILED_NAME = re.compile(r"^not ok ([a-z_A-Z0-9]+)", re.M)
CMOCKA_FAILED_NAME = re.compile(r"^\[  FAILED  \] ([a-z_A-Z0-9]+)$", re.M)


@dataclasses.dataclass
class Outcome:
    """What came of one program: counts of cases, seconds by the clock and of a processor, its output."""
    program: str
    passed: int
    failed: int
    skipped: int
    clock_s: float
    processor_s: float
    log: str


# a tenth of what the tests cost a processor is Python that reads the same modules; the tree stays clean of it
os.environ["PYTHONPYCACHEPREFIX"] = str(BUILD.absolute() / "pycache")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
running = {}  # pid -> program; guarded by lock, as is what is printed
lock = threading.Lock()
stopping = threading.Event()


def shown(program):
    return os.path.relpath(program) if os.path.isabs(program) else program


def waits(program):
    return "/integration/" in program or "/systems/" in program


def may_have_been_hurried(program):
    """Real processes, signals and clocks: what takes ten times as long beside a dozen others may fail for that alone."""
    return waits(program) or "/unit/" in program


# ---- one program ----
def end(process, kind):
    """The program and what it started in its process group."""
    try:
        os.killpg(process.pid, kind)
    except ProcessLookupError:
        pass


def start(command, log, niceness):
    with lock:
        if stopping.is_set():
            return None
        process = subprocess.Popen(["nice", "-n", str(niceness), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0)
        running[process.pid] = process
        return process


def run(command, cases=(), niceness=0):
    """Runs a program, or a list of words, to its end, or for TIMEOUT_S."""
    words = [command] if isinstance(command, str) else command
    program = words[-1]
    began = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = start([*words, *cases], log, niceness)
        if process is None:
            return Outcome(program, 0, 0, 0, 0.0, 0.0, "")
        timers = [threading.Timer(TIMEOUT_S, end, (process, signal.SIGTERM)),
                  threading.Timer(TIMEOUT_S + END_GRACE_S, end, (process, signal.SIGKILL))]
        for timer in timers:
            timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for timer in timers:
            timer.cancel()
        with lock:
            del running[process.pid]
        log.seek(0)
        text = log.read().decode(errors="replace")
    clock_s = time.monotonic() - began
    if clock_s >= TIMEOUT_S:
        text += f"it did not end within {TIMEOUT_S} s\n"
    return outcome_of(program, process.returncode, text, clock_s, usage.ru_utime + usage.ru_stime)


def outcome_of(program, status, text, clock_s, processor_s):
    passed = len(PASSED.findall(text)) - len(TAP_SKIPPED.findall(text))
    skipped = len(SKIPPED.findall(text))
    failed = len(set(FAILED.findall(text)))  # cmocka names a failed case twice
    if status != 0 and failed == 0:
        failed = 1
        text += f"it ended with status {status}\n"
    return Outcome(program, passed, failed, skipped, clock_s, processor_s, text)


def counted(outcome):
    """A test program that reports nothing has failed."""
    if outcome.passed + outcome.failed + outcome.skipped == 0:
        outcome.failed = 1
        outcome.log += "no test case ran\n"
    return outcome


def tell(outcome, place, word):
    lines = [f"[{place}] {word} {shown(outcome.program)}: {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped "
             f"({outcome.clock_s:.1f} s, {outcome.processor_s:.1f} s of a processor)", *TAP_SKIPPED.findall(outcome.log)]
    if outcome.failed > 0:
        lines += ["    " + line for line in outcome.log.splitlines()[-LOG_LINES_SHOWN:]]
    print("\n".join(lines), flush=True)


# ---- how many may wait beside each other ----
class Crowd:
    """The processes that want a processor, a mean of the last seconds; and who may begin."""

    def __init__(self):
        self.processors = os.cpu_count()
        self.wanting = 0.0
        self.programs = collections.Counter()  # those that run, by whether they wait; guarded by lock
        threading.Thread(target=self.look, daemon=True).start()

    def look(self):
        while True:
            now = int(re.search(r"^procs_running (\d+)", Path("/proc/stat").read_text(), re.M)[1])
            self.wanting += (now - self.wanting) * CROWD_SAMPLE_S / CROWD_MEMORY_S
            time.sleep(CROWD_SAMPLE_S)

    def is_full(self):
        return self.programs[True] >= FEW * self.processors and self.wanting - self.programs[False] >= CROWD_MAX * self.processors

    @contextlib.contextmanager
    def one(self, program):
        with lock:
            self.programs[waits(program)] += 1
        try:
            yield
        finally:
            with lock:
                self.programs[waits(program)] -= 1


# ---- all of them ----
class Run:
    """Programs of both kinds side by side; what came of each."""

    def __init__(self, programs):
        self.count = len(programs)
        self.mixed = len({waits(program) for program in programs}) > 1
        self.outcomes = []
        self.again = []
        self.crowd = Crowd()
        self.door = threading.Lock()

    def first(self, command):
        """What must end before the computing programs begin; without it none of them runs."""
        outcome = run(["sh", "-c", command], niceness=10 if self.mixed else 0)
        if outcome.failed == 0:
            print(f"built in {outcome.clock_s:.1f} s, {outcome.processor_s:.1f} s of a processor", flush=True)
            return True
        with lock:
            tell(outcome, "first", "FAIL")
        return False

    def compute(self, command, queue):
        with self.crowd.one("first"):
            built = command is None or self.first(command)
        if built:
            self.side_by_side(queue, JOBS)

    def side_by_side(self, queue, at_once):
        threads = [threading.Thread(target=self.take, args=(queue, at_once)) for _ in range(min(at_once, len(queue)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def next(self, queue):
        """The next program, or None. One after the other is let in of those that wait, so that each is seen in the crowd when the next is."""
        with lock:
            program = queue.pop(0) if queue else None
        if program is not None and waits(program):
            with self.door:
                time.sleep(BEGIN_S)  # the one before has begun by now
                while self.crowd.is_full() and not stopping.is_set():
                    time.sleep(CROWD_SAMPLE_S)
        return program

    def take(self, queue, at_once):
        while (program := self.next(queue)) is not None:
            with self.crowd.one(program):
                outcome = counted(run(program, niceness=10 if self.mixed and not waits(program) else 0))
            if stopping.is_set():
                return
            with lock:
                again = outcome.failed > 0 and may_have_been_hurried(program) and at_once > 1
                (self.again if again else self.outcomes).append(outcome)
                place = f"{len(self.outcomes) + len(self.again):{len(str(self.count))}} of {self.count}"
                tell(outcome, place, "AGAIN" if again else "FAIL" if outcome.failed else "PASS")

    def all(self, programs, command):
        queue = [program for program in programs if not waits(program)]
        computing = threading.Thread(target=self.compute, args=(command, queue))
        computing.start()
        self.side_by_side([program for program in programs if waits(program)], WAITING_JOBS)
        computing.join()

    def alone(self):
        """What failed beside others, once more; returns a line for each."""
        lines = []
        for first in self.again:
            if len(self.again) > AGAIN_MAX or stopping.is_set():
                self.outcomes.append(first)
                continue
            names = FAILED_NAME.findall(first.log)
            second = counted(run(first.program, names))
            tell(second, "alone", "FAIL" if second.failed else "PASS")
            if names:  # else it broke off, and all of its cases ran again
                second.passed += first.passed
                second.skipped += first.skipped
            self.outcomes.append(second)
            lines.append(f"failed beside others, and {'again' if second.failed else 'not'} alone: {shown(first.program)} {' '.join(names)}".rstrip())
        return lines


def slow():
    """Program -> seconds, of tests/slow.tsv."""
    rows = [line.split("\t") for line in SLOW.read_text().splitlines() if not line.startswith("#")] if SLOW.exists() else []
    return {program: float(seconds) for seconds, program in rows}


def in_order(programs):
    seconds = slow()
    return sorted(programs, key=lambda program: -next((s for name, s in seconds.items() if program.endswith(name)), 0.0))


# ---- what passed before ----
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
NAMED_FILE = re.compile(r"(?:deploy|tests|proto|fsm|raft|src)/[\w./%-]*")
NAMED_PROGRAM = re.compile(r"bin/([\w-]+)")


def named_files(program):
    """The files that the source of a unit test names, and the built programs."""
    source = Path(re.sub(r".*?(?=tests/unit/)", "", str(program)) + ".c")
    files = set()
    if not source.is_file():
        return files
    helpers = [path for path in source.parent.iterdir() if path.suffix in (".c", ".h") and not path.name.startswith("test_")]
    for path in [source, *helpers]:
        code = "\n".join(line for line in path.read_text().split("\n") if not line.lstrip().startswith("#include"))
        for literal in LITERAL.findall(code):
            for name in NAMED_FILE.findall(literal):
                for found in glob.glob(re.sub(r"%\w+", "*", name).rstrip("/") or "."):
                    files |= {found} if os.path.isfile(found) else {str(p) for p in Path(found).rglob("*") if p.is_file()}
            files |= {str(BUILD / "bin" / name) for name in NAMED_PROGRAM.findall(literal) if (BUILD / "bin" / name).is_file()}
    return files


def key_of(program):
    digest = hashlib.sha256()
    for name in [program, *sorted(named_files(program))]:
        digest.update(f"{name}\n".encode() + hashlib.sha256(Path(name).read_bytes()).digest())
    return digest.hexdigest()


def changed(programs, folder):
    """Those that did not pass as they are now, with their keys."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {program: key_of(program) for program in programs}
    return {program: key for program, key in keys.items() if not (folder / key).exists()}


# ---- the end ----
def table(outcomes):
    slowest = sorted(outcomes, key=lambda outcome: -outcome.clock_s)[:SLOWEST_SHOWN]
    width = max(len(shown(outcome.program)) for outcome in slowest)
    lines = [f"{'the slowest':{width}} {'seconds':>8} {'of a processor':>15}"]
    lines += [f"{shown(o.program):{width}} {o.clock_s:8.1f} {o.processor_s:15.1f}" for o in slowest]
    clock, processor = sum(o.clock_s for o in outcomes), sum(o.processor_s for o in outcomes)
    return "\n".join([*lines, f"{f'all {len(outcomes)}':{width}} {clock:8.1f} {processor:15.1f}"])


def failure(outcome):
    """What failed, beside the verdict: its output stands far above."""
    names = " ".join(sorted({*FAILED_NAME.findall(outcome.log), *CMOCKA_FAILED_NAME.findall(outcome.log)}))
    return f"failed: {shown(outcome.program)} {names}".rstrip()


def stop(number, _frame):
    if not stopping.is_set():
        stopping.set()
        threading.Thread(target=stop_all, args=(128 + number,), daemon=True).start()


def stop_all(status):
    with lock:
        processes = list(running.values())
    for process in processes:
        end(process, signal.SIGTERM)
    deadline = time.monotonic() + END_GRACE_S
    while running and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in list(running.values()):
        end(process, signal.SIGKILL)
    os._exit(status)


def options(arguments):
    """({option: value}, programs)"""
    given = {}
    while arguments[:1] in (["--first"], ["--changed"]):
        given[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    return given, arguments


def main(arguments):
    given, programs = options(arguments)
    memory, keys = given.get("--changed") and Path(given["--changed"]), {}
    if memory:
        keys = changed(programs, memory)
        print(f"{len(keys)} of {len(programs)} programs changed since they passed", flush=True)
        programs = list(keys)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    whole = Run(programs)
    whole.all(in_order(programs), given.get("--first"))
    lines = whole.alone()
    for outcome in whole.outcomes:
        if memory and outcome.failed == 0:
            (memory / keys[outcome.program]).touch()
    passed, failed, skipped = (sum(getattr(outcome, name) for outcome in whole.outcomes) for name in ("passed", "failed", "skipped"))
    failed += whole.count - len(whole.outcomes)
    if whole.outcomes:
        print(table(whole.outcomes))
    lines += [failure(outcome) for outcome in whole.outcomes if outcome.failed > 0]
    print("\n".join([*lines, f"{passed} passed, {failed} failed, {skipped} skipped"]), flush=True)
    return 1 if failed > 0 or (passed == 0 and not memory) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
