/* The scrubber: complete checkpoints are read again (D-004, I28). Workers are the test's own. */
#include "src/base/id.h"
#include "src/base/text.h"
#include "src/broker/keep/scrubber.h"
#include "tests/unit/broker/fake_worker.h"

static void end_worker(struct fake *fake, int exit_code)
{
    end_worker_with(fake, (struct worker_result){.exit_code = exit_code, .error = "it said so"});
}

/* A job of two nodes with one complete checkpoint. */
static uint64_t complete(struct fake *fake, const char *job)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    Ckpt__Log__V1__GrantBatch grants = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant grant = CKPT__LOG__V1__GRANT__INIT;
    Ckpt__Log__V1__Grant *pointers[] = {&grant};
    char request_id[80];

    snprintf(request_id, sizeof(request_id), "request-%s", job);
    assert_int_equal(fake_register(fake, job, 1, 2, NULL).status, FSM_OK);
    request.request_id = command.request_id = request_id;
    request.allocation_id = text_message(job);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_CHECKPOINT;
    command.request_checkpoint = &request;
    grant.checkpoint_id = fake_do(fake, &command).checkpoint_id;
    grant.bytes_per_s = 1000000;
    grant.timeout_ms = 600000;
    grants.n_grants = 1;
    grants.grants = pointers;
    command.request_id = text_message("");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &grants;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    fake_verify_part(fake, job, grant.checkpoint_id, 0);
    fake_verify_part(fake, job, grant.checkpoint_id, 1);
    assert_int_equal(fsm_checkpoint_find(fake->replica.fsm, grant.checkpoint_id)->state,
                     CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE);
    return grant.checkpoint_id;
}

