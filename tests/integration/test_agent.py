#!/usr/bin/python3
"""The data path with real brokers, agents, applications and destinations: what an application answers, what becomes of a job of several
nodes, of a dead agent. I22, I24, I27, I28, I34, P-040, decision 5."""
import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, application_of, broker_pb2, checkpoint_text, common_pb2, grpc, own_name, tail, tap, wait_until  # noqa: E402
from jobs import (COMPLETE, COMPLETED, ENDED_FAILED, FAILED, MIB, POLICY, REQUEUED, RUNNING, STARTING, SUSPENDED, TIMED_OUT, WRITING, all_run,  # noqa: E402
                  allocation_in, checkpoint, complete, ends, ends_in, heat, hint, no_litter, restart, restart_point, says)
from ckpt.v1 import app_pb2, app_pb2_grpc  # noqa: E402

# An application that answers in a way of its own: argv[1] names it.
ODD = r"""
import os, signal, sys, time
mode, work = sys.argv[1], os.environ["CKPT_DIR"]
asked = []
def say(text):
    with open(work + "/done.new", "w") as file:
        file.write(text)
    os.rename(work + "/done.new", work + "/done")
def on_ask(number, frame):
    if mode == "dies":
        os._exit(3)
    asked.append(1)
signal.signal(signal.SIGUSR1, on_ask)
if mode == "slow": # to write, and to end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    time.sleep(0.02)
    if not asked:
        continue
    asked.clear()
    try:
        fields = dict(line.strip().split("=", 1) for line in open(work + "/request"))
    except FileNotFoundError: # withdrawn before the handler ran
        continue
    if mode == "stale":
        say("hint=1-999-1\nbytes=5\nstatus=0\n")
        time.sleep(0.6)
        say("hint=%s\nbytes=" % fields["hint"])
        time.sleep(0.6)
    folder = fields["directory"] + ("/d" * 20 if mode == "deep" else "")
    os.makedirs(folder, exist_ok=True)
    if mode == "slow":
        time.sleep(float(sys.argv[2]))
    while mode == "late" and not os.path.exists(work + "/enough"): # it writes for as long as the test says
        with open(folder + "/more", "a") as file:
            file.write("more")
        time.sleep(0.1)
    with open(folder + "/state", "w") as file:
        file.write("state %s\n" % fields["hint"])
    if mode in ("lacks", "empty"):
        say("hint=%s\nbytes=9\n" % fields["hint"] if mode == "lacks" else "")
        continue
    say("hint=%s\nbytes=%d\nstatus=0\n" % (fields["hint"], 5000 if mode == "short" else -5 if mode == "wrong" else 9))
"""


def odd(mode):
    return [sys.executable, "-c", ODD, mode]


def what_applications_answer():
    """S1-031, S1-032, P-040, I34: late, too late, dead, empty, refusing, stale and incomplete answers, twelve jobs on one node."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        jobs = {"late": odd("late"), "toolate": heat(cluster, "toolate", "--slow-ms", "9000"),
                "empty": heat(cluster, "empty", "--empty"), "refuses": heat(cluster, "refuses", "--fail-status", "5"),
                "dies": odd("dies"), "stale": odd("stale"), "short": odd("short"), "deep": odd("deep"),
                **{f"plain{i}": heat(cluster, f"plain{i}") for i in range(4)}}
        for name, command in jobs.items():
            cluster.register(name, [("a", 1, MIB)], checkpoint_timeout_ms=8000 if name == "late" else 2000)
            cluster.run_job("a", name, command, ("--max-restarts", "0"))
        all_run(cluster)
        ids = {name: hint(cluster, name) for name in jobs}
        wait_until("late is extended", lambda: checkpoint(cluster, "late", ids["late"]).extended, 20, 0.02)
        (cluster.dir / "work" / "late.a" / "enough").touch()
        assert ends_in(cluster, "late", ids["late"], (COMPLETE, FAILED, TIMED_OUT)).state == COMPLETE
        for name in ("stale", "deep", "plain0", "plain1", "plain2", "plain3"):
            assert ends_in(cluster, name, ids[name], (COMPLETE, FAILED, TIMED_OUT)).state == COMPLETE, name
        stale = checkpoint(cluster, "stale", ids["stale"])
        folder = pathlib.Path(stale.path) / "part-0000"
        assert (folder / "state").read_text() == f"state {checkpoint_text(ids['stale'])}-1\n"
        record = ends_in(cluster, "toolate", ids["toolate"], (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == TIMED_OUT and record.attempt == 1, record
        assert ends_in(cluster, "empty", ids["empty"], (COMPLETE, FAILED)).reason == common_pb2.REASON_EMPTY_CHECKPOINT
        assert ends_in(cluster, "refuses", ids["refuses"], (COMPLETE, FAILED)).reason == common_pb2.REASON_APPLICATION_REFUSED
        record = ends_in(cluster, "short", ids["short"], (COMPLETE, FAILED))
        assert record.state == FAILED and record.attempt == 2 and restart_point(cluster, "short").checkpoint_id == 0, record
        assert allocation_in(cluster, "dies", ENDED_FAILED).reason == common_pb2.REASON_APPLICATION_EXITED
        log = cluster.agents["a"].log.read_text()
        assert log.count("kind=REPORT_KIND_RESPONSIVE") == 2, "late and toolate ask for the one extension, once"
        for name in ("late", "toolate", "empty", "refuses", "plain0"):
            assert cluster.allocation(name).state == RUNNING, name
        no_litter(cluster)
        cluster.debug_check()


def an_answer_that_can_never_be_right_fails_at_once_with_its_text():
    """A `done` with a wrong line, and one that lacks a line or all and stays so: long before the timeout."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name in ("wrong", "lacks", "empty"):
            cluster.register(name, [("a", 1, MIB)], checkpoint_timeout_ms=60000)
            cluster.run_job("a", name, odd(name))
        all_run(cluster)
        ids = {name: hint(cluster, name) for name in ("wrong", "lacks", "empty")}
        for name, text in (("wrong", "'bytes=-5' in `done` must be a whole number of bytes"), ("lacks", "`done` lacks the line status="),
                           ("empty", "`done` lacks the line hint=")):
            record = ends_in(cluster, name, ids[name], (COMPLETE, FAILED), 10)
            assert record.state == FAILED and record.reason == common_pb2.REASON_APPLICATION_REFUSED, record
            assert text in cluster.agents["a"].log.read_text()
            assert cluster.allocation(name).state == RUNNING


