#!/usr/bin/python3
"""Workers that wait for the next task of their user: who gets which, when they end, and what they have loaded."""
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, tap, wait_until  # noqa: E402
from jobs import FAILED, MIB, POLICY, TIMED_OUT, all_run, complete, ends_in, heat, hint  # noqa: E402
from test_places import ANN, BOB, Site, need_root, plain_prefix  # noqa: E402


def in_configuration(cluster, text):
    with open(cluster.agent_config, "a", encoding="utf-8") as file:
        file.write(text)


def workers(cluster, agent="a"):
    """{pid: (uid, command line)} of the agent's."""
    found = {}
    parent = cluster.agents[agent].process.pid
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
            if int(status["PPid"]) == parent and (folder / "exe").resolve().name.startswith("ckpt-worker"):
                found[int(folder.name)] = (int(status["Uid"].split()[0]), (folder / "cmdline").read_bytes().rstrip(b"\0").decode())
        except (OSError, KeyError, ValueError):
            continue
    return found


def idle(cluster, uid=None):
    """Pids, when nobody is at work."""
    def look():
        now = workers(cluster)
        return {pid for pid, (owner, _) in now.items() if uid in (None, owner)} if all(text.endswith(" idle") for _, text in now.values()) else None
    return wait_until("all workers are idle", look, 20)


def each_user_has_a_worker_of_its_own():
    """I22: it does the next checkpoint of that user, holds no right but the user's, has loaded nothing of an HTTP client, and dies with its agent."""
    if not need_root():
        return
    with Cluster(members=1, agents=("a",), policy={**POLICY, "min_interval": "1ms"}) as cluster:
        site = Site(cluster)
        plain_prefix(cluster)
        cluster.start()
        try:
            site.start_job("anns", ANN)
            site.checkpoint("anns")
            first = idle(cluster, ANN)
            assert first, workers(cluster)
            site.checkpoint("anns")
            assert idle(cluster, ANN) & first, (first, workers(cluster))
            site.start_job("bobs", BOB)
            site.checkpoint("bobs")
            anns, bobs = idle(cluster, ANN), idle(cluster, BOB)
            assert anns and bobs and not anns & bobs, workers(cluster)
            for pid, user in [(p, ANN) for p in anns] + [(p, BOB) for p in bobs]:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                assert f"Uid:\t{user}\t{user}\t{user}\t{user}\n" in status and "CapEff:\t0000000000000000\n" in status, status
                maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
                assert "libc" in maps and "curl" not in maps and "krb5" not in maps, maps
                assert {p.name for p in pathlib.Path(f"/proc/{pid}/fd").iterdir()} == {"0", "1", "2", "3"}
            cluster.agents["a"].kill()
            wait_until("none is left", lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in anns | bobs), 10)
        finally:
            site.close()


def workers_end_when_nothing_is_to_be_done():
    """The agent's own user: idle ones end after worker_idle, and with 0s none waits."""
    for text, waits in (("worker_idle: 1s\n", True), ("worker_idle: 0s\n", False)):
        with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
            in_configuration(cluster, text)
            cluster.start()
            cluster.register("j", [("a", 1, MIB)], grace_ms=500)
            cluster.run_job("a", "j", heat(cluster, "j"))
            all_run(cluster)
            complete(cluster, "j")
            if waits:
                wait_until("one waits", lambda: any(t.endswith(" idle") for _, t in workers(cluster).values()), 20, 0.01)
            wait_until("it has ended", lambda: not workers(cluster), 20)
            complete(cluster, "j")
            cluster.debug_check()


def a_worker_that_hangs_is_replaced():
    """SIGSTOP stands for a mount that does not answer: the checkpoint fails, its worker is killed, and the next one has another."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "checkpoint_timeout": "2s"}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        complete(cluster, "j")
        stopped = idle(cluster)
        assert stopped, workers(cluster)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        ends_in(cluster, "j", hint(cluster, "j"), (FAILED, TIMED_OUT), 40)
        wait_until("what hung was killed", lambda: stopped - set(workers(cluster)), 20)
        for pid in stopped & set(workers(cluster)):
            os.kill(pid, signal.SIGCONT)
        complete(cluster, "j")
        cluster.debug_check()


def a_worker_that_was_killed_is_replaced():
    """While it waits: nobody notices."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1}) as cluster:
        cluster.start()
        cluster.register("j", [("a", 1, MIB)], grace_ms=500)
        cluster.run_job("a", "j", heat(cluster, "j"))
        all_run(cluster)
        complete(cluster, "j")
        for pid in idle(cluster):
            os.kill(pid, signal.SIGKILL)
        complete(cluster, "j")
        cluster.debug_check()


if __name__ == "__main__":
    tap([each_user_has_a_worker_of_its_own, workers_end_when_nothing_is_to_be_done, a_worker_that_hangs_is_replaced, a_worker_that_was_killed_is_replaced])
