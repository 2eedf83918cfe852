#!/usr/bin/python3
"""The units of deploy/systemd, read by systemd itself: no line of them is unknown, and what they start is there. systemd-analyze needs no running
manager; where one runs, units are not started here: tests/integration/test_cgroup.py has what Delegate=yes gives, test_supervisor.py the notify socket."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, ROOT, tap  # noqa: E402

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def analyzed(verb, *options, units=UNITS):
    return subprocess.run(["systemd-analyze", verb, *options, *map(str, units)], capture_output=True, text=True)


def systemd_knows_each_line_of_the_units():
    if shutil.which("systemd-analyze") is None:
        return "no systemd-analyze here (systemd)"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="units-"))
    try:
        copies = [folder / unit.name for unit in UNITS]
        for unit, copy in zip(UNITS, copies):
            copy.write_text(unit.read_text().replace("/usr/bin/", f"{BIN}/"))
        (folder / "ckptd.service.d").mkdir()
        drop_in = folder / "ckptd.service.d" / "start.conf"
        drop_in.write_text((ROOT / "deploy" / "systemd" / "ckptd-start.conf").read_text().replace("/usr/lib/ckpt/", f"{ROOT}/deploy/"))
        verified = analyzed("verify", "--man=no", units=copies)
        assert verified.returncode == 0 and verified.stderr + verified.stdout == "", verified.stderr + verified.stdout
        drop_in.write_text(drop_in.read_text().replace("[Service]", "[Service]\nNoSuchKey=yes"))
        assert "NoSuchKey" in analyzed("verify", "--man=no", units=copies).stderr, "the drop-in is not read"
    finally:
        shutil.rmtree(folder)


def a_wrong_line_is_found():
    """... as this test would find one."""
    if shutil.which("systemd-analyze") is None:
        return "no systemd-analyze here (systemd)"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="units-"))
    try:
        wrong = folder / "ckptd.service"
        wrong.write_text(UNITS[0].read_text().replace("[Service]", "[Service]\nNoSuchKey=yes").replace("/usr/bin/", f"{BIN}/"))
        assert "NoSuchKey" in analyzed("verify", "--man=no", units=[wrong]).stderr
    finally:
        shutil.rmtree(folder)


def what_the_units_may_do_has_not_grown():
    """systemd's own measure of what a unit is exposed to, of 100: an agent acts for all users of its node, a replica for itself."""
    if shutil.which("systemd-analyze") is None:
        return "no systemd-analyze here (systemd)"
    for name, most in (("ckptd.service", 20), ("ckpt-agentd.service", 60)):
        shown = analyzed("security", "--offline=true", f"--threshold={most}", units=[ROOT / "deploy" / "systemd" / name])
        assert shown.returncode == 0, shown.stdout[-400:] + shown.stderr


if __name__ == "__main__":
    sys.exit(tap([systemd_knows_each_line_of_the_units, a_wrong_line_is_found, what_the_units_may_do_has_not_grown]))
