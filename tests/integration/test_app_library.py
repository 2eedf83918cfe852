#!/usr/bin/python3
"""libckptapp and its Python module, written apart from each other, say and do the same against one scripted agent. Also what only the
module has: saving(), the helpers for PyTorch (with a stand-in for torch), forks and threads; and what is installed."""
import contextlib
import io
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BUILD, ROOT, tap  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
import ckptapp  # noqa: E402

DRIVERS = {"c": [str(BUILD / "bin" / "app_driver")], "python": ["/usr/bin/python3", "-B", str(ROOT / "tests" / "support" / "app_driver.py")]}
LAUNCHER = re.compile(r"(CKPT|OMPI|PMI|PMIX|MV2|SLURM)_|RANK$|WORLD_SIZE$")


class Agent:
    """A work folder and the socket in it."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ckptapp-"))
        self.listener = self.stream = self.lines = None
        self.come()

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
        return {**kept, "CKPT_APP_SOCKET": str(self.folder / "s"), "CKPT_DIR": str(self.folder), "CKPT_ALLOCATION_ID": "j%1 ü", "CKPT_RUN": "3", **more}

    def come(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(10)
        self.listener.bind(str(self.folder / "s"))
        self.listener.listen(8)

    def go(self):
        for end in (self.lines, self.stream, self.listener):
            if end is not None:
                end.close()
        self.lines = self.stream = self.listener = None
        (self.folder / "s").unlink(missing_ok=True)

    def accept(self):
        connection, _ = self.listener.accept()
        connection.settimeout(10)
        self.stream, self.lines = connection, connection.makefile("rb")

    def line(self):
        return self.lines.readline().decode().rstrip("\n")

    def say(self, text):
        self.stream.sendall(text.encode("latin-1"))

    def done(self, rank=0):
        file = self.folder / f"done.{rank}"
        return re.sub(r"stall_ms=[1-9]\d*", "stall_ms=N", file.read_text()) if file.exists() else "nothing"

    def close(self):
        self.go()
        shutil.rmtree(self.folder)


class Driven(Agent):
    """... and a program that makes the calls; `log` is all that was seen, without what differs from run to run."""

    def __init__(self, kind, **environment):
        super().__init__()
        self.log = []
        self.process = subprocess.Popen(DRIVERS[kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment(**environment))
        self.note(self.process.stdout.readline())

    def note(self, text):
        text = re.sub(r"^(< at \S+ \d+) [1-9]\d*$", r"\1 NS", text.strip("\n").replace(str(self.folder), "WORK"))
        self.log.append(text)
        return text

    def call(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.note(self.process.stdout.readline())

    def hear(self):
        return self.note("< " + self.line())

    def file(self, rank=0):
        return self.note(self.done(rank))

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        super().close()


def hello(driven, call):
    driven.accept()
    driven.hear()  # that it is opened
    driven.call(call)
    driven.hear()


def hello_again(driven, call):
    driven.call(call)
    driven.accept()
    driven.hear()


def ask(hint, rank=0, deferral_ms=60000, deadline_ms=1700000000000):
    return f"ask {hint} {deadline_ms} {deferral_ms} out/{hint}/rank-{rank:05}\n"


def script_polls(d):
    hello(d, "poll")
    d.say("ready 1 n%31 0 1\n" + ask("1-42-1"))
    for call in ("poll", "tell", "poll", "progress 250000"):
        d.call(call)
    d.hear()
    for call in ("done 127 4096", "tell", "done 127 1"):
        d.call(call)
    d.hear()
    d.file()
    d.say(ask("1-42-1"))
    d.call("poll")
    d.hear()
    d.say(ask("1-43-1"))
    for call in ("poll", "label a b", "label", "poll"):
        d.call(call)
    d.hear()
    d.file()
    d.call("saved_at 1700000000000")  # nothing is being saved
    for number, call in enumerate(("saved_at 1700000000123", "saved_at 0", "tell")):  # of one saving alone
        d.say(ask(f"1-45-{number + 1}"))
        for line in ("poll", call, "done 128 1"):
            d.call(line)
        d.hear()
        d.file()
    for number, text in enumerate(("0", "no room", "x" * 300, "tab\there", "")):
        d.say(ask(f"1-44-{number + 1}"))
        d.call("poll")
        d.call(f"failed {text}")
        d.hear()
        d.file()


def script_withdrawals(d):
    hello(d, "poll")
    d.say(ask("1-42-1") + "withdrawn 1-42-1\n")
    d.call("poll")
    d.say(ask("1-42-2"))
    d.call("poll")
    d.say("withdrawn 1-42-1\n")
    d.call("progress 5")
    d.hear()
    d.say("withdrawn 1-42-2\n")
    for call in ("progress 6", "tell", "done 5 5", "tell"):
        d.call(call)
    d.file()
    d.say(ask("1-43-1"))
    d.call("poll")
    d.say(ask("1-44-1"))
    for call in ("poll", "failed late", "poll", "tell", "defer 60001", "defer 0", "defer 900"):
        d.call(call)
    d.hear()
    d.say(ask("1-44-1", deferral_ms=0, deadline_ms=1800000000000))
    for call in ("poll", "tell", "defer 1"):
        d.call(call)
    d.say(ask("1-44-1", deadline_ms=1900000000000))
    for call in ("progress 9", "tell"):
        d.call(call)


def script_barriers(d):
    hello(d, "barrier 10")
    d.say(ask("1-9-1", rank=2))
    d.call("barrier 20")
    d.hear()
    d.call("poll")
    d.say("step 1-9-1 31\n")
    for call in ("barrier 30", "barrier 40", "tell", "barrier 50", "label", "done 40 7"):
        d.call(call)
    d.hear()
    d.file(2)
    d.say(ask("1-9-2", rank=2))
    d.call("barrier 60")
    d.hear()
    d.say("step 1-9-2 60\n")
    d.call("barrier 70")
    d.hear()
    d.say("step 1-9-2 80\n" + "withdrawn 1-9-2\n" + ask("1-9-3", rank=2) + "step 1-9-3 81\n")
    for call in ("barrier 80", "barrier 90", "tell", "barrier 0"):
        d.call(call)


def script_steps(d):
    hello(d, "barrier 10")
    d.say("ready 1 n 0 1\nstep - 1\n")
    d.call("barrier 11")
    d.hear()
    for call in ("barrier 12", "barrier 13", "step 14"):  # within a second
        d.call(call)
    time.sleep(1.05)
    d.call("barrier 11")  # the one that was told
    d.call("barrier 15")
    d.hear()
    d.say(ask("1-9-1"))
    d.call("barrier 16")
    d.hear()
    d.say("withdrawn 1-9-1\n")
    d.call("barrier 17")
    d.go()
    d.call("barrier 17")
    d.come()
    time.sleep(1.1)
    for call in ("barrier 18", "step 19"):  # this agent has not said that it wants to hear
        d.call(call)
    d.accept()
    d.hear()
    d.say(ask("1-9-2"))
    d.call("barrier 20")
    d.hear()


def script_steps_of_polls(d):
    hello(d, "poll")
    d.say("ready 1 n 0 1\nstep - 1\n")
    for call in ("step 0", "step 1", "step 2"):
        d.call(call)
    d.hear()
    time.sleep(1.05)
    for call in ("poll", "step 2"):
        d.call(call)
    d.hear()


def script_agent_away(d):
    hello(d, "barrier 10")
    d.say(ask("1-9-1"))
    d.call("barrier 11")
    d.hear()
    d.go()
    d.call("barrier 12")
    d.come()
    time.sleep(1.1)
    d.call("barrier 13")
    d.accept()
    d.hear()
    d.say(ask("1-9-1") + "step 1-9-1 15\n")
    for call in ("barrier 14", "barrier 15"):
        d.call(call)
    d.go()
    for call in ("progress 5", "defer 100", "done 15 1"):
        d.call(call)
    d.file()
    d.come()
    time.sleep(1.1)
    d.call("barrier 16")
    d.accept()
    d.hear()
    d.hear()


GARBAGE = ("\n", " \n", "ask\n", "ask 1-42-1 1 0 /etc\n", "ask 1-42-1 1 0 a/../b\n", "ask 1-42-1 1 0 %2e%2e\n", "ask 1-42-1 1 0 a%0\n", "ask 1-42-1 1 0 a%00\n",
           "ask 1-42-1 0 0 a\n", "ask 1-42-1 18446744073709551616 0 a\n", "ask 1-42-1  1 0 a\n", "step 1-42-1 0\n", "step 1-42-1 \u00b2\n", "ready 2 n 0 1\n",
           "ready 1 n 1 1\n", "refused no%0A\n", "x" * 600, "ask\x00 1-42-1 1 0 a\n", "ask 1-42-1 1 0 " + "a" * 256 + "\n", "ask " + "1" * 64 + " 1 0 a\n")


def script_unwritable(d):
    hello(d, "poll")
    d.say(ask("1-50-1"))
    d.call("poll")
    (d.folder / "done.0").mkdir()
    for call in ("done 1 1", "tell", "failed full", "tell"):
        d.call(call)
    (d.folder / "done.0").rmdir()
    d.say(ask("1-50-2"))
    for call in ("poll", "done 2 2"):
        d.call(call)
    d.hear()
    d.file()


def script_garbage(d):
    hello(d, "poll")
    for text in GARBAGE:
        d.say(text)
        for _ in range(3):
            d.call("poll")
        assert d.stream.recv(1) == b"" if len(text) < 512 else True, repr(text)
        time.sleep(1.05)
        hello_again(d, "poll")
    d.say("ask 1-42-1 1999999999999 0 o%75t%2Fx%C3%BC\n")
    for call in ("poll", "tell"):
        d.call(call)


def seen(kind, script, environment, logs):
    driven = Driven(kind, **environment)
    try:
        script(driven)
        logs[kind] = driven.log
    finally:
        driven.close()


def both(script, **environment):
    logs = {}
    threads = [threading.Thread(target=seen, args=(kind, script, environment, logs)) for kind in DRIVERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(logs) == set(DRIVERS), f"only {list(logs)} came to the end"
    for number, (c, python) in enumerate(zip(logs["c"], logs["python"])):
        assert c == python, f"line {number}: C {c!r}, Python {python!r}; before: {logs['c'][:number]}"
    assert len(logs["c"]) == len(logs["python"])
    return logs["c"]


def test_both_answer_a_question_alike():
    log = both(script_polls)
    assert "< hello 1 j%251%20%C3%BC 3 0 0 1 1 plain" in log, log
    assert "hint=1-42-1\nbytes=4096\nstatus=0\nstep=127\nstall_ms=N" in log, log
    assert [line for line in log if "saved_at=" in line] == ["hint=1-45-1\nbytes=1\nstatus=0\nstep=128\nsaved_at=1700000000123\nstall_ms=N"], log


def test_both_hear_of_withdrawals_and_deferrals_alike():
    log = both(script_withdrawals)
    assert log.count("withdrawn") == 3 and "< defer 1-44-1 900" in log, log


def test_both_meet_at_the_agreed_step_alike():
    log = both(script_barriers, OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_RANK="0", CKPT_PART="1", CKPT_PARTS="2")
    assert "< hello 1 j%251%20%C3%BC 3 2 0 4 - barrier" in log and "< missed 1-9-2 70" in log, log
    assert log.count("wrong") == 1  # one of several names a step
    assert log.count("now") == 2 and "1-9-3 WORK/out/1-9-3/rank-00002 1700000000000 part 1 of 2 rank 2" in log, log


def test_both_say_their_steps_alike_and_only_to_an_agent_that_wants_to_hear():
    log = both(script_steps)
    assert [line for line in log if line.startswith("<")][2:] == [
        "< at - 11 NS", "< at - 15 NS", "< at 1-9-1 16 NS", "< hello 1 j%251%20%C3%BC 3 0 0 1 1 barrier", "< at 1-9-2 20 NS"], log
    log = both(script_steps_of_polls)
    assert log[-1] == "< at - 2 0" and log.count("< at - 0 0") == 1 and "< at - 1 0" not in log, log


def test_both_bear_an_agent_that_is_away_alike():
    log = both(script_agent_away)
    assert "away" in log and log[-1] == "< done 1-9-1", log


def test_both_save_again_after_an_answer_that_could_not_be_written():
    """V-007: the library and the module tell their caller, which computes on and saves when it is asked again."""
    log = both(script_unwritable)
    assert log.count("failed") == 2 and log.count("now") == 2 and log[-1].startswith("hint=1-50-2\nbytes=2\nstatus=0\n"), log


def test_both_refuse_garbage_alike():
    log = both(script_garbage)
    assert log[-1].startswith("1-42-1 WORK/out/x"), log


def test_both_refuse_an_environment_that_cannot_be():
    for name, value in (("CKPT_RUN", "x"), ("CKPT_DIR", "a"), ("CKPT_PART", "1"), ("CKPT_ALLOCATION_ID", ""), ("RANK", "4")):
        assert both(lambda d: None, **{name: value, "WORLD_SIZE": "4"}) == ["wrong"], name
    assert both(lambda d: None, CKPT_APP_SOCKET="") == ["null"]


def test_both_count_by_the_launcher_with_the_most_ranks_of_the_node():
    nested = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "RANK": "6", "WORLD_SIZE": "8", "LOCAL_RANK": "2",
              "SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "3,2(x2)"}
    for more, told in (({"LOCAL_WORLD_SIZE": "4"}, "6 2 8 4"), ({}, "1 - - 2"), ({"SLURM_STEP_ID": "4294967291"}, "1 - 2 1")):
        assert f"< hello 1 j%251%20%C3%BC 3 {told} plain" in both(lambda d: hello(d, "poll"), **{**nested, **more}), told


def test_both_take_the_run_as_ckpt_run_names_it():
    assert f"< hello 1 j%251%20%C3%BC {3 << 40 | 17} 0 0 1 1 plain" in both(lambda d: hello(d, "poll"), CKPT_RUN="3-17")
    for wrong in ("3-", "-3", "16777216-1", "1-1099511627776", "1-2-3"):
        assert both(lambda d: None, CKPT_RUN=wrong) == ["wrong"], wrong


def test_both_say_the_longest_name_of_a_job():
    name = "j" * 128  # as long as the cluster takes them
    assert f"< hello 1 {name} 3 0 0 1 1 plain" in both(lambda d: hello(d, "poll"), CKPT_ALLOCATION_ID=name)


@contextlib.contextmanager
def stderr():
    """What was written there."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        yield said.getvalue


