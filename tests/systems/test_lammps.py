#!/usr/bin/python3
"""LAMMPS as Debian has it, with the input that its shipped profile asks for: one process, and ranks under mpirun. It is killed at moments that a seed
draws, with a checkpoint under way, and loses its node and the folder there. Equal means, where atoms are not sorted anew at a start and as many ranks
compute: positions and velocities have the bytes of an undisturbed run, with all digits. SEED draws other moments. S1-030."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import tap  # noqa: E402
from real_site import AS_ROOT, FAULTS, MPIRUN, Code, disturbed, exists, folder_of, rounds, same_bytes, site  # noqa: E402

SEED = int(os.environ.get("SEED", time.time_ns() % 10**6))
# 256 atoms of a liquid
FIRST = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
write_data start.data
"""
# the lines of deploy/profiles/lammps.yaml
RUN = """units lj
atom_style atomic
if "$(is_file(ckpt.restart))" then "read_restart ckpt.restart" else "read_data start.data"
atom_modify sort 0 0.0
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 10 delay 0 check no
fix move all nve
thermo 100
thermo_modify flush yes
variable stop equal is_file(ckpt.stop)
fix stop all halt 100 v_stop != 0 error soft message no
run {steps} upto
write_restart ckpt.restart
write_dump all custom final.dump id x y z vx vy vz modify sort id format float %.17g
"""


def ends_as_undisturbed(command, steps, faults):
    print(f"# SEED={SEED}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lammps-") as folder, site() as cluster:
        folder = pathlib.Path(folder)
        inputs = folder_of(folder / "input", {"in.first": FIRST, "in.run": RUN.format(steps=steps)})
        subprocess.run(["lmp", "-in", "in.first"], cwd=inputs, env={**os.environ, **AS_ROOT}, check=True, stdout=subprocess.DEVNULL)
        code = Code("lammps", [*command, "lmp", "-in", "in.run"], inputs, "log.lammps")
        undisturbed = code.undisturbed(folder / "undisturbed")
        same_bytes(undisturbed, disturbed(cluster, "melt", code, faults, SEED)[0], ("final.dump",))
        cluster.debug_check()


def one_process_ends_as_undisturbed():
    return exists("lmp") or ends_as_undisturbed([], 20000, FAULTS)


def ranks_under_mpirun_end_as_undisturbed():
    return exists("lmp", "mpirun") or ends_as_undisturbed([*MPIRUN, "2"], 8000, FAULTS[1:2])


def ten_faults_of_one_process():
    return exists("lmp") or ends_as_undisturbed([], 150000, rounds(SEED, 10))


def ten_faults_of_ranks_under_mpirun():
    return exists("lmp", "mpirun") or ends_as_undisturbed([*MPIRUN, "2"], 60000, rounds(SEED + 1, 10))


if __name__ == "__main__":
    sys.exit(tap([one_process_ends_as_undisturbed, ranks_under_mpirun_end_as_undisturbed], long=[ten_faults_of_one_process, ten_faults_of_ranks_under_mpirun]))
