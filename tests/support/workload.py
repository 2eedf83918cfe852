"""Clients that change and read allocations through a cluster while it is being broken, and the verdict on what they were told.

Flow    Load() starts threads that share a few hot allocations: register, update, ask for a checkpoint, cancel it, read, all recorded
        (history.py); one more thread follows the events. verdict() ends them, reads everything once more and judges: every acknowledged
        write took effect once, and one order of all operations explains every answer.
Shapes  an allocation is used for about OPERATIONS_PER_OBJECT operations and then replaced, so that the search for an order stays small.
        Some requests are given up after one attempt: they may have taken effect or not.
Units   seconds of the monotonic clock; log indexes.
Absent  applications: an agent that only says that they have started (fake_agent.py); checkpoints that are asked for wait until they are
        cancelled.
"""
import random
import re
import threading
import time
import uuid

from cluster import (RETRYABLE, Client, broker_pb2, broker_pb2_grpc, common_pb2, grpc, http_status, often, wait_until)
from fake_agent import FakeAgent
from history import REFUSED, UNKNOWN, WRITES, Operation, accounts, check, check_stale, quantile

OPERATIONS_PER_OBJECT = 48
HOT = 3
STALE = 0.08     # of the operations are reads of what any member has applied
GIVEN_UP = 0.05  # of the requests get one attempt only, of a few ms
REQUESTED, CANCELLED = 1, 9
KINDS = {broker_pb2.EVENT_KIND_ALLOCATION_REGISTERED: "register", broker_pb2.EVENT_KIND_ALLOCATION_UPDATED: "update"}


def spec(identifier, period_ms, node="n"):
    return common_pb2.AllocationSpec(
        allocation_id=identifier, tenant="t", project="p", vcluster="v", owner="o", period_ms=period_ms,
        strategy=common_pb2.STRATEGY_MANUAL, checkpoint_timeout_ms=6 * 3600 * 1000,
        nodes=[common_pb2.NodeShare(node_id=node, gpu_count=1, gpu_memory_used_bytes=1 << 20)])