class Opened(Agent):
    """A work folder, its environment in this process, and a Ckpt of the module that has been asked."""

    def __enter__(self):
        self.before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.environment())
        self.ckpt = ckptapp.open()
        self.accept()
        assert self.line().endswith(" opened")
        self.ckpt.poll()
        assert self.line().endswith(" plain")
        return self

    def ask(self, hint):
        (self.folder / "out" / hint).mkdir(parents=True)
        self.say(f"ask {hint} 1700000000000 60000 out/{hint}\n")
        assert self.ckpt.poll()

    def __exit__(self, *_):
        self.ckpt.close()
        os.environ.clear()
        os.environ.update(self.before)
        self.close()


def test_saving_says_done_or_failed():
    with Opened() as agent:
        agent.ask("1-1-1")
        with agent.ckpt.saving(8) as folder:
            (pathlib.Path(folder) / "a").mkdir()
            (pathlib.Path(folder) / "a" / "b").write_text("12345")
        assert agent.done() == "hint=1-1-1\nbytes=5\nstatus=0\nstep=8\nstall_ms=N\n", agent.done()
        agent.ask("1-1-2")
        try:
            with agent.ckpt.saving(9, raises=True):
                raise KeyError("weights")
        except KeyError:
            assert "status=KeyError: 'weights'\n" in agent.done(), agent.done()
        else:
            raise AssertionError("nothing was raised")
        agent.ask("1-1-3")
        with agent.ckpt.saving(10):
            agent.say("withdrawn 1-1-3\n")
        assert "1-1-2" in agent.done()  # nothing was said, and nothing was raised