UNFIT = r"""
set -e; n=0
save() { n=$((n + 1)); . "$CKPT_DIR/request"; echo $n >> "$CKPT_DIR/asked"; echo state > "$directory/state"; %s
    printf 'hint=%%s\nbytes=6\nstatus=0\n' $hint > "$CKPT_DIR/new"; mv "$CKPT_DIR/new" "$CKPT_DIR/done"; }
trap save USR1; while :; do sleep .5; done
"""


def what_can_never_be_taken_is_asked_for_once():
    """A FIFO, a link out of the folder and the name of the manifest: refused by name with the first attempt, although three are allowed, and nothing is
    left at the destination. What fits is taken from the same program. V-017."""
    unfit = {"fifo": ('mkfifo "$directory/odd"', "is a FIFO"), "out": ('ln -s /etc/passwd "$directory/odd"', "odd"),
             "manifest": ('echo x > "$directory/MANIFEST"', "own manifest"), "fits": ('ln -s state "$directory/last"', "")}
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 3}) as cluster:
        cluster.start()
        jobs = {}
        for name, (line, _) in unfit.items():
            cluster.register(name, [("a", 1, MIB)])
            jobs[name] = cluster.run_job("a", name, ["bash", "-c", UNFIT % line])
        all_run(cluster)
        ids = {name: hint(cluster, name) for name in unfit}
        for name, (_, text) in unfit.items():
            record = ends_in(cluster, name, ids[name], (COMPLETE, FAILED), 20)
            assert (jobs[name].work_dir / "asked").read_text() == "1\n", (name, record)
            assert cluster.allocation(name).state == RUNNING, name
            if name == "fits":
                assert record.state == COMPLETE, record
                continue
            assert record.state == FAILED and record.reason == common_pb2.REASON_APPLICATION_REFUSED and record.attempt == 1, record
            assert text in record.detail, record
            wait_until("it is told", lambda name=name, text=text: text in jobs[name].log.read_text(), 10)
        no_litter(cluster)


