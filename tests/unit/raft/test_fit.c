/* Who should not lead while another one can: its disk is full, or it was asked not to. And the few
 * words that go along with messages. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000, ELECTION_US = 300000 };

static int transfer(struct cluster *cluster, unsigned from, uint64_t member_id, struct err *err)
{
    unsigned before = sim_enter(cluster->sim, from);
    int status = consensus_transfer(cluster->nodes[from].consensus, member_id, err);

    sim_leave(cluster->sim, before);
    return status;
}

static void is_handed_over_to(struct cluster *cluster, unsigned from, uint64_t member_id,
                              unsigned to)
{
    struct err err;

    assert_int_equal(transfer(cluster, from, member_id, &err), 0);
    cluster_run(cluster, SECOND_US / 4);
    assert_int_equal(cluster_leader(cluster), (int)to);
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US);
}

static void nobody_hands_over_to_a_full_disk(void **state)
{
    struct cluster *cluster = cluster_up(3, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), full = (leader + 1) % 3,
             other = (leader + 2) % 3;
    struct err err;

    (void)state;
    cluster_propose_many(cluster, 5);
    sim_disk_set_free(cluster->sim, full, 1000);
    cluster_run(cluster, 3 * SECOND_US);
    assert_int_equal(transfer(cluster, leader, full + 1, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    assert_non_null(strstr(err.text, "disk"));
    assert_non_null(strstr(err.text, cluster->members[full].name));
    is_handed_over_to(cluster, leader, 0, other);
    sim_disk_set_free(cluster->sim, leader, 1000);
    cluster_run(cluster, 3 * SECOND_US);
    assert_int_equal(transfer(cluster, other, 0, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    sim_disk_set_free(cluster->sim, full, UINT64_C(1) << 30);
    cluster_run(cluster, 3 * SECOND_US);
    is_handed_over_to(cluster, other, 0, full);
    cluster_free(cluster);
}

/* Clocks that are off stop nothing; a leader without room takes no changes, and one that ends takes
 * none soon. */
static void who_is_reluctant_takes_over_where_nobody_is_fit(void **state)
{
    (void)state;
    for (unsigned full = 0; full <= 1; full++) {
        struct cluster *cluster = cluster_up(3 + full, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster), next = (leader + 1) % 3,
                 other = (leader + 2) % 3;
        struct err err;

        cluster_propose_many(cluster, 5);
        consensus_set_reluctant(cluster->nodes[next].consensus, true);
        if (full != 0)
            sim_disk_set_free(cluster->sim, other, 1000);
        else
            consensus_set_reluctant(cluster->nodes[other].consensus, true);
        cluster_run(cluster, 3 * SECOND_US);
        assert_int_equal(transfer(cluster, leader, next + 1, &err), -1);
        assert_int_equal(err.code, ERR_REFUSED);
        is_handed_over_to(cluster, leader, 0, next);
        cluster_free(cluster);
    }
}

/* Its rank is the first: without its reluctance it would campaign at once. */
static void who_is_reluctant_leaves_elections_to_the_others(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *cluster = cluster_up(seed, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster), reluctant = leader == 0 ? 1 : 0;
        struct err err;

        cluster_propose_many(cluster, 5);
        consensus_set_reluctant(cluster->nodes[reluctant].consensus, true);
        cluster_run(cluster, SECOND_US);
        assert_int_equal(transfer(cluster, leader, reluctant + 1, &err), -1);
        assert_int_equal(err.code, ERR_REFUSED);
        cluster_kill(cluster, leader);
        cluster_run(cluster, SECOND_US / 2);
        assert_int_equal(cluster_leader(cluster), (int)(3 - leader - reluctant));
        cluster_start(cluster, leader, false);
        cluster_propose_many(cluster, 5);
        assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
        cluster_free(cluster);
    }
}

/* The first rank's clock is found to be off while the leader stands still: the next rank's timer
 * decides, a twentieth of the timeout later (L1; the simulator's bounds_standstill() allows that).
 */
static void who_becomes_reluctant_in_a_standstill_costs_one_rank(void **state)
{
    enum { PART_US = ELECTION_US / CORE_RANKS_PER_ELECTION, SLACK_US = 60000 };

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster *cluster = cluster_up(seed, 3, 3);
        unsigned leader = (unsigned)cluster_leader(cluster), first = leader == 0 ? 1 : 0;
        uint64_t begin_us;

        cluster_propose_many(cluster, 5);
        cluster_run(cluster, SECOND_US);
        sim_pause(cluster->sim, leader, 2 * SECOND_US);
        begin_us = sim_now_us(cluster->sim);
        cluster_run(cluster, ELECTION_US / 2);
        consensus_set_reluctant(cluster->nodes[first].consensus, true);
        while (cluster_leader(cluster) == (int)leader &&
               sim_now_us(cluster->sim) - begin_us < 2 * SECOND_US)
            cluster_step(cluster);
        assert_int_equal(cluster_leader(cluster), (int)(3 - leader - first));
        assert_in_range(sim_now_us(cluster->sim) - begin_us, ELECTION_US / 2,
                        ELECTION_US + PART_US / 2 + PART_US + SLACK_US);
        cluster_free(cluster);
    }
}