def test_a_folder_that_is_removed_under_who_saves_ends_no_loop():
    """The destination is away, another rank failed, a new agent began: what was asked for is withdrawn in the middle of the writing."""
    with Opened() as agent:
        for number, (told, what) in enumerate([(True, OSError), (False, OSError), (True, RuntimeError), (False, RuntimeError)], 1):
            agent.ask(f"1-{number}-1")
            with agent.ckpt.saving(7) as folder:
                shutil.rmtree(pathlib.Path(folder).parent)
                if told:
                    agent.say(f"withdrawn 1-{number}-1\n")
                if what is RuntimeError:
                    raise RuntimeError("Parent directory does not exist.")  # as torch.save
                (pathlib.Path(folder) / "state").write_text("x")
            assert agent.ckpt.directory is None
        agent.ask("1-5-1")
        with stderr() as said, agent.ckpt.saving(7) as folder:  # a mistake of its own, with the folder there
            (pathlib.Path(folder) / "none" / "state").write_text("x")
        assert "status=FileNotFoundError" in agent.done() and "checkpoint 1-5-1 was not saved" in said(), agent.done()
        agent.ask("1-6-1")
        with stderr() as said, agent.ckpt.saving(7) as folder:  # another mistake, however it is withdrawn
            shutil.rmtree(folder)
            raise KeyError("weights")
        assert agent.ckpt.directory is None and "KeyError: 'weights'" in said()


