"""Sentences of comments and documents: which are there, and which of them have to be decoded.
A sentence ends at a full stop, a question mark or an exclamation mark before a blank. Items of lists, rows of columns and cells of tables
are sentences of their own; drawings, code and headings are none. Usage: sentences.py [FILE ...]: prints the sentences that break a rule."""
import functools
import re
import subprocess
import sys
from pathlib import Path

from source import TOKEN

WORDS_MAX = 35
OPENING = re.compile(r"(?:who|whose|which|what|that|as far as)\b(?!:)", re.I)  # "what:" is a parameter
GENERATED = ("fsm/STATUSES.md", "src/CALLS.md", "tests/COVERAGE.md")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|ca|approx|resp|incl|Fig|Sec|No|[A-Z])|(?<!\w)\.)\.$")  # "A." is an initial, ".." a range
STOP = re.compile(r"[.!?]+[)\"'*_`\]]*\s+| · (?=code\b)")
DRAWING = re.compile(r"^\s*[#$] |[\u2190-\u21ff\u2500-\u25ff]|-->|<--|--\||\|--|\+--|--\+|---|^\s*[|^'](?:\s|$)|^[\s|^v'.+/\\<>=_*-]*$")
MARKER = re.compile(r"(?:[-*+]|\(?\d+[.)]|\([a-z]\))\s+(?=\S)")
COLUMNS = re.compile(r"(?<=\S) {2,}(?=\S)")


def sentences_of(text):
    """The sentences of one item, in order."""
    found, start = [], 0
    for match in STOP.finditer(text):
        before, after = text[start:match.end()].rstrip(), text[match.end():match.end() + 1]
        if ABBREVIATION.search(before) or (re.search(r"(?:\betc|\.\.)\.$", before) and after.islower()):
            continue
        found.append(before)
        start = match.end()
    return found + ([text[start:].strip()] if text[start:].strip() else [])


def items(lines):
    """Items of a block, its lines at their columns: paragraphs, list items and rows of columns, each as one text."""
    found, column, current = [], 0, []

    def close():
        if current:
            found.append(" ".join(current))
            current.clear()
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text or DRAWING.search(line):
            close()
            continue
        marker, columns = MARKER.match(text), COLUMNS.search(text)
        if marker or columns or indent < column or indent >= column + 4:
            close()
        if not current:
            column = indent
        if marker:
            column, text = indent + marker.end(), text[marker.end():]
        elif columns:
            *left, text = COLUMNS.split(text)
            found += left
            column = line.rindex(text)
        current.append(text)
    close()
    return found


def comments(text):
    """The comments of C or .proto, each as lines at their columns; lines of // that follow each other are one comment."""
    found, last, column_last = [], None, None
    for match in TOKEN.finditer(text):
        token = match.group(0)
        if token[0] != "/":
            continue
        column = match.start() - text.rfind("\n", 0, match.start()) - 1
        if token[1] == "*":
            lines = (" " * column + "  " + token[2:-2]).split("\n")
            found.append([lines[0]] + [re.sub(r"^(\s*)\*(?!\S)", r"\1 ", line) for line in lines[1:]])
            last = None
            continue
        between = text[last:match.start()] if last is not None else ""
        line = " " * column + "  " + token[2:].lstrip("/")
        if last is not None and column == column_last and between.count("\n") == 1 and not between.strip():
            found[-1].append(line)
        else:
            found.append([line])
        last, column_last = match.end(), column
    return found


def plain(text):
    """Prose of a document without its marks: code is one word, links are their texts."""
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*+|(?<!\w)_+|_+(?!\w)", "", text)


def prose(text):
    """(items, cells) of a document."""
    found, cells, current, fence = [], [], [], False
    for line in [*re.sub(r"<!--.*?-->", "", text, flags=re.S).split("\n"), ""]:
        body = line.strip().removeprefix("> ")
        marker = MARKER.match(body)
        border = body[marker.end() if marker else 0:].startswith("```")
        code, fence = fence or border, fence != border
        apart = code or not body or body[0] in "|#"
        if current and (apart or marker):
            found.append(plain(" ".join(current)))
            current = []
        if body.startswith("|") and not code:
            cells += [plain(cell) for cell in re.split(r"(?<!\\)\|", body)[1:-1]]
        elif not apart:
            current.append(body[marker.end():] if marker else body)
    return found, cells


