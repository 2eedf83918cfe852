/* The jobs that would lose most come first, with the model's word on each. */
#include "ckpt/v1/explain.pb-c.h"
#include "src/cli/commands.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static Ckpt__V1__AllocationSpec specs[3];
static Ckpt__V1__Allocation jobs[3];

static const Ckpt__V1__ListAllocationsReply *three_jobs(void)
{
    static Ckpt__V1__Allocation *items[3];
    static Ckpt__V1__ListAllocationsReply reply;
    static const uint32_t gpus[3] = {8, 512, 64};
    static char names[3][8] = {"small", "large", "middle"};
    static char tenant[] = "t";

    reply = (Ckpt__V1__ListAllocationsReply)CKPT__V1__LIST_ALLOCATIONS_REPLY__INIT;
    for (size_t i = 0; i < 3; i++) {
        specs[i] = (Ckpt__V1__AllocationSpec)CKPT__V1__ALLOCATION_SPEC__INIT;
        jobs[i] = (Ckpt__V1__Allocation)CKPT__V1__ALLOCATION__INIT;
        specs[i].allocation_id = names[i];
        specs[i].tenant = tenant;
        jobs[i].spec = &specs[i];
        jobs[i].state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
        jobs[i].weight_gpus = gpus[i];
        jobs[i].last_complete_snapshot_at_ms = 1000;
        items[i] = &jobs[i];
    }
    reply.n_allocations = 3;
    reply.allocations = items;
    return &reply;
}

static size_t lines_of(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void the_heaviest_come_first_with_value_and_cost(void **state)
{
    Ckpt__V1__ExplainReply explain = CKPT__V1__EXPLAIN_REPLY__INIT;
    Ckpt__V1__DecisionTerms terms = CKPT__V1__DECISION_TERMS__INIT;
    struct harness h;
    const char *large, *middle;

    (void)state;
    terms.value_gpu_ms = 5000000;
    terms.cost_gpu_ms = 2000000;
    explain.terms = &terms;
    explain.checkpoint = true;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListAllocations", 0, NULL, &three_jobs()->base);
    harness_answer(&h, NULL, "BrokerService/Explain", 0, NULL, &explain.base);
    assert_int_equal(harness_run(&h, "top --count 2"), CLI_OK);
    large = strstr(h.out, "large");
    middle = strstr(h.out, "middle");
    assert_true(large != NULL && middle != NULL && large < middle);
    assert_contains(large, "5000");
    assert_contains(large, "2.50");
    assert_contains(large, "CHECKPOINT");
    assert_lacks(h.out, "small");
    assert_contains(h.error, "1 more jobs run");
    assert_int_equal(harness_run(&h, "top -o json"), CLI_OK);
    assert_contains(h.out, "\"value_gpu_ms\": 5000000");
    assert_int_equal(harness_run(&h, "top -o jsonl -q"), CLI_OK);
    assert_int_equal(lines_of(h.out), 3); /* an item each */
    assert_contains(h.out, "\n{\"version\":1,\"top\":{\"allocation_id\":\"middle\"");
    assert_int_equal(harness_run(&h, "top -o name -q"), CLI_OK);
    assert_string_equal(h.out, "large\nmiddle\nsmall\n");
    harness_close(&h);
}

static void a_job_that_was_not_evaluated_is_no_error(void **state)
{
    struct harness h;

    (void)state;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListAllocations", 0, NULL, &three_jobs()->base);
    harness_answer(&h, NULL, "BrokerService/Explain", 5, "NOT_EVALUATED: not yet", NULL);
    assert_int_equal(harness_run(&h, "top"), CLI_OK);
    assert_contains(h.out, "large");
    assert_lacks(h.error, "NOT_EVALUATED");
    assert_int_equal(harness_run(&h, "top --count 0"), CLI_USAGE);
    assert_contains(h.error, "1 to 200 are taken");
    harness_close(&h);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heaviest_come_first_with_value_and_cost),
        cmocka_unit_test(a_job_that_was_not_evaluated_is_no_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
