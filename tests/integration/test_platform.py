#!/usr/bin/python3
"""What nodes are: each agent tells its architecture and operating system, people see both, and no job is restarted where its checkpoint cannot
be read. S3-045, S3-054."""
import json
import pathlib
import platform
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "1h", "min_interval": "1ms", "grace": "1s", "max_requeue": 9}
MIB = 1 << 20


class Mixed(Cluster):
    """Nodes a and b are what their machine is; c is called otherwise by its site."""

    def __init__(self):
        super().__init__(members=1, agents=("a", "b", "c"), policy=POLICY)
        self.plain = self.agent_config.read_text()

    def start_agent(self, name, more=""):
        self.agent_config.write_text(self.plain + more)
        self.agents[name].start()

    def start(self):
        for member in self.members:
            member.start()
        self.wait_leader()
        self.start_agent("a")
        self.start_agent("b")
        self.start_agent("c", 'os: "other 1.0"\n')

    def nodes(self):
        return {n["node_id"]: n for n in json.loads(self.ctl("nodes", "-o", "json").stdout)["nodes"]}


def own_os():
    text = pathlib.Path("/etc/os-release").read_text()
    values = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', text, re.M))
    return " ".join(values[key] for key in ("ID", "VERSION_ID") if key in values)


def a_job_is_restarted_only_where_its_checkpoint_can_be_read():
    """Refused with the node's place; taken on a node of the same kind, or from scratch; and once the site calls them alike."""
    with Mixed() as cluster:
        cluster.start()
        wait_until("all have told", lambda: sum(n["connected"] for n in cluster.nodes().values()) == 3, 10)
        told = {name: (node["machine"], node["os"]) for name, node in cluster.nodes().items()}
        assert told == {"a": (platform.machine(), own_os()), "b": (platform.machine(), own_os()),
                        "c": (platform.machine(), "other 1.0")}, told
        wide = cluster.ctl("nodes", "-o", "wide").stdout
        assert "MACHINE" in wide and "other 1.0" in wide and platform.machine() in wide, wide
        cluster.register("job", [("a", 1, MIB)], requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS)
        job = cluster.run_job("a", "job", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", "/dev/null"],
                              ("--max-restarts", "0"))
        identifier = cluster.request_checkpoint("job")
        done = wait_until("it is complete", lambda: next((c for c in cluster.checkpoints("job") if c.checkpoint_id == identifier
                                                          and c.state == common_pb2.CHECKPOINT_STATE_COMPLETE), None), 20)
        assert (done.machine, done.os) == (platform.machine(), own_os()), done
        assert f"written on {platform.machine()} {own_os()}" in cluster.ctl("checkpoint", f"1-{identifier & 0xffffffff}").stdout
        job.process.send_signal(signal.SIGTERM)
        job.process.wait(20)

        def waits():
            return wait_until("it can be restarted", lambda: cluster.allocation("job").state in (
                common_pb2.ALLOCATION_STATE_REQUEUED, common_pb2.ALLOCATION_STATE_FAILED), 10)
        waits()
        refused = cluster.ctl("restart", "job", "--node", "c:1", check=False)
        assert refused.returncode == 4 and "NODE_UNLIKE" in refused.stderr, refused
        assert "node 1 of 1 is of another architecture or operating system" in refused.stderr, refused.stderr
        assert "ckptctl nodes -o wide" in refused.stderr, refused.stderr
        cluster.ctl("restart", "job", "--node", "c:1", "--from-scratch")
        cluster.ctl("end", "job", "--failed", "--yes")
        waits()
        cluster.ctl("restart", "job", "--node", "b:1")
        assert cluster.allocation("job").restart_checkpoint_id == identifier
        cluster.ctl("end", "job", "--failed", "--yes")
        waits()
        cluster.agents["c"].kill(signal.SIGTERM)
        cluster.agents["c"].process.wait(10)
        cluster.agents["c"].socket.unlink(missing_ok=True)
        cluster.start_agent("c", f'os: "{own_os()}"\n')
        wait_until("it has told", lambda: cluster.nodes()["c"]["os"] == own_os(), 10)
        cluster.ctl("restart", "job", "--node", "c:1")


if __name__ == "__main__":
    sys.exit(tap([a_job_is_restarted_only_where_its_checkpoint_can_be_read]))
