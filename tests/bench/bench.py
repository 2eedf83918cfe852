#!/usr/bin/python3
"""Figures of a cluster on this machine, beside etcd's in the same run: commits, failover, evaluation, scale. Prints tables, and ends with 1 when a
figure misses what is promised (PROMISED: ratios to etcd where it has the figure; L1, L6, Q-003).

Flow    `make bench` runs all; a name as argument (commits, commits_tls, crowd, failover, failover_hang, failover_tls, evaluation, records, scale, cycle) runs one;
        `beside` needs another build of this broker. Everything shares this machine's cores: the load generator, three replicas, one disk. Medians of
        several runs.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time
import uuid

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import pairs  # noqa: E402
import peer  # noqa: E402
from cluster import BUILD, Cluster, broker_pb2, broker_pb2_grpc, common_pb2, http_get, http_status, metric, operator_pb2, wait_until  # noqa: E402
from crowd import Crowd  # noqa: E402
from history import quantile  # noqa: E402

QUIET = {"evaluation_interval": "30s"}
SILENT = {"node_degraded_after": "12h", "node_down_after": "24h"}  # agents that say what has started, and no more
RUNS, SECONDS = int(os.environ.get("RUNS", 6)), float(os.environ.get("SECONDS", 3))
# "times etcd's" is measured in the same run, so that a slower or busier machine falls on both. Less than the medians of all runs (README.md).
PROMISED = {"commits per second with 1 in flight, times etcd's": (">", 1), "commits per second with 64 in flight, times etcd's": (">", 2.2),
            "commits per second with 1000 in flight, times etcd's": (">", 1.6), "p99 of a commit with 1 in flight, times etcd's": ("<", 2),
            "p99 of a commit with 64 in flight, times etcd's": ("<", 1), "p99 of a commit with 1000 in flight, times etcd's": ("<", 1),
            "p99 ms of a failover, 3 members": ("<", 100), "p99 ms of a failover, 5 members": ("<", 100),
            "median outage by a leader that hangs, 3 members, times etcd's": ("<", 1),
            "median outage by a leader that hangs, 5 members, times etcd's": ("<", 1),
            "p99 ms of a commit with 16 in flight beside agents, 3 members": ("<", 50),
            "p99 ms of a commit with 16 in flight beside agents, 5 members": ("<", 100),
            "commits per second with 16 in flight beside agents": (">", 1000),
            "processor time of a commit, many records by few": ("<", 1.3),
            "ms of own work in a turn of the loop at 1,000,000": ("<", 50),
            "ms from the start of a member with 1,000,000 until it serves": ("<", 5000)}
missed = []


def promised(what, value):
    relation, limit = PROMISED[what]
    if not (value > limit if relation == ">" else value < limit):
        missed.append(f"missed: {what}: {value:.4g}, promised {relation} {limit}")


def load_arguments(endpoint, in_flight, seconds, count=None, client="load"):
    arguments = [str(BUILD / "bench" / client), endpoint, str(in_flight), str(seconds), uuid.uuid4().hex[:12]]
    return arguments + ([str(count)] if count else [])


def load(endpoint, in_flight, seconds, count=None, site=None, client="load"):
    arguments = load_arguments(endpoint, in_flight, seconds, count, client)
    result = subprocess.run(arguments, capture_output=True, text=True,
                            env={**os.environ, **(site.environment("operator-test") if site else {})})
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {result.stdout}{result.stderr}")
    return json.loads(result.stdout)


def lag_ms(cluster, member):
    return cluster.client.operator("Status", operator_pb2.StatusRequest()).loop_lag_max_ms


def system_s(daemons):
    """Processor seconds in the kernel since their starts."""
    ticks = (int(pathlib.Path(f"/proc/{d.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[12]) for d in daemons)
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


class Run:
    """One run of a load on one of the clusters; a pair of these is judged as pairs.py does."""

    def __init__(self, daemons, *arguments, **options):
        before = system_s(daemons)
        self.found = load(*arguments, **options)
        self.system_s = (system_s(daemons) - before) / max(self.found["calls"], 1) * SYSTEM_CALLS


# Of so many calls: what a run takes in the kernel follows from how many it gets done.
SYSTEM_CALLS = 10000
# Go's gRPC is nobody's own, and the figure; the C client, which takes less of the cores that all share, is this broker's.
CLIENTS = (("load_go", "Go's gRPC"), ("load", "our own C client"))
COMMITS_HEAD = ("client", "in flight", "of each", "ours", "etcd's", "ratio", "least", "most", "rounds kept", "load")
KINDS = (("per_s", "commits/s", 1), ("p50_us", "p50, ms", 1000), ("p99_us", "p99, ms", 1000))


def commits_rows(client, said, in_flight, rounds, kinds=KINDS):
    """rounds: of (ours, theirs). The medians of the rounds' ratios by kind."""
    counted, found = pairs.kept(rounds), {}
    for key, name, unit in kinds:
        ours, theirs = ([run.found[key] for run in side] for side in zip(*counted))
        ratios = [a / b for a, b in zip(ours, theirs)]
        found[key] = statistics.median(ratios)
        digits = "%.0f" if unit == 1 else "%.2f"
        cells = [said, str(in_flight), name, *(digits % (statistics.median(side) / unit) for side in (ours, theirs)),
                 *("%.2f" % value for value in (found[key], min(ratios), max(ratios))), f"{len(counted)} of {len(rounds)}", "%.0f" % os.getloadavg()[0]]
        print(f"| {' | '.join(cells)} |", flush=True)
    return found


