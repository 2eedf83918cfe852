#!/usr/bin/python3
"""Checkpoints in a real object store, Ceph's gateway, with brokers, agents and applications: S1-043, S1-060, S1-062, S1-066, S1-070. The job's user
has the keys nowhere. Run by root: the jobs are another user's."""
import datetime
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import rgw  # noqa: E402
import s3_proxy  # noqa: E402
from cluster import Cluster, Job, checkpoint_text, common_pb2, http_get, metric, tap, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, PAUSED, POLICY, all_run, allocation_in, complete, ends, ends_in, hint, restart, says  # noqa: E402
from processes import all_of, has_in_memory, told, workers_of  # noqa: E402

USER = pwd.getpwnam("nobody")
EMPTY = hashlib.sha256(b"").hexdigest()


class UserJob(Job):
    """ckpt-run and its application are the user's."""

    def start(self):
        os.chown(self.work_dir, USER.pw_uid, USER.pw_gid)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True,
                                            user=USER.pw_uid, group=USER.pw_gid, extra_groups=[])


class Site:
    """A cluster whose one target is a bucket, below prefix. endpoint: of a proxy in front of the store."""

    def __init__(self, store, members=1, agents=("a",), policy=None, watch=None, prefix="s3://ckpt/site", endpoint=None, **options):
        self.store = store
        self.cluster = Cluster(members=members, agents=agents, policy={**POLICY, "max_discarded": 0, **(policy or {})},  # a restart waits for the store
                               target={"kind": "s3", "prefix": f'"{prefix}"'}, storage_watch={"interval_ms": 200, "timeout_ms": 1500, **(watch or {})}, copies=False, **options)
        self.cluster.let_others_in()
        self.keys = self.cluster.dir / "keys"
        self.write_keys(store.access, store.secret)
        section = (f's3:\n  - {{name: rgw, endpoint: "{endpoint or store.endpoint}", credentials_file: "{self.keys}", buckets: "ckpt"}}\n')
        for path in (self.cluster.config, self.cluster.agent_config):
            path.write_text(path.read_text() + section)

    def write_keys(self, access, secret):
        new = self.keys.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
        new.rename(self.keys)

    def run(self, name, agents="a", used=MIB, command=None, **fields):
        cluster = self.cluster
        cluster.register(name, [(agent, 1, used) for agent in agents], owner=USER.pw_name, **fields)
        jobs = []
        for agent in agents:
            output = cluster.dir / "results"
            output.mkdir(exist_ok=True)
            output.chmod(0o777)
            job = UserJob(cluster, cluster.agents[agent], name, command or
                          [str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000", "--output",
                           str(output / f"{name}.{agent}")])
            job.cluster.jobs.append(job)
            jobs.append(job)
        return jobs

    def __enter__(self):
        self.cluster.__enter__()
        return self

    def __exit__(self, *exc):
        return self.cluster.__exit__(*exc)


def text(record):
    return checkpoint_text(record.checkpoint_id)


# ---- the whole way ----

def checkpoints_go_to_the_store_and_back_through_a_leaders_death():
    with rgw.Rgw() as store, Site(store, members=3, agents=("a", "b")) as site:
        cluster = site.cluster
        cluster.start()
        jobs = site.run("pair", "ab", write_bytes_per_s=20000)  # slow: about 2 s
        all_run(cluster)
        asked = hint(cluster, "pair")
        wait_until("a worker writes", lambda: workers("put"), 20)
        leader = cluster.wait_leader()
        leader.kill()
        record = ends_in(cluster, "pair", asked, (COMPLETE, FAILED), 60)
        assert record.state == COMPLETE, record
        keys = store.keys("ckpt", f"site/physics/heat/pair/checkpoints/{text(record)}/")
        assert sum(key.endswith("/MANIFEST") for key in keys) == 2, keys
        assert all(key.startswith("site/physics/heat/pair/checkpoints/") for key in store.keys("ckpt", "site/physics")), "nothing lies elsewhere"
        os.kill(jobs[0].application_pid(), signal.SIGKILL)
        for job in jobs:
            ends(job)
        allocation_in(cluster, "pair", common_pb2.ALLOCATION_STATE_REQUEUED, common_pb2.ALLOCATION_STATE_FAILED)  # both nodes' reports are there
        restart(cluster, "pair", "ab")
        for job in jobs:
            job.start()
        for job in jobs:
            says(job, f"from checkpoint {job.work_dir}/restore/{text(record)}", 60)
        all_run(cluster)
        assert not store.uploads("ckpt"), "no upload is left open"
        leader.start()
        cluster.debug_check()


