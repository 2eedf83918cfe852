/* Answers that nobody reads: what they may hold, and who goes because of them. */
#include "src/base/check.h"
#include "tests/unit/rpc/fixture.h"
#include "tests/unit/rpc/raw.h"
#include <sys/socket.h>
#include <unistd.h>

/* Many answers that nobody reads: new calls are refused until they are gone. */
static void unread_answers_hold_back_new_calls(void **state)
{
    enum { CALLS = 200 };
    const struct rpc_server_config config = {.message_max_bytes = 200 << 10};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    uint8_t window[6] = {0, 4};
    char *text = check_calloc(1, 150001);
    int fd;

    (void)state;
    fixture_open(&fixture, &config);
    memset(text, 'x', 150000);
    buf_init(&out);
    fd = fixture_raw(&fixture);
    raw_preface(&out);
    raw_frame(&out, RAW_SETTINGS, 0, 0, window, 6); /* a window of 0: no answer may be sent */
    assert_true(raw_send(fd, &out));
    for (uint32_t i = 0; i < CALLS; i++) {
        raw_request(&out, 2 * i + 1, "/test.T/Echo", 0, NULL, NULL);
        for (int part = 0; part < 10; part++) {
            uint8_t bytes[15005];

            memcpy(bytes, text, sizeof(bytes));
            memcpy(bytes, "\0\0\2\x49\xf0", 5); /* 150,000 */
            raw_frame(&out, RAW_DATA, part == 9 ? RAW_END_STREAM : 0, 2 * i + 1,
                      part == 0 ? bytes : bytes + 5, part == 0 ? 15005 : 15000);
        }
        while (out.length > 0) {
            ssize_t sent = send(fd, out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);

            if (sent > 0)
                buf_consume(&out, (size_t)sent);
            uv_run(&fixture.loop, UV_RUN_NOWAIT);
        }
    }
    do {
        fixture_run_ms(&fixture, 2);
        rpc_server_get_stats(fixture.server, &stats);
    } while (stats.by_status[RPC_OK] + stats.by_status[RPC_RESOURCE_EXHAUSTED] < CALLS);
    assert_in_range(stats.bytes_buffered, 16 << 20, 17 << 20);
    assert_in_range(stats.by_status[RPC_OK], 100, 120);
    assert_uint_equal(stats.connections, 1);
    close(fd);
    buf_close(&out);
    free(text);
    fixture_run_ms(&fixture, 5);
    fixture_still_answers(&fixture);
    fixture_close(&fixture);
}

/* A connection of 127.0.0.`host` with a window of 0 and `count` echoes of 150,000 bytes. */
static int open_unread(struct fixture *fixture, unsigned host, uint32_t count)
{
    static uint8_t part[15005] = {0, 0, 2, 0x49, 0xf0}; /* a prefix: 150,000 */
    uint8_t window[6] = {0, 4};
    int fd = fixture_raw_from(fixture, host);
    struct buf out;

    buf_init(&out);
    raw_preface(&out);
    raw_frame(&out, RAW_SETTINGS, 0, 0, window, 6);
    for (uint32_t i = 0; i < count; i++) {
        raw_request(&out, 2 * i + 1, "/test.T/Echo", 0, NULL, NULL);
        for (int at = 0; at < 10; at++)
            raw_frame(&out, RAW_DATA, at == 9 ? RAW_END_STREAM : 0, 2 * i + 1,
                      at == 0 ? part : part + 5, at == 0 ? 15005 : 15000);
        while (out.length > 0) {
            ssize_t sent = send(fd, out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);

            if (sent > 0)
                buf_consume(&out, (size_t)sent);
            uv_run(&fixture->loop, UV_RUN_NOWAIT);
        }
    }
    buf_close(&out);
    return fd;
}

/* Opens the windows of its answers, one after the other, by `bytes` now and then and answers PINGs,
 * for `ms` or until it is closed. */
