#!/usr/bin/python3
"""What ckpt-run tells the user of a job: why it waits, when a checkpoint was taken and where it is, why one was not, what was restored and how much
was lost, that the program was not found. The same reason is in the records that ckptctl shows."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, broker_pb2, checkpoint_text, common_pb2, metric, tap, wait_until  # noqa: E402
from test_ranks import ranks  # noqa: E402

POLICY = {"evaluation_interval": "1s", "min_interval": "1h", "checkpoint_timeout": "20s", "grace": "1s", "max_attempts": 1}
MIB = 1 << 20


def says(job, pattern, timeout_s=15):
    return wait_until(f"ckpt-run says /{pattern}/", lambda: re.search(pattern, job.log.read_text()), timeout_s)


def hint(cluster, name):
    return cluster.request_checkpoint(name)


def ctl(cluster, *arguments):
    endpoints = ",".join(member.api for member in cluster.members)
    return subprocess.run([str(BIN / "ckptctl"), "--endpoints", endpoints, *arguments], capture_output=True, text=True, timeout=30).stdout


def heat(name):
    return [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output", f"/tmp/{name}.unused"]


def without_an_agent_the_cause_is_said_at_once():
    """The path, the system's own words, what to do; and --wait-for ends it."""
    began = time.monotonic()
    run = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "job", "--socket", "/nowhere/agent.sock", "--wait-for", "1500ms", "--", "true"],
                         capture_output=True, text=True, timeout=20)
    assert run.returncode == 125 and 1.4 < time.monotonic() - began < 8, run
    first, last = run.stderr.splitlines()[0], run.stderr.splitlines()[-1]
    for part in ("/nowhere/agent.sock", "no such file or directory", "is ckpt-agentd started"):
        assert part in first, run.stderr
    assert "gave up after 1.5s (--wait-for)" in last, run.stderr
    wrong = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "job", "--wait-for", "90", "--", "true"], capture_output=True, text=True, timeout=20)
    assert wrong.returncode == 125 and "--wait-for" in wrong.stderr and '"90"' in wrong.stderr, wrong.stderr
    usage = subprocess.run([str(BIN / "ckpt-run"), "--help"], capture_output=True, text=True, timeout=20).stdout
    for option in ("--alloc", "--profile", "--work-dir", "--socket", "--max-restarts", "--restart-on", "--from-scratch", "--wait-for", "/var/tmp/ckpt-UID/ID"):
        assert option in usage, option


