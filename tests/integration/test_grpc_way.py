#!/usr/bin/python3
"""Applications that are asked by a call (ckpt-run --profile grpc), with a real broker, agent and destination: what they may answer, deferral
up to max_deferral and then no more, dead applications, dead agents, wrong endpoints. S1-038, S1-040, P-043, I22, I34."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, common_pb2, own_name, tap, wait_until  # noqa: E402
from last_words import LastWords  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1h", "checkpoint_timeout": "4s", "max_deferral": "5s", "grace": "1s", "max_attempts": 2,
          "node_failures_per_1000_node_days_milli": 1, "quiesce": "1ms", "near_completion": "1s", "retry_backoff": "200ms"}
COMPLETE, FAILED, TIMED_OUT = common_pb2.CHECKPOINT_STATE_COMPLETE, common_pb2.CHECKPOINT_STATE_FAILED, common_pb2.CHECKPOINT_STATE_TIMED_OUT
RUNNING, SUSPENDED, ENDED_FAILED = (common_pb2.ALLOCATION_STATE_RUNNING, common_pb2.ALLOCATION_STATE_SUSPENDED, common_pb2.ALLOCATION_STATE_FAILED)
MIB = 1 << 20


class App:
    """An application of the gRPC way on one node, and how it is to answer."""

    def __init__(self, cluster, name, node="a", mode="done", options=("--max-restarts", "0"), register=True):
        self.cluster, self.name = cluster, name
        self.mode_file = cluster.dir / f"{name}.{node}.mode"
        self.socket = cluster.dir / f"{name}.{node}.sock"
        self.answers(mode)
        if register:
            cluster.register(name, [(node, 1, MIB)])
        self.job = cluster.run_job(node, name, [str(cluster.bin / "grpc_app"), str(self.mode_file), str(self.socket)], ("--profile", "grpc", *options))

    def answers(self, mode):
        self.mode_file.write_text(mode)

    def said(self):
        return self.job.log.read_text()

    def says(self, text, count=1, timeout_s=20):
        wait_until(f"{self.name} says \"{text}\" {count} times", lambda: self.said().count(text) >= count, timeout_s, 0.05)

    def registered(self):
        self.says("registered OK")
        return self

    def calls(self):
        """(hint, what it may defer) of each."""
        return [(hint, int(left)) for hint, left in re.findall(r"^call (\S+) left=(\d+)", self.said(), re.M)]

    def hint(self):
        return self.cluster.request_checkpoint(self.name)

    def checkpoint(self, identifier):
        return next(c for c in self.cluster.checkpoints(self.name) if c.checkpoint_id == identifier)

    def ends(self, identifier, timeout_s=30):
        final = (COMPLETE, FAILED, TIMED_OUT)
        return wait_until(f"{self.name}'s checkpoint ends", lambda: (lambda c: c if c.state in final else None)(self.checkpoint(identifier)), timeout_s, 0.05)

    def asked(self, mode):
        self.answers(mode)
        return self.ends(self.hint())


def named(record):
    return common_pb2.CheckpointState.Name(record.state), common_pb2.Reason.Name(record.reason)


def expect(record, state, reason=common_pb2.REASON_NONE):
    assert (record.state, record.reason) == (state, reason), named(record)
    return record


def who_tells_progress_gets_the_one_extension(cluster):
    """S1-041: it is asked for a tenth of the timeout before the end, and the application answers when it is there."""
    cluster.register("slow", [("a", 1, MIB)], checkpoint_timeout_ms=6000)
    app = App(cluster, "slow", mode="slow 2000", register=False).registered()
    identifier = app.hint()
    wait_until("it is extended", lambda: app.checkpoint(identifier).extended, 20, 0.02)
    app.answers("done")
    assert expect(app.ends(identifier), COMPLETE).attempt == 1


def what_applications_answer():
    """S1-039: done, failed, neither, and progress that earns the one extension, which silence does not; the application runs on."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        who_tells_progress_gets_the_one_extension(cluster)
        app = App(cluster, "answers").registered()
        record = expect(app.asked("done"), COMPLETE)
        assert (pathlib.Path(record.path) / "part-0000" / "state").stat().st_size == 9000
        expect(app.asked("fail the solver diverges"), FAILED, common_pb2.REASON_APPLICATION_REFUSED)
        expect(app.asked("end"), FAILED, common_pb2.REASON_APPLICATION_REFUSED)
        log = cluster.agents["a"].log.read_text()
        assert "the application says status=the solver diverges" in log
        assert "the application ended the call without an answer" in log
        expect(app.asked("twice"), COMPLETE)  # the sentinel came first, and counts
        assert not expect(app.asked("hold"), TIMED_OUT, common_pb2.REASON_CHECKPOINT_TIMEOUT).extended
        app.says("cancelled")
        expect(app.asked("done"), COMPLETE)
        assert [left for _, left in app.calls()] == [5000] * 6, app.calls()
        assert len({hint for hint, _ in app.calls()}) == 6
        log = cluster.agents["a"].log.read_text()
        assert "event=estimate" in log and "progress_ppm=500000" in log
        assert cluster.allocation("answers").state == RUNNING
        cluster.debug_check()


