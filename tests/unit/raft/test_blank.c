/* Members begun anew under an old id on an empty disk, in the simulated world (S17, I11): what the former self had acknowledged, and whom
 * it had voted for, is lost. */
#include "tests/support/test.h"

#include "raft/core/consensus_internal.h"
#include "src/net/network.h"
#include "tests/unit/raft/anew.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

static void bootstrap(struct cluster *cluster, unsigned node)
{
    cluster_start(cluster, node, true);
}

static void a_blank_folder_under_an_old_id_has_no_vote(void **state)
{
    struct anew anew = {.cluster = cluster_up(12, 3, 3)};

    (void)state;
    anew_has_no_vote(&anew, bootstrap);
    cluster_free(anew.cluster);
}

static void a_member_that_is_being_filled_after_a_bootstrap_has_no_vote(void **state)
{
    struct anew anew = {.cluster = cluster_up(13, 3, 3)};

    (void)state;
    anew_half_filled_has_no_vote(&anew, bootstrap);
    cluster_free(anew.cluster);
}

/* Who asks it for its vote while nobody leads is told each time, not only the first time of a process: a leader was there between. */
static void a_vote_that_is_withheld_is_told_anew_after_another_leader(void **state)
{
    struct cluster *cluster = cluster_up(34, 3, 3);
    struct anew anew = {.cluster = cluster};

    (void)state;
    anew_half_filled(&anew, bootstrap);
    assert_uint_equal(status_of(cluster, anew.wiped).vote_withheld_from, 0);
    for (unsigned times = 0; times < 2; times++) {
        cluster_kill(cluster, anew.leader);
        if (times == 0)
            cluster_start(cluster, anew.late, false);
        cluster_run(cluster, 5 * SECOND_US);
        assert_int_equal(cluster_leader(cluster), -1);
        assert_uint_equal(status_of(cluster, anew.wiped).vote_withheld_from, anew.late + 1);
        cluster_start(cluster, anew.leader, false);
        for (unsigned i = 0; i < 100000 && status_of(cluster, anew.wiped).vote_withheld_from != 0;
             i++)
            assert_true(cluster_step(cluster));
        assert_uint_equal(status_of(cluster, anew.wiped).vote_withheld_from, 0);
        assert_true(status_of(cluster, anew.wiped).filling);
        assert_true(status_of(cluster, anew.wiped).leader_id != 0);
    }
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    assert_false(status_of(cluster, anew.wiped).filling);
    cluster_free(cluster);
}

static struct network_stream *(*connect_real)(void *context, const char *address,
                                              const struct network_events *events);

static struct network_stream *connect_nowhere(void *context, const char *address,
                                              const struct network_events *events)
{
    (void)address;
    return connect_real(context, "nowhere", events);
}

/* Its connection to the leader comes to an end, and the leader's dials reach it again, while everything else that is under way from it to
 * the leader goes on waiting. What cannot be sent meanwhile makes the leader begin behind what it knows. */
static void only_dials_reach(struct cluster *cluster, unsigned leader, unsigned node)
{
    uint64_t killed_us = sim_now_us(cluster->sim);
    const struct peer *peer =
        transport_peer(&cluster->nodes[leader].consensus->transport, node + 1);
    bool proposed = false;

    while (!peer->out_ready || peer->dialled_us <= killed_us) {
        bool ends = (sim_now_us(cluster->sim) - killed_us) % 50000 < 2000;
        assert_true(sim_now_us(cluster->sim) < killed_us + SECOND_US / 2);
        if (!proposed && peer->out == NULL)
            proposed = cluster_propose(cluster);
        sim_link_set(cluster->sim, node, leader,
                     peer->dialled_us <= killed_us ? ends : peer->out != NULL);
        cluster_step(cluster);
    }
    sim_link_set(cluster->sim, node, leader, false);
}

/* S17, I11: a leader reads what the former self of a wiped member had acknowledged after it has given the new one a part of that, which was
 * all that was committed then. The new one helps nobody elect itself without the rest. */
