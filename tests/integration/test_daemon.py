#!/usr/bin/python3
"""One ckptd under difficulties: what Status says of stopped members, how it ends and starts. S1-062, S1-071, U5."""
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, grpc, http_get, metric, operator_pb2, operator_pb2_grpc, tap, wait_until  # noqa: E402


def status(cluster, member):
    stub = operator_pb2_grpc.OperatorServiceStub(cluster.client.channel(member.api))
    return stub.Status(operator_pb2.StatusRequest(), timeout=2)


def a_stopped_member_is_not_reachable():
    """SIGSTOP leaves its TCP connections open."""
    with Cluster() as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        wait_until("all are reachable", lambda: status(cluster, leader).reachable_count == 3, 10)
        assert status(cluster, leader).failure_tolerance == 1
        stopped = next(m for m in cluster.members if m is not leader)
        stopped.kill(signal.SIGSTOP)
        try:
            reply = wait_until("it is told unreachable",
                               lambda: (lambda r: r if r.reachable_count == 2 else None)(status(cluster, leader)), 5)
            assert reply.quorum and reply.failure_tolerance == 0, reply
            member = next(m for m in reply.members if m.name == stopped.name)
            assert not member.reachable and member.role == "unknown" and member.last_contact_ms >= 1000, member
            assert any("failure tolerance is 0" in w for w in reply.warnings), reply.warnings
            assert any(f"member {stopped.name} is unreachable" in w for w in reply.warnings), reply.warnings
            assert metric(leader.http, "ckpt_raft_peer_connected") == 1
            begun = time.monotonic()
            assert cluster.ctl("status", check=False).returncode in (0, 1)
            assert time.monotonic() - begun < 1, "ckptctl status waits for the stopped member"
        finally:
            stopped.kill(signal.SIGCONT)
        wait_until("it is back", lambda: status(cluster, leader).failure_tolerance == 1, 10)


def versions_of_members_that_led_are_told():
    with Cluster() as cluster:
        cluster.start()
        first = cluster.wait_leader()
        first.kill()
        second = cluster.wait_leader()
        versions = {m.name: m.version for m in status(cluster, second).members}
        assert versions[first.name] == versions[second.name] != "", versions


def an_unkillable_worker_does_not_hold_the_end_up():
    """A process of root that a daemon of nobody's may not kill stands for one that hangs in the kernel."""
    if os.geteuid() != 0:
        return "needs root"
    with Cluster(members=1) as cluster:
        programs, seen = cluster.dir / "bin", cluster.dir / "hung"
        programs.mkdir()
        shutil.copy(BIN / "ckptd", programs / "ckptd")
        shutil.copy(BIN / "hang", programs / "ckpt-worker")
        (programs / "ckpt-worker").chmod(0o4755)
        member = cluster.members[0]
        for path in (cluster.dir, cluster.scratch):
            path.chmod(0o777)
        with open(member.log, "ab") as log:
            member.process = subprocess.Popen(
                [str(programs / "ckptd"), "--config", str(cluster.config), "--name", member.name, "--data-dir", str(member.data_dir),
                 "--bootstrap"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=cluster.dir, user=65534, group=65534,
                env={**os.environ, "HANG_PID_FILE": str(seen), "MALLOC_PERTURB_": "165"})
        cluster.wait_leader()
        worker = int(wait_until("a probe hangs", lambda: seen.exists() and seen.read_text(), 10))
        try:
            wait_until("it is told unkillable", lambda: "cannot be killed" in "".join(status(cluster, member).targets[0].detail), 10)
            begun = time.monotonic()
            member.kill(signal.SIGTERM)
            wait_until("it stops", lambda: "event=stopping" in member.log.read_text(), 5)
            while member.process.poll() is None and time.monotonic() - begun < 15:
                member.kill(signal.SIGHUP)  # a reload that comes too late touches nothing of what is gone
                time.sleep(0.1)
            assert member.process.wait(15) == 0, "not a clean end"
            assert time.monotonic() - begun < 10, "SIGTERM took longer than 10 s"
            assert "event=workers_left" in member.log.read_text()
        finally:
            with contextlib.suppress(ProcessLookupError):  # its end with the member's is as well
                os.kill(worker, signal.SIGKILL)


def a_folder_of_another_user_is_left_alone():
    """What root wrote into the service's folder, the service could not read: --inspect-data of a torn log replaces its last segment."""
    if os.geteuid() != 0:
        return "needs root"
    with Cluster(members=1) as cluster:
        cluster.start()
        member = cluster.wait_leader()
        member.kill(signal.SIGTERM)
        member.process.wait(10)
        for path in (member.data_dir, *member.data_dir.iterdir()):
            os.chown(path, 65534, 65534)
        before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in member.data_dir.iterdir() if path.is_file()}
        for words in (["--inspect-data"], ["--recover", "--confirm", "0"], []):
            said = subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", member.name, "--data-dir",
                                   str(member.data_dir), *words], capture_output=True, text=True, timeout=10)
            assert said.returncode == 2, said
            assert f"{member.data_dir} belongs to user nobody, and this process runs as root" in said.stderr, said.stderr
            assert "sudo -u 'nobody'" in said.stderr, said.stderr
        assert before == {path.name: (path.stat().st_ino, path.read_bytes()) for path in member.data_dir.iterdir() if path.is_file()}


