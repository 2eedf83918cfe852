#!/usr/bin/python3
"""Recovery from lost quorum and restoring backups: one history goes on, no other one can join it, ids and request ids stay unique.
I6, I11, I25, I26, Q-002, "restore wrong cluster's backup, run recover on two members".
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, checkpoint_text, common_pb2, fill, http_status, load_json, metric, tail, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402
from small_store import SmallStore  # noqa: E402


def names(cluster):
    found, token = set(), ""
    while True:
        page = cluster.client.broker("ListAllocations", broker_pb2.ListAllocationsRequest(page_token=token, page_size=500), timeout_s=20)
        found.update(a.spec.allocation_id for a in page.allocations)
        token = page.next_page_token
        if not token:
            return found


def daemon(cluster, member, *arguments, answer=None):
    return subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", member.name, "--data-dir",
                           str(member.data_dir), *arguments], capture_output=True, text=True, timeout=60, input=answer or "")


def hash_of(text):
    return re.findall(r"^hash +([0-9a-f]{16})$", text, re.M)


def checkpoint_id(cluster, job):
    if cluster.allocation(job).state == common_pb2.ALLOCATION_STATE_STARTING:
        if cluster.agents:
            wait_until(f"{job} runs", lambda: cluster.allocation(job).state == common_pb2.ALLOCATION_STATE_RUNNING, 20)
        else:
            cluster.starts(job, cluster.allocation(job).spec.nodes[0].node_id)
    identifier = cluster.request_checkpoint(job)
    return identifier >> 40, identifier & ((1 << 40) - 1)


def wait_applied(cluster):
    wait_until("all have applied it", lambda: len({metric(m.http, "ckpt_raft_applied_index") for m in cluster.members}) == 1, 10)


def kill_alike(cluster):
    wait_applied(cluster)
    for member in cluster.members:
        member.kill()


def start_alone(member):
    member.start()
    wait_until("it leads alone", lambda: http_status(member.http, "/leader") == 200, 10)


def restore_one(member, file, *options):
    shutil.rmtree(member.data_dir)
    member.started_before = False
    member.extra = ["--restore", str(file), *options]


def status_of(cluster):
    return load_json(cluster.ctl("-o", "json", "status", endpoints=",".join(m.api for m in cluster.members), check=False))["status"]


def a_restored_copy_that_calls_is_named_and_no_member_is_blamed_for_it():
    """Restored for a trial with the real cluster's id and names, on other ports: it finds the real members by the replicated address book."""
    with Cluster() as real, Cluster() as copy:
        real.start()
        fill(real, 20)
        file = real.dir / "a.ckptbackup"
        real.ctl("backup", "save", str(file))
        for member in copy.members:
            member.extra = ["--restore", str(file)]
            member.start(wait=False)
        copy.wait_leader()
        addresses = [m.raft for m in copy.members]
        warnings = wait_until("the real cluster names the copy", lambda: [
            w for w in status_of(real).get("warnings", []) if "a copy of this cluster" in w and any(a in w for a in addresses)], 20, 0.3)
        assert all("is refused" in w and "itself is not concerned" in w for w in warnings), warnings
        for _ in range(10):  # and it stays so while the copy goes on calling
            for member in real.members:
                status = load_json(real.ctl("-o", "json", "status", endpoints=member.api))["status"]
                assert status["failure_tolerance"] == 1 and status["reachable_count"] == 3, status
                assert not [w for w in status.get("warnings", []) if "data folder" in w or "is of another incarnation" in w], status
            time.sleep(0.3)
        logs = "".join(m.log.read_text() for m in real.members)
        assert any(f"address={a} " in line for a in addresses for line in logs.splitlines() if "event=foreign_member" in line), logs[-2000:]
        assert logs.count("event=foreign_member") <= 3 * 2 * len(addresses), logs
        assert metric(real.wait_leader().http, "ckpt_raft_foreign_members") >= 1
        one = real.wait_leader()
        other = next(m for m in real.members if m is not one)
        other.kill()
        wait_until("a real member that is down counts as down", lambda: status_of(real)["failure_tolerance"] == 0, 10)
        other.start()
        real.debug_check()
        copy.stop()
        wait_until("the copy is forgotten", lambda: metric(one.http, "ckpt_raft_foreign_members") == 0, 60, 0.5)


