#!/usr/bin/python3
"""All that a job has started stands still, hears that it is to end and is gone with it, also what has left its process group, its session and its
environment: by the job's control group where the machine permits one, else as far as that can be found. I30, S3-041."""
import contextlib
import os
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cgroups import in_both_ways, jobs_of, mounted, own_group, site  # noqa: E402
from cluster import Cluster, broker_pb2, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, FAILED, MIB, POLICY, RUNNING, TIMED_OUT, all_run, ends_in  # noqa: E402

# The leader saves at once. What it starts counts: `inside` in its group, `left` in a session of its own, `cleared` without an environment besides,
# `lost` without a parent besides. MODE: how they are with SIGTERM.
JOB = r"""
import os, signal, sys, time
mode, work, names = sys.argv[1], os.environ["CKPT_DIR"], sys.argv[2].split(",")
COUNT = '''
import os, signal, sys, time
mode, work, name = sys.argv[1:]
told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(1))
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
open(work + "/pid." + name, "w").write(str(os.getpid()))
count = open(work + "/count." + name, "a", buffering=1)
while not told or mode == "deaf":
    time.sleep(0.01)
    count.write("x")
    count.flush()
time.sleep(0.6)
open(work + "/saved." + name, "w")
'''
def start(name):
    words = [sys.executable, "-c", COUNT, mode, work, name]
    if os.fork() != 0:
        return
    if name != "inside":
        os.setsid()
    if name == "lost" and os.fork() != 0:
        os._exit(0)
    os.execve(words[0], words, os.environ if name in ("inside", "left") else {})
asked = []
signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(1))
for name in names:
    start(name)
while "lost" in names and os.wait() == 0:
    pass
while not all(os.path.exists(work + "/pid." + name) for name in names):
    time.sleep(0.01)
open(work + "/begun", "w")
while not os.path.exists(work + "/leave"):
    time.sleep(0.02)
    if not asked:
        continue
    asked.clear()
    try:
        fields = dict(line.strip().split("=", 1) for line in open(work + "/request"))
    except FileNotFoundError:
        continue
    open(fields["directory"] + "/state", "w").write("state")
    if mode == "slow":
        time.sleep(2)
    with open(work + "/done.new", "w") as file:
        file.write("hint=%s\nbytes=5\nstatus=0\nstep=unordered\n" % fields["hint"])
    os.rename(work + "/done.new", work + "/done")
"""
ALL, FOUND = ("inside", "left", "cleared", "lost"), ("inside", "left", "cleared")


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Started:
    def __init__(self, cluster, name, mode, names, nodes="a"):
        self.cluster, self.name, self.names = cluster, name, names
        cluster.register(name, [(node, 1, MIB) for node in nodes], checkpoint_timeout_ms=20000, grace_ms=20000)
        self.jobs = [cluster.run_job(node, name, [sys.executable, "-c", JOB, "slow" if node != "a" else mode, ",".join(names)],
                                     ("--max-restarts", "0")) for node in nodes]
        self.work = self.jobs[0].work_dir
        for job in self.jobs:
            wait_until(f"{name} has begun", lambda: (job.work_dir / "begun").exists(), 20)
        wait_until(f"{name} runs", lambda: cluster.allocation(name).state == RUNNING, 20)
        for each in names:
            wait_until(f"{name} has told its pid", lambda: (self.work / f"pid.{each}").read_text() != "", 10)
        self.pids = {each: int((self.work / f"pid.{each}").read_text()) for each in names}
        self.elsewhere = [int((job.work_dir / f"pid.{each}").read_text()) for job in self.jobs[1:] for each in names]

    def counted(self):
        return {each: (self.work / f"count.{each}").stat().st_size for each in self.names}

    def all_count(self):
        before = self.counted()
        wait_until(f"all of {self.name} count", lambda: all(count > before[each] + 5 for each, count in self.counted().items()), 10)

    def all_gone(self):
        wait_until(f"nothing is left of {self.name}: {self.pids}", lambda: not any(map(alive, [*self.pids.values(), *self.elsewhere])), 20)

    def checkpoint_and_kill(self):
        return self.cluster.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
            request_id=self.name, allocation_id=self.name, after=common_pb2.AFTER_CHECKPOINT_KILL)).checkpoint_id