# ---- who has the keys ----

def workers(verb):
    return workers_of(USER.pw_uid, verb, "/ckpt-worker-s3")


def the_user_finds_the_keys_nowhere():
    """While a worker of the user writes: its memory, environment, arguments; those of all his processes; the records and logs."""
    environment = {"AWS_SECRET_ACCESS_KEY": "env-" + rgw.SECRET, "AWS_ACCESS_KEY_ID": "ENVKEY"}
    os.environ.update(environment)  # of the daemons: not passed on either
    try:
        with rgw.Rgw() as store, Site(store) as site:
            cluster, secret = site.cluster, rgw.SECRET.encode()
            cluster.start()
            for name in environment:
                del os.environ[name]
            site.run("spied", write_bytes_per_s=5000)
            all_run(cluster)
            asked = hint(cluster, "spied")
            worker = wait_until("a worker writes", lambda: workers("put"), 20)[0]
            os.kill(worker, signal.SIGSTOP)
            assert has_in_memory(cluster.agents["a"].process.pid, secret), "the search finds what is there"
            mine = all_of(USER.pw_uid)
            assert worker in mine and len(mine) >= 3, mine
            for pid in mine:
                assert not has_in_memory(pid, secret), (pid, told(pid))
                assert secret not in told(pid), pid
            assert b"CKPT_WORKER_SIGNER=3" in told(worker) and b"AWS_SECRET" not in told(worker)
            os.kill(worker, signal.SIGCONT)
            assert ends_in(cluster, "spied", asked, (COMPLETE, FAILED), 60).state == COMPLETE
            for path in [*cluster.dir.rglob("*.log"), *cluster.dir.glob("data/**/*"), *cluster.dir.glob("agent-*/**/*")]:
                assert not path.is_file() or secret not in path.read_bytes(), path
    finally:
        for name in environment:
            os.environ.pop(name, None)


def signature(store, method, path, headers, sealed=()):
    """As the daemon makes it: SignedHeaders with names that have no line."""
    day = headers["x-amz-date"][:8]
    names = sorted([*headers, *sealed])
    canonical = "\n".join([method, path, "", "".join(f"{n}:{headers[n]}\n" for n in names if n in headers), ";".join(names),
                           headers["x-amz-content-sha256"]])
    scope = f"{day}/us-east-1/s3/aws4_request"
    key = ("AWS4" + store.secret).encode()
    for word in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    to_sign = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    mac = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={store.access}/{scope}, SignedHeaders={';'.join(names)}, Signature={mac}"


def a_signed_request_cannot_be_changed_into_another():
    """Ceph carries out headers that nobody signed; sealed ones it refuses."""
    sealed = re.findall(r'^    "(x-amz-[\w-]+)",$', (pathlib.Path(__file__).resolve().parents[2] / "src/dest/s3/signer_words.c").read_text(), re.M)
    assert "x-amz-copy-source" in sealed and "x-amz-acl" in sealed, sealed
    with rgw.Rgw() as store:
        (store.dir / "object").write_text("another tenant's")
        store.aws("s3", "cp", str(store.dir / "object"), "s3://ckpt/other/secret")

        def put(path, seals, **added):
            headers = {"host": f"127.0.0.1:{store.port}", "x-amz-content-sha256": EMPTY,
                       "x-amz-date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")}
            sent = {**headers, "Authorization": signature(store, "PUT", path, headers, seals), **added}
            connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=10)
            connection.request("PUT", path, body=b"", headers=sent)
            return connection.getresponse().status

        evil = {"x-amz-copy-source": "/ckpt/other/secret"}
        assert put("/ckpt/mine/a", []) == 200 and put("/ckpt/mine/a", sealed) == 200
        assert put("/ckpt/mine/b", [], **evil) == 200, "this store takes what nobody signed: without seals the user would read anything"
        assert store.keys("ckpt", "mine/b")["mine/b"] == len("another tenant's")
        assert put("/ckpt/mine/c", sealed, **evil) == 403
        assert put("/ckpt/mine/c", sealed, **{"X-AMZ-Copy-Source": "/ckpt/other/secret"}) == 403
        assert put("/ckpt/mine/c", sealed, **{"x_amz_copy_source": "/ckpt/other/secret"}) != 200
        assert put("/ckpt/mine/c", sealed, **{"x-amz-acl": "public-read"}) == 403
        assert not store.keys("ckpt", "mine/c")


