"""Thousands of agents in one process (tests/bench/agents_main.c), beside a cluster of real ones."""
import json
import os
import subprocess

from cluster import BIN


class Crowd:
    """The load program: a line of words begins a phase, a line of JSON ends it."""

    def __init__(self, cluster, count):
        self.count = count
        self.process = subprocess.Popen([BIN.parent / "bench" / "agents", ",".join(m.api for m in cluster.members), str(count),
                                         *([cluster.site.dir] if cluster.site else [])], env={**os.environ, **(cluster.site.environment("operator-test") if cluster.site else {})},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def told(self, phase):
        line = self.process.stdout.readline()
        assert line, f"the load program has ended before {phase}: {self.process.wait()}"
        told = json.loads(line)
        assert told["phase"] == phase, told
        return told

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
