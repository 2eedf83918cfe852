#!/usr/bin/python3
"""Bad input on every port, in every id, configuration and folder: a clear error each, nothing lost, nothing crashed."""
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, common_pb2, grpc, operator_pb2, tap, tail, wait_until  # noqa: E402

SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))


def send_and_hang_up(family, address, payload):
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        try:
            connection.connect(address)
            connection.sendall(payload)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass  # being hung up on is a fine answer


def payloads(draw):
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"\x00"
    yield b"GET / HTTP/1.0\r\n" + b"a: " + b"x" * 100000 + b"\r\n\r\n"
    yield preface
    yield preface + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\xff\xff\xff\x01\x05\x00\x00\x00\x01"
    yield preface + b"\x00\x40\x01\x09\x00\x00\x00\x00\x01" + b"\x00" * 20000
    for _ in range(20):
        yield draw.randbytes(draw.randrange(1, 5000))
        yield preface + draw.randbytes(draw.randrange(1, 3000))
    yield b"\x00" * (1 << 20)


def garbage_on_every_port_leaves_the_cluster_serving():
    print(f"# SEED={SEED}")
    draw = random.Random(SEED)
    with Cluster(agents=("a",)) as cluster:
        cluster.start()
        cluster.register("before", [("a", 1, 1 << 20)])
        pids = [d.process.pid for d in [*cluster.members, *cluster.agents.values()]]
        for payload in payloads(draw):
            for member in cluster.members:
                for address in (member.api, member.raft, member.http):
                    host, port = address.split(":")
                    send_and_hang_up(socket.AF_INET, (host, int(port)), payload)
            send_and_hang_up(socket.AF_UNIX, str(cluster.agents["a"].socket), payload)
        # half a frame and then silence, many times over, must not block others
        stuck = []
        for _ in range(50):
            connection = socket.create_connection(("127.0.0.1", int(cluster.members[0].raft.split(":")[1])))
            connection.sendall(b"\x01\x02\x03")
            stuck.append(connection)
        cluster.register("after", [("a", 1, 1 << 20)])
        for connection in stuck:
            connection.close()
        assert cluster.allocation("before").spec.allocation_id == "before"
        assert [d.process.pid for d in [*cluster.members, *cluster.agents.values()] if d.running()] == pids, "a daemon died"
        cluster.debug_check()


def spec(**changes):
    values = {"allocation_id": "job", "tenant": "t", "project": "p", "vcluster": "v", "owner": "o",
              "nodes": [common_pb2.NodeShare(node_id="n", gpu_count=1, gpu_memory_used_bytes=1 << 30)]}
    values.update(changes)
    return common_pb2.AllocationSpec(**values)


def refused(cluster, method, request, *codes, service="broker"):
    try:
        reply = getattr(cluster.client, service)(method, request, timeout_s=2, attempt_s=20)
    except grpc.RpcError as error:
        assert error.code() in codes, f"{method}: {error.code()} {error.details()}, expected {codes}"
        assert error.details(), f"{method}: refused without a text"
        return error.details()
    raise AssertionError(f"{method} was taken: {reply}")