def what_is_typed_wrongly_is_said_alone():
    """U2: the error, and where the usage is: no page of it hides the line that counts. A verb or an option that is none names the nearest."""
    for words, verb, said in ((("statsu",), "", 'unknown verb "statsu"; the nearest is ckpt-run status'),
                              (("checkpoint-s",), "", 'unknown verb "checkpoint-s"; the nearest is ckpt-run checkpoints'),
                              (("python3", "train.py"), "", 'unknown verb "python3"; a command stands behind the job: ckpt-run --alloc ID -- python3'),
                              ((), "", "--alloc ID is missing, the job's id; without a cluster: --standalone"), (("--aloc", "a"), "", "unknown option --aloc; the nearest is --alloc"),
                              (("--alloc", "a b", "--", "true"), "", '--alloc: "a b" is not 1 to 128 characters of A-Z a-z 0-9 . _ - (it has 3 bytes)'),
                              (("--alloc", "a"), "", "the command is missing; it goes behind --"), (("status", "--al"), "status", "--alloc needs a value"),
                              (("register", "--tenent", "t"), "register", "unknown option --tenent; the nearest is --tenant"),
                              (("end",), "end", "end needs ID, the job's"), (("end", "a", "b"), "end", "end takes one ID; one job is ended after the other"),
                              (("get", "1-1"), "get", "get needs CHECKPOINT and DIR"), (("import", "a"), "import", "import needs JOB and DIR")):
        done = subprocess.run([str(BIN / "ckpt-run"), *words], capture_output=True, text=True, timeout=20)
        verb = f"ckpt-run {verb}".strip()
        assert (done.returncode, done.stdout, done.stderr) == (125, "", f"ckpt-run: {said}\n  see: {verb} --help\n"), (words, done)
    for program, code in (("ckptd", 2), ("ckpt-agentd", 2)):
        done = subprocess.run([str(BIN / program), "--cofig", "x"], capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (code, f"{program}: unknown option --cofig; the nearest is --config\n  see: {program} --help\n"), done


def agent_dies_then_application(cluster, command, *options, ready=None):
    """The job whose agent is killed, and the application after it."""
    cluster.start()
    cluster.register("job", [("a", 1, MIB)])
    job = cluster.run_job("a", "job", command, options)
    pid = wait_until("it runs", job.known_to_run, 20)
    wait_until("the command does what it is to do", lambda: ready is None or (cluster.dir / ready).exists(), 20)
    cluster.agents["a"].kill()
    return job, pid


def an_end_that_no_agent_hears_is_said_and_can_be_stopped():
    """With a restart to come ckpt-run waits for the agent: it says so at once and every 10 s, and a signal ends it with the application's status.
    What it leaves tells the agent how that ended, and that nothing comes."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        job, pid = agent_dies_then_application(cluster, ["sleep", "600"])
        os.kill(pid, signal.SIGKILL)
        says(job, r"ckpt-run: the application has ended by signal 9, which the agent is to hear before another one starts; cannot reach the agent at "
                  rf"{cluster.agents['a'].socket}: .*(refused|no such file).*trying again until it answers \(--wait-for limits that\)", 3)
        wait_until("it is said again", lambda: job.log.read_text().count("has ended by signal 9") > 1, 14)
        assert job.running()
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(2) == 128 + 9, job.log.read_text()
        cluster.agents["a"].start()
        wait_until("the cluster hears of it", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_FAILED, 20)
        assert "wait_status=9" in cluster.agents["a"].log.read_text()


def an_agent_that_stands_still_holds_nobody():
    """It takes the connection and answers nothing: that is said too, and a signal ends ckpt-run."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", ["sleep", "600"])
        pid = wait_until("it runs", job.known_to_run, 20)
        cluster.agents["a"].process.send_signal(signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGKILL)
            says(job, r"ckpt-run: the application has ended by signal 9, .*; it does not answer at ", 6)
            job.process.send_signal(signal.SIGINT)
            assert job.process.wait(4) == 128 + 9, job.log.read_text()
        finally:
            cluster.agents["a"].process.send_signal(signal.SIGCONT)


def wait_for_bounds_the_wait_after_an_end():
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        job, pid = agent_dies_then_application(cluster, ["sh", "-c", f"trap 'exit 3' TERM; : > {cluster.dir}/trapped; while :; do sleep 0.1; done"],
                                               "--wait-for", "2s", ready="trapped")
        os.kill(pid, signal.SIGTERM)
        assert job.process.wait(5) == 3, job.log.read_text()
        assert re.search(r"gave up after 2.0s \(--wait-for\): the application has ended with status 3, .*cannot reach the agent", job.log.read_text())


