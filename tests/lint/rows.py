"""The rows of the requirements: each is named by a test, or listed with what is missing. Run as a program it writes tests/COVERAGE.md.

rows.tsv       every row: its id, its class (M must hold, C compatibility, I information, X decided otherwise), its text, cut
not_built.tsv  the rows that do not hold, or not whole: the row, its kind, what is missing. Kinds:
               missing      nothing of it is there, and no test may name it
               part         some of it is there; a test may name it for that
               information  nothing that a program could do
A test names rows in a comment or docstring, one by one: S1-062, S1-064. Such a name claims that the test would fail without the behaviour.
A range would claim rows that nobody looked at, and is refused.
"""
import collections
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"(?<![\w-])(?:S[1-5]|[A-Z])-\d{3}\b")
RANGE = re.compile(r"(?<![\w-])(S[1-5]|[A-Z])-\d{3}\s*(?:\.\.+|…|–|—|-|to|through)\s*(?:\1-)?\d{3}\b")
NO_ROWS = {"P-256", "P-384"}  # curves of TLS
KINDS = ("missing", "part", "information")
UNSEEN = ("tests/lint/", "tests/COVERAGE.md")  # the rules themselves, and what is made from them


def read(name):
    return [line.split("\t") for line in (HERE / name).read_text().splitlines()]


def named(texts):
    """Row -> the tests that name it. texts: file name -> text."""
    found = collections.defaultdict(set)
    for name, text in texts.items():
        if name.startswith("tests/") and not name.startswith(UNSEEN) and not name.endswith(".md"):
            for row in set(ROW.findall(text)) - NO_ROWS:
                found[row].add(name.removeprefix("tests/"))
    return found


def ranges(texts):
    for name, text in sorted(texts.items()):
        if name.startswith("tests/") and not name.startswith(UNSEEN):
            for match in RANGE.finditer(text):
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}: name the rows that this test proves one by one"


def judge(rows, listed, tests):
    """rows: the ids. listed: lines of not_built.tsv. tests: what named() found."""
    known = collections.Counter(rows)
    missing = collections.Counter(line[0] for line in listed)
    for line in listed:
        if len(line) != 3 or line[1] not in KINDS or not line[2].strip():
            yield f"{line[0]}: not_built.tsv wants the row, one of {', '.join(KINDS)}, and what is missing, between tabs: {line[1:]}"
        elif line[1] != "part" and line[0] in tests:
            yield f"{line[0]}: not_built.tsv says {line[1]} ({line[2]}), {min(tests[line[0]])} names it"
    for row in rows:
        if row not in tests and row not in missing:
            yield f"{row}: no test names it, and tests/lint/not_built.tsv does not say what is missing"
    for row in sorted((set(tests) | set(missing)) - set(rows)):
        yield f"{row}: there is no such row" + (f", named by {', '.join(sorted(tests[row]))}" if row in tests else "")
    for row in sorted(row for counted in (known, missing) for row, count in counted.items() if count > 1):
        yield f"{row}: stands twice"


def problems(texts):
    yield from ranges(texts)
    yield from judge([row[0] for row in read("rows.tsv")], read("not_built.tsv"), named(texts))


def selfcheck():
    """What must be found, and what must not."""
    for text, count in (("S1-060..S1-074", 1), ("S1-031..033", 1), ("F-012 – F-014", 1), ("P-020 to P-025", 1), ("S1-060, S1-062", 0),
                        ("I31..I33", 0), ("I-D-004-part", 0), ("D-004, K-007", 0), ("S1-062-", 0)):
        if len(list(ranges({"tests/a.py": text}))) != count:
            yield f"\"{text}\": {list(ranges({'tests/a.py': text}))}"
    if dict(named({"tests/a.c": "S1-062, V-001; P-256", "src/b.c": "S1-063"})) != {"S1-062": {"a.c"}, "V-001": {"a.c"}}:
        yield "named() does not find the rows that a test names"
    for listed, tests, count in (([], {"A-001": "t"}, 0), ([], {}, 1), ([["A-001", "missing", "x"]], {}, 0), ([["A-001", "part", "x"]], {}, 0),
                                 ([["A-001", "part", "x"]], {"A-001": "t"}, 0), ([["A-001", "missing", "x"]], {"A-001": "t"}, 1),
                                 ([["A-001", "information", "x"]], {"A-001": "t"}, 1), ([["A-001", "x"]], {}, 1), ([["A-001", "half", "x"]], {}, 1),
                                 ([["A-001", "part", " "]], {}, 1), ([["A-001", "part", "x"]] * 2, {}, 1), ([["A-002", "part", "x"]], {"A-001": "t"}, 1)):
        if len(list(judge(["A-001"], listed, tests))) != count:
            yield f"judge() says of {listed} and {tests}: {list(judge(['A-001'], listed, tests))}"


def table(texts):
    listed, tests = {line[0]: line[1:] for line in read("not_built.tsv")}, named(texts)
    rows = read("rows.tsv")
    counted = collections.Counter(listed[row[0]][0] if row[0] in listed else "whole" for row in rows)
    lines = ["# Coverage of the requirements", "",
             "Generated from the rows that tests name and from `lint/not_built.tsv` by `make docs`. Class: M must",
             "hold, C compatibility with LSF or HTCondor, I information, X the sources disagree and the project",
             "decided. Texts are cut. A row is whole when a test fails without it and nothing of it is missing.", "",
             f"Of {len(rows)} rows {counted['whole']} are whole, {counted['part']} in part, {counted['missing']} not built, {counted['information']} for "
             "information.", "",
             "| row | class | text | tests, and what is missing |", "|---|---|---|---|"]
    told = {"missing": "not built: ", "part": "in part: ", "information": "for information: "}
    for row, kind, text in rows:
        cell = [", ".join(f"`{test}`" for test in sorted(tests[row])[:3]) + (f" and {len(tests[row]) - 3} more" if len(tests[row]) > 3 else "")]
        if row in listed:
            cell.append(told[listed[row][0]] + listed[row][1])
        lines.append(f"| {row} | {kind} | {text.replace('|', '/')} | {'; '.join(part for part in cell if part)} |")
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
