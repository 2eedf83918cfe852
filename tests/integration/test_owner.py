#!/usr/bin/python3
"""What the owner of a job does without a key of the cluster: the verbs of ckpt-run over the socket of the node's agent. Run by root: it becomes the
users."""
import contextlib
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ROOT as ROOT_FOLDER, Client, broker_pb2, checkpoint_text, common_pb2, metric, operator_pb2, operator_pb2_grpc  # noqa: E402
from cluster import wait_until  # noqa: E402
from isolate import main  # noqa: E402
from small_store import SmallStore  # noqa: E402
from test_recover import s3_section  # noqa: E402
from test_users import ALICE, BOB, COMPLETED, GOES_ON, MIB, RUNNING, Users, ended, requested  # noqa: E402

ROOT = pwd.getpwuid(0)
FAILED = common_pb2.ALLOCATION_STATE_FAILED
REQUEUED = common_pb2.ALLOCATION_STATE_REQUEUED


def leader_is_there(cluster):
    wait_until("the agent has its leader", lambda: json.loads(cluster.asks(ALICE, "status", "-o", "json")[1])["leader"], 10)


def heat(cluster, user, name):
    run = cluster.run_as(user, name, str(cluster.bin / "heat"), "--size", "64", "--iterations", "100000000", "--delay-us", "2000",
                         "--output", str(cluster.folder(user) / "r"))
    wait_until("it runs", lambda: cluster.jobs_of(user).get(name, {}).get("state") == "running", 15)
    return run


def the_owner_asks_looks_and_pins_and_nobody_else():
    """V-014, S3-038, S3-055, N-005: with certificates everywhere, and none for the users. Each verb does what ckptctl does; of another user's job it
    says the same as of none."""
    with Users(owners_register="yes", tls=True) as cluster:
        cluster.start()
        leader_is_there(cluster)
        words = ("--tenant", "physics", "--project", "heat")
        assert cluster.asks(ALICE, "register", "--alloc", "mine", *words)[0] == 0
        run = heat(cluster, ALICE, "mine")
        code, out, error = cluster.asks(ALICE, "hint", "mine", "--wait")
        assert code == 0 and "COMPLETE" in out, (code, out, error)
        record = cluster.checkpoints("mine")[-1]
        assert record.state == common_pb2.CHECKPOINT_STATE_COMPLETE and record.purpose == common_pb2.PURPOSE_MANUAL, record
        saved = checkpoint_text(record.checkpoint_id)
        code, out, error = cluster.asks(ALICE, "checkpoints", "mine")
        assert code == 0 and saved in out, (code, out, error)
        code, out, error = cluster.asks(ALICE, "checkpoint", saved)
        assert code == 0 and f"CHECKPOINT {saved} of job mine" in out and "an operator's ckptctl" not in out, (code, out, error)
        code, out, error = cluster.asks(ALICE, "pin", saved)
        assert code == 0 and cluster.checkpoints("mine")[-1].pinned, (code, out, error)
        assert cluster.asks(ALICE, "unpin", saved)[0] == 0 and not cluster.checkpoints("mine")[-1].pinned
        wait_until("it is evaluated", lambda: cluster.asks(ALICE, "explain", "mine")[0] == 0, 15, 0.5)
        code, out, error = cluster.asks(ALICE, "explain", "mine", "-o", "json")
        assert code == 0 and json.loads(out)["explanation"]["allocation_id"] == "mine", (code, out, error)
        code, out, error = cluster.asks(ALICE, "losses", "mine")
        assert code == 0 and "mine" in out and "cluster" not in out, (code, out, error)
        # root of the node may, and another user may nothing, and learns nothing
        assert cluster.asks(ROOT, "checkpoints", "mine")[0] == 0
        cluster.register("elsewhere", [("b", 1, MIB)], owner=ALICE.pw_name)
        code, _, error = cluster.asks(ROOT, "checkpoints", "elsewhere")
        assert code == 3 and "NOT_YOURS" in error, (code, error)
        assert cluster.asks(ALICE, "checkpoints", "elsewhere")[0] == 0
        before = cluster.allocation("mine")
        for verb in ("hint", "restart", "migrate", "explain", "losses", "checkpoints", "end"):
            code, out, error = cluster.asks(BOB, verb, "mine")
            assert code == 3 and out == "", (verb, code, out, error)
            nobodys = cluster.asks(BOB, verb, "none")
            assert error.replace(" mine", " none") == nobodys[2] and nobodys[0] == 3, (verb, error, nobodys)
        for verb in ("pin", "unpin", "checkpoint"):
            code, out, error = cluster.asks(BOB, verb, saved)
            nobodys = cluster.asks(BOB, verb, "1-999")
            assert code == 3 and out == "" and error.replace(saved, "1-999") == nobodys[2] and nobodys[0] == 3, (verb, code, error, nobodys)
        assert cluster.asks(BOB, "explain", "--checkpoint", saved)[0] == 3
        after = cluster.allocation("mine")
        assert (after.state, after.active_checkpoint_id, after.checkpoint_count) == (before.state, before.active_checkpoint_id, before.checkpoint_count)
        # moved, ended, brought back
        code, out, error = cluster.asks(ALICE, "migrate", "mine")
        assert code == 0, (code, out, error)
        wait_until("it is requeued", lambda: cluster.allocation("mine").state == REQUEUED, 20)
        run.kill()
        run.wait()
        code, out, error = cluster.asks(ALICE, "restart", "mine")
        assert code == 0, (code, out, error)
        saved = checkpoint_text(cluster.allocation("mine").last_complete_checkpoint_id)
        run = heat(cluster, ALICE, "mine")
        run.send_signal(signal.SIGTERM)
        run.wait(20)
        wait_until("its end is told", lambda: cluster.allocation("mine").state not in GOES_ON, 15)
        code, out, error = cluster.asks(ALICE, "restart", "mine")
        assert code == 0 and f"it begins from checkpoint {saved}" in out, (code, out, error)
        run = heat(cluster, ALICE, "mine")
        run.send_signal(signal.SIGTERM)
        run.wait(20)
        wait_until("its end is told", lambda: cluster.allocation("mine").state not in GOES_ON, 15)
        code, out, error = cluster.asks(ALICE, "hint", "mine")
        assert code == 4 and "ALLOCATION_ENDED" in error and "ckptctl" not in error, (code, out, error)