def the_script_for_users_is_saved_and_goes_on():
    """As deploy/JOBS.md has it, whatever its work folder is called; a child of the shell does not keep it from being asked."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "JOBS.md").read_text()
    [script] = [block for block in page.split("```\n") if block.startswith("n=0; ")]
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        path = cluster.dir / "count.sh"
        path.write_text(script.replace("sleep 1", "sleep 0.1"))
        cluster.register("counts", [("a", 1, MIB)])
        job = cluster.run_job("a", "counts", ["bash", str(path)], ("--work-dir", f"{cluster.dir}/ann's data; $(touch here)"))
        all_run(cluster)
        record = ends_in(cluster, "counts", hint(cluster, "counts"), (COMPLETE, FAILED), 10)
        assert record.state == COMPLETE, record
        [saved] = [int(file.read_text()) for file in pathlib.Path(record.path).glob("part-*/n")]
        before = job.application_pid()
        os.kill(before, signal.SIGKILL)
        wait_until("it is started again", lambda: job.application_pid() not in (None, before), 15)
        all_run(cluster)
        record = ends_in(cluster, "counts", hint(cluster, "counts"), (COMPLETE, FAILED), 10)
        assert record.state == COMPLETE, record
        [again] = [int(file.read_text()) for file in pathlib.Path(record.path).glob("part-*/n")]
        assert again >= saved, (again, saved)


def what_an_application_leaves_behind_is_killed():
    """I30: a process that goes on after it, in its group or in a session of its own, without its ckpt-run, neither outlives the report of
    its end nor the next start."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name, status, how in (("crashes", 3, ""), ("finishes", 0, ""), ("leaves", 3, "setsid")):
            cluster.register(name, [("a", 1, MIB)])
            mark = cluster.dir / f"{name}.mark"
            behind = f"trap '' TERM; while :; do echo > {mark}; sleep 0.1; done"
            cluster.run_job("a", name, ["sh", "-c", f"{how} sh -c \"{behind}\" & sleep 1; exit {status}"], ("--max-restarts", "0"))
            wait_until("it writes", mark.exists, 10)
        allocation_in(cluster, "crashes", ENDED_FAILED)
        allocation_in(cluster, "leaves", ENDED_FAILED)
        allocation_in(cluster, "finishes", common_pb2.ALLOCATION_STATE_COMPLETED)
        for name in ("crashes", "finishes", "leaves"):
            left = subprocess.run(["pgrep", "-f", str(cluster.dir / f"{name}.mark")], capture_output=True, text=True).stdout.split()
            left = [pid for pid in left if "trap" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
            assert not left, f"{name}: {left}"


def a_job_of_several_nodes_stays_of_one_piece():
    """All shards or no checkpoint (I27); a rank that dies stops the others; all restart from the same checkpoint, also when a shard is damaged."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY, copies=False) as cluster:
        cluster.start()
        nodes = [("a", 1, MIB), ("b", 1, MIB)]
        for name in ("half", "pair"):
            cluster.register(name, nodes, grace_ms=500)
        half = [cluster.run_job("a", "half", heat(cluster, "half.a")), cluster.run_job("b", "half", heat(cluster, "half.b", "--fail-status", "5"))]
        pair = [cluster.run_job(node, "pair", heat(cluster, f"pair.{node}")) for node in "ab"]
        all_run(cluster)
        half_id = hint(cluster, "half")
        first = complete(cluster, "pair").checkpoint_id
        second = complete(cluster, "pair")
        record = ends_in(cluster, "half", half_id, (COMPLETE, FAILED))
        assert record.state == FAILED and restart_point(cluster, "half").checkpoint_id == 0, record
        assert all(j.application_pid() for j in half), "a failed checkpoint must not stop the job"

        os.kill(pair[1].application_pid(), signal.SIGKILL)  # one rank
        allocation = allocation_in(cluster, "pair", ENDED_FAILED)
        assert allocation.reason == common_pb2.REASON_APPLICATION_EXITED, allocation
        for job in pair:
            ends(job)
        shard = pathlib.Path(second.path) / "part-0001" / "grid.bin"
        shard.write_bytes(b"tampered" + shard.read_bytes()[8:])
        restart(cluster, "pair")
        again = [cluster.run_job(node, "pair", heat(cluster, f"pair.{node}")) for node in "ab"]
        for job in again:
            says(job, f"from checkpoint {job.work_dir}/restore/{checkpoint_text(first)}")
        # the part on a says so only where it had heard of the damaged one before b found the damage
        says(again[1], f"checkpoint {checkpoint_text(second.checkpoint_id)} is passed over")
        all_run(cluster)
        third = complete(cluster, "pair").checkpoint_id
        assert restart_point(cluster, "pair").checkpoint_id == third
        no_litter(cluster)
        cluster.debug_check()


def a_shard_of_one_node_does_not_start_on_two():
    """S1-080, S3-049: a job of one node is to restart on two: refused with both numbers (I27), or taken from scratch when that is said."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("grows", [("a", 1, MIB)], grace_ms=500)
        alone = cluster.run_job("a", "grows", heat(cluster, "grows.a"))
        all_run(cluster)
        point = complete(cluster, "grows").checkpoint_id
        stop = lambda: cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(
            request_id=uuid.uuid4().hex, allocation_id="grows", failed=True))
        stop()
        ends(alone)
        allocation_in(cluster, "grows", ENDED_FAILED)
        try:
            restart(cluster, "grows", "ab")
            raise AssertionError("two nodes began from one shard")
        except grpc.RpcError as error:
            assert "2 nodes are named, and its last checkpoint has 1 parts" in error.details(), error
        refused = cluster.ctl("restart", "grows", "--node", "a:1,b:1", check=False)
        assert refused.returncode == 4 and "PARTS_DIFFER" in refused.stderr and "--from-scratch" in refused.stderr, refused.stderr
        cluster.ctl("restart", "grows", "--node", "a:1,b:1", "--from-scratch")
        assert restart_point(cluster, "grows").checkpoint_id == 0
        stop()
        restart(cluster, "grows", "a")
        first = cluster.run_job("a", "grows", heat(cluster, "grows.a"))
        says(first, f"restore/{checkpoint_text(point)}")


