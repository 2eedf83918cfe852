#!/usr/bin/python3
"""GROMACS as Debian has it, under its shipped profiles: gmx in one process and with threads as ranks, and gmx_mpi under mpirun. It is killed at moments
that a seed draws, with a checkpoint under way, and loses its node and the folder there. Equal means, with -reprod and the same ranks: the last frame, the
trajectory and the energies have the bytes of an undisturbed run. A checkpoint that was taken home goes on as another job, under a script of its owner's,
to the same bytes. Where this machine's processor lacks what it was compiled for, it runs in a guest (guest.py), twenty times as few steps.
SEED draws other moments. S1-030, S4-003."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import guest  # noqa: E402
from real_site import FAULTS, MPIRUN, Code, carried_on, disturbed, exists, folder_of, rounds, same_bytes, site  # noqa: E402

SEED = int(os.environ.get("SEED", time.time_ns() % 10**6))
WATER = pathlib.Path("/usr/share/gromacs/top/spc216.gro")
TOPOLOGY = '#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/spc.itp"\n[ system ]\nwater\n[ molecules ]\nSOL 216\n'
# 216 molecules of water; the last frame has all digits, in traj.trr
RUN = """integrator = md
dt = 0.002
nsteps = {steps}
nstxout = {steps}
nstvout = {steps}
nstxout-compressed = {every}
nstenergy = 50
nstlog = 500
nstlist = 10
coulombtype = reaction-field
rcoulomb = 0.8
rvdw = 0.8
tcoupl = v-rescale
tc-grps = system
tau-t = 0.1
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 7
ld-seed = 7
"""
RESULT = ("confout.gro", "traj.trr", "traj_comp.xtc", "ener.edr")
# of the owner, as deploy/JOBS.md has one
SCRIPT = """#!/bin/sh
[ -e topol.tpr ] || gmx grompp || exit
exec gmx mdrun -reprod -ntomp 1 -ntmpi 1 "$@"
"""
SLOWER = 20  # by how much fewer steps a guest makes
MDRUN = ["mdrun", "-reprod", "-ntomp", "1"]


def hidden():
    """What it was compiled for, and ends itself without, in a machine that hides it; or None."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    told = subprocess.run(["gmx", "-quiet", "--version"], capture_output=True, text=True).stdout
    wanted = any(line.startswith("RDTSCP usage") and "enabled" in line for line in told.splitlines())
    return "this gmx wants rdtscp of the processor, which this machine does not show" if wanted and "flags" in flags and "rdtscp" not in flags else None


def needs(*programs):
    return exists(*programs) or (None if guest.inside() else hidden()) or (None if WATER.exists() else f"no {WATER} here")


def prepared(folder, steps):
    steps, every = (steps // SLOWER, 4) if guest.inside() else (steps, 50)
    folder_of(folder, {"topol.top": TOPOLOGY, "grompp.mdp": RUN.format(steps=steps, every=every)})
    shutil.copyfile(WATER, folder / "conf.gro")
    made = subprocess.run(["gmx", "-quiet", "grompp"], cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    return folder


def ends_as_undisturbed(profile, command, steps, faults, script=""):
    print(f"# SEED={SEED}", flush=True)
    with tempfile.TemporaryDirectory(prefix="gromacs-") as folder, site() as cluster:
        folder = pathlib.Path(folder)
        code = Code(profile, command, prepared(folder / "input", steps), "traj_comp.xtc")
        undisturbed = code.undisturbed(folder / "undisturbed")
        finished, record = disturbed(cluster, "md", code, faults, SEED)
        same_bytes(undisturbed, finished, RESULT)
        if script:
            scripted = Code("gromacs", ["./run.sh"], folder_of(folder / "scripted", {"run.sh": script}), "traj_comp.xtc")
            (scripted.inputs / "run.sh").chmod(0o755)
            for name in ("topol.top", "grompp.mdp", "conf.gro"):
                shutil.copy(code.inputs / name, scripted.inputs)
            same_bytes(undisturbed, carried_on(cluster, "script", scripted, record), RESULT)
        cluster.debug_check()


def one_process_ends_as_undisturbed():
    return needs("gmx") or ends_as_undisturbed("auto", ["gmx", *MDRUN, "-ntmpi", "1"], 8000, FAULTS, SCRIPT)


def ranks_under_mpirun_end_as_undisturbed():
    return needs("gmx", "mpirun", "gmx_mpi") or ends_as_undisturbed("gromacs-mpi", [*MPIRUN, "2", "gmx_mpi", *MDRUN], 2500, FAULTS[1:2])


def ten_faults_of_one_process():
    return needs("gmx") or ends_as_undisturbed("gromacs", ["gmx", *MDRUN, "-ntmpi", "1"], 60000, rounds(SEED, 10))


def ten_faults_of_threads_as_ranks():
    return needs("gmx") or ends_as_undisturbed("gromacs", ["gmx", *MDRUN, "-ntmpi", "2"], 12000, rounds(SEED + 1, 10))


def ten_faults_of_ranks_under_mpirun():
    return needs("gmx", "mpirun", "gmx_mpi") or ends_as_undisturbed("gromacs-mpi", [*MPIRUN, "2", "gmx_mpi", *MDRUN], 12000, rounds(SEED + 2, 10))


if __name__ == "__main__":
    sys.exit(guest.tap_where(lambda: None if exists("gmx") else hidden(), [one_process_ends_as_undisturbed], slow=[ranks_under_mpirun_end_as_undisturbed],
                             long=[ten_faults_of_one_process, ten_faults_of_threads_as_ranks, ten_faults_of_ranks_under_mpirun]))
