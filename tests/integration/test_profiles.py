#!/usr/bin/python3
"""Profiles as files (ckpt-run --profile vasp, --profile ./my.yaml, --profile auto), with stubs of programs that know nothing of checkpoints: each
is saved, goes on in place and after a kill from its checkpoint in a folder that has lost its state; and ckptctl try. S1-030, S1-038, S3-066."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, tap, wait_until  # noqa: E402
from jobs import COMPLETE, COMPLETED, FAILED, MIB, POLICY, Started, allocation_in, ends, ends_in, hint, says  # noqa: E402

STEPS = 60
# each counts from what its input or its files say, and looks for its file as the code that it stands for does
VASP = f"""n=$(cat POSCAR); echo begins at $n
while [ "$n" -lt {STEPS} ]; do sleep 0.05; n=$((n + 1))
[ "$(cat STOPCAR 2> /dev/null)" != "LSTOP = .TRUE." ] || {{ echo $n > CONTCAR; echo w$n > WAVECAR; echo c$n > CHGCAR; exit 0; }}; done; echo $n > result"""
ESPRESSO = f"""n=0; ! grep -q "'restart'" job.in || n=$(cat pwscf.save/n); echo begins at $n
while [ "$n" -lt {STEPS} ]; do sleep 0.05; n=$((n + 1))
[ ! -e pwscf.EXIT ] || {{ mkdir -p pwscf.save; echo $n > pwscf.save/n; rm pwscf.EXIT; exit 255; }}; done; echo $n > result"""
CP2K = f"""read n < "$2"; echo begins at $n
while [ "$n" -lt {STEPS} ]; do sleep 0.05; n=$((n + 1))
[ ! -e EXIT ] || {{ echo $n > job-1.restart; echo w$n > job.wfn; exit 0; }}; done; echo $n > result"""
# its log has a line for each step, and it goes on with no other; its handler is there from the first step on: until then it is not told
GROMACS = f"""n=0; [ "$2" != -cpi ] || {{ read n < state.cpt; head -n $n md.log > cut || exit 3; [ $(wc -l < cut) = $n ] || exit 4; mv cut md.log; }}
echo begins at $n; while [ "$n" -lt {STEPS} ]; do sleep 0.05; echo $((n + 1)) >> md.log; n=$((n + 1))
trap 'echo $n > state.cpt; exit 1' TERM; done; echo $n > result"""
PROGRAMS = {"gromacs": ("gmx", GROMACS, ("mdrun",), {}), "vasp": ("vasp_std", VASP, (), {"POSCAR": "0"}), "quantum-espresso": ("pw.x", ESPRESSO, (), {"job.in": "restart_mode = 'from_scratch'"}),
            "cp2k": ("cp2k.psmp", CP2K, ("-i", "job.inp"), {"job.inp": "0"})}


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return str(folder / name)


def begun(job):
    return [int(line.rsplit(" ", 1)[1]) for line in job.log.read_text().splitlines() if line.startswith("begins at")]


def kill_whole(job):
    os.killpg(job.application_pid(), signal.SIGKILL)


def programs_are_known_by_name_and_go_on():
    """The registration names the profile, the line too, or says auto: what is saved is whole, and each start goes on from it."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        jobs = {}
        for name, (file, text, arguments, inputs) in PROGRAMS.items():
            folder = cluster.dir / name
            path = program(folder, file, text)
            for input_name, content in inputs.items():
                (folder / input_name).write_text(content + "\n")
            cluster.register(name, [("a", 1, MIB)], profile="" if name == "cp2k" else "file")
            jobs[name] = Started(cluster, "a", name, folder, ("--profile", "auto" if name == "cp2k" else name), [path, *arguments])
        for name, job in jobs.items():
            wait_until(f"{name} begins", lambda job=job: begun(job) == [0], 20)
            record = ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED), 30)
            assert record.state == COMPLETE, (name, job.log.read_text())
        assert "--profile auto takes cp2k, which knows" in jobs["cp2k"].log.read_text()
        for name, job in jobs.items():
            wait_until(f"{name} goes on in place", lambda job=job: len(begun(job)) == 2 and begun(job)[1] > 0, 20)
            for state in (*(cluster.dir / name).glob("CONTCAR"), *(cluster.dir / name).glob("*.restart"), *(cluster.dir / name).glob("*.save/n"), *(cluster.dir / name).glob("*.cpt")):
                state.write_text("0\n")  # what a start takes is the checkpoint's
            (cluster.dir / name / "md.log").unlink(missing_ok=True)
            kill_whole(job)
        for name, job in jobs.items():
            says(job, "from checkpoint")
            assert ends(job, 60) == 0, job.log.read_text()
            assert begun(job)[-1] > 0, (name, begun(job))
            assert (cluster.dir / name / "result").read_text() == f"{STEPS}\n", name
            allocation_in(cluster, name, COMPLETED)
        assert (cluster.dir / "vasp" / "POSCAR.first").read_text() == "0\n"
        logged = [int(line) for line in (cluster.dir / "gromacs" / "md.log").read_text().split()]
        assert logged == list(range(1, STEPS + 1)), (logged, jobs["gromacs"].log.read_text())
        cluster.debug_check()


