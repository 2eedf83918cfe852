"""The project's rules as checks. Run by lint.sh."""
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import form
import graph
import levels
import logs
import named
import rows
import selfcheck
import sentences
import sizes
import words
from source import blank, functions

BUILD = Path(sys.argv[1])
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
LAID_OUT_COMMITS = 15  # what changed in these is looked at in a clone that remembers nothing; the nightly run looks at all


def tracked():
    """Every file of the repository; without git (an unpacked archive) every file that is not built."""
    try:
        names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [str(p) for p in Path(".").rglob("*") if p.is_file() and p.parts[0] not in ("build", ".git")]
    return sorted(n for n in names if n and os.path.isfile(n))


FILES = tracked()
TEXT = {name: Path(name).read_text(errors="replace") for name in FILES}
C_FILES = [n for n in FILES if n.endswith((".c", ".h"))]
PRODUCT = [n for n in C_FILES if n.startswith(("fsm/", "raft/", "src/"))]
CODE = {name: blank(TEXT[name]) for name in C_FILES}
WITH_STRINGS = {name: blank(TEXT[name], keep_strings=True) for name in C_FILES}

# ---- who may include whom (src/ARCHITECTURE.md) ----
# and who uses it: check_slack refuses what nobody needs. Only ckptctl makes certificates
MAY_INCLUDE = {
    "src/base/": ("src/base/",),
    "fsm/": ("fsm/", "ckpt/", "src/base/blake2b.h", "src/base/bytes.h", "src/base/check.h", "src/base/heap.h", "src/base/id.h", "src/base/large_page.h", "src/base/list.h"),  # the parts of base that are pure
    "src/tls/": ("src/tls/", "src/base/"),
    "src/serve/": ("src/serve/", "src/tls/watch.h", "src/base/"),
    "src/net/": ("src/net/", "src/tls/engine.h", "src/base/"),
    "raft/": ("raft/", "src/net/network.h", "src/base/"),
    "src/eval/": ("src/eval/", "src/base/"),
    "src/whatif/": ("src/whatif/", "src/eval/", "src/base/"),
    "src/rpc/": ("src/rpc/", "src/net/", "grpc/", "src/tls/context.h", "src/base/"),
    "src/dest/": ("src/dest/", "src/base/"),
    "src/ask/": ("src/ask/", "src/rpc/", "src/app/ckptshm.h", "fsm/profiles.h", "ckpt/v1/", "src/base/"),
    "src/profile/": ("src/profile/", "src/ask/", "src/serve/", "src/base/"),
    "src/backup/": ("src/backup/", "src/dest/sha256.h", "ckpt/v1/", "src/base/"),
    "src/telemetry/": ("src/telemetry/", "src/base/"),
    "src/client/": ("src/client/", "src/rpc/", "src/base/"),
    "src/broker/": ("src/broker/", "src/eval/", "src/dest/", "src/backup/", "src/telemetry/", "src/rpc/", "src/serve/", "fsm/", "ckpt/",
                    "src/tls/head.h", "src/tls/identity.h", "src/tls/watch.h", "src/base/"),
    "src/agent/": ("src/agent/", "src/ask/", "src/cli/owner.h", "src/dest/", "src/profile/", "src/rpc/", "src/net/network.h", "src/serve/", "fsm/attributes.h", "fsm/message_level.h", "fsm/names.h", "ckpt/v1/", "ckpt/agent/v1/", "criu/", "src/tls/context.h", "src/base/"),
    "src/app/": ("src/app/",),
    "src/cli/": ("src/cli/", "src/whatif/", "src/client/", "src/profile/", "src/backup/", "src/dest/sha256.h", "fsm/audit.h", "fsm/names.h", "fsm/status.h", "fsm/records/", "ckpt/",
                 "src/tls/authority.h", "src/tls/head.h", "src/tls/watch.h", "src/base/"),
}
# the one place where consensus and state machine meet; the program chooses the tables of real disk and network for it
# (and the offline work on a data folder is the same joint without a loop; backups are written by the copy of the process that writes
# snapshots)
ALSO = {"src/broker/replica/replica.h": ("raft/",), "src/broker/daemon/daemon.c": ("raft/uv_io.h", "src/net/cut_network.h", "src/net/uv_network.h"),
        "src/broker/daemon/credentials.c": ("src/net/tls_network.h",), "src/broker/daemon/http_secure.c": ("src/net/uv_network.h",),
        "src/broker/keep/recovery.c": ("raft/",), "src/broker/keep/restore.c": ("raft/",), "src/broker/keep/backup.c": ("raft/snap/export.h",), "src/broker/api/backup_service.c": ("raft/snap/export.h",),
        "src/broker/keep/backup_schedule.c": ("raft/snap/export.h",),
        "src/agent/durable/journal.c": ("raft/io_ops.h",), "src/agent/daemon/main.c": ("raft/uv_io.h", "src/net/uv_network.h"),
        "src/agent/alone/alone_agent.c": ("raft/uv_io.h", "src/net/uv_network.h")}
