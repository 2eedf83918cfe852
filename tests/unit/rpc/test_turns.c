/* Large answers: made when their readers can take them, by turns, and never more of them than are
 * being read. */
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/rpc/h2.h"
#include "tests/unit/rpc/fixture.h"
#include "tests/unit/rpc/raw.h"

enum { ANSWER_BYTES = 150000, MADE_MAX = 4096 };

/* Of /test.T/Large: asked with one letter, which says who asked. */
static struct large {
    struct fixture fixture;
    size_t asked, made, cancelled, ended;
    size_t buffered_max;
    uint64_t lasts_us; /* the making of an answer */
    char made_for[MADE_MAX];
} large;

static void large_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    (void)data;
    assert_true(length > 0);
    rpc_call_set_data(call, (void *)(uintptr_t)bytes[0]);
    large.asked++;
    rpc_call_want_writable(call);
}

static void large_writable(struct rpc_call *call, void *data)
{
    static const uint8_t answer[ANSWER_BYTES];
    struct rpc_server_stats stats;
    uint64_t end_ns = uv_hrtime() + large.lasts_us * 1000;

    (void)data;
    while (uv_hrtime() < end_ns) {
    }
    assert_true(large.made < MADE_MAX);
    large.made_for[large.made++] = (char)(uintptr_t)rpc_call_data(call);
    rpc_call_reply(call, answer, sizeof(answer));
    rpc_server_get_stats(large.fixture.server, &stats);
    if (stats.bytes_buffered > large.buffered_max)
        large.buffered_max = stats.bytes_buffered;
}

static void large_cancel(struct rpc_call *call, void *data)
{
    (void)call;
    (void)data;
    large.cancelled++;
}

static int open_large(void **state)
{
    const struct rpc_server_config config = {.message_max_bytes = 200 << 10};
    const struct rpc_handlers handlers = {
        .on_message = large_message, .on_writable = large_writable, .on_cancel = large_cancel};

    (void)state;
    memset(&large, 0, sizeof(large));
    fixture_open(&large.fixture, &config);
    rpc_server_add_method(large.fixture.server, "/test.T/Large", false, false, &handlers, NULL);
    return 0;
}

static int close_large(void **state)
{
    (void)state;
    fixture_close(&large.fixture);
    return 0;
}

static void put_stream_windows(struct buf *out, uint32_t bytes)
{
    uint8_t settings[6] = {0, 4};

    raw_u32(settings + 2, bytes);
    raw_frame(out, RAW_SETTINGS, 0, 0, settings, sizeof(settings));
}

static void put_windows(struct buf *out, uint32_t stream_bytes)
{
    uint8_t increment[4];

    put_stream_windows(out, stream_bytes);
    raw_u32(increment, INT32_MAX - 65535);
    raw_frame(out, RAW_WINDOW, 0, 0, increment, sizeof(increment));
}

/* From 127.0.0.`host`, `count` calls that say `text`; what the socket does not take at once goes
 * while the loop runs. */
static int ask(unsigned host, uint32_t count, uint32_t window_bytes, const char *text)
{
    int fd = fixture_raw_from(&large.fixture, host);
    struct buf out;

    buf_init(&out);
    raw_preface(&out);
    put_windows(&out, window_bytes);
    for (uint32_t i = 0; i < count; i++) {
        raw_request(&out, 2 * i + 1, "/test.T/Large", 0, NULL, NULL);
        raw_message(&out, 2 * i + 1, RAW_END_STREAM, text);
    }
    while (out.length > 0) {
        ssize_t sent = send(fd, out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0)
            buf_consume(&out, (size_t)sent);
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    }
    buf_close(&out);
    return fd;
}

