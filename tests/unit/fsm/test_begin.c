/* What parts say of the checkpoint that their run begins from. */
#include "fsm/core/registry.h"
#include "fsm/core/state.h"
#include "tests/unit/fsm/expect.h"

static struct allocation *job(struct script *script)
{
    return allocation_edit(script->fsm, allocation_find(script->fsm, "j1"));
}

/* A job of two nodes with a complete checkpoint, from which this run is to begin. */
static void start_from_checkpoint(struct script *script)
{
    script_start(script);
    expect_ok(script, "register j1 nodes=n1,n2");
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-1");
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(script, "report n2 shard_verified j1 ckpt=1-1");
    expect_checkpoint(script, 1, COMPLETE);
    job(script)->view.restart_id = checkpoint_id_make(1, 1);
}

static void a_part_says_what_it_has_restored(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 restored j1 restored=1-7"); /* another one */
    assert_false(job(&script)->assignments[0].restored);
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    assert_true(job(&script)->assignments[0].restored);
    assert_false(job(&script)->assignments[1].restored);
    expect_ok(&script, "report n1 restored j1 restored=1-1"); /* said twice */
    assert_uint_equal(job(&script)->restored_count, 1);
    script_restore(&script);
    assert_uint_equal(job(&script)->restored_count, 1);
    job(&script)->assignments[1].joined = true; /* it restores nothing */
    job(&script)->joined_count = 1;
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    assert_false(job(&script)->assignments[1].restored);
    script_close(&script);
}

static void a_checkpoint_that_is_found_damaged_stays_so(void **unused)
{
    const Ckpt__V1__Event *event;
    bool gap;
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-7");
    assert_false(checkpoint_of(&script, 1)->damaged);
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-1 why=part-0000");
    assert_true(checkpoint_of(&script, 1)->damaged);
    assert_string_equal(checkpoint_of(&script, 1)->detail, "part-0000");
    event = fsm_event_after(script.fsm, summary_of(&script).next_event_sequence - 2, &gap);
    assert_int_equal(event->kind, CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED);
    assert_string_equal(event->subject, "part-0000");
    assert_null(fsm_restart_point(script.fsm, "j1", 0));
    assert_uint_equal(job_of(&script, "j1")->last_complete_id, 0);
    script_restore(&script);
    assert_true(checkpoint_of(&script, 1)->damaged);
    script_close(&script);
}

/* They are about what is to begin: what is to end has not ended by that. */
static void what_is_to_end_does_not_end_by_these_words(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "preempt class=9 forced need=2");
    assert_true(job_of(&script, "j1")->terminating);
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-1");
    assert_false(job(&script)->assignments[0].terminated);
    assert_false(job(&script)->assignments[1].terminated);
    expect_ok(&script, "report n1 terminated j1");
    assert_true(job(&script)->assignments[0].terminated);
    script_close(&script);
}

/* A restart begins anew; a part that stays keeps what it said. */
static void a_restart_forgets_it_and_another_set_of_nodes_does_not(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    expect_ok(&script, "update j1 nodes=n2,n1,n3");
    assert_true(job(&script)->assignments[0].restored);
    assert_false(job(&script)->assignments[1].restored);
    assert_false(job(&script)->assignments[2].restored);
    assert_uint_equal(job(&script)->restored_count, 1);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    assert_false(job(&script)->assignments[0].restored || job(&script)->assignments[1].restored);
    assert_uint_equal(job(&script)->restored_count, 0);
    script_close(&script);
}

static struct fsm_part part_on(const struct script *script, const char *node_id)
{
    struct fsm_part part = {0};

    assert_true(fsm_part_on(script->fsm, job_of(script, "j1"),
                            fsm_node_find(script->fsm, node_id)->slot, &part));
    return part;
}