def what_an_application_expects_is_recorded_and_counts():
    """S1-040: it goes from the response into the state, to people and into the model, until a checkpoint has shown what is true; what cannot be
    is refused with a line."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": "20s"}) as cluster:
        cluster.start()
        app = App(cluster, "tells").registered()

        def usable():
            text = cluster.ctl("explain", "tells").stdout
            return int(re.search(r"storage: ok \((\d+) bytes/s usable", text).group(1)), text
        wait_until("it was evaluated", lambda: "storage: ok" in cluster.ctl("explain", "tells", check=False).stdout, 20, 0.2)
        before, _ = usable()
        app.answers("told 9000")
        identifier = app.hint()
        record = wait_until("it is recorded", lambda: (lambda c: c if c.told_write_ms else None)(app.checkpoint(identifier)), 10, 0.05)
        assert 9000 <= record.told_write_ms < 14000, record
        assert abs(record.told_end_at_ms - time.time() * 1000 - 9000) < 5000, record
        job = cluster.allocation("tells")
        assert job.told_write_ms == record.told_write_ms and job.learned.count == 0, job
        assert "its application says that it writes for 9" in cluster.ctl("job", "tells").stdout
        assert "by its application's word" in cluster.ctl("checkpoint", own_name_of(identifier)).stdout
        wait_until("the model counts with it", lambda: abs(usable()[0] - job.size_estimate_bytes * 1000 / job.told_write_ms) <= 1, 20, 0.2)
        after, text = usable()
        assert after < before and "its application says that it writes for" in text, (before, after, text)
        app.answers("done")
        expect(app.ends(identifier), COMPLETE)
        wait_until("what is measured counts", lambda: "its application says" not in usable()[1], 20, 0.2)
        assert "measured times count" in cluster.ctl("job", "tells").stdout
        for wrong in ("-5", str(365 * 86400 * 1000)):  # a float, as a NaN, cannot be said by the message
            app.answers(f"told {wrong}")
            identifier = app.hint()
            wait_until("it is refused", lambda: f"estimate_ms={wrong} limit_ms=604800000" in cluster.agents["a"].log.read_text(), 10, 0.05)
            app.answers("done")
            assert expect(app.ends(identifier), COMPLETE).told_write_ms == 0
        cluster.debug_check()


def own_name_of(identifier):
    return f"{identifier >> 40}-{identifier & (1 << 40) - 1}"


def a_deferral_is_granted_up_to_the_limit_and_then_forced():
    """S1-042, P-043, I34."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        app = App(cluster, "defers").registered()
        app.answers("defer 2000")
        began = time.monotonic()
        identifier = app.hint()
        app.says("call ", 1)
        wait_until("it is deferred", lambda: app.checkpoint(identifier).deferred_ms == 2000, 10, 0.05)
        first = app.checkpoint(identifier).deadline_ms
        record = expect(app.ends(identifier), COMPLETE)
        took = time.monotonic() - began
        assert [left for _, left in app.calls()] == [5000, 3000, 1000, 0], app.calls()
        assert len({hint for hint, _ in app.calls()}) == 1, "one attempt"
        assert record.deferred_ms == 5000 and record.attempt == 1 and 4.9 < took < 15, (record, took)
        assert not record.extended
        # one long deferral is cut, and what is beyond is not granted again: the attempt fails, the application runs on
        expect(app.asked("defy 60000"), FAILED, common_pb2.REASON_APPLICATION_REFUSED)
        assert [left for _, left in app.calls()][4:] == [5000, 0], app.calls()
        assert "asked to be deferred beyond max_deferral" in cluster.agents["a"].log.read_text()
        # deferred to the limit, and then it does not begin: its time runs out
        app.answers("defer 60000")
        identifier = app.hint()
        wait_until("it is deferred", lambda: app.checkpoint(identifier).deferred_ms == 5000, 10, 0.05)
        app.answers("hold")
        record = expect(app.ends(identifier), TIMED_OUT, common_pb2.REASON_CHECKPOINT_TIMEOUT)
        assert first > 0 and record.state_since_ms - record.dispatched_at_ms < 5000 + 2 * 4000, record
        expect(app.asked("done"), COMPLETE)
        cluster.debug_check()


