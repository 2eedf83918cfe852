/* ckptctl undeleted, and what ckptctl checkpoints says of it (D-004). */
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

static char job[] = "a-1";
static char path[] = "/scratch/t/p/a-1/checkpoints/1-7";
static char reason[] = "ckpt-worker collect: move away 1-7: Permission denied";
static char token[] = "17";

static void what_cannot_be_deleted_is_listed_with_path_reason_and_remedy(void **state)
{
    Ckpt__V1__Undeleted item = CKPT__V1__UNDELETED__INIT;
    Ckpt__V1__Undeleted *items[] = {&item};
    Ckpt__V1__ListUndeletedReply first = CKPT__V1__LIST_UNDELETED_REPLY__INIT;
    Ckpt__V1__ListUndeletedReply last = CKPT__V1__LIST_UNDELETED_REPLY__INIT;
    struct harness h;

    (void)state;
    item.checkpoint_id = (UINT64_C(1) << 40) | 7;
    item.allocation_id = job;
    item.path = path;
    item.reason = reason;
    item.size_bytes = 5000000000;
    item.attempts = 3;
    first.undeleted = last.undeleted = items;
    first.n_undeleted = last.n_undeleted = 1;
    first.next_page_token = token;
    last.count = 2;
    last.size_bytes = 10000000000;
    last.forgotten = 4;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListUndeleted", RPC_OK, NULL, &first.base);
    h.answers[0].turns = 1;
    harness_answer(&h, NULL, "BrokerService/ListUndeleted", RPC_OK, NULL, &last.base);
    assert_int_equal(harness_run(&h, "undeleted a-1"), CLI_OK);
    assert_string_equal(((const Ckpt__V1__ListUndeletedRequest *)h.last_request)->allocation_id,
                        "a-1");
    assert_string_equal(((const Ckpt__V1__ListUndeletedRequest *)h.last_request)->page_token, "17");
    assert_contains(h.out, "1-7");
    assert_contains(h.out, path);
    assert_contains(h.out, reason);
    assert_contains(h.error, "2 could not be deleted");
    assert_contains(h.error, "remove them by hand");
    assert_contains(h.error, "4 more");
    harness_close(&h);
}

static void a_list_of_checkpoints_says_that_some_could_not_be_deleted(void **state)
{
    Ckpt__V1__ListCheckpointsReply reply = CKPT__V1__LIST_CHECKPOINTS_REPLY__INIT;
    struct harness h;

    (void)state;
    reply.undeleted_count = 12;
    harness_init(&h);
    harness_answer(&h, NULL, "BrokerService/ListCheckpoints", RPC_OK, NULL, &reply.base);
    assert_int_equal(harness_run(&h, "checkpoints a-1"), CLI_OK);
    assert_contains(h.error, "12 expired ones could not be deleted");
    assert_contains(h.error, "ckptctl undeleted");
    harness_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_deleted_is_listed_with_path_reason_and_remedy),
        cmocka_unit_test(a_list_of_checkpoints_says_that_some_could_not_be_deleted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
