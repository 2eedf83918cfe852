/* The client library against scripted servers in the same loop (and in a thread for the blocking
 * form). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "grpc/health/v1/health.pb-c.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/client/client.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"

enum { MEMBERS_MAX = 3, SCRIPT_MAX = 32, RUN_MS = 10000 };

/* What a member does with the n-th request it gets; after the script's end it answers. */
enum move { ANSWER = 0, HINT, NO_LEADER, BUSINESS_NO, PUSH_BACK, UNAVAILABLE, HANG, GARBAGE };

struct member {
    struct rpc_server *server;
    char address[32];
    enum move script[SCRIPT_MAX];
    char hint[32];
    size_t requests;
    struct buf bytes; /* of all requests, one after another */
    size_t length;    /* of the first */
};

static uv_loop_t loop;
static struct member members[MEMBERS_MAX];

static void member_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    static const uint8_t serving[] = {0x08, 0x01};
    struct member *member = data;
    enum move move = member->script[member->requests];

    assert_true(++member->requests < SCRIPT_MAX);
    if (member->requests == 1)
        member->length = length;
    buf_append(&member->bytes, bytes, length);
    switch (move) {
    case ANSWER:
        rpc_call_reply(call, serving, sizeof(serving));
        break;
    case HINT:
    case NO_LEADER:
        rpc_call_trailer(call, "ckpt-leader-hint", move == HINT ? member->hint : "");
        rpc_call_finish(call, RPC_UNAVAILABLE, "not the leader");
        break;
    case BUSINESS_NO:
        rpc_call_finish(call, RPC_FAILED_PRECONDITION, "ALREADY_ENDED: the allocation has ended");
        break;
    case PUSH_BACK:
        rpc_call_trailer(call, "grpc-retry-pushback-ms", "40");
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "queue is full");
        break;
    case UNAVAILABLE:
        rpc_call_finish(call, RPC_UNAVAILABLE, "no quorum");
        break;
    case HANG:
        break;
    case GARBAGE:
        rpc_call_reply(call, (const uint8_t *)"\xff\xff\xff", 3);
        break;
    }
}

static void member_open(struct member *member)
{
    const struct rpc_handlers handlers = {.on_message = member_message};
    struct err err;

    memset(member, 0, sizeof(*member));
    member->server = rpc_server_new(&loop, NULL);
    rpc_server_add_method(member->server, "/ckpt.v1.Test/Ask", false, false, &handlers, member);
    assert_int_equal(rpc_server_listen(member->server, "127.0.0.1:0", &err), 0);
    snprintf(member->address, sizeof(member->address), "127.0.0.1:%d",
             rpc_server_port(member->server, 0));
}

static void members_open(char endpoints[128])
{
    assert_int_equal(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        member_open(&members[i]);
    snprintf(endpoints, 128, "%s,%s,%s", members[0].address, members[1].address,
             members[2].address);
}

static void members_close(void)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        if (members[i].server != NULL)
            rpc_server_free(members[i].server, NULL, NULL);
        buf_close(&members[i].bytes);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

struct answer {
    bool done;
    int status;
    char text[512];
    int serving;
    uint64_t took_ms;
    uint64_t begin_ms;
};

static void answered(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct answer *answer = data;

    assert_false(answer->done);
    answer->done = true;
    answer->status = status;
    answer->took_ms = uv_hrtime() / 1000000 - answer->begin_ms;
    snprintf(answer->text, sizeof(answer->text), "%s", text);
    assert_true((reply != NULL) == (status == RPC_OK));
    if (reply != NULL)
        answer->serving = (int)((const Grpc__Health__V1__HealthCheckResponse *)reply)->status;
}

static void ask(struct client *client, struct answer *answer, uint64_t timeout_ms)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    char id[33];

    memset(answer, 0, sizeof(*answer));
    answer->begin_ms = uv_hrtime() / 1000000;
    request.service =
        client_request_id(id); /* changes after the call returns: it must not matter */
    client_call(
        client,
        &(struct client_request){.method = "Test/Ask",
                                 .message = &request.base,
                                 .reply_type = &grpc__health__v1__health_check_response__descriptor,
                                 .timeout_ms = timeout_ms},
        answered, answer);
    memset(id, 'z', 32);
    assert_false(answer->done);
}

static void run_until(const bool *done)
{
    uint64_t end_ms = uv_hrtime() / 1000000 + RUN_MS;

    while (!*done && uv_hrtime() / 1000000 < end_ms)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(*done);
}