/* The other one's log is shorter: it cannot be elected. Whether its leader knew that it was there
 * decides how long it is waited for. */
static void leads_when_nobody_else_can(bool was_there)
{
    struct cluster *cluster = cluster_up(5, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), reluctant = (leader + 1) % 3,
             late = (leader + 2) % 3;
    uint64_t killed_us;

    consensus_set_reluctant(cluster->nodes[reluctant].consensus, true);
    cluster_run(cluster, 2 * SECOND_US);
    cluster_kill(cluster, late);
    cluster_propose_many(cluster, 20);
    cluster_kill(cluster, leader);
    cluster->nodes[reluctant].consensus->others_fit |= was_there;
    killed_us = sim_now_us(cluster->sim);
    cluster_start(cluster, late, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    assert_int_equal(cluster_leader(cluster), (int)reluctant);
    if (was_there)
        assert_in_range(sim_now_us(cluster->sim) - killed_us,
                        CORE_RELUCTANT_ELECTIONS * ELECTION_US * 9 / 10,
                        (CORE_RELUCTANT_ELECTIONS + 3) * ELECTION_US);
    else
        assert_in_range(sim_now_us(cluster->sim) - killed_us, 0, 3 * ELECTION_US);
    cluster_propose_many(cluster, 5);
    cluster_free(cluster);
}

static void who_is_reluctant_leads_when_nobody_else_can(void **state)
{
    (void)state;
    leads_when_nobody_else_can(false);
    leads_when_nobody_else_can(true);
}

/* None of them is better than another: nobody waits. */
static void where_all_are_reluctant_an_election_takes_no_longer(void **state)
{
    struct cluster *cluster = cluster_up(7, 3, 3);
    uint64_t killed_us;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        consensus_set_reluctant(cluster->nodes[i].consensus, true);
    cluster_run(cluster, 2 * SECOND_US);
    cluster_kill(cluster, (unsigned)cluster_leader(cluster));
    killed_us = sim_now_us(cluster->sim);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    assert_in_range(sim_now_us(cluster->sim) - killed_us, 0, SECOND_US / 10);
    cluster_free(cluster);
}

static void who_is_alone_is_not_asked_whether_it_wants_to(void **state)
{
    struct cluster *cluster = cluster_up(5, 1, 1);

    (void)state;
    cluster_kill(cluster, 0);
    cluster_start(cluster, 0, false);
    consensus_set_reluctant(cluster->nodes[0].consensus, true);
    cluster_run(cluster, 2 * ELECTION_US + SECOND_US / 10);
    assert_int_equal(cluster_leader(cluster), 0);
    cluster_free(cluster);
}

/* A leader has heard the words of a majority by the time it leads; and goes on hearing them all, as
 * they hear its own. */
static void words_come_with_votes_and_go_on_with_heartbeats(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *cluster = cluster_new(seed, 5);
        unsigned heard = 1, leader;

        for (unsigned i = 0; i < 5; i++)
            cluster_start(cluster, i, true);
        assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        leader = (unsigned)cluster_leader(cluster);
        for (unsigned i = 0; i < 5; i++)
            heard += cluster->nodes[leader].words_of[i] > 0;
        assert_true(heard >= 3);
        cluster_run(cluster, 2 * SECOND_US);
        for (unsigned i = 0; i < 5; i++) {
            if (i == leader)
                continue;
            assert_in_range(cluster->nodes[leader].words_of[i], 4, 12);
            assert_in_range(cluster->nodes[i].leader_words, 3, 8);
        }
        cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_hands_over_to_a_full_disk),
        cmocka_unit_test(who_is_reluctant_takes_over_where_nobody_is_fit),
        cmocka_unit_test(who_is_reluctant_leaves_elections_to_the_others),
        cmocka_unit_test(who_becomes_reluctant_in_a_standstill_costs_one_rank),
        cmocka_unit_test(who_is_reluctant_leads_when_nobody_else_can),
        cmocka_unit_test(where_all_are_reluctant_an_election_takes_no_longer),
        cmocka_unit_test(who_is_alone_is_not_asked_whether_it_wants_to),
        cmocka_unit_test(words_come_with_votes_and_go_on_with_heartbeats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