def without_a_leader_it_is_not_said_that_the_agent_is_away():
    """Nor is a bare UNAVAILABLE all that a verb says: whom the agent asked, for how long, and what to do."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        cluster.members[0].kill()
        job = cluster.run_job("a", "job", heat("job"))
        says(job, "ckpt-run: the agent is there, but no leader of the cluster answers it")
        assert "cannot reach the agent" not in job.log.read_text()
        asked = [subprocess.Popen([str(BIN / "ckpt-run"), *words, "--socket", str(cluster.agents["a"].socket)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) for words in (("hint", "job"), ("get", "1-1", str(cluster.dir / "got")))]
        for run in asked:
            _, error = run.communicate(timeout=40)
            assert run.returncode == 125 and "no leader of the cluster has answered this node's agent for 10 s" in error, error
            assert f"it asked {cluster.members[0].api} (brokers in ckpt-agentd.yaml); try again, or ask who runs the cluster" in error, error
        cluster.members[0].start()
        wait_until("it runs", job.known_to_run, 20)


def a_job_reads_of_its_checkpoints_in_its_own_output():
    """Taken: how much, how long, where. Restored: which, of when, from where, what is lost."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat("job"))
        wait_until("it runs", lambda: "to=RUNNING" in cluster.agents["a"].log.read_text(), 10)
        identifier = hint(cluster, "job")
        taken = says(job, rf"ckpt-run: checkpoint {checkpoint_text(identifier)}: the part of this node, (\S+ \S+), is written and verified in \S+ at (\S+);")
        assert pathlib.Path(taken[2], "MANIFEST").exists(), taken[2]
        wait_until("it is complete", lambda: cluster.checkpoints("job")[0].state == common_pb2.CHECKPOINT_STATE_COMPLETE, 10)
        time.sleep(1.2)
        os.kill(job.application_pid(), signal.SIGKILL)
        says(job, rf"from checkpoint \S+/restore/{checkpoint_text(identifier)} \({checkpoint_text(identifier)}\), taken at \S+, \S+ ago, and kept at {cluster.scratch}")
        lost = says(job, r"lost: (\d+\.\d)s of work")
        assert 1 < float(lost[1]) < 10, lost[0]
        began = time.monotonic()
        time.sleep(1.5)  # what is lost then is of this run: not the time before it, and nothing that was told already
        os.kill(job.application_pid(), signal.SIGKILL)
        ran = time.monotonic() - began
        again = says(job, r"(?s)restart 2 of 3.*lost: (\d+\.\d)s of work, between the last start of the application and its end\n")
        assert abs(float(again[1]) - ran) < 0.8, (again[1], ran)
        assert "REASON_" not in job.log.read_text()


def why_it_begins_from_scratch_is_told():
    """A job that never had a checkpoint, however often it was started; and one whose checkpoint was given up for an outage of its target."""
    with Cluster(members=1, agents=("a",), policy=POLICY, copies=False) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat("job"))
        os.kill(wait_until("it runs", job.known_to_run, 20), signal.SIGKILL)
        says(job, r"(?s)restart 1 of 3.*started pid \d+ from scratch: there is no complete checkpoint of it yet")
        assert "can be read" not in job.log.read_text(), job.log.read_text()
        wait_until("it runs again", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_RUNNING, 10)
        identifier = checkpoint_text(hint(cluster, "job"))
        wait_until("it is complete", lambda: cluster.checkpoints("job")[0].state == common_pb2.CHECKPOINT_STATE_COMPLETE, 10)
        cluster.storage_down()
        wait_until("the outage is known", lambda: metric(cluster.wait_leader().http, "lattice_checkpoint_storage_unavailable") == 1, 20)
        os.kill(job.application_pid(), signal.SIGKILL)
        says(job, rf"checkpoint {identifier} is waited for no more, its target is away: \S+ of run time are repeated \(max_discarded 1h00m\)", 40)
        says(job, rf"from scratch: checkpoint {identifier} is given up, since its target is away, and \S+ of run time are repeated")
        cluster.storage_up()
        cluster.debug_check()