static struct client *client_that_tries_for(const char *endpoints, uint64_t attempt_ms)
{
    const struct client_config config = {.endpoints = endpoints, .attempt_ms = attempt_ms};
    struct client *client;
    struct err err;

    assert_int_equal(client_new(&loop, &config, &client, &err), 0);
    return client;
}

static struct client *client_of(const char *endpoints)
{
    return client_that_tries_for(endpoints, 150);
}

/* Every request that any member got has the same bytes as the first one. */
static void assert_identical_requests(size_t count)
{
    const uint8_t *first = NULL;
    size_t length = 0, seen = 0;

    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct member *member = &members[i];

        if (member->requests > 0 && first == NULL) {
            first = member->bytes.bytes;
            length = member->length;
        }
        assert_uint_equal(member->bytes.length, member->requests * length);
        for (size_t n = 0; n < member->requests; n++)
            assert_memory_equal(member->bytes.bytes + n * length, first, length);
        seen += member->requests;
    }
    assert_uint_equal(seen, count);
}

static void a_call_is_answered_by_the_first_member(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_OK);
    assert_int_equal(answer.serving, 1);
    assert_identical_requests(1);
    client_free(client);
    members_close();
}

static void the_leader_hint_is_followed_with_the_same_bytes(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = HINT;
    strcpy(members[0].hint, members[2].address);
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_OK);
    assert_uint_equal(members[1].requests, 0);
    assert_uint_equal(members[2].requests, 1);
    assert_identical_requests(2);
    ask(client, &answer, 0); /* the next call goes to the leader at once */
    run_until(&answer.done);
    assert_uint_equal(members[0].requests, 1);
    client_free(client);
    members_close();
}

static void an_election_is_waited_out_with_the_same_bytes(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        members[i].script[0] = NO_LEADER;
        members[i].script[1] = UNAVAILABLE;
        members[i].script[2] = NO_LEADER;
    }
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_OK);
    assert_identical_requests(10);
    assert_true(answer.took_ms >= 10 + 20 + 40);
    client_free(client);
    members_close();
}

static void a_business_refusal_is_final(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = BUSINESS_NO;
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_FAILED_PRECONDITION);
    assert_string_equal(answer.text, "ALREADY_ENDED: the allocation has ended");
    assert_identical_requests(1);
    client_free(client);
    members_close();
}

static void push_back_is_waited_for(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = PUSH_BACK;
    members[0].script[1] = PUSH_BACK;
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_OK);
    assert_uint_equal(members[0].requests, 3);
    assert_identical_requests(3);
    assert_true(answer.took_ms >= 80);
    client_free(client);
    members_close();
}

static void a_member_that_hangs_is_left_after_the_attempt_deadline(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = HANG;
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_OK);
    assert_uint_equal(members[1].requests, 1);
    assert_in_range(answer.took_ms, 150, 1000);
    assert_identical_requests(2);
    client_free(client);
    members_close();
}

/* A short deadline of one caller says nothing about the leader, from whom the others are not led
 * away. */
static void the_callers_own_deadline_leaves_no_member(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = members[0].script[2] = HANG;
    client = client_of(endpoints);
    for (size_t i = 0; i < 4; i++) {
        ask(client, &answer, i % 2 == 0 ? 100 : 0);
        run_until(&answer.done);
        assert_int_equal(answer.status, i % 2 == 0 ? RPC_DEADLINE_EXCEEDED : RPC_OK);
    }
    assert_uint_equal(members[0].requests, 4);
    client_free(client);
    members_close();
}

/* Callers who never wait for as long as an attempt lasts are not bound to it for ever. */
static void a_member_that_hangs_is_left_by_impatient_callers_too(void **state)
{
    enum { IMPATIENT_MS = 250 }; /* twice is less than the attempt; time enough to connect */
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    for (size_t n = 0; n < SCRIPT_MAX; n++)
        members[0].script[n] = HANG;
    client = client_that_tries_for(endpoints, 600);
    for (size_t i = 0; i < 2; i++) {
        struct answer beside;

        ask(client, &beside, IMPATIENT_MS); /* at the same time: the time counts once */
        ask(client, &answer, IMPATIENT_MS);
        run_until(&answer.done);
        run_until(&beside.done);
        assert_int_equal(answer.status, RPC_DEADLINE_EXCEEDED);
    }
    assert_uint_equal(members[0].requests, 4);
    for (size_t i = 0; i < 3 && answer.status != RPC_OK; i++) {
        ask(client, &answer, IMPATIENT_MS);
        run_until(&answer.done);
    }
    assert_int_equal(answer.status, RPC_OK);
    assert_uint_equal(members[1].requests, 1);
    client_free(client);
    members_close();
}

