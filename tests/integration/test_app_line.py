#!/usr/bin/python3
"""The agent's socket for ranks, with both libraries as its clients: build/bin/app_line is the agent's own code with a job that the test plays."""
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from app_agents import Lines, unlaunched  # noqa: E402
from cluster import BUILD, ROOT, tap  # noqa: E402

DRIVERS = {"c": [str(BUILD / "bin" / "app_driver")], "python": ["/usr/bin/python3", "-B", str(ROOT / "tests" / "support" / "app_driver.py")]}
NOBODY = 65534


class Played:
    """The agent's socket and its job j1, run 3, part 1 of 2."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="app-line-"))
        self.folder.chmod(0o755)
        self.ranks = []
        self.come()

    def come(self):
        self.agent = Lines([BUILD / "bin" / "app_line", self.folder / "s", "j1", 3, 1, 2], cwd=self.folder)
        assert self.agent.hear() == "listening"
        (self.folder / "s").chmod(0o777)

    def rank(self, kind, uid=None, **environment):
        told = {"CKPT_APP_SOCKET": str(self.folder / "s"), "CKPT_DIR": str(self.folder), "CKPT_ALLOCATION_ID": "j1", "CKPT_RUN": "3"}
        rank = Lines(DRIVERS[kind], env={**unlaunched(), **told, **environment}, user=uid)
        self.ranks.append(rank)
        assert rank.hear() == "open"
        return rank

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.close(may_end=(0, -signal.SIGKILL))
        self.agent.close()
        shutil.rmtree(self.folder)


def call(rank, text):
    rank.tell(text)
    return rank.hear()


def until(rank, text, wanted, seconds=10):
    """The call again and again, until it gives what is wanted."""
    end = time.monotonic() + seconds
    while (outcome := call(rank, text)) != wanted:
        assert time.monotonic() < end, f"{text} gives {outcome!r}, not {wanted!r}"
        time.sleep(0.01)


def each(test):
    for kind in DRIVERS:
        with Played() as played:
            test(played, kind)


def registered(played, rank, number, way="plain", call_with="poll"):
    """It says first that it is opened, and more by its first call."""
    assert played.agent.hear() == f"registered {number} {rank.process.pid} opened"
    registered_again(played, rank, number, way, call_with, gone=f"gone {number}")


def registered_again(played, rank, number, way="plain", call_with="poll", gone=None):
    assert call(rank, call_with) == "go on"
    assert gone is None or played.agent.hear() == gone
    assert played.agent.hear() == f"registered {number} {rank.process.pid} {way}"


def saved(played, kind):
    rank = played.rank(kind)
    registered(played, rank, 0)
    played.agent.tell("ask 0 1-42-1 1999999999999 60000 out/1-42-1/rank-00000")
    until(rank, "poll", "now")
    assert call(rank, "tell") == f"1-42-1 {played.folder}/out/1-42-1/rank-00000 1999999999999 part 0 of 1 rank 0"
    assert [call(rank, "progress 250000"), played.agent.hear()] == ["said", "progress 0 1-42-1 250000"]
    assert [call(rank, "done 127 4096"), played.agent.hear()] == ["said", "done 0 1-42-1"]
    assert (played.folder / "done.0").read_text().startswith("hint=1-42-1\nbytes=4096\nstatus=0\nstep=127\n")
    played.agent.tell("ask 0 1-43-1 1999999999999 60000 out/1-43-1/rank-00000")
    until(rank, "poll", "now")
    assert [call(rank, "defer 900"), played.agent.hear()] == ["said", "defer 0 1-43-1 900"]
    played.agent.tell("ask 0 1-43-2 1999999999999 0 out/1-43-2/rank-00000")
    until(rank, "poll", "now")
    played.agent.tell("withdrawn 0 1-43-2")
    until(rank, "progress 1", "withdrawn")
    assert call(rank, "done 5 5") == "withdrawn"


def test_a_rank_saves_defers_and_hears_that_it_was_withdrawn():
    each(saved)


def met(played, kind):
    rank = played.rank(kind, OMPI_COMM_WORLD_RANK="3", OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_RANK="1", OMPI_COMM_WORLD_LOCAL_SIZE="2")
    registered(played, rank, 3, "barrier", "barrier 1")
    played.agent.tell("ask 3 1-9-1 1999999999999 0 out/1-9-1/rank-00003")
    time.sleep(0.3)
    assert call(rank, "barrier 2") == "go on"
    heard = played.agent.hear()
    assert re.fullmatch(r"at 3 1-9-1 2 [1-9]\d*", heard), (kind, heard)
    played.agent.tell("step 3 1-9-1 5")
    time.sleep(0.3)
    assert [call(rank, f"barrier {step}") for step in (3, 4, 5)] == ["go on", "go on", "now"]
    assert [call(rank, "done 5 1"), played.agent.hear()] == ["said", "done 3 1-9-1"]
    played.agent.tell("ask 3 1-9-2 1999999999999 0 out/1-9-2/rank-00003")
    time.sleep(0.3)
    assert call(rank, "barrier 70") == "go on"
    assert played.agent.hear().startswith("at 3 1-9-2 70 ")
    played.agent.tell("step 3 1-9-2 60")
    time.sleep(0.3)
    assert call(rank, "barrier 71") == "go on"
    assert played.agent.hear().startswith("missed 3 1-9-2 7")


def test_a_rank_meets_at_the_agreed_step_or_says_that_it_is_behind():
    each(met)


def refused(played, kind):
    for environment, why in (({"CKPT_ALLOCATION_ID": "j2"}, "the agent refused: user {uid} has no job j2 on this node; start the program by ckpt-run as its owner"),
                             ({"CKPT_RUN": "2"}, "the agent refused: job j1 is at run 3, this program was started for run 2"),
                             ({"RANK": "300", "WORLD_SIZE": "400"}, "the agent refused: this number is too high for a node")):
        rank = played.rank(kind, **environment)
        assert call(rank, "poll") == "go on"
        time.sleep(0.3)
        assert call(rank, "poll") == "go on"
        assert call(rank, "error") == why.format(uid=os.getuid())
    rank = played.rank(kind)
    registered(played, rank, 0)
    played.agent.tell("refuse 0 later")
    time.sleep(0.3)
    call(rank, "poll")
    assert call(rank, "error") == "the agent refused: later"


def test_a_rank_that_is_refused_can_say_why():
    each(refused)


def test_another_user_is_refused_and_hears_nothing_of_the_job():
    if os.getuid() != 0:
        return "needs root"
    with Played() as played:
        rank = played.rank("c", uid=NOBODY)
        assert call(rank, "poll") == "go on"
        time.sleep(0.3)
        assert call(rank, "poll") == "go on"
        assert call(rank, "error") == f"the agent refused: user {NOBODY} has no job j1 on this node; start the program by ckpt-run as its owner"


def bears(played, kind):
    rank = played.rank(kind)
    registered(played, rank, 0)
    played.agent.tell("ask 0 1-42-1 1999999999999 60000 out/1-42-1")
    until(rank, "poll", "now")
    played.agent.process.kill()
    played.agent.close(may_end=(-signal.SIGKILL,))
    assert call(rank, "done 127 4096") == "said" and (played.folder / "done.0").exists()
    (played.folder / "s").unlink()
    played.come()
    time.sleep(1.1)
    registered_again(played, rank, 0)
    assert played.agent.hear() == "done 0 1-42-1"


def test_a_rank_comes_back_to_an_agent_that_was_killed():
    each(bears)


def progressed(played, kind):
    rank = played.rank(kind)
    registered(played, rank, 0)
    played.agent.tell("ask 0 1-42-1 1999999999999 60000 out/1-42-1")
    until(rank, "poll", "now")
    for _ in range(100):  # 3000 calls, in less than a second by a C program
        rank.process.stdin.write("progress 5\n" * 30)
        assert [rank.hear() for _ in range(30)] == ["said"] * 30
    assert call(rank, "done 127 4096") == "said"
    said = [played.agent.hear()]
    while said[-1] != "done 0 1-42-1":
        said.append(played.agent.hear())
    assert said[0] == "progress 0 1-42-1 5" and len(said) < 50, said


def test_a_rank_may_call_progress_as_often_as_it_likes():
    each(progressed)


def turned(played, kind):
    rank = played.rank(kind)
    registered(played, rank, 0)
    assert call(rank, "barrier 1") == "go on"
    said = []
    end = time.monotonic() + 10
    while f"registered 0 {rank.process.pid} barrier" not in said:
        assert time.monotonic() < end, said
        call(rank, f"barrier {len(said) + 2}")
        time.sleep(0.1)
        with played.agent.turn:
            said += played.agent.said
            played.agent.said.clear()


def test_a_plain_rank_turns_to_the_barrier():
    each(turned)


def test_four_ranks_of_both_kinds_share_a_socket():
    with Played() as played:
        ranks = [played.rank(("c", "python")[number % 2], RANK=str(number), WORLD_SIZE="4", LOCAL_RANK=str(number), LOCAL_WORLD_SIZE="4") for number in range(4)]
        opened = sorted(played.agent.hear() for _ in ranks)
        assert opened == [f"registered {number} {rank.process.pid} opened" for number, rank in enumerate(ranks)], opened
        for number, rank in enumerate(ranks):
            registered_again(played, rank, number, gone=f"gone {number}")
        for number in range(4):
            played.agent.tell(f"ask {number} 1-1-1 1999999999999 0 out/1-1-1/rank-{number:05}")
        for rank in ranks:
            until(rank, "poll", "now")
        assert [call(rank, "done 7 1") for rank in ranks] == ["said"] * 4
        assert sorted(played.agent.hear() for _ in ranks) == [f"done {number} 1-1-1" for number in range(4)]
        second = played.rank("c", RANK="2", WORLD_SIZE="4")  # a stream takes the place of the one before it
        assert played.agent.hear() == f"registered 2 {second.process.pid} opened"
        assert played.agent.hear() == "gone, another came"
        registered_again(played, second, 2, gone="gone 2")
        ranks[0].process.kill()
        assert played.agent.hear() == "gone 0"


if __name__ == "__main__":
    sys.exit(tap([test for name, test in list(globals().items()) if name.startswith("test_")]))
