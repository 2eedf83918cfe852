/* Calls between our client and our server in one loop: every shape, every ending. */
#include <unistd.h>

#include "src/base/check.h"
#include "tests/unit/rpc/fixture.h"
#include "tests/unit/rpc/raw.h"

static void a_unary_call_is_answered(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 0);
    assert_false(seen.done);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    assert_string_equal(seen.last, "hello");
    assert_uint_equal(seen.messages, 1);
    assert_true(seen.sent);
    assert_false(fixture.peer.local);
    assert_memory_equal(fixture.peer.address, "127.0.0.1:", 10);
    seen_unary(&fixture, &seen, "/test.T/Echo", "", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    assert_uint_equal(seen.messages, 1);
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.calls_total, 2);
    assert_uint_equal(stats.calls_active, 0);
    assert_uint_equal(stats.by_status[RPC_OK], 2);
    assert_uint_equal(stats.connections, 1);
    assert_uint_equal(stats.bytes_buffered, 0);
    fixture_close(&fixture);
}

static void many_calls_at_once_are_each_answered_with_their_own_bytes(void **state)
{
    enum { CALLS = 3000 }; /* more than the server takes at a time */
    struct fixture fixture;
    struct seen *seen = check_calloc(CALLS, sizeof(*seen));
    char text[32];

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    for (size_t i = 0; i < CALLS; i++) {
        snprintf(text, sizeof(text), "call %zu", i);
        seen_unary(&fixture, &seen[i], "/test.T/Echo", text, 60000);
    }
    for (size_t i = 0; i < CALLS; i++) {
        snprintf(text, sizeof(text), "call %zu", i);
        assert_true(fixture_run(&fixture, &seen[i].done));
        assert_int_equal(seen[i].status, RPC_OK);
        assert_string_equal(seen[i].last, text);
    }
    fixture_close(&fixture);
    free(seen);
}

/* The client works on the first answers while the server still reads the last requests. */
static void answers_are_written_before_all_requests_are_read(void **state)
{
    enum { CALLS = 200, LENGTH = 240 }; /* some 50 KB, which come in one read */
    struct fixture fixture;
    struct seen *seen = check_calloc(CALLS, sizeof(*seen));
    char text[LENGTH + 1];

    (void)state;
    memset(text, 'x', LENGTH);
    text[LENGTH] = '\0';
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen[0], "/test.T/Echo", text, 60000);
    assert_true(fixture_run(&fixture, &seen[0].done)); /* connected */
    for (size_t i = 0; i < CALLS; i++)
        seen_unary(&fixture, &seen[i], "/test.T/Echo", text, 60000);
    for (size_t i = 0; i < CALLS; i++)
        assert_true(fixture_run(&fixture, &seen[i].done));
    assert_in_range(fixture.unwritten_max, 2 * LENGTH, 8192);
    fixture_close(&fixture);
    free(seen);
}

