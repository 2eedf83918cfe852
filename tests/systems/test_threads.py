#!/usr/bin/python3
"""A program with threads, one rank of its own, under real brokers and an agent. Whatever happens to it, its table at the end is that of an
undisturbed run."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import faults  # noqa: E402
from cluster import tap  # noqa: E402
from ranks_site import threads  # noqa: E402

if __name__ == "__main__":
    sys.exit(tap(faults.tests_of(threads, nodes=1)))
