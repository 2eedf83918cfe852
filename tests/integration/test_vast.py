#!/usr/bin/python3
"""What the management system of a VAST cluster says, against a double that changes while it is read. S1-005, S1-052, S1-061."""
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, metric, tap, wait_until  # noqa: E402
from doubles import Vms, reply  # noqa: E402

POLICY = {"evaluation_interval": "500ms", "min_interval": "1h", "max_interval": "6h", "checkpoint_timeout": "20s", "grace": "1s",
          "quiesce": "1ms", "near_completion": "1s"}
GB = 10**9


class StorageSite:
    """A cluster whose target `scratch`, of 10 GB/s, lives on the system of a VMS."""

    def __init__(self, members=1, vms=None, more="", url="http://{}", interval="500ms"):
        self.cluster = Cluster(members=members, agents=("a",), policy=POLICY, target={"write_bytes_per_s": 10 * GB})
        self.vms = vms or Vms(self.cluster.dir / "vms")
        self.plain_config = self.cluster.config.read_text()
        self.secret("reader:secret")
        self.configure(more, url, interval)

    def secret(self, line):
        path = self.cluster.dir / "vms.secret"
        path.write_text(line + "\n")
        path.chmod(0o600)

    def configure(self, more="", url="http://{}", interval="500ms"):
        insecure = "insecure: yes, " if url.startswith("http://") else ""
        self.cluster.config.write_text(
            self.plain_config + "telemetry:\n"
            f'  - {{name: vms, kind: vast, url: "{url.format(self.vms.address)}", targets: scratch, {insecure}interval: {interval}, '
            f'timeout: 400ms, credentials: "{self.cluster.dir / "vms.secret"}"{more}}}\n')

    def reload(self, **configuration):
        self.configure(**configuration)
        self.cluster.wait_leader().kill(1)  # SIGHUP

    def __enter__(self):
        self.cluster.start()
        return self

    def __exit__(self, *error):
        self.vms.stop()
        self.cluster.__exit__(*error)

    def target(self):
        return json.loads(self.cluster.ctl("targets", "-o", "json").stdout)["targets"][0]

    def number(self, name):
        return int(self.target().get(name, 0))

    def wait_measured(self, bytes_per_s):
        wait_until(f"{bytes_per_s} B/s is measured", lambda: self.number("measured_bytes_per_s") == bytes_per_s, 20, 0.05)

    def wait_polls(self, more):
        """So many polls that began from now on have ended."""
        before = self.polls()
        wait_until("it was polled", lambda: self.polls() > before + more, 30, 0.05)

    def polls(self):
        return metric(self.cluster.wait_leader().http, 'ckpt_telemetry_polls_total{source="vms"}') or 0

    def warnings(self):
        return json.loads(self.cluster.ctl("status", "-o", "json").stdout)["status"]["warnings"]

    def wait_warning(self, words):
        return wait_until(f"the warning '{words}'", lambda: [w for w in self.warnings() if words in w], 20, 0.1)[0]


