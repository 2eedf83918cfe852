#!/usr/bin/python3
"""How long a job of two nodes computes nothing when the broker brings it back by itself: from the death of a rank to all ranks computing again on the same nodes, each
from its node's own copy; and from the moment at which a lost node is known to be off to all ranks computing, one of them on the spare. Ends with 1 when a median is
over 3 s.

Flow     `tests/bench/comeback.py [MIB [ROUNDS]]`: three members, agents a, b and the spare c, MIB MiB of state on each node (state_app.py), a POSIX destination on the
         same disk. A rank is killed, ROUNDS times. Then the node b loses its power ROUNDS times, and comes back as the next spare.
Source   the first line that each rank writes when it has read its state; the answer to MarkNodeOff.
"""
import os
import pathlib
import signal
import statistics
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, common_pb2, operator_pb2, wait_until  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, REQUEUED, RUNNING, ends_in  # noqa: E402

PROMISED_S, COMPUTES = 3.0, "starts at iteration"
APP = pathlib.Path(__file__).resolve().parent / "state_app.py"
RANKS_POLICY = {**POLICY, "checkpoint_timeout": "10m", "node_degraded_after": "1s", "node_down_after": "3s", "grace": "2s"}


class Bench:
    def __init__(self, cluster, mebibytes):
        self.cluster, self.mebibytes, self.runs = cluster, mebibytes, {}
        cluster.register("j", [("a", 1, mebibytes * MIB), ("b", 1, mebibytes * MIB)], grace_ms=500, restart=common_pb2.RESTART_MODE_AUTO,
                         restore=common_pb2.RESTORE_MODE_OWN, max_requeue=100)
        for node in "abc":
            self.run(node)
        wait_until("both compute", lambda: all(COMPUTES in self.runs[node].log.read_text() for node in "ab"), 60)

    def run(self, node):
        self.runs[node] = self.cluster.run_job(node, "j", [sys.executable, str(APP), str(self.mebibytes)], ("--max-restarts", "100", "--stay"))

    def nodes(self):
        return sorted(share.node_id for share in self.cluster.allocation("j").spec.nodes)

    def saved(self):
        """A complete checkpoint, with which its count of restarts begins anew."""
        wait_until("it runs", lambda: self.cluster.allocation("j").state == RUNNING, 60)
        identifier = self.cluster.request_checkpoint("j")
        ends_in(self.cluster, "j", identifier, (COMPLETE,), 600)
        return {node: len(run.log.read_text()) for node, run in self.runs.items()}

    def computing(self, said):
        """All of its ranks say so anew."""
        return all(COMPUTES in self.runs[node].log.read_text()[said[node]:] for node in self.nodes())

    def rank_dies(self):
        said, victim = self.saved(), self.nodes()[-1]
        pid = wait_until("it is known", self.runs[victim].known_to_run, 20)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        wait_until("all compute again", lambda: self.computing(said), 120, 0.005)
        return time.monotonic() - began

    def node_goes(self):
        said, lost = self.saved(), self.nodes()[-1]
        run, agent = self.runs[lost], self.cluster.agents[lost]
        agent.kill()
        run.kill()
        for pid in run.applications():
            os.kill(pid, signal.SIGKILL)
        wait_until("it is silent", lambda: self.cluster.allocation("j").state == REQUEUED, 60)
        request = operator_pb2.MarkNodeOffRequest(request_id=uuid.uuid4().hex, node_id=lost)
        began = time.monotonic()
        self.cluster.client.operator("MarkNodeOff", request)
        wait_until("all compute again", lambda: lost not in self.nodes() and self.computing(said), 120, 0.005)
        took_s = time.monotonic() - began
        agent.start()
        self.run(lost)
        time.sleep(2)
        return took_s


def main():
    mebibytes, rounds = [int(word) for word in sys.argv[1:]] + [256, 3][len(sys.argv) - 1:]
    missed = False
    with Cluster(agents="abc", policy=RANKS_POLICY, heartbeat_ms=300) as cluster:
        with open(cluster.agent_config, "a", encoding="utf-8") as file:
            file.write("local_copies: {max_bytes: 64GiB}\n")
        cluster.start()
        bench = Bench(cluster, mebibytes)
        for what, once in (("a rank's death to all ranks computing, own copies", bench.rank_dies), ("a node known to be off to all ranks computing, one on a spare", bench.node_goes)):
            found = [once() for _ in range(rounds)]
            print(f"2 x {mebibytes} MiB, load {os.getloadavg()[0]:.0f}: {what} {statistics.median(found):.2f} s ({min(found):.2f} to {max(found):.2f}, {rounds} rounds)", flush=True)
            missed |= statistics.median(found) > PROMISED_S
    return missed


if __name__ == "__main__":
    sys.exit(main())
