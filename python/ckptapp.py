"""Checkpoints of a Python program that runs under ckpt-run. One file, no dependencies, Python 3.8 or later.

    import ckptapp
    ckpt = ckptapp.open()
    start = ckptapp.torch_load(ckpt, model=model, optimizer=optimizer)
    for step in range(start + 1, last + 1):
        if ckpt.barrier(step):              # all ranks of the job get True at the same step
            ckptapp.torch_save(ckpt, step - 1, model=model, optimizer=optimizer)    # the state after that step
        train(step)

Without torch:
        if ckpt.barrier(step):
            with ckpt.saving(step - 1) as folder:       # an empty folder of this rank alone
                save_my_state(folder)
Outside ckpt-run everything is there and does nothing: barrier() and poll() are False; restore_dir is what CKPT_RESTORE_DIR names, or None.

barrier, poll  barrier(step) where all ranks count the same steps; no rank waits for another, and no collective is made: each
               computes on until the step that the cluster has agreed on. poll() where a rank can save at any moment. The first
               of the two that is called says which one a rank uses; until then it is not asked.
the end        True is said once for each time that a checkpoint is wanted. What follows is exactly one of done(), failed() and
               defer(); saving() and torch_save() do it themselves. All ranks must say the same step (the last one that is in the
               state, 7 at the beginning of step 8) or label, and each of several ranks one: "unordered" where all states fit together.
failures       a save that fails ends no program. saving() and the helpers for PyTorch tell the agent (the attempt fails with this
               rank's number and the text), say a line on stderr, and the loop goes on: of a full disk, of what torch or pickle
               cannot write, of any Exception. What is no Exception (KeyboardInterrupt, SystemExit) goes on to the caller; with
               raises=True every exception does, after the agent was told. `error` has the text.
               done() itself raises: an OSError, as of a full disk, leaves the saving open for failed(), which ends it in any case.
withdrawn      done(), failed(), defer(), progress() and saved_at() are False when what was asked for was withdrawn meanwhile (cancelled,
               timed out, another rank failed, a destination that is away): compute on and write nothing more. The folder is
               removed then, also under who still writes into it, whose writes fail: saving() and the helpers for PyTorch take
               that for no error, with raises=True too.
request        request(), of any rank, says that a checkpoint is welcome now: barrier() or poll() is True for it later, once in 10 s.
ranks          number and count are the launcher's (torchrun, OpenMPI, MPICH, Slurm), or those given to open().
hangs          barrier(), and beside poll() step(step), tells the agent once a second where it is: when no rank steps, the cluster says so.
threads, fork  any thread may call. After a fork (a data loader's worker) the child's copy does nothing.
               Nothing waits for the agent: while it is away nothing is asked, and it is looked for once a second.
"""
import contextlib
import errno
import importlib
import os
import pathlib
import random
import re
import socket
import sys
import tempfile
import threading
import time
import urllib.parse

__all__ = ["Ckpt", "dcp_load", "dcp_save", "open", "torch_load", "torch_save"]

_LINE_BYTES = 512
_DIAL_EVERY_S, _AT_EVERY_S, _SIGN_EVERY_S, _STEP_EVERY_S = 1.0, 0.01, 0.1, 1.0
_NO_QUESTION, _PACES = "-", 8  # in place of a hint
_LABEL = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")
_HINT = re.compile(r"[A-Za-z0-9._:-]{1,63}\Z")
_NUMBER = re.compile(r"[0-9]{1,20}\Z")
_LAUNCHERS = (  # rank, ranks, local rank, local ranks, what must be there too
    ("CKPT_RANK", "CKPT_RANKS", "CKPT_LOCAL_RANK", "CKPT_LOCAL_RANKS", None),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", None),
    ("PMIX_RANK", None, None, None, None),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", None),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", None),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", None, "SLURM_STEP_ID"),
)
_SLURM_SPECIAL_STEP = 0xFFFFFFF0  # steps from here on run no tasks: the batch script, an interactive shell, what is adopted


def _number(text, top=2**64 - 1):
    """A whole number as the protocol and the environment have it; None: it is none."""
    value = int(text) if _NUMBER.match(text) else top + 1
    return value if value <= top else None


