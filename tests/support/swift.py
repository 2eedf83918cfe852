"""A second object store that speaks S3, of another make: OpenStack's Swift with its s3api, one server of each kind on loopback, from Debian's packages.
It has what rgw.py has of environment(), aws() and keys()."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import rgw

PROGRAMS = ("swift-proxy-server", "swift-account-server", "swift-container-server", "swift-object-server", "swift-ring-builder", "memcached")


def missing():
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "needs root: Swift becomes the user that its configuration names"
    return None


class Swift(rgw.Rgw):
    def __init__(self, buckets=("ckpt",)):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="swift-"))
        self.buckets, self.tls, self.processes = buckets, None, {}
        self.port = rgw.free_port()
        self.access, self.secret = "test:tester", "testing"

    def start(self):
        d = self.dir
        ports = {kind: rgw.free_port() for kind in ("account", "container", "object")}
        cache = rgw.free_port()
        (d / "swift.conf").write_text("[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n[storage-policy:0]\nname = one\ndefault = yes\n")
        (d / "node/disk").mkdir(parents=True)
        for kind, port in ports.items():
            (d / f"{kind}.conf").write_text(
                f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nuser = root\nswift_dir = {d}\ndevices = {d}/node\nmount_check = false\nworkers = 2\n"
                f"disable_fallocate = true\nlog_address = {d}/no-log\nfallocate_reserve = 0\n[pipeline:main]\npipeline = {kind}-server\n"
                f"[app:{kind}-server]\nuse = egg:swift#{kind}\nrecon_cache_path = {d}\n[{kind}-replicator]\n")
            ring = str(d / f"{kind}.builder")
            for arguments in (("create", "4", "1", "1"), ("add", f"r1z1-127.0.0.1:{port}/disk", "1"), ("rebalance",)):
                subprocess.run(["swift-ring-builder", ring, *arguments], capture_output=True, check=True)
        (d / "proxy.conf").write_text(
            f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {self.port}\nuser = root\nswift_dir = {d}\nworkers = 2\nlog_address = {d}/no-log\n"
            "[pipeline:main]\npipeline = catch_errors cache bulk s3api tempauth slo dlo proxy-server\n"
            "[app:proxy-server]\nuse = egg:swift#proxy\nallow_account_management = true\naccount_autocreate = true\n"
            "[filter:catch_errors]\nuse = egg:swift#catch_errors\n[filter:bulk]\nuse = egg:swift#bulk\n[filter:slo]\nuse = egg:swift#slo\n"
            f"[filter:dlo]\nuse = egg:swift#dlo\n[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{cache}\n"
            "[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = testing .admin\n"
            "[filter:s3api]\nuse = egg:swift#s3api\ns3_acl = false\nlocation = us-east-1\ncheck_bucket_owner = false\n")
        self.program("cache", "memcached", "-l", "127.0.0.1", "-p", str(cache), "-u", "root", "-m", "64")
        for kind in ports:
            self.program(kind, f"swift-{kind}-server", str(d / f"{kind}.conf"))
        self.program("proxy", "swift-proxy-server", str(d / "proxy.conf"))
        self.waits("Swift answers", lambda: subprocess.run(["/usr/bin/aws", "--endpoint-url", self.endpoint, "s3", "ls"], env=self.environment(),
                                                           capture_output=True).returncode == 0)
        for bucket in self.buckets:
            self.aws("s3", "mb", f"s3://{bucket}")

    def program(self, name, *arguments):
        environment = {**os.environ, "SWIFT_TEST_CONFIG_FILE": ""}
        with open(self.dir / f"{name}.out", "ab") as out:
            self.processes[name] = subprocess.Popen([*arguments], stdout=out, stderr=out, env=environment, start_new_session=True)

    def free_space(self):
        """Removals are at once."""

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
