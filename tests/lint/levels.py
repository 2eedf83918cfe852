"""What came after the last release carries the level of the next one (proto/ckpt/v1/level.proto); nothing that was released changes its number or its shape."""
import re
import subprocess

OPTION = re.compile(r"\(ckpt\.v1\.(?:value_)?level\)\s*=\s*(\d+)")
ITEM = re.compile(r"(.*?)(\w+)\s*=\s*(-?\d+)\s*(?:\[.*\])?", re.S)


def items(text):
    """{(message or enum, name): (number, type, level)} of each field and value of a .proto file."""
    found, scope = {}, []
    text = re.sub(r"//[^\n]*", "", text)
    package = re.search(r"package ([\w.]+);", text)
    for statement, end in re.findall(r"([^;{}]*)([;{}])", text):
        words = statement.split()
        if end == "{":
            scope.append((words[0], words[1] if len(words) > 1 else ""))
        elif end == "}":
            scope.pop()
        elif scope and scope[-1][0] in ("message", "enum", "oneof") and words and words[0] not in ("option", "reserved"):
            if match := ITEM.fullmatch(statement.strip()):
                place = ".".join([package.group(1)] + [name for kind, name in scope if kind in ("message", "enum")])
                level = OPTION.search(statement)
                found[place, match.group(2)] = (int(match.group(3)), " ".join(match.group(1).split()), int(level.group(1)) if level else 1)
    return found


def releases(text):
    """(level, version, commit) of each, the newest last."""
    rows = [line.split() for line in text.split("\n") if line and not line.startswith("#")]
    return [(int(level), version, commit) for level, version, commit in rows]


def released_protos(commit):
    """{path: text}; None: this checkout has no history."""
    listing = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit, "proto/"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        return None
    return {path: subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, check=True).stdout
            for path in listing.stdout.split() if path.endswith(".proto")}


def compare(was, now, level):
    """was, now: items(); level: of the release."""
    for (place, name), (number, shape, _) in was.items():
        if (place, name) not in now:
            yield f"{place}.{name} = {number} was released and is gone"
        elif now[place, name][:2] != (number, shape):
            yield f"{place}.{name} was released as \"{shape} = {number}\" and is \"{now[place, name][1]} = {now[place, name][0]}\""
    for (place, name), (number, _, said) in now.items():
        if (place, name) in was and said > level:
            yield f"{place}.{name} was released at level {level} and says level {said}"
        elif (place, name) not in was and said != level + 1:
            yield f"{place}.{name} = {number} came after level {level}: give it [(ckpt.v1.level) = {level + 1}] (a value: value_level)"


def problems(texts):
    level, version, commit = releases(texts["RELEASES"])[-1]
    old = released_protos(commit)
    if old is None:  # an unpacked archive, or a shallow clone
        print(f"# nothing is compared with {version}: its commit {commit} is not in this checkout's history (git fetch --unshallow)", flush=True)
        return
    was, now = {}, {}
    for text in old.values():
        was.update(items(text))
    for name, text in texts.items():
        if name.startswith("proto/ckpt/") and name.endswith(".proto"):
            now.update(items(text))
    was = {key: value for key, value in was.items() if key[0].startswith("ckpt.")}
    yield from compare(was, now, level)
    newest = max([said for _, _, said in now.values()] + [level])
    for released, release, _ in releases(texts["RELEASES"]):
        if f'X({released}, "{release}")' not in texts["src/base/build.h"]:
            yield f"src/base/build.h: BUILD_RELEASES has no X({released}, \"{release}\"), which RELEASES has"
    if not re.search(rf"\bFSM_LEVEL_NEWEST = {newest}\b", texts["fsm/message_level.h"]):
        yield f"fsm/message_level.h: FSM_LEVEL_NEWEST is not {newest}, the highest level of the .proto files"


WAS = 'package a; message M { uint32 x = 1; oneof body { N n = 2; } } enum E { E_NONE = 0; }'


def selfcheck():
    for text, wanted in ((WAS, 0),
                         (WAS.replace("x = 1;", "x = 1; bool y = 3 [(ckpt.v1.level) = 2];"), 0),
                         (WAS.replace("x = 1;", "x = 1; bool y = 3;"), 1),
                         (WAS.replace("x = 1;", "x = 1; bool y = 3 [(ckpt.v1.level) = 3];"), 1),
                         (WAS.replace("x = 1", "x = 4"), 1), (WAS.replace("uint32 x", "uint64 x"), 1), (WAS.replace("uint32 x = 1;", ""), 1),
                         (WAS.replace("E_NONE = 0;", "E_NONE = 0; E_ONE = 1 [(ckpt.v1.value_level) = 2];"), 0),
                         (WAS.replace("E_NONE = 0;", "E_NONE = 0; E_ONE = 1;"), 1), (WAS.replace("N n = 2;", "N n = 2; N o = 3;"), 1)):
        if len(found := list(compare(items(WAS), items(text), 1))) != wanted:
            yield f"levels.py found {found} in {text}"
