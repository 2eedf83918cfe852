"""An agent of a node that says what its orders ask for, mostly; or something else: reports that fit nothing, late, twice, after a reboot, without its journal.
It is none of ours: it speaks the protocol (agent.proto) by the generated stubs."""
import asyncio
import time

from any_message import CKPTS, R, alloc, chance, ckpt, log, one, short
from cluster import agent_pb2, agent_pb2_grpc, common_pb2, grpc


class Agent:
    def __init__(self, name, world):
        self.name, self.world = name, world
        self.sequence, self.acked, self.pending = 0, 0, []
        self.known, self.running, self.done = {}, {}, set()
        self.parts, self.orders = {}, []
        self.boot, self.waiting = 0, set()
        self.mood = R.random()
        self.beat = 0

    def report(self, **fields):
        self.sequence += 1
        message = agent_pb2.AgentReport(sequence=self.sequence, at_ms=int(time.time() * 1000), **fields)
        self.pending.append(message)
        log("report", f"{self.name} {short(message)}")
        self.out.put_nowait(agent_pb2.AgentUp(report=message))

    async def life(self):
        while not self.world.over:
            try:
                await self.session()
            except asyncio.InvalidStateError:
                pass
            except grpc.RpcError as error:
                log("agent", f"{self.name} {error.code().name} {error.details()}")
                if error.code().name not in ("UNAVAILABLE", "CANCELLED", "OK"):
                    self.world.stats[("Session", error.code().name, (error.details() or "")[:70])] = self.world.stats.get(("Session", error.code().name, (error.details() or "")[:70]), 0) + 1
            await asyncio.sleep(one(0.05, 0.05, 0.3, 0.3, 2, 5))
            what = R.random()
            if what < 0.15:  # a reboot
                self.boot += 1
                self.running, self.done = {}, set()
            elif what < 0.2:  # it lost its journal
                self.pending, self.sequence = [], 0

    async def session(self):
        self.out = asyncio.Queue()
        channel = self.world.channel()
        call = agent_pb2_grpc.AgentServiceStub(channel).Session()
        await call.write(agent_pb2.AgentUp(hello=agent_pb2.AgentHello(
            node_id=self.name, boot_id=f"b{self.boot}", version="x", last_report_sequence=self.sequence, machine=one("", "x86_64", "arm"),
            os="debian 12", domain=one("", "", "d1", "d2"), highest_epoch=0 if chance(0.98) else 5)))
        end = time.monotonic() + R.expovariate(1 / 25)
        reader = asyncio.ensure_future(self.read(call))
        try:
            nextbeat = 0
            while not self.world.over and not reader.done() and time.monotonic() < end:
                if time.monotonic() > nextbeat and getattr(self, "welcomed", None) is call:
                    nextbeat = time.monotonic() + one(0.3, 0.5, 0.8)
                    await call.write(self.heartbeat())
                if getattr(self, "welcomed", None) is call:
                    self.act()
                try:
                    message = await asyncio.wait_for(self.out.get(), 0.1)
                    await call.write(message)
                except asyncio.TimeoutError:
                    pass
            if reader.done():
                reader.result()
        finally:
            call.cancel()
            reader.cancel()
            try:
                await reader
            except BaseException:
                pass

    async def read(self, call):
        async for message in call:
            if message.HasField("welcome"):
                self.acked = message.welcome.acknowledged_report_sequence
                self.sequence = max(self.sequence, self.acked)
                self.pending = [p for p in self.pending if p.sequence > self.acked]
                for number, p in enumerate(self.pending):
                    p.sequence = self.acked + 1 + number
                self.sequence = self.acked + len(self.pending)
                for p in self.pending:
                    self.out.put_nowait(agent_pb2.AgentUp(report=p))
                self.beat = 0
                self.welcomed = call
            elif message.HasField("ack"):
                self.acked = message.ack.sequence
                self.pending = [p for p in self.pending if p.sequence > self.acked]
            elif message.HasField("orders"):
                self.parts = {part.allocation_id: part for part in message.orders.parts}
                self.orders = list(message.orders.orders)

    def heartbeat(self):
        self.beat += 1
        running = []
        for name, run in self.running.items():
            steps = None
            if chance(0.5):
                steps = agent_pb2.StepsWord(quiet_ms=one(0, 100, 5000, 100000, (1 << 64) - 1), stepped_ms=one(0, 100, 5000, 100000), gap_p99_ms=one(0, 10, 100),
                                            highest_step=R.randrange(100), rank_count=one(1, 2), under_way=chance(0.2))
                for i in range(one(0, 1, 8)):
                    steps.behind.add(number=i, pid=1, step=3, step_most=one(3, 5, (1 << 64) - 1), state="x")
            running.append(agent_pb2.RunningAllocation(allocation_id=name, pid=5, started_at_ms=1, run=run, steps=steps))
        waits = [alloc() for _ in range(one(0, 1, 4, 8))]
        return agent_pb2.AgentUp(heartbeat=agent_pb2.AgentHeartbeat(
            sequence=self.beat, running=running, gpu_count=8, last_report_sequence=self.sequence, waiting_allocation_ids=sorted(set(waits)),
            beginning_allocation_ids=[alloc()] if chance(0.1) else [], ecc_measured=True, ecc_correctable_count=one(0, 0, 0, R.randrange(1000)),
            ecc_uncorrectable_count=one(0, 0, 0, 0, 1), load_milli=100))

    def act(self):
        K = agent_pb2
        for name in list(self.running):
            part = self.parts.get(name)
            if part is None or part.run != self.running[name]:
                if chance(0.5):
                    run = self.running.pop(name)
                    self.report(kind=K.REPORT_KIND_TERMINATED, allocation_id=name, run=run, reason=one(0, 1, 3), exit_status=one(0, 15, 9, 256))
            elif chance(0.008):
                again = one(0, 1)
                run = self.running[name]
                if not again:
                    self.running.pop(name)
                self.report(kind=one(K.REPORT_KIND_APPLICATION_EXITED, K.REPORT_KIND_APPLICATION_EXITED, K.REPORT_KIND_WALLTIME_KILLED), allocation_id=name, run=run,
                            exit_status=one(0, 0, 256, 9, 15), will_restart=again, end=one(0, 1, 2))
                self.done.add((name, run))
        for name, part in self.parts.items():
            if (name, part.run) in self.done or name in self.running:
                continue
            if part.read == K.READ_STATE_ASK and chance(0.5):
                self.report(kind=K.REPORT_KIND_READ_WANTED, allocation_id=name, run=part.run, restored_checkpoint_id=part.restart_checkpoint_id)
            elif part.begin == K.BEGIN_STATE_RESTORING and not part.restored and chance(0.5):
                if chance(0.12):
                    self.report(kind=K.REPORT_KIND_RESTART_DAMAGED, allocation_id=name, run=part.run, restored_checkpoint_id=part.restart_checkpoint_id, detail="bad")
                else:
                    self.report(kind=K.REPORT_KIND_RESTORED, allocation_id=name, run=part.run, restored_checkpoint_id=part.restart_checkpoint_id, restore=1)
            elif part.begin in (K.BEGIN_STATE_MAY, K.BEGIN_STATE_RUNS) and chance(0.6):
                self.running[name] = part.run
                self.report(kind=K.REPORT_KIND_APPLICATION_STARTED, allocation_id=name, run=part.run, restored_checkpoint_id=part.restart_checkpoint_id, user=one(0, 1))
                if part.read in (2, 3) and chance(0.5):
                    self.report(kind=K.REPORT_KIND_READ_ENDED, allocation_id=name, run=part.run)
            elif chance(0.02):
                self.done.add((name, part.run))
                self.report(kind=K.REPORT_KIND_APPLICATION_EXITED, allocation_id=name, run=part.run, exit_status=one(0, 256))
        for order in self.orders:
            self.obey(order)
        if chance(0.05):
            self.nonsense()

    def obey(self, order):
        K = agent_pb2
        key = (order.kind, order.allocation_id, order.checkpoint_id, order.attempt, order.part if order.kind != K.ORDER_KIND_CHECKPOINT else 0)
        name, run = order.allocation_id, order.run
        base = dict(allocation_id=name, checkpoint_id=order.checkpoint_id, attempt=order.attempt)
        if order.kind == K.ORDER_KIND_CHECKPOINT:
            if order.checkpoint_id not in CKPTS:
                CKPTS.append(order.checkpoint_id)
            stage = self.known.get(key, 0)
            if stage == "end" or not chance(0.7):
                return
            base["run"] = run
            if stage == 0:
                if chance(0.1):
                    self.known[key] = "end"
                    self.report(kind=K.REPORT_KIND_CHECKPOINT_FAILED, reason=one(5, 6, 7, 8, 9, 12, 13, 14, 30, 31, 32, 33, 34, 35, 38, 25, 26, 27), **base)
                    return
                if chance(0.05):
                    self.known[key] = "end"  # it hangs
                    return
                barrier = order.checkpoint_id % 3 == 0 if chance(0.95) else True
                self.known[key] = "barrier" if barrier else "write"
                self.report(kind=K.REPORT_KIND_STARTED, snapshot_age_ms=one(0, 5, 10**6), barrier=barrier, told_write_ms=one(0, 1000, 604800000), **base)
                return
            what = R.random()
            if what < 0.06:
                self.report(kind=K.REPORT_KIND_RESPONSIVE, stall_ms=5, **base)
            elif what < 0.12:
                self.report(kind=K.REPORT_KIND_DEFERRED, deferral_ms=one(1, 100, 500, order.max_deferral_ms), **base)
            elif what < 0.17:
                self.known[key] = "end"
                self.report(kind=K.REPORT_KIND_CHECKPOINT_FAILED, reason=one(5, 7, 8, 12, 25, 26, 29, 30), **base)
            elif stage == "barrier":
                if order.barrier == common_pb2.BARRIER_PHASE_GATHERING:
                    self.report(kind=K.REPORT_KIND_BARRIER, step=0, **base)
                elif order.barrier == common_pb2.BARRIER_PHASE_STEPPING:
                    self.report(kind=K.REPORT_KIND_BARRIER, step=one(1, 5, 9, (1 << 64) - 1 if chance(0.05) else 7), **base)
                elif order.barrier == common_pb2.BARRIER_PHASE_AGREED or chance(0.1):
                    self.known[key] = "write"
            else:
                self.known[key] = "end"
                self.report(kind=K.REPORT_KIND_SHARD_VERIFIED, size_bytes=one(0, 1, 1 << 20, 1 << 30, 1 << 50), manifest_sha256="ab" * 32, write_ms=one(1, 100, 10**9), stall_ms=1,
                            snapshot_age_ms=one(10, 1000), label=str(order.agreed_step) if order.agreed_step else one("", "", "", "", "", "", "7"), ranks=one(1, 1, 1, 1, 1, 1, 1, 2, 256), ranks_all=one(0, 0, 0, 0, 0, 0, 2),
                            written_bytes=one(0, 1), staging=one(0, 1, 2, 3), saved_before_ms=one(0, 0, 100), **base)
                if chance(0.6):
                    self.report(kind=K.REPORT_KIND_COPY_KEPT, allocation_id=name, checkpoint_id=order.checkpoint_id, attempt=order.attempt, part=order.part, manifest_sha256="ab" * 32)
        elif order.kind == K.ORDER_KIND_TERMINATE:
            if chance(0.5):
                self.running.pop(name, None)
                self.done.add((name, run))
                self.report(kind=K.REPORT_KIND_TERMINATED, allocation_id=name, run=run, reason=order.reason, exit_status=one(0, 15, 9), end=one(0, 0, 1))
        elif order.kind == K.ORDER_KIND_COLLECT:
            if chance(0.5):
                self.report(kind=one(K.REPORT_KIND_COLLECTED, K.REPORT_KIND_COLLECTED, K.REPORT_KIND_COLLECT_FAILED), size_bytes=5, detail="d", **base)
        elif order.kind == K.ORDER_KIND_VERIFY:
            if chance(0.6):
                self.report(kind=R.choices([19, 20, 21, 22], [8, 1, 1, 1])[0], part=order.part, manifest_sha256=order.manifest_sha256, detail="d", **base)
        elif order.kind == K.ORDER_KIND_SCAN:
            if chance(0.3):
                self.out.put_nowait(agent_pb2.AgentUp(scan_page=agent_pb2.ScanPage(target_prefix=order.target_prefix, attempt=order.attempt, page=1, last=True,
                                                                                output=one("", "rubbish\n", "x" * 65536), error=one("", "oops"))))

    def nonsense(self):
        part = R.choice(list(self.parts.values())) if self.parts and chance(0.8) else None
        name = part.allocation_id if part else alloc()
        run = part.run if part and chance(0.85) else one(0, 1, (1 << 64) - 1, (1 << 40) + 1)
        order = R.choice(self.orders) if self.orders and chance(0.6) else None
        number = order.checkpoint_id if order else ckpt()
        self.report(kind=one(*range(1, 9), *range(10, 25), 99 if chance(0.01) else 3), allocation_id=name, run=run, checkpoint_id=number, attempt=order.attempt if order else one(0, 1, 2),
                    reason=one(*range(0, 40)), size_bytes=one(0, 1 << 20, (1 << 50), (1 << 64) - 1 if chance(0.05) else 5), manifest_sha256=one("", "ab" * 32, "xyz"),
                    exit_status=one(0, 256, 9, -1), write_ms=one(0, 5, (1 << 64) - 1 if chance(0.05) else 5), restored_checkpoint_id=one(number, 0, part.restart_checkpoint_id if part else 0),
                    detail=one("", "d" * 200), will_restart=one(0, 1), deferral_ms=one(0, 5, 10**12), label=one("", "x"), ranks=one(0, 1, 256, 257), barrier=chance(0.5),
                    step=one(0, 1, (1 << 64) - 1), part=one(0, 1, 4096), written_bytes=one(0, 5), staging=one(0, 1, 3), told_write_ms=one(0, 604800000),
                    saved_before_ms=one(0, 5, 1 << 47), restore=one(0, 1, 2, 3), ranks_all=one(0, 1), rank_print=R.getrandbits(64))