static void a_leader_that_has_not_heard_of_a_blank_member_fills_nobody(void **state)
{
    struct cluster *cluster = cluster_new_with(25, 3, 3);
    unsigned leader, wiped, late;
    const struct raft_progress *progress;
    uint64_t cut_us, acknowledged;

    (void)state;
    cluster->config.election_timeout_ms = 2000; /* it leads all the time, heard or not */
    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    while (cluster_leader(cluster) < 0)
        cluster_step(cluster);
    leader = (unsigned)cluster_leader(cluster);
    wiped = (leader + 1) % 3, late = (leader + 2) % 3;
    progress = &cluster->nodes[leader].consensus->raft.leader_state.progress[wiped];
    while (progress->state != PROGRESS_PIPELINE)
        cluster_step(cluster);
    assert_uint_equal(progress->match_index, 1);
    sim_link_set(cluster->sim, wiped, leader, false);
    cut_us = sim_now_us(cluster->sim);
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US / 4);
    assert_uint_equal(cluster->acknowledged, 5);
    assert_false(status_of(cluster, wiped).filling || status_of(cluster, late).filling);
    cluster_isolate(cluster, late, false);
    cluster->entry_bytes_max = 60000;
    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US / 4);
    assert_uint_equal(status_of(cluster, wiped).last_index, status_of(cluster, leader).last_index);
    while ((sim_now_us(cluster->sim) - cut_us) % 50000 < 25000)
        cluster_step(cluster);
    cluster_kill(cluster, wiped);
    sim_wipe(cluster->sim, wiped);
    connect_real = cluster->nodes[wiped].network.connect;
    cluster->nodes[wiped].network.connect = connect_nowhere;
    cluster_start(cluster, wiped, true);
    only_dials_reach(cluster, leader, wiped);
    cluster_run(cluster, SECOND_US / 5);
    assert_uint_equal(progress->match_index, 1);
    assert_true(status_of(cluster, wiped).last_index < status_of(cluster, leader).last_index);
    assert_true(status_of(cluster, wiped).filling);
    sim_link_set(cluster->sim, wiped, leader, true); /* what was said by its former self comes */
    while (cluster->acknowledged < 25)
        assert_true(cluster_step(cluster));
    acknowledged = cluster->acknowledged_index;
    cluster_kill(cluster, leader);
    cluster->nodes[wiped].network.connect = connect_real;
    cluster_isolate(cluster, late, true);
    cluster_run(cluster, 20 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    cluster_start(cluster, leader, false);
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    assert_true(cluster->nodes[late].state.index >= acknowledged);
    cluster_free(cluster);
}

static int (*unlink_real)(void *context, const char *path, struct err *err);
static unsigned unlink_fails; /* 1: nothing is removed, 2: it is, and then the disk fails */

static int unlink_failing(void *context, const char *path, struct err *err)
{
    if (unlink_fails == 0 || strcmp(path + strlen(path) - strlen("/blank"), "/blank") != 0)
        return unlink_real(context, path, err);
    if (unlink_fails == 2)
        (void)unlink_real(context, path, err);
    return err_set(err, ERR_IO, "%s: no space left on device", path);
}

/* S17: the mark goes, durably, before the vote comes: where that fails, by a full disk or a crash, the member ends and is still being
 * filled, or is done, when it starts again. */
