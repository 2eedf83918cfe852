/* Handlers that pull down what called them: the sanitizers tell whether anything was touched
 * afterwards. */
#include "src/base/check.h"
#include "tests/unit/rpc/fixture.h"

enum action { FREE_SERVER, FREE_CHANNEL, CANCEL_CALL, DRAIN_SERVER, FINISH_OTHER };

struct puller {
    struct fixture fixture;
    enum action action;
    size_t messages;
    size_t ends;
    int status;
    bool done;
};

static void puller_act(struct puller *puller, struct rpc_client_call *call)
{
    struct fixture *fixture = &puller->fixture;

    switch (puller->action) {
    case FREE_SERVER:
        if (fixture->server != NULL)
            fixture_free_server(fixture);
        break;
    case FREE_CHANNEL: {
        struct rpc_channel *channel = fixture->channel;

        fixture->channel = NULL;
        rpc_channel_free(channel);
        break;
    }
    case CANCEL_CALL:
        rpc_client_call_cancel(call);
        puller->done = true;
        break;
    case DRAIN_SERVER:
        rpc_server_drain(fixture->server, 1000, fixture_drained, fixture);
        break;
    case FINISH_OTHER:
        break;
    }
}

static void pull_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                         size_t length)
{
    struct puller *puller = data;

    (void)bytes;
    (void)length;
    if (puller->messages++ == 0)
        puller_act(puller, call);
}

static void pull_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct puller *puller = data;

    (void)call;
    puller->ends++;
    puller->status = end->status;
    puller->done = true;
}

static const struct rpc_client_handlers pull_handlers = {.on_message = pull_message,
                                                         .on_end = pull_end};

/* Several messages come in one piece; the first one's handler acts. */
static void pull_on_message(struct puller *puller, enum action action)
{
    struct rpc_client_call *call;

    memset(puller, 0, sizeof(*puller));
    fixture_open(&puller->fixture, NULL);
    fixture_channel(&puller->fixture, NULL);
    puller->action = action;
    call =
        rpc_channel_open(puller->fixture.channel, "/test.T/Chat", 0, false, &pull_handlers, puller);
    for (int i = 0; i < 5; i++)
        rpc_client_call_send(call, (const uint8_t *)"line", 4);
    rpc_client_call_half_close(call);
    assert_true(fixture_run(&puller->fixture, &puller->done));
}

static void the_channel_may_be_freed_in_a_message(void **state)
{
    struct puller puller;

    (void)state;
    pull_on_message(&puller, FREE_CHANNEL);
    assert_uint_equal(puller.messages, 1);
    assert_uint_equal(puller.ends, 1);
    assert_int_equal(puller.status, RPC_UNAVAILABLE);
    fixture_close(&puller.fixture);
}

static void a_call_may_be_cancelled_in_its_message(void **state)
{
    struct puller puller;

    (void)state;
    pull_on_message(&puller, CANCEL_CALL);
    assert_uint_equal(puller.messages, 1);
    assert_uint_equal(puller.ends, 0);
    fixture_run_ms(&puller.fixture, 5);
    fixture_close(&puller.fixture);
}

static void the_server_may_be_drained_in_a_message_and_still_answers(void **state)
{
    struct puller puller;

    (void)state;
    pull_on_message(&puller, DRAIN_SERVER);
    assert_uint_equal(puller.messages, 5);
    assert_int_equal(puller.status, RPC_OK);
    assert_true(fixture_run(&puller.fixture, &puller.fixture.drained));
    fixture_close(&puller.fixture);
}

static void free_in_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct puller *puller = data;
    struct rpc_channel *channel = puller->fixture.channel;

    (void)call;
    assert_int_equal(end->status, RPC_UNAVAILABLE);
    puller->ends++;
    puller->fixture.channel = NULL;
    rpc_channel_free(channel); /* NULL for the later ones */
    puller->done = true;
}

static void the_channel_may_be_freed_when_calls_end_together(void **state)
{
    const struct rpc_client_handlers handlers = {.on_end = free_in_end};
    struct puller puller = {.done = false};

    (void)state;
    fixture_open(&puller.fixture, NULL);
    fixture_channel(&puller.fixture, NULL);
    for (int i = 0; i < 5; i++)
        rpc_channel_open(puller.fixture.channel, "/test.T/Chat", 0, false, &handlers, &puller);
    while (puller.fixture.requests < 5)
        uv_run(&puller.fixture.loop, UV_RUN_ONCE);
    fixture_free_server(&puller.fixture);
    assert_true(fixture_run(&puller.fixture, &puller.done));
    assert_uint_equal(puller.ends, 5);
    fixture_close(&puller.fixture);
}

