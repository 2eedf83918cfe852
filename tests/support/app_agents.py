"""Agents as programs with libckptapp see them: a work folder and a socket for each node, and one who has them agree on a step. It stands in
for the real ones where a test is about the programs."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
from urllib.parse import unquote

LAUNCHER = re.compile(r"(CKPT|OMPI|PMI|PMIX|MV2|SLURM)_|RANK$|WORLD_SIZE$")
LEAD_NS = 200_000_000


class Rank:
    def __init__(self, stream, words):
        self.stream = stream
        self.number, self.way = int(words[4]), words[8]
        self.at, self.missed, self.done = None, None, False

    def say(self, *words):
        try:
            self.stream.sendall((" ".join(str(word) for word in words) + "\n").encode())
        except OSError:
            pass  # it has gone


class Node:
    def __init__(self, job, part):
        self.job, self.part = job, part
        self.folder = job.folder / f"node-{part}-{job.run}"
        self.folder.mkdir()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / "s"))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def environment(self):
        told = {"CKPT_APP_SOCKET": self.folder / "s", "CKPT_DIR": self.folder, "CKPT_ALLOCATION_ID": "j1", "CKPT_RUN": self.job.run,
                "CKPT_NODE_ID": f"n{self.part}", "CKPT_PART": self.part, "CKPT_PARTS": self.job.parts}
        if self.job.restore:
            told.update({"CKPT_RESTORE_DIR": self.job.restore, "CKPT_RESTORE_LABEL": self.job.label})
        kept = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
        return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **{name: str(value) for name, value in told.items()}}

    def accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        rank = None
        try:
            for line in stream.makefile():
                words = line.split()
                with self.job.turn:
                    if words[0] == "hello":
                        rank = Rank(stream, words)
                        assert unquote(words[2]) == "j1" and int(words[3]) == self.job.run, line
                        self.job.ranks[rank.number] = (self, rank)
                        rank.say("ready", 1, f"n{self.part}", self.part, self.job.parts)
                        self.job.tell(self, rank)
                        self.job.turn.notify_all()
                    else:
                        self.job.take(rank, words)
        except OSError:
            pass
        with self.job.turn:
            if rank is not None and self.job.ranks.get(rank.number, (None, None))[1] is rank:
                del self.job.ranks[rank.number]


class Job:
    """`parts` nodes; checkpoint() asks all ranks, has them agree and collects their files, as part-NNNN below a folder."""

    def __init__(self, folder, parts, run=1, restore=None, label=""):
        self.folder, self.parts, self.run, self.restore, self.label = pathlib.Path(folder), parts, run, restore, label
        self.turn, self.ranks = threading.Condition(), {}
        self.hint, self.agreed = None, None
        self.nodes = [Node(self, part) for part in range(parts)]

    def tell(self, node, rank):
        if self.hint is not None and not rank.done:
            folder = f"out/{self.hint}/rank-{rank.number:05}"
            (node.folder / folder).mkdir(parents=True, exist_ok=True)
            rank.say("ask", self.hint, int((time.time() + 60) * 1000), 0, folder)
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
        self.turn.notify_all()

    def wait(self, what, text, seconds=30):
        with self.turn:
            if not self.turn.wait_for(what, seconds):
                raise AssertionError(f"{text} within {seconds} s; ranks {sorted(self.ranks)}, at {[r.at for _, r in self.ranks.values()]}")

    def checkpoint(self, hint, ranks, lead_steps=None):
        """(labels of all ranks, folder with all parts); (None, None): a rank went past the agreed step. lead_steps: instead of 200 ms."""
        self.wait(lambda: len(self.ranks) == ranks, f"{ranks} ranks did not come")
        everyone = list(self.ranks.values())
        with self.turn:
            for _, rank in everyone:
                rank.at, rank.missed, rank.done = None, None, False
            self.hint, self.agreed = hint, None
            for node, rank in everyone:
                self.tell(node, rank)
        if any(rank.way == "barrier" for _, rank in everyone):
            self.wait(lambda: all(rank.at for _, rank in everyone), "not all ranks were at a step")
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
        for node in self.nodes:
            node.listener.close()


def start(node, command, **more):
    return subprocess.Popen([str(word) for word in command], env={**node.environment(), **more}, stdout=subprocess.PIPE, text=True, start_new_session=True)
