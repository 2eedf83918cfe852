/* The tick of members that are slow: whose turns are, whose clock turns within one, whose disk
 * takes nothing. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

/* One long turn is no reason to judge who is silent; but who has nothing but long turns would never
 * again. */
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

/* Its leader hung up on it because it did not read. On a busy machine it hears that long before it
 * is connected again. */
static void a_member_that_stood_still_deposes_nobody_by_the_end_of_a_connection(void **state)
{
    (void)state;
    for (unsigned rank = 0; rank < 2; rank++) {
        struct cluster *cluster = cluster_new(73, 3);
        unsigned leader, still;
        uint64_t term;

        for (unsigned i = 0; i < 3; i++)
            cluster_start(cluster, i, true);
        assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        cluster_run(cluster, SECOND_US);
        leader = (unsigned)cluster_leader(cluster);
        still = (leader + 1 + rank) % 3;
        term = cluster->nodes[leader].consensus->raft.current_term;
        sim_pause(cluster->sim, still, 20 * SECOND_US);
        cluster_run(cluster, 10 * SECOND_US);
        sim_reset_connections(cluster->sim, leader, still);
        cluster_run(cluster, 10 * SECOND_US - 1);
        sim_network_set_latency(cluster->sim, 0, 30000); /* greetings take so long */
        cluster_run(cluster, 5 * SECOND_US);
        assert_int_equal(cluster_leader(cluster), (int)leader);
        assert_uint_equal(cluster->nodes[leader].consensus->raft.current_term, term);
        assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
        cluster_free(cluster);
    }
}

/* ---- a clock that turns ---- */

static uint64_t (*clock_real)(void *context);
static uint64_t clock_ahead_us, clock_step_us = 2000;

static uint64_t clock_turning(void *context)
{
    clock_ahead_us += clock_step_us;
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

static int (*send_real)(struct raft_io *io, struct raft_io_send *req,
                        const struct raft_message *message, raft_io_send_cb cb);
static uint64_t disturbing_term, asked_terms;
static unsigned disturbances;

static int send_watched(struct raft_io *io, struct raft_io_send *req,
                        const struct raft_message *message, raft_io_send_cb cb)
{
    const struct raft_request_vote *vote = &message->request_vote;

    if (message->type == RAFT_IO_REQUEST_VOTE && vote->term > asked_terms)
        asked_terms = vote->term;
    if (message->type == RAFT_IO_REQUEST_VOTE && vote->disrupt_leader &&
        vote->term != disturbing_term) {
        disturbing_term = vote->term;
        disturbances++;
    }
    return send_real(io, req, message, cb);
}

static void candidate_disturbs_once(uint64_t seed)
{
    struct cluster *cluster = cluster_new(seed, 3);
    struct cluster_node *node;
    unsigned leader;
    uint64_t term;

    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    leader = (unsigned)cluster_leader(cluster);
    node = &cluster->nodes[(leader + 1) % 3];
    send_real = node->consensus->io.send;
    node->consensus->io.send = send_watched;
    term = node->consensus->raft.current_term;
    disturbances = 0;
    disturbing_term = asked_terms = 0;
    cluster_kill(cluster, (leader + 2) % 3);
    cluster_kill(cluster, leader);
    while (node->consensus->raft.state != RAFT_CANDIDATE)
        assert_true(cluster_step(cluster));
    clock_real = node->clock.monotonic_us;
    clock_ahead_us = 0;
    clock_step_us = 50 * seed;
    node->clock.monotonic_us = clock_turning;
    cluster_run(cluster, SECOND_US);
    assert_true(asked_terms > term + 1);
    assert_uint_equal(disturbances, 1);
    assert_uint_equal(disturbing_term, term + 1);
    cluster_free(cluster);
}

/* S11: of its elections only the first disturbs a leader whom others hear, whenever the next one's
 * time comes. */
static void a_candidate_disturbs_once_when_the_millisecond_turns_in_a_tick(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        candidate_disturbs_once(seed);
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
        cmocka_unit_test(a_member_that_stood_still_deposes_nobody_by_the_end_of_a_connection),
        cmocka_unit_test(
            a_sole_voter_leads_only_terms_it_began_when_the_millisecond_turns_in_a_tick),
        cmocka_unit_test(a_candidate_disturbs_once_when_the_millisecond_turns_in_a_tick),
        cmocka_unit_test(a_book_that_cannot_be_saved_is_tried_again_each_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