def the_last_safe_slot_ends_a_deferral():
    """S1-090, S1-094, P-043: asked again before its deferral has passed, by the broker's decision, and written before the walltime ends."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_deferral": "60s", "grace": "8s"}) as cluster:
        cluster.start()
        cluster.register("late", [("a", 1, MIB)], walltime_ms=24000)
        app = App(cluster, "late", mode="defer 60000", register=False).registered()
        identifier = app.hint()
        wait_until("it is deferred", lambda: app.checkpoint(identifier).deferred_ms > 15000, 10, 0.05)
        record = expect(app.ends(identifier), COMPLETE)
        assert record.purpose == common_pb2.PURPOSE_WALLTIME and record.attempt == 1, record
        assert [left for _, left in app.calls()] == [record.deferred_ms, 0], app.calls()
        assert record.completed_at_ms - record.dispatched_at_ms < record.deferred_ms - 1000, record
        cluster.debug_check()


def a_preemption_waits_no_longer_than_the_limit():
    """P-043, decision 5, L4: a victim that puts it off for ever is ended when it is forced."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        app = App(cluster, "victim", mode="defy 60000").registered()
        wait_until("it runs", app.job.known_to_run, 10)
        began = time.monotonic()
        cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(
            request_id=uuid.uuid4().hex, preemption_class=9, nodes_needed=1, forced=True))
        ended = wait_until("it is stopped", lambda: (lambda a: a if a.state in (SUSPENDED, ENDED_FAILED) else None)(cluster.allocation("victim")), 30, 0.1)
        took = time.monotonic() - began
        assert ended.state == ENDED_FAILED and ended.reason == common_pb2.REASON_PREEMPTED_WITHOUT_CHECKPOINT, ended
        assert [left for _, left in app.calls()] == [5000, 0] and 4.9 < took < 20, (app.calls(), took)
        wait_until("its application is gone", lambda: app.job.process.poll() is not None, 10)
        cluster.debug_check()


def a_deferral_of_one_node_is_one_of_all():
    """I34: the deadline of all moves, by the longest; all shards or no checkpoint."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("pair", [("a", 1, MIB), ("b", 1, MIB)])
        a = App(cluster, "pair", "a", "defer 1500", register=False).registered()
        b = App(cluster, "pair", "b", "defer 4800", register=False).registered()
        record = expect(a.ends(a.hint()), COMPLETE)
        assert record.deferred_ms == 5000 and len(record.shards) == 2, record
        assert len(a.calls()) == 5 and len(b.calls()) == 3, (a.calls(), b.calls())
        cluster.debug_check()


def what_dies_during_a_call():
    """The application: its end counts. The agent: the attempt is lost and tried again under another number; a deferral is kept, and the
    application is not asked before its time. I22."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_deferral": "20s", "checkpoint_timeout": "30s"}) as cluster:
        cluster.start()
        agent = cluster.agents["a"]
        dies = App(cluster, "dies").registered()
        app = App(cluster, "runs").registered()
        dies.answers("die")
        dies.hint()
        wait_until("it has ended", lambda: cluster.allocation("dies").state == ENDED_FAILED, 20)
        assert cluster.allocation("dies").reason == common_pb2.REASON_APPLICATION_EXITED

        app.answers("hold")
        identifier = app.hint()
        app.says("call ")
        agent.kill()
        app.says("cancelled")
        app.answers("done")
        agent.start()
        record = expect(app.ends(identifier), COMPLETE)
        assert record.attempt == 2 and [hint[-2:] for hint, _ in app.calls()] == ["-1", "-2"], (record, app.calls())
        assert "the agent ended while the application was to answer its call" in agent.log.read_text()

        app.answers("defer 6000")
        identifier = app.hint()
        began = time.monotonic()
        wait_until("it is deferred", lambda: app.checkpoint(identifier).deferred_ms == 6000, 10, 0.05)
        agent.kill()
        app.answers("done")
        agent.start()
        record = expect(app.ends(identifier), COMPLETE)
        assert record.attempt == 1 and time.monotonic() - began > 5.5, record
        assert app.calls()[2:] == [(app.calls()[2][0], 20000), (app.calls()[2][0], 14000)], app.calls()
        assert app.said().count("registered") == 1, "the endpoint outlives the agent"
        cluster.debug_check()


