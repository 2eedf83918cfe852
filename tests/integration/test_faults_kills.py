#!/usr/bin/python3
"""Members killed and stopped under load: one order explains every answer, nothing acknowledged is lost, nothing is done twice.
I1, I2, I5, I6, I7, I26, L1, Q-002.

Flow    `make kills KILLS=1000` is the long run of the first test; by default there are few of each.
"""
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, http_status, wait_until  # noqa: E402
from isolate import main  # noqa: E402
from workload import Load, histogram  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
KILLS = int(os.environ.get("KILLS", 10))
STOPS = int(os.environ.get("STOPS", 2))
MEMBERS = int(os.environ.get("MEMBERS", 3))
QUIET = {"evaluation_interval": "30s"}
RAFT = {"snapshot_after_entries": 2000}


def ready(cluster):
    return all(m.running() and http_status(m.http, "/readyz") == 200 for m in cluster.members)


def a_leader_killed_under_load_loses_nothing():
    """SIGKILL of the leader, again and again; sometimes before the one killed last has caught up."""
    print(f"# SEED={SEED} KILLS={KILLS} members={MEMBERS}", flush=True)
    draw, failovers, early = random.Random(SEED), [], 0
    with Cluster(members=MEMBERS, policy=QUIET, raft=RAFT) as cluster:
        cluster.start()
        load = Load(cluster, seed=SEED)
        load.progress()
        for number in range(KILLS):
            whole = draw.random() < 0.9
            if whole:
                wait_until("all members are ready", lambda: ready(cluster), 30)
                load.progress(5)
            time.sleep(draw.random() * 0.4)  # the moment of the kill is what is drawn here
            leader = cluster.wait_leader()
            whole = ready(cluster)
            killed = time.monotonic()
            leader.kill()
            dead = time.monotonic()  # what was begun before may have been answered by the old leader
            if whole:
                first = wait_until("a write is acknowledged", lambda: load.first_answer_after(dead), 30, 0.002)
                failovers.append((first - killed) * 1000)
            else:
                early += 1
            leader.start(wait=False)
            if (number + 1) % 100 == 0:
                print(f"# {number + 1} kills, {load.acknowledged()} writes acknowledged, failover {histogram(failovers)}", flush=True)
        wait_until("all members are ready", lambda: ready(cluster), 30)
        load.progress()
        account = load.verdict()
        print(f"# {KILLS} leader kills ({early} of them before all members were back): lost {account.lost}, applied twice {account.twice}\n"
              f"# SIGKILL of the leader to the next acknowledged write, timers 1000/100 ms: {histogram(failovers)}")


def members_stopped_for_seconds_lose_nothing():
    """SIGSTOP of the leader or a follower for 1 to 20 s; the leader that wakes up acknowledges and serves nothing that is not so."""
    longest_s = 20 if STOPS > 10 else 3
    print(f"# SEED={SEED}")
    draw, gaps = random.Random(SEED), []
    with Cluster(policy=QUIET, raft=RAFT) as cluster:
        cluster.start()
        load = Load(cluster, seed=SEED, clients=6, attempt_s=0.1)
        load.progress()
        for number in range(STOPS):
            wait_until("all members are ready", lambda: ready(cluster), 30)
            leader = cluster.wait_leader()
            victim = leader if number % 3 != 2 else next(m for m in cluster.members if m is not leader)
            stopped, pause_s = time.monotonic(), draw.uniform(1, longest_s)
            victim.kill(signal.SIGSTOP)
            try:
                first = wait_until("a write is acknowledged", lambda: load.first_answer_after(stopped), 30, 0.002)
                if victim is leader:
                    gaps.append((first - stopped) * 1000)
                time.sleep(max(0, stopped + pause_s - time.monotonic()))
            finally:
                victim.kill(signal.SIGCONT)
            load.progress()
        load.verdict()
        print(f"# SIGSTOP of the leader to the next acknowledged write: {histogram(gaps)}")


if __name__ == "__main__":
    sys.exit(main([a_leader_killed_under_load_loses_nothing, members_stopped_for_seconds_lose_nothing]))
