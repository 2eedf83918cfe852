#!/usr/bin/python3
"""How a job ended is not lost with who tells it: the agent away, ckpt-run standing still or gone. F-021, F-025, I28."""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, common_pb2, tail, tap, wait_until  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1h", "grace": "1s"}
RUNNING, COMPLETED = common_pb2.ALLOCATION_STATE_RUNNING, common_pb2.ALLOCATION_STATE_COMPLETED
FAILED, REQUEUED = common_pb2.ALLOCATION_STATE_FAILED, common_pb2.ALLOCATION_STATE_REQUEUED
# Ends with status argv[2] as soon as the file argv[1] is there; told to, with 0.
WAITS = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nopen(sys.argv[1] + '.ready', 'w')\n" \
        "while not os.path.exists(sys.argv[1]):\n    time.sleep(0.02)\nsys.exit(int(sys.argv[2]))\n"
AWAY_S, STOPPED_S = 7, 8


def start(cluster, *statuses):
    """Jobs that run, one for each name and status."""
    for name, _ in statuses:
        cluster.register(name, [("a", 1, 1 << 20)], grace_ms=500)
    jobs = [cluster.run_job("a", name, [sys.executable, "-c", WAITS, str(cluster.dir / name), str(status)], ("--max-restarts", "0"))
            for name, status in statuses]
    for job in jobs:
        wait_until(f"{job.allocation} runs", (cluster.dir / f"{job.allocation}.ready").exists, 15)
    return jobs


def go(cluster, name):
    (cluster.dir / name).touch()


def ends_as(cluster, name, *states):
    wait_until(f"{name} has ended", lambda: cluster.allocation(name).state != RUNNING, 20)
    state = cluster.allocation(name).state
    assert state in states, f"{name}: {state}\n" + tail(cluster.agents["a"].log, 12)


def a_job_that_ends_while_its_agent_is_away_ended_as_it_did():
    """ckpt-run waits for the agent some seconds, and leaves how it ended in the work folder; what lies there of another start does not count."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        done, broken, told, stale = start(cluster, ("done", 0), ("broken", 3), ("told", 0), ("stale", 0))
        agent, pid = cluster.agents["a"], stale.application_pid()
        began = time.monotonic()
        agent.kill()
        go(cluster, "done")
        go(cluster, "broken")
        os.kill(told.process.pid, signal.SIGTERM)
        wait_until("their ckpt-runs have ended", lambda: not (done.running() or broken.running() or told.running()), 15)
        assert (done.process.returncode, broken.process.returncode, told.process.returncode) == (0, 3, 0)
        kept = (done.work_dir / "ckpt-run.end").read_text()
        (stale.work_dir / "ckpt-run.end").write_text(kept)
        stale.kill()  # nobody sees how this one ends
        os.kill(pid, signal.SIGKILL)
        time.sleep(max(0, began + AWAY_S - time.monotonic()))
        agent.start()
        ends_as(cluster, "done", COMPLETED)
        for name in ("broken", "told", "stale"):
            ends_as(cluster, name, FAILED, REQUEUED)
        log = agent.log.read_text()
        assert f"exit_status={3 << 8}" in log, tail(agent.log, 12)
        cluster.debug_check()


def the_word_of_a_ckpt_run_that_stands_still_is_waited_for():
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        [job] = start(cluster, ("done", 0))
        os.kill(job.process.pid, signal.SIGSTOP)
        go(cluster, "done")
        time.sleep(STOPPED_S)
        assert cluster.allocation("done").state == RUNNING
        os.kill(job.process.pid, signal.SIGCONT)
        ends_as(cluster, "done", COMPLETED)
        cluster.debug_check()


def an_agent_that_restarts_waits_for_a_ckpt_run_that_stands_still():
    """It is not attached, but the application is its zombie."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        done, broken = start(cluster, ("done", 0), ("broken", 3))
        agent = cluster.agents["a"]
        agent.kill()
        for job in (done, broken):
            os.kill(job.process.pid, signal.SIGSTOP)
            go(cluster, job.allocation)
        agent.start()
        time.sleep(STOPPED_S)
        for job in (done, broken):
            assert cluster.allocation(job.allocation).state == RUNNING
            os.kill(job.process.pid, signal.SIGCONT)
        ends_as(cluster, "done", COMPLETED)
        ends_as(cluster, "broken", FAILED, REQUEUED)
        assert f"exit_status={3 << 8}" in agent.log.read_text()
        cluster.debug_check()


def what_an_application_leaves_may_end_by_itself():
    """The `tee` of a script writes its last lines; what goes on for longer is killed and named, since a program that puts itself into the background
    looks like one whose work is done. A word to end that comes then is too late to change how it ended. I28, I30."""
    lines = {"tee": 'exec > >(sleep 1; cat > "$OUT"); for i in $(seq 1000); do echo line $i; done', "daemon": "setsid sleep 60 & exit 0", "leads": None,
             "told": "sleep 60 & exit 0", "fails": "sleep 60 & exit 3"}
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        os.environ["OUT"] = str(cluster.dir / "tee.out")
        jobs = {}
        for name, line in lines.items():
            cluster.register(name, [("a", 1, 1 << 20)])
            jobs[name] = cluster.run_job("a", name, ["setsid", "sleep", "60"] if line is None else ["bash", "-c", line], ("--max-restarts", "0"))
        wait_until("it lingers", lambda: "started pid" in jobs["told"].log.read_text() and not jobs["told"].application_pid(), 20)
        jobs["told"].process.send_signal(signal.SIGTERM)
        for name, job in jobs.items():
            assert job.process.wait(20) == (3 if name == "fails" else 0), (name, tail(job.log))
            ends_as(cluster, name, FAILED if name == "fails" else COMPLETED)
            wait_until("nothing is left", lambda job=job: not job.applications(), 10)
            named = "what it has left running is killed: sleep (pid " in job.log.read_text()
            assert named == (name in ("daemon", "leads", "told")), (name, tail(job.log))
        assert (cluster.dir / "tee.out").read_text().splitlines()[-1:] == ["line 1000"]


if __name__ == "__main__":
    sys.exit(tap([what_an_application_leaves_may_end_by_itself,
                  a_job_that_ends_while_its_agent_is_away_ended_as_it_did, the_word_of_a_ckpt_run_that_stands_still_is_waited_for,
                  an_agent_that_restarts_waits_for_a_ckpt_run_that_stands_still]))
