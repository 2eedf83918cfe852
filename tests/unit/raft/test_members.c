/* Changing the members in the simulated world (I9, I11, C12, C13, C19): a joiner catches up before
 * it votes, each refusal has its reason, who was removed stops, and crashes and partitions at any
 * moment leave one configuration. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "src/net/network.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

static struct consensus_status leader_status(struct cluster *cluster)
{
    struct consensus_status status;

    assert_true(cluster_leader(cluster) >= 0);
    consensus_get_status(cluster->nodes[cluster_leader(cluster)].consensus, &status);
    return status;
}

static void join(struct cluster *cluster, unsigned node)
{
    cluster_start(cluster, node, true);
    assert_true(cluster_add(cluster, node));
    if (!cluster_change_wait(cluster))
        fail_msg("%s", cluster->change_err.text);
}

static void promote(struct cluster *cluster, unsigned node)
{
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    cluster_run(cluster, SECOND_US / 4); /* the leader hears of it */
    assert_true(cluster_promote(cluster, node));
    if (!cluster_change_wait(cluster))
        fail_msg("%s", cluster->change_err.text);
}

static void remove_member(struct cluster *cluster, unsigned node)
{
    assert_true(cluster_remove(cluster, node));
    if (!cluster_change_wait(cluster))
        fail_msg("%s", cluster->change_err.text);
}

static void assert_refused(struct cluster *cluster, enum err_code code, const char *words)
{
    assert_false(cluster_change_wait(cluster));
    assert_contains(cluster->change_err.text, words);
    assert_int_equal(cluster->change_err.code, code);
}

static unsigned other_than_leader(struct cluster *cluster)
{
    return (unsigned)(cluster_leader(cluster) + 1) % cluster->founders;
}

static void a_new_member_catches_up_as_a_learner_and_then_votes(void **state)
{
    struct cluster *cluster = cluster_up(1, 4, 3);
    struct consensus_status status;

    (void)state;
    cluster_propose_many(cluster, 50);
    join(cluster, 3);
    status = leader_status(cluster);
    assert_uint_equal(status.voter_count, 3);
    assert_uint_equal(status.learner_count, 1);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    assert_uint_equal(cluster->nodes[3].state.entries, 50);
    assert_false(cluster->nodes[3].consensus->transport.unfilled);
    promote(cluster, 3);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    consensus_get_status(cluster->nodes[3].consensus, &status);
    assert_int_equal(status.member_role, CONSENSUS_VOTER);
    assert_uint_equal(status.voter_count, 4);
    cluster_free(cluster);
}

static void a_new_member_far_behind_starts_from_a_snapshot(void **state)
{
    struct cluster *cluster = cluster_up(2, 4, 3);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster->nodes[i].ballast_bytes = 3000000;
    cluster_propose_many(cluster, 600);
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    join(cluster, 3);
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    assert_in_range(cluster->nodes[3].restored, 1, 2); /* the leader may take one meanwhile */
    promote(cluster, 3);
    cluster_kill(cluster, 3);
    cluster_start(cluster, 3, false);
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    cluster_free(cluster);
}

/* 3 -> 5 -> 3 under load: the founders but one are replaced, the leader is among those that go. */
static void a_cluster_grows_and_shrinks_under_load(void **state)
{
    struct cluster *cluster = cluster_up(3, 5, 3);

    (void)state;
    for (unsigned node = 3; node < 5; node++) {
        cluster_propose_many(cluster, 60);
        join(cluster, node);
        cluster_propose_many(cluster, 60);
        promote(cluster, node);
    }
    assert_uint_equal(leader_status(cluster).voter_count, 5);
    for (unsigned node = 0; node < 2; node++) {
        if (cluster_leader(cluster) == (int)node) {
            struct err err;
            assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
            assert_int_equal(consensus_transfer(cluster->nodes[node].consensus, 3, &err), 0);
            cluster_run(cluster, SECOND_US);
        }
        cluster_propose_many(cluster, 60);
        remove_member(cluster, node);
    }
    cluster_propose_many(cluster, 60);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    assert_uint_equal(leader_status(cluster).voter_count, 3);
    assert_uint_equal(cluster->acknowledged, 420);
    assert_true(cluster->nodes[0].gone && cluster->nodes[1].gone);
    cluster_free(cluster);
}