def stands_still_and_dies_whole():
    """Who has left everything that tells of the job computes nothing between `done` and COMPLETE, and does not outlive it; nor is anything left of
    its group, also when its leader ended by itself, and when the agent was killed or has lost its journal meanwhile."""
    with own_group() as (parent, reason):
        if reason:
            return reason
        with site(parent, "ab", policy=POLICY) as cluster:
            job = Started(cluster, "frozen", "deaf", ALL, "ab")
            (group,) = jobs_of(cluster.agents["a"])
            assert group.startswith("frozen.") and set(job.pids.values()) < set(jobs_of(cluster.agents["a"])[group])
            job.all_count()
            identifier = job.checkpoint_and_kill()
            log = cluster.agents["a"].log
            wait_until("it stands still", lambda: "event=frozen allocation=frozen whole=1 by=cgroup processes=0 " in log.read_text(), 20)
            before = job.counted()
            cluster.agents["a"].kill()
            cluster.agents["a"].start()
            assert ends_in(cluster, "frozen", identifier, (COMPLETE, FAILED, TIMED_OUT)).state == COMPLETE
            job.all_gone()
            assert job.counted() == before, (before, job.counted())
            wait_until("its group is removed", lambda: jobs_of(cluster.agents["a"]) == {}, 10)

            job = Started(cluster, "leaves", "deaf", ALL)
            (job.work / "leave").touch()
            job.all_gone()
            wait_until("its group is removed", lambda: jobs_of(cluster.agents["a"]) == {}, 10)

            job = Started(cluster, "ended", "deaf", ALL)
            cluster.agents["a"].kill()
            shutil.rmtree(cluster.agents["a"].state_dir)
            cluster.agents["a"].start()
            wait_until("it is attached again", lambda: "event=reattached allocation=ended" in log.read_text(), 20)
            job.all_count()
            (job.work / "leave").touch()
            job.all_gone()
            wait_until("its group is removed", lambda: jobs_of(cluster.agents["a"]) == {}, 10)


def hears_that_it_is_to_end(by, parent):
    """SIGTERM reaches also who has left the process group, and the grace is theirs too: what they save then is saved."""
    with site(parent, policy=POLICY) as cluster:
        names = FOUND if by == "signals" else ALL
        job = Started(cluster, "told", "saves", names)
        cluster.ctl("end", "told", "--yes")
        job.all_gone()
        assert {path.name for path in job.work.glob("saved.*")} == {f"saved.{each}" for each in names}
        wait_until("it has ended", lambda: cluster.allocation("told").state == COMPLETED, 20)


def who_was_frozen_is_found_when_the_leader_dies(by, parent):
    """A process with a cleared environment does not stay stopped for ever when the leader of the job, its parent, is killed: not beyond the grace."""
    with site(parent, "ab", policy=POLICY) as cluster:
        job = Started(cluster, "orphans", "deaf", FOUND, "ab")
        job.checkpoint_and_kill()
        log = cluster.agents["a"].log
        wait_until("it stands still", lambda: f"event=frozen allocation=orphans whole=1 by={by} " in log.read_text(), 20)
        if by == "signals": # the journal knows them
            cluster.agents["a"].kill()
            os.kill(job.jobs[0].application_pid(), 9)
            cluster.agents["a"].start()
        else:
            os.kill(job.jobs[0].application_pid(), 9)
        job.all_gone()


def without_a_group_a_job_runs_all_the_same():
    """A group that is removed under it, or that it is taken out of: it is frozen and ended by signals, with a line in the log. Where jobs can have none
    they run, also under a key that says auto; a key that names what is no group is refused at the start."""
    with own_group() as (parent, reason):
        if reason:
            return reason
        with site(parent, "ab", policy=POLICY) as cluster:
            job = Started(cluster, "moved", "deaf", FOUND, "ab")
            agent = cluster.agents["a"]
            (group,) = jobs_of(agent)
            for pid in jobs_of(agent)[group]:
                (parent / "cgroup.procs").write_text(str(pid))
            (agent.cgroup / "jobs" / group).rmdir()
            identifier = job.checkpoint_and_kill()
            wait_until("it stands still", lambda: "event=frozen allocation=moved whole=1 by=signals" in agent.log.read_text(), 20)
            before = job.counted()
            assert ends_in(cluster, "moved", identifier, (COMPLETE, FAILED, TIMED_OUT)).state == COMPLETE
            job.all_gone()
            assert job.counted() == before
            assert agent.log.read_text().count("event=no_cgroup allocation=moved") == 1

            os.kill(agent.process.pid, 15)
            agent.process.wait()
            threaded = parent / "threaded"
            threaded.mkdir()
            (threaded / "cgroup.type").write_text("threaded")
            agent.cgroup = threaded
            with contextlib.suppress(RuntimeError):
                agent.start()
            assert "threaded subtree" in agent.log.read_text() and agent.process.wait() == 1
            agent.cgroup = "auto"
            agent.start()
            assert "event=no_cgroups key=auto" in agent.log.read_text()
            job = Started(cluster, "plain", "saves", ("inside", "left"))
            (job.work / "leave").touch()
            job.all_gone()