def a_lost_node_comes_back_and_its_old_application_is_stopped():
    """F-006, F-007: requeued, started elsewhere; the copy on the node that comes back must not run beside it."""
    policy = {**POLICY, "node_degraded_after": "600ms", "node_down_after": "1500ms"}
    with Cluster(members=1, agents=("a", "b"), policy=policy, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("moves", [("a", 1, MIB)], grace_ms=500)
        cluster.register("stays", [("b", 1, MIB)], grace_ms=500)
        cluster.register("cancelled", [("b", 1, MIB)], grace_ms=500)
        old = cluster.run_job("a", "moves", heat(cluster, "moves"))
        stays = cluster.run_job("b", "stays", heat(cluster, "stays"))
        cancelled = cluster.run_job("b", "cancelled", heat(cluster, "cancelled"))
        all_run(cluster)
        point = complete(cluster, "moves").checkpoint_id
        pid = old.application_pid()
        cluster.agents["a"].kill()
        assert allocation_in(cluster, "moves", REQUEUED, ENDED_FAILED).state == REQUEUED
        assert pathlib.Path(f"/proc/{pid}").exists()
        try:
            restart(cluster, "moves")
            raise AssertionError("restarted where its old application may still run")
        except grpc.RpcError as error:
            assert "NODE_DOWN" in error.details(), error
        silent = cluster.ctl("restart", "moves", "--node", "b:1", check=False)
        assert silent.returncode == 4 and "NODE_SILENT" in silent.stderr and "ckptctl node down NODE --is-off" in silent.stderr, silent
        shown = cluster.ctl("job", "moves").stdout
        assert " node a of its last run has been silent since " in shown and "ckptctl node down a --is-off" in shown, shown
        assert cluster.ctl("node", "down", "a", "--yes", check=False).returncode == 2, "the word has to be said"
        refused = cluster.ctl("node", "down", "b", "--is-off", "--yes", check=False)
        assert refused.returncode == 4 and "NODE_NOT_DOWN" in refused.stderr, refused
        cluster.ctl("node", "down", "a", "--is-off", "--yes")  # not true: the agent still ends what it finds
        assert "down, off" in cluster.ctl("nodes").stdout and "node off, by the second witness OPERATOR: a" in cluster.ctl("events").stdout
        cluster.ctl("restart", "moves", "--node", "b:1")
        new = cluster.run_job("b", "moves", heat(cluster, "moves"))
        says(new, f"restore/{checkpoint_text(point)}")
        cluster.agents["a"].start()
        ends(old)
        wait_until("the old application is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists(), 10)
        # what the scheduler ended does not go on running either
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="cancelled"))
        ends(cancelled)
        assert new.application_pid() and stays.application_pid()
        assert cluster.allocation("moves").state == RUNNING
        cluster.debug_check()



def what_ran_before_a_restart_is_not_taken_for_what_runs_after():
    """F-016, F-022: ended and started again while the agent was away. What ran there, also without a restore, ends when the agent is
    back, and neither its start nor its end counts for the new run."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("again", [("a", 1, MIB)], grace_ms=500)
        old = cluster.run_job("a", "again", heat(cluster, "again"), ("--from-scratch",))
        all_run(cluster)
        pid = old.application_pid()
        cluster.agents["a"].kill()
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="again", failed=True))
        restart(cluster, "again", from_scratch=True)
        cluster.agents["a"].start()
        wait_until("the old application is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists(), 10)
        says(old, "the allocation is over on this node")
        allocation_in(cluster, "again", RUNNING)  # the same ckpt-run stays, and begins the new run
        assert old.application_pid() not in (None, pid)
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="again"))
        allocation_in(cluster, "again", COMPLETED)
        ends(old)
        cluster.debug_check()


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid):
    wait_until(f"pid {pid} is gone", lambda: not alive(pid), 15)


def loses_its_journal(agent):
    agent.kill()
    shutil.rmtree(agent.state_dir)


def what_a_run_left_in_its_work_folder_is_swept():
    """The next one begins beside nothing of it in out/ and restore/; what else is there is the application's own."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("swept", [("a", 1, MIB)], grace_ms=500)
        job = cluster.run_job("a", "swept", heat(cluster, "swept"))
        all_run(cluster)
        for folder in ("out/1-9-1/deep", "restore/1-9", "own"):
            (job.work_dir / folder).mkdir(parents=True)
            (job.work_dir / folder / "file").write_text("left")
        says(job, "starts at iteration")  # the first time: RUNNING is told before the program has begun
        os.kill(job.application_pid(), signal.SIGKILL)
        says(job, "restart 1 of 3")
        wait_until("it runs again", lambda: job.log.read_text().count("starts at iteration") == 2, 15)
        assert (job.work_dir / "own" / "file").exists()
        assert not list((job.work_dir / "out").glob("*")) and not list((job.work_dir / "restore").glob("*"))