static void ask(struct fake *fake, uint64_t id)
{
    static int count;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__VerifyCheckpoints verify = CKPT__LOG__V1__VERIFY_CHECKPOINTS__INIT;
    char request_id[32];

    snprintf(request_id, sizeof(request_id), "verify-%d", ++count);
    verify.n_checkpoint_ids = 1;
    verify.checkpoint_ids = &id;
    command.request_id = request_id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_VERIFY_CHECKPOINTS;
    command.verify_checkpoints = &verify;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static struct fake *start(void)
{
    struct fake *fake = fake_new(NULL);

    fake_worker_begin(3600000);
    fake->broker.scrubber = scrubber_new(&fake->broker);
    return fake;
}

static void finish(struct fake *fake)
{
    fake_stop_serving(fake);
    scrubber_free(fake->broker.scrubber);
    end_worker_left();
    fake_free(fake);
}

static const struct fsm_checkpoint *at(const struct fake *fake, uint64_t id)
{
    return fsm_checkpoint_find(fake->replica.fsm, id);
}

static uint64_t unreadable(const struct fake *fake)
{
    struct fsm_summary summary;

    fsm_get_summary(fake->replica.fsm, &summary);
    return summary.unreadable_total;
}

static void each_part_is_read_and_then_it_is_whole(void **state)
{
    struct fake *fake = start();
    char expected[512], text[CHECKPOINT_ID_TEXT_BYTES];
    uint64_t id = complete(fake, "job");

    (void)state;
    fake_serve(fake);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    assert_false(worker.running); /* nobody asked, and it is young */
    ask(fake, id);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    snprintf(expected, sizeof(expected),
             "verify --prefix /scratch --path /scratch/physics/p1/job/checkpoints/%s --part "
             "part-0000 --manifest-sha256 "
             "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff --rate 100000000 ",
             checkpoint_id_format(id, text));
    assert_string_equal(worker.arguments, expected);
    end_worker(fake, WORKER_EXIT_OK);
    assert_non_null(strstr(worker.arguments, "part-0001"));
    assert_uint_equal(at(fake, id)->verified_at_ms, 0);
    end_worker(fake, WORKER_EXIT_OK);
    assert_true(at(fake, id)->verified_at_ms > 0);
    fake_advance_ms(fake, 10 * SCRUBBER_INTERVAL_MS);
    assert_int_equal(started_count, 2);
    fake_advance_ms(fake, 86400000); /* the policy's interval */
    assert_int_equal(started_count, 3);
    finish(fake);
}

static void what_differs_is_damaged_with_its_part(void **state)
{
    struct fake *fake = start();
    uint64_t id = complete(fake, "job");

    (void)state;
    fake_serve(fake);
    ask(fake, id);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    end_worker(fake, WORKER_EXIT_OK);
    end_worker_with(fake, (struct worker_result){.exit_code = WORKER_EXIT_CORRUPT,
                                                 .error = "state\xff differs"});
    assert_true(at(fake, id)->damaged);
    assert_string_equal(at(fake, id)->detail, "part 1: state? differs");
    finish(fake);
}

/* Of the same target nothing is tried here for an hour: nodes are asked at once. */
static void what_may_not_be_read_here_is_left_to_nodes(void **state)
{
    struct fake *fake = start();
    uint64_t first = complete(fake, "first"), second = complete(fake, "second");

    (void)state;
    fake_serve(fake);
    ask(fake, first);
    ask(fake, second);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    end_worker(fake, WORKER_EXIT_UNAVAILABLE);
    assert_int_equal(started_count, 1);
    assert_false(at(fake, first)->damaged);
    assert_uint_equal(unreadable(fake), 2); /* no agent is there */
    fake_advance_ms(fake, SCRUBBER_REFUSED_MS + 2 * SCRUBBER_INTERVAL_MS);
    ask(fake, first);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    assert_int_equal(started_count, 2);
    finish(fake);
}

static void a_worker_that_hangs_says_nothing_of_the_data(void **state)
{
    struct fake *fake = start();
    uint64_t id = complete(fake, "job");

    (void)state;
    fake_serve(fake);
    ask(fake, id);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    hanging = 7;
    end_worker_with(fake, (struct worker_result){.exit_code = -1,
                                                 .timed_out = true,
                                                 .unkillable = true,
                                                 .hang_id = 7,
                                                 .error = "it hangs"});
    assert_false(at(fake, id)->damaged);
    assert_uint_equal(unreadable(fake), 1);
    ask(fake, id);
    fake_advance_ms(fake, 5 * SCRUBBER_INTERVAL_MS);
    assert_int_equal(started_count, 1); /* not beside it */
    hanging = 0;
    fake_advance_ms(fake, 5 * SCRUBBER_INTERVAL_MS);
    assert_int_equal(started_count, 2);
    finish(fake);
}

static void a_leader_that_stops_ends_its_worker_and_says_nothing(void **state)
{
    struct fake *fake = start();
    uint64_t id = complete(fake, "job");

    (void)state;
    fake_serve(fake);
    ask(fake, id);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    fake_stop_serving(fake);
    assert_true(worker.cancelled);
    end_worker(fake, -1);
    assert_uint_equal(unreadable(fake), 0);
    fake_serve(fake);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    assert_int_equal(started_count, 2);
    scrubber_free(fake->broker.scrubber); /* before the worker has ended */
    assert_true(worker.cancelled);
    end_worker(fake, -1);
    fake->broker.scrubber = NULL;
    fake_free(fake);
}

static void do_it(struct fake *fake, Ckpt__Log__V1__Command *command)
{
    static unsigned number;
    char request_id[32];

    snprintf(request_id, sizeof(request_id), "do-%u", ++number);
    command->request_id = request_id;
    assert_int_equal(fake_do(fake, command).status, FSM_OK);
}

/* Its first part is being read when it goes, and its target after it: the leader ended at that. */
static void what_goes_with_its_target_meanwhile_is_read_no_more(void **state)
{
    struct fake *fake = start();
    uint64_t id = complete(fake, "job");
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    Ckpt__Log__V1__ExpireCheckpoints expire = CKPT__LOG__V1__EXPIRE_CHECKPOINTS__INIT;
    Ckpt__Log__V1__CheckpointsCollected collected = CKPT__LOG__V1__CHECKPOINTS_COLLECTED__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec spec = CKPT__V1__TARGET_SPEC__INIT;
    Ckpt__Log__V1__RemoveTarget removal = CKPT__LOG__V1__REMOVE_TARGET__INIT;

    (void)state;
    fake_serve(fake);
    ask(fake, id);
    fake_advance_ms(fake, SCRUBBER_INTERVAL_MS);
    assert_true(worker.running);
    end.allocation_id = text_message("job");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &end;
    do_it(fake, &command);
    expire.n_checkpoint_ids = collected.n_checkpoint_ids = 1;
    expire.checkpoint_ids = collected.checkpoint_ids = &id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_EXPIRE_CHECKPOINTS;
    command.expire_checkpoints = &expire;
    do_it(fake, &command);
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_CHECKPOINTS_COLLECTED;
    command.checkpoints_collected = &collected;
    do_it(fake, &command);
    spec.target_id = text_message("new");
    spec.prefix = text_message("/new");
    spec.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    spec.write_bytes_per_s = 1000000000;
    spec.is_default = true;
    put.spec = &spec;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.put_target = &put;
    do_it(fake, &command);
    removal.target_id = text_message("scratch");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REMOVE_TARGET;
    command.remove_target = &removal;
    do_it(fake, &command);
    end_worker(fake, WORKER_EXIT_OK);
    assert_false(worker.running);
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_read_and_then_it_is_whole),
        cmocka_unit_test(what_differs_is_damaged_with_its_part),
        cmocka_unit_test(what_may_not_be_read_here_is_left_to_nodes),
        cmocka_unit_test(a_worker_that_hangs_says_nothing_of_the_data),
        cmocka_unit_test(a_leader_that_stops_ends_its_worker_and_says_nothing),
        cmocka_unit_test(what_goes_with_its_target_meanwhile_is_read_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