static void a_learner_never_campaigns_and_gives_no_vote(void **state)
{
    struct cluster *cluster = cluster_up(4, 4, 3);
    unsigned leader = (unsigned)cluster_leader(cluster);
    struct consensus_status status;

    (void)state;
    cluster_propose_many(cluster, 5);
    join(cluster, 3);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_kill(cluster, leader);
    cluster_kill(cluster, (leader + 1) % 3);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1); /* one voter and one learner are no majority */
    consensus_get_status(cluster->nodes[3].consensus, &status);
    assert_int_equal(status.role, CONSENSUS_FOLLOWER);
    cluster_start(cluster, leader, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_free(cluster);
}

static void what_cannot_be_added_is_refused_with_the_reason(void **state)
{
    struct cluster *cluster = cluster_up(5, 5, 3);
    struct consensus_member *fourth = &cluster->members[3];

    (void)state;
    cluster_propose_many(cluster, 5);
    assert_true(cluster_add(cluster, 3)); /* nothing listens there */
    assert_refused(cluster, ERR_UNAVAILABLE, "member 4 ");
    cluster_start(cluster, 3, true);
    fourth->id = 2;
    cluster_ask(cluster, 3);
    assert_refused(cluster, ERR_REFUSED, "id 2 is in use by member n2");
    fourth->id = 7;
    cluster_ask(cluster, 3);
    assert_refused(cluster, ERR_MISMATCH, "answers as member 4, not 7");
    fourth->id = 4;
    strcpy(fourth->name, "n1");
    cluster_ask(cluster, 3);
    assert_refused(cluster, ERR_REFUSED, "name n1 is in use by member n1 (id 1)");
    strcpy(fourth->name, "n4");
    strcpy(fourth->address, cluster->members[1].address);
    cluster_ask(cluster, 3);
    assert_refused(cluster, ERR_REFUSED, "is in use by member n2");
    strcpy(fourth->address, "node3:1");
    assert_true(cluster_add(cluster, 3));
    assert_true(cluster_change_wait(cluster));
    assert_true(cluster_add(cluster, 3));
    assert_refused(cluster, ERR_REFUSED, "id 4 is in use by member n4");
    cluster_free(cluster);
}

/* I11: a folder of another life, even under a new id, is not taken for a blank one. */
static void a_member_with_data_of_its_own_cannot_join(void **state)
{
    struct cluster *cluster = cluster_up(6, 4, 3);

    (void)state;
    cluster->nodes[3].joins = false;
    cluster->founders = 4; /* bootstraps a cluster of its own */
    cluster_start(cluster, 3, true);
    assert_true(cluster_add(cluster, 3));
    assert_refused(cluster, ERR_REFUSED, "not started with --join");
    assert_uint_equal(leader_status(cluster).learner_count, 0);
    cluster_free(cluster);
}

static void one_change_at_a_time(void **state)
{
    struct cluster *cluster = cluster_up(7, 5, 3);

    (void)state;
    cluster_start(cluster, 3, true);
    cluster_start(cluster, 4, true);
    assert_true(cluster_add(cluster, 3));
    assert_true(cluster_add(cluster, 4));
    assert_refused(cluster, ERR_REFUSED, "(member n4) is under way");
    while (cluster->changes_done == 0)
        cluster_step(cluster);
    assert_true(cluster_add(cluster, 4));
    assert_true(cluster_change_wait(cluster));
    assert_uint_equal(leader_status(cluster).learner_count, 2);
    cluster_free(cluster);
}

