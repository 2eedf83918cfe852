#!/usr/bin/python3
"""Programs that know nothing of checkpoints, saved from outside by a real criu (ckpt-run --profile criu), and by a real DMTCP where one is in PATH (its
stand-in: tests/integration/test_transparent_way.py): a loop in C and one in Python, which read
their input from a file, write another one and keep their sum in memory alone. They are killed at moments that a seed draws, with a checkpoint under
way, and their result is that of an undisturbed run. Prints for how long they stood still. SEED chooses other moments. S3-004, S3-065."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import criu_site  # noqa: E402
import guest  # noqa: E402
from cluster import Cluster, application_of, common_pb2, grpc, operator_pb2, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, SUSPENDED, TIMED_OUT, Started, all_run, allocation_in, ends, ends_in, hint, restart, says  # noqa: E402

SEED = int(os.environ.get("SEED", time.time_ns() % 10**6))
LINES, MODULUS = 2500, 1000003
# a line of input is a step; a gap between two steps is noted where it is long enough to be a pause
IN_C = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static unsigned long spins;
static void *spin(void *data) { (void)data; for (;;) { spins++; usleep(2000); } return NULL; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
int main(int argc, char **argv)
{
    static unsigned char held[64 << 20]; /* what an image has to hold */
    FILE *out = fopen(argv[1], "w"), *gaps = fopen(argv[2], "w");
    unsigned long total = 0, line;
    pthread_t thread;
    double last;
    (void)argc;
    for (size_t i = 0; i < sizeof(held); i++) held[i] = (unsigned char)(i * 2654435761u >> 13);
    pthread_create(&thread, NULL, spin, NULL);
    last = now();
    while (scanf("%lu", &line) == 1) {
        double at;
        total = (total * 31 + line) % 1000003;
        held[(total * 64) % sizeof(held)]++;
        fprintf(out, "%lu\n", total); fflush(out);
        usleep(2000);
        at = now();
        if (at - last > 10) { fprintf(gaps, "%.1f\n", at - last); fflush(gaps); }
        last = at;
    }
    printf("result %lu\n", total);
    return atoi(argv[3]);
}
"""
IN_PYTHON = r"""
import sys, time
try:
    import numpy
    held = numpy.arange(1000000, dtype=numpy.int64)
except ImportError:
    held = list(range(1000000))
out, gaps, total, last = open(sys.argv[1], "w"), open(sys.argv[2], "w"), 0, time.monotonic()
for line in sys.stdin:
    total = int((total * 31 + int(line)) % 1000003)
    held[total % 1000000] += 1
    out.write(f"{total}\n"); out.flush()
    time.sleep(0.002)
    at = time.monotonic()
    if at - last > 0.01:
        gaps.write(f"{1000 * (at - last):.1f}\n"); gaps.flush()
    last = at
print("result", total, flush=True)
sys.exit(int(sys.argv[3]))
"""


def expected(steps=LINES):
    totals = [0]
    for line in range(steps):
        totals.append((totals[-1] * 31 + line) % MODULUS)
    return totals[1:]


def begin(agents="a"):
    return Cluster(members=1, agents=agents, policy={**POLICY, "checkpoint_timeout": "20s", "node_degraded_after": "2s", "node_down_after": "4s"})


class Loop:
    def __init__(self, cluster, name, language="c", options=("--max-restarts", "20"), steps=LINES, status=7, tool="criu"):
        self.cluster, self.name, self.out, self.gaps = cluster, name, cluster.dir / f"{name}.out", cluster.dir / f"{name}.gaps"
        entered = cluster.dir / f"{name}.in"
        entered.write_text("".join(f"{line}\n" for line in range(steps)))
        program = cluster.dir / f"loop.{language}"
        program.write_text(IN_C if language == "c" else IN_PYTHON)
        command = f"exec /usr/bin/python3 -B {program} {self.out} {self.gaps} {status} < {entered}"
        if language == "c":
            subprocess.run(["gcc", "-O1", "-pthread", "-o", cluster.dir / "loop", program], check=True)
            command = f"exec {cluster.dir}/loop {self.out} {self.gaps} {status} < {entered}"
        cluster.register(name, [("a", 1, MIB)])
        self.job = cluster.run_job("a", name, ["sh", "-c", command], ("--profile", tool, "--restart-on", "signal", *options))

    def begun(self):
        all_run(self.cluster)
        wait_until(f"{self.name} steps", lambda: self.steps() > 50, 30)
        return self

    def steps(self):
        return len(self.out.read_text().split()) if self.out.exists() else 0

    def steps_on(self):
        steps = self.steps()
        wait_until(f"{self.name} goes on", lambda: self.steps() > steps + 20, 20)

    def completes(self):
        def asked():
            try:
                record = ends_in(self.cluster, self.name, hint(self.cluster, self.name), (COMPLETE, FAILED, TIMED_OUT), 30)
            except grpc.RpcError as error:
                assert (error.details() or "").startswith(("CHECKPOINT_ACTIVE", "NOT_STARTED", "ALLOCATION_NOT_RUNNING")), error
                return None
            return record if record.state == COMPLETE else None
        return wait_until(f"a checkpoint of {self.name}", asked, 60)

    def starts(self):
        return len(re.findall(r"started pid \d+", self.job.log.read_text()))


