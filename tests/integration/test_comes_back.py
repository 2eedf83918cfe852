#!/usr/bin/python3
"""Jobs that come back by themselves: nobody types anything (V-001, V-002, S1-022, S3-047, S3-061)."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, Job, broker_pb2, common_pb2, operator_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETED, ENDED_FAILED, MIB, REQUEUED, RUNNING, STARTING, SUSPENDED, complete  # noqa: E402
from ranks_site import HEARTBEAT_MS, RANKS_POLICY, Ranked, site, threads, train  # noqa: E402

AUTO = common_pb2.RESTART_MODE_AUTO
RESTARTS = ("--max-restarts", "9")


class Piped(Job):
    """Its standard input is a pipe that somebody could still write to."""

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.cluster.dir, start_new_session=True)


def says(run, pattern, timeout_s=20):
    return wait_until(f"ckpt-run on {run.agent.name} says /{pattern}/", lambda: re.search(pattern, run.log.read_text()), timeout_s)


def finishes(job, seconds=90):
    """It is completed, with the result of a job that nothing has befallen, and no rank ever ran twice at a time."""
    wait_until(f"{job.name} is completed", lambda: job.state() == COMPLETED, seconds, 0.1)
    assert job.result() == job.program.expected(), job.logs()
    job.one_writer()
    job.complete_checkpoints()


def chosen(cluster, name):
    """What the state says of the broker's last restart."""
    return cluster.allocation(name).restart_choice


def a_rank_that_dies_brings_all_back():
    """Twice, the second time with a leader that dies in the middle: the same nodes go on from one checkpoint. The peers hang in a collective."""
    with site("ab") as cluster:
        job = Ranked(cluster, "job", train(), "ab", restart=AUTO, options=RESTARTS)
        job.computes()
        job.checkpoint()
        died = time.monotonic()
        job.kill_rank(3)
        wait_until("it was restarted", lambda: chosen(cluster, "job") == "its own a, b", 20)
        job.computes()
        print(f"# from the death of a rank to all ranks computing: {time.monotonic() - died:.2f} s", flush=True)
        says(job.runs["a"], "the cluster restarts it when 2 nodes wait for it")
        assert "ckpt-run: restart " not in job.runs["a"].log.read_text() + job.runs["b"].log.read_text(), "of one part alone"
        job.checkpoint()
        job.kill_rank(0)
        leader = cluster.wait_leader()
        leader.kill()
        finishes(job)
        leader.start()
        cluster.debug_check()


def a_spare_takes_the_place_of_a_node_that_is_off():
    """An operator's word is the second witness here. One more spare than needed is parked all the time, and ends when the job does."""
    with site("abcd") as cluster:
        job = Ranked(cluster, "job", threads(), "ab", restart=AUTO, options=(*RESTARTS, "--stay"), restore=common_pb2.RESTORE_MODE_ALL)
        for spare in "cd":
            job.runs[spare] = cluster.run_job(spare, "job", job.command, (*RESTARTS, "--stay"))
        job.computes()
        job.checkpoint()
        job.lose("b")
        wait_until("it is requeued", lambda: job.state() == REQUEUED, 30)
        time.sleep(1)
        assert job.state() == REQUEUED, "a spare began beside a node that is only silent"
        cluster.ctl("node", "down", "b", "--is-off", "--yes")
        wait_until("it was restarted", lambda: re.fullmatch(r"its own a; the spare [cd]", chosen(cluster, "job")), 20)
        assert "the broker's: its own a; the spare" in cluster.ctl("job", "job").stdout
        finishes(job)
        for name in "acd":
            assert job.runs[name].process.wait(20) in (0, 125), job.runs[name].log.read_text()
        cluster.debug_check()