def words_that_are_wrong_say_what_is_right():
    with Users() as cluster:
        cluster.start()
        leader_is_there(cluster)
        for words, code, said in ((("hint",), 125, "hint needs JOB"), (("hint", "a", "b"), 125, "ckpt-run hint --help"),
                                  (("hint", "mine", "--after", "STOP"), 125, "unknown option --after"),
                                  (("restart", "mine", "--node", "a:1"), 125, "unknown option --node"),
                                  (("losses", "--tenant", "physics"), 125, "unknown option --tenant"),
                                  (("pin", "mine"), 125, "not a checkpoint id"), (("checkpoints", "none"), 3, "NOT_YOURS")):
            found, out, error = cluster.asks(ALICE, *words)
            assert found == code and said in error and "try: ckptctl" not in error, (words, found, error)
        for verb in ("hint", "restart", "explain", "losses", "checkpoints", "checkpoint", "pin", "unpin"):
            code, out, error = cluster.asks(ALICE, verb, "--help")
            assert code == 0 and f"usage: ckpt-run {verb}" in out and "--socket" in out and "endpoints" not in out, out
        cluster.agents["a"].kill()
        code, out, error = cluster.asks(ALICE, "hint", "mine")
        assert code == 125 and "the agent at" in error and "ckpt-agentd" in error, (code, error)


