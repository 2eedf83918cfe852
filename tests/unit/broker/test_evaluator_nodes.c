/* The part of a job's nodes in the worth of its checkpoints: nodes without GPUs, healthy ones. */
#include "tests/unit/broker/evaluator_fixture.h"

static void without_gpus(Ckpt__V1__AllocationSpec *spec)
{
    for (size_t i = 0; i < spec->n_nodes; i++) {
        spec->nodes[i]->gpu_count = 0;
        spec->nodes[i]->gpu_memory_used_bytes = 1000000000; /* of its checkpoint */
    }
}

static void count_nodes_as(struct fake *fake, uint32_t gpus)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    command.request_id = (char[]){"node-gpus"};
    policy.node_gpus = gpus;
    policy.zeros = gpus == 0 ? UINT64_C(1) << 56 : 0;
    set.policy = &policy;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* V-006, in part: before the policy's max_interval, by which every job gets one. */
static void a_job_without_gpus_counts_by_its_nodes(void **state)
{
    const struct fsm_checkpoint *checkpoint;

    (void)state;
    for (uint32_t gpus = 0; gpus <= 2; gpus++) {
        struct fake *fake = start();

        assert_int_equal(fake_register(fake, "job", 1, 16, without_gpus).status, FSM_OK);
        if (gpus != 1) /* the default */
            count_nodes_as(fake, gpus);
        fake_serve(fake);
        fake_advance_ms(fake, 5 * (uint64_t)HOUR_MS);
        checkpoint = fsm_checkpoint_next(fake->replica.fsm, 0);
        if (gpus == 0) {
            assert_null(checkpoint);
        } else {
            assert_non_null(checkpoint);
            assert_int_equal(checkpoint->terms->gpu_count, 16 * gpus);
        }
        finish(fake);
    }
}

static void on_fast(Ckpt__V1__AllocationSpec *spec)
{
    static char fast[] = "fast";

    spec->target_id = fast;
}

/* The documents' job of 64 nodes with 8 GPUs of 80 GB each, and 100 GB/s for its checkpoints: a new
 * target leaves three tenths to staging. */
static const struct fsm_checkpoint *first_of_the_documents_job(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__PutTarget put = CKPT__LOG__V1__PUT_TARGET__INIT;
    Ckpt__V1__TargetSpec target = CKPT__V1__TARGET_SPEC__INIT;

    command.request_id = (char[]){"fast"};
    target.target_id = (char[]){"fast"};
    target.kind = CKPT__V1__TARGET_KIND__TARGET_KIND_POSIX;
    target.prefix = (char[]){"/fast"};
    target.write_bytes_per_s = UINT64_C(100000000000) / 7 * 10;
    put.spec = &target;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_PUT_TARGET;
    command.put_target = &put;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    assert_int_equal(fake_register(fake, "job", 1, 64, on_fast).status, FSM_OK);
    fake_serve(fake);
    fake_advance_ms(fake, 7 * (uint64_t)HOUR_MS);
    return fsm_checkpoint_next(fake->replica.fsm, 0);
}

/* S1-020: with the defaults of a new cluster. By its cost alone the checkpoint would come a little
 * later: before any has completed, one of fifty is expected to fail. The longest interval comes
 * first. A cluster that an earlier build founded keeps its own rate. */
static void a_quiet_job_on_healthy_nodes_saves_about_every_six_hours(void **state)
{
    static const struct {
        uint32_t level;
        uint64_t max_interval_ms;
        double hours;
        const char *verdict;
    } rows[] = {{2, 0, 6, "max_interval_reached"},
                {2, 24 * (uint64_t)HOUR_MS, 6.05, "value_exceeds_cost"},
                {1, 0, 3.6, "value_exceeds_cost"}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;
        const struct fsm_checkpoint *checkpoint;
        struct fake *fake;
        uint64_t began_ms;

        policy.feature_level = rows[i].level;
        policy.max_interval_ms = rows[i].max_interval_ms;
        fake = start_with(&policy);
        began_ms = fake_wall_ms(fake);
        checkpoint = first_of_the_documents_job(fake);
        assert_non_null(checkpoint);
        assert_string_equal(checkpoint->terms->verdict, rows[i].verdict);
        assert_double_near((double)(checkpoint->created_at_ms - began_ms) / HOUR_MS, rows[i].hours,
                           0.03);
        finish(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_gpus_counts_by_its_nodes),
        cmocka_unit_test(a_quiet_job_on_healthy_nodes_saves_about_every_six_hours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
