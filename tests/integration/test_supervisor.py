#!/usr/bin/python3
"""What a supervisor such as systemd hears of both daemons: that they are ready, that their loops run, that they stop; and its journal, how urgent a line is.
A real systemd: tests/systems/test_booted.py."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, free_port, tap, wait_until  # noqa: E402

WATCHDOG_US = 600000


class Supervisor:
    """A socket as systemd's, and a daemon that was started beside it."""

    def __init__(self, folder, arguments):
        self.heard, self.folder = [], folder
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{folder}/notify")
        self.socket.setblocking(False)
        with open(f"{folder}/log", "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, env={
                **os.environ, "NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": str(WATCHDOG_US)})

    def listen(self):
        try:
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return self.heard

    def hears(self, word, count=1):
        wait_until(f"{word} is heard", lambda: sum(word in text.split("\n") for text in self.listen()) >= count, 15)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.socket.close()

    def follow_to_the_end(self):
        self.hears("READY=1")
        self.hears("WATCHDOG=1", 3)
        self.process.send_signal(signal.SIGSTOP)  # stands for a loop that hangs
        time.sleep(0.05)
        self.listen()
        self.heard.clear()
        time.sleep(WATCHDOG_US / 1e6 * 1.5)
        assert self.listen() == [], self.heard
        self.process.send_signal(signal.SIGCONT)
        self.hears("WATCHDOG=1")
        self.process.send_signal(signal.SIGTERM)
        self.hears("STOPPING=1")
        assert self.process.wait(timeout=15) == 0


def lines_have_priorities_in_a_journal_alone():
    """systemd's journal is a stream whose device and number are in JOURNAL_STREAM; `journalctl -p warning` finds what begins with <4> or less."""
    with tempfile.TemporaryDirectory() as folder:
        for named in (True, False):
            ours, theirs = socket.socketpair()
            file = os.fstat(theirs.fileno())
            agent = subprocess.Popen([str(BIN / "ckpt-agentd"), "--config", "/dev/null", "--name", "gpu-a", "--brokers", f"127.0.0.1:{free_port()}",
                                      "--state-dir", f"{folder}/state", "--socket", f"{folder}/agent.sock"], stderr=theirs, stdin=subprocess.DEVNULL,
                                     env={**os.environ, "JOURNAL_STREAM": f"{file.st_dev}:{file.st_ino + (not named)}"})
            theirs.close()
            lines = ours.makefile()
            try:
                text = next(line for line in lines if "event=started" in line)
                assert text.startswith("<6>time=" if named else "time="), text
            finally:
                agent.kill()
                agent.wait()
                lines.close()
                ours.close()


def a_refused_start_has_its_priority_too():
    """Nobody has begun a log then: `journalctl -p err` finds the line all the same."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = pathlib.Path(folder, "wrong.yaml")
        wrong.write_text("no_such_key: 1\n")
        for line, said in (([BIN / "ckptd", "--config", wrong, "--name", "n1"], "<3>error: "), ([BIN / "ckpt-agentd", "--config", wrong, "--name", "a"], "<3>ckpt-agentd: ")):
            ours, theirs = socket.socketpair()
            file = os.fstat(theirs.fileno())
            refused = subprocess.run(line, stderr=theirs, stdin=subprocess.DEVNULL, env={**os.environ, "JOURNAL_STREAM": f"{file.st_dev}:{file.st_ino}"}, timeout=60, check=False)
            theirs.close()
            with ours, ours.makefile() as lines:
                text = lines.read()
            assert refused.returncode != 0 and text.startswith(said) and "no_such_key" in text, (refused, text)


def an_agent_is_ready_without_a_leader_and_feeds_its_watchdog():
    with tempfile.TemporaryDirectory() as folder:
        with Supervisor(folder, [str(BIN / "ckpt-agentd"), "--config", "/dev/null", "--name", "gpu-a", "--brokers",
                                 f"127.0.0.1:{free_port()}", "--state-dir", f"{folder}/state", "--socket",
                                 f"{folder}/agent.sock"]) as supervisor:
            supervisor.follow_to_the_end()


def a_member_is_ready_without_a_quorum_and_feeds_its_watchdog():
    with Cluster() as cluster:
        member = cluster.members[0]
        with Supervisor(cluster.dir, [str(BIN / "ckptd"), "--config", str(cluster.config), "--name", member.name, "--data-dir",
                                      str(member.data_dir), "--bootstrap"]) as supervisor:
            supervisor.hears("STATUS=waiting for quorum")
            supervisor.follow_to_the_end()


if __name__ == "__main__":
    sys.exit(tap([an_agent_is_ready_without_a_leader_and_feeds_its_watchdog, a_member_is_ready_without_a_quorum_and_feeds_its_watchdog,
                  lines_have_priorities_in_a_journal_alone, a_refused_start_has_its_priority_too]))
