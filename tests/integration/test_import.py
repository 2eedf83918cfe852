#!/usr/bin/python3
"""A folder that an owner brings becomes the first checkpoint of a job, without a key of the cluster: `ckpt-run import`. Run by root: it becomes the
users."""
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import checkpoint_text, common_pb2, operator_pb2, wait_until  # noqa: E402
from isolate import main  # noqa: E402
from small_store import SmallStore  # noqa: E402
from test_owner import SAVES, leader_is_there, saved  # noqa: E402
from test_recover import s3_section  # noqa: E402
from test_users import ALICE, BOB, MIB, RUNNING, Users  # noqa: E402

STARTING = common_pb2.ALLOCATION_STATE_STARTING
REQUEUED = common_pb2.ALLOCATION_STATE_REQUEUED
FAILED = common_pb2.ALLOCATION_STATE_FAILED
COMPLETE = common_pb2.CHECKPOINT_STATE_COMPLETE
WHERE = ("--tenant", "physics", "--project", "heat", "--gpus", "1", "--grace", "1s")


def owned(folder, user):
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, user.pw_uid, user.pw_gid)
    return folder


def files_of(cluster, user, name="brought"):
    """A file, a folder, holes, a link and modes, as a program without any cluster wrote them."""
    folder = cluster.folder(user) / name
    (folder / "deep").mkdir(parents=True)
    (folder / "n").write_text("41\n")
    with open(folder / "deep" / "sparse", "wb") as sparse:
        sparse.truncate(8 << 20)
        sparse.seek(0, 2)
        sparse.write(b"end\n")
    (folder / "deep" / "sparse").chmod(0o600)
    os.symlink("n", folder / "last")
    owned(folder, user)
    (folder / "deep").chmod(0o500)
    return folder


def imports(cluster, user, job, folder, *words, node="a"):
    return cluster.asks(user, "import", job, str(folder), "--work-dir", str(cluster.folder(user) / f"import-{node}"), *words, node=node)


