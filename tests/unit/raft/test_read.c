/* Linearizable reads while the members change (I7, C19): each of them ends, whoever may still
 * confirm it. */
#include "tests/support/test.h"

#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

static void on_read(void *data, int status, const struct err *err)
{
    unsigned *confirmed = data;

    (void)err;
    *confirmed += status == 0;
}

/* Who is left when the other one is removed is a majority: nobody's answer is missing any more, and
 * none comes. */
static void a_read_ends_when_those_that_it_waits_for_are_removed(void **state)
{
    struct cluster *cluster = cluster_new_with(1, 2, 2);
    unsigned leader, confirmed = 0;

    (void)state;
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 1, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    leader = (unsigned)cluster_leader(cluster);
    consensus_read(cluster->nodes[leader].consensus, on_read, &confirmed);
    assert_true(cluster_step(cluster)); /* the round begins */
    assert_true(cluster_remove(cluster, 1 - leader));
    sim_reset_connections(cluster->sim, 0, 1); /* and its question is lost */
    assert_true(cluster_change_wait(cluster));
    cluster_run(cluster, SECOND_US);
    assert_int_equal(confirmed, 1);
    consensus_read(cluster->nodes[leader].consensus, on_read, &confirmed);
    cluster_run(cluster, SECOND_US);
    assert_int_equal(confirmed, 2);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_ends_when_those_that_it_waits_for_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