def _encode(text):
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in os.fsencode(text))


def _decode(word):
    if re.search(r"%(?![0-9A-Fa-f]{2})|%00", word):
        raise _Wrong(word)
    return os.fsdecode(urllib.parse.unquote_to_bytes(word))


def _environment_number(name, absent, top=2**31 - 1):
    text = os.environ.get(name or "", "")
    value = _number(text, top) if text else absent
    if text and value is None:
        raise ValueError(f"{name}={text} is no number up to {top}")
    return value


def _run_number(text):
    """ "EPOCH-NUMBER" as one number, of 24 and 40 bits."""
    epoch, dash, number = text.rpartition("-")
    parts = (_number(epoch, 2**24 - 1) if dash else 0, _number(number, 2**40 - 1 if dash else 2**64 - 1))
    if None in parts:
        raise ValueError(f"CKPT_RUN={text} is no number of a run")
    return parts[0] << 40 | parts[1]


def _local_count(names):
    """How many ranks of this node the launcher told; None: it did not. Slurm counts by node, the same counts once: "4(x2),3" is 4, 4, 3."""
    if names[0] != "SLURM_PROCID":
        return _environment_number(names[3], None) or None
    node = _environment_number("SLURM_NODEID", None)
    if node is None or "SLURM_STEP_TASKS_PER_NODE" not in os.environ:
        return _environment_number("SLURM_NTASKS_PER_NODE", None) or None
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ["SLURM_STEP_TASKS_PER_NODE"]):
        if node < int(times or 1):
            return int(count) or None
        node -= int(times or 1)
    return None


def _is_there(names):
    if not os.environ.get(names[0]) or (names[4] is not None and not os.environ.get(names[4])):
        return False
    return names[4] != "SLURM_STEP_ID" or _number(os.environ[names[4]], _SLURM_SPECIAL_STEP - 1) is not None


def _told_by(names):
    """The launcher's count, where it is one: of nested launchers the one that told the most ranks of this node is the one that counts."""
    try:
        return _local_count(names) or 1
    except ValueError:
        return 1


def _find_rank(rank, local_rank, ranks, local_ranks):
    """(rank, local rank, ranks, local ranks); None: not known."""
    found = (0, 0, 1, 1)
    there = [names for names in _LAUNCHERS if _is_there(names)]
    if there:
        names = max(there, key=_told_by)  # of several the first
        number, count, local = (_environment_number(name, None) for name in names[:3])
        found = (number, local, count or None, _local_count(names))
    if rank is not None:
        found = (rank, None, None, None)
    told = (rank, local_rank, ranks, local_ranks)
    number, local, count, local_count = (f if t is None else t for f, t in zip(found, told))
    if number < 0 or (count is not None and number >= count) or (local_count is not None and (local or 0) >= local_count):
        raise ValueError(f"rank {number} of {count}, {local} of {local_count} on its node: there is no such rank")
    return number, local, count, local_count


class _Wrong(Exception):
    """The agent said what is no line of the protocol, or refused."""


class _Question:
    def __init__(self, hint, folder, deadline_ms, deferral_max_ms):
        self.hint, self.folder, self.deadline_ms, self.deferral_max_ms = hint, folder, deadline_ms, deferral_max_ms


def _is_of_writing(reason):
    """RuntimeError is torch.save's, CheckpointException, which is no Exception, that of torch.distributed.checkpoint."""
    return isinstance(reason, (OSError, RuntimeError)) or type(reason).__name__ == "CheckpointException"


def _is_failure(reason):
    """Of a save, and not the program's end. CheckpointException, which is no Exception, holds those of all ranks."""
    if type(reason).__name__ == "CheckpointException":
        failures = [failure[0] if isinstance(failure, tuple) else failure for failure in getattr(reason, "failures", {}).values()]
        return all(isinstance(failure, Exception) for failure in failures)
    return isinstance(reason, Exception)


def _say_on_stderr(line):
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stderr that is full, closed or none
        sys.stderr.write(line)
        sys.stderr.flush()


def _check_step(step):
    if not isinstance(step, int) or not 0 <= step < 2**64:
        raise ValueError(f"{step!r} is no step: a whole number from 0 is wanted")