def why_a_checkpoint_was_not_taken_is_told_everywhere():
    """The line of the agent, with the remedy: the record, ckptctl, the events, the job's own output."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], checkpoint_timeout_ms=8000)
        script = cluster.dir / "run.sh"
        script.write_text("#!/bin/sh\nwhile :; do sleep 1; done\n")
        script.chmod(0o755)
        cluster.register("group", [("a", 1, MIB)], checkpoint_timeout_ms=8000)
        group = cluster.run_job("a", "group", [str(script)], ("--ask", "group"))
        job = cluster.run_job("a", "job", [str(script)])
        identifier = checkpoint_text(hint(cluster, "job"))
        hint(cluster, "group")
        says(group, r"no handler: pid \d+ \((run.sh|sleep)\) does not catch signal 10 \(SIGUSR1\).*trap '' USR1.*without --ask group", 30)
        why = r"no process of the job, whose group is \d+, catches signal 10 \(SIGUSR1\): install a handler for it"
        said = says(job, rf"ckpt-run: checkpoint {identifier} was not taken \(attempt 1\): no handler: {why}", 30)
        record = wait_until("it is recorded", lambda: (lambda c: c if c.state == common_pb2.CHECKPOINT_STATE_FAILED else None)(cluster.checkpoints("job")[0]), 10)
        assert re.search(why, record.detail) and record.detail in said[0] + job.log.read_text()
        assert json.loads(ctl(cluster, "checkpoint", identifier, "-o", "json"))["checkpoint"]["detail"] == record.detail
        assert json.loads(ctl(cluster, "checkpoints", "job", "-o", "json"))["checkpoints"][0]["detail"] == record.detail
        assert f"why: {record.detail}" in ctl(cluster, "checkpoint", identifier)
        assert record.detail in ctl(cluster, "events", "job")


def a_program_that_is_not_found_ends_its_job():
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", ["/no/such/program"])
        assert job.process.wait(20) == 127
        assert "/no/such/program: No such file or directory" in job.log.read_text()
        ended = wait_until("it has failed", lambda: (lambda a: a if a.state == common_pb2.ALLOCATION_STATE_FAILED else None)(cluster.allocation("job")), 10)
        assert ended.reason == common_pb2.REASON_APPLICATION_EXITED
        assert "not started: /no/such/program: No such file" in cluster.agents["a"].log.read_text()


def a_job_goes_on_elsewhere_under_other_paths():
    """Where its program is not at the same path it does not begin, and says which one is missing; its checkpoint stays what it goes on from,
    wherever its own folder is. S3-046."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat("job"), ("--max-restarts", "0"))
        wait_until("it runs", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_RUNNING, 20)
        identifier = checkpoint_text(hint(cluster, "job"))
        wait_until("it is complete", lambda: cluster.checkpoints("job")[0].state == common_pb2.CHECKPOINT_STATE_COMPLETE, 20)
        cluster.ctl("end", "job", "--failed", "--yes")
        job.process.wait(20)
        cluster.ctl("restart", "job", "--node", "b:1")
        elsewhere = cluster.run_job("b", "job", ["/no/such/program"], ("--max-restarts", "0"))
        assert elsewhere.process.wait(20) == 127
        assert "/no/such/program: No such file or directory" in elsewhere.log.read_text()
        wait_until("it has failed", lambda: cluster.allocation("job").state == common_pb2.ALLOCATION_STATE_FAILED, 10)
        cluster.ctl("restart", "job", "--node", "b:1")
        elsewhere = cluster.run_job("b", "job", heat("job"), ("--max-restarts", "0"))
        assert elsewhere.work_dir != job.work_dir
        says(elsewhere, rf"started pid \d+ from checkpoint {elsewhere.work_dir}/restore/{identifier} ")


def status(cluster, node, *words):
    return subprocess.run([str(BIN / "ckpt-run"), "status", "--socket", str(cluster.agents[node].socket), *words], capture_output=True, text=True,
                          timeout=20, check=True).stdout


