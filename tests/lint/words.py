"""One word, one thing: a row of the glossary has one meaning, and a word that it gives to one thing does not name another in the product."""
import re


GLOSSARY = "src/GLOSSARY.md"
SECOND_MEANING = re.compile(r"\bthe word means\b|(?:^|\. )(?:In|Also)\b|\bis (?:also )?called\b|(?<!\()\bin (?:fsm|raft|the agent): ")

# (the word's one thing, in which files, what may stand there all the same, what may not, what to say instead). Names that are public, on the
# wire or on disk stay: they are what may stand
WORDS = (
    ("ledger: an agent's journal in memory", re.compile(r"(?:fsm|raft|src/(?!agent/)\w+)/.*\.(?:[ch]|md)"), None,
     re.compile(r"ledger", re.I), "accounts (fsm/books) or payoffs (src/eval)"),
    ("session: an agent's stream", re.compile(r"fsm/.*\.(?:[ch]|md)"),
     re.compile(r"session_ttl\w*|SESSIONS_FULL|SessionRecord|session_record__descriptor|SESSION_RECORD__INIT|\w*BODY(?:_|\()SESSION\)?|record->session\b"),
     re.compile(r"session", re.I), "past request"),
    ("leader: the member that orders the log", re.compile(r"src/(?:agent|ask|app)/.*\.(?:[ch]|md)"), None,
     re.compile(r"leader_(?:alive|unreaped|read|pid)|(?:group|job|application)(?:'s)? leader\b|leader's (?:process )?group|\bits leader\b"), "main process"),
    ("member: a ckptd of the cluster", re.compile(r"src/(?:agent|ask|app)/.*\.(?:[ch]|md)"), None,
     re.compile(r"\bmembers=%|\bmembers? of (?:the|a|its) (?:job|group|round)\b|\b(?:job|group)'s members?\b"), "job process"),
    ("hint: what an application is asked with", re.compile(r"(?:fsm|raft|src/(?:rpc|client|eval|whatif|tls|serve|broker))/.*\.(?:[ch]|md)"),
     re.compile(r"ckpt-leader-hint|ckptctl hint|lattice_\w+|ckpt_hint\w*|METRIC_HINT\w*|X\(HINT\w*|\w*Placement_?Hints?\w*|\w*placement_hints?\w*|\w*PLACEMENT_HINTS\w*|reply\.n?_?hints"),
     re.compile(r"hint", re.I), "redirect, placement advice, or a request for a checkpoint"),
)


def glossary(text):
    """(word, its cell) of each row."""
    rows = [line.split("|") for line in text.split("\n") if line.startswith("| ")]
    return [(cells[1].strip(), cells[2].strip()) for cells in rows[1:]]


def second_meanings(text):
    seen = set()
    for word, cell in glossary(text):
        if match := SECOND_MEANING.search(cell):
            yield f"{GLOSSARY}: \"{word}\" has a second meaning: \"{match.group(0).strip()}\""
        plain = re.sub(r" \(.*", "", word).lower()
        if plain in seen:
            yield f"{GLOSSARY}: \"{plain}\" has two rows"
        seen.add(plain)


def other_meanings(name, text):
    for thing, files, allowed, banned, instead in WORDS:
        if not files.fullmatch(name):
            continue
        left = text if allowed is None else allowed.sub(lambda match: " " * len(match.group(0)), text)
        for match in banned.finditer(left):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: \"{match.group(0)}\" ({thing}): say {instead}"


def problems(texts):
    yield from second_meanings(texts[GLOSSARY])
    for name, text in texts.items():
        yield from other_meanings(name, text)


SAMPLES = (
    ("fsm/a.c", "/* the ledger */", 1), ("src/eval/a.h", "struct eval_ledger x;", 1), ("src/agent/durable/a.c", "struct ledger *ledger;", 0),
    ("fsm/a.c", "if (policy.session_ttl_ms > 0) return FSM_SESSIONS_FULL;", 0), ("fsm/a.c", "struct session *oldest;", 1),
    ("src/broker/a.c", "session_send(session)", 0),
    ("src/agent/job/a.c", "facts->leader_alive /* its leader */", 2), ("src/agent/job/a.c", "/* the leader is asked, another one leads */", 0),
    ("src/agent/job/a.c", 'log_info("x", "members=%zu")', 1), ("src/agent/node/still.c", "/* the group's members */", 1),
    ("src/rpc/a.c", '"ckpt-leader-hint"', 0), ("src/rpc/a.c", "size_t hints;", 1), ("src/ask/a.c", "char hint[8];", 0),
    ("src/broker/a.c", '"ckptctl hint %s" ckpt__v1__placement_hint__init(x)', 0),
)
ROWS = "| word | is | lives in |\n|---|---|---|\n| a | one. In `b.c` the word means two | x |\n| b | in time | x |\n| b (c) | a part | x |\n"


def selfcheck():
    for name, text, wanted in SAMPLES:
        if len(found := list(other_meanings(name, text))) != wanted:
            yield f"words.py found {found} in {name}: {text}"
    if len(found := list(second_meanings(ROWS))) != 2:
        yield f"words.py found {found} in its rows"