class Ckpt:
    """One rank of a job. Made by open(); on a null object `active` is False.

    asked:  None -> "heard" -> "told" -> "due" -> "taken"; saving: None -> "now" -> None, or "stale" when it was withdrawn.
    """

    def __init__(self, rank=None, ranks=None, local_rank=None, local_ranks=None):
        environment = os.environ.get
        self._socket_path = environment("CKPT_APP_SOCKET", "")
        self._pid, self.active = os.getpid(), self._socket_path != ""
        self.error = ""  # one line about what went wrong last, also why the agent refused
        self.rank, self.part, self.parts, self.restore_parts = None, 0, 1, 0
        self.restore_dir = self.restore_uri = self.restore_label = None
        self._owner, self._turn = None, threading.Lock()
        self._stream, self._announced, self._greeted, self._received = None, False, False, b""
        self._dial_at, self._plain, self._barrier = 0.0, False, False
        self._asked, self._question, self._agreed = None, None, 0
        self._saving, self._saved, self._since, self._sign_at, self._answered = None, None, 0.0, 0.0, None
        self._state_ms = 0  # of what is being saved; 0: of the question
        self._say_done, self._say_at, self._missed = False, False, None
        self._step, self._step_at, self._told_at, self._paces = None, 0.0, 0.0, []
        self._takes_steps, self._said_step, self._said_at = False, None, 0.0
        self._requests = environment("CKPT_APP_TAKES") == "request"
        if not self.active:
            self._outside_restore()
            return
        self.rank, self._local, self._ranks, self._local_ranks = _find_rank(rank, local_rank, ranks, local_ranks)
        self._work, self._job = environment("CKPT_DIR", ""), environment("CKPT_ALLOCATION_ID", "")
        if not self._job or not self._work.startswith("/"):
            raise ValueError("CKPT_APP_SOCKET is set, and CKPT_ALLOCATION_ID or CKPT_DIR is not: start it by ckpt-run")
        self._run = _run_number(environment("CKPT_RUN") or "0")
        self.part, self.parts = _environment_number("CKPT_PART", 0, 2**32 - 1), _environment_number("CKPT_PARTS", 1, 2**32 - 1)
        if self.part >= self.parts:
            raise ValueError(f"part {self.part} of {self.parts}: there is no such part")
        self.restore_dir, self.restore_uri = environment("CKPT_RESTORE_DIR") or None, environment("CKPT_RESTORE_URI") or None
        self.restore_parts = _environment_number("CKPT_RESTORE_PARTS", 0, 2**32 - 1)
        self.restore_label = environment("CKPT_RESTORE_LABEL") or None
        self._reserve()
        self._stream_turn(True)  # the agent waits for the first poll or barrier
        if self._stream is None:
            self._dial_at = 0.0  # which dials at once where it was not there

    def _outside_restore(self):
        """Not under ckpt-run: a checkpoint that somebody has brought home (ckpt-run get), or other files of this form."""
        self.restore_dir, self.restore_label = (os.environ.get(f"CKPT_RESTORE_{name}") or None for name in ("DIR", "LABEL"))
        if self.restore_dir is not None:
            _say_on_stderr(f"ckptapp: not under ckpt-run: begins from CKPT_RESTORE_DIR={self.restore_dir}, and no checkpoint is asked for\n")

    # ---- turns ----
    @contextlib.contextmanager
    def _inside(self, wait=True):
        """True: inside. A handler that interrupted a call of its own thread, and a forked child, stay outside."""
        if not self.active or self._pid != os.getpid() or self._owner == threading.get_ident() or not self._turn.acquire(wait):
            yield False
            return
        self._owner = threading.get_ident()
        try:
            yield True
        finally:
            self._owner = None
            self._turn.release()

    def _outside(self):
        if self.active and self._pid == os.getpid():
            raise BlockingIOError(errno.EAGAIN, "a call of this thread was interrupted; set a flag and call later")
        return False

    # ---- the stream ----
    def _close_stream(self):
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.shutdown(socket.SHUT_RDWR)
            self._stream.close()
        self._stream, self._announced, self._greeted, self._received, self._takes_steps = None, False, False, b"", False

    def _say(self, *words):
        """True: the line went out whole."""
        line = (" ".join(str(word) for word in words) + "\n").encode("ascii")
        if self._stream is None or len(line) > _LINE_BYTES:
            return False
        try:
            if self._stream.send(line) == len(line):
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass
        self._close_stream()
        return False

    def _dial(self):
        if time.monotonic() < self._dial_at:
            return
        self._dial_at = time.monotonic() + _DIAL_EVERY_S
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.setblocking(False)
        try:
            stream.connect(self._socket_path)
        except OSError:
            stream.close()
            return
        self._stream = stream

    def _greet(self):
        known = ["-" if number is None else number for number in (self.rank, self._local, self._ranks, self._local_ranks)]
        way = "barrier" if self._barrier else "plain" if self._plain else "opened"
        self._announced = self._say("hello", 1, _encode(self._job), self._run, *known, way)
        self._greeted = self._announced and way != "opened"
        if not self._announced:
            self._close_stream()

    def _read(self):
        for _ in range(16):
            if self._stream is None:
                return
            try:
                data = self._stream.recv(_LINE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            try:
                if not data:
                    raise _Wrong("")
                self._take_bytes(data)
            except _Wrong as wrong:
                if data:
                    self.error = self.error or f"the agent said what this library does not understand: {wrong}"
                self._close_stream()

    def _take_bytes(self, data):
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            if len(line) >= _LINE_BYTES:
                raise _Wrong("a line that is too long")
            self._take_line(line)
        if len(self._received) >= _LINE_BYTES:
            raise _Wrong("a line that is too long")

    def _stream_turn(self, may_dial):
        if self._stream is None and may_dial:
            self._dial()
        if self._announced and not self._greeted:
            self._read()  # a refusal is heard before more is said to who has hung up
        if self._stream is not None and not self._greeted and (self._plain or self._barrier or not self._announced):
            self._greet()
        self._read()
        if not self._greeted:
            return
        if self._missed is not None and self._say("missed", *self._missed):
            self._missed = None
        if self._say_done and self._say("done", self._answered):
            self._say_done = False
        if self._say_at and self._say_where():
            self._say_at = False

    def _say_line_at(self, hint, step):
        return self._say("at", hint, step, sum(self._paces) // len(self._paces) if self._paces else 0)

    def _say_where(self):
        return self._say_line_at(self._question.hint, self._step)

    def _say_step(self, step, now):
        if self._takes_steps and now - self._said_at >= _STEP_EVERY_S and step != self._said_step:
            self._said_at = now
            if self._say_line_at(_NO_QUESTION, step):
                self._said_step = step

    # ---- what the agent's lines change ----
    def _take_line(self, line):
        self.error = ""
        if re.search(rb"[^\x20-\x7e]", line):
            raise _Wrong("")
        words = line.decode("ascii").split(" ")
        takes = {("ready", 5): self._take_ready, ("ask", 5): self._take_ask, ("step", 3): self._take_step,
                 ("withdrawn", 2): self._take_withdrawn, ("refused", 2): self._take_refused}
        take = takes.get((words[0], len(words)))
        if take is None or "" in words:
            raise _Wrong(words[0])
        take(*words[1:])

    def _take_ready(self, version, node, part, parts):
        if version != "1":
            self.error = f"this library speaks version 1 of the agent's protocol, the agent {version}"
            raise _Wrong(version)
        _decode(node)
        part, parts = _number(part), _number(parts)
        if part is None or parts is None or part >= parts:
            raise _Wrong("ready")

    def _take_refused(self, text):
        self.error = "the agent refused: " + re.sub(r"[\x00-\x1f\x7f]", " ", _decode(text))
        raise _Wrong("refused")

    def _take_ask(self, hint, deadline_ms, deferral_max_ms, folder):
        folder = _decode(folder)
        question = _Question(hint, folder, _number(deadline_ms), _number(deferral_max_ms))
        if (not _HINT.match(hint) or not question.deadline_ms or question.deferral_max_ms is None or len(os.fsencode(folder)) > 255
                or {"", ".", ".."} & set(folder.split("/"))):
            raise _Wrong("ask")
        if self._saving == "now" and self._saved.hint == hint:
            self._saved.deadline_ms = question.deadline_ms
            return
        if hint == self._answered:
            self._say_done = True
            return
        if self._saving == "now":
            self._saving = "stale"
        known = self._asked in ("heard", "told", "due") and self._question.hint == hint
        if not known:
            self._asked, self._agreed, self._say_at = "heard", 0, False
        elif self._asked == "told":
            self._say_at = True  # another stream: the agent may have forgotten it
        self._question = question

    def _take_step(self, hint, step):
        step = _number(step)
        if not _LABEL.match(hint) or not step:
            raise _Wrong("step")
        if hint == _NO_QUESTION:
            self._takes_steps = True
        elif self._asked in ("heard", "told", "due") and self._question.hint == hint:
            self._asked, self._agreed, self._say_at = "due", step, False

    def _take_withdrawn(self, hint):
        if not _LABEL.match(hint):
            raise _Wrong("withdrawn")
        if self._asked is not None and self._question.hint == hint:
            self._asked, self._agreed, self._say_at = None, 0, False
        if self._saving == "now" and self._saved.hint == hint:
            self._saving = "stale"

    # ---- is a checkpoint wanted ----
    def _take(self):
        self._asked, self._agreed, self._saving, self._saved = "taken", 0, "now", self._question
        self._since, self._sign_at, self._state_ms = time.monotonic(), 0.0, 0
        with contextlib.suppress(OSError):  # who writes there finds out; it may have come after the question, so nobody else makes it
            os.mkdir(self.directory, 0o700)
        self._reserve()
        return True

    def poll(self):
        """True: save now."""
        with self._inside(wait=False) as inside:
            if not inside:
                return False
            self._plain = True
            self._stream_turn(True)
            if self._asked not in ("heard", "told", "due") or self._barrier or self._saving is not None:
                return False
            return self._take()

    def barrier(self, step):
        """At each step's beginning, with rising steps, the same for all ranks. True: save now, at this step."""
        _check_step(step)
        with self._inside() as inside:
            if not inside:
                return False
            if not self._barrier:
                self._barrier = True
                if self._greeted:  # the agent must hear it
                    self._close_stream()
                    self._dial_at = 0.0
            before, now = self._step, time.monotonic()
            if before is not None and step > before and now > self._step_at:
                self._paces = (self._paces + [max(1, int((now - self._step_at) * 1e9) // (step - before))])[-_PACES:]
            self._step, self._step_at = step, now
            self._stream_turn(True)
            outcome = self._barrier_outcome(before)
            self._say_step(step, now)
            return outcome

    def step(self, step):
        """Beside poll(), for a program without barrier(): this rank is at that step."""
        _check_step(step)
        now = time.monotonic()
        if now - self._said_at < _STEP_EVERY_S:
            return
        with self._inside(wait=False) as inside:
            if inside:
                self._stream_turn(True)
                self._say_step(step, now)
                self._said_at = now  # also where there is no agent, or none that wants to hear

    def _barrier_outcome(self, before):
        if self._asked in ("heard", "told"):
            late = self._asked == "heard" or self._step_at - self._told_at >= _AT_EVERY_S
            if self._greeted and late and self._say_where():
                self._asked, self._told_at, self._say_at = "told", self._step_at, False
            return False
        if self._asked != "due" or self._step < self._agreed:
            return False
        if (before is None or before < self._agreed) and self._saving is None:
            return self._take()
        self._missed = (self._question.hint, self._step)
        self._asked, self._agreed = None, 0
        self._stream_turn(False)
        return False

    def request(self):
        """A checkpoint is welcome now. False: nobody heard it (outside ckpt-run, the agent is away or an older one, no barrier() or poll() yet)."""
        with self._inside() as inside:
            if not inside:
                return self._outside()
            self._stream_turn(True)
            return self._requests and self._greeted and self._say("request", self._step or 0)

    @property
    def directory(self):
        """After True and until the end of the saving: an empty folder of this rank alone."""
        return None if self._saving is None else os.path.join(self._work, self._saved.folder)

    @property
    def hint(self):
        return None if self._saving is None else self._saved.hint

    @property
    def deadline(self):
        """Until when, in seconds since the epoch; None: nothing is asked."""
        return self._saved.deadline_ms / 1000 if self._saving == "now" else None

    # ---- the end of a saving ----
    def _file(self, prefix):
        return os.path.join(self._work, f"{prefix}{self.rank}")

    def _write(self, content):
        file = os.open(self._file(".done."), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            at = 0
            while at < len(content):
                at += os.pwrite(file, content[at:], at)
            return os.ftruncate(file, len(content))
        finally:
            os.close(file)

    def _reserve(self):
        with contextlib.suppress(OSError):  # the answer will say why
            self._write(b" " * 512)

    def _end(self, answered):
        if answered:
            self._answered, self._say_done = self._saved.hint, True
        if self._asked == "taken":
            self._asked = None
        self._saving = None

    def _still_wanted(self):
        """False: it was withdrawn."""
        self._stream_turn(False)
        if self._saving is None:
            raise ValueError("nothing is being saved")
        return self._saving == "now"

    def _write_answer(self, status, label, count):
        stall_ms = int((time.monotonic() - self._since) * 1000) + 1  # 0 would say that it is not told
        lines = [f"hint={self._saved.hint}", f"bytes={count}", f"status={status}", *([f"step={label}"] if label else []),
                 *([f"saved_at={self._state_ms}"] if self._state_ms else []), f"stall_ms={stall_ms}", ""]
        self._write("\n".join(lines).encode("utf-8", "surrogateescape"))
        os.rename(self._file(".done."), self._file("done."))

    def _answer(self, status, label, count):
        with self._inside() as inside:
            if not inside:
                return self._outside()
            wanted = self._still_wanted()
            try:
                if wanted:
                    self._write_answer(status, label, count)
            except OSError:
                if status != "0":
                    self._end(False)  # the agent hears nothing, and takes it for failed when the time is over
                raise
            self._end(wanted)
            if wanted:
                self._stream_turn(False)
            return wanted

    def _withdrawn(self):
        """What was being saved; or its folder is gone, which only the agent removes: one that has just begun tells nobody."""
        with self._inside() as inside:
            return inside and self._saving is not None and not (self._still_wanted() and os.path.isdir(self.directory))

    def _size(self):
        folder = self.directory
        try:
            return 0 if folder is None else sum(f.stat().st_size for f in pathlib.Path(folder).rglob("*") if f.is_file())
        except FileNotFoundError:
            if not self._withdrawn():
                raise
            return 0

    def _label(self, step):
        """As far as this rank knows whether others save too: the agent may know of more."""
        label = "" if step is None else str(step)
        if label and not _LABEL.match(label):
            raise ValueError(f"{label!r} is no label: 1 to 64 of A-Z a-z 0-9 . _ : -")
        several = self.active and (self.rank > 0 or (self._ranks or 1) > 1 or (self._local_ranks or 1) > 1 or self.parts > 1)
        if several and not label:
            raise ValueError("each of several ranks names the step that it saved: done(step), saving(step), or \"unordered\" in its place")
        return label

    def done(self, step=None, bytes=None):  # noqa: A002
        """All files are written and closed. step: a number or a label; bytes: of all files, when it is not what the folder holds."""
        label = self._label(step)
        if bytes is None:
            bytes = self._size()
        if not 0 <= bytes < 2**63:
            raise ValueError(f"{bytes} bytes cannot be")
        return self._answer("0", label, bytes)

    def failed(self, text):
        """The attempt fails as a whole, with this rank's number and the text. The saving has ended, also where that cannot be written
        (OSError)."""
        text = re.sub(r"[\x00-\x1f\x7f]", " ", str(text)) or "the application did not say why"
        text = "failed: 0" if text == "0" else text
        return self._answer(os.fsencode(text)[:200].decode("utf-8", "ignore"), "", 0)

    def defer(self, seconds):
        """Instead of saving: all ranks are asked again later. ValueError: more than is allowed; ConnectionError: save now."""
        with self._inside() as inside:
            if not inside:
                return self._outside()
            if not self._still_wanted():
                self._end(False)
                return False
            ms = int(seconds * 1000)
            if not 0 < ms <= self._saved.deferral_max_ms:
                raise ValueError(f"{seconds} s: at most {self._saved.deferral_max_ms / 1000} s are allowed")
            if not self._greeted or not self._say("defer", self._saved.hint, ms):
                raise ConnectionError(errno.ENOTCONN, "the agent is away: save now, nothing can be deferred")
            self._end(False)
            return True

    def progress(self, part):
        """A sign of life, 0 to 1: earns the one extension of the deadline. The agent hears ten a second at most."""
        if not 0 <= part <= 1:
            raise ValueError(f"{part} is not between 0 and 1")
        with self._inside() as inside:
            if not inside:
                return self._outside()
            wanted = self._still_wanted()
            if wanted and self._greeted and time.monotonic() >= self._sign_at:
                self._sign_at = time.monotonic() + _SIGN_EVERY_S
                self._say("progress", self._saved.hint, int(part * 1000000))
            return wanted

    def saved_at(self, seconds):
        """Before done(), of files that were written earlier: of when their state is, in seconds since 1970. Losses count from then."""
        if not 0 < seconds < 2**63 / 1000:
            raise ValueError(f"{seconds} is no instant: seconds since 1970 are wanted")
        with self._inside() as inside:
            if not inside:
                return self._outside()
            self._state_ms = max(1, round(seconds * 1000))
            return self._still_wanted()

    def _tell_failure(self, reason):
        text = re.sub(r"[\x00-\x1f\x7f]", " ", f"{type(reason).__name__}: {reason}")
        line = f"ckptapp: rank {self.rank}: checkpoint {self.hint} was not saved, and the program goes on: {text}\n"
        self.error = text
        with contextlib.suppress(OSError, ValueError):  # ValueError: nothing is being saved any more
            self.failed(text)
        _say_on_stderr(line)

    @contextlib.contextmanager
    def saving(self, step=None, raises=False):
        """The folder; done(step) at its end, failed() on an exception, which goes on when it is none of the saving, or with raises=True."""
        begun = self._saving is not None
        try:
            self._label(step)
        except ValueError as reason:  # of the call, at each saving: no failure of this one
            with contextlib.suppress(OSError, ValueError):
                self.failed(reason)
            raise
        try:
            yield self.directory
            if self._saving is not None or not begun:  # else the caller has ended it
                self.done(step)
        except BaseException as reason:
            if not begun or self._owner == threading.get_ident():  # no saving's, or of a handler that may not end it
                raise
            if _is_of_writing(reason) and self._withdrawn():
                with contextlib.suppress(OSError, ValueError):
                    self.failed("withdrawn")
            elif raises or not _is_failure(reason):
                with contextlib.suppress(OSError, ValueError):
                    self.failed(f"{type(reason).__name__}: {reason}")
                raise
            else:
                self._tell_failure(reason)

    def close(self):
        """Says nothing to anybody: what is being saved is given up."""
        if self._pid == os.getpid():
            self._close_stream()
        elif self._stream is not None:
            self._stream.close()  # the stream itself is the parent's
            self._stream = None
        self.active = False

    # ---- what is restored ----
    def restored(self):
        """{rank: its folder} of what is to be restored here: of this part, or of all (restore all, restore path)."""
        base = self.restore_dir
        if base is None and self.restore_uri is not None:
            uri = urllib.parse.urlsplit(self.restore_uri)
            if uri.scheme != "file":
                raise ValueError(f"{self.restore_uri}: only file:/// can be read here")
            base = urllib.parse.unquote(uri.path)
        if base is None:
            return {}
        folders = [*pathlib.Path(base).glob("rank-*"), *pathlib.Path(base).glob("part-*/rank-*")]
        return {int(f.name[len("rank-"):]): str(f) for f in sorted(folders) if _NUMBER.match(f.name[len("rank-"):])}


def open(rank=None, ranks=None, local_rank=None, local_ranks=None):  # noqa: A001
    """A Ckpt; outside ckpt-run one that does nothing. From now on a checkpoint that is asked for waits for the first poll() or barrier()."""
    return Ckpt(rank, ranks, local_rank, local_ranks)


# ---- PyTorch: imported only here ----
def _random_states(torch):
    states = {"python": random.getstate(), "cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    return states


def _random_states_set(torch, states):
    random.setstate(states["python"])
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available() and torch.cuda.device_count() == len(states["cuda"]):
        torch.cuda.set_rng_state_all(states["cuda"])
    if "numpy" in states:
        import numpy
        numpy.random.set_state(states["numpy"])


def _rank_load(torch, ckpt, saved, file, extra, map_location="cpu"):
    """The rank's own file, with random numbers and extra; where it has none that of another rank, without them."""
    own = ckpt.rank in saved
    folder = saved[ckpt.rank] if own else saved[sorted(saved)[ckpt.rank % len(saved)]]
    loaded = torch.load(os.path.join(folder, file), map_location=map_location, weights_only=False)
    if own:
        _random_states_set(torch, loaded["random"])
        if extra is not None and loaded["extra"] is not None:
            extra.update(loaded["extra"])
    return loaded


def torch_save(ckpt, step, extra=None, raises=False, **things):
    """Saves model=, optimizer=, scheduler=, sampler= ... (whatever has state_dict()), the random numbers' states and extra (plain
    data, as the position in the data), and ends the saving. torch_load() returns `step`. raises: as of saving()."""
    import torch
    with ckpt.saving(step, raises) as folder:
        state = {name: thing.state_dict() for name, thing in things.items()}
        torch.save({"step": step, "extra": extra, "random": _random_states(torch), "state": state}, os.path.join(folder, "state.pt"))


def torch_load(ckpt, extra=None, map_location="cpu", **things):
    """The step that was saved, 0: from scratch. Loads into what has load_state_dict(); extra: a dict that is updated by the saved
    one. A rank that was not there when it was saved takes the state of another one, but not its random numbers and extra."""
    saved = ckpt.restored()
    if not saved:
        return 0
    import torch
    loaded = _rank_load(torch, ckpt, saved, "state.pt", extra, map_location)
    for name, thing in things.items():
        thing.load_state_dict(loaded["state"][name])
    return loaded["step"]


def _dcp(ranks):
    """(module, save, load) of torch 2.2 and later, 2.0 and 2.1, 1.13. All write __RANK_NUMBER.distcp, and one rank .metadata."""
    why = "it has none"
    for name in ("torch.distributed.checkpoint", "torch.distributed._shard.checkpoint"):
        try:
            dcp = importlib.import_module(name)
            save, load = (getattr(dcp, verb, None) or getattr(dcp, f"{verb}_state_dict") for verb in ("save", "load"))
        except Exception as error:  # some builds of 1.13 do not load under the Python that they are shipped with
            why = f"{name}: {error}"
            continue
        if ranks != 1 and not importlib.import_module("torch.distributed").is_initialized():
            raise RuntimeError("init_process_group() comes first: each rank alone would write files of the same names")
        return dcp, save, load
    raise RuntimeError(f"this torch cannot write distributed checkpoints ({why}); torch_save() does without")


def dcp_save(ckpt, step, state, extra=None, raises=False):
    """A state of torch.distributed.checkpoint, each rank's files in its own folder, and beside them the rank's random numbers' states
    and extra. All ranks call it at the same step: it is a collective of torch. raises: as of saving()."""
    import torch
    with ckpt.saving(step, raises) as folder:
        dcp, save, _ = _dcp(ckpt._ranks)
        save(state, storage_writer=dcp.FileSystemWriter(folder))
        torch.save({"step": step, "extra": extra, "random": _random_states(torch)}, os.path.join(folder, "rank.pt"))


def dcp_load(ckpt, state, extra=None):
    """The step, 0: from scratch. Any number of ranks; wants all ranks' files: `restore all` or `restore path`. Random numbers and extra
    as torch_load() has them."""
    saved = ckpt.restored()
    if not saved:
        return 0
    import torch
    dcp, _, load = _dcp(ckpt._ranks)
    with tempfile.TemporaryDirectory() as together:
        for folder in saved.values():
            for name in os.listdir(folder):
                if name != "rank.pt":
                    os.symlink(os.path.join(folder, name), os.path.join(together, name))
        if not os.path.exists(os.path.join(together, ".metadata")):
            raise FileNotFoundError(f"no .metadata is among the files of ranks {sorted(saved)}, which were restored here: it takes those of"
                                    " all ranks; register the job with restore all or path")
        load(state, storage_reader=dcp.FileSystemReader(together))
    return _rank_load(torch, ckpt, saved, "rank.pt", extra)["step"]
