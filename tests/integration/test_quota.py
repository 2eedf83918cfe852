#!/usr/bin/python3
"""Limits of a tenant, through ckptctl and a real job: what would expire first goes, two stay, then checkpoints that can wait are refused.
I56."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import Cluster, checkpoint_text, metric, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402

QUOTA, REFUSED, EXPIRED = 27, 2, 3
PATIENT = {**POLICY, "min_interval": "1h", "max_interval": "2h", "retention": "7d"}


def told(cluster, change):
    return [e for e in cluster.events() if e.kind == QUOTA and e.new_state == change]


def tenant(cluster):
    listed = json.loads(cluster.ctl("tenants", "-o", "json").stdout)
    return listed[0] if isinstance(listed, list) else listed["tenants"][0]


def a_limit_lets_the_oldest_go_and_then_refuses():
    with Cluster(members=3, agents=("a",), policy=PATIENT) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        made = [complete(cluster, "j").checkpoint_id for _ in range(4)]
        stored = int(tenant(cluster)["stored_bytes"])
        name = tenant(cluster)["spec"]["tenant"]
        each = stored // 4
        assert each > 0 and "-" in cluster.ctl("tenants").stdout
        cluster.ctl("tenant", "put", name, "--max-bytes", str(3 * each + each // 2))
        wait_until("the oldest goes", lambda: [e.checkpoint_id for e in told(cluster, EXPIRED)] == made[:1], 30)
        wait_until("its folder is gone", lambda: int(tenant(cluster)["stored_bytes"]) <= 3 * each + 4096, 30)
        refused = cluster.ctl("hint", "j", check=False)
        assert refused.returncode == 4 and "TENANT_OVER_QUOTA" in refused.stderr, refused
        wait_until("room is made", lambda: len(told(cluster, EXPIRED)) == 2, 30)
        wait_until("and taken", lambda: cluster.ctl("hint", "j", check=False).returncode == 0, 60)
        wait_until("three are there", lambda: int(tenant(cluster)["stored_bytes"]) > 2 * each + each // 2, 60)
        cluster.ctl("tenant", "put", name, "--max-bytes", "1")
        wait_until("one more goes", lambda: len(told(cluster, EXPIRED)) == 3, 60)  # after a look that found nothing to let go the next one is 30 s later
        refused = cluster.ctl("hint", "j", check=False)
        assert refused.returncode == 4 and "may have 1" in refused.stderr, refused
        status = cluster.ctl("status").stdout
        assert f"checkpoints of tenant {name} are refused: it has " in status and "of 1 bytes" in status, status
        wait_until("two stay", lambda: 0 < int(tenant(cluster)["stored_bytes"]) <= 2 * each + 4096, 30)
        assert checkpoint_text(made[3]) in cluster.ctl("checkpoints", "j").stdout
        leader = cluster.leader()
        assert metric(leader.http, "ckpt_tenant_over_quota") == 1
        events = cluster.ctl("events", "j").stdout
        assert "is deleted early" in events and "has no room for a checkpoint" in events, events
        leader.kill()
        cluster.wait_leader()
        refused = cluster.ctl("hint", "j", check=False)
        assert refused.returncode == 4 and "TENANT_OVER_QUOTA" in refused.stderr, refused
        cluster.ctl("hint", "j", "--after", "stop")  # a stop is never refused
        wait_until("it stops with what it has", lambda: "SUSPENDED" in cluster.ctl("job", "j").stdout.upper(), 60)
        leader.start()
        cluster.debug_check()


def what_cannot_be_is_refused_with_its_limit():
    with Cluster(members=1, agents=(), policy=POLICY) as cluster:
        cluster.start()
        refused = cluster.ctl("tenant", "put", "physics", "--keep", "33", check=False)
        assert refused.returncode == 2 and "32" in refused.stderr, refused
        refused = cluster.ctl("tenant", "put", "physics", "--keep", "1", check=False)  # the newest one may turn out to be damaged
        assert refused.returncode == 2 and "keep_complete" in refused.stderr and "found 1, limit 2" in refused.stderr, refused
        refused = cluster.ctl("tenant", "put", "physics", check=False)
        assert refused.returncode == 2 and "--max-bytes" in refused.stderr, refused
        cluster.ctl("tenant", "put", "physics", "--max-bytes", "10TB", "--keep", "3", "--retention", "14d")
        line = cluster.ctl("tenants").stdout.splitlines()[1].split()
        assert line[0] == "physics" and "3" in line and any(word.startswith("14d") for word in line), line
        cluster.ctl("tenant", "put", "physics", "--keep", "0")
        assert int(tenant(cluster)["spec"]["max_bytes"]) == 10 ** 13
        assert int(tenant(cluster)["spec"].get("keep_complete", 0)) == 0


if __name__ == "__main__":
    sys.exit(tap([a_limit_lets_the_oldest_go_and_then_refuses, what_cannot_be_is_refused_with_its_limit]))
