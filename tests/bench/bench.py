#!/usr/bin/python3
"""First figures of a three-replica cluster on this machine: commits, failover, evaluation, memory. Prints tables; gates nothing.

Flow    `make bench` runs all; a name as argument (commits, failover, evaluation, memory) runs one. Everything shares this machine's
        cores: the load generator, three replicas, one disk. Medians of several runs.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BUILD, Cluster, broker_pb2, metric, operator_pb2, wait_until  # noqa: E402

QUIET = {"evaluation_interval": "30s"}
RUNS, SECONDS = 5, 3


def load(endpoint, in_flight, seconds, count=None):
    arguments = [str(BUILD / "bench" / "load"), endpoint, str(in_flight), str(seconds), uuid.uuid4().hex[:12]]
    result = subprocess.run(arguments + ([str(count)] if count else []), capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {result.stdout}{result.stderr}")
    return json.loads(result.stdout)


def lag_ms(cluster, member):
    return cluster.client.operator("Status", operator_pb2.StatusRequest()).loop_lag_max_ms


def bench_commits():
    print("commits through the gRPC API (RegisterAllocation), 3 replicas, one machine, medians of "
          f"{RUNS} runs of {SECONDS} s\nin flight   commits/s   p50 us   p99 us")
    with Cluster(policy=QUIET) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        load(leader.api, 64, 1)
        for in_flight in (1, 64, 1000):
            runs = [load(leader.api, in_flight, SECONDS) for _ in range(RUNS)]
            print("%9d %11.0f %8.0f %8.0f" % (in_flight, *(statistics.median(r[k] for r in runs) for k in ("per_s", "p50_us", "p99_us"))),
                  flush=True)
        print(f"longest stall of the leader's loop: {lag_ms(cluster, leader)} ms")


def bench_failover(kills=30):
    detect = []
    with Cluster(policy=QUIET) as cluster:
        cluster.start()
        client = cluster.client
        for _ in range(kills):
            leader = cluster.wait_leader()
            wait_until("all members caught up", lambda: caught_up(cluster), 20, 0.05)
            client.current = cluster.members.index(leader)
            report(client)
            killed = time.monotonic()
            leader.kill()
            report(client)
            detect.append((time.monotonic() - killed) * 1000)
            leader.start()
    detect.sort()
    print(f"failover: SIGKILL of the leader to the next acknowledged commit through the API, {kills} kills, timers 1000/100 ms\n"
          f"p50 {statistics.median(detect):.0f} ms   p90 {detect[int(len(detect) * .9)]:.0f} ms   "
          f"p99 {detect[int(len(detect) * .99)]:.0f} ms   max {detect[-1]:.0f} ms", flush=True)


def caught_up(cluster):
    status = cluster.client.operator("Status", operator_pb2.StatusRequest())
    return len([m for m in status.members if m.reachable]) == 3 and all(m.lag_entries < 5 for m in status.members)


def report(client):
    client.broker("ReportQueue", broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="hpc"),
                  timeout_s=20, attempt_s=0.25)


def bench_evaluation():
    print("evaluation, cold cache, one thread\nallocations   score ms   read-once ms   ratio")
    for line in subprocess.run([str(BUILD / "bench" / "eval")], capture_output=True, text=True, check=True).stdout.splitlines():
        row = json.loads(line)
        print("%11d %10.3f %14.3f %7.2f" % (row["allocations"], row["score_ms"], row["read_ms"], row["ratio"]), flush=True)


def resident_mib(member):
    for line in pathlib.Path(f"/proc/{member.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def bench_memory():
    with Cluster(policy={"evaluation_interval": "1s"}) as cluster:
        cluster.start()
        leader = cluster.wait_leader()
        load(leader.api, 64, 60, 1000)
        before = {m.name: resident_mib(m) for m in cluster.members}
        load(leader.api, 256, 120, 100000)
        wait_until("followers applied it", lambda: caught_up(cluster), 30)
        per = [resident_mib(m) - before[m.name] for m in cluster.members]
        print(f"resident memory per 100,000 allocations: {min(per):.0f} to {max(per):.0f} MiB per member "
              f"(sessions of their requests included); before: {max(before.values()):.0f} MiB", flush=True)
        name = "ckpt_evaluation_duration_seconds"
        sum_before, count_before = metric(leader.http, f"{name}_sum"), metric(leader.http, f"{name}_count")
        wait_until("eight evaluations", lambda: metric(leader.http, f"{name}_count") >= count_before + 8, 60, 0.2)
        mean = (metric(leader.http, f"{name}_sum") - sum_before) / (metric(leader.http, f"{name}_count") - count_before)
        print(f"whole evaluation of 100,000 allocations, mean of 8 cycles: {mean * 1000:.1f} ms")
        print(f"longest stall of the leader's loop with 100,000 allocations: {lag_ms(cluster, leader)} ms")


BENCHES = {"commits": bench_commits, "failover": bench_failover, "evaluation": bench_evaluation, "memory": bench_memory}

if __name__ == "__main__":
    for name in sys.argv[1:] or BENCHES:
        BENCHES[name]()
