#!/usr/bin/python3
"""Names of members: an own name that is a loopback address beside members on other hosts is refused with what helps, ports may be bound
elsewhere than the others are told, and who does not answer is told with the address that its name stands for. V-022, U3."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, tap, wait_until  # noqa: E402

# Debian's default on n1, and what a name server would say of the others
HOSTS = "127.0.0.1 localhost\n127.0.1.1 n1.example n1\n192.0.2.2 n2.example n2\n192.0.2.3 n3.example n3\n"


def started(member):
    lines = [line for line in member.log.read_text().splitlines() if "event=started" in line]
    return lines[-1] if lines else ""


def an_own_name_on_loopback_is_refused_beside_other_hosts():
    if os.geteuid() != 0:
        return "an /etc/hosts of its own needs root"
    with Cluster(members=1) as cluster:
        member, hosts = cluster.members[0], cluster.dir / "hosts"
        hosts.write_text(HOSTS)
        member.prefix = ["unshare", "-m", "sh", "-c", f'mount --bind "{hosts}" /etc/hosts && exec "$@"', "sh"]
        member.extra = ["--insecure"]
        text = cluster.config.read_text()
        raft, api = (re.search(rf'{key}: "127.0.0.1:(\d+)"', text)[1] for key in ("raft", "api"))
        text = text.replace(f'raft: "127.0.0.1:{raft}", api: "127.0.0.1:{api}"', f'raft: "n1:{raft}", api: "n1:{api}"')
        others = "".join(f'  - {{id: {i}, name: n{i}, raft: "n{i}:9000", api: "n{i}:7443"}}\n' for i in (2, 3))
        cluster.config.write_text(text.replace("targets:\n", others + "targets:\n", 1) if others in text else
                                  re.sub(r"(  - \{id: 1, name: n1, .*\}\n)", lambda m: m[1] + others, text))
        try:
            member.start()
            raise AssertionError(started(member))
        except RuntimeError as error:
            said = str(error)
        assert f"raft of n1 is n1:{raft}, which is 127.0.1.1 here: a loopback address, where n2 at n2:9000 cannot reach it" in said, said
        assert "/etc/hosts" in said and "`listen`" in said, said
        check = subprocess.run([*member.prefix, BIN / "ckptd", "--config", cluster.config, "--name", "n1", "--insecure", "--check-config"],
                               capture_output=True, text=True)
        assert check.returncode == member.process.returncode == 2 and "which is 127.0.1.1 here" in check.stderr, (check, said)
        # as the text says
        cluster.config.write_text(cluster.config.read_text().replace("id: 1, name: n1,", "id: 1, name: n1, listen: 0.0.0.0,"))
        member.started_before = False
        member.start()
        wait_until("it has started", lambda: started(member), 5)
        assert f" raft=n1:{raft} " in started(member) and f" raft_bound=0.0.0.0:{raft} " in started(member), started(member)
        assert f" api_bound=0.0.0.0:{api} " in started(member), started(member)
    return None


def members_listen_elsewhere_than_they_are_reached():
    """The others and clients are told names; the ports are bound on all interfaces."""
    with Cluster() as cluster:
        text = re.sub(r'(raft|api): "127\.0\.0\.1:', r'\1: "localhost:', cluster.config.read_text())
        cluster.config.write_text("insecure: yes\n" + re.sub(r"(id: \d+, name: n\d+),", r'\1, listen: "0.0.0.0",', text))
        cluster.start()
        endpoints = ",".join("localhost:" + m.api.split(":")[1] for m in cluster.members)
        told = cluster.ctl("status", endpoints=endpoints)
        assert "failure tolerance 1" in told.stdout and "does not answer" not in told.stderr, told
        for member in cluster.members:
            port = member.raft.split(":")[1]
            assert f"raft=localhost:{port} " in started(member) and f" raft_bound=0.0.0.0:{port} " in started(member), started(member)
        down = next(m for m in cluster.members if m is not cluster.wait_leader())
        down.kill()
        told = cluster.ctl("status", endpoints=endpoints, check=False)
        wanted = rf"remark: {down.name} does not answer at localhost:{down.api.split(':')[1]} \((127\.0\.0\.1|::1)\): connection refused"
        assert re.search(wanted, told.stderr), told.stderr


def a_wrong_listen_address_is_refused():
    with Cluster(members=1) as cluster:
        before = cluster.config.read_text()
        for value, said in (("10.0.0.1:9000", "must be an address of the host without a port"), ("0.0.0.0", "without TLS everyone"),
                            ("n1.example", "without TLS everyone"), ("[::]", "must be an address of the host without a port")):
            cluster.config.write_text(before.replace("name: n1,", f'name: n1, listen: "{value}",'))
            result = subprocess.run([BIN / "ckptd", "--config", cluster.config, "--check-config"], capture_output=True, text=True)
            assert result.returncode == 2 and said in result.stderr and "listen" in result.stderr, (value, result)


if __name__ == "__main__":
    sys.exit(tap([an_own_name_on_loopback_is_refused_beside_other_hosts, members_listen_elsewhere_than_they_are_reached,
                  a_wrong_listen_address_is_refused]))