static void an_error_carries_its_status_text_and_trailers(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Fail", "9 100% of \xc3\xa4pfel are gone", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_FAILED_PRECONDITION);
    assert_string_equal(seen.text, "100% of \xc3\xa4pfel are gone");
    assert_false(seen.redirected);
    seen_unary(&fixture, &seen, "/test.T/Fail", "9 hint:10.0.0.1:7443", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_string_equal(seen.redirect, "10.0.0.1:7443");
    seen_unary(&fixture, &seen, "/test.T/Fail", "9 hint:", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_true(seen.redirected); /* present and empty: the leader is unknown */
    assert_string_equal(seen.redirect, "");
    seen_unary(&fixture, &seen, "/test.T/Fail", "8 pushback:250", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_RESOURCE_EXHAUSTED);
    assert_true(seen.pushback);
    assert_uint_equal(seen.pushback_ms, 250);
    fixture_close(&fixture);
}

static void both_sides_stream(void **state)
{
    enum { MESSAGES = 500 };
    struct fixture fixture;
    struct seen seen = {0};

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen.call = rpc_channel_open(fixture.channel, "/test.T/Chat", 0, false, &seen_handlers, &seen);
    for (size_t i = 0; i < MESSAGES; i++)
        rpc_client_call_send(seen.call, (const uint8_t *)"line", 4);
    while (seen.messages < MESSAGES)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_false(seen.done); /* the stream stays open until it is half-closed */
    rpc_client_call_send(seen.call, (const uint8_t *)"last", 4);
    rpc_client_call_half_close(seen.call);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    assert_uint_equal(seen.messages, MESSAGES + 1);
    assert_string_equal(seen.last, "last");
    assert_uint_equal(fixture.half_closes, 1);
    assert_uint_equal(fixture.cancels, 0);
    fixture_close(&fixture);
}

static void a_client_stream_is_summed_up(void **state)
{
    struct fixture fixture;
    struct seen seen = {0};

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen.call = rpc_channel_open(fixture.channel, "/test.T/Sum", 0, false, &seen_handlers, &seen);
    for (int i = 0; i < 7; i++)
        rpc_client_call_send(seen.call, (const uint8_t *)"x", 1);
    rpc_client_call_half_close(seen.call);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_string_equal(seen.last, "7");
    fixture_close(&fixture);
}

static size_t calls_active(const struct fixture *fixture)
{
    struct rpc_server_stats stats;

    rpc_server_get_stats(fixture->server, &stats);
    return stats.calls_active;
}

/* Were the stream reset at the deadline, a client whose own one ends a little later would take that
 * for a cancellation, which nobody repeats. A peer that gives the call up never gets an end of its
 * memory's use all the same. */
static void an_answer_under_way_outlives_its_deadline_for_a_moment(void **state)
{
    enum { DEADLINE_MS = 50, LATER_MS = 300 };
    static const uint8_t window_zero[6] = {0, 4};
    uint8_t increment[4];
    struct fixture fixture;
    struct buf out;
    int fd;

    (void)state;
    buf_init(&out);
    fixture_open(&fixture, NULL);
    fd = fixture_raw(&fixture);
    raw_preface(&out);
    raw_frame(&out, RAW_SETTINGS, 0, 0, window_zero, sizeof(window_zero));
    for (uint32_t id = 1; id <= 3; id += 2) {
        raw_request(&out, id, "/test.T/Echo", 0, "grpc-timeout", "50m");
        raw_message(&out, id, RAW_END_STREAM, "hello");
    }
    assert_true(raw_send(fd, &out));
    fixture_run_ms(&fixture, DEADLINE_MS + LATER_MS);
    assert_uint_equal(calls_active(&fixture), 2);
    raw_u32(increment, 1000);
    raw_frame(&out, RAW_WINDOW, 0, 1, increment, sizeof(increment));
    assert_true(raw_send(fd, &out));
    fixture_run_ms(&fixture, LATER_MS);
    assert_uint_equal(calls_active(&fixture), 1); /* one was taken */
    fixture_run_ms(&fixture, 1000);
    assert_uint_equal(calls_active(&fixture), 0);
    buf_close(&out);
    close(fd);
    fixture_close(&fixture);
}

/* The client's deadline ends the call there; the server's own timer frees it even when the client
 * says nothing. */
static void a_deadline_ends_the_call_on_both_sides(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct seen seen;
    uint64_t begin;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    uv_update_time(&fixture.loop);
    begin = uv_now(&fixture.loop);
    seen_unary(&fixture, &seen, "/test.T/Hold", "x", 60);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_DEADLINE_EXCEEDED);
    assert_true(uv_now(&fixture.loop) - begin >= 60);
    fixture_run_ms(&fixture, 50);
    assert_uint_equal(fixture.requests, 1);
    assert_uint_equal(fixture.cancels, 1);
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.calls_active, 0);
    fixture_close(&fixture);
}