def a_job_without_progress_ends_with_its_own_status():
    """One restart, and no more. The status is that of the rank that ended first, also where the cluster ended the others."""
    with site("ab", restart_wait="20s") as cluster:
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO, max_requeue=1)
        runs = [cluster.run_job(node, "job", ["sh", "-c", "sleep .3; exit 7"], RESTARTS) for node in "ab"]
        for run in runs:
            assert run.process.wait(60) == 7, run.log.read_text()
        allocation = cluster.allocation("job")
        assert allocation.state == ENDED_FAILED and allocation.restarts_without_progress == 1 and allocation.requeues_used == 1, allocation
        assert "as often as it may, 1 of 1 (max_requeue); ckptctl restart job --from-scratch begins anew" in cluster.ctl("job", "job").stdout
        assert any("was restarted without a complete checkpoint as often as it may, 1 of 1" in run.log.read_text() for run in runs), [run.log.read_text() for run in runs]
        assert allocation.cause_node_id in "ab" and allocation.cause_wait_status == 7 << 8, allocation
        assert re.search(r"its last failure: the application on node [ab] ended with status 7 at", cluster.ctl("job", "job").stdout)
        cluster.debug_check()


def a_job_of_one_node_comes_back_beyond_its_restarts_in_place():
    """ckpt-run stays where its own restarts are used up, the cluster restarts the job all the same, and it leaves with its own status at the end."""
    with site("a", restart_wait="20s") as cluster:
        cluster.register("job", [("a", 1, MIB)], restart=AUTO, requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS, max_requeue=1)
        run = cluster.run_job("a", "job", ["sh", "-c", "sleep .3; exit 9"], ("--max-restarts", "0"))
        assert run.process.wait(30) == 9, run.log.read_text()
        assert run.log.read_text().count("started pid") == 2 and "the cluster restarts it" in run.log.read_text(), run.log.read_text()
        assert cluster.allocation("job").state == ENDED_FAILED
        cluster.register("once", [("a", 1, MIB)], restart=AUTO)
        run = cluster.run_job("a", "once", ["sh", "-c", "exit 4"], ("--max-restarts", "0"))
        assert run.process.wait(10) == 4 and len(run.log.read_text().splitlines()) <= 3, run.log.read_text()
        cluster.debug_check()


def a_part_that_has_finished_begins_again_with_one_that_failed():
    """As the daemons of MPI do: they end with 0 when a rank of theirs has died, and mpirun fails. Its ckpt-run is kept until the others have ended, and
    leaves with 0, silent, when all have."""
    with site("ab", restart_wait="60s") as cluster:
        mark = cluster.dir / "mark"
        command = ["sh", "-c", f'[ $CKPT_PART = 0 ] || [ -e "{mark}" ] || exit 0; [ $CKPT_PART = 1 ] && exec sleep 2; sleep 2; [ -e "{mark}" ] || {{ touch "{mark}"; exit 3; }}; sleep 6']
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO)
        runs = {node: cluster.run_job(node, "job", command, (*RESTARTS, "--wait-for", "4s")) for node in "ab"}
        says(runs["b"], "this part of the allocation has finished; it is kept until the others have")
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 20)
        assert runs["b"].log.read_text().count("started pid") == 1
        wait_until("it was restarted", lambda: chosen(cluster, "job") == "its own a, b", 20)
        for run in runs.values():
            assert run.process.wait(30) == 0, run.log.read_text()
        wait_until("it is completed", lambda: cluster.allocation("job").state == COMPLETED, 20)
        assert runs["b"].log.read_text().count("started pid") == 2, runs["b"].log.read_text()
        assert "gave up" not in runs["b"].log.read_text(), "it waits for nothing that --wait-for limits"
        assert "the agent is there" not in runs["b"].log.read_text(), runs["b"].log.read_text()
        assert "does not run" not in runs["b"].log.read_text() and "is over" not in runs["b"].log.read_text().split("started pid")[2], runs["b"].log.read_text()
        cluster.register("hand", [("a", 1, MIB), ("b", 1, MIB)], restart=common_pb2.RESTART_MODE_MANUAL)
        runs = {node: cluster.run_job(node, "hand", ["sh", "-c", "[ $CKPT_PART = 1 ] || exec sleep 4"], RESTARTS) for node in "ab"}
        assert runs["b"].process.wait(10) == 0 and cluster.allocation("hand").state in (STARTING, RUNNING), runs["b"].log.read_text()
        assert runs["a"].process.wait(10) == 0
        cluster.debug_check()