static void the_mark_goes_before_the_vote_comes(unsigned fails)
{
    struct cluster *cluster = cluster_up(14 + fails, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), wiped = (leader + 1) % 3;
    struct disk_ops *disk = &cluster->nodes[wiped].disk;
    uint64_t until = 0;

    cluster->entry_bytes_max = 60000; /* takes a while */
    cluster_propose_many(cluster, 60);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    assert_false(status_of(cluster, wiped).filling);
    for (unsigned i = 0; i < 3; i++) /* who knows it would refuse it */
        cluster_kill(cluster, i);
    sim_wipe(cluster->sim, wiped);
    unlink_real = disk->unlink;
    unlink_fails = fails;
    cluster_start(cluster, wiped, true);
    disk->unlink = unlink_failing;
    cluster_run(cluster, 5 * SECOND_US);
    assert_true(status_of(cluster, wiped).filling);
    assert_uint_equal(status_of(cluster, wiped).filling_index, 0);
    cluster_isolate(cluster, wiped, false);
    cluster_start(cluster, leader, false);
    cluster_start(cluster, (leader + 2) % 3, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    cluster_isolate(cluster, wiped, true);
    for (unsigned i = 0; i < 100000 && cluster->nodes[wiped].consensus != NULL; i++) {
        if (status_of(cluster, wiped).filling_index > until)
            until = status_of(cluster, wiped).filling_index;
        cluster_step(cluster);
    }
    assert_null(cluster->nodes[wiped].consensus); /* it failed */
    assert_true(until > 60);
    assert_contains(cluster->nodes[wiped].fatal.text, "/blank: no space left on device");
    unlink_fails = 0;
    cluster_start(cluster, wiped, false);
    if (fails == 1)
        assert_true(status_of(cluster, wiped).filling);
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    assert_false(status_of(cluster, wiped).filling);
    disk->unlink = unlink_real;
    cluster_free(cluster);
}

static void a_mark_that_cannot_be_removed_ends_the_member(void **state)
{
    (void)state;
    the_mark_goes_before_the_vote_comes(1);
    the_mark_goes_before_the_vote_comes(2);
}

/* A wiped member's next start is that of a new one, which an operator lets join under its old id. */
static void join_anew(struct cluster *cluster, unsigned node)
{
    cluster->nodes[node].joins = true;
    cluster->nodes[node].settled = false;
    cluster_start(cluster, node, true);
}

/* I11: half a log, filled by a leader that was elected since, would win with the vote of one that has less. */
static void a_voter_that_joins_again_under_its_old_id_is_refused(void **state)
{
    struct cluster *cluster = cluster_up(13, 3, 3);
    struct anew anew = {.cluster = cluster};
    unsigned leader, wiped, late;

    (void)state;
    anew_half_filled(&anew, join_anew);
    leader = anew.leader, wiped = anew.wiped, late = anew.late;
    cluster_kill(cluster, leader);
    cluster_start(cluster, late, false);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_null(cluster->nodes[wiped].consensus);
    assert_contains(cluster->nodes[wiped].fatal.text, "of cluster sim has held data before");
    assert_contains(cluster->nodes[wiped].fatal.text, "start it with --bootstrap, not with --join");
    cluster_start(cluster, wiped, false); /* whoever it asks says so */
    cluster_run(cluster, SECOND_US);
    assert_null(cluster->nodes[wiped].consensus);
    cluster_start(cluster, leader, false);
    assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
    cluster_run(cluster, SECOND_US);
    assert_true(cluster->nodes[late].state.index >= anew.acknowledged);
    cluster_free(cluster);
}

static void link_both(struct cluster *cluster, unsigned a, unsigned b, bool up)
{
    sim_link_set(cluster->sim, a, b, up);
    sim_link_set(cluster->sim, b, a, up);
}

/* A leader that took it for a stranger, as its own log ended before the addition, hears that its log is empty before it fills it. */
static void a_voter_that_joined_again_is_refused_by_a_leader_that_learnt_of_it_later(void **state)
{
    struct cluster *cluster = cluster_up(14, 4, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), other = (leader + 1) % 3,
             late = (leader + 2) % 3, wiped = 3;
    struct err err;

    (void)state;
    cluster_isolate(cluster, late, false);
    cluster_start(cluster, wiped, true);
    assert_true(cluster_add(cluster, wiped));
    assert_true(cluster_change_wait(cluster));
    cluster_run(cluster, SECOND_US);
    assert_true(cluster_promote(cluster, wiped));
    assert_true(cluster_change_wait(cluster));
    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US);
    cluster_kill(cluster, wiped);
    sim_wipe(cluster->sim, wiped);
    cluster_isolate(cluster, wiped, false);
    link_both(cluster, wiped, late, true);
    join_anew(cluster, wiped);
    cluster_run(cluster, SECOND_US);
    link_both(cluster, late, leader, true);
    link_both(cluster, late, other, true);
    cluster_run(cluster, 2 * SECOND_US);
    assert_int_equal(status_of(cluster, late).voter_count, 4);
    assert_uint_equal(status_of(cluster, wiped).last_index, 0);
    assert_true(transport_connected(&cluster->nodes[wiped].consensus->transport, late + 1));
    assert_int_equal(consensus_transfer(cluster->nodes[leader].consensus, late + 1, &err), 0);
    for (unsigned i = 0; i < 100000 && cluster->nodes[wiped].consensus != NULL; i++) {
        assert_uint_equal(status_of(cluster, wiped).last_index, 0);
        cluster_step(cluster);
    }
    assert_int_equal(cluster_leader(cluster), (int)late);
    assert_contains(cluster->nodes[wiped].fatal.text, "of cluster sim has held data before");
    cluster_propose_many(cluster, 5);
    cluster_run(cluster, SECOND_US);
    assert_uint_equal(cluster->acknowledged, 25);
    cluster_free(cluster);
}