/* Nobody begins before the slowest has what it needs. */
static void all_parts_begin_when_the_last_has_restored(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    assert_uint_equal(job(&script)->view.restart_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    expect_begin(part_on(&script, "n1"), RESTORING);
    expect_begin(part_on(&script, "n2"), RESTORING);
    while (fsm_take_changed_node(script.fsm, &(uint32_t){0}))
        continue;
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_begin(part_on(&script, "n1"), MAY);
    expect_begin(part_on(&script, "n2"), MAY);
    assert_true(fsm_take_changed_node(script.fsm, &(uint32_t){0})); /* and are told so */
    script_restore(&script);
    expect_begin(part_on(&script, "n1"), MAY);
    script_close(&script);
}

/* What one part takes for its own, another one must not take for one of many. */
static void all_parts_restore_in_one_way(void **unused)
{
    struct script script;
    Ckpt__V1__RestoreMode mode;
    uint32_t part;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    assert_false(fsm_begin_restored_as(script.fsm, job_of(&script, "j1"), &mode, &part));
    expect_ok(&script, "report n2 restored j1 restored=1-1 mode=all");
    assert_true(fsm_begin_restored_as(script.fsm, job_of(&script, "j1"), &mode, &part));
    assert_int_equal(mode, CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL);
    assert_uint_equal(part, 1);
    expect_ok(&script, "report n1 restored j1 restored=1-1 mode=own");
    expect_begin(part_on(&script, "n1"), RESTORING);
    assert_uint_equal(job(&script)->restored_count, 1);
    script_restore(&script);
    expect_ok(&script, "report n2 restored j1 restored=1-1 mode=own"); /* started anew */
    expect_ok(&script, "report n1 restored j1 restored=1-1 mode=own");
    expect_begin(part_on(&script, "n1"), MAY);
    script_close(&script);
}

/* Who comes before any part has begun restores the place that it takes. */
static void who_comes_to_a_run_that_has_begun_joins_it(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_ok(&script, "update j1 nodes=n1,n3 force");
    assert_false(part_on(&script, "n3").joined || part_on(&script, "n1").restored);
    expect_ok(&script, "report n3 restored j1 restored=1-1");
    expect_begin(part_on(&script, "n1"), RESTORING);
    expect_ok(&script, "report n1 restored j1 restored=1-1"); /* of the run that began anew */
    expect_begin(part_on(&script, "n1"), MAY);
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_ok(&script, "update j1 nodes=n1,n3,n4");
    expect_begin(part_on(&script, "n4"), MAY);
    assert_true(part_on(&script, "n4").joined);
    expect_begin(part_on(&script, "n3"), MAY);
    assert_false(part_on(&script, "n3").joined);
    expect_begin(part_on(&script, "n1"), RUNS); /* it runs: first its end must be heard of */
    script_restore(&script);
    assert_true(part_on(&script, "n4").joined);
    script_close(&script);
}

static void a_single_part_waits_for_nobody_and_chooses_anew_in_place(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    assert_uint_equal(job(&script)->view.restart_id, 0);
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    assert_uint_equal(fsm_begin_point(script.fsm, job_of(&script, "j1"))->id,
                      checkpoint_id_make(1, 1)); /* its end may be on its way here */
    expect_ok(&script, "report n1 application_exited j1 status=9 restart");
    assert_uint_equal(job(&script)->view.restart_id, checkpoint_id_make(1, 1));
    expect_begin(part_on(&script, "n1"), MAY);
    script_close(&script);
}

/* A job of two nodes with two complete checkpoints, to be started from the last one. */
static void start_from_the_last_of_two(struct script *script)
{
    start_from_checkpoint(script);
    expect_ok(script, "request j1");
    expect_ok(script, "grant 1-2");
    expect_ok(script, "report n1 shard_verified j1 ckpt=1-2");
    expect_ok(script, "report n2 shard_verified j1 ckpt=1-2");
    expect_ok(script, "end j1 failed");
    expect_ok(script, "restart j1 nodes=n1,n2");
    assert_uint_equal(job(script)->view.restart_id, checkpoint_id_make(1, 2));
}

static void what_is_damaged_is_passed_over_by_all_parts_at_once(void **unused)
{
    struct script script;

    (void)unused;
    start_from_the_last_of_two(&script);
    expect_ok(&script, "report n1 restored j1 restored=1-2");
    while (fsm_take_changed_node(script.fsm, &(uint32_t){0}))
        continue;
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-2");
    assert_uint_equal(job(&script)->view.restart_id, checkpoint_id_make(1, 1));
    assert_uint_equal(job(&script)->restored_count, 0);
    assert_true(fsm_take_changed_node(script.fsm, &(uint32_t){0}));
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-2"); /* it said so late */
    assert_uint_equal(job(&script)->view.restart_id, checkpoint_id_make(1, 1));
    expect_ok(&script, "report n1 restored j1 restored=1-1");
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    expect_begin(part_on(&script, "n1"), MAY);
    script_close(&script);
}

static void from_scratch_is_what_was_chosen_too(void **unused)
{
    struct script script;

    (void)unused;
    start_from_the_last_of_two(&script);
    assert_non_null(fsm_begin_point(script.fsm, job_of(&script, "j1")));
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 from_scratch");
    assert_null(fsm_begin_point(script.fsm, job_of(&script, "j1")));
    expect_begin(part_on(&script, "n1"), MAY);
    expect_begin(part_on(&script, "n2"), MAY);
    script_close(&script);
}

/* Nor goes a part that is started once more beside the others to a newer one. */
static void a_run_begins_from_one_checkpoint_for_as_long_as_it_goes_on(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_ok(&script, "report n2 application_started j1 restored=1-1");
    expect_ok(&script, "policy retention=1000 keep=2");
    for (int i = 2; i <= 3; i++) {
        expect_ok(&script, "request j1");
        expect_ok(&script, "grant 1-%d", i);
        expect_ok(&script, "report n1 shard_verified j1 ckpt=1-%d", i);
        expect_ok(&script, "report n2 shard_verified j1 ckpt=1-%d", i);
    }
    assert_uint_equal(fsm_begin_point(script.fsm, job_of(&script, "j1"))->id,
                      checkpoint_id_make(1, 3)); /* of a restart of all */
    assert_uint_equal(fsm_begin_of_part(script.fsm, job_of(&script, "j1"))->id,
                      checkpoint_id_make(1, 1));
    expect_ok(&script, "after 2000");
    expect_ok(&script, "tick");
    assert_null(fsm_begin_of_part(script.fsm, job_of(&script, "j1")));
    assert_uint_equal(fsm_begin_id(script.fsm, job_of(&script, "j1")), checkpoint_id_make(1, 1));
    script_close(&script);
}

static void without_another_one_the_run_is_over(void **unused)
{
    struct script script;

    (void)unused;
    start_from_the_last_of_two(&script);
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-2");
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-1");
    assert_true(job_of(&script, "j1")->terminating);
    assert_int_equal(job_of(&script, "j1")->terminate_reason,
                     CKPT__V1__REASON__REASON_NO_RESTART_POINT);
    expect_begin(part_on(&script, "n1"), ENDING);
    expect_begin(part_on(&script, "n2"), ENDING);
    expect_ok(&script, "report n1 terminated j1");
    expect_ok(&script, "report n2 terminated j1");
    assert_int_equal(job_of(&script, "j1")->state,
                     CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_FAILED);
    script_close(&script);
}

/* The places of another number of parts are not those of these (restore own). */
static void one_of_another_number_of_parts_is_no_other_one(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_ok(&script, "report n2 application_started j1 restored=1-1");
    expect_ok(&script, "update j1 nodes=n1 force");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-2");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-2");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1");
    expect_ok(&script, "report n1 restart_damaged j1 restored=1-2");
    assert_int_equal(job_of(&script, "j1")->terminate_reason,
                     CKPT__V1__REASON__REASON_NO_RESTART_POINT);
    script_close(&script);
}

