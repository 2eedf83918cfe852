"""Drills of a cluster of real processes: who starts members again, how a drill is run, and a client outside that measures beside it."""
import json
import threading
import time
import uuid

from cluster import ROOT, Client, broker_pb2, wait_until

SUPERVISE = ROOT / "tests" / "support" / "supervise.py"


def ready(cluster, kind):
    wait_until("nothing hinders a drill", lambda: json.loads(cluster.ctl("drill", "plan", kind, "-o", "json", check=False).stdout)["plan"]["possible"], 30, 0.2)


def supervised(cluster):
    """All members, by one that starts them again. Their first starts were by hand, as the runbook has it."""
    for member in cluster.members:
        member.kill(15)
        assert member.process.wait(30) == 0, member.name
        member.prefix = [str(SUPERVISE)]
        member.start()
    cluster.wait_leader()
    ready(cluster, "leader-kill")


def run(cluster, *words, code=0):
    """The report, as JSON."""
    done = cluster.ctl("drill", "run", *words, "--yes", "-o", "json", check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)["drill"]


class Outside:
    """A client that knows nothing of drills: one change after the other. How long it was without an answer at most."""

    def __init__(self, cluster):
        self.client = Client([member.api for member in cluster.members])
        self.away_ms, self.ended, self.answered = 0.0, False, 0
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        last = time.monotonic()
        while not self.ended:
            report = broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="outside", withdrawn=True)
            self.client.broker("ReportQueue", report, attempt_s=0.5)
            now = time.monotonic()
            self.away_ms, last = max(self.away_ms, (now - last) * 1000), now
            self.answered += 1
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.ended = True
        self.thread.join()
        self.client.close()


def drills_of(cluster):
    """The newest first, of any member that answers."""
    done = wait_until("a member lists the drills", lambda: (lambda r: r if r.returncode == 0 else None)(cluster.ctl("drill", "list", "-o", "json", check=False)), 30, 0.2)
    return [item["drill"] for item in json.loads(done.stdout)["drills"]]


def over(cluster, number):
    return wait_until(f"drill {number} is over", lambda: next((d for d in drills_of(cluster) if d["drill_id"] == number and d["state"] in ("PASSED", "FAILED", "ABORTED")), None),
                      90, 0.3)
