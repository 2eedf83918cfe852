"""An agent that dies of a line of its own log (last_words.c): in a state, at exactly its beginning, without a race."""
import pathlib
import subprocess

from cluster import wait_until


class LastWords:
    """Made before the agent starts, or between two starts."""

    def __init__(self, agent):
        self.agent, self.order = agent, agent.cluster.dir / f"{agent.name}.last-words"
        library = agent.cluster.dir / "last_words.so"
        if not library.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, pathlib.Path(__file__).parent / "last_words.c", "-ldl"], check=True)
        agent.prefix = ["env", f"LD_PRELOAD={library}", f"LAST_WORDS={self.order}"]

    def arm(self, text, moment):
        """moment: before, at the line; after, when all that it tells of is done."""
        fresh = self.order.with_suffix(".fresh")
        fresh.write_text(f"{moment} {text}")
        fresh.rename(self.order)

    def dies(self, what, seconds=30):
        wait_until(f"the agent dies: {what}", lambda: self.agent.process.poll() is not None, seconds, 0.005)
        self.agent.process.wait()
        assert not self.order.exists(), f"it ended without having said {what}"
