#!/usr/bin/python3
"""A destination of several users and a service that is none of them: whose its folders are, what expires is deleted, and what cannot be
stops nobody. D-004, K-007."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, application_of, broker_pb2, checkpoint_text, common_pb2, metric, often, own_name, tap, wait_until  # noqa: E402

# quick: every checkpoint but the newest two expires within a second
POLICY = {"evaluation_interval": "1h", "min_interval": "1ms", "checkpoint_timeout": "30s", "retention": "1s", "keep_complete": 2,
          "retry_backoff": "100ms", "grace": "1s"}
ANN, BOB, SERVICE, SERVICE_GROUP, PROJECT = 20001, 20002, 20003, 20004, 20005
COMPLETE, FAILED = common_pb2.CHECKPOINT_STATE_COMPLETE, common_pb2.CHECKPOINT_STATE_FAILED


class Site:
    """A cluster whose members run as a service's user without any privilege, its agent as root, its jobs as their users."""

    def __init__(self, cluster):
        self.cluster, self.jobs = cluster, {}
        cluster.let_others_in()
        for member in cluster.members:
            member.data_dir.mkdir()
            os.chown(member.data_dir, SERVICE, SERVICE_GROUP)
            member.prefix = as_user(SERVICE, SERVICE_GROUP, "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all")
        for path in (cluster.config, cluster.agent_config):
            path.chmod(0o644)

    def start_job(self, name, user, groups=()):
        work = self.cluster.dir / f"work-{name}"
        work.mkdir()
        os.chown(work, user, user)
        self.cluster.register(name, [("a", 1, 1 << 20)], owner=own_name(user), write_bytes_per_s=1000000000)
        log = self.cluster.dir / f"{name}.log"
        with open(log, "w") as out:
            self.jobs[name] = subprocess.Popen(
                [*as_user(user, user, groups=groups), str(self.cluster.bin / "ckpt-run"), "--alloc", name, "--work-dir", str(work), "--socket",
                 str(self.cluster.agents["a"].socket), "--", str(self.cluster.bin / "heat"), "--size", "16", "--iterations", "100000000",
                 "--delay-us", "500"], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        wait_until(f"{name} runs", lambda: "starts at iteration 0" in log.read_text() or self.jobs[name].poll() is not None, 15)

    def checkpoint(self, name, state=COMPLETE):
        identifier = self.cluster.request_checkpoint(name)
        final = (5, 6, 7, 8, 9, 10)
        found = wait_until(f"{name}'s checkpoint ends", lambda: next((c for c in self.cluster.checkpoints(name) if c.checkpoint_id == identifier
                                                                      and c.state in final), None), 30, 0.01)
        assert found.state == state, found
        return found

    def folders(self, name):
        return sorted(p.name for p in self.cluster.scratch.glob(f"*/*/{name}/checkpoints/*"))

    def close(self):
        for job in self.jobs.values():
            job.terminate()
        for job in self.jobs.values():
            job.wait()


def as_user(uid, gid, *options, groups=()):
    which = ["--groups", ",".join(str(g) for g in groups)] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(gid), *which, *options]


def sh(uid, script, *arguments, gid=None):
    """Of another user."""
    return subprocess.run([*as_user(uid, gid or uid), "sh", "-c", script, "sh", *(str(a) for a in arguments)], capture_output=True, text=True)


def need_root():
    if os.geteuid() != 0:
        print("# SKIP needs root to be several users")
    return os.geteuid() == 0