def asked(call, fields, metadata=()):
    """What the leader says to a method that is called with metadata."""
    try:
        call(fields, metadata=metadata, timeout=5)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def an_agent_speaks_for_users_of_its_own_node_and_says_for_whom():
    """N-005, K-007: what an agent's certificate may ask is somebody's of its node, with the fields of an owner; an operator stays what it was."""
    with Users(owners_register="yes", tls=True) as cluster:
        cluster.start()
        leader_is_there(cluster)
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        cluster.register("number", [("a", 1, MIB)], owner="4711")
        agent = Client([m.api for m in cluster.members], cluster.site.credentials("agent-a"))
        stub = agent.stub("BrokerService") if hasattr(agent, "stub") else None
        channel = agent.channel(cluster.leader().api)
        from ckpt.v1 import broker_pb2_grpc
        stub = broker_pb2_grpc.BrokerServiceStub(channel)
        get = broker_pb2.GetAllocationRequest(allocation_id="job")
        word = [("ckpt-owner-node", "a"), ("ckpt-owner", ALICE.pw_name), ("ckpt-owner-uid", str(ALICE.pw_uid)), ("ckpt-owner-known", "no")]

        def said(**changes):
            return [(k, changes.get(k[5:].replace("-", "_"), v)) for k, v in word if changes.get(k[5:].replace("-", "_"), v) is not None]
        denied, none = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND
        assert asked(stub.GetAllocation, get, word)[0] == grpc.StatusCode.OK
        assert asked(stub.GetAllocation, get)[0] == denied
        assert asked(stub.GetAllocation, get, said(owner_node="b"))[0] == denied
        assert asked(stub.GetAllocation, get, said(owner_uid=None))[0] == denied
        assert asked(stub.GetAllocation, get, said(owner=BOB.pw_name, owner_uid=str(BOB.pw_uid), owner_known="yes"))[0] == none
        assert asked(stub.GetAllocation, broker_pb2.GetAllocationRequest(), word)[0] == none
        # a user whose name is digits is not the user of that number
        number = broker_pb2.GetAllocationRequest(allocation_id="number")
        assert asked(stub.GetAllocation, number, said(owner="4711", owner_uid="1"))[0] == none
        assert asked(stub.GetAllocation, number, said(owner="carl", owner_uid="4711"))[0] == grpc.StatusCode.OK
        hint = broker_pb2.RequestCheckpointRequest(request_id=uuid.uuid4().hex, allocation_id="job", after=common_pb2.AFTER_CHECKPOINT_STOP)
        code, text = asked(stub.RequestCheckpoint, hint, word)
        assert code == denied and "after must not be given" in text, text
        restart = broker_pb2.RestartAllocationRequest(request_id=uuid.uuid4().hex, allocation_id="job", nodes=[common_pb2.NodeShare(node_id="b")])
        assert asked(stub.RestartAllocation, restart, word)[0] == denied
        for method, fields in (("ListAllocations", broker_pb2.ListAllocationsRequest()), ("RegisterAllocation", broker_pb2.RegisterAllocationRequest()),
                               ("UpdateAllocation", broker_pb2.UpdateAllocationRequest(allocation_id="job"))):
            assert asked(getattr(stub, method), fields, word)[0] == denied, method
        operators = operator_pb2_grpc.OperatorServiceStub(channel)
        assert asked(operators.GetLosses, operator_pb2.GetLossesRequest(), word)[0] == none
        assert asked(operators.GetLosses, operator_pb2.GetLossesRequest(tenant="t"), word)[0] == denied
        assert cluster.allocation("job").spec.owner == ALICE.pw_name
        # who asks in a loop is told the limit and when to ask again, and nobody else is held up
        told = [asked(stub.GetAllocation, get, word) for _ in range(200)]
        limited = [text for code, text in told if code == grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert limited and re.search(r"RATE_LIMITED: .* 600 times a minute.* ask again in \d+ ms", limited[0]), told[-1]
        assert asked(stub.GetAllocation, get, said(owner=BOB.pw_name, owner_uid=str(BOB.pw_uid)))[0] == none
        assert metric(cluster.leader().http, "ckpt_rate_limited_total") == len(limited)


def what_a_user_forges_changes_nobody_elses_jobs():
    """N-005: an environment, metadata of the own, and a socket of somebody else's in the agent's place."""
    with Users() as cluster:
        cluster.start()
        leader_is_there(cluster)
        cluster.register("hers", [("a", 1, MIB)], owner=ALICE.pw_name)
        environment = {"PATH": os.environ["PATH"], "CKPT_ENDPOINTS": cluster.leader().api, "CKPT_ALLOCATION_ID": "hers", "CKPT_NODE_ID": "a",
                       "USER": ALICE.pw_name, "LOGNAME": ALICE.pw_name, "CKPT_AGENT_SOCKET": str(cluster.agents["a"].socket)}
        done = subprocess.run([str(cluster.bin / "ckpt-run"), "restart", "hers", "--socket", str(cluster.agents["a"].socket)], user=BOB.pw_uid,
                              group=BOB.pw_gid, extra_groups=[], env=environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 3 and "NOT_YOURS" in done.stderr, done
        script = ("import sys, grpc; sys.path.insert(0, sys.argv[2]); from ckpt.v1 import broker_pb2, broker_pb2_grpc\n"
                  "stub = broker_pb2_grpc.BrokerServiceStub(grpc.insecure_channel('unix:' + sys.argv[1]))\n"
                  "try:\n stub.EndAllocation(broker_pb2.EndAllocationRequest(request_id='x', allocation_id='hers'), timeout=10,\n"
                  f"  metadata=[('ckpt-owner', '{ALICE.pw_name}'), ('ckpt-owner-uid', '{ALICE.pw_uid}'), ('ckpt-owner-node', 'a')])\n print('OK')\n"
                  "except grpc.RpcError as e: print(e.code().name)")
        done = subprocess.run([sys.executable, "-c", script, str(cluster.agents["a"].socket), str(cluster.dir / "pygen")], user=BOB.pw_uid,
                              group=BOB.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=30)
        assert done.stdout.strip() == "NOT_FOUND", done
        assert cluster.state("hers") in GOES_ON
        squat = cluster.folder(BOB) / "agent.sock"
        listener = subprocess.Popen([sys.executable, "-c", "import socket, sys, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(5)\n"
                                     "import os; os.chmod(sys.argv[1], 0o777)\nwhile True: s.accept()[0].recv(1) and sys.exit(9)", str(squat)],
                                    user=BOB.pw_uid, group=BOB.pw_gid, extra_groups=[])
        wait_until("it listens", lambda: squat.exists() and squat.stat().st_mode & 0o777 == 0o777, 10)
        for words in (("hint", "hers"), ("status",), ("end", "hers"), ("register", "--alloc", "x", "--tenant", "t", "--project", "p")):
            done = subprocess.run([str(cluster.bin / "ckpt-run"), *words, "--socket", str(squat)], user=ALICE.pw_uid, group=ALICE.pw_gid,
                                  extra_groups=[], capture_output=True, text=True, timeout=30)
            assert done.returncode == 125 and f"listens as uid {BOB.pw_uid}" in done.stderr, (words, done)
        assert listener.poll() is None, "it was told something"
        listener.kill()
        listener.wait()


# Saves a counter, a file of nearly nothing but holes, and a link; as the README's scripts do.
SAVES = r"""
n=0; [ -z "$CKPT_RESTORE_DIR" ] || n=$(cat "$CKPT_RESTORE_DIR/n")
line() { sed -n "s/^$1=//p" "$CKPT_DIR/request"; }
save() { hint=$(line hint) && d=$(line directory) && echo $n > "$d/n" && mkdir "$d/deep" && ln -s n "$d/last" &&
    truncate -s 8M "$d/deep/sparse" && echo end >> "$d/deep/sparse" && chmod 600 "$d/deep/sparse" &&
    printf 'hint=%s\nbytes=%s\nstep=%s\nstatus=0\n' $hint $(( $(stat -c %s "$d/n") + 8388612 )) 7 > "$CKPT_DIR/new" &&
    mv "$CKPT_DIR/new" "$CKPT_DIR/done"; }
trap save USR1
while :; do sleep 0.5; n=$((n + 1)); done
"""


def saved(cluster, user, name):
    code, out, error = cluster.asks(user, "hint", name, "--wait")
    assert code == 0, (code, out, error)
    return checkpoint_text(cluster.checkpoints(name)[-1].checkpoint_id)


def is_home(folder, user):
    """As it was written: contents, modes, the link, and little room for the holes; the user's own."""
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
    assert files == ["deep", "deep/sparse", "last", "n"], files
    sparse = (folder / "deep" / "sparse").stat()
    assert (sparse.st_size, sparse.st_mode & 0o777, sparse.st_uid) == (8388612, 0o600, user.pw_uid), sparse
    assert sparse.st_blocks * 512 <= 1 << 20, sparse.st_blocks
    assert (folder / "deep" / "sparse").read_bytes() == bytes(8 << 20) + b"end\n" and os.readlink(folder / "last") == "n"
    assert (folder / "n").read_text().strip().isdigit()


def a_checkpoint_is_brought_home_from_any_target():
    """V-014: lz4 unpacked and sparse as it was, of a POSIX target; from an object store without its keys; of two nodes, a folder for each."""
    with Users(target={"compression": "lz4"}) as cluster:
        cluster.start()
        leader_is_there(cluster)
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        run = cluster.run_as(ALICE, "job", "bash", "-c", SAVES)
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("job", {}).get("state") == "running", 15)
        checkpoint = saved(cluster, ALICE, "job")
        assert list(cluster.scratch.rglob("sparse.lz4")), "it is stored compressed"
        home = cluster.folder(ALICE) / "home"
        code, out, error = cluster.asks(ALICE, "get", checkpoint, str(home))
        assert code == 0 and f"checkpoint {checkpoint} of job job is at {home}" in out and "step 7" in out, (code, out, error)
        is_home(home, ALICE)
        # a folder that holds something, a link, a folder of another's, one above that everybody writes, no id, another user's
        (home / "mine").write_text("x")
        os.chown(home / "mine", ALICE.pw_uid, ALICE.pw_gid)
        before = sorted(p.name for p in home.iterdir())
        code, _, error = cluster.asks(ALICE, "get", checkpoint, str(home))
        assert code == 4 and "holds something" in error and sorted(p.name for p in home.iterdir()) == before, (code, error)
        inner = cluster.folder(ALICE) / "inner"
        inner.mkdir()
        os.chown(inner, ALICE.pw_uid, ALICE.pw_gid)
        trap = cluster.folder(BOB) / "trap"
        os.symlink(inner, trap)
        code, _, error = cluster.asks(ALICE, "get", checkpoint, str(trap))
        assert code == 4 and "is a link" in error and not list(inner.iterdir()), (code, error)
        os.symlink(cluster.folder(BOB), cluster.folder(ALICE) / "out")
        code, _, error = cluster.asks(ALICE, "get", checkpoint, str(cluster.folder(ALICE) / "out"))
        assert code == 4 and "is a link" in error, (code, error)
        bobs = cluster.folder(BOB) / "empty"
        bobs.mkdir(mode=0o777)
        bobs.chmod(0o777)
        os.chown(bobs, BOB.pw_uid, BOB.pw_gid)
        code, _, error = cluster.asks(ALICE, "get", checkpoint, str(bobs))
        assert code == 4 and f"belongs to uid {BOB.pw_uid}" in error and not list(bobs.iterdir()), (code, error)
        code, _, error = cluster.asks(ALICE, "get", checkpoint, str(bobs / "hers"))
        assert code == 4 and "written by everybody" in error, (code, error)
        code, _, error = cluster.asks(BOB, "get", checkpoint, str(cluster.folder(BOB) / "b"))
        nobodys = cluster.asks(BOB, "get", "1-999", str(cluster.folder(BOB) / "b"))
        assert code == 3 and error.replace(checkpoint, "1-999") == nobodys[2] and nobodys[0] == 3, (code, error, nobodys)
        assert not (cluster.folder(BOB) / "b").exists()
        assert cluster.asks(ALICE, "get", "job", "/tmp/x")[0] == 125
        # a damaged one is refused, and nothing of it is left
        part = next(cluster.scratch.rglob("sparse.lz4"))
        part.write_bytes(part.read_bytes()[:-1] + b"x")
        code, _, error = cluster.asks(ALICE, "get", checkpoint, str(cluster.folder(ALICE) / "second"))
        assert code == 4 and "cannot be brought" in error and not (cluster.folder(ALICE) / "second").exists(), (code, error)
        run.kill()
    with SmallStore() as store, Users(target={"kind": "s3", "prefix": '"s3://ckpt/site"'}) as cluster:
        s3_section(cluster, store)
        cluster.start()
        leader_is_there(cluster)
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        run = cluster.run_as(ALICE, "job", "bash", "-c", SAVES)
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("job", {}).get("state") == "running", 15)
        checkpoint = saved(cluster, ALICE, "job")
        home = cluster.folder(ALICE) / "home"
        code, out, error = cluster.asks(ALICE, "get", checkpoint, str(home))
        assert code == 0, (code, out, error)
        is_home(home, ALICE)
        run.kill()
    with Users(agents=("a", "b")) as cluster:
        cluster.start()
        leader_is_there(cluster)
        cluster.register("job", [("a", 1, MIB), ("b", 1, MIB)], owner=ALICE.pw_name)
        runs = [cluster.run_as(ALICE, "job", "bash", "-c", SAVES, node=node) for node in ("a", "b")]
        wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 15)
        checkpoint = saved(cluster, ALICE, "job")
        home = cluster.folder(ALICE) / "home"
        code, out, error = cluster.asks(ALICE, "get", checkpoint, str(home), node="b")
        assert code == 0 and "of 2 parts" in out, (code, out, error)
        for part in ("part-0000", "part-0001"):
            is_home(home / part, ALICE)
        code, out, error = cluster.asks(ALICE, "get", checkpoint, str(home))
        assert code == 0, ("the same again is fine", code, out, error)
        for run in runs:
            run.kill()


