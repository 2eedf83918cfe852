/* Members that were restored from one backup begin together, as the founders of a new cluster do
 * (I8, I11): one that is restored again later is a stranger. */
#include "tests/support/test.h"

#include "raft/log/offline.h"
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

static void restore(struct cluster *cluster, unsigned node, uint64_t digest)
{
    const struct offline_origin origin = {
        .index = ORIGIN_INDEX, .term = ORIGIN_TERM, .digest = digest, .epoch_min = 3};
    struct consensus_config config = cluster->config;
    struct err err;

    config.member_id = node + 1;
    config.member_count = cluster->founders;
    config.disk = &cluster->nodes[node].disk;
    config.random = &cluster->nodes[node].random;
    if (offline_restore(&config, &origin, write_state, NULL, &err) != 0)
        fail_msg("%s", err.text);
}

static struct cluster *restored_up(uint64_t seed, unsigned count)
{
    struct cluster *cluster = cluster_new(seed, count);

    for (unsigned i = 0; i < count; i++)
        restore(cluster, i, 88);
    for (unsigned i = 0; i < count; i++)
        cluster_start(cluster, i, false);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    return cluster;
}

static void members_restored_from_one_file_elect_soon(void **state)
{
    struct cluster *cluster = restored_up(1, 3);

    (void)state;
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    for (unsigned i = 0; i < 3; i++) {
        assert_uint_equal(cluster->nodes[i].restored, 1);
        assert_uint_equal(status_of(cluster, i).epoch_min, 3);
        assert_uint_equal(status_of(cluster, i).incarnation, status_of(cluster, 0).incarnation);
    }
    cluster_free(cluster);
}

static void members_restored_from_different_files_do_not_begin(void **state)
{
    struct cluster *cluster = cluster_new(2, 3);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        restore(cluster, i, i == 1 ? 89 : 88);
    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, false);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_string_equal(status_of(cluster, 0).founding,
                        "n2 (its list of members, or its backup, is another one)");
    assert_uint_equal(status_of(cluster, 0).incarnation, 0);
    cluster_free(cluster);
}

/* What it acknowledged since, and whom it voted for, it has forgotten. */
static void a_member_that_is_restored_again_is_refused(void **state)
{
    struct cluster *cluster = restored_up(3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), again = (leader + 1) % 3;

    (void)state;
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    cluster_kill(cluster, again);
    sim_wipe(cluster->sim, again);
    restore(cluster, again, 88);
    cluster_start(cluster, again, false);
    cluster_run(cluster, 5 * SECOND_US);
    assert_null(cluster->nodes[again].consensus);
    assert_int_equal(cluster->nodes[again].fatal.code, ERR_REFUSED);
    assert_contains(cluster->nodes[again].fatal.text, "ckptctl member replace n");
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US);
    assert_uint_equal(cluster->acknowledged, 10);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_restored_from_one_file_elect_soon),
        cmocka_unit_test(members_restored_from_different_files_do_not_begin),
        cmocka_unit_test(a_member_that_is_restored_again_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
