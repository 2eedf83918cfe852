#!/usr/bin/python3
"""What an order costs on a node that runs hundreds of processes of others, counted in files that the agent opens, not in time; and that it finds its ranks among
them. S1-031, S3-001. In a process namespace of its own: what else this machine starts would be counted. Some 40 s, most of it sleep."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, free_port, metric, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, all_run, complete, ends_in, hint  # noqa: E402

FEW, MANY, HINTS = 40, 400, 4
YOUNG_S = 10.5  # processes that are younger than 10 s are read again now and then (src/agent/node/process_table.h)
RANK = r"""
import os, signal, sys, time
work, rank = os.environ["CKPT_DIR"], os.environ.get("RANK", "")
asked = []
signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(1))
open("%s/ready%s" % (work, rank), "w").close()
while True:
    time.sleep(0.01)
    if not asked:
        continue
    asked.clear()
    fields = dict(line.strip().split("=", 1) for line in open(work + "/request"))
    with open("%s/%s.state" % (fields["directory"], rank), "w") as file:
        file.write("state")
    name = work + "/done" + (rank and "." + rank)
    with open(name + ".new", "w") as file:
        file.write("hint=%s\nbytes=5\nstatus=0\nstep=1\n" % fields["hint"])
    os.rename(name + ".new", name)
"""
LAUNCH = 'for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "$0" -c "$1" & done; wait'
GROUP, RANKS = [sys.executable, "-c", RANK], ["sh", "-c", LAUNCH, sys.executable, RANK]


def sleepers(count):
    """Of no job, each in a session of its own."""
    return [subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, start_new_session=True) for _ in range(count)]


def site():
    cluster = Cluster(members=1, agents=("a",), policy=POLICY)
    cluster.agent_http = f"127.0.0.1:{free_port()}"
    cluster.agent_config.write_text(cluster.agent_config.read_text() + f'http: "{cluster.agent_http}"\n')
    return cluster


def start(cluster, name, command, ready):
    cluster.register(name, [("a", 1, MIB)])
    job = cluster.run_job("a", name, command)
    wait_until(f"{name} is ready", lambda: all((job.work_dir / f"ready{rank}").exists() for rank in ready), 30)
    return job


def opened(cluster):
    return metric(cluster.agent_http, "ckpt_agent_proc_files_opened_total")


def opened_for_an_order(cluster, name):
    """The least of some: what the agent's own workers do to the table meanwhile is not the order's."""
    counts = []
    for _ in range(HINTS):
        before = opened(cluster)
        complete(cluster, name)
        counts.append(opened(cluster) - before)
    return min(counts)


def an_order_opens_as_many_files_among_400_processes_as_among_40():
    """All of them are of the job's user, and younger than it: any of them could be a rank."""
    with site() as cluster:
        cluster.start()
        start(cluster, "group", GROUP, [""])
        start(cluster, "ranks", RANKS, ["0", "1"])
        all_run(cluster)
        counts = {}
        for count in (FEW, MANY - FEW):
            foreign = sleepers(count)
            time.sleep(YOUNG_S)
            before = opened(cluster)
            for name in ("group", "ranks"):
                complete(cluster, name)
            first = opened(cluster) - before
            assert first >= 3 * count, (first, count)  # each of them once: what it is, and whose
            counts[len(counts)] = [opened_for_an_order(cluster, name) for name in ("group", "ranks")]
            assert all(process.poll() is None for process in foreign)
        print(f"# opened for an order, of a group and of two ranks, among {FEW} and {MANY}: {counts}")
        for few, many in zip(*counts.values()):
            assert many <= few + 8, counts


def a_rank_that_is_started_elsewhere_among_many_is_asked():
    """As srun's are: of no parent in the job, and by its environment alone. Also what was a shell for long before."""
    with site() as cluster:
        cluster.start()
        job = start(cluster, "outside", ["sh", "-c", "trap '' USR1; sleep 600"], [])
        all_run(cluster)
        sleepers(MANY // 2)
        environment = pathlib.Path(f"/proc/{job.application_pid()}/environ").read_bytes().split(b"\0")
        given = dict(line.decode().split("=", 1) for line in environment if b"=" in line)
        command = "sleep 12; export $0; RANK=1 exec \"$1\" -c \"$2\""
        late = subprocess.Popen(["sh", "-c", command, " ".join(f"{name}={value}" for name, value in given.items() if name.startswith("CKPT_")),
                                 sys.executable, RANK], env={**os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, start_new_session=True)
        time.sleep(11)
        identifier = hint(cluster, "outside")  # no rank is there yet, and the shell is read when it is old
        time.sleep(0.3)
        early = subprocess.Popen(GROUP, env={**os.environ, **given, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, start_new_session=True)
        ends_in(cluster, "outside", identifier, (COMPLETE,))
        assert sorted(path.name for path in job.work_dir.glob("ready*")) == ["ready0", "ready1"]
        for process in (late, early):
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)


TESTS = [needs()(test) for test in (an_order_opens_as_many_files_among_400_processes_as_among_40, a_rank_that_is_started_elsewhere_among_many_is_asked)]
if __name__ == "__main__":
    sys.exit(main(TESTS))
