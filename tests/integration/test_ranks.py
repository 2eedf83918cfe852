#!/usr/bin/python3
"""Jobs of several ranks on a node, which a launcher numbers: a checkpoint has the part of each of them, of one step, or there is none. S3-001, S3-041."""
import os
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import rounds  # noqa: E402
from cgroups import in_both_ways, site  # noqa: E402
from cluster import ROOT, Cluster, broker_pb2, checkpoint_text, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, RUNNING, TIMED_OUT, all_run, ends_in, hint, no_litter  # noqa: E402

# One rank. It counts steps; MODE is what rank 1 does otherwise.
RANK = r"""
import os, signal, sys, time
mode, work, rank = sys.argv[1], os.environ["CKPT_DIR"], int(os.environ["RANK"])
odd = rank % 2 == 1
asked = []
signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(1))
signal.signal(signal.SIGTERM, lambda number, frame: (open("%s/told.%d" % (work, rank), "w"), os._exit(0)))
count = open("%s/count.%d" % (work, rank), "a", buffering=1)
while True:
    time.sleep(0.02)
    count.write("x")
    count.flush()
    if not asked:
        continue
    asked.clear()
    try:
        fields = dict(line.strip().split("=", 1) for line in open(work + "/request"))
    except FileNotFoundError: # withdrawn before the handler ran
        continue
    if odd and mode == "dies":
        os._exit(3)
    if odd and mode == "silent":
        continue
    if odd and mode in ("slow", "refuses-late"):
        time.sleep(1.5)
    with open("%s/%d.state" % (fields["directory"], rank), "w") as file:
        file.write("state %d %s\n" % (rank, fields["ranks"]))
    label = 127 + (odd and mode == "step")
    status = "no room" if odd and mode.startswith("refuses") else "0"
    if odd and mode == "folder":
        os.mkdir(work + "/done.%d" % rank)
        time.sleep(60)
    name = work + ("/done" if odd and mode == "unnumbered" else "/done.%d" % rank)
    with open(name + ".new", "w") as file:
        file.write("hint=%s\nbytes=%d\nstatus=%s\nstep=%d\n" % (fields["hint"], 4, status, label))
    os.rename(name + ".new", name)
"""
# A wrapper script that catches nothing: the signal would end it.
LAUNCH = r"""
for local in 0 1; do
    RANK=$(($3 + local)) LOCAL_RANK=$local WORLD_SIZE=$4 LOCAL_WORLD_SIZE=2 "$0" -c "$1" "$2" &
done
wait
"""


# One rank that opens the library, loads for longer than one without it would be waited for, and comes to its loop.
LOADS = r"""
import os, sys, time
sys.path.insert(0, sys.argv[1])
import ckptapp
ckpt = ckptapp.open()
time.sleep(9)
step = 0
while True:
    time.sleep(0.01)
    step += 1
    if ckpt.barrier(step):
        with ckpt.saving(step) as folder:
            open(folder + "/state", "w").write("state of %s" % ckpt.rank)
"""


# A program without a number that saves in its handler, beside helpers that it has forked: four workers, and one whose parent has ended.
HELPERS = r"""
import multiprocessing, os, signal, sys, time
mode, work = sys.argv[1], os.environ["CKPT_DIR"]
step, name, helps = 0, "done", False
asks = signal.SIGUSR2 if mode == "second" else signal.SIGUSR1

def save(number, frame):
    open("%s/heard.%d" % (work, os.getpid()), "w").close()
    if mode == "grouped" and helps:
        return
    fields = dict(line.strip().split("=", 1) for line in open(work + "/request"))
    state = "%s/%s.state" % (fields["directory"], name)
    with open("%s.%d" % (state, os.getpid()), "w") as file:
        written = file.write(str(step))
    os.rename("%s.%d" % (state, os.getpid()), state)
    with open("%s/%s.%d.new" % (work, name, os.getpid()), "w") as file:
        file.write("hint=%s\nbytes=%d\nstatus=0\n" % (fields["hint"], written) + ("step=unordered\n" if name != "done" else ""))
    os.rename("%s/%s.%d.new" % (work, name, os.getpid()), "%s/%s" % (work, name))

def helper():
    global helps
    helps = True
    while True:
        time.sleep(1)

def count():
    global step
    while True:
        time.sleep(0.005)
        step += 1
        if step == 1:
            open("%s/counts.%d" % (work, os.getpid()), "w").close()

if mode in ("supervises", "daemons"):
    for rank in 0, 1:
        if os.fork() == 0:
            if mode == "daemons" and (os.setsid() is not None or os.fork() > 0):
                os._exit(0)
            name = "done.%d" % rank
            signal.signal(asks, save)
            count()
        if mode == "daemons":
            os.wait()
    while mode == "daemons":
        time.sleep(1)
    os.wait()
signal.signal(asks, save)
for _ in range(4):
    multiprocessing.get_context("fork").Process(target=helper, daemon=True).start()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        helper()
    os._exit(0)
os.wait()
count()
"""


