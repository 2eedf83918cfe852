#!/usr/bin/python3
"""The members of a cluster change under load: added, promoted, removed, replaced; each refusal says why; nothing acknowledged is lost.
I6, I9, I11, B-002, U-002, L1.

Flow    every test starts its own cluster; new members know only their own configuration, and the files of the old ones never change: what
        they learn of each other comes from the replicated address book.
"""
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, free_port, grpc, http_status, metric, often, tail, tap, wait_until  # noqa: E402
from workload import Load  # noqa: E402

RAFT = {"snapshot_after_entries": 200}
REMOVED = 5  # exit code of a daemon that was removed
REFUSED, NOT_FOUND = 4, 3  # exit codes of ckptctl


def members_of(cluster, endpoints=None):
    """{name: (votes, role)} as `ckptctl member list` shows them."""
    lines = cluster.ctl("member", "list", endpoints=endpoints).stdout.splitlines()[1:]
    return {fields[1]: (fields[2], fields[3]) for fields in (line.replace("not yet", "not-yet").split() for line in lines)}


def add(cluster, member, *options, check=True, endpoints=None):
    return cluster.ctl("member", "add", member.name, "--id", str(member.id), "--raft", member.raft, "--api", member.api, *options, check=check,
                       endpoints=endpoints)


def remove(cluster, member):
    cluster.ctl("member", "remove", member.name, "--yes")
    wait_until(f"{member.name} ends", lambda: member.process.poll() is not None, 10)
    assert member.process.returncode == REMOVED, f"{member.name} exited with {member.process.returncode}: {tail(member.log)}"
    assert "event=removed" in member.log.read_text()
    cluster.members.remove(member)


def refused(result, code, *words):
    assert result.returncode == code, (result.returncode, result.stderr)
    for word in words:
        assert word in result.stderr, f"{word!r} is not in {result.stderr!r}"


def three_members_become_five_and_three_again_under_load():
    """All founders go, the leader among them; the log is compacted meanwhile, so that new members begin with a snapshot."""
    with Cluster(raft=RAFT) as cluster:
        cluster.start()
        founders = list(cluster.members)
        load = Load(cluster, pause_s=often(0.03, 0.001), attempt_s=0.5)
        load.progress()
        for _ in range(2):
            member = cluster.new_member()
            member.start()
            add(cluster, member, "--promote")
            load.addresses.append(member.api)
        assert {votes for votes, _ in members_of(cluster).values()} == {"yes"} and len(members_of(cluster)) == 5
        load.progress()
        for member in founders[:2]:
            remove(cluster, member)
            load.progress()
        assert len(members_of(cluster)) == 3
        new = cluster.new_member()
        new.start()
        load.addresses.append(new.api)
        cluster.ctl("member", "replace", founders[2].name, new.name, "--id", str(new.id), "--raft", new.raft, "--api", new.api, "--yes")
        wait_until("the last founder ends", lambda: founders[2].process.poll() == REMOVED, 10)
        cluster.members.remove(founders[2])
        load.progress()
        load.verdict()
        assert set(members_of(cluster)) == {"n4", "n5", "n6"}
        history = cluster.ctl("events").stdout
        for line in ("n4 (id 4) is a learner", "n4 (id 4) is a voter", "n1 (id 1) was removed", "n3 (id 3) was removed"):
            assert f"member {line}" in history, history
        # all start again at once: only their own files and the address books of their folders say where the others are
        for member in cluster.members:
            member.kill()
        for member in cluster.members:
            member.start(wait=False)
        cluster.wait_leader()
        cluster.debug_check()
        # a removed one is refused by its folder, and an id never comes back
        founders[0].start(wait=False)
        assert founders[0].process.wait(timeout=10) == REMOVED
        assert "was removed from cluster demo" in founders[0].log.read_text().splitlines()[-1]
        again = cluster.new_member(2)
        again.data_dir = cluster.dir / "blank"
        again.start()
        refused(add(cluster, again, check=False), REFUSED, "MEMBER_REFUSED", "id 2 ", "use 7 or higher")
        again.kill()


