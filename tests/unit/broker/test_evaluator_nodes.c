/* A job that holds nodes without GPUs: its checkpoints are worth those of so many GPUs. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_gpus_counts_by_its_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