/* Nor does a leader fill it that was sending a snapshot to its former self and has not read its hello. */
static void a_snapshot_for_its_former_self_does_not_fill_a_voter_that_joined_again(void **state)
{
    struct cluster *cluster = cluster_up(15, 3, 3);
    unsigned leader = (unsigned)cluster_leader(cluster), wiped = (leader + 1) % 3;
    const struct transfer *transfer = &cluster->nodes[leader].consensus->transfer;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster->nodes[i].ballast_bytes = 100000;
    cluster_kill(cluster, wiped);
    cluster_propose_many(cluster, 600);
    cluster_run(cluster, 2 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), (int)leader);
    cluster_start(cluster, wiped, false);
    while (!transfer_sending_to(transfer, wiped + 1))
        assert_true(cluster_step(cluster));
    cluster_kill(cluster, wiped);
    sim_wipe(cluster->sim, wiped);
    connect_real = cluster->nodes[wiped].network.connect;
    cluster->nodes[wiped].network.connect = connect_nowhere;
    join_anew(cluster, wiped);
    cluster_run(cluster, 3 * SECOND_US);
    assert_true(transport_connected(&cluster->nodes[leader].consensus->transport, wiped + 1));
    assert_uint_equal(cluster->nodes[wiped].restored, 0);
    assert_uint_equal(status_of(cluster, wiped).last_index, 0);
    cluster->nodes[wiped].network.connect = connect_real;
    cluster_run(cluster, SECOND_US);
    assert_null(cluster->nodes[wiped].consensus);
    assert_contains(cluster->nodes[wiped].fatal.text, "of cluster sim has held data before");
    cluster_free(cluster);
}

/* The price of that: of two that were begun together, the first one that leads is cut off before the other one has anything of it. They
 * wait for each other and say so. Nothing can have been committed: begun once more, both of them, they go on. */
static void two_wait_when_the_first_leader_had_reached_nobody(void **state)
{
    struct cluster *cluster = cluster_new_with(17, 2, 2);
    unsigned leader, other;

    (void)state;
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 1, true);
    while (cluster_leader(cluster) < 0)
        cluster_step(cluster);
    leader = (unsigned)cluster_leader(cluster), other = 1 - leader;
    cluster_isolate(cluster, other, false);
    cluster_run(cluster, 2 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_uint_equal(status_of(cluster, leader).last_index, 2);
    assert_uint_equal(status_of(cluster, other).last_index, 1);
    sim_reset_connections(cluster->sim, 0, 1); /* with what is under way */
    cluster_isolate(cluster, other, true);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_uint_equal(status_of(cluster, other).vote_withheld_from, leader + 1);
    for (unsigned i = 0; i < 2; i++) {
        cluster_kill(cluster, i);
        sim_wipe(cluster->sim, i);
    }
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 1, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    assert_false(status_of(cluster, other).filling);
    cluster_free(cluster);
}

