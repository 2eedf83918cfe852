/* A leader that gives leadership up by force: it leads no more at once, and one of the others is
 * elected, also when all of them lag. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000, ELECTION_US = 300000, NOBODY = SIM_NODES_MAX + 1 };

/* What this node sends of entries arrives without them: as a heartbeat. */
static unsigned mute_of_entries;
static void (*real_send)(struct network_stream *stream, uint8_t *take_bytes, size_t length);

static void send_but_entries(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    struct frame_message message;
    struct frame frame;
    struct buf buf;
    struct err err;

    if (sim_current_node() != mute_of_entries ||
        frame_parse(take_bytes, length, &frame, &err) != 1 || frame.type != FRAME_APPEND) {
        real_send(stream, take_bytes, length);
        return;
    }
    assert_int_equal(frame_decode(&frame, &message, &err), 0);
    frame_entries_free(&message.core.append_entries);
    buf_init(&buf);
    frame_encode(&buf, &message);
    free(take_bytes);
    take_bytes = buf_take(&buf, &length);
    real_send(stream, take_bytes, length);
}

static void up_as_set(struct cluster *cluster)
{
    mute_of_entries = NOBODY;
    for (unsigned i = 0; i < cluster->count; i++) {
        real_send = cluster->nodes[i].network.send;
        cluster->nodes[i].network.send = send_but_entries;
        cluster_start(cluster, i, true);
    }
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US);
}

static struct cluster *up(uint64_t seed, unsigned count)
{
    struct cluster *cluster = cluster_new(seed, count);

    up_as_set(cluster);
    return cluster;
}

/* Nobody else ever gets these. */
static void propose_in_vain(struct cluster *cluster, unsigned leader)
{
    mute_of_entries = leader;
    for (unsigned i = 0; i < 3; i++) {
        unsigned before = sim_enter(cluster->sim, leader);
        assert_true(cluster_propose(cluster));
        sim_leave(cluster->sim, before);
        cluster_run(cluster, SECOND_US / 10);
    }
}

static int step_down(struct cluster *cluster, unsigned node, struct err *err)
{
    unsigned before = sim_enter(cluster->sim, node);
    int status = consensus_step_down(cluster->nodes[node].consensus, err);

    sim_leave(cluster->sim, before);
    return status;
}

/* Until then the others have found it silent, the last of them by rank, and have voted. */
static void another_one_leads(struct cluster *cluster, unsigned old)
{
    uint64_t until_us = sim_now_us(cluster->sim) + 2 * ELECTION_US;

    while (cluster_leader(cluster) < 0 && sim_now_us(cluster->sim) < until_us)
        assert_true(cluster_step(cluster));
    assert_true(cluster_leader(cluster) >= 0);
    assert_int_not_equal(cluster_leader(cluster), old);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    assert_int_not_equal(cluster_leader(cluster), old);
    assert_uint_equal(cluster->nodes[old].consensus->gave_up_us, 0);
}

static void gives_up(uint64_t seed, unsigned count)
{
    struct cluster *cluster = up(seed, count);
    unsigned old = (unsigned)cluster_leader(cluster);
    uint64_t dropped = cluster->dropped;
    struct err err;

    assert_true(cluster_propose(cluster)); /* its outcome is not known any more */
    assert_int_equal(step_down(cluster, old, &err), 0);
    assert_int_equal(cluster->nodes[old].role, CONSENSUS_FOLLOWER);
    assert_uint_equal(cluster->dropped, dropped + 1);
    assert_int_equal(step_down(cluster, old, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    another_one_leads(cluster, old);
    cluster_free(cluster);
}

static void a_leader_that_gives_up_is_followed_by_another(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        gives_up(seed, 3);
        gives_up(seed, 5);
    }
}

/* Nobody takes its hand-over, as none has all of its log: that is longer than any other's, and its
 * vote is lost to them. One of them has not even all that was committed. */
static void gives_up_beside_who_lag(uint64_t seed, unsigned count)
{
    struct cluster *cluster = up(seed, count);
    unsigned old = (unsigned)cluster_leader(cluster), late = (old + 1) % count;
    uint64_t committed;
    struct err err;

    cluster_kill(cluster, late);
    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US);
    committed = cluster->acknowledged_index;
    mute_of_entries = old;
    cluster_start(cluster, late, false);
    cluster_run(cluster, SECOND_US);
    assert_int_equal(cluster_leader(cluster), old);
    propose_in_vain(cluster, old);
    assert_int_equal(consensus_transfer(cluster->nodes[old].consensus, 0, &err), -1);
    assert_uint_equal(cluster->acknowledged_index, committed);
    if (count == 3) { /* only one has what is committed, and needs the vote of who is late */
        assert_true(cluster->nodes[late].state.index < committed);
    }
    assert_int_equal(step_down(cluster, old, &err), 0);
    assert_int_equal(cluster->nodes[old].role, CONSENSUS_FOLLOWER);
    another_one_leads(cluster, old);
    assert_true(cluster->acknowledged_index > committed);
    cluster_free(cluster);
}

static void a_leader_that_gives_up_beside_members_that_lag_is_followed_by_one_of_them(void **state)
{
    (void)state;
    for (uint64_t seed = 21; seed <= 30; seed++) {
        gives_up_beside_who_lag(seed, 3);
        gives_up_beside_who_lag(seed, 5);
    }
}

