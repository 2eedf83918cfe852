"""Random well-formed messages of the public API: ids from small sets, so that they meet, numbers at both ends of their ranges, texts at their limits,
now and then a value that no enumeration has. begin() sets the seed. CALLS has a row for each method: how often, service, name, what makes its request."""
import pathlib
import random
import re
import time

from cluster import broker_pb2, common_pb2, operator_pb2, own_name
from ckpt.v1 import drill_pb2
from google.protobuf.descriptor import FieldDescriptor as FD

ROOT = pathlib.Path(__file__).resolve().parents[2]
R = random.Random()
NODES = [f"n{i}" for i in range(8)]
ALLNODES = NODES + ["x0", "x1"]  # no agent ever speaks of the last two
TARGETS = ["scratch", "t1", "t2", "t3"]
TENANTS = ["physics", "bio", "T" * 128]
VCL = ["hpc", "ml", "V" * 128, "hpc"]
JUR = ["CH", "DE", ""]
DOMAINS = ["", "d1", "d2"]
SERIALS = ["aa", "bb01", "0" * 40, "ff" * 20, "abc", "zz"]
BASE = [0]  # ids of jobs move on, so that some are forgotten
KNOWN = []  # jobs that were taken
CKPTS, REQUESTS = [], []
folder = None  # of the targets
calls = None   # the file in which each call and report is written down


def begin(seed, where, log_file):
    global folder, calls
    R.seed(seed)
    folder, calls = where, log_file
    BASE[0] = 0
    for known in (KNOWN, CKPTS, REQUESTS):
        known.clear()


def log(kind, text):
    calls.write(f"{time.time():.3f} {kind} {text}\n")


def short(message):
    text = " ".join(str(message).split())
    return text if len(text) < 4000 else text[:4000] + "..."


def chance(p):
    return R.random() < p


def one(*values):
    return R.choice(values)


def alloc():
    if KNOWN and chance(0.75):
        return R.choice(KNOWN[-16:])
    return f"a{BASE[0] + R.randrange(14)}" if chance(0.97) else one("never", "A" * 128, "a0", "a-.__")


def node():
    return R.choice(ALLNODES) if chance(0.98) else one("N" * 128, "q")


def request_id():
    if REQUESTS and chance(0.02):
        return R.choice(REQUESTS)
    text = f"r{R.randrange(1 << 40):x}" if chance(0.99) else one("x", "R" * 127 + str(R.randrange(10)), "", "R" * 129)
    REQUESTS.append(text)
    del REQUESTS[:-200]
    return text


def ckpt():
    if CKPTS and chance(0.9):
        return R.choice(CKPTS[-30:])
    return one(0, 1, (1 << 40) + R.randrange(1, 60), (1 << 64) - 1, 2 << 40, 1 << 40)


def duration(field):
    if chance(0.08):
        return one(0, 1, 315360000000, 315360000001, 1 << 48, (1 << 64) - 1)
    return one(0, 0, 1, 100, 1000, 3000, 10000, 60000, 600000, 3600000, 86400000, 315360000000)


def instant(field):
    now = int(time.time() * 1000)
    if chance(0.05):
        return one(1, 1 << 48, (1 << 48) + 1, (1 << 64) - 1)
    return one(0, 0, 0, now, now - 5000, now - 10000000, now + 100000, 1)


def size(field):
    if chance(0.05):
        return one(1, (1 << 50), (1 << 50) + 1, (1 << 64) - 1)
    return one(0, 1, 1 << 20, 1 << 30, 160 << 30, 1 << 50)


def share():
    return common_pb2.NodeShare(node_id=node(), gpu_count=one(0, 1, 1, 2, 4, 8, 1024) if chance(0.98) else one(1025, (1 << 32) - 1),
                                gpu_memory_used_bytes=one(0, 1 << 20, 1 << 30, 1 << 50) if chance(0.98) else size(""),
                                borrowed=chance(0.3), home_vcluster=one("", "", *VCL))


def shares(low, high):
    chosen = R.sample(ALLNODES if chance(0.1) else NODES, R.randint(low, min(high, len(NODES))))
    out = []
    for name in chosen:
        part = share()
        part.node_id = name
        out.append(part)
    if chance(0.005) and out:
        out.append(out[0])
    return out