def s3_section(cluster, store):
    keys = cluster.dir / "keys"
    keys.touch(mode=0o600)
    keys.write_text("access_key=PUBLIC\nsecret_key=SECRET\n")
    section = f's3:\n  - {{name: small, endpoint: "{store.endpoint}", credentials_file: "{keys}", buckets: "ckpt"}}\n'
    for config in (cluster.config, cluster.agent_config):
        config.write_text(config.read_text() + section)


def by_hand(cluster, store, *words):
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "PUBLIC", "AWS_SECRET_ACCESS_KEY": "SECRET", "AWS_ENDPOINT_URL_S3": store.endpoint}
    return subprocess.run([str(BIN / "ckpt-worker"), *words], capture_output=True, text=True, timeout=60, env=environment)


def target_says(cluster, text):
    return wait_until(f"its target says {text}", lambda: (lambda out: out if text in out else None)(
        cluster.ctl("status", "-o", "json", check=False).stdout + cluster.ctl("targets", "-o", "wide", check=False).stdout), 60, 0.3)


def a_restored_copy_leaves_what_production_wrote():
    """Under another id it removes nothing of production's, although it has records of all of it; under production's own id and a later epoch it has
    the target, and production is told so instead of writing on beside it. Some 30 s: a collector looks each 10 s."""
    target = {"kind": "s3", "prefix": '"s3://ckpt/site"'}
    policy = {**POLICY, "keep_complete": 2, "retention": "8s"}
    with SmallStore() as store, Cluster(members=1, agents=("a",), policy=policy, target=target) as real, \
            Cluster(members=1, policy=policy, target=target) as drill, Cluster(members=1, policy=policy, target=target) as same:
        for cluster in (real, drill, same):
            s3_section(cluster, store)
        real.start()
        real.register("job", [("a", 1, MIB)])
        real.run_job("a", "job", heat(real, "job"))
        all_run(real)
        for _ in range(4):
            complete(real, "job")
        file = real.dir / "a.ckptbackup"
        real.ctl("backup", "save", str(file))
        written = {key: body for key, body in store.objects.items() if "/checkpoints/" in key}
        assert len([key for key in written if key.endswith("/MANIFEST")]) == 4, sorted(written)
        real.members[0].kill()  # nobody else removes what it lets go
        # a trial, with another id as the runbook has it, whose retention lets the older ones go as well
        drill.config.write_text(drill.config.read_text().replace("cluster_id: demo", "cluster_id: drill"))
        drill.members[0].extra = ["--restore", str(file), "--new-cluster-id"]
        drill.members[0].start()
        drill.wait_leader()
        drill.ctl("cluster", "adopt", "--yes")  # which nobody should
        wait_until("the trial tries to remove them", lambda: drill.members[0].log.read_text().count("event=collect_failed") >= 1, 40, 0.3)
        log = drill.members[0].log.read_text()
        assert "of another cluster" in log and "event=checkpoint_collected" not in log, tail(drill.members[0].log)
        assert "of another cluster" in wait_until("it is listed", lambda: drill.ctl("undeleted").stdout, 20, 0.3), drill.ctl("undeleted")
        drill.stop()
        assert all(store.objects.get(key) == body for key, body in written.items()), "production's checkpoints are as they were"
        real.members[0].start()
        real.wait_leader()
        wait_until("the agent is back", lambda: metric(real.members[0].http, "ckpt_agent_connected") == 1, 20)
        complete(real, "job")
        # a trial under production's own id has a later epoch
        same.members[0].extra = ["--restore", str(file), "--epoch", "6"]
        same.members[0].start()
        same.wait_leader()
        same.ctl("cluster", "adopt", "--yes")
        notes = wait_until("it takes the target", lambda: [key for key in store.objects if "/.cluster." in key and key.endswith(".%020d" % 6)], 20)
        assert b"cluster=demo\nepoch=6\n" in store.objects[notes[0]], store.objects[notes[0]]
        said = target_says(real, "epoch 6 of cluster demo has this target")
        assert "this is epoch 1" in said and "remove s3://ckpt/site/.cluster." in said, said
        mark = notes[0].split(".")[2]
        put = ("put", "--prefix", "s3://ckpt/site", "--path", "s3://ckpt/site/t/p/j/checkpoints/1-9", "--part", "part-0000", "--source",
               str(real.dir / "drop"))
        (real.dir / "drop").mkdir()
        (real.dir / "drop" / "file").write_text("x")
        refused = by_hand(real, store, *put, "--cluster", f"{mark}@5")
        assert refused.returncode == 7 and "epoch 6" in refused.stderr and "cause=storage_denied" in refused.stdout, refused
        assert by_hand(real, store, *put, "--cluster", f"{mark}@6").returncode == 0
        foreign = by_hand(real, store, *put, "--cluster", "00000000000000a1@9")
        assert foreign.returncode == 7 and f"has the mark {mark} of another cluster" in foreign.stderr, foreign
        for verb in ("collect", "abandon"):
            words = put[1:5] if verb == "collect" else put[1:7]
            for claim in (f"{mark}@5", "00000000000000a1@9"):
                refused = by_hand(real, store, verb, *words, "--cluster", claim)
                assert refused.returncode == 7, (verb, claim, refused)
        assert by_hand(real, store, "verify", "--path", put[4], "--part", "part-0000").returncode == 0
        same.stop()
        # the step that the text names gives the target back
        store.objects.pop(notes[0])
        wait_until("production's target is up", lambda: load_json(real.ctl("targets", "-o", "json"))["targets"][0].get("available"), 20, 0.3)
        complete(real, "job")
        real.debug_check()


