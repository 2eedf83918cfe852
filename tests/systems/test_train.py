#!/usr/bin/python3
"""A data-parallel training loop under real brokers and agents: two nodes with two ranks each, started by a launcher of their own. Whatever happens
to them, the weights at the end are those of an undisturbed run, and every complete checkpoint is of one step and of all ranks. A job whose node is lost goes on from it on a third one. S3-001, S3-002, S3-037, S4-002."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("support", "bench")]
import barrier  # noqa: E402
import faults  # noqa: E402
from cluster import tap  # noqa: E402
from ranks_site import HEARTBEAT_MS, site, train  # noqa: E402


def ranks_agree_on_a_step_within_two_heartbeats():
    """Four ranks on two nodes, through their agents and the leader, from the first that is asked to the last that hears the step: each time within
    200 ms, or two heartbeats where that is more; half of the times within 200 ms."""
    with site("ab") as cluster:
        median, most = barrier.barriers(cluster, 20)
        assert median <= 200 and most <= barrier.promised_ms(HEARTBEAT_MS), f"{median:.0f} ms, at most {most:.0f} ms"


if __name__ == "__main__":
    sys.exit(tap(*faults.split([ranks_agree_on_a_step_within_two_heartbeats, *faults.tests_of(train), *faults.elastic_tests_of(train),
                                *faults.tests_of(train, faults=(*faults.CUT_OFF_ELSE, faults.agent_killed_while_put_off)),
                                *faults.tests_of(train, nodes=1, faults=faults.CUT_OFF)],
                               faults.undisturbed, faults.rank_slow, faults.agent_killed, faults.destination_away)))