static void the_channel_may_be_freed_when_dialling_failed(void **state)
{
    const struct rpc_client_handlers handlers = {.on_end = free_in_end};
    struct puller puller = {.done = false};

    (void)state;
    fixture_open(&puller.fixture, NULL);
    fixture_free_server(&puller.fixture);
    assert_true(fixture_run(&puller.fixture, &puller.fixture.freed));
    fixture_channel(&puller.fixture, NULL);
    for (int i = 0; i < 5; i++)
        rpc_channel_open(puller.fixture.channel, "/test.T/Chat", i == 3 ? 60000 : 0, i == 4,
                         &handlers, &puller);
    assert_true(fixture_run(&puller.fixture, &puller.done));
    assert_uint_equal(puller.ends, 5);
    fixture_close(&puller.fixture);
}

/* ---- the server's side ---- */

static void server_pull_message(struct rpc_call *call, void *data, const uint8_t *bytes,
                                size_t length)
{
    struct puller *puller = data;

    (void)bytes;
    (void)length;
    puller->messages++;
    if (puller->action == FINISH_OTHER) {
        if (puller->fixture.held != NULL)
            rpc_call_finish(puller->fixture.held, RPC_ABORTED, "by another");
        puller->fixture.held = NULL;
        rpc_call_reply(call, (const uint8_t *)"x", 1);
    } else {
        puller_act(puller, NULL);
    }
}

static void server_pull(struct puller *puller, enum action action, bool streaming)
{
    const struct rpc_handlers handlers = {.on_message = server_pull_message};

    memset(puller, 0, sizeof(*puller));
    puller->action = action;
    fixture_open(&puller->fixture, NULL);
    rpc_server_add_method(puller->fixture.server, "/test.T/Pull", streaming, streaming, &handlers,
                          puller);
    fixture_channel(&puller->fixture, NULL);
}

static void the_server_may_be_freed_in_a_handler(void **state)
{
    for (int streaming = 0; streaming < 2; streaming++) {
        struct puller puller;
        struct seen seen, held;

        (void)state;
        server_pull(&puller, FREE_SERVER, streaming);
        seen_unary(&puller.fixture, &held, "/test.T/Hold", "x", 0);
        while (puller.fixture.held == NULL)
            uv_run(&puller.fixture.loop, UV_RUN_ONCE);
        seen_unary(&puller.fixture, &seen, "/test.T/Pull", "x", 0);
        assert_true(fixture_run(&puller.fixture, &seen.done));
        assert_int_equal(seen.status, RPC_UNAVAILABLE);
        assert_true(held.done);
        assert_uint_equal(puller.messages, 1);
        assert_uint_equal(puller.fixture.cancels, 1);
        fixture_close(&puller.fixture);
    }
}

static void a_handler_may_finish_another_call(void **state)
{
    struct puller puller;
    struct seen seen, held;

    (void)state;
    server_pull(&puller, FINISH_OTHER, false);
    seen_unary(&puller.fixture, &held, "/test.T/Hold", "x", 0);
    while (puller.fixture.held == NULL)
        uv_run(&puller.fixture.loop, UV_RUN_ONCE);
    seen_unary(&puller.fixture, &seen, "/test.T/Pull", "x", 0);
    assert_true(fixture_run(&puller.fixture, &seen.done));
    assert_true(fixture_run(&puller.fixture, &held.done));
    assert_int_equal(seen.status, RPC_OK);
    assert_int_equal(held.status, RPC_ABORTED);
    assert_string_equal(held.text, "by another");
    fixture_close(&puller.fixture);
}

static void again_end(struct rpc_client_call *call, void *data, const struct rpc_end *end);
static const struct rpc_client_handlers again_handlers = {.on_end = again_end};

static void again_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct puller *puller = data;

    (void)call;
    assert_int_equal(end->status, RPC_OK);
    if (++puller->ends == 100)
        puller->done = true;
    else
        rpc_channel_unary(puller->fixture.channel,
                          &(struct rpc_request){.path = "/test.T/Echo",
                                                .bytes = (const uint8_t *)"x",
                                                .length = 1,
                                                .timeout_ms = 1000},
                          &again_handlers, puller);
}

static void a_call_may_be_started_when_one_ends(void **state)
{
    struct puller puller = {.done = false};

    (void)state;
    fixture_open(&puller.fixture, NULL);
    fixture_channel(&puller.fixture, NULL);
    rpc_channel_unary(
        puller.fixture.channel,
        &(struct rpc_request){
            .path = "/test.T/Echo", .bytes = (const uint8_t *)"x", .length = 1, .timeout_ms = 1000},
        &again_handlers, &puller);
    assert_true(fixture_run(&puller.fixture, &puller.done));
    assert_uint_equal(puller.ends, 100);
    fixture_close(&puller.fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_channel_may_be_freed_in_a_message),
        cmocka_unit_test(a_call_may_be_cancelled_in_its_message),
        cmocka_unit_test(the_server_may_be_drained_in_a_message_and_still_answers),
        cmocka_unit_test(the_channel_may_be_freed_when_calls_end_together),
        cmocka_unit_test(the_channel_may_be_freed_when_dialling_failed),
        cmocka_unit_test(the_server_may_be_freed_in_a_handler),
        cmocka_unit_test(a_handler_may_finish_another_call),
        cmocka_unit_test(a_call_may_be_started_when_one_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