static uint32_t shard_on(const struct script *script, const char *node_id, uint64_t number)
{
    const struct fsm_part part = part_on(script, node_id);

    return fsm_begin_shard(script->fsm, &part, checkpoint_of(script, number));
}

/* Who wrote the only shard joins as anybody does, beside the part that took it over. */
static void a_part_keeps_its_shard_when_its_writer_comes_back(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n2");
    expect_ok(&script, "update j1 nodes=n2,n1,n3,n4 force");
    assert_uint_equal(shard_on(&script, "n2", 1), 1);
    assert_uint_equal(shard_on(&script, "n1", 1), 0);
    assert_true(part_on(&script, "n1").joined);
    expect_ok(&script, "report n2 restored j1 restored=1-1");
    expect_begin(part_on(&script, "n2"), MAY);
    script_close(&script);
}

/* One of them may have begun from it before it hears that its place is another one. */
static void a_part_keeps_its_shard_when_its_place_moves(void **unused)
{
    struct script script;

    (void)unused;
    script_start(&script);
    expect_ok(&script, "register j1 nodes=n1,n2,n3");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "report n%d shard_verified j1 ckpt=1-1", i);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n7,n2,n8");
    expect_ok(&script, "update j1 nodes=n7,n2,n8,n9,n4 force");
    expect_ok(&script, "update j1 nodes=n2,n8,n9,n4 force");
    assert_uint_equal(part_on(&script, "n8").place, 1);
    assert_uint_equal(shard_on(&script, "n2", 1), 2);
    assert_uint_equal(shard_on(&script, "n8", 1), 3);
    assert_uint_equal(shard_on(&script, "n9", 1), 0);
    script_restore(&script);
    assert_uint_equal(shard_on(&script, "n8", 1), 3);
    script_close(&script);
}

