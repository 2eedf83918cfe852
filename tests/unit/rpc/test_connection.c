/* Peers that misbehave, limits of connections, keepalive, drain: the server closes what it must and
 * leaks nothing. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/check.h"
#include "tests/unit/rpc/fixture.h"
#include "tests/unit/rpc/raw.h"

static void sends_and_is_closed(struct fixture *fixture, struct buf *out)
{
    int fd = fixture_raw(fixture);

    raw_send(fd, out);
    assert_true(fixture_raw_closed(fixture, fd) >= 0);
    close(fd);
    fixture_still_answers(fixture);
}

static void bytes_that_are_not_http2_close_the_connection(void **state)
{
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "POST /test.T/Echo HTTP/1.1\r\n\r\n",
                                        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand then no SETTINGS"};
    struct fixture fixture;
    struct buf out;

    (void)state;
    fixture_open(&fixture, NULL);
    buf_init(&out);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        buf_append(&out, texts[i], strlen(texts[i]));
        sends_and_is_closed(&fixture, &out);
    }
    buf_close(&out);
    fixture_close(&fixture);
}

static void random_bytes_never_harm_the_server(void **state)
{
    uint64_t seed = test_seed();
    const struct rpc_server_config config = {.keepalive_ms = 40};
    struct fixture fixture;
    struct buf out;

    (void)state;
    fixture_open(&fixture, &config);
    buf_init(&out);
    for (int round = 0; round < 30; round++) {
        size_t length = 1 + test_random(&seed) % 3000;

        if (round % 2 == 0)
            raw_preface(&out);
        for (size_t i = 0; i < length; i++)
            *buf_extend(&out, 1) = (uint8_t)test_random(&seed);
        sends_and_is_closed(&fixture, &out);
    }
    buf_close(&out);
    fixture_close(&fixture);
}

static void a_connection_cut_in_a_frame_frees_its_call(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    int fd;

    (void)state;
    fixture_open(&fixture, NULL);
    buf_init(&out);
    raw_preface(&out);
    raw_request(&out, 1, "/test.T/Chat", 0, NULL, NULL);
    raw_message(&out, 1, 0, "whole");
    raw_frame(&out, RAW_DATA, 0, 1, "\0\0\0\0\x64half", 9);
    out.length -= 2;
    fd = fixture_raw(&fixture);
    assert_true(raw_send(fd, &out));
    while (fixture.messages == 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    close(fd);
    while (fixture.cancels == 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    fixture_run_ms(&fixture, 5);
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.connections, 0);
    assert_uint_equal(stats.calls_active, 0);
    buf_close(&out);
    fixture_close(&fixture);
}

static void a_compressed_message_and_a_bad_timeout_are_refused(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    int fd;

    (void)state;
    fixture_open(&fixture, NULL);
    buf_init(&out);
    fd = fixture_raw(&fixture);
    raw_preface(&out);
    raw_request(&out, 1, "/test.T/Echo", 0, "grpc-encoding", "gzip");
    raw_frame(&out, RAW_DATA, RAW_END_STREAM, 1, "\1\0\0\0\1x", 6);
    raw_request(&out, 3, "/test.T/Echo", 0, "grpc-timeout", "1.5S");
    raw_message(&out, 3, RAW_END_STREAM, "x");
    raw_request(&out, 5, "/test.T/Echo", 0, NULL, NULL);
    raw_frame(&out, RAW_DATA, RAW_END_STREAM, 5, "\0\0\0\0\5x", 6); /* ends early */
    raw_request(&out, 7, "/test.T/Hold", 0, "grpc-timeout", "0m");
    raw_message(&out, 7, RAW_END_STREAM, "x");
    assert_true(raw_send(fd, &out));
    do {
        fixture_run_ms(&fixture, 2);
        rpc_server_get_stats(fixture.server, &stats);
    } while (stats.by_status[RPC_DEADLINE_EXCEEDED] == 0);
    assert_uint_equal(stats.by_status[RPC_UNIMPLEMENTED], 1);
    assert_uint_equal(stats.by_status[RPC_INVALID_ARGUMENT], 2);
    assert_uint_equal(stats.calls_active, 0);
    assert_uint_equal(stats.connections, 1);
    close(fd);
    buf_close(&out);
    fixture_close(&fixture);
}

