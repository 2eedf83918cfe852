#!/usr/bin/python3
"""Programs that are saved from outside (ckpt-run --profile criu, --profile dmtcp), with a real broker, agent and destination, and a stand-in for DMTCP's programs: a real criu
is in tests/systems/test_transparent.py."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, grpc, tap, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, TIMED_OUT, all_run, ends, ends_in, hint, says  # noqa: E402

# It keeps its step in a file that the stand-in takes for its memory, until a file tells it to end.
COUNTER = """
import os, sys, time
site = sys.argv[1]
step = int(open(site + "/memory").read()) if os.path.exists(site + "/memory") else 0
print("counts from", step, flush=True)
while not os.path.exists(site + "/ends"):
    step += 1
    with open(site + "/memory.new", "w") as file:
        file.write(str(step))
    os.rename(site + "/memory.new", site + "/memory")
    time.sleep(0.002)
sys.exit(3)
"""
# It catches the signal, and saves by itself.
ASKED = """save() { told=$(cat "$CKPT_DIR/request") && eval "$told" && echo 7 > "$directory/n" &&
    printf 'hint=%s\\nbytes=2\\nstatus=0\\n' "$hint" > "$CKPT_DIR/new" && mv "$CKPT_DIR/new" "$CKPT_DIR/done"; }
trap save USR1
while :; do sleep 0.05; done
"""
# As the real one, 3.2: a process of two has ended when the others stand still, what has no path any more lies in a folder beside the image, and
# the coordinator's script says how many images there are.
LAUNCH = """#!/bin/sh
echo 2 > $SITE/peers
while [ $# -gt 0 ]; do case $1 in -q|-j|--no-gzip) shift;; --ckptdir) echo $2 > $SITE/images; shift 2;; *) break;; esac; done
echo "$@" > $SITE/line
exec "$@"
"""
COORDINATOR = """#!/bin/sh
[ "$1" = --version ] && { echo 'dmtcp_coordinator (DMTCP) 3.0.0'; exit; }
while [ $# -gt 0 ]; do [ $1 = --port-file ] && echo 7779 > $2; shift; done
"""
COMMAND = """#!/bin/sh
for last; do :; done
[ $last = -s ] && { echo NUM_PEERS=$(cat $SITE/peers); [ -e $SITE/stuck ] && echo RUNNING=no || echo RUNNING=yes; exit; }
images=$(cat $SITE/images)
echo 1 > $SITE/peers
mkdir $images/ckpt_counter_1_files && echo unlinked > $images/ckpt_counter_1_files/fd-info.txt || exit
printf '#!/bin/sh\\n# Number of processes in the computation = 1\\n\\n' > $images/dmtcp_restart_script_7.sh
ln -s dmtcp_restart_script_7.sh $images/dmtcp_restart_script.sh
cp $SITE/memory $images/ckpt_counter_1.dmtcp.temp && { [ ! -e $SITE/lies ] || ! : > $SITE/stuck; } && mv $images/ckpt_counter_1.dmtcp.temp $images/ckpt_counter_1.dmtcp
exit 0
"""
RESTART = """#!/bin/sh
for image; do :; done
while [ $1 != --ckptdir ]; do shift; done
[ "$(cat $2/ckpt_counter_1_files/fd-info.txt)" = unlinked ] || exit 99
echo 2 > $SITE/peers
cp $image $SITE/memory
exec $(cat $SITE/line)
"""


def begin(site=None, timeout="8s"):  # the stand-in is a script of a dozen programs
    """site: of the stand-in; without it nothing is found here but the system's own folders."""
    cluster = Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": timeout})
    os.environ["SITE"] = str(cluster.dir)
    if site:
        for name, text in (("launch", LAUNCH), ("coordinator", COORDINATOR), ("command", COMMAND), ("restart", RESTART)):
            (cluster.dir / f"dmtcp_{name}").write_text(text)
            (cluster.dir / f"dmtcp_{name}").chmod(0o755)
        os.environ["PATH"] = f"{cluster.dir}:{os.environ['PATH']}"
    return cluster


def a_program_is_saved_and_restored_by_dmtcp():
    """Killed, it goes on from its image; a tool that says 0 and writes nothing takes no checkpoint; its own status arrives."""
    with begin(site=True) as cluster:
        cluster.start()
        assert "dmtcp 3.0.0" in wait_until("the node's tools", lambda: next((line for line in cluster.ctl("node", "a", check=False).stdout.splitlines() if "from outside" in line), None), 10)
        (cluster.dir / "counter.py").write_text(COUNTER)
        cluster.register("j", [("a", 1, MIB)])
        job = cluster.run_job("a", "j", [sys.executable, str(cluster.dir / "counter.py"), str(cluster.dir)], ("--profile", "dmtcp", "--restart-on", "signal"))
        all_run(cluster)
        wait_until("it counts", (cluster.dir / "memory").exists, 10)
        for _ in range(2):
            done = ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE, FAILED, TIMED_OUT))
            assert done.state == COMPLETE, done.detail
        (cluster.dir / "lies").touch()
        ends_in(cluster, "j", hint(cluster, "j"), (FAILED, TIMED_OUT))
        says(job, "DMTCP has written 0 of 1 images by the deadline, and the program still stands still for it")
        told = ends_in(cluster, "j", hint(cluster, "j"), (FAILED, TIMED_OUT)).detail
        assert "where that never ends, kill the program" in told, told
        (cluster.dir / "lies").unlink()
        (cluster.dir / "stuck").unlink()
        os.killpg(job.application_pid(), 9)
        says(job, "from checkpoint")
        done = ends_in(cluster, "j", hint(cluster, "j"), (COMPLETE, FAILED, TIMED_OUT))
        assert done.state == COMPLETE, done.detail
        (cluster.dir / "ends").touch()
        assert ends(job, 30) == 3
        starts = [int(line.split()[-1]) for line in job.log.read_text().splitlines() if line.startswith("counts from")]
        assert len(starts) == 2 and starts[0] == 0 < starts[1], starts