def documented_prefix(cluster):
    """The command of deploy/README.md, as it stands there."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "README.md").read_text()
    command = re.search(r"^install -d -o ckpt -g ckpt -m (2\d+) /scratch/ckpt$", page, re.M)
    assert command, "deploy/README.md says how a target's folder is made"
    os.chown(cluster.scratch, SERVICE, SERVICE_GROUP)
    cluster.scratch.chmod(int(command[1], 8))


def two_users_share_a_destination_and_the_service_deletes_what_expired():
    """D-004: the folder of deploy/README.md, two users, a service's user without privileges."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        site = Site(cluster)
        documented_prefix(cluster)
        cluster.start()
        try:
            for name, user in (("anns", ANN), ("bobs", BOB)):
                site.start_job(name, user)
                for _ in range(6):
                    site.checkpoint(name)
                assert (cluster.scratch / "physics" / "heat" / name).stat().st_uid == user
            for path in (cluster.scratch / "physics", cluster.scratch / "physics" / "heat"):
                assert path.stat().st_uid == 0 and path.stat().st_mode & 0o7777 == 0o2775, oct(path.stat().st_mode)
            anns = cluster.scratch / "physics" / "heat" / "anns"
            for attempt in ('mv "$1" "$1.aside"', 'mv "$1" /tmp/', 'rmdir "$1"/*', 'ls "$1"', 'mkdir "${1%/*}/mine"', 'mv "${1%/*}" "${1%/*}.aside"'):
                result = sh(BOB, attempt, anns)
                assert result.returncode != 0 and "Permission denied" in result.stderr, (attempt, result)
            result = sh(SERVICE, 'cat "$1"/checkpoints/*/*/*', anns, gid=SERVICE_GROUP)
            assert result.returncode != 0, "the service removes checkpoints, it does not read them"
            for name in ("anns", "bobs"):
                wait_until(f"old checkpoints of {name} are deleted", lambda n=name: len(site.folders(n)) == 2, 60, 0.5)
            assert cluster.ctl("undeleted", "-o", "name").stdout == ""
            assert cluster.checkpoints("anns", common_pb2.CHECKPOINT_STATE_COLLECTED)
            cluster.debug_check()
        finally:
            site.close()


def owners_may_not(cluster):
    """As on a server that lets nobody remove anything: the agents cannot either."""
    worker = cluster.bin / "ckpt-worker"
    worker.rename(cluster.bin / "ckpt-worker.real")
    worker.write_text("""#!/bin/sh
case "$1 $*" in
"collect "*"--as owner"*) echo "ckpt-worker collect: removing $5: Permission denied" >&2; exit 5;;
*) exec "${0%/*}/ckpt-worker.real" "$@";;
esac
""")
    worker.chmod(0o755)


def plain_prefix(cluster):
    """The other command of deploy/README.md: folders below are their users' alone."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "README.md").read_text()
    command = re.search(r"^install -d -o ckpt -g ckpt -m (755) /scratch/ckpt$", page, re.M)
    assert command, "deploy/README.md says how a target's folder is made"
    os.chown(cluster.scratch, SERVICE, SERVICE_GROUP)
    cluster.scratch.chmod(int(command[1], 8))


def deleted(cluster, name):
    """Bytes of each deletion that was told, by checkpoint."""
    lines = cluster.ctl("events", name, "-o", "jsonl").stdout.splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return {e["checkpoint_id"]: int(e.get("number", 0)) for e in events if e["kind"] == "DELETED"}


def what_its_user_alone_may_delete_is_deleted_by_its_node():
    """D-004: folders 0700 of two users, a service's user without privileges that cannot look into them, an agent as root."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        cluster.start()
        try:
            made = {}
            for name, user in (("anns", ANN), ("bobs", BOB)):
                site.start_job(name, user)
                made[name] = [site.checkpoint(name) for _ in range(6)]
                status = (cluster.scratch / "physics" / "heat" / name).stat()
                assert status.st_uid == user and status.st_mode & 0o7777 == 0o700, oct(status.st_mode)
            result = sh(SERVICE, 'ls "$1"', cluster.scratch / "physics" / "heat" / "anns", gid=SERVICE_GROUP)
            assert result.returncode != 0 and "Permission denied" in result.stderr, result
            for name in made:
                wait_until(f"old checkpoints of {name} are deleted", lambda n=name: len(site.folders(n)) == 2, 60, 0.5)
                wait_until(f"that is told of {name}", lambda n=name: len(deleted(cluster, n)) == 4, 20, 0.5)
                by_text = {checkpoint_text(c.checkpoint_id): c.size_bytes for c in made[name]}
                for identifier, size in deleted(cluster, name).items():
                    assert size > 0 and identifier in by_text, (identifier, size, by_text)  # others may share files with it
                assert site.folders(name) == sorted(checkpoint_text(c.checkpoint_id) for c in made[name][-2:])
            assert cluster.ctl("undeleted", "-o", "name").stdout == ""
            assert "could not be deleted" not in cluster.ctl("status").stdout + cluster.ctl("events").stdout
            log = cluster.agents["a"].log.read_text()
            assert "kind=REPORT_KIND_COLLECTED allocation=anns" in log and "kind=REPORT_KIND_COLLECTED allocation=bobs" in log
            for job in site.jobs.values():
                job.terminate()
                job.wait()
            for name in made:
                cluster.ctl("end", name, "--yes", check=False)  # it may have by itself
            wait_until("nothing of ended jobs is left", lambda: not any((cluster.scratch / "physics" / "heat").glob("*")), 60, 0.5)
            cluster.debug_check()
        finally:
            site.close()