def the_bandwidth_that_a_vms_measures_is_used_in_the_next_cycle():
    """S1-005, S1-052: throughput changes between cycles, nobody touches the configuration."""
    with StorageSite() as site:
        cluster = site.cluster
        cluster.register("job", [("a", 8, 4 << 20)], write_bytes_per_s=100 * GB)
        cluster.run_job("a", "job", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                     "--output", str(cluster.dir / "result")])

        def bandwidth():
            answer = cluster.ctl("explain", "job", "-o", "json", check=False).stdout
            if not answer:  # not evaluated yet
                return None, None
            explained = json.loads(answer)["explanation"]
            row = next(i for i in explained["inputs"] if i["name"] == "bandwidth_bytes_per_s")
            return float(explained["terms"]["bandwidth_bytes_per_s"]), row

        def used(bytes_per_s):
            return wait_until(f"{bytes_per_s} B/s is used", lambda: bandwidth()[0] == bytes_per_s and bandwidth(), 20, 0.05)[1]

        site.wait_measured(10 * GB)  # 14.5 GB/s, of which next to nothing is written: as much as is configured
        used(7 * GB)                 # the staging of data has its share (D-001)
        for paged, written, left in ((False, 10.5e9, 4 * GB), (True, 12.5e9, 2 * GB), (False, 11.5e9, 3 * GB)):
            site.vms.paged, site.vms.cluster["wr_bw"] = paged, written
            site.wait_measured(left)
            row = used(left)
            assert site.number("budget_bytes_per_s") == left
            assert "scratch, measured by its storage system" in row["source"], row
            label = '{destination="scratch"}'
            assert metric(cluster.wait_leader().http, "ckpt_destination_measured_write_bytes_per_second" + label) == left
        log = cluster.wait_leader().log
        lines = log.read_text().count("event=storage_bandwidth")
        assert lines == 4, log.read_text()
        for noise in (11.6e9, 11.4e9, 11.3e9):  # less than a tenth of 3 GB/s: nothing enters the log
            site.vms.cluster["wr_bw"] = noise
            site.wait_polls(1)
        assert site.number("measured_bytes_per_s") == 3 * GB and log.read_text().count("event=storage_bandwidth") == lines
        site.vms.cluster["wr_bw"] = 40e9  # more than it can: a floor of a twentieth stays
        site.wait_measured(GB // 2)
        site.vms.cluster["wr_bw"] = -5
        site.wait_warning("gives no rate of writes")
        site.wait_measured(0)  # no rate for three intervals: what is configured
        used(7 * GB)
        del site.vms.cluster["max_performance"]
        site.vms.cluster["wr_bw"] = 1e9
        site.wait_warning("set write_limit_bytes_per_s")
        site.reload(more=", write_limit_bytes_per_s: 5000000000")
        site.wait_measured(4 * GB)
        site.vms.stop()
        site.wait_measured(0)
        assert site.target()["available"], "a silent VMS is no outage"
        assert "MEASURED" in cluster.ctl("targets", "-o", "wide").stdout


def a_vms_that_says_offline_takes_the_target_down_and_a_silent_one_does_not():
    """S1-061."""
    with StorageSite() as site:
        site.wait_measured(10 * GB)
        for member, state in (("state", "OFFLINE"), ("nvram_raid_state", "FAILED"), ("state", "FAILED")):
            well, site.vms.cluster[member] = site.vms.cluster[member], state
            wait_until(f"{state} is an outage", lambda: not site.target().get("available"), 20, 0.05)
            target = site.target()
            assert target["detail"] == f"the VMS says that {member} is {state}" and target["reason"].lower().endswith("storage_system_down"), target
            assert metric(site.cluster.wait_leader().http, 'ckpt_destination_up{destination="scratch"}') == 0
            assert "(storage system down)" in site.cluster.ctl("events").stdout
            time.sleep(1)  # five probes, all of them good
            assert not site.target().get("available")
            site.vms.cluster[member] = well
            wait_until(f"{well} ends it", lambda: site.target().get("available"), 20, 0.05)
        site.vms.cluster["ssd_raid_state"] = "REBALANCE"
        site.wait_polls(3)
        assert site.target()["available"]

        def slow(handler):
            time.sleep(3)
            reply(handler, 200, b'[{"state":"OFFLINE"}]')

        changes = site.cluster.wait_leader().log.read_text().count("event=storage_unavailable")
        for words, fault in (("HTTP status 503", lambda handler: site.vms.say(handler, 503, {"detail": "restarting", "code": "x"})),
                             ("HTTP status 502", lambda handler: reply(handler, 502, b"<html>502 Bad Gateway</html>")),
                             ("HTTP status 400", lambda handler: reply(handler, 400, b"bad fields")),
                             ("not JSON", lambda handler: reply(handler, 200, b"<html>starting</html>")),
                             ("has no state", lambda handler: site.vms.say(handler, 200, [{"id": 1}])),
                             ("longer than max_bytes", lambda handler: reply(handler, 200, b" " * (1 << 20))),
                             ("redirects are not followed", lambda handler: reply(handler, 302, b"", Location="http://127.0.0.1:1/")),
                             ("imed out", slow)):
            site.vms.wrong["*"] = fault
            site.reload(more=", max_bytes: 65536")  # the back-off of the last fault ends
            assert "vms fails for 1 of 1" in site.wait_warning(words)
        site.vms.wrong.clear()
        site.vms.stop()
        site.wait_measured(0)
        assert site.target()["available"]
        assert site.cluster.wait_leader().log.read_text().count("event=storage_unavailable") == changes
        site.vms.cluster["state"] = "OFFLINE"
        site.vms.start()
        site.reload()
        wait_until("it speaks again", lambda: not site.target().get("available"), 20, 0.1)
        site.vms.stop()  # silent in an outage: probes alone decide after three intervals
        wait_until("probes decide", lambda: site.target().get("available"), 20, 0.1)


def a_vms_is_asked_with_a_password_a_token_or_a_login_that_expires():
    with StorageSite() as site:
        site.wait_measured(10 * GB)
        assert site.vms.logins == [] and site.vms.requests[-1][2]["Authorization"].startswith("Basic ")
        site.secret("Api-Token api-1234")
        site.vms.cluster["wr_bw"] = 10.5e9
        site.reload()
        site.wait_measured(4 * GB)
        assert site.vms.requests[-1][2]["Authorization"] == "Api-Token api-1234"
        site.secret("Token reader:wrong")
        site.reload()
        site.wait_warning("login: HTTP status 401")
        assert len(site.vms.logins) <= 3, "a wrong password is not tried at once again"
        site.secret("Token reader:secret")
        site.vms.logins.clear()
        site.reload(url="http://{}/api/v7/")
        for status, written, left in ((401, 11.5e9, 3 * GB), (403, 12.5e9, 2 * GB)):
            site.wait_polls(1)
            logins = len(site.vms.logins)
            failures = metric(site.cluster.wait_leader().http, 'ckpt_telemetry_failures_total{source="vms"}')
            site.vms.cluster["wr_bw"] = written
            site.vms.expire(status)
            site.wait_measured(left)
            assert len(site.vms.logins) == logins + 1, site.vms.logins
            assert metric(site.cluster.wait_leader().http, 'ckpt_telemetry_failures_total{source="vms"}') == failures
        assert site.vms.requests[-1][1].startswith("/api/v7/clusters/?fields=")
        denied = len(site.vms.logins)
        site.vms.wrong["/api/v7/clusters/"] = lambda handler: site.vms.say(handler, 403, {"detail": "You do not have permission"})
        site.wait_warning("HTTP status 403")
        assert len(site.vms.logins) == denied, "a missing right is no reason to log in"
        text = "".join(m.log.read_text() for m in site.cluster.members) + "\n".join(site.warnings())
        assert not any(s in text for s in ("secret\"", ":secret", "api-1234", "access-", "wrong")), "a credential was told"


def a_vms_with_a_certificate_of_its_own_is_verified():
    with StorageSite(url="https://{}") as site:
        pem, key = site.cluster.dir / "vms.crt", site.cluster.dir / "vms.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=vms", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
        site.vms.stop()
        site.vms = Vms(site.cluster.dir / "vms-tls", tls=(str(pem), str(key), None))
        site.secret("Token reader:secret")
        site.reload(url="https://{}")
        site.wait_warning("TLS")
        assert site.vms.requests == [] and site.vms.logins == []
        site.reload(url="https://{}", more=f', ca: "{pem}"')
        site.wait_measured(10 * GB)
        assert len(site.vms.logins) == 1


def a_new_leader_goes_on_from_what_was_measured():
    with StorageSite(members=3) as site:
        site.vms.cluster["wr_bw"] = 12.5e9
        site.wait_measured(2 * GB)
        since = site.number("measured_at_ms")
        site.cluster.wait_leader().kill()
        site.cluster.wait_leader()
        assert site.number("measured_bytes_per_s") == 2 * GB and site.number("measured_at_ms") == since
        site.vms.cluster["wr_bw"] = 10.5e9
        site.wait_measured(4 * GB)


if __name__ == "__main__":
    sys.exit(tap([the_bandwidth_that_a_vms_measures_is_used_in_the_next_cycle,
                  a_vms_that_says_offline_takes_the_target_down_and_a_silent_one_does_not,
                  a_vms_is_asked_with_a_password_a_token_or_a_login_that_expires, a_vms_with_a_certificate_of_its_own_is_verified,
                  a_new_leader_goes_on_from_what_was_measured]))
