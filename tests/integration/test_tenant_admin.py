#!/usr/bin/python3
"""An admin of a tenant looks at all of its jobs, without a key of the cluster, and changes and takes none. Run by root: it becomes the users."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import BIN, checkpoint_text, operator_pb2, wait_until  # noqa: E402
from isolate import main  # noqa: E402
from test_owner import SAVES, leader_is_there, saved  # noqa: E402
from test_users import ALICE, BOB, MIB, Users  # noqa: E402


def an_admin_sees_the_tenants_jobs_and_no_more():
    """N-005: a user its own jobs, an admin of a tenant the tenant's, an operator all. The members' table counts, not an agent's word."""
    with Users(owners_register="yes", tls=True) as cluster:
        cluster.config.write_text(cluster.config.read_text() + f'tenant_admins: "chem=carl physics={BOB.pw_name}"\n')
        cluster.start()
        leader_is_there(cluster)
        cluster.register("mine", [("a", 1, MIB)], owner=ALICE.pw_name, tenant="physics")
        cluster.register("other", [("a", 1, MIB)], owner=ALICE.pw_name, tenant="chem")
        run = cluster.run_as(ALICE, "mine", "bash", "-c", SAVES)
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("mine", {}).get("state") == "running", 15)
        checkpoint = saved(cluster, ALICE, "mine")
        wait_until("it is evaluated", lambda: cluster.asks(ALICE, "explain", "mine")[0] == 0, 15, 0.5)
        code, out, error = cluster.asks(BOB, "jobs", "--tenant", "physics", "-o", "name")
        assert code == 0 and out.split() == ["mine"], (code, out, error)
        for words, said in ((("checkpoints", "mine"), checkpoint), (("checkpoint", checkpoint), "of job mine"), (("explain", "mine"), "mine"),
                            (("losses", "mine"), "mine"), (("status", "--alloc", "mine"), "cluster: RUNNING")):
            code, out, error = cluster.asks(BOB, *words)
            assert code == 0 and said in out, (words, code, out, error)
        # nothing is changed, and no file taken
        home = cluster.folder(BOB) / "home"
        for words in (("hint", "mine"), ("migrate", "mine"), ("restart", "mine"), ("end", "mine", "--for-good"), ("pin", checkpoint), ("unpin", checkpoint),
                      ("get", checkpoint, str(home)), ("import", "mine", str(cluster.folder(BOB)))):
            code, out, error = cluster.asks(BOB, *words)
            assert code in (3, 4) and not home.exists(), (words, code, out, error)
            assert code == 3 or words[0] == "import", (words, code, error)
        assert not cluster.checkpoints("mine")[-1].pinned and cluster.checkpoints("mine")[-1].checkpoint_id and run.poll() is None
        assert checkpoint_text(cluster.checkpoints("mine")[-1].checkpoint_id) == checkpoint, "nothing was asked for"
        # of no other tenant, and nobody else of this one
        for user, words, code, said in ((BOB, ("jobs", "--tenant", "chem"), 4, "no admin of tenant chem"), (BOB, ("jobs",), 4, "tenant must be given"),
                                        (ALICE, ("jobs", "--tenant", "physics"), 4, "no admin of tenant physics"), (BOB, ("checkpoints", "other"), 3, "NOT_YOURS"),
                                        (BOB, ("explain", "other"), 3, "NOT_YOURS")):
            found, out, error = cluster.asks(user, *words)
            assert found == code and said in error and out == "", (user, words, found, out, error)
        assert set(cluster.ctl("jobs", "-o", "name").stdout.split()) == {"mine", "other"}
        run.kill()


def no_measure_of_a_sensitive_job_is_told_to_who_runs_the_cluster():
    """N-005: an operator gets its states and all sums; its owner and an admin of its tenant get all of it, and so does an operator of a job that is open."""
    with Users(owners_register="yes", tls=True) as cluster:
        cluster.config.write_text(cluster.config.read_text() + f'tenant_admins: "physics={BOB.pw_name}"\n')
        cluster.start()
        leader_is_there(cluster)
        vault = cluster.dir / "vault"
        vault.mkdir()
        vault.chmod(0o1777)
        cluster.ctl("target", "put", "vault", "--prefix", str(vault), "--write", "1GB/s", "--pool", "sensitive", "--encrypted", "yes", "--hot-only", "yes")
        for name, sensitive in (("open", False), ("secret", True)):
            cluster.register(name, [("a", 1, MIB)], owner=ALICE.pw_name, sensitive=sensitive)
            run = cluster.run_as(ALICE, name, "bash", "-c", SAVES)
            wait_until("it runs", lambda name=name: cluster.jobs_of(ALICE).get(name, {}).get("state") == "running", 15)
            checkpoint = saved(cluster, ALICE, name)
            wait_until("it is evaluated", lambda name=name: cluster.asks(ALICE, "explain", name)[0] == 0, 15, 0.5)
            (record,), job = cluster.checkpoints(name), cluster.allocation(name)
            assert (record.size_bytes == 0, record.label == "", job.HasField("learned")) == (sensitive, sensitive, not sensitive), (record, job)
            assert job.last_complete_checkpoint_id == record.checkpoint_id and record.shards[0].verified, (record, job)
            assert [sum(e.size_bytes for e in cluster.events() if e.allocation_id == name) > 0] == [not sensitive], name
            for words, said in ((("checkpoints", name), "hidden"), (("job", name), "measures hidden"), (("checkpoint", checkpoint), "hidden")):
                told = cluster.ctl(*words).stdout
                assert (said in told) == sensitive, (words, told)
            for words in (("explain", name), ("losses", name)):
                done = cluster.ctl(*words, check=False)
                assert (done.returncode, "MEASURES_HIDDEN" in done.stderr) == ((7, True) if sensitive else (0, False)), (words, done)
            for user in (ALICE, BOB):
                for words in (("checkpoints", name), ("explain", name), ("losses", name)):
                    code, out, error = cluster.asks(user, *words)
                    assert code == 0 and "hidden" not in out, (user.pw_name, words, code, out, error)
            stored = {t.spec.tenant: t.stored_bytes for t in cluster.client.operator("ListTenants", operator_pb2.ListTenantsRequest()).tenants}["physics"]
            assert stored > (8 if name == "open" else 16) * MIB, "the sum has both"
            run.kill()
            run.wait()
            code, out, error = cluster.asks(ALICE, "end", name, "--now")
            assert code == 0, (out, error)
            wait_until("nothing of it runs", lambda name=name: not cluster.jobs_of(ALICE)[name]["pid"], 15)
        assert cluster.ctl("losses").returncode == 0


def a_wrong_table_is_refused_with_its_line():
    """N-005: a group is nobody for a member, which knows names of users alone."""
    with Users() as cluster:
        before = cluster.config.read_text()
        for table in ("physics", "physics=@lab", "physics=ann=bob", "/=ann"):
            cluster.config.write_text(before + f'tenant_admins: "{table}"\n')
            done = subprocess.run([str(BIN / "ckptd"), "--config", str(cluster.config), "--name", "n1", "--check-config"], capture_output=True, text=True, timeout=30)
            assert done.returncode != 0 and "tenant_admins" in done.stderr and f'"{table}"' in done.stderr and "TENANT=USER" in done.stderr, (table, done)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become two users")
        sys.exit(0)
    sys.exit(main([an_admin_sees_the_tenants_jobs_and_no_more, no_measure_of_a_sensitive_job_is_told_to_who_runs_the_cluster,
                   a_wrong_table_is_refused_with_its_line]))