def leftovers_are_cleaned():
    """Groups that an agent left when it was killed: empty ones are removed when it starts, and what is left of another run of a job is killed when it
    is started again."""
    with own_group() as (parent, reason):
        if reason:
            return reason
        with site(parent, policy=POLICY) as cluster:
            agent = cluster.agents["a"]
            jobs = agent.cgroup / "jobs"
            os.kill(agent.process.pid, 15)
            agent.process.wait()
            (jobs / "gone.1-5" / "below").mkdir(parents=True)
            (jobs / "again.1-2").mkdir()
            left = os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", "60"])
            (jobs / "again.1-2" / "cgroup.procs").write_text(str(left))
            agent.start()
            wait_until("what is empty is removed", lambda: set(jobs_of(agent)) == {"again.1-2"}, 10)
            assert alive(left)
            job = Started(cluster, "again", "saves", ("inside",))
            wait_until("what was left is killed", lambda: not alive(left), 10)
            os.waitpid(left, 0)
            (job.work / "leave").touch()
            job.all_gone()
            agent.kill()
            agent.start()
            wait_until("nothing is left", lambda: jobs_of(agent) == {}, 10)


def a_unit_that_is_delegated_holds_the_agent_and_its_jobs():
    """What the supervisor does for Delegate=yes: a group of the unit's own, marked, in which it starts the agent. The agent moves to a leaf of it, so that
    the group may have controllers; its jobs get theirs, and outlive it: systemd puts the next agent into the same group."""
    with own_group() as (parent, reason):
        if reason:
            return reason
        unit = parent / "ckpt-agentd.service"
        unit.mkdir()
        try:
            os.setxattr(unit, "trusted.delegate", b"1")
        except OSError as error:
            return f"control groups have no extended attributes here: {error.strerror}"
        with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
            agent = cluster.agents["a"]
            agent.cgroup = "auto"

            def started():
                own = next(line for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))[3:]
                (unit / "cgroup.procs").write_text(str(os.getpid()))  # what is started now is born there
                try:
                    agent.start() if cluster.members[0].running() else cluster.start()
                finally:
                    (mounted() / own.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
            cluster.members[0].start()
            started()
            cluster.wait_leader()
            assert f"event=cgroups key=auto jobs={unit}/jobs" in agent.log.read_text(), agent.log.read_text()
            assert str(agent.process.pid) in (unit / "agent" / "cgroup.procs").read_text().split()
            job = Started(cluster, "kept", "saves", ALL)
            agent.kill()
            started()
            wait_until("the next agent has its place", lambda: agent.log.read_text().count(f"event=cgroups key=auto jobs={unit}/jobs") == 2, 20)
            assert (unit / "cgroup.procs").read_text() == ""
            assert set(job.pids.values()) < {int(pid) for path in (unit / "jobs").glob("kept.*/cgroup.procs") for pid in path.read_text().split()}
            identifier = job.checkpoint_and_kill()
            assert ends_in(cluster, "kept", identifier, (COMPLETE, FAILED, TIMED_OUT)).state == COMPLETE
            job.all_gone()
            assert "event=frozen allocation=kept whole=1 by=cgroup" in agent.log.read_text()
            cluster.debug_check()


def two_agents_do_not_share_a_group():
    """Each would end the other's jobs as what is left of its own: the second one does not start, and says why."""
    with own_group() as (parent, reason):
        if reason:
            return reason
        with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
            first, second = cluster.agents["a"], cluster.agents["b"]
            first.cgroup = second.cgroup = parent
            with contextlib.suppress(RuntimeError):
                cluster.start()
            assert second.process.wait(10) == 1 and f"{parent}/jobs is another agent's, which runs" in second.log.read_text(), second.log.read_text()
            first.kill()
            second.start()
            assert "event=cgroups" in second.log.read_text()


if __name__ == "__main__":
    sys.exit(tap([stands_still_and_dies_whole, *in_both_ways(hears_that_it_is_to_end),
                  *in_both_ways(who_was_frozen_is_found_when_the_leader_dies), without_a_group_a_job_runs_all_the_same, leftovers_are_cleaned, a_unit_that_is_delegated_holds_the_agent_and_its_jobs, two_agents_do_not_share_a_group]))
