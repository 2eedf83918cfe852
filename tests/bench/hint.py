#!/usr/bin/python3
"""What an order to checkpoint costs a node that runs many other processes: from the commit of the request to the application's handler, and the agent's processor
time for it, with few and with many foreign processes by turns in one run. Ends with 1 when p50, p99 or the processor time for a hint are more than 3 ms over those
with few.

Flow     `tests/bench/hint.py [MANY [HINTS [ROUNDS]]]`: three members, one agent without control groups, two jobs by turns: one process, which is asked as a group,
         and two ranks of a launcher. In each round HINTS with 80 foreign processes and HINTS with MANY of them, which are of the job's user and younger than the job:
         the dearest kind. The first hint after they were started, which reads all of them, is told apart.
Source   the commit is the answer to RequestCheckpoint; processor time is that of all threads of the agent (schedstat), not of its workers.
"""
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, wait_until  # noqa: E402
from history import quantile  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, all_run, ends_in, hint  # noqa: E402

FEW, OVER_MS = 80, 3.0
AGED_S = 10.5  # the table reads young processes again (src/agent/node/process_table.h)
APP = r"""
import os, signal, time
work, rank = os.environ["CKPT_DIR"], os.environ.get("OMPI_COMM_WORLD_RANK", "")
done, steps = work + "/done" + (rank and "." + rank), []
def asked(number, frame):
    now = time.time()
    with open(work + "/request") as file:
        hint = dict(line.split("=", 1) for line in file.read().splitlines() if "=" in line)["hint"]
    with open("%s/notes%s" % (work, rank), "a") as file:
        file.write("%.6f\n" % now)
    os.makedirs("%s/out/%s" % (work, hint), exist_ok=True)
    with open("%s/out/%s/state%s" % (work, hint, rank), "w") as file:
        file.write("x" * 1000)
    steps.append(hint)
    with open(done + ".new", "w") as file:
        file.write("hint=%s\nbytes=1000\nstatus=0\nstep=%d\n" % (hint, len(steps)))
    os.rename(done + ".new", done)
signal.signal(signal.SIGUSR1, asked)
open("%s/ready%s" % (work, rank), "w").close()
while True:
    signal.pause()
"""
LAUNCH = 'for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=2 "$0" -c "$1" & done; wait'
JOBS = {"group": ([sys.executable, "-c", APP], ("",)), "ranks": (["sh", "-c", LAUNCH, sys.executable, APP], ("0", "1"))}


class Foreign:
    """Sleeping processes of no job, each in a session of its own."""

    def __init__(self):
        self.processes = []

    def become(self, count):
        while len(self.processes) > count:
            self.processes[-1].kill()
            self.processes.pop().wait()
        while len(self.processes) < count:
            self.processes.append(subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL, start_new_session=True, close_fds=False))


def processor_ms(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def last_note(cluster, name, count):
    """When the handlers of the job ran the count-th time: the last of its ranks."""
    folder = cluster.dir / "work" / f"{name}.a"
    notes = [(folder / f"notes{rank}").read_text().split() for rank in JOBS[name][1]]
    assert all(len(note) == count for note in notes), [len(note) for note in notes]
    return max(float(note[-1]) for note in notes)


class Measure:
    def __init__(self):
        self.hints_ms, self.processor_ms, self.first_ms = [], [], []


class Bench:
    def __init__(self, cluster):
        self.cluster, self.pid = cluster, cluster.agents["a"].process.pid
        self.hints = {name: 0 for name in JOBS}

    def one(self, name):
        """Milliseconds from the commit to the handler."""
        identifier = hint(self.cluster, name)
        committed = time.time()
        ends_in(self.cluster, name, identifier, (COMPLETE,), 60)
        self.hints[name] += 1
        return 1000 * (last_note(self.cluster, name, self.hints[name]) - committed)

    def phase(self, measure, hints):
        measure.first_ms.append(max(self.one(name) for name in JOBS))
        for number in range(hints):
            before = processor_ms(self.pid)
            measure.hints_ms.append(self.one(list(JOBS)[number % 2]))
            measure.processor_ms.append(processor_ms(self.pid) - before)


def row(name, measure):
    hints = sorted(measure.hints_ms)
    figures = statistics.median(hints), quantile(hints, 0.99), statistics.mean(measure.processor_ms)
    print(f"| {name} | {len(hints)} | {figures[0]:.1f} | {figures[1]:.1f} | {figures[2]:.1f} | {statistics.median(measure.processor_ms):.1f} | {max(measure.first_ms):.0f} |", flush=True)
    return figures


def main():
    many, hints, rounds = [int(word) for word in sys.argv[1:]] + [3000, 40, 3][len(sys.argv) - 1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    measures, foreign = {FEW: Measure(), many: Measure()}, Foreign()
    with Cluster(members=3, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name, (command, ranks) in JOBS.items():
            cluster.register(name, [("a", 1, MIB)])
            job = cluster.run_job("a", name, command)
            wait_until(f"{name} is ready", lambda job=job, ranks=ranks: all((job.work_dir / f"ready{rank}").exists() for rank in ranks), 30)
        all_run(cluster)
        bench = Bench(cluster)
        for name in JOBS:
            bench.one(name)
        try:
            for _ in range(rounds):
                for count, measure in measures.items():
                    foreign.become(count)
                    time.sleep(AGED_S)
                    bench.phase(measure, hints)
        finally:
            foreign.become(0)
    print(f"\n| foreign processes, {os.getloadavg()[0]:.0f} load | hints | commit to handler, ms: p50 | p99 | agent's processor a hint, ms: mean | median | the first hint after they came, ms |"
          "\n| --- | --- | --- | --- | --- | --- | --- |")
    few, most = (row(str(count), measure) for count, measure in measures.items())
    over = [b - a for a, b in zip(few, most)]
    print(f"with {many} over {FEW}: p50 {over[0]:+.1f}, p99 {over[1]:+.1f}, processor {over[2]:+.1f} ms (promised: at most {OVER_MS:.0f} each)")
    return any(ms > OVER_MS for ms in over)


if __name__ == "__main__":
    sys.exit(main())
