#!/usr/bin/python3
"""Jobs that come back by themselves, on three hosts with a spare, whatever happens: a training loop, an MPI solver and a program with threads. Nobody types anything, the
result is an undisturbed run's, and no rank ever has a copy beside it. V-001, V-002, V-003, S1-022, S3-060, S3-061."""
import os
import pathlib
import signal
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import LONG, broker_pb2, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402
from jobs import MIB, RUNNING, SUSPENDED  # noqa: E402
from netns import refused  # noqa: E402
from ranks_site import heat, threads, train  # noqa: E402
from spare_site import TOOLS, WITNESS_S, SpareSite  # noqa: E402

STEPS = 1500  # of some 5 ms


def kill_a_rank(site):
    ranks = site.job.ranks()
    os.kill(ranks[max(ranks)] if site.job.program.ranks > 1 else site.job.runs["b"].application_pid(), signal.SIGKILL)


def rank_killed(make):
    with SpareSite(make(STEPS)) as site:
        kill_a_rank(site)
        wait_until("it was restarted", lambda: site.chosen() == "its own a, b", 20, 0.05)
        site.finishes()


def node_powered_off(make):
    """The first node, which is nothing special: a spare takes its place."""
    with SpareSite(make(STEPS)) as site:
        site.network.power_off(site.cluster.agents["a"])
        site.job.lose("a")
        wait_until("it was restarted", lambda: site.chosen() == "its own b; the spare c", WITNESS_S + 20, 0.1)
        site.finishes()


def agent_killed(make):
    """It is started again: its applications go on."""
    with SpareSite(make(STEPS)) as site:
        site.cluster.agents["b"].kill()
        time.sleep(1)
        site.cluster.agents["b"].start()
        site.finishes()
        assert site.chosen() == "", site.chosen()


def agent_stopped(make):
    """Its host answers: nothing begins elsewhere. When it goes on the job comes back, on any nodes."""
    with SpareSite(make(2 * STEPS)) as site:
        site.cluster.agents["b"].process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 12
        while time.monotonic() < end:
            assert site.chosen() == "", site.chosen()
            time.sleep(0.3)
        site.cluster.agents["b"].process.send_signal(signal.SIGCONT)
        site.finishes()


def node_cut_off_and_back(make):
    """For longer than a node may be silent, and for less than it takes to witness that it is off."""
    with SpareSite(make(2 * STEPS)) as site:
        for member in site.cluster.members:
            site.network.part(member, site.cluster.agents["b"])
        time.sleep(6)
        site.network.heal(*site.cluster.members, site.cluster.agents["b"])
        site.finishes()


def leader_killed_in_the_choice(make):
    with SpareSite(make(STEPS)) as site:
        leader = site.cluster.wait_leader()
        kill_a_rank(site)
        wait_until("nodes are chosen", lambda: site.chosen() != "", 20, 0.005)
        leader.kill()
        site.finishes()
        leader.start()


def preempted_and_given_back(make):
    """Another job has its nodes for a second."""
    with SpareSite(make(STEPS), release_check="1ms") as site:
        site.cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(
            request_id=uuid.uuid4().hex, preemption_class=5, nodes_needed=2, useful_nodes=["a", "b"]))
        wait_until("it is suspended", lambda: site.job.state() == SUSPENDED, 40)
        site.cluster.register("high", [("a", 1, MIB), ("b", 1, MIB)], preemption_class=5)
        high = [site.cluster.run_job(node, "high", ["sleep", "1"]) for node in "ab"]
        assert [run.process.wait(30) for run in high] == [0, 0]
        wait_until("it runs again", lambda: site.job.state() == RUNNING, 30)
        site.finishes()


def all_members_down(make):
    """A rank dies meanwhile."""
    with SpareSite(make(2 * STEPS)) as site:
        for member in site.cluster.members:
            member.kill()
        kill_a_rank(site)
        time.sleep(30 if LONG else 8)
        for member in site.cluster.members:
            member.start()
        site.finishes()


FAULTS = (rank_killed, node_powered_off, agent_killed, agent_stopped, node_cut_off_and_back, leader_killed_in_the_choice, preempted_and_given_back, all_members_down)
SHORT = {train: (node_powered_off,), heat: (rank_killed,), threads: (leader_killed_in_the_choice,)}


def case(fault, make):
    @needs(*TOOLS, probe=refused)
    def run():
        return make().needs or fault(make)
    run.__name__ = f"{fault.__name__}_{make.__name__}"
    return run


if __name__ == "__main__":
    sys.exit(main([case(fault, make) for make, faults in SHORT.items() for fault in faults],
                  long=[case(fault, make) for make in SHORT for fault in FAULTS if fault not in SHORT[make]]))
