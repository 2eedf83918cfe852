#!/usr/bin/python3
"""Thousands of random well-formed calls of all methods against real members, beside agents that say anything: nobody ends, hangs or answers INTERNAL, the state
is sound, and members that are killed or stopped come back with the same hashes. SEED=n and MEMBERS=3 in the environment; calls are written down in a file."""
import asyncio
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import any_message  # noqa: E402
from any_agent import Agent  # noqa: E402
from any_message import B, CALLS, CKPTS, FAST, KNOWN, NODES, O, R, WEIGHTS, chance, fill, log, one, policy, short  # noqa: E402
from cluster import Cluster, broker_pb2, broker_pb2_grpc, common_pb2, grpc, http_get, operator_pb2, operator_pb2_grpc, tap  # noqa: E402

STUBS = {B: broker_pb2_grpc.BrokerServiceStub, O: operator_pb2_grpc.OperatorServiceStub}
# what a wrong call, or a member that starts, is answered
CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "ALREADY_EXISTS", "PERMISSION_DENIED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "OUT_OF_RANGE", "ABORTED"}
SLOW_S = 15  # a call is given up after 20


class World:
    def __init__(self, cluster):
        self.cluster, self.over, self.calls, self.taken = cluster, False, 0, 0
        self.channels, self.leader, self.stats, self.wrong = {}, 0, {}, []
        self.busy = asyncio.Semaphore(8)

    def found(self, text):
        self.wrong.append(text)
        log("WRONG", text)

    def count(self, method, code, text):
        key = (method, code, text.split(":")[0][:60])
        self.stats[key] = self.stats.get(key, 0) + 1

    def channel(self, number=None):
        address = self.cluster.members[self.leader if number is None else number].api
        if address not in self.channels:
            self.channels[address] = grpc.aio.insecure_channel(address, options=[
                ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)])
        return self.channels[address]

    async def call(self, service, method, message):
        number, began = self.calls, time.monotonic()
        self.calls += 1
        try:
            reply = await getattr(STUBS[service](self.channel()), method)(message, timeout=20)
            code, text = "OK", ""
            self.taken += 1
            if getattr(reply, "checkpoint_id", 0):
                CKPTS.append(reply.checkpoint_id)
                del CKPTS[:-200]
            if method == "RegisterAllocation":
                KNOWN.append(message.spec.allocation_id)
        except grpc.RpcError as error:
            code, text = error.code().name, error.details() or ""
            if code == "UNAVAILABLE":
                hint = {key: value for key, value in (error.trailing_metadata() or ())}.get("ckpt-leader-hint")
                leaders = [i for i, member in enumerate(self.cluster.members) if member.api == hint]
                self.leader = leaders[0] if leaders else (self.leader + 1) % len(self.cluster.members)
                await asyncio.sleep(0.05)
        took = time.monotonic() - began
        log("call", f"#{number} {method} {short(message)} -> {code} {text[:150]} {took * 1000:.0f} ms")
        self.count(method, code, text)
        if code not in CODES or took > SLOW_S:
            self.found(f"#{number} {method} {code} {text} after {took:.1f} s: {short(message)[:600]}")

    async def one_call(self):
        async with self.busy:
            row = R.choices(CALLS, WEIGHTS)[0]
            await self.call(row[1], row[2], row[3]())

    async def watch(self):
        """A stream now and then, and the pages over HTTP."""
        while not self.over:
            await asyncio.sleep(0.5)
            message = fill(broker_pb2.WatchRequest())
            call = broker_pb2_grpc.BrokerServiceStub(self.channel()).Watch(message, timeout=3)
            code, text, count = "OK", "", 0
            try:
                async for _ in call:
                    count += 1
                    if count > 3000:
                        call.cancel()
                        break
            except grpc.RpcError as error:
                code, text = error.code().name, error.details() or ""
            except asyncio.CancelledError:
                pass
            self.count("Watch", code, text)
            if code not in CODES | {"DEADLINE_EXCEEDED", "CANCELLED"}:
                self.found(f"Watch {code} {text}: {short(message)}")
            for path in ("/metrics", "/status", "/"):
                try:
                    await asyncio.to_thread(http_get, self.cluster.members[0].http, path, 5)
                except OSError:
                    pass  # it starts again

    def dead(self):
        return [f"{member.name} has ended with {member.process.returncode}" for member in self.cluster.members if not member.running()]

    async def check(self):
        """Of each member that serves: its state is sound."""
        for number in range(len(self.cluster.members)):
            try:
                reply = await self.history(number)
            except grpc.RpcError:
                continue
            if reply.violations:
                self.found(f"at call {self.calls}, index {reply.applied_index}: {list(reply.violations)}")

    def history(self, number):
        return operator_pb2_grpc.OperatorServiceStub(self.channel(number)).DebugCheck(operator_pb2.DebugCheckRequest(), timeout=20)

    async def restart(self, number, hard):
        member = self.cluster.members[number]
        before = await self.history(number)
        member.kill(9 if hard else 15)
        await asyncio.to_thread(member.process.wait)
        member.start(wait=False)
        end = time.monotonic() + 60
        while True:
            await asyncio.sleep(0.2)
            assert time.monotonic() < end, f"{member.name} is not back after 60 s"
            assert member.running(), f"{member.name} does not start again: {member.log.read_text()[-2000:]}"
            try:
                after = await self.history(number)
            except grpc.RpcError:
                continue
            if after.applied_index >= before.applied_index:
                break
        assert not after.violations, list(after.violations)
        old = {**{h.index: h.hash for h in before.history}, before.applied_index: before.state_hash}
        new = {**{h.index: h.hash for h in after.history}, after.applied_index: after.state_hash}
        assert all(old[index] == new[index] for index in set(old) & set(new)), "another state after the start"


