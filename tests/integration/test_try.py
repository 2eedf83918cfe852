#!/usr/bin/python3
"""The page for who tries everything by hand on one machine, deploy/TRY.md: its lines, as they stand there."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from cluster import BIN  # noqa: E402
from isolate import main, needs  # noqa: E402


@needs("bash")  # its ports are fixed ones: only where this has a network of its own
def the_page_does_what_it_says_from_the_first_line_to_the_last():
    """V-014: register, run, ask, lose the leader and the node, look, take home, import, go on under another id."""
    page = (ROOT / "deploy" / "TRY.md").read_text()
    command = re.search(r"`(sed -n\s+'[^`]*```[^`]*```[^`]*```.*?bash -e)`", page, re.S)
    assert command, "the page says how it is run as a whole"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "build").mkdir()
        (folder / "build" / "bin").symlink_to(BIN)
        (folder / "deploy").symlink_to(ROOT / "deploy")
        done = subprocess.run(["bash", "-c", " ".join(command[1].split())], cwd=folder, capture_output=True, text=True, timeout=240)
        said = done.stdout
        assert done.returncode == 0, (said, done.stderr)
        counts = [int(n) for n in re.findall(r"counts from (\d+)", said)]
        assert counts[0] == 0 and "COMPLETE" in said and re.search(r"later: .*/home is its checkpoint 1-\d+, \d+ B in 1 files, verified", said), said
        leaders = re.findall(r"^cluster try .* leader (n\d) since", said, re.M)
        assert len(leaders) == 2 and leaders[0] != leaders[1], said
        home = int(re.findall(r"^(\d+)$", said, re.M)[-1])
        assert 0 < counts[1] <= home and counts[-1] == home, (counts, home, said)
        assert "ckpt-run register --alloc count-2 --continues count" in said and "ckpt-run register --alloc later-2 --continues later" in said, said


if __name__ == "__main__":
    sys.exit(main([the_page_does_what_it_says_from_the_first_line_to_the_last]))
