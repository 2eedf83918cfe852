"""Figures beside a peer: both sides by turns in one run, on a machine that both have warmed.

Flow    touch_free_memory() once; by_turns() runs both sides unmeasured and then so many rounds, and changes each round which one goes first; row() prints
        what the pairs say. A side is a function that gives a Cost.
Shapes  pairs in which the system time of either side is odd are left out: a machine that was given memory, or wrote back what somebody else wrote, is
        what was measured there. Odd: over ODD times the side's median or below the ODDth part of it, and by more than ODD_LEAST_S.
Errors  of a row that lost more than half of its pairs all are taken, and it says so.
"""
import mmap
import os
import resource
import statistics
import subprocess
import sys
import time

ODD, ODD_LEAST_S = 2, 0.1
SPARED_BYTES = 2 << 30
COLUMNS = ("what", "peer", "ours", "peer's", "ratio", "least", "most", "rounds kept", "load", "processor s, ours", "processor s, peer's")


class Cost:
    """Seconds by the wall, of processors, and of these in the kernel, of one program and its children."""

    def __init__(self, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        result = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
        self.wall_s = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.system_s = after.ru_stime - before.ru_stime
        self.cpu_s = after.ru_utime - before.ru_utime + self.system_s
        assert result.returncode == 0, (arguments, result.stderr)
        self.out = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)


def touch_free_memory():
    """A machine whose memory is given to it at its first touch, as a virtual one's, would charge that to whoever comes first."""
    with open("/proc/meminfo") as lines:
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemFree"))
    if free <= 2 * SPARED_BYTES:
        return
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        return
    block = bytes(1 << 20)
    with mmap.mmap(-1, (free - SPARED_BYTES) >> 20 << 20) as memory:
        for at in range(0, len(memory), len(block)):
            memory[at:at + len(block)] = block
    os._exit(0)


def by_turns(rounds, *sides, warm=True):
    """[(ours, peer's, another peer's ...)], one a round."""
    found = []
    for i in range(-1 if warm else 0, rounds):
        order = list(range(len(sides)))
        if i % 2:
            order.reverse()
        costs = {k: sides[k]() for k in order}
        if i >= 0:
            found.append(tuple(costs[k] for k in range(len(sides))))
    return found


def is_odd(cost, median_s):
    apart_s = abs(cost.system_s - median_s)
    return apart_s > ODD_LEAST_S and not median_s / ODD <= cost.system_s <= median_s * ODD


def kept(pairs):
    medians = [statistics.median(cost.system_s for cost in side) for side in zip(*pairs)]
    found = [pair for pair in pairs if not any(is_odd(cost, median) for cost, median in zip(pair, medians))]
    return found if 2 * len(found) > len(pairs) else pairs


def head():
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)


def row(what, peer, pairs, size=None, better="less"):
    """The median of the pairs' ratios. size: of what is moved, told as MB/s; better "more": the ratio is of speeds."""
    counted = kept(pairs)
    ours, theirs = zip(*counted)
    ratios = [a.wall_s / b.wall_s if better == "less" else b.wall_s / a.wall_s for a, b in counted]

    def said(costs):
        wall_s = statistics.median(cost.wall_s for cost in costs)
        return f"{size / wall_s / 1e6:,.0f} MB/s" if size else f"{wall_s:.2f} s"
    rounds = f"{len(counted)} of {len(pairs)}"
    if counted is pairs and any(is_odd(c, statistics.median(x.system_s for x in side)) for side in zip(*pairs) for c in side):
        rounds += ", odd ones among them"
    cells = [what, peer, said(ours), said(theirs), f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", rounds,
             f"{os.getloadavg()[0]:.0f}", *(f"{statistics.median(cost.cpu_s for cost in side):.1f}" for side in (ours, theirs))]
    print(f"| {' | '.join(cells)} |", flush=True)
    return statistics.median(ratios)


def faster_peer(rows, names):
    """Of [(ours, a peer's, another's ...)]: the pairs with the fastest peer, and its name."""
    fastest = min(range(1, len(rows[0])), key=lambda k: statistics.median(costs[k].wall_s for costs in rows))
    return [(costs[0], costs[fastest]) for costs in rows], names[fastest - 1]


def tell_missed(missed):
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if missed else 0
