#!/usr/bin/python3
"""Where the checkpoints of a job go, before its application starts: the folder is made, as its user's; who may not write there does not start; and a
destination that is away holds up nobody. With real users. Run by root: it becomes them."""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import common_pb2, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402
from test_users import ALICE, BOB, COMPLETED, GOES_ON, MIB, Hanging, Users, ended, no_fuse, requested  # noqa: E402

STARTING = common_pb2.ALLOCATION_STATE_STARTING
STARTS_WITHIN_S = 9  # a hung worker has 5 s and one more to die, the rest is this machine's


def folder_of(cluster, job):
    return cluster.scratch / "physics" / "heat" / job / "checkpoints"


def sees(folder):
    """An application that tells whose the folder is, and what is in it."""
    return "sh", "-c", f"stat -c '%U %a %n' {folder} {folder.parent} >&2; ls -A {folder} >&2"


def runs(cluster, job, code, *command):
    run = cluster.run_as(ALICE, job, *(command or ("true",)))
    assert run.wait(60) == code, (text := run.stderr.read(), text)
    return run.stderr.read()


def heat(cluster):
    return [str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output",
            str(cluster.folder(ALICE) / "r")]


def the_folder_of_a_job_is_there_before_it_runs():
    """S3-035, D-003: with the right owner and mode, and empty; of a job that is not checkpointed there is none."""
    with Users() as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        folder = folder_of(cluster, "job")
        said = runs(cluster, "job", 0, *sees(folder))
        assert f"{ALICE.pw_name} 700 {folder}\n{ALICE.pw_name} 700 {folder.parent}\n" in said, said
        assert not list(folder.iterdir()) and "cannot be written" not in said, said
        assert (os.stat(folder.parent.parent).st_uid, os.stat(folder.parent.parent).st_mode & 0o7777) == (0, 0o755)
        cluster.register("none", [("a", 1, MIB)], owner=ALICE.pw_name, strategy=common_pb2.STRATEGY_NONE)
        runs(cluster, "none", 0)
        assert not folder_of(cluster, "none").parent.exists()
        cluster.register("roots", [("a", 1, MIB)], owner=ALICE.pw_name)  # root starts it for her: what it made would keep her out
        root = cluster.run_job("a", "roots", ["false"], ("--max-restarts", "0"))
        assert root.process.wait(30) == 1 and not folder_of(cluster, "roots").parent.exists()


def who_may_not_write_there_does_not_start():
    """S3-036: told whose the folder is, with which mode, and what to do; the job is as it was, and starts when that was done."""
    with Users() as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        folder = folder_of(cluster, "job")
        folder.parent.mkdir(parents=True, mode=0o750)
        os.chown(folder.parent, BOB.pw_uid, BOB.pw_gid)
        for _ in range(2):
            said = runs(cluster, "job", 125)
            assert f"{folder.parent} belongs to user {BOB.pw_uid} and not to user {ALICE.pw_uid}" in said and "(mode 0750)" in said, said
            assert "the agent refuses: its checkpoints could not be written" in said and "move it away" in said, said
            assert cluster.state("job") == STARTING
        os.chown(folder.parent, ALICE.pw_uid, ALICE.pw_gid)
        folder.mkdir(mode=0o500)
        os.chown(folder, ALICE.pw_uid, ALICE.pw_gid)
        said = runs(cluster, "job", 125)
        assert f"{folder} belongs to user {ALICE.pw_uid}, mode 0500" in said and "Permission denied" in said, said
        folder.rmdir()
        folder.symlink_to(cluster.folder(BOB))
        assert "symbolic link" in (said := runs(cluster, "job", 125)) and not list(cluster.folder(BOB).iterdir()), said
        folder.unlink()
        runs(cluster, "job", 0)
        wait_until("it is complete", lambda: cluster.state("job") == COMPLETED, 10)


def what_becomes_of_the_folder_ends_no_job():
    """One that runs is started again in place, whoever has taken its folder meanwhile."""
    with Users() as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        run = cluster.run_as(ALICE, "job", *heat(cluster))
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("job", {}).get("state") == "running", 15)
        folder = folder_of(cluster, "job")
        os.chown(folder.parent, BOB.pw_uid, BOB.pw_gid)
        pid = cluster.jobs_of(ALICE)["job"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until("it runs again", lambda: (cluster.jobs_of(ALICE)["job"]["pid"] or pid) != pid, 15)
        os.chown(folder.parent, ALICE.pw_uid, ALICE.pw_gid)
        assert ended(cluster, "job", requested(cluster, "job")).state == common_pb2.CHECKPOINT_STATE_COMPLETE
        run.send_signal(signal.SIGTERM)
        run.wait(20)


def starts_all_the_same(cluster, job, said):
    cluster.register(job, [("a", 1, MIB)], owner=ALICE.pw_name)
    began = time.monotonic()
    text = runs(cluster, job, 0)
    assert time.monotonic() - began < STARTS_WITHIN_S, time.monotonic() - began
    assert f"its checkpoints cannot be written at the moment ({said})" in text and "it starts all the same" in text, text
    wait_until("it is complete", lambda: cluster.state(job) == COMPLETED, 10)


def a_destination_that_is_not_mounted_holds_up_no_start():
    with Users() as cluster:
        cluster.start()
        cluster.storage_down()
        starts_all_the_same(cluster, "job", "storage unreachable")
        cluster.storage_up()


def nothing_is_made_in_the_place_of_what_is_not_mounted():
    """A job with a checkpoint starts again where an empty folder is: one of the job's in it would make the checkpoint look lost."""
    with Users() as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        run = cluster.run_as(ALICE, "job", *heat(cluster))
        assert ended(cluster, "job", requested(cluster, "job")).state == common_pb2.CHECKPOINT_STATE_COMPLETE
        run.send_signal(signal.SIGTERM)
        run.wait(20)
        wait_until("its end is told", lambda: cluster.state("job") not in GOES_ON, 10)
        cluster.ctl("restart", "job")
        cluster.storage_down()
        cluster.scratch.mkdir(mode=0o755)
        said = runs(cluster, "job", 0)  # from the node's own copy
        assert "(storage unreachable)" in said and "which was written before, is below the prefix" in said, said
        assert not (cluster.scratch / "physics").exists()


@needs("umount", probe=no_fuse)
def a_destination_that_hangs_holds_up_no_start_for_long():
    with Users() as cluster:
        cluster.start()
        with Hanging(cluster.scratch, ALICE):
            starts_all_the_same(cluster, "job", "storage hangs")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become two users")
        sys.exit(0)
    sys.exit(main([the_folder_of_a_job_is_there_before_it_runs, who_may_not_write_there_does_not_start, what_becomes_of_the_folder_ends_no_job,
                   a_destination_that_is_not_mounted_holds_up_no_start, nothing_is_made_in_the_place_of_what_is_not_mounted,
                   a_destination_that_hangs_holds_up_no_start_for_long]))