def one_survivor_goes_on_alone_with_everything_it_held():
    with Cluster(raft={"snapshot_after_entries": 200}) as cluster:
        cluster.start()
        fill(cluster, 300)
        kept = cluster.register("kept", [("n", 1, 1)], request_id="kept")
        first = checkpoint_id(cluster, "a1")
        kill_alike(cluster)
        n1, n2, n3 = cluster.members
        shutil.rmtree(n1.data_dir)
        shutil.rmtree(n2.data_dir)
        looked = daemon(cluster, n3, "--inspect-data")
        assert looked.returncode == 0, looked
        (digest,) = hash_of(looked.stdout)
        refused = daemon(cluster, n3, "--recover", answer="0123456789abcdef\n")
        assert refused.returncode == 1 and "nothing was changed" in refused.stderr and digest in refused.stderr, refused
        done = daemon(cluster, n3, "--recover", answer=digest + "\n")
        assert done.returncode == 0 and "recovered" in done.stdout and "lost" in done.stdout, done
        start_alone(n3)
        assert names(cluster) == {f"a{i}" for i in range(300)} | {"kept"}
        again = cluster.register("kept", [("n", 1, 1)], request_id="kept")
        assert again.repeated and again.index == kept.index
        status = load_json(cluster.ctl("-o", "json", "status", check=False))["status"]
        assert status["epoch"] == 4, status  # n3 is third in the configuration: 1 + 1 + 2
        second = checkpoint_id(cluster, "a2")
        assert second[0] == 4 and second[1] > first[1], (first, second)
        renewed = cluster.checkpoints("a1")
        assert {(c.checkpoint_id >> 40) for c in renewed} == {1, 4}, renewed
        n3.kill()
        start_alone(n3)
        assert load_json(cluster.ctl("-o", "json", "status", check=False))["status"]["epoch"] == 4


def a_recovered_member_becomes_a_cluster_of_three_again():
    """New members learn the incarnation from it; the lost ones stay out, and their ids cannot come back with blank folders."""
    with Cluster(raft={"snapshot_after_entries": 200}) as cluster:
        cluster.start()
        fill(cluster, 150)
        kill_alike(cluster)
        n1, n2, n3 = cluster.members
        lost = cluster.dir / "lost"
        shutil.copytree(n1.data_dir, lost)
        (digest,) = hash_of(daemon(cluster, n3, "--inspect-data").stdout)
        assert daemon(cluster, n3, "--recover", "--confirm", digest).returncode == 0
        start_alone(n3)
        new = [cluster.new_member() for _ in range(2)]
        for member in new:
            member.start()
            cluster.ctl("member", "add", member.name, "--id", str(member.id), "--raft", member.raft, "--api", member.api, endpoints=n3.api)
            wait_until(f"{member.name} is promoted", lambda m=member: cluster.ctl(
                "member", "promote", m.name, check=False, endpoints=n3.api).returncode == 0, 20, 0.3)
        cluster.members = [n3, *new]
        fill(cluster, 50, "after")
        n3.kill()
        cluster.wait_leader()
        assert len(names(cluster)) == 200
        n3.start()
        cluster.debug_check()
        n1.start(wait=False)  # with its folder of before: refused by all of them
        wait_until("it is refused", lambda: "another incarnation" in cluster.ctl("status", endpoints=n1.api, check=False).stdout, 15)
        assert metric(n1.http, "ckpt_raft_foreign_members") >= 1
        n1.kill()
        for member in new:  # the incarnation is in their folders too
            member.kill()
            member.joins = True
            member.start()
        cluster.debug_check()


