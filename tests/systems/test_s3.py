#!/usr/bin/python3
"""ckpt-worker and a cluster on a real object store, Ceph's gateway, and on Swift's: what is written is what other tools read, and whatever happens to the store or to
the worker, no shard is damaged and none is taken for whole that is not. S1-043, S1-074, D-004, I24."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import rgw  # noqa: E402
import s3_proxy  # noqa: E402
import swift  # noqa: E402
from cluster import BIN, tap, wait_until  # noqa: E402

MIB = 1 << 20
CHUNK = 16 * MIB
OK, NOT_FOUND, CORRUPT, UNAVAILABLE, REFUSED = 0, 3, 4, 5, 7
PREFIX = "s3://ckpt/pre"
PATH = f"{PREFIX}/physics/heat/job/checkpoints/1-42"


class Site:
    """A source folder, and the worker with the store's keys."""

    def __init__(self, store):
        self.store = store
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="s3-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.source = self.dir / "source"

    def __enter__(self):
        self.fill(("model.bin", 70_000), ("big.bin", 3 * CHUNK + 5), ("sub/b +ü\n\"&<.txt", 5), ("zero", 0), ("exact.bin", CHUNK))
        (self.source / "sub/empty").mkdir()
        (self.source / "model.bin").chmod(0o640)
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.dir, ignore_errors=True)

    def fill(self, *files):
        shutil.rmtree(self.source, ignore_errors=True)
        for name, size in files:
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).write_bytes(os.urandom(size))

    def start(self, verb, *options, path=PATH, part="part-0000", **environment):
        arguments = [str(BIN / "ckpt-worker"), verb, "--prefix", PREFIX, *([] if verb == "probe" else ["--path", path])]
        if verb not in ("probe", "collect"):
            arguments += ["--part", part]
        if verb == "put":
            arguments += ["--source", str(self.source)]
        return subprocess.Popen([*arguments, *options], env=self.store.environment(**environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="backslashreplace")

    def end(self, process, code=OK, timeout_s=120):
        out, errors = process.communicate(timeout=timeout_s)
        assert process.returncode == code, (process.args, process.returncode, out, errors)
        return dict(line.split("=", 1) for line in out.splitlines()) if code == OK else errors

    def run(self, verb, *options, code=OK, timeout_s=120, **more):
        return self.end(self.start(verb, *options, **more), code, timeout_s)

    def comes_back(self, part="part-0000"):
        to = self.dir / "back"
        shutil.rmtree(to, ignore_errors=True)
        self.run("restore", "--to", str(to), part=part)
        assert subprocess.run(["diff", "-r", self.source, to]).returncode == 0
        return to

    def folders(self):
        return {key.split("/part-0000/")[1].split("/")[0] for key in self.store.keys("ckpt", "pre/physics") if "/part-0000/" in key}


def what_is_written_is_read_by_other_tools_and_comes_back(store):
    with Site(store) as site:
        site.run("probe")
        put = site.run("put")
        assert put["reused"] == "0" and put["files"] == "5", put
        assert site.run("verify", "--manifest-sha256", put["manifest_sha256"])["manifest_sha256"] == put["manifest_sha256"]
        with tempfile.TemporaryDirectory(prefix="s3-disk-", dir="/var/tmp") as disk:  # where large files go past the page cache
            site.run("restore", "--to", f"{disk}/back")
            assert subprocess.run(["diff", "-r", site.source, f"{disk}/back"]).returncode == 0
        to = site.comes_back()
        assert (to / "model.bin").stat().st_mode & 0o777 == 0o640 and (to / "sub/empty").is_dir()
        assert site.run("put")["reused"] == "1"
        folder, = site.folders()
        copy = site.dir / "copy"
        store.aws("s3", "cp", "--recursive", "--only-show-errors", f"{PATH}/part-0000/{folder}/", str(copy))
        checked = subprocess.run(["sha256sum", "-c", "--strict", "MANIFEST"], cwd=copy, capture_output=True, text=True)
        assert checked.returncode == 0 and "model.bin: OK" in checked.stdout, checked
        tree = subprocess.run("split -b 16777216 --filter=sha256sum big.bin | sha256sum", shell=True, cwd=copy, capture_output=True, text=True).stdout
        assert f"# tree {tree.split()[0]} *big.bin\n" in (copy / "MANIFEST").read_text()
        wrong = site.run("verify", "--manifest-sha256", "0" * 64, code=CORRUPT)
        assert "recorded was" in wrong, wrong
        gone = site.run("collect", "--wipe", "yes")
        assert gone["removed"] == "1" and gone["wiped"] == "0" and gone["files"] == "6" and gone["unwiped"] == "5", gone  # a store's disks are out of reach, `zero` has no bytes
        assert site.run("collect")["removed"] == "0"
        assert not store.keys("ckpt") and not store.uploads("ckpt")
        site.run("verify", code=NOT_FOUND)


def bytes_that_were_changed_or_removed_in_the_store_are_found(store):
    with Site(store) as site:
        site.run("put")
        folder, = site.folders()
        big = f"pre/physics/heat/job/checkpoints/1-42/part-0000/{folder}/big.bin"
        bad = site.dir / "bad"
        good = (site.source / "big.bin").read_bytes()
        bad.write_bytes(good[:2 * CHUNK] + bytes([good[2 * CHUNK] ^ 1]) + good[2 * CHUNK + 1:])
        store.aws("s3", "cp", "--only-show-errors", str(bad), f"s3://ckpt/{big}")
        assert "big.bin" in site.run("verify", code=CORRUPT)
        assert "big.bin" in site.run("restore", "--to", str(site.dir / "back"), code=CORRUPT)
        assert not (site.dir / "back").exists() and not list(site.dir.glob(".back*")), "nothing half-restored"
        store.aws("s3", "rm", f"s3://ckpt/{big}")
        assert '"big.bin" is missing' in site.run("verify", code=CORRUPT)
        assert site.run("put")["reused"] == "0"
        site.comes_back()
        site.run("collect")


def a_put_that_was_killed_goes_on_where_it_was(store):
    """And one of another source takes nothing of it over, and leaves nothing of it behind."""
    with Site(store) as site:
        site.fill(("a.bin", 1000), ("big.bin", 6 * CHUNK))
        process = site.start("put", "--rate", str(12 * MIB), "--read-back", "never")
        time.sleep(6.7)  # four parts are there, the rest is not
        process.kill()
        process.wait()
        site.run("verify", code=CORRUPT)
        began = time.monotonic()
        put = site.run("put", "--rate", str(12 * MIB), "--read-back", "never")
        took_s = time.monotonic() - began
        assert took_s < 13, f"all of it was sent again: {took_s:.1f} s"  # 8 s are for reading back what another one had sent
        assert len(site.folders()) == 1 and not store.uploads("ckpt")
        site.comes_back()
        process = site.start("put", "--rate", str(6 * MIB), part="part-0001")
        wait_until("an upload has begun", lambda: any("part-0001" in key for key in store.uploads("ckpt")), 20)
        process.kill()
        process.wait()
        site.run("abandon", part="part-0001")
        assert not store.uploads("ckpt") and not any("part-0001" in key for key in store.keys("ckpt"))
        other = PATH.replace("42", "43")
        process = site.start("put", "--rate", str(12 * MIB), "--read-back", "never", path=other)
        time.sleep(5)  # at least one part is there
        process.kill()
        process.wait()
        gone = site.run("collect", "--wipe", "yes", path=other)
        assert gone["removed"] == "1" and int(gone["bytes"]) >= CHUNK and gone["unwiped"] != "0" and not store.uploads("ckpt"), gone
        assert site.run("verify")["manifest_sha256"] == put["manifest_sha256"], "a finished shard stays"
        site.fill(("big.bin", 2 * CHUNK))
        site.run("put")
        assert len(site.folders()) == 1, "what was replaced has gone"
        site.comes_back()
        site.run("collect")


def next_checkpoint(site, number, *options, **environment):
    """What put says, after its shard has come back whole; and its manifest."""
    path = f"{PATH.removesuffix('42')}{number}"
    put = site.run("put", *options, path=path, **environment)
    assert int(put["written_bytes"]) + int(put["saved_bytes"]) == int(put["size_bytes"]), put
    back, copy = site.dir / "back", site.dir / "copy"
    for to in (back, copy):
        shutil.rmtree(to, ignore_errors=True)
    site.run("restore", "--to", str(back), "--manifest-sha256", put["manifest_sha256"], path=path)
    assert subprocess.run(["diff", "-r", site.source, back]).returncode == 0
    key, = (key for key in site.store.keys("ckpt", f"{path.removeprefix('s3://ckpt/')}/") if key.endswith("/MANIFEST"))
    return int(put["saved_bytes"]), site.store.aws("s3", "cp", f"s3://ckpt/{key}", "-")


def change(path, at, length=5):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(os.urandom(length))


def collect_all(site, *numbers):
    for number in numbers:
        site.run("collect", path=PATH.replace("42", str(number)))
    assert not site.store.keys("ckpt") and not site.store.uploads("ckpt")
    site.store.free_space()


def what_has_not_changed_is_copied_by_the_store(store):
    """Files as a whole, chunks of those that have changed; each shard stays whole when the others go."""
    with Site(store) as site:
        site.fill(("same.bin", CHUNK + 5), ("small.bin", 70_000), ("changed.bin", 3 * CHUNK), ("first.bin", 2 * CHUNK), ("grown.bin", 2 * CHUNK),
                  ("cut.bin", 3 * CHUNK), ("zero", 0), ("d/+ü &%.bin", CHUNK + 1))
        saved, manifest = next_checkpoint(site, 42)
        assert saved == 0 and "generation" not in manifest
        saved, manifest = next_checkpoint(site, 43)
        assert saved == sum(f.stat().st_size for f in site.source.rglob("*") if f.is_file()) and manifest.count("generation=1") == 7, manifest
        change(site.source / "changed.bin", CHUNK)
        change(site.source / "first.bin", 0)
        with open(site.source / "grown.bin", "ab") as file:
            file.write(os.urandom(9))
        os.truncate(site.source / "cut.bin", 2 * CHUNK)
        site.run("collect", path=PATH)  # the first one is not needed any more
        saved, manifest = next_checkpoint(site, 100)  # a higher number than 43, and not as text
        assert saved == CHUNK + 5 + 70_000 + 2 * CHUNK + CHUNK + 2 * CHUNK + 2 * CHUNK + CHUNK + 1, (saved, manifest)
        assert manifest.count("generation=2") == 7, manifest
        assert not store.uploads("ckpt")
        site.run("collect", path=PATH.replace("42", "43"))
        site.run("verify", path=PATH.replace("42", "100"))
        collect_all(site, 100)


def what_was_copied_too_often_is_sent_anew(store):
    with Site(store) as site:
        site.fill(("small.bin", 70_000), ("large.bin", CHUNK + 5))
        for number, (options, saved, generation) in enumerate([((), 0, 0), (("--generations", "2"), CHUNK + 70_005, 1), (("--generations", "2"), CHUNK + 70_005, 2),
                                                               (("--generations", "2"), 0, 0), (("--generations", "0"), 0, 0)]):
            got, manifest = next_checkpoint(site, 42 + number, *options)
            assert got == saved and manifest.count(f"generation={generation}") == (2 if generation else 0), (number, got, manifest)
        collect_all(site, *range(42, 47))


def what_is_damaged_is_not_copied_on(store):
    """Reading back looks at copies too: then all is sent."""
    with Site(store) as site:
        site.fill(("big.bin", 3 * CHUNK), ("a.bin", 10))
        next_checkpoint(site, 42)
        key, = (key for key in store.keys("ckpt", "pre/physics") if key.endswith("/big.bin"))
        bad = site.dir / "bad"
        bad.write_bytes((site.source / "big.bin").read_bytes())
        change(bad, CHUNK + 7, 1 << 10)
        store.aws("s3", "cp", "--only-show-errors", str(bad), f"s3://ckpt/{key}")
        saved, manifest = next_checkpoint(site, 43, "--read-back", "always")
        assert saved == 0 and "generation" not in manifest
        assert len({k.split("/part-0000/")[1].split("/")[0] for k in store.keys("ckpt", f"{PATH.removeprefix('s3://ckpt/').replace('42', '43')}/")}) == 1
        collect_all(site, 42, 43)


def what_a_store_does_not_copy_is_sent(store):
    """Each kind of copy fails in turn, also half way, and with the put that asked for it."""
    with Site(store) as site, s3_proxy.Proxy(store.port) as proxy:
        through = {"AWS_ENDPOINT_URL_S3": proxy.endpoint}
        site.fill(("a.bin", 7), ("big.bin", CHUNK + 5), ("end.bin", 4 * CHUNK))
        next_checkpoint(site, 42)
        for number, to in ((43, b"x-amz-copy-source:"), (44, b"x-amz-copy-source-range:"), (45, None)):
            change(site.source / "end.bin", 3 * CHUNK)
            proxy.say("501 NotImplemented", to=to)
            if number == 45:
                proxy.hand_on()
                process = site.start("put", "--rate", str(4 * MIB), path=PATH.replace("42", "45"), **through)
                wait_until("a part was copied", lambda: any("end.bin?partNumber=3" in path for _, path in proxy.asked), 60)
                process.kill()
                process.wait()
            saved, manifest = next_checkpoint(site, number, **through)
            proxy.said = 0
            assert number != 43 or saved == 0, saved
            assert number != 44 or saved == CHUNK + 5, saved
            assert number != 45 or "generation" in manifest, manifest
            assert not store.uploads("ckpt")
        proxy.say("200 InternalError", to=b"x-amz-copy-source:")  # a status that was sent before the copy failed
        process = site.start("put", path=PATH.replace("42", "46"), **through)
        wait_until("a copy was asked for again", lambda: proxy.said >= 2, 60)
        proxy.say("200 NoSuchKey", to=b"x-amz-copy-source:")
        assert site.end(process)["saved_bytes"] == "0"
        site.run("verify", path=PATH.replace("42", "46"))
        collect_all(site, 42, 43, 44, 45, 46)


def a_gateway_that_is_killed_or_stands_still_is_waited_for(store):
    with Site(store) as site:
        site.fill(("big.bin", 8 * CHUNK))
        for down, up in ((store.kill, store.start_gateway), (store.stop, store.cont)):
            process = site.start("put", "--rate", str(48 * MIB), "--read-back", "never")
            time.sleep(1)
            down()
            time.sleep(2)
            assert process.poll() is None, process.communicate()
            up()
            site.end(process)
            process = site.start("restore", "--to", str(site.dir / "back"), "--rate", str(64 * MIB))
            time.sleep(0.7)
            down()
            time.sleep(1)
            up()
            site.end(process)
            assert subprocess.run(["diff", "-r", site.source, site.dir / "back"]).returncode == 0
            shutil.rmtree(site.dir / "back")
            site.run("collect")
        store.kill()
        began = time.monotonic()
        assert "s3://ckpt/pre" in site.run("probe", code=UNAVAILABLE) and time.monotonic() - began < 5, "a probe waits for nobody"
        store.start_gateway()


def a_put_that_is_carried_out_after_it_was_given_up_damages_nothing(store):
    """Ceph keeps requests while its disks are paused, and carries them out when nobody waits for them any more."""
    with Site(store) as site:
        site.fill(("a.bin", MIB), ("big.bin", 2 * CHUNK))
        store.pause()
        process = site.start("put")
        time.sleep(2)
        process.kill()
        process.wait()
        store.resume()
        site.fill(("a.bin", MIB), ("big.bin", 2 * CHUNK))
        put = site.run("put")
        time.sleep(3)
        assert site.run("verify", "--manifest-sha256", put["manifest_sha256"])["size_bytes"] == str(MIB + 2 * CHUNK)
        site.comes_back()
        store.pause()
        process = site.start("put", part="part-0001")
        time.sleep(17)  # longer than a transfer may stand still
        assert process.poll() is None
        store.resume()
        site.end(process)
        site.comes_back("part-0001")
        site.run("collect")
        assert not store.uploads("ckpt")


def a_put_ends_no_upload_of_another_writer(store):
    with Site(store) as site:
        key = f"{PATH.removeprefix('s3://ckpt/')}/part-0000/{'0' * 16}/big.bin"
        store.aws("s3api", "create-multipart-upload", "--bucket", "ckpt", "--key", key)
        site.run("put")
        assert store.uploads("ckpt") == [key], "somebody else may be at work there"
        site.run("abandon")
        assert not store.uploads("ckpt")
        site.comes_back()
        site.run("collect")


def bad_days_of_a_store_have_names_and_are_waited_for(store):
    """Errors that a store answers, answers that are lost, a store that is slow: a probe names them, a put and a restore come to their end, and nothing is lost."""
    with Site(store) as site, s3_proxy.Proxy(store.port) as proxy:
        through = {"AWS_ENDPOINT_URL_S3": proxy.endpoint}
        site.fill(("a.bin", 5), ("big.bin", 2 * CHUNK + 7))
        for said, cause in (("503 SlowDown", "storage_slow"), ("500 InternalError", "storage_error"), ("403 ExpiredToken", "storage_denied"),
                            ("403 QuotaExceeded", "storage_quota"), ("507 InsufficientStorage", "storage_full")):
            proxy.say(said)
            process = site.start("probe", **through)
            out, errors = process.communicate(timeout=30)
            assert process.returncode == UNAVAILABLE and f"cause={cause}" in out and said.split()[1] in errors, (said, out, errors)
        for say in (lambda: proxy.say("503 SlowDown"), lambda: proxy.say("500 InternalError"), lambda: proxy.say("403 ExpiredToken"),
                    lambda: proxy.say("409 OperationAborted"), lambda: proxy.say("400 IncompleteBody"), proxy.swallow,
                    lambda: proxy.slow(32 * MIB)):
            for verb, options in (("put", ()), ("restore", ("--to", str(site.dir / "back")))):
                say()
                asked = len(proxy.asked)
                process = site.start(verb, *options, **through)
                wait_until("the worker has tried", lambda: len(proxy.asked) >= asked + 2, 20)
                assert process.poll() is None, process.communicate()
                proxy.hand_on()
                site.end(process)
            assert subprocess.run(["diff", "-r", site.source, site.dir / "back"]).returncode == 0
            shutil.rmtree(site.dir / "back")
            site.run("collect")
            assert not store.keys("ckpt") and not store.uploads("ckpt")


def a_store_that_removes_slowly_is_waited_for(store):
    """Swift removes the parts of a large object one after the other before it answers: for longer than other calls may be silent."""
    with Site(store) as site, s3_proxy.Proxy(store.port) as proxy:
        site.fill(("a.bin", 5))
        site.run("put")
        proxy.late(17, b"DELETE")
        site.run("collect", AWS_ENDPOINT_URL_S3=proxy.endpoint)
        asked = [path for method, path in proxy.asked if method == "DELETE"]
        assert len(asked) == len(set(asked)) and not store.keys("ckpt"), asked  # each once


def refusals_are_told_by_name(store):
    with Site(store) as site:
        wrong = site.run("put", code=UNAVAILABLE, AWS_SECRET_ACCESS_KEY="wrong")
        assert "SignatureDoesNotMatch" in wrong, wrong
        wrong = site.run("put", code=UNAVAILABLE, AWS_ACCESS_KEY_ID="NOBODY")
        assert "InvalidAccessKeyId" in wrong, wrong
        wrong = site.run("put", code=UNAVAILABLE, path="s3://ckpt/pre/a/b", AWS_ENDPOINT_URL_S3="http://127.0.0.1:1")
        assert "127.0.0.1" in wrong, wrong
        store.admin("user", "suspend", "--uid", "tester", check=False)
        wrong = site.run("put", code=UNAVAILABLE)
        assert "UserSuspended" in wrong and "enable it again" in wrong, wrong
        store.admin("user", "enable", "--uid", "tester", check=False)
        wait_until("the user is enabled", lambda: site.start("probe").wait() == OK, 20, 0.5)
        store.admin("quota", "set", "--quota-scope", "bucket", "--uid", "tester", "--max-objects", "2", check=False)
        store.admin("quota", "enable", "--quota-scope", "bucket", "--uid", "tester", check=False)
        site.fill(*((f"{i}.bin", 4 * MIB) for i in range(5)))
        wait_until("the quota holds", lambda: site.start("put", part="part-0001").wait() != OK, 30, 0.5)  # the gateway counts with delay
        wrong = site.run("put", part="part-0001", code=UNAVAILABLE)
        assert "QuotaExceeded" in wrong and "quota" in wrong, wrong
        store.admin("quota", "disable", "--quota-scope", "bucket", "--uid", "tester", check=False)
        wait_until("the quota is gone", lambda: site.start("put").wait() == OK, 30, 0.5)
        site.comes_back()
        site.run("collect")
        wrong = subprocess.run([BIN / "ckpt-worker", "probe", "--prefix", "s3://nowhere"], env=store.environment(), capture_output=True, text=True)
        assert wrong.returncode == UNAVAILABLE and "create the bucket" in wrong.stderr, wrong
        (site.source / ("n" * 200)).mkdir()
        deep = site.source.joinpath(*["n" * 200] * 5)
        deep.mkdir(parents=True)
        (deep / "file").write_bytes(b"1")
        assert "shorter names" in site.run("put", code=REFUSED)
        shutil.rmtree(site.source / ("n" * 200))
        (pathlib.Path(os.fsdecode(os.fsencode(site.source) + b"/\xff"))).write_bytes(b"1")
        assert "UTF-8" in site.run("put", code=REFUSED)
        site.run("abandon")


def the_rate_holds_for_all_connections_together(store):
    with Site(store) as site:
        site.fill(*((f"{i}.bin", 4 * MIB) for i in range(8)))
        for verb, options in (("put", ("--read-back", "never")), ("restore", ("--to", str(site.dir / "back")))):
            began = time.monotonic()
            site.run(verb, "--rate", str(10 * MIB), *options)
            took_s = time.monotonic() - began
            assert 2.5 < took_s < 8, f"{verb} of 32 MiB at 10 MiB/s took {took_s:.1f} s"
        site.run("collect")


def thousands_of_small_files(store):
    with Site(store) as site:
        site.fill(*((f"{i % 100}/{i}.bin", 100) for i in range(2500)))
        site.run("put")
        site.comes_back()
        site.run("collect")
        assert not store.keys("ckpt")


def sessions_and_buckets_in_the_names_of_hosts():
    """The bucket as a part of the host's name, and keys of a session, which are nothing without its token."""
    with rgw.Rgw(sts=True) as store:
        by_host = {"AWS_ENDPOINT_URL_S3": f"http://localhost:{store.port}", "CKPT_S3_STYLE": "host"}
        session = store.session()
        with Site(store) as site:
            for environment in (by_host, session, {**by_host, **session}):
                site.run("probe", **environment)
                put = site.run("put", **environment)
                assert put["reused"] == "0", put
                site.run("verify", "--manifest-sha256", put["manifest_sha256"], **environment)
                back = site.dir / "back"
                site.run("restore", "--to", str(back), **environment)
                assert subprocess.run(["diff", "-r", site.source, back]).returncode == 0
                shutil.rmtree(back)
                site.comes_back()  # by the path, and with lasting keys
                shutil.rmtree(site.dir / "back")
                assert site.run("collect", **environment)["removed"] == "1" and not store.keys("ckpt", "pre/physics")
            wrong = site.run("put", code=UNAVAILABLE, **{**session, "AWS_SESSION_TOKEN": session["AWS_SESSION_TOKEN"][:-8] + "AAAAAAA="})
            assert "403" in wrong, wrong


def stores_of_their_own():
    """TLS with a site's authority, and a store that is full."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="s3-tls-"))
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout",
                        folder / "key.pem", "-out", folder / "cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        with rgw.Rgw(memory_mib=96, tls=(folder / "cert.pem", folder / "key.pem"), buckets=()) as store:
            ca = {"AWS_CA_BUNDLE": str(folder / "cert.pem")}
            subprocess.run(["/usr/bin/aws", "--endpoint-url", store.endpoint, "s3", "mb", "s3://ckpt"], env=store.environment(**ca), check=True,
                           capture_output=True)
            with Site(store) as site:
                site.fill(("a.bin", MIB))
                wrong = site.run("put", code=UNAVAILABLE)
                assert "TLS" in wrong and "ca_file" in wrong, wrong
                site.run("put", **ca)
                site.fill(*((f"{i}.bin", CHUNK) for i in range(10)))
                site.start("put", part="part-0001", **ca).wait()
                wait_until("the store says that it is full", lambda: "full" in store.tool("ceph", "health", "detail"), 60, 1)
                began = time.monotonic()
                wrong = site.run("put", code=UNAVAILABLE, timeout_s=300, part="part-0002", **ca)
                assert time.monotonic() - began < 150 and "nothing has moved for" in wrong, wrong  # Ceph holds writes back
    finally:
        shutil.rmtree(folder)


CASES = [what_is_written_is_read_by_other_tools_and_comes_back, bytes_that_were_changed_or_removed_in_the_store_are_found,
         a_put_that_was_killed_goes_on_where_it_was]
# test_s3_changes.py runs these, beside
CHANGES = [what_has_not_changed_is_copied_by_the_store, what_was_copied_too_often_is_sent_anew, what_is_damaged_is_not_copied_on,
           what_a_store_does_not_copy_is_sent]
# ... and test_s3_faults.py these
FAULTS = [a_gateway_that_is_killed_or_stands_still_is_waited_for, a_put_that_is_carried_out_after_it_was_given_up_damages_nothing,
          a_put_ends_no_upload_of_another_writer, bad_days_of_a_store_have_names_and_are_waited_for, a_store_that_removes_slowly_is_waited_for,
          refusals_are_told_by_name, the_rate_holds_for_all_connections_together, thousands_of_small_files]


def main(cases, others):
    """`cases` on one store that all of them share, `others` with stores of their own."""
    why = rgw.missing()
    if why is not None:
        return tap([named(case, lambda: why) for case in (*cases, *others)])
    with rgw.Rgw() as store:
        result = tap([named(case, lambda case=case: case(store)) for case in cases])
    return tap(others) or result


def another_make():
    """What differs is met: lists, ETags, conditions that are not known."""
    why = swift.missing()
    if why is not None:
        return why
    with swift.Swift() as store:
        for case in (what_is_written_is_read_by_other_tools_and_comes_back, bytes_that_were_changed_or_removed_in_the_store_are_found,
                     a_put_that_was_killed_goes_on_where_it_was, what_has_not_changed_is_copied_by_the_store, what_was_copied_too_often_is_sent_anew,
                     what_is_damaged_is_not_copied_on):
            case(store)
        with Site(store) as site:
            assert "SignatureDoesNotMatch" in site.run("put", code=UNAVAILABLE, AWS_ACCESS_KEY_ID="nobody:nowhere")
    return None


def named(case, run):
    run.__name__ = case.__name__
    run.__doc__ = case.__doc__
    return run


if __name__ == "__main__":
    sys.exit(main(CASES, [stores_of_their_own, sessions_and_buckets_in_the_names_of_hosts]))
