/* Newcomers at a member's port: who may be in, and that those who say nothing keep nobody out. */
#include "raft/net/transport.h"
#include "src/base/check.h"
#include "tests/support/test.h"

/* ---- a network of which only the accepting side exists ---- */

struct network_stream {
    struct network_events events;
    bool closed;
    bool is_member; /* what peer_is() answers */
};

static void (*accept_stream)(void *data, struct network_stream *stream);
static void *accept_data;
static uint64_t now_us;
static size_t greeted, closed, connects;
static char dialled[64]; /* the last one */

static int fake_listen(void *context, const char *address,
                       void (*accepted)(void *data, struct network_stream *stream), void *data,
                       struct network_listener **ret_listener, struct err *err)
{
    (void)context;
    (void)address;
    (void)ret_listener;
    (void)err;
    accept_stream = accepted;
    accept_data = data;
    return 0;
}

static void fake_listener_close(struct network_listener *listener)
{
    (void)listener;
}

/* Nobody answers. */
static struct network_stream *fake_connect(void *context, const char *address,
                                           const struct network_events *events)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    (void)context;
    snprintf(dialled, sizeof(dialled), "%s", address);
    connects++;
    stream->events = *events;
    return stream;
}

static void fake_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
}

static void fake_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    (void)stream;
    (void)length;
    free(take_bytes);
}

static size_t fake_unsent(const struct network_stream *stream)
{
    (void)stream;
    return 0;
}

static bool fake_peer_is(struct network_stream *stream, uint64_t member_id)
{
    return stream->is_member && member_id == 2;
}

static void fake_close(struct network_stream *stream)
{
    if (stream == NULL)
        return;
    closed++;
    free(stream);
}

static uint64_t clock_monotonic(void *context)
{
    (void)context;
    return now_us;
}

/* ---- the member ---- */

static void on_hello(void *context, const struct frame_hello *hello,
                     struct frame_hello_reply *ret_reply)
{
    (void)context;
    (void)hello;
    ret_reply->welcome = FRAME_WELCOME;
}

static void on_greeted(void *context, uint64_t peer)
{
    (void)context;
    assert_uint_equal(peer, 2);
    greeted++;
}

static void on_lost(void *context, uint64_t peer)
{
    (void)context;
    (void)peer;
}

static uint64_t on_last_index(void *context)
{
    (void)context;
    return 1;
}

static struct network_ops network;
static struct clock_ops clock_table;
static struct consensus_member members[2];
static struct transport transport;

static void open_transport(bool proves)
{
    const struct transport_events events = {.hello = on_hello,
                                            .greeted = on_greeted,
                                            .inbound_lost = on_lost,
                                            .outbound_lost = on_lost,
                                            .last_index = on_last_index};
    struct consensus_config config = {.member_id = 1,
                                      .cluster_id = "demo",
                                      .members = members,
                                      .member_count = 2,
                                      .clock = &clock_table,
                                      .network = &network};
    struct err err;

    network = (struct network_ops){.listen = fake_listen,
                                   .listener_close = fake_listener_close,
                                   .connect = fake_connect,
                                   .start = fake_start,
                                   .send = fake_send,
                                   .unsent_bytes = fake_unsent,
                                   .peer_is = proves ? fake_peer_is : NULL,
                                   .close = fake_close};
    clock_table.monotonic_us = clock_monotonic;
    now_us = 1000000;
    greeted = closed = connects = 0;
    members[0] = (struct consensus_member){.id = 1, .name = "n1", .address = "a:1"};
    members[1] = (struct consensus_member){.id = 2, .name = "n2", .address = "b:1"};
    transport_init(&transport, &config, &events);
    assert_int_equal(transport_listen(&transport, "a:1", &err), 0);
}

static struct network_stream *arrive(void)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    accept_stream(accept_data, stream);
    return stream;
}

static void say_hello(struct network_stream *stream, uint64_t from)
{
    struct frame_message message = {.type = FRAME_HELLO};
    struct buf buf;

    snprintf(message.hello.cluster_id, sizeof(message.hello.cluster_id), "demo");
    snprintf(message.hello.name, sizeof(message.hello.name), "n%" PRIu64, from);
    snprintf(message.hello.address, sizeof(message.hello.address), "b:1");
    message.hello.from = from;
    message.hello.to = 1;
    buf_init(&buf);
    frame_encode(&buf, &message);
    stream->events.received(stream->events.data, buf.bytes, buf.length);
    buf_close(&buf);
}