def two_members_recovered_separately_refuse_each_other():
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 50)
        kill_alike(cluster)
        n1, n2, n3 = cluster.members
        epochs = []
        for member in (n1, n2):
            (digest,) = hash_of(daemon(cluster, member, "--inspect-data").stdout)
            done = daemon(cluster, member, "--recover", "--confirm", digest)
            assert done.returncode == 0, done
            start_alone(member)
            epochs.append(load_json(cluster.ctl("-o", "json", "status", endpoints=member.api, check=False))["status"]["epoch"])
        assert len(set(epochs)) == 2, epochs
        for member, other in ((n1, n2), (n2, n1)):
            warnings = wait_until("it says so", lambda m=member, o=other: [
                w for w in load_json(cluster.ctl("-o", "json", "status", endpoints=m.api, check=False))["status"].get("warnings", [])
                if f"member {o.name} is of another incarnation" in w], 10)
            assert warnings
        n3.start(wait=False)  # of the incarnation before: nobody lets it in, and it cannot lead
        wait_until("it is refused", lambda: "another incarnation" in cluster.ctl("status", endpoints=n3.api, check=False).stdout, 10)
        assert http_status(n3.http, "/readyz") != 200
        for member in (n1, n2):
            assert http_status(member.http, "/leader") == 200


def a_member_that_is_behind_is_not_recovered_unnoticed():
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 20)
        leader = cluster.wait_leader()
        behind, ahead = [m for m in cluster.members if m is not leader]
        wait_applied(cluster)
        behind.kill()
        fill(cluster, 20, "b")
        wait_until("it has them", lambda: metric(ahead.http, "ckpt_raft_applied_index") == metric(leader.http, "ckpt_raft_applied_index"),
                   10)
        leader.kill()
        ahead.kill()
        shutil.rmtree(leader.data_dir)
        copy = cluster.dir / "copy"
        shutil.copytree(ahead.data_dir, copy)
        (digest, _) = hash_of(daemon(cluster, behind, "--inspect-data", "--compare", str(copy)).stdout)
        refused = daemon(cluster, behind, "--recover", "--compare", str(copy), "--confirm", digest)
        assert refused.returncode == 1 and "is ahead" in refused.stderr and "LOST" in refused.stdout, refused
        (digest, _) = hash_of(daemon(cluster, ahead, "--inspect-data", "--compare", str(behind.data_dir)).stdout)
        done = daemon(cluster, ahead, "--recover", "--compare", str(behind.data_dir), "--confirm", digest)
        assert done.returncode == 0 and "holds everything" in done.stdout, done
        mixed = daemon(cluster, ahead, "--recover", "--compare", str(behind.data_dir), "--confirm", digest)
        assert mixed.returncode == 1 and "incarnation" in mixed.stderr, mixed
        start_alone(ahead)
        assert len(names(cluster)) == 40
        running = daemon(cluster, ahead, "--inspect-data")
        assert running.returncode == 1 and "locked" in running.stderr, running


def folders_that_end_alike_with_different_states_are_not_recovered_unnoticed():
    """I10: who follows broken bytes is told apart from the others by the hash alone."""
    with Cluster(members=1) as one, Cluster(members=1) as two:
        ends = []
        for cluster in (one, two):
            cluster.start()
            fill(cluster, 5)
        while not ends or ends[0] != ends[1]:
            ends = [metric(c.members[0].http, "ckpt_raft_applied_index") for c in (one, two)]
            if ends[0] != ends[1]:
                fill(one if ends[0] < ends[1] else two, 1, f"more{sum(ends)}-")
        for cluster in (one, two):
            cluster.members[0].kill()
        (member,), other = one.members, str(two.members[0].data_dir)
        shutil.copy(member.data_dir / "identity", two.members[0].data_dir / "identity")  # two ends of one history
        looked = daemon(one, member, "--inspect-data", "--compare", other)
        own, foreign = hash_of(looked.stdout)
        assert own != foreign and len(set(re.findall(r"^last entry +(index \d+, term \d+);", looked.stdout, re.M))) == 1, looked
        before = (member.data_dir / "identity").read_bytes()
        refused = daemon(one, member, "--recover", "--compare", other, "--confirm", own)
        assert refused.returncode == 1 and before == (member.data_dir / "identity").read_bytes(), refused
        for word in (f"{member.data_dir} (hash {own})", f"{other} (hash {foreign})", "--compare", "--accept-loss"):
            assert word in refused.stderr, refused
        assert "holds everything" not in refused.stdout and "DIFFERENT" in refused.stdout, refused
        done = daemon(one, member, "--recover", "--compare", other, "--confirm", own, "--accept-loss")
        assert done.returncode == 0 and "DIFFERENT" in done.stdout, done