static void a_cancelled_call_tells_the_handler_and_nobody_else(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Hold", "x", 0);
    while (fixture.held == NULL)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    rpc_client_call_cancel(seen.call);
    while (fixture.cancels == 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_false(seen.done);
    assert_null(fixture.held);
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.by_status[RPC_CANCELLED], 1);
    seen_unary(&fixture, &seen, "/test.T/Echo", "still here", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    fixture_close(&fixture);
}

static void an_answer_may_come_much_later(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Hold", "x", 0);
    while (fixture.held == NULL)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    fixture_run_ms(&fixture, 20);
    assert_false(seen.done);
    rpc_call_reply(fixture.held, (const uint8_t *)"late", 4);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_string_equal(seen.last, "late");
    fixture_close(&fixture);
}

static void what_the_server_does_not_know_is_unimplemented(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Nothing", "x", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_UNIMPLEMENTED);
    fixture_close(&fixture);
}

static void a_unary_method_takes_exactly_one_message(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    for (int messages = 0; messages <= 2; messages++) {
        memset(&seen, 0, sizeof(seen));
        seen.call =
            rpc_channel_open(fixture.channel, "/test.T/Echo", 0, false, &seen_handlers, &seen);
        for (int i = 0; i < messages; i++)
            rpc_client_call_send(seen.call, (const uint8_t *)"x", 1);
        rpc_client_call_half_close(seen.call);
        assert_true(fixture_run(&fixture, &seen.done));
        assert_int_equal(seen.status, messages == 1 ? RPC_OK : RPC_UNIMPLEMENTED);
    }
    assert_uint_equal(fixture.messages, 1);
    fixture_close(&fixture);
}

static void a_message_over_the_limit_is_refused_and_the_connection_lives(void **state)
{
    const struct rpc_server_config config = {.message_max_bytes = 1000};
    static char text[1002];
    static const char *const methods[] = {"/test.T/Echo", "/test.T/Chat"};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, &config);
    fixture_channel(&fixture, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
        memset(text, 'a', sizeof(text));
        text[1001] = '\0';
        seen_unary(&fixture, &seen, methods[i], text, 0);
        assert_true(fixture_run(&fixture, &seen.done));
        assert_int_equal(seen.status, RPC_RESOURCE_EXHAUSTED);
        assert_false(seen.pushback);
        text[1000] = '\0';
        seen_unary(&fixture, &seen, methods[i], text, 0);
        assert_true(fixture_run(&fixture, &seen.done));
        assert_int_equal(seen.status, RPC_OK);
    }
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.connections, 1);
    fixture_close(&fixture);
}

static void an_answer_over_the_clients_limit_ends_the_call(void **state)
{
    const struct rpc_channel_config config = {.message_max_bytes = 4};
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, &config);
    seen_unary(&fixture, &seen, "/test.T/Echo", "five!", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_RESOURCE_EXHAUSTED);
    seen_unary(&fixture, &seen, "/test.T/Echo", "four", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    fixture_close(&fixture);
}

