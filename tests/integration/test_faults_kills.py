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
import memory  # noqa: E402
from cluster import Cluster, http_status, metric, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402
from history import quantile  # noqa: E402
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
    """F-002. SIGKILL of the leader, again and again; sometimes before the one killed last has caught up."""
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
        late = quantile(failovers, 0.99 if len(failovers) >= 100 else 0.5)
        assert late < 2000, f"L1: {late:.0f} ms until the next acknowledged write"
        print(f"# {KILLS} leader kills ({early} of them before all members were back): lost {account.lost}, applied twice {account.twice}\n"
              f"# SIGKILL of the leader to the next acknowledged write, timers 1000/100 ms: {histogram(failovers)}")


def members_stopped_for_seconds_lose_nothing():
    """SIGSTOP of the leader or a follower for 1 to 3 s (60 s with STOPS above 10); the leader that wakes up acknowledges and serves nothing that is not so."""
    longest_s = 60 if STOPS > 10 else 3
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


@needs(probe=memory.refused)
def a_member_that_the_kernel_kills_for_memory_comes_back_when_there_is_some():
    """OOM: the leader shares a limit with a process that takes what is left, and is killed at each start until that ends; then a restart loop
    of other reasons. Its unit starts it again and again: the others do not feel it."""
    draw = random.Random(SEED)
    with Cluster(policy=QUIET, raft=RAFT) as cluster:
        leader, group, eater = cluster.members[0], memory.Group(192 << 20), None
        leader.prefix = group.prefix()
        try:
            cluster.start()
            load = Load(cluster, seed=SEED)
            load.progress()
            if cluster.wait_leader() is not leader:
                cluster.ctl("transfer", leader.name)
                wait_until("it leads", lambda: cluster.leader() is leader, 10)
            eater = group.eater()
            wait_until("the kernel kills the leader", lambda: not leader.running(), 20)
            assert leader.process.returncode == -signal.SIGKILL, leader.process.returncode
            wait_until("another one leads", lambda: cluster.leader() not in (None, leader), 20)
            term = metric(cluster.leader().http, "ckpt_raft_term")
            for _ in range(5):
                leader.start(wait=False)
                wait_until("it is killed again", lambda: not leader.running(), 20)
                assert leader.process.returncode == -signal.SIGKILL, leader.process.returncode
                load.progress(5)
            assert group.kills() - eater.killed() == 6, (group.kills(), eater.killed())
            eater.give_back()
            for _ in range(6):  # now it comes further each time
                leader.start(wait=False)
                time.sleep(draw.random() * 0.3)
                leader.kill()
            leader.start()
            assert metric(cluster.wait_leader().http, "ckpt_raft_term") == term, "a member that starts again and again cost the leader its office"
            wait_until("all members are ready", lambda: ready(cluster), 30)
            load.progress()
            load.verdict()
        finally:
            if eater is not None:
                eater.give_back()
            for member in cluster.members:
                if member.running():
                    member.kill()
            group.end()


if __name__ == "__main__":
    sys.exit(main([a_leader_killed_under_load_loses_nothing, members_stopped_for_seconds_lose_nothing,
                   a_member_that_the_kernel_kills_for_memory_comes_back_when_there_is_some]))