def too_many_folders_to_compare_are_a_usage_error():
    with Cluster(members=1) as cluster:
        (member,) = cluster.members
        for option in ("--inspect-data", "--recover"):
            refused = daemon(cluster, member, option, *(f"--compare={cluster.dir}/{i}" for i in range(10)))
            assert refused.returncode == 2 and "10 folders" in refused.stderr and "at most 9" in refused.stderr, refused
        assert daemon(cluster, member, "--inspect-data", *(f"--compare={cluster.dir}/{i}" for i in range(9))).returncode == 1


def a_restored_cluster_goes_on_where_the_backup_was():
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 120)
        before = checkpoint_id(cluster, "a5")
        outcome = cluster.register("again", [("n", 1, 1)], request_id="once")
        file = cluster.dir / "b.ckptbackup"
        cluster.ctl("backup", "save", str(file))
        fill(cluster, 10, "later")
        late = checkpoint_id(cluster, "later3")
        refused = daemon(cluster, cluster.members[0], "--bootstrap", "--restore", str(file))
        assert refused.returncode == 1 and "locked" in refused.stderr, refused
        for member in cluster.members:
            member.kill()
        refused = daemon(cluster, cluster.members[0], "--bootstrap", "--restore", str(file))
        assert refused.returncode == 1 and "is not empty" in refused.stderr, refused
        old = cluster.dir / "old"
        for i, member in enumerate(cluster.members):
            shutil.move(member.data_dir, old / member.name) if old.exists() else shutil.copytree(member.data_dir, old / member.name)
            shutil.rmtree(member.data_dir, ignore_errors=True)
            member.started_before = False
            member.extra = ["--restore", str(file)]
        for member in cluster.members:
            member.start(wait=False)
        cluster.wait_leader()
        for member in cluster.members:
            member.extra = []
        assert names(cluster) == {f"a{i}" for i in range(120)} | {"again"}
        repeated = cluster.register("again", [("n", 1, 1)], request_id="once")
        assert repeated.repeated and repeated.index == outcome.index
        cluster.ctl("cluster", "adopt", "--yes")
        after = checkpoint_id(cluster, "a7")
        assert after[0] == 2 and after > late > before, (before, late, after)
        assert {c.checkpoint_id >> 40 for c in cluster.checkpoints("a5")} == {1, 2}
        cluster.debug_check()
        events = cluster.ctl("events").stdout
        assert "epoch 2" in events, events[-500:]
        # a member of the old cluster is not let in, whoever starts it
        victim = next(m for m in cluster.members if m is not cluster.wait_leader())
        victim.kill()
        shutil.rmtree(victim.data_dir)
        shutil.copytree(old / victim.name, victim.data_dir)
        victim.start(wait=False)
        wait_until("it is refused", lambda: f"member {victim.name} is of another incarnation" in cluster.ctl(
            "status", endpoints=cluster.wait_leader().api, check=False).stdout, 10)
        assert metric(victim.http, "ckpt_raft_applied_index") != metric(cluster.wait_leader().http, "ckpt_raft_applied_index")


def restore_all(cluster, file):
    for member in cluster.members:
        if member.running():
            member.kill()
        restore_one(member, file)
    for member in cluster.members:
        member.start(wait=False)
    leader = cluster.wait_leader()
    for member in cluster.members:
        member.extra = []
    cluster.ctl("cluster", "adopt", "--yes")
    return leader


