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

/* ---- a book that cannot be saved ---- */

static int (*open_real)(void *context, const char *path, enum disk_open_mode mode,
                        struct disk_file **ret_file, struct err *err);
static unsigned book_tries;
static bool book_full;

static int open_full(void *context, const char *path, enum disk_open_mode mode,
                     struct disk_file **ret_file, struct err *err)
{
    if (mode == DISK_OPEN_CREATE && strstr(path, "members") != NULL) {
        book_tries++;
        if (book_full)
            return err_set(err, ERR_FULL, "no space left on device");
    }
    return open_real(context, path, mode, ret_file, err);
}

/* It is written on the loop, which has other things to do than to try a full disk at every tick. */
static void a_book_that_cannot_be_saved_is_tried_again_each_second(void **state)
{
    struct cluster *cluster = cluster_new(73, 1);
    struct cluster_node *node = &cluster->nodes[0];
    struct consensus_member other = {.id = 7, .name = "n7", .address = "n7:1"};

    (void)state;
    open_real = node->disk.open;
    node->disk.open = open_full;
    cluster_start(cluster, 0, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, 2 * SECOND_US);
    book_tries = 0;
    book_full = true;
    consensus_member_put(node->consensus, &other);
    cluster_run(cluster, 10 * SECOND_US);
    assert_in_range(book_tries, 9, 11);
    book_full = false;
    cluster_run(cluster, 1100000);
    assert_false(node->consensus->book.dirty);
    book_tries = 0;
    snprintf(other.address, sizeof(other.address), "n7:2");
    consensus_member_put(node->consensus, &other);
    cluster_run(cluster, 100000);
    assert_int_equal(book_tries, 1); /* at once, after one that worked */
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_whose_every_turn_is_slow_steps_down_when_it_is_alone),
        cmocka_unit_test(
            a_sole_voter_leads_only_terms_it_began_when_the_millisecond_turns_in_a_tick),
        cmocka_unit_test(a_book_that_cannot_be_saved_is_tried_again_each_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