static bool dripped(struct fixture *fixture, int fd, uint32_t bytes, uint64_t ms)
{
    uint64_t until_ms = uv_now(&fixture->loop) + ms;
    uint8_t increment[4], taken[65536];
    struct buf out;
    uint32_t given = 0;
    bool open = true;

    buf_init(&out);
    raw_u32(increment, bytes);
    while (open && uv_now(&fixture->loop) < until_ms) {
        raw_frame(&out, RAW_WINDOW, 0, 0, increment, 4); /* of the connection */
        raw_frame(&out, RAW_WINDOW, 0, 1 + 2 * (given / 150000), increment, 4);
        given += bytes;
        raw_frame(&out, RAW_PING, RAW_ACK, 0, "12345678", 8);
        open = raw_send(fd, &out);
        fixture_run_ms(fixture, 20);
        open = open && recv(fd, taken, sizeof(taken), MSG_DONTWAIT) != 0;
    }
    buf_close(&out);
    return !open;
}

struct told {
    size_t count;
    char address[64], text[512];
};

static void take_stalled(void *data, const struct rpc_peer *peer, const char *text)
{
    struct told *told = data;

    told->count++;
    snprintf(told->address, sizeof(told->address), "%s", peer->address);
    snprintf(told->text, sizeof(told->text), "%s", text);
}

static void a_reader_that_answers_pings_and_takes_next_to_nothing_is_closed(void **state)
{
    struct told told = {0};
    const struct rpc_server_config config = {.message_max_bytes = 200 << 10,
                                             .keepalive_ms = 200,
                                             .stalled = take_stalled,
                                             .stalled_data = &told};
    struct fixture fixture;
    struct rpc_server_stats stats;
    int slow, stalled;

    (void)state;
    fixture_open(&fixture, &config);
    stalled = open_unread(&fixture, 1, 1);
    assert_true(dripped(&fixture, stalled, 1, 5000));
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.stalled_total, 1);
    assert_uint_equal(told.count, 1);
    assert_non_null(strstr(told.address, "127.0.0.1:"));
    assert_non_null(strstr(told.text, " bytes of answers wait for it, and it took less than 16384 "
                                      "in 400 ms"));
    slow = open_unread(&fixture, 1, 20);
    assert_false(dripped(&fixture, slow, 16384, 1000));
    close(slow);
    close(stalled);
    fixture_run_ms(&fixture, 5);
    fixture_still_answers(&fixture);
    fixture_close(&fixture);
}

/* Answers that nobody reads fill the server: their readers go, and the others are answered. */
static void stalled_readers_hold_nobody_up(void **state)
{
    enum { READERS = 18 };
    struct told told = {0};
    const struct rpc_server_config config = {
        .message_max_bytes = 200 << 10, .stalled = take_stalled, .stalled_data = &told};
    struct fixture fixture;
    struct rpc_server_stats stats;
    int fds[READERS];

    (void)state;
    fixture_open(&fixture, &config);
    for (int i = 0; i < READERS; i++)
        fds[i] = open_unread(&fixture, 2 + (unsigned)i % 3, 110); /* none has more than its share */
    rpc_server_get_stats(fixture.server, &stats);
    assert_true(stats.bytes_buffered > 240 << 20);
    fixture_run_ms(&fixture, 1100);
    fixture_still_answers(&fixture);
    rpc_server_get_stats(fixture.server, &stats);
    assert_in_range(stats.stalled_total, 1, 3);
    assert_uint_equal(told.count, stats.stalled_total);
    assert_non_null(strstr(told.text, "of which the limit is 268435456, and it took less than"));
    for (int i = 0; i < READERS; i++)
        close(fds[i]);
    fixture_run_ms(&fixture, 5);
    fixture_close(&fixture);
}

/* An echo of 127.0.0.`host` on a connection of its own: whether it is answered. */
static bool answers(struct fixture *fixture, unsigned host)
{
    int fd = fixture_raw_from(fixture, host);
    struct rpc_server_stats before, after;
    struct buf out;

    rpc_server_get_stats(fixture->server, &before);
    buf_init(&out);
    raw_preface(&out);
    raw_request(&out, 1, "/test.T/Echo", 0, NULL, NULL);
    raw_message(&out, 1, RAW_END_STREAM, "alive");
    assert_true(raw_send(fd, &out));
    buf_close(&out);
    fixture_run_ms(fixture, 20);
    rpc_server_get_stats(fixture->server, &after);
    close(fd);
    return after.by_status[RPC_OK] > before.by_status[RPC_OK];
}