static void what_is_no_grpc_request_gets_a_plain_http_status(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out, block;
    int fd;

    (void)state;
    fixture_open(&fixture, NULL);
    buf_init(&out);
    buf_init(&block);
    fd = fixture_raw(&fixture);
    raw_preface(&out);
    raw_header(&block, ":method", "GET");
    raw_header(&block, ":scheme", "http");
    raw_header(&block, ":path", "/");
    raw_header(&block, ":authority", "test");
    raw_frame(&out, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1, block.bytes, block.length);
    buf_clear(&block);
    raw_header(&block, ":method", "POST");
    raw_header(&block, ":scheme", "http");
    raw_header(&block, ":path", "/test.T/Echo");
    raw_header(&block, ":authority", "test");
    raw_header(&block, "content-type", "application/grpcweb");
    raw_frame(&out, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 3, block.bytes, block.length);
    assert_true(raw_send(fd, &out));
    do {
        fixture_run_ms(&fixture, 2);
        rpc_server_get_stats(fixture.server, &stats);
    } while (stats.by_status[RPC_UNKNOWN] < 2);
    assert_uint_equal(fixture.messages, 0);
    close(fd);
    buf_close(&out);
    buf_close(&block);
    fixture_close(&fixture);
}

static void huge_headers_are_refused(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out, block;
    char value[4001];
    int fd;

    (void)state;
    memset(value, 'v', 4000);
    value[4000] = '\0';
    fixture_open(&fixture, NULL);
    buf_init(&out);
    buf_init(&block);
    fd = fixture_raw(&fixture);
    raw_preface(&out);
    /* 20 KB in two frames: the call is refused, the connection lives */
    raw_header(&block, ":method", "POST");
    raw_header(&block, ":scheme", "http");
    raw_header(&block, ":path", "/test.T/Echo");
    raw_header(&block, ":authority", "test");
    raw_header(&block, "content-type", "application/grpc");
    for (int i = 0; i < 5; i++)
        raw_header(&block, "x", value);
    raw_frame(&out, RAW_HEADERS, RAW_END_STREAM, 1, block.bytes, 16000);
    raw_frame(&out, RAW_CONTINUATION, RAW_END_HEADERS, 1, block.bytes + 16000,
              block.length - 16000);
    assert_true(raw_send(fd, &out));
    do {
        fixture_run_ms(&fixture, 2);
        rpc_server_get_stats(fixture.server, &stats);
    } while (stats.by_status[RPC_RESOURCE_EXHAUSTED] == 0);
    assert_uint_equal(stats.connections, 1);
    close(fd);
    /* continuations without end: the connection is closed */
    raw_preface(&out);
    raw_frame(&out, RAW_HEADERS, 0, 1, block.bytes, 100);
    for (int i = 0; i < 100; i++)
        raw_frame(&out, RAW_CONTINUATION, 0, 1, NULL, 0);
    sends_and_is_closed(&fixture, &out);
    buf_close(&out);
    buf_close(&block);
    fixture_close(&fixture);
}

static void rapid_resets_end_the_connection(void **state)
{
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    uint8_t cancel[4];

    (void)state;
    fixture_open(&fixture, NULL);
    buf_init(&out);
    raw_u32(cancel, 8);
    raw_preface(&out);
    for (uint32_t i = 0; i < 3000; i++) {
        raw_request(&out, 2 * i + 1, "/test.T/Hold", 0, NULL, NULL);
        raw_frame(&out, RAW_RST, 0, 2 * i + 1, cancel, sizeof(cancel));
    }
    sends_and_is_closed(&fixture, &out);
    rpc_server_get_stats(fixture.server, &stats);
    assert_true(stats.by_status[RPC_CANCELLED] < 2000);
    assert_uint_equal(fixture.requests, fixture.cancels);
    buf_close(&out);
    fixture_close(&fixture);
}

