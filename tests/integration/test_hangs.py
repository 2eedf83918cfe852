#!/usr/bin/python3
"""Jobs of which no rank steps any more: they are shown with what their processes wait for, and restarted where they say so (V-030)."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, broker_pb2, common_pb2, metric, tap, wait_until  # noqa: E402
from jobs import COMPLETED, REQUEUED, RUNNING  # noqa: E402
from ranks_site import Ranked, site, train  # noqa: E402

AUTO, RESTART = common_pb2.RESTART_MODE_AUTO, common_pb2.ON_HANG_RESTART
HANG_S = 120  # ten times the second between two words of a rank, longer on a busy machine, and what the looks take


@contextlib.contextmanager
def quick_site(agents):
    with site(agents, hang_after="2s") as cluster:
        yield cluster


def hangs(job):
    return job.cluster.allocation(job.name).hung_since_ms != 0


def kinds(job):
    return [event.kind for event in job.cluster.events() if event.allocation_id == job.name]


HANGS_AT = 250


def order_hangs(job):
    """Rank 0 in a read of a pipe, rank 1 in a futex, both at one step that is still to come: else one would wait for the other."""
    for rank, where in enumerate(("pipe", "futex")):
        (job.folder / f".hang.{rank}").write_text(f"{where} {HANGS_AT}")
        (job.folder / f".hang.{rank}").rename(job.folder / f"hang.{rank}")


def comes_to_steps(job):
    """All its ranks have said two steps: there is a gap."""
    def told():
        for agent in job.nodes:
            jobs = own_status(job, agent)["jobs"]
            if not jobs or jobs[0].get("steps", {}).get("gap_p99_ms", 0) == 0:
                return False
        return True
    job.computes()
    wait_until("each node has heard two steps", told, 60, 0.2)


def own_status(job, agent, *options):
    done = subprocess.run([BIN / "ckpt-run", "status", "--alloc", job.name, "--socket", job.cluster.agents[agent].socket, *(options or ("-o", "json"))],
                          capture_output=True, text=True, timeout=20, check=True)
    return done.stdout if options else json.loads(done.stdout)


def what_a_hung_job_waits_for_is_shown_and_a_step_ends_it():
    """Two ranks that are stopped by a signal; they go on by another one, and the result is that of a job that nothing has befallen."""
    with quick_site("ab") as cluster:
        job = Ranked(cluster, "job", train(steps=1000, ms_per_step=20, ranks=1), "ab", restart=AUTO)
        comes_to_steps(job)
        assert not hangs(job)
        for pid in job.ranks().values():
            os.kill(pid, signal.SIGSTOP)
        wait_until("it is HUNG", lambda: hangs(job), HANG_S, 0.1)
        allocation = cluster.allocation("job")
        assert allocation.state == RUNNING and allocation.last_step_at_ms < allocation.hung_since_ms - 2000, allocation
        assert allocation.hang_text.count("is stopped by a signal (T)") == 2, allocation.hang_text
        for number, pid in job.ranks().items():
            assert f"rank {number} ({'ab'[number]}, pid {pid})" in allocation.hang_text, allocation.hang_text
        shown = cluster.ctl("job", "job").stdout
        assert re.search(r"HUNG since .*: no rank has stepped since .*\n  rank [01] \([ab], pid \d+\) at step \d+ is stopped", shown), shown
        assert "HUNG" in cluster.ctl("jobs").stdout and "1 jobs are HUNG" in cluster.ctl("status").stdout
        refused = cluster.ctl("explain", "job", check=False)
        assert "HUNG: no rank of the job steps any more" in refused.stdout + refused.stderr, refused
        assert metric(cluster.wait_leader().http, "ckpt_allocations_hung") == 1
        assert "is stopped by a signal (T)" in own_status(job, "a", "-o", "text")
        for pid in job.ranks().values():
            os.kill(pid, signal.SIGCONT)
        wait_until("it steps again", lambda: not hangs(job), 20, 0.1)
        assert kinds(job)[-2:] == [broker_pb2.EVENT_KIND_HUNG, broker_pb2.EVENT_KIND_HANG_OVER], kinds(job)
        wait_until("it is completed", lambda: job.state() == COMPLETED, 60, 0.1)
        assert job.result() == job.program.expected(), job.logs()
        assert kinds(job).count(broker_pb2.EVENT_KIND_HUNG) == 1, "a job that stepped was told HUNG"
        cluster.debug_check()


def a_hung_job_that_says_so_is_restarted_from_its_last_checkpoint():
    """One rank waits in a read of a pipe, one in a futex. A checkpoint before is no hang, and what comes of it all equals the undisturbed run."""
    with quick_site("ab") as cluster:
        job = Ranked(cluster, "job", train(steps=375, ms_per_step=20, ranks=1), "ab", restart=AUTO, on_hang=RESTART, options=("--max-restarts", "9"))
        comes_to_steps(job)
        saved = job.checkpoint()
        order_hangs(job)
        wait_until("it is requeued", lambda: job.state() == REQUEUED or cluster.allocation("job").restart_choice, HANG_S)
        text = cluster.allocation("job").hang_text
        assert re.search(r"rank 0 \(a, pid \d+\) at step \d+ waits in \w*pipe_read \(S\)", text), text
        assert re.search(r"rank 1 \(b, pid \d+\) at step \d+ waits in \w*futex\w* \(S\)", text), text
        wait_until("it was restarted", lambda: cluster.allocation("job").restart_choice == "its own a, b", 20)
        wait_until("it is completed", lambda: job.state() == COMPLETED, 60, 0.1)
        assert job.result() == job.program.expected(), job.logs()
        job.one_writer()
        allocation = cluster.allocation("job")
        assert allocation.restart_checkpoint_id == saved.checkpoint_id and allocation.hung_since_ms == 0, allocation
        reasons = [event.reason for event in cluster.events() if event.allocation_id == "job" and event.kind == broker_pb2.EVENT_KIND_ALLOCATION_STATE]
        assert common_pb2.REASON_HUNG in reasons and kinds(job).count(broker_pb2.EVENT_KIND_HUNG) == 1
        assert "its last hang, from" in cluster.ctl("job", "job").stdout
        cluster.debug_check()


def an_election_begins_the_time_anew_and_one_rank_that_steps_is_no_hang():
    """The leader dies while the job is quiet: it is told by the next one. Where only rank 1 is stopped, rank 0 waits for it: both are quiet, and
    rank 1 is named."""
    with quick_site("ab") as cluster:
        job = Ranked(cluster, "job", train(steps=1000, ms_per_step=20, ranks=1), "ab", restart=AUTO)
        comes_to_steps(job)
        os.kill(job.ranks()[1], signal.SIGSTOP)
        wait_until("its nodes know that it is quiet", lambda: own_status(job, "a")["jobs"][0]["steps"]["quiet_ms"] > 4000, 60, 0.1)
        leader = cluster.wait_leader()
        leader.kill()
        wait_until("it is HUNG", lambda: hangs(job), HANG_S, 0.1)
        text = cluster.allocation("job").hang_text
        assert re.search(r"rank 1 \(b, pid \d+\) at step \d+ is stopped by a signal \(T\)", text), text
        leader.start()
        os.kill(job.ranks()[1], signal.SIGCONT)
        wait_until("it is completed", lambda: job.state() == COMPLETED, 60, 0.1)
        assert job.result() == job.program.expected(), job.logs()
        cluster.debug_check()


def a_job_that_hangs_is_told_although_its_agents_begin_again_meanwhile():
    """Its ranks hung before: they never come back to say another step, and their agents know of them by their journals. A rank that goes on is heard
    again."""
    with quick_site("ab") as cluster:
        job = Ranked(cluster, "job", train(steps=1000, ms_per_step=20, ranks=1), "ab", restart=AUTO)
        comes_to_steps(job)
        for pid in job.ranks().values():
            os.kill(pid, signal.SIGSTOP)
        wait_until("its nodes know that it is quiet", lambda: all(own_status(job, agent)["jobs"][0]["steps"]["quiet_ms"] > 2000 for agent in "ab"), 60, 0.1)
        for agent in "ab":
            cluster.agents[agent].kill()
            cluster.agents[agent].start()
        wait_until("it is HUNG", lambda: hangs(job), HANG_S, 0.1)
        text = cluster.allocation("job").hang_text
        for number, pid in job.ranks().items():
            assert re.search(rf"rank {number} \({'ab'[number]}, pid {pid}\) at step \d+ is stopped by a signal", text), text
        for pid in job.ranks().values():
            os.kill(pid, signal.SIGCONT)
        wait_until("it steps again", lambda: not hangs(job), 30, 0.1)
        wait_until("it is completed", lambda: job.state() == COMPLETED, 60, 0.1)
        assert job.result() == job.program.expected(), job.logs()
        cluster.debug_check()


if __name__ == "__main__":
    sys.exit(tap([what_a_hung_job_waits_for_is_shown_and_a_step_ends_it, a_hung_job_that_says_so_is_restarted_from_its_last_checkpoint,
                  an_election_begins_the_time_anew_and_one_rank_that_steps_is_no_hang,
                  a_job_that_hangs_is_told_although_its_agents_begin_again_meanwhile]))