def fails(cluster, name):
    return ends_in(cluster, name, hint(cluster, name), (FAILED, TIMED_OUT), 30).detail


def lacking(tool):
    if tool == "criu":
        return criu_site.lacking()
    return None if shutil.which("dmtcp_launch") else "no DMTCP in PATH: the stand-in of tests/integration alone"


def undisturbed_result(language, kills, tool="criu", steps=LINES):
    reason = lacking(tool)
    if reason is not None:
        return reason
    print(f"# SEED={SEED}")
    chance = random.Random(f"{SEED} {language}")
    with begin() as cluster:
        cluster.start()
        loop = Loop(cluster, "loop", language, tool=tool, steps=steps).begun()
        loop.completes()
        loop.steps_on()
        print(f"# {language}: stood still for {max(map(float, loop.gaps.read_text().split()), default=0):.0f} ms")
        for _ in range(kills):
            loop.completes()
            hint(cluster, "loop")
            time.sleep(chance.random() * 0.15)
            pid, starts = loop.job.application_pid(), loop.starts()
            os.killpg(pid, signal.SIGKILL)
            wait_until("it was started again", lambda n=starts: loop.starts() > n, 30)
            loop.steps_on()
        assert ends(loop.job, 90) == 7, loop.job.log.read_text()[-2000:]
        assert [int(total) for total in loop.out.read_text().split()] == expected(steps)
        assert f"result {expected(steps)[-1]}" in loop.job.log.read_text()
        assert "from scratch" not in loop.job.log.read_text().split("started pid", 2)[2]
    return None


def a_loop_in_c_ends_with_the_result_of_an_undisturbed_run():
    return undisturbed_result("c", 3, steps=2 * LINES)  # it is asked for seven checkpoints meanwhile


def a_loop_in_python_does_too():
    return undisturbed_result("python", 2)


def a_loop_with_threads_does_too_by_dmtcp():
    return undisturbed_result("c", 1, "dmtcp", 4 * LINES)  # which saves for longer


def a_loop_in_python_does_too_by_dmtcp():
    return undisturbed_result("python", 1, "dmtcp", 4 * LINES)


def its_ckpt_run_is_killed_in_a_checkpoint_and_it_goes_on():
    """Nobody is there to take the image then: criu lets it go on, and the same line goes on with it."""
    reason = criu_site.lacking()
    if reason is not None:
        return reason
    with begin() as cluster:
        cluster.start()
        loop = Loop(cluster, "loop").begun()
        chance = random.Random(f"{SEED} killed")
        for _ in range(3):
            pid = loop.job.application_pid()
            try:
                hint(cluster, "loop")
            except grpc.RpcError as error:
                assert (error.details() or "").startswith("CHECKPOINT_ACTIVE"), error
            time.sleep(chance.random() * 0.15)
            loop.job.kill()
            loop.steps_on()
            loop.job.start()
            wait_until("it goes on with it", lambda n=pid: loop.job.kept_application() == n, 20)
        loop.completes()
        loop.steps_on()
    return None