static void floods_of_control_frames_end_the_connection(void **state)
{
    static const uint8_t priority[4] = {0}, increment[4] = {0, 0, 0, 1};
    static const struct {
        uint8_t type;
        uint8_t flags;
        size_t length;
        uint32_t stream;
        int count;
    } floods[] = {{RAW_PING, 0, 8, 0, 1000},       {RAW_PING, RAW_ACK, 8, 0, 1000},
                  {RAW_SETTINGS, 0, 0, 0, 1000},   {RAW_PRIORITY, 0, 5, 3, 1000},
                  {RAW_DATA, 0, 0, 1, 1000},       {RAW_UNKNOWN, 0, 0, 0, 1000},
                  {RAW_UNKNOWN, 0xff, 8, 1, 1000}, {RAW_PRIORITY_UPDATE, 0, 8, 0, 1000},
                  {RAW_WINDOW, 0, 4, 0, 10000},    {RAW_WINDOW, 0, 4, 1, 10000},
                  {RAW_WINDOW, 0, 4, 3, 10000}, /* of a stream that is over */
                  {RAW_DATA, 0, 1, 3, 10000}};
    struct fixture fixture;
    struct buf out;

    (void)state;
    fixture_open(&fixture, NULL);
    buf_init(&out);
    for (size_t i = 0; i < ARRAY_COUNT(floods); i++) {
        uint8_t payload[8] = {0};

        memcpy(payload, floods[i].type == RAW_PRIORITY ? priority : increment, sizeof(increment));
        payload[4] = floods[i].type == RAW_PRIORITY;
        raw_preface(&out);
        raw_request(&out, 1, "/test.T/Chat", 0, NULL, NULL);
        raw_request(&out, 3, "/test.T/Unknown", RAW_END_STREAM, NULL, NULL);
        for (int n = 0; n < floods[i].count; n++)
            raw_frame(&out, floods[i].type, floods[i].flags, floods[i].stream, payload,
                      floods[i].length);
        sends_and_is_closed(&fixture, &out);
    }
    buf_close(&out);
    fixture_close(&fixture);
}

/* grpc-go does so, as client and as server. */
static void a_ping_beside_every_call_is_no_flood(void **state)
{
    struct fixture fixture;
    uint8_t unread[65536];
    struct buf out;
    int fd;

    (void)state;
    fixture_open(&fixture, NULL);
    fd = fixture_raw(&fixture);
    buf_init(&out);
    raw_preface(&out);
    for (uint32_t i = 0; i < 2000; i++) {
        raw_request(&out, 2 * i + 1, "/test.T/Echo", 0, NULL, NULL);
        raw_message(&out, 2 * i + 1, RAW_END_STREAM, "x");
        raw_frame(&out, RAW_PING, 0, 0, "12345678", 8);
        if (i % 50 == 49) {
            assert_true(raw_send(fd, &out));
            while (fixture.messages <= i) {
                fixture_run_ms(&fixture, 1);
                assert_int_not_equal(recv(fd, unread, sizeof(unread), MSG_DONTWAIT), 0);
            }
        }
    }
    close(fd);
    buf_close(&out);
    fixture_close(&fixture);
}

