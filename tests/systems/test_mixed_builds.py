#!/usr/bin/python3
"""U-001, U-002, U-003, V-013: members and agents of the last release and of this build in one cluster, in both orders, under load. The release is built from
the history (a minute of two cores, once); a build that is yet to come is this one with one field more."""
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, ROOT, Cluster, broker_pb2, common_pb2, grpc, operator_pb2, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402
from releases import patched_programs, release_programs, released  # noqa: E402

SEED = random.randrange(2 ** 32)


class Load(threading.Thread):
    """Writes of many kinds, one after the other; each acknowledged registration must be there at the end."""

    def __init__(self, cluster):
        super().__init__()
        self.client, self.random = cluster.client, random.Random(SEED)
        self.stop, self.acknowledged, self.failed = threading.Event(), [], None

    def one(self, number):
        name = f"load-{number}"
        spec = common_pb2.AllocationSpec(allocation_id=name, tenant="physics", project="load", vcluster="hpc", profile="signal",
                                         nodes=[common_pb2.NodeShare(node_id=f"x{number % 7}", gpu_count=1, gpu_memory_used_bytes=MIB)])
        self.client.broker("RegisterAllocation", broker_pb2.RegisterAllocationRequest(request_id=uuid.uuid4().hex, spec=spec), timeout_s=30)
        self.acknowledged.append(name)
        kind = self.random.randrange(4)
        if kind == 0:
            self.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id=name), timeout_s=30)
        elif kind == 1:
            self.client.broker("ReportQueue", broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="hpc", queued_gpu_ms=number, running_gpu_ms=1), timeout_s=30)
        elif kind == 2:
            self.client.operator("SetPolicy", operator_pb2.SetPolicyRequest(request_id=uuid.uuid4().hex, policy=common_pb2.Policy(grace_ms=1000 + number)), timeout_s=30)

    def run(self):
        number = 0
        try:
            while not self.stop.is_set():
                self.one(number)
                number += 1
        except Exception as error:  # noqa: BLE001
            self.failed = error

    def end(self):
        self.stop.set()
        self.join()
        assert self.failed is None, self.failed


def level(cluster):
    return cluster.client.operator("GetPolicy", operator_pb2.GetPolicyRequest()).policy.feature_level


def exchange(cluster, member, program):
    """As an operator does it: stopped by SIGTERM, another program, started, and waited for."""
    member.kill(15)
    assert member.process.wait(20) == 0, member.name
    member.program = program
    member.start()
    wait_until(f"{member.name} has caught up", lambda: caught_up(cluster, member), 30, 0.1)


def caught_up(cluster, member):
    status = cluster.client.operator("Status", operator_pb2.StatusRequest(), timeout_s=30)
    return any(one.name == member.name and one.reachable and (one.lag_entries < 100 or one.name == status.leader_name) for one in status.members)


def begin(programs, agents=("a",), old_agents=(), old=None):
    """The old agents, and what runs under them, are of the release in the folder old."""
    cluster = Cluster(members=3, agents=(*agents, *old_agents), policy=POLICY)
    for member, program in zip(cluster.members, programs):
        member.program = program
    for name in old_agents:
        cluster.agents[name].program = old / "ckpt-agentd"
    cluster.start()
    return cluster


