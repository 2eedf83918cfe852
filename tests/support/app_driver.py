#!/usr/bin/python3
"""Calls python/ckptapp.py as its standard input says: the counterpart of app_driver_main.c, word for word."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import ckptapp  # noqa: E402


def result(call, *arguments):
    try:
        return "said" if call(*arguments) else "withdrawn"
    except ConnectionError:
        return "away"
    except ValueError:
        return "wrong"
    except OSError:
        return "failed"


def tell(ckpt):
    deadline_ms = 0 if ckpt.deadline is None else round(ckpt.deadline * 1000)
    return f"{ckpt.hint or '-'} {ckpt.directory or '-'} {deadline_ms} part {ckpt.part} of {ckpt.parts} rank {ckpt.rank}"


def called(ckpt, verb, word):
    outcome = {True: "now", False: "go on"}
    if verb == "poll":
        return outcome[ckpt.poll()]
    if verb == "barrier":
        return outcome[ckpt.barrier(int(word))]
    if verb == "step":
        return "said" if ckpt.step(int(word)) is None else "?"
    if verb == "done":
        return result(ckpt.done, *(int(number) for number in word.split()))
    if verb == "label":
        return result(ckpt.done, word, 77)
    if verb == "failed":
        return result(ckpt.failed, word)
    if verb == "defer":
        return result(ckpt.defer, int(word) / 1000)
    if verb == "progress":
        return result(ckpt.progress, int(word) / 1000000)
    if verb == "saved_at":
        return result(ckpt.saved_at, int(word) / 1000)
    if verb == "request":
        return "said" if ckpt.request() else "unheard"
    if verb == "restore":
        return f"{ckpt.restore_dir or '-'} {ckpt.restore_label or '-'}"
    if verb == "error":
        return ckpt.error
    return tell(ckpt) if verb == "tell" else f"{verb} is no call"


def main():
    try:
        ckpt = ckptapp.open()
    except ValueError:
        ckpt = None
    print("wrong" if ckpt is None else "open" if ckpt.active else "null", flush=True)
    for line in sys.stdin:
        verb, _, word = line.strip("\n").partition(" ")
        print(called(ckpt, verb, word), flush=True)


if __name__ == "__main__":
    main()
