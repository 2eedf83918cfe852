/* The tick of members that are slow: whose turns are, whose clock turns within one, whose disk takes nothing. */
#include "tests/support/test.h"

#include "raft/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

/* One long turn is no reason to judge who is silent; but who has nothing but long turns would never again. */
static void a_leader_whose_every_turn_is_slow_steps_down_when_it_is_alone(void **state)
{
    struct cluster *cluster = cluster_new(71, 3);
    const struct consensus *consensus;
    unsigned leader, turns = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    leader = (unsigned)cluster_leader(cluster);
    consensus = cluster->nodes[leader].consensus;
    cluster_isolate(cluster, leader, false);
    while (cluster->nodes[leader].role == CONSENSUS_LEADER) {
        uint64_t tick_us = consensus->last_tick_us;
        assert_true(turns++ < 20);
        sim_pause(cluster->sim, leader, UINT64_C(600) * cluster->config.election_timeout_ms);
        while (consensus->last_tick_us == tick_us)
            assert_true(cluster_step(cluster));
    }
    assert_true(turns > 1);
    cluster_free(cluster);
}

/* ---- a clock that turns ---- */

static uint64_t (*clock_real)(void *context);
static uint64_t clock_ahead_us;

static uint64_t clock_turning(void *context)
{
    clock_ahead_us += 2000;
    return clock_real(context) + clock_ahead_us;
}

/* S19: libraft must not find the time come that our own look a moment before had not. */
static void a_sole_voter_leads_only_terms_it_began_when_the_millisecond_turns_in_a_tick(
    void **state)
{
    struct cluster *cluster = cluster_new(72, 1);
    struct cluster_node *node = &cluster->nodes[0];

    (void)state;
    clock_real = node->clock.monotonic_us;
    node->clock.monotonic_us = clock_turning;
    cluster_start(cluster, 0, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    for (unsigned i = 0; i < 50; i++) {
        uint64_t term = node->consensus->raft.current_term + 1;
        struct frame_message message = {.type = FRAME_APPEND_RESULT};
        message.core.type = RAFT_IO_APPEND_ENTRIES_RESULT;
        message.core.append_entries_result.term = term; /* of one that was removed, say */
        core_on_message(node->consensus, 9, &message);
        assert_uint_equal(node->consensus->raft.current_term, term);
        assert_int_equal(node->consensus->raft.state, RAFT_FOLLOWER);
        assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        assert_uint_equal(node->consensus->raft.current_term, term + 1);
    }
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_whose_every_turn_is_slow_steps_down_when_it_is_alone),
        cmocka_unit_test(
            a_sole_voter_leads_only_terms_it_began_when_the_millisecond_turns_in_a_tick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
