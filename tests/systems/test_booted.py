#!/usr/bin/python3
"""What `make install` puts in its places, under a real systemd, in a guest (guest.py): a control node and a compute node in one, brought up as RUNBOOK
has it, with its certificates; a user's job under hardened units; both daemons killed, hung, stopped and started under it. The kernel, systemd and the
units are what ships; one processor in software is slow, so nothing here is timed.
The packages themselves, and their upgrade: test_packages.py. What systemd thinks of the units: test_units.py."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import guest  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# what Debian's packages of this project depend on, and systemd
PACKAGES = ("libcurl4 libexpat1 libjansson4 liblz4-1 libmicrohttpd12 libnghttp2-14 libprotobuf-c1 libraft2 libsmartcols1 libssl3 libuv1 libyaml-0-2 "
            "python3 ca-certificates systemd systemd-sysv dbus procps iproute2 netbase").split()
AUTHORITY = "/root/ckpt-ca"
KEYS = {"CKPT_ENDPOINTS": "127.0.0.1:7443", "CKPT_CA": f"{AUTHORITY}/ca.crt", "CKPT_CERT": f"{AUTHORITY}/operator-ann.crt",
        "CKPT_KEY": f"{AUTHORITY}/operator-ann.key"}
PROGRAM = """
import os, time
import ckptapp
ckpt, step = ckptapp.open(), 0
for folder in ckpt.restored().values():
    step = int(open(f"{folder}/state").read())
print("begins at", step, flush=True)
while True:
    step += 1
    if ckpt.poll():
        with ckpt.saving(step) as folder:
            open(f"{folder}/state", "w").write(str(step))
    time.sleep(0.05)