def a_restored_copy_is_passive_beside_the_cluster_that_runs_on():
    """V-010: the weekly trial of a backup. It names production's targets, nodes and jobs, and touches none of them until somebody adopts them."""
    policy = {**POLICY, "retention": "1s", "node_down_after": "1s", "node_degraded_after": "500ms"}
    with Cluster(agents=("a",), policy=policy, heartbeat_ms=100) as real, Cluster(members=1) as copy:
        real.start()
        real.register("job", [("a", 1, MIB)])
        real.run_job("a", "job", heat(real, "job.a"))
        all_run(real)
        pinned = complete(real, "job")
        real.ctl("checkpoint", "pin", checkpoint_text(pinned.checkpoint_id))
        file = real.dir / "a.ckptbackup"
        real.ctl("checkpoint", "unpin", checkpoint_text(pinned.checkpoint_id))  # the backup has it as one that may go
        real.ctl("backup", "save", str(file))
        real.ctl("checkpoint", "pin", checkpoint_text(pinned.checkpoint_id))
        before = sorted(str(path) for path in real.scratch.rglob("*") if "/1-1/" in str(path))
        assert before
        copy.config.write_text(copy.config.read_text().replace("cluster_id: demo", "cluster_id: trial"))
        copy.members[0].extra = ["--restore", str(file), "--new-cluster-id"]
        copy.start()
        shown = load_json(copy.ctl("-o", "json", "status", check=False))["status"]
        assert shown["passive_since_ms"] > 0 and shown["warnings"][0].startswith("PASSIVE"), shown
        assert "PASSIVE: this cluster began from a backup" in copy.ctl("status", check=False).stdout
        refused = copy.ctl("register", "--alloc", "x", "--tenant", "t", "--project", "p", "--node", "a:1:1GiB", check=False)
        assert refused.returncode == 4 and "PASSIVE" in refused.stderr and "ckptctl cluster adopt" in refused.stderr, refused.stderr
        time.sleep(3)  # longer than the retention, and than a silent node would be up
        assert sorted(str(path) for path in real.scratch.rglob("*") if "/1-1/" in str(path)) == before
        assert load_json(copy.ctl("-o", "json", "nodes"))["nodes"][0]["state"] == "ready"
        assert not any(name.startswith(".ckpt-probe") for name in os.listdir(real.scratch) if "trial" in name)
        plan = copy.ctl("cluster", "adopt", "--dry-run", check=False)
        assert str(real.scratch) in plan.stderr and "1 jobs that have not ended: job" in plan.stderr, plan
        assert re.search(r": .*epoch=1 .*cluster=demo|: .*cluster=demo .*epoch=1", plan.stderr), plan  # production's note at its target
        assert load_json(copy.ctl("-o", "json", "status", check=False))["status"]["passive_since_ms"] > 0, "a plan changes nothing"
        needs_yes = copy.ctl("cluster", "adopt", check=False)
        assert needs_yes.returncode == 2 and "--yes" in needs_yes.stderr, needs_yes
        real.stop()
        copy.ctl("cluster", "adopt", "--yes")
        assert load_json(copy.ctl("-o", "json", "status", check=False))["status"].get("passive_since_ms", 0) == 0
        wait_until("it acts now: the silent node's agent is lost", lambda: load_json(copy.ctl("-o", "json", "nodes"))["nodes"][0]["state"] == "agent_lost", 20, 0.2)


def a_member_of_a_restored_cluster_that_is_restored_again_is_refused():
    """I8, I11: it has forgotten what it acknowledged and whom it voted for."""
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 20)
        file = cluster.dir / "b.ckptbackup"
        cluster.ctl("backup", "save", str(file))
        leader = restore_all(cluster, file)
        again, late = [m for m in cluster.members if m is not leader]
        late.kill()
        fill(cluster, 10, "acknowledged")
        leader.kill()
        again.kill()
        restore_one(again, file)
        again.start(wait=False)
        late.start()
        wait_until("it is refused", lambda: not again.running(), 10)
        assert f"ckptctl member replace {again.name} NEW" in again.log.read_text(), again.log.read_text()[-800:]
        leader.start()
        cluster.wait_leader()
        assert len(names(cluster)) == 30