def test_a_save_that_fails_ends_no_loop():
    """A full disk at each call, what torch and pickle say, what ends the program all the same; what cannot even be told. V-007."""
    import errno
    import pickle

    def unpicklable(folder):
        pickle.dumps(lambda: None)

    def full(folder):
        with open("/dev/full", "w") as file:
            file.write("x")

    def beside_torch(failures):
        return type("CheckpointException", (BaseException,), {"failures": failures})("CheckpointException ranks:dict_keys([1])")

    def fails(reason):
        def save(folder):
            raise reason
        return save

    kinds = [full, unpicklable, *map(fails, (
        OSError(errno.EDQUOT, "Disk quota exceeded"), RuntimeError("PytorchStreamWriter failed writing file data/3"), MemoryError(), TypeError("cannot pickle"),
        pickle.PicklingError("no"), EOFError("two\nlines"), beside_torch({1: (OSError("there"), None)})))]
    ends = [fails(reason) for reason in (KeyboardInterrupt(), SystemExit(3), beside_torch({0: (KeyboardInterrupt(), None)}))]
    with Opened() as agent:
        for number, save in enumerate(kinds + ends, 1):
            agent.ask(f"1-{number}-1")
            try:
                with stderr() as said, agent.ckpt.saving(number) as folder:
                    save(folder)
                assert save in kinds, number
                assert re.fullmatch(rf"ckptapp: rank 0: checkpoint 1-{number}-1 was not saved, and the program goes on: .*\n", said()), said()
                assert agent.ckpt.error in said(), agent.ckpt.error
            except BaseException as reason:
                assert save in ends and not isinstance(reason, AssertionError), reason
            assert f"hint=1-{number}-1\nbytes=0\nstatus=" in agent.done() and "status=0" not in agent.done(), agent.done()
            assert agent.line() == f"done 1-{number}-1" and agent.ckpt.directory is None
        with contextlib.suppress(TypeError), agent.ckpt.saving(1) as folder:  # nothing is asked for: that is no save's failure
            raise AssertionError(folder + "/state")
        agent.ask("1-20-1")
        with stderr() as said, agent.ckpt.saving(20):  # done() is what fails, and failed() too
            (agent.folder / "done.0").unlink()
            (agent.folder / "done.0" / "in the way").mkdir(parents=True)
        assert "1-20-1 was not saved" in said() and agent.ckpt.directory is None, said()
        shutil.rmtree(agent.folder / "done.0")
        sys.stderr, kept = None, sys.stderr
        try:
            agent.ask("1-21-1")  # it is asked again, and has no stderr any more
            with agent.ckpt.saving(21) as folder:
                full(folder)
        finally:
            sys.stderr = kept
        agent.ask("1-22-1")
        with agent.ckpt.saving(22):
            agent.ckpt.failed("the caller's word")
        assert "status=the caller's word" in agent.done()
        agent.ckpt.parts = 2  # one of several names a step: that is the call's mistake, at each saving
        agent.ask("1-23-1")
        try:
            with agent.ckpt.saving() as folder:
                raise AssertionError(folder)
        except ValueError as reason:
            assert '"unordered"' in str(reason) and "status=each of several ranks names the step" in agent.done(), reason
        agent.ask("1-24-1")
        with agent.ckpt.saving("unordered"):
            pass
        assert "status=0\nstep=unordered\n" in agent.done()