class Load:
    def __init__(self, cluster, clients=4, seed=0, pause_s=often(0.05, 0.004), attempt_s=1.0):
        self.cluster, self.pause_s, self.seed, self.attempt_s = cluster, pause_s, seed, attempt_s
        self.addresses = [m.api for m in cluster.members]
        self.operations, self.answers, self.failed, self.stale = [], [], [], []
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.created, self.values, self.judged = 0, 0, False
        self.uses, self.known = {}, {}
        self.hot = [self._new_object() for _ in range(HOT)]
        self.events, self.last_sequence, self.gaps = [], 0, 0
        self.agent, self.running, self.too_early = FakeAgent("n", self.addresses), set(), 0
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(clients)]
        self.follower = threading.Thread(target=self._follow, daemon=True)
        for thread in [*self.threads, self.follower]:
            thread.start()

    # ---- clients ----

    def _new_object(self):
        self.created += 1
        name = f"w{self.created}"
        self.uses[name] = 0
        return name

    def _pick(self, draw):
        """A hot object and what to do with it."""
        with self.lock:
            slot = draw.randrange(HOT)
            if self.uses[self.hot[slot]] >= OPERATIONS_PER_OBJECT:
                self.hot[slot] = self._new_object()
            key = self.hot[slot]
            self.uses[key] += 1
            self.values += 1
            kind = "register" if self.uses[key] < 4 else draw.choices(
                ("read", "update", "ask", "cancel", "register"), (40, 30, 13, 15, 2))[0]
            if kind == "cancel" and key not in self.known:
                kind = "ask"
            return key, kind, self.known[key] if kind == "cancel" else 1000000000 + self.values

    def _client(self):
        client = Client(self.addresses)
        client.addresses = self.addresses  # one list for all: a test adds members that join later
        return client

    def _run(self, number):
        client, draw = self._client(), random.Random(self.seed * 1000 + number)
        while not self.stop.is_set():
            if draw.random() < STALE:
                self._read_stale(client, number, draw)
            key, kind, argument = self._pick(draw)
            patient = draw.random() >= GIVEN_UP
            self._operate(client, number, key, kind, argument, *((60, self.attempt_s) if patient else (0, draw.random() * 0.006)))
            time.sleep(draw.random() * 2 * self.pause_s)
        client.close()

    def _read_stale(self, client, number, draw):
        """From any member, also one that is cut off, with the index at which it stands."""
        address, key, called = draw.choice(self.addresses), draw.choice(self.hot), time.monotonic()
        stub = broker_pb2_grpc.BrokerServiceStub(client.channel(address))
        try:
            reply = stub.GetAllocation(broker_pb2.GetAllocationRequest(allocation_id=key, stale=True), timeout=0.3)
        except grpc.RpcError:
            return  # away, or not there yet: such an answer names no index
        self.stale.append(Operation(number, "read", key, 0, called, time.monotonic(), (reply.spec.period_ms, reply.active_checkpoint_id),
                                    reply.applied_index))

    def _operate(self, client, number, key, kind, argument, timeout_s, attempt_s):
        request_id, called = uuid.uuid4().hex, time.monotonic()
        result, index = UNKNOWN, None
        try:
            method, request = self._request(key, kind, argument, request_id)
            reply = client.broker(method, request, timeout_s=timeout_s, attempt_s=attempt_s)
            if kind == "read":
                result, index = (reply.spec.period_ms, reply.active_checkpoint_id), reply.applied_index
            else:
                result, index = (reply.checkpoint_id if kind == "ask" else True), reply.index
        except grpc.RpcError as error:
            if (error.details() or "").startswith("NOT_STARTED:"):  # it changed nothing, and says nothing of what the history is about
                self.too_early += 1
                return
            # CANCELLED: the server's look at the deadline came before ours
            late = timeout_s == 0 and error.code() == grpc.StatusCode.CANCELLED
            if not late and error.code() not in RETRYABLE:
                result = self._refusal(kind, error)
        answered = time.monotonic()
        if result == UNKNOWN:
            answered = None
            if timeout_s > 0:
                self.failed.append(f"{kind} of {key}: no answer within {timeout_s} s")
        elif kind in WRITES and result != REFUSED:
            self.answers.append((client.attempt_started, answered))
        if kind == "register" and result != UNKNOWN:
            self._start(key)
        if kind in ("ask", "read") and isinstance(result, (int, tuple)):
            identifier = result if kind == "ask" else result[1]
            if identifier:
                self.known[key] = identifier
        self.operations.append(Operation(number, kind, key, argument, called, answered, result, index))

    def _start(self, key):
        """The application of a job that is there runs, once."""
        with self.lock:
            first = key not in self.running
            self.running.add(key)
        if first:
            self.agent.started(key)

    @staticmethod
    def _request(key, kind, argument, request_id):
        return {
            "register": lambda: ("RegisterAllocation", broker_pb2.RegisterAllocationRequest(request_id=request_id, spec=spec(key, argument))),
            "update": lambda: ("UpdateAllocation", broker_pb2.UpdateAllocationRequest(
                request_id=request_id, allocation_id=key, period_ms=argument)),
            "ask": lambda: ("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(request_id=request_id, allocation_id=key)),
            "cancel": lambda: ("CancelCheckpoint", broker_pb2.CancelCheckpointRequest(request_id=request_id, checkpoint_id=argument)),
            "read": lambda: ("GetAllocation", broker_pb2.GetAllocationRequest(allocation_id=key)),
        }[kind]()

    def _refusal(self, kind, error):
        name = (error.details() or "").split(":")[0]
        expected = {"register": ("ALLOCATION_EXISTS",), "update": ("ALLOCATION_NOT_FOUND",), "read": ("ALLOCATION_NOT_FOUND",),
                    "ask": ("ALLOCATION_NOT_FOUND", "CHECKPOINT_ACTIVE"), "cancel": ("CHECKPOINT_NOT_FOUND", "CHECKPOINT_ENDED")}[kind]
        if name not in expected:
            self.failed.append(f"{kind}: {error.code()} {error.details()}")
            return UNKNOWN
        return None if kind == "read" else REFUSED

    # ---- events ----

    def _follow(self):
        client = self._client()
        while not self.stop.is_set():
            self._take_events(client, follow=True)
            client.current = (client.current + 1) % len(self.addresses)
            time.sleep(0.02)
        client.close()

    def _take_events(self, client, follow):
        """Events behind the last one taken, until the stream ends. True: to its end."""
        stub = broker_pb2_grpc.BrokerServiceStub(client.channel(client.addresses[client.current]))
        try:
            stream = stub.Watch(broker_pb2.WatchRequest(after_sequence=self.last_sequence, follow=follow), timeout=5 if follow else 30)
            for event in stream:
                self.gaps += event.gap
                if event.sequence <= self.last_sequence:
                    continue
                self.last_sequence = event.sequence
                if event.kind in KINDS:
                    self.events.append((KINDS[event.kind], event.allocation_id, event.index, 0))
                elif event.kind == broker_pb2.EVENT_KIND_CHECKPOINT_STATE and event.new_state in (REQUESTED, CANCELLED) and (
                        event.old_state == 0 or event.new_state == CANCELLED):
                    self.events.append(("ask" if event.new_state == REQUESTED else "cancel", event.allocation_id, event.index,
                                        event.checkpoint_id))
            return True
        except grpc.RpcError:
            return False

    # ---- what a test asks ----

    def acknowledged(self):
        return len(self.answers)

    def progress(self, count=20, timeout_s=20):
        before = self.acknowledged()
        wait_until("writes go on", lambda: self.acknowledged() > before + count, timeout_s)

    def first_answer_after(self, instant):
        """When the first write of which the answered attempt was begun after the instant was acknowledged, or None."""
        found = [answered for begun, answered in self.answers[-200:] if begun > instant]
        return min(found) if found else None

    def end(self):
        self.stop.set()
        for thread in [*self.threads, self.follower]:
            thread.join(90)
            assert not thread.is_alive(), "a client does not end"
        self.agent.end()

    def _read_all(self):
        """Every object once more, linearizably."""
        client, found, token = Client(self.addresses), {}, ""
        while True:
            called = time.monotonic()
            page = client.broker("ListAllocations", broker_pb2.ListAllocationsRequest(page_token=token, page_size=500), timeout_s=30,
                                 attempt_s=5)
            answered, token = time.monotonic(), page.next_page_token
            for a in page.allocations:
                assert a.spec.allocation_id not in found, f"{a.spec.allocation_id} is listed twice"
                found[a.spec.allocation_id] = Operation(-1, "read", a.spec.allocation_id, 0, called, answered,
                                                        (a.spec.period_ms, a.active_checkpoint_id), page.applied_index)
            if not token:
                break
        missing = [Operation(-1, "read", key, 0, called, answered, None, page.applied_index) for key in self.uses if key not in found]
        self.operations += [o for key, o in found.items() if key in self.uses] + missing
        wait_until("all events are there", lambda: self._all_events(client), 30, 0.05)
        client.close()

    def _all_events(self, client):
        if self._take_events(client, follow=False):
            return True
        client.current = (client.current + 1) % len(self.addresses)
        return False

    def verdict(self, least=50, errors_expected=False):
        """Ends the load; asserts that nothing acknowledged is lost, done twice or out of order, and that all members hold the same."""
        self.end()
        self.judged, cluster = True, self.cluster
        cluster.wait_leader()
        for member in cluster.members:
            wait_until(f"{member.name} lives", lambda m=member: http_status(m.http, "/livez") == 200, 20)
        self._read_all()
        cluster.debug_check()
        assert not self.gaps, "events were dropped before they were read"
        events = [e for e in self.events if e[1] in self.uses]  # a test may register allocations of its own
        account, faults = accounts(self.operations, events), check(self.operations)
        faults += check_stale(self.operations, events, self.stale)
        reads = sum(o.kind == "read" and o.result != UNKNOWN for o in self.operations)
        asked = sum(o.kind == "ask" and isinstance(o.result, int) for o in self.operations)
        unanswered = sum(o.result == UNKNOWN for o in self.operations)
        print(f"# acknowledged writes {account.acknowledged}: lost {account.lost}, applied twice {account.twice}; reads {reads}; "
              f"refused {sum(o.result == REFUSED for o in self.operations)}; without an answer {unanswered}; stale reads {len(self.stale)}; allocations {len(self.uses)}; "
              f"checkpoints {asked}, asked for too early {self.too_early}; "
              f"violations {len(faults)}", flush=True)
        assert not account.faults, account.faults
        assert not faults, faults[:3]
        assert not self.failed, self.failed[:3]
        assert account.acknowledged >= least, account
        assert asked or account.acknowledged < 400, "no checkpoint was ever asked for: nothing runs"
        for member in cluster.members:
            bad = re.findall(r".*(?:event=bug|Sanitizer|runtime error).*" if errors_expected else
                             r".*(?:event=bug|level=error|Sanitizer|runtime error).*", member.log.read_text(errors="replace"))
            assert not bad, bad[:3]
        return account


def histogram(milliseconds):
    """One line of figures and one of buckets."""
    edges = [25, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000]
    counts = [sum(low <= v < high for v in milliseconds) for low, high in zip([0, *edges], [*edges, float("inf")])]
    buckets = "  ".join(f"{'>=' if i == len(edges) else '<'}{edges[min(i, len(edges) - 1)]}:{n}" for i, n in enumerate(counts) if n)
    figures = "  ".join(f"{name} {quantile(milliseconds, share):.0f}" for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1)))
    return f"n {len(milliseconds)}  {figures} ms\n#   {buckets}"