# the kinds of texts, by the field's name
TEXT = {
    "request_id": request_id, "allocation_id": alloc, "for_job": lambda: one("", alloc(), "w1", "w2", "w3"),
    "continues": lambda: f"a{max(0, BASE[0] - 4 + R.randrange(16))}", "tenant": lambda: R.choice(TENANTS), "project": lambda: one("p", "q", "P" * 128),
    "vcluster": lambda: R.choice(VCL), "page_token": lambda: "" if chance(0.9) else "t", "home_vcluster": lambda: R.choice(VCL), "owner": lambda: one("root", "ann", "o" * 128, "1000"),
    "target_id": lambda: R.choice(TARGETS) if chance(0.97) else "t" * 128, "failover_target_id": lambda: R.choice(TARGETS),
    "node_id": node, "profile": lambda: one("file", "signal", "signal", "grpc", "shm", "exec", "criu", "nope" if chance(0.1) else "signal-usr2"), "domain": lambda: R.choice(DOMAINS),
    "tier": lambda: one("nvme", "T" * 128), "jurisdiction": lambda: R.choice(JUR), "attributes": lambda: one("CKPT_EXIT=1", "A=1\nB=2", "A=" + "x" * 1022, "A"),
    "job_id": lambda: one("w1", "w2", "w3", "a1", alloc()), "candidates": alloc, "useful_nodes": node, "evidence": lambda: one("off", "e" * 200, "e" * 201),
    "reason": lambda: one("because", "r" * 200, "r" * 201), "by": lambda: one("me", "b" * 128), "serial": lambda: R.choice(SERIALS),
    "note": lambda: one("n", "n" * 80, "n" * 81), "prefix": lambda: one(*[str(folder / f"target{i}") for i in range(4)], "/nonexistent/x", "/" + "p" * 1022),
    "path": lambda: one("/x", str(folder)), "detail": lambda: "d", "name": lambda: one("leader-kill", "leader-hang", "member-loss", "storage-outage", "restore"),
    "raft_address": lambda: "127.0.0.1:1", "api_address": lambda: "127.0.0.1:1",
}
DEEP = {"nodes": lambda: shares(1, 4)}
KNOWN_U32 = {
    "preemption_class": lambda: one(0, 0, 1, 5, 9, 10) if chance(0.995) else one(11, (1 << 32) - 1),
    "reactive_min_nodes": lambda: one(0, 0, 1, 1, 2, 3), "reactive_max_nodes": lambda: one(0, 2, 3, 4, 4, 4096, (1 << 32) - 1),
    "max_requeue": lambda: one(0, 1, 100, 101), "keep_complete": lambda: one(0, 2, 3, 32, 33, 1), "nodes_needed": lambda: one(0, 1, 1, 1, 2, 3, 5, (1 << 32) - 1),
    "gpus_needed": lambda: one(0, 0, 0, 1, 4, 16, (1 << 32) - 1), "staging_share_ppm": lambda: one(0, 1, 300000, 1000000, 1000001),
    "generations": lambda: one(0, 1, 8, 255, 256), "max_restores": lambda: one(0, 1, 2, 1 << 20, (1 << 20) + 1), "max_writes": lambda: one(0, 1, 2, 1 << 20, (1 << 20) + 1),
    "gpu_count": lambda: one(0, 1, 8, (1 << 32) - 1), "urgency_milli": lambda: one(0, 1000, 1, (1 << 32) - 1), "feature_level": lambda: one(0, 0, 1, 2, 3),
    "write_bytes_per_s": lambda: one(0, 1, 1000, 10**9, 1 << 50, (1 << 50) + 1), "read_bytes_per_s": lambda: one(0, 1, 1000, 10**9, 1 << 50),
    "checkpoint_id": ckpt, "checkpoint_ids": ckpt, "drill_id": lambda: R.randrange(5), "member_id": lambda: R.randrange(5), "run": lambda: R.randrange(5),
    "zeros": lambda: one(0, 0, 0, 1 << R.randrange(64), R.getrandbits(64) & R.getrandbits(64)),
    "value_gpu_ms": lambda: one(0, 0, 0, 1, 10**9, 10**15, (1 << 63) - 1, (1 << 64) - 1), "deadline_ms": lambda: one(0, 0, 500, 2000, 31536000000, 31536000001),
    "walltime_ms": lambda: one(0, 0, 0, 0, 1000, 8000, 20000, 60000, 3600000, 3600000, 315360000000), "period_ms": lambda: one(0, 0, 0, 1, 1000, 5000, 315360000000),
    "first_period_ms": lambda: one(0, 0, 0, 1, 1000), "grace_ms": lambda: one(0, 1, 500, 1000, 1000, 315360000000),
    "checkpoint_timeout_ms": lambda: one(0, 0, 1, 100, 1000, 3000, 315360000000), "duration_ms": lambda: one(1, 500, 1000, 5000, 31536000000, (1 << 64) - 1),
    "queued_gpu_ms": lambda: one(0, 1, 10**6, 10**12, 10**15, (1 << 62), (1 << 64) - 1), "running_gpu_ms": lambda: one(0, 1, 10**6, 10**12, 10**15, (1 << 62), (1 << 64) - 1),
}
DENSITY = {"AllocationSpec": 0.35, "TargetSpec": 0.3, "Policy": 0.05, "NodeShare": 1}
ALWAYS = {"request_id", "allocation_id", "spec", "node_id", "checkpoint_id", "policy", "vcluster", "target_id", "tenant", "project"}