# ---- keys that change, and outages ----

def unavailable_for(cluster, word, timeout_s=40):
    def look():
        row = cluster.ctl("targets", check=False).stdout
        return "unavailable" in row and metric_labels(cluster, word)
    wait_until(f"the target is away: {word}", look, timeout_s, 0.2)


def metric_labels(cluster, word):
    return f'reason="{word}"' in http_get(cluster.wait_leader().http, "/metrics")[1]


def comes_back(cluster):
    wait_until("the target is there", lambda: metric(cluster.wait_leader().http, "lattice_checkpoint_storage_unavailable") == 0, 40, 0.1)


def target(cluster, name):
    return next(t for t in json.loads(cluster.ctl("targets", "-o", "json").stdout)["targets"] if t["spec"]["target_id"] == name)


def keys_are_exchanged_while_all_runs():
    """New keys in the file count at once; keys that are refused are an outage with its name, which ends when they are right."""
    with rgw.Rgw() as store, Site(store) as site:
        cluster = site.cluster
        cluster.start()
        job = site.run("rotated")[0]
        all_run(cluster)
        complete(cluster, "rotated")
        store.admin("key", "create", "--uid", "tester", "--key-type", "s3", "--access-key", "SECONDKEY", "--secret-key", "second-secret")
        site.write_keys("SECONDKEY", "second-secret")
        wait_until("the agent has read them, asked by a task", lambda: complete(cluster, "rotated") and
                   "event=s3_keys_read store=rgw" in cluster.agents["a"].log.read_text(), 60)
        store.admin("key", "rm", "--uid", "tester", "--key-type", "s3", "--access-key", store.access)
        complete(cluster, "rotated")
        store.admin("key", "create", "--uid", "tester", "--key-type", "s3", "--access-key", "THIRDKEY", "--secret-key", "third-secret")
        store.admin("key", "rm", "--uid", "tester", "--key-type", "s3", "--access-key", "SECONDKEY")
        unavailable_for(cluster, "storage_denied")
        os.kill(job.application_pid(), signal.SIGKILL)
        says(job, ": storage denied, ckpt-worker restore: ", 30)
        assert job.running()
        site.write_keys("THIRDKEY", "third-secret")
        comes_back(cluster)
        says(job, f"from checkpoint {job.work_dir}/restore/", 60)
        cluster.debug_check()


def outages_have_their_names_and_end():
    """Refused, hanging, suspended, over quota: what waits is paused, resumed once, and complete in the end."""
    with rgw.Rgw() as store, Site(store, policy={"max_attempts": 2}) as site:
        cluster = site.cluster
        cluster.start()
        job = site.run("steady")[0]
        all_run(cluster)
        first = complete(cluster, "steady")

        store.kill()
        unavailable_for(cluster, "storage_unreachable")
        os.kill(job.application_pid(), signal.SIGKILL)
        says(job, f"checkpoint {text(first)} is read from s3://ckpt/site since ", 30)
        says(job, f"checkpoint {text(first)} waits for s3://ckpt/site since ", 150)
        says(job, ": storage unreachable, ckpt-worker restore: ", 30)
        store.start_gateway()
        comes_back(cluster)
        says(job, f"from checkpoint {job.work_dir}/restore/{text(first)}", 60)
        all_run(cluster)

        store.stop()
        unavailable_for(cluster, "storage_hangs")
        store.cont()
        comes_back(cluster)

        store.admin("user", "suspend", "--uid", "tester")
        unavailable_for(cluster, "storage_denied")
        store.admin("user", "enable", "--uid", "tester")
        comes_back(cluster)

        store.pause()
        unavailable_for(cluster, "storage_hangs")
        store.resume()
        comes_back(cluster)
        complete(cluster, "steady")
        cluster.debug_check()


def an_outage_that_lasts_fails_over_to_a_folder_and_back():
    """S2-026: what waits begins again in the folder, a run begins from there while the store is away, and the next ones go back."""
    with rgw.Rgw() as store, Site(store, policy={"failover_after": "1s"}) as site:
        cluster, near = site.cluster, site.cluster.dir / "near"
        near.mkdir()
        near.chmod(0o1777)
        cluster.start()
        cluster.ctl("target", "put", "near", "--prefix", str(near), "--write", "1GB/s")
        cluster.ctl("target", "put", "scratch", "--failover", "near")
        job = site.run("steady")[0]
        all_run(cluster)
        assert complete(cluster, "steady").target_id == "scratch"
        store.kill()
        wait_until("it has failed over", lambda: target(cluster, "scratch").get("failed_over"), 40)
        second = complete(cluster, "steady")
        assert second.target_id == "near" and list(near.rglob("MANIFEST")), second
        os.kill(job.application_pid(), signal.SIGKILL)
        says(job, f"from checkpoint {job.work_dir}/restore/{text(second)}", 60)
        all_run(cluster)
        store.start_gateway()
        wait_until("it is back", lambda: not target(cluster, "scratch").get("failed_over"), 40)
        assert complete(cluster, "steady").target_id == "scratch"
        cluster.debug_check()