def bench_commits(tls=False):
    """Both clusters stay up; their runs alternate, and so does who goes first, so that what else this machine does falls on both."""
    print(f"writes through the gRPC API{', TLS with certificates of both sides on all ports' if tls else ''}, same message size, "
          f"3 replicas each, one machine and disk, medians of {RUNS} runs of {SECONDS} s\n\n"
          f"| {' | '.join(COMMITS_HEAD)} |\n|{'---|' * len(COMMITS_HEAD)}", flush=True)
    for client, said in CLIENTS:  # a cluster each: all that is registered stays, at most two million
        with Cluster(policy=QUIET, tls=tls) as cluster, peer.Etcd(site=cluster.site) as etcd:
            cluster.start()
            leader = cluster.wait_leader()
            sides = ((leader.api, cluster.members), ("etcd:" + etcd.leader().api, etcd.members))
            for in_flight in (1, 64, 1000):
                rounds = pairs.by_turns(RUNS, *(lambda e=endpoint, d=daemons, c=client, n=in_flight: Run(d, e, n, SECONDS, site=cluster.site, client=c)
                                                for endpoint, daemons in sides))
                ratios = commits_rows(client, said, in_flight, rounds)
                if client == CLIENTS[0][0]:
                    promised(f"commits per second with {in_flight} in flight, times etcd's", ratios["per_s"])
                    promised(f"p99 of a commit with {in_flight} in flight, times etcd's", ratios["p99_us"])
            print(f"\nlongest stall of the leader's loop: {lag_ms(cluster, leader)} ms")


def bench_crowd(agents=int(os.environ.get("AGENTS", 10000)), seconds=float(os.environ.get("SECONDS", 20))):
    """Commits of the stock Go client beside agents that send heartbeats, each over a connection of its own (Q-003)."""
    print(f"writes through the gRPC API beside {agents} agents with heartbeats each 10 s, {seconds:.0f} s each, all on this machine\n\n"
          "| members | in flight | commits/s | p50, ms | p99, ms | most, ms | the leader's share of a processor | load |\n" + "|---" * 8 + "|", flush=True)
    for members in (3, 5):
        with Cluster(members=members, policy=QUIET) as cluster:
            cluster.start()
            with Crowd(cluster, agents) as crowd:
                crowd.told("welcomed")
                leader = cluster.wait_leader()
                for in_flight in (1, 16, 64):
                    before, began = processor_s([leader]), time.monotonic()
                    found = load(leader.api, in_flight, seconds, client="load_go")
                    share = (processor_s([leader]) - before) / (time.monotonic() - began)
                    print(f"| {members} | {in_flight} | {found['per_s']:.0f} | {found['p50_us'] / 1e3:.2f} | {found['p99_us'] / 1e3:.2f} | "
                          f"{found['max_us'] / 1e3:.1f} | {share:.2f} | {os.getloadavg()[0]:.0f} |", flush=True)
                    if in_flight == 16:
                        promised(f"p99 ms of a commit with 16 in flight beside agents, {members} members", found["p99_us"] / 1e3)
                        promised("commits per second with 16 in flight beside agents", found["per_s"])
                assert metric(leader.http, "ckpt_agent_connected") == agents, "they are there all the time"


