"""Rules of form that the tree does not keep everywhere yet. form.tsv has, per rule and file, how often it is broken today: these counts
may only fall. `make docs` takes over what fell; what rose is an error. A file that was renamed takes its count along."""
import re
import subprocess
import sys
from pathlib import Path

import sentences
from source import blank, signatures

COLUMNS_MAX = 100
CELL_MAX = 200
PARAMETERS_MAX = 6
LIST = Path(__file__).with_name("form.tsv")
HEAD = "# rule, file, how often it is broken there: falls only (make docs); see form.py\n"


def wide_lines(name, text):
    """Lines wider than 100 columns: in C and .proto these are comments, since clang-format keeps code; tables of documents aside."""
    lines = text.split("\n")
    if name.endswith(".md"):
        lines = [line for line in lines if not line.startswith("|")]
    elif not name.endswith((".c", ".h", ".proto")):
        return []
    return [line for line in lines if len(line.expandtabs(4)) > COLUMNS_MAX]


def wide_cells(name, text):
    if not name.endswith(".md"):
        return []
    rows = [line for line in text.split("\n") if line.startswith("|")]
    return [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)[1:-1] if len(cell.strip()) > CELL_MAX]


def product(name):
    return name.startswith(("fsm/", "raft/", "src/")) and name.endswith((".c", ".h"))


# callbacks whose signature a library dictates
DICTATED = {("src/rpc/client_call.c", "call_pull"), ("src/rpc/client_connection.c", "on_header"), ("src/rpc/server_call.c", "call_read_data"),
            ("src/rpc/server_connection.c", "on_header"), ("src/serve/http.c", "on_request")}


def many_parameters(name, text):
    return [f for f, _, parameters in signatures(text) if parameters > PARAMETERS_MAX and (name, f) not in DICTATED] if product(name) else []


def one_word_statics(name, text):
    return [f for f, static, _ in signatures(text) if static and "_" not in f] if product(name) else []


# ---- arrays by enum value name all of its values ----
ENUM = re.compile(r"\benum(?:\s+\w+)?\s*\{([^}]*)\}")
NOT_A_VALUE = re.compile(r"(_COUNT|_MAX|_LAST|_UNSPECIFIED)$")
ARRAY = re.compile(r"(\w+)(?:\[[^\]]*\])+\s*=\s*\{")
BRACE = re.compile(r"[{}]")


def enums_of(texts):
    """Value -> the values of its enum, of C and of .proto; a generated name ends in the value's own."""
    values = {}
    for name, text in texts.items():
        if name.endswith(".proto"):
            code = re.sub(r"//[^\n]*", "", text)
        elif product(name):
            code = blank(text)
        else:
            continue
        for body in ENUM.findall(code):
            members = re.findall(r"(?:^|[,;])\s*([A-Z][A-Z0-9_]*)", body)
            for member in members:
                values.setdefault(member, set(members))
    return values


