#!/usr/bin/python3
"""Node health from SMD, Redfish and Prometheus, against doubles whose documents change while they are read. S1-012, S1-022, S1-051, T-001."""
import json
import os
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, Cluster, common_pb2, http_get, metric, tail, tap, wait_until  # noqa: E402
from site_files import Site as CertificateSite  # noqa: E402
from doubles import Double, dcgm, redfish_errors, redfish_node, reply, smd  # noqa: E402

# A well node asks for a checkpoint every few minutes, one whose hazard is a thousand times higher every few seconds.
POLICY = {"evaluation_interval": "500ms", "min_interval": "1s", "checkpoint_timeout": "20s", "grace": "1s", "quiesce": "1ms",
          "near_completion": "1s", "node_failures_per_1000_node_days_milli": 100000}
HEALTH = "health: {factor_ecc_correctable_milli: 1000000, factor_max_milli: 1000000, follower_slowdown: 2, drain: %s}\n"
INTERVAL_S = 1.0


class Site:
    """A cluster with one job on nodes a and b, and doubles that speak of them."""

    def __init__(self, members=1, drain="no", sources=("smd", "bmc", "dcgm"), credentials=None, sysfs=False):
        self.cluster = Cluster(members=members, agents=("a", "b"), policy=POLICY)
        folder = self.cluster.dir / "doubles"
        self.bmcs = {node: Double(folder / f"bmc-{node}", credentials) for node in ("a", "b")}
        for bmc in self.bmcs.values():
            redfish_node(bmc)
        self.dcgm, self.smd = Double(folder / "dcgm"), Double(folder / "smd")
        # node by node within each metric; b had its last XID before anybody looked
        dcgm(self.dcgm, xid={"a.cluster.local": 0, "b.cluster.local": 0})
        smd(self.smd, {"x1000c0s0b0n0": (1, "Ready", "OK"), "x1000c0s0b0n1": (2, "Ready", "OK")})
        self.map("bmc.map", {node: bmc.address for node, bmc in self.bmcs.items()})
        self.map("smd.map", {"a": "x1000c0s0b0n0", "b": "x1000c0s0b0n1"})
        self.lines = {
            "smd": f'{{name: smd, kind: smd, url: "http://{self.smd.address}/hsm/v2/State/Components", map: "{self.path("smd.map")}"',
            "bmc": f'{{name: bmc, kind: redfish, url: "http://{{host}}", map: "{self.path("bmc.map")}"',
            "dcgm": f'{{name: dcgm, kind: prometheus, max_bytes: 1000000, url: "http://{self.dcgm.address}/metrics"'}
        if credentials is not None:
            secret = self.cluster.dir / "bmc.secret"
            secret.write_text(credentials + "\n")
            secret.chmod(0o600)
            self.lines["bmc"] += f', credentials: "{secret}", insecure: yes'
        self.edac = self.cluster.dir / "sysfs" / "devices/system/edac/mc/mc0"  # of a; b's agent finds none
        if sysfs:
            self.edac.mkdir(parents=True)
            (self.edac / "ce_count").write_text("17\n")
            (self.edac / "ue_count").write_text("0\n")
            self.cluster.agents["a"].sysfs = self.cluster.dir / "sysfs"
        self.plain_config = self.cluster.config.read_text()
        self.configure(sources, drain)

    def path(self, name):
        return self.cluster.dir / name

    def map(self, name, rows):
        self.path(name).write_text("".join(f"{node} {subject}\n" for node, subject in rows.items()))

    def configure(self, sources, drain="no", more=""):
        rows = "".join(f"  - {self.lines[s]}, interval: {INTERVAL_S:.0f}s, timeout: 500ms{more}}}\n" for s in sources)
        self.cluster.config.write_text(self.plain_config + HEALTH % drain + ("telemetry:\n" + rows if rows else ""))

    def __enter__(self):
        self.cluster.start()
        self.cluster.register("job", [("a", 8, 4 << 20), ("b", 8, 4 << 20)], write_bytes_per_s=100000000)
        for node in ("a", "b"):
            self.cluster.run_job(node, "job", [str(BIN / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                                               "--output", str(self.cluster.dir / f"{node}.result")])
        wait_until("the job runs", lambda: all(j.application_pid() for j in self.cluster.jobs), 20)
        return self

    def __exit__(self, *error):
        for double in (*self.bmcs.values(), self.dcgm, self.smd):
            double.stop()
        self.cluster.__exit__(*error)

    def node(self, name):
        listed = json.loads(self.cluster.ctl("nodes", "-o", "json").stdout)["nodes"]
        return next(n for n in listed if n["node_id"] == name)

    def factor(self, name):
        return int(self.node(name)["hazard_factor_milli"]) / 1000

    def signals(self, name):
        return {s["signal"] for s in self.node(name)["signals"]}

    def sights(self, name):
        return {s["source"]: s["sight"] for s in self.node(name)["sources"]}

    def wait_fresh(self, *sources):
        for name in ("a", "b"):
            wait_until(f"{sources} speak of {name}", lambda n=name: all(self.sights(n).get(s) == "fresh" for s in sources), 20, 0.1)
        for source in sources:  # counters have a base line only when every document was read once
            wait_until(f"{source} was polled", lambda s=source: self.metric_of("ckpt_telemetry_polls_total", source=s) >= 4, 20, 0.1)

    def purposes(self):
        return [c.purpose for c in self.cluster.checkpoints("job")]

    def warnings(self):
        return json.loads(self.cluster.ctl("status", "-o", "json").stdout)["status"]["warnings"]

    def metric_of(self, name, **labels):
        """Of the leader; the sum over the series that have these labels."""
        text = http_get(self.cluster.wait_leader().http, "/metrics")[1]
        wanted = [f'{k}="{v}"' for k, v in labels.items()]
        lines = [line for line in text.splitlines() if line.startswith(name + "{") and all(w in line for w in wanted)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines) if lines else None


def rising_errors_raise_the_hazard_within_a_window_and_the_job_is_checkpointed():
    with Site() as site:
        site.wait_fresh("smd", "bmc", "dcgm")
        assert site.factor("a") == 1 and site.factor("b") == 1
        assert common_pb2.PURPOSE_PROACTIVE not in site.purposes()
        assert all(site.metric_of("ckpt_telemetry_up", source=s) == 1 for s in ("smd", "bmc", "dcgm"))
        redfish_errors(site.bmcs["b"], 2, correctable=3)  # of the DIMM that only the second page names
        changed = time.monotonic()
        wait_until("b's hazard rises", lambda: site.factor("b") > 900, 20, 0.02)  # it is told for as long as the node is not drained
        seen = min(t for t, path, _ in site.bmcs["b"].requests if t > changed and path.endswith("DIMM2/MemoryMetrics")) - changed
        assert seen < 1.5 * INTERVAL_S, f"first read {seen:.2f} s after the change"
        assert site.factor("a") == 1 and site.signals("b") == {"ecc_correctable"}
        wait_until("a proactive checkpoint", lambda: common_pb2.PURPOSE_PROACTIVE in site.purposes(), 60, 0.2)
        assert metric(site.cluster.wait_leader().http, "ckpt_nodes_unwell") == 1
        table = site.cluster.ctl("nodes").stdout
        assert "ecc_correctable" in table and "HEALTH" in table, table


def a_hard_signal_drains_the_node_once():
    site = Site(drain="yes")
    dcgm(site.dcgm, xid={"a.cluster.local": 0, "b.cluster.local": 79})  # b's is of some other day
    with site:
        site.wait_fresh("smd", "bmc", "dcgm")
        assert {site.node(n)["state"] for n in ("a", "b")} == {"ready"}
        dcgm(site.dcgm, xid={"a.cluster.local": 79, "b.cluster.local": 0})
        wait_until("a is drained", lambda: site.node("a")["state"].startswith("drain"), 20, 0.1)
        wait_until("a drain checkpoint", lambda: common_pb2.PURPOSE_DRAIN in site.purposes(), 20, 0.1)
        dcgm(site.dcgm, xid={"a.cluster.local": 48, "b.cluster.local": 31})  # another of the same story; an application's fault
        wait_until("it was read", lambda: site.dcgm.requests[-1][0] > time.monotonic() - 0.3, 5)
        time.sleep(2 * INTERVAL_S)  # two more polls, in which nothing must happen
        assert site.metric_of("ckpt_node_alarm_drains_total", result="asked") == 1
        assert site.node("b")["state"] == "ready"
        smd(site.smd, {"x1000c0s0b0n0": (1, "Ready", "OK"), "x1000c0s0b0n1": (2, "Ready", "Alert")})
        wait_until("b is drained", lambda: site.node("b")["state"].startswith("drain"), 20, 0.1)
        assert site.metric_of("ckpt_node_alarm_drains_total", result="asked") == 2


def a_hard_signal_counts_from_the_third_poll():
    """S1-022: of a BMC a poll is a walk over its documents, several of which speak of the node; the factor rises with the first (T-001)."""
    with Site(drain="yes", sources=("bmc",)) as site:
        site.wait_fresh("bmc")
        changed = time.monotonic()  # before it: a poll between the two has seen the error
        redfish_errors(site.bmcs["b"], 2, uncorrectable=1)  # of the DIMM that only the second page names

        def reads():
            return sum(t > changed and path.endswith("DIMM2/MemoryMetrics") for t, path, _ in site.bmcs["b"].requests)

        wait_until("b's hazard rises", lambda: site.factor("b") > 90, 20, 0.02)  # it is told for as long as the node is not drained
        node = site.node("b")
        if reads() < 3:  # unless this test was kept waiting
            assert node["state"] == "ready" and not any(s.get("alarm") for s in node["signals"]), node
            assert "ecc_uncorrectable!" not in site.cluster.ctl("nodes").stdout or reads() >= 3
        wait_until("b is drained", lambda: site.node("b")["state"].startswith("drain"), 30)
        assert reads() >= 3, f"drained after {reads()} polls"
        assert "ecc_uncorrectable!" in site.cluster.ctl("nodes").stdout
        assert site.node("a")["state"] == "ready"


def sources_that_die_are_warnings_and_decide_nothing():
    with Site(drain="yes") as site:
        site.wait_fresh("smd", "bmc", "dcgm")
        before = len(site.purposes())
        for double in (site.smd, site.dcgm, *site.bmcs.values()):
            double.stop()
        for source in ("smd", "bmc", "dcgm"):
            wait_until(f"{source} is down", lambda s=source: site.metric_of("ckpt_telemetry_up", source=s) == 0, 20, 0.1)
            wait_until(f"{source} is stale", lambda s=source: site.sights("a")[s] == "stale", 20, 0.1)
        for source in ("smd", "bmc", "dcgm"):
            for words in (f"telemetry source {source} fails", f"telemetry source {source} is silent about 2 nodes"):
                wait_until(words, lambda w=words: any(w in line for line in site.warnings()), 20, 0.2)
            assert site.metric_of("ckpt_telemetry_failures_total", source=source) >= 1
            assert site.metric_of("ckpt_telemetry_age_seconds", source=source) > 1
            assert site.metric_of("ckpt_telemetry_nodes", source=source, sight="stale") == 2
        log = site.cluster.wait_leader().log.read_text()
        assert "event=telemetry_source" in log and "runbook" in log
        assert site.factor("a") == 1 and site.factor("b") == 1
        assert {site.node(n)["state"] for n in ("a", "b")} == {"ready"}
        assert site.metric_of("ckpt_node_alarm_drains_total", result="asked") == 0
        assert common_pb2.PURPOSE_PROACTIVE not in site.purposes()[before:]
        for double in (site.smd, site.dcgm, *site.bmcs.values()):
            double.start()
        site.wait_fresh("smd", "bmc", "dcgm")
        wait_until("no warning is left", lambda: not any("telemetry" in w for w in site.warnings()), 20, 0.2)


def a_new_leader_knows_what_the_sources_told_it_before():
    with Site(members=3, sources=("bmc",)) as site:
        site.wait_fresh("bmc")
        leader = site.cluster.wait_leader()
        asked = {m.name: metric(m.http, "ckpt_telemetry_polls_total") for m in site.cluster.members}
        # Two services are asked in turn, and errors count from the first answer on: each member has had one of both.
        wait_until("followers ask too", lambda: all(metric(m.http, "ckpt_telemetry_polls_total") >= asked[m.name] + 4
                                                    for m in site.cluster.members), 20, 0.1)
        redfish_errors(site.bmcs["a"], 1, correctable=1)
        wait_until("every member saw it", lambda: all(metric(m.http, "ckpt_nodes_unwell") == 1 for m in site.cluster.members), 20, 0.1)
        site.bmcs["a"].stop()  # what is known from now on is what was known before
        leader.kill()
        site.cluster.wait_leader()
        assert site.factor("a") > 900


def what_agents_count_reaches_the_leader_and_the_next_one():
    """Errors of the kernel's own counters (EDAC), with no source configured; the agent tells a new leader what the old one knew."""
    with Site(members=3, sources=(), sysfs=True) as site:
        assert site.factor("a") == 1
        wait_until("the agent of a counts", lambda: site.sights("a")["agent"] == "fresh", 20, 0.1)
        assert site.sights("b")["agent"] == "blind", "b has no counters, which is not 0"
        (site.edac / "ce_count").write_text("18\n")
        wait_until("a's hazard rises", lambda: site.factor("a") > 900, 20, 0.02)  # it is told for as long as the node is not drained
        site.cluster.wait_leader().kill()
        site.cluster.wait_leader()
        wait_until("the new leader knows", lambda: site.factor("a") > 900, 20)
        assert site.factor("b") == 1


def hostile_sources_hurt_nobody():
    """Redirects, endless bodies, slow ones, pages without end, other people's hosts: the loop stays quick, the other sources are heard."""
    with Site(credentials="reader:secret") as site:
        site.wait_fresh("smd", "bmc", "dcgm")
        stranger = Double(site.cluster.dir / "doubles" / "stranger")

        def redirect(handler):
            reply(handler, 302, b"", Location=f"http://{stranger.address}/redfish/v1/")

        def endless(handler):
            handler.send_response(200)
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b"DCGM_FI_DEV_XID_ERRORS 79\n" * 4096)
            except OSError:
                pass

        def drip(handler):
            handler.send_response(200)
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b"{")
                    time.sleep(0.05)
            except OSError:
                pass

        def pages(handler):
            number = len(site.bmcs["b"].requests)
            reply(handler, 200, json.dumps({
                "@odata.type": "#ChassisCollection.ChassisCollection",
                "Members": [{"@odata.id": f"http://{stranger.address}/redfish/v1/x"}, {"@odata.id": f"/redfish/v1/p{number}"}],
                "Members@odata.nextLink": f"/redfish/v1/q{number}"}).encode())

        site.bmcs["a"].wrong["*"] = redirect
        site.bmcs["b"].wrong["*"] = pages
        site.dcgm.wrong["*"] = endless
        site.smd.wrong["*"] = drip
        for source in ("smd", "bmc", "dcgm"):
            wait_until(f"{source} fails", lambda s=source: site.metric_of("ckpt_telemetry_endpoints_failing", source=s) > 0, 30, 0.2)
        wait_until("the endless body is cut", lambda: any("longer than max_bytes" in text for text in site.warnings()), 20, 0.2)
        site.bmcs["b"].wrong["*"] = lambda handler: reply(handler, 200, b'{"a":' + b"[" * 100000)
        failures = site.metric_of("ckpt_telemetry_failures_total", source="bmc")
        wait_until("more failures", lambda: site.metric_of("ckpt_telemetry_failures_total", source="bmc") > failures + 2, 40, 0.2)
        assert stranger.requests == [], "a link or redirect led away from the host, with its credentials"
        assert {site.node(n)["state"] for n in ("a", "b")} == {"ready"} and site.factor("a") == 1
        leader = site.cluster.wait_leader()
        assert metric(leader.http, "ckpt_loop_lag_cpu_max_seconds") < 0.1, "the loop was blocked by its own work"
        assert "secret" not in leader.log.read_text()
        for double in (*site.bmcs.values(), site.dcgm, site.smd):
            double.wrong.clear()
        site.wait_fresh("smd", "bmc", "dcgm")
        stranger.stop()