def processor_s(daemons):
    """Since their starts, in the kernel and out of it."""
    stats = (pathlib.Path(f"/proc/{d.process.pid}/stat").read_text().rsplit(")", 1)[1].split() for d in daemons)
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def bench_beside():
    """This build by turns with another one, whose programs are in the folder BESIDE: what a change costs a commit."""
    print(f"writes of two builds of this broker, 3 replicas each, by turns, medians of {RUNS} runs of {SECONDS} s\n\n"
          "| client | in flight | of each | ours | the other's | ratio | least | most | rounds kept | load |\n" + "|---" * 10 + "|", flush=True)
    with Cluster(policy=QUIET) as ours, Cluster(policy=QUIET) as theirs:
        theirs.bin = pathlib.Path(os.environ["BESIDE"])
        for cluster in (ours, theirs):
            cluster.start()
            cluster.wait_leader()

        def run(cluster, in_flight, client):
            before = processor_s(cluster.members)
            found = Run(cluster.members, cluster.leader().api, in_flight, SECONDS, client=client)
            found.found["processor_us"] = (processor_s(cluster.members) - before) * 1e6 / max(found.found["calls"], 1)
            return found

        for client, said in CLIENTS:
            for in_flight in (64, 1000):
                rounds = pairs.by_turns(RUNS, *(lambda c=cluster, n=in_flight, k=client: run(c, n, k) for cluster in (ours, theirs)))
                commits_rows(client, said, in_flight, rounds, (*KINDS, ("processor_us", "processor of the members, µs", 1)))


def write_once(cluster, without=None, timeout_s=30.0):
    """Tried at one member after the other until it is acknowledged, as the client of the peer does it; never at the one that went."""
    client = cluster.client
    request = broker_pb2.ReportQueueRequest(request_id=uuid.uuid4().hex, vcluster="hpc")
    end = time.monotonic() + timeout_s
    while True:
        for member in cluster.members:
            if member is without:
                continue
            try:
                broker_pb2_grpc.BrokerServiceStub(client.channel(member.api)).ReportQueue(request, timeout=peer.ATTEMPT_S)
                return
            except grpc.RpcError as error:
                if time.monotonic() > end:
                    raise
                if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    time.sleep(0.002)  # it answered at once that it does not lead


def outage_ms(strike, write):
    struck = time.monotonic()
    strike()
    write()
    return (time.monotonic() - struck) * 1000


def table_row(name, values):
    p90, p99 = (quantile(values, share) for share in (.9, .99))
    print("%-28s %6d %8.0f %8.0f %8.0f %8.0f" % (name, len(values), statistics.median(values), p90, p99, max(values)), flush=True)
    return p99


def broker_outage(cluster, strike, mend):
    leader = cluster.wait_leader()
    wait_until("all members caught up", lambda: caught_up(cluster), 30, 0.05)
    write_once(cluster)
    found = outage_ms(lambda: strike(leader), lambda: write_once(cluster, leader))
    mend(leader)
    return found


def etcd_outage(etcd, strike, mend):
    leader = wait_until("etcd has a leader", etcd.leader, 30, 0.05)
    wait_until("all members caught up", etcd.caught_up, 30, 0.05)
    etcd.write(leader)
    found = outage_ms(lambda: strike(leader), lambda: etcd.write(leader))
    mend(leader)
    return found


