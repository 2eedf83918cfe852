#!/usr/bin/python3
"""What moving a checkpoint costs beside the standard tools: pairs by turns, in one run on one machine.

    BUILD=build tests/bench/dest.py [--gib N] [--files N] [--rounds N] [--folder DIR]

Prints a table for the README: medians of the rounds; the ratio is the median of each pair's. Ends with 1 when a row of LIMITS is missed. Needs three times --gib
of free space below --folder.
"""
import argparse
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
WORKER = BUILD / "bin" / "ckpt-worker"
GIB = 1 << 30
PUT_MAX = 1.2  # times as long as cp and sync, without reading back
VERIFY_MIN = 1e9  # bytes a second, of a core
MANIFEST_MAX_S = 2.0
missed = []


def promise(what, kept):
    if not kept:
        missed.append(what)


class Cost:
    """Seconds by the wall and of processors, of one program and its children."""

    def __init__(self, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        result = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
        self.wall_s = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert result.returncode == 0, (arguments, result.stderr)
        self.out = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)


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

    def copy(self, source, to):
        os.sync()
        return sh(f"cp -r '{source}' '{to}' && sync")

    def remove(self, *folders):
        for folder in folders:
            shutil.rmtree(folder)
        os.sync()


def fill(path, size):
    """Bytes that do not compress, and do not come twice."""
    key = os.urandom(16).hex()
    sh(f"head -c {size} /dev/zero | openssl enc -aes-128-ctr -nosalt -K {key} -iv {'0' * 32} > '{path}'")


def row(what, pairs, size=None):
    """pairs: costs of ours and of what stands beside it, measured one after the other. Returns the ratio."""
    ours, beside = ([pair[k] for pair in pairs] for k in (0, 1))

    def said(costs):
        wall_s = statistics.median(cost.wall_s for cost in costs)
        rate = f"{size / wall_s / 1e6:,.0f} MB/s" if size else f"{wall_s:.2f} s"
        return f"{rate}, {statistics.median(cost.cpu_s for cost in costs):.1f} s"
    ratios = [one.wall_s / other.wall_s for one, other in pairs]
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    print(f"| {what} | {said(ours)} | {said(beside)} | {statistics.median(ratios):.2f}{spread} |", flush=True)
    return statistics.median(ratios)


def large(bench, gib, rounds):
    source, size = bench.folder / "large", gib * GIB
    source.mkdir()
    fill(source / "model.bin", size)
    for policy in "never", "sampled", "always":
        pairs = []
        for _ in range(rounds):
            copy = bench.copy(source, bench.folder / "copy")
            bench.remove(bench.folder / "copy")
            path = bench.at()
            pairs.append((bench.put(source, path, "--read-back", policy), copy))
            bench.remove(path)
        ratio = row(f"put {gib} GiB, read back {policy}; `cp -r` + `sync`", pairs, size)
        promise(f"put beside cp and sync at most {PUT_MAX}", policy != "never" or ratio <= PUT_MAX)
    first, second = path.with_name("1-1"), path.with_name("1-2")
    bench.put(source, first)
    pairs = [(bench.verify(first), sh(f"sha256sum '{first}/part-0000/model.bin'")) for _ in range(rounds)]
    row(f"verify {gib} GiB; `sha256sum`", pairs, size)
    promise("verify 1 GB/s of a core", size / statistics.median(ours.cpu_s for ours, _ in pairs) >= VERIFY_MIN)
    same = bench.put(source, second)
    row(f"put {gib} GiB that did not change; `cp -r` + `sync`", [(same, copy)], size)
    assert int(same.out["written_bytes"]) == 0, same.out
    changed(source / "model.bin")
    pairs = []
    for _ in range(rounds):
        copy = bench.copy(source, bench.folder / "copy")
        bench.remove(bench.folder / "copy", second)
        pairs.append((bench.put(source, second, "--read-back", "never"), copy))
    row(f"put {gib} GiB of which every chunk changed, read back never; `cp -r` + `sync`", pairs, size)
    bench.remove(first, second, source)
    compressed(bench, gib, rounds)
    parts(bench, gib, rounds)


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
    puts, restores = [], []
    for _ in range(rounds):
        paths = bench.at(), bench.at()
        puts.append(tuple(bench.put(source, path, "--read-back", "never", "--compress", word) for path, word in zip(paths, ("lz4", "none"))))
        pair = []
        for path in paths:
            pair.append(Cost(WORKER, "restore", "--path", path, "--part", "part-0000", "--to", back))
            bench.remove(back)
        restores.append(tuple(pair))
        bench.remove(*paths)
    stored = int(puts[0][0].out["written_bytes"]) / size
    row(f"put {gib} GiB as lz4, {stored:.2f} of it stored; as it is", puts, size)
    row("restore of these", restores, size)
    bench.remove(source)


