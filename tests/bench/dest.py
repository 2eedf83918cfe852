#!/usr/bin/python3
"""What moving a checkpoint costs beside the standard tools: by turns, in one run on one machine (pairs.py).

    BUILD=build tests/bench/dest.py [put|verify|again|compressed|parts|small ...] [--gib N] [--files N] [--rounds N] [--folder DIR]

Prints a table for README.md here: medians of the rounds that count; the ratio is the median of each pair's. Ends with 1 when a promise is missed. Needs
three times --gib of free space below --folder.
"""
import argparse
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile

from pairs import Cost, by_turns, faster_peer, head, row, tell_missed, touch_free_memory

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
WORKER = BUILD / "bin" / "ckpt-worker"
GIB = 1 << 30
PUT_MAX = 1.2  # times as long as cp and sync, without reading back
VERIFY_MIN = 1e9  # bytes a second, of a core
MANIFEST_MAX_S = 2.0
COPY = "`cp -r`, made durable"
missed = []


def promise(what, kept):
    if not kept:
        missed.append(what)


def sh(text):
    return Cost("sh", "-ec", text)


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.prefix = folder / "dst"
        self.prefix.mkdir()
        self.number = 0

    def at(self):
        self.number += 1
        return self.prefix / f"t/p/a{self.number}/checkpoints/1-1"

    def put(self, source, path, *options, part="part-0000"):
        os.sync()
        return Cost(WORKER, "put", "--prefix", self.prefix, "--path", path, "--part", part, "--source", source, *options)

    def verify(self, path, part="part-0000"):
        return Cost(WORKER, "verify", "--path", path, "--part", part)

    def copy(self, source):
        """Of a folder, made durable, few files one by one: a sync of everything would wait for what others write. What it made is gone again."""
        os.sync()
        few = sum(len(files) for _, _, files in os.walk(source)) <= 8
        cost = sh(f"cp -r '{source}' '{self.folder}/copy' && " + (f"sync '{self.folder}'/copy/*" if few else f"sync -f '{self.folder}/copy'"))
        self.remove(self.folder / "copy")
        return cost

    def put_once(self, source, path, *options):
        """What it made is gone again, and the allocation's folder with it."""
        cost = self.put(source, path, *options)
        self.remove(path)
        return cost

    def restore(self, path):
        cost = Cost(WORKER, "restore", "--path", path, "--part", "part-0000", "--to", self.folder / "back")
        self.remove(self.folder / "back")
        return cost

    def remove(self, *folders):
        for folder in folders:
            shutil.rmtree(folder)
        os.sync()


def filled(bench, gib):
    """A folder with one file."""
    source = bench.folder / "large"
    source.mkdir()
    fill(source / "model.bin", gib * GIB)
    return source


def fill(path, size):
    """Bytes that do not compress, and do not come twice."""
    key = os.urandom(16).hex()
    sh(f"head -c {size} /dev/zero | openssl enc -aes-128-ctr -nosalt -K {key} -iv {'0' * 32} > '{path}'")


def put(bench, gib, rounds):
    source, path, size = filled(bench, gib), bench.at(), gib * GIB
    for policy in "never", "sampled", "always":
        pairs = by_turns(rounds, lambda p=policy: bench.put_once(source, path, "--read-back", p), lambda: bench.copy(source))
        ratio = row(f"put {gib} GiB, read back {policy}", COPY, pairs, size)
        promise(f"put beside cp and sync at most {PUT_MAX}", policy != "never" or ratio <= PUT_MAX)
    bench.remove(source)


def verify(bench, gib, rounds):
    """Beside the faster of what a site has for it."""
    source, path = filled(bench, gib), bench.at()
    bench.put(source, path)
    file = path / "part-0000" / "model.bin"
    size = file.stat().st_size
    rows = by_turns(rounds, lambda: bench.verify(path), lambda: sh(f"openssl dgst -sha256 '{file}'"), lambda: sh(f"sha256sum '{file}'"))
    names = ("`openssl dgst -sha256`", "`sha256sum`")
    pairs, fastest = faster_peer(rows, names)
    row(f"verify {size >> 30} GiB, times as fast", fastest, pairs, size, better="more")
    for k, name in enumerate(names, 1):
        if name != fastest:
            row(f"verify {size >> 30} GiB, times as fast as a slower peer", name, [(costs[0], costs[k]) for costs in rows], size, better="more")
    promise("verify 1 GB/s of a core", size / statistics.median(ours.cpu_s for ours, _ in pairs) >= VERIFY_MIN)
    bench.remove(path, source)


def again(bench, gib, rounds):
    """What is there already, and what is there in another form."""
    source, first = filled(bench, gib), bench.at()
    second, size = first.with_name("1-2"), gib * GIB
    bench.put(source, first)

    def same():
        cost = bench.put_once(source, second)
        assert int(cost.out["written_bytes"]) == 0, cost.out
        return cost
    row(f"put {size >> 30} GiB that did not change", COPY, by_turns(rounds, same, lambda: bench.copy(source)), size)
    changed(source / "model.bin")
    pairs = by_turns(rounds, lambda: bench.put_once(source, second, "--read-back", "never"), lambda: bench.copy(source))
    row(f"put {size >> 30} GiB of which every chunk changed, read back never", COPY, pairs, size)
    bench.remove(first, source)