/* Its own timer would end in the middle of theirs. */
static void who_gave_up_campaigns_only_when_the_others_had_their_time(void **state)
{
    struct cluster *cluster = up(31, 3);
    unsigned old = (unsigned)cluster_leader(cluster);
    const struct raft *raft = &cluster->nodes[old].consensus->raft;
    uint64_t begin_us, waited_us;
    struct err err;

    (void)state;
    assert_int_equal(step_down(cluster, old, &err), 0);
    for (unsigned i = 0; i < 3; i++)
        cluster_isolate(cluster, i, false);
    begin_us = sim_now_us(cluster->sim);
    while (raft->state == RAFT_FOLLOWER)
        assert_true(cluster_step(cluster));
    waited_us = sim_now_us(cluster->sim) - begin_us;
    assert_in_range(waited_us, CORE_GAVE_UP_ELECTIONS * ELECTION_US - 1,
                    (CORE_GAVE_UP_ELECTIONS + 1) * ELECTION_US);
    for (unsigned i = 0; i < 3; i++)
        cluster_isolate(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_free(cluster);
}

static void refuses(struct cluster *cluster, unsigned leader)
{
    struct err err;

    assert_int_equal(step_down(cluster, leader, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_int_equal(cluster_leader(cluster), leader);
    assert_int_equal(cluster->nodes[leader].role, CONSENSUS_LEADER);
}

static void nobody_gives_up_what_no_other_could_take(void **state)
{
    struct cluster *cluster = up(32, 1);
    unsigned leader = 0, other;
    struct err err;

    (void)state;
    refuses(cluster, leader);
    cluster_free(cluster);

    /* One of three is down: who has all of the leader's log gets its vote, who has not does not. */
    cluster = up(33, 3);
    leader = (unsigned)cluster_leader(cluster);
    other = (leader + 1) % 3;
    cluster_kill(cluster, (leader + 2) % 3);
    cluster_run(cluster, SECOND_US);
    propose_in_vain(cluster, leader);
    refuses(cluster, leader);
    mute_of_entries = NOBODY;
    cluster_run(cluster, SECOND_US);
    assert_int_equal(step_down(cluster, leader, &err), 0);
    assert_true(cluster_run_until_leader(cluster, 2 * ELECTION_US));
    assert_int_equal(cluster_leader(cluster), other);
    cluster_free(cluster);
}

/* It would have to be sent again from its beginning. */
static void nobody_gives_up_while_those_who_could_elect_are_sent_a_snapshot(void **state)
{
    struct cluster *cluster = cluster_new(34, 3);
    unsigned leader, late, late_place;
    uint64_t late_next, end_us;
    const struct raft *raft;
    struct err err;

    (void)state;
    cluster->config.snapshot_after_bytes = 64
                                           << 20; /* as many entries, however large the state is */
    up_as_set(cluster);
    leader = (unsigned)cluster_leader(cluster), late = (leader + 1) % 3;
    raft = &cluster->nodes[leader].consensus->raft;
    late_place = core_server_place(cluster->nodes[leader].consensus, late + 1);
    for (unsigned i = 0; i < 3; i++)
        cluster->nodes[i].ballast_bytes = 8 << 20;
    cluster_kill(cluster, late);
    cluster_propose_many(cluster, 500);
    late_next = raft->leader_state.progress[late_place].match_index + 1;
    end_us = sim_now_us(cluster->sim) + 20 * SECOND_US;
    while (raft->log.offset < late_next) { /* what it needs next is in the snapshot alone */
        assert_true(cluster_step(cluster));
        assert_true(sim_now_us(cluster->sim) < end_us);
    }
    sim_network_set_latency(cluster->sim, 1, 50000);
    cluster_start(cluster, late, false);
    while (raft->leader_state.progress[late_place].state != PROGRESS_SNAPSHOT) {
        assert_true(cluster_step(cluster));
        assert_true(sim_now_us(cluster->sim) < end_us);
    }
    cluster_propose_many(cluster, 1); /* the third one cannot have it yet */
    refuses(cluster, leader);
    sim_network_set_latency(cluster->sim, 0, 0);
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    assert_int_equal(cluster_leader(cluster), leader);
    assert_int_equal(step_down(cluster, leader, &err), 0);
    another_one_leads(cluster, leader);
    cluster_free(cluster);
}

/* A stale answer is as old as the last word of a majority, not as the election of who gives it. */
static void the_state_of_who_led_is_as_old_as_its_majority(void **state)
{
    struct cluster *cluster = up(34, 3);
    unsigned leader = (unsigned)cluster_leader(cluster);
    struct consensus_status status;

    (void)state;
    cluster_run(cluster, 60 * SECOND_US);
    for (unsigned i = 0; i < 3; i++)
        if (i != leader)
            cluster_kill(cluster, i);
    cluster_run(cluster, 4 * SECOND_US);
    consensus_get_status(cluster->nodes[leader].consensus, &status);
    assert_int_not_equal(status.role, CONSENSUS_LEADER);
    assert_in_range(status.state_age_ms, 4000, 4000 + ELECTION_US / 1000);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_that_gives_up_is_followed_by_another),
        cmocka_unit_test(a_leader_that_gives_up_beside_members_that_lag_is_followed_by_one_of_them),
        cmocka_unit_test(who_gave_up_campaigns_only_when_the_others_had_their_time),
        cmocka_unit_test(nobody_gives_up_what_no_other_could_take),
        cmocka_unit_test(nobody_gives_up_while_those_who_could_elect_are_sent_a_snapshot),
        cmocka_unit_test(the_state_of_who_led_is_as_old_as_its_majority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
