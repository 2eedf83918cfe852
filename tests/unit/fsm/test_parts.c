/* Which node has which part of a job: the place of the shard that it wrote, or one that is free. */
#include "fsm/core/registry.h"
#include "fsm/core/state.h"
#include "tests/unit/fsm/expect.h"

/* In the order of their parts. */
static void expect_nodes(const struct script *script, const char *names)
{
    const struct fsm_allocation *job = job_of(script, "j1");
    char text[256] = "";

    for (uint32_t i = 0; i < job->node_count; i++) {
        strcat(text, i == 0 ? "" : ",");
        strcat(text, fsm_node_name(script->fsm, job->nodes[i].node_slot));
    }
    assert_string_equal(text, names);
}

/* A job of these nodes has a complete checkpoint, and waits for its next run. */
static void stop_after_checkpoint(struct script *script, const char *nodes, int count)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=%s requeue=always", nodes);
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-1");
    for (int i = 1; i <= count; i++)
        expect_ok(script, "report n%d shard_verified j1 ckpt=1-1", i);
    expect_checkpoint(script, 1, COMPLETE);
    expect_ok(script, "end j1 failed");
    expect_job(script, "j1", REQUEUED);
}

static void who_wrote_a_part_gets_it_again_and_others_fill_the_free_ones(void **unused)
{
    static const struct {
        const char *named, *parts;
    } rows[] = {
        {"n1,n2,n3", "n1,n2,n3"}, /* as before */
        {"n3,n1,n2", "n1,n2,n3"}, /* as they come from another scheduler */
        {"n9,n3,n1", "n1,n9,n3"}, /* one was lost: another one takes over its part */
        {"n3,n8,n9", "n8,n9,n3"}, /* in the order in which they are named */
        {"n7,n8,n9", "n7,n8,n9"}, {"n9,n8,n2", "n9,n2,n8"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script script;

        stop_after_checkpoint(&script, "n1,n2,n3", 3);
        expect_ok(&script, "restart j1 nodes=%s", rows[i].named);
        expect_nodes(&script, rows[i].parts);
        assert_uint_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
        script_restore(&script);
        expect_nodes(&script, rows[i].parts);
        script_close(&script);
    }
}

/* Of four parts every order of every choice of nodes: who wrote part i has part i. */
static void whoever_is_named_has_the_part_that_it_wrote(void **unused)
{
    (void)unused;
    for (int count = 1; count <= 4; count++) {
        struct script script;
        int total = 1;

        for (int i = 0; i < count; i++)
            total *= 6;
        stop_after_checkpoint(&script,
                              count == 1   ? "n1"
                              : count == 2 ? "n1,n2"
                              : count == 3 ? "n1,n2,n3"
                                           : "n1,n2,n3,n4",
                              count);
        for (int order = 0; order < total; order++) {
            char names[64] = "";
            unsigned used = 0;
            int rest = order;
            const struct fsm_allocation *job;

            for (int i = 0; i < count; i++, rest /= 6) {
                snprintf(names + strlen(names), sizeof(names) - strlen(names), "%sn%d",
                         i == 0 ? "" : ",", rest % 6 + 1);
                used |= 1U << (rest % 6);
            }
            if (__builtin_popcount(used) != count)
                continue; /* one is named twice */
            expect_ok(&script, "restart j1 nodes=%s", names);
            job = job_of(&script, "j1");
            assert_int_equal(job->node_count, count);
            for (int i = 0; i < count; i++) {
                const char *name = fsm_node_name(script.fsm, job->nodes[i].node_slot);
                int number = name[1] - '0';

                assert_true((used >> (number - 1) & 1) != 0);
                assert_true(number > count || number == i + 1);
            }
            expect_ok(&script, "end j1 failed");
        }
        script_close(&script);
    }
}

static void what_begins_anew_has_its_nodes_as_they_are_named(void **unused)
{
    struct script script;

    (void)unused;
    stop_after_checkpoint(&script, "n1,n2,n3", 3);
    expect_ok(&script, "restart j1 nodes=n3,n2,n1 from_scratch");
    expect_nodes(&script, "n3,n2,n1");
    assert_uint_equal(job_of(&script, "j1")->restart_id, 0);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1"); /* its old nodes go back to what they wrote */
    expect_nodes(&script, "n1,n2,n3");
    assert_uint_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

/* The part of a node, as its orders tell it. */
static struct fsm_part part_on(const struct script *script, const char *node_id)
{
    struct fsm_part part = {0};

    assert_true(fsm_part_on(script->fsm, job_of(script, "j1"),
                            fsm_node_find(script->fsm, node_id)->slot, &part));
    return part;
}

static void orders_tell_a_node_its_part(void **unused)
{
    struct script script;
    struct fsm_part parts[2];

    (void)unused;
    stop_after_checkpoint(&script, "n1,n2", 2);
    expect_ok(&script, "restart j1 nodes=n3,n1");
    assert_int_equal(part_on(&script, "n1").place, 0);
    assert_int_equal(part_on(&script, "n3").place, 1);
    assert_int_equal(fsm_parts_on_node(script.fsm, fsm_node_find(script.fsm, "n3")->slot, parts, 2),
                     1);
    assert_int_equal(parts[0].place, 1);
    expect_begin(parts[0], RESTORING);
    assert_false(parts[0].joined);
    assert_false(fsm_part_on(script.fsm, job_of(&script, "j1"),
                             fsm_node_find(script.fsm, "n2")->slot, parts));
    script_close(&script);
}

/* What is refused says how many there are and how many there must be; whoever says from_scratch is
 * taken at his word. */
static void expect_refused(struct script *script, const char *status, const char *line,
                           uint64_t current, uint64_t limit)
{
    assert_string_equal(fsm_status_name(script_run(script, "%s", line)), status);
    assert_uint_equal(script->outcome.current, current);
    assert_uint_equal(script->outcome.limit, limit);
    expect_job(script, "j1", REQUEUED);
    expect_ok(script, "%s from_scratch", line);
    assert_uint_equal(job_of(script, "j1")->restart_id, 0);
    expect_ok(script, "end j1 failed");
}

/* S3-045, S3-049, R-002 */
static void a_restart_that_cannot_begin_is_refused_with_numbers(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3 requeue=always max_requeue=100");
    expect_ok(&script, "node n1 ready machine=x86_64 os=debian-12");
    expect_ok(&script, "node n2 ready machine=x86_64 os=debian-12");
    expect_ok(&script, "node n3 ready machine=x86_64 os=debian-12");
    expect_ok(&script, "node n4 ready machine=aarch64 os=debian-12");
    expect_ok(&script, "node n5 ready machine=x86_64 os=debian-13");
    expect_ok(&script, "end j1 failed");
    expect_refused(&script, "NO_USABLE_CHECKPOINT", "restart j1", 0, 0);
    expect_ok(&script, "restart j1 from_scratch");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "report n%d application_started j1", i);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "report n%d shard_verified j1 ckpt=1-1", i);
    assert_string_equal(checkpoint_of(&script, 1)->machine, "x86_64");
    assert_string_equal(checkpoint_of(&script, 1)->os, "debian-12");
    script_restore(&script);
    assert_string_equal(checkpoint_of(&script, 1)->os, "debian-12");
    expect_ok(&script, "end j1 failed");
    expect_refused(&script, "PARTS_DIFFER", "restart j1 nodes=n1,n2", 2, 3);
    expect_refused(&script, "PARTS_DIFFER", "restart j1 nodes=n1,n2,n3,n6", 4, 3);
    expect_refused(&script, "NODE_UNLIKE", "restart j1 nodes=n1,n4,n3", 2, 3);
    expect_refused(&script, "NODE_UNLIKE", "restart j1 nodes=n1,n2,n5", 3, 3);
    expect_ok(&script, "restart j1 nodes=n1,n6,n3"); /* of n6 nobody knows */
    expect_nodes(&script, "n1,n6,n3");
    script_close(&script);
}

