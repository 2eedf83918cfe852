#!/usr/bin/python3
"""Metrics for certificates alone: health stays for everybody, the rest is told by kind of certificate, a refusal says what to do, and a real
Prometheus scrapes with the configuration in deploy/. K-010."""
import json
import pathlib
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, ROOT, Cluster, free_port, http_get, http_status, metric, often, tap, wait_until  # noqa: E402


def secured(cluster):
    """Each member gets an https address; returns them by name."""
    found, lines = {}, []
    for line in cluster.config.read_text().splitlines(True):
        for member in cluster.members:
            if f"name: {member.name}," in line:
                found[member.name] = f"127.0.0.1:{free_port()}"
                line = line.replace(f'http: "{member.http}"', f'http: "{member.http}", https: "{found[member.name]}"')
        lines.append(line)
    cluster.config.write_text("".join(lines))
    return found


def curl(cluster, *urls, stem=None, site=None):
    """The exit code, the statuses and the bodies of one curl, which keeps its connection."""
    site = site or cluster.site
    shown = ["--cert", str(site.cert(stem)), "--key", str(site.key(stem))] if stem else []
    answer = subprocess.run(["curl", "-sS", "--cacert", str(cluster.site.ca), *shown, "-w", "\n%{http_code}\n", *urls],
                            capture_output=True, text=True, timeout=30)
    return answer.returncode, answer.stdout, answer.stderr


def pages_are_for_certificates_and_health_for_everybody():
    with Cluster(members=1, agents=("a",), tls=True) as cluster:
        member = cluster.members[0]
        address = secured(cluster)[member.name]
        cluster.start()
        cluster.wait_leader()
        for page in ("/healthz", "/livez", "/readyz", "/leader"):
            assert http_status(member.http, page) == 200, page
        for page in ("/metrics", "/"):
            status, body = http_get(member.http, page)[:2]
            assert status == 403 and f"https://{address}" in body and "monitor, auditor, operator or replica" in body, (status, body)
        monitor = cluster.site.issue("monitor", "prometheus")
        metrics, health = f"https://{address}/metrics", f"https://{address}/healthz"
        for stem in (monitor, "operator-test", cluster.site.issue("auditor", "eve"), "replica-1"):
            code, out, error = curl(cluster, metrics, health, metrics, stem=stem)
            assert code == 0 and out.count("\n200\n") == 3 and out.count("\nckpt_audit_records_total") >= 2, (stem, code, error, out[-300:])
        for stem in ("agent-a", "scheduler-test"):  # known, and nothing of this is theirs
            code, out, error = curl(cluster, metrics, health, stem=stem)
            assert code == 0 and "\n403\n" in out and "\n200\n" in out and "certificates of kind monitor" in out and "ckpt_" not in out, out
        code, out, error = curl(cluster, metrics)
        assert code != 0 and "ckpt_" not in out, (code, out)
        wait_until("it is told", lambda: "port=http" in member.log.read_text(), 10)
        stranger = type(cluster.site)(cluster.dir / "other", BIN / "ckptctl")
        code, out, error = curl(cluster, metrics, stem=stranger.issue("operator", "eve"), site=stranger)
        assert code != 0 and "ckpt_" not in out, (code, out)
        # a monitor's certificate is for this alone
        refused = cluster.ctl("status", check=False, tls=cluster.site.arguments(monitor))
        assert refused.returncode == 7 and "ckpt://demo/monitor/prometheus may not call" in refused.stderr, refused
        cluster.ctl("tls", "revoke", str(cluster.site.cert(monitor)), "--yes")
        code, out, error = curl(cluster, metrics, stem=monitor)
        assert code != 0 and "ckpt_" not in out, (code, out)
        assert curl(cluster, metrics, stem="operator-test")[0] == 0


def many_at_a_time_and_ones_that_say_nothing_end():
    """Peers that connect and wait do not keep others out for long, and the member serves on."""
    import socket
    with Cluster(members=1, tls=True) as cluster:
        member = cluster.members[0]
        address = secured(cluster)[member.name]
        cluster.start()
        cluster.wait_leader()
        host, port = address.split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(often(40, 400))]
        wait_until("others are let in", lambda: curl(cluster, f"https://{address}/metrics", stem="operator-test")[0] == 0, 20)
        for _ in range(3):  # more of them come all the time
            silent += [socket.create_connection((host, int(port))) for _ in range(64)]
            assert curl(cluster, f"https://{address}/metrics", stem="operator-test")[0] == 0
        for peer in silent:
            peer.close()
        running = [subprocess.Popen(["curl", "-sS", "--cacert", str(cluster.site.ca), "--cert", str(cluster.site.cert("operator-test")), "--key",
                                     str(cluster.site.key("operator-test")), f"https://{address}/metrics"], stdout=subprocess.PIPE) for _ in range(16)]
        bodies = [p.communicate(timeout=60)[0] for p in running]
        assert all(b"ckpt_audit_records_total" in body for body in bodies), [len(body) for body in bodies]
        assert http_status(member.http, "/healthz") == 200


def a_prometheus_scrapes_with_the_configuration_in_deploy():
    with Cluster(members=1, tls=True) as cluster:
        member = cluster.members[0]
        address = secured(cluster)[member.name]
        cluster.start()
        cluster.wait_leader()
        monitor = cluster.site.issue("monitor", "prometheus")
        text = (ROOT / "deploy" / "prometheus" / "scrape.yml").read_text()
        for was, now in (("/etc/prometheus/ckpt/ca.crt", cluster.site.ca), ("/etc/prometheus/ckpt/monitor-prometheus.crt", cluster.site.cert(monitor)),
                         ("/etc/prometheus/ckpt/monitor-prometheus.key", cluster.site.key(monitor)), ("server_name: hpc", "server_name: demo"),
                         ('"10.0.0.1:9105", "10.0.0.2:9105", "10.0.0.3:9105"', f'"{address}"')):
            assert was in text, was
            text = text.replace(was, str(now))
        config, web = cluster.dir / "prometheus.yml", f"127.0.0.1:{free_port()}"
        config.write_text("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n" + text)
        with open(cluster.dir / "prometheus.log", "wb") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={cluster.dir}/tsdb", f"--web.listen-address={web}"],
                                       stdout=log, stderr=log)
        try:
            def scraped():
                try:
                    with urllib.request.urlopen(f"http://{web}/api/v1/query?query=ckpt_audit_records_total", timeout=2) as answer:
                        return len(json.load(answer)["data"]["result"]) > 0
                except OSError:
                    return False
            wait_until("it has scraped", scraped, 30, 0.2)
        finally:
            process.terminate()
            process.wait(20)
        assert metric(member.http, "ckpt_audit_records_total") is None  # as everybody sees it


if __name__ == "__main__":
    tap([pages_are_for_certificates_and_health_for_everybody, many_at_a_time_and_ones_that_say_nothing_end,
         a_prometheus_scrapes_with_the_configuration_in_deploy])
