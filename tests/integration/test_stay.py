#!/usr/bin/python3
"""ckpt-run --stay: a node is lost, and one command is all that brings the job back, on what is left and a spare node. S3-001, S3-002."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, grpc, tap, wait_until  # noqa: E402
from ckpt.v1 import app_pb2  # noqa: E402

POLICY = {"evaluation_interval": "1h", "min_interval": "1ms", "grace": "1s", "checkpoint_timeout": "20s", "node_degraded_after": "1s",
          "node_down_after": "3s", "max_requeue": 9}
MIB = 1 << 20


def says(job, pattern, timeout_s=20):
    return wait_until(f"ckpt-run on {job.agent.name} says /{pattern}/", lambda: re.search(pattern, job.log.read_text()), timeout_s)


def a_spare_node_takes_over_without_anybody_on_it():
    """a, b and the spare c each have the same ckpt-run; b is lost, and the job goes on from its checkpoint on a and c. When it is completed all end."""
    with Cluster(members=1, agents=("a", "b", "c"), policy=POLICY, heartbeat_ms=300) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS)
        heat = [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", "/dev/null"]
        jobs = {name: cluster.run_job(name, "job", heat, ("--stay", "--max-restarts", "0")) for name in "abc"}
        says(jobs["c"], r"ckpt-run: allocation job runs on a and others, and c is a spare for it; waiting for that \(--stay\)")
        identifier = cluster.request_checkpoint("job")
        wait_until("it is complete", lambda: any(c.checkpoint_id == identifier and c.state == common_pb2.CHECKPOINT_STATE_COMPLETE
                                                 for c in cluster.checkpoints("job")), 20)
        before = {name: jobs[name].application_pid() for name in "ab"}
        cluster.agents["b"].kill()
        jobs["b"].kill()
        for pid in jobs["b"].applications():
            os.kill(pid, signal.SIGKILL)
        wait_until("it is requeued", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_REQUEUED, 30)
        says(jobs["a"], r"ckpt-run: allocation job is requeued, and may run on at node b, silent for .* \(an operator's ckptctl node down b --is-off\); waiting for that \(--stay\)")
        assert jobs["a"].running() and jobs["c"].running()
        refused = cluster.ctl("restart", "job", "--node", "a:1,c:1", check=False)
        assert refused.returncode == 4 and "NODE_SILENT: b: " in refused.stderr, refused
        cluster.ctl("node", "down", "b", "--is-off", "--yes")
        cluster.ctl("restart", "job", "--node", "a:1,c:1")
        for name, part in (("a", 0), ("c", 1)):
            says(jobs[name], rf"started pid \d+ as part {part} of 2 on node {name} from checkpoint \S+ \(1-{identifier & 0xffffffff}[,)]", 30)
        wait_until("it runs", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_RUNNING, 20)
        assert jobs["a"].application_pid() != before["a"]
        cluster.ctl("end", "job", "--yes")
        for name in "ac":
            jobs[name].process.wait(30)
            assert "it is completed" in jobs[name].log.read_text(), jobs[name].log.read_text()
        cluster.debug_check()


def parts_that_restore_in_two_ways_do_not_begin():
    """One of them is refused, with both ways; started like the other one, both begin."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)])
        heat = [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", "/dev/null"]
        jobs = {name: cluster.run_job(name, "job", heat, ("--max-restarts", "0")) for name in "ab"}
        wait_until("it runs", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_RUNNING, 20)
        identifier = cluster.request_checkpoint("job")
        wait_until("it is complete", lambda: any(c.checkpoint_id == identifier and c.state == common_pb2.CHECKPOINT_STATE_COMPLETE
                                                 for c in cluster.checkpoints("job")), 20)
        cluster.ctl("end", "job", "--failed", "--yes")
        for job in jobs.values():
            job.process.wait(30)
        cluster.ctl("restart", "job")
        ways = {"a": "all", "b": "own"}
        reads = ["sleep", "600"]  # it takes what is restored in either way
        jobs = {name: cluster.run_job(name, "job", reads, ("--max-restarts", "0", "--restore", way)) for name, way in ways.items()}
        refused = wait_until("one is refused", lambda: next((name for name, job in jobs.items() if job.process.poll() is not None), None), 30)
        other = "ab".replace(refused, "")
        text = jobs[refused].log.read_text()
        assert re.search(rf"part \d of allocation job restores {ways[refused]}, part \d has restored {ways[other]}: all parts restore in one way", text), text
        cluster.run_job(refused, "job", reads, ("--max-restarts", "0", "--restore", ways[other]))
        wait_until("both run", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_RUNNING, 30)
        cluster.debug_check()


def a_signal_ends_the_waiting():
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("b", "job", ["true"], ("--stay",))
        says(job, r"waiting for that \(--stay\)")
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(10) == 128 + signal.SIGTERM
        unknown = cluster.run_job("b", "nosuch", ["true"], ("--stay",))
        assert unknown.process.wait(30) == 125 and "does not know this allocation" in unknown.log.read_text()


class EndingAgent:
    """An agent that says that the run is over when it has heard that its application has ended, as it may when both come at once."""

    def __init__(self):
        self.hellos = []

    def Attach(self, requests, context):  # the name of the call
        for up in requests:
            if up.HasField("hello"):
                self.hellos.append(up.hello)
            if up.HasField("hello") and len(self.hellos) > 1:
                return  # it waits for another run
            if up.HasField("ended"):
                yield app_pb2.AttachDown(end=app_pb2.AttachEnd(reason="application exited"))
                return
            yield app_pb2.AttachDown(ready=app_pb2.AttachReady(run=7, node_id="a"))


def an_application_that_ends_with_its_run_is_stayed_for():
    """... although it would have been started again."""
    with tempfile.TemporaryDirectory() as folder:
        agent, server = EndingAgent(), grpc.server(futures.ThreadPoolExecutor(4))
        methods = {"Attach": grpc.stream_stream_rpc_method_handler(agent.Attach, app_pb2.AttachUp.FromString,
                                                                   app_pb2.AttachDown.SerializeToString)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("ckpt.v1.AppService", methods),))
        server.add_insecure_port(f"unix:{folder}/agent.sock")
        server.start()
        with open(f"{folder}/log", "wb") as log:
            run = subprocess.Popen([str(BIN / "ckpt-run"), "--alloc", "job", "--stay", "--max-restarts", "10", "--socket", f"{folder}/agent.sock",
                                    "--work-dir", f"{folder}/work", "--", "false"], stdout=log, stderr=log)
        try:
            wait_until("it comes again for another run", lambda: len(agent.hellos) > 1 or run.poll() is not None, 20)
            assert run.poll() is None, pathlib.Path(f"{folder}/log").read_text()
            assert not agent.hellos[1].running and agent.hellos[1].restart_count == 0, agent.hellos
            run.send_signal(signal.SIGTERM)
            assert run.wait(10) == 128 + signal.SIGTERM
        finally:
            run.kill()
            run.wait()
            server.stop(0)


if __name__ == "__main__":
    sys.exit(tap([an_application_that_ends_with_its_run_is_stayed_for, a_spare_node_takes_over_without_anybody_on_it, parts_that_restore_in_two_ways_do_not_begin, a_signal_ends_the_waiting]))
