#!/usr/bin/python3
"""An application for measurements of small checkpoints: BYTES that are other ones each time. It says when it was done, by the machine's monotonic clock.
Flow: SIGUSR1, $CKPT_DIR/request, the file, $CKPT_DIR/done. Usage: small_app.py BYTES"""
import os
import pathlib
import signal
import sys
import time

PIECE = 1 << 24


def write_bytes(path, size):
    """Does not compress, and no piece of it was written before."""
    block = os.urandom(min(size, PIECE))
    with open(path, "wb", buffering=0) as file:
        for at in range(0, size, PIECE):
            mark = at.to_bytes(8, "little")
            file.write((mark + block)[:min(PIECE, size - at)])


def main():
    size, asked = int(sys.argv[1]), []
    own = pathlib.Path(os.environ["CKPT_DIR"])
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    while True:
        time.sleep(0.002)
        if not asked:
            continue
        asked.clear()
        request = dict(line.split("=", 1) for line in (own / "request").read_text().splitlines() if "=" in line)
        write_bytes(pathlib.Path(request["directory"]) / "state.bin", size)
        (own / "done.new").write_text(f"hint={request['hint']}\nbytes={size}\nstatus=0\n")
        done = time.monotonic()
        (own / "done.new").rename(own / "done")
        print(f"small: done at {done:.6f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
