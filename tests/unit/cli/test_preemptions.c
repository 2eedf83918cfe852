/* ckptctl preempt with its reasons and --wait, ckptctl preemptions: what is asked, shown, and the
 * exit codes. */
#include "tests/support/test.h"

#include "fsm/status.h"
#include "src/base/check.h"
#include "src/rpc/server.h"
#include "tests/unit/cli/harness.h"

struct scene {
    struct harness h;
    Ckpt__V1__RequestPreemptionReply accepted;
    Ckpt__V1__Victim victims[2];
    Ckpt__V1__Victim *victim_pointers[2];
    Ckpt__V1__ReleaseCheck release_check;
    Ckpt__V1__Preemption preemption;
    Ckpt__V1__Preemption *preemption_pointer;
    Ckpt__V1__ListPreemptionsReply waiting, ended;
    Ckpt__V1__Preemption end;
    Ckpt__V1__Preemption *end_pointer;
    Ckpt__V1__ListAllocationsReply jobs;
    char *nodes[2];
};

static char job_a[] = "a", job_b[] = "b", node_1[] = "n1", node_2[] = "n2", claimant[] = "big";

static void scene_open(struct scene *s, Ckpt__V1__PreemptionState end)
{
    memset(s, 0, sizeof(*s));
    ckpt__v1__request_preemption_reply__init(&s->accepted);
    ckpt__v1__list_allocations_reply__init(&s->jobs);
    ckpt__v1__list_preemptions_reply__init(&s->waiting);
    ckpt__v1__list_preemptions_reply__init(&s->ended);
    ckpt__v1__preemption__init(&s->preemption);
    for (size_t i = 0; i < 2; i++) {
        ckpt__v1__victim__init(&s->victims[i]);
        s->victims[i].allocation_id = i == 0 ? job_a : job_b;
        s->victims[i].node_count = 1;
        s->victims[i].checkpoint_id = (UINT64_C(1) << 40) + i + 1;
        s->victims[i].state = i == 0 ? CKPT__V1__VICTIM_STATE__VICTIM_STATE_RELEASED
                                     : CKPT__V1__VICTIM_STATE__VICTIM_STATE_SHRINKING;
        s->victim_pointers[i] = &s->victims[i];
    }
    ckpt__v1__release_check__init(&s->release_check);
    s->release_check.checkpoint_id = (UINT64_C(1) << 40) + 2;
    s->release_check.node_id = node_2;
    s->release_check.parts = 1;
    s->release_check.until_ms = 1000;
    s->victims[1].release_check = &s->release_check;
    s->accepted.preemption_id = 7;
    s->accepted.victims = s->victim_pointers;
    s->accepted.n_victims = 2;
    s->preemption.preemption_id = 7;
    s->preemption.state = CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING;
    s->preemption.reason = CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM;
    s->preemption.for_job = claimant;
    s->preemption.nodes_needed = 2;
    s->preemption.cost_gpu_ms = 5000;
    s->preemption.value_gpu_ms = 9000;
    s->preemption.asked_at_ms = 1000;
    s->preemption.deadline_ms = 1800000;
    s->preemption.victims = s->victim_pointers;
    s->preemption.n_victims = 2;
    s->preemption.victims_released = 1;
    s->end = s->preemption;
    s->end.state = end;
    s->end.deadline_ms = 0;
    s->end.ended_at_ms = 2000;
    s->end.victims_released = 2;
    s->nodes[0] = node_1;
    s->nodes[1] = node_2;
    if (end == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED) {
        s->end.released_node_ids = s->nodes;
        s->end.n_released_node_ids = 2;
    }
    s->preemption_pointer = &s->preemption;
    s->end_pointer = &s->end;
    s->waiting.preemptions = &s->preemption_pointer;
    s->waiting.n_preemptions = 1;
    s->ended.preemptions = &s->end_pointer;
    s->ended.n_preemptions = 1;
    harness_init(&s->h);
    harness_answer(&s->h, NULL, "BrokerService/ListAllocations", RPC_OK, NULL, &s->jobs.base);
    harness_answer(&s->h, NULL, "BrokerService/RequestPreemption", RPC_OK, NULL, &s->accepted.base);
    harness_answer(&s->h, NULL, "BrokerService/ListPreemptions", RPC_OK, NULL, &s->waiting.base);
    s->h.answers[s->h.answer_count - 1].turns = 2;
    harness_answer(&s->h, NULL, "BrokerService/ListPreemptions", RPC_OK, NULL, &s->ended.base);
}

