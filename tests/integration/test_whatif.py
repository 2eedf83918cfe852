#!/usr/bin/python3
"""ckptctl whatif on a living cluster: its own jobs, restarts and outages become the simulation."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1s", "checkpoint_timeout": "20s", "grace": "1s"}


def cluster_is_asked_what_other_rules_would_have_wasted():
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        assert cluster.ctl("whatif", "--since", "1h", check=False).returncode == 3, "no job held nodes yet"
        cluster.register("one", [("a", 8, 4 << 20)], write_bytes_per_s=100000000)
        cluster.run_job("a", "one", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                     "--output", str(cluster.dir / "one.result")])
        wait_until("the job runs", lambda: cluster.jobs[0].application_pid(), 15)
        cluster.storage_down()
        wait_until("the outage is an event", lambda: "TARGET_DOWN" in cluster.ctl("events", "-o", "jsonl").stdout, 15)
        cluster.storage_up()
        reply = json.loads(cluster.ctl("whatif", "--since", "1h", "-o", "json").stdout)
        rules = {row["rule"]: row for row in reply["rules"]}
        assert set(rules) == {"model", "young-daly", "young-daly-paced", "every-1h", "every-6h", "none", "oracle"}, rules
        for row in rules.values():
            assert 0 < row["held_gpu_s"] < 8 * 3600, row
            assert 0 <= row["waste"] <= 1, row
        # the queue goes into the history; a file of it is replayed offline, with the same jobs and events
        cluster.ctl("queue", "report", "hpc", "--queued", "900s", "--running", "1000s", "--waiting", "big:9:64")
        wait_until("the queue is an event", lambda: "queue of hpc" in cluster.ctl("events").stdout, 15)
        wait_until("the outage is over", lambda: "TARGET_UP" in cluster.ctl("events", "-o", "jsonl").stdout, 15)
        trace = cluster.dir / "history"
        trace.write_text(cluster.ctl("history", "--since", "1h").stdout)
        lines = trace.read_text().splitlines()
        assert lines[0] == "ckpt-history 1" and sum(line.startswith("job ") for line in lines) == 1, lines
        for number in ("quiesce_s 2", "min_interval_s ", "max_interval_s 21600"):  # the cluster's own policy is replayed with it
            assert any(line.startswith("set " + number) for line in lines), (number, lines)
        for what in ("storage-down", "storage-up", "queue-busy 0"):
            assert any(line.startswith("event ") and line.endswith(what) for line in lines), (what, lines)
        replayed = json.loads(cluster.ctl("whatif", "--trace", str(trace), "-o", "json", endpoints="127.0.0.1:1").stdout)
        held = [row["held_gpu_s"] for row in replayed["rules"]]
        assert len(held) == len(rules) and abs(held[0] - rules["model"]["held_gpu_s"]) < 8 * 120, (held, rules)
        text = cluster.ctl("whatif", "--since", "1h", "--set", "failures_per_1000_node_days=6")
        assert "RULE" in text.stdout and "what really happened" in text.stderr, text


if __name__ == "__main__":
    sys.exit(tap([cluster_is_asked_what_other_rules_would_have_wasted]))
