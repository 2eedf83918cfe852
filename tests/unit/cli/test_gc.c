/* ckptctl gc plan and run, checkpoint pin and unpin: what is shown is what is deleted. D-004. */
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static char job[] = "a-1";
static char path[] = "/scratch/t/p/a-1/checkpoints/1-7";

/* Of one checkpoint; after: where the next page begins, 0: there is none. */
struct page {
    Ckpt__V1__Checkpoint checkpoint, *checkpoints[1];
    Ckpt__V1__GcReply reply;
};

static void page_make(struct page *page, unsigned number, Ckpt__V1__CheckpointState state,
                      uint64_t after)
{
    ckpt__v1__checkpoint__init(&page->checkpoint);
    ckpt__v1__gc_reply__init(&page->reply);
    page->checkpoint.checkpoint_id = (UINT64_C(1) << 40) | number;
    page->checkpoint.allocation_id = job;
    page->checkpoint.path = path;
    page->checkpoint.state = state;
    page->checkpoint.size_bytes = 5000000000;
    page->checkpoints[0] = &page->checkpoint;
    page->reply.checkpoints = page->checkpoints;
    page->reply.n_checkpoints = 1;
    page->reply.size_bytes = 5000000000;
    page->reply.next_after_checkpoint_id = after;
}

/* Two pages: a complete one, and what a failed attempt left. */
static void answer_plan(struct harness *h, struct page pages[2])
{
    page_make(&pages[0], 7, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE,
              (UINT64_C(1) << 40) | 7);
    page_make(&pages[1], 8, CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_FAILED, 0);
    harness_init(h);
    for (size_t i = 0; i < 2; i++) {
        harness_answer(h, NULL, "OperatorService/PlanGc", RPC_OK, NULL, &pages[i].reply.base);
        h->answers[i].turns = 1;
    }
}

