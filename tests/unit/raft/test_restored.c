/* Members that were restored from one backup (S17, I8, I11): equal at first, and one that is restored again later is not the one it was. */
#include "tests/support/test.h"

#include "raft/log/folder.h"
#include "raft/log/offline.h"
#include "tests/unit/raft/anew.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000, ORIGIN_INDEX = 50, ORIGIN_TERM = 7 };

static int write_state(void *context, const struct consensus_writer *writer, struct err *err)
{
    const struct cluster_state state = {.index = ORIGIN_INDEX, .hash = 77, .entries = 40};
    const uint64_t ballast = 0;

    (void)context;
    return writer->write(writer->context, &state, sizeof(state), err) == 0
               ? writer->write(writer->context, &ballast, sizeof(ballast), err)
               : -1;
}

static void restore(struct cluster *cluster, unsigned node)
{
    const struct offline_origin origin = {
        .index = ORIGIN_INDEX, .term = ORIGIN_TERM, .incarnation = 88, .epoch_min = 3};
    struct consensus_config config = cluster->config;
    struct err err;

    config.member_id = node + 1;
    config.member_count = cluster->founders;
    config.disk = &cluster->nodes[node].disk;
    if (offline_restore(&config, &origin, write_state, NULL, &err) != 0)
        fail_msg("%s", err.text);
    assert_non_null(sim_file_name(cluster->sim, node, FOLDER_BLANK_FILE, 0));
}

static struct cluster *restored_up(uint64_t seed, unsigned count)
{
    struct cluster *cluster = cluster_new(seed, count);

    for (unsigned i = 0; i < count; i++)
        restore(cluster, i);
    for (unsigned i = 0; i < count; i++)
        cluster_start(cluster, i, false);
    assert_true(cluster_run_until_leader(cluster, SECOND_US));
    return cluster;
}

static void members_restored_from_one_file_elect_at_once(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= 5; count += 2) {
        struct cluster *cluster = restored_up(count, count);

        cluster_run(cluster, SECOND_US / 2);
        for (unsigned i = 0; i < count; i++) {
            assert_false(status_of(cluster, i).filling);
            assert_null(sim_file_name(cluster->sim, i, FOLDER_BLANK_FILE, 0));
        }
        cluster_propose_many(cluster, 5);
        assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
        for (unsigned i = 0; i < count; i++)
            cluster_kill(cluster, i);
        for (unsigned i = 0; i < count; i++)
            cluster_start(cluster, i, false);
        assert_true(cluster_run_until_leader(cluster, SECOND_US));
        cluster_free(cluster);
    }
}

/* Before anybody has led they are equal, however often they are started. */
static void restored_members_that_never_met_elect_after_a_restart(void **state)
{
    struct cluster *cluster = cluster_new(4, 3);

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        restore(cluster, i);
        cluster_start(cluster, i, false);
        cluster_run(cluster, SECOND_US);
        cluster_kill(cluster, i);
    }
    for (unsigned i = 0; i < 2; i++)
        cluster_start(cluster, i, false);
    assert_true(cluster_run_until_leader(cluster, 2 * SECOND_US));
    cluster_start(cluster, 2, false);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_free(cluster);
}

/* The first leader's first entry is on some disks, and was committed nowhere: nobody waits to be filled by another one. */
static void restored_members_that_die_in_their_first_moment_elect_again(void **state)
{
    (void)state;
    for (unsigned steps = 0; steps < 60; steps += 3) {
        struct cluster *cluster = restored_up(100 + steps, 3);
        unsigned leader = (unsigned)cluster_leader(cluster), other = (leader + 1) % 3;

        while (status_of(cluster, other).last_index == ORIGIN_INDEX)
            cluster_step(cluster);
        for (unsigned i = 0; i < steps; i++)
            cluster_step(cluster);
        for (unsigned i = 0; i < 3; i++)
            cluster_kill(cluster, i);
        for (unsigned i = 0; i < 3; i++)
            cluster_start(cluster, i, false);
        assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
        cluster_propose_many(cluster, 5);
        assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
        cluster_free(cluster);
    }
}

static void restore_again(struct cluster *cluster, unsigned node)
{
    restore(cluster, node);
    cluster_start(cluster, node, false);
}

static void a_member_that_is_restored_again_has_no_vote(void **state)
{
    struct anew anew = {.cluster = restored_up(12, 3)};

    (void)state;
    anew_has_no_vote(&anew, restore_again);
    cluster_free(anew.cluster);
}

static void a_member_that_is_filled_after_it_was_restored_again_has_no_vote(void **state)
{
    struct anew anew = {.cluster = restored_up(13, 3)};

    (void)state;
    cluster_run(anew.cluster, SECOND_US);
    anew_half_filled_has_no_vote(&anew, restore_again);
    cluster_free(anew.cluster);
}

static void a_mark_that_cannot_be_read_is_not_guessed(void **state)
{
    struct cluster *cluster = cluster_new(14, 3);
    struct err err;

    (void)state;
    restore(cluster, 0);
    sim_file_rot(cluster->sim, 0, FOLDER_BLANK_FILE, 3, 2);
    assert_int_equal(cluster_try_start(cluster, 0, false, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.text, "/sim/blank offset 0"));
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_restored_from_one_file_elect_at_once),
        cmocka_unit_test(restored_members_that_never_met_elect_after_a_restart),
        cmocka_unit_test(restored_members_that_die_in_their_first_moment_elect_again),
        cmocka_unit_test(a_member_that_is_restored_again_has_no_vote),
        cmocka_unit_test(a_member_that_is_filled_after_it_was_restored_again_has_no_vote),
        cmocka_unit_test(a_mark_that_cannot_be_read_is_not_guessed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