static void every_field_of_the_request_has_an_option(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    assert_int_equal(
        harness_run(&s.h, "preempt --reason reclaim --nodes 2 --gpus 16 --home ml --useful-nodes "
                          "n1,n2 --value 9000 --for-job big --yes"),
        CLI_OK);
    const Ckpt__V1__RequestPreemptionRequest *request =
        (const Ckpt__V1__RequestPreemptionRequest *)s.h.last_request;

    assert_int_equal(request->reason, CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM);
    assert_uint_equal(request->nodes_needed, 2);
    assert_uint_equal(request->gpus_needed, 16);
    assert_uint_equal(request->value_gpu_ms, 9000);
    assert_uint_equal(request->n_useful_nodes, 2);
    assert_string_equal(request->useful_nodes[1], "n2");
    assert_string_equal(request->home_vcluster, "ml");
    assert_string_equal(request->for_job, "big");
    assert_contains(s.h.error, "ml takes back 2 nodes with 16 GPUs");
    assert_contains(s.h.out, "shrinking");
    harness_close(&s.h);
}

static void expect_plan_asks(struct scene *s, const char *words, bool unended)
{
    s->h.input = "no\n"; /* the plan alone */
    assert_int_equal(harness_run(&s->h, words), CLI_REFUSED);
    assert_string_equal(s->h.last_method, "BrokerService/ListAllocations");
    assert_int_equal(((const Ckpt__V1__ListAllocationsRequest *)s->h.last_request)->unended,
                     unended);
}

/* The plan counts no job that has ended. One that is named is told of all the same. */
static void the_plan_is_made_of_jobs_that_have_not_ended(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    expect_plan_asks(&s, "preempt --class 5 --nodes 2", true);
    expect_plan_asks(&s, "preempt --class 5 --nodes 2 --candidates a", false);
    harness_close(&s.h);
}

/* P-006: a claim acts with class 10 and needs no --class */
static void a_sensitive_claim_is_of_class_10(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    assert_int_equal(harness_run(&s.h, "preempt --nodes 1 --yes"), CLI_USAGE);
    assert_int_equal(harness_run(&s.h, "preempt --reason sensitive --nodes 1 --yes"), CLI_OK);
    assert_uint_equal(
        ((const Ckpt__V1__RequestPreemptionRequest *)s.h.last_request)->preemption_class, 10);
    harness_close(&s.h);
}

/* P-024 */
static void waiting_ends_when_every_victim_let_go_and_names_the_nodes(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    assert_int_equal(harness_run(&s.h, "preempt --class 5 --nodes 2 --yes --wait"), CLI_OK);
    assert_contains(s.h.error, "1 of 2 victims released");
    assert_contains(s.h.out, "PREEMPTION 7  RELEASED");
    assert_contains(s.h.out, "released: n1 n2");
    harness_close(&s.h);
}

static void waiting_fails_when_the_preemption_expires(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_EXPIRED);
    s.end.refusal = FSM_NO_VICTIMS;
    s.victims[1].state = CKPT__V1__VICTIM_STATE__VICTIM_STATE_WITHDRAWN;
    s.victims[1].reason = CKPT__V1__REASON__REASON_STORAGE_FULL;
    assert_int_equal(harness_run(&s.h, "preempt --class 5 --nodes 2 --yes --wait"), CLI_FAILED);
    assert_contains(s.h.error, "preemption 7 expired");
    assert_contains(s.h.error, "(NO_VICTIMS); b goes on: storage full");
    assert_contains(s.h.out, "WHY IT GOES ON");
    assert_contains(s.h.error, "--forced");
    harness_close(&s.h);
}

