"""Checkpoints by shared memory, for a job under `ckpt-run --profile shm`: no library, no socket, no signal.

    import ckptshm
    shm = ckptshm.open(rank=0)                  # None: not under --profile shm
    for step in range(first, last + 1):
        word = shm.asked() if shm else 0
        if word:
            size = save(shm.directory, step - 1)    # all files written and closed
            shm.done(word, size, label=str(step - 1))   # the last step that is in it
        compute(step)

The region and its two words are described in ckptshm.h; this is the same in Python. A thread that waits calls wait(seconds) in the place of
asked(): the agent wakes it. done() and failed() are False when the request was withdrawn meanwhile, whose directory is removed then.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct

MAGIC, VERSION, SLOTS = b"ckpt-shm", 1, 256
REGION_BYTES, FIRST_SLOT, SLOT_BYTES = 139264, 8192, 512
ANSWERS, DEADLINE, HINT, DIRECTORY = 20, 24, 32, 96
OWNER, REQUEST, DONE, PID, BYTES, SAVED_AT, LABEL, STATUS = 0, 4, 8, 12, 16, 24, 32, 104
LABEL_BYTES, STATUS_BYTES = 72, 208

_FUTEX_WAIT, _FUTEX_WAKE_OP = 0, 5
_OP_ADD, _OP_ANDN = 1, 3  # FUTEX_OP_*
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221, "riscv64": 98, "s390x": 238}.get(platform.machine())
_syscall = ctypes.CDLL(None, use_errno=True).syscall


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def _change(word, operation, operand):
    """One indivisible operation on the word, by the kernel: Python has none."""
    if _SYS_FUTEX is None:
        raise OSError(errno.ENOSYS, f"futex(2) has no known number on {platform.machine()}")
    code = operation << 28 | operand << 12  # compared: equal to 0
    if _syscall(_SYS_FUTEX, ctypes.byref(word), _FUTEX_WAKE_OP, 0, None, ctypes.byref(word), code) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Shm:
    """The region, and the slot of one rank in it."""

    def __init__(self, path, rank):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._map = mmap.mmap(descriptor, REGION_BYTES)
            if self._map[:8] != MAGIC or struct.unpack_from("=I", self._map, 8)[0] != VERSION:
                raise OSError(errno.EPROTO, "another layout", path)
            fcntl.lockf(descriptor, fcntl.LOCK_EX)  # compare and swap is what Python lacks; the lock ends with the descriptor
            self._at = self._take(rank)
        finally:
            os.close(descriptor)
        self._word(PID).value = os.getpid()
        self._request, self._done = self._word(REQUEST), self._word(DONE)

    def _word(self, offset):
        return ctypes.c_uint32.from_buffer(self._map, self._at + offset)

    def _take(self, rank):
        """The first slot from the rank's number on that is free or its own."""
        for i in range(SLOTS):
            at = FIRST_SLOT + (rank + i) % SLOTS * SLOT_BYTES
            owner = ctypes.c_uint32.from_buffer(self._map, at + OWNER)
            if owner.value == 0:
                owner.value = rank + 1
            if owner.value == rank + 1:
                return at
        raise OSError(errno.ENOSPC, f"more than {SLOTS} ranks")

    @property
    def directory(self):
        return self._text(DIRECTORY, 4096)

    @property
    def hint(self):
        return self._text(HINT, 64)

    @property
    def deadline_ms(self):
        return struct.unpack_from("=Q", self._map, DEADLINE)[0]

    def _text(self, offset, size):
        return self._map[offset:offset + size].split(b"\0")[0].decode(errors="surrogateescape")

    def asked(self):
        """The request word while a checkpoint is wanted, else 0: one load from memory."""
        word = self._request.value
        return word if word & 1 else 0

    def wait(self, seconds=None):
        """The same, after waiting for a request for so long (None: for ever), or for a signal of the program's own."""
        word = self._request.value
        if not word & 1:
            longest = None if seconds is None else ctypes.byref(_Timespec(int(seconds), int(seconds % 1 * 1e9)))
            _syscall(_SYS_FUTEX, ctypes.byref(self._request), _FUTEX_WAIT, word, longest, None, 0)
        return self.asked()

    def done(self, word, size, label="", saved_at_ms=0):
        """All files of this rank are written and closed. False: the request was withdrawn."""
        struct.pack_into("=QQ", self._map, self._at + BYTES, size, saved_at_ms)
        return self._answer(word, label, "0")

    def failed(self, word, why):
        """The attempt fails with that line, which the job's output shows."""
        return self._answer(word, "", why or "failed")

    def _answer(self, word, label, status):
        for offset, text, size in ((LABEL, label, LABEL_BYTES), (STATUS, status, STATUS_BYTES)):
            bytes_ = text.encode(errors="replace")[:size - 1]
            self._map[self._at + offset:self._at + offset + size] = bytes_.ljust(size, b"\0")
        self._done.value = word
        if self._request.value != word:
            return False
        # A newer request that comes between these two lines is cleared unanswered: its attempt ends by its timeout and is repeated.
        _change(self._request, _OP_ANDN, 1)
        _change(ctypes.c_uint32.from_buffer(self._map, ANSWERS), _OP_ADD, 1)
        return True


def open(rank=0):  # pylint: disable=redefined-builtin
    """None: not under `ckpt-run --profile shm`. OSError: the region cannot be mapped, or has another layout."""
    path = os.environ.get("CKPT_SHM", "")
    return Shm(path, rank) if path else None