def what_criu_cannot_save_is_said_and_goes_on():
    reason = criu_site.lacking()
    if reason is not None:
        return reason
    talks = ("import socket, sys, time\na = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen()\nb = socket.create_connection(a.getsockname()); c = a.accept()\n"
             "while True:\n    open(sys.argv[1], 'a').write('1\\n'); time.sleep(0.01)\n")
    with begin() as cluster:
        cluster.start()
        out = cluster.dir / "talks.out"
        cluster.register("talks", [("a", 1, MIB)])
        job = cluster.run_job("a", "talks", ["/usr/bin/python3", "-c", talks, str(out)], ("--profile", "criu"))
        all_run(cluster)
        wait_until("it steps", out.exists, 20)
        told = fails(cluster, "talks")
        assert re.match(r"criu: (inet|sockets): \S", told), told
        says(job, told)
        steps = len(out.read_text())
        wait_until("it goes on", lambda: len(out.read_text()) > steps, 10)
    return None


def one_that_stops_with_its_checkpoint_goes_on_later():
    """It stands still from the image to its end, so nothing that it does afterwards is lost; the restart is by an operator."""
    reason = criu_site.lacking()
    if reason is not None:
        return reason
    with begin() as cluster:
        cluster.start()
        loop = Loop(cluster, "loop", options=("--stay",), status=0).begun()
        identifier = cluster.request_checkpoint("loop", after=common_pb2.AFTER_CHECKPOINT_STOP)
        ends_in(cluster, "loop", identifier, (COMPLETE,), 30)
        allocation_in(cluster, "loop", SUSPENDED)
        steps = loop.steps()
        cluster.ctl("restart", "loop")
        loop.steps_on()
        assert loop.steps() > steps and ends(loop.job, 60) == 0
        assert [int(total) for total in loop.out.read_text().split()] == expected()
    return None


def a_file_that_has_become_shorter_is_named_and_nothing_begins():
    reason = criu_site.lacking()
    if reason is not None:
        return reason
    with begin() as cluster:
        cluster.start()
        loop = Loop(cluster, "loop", options=("--max-restarts", "1")).begun()
        loop.completes()
        os.killpg(loop.job.application_pid(), signal.SIGKILL)
        os.truncate(loop.out, 3)
        assert ends(loop.job, 30) == 125
        assert re.search(r"the application cannot be restored: it had written \d+ bytes of \S+/loop.out, which has 3 now: bring the file back", loop.job.log.read_text())
        assert "which has 3 now" in cluster.ctl("events", "loop").stdout and loop.out.stat().st_size == 3
    return None


def begins_on_b(cluster, loop, prefix=(), environment=None, profile=("--profile", "criu")):
    """Its node is lost, with all that ran there; the other one is chosen, where the same line is typed."""
    cluster.agents["a"].kill()
    loop.job.kill()
    while left := loop.job.applications():
        for pid in left:
            os.kill(pid, signal.SIGKILL)

    def taken():
        try:
            cluster.client.operator("MarkNodeOff", operator_pb2.MarkNodeOffRequest(request_id=os.urandom(8).hex(), node_id="a"))
            return restart(cluster, "loop", "b")
        except grpc.RpcError as error:
            cluster.refused = error.details()
            return None
    wait_until("it is restarted on b", taken, 30, 0.2)
    command = loop.job.arguments[loop.job.arguments.index("--") + 1:]
    return Started(cluster, "b", "loop", cluster.dir, (*profile, "--max-restarts", "0"), command, environment, prefix)