/* One of two voters, `late`, lags, and `wiped` and `third` had acknowledged what it lacks. The second is begun anew with this list (NULL:
 * the founders'), the third is down: whatever the two hold of who is a member, they elect nobody. */
static void one_begun_anew_helps_nobody(struct cluster *cluster, unsigned late, unsigned wiped,
                                        const struct consensus_member *list, unsigned count)
{
    unsigned founders = cluster->founders, third = 3 - late - wiped;
    uint64_t before = cluster->acknowledged;

    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US / 10);
    assert_uint_equal(cluster->acknowledged, before + 20);
    assert_true(cluster->nodes[late].state.index < cluster->acknowledged_index);
    cluster_kill(cluster, third);
    cluster_kill(cluster, wiped);
    sim_wipe(cluster->sim, wiped);
    sim_reset_connections(cluster->sim, wiped, late); /* with what was not heard */
    if (list != NULL)
        cluster->config.members = list, cluster->founders = count;
    cluster_start(cluster, wiped, true);
    cluster->config.members = cluster->members, cluster->founders = founders;
    cluster_isolate(cluster, late, true);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_uint_equal(status_of(cluster, wiped).vote_withheld_from, late + 1);
    assert_uint_equal(status_of(cluster, late).vote_withheld_from, 0);
}

/* And the third brings back what had been acknowledged. */
static void the_third_brings_all(struct cluster *cluster, unsigned late, unsigned wiped)
{
    uint64_t acknowledged = cluster->acknowledged_index;

    cluster_start(cluster, 3 - late - wiped, false);
    assert_true(cluster_run_until_equal(cluster, 20 * SECOND_US));
    assert_true(cluster->nodes[late].state.index >= acknowledged);
    cluster_free(cluster);
}

/* The one that is begun anew has the founders' list, and a third one became a member since. */
static void one_of_two_has_no_vote_where_a_third_may_be_a_member(void **state)
{
    struct cluster *cluster = cluster_up(20, 3, 2);
    unsigned wiped = (unsigned)cluster_leader(cluster), late = 1 - wiped;

    (void)state;
    cluster_start(cluster, 2, true);
    assert_true(cluster_add(cluster, 2));
    assert_true(cluster_change_wait(cluster));
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_isolate(cluster, late, false); /* for it the third one is a learner */
    assert_true(cluster_promote(cluster, 2));
    assert_true(cluster_change_wait(cluster));
    one_begun_anew_helps_nobody(cluster, late, wiped, NULL, 0);
    assert_uint_equal(status_of(cluster, wiped).voter_count, 2);
    the_third_brings_all(cluster, late, wiped);
}

/* The candidate alone knows that the third one is to go. */
static void one_of_two_has_no_vote_until_the_removal_of_a_third_is_committed(void **state)
{
    struct cluster *cluster = cluster_up(21, 3, 3);
    unsigned late = (unsigned)cluster_leader(cluster), wiped = (late + 1) % 3;

    (void)state;
    cluster_isolate(cluster, late, false);
    assert_true(cluster_remove(cluster, 3 - late - wiped));
    cluster_run(cluster, 2 * SECOND_US);
    one_begun_anew_helps_nobody(cluster, late, wiped, NULL, 0);
    assert_uint_equal(status_of(cluster, late).voter_count, 2);
    the_third_brings_all(cluster, late, wiped);
}

/* The candidate was given a list by mistake in which the third founder is missing; then the one that is begun anew is given it as well. */
static void one_of_two_has_no_vote_where_a_founder_had_another_list(void **state)
{
    (void)state;
    for (unsigned anew = 3; anew >= 2; anew--) {
        struct cluster *cluster = cluster_new_with(22 + anew, 3, 3);
        const unsigned late = 0, wiped = 1;

        cluster->lists_differ = true;
        cluster->founders = 2;
        cluster_start(cluster, late, true);
        cluster->founders = 3;
        cluster_isolate(cluster, late, false); /* they lead */
        cluster_start(cluster, wiped, true);
        cluster_start(cluster, 2, true);
        assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
        cluster_isolate(cluster, late, true);
        cluster_propose_many(cluster, 5);
        assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
        cluster_run(cluster, SECOND_US);
        assert_uint_equal(status_of(cluster, late).voter_count, 2);
        assert_uint_equal(status_of(cluster, wiped).voter_count, 3);
        assert_false(status_of(cluster, late).filling);
        cluster_isolate(cluster, late, false);
        one_begun_anew_helps_nobody(cluster, late, wiped, cluster->members, anew);
        the_third_brings_all(cluster, late, wiped);
    }
}

