#!/usr/bin/python3
"""The work folder of a job: one job's alone, and never a folder with work of somebody's own in it."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, tap, wait_until  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, all_run, allocation_in, complete, COMPLETED, heat  # noqa: E402


def refused(cluster, allocation, folder):
    """What a start there is answered; nothing of it runs."""
    result = subprocess.run([str(BIN / "ckpt-run"), "--alloc", allocation, "--work-dir", str(folder), "--socket", str(cluster.agents["a"].socket), "--",
                             "sh", "-c", f"touch {cluster.dir}/ran"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    assert result.returncode == 125, result
    assert not (cluster.dir / "ran").exists()
    return result.stderr


def two_jobs_have_no_folder_in_common():
    """The second one would take the first one's questions, and empty what it writes into. The first one is checkpointed as before. I33, V-011."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        for name in ("first", "second"):
            cluster.register(name, [("a", 1, MIB)])
        job = cluster.run_job("a", "first", heat(cluster, "first"))
        all_run(cluster)
        link = cluster.dir / "link"
        link.symlink_to(job.work_dir)
        assert complete(cluster, "first").state == COMPLETE
        for folder in (job.work_dir, link):
            text = refused(cluster, "second", folder)
            assert f"the work folder {job.work_dir} is that of allocation first" in text or "runs in" in text, text
        job.kill()  # its keeper answers now
        assert "of allocation first runs in" in refused(cluster, "second", link)
        assert complete(cluster, "first").state == COMPLETE


def what_no_ckpt_run_has_made_is_never_removed():
    """A folder of results is called out/ in many projects, and --work-dir names it by mistake, or is `.`. The start says the entry and what to do;
    a folder without such entries is taken, and what else lies in it stays. V-011."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        for entry in ("out/result", "restore/backup", "copies/of/it", "request", "done"):
            folder = cluster.dir / f"project-{entry.split('/', maxsplit=1)[0]}"
            (folder / entry).parent.mkdir(parents=True)
            (folder / entry).write_text("work of a month")
            text = refused(cluster, "job", folder)
            assert f'has an entry "{entry.split("/", maxsplit=1)[0]}" that no ckpt-run has made' in text and "--work-dir" in text, text
            assert (folder / entry).read_text() == "work of a month"
        assert "control character" in refused(cluster, "job", f"{cluster.dir}/two\nlines")
        folder = cluster.dir / "mine"
        (folder / "out").mkdir(parents=True)  # as a script may make it
        (folder / "data").write_text("input")
        job = cluster.run_job("a", "job", ["sh", "-c", '[ "$CKPT_RESTART_COUNT" = 1 ] || { echo > $CKPT_DIR/out/left; kill -9 $$; }; cat $CKPT_DIR/data'],
                              ("--work-dir", str(folder)))
        assert job.process.wait(20) == 0, job.log.read_text()
        allocation_in(cluster, "job", COMPLETED)
        assert (folder / "data").read_text() == "input"
        wait_until("what was left is swept", lambda: not (folder / "out" / "left").exists(), 10)


def a_folder_that_was_removed_is_made_again_at_the_next_start():
    """Somebody cleans /var/tmp while the job computes; its application dies then. Its checkpoint lies elsewhere: it goes on from that, in a folder
    of the same name, and is checkpointed again. V-001."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.start()
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat(cluster, "job"))
        all_run(cluster)
        assert complete(cluster, "job").state == COMPLETE
        before = job.application_pid()
        shutil.rmtree(job.work_dir)
        os.kill(before, signal.SIGKILL)
        wait_until("it is started again", lambda: job.application_pid() not in (None, before), 20)
        all_run(cluster)
        assert "from checkpoint" in job.log.read_text(), job.log.read_text()
        assert (job.work_dir / "ckpt-run.folder").exists()
        assert complete(cluster, "job").state == COMPLETE


def a_full_work_folder_at_a_restart_is_named_and_is_no_full_destination():
    """The restored files find no room. What the job says names the folder, not the target, of which nobody hears anything; with room it goes on. V-001."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        work = cluster.dir / "work" / "job.a"
        work.mkdir(parents=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k,mode=700", "tmpfs", work], capture_output=True, text=True)
        if mounted.returncode != 0:
            print(f"# SKIP mount: {mounted.stderr.strip()}")
            return
        try:
            cluster.start()
            cluster.register("job", [("a", 1, MIB)])
            job = cluster.run_job("a", "job", [str(BIN / "heat"), "--size", "200", "--iterations", "100000000", "--delay-us", "2000"])
            all_run(cluster)
            assert complete(cluster, "job").state == COMPLETE
            before = job.application_pid()
            wait_until("nothing of the attempt is left", lambda: not any((work / "out").iterdir()), 20)
            with open(work / "filler", "wb") as filler:
                try:
                    filler.write(bytes(MIB))
                except OSError:
                    pass
            os.kill(before, signal.SIGKILL)
            wait_until("it says so", lambda: "when there is room in the work folder" in job.log.read_text(), 20)
            said = next(line for line in job.log.read_text().splitlines() if "when there is room in the work folder" in line)
            assert "there is no room for what is restored" in said and "No space left on device" in said, said
            assert said.endswith(f"in the work folder {work}") and re.search(r"checkpoint 1-\d+, [\d.]+ \S*B for this node, cannot be brought here", said), said
            assert "target" not in said and "storage full" not in said, said
            (work / "filler").unlink()
            wait_until("it is started again", lambda: job.application_pid() not in (None, before), 30)
            all_run(cluster)
        finally:
            subprocess.run(["umount", "-l", work], check=True)


if __name__ == "__main__":
    sys.exit(tap([two_jobs_have_no_folder_in_common, what_no_ckpt_run_has_made_is_never_removed,
                  a_folder_that_was_removed_is_made_again_at_the_next_start,
                  a_full_work_folder_at_a_restart_is_named_and_is_no_full_destination]))
