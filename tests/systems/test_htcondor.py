#!/usr/bin/python3
"""A real HTCondor, a personal pool of one machine, as the reference for exit codes and signals: self-checkpointing programs under its words, and the same
programs under ckpt-run with the same ones. Each is started as often, from the same state, gives the same result and ends alike.
S4-003, S5-001, S5-002, S5-004, S5-005, S5-006, S5-010, S5-013."""
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import condor  # noqa: E402
from cluster import Cluster, own_name, wait_until  # noqa: E402
from isolate import inside, main, needs  # noqa: E402
from jobs import COMPLETE, COMPLETED, FAILED, POLICY, Started, allocation_in, ends, ends_in, hint  # noqa: E402

# Its n-th start ends as its n-th word says: with a status, or by a signal. It knows which start it is from its state alone.
ENDS = r"""#!/bin/sh
mkdir -p state
n=0
[ ! -e state/n ] || read n < state/n
echo "begins at $n" >> state/begun
echo $((n + 1)) > state/n
cp state/begun result
shift "$n"
case $1 in
[0-9]*) exit "$1" ;;
esac
kill -s "$1" $$
sleep 10
"""
# It saves when it is told, and ends with 85; its result has a line for each step.
TOLD = r"""#!/bin/sh
mkdir -p state
n=0
[ ! -e state/n ] || read n < state/n
echo "begins at $n" >> state/begun
trap 'echo $n > state/n; cp steps state/steps; exit 85' TSTP
rm -f steps
[ ! -e state/steps ] || cp state/steps steps
while [ "$n" -lt 60 ]; do sleep 0.1; n=$((n + 1)); echo $n >> steps; done
cp steps result
cp state/begun begun
"""
# HTCondor takes the number of that signal alone, here SIGUSR2
BY_USR2 = {"+SuccessCheckpointExitBySignal": "TRUE", "+SuccessCheckpointExitSignal": "12", "+WantFTOnCheckpoint": "TRUE"}
# name: (the program's words, HTCondor's, ckpt-run's options; without them the registration has HTCondor's words)
CASES = {
    "saves_twice": ("85 85 0", {"checkpoint_exit_code": "85"}, ("--checkpoint-exit", "85")),
    "saves_twice_and_fails": ("85 85 7", {"checkpoint_exit_code": "85"}, ("--checkpoint-exit", "85")),
    "saves_and_is_killed": ("85 KILL", {"checkpoint_exit_code": "85"}, ("--checkpoint-exit", "85")),
    "never_saves": ("3", {"checkpoint_exit_code": "85"}, ("--checkpoint-exit", "85")),
    "another_code": ("42 42 0", {"checkpoint_exit_code": "42"}, None),
    "means_nothing": ("85 0", {}, ("--max-restarts", "0")),
    "by_the_older_words": ("85 85 5", {"+SuccessCheckpointExitCode": "85", "+WantFTOnCheckpoint": "TRUE"}, None),
    "by_a_signal": ("USR2 USR2 0", BY_USR2, None),
    "by_a_signal_and_not_by_another": ("USR2 USR1", BY_USR2, None),
}


def registered(cluster, name, words):
    """With HTCondor's own words where ckpt-run has no option for them."""
    told = [part for key, value in words.items() for part in ("--attr", f"{key}={value}")]
    cluster.ctl("register", "--tenant", "physics", "--project", "heat", "--node", "a:1:1MiB", "--new-node", "--restart", "manual", "--owner", own_name(), "--alloc", name, *told)


def begun(cluster, name, files, command, words, options):
    folder = cluster.dir / "jobs" / name
    shutil.copytree(files, folder)
    registered(cluster, name, {} if options is not None else {**words, "transfer_checkpoint_files": "state"})
    if options is not None and words:
        options = (*options, "--checkpoint-files", "state")
    return Started(cluster, "a", name, folder, ("--max-restarts", "0", *(options or ())), command)


def end_of(job):
    """As a shell sees it: 128 + n is signal n."""
    status = ends(job, 60)
    return ("signal", status - 128) if status > 128 else ("exit", status)


def program(folder, text):
    folder.mkdir(parents=True)
    (folder / "program.sh").write_text(text)
    (folder / "program.sh").chmod(0o755)
    return folder


@needs("chroot", "mount", "chown", probe=condor.reason)
def each_end_means_the_same():
    with tempfile.TemporaryDirectory(prefix="condor-") as folder, condor.Pool(pathlib.Path(folder) / "pool") as pool, \
            Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        print(f"# {pool.version}", flush=True)
        cluster.start()
        files = program(pathlib.Path(folder) / "files", ENDS)
        jobs = {name: begun(cluster, name, files, ["./program.sh", *words.split()], theirs, ours) for name, (words, theirs, ours) in CASES.items()}
        for name, (words, theirs, _) in CASES.items():
            submit = {**theirs, "transfer_checkpoint_files": "state"} if theirs else {}
            end, given = pool.outcome(name, files, {"executable": "program.sh", "arguments": words, "transfer_output_files": "result", **submit})
            its_end = end_of(jobs[name])
            result, its_result = ((place / "result").read_text() for place in (given, jobs[name].folder))
            print(f"# {name}: {words} ends with {end}, after {result.count('begins')} starts", flush=True)
            assert its_end == end, f"{name}: HTCondor says {end}, ckpt-run {its_end}: {jobs[name].log.read_text()}"
            assert its_result == result, f"{name}: {result!r} in HTCondor, {its_result!r} under ckpt-run: {jobs[name].log.read_text()}"
            if end == ("exit", 0):
                allocation_in(cluster, name, COMPLETED)
        cluster.debug_check()


@needs("chroot", "mount", "chown", probe=condor.reason)
def one_that_is_told_by_a_signal_saves_alike():
    """Both tell it when they want a checkpoint, so it is not started as often; its result is the same. HTCondor's machine wants one each second or two."""
    words = {"checkpoint_exit_code": "85", "+WantCheckpointSignal": "TRUE", "+CheckpointSig": '"SIGTSTP"'}
    with tempfile.TemporaryDirectory(prefix="condor-") as folder, condor.Pool(pathlib.Path(folder) / "pool") as pool, \
            Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        files = program(pathlib.Path(folder) / "files", TOLD)
        job = begun(cluster, "told", files, ["./program.sh"], words, None)
        wait_until("it computes", (job.folder / "steps").exists, 20)
        record = ends_in(cluster, "told", hint(cluster, "told"), (COMPLETE, FAILED), 30)
        assert record.state == COMPLETE, f"{record.detail}: {job.log.read_text()}"
        end, given = pool.outcome("told", files, {"executable": "program.sh", "transfer_output_files": "result, begun", "transfer_checkpoint_files": "state", **words})
        assert end == end_of(job) == ("exit", 0), (end, job.log.read_text())
        starts = [(place / "begun").read_text().count("begins") for place in (given, job.folder)]
        print(f"# started {starts[0]} times in HTCondor, {starts[1]} times under ckpt-run", flush=True)
        assert starts[0] > 1 and starts[1] == 2, starts
        result = "".join(f"{n}\n" for n in range(1, 61))
        assert (given / "result").read_text() == result, (given / "result").read_text()
        assert (job.folder / "result").read_text() == result, job.log.read_text()


if __name__ == "__main__":
    if not inside():
        condor.root()  # from a mirror, which is not in reach from within
    sys.exit(main([each_end_means_the_same, one_that_is_told_by_a_signal_saves_alike]))