def sources_are_reloaded_without_a_restart():
    with Site(sources=()) as site:
        member = site.cluster.wait_leader()
        site.configure(("dcgm",))
        member.kill(1)  # SIGHUP
        site.wait_fresh("dcgm")
        site.configure(("bmc",))
        site.path("bmc.map").write_text("a not/a/host\n")
        member.kill(1)
        wait_until("the broken map is a warning", lambda: any("bmc is not asked" in w and "line 1" in w for w in site.warnings()), 10, 0.1)
        assert "dcgm" not in site.sights("a")
        site.map("bmc.map", {node: bmc.address for node, bmc in site.bmcs.items()})
        member.kill(1)
        site.wait_fresh("bmc")
        site.cluster.config.write_text(site.cluster.config.read_text().replace("kind: redfish", "kind: redfisch"))
        member.kill(1)
        wait_until("the mistake is logged", lambda: "reload_failed" in tail(member.log, 200), 10)
        assert site.sights("a")["bmc"] == "fresh"


def sources_behind_tls_are_verified_and_know_who_asks():
    with Site(sources=()) as site:
        tls = CertificateSite(site.cluster.dir / "tls", BIN / "ckptctl")
        other = CertificateSite(site.cluster.dir / "other", BIN / "ckptctl")
        tls.issue("replica", 1, "--host", "127.0.0.1,localhost")
        tls.issue("replica", 2, "--host", "127.0.0.1")
        mine = f'cert: "{tls.dir}/replica-2.crt", key: "{tls.dir}/replica-2.key"'
        double = Double(site.cluster.dir / "doubles" / "secure", tls=(f"{tls.dir}/replica-1.crt", f"{tls.dir}/replica-1.key", str(tls.ca)))
        smd(double, {"a": (1, "Ready", "OK"), "b": (2, "Ready", "OK")})
        member = site.cluster.wait_leader()

        def ask_with(options):
            site.lines["smd"] = (f'{{name: smd, kind: smd, url: "https://{double.address}/hsm/v2/State/Components"{options}')
            site.configure(("smd",))
            member.kill(1)  # SIGHUP

        ask_with(f', ca: "{other.ca}", {mine}')
        wait_until("another CA is refused", lambda: any("smd fails" in w and "TLS" in w for w in site.warnings()), 20, 0.2)
        ask_with(f', ca: "{tls.ca}"')
        wait_until("a nameless reader is refused", lambda: site.metric_of("ckpt_telemetry_failures_total", source="smd") > 0, 20, 0.2)
        assert double.requests == [], "a request went through"
        ask_with(f', ca: "{tls.ca}", {mine}')
        site.wait_fresh("smd")
        double.requests.clear()
        ask_with(f", insecure: yes, {mine}")
        wait_until("any certificate will do when told so", lambda: double.requests, 20, 0.1)
        double.stop()