def test_a_forked_child_does_nothing_and_threads_share_a_handle():
    with Opened() as agent:
        agent.ask("1-1-1")
        child = os.fork()
        if child == 0:
            dead = not agent.ckpt.poll() and not agent.ckpt.done(1, 1) and not agent.ckpt.failed("x")
            agent.ckpt.close()
            os._exit(0 if dead else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert agent.done() == "nothing" and agent.ckpt.done(1, 1)
        assert agent.line() == "done 1-1-1"
        nows, end = [], threading.Event()

        def work():
            while not end.is_set():
                time.sleep(0.001)
                if agent.ckpt.poll():
                    nows.append(agent.ckpt.hint)
                    agent.ckpt.done(1, 1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(50):
            agent.say(f"ask 1-2-{number} 1700000000000 0 out/x\n")
            assert agent.line() == f"done 1-2-{number}"
        end.set()
        for thread in threads:
            thread.join()
        assert nows == [f"1-2-{number}" for number in range(50)], nows


class Thing:
    """What has state_dict(), as a model has."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def stand_in_for_torch():
    import pickle
    torch = types.ModuleType("torch")
    torch.state = 5
    torch.get_rng_state = lambda: torch.state
    torch.set_rng_state = lambda state: setattr(torch, "state", state)
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.save = lambda thing, path: pathlib.Path(path).write_bytes(pickle.dumps(thing))
    torch.load = lambda path, map_location, weights_only: pickle.loads(pathlib.Path(path).read_bytes())
    dcp = types.ModuleType("torch.distributed.checkpoint")
    dcp.FileSystemWriter = dcp.FileSystemReader = pathlib.Path

    def save(state, storage_writer):
        (storage_writer / "__0_0.distcp").write_text(state["x"])
        (storage_writer / ".metadata").write_text("m")
    dcp.save = save
    dcp.load = lambda state, storage_reader: state.update({f.name: f.read_text() for f in storage_reader.iterdir()})
    sys.modules.update({"torch": torch, "torch.distributed": types.ModuleType("torch.distributed"), "torch.distributed.checkpoint": dcp})
    torch.distributed = sys.modules["torch.distributed"]
    torch.distributed.is_initialized = lambda: True
    torch.distributed.checkpoint = dcp
    return torch


def test_the_helpers_for_torch_bring_back_what_was_saved():
    import random
    torch = stand_in_for_torch()
    with Opened() as agent:
        agent.ask("1-1-1")
        random.seed(4)
        ckptapp.torch_save(agent.ckpt, 6, extra={"sample": 99}, model=Thing("m"), optimizer=Thing("o"))
        expected = random.random()
        saved = agent.folder / "restored" / "part-0000"
        saved.mkdir(parents=True)
        shutil.copytree(agent.folder / "out" / "1-1-1", saved / "rank-00000")
        model, optimizer, position = Thing(""), Thing(""), {}
        assert ckptapp.torch_load(agent.ckpt, position, model=model, optimizer=optimizer) == 0  # from scratch
        agent.ckpt.restore_dir, torch.state = str(saved), 1
        assert ckptapp.torch_load(agent.ckpt, position, model=model, optimizer=optimizer) == 6
        assert (model.value, optimizer.value, position, torch.state) == ("m", "o", {"sample": 99}, 5)
        assert random.random() == expected
        agent.ckpt.restore_dir, agent.ckpt.rank, torch.state = str(saved.parent), 3, 1  # a rank that is new, and all parts
        assert ckptapp.torch_load(agent.ckpt, position, model=model) == 6 and torch.state == 1
        agent.ckpt.rank = 0
        agent.ask("1-1-2")
        torch.state = 8
        ckptapp.dcp_save(agent.ckpt, 7, {"x": "tensor"}, extra={"sample": 100})
        shutil.rmtree(saved / "rank-00000")
        shutil.copytree(agent.folder / "out" / "1-1-2", saved / "rank-00000")
        (saved.parent / "part-0001" / "rank-00001").mkdir(parents=True)
        (saved.parent / "part-0001" / "rank-00001" / "__1_0.distcp").write_text("other")
        agent.ckpt.restore_dir, agent.ckpt.restore_uri, torch.state = None, f"file://{saved.parent}", 1
        state = {}
        assert ckptapp.dcp_load(agent.ckpt, state, position) == 7
        assert state == {".metadata": "m", "__0_0.distcp": "tensor", "__1_0.distcp": "other"}, state
        assert (position, torch.state) == ({"sample": 100}, 8)


def test_parts_of_a_distributed_checkpoint_are_no_checkpoint():
    """Of a part alone, which `restore own` brings, and of ranks that did not know of each other: no state is made of them."""
    torch = stand_in_for_torch()
    with Opened() as agent:
        alone = agent.folder / "restored" / "rank-00001"
        alone.mkdir(parents=True)
        (alone / "__1_0.distcp").write_text("other")
        agent.ckpt.restore_dir = str(alone.parent)
        try:
            raise AssertionError(ckptapp.dcp_load(agent.ckpt, {}))
        except FileNotFoundError as error:
            assert "ranks [1]" in str(error) and "restore all or path" in str(error), error
        agent.ask("1-1-1")
        agent.ckpt._ranks, torch.distributed.is_initialized = 4, lambda: False
        try:
            raise AssertionError(ckptapp.dcp_save(agent.ckpt, 7, {"x": "tensor"}, raises=True))
        except RuntimeError as error:
            assert "init_process_group()" in str(error), error
        assert "init_process_group()" in agent.done(), agent.done()


def test_a_torch_without_distributed_checkpoints_is_told_and_the_attempt_fails():
    """As PyTorch before 1.13: the agent hears that this rank has failed, and the loop why."""
    stand_in_for_torch()
    del sys.modules["torch.distributed.checkpoint"].save
    with Opened() as agent:
        agent.ask("1-1-1")
        with stderr() as said:
            ckptapp.dcp_save(agent.ckpt, 7, {"x": "tensor"})
        assert "torch_save() does without" in said() and "this torch cannot write" in agent.done(), said()
        assert "status=0" not in (agent.folder / "done.0").read_text()
        agent.ask("1-1-2")
        with stderr() as said:  # what has no state is told too
            ckptapp.torch_save(agent.ckpt, 8, model=object())
        assert "state_dict" in said() and "state_dict" in agent.done(), said()


def test_a_program_says_that_a_checkpoint_is_welcome():
    """V-014: with the step that it has begun, and not to an agent that does not take it, nor before it has said how it is asked."""
    logs = {}
    for kind in DRIVERS:
        logs[kind] = []
        for takes in ("request", ""):
            d = Driven(kind, CKPT_APP_TAKES=takes)
            try:
                d.call("request")  # nobody has heard yet whether it polls
                hello(d, "poll")
                d.call("request")
                if takes:
                    d.hear()
                hello_again(d, "barrier 7")
                d.say("ready 1 n1 0 1\n")
                d.call("request")
                if takes:
                    d.hear()
                d.call("error")
                logs[kind] += d.log
            finally:
                d.close()
    assert logs["c"][:-1] == logs["python"][:-1], logs  # the module has no text for an older agent
    assert logs["c"].count("< request 0") == 1 and logs["c"].count("< request 7") == 1 and logs["c"].count("unheard") == 4, logs


def test_outside_a_program_begins_from_what_the_environment_names():
    """V-014: no ckpt-run is there; one line says so. Under ckpt-run without anything to restore it is nothing."""
    kept = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
    for kind, words in DRIVERS.items():
        for more, told, said in (({"CKPT_RESTORE_DIR": "/home/ann/home", "CKPT_RESTORE_LABEL": "7"}, "/home/ann/home 7", True), ({}, "- -", False)):
            done = subprocess.run(words, input="restore\nrequest\n", env={**kept, **more}, capture_output=True, text=True, timeout=30)
            assert done.stdout == f"null\n{told}\nunheard\n", (kind, done)
            assert (done.stderr == "ckptapp: not under ckpt-run: begins from CKPT_RESTORE_DIR=/home/ann/home, and no checkpoint is asked for\n") == said \
                and (said or done.stderr == ""), (kind, done)


def test_what_is_installed_serves_a_program():
    with tempfile.TemporaryDirectory() as folder:
        there = pathlib.Path(folder) / "usr"
        subprocess.run(["make", "-s", "install-app", f"BUILD={BUILD}", f"PREFIX={there}"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        program = pathlib.Path(folder) / "p.c"
        program.write_text('#include <ckptapp.h>\nint main(void) { struct ckpt *c = ckpt_open(0); return ckpt_poll(c) + (c != 0); }\n')
        environment = {**{name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}, "PKG_CONFIG_PATH": str(there / "lib" / "pkgconfig")}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "ckptapp"], env=environment, check=True, capture_output=True, text=True).stdout.split()
        for name, more in (("shared", []), ("static", ["-static"])):
            subprocess.run(["gcc", "-std=c99", "-pedantic-errors", "-Wall", "-Werror", "-o", f"{folder}/{name}", str(program), *flags, *more], check=True)
            subprocess.run([f"{folder}/{name}"], env={**environment, "LD_LIBRARY_PATH": str(there / "lib")}, check=True)
        needed = subprocess.run(["readelf", "-d", str(there / "lib" / "libckptapp.so.0")], check=True, capture_output=True, text=True).stdout
        assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so.6"], needed
        called = subprocess.run(["nm", "-D", "--undefined-only", str(there / "lib" / "libckptapp.so.0")], check=True, capture_output=True, text=True).stdout
        assert not re.search(r"\b(malloc|calloc|free|\w*printf\w*|pthread\w*|abort|__assert_fail)\b", called), called
        for module in ("ckptapp.py", "ckptshm.py"):
            assert (there / "lib" / "python3" / "dist-packages" / module).read_text() == (ROOT / "python" / module).read_text()
        program.write_text('#include <ckptshm.h>\nint main(void) { struct ckpt_shm *s; struct ckpt_shm_slot *t = ckpt_shm_open(0, &s);\n'
                           'return t != 0 ? ckpt_shm_done(s, t, ckpt_shm_wait(t, 0), 1, "1") + ckpt_shm_failed(s, t, 1, "w") : 0; }\n')
        for compiler in (["gcc", "-std=gnu99"], ["g++", "-x", "c++"]):  # it links nothing, in C and in C++
            subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", "-O2", f"-I{there / 'include'}", "-o", f"{folder}/shm", str(program)], check=True)
            subprocess.run([f"{folder}/shm"], env=environment, check=True)


if __name__ == "__main__":
    sys.exit(tap([test for name, test in list(globals().items()) if name.startswith("test_")]))