static void a_learner_that_lags_is_not_promoted(void **state)
{
    struct cluster *cluster = cluster_up(8, 4, 3);

    (void)state;
    join(cluster, 3);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    for (unsigned i = 0; i < 3; i++) {
        sim_link_set(cluster->sim, i, 3, false); /* it is heard, but hears nothing */
    }
    cluster_propose_many(cluster, CONSENSUS_PROMOTE_LAG_MAX + 50);
    assert_true(cluster_promote(cluster, 3));
    assert_false(cluster_change_wait(cluster));
    assert_int_equal(cluster->change_err.code, ERR_REFUSED);
    for (unsigned i = 0; i < 3; i++)
        sim_link_set(cluster->sim, i, 3, true);
    promote(cluster, 3);
    assert_uint_equal(leader_status(cluster).voter_count, 4);
    cluster_free(cluster);
}

static void a_removal_that_would_lose_the_quorum_is_refused_with_numbers(void **state)
{
    struct cluster *cluster = cluster_up(9, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), down = (leader + 1) % 3,
             up = (leader + 2) % 3;

    (void)state;
    cluster_kill(cluster, down);
    cluster_run(cluster, SECOND_US);
    assert_true(cluster_remove(cluster, up));
    assert_refused(cluster, ERR_REFUSED, "2 voters would remain, quorum 2 of 2");
    assert_contains(cluster->change_err.text, cluster->members[down].name);
    assert_true(cluster_remove(cluster, leader));
    assert_refused(cluster, ERR_REFUSED, "leads: transfer leadership first");
    remove_member(cluster, down);
    remove_member(cluster, up);
    assert_true(cluster_remove(cluster, leader));
    assert_refused(cluster, ERR_REFUSED, "is the last voter");
    assert_true(cluster_remove(cluster, down));
    assert_refused(cluster, ERR_NOT_FOUND, "was removed already");
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_free(cluster);
}

static void a_removal_after_which_commits_would_wait_for_one_that_lags_is_refused(void **state)
{
    struct cluster *cluster = cluster_up(19, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), level = (leader + 1) % 3,
             lags = (leader + 2) % 3;

    (void)state;
    sim_disk_set_slowness(cluster->sim, lags, 10000); /* it answers, and stores little */
    cluster_propose_many(cluster, CONSENSUS_PROMOTE_LAG_MAX + 50);
    cluster_run(cluster, SECOND_US / 4);
    assert_int_equal(cluster_leader(cluster), leader);
    assert_true(cluster_remove(cluster, level));
    assert_refused(cluster, ERR_REFUSED, "2 voters would remain, quorum 2 of 2");
    assert_contains(cluster->change_err.text, cluster->members[lags].name);
    assert_contains(cluster->change_err.text, "entries behind) has still to catch up");
    remove_member(cluster, lags); /* it is the one that may go */
    sim_disk_set_slowness(cluster->sim, lags, 1);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    cluster_free(cluster);
}

/* C19: it is told, stops for good, and does not disturb the others. */
static void a_removed_member_stops_and_its_id_is_never_used_again(void **state)
{
    struct cluster *cluster = cluster_up(10, 4, 3);
    unsigned gone = other_than_leader(cluster);
    uint64_t term = leader_status(cluster).term;

    (void)state;
    cluster_propose_many(cluster, 5);
    remove_member(cluster, gone);
    cluster_run(cluster, 5 * SECOND_US);
    assert_true(cluster->nodes[gone].gone);
    assert_null(cluster->nodes[gone].consensus);
    assert_contains(cluster->nodes[gone].fatal.text, "was removed from cluster sim");
    assert_uint_equal(leader_status(cluster).term, term);
    cluster->nodes[gone].gone = false;
    cluster_start(cluster, gone, false);
    assert_null(cluster->nodes[gone].consensus); /* its folder says so */
    assert_true(cluster_add(cluster, gone));
    assert_refused(cluster, ERR_REFUSED, "ids are never used again: use 4 or higher");
    cluster_free(cluster);
}

