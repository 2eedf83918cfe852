/* Founders agree on an incarnation before anything is voted on; a folder that begins later, on a
 * replaced disk, is a stranger (I11). */
#include "tests/support/test.h"

#include <stdio.h>

#include "raft/core/consensus_internal.h"
#include "tests/unit/raft/cluster.h"

enum { SECOND_US = 1000000 };

static struct cluster *founders_new(uint64_t seed, unsigned count)
{
    struct cluster *cluster = cluster_new(seed, count);

    cluster->founds = true;
    return cluster;
}

static struct cluster *founded(uint64_t seed, unsigned count)
{
    struct cluster *cluster = founders_new(seed, count);

    for (unsigned i = 0; i < count; i++)
        cluster_start(cluster, i, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    return cluster;
}

static void of_one_incarnation(struct cluster *cluster)
{
    uint64_t incarnation = status_of(cluster, 0).incarnation;

    assert_true(incarnation != 0);
    for (unsigned i = 0; i < cluster->count; i++)
        assert_uint_equal(status_of(cluster, i).incarnation, incarnation);
}

static bool holds_record(struct cluster *cluster, unsigned node)
{
    return sim_file_name(cluster->sim, node, FOLDER_FOUNDING_FILE, 0) != NULL;
}

static void founders_agree_on_an_incarnation_that_is_drawn(void **state)
{
    uint64_t incarnations[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct cluster *cluster = founded(i + 1, 3);

        of_one_incarnation(cluster);
        incarnations[i] = status_of(cluster, 0).incarnation;
        cluster_run(cluster, 3 * SECOND_US);
        for (unsigned node = 0; node < 3; node++) {
            assert_string_equal(status_of(cluster, node).founding, "");
            assert_false(holds_record(cluster, node)); /* all have arrived */
        }
        cluster_free(cluster);
    }
    assert_true(incarnations[0] != incarnations[1]);
}

static void nothing_begins_before_all_founders_are_there(void **state)
{
    struct cluster *cluster = founders_new(3, 3);

    (void)state;
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 2, true);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    assert_uint_equal(status_of(cluster, 0).incarnation, 0);
    assert_string_equal(status_of(cluster, 0).founding, "n2");
    cluster_kill(cluster, 2); /* without the flag it goes on */
    cluster_start(cluster, 2, false);
    cluster_kill(cluster, 0); /* and with it as well */
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 1, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    of_one_incarnation(cluster);
    cluster_free(cluster);
}

/* A founder dies at each of its disk operations, whoever it is, and starts again. */
static void a_founder_that_dies_in_the_middle_goes_on(void **state)
{
    (void)state;
    for (unsigned dies = 0; dies < 2; dies++)
        for (uint64_t operations = 1; operations < 80; operations += 3) {
            struct cluster *cluster = founders_new(100 * dies + operations, 3);
            struct err err;

            sim_disk_die_after(cluster->sim, dies, operations);
            for (unsigned i = 0; i < 3; i++)
                cluster_start(cluster, i, true);
            cluster_run(cluster, 2 * SECOND_US);
            if (cluster->nodes[dies].consensus != NULL)
                cluster_kill(cluster, dies);
            sim_disk_die_after(cluster->sim, dies, 0);
            if (cluster_try_start(cluster, dies, false, &err) != 0)
                cluster_start(cluster, dies, true);
            assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
            cluster_propose_many(cluster, 3);
            assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
            of_one_incarnation(cluster);
            cluster_free(cluster);
        }
}

