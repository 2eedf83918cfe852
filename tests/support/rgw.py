"""A real object store on loopback: Ceph's gateway (radosgw) with one monitor and one disk, from Debian's packages, in seconds and without root.

    with Rgw() as store:
        store.environment()           # AWS_... for ckpt-worker and awscli
        store.pause(), store.resume() # requests hang; what was given up is carried out later
        store.kill(), store.start_gateway()

Everything lies in one fresh folder and is ended by its process ids."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "ceph", "ceph-authtool", "monmaptool", "radosgw-admin")
ACCESS, SECRET = "TESTACCESSKEY0000001", "testsecret/with+odd=characters"


def missing():
    """Why it cannot run here; None when it can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Rgw:
    """memory_mib: of the disk, which is in memory (512 at most); file_gib: instead a disk in a file of so many GiB; below: the folder for all of it;
    sts: gives keys of sessions (wrong keys are then AccessDenied, whatever is wrong with them)."""

    def __init__(self, memory_mib=512, file_gib=0, tls=None, buckets=("ckpt",), sts=False, below=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rgw-", dir=below))
        self.memory_mib, self.file_gib, self.tls, self.buckets, self.sts = memory_mib, file_gib, tls, buckets, sts
        self.mon_port, self.port = free_port(), free_port()
        self.processes = {}
        self.access, self.secret = ACCESS, SECRET

    # ---- start and end ----

    def waits(self, what, look, timeout_s=60, every_s=0.05):
        """A server that has ended answers no more: its last lines are told at once."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            value = look()
            if value:
                return value
            for name, process in self.processes.items():
                if process.poll() is not None:
                    text = (self.dir / f"{name}.out").read_text(errors="replace")
                    raise AssertionError(f"{what}: {process.args[0]} has ended with {process.returncode}: {text[-2000:]}")
            time.sleep(every_s)
        raise AssertionError(f"{what}: not within {timeout_s} s")

    def configure(self):
        d = self.dir
        (d / "osd").mkdir()
        disk = (["osd objectstore = bluestore", f"bluestore block size = {self.file_gib << 30}", "bluestore block create = true",
                 "bluestore block preallocate file = true", "bluestore fsck on mount = false", "bluestore fsck on umount = false"] if self.file_gib else
                ["osd objectstore = memstore", f"memstore device bytes = {self.memory_mib << 20}"])
        front = f"beast endpoint=127.0.0.1:{self.port}"
        if self.tls:
            front = f"beast ssl_endpoint=127.0.0.1:{self.port} ssl_certificate={self.tls[0]} ssl_private_key={self.tls[1]}"
        (d / "ceph.conf").write_text("\n".join([
            "[global]", "fsid = 11111111-2222-3333-4444-555555555555", f"mon host = [v2:127.0.0.1:{self.mon_port}/0]", "mon initial members = a",
            f"run dir = {d}", f"admin socket = {d}/$name.asok", f"pid file = {d}/$name.pid", f"log file = {d}/$name.log", f"keyring = {d}/keyring",
            f"crash dir = {d}", "ms bind ipv6 = false", "ms bind msgr1 = false", "public addr = 127.0.0.1", "paxos propose interval = 0.05",
            "paxos min wait = 0.01", "osd pool default size = 1", "osd pool default min size = 1", "mon allow pool size one = true",
            "osd crush chooseleaf type = 0", "osd pool default pg num = 1", "osd pool default pgp num = 1", "osd pool default pg autoscale mode = off",
            "mon max pg per osd = 1000", "auth allow insecure global id reclaim = false", "osd scrub begin hour = 0", "osd max object name len = 256",
            "osd max object namespace len = 64", "mon warn on pool no redundancy = false", "mon data avail crit = 1",
            "[mon.a]", f"mon data = {d}/mon", f"mon addr = [v2:127.0.0.1:{self.mon_port}/0]",
            "[osd.0]", f"osd data = {d}/osd", *disk,
            "[client.rgw]", f"rgw data = {d}/rgw", f"rgw frontends = {front}", "rgw gc obj min wait = 2", "rgw gc processor period = 5",
            "rgw enable usage log = false", "rgw dns name = localhost", "rgw bucket quota ttl = 0", "rgw user quota bucket sync interval = 1",
            "rgw user quota sync interval = 1", "rgw cache enabled = true", "rgw thread pool size = 64",
            *(["rgw sts key = sixteen-letters.", "rgw s3 auth use sts = true"] if self.sts else []), ""]))

    def tool(self, *arguments, check=True, timeout_s=60):
        result = subprocess.run([arguments[0], "-c", str(self.dir / "ceph.conf"), *arguments[1:]], capture_output=True, text=True, timeout=timeout_s)
        assert not check or result.returncode == 0, (arguments, result.returncode, result.stderr[-2000:])
        return result.stdout

    def daemon(self, name, *arguments):
        with open(self.dir / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen([arguments[0], "-c", str(self.dir / "ceph.conf"), *arguments[1:]], stdout=out, stderr=out,
                                                    start_new_session=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def start(self):
        d = self.dir
        self.configure()
        keyring = str(d / "keyring")
        for name, caps in (("mon.", ["--cap", "mon", "allow *"]),
                           ("client.admin", ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"]),
                           ("client.rgw", ["--cap", "mon", "allow rwx", "--cap", "osd", "allow rwx"]),
                           ("osd.0", ["--cap", "mon", "allow profile osd", "--cap", "osd", "allow *"])):
            subprocess.run(["ceph-authtool", keyring, *([] if os.path.exists(keyring) else ["--create-keyring"]), "--gen-key", "-n", name, *caps],
                           check=True, capture_output=True)
        subprocess.run(["monmaptool", "--create", "--fsid", "11111111-2222-3333-4444-555555555555", "--addv", "a", f"[v2:127.0.0.1:{self.mon_port}]",
                        str(d / "monmap")], check=True, capture_output=True)
        self.tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(d / "monmap"), "--keyring", keyring)
        self.daemon("mon", "ceph-mon", "-f", "-i", "a")
        uuid = "99999999-2222-3333-4444-555555555555"
        self.waits("the monitor answers", lambda: subprocess.run(["ceph", "-c", str(d / "ceph.conf"), "--connect-timeout", "2", "osd", "new", uuid],
                                                                 capture_output=True).returncode == 0)
        self.tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", uuid)
        self.tool("ceph", "auth", "import", "-i", keyring)
        self.daemon("osd", "ceph-osd", "-f", "-i", "0")
        self.waits("the disk is up", lambda: '"up": 1' in self.tool("ceph", "osd", "dump", "--format", "json-pretty"))
        self.start_gateway(wait=False)
        self.waits("a user is made", lambda: self.admin("user", "create", "--uid", "tester", "--display-name", "tester", "--access-key", self.access,
                                                        "--secret-key", self.secret, check=False))
        self.wait_gateway()
        for bucket in self.buckets:
            self.aws("s3", "mb", f"s3://{bucket}")

    def start_gateway(self, wait=True):
        self.daemon("rgw", "radosgw", "-f", "-n", "client.rgw")
        if wait:
            self.wait_gateway()

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                pass
            if self.tls:
                return True
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def wait_gateway(self):
        self.waits("the gateway answers", self.answers)

    def __exit__(self, *exc):
        self.close()

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- what is done to it ----

    def admin(self, *arguments, check=True):
        text = self.tool("radosgw-admin", "-n", "client.admin", *arguments, check=check)
        return json.loads(text) if text.strip().startswith(("{", "[")) else text

    def kill(self):
        self.processes["rgw"].kill()
        self.processes["rgw"].wait()

    def stop(self):
        self.processes["rgw"].send_signal(signal.SIGSTOP)

    def cont(self):
        self.processes["rgw"].send_signal(signal.SIGCONT)

    def free_space(self):
        """What was removed is given back at once, and not when the gateway finds time."""
        self.admin("gc", "process", "--include-all")

    def pause(self):
        self.tool("ceph", "osd", "pause")

    def resume(self):
        self.tool("ceph", "osd", "unpause")

    # ---- how it is spoken to ----

    @property
    def endpoint(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def environment(self, **changes):
        values = {"AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_ENDPOINT_URL_S3": self.endpoint,
                  "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**inherited, **values, **changes}

    def aws(self, *arguments, check=True):
        result = subprocess.run(["/usr/bin/aws", "--endpoint-url", self.endpoint, *arguments], env=self.environment(), capture_output=True, text=True)
        assert not check or result.returncode == 0, (arguments, result.stderr)
        return result.stdout

    def session(self):
        """Keys that hold for a while, with their token, as variables of the environment."""
        self.admin("caps", "add", "--uid", "tester", "--caps", "user-policy=*")
        allowed = [{"Effect": "Allow", "Action": action, "Resource": "*"} for action in ("sts:*", "s3:*")]
        self.aws("iam", "put-user-policy", "--user-name", "tester", "--policy-name", "sessions", "--policy-document",
                 json.dumps({"Version": "2012-10-17", "Statement": allowed}))
        told = json.loads(self.aws("sts", "get-session-token", "--output", "json"))["Credentials"]
        return {"AWS_ACCESS_KEY_ID": told["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": told["SecretAccessKey"], "AWS_SESSION_TOKEN": told["SessionToken"]}

    def keys(self, bucket, prefix=""):
        """Every object with its size."""
        text = self.aws("s3api", "list-objects-v2", "--bucket", bucket, "--prefix", prefix, "--output", "json")
        return {item["Key"]: item["Size"] for item in (json.loads(text) if text.strip() else {}).get("Contents") or []}

    def uploads(self, bucket):
        text = self.aws("s3api", "list-multipart-uploads", "--bucket", bucket, "--output", "json")
        return [item["Key"] for item in (json.loads(text) if text.strip() else {}).get("Uploads") or []]
