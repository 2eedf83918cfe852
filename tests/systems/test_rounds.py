#!/usr/bin/python3
"""Faults that a seed draws, ten in `make systems` and two hundred in `make systems-long`, at any moment of a checkpoint of three programs. Their
jobs then go on or stop, and restart on as many nodes or others: no checkpoint is complete with unequal steps, without a rank or of a run before,
each is complete that nothing hinders, no restore mixes two, no rank has a copy beside it. SEED and ROUNDS choose others."""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import rounds  # noqa: E402
from cluster import tap  # noqa: E402


def faults_that_a_seed_draws():
    seed, count = int(os.environ.get("SEED", time.time_ns() % 10**6)), int(os.environ.get("ROUNDS", "200" if os.environ.get("LONG") else "10"))
    print(f"# SEED={seed} ROUNDS={count}", flush=True)
    rounds.run(seed, count)


if __name__ == "__main__":
    sys.exit(tap([faults_that_a_seed_draws], long=[faults_that_a_seed_draws]))