/* Reads what has come and runs the loop until so many answers were made. */
static bool read_until_made(const int *fds, size_t count, size_t made)
{
    static uint8_t bytes[1 << 20];
    uint64_t end_ns = uv_hrtime() + UINT64_C(20000000000);

    while (large.made < made && uv_hrtime() < end_ns) {
        for (size_t i = 0; i < count; i++)
            while (recv(fds[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
            }
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    }
    return large.made >= made;
}

/* What a connection may hold: what it was offered before the last answer, that answer, and what
 * waits for the socket. */
enum { CONNECTION_BYTES = RPC_H2_BATCH_BYTES + ANSWER_BYTES + 3 * RPC_H2_BATCH_BYTES };

static void a_reader_of_many_answers_costs_the_memory_of_one(void **state)
{
    int fds[2];

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        fds[i] = ask(1, 1000, INT32_MAX, "a");
    assert_true(read_until_made(fds, ARRAY_COUNT(fds), 2000));
    assert_uint_equal(large.asked, 2000);
    assert_in_range(large.buffered_max, ANSWER_BYTES, 2 * CONNECTION_BYTES);
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
}

/* Runs the loop until `*count` is `wanted`, however loaded the machine is, and for some rounds
 * more, in which it may go beyond it. */
static void run_until(const size_t *count, size_t wanted)
{
    enum { ROUNDS_MORE = 100 };
    uint64_t end_ns = uv_hrtime() + UINT64_C(20000000000);

    while (*count < wanted && uv_hrtime() < end_ns)
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    for (int i = 0; i < ROUNDS_MORE; i++)
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    assert_uint_equal(*count, wanted);
}

static void nothing_is_made_for_a_closed_window(void **state)
{
    struct buf out;
    int fd = ask(1, 50, 0, "a");

    (void)state;
    run_until(&large.asked, 50);
    assert_uint_equal(large.made, 0);
    buf_init(&out);
    for (uint32_t i = 40; i < 50; i++) { /* of ten streams */
        uint8_t increment[4];

        raw_u32(increment, 1);
        raw_frame(&out, RAW_WINDOW, 0, 2 * i + 1, increment, sizeof(increment));
    }
    assert_true(raw_send(fd, &out));
    run_until(&large.made, 10);
    put_stream_windows(&out, INT32_MAX - 1);
    assert_true(raw_send(fd, &out));
    assert_true(read_until_made(&fd, 1, 50));
    buf_close(&out);
    close(fd);
}

/* How many answers were made before the first for `who`, after the first `from` of all. */
static size_t made_before(char who, size_t from)
{
    size_t at = from;

    while (at < large.made && large.made_for[at] != who)
        at++;
    assert_true(at < large.made);
    return at - from;
}

/* Who asks for one is not behind somebody's thousands, nor behind somebody's many connections. */
static void owners_take_turns(void **state)
{
    enum { CROWD = 20, CALLS = 100, ROUNDS = 10 };
    int fds[CROWD + 1];
    size_t before;

    (void)state;
    for (unsigned i = 0; i < CROWD; i++)
        fds[i] = ask(1, CALLS, INT32_MAX, "c");
    before = large.made;
    fds[CROWD] = ask(2, 1, INT32_MAX, "o");
    assert_true(before < CROWD * CALLS / 2);
    for (size_t i = 0; i < ROUNDS; i++)
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    made_before('o', before);
    assert_true(read_until_made(fds, ARRAY_COUNT(fds), CROWD * CALLS + 1));
    assert_in_range(large.buffered_max, 0, (CROWD + 1) * CONNECTION_BYTES);
    for (unsigned i = 0; i <= CROWD; i++)
        close(fds[i]);
}

/* Readers that begin every answer and end none: what they hold has a limit while it is made, and
 * others do not notice. */
static void an_owner_that_is_full_waits_alone(void **state)
{
    enum { CROWD = 20, CALLS = 110, OWNER_MAX_BYTES = 128 << 20 };
    int fds[CROWD + 1];
    size_t before;

    (void)state;
    for (unsigned i = 0; i < CROWD; i++)
        fds[i] = ask(1, CALLS, 1, "c");
    for (size_t i = 0; i < 500; i++)
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    assert_in_range(large.buffered_max, OWNER_MAX_BYTES / 2, OWNER_MAX_BYTES + CONNECTION_BYTES);
    assert_true(large.made < CROWD * CALLS);
    before = large.made;
    fds[CROWD] = ask(2, 1, INT32_MAX, "o");
    fixture_run_ms(&large.fixture, 20);
    made_before('o', before);
    for (unsigned i = 0; i <= CROWD; i++)
        close(fds[i]);
}

/* Readers of 127.0.0.`host` that begin every answer and end none, until its owner is full. */
static void fill(unsigned host, int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fds[i] = ask(host, 110, 1, "c");
    for (size_t i = 0; i < 500; i++)
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
}

/* What the readers of one identity leave lying does not hold up its streams that are read, such as
 * the orders of an agent. */
static void a_stream_that_is_read_goes_on_while_its_owner_is_full(void **state)
{
    enum { CROWD = 20, MESSAGES = 32 };
    struct fixture *fixture = &large.fixture;
    struct rpc_server_stats stats;
    int fds[CROWD], fd = fixture_raw_from(fixture, 1);
    struct buf out;

    (void)state;
    fixture->flood_left = MESSAGES;
    buf_init(&out);
    raw_preface(&out);
    put_windows(&out, INT32_MAX);
    raw_request(&out, 1, "/test.T/Flood", 0, NULL, NULL);
    assert_true(raw_send(fd, &out));
    run_until(&fixture->requests, fixture->requests);
    fill(1, fds, CROWD);
    rpc_server_get_stats(fixture->server, &stats);
    assert_true(stats.bytes_buffered > 128 << 20);
    raw_message(&out, 1, RAW_END_STREAM, "go");
    assert_true(raw_send(fd, &out));
    for (size_t i = 0; i < 200; i++) /* sooner than those readers are given up */
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_uint_equal(fixture->flood_sent, MESSAGES);
    buf_close(&out);
    close(fd);
    for (unsigned i = 0; i < CROWD; i++)
        close(fds[i]);
}

/* Two identities that fill the server together do not shut it to the others. */
static void who_holds_nothing_is_served_while_the_server_is_full(void **state)
{
    enum { CROWD = 20 };
    struct rpc_server_stats stats;
    int fds[3 * CROWD];

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        fill(2 + i, fds + (size_t)i * CROWD, CROWD);
    rpc_server_get_stats(large.fixture.server, &stats);
    assert_true(stats.bytes_buffered > 256 << 20);
    fixture_still_answers(&large.fixture);
    for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
        close(fds[i]);
}

static void who_goes_while_it_waits_is_cancelled_once(void **state)
{
    int fd = ask(1, 30, 0, "a");

    (void)state;
    run_until(&large.asked, 30);
    close(fd);
    run_until(&large.cancelled, 30);
    assert_uint_equal(large.made, 0);
    fixture_still_answers(&large.fixture);
}

/* Its owner has other connections, and was in line for it. */
static void who_goes_while_its_owner_waits_leaves_the_line(void **state)
{
    enum { OWNERS = 8, TIMES = 5 };
    int fds[OWNERS], stays = ask(2, 0, INT32_MAX, "");

    (void)state;
    large.lasts_us = 2500; /* one answer is a round */
    for (unsigned i = 0; i < OWNERS; i++)
        fds[i] = ask(3 + i, 60, INT32_MAX, "c");
    for (unsigned i = 0; i < TIMES; i++) {
        size_t asked = large.asked;
        int fd = ask(2, 0, INT32_MAX, "");
        struct buf out;

        buf_init(&out);
        raw_request(&out, 1, "/test.T/Large", 0, NULL, NULL);
        raw_message(&out, 1, RAW_END_STREAM, "o");
        assert_true(raw_send(fd, &out));
        buf_close(&out);
        while (large.asked == asked)
            uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
        close(fd);
        for (unsigned rounds = 0; rounds < 3 * OWNERS; rounds++)
            uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    }
    assert_true(large.cancelled > 0);
    large.lasts_us = 0;
    for (unsigned i = 0; i < OWNERS; i++)
        close(fds[i]);
    fixture_still_answers(&large.fixture);
    close(stays);
}

/* The requests of those who wait are memory as well. */
static void requests_that_wait_are_counted(void **state)
{
    static char text[100001];
    struct rpc_server_stats stats;
    int fd;

    (void)state;
    memset(text, 'r', sizeof(text) - 1);
    fd = fixture_raw(&large.fixture);
    struct buf out;
    buf_init(&out);
    raw_preface(&out);
    put_windows(&out, 0);
    for (uint32_t i = 0; i < 100; i++) {
        static uint8_t bytes[10000];

        raw_request(&out, 2 * i + 1, "/test.T/Large", 0, NULL, NULL);
        memcpy(bytes, "\0\0\1\x86\x9b", 5); /* 99,995 */
        for (int part = 0; part < 10; part++) {
            raw_frame(&out, RAW_DATA, part == 9 ? RAW_END_STREAM : 0, 2 * i + 1, bytes,
                      sizeof(bytes));
            memset(bytes, 'r', 5);
        }
    }
    while (out.length > 0) {
        ssize_t sent = send(fd, out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0)
            buf_consume(&out, (size_t)sent);
        uv_run(&large.fixture.loop, UV_RUN_NOWAIT);
    }
    do { /* until all of them were taken or refused */
        fixture_run_ms(&large.fixture, 10);
        rpc_server_get_stats(large.fixture.server, &stats);
    } while (large.asked + stats.by_status[RPC_RESOURCE_EXHAUSTED] < 100);
    assert_in_range(large.asked, 40, 45); /* 4 MiB */
    assert_uint_equal(stats.by_status[RPC_RESOURCE_EXHAUSTED], 100 - large.asked);
    assert_uint_equal(large.made, 0);
    buf_close(&out);
    close(fd);
}

/* Streams of one connection that write on and on hold together no more than one of them may. */
static void streams_share_the_room_of_their_connection(void **state)
{
    enum { STREAMS = 200 };
    struct fixture *fixture = &large.fixture;
    struct rpc_server_stats stats;
    struct buf out;
    int fd = fixture_raw(fixture);

    (void)state;
    fixture->flood_left = 100000;
    buf_init(&out);
    raw_preface(&out);
    put_windows(&out, 65535);
    for (uint32_t i = 0; i < STREAMS; i++) {
        raw_request(&out, 2 * i + 1, "/test.T/Flood", 0, NULL, NULL);
        raw_message(&out, 2 * i + 1, RAW_END_STREAM, "go");
    }
    assert_true(raw_send(fd, &out));
    buf_close(&out);
    stats.bytes_buffered = 0;
    for (int i = 0; i < 50; i++) {
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
        rpc_server_get_stats(fixture->server, &stats);
        /* what the streams' windows did not take stays with them; the rest is not made */
        assert_in_range(stats.bytes_buffered, 0, 1 << 20);
    }
    assert_true(fixture->flood_sent > 100);
    close(fd);
}

int main(void)
{
#define LARGE(test) cmocka_unit_test_setup_teardown(test, open_large, close_large)
    const struct CMUnitTest tests[] = {
        LARGE(a_reader_of_many_answers_costs_the_memory_of_one),
        LARGE(nothing_is_made_for_a_closed_window),
        LARGE(owners_take_turns),
        LARGE(an_owner_that_is_full_waits_alone),
        LARGE(a_stream_that_is_read_goes_on_while_its_owner_is_full),
        LARGE(who_holds_nothing_is_served_while_the_server_is_full),
        LARGE(who_goes_while_it_waits_is_cancelled_once),
        LARGE(who_goes_while_its_owner_waits_leaves_the_line),
        LARGE(requests_that_wait_are_counted),
        LARGE(streams_share_the_room_of_their_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