/* One identity (here: one address) has half of the room; the others do not notice that it has used
 * it up. */
static void one_peer_does_not_take_the_room_of_all(void **state)
{
    enum { READERS = 12 };
    struct told told = {0};
    const struct rpc_server_config config = {
        .message_max_bytes = 200 << 10, .stalled = take_stalled, .stalled_data = &told};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct seen seen;
    int fds[READERS];

    (void)state;
    fixture_open(&fixture, &config);
    fixture_channel(&fixture, NULL); /* from 127.0.0.1 */
    fixture_still_answers(&fixture);
    for (int i = 0; i < READERS; i++)
        fds[i] = open_unread(&fixture, 1, 110);
    rpc_server_get_stats(fixture.server, &stats);
    if (told.count == 0) { /* else this took more than a second, and one of them has gone */
        assert_in_range(stats.bytes_buffered, 128 << 20, 129 << 20);
        seen_unary(&fixture, &seen, "/test.T/Echo", "more", 0);
        assert_true(fixture_run(&fixture, &seen.done));
        assert_int_equal(seen.status, RPC_RESOURCE_EXHAUSTED);
        assert_true(seen.pushback);
        assert_non_null(strstr(seen.text, "bytes of answers wait to be read by 127.0.0.1, the "
                                          "limit is 134217728"));
    }
    assert_true(answers(&fixture, 2));
    fixture_run_ms(&fixture, 1100);
    fixture_still_answers(&fixture);             /* one that reads nothing goes */
    assert_in_range(told.count, 1, READERS - 1); /* one, unless all this took more than a second */
    assert_non_null(strstr(told.text, "of which the limit is 134217728"));
    for (int i = 0; i < READERS; i++)
        close(fds[i]);
    fixture_run_ms(&fixture, 5);
    fixture_close(&fixture);
}

/* Likewise of requests that never come whole. */
static void one_peer_does_not_take_the_room_of_all_requests(void **state)
{
    enum { WRITERS = 20, CALLS = 30, PART_BYTES = 15000 };
    const struct rpc_server_config config = {.message_max_bytes = 200 << 10};
    static uint8_t part[PART_BYTES] = {0, 0, 2, 0x49, 0xf0}; /* a prefix: 150,000 */
    struct fixture fixture;
    struct rpc_server_stats stats;
    int fds[WRITERS];
    struct buf out;

    (void)state;
    fixture_open(&fixture, &config);
    buf_init(&out);
    for (int w = 0; w < WRITERS; w++) {
        fds[w] = fixture_raw_from(&fixture, 2);
        raw_preface(&out);
        for (uint32_t i = 0; i < CALLS; i++) {
            raw_request(&out, 2 * i + 1, "/test.T/Echo", 0, NULL, NULL);
            for (int at = 0; at < 9; at++)
                raw_frame(&out, RAW_DATA, 0, 2 * i + 1, part, PART_BYTES);
        }
        while (out.length > 0) {
            ssize_t sent = send(fds[w], out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);

            if (sent > 0)
                buf_consume(&out, (size_t)sent);
            uv_run(&fixture.loop, UV_RUN_NOWAIT);
        }
    }
    buf_close(&out);
    stats.by_status[RPC_RESOURCE_EXHAUSTED] = 0;
    for (int i = 0; i < 100 && stats.by_status[RPC_RESOURCE_EXHAUSTED] == 0; i++) {
        fixture_run_ms(&fixture, 20);
        rpc_server_get_stats(fixture.server, &stats);
    }
    assert_true(stats.by_status[RPC_RESOURCE_EXHAUSTED] > 0);
    assert_in_range(stats.calls_active, 0, (64 << 20) / (9 * PART_BYTES) + 1 + 2 * WRITERS);
    fixture_still_answers(&fixture);
    for (int w = 0; w < WRITERS; w++)
        close(fds[w]);
    fixture_run_ms(&fixture, 5);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unread_answers_hold_back_new_calls),
        cmocka_unit_test(a_reader_that_answers_pings_and_takes_next_to_nothing_is_closed),
        cmocka_unit_test(stalled_readers_hold_nobody_up),
        cmocka_unit_test(one_peer_does_not_take_the_room_of_all),
        cmocka_unit_test(one_peer_does_not_take_the_room_of_all_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