/* It is said, and counted, before anybody confirms it. */
static void a_plan_counts_who_would_end_without_a_checkpoint(void **state)
{
    enum { JOBS = 4 };
    static char names[JOBS][4] = {"j0", "j1", "j2", "j3"};
    Ckpt__V1__AllocationSpec specs[JOBS];
    Ckpt__V1__Allocation jobs[JOBS], *pointers[JOBS];
    Ckpt__V1__NodeShare share = CKPT__V1__NODE_SHARE__INIT, *shares = &share;
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    for (size_t i = 0; i < JOBS; i++) {
        ckpt__v1__allocation_spec__init(&specs[i]);
        ckpt__v1__allocation__init(&jobs[i]);
        specs[i].allocation_id = names[i];
        specs[i].nodes = &shares;
        specs[i].n_nodes = 1;
        jobs[i].spec = &specs[i];
        jobs[i].state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
        jobs[i].stop_way = CKPT__V1__STOP_WAY__STOP_WAY_CHECKPOINT;
        pointers[i] = &jobs[i];
    }
    jobs[1].stop_way = CKPT__V1__STOP_WAY__STOP_WAY_UNRESPONSIVE;
    jobs[2].stop_way = CKPT__V1__STOP_WAY__STOP_WAY_STORAGE_AWAY;
    jobs[3].stop_way = CKPT__V1__STOP_WAY__STOP_WAY_UNSPECIFIED; /* an older broker */
    specs[3].strategy = CKPT__V1__STRATEGY__STRATEGY_NONE;
    s.jobs.allocations = pointers;
    s.jobs.n_allocations = JOBS;
    s.jobs.feature_level = 2;
    assert_int_equal(harness_run(&s.h, "preempt --class 5 --nodes 1 --dry-run"), CLI_OK);
    assert_contains(s.h.error, "one whose checkpoint fails goes on, and another is tried");
    assert_contains(s.h.error, "j1: class 0, 1 nodes, last checkpoint -; ends WITHOUT a "
                               "checkpoint: it did not answer the last time");
    assert_contains(s.h.error, "possible victims: 3 with 3 nodes");
    assert_contains(s.h.error, "of these 2 would end WITHOUT a checkpoint of now (1: its strategy "
                               "is none; 1: it did not answer the last time)");
    assert_int_equal(harness_run(&s.h, "preempt --class 5 --nodes 1 --forced --dry-run"), CLI_OK);
    assert_contains(s.h.error, "of these 3 would end WITHOUT");
    s.jobs.feature_level = 1;
    assert_int_equal(harness_run(&s.h, "preempt --class 5 --nodes 1 --yes"), CLI_OK);
    assert_contains(s.h.error, "does not end in time, is ended without one");
    harness_close(&s.h);
}

static void waiting_has_an_end(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    assert_int_equal(harness_run(&s.h, "preempt --class 5 --nodes 2 --yes --wait --wait-for 10ms"),
                     CLI_TIMEOUT);
    assert_contains(s.h.error, "it goes on");
    harness_close(&s.h);
}

static void preemptions_are_listed_and_shown(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED);
    assert_int_equal(harness_run(&s.h, "preemptions --waiting"), CLI_OK);
    assert_true(((const Ckpt__V1__ListPreemptionsRequest *)s.h.last_request)->only_waiting);
    assert_contains(s.h.out, "WAITING");
    assert_contains(s.h.out, "1 of 2");
    assert_int_equal(harness_run(&s.h, "preemptions 18446744073709551616"), CLI_USAGE);
    assert_contains(s.h.error, "\"18446744073709551616\" is not a whole number; 1 and more");
    assert_int_equal(harness_run(&s.h, "preemptions 0"), CLI_USAGE);
    assert_int_equal(harness_run(&s.h, "preemptions 7"), CLI_OK);
    assert_contains(s.h.out, "PREEMPTION 7  WAITING  reclaim for big  1 of 2 victims released");
    assert_contains(s.h.out, "cost 5 GPU-s of 9");
    assert_contains(s.h.out, " b keeps its nodes until 1970-01-01 00:00:01 at the latest: node n2 "
                             "reads what it saved (checkpoint 1-2, part 0 of 1) before they go\n");
    assert_uint_equal(((const Ckpt__V1__ListPreemptionsRequest *)s.h.last_request)->preemption_id,
                      7);
    assert_int_equal(harness_run(&s.h, "preemptions 7 -o json"), CLI_OK);
    assert_contains(s.h.out, "\"released_node_ids\"");
    assert_int_equal(harness_run(&s.h, "preemptions x"), CLI_USAGE);
    harness_close(&s.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_the_request_has_an_option),
        cmocka_unit_test(the_plan_is_made_of_jobs_that_have_not_ended),
        cmocka_unit_test(a_sensitive_claim_is_of_class_10),
        cmocka_unit_test(waiting_ends_when_every_victim_let_go_and_names_the_nodes),
        cmocka_unit_test(waiting_fails_when_the_preemption_expires),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(a_plan_counts_who_would_end_without_a_checkpoint),
        cmocka_unit_test(preemptions_are_listed_and_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
