#!/usr/bin/python3
"""A solver over MPI under real brokers and agents: mpirun on one node, its daemon under the ckpt-run of the other, two ranks on each. Whatever
happens to them, the field at the end is that of an undisturbed run, and every complete checkpoint is of one step and of all ranks. S3-001, S3-002, S3-037, S4-002."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import faults  # noqa: E402
from cluster import tap  # noqa: E402
from ranks_site import heat  # noqa: E402

if __name__ == "__main__":
    sys.exit(tap(*faults.split([*faults.tests_of(heat), *faults.elastic_tests_of(heat), *faults.tests_of(heat, nodes=1, faults=faults.CUT_OFF[1:])],
                               faults.rank_killed, faults.node_lost, faults.leader_killed_in_the_barrier)))
