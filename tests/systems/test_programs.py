#!/usr/bin/python3
"""Three real programs that save by libckptapp: a solver over MPI, a training loop with a launcher of its own, a program with threads. Their
undisturbed results are what a plain computation gives, with any number of ranks, and stay so after a checkpoint by step, an end of all, and a
restart on another number of nodes or ranks. The sockets are the agent's own, what is behind them is a stand-in (support/app_agents.py)."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from app_agents import Job, start  # noqa: E402
from cluster import BUILD, ROOT, tap  # noqa: E402
from ranks_site import heat_expected, threads_expected, train_expected  # noqa: E402

MPIRUN = ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "self,tcp", "-n"]


def heat(ranks, cells, steps, *more):
    return [*MPIRUN, ranks, BUILD / "bin" / "mpi_heat", cells, steps, *more]


def threads(count, cells, steps, *more):
    return [BUILD / "bin" / "threads_app", cells, steps, count, *more]


def train(meet, world, steps, *more):
    return ["/usr/bin/python3", "-B", ROOT / "tests" / "support" / "workload_ranks.py", "launch", steps, "--world", world, "--meet", meet, *more]


def no_mpi():
    return None if shutil.which("mpirun") and (BUILD / "bin" / "mpi_heat").exists() else "no OpenMPI here"


@contextlib.contextmanager
def work_folder():
    folder = tempfile.mkdtemp(prefix="programs-")
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def result(process, seconds=120):
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, f"ended with {process.returncode}: {output}"
    return output.split("result ")[1].split()[0]


def plain(command):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return result(subprocess.Popen([str(word) for word in command], env=environment, stdout=subprocess.PIPE, text=True))


def end_all(processes):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)


def disturbed(folder, ranks, first, then, parts=1, parts_then=1, alone=False, slow_s=0, exchanged=None):
    """The result after a checkpoint of `first` (commands by part), its sudden end, and `then` with what was saved."""
    job, processes = Job(folder, parts), []
    try:
        processes = [start(node, command) for node, command in zip(job.nodes, first)]
        job.wait(lambda: len(job.ranks) == ranks, f"{ranks} ranks did not come")
        asked = time.monotonic()
        labels, saved = job.checkpoint("1-1-1", ranks, meanwhile=None if exchanged is None else job.nodes[exchanged].exchange)
        assert labels is not None, "a rank missed the step"
        if labels[0] == "1":  # it polls, and was asked before it had computed anything
            labels, saved = job.checkpoint("1-2-1", ranks)
        assert time.monotonic() - asked >= slow_s, f"nobody was slow: {time.monotonic() - asked:.1f} s"
        assert len(labels) == ranks and len(set(labels.values())) == 1 and int(labels[0]) > 1, labels
        print(f"# {ranks} ranks met at step {labels[0]}", flush=True)
    finally:
        job.close()
        end_all(processes)
    again, processes = Job(folder, parts_then, run=2, restore=saved / "part-0000" if alone else saved, label=labels[0]), []
    try:
        processes = [start(node, command) for node, command in zip(again.nodes, then)]
        return [result(process) for process in processes if process is processes[0]][0]
    finally:
        again.close()
        end_all(processes)


def test_undisturbed_results_are_those_of_a_plain_computation():
    with work_folder() as folder:
        for count in (1, 4):
            assert plain(threads(count, 200, 150)) == threads_expected(200, 150), count
        for world in (1, 4):
            assert plain(train(folder / f"m{world}", world, 40)) == train_expected(40), world


def test_undisturbed_the_solver_over_mpi_gives_what_a_plain_computation_gives():
    if no_mpi():
        return no_mpi()
    for ranks in (1, 2, 4):
        assert plain(heat(ranks, 200, 150)) == heat_expected(200, 150), ranks


def test_threads_go_on_from_a_checkpoint():
    with work_folder() as folder:
        assert disturbed(folder, 1, [threads(4, 200, 4000, 1)], [threads(3, 200, 4000)], alone=True) == threads_expected(200, 4000)


def test_the_solver_over_mpi_goes_on_from_one_step_with_another_number_of_ranks():
    if no_mpi():
        return no_mpi()
    with work_folder() as folder:
        assert disturbed(folder, 4, [heat(4, 200, 3000, 2)], [heat(3, 200, 3000)]) == heat_expected(200, 3000)


def test_a_slow_rank_meets_the_others_at_one_step():
    with work_folder() as folder:
        first = [train(folder / "m", 4, 2000, "--first", 2 * part, "--local", 2, "--ms-per-step", 5, "--slow", "3:1:3000") for part in (0, 1)]
        then = [train(folder / "m", 2, 2000, "--local", 2)]
        assert disturbed(folder, 4, first, then, parts=2, slow_s=2) == train_expected(2000)


def test_a_slow_rank_of_the_solver_meets_the_others_at_one_step():
    if no_mpi():
        return no_mpi()
    with work_folder() as folder:
        assert disturbed(folder, 4, [heat(4, 200, 1500, 2, 3, 1, 3000)], [heat(4, 200, 1500)], slow_s=2) == heat_expected(200, 1500)


def test_a_loop_of_four_goes_on_as_two_nodes_and_as_three_ranks():
    with work_folder() as folder:
        first = [train(folder / "m", 4, 1500, "--first", 2 * part, "--local", 2, "--ms-per-step", 5) for part in (0, 1)]
        then = [train(folder / "m", 3, 1500, "--first", 2 * part, "--local", 2 - part) for part in (0, 1)]
        assert disturbed(folder, 4, first, then, parts=2, parts_then=2) == train_expected(1500)


def test_an_agent_is_exchanged_in_the_middle_of_a_barrier_of_the_solver():
    if no_mpi():
        return no_mpi()
    with work_folder() as folder:
        assert disturbed(folder, 4, [heat(4, 200, 1500, 3)], [heat(4, 200, 1500)], exchanged=0) == heat_expected(200, 1500)


def test_one_of_two_agents_is_exchanged_in_the_middle_of_a_barrier():
    with work_folder() as folder:
        first = [train(folder / "m", 4, 2000, "--first", 2 * part, "--local", 2, "--ms-per-step", 5) for part in (0, 1)]
        assert disturbed(folder, 4, first, [train(folder / "m", 2, 2000, "--local", 2)], parts=2, exchanged=1) == train_expected(2000)


def test_a_step_that_lies_behind_is_missed_and_a_later_one_met():
    with work_folder() as folder:
        job, processes = Job(folder, 1), []
        try:
            processes = [start(job.nodes[0], train(folder / "m", 2, 100000, "--ms-per-step", 1))]
            job.wait(lambda: len(job.ranks) == 2, "2 ranks did not come")
            job.checkpoint("1-1-1", 2)
            for attempt in (2, 3):
                assert job.checkpoint(f"1-1-{attempt}", 2, lead_steps=-5) == (None, None)
            labels, _ = job.checkpoint("1-1-4", 2)
            assert labels is not None and labels[0] == labels[1], labels
        finally:
            job.close()
            end_all(processes)


if __name__ == "__main__":
    sys.exit(tap([test for name, test in list(globals().items()) if name.startswith("test_")]))
