/* The collector: D-004, I28. Workers are the test's own. */
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/broker/keep/collector.h"
#include "tests/unit/broker/fake_worker.h"

static void end_worker(struct fake *fake, int exit_code)
{
    end_worker_with(fake, (struct worker_result){.exit_code = exit_code, .error = "busy"});
}

/* A job with one cancelled checkpoint whose folder is of no use to anybody. */
static uint64_t leave_a_folder_of(struct fake *fake, const char *job, bool written)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    Ckpt__V1__CancelCheckpointRequest cancel = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;
    Ckpt__Log__V1__GrantBatch grants = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant grant = CKPT__LOG__V1__GRANT__INIT;
    Ckpt__Log__V1__Grant *pointers[] = {&grant};
    char id[64], request_id[80], cancel_id[80];
    uint64_t checkpoint_id;

    snprintf(id, sizeof(id), "%s", job);
    snprintf(request_id, sizeof(request_id), "request-%s", job);
    snprintf(cancel_id, sizeof(cancel_id), "cancel-%s", job);
    assert_int_equal(fake_register(fake, job, 1, written ? 2 : 1, NULL).status, FSM_OK);
    request.request_id = command.request_id = request_id;
    request.allocation_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    checkpoint_id = fake_do(fake, &command).checkpoint_id;
    assert_true(checkpoint_id > 0);
    grant.checkpoint_id = checkpoint_id;
    grant.bytes_per_s = 1000000;
    grant.timeout_ms = 600000;
    grants.n_grants = 1;
    grants.grants = pointers;
    command.request_id = (char[]){""};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &grants;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    if (written)
        fake_verify_part(fake, job, checkpoint_id, 0);
    cancel.request_id = command.request_id = cancel_id;
    cancel.checkpoint_id = checkpoint_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CANCEL_CHECKPOINT;
    command.cancel_checkpoint = &cancel;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    return checkpoint_id;
}

static uint64_t leave_a_folder(struct fake *fake, const char *job)
{
    return leave_a_folder_of(fake, job, false);
}

static size_t collectable(struct fake *fake)
{
    uint64_t ids[8];

    return fsm_collectable(fake->replica.fsm, UINT64_MAX, ids, 8);
}

static void tick_until(struct fake *fake, size_t wanted)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Tick tick = CKPT__LOG__V1__TICK__INIT;

    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &tick;
    for (int i = 0; i < 20 && collectable(fake) < wanted; i++) {
        uint64_t deadline_ms = fsm_next_deadline_ms(fake->replica.fsm);

        if (deadline_ms == UINT64_MAX)
            break;
        if (deadline_ms > fake_wall_ms(fake))
            fake->now_us += (deadline_ms - fake_wall_ms(fake)) * 1000;
        fake_do(fake, &command);
    }
    assert_uint_equal(collectable(fake), wanted);
}

/* Until retention lets the folder go. */
static void tick_until_collectable(struct fake *fake)
{
    tick_until(fake, 1);
}

static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);

    fake_worker_begin(COLLECTOR_DEADLINE_MS);
    fake->broker.collector = collector_new(&fake->broker);
    return fake;
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    collector_free(fake->broker.collector);
    end_worker_left();
    fake_free(fake);
}

static void an_expired_folder_is_removed_and_then_recorded(void **state)
{
    struct fake *fake = start();
    char expected[256], id[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t checkpoint_id;

    (void)state;
    checkpoint_id = leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    assert_true(worker.running);
    snprintf(expected, sizeof(expected),
             "collect --prefix /scratch --path /scratch/physics/p1/job/checkpoints/%s "
             "--cluster 9f86d081884c7d65@1 --cluster-id test ",
             checkpoint_id_format(checkpoint_id, id));
    assert_string_equal(worker.arguments, expected);
    assert_uint_equal(collectable(fake), 1); /* not before it is gone */
    end_worker(fake, 0);
    assert_uint_equal(collectable(fake), 0);
    finish(fake);
}

static void a_failed_removal_is_tried_again_later(void **state)
{
    struct fake *fake = start();

    (void)state;
    leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    end_worker(fake, WORKER_EXIT_UNAVAILABLE);
    assert_uint_equal(collectable(fake), 1);
    fake_advance_ms(fake, 60000 - COLLECTOR_INTERVAL_MS);
    assert_int_equal(started_count, 1);
    fake_advance_ms(fake, 2 * COLLECTOR_INTERVAL_MS);
    assert_int_equal(started_count, 2);
    end_worker(fake, 0);
    assert_uint_equal(collectable(fake), 0);
    finish(fake);
}

/* Nothing below the prefix: its file system is not mounted. */
static void what_was_written_is_not_gone_where_nothing_is_mounted(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    id = leave_a_folder_of(fake, "job", true);
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_NOT_FOUND,
                                                 .error = "mount the file system"});
    assert_string_equal(fsm_undeleted_find(fake->replica.fsm, id)->reason, "mount the file system");
    finish(fake);
}

/* A tenant's first checkpoint that failed before anything of it was written has no folder. */
static void what_was_never_written_is_gone_where_nothing_is(void **state)
{
    struct fake *fake = start();

    (void)state;
    leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    end_worker(fake, WORKER_EXIT_NOT_FOUND);
    assert_uint_equal(collectable(fake), 0);
    finish(fake);
}

