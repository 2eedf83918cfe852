#!/usr/bin/python3
"""The recipe for clients in Node.js, run as deploy/CLIENTS.md has it, with npm's gRPC: kills, stops and long absences of members, TLS,
and the environment of a site with HTTP proxies. S1-072, K-004, V-021."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from clients import PROXIES, STEPS, Calls, fail_over_while_events_are_followed, kill_leader, run, stop_leader  # noqa: E402
from cluster import BUILD, ROOT, Cluster, tap  # noqa: E402
from recipes import node_events, node_example, node_recipe  # noqa: E402

MODULES = BUILD / "node" / "node_modules"
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.lower().startswith("no_")}, **PROXIES, "NODE_PATH": str(MODULES)}


class NodeClient(Calls):
    def __init__(self, cluster):
        super().__init__("node")
        recipe, site = cluster.dir / "recipe.js", cluster.site
        recipe.write_text(node_recipe())
        files = [str(f) for f in (site.ca, site.key("scheduler-test"), site.cert("scheduler-test"))] if site else []
        self.process = subprocess.Popen(
            ["node", str(ROOT / "tests" / "support" / "node_client.js"), str(recipe), str(ROOT / "proto"),
             ",".join(m.api for m in cluster.members), uuid.uuid4().hex, *files],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.done.append(json.loads(line))

    def refuse(self, allocation):
        self.process.stdin.write(allocation + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.reader.join()
        assert self.process.wait() == 0


def node_is_missing():
    if shutil.which("node") is None or not (MODULES / "@grpc" / "grpc-js").is_dir() or not (MODULES / "@grpc" / "proto-loader").is_dir():
        return "no node, or no @grpc/grpc-js and @grpc/proto-loader in build/node: deploy/install-deps.sh systems"
    return None


def node_is_served_through_kills_stops_and_absences():
    return node_is_missing() or run([NodeClient], False, *STEPS)


def node_is_served_with_tls():
    return node_is_missing() or run([NodeClient], True, kill_leader, stop_leader, kill_leader)


def the_example_registers_a_job():
    """As somebody would who copies the page; the second time it is refused, since each call has a request id of its own."""
    if node_is_missing():
        return node_is_missing()
    with Cluster() as cluster:
        cluster.start()
        for refused in (False, True):
            result = subprocess.run(["node", "-e", node_example([m.api for m in cluster.members])], capture_output=True, text=True, timeout=20,
                                    cwd=ROOT, env=ENVIRONMENT)
            assert ("ALLOCATION_EXISTS" in result.stderr) == refused, result
        assert cluster.allocation("12345").spec.nodes[0].gpu_count == 8
    return None


def events_are_followed_over_a_change_of_the_leader():
    """With what has its default value: `gap` is in each line as false."""
    if node_is_missing():
        return node_is_missing()
    with Cluster() as cluster:
        cluster.start()
        process = subprocess.Popen(["node", "-e", node_events([m.api for m in cluster.members])], stdout=subprocess.PIPE, text=True, cwd=ROOT,
                                   env=ENVIRONMENT)
        lines = []

        def read():
            for line in process.stdout:
                lines.append(line)

        reader = threading.Thread(target=read)
        reader.start()

        def seen():
            words = [line.split(" ") for line in list(lines) if "EVENT_KIND_" in line]
            assert all(len(w) == 4 and w[3] == "false\n" for w in words), words
            return [(int(w[0]), w[1], w[2]) for w in words]

        try:
            fail_over_while_events_are_followed(cluster, seen)
        finally:
            process.kill()
            reader.join()
            process.wait()
    return None


if __name__ == "__main__":
    sys.exit(tap([node_is_served_through_kills_stops_and_absences, node_is_served_with_tls, the_example_registers_a_job,
                  events_are_followed_over_a_change_of_the_leader]))
