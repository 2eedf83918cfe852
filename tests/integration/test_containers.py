#!/usr/bin/python3
"""Agents and jobs in PID namespaces, as containers have them: who is the parent of all, and whose numbers mean what."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, children, tap, wait_until  # noqa: E402
from jobs import COMPLETE, MIB, POLICY, RUNNING, complete, heat  # noqa: E402

OWN = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def cannot():
    if os.geteuid() != 0 or subprocess.run([*OWN, "true"], capture_output=True).returncode != 0:
        return "PID namespaces need root and unshare(1)"
    return None


def zombies(parent):
    found = []
    for child in children(parent):
        try:
            state = pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        found += [child] if state == "Z" else []
    return found


def opened(gate):
    """Lets all go that read from this named pipe now."""
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass  # nobody reads from it (any more)
    return True


def attach(agent, allocation, prefix=()):
    return subprocess.run([*prefix, str(BIN / "ckpt-run"), "--alloc", allocation, "--work-dir", str(agent.cluster.dir / "refused"), "--socket",
                           str(agent.socket), "--", "true"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)


def an_agent_that_is_the_first_process_takes_the_ends_of_adopted_children():
    """In a container without an init whoever loses the parent is the agent's child: none stays a zombie, and the agent's own workers are still heard.
    A job inside is checkpointed as ever. S1-032."""
    if cannot():
        print(f"# SKIP {cannot()}")
        return
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        cluster.agents["a"].prefix = OWN
        cluster.start()
        [agent] = children(cluster.agents["a"].process.pid)
        inside = ["nsenter", "--target", str(agent), "--pid", "--mount"]
        gate = cluster.dir / "gate"
        os.mkfifo(gate)
        waiting = f"for i in 1 2 3 4 5 6 7 8; do (cat {gate} & exec true); done"
        assert subprocess.run([*inside, "sh", "-c", waiting], timeout=20).returncode == 0
        wait_until("they are the agent's", lambda: len(children(agent)) >= 8, 10, 0.01)
        wait_until("they have ended, and nobody of them is left", lambda: opened(gate) and not children(agent), 10)
        cluster.register("job", [("a", 1, MIB)])
        job = cluster.run_job("a", "job", heat(cluster, "job"))
        job.process.wait(20)  # from outside: refused, see below
        job.arguments = [*inside, *job.arguments]
        job.start()
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 20)
        orphans = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.5 & exec true); done"
        assert subprocess.run([*inside, "sh", "-c", orphans], timeout=20).returncode == 0
        assert complete(cluster, "job").state == COMPLETE
        wait_until("nobody is left but its workers", lambda: not zombies(agent), 10)


def a_ckpt_run_in_another_pid_namespace_is_refused_by_that_name():
    """Its process ids are other processes' at the agent: it would ask and end these. Inwards and outwards it hears so at once, with the remedy; what
    is started inside by a ckpt-run beside its agent is asked. V-018."""
    if cannot():
        print(f"# SKIP {cannot()}")
        return
    with Cluster(members=1, agents=("a", "b"), policy=POLICY) as cluster:
        cluster.agents["b"].prefix = OWN
        cluster.start()
        for name, node in (("in", "a"), ("out", "b"), ("boxed", "a")):
            cluster.register(name, [(node, 1, MIB)])
        inwards = attach(cluster.agents["a"], "in", OWN)
        assert inwards.returncode == 125 and "is in another PID namespace than its agent, pid " in inwards.stderr, inwards
        assert "docker run --pid=host" in inwards.stderr, inwards
        outwards = attach(cluster.agents["b"], "out")
        assert outwards.returncode == 125 and "is in another PID namespace than its agent, which does not see it" in outwards.stderr, outwards
        job = cluster.run_job("a", "boxed", ["unshare", "--pid", "--fork", "--kill-child", *heat(cluster, "boxed")])
        wait_until("it runs", job.known_to_run, 20)
        assert complete(cluster, "boxed").state == COMPLETE


if __name__ == "__main__":
    sys.exit(tap([an_agent_that_is_the_first_process_takes_the_ends_of_adopted_children, a_ckpt_run_in_another_pid_namespace_is_refused_by_that_name]))