def an_agent_that_lost_its_journal_ends_what_it_is_told_to():
    """I30: also what no ckpt-run tells it of any more; nothing is given back before."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("pair", [("a", 1, MIB), ("b", 1, MIB)], grace_ms=500)
        cluster.register("ended", [("a", 1, MIB)], grace_ms=500)
        jobs = [cluster.run_job("a", "pair", heat(cluster, "pair")), cluster.run_job("a", "ended", heat(cluster, "ended"))]
        other = cluster.run_job("b", "pair", heat(cluster, "pair"))
        all_run(cluster)
        for job in jobs:  # not held any more: that would end with its ckpt-run
            says(job, "starts at iteration")
        pids = [job.application_pid() for job in jobs]
        for job in jobs:
            job.kill()
        loses_its_journal(cluster.agents["a"])
        os.kill(other.application_pid(), signal.SIGKILL)  # all of its parts are to end
        wait_until("the broker hears of it", lambda: "kind=REPORT_KIND_TERMINATED allocation=pair" in cluster.agents["b"].log.read_text(), 10)
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="ended"))
        assert all(alive(pid) for pid in pids)
        cluster.agents["a"].start()
        allocation_in(cluster, "pair", ENDED_FAILED, REQUEUED)
        assert not alive(pids[0]), "given back while it runs"
        gone(pids[1])
        assert cluster.agents["a"].log.read_text().count("event=pretender ") == 2
        cluster.debug_check()


def a_start_whose_report_is_lost_is_found():
    """The broker's folder is from before the start, the agent's journal is gone: nothing reports the start again, but what runs is said."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        member, agent, kept = cluster.members[0], cluster.agents["a"], cluster.dir / "before"
        cluster.register("found", [("a", 1, MIB)])
        member.kill()
        shutil.copytree(member.data_dir, kept)
        member.start()
        cluster.wait_leader()
        job = cluster.run_job("a", "found", heat(cluster, "found"))
        allocation_in(cluster, "found", RUNNING)
        pid = job.application_pid()
        loses_its_journal(agent)
        member.kill()
        shutil.rmtree(member.data_dir)
        kept.rename(member.data_dir)
        member.start()
        cluster.wait_leader()
        assert cluster.allocation("found").state == STARTING
        agent.start()
        allocation_in(cluster, "found", RUNNING)
        assert job.application_pid() == pid and "event=start_found " in member.log.read_text()
        complete(cluster, "found")
        cluster.debug_check()


def what_a_signal_to_ckpt_run_ends_can_be_restarted():
    """I28: an orderly end with status 0 that somebody asked for is no sign of finished work; one without is."""
    orderly = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); open(sys.argv[1], 'w'); time.sleep(60)"
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        mark = cluster.dir / "ready"
        for name in ("told", "done"):
            cluster.register(name, [("a", 1, MIB)])
        done = cluster.run_job("a", "done", ["true"])
        told = cluster.run_job("a", "told", [sys.executable, "-c", orderly, str(mark)])
        wait_until("it can be told", mark.exists, 10)
        os.kill(told.process.pid, signal.SIGTERM)
        assert ends(told) == 0 and ends(done) == 0
        allocation_in(cluster, "done", COMPLETED)
        assert allocation_in(cluster, "told", ENDED_FAILED, COMPLETED).state == ENDED_FAILED
        restart(cluster, "told", from_scratch=True)
        cluster.debug_check()


def a_job_outlives_its_work_folder():
    """A cleaner of temporary files took it while the agent was away: what runs well is attached again, known from the journal or not."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("swept", [("a", 1, MIB)])
        job = cluster.run_job("a", "swept", heat(cluster, "swept"))
        all_run(cluster)
        pid, agent = job.application_pid(), cluster.agents["a"]
        for times, goes in ((1, agent.kill), (2, lambda: loses_its_journal(agent))):
            goes()
            shutil.rmtree(job.work_dir, ignore_errors=True)
            agent.start()
            wait_until("it is attached again", lambda: agent.log.read_text().count(f"event=reattached allocation=swept pid={pid} ") >= times
                       or not job.running(), 15)
            assert job.running() and alive(pid), tail(job.log, 3)
        assert cluster.allocation("swept").state == RUNNING
        cluster.debug_check()


class Refuser(app_pb2_grpc.AppServiceServicer):
    """An agent that takes an application and then has it no more: what it says of one that runs is `refusal`."""

    def __init__(self, refusal):
        self.refusal, self.refused = refusal, 0

    def Attach(self, messages, _context):  # noqa: N802
        if next(messages).hello.running:
            self.refused += 1
            yield app_pb2.AttachDown(ready=self.refusal)
            return
        yield app_pb2.AttachDown(ready=app_pb2.AttachReady(node_id="a"))
        assert next(messages).WhichOneof("body") == "started"
        yield app_pb2.AttachDown(ready=app_pb2.AttachReady(node_id="a"))  # and breaks


def a_refusal_ends_only_a_second_application():
    """I30: what runs well goes on beside an agent that cannot have it, which is asked again; ckpt-run ends with its status."""
    for must_end in (False, True):
        with tempfile.TemporaryDirectory(prefix="ckpt-") as folder:
            agent = Refuser(app_pb2.AttachReady(error="no room", must_end=must_end))
            server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
            app_pb2_grpc.add_AppServiceServicer_to_server(agent, server)
            server.add_insecure_port(f"unix:{folder}/socket")
            server.start()
            result = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "job", "--work-dir", f"{folder}/work", "--socket", f"{folder}/socket", "--",
                                     "sh", "-c", "sleep 7; exit 3"], capture_output=True, text=True, timeout=40)
            server.stop(None).wait()
            assert result.stderr.count("the agent refuses: no room") >= 1, result
            assert result.returncode == (125 if must_end else 3), result
            assert agent.refused == 1 if must_end else agent.refused >= 2, agent.refused


def a_ckpt_run_with_another_application_waits_for_the_end_of_the_known_one():
    """I30: two of an allocation after a lost journal. The end of one is not taken for the other's, which is not left alone either."""
    unseen = ["env", "-u", "CKPT_AGENT_SOCKET"]  # the agent cannot find it by itself
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("twice", [("a", 1, MIB)], grace_ms=500)
        first = cluster.run_job("a", "twice", unseen + heat(cluster, "twice"))
        all_run(cluster)
        first_pid = first.application_pid()
        os.kill(first.process.pid, signal.SIGSTOP)
        loses_its_journal(cluster.agents["a"])
        cluster.agents["a"].start()
        second = cluster.run_job("a", "twice", heat(cluster, "twice"))
        second_pid = wait_until("the second one runs", second.application_pid, 15)
        wait_until("it is known", lambda: f"pid={second_pid} from=ABSENT to=RUNNING" in cluster.agents["a"].log.read_text(), 10)
        os.kill(second.process.pid, signal.SIGSTOP)
        os.kill(second_pid, signal.SIGKILL)
        os.kill(first.process.pid, signal.SIGCONT)
        wait_until("the first one's waits", lambda: "event=attach_parked allocation=twice" in cluster.agents["a"].log.read_text(), 10, 0.02)
        assert alive(first_pid)
        second.kill()  # it would be waited for
        allocation_in(cluster, "twice", ENDED_FAILED, REQUEUED)
        gone(first_pid)
        cluster.debug_check()