static void a_member_that_was_down_when_it_was_removed_is_told_when_it_comes_back(void **state)
{
    struct cluster *cluster = cluster_up(11, 3, 3);
    unsigned gone = other_than_leader(cluster);
    uint64_t term;

    (void)state;
    cluster_propose_many(cluster, 5);
    cluster_kill(cluster, gone);
    cluster_run(cluster, SECOND_US);
    remove_member(cluster, gone);
    for (unsigned i = 0; i < 3; i++) /* also members that were started after the removal know */
        if (i != gone) {
            cluster_run(cluster, 2 * SECOND_US);
            cluster_kill(cluster, i);
            cluster_start(cluster, i, false);
            assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        }
    cluster_propose_many(cluster, 5);
    term = leader_status(cluster).term;
    cluster_start(cluster, gone, false);
    cluster_run(cluster, 5 * SECOND_US);
    assert_true(cluster->nodes[gone].gone);
    assert_uint_equal(leader_status(cluster).term, term);
    cluster_free(cluster);
}

/* C12: the entry of the configuration before was compacted long ago, and the old leader may have
 * restarted in between. */
static void rolls_back(uint64_t seed, bool restarts)
{
    struct cluster *cluster = cluster_up(seed, 4, 3);
    unsigned old = (unsigned)cluster_leader(cluster);
    struct consensus_status status;

    cluster_propose_many(cluster, 400);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    cluster_start(cluster, 3, true);
    assert_true(cluster_remove(cluster, (old + 1) % 3));
    cluster_isolate(cluster, old, false); /* the removal is in its log only */
    cluster_run(cluster, 3 * SECOND_US);
    assert_int_not_equal(cluster_leader(cluster), (int)old);
    cluster_propose_many(cluster, 10);
    consensus_get_status(cluster->nodes[old].consensus, &status);
    assert_true(status.change_index != 0);
    assert_uint_equal(status.voter_count, 2);
    if (restarts) {
        cluster_kill(cluster, old);
        cluster_start(cluster, old, false);
        consensus_get_status(cluster->nodes[old].consensus, &status);
        assert_true(status.change_index != 0);
    }
    cluster_isolate(cluster, old, true);
    assert_true(cluster_run_until_equal(cluster, 30 * SECOND_US));
    consensus_get_status(cluster->nodes[old].consensus, &status);
    assert_uint_equal(status.change_index, 0);
    assert_uint_equal(status.voter_count, 3);
    cluster_free(cluster);
}

static void a_change_that_was_not_committed_is_rolled_back(void **state)
{
    (void)state;
    for (uint64_t seed = 20; seed < 25; seed++) {
        rolls_back(seed, false);
        rolls_back(seed, true);
    }
}

/* S18: the promotion is in the leader's log alone, the leader restarts, and now both votes are
 * needed. */
static void a_promotion_that_only_the_leader_knows_blocks_no_election(void **state)
{
    struct cluster *cluster = cluster_up(13, 2, 1);
    struct consensus_status status;

    (void)state;
    cluster_propose_many(cluster, 5);
    join(cluster, 1);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_run(cluster, SECOND_US / 4);
    sim_link_set(cluster->sim, 0, 1, false);
    assert_true(cluster_promote(cluster, 1));
    cluster_run(cluster, SECOND_US / 10);
    consensus_get_status(cluster->nodes[1].consensus, &status);
    assert_int_equal(status.member_role, CONSENSUS_LEARNER);
    cluster_kill(cluster, 0);
    sim_reset_connections(cluster->sim, 0, 1); /* what was under way never arrives */
    cluster_run(cluster, 6 * SECOND_US);
    sim_link_set(cluster->sim, 0, 1, true);
    cluster_start(cluster, 0, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    assert_uint_equal(leader_status(cluster).voter_count, 2);
    cluster_free(cluster);
}

/* S19: a learner may have what the disk of the only voter has lost. cluster.c compares every
 * entry. */
static void a_sole_voter_that_lost_its_tail_begins_a_new_term(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 130; seed++) {
        struct cluster *cluster = cluster_up(seed, 2, 1);

        join(cluster, 1);
        cluster_propose_many(cluster, 5);
        assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
        cluster_run(cluster, SECOND_US / 4);
        sim_disk_set_slowness(cluster->sim, 0, 50); /* the learner is faster */
        for (unsigned i = 0; i < 12; i++)
            (void)cluster_propose(cluster);
        cluster_run(cluster, 3000);
        cluster_kill(cluster, 0);
        sim_disk_set_slowness(cluster->sim, 0, 1);
        cluster_start(cluster, 0, false);
        assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        cluster_propose_many(cluster, 20);
        assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
        cluster_free(cluster);
    }
}

