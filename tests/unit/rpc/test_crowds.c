/* Many connections at once: who has to make way, and how much of what they send is worked on in one
 * round of the loop. */
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/rpc/stream.h"
#include "tests/unit/rpc/fixture.h"
#include "tests/unit/rpc/raw.h"

/* The oldest of those goes that have never spoken, and nobody who has. */
static void silent_connections_make_way_for_new_ones(void **state)
{
    const struct rpc_server_config config = {.connections_max = 8};
    struct fixture fixture;
    struct rpc_server_stats stats;
    int silent[40];

    (void)state;
    fixture_open(&fixture, &config);
    fixture_still_answers(&fixture); /* from here on, over the same connection */
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++) {
        silent[i] = fixture_raw(&fixture);
        fixture_run_ms(&fixture, 1);
    }
    fixture_still_answers(&fixture);
    rpc_server_get_stats(fixture.server, &stats);
    assert_in_range(stats.connections, 8, 9);
    assert_true(fixture_raw_closed(&fixture, silent[0]) >= 0); /* it had our SETTINGS */
    rpc_channel_free(fixture.channel);                         /* one who comes newly */
    fixture_channel(&fixture, NULL);
    fixture_still_answers(&fixture);
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
        close(silent[i]);
    fixture_close(&fixture);
}

/* A user of the machine does not take the unix socket from the others, nor by connections that do
 * speak. */
static void a_user_has_half_of_a_unix_socket(void **state)
{
    enum { COUNT = 12, MAX = 16 };
    const struct rpc_server_config config = {.connections_max = MAX};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    int fds[COUNT];

    (void)state;
    fixture_open_unix(&fixture, &config);
    buf_init(&out);
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = fixture_raw_unix(&fixture);
        raw_preface(&out);
        (void)raw_send(fds[i], &out);
        fixture_run_ms(&fixture, 2);
    }
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.connections, MAX / 2);
    assert_uint_equal(stats.refused_total, COUNT - MAX / 2);
    assert_true(fixture_raw_closed(&fixture, fds[COUNT - 1]) >= 0);
    for (size_t i = 0; i < COUNT; i++)
        close(fds[i]);
    buf_close(&out);
    fixture_run_ms(&fixture, 10);
    fixture_still_answers(&fixture);
    fixture_close(&fixture);
}

/* What many have sent is worked on by turns, a bounded part in each round of the loop. */
static void requests_of_many_are_read_by_turns(void **state)
{
    enum { WRITERS = 4, CALLS = 3000 };
    struct fixture fixture;
    uint8_t unread[256];
    int fds[WRITERS + 1]; /* the last one asks once, behind all others */
    ssize_t answer = 0;
    struct buf out;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_still_answers(&fixture);
    fixture_run_ms(&fixture, 5);
    for (size_t w = 0; w <= WRITERS; w++) {
        fds[w] = fixture_raw(&fixture);
        fixture_run_ms(&fixture, 2);
        /* the server's SETTINGS */
        assert_true(recv(fds[w], unread, sizeof(unread), MSG_DONTWAIT) > 0);
    }
    buf_init(&out);
    for (size_t w = 0; w <= WRITERS; w++) { /* the loop stands still meanwhile */
        raw_preface(&out);
        for (uint32_t i = 0; i < (w < WRITERS ? CALLS : 1); i++) {
            raw_request(&out, 2 * i + 1, "/test.T/Echo", 0, NULL, NULL);
            raw_message(&out, 2 * i + 1, RAW_END_STREAM, w < WRITERS ? "x" : "last");
        }
        (void)send(fds[w], out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
        buf_clear(&out);
    }
    /* More than an ACK of SETTINGS: the answer. */
    for (size_t round = 0, seen = fixture.messages; round < 8 && answer <= 30; round++) {
        uv_run(&fixture.loop, UV_RUN_NOWAIT);
        assert_in_range(fixture.messages - seen, 0, (WRITERS + 2) * (NETWORK_READ_BYTES / 100));
        seen = fixture.messages;
        answer = recv(fds[WRITERS], unread, sizeof(unread), MSG_DONTWAIT);
    }
    assert_true(answer > 30); /* and yet: */
    assert_true(fixture.messages < WRITERS * CALLS);
    for (size_t w = 0; w <= WRITERS; w++)
        close(fds[w]);
    buf_close(&out);
    fixture_close(&fixture);
}

/* Headers, and a body that goes on for ever or stops: of a unary call, of a client's stream. The
 * calls of 300 of them end, and their peers are told; a stream that has begun stays. */
static void a_request_that_never_ends_is_refused_in_time(void **state)
{
    enum { COUNT = 300, REQUEST_MS = 400 };
    const struct rpc_server_config config = {.request_ms = REQUEST_MS};
    static const char *const paths[] = {"/test.T/Echo", "/test.T/Chat", "/test.T/Flood"};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct seen chat = {0}, half = {0};
    struct buf out;
    int fds[COUNT];

    (void)state;
    buf_init(&out);
    fixture_open(&fixture, &config);
    fixture_channel(&fixture, NULL);
    chat.call = rpc_channel_open(fixture.channel, "/test.T/Chat", 0, false, &seen_handlers, &chat);
    rpc_client_call_send(chat.call, (const uint8_t *)"line", 4);
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = fixture_raw(&fixture);
        raw_preface(&out);
        raw_request(&out, 1, paths[i % ARRAY_COUNT(paths)], RAW_END_HEADERS, NULL, NULL);
        raw_frame(&out, RAW_DATA, 0, 1,
                  "\0\0\0\0\x7f"
                  "a",
                  6);
        assert_true(raw_send(fds[i], &out));
        fixture_run_ms(&fixture, 0);
    }
    for (size_t rounds = 0; rounds < 30; rounds++) { /* some go on sending */
        for (size_t i = 0; i < COUNT; i += 3) {
            raw_frame(&out, RAW_DATA, 0, 1, "b", 1);
            (void)raw_send(fds[i], &out);
        }
        fixture_run_ms(&fixture, REQUEST_MS / 20);
    }
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.calls_active, 1);
    assert_false(chat.done);
    assert_uint_equal(chat.messages, 1);
    rpc_client_call_send(chat.call, (const uint8_t *)"line", 4);
    rpc_client_call_half_close(chat.call);
    assert_true(fixture_run(&fixture, &chat.done));
    assert_int_equal(chat.status, RPC_OK);
    half.call = rpc_channel_open(fixture.channel, "/test.T/Echo", 0, false, &seen_handlers, &half);
    rpc_client_call_send(half.call, (const uint8_t *)"line", 4);
    assert_true(fixture_run(&fixture, &half.done));
    assert_int_equal(half.status, RPC_DEADLINE_EXCEEDED);
    assert_contains(half.text, "the request was not whole within 400 ms");
    for (size_t i = 0; i < COUNT; i++) {
        char text[4096];
        ssize_t got = read(fds[i], text, sizeof(text));

        assert_true(got > 0);
        assert_non_null(memmem(text, (size_t)got, "\x01\x05\0\0\0\x01", 6)); /* trailers */
        close(fds[i]);
    }
    buf_close(&out);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections_make_way_for_new_ones),
        cmocka_unit_test(a_user_has_half_of_a_unix_socket),
        cmocka_unit_test(requests_of_many_are_read_by_turns),
        cmocka_unit_test(a_request_that_never_ends_is_refused_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
