#!/usr/bin/python3
"""Sensitive data stay in their pool and are overwritten when they go, with real programs. N-003, I55."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, checkpoint_text, free_port, http_get, metric, tap, wait_until  # noqa: E402
from jobs import MIB, POLICY, all_run, complete, heat  # noqa: E402


def what_is_sensitive_stays_in_its_pool_and_is_wiped():
    with Cluster(members=1, agents=("a",), policy={**POLICY, "keep_complete": 2}) as cluster:
        cluster.start()
        refused = cluster.ctl("register", "--alloc", "s", "--tenant", "t", "--project", "p", "--node", "a:1:1MB", "--new-node", "--sensitive", check=False)
        assert refused.returncode == 4 and "POOL_REFUSED" in refused.stderr and "--pool sensitive" in refused.stderr, refused
        vault = cluster.dir / "vault"
        vault.mkdir()
        vault.chmod(0o1777)
        cluster.ctl("target", "put", "vault", "--prefix", str(vault), "--write", "1GB/s", "--pool", "sensitive", "--encrypted", "yes", "--hot-only", "yes", "--jurisdiction", "CH")
        cluster.register("s", [("a", 1, MIB)], sensitive=True)
        cluster.run_job("a", "s", heat(cluster, "s"))
        all_run(cluster)
        first = complete(cluster, "s").checkpoint_id
        kept = [complete(cluster, "s").checkpoint_id for _ in range(2)]
        assert not list(cluster.scratch.rglob("MANIFEST")), "nothing of it lies in the open"
        folder, = vault.glob(f"*/*/s/checkpoints/{checkpoint_text(first)}/part-0000")
        path = max((f for f in folder.rglob("*") if f.is_file() and f.name != "MANIFEST"), key=lambda f: f.stat().st_size)
        before = path.read_bytes()
        with open(path, "rb") as held:
            cluster.ctl("gc", "run", "s", "--yes")
            # its folder has another name, and is still there, while its files are being overwritten
            wait_until("it is deleted", lambda: not list(folder.parent.parent.glob(f"*{checkpoint_text(first)}*")), 30)
            after = held.read()
        assert len(after) == len(before) and sum(x == y for x, y in zip(before, after)) < len(before) // 8 + 64, "it was overwritten"
        refused = cluster.ctl("target", "put", "vault", "--pool", "open", check=False)
        assert refused.returncode == 4 and "POOL_NEEDED" in refused.stderr, refused
        listed = cluster.ctl("checkpoints", "s").stdout
        assert all(checkpoint_text(identifier) in listed for identifier in kept), listed
        cluster.debug_check()


def metrics_tell_of_sensitive_jobs_in_sums_alone():
    """N-005: whoever reads the metrics of a member or an agent learns sums, and of no single job whose or where it is."""
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        port = free_port()
        cluster.agent_config.write_text(cluster.agent_config.read_text() + f'http: "127.0.0.1:{port}"\n')
        cluster.start()
        vault = cluster.dir / "vault"
        vault.mkdir()
        vault.chmod(0o1777)
        cluster.ctl("target", "put", "vault", "--prefix", str(vault), "--write", "1GB/s", "--pool", "sensitive", "--encrypted", "yes", "--hot-only", "yes", "--jurisdiction", "CH")
        cluster.register("hidden-job", [("a", 1, MIB)], sensitive=True, tenant="hidden-tenant", project="hidden-project")
        cluster.run_job("a", "hidden-job", heat(cluster, "hidden-job"))
        all_run(cluster)
        complete(cluster, "hidden-job")
        api = cluster.members[0].http
        wait_until("it is counted", lambda: metric(api, "ckpt_allocations") >= 1, 10)
        for address in (api, f"127.0.0.1:{port}"):
            status, text = http_get(address, "/metrics")
            assert status == 200 and "ckpt_" in text and "hidden-" not in text, [line for line in text.splitlines() if "hidden-" in line]


if __name__ == "__main__":
    sys.exit(tap([what_is_sensitive_stays_in_its_pool_and_is_wiped, metrics_tell_of_sensitive_jobs_in_sums_alone]))