def refusals_say_why_and_what_next():
    with Cluster() as cluster:
        cluster.start()
        old = ",".join(m.api for m in cluster.members)
        new = cluster.new_member()
        refused(add(cluster, new, check=False, endpoints=old), REFUSED, "MEMBER_UNREACHABLE", f"does not answer at {new.raft}", "--join")
        new.start()
        status = cluster.ctl("status", endpoints=new.api, check=False)
        assert "ckptctl member add n4 --id 4" in status.stdout, status.stdout
        wrong = cluster.ctl("member", "add", "n4", "--id", "9", "--raft", new.raft, "--api", new.api, check=False, endpoints=old)
        refused(wrong, REFUSED, "MEMBER_MISMATCH", "answers as member 4, not 9")
        wrong = cluster.ctl("member", "add", "n4", "--id", "2", "--raft", new.raft, "--api", new.api, check=False, endpoints=old)
        refused(wrong, REFUSED, "id 2 is in use by member n2", "the next free id is 4", "ckptctl member list")
        wrong = cluster.ctl("member", "add", "n4", "--id", "4", "--raft", cluster.members[1].raft, "--api", new.api, check=False,
                            endpoints=old)
        refused(wrong, REFUSED, f"address {cluster.members[1].raft} is in use by member n2")
        wrong = cluster.ctl("member", "add", "n4", "--id", "4", "--raft", new.raft, "--api", cluster.members[2].api, check=False,
                            endpoints=old)
        refused(wrong, REFUSED, f"API address {cluster.members[2].api} is in use by member n3")
        wrong = cluster.ctl("member", "add", "n4", "--id", "4", "--raft", new.raft, "--api", "127.0.0.1:9", check=False, endpoints=old)
        refused(wrong, REFUSED, "MEMBER_MISMATCH", f"{new.api}, not at 127.0.0.1:9")
        add(cluster, new, endpoints=old)
        add(cluster, new, endpoints=old)  # the same again changes nothing, also without the id
        cluster.ctl("member", "add", "n4", "--raft", new.raft, "--api", new.api, endpoints=old)
        wait_until("it is a learner", lambda: members_of(cluster, old)["n4"] == ("no", "learner"), 5)
        refused(cluster.ctl("transfer", "n4", check=False, endpoints=old), REFUSED, "n4 is a learner", "entries behind",
                "ckptctl member promote n4")
        refused(cluster.ctl("member", "promote", "n9", "--no-wait", check=False), NOT_FOUND, "there is no member n9")
        refused(cluster.ctl("member", "promote", "n9", check=False), NOT_FOUND, "there is no member n9")  # at once, not after the wait
        refused(cluster.ctl("member", "remove", "n9", "--yes", check=False), NOT_FOUND, "there is no member n9")
        remove(cluster, new)
        # of three with one down neither of the two others can go
        leader = cluster.leader()
        down, up = [m for m in cluster.members if m is not leader]
        down.kill()
        wait_until("it is missed", lambda: members_of(cluster).get(down.name, ("", ""))[1] == "unreachable", 10)
        refused(cluster.ctl("transfer", down.name, check=False), REFUSED, f"{down.name} is not reachable at {down.raft}", "last contact",
                f"; ckptctl transfer {down.name}")
        refused(cluster.ctl("member", "remove", up.name, "--yes", check=False), REFUSED, "2 voters would remain, quorum 2 of 2",
                f"{down.name} (last contact ", " ms ago) is not reachable", f"; ckptctl member remove {up.name}")
        # nor is leadership taken by one that lags
        up.kill(signal.SIGSTOP)
        said = cluster.ctl("transfer", up.name, check=False, endpoints=leader.api)
        up.kill(signal.SIGCONT)
        if "TRANSFER_REFUSED" in said.stderr:  # else it stood still for so long that it leads no more
            refused(said, REFUSED, f"{up.name} is ", " entries behind, last contact ", f"{down.name} is not reachable", "; ckptctl transfer")


def a_dead_member_is_replaced_and_stays_out():
    """Its machine is gone; later the old disk is started again somewhere: it learns that it was removed and disturbs nobody."""
    with Cluster() as cluster:
        cluster.start()
        load = Load(cluster, clients=2, pause_s=often(0.03, 0.001), attempt_s=0.5)
        load.progress()
        dead = next(m for m in cluster.members if m is not cluster.leader())
        dead.kill()
        new = cluster.new_member()
        new.start()
        cluster.ctl("member", "replace", dead.name, new.name, "--id", "4", "--raft", new.raft, "--api", new.api, "--yes")
        cluster.members.remove(dead)
        load.progress()
        term = metric(cluster.leader().http, "ckpt_raft_term")
        dead.start(wait=False)
        assert dead.process.wait(timeout=15) == REMOVED, tail(dead.log)
        load.progress()
        assert metric(cluster.leader().http, "ckpt_raft_term") == term, "the removed member disturbed the leader"
        load.verdict()