static void a_large_stream_arrives_whole_with_bounded_buffers(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    fixture.flood_left = 20000;
    seen_unary(&fixture, &seen, "/test.T/Flood", "go", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    assert_uint_equal(seen.messages, 20000);
    assert_uint_equal(seen.bytes, UINT64_C(20000) * 1024);
    assert_true(fixture.writables > 0);
    assert_true(fixture.buffered_max <= (64 << 10) + 1024 + 5);
    fixture_close(&fixture);
}

static void a_unix_socket_tells_who_calls(void **state)
{
    struct fixture fixture;
    struct rpc_server *second;
    struct err err;
    struct seen seen;

    (void)state;
    fixture_open_unix(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    assert_true(fixture.peer.local);
    assert_int_equal(fixture.peer.pid, getpid());
    assert_int_equal(fixture.peer.uid, getuid());
    assert_int_equal(fixture.peer.gid, getgid());
    assert_string_equal(fixture.peer.address, "unix");
    second = rpc_server_new(&fixture.loop, NULL);
    assert_int_equal(rpc_server_listen(second, fixture.address, &err), -1);
    assert_int_equal(err.code, ERR_LOCKED);
    rpc_server_free(second, NULL, NULL);
    fixture_run_ms(&fixture, 1);
    fixture_close(&fixture);
}

static void a_listener_of_another_user_is_told_nothing(void **state)
{
    struct rpc_channel_config config = {.check_peer = true, .peer_uid = getuid()};
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open_unix(&fixture, NULL);
    fixture_channel(&fixture, &config);
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    rpc_channel_free(fixture.channel);
    config.peer_uid++;
    fixture_channel(&fixture, &config);
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    assert_false(seen.sent);
    assert_int_equal(fixture.messages, 1);
    rpc_channel_free(fixture.channel);
    config.root_may = true; /* an agent's socket: root's, or one's own */
    fixture_channel(&fixture, &config);
    seen_unary(&fixture, &seen, "/test.T/Echo", "hello", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, getuid() == 0 ? RPC_OK : RPC_UNAVAILABLE);
    assert_true(getuid() == 0 || strstr(seen.text, "listens as uid") != NULL);
    fixture_close(&fixture);
}

static void what_is_said_beside_a_message_comes_with_it(void **state)
{
    const struct rpc_metadata metadata[] = {{"ckpt-owner", "ann"}, {"ckpt-owner-uid", "4711"}};
    struct fixture fixture;
    struct seen seen = {.status = -1};

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    rpc_channel_unary(fixture.channel,
                      &(struct rpc_request){.path = "/test.T/Hold",
                                            .bytes = (const uint8_t *)"x",
                                            .length = 1,
                                            .metadata = metadata,
                                            .metadata_count = 2},
                      &seen_handlers, &seen);
    while (fixture.held == NULL)
        fixture_run_ms(&fixture, 1);
    assert_string_equal(rpc_call_metadata(fixture.held, "ckpt-owner"), "ann");
    assert_string_equal(rpc_call_metadata(fixture.held, "ckpt-owner-uid"), "4711");
    assert_null(rpc_call_metadata(fixture.held, "ckpt-owner-node"));
    rpc_call_finish(fixture.held, RPC_NOT_FOUND, "");
    assert_true(fixture_run(&fixture, &seen.done));
    fixture_close(&fixture);
}

static void listening_errors_say_what_is_wrong(void **state)
{
    struct fixture fixture;
    struct err err;
    char path[] = "/tmp/rpc-file-XXXXXX";
    char address[64];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    fixture_open(&fixture, NULL);
    assert_int_equal(rpc_server_listen(fixture.server, fixture.address, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.text, "address already in use"));
    assert_int_equal(rpc_server_listen(fixture.server, "nowhere", &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    snprintf(address, sizeof(address), "unix:%s", path);
    assert_int_equal(rpc_server_listen(fixture.server, address, &err), -1);
    assert_int_equal(err.code, ERR_INVALID); /* a file is not removed */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rpc_server_port(fixture.server, 1), -1);
    fixture_close(&fixture);
}

static void freeing_a_channel_ends_its_calls_and_a_server_cancels_its_own(void **state)
{
    struct fixture fixture;
    struct seen held, waiting;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &held, "/test.T/Hold", "x", 0);
    while (fixture.held == NULL)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    fixture_free_server(&fixture);
    assert_uint_equal(fixture.cancels, 1);
    assert_true(fixture_run(&fixture, &held.done));
    assert_int_equal(held.status, RPC_UNAVAILABLE);
    assert_true(held.sent);
    memset(&waiting, 0, sizeof(waiting));
    rpc_channel_unary(fixture.channel,
                      &(struct rpc_request){.path = "/test.T/Echo",
                                            .bytes = (const uint8_t *)"x",
                                            .length = 1,
                                            .wait_for_ready = true},
                      &seen_handlers, &waiting);
    fixture_run_ms(&fixture, 20);
    assert_false(waiting.done); /* it waits for a server */
    fixture_close(&fixture);
    assert_true(waiting.done);
    assert_int_equal(waiting.status, RPC_UNAVAILABLE);
    assert_false(waiting.sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unary_call_is_answered),
        cmocka_unit_test(many_calls_at_once_are_each_answered_with_their_own_bytes),
        cmocka_unit_test(answers_are_written_before_all_requests_are_read),
        cmocka_unit_test(an_error_carries_its_status_text_and_trailers),
        cmocka_unit_test(both_sides_stream),
        cmocka_unit_test(a_client_stream_is_summed_up),
        cmocka_unit_test(a_deadline_ends_the_call_on_both_sides),
        cmocka_unit_test(an_answer_under_way_outlives_its_deadline_for_a_moment),
        cmocka_unit_test(a_cancelled_call_tells_the_handler_and_nobody_else),
        cmocka_unit_test(an_answer_may_come_much_later),
        cmocka_unit_test(what_the_server_does_not_know_is_unimplemented),
        cmocka_unit_test(a_unary_method_takes_exactly_one_message),
        cmocka_unit_test(a_message_over_the_limit_is_refused_and_the_connection_lives),
        cmocka_unit_test(an_answer_over_the_clients_limit_ends_the_call),
        cmocka_unit_test(a_large_stream_arrives_whole_with_bounded_buffers),
        cmocka_unit_test(a_unix_socket_tells_who_calls),
        cmocka_unit_test(a_listener_of_another_user_is_told_nothing),
        cmocka_unit_test(what_is_said_beside_a_message_comes_with_it),
        cmocka_unit_test(listening_errors_say_what_is_wrong),
        cmocka_unit_test(freeing_a_channel_ends_its_calls_and_a_server_cancels_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