def ranks(mode, first=0, world=2):
    return ["sh", "-c", LAUNCH, sys.executable, RANK, mode, str(first), str(world)]


def asked(cluster, name, mode, **fields):
    cluster.register(name, [("a", 1, MIB)], **fields)
    cluster.run_job("a", name, ranks(mode), ("--max-restarts", "0"))


def all_ranks_or_no_checkpoint():
    """Two ranks under a wrapper script that is never signalled: `done.RANK` of both, of one step; what one of them does wrong is said with its number."""
    texts = {"step": "rank 0 says 127, rank 1 says 128", "dies": "rank 1 (pid ", "refuses": "rank 1 says status=no room",
             "unnumbered": "`done` names no rank, and the job has ranks 0, 1 on this node: each writes done.RANK",
             "folder": "rank 1: `done.1` in the work folder is no regular file that can be read; remove it",
             "silent": "of 2 ranks on this node these have not said done: 1"}
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name in ("plain", "slow", *texts):
            asked(cluster, name, name, checkpoint_timeout_ms=4000)
        all_run(cluster)
        time.sleep(1)
        ids = {name: hint(cluster, name) for name in ("plain", "slow", *texts)}
        for name in ("plain", "slow"):
            record = ends_in(cluster, name, ids[name], (COMPLETE, FAILED, TIMED_OUT))
            assert record.state == COMPLETE, record
            (folder,) = [path for path in pathlib.Path(record.path).iterdir() if path.is_dir()]
            assert {path.name: path.read_text() for path in folder.glob("*.state")} == \
                {f"{rank}.state": f"state {rank} 0,1\n" for rank in (0, 1)}, record.path
        for name, text in texts.items():
            record = ends_in(cluster, name, ids[name], (COMPLETE, FAILED, TIMED_OUT))
            assert record.state != COMPLETE, record
            assert text in cluster.agents["a"].log.read_text() + record.detail, (name, record)
            assert cluster.allocation(name).state == RUNNING, name
        no_litter(cluster)
        cluster.debug_check()


def who_was_forked_is_not_asked():
    """The signal goes to the program that catches it, below a shell or not, and neither to the helpers that it has forked nor to what would die of it;
    to each child of a supervisor that does not catch it, also when forked twice; with --ask group to the whole group. It is that of the profile that the job is registered
    with, and a ckpt-run that names another one is refused. S1-031, V-005."""
    python, shell = [sys.executable, "-c", HELPERS], "tail -f /dev/null & \"$@\" & wait"
    commands = {"alone": [*python, "alone"], "wrapped": ["sh", "-c", shell, "sh", *python, "wrapped"],
                **{mode: [*python, mode] for mode in ("supervises", "daemons")}, "second": [*python, "second"],
                "grouped": ["sh", "-c", f"trap '' USR1; {shell}", "sh", *python, "grouped"]}
    options = {"supervises": ("--ranks", "2"), "daemons": ("--ranks", "2"), "grouped": ("--ask", "group")}
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        jobs = {}
        for name, command in commands.items():
            cluster.register(name, [("a", 1, MIB)], checkpoint_timeout_ms=10000, profile="signal-usr2" if name == "second" else "")
            if name == "second":
                other = cluster.run_job("a", name, command, ("--profile", "grpc"))
                assert other.process.wait(20) == 125 and "is registered with profile signal-usr2, and ckpt-run says --profile grpc: leave that out" in \
                    other.log.read_text(), other.log.read_text()
            jobs[name] = cluster.run_job("a", name, command, ("--max-restarts", "0", *options.get(name, ())))
        counting = {name: wait_until(f"{name} counts", lambda: (lambda files: files if len(files) == 1 + (name in ("supervises", "daemons")) else None)(
            {int(path.suffix[1:]) for path in pathlib.Path(job.work_dir).glob("counts.*")}), 20) for name, job in jobs.items()}
        for _ in range(3):
            ids = {name: hint(cluster, name) for name in jobs}
            for name, identifier in ids.items():
                record = ends_in(cluster, name, identifier, (COMPLETE, FAILED, TIMED_OUT))
                assert record.state == COMPLETE, record
                states = {path.name: int(path.read_text()) for path in pathlib.Path(record.path).rglob("*.state")}
                assert set(states) == ({"done.0.state", "done.1.state"} if name in ("supervises", "daemons") else {"done.state"}), states
                assert min(states.values()) > 0, (name, states)
        for name, job in jobs.items():
            heard = {int(path.suffix[1:]) for path in pathlib.Path(job.work_dir).glob("heard.*")}
            if name == "grouped":
                assert heard > counting[name] and len(heard) == 5, (heard, counting)
            else:
                assert heard == counting[name], (name, heard, counting)
            assert cluster.allocation(name).state == RUNNING, name
        cluster.debug_check()


