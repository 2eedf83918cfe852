#!/usr/bin/python3
"""An application for measurements: its state is MIB MiB that do not compress and are other ones at each checkpoint. It says how long it wrote, without a sync of
its own, and when it has read its state again. Flow: SIGUSR1, $CKPT_DIR/request, the files, $CKPT_DIR/done. Usage: state_app.py MIB"""
import os
import pathlib
import signal
import sys
import time

MIB = 1 << 20
PIECE = 16 * MIB


def write_state(folder, mebibytes, iteration):
    """In one file; returns the seconds it took."""
    block = bytearray(os.urandom(MIB)) * (PIECE // MIB)
    began = time.monotonic()
    with open(pathlib.Path(folder) / "state.bin", "wb", buffering=0) as file:
        for at in range(0, mebibytes * MIB, PIECE):
            for k in range(0, PIECE, MIB):  # no chunk twice
                block[k:k + 16] = iteration.to_bytes(8, "little") + (at + k).to_bytes(8, "little")
            view = memoryview(block)[:mebibytes * MIB - at]
            while view:
                view = view[file.write(view):]
    return time.monotonic() - began


def read_state(folder):
    """The iteration it is of; all of it is read."""
    with open(pathlib.Path(folder) / "state.bin", "rb", buffering=0) as file:
        piece = bytearray(PIECE)
        file.readinto(piece)
        iteration = int.from_bytes(piece[:8], "little")
        while file.readinto(piece):
            pass
    return iteration


def main():
    mebibytes, asked, told_to_stop = int(sys.argv[1]), [], []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.append(1))
    own = pathlib.Path(os.environ["CKPT_DIR"])
    iteration = read_state(os.environ["CKPT_RESTORE_DIR"]) if "CKPT_RESTORE_DIR" in os.environ else 0
    print(f"state: starts at iteration {iteration}", file=sys.stderr, flush=True)
    while not told_to_stop:
        time.sleep(0.002)
        iteration += 1
        if not asked:
            continue
        asked.clear()
        request = dict(line.split("=", 1) for line in (own / "request").read_text().splitlines() if "=" in line)
        took_s = write_state(request["directory"], mebibytes, iteration)
        print(f"state: wrote in {took_s:.3f} s", file=sys.stderr, flush=True)
        (own / "done.new").write_text(f"hint={request['hint']}\nbytes={mebibytes * MIB}\nstatus=0\nstep=unordered\n")
        (own / "done.new").rename(own / "done")
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
