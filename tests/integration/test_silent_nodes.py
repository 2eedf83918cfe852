#!/usr/bin/python3
"""A silent node and its second witness, by real members and agents on hosts of their own: nobody types anything (S3-060, F-006, V-003, L-003)."""
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import wait_until  # noqa: E402
from isolate import main, needs  # noqa: E402
from jobs import REQUEUED  # noqa: E402
from netns import refused  # noqa: E402
from ranks_site import threads  # noqa: E402
from spare_site import TOOLS, WITNESS_S, SpareSite  # noqa: E402



@needs(*TOOLS, probe=refused)
def a_machine_that_loses_its_power_is_down_and_its_job_goes_on_elsewhere():
    """S3-060, F-006: the agent's silence and no answer to two members; the evidence is shown. The machine that comes back is ready again."""
    with SpareSite(threads(2000)) as site:
        since = time.monotonic()
        site.network.power_off(site.cluster.agents["b"])
        site.job.lose("b")
        wait_until("b is down", lambda: site.state("b") == "down", WITNESS_S, 0.1)
        print(f"# from the loss of power to DOWN: {time.monotonic() - since:.1f} s", flush=True)
        wait_until("it was restarted", lambda: site.chosen() == "its own a; the spare c", 20, 0.1)
        shown = site.cluster.ctl("node", "b").stdout
        assert re.search(r"silent since [\d: -]+; off, by the second witness PROBE at [\d: -]+: no answer at 10\.77\.0\.102:22 from n\d, n\d", shown), shown
        assert re.search(r"second witness PROBE: b: no answer at 10\.77\.0\.102:22 from n\d, n\d", site.events()), site.events()
        site.finishes()
        site.network.power_on(site.cluster.agents["b"])
        site.cluster.agents["b"].start()
        wait_until("b is ready", lambda: site.state("b") == "ready", 20, 0.1)
        assert site.node("b")["node"].get("evidence", "") == ""


@needs(*TOOLS, probe=refused)
def a_stopped_agent_on_a_living_machine_is_lost_and_nothing_is_begun_elsewhere():
    """V-003: its kernel answers. The agent that is heard again ends what is left there first, and the job comes back."""
    with SpareSite(threads(6000)) as site:
        site.cluster.agents["b"].process.send_signal(signal.SIGSTOP)
        wait_until("the agent of b is lost", lambda: site.state("b") == "agent_lost", 20, 0.1)
        wait_until("the job is requeued", lambda: site.job.state() == REQUEUED, 20, 0.1)
        end = time.monotonic() + WITNESS_S
        while time.monotonic() < end:
            assert site.state("b") == "agent_lost" and site.chosen() == "" and site.job.state() == REQUEUED
            time.sleep(0.5)
        shown = site.cluster.ctl("node", "b").stdout
        assert "no second witness: nothing of it is begun elsewhere" in shown and "not restarted elsewhere because of it: job" in shown, shown
        assert re.search(r"the agents of 1 nodes are silent.*\(the first: b, for \d+ s\); 1 stopped jobs are not restarted elsewhere", site.cluster.ctl("status").stdout)
        site.cluster.agents["b"].process.send_signal(signal.SIGCONT)
        wait_until("it was restarted", lambda: site.chosen() != "", 40, 0.1)
        site.finishes()


@needs(*TOOLS, probe=refused)
def members_that_reach_no_node_are_no_witness():
    """The members' way to all nodes' addresses is cut, the agents' way to the members is not: whoever reaches no other node does not count."""
    with SpareSite(threads(2500)) as site:
        for member in site.cluster.members:
            site.network.rule(member, "out", "tcp dport 22 drop")
        site.cluster.agents["b"].process.send_signal(signal.SIGSTOP)
        wait_until("the agent of b is lost", lambda: site.state("b") == "agent_lost", 20, 0.1)
        end = time.monotonic() + WITNESS_S
        while time.monotonic() < end:
            assert site.state("b") == "agent_lost" and site.chosen() == ""
            time.sleep(0.5)
        assert site.node("b")["node"]["probed"] == "no answer"
        site.cluster.agents["b"].process.send_signal(signal.SIGCONT)
        wait_until("it was restarted", lambda: site.chosen() != "", 40, 0.1)
        site.finishes()


if __name__ == "__main__":
    sys.exit(main([a_machine_that_loses_its_power_is_down_and_its_job_goes_on_elsewhere,
                   a_stopped_agent_on_a_living_machine_is_lost_and_nothing_is_begun_elsewhere,
                   members_that_reach_no_node_are_no_witness]))
