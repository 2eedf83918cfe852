#!/usr/bin/python3
"""Certificates of all kinds at a real member: 20 pairs of a role and a method, drawn by a seed, each tried and judged by the table of src/broker/README.md;
a scheduler of one tenant, who sees and stops its jobs alone; a certificate that was revoked. K-001, K-005, K-009."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ROOT, Cluster, agent_pb2, agent_pb2_grpc, broker_pb2, broker_pb2_grpc, common_pb2, grpc, metric, operator_pb2, tap, wait_until  # noqa: E402

COLUMNS = ("replica", "agent", "scheduler", "operator", "auditor")
KINDS = (*COLUMNS, "monitor")  # which may call nothing, and has no column
STREAMS = ("Watch", "Backup")
# what an operator's empty request would do, or change
READS = ("Get", "List", "Explain", "Plan", "Status", "DebugCheck")


def table():
    """{(service, method): {kind: cell}} of the README; a row "the rest" has the method None."""
    found = {}
    text = (ROOT / "src" / "broker" / "README.md").read_text()
    for row in re.findall(r"^\| (`(?:Broker|Operator)Service.*)\|$", text, re.M):
        names, *cells = (cell.strip() for cell in row.split("|"))
        service, methods = names[1:].split("/", 1) if "/" in names else (names[1:names.index("`", 1)], None)
        for method in [None] if methods is None else [name.strip("`") for name in methods.split(", ")]:
            found[service, method] = dict(zip(COLUMNS, cells))
    return found


def call(cluster, stem, service, method, request=b""):
    """The code and the text, or OK and the reply's bytes."""
    with grpc.secure_channel(cluster.members[0].api, cluster.site.credentials(stem)) as channel:
        try:
            return grpc.StatusCode.OK, channel.unary_unary(f"/ckpt.v1.{service}/{method}")(request, timeout=10)
        except grpc.RpcError as error:
            return error.code(), error.details()


def twenty_pairs_are_as_the_table_says():
    seed = int(os.environ.get("SEED", 20))
    print(f"# SEED={seed}")
    draw, rows = random.Random(seed), table()
    methods = [(service.name, m.name) for service in (broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
                                                      operator_pb2.DESCRIPTOR.services_by_name["OperatorService"])
               for m in service.methods if m.name not in STREAMS]
    with Cluster(members=1, tls=True) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        stems = {"replica": "replica-1", "agent": cluster.site.issue("agent", "a"), "scheduler": "scheduler-test", "operator": "operator-test",
                 "auditor": cluster.site.issue("auditor", "eve"), "monitor": cluster.site.issue("monitor", "prometheus")}
        changes, denied = cluster.ctl("audit", "list", "-o", "name").stdout, 0
        pairs = [(service, method, kind) for service, method in methods for kind in KINDS if kind != "operator" or method.startswith(READS)]
        for service, method, kind in draw.sample(pairs, 20):
            cell = rows.get((service, method), rows[service, None]).get(kind, "–")
            code, text = call(cluster, stems[kind], service, method)
            print(f"# {kind} {method}: {cell}, {code.name}")
            if cell == "yes":
                assert code != grpc.StatusCode.PERMISSION_DENIED, (kind, method, text)
            elif cell == "–":
                assert code == grpc.StatusCode.PERMISSION_DENIED, (kind, method, code, text)
                assert f"/{kind}/" in text and f"{service}/{method}" in text and "it takes a certificate of kind" in text, text
                denied += 1
            else:  # of its own node's jobs: an empty request is about none
                assert code not in (grpc.StatusCode.OK, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), (kind, method, code, text)
        assert denied > 3, denied
        assert cluster.ctl("audit", "list", "-o", "name").stdout == changes  # nothing was changed
        assert metric(leader.http, "ckpt_denied_total") >= denied


def a_scheduler_of_a_tenant_sees_and_stops_its_jobs_alone():
    with Cluster(members=1, tls=True) as cluster:
        cluster.start()
        cluster.wait_leader()
        for tenant in ("physics", "biology"):
            spec = common_pb2.AllocationSpec(allocation_id=tenant, tenant=tenant, project="p", nodes=[common_pb2.NodeShare(node_id="a", gpu_count=1)])
            cluster.client.broker("RegisterAllocation", broker_pb2.RegisterAllocationRequest(request_id=tenant, spec=spec))
        stem = cluster.site.issue("scheduler", "slurm", "--tenant", "physics")

        def ask(method, request):
            return call(cluster, stem, "BrokerService", method, request.SerializeToString())

        code, reply = ask("ListAllocations", broker_pb2.ListAllocationsRequest(tenant="physics"))
        assert [a.spec.allocation_id for a in broker_pb2.ListAllocationsReply.FromString(reply).allocations] == ["physics"], code
        for request in (broker_pb2.ListAllocationsRequest(), broker_pb2.ListAllocationsRequest(tenant="biology")):
            code, text = ask("ListAllocations", request)
            assert code == grpc.StatusCode.PERMISSION_DENIED and "for tenant physics alone" in text, text
        for name in ("biology", "none"):  # another one's is as none
            code, text = ask("GetAllocation", broker_pb2.GetAllocationRequest(allocation_id=name))
            assert code == grpc.StatusCode.NOT_FOUND and text.startswith("NOT_YOURS: tenant physics has no such job"), text
            code, text = ask("EndAllocation", broker_pb2.EndAllocationRequest(request_id=f"end-{name}", allocation_id=name))
            assert code == grpc.StatusCode.NOT_FOUND and text.startswith("NOT_YOURS"), text
        code, text = ask("ReportQueue", broker_pb2.ReportQueueRequest(request_id="q", vcluster="hpc"))
        assert code == grpc.StatusCode.PERMISSION_DENIED and "is about others as well" in text, text
        code, text = ask("EndAllocation", broker_pb2.EndAllocationRequest(request_id="end", allocation_id="physics"))
        assert code == grpc.StatusCode.OK, text
        states = {a.spec.allocation_id: a.state for a in cluster.client.broker("ListAllocations", broker_pb2.ListAllocationsRequest()).allocations}
        assert states["physics"] == common_pb2.ALLOCATION_STATE_COMPLETED and states["biology"] == common_pb2.ALLOCATION_STATE_STARTING, states