def an_operator_pins_one_and_deletes_others_before_their_time():
    """D-004, S3-034: gc plan shows what is kept for its age alone, gc run deletes exactly that; the last ones and what is pinned stay."""
    if not need_root():
        return
    with Cluster(members=3, agents=("a",), policy={**POLICY, "retention": "7d", "keep_complete": 2}) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        cluster.start()
        try:
            site.start_job("anns", ANN)
            made = [checkpoint_text(site.checkpoint("anns").checkpoint_id) for _ in range(6)]
            cluster.ctl("checkpoint", "pin", made[1])
            assert cluster.ctl("gc", "plan", "-o", "name").stdout.split() == [made[0], *made[2:4]]
            assert cluster.ctl("gc", "run", "anns", check=False).returncode == 2, "it asks first"
            plan = cluster.ctl("gc", "run", "anns", "--yes")
            assert made[0] in plan.stdout and made[1] not in plan.stdout, plan
            wait_until("they are deleted", lambda: site.folders("anns") == sorted([made[1], *made[4:]]), 60, 0.5)
            wait_until("that is told", lambda: set(deleted(cluster, "anns")) == {made[0], *made[2:4]}, 20, 0.5)
            assert cluster.ctl("gc", "plan", "-o", "name").stdout == ""
            refused = cluster.ctl("checkpoint", "pin", made[0], check=False)
            assert refused.returncode == 4 and "NOT_KEPT" in refused.stderr, refused
            cluster.ctl("checkpoint", "unpin", made[1])
            assert cluster.ctl("gc", "plan", "-o", "name").stdout.split() == [made[1]]
            cluster.debug_check()
        finally:
            site.close()


def what_a_dead_node_was_to_delete_another_one_deletes():
    """D-004: the order is part of the state, and goes to another node when its agent does not come back."""
    if not need_root():
        return
    with Cluster(members=3, agents=("a", "b"), policy={**POLICY, "retention": "10s", "node_degraded_after": "2s", "node_down_after": "6s"}) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        cluster.start()
        try:
            site.start_job("anns", ANN)
            for _ in range(4):
                site.checkpoint("anns")
            cluster.agents["a"].kill()
            wait_until("another node has deleted it", lambda: "kind=REPORT_KIND_COLLECTED allocation=anns" in
                       cluster.agents["b"].log.read_text(), 90, 0.5)
            wait_until("old checkpoints are deleted", lambda: len(site.folders("anns")) == 2, 60, 0.5)
            cluster.debug_check()
        finally:
            site.close()