def published_mock_ups_are_understood():
    """$CKPT_REDFISH_MOCKUPS: a folder with one published Redfish mock-up per folder, each with the index.json of /redfish/v1."""
    folder = os.environ.get("CKPT_REDFISH_MOCKUPS", "")
    mocks = sorted(p for p in pathlib.Path(folder).iterdir() if (p / "index.json").is_file()) if folder else []
    if not mocks:
        return "CKPT_REDFISH_MOCKUPS names no folder of mock-ups"
    for mock in mocks:
        with Site(sources=("bmc",)) as site:
            bmc = site.bmcs["a"]
            shutil.rmtree(bmc.folder)
            shutil.copytree(mock, bmc.folder / "redfish" / "v1")
            site.wait_fresh("bmc")
            wait_until(f"{mock.name} was read to its end", lambda: site.metric_of("ckpt_telemetry_polls_total", source="bmc") > 4, 30, 0.2)
            print(f"# {mock.name}: {len(bmc.requests)} requests, factor {site.factor('a')}, signals {site.signals('a')}")
            system = next(p for p in sorted(bmc.folder.glob("redfish/v1/Systems/*/index.json")))
            before = site.factor("a")
            document = json.loads(system.read_text())
            document["Status"]["HealthRollup"] = "Critical"
            bmc.put("/" + str(system.parent.relative_to(bmc.folder)), document)
            wait_until("Critical is seen", lambda: site.factor("a") >= 20 or site.factor("a") > before, 30, 0.1)
    return None


if __name__ == "__main__":
    sys.exit(tap([rising_errors_raise_the_hazard_within_a_window_and_the_job_is_checkpointed, a_hard_signal_drains_the_node_once,
                  a_hard_signal_counts_from_the_third_poll,
                  sources_that_die_are_warnings_and_decide_nothing, a_new_leader_knows_what_the_sources_told_it_before,
                  what_agents_count_reaches_the_leader_and_the_next_one, hostile_sources_hurt_nobody, sources_are_reloaded_without_a_restart,
                  sources_behind_tls_are_verified_and_know_who_asks, published_mock_ups_are_understood]))
