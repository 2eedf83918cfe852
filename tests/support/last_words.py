"""An agent that dies, falls asleep or loses its network with a line of its own log (last_words.c): in a state, at exactly its beginning, without a race."""
import pathlib
import signal
import subprocess

from cluster import wait_until


class LastWords:
    """Made before the agent starts, or between two starts."""

    def __init__(self, agent):
        self.agent, self.order = agent, agent.cluster.dir / f"{agent.name}.last-words"
        self.cut = self.order.with_name(self.order.name + ".cut")
        library = agent.cluster.dir / "last_words.so"
        if not library.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, pathlib.Path(__file__).parent / "last_words.c", "-ldl"], check=True)
        agent.prefix = ["env", f"LD_PRELOAD={library}", f"LAST_WORDS={self.order}"]

    def arm(self, text, moment, fate="dies"):
        """moment: before, at the line; after, when all that it tells of is done. fate: dies, sleeps or cut."""
        fresh = self.order.with_suffix(".fresh")
        fresh.write_text(f"{fate} {moment} {text}")
        fresh.rename(self.order)

    def dies(self, what, seconds=30):
        wait_until(f"the agent dies: {what}", lambda: self.agent.process.poll() is not None, seconds, 0.005)
        self.agent.process.wait()
        assert not self.order.exists(), f"it ended without having said {what}"

    def away(self, what, seconds=30):
        """It sleeps, or its network is cut."""
        wait_until(f"the agent is away: {what}", lambda: self.cut.exists() or self.asleep(), seconds, 0.005)
        assert not self.order.exists(), f"it is away without having said {what}"

    def asleep(self):
        """By the state in its line of /proc, behind the name in brackets."""
        return pathlib.Path(f"/proc/{self.agent.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def comes_back(self):
        self.cut.unlink(missing_ok=True)
        self.agent.process.send_signal(signal.SIGCONT)