static void a_stalled_reader_costs_bounded_memory_and_is_closed(void **state)
{
    const struct rpc_server_config config = {.keepalive_ms = 200};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    uint8_t window[6] = {0, 4};
    uint64_t most = 0;
    int fd, small = 4096;

    (void)state;
    fixture_open(&fixture, &config);
    fixture.flood_left = 1000000;
    fd = fixture_raw(&fixture);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    buf_init(&out);
    raw_preface(&out);
    raw_u32(window + 2, 0x7fffffff); /* as much as HTTP/2 can ask for */
    raw_frame(&out, RAW_SETTINGS, 0, 0, window, 6);
    raw_u32(window, 0x7fff0000);
    raw_frame(&out, RAW_WINDOW, 0, 0, window, 4);
    raw_request(&out, 1, "/test.T/Flood", 0, NULL, NULL);
    raw_message(&out, 1, RAW_END_STREAM, "go");
    assert_true(raw_send(fd, &out));
    while (fixture.flood_sent == 0)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    while (fixture.cancels == 0) {
        rpc_server_get_stats(fixture.server, &stats);
        if (stats.bytes_buffered > most)
            most = stats.bytes_buffered;
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    assert_true(fixture.flood_left > 0);
    assert_true(most > 0);
    assert_true(most <= 256 << 10);
    close(fd);
    buf_close(&out);
    fixture_close(&fixture);
}

static void a_peer_that_drips_bytes_is_closed(void **state)
{
    const struct rpc_server_config config = {.keepalive_ms = 60};
    static const char drips[] = "PRI * HTTP/2.0\r\n";
    struct fixture fixture;
    ssize_t sent = 1;
    int fd;

    (void)state;
    fixture_open(&fixture, &config);
    fd = fixture_raw(&fixture);
    for (size_t i = 0; sent == 1 && i + 1 < sizeof(drips); i++) {
        sent = send(fd, drips + i, 1, MSG_NOSIGNAL);
        fixture_run_ms(&fixture, 20);
    }
    assert_int_equal(sent, -1); /* before the text was at its end */
    close(fd);
    fixture_close(&fixture);
}

static void connections_over_the_limit_are_closed_at_once(void **state)
{
    const struct rpc_server_config config = {.connections_max = 3};
    struct fixture fixture;
    struct rpc_server_stats stats;
    struct buf out;
    int fds[3], fd;

    (void)state;
    fixture_open(&fixture, &config);
    buf_init(&out);
    for (size_t i = 0; i < 3; i++) {
        fds[i] = fixture_raw(&fixture);
        raw_preface(&out);
        assert_true(raw_send(fds[i], &out));
    }
    buf_close(&out);
    fixture_run_ms(&fixture, 10);
    fd = fixture_raw(&fixture);
    assert_int_equal(fixture_raw_closed(&fixture, fd), 0);
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.connections, 3);
    assert_uint_equal(stats.refused_total, 1);
    close(fd);
    close(fds[0]);
    fixture_run_ms(&fixture, 10);
    fixture_still_answers(&fixture);
    close(fds[1]);
    close(fds[2]);
    fixture_close(&fixture);
}