def members_are_exchanged_one_by_one_under_load():
    """From the release to this build; one goes back and forth; the leader is killed in the middle. The level rises when the last one knows it."""
    old = release_programs(released()[-1][2])
    if isinstance(old, str):
        return old
    print(f"# seed {SEED}", flush=True)
    with begin([old / "ckptd"] * 3, old_agents=("b",), old=old) as cluster:
        cluster.register("job", [("a", 1, MIB)], restart=0)  # the other build knows no such field
        cluster.run_job("a", "job", heat(cluster, "job.a"))
        cluster.register("old", [("b", 1, MIB)], restart=0)
        cluster.run_job("b", "old", heat(cluster, "old.b"), program=old / "ckpt-run")
        all_run(cluster)
        load = Load(cluster)
        load.start()
        both_complete(cluster)
        leader = cluster.wait_leader()
        followers = [member for member in cluster.members if member is not leader]
        exchange(cluster, followers[0], None)
        refused = cluster.ctl("upgrade", "finalize", "--yes", check=False)
        assert refused.returncode == 4 and "the leader itself is behind" in refused.stderr, refused.stderr
        planned = cluster.ctl("upgrade", "plan", check=False)
        assert planned.returncode == 0 and steps_of(planned) == ["agents", followers[1].name, leader.name, "ckptctl"], planned.stdout + planned.stderr
        exchange(cluster, followers[1], None)
        cluster.wait_leader().kill()  # one of the new ones leads an old one, or none is left
        for member in cluster.members:
            if not member.running():
                member.start()
        both_complete(cluster)
        exchange(cluster, followers[0], old / "ckptd")  # and back
        both_complete(cluster)
        exchange(cluster, followers[0], None)
        cluster.client.operator("TransferLeadership", operator_pb2.MemberRequest(request_id=uuid.uuid4().hex, name=followers[0].name), timeout_s=30)
        wait_until("a new build leads", lambda: cluster.wait_leader() is not leader, 20)
        refused = cluster.ctl("upgrade", "finalize", "--yes", check=False)
        assert refused.returncode == 4 and "FEATURE_LEVEL" in refused.stderr and f"behind: {leader.name}" in refused.stderr, refused.stderr
        exchange(cluster, leader, None)
        assert level(cluster) == 0
        both_complete(cluster)
        told = cluster.ctl("upgrade", "finalize", "--yes").stderr
        assert "rises 1 -> 2 for good" in told and "agents of 1 nodes are of a lower level" in told, told
        assert level(cluster) == 2
        both_complete(cluster)  # an agent of the release goes on
        cluster.agents["b"].kill(15)
        cluster.agents["b"].process.wait(30)
        cluster.agents["b"].program = None
        cluster.agents["b"].start()
        wait_until("the new agent is heard", lambda: cluster.ctl("upgrade", "status", "-o", "json").stdout.count('"behind": true') == 0, 30)
        both_complete(cluster)
        load.end()
        missing = [name for name in load.acknowledged if not known(cluster, name)]
        assert not missing, missing
        print(f"# {len(load.acknowledged)} jobs were registered meanwhile", flush=True)
        assert all(member.running() for member in cluster.members)
        cluster.debug_check()


def both_complete(cluster):
    """The job of an agent of this build, and that of one of the release."""
    complete(cluster, "job")
    complete(cluster, "old")


def steps_of(planned):
    """Whom each step of a plan is about."""
    return [line.split()[1] for line in planned.stdout.splitlines() if line.strip()[:1].isdigit()]


def each_member_goes_forth_and_back_before_finalize():
    """U-003: until the level rises, all of them can run the release again, one by one, and then this build for good."""
    old = release_programs(released()[-1][2])
    if isinstance(old, str):
        return old
    with begin([old / "ckptd"] * 3, agents=(), old_agents=("b",), old=old) as cluster:
        cluster.register("old", [("b", 1, MIB)], restart=0)
        cluster.run_job("b", "old", heat(cluster, "old.b"), program=old / "ckpt-run")
        all_run(cluster)
        load = Load(cluster)
        load.start()
        for program in (None, old / "ckptd", None):
            leader = cluster.wait_leader()
            for member in sorted(cluster.members, key=lambda one: one is leader):
                exchange(cluster, member, program)
            complete(cluster, "old")
            assert level(cluster) == 0
        load.end()
        missing = [name for name in load.acknowledged if not known(cluster, name)]
        assert not missing, missing
        cluster.ctl("upgrade", "finalize", "--yes")
        complete(cluster, "old")
        cluster.debug_check()


