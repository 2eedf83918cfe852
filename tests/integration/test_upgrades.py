#!/usr/bin/python3
"""U-002, U-003: members are restarted one after the other by their supervisor; ckptd-start keeps the build before, and starts it when a new one does not do."""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, ROOT, Cluster, grpc, operator_pb2, operator_pb2_grpc, tap, wait_until  # noqa: E402

START, SUPERVISE = ROOT / "deploy" / "ckptd-start", ROOT / "tests" / "support" / "supervise.py"


def supervised(member, *prefix):
    """Its first start was by hand, as the runbook has it."""
    member.kill(15)
    assert member.process.wait(30) == 0, member.name
    member.prefix = [str(SUPERVISE), *prefix]
    member.start()


def build_folder(folder, version, body, level=2):
    """A build whose ckptd is a script."""
    folder.mkdir()
    program = folder / "ckptd"
    program.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then\n    echo "ckptd {version}"\n    echo "feature level {level}"\n    exit 0\nfi\n{body}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


class Site:
    """A machine with ckptd-start, and what it starts."""

    def __init__(self, folder):
        self.folder, self.state, self.builds = folder, folder / "state", folder / "lib"
        self.state.mkdir(parents=True)
        self.environment = {**os.environ, "CKPT_START_BUILDS": str(self.builds), "CKPT_START_STATE": str(self.state)}

    def run(self, *arguments):
        return subprocess.run([str(START), *arguments], env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def install(self, folder):
        done = self.run("--install", str(folder))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def starts(self):
        """What runs, with which words, and what it is told of the build before."""
        done = self.run("--config", "f")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def started_by_site(cluster, member, before, new):
    """The build before is a script that becomes this ckptd, so that the state's form is one; the new one is the member's from here on."""
    site = Site(cluster.dir / "site")
    site.install(build_folder(cluster.dir / "before", "0.1.9 (script)", f'{before}exec {BIN}/ckptd "$@"'))
    site.install(new)
    os.environ.update(CKPT_START_BUILDS=str(site.builds), CKPT_START_STATE=str(site.state))
    member.program = START
    supervised(member)


TELLS = 'case "$*" in *--check-config*) exit 0 ;; esac\necho "{name} $* ($CKPT_START_PREVIOUS, $CKPT_START_PREVIOUS_LEVEL) $CKPT_START_PUT_BACK_WHY"'


def a_build_that_is_started_too_often_is_put_back_until_another_comes():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        site = Site(folder)
        assert "ckptd-start --install" in site.run("--config", "f").stderr
        assert "has no program ckptd" in site.run("--install", str(folder / "none")).stderr
        site.install(build_folder(folder / "one", "1.0.0", TELLS.format(name="one"), level=1))
        for _ in range(8):  # the first build has nothing before it: it is started however often
            assert site.starts() == "one --config f (, )", site.starts()
        site.install(build_folder(folder / "two", "2.0.0 (abc, 2026-01-01)", TELLS.format(name="two")))
        assert "is the current one already" in site.run("--install", str(folder / "two")).stderr
        for _ in range(5):
            assert site.starts() == "two --config f (1.0.0, 1)"
        assert site.starts() == "one --config f (, ) it was started 6 times while it is new"
        assert "put back: the previous one starts" in site.run("--show").stdout
        assert site.starts().startswith("one")
        assert site.run("--again").returncode == 0
        assert site.starts().startswith("two")
        (site.state / "build").write_text(f"2.0.0 (abc, 2026-01-01)\n1\n{int(time.time()) - 1}\n5\n0\n")
        for _ in range(2):  # it is not new any more
            assert site.starts().startswith("two")
        site.install(build_folder(folder / "three", "3.0.0", 'echo "line 7: no such key" >&2\nexit 2'))
        assert site.starts() == "two --config f (, ) it refuses the configuration: line 7: no such key"
        site.install(build_folder(folder / "four", "4.0.0", TELLS.format(name="four")))
        assert site.starts() == "four --config f (3.0.0, 2)"


def all_members_are_restarted_and_nothing_is_lost():
    """By ckptctl, the leader last; one that does not come back stops the rest; a client that dies leaves whole members."""
    with Cluster(members=3) as cluster:
        cluster.start()
        refused = cluster.ctl("restart-member", "--all", "--yes", check=False)
        assert refused.returncode == 4 and "NOT_SUPERVISED" in refused.stderr, refused.stderr
        for member in cluster.members:
            supervised(member)
        cluster.register("before", [("x", 1, 1 << 20)])
        leader = cluster.wait_leader()
        starts = {member.name: member.log.read_text().count("event=started") for member in cluster.members}
        done = cluster.ctl("restart-member", "--all", "--yes").stdout.splitlines()
        assert [line.split()[0] for line in done] == ["done:"] * 3 and f" {leader.name} " in done[2], done
        assert all(member.log.read_text().count("event=started") == starts[member.name] + 1 for member in cluster.members)
        assert cluster.wait_leader() is not leader, "a leader hands over before it ends"
        client = subprocess.Popen([str(BIN / "ckptctl"), "--endpoints", ",".join(m.api for m in cluster.members), "restart-member", "--all", "--yes"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.05)
        client.kill()
        client.wait()
        wait_until("all are back", lambda: cluster.ctl("upgrade", "plan", check=False).returncode == 0, 20)
        assert cluster.allocation("before").spec.allocation_id == "before"
        down = next(member for member in cluster.members if member is not cluster.wait_leader())
        down.kill(15)
        down.process.wait(30)
        other = next(member for member in cluster.members if member is not down)
        refused = cluster.ctl("restart-member", other.name, "--yes", check=False)
        assert refused.returncode == 4 and "QUORUM_AT_RISK" in refused.stderr, refused.stderr
        try:
            operator_pb2_grpc.OperatorServiceStub(cluster.client.channel(other.api)).RestartMember(operator_pb2.RestartMemberRequest(member_id=other.id), timeout=10)
            raise AssertionError("the member itself knows better")
        except grpc.RpcError as error:
            assert "QUORUM_AT_RISK" in error.details(), error
        assert other.running()
        down.start()
        cluster.debug_check()


def a_canary_that_fails_is_put_back_by_itself():
    """Five changes of the leader are too many."""
    with Cluster(members=3) as cluster:
        cluster.start()
        canary = cluster.members[1]
        started_by_site(cluster, canary, f"echo script >> {cluster.dir}/scripts\n", BIN)
        told = cluster.ctl("upgrade", "status", "-o", "wide").stdout
        assert "0.1.9 (script)" in told, told
        follower = subprocess.Popen([str(BIN / "ckptctl"), "--endpoints", ",".join(m.api for m in cluster.members), "upgrade", "canary", canary.name, "15m"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until("it watches", lambda: "event=canary_watching" in canary.log.read_text(), 20)
        refused = cluster.ctl("upgrade", "plan", check=False)
        assert refused.returncode == 4 and f"{canary.name} watches its new build" in refused.stdout, refused.stdout
        for name in ("n1", "n3", "n1", "n3", "n1", "n3"):
            cluster.ctl("transfer", name)
        out, error = follower.communicate(timeout=90)
        assert follower.returncode == 1, out + error
        assert "failed its watch: elections: " in error and "it runs again with build" in error, error
        assert (cluster.dir / "scripts").read_text() == "script\n"
        log = canary.log.read_text()
        assert "event=canary_failed" in log and 'previous="0.1.9 (script)"' in log, log[-2000:]
        assert "was put back from" in cluster.ctl("upgrade", "plan", check=False).stdout
        cluster.debug_check()


def a_new_build_that_dies_again_and_again_is_put_back():
    with Cluster(members=1) as cluster:
        cluster.start()
        dies = build_folder(cluster.dir / "new", "0.2.1 (dies)", 'case "$*" in *--check-config*) exit 0 ;; esac\nkill -ABRT $$')
        started_by_site(cluster, cluster.members[0], "", dies)
        status = cluster.client.operator("Status", operator_pb2.StatusRequest())
        assert status.start.put_back_build == "0.2.1 (dies)" and "started 6 times" in status.start.put_back_why, status.start


if __name__ == "__main__":
    sys.exit(tap([a_build_that_is_started_too_often_is_put_back_until_another_comes, all_members_are_restarted_and_nothing_is_lost,
                  a_canary_that_fails_is_put_back_by_itself, a_new_build_that_dies_again_and_again_is_put_back]))