def applications_live_through_a_restore_and_agents_obey_the_new_epoch():
    """F-003, B-005, I22, I25, I26: what the old cluster did after the backup is unknown to the new one, and yet no (checkpoint, attempt) is asked twice."""
    policy = {"evaluation_interval": "1s", "min_interval": "1h", "checkpoint_timeout": "20s", "grace": "1s", "quiesce": "1ms",
              "near_completion": "1s", "retry_backoff": "200ms", "node_failures_per_1000_node_days_milli": 1}
    with Cluster(agents=("a",), policy=policy) as cluster:
        cluster.start()
        for name in ("one", "two"):
            cluster.register(name, [("a", 1, 4 << 20)], write_bytes_per_s=100000000)
            cluster.run_job("a", name, [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                        "--slow-ms", "1500", "--output", str(cluster.dir / f"{name}.result")])
        wait_until("both run", lambda: all(j.application_pid() for j in cluster.jobs), 15)
        pids = [j.application_pid() for j in cluster.jobs]

        def state(job):
            return {c.checkpoint_id: c.state for c in cluster.checkpoints(job)}

        def complete(job, checkpoint):
            wait_until(f"{checkpoint} is complete", lambda: state(job).get((checkpoint[0] << 40) + checkpoint[1]) == 5, 20, 0.1)

        first = checkpoint_id(cluster, "one")
        complete("one", first)
        second = checkpoint_id(cluster, "two")
        wait_until("it is written", lambda: 3 in state("two").values(), 15)
        file = cluster.dir / "b.ckptbackup"
        cluster.ctl("backup", "save", str(file))
        complete("two", second)
        third = checkpoint_id(cluster, "two")  # the backup does not know it, the agent does
        complete("two", third)
        restore_all(cluster, file)
        wait_until("the unfinished one is done again in the new epoch",
                   lambda: [c for c in cluster.checkpoints("two") if c.checkpoint_id >> 40 == 2 and c.state == 5], 30, 0.1)
        history = {(c.checkpoint_id >> 40, c.checkpoint_id & ((1 << 40) - 1)): c.state for c in cluster.checkpoints("two")}
        assert history[second] == 10 and third not in history, history  # SUPERSEDED
        assert cluster.checkpoints("one")[0].state == 5
        later = checkpoint_id(cluster, "one")
        assert later[0] == 2 and later > third, (later, third)
        complete("one", later)
        assert [j.application_pid() for j in cluster.jobs] == pids, "an application died of the restore"
        log = cluster.agents["a"].log.read_text()
        assert "epoch=2" in log and "event=fenced" not in log, log[-800:]
        cluster.debug_check()


def a_file_that_is_restored_twice_needs_a_higher_epoch():
    """I25: agents obeyed the first restore; the second one says why they refuse it, and what to do."""
    with Cluster(members=1, agents=("a",)) as cluster:
        cluster.start()
        fill(cluster, 5)
        (member,) = cluster.members
        file = cluster.dir / "b.ckptbackup"
        cluster.ctl("backup", "save", str(file))
        for epoch in (2, 2, 3):
            member.kill()
            restore_one(member, file, *(["--epoch", "3"] if epoch == 3 else []))
            member.start()
            member.extra = []
            asks = member.log.read_text().count("Then epoch 2 may have been in use")
            assert asks > 0 if epoch == 2 else asks == before, "asked without --epoch, and only then"
            before = asks
            if epoch == 2 and not (cluster.dir / "once").exists():
                (cluster.dir / "once").touch()
                for _ in range(3):  # a later term each time
                    wait_until("it leads", lambda: http_status(member.http, "/leader") == 200, 10)
                    member.kill()
                    member.start()
                cluster.ctl("cluster", "adopt", "--yes")
                wait_until("the agent obeys it", lambda: metric(member.http, "ckpt_agent_connected") == 1, 15)
            elif epoch == 2:
                wait_until("it leads", lambda: http_status(member.http, "/leader") == 200, 10)
                cluster.ctl("cluster", "adopt", "--yes")
                warning = wait_until("it says so", lambda: [line for line in cluster.ctl("status", check=False).stdout.splitlines()
                                                            if "refuse this cluster" in line], 20)[0]
                assert "--epoch 3" in warning, warning
            else:
                wait_until("it leads", lambda: http_status(member.http, "/leader") == 200, 10)
                cluster.ctl("cluster", "adopt", "--yes")
                wait_until("the agent obeys it", lambda: "epoch=3" in cluster.agents["a"].log.read_text(), 20)
                assert "refuse this cluster" not in cluster.ctl("status", check=False).stdout