def a_node_that_failed_twice_gives_way_to_a_spare():
    """It is excluded, which the job says with the next step. What a scheduler reads of the wait names it too, and its ckpt-run stays until the job runs
    elsewhere: the choice might be taken back."""
    with site("ab", restart_wait="60s") as cluster:
        cluster.register("job", [("a", 1, MIB)], restart=AUTO, max_requeue=9, requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS)
        fails = cluster.run_job("a", "job", ["sh", "-c", "sleep .3; exit 3"], ("--max-restarts", "0"))
        wait_until("it is excluded", lambda: cluster.allocation("job").state == REQUEUED and cluster.allocation("job").excluded_until_ms, 40)
        time.sleep(6)  # the pause is over
        assert cluster.allocation("job").state == REQUEUED
        text = cluster.ctl("job", "job").stdout
        assert re.search(r"2 failures in a row began there.*\n that node is taken not before \d\d:\d\d:\d\d", text) and "ckptctl restart JOB --node a:GPUS" in text, text
        assert "failed there twice in a row" in text and "WAITING_FOR_NODES" in text, text
        [waits] = cluster.client.broker("GetPlacementHints", broker_pb2.GetPlacementHintsRequest()).hints
        assert (waits.waits, waits.nodes_wanted, waits.nodes_needed, waits.nodes_waiting) == (True, 1, 1, 0) and waits.excluded_node_id == "a", waits
        assert re.search(r"job .* waits .* 0 of 1", cluster.ctl("placement").stdout), cluster.ctl("placement").stdout
        lasts = cluster.run_job("b", "job", ["sleep", "600"], ("--stay",))
        wait_until("it was restarted", lambda: chosen(cluster, "job") == "the spare b", 20)
        assert fails.process.wait(20) == 3, fails.log.read_text()
        assert "was restarted on b and runs there: nothing is left to do on node a" in fails.log.read_text(), fails.log.read_text()
        cluster.ctl("end", "job", "--yes")
        lasts.process.wait(20)
        cluster.debug_check()


def the_sites_command_hears_of_each_restart():
    """Once for a restart; it may fail, which hinders nothing (S3-061)."""
    with Cluster(agents="ab", policy=RANKS_POLICY, heartbeat_ms=HEARTBEAT_MS) as cluster:
        heard, hook, mark = (cluster.dir / name for name in ("heard", "hook", "mark"))
        hook.write_text(f'#!/bin/sh\necho "$1 $2 $CKPT_EVENT $CKPT_ALLOC_ID $CKPT_CHECKPOINT $CKPT_TEXT" >> "{heard}"; exit 1\n')
        hook.chmod(0o755)
        cluster.config.write_text(cluster.config.read_text() + f'restart_hook: "{hook}"\n')
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO)
        command = ["sh", "-c", f'[ $CKPT_PART = 1 ] || [ -e "{mark}" ] || {{ touch "{mark}"; exit 3; }}; sleep 2']
        runs = [cluster.run_job(node, "job", command, RESTARTS) for node in "ab"]
        for run in runs:
            assert run.process.wait(30) == 0, run.log.read_text()
        wait_until("it is completed", lambda: cluster.allocation("job").state == COMPLETED, 20)
        assert heard.read_text() == "restart job restart job 0-0 its own a, b\n", heard.read_text()
        assert any("event=hook_failed allocation=job status=1" in member.log.read_text() for member in cluster.members)
        cluster.debug_check()