static void dead_members_are_passed_over_quickly(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    rpc_server_free(members[0].server, NULL, NULL);
    rpc_server_free(members[1].server, NULL, NULL);
    members[0].server = NULL;
    members[1].server = NULL;
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_OK);
    assert_true(answer.took_ms < 140);
    client_free(client);
    members_close();
}

static void the_deadline_ends_the_retries_and_tells_the_last_reason(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        for (size_t n = 0; n < SCRIPT_MAX; n++)
            members[i].script[n] = UNAVAILABLE;
    client = client_of(endpoints);
    ask(client, &answer, 300);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_DEADLINE_EXCEEDED);
    assert_non_null(strstr(answer.text, "no quorum"));
    assert_in_range(answer.took_ms, 300, 1000);
    client_free(client);
    members_close();
}

/* Nobody leads and one is down: nothing was done, and that is certain unless a member did not
 * answer in between. */
static void the_deadline_tells_when_nothing_was_done(void **state)
{
    (void)state;
    for (int uncertain = 0; uncertain < 2; uncertain++) {
        char endpoints[128];
        struct client *client;
        struct answer answer;

        members_open(endpoints);
        for (size_t i = 0; i < MEMBERS_MAX; i++)
            for (size_t n = 0; n < SCRIPT_MAX; n++)
                members[i].script[n] = NO_LEADER;
        if (uncertain)
            members[1].script[0] = UNAVAILABLE;
        rpc_server_free(members[2].server, NULL, NULL);
        members[2].server = NULL;
        client = client_of(endpoints);
        ask(client, &answer, 300);
        run_until(&answer.done);
        if (uncertain)
            assert_int_equal(answer.status, RPC_DEADLINE_EXCEEDED);
        else
            assert_int_equal(answer.status, RPC_UNAVAILABLE);
        client_free(client);
        members_close();
    }
}

/* A listener whose queue is full: more connections are neither taken nor refused. */
enum { BACKLOG_FILL = 4 };

struct hanging {
    char address[32];
    int listener, fill[BACKLOG_FILL];
};

static void hanging_open(struct hanging *hanging)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(name);

    hanging->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(hanging->listener, (struct sockaddr *)&name, length), 0);
    assert_int_equal(listen(hanging->listener, 0), 0);
    assert_int_equal(getsockname(hanging->listener, (struct sockaddr *)&name, &length), 0);
    for (int i = 0; i < BACKLOG_FILL; i++) {
        hanging->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(hanging->fill[i], (struct sockaddr *)&name, length);
    }
    snprintf(hanging->address, sizeof(hanging->address), "127.0.0.1:%d", ntohs(name.sin_port));
}

static void hanging_close(const struct hanging *hanging)
{
    for (int i = 0; i < BACKLOG_FILL; i++)
        close(hanging->fill[i]);
    close(hanging->listener);
}

/* Alone, and beside a member that says why. */
static void a_connect_that_hangs_did_nothing_and_hides_no_reason(void **state)
{
    (void)state;
    for (int beside = 0; beside < 2; beside++) {
        char members_text[128], endpoints[128];
        struct hanging hanging;
        struct client *client;
        struct answer answer;

        members_open(members_text);
        hanging_open(&hanging);
        for (size_t n = 0; n < SCRIPT_MAX; n++)
            members[0].script[n] = NO_LEADER;
        snprintf(endpoints, sizeof(endpoints), "%s%s%s", beside ? members[0].address : "",
                 beside ? "," : "", hanging.address);
        client = client_of(endpoints);
        ask(client, &answer, 400);
        run_until(&answer.done);
        assert_int_equal(answer.status, RPC_UNAVAILABLE);
        if (beside)
            assert_string_equal(answer.text, "not the leader");
        client_free(client);
        hanging_close(&hanging);
        members_close();
    }
}

static void an_answer_that_does_not_decode_is_an_error(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer answer;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = GARBAGE;
    client = client_of(endpoints);
    ask(client, &answer, 0);
    run_until(&answer.done);
    assert_int_equal(answer.status, RPC_INTERNAL);
    client_free(client);
    members_close();
}

