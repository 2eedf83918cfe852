#!/usr/bin/python3
"""The work folder of a job: one job's alone, and never a folder with work of somebody's own in it."""
import pathlib
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


if __name__ == "__main__":
    sys.exit(tap([two_jobs_have_no_folder_in_common, what_no_ckpt_run_has_made_is_never_removed]))