static double processor_ms(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* Without a free descriptor the server neither spins nor stops listening: it spends libuv's
 * reserve, or else its own. */
static void out_of_descriptors(bool libuv_reserve)
{
    struct fixture fixture;
    struct rlimit before, low;
    int fds[8], spare[64];
    size_t opened = 0;
    double begin_ms;

    fixture_open(&fixture, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    /* the clients' descriptors exist, the server's ends do not yet */
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
        fds[i] = fixture_raw(&fixture);
    if (!libuv_reserve) {
        close(fixture.loop.emfile_fd);
        fixture.loop.emfile_fd = -1;
    }
    low = before;
    low.rlim_cur = (rlim_t)fds[ARRAY_COUNT(fds) - 1] + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (opened < ARRAY_COUNT(spare) && (spare[opened] = open("/dev/null", O_RDONLY)) >= 0)
        opened++;
    begin_ms = processor_ms();
    fixture_run_ms(&fixture, 200);
    assert_true(processor_ms() - begin_ms < 120);
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        assert_true(fixture_raw_closed(&fixture, fds[i]) >= 0); /* not left waiting */
        close(fds[i]);
    }
    for (size_t i = 0; i < opened; i++)
        close(spare[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    fixture_still_answers(&fixture);
    fixture_close(&fixture);
}

static void running_out_of_descriptors_does_not_stop_the_listener(void **state)
{
    (void)state;
    out_of_descriptors(true);
    out_of_descriptors(false);
}

static void an_idle_connection_is_ended_and_dialled_again_when_needed(void **state)
{
    const struct rpc_server_config config = {.idle_ms = 60, .keepalive_ms = 40};
    struct fixture fixture;
    struct rpc_server_stats stats;

    (void)state;
    fixture_open(&fixture, &config);
    fixture_still_answers(&fixture);
    fixture_run_ms(&fixture, 200);
    assert_false(rpc_channel_connected(fixture.channel));
    rpc_server_get_stats(fixture.server, &stats);
    assert_uint_equal(stats.connections, 0);
    fixture_still_answers(&fixture);
    fixture_close(&fixture);
}

static void a_silent_peer_is_pinged_and_given_up(void **state)
{
    const struct rpc_server_config config = {.keepalive_ms = 60};
    struct fixture fixture;
    struct buf out;
    int fd;

    (void)state;
    fixture_open(&fixture, &config);
    buf_init(&out);
    raw_preface(&out);
    raw_request(&out, 1, "/test.T/Hold", 0, NULL, NULL);
    raw_message(&out, 1, RAW_END_STREAM, "x");
    fd = fixture_raw(&fixture);
    assert_true(raw_send(fd, &out));
    while (fixture.held == NULL)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_true(fixture_raw_closed(&fixture, fd) > 0);
    assert_uint_equal(fixture.cancels, 1);
    close(fd);
    buf_close(&out);
    fixture_close(&fixture);
}

static void a_client_that_only_waits_is_kept(void **state)
{
    const struct rpc_server_config config = {.keepalive_ms = 40};
    const struct rpc_channel_config client = {.keepalive_ms = 40};
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, &config);
    fixture_channel(&fixture, &client);
    seen_unary(&fixture, &seen, "/test.T/Hold", "x", 0);
    fixture_run_ms(&fixture, 500);
    assert_false(seen.done);
    assert_non_null(fixture.held);
    rpc_call_reply(fixture.held, (const uint8_t *)"ok", 2);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    fixture_close(&fixture);
}

/* As soon as the owner wants it at this time. */
static void a_server_that_stopped_answering_is_noticed(void **state)
{
    const struct rpc_channel_config config = {.keepalive_ms = 600000};
    struct fixture fixture;
    struct seen seen;
    struct buf out;
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int listener, fd;

    (void)state;
    /* a listener that speaks HTTP/2 once and then never again, as a stopped process does */
    fixture_open(&fixture, NULL);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%d",
             ntohs(((struct sockaddr_in *)&address)->sin_port));
    fixture_channel(&fixture, &config);
    seen_unary(&fixture, &seen, "/test.T/Echo", "x", 0);
    fixture_run_ms(&fixture, 5);
    fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    buf_init(&out);
    raw_frame(&out, RAW_SETTINGS, 0, 0, NULL, 0);
    assert_true(raw_send(fd, &out));
    fixture_run_ms(&fixture, 200);
    assert_false(seen.done);
    rpc_client_call_keepalive(seen.call, 50);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    assert_true(seen.sent);
    close(fd);
    close(listener);
    buf_close(&out);
    fixture_close(&fixture);
}

/* The kernel answers for a process that never does; then its queue is full, and what comes is
 * dropped without an answer. */
static void a_dial_that_hangs_is_given_up(void **state)
{
    const struct rpc_channel_config config = {.connect_timeout_ms = 100};
    int fillers[4], listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%d",
             ntohs(((struct sockaddr_in *)&address)->sin_port));
    for (int full = 0; full < 2; full++) {
        for (size_t i = 0; full && i < ARRAY_COUNT(fillers); i++) {
            fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            (void)connect(fillers[i], (struct sockaddr *)&address, length);
        }
        fixture_channel(&fixture, &config);
        seen_unary(&fixture, &seen, "/test.T/Echo", "x", 0);
        assert_true(fixture_run(&fixture, &seen.done));
        assert_int_equal(seen.status, RPC_UNAVAILABLE);
        assert_false(seen.sent); /* it may be repeated elsewhere */
        if (!full)
            rpc_channel_free(fixture.channel);
    }
    for (size_t i = 0; i < ARRAY_COUNT(fillers); i++)
        close(fillers[i]);
    close(listener);
    fixture_close(&fixture);
}

