/* A cycle in which more fire than the targets can take (D-001, D-002), and when a job may fire for
 * the first time. */
#include <time.h>

#include "src/broker/decide/admission.h"
#include "src/broker/decide/evaluator_view.h"
#include "tests/unit/broker/evaluator_fixture.h"

static void started_long_ago(Ckpt__V1__AllocationSpec *spec)
{
    spec->started_at_ms = FAKE_EPOCH_MS;
}

static uint32_t requested(struct fake *fake)
{
    return fake_summary(fake)
        .checkpoints_by_state[CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED];
}

/* More rows than one chunk; the time is for people. All fire; the target's 7 GB/s take a few in the
 * two cycles that are looked ahead, so as many are asked as may wait, the best of all chunks: the
 * last jobs, of two nodes each. */
static void of_many_that_fire_the_best_are_asked_and_the_others_wait(void **state)
{
    enum { ALLOCATIONS = EVALUATOR_CHUNK_ROWS + 2000, LARGE = 600 };
    struct fake *fake = start();
    struct explained_copy explained;
    struct timespec began, ended;
    char id[32];
    double ms;

    (void)state;
    for (int i = 0; i < ALLOCATIONS; i++) {
        snprintf(id, sizeof(id), "job-%d", i);
        assert_int_equal(
            fake_register(fake, id, (uint32_t)(i % 50), i < ALLOCATIONS - LARGE ? 1 : 2, NULL)
                .status,
            FSM_OK);
    }
    fake->now_us += 24 * (uint64_t)HOUR_MS * 1000;
    clock_gettime(CLOCK_MONOTONIC, &began);
    fake_serve(fake);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    ms =
        (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
    print_message("%d allocations, all fire, evaluated and applied in %.1f ms\n", ALLOCATIONS, ms);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN);
    for (int i = ALLOCATIONS - LARGE; i < ALLOCATIONS; i++) {
        snprintf(id, sizeof(id), "job-%d", i);
        assert_true(fsm_allocation_find(fake->replica.fsm, id)->active_checkpoint_id != 0);
    }
    /* Those that are applied in one turn of the loop hold it. */
    assert_in_range(fake->replica.waiting_max, 1, 4);
    assert_double_near(counted(fake, "skip", "waits_for_bandwidth"),
                       ALLOCATIONS - ADMISSION_WAITING_MIN, 0);
    explained = explain_job(fake, "job-10000");
    assert_string_equal(explained.verdict, "waits_for_bandwidth");
    assert_false(explained.checkpoint);
    assert_non_null(strstr(explained.flips, "its storage target has room for it, or it gains more "
                                            "than the least that was admitted: "));
    fake_advance_ms(fake, 60000);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN); /* nobody wrote meanwhile */
    explained = explain_job(fake, "job-10000");
    assert_false(explained.checkpoint);
    finish(fake);
}

/* As above, but nothing has a price: a declared period fires where the value does not, for as long
 * as it waits. */
static void what_waits_for_long_is_one_run_and_is_asked_when_there_is_room(void **state)
{
    enum { ALLOCATIONS = ADMISSION_WAITING_MIN + 1 };
    struct fake *fake = start();
    struct explained_copy explained;
    const struct fsm_checkpoint *first;
    char id[32];

    (void)state;
    for (int i = 0; i < ALLOCATIONS; i++) {
        snprintf(id, sizeof(id), "job-%d", i);
        assert_int_equal(fake_register(fake, id, (uint32_t)i % 50, 1, set_period).status, FSM_OK);
    }
    fake_serve(fake);
    fake_advance_ms(fake, 11 * 60000);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN);
    snprintf(id, sizeof(id), "job-%d", ALLOCATIONS - 1); /* the last among equals */
    explained = explain_job(fake, id);
    assert_string_equal(explained.verdict, "waits_for_bandwidth");
    first = fsm_checkpoint_next(fake->replica.fsm, 0);
    cancel(fake, first->id);
    fake_advance_ms(fake, 30000);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN);
    explained = explain_job(fake, id);
    assert_string_equal(explained.verdict, "declared_period_reached");
    finish(fake);
}

/* The queue of the target is as long as it may be: the last safe slot before the walltime does not
 * wait for the next cycle. */
static void a_deadline_is_asked_past_a_full_queue(void **state)
{
    struct fake *fake = start();
    char id[32];

    (void)state;
    for (int i = 0; i < ADMISSION_WAITING_MIN + 1; i++) {
        snprintf(id, sizeof(id), "job-%d", i);
        assert_int_equal(fake_register(fake, id, (uint32_t)i % 50, 1, set_period).status, FSM_OK);
    }
    fake_serve(fake);
    fake_advance_ms(fake, 11 * 60000);
    assert_int_equal(fake_register(fake, "job", 1, 1, two_hours).status, FSM_OK);
    fake_advance_ms(fake, 2 * (uint64_t)HOUR_MS - 60000);
    assert_true(fsm_allocation_find(fake->replica.fsm, "job")->walltime_asked);
    finish(fake);
}

