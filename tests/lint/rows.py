"""The rows of the requirements: each is named by a test, or listed as not built. Run as a program it writes tests/COVERAGE.md.

rows.tsv       every row: its id, its class (M must hold, C compatibility, I information, X decided otherwise), its text, cut
not_built.tsv  the rows that no test can prove yet: what is missing
A test names rows in a comment or docstring: S1-062, S1-060..S1-074. Such a name claims that the test would fail without the behaviour.
"""
import collections
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"(?<![\w-])(S[1-5]|[A-Z])-(\d{3})\b(?:\s*(?:\.\.\.?|–)\s*(?:\1-)?(\d{3})\b)?")
NO_ROWS = {"P-256", "P-384"}  # curves of TLS


def read(name):
    return [line.split("\t") for line in (HERE / name).read_text().splitlines()]


def named(texts):
    """Row -> the tests that name it. texts: file name -> text."""
    found = collections.defaultdict(set)
    for name, text in texts.items():
        if name.startswith("tests/") and not name.startswith("tests/lint/") and not name.endswith(".md"):
            for group, first, last in ROW.findall(text):
                for number in range(int(first), int(last or first) + 1):
                    found[f"{group}-{number:03d}"].add(name.removeprefix("tests/"))
    for row in NO_ROWS:
        found.pop(row, None)
    return found


def problems(texts):
    rows, missing, tests = [row[0] for row in read("rows.tsv")], dict(read("not_built.tsv")), named(texts)
    for row in rows:
        if (row in tests) == (row in missing):
            yield f"{row}: " + (f"not_built.tsv says it is not built ({missing[row]}), {min(tests[row])} names it" if row in tests
                                else "no test names it, and tests/lint/not_built.tsv does not say what is missing")
    for row in sorted((set(tests) | set(missing)) - set(rows)):
        yield f"{row}: there is no such row" + (f", named by {', '.join(sorted(tests[row]))}" if row in tests else "")


def table(texts):
    missing, tests = dict(read("not_built.tsv")), named(texts)
    rows = read("rows.tsv")
    lines = ["# Coverage of the requirements", "",
             "Generated from the rows that tests name and from `lint/not_built.tsv` by `make docs`. Class: M must hold, C compatibility with LSF or",
             "HTCondor, I information, X the sources disagree and the project decided. Texts are cut.", "",
             f"{sum(row[0] in tests for row in rows)} of {len(rows)} rows are proved by tests, {len(missing)} are not built.", "",
             "| row | class | text | tests, or what is missing |", "|---|---|---|---|"]
    for row, kind, text in rows:
        where = ", ".join(f"`{test}`" for test in sorted(tests[row])[:3]) + (f" and {len(tests[row]) - 3} more" if len(tests[row]) > 3 else "")
        lines.append(f"| {row} | {kind} | {text.replace('|', '/')} | {where or 'not built: ' + missing[row]} |")
    return "\n".join(lines) + "\n"


def main(check):
    import subprocess
    names = subprocess.run(["git", "ls-files", "-z", "tests"], capture_output=True, check=True).stdout.decode().split("\0")
    text = table({name: Path(name).read_text(errors="replace") for name in names if name and Path(name).is_file()})
    target = Path("tests/COVERAGE.md")
    if not check:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        sys.exit("tests/COVERAGE.md is not what the tests say; run make docs and review the difference")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
