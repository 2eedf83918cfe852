#!/usr/bin/python3
"""Ranks that keep to no rule, and strangers on their socket: each checkpoint has an end, the agent serves everybody else, and the next one is whole.
S3-002, S1-033."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, broker_pb2, common_pb2, tap, wait_until  # noqa: E402
from jobs import COMPLETE, FAILED, MIB, POLICY, RUNNING, TIMED_OUT, ends_in  # noqa: E402

NOBODY, OTHER = 65534, 4242
# A rank that speaks the lines itself. Rank 1 does what the next word of its file says: to the question, and when the step is agreed.
RANK = r"""
import array, os, socket, time
work, rank, job = os.environ["CKPT_DIR"], int(os.environ["RANK"]), os.environ["CKPT_ALLOCATION_ID"]
epoch, number = os.environ["CKPT_RUN"].split("-")
hello = "hello 1 %s %d %d - 2 2 barrier\n" % (job, int(epoch) << 40 | int(number), rank)
ONCE = "garbage", "a flood", "hangs up", "half a line and the end", "a line without an end", "hello once more"
def dial():
    agent = socket.socket(socket.AF_UNIX)
    agent.connect(os.environ["CKPT_APP_SOCKET"])
    agent.sendall(hello.encode())
    return agent
def finish(hint, folder, step, way):
    path, name = work + "/" + folder, "%s/done.%d" % (work, rank)
    text = "hint=%s\nbytes=4\nstatus=0\nstep=%s\n" % (hint, step)
    os.makedirs(path, exist_ok=True)
    with open(path + "/state", "w") as file:
        file.write("data")
    if way == "a FIFO as its file":
        os.mkfifo(name)
        time.sleep(1)
        os.unlink(name)
    elif way == "a link as its file":
        os.symlink("/etc/passwd", name)
        time.sleep(1)
        os.unlink(name)
    elif way == "a file of a terabyte":
        with open(name + ".new", "w") as file:
            file.write(text)
            file.truncate(1 << 40)
        os.rename(name + ".new", name) # one that is still short says done
    elif way == "a FIFO in the folder":
        os.mkfifo(path + "/pipe")
    elif way == "a link for the folder":
        os.rename(path, path + ".away")
        os.symlink(path + ".away", path)
    if "file" in way and way != "a FIFO in the folder":
        return
    with open(name + ".new", "w") as file:
        file.write(text)
    os.rename(name + ".new", name)
def act(agent, hint, way):
    if way == "garbage":
        agent.sendall(os.urandom(3000))
    elif way == "a line without an end":
        agent.sendall(b"x" * 100000)
    elif way == "half a line and the end":
        agent.sendall(b"at " + hint.encode())
        agent.shutdown(socket.SHUT_WR)
    elif way == "a flood":
        agent.sendall(b"".join(b"at %s %d 1\n" % (hint.encode(), i) for i in range(3000)))
    elif way == "hangs up":
        agent.close()
        raise OSError
    elif way == "hello once more":
        agent.sendall(hello.encode())
    elif way == "descriptors":
        pair = socket.socketpair()
        agent.sendmsg([b"progress %s 5\n" % hint.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [end.fileno() for end in pair] * 60))])
        for end in pair:
            end.close()
    elif way == "a miss before":
        agent.sendall(b"missed %s 99999\n" % hint.encode())
while True:
    time.sleep(0.1)
    try:
        agent = dial()
        for line in agent.makefile():
            words = line.split()
            way = open(work + "/way").read() if rank == 1 else ""
            if words[0] == "ask" and way in ONCE:
                open(work + "/way", "w").close()
            if words[0] == "ask":
                folder = words[4]
                agent.sendall(b"at %s 10 1000000\n" % words[1].encode())
                act(agent, words[1], way)
            elif words[0] == "step" and words[1] != "-":
                finish(words[1], folder, words[2], way)
                agent.sendall(b"done %s\n" % words[1].encode())
    except OSError:
        pass