/* A queue as long as it may be, and nothing is written: what is clearly better than all that wait
 * is asked in the cycle in which it fires; what is not waits. */
static void a_better_job_does_not_wait_behind_a_full_queue(void **state)
{
    struct fake *fake = start();
    char id[32];

    (void)state;
    for (int i = 0; i < ADMISSION_WAITING_MIN + 1; i++) {
        snprintf(id, sizeof(id), "job-%d", i);
        assert_int_equal(fake_register(fake, id, (uint32_t)i % 50, 1, NULL).status, FSM_OK);
    }
    fake->now_us += 72 * (uint64_t)HOUR_MS * 1000;
    fake_serve(fake);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN);
    assert_int_equal(fake_register(fake, "large", 2, 40, started_long_ago).status, FSM_OK);
    fake_advance_ms(fake, 30000);
    assert_true(fsm_allocation_find(fake->replica.fsm, "large")->active_checkpoint_id != 0);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN + 1);
    fake_advance_ms(fake, 300000);
    assert_uint_equal(requested(fake), ADMISSION_WAITING_MIN + 1);
    finish(fake);
}

static double index_of(const struct fake *fake, const char *job)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fake->replica.fsm, job);
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(fake->replica.fsm, allocation->active_checkpoint_id);

    assert_non_null(checkpoint);
    return (double)fsm_grant_priority(fake->replica.fsm, checkpoint) / 1e12;
}

/* D-001: several wait for a full target, and one that was asked for is granted before them. */
static void a_byte_costs_what_the_best_of_those_that_wait_would_gain(void **state)
{
    struct fake *fake = start();
    struct evaluator_row row;
    double phi;

    (void)state;
    assert_int_equal(fake_register(fake, "small", 1, 1, NULL).status, FSM_OK);
    assert_int_equal(fake_register(fake, "large", 2, 3, NULL).status, FSM_OK);
    fake->now_us += 72 * (uint64_t)HOUR_MS * 1000;
    fake_serve(fake);
    assert_int_equal(fake_register(fake, "writer", 5, 1, NULL).status, FSM_OK);
    assert_int_equal(fake_register(fake, "asked", 6, 1, NULL).status, FSM_OK);
    /* to a writer that leaves nothing for the others */
    fake_grant(fake, fake_request_checkpoint(fake, "writer", "writer"), UINT64_C(7000000000),
               HOUR_MS);
    fake_request_checkpoint(fake, "asked", "asked");
    fake_advance_ms(fake, 30000);
    assert_true(evaluator_last(fake->broker.evaluator,
                               fsm_allocation_find(fake->replica.fsm, "small"), &row));
    phi = row.policy->phi_gpu_s_per_byte;
    assert_true(index_of(fake, "large") > index_of(fake, "small"));
    assert_true(index_of(fake, "small") > 0);
    assert_double_near(phi / index_of(fake, "large"), 1, 0.01);
    finish(fake);
}

static void set_first_period(Ckpt__V1__AllocationSpec *spec)
{
    set_period(spec);
    spec->first_period_ms = 30 * 60000;
}

/* S3-068: init= of bsub -k stands for the period until one is complete. */
static void the_first_one_has_a_period_of_its_own(void **state)
{
    struct fake *fake = start();
    uint64_t id;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 1, set_first_period).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 29 * 60000);
    assert_uint_equal(requested(fake), 0);
    assert_string_equal(explain(fake).verdict, "min_interval");
    fake_advance_ms(fake, 2 * 60000);
    assert_uint_equal(requested(fake), 1);
    id = fsm_allocation_find(fake->replica.fsm, "job")->active_checkpoint_id;
    fake_grant(fake, id, UINT64_C(1000000000), HOUR_MS);
    fake_verify_part(fake, "job", id, 0);
    assert_uint_equal(requested(fake), 0);
    fake_advance_ms(fake, 9 * 60000);
    assert_uint_equal(requested(fake), 0);
    fake_advance_ms(fake, 2 * 60000);
    assert_uint_equal(requested(fake), 1);
    finish(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_many_that_fire_the_best_are_asked_and_the_others_wait),
        cmocka_unit_test(what_waits_for_long_is_one_run_and_is_asked_when_there_is_room),
        cmocka_unit_test(a_deadline_is_asked_past_a_full_queue),
        cmocka_unit_test(a_better_job_does_not_wait_behind_a_full_queue),
        cmocka_unit_test(a_byte_costs_what_the_best_of_those_that_wait_would_gain),
        cmocka_unit_test(the_first_one_has_a_period_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
