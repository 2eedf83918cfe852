#!/usr/bin/python3
"""V-015: drills on a cluster of real processes: what refuses them, what they do, and what their reports say. The others are in tests/systems."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, tap, wait_until  # noqa: E402
from drills import Outside, ready, run, supervised  # noqa: E402
from jobs import POLICY, RUNNING, heat  # noqa: E402


def a_leader_that_is_killed_loses_nothing_and_the_report_says_so():
    with Cluster(members=3, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        refused = cluster.ctl("drill", "run", "leader-kill", "--yes", check=False)
        assert refused.returncode == 4 and "DRILL_UNSUPERVISED" in refused.stderr, refused
        plan = cluster.ctl("drill", "plan", "leader-kill", check=False)
        assert plan.returncode == 4 and "DOES NOT HOLD: DRILL_UNSUPERVISED" in plan.stdout, plan
        supervised(cluster)
        cluster.register("j", [("a", 1, 1 << 20)])
        cluster.run_job("a", "j", heat(cluster, "j"))
        wait_until("j runs", lambda: cluster.allocation("j").state == RUNNING, 20)
        led = cluster.leader()
        with Outside(cluster) as outside:
            result = run(cluster, "leader-kill", "--job", "j", "--duration", "5s")
        drill = result["drill"]
        assert (drill["state"], drill["member_id"]) == ("PASSED", led.id), result
        assert "event=drill_fault " in led.log.read_text(), "it was killed by nothing of a drill"
        assert drill["new_leader_id"] not in (0, led.id) and drill["checkpoint_complete"], result
        words = {member["member_id"]: member["word"] for member in drill["members"]}
        assert set(words) == {1, 2, 3} and all(word["probes"] > 0 for word in words.values()), words
        assert 0 < result["detect_ms"] <= result["elected_ms"] <= result["commit_ms"], result
        print(f"# away {result['away_p50_ms']} and {result['away_max_ms']} ms by members, {outside.away_ms:.0f} ms by a client", flush=True)
        listed = json.loads(cluster.ctl("drill", "list", "-o", "json").stdout)["drills"]
        assert [(d["drill"]["kind"], d["drill"]["state"]) for d in listed] == [("LEADER_KILL", "PASSED")], listed
        page = cluster.dir / "report.html"
        cluster.ctl("drill", "report", "1", "--html", str(page))
        assert "<b class=\"v PASSED\">PASSED</b>" in page.read_text() and "http" not in page.read_text(), page.read_text()
        text = cluster.ctl("drill", "report").stdout
        assert "drill 1: leader-kill, PASSED" in text and "acknowledged changes lost" in text, text
        cluster.debug_check()


def a_leader_that_hangs_and_a_member_that_is_cut_off_cost_nothing_that_was_acknowledged():
    with Cluster(members=3, policy=POLICY, tls=True) as cluster:
        cluster.start()
        ready(cluster, "leader-hang")
        led = cluster.leader()
        result = run(cluster, "leader-hang", "--duration", "5s")
        drill = result["drill"]
        assert (drill["state"], drill["member_id"]) == ("PASSED", led.id) and drill["new_leader_id"] != led.id, result
        assert led.running() and 0 < result["detect_ms"] <= result["elected_ms"], result
        print(f"# hang: away {result['away_p50_ms']} and {result['away_max_ms']} ms", flush=True)
        ready(cluster, "member-loss")
        led = cluster.leader()
        result = run(cluster, "member-loss", "--duration", "2s")
        drill = result["drill"]
        lost = next(m for m in cluster.members if m.id == drill["member_id"])
        assert drill["state"] == "PASSED" and lost is not led and cluster.leader() is led and drill["new_term"] == 0, result
        assert "event=drill_fault_over" in lost.log.read_text(), lost.log.read_text()
        word = next(m["word"] for m in drill["members"] if m["member_id"] == lost.id)
        assert word["fault_done"] and result["away_max_ms"] < 2000, result
        print(f"# loss: away {result['away_p50_ms']} and {result['away_max_ms']} ms", flush=True)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([a_leader_that_is_killed_loses_nothing_and_the_report_says_so,
                  a_leader_that_hangs_and_a_member_that_is_cut_off_cost_nothing_that_was_acknowledged]))