def a_file_of_ones_own_and_lsf_s_commands():
    """A profile by its path; echkpnt and erestart, as LSF has them, of a program that saves nothing by itself."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        folder = cluster.dir / "own"
        path = program(folder, "counter", f'n=${{1:-0}}; echo begins at $n; while [ $n -lt {STEPS} ]; do sleep 0.05; n=$((n + 1)); echo $n > now.new; mv now.new now; done')
        program(folder, "echkpnt.count", 'while [ "$1" != -d ]; do shift; done; kill -0 "-$3" && cp "{}/now" "$2/n"'.format(folder))
        program(folder, "erestart.count", f'for last; do :; done; echo "LSB_RESTART_CMD={path} $(cat "$last/n")" > "$LSB_CHKPNT_DIR/.restart_cmd"')
        (folder / "my.yaml").write_text("request:\n  way: exec\n  command: 'cp now {dir}/n'\nafterwards:\n  restart_command: 'exec {command} $(cat {dir}/n)'\n")
        os.environ.update(LSB_ECHKPNT_METHOD="count", LSB_ECHKPNT_METHOD_DIR=str(folder))
        for name, profile in (("mine", "./my.yaml"), ("theirs", "lsf")):
            cluster.register(name, [("a", 1, MIB)])
            job = Started(cluster, "a", name, folder, ("--profile", profile), [path])
            wait_until("it has counted", (folder / "now").exists, 10)
            assert ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED), 30).state == COMPLETE, job.log.read_text()
            kill_whole(job)
            assert ends(job, 30) == 0, job.log.read_text()
            assert len(begun(job)) == 2 and begun(job)[1] > 0, job.log.read_text()
            (folder / "now").unlink()
        cluster.debug_check()


def an_application_shows_how_it_is_asked():
    """Nothing is said: one that registers is called, one that opens the shared memory is asked there. S1-038: hints go to that endpoint."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        (cluster.dir / "mode").write_text("done")
        apps = {"calls": ((), [str(BIN / "grpc_app"), str(cluster.dir / "mode"), str(cluster.dir / "app.sock")], "registered OK", "asked by grpc"),
                "words": ((), [str(BIN / "shm_app"), "--steps", "100000", "--delay-us", "1000", "--output",
                                                  str(cluster.dir / "words.result"), "--wait", "no"], "begins at step 0", "asked by shm")}
        for name, (options, command, first, said) in apps.items():
            cluster.register(name, [("a", 1, MIB)])
            job = Started(cluster, "a", name, cluster.dir, options, command)
            says(job, first)
            assert ends_in(cluster, name, hint(cluster, name), (COMPLETE, FAILED), 30).state == COMPLETE, job.log.read_text()
            says(job, said)
            job.process.send_signal(signal.SIGTERM)
            ends(job)
        cluster.debug_check()