async def run(cluster, seconds, restarts):
    world = World(cluster)
    await world.call(O, "SetPolicy", fast_policy())
    for i in (1, 2):
        await world.call(O, "PutTarget", operator_pb2.PutTargetRequest(request_id=f"t{i}", spec=common_pb2.TargetSpec(
            target_id=f"t{i}", prefix=str(any_message.folder / f"target{i}"), write_bytes_per_s=10**9, pool=i, encrypted=i, hot_only=i, jurisdiction="CH")))
    tasks = [asyncio.ensure_future(task) for task in [*(Agent(name, world).life() for name in NODES), world.watch()]]
    began = time.monotonic()
    check_at, restart_at = began + 2, [began + seconds * (i + 1) / (restarts + 1) for i in range(restarts)]
    while time.monotonic() < began + seconds and not world.wrong and not world.dead():
        await asyncio.gather(*(world.one_call() for _ in range(24)))
        await asyncio.sleep(0.06)
        if time.monotonic() > check_at:
            await world.check()
            check_at = time.monotonic() + 2
        if restart_at and time.monotonic() > restart_at[0]:
            restart_at.pop(0)
            await world.restart(R.randrange(len(cluster.members)), chance(0.6))
    world.over = True
    await asyncio.gather(*tasks, return_exceptions=True)
    if not world.dead():
        await world.check()
        for number in range(len(cluster.members)):
            await world.restart(number, number % 2 == 0)
    for channel in world.channels.values():
        await channel.close()
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()
    return world


def fast_policy():
    message = policy()
    for key, value in FAST.items():
        setattr(message.policy, key, value)
    return message


def rounds(seed, members, seconds, restarts):
    print(f"# SEED={seed}", flush=True)
    R.seed(seed)
    with Cluster(members=members, raft={"snapshot_after_entries": one(100, 100, 1000)}, storage_watch={"interval_ms": 300, "timeout_ms": 300}) as cluster:
        for i in range(4):
            (cluster.dir / f"target{i}").mkdir()
        with open(cluster.dir / "calls.log", "w", encoding="utf-8") as calls:
            any_message.begin(seed, cluster.dir, calls)
            cluster.start()
            cluster.wait_leader()
            world = asyncio.run(run(cluster, seconds, restarts))
        bugs = [line for member in cluster.members for line in member.log.read_text(errors="replace").splitlines() if "event=bug" in line]
        assert not bugs and not world.dead() and not world.wrong, (bugs[:3], world.dead(), world.wrong[:3])
        answered = {method for method, code, _ in world.stats if code == "OK"}
        print(f"# {world.calls} calls, {world.taken} taken, of {len(answered)} methods", flush=True)
        assert world.taken > 100 and len(answered) > 25, world.stats


def any_calls_end_no_member():
    rounds(int(os.environ.get("SEED", 1)), int(os.environ.get("MEMBERS", 1)), 10, 2)


def any_calls_end_no_member_of_three():
    for seed in range(int(os.environ.get("SEED", time.time_ns() % 1000000)), 10**9)[:5]:
        rounds(seed, 3, 60, 5)


if __name__ == "__main__":
    sys.exit(tap([any_calls_end_no_member], long=[any_calls_end_no_member_of_three]))