def bad_requests_are_refused_by_name_and_number():
    invalid, full = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
    node = common_pb2.NodeShare
    with Cluster() as cluster:
        cluster.start()
        index = cluster.register("good", [("n", 1, 1 << 30)]).index

        def register(codes, request_id="r1", **changes):
            return refused(cluster, "RegisterAllocation",
                           broker_pb2.RegisterAllocationRequest(request_id=request_id, spec=spec(**changes)), *codes)

        for bad in ("", "a/b", "../x", "..", "a b", "a\x00b", "é", "x" * 129, "a\nb"):
            text = register([invalid], allocation_id=bad)
            assert "INVALID_ID" in text or bad == "", text
            register([invalid], tenant=bad)
            register([invalid], nodes=[node(node_id=bad, gpu_count=1)])
        assert "262144 bytes" in register([full], allocation_id="x" * (10 << 20))
        register([invalid], request_id="")
        register([invalid], request_id="x" * 129)
        register([invalid], preemption_class=11)
        register([invalid], preemption_class=4294967295)
        register([invalid], nodes=[])
        register([invalid], nodes=[node(node_id="n", gpu_count=100000)])
        register([invalid], nodes=[node(node_id="n", gpu_count=1, gpu_memory_used_bytes=(1 << 64) - 1)] * 2)
        register([invalid], walltime_ms=(1 << 64) - 1)
        register([invalid], strategy=77)
        register([invalid], requeue_policy=99)
        register([invalid], max_requeue=101)
        # an int32 -1 arrives as a 64-bit varint: unknown enum value again
        register([invalid], strategy=-1)
        register([grpc.StatusCode.NOT_FOUND, invalid], target_id="nowhere")
        refused(cluster, "RegisterAllocation", broker_pb2.RegisterAllocationRequest(request_id="r"), invalid)
        refused(cluster, "GetAllocation", broker_pb2.GetAllocationRequest(allocation_id="none"), grpc.StatusCode.NOT_FOUND)
        refused(cluster, "CancelCheckpoint", broker_pb2.CancelCheckpointRequest(request_id="c", checkpoint_id=(1 << 64) - 1),
                grpc.StatusCode.NOT_FOUND)
        refused(cluster, "RequestPreemption", broker_pb2.RequestPreemptionRequest(request_id="p", preemption_class=99, nodes_needed=1), invalid)
        refused(cluster, "RequestPreemption", broker_pb2.RequestPreemptionRequest(request_id="p", preemption_class=5, nodes_needed=0), invalid)
        refused(cluster, "PutTarget", operator_pb2.PutTargetRequest(request_id="t", spec=common_pb2.TargetSpec(
            target_id="s3", kind=common_pb2.TARGET_KIND_S3, prefix="s3://B/", write_bytes_per_s=1)), invalid, service="operator")
        refused(cluster, "RunDrill", operator_pb2.DrillRequest(request_id="d", name="x"), invalid, service="operator")
        # bytes that do not decode, and a field that nobody knows
        leader = cluster.wait_leader()
        raw = cluster.client.channel(leader.api).unary_unary("/ckpt.v1.BrokerService/RegisterAllocation")
        good = broker_pb2.RegisterAllocationRequest(request_id="u", spec=spec(allocation_id="u")).SerializeToString()
        for payload, word in ((b"\xff\xff\xff", ""), (good + b"\xfa\x7f\x01x", "UNKNOWN_FIELD"), (good[:-3], "")):
            try:
                raw(payload, timeout=5)
                raise AssertionError(f"{payload[-8:]} was taken")
            except grpc.RpcError as error:
                assert error.code() == invalid and word in error.details(), error
        try:
            cluster.client.channel(leader.api).unary_unary("/ckpt.v1.BrokerService/Nothing")(b"", timeout=5)
            raise AssertionError("an unknown method answered")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        names = {a.spec.allocation_id for a in cluster.client.broker("ListAllocations", broker_pb2.ListAllocationsRequest()).allocations}
        assert names == {"good"}, names
        assert cluster.allocation("good").registered_index == index
        cluster.debug_check()


def the_command_line_refuses_bad_numbers_with_usage():
    with Cluster(members=1) as cluster:
        cluster.start()
        for arguments in (("preempt", "--class", "-1", "--nodes", "1"), ("preempt", "--class", "nan", "--nodes", "1"),
                          ("preempt", "--class", "5", "--nodes", "99999999999999999999"), ("nonsense",), ("job",),
                          ("checkpoint", "1_2"), ("jobs", "-o", "xml"), ("--timeout", "-5s", "jobs")):
            result = cluster.ctl(*arguments, check=False)
            assert result.returncode == 2, f"ckptctl {arguments}: exit {result.returncode}: {result.stderr}"
            assert result.stderr and not result.stdout, arguments
        assert cluster.ctl("job", "none", check=False).returncode == 3
        cluster.members[0].kill()
        assert cluster.ctl("--timeout", "1s", "jobs", check=False).returncode == 5