/* What is left of several in place: its own, whatever its place was. */
static void the_last_of_several_restores_what_it_wrote(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "report n1 application_started j1 restored=1-1");
    expect_ok(&script, "report n2 application_started j1 restored=1-1");
    expect_ok(&script, "update j1 nodes=n2 force");
    assert_uint_equal(shard_on(&script, "n2", 1), 2); /* its end may be on its way here */
    expect_ok(&script, "report n2 application_exited j1 status=9 restart");
    assert_uint_equal(shard_on(&script, "n2", 1), 2);
    script_close(&script);
}

/* Its ckpt-run died between RESTORED and the start, and the shard was spoiled since. */
static void a_part_that_has_begun_does_not_go_on_with_another_checkpoint(void **unused)
{
    struct script script;

    (void)unused;
    start_from_the_last_of_two(&script);
    expect_ok(&script, "report n1 restored j1 restored=1-2");
    expect_ok(&script, "report n2 restored j1 restored=1-2");
    expect_ok(&script, "report n1 application_started j1 restored=1-2");
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-2");
    assert_true(job_of(&script, "j1")->terminating);
    assert_int_equal(job_of(&script, "j1")->terminate_reason,
                     CKPT__V1__REASON__REASON_MIXED_RESTART);
    script_close(&script);
}

/* The run ends for that, which its nodes have not said yet, and a client asks what it begins from.
 */
static void what_was_damaged_and_collected_is_begun_from_by_nobody(void **unused)
{
    struct script script;

    (void)unused;
    start_from_checkpoint(&script);
    expect_ok(&script, "end j1 failed");
    expect_ok(&script, "restart j1 nodes=n1,n2");
    assert_non_null(fsm_begin_point(script.fsm, job_of(&script, "j1")));
    expect_ok(&script, "report n2 restart_damaged j1 restored=1-1");
    assert_true(job_of(&script, "j1")->terminating);
    assert_null(fsm_begin_point(script.fsm, job_of(&script, "j1")));
    script.now_ms += fsm_policy(script.fsm)->retention_ms;
    expect_ok(&script, "tick");
    expect_ok(&script, "collected 1-1");
    expect_checkpoint(&script, 1, COLLECTED);
    assert_null(fsm_begin_point(script.fsm, job_of(&script, "j1")));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_says_what_it_has_restored),
        cmocka_unit_test(a_checkpoint_that_is_found_damaged_stays_so),
        cmocka_unit_test(what_is_to_end_does_not_end_by_these_words),
        cmocka_unit_test(all_parts_begin_when_the_last_has_restored),
        cmocka_unit_test(all_parts_restore_in_one_way),
        cmocka_unit_test(who_comes_to_a_run_that_has_begun_joins_it),
        cmocka_unit_test(a_single_part_waits_for_nobody_and_chooses_anew_in_place),
        cmocka_unit_test(what_is_damaged_is_passed_over_by_all_parts_at_once),
        cmocka_unit_test(from_scratch_is_what_was_chosen_too),
        cmocka_unit_test(a_run_begins_from_one_checkpoint_for_as_long_as_it_goes_on),
        cmocka_unit_test(without_another_one_the_run_is_over),
        cmocka_unit_test(one_of_another_number_of_parts_is_no_other_one),
        cmocka_unit_test(a_part_keeps_its_shard_when_its_writer_comes_back),
        cmocka_unit_test(a_part_keeps_its_shard_when_its_place_moves),
        cmocka_unit_test(the_last_of_several_restores_what_it_wrote),
        cmocka_unit_test(a_part_that_has_begun_does_not_go_on_with_another_checkpoint),
        cmocka_unit_test(what_was_damaged_and_collected_is_begun_from_by_nobody),
        cmocka_unit_test(a_restart_forgets_it_and_another_set_of_nodes_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
