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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_the_parts_are_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