def number(field):
    if field.name in KNOWN_U32:
        return KNOWN_U32[field.name]()
    top = (1 << 32) - 1 if field.cpp_type in (FD.CPPTYPE_UINT32, FD.CPPTYPE_INT32) else (1 << 64) - 1
    for ends, maker in (("_at_ms", instant), ("_ms", duration), ("_bytes", size), ("_per_s", size)):
        if field.name.endswith(ends):
            return min(top, maker(field))
    if chance(0.1):
        return one(0, 1, top)
    return R.randrange(8)


def scalar(field):
    if field.cpp_type == FD.CPPTYPE_STRING:
        if field.type == FD.TYPE_BYTES:
            return b""
        return TEXT.get(field.name, lambda: one("t", "a1"))()
    if field.cpp_type == FD.CPPTYPE_BOOL:
        return chance(0.5)
    if field.cpp_type == FD.CPPTYPE_ENUM:
        return R.choice(field.enum_type.values).number if chance(0.998) else 77
    value = number(field)
    if field.cpp_type == FD.CPPTYPE_INT32:
        value = min(value, (1 << 31) - 1)
    return value


def fill(message, density=None):
    name = message.DESCRIPTOR.name
    density = density if density is not None else DENSITY.get(name, 0.45)
    for field in message.DESCRIPTOR.fields:
        if field.name not in ALWAYS and not chance(density):
            continue
        if field.label == FD.LABEL_REPEATED:
            target = getattr(message, field.name)
            if field.name in DEEP:
                target.extend(DEEP[field.name]())
            elif field.cpp_type == FD.CPPTYPE_MESSAGE:
                for _ in range(one(0, 1, 2, 5, 64 if chance(0.1) else 3)):
                    fill(target.add())
            else:
                target.extend(scalar(field) for _ in range(one(0, 1, 1, 2, 3)))
        elif field.cpp_type == FD.CPPTYPE_MESSAGE:
            fill(getattr(message, field.name))
        else:
            setattr(message, field.name, scalar(field))
    return message



