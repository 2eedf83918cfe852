/* Streams of libuv's network table: reading by turns, what waits to be sent, half an end, who is
 * there. */
#include "tests/support/test.h"

#include <unistd.h>

#include "src/base/check.h"
#include "src/net/uv_network.h"

enum { RUN_MS = 5000, LARGE_BYTES = 8 << 20 };

struct end {
    struct network_stream *stream;
    size_t readable, received, drained, closed;
    char reason[ERR_TEXT_BYTES];
    bool opened;
};

static uv_loop_t loop;
static struct network_ops network;
static struct network_listener *listener;
static struct end client, server;
static bool by_turns; /* of the server's end */

static void on_opened(void *data)
{
    ((struct end *)data)->opened = true;
}

static void (*while_received)(void); /* or NULL: nothing else goes on */

static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    if (while_received != NULL) {
        const uint8_t first = bytes[0];

        while_received();
        for (size_t i = 0; i < length; i++)
            assert_uint_equal(bytes[i], first);
    }
    ((struct end *)data)->received += length;
}

static void on_closed(void *data, const struct err *err)
{
    struct end *end = data;

    end->stream = NULL;
    end->closed++;
    snprintf(end->reason, sizeof(end->reason), "%s", err->text);
}

static void on_readable(void *data)
{
    ((struct end *)data)->readable++;
}

static void on_drained(void *data)
{
    ((struct end *)data)->drained++;
}

static struct network_events events_of(struct end *end)
{
    return (struct network_events){.data = end,
                                   .opened = on_opened,
                                   .received = on_received,
                                   .closed = on_closed,
                                   .drained = on_drained};
}

static void on_accepted(void *data, struct network_stream *stream)
{
    struct network_events events = events_of(&server);

    (void)data;
    if (by_turns)
        events.readable = on_readable;
    server.stream = stream;
    network.start(stream, &events);
}

static void run_until(const size_t *count, size_t wanted)
{
    uint64_t end_ns = uv_hrtime() + RUN_MS * UINT64_C(1000000);

    while (*count < wanted && uv_hrtime() < end_ns)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(*count >= wanted);
}

static void run_some(void)
{
    for (int i = 0; i < 50; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(500);
    }
}

static void open_both(const char *address, bool turns)
{
    const struct network_events events = events_of(&client);
    char text[64];
    struct err err;

    client = (struct end){.opened = false};
    server = (struct end){.opened = false};
    by_turns = turns;
    assert_int_equal(uv_loop_init(&loop), 0);
    network_uv_ops(&loop, &network);
    assert_int_equal(network.listen(network.context, address, on_accepted, NULL, &listener, &err),
                     0);
    snprintf(text, sizeof(text), "127.0.0.1:%d", network.port(listener));
    client.stream =
        network.connect(network.context, network.port(listener) < 0 ? address : text, &events);
    while (!client.opened || server.stream == NULL)
        uv_run(&loop, UV_RUN_ONCE);
}