/* Before the incarnation is drawn its folder counts for nothing. */
static void a_founder_that_is_wiped_before_the_incarnation_is_drawn_begins_again(void **state)
{
    struct cluster *cluster = founders_new(5, 3);

    (void)state;
    cluster_start(cluster, 0, true);
    cluster_start(cluster, 1, true);
    cluster_run(cluster, 2 * SECOND_US);
    for (unsigned i = 0; i < 2; i++) {
        cluster_kill(cluster, i);
        sim_wipe(cluster->sim, i);
        cluster_start(cluster, i, true);
        cluster_run(cluster, 2 * SECOND_US);
    }
    cluster_start(cluster, 2, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    of_one_incarnation(cluster);
    cluster_free(cluster);
}

/* It was away while the others began, and the one that drew is gone: any of them knows its
 * number. */
static void a_founder_that_was_away_is_let_in_by_any_other(void **state)
{
    struct cluster *cluster = founders_new(6, 3);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    while (cluster->nodes[0].consensus->founding.under_way)
        assert_true(cluster_step(cluster));
    assert_true(cluster->nodes[2].consensus->founding.under_way);
    cluster_kill(cluster, 2);
    cluster_propose_many(cluster, 20);
    cluster_run(cluster, SECOND_US);
    assert_uint_equal(cluster->acknowledged, 20);
    assert_true(holds_record(cluster, 1));
    cluster_kill(cluster, 0);
    cluster_start(cluster, 2, false);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    cluster_start(cluster, 0, false);
    cluster_propose_many(cluster, 5);
    assert_true(cluster_run_until_equal(cluster, 10 * SECOND_US));
    of_one_incarnation(cluster);
    assert_uint_equal(cluster->acknowledged, 25);
    cluster_free(cluster);
}

/* I11: it must not help a member elect itself that lacks what it and the leader had
 * acknowledged. */
static void a_wiped_member_that_begins_again_is_refused_with_the_command_that_replaces_it(
    void **state)
{
    for (unsigned restarted = 0; restarted < 2; restarted++) {
        struct cluster *cluster = founded(7, 3);
        unsigned leader = (unsigned)cluster_leader(cluster), wiped = (leader + 1) % 3,
                 late = (leader + 2) % 3;

        (void)state;
        cluster_kill(cluster, late);
        cluster_propose_many(cluster, 20);
        cluster_run(cluster, SECOND_US);
        cluster_kill(cluster, leader);
        cluster_kill(cluster, wiped);
        sim_wipe(cluster->sim, wiped);
        cluster_start(cluster, wiped, true);
        cluster_run(cluster, SECOND_US);
        assert_int_equal(cluster_leader(cluster), -1);
        if (restarted == 1) {
            cluster_kill(cluster, wiped);
            cluster_start(cluster, wiped, false);
        }
        cluster_start(cluster, late, false);
        cluster_run(cluster, 5 * SECOND_US);
        assert_int_equal(cluster_leader(cluster), -1);
        assert_null(cluster->nodes[wiped].consensus);
        assert_int_equal(cluster->nodes[wiped].fatal.code, ERR_REFUSED);
        assert_contains(cluster->nodes[wiped].fatal.text, "was founded without this folder");
        assert_contains(cluster->nodes[wiped].fatal.text, "ckptctl member replace n");
        cluster_start(cluster, leader, false);
        assert_true(cluster_run_until_leader(cluster, 10 * SECOND_US));
        cluster_propose_many(cluster, 5);
        cluster_run(cluster, SECOND_US);
        assert_uint_equal(cluster->acknowledged, 30);
        cluster_free(cluster);
    }
}

/* Who was wiped between the draw and its first word of it is a stranger already: it may have
 * acknowledged something. */
static void a_founder_that_is_wiped_after_the_draw_is_refused(void **state)
{
    struct cluster *cluster = founders_new(8, 3);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        cluster_start(cluster, i, true);
    while (cluster->nodes[0].consensus->founding.under_way)
        assert_true(cluster_step(cluster));
    cluster_kill(cluster, 2);
    sim_wipe(cluster->sim, 2);
    cluster_start(cluster, 2, true);
    cluster_run(cluster, 5 * SECOND_US);
    assert_null(cluster->nodes[2].consensus);
    assert_int_equal(cluster->nodes[2].fatal.code, ERR_REFUSED);
    assert_true(cluster_leader(cluster) >= 0);
    cluster_free(cluster);
}

/* With another list each may be the one that draws: they say so and wait. */
static void founders_with_different_lists_do_not_begin(void **state)
{
    struct cluster *cluster = founders_new(9, 3);

    (void)state;
    cluster_start(cluster, 1, true);
    cluster->founders = 2;
    cluster_start(cluster, 0, true);
    cluster->founders = 3;
    cluster_start(cluster, 2, true);
    cluster_run(cluster, 10 * SECOND_US);
    assert_int_equal(cluster_leader(cluster), -1);
    for (unsigned i = 0; i < 3; i++)
        assert_uint_equal(status_of(cluster, i).incarnation, 0);
    assert_contains(status_of(cluster, 1).founding,
                    "n1 (its list of members, or its backup, is another one)");
    cluster_kill(cluster, 0);
    cluster_start(cluster, 0, true); /* with the right one */
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    of_one_incarnation(cluster);
    cluster_free(cluster);
}

static void answer(struct cluster *cluster, unsigned node, uint64_t incarnation, uint64_t number)
{
    struct consensus *consensus = cluster->nodes[node].consensus;
    struct frame_hello_reply reply = {.welcome = FRAME_WELCOME_FOUNDER,
                                      .cluster_id = "sim",
                                      .member_id = 1,
                                      .incarnation = incarnation,
                                      .founding = 5,
                                      .basis = consensus->founding.basis,
                                      .founders = {{{1, 5}, {2, number}, {3, 9}}, 3}};

    core_on_refused(consensus, 1, &reply);
}

/* A wrong address: the one who answers there is told of, not waited for without a word. */
static void who_answers_at_a_founders_address_is_another(void **state)
{
    struct cluster *cluster = founders_new(10, 3);
    struct frame_hello_reply reply = {
        .welcome = FRAME_WELCOME_OTHER, .cluster_id = "elsewhere", .member_id = 3};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        cluster_start(cluster, i, true);
        cluster_run(cluster, SECOND_US);
        core_on_refused(cluster->nodes[i].consensus, 3, &reply);
        snprintf(reply.cluster_id, sizeof(reply.cluster_id), "sim");
        reply.member_id = 2;
    }
    cluster_run(cluster, SECOND_US);
    for (unsigned i = 0; i < 2; i++)
        assert_string_equal(
            status_of(cluster, i).founding,
            "n3 (another member, or one of another cluster, answers at its address)");
    cluster_start(cluster, 2, true);
    assert_true(cluster_run_until_leader(cluster, 5 * SECOND_US));
    of_one_incarnation(cluster);
    cluster_free(cluster);
}