def a_job_that_does_not_run_says_the_next_step_and_ends_as_its_owner_says():
    """V-014: what status says of a job that waits, failed, is a spare's or runs elsewhere is the cluster's word, with a line that works; end ends what
    waits, for good."""
    with Users(owners_register="yes", agents=("a", "b", "c")) as cluster:
        cluster.start()
        leader_is_there(cluster)
        where = ("--tenant", "physics", "--project", "heat", "--gpus", "1", "--grace", "1s")
        assert cluster.asks(ALICE, "register", "--alloc", "mine", *where)[0] == 0
        code, out, _ = cluster.asks(ALICE, "status")
        assert code == 0 and "cluster: STARTING since" in out and "    on a\n" in out, out
        run = heat(cluster, ALICE, "mine")
        code, out, _ = cluster.asks(ALICE, "status", "--alloc", "mine", node="b")
        assert code == 0 and "job mine: nothing of it is on this node" in out and "cluster: RUNNING since" in out and "    on a\n" in out, out
        assert cluster.asks(BOB, "status", "--alloc", "mine", node="b")[0] == 3
        code, out, error = cluster.asks(ALICE, "end", "mine", node="b")
        assert code == 4 and "ckpt-run end mine --for-good" in error and "on a" in error, (code, out, error)
        checkpoint = saved(cluster, ALICE, "mine")
        # a spare
        spare = subprocess.Popen([str(cluster.bin / "ckpt-run"), "--stay", "--alloc", "mine", "--work-dir", str(cluster.folder(ALICE) / "w-b"),
                                  "--socket", str(cluster.agents["b"].socket), "--", "true"], user=ALICE.pw_uid, group=ALICE.pw_gid, extra_groups=[],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("it says so", lambda: "a ckpt-run of it on this node (b) waits as a spare (--stay)" in
                   cluster.asks(ALICE, "status", "--alloc", "mine", node="b")[1], 15, 0.3)
        spare.kill()
        spare.wait()
        # moved: it waits for somebody
        assert cluster.asks(ALICE, "migrate", "mine")[0] == 0
        wait_until("it is requeued", lambda: cluster.allocation("mine").state == REQUEUED, 20)
        run.kill()
        run.wait()
        wait_until("its ckpt-run has gone", lambda: cluster.jobs_of(ALICE)["mine"]["state"] == "ended", 10)
        code, out, _ = cluster.asks(ALICE, "status", "--alloc", "mine")
        assert code == 0 and "cluster: REQUEUED since" in out and "ckpt-run end mine" in out and "ckptctl job" not in out, out
        code, out, error = cluster.asks(ALICE, "end", "mine")
        assert code == 0 and "job mine: ended for good" in out and "cluster: COMPLETED" in out, (code, out, error)
        assert cluster.allocation("mine").state == COMPLETED
        # the line that it says, word by word, registers the next one
        line = next(text.strip() for text in out.splitlines() if text.strip().startswith("ckpt-run register"))
        assert "--alloc mine-2 --continues mine " in line, line
        code, out, error = cluster.asks(ALICE, *line.split()[1:])
        assert code == 0, (line, code, out, error)
        continued = cluster.allocation("mine-2")
        assert checkpoint_text(continued.restart_checkpoint_id) >= checkpoint and continued.spec.grace_ms == 1000 and continued.spec.nodes[0].gpu_count == 1
        code, out, _ = cluster.asks(ALICE, "status", "--alloc", "mine")
        assert code == 0 and "job mine-2 goes on from its checkpoints" in out, out
        # one that starts for a job that has ended is told the owner's words
        refused = cluster.run_as(ALICE, "mine", "true")
        assert refused.wait(30) == 125 and "(ckpt-run register --alloc NEW --continues mine)" in (text := refused.stderr.read()), text
        # one that failed
        failing = cluster.run_as(ALICE, "mine-2", "sh", "-c", "kill -9 $$")
        failing.wait(60)
        wait_until("it has failed", lambda: cluster.allocation("mine-2").state in (FAILED, REQUEUED), 20)
        code, out, _ = cluster.asks(ALICE, "status", "--alloc", "mine-2")
        assert code == 0 and ("cluster: FAILED" in out or "cluster: REQUEUED" in out) and "ckpt-run" in out and "ckptctl" not in out, out
        # one that was never started is ended by whoever has it, on any node
        assert cluster.asks(ALICE, "register", "--alloc", "idle", *where)[0] == 0
        assert cluster.asks(BOB, "end", "idle")[0] == 3 and cluster.state("idle") in GOES_ON
        assert cluster.asks(ALICE, "end", "idle", node="c")[0] == 0 and cluster.state("idle") == COMPLETED


def a_job_of_several_nodes_begins_when_its_owners_ckpt_runs_wait():
    """V-014, S5-013: until then the other nodes are names: their job goes on, their count stays, nothing is ordered there. Bob cannot start it, and a node from
    which no agent has spoken is none."""
    with Users(owners_register="yes", tls=True, agents=("a", "b", "c")) as cluster:
        cluster.start()
        leader_is_there(cluster)
        cluster.register("bobs", [("b", 1, MIB)], owner=BOB.pw_name)
        bobs = cluster.run_as(BOB, "bobs", "bash", "-c", SAVES, node="b")
        wait_until("bob's runs", lambda: cluster.allocation("bobs").state == RUNNING, 15)
        words = ("register", "--alloc", "both", "--tenant", "physics", "--project", "heat", "--gpus", "1", "--grace", "1s")
        for extra, code, said in ((("--node", "nowhere:1"), 4, "no agent has ever spoken from node nowhere"), (("--node", "b:x"), 125, "--node b: GPUs"),
                                  (("--node", "../b"), 125, '--node NODE[:GPUS]: "../b" is not 1 to 128'), (("--period", "1s"), 125, "must be at least 1m"),
                                  (("--node", "b", "--restart", "manual"), 4, "started by the broker"), (("--strategy", "best"), 125, "is not one of auto"),
                                  (("--requeue", "sometimes"), 125, "on_node_failure"), (("--staging", "tape"), 125, "local, direct, memory"),
                                  (("--attr", "checkpoint_exit_code"), 125, "--attr must be NAME=VALUE"), (("--attr", "checkpoint_exit_code=0"), 4, "CHECKPOINT_EXIT_FINAL")):
            found, out, error = cluster.asks(ALICE, *words, *extra)
            assert found == code and said in error, (extra, found, error)
        assert cluster.asks(ALICE, *words[:2], "saves", *words[3:], "--attr", "checkpoint_exit_code=85", "--attr", "transfer_checkpoint_files=a,b")[0] == 0
        saves = cluster.allocation("saves").spec
        assert (saves.attributes, saves.profile) == ("checkpoint_exit_code=85\ntransfer_checkpoint_files=a,b", "file"), saves
        assert cluster.asks(ALICE, "end", "saves", "--for-good")[0] == 0
        code, out, error = cluster.asks(ALICE, *words, "--node", "b:2", "--period", "10m", "--strategy", "manual", "--requeue", "always", "--restart",
                                        "auto", "--restore", "all", "--staging", "local", "--on-hang", "restart")
        assert code == 0 and "registered for 2 nodes" in out, (code, out, error)
        assert "its period 10m00s is below the policy's minimal interval 1h00m: it is checkpointed at most once in 1h00m" in error, error
        both = cluster.allocation("both")
        assert both.state == REQUEUED and [(n.node_id, n.gpu_count) for n in both.spec.nodes] == [("a", 1), ("b", 2)], both
        assert (both.spec.period_ms, both.spec.strategy, both.spec.requeue_policy, both.spec.restore, both.spec.staging, both.spec.preemption_class) == \
            (600000, common_pb2.STRATEGY_MANUAL, common_pb2.REQUEUE_POLICY_ALWAYS, common_pb2.RESTORE_MODE_ALL, common_pb2.STAGING_LOCAL, 0), both.spec
        nodes = {row["node_id"]: row for row in json.loads(cluster.ctl("nodes", "-o", "json").stdout)["nodes"]}
        assert nodes["b"]["allocation_count"] == 1 and nodes["a"].get("allocation_count", 0) == 0, nodes
        intruder = cluster.run_as(BOB, "both", "true", node="c")
        assert intruder.wait(30) == 125 and f"user {ALICE.pw_name}" in intruder.stderr.read()
        first = cluster.run_as(ALICE, "both", "bash", "-c", SAVES)
        wait_until("it says for whom it waits", lambda: "1 of 2 nodes wait" in cluster.asks(ALICE, "status", "--alloc", "both")[1], 20, 0.3)
        assert cluster.allocation("both").state == REQUEUED and cluster.allocation("bobs").state == RUNNING and bobs.poll() is None
        second = cluster.run_as(ALICE, "both", "bash", "-c", SAVES, node="b")
        wait_until("it runs on both", lambda: cluster.allocation("both").state == RUNNING, 30)
        assert [n.node_id for n in cluster.allocation("both").spec.nodes] == ["a", "b"] and cluster.allocation("bobs").state == RUNNING
        assert saved(cluster, ALICE, "both") and bobs.poll() is None
        for run in (first, second, bobs):
            run.kill()
        cluster.debug_check()


def files_that_were_written_before_say_of_when_they_are():
    """V-014: a wrapper hands over what its program wrote two seconds before; `lost` and the record count from then."""
    with Users() as cluster:
        cluster.start()
        leader_is_there(cluster)
        cluster.register("job", [("a", 1, MIB)], owner=ALICE.pw_name)
        said = "at=$(( ($(date +%s) - 2) * 1000 )); echo $at > \"$CKPT_DIR/at\"; "
        run = cluster.run_as(ALICE, "job", "bash", "-c", SAVES.replace("save() { ", "save() { " + said).replace(
            "status=0\\n'", "status=0\\nsaved_at=%s\\n'").replace(" 7 > ", " 7 $at > "))
        wait_until("it runs", lambda: cluster.jobs_of(ALICE).get("job", {}).get("state") == "running", 15)
        time.sleep(4)
        saved(cluster, ALICE, "job")
        record = cluster.checkpoints("job")[-1]
        [at] = [int(path.read_text()) for path in cluster.folder(ALICE).rglob("at")]
        assert abs(record.snapshot_at_ms - at) < 100, (record.snapshot_at_ms, at)
        assert abs(cluster.jobs_of(ALICE)["job"]["last_checkpoint_at_ms"] - at) < 100
        assert abs(cluster.allocation("job").last_complete_snapshot_at_ms - record.snapshot_at_ms) < 2
        run.kill()


# A loop like the README's: it says that a checkpoint is welcome after each epoch, and goes on from its files with ckpt-run and without.
LOOP = r"""
import os, pathlib, sys, time
import ckptapp
part, parts = int(os.environ.get("CKPT_PART", 0)), int(os.environ.get("CKPT_PARTS", 1))
ckpt = ckptapp.open(rank=part, ranks=parts, local_rank=0, local_ranks=1)
saved = sorted(pathlib.Path(ckpt.restore_dir).glob("rank-*/step")) if ckpt.restore_dir else []
start = int(saved[0].read_text()) if saved else 0
print("begins at", start, flush=True)
if not ckpt.active:
    sys.exit(0)
for step in range(start + 1, 1000000):
    if ckpt.barrier(step):
        with ckpt.saving(step) as folder:
            pathlib.Path(folder, "step").write_text(str(step))
    if step % EPOCH == 0 and ckpt.request():
        print("asked at", step, flush=True)
    time.sleep(0.01)
"""


def an_owners_hour_without_a_key():
    """V-014: register, run, ask, lose a node, look, take the checkpoint home, go on under another id; each with words of ckpt-run alone, with
    certificates that the owner has none of. The program asks as well, at the end of an epoch."""
    with Users(owners_register="yes", tls=True, agents=("a", "b")) as cluster:
        cluster.start()
        leader_is_there(cluster)
        shutil.copy(ROOT_FOLDER / "python" / "ckptapp.py", cluster.dir / "ckptapp.py")
        (cluster.dir / "ckptapp.py").chmod(0o644)
        environment = {**os.environ, "PYTHONPATH": str(cluster.dir)}

        def line(node, name, epoch):
            log = open(cluster.dir / f"{name}-{node}.log", "a")
            work = cluster.folder(ALICE) / f"{name}-{node}"
            return subprocess.Popen([str(cluster.bin / "ckpt-run"), "--alloc", name, "--work-dir", str(work), "--socket", str(cluster.agents[node].socket),
                                     "--", "/usr/bin/python3", "-B", "-c", LOOP.replace("EPOCH", str(epoch))], user=ALICE.pw_uid, group=ALICE.pw_gid,
                                    extra_groups=[], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)

        def says(name, node, text):
            return wait_until(f"{name} says on {node}: {text}", lambda: text in (cluster.dir / f"{name}-{node}.log").read_text(), 40, 0.1)
        cluster.ctl("policy", "set", "node_degraded_after=1s", "node_down_after=2s", "--yes")
        # register, run
        code, out, error = cluster.asks(ALICE, "register", "--alloc", "train", "--tenant", "physics", "--project", "model", "--gpus", "1", "--node", "b:1",
                                        "--grace", "1s")
        assert code == 0 and "registered for 2 nodes" in out, (code, out, error)
        lines = {node: line(node, "train", 300) for node in ("a", "b")}
        wait_until("it runs", lambda: "cluster: RUNNING" in cluster.asks(ALICE, "status", "--alloc", "train")[1] or
                   "job train: running" in cluster.asks(ALICE, "status", "--alloc", "train")[1], 30, 0.3)
        wait_until("on both", lambda: cluster.allocation("train").state == RUNNING, 30)
        # ask; and the program asks
        asked = saved(cluster, ALICE, "train")
        says("train", "a", "asked at 300")
        wait_until("the program's own is complete", lambda: len([c for c in cluster.checkpoints("train") if c.state == 5]) >= 2, 30, 0.2)
        assert len([c for c in cluster.checkpoints("train") if c.purpose == common_pb2.PURPOSE_MANUAL]) == 2, "one of both ranks' requests"
        latest = checkpoint_text(cluster.allocation("train").last_complete_checkpoint_id)
        assert latest > asked
        # lose a node
        pids = [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and of_node(p, "b")]
        cluster.agents["b"].kill()
        for pid in (lines["b"].pid, *pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lines["b"].wait()
        says("train", "a", "may run on at node b")
        code, out, error = cluster.asks(ALICE, "status", "--alloc", "train")
        assert code == 0 and "cluster: REQUEUED" in out and "node b" in out and "an operator's ckptctl node down" in out, (code, out, error)
        # it is back; look
        cluster.agents["b"].start()
        lines["b"] = line("b", "train", 300)
        says("train", "b", f"from checkpoint {cluster.folder(ALICE)}/train-b/restore/{latest}")
        wait_until("it runs again", lambda: cluster.allocation("train").state == RUNNING, 40)
        for verb in ("explain", "losses", "checkpoints"):
            wait_until(f"it is told ({verb})", lambda v=verb: cluster.asks(ALICE, v, "train")[0] == 0, 20, 0.5)
        assert latest in cluster.asks(ALICE, "checkpoints", "train")[1]
        # take it home, and begin from there without any cluster
        home = cluster.folder(ALICE) / "home"
        code, out, error = cluster.asks(ALICE, "get", latest, str(home))
        assert code == 0 and (home / "part-0001" / "rank-00001" / "step").exists(), (code, out, error, list(home.rglob("*")))
        done = subprocess.run(["/usr/bin/python3", "-B", "-c", LOOP], env={**environment, "CKPT_RESTORE_DIR": str(home / "part-0000")}, user=ALICE.pw_uid,
                              group=ALICE.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=30)
        step = int((home / "part-0000" / "rank-00000" / "step").read_text())
        assert done.stdout == f"begins at {step}\n" and f"begins from CKPT_RESTORE_DIR={home / 'part-0000'}" in done.stderr, done
        # go on under another id
        code, out, error = cluster.asks(ALICE, "end", "train", "--for-good")
        assert code == 0, (code, out, error)
        for ended in lines.values():
            ended.wait(30)
        words = next(text.strip() for text in out.splitlines() if text.strip().startswith("ckpt-run register"))
        code, out, error = cluster.asks(ALICE, *words.split()[1:])
        assert code == 0 and "train-2" in out, (words, code, out, error)
        lines = {node: line(node, "train-2", 1000000) for node in ("a", "b")}
        wait_until("it goes on", lambda: cluster.allocation("train-2").state == RUNNING, 40)
        restored = wait_until("it has begun", lambda: [int(t.split()[2]) for t in (cluster.dir / "train-2-a.log").read_text().splitlines()
                                                         if t.startswith("begins at")], 20)
        assert restored[-1] >= step, restored
        for ended in lines.values():
            ended.kill()
        cluster.debug_check()


def of_node(process, node):
    try:
        return f"CKPT_NODE_ID={node}\0".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become two users")
        sys.exit(0)
    sys.exit(main([the_owner_asks_looks_and_pins_and_nobody_else, words_that_are_wrong_say_what_is_right,
                   an_agent_speaks_for_users_of_its_own_node_and_says_for_whom, what_a_user_forges_changes_nobody_elses_jobs,
                   a_checkpoint_is_brought_home_from_any_target,
                   a_job_that_does_not_run_says_the_next_step_and_ends_as_its_owner_says,
                   a_job_of_several_nodes_begins_when_its_owners_ckpt_runs_wait, files_that_were_written_before_say_of_when_they_are, an_owners_hour_without_a_key]))