/* The former self had removed the candidate, which was not told, and made another member a voter: the one that is begun anew has the list
 * with that one, and then the founders'. */
static void one_of_two_has_no_vote_where_it_had_removed_the_other(void **state)
{
    (void)state;
    for (unsigned founders = 0; founders < 2; founders++) {
        struct cluster *cluster = cluster_up(30 + founders, 3, 2);
        unsigned wiped = (unsigned)cluster_leader(cluster), late = 1 - wiped;
        struct consensus_member now[2] = {cluster->members[wiped], cluster->members[2]};

        cluster_isolate(cluster, late, false);
        assert_true(cluster_remove(cluster, late));
        assert_true(cluster_change_wait(cluster));
        cluster_start(cluster, 2, true);
        consensus_member_put(cluster->nodes[wiped].consensus, &cluster->members[2]);
        assert_true(cluster_ask(cluster, 2));
        assert_true(cluster_change_wait(cluster));
        cluster_run(cluster, SECOND_US);
        assert_true(cluster_promote(cluster, 2));
        assert_true(cluster_change_wait(cluster));
        cluster->lists_differ = founders == 0;
        one_begun_anew_helps_nobody(cluster, late, wiped, founders == 0 ? now : NULL, 2);
        cluster_start(cluster, 2, false); /* holds all, and waits as well */
        cluster_run(cluster, 10 * SECOND_US);
        assert_int_equal(cluster_leader(cluster), -1);
        assert_uint_equal(status_of(cluster, wiped).vote_withheld_from, late + 1);
        assert_true(status_of(cluster, 2).last_index >= cluster->acknowledged_index);
        cluster_free(cluster);
    }
}

/* Its hello of before it was filled may be read when it is a voter. */
static void a_member_that_was_filled_since_is_not_stopped_by_an_answer_to_an_old_hello(void **state)
{
    struct cluster *cluster = cluster_up(16, 3, 3);
    const struct frame_hello_reply reply = {.welcome = FRAME_WELCOME_OLD, .cluster_id = "sim"};

    (void)state;
    core_on_refused(cluster->nodes[0].consensus, 2, &reply);
    assert_false(cluster->nodes[0].doomed);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 5 * SECOND_US));
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blank_folder_under_an_old_id_has_no_vote),
        cmocka_unit_test(a_member_that_is_being_filled_after_a_bootstrap_has_no_vote),
        cmocka_unit_test(a_vote_that_is_withheld_is_told_anew_after_another_leader),
        cmocka_unit_test(a_leader_that_has_not_heard_of_a_blank_member_fills_nobody),
        cmocka_unit_test(a_mark_that_cannot_be_removed_ends_the_member),
        cmocka_unit_test(a_voter_that_joins_again_under_its_old_id_is_refused),
        cmocka_unit_test(a_voter_that_joined_again_is_refused_by_a_leader_that_learnt_of_it_later),
        cmocka_unit_test(a_snapshot_for_its_former_self_does_not_fill_a_voter_that_joined_again),
        cmocka_unit_test(two_wait_when_the_first_leader_had_reached_nobody),
        cmocka_unit_test(one_of_two_has_no_vote_where_a_third_may_be_a_member),
        cmocka_unit_test(one_of_two_has_no_vote_until_the_removal_of_a_third_is_committed),
        cmocka_unit_test(one_of_two_has_no_vote_where_a_founder_had_another_list),
        cmocka_unit_test(one_of_two_has_no_vote_where_it_had_removed_the_other),
        cmocka_unit_test(
            a_member_that_was_filled_since_is_not_stopped_by_an_answer_to_an_old_hello),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
