"""Logs and errors name the values of enums: a number says nothing to who reads it, and another build may count otherwise. What is printed by
a conversion of integers in a call of a log or of err_set() may not be the field or variable of an enum."""
import re

FORMAT_AT = {"log_debug": 1, "log_info": 1, "log_warning": 1, "log_error": 1, "log_event": 2, "err_set": 2}  # which argument is the format
CALL = re.compile(r"\b(" + "|".join(FORMAT_AT) + r")\(")
CONVERSION = re.compile(r"%[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")
# the last word of a field that is an enum, whatever its type is said to be; what is declared as one is found besides
WORDS = re.compile(r"(?:^|_)(?:state|kind|reason|cause|way|phase|purpose|verdict)$")
ENUM = re.compile(r"^\s*enum (\w+)", re.M)
INTEGER = re.compile(r"\b(?:int|unsigned|bool|size_t|pid_t|u?int\d+_t)\s+(?:\w+,\s*)*(\w+)\s*[;,)=]")


def arguments(code, start):
    """The arguments of a call whose opening parenthesis is before start."""
    depth, at, found, quoted = 0, start, [], False
    for position in range(start, len(code)):
        character = code[position]
        if quoted or character == '"':
            quoted ^= character == '"' and code[position - 1] != "\\"
        elif character in "([{":
            depth += 1
        elif depth == 0 and character in ",)":
            found.append(code[at:position].strip())
            at = position + 1
            if character == ")":
                return found
        elif character in ")]}":
            depth -= 1
    return found


def printed_as_integers(arguments_after, text):
    format_text = "".join(literal or macro for literal, macro in re.findall(r'"((?:[^"\\]|\\.)*)"|\bPRI([diuxX])\w*', text))
    left = iter(arguments_after)
    for width, precision, kind in CONVERSION.findall(format_text):
        for star in (width, precision):
            if star == "*":
                next(left, None)
        if kind != "%" and (argument := next(left, None)) is not None and kind in "diuxX":
            yield argument


def last_names(argument):
    """What a value comes from: the last name of each branch, casts and what is handed to a function aside."""
    plain = argument
    while (shorter := re.sub(r"\b\w+\([^()]*\)|\[[^\[\]]*\]", "()", plain)) != plain:
        plain = shorter
    plain = re.sub(r"\((?:int|unsigned|u?int\d+_t|size_t|\w*__\w+|enum \w+)\)", "", plain)
    branches = plain.split("?", 1)[1].split(":") if "?" in plain else [plain]
    return [match.group(1) for branch in branches if (match := re.fullmatch(r".*?([A-Za-z_]\w*)[\s)]*", branch, re.S))]


def enums_of(texts, blanked):
    """Names that are declared as an enum somewhere and as an integer nowhere."""
    types = set()
    for name, text in texts.items():
        if name.endswith(".proto") and (package := re.search(r"^package ([\w.]+);", text, re.M)):
            prefix = "".join(part.capitalize() + "__" for part in package.group(1).split("."))
            types |= {prefix + enum for enum in ENUM.findall(text)}
    names, integers = set(), set()
    for name, code in blanked.items():
        if name.startswith(("fsm/", "raft/", "src/")):
            integers |= set(INTEGER.findall(code))
            names |= set(re.findall(r"\benum \w+ (\w+)\s*[;,)=]", code))
            names |= {declared for kind, declared in re.findall(r"\b(Ckpt__\w+) (\w+)\s*[;,)=]", code) if kind in types}
    return names - integers


def numbers_of_enums(name, code, enums):
    for match in CALL.finditer(code):
        found = arguments(code, match.end())
        at = FORMAT_AT[match.group(1)]
        for argument in printed_as_integers(found[at + 1:], found[at] if len(found) > at else ""):
            if any(last in enums or WORDS.search(last) for last in last_names(argument)):
                yield f"{name}:{code.count(chr(10), 0, match.start()) + 1}: {match.group(1)}() prints {' '.join(argument.split())} as a number"


def problems(texts, blanked, with_strings):
    """blanked: of C files, without comments and literals; with_strings: with literals (source.blank)."""
    enums = enums_of(texts, blanked)
    for name, code in with_strings.items():
        if name.startswith(("fsm/", "raft/", "src/")) and name.endswith(".c"):
            yield from numbers_of_enums(name, code, enums)


SAMPLES = (
    ('log_info("stop", "a=%s cause=%d reason=%d b=%" PRIu64, id, (int)(asked ? event->ask.cause : process->cause), (int)r->reason, at_us);', 2),
    ('log_warning("still", "way=%d pid=%d", (int)a.executor.still_way, (int)result->stuck);', 1),
    ('err_set(err, ERR_CORRUPT, "frame of type %d", (int)frame->type);', 1),
    ('log_info("stop", "state=%s way=%s %*d", state_name(x->state), way_name((int)way), width, count);', 0),
    ('log_info("exit", "status=%d n=%zu", result->exit_status, summary.by_state[STATE]);', 0),
)


def selfcheck():
    for text, wanted in SAMPLES:
        if len(found := list(numbers_of_enums("src/a.c", text, {"type"}))) != wanted:
            yield f"logs.py found {found} in {text}"
    proto, code = "package ckpt.v1;\nenum Reason {\n}\n", {"src/a.h": "struct a {\n    enum kind type, other;\n    Ckpt__V1__Reason why;\n    int level;\n};\nenum deep level;\n"}
    if (found := enums_of({"a.proto": proto}, code)) != {"type", "why"}:
        yield f"logs.py takes {found} for enums"