static void silent_strangers_keep_no_member_out(void **state)
{
    struct network_stream *member;

    (void)state;
    open_transport(false);
    for (int i = 0; i < 10 * TRANSPORT_GREETING_MAX; i++)
        arrive();
    assert_uint_equal(transport.greeting_count, TRANSPORT_GREETING_MAX); /* and no more are held */
    member = arrive();
    for (int i = 0; i < TRANSPORT_GREETING_MAX / 2; i++)
        arrive();
    say_hello(member, 2);
    assert_uint_equal(greeted, 1);
    for (int i = 0; i < 10 * TRANSPORT_GREETING_MAX; i++)
        arrive();
    assert_non_null(transport_peer(&transport, 2)->in); /* who is in stays in */
    now_us += UINT64_C(1000) * TRANSPORT_GREETING_MS + 1;
    transport_tick(&transport);
    assert_uint_equal(transport.greeting_count, 0);
    transport_close(&transport);
}

/* I11 and the rule of certificates: a hello is believed only of whom the network has seen to be
 * that member. */
static void a_hello_in_anothers_name_is_refused(void **state)
{
    struct network_stream *stream;
    size_t before;

    (void)state;
    open_transport(true);
    before = closed;
    stream = arrive();
    stream->is_member = false;
    say_hello(stream, 2);
    assert_uint_equal(greeted, 0);
    assert_uint_equal(closed, before + 1);
    stream = arrive();
    stream->is_member = true;
    say_hello(stream, 3); /* it is member 2 */
    assert_uint_equal(greeted, 0);
    assert_uint_equal(closed, before + 2);
    stream = arrive();
    stream->is_member = true;
    say_hello(stream, 2);
    assert_uint_equal(greeted, 1);
    transport_close(&transport);
}

/* The old host is gone, and a dial to it under way. */
static void a_member_that_moved_is_dialled_where_it_says_hello_from(void **state)
{
    struct consensus_member moved = {.id = 2, .name = "n2", .address = "c:1"};

    (void)state;
    open_transport(false);
    assert_string_equal(dialled, "b:1");
    now_us += UINT64_C(1000) * 150;
    assert_true(transport_put(&transport, &moved));
    say_hello(arrive(), 2);
    assert_string_equal(dialled, "c:1");
    transport_close(&transport);
}

/* A peer whose host drops everything: neither connected nor refused. */
static void a_dial_that_hangs_is_given_up_and_repeated(void **state)
{
    (void)state;
    open_transport(false);
    for (size_t dials = 1; dials <= 5; dials++) {
        transport_tick(&transport);
        assert_uint_equal(connects, dials);
        now_us += UINT64_C(1000) * TRANSPORT_DIAL_TIMEOUT_MS;
        transport_tick(&transport);
        assert_uint_equal(closed, dials - 1);
        now_us++;
        transport_tick(&transport);
        assert_uint_equal(closed, dials);
        now_us += UINT64_C(1000) * TRANSPORT_BACKOFF_MAX_MS;
    }
    transport_close(&transport);
}

/* Its connection of before is gone; its hello was under way for longer than that of the next one,
 * by whoever it was sent. */
static void a_hello_on_an_older_connection_takes_no_place(void **state)
{
    struct network_stream *older, *newer;
    const struct inbound *in;
    size_t before;

    (void)state;
    open_transport(false);
    older = arrive();
    newer = arrive();
    say_hello(newer, 2);
    in = transport_peer(&transport, 2)->in;
    assert_non_null(in);
    before = closed;
    say_hello(older, 2);
    assert_uint_equal(greeted, 1);
    assert_uint_equal(closed, before + 1);
    assert_ptr_equal(transport_peer(&transport, 2)->in, in);
    say_hello(arrive(), 2);
    assert_uint_equal(greeted, 2);
    transport_close(&transport);
}

/* As many copies as there are places call; one that answers in a member's place says that this
 * member is none of ours. */
static void copies_that_call_hide_none_that_answers(void **state)
{
    struct consensus_foreign said = {.id = 2, .incarnation = 9};
    size_t answering = 0;

    (void)state;
    open_transport(false);
    transport.incarnation = 5;
    for (unsigned i = 0; i < 2 * CONSENSUS_MEMBERS_MAX; i++) {
        snprintf(said.address, sizeof(said.address), "copy:%u", i + 1);
        transport_incarnation(&transport, &said);
    }
    said.answers = true;
    snprintf(said.address, sizeof(said.address), "b:1");
    transport_incarnation(&transport, &said);
    for (size_t i = 0; i < CONSENSUS_MEMBERS_MAX; i++)
        answering += transport.foreign[i].who.answers;
    assert_uint_equal(answering, 1);
    transport_close(&transport);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_strangers_keep_no_member_out),
        cmocka_unit_test(a_hello_in_anothers_name_is_refused),
        cmocka_unit_test(a_member_that_moved_is_dialled_where_it_says_hello_from),
        cmocka_unit_test(a_hello_on_an_older_connection_takes_no_place),
        cmocka_unit_test(a_dial_that_hangs_is_given_up_and_repeated),
        cmocka_unit_test(copies_that_call_hide_none_that_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