def a_scheduler_of_a_tenant_registers_its_jobs_and_reads_their_events_and_losses():
    """K-005: with the commands of a scheduler's prolog and epilog; of nodes it learns how they are, and nothing of others' jobs."""
    with Cluster(members=1, agents=("a",), tls=True) as cluster:
        cluster.start()
        cluster.wait_leader()
        cluster.register("other", [("a", 1, 1 << 30)], tenant="biology")
        tls = cluster.site.arguments(cluster.site.issue("scheduler", "lab", "--tenant", "physics"))

        def lab(*words):
            return cluster.ctl(*words, check=False, tls=tls)

        wait_until("the agent is known", lambda: '"ready"' in cluster.ctl("nodes", "-ojson").stdout, 20)
        own = ("--tenant", "physics", "--project", "p")
        typo = lab("register", "--alloc", "own", *own, "--node", "aa:1:1GiB")
        assert typo.returncode == 4 and "no agent has ever spoken from node aa" in typo.stderr, typo
        taken = lab("register", "--alloc", "own", *own, "--node", "a:1:1GiB")
        assert taken.returncode == 0, taken
        node, = json.loads(lab("nodes", "-ojson").stdout)["nodes"]
        assert node["state"] == "ready" and node["allocation_count"] == 1, node  # its own, of two
        assert lab("node", "show", "a").returncode != 0
        losses = lab("losses", "--tenant", "physics", "-ojson")
        assert losses.returncode == 0 and [item["name"] for item in json.loads(losses.stdout)["losses"]] == ["physics"], losses
        for words in (("losses",), ("losses", "--tenant", "biology")):
            refused = lab(*words)
            assert refused.returncode != 0 and "for tenant physics alone" in refused.stderr, refused
        events = lab("events", "own", "-ojson")
        assert events.returncode == 0, events
        assert {event["allocation_id"] for event in json.loads(events.stdout)["events"]} == {"own"}, events.stdout
        assert lab("events", "own", "--current", "-ojson").returncode == 0
        for words in (("events", "other"), ("events", "none"), ("events", "other", "--current")):
            refused = lab(*words)
            assert refused.returncode == 3 and "NOT_YOURS: tenant physics has no such job" in refused.stderr and refused.stdout == "", refused
        refused = lab("events")
        assert refused.returncode != 0 and "name a job of tenant physics" in refused.stderr, refused
        # whose job took its nodes, and who asked for that, is no tenant's business
        cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(request_id="take", preemption_class=10, nodes_needed=1, candidates=["own"],
                                                                                       for_job="other"))
        for who, asked, caller in ((cluster.ctl, "other", True), (lab, "", False)):
            taken, = (e for e in json.loads(who("events", "own", "-ojson").stdout)["events"] if e["kind"] == "PREEMPTION")
            assert taken["subject"] == asked and bool(taken["caller"]) == caller, taken
        cluster.ctl("end", "own", "--yes")


def end_of(stream):
    try:
        for _ in stream:
            pass
        return "end"
    except grpc.RpcError as error:
        return error.code()