/* D-004: the state says for all members what could not be removed and why, in characters whatever
 * its path holds */
static void a_failed_removal_is_told_with_its_reason(void **state)
{
    struct fake *fake = start();
    const struct fsm_undeleted *undeleted;
    uint64_t id;

    (void)state;
    id = leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_UNAVAILABLE,
                                                 .error = "rename \xff\n: Permission denied"});
    undeleted = fsm_undeleted_find(fake->replica.fsm, id);
    assert_non_null(undeleted);
    assert_string_equal(undeleted->reason, "rename ??: Permission denied");
    assert_uint_equal(undeleted->attempts, 1);
    finish(fake);
}

/* A text begins with the path, which PATH tells as well, and ends with the cause. */
static void the_end_of_a_long_reason_is_kept(void **state)
{
    struct fake *fake = start();
    struct worker_result result = {.exit_code = WORKER_EXIT_UNAVAILABLE};
    const char *reason;
    uint64_t id;

    (void)state;
    id = leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    snprintf(result.error, sizeof(result.error), "removing /%0300d: Permission denied", 7);
    end_worker_with(fake, result);
    reason = fsm_undeleted_find(fake->replica.fsm, id)->reason;
    assert_uint_equal(strlen(reason), FSM_UNDELETED_REASON_BYTES - 1);
    assert_int_equal(strncmp(reason, "...0000", 7), 0);
    assert_non_null(strstr(reason, "07: Permission denied"));
    finish(fake);
}

/* Removal that fails for a hundred folders leaves the one behind them its turn at the second look,
 * whatever those before it do. */
static void folders_that_cannot_be_removed_do_not_stop_the_others(void **state)
{
    struct fake *fake = start();
    char job[32];
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i <= COLLECTOR_BATCH_MAX; i++) {
        snprintf(job, sizeof(job), "job%d", i);
        last = leave_a_folder(fake, job);
    }
    tick_until(fake, 8); /* as many as are asked for */
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    for (int i = 0; i < COLLECTOR_BATCH_MAX; i++)
        end_worker(fake, WORKER_EXIT_UNAVAILABLE);
    assert_false(worker.running);
    assert_null(fsm_undeleted_find(fake->replica.fsm, last));
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    assert_true(worker.running);
    end_worker(fake, 0);
    assert_false(worker.running);
    assert_int_equal(started_count, COLLECTOR_BATCH_MAX + 1);
    finish(fake);
}

/* What hangs holds one worker up in a look, not one for each folder that lies there; none beside
 * one that cannot be killed. */
static void a_target_that_hangs_is_passed_over(void **state)
{
    struct fake *fake = start();

    (void)state;
    leave_a_folder(fake, "job");
    leave_a_folder(fake, "other");
    tick_until(fake, 2);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    hanging = 7;
    end_worker_with(fake, (struct worker_result){.exit_code = -1,
                                                 .timed_out = true,
                                                 .unkillable = true,
                                                 .hang_id = 7,
                                                 .error = "cannot be killed"});
    assert_false(worker.running);
    fake_advance_ms(fake, 20 * COLLECTOR_INTERVAL_MS);
    assert_int_equal(started_count, 1);
    hanging = 0;
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    assert_int_equal(started_count, 2);
    end_worker(fake, 0);
    end_worker(fake, 0);
    finish(fake);
}

static void nothing_is_removed_from_an_unavailable_target(void **state)
{
    struct fake *fake = start();

    (void)state;
    leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_set_available(fake, false);
    fake_serve(fake);
    fake_advance_ms(fake, 10 * COLLECTOR_INTERVAL_MS);
    assert_int_equal(started_count, 0);
    fake_set_available(fake, true);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    assert_int_equal(started_count, 1);
    end_worker(fake, 0);
    finish(fake);
}

static void losing_leadership_cancels_the_worker(void **state)
{
    struct fake *fake = start();

    (void)state;
    leave_a_folder(fake, "job");
    tick_until_collectable(fake);
    fake_serve(fake);
    fake_advance_ms(fake, COLLECTOR_INTERVAL_MS);
    fake_stop_serving(fake);
    assert_true(worker.cancelled);
    collector_free(fake->broker.collector); /* before the worker has ended */
    end_worker(fake, -1);
    assert_uint_equal(collectable(fake), 1);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expired_folder_is_removed_and_then_recorded),
        cmocka_unit_test(a_failed_removal_is_tried_again_later),
        cmocka_unit_test(what_was_written_is_not_gone_where_nothing_is_mounted),
        cmocka_unit_test(what_was_never_written_is_gone_where_nothing_is),
        cmocka_unit_test(a_failed_removal_is_told_with_its_reason),
        cmocka_unit_test(the_end_of_a_long_reason_is_kept),
        cmocka_unit_test(folders_that_cannot_be_removed_do_not_stop_the_others),
        cmocka_unit_test(a_target_that_hangs_is_passed_over),
        cmocka_unit_test(nothing_is_removed_from_an_unavailable_target),
        cmocka_unit_test(losing_leadership_cancels_the_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
