#!/usr/bin/python3
"""Mutual TLS on Raft and API ports with real processes: everything works as without it, strangers are refused by name, certificates
are replaced while everything runs. K-001, K-009, S11, U3, U11."""
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

os.environ["GRPC_VERBOSITY"] = "NONE"  # it prints what these tests provoke
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import (BIN, Agent, Client, Cluster, agent_pb2, agent_pb2_grpc, broker_pb2, broker_pb2_grpc, free_port, grpc,  # noqa: E402
                     http_status, load_json, metric, often, operator_pb2, operator_pb2_grpc, tail, tap, wait_until)
from site_files import Site  # noqa: E402

EXPIRY = "ckpt_tls_certificate_expiry_timestamp_seconds"


def log_has(path, *words):
    text = pathlib.Path(path).read_text(errors="replace")
    return any(all(w in line for w in words) for line in text.splitlines())


def wait_log(path, *words, timeout_s=10):
    try:
        wait_until(f"{path.name} says {words}", lambda: log_has(path, *words), timeout_s, 0.05)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{tail(path, 25)}")


def register(cluster, name, node="a"):
    return cluster.register(name, [(node, 1, 1 << 20)])


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def stub(cluster, address, stem, service=broker_pb2_grpc.BrokerServiceStub, site=None, ca=None):
    channel = grpc.secure_channel(address, (site or cluster.site).credentials(stem, ca),
                                  options=[("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50),
                                           ("grpc.max_reconnect_backoff_ms", 100)])
    return service(channel), channel


def a_cluster_over_tls_commits_fails_over_and_its_agents_follow():
    with Cluster(agents=("a", "b"), tls=True) as cluster:
        cluster.start()
        for i in range(50):
            register(cluster, f"job-{i}")
        for name in ("a", "b"):
            wait_log(cluster.agents[name].log, "event=session_open")
        for turn in range(4):
            leader = cluster.wait_leader()
            started = time.monotonic()
            leader.kill(signal.SIGKILL)
            register(cluster, f"after-{turn}")
            took_s = time.monotonic() - started
            print(f"# SIGKILL of the leader to the next acknowledged registration: {took_s * 1000:.0f} ms")
            assert took_s < 0.9, f"{took_s} s: not by the end of the connection (S11), but by timers"
            leader.start()
            wait_until("all members are reachable", lambda: all_reachable(cluster), 10, 0.05)
        for i in range(50):
            assert cluster.allocation(f"job-{i}").spec.allocation_id == f"job-{i}"
        check = cluster.ctl("debug", "check")
        assert check.returncode == 0, check.stdout + check.stderr
        status = load_json(cluster.ctl("status", "-o", "json"))["status"]
        assert all(a["status"]["certificate_expires_ms"] > time.time() * 1000 for a in status["answers"]), status
        for member in cluster.members:
            lines = [line for line in pathlib.Path(member.log).read_text().splitlines() if "event=tls_refused" in line]
            # a member that was killed in the middle of a handshake broke it off; nothing else is refused here
            assert all("closed the connection during the handshake" in line for line in lines), lines


def all_reachable(cluster):
    status = load_json(cluster.ctl("status", "-o", "json", check=False))["status"]
    return status["reachable_count"] == len(cluster.members)


def only_the_certificates_kind_decides_who_may_call_what():
    with Cluster(members=1, agents=("a",), tls=True) as cluster:
        cluster.start()
        member = cluster.members[0]
        request = broker_pb2.ListAllocationsRequest()
        policy = operator_pb2.GetPolicyRequest()
        drain = operator_pb2.DrainNodeRequest(request_id="x", node_id="a")
        cases = [("agent-a", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED"),
                 ("scheduler-test", "OK", "OK", "PERMISSION_DENIED"), ("operator-test", "OK", "OK", "other"),
                 ("replica-1", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED")]
        for stem, broker, reading, changing in cases:
            found, channel = stub(cluster, member.api, stem)
            operator = operator_pb2_grpc.OperatorServiceStub(channel)
            for wanted, (code, details) in ((broker, code_of(lambda: found.ListAllocations(request, timeout=5))),
                                            (reading, code_of(lambda: operator.GetPolicy(policy, timeout=5))),
                                            (changing, code_of(lambda: operator.DrainNode(drain, timeout=5)))):
                if wanted == "other":
                    assert code != grpc.StatusCode.PERMISSION_DENIED, details
                else:
                    assert code.name == wanted, (stem, code, details)
                if wanted == "PERMISSION_DENIED" and stem == "agent-a" and "ListAllocations" in details:
                    assert "for a user of its own node only, and says whom" in details, details
                elif wanted == "PERMISSION_DENIED":
                    assert f"ckpt://demo/{stem.replace('-', '/')} may not call" in details, details
                    assert "takes a certificate of kind" in details, details
            channel.close()
        wait_log(member.log, "event=access_denied", "ckpt://demo/agent/a")
        refused = cluster.ctl("policy", "set", "max_victims=2", check=False, tls=cluster.site.arguments("scheduler-test"))
        assert refused.returncode == 7, refused
        assert "ckpt://demo/scheduler/test may not call" in refused.stderr, refused.stderr


def an_agent_cannot_speak_for_another_node():
    with Cluster(members=1, agents=("a", "b"), tls=True) as cluster:
        cluster.start()
        spoof, channel = stub(cluster, cluster.members[0].api, "agent-a", agent_pb2_grpc.AgentServiceStub)

        def hello(node):
            yield agent_pb2.AgentUp(hello=agent_pb2.AgentHello(node_id=node, boot_id="x", version="x"))

        code, details = code_of(lambda: list(spoof.Session(hello("b"), timeout=5)))
        assert code == grpc.StatusCode.PERMISSION_DENIED, (code, details)
        assert "ckpt://demo/agent/a may not speak for node b" in details, details
        wait_log(cluster.members[0].log, "event=agent_refused", "identity=ckpt://demo/agent/a", "node=b")
        channel.close()
        # the program itself does not start with a certificate of another node
        shutil.copy(cluster.site.cert("agent-a"), cluster.site.cert("agent-c"))
        shutil.copy(cluster.site.key("agent-a"), cluster.site.key("agent-c"))
        agent = Agent(cluster, "c")
        try:
            agent.start()
            raise AssertionError("the agent started with another node's certificate")
        except RuntimeError as error:
            assert "names ckpt://demo/agent/a, not agent c" in str(error), error


def an_agent_reads_restart_points_of_its_own_nodes_jobs_only():
    """K-001: where a job's files lie, and their sums, are told to the nodes that it has. A spare hears what it waits for, and nothing of the files."""
    with Cluster(members=1, agents=("a", "b"), tls=True) as cluster:
        cluster.start()
        register(cluster, "hers", "b")
        agent, channel = stub(cluster, cluster.members[0].api, "agent-a")
        for node in ("b", ""):
            code, details = code_of(lambda node=node: agent.GetRestartPoint(broker_pb2.GetRestartPointRequest(allocation_id="hers", node_id=node), timeout=5))
            assert code == grpc.StatusCode.PERMISSION_DENIED and "ckpt://demo/agent/a asks for its own node only" in details, (code, details)
        point = agent.GetRestartPoint(broker_pb2.GetRestartPointRequest(allocation_id="hers", node_id="a"), timeout=5)
        assert list(point.node_ids) == ["b"] and not point.checkpoints_path and not point.checkpoints_prefix, point
        channel.close()
        owner, channel = stub(cluster, cluster.members[0].api, "agent-b")
        point = owner.GetRestartPoint(broker_pb2.GetRestartPointRequest(allocation_id="hers", node_id="b"), timeout=5)
        assert point.checkpoints_path and point.checkpoints_prefix, point
        channel.close()


def certificates_are_replaced_while_everything_runs():
    with Cluster(agents=("a",), tls=True) as cluster:
        cluster.start()
        register(cluster, "before")
        wait_log(cluster.agents["a"].log, "event=session_open")
        leader = cluster.wait_leader()
        pids = [m.process.pid for m in cluster.members]
        before = {m.id: expiry(m) for m in cluster.members}

        # by the change of the files
        for member in cluster.members:
            cluster.site.issue("replica", member.id, "--host", "127.0.0.1,localhost", "--valid", "90d", replace=True)
        for member in cluster.members:
            wait_log(member.log, "event=tls_reloaded")
            wait_until("the metric moves", lambda m=member: expiry(m) < before[m.id] - 86400, 5)
        assert cluster.wait_leader() is leader, "a reload must not cost the leadership"
        register(cluster, "after-files")

        # broken files change nothing, and say so
        victim = next(m for m in cluster.members if m is not leader)
        good = cluster.site.cert(f"replica-{victim.id}").read_bytes()
        cluster.site.cert(f"replica-{victim.id}").write_text("half a certificate")
        wait_log(victim.log, "event=tls_reload_failed", f"replica-{victim.id}.crt: holds no certificate")
        wait_until("the metric says so", lambda: metric(victim.http, "ckpt_tls_reload_failed") == 1, 5)
        shown = cluster.ctl("status").stdout  # also when another member knows best
        assert f"warning: the certificate files of {victim.name} cannot be used" in shown, shown
        register(cluster, "while-broken")

        # by SIGHUP
        cluster.site.cert(f"replica-{victim.id}").write_bytes(good)
        victim.process.send_signal(signal.SIGHUP)
        wait_until("the metric is well again", lambda: metric(victim.http, "ckpt_tls_reload_failed") == 0, 5)

        # new connections between all members use the new certificates
        leader.kill()
        register(cluster, "after-failover")
        leader.start()
        wait_until("all members are reachable", lambda: all_reachable(cluster), 10, 0.05)
        assert [m.process.pid for m in cluster.members if m is not leader] == [p for p, m in zip(pids, cluster.members) if m is not leader]

        # the agent's, too
        cluster.site.issue("agent", "a", replace=True)
        wait_log(cluster.agents["a"].log, "event=tls_reloaded")


def expiry(member):
    from cluster import http_get
    for line in http_get(member.http, "/metrics")[1].splitlines():
        if line.startswith(EXPIRY + '{certificate="own"}'):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{member.name} shows no {EXPIRY}")


def a_whole_ca_is_replaced_without_an_outage():
    """Trust both, issue from the new one, trust the new one only: the order that the runbook gives."""
    with Cluster(agents=("a",), tls=True) as cluster:
        cluster.start()
        site = cluster.site
        fresh = Site(cluster.dir / "tls2", BIN / "ckptctl")
        old_ca = site.ca.read_bytes()
        register(cluster, "old")
        replace(site.ca, old_ca + fresh.ca.read_bytes())
        for member in cluster.members:
            wait_log(member.log, "event=tls_reloaded")
        wait_log(cluster.agents["a"].log, "event=tls_reloaded")
        register(cluster, "both")
        stale, stale_channel = stub(cluster, cluster.members[0].api, "operator-test", operator_pb2_grpc.OperatorServiceStub)
        assert code_of(lambda: stale.Status(operator_pb2.StatusRequest(), timeout=5))[0] == grpc.StatusCode.OK
        for number, member in enumerate(cluster.members):
            fresh.issue("replica", member.id, "--host", "127.0.0.1,localhost")
            move_pair(fresh, site, f"replica-{member.id}")
            wait_until("it was read", lambda m=member: reloads(m.log) >= 2, 10, 0.05)
        fresh.issue("agent", "a")
        move_pair(fresh, site, "agent-a")
        fresh.issue("operator", "new")
        cluster.client.close()
        cluster.client = Client([m.api for m in cluster.members], fresh.credentials("operator-new"))
        wait_until("the agent read it", lambda: reloads(cluster.agents["a"].log) >= 2, 10, 0.05)
        register(cluster, "new")
        replace(site.ca, fresh.ca.read_bytes())
        for member in cluster.members:
            wait_until("it was read", lambda m=member: reloads(m.log) >= 3, 10, 0.05)
        register(cluster, "only-new")
        # who still has an old certificate is put out, on open connections as well
        wait_until("the old operator is out", lambda: code_of(
            lambda: stale.Status(operator_pb2.StatusRequest(), timeout=2))[0] == grpc.StatusCode.UNAVAILABLE, 10, 0.1)
        stale_channel.close()
        wait_log(cluster.members[0].log, "event=tls_refused", "ckpt://demo/operator/test is no longer good")
        # connections between members that began with the old certificates as well: a stolen one is worth nothing from here on
        wait_until("members' old certificates are out", lambda: any("port=raft" in line and "is no longer good" in line for m in cluster.members
                                                                    for line in m.log.read_text().splitlines()), 10)
        cluster.wait_leader().kill()
        register(cluster, "after-failover")
        for name in ("old", "both", "new", "only-new", "after-failover"):
            assert cluster.allocation(name).spec.allocation_id == name


class Writers:
    """Write all the time, with certificates of the new CA that both CAs' members are trusted with."""

    def __init__(self, cluster, credentials):
        self.ends, self.running = [], True
        self.clients = [Client([m.api for m in cluster.members], credentials) for _ in range(4)]
        self.threads = [threading.Thread(target=self.write, args=(n,)) for n in range(len(self.clients))]
        for thread in self.threads:
            thread.start()

    def write(self, number):
        turn = 0
        while self.running:
            turn += 1
            self.clients[number].broker("ReportQueue", broker_pb2.ReportQueueRequest(request_id=f"w{number}-{turn}", vcluster="hpc"))
            self.ends.append(time.monotonic())
            time.sleep(often(0.01, 0))

    def end(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        for client in self.clients:
            client.close()

    def gap_s(self, since):
        ends = sorted(e for e in list(self.ends) if e > since)
        return max(b - a for a, b in zip([since, *ends], ends))


def terms(cluster):
    status = load_json(cluster.ctl("status", "-o", "json", tls=cluster.tls_now))["status"]
    return status["term"], status["leader_name"]


def a_ca_is_replaced_under_load_without_an_election():
    """Members end the connections whose certificates are of the old CA. That proves nothing about their leader. S11."""
    with Cluster(tls=True) as cluster:
        site, fresh = cluster.site, Site(cluster.dir / "tls2", BIN / "ckptctl")
        trusted = {member: site.dir / f"ca-{member.id}.crt" for member in cluster.members}
        cluster.config.write_text(cluster.config.read_text().replace(str(site.ca), str(site.dir / "ca-{id}.crt")))
        for file in trusted.values():
            file.write_bytes(site.ca.read_bytes())
        cluster.start()
        cluster.tls_now = None
        for member, file in trusted.items():
            replace(file, site.ca.read_bytes() + fresh.ca.read_bytes())
            wait_log(member.log, "event=tls_reloaded")
        fresh.issue("operator", "new")
        both = cluster.dir / "both.crt"
        both.write_bytes(site.ca.read_bytes() + fresh.ca.read_bytes())
        cluster.tls_now = ["--ca", str(both), "--cert", str(fresh.cert("operator-new")), "--key", str(fresh.key("operator-new"))]
        writers = Writers(cluster, fresh.credentials("operator-new", both))
        try:
            wait_until("they write", lambda: len(writers.ends) > 100, 20)
            before, since = terms(cluster), time.monotonic()
            for member in cluster.members:
                fresh.issue("replica", member.id, "--host", "127.0.0.1,localhost")
                move_pair(fresh, site, f"replica-{member.id}")
            for member in cluster.members:
                wait_until("it was read", lambda m=member: reloads(m.log) >= 2, 10, 0.05)
            for member, file in trusted.items():  # one host after the other
                replace(file, fresh.ca.read_bytes())
                wait_until("it was read", lambda m=member: reloads(m.log) >= 3, 10, 0.05)
            count = len(writers.ends)
            wait_until("they go on", lambda: len(writers.ends) > count + 500, 20)
            after = terms(cluster)
        finally:
            writers.end()
        print(f"# a CA replaced under load: term {before[0]} before and {after[0]} after, {len(writers.ends)} writes, "
              f"none for {writers.gap_s(since) * 1000:.0f} ms at most")
        assert any("port=raft" in line and "is no longer good" in line for m in cluster.members for line in m.log.read_text().splitlines())
        assert after == before, (before, after)


def cut_connections(port):
    """All on loopback with this port at either end, as a firewall or `ss -K` does. False: this kernel or user may not."""
    cut = subprocess.run(["ss", "-K", "-t", "state", "established", f"( sport = :{port} or dport = :{port} )"], capture_output=True, text=True)
    return cut.returncode == 0 and "127.0.0.1" in cut.stdout


def connections_that_are_cut_cost_no_election():
    """A leader whose connections ended and that answers at its address goes on. One whose process is gone is replaced. F-002, S11."""
    if os.geteuid() != 0 or shutil.which("ss") is None:
        return "ss -K needs root"
    with Cluster(tls=True, timers={"election_ms": 4000}) as cluster:
        cluster.start()
        cluster.tls_now = None
        writers = Writers(cluster, cluster.site.credentials("operator-test"))
        try:
            wait_until("they write", lambda: len(writers.ends) > 100, 20)
            before, since = terms(cluster), time.monotonic()
            for _ in range(5):
                for member in cluster.members:
                    if not cut_connections(member.raft.split(":")[1]):
                        return "this kernel does not end connections for ss -K"
                time.sleep(0.5)
            after = terms(cluster)
            print(f"# connections between members were cut five times: none written for {writers.gap_s(since) * 1000:.0f} ms at most")
            assert after == before, (before, after)
            killed = time.monotonic()
            cluster.wait_leader().kill()
            count = len(writers.ends)
            wait_until("they go on", lambda: len(writers.ends) > count + 500, 20)
            print(f"# then the leader was killed: none written for {writers.gap_s(killed) * 1000:.0f} ms at most")
            assert writers.gap_s(killed) < 4, "by timers, not by the leader's address that refuses (S11)"
        finally:
            writers.end()
    return None


def reloads(path):
    return pathlib.Path(path).read_text().count("event=tls_reloaded")


def replace(path, content):
    temporary = path.with_suffix(".new")
    temporary.write_bytes(content)
    temporary.rename(path)


def move_pair(source, target, stem):
    os.rename(source.key(stem), target.key(stem))
    os.rename(source.cert(stem), target.cert(stem))


def each_kind_of_wrong_peer_is_refused_and_named():
    with Cluster(members=1, tls=True) as cluster:
        cluster.start()
        member, site = cluster.members[0], cluster.site
        api_host, api_port = member.api.split(":")
        raft_port = int(member.raft.split(":")[1])

        foreign = Site(cluster.dir / "foreign", BIN / "ckptctl")
        foreign.issue("operator", "mallory")
        _, details = code_of(lambda: stub(cluster, member.api, "operator-mallory", operator_pb2_grpc.OperatorServiceStub, foreign,
                                          site.ca)[0].Status(operator_pb2.StatusRequest(), timeout=3))
        wait_log(member.log, "event=tls_refused", "port=api", "ckpt://demo/operator/mallory", "one CA")
        ours = cluster.ctl("status", check=False, tls=foreign.arguments("operator-mallory"))
        assert ours.returncode in (5, 7) and "TLS:" in ours.stderr, (ours.returncode, ours.stderr)

        other = Site(cluster.dir / "other", BIN / "ckptctl", cluster="prod")
        # the same CA key, but a name of another cluster, as if one CA served both
        other_ca = subprocess.run(["openssl", "x509", "-in", str(other.ca), "-noout", "-subject"], capture_output=True, text=True)
        assert other_ca.returncode == 0, other_ca.stderr
        other.issue("operator", "ann")
        both = site.ca.read_bytes()
        replace(site.ca, both + other.ca.read_bytes())
        wait_log(member.log, "event=tls_reloaded")
        code, details = code_of(lambda: stub(cluster, member.api, "operator-ann", operator_pb2_grpc.OperatorServiceStub, other,
                                             site.ca)[0].Status(operator_pb2.StatusRequest(), timeout=5))
        assert code == grpc.StatusCode.PERMISSION_DENIED and "is of another cluster than demo" in details, (code, details)

        # no certificate at all
        context = ssl.create_default_context(cafile=str(site.ca))
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((api_host, int(api_port)), timeout=5) as raw:
            try:
                with context.wrap_socket(raw, server_hostname="localhost") as wrapped:
                    assert wrapped.recv(100) == b"", "an answer without a certificate"
            except OSError as error:
                assert "CERTIFICATE_REQUIRED" in str(error).upper().replace(" ", "_") or "reset" in str(error), error
        wait_log(member.log, "event=tls_refused", "the peer showed no certificate")

        # a name that is not its own: the client refuses
        site.issue("replica", 1, "--host", "elsewhere.example", replace=True)
        wait_until("it was read", lambda: reloads(member.log) >= 2, 10, 0.05)
        code, _ = code_of(lambda: stub(cluster, member.api, "operator-test", operator_pb2_grpc.OperatorServiceStub)[0].Status(
            operator_pb2.StatusRequest(), timeout=2))
        assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), code
        assert cluster.ctl("status").returncode == 0  # ours goes by the identity

        # plain text on a TLS port, and the other way round
        plain = cluster.ctl("status", check=False, tls=[])
        assert plain.returncode == 7 and "wants TLS" in plain.stderr, (plain.returncode, plain.stderr)
        wait_log(member.log, "event=tls_refused", "port=api", "what came is not TLS")
        for port in (raft_port, int(api_port)):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
                raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while raw.recv(100):
                    pass
        wait_log(member.log, "event=tls_refused", "port=raft", "what came is not TLS")

        # a handshake that stalls, on both ports
        started = time.monotonic()
        stalled = [socket.create_connection(("127.0.0.1", port), timeout=10) for port in (raft_port, int(api_port))]
        for raw in stalled:
            raw.sendall(bytes([22, 3, 1, 2, 0, 1]))
            assert raw.recv(100) == b""
            raw.close()
        assert time.monotonic() - started < 8
        wait_log(member.log, "event=tls_refused", "port=raft", "no complete handshake within 1500 ms")
        wait_log(member.log, "event=tls_refused", "port=api", "no complete handshake within 5000 ms")

        # an API certificate that is no replica's cannot join the members' conversation
        context = ssl.create_default_context(cafile=str(site.ca))
        context.check_hostname = False
        context.load_cert_chain(site.cert("operator-test"), site.key("operator-test"))
        context.set_alpn_protocols(["ckpt-raft"])
        with socket.create_connection(("127.0.0.1", raft_port), timeout=5) as raw:
            with context.wrap_socket(raw) as wrapped:
                try:
                    assert wrapped.recv(100) == b""
                except OSError:
                    pass
        wait_log(member.log, "event=tls_refused", "port=raft", "ckpt://demo/operator/test, not a replica of cluster demo")
        assert metric(member.http, "ckpt_tls_refused_total") >= 8
        assert cluster.ctl("status").returncode == 0


def a_member_whose_certificate_names_another_id_stays_out():
    with Cluster(tls=True) as cluster:
        cluster.start()
        register(cluster, "before")
        leader = cluster.wait_leader()
        victim, witness = [m for m in cluster.members if m is not leader]
        victim.kill()

        # its own ckptd refuses to start with it
        good = {p: p.read_bytes() for p in (cluster.site.cert(f"replica-{victim.id}"), cluster.site.key(f"replica-{victim.id}"))}
        for make in (cluster.site.cert, cluster.site.key):
            replace_keeping_mode(make(f"replica-{victim.id}"), make(f"replica-{witness.id}").read_bytes())
        checked = subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", victim.name, "--check-config"],
                                 capture_output=True, text=True)
        assert checked.returncode == 2 and f"not replica {victim.id}" in checked.stderr, checked
        try:
            victim.start()
            raise AssertionError("it started with another member's certificate")
        except RuntimeError as error:
            assert f"names ckpt://demo/replica/{witness.id}, not replica {victim.id}" in str(error), error
        # another replica's certificate under the address of the victim is refused by those who dial it: a stand-in with witness's files
        impostor = impostor_start(cluster, victim, witness)
        try:
            for member in (leader, witness):
                wait_log(member.log, "event=tls_refused", "port=raft",
                         f"names ckpt://demo/replica/{witness.id}, not member {victim.id}")
        finally:
            impostor.kill()
            impostor.wait()
        for path, content in good.items():
            replace_keeping_mode(path, content)
        victim.start()
        wait_until("all members are reachable", lambda: all_reachable(cluster), 10, 0.05)
        register(cluster, "after")


def impostor_start(cluster, victim, witness):
    """openssl s_server at the victim's Raft address with the witness's certificate."""
    host, port = victim.raft.split(":")
    process = subprocess.Popen(
        ["openssl", "s_server", "-accept", f"{host}:{port}", "-cert", str(cluster.site.cert(f"replica-{witness.id}")), "-key",
         str(cluster.site.key(f"replica-{witness.id}")), "-CAfile", str(cluster.site.ca), "-Verify", "1", "-alpn", "ckpt-raft", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process


def replace_keeping_mode(path, content):
    mode = path.stat().st_mode & 0o777
    replace(path, content)
    path.chmod(mode)


def members_join_with_certificates_of_their_own():
    with Cluster(tls=True) as cluster:
        cluster.start()
        register(cluster, "before")
        new = cluster.new_member()
        new.start()
        words = ("member", "add", new.name, "--id", str(new.id), "--raft", new.raft, "--api", new.api)
        cluster.ctl(*words)
        cluster.ctl("member", "promote", new.name)
        wait_until("it votes", lambda: voters(cluster) == 4, 10, 0.1)
        # who answers at the address of a member to be added must be that member by its certificate
        stranger = cluster.new_member()
        impostor = impostor_start(cluster, stranger, new)
        try:
            wait_until("it listens", lambda: listens(stranger.raft), 5, 0.05)
            refused = cluster.ctl("member", "add", stranger.name, "--id", str(stranger.id), "--raft", stranger.raft, "--api", stranger.api,
                                  check=False)
            assert refused.returncode == 4, refused
            assert f"does not name member {stranger.id}" in refused.stderr, refused.stderr
        finally:
            impostor.kill()
            impostor.wait()
        cluster.members.remove(stranger)
        cluster.wait_leader().kill()
        register(cluster, "after")


def voters(cluster):
    return load_json(cluster.ctl("status", "-o", "json"))["status"]["voter_count"]


def listens(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        return True
    except OSError:
        return False


def every_kind_of_ckptctl_command_goes_over_tls():
    with Cluster(members=1, agents=("a",), tls=True) as cluster:
        cluster.start()
        register(cluster, "job")
        assert "job" in cluster.ctl("jobs").stdout  # a read
        assert "job" in cluster.ctl("events").stdout  # a stream
        assert "n1" in cluster.ctl("status", "-o", "wide").stdout and "d left" in cluster.ctl("status", "-o", "wide").stdout
        cluster.ctl("policy", "set", "max_victims=2")  # a mutation
        saved = cluster.dir / "saved.backup"
        cluster.ctl("backup", "save", str(saved))  # a stream of megabytes
        assert saved.stat().st_size > 0
        # the same by the environment, as schedulers' programs have it
        result = subprocess.run([str(BIN / "ckptctl"), "jobs"], capture_output=True, text=True,
                                env={**os.environ, "CKPT_ENDPOINTS": cluster.members[0].api, **cluster.site.environment("scheduler-test")})
        assert result.returncode == 0 and "job" in result.stdout, result


def certificates_that_end_soon_are_warned_of_and_ended_ones_refused():
    with Cluster(members=1, tls=True) as cluster:
        site, member = cluster.site, cluster.members[0]
        site.issue("replica", 1, "--host", "127.0.0.1", "--valid", "8d12h", replace=True)
        cluster.start()
        wait_log(member.log, "event=tls_expiring", "what=certificate", "days_left=8")
        shown = cluster.ctl("status").stdout
        assert "the certificate of n1 ends in 8 days" in shown, shown
        site.issue("operator", "brief", "--valid", "2s")
        assert cluster.ctl("status", tls=site.arguments("operator-brief")).returncode == 0
        wait_until("it has expired", lambda: cluster.ctl("status", check=False, tls=site.arguments("operator-brief")).returncode == 7, 10)
        late = cluster.ctl("status", check=False, tls=site.arguments("operator-brief"))
        assert "expired at" in late.stderr, late.stderr
        show = cluster.ctl("tls", "show", str(site.cert("operator-brief")))
        assert "EXPIRED" in show.stdout, show.stdout


def a_member_whose_certificate_has_ended_is_refused_until_it_has_another_one():
    """It goes on with the connections it has; new ones are refused and say why, and a new certificate is enough to be let in again."""
    with Cluster(tls=True) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        late, other = [m for m in cluster.members if m is not leader]
        cluster.site.issue("replica", late.id, "--host", "127.0.0.1,localhost", "--valid", "5s", replace=True)
        wait_log(late.log, "event=tls_reloaded")
        time.sleep(max(0, expiry(late) + 1 - time.time()))
        register(cluster, "before")
        other.kill()
        other.start()
        wait_log(other.log, "event=tls_refused", "expired", f"/replica/{late.id}")
        leader.kill()
        leader.start()
        register(cluster, "without-it")
        wait_log(leader.log, "event=tls_refused", "expired", f"/replica/{late.id}")
        assert cluster.wait_leader() is not late
        assert f"member {late.name} was not heard of" in cluster.ctl("status", check=False).stdout
        cluster.site.issue("replica", late.id, "--host", "127.0.0.1,localhost", replace=True)
        wait_until("all are ready", lambda: all(http_status(m.http, "/readyz") == 200 for m in cluster.members), 20)
        cluster.debug_check()


def without_tls_only_loopback_is_bound():
    with Cluster(members=1) as cluster:
        cluster.config.write_text(cluster.config.read_text().replace(cluster.members[0].api, f"0.0.0.0:{free_port()}"))
        result = subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", "n1", "--check-config"],
                                capture_output=True, text=True)
        assert result.returncode == 2 and "set tls, or 'insecure: yes'" in result.stderr, result.stderr
        cluster.config.write_text("insecure: yes\n" + cluster.config.read_text())
        member = cluster.members[0]
        member.start()
        wait_log(member.log, "level=warning", "event=insecure", "TLS IS OFF")


def an_agents_side_port_beyond_loopback_is_insecure():
    with Cluster(members=1) as cluster:
        config = cluster.dir / "side-port.yaml"
        port = free_port()
        config.write_text(f'brokers: "{cluster.members[0].api}"\nhttp: "0.0.0.0:{port}"\nsysfs: ""\n')
        command = [str(BIN / "ckpt-agentd"), "--config", str(config), "--name", "gpu-1", "--state-dir", str(cluster.dir / "side-port"),
                   "--socket", str(cluster.dir / "side-port.sock")]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=20)
        assert refused.returncode == 2 and "set 'insecure: yes' (--insecure)" in refused.stderr, refused
        log = cluster.dir / "side-port.log"
        with open(log, "wb") as out:
            agent = subprocess.Popen([*command, "--insecure"], stdout=out, stderr=out)
        wait_log(log, "level=warning", "event=insecure", f"0.0.0.0:{port} reads the metrics")
        agent.terminate()
        assert agent.wait(20) == 0


def status_names_the_member_that_is_insecure():
    """K-010."""
    with Cluster() as cluster:
        cluster.start()
        follower = next(m for m in cluster.members if m is not cluster.wait_leader())
        follower.kill()
        follower.extra = ["--insecure"]
        follower.start()
        wait_until("it answers", lambda: f"the network of {follower.name} is insecure: everyone" in cluster.ctl("status", check=False).stdout, 10)
        for other in cluster.members:
            assert other is follower or f"of {other.name} is insecure" not in cluster.ctl("status").stdout


TESTS = [a_cluster_over_tls_commits_fails_over_and_its_agents_follow, only_the_certificates_kind_decides_who_may_call_what,
         an_agent_cannot_speak_for_another_node, an_agent_reads_restart_points_of_its_own_nodes_jobs_only,
         certificates_are_replaced_while_everything_runs,
         a_whole_ca_is_replaced_without_an_outage, a_ca_is_replaced_under_load_without_an_election,
         connections_that_are_cut_cost_no_election, each_kind_of_wrong_peer_is_refused_and_named,
         a_member_whose_certificate_names_another_id_stays_out, members_join_with_certificates_of_their_own,
         every_kind_of_ckptctl_command_goes_over_tls, certificates_that_end_soon_are_warned_of_and_ended_ones_refused,
         a_member_whose_certificate_has_ended_is_refused_until_it_has_another_one,
         without_tls_only_loopback_is_bound, an_agents_side_port_beyond_loopback_is_insecure, status_names_the_member_that_is_insecure]

sys.exit(tap(TESTS))
