#!/usr/bin/python3
"""Builds and runs the tests of a name, one after the other: what `make t T=lifecycle` does.

A test's name is its file's without test_ (golden_, fuzz_) and suffix, with or without the folder before it: lifecycle, fsm/lifecycle. A text
that is the whole name of tests means these; else all that have it in their names. Further words are cases, for tests in Python.
Usage: named.py TEXT [CASE...], with BUILD, MAKE, FUZZ_SAN and MPI of the Makefile in the environment. Exit code 2: no test has that name,
1: one has failed or could not be built. Without a text it says how it is used, and lists all.
"""
import difflib
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = (("unit/*/test_*.c", "test_"), ("golden/golden_*.c", "golden_"), ("fuzz/fuzz_*.c", "fuzz_"), ("integration/test_*.py", "test_"),
         ("systems/test_*.py", "test_"))
NEAR_MAX = 6
NEAR_RATIO = 0.6
HOW = """usage: make t T=TEXT [CASES="CASE ..."]
TEXT: the name of a test or a part of it, with or without its folder: lifecycle, fsm/lifecycle.
CASE: of a test in Python, one of its functions: make t T=integration/agent CASES=what_applications_answer
"""


class Test:
    def __init__(self, path, prefix):
        self.path = path  # from the root
        self.kind = path.parts[1]
        self.name = path.stem.removeprefix(prefix)
        self.place = f"{path.parent.name}/{self.name}"

    def is_called(self, text):
        return text in (self.name, self.place, self.path.stem, self.path.name, str(self.path))


def all_tests():
    return [Test(path.relative_to(ROOT), prefix) for glob, prefix in KINDS for path in sorted((ROOT / "tests").glob(glob))]


def matching(tests, text):
    return [test for test in tests if test.is_called(text)] or [test for test in tests if text in (test.place if "/" in text else test.path.stem)]


def nearest(tests, text):
    def likeness(test):
        return max(difflib.SequenceMatcher(None, text, name).ratio() for name in (test.name, test.place, *test.name.split("_")))
    near = [test for test in tests if likeness(test) >= NEAR_RATIO]
    return sorted(near, key=likeness, reverse=True)[:NEAR_MAX]


def explain(tests):
    print(HOW, file=sys.stderr)
    folders = {}
    for test in tests:
        folders.setdefault(test.path.parent, []).append(test.name)
    for folder, names in folders.items():
        print(textwrap.fill(f"{folder.name}: " + " ".join(names), 100, subsequent_indent="    ", break_on_hyphens=False), file=sys.stderr)
    return 2


def not_found(tests, text):
    near = nearest(tests, text)
    print(f"error: no test has \"{text}\" in its name", file=sys.stderr)
    print("  try: " + ("   or: ".join(f"make t T={test.place}" for test in near) if near else "make t, which lists them all"), file=sys.stderr)
    return 2


def program(test, build):
    """What runs it. Fuzz targets are built with sanitizers, in a folder of their own."""
    if test.path.suffix == ".py":
        return ["/usr/bin/python3", str(test.path)]
    return [str((build / "fuzz" if test.kind == "fuzz" else build) / test.path.with_suffix(""))]


def goals(tests, build, environment):
    """What make has to make: lists of its words, one for each call."""
    wanted = []
    plain = [program(test, build)[0] for test in tests if test.path.suffix == ".c" and test.kind != "fuzz"]
    fuzz = [program(test, build)[0] for test in tests if test.kind == "fuzz"]
    if any(test.kind in ("unit", "integration", "systems") for test in tests):
        wanted.append("programs")
    if any(test.kind == "systems" for test in tests) and shutil.which("mpicc"):
        wanted += [f"{build}/bin/{name}" for name in environment.get("MPI", "").split()]
    calls = [[*wanted, *plain]] if wanted or plain else []
    if fuzz:
        calls.append([f"BUILD={build}/fuzz", f"SAN={environment.get('FUZZ_SAN', '')}", "OPT=-O1 -g", *fuzz])
    return calls


def main(words, environment):
    tests = all_tests()
    if not words or not words[0]:
        return explain(tests)
    chosen, build = matching(tests, words[0]), Path(environment.get("BUILD", "build"))
    if not chosen:
        return not_found(tests, words[0])
    make = [environment.get("MAKE", "make"), "--no-print-directory"]
    for call in goals(chosen, build, environment):
        if subprocess.run([*make, *call], cwd=ROOT, close_fds=False).returncode != 0:  # make's own descriptors go on to make
            return 1
    failed = []
    for test in chosen:
        print(f"==== {test.path}", flush=True)
        cases = words[1:] if test.path.suffix == ".py" else []
        if subprocess.run([*program(test, build), *cases], cwd=ROOT, env={**environment, "BUILD": str((ROOT / build).resolve())}).returncode != 0:
            failed.append(test.place)
    if failed:
        print("failed: " + " ".join(failed), file=sys.stderr)
    return 1 if failed else 0


def selfcheck():
    """Samples for the lint: what a text chooses, and what is near a typo."""
    tests = [Test(Path("tests") / path, prefix) for path, prefix in (
        ("unit/fsm/test_lifecycle.c", "test_"), ("unit/fsm/test_cluster.c", "test_"), ("unit/raft/test_cluster.c", "test_"),
        ("golden/golden_fsm.c", "golden_"), ("fuzz/fuzz_fsm_command.c", "fuzz_"), ("integration/test_cluster_faults.py", "test_"),
        ("systems/test_slurm.py", "test_"))]
    for text, places in (("lifecycle", ["fsm/lifecycle"]), ("cluster", ["fsm/cluster", "raft/cluster"]), ("fsm/cluster", ["fsm/cluster"]),
                         ("clust", ["fsm/cluster", "raft/cluster", "integration/cluster_faults"]), ("fsm/", ["fsm/lifecycle", "fsm/cluster"]),
                         ("test_slurm.py", ["systems/slurm"]), ("fsm", ["golden/fsm"]), ("command", ["fuzz/fsm_command"]),
                         ("systems/", ["systems/slurm"]), ("lifecylce", [])):
        if [test.place for test in matching(tests, text)] != places:
            yield f"T={text} chooses {[test.place for test in matching(tests, text)]}"
    for text, place in (("lifecylce", "fsm/lifecycle"), ("fsm/clutser", "fsm/cluster"), ("slrum", "systems/slurm"), ("fault", "integration/cluster_faults")):
        if [test.place for test in nearest(tests, text)][:1] != [place]:
            yield f"near {text} are {[test.place for test in nearest(tests, text)]}"
    if nearest(tests, "qqqqq"):
        yield "something is near a word that is like none"
    if goals(tests[:1], Path("b"), {}) != [["programs", "b/tests/unit/fsm/test_lifecycle"]] or \
            goals(tests[4:5], Path("b"), {"FUZZ_SAN": "-f"}) != [["BUILD=b/fuzz", "SAN=-f", "OPT=-O1 -g", "b/fuzz/tests/fuzz/fuzz_fsm_command"]]:
        yield "make is not asked for what a test needs"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
