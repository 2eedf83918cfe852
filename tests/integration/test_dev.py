#!/usr/bin/python3
"""ckptctl dev: a cluster for trying out is there in seconds, beside another one, and leaves no process and no file, also when its ckptctl is killed.
(S2: the way in; O-003: errors carry a next step.)"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, tap, wait_until  # noqa: E402


class Dev:
    def __init__(self, folder, **environment):
        self.folder = folder / "dev"
        self.told = folder / "told"
        self.process = subprocess.Popen([BIN / "ckptctl", "dev", "--dir", self.folder], stdout=self.told.open("w"), stderr=subprocess.STDOUT,
                                        start_new_session=True, env={**os.environ, **environment})

    def text(self):
        return self.told.read_text()

    def wait(self):
        wait_until("the cluster is ready", lambda: "Ctrl-C" in self.text() or self.process.poll() is not None, 40)
        assert self.process.poll() is None, self.text()
        return self

    def next_lines(self):
        lines = self.text().split("Next, in another terminal:\n")[1].split("\n\n")[0].split("\n")
        return [line.strip() for line in lines if not line.strip().startswith("export")]

    def run(self, line):
        endpoints = re.search(r"CKPT_ENDPOINTS=(\S+)", self.text())[1]
        return subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "CKPT_ENDPOINTS": endpoints})

    def processes(self):
        """All that have to do with its folder."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(self.folder) in text:
                found.append(int(entry.name))
        return found

    def wait_gone(self):
        wait_until("no process and no file is left", lambda: not self.processes() and not self.folder.exists(), 15)


def two_clusters_are_there_and_leave_nothing():
    """What a user types first: the five lines it names work, a killed leader comes back, Ctrl-C ends it. A second one beside it is killed itself."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dev-"))
    devs = [Dev(folder / name) for name in ("one", "two") if (folder / name).mkdir() is None]
    try:
        for dev in devs:
            dev.wait()
        lines = devs[0].next_lines()
        assert len(lines) == 5, lines
        for line in lines:
            # the first evaluation is up to a second away
            wait_until(f"works: {line}", lambda line=line: devs[0].run(line).returncode == 0, 15)
        assert "COMPLETE" in devs[0].run("ckptctl checkpoints").stdout
        told = devs[0].run(f"ckptctl debug bundle {folder}/bundle.tar")
        assert told.returncode == 8, told.stdout + told.stderr  # this machine has no installed daemons
        with tarfile.open(folder / "bundle.tar") as bundle:
            assert {member["name"] for member in json.load(bundle.extractfile("ckpt-bundle/status.json"))["status"]["members"]} == {"n1", "n2", "n3"}
            assert "count-a" in bundle.extractfile("ckpt-bundle/jobs.json").read().decode()
            assert "ckpt-bundle/INDEX" in bundle.getnames()
        wait_until("the killed member comes back", lambda: "is started again" in devs[0].text(), 15)
        devs[1].process.kill()
        devs[1].process.wait()
        devs[1].wait_gone()
        assert devs[0].run("ckptctl status").returncode == 0, "the other cluster went with it"
        devs[0].process.send_signal(signal.SIGINT)
        assert devs[0].process.wait(15) == 0, devs[0].text()
        devs[0].wait_gone()
    finally:
        for dev in devs:
            dev.process.kill()
            dev.process.wait()
            dev.wait_gone()
        shutil.rmtree(folder)


def another_clusters_exports_do_not_reach_it():
    """As the pages for operators have them: certificates, a key, endpoints."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dev-"))
    dev = Dev(folder, CKPT_CA="/nonexistent/ca.crt", CKPT_CERT="/nonexistent/o.crt", CKPT_KEY="/nonexistent/o.key", CKPT_ENDPOINTS="127.0.0.1:1")
    try:
        dev.wait()
        assert "; unset CKPT_CA CKPT_CERT CKPT_KEY\n" in dev.text(), dev.text()  # for the other terminal
        assert dev.run("ckptctl status").returncode == 0
    finally:
        dev.process.kill()
        dev.process.wait()
        dev.wait_gone()
        shutil.rmtree(folder)


def a_job_of_ones_own_runs_there_and_ends_with_it():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dev-"))
    dev = Dev(folder)
    own = None
    try:
        dev.wait()
        lines = dev.text().split("A job of your own")[1].split(":\n", 1)[1].split("\n\n")[0]
        assert "-- sleep 60" in lines, lines
        own = subprocess.Popen(lines.replace("-- sleep 60", f"-- {shutil.which('sleep')} 7654"), shell=True, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        wait_until("it runs", lambda: "mine" in dev.run("ckptctl jobs --state=RUNNING -oname").stdout or own.poll() is not None, 20)
        assert own.poll() is None, own.communicate()
        dev.process.send_signal(signal.SIGINT)
        assert dev.process.wait(20) == 0, dev.text()
        assert re.search(r"job mine \(pid \d+\) ran at an agent of this cluster: it is ended", dev.text()), dev.text()
        dev.wait_gone()
        own.communicate(timeout=10)
        own = None
    finally:
        dev.process.kill()
        dev.process.wait()
        dev.wait_gone()
        if own is not None:
            os.killpg(own.pid, signal.SIGKILL)
        shutil.rmtree(folder)


def a_failed_start_leaves_no_folder():
    """A ckptd beside it that ends at once; --keep leaves its logs."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dev-"))
    try:
        for name in ("ckptctl", "ckpt-agentd", "ckpt-run", "ckpt-worker"):
            shutil.copy(BIN / name, folder)
        (folder / "ckptd").write_text("#!/bin/sh\necho nothing goes here\nexit 1\n")
        (folder / "ckptd").chmod(0o755)
        for keep in ([], ["--keep"]):
            failed = subprocess.run([folder / "ckptctl", "dev", "--dir", folder / "dev", *keep], capture_output=True, text=True, timeout=60)
            assert failed.returncode == 1 and "ckptd n1 has ended" in failed.stderr and "nothing goes here" in failed.stderr, failed.stderr
            assert (folder / "dev" / "n1.log").exists() == bool(keep), failed.stderr
    finally:
        shutil.rmtree(folder)


def what_cannot_be_is_said():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dev-"))
    try:
        there = subprocess.run([BIN / "ckptctl", "dev", "--dir", folder], capture_output=True, text=True)
        assert there.returncode == 1 and "File exists; --dir names a folder that is not there yet" in there.stderr, there.stderr
        blank = subprocess.run([BIN / "ckptctl", "dev", "--dir", folder / "a b"], capture_output=True, text=True)
        assert blank.returncode == 1 and "without blanks" in blank.stderr and not (folder / "a b").exists(), blank.stderr
        long = subprocess.run([BIN / "ckptctl", "dev", "--dir", folder / ("x" * 90)], capture_output=True, text=True)
        assert long.returncode == 1 and "at most 80 bytes" in long.stderr, long.stderr
        shutil.copy(BIN / "ckptctl", folder)
        alone = subprocess.run([folder / "ckptctl", "dev"], capture_output=True, text=True, env={"PATH": "/nonexistent"})
        assert alone.returncode == 1 and "the package ckpt-server has it" in alone.stderr, alone.stderr
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(tap([two_clusters_are_there_and_leave_nothing, another_clusters_exports_do_not_reach_it, a_job_of_ones_own_runs_there_and_ends_with_it,
                  a_failed_start_leaves_no_folder, what_cannot_be_is_said]))
