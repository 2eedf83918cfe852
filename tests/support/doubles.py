"""HTTP doubles of telemetry sources: they serve documents from a folder, which a test changes while they are read.

Flow    Double(folder) answers GET /a/b with folder/a/b/index.json, or with the file folder/a/b; a test writes files by put(). What a
        service does wrong is asked for by path in `wrong`: a function that gets the request's handler and answers in its own way.
        redfish_node() and the others write documents in the published shape. Vms answers for itself.
"""
import base64
import http.server
import json
import os
import pathlib
import ssl
import threading
import time


class Double:
    def __init__(self, folder, credentials=None, tls=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.credentials, self.wrong, self.requests, self.server = credentials, {}, [], None
        self.port, self.tls = 0, tls  # tls: (certificate, key) of the server, CA of its clients or None
        self.start()

    def start(self):
        double = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if double.server is None:  # stopped: connections that were kept open end too
                    self.close_connection = True
                    return
                double.requests.append((time.monotonic(), self.path, dict(self.headers)))
                double.answer(self)

            do_POST = do_GET  # the double tells by handler.command

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # readers come and go
        if self.tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls[:2])
            if self.tls[2] is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.tls[2])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def put(self, path, content):
        """A document (a dict becomes JSON), replaced as a whole."""
        place = self.folder / path.strip("/")
        if isinstance(content, dict):
            content, place = json.dumps(content), place / "index.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(place.name + ".new")
        fresh.write_text(content)
        os.replace(fresh, place)

    def get(self, path):
        return json.loads((self.folder / path.strip("/") / "index.json").read_text())

    def answer(self, handler):
        path = handler.path.split("?")[0]
        if path in self.wrong or "*" in self.wrong:
            self.wrong.get(path, self.wrong.get("*"))(handler)
            return
        if self.credentials is not None:
            expected = "Basic " + base64.b64encode(self.credentials.encode()).decode()
            if handler.headers.get("Authorization") != expected:
                reply(handler, 401, b"{}")
                return
        place = self.folder / path.strip("/")
        place = place / "index.json" if place.is_dir() else place
        if place.is_file():
            reply(handler, 200, place.read_bytes())
        else:
            reply(handler, 404, b"{}")


class Vms(Double):
    """The management system of a VAST cluster: a list of clusters in both shapes, ?fields=, three ways to log in, tokens that expire."""

    def __init__(self, folder, login="reader:secret", tls=None):
        self.cluster = {
            "id": 1, "name": "vast-1", "state": "ONLINE", "leader_state": "UP", "ssd_raid_state": "HEALTHY", "nvram_raid_state": "HEALTHY",
            "memory_raid_state": "HEALTHY", "remaining_stripes_health": "HEALTHY", "wr_bw": 27904056.0, "wr_bw_mb": 27.904, "wr_latency": 1075.16,
            "max_performance": {"read_bw": 70, "write_bw": 14.5}, "max_cluster_write_bw_mb": 0, "free_usable_capacity": 227937064547128.0}
        self.login, self.api_token, self.paged, self.expired_status = login, "api-1234", False, 401
        self.logins, self.token = [], None  # the present access token; None: none is valid
        super().__init__(folder, tls=tls)

    def expire(self, status):
        """The present token is refused from now on, with 401 or 403."""
        self.token, self.expired_status = None, status

    def say(self, handler, status, document):
        reply(handler, status, json.dumps(document).encode(), **{"Content-Type": "application/json"})

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        if path in self.wrong or "*" in self.wrong:
            self.wrong.get(path, self.wrong.get("*"))(handler)
        elif not path.endswith("/"):
            reply(handler, 301, b"", Location=path + "/")
        elif handler.command == "POST" and path == "/api/token/":
            self.log_in(handler)
        elif handler.command != "GET" or path not in ("/api/clusters/", "/api/v7/clusters/"):
            self.say(handler, 404, {"detail": "Not found.", "code": "not_found"})
        elif self.let_in(handler):
            wanted = dict(p.split("=", 1) for p in query.split("&") if p).get("fields", "")
            shown = {k: v for k, v in self.cluster.items() if not wanted or k in wanted.split(",")}
            self.say(handler, 200, {"count": 1, "next": None, "previous": None, "results": [shown]} if self.paged else [shown])

    def log_in(self, handler):
        given = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.logins.append(given)
        if f"{given.get('username')}:{given.get('password')}" != self.login or handler.headers["Content-Type"] != "application/json":
            self.say(handler, 401, {"detail": "No active account found with the given credentials"})
            return
        self.token = f"access-{len(self.logins)}"
        self.say(handler, 200, {"access": self.token, "refresh": f"refresh-{len(self.logins)}"})

    def let_in(self, handler):
        given = handler.headers.get("Authorization", "")
        if given in ("Basic " + base64.b64encode(self.login.encode()).decode(), f"Api-Token {self.api_token}") or (
                self.token is not None and given == f"Bearer {self.token}"):
            return True
        if given.startswith("Bearer ") and self.expired_status == 403:
            self.say(handler, 403, {"detail": "Token is invalid or expired", "code": "token_not_valid"})
        else:
            self.say(handler, 401, {"detail": "Authentication credentials were not provided."})
        return False


