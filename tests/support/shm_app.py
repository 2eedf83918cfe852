#!/usr/bin/python3
"""shm_app in Python, with python/ckptshm.py: the same sum, the same files, the same result (shm_app_main.c)."""
import argparse
import os
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import ckptshm  # noqa: E402

MASK = (1 << 64) - 1
signals = 0


def on_signal(*_):
    global signals
    signals += 1


def mix(value, step):
    z = (value + step * 0x9e3779b97f4a7c15) & MASK
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    return z ^ (z >> 27)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--delay-us", type=int, default=2000)
    parser.add_argument("--wait", default="no")
    options = parser.parse_args()
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT, signal.SIGCHLD):
            signal.signal(number, on_signal)
    rank = int(os.environ.get("CKPT_RANK", "0"))
    step, value = 0, rank
    if "CKPT_RESTORE_DIR" in os.environ:
        step, value = map(int, pathlib.Path(os.environ["CKPT_RESTORE_DIR"], f"state.{rank}").read_text().split())
    shm = ckptshm.open(rank)
    woken, answered = [], 0

    def waits():
        while True:
            if word := shm.wait(1):
                woken.append(word)
                time.sleep(0.001)
    if shm and options.wait == "yes":
        threading.Thread(target=waits, daemon=True).start()
    print(f"begins at step {step}", flush=True)
    for step in range(step, options.steps):
        if options.wait == "yes":
            word = woken.pop() if woken else 0
            woken.clear()
        else:
            word = shm.asked() if shm else 0
        if word and word != answered:  # the thread may have seen it once more
            answered = word
            text = f"{step} {value}\n"
            pathlib.Path(shm.directory, f"state.{rank}").write_text(text)
            if shm.done(word, len(text), "unordered" if "CKPT_RANKS" in os.environ else str(step)):
                print(f"saved step {step}", flush=True)
        value = mix(value, step)
        time.sleep(options.delay_us / 1e6)
    new = pathlib.Path(f"{options.output}.{rank}.new")
    new.write_text(f"{value} signals={signals}\n")
    new.rename(f"{options.output}.{rank}")


main()