static void draining_lets_calls_finish_and_takes_no_new_ones(void **state)
{
    struct fixture fixture;
    struct seen held, late;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &held, "/test.T/Hold", "x", 0);
    while (fixture.held == NULL)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    rpc_server_drain(fixture.server, 5000, fixture_drained, &fixture);
    fixture_run_ms(&fixture, 20);
    assert_false(fixture.drained);
    assert_false(held.done);
    seen_unary(&fixture, &late, "/test.T/Echo", "x", 0);
    assert_true(fixture_run(&fixture, &late.done));
    assert_int_equal(late.status, RPC_UNAVAILABLE);
    assert_false(late.sent);
    assert_false(held.done);
    rpc_call_reply(fixture.held, (const uint8_t *)"done", 4);
    assert_true(fixture_run(&fixture, &held.done));
    assert_int_equal(held.status, RPC_OK);
    assert_true(fixture_run(&fixture, &fixture.drained));
    assert_uint_equal(fixture.cancels, 0);
    fixture_close(&fixture);
}

static void a_drain_ends_after_its_grace_even_with_open_calls(void **state)
{
    struct fixture fixture;
    struct seen held;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &held, "/test.T/Hold", "x", 0);
    while (fixture.held == NULL)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    rpc_server_drain(fixture.server, 30, fixture_drained, &fixture);
    assert_true(fixture_run(&fixture, &fixture.drained));
    assert_false(held.done);
    fixture_free_server(&fixture);
    assert_true(fixture_run(&fixture, &held.done));
    assert_int_equal(held.status, RPC_UNAVAILABLE);
    assert_uint_equal(fixture.cancels, 1);
    fixture_close(&fixture);
}

static void a_channel_finds_a_server_that_comes_later(void **state)
{
    const struct rpc_channel_config config = {.backoff_min_ms = 5, .backoff_max_ms = 20};
    struct fixture fixture;
    struct seen impatient, patient = {0};
    struct err err;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_free_server(&fixture);
    assert_true(fixture_run(&fixture, &fixture.freed));
    fixture_channel(&fixture, &config);
    rpc_channel_unary(fixture.channel,
                      &(struct rpc_request){.path = "/test.T/Nothing",
                                            .bytes = (const uint8_t *)"x",
                                            .length = 1,
                                            .wait_for_ready = true},
                      &seen_handlers, &patient);
    seen_unary(&fixture, &impatient, "/test.T/Nothing", "x", 0);
    assert_true(fixture_run(&fixture, &impatient.done));
    assert_int_equal(impatient.status, RPC_UNAVAILABLE);
    assert_non_null(strstr(impatient.text, "connection refused"));
    assert_false(patient.done);
    fixture.freed = false;
    fixture.server = rpc_server_new(&fixture.loop, NULL);
    assert_int_equal(rpc_server_listen(fixture.server, fixture.address, &err), 0);
    assert_true(fixture_run(&fixture, &patient.done));
    assert_int_equal(patient.status, RPC_UNIMPLEMENTED); /* by the server: it was reached */
    fixture_close(&fixture);
}