def a_revoked_certificate_is_put_out():
    """K-009: an open stream ends, and it does not come in again, also after the member's start; others are taken."""
    with Cluster(members=1, tls=True) as cluster:
        cluster.start()
        cluster.wait_leader()
        stem = cluster.site.issue("operator", "leaver")
        file = str(cluster.site.cert(stem))
        channel = grpc.secure_channel(cluster.members[0].api, cluster.site.credentials(stem))
        stream = broker_pb2_grpc.BrokerServiceStub(channel).Watch(broker_pb2.WatchRequest(follow=True), timeout=30)
        ended = []
        threading.Thread(target=lambda: ended.append(end_of(stream)), daemon=True).start()
        serial = json.loads(cluster.ctl("tls", "show", file, "-o", "json").stdout)["certificate"]["serial"]
        assert "There is no way back" in cluster.ctl("tls", "revoke", file, check=False).stderr
        assert cluster.ctl("tls", "revoked", "-o", "name").stdout == ""
        cluster.ctl("tls", "revoke", file, "--note", "left the site", "--yes")
        cluster.ctl("tls", "revoke", serial, "--yes")  # as tls show prints it; done already
        assert "INVALID_SERIAL" in cluster.ctl("tls", "revoke", "nobody", "--yes", check=False).stderr
        assert cluster.ctl("tls", "revoked", "-o", "name").stdout.strip() == serial.replace(":", "").lower()
        assert "left the site" in cluster.ctl("tls", "revoked").stdout
        wait_until("the stream has ended", lambda: ended, 15)
        channel.close()
        for start in (False, True):
            if start:
                cluster.members[0].kill()
                cluster.members[0].start()
                cluster.wait_leader()
            code, text = call(cluster, stem, "BrokerService", "ListAllocations")
            assert code == grpc.StatusCode.UNAVAILABLE, (code, text)
            assert call(cluster, "operator-test", "BrokerService", "ListAllocations")[0] == grpc.StatusCode.OK
        refused = cluster.ctl("jobs", check=False, tls=cluster.site.arguments(stem))
        assert refused.returncode != 0 and "revoked" in refused.stderr, refused
        assert "revoked" in cluster.ctl("events").stdout
        assert f"certificate {serial.replace(':', '').lower()}" in cluster.ctl("audit", "list").stdout


class False_member(agent_pb2_grpc.AgentServiceServicer):
    """Answers agents with a member's certificate, and welcomes them as a leader would."""

    def __init__(self, site, stem):
        self.calls = 0
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        agent_pb2_grpc.add_AgentServiceServicer_to_server(self, self.server)
        credentials = grpc.ssl_server_credentials([(site.key(stem).read_bytes(), site.cert(stem).read_bytes())], site.ca.read_bytes(), True)
        self.port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.server.start()

    def Session(self, requests, context):
        self.calls += 1
        yield agent_pb2.AgentDown(welcome=agent_pb2.AgentWelcome(cluster_id="demo", epoch=9, term=9, heartbeat_interval_ms=100))
        for _ in requests:
            pass


def an_agent_refuses_a_member_whose_certificate_was_revoked():
    """K-009: a stolen key of a member commands no node: the list reaches the agent on its open stream, ends that, and is kept over its restart."""
    with Cluster(members=1, agents=("a",), tls=True) as cluster:
        cluster.start()
        cluster.wait_leader()
        agent, site, member = cluster.agents["a"], cluster.site, cluster.members[0]
        wait_until("its stream is open", lambda: agent.log.read_text().count("event=session_open") == 1, 10)
        stolen = site.issue("replica", 7, "--host", "127.0.0.1")
        for part in (site.cert, site.key):  # of member 1, before it is replaced
            part(stolen).write_bytes(part("replica-1").read_bytes())
        false = False_member(site, stolen)
        config = cluster.agent_config.read_text()
        try:
            # the certificate is good: whoever has it is obeyed
            agent.kill()
            cluster.agent_config.write_text(config.replace(member.api, f"127.0.0.1:{false.port}"))
            agent.start()
            wait_until("it is taken for a leader", lambda: false.calls > 0, 10)
            agent.kill()
            shutil.rmtree(agent.state_dir)  # and its fence, which no true leader would pass
            cluster.agent_config.write_text(config)
            agent.start()
            wait_until("its stream is open", lambda: agent.log.read_text().count(f"event=session_open endpoint={member.api}") == 2, 10)
            # the member itself has the certificate as well, and loses its agents until it has another one
            cluster.ctl("tls", "revoke", str(site.cert(stolen)), "--note", "stolen", "--yes")
            wait_until("the agent has the list", lambda: "event=revoked_taken certificates=1" in agent.log.read_text(), 15)
            wait_until("its stream has ended", lambda: "certificate revoked" in agent.log.read_text() or "was revoked" in agent.log.read_text(), 15)
            site.issue("replica", 1, "--host", "127.0.0.1,localhost", replace=True)
            wait_until("the other certificate is taken", lambda: agent.log.read_text().count(f"event=session_open endpoint={member.api}") == 3, 15)
            # the thief is dialled first, before anybody could tell the list
            agent.kill()
            calls, at = false.calls, agent.log.stat().st_size
            cluster.agent_config.write_text(config.replace(member.api, f"127.0.0.1:{false.port}"))
            agent.start()
            wait_until("it is refused", lambda: "revoked" in agent.log.read_text()[at:], 15)
            assert false.calls == calls, (false.calls, calls)
            agent.kill()
            at = agent.log.stat().st_size
            cluster.agent_config.write_text(config)
            agent.start()
            wait_until("the member is taken", lambda: f"event=session_open endpoint={member.api}" in agent.log.read_text()[at:], 15)
        finally:
            false.server.stop(0)


if __name__ == "__main__":
    tap([an_agent_refuses_a_member_whose_certificate_was_revoked, twenty_pairs_are_as_the_table_says, a_scheduler_of_a_tenant_sees_and_stops_its_jobs_alone,
         a_scheduler_of_a_tenant_registers_its_jobs_and_reads_their_events_and_losses, a_revoked_certificate_is_put_out])