def begins(cluster, user, job, command, node="a"):
    """The output of the job's program, with its ckpt-run."""
    log = cluster.dir / f"{job}-{node}.log"
    run = subprocess.Popen([str(cluster.bin / "ckpt-run"), "--alloc", job, "--work-dir", str(cluster.folder(user) / f"{job}-{node}"), "--socket",
                            str(cluster.agents[node].socket), "--", "bash", "-c", command], user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                           stdout=open(log, "w"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return run, log


LOOKS = 'cd "$CKPT_RESTORE_DIR" && find . -printf "%P %y %m %l\\n" | sort && cat n && echo "label=$CKPT_RESTORE_LABEL"; trap : USR1; while :; do sleep 0.5; done'


def a_folder_becomes_the_first_checkpoint_of_a_job_and_its_next_start_begins_there():
    """V-014: with certificates everywhere and none for the user; verified, the tenant's own, in the words of ckpt-run alone; then the job goes on as
    any other one, saves and restarts."""
    with Users(owners_register="yes", tls=True) as cluster:
        cluster.start()
        leader_is_there(cluster)
        folder = files_of(cluster, ALICE)
        assert cluster.asks(ALICE, "register", "--alloc", "mine", *WHERE)[0] == 0
        code, out, error = imports(cluster, ALICE, "mine", folder, "--step", "7")
        assert code == 0 and "mine" in out and "verified" in out and "ckpt-run --alloc mine -- COMMAND" in out, (code, out, error)
        assert "migrated" not in out + error and "the folder is imported on this node" in error, (out, error)
        record, = cluster.checkpoints("mine")
        checkpoint = checkpoint_text(record.checkpoint_id)
        assert record.state == COMPLETE and f"its checkpoint {checkpoint}," in out and record.label == "7", (record, out)
        assert record.size_bytes == 3 + 8388612, record.size_bytes
        assert cluster.state("mine") == STARTING and cluster.allocation("mine").restart_checkpoint_id == record.checkpoint_id
        code, out, error = cluster.asks(ALICE, "checkpoints", "mine")
        assert code == 0 and checkpoint in out, (code, out, error)
        code, out, error = cluster.asks(ALICE, "status", "--alloc", "mine")
        assert code == 0 and "job mine: its files were imported on this node" in out and "migrated" not in out.split("\n", 2)[1], (code, out, error)
        for line in (("status", "--alloc", "mine"), ("hint", "mine"), ("explain", "mine"), ("end", "mine"), ("import", "mine", str(folder))):
            code, out, error = cluster.asks(BOB, *line)
            there = (code, "not yours" in out + error and "or not there" in out + error)
            code, out, error = cluster.asks(BOB, *[word.replace("mine", "nosuch") for word in line[:-1]], line[-1].replace("mine", "nosuch"))
            assert there == (code, True) and code == 3 and "or not there" in out + error, (line, there, code, out, error)
        tenants = {t.spec.tenant: t.stored_bytes for t in cluster.client.operator("ListTenants", operator_pb2.ListTenantsRequest()).tenants}
        assert tenants == {"physics": record.size_bytes}, tenants
        run, log = begins(cluster, ALICE, "mine", LOOKS)
        wait_until("it says what it found", lambda: "label=" in log.read_text(), 20)
        found = log.read_text()
        for line in ("deep d 500 \n", "deep/sparse f 600 \n", "last l 777 n\n", "\n41\n", "label=7\n"):
            assert line in found, (line, found)
        assert f"from checkpoint {cluster.folder(ALICE)}/mine-a/restore/{checkpoint}" in found, found
        run.kill()
        run.wait()
        cluster.debug_check()


def what_cannot_be_imported_is_refused_by_name_before_anything_starts():
    """V-014, N-005: nothing that the user may not read, nothing into another's job, nothing a checkpoint does not carry, no job that has begun."""
    with Users(owners_register="yes") as cluster:
        cluster.start()
        leader_is_there(cluster)
        for job, more in (("mine", ()), ("answers", ("--profile", "grpc")), ("never", ("--strategy", "NONE")), ("two", ("--node", "b:1"))):
            if job == "two":
                continue
            code, out, error = cluster.asks(ALICE, "register", "--alloc", job, *WHERE, *more)
            assert code == 0, (code, out, error)
        cluster.register("bobs", [("a", 1, MIB)], owner=BOB.pw_name)
        good = files_of(cluster, ALICE)
        empty = owned_folder(cluster, "empty")
        closed = files_of(cluster, ALICE, "closed")
        (closed / "roots").write_text("secret")
        (closed / "roots").chmod(0o600)
        pipes = files_of(cluster, ALICE, "pipes")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(pipes / "socket"))
        out_of_it = files_of(cluster, ALICE, "out")
        os.symlink("/etc/shadow", out_of_it / "link")
        stored = files_of(cluster, ALICE, "stored")
        (stored / "MANIFEST").write_text("# ckpt-manifest 2\n")
        parts = cluster.folder(ALICE) / "parts"
        for part in ("part-0000", "part-0001"):
            (parts / part).mkdir(parents=True)
            (parts / part / "n").write_text("1")
        owned(parts, ALICE)
        for job, folder, code, said in (
                ("mine", closed, 4, f"{closed}/roots: Permission denied"), ("mine", pipes, 4, "socket"), ("mine", out_of_it, 4, "link"),
                ("mine", stored, 4, "ckpt-run get CHECKPOINT DIR"), ("mine", empty, 4, "holds no bytes"), ("mine", parts, 4, "has 2 parts"),
                ("mine", cluster.dir / "none", 4, "No such file"), ("mine", good / "n", 4, "folder"), ("bobs", good, 3, "NOT_YOURS"),
                ("none", good, 3, "NOT_YOURS"), ("answers", good, 4, "profile grpc"), ("never", good, 4, "strategy NONE")):
            found, out, error = imports(cluster, ALICE, job, folder)
            assert found == code and said in error and out == "", (job, folder, found, out, error)
            assert "secret" not in error, error
        assert not cluster.checkpoints("mine") and cluster.state("mine") == STARTING and cluster.state("bobs") == STARTING
        for words, said in ((("import", "mine"), "needs JOB and DIR"), (("import", "a b", str(good)), 'JOB: "a b" is not 1 to 128 characters'),
                            (("import", "mine", str(good), "--step", "a b"), "--step must be")):
            found, out, error = cluster.asks(ALICE, *words)
            assert found == 125 and said in error, (words, found, error)
        code, out, error = cluster.asks(ALICE, "import", "--help")
        assert code == 0 and "usage: ckpt-run import JOB DIR" in out, (code, out, error)
        # one that runs, and one that has a checkpoint already
        run = cluster.run_as(ALICE, "mine", "bash", "-c", SAVES)
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("mine", {}).get("state") == "running", 15)
        found, out, error = imports(cluster, ALICE, "mine", good)
        assert found == 4 and "mine is running" in error, (found, error)
        checkpoint = saved(cluster, ALICE, "mine")
        found, out, error = imports(cluster, ALICE, "mine", good)
        assert found == 4 and f"has checkpoint {checkpoint}" in error and len(cluster.checkpoints("mine")) == 1, (found, error)
        assert cluster.state("mine") == RUNNING
        run.kill()
        listener.close()
        cluster.debug_check()