/* Of two that draw, of a repeat, and of what was drawn for another folder. */
static void the_first_incarnation_that_was_drawn_for_a_folder_counts(void **state)
{
    struct cluster *cluster = founders_new(10, 3);
    struct consensus *consensus;
    uint64_t number;

    (void)state;
    cluster_start(cluster, 1, true);
    consensus = cluster->nodes[1].consensus;
    number = consensus->founding.record.number;
    answer(cluster, 1, 41, number + 2);
    cluster_run(cluster, SECOND_US);
    assert_true(consensus->founding.under_way);
    answer(cluster, 1, 43, number);
    answer(cluster, 1, 45, number);
    cluster_run(cluster, SECOND_US);
    assert_false(consensus->founding.under_way);
    answer(cluster, 1, 47, number);
    answer(cluster, 1, 43, number);
    cluster_run(cluster, SECOND_US);
    assert_uint_equal(status_of(cluster, 1).incarnation, 43);
    cluster_kill(cluster, 1);
    cluster_start(cluster, 1, false);
    assert_uint_equal(status_of(cluster, 1).incarnation, 43);
    cluster_free(cluster);
}

static void a_damaged_record_is_not_guessed(void **state)
{
    struct cluster *cluster = founders_new(11, 3);
    struct err err;

    (void)state;
    cluster_start(cluster, 0, true);
    cluster_kill(cluster, 0);
    sim_file_rot(cluster->sim, 0, FOLDER_FOUNDING_FILE, 3, 1);
    assert_int_equal(cluster_try_start(cluster, 0, true, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_contains(err.text, "founding is damaged");
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(founders_agree_on_an_incarnation_that_is_drawn),
        cmocka_unit_test(nothing_begins_before_all_founders_are_there),
        cmocka_unit_test(a_founder_that_dies_in_the_middle_goes_on),
        cmocka_unit_test(a_founder_that_is_wiped_before_the_incarnation_is_drawn_begins_again),
        cmocka_unit_test(a_founder_that_was_away_is_let_in_by_any_other),
        cmocka_unit_test(
            a_wiped_member_that_begins_again_is_refused_with_the_command_that_replaces_it),
        cmocka_unit_test(a_founder_that_is_wiped_after_the_draw_is_refused),
        cmocka_unit_test(founders_with_different_lists_do_not_begin),
        cmocka_unit_test(who_answers_at_a_founders_address_is_another),
        cmocka_unit_test(the_first_incarnation_that_was_drawn_for_a_folder_counts),
        cmocka_unit_test(a_damaged_record_is_not_guessed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
