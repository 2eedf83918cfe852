"""Agents as programs with libckptapp see them: a work folder and a socket for each node, and one who has them agree on a step. The socket is
the agent's own (build/bin/app_line); what is behind it stands in for the real ones where a test is about the programs."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

from cluster import BUILD

LAUNCHER = re.compile(r"(CKPT|OMPI|PMI|PMIX|MV2|SLURM)_|RANK$|WORLD_SIZE$")
LEAD_NS = 200_000_000


def unlaunched():
    """The environment of this process without what a launcher or ckpt-run told it."""
    return {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}


class Lines:
    """A program that is told and answers in lines. heard(line) hears each, in a thread; without it they are kept for hear()."""

    def __init__(self, command, heard=None, **more):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **more)
        self.said, self.turn, self.heard = [], threading.Condition(), heard or self.keep
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.heard(line.rstrip("\n"))

    def keep(self, line):
        with self.turn:
            self.said.append(line)
            self.turn.notify()

    def hear(self, seconds=10):
        with self.turn:
            while True:
                assert self.turn.wait_for(lambda: self.said, seconds), "nothing was said"
                said = self.said.pop(0)
                if not re.match(r"at \d+ - ", said):  # a step that nobody has asked for
                    return said

    def tell(self, text):
        self.process.stdin.write(text + "\n")

    def close(self, may_end=(0,)):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        assert self.process.wait(10) in may_end, self.process.returncode
        self.reader.join()


class Rank:
    def __init__(self, node, number, way):
        self.node, self.number, self.pid, self.way = node, number, None, way
        self.at, self.missed, self.done = None, None, False

    def say(self, verb, *words):
        with contextlib.suppress(BrokenPipeError):
            self.node.agent.tell(" ".join(str(word) for word in (verb, self.number, *words)))


class Node:
    def __init__(self, job, part):
        self.job, self.part = job, part
        self.folder = job.folder / f"node-{part}-{job.run}"
        self.folder.mkdir()
        self.come()

    def come(self):
        self.listens = threading.Event()
        self.agent = Lines([BUILD / "bin" / "app_line", self.folder / "s", "j1", self.job.run, self.part, self.job.parts], heard=self.hear, cwd=self.folder)
        assert self.listens.wait(10), "no socket"

    def exchange(self):
        """The agent is killed and another one comes: its ranks have to say again what they said."""
        self.agent.process.kill()
        self.agent.close(may_end=(-signal.SIGKILL,))
        (self.folder / "s").unlink()
        with self.job.turn:
            for node, rank in self.job.ranks.values():
                if node is self:
                    rank.at = None
        self.come()

    def environment(self):
        told = {"CKPT_APP_SOCKET": self.folder / "s", "CKPT_DIR": self.folder, "CKPT_ALLOCATION_ID": "j1", "CKPT_RUN": self.job.run,
                "CKPT_NODE_ID": f"n{self.part}", "CKPT_PART": self.part, "CKPT_PARTS": self.job.parts}
        if self.job.restore:
            told.update({"CKPT_RESTORE_DIR": self.job.restore, "CKPT_RESTORE_LABEL": self.job.label})
        return {**unlaunched(), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **{name: str(value) for name, value in told.items()}}

    def hear(self, line):
        if line == "listening":
            self.listens.set()
            return
        verb, number, *words = line.split()
        if not number.isdigit():
            return  # of a stream whose rank has come again, or of one that has gone before it was told
        with self.job.turn:
            if verb == "registered" and words[1] == "opened":
                return  # it has not come to its loop, and is not asked before
            if verb == "registered":
                _, rank = self.job.ranks.setdefault(int(number), (self, Rank(self, int(number), words[1])))
                rank.node, rank.pid, rank.way = self, int(words[0]), words[1]
                self.job.tell(rank)
            elif verb == "gone":
                self.job.ranks.pop(int(number), None)
            else:
                self.job.take(self.job.ranks[int(number)][1], [verb, *words])
            self.job.turn.notify_all()


class Job:
    """`parts` nodes; checkpoint() asks all ranks, has them agree and collects their files, as part-NNNN below a folder."""

    def __init__(self, folder, parts, run=1, restore=None, label=""):
        self.folder, self.parts, self.run, self.restore, self.label = pathlib.Path(folder), parts, run, restore, label
        self.turn, self.ranks = threading.Condition(), {}
        self.hint, self.agreed = None, None
        self.nodes = [Node(self, part) for part in range(parts)]

    def tell(self, rank):
        if self.hint is not None and not rank.done:
            rank.say("ask", self.hint, int((time.time() + 60) * 1000), 0, f"out/{self.hint}/rank-{rank.number:05}")
            if self.agreed is not None:
                rank.say("step", self.hint, self.agreed)

    def take(self, rank, words):
        if words[1] == self.hint:
            if words[0] == "at":
                rank.at = (int(words[2]), int(words[3]))
            elif words[0] == "missed":
                rank.missed = int(words[2])
            elif words[0] == "done":
                rank.done = True

    def wait(self, what, text, seconds=30):
        with self.turn:
            if not self.turn.wait_for(what, seconds):
                raise AssertionError(f"{text} within {seconds} s; ranks {sorted(self.ranks)}, at {[r.at for _, r in self.ranks.values()]}")

    def checkpoint(self, hint, ranks, lead_steps=None, meanwhile=None):
        """(labels of all ranks, folder with all parts); (None, None): a rank went past the agreed step. lead_steps: instead of 200 ms;
        meanwhile() is done when all ranks have been at a step, and none is agreed."""
        self.wait(lambda: len(self.ranks) == ranks, f"{ranks} ranks did not come")
        everyone = list(self.ranks.values())
        with self.turn:
            for _, rank in everyone:
                rank.at, rank.missed, rank.done = None, None, False
            self.hint, self.agreed = hint, None
            for _, rank in everyone:
                self.tell(rank)
        if any(rank.way == "barrier" for _, rank in everyone):
            self.wait(lambda: all(rank.at for _, rank in everyone), "not all ranks were at a step")
            if meanwhile is not None:
                meanwhile()
                self.wait(lambda: all(rank.at for _, rank in everyone), "not all ranks were at a step again")
            with self.turn:
                ats = [rank.at for _, rank in everyone]
                self.agreed = max(step + (lead_steps if lead_steps is not None else -(-LEAD_NS // ns) if ns else 0) for step, ns in ats) + 1
                for _, rank in everyone:
                    rank.say("step", hint, self.agreed)
        self.wait(lambda: all(rank.done or rank.missed for _, rank in everyone), "not all ranks were done")
        with self.turn:
            self.hint = None
            for _, rank in everyone:
                rank.say("withdrawn", hint)
        if any(rank.missed for _, rank in everyone):
            return None, None
        return self.collected(hint, everyone)

    def collected(self, hint, everyone):
        labels, together = {}, self.folder / f"checkpoint-{hint}"
        for node, rank in everyone:
            lines = dict(line.split("=", 1) for line in (node.folder / f"done.{rank.number}").read_text().splitlines())
            assert lines["hint"] == hint and lines["status"] == "0", lines
            labels[rank.number] = lines.get("step")
            saved = node.folder / "out" / hint / f"rank-{rank.number:05}"
            size = sum(file.stat().st_size for file in saved.rglob("*") if file.is_file())
            assert size == int(lines["bytes"]), f"rank {rank.number}: {size} bytes are there, {lines['bytes']} were told"
            shutil.copytree(saved, together / f"part-{node.part:04}" / saved.name)
        return labels, together

    def close(self):
        """Ends what is left of the ranks too: they outlive a launcher that is killed."""
        with self.turn:
            for _, rank in self.ranks.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, signal.SIGKILL)
        for node in self.nodes:
            node.agent.close()


def start(node, command, **more):
    return subprocess.Popen([str(word) for word in command], env={**node.environment(), **more}, stdout=subprocess.PIPE, text=True, start_new_session=True)
