#!/usr/bin/python3
"""Jobs under Slurm's srun, on two nodes of a Slurm of its own: one srun starts a ckpt-run on each node, whose ranks a launcher of the node starts or an
srun inside, which has slurmstepd start them, outside of whatever ckpt-run began. All ranks are found with their numbers, a checkpoint has all of them,
and a job whose rank is killed goes on from it to the undisturbed result."""
import pathlib
import re
import shlex
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import faults  # noqa: E402
import slurm  # noqa: E402
from cluster import BIN, ROOT, Job, tap, wait_until  # noqa: E402
from ranks_site import Program, Ranked, site, train, train_expected, train_step  # noqa: E402

TASK = """export RANK=$((CKPT_PART * 2 + SLURM_LOCALID)) WORLD_SIZE=4 LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=2
exec /usr/bin/python3 -B {script} {options}"""


class Part(Job):
    """The ckpt-run of one node, which the srun of all has started."""

    def start(self):
        pass

    def application_pid(self):
        return min(self.applications(), default=None)


class SlurmRanked(Ranked):
    def __init__(self, slurm_of, *arguments, **fields):
        self.slurm = slurm_of
        super().__init__(*arguments, **fields)

    def start(self):
        parts = {node: Part(self.cluster, self.cluster.agents[node], self.name, self.command, ("--max-restarts", "0")) for node in self.nodes}
        cases = "\n".join(f"{node}) exec {shlex.join(part.arguments)} >> {part.log} 2>&1 ;;" for node, part in parts.items())
        started = self.slurm.run(["srun", "-N", len(self.nodes), "-w", ",".join(self.nodes), "--ntasks-per-node=1", "-c2", "-K0", "sh", "-c",
                                  f"case $SLURMD_NODENAME in\n{cases}\nesac"], self.cluster.dir / f"srun-{self.name}.log")
        for part in parts.values():
            part.process = started
        self.runs = parts


def inner(steps=900, ms_per_step=5):
    """srun inside the job: two tasks of its own on each node."""
    script = ROOT / "tests" / "support" / "workload_ranks.py"

    def command(folder, **_):
        task = TASK.format(script=script, options=f"train {steps} --meet {folder} --ms-per-step {ms_per_step}")
        return ["sh", "-c", f'exec srun --overlap -N 1 -n 2 --ntasks-per-node=2 -c 1 -w "$SLURMD_NODENAME" --export=ALL sh -c {shlex.quote(task)}']
    return Program("slurm", 2, command, train_step, lambda: train_expected(steps))


def goes_on_after_a_rank_was_killed(make, name):
    if slurm.why_not():
        return slurm.why_not()
    with site("ab") as cluster, slurm.Slurm(cluster.dir / "slurm", "ab") as own:
        job = SlurmRanked(own, cluster, name, make(), "ab")
        try:
            job.computes()
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{job.logs()}\n{(cluster.dir / f'srun-{name}.log').read_text()}\n{own.logs()}") from None
        job.checkpoint()
        status = {node: subprocess.run([str(BIN / "ckpt-run"), "status", "--socket", str(cluster.agents[node].socket)], capture_output=True, text=True).stdout
                  for node in "ab"}
        for node, numbers in (("a", (0, 1)), ("b", (2, 3))):
            assert all(f"{number} (pid " in status[node] for number in numbers), status
        job.kill_rank(3)
        faults.ends_well(job)
        assert job.restarts == 1, job.restarts
        assert re.search(r"from checkpoint \S+ \(1-\d+, step \d+\), taken at", job.logs()), job.logs()


def one_ckpt_run_on_each_node_by_srun():
    return goes_on_after_a_rank_was_killed(lambda: train(steps=900), "outer")


def srun_inside_the_job_on_each_node():
    return goes_on_after_a_rank_was_killed(inner, "inner")


if __name__ == "__main__":
    sys.exit(tap([one_ckpt_run_on_each_node_by_srun, srun_inside_the_job_on_each_node]))