def a_job_of_ranks_reads_of_its_part_and_its_ranks():
    """Started as which part, who is asked and who is not, what the ranks saved; `ckpt-run status` has them while they are asked and afterwards."""
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)])
        jobs = [cluster.run_job("a", "job", ranks("plain", 0, 4)), cluster.run_job("b", "job", ranks("slow", 2, 4))]
        for i, name in enumerate("ab"):
            says(jobs[i], rf"ckpt-run: started pid \d+ as part {i} of 2 on node {name} from scratch: there is no complete checkpoint of it yet")
            wait_until("the ranks count", lambda i=i: (jobs[i].work_dir / f"count.{2 * i + 1}").exists(), 20)
        assert "ranks:" not in status(cluster, "b"), "nobody has looked for them"
        identifier = checkpoint_text(hint(cluster, "job"))
        asked = wait_until("rank 2 is done", lambda: (lambda text: text if "is done" in text else None)(status(cluster, "b")), 20)
        assert re.search(r"  part 1 of 2\n  ranks: 2 \(pid \d+, is done, last heard step 127\), 3 \(pid \d+, is asked\)\n"
                         rf"  asked now: checkpoint {identifier}, it is asked, for \S+, and has \S+ left\n", asked), asked
        for job, numbers in zip(jobs, ("0, 1", "2, 3")):
            says(job, rf"ckpt-run: ranks {numbers} of the job are on this node \(sh, pid \d+, is their launcher: not signalled\)")
            says(job, rf"ckpt-run: checkpoint {identifier}: ranks {numbers} saved step 127; the part of this node, \S+ \S+, is written and verified in "
                      r"\S+ at \S+/part-000\d; the application was done \S+ after it was asked")
        wait_until("it is complete", lambda: cluster.checkpoints("job")[0].state == common_pb2.CHECKPOINT_STATE_COMPLETE, 10)
        after = json.loads(status(cluster, "a", "-o", "json"))["jobs"][0]
        assert (after["part"], after["parts"], after["asked_checkpoint"]) == (0, 2, ""), after
        assert [(rank["number"], rank["state"], rank["step"]) for rank in after["ranks"]] == [(0, "runs", 127), (1, "runs", 127)], after
        assert all(pathlib.Path(f"/proc/{rank['pid']}").exists() for rank in after["ranks"]), after
        hint(cluster, "job")
        says(jobs[0], r"(?s)saved step 127;.*saved step 127;")
        assert jobs[0].log.read_text().count("are on this node") == 1, "it is said once"
        shown = cluster.ctl("checkpoint", identifier).stdout
        assert re.search(r" label 127  4 ranks in 2 parts\n", shown), shown
        assert re.search(r"   0  a     verified      2 .*\n   1  b     verified      2 ", shown), shown


def who_wants_no_lines_has_none():
    """--quiet: the application's own output alone; why ckpt-run itself fails is said all the same."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", ["sh", "-c", "echo mine; exit 3"], ("--quiet", "--max-restarts", "1"))
        assert job.process.wait(30) == 3
        assert job.log.read_text() == "mine\nmine\n", job.log.read_text()
        other = cluster.run_job("a", "other", ["true"], ("--quiet",))
        assert other.process.wait(30) == 125
        assert ("does not know this allocation; register it first: ckpt-run register --alloc other --tenant TENANT --project PROJECT"
                in other.log.read_text()), other.log.read_text()
        third = cluster.run_job("a", "third", ["true"], ("--wait-for", "2s"))
        assert third.process.wait(30) == 125
        assert "gave up after 2.0s (--wait-for): the broker does not know this allocation" in third.log.read_text(), third.log.read_text()
        told = status(cluster, "a", "--alloc", "third")
        assert "job third: not started; it is not yours, or not there" in told and "registered," not in told, told


if __name__ == "__main__":
    sys.exit(tap([what_is_typed_wrongly_is_said_alone, an_end_that_no_agent_hears_is_said_and_can_be_stopped, an_agent_that_stands_still_holds_nobody,
                  wait_for_bounds_the_wait_after_an_end, why_it_begins_from_scratch_is_told,
                  a_job_of_ranks_reads_of_its_part_and_its_ranks, who_wants_no_lines_has_none,
                  without_an_agent_the_cause_is_said_at_once, without_a_leader_it_is_not_said_that_the_agent_is_away,
                  a_job_reads_of_its_checkpoints_in_its_own_output, why_a_checkpoint_was_not_taken_is_told_everywhere,
                  a_program_that_is_not_found_ends_its_job, a_job_goes_on_elsewhere_under_other_paths]))