def bad_days_of_a_store_are_named_and_lose_nothing():
    """Each kind begins in the middle of a checkpoint: the target has its reason in `explain`, the same checkpoint is complete in the end, and no key is left over."""
    with rgw.Rgw() as store, s3_proxy.Proxy(store.port) as proxy, Site(store, endpoint=proxy.endpoint) as site:
        cluster = site.cluster
        cluster.start()
        site.run("steady", write_bytes_per_s=20000)  # slow: about 2 s
        all_run(cluster)
        for say, word in ((lambda: proxy.say("503 SlowDown"), "storage_slow"), (lambda: proxy.say("500 InternalError"), "storage_error"),
                          (lambda: proxy.say("403 ExpiredToken"), "storage_denied"), (lambda: proxy.say("403 QuotaExceeded"), "storage_quota"),
                          (lambda: proxy.say("507 InsufficientStorage"), "storage_full"), (proxy.hang, "storage_hangs"), (proxy.cut, "storage_unreachable")):
            asked = hint(cluster, "steady")
            wait_until(f"{word}: a worker writes", lambda: workers("put"), 20)
            say()
            unavailable_for(cluster, word)
            wait_until("explain has the reason", lambda w=word: f"(unavailable: {w})" in cluster.ctl("explain", "steady", check=False).stdout, 20)
            assert cluster.allocation("steady").state == common_pb2.ALLOCATION_STATE_RUNNING
            proxy.hand_on()
            comes_back(cluster)
            record = ends_in(cluster, "steady", asked, (COMPLETE, FAILED), 90)
            assert record.state == COMPLETE, (word, record)
        # slow, with little beside what is written, so that a probe (1.5 s here) still comes through; and so slow that it may be taken for one that hangs
        for bytes_per_s in (40000, 3000):
            asked = hint(cluster, "steady")
            wait_until("a worker writes", lambda: workers("put"), 20)
            proxy.slow(bytes_per_s)
            if bytes_per_s < 10000:
                time.sleep(4)
                proxy.hand_on()
            record = ends_in(cluster, "steady", asked, (COMPLETE, FAILED), 90)
            assert record.state == COMPLETE, (bytes_per_s, record)
            proxy.hand_on()
        assert not store.uploads("ckpt")
        cluster.debug_check()


def a_restore_waits_for_a_store_that_answers_with_errors():
    """Its line names what the store says, and the job goes on by itself, from the checkpoint that it waited for."""
    with rgw.Rgw() as store, s3_proxy.Proxy(store.port) as proxy, Site(store, endpoint=proxy.endpoint) as site:
        cluster = site.cluster
        cluster.start()
        job = site.run("waiting")[0]
        all_run(cluster)
        first = complete(cluster, "waiting")
        for said, words in (("403 AccessDenied", "storage denied"), ("503 SlowDown", "storage slow")):
            proxy.say(said)
            begin = job.log.stat().st_size
            os.kill(job.application_pid(), signal.SIGKILL)

            def says_now(text, timeout_s):
                wait_until(f"ckpt-run says \"{text}\"", lambda: text in job.log.read_text()[begin:], timeout_s)
            says_now(f"checkpoint {text(first)} waits for s3://ckpt/site since ", 150)
            says_now(f": {words}, ckpt-worker restore: ", 30)
            assert said.split()[1] in job.log.read_text()[begin:]
            proxy.hand_on()
            says_now(f"from checkpoint {job.work_dir}/restore/{text(first)}", 60)
            all_run(cluster)
        cluster.debug_check()