def register():
    if chance(0.12):
        BASE[0] += 1
    message = fill(broker_pb2.RegisterAllocationRequest())
    spec = message.spec
    spec.allocation_id = alloc() if chance(0.3) else f"a{BASE[0] + R.randrange(14)}"
    message.waits = chance(0.15)
    del spec.nodes[:]
    spec.nodes.extend(shares(1, one(1, 1, 2, 3, 4, 8)))
    if chance(0.85):  # likely to be taken
        spec.tenant, spec.project, spec.vcluster = one("physics", "bio"), "p", R.choice(VCL)
        spec.owner = one("root", "ann") if chance(0.3) else own_name()
        if chance(0.7):
            spec.ClearField("target_id")
        if chance(0.8):
            spec.ClearField("continues")
        else:
            spec.tenant, spec.owner = "physics", own_name()
        if chance(0.7):
            spec.ClearField("attributes")
            spec.ClearField("profile")
        if chance(0.8):
            spec.sensitive = False
            spec.ClearField("jurisdiction")
            if spec.vcluster_kind == common_pb2.VCLUSTER_KIND_SENSITIVE:
                spec.vcluster_kind = common_pb2.VCLUSTER_KIND_HPC
        if spec.reactive_max_nodes or spec.reactive_min_nodes or chance(0.3):
            count = len(spec.nodes)
            spec.reactive_min_nodes, spec.reactive_max_nodes = R.randint(1, count), one(count, count + 1, 4096)
        for field in ("started_at_ms", "submitted_at_ms"):
            if chance(0.8):
                spec.ClearField(field)
        if spec.max_requeue > 100:
            spec.max_requeue = 2
        if spec.keep_complete in (1, 33):
            spec.keep_complete = 2
    if chance(0.05):  # sizes and times at their ends
        spec.write_bytes_per_s = one(1, 1, 1 << 50, 2)
        for part in spec.nodes:
            part.gpu_memory_used_bytes, part.gpu_count = 1 << 50, one(1024, 1)
        spec.checkpoint_timeout_ms = one(0, 315360000000, 1)
        spec.grace_ms = one(0, 315360000000)
        spec.walltime_ms = one(0, 315360000000)
        spec.started_at_ms = one(0, 1 << 48, 1) if not message.waits else 0
        spec.submitted_at_ms = one(0, 1 << 48, 1)
        spec.period_ms = one(0, 1, 315360000000)
    if chance(0.003):
        del spec.nodes[:]
        spec.nodes.extend(common_pb2.NodeShare(node_id=f"big{i}", gpu_count=1024, gpu_memory_used_bytes=1 << 50) for i in range(4096))
        spec.restore = 1
    return message


FAST = dict(evaluation_interval_ms=200, min_interval_ms=500, max_interval_ms=3000, checkpoint_timeout_ms=2000, grace_ms=300, max_deferral_ms=1000,
            near_completion_ms=500, retention_ms=3000, retry_backoff_ms=100, node_degraded_after_ms=1500, node_down_after_ms=3000, restart_cost_ms=500,
            failover_after_ms=1000, release_check_ms=1000, scrub_interval_ms=2000, sensitive_min_interval_ms=500, sensitive_max_interval_ms=2000,
            sensitive_timeout_ms=2000, scale_cooldown_ms=500, restart_wait_ms=1000, hang_after_ms=1000, orphan_scan_interval_ms=5000, orphan_age_ms=1000,
            orphan_remove_age_ms=1000, learned_interval_ms=1000, queue_max_age_ms=2000, session_ttl_ms=20000)


def policy():
    rows = re.findall(r"(DURATION|COUNT32|COUNT64|CHOICE)\((\w+), ([^,]+), ([^,]+), ", POLICY_TEXT.split("#define FSM_POLICY_FIELDS")[1])
    message = operator_pb2.SetPolicyRequest(request_id=request_id())
    if chance(0.75):
        for key, value in FAST.items():
            setattr(message.policy, key, value)
        message.policy.max_victims = one(1, 3, 16)
        message.policy.zeros = 0
        return message
    names = {"FSM_SECOND_MS": 1000, "FSM_HOUR_MS": 3600000, "FSM_DAY_MS": 86400000, "FSM_YEAR_MS": 31536000000, "FSM_DAY_MINUTES": 1440,
             "FSM_VICTIMS_MAX": 16, "FSM_DURATION_MAX_MS": 315360000000, "FSM_COMPLETE_KEPT_MIN": 2, "FSM_COMPLETE_KEPT_MAX": 32, "FSM_ATTEMPTS_MAX": 16,
             "FSM_PPM": 1000000, "FSM_BANDWIDTH_MAX": 1 << 50, "FSM_REQUEUE_MAX": 100, "FSM_GPUS_PER_NODE_MAX": 1024}
    for kind, name, low, high in R.sample(rows, one(1, 1, 2, 4)):
        low = re.sub(r"UINT64_C\((\d+)\)", r"\1", low)
        high = re.sub(r"UINT64_C\((\d+)\)", r"\1", high)
        low, high = eval(low, names), eval(high, names)  # noqa: S307
        field = name + "_ms" if kind == "DURATION" else name
        value = one(low, high, low, high, R.randint(low, high), max(0, low - 1), high + 1)
        setattr(message.policy, field, value)
        if value == 0:
            message.policy.zeros |= 1 << min(63, message.policy.DESCRIPTOR.fields_by_name[field].number)
    if chance(0.1):
        message.policy.zeros = KNOWN_U32["zeros"]()
    if chance(0.05):
        message.policy.feature_level = one(1, 2, 3)
    return message


