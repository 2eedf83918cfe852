#!/usr/bin/python3
"""PyTorch's own launcher, and the helpers for it: a job of four ranks, started by the README's line, one torchrun with two ranks under the ckpt-run of
each of two nodes. The weights at the end are those of an undisturbed run after a rank was killed, after a node was lost and a third one took its
part; a state that is sharded over the ranks goes on with other numbers of them from torch.distributed.checkpoint's files. S3-001, S3-037."""
import contextlib
import functools
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import faults  # noqa: E402
from cluster import ROOT, common_pb2, tap, wait_until  # noqa: E402
from jobs import REQUEUED  # noqa: E402
from ranks_site import Program, Ranked, site  # noqa: E402

STDOUT = "--redirects 1 --tee 1"
TRAIN, SHARDS = (ROOT / "tests" / "support" / name for name in ("torch_train.py", "torch_shards.py"))


def why_not():
    if shutil.which("torchrun") is None:
        return "no torchrun here (python3-torch)"
    has = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed as d; assert d.is_available()"], capture_output=True, text=True)
    return f"PyTorch without its distributed part: {has.stderr.strip()[-200:]}" if has.returncode else None


def free_port():
    """The first of fifty that nobody has, and that the kernel gives to nobody's connection."""
    while True:
        first = random.randrange(20000, 32000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + 50):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


def line(steps, ms_per_step, folder, port, program=TRAIN):
    """The README's; each run has a port of its own, for the one before may still hold it. Debian 12's torchrun fails under its own Python unless it is
    told what becomes of stdout."""
    return ["sh", "-c", f'exec torchrun {STDOUT} '
            '--nproc_per_node 2 --nnodes "${CKPT_PARTS:-2}" --node_rank "${CKPT_PART:-$1}" --master_addr 127.0.0.1 '
            f'--master_port $(($2 + ${{CKPT_RUN##*-}} % 50)) {program} {steps} {ms_per_step} {folder}', "torchrun", "0", str(port)]


def step_of(folder, name="state.pt"):
    shown = subprocess.run(["/usr/bin/python3", "-c", "import sys, torch; print(torch.load(sys.argv[1])['step'])", str(folder / name)],
                           capture_output=True, text=True, check=True)
    return int(shown.stdout)


@functools.lru_cache
def undisturbed(steps, program=TRAIN):
    """What the same ranks compute without ckpt-run."""
    folder, port = tempfile.mkdtemp(prefix="torch-"), free_port()
    try:
        outputs = []
        for part in (1, 0):
            with open(f"{folder}/{part}", "wb") as out:
                command = line(steps, 0, folder, port, program)
                command[4] = str(part)
                outputs.append(subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "CKPT_RUN": "1-1"}))
        texts = [pathlib.Path(f"{folder}/{part}").read_text() if process.wait(300) == 0 else None for part, process in zip((1, 0), outputs)]
        assert None not in texts, [pathlib.Path(f"{folder}/{part}").read_text()[-2000:] for part in (0, 1)]
        return re.search(r"^result (\w+)", texts[1], re.M).group(1)
    finally:
        shutil.rmtree(folder)


def torch_job(steps=400, ms_per_step=15):
    port = free_port()
    return Program("torch", 2, lambda folder, **_: line(steps, ms_per_step, folder, port), step_of, lambda: undisturbed(steps), why_not(),
                   begun=True)


def shards_job(steps=700, ms_per_step=10):
    port = free_port()
    return Program("shards", 2, lambda folder, **_: line(steps, ms_per_step, folder, port, SHARDS), functools.partial(step_of, name="rank.pt"),
                   lambda: undisturbed(steps, SHARDS), why_not(), begun=True)


def is_laid_out(record, ranks):
    """As torch.distributed.checkpoint writes it: files that carry their rank's number, and .metadata by the first one."""
    files = {int(folder.name[5:]): sorted(f.name for f in folder.iterdir()) for folder in pathlib.Path(record.path).glob("part-*/rank-*")}
    assert sorted(files) == list(range(ranks)), files
    for rank, names in files.items():
        assert f"__{rank}_0.distcp" in names and all(re.fullmatch(rf"__{rank}_\d+\.distcp|rank\.pt|\.metadata", name) for name in names), files
        assert (".metadata" in names) == (rank == 0), files


def sharded_by(mode):
    """Two nodes; one is lost, and the job goes on on three; then on one. Each rank finds its piece of the state, whoever wrote it."""
    def test():
        if why_not():
            return why_not()
        with site("abcd") as cluster:
            job = Ranked(cluster, "j", shards_job(), "ab", restore=mode)
            job.computes()
            is_laid_out(job.checkpoint(), 4)
            job.lose("b")
            wait_until("the job is requeued", lambda: job.state() == REQUEUED, 40)
            for nodes in ("acd", "a"):
                job.restart(nodes)
                job.lost.clear()
                job.computes()
                is_laid_out(job.checkpoint(), 2 * len(nodes))
                if nodes != "a":
                    faults.end_failed(cluster, "j")
            faults.ends_well(job)
    test.__name__ = "a_sharded_state_goes_on_with_other_numbers_of_ranks_" + {common_pb2.RESTORE_MODE_ALL: "all", common_pb2.RESTORE_MODE_PATH: "path"}[mode]
    return test


def skipping(fault):
    def test():
        return why_not() or fault(torch_job, 2)

    test.__name__ = f"a_torchrun_job_{fault.__name__}"
    return test


if __name__ == "__main__":
    sys.exit(tap([skipping(faults.rank_killed), sharded_by(common_pb2.RESTORE_MODE_ALL)],
                 long=[skipping(faults.node_lost), sharded_by(common_pb2.RESTORE_MODE_PATH)]))
