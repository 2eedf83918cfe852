"""What there is to see of processes: whose they are, what their memory, environment and arguments hold."""
import pathlib
import re

REGION_MAX_BYTES = 512 << 20


def owner_of(pid):
    """The effective user; None when it is gone."""
    try:
        return int(re.search(r"^Uid:\s+\d+\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1))
    except (OSError, AttributeError):
        return None


def all_of(uid):
    return [int(folder.name) for folder in pathlib.Path("/proc").glob("[0-9]*") if owner_of(folder.name) == uid]


def workers_of(uid, verb=None, program="/ckpt-worker"):
    """Pids of ckpt-worker processes that are this user's; verb: with this one; program: how the path of theirs ends."""
    found = []
    for pid in all_of(uid):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(program.encode()) and (verb is None or words[1:2] == [verb.encode()]):
            found.append(pid)
    return found


def has_in_memory(pid, *secrets):
    """Any of these, in any page that can be read, the environment and the arguments among them. A process that is gone has nothing."""
    try:
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                if line.split()[1][0] != "r" or "[v" in line or end - begin > REGION_MAX_BYTES:
                    continue
                try:
                    memory.seek(begin)
                    held = memory.read(end - begin)
                    if any(secret in held for secret in secrets):
                        return True
                except OSError:
                    continue
    except OSError:
        pass
    return False


def told(pid):
    """What anybody who may look at the process reads of its start."""
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes() + pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