/* However long it was away: the pause between two attempts stops growing at a second. */
static void a_server_that_was_away_for_long_is_found_within_seconds(void **state)
{
    enum { AWAY_MS = 4000, FOUND_MS = 2000 };
    struct fixture fixture;
    struct seen patient = {0};
    struct err err;
    uint64_t begin_ms;

    (void)state;
    fixture_open(&fixture, NULL);
    fixture_free_server(&fixture);
    assert_true(fixture_run(&fixture, &fixture.freed));
    fixture_channel(&fixture, NULL);
    rpc_channel_unary(fixture.channel,
                      &(struct rpc_request){.path = "/test.T/Nothing",
                                            .bytes = (const uint8_t *)"x",
                                            .length = 1,
                                            .wait_for_ready = true},
                      &seen_handlers, &patient);
    begin_ms = uv_now(&fixture.loop);
    while (uv_now(&fixture.loop) < begin_ms + AWAY_MS)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_false(patient.done);
    fixture.freed = false;
    fixture.server = rpc_server_new(&fixture.loop, NULL);
    assert_int_equal(rpc_server_listen(fixture.server, fixture.address, &err), 0);
    begin_ms = uv_now(&fixture.loop);
    assert_true(fixture_run(&fixture, &patient.done));
    assert_int_equal(patient.status, RPC_UNIMPLEMENTED); /* by the server: it was reached */
    assert_true(uv_now(&fixture.loop) - begin_ms < FOUND_MS);
    fixture_close(&fixture);
}

static void names_are_looked_up_and_wrong_addresses_end_calls(void **state)
{
    struct fixture fixture;
    struct seen seen;

    (void)state;
    fixture_open(&fixture, NULL);
    snprintf(fixture.address, sizeof(fixture.address), "localhost:%d", fixture.port);
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Echo", "by name", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_OK);
    rpc_channel_free(fixture.channel);
    strcpy(fixture.address, "no port");
    fixture_channel(&fixture, NULL);
    seen_unary(&fixture, &seen, "/test.T/Echo", "x", 0);
    assert_true(fixture_run(&fixture, &seen.done));
    assert_int_equal(seen.status, RPC_UNAVAILABLE);
    assert_non_null(strstr(seen.text, "not host:port"));
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_not_http2_close_the_connection),
        cmocka_unit_test(random_bytes_never_harm_the_server),
        cmocka_unit_test(a_connection_cut_in_a_frame_frees_its_call),
        cmocka_unit_test(a_compressed_message_and_a_bad_timeout_are_refused),
        cmocka_unit_test(what_is_no_grpc_request_gets_a_plain_http_status),
        cmocka_unit_test(huge_headers_are_refused),
        cmocka_unit_test(rapid_resets_end_the_connection),
        cmocka_unit_test(floods_of_control_frames_end_the_connection),
        cmocka_unit_test(a_ping_beside_every_call_is_no_flood),
        cmocka_unit_test(a_stalled_reader_costs_bounded_memory_and_is_closed),
        cmocka_unit_test(a_peer_that_drips_bytes_is_closed),
        cmocka_unit_test(connections_over_the_limit_are_closed_at_once),
        cmocka_unit_test(running_out_of_descriptors_does_not_stop_the_listener),
        cmocka_unit_test(an_idle_connection_is_ended_and_dialled_again_when_needed),
        cmocka_unit_test(a_silent_peer_is_pinged_and_given_up),
        cmocka_unit_test(a_client_that_only_waits_is_kept),
        cmocka_unit_test(a_server_that_stopped_answering_is_noticed),
        cmocka_unit_test(a_dial_that_hangs_is_given_up),
        cmocka_unit_test(draining_lets_calls_finish_and_takes_no_new_ones),
        cmocka_unit_test(a_drain_ends_after_its_grace_even_with_open_calls),
        cmocka_unit_test(a_channel_finds_a_server_that_comes_later),
        cmocka_unit_test(a_server_that_was_away_for_long_is_found_within_seconds),
        cmocka_unit_test(names_are_looked_up_and_wrong_addresses_end_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
