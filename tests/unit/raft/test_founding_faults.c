/* Founders that die, are wiped and come back at any moment: one cluster, and nothing that it
 * acknowledged is lost (I11). RUNS=3000 SEED=1 runs it for longer. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000, MS_US = 1000 };

struct torture {
    struct cluster *cluster;
    uint64_t random;
    bool drawn;     /* some folder knows an incarnation */
    unsigned wipes; /* since then */
    bool wiped[SIM_NODES_MAX], refused[SIM_NODES_MAX];
};

static uint64_t next(struct torture *torture, uint64_t below)
{
    torture->random ^= torture->random << 13;
    torture->random ^= torture->random >> 7;
    torture->random ^= torture->random << 17;
    return torture->random % below;
}

static unsigned majority(const struct torture *torture)
{
    return torture->cluster->count / 2 + 1;
}

/* Starts it as operators do: with the flag, and without it where the folder holds the member. */
static void begin(struct torture *torture, unsigned node)
{
    struct cluster *cluster = torture->cluster;
    bool flag = next(torture, 4) != 0;
    struct err err;

    if (cluster_try_start(cluster, node, flag, &err) == 0 ||
        (!sim_disk_dead(cluster->sim, node) && cluster_try_start(cluster, node, !flag, &err) == 0))
        return;
    if (!sim_disk_dead(cluster->sim, node))
        fail_msg("member %u does not start: %s", node + 1, err.text);
    sim_crash(cluster->sim, node);
}

static void look(struct torture *torture)
{
    for (unsigned i = 0; i < torture->cluster->count; i++) {
        const struct cluster_node *node = &torture->cluster->nodes[i];
        if (node->fatal.code == ERR_REFUSED && node->consensus == NULL) {
            assert_true(torture->wiped[i]);
            torture->refused[i] = true;
        }
        if (node->consensus != NULL)
            torture->drawn |= node->consensus->founding.record.incarnation != 0 ||
                              node->consensus->folder.incarnation != 0;
    }
}

static void run(struct torture *torture, uint64_t us)
{
    uint64_t end = sim_now_us(torture->cluster->sim) + us;

    while (sim_now_us(torture->cluster->sim) < end && cluster_step(torture->cluster))
        look(torture);
}

static void act(struct torture *torture)
{
    struct cluster *cluster = torture->cluster;
    unsigned node = (unsigned)next(torture, cluster->count);
    bool down = cluster->nodes[node].consensus == NULL;

    if (torture->refused[node])
        return;
    switch (next(torture, 8)) {
    case 0:
    case 1:
    case 2:
        if (down) {
            sim_disk_die_after(cluster->sim, node, 0);
            begin(torture, node);
        }
        break;
    case 3:
        cluster_kill(cluster, node);
        break;
    case 4:
        sim_disk_die_after(cluster->sim, node,
                           down ? 1 + next(torture, 60) : 1 + next(torture, 12));
        if (down)
            begin(torture, node);
        break;
    case 5:
        if (torture->drawn && torture->wipes == cluster->count - majority(torture))
            break;
        cluster_kill(cluster, node);
        sim_disk_die_after(cluster->sim, node, 0);
        sim_wipe(cluster->sim, node);
        torture->wipes += torture->drawn;
        torture->wiped[node] = true;
        if (next(torture, 2) == 0)
            begin(torture, node);
        break;
    case 6:
        cluster_isolate(cluster, node, next(torture, 2) == 0);
        break;
    default:
        (void)cluster_propose(cluster);
        break;
    }
}

/* A refusal is not written down: where nobody holds what was drawn any more it means nothing. */
static void start_the_refused(struct torture *torture)
{
    for (unsigned i = 0; i < torture->cluster->count; i++) {
        const struct consensus *consensus = torture->cluster->nodes[i].consensus;
        if (consensus != NULL && consensus->folder.incarnation != 0)
            return;
    }
    memset(torture->refused, 0, sizeof(torture->refused));
}

static void settle(struct torture *torture)
{
    struct cluster *cluster = torture->cluster;
    unsigned refused = 0, of_it = 0;
    uint64_t incarnation = 0;
    int leader;

    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < cluster->count; i++) {
            cluster_isolate(cluster, i, true);
            sim_disk_die_after(cluster->sim, i, 0);
            if (cluster->nodes[i].consensus == NULL && !torture->refused[i])
                begin(torture, i);
        }
        run(torture, 10 * SECOND_US);
        start_the_refused(torture);
    }
    for (unsigned i = 0; i < cluster->count; i++)
        refused += torture->refused[i];
    if (refused > cluster->count - majority(torture))
        return;
    leader = cluster_leader(cluster);
    assert_true(leader >= 0);
    incarnation = status_of(cluster, (unsigned)leader).incarnation;
    for (unsigned i = 0; i < cluster->count; i++)
        if (!torture->refused[i]) {
            assert_non_null(cluster->nodes[i].consensus);
            of_it += status_of(cluster, i).incarnation == incarnation;
        }
    assert_uint_equal(of_it, cluster->count - refused);
    assert_true(status_of(cluster, (unsigned)leader).commit_index >= cluster->acknowledged_index);
    assert_true(cluster_propose(cluster));
    run(torture, 2 * SECOND_US);
}