def ten_thousand_agents_fit():
    """Each keeps one connection to the leader; a member that may not open so many files says so when it starts."""
    wanted = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted + 1000:
        return f"needs {wanted + 1000} open files"
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    connections = []
    with Cluster(members=1) as cluster:
        cluster.start()
        host, port = cluster.members[0].api.rsplit(":", 1)
        try:
            for _ in range(wanted):
                connections.append(socket.create_connection((host, int(port)), timeout=10))
                connections[-1].sendall(preface)
            wait_until("all are taken", lambda: metric(cluster.members[0].http, "ckpt_rpc_connections") >= wanted, 20)
            assert status(cluster, cluster.members[0]).quorum
        finally:
            for connection in connections:
                connection.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def a_low_limit_of_open_files_is_told_at_the_start():
    with Cluster(members=1) as cluster:
        member = cluster.members[0]
        with open(member.log, "ab") as log:
            member.process = subprocess.Popen(
                ["prlimit", "--nofile=1000:1000", str(BIN / "ckptd"), "--config", str(cluster.config), "--name", member.name,
                 "--data-dir", str(member.data_dir), "--bootstrap"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=cluster.dir)
        cluster.wait_leader()
        assert "event=connections_limited wanted=12000 possible=872" in member.log.read_text(), member.log.read_text()


def answer_pings(connection, until_s):
    """True when the other end closes it."""
    data = b""
    while time.monotonic() < until_s:
        try:
            read = connection.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return True
        if not read:
            return True
        data += read
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
            length, kind = int.from_bytes(data[:3], "big"), data[3]
            if kind == 6 and not data[4] & 1:
                connection.sendall(bytes([0, 0, 8, 6, 1, 0, 0, 0, 0]) + data[9:17])
            data = data[9 + length:]
    return False


def a_client_that_does_not_read_is_told():
    """It answers every PING, so that it is not silent, and has no window for the one answer that it asked for."""
    headers = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/grpc.health.v1.Health/Check"), (b":authority", b"x"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers")))
    with Cluster(members=1) as cluster:
        cluster.start()
        member = cluster.members[0]
        assert metric(member.http, "ckpt_rpc_stalled_total") == 0
        host, port = member.api.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=0.5) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]) +
                               bytes([0, 0, len(headers), 1, 4, 0, 0, 0, 1]) + headers +
                               bytes([0, 0, 5, 0, 1, 0, 0, 0, 1]) + bytes(5))
            own = "%s:%d" % connection.getsockname()
            assert answer_pings(connection, time.monotonic() + 40), "it is still open"
        assert metric(member.http, "ckpt_rpc_stalled_total") == 1
        told = f"event=peer_stalled peer={own} identity=none left_out=0 text=\"7 bytes of answers wait for it, and it took less than 16384 in 20000 ms\""
        assert told in member.log.read_text(), member.log.read_text()


def a_reload_takes_what_needs_no_restart():
    """U-004, S2-020."""
    with Cluster(members=1) as cluster:
        cluster.start()
        member, text = cluster.members[0], cluster.config.read_text()
        for content, answer in ((text.replace("log_level: info", "log_level: debug"), "log level, certificates, object stores, the audit trail's key, telemetry and health were read"),
                                (text + "htcondor: {MAX_DISCARDED_RUN_TIME: 60}\n", "key=htcondor.MAX_DISCARDED_RUN_TIME text=\"it needs a restart"),
                                (text + "no_such_key: 1\n", "event=reload_failed")):
            cluster.config.write_text(content)
            member.kill(signal.SIGHUP)
            wait_until("the reload is told", lambda: answer in member.log.read_text(), 5)
        cluster.config.write_text(text)
        before = status(cluster, member).leader_since_ms
        member.kill(signal.SIGHUP)
        wait_until("the level is back", lambda: member.log.read_text().count("event=reloaded") == 3, 5)
        assert status(cluster, member).leader_since_ms == before, "a reload is no restart"


def an_agents_reload_names_what_needs_a_restart():
    """A changed key is taken, as the log level is, or told. S2-020."""
    with Cluster(members=1, agents=("a",)) as cluster:
        cluster.start()
        agent = cluster.agents["a"]
        agent.config.write_text(agent.config.read_text() + "htcondor: {CkptServer: elsewhere}\n")
        agent.kill(signal.SIGHUP)
        wait_until("the changed key is told", lambda: "key=htcondor.CkptServer text=\"it needs a restart\"" in agent.log.read_text(), 10)
        wait_until("what follows from it as well", lambda: "key=domain text=" in agent.log.read_text(), 5)
        assert "event=reloaded" in agent.log.read_text() and "key=brokers" not in agent.log.read_text(), agent.log.read_text()


def a_member_without_standard_streams_works_and_stops():
    """Its log goes nowhere, and not into a pipe or a file of its own that has their numbers. V-011."""
    with Cluster(members=1) as cluster:
        member = cluster.members[0]
        member.prefix = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
        cluster.start()
        assert [os.readlink(f"/proc/{member.process.pid}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3
        for _ in range(300):
            member.kill(signal.SIGUSR2)
            assert http_get(member.http, "/livez")[0] == 200
        member.kill(signal.SIGTERM)
        assert member.process.wait(10) == 0


if __name__ == "__main__":
    sys.exit(tap([a_stopped_member_is_not_reachable, versions_of_members_that_led_are_told,
                  an_unkillable_worker_does_not_hold_the_end_up, a_folder_of_another_user_is_left_alone,
                  ten_thousand_agents_fit, a_low_limit_of_open_files_is_told_at_the_start,
                  a_reload_takes_what_needs_no_restart, an_agents_reload_names_what_needs_a_restart, a_client_that_does_not_read_is_told,
                  a_member_without_standard_streams_works_and_stops]))
