#!/usr/bin/python3
"""How long ranks wait for the agreed step, and a job that is to end for its end: three members, two agents, two ranks on each. Ends with 1 when the
most that the agents needed to agree is over what is promised: 200 ms, or two heartbeats where that is more.

Flow     `tests/bench/barrier.py [BARRIERS [STOPS]]`. The ranks speak the socket's lines themselves and count steps without any work, so that what
         they note is the agents' and the leader's time alone: when each was asked, and when each heard the step. Stops: from the agents' logs.
"""
import json
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, common_pb2, wait_until  # noqa: E402
from history import quantile  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, RUNNING, TIMED_OUT, all_run, ends_in  # noqa: E402

NODES, HEARTBEAT_MS = ("a", "b"), 1000
RANK = r"""
import json, os, socket, time
work, rank = os.environ["CKPT_DIR"], os.environ["RANK"]
notes = open("%s/notes.%s" % (work, rank), "a", buffering=1)
agent = socket.socket(socket.AF_UNIX)
agent.connect(os.environ["CKPT_APP_SOCKET"])
epoch, number = os.environ["CKPT_RUN"].split("-")
agent.sendall(("hello 1 %s %d %s - 4 2 barrier\n" % (os.environ["CKPT_ALLOCATION_ID"], int(epoch) << 40 | int(number), rank)).encode())
begun = time.monotonic()
for line in agent.makefile():
    words, now = line.split(), time.time()
    if words[0] == "ask":
        asked, hint, folder = now, words[1], words[4]
        agent.sendall(("at %s %d 1000000\n" % (hint, 1 + (time.monotonic() - begun) * 1000)).encode())
    elif words[0] == "step":
        os.makedirs("%s/%s" % (work, folder), exist_ok=True)
        with open("%s/%s/state" % (work, folder), "w") as file:
            file.write("x" * 1000)
        with open("%s/done.%s.new" % (work, rank), "w") as file:
            file.write("hint=%s\nbytes=1000\nstatus=0\nstep=%s\n" % (hint, words[2]))
        os.rename("%s/done.%s.new" % (work, rank), "%s/done.%s" % (work, rank))
        agent.sendall(("done %s\n" % hint).encode())
        notes.write(json.dumps([hint, asked, now, time.time()]) + "\n")
    elif words[0] == "refused":
        raise SystemExit(line)
"""
LAUNCH = 'for local in 0 1; do RANK=$(($2 + local)) LOCAL_RANK=$local WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 "$0" -c "$1" & done; wait'


def start(cluster, name):
    cluster.register(name, [(node, 1, MIB) for node in NODES], checkpoint_timeout_ms=20000)
    jobs = [cluster.run_job(node, name, ["sh", "-c", LAUNCH, sys.executable, RANK, str(2 * place)]) for place, node in enumerate(NODES)]
    wait_until(f"{name} runs", lambda: cluster.allocation(name).state == RUNNING, 20)
    wait_until(f"the ranks of {name} are there", lambda: all((job.work_dir / f"notes.{2 * place + local}").exists()
                                                             for place, job in enumerate(jobs) for local in (0, 1)), 20)
    time.sleep(0.3)
    return jobs


def request(cluster, name, number, after):
    return cluster.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
        request_id=f"{name}-{number}", allocation_id=name, after=after)).checkpoint_id


def table(name, values):
    values = sorted(values)
    print(f"| {name} | {statistics.median(values):.0f} | {quantile(values, 0.99):.0f} | {values[-1]:.0f} |", flush=True)
    return statistics.median(values)


def promised_ms(heartbeat_ms):
    return max(200, 2 * heartbeat_ms)


