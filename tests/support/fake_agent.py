"""The agent of a node on which nothing runs: it says that applications have started, so that jobs of a test run without processes.

Flow    started() queues a report; one thread keeps a session with the leader, sends what is not acknowledged yet, and beats. When the
        stream ends, or an acknowledgement does not come, the next member is tried, as ckpt-agentd does.
Shapes  reports are numbered from 1 and dropped when a welcome or an acknowledgement names their number.
Absent  orders: checkpoints that are asked for are never written, and end when they are cancelled.
"""
import threading
import time

from cluster import Client, agent_pb2, agent_pb2_grpc, grpc

BEAT_S = 0.5
LATER_RUN = (1 << 64) - 1  # no earlier than that of the part, whichever it is
SILENCE_S = 1.5  # without an acknowledgement although one is due


class FakeAgent:
    def __init__(self, node, addresses):
        self.node, self.addresses = node, addresses
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.reports, self.sequence = {}, 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def started(self, allocation):
        with self.lock:
            self.sequence += 1
            self.reports[self.sequence] = agent_pb2.AgentReport(
                sequence=self.sequence, kind=agent_pb2.REPORT_KIND_APPLICATION_STARTED, allocation_id=allocation,
                run=LATER_RUN)

    def end(self):
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive(), "the fake agent does not end"

    def _acknowledged(self, sequence):
        with self.lock:
            self.reports = {number: report for number, report in self.reports.items() if number > sequence}

    def _run(self):
        client, at = Client(self.addresses), 0
        while not self.stop.is_set():
            session = Session(self, client.channel(self.addresses[at % len(self.addresses)]))
            hint = session.run()
            at = self.addresses.index(hint) if hint in self.addresses else at + 1
            self.stop.wait(0.02)
        client.close()


class Session:
    def __init__(self, agent, channel):
        self.agent, self.channel = agent, channel
        self.sent, self.beats, self.heard, self.call = 0, 0, time.monotonic(), None
        self.welcome = threading.Event()
        self.ended = threading.Event()

    def _up(self):
        with self.agent.lock:
            last = self.agent.sequence
        yield agent_pb2.AgentUp(hello=agent_pb2.AgentHello(node_id=self.agent.node, boot_id="fake", version="fake", last_report_sequence=last))
        while not self.welcome.wait(0.05):
            if self._over():
                return
        beat = time.monotonic()
        while not self._over():
            with self.agent.lock:
                due = [report for number, report in sorted(self.agent.reports.items()) if number > self.sent]
            for report in due:
                self.sent = report.sequence
                yield agent_pb2.AgentUp(report=report)
            if time.monotonic() > beat + BEAT_S:
                beat, self.beats = time.monotonic(), self.beats + 1
                yield agent_pb2.AgentUp(heartbeat=agent_pb2.AgentHeartbeat(sequence=self.beats))
            time.sleep(0.005)

    def _over(self):
        with self.agent.lock:
            owed = bool(self.agent.reports) or not self.welcome.is_set()
        if not owed:
            self.heard = time.monotonic()
        if self.agent.stop.is_set() or time.monotonic() > self.heard + SILENCE_S:
            self.call.cancel()
        return self.ended.is_set() or self.agent.stop.is_set() or time.monotonic() > self.heard + SILENCE_S

    def run(self):
        """Until the stream ends. Returns the address of the leader when the member named it, else None."""
        self.call = agent_pb2_grpc.AgentServiceStub(self.channel).Session(self._up())
        try:
            for message in self.call:
                self.heard = time.monotonic()
                if message.HasField("welcome"):
                    self.agent._acknowledged(message.welcome.acknowledged_report_sequence)
                    self.welcome.set()
                elif message.HasField("ack"):
                    self.agent._acknowledged(message.ack.sequence)
        except grpc.RpcError as error:
            return dict(error.trailing_metadata() or ()).get("ckpt-leader-hint")
        finally:
            self.ended.set()
            self.call.cancel()
        return None
