"""A job of two nodes with a spare parked on a third one, by real members and agents on hosts of their own, each in a network namespace: nobody types anything.

Flow     with SpareSite(program) as site: something happens to it; site.finishes() waits until the job is completed and compares its result with an undisturbed
         one's; then no rank ever ran twice at a time, and each complete checkpoint is of all ranks and one step.
Shapes   nodes a, b and the spare c; every one of them is known to answer at its address before anything happens.
"""
import contextlib
import json
import signal
import time

from cluster import Cluster, common_pb2, wait_until
from jobs import COMPLETED
from netns import Network
from ranks_site import HEARTBEAT_MS, RANKS_POLICY, Ranked

STAYS = ("--max-restarts", "9", "--stay")
TOOLS = ("ip", "nft", "nsenter", "unshare")
WITNESS_S = 30  # three tries without an answer, and the words of another member


class SpareSite:
    def __init__(self, program, **policy):
        self.program = program
        self.cluster = Cluster(agents="abc", policy={**RANKS_POLICY, **policy}, heartbeat_ms=HEARTBEAT_MS)
        self.network = Network(self.cluster, policy={**RANKS_POLICY, **policy})
        self.network.place_nodes(self.cluster)

    def __enter__(self):
        self.cluster.__enter__()
        self.cluster.start()
        self.job = Ranked(self.cluster, "job", self.program, "ab", restart=common_pb2.RESTART_MODE_AUTO, options=STAYS, restore=common_pb2.RESTORE_MODE_ALL,
                          preemption_class=1)
        self.job.runs["c"] = self.cluster.run_job("c", "job", self.job.command, STAYS)
        self.job.computes()
        self.job.checkpoint()
        wait_until("each node is known to answer", lambda: all(self.node(name)["node"]["probe"] == f"{agent.address}:22" and self.node(name)["node"]["probed"] == "answers"
                                                               for name, agent in self.cluster.agents.items()), 20, 0.2)
        time.sleep(3)  # to the other members as well
        return self

    def __exit__(self, kind, value, trace):
        with contextlib.suppress(OSError):
            for agent in self.cluster.agents.values():
                agent.process.send_signal(signal.SIGCONT)
        try:
            if kind is None:
                self.cluster.debug_check()
        finally:
            self.cluster.__exit__(kind, value, trace)
            self.network.end()

    def node(self, name):
        return json.loads(self.cluster.ctl("node", name, "-o", "json").stdout)["node"]

    def state(self, name):
        return self.node(name)["node"]["state"]

    def events(self):
        return self.cluster.ctl("events").stdout

    def chosen(self):
        return self.cluster.allocation("job").restart_choice

    def finishes(self, seconds=120):
        wait_until("the job is completed", lambda: self.job.state() == COMPLETED, seconds, 0.2)
        assert self.job.result() == self.job.program.expected(), self.job.logs()
        self.job.one_writer()
        self.job.complete_checkpoints()