def an_agent_that_dies_in_a_state_of_a_call():
    """With the line that tells that its application puts it off, or that its call broke, and when all that belongs to it is begun."""
    # the back-off leaves ckpt-run the time to start a dead application again: the second attempt is of one that is there
    with Cluster(members=1, agents=("a",), policy={**POLICY, "retry_backoff": "2s"}) as cluster:
        cluster.start()
        words, ends = LastWords(cluster.agents["a"]), {}
        words.agent.kill()
        words.agent.start()
        app = App(cluster, "mortal", options=("--max-restarts", "5")).registered()
        for state, mode in (("DEFERRED", "defer 1000"), ("BROKEN", "die")):
            for moment in ("before", "after"):
                app.answers(mode)
                words.arm(f" to={state}\n", moment)
                identifier, registered = app.hint(), app.said().count("registered OK")
                words.dies(f"{state}, {moment}")
                app.answers("done")
                words.agent.start()
                record = app.ends(identifier)
                ends[state, moment] = (record.state, record.attempt)
                if mode == "die":
                    app.says("registered OK", registered + 1)
        # what was put off stays so where the journal has it; an answer that was lost, and a dead application, cost an attempt
        assert ends == {("DEFERRED", "before"): (COMPLETE, 2), ("DEFERRED", "after"): (COMPLETE, 1), ("BROKEN", "before"): (COMPLETE, 2),
                        ("BROKEN", "after"): (COMPLETE, 2)}, ends
        cluster.debug_check()


def listen(path, chat):
    """Somebody at that path, until the test ends."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            chat(connection)
    threading.Thread(target=serve, daemon=True).start()
    return server


def garbage(connection):
    with connection:
        connection.sendall(b"HTTP/1.1 400 go away\r\n\r\n" * 100)
        time.sleep(0.2)


def endpoints_that_are_none():
    """Nothing registered, nobody there any more, garbage, a link to another's socket."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        log = cluster.agents["a"].log
        cluster.register("silent", [("a", 1, MIB)], checkpoint_timeout_ms=30000)
        silent = cluster.run_job("a", "silent", ["sleep", "1000"], ("--profile", "grpc", "--max-restarts", "0"))
        app = App(cluster, "moves").registered()
        wait_until("it runs", silent.known_to_run, 10)
        identifier = cluster.request_checkpoint("silent")
        record = wait_until("nobody can be asked", lambda: next((c for c in cluster.checkpoints("silent") if c.checkpoint_id == identifier
                                                                 and c.state == FAILED), None), 20)
        assert record.reason == common_pb2.REASON_NO_HANDLER, record
        assert "the application has not registered" in log.read_text()

        aside = cluster.dir / "aside.sock"
        app.socket.rename(aside)
        expect(app.asked("done"), FAILED, common_pb2.REASON_NO_HANDLER)
        app.socket.symlink_to(aside)
        expect(app.asked("done"), FAILED, common_pb2.REASON_NO_HANDLER)
        with listen(app.socket, garbage):
            record = expect(app.asked("done"), FAILED, common_pb2.REASON_RETRIES_EXHAUSTED)
        assert record.attempt == 2 and app.calls() == [], (record, app.calls())
        app.socket.unlink()
        aside.rename(app.socket)
        expect(app.asked("done"), COMPLETE)
        cluster.debug_check()


