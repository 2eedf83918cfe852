/* A network table that can be cut: its users hear it as the loss of the other end, dial in vain
 * meanwhile, and come through afterwards. V-015 */
#include "tests/support/test.h"

#include <stdlib.h>

#include "src/net/cut_network.h"
#include "src/net/uv_network.h"

enum { RUN_MS = 5000 };

struct end {
    struct network_stream *stream;
    size_t received, closed;
    bool opened;
};

static uv_loop_t loop;
static struct network_ops plain, network;
static struct cut_network cut;
static struct network_listener *listener;
static struct end client, server;
static size_t accepted_count;
static char address[64];

static void on_opened(void *data)
{
    ((struct end *)data)->opened = true;
}

static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    (void)bytes;
    ((struct end *)data)->received += length;
}

static void on_closed(void *data, const struct err *err)
{
    struct end *end = data;

    assert_true(err->text[0] != '\0');
    end->stream = NULL;
    end->closed++;
}

static struct network_events events_of(struct end *end)
{
    return (struct network_events){
        .data = end, .opened = on_opened, .received = on_received, .closed = on_closed};
}

static void on_accepted(void *data, struct network_stream *stream)
{
    const struct network_events events = events_of(&server);

    (void)data;
    assert_non_null(stream);
    accepted_count++;
    server.stream = stream;
    network.start(stream, &events);
}

static void give_up(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void run_until(bool (*holds)(void))
{
    bool late = false;
    uv_timer_t guard;

    uv_timer_init(&loop, &guard);
    guard.data = &late;
    uv_update_time(&loop);
    uv_timer_start(&guard, give_up, RUN_MS, 0);
    while (!late && !holds())
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(late);
}

static bool connected(void)
{
    return client.opened && server.stream != NULL;
}

static bool both_closed(void)
{
    return client.closed > 0 && server.closed > 0;
}

static bool client_closed(void)
{
    return client.closed > 0;
}

static bool server_received(void)
{
    return server.received > 0;
}

/* The member that is cut has one end of each; the client's end is another member's, or its own. */
static void dial(const struct network_ops *ops)
{
    const struct network_events events = events_of(&client);

    client = server = (struct end){0};
    client.stream = ops->connect(ops->context, address, &events);
}

static void end_client(const struct network_ops *ops)
{
    if (client.stream != NULL)
        ops->close(client.stream);
    client.stream = NULL;
}

static int open_network(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    network_uv_ops(&loop, &plain);
    network = plain;
    cut_network_ops(&cut, &network);
    accepted_count = 0;
    assert_int_equal(
        network.listen(network.context, "127.0.0.1:0", on_accepted, NULL, &listener, &err), 0);
    snprintf(address, sizeof(address), "127.0.0.1:%d", network.port(listener));
    return 0;
}

static int close_network(void **state)
{
    (void)state;
    if (server.stream != NULL)
        network.close(server.stream);
    network.listener_close(listener);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(list_empty(&cut.streams));
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void send_byte(const struct network_ops *ops)
{
    uint8_t *byte = malloc(1);

    assert_non_null(byte);
    *byte = 'x';
    ops->send(client.stream, byte, 1);
}

static void a_whole_one_changes_nothing(void **state)
{
    struct network_peer peer;

    (void)state;
    dial(&network);
    run_until(connected);
    send_byte(&network);
    run_until(server_received);
    network.peer(server.stream, &peer);
    assert_true(strncmp(peer.address, "127.0.0.1:", 10) == 0);
    assert_int_equal(network.unsent_bytes(client.stream), 0);
    end_client(&network);
}

static void a_cut_ends_what_is_open_on_both_sides(void **state)
{
    (void)state;
    dial(&plain); /* of another member */
    run_until(connected);
    cut_network_set(&cut, true);
    assert_int_equal(server.closed, 1);
    run_until(client_closed);
}

static void what_is_dialled_meanwhile_ends_and_nothing_is_accepted(void **state)
{
    (void)state;
    cut_network_set(&cut, true);
    dial(&network);
    run_until(client_closed);
    assert_false(client.opened);
    dial(&plain);
    run_until(client_closed);
    assert_int_equal(accepted_count, 0);
    cut_network_set(&cut, false);
    dial(&network);
    run_until(connected);
    assert_int_equal(accepted_count, 1);
    cut_network_set(&cut, true);
    run_until(both_closed);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, open_network, close_network)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_whole_one_changes_nothing),
        WITH(a_cut_ends_what_is_open_on_both_sides),
        WITH(what_is_dialled_meanwhile_ends_and_nothing_is_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