def what_is_wrong_is_told_before_anything_starts():
    """The file with line and nearest key; an unknown name with the nearest one; ckptctl says the same."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        path = cluster.dir / "bad.yaml"
        path.write_text("request:\n  way: file\n  fiel: STOP\n")
        for profile, said in ((str(path), "line 3: unknown key 'fiel'"), (str(path), "the nearest known key is 'file'"), ("vespa", "the nearest is vasp")):
            result = subprocess.run([str(BIN / "ckpt-run"), "--alloc", "j", "--profile", profile, "--", "true"], capture_output=True, text=True, check=False)
            assert result.returncode == 125 and said in result.stderr, (profile, result)
        result = subprocess.run([str(BIN / "ckptctl"), "profile", "check", str(path)], capture_output=True, text=True, check=False)
        assert result.returncode == 2 and "line 3" in result.stderr, result
        listed = subprocess.run([str(BIN / "ckptctl"), "profile", "list", "-o", "name"], capture_output=True, text=True, check=True).stdout.split()
        assert set(PROGRAMS) <= set(listed), listed


def a_command_is_tried_without_a_cluster():
    """S3-066: what no checkpoint holds is told. Saved, killed, started again and compared; or why it cannot be."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:  # for its folder: the trial has a cluster of its own
        folder = cluster.dir / "trial"
        path = program(folder, "counter", f'trap "" USR2; n=${{1:-0}}; echo begins at $n; while [ $n -lt {STEPS} ]; do sleep 0.05; n=$((n + 1)); echo $n > now.new; mv now.new now; done')
        line = [str(BIN / "ckpt-run"), "try", "--after", "1s", "--checkpoint-cmd", "cp now {dir}/n", "--restart-cmd", "exec {command} $(cat {dir}/n)",
                "--compare", f'[ "$(cat now)" = {STEPS} ]', "--", path]
        tried = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
        said = tried.stdout + tried.stderr
        assert tried.returncode == 0, said
        begun_at = [int(text.rsplit(" ", 1)[1]) for text in tried.stdout.splitlines() if text.startswith("begins at")]
        assert len(begun_at) == 2 and begun_at[1] > 0, said
        for wanted in ("what no checkpoint holds", "a standard stream is a pipe", "is written and verified", "the result is the same", "lines for a job script",
                       "--checkpoint-cmd 'cp now {dir}/n'"):
            assert wanted in said, (wanted, said)
        # what is known by its name needs no option, and the lines for the job script say so
        known = program(cluster.dir / "known", "gmx", GROMACS)
        tried = subprocess.run([str(BIN / "ckptctl"), "try", "--after", "1s", "--", known, "mdrun"], cwd=cluster.dir / "known", capture_output=True, text=True,
                               check=False, timeout=120)
        assert tried.returncode == 0 and "--profile auto takes gromacs" in tried.stdout + tried.stderr and "--profile auto -- " in tried.stdout, tried
        # the longest line that is taken has room for that option
        brief = program(cluster.dir / "brief", "gmx", "exit 0")
        for words, told in ((118, "the command ended before it was asked"), (119, "the line has more than 118 words")):
            tried = subprocess.run([str(BIN / "ckpt-run"), "try", "--", brief, *["x"] * (words - 2)], cwd=cluster.dir / "brief", capture_output=True, text=True,
                                   check=False, timeout=120)
            assert told in tried.stderr, (words, tried)
        region = folder / "region"
        for command, why in ((["sh", "-c", f"echo $CKPT_SHM > {region}; exec sleep 1000"], "no checkpoint was taken: checkpoint 1-1 ended FAILED: no handler: no process of the job"), (["true"], "ended before it was asked")):
            tried = subprocess.run([str(BIN / "ckptctl"), "try", "--after", "300ms", "--profile", "auto", "--", *command], cwd=folder, capture_output=True, text=True, check=False,
                                   timeout=120)
            assert tried.returncode == 1 and why in tried.stdout + tried.stderr, (command, tried)
        short = subprocess.run([str(BIN / "ckpt-run"), "try", "--after", "300ms", "--checkpoint-cmd", "sleep 20; echo > {dir}/n", "--", "sleep", "2"],
                               cwd=folder, capture_output=True, text=True, check=False, timeout=120)
        assert short.returncode == 1 and "the command ended before the checkpoint was complete; try it with a longer case" in short.stderr, short
        # its first registration is applied, and looks as if it were not: a slow machine ends a try that takes too long
        for name in ("ckptd", "ckpt-agentd", "ckpt-worker"):
            (folder / name).symlink_to(BIN / name)
        shutil.copy(BIN / "ckpt-run", folder / "ckpt-run-real")
        program(folder, "ckpt-run", f'[ "$1" = register ] && [ ! -e {folder}/late ] || exec {folder}/ckpt-run-real "$@"; {folder}/ckpt-run-real "$@" && : > {folder}/late; exit 1')
        tried = subprocess.run([str(folder / "ckpt-run-real"), "try", "--after", "300ms", "--checkpoint-cmd", "false {dir}", "--", "sleep", "1000"], cwd=folder, capture_output=True,
                               text=True, check=False, timeout=120)
        assert (folder / "late").exists() and tried.returncode == 1 and "ended with status 1; its command must be able to save so early: --after" in tried.stdout + tried.stderr, tried
        wrong = subprocess.run([str(BIN / "ckptctl"), "try", "--ask-signal", "USR1", "--", "true"], capture_output=True, text=True, check=False)
        assert wrong.returncode == 2 and "ckpt-run try, which takes --ask-signal" in wrong.stderr, wrong
        assert region.read_text().startswith("/dev/shm/") and not pathlib.Path(region.read_text().strip()).exists(), region.read_text()
        assert not [name for name in pathlib.Path("/tmp").glob("ckpt-try-*") if name.stat().st_uid == os.getuid() and name.stat().st_mtime > folder.stat().st_mtime], "a folder is left"


if __name__ == "__main__":
    sys.exit(tap([programs_are_known_by_name_and_go_on, a_file_of_ones_own_and_lsf_s_commands, an_application_shows_how_it_is_asked,
                  what_is_wrong_is_told_before_anything_starts, a_command_is_tried_without_a_cluster]))
