/* PauseCluster at a real member: what is refused meanwhile, by whose word, and what Status says of
 * it (U4, U7). */
#include "tests/unit/broker/service_calls.h"

static struct answer answer;
static unsigned requests;

static void pause_cluster(const char *by, const char *reason, uint64_t duration_ms, bool resume)
{
    Ckpt__V1__PauseClusterRequest request = CKPT__V1__PAUSE_CLUSTER_REQUEST__INIT;
    char id[32];

    snprintf(id, sizeof(id), "pause-%u", ++requests);
    request.request_id = id;
    request.by = (char *)(uintptr_t)by;
    request.reason = (char *)(uintptr_t)reason;
    request.duration_ms = duration_ms;
    request.resume = resume;
    call(OPERATOR("PauseCluster"), &request.base, &answer);
}

static Ckpt__V1__StatusReply *status(void)
{
    Ckpt__V1__StatusRequest request = CKPT__V1__STATUS_REQUEST__INIT;
    Ckpt__V1__StatusReply *reply;

    call(OPERATOR("Status"), &request.base, &answer);
    expect(&answer, RPC_OK, "");
    reply = ckpt__v1__status_reply__unpack(NULL, answer.length, answer.bytes);
    assert_non_null(reply);
    return reply;
}

static void ask_for_a_checkpoint(void)
{
    Ckpt__V1__RequestCheckpointRequest request = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    char id[32];

    snprintf(id, sizeof(id), "ask-%u", ++requests);
    request.request_id = id;
    request.allocation_id = (char[]){"job"};
    call(BROKER("RequestCheckpoint"), &request.base, &answer);
}

static void a_pause_refuses_by_name_and_shows_in_status(void **state)
{
    Ckpt__V1__StatusReply *told;

    (void)state;
    ckpt__v1__mutation_reply__free_unpacked(register_allocation("r1", "job"), NULL);
    pause_cluster("ann@login1", "new switch", 3600000, false);
    expect(&answer, RPC_OK, "");
    ask_for_a_checkpoint();
    expect(&answer, RPC_FAILED_PRECONDITION,
           "CLUSTER_PAUSED: the cluster is paused since 0 s, by ann@login1: new switch; ");
    expect(&answer, RPC_FAILED_PRECONDITION, "ckptctl cluster resume");
    told = status();
    assert_non_null(told->pause);
    assert_string_equal(told->pause->by, "ann@login1");
    assert_string_equal(told->pause->reason, "new switch");
    assert_uint_equal(told->pause->until_ms - told->pause->since_ms, 3600000);
    assert_true(told->n_warnings > 0);
    assert_non_null(strstr(told->warnings[0], "PAUSED by ann@login1 since 0 s, for 3"));
    ckpt__v1__status_reply__free_unpacked(told, NULL);
    pause_cluster("ann@login1", "", 0, true);
    expect(&answer, RPC_OK, "");
    ask_for_a_checkpoint(); /* of a job that nobody runs */
    expect(&answer, RPC_FAILED_PRECONDITION, "NOT_STARTED");
    told = status();
    assert_null(told->pause);
    ckpt__v1__status_reply__free_unpacked(told, NULL);
}

/* Nobody is nameless: without a word and a certificate it is the address. */
static void who_says_nothing_is_known_by_the_address(void **state)
{
    Ckpt__V1__StatusReply *told;
    char long_name[200];

    (void)state;
    pause_cluster("", "", 0, false);
    expect(&answer, RPC_INVALID_ARGUMENT, "reason: ");
    pause_cluster("", "two\nlines", 0, false);
    expect(&answer, RPC_INVALID_ARGUMENT, "reason: ");
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    pause_cluster(long_name, "why", 0, false);
    expect(&answer, RPC_INVALID_ARGUMENT, "by: ");
    pause_cluster("", "why", 0, false);
    expect(&answer, RPC_OK, "");
    told = status();
    assert_non_null(told->pause);
    assert_memory_equal(told->pause->by, "127.0.0.1:", 10);
    assert_non_null(strstr(told->warnings[0], "until somebody ends it"));
    ckpt__v1__status_reply__free_unpacked(told, NULL);
}

#define WITH(open, test) cmocka_unit_test_setup_teardown(test, open, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(open_one, a_pause_refuses_by_name_and_shows_in_status),
        WITH(open_one, who_says_nothing_is_known_by_the_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