def reply(handler, status, body, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    try:
        handler.wfile.write(body)
    except OSError:
        pass  # the reader had enough


# ---- documents of our own in the published shape ----

def link(path):
    return {"@odata.id": path}


def collection(double, path, kind, members, **more):
    double.put(path, {"@odata.id": path, "@odata.type": f"#{kind}.{kind}", "Members": [link(m) for m in members],
                      "Members@odata.count": len(members), **more})


def redfish_node(double, dimms=2, pages=True):
    """A BMC with one system, DIMMs with metrics (the collection in two pages), and a chassis with Thermal and one sensor."""
    root, system, chassis = "/redfish/v1", "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1"
    double.put(root, {"@odata.id": root, "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Systems": link(f"{root}/Systems"),
                      "Chassis": link(f"{root}/Chassis"), "Managers": link(f"{root}/Managers")})
    collection(double, f"{root}/Systems", "ComputerSystemCollection", [system])
    collection(double, f"{root}/Chassis", "ChassisCollection", [chassis])
    double.put(system, {"@odata.id": system, "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "PowerState": "On",
                        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"}, "Memory": link(f"{system}/Memory")})
    places = [f"{system}/Memory/DIMM{i}" for i in range(1, dimms + 1)]
    if pages and dimms > 1:
        collection(double, f"{system}/Memory", "MemoryCollection", places[:1], **{"Members@odata.nextLink": f"{system}/MemoryRest"})
        collection(double, f"{system}/MemoryRest", "MemoryCollection", places[1:])
    else:
        collection(double, f"{system}/Memory", "MemoryCollection", places)
    for place in places:
        double.put(place, {"@odata.id": place, "@odata.type": "#Memory.v1_17_0.Memory", "Status": {"Health": "OK"},
                           "Metrics": link(f"{place}/MemoryMetrics")})
        double.put(f"{place}/MemoryMetrics", {
            "@odata.id": f"{place}/MemoryMetrics", "@odata.type": "#MemoryMetrics.v1_7_0.MemoryMetrics",
            "CurrentPeriod": {"CorrectableECCErrorCount": 0, "UncorrectableECCErrorCount": 0},
            "LifeTime": {"CorrectableECCErrorCount": 1200, "UncorrectableECCErrorCount": 0}})
    double.put(chassis, {"@odata.id": chassis, "@odata.type": "#Chassis.v1_23_0.Chassis", "Status": {"Health": "OK"},
                         "Thermal": link(f"{chassis}/Thermal"), "Sensors": link(f"{chassis}/Sensors")})
    double.put(f"{chassis}/Thermal", {
        "@odata.id": f"{chassis}/Thermal", "@odata.type": "#Thermal.v1_7_1.Thermal",
        "Temperatures": [{"MemberId": "0", "Name": "CPU1", "ReadingCelsius": 41, "UpperThresholdNonCritical": 85,
                          "UpperThresholdCritical": 95, "UpperThresholdFatal": 105}]})
    collection(double, f"{chassis}/Sensors", "SensorCollection", [f"{chassis}/Sensors/Inlet"])
    double.put(f"{chassis}/Sensors/Inlet", {
        "@odata.id": f"{chassis}/Sensors/Inlet", "@odata.type": "#Sensor.v1_8_0.Sensor", "ReadingType": "Temperature",
        "ReadingUnits": "Cel", "Reading": 22, "Thresholds": {"UpperCritical": {"Reading": 45}}})


def redfish_errors(double, dimm, correctable=0, uncorrectable=0):
    path = f"/redfish/v1/Systems/1/Memory/DIMM{dimm}/MemoryMetrics"
    document = double.get(path)
    document["LifeTime"]["CorrectableECCErrorCount"] += correctable
    document["LifeTime"]["UncorrectableECCErrorCount"] += uncorrectable
    double.put(path, document)


def dcgm(double, xid=None, dbe=None, celsius=None):
    """Metrics of one GPU per host; each argument is {host: value}, its keys are the hosts."""
    hosts = sorted({*(xid or {}), *(dbe or {}), *(celsius or {})})
    lines = []
    for name, values, initial in (("DCGM_FI_DEV_GPU_TEMP", celsius, 55), ("DCGM_FI_DEV_XID_ERRORS", xid, 0),
                                  ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", dbe, 0)):
        lines.append(f"# TYPE {name} gauge")
        lines += [f'{name}{{gpu="0",UUID="GPU-{h}",device="nvidia0",Hostname="{h}"}} {(values or {}).get(h, initial)}' for h in hosts]
    double.put("/metrics", "\n".join(lines) + "\n")


def smd(double, nodes):
    """{xname: (NID, state, flag)}."""
    double.put("/hsm/v2/State/Components", {"Components": [
        {"ID": name, "Type": "Node", "State": state, "Flag": flag, "Enabled": True, "Role": "Compute", "NID": nid, "NetType": "Sling",
         "Arch": "X86", "Class": "River"} for name, (nid, state, flag) in nodes.items()]})