LIBRARY_LAYERS = {
    "raft.h": ("raft/",),
    "uv.h": ("raft/", "src/net/", "src/serve/", "src/rpc/", "src/dest/", "src/ask/", "src/telemetry/", "src/broker/", "src/agent/"),
    "lz4": ("raft/", "src/backup/", "src/dest/"),
    "nghttp2/": ("src/rpc/",),
    "openssl/": ("src/tls/", "src/dest/"),
    "curl/": ("src/dest/", "src/telemetry/"),
    "expat.h": ("src/dest/",),
    "yaml.h": ("src/cli/", "src/serve/"),
    "jansson.h": ("src/cli/", "src/telemetry/", "src/broker/"),
    "microhttpd.h": ("src/serve/",),
    "libsmartcols/": ("src/cli/",),
    "protobuf-c/": ("fsm/", "src/client/", "src/broker/", "src/agent/", "src/cli/"),
    "math.h": ("src/serve/", "src/eval/", "src/whatif/", "src/broker/", "src/telemetry/"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def layer_of(name):
    return next((layer for layer in MAY_INCLUDE if name.startswith(layer)), None)


def includes(name):
    return INCLUDE.findall(blank(TEXT[name], keep_strings=True))


def check_layering():
    for name in PRODUCT:
        layer = layer_of(name)
        if layer is None:
            yield f"{name}: belongs to no layer"
            continue
        allowed = MAY_INCLUDE[layer] + ALSO.get(name, ())
        for quote, path in includes(name):
            if quote == '"' and not path.startswith(allowed):
                yield f"{name}: may not include \"{path}\""
            owner = next((o for library, o in LIBRARY_LAYERS.items() if path.startswith(library)), None)
            if quote == "<" and owner is not None and not layer.startswith(owner):
                yield f"{name}: <{path}> belongs to {', '.join(owner)}"


def check_include_paths():
    for name in C_FILES:
        for quote, path in includes(name):
            generated = path.startswith(("ckpt/", "criu/", "grpc/")) and path.endswith((".pb-c.h", "_help.h", "/levels.h"))
            if quote == '"' and not generated and not os.path.isfile(path):
                yield f"{name}: \"{path}\" is not written from the root"


def check_slack():
    """What a list allows and nobody includes is taken from the list: it says what is so."""
    every = [(name, quote, path) for name in PRODUCT for quote, path in includes(name)]
    for layer, allowed in MAY_INCLUDE.items():
        for prefix in allowed:
            if not any(name.startswith(layer) and quote == '"' and path.startswith(prefix) for name, quote, path in every):
                yield f"{layer}: nothing there includes {prefix}"
    for name, allowed in ALSO.items():
        for prefix in allowed:
            if not any(n == name and quote == '"' and path.startswith(prefix) for n, quote, path in every):
                yield f"{name}: does not include {prefix}"
    for library, owners in LIBRARY_LAYERS.items():
        for owner in owners:
            if not any(name.startswith(owner) and quote == "<" and path.startswith(library) for name, quote, path in every):
                yield f"{owner}: nothing there includes <{library}>"


def told_includes(layer):
    """The cell of src/ARCHITECTURE.md that says what MAY_INCLUDE and LIBRARY_LAYERS say."""
    whole = [path.removeprefix("src/").rstrip("/") for path in MAY_INCLUDE[layer] if path.endswith("/") and path != layer]
    headers = {}
    for path in MAY_INCLUDE[layer]:
        if path.endswith(".h"):
            folder, name = os.path.split(path.removeprefix("src/"))
            headers.setdefault(folder, []).append(name.removesuffix(".h"))
    parts = [f"`{folder}/{names[0]}.h`" if len(names) == 1 else f"`{folder}/{{{','.join(sorted(names))}}}.h`" for folder, names in headers.items()]
    libraries = [f"`<{library.rstrip('/')}>`" for library, owners in LIBRARY_LAYERS.items() if layer in owners]
    return "; ".join(", ".join(words) for words in (whole + parts, libraries) if words) or "–"


def check_told_includes():
    rows_told = {cells[1].strip(" `"): cells[3].strip() for cells in (line.split("|") for line in TEXT["src/ARCHITECTURE.md"].split("\n"))
                 if len(cells) == 5}
    for layer in MAY_INCLUDE:
        told = rows_told.get(layer.rstrip("/"), rows_told.get(layer))
        if MAY_INCLUDE[layer] and told != told_includes(layer):
            yield f"src/ARCHITECTURE.md: {layer} may include: {told_includes(layer)}"


# ---- what varies is a row of a table: nobody else asks which one it is ----
WAYS = re.findall(r"X\((\w+), (?:\w+|\"([\w-]+)\")\)", TEXT["fsm/profiles.h"])
WAY_ROWS = "|".join(row for row, _ in WAYS)
WAY_NAMES = "|".join([*re.findall(r'FSM_PROFILE_DEFAULT "([\w-]+)"', TEXT["fsm/profiles.h"]), *(name for _, name in WAYS if name)])
KINDS = (("src/dest/", CODE, re.compile(r"\bTARGET_KIND__TARGET_KIND_(?!UNSPECIFIED)\w+"), "a kind of destination"),
         ("src/ask/", CODE, re.compile(rf"\bask_(?:{WAY_ROWS})\b"), "a way of asking"),
         # a profile beside the name of one, and one that a text names
         ("src/ask/", WITH_STRINGS, re.compile(rf'profile[^;{{}}\n]*"(?:{WAY_NAMES})"|"(?:{WAY_NAMES})"[^;{{}}\n]*profile|--profile (?:{WAY_NAMES})\b'),
          "a way of asking"))


def check_kinds():
    for home, code, pattern, what in KINDS:
        for name in PRODUCT:
            if not name.startswith(home):
                for match in pattern.finditer(code[name]):
                    yield f"{name}:{line_of(name, match)}: {match.group(0)} is {what}, which only {home} tells apart"


# ---- the state machine is pure ----
PURE = set("""memcpy memmove memset memcmp memchr strlen strnlen strcmp strncmp strchr strrchr strstr strspn strcspn
    malloc calloc realloc free snprintf vsnprintf bsearch qsort __stack_chk_fail __memcpy_chk __memmove_chk __memset_chk
    __snprintf_chk __vsnprintf_chk _GLOBAL_OFFSET_TABLE_ __udivti3 __divti3 __umodti3 __modti3
    blake2b blake2b_text id_valid label_valid large_page_alloc large_page_filled large_pages_free large_pages_zeroed part_name_format checkpoint_id_format checkpoint_id_parse""".split())
PURE_PREFIXES = ("check_", "ckpt__", "protobuf_c_")


# what an agent decides: steps of its jobs. Nothing is allocated there either, and each function checks what it relies on
JOB_STEPS = [n for n in C_FILES if re.fullmatch(r"src/agent/(job/(\w+_(step|state)|job_effect|reconcile)|alone/alone_step|durable/kept)\.c", n)]
JOB_MAY_INCLUDE = re.compile(r"src/agent/job/(job_effect|reconcile|\w+_step)\.h|src/agent/alone/alone_step\.h|src/agent/durable/(ledger|end_note|kept)\.h|src/agent/node/ranks\.h|src/agent/run/words\.h|"
                             r"src/ask/sentinel\.h|src/dest/destination\.h|src/base/(check|id|text)\.h|ckpt/v1/\w+\.pb-c\.h")
JOB_TEXTS = {"hint_format", "words_cut", "words_enum", "destination_validate"}  # of other layers, on texts alone
ALLOCATING = {"malloc", "calloc", "realloc", "free", "check_malloc", "check_calloc", "check_realloc", "check_strdup"}


def impure(objects, allowed):
    defined, needed = set(), {}
    for path, kind, symbol in graph.symbols(objects):
        if kind == "U":
            needed.setdefault(symbol, path.name)
        else:
            defined.add(symbol)
    return [f"{where}: needs {symbol}" for symbol, where in sorted(needed.items()) if symbol not in defined and not allowed(symbol)]


def check_fsm_purity():
    objects = sorted((BUILD / "fsm").rglob("*.o"))
    if not objects:
        return f"no objects in {BUILD}/fsm"
    return impure(objects, lambda symbol: symbol in PURE or symbol.startswith(PURE_PREFIXES))


def check_job_purity():
    objects = [BUILD / (name[:-2] + ".o") for name in JOB_STEPS]
    if not JOB_STEPS or not all(o.is_file() for o in objects):
        return f"no objects in {BUILD}/src/agent/job"
    return impure(objects, lambda symbol: symbol not in ALLOCATING and (symbol in PURE | JOB_TEXTS or symbol.startswith(PURE_PREFIXES)))


def check_job_includes():
    for name in JOB_STEPS + [n for n in C_FILES if re.fullmatch(r"src/agent/job/(job_effect|reconcile|\w+_step)\.h", n)]:
        for quote, path in includes(name):
            if quote == '"' and not JOB_MAY_INCLUDE.fullmatch(path):
                yield f"{name}: a step may not include \"{path}\""


ASSERTIONS_PER_FUNCTION = 1


def check_job_assertions():
    checks = sum(len(re.findall(r"\bCHECK(?:_UNREACHABLE)?\(", CODE[name])) for name in JOB_STEPS)
    count = sum(len(functions(TEXT[name])) for name in JOB_STEPS)
    if checks < ASSERTIONS_PER_FUNCTION * count:
        yield f"src/agent/job: {checks} assertions in {count} functions of its steps, {ASSERTIONS_PER_FUNCTION} each are wanted"


def check_fsm_integers():
    for name in C_FILES:
        if name.startswith("fsm/"):
            for match in re.finditer(r"\b(float|double)\b", CODE[name]):
                yield f"{name}:{line_of(name, match)}: floating point"


# ---- calls and words ----
BANNED = {
    "strcat": "buf_printf or snprintf", "strcpy": "snprintf or memcpy with a checked length", "sprintf": "snprintf",
    "vsprintf": "vsnprintf", "gets": "fgets", "atoi": "a strict parser", "atol": "a strict parser", "atof": "a strict parser",
    "strtok": "strsep", "system": "a worker process", "popen": "a worker process", "alloca": "a bounded array",
    "rand": "struct random_ops", "srand": "struct random_ops", "random": "struct random_ops", "sleep": "a timer",
    "usleep": "a timer", "tmpnam": "mkstemp", "mktemp": "mkstemp",
}
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")


def line_of(name, match):
    return TEXT[name].count("\n", 0, match.start()) + 1


def check_banned_calls():
    for name in PRODUCT:
        for match in CALL.finditer(CODE[name]):
            yield f"{name}:{line_of(name, match)}: {match.group(1)}(): use {BANNED[match.group(1)]}"
    for name in PRODUCT:
        for match in re.finditer(r"\bfprintf\(\s*cli->out\b", CODE[name]):
            yield f"{name}:{line_of(name, match)}: fprintf(cli->out: use cli_out(), which disarms what a terminal would obey"
    for name in PRODUCT:
        for match in re.finditer("__builtin_prefetch", CODE[name]):
            if name.startswith("fsm/") and name != "fsm/core/map.h":
                yield f"{name}:{line_of(name, match)}: __builtin_prefetch(): use fsm_prefetch, gcc drops this one in fsm/"


UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def check_unfinished():
    for name, text in TEXT.items():
        if not name.startswith("tests/lint/"):
            for match in UNFINISHED.finditer(text):
                yield f"{name}:{line_of(name, match)}: {match.group(1)}"


# words of the workplace in which a file was written, none of which helps its reader
FOREIGN = re.compile(
    r"/work/(?:main|shared|\.)|/tmp/w/|\bshared/(?:design|style|ux|requirements|invariants|facts|seeds)\b|\.\./shared/"
    r"|\b[Ii]ssue #?\d+\b|\b(?:this|next|later|previous|an earlier) issues?\b|\b[Ss]ession #?\d+\b|\b(?:this|next|later|previous) session\b"
    r"|\bsub-?agents?\b|\bclaude\b|\banthropic\b|\bchatgpt\b|\bLLM\b|\bmy brief\b|\bthe brief\b|\bhelper session\b"
    r"|\bartifactory\b|\bpypi\.org/simple\b|\bdeb\.debian\.org\b"
    r"|\b(?:design|ux|requirements|invariants)\.md\b", re.I)
FOREIGN_PARTS = ("/work/", "/tmp/w/", "shared/", "issue", "session", "sub-agent", "subagent", "claude", "anthropic", "chatgpt", "llm", "brief", "artifactory", "pypi", "debian.org", ".md")


def check_foreign_words():
    # a line with a word of it has one of these; a search for all of them at once costs seconds
    for name, text in TEXT.items():
        low = text.lower()
        parts = [part for part in FOREIGN_PARTS if part in low]
        if name.startswith("tests/lint/") or not parts:
            continue
        for number, line in enumerate(low.split("\n"), 1):
            if any(part in line for part in parts):
                for match in FOREIGN.finditer(line):
                    yield f"{name}:{number}: \"{match.group(0)}\""


# ---- form ----
def check_function_length():
    for name in C_FILES:
        for function, line, length, comment in functions(TEXT[name]):
            if length > FUNCTION_LINES_MAX and "long:" not in comment and function != "main":
                yield f"{name}:{line}: {function}() has {length} lines, at most {FUNCTION_LINES_MAX} (or a comment \"long: why\")"


def check_file_length():
    for name in FILES:
        if name.endswith((".c", ".h", ".py", ".sh", ".proto")) and TEXT[name].count("\n") > FILE_LINES_MAX:
            yield f"{name}: {TEXT[name].count(chr(10))} lines, at most {FILE_LINES_MAX}"


def check_file_heads():
    for name in PRODUCT:
        if not TEXT[name].lstrip().startswith("/*"):
            yield f"{name}: begins without a comment that says what it is"


def check_typedefs():
    for name in C_FILES:
        for match in re.finditer(r"\btypedef\s+(struct|union)\b", CODE[name]):
            yield f"{name}:{line_of(name, match)}: typedef {match.group(1)}"


def check_prefixes():
    for name in PRODUCT:
        banned = ("cb_", "uv_", "raft_")
        if os.path.basename(name).startswith("uv_"):
            banned = ("cb_", "raft_")
        names = [(f, line) for f, line, _, _ in functions(TEXT[name])]
        names += [(m.group(1), line_of(name, m)) for m in re.finditer(r"^(?:struct|enum|union) (\w+)\s*\{", CODE[name], re.M)]
        for defined, line in names:
            if defined.startswith(banned):
                yield f"{name}:{line}: {defined} has the prefix of a library"


@functools.cache
def recently_changed():
    """Files of the last commits and of the working tree; all of them where git cannot tell."""
    told = [subprocess.run(["git", *words], capture_output=True, text=True) for words in
            (["log", f"-{LAID_OUT_COMMITS}", "--name-only", "--format="], ["status", "--porcelain", "--no-renames", "-uall"])]
    if any(one.returncode != 0 for one in told):
        return frozenset(C_FILES)
    return frozenset(told[0].stdout.split("\n")) | frozenset(line[3:] for line in told[1].stdout.split("\n"))


def check_format():
    if shutil.which("clang-format") is None:
        return "clang-format is not installed"
    # what had its layout before is remembered by its bytes: clang-format takes 12 s for all files
    style = Path(".clang-format").read_text()
    memory = BUILD / "laid_out"
    known = set(memory.read_text().split()) if memory.exists() else set()
    keys = {name: hashlib.sha256((style + TEXT[name]).encode(errors="replace")).hexdigest() for name in C_FILES}
    names = [name for name in C_FILES if keys[name] not in known and (known or os.environ.get("LONG") or name in recently_changed())]
    halves = [subprocess.Popen(["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", *half], stderr=subprocess.PIPE, text=True)
              for half in (names[::2], names[1::2]) if half]
    bad = sorted({line.split(": error:")[0] for half in halves for line in half.communicate()[1].splitlines() if "clang-format-violations" in line})
    if BUILD.is_dir():
        memory.write_text("\n".join(sorted((known & set(keys.values())) | {keys[name] for name in names if name not in bad})) + "\n")
    return bad


# ---- documents ----
def check_generated_documents():
    result = subprocess.run(["tests/lint/docs.sh", "--check"], capture_output=True, text=True)
    return [result.stderr.strip() or "docs.sh failed"] if result.returncode != 0 else []


def check_documented_commands():
    """Each ckptctl line in a code block of a document names a command and options that the program knows."""
    program = BUILD / "bin" / "ckptctl"
    if not program.exists():
        return f"{program} is not built"
    help_of, bad = {}, []
    for name in FILES:
        if not name.endswith(".md"):
            continue
        for block in re.findall(r"```[^\n]*\n(.*?)```", TEXT[name], re.S):
            for line in re.findall(r"^\s*(?:\$ |watch |sudo |-n \d+ )*ckptctl\s+([^|#;&\n]*)", block, re.M):
                words = line.split()
                plain = [w for w in re.sub(r"--?(?:endpoints|output|timeout|o)[ =]\S+|-o\S*", "", line).split() if not w.startswith("-")]
                key = tuple(plain[:2])
                if key not in help_of:
                    for length in (2, 1, 0):
                        result = subprocess.run([program, "help", *plain[:length]], capture_output=True, text=True)
                        if result.returncode == 0 and (length > 0 or not plain):
                            break
                    help_of[key] = result.stdout if result.returncode == 0 and (length > 0 or not plain) else None
                if help_of[key] is None:
                    bad.append(f"{name}: no command in \"ckptctl {line.strip()}\"")
                    continue
                for option in (w.split("=")[0] for w in words if w.startswith("--") and w != "--"):
                    if not re.search(re.escape(option) + r"\b", help_of[key]):
                        bad.append(f"{name}: no option {option} in \"ckptctl {line.strip()}\"")
    return bad


def check_named_commands():
    """Each ckptctl command that a text of the programs names is one, with the argument and the options that it takes."""
    program = BUILD / "bin" / "ckptctl"
    if not program.exists():
        return f"{program} is not built"
    table = dict(re.findall(r'\{"([a-z]+(?:[ -][a-z]+)*)", "([^"]*)",', TEXT["src/cli/commands.c"]))
    bad = []
    for name in FILES:
        if not name.endswith((".c", ".h")) or name.startswith(("tests/", "src/cli/")):
            continue
        text = re.sub(r'" *\\?\n *"', "", TEXT[name])  # literals that follow each other are one
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
            for line in re.findall(r"\bckptctl ((?:--?[a-z-]+|[a-z-]+|[A-Z]+)(?: (?:--[a-z-]+|[a-z-]+|[A-Z]+\b))*)", literal):
                words = line.split()
                command = next((c for c in (" ".join(words[:2]), words[0]) if c in table), None)
                if command is None and any(c.startswith(words[0] + " ") for c in table):
                    continue  # a group of them
                if command is None:
                    bad.append(f'{name}: no command in "ckptctl {line}"')
                    continue
                rest = words[len(command.split()):]
                if rest and rest[0].isupper() and rest[0] not in re.findall("[A-Z]+", table[command]):
                    bad.append(f'{name}: {command} takes "{table[command]}", not {rest[0]}, in "ckptctl {line}"')
                known = subprocess.run([program, "help", *command.split()], capture_output=True, text=True).stdout
                bad += [f'{name}: no option {w} in "ckptctl {line}"' for w in rest
                        if w.startswith("--") and not re.search(re.escape(w) + r"\b", known)]
    return bad


def anchors(text):
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def check_links():
    """Links between documents, and from alerts to the runbook, lead somewhere."""
    for name in FILES:
        found = []
        if name.endswith(".md"):
            prose = re.sub(r"```.*?```", "", TEXT[name], flags=re.S)
            found = [(os.path.dirname(name), link) for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]
            found = [(base, link if not link.startswith("#") else os.path.basename(name) + link) for base, link in found]
        elif name.endswith((".yml", ".yaml")):
            found = [("", link) for link in re.findall(r"runbook_url: (\S+)", TEXT[name])]
        for base, link in found:
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(base, path))
            if not os.path.exists(target):
                yield f"{name}: {link} leads nowhere"
            elif anchor and anchor not in anchors(Path(target).read_text()):
                yield f"{name}: {target} has no heading #{anchor}"


def expand(path):
    """src/{a,b}.c -> both."""
    match = re.search(r"\{([^}]*)\}", path)
    return [path] if match is None else [p for word in match[1].split(",") for p in expand(path[:match.start()] + word + path[match.end():])]


def check_named_files():
    """What the glossary and ARCHITECTURE name is there, the glossary is in order, and each README leads to it."""
    for name in ("src/GLOSSARY.md", "src/ARCHITECTURE.md"):
        for path in re.findall(r"`((?:fsm|raft|src|proto|tests|deploy)/[\w./{},*-]*)`", TEXT[name]):
            for one in expand(path):
                if MAY_INCLUDE.get(one + "/") != () and not list(Path(".").glob(one.rstrip("/"))):
                    yield f"{name}: there is no {one}"
    rows_of = [word.lower() for word, _ in words.glossary(TEXT["src/GLOSSARY.md"])]
    yield from (f"src/GLOSSARY.md: \"{word}\" is not in its place" for before, word in zip(rows_of, rows_of[1:]) if word < before)
    for name in FILES:
        if os.path.basename(name) == "README.md" and "GLOSSARY.md)" not in TEXT[name]:
            yield f"{name}: no link to src/GLOSSARY.md"
    for layer in MAY_INCLUDE:
        if MAY_INCLUDE[layer] and not os.path.isfile(layer + "README.md"):
            yield f"{layer}: no README.md"


NAMED_CASE = re.compile(r"\]\(\.\./(tests/[\w./]+)\): `([^`|]+)` \|$")


def check_named_cases():
    """Each row of the runbook's tables of what comes back by itself names a case, which the file of that test has."""
    name = "deploy/RUNBOOK.md"
    section = TEXT[name].partition("\n## What comes back by itself\n")[2].partition("\n## ")[0]
    found = [line for line in section.split("\n") if line.startswith("| ") and not line.startswith("| what fails")]
    if not found:
        yield f"{name}: no table of what comes back by itself"
    for line in found:
        match = NAMED_CASE.search(line)
        if match is None:
            yield f"{name}: no test is named by: {line}"
        elif not os.path.isfile(match[1]) or match[2] not in Path(match[1]).read_text():
            yield f"{name}: {match[1]} has no {match[2]}"


def check_units():
    """A unit is started again without end, as the runbook promises, except after the exit codes where that cannot help."""
    for name in FILES:
        if name.endswith(".service"):
            head, _, service = TEXT[name].partition("[Service]")
            for wanted, text in (("StartLimitIntervalSec=0", head), ("Restart=(on-failure|always)", service), ("RestartPreventExitStatus=2.*", service)):
                if not re.search(f"^{wanted}$", text, re.M):
                    yield f"{name}: no line {wanted}"


def check_mutants():
    """Each mutant of the simulator applies exactly where it was drawn: one that does not shows nothing any more, and nobody is told."""
    if shutil.which("patch") is None:
        return "no patch"
    return [f"{name}: does not apply; draw it anew from today's code, with the same meaning, and see it found (tests/sim/README.md, Mutants)"
            for name in FILES if name.startswith("tests/sim/mutants/") and name.endswith(".patch")
            and subprocess.run(["patch", "-p1", "-F0", "-s", "--dry-run", "-i", name], capture_output=True).returncode != 0]


def check_rows():
    """Each row of the requirements is named by a test, or listed with what is missing."""
    return rows.problems(TEXT)


def check_access_table():
    """The table of src/broker/README.md says of each method, by its name or as one of its service's rest, what its row says."""
    kinds = ["REPLICA", "AGENT", "SCHEDULER", "OPERATOR", "AUDITOR"]
    rules = {}
    for name, service in (("service_broker.c", "BrokerService"), ("service_operator.c", "OperatorService"), ("service_members.c", "OperatorService"), ("service_drills.c", "OperatorService"),
                          ("service.c", "")):
        for path, may in re.findall(r'"(?:/ckpt\.v1\.)?([\w/]+)",\s+(?:\.roles = )?((?:ROLE_\w+(?: \| )?)+),', TEXT["src/broker/api/" + name]):
            rules[tuple(path.split("/")) if "/" in path else (service, path)] = {
                kind for kind in kinds if kind in may.replace("READER", "CLIENT AUDITOR").replace("CLIENT", "SCHEDULER OPERATOR").replace("OWNER", "AGENT")}
    told = {}
    for line in re.findall(r"^\| `\w+Service[/`].*", TEXT["src/broker/README.md"], re.M):
        first, *may = [cell.strip() for cell in line.strip("|").split("|")]
        service, names = re.search(r"(\w+Service)", first)[1], re.findall(r"`(?:\w+/)?(\w+)`", first)
        for name in names:
            told[service, "" if name == service else name] = {kind for kind, cell in zip(kinds, may) if cell != "–"}
    for service, method in sorted(rules.keys() | {key for key in told if key[1]}):
        if rules.get((service, method)) != told.get((service, method), told.get((service, ""))):
            yield f"src/broker/README.md: the table of certificates and the method's row differ about {service}/{method}"


def check_samples():
    """Each check finds its samples, and leaves the look-alikes."""
    yield from selfcheck.problems(CALL, FOREIGN, INCLUDE)
    for module in (form, graph, levels, logs, named, rows, sentences, sizes, words):
        yield from module.selfcheck()


def check_levels():
    yield from levels.problems(TEXT)


def check_executable():
    for name in FILES:
        if re.fullmatch(r"tests/(integration|systems)/test_\w+\.py", name) and not os.access(name, os.X_OK):
            yield f"{name} is not executable: chmod +x"


def check_dependency_files():
    """make knows a target by one name: an object whose .d file has another one keeps what it was made of."""
    for path in BUILD.rglob("*.d"):
        name = os.path.relpath(path.with_suffix(".o"))
        if name.startswith("build/") and path.stat().st_size > 0 and not re.search("(san|roots|deb)/", name):
            target = path.read_text(errors="replace").split(":", 1)[0]
            if target != name:
                yield f"{os.path.relpath(path)} speaks of {target}: remove it and its object, and give each make the same BUILD"


CHECKS = [
    ("the checks find what they must", check_samples),
    ("layers include only what they may", check_layering),
    ("no layer may include what it does not", check_slack),
    ("ARCHITECTURE says what layers may include", check_told_includes),
    ("includes are written from the root", check_include_paths),
    ("nobody outside a table asks which of its rows it has", check_kinds),
    ("the state machine calls nothing impure", check_fsm_purity),
    ("the state machine has no floating point", check_fsm_integers),
    ("the steps of a job call nothing impure", check_job_purity),
    ("the steps of a job include nothing impure", check_job_includes),
    ("the steps of a job check what they rely on", check_job_assertions),
    ("fsm and raft check what they rely on", sizes.problems),
    ("no banned call", check_banned_calls),
    ("nothing is marked unfinished", check_unfinished),
    ("the repository speaks of the project alone", check_foreign_words),
    ("functions are short", check_function_length),
    ("files are short", check_file_length),
    ("files begin with what they are", check_file_heads),
    ("no typedef of a struct", check_typedefs),
    ("no definition has a library's prefix", check_prefixes),
    ("few files call each other in a ring", lambda: graph.problems(BUILD)),
    ("layout is clang-format's", check_format),
    ("what is known to break a rule of form grows nowhere", lambda: form.problems(TEXT)),
    ("what came after the last release carries its level", check_levels),
    ("generated documents are current", check_generated_documents),
    ("documented commands exist", check_documented_commands),
    ("commands that texts name exist", check_named_commands),
    ("links and alerts lead to what exists", check_links),
    ("the runbook's rows of what comes back name their tests", check_named_cases),
    ("test programs can be run", check_executable),
    ("objects are made anew when what they include changes", check_dependency_files),
    ("the glossary and ARCHITECTURE name what is there", check_named_files),
    ("logs and errors name the values of enums", lambda: logs.problems(TEXT, CODE, WITH_STRINGS)),
    ("one word is one thing", lambda: words.problems(TEXT)),
    ("units are started again without end", check_units),
    ("the table of certificates has every rule", check_access_table),
    ("each mutant of the simulator applies", check_mutants),
    ("every row of the requirements has a test or is listed with what is missing", check_rows),
]


def main():
    failed = 0
    for title, check in CHECKS:
        result = check()
        if isinstance(result, str):
            print(f"ok {title} # SKIP {result}")
            continue
        problems = list(result)
        print(f"{'not ok' if problems else 'ok'} {title}")
        for problem in problems:
            print(f"# {problem}")
        failed += bool(problems)
    return 1 if failed else 0


sys.exit(main())