def who_waits_in_vain_says_so_and_ends():
    """Its peer's ckpt-run is gone: after restart_wait the other one ends with the first cause's status, and the job is still to be restarted. The same
    line on both nodes brings it back."""
    with site("ab", restart_wait="2s") as cluster:
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO)
        command = ["sh", "-c", "sleep 600"]
        runs = {node: cluster.run_job(node, "job", command, RESTARTS) for node in "ab"}
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 20)
        runs["b"].process.send_signal(signal.SIGTERM)
        runs["b"].process.wait(20)
        wait_until("it ends", lambda: cluster.allocation("job").state in (ENDED_FAILED, REQUEUED), 20)
        assert runs["a"].process.wait(30) in (128 + signal.SIGTERM, 128 + signal.SIGKILL), runs["a"].log.read_text()
        cluster.debug_check()


def who_is_told_to_end_does_not_start_again():
    """Ctrl-C at one node. Its rank takes a moment to end, and its peer ends before, with an error: the cluster ends the run as well. The job is FAILED,
    whatever its policy of requeues (F-015), and no spare takes it."""
    with site("ab", restart_wait="20s") as cluster:
        starts = cluster.dir / "starts"
        starts.mkdir(mode=0o777)
        command = ["bash", "-c", f"""trap 'touch {starts}/told; sleep 1; exit 1' INT TERM; echo $CKPT_RUN >> {starts}/$CKPT_PART
            until [ $CKPT_PART = 1 -a -e {starts}/told ]; do sleep .05; done; rm {starts}/told; exit 1"""]
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO, requeue_policy=common_pb2.REQUEUE_POLICY_ALWAYS)
        runs = {node: cluster.run_job(node, "job", command, RESTARTS) for node in "ab"}
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING and (starts / "0").exists() and (starts / "1").exists(), 20)
        runs["a"].process.send_signal(signal.SIGINT)
        assert runs["a"].process.wait(10) in (1, 137), runs["a"].log.read_text()
        time.sleep(4)
        assert len((starts / "0").read_text().split()) == 1, runs["a"].log.read_text()
        allocation = cluster.allocation("job")
        assert allocation.state == ENDED_FAILED and not allocation.restart_choice, allocation
        assert runs["b"].process.wait(10) in (1, 137), runs["b"].log.read_text()
        cluster.debug_check()


def who_cannot_begin_again_leaves_with_the_first_cause():
    """Input from a pipe is not given again. The peer of a rank that ended with 7 was killed by the cluster, or ended with an error of its own: it says
    what the rank did, nothing begins on its node any more, and it does not wait for a restart."""
    with site("ab", restart_wait="60s") as cluster:
        for name, peer in (("killed", "sleep 600"), ("fails", "until [ -e $OUT ]; do sleep .05; done; sleep 1; exit 1")):
            out = cluster.dir / f"{name}.out"
            command = ["sh", "-c", f"OUT={out}; [ $CKPT_PART = 1 ] || {{ sleep 1; touch $OUT; exit 7; }}; {peer}"]
            cluster.register(name, [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO)
            runs = {}
            for node in "ab":
                runs[node] = Piped(cluster, cluster.agents[node], name, command, ("--max-restarts", "0"))
                cluster.jobs.append(runs[node])
            for node in "ab":
                assert runs[node].process.wait(30) == 7, runs[node].log.read_text()
                assert runs[node].log.read_text().count("started pid") == 1
            cluster.ctl("end", name, check=False)
        cluster.debug_check()


def what_is_over_is_said_once():
    """One node has ended its part; on the other one the agent hangs, and the whole run ends later. ckpt-run asks again and again meanwhile."""
    with site("ab", node_down_after="20s") as cluster:
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO)
        runs = {node: cluster.run_job(node, "job", ["sleep", "600"], RESTARTS) for node in "ab"}
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 20)
        time.sleep(3)  # an agent that has just begun takes its time
        cluster.agents["b"].process.send_signal(signal.SIGSTOP)
        os.kill(runs["a"].application_pid(), signal.SIGKILL)
        time.sleep(4)
        cluster.agents["b"].process.send_signal(signal.SIGCONT)
        wait_until("it was restarted", lambda: cluster.allocation("job").restart_choice and cluster.allocation("job").state == RUNNING, 20)
        said = [line for line in runs["a"].log.read_text().splitlines() if "over" in line]
        assert 0 < len(said) <= 3, runs["a"].log.read_text()
        cluster.debug_check()


