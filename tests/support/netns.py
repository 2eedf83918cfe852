"""A network of real interfaces for the members of a cluster: one namespace each, joined by a bridge, with filters that break it.

Flow    Network(cluster) moves the members' addresses into namespaces before the cluster starts (the program runs under isolate.py, so
        everything ends with it). cut() and the rest add rules of nftables where the packets arrive; heal() removes all rules.
Shapes  members are 10.77.0.<id>, nodes 10.77.0.101 and so on, the test and its clients 10.77.0.254: clients reach members that are cut off from each other.
Absent  delay where the kernel has no netem: can_delay() says so.
"""
import functools
import re
import subprocess
import sys

from cluster import Client
from isolate import die_with_parent

SUBNET = "10.77.0"
RULES = ("add table inet faults; add chain inet faults in { type filter hook input priority 0 ; }; "
         "add chain inet faults out { type filter hook output priority 0 ; }")


def run(*command, prefix=()):
    result = subprocess.run([*prefix, *command], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{command[0]}: {result.stderr.strip()} ({' '.join([*prefix, *command])})")
    return result.stdout


@functools.lru_cache
def refused():
    """Why there can be no network here, or None."""
    try:
        run("unshare", "--net", "sh", "-e", "-c", f"ip link add br0 type bridge; ip link add p0 type veth peer name p1; nft '{RULES}'; "
            "nft add rule inet faults in numgen random mod 100 '<' 10 drop; ip link set lo up; tc qdisc add dev lo root tbf rate 4mbit burst 16kb "
            "latency 200ms")
        return None
    except RuntimeError as error:
        return f"this kernel lacks a part of the network: {error}"


def can_delay():
    """Whether the kernel can delay packets."""
    return subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "0ms"], capture_output=True).returncode == 0 and (
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True).returncode == 0)


class Network:
    def __init__(self, cluster, raft=None, policy=None):
        self.members, self.holders, self.nodes = cluster.members, [], []
        for command in ("link add br0 type bridge", "link set br0 up", f"addr add {SUBNET}.254/24 dev br0"):
            run("ip", *command.split())
        for member in cluster.members:
            self._place(member)
        cluster.write_config(policy or {}, {}, {}, {}, raft or {})
        cluster.config.write_text("insecure: yes\n" + cluster.config.read_text())
        cluster.client.close()
        cluster.client = Client([m.api for m in cluster.members])

    def place_nodes(self, cluster):
        """Each agent on a host of its own, 10.77.0.101 and so on. Before the cluster starts; what listens there is nothing, so that its
        kernel refuses whoever tries port 22."""
        cluster.agent_config.write_text(re.sub(r'brokers: .*', f"brokers: \"{','.join(m.api for m in self.members)}\"\ninsecure: yes",
                                               cluster.agent_config.read_text()))
        for number, agent in enumerate(cluster.agents.values(), 101):
            agent.id, agent.address = number, f"{SUBNET}.{number}"
            self.nodes.append(agent)
            self._enter(agent)

    def power_off(self, agent):
        """The host is gone with its addresses; kill what runs there before."""
        run("ip", "link", "del", f"v{agent.id}")

    def power_on(self, agent):
        """The same host, after a boot: its namespace was there all the time."""
        self._link(agent)

    def _place(self, member):
        self._enter(member)
        member.raft, member.api, member.http = (f"{SUBNET}.{member.id}:{port}" for port in (9000, 7443, 9104))

    def _enter(self, member):
        holder = subprocess.Popen(["unshare", "--net", sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self.holders.append(holder)
        holder.stdout.readline()  # now it is in its namespace
        member.prefix = ["nsenter", "-t", str(holder.pid), "-n"]
        member.holder = holder
        self._link(member)
        run("nft", RULES, prefix=member.prefix)

    def _link(self, member):
        holder = member.holder
        run("ip", "link", "add", f"v{member.id}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "link", "set", f"v{member.id}", "master", "br0", "up")
        for command in (f"addr add {SUBNET}.{member.id}/24 dev eth0", "link set eth0 up", "link set lo up"):
            run("ip", *command.split(), prefix=member.prefix)

    def rule(self, member, chain, text):
        run("nft", f"add rule inet faults {chain} {text}", prefix=member.prefix)

    def cut(self, sender, receiver):
        """What the sender sends vanishes; the other way is open."""
        self.rule(receiver, "in", f"ip saddr {SUBNET}.{sender.id} drop")

    def part(self, one, other):
        self.cut(one, other)
        self.cut(other, one)

    def keep(self, joined):
        """Only these pairs of members still reach each other; clients reach all."""
        joined = {frozenset(pair) for pair in joined}
        for one in self.members:
            for other in self.members:
                if one is not other and frozenset((one, other)) not in joined:
                    self.cut(one, other)

    def clog(self, member):
        """No other member reaches it, and it reaches none; heal(member) alone ends it."""
        for other in self.members:
            if other is not member:
                self.rule(member, "in", f"ip saddr {SUBNET}.{other.id} drop")
                self.rule(member, "out", f"ip daddr {SUBNET}.{other.id} drop")

    def dark(self, member):
        """As if its host had lost its power: nothing comes in or goes out, also not the end of its connections."""
        for chain in ("in", "out"):
            self.rule(member, chain, "oifname lo accept" if chain == "out" else "iifname lo accept")
            self.rule(member, chain, "drop")

    def lose(self, member, percent):
        self.rule(member, "in", f"ip saddr {SUBNET}.0/24 numgen random mod 100 < {percent} drop")

    def swallow(self, member, longest):
        """A black hole between it and the other members: packets with more bytes vanish, and nobody is told."""
        for chain, side in (("in", "saddr"), ("out", "daddr")):
            for other in self.members:
                if other is not member:
                    self.rule(member, chain, f"ip {side} {SUBNET}.{other.id} meta length > {longest} drop")

    def forget_connections(self, member):
        """Half-open: packets of its connections of this moment to other members vanish in both directions; new ones are whole.
        Returns how many."""
        found = re.findall(rf"{SUBNET}\.{member.id}:(\d+)\s+{SUBNET}\.([1-9]\d?):(\d+)", run("ss", "-Htn", "state", "established",
                                                                                      prefix=member.prefix))
        for own, peer, port in found:
            self.rule(member, "in", f"ip saddr {SUBNET}.{peer} tcp sport {port} tcp dport {own} drop")
            self.rule(member, "out", f"ip daddr {SUBNET}.{peer} tcp sport {own} tcp dport {port} drop")
        return len(found)

    def slow(self, member, *discipline):
        """A queueing discipline of tc on what the member sends."""
        run("tc", "qdisc", "replace", "dev", "eth0", "root", *discipline, prefix=member.prefix)

    def heal(self, *only):
        """All is whole again, or what arrives at and leaves these members."""
        for member in only or self.members:
            for chain in ("in", "out"):
                run("nft", f"flush chain inet faults {chain}", prefix=member.prefix)
            subprocess.run([*member.prefix, "tc", "qdisc", "del", "dev", "eth0", "root"], capture_output=True)

    def end(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
        for link in (*(f"v{place.id}" for place in (*self.members, *self.nodes)), "br0"):
            subprocess.run(["ip", "link", "del", link], capture_output=True)  # gone already when its namespace was empty
