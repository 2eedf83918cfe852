/* I11: a voter that lost its disk and joins again under its old id, with an empty log, is refused:
 * what its former self had acknowledged, and whom it had voted for, is not known, and while it is
 * filled half a log would have a vote. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

static struct network_stream *(*connect_real)(void *context, const char *address,
                                              const struct network_events *events);

static struct network_stream *connect_nowhere(void *context, const char *address,
                                              const struct network_events *events)
{
    (void)address;
    return connect_real(context, "nowhere", events);
}

/* A wiped member's next start is that of a new one, which an operator lets join under its old
 * id. */
static void join_anew(struct cluster *cluster, unsigned node)
{
    cluster->nodes[node].joins = true;
    cluster->nodes[node].settled = false;
    cluster_start(cluster, node, true);
}

/* I11: half a log, filled by a leader that was elected since, would win with the vote of one that
 * has less. */
static void a_voter_that_joins_again_under_its_old_id_is_refused(void **state)
{
    struct cluster *cluster = cluster_up(13, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), wiped = (leader + 1) % 3,
             late = (leader + 2) % 3;
    uint64_t acknowledged;

    (void)state;
    cluster_isolate(cluster, late, false);
    cluster->entry_bytes_max = 60000;
    cluster_propose_many(cluster, 60);
    cluster_run(cluster, SECOND_US);
    acknowledged = cluster->acknowledged_index;
    /* whom its leader knew would be told so: this one leads anew, with the vote of the one that
     * lags */
    cluster_kill(cluster, wiped);
    cluster_kill(cluster, leader);
    sim_wipe(cluster->sim, wiped);
    cluster_start(cluster, leader, false);
    cluster_isolate(cluster, late, true);
    while (cluster_leader(cluster) != (int)leader)
        cluster_run(cluster, 20);
    cluster_kill(cluster, late);
    join_anew(cluster, wiped);
    cluster_run(cluster, 2 * SECOND_US);
    cluster_kill(cluster, leader);
    cluster_start(cluster, late, false);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_null(cluster->nodes[wiped].consensus);
    assert_contains(cluster->nodes[wiped].fatal.text, "of cluster sim has held data before");
    assert_contains(cluster->nodes[wiped].fatal.text, "start it with --bootstrap, not with --join");
    cluster_start(cluster, wiped, false); /* whoever it asks says so */
    cluster_run(cluster, SECOND_US);
    assert_null(cluster->nodes[wiped].consensus);
    cluster_start(cluster, leader, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    assert_true(cluster->nodes[late].state.index >= acknowledged);
    cluster_free(cluster);
}

static void link_both(struct cluster *cluster, unsigned a, unsigned b, bool up)
{
    sim_link_set(cluster->sim, a, b, up);
    sim_link_set(cluster->sim, b, a, up);
}

/* A leader that took it for a stranger, as its own log ended before the addition, hears that its
 * log is empty before it fills it. */
static void a_voter_that_joined_again_is_refused_by_a_leader_that_learnt_of_it_later(void **state)
{
    struct cluster *cluster = cluster_up(14, 4, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), other = (leader + 1) % 3,
             late = (leader + 2) % 3, wiped = 3;
    struct err err;

    (void)state;
    cluster_isolate(cluster, late, false);
    cluster_start(cluster, wiped, true);
    assert_true(cluster_add(cluster, wiped));
    assert_true(cluster_change_wait(cluster));
    cluster_run(cluster, SECOND_US);
    assert_true(cluster_promote(cluster, wiped));
    assert_true(cluster_change_wait(cluster));
    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US);
    cluster_kill(cluster, wiped);
    sim_wipe(cluster->sim, wiped);
    cluster_isolate(cluster, wiped, false);
    link_both(cluster, wiped, late, true);
    join_anew(cluster, wiped);
    cluster_run(cluster, SECOND_US);
    link_both(cluster, late, leader, true);
    link_both(cluster, late, other, true);
    for (unsigned i = 0; i < 200000 && cluster->nodes[wiped].consensus != NULL; i++) {
        int leads = cluster_leader(cluster);
        assert_uint_equal(status_of(cluster, wiped).last_index, 0);
        if (leads >= 0 && leads != (int)late && i % 1000 == 0)
            (void)consensus_transfer(cluster->nodes[leads].consensus, late + 1, &err);
        cluster_step(cluster);
    }
    assert_int_equal(cluster_leader(cluster), (int)late);
    assert_contains(cluster->nodes[wiped].fatal.text, "of cluster sim has held data before");
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US);
    assert_uint_equal(cluster->acknowledged, 25);
    cluster_free(cluster);
}

/* Nor does a leader fill it that was sending a snapshot to its former self and has not read its
 * hello. */
static void a_snapshot_for_its_former_self_does_not_fill_a_voter_that_joined_again(void **state)
{
    struct cluster *cluster = cluster_up(15, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), wiped = (leader + 1) % 3;
    const struct transfer *transfer = &cluster->nodes[leader].consensus->transfer;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster->nodes[i].ballast_bytes = 100000;
    cluster_kill(cluster, wiped);
    cluster_propose_many(cluster, 600);
    cluster_run(cluster, 2 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), (int)leader);
    cluster_start(cluster, wiped, false);
    while (!transfer_sending_to(transfer, wiped + 1))
        assert_true(cluster_step(cluster));
    cluster_kill(cluster, wiped);
    sim_wipe(cluster->sim, wiped);
    connect_real = cluster->nodes[wiped].network.connect;
    cluster->nodes[wiped].network.connect = connect_nowhere;
    join_anew(cluster, wiped);
    cluster_run(cluster, 3 * SECOND_US);
    assert_true(transport_connected(&cluster->nodes[leader].consensus->transport, wiped + 1));
    assert_uint_equal(cluster->nodes[wiped].restored, 0);
    assert_uint_equal(status_of(cluster, wiped).last_index, 0);
    cluster->nodes[wiped].network.connect = connect_real;
    cluster_run(cluster, SECOND_US);
    assert_null(cluster->nodes[wiped].consensus);
    assert_contains(cluster->nodes[wiped].fatal.text, "of cluster sim has held data before");
    cluster_free(cluster);
}

/* Its hello of before it was filled may be read when it is a voter. */
static void a_member_that_was_filled_since_is_not_stopped_by_an_answer_to_an_old_hello(void **state)
{
    struct cluster *cluster = cluster_up(16, 3, 3);
    const struct frame_hello_reply reply = {.welcome = FRAME_WELCOME_OLD, .cluster_id = "sim"};

    (void)state;
    core_on_refused(cluster->nodes[0].consensus, 2, &reply);
    assert_false(cluster->nodes[0].doomed);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_voter_that_joins_again_under_its_old_id_is_refused),
        cmocka_unit_test(a_voter_that_joined_again_is_refused_by_a_leader_that_learnt_of_it_later),
        cmocka_unit_test(a_snapshot_for_its_former_self_does_not_fill_a_voter_that_joined_again),
        cmocka_unit_test(
            a_member_that_was_filled_since_is_not_stopped_by_an_answer_to_an_old_hello),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
