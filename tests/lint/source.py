"""Reading C source without a compiler: comments and literals blanked, functions found by the layout that clang-format makes."""
import functools
import re

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.S)


@functools.cache
def blank(text, keep_strings=False):
    """Comments, and by default string and character literals, become blanks; line numbers stay."""
    def replace(match):
        token = match.group(0)
        if keep_strings and token[0] in "\"'":
            return token
        inner = re.sub(r"[^\n]", " ", token)
        return token[0] + inner[1:-1] + token[-1] if token[0] in "\"'" else inner
    return TOKEN.sub(replace, text)


@functools.cache
def functions(text):
    """(name, line of the opening brace, count of lines between the braces, comment before it) of every function definition."""
    lines = blank(text).split("\n")
    original = text.split("\n")
    found = []
    start = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start is not None:
            head = start - 1
            while head >= 0 and lines[head].strip() and not lines[head].startswith(("}", "#", "{")):
                head -= 1
            signature = " ".join(lines[head + 1:start])
            name = re.search(r"([A-Za-z_]\w*)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)+", "", signature))
            comment = []
            above = head + 1
            while above < start and not lines[above].strip():
                above += 1
            above = head
            while above >= 0 and not lines[above].strip() and original[above].strip():
                comment.append(original[above])
                above -= 1
            if name:
                found.append((name.group(1), start + 1, number - start - 1, "\n".join(reversed(comment))))
            start = None
    return found


@functools.cache
def signatures(text):
    """(name, whether it is static, count of parameters) of every function definition."""
    code = blank(text)
    found = []
    for match in re.finditer(r"^(?![#}\s])((?:[^;{}=#]|\n)*?)\n\{$", code, re.M):
        head = re.sub(r"__attribute__\s*\(\(.*?\)\)+", "", match.group(1))
        name = re.search(r"([A-Za-z_]\w*)\s*\(", head)
        if name is None:
            continue
        depth, commas, inside = 0, 0, ""
        for character in head[name.end() - 1:]:
            depth += {"(": 1, ")": -1}.get(character, 0)
            commas += character == "," and depth == 1
            inside += character
            if depth == 0:
                break
        found.append((name.group(1), bool(re.match(r"static\b", head)), 0 if re.fullmatch(r"\(\s*(void)?\s*\)", inside) else commas + 1))
    return found