static void one_round(uint64_t seed)
{
    struct torture torture = {.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};

    torture.cluster = cluster_new(seed, seed % 3 == 0 ? 5 : 3);
    torture.cluster->founds = true;
    for (unsigned i = 0; i < 40; i++) {
        act(&torture);
        run(&torture,
            next(&torture, 3) == 0 ? next(&torture, 2 * SECOND_US) : next(&torture, 60 * MS_US));
    }
    settle(&torture);
    cluster_free(torture.cluster);
}

static void founders_that_die_and_are_wiped_make_one_cluster(void **state)
{
    static const uint64_t pinned[] = {
        1298,   /* the one that drew is wiped when it has only refused somebody */
        101321, /* ... when it has told one, which the new folder heard as blank a moment before */
        402149, /* ... and that one reads it when it has answered the new folder */
        200029, 300107};
    const char *runs = getenv("RUNS"), *from = getenv("SEED");
    uint64_t count = runs != NULL ? strtoull(runs, NULL, 10) : 40;
    uint64_t first = from != NULL ? strtoull(from, NULL, 10) : 1;

    (void)state;
    for (size_t i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++)
        one_round(pinned[i]);
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (runs != NULL)
            fprintf(stderr, "seed %" PRIu64 "\n", seed);
        one_round(seed);
    }
}

/* It was heard, went away and lost its disk: what it said does not count for a later draw. */
static void a_founder_that_is_wiped_while_it_is_down_is_heard_again(void **state)
{
    struct cluster *cluster = cluster_new(3, 3);

    (void)state;
    cluster->founds = true;
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 1, true);
    cluster_run(cluster, 2 * SECOND_US);
    cluster_kill(cluster, 1);
    sim_wipe(cluster->sim, 1);
    cluster_run(cluster, 10 * SECOND_US);
    assert_string_equal(status_of(cluster, 0).founding, "n2, n3");
    cluster_start(cluster, 2, true);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_string_equal(status_of(cluster, 0).founding, "n2");
    cluster_start(cluster, 1, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    cluster_free(cluster);
}

/* Nobody is in its list whom it could ask; those who joined since call it. */
static void the_only_founder_is_refused_when_it_begins_again_beside_members_that_joined(
    void **state)
{
    struct cluster *cluster = cluster_new_with(4, 3, 1);

    (void)state;
    cluster->founds = true;
    cluster_start(cluster, 0, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US);
    for (unsigned i = 1; i < 3; i++) {
        cluster_start(cluster, i, false);
        assert_true(cluster_add(cluster, i));
        assert_true(cluster_change_wait(cluster));
        cluster_run(cluster, 2 * SECOND_US);
        assert_true(cluster_promote(cluster, i));
        assert_true(cluster_change_wait(cluster));
    }
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    cluster_kill(cluster, 0);
    sim_wipe(cluster->sim, 0);
    cluster_run(cluster, 5 * SECOND_US);
    assert_true(cluster_leader(cluster) > 0);
    cluster_start(cluster, 0, true);
    cluster_run(cluster, 10 * SECOND_US);
    assert_null(cluster->nodes[0].consensus);
    assert_int_equal(cluster->nodes[0].fatal.code, ERR_REFUSED);
    assert_contains(cluster->nodes[0].fatal.text, "ckptctl member replace n1");
    cluster_free(cluster);
}

/* Each operation of the disk fails in turn, also those behind the moment of being a member. */
static void a_first_start_whose_disk_fails_leads_or_says_so(void **state)
{
    unsigned told = 0;

    (void)state;
    for (unsigned operation = 1; operation < 80; operation++) {
        struct cluster *cluster = cluster_new(operation, 1);
        struct err err;
        int status;

        cluster->founds = true;
        sim_disk_fail_after(cluster->sim, 0, operation);
        status = cluster_try_start(cluster, 0, true, &err);
        cluster_run(cluster, 10 * SECOND_US);
        if (status == 0 && cluster->nodes[0].fatal.code == ERR_NONE) {
            assert_int_equal(cluster_leader(cluster), 0);
        } else {
            assert_int_not_equal(status != 0 ? err.code : cluster->nodes[0].fatal.code, ERR_NONE);
            told++;
        }
        cluster_free(cluster);
    }
    assert_true(told > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(founders_that_die_and_are_wiped_make_one_cluster),
        cmocka_unit_test(a_founder_that_is_wiped_while_it_is_down_is_heard_again),
        cmocka_unit_test(
            the_only_founder_is_refused_when_it_begins_again_beside_members_that_joined),
        cmocka_unit_test(a_first_start_whose_disk_fails_leads_or_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
