#!/usr/bin/python3
"""What the owner of a job does without a key of the cluster: the verbs of ckpt-run over the socket of the node's agent. Run by root: it becomes the
users."""
import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import threading
import uuid

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Client, broker_pb2, checkpoint_text, common_pb2, operator_pb2, operator_pb2_grpc, wait_until  # noqa: E402
from isolate import main  # noqa: E402
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
        for verb in ("hint", "restart", "explain", "losses", "checkpoints", "end"):
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
        # ended, brought back, and ended for good
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
    """N-005: what an agent's certificate may ask is somebody's of its node, with the fields of an owner; an operator stays what it was."""
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


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # skip it takes root to become two users")
        sys.exit(0)
    sys.exit(main([the_owner_asks_looks_and_pins_and_nobody_else, words_that_are_wrong_say_what_is_right,
                   an_agent_speaks_for_users_of_its_own_node_and_says_for_whom, what_a_user_forges_changes_nobody_elses_jobs]))