TWO = "\"$@\" one & \"$@\" two & wait"


def two_programs_that_nothing_numbers_are_no_checkpoint():
    """A script without a handler starts two programs, each of which saves its own state: `done` of the first would stand for both, and after a restart
    the other one would begin anew beside it. Nothing is asked until --ranks says who speaks: 2 for each, 1 for one that saves for all; `done.RANK` of
    both then. V-008."""
    command = ["sh", "-c", TWO, "sh", sys.executable, "-c", HELPERS]
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        jobs = {}
        for name, options in {"unsaid": (), "all": ("--ranks", "1")}.items():
            cluster.register(name, [("a", 1, MIB)], checkpoint_timeout_ms=10000)
            jobs[name] = cluster.run_job("a", name, command, ("--max-restarts", "0", *options))
        for job in jobs.values():
            wait_until("both count", lambda job=job: len(list(pathlib.Path(job.work_dir).glob("counts.*"))) == 2, 20)
        ids = {name: hint(cluster, name) for name in jobs}
        record = ends_in(cluster, "unsaid", ids["unsaid"], (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == FAILED and "2 processes catch the signal" in record.detail and "--ranks 2" in record.detail, record
        assert not list(pathlib.Path(jobs["unsaid"].work_dir).glob("heard.*")), "it was asked"
        record = ends_in(cluster, "all", ids["all"], (COMPLETE, FAILED, TIMED_OUT))
        for _ in range(4):  # the one that is not waited for may save after the other's `done`, which is refused by name
            if record.state == COMPLETE:
                break
            assert "after the application had said done" in record.detail, record
            record = ends_in(cluster, "all", hint(cluster, "all"), (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == COMPLETE, record
        assert cluster.allocation("unsaid").state == RUNNING
        cluster.debug_check()


# The script saves for programs with numbers of a launcher, which die of the signal that asks: by --ask started it alone gets it.
SAVES_FOR_ALL = r"""
save() { . "$CKPT_DIR/request"; cp "$CKPT_DIR"/state.? "$directory"
    printf 'hint=%s\nbytes=%s\nstatus=0\n' "$hint" $(cat "$directory"/state.? | wc -c) > "$CKPT_DIR/new"; mv "$CKPT_DIR/new" "$CKPT_DIR/@"; }
trap save USR1
for rank in 0 1; do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 sh -c 'while :; do echo counts > "$CKPT_DIR/state.$1"; sleep .1; done' sh $rank &
done
while :; do wait; done
"""


def a_script_saves_for_ranks_that_know_nothing():
    """The process that ckpt-run started is asked and no other, whoever numbers what it has started; --ranks 1 lets it write done.0. Without --ask started
    the ranks are asked, and none catches the signal. V-005, S1-031."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name, options, done in (("started", ("--ask", "started"), "done"), ("numbered", ("--ask", "started", "--ranks", "1"), "done.0"), ("each", (), "done")):
            cluster.register(name, [("a", 1, MIB)], checkpoint_timeout_ms=10000)
            job = cluster.run_job("a", name, ["bash", "-c", SAVES_FOR_ALL.replace("@", done)], ("--max-restarts", "0", *options))
            wait_until("both count", lambda job=job: len(list(pathlib.Path(job.work_dir).glob("state.*"))) == 2, 20)
            record = ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED, TIMED_OUT))
            if name == "each":
                assert record.state == FAILED and "does not catch signal" in record.detail, record
            else:
                assert record.state == COMPLETE, record
                assert {path.name for path in pathlib.Path(record.path).rglob("state.*")} == {"state.0", "state.1"}, record
            assert cluster.allocation(name).state == RUNNING, name
        cluster.debug_check()


# As OpenMPI's helper of a program that was started without mpirun: it has a launcher's name, catches the signal, and ends with its program.
HELPER = r"""#!/bin/sh
trap : USR1; while kill -0 $PPID; do sleep .2; done
"""
SINGLETON = r"""
import os, signal, sys, time
work, asked = os.environ["CKPT_DIR"], []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
if os.fork() == 0:
    os.setsid()
    os.execv(sys.argv[1], ["orted", "--hnp", "--set-sid", "--report-uri", "8", "--singleton-died-pipe", "9"])
open(work + "/counts", "w").close()
while True:
    time.sleep(.05)
    if asked:
        asked.clear()
        fields = dict(line.strip().split("=", 1) for line in open(work + "/request"))
        open(fields["directory"] + "/state", "w").write("state")
        open(work + "/new", "w").write("hint=%s\nbytes=5\nstatus=0\n" % fields["hint"])
        os.rename(work + "/new", work + "/done")
"""


def an_mpi_program_without_mpirun_is_one_rank():
    """OpenMPI starts `orted` below it, which is no launcher whose ranks are waited for. V-005, S4-002."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        helper = cluster.dir / "orted"
        helper.write_text(HELPER)
        helper.chmod(0o755)
        cluster.register("alone", [("a", 1, MIB)], checkpoint_timeout_ms=10000)
        job = cluster.run_job("a", "alone", [sys.executable, "-c", SINGLETON, str(helper)], ("--max-restarts", "0"))
        wait_until("it counts", (pathlib.Path(job.work_dir) / "counts").exists, 20)
        record = ends_in(cluster, "alone", hint(cluster, "alone"), (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == COMPLETE, record
        cluster.debug_check()


def six_rounds_of_faults():
    """What a seed draws; make systems has two hundred."""
    seed = int(os.environ.get("SEED", time.time_ns() % 10**6))
    print(f"# SEED={seed}", flush=True)
    rounds.run(seed, 6)


def job_of_two_nodes(cluster, name, mode, by="signals"):
    """Ranks 0 and 1 on a, 2 and 3 on b, of which rank 3 does what the mode says. (checkpoint, what the ranks of a count, of a's work folder)"""
    cluster.register(name, [("a", 1, MIB), ("b", 1, MIB)], checkpoint_timeout_ms=20000)
    jobs = [cluster.run_job("a", name, ranks("plain", 0, 4)), cluster.run_job("b", name, ranks(mode, 2, 4))]
    wait_until(f"all of {name} count", lambda: all((job.work_dir / f"count.{rank}").exists()
                                                  for job, rank in zip(jobs, (1, 3))), 20)
    wait_until(f"{name} runs", lambda: cluster.allocation(name).state == RUNNING, 20)
    work = jobs[0].work_dir
    identifier = cluster.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
        request_id=name, allocation_id=name, after=common_pb2.AFTER_CHECKPOINT_KILL)).checkpoint_id
    wait_until(f"{name} stands still on a", lambda: f"event=frozen allocation={name} whole=1 by={by}" in cluster.agents["a"].log.read_text(), 20)
    return identifier, lambda: sum((work / f"count.{rank}").stat().st_size for rank in (0, 1)), work


def nothing_is_computed_after_the_last_rank_was_done(by, parent):
    """Who is to end with its checkpoint stands still while another node still writes, and is killed as it stands, also when its agent dies
    meanwhile, also when no leader is there, which its output says; when that one refuses it goes on, and when its agent comes back without its
    journal."""
    with site(parent, "ab", policy=POLICY) as cluster:
        identifier, counted, work = job_of_two_nodes(cluster, "ends", "slow", by)
        before = counted()
        record = ends_in(cluster, "ends", identifier, (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == COMPLETE, record
        wait_until("it has ended", lambda: cluster.allocation("ends").state == common_pb2.ALLOCATION_STATE_COMPLETED, 20)
        assert counted() == before and not list(work.glob("told.*")), (before, counted())
        identifier, counted, work = job_of_two_nodes(cluster, "outlasts", "slow", by)
        before = counted()
        cluster.agents["a"].kill()
        cluster.agents["a"].start()
        record = ends_in(cluster, "outlasts", identifier, (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == COMPLETE, record
        wait_until("it has ended", lambda: cluster.allocation("outlasts").state == common_pb2.ALLOCATION_STATE_COMPLETED, 20)
        assert counted() == before and not list(work.glob("told.*")), (before, counted())
        identifier, counted, work = job_of_two_nodes(cluster, "waits", "slow", by)
        before = counted()
        cluster.members[0].kill()
        output = cluster.dir / "job-waits.a.log"
        wait_until("its output says why nothing happens", lambda: re.search(
            rf"stands still until checkpoint {checkpoint_text(identifier)} is committed and it is ended \(no leader answers for [1-9][0-9]* s\)",
            output.read_text()), 20)
        assert counted() == before
        cluster.members[0].start()
        record = ends_in(cluster, "waits", identifier, (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == COMPLETE and counted() == before, record
        identifier, counted, work = job_of_two_nodes(cluster, "goes-on", "refuses-late", by)
        record = ends_in(cluster, "goes-on", identifier, (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == FAILED and record.reason == common_pb2.REASON_APPLICATION_REFUSED, record
        before = counted()
        wait_until("it goes on", lambda: counted() > before + 20, 10)
        assert cluster.allocation("goes-on").state == RUNNING
        _, counted, _ = job_of_two_nodes(cluster, "forgotten", "slow", by)
        cluster.agents["a"].kill()
        before = counted()
        shutil.rmtree(cluster.agents["a"].state_dir)
        cluster.agents["a"].start()
        wait_until("it goes on without the journal", lambda: counted() > before + 20, 10)


def a_rank_that_died_before_is_missed():
    """Its node cannot know of it, since its launcher tells no count of the node; what it tells of all nodes is compared with the parts."""
    launch = 'for rank in $3; do RANK=$rank WORLD_SIZE=4 "$0" -c "$1" "$2" & done; wait'
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        for name, rest, state in (("whole", "2 3", COMPLETE), ("short", "2", FAILED)):
            cluster.register(name, [("a", 1, MIB), ("b", 1, MIB)], checkpoint_timeout_ms=20000)
            for node, numbers in (("a", "0 1"), ("b", rest)):
                cluster.run_job(node, name, ["sh", "-c", launch, sys.executable, RANK, "plain", numbers])
            wait_until(f"{name} runs", lambda name=name: cluster.allocation(name).state == RUNNING, 20)
            record = ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED, TIMED_OUT))
            assert record.state == state, record
        assert record.detail == "3 of 4 ranks said so: rank 3 is in no part", record
        assert cluster.allocation("short").state == RUNNING
        cluster.debug_check()


def declared_ranks_are_all_waited_for():
    """ckpt-run --ranks 2 on two nodes, where nothing numbers the ranks: each part has both. One that is dead has no number to be missed by before
    the time is over, and then the attempt fails and names it."""
    launch = 'trap "" USR1; for rank in 0 1; do RANK=$rank "$0" -c "$1" "$2" & done; wait'
    with Cluster(members=1, agents=("a", "b"), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        for name, mode in (("whole", "plain"), ("slow", "slow"), ("short", "dies")):
            cluster.register(name, [("a", 1, MIB), ("b", 1, MIB)], checkpoint_timeout_ms=5000)
            jobs = [cluster.run_job(node, name, ["sh", "-c", launch, sys.executable, RANK, mode if node == "b" else "plain"], ("--ranks", "2"))
                    for node in "ab"]
            wait_until(f"all of {name} count", lambda jobs=jobs: all((job.work_dir / f"count.{rank}").exists() for job in jobs for rank in (0, 1)), 20)
            wait_until(f"{name} runs", lambda name=name: cluster.allocation(name).state == RUNNING, 20)
        ids, asked_at = {name: hint(cluster, name) for name in ("whole", "slow", "short")}, time.monotonic()
        for name in ("whole", "slow"):
            record = ends_in(cluster, name, ids[name], (COMPLETE, FAILED, TIMED_OUT))
            assert record.state == COMPLETE and record.label == "127" and [shard.ranks for shard in record.shards] == [2, 2], record
            assert {path.parent.name + "/" + path.name for path in pathlib.Path(record.path).glob("part-*/*.state")} == \
                {f"part-000{part}/{rank}.state" for part in (0, 1) for rank in (0, 1)}, record.path
        record = ends_in(cluster, "short", ids["short"], (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == TIMED_OUT and record.detail == "of 2 ranks on this node these have not said done: 1", record
        assert 4 < time.monotonic() - asked_at < 15, "in its time, and not before"
        assert cluster.allocation("short").state == RUNNING
        no_litter(cluster)
        cluster.debug_check()


def who_has_opened_the_library_is_waited_for_until_its_first_step():
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("loads", [("a", 1, MIB)], checkpoint_timeout_ms=60000)
        cluster.run_job("a", "loads", ["sh", "-c", LAUNCH, sys.executable, LOADS, str(ROOT / "python"), "0", "2"])
        all_run(cluster)
        record = ends_in(cluster, "loads", hint(cluster, "loads"), (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == COMPLETE, record
        assert sorted(path.read_text() for path in pathlib.Path(record.path).rglob("state")) == ["state of 0", "state of 1"], record.path


def agent_dies_in_stillness(cluster, name, by):
    """Of a job whose part of node a is told as verified, and which stands still for it. What its ranks of a count then, its work folder."""
    identifier, counted, work = job_of_two_nodes(cluster, name, "refuses-late", by)
    log = cluster.agents["a"].log
    wait_until(f"{name} is told as verified on a", lambda: re.search(rf"event=attempt allocation={name} .*to=STILL", log.read_text()), 20)
    cluster.agents["a"].kill()
    return identifier, counted, work


def what_failed_while_its_agent_was_away_goes_on(by, parent):
    """The first orders say that the attempt is over: what stood still for it goes on. Without a leader it stands still, which its output says."""
    with site(parent, "ab", policy=POLICY) as cluster:
        identifier, counted, work = agent_dies_in_stillness(cluster, "away", by)
        record = ends_in(cluster, "away", identifier, (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == FAILED, record
        before = counted()
        time.sleep(1)
        assert counted() == before
        cluster.agents["a"].start()
        wait_until("it goes on", lambda: counted() > before + 20, 10)
        assert cluster.allocation("away").state == RUNNING and not list(work.glob("told.*"))
        identifier, counted, work = agent_dies_in_stillness(cluster, "alone", by)
        before = counted()
        cluster.members[0].kill()
        cluster.agents["a"].start()
        output = cluster.dir / "job-alone.a.log"
        wait_until("its output says why nothing happens",
                   lambda: f"stands still until checkpoint {checkpoint_text(identifier)} is committed" in output.read_text(), 30)
        assert counted() == before
        cluster.members[0].start()
        wait_until("it goes on", lambda: counted() > before + 20, 20)
        record = ends_in(cluster, "alone", identifier, (COMPLETE, FAILED, TIMED_OUT))
        assert record.state == FAILED and cluster.allocation("alone").state == RUNNING and not list(work.glob("told.*")), record


if __name__ == "__main__":
    sys.exit(tap([all_ranks_or_no_checkpoint, who_was_forked_is_not_asked, two_programs_that_nothing_numbers_are_no_checkpoint,
                  a_rank_that_died_before_is_missed, declared_ranks_are_all_waited_for,
                  who_has_opened_the_library_is_waited_for_until_its_first_step,
                  *in_both_ways(nothing_is_computed_after_the_last_rank_was_done),
                  *in_both_ways(what_failed_while_its_agent_was_away_goes_on), a_script_saves_for_ranks_that_know_nothing,
                  an_mpi_program_without_mpirun_is_one_rank, six_rounds_of_faults]))