static void a_plan_has_all_pages_and_changes_nothing(void **state)
{
    struct page pages[2];
    struct harness h;

    (void)state;
    answer_plan(&h, pages);
    assert_int_equal(harness_run(&h, "gc plan a-1"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/PlanGc");
    assert_string_equal(((const Ckpt__V1__GcRequest *)h.last_request)->allocation_id, "a-1");
    assert_uint_equal(((const Ckpt__V1__GcRequest *)h.last_request)->after_checkpoint_id,
                      (UINT64_C(1) << 40) | 7);
    assert_contains(h.out, "1-7");
    assert_contains(h.out, "1-8");
    assert_contains(h.out, "of a failed attempt");
    assert_contains(h.out, path);
    assert_contains(h.error, "2 checkpoints (");
    harness_close(&h);
}

static void a_run_deletes_exactly_what_it_has_shown(void **state)
{
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    struct page pages[2];
    struct harness h;
    const Ckpt__V1__RunGcRequest *request;

    (void)state;
    answer_plan(&h, pages);
    harness_answer(&h, NULL, "OperatorService/RunGc", RPC_OK, NULL, &done.base);
    assert_int_equal(harness_run(&h, "gc run --yes"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/RunGc");
    request = (const Ckpt__V1__RunGcRequest *)h.last_request;
    assert_int_equal(request->n_checkpoint_ids, 2);
    assert_uint_equal(request->checkpoint_ids[0], (UINT64_C(1) << 40) | 7);
    assert_uint_equal(request->checkpoint_ids[1], (UINT64_C(1) << 40) | 8);
    harness_close(&h);
}

static void nothing_is_deleted_that_was_not_confirmed(void **state)
{
    struct page pages[2];
    struct harness h;

    (void)state;
    answer_plan(&h, pages);
    h.input = "no\n";
    assert_int_not_equal(harness_run(&h, "gc run"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/PlanGc");
    assert_contains(h.error, "plan: delete these 2 checkpoints (");
    harness_close(&h);
}

/* A page that fails leaves the plan incomplete: nothing of it is deleted. */
static void half_a_plan_is_none(void **state)
{
    struct page pages[2];
    struct harness h;

    (void)state;
    answer_plan(&h, pages);
    h.answers[1].status = RPC_PERMISSION_DENIED;
    h.answers[1].text = "the role reader may not plan";
    assert_int_equal(harness_run(&h, "gc run --yes"), CLI_AUTH);
    assert_string_equal(h.last_method, "OperatorService/PlanGc");
    harness_close(&h);
}

static void shorten_retention(struct harness *h, struct page pages[2],
                              Ckpt__V1__GetPolicyReply *get, Ckpt__V1__Policy *policy,
                              const Ckpt__V1__MutationReply *done)
{
    answer_plan(h, pages);
    for (size_t i = 0; i < 2; i++)
        pages[i].checkpoint.state_since_ms = 1000; /* older than any retention */
    ckpt__v1__get_policy_reply__init(get);
    ckpt__v1__policy__init(policy);
    policy->retention_ms = UINT64_C(7) * 24 * 3600 * 1000;
    get->policy = policy;
    harness_answer(h, NULL, "OperatorService/GetPolicy", RPC_OK, NULL, &get->base);
    harness_answer(h, NULL, "OperatorService/SetPolicy", RPC_OK, NULL, &done->base);
}

/* D-004: a retention that falls deletes what is older: how many and how large they are is shown
 * first, and nothing is changed without a word. One that rises asks nobody. */
static void a_shorter_retention_is_shown_before_it_is_set(void **state)
{
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    Ckpt__V1__GetPolicyReply get;
    Ckpt__V1__Policy policy;
    struct page pages[2];
    struct harness h;

    (void)state;
    shorten_retention(&h, pages, &get, &policy, &done);
    assert_int_equal(harness_run(&h, "policy set retention=1h"), CLI_USAGE);
    assert_string_not_equal(h.last_method, "OperatorService/SetPolicy");
    assert_contains(h.error, "retention falls from 7d00h to 1h00m");
    assert_contains(h.error, "2 checkpoints (10.0 GB)");
    harness_close(&h);
    shorten_retention(&h, pages, &get, &policy, &done);
    assert_int_equal(harness_run(&h, "policy set retention=1h --yes"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/SetPolicy");
    harness_close(&h);
    shorten_retention(&h, pages, &get, &policy, &done);
    assert_int_equal(harness_run(&h, "policy set retention=8d"), CLI_OK);
    assert_string_equal(h.last_method, "OperatorService/SetPolicy");
    harness_close(&h);
}

static void a_checkpoint_is_pinned_and_let_go(void **state)
{
    Ckpt__V1__MutationReply done = CKPT__V1__MUTATION_REPLY__INIT;
    struct harness h;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const Ckpt__V1__PinRequest *request;

        harness_init(&h);
        harness_answer(&h, NULL, "OperatorService/PinCheckpoint", RPC_OK, NULL, &done.base);
        assert_int_equal(harness_run(&h, i == 0 ? "checkpoint pin 1-7" : "checkpoint unpin 1-7"),
                         CLI_OK);
        request = (const Ckpt__V1__PinRequest *)h.last_request;
        assert_uint_equal(request->checkpoint_id, (UINT64_C(1) << 40) | 7);
        assert_int_equal(request->unpin, i);
        harness_close(&h);
    }
    harness_init(&h);
    assert_int_equal(harness_run(&h, "checkpoint reject 1-7"), CLI_USAGE); /* for good: --yes */
    harness_close(&h);
    harness_init(&h);
    harness_answer(&h, NULL, "OperatorService/PinCheckpoint", RPC_OK, NULL, &done.base);
    assert_int_equal(harness_run(&h, "checkpoint reject 1-7 --yes"), CLI_OK);
    assert_true(((const Ckpt__V1__PinRequest *)h.last_request)->reject);
    harness_close(&h);
    harness_init(&h);
    assert_int_equal(harness_run(&h, "checkpoint pin seven"), CLI_USAGE);
    assert_contains(h.error, "seven");
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_all_pages_and_changes_nothing),
        cmocka_unit_test(a_run_deletes_exactly_what_it_has_shown),
        cmocka_unit_test(nothing_is_deleted_that_was_not_confirmed),
        cmocka_unit_test(half_a_plan_is_none),
        cmocka_unit_test(a_shorter_retention_is_shown_before_it_is_set),
        cmocka_unit_test(a_checkpoint_is_pinned_and_let_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
