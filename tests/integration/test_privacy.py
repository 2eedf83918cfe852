#!/usr/bin/python3
"""What the daemons have in memory, keys of certificates and of object stores among it, stays there: no core of them, no look into them."""
import os
import pathlib
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, free_port, tap, wait_until  # noqa: E402

NOBODY = pwd.getpwnam("nobody")


def agent(folder, program=BIN / "ckpt-agentd"):
    return [str(program), "--config", "/dev/null", "--name", "gpu-a", "--brokers", f"127.0.0.1:{free_port()}", "--state-dir",
            f"{folder}/state", "--socket", f"{folder}/agent.sock"]


def allow_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def leaves_core(arguments, folder, started):
    """Whether the kernel wrote one, of whatever name or by whatever program, when the process failed."""
    with open(f"{folder}/log", "ab") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, preexec_fn=allow_cores)
    try:
        wait_until("it has started", started, 15)
        os.kill(process.pid, signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = status
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV, status
        return os.WCOREDUMP(status)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def no_core_is_written_of_a_daemon():
    """... where one of any other program would be."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not leaves_core(["sleep", "60"], folder, lambda: True):
                return "this machine writes no cores"
        except subprocess.SubprocessError:
            return "the limit of cores cannot be lifted"
        assert not leaves_core(agent(folder), folder, lambda: "event=started" in pathlib.Path(f"{folder}/log").read_text())
    with Cluster() as cluster:
        member, = cluster.members[:1]
        assert not leaves_core([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", member.name, "--data-dir",
                                str(member.data_dir), "--bootstrap"], cluster.dir,
                               lambda: (cluster.dir / "log").exists() and "event=" in (cluster.dir / "log").read_text())


def no_process_of_the_same_user_looks_into_a_daemon():
    """Of an agent without root, whose jobs are of its own user."""
    if os.geteuid() != 0:
        return "needs root, to become another user"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copytree(BIN, folder / "bin")
        (folder / "bin").chmod(0o755)
        (folder / "run").mkdir()
        os.chown(folder / "run", NOBODY.pw_uid, NOBODY.pw_gid)
        folder.chmod(0o755)
        own = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": [], "stdin": subprocess.DEVNULL}
        with open(folder / "log", "ab") as log:
            daemon = subprocess.Popen(agent(folder / "run", folder / "bin" / "ckpt-agentd"), stdout=log, stderr=log, **own)
        other = subprocess.Popen(["sleep", "60"], **own)

        def looks(process):
            return subprocess.run(["head", "-c", "0", f"/proc/{process.pid}/mem"], capture_output=True, **own).returncode == 0
        try:
            wait_until("it has started", lambda: "event=started" in (folder / "log").read_text(), 15)
            assert looks(other), "what the test takes for a look is none"
            assert not looks(daemon)
        finally:
            for process in (daemon, other):
                process.kill()
                process.wait()


if __name__ == "__main__":
    sys.exit(tap([no_core_is_written_of_a_daemon, no_process_of_the_same_user_looks_into_a_daemon]))
