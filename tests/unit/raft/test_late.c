/* Messages that are read late, when what they were said for has passed: in a cluster of real
 * members. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000, DISK_SLOWNESS = 20000, SEEDS = 20, STEPS_MAX = 100000 };

/* Three members of whom A leads `term`, and is cut off; B leads the next one, by the vote of X. */
struct scene {
    struct cluster *cluster;
    unsigned a, b, x;
    uint64_t term;
};

static struct raft *raft_of(const struct scene *scene, unsigned node)
{
    return &scene->cluster->nodes[node].consensus->raft;
}

static void link_both(const struct scene *scene, unsigned a, unsigned b, bool up)
{
    sim_link_set(scene->cluster->sim, a, b, up);
    sim_link_set(scene->cluster->sim, b, a, up);
}

/* A leads, and all have the same. */
static void scene_begin(struct scene *scene, uint64_t seed)
{
    struct cluster *cluster = scene->cluster = cluster_new(seed, 3);

    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    scene->a = (unsigned)cluster_leader(cluster);
    scene->term = raft_of(scene, scene->a)->current_term;
}

/* A is cut off, B leads the next term. What B is told then only X stores, whose answers do not
 * reach B. */
static bool tail_only_on_x(struct scene *scene)
{
    struct cluster *cluster = scene->cluster;
    unsigned first = (scene->a + 1) % 3, second = (scene->a + 2) % 3;

    link_both(scene, scene->a, first, false);
    link_both(scene, scene->a, second, false);
    sim_disk_set_slowness(cluster->sim, first, DISK_SLOWNESS);
    sim_disk_set_slowness(cluster->sim, second, DISK_SLOWNESS);
    for (unsigned i = 0; i < STEPS_MAX && raft_of(scene, first)->state != RAFT_LEADER &&
                         raft_of(scene, second)->state != RAFT_LEADER;
         i++)
        cluster_step(cluster);
    scene->b = raft_of(scene, first)->state == RAFT_LEADER ? first : second;
    scene->x = scene->b == first ? second : first;
    sim_link_set(cluster->sim, scene->x, scene->b, false);
    sim_disk_set_slowness(cluster->sim, scene->x, 1);
    for (unsigned i = 0; i < 20; i++)
        (void)cluster_propose(cluster);
    cluster_run(cluster, 130000);
    return raft_of(scene, scene->b)->current_term == scene->term + 1 &&
           raft_of(scene, scene->b)->last_stored < raft_of(scene, scene->x)->last_stored;
}

static bool leads_again(const struct scene *scene)
{
    return raft_of(scene, scene->a)->state == RAFT_LEADER &&
           raft_of(scene, scene->a)->current_term > scene->term;
}

/* B dies with what its disk has not. X is in the next term by the end of their connection, and
 * stands still; A is elected in the same one, by B. */
static bool a_leads_the_term_of_x(struct scene *scene)
{
    struct cluster *cluster = scene->cluster;

    cluster_kill(cluster, scene->b);
    for (unsigned i = 0; i < STEPS_MAX && raft_of(scene, scene->x)->current_term != scene->term + 2;
         i++)
        cluster_step(cluster);
    sim_disk_set_slowness(cluster->sim, scene->b, 1);
    link_both(scene, scene->a, scene->b, true);
    link_both(scene, scene->x, scene->b, false);
    cluster_start(cluster, scene->b, false);
    for (unsigned i = 0; i < 300 && !leads_again(scene); i++) {
        sim_pause(cluster->sim, scene->x, 15000);
        cluster_run(cluster, 10000);
    }
    link_both(scene, scene->a, scene->b, false);
    return leads_again(scene) && raft_of(scene, scene->a)->current_term == scene->term + 2 &&
           raft_of(scene, scene->x)->current_term == scene->term + 2;
}

/* X reads what A sent it when it led `term`, and A what X answers, before X stands still again. */
static void x_reads_a_late_append(const struct scene *scene)
{
    struct frame_message sent = {.type = FRAME_APPEND}, received;
    struct cluster *cluster = scene->cluster;
    struct frame frame;
    struct buf buf = {0};
    unsigned was;

    sent.core.append_entries =
        (struct raft_append_entries){.term = scene->term, .leader_commit = 1};
    frame_encode(&buf, &sent);
    assert_int_equal(frame_parse(buf.bytes, buf.length, &frame, NULL), 1);
    assert_int_equal(frame_decode(&frame, &received, NULL), 0);
    buf_close(&buf);
    sim_link_set(cluster->sim, scene->x, scene->a, true);
    was = sim_enter(cluster->sim, scene->x);
    core_on_message(cluster->nodes[scene->x].consensus, scene->a + 1, &received);
    sim_leave(cluster->sim, was);
    sim_pause(cluster->sim, scene->x, SECOND_US);
}

/* S20. The probe of A for all from the beginning waited in a slow connection; X refuses it for its
 * term, when A leads just that one. */
static void a_late_refusal_acknowledges_nothing_that_one_member_has(void **state)
{
    unsigned planned = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct scene scene;
        uint64_t acknowledged;

        scene_begin(&scene, seed);
        if (tail_only_on_x(&scene) && a_leads_the_term_of_x(&scene)) {
            planned++;
            x_reads_a_late_append(&scene);
            acknowledged = scene.cluster->acknowledged;
            for (unsigned i = 0; i < 5; i++)
                (void)cluster_propose(scene.cluster);
            cluster_run(scene.cluster, SECOND_US / 5);
            cluster_kill(scene.cluster, scene.a);
            link_both(&scene, scene.b, scene.x, true);
            cluster_run(scene.cluster, 5 * SECOND_US);
            assert_true(cluster_propose(scene.cluster));
            cluster_run(scene.cluster, SECOND_US); /* the check of equal entries at equal index */
            assert_true(scene.cluster->acknowledged > acknowledged);
            cluster_heal(scene.cluster);
            assert_true(cluster_run_until_equal(scene.cluster, 30 * SECOND_US));
        }
        cluster_free(scene.cluster);
    }
    assert_true(planned >= SEEDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_refusal_acknowledges_nothing_that_one_member_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