/* An elastic job takes any number of nodes, from its minimum on, and comes back with that. */
static void a_reactive_job_comes_back_with_its_minimum(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3,n4 min=2 max=4 restore=all requeue=always "
                       "max_requeue=100");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    for (int i = 1; i <= 4; i++)
        expect_ok(&script, "report n%d shard_verified j1 ckpt=1-1", i);
    expect_ok(&script, "end j1 failed");
    expect_refused(&script, "TOO_FEW_NODES", "restart j1 nodes=n7", 1, 2);
    expect_ok(&script, "restart j1 nodes=n1,n2,n3,n4");
    expect_nodes(&script, "n1,n2,n3,n4");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "node n1 ready");
    expect_ok(&script, "node n1 down");
    expect_ok(&script, "node_off n1"); /* else a copy may run on there */
    expect_ok(&script, "restart j1");  /* on those that are there */
    expect_nodes(&script, "n2,n3");
    assert_uint_equal(job_of(&script, "j1")->restart_id, checkpoint_id_make(1, 1));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_wrote_a_part_gets_it_again_and_others_fill_the_free_ones),
        cmocka_unit_test(whoever_is_named_has_the_part_that_it_wrote),
        cmocka_unit_test(what_begins_anew_has_its_nodes_as_they_are_named),
        cmocka_unit_test(a_restart_that_cannot_begin_is_refused_with_numbers),
        cmocka_unit_test(a_reactive_job_comes_back_with_its_minimum),
        cmocka_unit_test(orders_tell_a_node_its_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
