#!/usr/bin/python3
"""Certificates of all kinds at a real member: 20 pairs of a role and a method, drawn by a seed, each tried and judged by the table of src/broker/README.md;
a scheduler of one tenant, who sees and stops its jobs alone; a certificate that was revoked. K-001, K-005, K-009."""
import json
import os
import pathlib
import random
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ROOT, Cluster, broker_pb2, broker_pb2_grpc, common_pb2, grpc, metric, operator_pb2, tap, wait_until  # noqa: E402

COLUMNS = ("replica", "agent", "scheduler", "operator", "auditor")
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
                 "auditor": cluster.site.issue("auditor", "eve")}
        changes, denied = cluster.ctl("audit", "list", "-o", "name").stdout, 0
        for _ in range(20):
            service, method = draw.choice(methods)
            kind = draw.choice([k for k in COLUMNS if k != "operator" or method.startswith(READS)])
            cell = rows.get((service, method), rows[service, None])[kind]
            code, text = call(cluster, stems[kind], service, method)
            print(f"# {kind} {method}: {cell}, {code.name}")
            if cell == "yes":
                assert code != grpc.StatusCode.PERMISSION_DENIED, (kind, method, text)
            elif cell == "–":
                assert code == grpc.StatusCode.PERMISSION_DENIED, (kind, method, code, text)
                assert f"/{kind}/" in text and f"{service}/{method}" in text and "it takes a certificate of kind" in text, text
                denied += 1
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


if __name__ == "__main__":
    tap([twenty_pairs_are_as_the_table_says, a_scheduler_of_a_tenant_sees_and_stops_its_jobs_alone, a_revoked_certificate_is_put_out])