static void freeing_the_client_ends_its_calls(void **state)
{
    char endpoints[128];
    struct client *client;
    struct answer hanging, starting;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = HANG;
    client = client_of(endpoints);
    ask(client, &hanging, 0);
    while (members[0].requests == 0)
        uv_run(&loop, UV_RUN_ONCE);
    ask(client, &starting, 0);
    client_free(client);
    assert_true(hanging.done && starting.done);
    assert_int_equal(hanging.status, RPC_UNAVAILABLE);
    members_close();
}

static void wrong_endpoints_are_refused_at_once(void **state)
{
    const struct client_config config = {.endpoints = "broker"};
    struct client *client;
    struct err err;

    (void)state;
    assert_int_equal(client_new(NULL, &config, &client, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

static void request_ids_are_unique_hexadecimal_texts(void **state)
{
    char first[33], second[33];

    (void)state;
    client_request_id(first);
    client_request_id(second);
    assert_uint_equal(strlen(first), 32);
    assert_uint_equal(strspn(first, "0123456789abcdef"), 32);
    assert_string_not_equal(first, second);
}

/* ---- the blocking form: the servers' loop runs in a thread ---- */

static uv_async_t stop;

static void stop_fired(uv_async_t *async)
{
    uv_close((uv_handle_t *)async, NULL);
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        rpc_server_free(members[i].server, NULL, NULL);
        members[i].server = NULL;
    }
}

static void serve(void *data)
{
    (void)data;
    uv_run(&loop, UV_RUN_DEFAULT);
}

static int ask_wait(struct client *client, const char *endpoint, uint64_t timeout_ms,
                    ProtobufCMessage **ret_reply, struct err *err)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;

    return client_call_wait(
        client, endpoint,
        &(struct client_request){.method = "Test/Ask",
                                 .message = &request.base,
                                 .reply_type = &grpc__health__v1__health_check_response__descriptor,
                                 .timeout_ms = timeout_ms},
        ret_reply, err);
}

static void a_program_without_a_loop_can_wait(void **state)
{
    char endpoints[128];
    struct client_config config = {.endpoints = endpoints};
    ProtobufCMessage *reply = NULL;
    struct client *client;
    struct err err;
    uv_thread_t thread;

    (void)state;
    members_open(endpoints);
    members[0].script[0] = NO_LEADER;
    members[1].script[0] = NO_LEADER;
    members[2].script[1] = UNAVAILABLE;
    assert_int_equal(uv_async_init(&loop, &stop, stop_fired), 0);
    assert_int_equal(uv_thread_create(&thread, serve, NULL), 0);
    assert_int_equal(client_new(NULL, &config, &client, &err), 0);
    assert_int_equal(ask_wait(client, NULL, 0, &reply, &err), RPC_OK);
    assert_int_equal(((Grpc__Health__V1__HealthCheckResponse *)reply)->status, 1);
    protobuf_c_message_free_unpacked(reply, NULL);
    /* exactly one endpoint, without retries */
    assert_int_equal(ask_wait(client, members[2].address, 2000, &reply, &err), RPC_UNAVAILABLE);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.text, "no quorum");
    uv_async_send(&stop);
    uv_thread_join(&thread);
    assert_uint_equal(members[2].requests, 2);
    assert_int_equal(ask_wait(client, NULL, 200, &reply, &err),
                     RPC_UNAVAILABLE); /* none was asked */
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    client_free(client);
    members_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_answered_by_the_first_member),
        cmocka_unit_test(the_leader_hint_is_followed_with_the_same_bytes),
        cmocka_unit_test(an_election_is_waited_out_with_the_same_bytes),
        cmocka_unit_test(a_business_refusal_is_final),
        cmocka_unit_test(push_back_is_waited_for),
        cmocka_unit_test(a_member_that_hangs_is_left_after_the_attempt_deadline),
        cmocka_unit_test(the_callers_own_deadline_leaves_no_member),
        cmocka_unit_test(a_member_that_hangs_is_left_by_impatient_callers_too),
        cmocka_unit_test(dead_members_are_passed_over_quickly),
        cmocka_unit_test(the_deadline_ends_the_retries_and_tells_the_last_reason),
        cmocka_unit_test(the_deadline_tells_when_nothing_was_done),
        cmocka_unit_test(a_connect_that_hangs_did_nothing_and_hides_no_reason),
        cmocka_unit_test(an_answer_that_does_not_decode_is_an_error),
        cmocka_unit_test(freeing_the_client_ends_its_calls),
        cmocka_unit_test(wrong_endpoints_are_refused_at_once),
        cmocka_unit_test(request_ids_are_unique_hexadecimal_texts),
        cmocka_unit_test(a_program_without_a_loop_can_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