def orphans(cluster):
    """Workers of this cluster whose daemon is gone. Those of living daemons are at work: the destination is probed all the time."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    processes = [line.split(None, 2) for line in listed.splitlines()]
    daemons = {pid for pid, _, text in processes if "ckptd" in text or "ckpt-agentd" in text}
    return [text for _, parent, text in processes
            if "ckpt-worker" in text and str(cluster.dir) in text and parent not in daemons]


def killed_agents_lose_and_repeat_nothing():
    """I22, F-009: SIGKILL while the application writes, while the worker copies, just after; both agents; nothing is asked twice."""
    with Cluster(members=1, agents=("a", "b"), policy={**POLICY, "max_attempts": 5}) as cluster:
        cluster.start()
        names = [f"k{i}" for i in range(4)]
        for name in names:
            # a low rate makes the copy take a second, so that kills fall into it
            cluster.register(name, [("a", 1, MIB), ("b", 1, MIB)], grace_ms=500, write_bytes_per_s=60000)
            for node in "ab":
                cluster.run_job(node, name, heat(cluster, f"{name}.{node}", "--slow-ms", "400"))
        all_run(cluster)
        agents = list(cluster.agents.values())
        for round_number in range(4):
            ids = {name: hint(cluster, name) for name in names}
            wait_until("they are asked", lambda: any(checkpoint(cluster, n, i).state == WRITING for n, i in ids.items()), 10)
            moments = [agent.log.read_text().count("from=ASKED to=PUTTING") for agent in agents]
            if round_number % 2:
                wait_until("a worker copies", lambda: any(a.log.read_text().count("from=ASKED to=PUTTING") > m
                                                          for a, m in zip(agents, moments)), 10)
            for agent in agents[:1 + (round_number >= 2)]:
                agent.kill()
            for agent in agents[:1 + (round_number >= 2)]:
                agent.start()
            for name, identifier in ids.items():
                assert ends_in(cluster, name, identifier, (COMPLETE, FAILED, TIMED_OUT)).state == COMPLETE, name
        for agent in agents:
            asked = [line.split("allocation=")[1].split()[0] + line.split("checkpoint=")[1].split(" reason")[0]
                     for line in agent.log.read_text().splitlines() if "kind=REPORT_KIND_STARTED" in line]
            assert len(asked) == len(set(asked)), f"{agent.name} asked twice: {sorted(asked)}"
        no_litter(cluster)
        assert orphans(cluster) == [], "workers of killed agents are left over"
        # killed between the report and the removal of the files
        agents[0].kill()
        litter = cluster.dir / "work" / "k0.a" / "out" / f"{checkpoint_text(ids['k0'])}-{checkpoint(cluster, 'k0', ids['k0']).attempt}"
        litter.mkdir()
        (litter / "grid.bin").write_bytes(b"left over")
        agents[0].start()
        no_litter(cluster)
        cluster.debug_check()



def walltime_and_several_victims():
    """F-012, F-013, S1-091, S1-092, S1-093, I33, P-050, I30: complete in the grace is SUSPENDED, later is FAILED; an extended walltime reaches the
    agent; all victims stop."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY, heartbeat_ms=300) as cluster:
        cluster.start()
        for name, grace_ms, needs_s in (("intime", 2500, "1.5"), ("late", 1000, "6")):
            cluster.register(name, [("a", 1, MIB)], walltime_ms=4000, grace_ms=grace_ms, strategy=common_pb2.STRATEGY_MANUAL)
            cluster.run_job("a", name, [*odd("slow"), needs_s])
        cluster.register("longer", [("a", 1, MIB)], walltime_ms=5000, grace_ms=500, strategy=common_pb2.STRATEGY_MANUAL)
        longer = cluster.run_job("a", "longer", heat(cluster, "longer"))
        for name, nodes in (("v1", "a"), ("v2", "b"), ("v3", "ab")):
            cluster.register(name, [(node, 1, MIB) for node in nodes], preemption_class=1, grace_ms=500)
            for node in nodes:
                cluster.run_job(node, name, heat(cluster, name + node))
        began_ms = next(e.at_ms for e in cluster.events() if e.allocation_id == "longer")
        all_run(cluster)
        cluster.client.broker("UpdateAllocation", broker_pb2.UpdateAllocationRequest(
            request_id=uuid.uuid4().hex, allocation_id="longer", walltime_ms=60000))
        victims = cluster.client.broker("RequestPreemption", broker_pb2.RequestPreemptionRequest(
            request_id=uuid.uuid4().hex, preemption_class=5, nodes_needed=4, candidates=["v1", "v2", "v3"])).victims
        assert [v.allocation_id for v in victims] == ["v1", "v2", "v3"], victims
        wait_until("a moment before the walltime ends", lambda: time.time() * 1000 > began_ms + 3400, 10)
        hint(cluster, "intime")
        late = hint(cluster, "late")
        for name in ("v1", "v2", "v3"):
            assert allocation_in(cluster, name, SUSPENDED, ENDED_FAILED).last_complete_checkpoint_id, name
        assert allocation_in(cluster, "intime", SUSPENDED, ENDED_FAILED).state == SUSPENDED
        assert restart_point(cluster, "intime").checkpoint_id
        allocation = allocation_in(cluster, "late", SUSPENDED, ENDED_FAILED)
        assert allocation.state == ENDED_FAILED and allocation.reason == common_pb2.REASON_WALLTIME_EXCEEDED, allocation
        assert checkpoint(cluster, "late", late).state == FAILED and restart_point(cluster, "late").checkpoint_id == 0
        wait_until("longer's old walltime is over", lambda: time.time() * 1000 > began_ms + 6500, 10)
        assert longer.application_pid() and cluster.allocation("longer").state == RUNNING
        no_litter(cluster)
        cluster.debug_check()