/* ---- random changes under random faults ---- */

static void change_something(struct cluster *cluster)
{
    unsigned node = (unsigned)sim_random(cluster->sim, cluster->count);

    switch (sim_random(cluster->sim, 3)) {
    case 0:
        if (!cluster->nodes[node].started)
            cluster_start(cluster, node, true);
        (void)cluster_add(cluster, node);
        break;
    case 1:
        (void)cluster_promote(cluster, node);
        break;
    default:
        if (sim_random(cluster->sim, 3) == 0)
            (void)cluster_remove(cluster, node);
    }
}

static void chaos_run(uint64_t seed, unsigned count, unsigned founders, unsigned seconds,
                      uint64_t *ret_acked, uint64_t *ret_changes)
{
    struct cluster *cluster = cluster_up(seed, count, founders);
    uint64_t end = sim_now_us(cluster->sim) + (uint64_t)seconds * SECOND_US;

    cluster->config.snapshot_after_entries = 20 + sim_random(cluster->sim, 200);
    while (sim_now_us(cluster->sim) < end) {
        for (uint64_t n = sim_random(cluster->sim, 12); n > 0; n--)
            (void)cluster_propose(cluster);
        if (sim_random(cluster->sim, 4) == 0)
            cluster_read(cluster);
        if (sim_random(cluster->sim, 25) == 0)
            cluster_fault(cluster);
        if (sim_random(cluster->sim, 6) == 0)
            change_something(cluster);
        cluster_run(cluster, sim_random(cluster->sim, 20000));
    }
    cluster_heal(cluster);
    assert_true(cluster_run_until_leader(cluster, 30 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    cluster_propose_many(cluster, 3);
    assert_true(cluster_run_until_equal(cluster, 60 * SECOND_US));
    *ret_acked += cluster->acknowledged;
    *ret_changes += cluster->changes_done;
    cluster_free(cluster);
}

static void changes_of_members_survive_crashes_and_partitions(void **state)
{
    uint64_t seed = test_seed(), acked = 0, changes = 0;
    const char *runs = getenv("RUNS");
    int count = runs != NULL ? atoi(runs) : 12;

    (void)state;
    for (int i = 0; i < count; i++) {
        print_message("run %d SEED=%" PRIu64 "\n", i, seed + (uint64_t)i);
        chaos_run(seed + (uint64_t)i, CONSENSUS_MEMBERS_MAX, 1 + (unsigned)(seed + (uint64_t)i) % 5,
                  15, &acked, &changes);
    }
    print_message("%" PRIu64 " acknowledged, %" PRIu64 " changes\n", acked, changes);
    assert_true(changes > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_member_catches_up_as_a_learner_and_then_votes),
        cmocka_unit_test(a_new_member_far_behind_starts_from_a_snapshot),
        cmocka_unit_test(a_cluster_grows_and_shrinks_under_load),
        cmocka_unit_test(a_learner_never_campaigns_and_gives_no_vote),
        cmocka_unit_test(what_cannot_be_added_is_refused_with_the_reason),
        cmocka_unit_test(a_member_with_data_of_its_own_cannot_join),
        cmocka_unit_test(one_change_at_a_time),
        cmocka_unit_test(a_learner_that_lags_is_not_promoted),
        cmocka_unit_test(a_removal_that_would_lose_the_quorum_is_refused_with_numbers),
        cmocka_unit_test(a_removal_after_which_commits_would_wait_for_one_that_lags_is_refused),
        cmocka_unit_test(a_removed_member_stops_and_its_id_is_never_used_again),
        cmocka_unit_test(a_member_that_was_down_when_it_was_removed_is_told_when_it_comes_back),
        cmocka_unit_test(a_change_that_was_not_committed_is_rolled_back),
        cmocka_unit_test(a_promotion_that_only_the_leader_knows_blocks_no_election),
        cmocka_unit_test(a_sole_voter_that_lost_its_tail_begins_a_new_term),
        cmocka_unit_test(changes_of_members_survive_crashes_and_partitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