def owned_folder(cluster, name):
    folder = cluster.folder(ALICE) / name
    folder.mkdir()
    os.chown(folder, ALICE.pw_uid, ALICE.pw_gid)
    return folder


def an_import_that_fails_leaves_the_job_for_another_try():
    """V-014: the tenant's limit of bytes counts for an imported checkpoint as for any other one, and says so; with more room the same line does it."""
    with Users(owners_register="yes") as cluster:
        cluster.start()
        leader_is_there(cluster)
        folder = files_of(cluster, ALICE)
        assert cluster.asks(ALICE, "register", "--alloc", "mine", *WHERE)[0] == 0
        (cluster.scratch / "physics").mkdir()
        (cluster.scratch / "physics").chmod(0o700)  # root's: she may not write there
        code, out, error = cluster.asks(ALICE, "import", "mine", str(folder), "--work-dir", str(cluster.folder(ALICE) / "w"))
        assert code == 1 and "nothing was imported into job mine" in error, (code, out, error)
        assert not [c for c in cluster.checkpoints("mine") if c.state == COMPLETE]
        shutil.rmtree(cluster.scratch / "physics")
        code, out, error = imports(cluster, ALICE, "mine", folder)
        assert code == 0, (code, out, error)
        cluster.debug_check()


def a_checkpoint_of_two_nodes_goes_from_one_cluster_into_another():
    """V-014: taken home there, imported here by the same line on both nodes, and each part begins from its own; also into an object store."""
    with tempfile.TemporaryDirectory() as shelf:
        shelf = pathlib.Path(shelf)
        shelf.chmod(0o755)
        home = shelf / "home"
        home.mkdir()
        os.chown(home, ALICE.pw_uid, ALICE.pw_gid)
        with Users(agents=("a", "b")) as cluster:
            cluster.start()
            leader_is_there(cluster)
            cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], owner=ALICE.pw_name)
            runs = [cluster.run_as(ALICE, "job", "bash", "-c", SAVES, node=node) for node in ("a", "b")]
            wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 15)
            checkpoint = saved(cluster, ALICE, "job")
            code, out, error = cluster.asks(ALICE, "get", checkpoint, str(home))
            assert code == 0, (code, out, error)
            for run in runs:
                run.kill()
        with SmallStore() as store, Users(owners_register="yes", agents=("a", "b"), target={"kind": "s3", "prefix": '"s3://ckpt/site"'}) as cluster:
            s3_section(cluster, store)
            cluster.start()
            leader_is_there(cluster)
            assert cluster.asks(ALICE, "register", "--alloc", "two", *WHERE, "--node", "b:1")[0] == 0
            counts = [int((home / part / "n").read_text()) for part in ("part-0000", "part-0001")]
            (home / "part-0001" / "n").write_text(f"{counts[1] + 1000}\n")
            lines = [subprocess.Popen([str(cluster.bin / "ckpt-run"), "import", "two", str(home), "--work-dir", str(cluster.folder(ALICE) / f"i-{node}"),
                                       "--step", "7", "--socket", str(cluster.agents[node].socket)], user=ALICE.pw_uid, group=ALICE.pw_gid,
                                      extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for node in ("a", "b")]
            ends = [line.communicate(timeout=60) for line in lines]
            assert [line.returncode for line in lines] == [0, 0], ends
            assert sum("its checkpoint" in out for out, _ in ends) == 1, ends
            record, = cluster.checkpoints("two")
            assert record.state == COMPLETE and record.label == "7" and len(record.shards) == 2, record
            wait_until("it waits for its start", lambda: cluster.state("two") == STARTING, 10)
            says = 'cat "$CKPT_RESTORE_DIR/n"; echo is all; trap : USR1; while :; do sleep 0.5; done'
            runs = [begins(cluster, ALICE, "two", says, node) for node in ("a", "b")]
            for log in (log for _, log in runs):
                wait_until("it begins", lambda log=log: "is all" in log.read_text(), 30)
            found = sorted(int(line) for _, log in runs for line in log.read_text().splitlines() if line.isdigit())
            assert found == sorted([counts[0], counts[1] + 1000]), (found, counts)
            for run, _ in runs:
                run.kill()
            cluster.debug_check()


# Asked by a signal: it saves the count of its steps, with that as the label.
COUNTS = 'n=0; save() { . "$CKPT_DIR/request"; echo $n >"$directory/n"; chmod 640 "$directory/n"; ' \
    'printf "hint=%s\\nbytes=1\\nstatus=0\\nstep=$n\\n" "$hint" >"$CKPT_DIR/done.new"; mv "$CKPT_DIR/done.new" "$CKPT_DIR/done"; }; ' \
    'trap save USR1; while :; do n=$((n + 1)); sleep 0.3; done'


def the_folder_of_a_job_without_a_cluster_becomes_the_first_checkpoint_of_a_job():
    """S4-007, V-014: its newest whole one, with its step and its modes; not while its ckpt-run writes there, and a damaged one by no means."""
    with Users(owners_register="yes") as cluster:
        cluster.start()
        leader_is_there(cluster)
        alone, log = cluster.folder(ALICE) / "alone", cluster.dir / "alone.log"
        line = [str(cluster.bin / "ckpt-run"), "--standalone", "--every", "1s", "--dir", str(alone), "--work-dir", str(cluster.folder(ALICE) / "w"),
                "--", "bash", "-c", COUNTS]
        run = subprocess.Popen(line, user=ALICE.pw_uid, group=ALICE.pw_gid, extra_groups=[], stdout=open(log, "w"), stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL)
        wait_until("it is saved twice", lambda: log.read_text().count("is written and verified") == 2, 20, 0.02)
        assert cluster.asks(ALICE, "register", "--alloc", "mine", *WHERE)[0] == 0
        code, out, error = imports(cluster, ALICE, "mine", alone)
        assert code == 4 and f"pid {run.pid} on " in error, (code, out, error)
        run.terminate()
        run.wait()
        older, newest = sorted((alone / "standalone" / "checkpoints").iterdir(), key=lambda p: int(p.name.split("-")[1]))[-2:]
        count = int((newest / "part-0000" / "n").read_text())
        with open(older / "part-0000" / "n", "r+") as file:
            file.write("x")
        code, out, error = imports(cluster, ALICE, "mine", older / "part-0000")
        assert code == 4 and "has a MANIFEST" in error and "not what was written" in error, (code, out, error)
        code, out, error = imports(cluster, ALICE, "mine", alone)
        assert code == 0 and f"{newest}/part-0000 is its checkpoint" in out and "verified" in out, (code, out, error)
        record, = cluster.checkpoints("mine")
        assert record.state == COMPLETE and record.label == str(count), record
        run, log = begins(cluster, ALICE, "mine", LOOKS)
        wait_until("it says what it found", lambda: "label=" in log.read_text(), 20)
        found = log.read_text()
        assert "\nn f 640 \n" in found and f"\n{count}\n" in found and f"label={count}\n" in found and "MANIFEST" not in found, found
        run.kill()
        run.wait()
        cluster.debug_check()


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become two users")
        sys.exit(0)
    sys.exit(main([a_folder_becomes_the_first_checkpoint_of_a_job_and_its_next_start_begins_there,
                   what_cannot_be_imported_is_refused_by_name_before_anything_starts, an_import_that_fails_leaves_the_job_for_another_try,
                   a_checkpoint_of_two_nodes_goes_from_one_cluster_into_another,
                   the_folder_of_a_job_without_a_cluster_becomes_the_first_checkpoint_of_a_job]))