static void close_both(void)
{
    network.close(client.stream);
    network.close(server.stream);
    network.listener_close(listener);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void bytes_send(struct end *end, size_t length)
{
    network.send(end->stream, check_calloc(length, 1), length);
}

static void a_stream_that_takes_turns_reads_when_it_is_its_turn(void **state)
{
    (void)state;
    open_both("127.0.0.1:0", true);
    bytes_send(&client, NETWORK_READ_BYTES + 100);
    run_until(&server.readable, 1);
    run_some();
    assert_uint_equal(server.readable, 1); /* told once */
    assert_uint_equal(server.received, 0);
    assert_true(network.read(server.stream));
    assert_uint_equal(server.received, NETWORK_READ_BYTES);
    run_some();
    assert_uint_equal(server.readable, 1); /* it knows that there is more */
    assert_false(network.read(server.stream));
    assert_uint_equal(server.received, NETWORK_READ_BYTES + 100);
    bytes_send(&client, 7);
    run_until(&server.readable, 2);
    assert_false(network.read(server.stream));
    assert_uint_equal(server.received, NETWORK_READ_BYTES + 107);
    close_both();
}

static void who_does_not_read_holds_the_sender_up(void **state)
{
    (void)state;
    open_both("127.0.0.1:0", true);
    bytes_send(&client, LARGE_BYTES);
    run_until(&server.readable, 1);
    run_some();
    assert_true(network.unsent_bytes(client.stream) > LARGE_BYTES / 4);
    assert_uint_equal(client.drained, 0);
    while (server.received < LARGE_BYTES) {
        size_t readable = server.readable;

        while (network.read(server.stream))
            uv_run(&loop, UV_RUN_NOWAIT);
        if (server.received < LARGE_BYTES)
            run_until(&server.readable, readable + 1);
    }
    run_until(&client.drained, 1);
    assert_uint_equal(client.drained, 1);
    assert_uint_equal(network.unsent_bytes(client.stream), 0);
    close_both();
}

/* ---- a blocking call in the middle of a stream: another loop of the same thread ---- */

static struct network_ops inner_network;
static struct network_stream *inner_server;
static size_t inner_received;

static void inner_opened(void *data)
{
    (void)data;
}

static void inner_took(void *data, const uint8_t *bytes, size_t length)
{
    (void)data, (void)bytes;
    inner_received += length;
}

static void inner_closed(void *data, const struct err *err)
{
    (void)data, (void)err;
}

static const struct network_events inner_events = {.opened = inner_opened,
                                                   .received = inner_took,
                                                   .closed = inner_closed,
                                                   .drained = inner_opened};

static void inner_accepted(void *data, struct network_stream *stream)
{
    (void)data;
    inner_server = stream;
    inner_network.start(stream, &inner_events);
}

static void call_on_another_loop(void)
{
    struct network_listener *inner_listener;
    struct network_stream *stream;
    struct err err;
    char text[64];
    uint8_t *bytes = check_alloc(1000);
    uv_loop_t inner;

    while_received = NULL;
    memset(bytes, 'B', 1000);
    assert_int_equal(uv_loop_init(&inner), 0);
    network_uv_ops(&inner, &inner_network);
    assert_int_equal(inner_network.listen(inner_network.context, "127.0.0.1:0", inner_accepted,
                                          NULL, &inner_listener, &err),
                     0);
    snprintf(text, sizeof(text), "127.0.0.1:%d", inner_network.port(inner_listener));
    stream = inner_network.connect(inner_network.context, text, &inner_events);
    while (inner_server == NULL)
        uv_run(&inner, UV_RUN_ONCE);
    inner_network.send(stream, bytes, 1000);
    while (inner_received < 1000)
        uv_run(&inner, UV_RUN_ONCE);
    inner_network.close(stream);
    inner_network.close(inner_server);
    inner_network.listener_close(inner_listener);
    uv_run(&inner, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&inner), 0);
    inner_server = NULL;
    inner_received = 0;
}

static void what_was_received_stays_while_another_loop_runs(void **state)
{
    (void)state;
    for (int turns = 0; turns <= 1; turns++) {
        open_both("127.0.0.1:0", turns == 1);
        while_received = call_on_another_loop;
        bytes_send(&client, 1000);
        if (turns == 1) {
            run_until(&server.readable, 1);
            network.read(server.stream);
        }
        run_until(&server.received, 1000);
        while_received = NULL;
        close_both();
    }
}

static void the_end_is_told_by_the_read_that_finds_it(void **state)
{
    (void)state;
    open_both("127.0.0.1:0", true);
    bytes_send(&client, 5);
    network.finish(client.stream);
    run_until(&server.readable, 1);
    if (!network.read(server.stream))
        run_until(&server.readable, 2);
    assert_uint_equal(server.received, 5);
    assert_uint_equal(server.closed, 0);
    assert_false(network.read(server.stream));
    assert_uint_equal(server.closed, 1);
    assert_string_equal(server.reason, "connection closed by peer");
    run_until(&client.closed, 1); /* its other half */
    close_both();
}

static void the_kernel_says_who_is_at_a_unix_socket(void **state)
{
    char path[64], address[80];
    struct network_peer peer;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/test_uv_streams.%d", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", path);
    open_both(address, false);
    network.peer(server.stream, &peer);
    assert_true(peer.local);
    assert_int_equal(peer.pid, getpid());
    assert_int_equal(peer.uid, getuid());
    assert_string_equal(peer.address, "unix");
    close_both();
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_that_takes_turns_reads_when_it_is_its_turn),
        cmocka_unit_test(who_does_not_read_holds_the_sender_up),
        cmocka_unit_test(what_was_received_stays_while_another_loop_runs),
        cmocka_unit_test(the_end_is_told_by_the_read_that_finds_it),
        cmocka_unit_test(the_kernel_says_who_is_at_a_unix_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