def register(cluster, name, socket_path, *prefix):
    """Somebody else's registration; what the agent answers."""
    environment = {**os.environ, "CKPT_AGENT_SOCKET": str(cluster.agents["a"].socket), "CKPT_ALLOCATION_ID": name}
    process = subprocess.Popen([*prefix, str(cluster.bin / "grpc_app"), "/dev/null", str(socket_path)], env=environment,
                               stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            if line.startswith("registered"):
                return line
        raise AssertionError("it does not register")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def who_may_register():
    """S1-038: a process of the job, as its user, an endpoint that is its own."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        if os.geteuid() == 0:
            cluster.let_others_in()
        cluster.start()
        app = App(cluster, "mine").registered()
        cluster.register("signals", [("a", 1, MIB)])
        signals = cluster.run_job("a", "signals", [str(cluster.bin / "grpc_app"), "/dev/null", str(cluster.dir / "s.sock")], ("--profile", "signal", "--max-restarts", "0"))
        wait_until("it is told", lambda: "registered" in signals.log.read_text(), 10)
        assert "registered FAILED_PRECONDITION" in signals.log.read_text() and "--profile grpc" in signals.log.read_text()
        answer = register(cluster, "mine", cluster.dir / "x.sock")
        assert "PERMISSION_DENIED" in answer and "only what its ckpt-run has started" in answer, answer
        assert "FAILED_PRECONDITION" in register(cluster, "nothing", cluster.dir / "y.sock")
        if os.geteuid() == 0:
            theirs = cluster.dir / "theirs"
            theirs.mkdir()
            os.chown(theirs, 65534, 65534)
            answer = register(cluster, "mine", theirs / "z.sock", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
            assert "PERMISSION_DENIED" in answer and "as 65534" in answer, answer
            another_user(cluster, theirs)
        expect(app.asked("done"), COMPLETE)
        of_another_session(cluster)
        cluster.debug_check()


def of_another_session(cluster):
    """A launcher has put it into a session of its own: its environment says whose it is."""
    app = App.__new__(App)
    app.cluster, app.name, app.mode_file, app.socket = cluster, "left", cluster.dir / "left.mode", cluster.dir / "left.sock"
    app.answers("done")
    cluster.register("left", [("a", 1, MIB)])
    app.job = cluster.run_job("a", "left", ["setsid", "--wait", str(cluster.bin / "grpc_app"), str(app.mode_file), str(app.socket)],
                              ("--profile", "grpc", "--max-restarts", "0"))
    app.registered()
    expect(app.asked("done"), COMPLETE)


def another_user(cluster, folder):
    """Its checkpoint is written as it; a socket of its own that another's program has does not get called."""
    work, path, log = folder / "work", folder / "app.sock", cluster.dir / "theirs.log"
    work.mkdir()
    os.chown(work, 65534, 65534)
    mode = cluster.dir / "theirs.mode"
    mode.write_text("done")
    cluster.register("theirs", [("a", 1, MIB)], owner=own_name(65534))
    with open(log, "w") as out:
        run = subprocess.Popen(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(cluster.bin / "ckpt-run"), "--alloc", "theirs",
                                "--profile", "grpc", "--work-dir", str(work), "--socket", str(cluster.agents["a"].socket), "--",
                                str(cluster.bin / "grpc_app"), str(mode), str(path)], stdout=out, stderr=out)
    app = App.__new__(App)
    app.cluster, app.name, app.mode_file, app.socket = cluster, "theirs", mode, path
    app.job = type("job", (), {"log": log})
    try:
        app.registered()
        record = expect(app.asked("done"), COMPLETE)
        assert (pathlib.Path(record.path) / "part-0000" / "state").stat().st_uid == 65534
        called = []
        path.rename(folder / "aside.sock")
        with listen(path, lambda connection: called.append(connection.recv(1000))):  # ours, given the user's name
            os.chown(path, 65534, 65534)
            expect(app.asked("done"), FAILED, common_pb2.REASON_RETRIES_EXHAUSTED)
            wait_until("it was dialled", lambda: len(called) > 0, 5)
        assert called and not any(called), "nothing is said to another user's program"
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()


if __name__ == "__main__":
    sys.exit(tap([what_applications_answer, what_an_application_expects_is_recorded_and_counts,
                  a_deferral_is_granted_up_to_the_limit_and_then_forced, the_last_safe_slot_ends_a_deferral,
                  a_preemption_waits_no_longer_than_the_limit, a_deferral_of_one_node_is_one_of_all, what_dies_during_a_call,
                  an_agent_that_dies_in_a_state_of_a_call,
                  endpoints_that_are_none, who_may_register]))
