#!/usr/bin/python3
"""The log of a ckptd that has HTCondor's names of it: where it goes, how large it grows, what it says, and what a disk without room costs.
S2-015."""
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, http_get, wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402

LIMIT = 65536


def name_log(cluster, path, more=""):
    with open(cluster.config, "a") as config:
        config.write(f"htcondor:\n  CKPT_SERVER_LOG: {path}\n  MAX_CKPT_SERVER_LOG: {LIMIT}\n{more}")


def say_something(member):
    """It dumps what it knows of itself, several lines."""
    member.kill(signal.SIGUSR2)
    assert http_get(member.http, "/livez")[0] == 200


def stop(member):
    member.kill(signal.SIGTERM)
    assert member.process.wait(10) == 0


def messages_go_to_the_file_which_is_rotated_and_outlives_a_restart():
    """S2-015: path, size, what was before kept as .old, verbosity."""
    with Cluster(members=1, agents=("a",), policy={"node_degraded_after": "300ms"}) as cluster:
        log = cluster.dir / "condor.log"
        old = cluster.dir / "condor.log.old"
        name_log(cluster, log, "  CKPT_SERVER_DEBUG: D_FULLDEBUG\n")
        cluster.start()
        member = cluster.wait_leader()
        wait_until("it says that it leads", lambda: "role=leader" in log.read_text(), 10)
        wait_until("its agent was heard", lambda: "ready" in cluster.ctl("nodes").stdout, 20)
        cluster.agents["a"].kill()
        wait_until("it says what only debug shows", lambda: "level=debug" in log.read_text(), 20)
        assert "event=" not in member.log.read_text(), "stderr has only what the file does not take"
        wait_until("it is rotated", lambda: say_something(member) or old.exists(), 60, 0)
        for path in (log, old):
            assert path.stat().st_size <= LIMIT, path
            assert all(line.startswith("time=") for line in path.read_text().splitlines()), "no line is cut"
        before = log.read_text()
        stop(member)
        member.start()
        wait_until("it goes on", lambda: log.read_text().count("event=log_file_opened") >= 1, 10)
        assert log.read_text().startswith(before[:200]), "a restart appends"
        stop(member)


def what_cannot_be_the_file_is_refused_at_the_start():
    """S2-015."""
    with Cluster(members=1) as cluster:
        missing = cluster.dir / "none" / "log"
        name_log(cluster, missing)
        refused = subprocess.run([str(cluster.bin / "ckptd"), "--config", str(cluster.config), "--name", "n1", "--bootstrap"],
                                 capture_output=True, text=True, timeout=20, cwd=cluster.dir)
        assert refused.returncode == 2, refused
        assert f"error: htcondor.CKPT_SERVER_LOG: log file {missing}: No such file or directory: make its folder" in refused.stderr, refused.stderr


@needs("mount")
def a_full_disk_is_told_at_the_start_and_later_costs_no_line():
    """S2-015: the member serves meanwhile, and stderr has what the file does not take."""
    with Cluster(members=1) as cluster:
        small = cluster.dir / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)], check=True)
        filler, log = small / "filler", small / "log"
        filler.write_bytes(b"x" * 65536)
        name_log(cluster, log)
        member = cluster.members[0]
        refused = subprocess.run([str(cluster.bin / "ckptd"), "--config", str(cluster.config), "--name", "n1", "--bootstrap"],
                                 capture_output=True, text=True, timeout=20, cwd=cluster.dir)
        assert refused.returncode == 1 and f"log file {log} takes no line: No space left on device" in refused.stderr, refused
        filler.write_bytes(b"x" * 32768)
        cluster.start()
        assert "event=" not in member.log.read_text()
        wait_until("the disk is full", lambda: say_something(member) or "event=log_file_failed" in member.log.read_text(), 60, 0)
        for _ in range(20):
            say_something(member)
        said = member.log.read_text()
        wait_until("lines go to stderr", lambda: member.log.read_text().count("event=") > 20, 10, 0.05)
        assert said.count("event=log_file_failed") == 1, "once"
        filler.unlink()
        held = log.stat().st_size
        wait_until("the file takes lines again", lambda: say_something(member) or log.stat().st_size > held, 20, 0.05)
        stop(member)


if __name__ == "__main__":
    sys.exit(main([messages_go_to_the_file_which_is_rotated_and_outlives_a_restart, what_cannot_be_the_file_is_refused_at_the_start,
          a_full_disk_is_told_at_the_start_and_later_costs_no_line]))
