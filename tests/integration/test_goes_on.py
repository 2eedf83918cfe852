#!/usr/bin/python3
"""How a job ended, and how it goes on: the last line of its ckpt-run and `ckpt-run status` have the words to be typed, which work. Run by root: it
becomes the users."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import checkpoint_text, common_pb2, wait_until  # noqa: E402
from isolate import main  # noqa: E402
from test_owner import SAVES, leader_is_there, saved  # noqa: E402
from test_users import ALICE, BOB, COMPLETED, RUNNING, Users  # noqa: E402

FAILED = common_pb2.ALLOCATION_STATE_FAILED
COMPLETE = common_pb2.CHECKPOINT_STATE_COMPLETE
REQUEUED = common_pb2.ALLOCATION_STATE_REQUEUED
WHERE = ("--tenant", "physics", "--project", "heat", "--gpus", "1", "--grace", "1s")
# as SAVES, and ends as the files say that somebody leaves in its work folder
ENDS = SAVES.replace("do sleep 0.5;", 'do sleep 0.5; [ ! -e "$CKPT_DIR/fail" ] || exit 3; [ ! -e "$CKPT_DIR/finish" ] || exit 0;')


def number_of(checkpoint):
    return int(checkpoint.split("-")[1])


class Runs:
    """A job of one node that has a checkpoint, and its ckpt-run, which starts it once."""

    def __init__(self, cluster, name, *words):
        self.cluster, self.name = cluster, name
        self.work, self.log = cluster.folder(ALICE) / name, cluster.dir / f"{name}.log"
        code, out, error = cluster.asks(ALICE, "register", "--alloc", name, *WHERE, *words)
        assert code == 0, (name, code, out, error)
        self.start()
        self.checkpoint = saved(cluster, ALICE, name)

    def start(self):
        cluster = self.cluster
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([str(cluster.bin / "ckpt-run"), "--alloc", self.name, "--work-dir", str(self.work), "--max-restarts", "0", "--socket",
                                             str(cluster.agents["a"].socket), "--", "bash", "-c", ENDS], user=ALICE.pw_uid, group=ALICE.pw_gid,
                                            extra_groups=[], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(f"{self.name} runs", lambda: cluster.allocation(self.name).state == RUNNING, 20)

    def ended(self, state):
        """The last line of its ckpt-run, and the words of status."""
        self.process.wait(60)
        wait_until(f"{self.name} is {state}", lambda: self.cluster.allocation(self.name).state == state, 20)
        latest = checkpoint_text(self.cluster.allocation(self.name).last_complete_checkpoint_id)
        assert number_of(latest) >= number_of(self.checkpoint), (latest, self.checkpoint)
        self.checkpoint = latest  # a walltime's last safe slot makes one more
        code, out, error = self.cluster.asks(ALICE, "status", "--alloc", self.name)
        assert code == 0, (out, error)
        return self.log.read_text().splitlines()[-1], out

    def goes_on(self, text):
        """The line of a text that registers the next one, word by word."""
        line = re.search(r"ckpt-run (register --alloc \S+ --continues [^,\n]*)", text)
        assert line and f"--continues {self.name} " in line[1], text
        code, out, error = self.cluster.asks(ALICE, *line[1].split())
        assert code == 0, (line[1], code, out, error)
        job = self.cluster.allocation(line[1].split()[2])
        assert checkpoint_text(job.restart_checkpoint_id) == self.checkpoint, (line[1], job)

    def restarts(self, text):
        line = re.search(r"ckpt-run (restart [^\s,]+)", text)
        assert line, text
        code, out, error = self.cluster.asks(ALICE, *line[1].split())
        assert code == 0 and f"it begins from checkpoint {self.checkpoint}" in out, (line[1], code, out, error)
        self.start()
        assert f"from checkpoint {self.work}/restore/{self.checkpoint}" in self.log.read_text(), self.log.read_text()
        self.process.kill()
        self.process.wait()


def a_job_that_ended_says_how_to_go_on_and_the_line_works():
    """V-014, S3-047: completed, failed, ended by its owner on its node and for good, by its walltime, and moved."""
    with Users(owners_register="yes") as cluster:
        cluster.start()
        leader_is_there(cluster)
        done = Runs(cluster, "done")
        (done.work / "finish").touch()
        last, status = done.ended(COMPLETED)
        assert done.process.returncode == 0 and "register" not in last, "its work is done, and nobody asked"
        done.goes_on(status)
        failed = Runs(cluster, "failed")
        (failed.work / "fail").touch()
        last, status = failed.ended(FAILED)
        assert failed.process.returncode == 3 and "ckpt-run: job failed is failed; it goes on by ckpt-run restart failed and the same line" in last, last
        assert "ckpt-run restart failed, and the same" in status, status
        (failed.work / "fail").unlink()
        failed.restarts(last)
        ended = Runs(cluster, "ended")
        assert cluster.asks(ALICE, "end", "ended")[0] == 0
        last, status = ended.ended(FAILED)
        ended.goes_on(last)
        assert "job ended-2 goes on from its checkpoints" in cluster.asks(ALICE, "status", "--alloc", "ended")[1]
        good = Runs(cluster, "good")
        code, out, error = cluster.asks(ALICE, "end", "good", "--for-good")
        assert code == 0, (code, out, error)
        last, status = good.ended(COMPLETED)
        assert "ckpt-run: job good is completed; from checkpoint" in last, last
        good.goes_on(last)
        timed = Runs(cluster, "timed", "--walltime", "6s")
        last, status = timed.ended(FAILED)
        assert "walltime exceeded" in status, status
        timed.restarts(status)
        timed = Runs(cluster, "timed2", "--walltime", "6s")
        last, status = timed.ended(FAILED)
        timed.goes_on(last)
        moved = Runs(cluster, "moved")
        assert cluster.asks(ALICE, "migrate", "moved")[0] == 0
        wait_until("it is requeued", lambda: cluster.allocation("moved").state == REQUEUED, 20)
        moved.process.kill()
        wait_until("its ckpt-run has gone", lambda: cluster.jobs_of(ALICE)["moved"]["state"] == "ended", 10)
        _, status = moved.ended(REQUEUED)
        assert "ckpt-run restart moved" in status and "ckpt-run end moved" in status, status
        moved.restarts(status)
        never = cluster.asks(ALICE, "register", "--alloc", "never", *WHERE)
        assert never[0] == 0 and cluster.asks(ALICE, "end", "never")[0] == 0
        status = cluster.asks(ALICE, "status", "--alloc", "never")[1]
        line = re.search(r"ckpt-run (register --alloc never-2 --tenant .*)", status)
        assert line and cluster.asks(ALICE, *line[1].split())[0] == 0, status
        cluster.debug_check()


def bchkpnt_asks_for_jobs_that_can_be_checkpointed_and_refuses_others():
    """S3-038: by that name; a job that was registered without checkpoints, as without LSF's -k, is refused with the reason, and so is another user's.
    S3-039: -p sets, changes and ends the period. S3-041: -k kills the job with its checkpoint."""
    with Users(owners_register="yes") as cluster:
        cluster.start()
        leader_is_there(cluster)
        job = Runs(cluster, "job")
        assert cluster.asks(ALICE, "register", "--alloc", "never", *WHERE, "--strategy", "none")[0] == 0
        never = cluster.run_as(ALICE, "never", "sleep", "1000", node="a")
        wait_until("it runs", lambda: cluster.allocation("never").state == RUNNING, 20)
        cluster.register("bobs", [("a", 1, 1 << 20)], owner=BOB.pw_name)
        script = cluster.dir / "bchkpnt"
        shutil.copy(pathlib.Path(__file__).resolve().parents[2] / "deploy" / "lsf" / "bchkpnt", script)
        script.chmod(0o755)

        def bchkpnt(*words):
            done = subprocess.run([str(script), *words], user=ALICE.pw_uid, group=ALICE.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=60,
                                  env={"PATH": f"{cluster.bin}:{os.environ['PATH']}", "CKPT_AGENT_SOCKET": str(cluster.agents["a"].socket),
                                       "CKPT_ENDPOINTS": cluster.members[0].api})
            return done.returncode, done.stdout, done.stderr
        code, out, error = bchkpnt("job")
        assert code == 0 and out == "Job <job> is being checkpointed\n", (code, out, error)
        wait_until("it is complete", lambda: [c.state for c in cluster.checkpoints("job")] == [COMPLETE, COMPLETE], 20)
        code, out, error = bchkpnt("never", "bobs", "job")
        assert code == 255 and out == "Job <job> is being checkpointed\n", (code, out, error)
        assert "Job <never>: " in error and "NOT_CHECKPOINTABLE: the allocation declared strategy none" in error and "Job <bobs>: " in error and "NOT_YOURS" in error, error
        for words, said in (((), "no job is named"), (("-p", "x", "job"), '-p is "x"'), (("-p", "00", "job"), '-p is "00"'), (("-p",), "-p wants the minutes"),
                            (("-k",), "no job is named"), (("-f", "job"), "-f is not taken"), (("-x",), "-x is not known")):
            code, out, error = bchkpnt(*words)
            assert code == 255 and out == "" and said in error, (words, code, out, error)
        for words, period_ms in ((("-p", "15"), 900000), (("-p20",), 1200000), (("-p", "0"), 0)):
            wait_until("nothing is under way", lambda: cluster.allocation("job").active_checkpoint_id == 0, 20)
            code, out, error = bchkpnt(*words, "job")
            assert code == 0 and out == "Job <job> is being checkpointed\n" and cluster.allocation("job").spec.period_ms == period_ms, (words, out, error)
        wait_until("nothing is under way", lambda: cluster.allocation("job").active_checkpoint_id == 0, 20)
        code, out, error = bchkpnt("-k", "job")
        assert code == 0 and out == "Job <job> is being checkpointed\n", (code, out, error)
        wait_until("its last checkpoint is complete",
                   lambda: [c.state for c in cluster.checkpoints("job") if c.after == common_pb2.AFTER_CHECKPOINT_KILL] == [COMPLETE], 20)
        wait_until("it was killed", lambda: job.process.poll() is not None, 20)
        never.kill()
        job.process.kill()


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become a user")
        sys.exit(0)
    sys.exit(main([a_job_that_ended_says_how_to_go_on_and_the_line_works, bchkpnt_asks_for_jobs_that_can_be_checkpointed_and_refuses_others]))
