#!/usr/bin/python3
"""What moving a checkpoint costs beside the standard tools, each pair in one run on one machine.

    BUILD=build tests/bench/dest.py [--gib N] [--files N] [--folder DIR]

Prints a table for the README. Needs three times --gib of free space below --folder.
"""
import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
WORKER = BUILD / "bin" / "ckpt-worker"
GIB = 1 << 30


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


def row(what, cost, beside, size=None):
    rate = f"{size / cost.wall_s / 1e6:,.0f} MB/s" if size else f"{cost.wall_s:.2f} s"
    other = f"{size / beside.wall_s / 1e6:,.0f} MB/s" if size else f"{beside.wall_s:.2f} s"
    print(f"| {what} | {rate}, {cost.cpu_s:.1f} s | {other}, {beside.cpu_s:.1f} s | {cost.wall_s / beside.wall_s:.2f} |", flush=True)


def large(bench, gib):
    source, size = bench.folder / "large", gib * GIB
    source.mkdir()
    fill(source / "model.bin", size)
    for policy in "never", "sampled", "always":
        copy = bench.copy(source, bench.folder / "copy")
        bench.remove(bench.folder / "copy")
        path = bench.at()
        cost = bench.put(source, path, "--read-back", policy)
        row(f"put {gib} GiB, read back {policy}; `cp -r` + `sync`", cost, copy, size)
        if policy != "always":
            bench.remove(path)
    sums = sh(f"sha256sum '{path}/part-0000/model.bin'")
    row(f"verify {gib} GiB; `sha256sum`", bench.verify(path), sums, size)
    bench.remove(path)
    first, second = path.with_name("1-2"), path.with_name("1-3")
    bench.put(source, first)
    same = bench.put(source, second)
    row(f"put {gib} GiB that did not change; `cp -r` + `sync`", same, copy, size)
    assert int(same.out["written_bytes"]) == 0, same.out
    bench.remove(first, second, source)
    parts(bench, gib)


def parts(bench, gib):
    """Eight parts of one checkpoint, restored side by side as eight nodes would, beside eight cp."""
    source, path, size = bench.folder / "parts", bench.at(), gib * GIB
    for i in range(8):
        (source / str(i)).mkdir(parents=True)
        fill(source / str(i) / "model.bin", size // 8)
        bench.put(source / str(i), path, part=f"part-{i:04}")
    os.sync()
    copies = " & ".join(f"cp -r '{path}/part-{i:04}' '{bench.folder}/copy{i}'" for i in range(8))
    copy = sh(f"{copies} & wait; sync")
    bench.remove(*(bench.folder / f"copy{i}" for i in range(8)))
    restores = " & ".join(f"{WORKER} restore --path '{path}' --part part-{i:04} --to '{bench.folder}/back{i}'" for i in range(8))
    row(f"restore 8 parts of {size // 8 >> 20} MiB side by side; 8 `cp -r` + `sync`", sh(f"{restores} & wait"), copy, size)
    bench.remove(path, source, *(bench.folder / f"back{i}" for i in range(8)))


def small(bench, files):
    source = bench.folder / "small"
    for i in range(files):
        if i % 1000 == 0:
            folder = source / f"{i // 1000:03}"
            folder.mkdir(parents=True)
        (folder / f"{i % 1000:03}").write_bytes(i.to_bytes(4, "little") * 64)
    copy = bench.copy(source, bench.folder / "copy")
    bench.remove(bench.folder / "copy")
    path = bench.at()
    cost = bench.put(source, path)
    row(f"put {files:,} files of 256 bytes; `cp -r` + `sync`", cost, copy)
    sums = sh(f"cd '{path}/part-0000' && sha256sum -c --quiet --strict MANIFEST")
    row(f"verify {files:,} files; `sha256sum -c`", bench.verify(path), sums)
    back = bench.folder / "back"
    cost = Cost(WORKER, "restore", "--path", path, "--part", "part-0000", "--to", back)
    row(f"restore {files:,} files; `cp -r` + `sync`", cost, copy)
    bench.remove(path, source, back)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--files", type=int, default=100000)
    parser.add_argument("--folder", type=pathlib.Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=options.folder) as folder:
        bench = Bench(pathlib.Path(folder))
        print("| what; beside | ckpt-worker, processor | beside, processor | ratio |\n|---|---|---|---|", flush=True)
        if options.gib:
            large(bench, options.gib)
        if options.files:
            small(bench, options.files)


if __name__ == "__main__":
    main()