def nobody_leads_when_the_run_has_ended():
    """For longer than an agent takes to answer. Whoever waits does so until somebody has said for how long it is worth it."""
    with site("ab", restart_wait="60s") as cluster:
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], restart=AUTO)
        runs = {node: cluster.run_job(node, "job", ["sh", "-c", "trap '' TERM; while :; do sleep .1; done"], RESTARTS) for node in "ab"}
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 20)
        time.sleep(3)  # an agent that has just begun takes its time
        os.kill(runs["a"].application_pid(), signal.SIGKILL)
        says(runs["b"], "is over on this node")
        for member in cluster.members:
            member.process.send_signal(signal.SIGSTOP)
        time.sleep(20)
        for member in cluster.members:
            member.process.send_signal(signal.SIGCONT)
        wait_until("it was restarted", lambda: cluster.allocation("job").restart_choice and cluster.allocation("job").state == RUNNING, 40)
        cluster.debug_check()


def a_job_that_is_preempted_goes_on_when_its_nodes_are_free():
    """Its ckpt-run waits meanwhile; not before the one that came has gone."""
    with site("a", restart_wait="60s", release_check="1ms") as cluster:
        cluster.register("low", [("a", 1, MIB)], restart=AUTO, preemption_class=1)
        heat = [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", "/dev/null"]
        low = cluster.run_job("a", "low", heat)
        wait_until("it runs", lambda: cluster.allocation("low").state == RUNNING, 20)
        complete(cluster, "low")
        cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(
            request_id=uuid.uuid4().hex, preemption_class=5, nodes_needed=1, useful_nodes=["a"]))
        wait_until("it is suspended", lambda: cluster.allocation("low").state == SUSPENDED, 40)
        says(low, "the cluster restarts it")
        time.sleep(1)
        assert cluster.allocation("low").state == SUSPENDED, "it took back what others are to have"
        cluster.register("high", [("a", 1, MIB)], preemption_class=5)
        high = cluster.run_job("a", "high", ["sleep", "1"])
        assert high.process.wait(20) == 0
        wait_until("it runs again", lambda: cluster.allocation("low").state == RUNNING, 20)
        assert low.running()
        cluster.debug_check()


def all_members_down_for_a_while():
    with site("ab") as cluster:
        job = Ranked(cluster, "job", threads(), "ab", restart=AUTO, options=RESTARTS)
        job.computes()
        job.checkpoint()
        for member in cluster.members:
            member.kill()
        for pid in job.runs["a"].applications():
            os.kill(pid, signal.SIGKILL)
        time.sleep(3)
        for member in cluster.members:
            member.start()
        finishes(job)
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([a_rank_that_dies_brings_all_back, a_spare_takes_the_place_of_a_node_that_is_off, a_job_without_progress_ends_with_its_own_status,
                  a_job_of_one_node_comes_back_beyond_its_restarts_in_place,
                  a_part_that_has_finished_begins_again_with_one_that_failed, a_node_that_failed_twice_gives_way_to_a_spare,
                  the_sites_command_hears_of_each_restart, who_waits_in_vain_says_so_and_ends, who_is_told_to_end_does_not_start_again,
                  who_cannot_begin_again_leaves_with_the_first_cause, what_is_over_is_said_once,
                  nobody_leads_when_the_run_has_ended, a_job_that_is_preempted_goes_on_when_its_nodes_are_free, all_members_down_for_a_while]))