def over_tls_a_new_member_proves_its_id():
    with Cluster(tls=True) as cluster:
        cluster.start()
        old = ",".join(m.api for m in cluster.members)
        new = cluster.new_member()
        new.start()
        add(cluster, new, endpoints=old)
        cluster.ctl("member", "promote", new.name, endpoints=old)
        cluster.ctl("member", "transfer", new.name)
        wait_until("the new member leads", lambda: cluster.leader() is new, 10)
        cluster.debug_check()


def two_members_added_at_once_come_one_after_the_other():
    with Cluster() as cluster:
        cluster.start()
        old = ",".join(m.api for m in cluster.members)
        new = [cluster.new_member(), cluster.new_member()]
        for member in new:
            member.start()
        results = {}
        threads = [threading.Thread(target=lambda m=m: results.update({m.name: add(cluster, m, check=False, endpoints=old)})) for m in new]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first, second = new
        if results[second.name].returncode != 0:
            refused(results[second.name], REFUSED, "is under way", "try again")
            add(cluster, second, endpoints=old)
        if results[first.name].returncode != 0:  # the higher id was faster
            again = add(cluster, first, check=False, endpoints=old)
            if again.returncode != 0:  # and the lower one is not even in the address book
                refused(again, REFUSED, "ids only grow", f"use {second.id + 1} or higher")
                first = cluster.new_member()
                first.start()
                add(cluster, first, endpoints=old)
            else:
                refused(results[first.name], REFUSED, "is under way", "try again")
        assert [members_of(cluster, old)[m.name][0] for m in (first, second)] == ["no", "no"]


def the_leader_hands_over_before_it_stops():
    """U-002: SIGTERM and transfer: the old leader follows another one before it ends, and how long no write is taken."""
    with Cluster() as cluster:
        cluster.start()
        load = Load(cluster, clients=2, pause_s=often(0.03, 0.001), attempt_s=0.5)
        load.progress()
        gaps = []
        for turn in range(4):
            leader = cluster.leader()
            before, at = load.acknowledged(), time.monotonic()
            if turn % 2 == 0:
                said = len(leader.log.read_text())
                leader.kill(signal.SIGTERM)
            else:
                cluster.ctl("member", "transfer")
            wait_until("another one serves", lambda: cluster.leader() not in (None, leader), 5, 0.001)
            wait_until("writes go on", lambda: load.acknowledged() > before + 2, 5, 0.001)
            gaps.append((time.monotonic() - at) * 1000)
            if turn % 2 == 0:
                assert leader.process.wait(timeout=10) == 0
                said = leader.log.read_text()[said:]
                ended = said[said.index("event=stopping leads=1"):said.index("event=stopped")]
                others = [m.name for m in cluster.members if m is not leader]
                assert any(f"leader={name}" in line for line in ended.splitlines() if "role=follower" in line for name in others), said
                assert "event=transfer_failed" not in said
                leader.start()
            load.progress()
        print(f"# new leader and writes after {', '.join(f'{gap:.0f} ms' for gap in gaps)}")
        assert max(gaps) < 2000, gaps
        load.verdict()


def the_preferred_member_leads_when_it_can():
    with Cluster() as cluster:
        cluster.config.write_text(cluster.config.read_text() + "preferred_leader: n2\n")
        cluster.start()
        wait_until("n2 leads", lambda: cluster.leader() is cluster.members[1], 30, 0.1)
        cluster.members[1].kill()
        wait_until("another one leads", lambda: cluster.leader() not in (None, cluster.members[1]), 10)
        cluster.members[1].start()
        wait_until("n2 leads again", lambda: cluster.leader() is cluster.members[1], 40, 0.1)
        time.sleep(3)
        assert cluster.leader() is cluster.members[1]