def barriers(cluster, count):
    """(median, most) from the first rank that is asked to the last that hears the step; before, from the request; after, until it is complete."""
    jobs = start(cluster, "barrier")
    begun, ended = [], []
    for number in range(count):
        begun.append(time.time())
        record = ends_in(cluster, "barrier", request(cluster, "barrier", number, common_pb2.AFTER_CHECKPOINT_CONTINUE), (COMPLETE, FAILED, TIMED_OUT))
        ended.append(time.time())
        assert record.state == COMPLETE, record
    notes = [[json.loads(line) for line in (jobs[place].work_dir / f"notes.{2 * place + local}").read_text().splitlines()]
             for place in (0, 1) for local in (0, 1)]
    asked, agreed, spread, done = [], [], [], []
    for number in range(count):
        round_notes = [rank[number] for rank in notes]
        asked.append(1000 * (min(note[1] for note in round_notes) - begun[number]))
        spread.append(1000 * (max(note[1] for note in round_notes) - min(note[1] for note in round_notes)))
        agreed.append(1000 * (max(note[2] for note in round_notes) - min(note[1] for note in round_notes)))
        done.append(1000 * (ended[number] - max(note[3] for note in round_notes)))
    print(f"\n| {count} barriers of 4 ranks on 2 nodes, 3 members: ms | p50 | p99 | most |\n| --- | --- | --- | --- |")
    table("the request until the first rank is asked", asked)
    table("... until the last one is", spread)
    median = table("the first is asked until the last hears the step", agreed)
    table("the last is done until the checkpoint is complete, as a client sees it", done)
    return median, max(agreed)


def instants(cluster, node, name, pattern):
    found = [line for line in cluster.agents[node].log.read_text().splitlines() if f"allocation={name} " in line and re.search(pattern, line)]
    assert found, (node, name, pattern)
    stamp = re.search(r"time=(\S+)Z", found[-1])[1]
    seconds, part = stamp.split(".")
    return time.mktime(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) + float("0." + part)


def stops(cluster, count):
    """A job that is to end: from the last rank that was done until nothing of it is left on any node."""
    spans = {"the last is done on a node until it stands still there": [], "until its part is told as verified": [],
             "... of the last node, until the order to end": [], "the order to end until nothing is left": [], "the last is done until nothing is left": []}
    for number in range(count):
        name = f"stop-{number}"
        start(cluster, name)
        request(cluster, name, 0, common_pb2.AFTER_CHECKPOINT_KILL)
        wait_until(f"{name} has ended", lambda name=name: cluster.allocation(name).state == common_pb2.ALLOCATION_STATE_COMPLETED, 30)
        at = {node: {step: instants(cluster, node, name, pattern) for step, pattern in
                     (("done", "to=FREEZING"), ("still", "event=frozen"), ("told", "to=STILL"), ("end", "to=KILLING"), ("gone", "to=ABSENT"))}
              for node in NODES}
        last_told = max(at[node]["told"] for node in NODES)
        for node in NODES:
            for span, (first, then) in zip(spans, ((at[node]["done"], at[node]["still"]), (at[node]["still"], at[node]["told"]),
                                                   (last_told, at[node]["end"]), (at[node]["end"], at[node]["gone"]))):
                spans[span].append(1000 * (then - first))
        spans["the last is done until nothing is left"].append(
            1000 * (max(at[node]["gone"] for node in NODES) - max(at[node]["done"] for node in NODES)))
    print(f"\n| {count} jobs of 2 nodes that end with their checkpoint: ms | p50 | p99 | most |\n| --- | --- | --- | --- |")
    for span, values in spans.items():
        table(span, values)


def main():
    numbers = [int(word) for word in sys.argv[1:]] + [200, 20][len(sys.argv) - 1:]
    with Cluster(members=3, agents=NODES, policy={**POLICY, "evaluation_interval": "30s"}, heartbeat_ms=HEARTBEAT_MS) as cluster:
        cluster.start()
        all_run(cluster)
        _, most = barriers(cluster, numbers[0])
        if numbers[1] > 0:
            stops(cluster, numbers[1])
    if most > promised_ms(HEARTBEAT_MS):
        sys.exit(f"missed: agents agree within {promised_ms(HEARTBEAT_MS)} ms: the most is {most:.0f} ms")


if __name__ == "__main__":
    main()
