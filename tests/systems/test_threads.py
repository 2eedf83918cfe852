#!/usr/bin/python3
"""A program with threads under real brokers and agents: one rank of its own, and one on each of several nodes. Whatever happens to it, its table
at the end is that of an undisturbed run, and every complete checkpoint is of one step and of all ranks. S3-001, S3-002, S3-037, S4-002."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import faults  # noqa: E402
from cluster import tap  # noqa: E402
from ranks_site import threads  # noqa: E402

if __name__ == "__main__":
    sys.exit(tap(*faults.split([*faults.tests_of(threads), *faults.elastic_tests_of(threads), *faults.tests_of(threads, nodes=1)],
                               faults.rank_silent, faults.agent_killed_while_it_ends_a_worker, faults.ELASTIC[0])))