def body_at(code, start):
    depth = 1
    for brace in BRACE.finditer(code, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return code[start:brace.start()]
    return ""


def flattened(body):
    """What stands in inner braces becomes blanks."""
    flat, depth, last = "", 0, 0
    for brace in BRACE.finditer(body):
        between = body[last:brace.start()]
        flat += between if depth == 0 else " " * len(between)
        depth -= brace.group() == "}"
        flat += brace.group() if depth == 0 else " "
        depth += brace.group() == "{"
        last = brace.end()
    return flat + (body[last:] if depth == 0 else " " * (len(body) - last))


def incomplete_tables(name, text, enums):
    if not product(name):
        return []
    code = blank(text)
    missing = []
    for match in ARRAY.finditer(code):
        flat = flattened(body_at(code, match.end()))
        named = {index.split("__")[-1] for index in re.findall(r"(?:^|,)\s*\[\s*(\w+)\s*\]\s*=", flat)}
        wanted = set().union(*(enums.get(value, set()) for value in named)) if named else set()
        missing += [f"{match.group(1)}[{value}]" for value in sorted(wanted - named) if not NOT_A_VALUE.search(value)]
    return missing


# ---- files that others read first have plain sentences: no count of form.tsv excuses them ----
PLAIN_RULES = ("sentences", "openings")
PLAIN = ("README.md", "src/ARCHITECTURE.md", "raft/RULES.md", "fsm/RULES.md", "src/agent/RULES.md", "src/client/client.h", "src/app/ckptapp.h",
         "raft/core/consensus.h")
INCLUDE = re.compile(r'^#include "((?:fsm|raft|src)/[^"]+)"', re.M)


def layer(name):
    first, second = name.split("/")[:2]
    return f"{first}/{second}" if first == "src" else first


def plain_files(texts):
    """PLAIN, the API, and the headers that files of other layers include, or that lie at the top of fsm/ and raft/."""
    found = {name for name in texts if name in PLAIN or re.fullmatch(r"(?:fsm|raft)/\w+\.h|proto/ckpt/v1/\w+\.proto", name)}
    for name, text in texts.items():
        if product(name):
            found |= {header for header in INCLUDE.findall(text) if header in texts and layer(header) != layer(name)}
    return found


RULES = {
    "columns": (wide_lines, f"lines wider than {COLUMNS_MAX}"),
    "cells": (wide_cells, f"table cells longer than {CELL_MAX}"),
    "parameters": (many_parameters, f"functions with more than {PARAMETERS_MAX} parameters"),
    "words": (one_word_statics, "static functions named by one word"),
    "sentences": (sentences.too_long, f"sentences of more than {sentences.WORDS_MAX} words"),
    "openings": (sentences.decoded_openings, "sentences that begin with who, whose, which, what, that or as far as"),
    "tables": (None, "values of an enum that an array by its values leaves out"),
}


def counts(texts):
    enums = enums_of(texts)
    found = {}
    for name, text in texts.items():
        for rule, (function, _) in RULES.items():
            broken = function(name, text) if function else incomplete_tables(name, text, enums)
            if broken:
                found[rule, name] = broken
    return found


def listed():
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return {(rule, name): int(count) for rule, name, count in (line.split("\t") for line in lines if not line.startswith("#"))}


def risen(found, allowed, texts):
    """(rule, file) -> how many more than allowed; files that are gone leave their allowance to those that are new."""
    left = {rule: 0 for rule in RULES}
    for (rule, name), count in allowed.items():
        left[rule] += count if name not in texts and rule in left else 0
    for key, broken in sorted(found.items()):
        more = len(broken) - allowed.get(key, 0)
        if key not in allowed and left[key[0]] >= more:
            left[key[0]] -= more
        elif more > 0:
            yield key, broken


def unplain(found, texts):
    """What is broken in prose there; form.tsv counts long cells of tables, as elsewhere."""
    plain = plain_files(texts)
    for (rule, name), broken in sorted(found.items()):
        if rule in PLAIN_RULES and name in plain:
            prose = [s for s in broken if s in sentences.of_file(name, texts[name])[0]]
            if prose:
                yield (rule, name), prose


def problems(texts):
    allowed, found = listed(), counts(texts)
    for (rule, name), broken in unplain(found, texts):
        sample = "; ".join(item.strip()[:60] for item in broken[:3])
        yield f"{name}: {len(broken)} {RULES[rule][1]}, and others read it first: {sample}"
    for (rule, name), broken in risen(found, allowed, texts):
        sample = "; ".join(item.strip()[:60] for item in broken[-3:])
        yield f"{name}: {len(broken)} {RULES[rule][1]}, {allowed.get((rule, name), 0)} were: {sample}"


def write(texts):
    found, allowed = counts(texts), listed()
    if allowed and (worse := list(risen(found, allowed, texts))):
        sys.exit("\n".join(f"{name}: {rule} rose to {len(broken)}" for (rule, name), broken in worse))
    LIST.write_text(HEAD + "".join(f"{rule}\t{name}\t{len(broken)}\n" for (rule, name), broken in sorted(found.items())))


SAMPLE = """enum kind { KIND_A, KIND_B = 2, KIND_COUNT };
static const char *const names[] = {[KIND_A] = "a"};
static int look(int a, int (*call)(int, int), int c, int d, int e, int f)
{
    return a;
}
int seven(int a, int b, int c, int d, int e, int f, int g)
{
    return a;
}
"""


def selfcheck():
    """What the rules must find in a sample, and what they must not."""
    name = "src/sample.c"
    found = {rule: broken for (rule, _), broken in counts({name: SAMPLE}).items()}
    if found != {"words": ["look"], "parameters": ["seven"], "tables": ["names[KIND_B]"]}:
        yield f"form.py found {found} in its sample"
    page = {"a.md": "| " + "x" * 201 + " |\n| " + "x" * 60 + " | " + "x" * 60 + " |\n" + "y" * 101 + "\n"}
    if {rule: len(broken) for (rule, _), broken in counts(page).items()} != {"columns": 1, "cells": 1}:
        yield f"form.py found {counts(page)} in its page"
    grown = list(risen({("words", "b.c"): ["x"], ("words", "c.c"): ["x", "y"]}, {("words", "a.c"): 1, ("words", "c.c"): 1}, {"b.c": "", "c.c": ""}))
    if [key for key, _ in grown] != [("words", "c.c")]:
        yield f"form.py takes {grown} for what rose"
    texts = {"fsm/a.h": "", "fsm/core/b.h": "", "fsm/core/c.h": "/* who */", "src/net/d.c": '#include "fsm/core/c.h"\n// who', "src/net/e.h": "// who",
             "src/net/f.c": '#include "src/net/e.h"'}
    if plain_files(texts) != {"fsm/a.h", "fsm/core/c.h"} or [key for key, _ in unplain(counts(texts), texts)] != [("openings", "fsm/core/c.h")]:
        yield f"form.py takes {plain_files(texts)} for what others read first"


if __name__ == "__main__":
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True).stdout.split("\0")
    write({name: Path(name).read_text(errors="replace") for name in names if Path(name).is_file()})
