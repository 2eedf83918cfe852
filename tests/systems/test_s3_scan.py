#!/usr/bin/python3
"""Checkpoints without a record in real object stores, Ceph's gateway and Swift's: what has the cluster's mark is found, also what the store has carried out after
everything else of it was removed, and only that goes. S2-016, S2-017, D-004."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import rgw  # noqa: E402
import s3_proxy  # noqa: E402
import swift  # noqa: E402
from cluster import BIN, metric, tap, wait_until  # noqa: E402
from jobs import all_run, hint  # noqa: E402
from test_s3 import MIB, OK, PATH, PREFIX, Site  # noqa: E402
from test_s3_cluster import Site as ClusterSite  # noqa: E402

BUCKETS = ("ckpt", "physics", "chemistry")
MARK, OTHER = "00000000000000a1", "00000000000000b2"


def scan(store, prefix, *options, mark=MARK):
    """The paths that were found, and what else was said."""
    run = subprocess.run([BIN / "ckpt-worker", "scan", "--prefix", prefix, "--cluster", mark, *options], env=store.environment(), capture_output=True, text=True,
                         timeout=120)
    assert run.returncode == OK, run
    lines = run.stdout.splitlines()
    return ([line.split(" ", 3)[3] for line in lines if line.startswith("found=")],
            dict(line.split("=", 1) for line in lines if not line.startswith("found=")))


def what_has_the_mark_is_told_and_nothing_else(store):
    with Site(store) as site:
        site.fill(("a.bin", 1000), ("b/c.bin", 2000))
        folder = PATH.rsplit("/", 1)[0]
        for name, marks in (("1-42", [MARK]), ("1-43", [OTHER]), ("1-44", [None]), ("1-45", [MARK, OTHER]), ("1-46", [MARK])):
            for part, mark in enumerate(marks):
                site.run("put", *(["--cluster", mark] if mark else []), path=f"{folder}/{name}", part=f"part-{part:04}")
        notes = site.dir / "notes"
        notes.write_text("mine")
        for key in ("pre/notes", "pre/physics/heat/job/checkpoints/notes", "pre/physics/heat/job/checkpoints/x/y/z", "elsewhere"):
            store.aws("s3", "cp", "--only-show-errors", str(notes), f"s3://ckpt/{key}")
        ours = [f"physics/heat/job/checkpoints/{name}" for name in ("1-42", "1-46")]
        found, said = scan(store, PREFIX)
        assert found == ours and (said["looked"], said["foreign"], said["denied"]) == ("5", "3", "0") and "next" not in said, (found, said)
        assert scan(store, PREFIX, "--after", f"{ours[0]}0")[0] == ours[1:]
        assert scan(store, PREFIX, mark=OTHER)[0] == ["physics/heat/job/checkpoints/1-43"]
        assert scan(store, PREFIX, "--min-age", "3600")[0] == [], "what is being written is young"
        site.run("collect", path=f"{folder}/1-42")
        assert scan(store, PREFIX)[0] == ours[1:]
        for name in ("1-43", "1-44", "1-45", "1-46"):
            site.run("collect", path=f"{folder}/{name}")
        store.aws("s3", "rm", "--recursive", "--only-show-errors", "s3://ckpt/")


def what_a_store_carries_out_late_is_found(store):
    with Site(store) as site, s3_proxy.Proxy(store.port) as proxy:
        site.fill(("a.bin", 1000), ("b.bin", 2000))
        proxy.keep_puts()
        process = site.start("put", "--cluster", MARK, AWS_ENDPOINT_URL_S3=proxy.endpoint)
        wait_until("objects are on their way", lambda: len(proxy.kept) == 2, 30)
        process.kill()
        process.wait()
        site.run("collect")
        assert scan(store, PREFIX)[0] == [] and not store.keys("ckpt")
        proxy.carry_out()
        assert len(store.keys("ckpt")) == 2
        assert scan(store, PREFIX)[0] == [PATH.removeprefix(f"{PREFIX}/")]
        assert site.run("collect")["removed"] == "1"
        assert scan(store, PREFIX)[0] == [] and not store.keys("ckpt")


def an_upload_without_objects_is_found(store):
    """What a node that died has left of its checkpoint: the list of objects is empty, and its parts take space."""
    with Site(store) as site:
        folder = PATH.rsplit("/", 1)[0]
        for name, mark in (("1-50", MARK), ("1-51", OTHER)):
            store.aws("s3api", "create-multipart-upload", "--bucket", "ckpt", "--key",
                      f"{folder.removeprefix('s3://ckpt/')}/{name}/part-0000/{mark}-0123456789abcdef/f")
        found, said = scan(store, PREFIX)
        assert found == ["physics/heat/job/checkpoints/1-50"] and (said["looked"], said["foreign"]) == ("2", "1"), (found, said)
        assert scan(store, PREFIX, "--min-age", "3600")[0] == [], "somebody may be at work"
        site.run("collect", path=f"{folder}/1-50")
        assert scan(store, PREFIX)[0] == [] and len(store.uploads("ckpt")) == 1
        site.run("collect", path=f"{folder}/1-51")
        assert not store.uploads("ckpt")


def a_bucket_for_each_tenant_is_looked_through(store):
    with Site(store) as site:
        site.fill(("a.bin", 1000))
        paths = ["chemistry/acid/job/checkpoints/1-2", "physics/heat/job/checkpoints/1-1", "physics/heat/job/checkpoints/1-3"]
        for path in paths:
            subprocess.run([BIN / "ckpt-worker", "put", "--prefix", "s3://", "--path", f"s3://{path}", "--part", "part-0000", "--source", site.source,
                            "--cluster", MARK], env=store.environment(), check=True, capture_output=True)
        assert scan(store, "s3://")[0] == paths
        assert scan(store, "s3://", "--after", f"{paths[1]}0")[0] == paths[2:]
        found, said = scan(store, "s3://", mark=OTHER)
        assert found == [] and (said["looked"], said["foreign"], said["denied"]) == ("3", "3", "0"), (found, said)
        for bucket in ("chemistry", "physics"):
            store.aws("s3", "rm", "--recursive", "--only-show-errors", f"s3://{bucket}/")


def a_cluster_finds_what_its_store_carried_out_late():
    """The whole way: a job ends while its checkpoint is on its way, the store carries it out when nobody knows of it any more, an operator sees it and lets it go."""
    with rgw.Rgw(buckets=("physics",)) as store, s3_proxy.Proxy(store.port) as proxy, \
            ClusterSite(store, prefix="s3://", policy={"orphan_age": "1ms", "orphan_scan_interval": "1h", "retention": "1s", "checkpoint_timeout": "5s"}) as site:
        cluster = site.cluster
        for path in (cluster.config, cluster.agent_config):
            path.write_text(path.read_text().replace(store.endpoint, proxy.endpoint).replace('buckets: "ckpt"', 'buckets: "*"'))
        cluster.start()
        site.run("late")
        all_run(cluster)
        proxy.keep_puts()
        hint(cluster, "late")
        wait_until("its objects are on their way", lambda: proxy.kept, 30)
        proxy.keeps = False
        cluster.ctl("end", "late", "--yes")
        wait_until("the job has left", lambda: "late" not in cluster.ctl("jobs", "--all", "-o", "name").stdout.split(), 60, 0.2)
        wait_until("nothing of it lies there", lambda: not store.keys("physics", "heat/"), 30, 0.5)
        count = proxy.carry_out()
        assert count > 0 and len(store.keys("physics", "heat/")) == count
        cluster.ctl("gc", "orphans", "--scan")

        def listed():
            return json.loads(cluster.ctl("gc", "orphans", "-o", "json").stdout)["orphans"]
        orphan, = wait_until("it is found", listed, 60, 0.5)
        assert orphan["path"].startswith("s3://physics/heat/late/checkpoints/") and int(orphan["size_bytes"]) > 0, orphan
        assert metric(cluster.wait_leader().http, "ckpt_orphan_bytes") > 0
        cluster.ctl("gc", "run", "--orphans", "--yes")
        wait_until("it is gone", lambda: not store.keys("physics", "heat/"), 60, 0.5)
        wait_until("nothing is listed", lambda: not listed(), 10, 0.5)
        cluster.debug_check()


CASES = [what_has_the_mark_is_told_and_nothing_else, what_a_store_carries_out_late_is_found, an_upload_without_objects_is_found, a_bucket_for_each_tenant_is_looked_through]


def on_another_make():
    why = swift.missing()
    if why is not None:
        return why
    with swift.Swift(buckets=BUCKETS) as store:
        for case in CASES:
            case(store)
    return None


def on_ceph():
    with rgw.Rgw(buckets=BUCKETS) as store:
        for case in CASES:
            case(store)


def unless_missing(run):
    def case():
        return rgw.missing() or run()
    case.__name__, case.__doc__ = run.__name__, run.__doc__
    return case


if __name__ == "__main__":
    sys.exit(tap([unless_missing(on_ceph), on_another_make, unless_missing(a_cluster_finds_what_its_store_carried_out_late)]))