def wrong_files_are_refused_before_anything_is_written():
    with Cluster(members=1) as cluster:
        cluster.start()
        fill(cluster, 30)
        file = cluster.dir / "b.ckptbackup"
        cluster.ctl("backup", "save", str(file))
        (member,) = cluster.members
        member.kill()
        shutil.rmtree(member.data_dir)
        content = file.read_bytes()
        bad = cluster.dir / "bad"
        for case in (content[:-1], content[: len(content) // 2], content[:100] + b"\xff" + content[101:], b""):
            bad.write_bytes(case)
            refused = daemon(cluster, member, "--bootstrap", "--restore", str(bad))
            assert refused.returncode == 1 and str(bad) in refused.stderr, refused
            assert not member.data_dir.exists() or not any(member.data_dir.glob("[iswv]*")), list(member.data_dir.iterdir())
        cluster.config.write_text(cluster.config.read_text().replace("cluster_id: demo", "cluster_id: other"))
        refused = daemon(cluster, member, "--bootstrap", "--restore", str(file))
        assert refused.returncode == 1 and "cluster demo" in refused.stderr and "--new-cluster-id" in refused.stderr, refused
        for epoch in ("1", "0", "x", "99999999999"):
            refused = daemon(cluster, member, "--bootstrap", "--restore", str(file), "--new-cluster-id", "--epoch", epoch)
            assert refused.returncode == 1 and f"--epoch is {epoch}, must be a number above the backup's epoch 1" in refused.stderr, refused
        alone = daemon(cluster, member, "--restore", str(file))
        assert alone.returncode == 1 and "--bootstrap" in alone.stderr, alone
        member.started_before = False
        member.extra = ["--restore", str(file), "--new-cluster-id", "--epoch", "7"]
        start_alone(member)
        status = load_json(cluster.ctl("-o", "json", "status", check=False))["status"]
        assert status["cluster_id"] == "other" and status["epoch"] == 7, status
        assert len(names(cluster)) == 30
        member.kill()
        member.extra = []
        start_alone(member)
        assert len(names(cluster)) == 30


def members_restored_from_different_files_do_not_form_a_cluster():
    with Cluster() as cluster:
        cluster.start()
        files = []
        for i in range(3):
            fill(cluster, 5, f"x{i}-")
            files.append(cluster.dir / f"{i}.ckptbackup")
            cluster.ctl("backup", "save", str(files[-1]))
        for member, file in zip(cluster.members, files):
            member.kill()
            restore_one(member, file)
        for member in cluster.members:
            member.start(wait=False)
        for member in cluster.members:
            wait_until("it refuses the others", lambda m=member: cluster.ctl(
                "status", endpoints=m.api, check=False).stdout.count("or its backup, is another one") >= 4, 15)
        assert cluster.leader() is None


def a_removed_member_does_not_go_on_alone():
    with Cluster() as cluster:
        cluster.start()
        fill(cluster, 3)
        gone = next(m for m in cluster.members if m is not cluster.wait_leader())
        cluster.ctl("member", "remove", gone.name, "--yes")
        assert gone.process.wait(15) == 5
        found = hash_of(daemon(cluster, gone, "--inspect-data").stdout)
        before = (gone.data_dir / "identity").read_bytes()
        said = daemon(cluster, gone, "--recover", "--confirm", found[0])
        assert said.returncode == 1 and "was removed from the cluster" in said.stderr, said
        assert before == (gone.data_dir / "identity").read_bytes()


if __name__ == "__main__":
    sys.exit(tap([a_restored_copy_that_calls_is_named_and_no_member_is_blamed_for_it, a_restored_copy_leaves_what_production_wrote, one_survivor_goes_on_alone_with_everything_it_held, a_recovered_member_becomes_a_cluster_of_three_again,
                  two_members_recovered_separately_refuse_each_other,
                  a_member_that_is_behind_is_not_recovered_unnoticed,
                  folders_that_end_alike_with_different_states_are_not_recovered_unnoticed, too_many_folders_to_compare_are_a_usage_error,
                  a_restored_cluster_goes_on_where_the_backup_was,
                  a_restored_copy_is_passive_beside_the_cluster_that_runs_on,
                  a_member_of_a_restored_cluster_that_is_restored_again_is_refused, applications_live_through_a_restore_and_agents_obey_the_new_epoch,
                  a_file_that_is_restored_twice_needs_a_higher_epoch, wrong_files_are_refused_before_anything_is_written,
                  members_restored_from_different_files_do_not_form_a_cluster, a_removed_member_does_not_go_on_alone]))