"""


def install(folder):
    build = os.path.relpath(os.environ.get("BUILD", ROOT / "build"), ROOT)
    done = subprocess.run(["make", "-s", "-C", ROOT, f"BUILD={build}", f"DESTDIR={folder}", "PREFIX=/usr", "install"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def run(*words, status=0, user=None, **options):
    """Its output, of both streams."""
    if user is not None:
        words = ("runuser", "-l", user, "-c", " ".join(words))
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **KEYS}, **options)
    assert status is None or done.returncode == status, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}"
    return done.stdout


def wait_until(what, condition, timeout_s=90):
    until = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < until, f"{what}: not within {timeout_s} s\n{run('journalctl', '-n', 40, '--no-pager', status=None)}"
        time.sleep(0.2)
    return found


def journal(unit, *options):
    return run("journalctl", "--no-pager", "-o", "cat", "-u", unit, *options)


def pid_of(unit):
    return int(run("systemctl", "show", "-p", "MainPID", "--value", unit))


def log_of_job():
    return pathlib.Path("/home/ann/job.log").read_text()


def job():
    """(state, number of its process): no two are ever there."""
    state = json.loads(run("ckptctl", "job", "j1", "-o", "json"))["job"]["state"]
    pids = run("pgrep", "-u", "ann", "-fx", "python3 /home/ann/program.py", status=None).split()
    assert len(pids) < 2, pids
    return state, pids[0] if pids else None


def completes():
    told = run("ckpt-run", "hint", "j1", "--wait", user="ann")
    assert "COMPLETE" in told.splitlines()[-1], told


def configured(name, *changes):
    path = pathlib.Path("/etc/ckpt", name)
    text = path.read_text()
    for pattern, new in changes:
        text, count = re.subn(pattern, new, text)
        assert count == 1, (pattern, count)
    path.write_text(text)


def it_is_installed_and_has_certificates_as_the_runbook_has_it():
    wait_until("systemd is up", lambda: run("systemctl", "is-system-running", status=None).strip() in ("running", "degraded", "starting"))
    run("systemd-sysusers")
    run("systemd-tmpfiles", "--create", "--prefix=/var/lib/ckpt", "--prefix=/etc/ckpt", "--prefix=/run/ckpt")
    run("systemctl", "daemon-reload")
    run("ckptctl", "tls", "init", "--cluster", "hpc", "--dir", AUTHORITY)
    for words in (("replica", "1", "--host", "guest,127.0.0.1"), ("agent", "guest"), ("operator", "ann")):
        run("ckptctl", "tls", "issue", *words, "--dir", AUTHORITY)
    run("install", "-d", "-o", "ckpt", "-m", "700", "/etc/ckpt/tls")
    run("install", "-o", "ckpt", "-m", "600", f"{AUTHORITY}/ca.crt", f"{AUTHORITY}/replica-1.crt", f"{AUTHORITY}/replica-1.key", "/etc/ckpt/tls")
    run("install", "-m", "600", f"{AUTHORITY}/agent-guest.crt", f"{AUTHORITY}/agent-guest.key", "/etc/ckpt/tls")
    configured("ckptd.yaml", (r"members:\n(?:  - \{id.*\n)+",
                              'members:\n  - {id: 1, name: guest, raft: "127.0.0.1:9000", api: "127.0.0.1:7443", http: "127.0.0.1:9104"}\n'))
    configured("ckpt-agentd.yaml", (r'brokers: ".*"', 'brokers: "127.0.0.1:7443"'), (r"owners_register: no", "owners_register: yes"))
    run("ckptd", "--config", "/etc/ckpt/ckptd.yaml", "--name", "guest", "--check-config")
    run("ckpt-agentd", "--config", "/etc/ckpt/ckpt-agentd.yaml", "--name", "guest", "--check-config")
    for user in ("ann", "bob"):
        run("useradd", "-m", user)


def a_member_that_has_not_been_founded_says_so():
    """... also where the folder of the target is not there yet."""
    run("systemctl", "start", "ckptd", status=1)
    assert "/var/lib/ckpt holds no member: start a new cluster with --bootstrap" in journal("ckptd", "-p", "err"), journal("ckptd")
    run("systemctl", "stop", "ckptd")


def the_first_start_by_hand_and_then_the_units():
    with open("/root/first.log", "w") as log:
        first = subprocess.Popen(["runuser", "-u", "ckpt", "--", "ckptd", "--config", "/etc/ckpt/ckptd.yaml", "--name", "guest", "--bootstrap"],
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_until("there is a leader", lambda: "leader guest" in run("ckptctl", "status", status=None))
    run("pkill", "-INT", "-x", "ckptd")
    assert first.wait(30) == 0, pathlib.Path("/root/first.log").read_text()
    run("systemctl", "enable", "--now", "ckptd", "ckpt-agentd")
    wait_until("the agent is connected", lambda: "ready" in run("ckptctl", "nodes", status=None))
    wait_until("the missing folder of the target is told", lambda: re.search(r"scratch .*unavailable.*/scratch/ckpt", run("ckptctl", "status")))
    run("install", "-d", "-o", "ckpt", "-g", "ckpt", "-m", "755", "/scratch/ckpt")
    run("systemctl", "restart", "ckptd")
    wait_until("the target is available", lambda: re.search(r"scratch .* available", run("ckptctl", "status", status=None)))


def a_user_s_job_is_checkpointed_under_the_units():
    home = pathlib.Path("/home/ann")
    (home / "program.py").write_text(PROGRAM)
    run("ckpt-run", "register", "--alloc", "j1", "--tenant", "ann", "--project", "p", "--walltime", "1h", user="ann")
    run("nohup", "ckpt-run", "--alloc", "j1", "--work-dir", "/var/tmp/j1", "--", "python3", "/home/ann/program.py", "> job.log", "2>&1", "< /dev/null", "&", user="ann")
    wait_until("the job has begun", lambda: "begins at 0" in log_of_job())
    completes()
    assert job()[0] == "RUNNING"
    owner = run("sh", "-c", "stat -c %U:%a /scratch/ckpt/ann/p/j1/checkpoints/*/part-0000/MANIFEST").split()
    assert owner == ["ann:600"], owner
    assert pathlib.Path(f"/proc/{job()[1]}/cgroup").read_text().startswith("0::/system.slice/ckpt-agentd.service/jobs/j1."), "it has no group of its own"


def both_daemons_are_killed_and_the_job_runs_on():
    before = job()
    for unit in ("ckpt-agentd", "ckptd"):
        pid = pid_of(unit)
        run("systemctl", "kill", "-s", "KILL", "--kill-whom=main", unit)
        wait_until(f"{unit} is started again", lambda: pid_of(unit) not in (0, pid))
    wait_until("the agent is back", lambda: "ready" in run("ckptctl", "nodes", status=None))
    completes()
    assert job() == before


def daemons_that_hang_are_started_again_by_the_watchdog():
    """... after the 30 s of the units."""
    before = job()
    pids = {unit: pid_of(unit) for unit in ("ckpt-agentd", "ckptd")}
    for unit in pids:
        run("systemctl", "kill", "-s", "STOP", "--kill-whom=main", unit)
    for unit, pid in pids.items():
        wait_until(f"{unit} is started again", lambda: pid_of(unit) not in (0, pid))
        assert "Watchdog timeout" in run("journalctl", "--no-pager", "-u", unit)
    wait_until("the agent is back", lambda: "ready" in run("ckptctl", "nodes", status=None))
    completes()
    assert job() == before


def an_agent_is_stopped_and_started_and_reads_its_files_again():
    before = job()
    run("systemctl", "stop", "ckpt-agentd")
    assert job() == before
    run("systemctl", "start", "ckpt-agentd")
    wait_until("the agent is back", lambda: "ready" in run("ckptctl", "nodes", status=None))
    run("systemctl", "reload", "ckptd", "ckpt-agentd")
    completes()
    assert job() == before


def a_program_that_is_killed_goes_on_from_its_checkpoint():
    pid = job()[1]
    os.kill(int(pid), 9)
    wait_until("it was started again", lambda: job()[1] not in (None, pid))
    wait_until("it goes on", lambda: re.search(r"started pid \d+ from checkpoint[^$]*begins at [1-9]", log_of_job()))
    completes()


def warnings_are_found_by_their_priority():
    """`journalctl -p warning` has what the daemons warn of, and nothing that they only tell."""
    run("ckpt-run", "end", "j1", user="bob", status=None)
    run("ckpt-run", "hint", "no-such-job", user="bob", status=None)
    shown = wait_until("a warning", lambda: journal("ckpt-agentd", "-p", "warning"))
    assert "event=own_refused" in shown and "level=info" not in shown, shown


def what_has_expired_is_removed_under_the_units():
    run("ckpt-run", "end", "j1", "--for-good", user="ann")
    wait_until("it has ended", lambda: job()[1] is None)
    folder = pathlib.Path("/scratch/ckpt/ann/p/j1/checkpoints")
    assert any(folder.iterdir())
    run("ckptctl", "policy", "set", "retention=1s", "--yes")
    wait_until("its checkpoints are gone", lambda: not folder.exists() or not any(folder.iterdir()), 180)


def nothing_failed_and_nothing_was_denied():
    assert run("systemctl", "list-units", "--failed", "--no-legend", "ckpt*").strip() == ""
    for unit in ("ckptd", "ckpt-agentd"):
        assert not re.search(r"status=31/SYS|NAMESPACE|CAPABILITIES|Operation not permitted", journal(unit)), journal(unit)
    run("systemctl", "stop", "ckpt-agentd", "ckptd")
    assert "event=stopped" in journal("ckptd", "-n", "20"), journal("ckptd", "-n", "20")


INSTALLED = [it_is_installed_and_has_certificates_as_the_runbook_has_it]
BROUGHT_UP = [the_first_start_by_hand_and_then_the_units, a_user_s_job_is_checkpointed_under_the_units]

if __name__ == "__main__":
    # one goes on where the one before has ended
    sys.exit(guest.tap_booted(PACKAGES, install, [*INSTALLED, *BROUGHT_UP, nothing_failed_and_nothing_was_denied], long=[
        *INSTALLED, a_member_that_has_not_been_founded_says_so, *BROUGHT_UP, both_daemons_are_killed_and_the_job_runs_on,
        daemons_that_hang_are_started_again_by_the_watchdog, an_agent_is_stopped_and_started_and_reads_its_files_again,
        a_program_that_is_killed_goes_on_from_its_checkpoint, warnings_are_found_by_their_priority, what_has_expired_is_removed_under_the_units,
        nothing_failed_and_nothing_was_denied]))