POLICY_TEXT = (ROOT / "fsm/cluster/policy_fields.h").read_text()


def preempt():
    message = fill(broker_pb2.RequestPreemptionRequest())
    if chance(0.7):
        del message.candidates[:]
    if chance(0.7):
        message.ClearField("value_gpu_ms")
    if chance(0.6):
        message.nodes_needed, message.gpus_needed = one(1, 1, 2, 3), 0
    if message.reason == broker_pb2.PREEMPTION_REASON_SENSITIVE:
        message.preemption_class = 10
    elif chance(0.6):
        message.preemption_class = one(5, 9, 10)
    if message.reason == broker_pb2.PREEMPTION_REASON_RECLAIM and chance(0.6):
        message.home_vcluster = R.choice(VCL)
    return message


def put_target():
    message = fill(operator_pb2.PutTargetRequest())
    spec = message.spec
    spec.target_id = R.choice(TARGETS)
    if chance(0.7):
        spec.ClearField("prefix")
        spec.ClearField("is_default")
        message.zeros = message.zeros if chance(0.2) else 0
    if spec.target_id != "scratch" and chance(0.4):
        spec.prefix = str(folder / f"target{R.randrange(4)}")
        spec.write_bytes_per_s = 10**9
        spec.kind = 1
    if chance(0.2):
        spec.pool, spec.encrypted, spec.hot_only, spec.jurisdiction = 2, 2, 2, "CH"
    if chance(0.7):
        spec.kind = 0 if spec.kind == 2 else spec.kind
    return message


def pause():
    message = fill(operator_pb2.PauseClusterRequest())
    message.resume = chance(0.7)
    message.duration_ms = one(1, 500, 1000) if chance(0.9) else message.duration_ms
    return message


def drain():
    message = fill(operator_pb2.DrainNodeRequest(), 0.2)
    message.undo = chance(0.65)
    if message.undo and chance(0.9):
        message.urgent = message.disable = message.move = message.at_next_checkpoint = False
        message.deadline_ms = 0
    return message


def checkpoint():
    message = fill(broker_pb2.RequestCheckpointRequest())
    if chance(0.5):
        message.purpose = one(0, 7, 1, 5, 8)
    return message


def update():
    message = fill(broker_pb2.UpdateAllocationRequest(), 0.25)
    if chance(0.7):
        message.ClearField("target_id")
    if chance(0.5):
        del message.nodes[:]
        message.nodes.extend(shares(1, one(1, 2, 3, 5)))
    if chance(0.8):
        message.zeros = one(0, 0, 16, 32, 48)
    return message


def drill():
    message = fill(operator_pb2.DrillRequest())
    message.name = one("storage-outage", "restore", "storage-outage", "leader-kill", "leader-hang", "member-loss")
    message.duration_ms = one(0, 2000, 5000, 2000, 1)
    if message.name != "storage-outage" and chance(0.9):
        message.target_id = ""
    if chance(0.7):
        message.allocation_id = ""
    return message


def tell_drill():
    message = fill(drill_pb2.TellDrillRequest())
    message.drill_id, message.member_id = one(1, 1, 2, 3), one(1, 2, 3)
    message.word.run = one(1, 2, 1 << 48)
    message.word.away_ms = one(0, 315360000000)
    return message


def probe_drill():
    return drill_pb2.ProbeDrillRequest(request_id=request_id(), drill_id=one(1, 1, 2, 3), member_id=one(1, 2, 3), run=one(1, 2, 1 << 48))


def drain_target():
    message = fill(operator_pb2.DrainTargetRequest())
    message.undo = chance(0.8)
    return message


