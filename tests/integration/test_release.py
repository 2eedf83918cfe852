#!/usr/bin/python3
"""Before the nodes of a preemption are released, another node reads what their job has saved. P-024, D-004."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, metric, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, SUSPENDED, all_run, allocation_in, heat, restart_point  # noqa: E402

READ, ENDED = "kind=REPORT_KIND_VERIFIED allocation=j", "kind=REPORT_KIND_TERMINATED allocation=j"

FLIPS_ONCE = """#!/bin/sh
flips() {
    while [ $# -gt 0 ]; do
        case $1 in --path) path=$2;; --part) part=$2;; esac
        shift
    done
    file=$(find "$path/$part" -type f ! -name MANIFEST | head -n 1)
    printf X | dd of="$file" bs=1 seek=64 conv=notrunc 2>/dev/null
}
case "$1 $*" in
"verify "*"--as owner"*) if mkdir "${0%/*}/flipped" 2>/dev/null; then flips "$@"; fi;;
esac
exec "${0%/*}/ckpt-worker.real" "$@"
"""

HANGS = """#!/bin/sh
case "$1 $*" in
"verify "*"--as owner"*) exec sleep 1000;;
esac
exec "${0%/*}/ckpt-worker.real" "$@"
"""


def worker_is(cluster, text):
    worker = cluster.bin / "ckpt-worker"
    worker.rename(cluster.bin / "ckpt-worker.real")
    worker.write_text(text)
    worker.chmod(0o755)


def start(cluster):
    cluster.start()
    cluster.register("j", [("a", 1, MIB)], preemption_class=1)
    cluster.run_job("a", "j", heat(cluster, "j"))
    all_run(cluster)


def preempt(cluster):
    shown = cluster.ctl("preempt", "--class", "5", "--nodes", "1", "--candidates", "j", "--yes", "--wait", "-o", "json")
    assert '"RELEASED"' in shown.stdout, shown.stdout


def at(agent, text):
    """When the agent said so."""
    return next(line.split()[0] for line in agent.log.read_text().splitlines() if text in line)


def another_node_reads_it_first():
    """Node b reads what a wrote; then a's application is told to end."""
    with Cluster(members=3, agents=("a", "b"), policy=POLICY) as cluster:
        start(cluster)
        preempt(cluster)
        allocation_in(cluster, "j", SUSPENDED)
        agents = cluster.agents
        assert READ not in agents["a"].log.read_text(), "not its writer"
        assert at(agents["b"], READ) < at(agents["a"], ENDED)
        assert metric(cluster.leader().http, "ckpt_victims_released_total") == 1
        assert "could not be read again" not in cluster.ctl("events", "j").stdout
        cluster.debug_check()


def a_checkpoint_that_is_damaged_by_then_is_written_once_more():
    """Storage changes it behind its last sync: the job is still there and saves itself again, and stops with what is whole."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY, target={"read_back": "always"}) as cluster:
        cluster.let_others_in()
        worker_is(cluster, FLIPS_ONCE)
        start(cluster)
        preempt(cluster)
        allocation_in(cluster, "j", SUSPENDED)
        first, second = sorted(cluster.checkpoints("j"), key=lambda c: c.checkpoint_id)
        assert first.damaged and "read by b" in first.detail, first
        assert not second.damaged and restart_point(cluster, "j").checkpoint_id == second.checkpoint_id
        assert READ in cluster.agents["b"].log.read_text()
        cluster.debug_check()


def a_preemption_does_not_wait_for_ever():
    """Its reader hangs: nodes are released after release_check, and that is told. Without another node at once."""
    with Cluster(members=1, agents=("a", "b"), policy={**POLICY, "release_check": "2s"}) as cluster:
        cluster.let_others_in()
        worker_is(cluster, HANGS)
        start(cluster)
        preempt(cluster)
        allocation_in(cluster, "j", SUSPENDED)
        wait_until("it is told", lambda: "its nodes are released all the same" in cluster.ctl("events", "j").stdout, 10)
        assert READ not in cluster.agents["b"].log.read_text()
        assert metric(cluster.members[0].http, "ckpt_victims_released_total") == 1
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        start(cluster)
        preempt(cluster)
        allocation_in(cluster, "j", SUSPENDED)
        assert metric(cluster.members[0].http, "ckpt_victims_released_total") == 1
        assert "no other node is there to read it" in cluster.ctl("events", "j").stdout


if __name__ == "__main__":
    sys.exit(tap([another_node_reads_it_first, a_checkpoint_that_is_damaged_by_then_is_written_once_more, a_preemption_does_not_wait_for_ever]))