def no_start_in_an_outage_outlives_its_walltime():
    """I33: what begins from scratch while no leader can be asked is one more of the run known here. It ends with that, and is not begun
    when that is over."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        for name in ("passes", "killed"):
            cluster.register(name, [("a", 1, MIB)], walltime_ms=8000, grace_ms=500)
        jobs = {name: cluster.run_job("a", name, heat(cluster, name), ("--max-restarts", "0")) for name in ("passes", "killed")}
        all_run(cluster)
        log = cluster.agents["a"].log
        for name in jobs:
            wait_until(f"the walltime of {name} is known", lambda n=name: f"allocation={n} remaining_ms=" in log.read_text(), 10)
            says(jobs[name], "starts at iteration")
        cluster.members[0].kill()
        os.kill(jobs["passes"].application_pid(), signal.SIGKILL)
        for job in jobs.values():
            ends(job)
        says(jobs["killed"], "the allocation is over on this node: walltime exceeded")
        for how in ("", "of an agent that was started anew"):
            if how:
                cluster.agents["a"].kill()
                cluster.agents["a"].start()
            again = {name: cluster.run_job("a", name, heat(cluster, name), ("--from-scratch",)) for name in jobs}
            if not how:
                says(again["passes"], "the allocation is over on this node: walltime exceeded")
                assert ends(again["passes"]) == 125
            time.sleep(6)  # longer than an answer is waited for
            for name, job in again.items():
                assert job.log.read_text().count("starts at iteration") == 1, f"{name} began again in the outage {how}"
                if job.running():
                    job.kill()
        cluster.members[0].start()
        for name in jobs:
            allocation_in(cluster, name, ENDED_FAILED)
        cluster.debug_check()


def what_was_named_last_starts_in_an_outage():
    """F-005, F-016: the fresh run of a job that the agent has orders for, also one that was started anew; what was never named waits. What was
    restarted meanwhile ends when a leader is back, and nothing of it counts for the new run."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        agent = cluster.agents["a"]
        for name in ("fresh", "again"):
            cluster.register(name, [("a", 1, MIB)], walltime_ms=600000, grace_ms=500)
            wait_until(f"{name} is named", lambda n=name: f"event=walltime allocation={n} " in agent.log.read_text(), 10)
        agent.kill()
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="again", failed=True))
        restart(cluster, "again", from_scratch=True)
        cluster.members[0].kill()
        agent.start()
        fresh = cluster.run_job("a", "fresh", ["true"], ("--from-scratch",))
        again = cluster.run_job("a", "again", heat(cluster, "again"), ("--from-scratch",))
        never = cluster.run_job("a", "never", ["true"], ("--from-scratch",))
        assert ends(fresh) == 0
        pid = wait_until("one of the run before begins", again.application_pid, 15)
        says(never, "no leader of the cluster answers it")
        assert never.running() and not never.application_pid()
        never.kill()
        cluster.members[0].start()
        allocation_in(cluster, "fresh", COMPLETED)
        says(again, "the allocation is over on this node")
        gone(pid)
        allocation_in(cluster, "again", RUNNING)  # the same ckpt-run stays, and begins the new run
        assert again.application_pid() != pid
        cluster.client.broker("EndAllocation", broker_pb2.EndAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="again"))
        allocation_in(cluster, "again", COMPLETED)
        ends(again)
        cluster.debug_check()


