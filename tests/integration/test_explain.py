#!/usr/bin/python3
"""Explain on a live cluster: now, earlier, and from the log; a decision is the same one, to the bit, under every later leader and after
every restart. E-rows, S1-018."""
import json
import pathlib
import struct
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, common_pb2, metric, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1s", "checkpoint_timeout": "20s", "grace": "1s", "quiesce": "1ms",
          "near_completion": "1s"}
COMPLETE = 5


def explanation(cluster, *arguments, **options):
    return json.loads(cluster.ctl("explain", *arguments, "-o", "json", **options).stdout)["explanation"]


def runs(cluster, name):
    cluster.run_job("a", name, [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                "--output", str(cluster.dir / f"{name}.result")])
    wait_until(f"{name} runs", lambda: cluster.allocation(name).state == common_pb2.ALLOCATION_STATE_RUNNING, 20)


def without_clock(explained):
    """What a decision of the log says whoever is asked, and whenever."""
    gone = ("asked_at_ms", "grant", "data_age_ms", "oldest_ms")
    return {key: value for key, value in explained.items() if key not in gone}


def a_decision_is_reproduced_after_failover_and_after_restart_of_all():
    with Cluster(agents=("a",), policy=POLICY, raft={"snapshot_after_entries": 100}) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, 4 << 20)], period_ms=2000)
        cluster.run_job("a", "job", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                     "--output", str(cluster.dir / "result")])
        decided = wait_until("a decided checkpoint is complete",
                             lambda: next((c for c in cluster.checkpoints("job", state=COMPLETE) if c.HasField("terms")), None), 40)
        identifier = f"{decided.checkpoint_id >> 40}-{decided.checkpoint_id & ((1 << 40) - 1)}"
        first = explanation(cluster, "--checkpoint", identifier)
        assert first["source"] == "LOG" and first["match"] == "SAME", first
        assert first["checkpoint"] is True and first["index"] > 0 and first["checkpoint_id"] == identifier
        for item in first["inputs"]:  # the texts are the bits
            if item["name"] != "flags":
                assert struct.pack("<d", float(item["value"])) == struct.pack("<Q", item["bits"]), item
        assert "reproduced bit for bit" in cluster.ctl("explain", "--checkpoint", identifier).stdout

        dead = cluster.wait_leader()
        dead.kill()
        cluster.wait_leader()
        assert without_clock(explanation(cluster, "--checkpoint", identifier)) == without_clock(first)
        dead.start()

        for i in range(150):  # beyond a snapshot: the state itself carries what the decision was made from
            cluster.client.broker("ReportQueue", broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="hpc",
                                                                              queued_gpu_ms=i))
        wait_until("all wrote a snapshot",
                   lambda: all(metric(m.http, "ckpt_raft_snapshots_total") >= 1 for m in cluster.members), 30)
        for member in cluster.members:
            member.kill()
        for member in cluster.members:
            member.start()
        cluster.wait_leader()
        assert without_clock(explanation(cluster, "--checkpoint", identifier)) == without_clock(first)
        for member in cluster.members:  # each of them, leader or not
            answer = wait_until(f"{member.name} knows it",
                                lambda m=member: cluster.ctl("explain", "--checkpoint", identifier, "--stale", "-o", "json",
                                                             endpoints=m.api, check=False), 20)
            assert without_clock(json.loads(answer.stdout)["explanation"]) == without_clock(first), member.name
        cluster.debug_check()


def the_last_evaluation_is_explained_and_what_is_too_old_says_from_when_on():
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("quiet", [("a", 1, 4 << 20)])
        starting = cluster.ctl("explain", "quiet", check=False)
        assert starting.returncode == 3 and "STARTING" in starting.stderr, starting
        runs(cluster, "quiet")
        wait_until("it was evaluated", lambda: cluster.ctl("explain", "quiet", check=False).returncode == 0, 20)
        now = explanation(cluster, "quiet")
        assert now["source"] == "LAST" and now["match"] == "UNSPECIFIED"
        names = {item["name"] for item in now["inputs"]}
        assert {"age_s", "hazard_factor", "flags", "phi_gpu_s_per_byte"} <= names
        agents = next(item for item in now["inputs"] if item["name"] == "hazard_factor")
        assert agents["heard"] and agents["aged"] and agents["age_ms"] < 10000, agents
        assert agents["source"] == "heartbeats of its nodes: node a", agents
        refused = cluster.ctl("explain", "quiet", "--at", "1h", check=False)
        assert refused.returncode == 3 and "TOO_OLD" in refused.stderr and "the oldest instant" in refused.stderr, refused
        text = cluster.ctl("explain", "quiet").stdout
        for line in (" value ", " cost ", " flips when: ", " guards: ", " grant: ", "TERM ", "INPUT "):
            assert line in text, f"{line} is not in:\n{text}"