def closed_files_end_the_command_line_cleanly():
    """A reader that went away ends --watch, a full disk does too; a standard stream that was closed is no reason to crash."""
    watch = [str(BIN / "ckptctl"), "whatif", "--numbers", "--watch", "--every", "100ms"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("NUMBER")
        process.stdout.close()
        try:
            assert process.wait(5) == 1, process.returncode
        finally:
            process.kill()
        assert process.stderr.read() == ""
    with open("/dev/full", "w") as full:
        result = subprocess.run(watch, stdout=full, stderr=subprocess.PIPE, text=True, timeout=5)
    assert result.returncode == 1 and "cannot write to stdout" in result.stderr, result
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = f'"$0" --endpoints 127.0.0.1:1 --timeout 200ms nodes {closed}'
        result = subprocess.run(["sh", "-c", command, str(BIN / "ckptctl")], capture_output=True, timeout=5)
        assert result.returncode == 5, (closed, result)


def ckptd(cluster, *arguments, config=None):
    return subprocess.run([str(BIN / "ckptd"), "--config", str(config or cluster.config), *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=20)


def configurations_are_refused_with_line_and_next_step():
    cluster = Cluster()
    try:
        text = cluster.config.read_text()
        assert ckptd(cluster, "--name", "n1", "--check-config").returncode == 0
        bad = cluster.dir / "bad.yaml"
        for change, expected in (((("election_ms", "election_mss")), "election_ms"), (("log_level: info", "log_level: loud"), "loud"),
                                 (("election_ms: 1000", "election_ms: -5"), "-5"), (("election_ms: 1000", "election_ms: nan"), "nan"),
                                 (("election_ms: 1000", "election_ms: 99999999999999999999"), "99999999999999999999"),
                                 (("cluster_id: demo", "cluster_id: a/b"), "a/b"), (("id: 2", "id: 1"), "1"),
                                 (("failures_down: 2", "failures_down: 0"), "0"), (("cluster_id: demo", "cluster_id: [demo"), "line")):
            assert change[0] in text, change
            bad.write_text(text.replace(change[0], change[1], 1))
            result = ckptd(cluster, "--name", "n1", "--check-config", config=bad)
            assert result.returncode == 2, f"{change}: exit {result.returncode} {result.stderr}"
            assert expected in result.stderr, f"{change}: {result.stderr}"
        bad.write_text(text.replace("election_ms", "election_mss", 1))
        assert "line" in ckptd(cluster, "--name", "n1", "--check-config", config=bad).stderr
        assert ckptd(cluster, "--name", "nobody", "--check-config").returncode == 2
        assert ckptd(cluster, "--name", "n1", "--check-config", config=cluster.dir / "absent.yaml").returncode == 2
        bad.write_text(text.replace(cluster.members[0].api, "0.0.0.0:7443", 1))
        assert "insecure" in ckptd(cluster, "--name", "n1", "--check-config", config=bad).stderr
        bad.write_bytes(os.urandom(4096))
        assert ckptd(cluster, "--name", "n1", "--check-config", config=bad).returncode == 2
    finally:
        cluster.stop()


def a_busy_address_is_refused_with_one_next_step():
    """Each listener names its address and says once what to do."""
    with Cluster(members=1) as cluster, socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        taken, text = cluster.dir / "taken.yaml", cluster.config.read_text()
        for listener in (cluster.members[0].api, cluster.members[0].raft, cluster.members[0].http):
            taken.write_text(text.replace(listener, address))
            result = ckptd(cluster, "--name", "n1", "--bootstrap", "--data-dir", str(cluster.dir / f"of-{listener}"), config=taken)
            assert result.returncode != 0 and address in result.stderr, result.stderr
            assert result.stderr.count("give an address of this host") == 1, result.stderr
        agent = cluster.dir / "agent.yaml"
        agent.write_text(f'brokers: "{cluster.members[0].api}"\nhttp: "{address}"\n')
        result = subprocess.run([str(BIN / "ckpt-agentd"), "--config", str(agent), "--name", "a", "--socket", str(cluster.dir / "a.sock"),
                                 "--state-dir", str(cluster.dir / "a")], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
        assert result.returncode != 0 and result.stderr.count("give an address of this host") == 1, result.stderr


def an_agents_configuration_is_checked_with_its_certificate():
    """What --check-config calls right, the agent starts with: also its certificate is read and must be this node's. U2."""
    def check(text):
        path.write_text(text)
        return subprocess.run([str(BIN / "ckpt-agentd"), "--config", str(path), "--name", "gpu-a", "--check-config"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "agent.yaml"
        assert check('brokers: "127.0.0.1:7443"\nheartbeat: 5s\n').returncode == 0
        result = check(f'brokers: "10.0.0.1:7443"\ntls: {{ca: {folder}/ca.crt, cert: "{folder}/agent-{{name}}.crt", key: "{folder}/k"}}\n')
        assert result.returncode == 2 and f"{folder}/" in result.stderr and "No such file" in result.stderr, result
        result = check('brokers: "127.0.0.1:7443"\nheartbeat: 500\n')
        assert result.returncode == 2 and "is not a duration" in result.stderr, result


def folders_of_others_are_refused():
    """Another member's folder, two processes on one folder, bootstrap twice, an empty folder without bootstrap. B-001, I11."""
    with Cluster() as cluster:
        cluster.start()
        first, second, third = cluster.members
        cluster.register("job", [("n", 1, 1 << 30)])
        result = ckptd(cluster, "--name", "n1", "--data-dir", str(first.data_dir))
        assert result.returncode != 0 and "another process" in result.stderr, result.stderr
        third.kill()
        copy = cluster.dir / "copy"
        shutil.copytree(third.data_dir, copy)
        result = ckptd(cluster, "--name", "n1", "--data-dir", str(copy))
        assert result.returncode != 0 and "member" in result.stderr and "3" in result.stderr, result.stderr
        result = ckptd(cluster, "--name", "n3", "--data-dir", str(third.data_dir), "--bootstrap")
        assert result.returncode != 0 and "bootstrap" in result.stderr, result.stderr
        result = ckptd(cluster, "--name", "n3", "--data-dir", str(cluster.dir / "empty"))
        assert result.returncode != 0 and "bootstrap" in result.stderr, result.stderr
        other = cluster.dir / "other.yaml"
        other.write_text(cluster.config.read_text().replace("cluster_id: demo", "cluster_id: other"))
        result = ckptd(cluster, "--name", "n3", "--data-dir", str(third.data_dir), config=other)
        assert result.returncode != 0 and "demo" in result.stderr, result.stderr
        third.start()
        assert first.running() and second.running()
        cluster.debug_check()


def a_damaged_log_is_refused_with_path_and_offset():
    with Cluster() as cluster:
        cluster.start()
        for i in range(50):
            cluster.register(f"job{i}", [("n", 1, 1 << 30)])
        victim = next(m for m in cluster.members if m is not cluster.wait_leader())
        victim.kill()
        segments = [p for p in victim.data_dir.rglob("*") if p.is_file() and p.stat().st_size > 4096 and b"job1" in p.read_bytes()]
        assert segments, "no file holds the registrations"
        data = bytearray(segments[0].read_bytes())
        data[data.index(b"job1")] ^= 0x40
        segments[0].write_bytes(data)
        victim.start(wait=False)
        code = wait_until("the damaged member stops itself", lambda: victim.process.poll() is not None and (victim.process.returncode,), 10)[0]
        assert code != 0
        text = tail(victim.log, 5)
        assert segments[0].name in text and "offset" in text, text
        cluster.register("still", [("n", 1, 1 << 30)])


if __name__ == "__main__":
    sys.exit(tap([garbage_on_every_port_leaves_the_cluster_serving, bad_requests_are_refused_by_name_and_number,
                  the_command_line_refuses_bad_numbers_with_usage, closed_files_end_the_command_line_cleanly,
                  configurations_are_refused_with_line_and_next_step, a_busy_address_is_refused_with_one_next_step, an_agents_configuration_is_checked_with_its_certificate,
                  folders_of_others_are_refused, a_damaged_log_is_refused_with_path_and_offset]))