def outages_begin():
    print("the leader goes; time to the next acknowledged write through the API of another member; timers 1000/100 ms\n"
          "what                              n   p50 ms   p90 ms   p99 ms   max ms", flush=True)


def broker_kills(members, kills, tls=False):
    with Cluster(members=members, policy=QUIET, tls=tls) as cluster:
        cluster.start()
        return [broker_outage(cluster, lambda m: m.kill(), lambda m: m.start()) for _ in range(kills)]


def bench_failover(kills=int(os.environ.get("KILLS", 100)), etcd_every=5):
    """Both clusters stay up; etcd's turn, which takes seconds, comes at every fifth of the broker's."""
    outages_begin()
    for members in (3, 5):
        ours, theirs = [], []
        with Cluster(members=members, policy=QUIET) as cluster, peer.Etcd(members) as etcd:
            cluster.start()
            for i in range(kills):
                if i % etcd_every == 0:
                    theirs.append(etcd_outage(etcd, lambda m: m.kill(), lambda m: m.start()))
                ours.append(broker_outage(cluster, lambda m: m.kill(), lambda m: m.start()))
        promised(f"p99 ms of a failover, {members} members", table_row(f"SIGKILL, broker, {members}", ours))
        table_row(f"SIGKILL, etcd, {members}", theirs)


def bench_failover_hang(stops=20):
    """Both clusters stay up and take turns."""
    def stop(member):
        os.kill(member.process.pid, signal.SIGSTOP)

    def resume(member):
        os.kill(member.process.pid, signal.SIGCONT)
    outages_begin()
    for members in (3, 5):
        ours, theirs = [], []
        with Cluster(members=members, policy=QUIET) as cluster, peer.Etcd(members, pre_vote=True) as etcd:
            cluster.start()
            for _ in range(stops):
                ours.append(broker_outage(cluster, stop, resume))
                theirs.append(etcd_outage(etcd, stop, resume))
        table_row(f"SIGSTOP, broker, {members}", ours)
        table_row(f"SIGSTOP, etcd pre-vote, {members}", theirs)
        promised(f"median outage by a leader that hangs, {members} members, times etcd's", statistics.median(ours) / statistics.median(theirs))


def caught_up(cluster):
    status = cluster.client.operator("Status", operator_pb2.StatusRequest())
    return len([m for m in status.members if m.reachable]) == len(cluster.members) and all(m.lag_entries < 5 for m in status.members)


def bench_evaluation():
    print("evaluation, cold cache, one thread\nallocations  verdicts ms  with terms ms  read-once ms   ratio of verdicts")
    for line in subprocess.run([str(BUILD / "bench" / "eval")], capture_output=True, text=True, check=True).stdout.splitlines():
        row = json.loads(line)
        print("%11d %12.3f %14.3f %13.3f %19.2f" % tuple(row[k] for k in (
            "allocations", "decide_ms", "score_ms", "read_ms", "decide_over_read")), flush=True)