def what_is_reported_flips_the_decision_when_it_is_done():
    """The smallest change, done by its owner or by the operator in the running cluster: another strategy, storage that is back."""
    with Cluster(agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, 4 << 20)], period_ms=2000, strategy=common_pb2.STRATEGY_MANUAL)
        cluster.run_job("a", "job", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                     "--output", str(cluster.dir / "result")])

        def change(verdict):
            answer = cluster.ctl("explain", "job", "-o", "json", check=False)
            now = json.loads(answer.stdout)["explanation"] if answer.returncode == 0 else None
            return now["change"] if now and now["terms"]["verdict"] == verdict and now["change"] else None
        told = wait_until("the strategy alone holds it", lambda: change("strategy_not_auto"), 20)
        assert (told["input"], told["cleared"]) == ("flags", "not_auto"), told
        assert "flag not_auto cleared" in cluster.ctl("explain", "job").stdout
        assert not cluster.checkpoints("job")
        cluster.storage_down()
        wait_until("the outage is seen", lambda: "unavailable" in cluster.ctl("targets").stdout, 15)
        cluster.ctl("update", "job", "--strategy", "AUTO")
        told = wait_until("the storage alone holds it", lambda: change("storage_unavailable"), 15)
        assert (told["input"], told["cleared"]) == ("flags", "storage_down"), told
        assert not cluster.checkpoints("job"), "nothing fires in an outage"
        cluster.storage_up()
        wait_until("it is checkpointed", lambda: cluster.checkpoints("job", state=COMPLETE), 20)


def a_policy_is_checked_by_the_log_and_holds_at_once():
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for pairs, name in ((["min_interval=7h"], "min_interval_ms (limited by max_interval_ms)"), (["evaluation_interval=10ms"], "evaluation_interval_ms"),
                            (["grace=5s", "stall_fraction=200%"], "stall_fraction_ppm"), (["scale_cooldown=2d"], "scale_cooldown_ms")):
            refused = cluster.ctl("policy", "set", *pairs, check=False)
            assert refused.returncode == 2 and f"INVALID_ARGUMENT: {name}: " in refused.stderr, refused
        policy = json.loads(cluster.ctl("policy", "get", "-o", "json").stdout)["policy"]
        assert (policy["min_interval_ms"], policy["grace_ms"]) == (1000, 1000), policy
        assert policy["owner_rule"] == "REGISTERED", policy
        refused = cluster.ctl("policy", "set", "owner_rule=nobody", check=False)
        assert refused.returncode != 0 and "owner_rule" in refused.stderr, refused
        cluster.ctl("policy", "set", "owner_rule=first", "scale_cooldown=0s")
        policy = json.loads(cluster.ctl("policy", "get", "-o", "json").stdout)["policy"]
        assert (policy["owner_rule"], policy["scale_cooldown_ms"]) == ("FIRST", 0), policy
        shown = next(line.split() for line in cluster.ctl("policy", "get").stdout.splitlines() if line.startswith("owner_rule"))
        assert shown == ["owner_rule", "FIRST", "FIRST"], shown
        cluster.ctl("policy", "set", "evaluation_interval=1h")
        cluster.register("job", [("a", 1, 4 << 20)])
        runs(cluster, "job")
        wait_until("the hour has begun", lambda: cluster.ctl("explain", "job", check=False).returncode in (0, 3), 10)
        cluster.ctl("policy", "set", "evaluation_interval=500ms")  # and not an hour later
        first = wait_until("it is evaluated", lambda: cluster.ctl("explain", "job", "-o", "json", check=False).stdout, 10)
        wait_until("and again", lambda: json.loads(first)["explanation"]["evaluated_at_ms"] != explanation(cluster, "job")["evaluated_at_ms"], 10)


if __name__ == "__main__":
    sys.exit(tap([a_decision_is_reproduced_after_failover_and_after_restart_of_all,
                  the_last_evaluation_is_explained_and_what_is_too_old_says_from_when_on,
                  what_is_reported_flips_the_decision_when_it_is_done, a_policy_is_checked_by_the_log_and_holds_at_once]))