def what_shows_no_way_is_saved_from_outside_where_the_policy_says_so():
    """--profile auto names the tool alone; with `transparent: yes` it takes it, and a program that catches the signal is asked by that all the same. An image
    is restored when the policy says no again."""
    with begin(site=True, timeout="30s") as cluster:
        cluster.start()
        (cluster.dir / "counter.py").write_text(COUNTER)
        (cluster.dir / "asked.sh").write_text(ASKED)
        counter = [sys.executable, str(cluster.dir / "counter.py"), str(cluster.dir)]
        cluster.register("j", [("a", 1, MIB)])
        first = cluster.run_job("a", "j", ["sleep", "1000"], ("--profile", "auto"))
        told = ends_in(cluster, "j", hint(cluster, "j"), (FAILED, TIMED_OUT)).detail
        assert "catches signal 10" in told and "--profile dmtcp would save it from outside" in first.log.read_text(), (told, first.log.read_text())
        cluster.ctl("policy", "set", "transparent=yes")
        jobs = {}
        for name, command in (("asked", ["sh", str(cluster.dir / "asked.sh")]), ("counts", counter)):
            cluster.register(name, [("a", 1, MIB)])
            jobs[name] = cluster.run_job("a", name, command, ("--profile", "auto", "--restart-on", "signal"))
            all_run(cluster)
            done = ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED, TIMED_OUT))
            assert done.state == COMPLETE, (name, done.detail, jobs[name].log.read_text())
        assert "the application is saved from outside by dmtcp" in jobs["counts"].log.read_text(), jobs["counts"].log.read_text()
        assert "saved from outside by" not in jobs["asked"].log.read_text(), jobs["asked"].log.read_text()
        cluster.ctl("policy", "set", "transparent=no")
        os.killpg(jobs["counts"].application_pid(), 9)
        says(jobs["counts"], "from checkpoint")

        def starts():
            return [int(step) for step in re.findall(r"^counts from (\d+)\n", jobs["counts"].log.read_text(), re.M)]  # a line may be there in part
        assert wait_until("it counts on", lambda: len(starts()) == 2 and starts(), 20)[1] > 0, starts()
        cluster.debug_check()


def what_cannot_be_saved_from_outside_is_refused():
    with begin() as cluster:
        cluster.start()
        try:
            cluster.register("two", [("a", 1, MIB), ("b", 1, MIB)], profile="criu")
            raise AssertionError("it was registered")
        except grpc.RpcError as error:
            assert "PROFILE_ONE_PART" in error.details() and "the job has several parts" in error.details() and "register the job with one node" in error.details(), error.details()
        cluster.register("j", [("a", 1, MIB)])
        environment = {**os.environ, "PATH": "/usr/bin:/bin"}
        for options, told in ((("--profile", "dmtcp"), "there is no dmtcp_launch on this node: install DMTCP, or use --profile criu"),
                              (("--profile", "criu", "--restore", "path"), "does not go with --restore path"), (("--profile", "criu", "--ranks", "2"), "--ranks 2 does not go"),
                              (("--profile", "criu", "--checkpoint-cmd", "x"), "leave one of them out"), (("--profile", "criu", "--ask", "group"), "--ask and --ask-signal do not go")):
            tried = subprocess.run([BIN / "ckpt-run", "--alloc", "j", "--socket", cluster.agents["a"].socket, *options, "--", "true"], capture_output=True, text=True, env=environment)
            assert tried.returncode == 125 and told in tried.stderr, (options, tried.returncode, tried.stderr)


if __name__ == "__main__":
    sys.exit(tap([a_program_is_saved_and_restored_by_dmtcp, what_shows_no_way_is_saved_from_outside_where_the_policy_says_so,
                  what_cannot_be_saved_from_outside_is_refused]))
