"""Runs the cases of a test program, and says how each of them ended: TAP, which tests/run.py reads. It needs nothing but Python itself."""
import os
import sys
import time
import traceback

LONG = bool(os.environ.get("LONG"))


def often(rounds, many):
    """How often a test repeats something: `many` times in `make systems-long`, with LONG in the environment."""
    return many if LONG else rounds


def processor_s():
    """Used by this process and by those that it waited for."""
    return sum(os.times()[:4])


def tap(tests, long=()):
    """Runs test functions in order, prints TAP, returns the exit code. Those in `long` take minutes: only `make systems-long` runs them, with
    LONG in the environment, and then no others. Names given on the command line, or parts of them, pick some of all."""
    tests, long, words, failed = list(tests), list(long), sys.argv[1:], 0
    picked = [t for t in tests + long if any(word in t.__name__ for word in words)] if words else long if LONG and long else tests
    for word in words:
        if not any(word in t.__name__ for t in tests + long):
            print(f"error: no case has \"{word}\" in its name; there are: {' '.join(t.__name__ for t in tests + long)}", file=sys.stderr)
            return 2
    for test in picked:
        started, used = time.monotonic(), processor_s()
        try:
            reason = test()
            skip = f" # SKIP {reason}" if isinstance(reason, str) else ""
            print(f"ok {test.__name__}{skip} # {time.monotonic() - started:.1f} s, {processor_s() - used:.1f} of a processor", flush=True)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"not ok {test.__name__}", flush=True)
    return 1 if failed else 0