def unchanged_state_is_copied_by_the_store():
    """By the keys of the daemon, which signs copies below the job's own checkpoints; `ckptctl checkpoint` tells what was saved."""
    program = """if True:
        import os, pathlib, signal, time
        asked = []
        signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
        own, weights = pathlib.Path(os.environ["CKPT_DIR"]), os.urandom(40 << 20)
        while True:
            time.sleep(0.01)
            if asked:
                asked.clear()
                request = dict(line.split("=", 1) for line in (own / "request").read_text().splitlines() if "=" in line)
                (pathlib.Path(request["directory"]) / "weights").write_bytes(weights)
                (pathlib.Path(request["directory"]) / "step").write_text(request["hint"])
                (own / "done.new").write_text(f"hint={request['hint']}\\nbytes={40 << 20}\\nstatus=0\\nstep=unordered\\n")
                (own / "done.new").rename(own / "done")
        """
    with rgw.Rgw() as store, Site(store) as site:
        cluster = site.cluster
        cluster.start()
        site.run("frozen", used=40 * MIB, command=["/usr/bin/python3", "-c", program])
        all_run(cluster)
        first, second = complete(cluster, "frozen"), complete(cluster, "frozen")
        assert first.shards[0].written_bytes >= 40 * MIB and second.shards[0].written_bytes < 100, (first, second)
        assert "saved 40.0 MiB" in cluster.ctl("checkpoint", text(second)).stdout, cluster.ctl("checkpoint", text(second)).stdout
        cluster.debug_check()


def a_checkpoint_over_quota_says_so():
    with rgw.Rgw() as store, Site(store, policy={"max_attempts": 1}) as site:
        cluster = site.cluster
        cluster.start()
        job = site.run("large", command=[str(cluster.bin / "heat"), "--size", "600", "--iterations", "100000000", "--delay-us", "2000"])[0]
        all_run(cluster)
        store.admin("quota", "set", "--quota-scope", "user", "--uid", "tester", "--max-size", "100000")
        store.admin("quota", "enable", "--quota-scope", "user", "--uid", "tester")
        record = ends_in(cluster, "large", hint(cluster, "large"), (COMPLETE, FAILED, PAUSED), 60)
        assert record.state in (FAILED, PAUSED) and record.reason == common_pb2.REASON_STORAGE_QUOTA, record
        says(job, "storage quota: ckpt-worker put: ")
        assert job.application_pid(), "the application goes on"


def a_bit_that_flips_in_an_object_is_found():
    """D-004: data and manifest; the store itself says nothing, and the job goes back to what is whole."""
    with rgw.Rgw() as store, Site(store) as site:
        cluster = site.cluster
        cluster.start()
        site.run("rot")
        all_run(cluster)
        made = [complete(cluster, "rot") for _ in range(3)]
        for record, manifest in ((made[2], False), (made[1], True)):
            keys = store.keys("ckpt", f"site/physics/heat/rot/checkpoints/{text(record)}/")
            key = next(k for k in keys if k.endswith("/MANIFEST") == manifest)
            copy = cluster.dir / "object"
            store.aws("s3", "cp", f"s3://ckpt/{key}", str(copy))
            content = bytearray(copy.read_bytes())
            content[len(content) // 2] ^= 1
            copy.write_bytes(content)
            store.aws("s3", "cp", str(copy), f"s3://ckpt/{key}")
        cluster.ctl("scrub", "--allocation", "rot")
        found = {checkpoint_text(e.checkpoint_id): e for e in wait_until(
            "all three are told", lambda: (lambda es: es if len(es) == 3 else None)([e for e in cluster.events() if e.kind in (19, 26)]), 60)}
        assert {name for name, e in found.items() if e.kind == 19} == {text(made[1]), text(made[2])}, found
        assert found[text(made[0])].new_state == 1, found
        assert cluster.allocation("rot").last_complete_checkpoint_id == made[0].checkpoint_id
        cluster.debug_check()


def where_possible(test):
    def run():
        why = rgw.missing() or (None if os.geteuid() == 0 else "only root starts jobs of another user")
        return why or test()
    run.__name__ = test.__name__
    return run


if __name__ == "__main__":
    sys.exit(tap([where_possible(test) for test in (
        checkpoints_go_to_the_store_and_back_through_a_leaders_death, the_user_finds_the_keys_nowhere,
        a_signed_request_cannot_be_changed_into_another, keys_are_exchanged_while_all_runs, outages_have_their_names_and_end,
        an_outage_that_lasts_fails_over_to_a_folder_and_back, bad_days_of_a_store_are_named_and_lose_nothing,
        a_restore_waits_for_a_store_that_answers_with_errors, unchanged_state_is_copied_by_the_store,
        a_checkpoint_over_quota_says_so, a_bit_that_flips_in_an_object_is_found)]))
