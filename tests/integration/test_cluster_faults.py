#!/usr/bin/python3
"""Faults of members, disks, networks and clocks under load: nothing acknowledged is lost or done twice, and the states stay equal.
I1, I5, I6, I7, I12, L1, L5, L7, S1-062.

Flow    every test starts its own cluster with small snapshots and load on it, breaks something, and judges at the end what the
        clients were told (support/workload.py).
Absent  what needs tools or rights that the machine lacks is skipped with the reason.
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, broker_pb2_grpc, grpc, http_status, metric, often, tail, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402
from netns import Network, refused  # noqa: E402
from workload import Load, spec  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
KILLS = int(os.environ.get("KILLS", 12))
RAFT = {"snapshot_after_entries": 200}


def members_killed_stopped_and_cut_off_from_power_lose_nothing():
    print(f"# SEED={SEED}")
    draw = random.Random(SEED)
    with Cluster(raft=RAFT) as cluster:
        cluster.start()
        load = Load(cluster, seed=SEED, pause_s=often(0.03, 0.001), attempt_s=0.5)
        for _ in range(KILLS):
            time.sleep(draw.random() * 0.4)  # the moment of the fault is what is drawn here
            leader = cluster.wait_leader()
            kind = draw.choice(["leader", "leader", "follower", "two", "all", "stopped", "term"])
            if kind == "stopped":
                leader.kill(signal.SIGSTOP)
                time.sleep(1 + draw.random())
                leader.kill(signal.SIGCONT)
                continue
            victims = {"leader": [leader], "term": [leader], "all": cluster.members, "two": draw.sample(cluster.members, 2),
                       "follower": [draw.choice([m for m in cluster.members if m is not leader])]}[kind]
            for victim in victims:
                victim.kill(signal.SIGTERM if kind == "term" else signal.SIGKILL)
                if kind == "term":
                    assert victim.process.wait(20) == 0
            time.sleep(draw.random() * 0.3)
            for victim in draw.sample(victims, len(victims)):
                victim.start(wait=False)
        load.progress()
        load.verdict()


def a_member_killed_while_it_installs_a_snapshot_catches_up():
    """I12, L5."""
    draw = random.Random(SEED)
    with Cluster(raft={"snapshot_after_entries": 100}) as cluster:
        cluster.start()
        load = Load(cluster, clients=6, seed=SEED, pause_s=often(0.03, 0.001), attempt_s=0.5)
        follower = next(m for m in cluster.members if m is not cluster.wait_leader())
        for _ in range(3):
            follower.kill()
            snapshots = metric(cluster.wait_leader().http, "ckpt_raft_snapshots_total")
            wait_until("the others drop the log that it needs",
                       lambda: metric(cluster.wait_leader().http, "ckpt_raft_snapshots_total") >= snapshots + 3, 20)
            for _ in range(4):
                follower.start(wait=False)
                time.sleep(0.03 + draw.random() * 0.15)
                assert follower.running(), tail(follower.log)
                follower.kill()
            follower.start()
        load.verdict()


def damaged_files_are_named_and_never_served():
    """S1-062, K-003: a file that was changed, emptied or removed is refused with its path, or replaced by what says the same."""
    with Cluster(raft=RAFT) as cluster:
        cluster.start()
        for i in range(500):
            cluster.register(f"a{i}", [("n", 1, 1)])
        victim = next(m for m in cluster.members if m is not cluster.wait_leader())
        wait_until("it has two snapshots", lambda: len(list(victim.data_dir.glob("snapshot-*"))) == 2, 10)
        victim.kill()
        whole = cluster.dir / "whole"
        shutil.copytree(victim.data_dir, whole)

        def newest(kind):
            return sorted(path.name for path in whole.glob(f"{kind}*"))[-1]
        content = (whole / newest("wal-")).read_bytes()
        used = len(content.rstrip(b"\0"))
        inside = content.index(b"physics", used // 2)  # of a record: between two lie up to seven bytes that say nothing

        def flip(offset):
            def change(path):
                content = bytearray(path.read_bytes())
                content[offset] ^= 4
                path.write_bytes(content)
            return change

        cases = [("vote", pathlib.Path.unlink, False), ("vote", lambda p: os.truncate(p, 0), False),
                 ("identity", flip(20), False), ("identity", pathlib.Path.unlink, False), ("wal-", flip(3), False),
                 ("wal-", flip(inside), False), ("wal-", lambda p: os.truncate(p, 0), False),
                 ("wal-", lambda p: os.truncate(p, used // 2), False), ("wal-", pathlib.Path.unlink, False),
                 ("vote", flip(10), True), ("snapshot-", flip(200), True), ("snapshot-", lambda p: os.truncate(p, 100), True)]
        for kind, change, starts in cases:
            name = newest(kind)
            shutil.rmtree(victim.data_dir)
            shutil.copytree(whole, victim.data_dir)
            change(victim.data_dir / name)
            before = victim.log.stat().st_size
            victim.start(wait=False)
            wait_until("it starts or gives up", lambda: http_status(victim.http, "/readyz") == 200 or not victim.running(), 10)
            text = victim.log.read_bytes()[before:].decode(errors="replace")
            assert victim.running() == starts, f"{name}: {text[-600:]}"
            if starts:
                cluster.debug_check()
                victim.kill()
                # it may have acknowledged more meanwhile: what it had before would be an older copy, and is refused as one
                shutil.rmtree(whole)
                shutil.copytree(victim.data_dir, whole)
            else:
                assert "event=start_failed" in text and str(victim.data_dir) in text, text
        shutil.rmtree(victim.data_dir)
        shutil.copytree(whole, victim.data_dir)
        victim.start()
        second = subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", victim.name, "--data-dir",
                                 str(victim.data_dir)], capture_output=True, text=True, timeout=10)
        assert second.returncode == 1 and "LOCKED" in second.stderr + second.stdout
        cluster.debug_check()


@needs("mount", "umount")
def a_full_disk_of_the_leader_stops_nobody():
    """L7."""
    cluster = Cluster(raft=RAFT)
    for member in cluster.members:
        member.data_dir.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "none", str(member.data_dir)], check=True)
    with cluster:
        try:
            cluster.start()
            load = Load(cluster, seed=SEED, pause_s=often(0.03, 0.001), attempt_s=0.5)
            load.progress()
            full = cluster.wait_leader()
            try:
                with open(full.data_dir / "ballast", "wb", buffering=0) as ballast:
                    while True:
                        ballast.write(bytes(65536))
            except OSError:
                pass
            wait_until("it says so", lambda: "event=disk_low" in full.log.read_text(), 10)
            wait_until("another member leads", lambda: cluster.leader() not in (None, full), 10)
            load.progress()
            assert http_status(full.http, "/readyz") == 503
            result = cluster.ctl("transfer", full.name, check=False)
            assert result.returncode == 4 and f"the disk of {full.name} is nearly full" in result.stderr and "make room" in result.stderr, result
            (full.data_dir / "ballast").unlink()
            wait_until("it takes writes again", lambda: http_status(full.http, "/readyz") == 200, 15)
            wait_until("it is handed leadership again", lambda: cluster.ctl("transfer", full.name, check=False).returncode == 0, 15, 0.5)
            load.verdict()
        finally:
            for member in cluster.members:
                if member.running():
                    member.kill()
                subprocess.run(["umount", "--lazy", str(member.data_dir)], check=True)


def acknowledged_alone(member, name):
    """Whether this one member acknowledges a write, asked without following hints."""
    with grpc.insecure_channel(member.api, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            broker_pb2_grpc.BrokerServiceStub(channel).RegisterAllocation(
                broker_pb2.RegisterAllocationRequest(request_id=uuid.uuid4().hex, spec=spec(name, 1000000000)), timeout=0.7)
            return True
        except grpc.RpcError:
            return False


@needs("ip", "nft", "nsenter", probe=refused)
def a_minority_acknowledges_nothing_and_catches_up():
    """F-001, F-010, I1, I6, I7."""
    cluster = Cluster(raft=RAFT)
    network = Network(cluster, raft=RAFT)
    with cluster:
        try:
            cluster.start()
            load = Load(cluster, seed=SEED, pause_s=often(0.03, 0.001), attempt_s=0.5)
            for kind in ("alone", "mute", "deaf", "bridge"):
                load.progress()
                old = cluster.wait_leader()
                others = [m for m in cluster.members if m is not old]
                for other in others[:1] if kind == "bridge" else others:
                    if kind != "deaf":
                        network.cut(old, other)
                    if kind != "mute":
                        network.cut(other, old)
                if kind == "bridge":
                    load.progress()
                else:
                    wait_until("a majority goes on", lambda: cluster.leader() in others, 15)
                    load.progress()
                    assert not any(acknowledged_alone(old, f"{kind}-{i}") for i in range(2)), "a minority acknowledged a write"
                    assert http_status(old.http, "/leader") != 200
                network.heal()
                wait_until("all are in contact again", lambda: all(http_status(m.http, "/readyz") == 200 for m in cluster.members), 20)
            load.verdict()
        finally:
            network.end()


if __name__ == "__main__":
    sys.exit(main([members_killed_stopped_and_cut_off_from_power_lose_nothing, a_member_killed_while_it_installs_a_snapshot_catches_up,
                  damaged_files_are_named_and_never_served, a_full_disk_of_the_leader_stops_nobody,
                  a_minority_acknowledges_nothing_and_catches_up]))