@functools.lru_cache(maxsize=1)  # each rule asks once
def of_file(name, text):
    """(sentences, cells' sentences) of a file; both empty for what holds no prose or is generated."""
    if name.endswith((".c", ".h", ".proto")):
        return [s for lines in comments(text) for item in items(lines) for s in sentences_of(item)], []
    if name.endswith(".md") and name not in GENERATED:
        found, cells = prose(text)
        return [s for item in found for s in sentences_of(item)], [s for cell in cells for s in sentences_of(cell)]
    return [], []


def question(sentence):
    return sentence.rstrip(")\"'*_`] ").endswith("?")


def too_long(name, text):
    long = [s for group in of_file(name, text) for s in group if s.count(" ") >= WORDS_MAX]
    return [s for s in long if sum(any(c.isalnum() for c in w) for w in s.split()) > WORDS_MAX and not question(s)]


def decoded_openings(name, text):
    return [s for s in of_file(name, text)[0] if OPENING.match(s.lstrip("(\"'*_` ")) and not question(s)]


SAMPLE = """/* The head of e.g. a.c, i.e. one sentence (see b.h). Whose is it?
 *
 * Flow     which of them comes first
 *          goes on here.
 * Absent   what is not here
 *   1. The first item ends here
 *   2. That is the second
 *
 *   NONE --what happens--> DONE
 *
 *     sketch();
 */
static int a; /* as far as it is known */ /* what: a parameter */
static int b; // a member,
              // that counts
// Who knows. And
// whichever of 2.5 ones it is
const char *text = "// which is text"; /* "That" is quoted */
"""
SAMPLE_OPENINGS = ["which of them comes first goes on here.", "what is not here", "That is the second", "as far as it is known", "Who knows.",
                   '"That" is quoted']
PAGE = """# What is a heading

| what | {long} |
|---|---|
| a | which b |

What is prose, e.g. `code. Which` or [a link. Or two](x.md). It
goes on. **Who** else? 1. is no item.

- whose item
  it is
- That's another; what follows
```
what code is
```
> As far as a quote goes
<!-- who hides -->
"""
PAGE_OPENINGS = ["What is prose, e.g. code or a link.", "whose item it is", "That's another; what follows", "As far as a quote goes"]


def selfcheck():
    """What the rules must find in samples, and what they must not."""
    long, short = "word " * (WORDS_MAX + 1), "word - " * WORDS_MAX
    for name, text, wanted in (("a.c", SAMPLE, SAMPLE_OPENINGS), ("a.md", PAGE.format(long=long), PAGE_OPENINGS), ("fsm/STATUSES.md", PAGE, [])):
        if decoded_openings(name, text) != wanted:
            yield f"sentences.py finds {decoded_openings(name, text)} in the sample {name}"
    for name, text, wanted in (("a.h", f"/* {long}\n * more */\nint a; /* {short}. {short} */\n", 1), ("a.proto", f"// {long}?\n// {short}\nx", 0),
                               ("a.proto", f"// {short}\n// {long}\nx", 1), ("a.md", PAGE.format(long=long), 1), ("a.py", f"# {long}", 0)):
        if len(too_long(name, text)) != wanted:
            yield f"sentences.py finds {too_long(name, text)} too long in {name}, wanted {wanted}"


if __name__ == "__main__":
    tracked = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True).stdout.split("\0")
    for path in sys.argv[1:] or [name for name in tracked if Path(name).is_file()]:
        content = Path(path).read_text(errors="replace")
        for rule in (too_long, decoded_openings):
            for one in rule(path, content):
                print(f"{path}: {rule.__name__}: {one}")
