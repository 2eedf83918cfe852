#!/usr/bin/python3
"""What applications that nothing is asked of cost their node: the processor time of the agent, of each ckpt-run, keeper and stand-in, with MANY of them and with none, in one
run. Ends with 1 when the MANY cost more than 1 % of a core over none.

Flow     `tests/bench/idle.py [MANY [SECONDS]]`: one member, one agent without control groups and with the default of `heartbeat`, jobs of one node that sleep: half of them asked by a signal, half with a stand-in
         (--ask-file), which looks for the question. Once all run, SECONDS are measured; then one of each is asked and must be COMPLETE, so that those that are measured answer.
Source   processor time is utime and stime of each process (/proc/PID/stat, 10 ms each), summed over SECONDS; what the member costs is told beside it and does not count.
"""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, wait_until  # noqa: E402
from jobs import COMPLETE, POLICY, RUNNING, ends_in, hint  # noqa: E402

SHARE_MAX = 0.01
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# It needs no second process to sleep, and saves what it is asked for.
SLEEPS = r"""
import os, signal, sys
def save(folder):
    with open(os.path.join(folder, "state"), "w") as file:
        file.write("x" * 1000)
def asked(*_):
    told = dict(line.rstrip("\n").split("=", 1) for line in open(os.environ["CKPT_DIR"] + "/request"))
    save(told["directory"])
    with open(os.environ["CKPT_DIR"] + "/new", "w") as file:
        file.write("hint=%s\nbytes=1000\nstatus=0\n" % told["hint"])
    os.rename(os.environ["CKPT_DIR"] + "/new", os.environ["CKPT_DIR"] + "/done")
signal.signal(signal.SIGUSR1, asked)
while True:
    signal.pause()
"""


def processes():
    """{pid: (parent, name, ticks)} of all there are."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        found[int(folder.name)] = (int(rest[1]), name, int(rest[11]) + int(rest[12]))
    return found


def ours(cluster):
    """Ticks of the node's side, by name: the agent and all below the ckpt-runs, but for the applications themselves."""
    all_of, wanted = processes(), {cluster.agents["a"].process.pid, *(job.process.pid for job in cluster.jobs)}
    grown = True
    while grown:
        more = {pid for pid, (parent, _, _) in all_of.items() if parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    ticks = {}
    for pid in wanted & set(all_of):
        _, name, spent = all_of[pid]
        if name not in ("python3", "sleep", "sh"):
            ticks[name] = ticks.get(name, 0) + spent
    return ticks


def share(cluster, seconds):
    """Of a core, by name."""
    before, began, member = ours(cluster), time.monotonic(), processes()[cluster.members[0].process.pid][2]
    time.sleep(seconds)
    after, passed = ours(cluster), time.monotonic() - began
    told = {name: (after[name] - before.get(name, 0)) * TICK_S / passed for name in after}
    return told, (processes()[cluster.members[0].process.pid][2] - member) * TICK_S / passed


def main():
    many, seconds = [int(word) for word in sys.argv[1:]] + [500, 60][len(sys.argv) - 1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Cluster(members=1, agents=("a",), policy={**POLICY, "evaluation_interval": "30s"}, heartbeat_ms=10000) as cluster:
        cluster.start()
        none, _ = share(cluster, seconds / 4)
        for number in range(many):
            name, stands_in = f"j{number}", number % 2 == 1
            cluster.register(name, [("a", 0, 0)], profile="file" if stands_in else "signal")
            options = ("--profile", "file", "--ask-file", f"STOP.{number}", "--ask-then", "goes-on", "--checkpoint-files", f"STATE.{number}") if stands_in else ()
            cluster.run_job("a", name, [sys.executable, "-S", "-E", "-c", SLEEPS], options)
        wait_until("all run", lambda: all(cluster.allocation(f"j{number}").state == RUNNING for number in range(many)), 300, 1)
        time.sleep(15)  # the table of processes reads young ones again
        busy, member = share(cluster, seconds)
        ends_in(cluster, "j0", hint(cluster, "j0"), (COMPLETE,), 60)
        identifier = hint(cluster, "j1")
        wait_until("the stand-in has told its program", (cluster.dir / "STOP.1").exists, 10, 0.01)
        (cluster.dir / "STATE.1").write_text("x" * 1000)
        ends_in(cluster, "j1", identifier, (COMPLETE,), 60)
    total, idle = sum(busy.values()), sum(none.values())
    print("| process | of a core, % |\n|---|---|")
    for name, spent in sorted(busy.items(), key=lambda row: -row[1]):
        print(f"| {name} | {100 * spent:.3f} |")
    print(f"| {many} applications over none | {100 * (total - idle):.3f} |\n| (the member) | {100 * member:.3f} |", flush=True)
    return int(total - idle > SHARE_MAX)


if __name__ == "__main__":
    sys.exit(main())