def an_image_goes_on_on_another_node_that_was_booted_just_now():
    """Its clocks count from another boot, whose id is another one: a sleep until an instant of the old clock would last for as long as the old machine ran."""
    reason = criu_site.lacking()
    if reason is not None:
        return reason
    with begin("ab") as cluster:
        back_s = int(float(open("/proc/uptime").read().split()[0])) - 30
        booted = ["unshare", "--time", "--fork", "--kill-child", f"--monotonic=-{back_s}", f"--boottime=-{back_s}"]
        if back_s < 90:
            return "this machine was booted just now itself"
        if subprocess.run([*booted, "true"], capture_output=True).returncode != 0:
            return "no clocks of its own for a process here (unshare --time)"
        (cluster.dir / "boot_id").write_text("6d0a1f0e-0000-4000-8000-000000000000\n")
        cluster.agents["b"].prefix = [*booted, "--mount", "sh", "-c", f'mount --bind {cluster.dir}/boot_id /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
        cluster.start()
        loop = Loop(cluster, "loop", "python").begun()
        loop.completes()
        loop.steps_on()
        job = begins_on_b(cluster, loop, prefix=booted)
        began = time.monotonic()
        assert ends(job, 60) == 7, job.log.read_text()[-2000:]
        assert time.monotonic() - began < 60 and "from checkpoint" in job.log.read_text(), job.log.read_text()
        assert [int(total) for total in loop.out.read_text().split()] == expected()
    return None


def a_node_without_criu_says_so_and_begins_nothing():
    """With the profile its ckpt-run does not begin; without one it does not start the program from nothing, and the cluster hears why."""
    reason = criu_site.lacking()
    if reason is not None:
        return reason
    with begin("ab") as cluster:
        cluster.start()
        loop = Loop(cluster, "loop").begun()
        loop.completes()
        loop.steps_on()
        without = {"PATH": "/usr/bin:/bin"}
        job = begins_on_b(cluster, loop, environment=without)
        steps = loop.steps()
        assert ends(job, 20) == 125 and "--profile criu: there is no criu on this node" in job.log.read_text(), job.log.read_text()
        for profile, environment, told in (((), without, "the checkpoint is an image of criu: there is no criu on this node"),
                                           ((), None, "the checkpoint is an image of criu, from which the command does not go on by itself: start it with --profile criu")):
            if profile == () and environment is None:
                restart(cluster, "loop", "b")
            job = Started(cluster, "b", "loop", cluster.dir, (*profile, "--max-restarts", "0"), job.arguments[job.arguments.index("--") + 1:], environment)
            assert ends(job, 30) != 0 and told in job.log.read_text(), job.log.read_text()
            assert "an image of criu" in cluster.ctl("events", "loop").stdout
            assert loop.steps() == steps
    return None


def a_user_without_rights_saves_by_the_capabilities_of_criu():
    if criu_site.lacking() is not None:
        return criu_site.lacking()
    with begin() as cluster:
        cluster.let_others_in()
        programs, work = cluster.dir / "criu", cluster.dir / "nobody"
        programs.mkdir()
        programs.chmod(0o755)
        work.mkdir()
        os.chown(work, 65534, 65534)
        reason = criu_site.for_others(programs)
        if reason is not None:
            return reason
        cluster.start()
        cluster.register("loop", [("a", 1, MIB)], owner="nobody")
        (cluster.dir / "loop.py").write_text(IN_PYTHON)
        (cluster.dir / "in").write_text("".join(f"{line}\n" for line in range(LINES)))
        command = f"exec /usr/bin/python3 -B {cluster.dir}/loop.py {work}/out {work}/gaps 0 < {cluster.dir}/in"
        with open(cluster.dir / "log", "ab") as log:
            run = subprocess.Popen([cluster.bin / "ckpt-run", "--alloc", "loop", "--work-dir", work / "w", "--socket", cluster.agents["a"].socket, "--profile", "criu",
                                    "--restart-on", "signal", "--", "sh", "-c", command], user=65534, group=65534, extra_groups=[], stdout=log, stderr=log, cwd=work,
                                   env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        try:
            wait_until("it steps", lambda: (work / "out").exists() and len((work / "out").read_text().split()) > 50, 30)
            done = ends_in(cluster, "loop", hint(cluster, "loop"), (COMPLETE, FAILED, TIMED_OUT), 30)
            assert done.state == COMPLETE, done.detail
            os.killpg(application_of(run.pid), signal.SIGKILL)
            assert run.wait(60) == 0, (cluster.dir / "log").read_text()
        finally:
            run.kill()
            run.wait()
        assert [int(total) for total in (work / "out").read_text().split()] == expected(), (cluster.dir / "log").read_text()
    return None


if __name__ == "__main__":
    sys.exit(guest.tap_where(
        criu_site.lacking, [
            a_loop_in_c_ends_with_the_result_of_an_undisturbed_run, a_loop_in_python_does_too, a_loop_with_threads_does_too_by_dmtcp,
            a_loop_in_python_does_too_by_dmtcp, what_criu_cannot_save_is_said_and_goes_on],
        slow=[its_ckpt_run_is_killed_in_a_checkpoint_and_it_goes_on, one_that_stops_with_its_checkpoint_goes_on_later,
              a_file_that_has_become_shorter_is_named_and_nothing_begins, a_node_without_criu_says_so_and_begins_nothing,
              a_user_without_rights_saves_by_the_capabilities_of_criu, an_image_goes_on_on_another_node_that_was_booted_just_now]))