def resident_mib(member):
    for line in pathlib.Path(f"/proc/{member.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


class Sleeper:
    """A process that only sleeps 20 ms at a time: how late this machine makes one, beside the loops."""

    PROGRAM = ("import sys, threading, time\nworst = 0\nthreading.Thread(target=lambda: (sys.stdin.read(), done.append(1))).start()\n"
               "done = []\nwhile not done:\n    began = time.monotonic()\n    time.sleep(.02)\n"
               "    worst = max(worst, time.monotonic() - began - .02)\nprint(worst * 1000)\n")

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", self.PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.worst_ms = float(self.process.communicate("")[0])


def evaluation_ms(leader, cycles=3):
    name = "ckpt_evaluation_duration_seconds"
    sum_before, count_before = metric(leader.http, f"{name}_sum"), metric(leader.http, f"{name}_count")
    wait_until("evaluations", lambda: metric(leader.http, f"{name}_count") >= count_before + cycles, 120, 0.2)
    return (metric(leader.http, f"{name}_sum") - sum_before) / (metric(leader.http, f"{name}_count") - count_before) * 1000


def longest_turn_ms(cluster, name):
    return max(metric(m.http, name) for m in cluster.members if m.running()) * 1000


def started_ms(cluster, member):
    """From the start of the process until it serves reads, and until it lacks nothing the leader has."""
    began = time.monotonic()
    member.start(wait=False)
    wait_until("the member is ready", lambda: http_status(member.http, "/readyz") == 200, 120, 0.005)
    ready = time.monotonic()
    wait_until("the member caught up", lambda: caught_up(cluster), 120, 0.02)
    return (ready - began) * 1000, (time.monotonic() - began) * 1000


def follower_of(cluster, leader):
    return next(m for m in cluster.members if m is not leader)


def fill(cluster, count):
    """Until so many allocations are there; the leader may change when this machine is busy with other things."""
    while True:
        leader = cluster.wait_leader()
        missing = count - int(metric(leader.http, "ckpt_allocations") or 0)
        if missing <= 0:
            return leader
        arguments = load_arguments(leader.api, 256, 600, missing)
        subprocess.run(arguments, capture_output=True)
        start_all(cluster, arguments[4], missing)


def start_all(cluster, prefix, count):
    """Their applications run, or nothing is decided about them; the leader may change, and who started is told again."""
    while subprocess.run([str(BUILD / "bench" / "starts"), cluster.wait_leader().api, prefix, str(count)]).returncode != 0:
        time.sleep(0.5)


def registered(cluster, count):
    """So many allocations by one run of the load, and started; their prefix. Few are in flight: more than RECORDS_PER_S would be refused."""
    prefix = uuid.uuid4().hex[:12]
    subprocess.run([str(BUILD / "bench" / "load"), cluster.wait_leader().api, "24", "600", prefix, str(count)], capture_output=True, check=True)
    start_all(cluster, prefix, count)
    return prefix


def scale_row(cluster, leader, count):
    follower = follower_of(cluster, leader)
    wait_until("followers applied it", lambda: caught_up(cluster), 120)
    evaluated = evaluation_ms(leader)
    memory = max(resident_mib(m) for m in cluster.members)
    turns = [longest_turn_ms(cluster, f"ckpt_loop_lag_{kind}max_seconds") for kind in ("", "cpu_")]
    snapshot = max(metric(m.http, "ckpt_raft_snapshot_duration_seconds") or 0 for m in cluster.members) * 1000
    follower.kill()
    ready, caught = started_ms(cluster, follower)
    if count == 1000000:
        promised("ms of own work in a turn of the loop at 1,000,000", turns[1])
        promised("ms from the start of a member with 1,000,000 until it serves", ready)
    print("%11d %12.1f %12.0f %15.0f %15.0f %15.0f %12.0f %12.0f" % (count, evaluated, snapshot, turns[0], turns[1], memory, ready, caught),
          flush=True)


def fire_with_period(cluster, leader, count):
    """So many of the allocations get a declared period that has passed: they fire in the next cycle, once, as nobody writes."""
    page, token = [], ""
    while len(page) < count:
        reply = cluster.client.broker("ListAllocations", broker_pb2.ListAllocationsRequest(page_size=1000, page_token=token), timeout_s=30)
        page += [a.spec.allocation_id for a in reply.allocations if not a.active_checkpoint_id]
        token = reply.next_page_token
        if not token:
            break
    with grpc.insecure_channel(leader.api) as channel:
        stub = broker_pb2_grpc.BrokerServiceStub(channel)
        asked = [stub.UpdateAllocation.future(broker_pb2.UpdateAllocationRequest(
            request_id=uuid.uuid4().hex, allocation_id=a, period_ms=1), timeout=60) for a in page[:count]]
        for one in asked:
            one.result()


def processor_ms(member):
    threads = pathlib.Path(f"/proc/{member.process.pid}/task").iterdir()
    return sum(int((t / "schedstat").read_text().split()[0]) for t in threads) / 1e6


def written_mib(member):
    fields = dict(line.split(": ") for line in pathlib.Path(f"/proc/{member.process.pid}/io").read_text().splitlines())
    return int(fields["write_bytes"]) / (1 << 20)


class Usage:
    """Processor time and bytes written of a member, looked at all the time, so that a cycle can be told from what was just before it."""

    def __init__(self, member):
        self.member, self.samples, self.done = member, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.done.wait(0.02):
            self.samples.append((time.monotonic(), processor_ms(self.member), written_mib(self.member)))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def at(self, instant):
        return min(self.samples, key=lambda sample: abs(sample[0] - instant))

    def between(self, began, ended, idle_s=5):
        """Processor ms from begin to end, less what the member took in the same time just before; MiB written."""
        before, first, last = self.at(began - idle_s), self.at(began), self.at(ended)
        idle = (first[1] - before[1]) / max(first[0] - before[0], 1)
        return last[1] - first[1] - idle * (last[0] - first[0]), last[2] - first[2]


def set_policy(cluster, **values):
    cluster.client.operator("SetPolicy", operator_pb2.SetPolicyRequest(request_id=uuid.uuid4().hex, policy=common_pb2.Policy(**values)))


def cycle_row(cluster, what, arrange, settle_s=8):
    """One cycle from its begin until its last decision is committed and applied on the leader; again if the leader changes meanwhile. None begins
    while what it will find is arranged: the next one is an hour away, and then overdue."""
    name, fires, poll_s = "ckpt_evaluation_cycle_seconds", 'ckpt_evaluations_total{decision="checkpoint"', 0.1
    while True:
        leader = cluster.wait_leader()
        read = lambda: [metric(leader.http, n) or 0 for n in (f"{name}_count", f"{name}_sum", "ckpt_evaluation_duration_seconds_sum")]  # noqa: E731
        try:
            wait_until("a cycle", lambda c=metric(leader.http, f"{name}_count") or 0: (metric(leader.http, f"{name}_count") or 0) > c, 150, 1)
            set_policy(cluster, evaluation_interval_ms=3600000)
            arrange(leader)
            before, fired, waiting = read(), fired_count(leader, fires), fired_count(leader, WAITING)
            with Usage(leader) as usage:
                time.sleep(settle_s)
                set_policy(cluster, evaluation_interval_ms=CYCLE_MS)
                wait_until("a cycle with decisions", lambda: fired_count(leader, fires) > fired, 300, poll_s)
                ended = time.monotonic()
                time.sleep(poll_s)
        except TimeoutError:
            if leader is cluster.wait_leader():
                raise
            continue
        count, seconds, own = (a - b for a, b in zip(read(), before))
        processor, written = usage.between(ended - seconds / count - 3 * poll_s, ended)
        turn = metric(leader.http, "ckpt_loop_lag_cpu_max_seconds") * 1000
        print(f"{what:>32} {fired_count(leader, fires) - fired:8.0f} {fired_count(leader, WAITING) - waiting:8.0f} {seconds / count * 1000:9.0f} "
              f"{own / count * 1000:13.0f} {processor:13.0f} {written:12.1f} {turn:16.0f}{'' if count == 1 else f'   (mean of {count:.0f} cycles)'}", flush=True)
        return


WAITING = 'ckpt_evaluations_total{decision="skip",reason="waits_for_bandwidth"'


def fired_count(leader, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in http_get(leader.http, "/metrics")[1].splitlines() if line.startswith(name))


def put_target(cluster, bytes_per_s):
    spec = cluster.client.operator("ListTargets", operator_pb2.ListTargetsRequest()).targets[0].spec
    spec.write_bytes_per_s, spec.staging_share_ppm = bytes_per_s, 0
    cluster.client.operator("PutTarget", operator_pb2.PutTargetRequest(request_id=uuid.uuid4().hex, spec=spec))


def all_fire(cluster, leader, prefix, count, bytes_per_s):
    """Each allocation gets a declared period that has passed."""
    put_target(cluster, bytes_per_s)
    subprocess.run(load_arguments(leader.api, 1000, 600, count) + [prefix, str(count), "1"], capture_output=True, check=True)


CYCLE_MS = 60000


def bench_cycle(count=1000000):
    """Propose to commit: decisions of one cycle over a million allocations, a few, and the worst case."""
    print(f"three replicas on one machine, {count} allocations: one evaluation cycle until its last decision is committed and applied\n"
          "Processor: of the leader, without what it takes between cycles. Written: log and snapshots. Longest turn: own work, since the start.\n"
          "                            what    fires    wait  cycle ms  loop time ms  processor ms  written MiB  longest turn ms")
    policy = {**SILENT, "evaluation_interval": f"{CYCLE_MS}ms", "min_interval": "1ms", "max_interval": "365d"}
    unlimited, usual = 10**15, 200 * 10**9  # bytes/s: room for every checkpoint at once; a large file system
    with Cluster(policy=policy, target={"write_bytes_per_s": unlimited, "staging_share_ppm": 0}) as cluster:
        cluster.start()
        prefix = registered(cluster, count)
        # 120: a 30 s cycle where each allocation fires once an hour
        cycle_row(cluster, "one in 120", lambda leader: fire_with_period(cluster, leader, count // 120))
        cycle_row(cluster, "one in 24", lambda leader: fire_with_period(cluster, leader, count // 24))
        cycle_row(cluster, "all, storage of 200 GB/s", lambda leader: all_fire(cluster, leader, prefix, count, usual))
        cycle_row(cluster, "all, room for all", lambda _: put_target(cluster, unlimited))


def lagging_row(cluster, leader):
    """A follower is away until the log it lacks is gone, and comes back under load."""
    away = follower_of(cluster, leader)
    before = load(leader.api, 64, 5)
    away.kill()
    taken = metric(leader.http, "ckpt_raft_snapshots_total")
    while metric(leader.http, "ckpt_raft_snapshots_total") < taken + 2:
        subprocess.run(load_arguments(leader.api, 256, 5), capture_output=True)
        leader = cluster.wait_leader()
    changes = metric(leader.http, "ckpt_raft_leader_changes_total")
    running = subprocess.Popen(load_arguments(leader.api, 64, 3600), stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    away.start(wait=False)
    wait_until("it caught up by a snapshot", lambda: (metric(away.http, "ckpt_raft_snapshots_total") or 0) > 0, 120, 0.05)
    installed = time.monotonic() - began
    running.send_signal(signal.SIGINT)
    during = json.loads(running.communicate()[0])  # stands still when the leader changes: "failed" tells
    wait_until("it lacks nothing", lambda: caught_up(cluster), 120, 0.05)
    print(f"a member that was away until its log was gone: snapshot installed after {installed:.1f} s, nothing lacking after "
          f"{time.monotonic() - began:.1f} s\nwrites by 64 clients before: {before['per_s']:.0f}/s, p50 {before['p50_us']} us, "
          f"p99 {before['p99_us']} us, max {before['max_us']} us; meanwhile: {during['per_s']:.0f}/s, p50 {during['p50_us']} us, "
          f"p99 {during['p99_us']} us, max {during['max_us']} us, failed {during['failed']} {during['failure']}\nchanges of the leader meanwhile: "
          f"{metric(leader.http, 'ckpt_raft_leader_changes_total') - changes:.0f}; longest turn of the member's loop: "
          f"{metric(away.http, 'ckpt_loop_lag_max_seconds') * 1000:.0f} ms, "
          f"{metric(away.http, 'ckpt_loop_lag_cpu_max_seconds') * 1000:.0f} ms of it its own work", flush=True)


def records_row(cluster, prefix, count, commits):
    """Processor time of the leader for each commit, with all that is done meanwhile, in us: from one snapshot to another.
    As many request ids as can be are remembered from the beginning, as on any busy cluster: few records or many, each new id takes an old one's place."""
    leader, rates = cluster.wait_leader(), []

    def read():
        return processor_ms(leader), metric(leader.http, "ckpt_raft_snapshots_total") or 0

    def burst():
        began = time.monotonic()
        arguments = load_arguments(leader.api, 1000, 600, commits) + [prefix, str(count)]
        rates.append(json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)["per_s"])
        time.sleep(max(0, commits / RECORDS_PER_S - (time.monotonic() - began)))

    def until_a_snapshot(first):
        while read()[1] == first:
            burst()
    while metric(leader.http, "ckpt_request_ids") < REQUEST_IDS:
        burst()
    until_a_snapshot(read()[1])
    before = read()
    rates.clear()
    while len(rates) < RECORDS_RUNS:
        until_a_snapshot(read()[1])
    used, snapshots = (after - first for after, first in zip(read(), before))
    commits *= len(rates)
    print("%11d %11.0f %15.2f %10d %10.0f" % (count, statistics.median(rates), used / commits * 1000, commits, snapshots),
          flush=True)
    return used / commits


RECORDS_RUNS, RECORDS_PER_S, REQUEST_IDS = 8, 50000, 1000000  # request ids of 15 s, in bursts, must not be more than are remembered


def bench_records(counts=(100000, 1900000), commits=200000):
    """What a commit costs must not follow from how much is remembered; whole times between two snapshots, which are far apart when that is much. Nothing
    is evaluated meanwhile: that goes by time, so that the fewer commits a busy machine gets done, the more of it would fall on each."""
    print("three replicas on one machine; updates of allocations by 1000 clients, in no order; processor time of the leader, snapshots included\n"
          "allocations   commits/s   us per commit    commits  snapshots")
    policy = {**SILENT, "evaluation_interval": "1h"}
    costs = []
    for count in counts:
        with Cluster(policy=policy, timers={"election_ms": 10000}) as cluster:  # what is measured is one leader's
            cluster.start()
            costs.append(records_row(cluster, registered(cluster, count), count, commits))
    print("a commit with %d allocations costs %.2f times as much as with %d" % (counts[-1], costs[-1] / costs[0], counts[0]))
    promised("processor time of a commit, many records by few", costs[-1] / costs[0])


def bench_scale():
    print("three replicas on one machine; 256 clients register, probes every second, an evaluation every 10 s, snapshots each 32 MiB of log.\n"
          "Turns: the longest of any member's loop since its start, and how much of it was the loop's own work (processor time).\n"
          "allocations  evaluate ms  snapshot ms  longest turn ms  own work ms   resident MiB     ready ms   caught up ms")
    with Cluster(policy={**SILENT, "evaluation_interval": "10s"}, storage_watch={"interval_ms": 1000}, raft={"snapshot_after_bytes": 32 << 20}) as cluster, \
            Sleeper() as sleeper:
        cluster.start()
        for count in (1000, 100000, 1000000):
            scale_row(cluster, fill(cluster, count), count)
        lagging_row(cluster, cluster.wait_leader())
    print(f"a process that only sleeps was late by up to {sleeper.worst_ms:.0f} ms in the same time")


def bench_failover_tls(kills=50):
    outages_begin()
    promised("p99 ms of a failover, 3 members", table_row("SIGKILL, broker, 3, TLS", broker_kills(3, kills, True)))


BENCHES = {"commits": bench_commits, "commits_tls": lambda: bench_commits(True), "crowd": bench_crowd, "failover": bench_failover,
           "failover_hang": bench_failover_hang, "failover_tls": bench_failover_tls, "evaluation": bench_evaluation,
           "records": bench_records, "scale": bench_scale, "cycle": bench_cycle}

if __name__ == "__main__":
    load_before = os.getloadavg()
    for name in sys.argv[1:] or BENCHES:
        (bench_beside if name == "beside" else BENCHES[name])()
    if missed:
        print("load averages of this machine with %d cores: %s before, %s after; what is not a ratio needs an idle one" % (
            os.cpu_count(), *("%.1f" % load[0] for load in (load_before, os.getloadavg()))))
    sys.exit("\n".join(missed) or 0)
