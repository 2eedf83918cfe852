"""Sizes of the product by folder: lines, functions, assertions per function, the share of comments.
Usage: sizes.py [FOLDER ...]: prints the table, by default of all product folders. An assertion is a CHECK, or an EXPECT of
fsm/core/moved.c, whose caller does the same; a line of comment has a word of a comment in it, alone or behind
code, so that rules drawn across and lone delimiters count for nothing."""
import re
import subprocess
import sys
from pathlib import Path

from source import TOKEN, blank, functions

# Assertions per function may not fall below these. Comments have no least amount: sentences.py looks at their sentences.
LEAST = {"fsm": 1.0, "raft": 0.5, "src/agent/job": 1.0}
ASSERTION = re.compile(r"\b(?:CHECK(?:_UNREACHABLE)?|EXPECT)\(")


def comment_lines(text):
    found = set()
    for match in TOKEN.finditer(text):
        if match.group(0)[0] == "/":
            first = text.count("\n", 0, match.start())
            found |= {first + i for i, line in enumerate(match.group(0).split("\n")) if re.search(r"[A-Za-z]{2}", line)}
    return len(found)


def sizes(texts):
    """(files, lines that are not empty, functions, assertions, comment lines)"""
    sums = [0] * 5
    for text in texts:
        code = re.sub(r"^#\s*define (?:CHECK|EXPECT).*(\\\n.*)*", "", blank(text), flags=re.M)
        values = (1, sum(bool(line.strip()) for line in text.split("\n")), len(functions(text)), len(ASSERTION.findall(code)), comment_lines(text))
        sums = [old + new for old, new in zip(sums, values)]
    return sums


def product_folders():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "fsm", "raft", "src"], capture_output=True, check=True, text=True).stdout.split("\n")
    folders = {}
    for name in names:
        if name.endswith((".c", ".h")) and Path(name).is_file():
            top = "/".join(name.split("/")[:2]) if name.startswith("src/") else name.split("/")[0]
            for folder in sorted({top, *(folder for folder in LEAST if name.startswith(folder + "/"))}):
                folders.setdefault(folder, []).append(name)
    return folders


def of_folder(names):
    files, lines, count, assertions, comments = sizes(Path(name).read_text() for name in names)
    return files, lines, count, assertions, assertions / max(count, 1), 100 * comments / max(lines, 1)


def problems():
    """Lines that say what fell below its least."""
    for folder, names in product_folders().items():
        density = of_folder(names)[4]
        if density < LEAST.get(folder, 0):
            yield f"{folder}: {density:.2f} assertions per function, {LEAST[folder]} are the least (python3 tests/lint/sizes.py)"


def selfcheck():
    text = "/* ---- */\n#define CHECK(x) (x)\nint two_words(int a) /* of a */\n{\n    CHECK(a > 0); // why\n\n    return 0;\n}\n"
    if sizes([text]) != [1, 7, 1, 1, 2]:
        yield f"sizes.py finds {sizes([text])} in its sample"


if __name__ == "__main__":
    print(f"{'folder':16}{'files':>7}{'lines':>8}{'functions':>11}{'assertions':>12}{'per function':>14}{'comments %':>12}")
    for folder, names in product_folders().items():
        if len(sys.argv) == 1 or folder in sys.argv[1:]:
            files, lines, count, assertions, density, share = of_folder(names)
            print(f"{folder:16}{files:7}{lines:8}{count:11}{assertions:12}{density:14.2f}{share:12.1f}")