def a_walltime_that_is_taken_away_ends_nothing():
    """S1-090: the agent's own timer as well."""
    with Cluster(members=1, agents=("a",), policy=POLICY, heartbeat_ms=200) as cluster:
        cluster.start()
        cluster.register("free", [("a", 1, MIB)], walltime_ms=5000, grace_ms=500)
        job = cluster.run_job("a", "free", heat(cluster, "free"))
        all_run(cluster)
        cluster.ctl("update", "free", "--no-walltime")
        time.sleep(6)
        assert job.application_pid() and cluster.allocation("free").state == RUNNING
        cluster.debug_check()


def wrong_folders_wrong_users_and_damaged_journals_are_refused():
    """Two agents on one folder or socket, the folder of another node, a journal damaged in the middle or torn, a lost folder; jobs of other users."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.let_others_in()
        cluster.start()
        agent = cluster.agents["a"]

        def refused(name, state_dir, socket):
            result = subprocess.run([str(BIN / "ckpt-agentd"), "--config", str(cluster.agent_config), "--name", name, "--state-dir",
                                     str(state_dir), "--socket", str(socket)], capture_output=True, text=True, timeout=10)
            assert result.returncode == 1, result
            return result.stdout + result.stderr
        assert "another process uses this folder" in refused("a", agent.state_dir, cluster.dir / "x.sock")
        assert "another process listens" in refused("z", cluster.dir / "z", agent.socket)
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat(cluster, "job"))
        all_run(cluster)
        complete(cluster, "job")
        pid = job.application_pid()
        agent.kill()
        assert "is the state folder of node a, not of z" in refused("z", agent.state_dir, agent.socket)
        journal = agent.state_dir / "journal"
        whole = journal.read_bytes()
        journal.write_bytes(whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 255]) + whole[len(whole) // 2 + 1:])
        assert "is damaged and valid ones follow" in refused("a", agent.state_dir, agent.socket)
        journal.write_bytes(whole[:-7])
        agent.start()
        complete(cluster, "job")
        agent.kill()
        shutil.rmtree(agent.state_dir)
        agent.start()
        complete(cluster, "job")
        second = cluster.run_job("a", "job", ["sleep", "60"])
        says(second, f"allocation job already runs on this node as pid {pid}")
        assert ends(second) == 125 and job.application_pid() == pid
        if os.geteuid() == 0:
            another_user(cluster, agent)
        cluster.debug_check()


def another_user(cluster, agent):
    """The application, its files and its data workers are the user's, not root's."""
    cluster.register("theirs", [("a", 1, MIB)], owner=own_name(65534))
    work, log = cluster.dir / "theirs", cluster.dir / "theirs.log"
    work.mkdir()
    os.chown(work, 65534, 65534)
    with open(log, "w") as out:
        run = subprocess.Popen(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", str(cluster.bin / "ckpt-run"), "--alloc", "theirs",
                                "--work-dir", str(work), "--socket", str(agent.socket), "--", str(cluster.bin / "heat"), "--size", "64",
                                "--iterations", "100000000", "--delay-us", "2000"], stderr=out)
    try:
        wait_until("their application runs", lambda: "starts at iteration 0" in log.read_text() or run.poll() is not None, 10)
        folder = pathlib.Path(complete(cluster, "theirs").path) / "part-0000"
        assert {path.stat().st_uid for path in [folder, *folder.iterdir()]} == {65534}
        os.kill(application_of(run.pid), signal.SIGKILL)
        wait_until("it is restored", lambda: "from checkpoint" in log.read_text(), 20)
        stranger = cluster.run_job("a", "theirs", ["sleep", "60"])
        says(stranger, "allocation theirs is another user's on this node")
        assert ends(stranger) == 125
    finally:
        run.terminate()
        run.wait()


if __name__ == "__main__":
    sys.exit(tap([what_applications_answer, an_answer_that_can_never_be_right_fails_at_once_with_its_text, what_can_never_be_taken_is_asked_for_once,
                  the_script_for_users_is_saved_and_goes_on, what_an_application_leaves_behind_is_killed, a_job_of_several_nodes_stays_of_one_piece,
                  a_shard_of_one_node_does_not_start_on_two, a_lost_node_comes_back_and_its_old_application_is_stopped,
                  what_ran_before_a_restart_is_not_taken_for_what_runs_after,
                  what_a_run_left_in_its_work_folder_is_swept, an_agent_that_lost_its_journal_ends_what_it_is_told_to, a_start_whose_report_is_lost_is_found,
                  what_a_signal_to_ckpt_run_ends_can_be_restarted, a_refusal_ends_only_a_second_application, a_job_outlives_its_work_folder,
                  a_ckpt_run_with_another_application_waits_for_the_end_of_the_known_one, killed_agents_lose_and_repeat_nothing,
                  walltime_and_several_victims, no_start_in_an_outage_outlives_its_walltime, what_was_named_last_starts_in_an_outage,
                  a_walltime_that_is_taken_away_ends_nothing,
                  wrong_folders_wrong_users_and_damaged_journals_are_refused]))
