/* See anew.h. */
#include "tests/unit/raft/anew.h"

#include "tests/support/test.h"

enum { SECOND_US = 1000000 };

static void cast(struct anew *anew)
{
    anew->leader = (unsigned)cluster_leader(anew->cluster);
    anew->wiped = (anew->leader + 1) % 3;
    anew->late = (anew->leader + 2) % 3;
}

static void nobody_leads(struct cluster *cluster)
{
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
}

/* The leader that knows everything comes back: all get it, and then two of them are enough, also after a restart. */
static void all_goes_on(const struct anew *anew)
{
    struct cluster *cluster = anew->cluster;

    cluster_start(cluster, anew->leader, false);
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    assert_true(cluster->nodes[anew->late].state.index >= anew->acknowledged);
    cluster_run(cluster, SECOND_US);
    assert_false(status_of(cluster, anew->wiped).filling);
    cluster_kill(cluster, anew->leader);
    cluster_kill(cluster, anew->wiped);
    cluster_start(cluster, anew->wiped, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
}

void anew_has_no_vote(struct anew *anew, anew_begin_fn *begin)
{
    struct cluster *cluster = anew->cluster;

    cast(anew);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_kill(cluster, anew->late);
    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US);
    anew->acknowledged = cluster->acknowledged_index;
    cluster_kill(cluster, anew->leader);
    cluster_kill(cluster, anew->wiped);
    sim_wipe(cluster->sim, anew->wiped);
    begin(cluster, anew->wiped);
    cluster_start(cluster, anew->late, false);
    nobody_leads(cluster);
    all_goes_on(anew);
}

void anew_half_filled(struct anew *anew, anew_begin_fn *begin)
{
    struct cluster *cluster = anew->cluster;

    cast(anew);
    anew->lagging = status_of(cluster, anew->late).last_index;
    cluster_isolate(cluster, anew->late, false);
    cluster->entry_bytes_max = 60000;
    cluster_propose_many(cluster, 60);
    cluster_run(cluster, SECOND_US);
    anew->acknowledged = cluster->acknowledged_index;
    /* whom its leader knew would be told so: this one leads anew, with the vote of the one that lags */
    cluster_kill(cluster, anew->wiped);
    cluster_kill(cluster, anew->leader);
    sim_wipe(cluster->sim, anew->wiped);
    cluster_start(cluster, anew->leader, false);
    cluster_isolate(cluster, anew->late, true);
    while (cluster_leader(cluster) != (int)anew->leader)
        cluster_run(cluster, 20);
    cluster_kill(cluster, anew->late);
    begin(cluster, anew->wiped);
    for (unsigned i = 0; i < 100000 && cluster->nodes[anew->wiped].consensus != NULL &&
                         status_of(cluster, anew->wiped).last_index <= anew->lagging;
         i++)
        cluster_run(cluster, 20);
}

void anew_half_filled_has_no_vote(struct anew *anew, anew_begin_fn *begin)
{
    struct cluster *cluster = anew->cluster;
    struct consensus_status status;

    anew_half_filled(anew, begin);
    status = status_of(cluster, anew->wiped);
    assert_true(status.last_index > anew->lagging && status.last_index < anew->acknowledged);
    assert_true(status.filling);
    cluster_kill(cluster, anew->leader);
    cluster_start(cluster, anew->late, false);
    nobody_leads(cluster);
    cluster_kill(cluster, anew->wiped); /* it remembers */
    cluster_start(cluster, anew->wiped, false);
    nobody_leads(cluster);
    all_goes_on(anew);
}
