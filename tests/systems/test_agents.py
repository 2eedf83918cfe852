#!/usr/bin/python3
"""Thousands of agents over connections of their own, with heartbeats, orders and reports (build/bench/agents): what they cost the leader, how long an
order takes, and all of them back after the leader's death without a second leader. L8.
AGENTS=N chooses another number of agents, MEMBERS=N of members, ORDERS=N how many checkpoints are asked for in a second, SECONDS=N for how long. TLS=1: each with a certificate of its own."""
import json
import os
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, metric, tap  # noqa: E402
from crowd import Crowd  # noqa: E402

BACK_S = 60  # L8
LEADER = broker_pb2.EVENT_KIND_LEADER


def processor_of(process):
    """Seconds of a processor since its start."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(process):
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def shares(cluster, phase):
    """Runs the phase, and returns its result and each running member's share of one processor meanwhile."""
    began, before = time.monotonic(), {m.name: processor_of(m.process) for m in cluster.members}
    result = phase()
    took = time.monotonic() - began
    return result, {m.name: (processor_of(m.process) - before[m.name]) / took for m in cluster.members}


def term_of(cluster):
    return int(json.loads(cluster.ctl("status", "-o", "json").stdout)["status"]["term"])


def crowd_is_served(count, orders_per_s, seconds):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < count + 1000:
        return f"{count} connections need ulimit -n {count + 1000}"
    with Cluster(members=int(os.environ.get("MEMBERS", "3")), agents=(), tls="TLS" in os.environ,
                 target={"write_bytes_per_s": 10 ** 12}) as cluster:  # no order waits for bandwidth
        cluster.start()
        with Crowd(cluster, count) as crowd:
            connected = crowd.told("welcomed")
            crowd.say("register")
            started = crowd.told("started")
            leader, elected = cluster.leader(), sum(event.kind == LEADER for event in cluster.events())
            _, idle = shares(cluster, lambda: time.sleep(seconds))  # two heartbeats of each at least, and a cycle of the evaluator
            crowd.say(f"load {seconds} {orders_per_s}")
            load, busy = shares(cluster, lambda: crowd.told("load"))
            memory = memory_mib(leader.process)
            assert metric(leader.http, "ckpt_agent_connected") == count
            leader.kill()
            next_leader = cluster.wait_leader()
            before, crowds = processor_of(next_leader.process), processor_of(crowd.process)
            back = crowd.told("welcomed")
            greeting, crowds = (processor_of(next_leader.process) - before) * 1000 / count, (processor_of(crowd.process) - crowds) * 1000 / count
            assert metric(next_leader.http, "ckpt_agent_connected") == count
            print(f"# {count} agents: connected in {connected['seconds']} s, their jobs started in {started['seconds']} s; the leader's share of a "
                  f"processor {idle[leader.name]:.3f}, with {orders_per_s} orders/s {busy[leader.name]:.3f}; its memory {memory:.0f} MiB; an order at its "
                  f"agent p50 {load['order_p50_ms']} ms, p99 {load['order_p99_ms']} ms, most {load['order_max_ms']} ms; a change acknowledged p50 {load['answer_p50_ms']} ms, p99 {load['answer_p99_ms']} ms; all back {back['seconds']} s after "
                  f"the leader's death, {greeting:.2f} ms of the next one's processor for each, and {crowds:.2f} ms of the agents' own", flush=True)
            assert load["refused"] == 0 and load["stream_ends"] == 0, load
            assert load["orders"] >= load["asked"] * 0.99, load  # a job that is asked again before its last one is complete has no order of its own
            assert idle[leader.name] < 1 and busy[leader.name] < 1, (idle, busy)
            assert load["order_p50_ms"] < 100 and load["order_p99_ms"] < 2000, load
            assert back["seconds"] <= BACK_S, back
            time.sleep(2)
            assert int(back["term"]) == term_of(cluster), "the crowd that comes back has cost the leader its place"
            assert sum(event.kind == LEADER for event in cluster.events()) == elected + 1, "one leader after the other"
        leader.start()
        cluster.debug_check()


def five_hundred_agents_are_served_and_come_back():
    return crowd_is_served(500, 50, 3)


def ten_thousand_agents_are_served_and_come_back():
    return crowd_is_served(int(os.environ.get("AGENTS", "10000")), float(os.environ.get("ORDERS", "100")), float(os.environ.get("SECONDS", "60")))


if __name__ == "__main__":
    sys.exit(tap([five_hundred_agents_are_served_and_come_back], long=[ten_thousand_agents_are_served_and_come_back]))