"""
LAUNCH = 'for rank in 0 1; do RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "$0" -c "$1" & done; wait'
WHOLE = ("", "garbage", "a line without an end", "half a line and the end", "a flood", "hangs up", "hello once more", "descriptors", "")
BROKEN = ("a miss before", "a FIFO as its file", "a link as its file", "a file of a terabyte", "a FIFO in the folder",
          "a link for the folder", "")
STRANGER = r"""
import os, socket, sys, time
path, uid, way, end = sys.argv[1], int(sys.argv[2]), sys.argv[3], time.monotonic() + float(sys.argv[4])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
held = []
while time.monotonic() < end:
    try:
        agent = socket.socket(socket.AF_UNIX)
        agent.settimeout(1)
        agent.connect(path)
        if way == "hello":
            agent.sendall(b"hello 1 job 1099511627783 0 - - - barrier\nat 1-1-1 5 5\n")
            agent.recv(600)
        elif way == "noise":
            agent.sendall(os.urandom(2000))
        else:
            held.append(agent)
        if len(held) > 900:
            held.pop(0)
    except OSError:
        time.sleep(0.01)
"""


def start(cluster, ways=""):
    cluster.start()
    cluster.register("job", [("a", 1, MIB)])
    job = cluster.run_job("a", "job", ["sh", "-c", LAUNCH, sys.executable, RANK])
    wait_until("it runs", lambda: cluster.allocation("job").state == RUNNING, 20)
    (job.work_dir / "way").write_text(ways)
    time.sleep(0.5)
    return job


def saves(cluster, number):
    identifier = cluster.client.broker("RequestCheckpoint", broker_pb2.RequestCheckpointRequest(
        request_id=f"broken-{number}", allocation_id="job", after=common_pb2.AFTER_CHECKPOINT_CONTINUE)).checkpoint_id
    record = ends_in(cluster, "job", identifier, (COMPLETE, FAILED, TIMED_OUT))
    assert cluster.agents["a"].process.poll() is None and cluster.allocation("job").state == RUNNING
    return record


def whatever_a_rank_does_each_checkpoint_has_an_end():
    """What is only said wrongly is mended by coming back; what is done wrongly fails the checkpoint, and the next one is whole."""
    with Cluster(members=1, agents=("a",), policy={**POLICY, "max_attempts": 1, "checkpoint_timeout": "3s"}) as cluster:
        job = start(cluster)
        for number, way in enumerate(WHOLE + BROKEN):
            (job.work_dir / "way").write_text(way)
            record = saves(cluster, number)
            assert (record.state == COMPLETE) == (number < len(WHOLE) or way == ""), (way, record)
        descriptors = len(os.listdir(f"/proc/{cluster.agents['a'].process.pid}/fd"))
        assert descriptors < 40, descriptors
        cluster.debug_check()


def strangers_on_the_socket_keep_nobody_from_saving():
    """Connections without end, noise and hellos of two other users, for 2 s each."""
    if os.getuid() != 0:
        return "needs root"
    with Cluster(members=1, agents=("a",), policy=POLICY) as cluster:
        job = start(cluster)
        cluster.let_others_in()
        cluster.dir.chmod(0o755)
        saved = 0
        for way in ("connect", "noise", "hello"):
            strangers = [subprocess.Popen([sys.executable, "-c", STRANGER, f"{cluster.agents['a'].socket}.ranks", str(uid), way, "2"])
                         for uid in (NOBODY, OTHER)]
            while any(stranger.poll() is None for stranger in strangers):
                saved += 1
                assert saves(cluster, saved).state == COMPLETE, way
            assert [stranger.wait() for stranger in strangers] == [0, 0]
        assert saved > 3 and job.running()
        cluster.debug_check()
    return None


if __name__ == "__main__":
    sys.exit(tap([whatever_a_rank_does_each_checkpoint_has_an_end, strangers_on_the_socket_keep_nobody_from_saving]))
