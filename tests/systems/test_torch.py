#!/usr/bin/python3
"""PyTorch's own launcher, and the helpers for it: a job of four ranks, started by the README's line, one torchrun with two ranks under the ckpt-run of
each of two nodes. The weights at the end are those of an undisturbed run after a rank was killed, after a node was lost and a third one took its
part. S3-001, S3-037."""
import functools
import pathlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import faults  # noqa: E402
from cluster import ROOT, tap  # noqa: E402
from ranks_site import Program  # noqa: E402

STDOUT = "--redirects 1 --tee 1"
TRAIN = ROOT / "tests" / "support" / "torch_train.py"


def why_not():
    if shutil.which("torchrun") is None:
        return "no torchrun here (python3-torch)"
    has = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed as d; assert d.is_available()"], capture_output=True, text=True)
    return f"PyTorch without its distributed part: {has.stderr.strip()[-200:]}" if has.returncode else None


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def line(steps, ms_per_step, folder, port):
    """The README's; each run has a port of its own, for the one before may still hold it. Debian 12's torchrun fails under its own Python unless it is
    told what becomes of stdout."""
    return ["sh", "-c", f'exec torchrun {STDOUT} '
            '--nproc_per_node 2 --nnodes "${CKPT_PARTS:-2}" --node_rank "${CKPT_PART:-$1}" --master_addr 127.0.0.1 '
            f'--master_port $(($2 + ${{CKPT_RUN##*-}} % 50)) {TRAIN} {steps} {ms_per_step} {folder}', "torchrun", "0", str(port)]


def step_of(folder):
    shown = subprocess.run(["/usr/bin/python3", "-c", "import sys, torch; print(torch.load(sys.argv[1])['step'])", str(folder / "state.pt")],
                           capture_output=True, text=True, check=True)
    return int(shown.stdout)


@functools.lru_cache
def undisturbed(steps):
    """What the same ranks compute without ckpt-run."""
    folder, port = tempfile.mkdtemp(prefix="torch-"), free_port()
    try:
        outputs = []
        for part in (1, 0):
            with open(f"{folder}/{part}", "wb") as out:
                command = line(steps, 0, folder, port)
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


def skipping(fault):
    def test():
        return why_not() or fault(torch_job, 2)

    test.__name__ = f"a_torchrun_job_{fault.__name__}"
    return test


if __name__ == "__main__":
    sys.exit(tap([skipping(fault) for fault in (faults.rank_killed, faults.node_lost)]))