def a_canary_is_put_back_to_the_release():
    """By ckptd-start, when one of its checks fails; the member goes on with what the new build wrote."""
    old = release_programs(released()[-1][2])
    if isinstance(old, str):
        return old
    with begin([old / "ckptd"] * 3, agents=(), old_agents=("b",), old=old) as cluster:
        cluster.register("old", [("b", 1, MIB)], restart=0)
        cluster.run_job("b", "old", heat(cluster, "old.b"), program=old / "ckpt-run")
        all_run(cluster)
        canary = next(member for member in cluster.members if member is not cluster.wait_leader())
        start, state = ROOT / "deploy" / "ckptd-start", cluster.dir / "start"
        state.mkdir()
        os.environ.update(CKPT_START_BUILDS=str(cluster.dir / "lib"), CKPT_START_STATE=str(state))
        for folder in (old, BIN):
            subprocess.run([str(start), "--install", str(folder)], check=True, stdout=subprocess.DEVNULL)
        canary.prefix = [str(ROOT / "tests" / "support" / "supervise.py")]
        exchange(cluster, canary, start)
        cluster.ctl("upgrade", "canary", canary.name, "15m", "--no-wait")
        complete(cluster, "old")
        for _ in range(3):
            for name in [member.name for member in cluster.members if member is not canary]:
                cluster.ctl("transfer", name)
        wait_until("the release runs again", lambda: version_of(cluster, canary).startswith(released()[-1][1]), 30)
        assert "event=put_back" not in canary.log.read_text() and "event=canary_failed" in canary.log.read_text()
        wait_until("it has caught up", lambda: caught_up(cluster, canary), 30, 0.1)
        complete(cluster, "old")
        cluster.debug_check()


def version_of(cluster, member):
    status = json.loads(cluster.ctl("upgrade", "status", "-o", "json").stdout)["upgrade"]
    return next(one["build"] for one in status["members"] if one["name"] == member.name)


def known(cluster, name):
    try:
        cluster.client.broker("GetAllocation", broker_pb2.GetAllocationRequest(allocation_id=name))
    except grpc.RpcError:
        return False
    return True


def a_cluster_that_both_found_begins_with_what_both_know():
    """The release leads members of this build, and is led by one; nobody stops, and the states stay equal."""
    old = release_programs(released()[-1][2])
    if isinstance(old, str):
        return old
    with begin([old / "ckptd", None, None]) as cluster:
        cluster.register("job", [("a", 1, MIB)], restart=0)  # the other build knows no such field
        cluster.run_job("a", "job", heat(cluster, "job.a"))
        all_run(cluster)
        load = Load(cluster)
        load.start()
        assert level(cluster) == 0
        for name in ("n1", "n2", "n1", "n3"):
            cluster.client.operator("TransferLeadership", operator_pb2.MemberRequest(request_id=uuid.uuid4().hex, name=name), timeout_s=30)
            wait_until(f"{name} leads", lambda name=name: cluster.wait_leader().name == name, 20)
            complete(cluster, "job")
        load.end()
        assert all(member.running() for member in cluster.members)
        cluster.debug_check()


def add_a_field(folder):
    """What the next release may do: level 3, with a field of the policy."""
    proto = folder / "proto" / "ckpt" / "v1" / "common.proto"
    text = proto.read_text()
    proto.write_text(text.replace("  uint64 zeros = 60;", "  uint32 next_thing = 999 [(ckpt.v1.level) = 3];\n  uint64 zeros = 60;"))
    header = folder / "fsm" / "message_level.h"
    assert "FSM_LEVEL_NEWEST = 2" in header.read_text()
    header.write_text(header.read_text().replace("FSM_LEVEL_NEWEST = 2", "FSM_LEVEL_NEWEST = 3"))


def a_member_that_is_behind_stops_and_is_told_what_it_needs():
    """... with an exit code of its own, and goes on with the right program: nothing is damaged."""
    newer = patched_programs("next", add_a_field)
    with begin([newer / "ckptd"] * 3, agents=()) as cluster:
        wait_until("a level", lambda: level(cluster) == 3, 20)
        leader = cluster.wait_leader()
        behind = next(member for member in cluster.members if member is not leader)
        behind.kill(15)
        behind.process.wait(20)
        behind.program = BIN / "ckptd"
        behind.start(wait=False)
        assert behind.process.wait(30) == 6, behind.log.read_text()[-2000:]
        told = behind.log.read_text().splitlines()[-1]
        assert "code=NEWER" in told and "feature level 2" in told and "'Another build of ckptd'" in told and "dmesg" not in told, told
        behind.program = newer / "ckptd"
        behind.start()
        wait_until("it has caught up", lambda: caught_up(cluster, behind), 30, 0.1)
        cluster.debug_check()
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(tap([members_are_exchanged_one_by_one_under_load, a_cluster_that_both_found_begins_with_what_both_know,
                  each_member_goes_forth_and_back_before_finalize],
                 long=[a_member_that_is_behind_stops_and_is_told_what_it_needs, a_canary_is_put_back_to_the_release]))
