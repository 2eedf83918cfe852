/* From the state to messages: what a scheduler or an operator sees of an allocation. */
#include "src/base/id.h"
#include "src/broker/explain/translate.h"
#include "tests/unit/broker/fake_replica.h"

static void restart(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__EndAllocationRequest end = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__RestartAllocationRequest again = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;

    end.request_id = command.request_id = (char[]){"end"};
    end.allocation_id = again.allocation_id = (char[]){"job"};
    end.failed = end.node_failure = true;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_END_ALLOCATION;
    command.end_allocation = &end;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
    again.from_scratch = true;
    again.request_id = command.request_id = (char[]){"again"};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_RESTART_ALLOCATION;
    command.restart_allocation = &again;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

/* Reports and orders name them; a part that begins again has a later one. */
static void runs_of_the_parts_are_told(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct scratch scratch = {0};
    Ckpt__V1__Allocation job;
    uint64_t first;

    (void)state;
    assert_int_equal(fake_register(fake, "job", 1, 2, NULL).status, FSM_OK);
    translate_allocation(fake->replica.fsm, fsm_allocation_find(fake->replica.fsm, "job"), &scratch,
                         &job);
    assert_uint_equal(job.n_node_runs, 2);
    first = job.node_runs[0];
    assert_uint_equal(run_epoch(first), 1);
    assert_true(first == fsm_allocation_find(fake->replica.fsm, "job")->nodes[0].run);
    assert_true(job.node_runs[1] == first); /* of one command */
    restart(fake);
    translate_allocation(fake->replica.fsm, fsm_allocation_find(fake->replica.fsm, "job"), &scratch,
                         &job);
    assert_true(job.node_runs[0] > first && job.node_runs[1] > first);
    scratch_free(&scratch);
    fake_free(fake);
}

static void raise_to_level_2(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__SetPolicy set = CKPT__LOG__V1__SET_POLICY__INIT;
    Ckpt__V1__Policy policy = CKPT__V1__POLICY__INIT;

    policy.feature_level = 2;
    policy.node_gpus = 4;
    set.policy = &policy;
    command.request_id = (char[]){"raise"};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_SET_POLICY;
    command.set_policy = &set;
    assert_int_equal(fake_do(fake, &command).status, FSM_OK);
}

static void without_gpus(Ckpt__V1__AllocationSpec *spec)
{
    for (size_t i = 0; i < spec->n_nodes; i++)
        spec->nodes[i]->gpu_count = 0;
}

/* V-006: which of the two counted, and for how much; at level 1 GPUs do. */
static void the_weight_of_a_job_is_told(void **state)
{
    static const char *const texts[2][2] = {{"0 GPUs", "2 nodes x 4"}, {"8 GPUs", "8 GPUs"}};
    static const uint32_t gpus[2][2] = {{0, 8}, {8, 8}};
    struct fake *fake = fake_new(NULL);
    struct fsm *fsm = fake->replica.fsm;
    Ckpt__V1__Allocation job;

    (void)state;
    assert_int_equal(fake_register(fake, "job-0", 1, 2, without_gpus).status, FSM_OK);
    assert_int_equal(fake_register(fake, "job-1", 3, 1, NULL).status, FSM_OK);
    for (int level = 1; level <= 2; level++) {
        if (level == 2)
            raise_to_level_2(fake);
        for (int i = 0; i < 2; i++) {
            struct scratch scratch = {0};

            translate_allocation(fsm, fsm_allocation_find(fsm, i == 0 ? "job-0" : "job-1"),
                                 &scratch, &job);
            assert_string_equal(job.weighed_by, texts[i][level - 1]);
            assert_uint_equal(job.weight_gpus, gpus[i][level - 1]);
            scratch_free(&scratch);
        }
    }
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_the_parts_are_told),
                                       cmocka_unit_test(the_weight_of_a_job_is_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