def a_member_that_moved_is_found_at_its_new_address():
    """Only its own configuration says the new address; the others learn it from its hello and write it into the book."""
    with Cluster() as cluster:
        cluster.start()
        moved = next(m for m in cluster.members if m is not cluster.leader())
        moved.kill(signal.SIGTERM)
        moved.process.wait(timeout=10)
        text = cluster.config.read_text()
        moved.config = cluster.dir / "moved.yaml"
        for kind in ("raft", "api"):
            old, new = getattr(moved, kind), f"127.0.0.1:{free_port()}"
            text = text.replace(old, new)
            setattr(moved, kind, new)
        moved.config.write_text(text)
        moved.start()
        for word in (moved.raft, moved.api):
            wait_until("the others see it there", lambda: word in cluster.ctl("member", "list", endpoints=cluster.leader().api).stdout, 15)
        # only one of those that have the old file is asked: it points to the new address
        other = next(m for m in cluster.members if m is not moved)
        cluster.ctl("transfer", moved.name, endpoints=other.api)
        cluster.ctl("policy", "set", "min_interval=6m", endpoints=other.api)
        cluster.members[0 if moved is not cluster.members[0] else 1].kill()
        cluster.wait_leader()  # needs the one that moved


def a_first_start_waits_for_all_founders_and_says_so():
    """I11: nothing is voted on before all founders are there and agree on an incarnation."""
    with Cluster() as cluster:
        first, second, late = cluster.members
        first.start()
        second.start()
        wait_until("it says who is missing", lambda: f"the first start of {first.name} waits for {late.name}" in cluster.ctl(
            "status", endpoints=first.api, check=False).stdout, 10)
        shown = cluster.ctl("status", endpoints=first.api, check=False).stdout
        assert re.search(rf"{first.name} .*founding ", shown) and "NOT FOUNDED YET" in shown and " of 0" not in shown, shown
        assert metric(first.http, "ckpt_raft_founding") == 1 and "event=founding" in first.log.read_text()
        second.kill()
        second.start()  # it goes on without the flag
        assert cluster.leader() is None
        late.start()
        cluster.wait_leader()
        wait_until("all are members", lambda: all(metric(m.http, "ckpt_raft_founding") == 0 for m in cluster.members), 10)
        said = {re.search(r"event=founded incarnation=(\w+)", m.log.read_text()).group(1) for m in cluster.members}
        assert len(said) == 1, said
        cluster.register("works", [("node-1", 8, 0)])
        wait_until("nothing of it is left", lambda: not any((m.data_dir / "founding").exists() for m in cluster.members), 10)


def a_wiped_member_is_refused_with_the_command_that_replaces_it():
    """I11: what its former self had acknowledged, and whom it had voted for, is lost with its disk."""
    with Cluster() as cluster:
        cluster.start()
        cluster.register("before", [("node-1", 8, 0)])
        leader = cluster.leader()
        wiped, late = [m for m in cluster.members if m is not leader]
        late.kill()
        cluster.register("acknowledged", [("node-1", 8, 0)])
        leader.kill()
        wiped.kill()
        shutil.rmtree(wiped.data_dir)
        wiped.started_before = False
        wiped.start()
        late.start()
        wait_until("it is refused", lambda: not wiped.running(), 10)
        assert wiped.process.returncode == 5  # no supervisor starts it again
        assert f"ckptctl member replace {wiped.name} NEW" in wiped.log.read_text(), wiped.log.read_text()[-800:]
        time.sleep(2)  # some elections
        assert cluster.leader() is None
        leader.start()
        cluster.wait_leader()
        assert cluster.allocation("acknowledged").spec.allocation_id == "acknowledged"
        wiped.start(wait=False)
        wait_until("it stays out", lambda: not wiped.running(), 10)


if __name__ == "__main__":
    sys.exit(tap([three_members_become_five_and_three_again_under_load, refusals_say_why_and_what_next,
                  a_dead_member_is_replaced_and_stays_out, over_tls_a_new_member_proves_its_id, two_members_added_at_once_come_one_after_the_other,
                  the_leader_hands_over_before_it_stops, the_preferred_member_leads_when_it_can,
                  a_member_that_moved_is_found_at_its_new_address, a_first_start_waits_for_all_founders_and_says_so, a_wiped_member_is_refused_with_the_command_that_replaces_it]))