def checkpoints_go_on_although_none_can_be_deleted():
    """D-004, K-007: past the 64th, told with reason and remedy; what the remedy makes right is deleted."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        site = Site(cluster)
        cluster.scratch.chmod(0o1777)  # the service may write into the prefix, and nothing else
        owners_may_not(cluster)
        cluster.start()
        try:
            site.start_job("anns", ANN)
            taken = often(12, 70)  # 64 are kept
            for _ in range(taken):
                site.checkpoint("anns")
            assert len(cluster.checkpoints("anns")) == min(taken, 64)
            listed = wait_until("the first attempts have failed", lambda: (lambda r: r if r.count > 0 else None)(cluster.client.broker(
                "ListUndeleted", broker_pb2.ListUndeletedRequest())), 40, 0.5)
            first = listed.undeleted[0]
            assert "Permission denied" in first.reason and first.path in first.reason and first.attempts == 1, first
            assert os.path.isdir(first.path)
            assert "could not be deleted" in cluster.ctl("status").stdout
            assert "ckptctl undeleted" in cluster.ctl("checkpoints", "anns").stderr
            assert first.path in cluster.ctl("undeleted", "anns").stdout
            assert "could not be deleted" in cluster.ctl("events", "anns").stdout
            http = cluster.members[0].http
            assert metric(http, "ckpt_undeleted_checkpoints") == cluster.client.broker("ListUndeleted", broker_pb2.ListUndeletedRequest()).count
            site.checkpoint("anns")
            # the remedy of the runbook
            page = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "RUNBOOK.md").read_text()
            command = re.search(r"```\s+(ckptctl undeleted -o jsonl [^`]+)```", page)[1].replace("/scratch/ckpt", str(cluster.scratch)).replace(
                "ckptctl", f"{cluster.bin / 'ckptctl'} --endpoints {cluster.members[0].api}").replace("ckpt-worker", str(cluster.bin / "ckpt-worker"))
            documented_prefix(cluster)
            subprocess.run(command, shell=True, check=True)
            assert not os.path.isdir(first.path)
            new = [site.checkpoint("anns") for _ in range(4)]

            def all_deleted():
                subprocess.run(command, shell=True, check=True)  # more come to the list as they are tried
                return cluster.client.broker("ListUndeleted", broker_pb2.ListUndeletedRequest()).count == 0 and len(site.folders("anns")) == 2
            wait_until("all of them are deleted", all_deleted, 150, 4)
            log = "".join(m.log.read_text() for m in cluster.members)
            assert not re.search(rf"event=collect_failed checkpoint={checkpoint_text(new[0].checkpoint_id)} ", log)
            assert "could not be deleted" not in cluster.ctl("status").stdout
            cluster.debug_check()
        finally:
            site.close()


def folders_of_strangers_are_refused_and_said():
    """Who made the folder of another's allocation first gets none of its checkpoints, and nothing there is written over. S3-009."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        site = Site(cluster)
        cluster.scratch.chmod(0o1777)
        for level in (cluster.scratch / "physics", cluster.scratch / "physics" / "heat"):
            level.mkdir()
            level.chmod(0o1777)
        cluster.start()
        try:
            site.start_job("anns", ANN)  # one who is there before keeps it from starting: test_prepare.py
            (cluster.scratch / "physics" / "heat" / "anns").rename(cluster.dir / "moved")
            assert sh(BOB, 'mkdir -m 777 "$1"', cluster.scratch / "physics" / "heat" / "anns").returncode == 0
            site.checkpoint("anns", FAILED)
            log = cluster.agents["a"].log.read_text()
            assert f"anns belongs to user {BOB} and not to user {ANN}, whose job this is" in log
            assert not any((cluster.scratch / "physics" / "heat" / "anns").iterdir())
        finally:
            site.close()


def a_destination_that_only_a_group_may_write_takes_checkpoints():
    """The workers have the application's supplementary groups, also after the agent was killed, and restore has them."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        site = Site(cluster)
        os.chown(cluster.scratch, SERVICE, PROJECT)
        cluster.scratch.chmod(0o770)
        cluster.start()
        try:
            site.start_job("without", BOB)
            assert site.jobs["without"].wait(10) == 125
            said = (cluster.dir / "without.log").read_text()
            assert f"{cluster.scratch} belongs to user {SERVICE}, mode 0770, and user {BOB} may not write there" in said, said
            site.start_job("anns", ANN, groups=(4, PROJECT))
            site.checkpoint("anns")
            agent = cluster.agents["a"]
            agent.kill()
            agent.start()
            wait_until("the agent has its job again", lambda: "event=reattached allocation=anns" in agent.log.read_text(), 15)
            site.checkpoint("anns")
            os.kill(application_of(site.jobs['anns'].pid), signal.SIGKILL)
            wait_until("it is restored", lambda: "from checkpoint" in (cluster.dir / "anns.log").read_text(), 20)
        finally:
            site.close()


if __name__ == "__main__":
    sys.exit(tap([what_its_user_alone_may_delete_is_deleted_by_its_node, what_a_dead_node_was_to_delete_another_one_deletes,
                  an_operator_pins_one_and_deletes_others_before_their_time,
                  two_users_share_a_destination_and_the_service_deletes_what_expired, checkpoints_go_on_although_none_can_be_deleted,
                  folders_of_strangers_are_refused_and_said, a_destination_that_only_a_group_may_write_takes_checkpoints]))