def parts(bench, gib, rounds):
    """Eight parts of one checkpoint, restored side by side as eight nodes would, beside eight cp."""
    source, path, size = bench.folder / "parts", bench.at(), gib * GIB
    for i in range(8):
        (source / str(i)).mkdir(parents=True)
        fill(source / str(i) / "model.bin", size // 8)
        bench.put(source / str(i), path, part=f"part-{i:04}")
    pairs = []
    for _ in range(rounds):
        os.sync()
        copies = " & ".join(f"cp -r '{path}/part-{i:04}' '{bench.folder}/copy{i}'" for i in range(8))
        copy = sh(f"{copies} & wait; sync")
        bench.remove(*(bench.folder / f"copy{i}" for i in range(8)))
        restores = " & ".join(f"{WORKER} restore --path '{path}' --part part-{i:04} --to '{bench.folder}/back{i}'" for i in range(8))
        pairs.append((sh(f"{restores} & wait"), copy))
        bench.remove(*(bench.folder / f"back{i}" for i in range(8)))
    row(f"restore 8 parts of {size // 8 >> 20} MiB side by side; 8 `cp -r` + `sync`", pairs, size)
    bench.remove(path, source)


def small(bench, files, rounds):
    source, back = bench.folder / "small", bench.folder / "back"
    for i in range(files):
        if i % 1000 == 0:
            folder = source / f"{i // 1000:03}"
            folder.mkdir(parents=True)
        (folder / f"{i % 1000:03}").write_bytes(i.to_bytes(4, "little") * 64)
    puts, verifications, restores, manifests = [], [], [], []
    for _ in range(rounds):
        copy = bench.copy(source, bench.folder / "copy")
        bench.remove(bench.folder / "copy")
        path = bench.at()
        puts.append((bench.put(source, path), copy))
        sums = sh(f"cd '{path}/part-0000' && sha256sum -c --quiet --strict MANIFEST")
        verifications.append((bench.verify(path), sums))
        listing = sh(f"find '{path}' -printf '%s %m %p\\n' | sort -k 3 > /dev/null")
        manifests.append((Cost(WORKER, "verify", "--path", path, "--part", "part-0000", "--read-back", "never"), listing))
        restores.append((Cost(WORKER, "restore", "--path", path, "--part", "part-0000", "--to", back), copy))
        bench.remove(path, back)
    row(f"put {files:,} files of 256 bytes; `cp -r` + `sync`", puts)
    row(f"MANIFEST of {files:,} files read, checked, and compared with their folder; `find | sort`", manifests)
    promise(f"a MANIFEST of {files:,} files in {MANIFEST_MAX_S} s", statistics.median(ours.wall_s for ours, _ in manifests) < MANIFEST_MAX_S)
    row(f"verify {files:,} files; `sha256sum -c`", verifications)
    row(f"restore {files:,} files; `cp -r` + `sync`", restores)
    bench.remove(source)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--files", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=options.folder) as folder:
        bench = Bench(pathlib.Path(folder))
        print("| what; beside | ckpt-worker, processor | beside, processor | ratio |\n|---|---|---|---|", flush=True)
        if options.gib:
            large(bench, options.gib, options.rounds)
        if options.files:
            small(bench, options.files, options.rounds)
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