def changed(path):
    """One byte of each chunk is another one."""
    with open(path, "r+b") as file:
        for at in range(0, path.stat().st_size, 1 << 20):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))


def compressed(bench, gib, rounds):
    """Of each 4 KiB one half is zeros, as in the state of an optimizer: stored compressed, and as it is."""
    source, back, size = bench.folder / "halves", bench.folder / "back", gib * GIB
    source.mkdir()
    noise = os.urandom(1 << 20)
    with open(source / "model.bin", "wb") as file:
        for i in range(size >> 12):
            at = i * 2048 % len(noise)
            file.write((i * 2654435761 % 2**64).to_bytes(8, "little") + noise[at + 8:at + 2048] + bytes(2048))
    paths = {word: bench.at() for word in ("lz4", "none")}

    def put_as(word):
        return bench.put_once(source, paths[word], "--read-back", "never", "--compress", word)
    pairs = by_turns(rounds, lambda: put_as("lz4"), lambda: put_as("none"))
    stored = int(pairs[0][0].out["written_bytes"]) / size
    row(f"put {gib} GiB as lz4, {stored:.2f} of it stored", "put as it is", pairs, size)
    for word, path in paths.items():
        bench.put(source, path, "--read-back", "never", "--compress", word)
    row("restore of these", "restore of what is stored as it is", by_turns(rounds, *(lambda p=path: bench.restore(p) for path in paths.values())), size)
    bench.remove(*paths.values(), source)


def parts(bench, gib, rounds):
    """Eight parts of one checkpoint, restored side by side as eight nodes would, beside eight cp."""
    source, path, size = bench.folder / "parts", bench.at(), gib * GIB
    for i in range(8):
        (source / str(i)).mkdir(parents=True)
        fill(source / str(i) / "model.bin", size // 8)
        bench.put(source / str(i), path, part=f"part-{i:04}")

    def side_by_side(command, to):
        os.sync()
        cost = sh(" & ".join(f"{{ {command.format(i=i, part=f'part-{i:04}')}; }}" for i in range(8)) + " & wait")
        bench.remove(*(bench.folder / f"{to}{i}" for i in range(8)))
        return cost
    pairs = by_turns(rounds, lambda: side_by_side(f"{WORKER} restore --path '{path}' --part {{part}} --to '{bench.folder}/back{{i}}'", "back"),
                     lambda: side_by_side(f"cp -r '{path}/{{part}}' '{bench.folder}/copy{{i}}' && sync '{bench.folder}/copy{{i}}'/*", "copy"))
    row(f"restore 8 parts of {size // 8 >> 20} MiB side by side", f"8 times {COPY}", pairs, size)
    bench.remove(path, source)


def small(bench, files, rounds):
    source, path = bench.folder / "small", bench.at()
    for i in range(files):
        if i % 1000 == 0:
            folder = source / f"{i // 1000:03}"
            folder.mkdir(parents=True)
        (folder / f"{i % 1000:03}").write_bytes(i.to_bytes(4, "little") * 64)
    row(f"put {files:,} files of 256 bytes", COPY, by_turns(rounds, lambda: bench.put_once(source, path), lambda: bench.copy(source)))
    bench.put(source, path)
    manifests = by_turns(rounds, lambda: Cost(WORKER, "verify", "--path", path, "--part", "part-0000", "--read-back", "never"),
                         lambda: sh(f"find '{path}' -printf '%s %m %p\\n' | sort -k 3 > /dev/null"))
    row(f"MANIFEST of {files:,} files read, checked, compared with their folder", "`find` and `sort`", manifests)
    promise(f"a MANIFEST of {files:,} files in {MANIFEST_MAX_S} s", statistics.median(ours.wall_s for ours, _ in manifests) < MANIFEST_MAX_S)
    verifications = by_turns(rounds, lambda: bench.verify(path), lambda: sh(f"cd '{path}/part-0000' && sha256sum -c --quiet --strict MANIFEST"))
    row(f"verify {files:,} files", "`sha256sum -c`", verifications)
    row(f"restore {files:,} files", COPY, by_turns(rounds, lambda: bench.restore(path), lambda: bench.copy(source)))
    bench.remove(path, source)


ROWS = {"put": put, "verify": verify, "again": again, "compressed": compressed, "parts": parts, "small": small}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="all without any")
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--files", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--folder", type=pathlib.Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=options.folder) as folder:
        bench = Bench(pathlib.Path(folder))
        touch_free_memory()
        head()
        for rows in options.rows or ROWS:
            ROWS[rows](bench, options.files if rows == "small" else options.gib, options.rounds)
    return tell_missed(missed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the folder goes as well
    sys.exit(main())