def plain(kind):
    return lambda: fill(kind())


B, O = "Broker", "Operator"
CALLS = [
    (16, B, "RegisterAllocation", register), (1, B, "RegisterOwnAllocation", register), (8, B, "UpdateAllocation", update),
    (1.3, B, "EndAllocation", plain(broker_pb2.EndAllocationRequest)), (2, B, "ReportQueue", plain(broker_pb2.ReportQueueRequest)),
    (12, B, "RequestCheckpoint", checkpoint), (5, B, "CancelCheckpoint", plain(broker_pb2.CancelCheckpointRequest)),
    (8, B, "RequestPreemption", preempt), (5, B, "RequestMigration", plain(broker_pb2.RequestMigrationRequest)),
    (9, B, "RestartAllocation", lambda: fill(broker_pb2.RestartAllocationRequest(), 0.4)),
    (2, O, "SetPolicy", policy), (4, O, "PutTarget", put_target), (1, O, "DrainTarget", drain_target),
    (1, O, "RemoveTarget", plain(operator_pb2.RemoveTargetRequest)), (1, O, "PutTenant", plain(operator_pb2.PutTenantRequest)),
    (2, O, "DrainNode", drain), (2, O, "RemoveNode", plain(operator_pb2.RemoveNodeRequest)), (4, O, "MarkNodeOff", plain(operator_pb2.MarkNodeOffRequest)),
    (1, O, "RunDrill", drill), (1, O, "ProbeDrill", probe_drill), (1, O, "TellDrill", tell_drill),
    (1, O, "RunGc", plain(operator_pb2.RunGcRequest)), (1, O, "RemoveOrphans", plain(operator_pb2.RemoveOrphansRequest)),
    (1, O, "AdoptCluster", plain(operator_pb2.AdoptClusterRequest)), (0.3, O, "PauseCluster", pause), (3, O, "PinCheckpoint", plain(operator_pb2.PinRequest)),
    (1, O, "VerifyCheckpoints", plain(operator_pb2.VerifyRequest)), (1, O, "RevokeCertificate", plain(operator_pb2.RevokeCertificateRequest)),
    (0.5, O, "StartCanary", plain(operator_pb2.StartCanaryRequest)),
    # reads
    (2, B, "ListAllocations", lambda: broker_pb2.ListAllocationsRequest(page_size=one(0, 1, 1000, 1001), node_id=one("", node()), owner=one("", "ann"))),
    (1, B, "ListCheckpoints", plain(broker_pb2.ListCheckpointsRequest)), (1, B, "ListPreemptions", plain(broker_pb2.ListPreemptionsRequest)),
    (1, B, "GetAllocation", plain(broker_pb2.GetAllocationRequest)), (1, B, "Explain", plain(broker_pb2.ExplainRequest)),
    (1, B, "GetRestartPoint", plain(broker_pb2.GetRestartPointRequest)), (1, B, "GetPlacementHints", plain(broker_pb2.GetPlacementHintsRequest)),
    (1, B, "GetRequest", plain(broker_pb2.GetRequestRequest)), (1, B, "ListUndeleted", plain(broker_pb2.ListUndeletedRequest)),
    (1, O, "GetNode", plain(operator_pb2.GetNodeRequest)), (1, O, "ListNodes", lambda: operator_pb2.ListNodesRequest()),
    (1, O, "GetLosses", plain(operator_pb2.GetLossesRequest)), (1, O, "ListTargets", lambda: operator_pb2.ListTargetsRequest()),
    (1, O, "ListTenants", lambda: operator_pb2.ListTenantsRequest()), (1, O, "ListAudit", plain(operator_pb2.ListAuditRequest)),
    (1, O, "PlanGc", plain(operator_pb2.GcRequest)), (1, O, "PlanDrill", plain(drill_pb2.PlanDrillRequest)), (1, O, "ListOrphans", plain(operator_pb2.ListOrphansRequest)),
    (1, O, "GetCalibration", lambda: operator_pb2.GetCalibrationRequest()), (1, O, "ListRevoked", lambda: operator_pb2.ListRevokedRequest()),
    (1, O, "ListDrills", plain(drill_pb2.ListDrillsRequest)),
]
WEIGHTS = [row[0] for row in CALLS]
