/* TLS around a network table that lives in memory: who gets through, what is told of the others,
 * and that streams end once, however and whenever they end. S11: the end of a connection is told at
 * once. */
#include "src/base/check.h"
#include "src/net/tls_network.h"
#include "tests/support/tls_site.h"

enum { STREAMS_MAX = 64 };

/* ---- a network in memory: bytes wait until deliver() ---- */

struct network_stream {
    struct network_stream *other; /* NULL: gone */
    struct network_events events;
    struct buf waiting; /* on their way to us */
    bool dialled, told, started, lost;
};

struct network_listener {
    void (*accepted)(void *data, struct network_stream *stream);
    void *data;
};

static struct network_listener *listening;
static struct network_stream *streams[STREAMS_MAX];
static size_t stream_count;

static struct network_stream *memory_new(void)
{
    struct network_stream *stream = check_calloc(1, sizeof(*stream));

    assert_true(stream_count < STREAMS_MAX);
    streams[stream_count++] = stream;
    buf_init(&stream->waiting);
    return stream;
}

static void memory_drop(struct network_stream *stream)
{
    for (size_t i = 0; i < stream_count; i++) {
        if (streams[i] == stream)
            streams[i] = streams[--stream_count];
    }
    if (stream->other != NULL) {
        stream->other->other = NULL;
        stream->other->lost = true;
    }
    buf_close(&stream->waiting);
    free(stream);
}

static int memory_listen(void *context, const char *address,
                         void (*accepted)(void *data, struct network_stream *stream), void *data,
                         struct network_listener **ret_listener, struct err *err)
{
    (void)context;
    (void)err;
    assert_string_equal(address, "here");
    listening = check_calloc(1, sizeof(*listening));
    *listening = (struct network_listener){accepted, data};
    *ret_listener = listening;
    return 0;
}

static void memory_listener_close(struct network_listener *listener)
{
    assert_ptr_equal(listener, listening);
    listening = NULL;
    free(listener);
}

static struct network_stream *memory_connect(void *context, const char *address,
                                             const struct network_events *events)
{
    struct network_stream *stream = memory_new();

    (void)context;
    stream->dialled = true;
    stream->events = *events;
    stream->lost = strcmp(address, "here") != 0;
    return stream;
}

static void memory_start(struct network_stream *stream, const struct network_events *events)
{
    stream->events = *events;
    stream->started = true;
}

static void memory_send(struct network_stream *stream, uint8_t *take_bytes, size_t length)
{
    if (stream->other != NULL)
        buf_append(&stream->other->waiting, take_bytes, length);
    free(take_bytes);
}

static size_t memory_unsent(const struct network_stream *stream)
{
    return stream->other == NULL ? 0 : stream->other->waiting.length;
}

static void memory_peer(const struct network_stream *stream, struct network_peer *ret_peer)
{
    (void)stream;
    *ret_peer = (struct network_peer){.address = "10.0.0.9:1", .pid = -1};
}

static void memory_close(struct network_stream *stream)
{
    if (stream != NULL)
        memory_drop(stream);
}

/* One event, if there is one: in pieces, so that records are cut. */
static bool deliver_one(struct network_stream *stream, size_t piece)
{
    uint8_t bytes[4096];
    size_t length = stream->waiting.length < piece ? stream->waiting.length : piece;

    if (stream->dialled && !stream->told && !stream->lost) {
        struct network_stream *accepted = memory_new();

        stream->told = true;
        stream->other = accepted;
        accepted->other = stream;
        listening->accepted(listening->data, accepted);
        stream->events.opened(stream->events.data);
        return true;
    }
    if (length > 0 && (stream->dialled || stream->started)) {
        memcpy(bytes, stream->waiting.bytes, length);
        buf_consume(&stream->waiting, length);
        stream->events.received(stream->events.data, bytes, length);
        return true;
    }
    if (stream->lost && stream->events.closed != NULL) {
        struct network_events events = stream->events;
        struct err err;

        err_set(&err, ERR_UNAVAILABLE, "end of the line");
        memory_drop(stream); /* as the table promises: freed, then told */
        events.closed(events.data, &err);
        return true;
    }
    return false;
}

static void deliver(size_t piece)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < stream_count && !more; i++)
            more = deliver_one(streams[i], piece);
    }
}

/* ---- a clock that the test turns ---- */

struct clock_timer {
    void (*fire)(void *data);
    void *data;
    bool started;
    struct clock_timer *next;
};
static struct clock_timer *timers;
static uint64_t clock_us, clock_step_us; /* the latter passes with each look */

static uint64_t monotonic_us(void *context)
{
    (void)context;
    return clock_us += clock_step_us;
}

static struct clock_timer *timer_new(void *context, void (*fire)(void *data), void *data)
{
    struct clock_timer *timer = check_calloc(1, sizeof(*timer));

    (void)context;
    *timer = (struct clock_timer){.fire = fire, .data = data, .next = timers};
    timers = timer;
    return timer;
}

static void timer_start(struct clock_timer *timer, uint64_t delay_us)
{
    assert_int_equal(delay_us, UINT64_C(1000) * TLS_NETWORK_MEMBERS_MS);
    timer->started = true;
}

static void timer_stop(struct clock_timer *timer)
{
    timer->started = false;
}

static void timer_free(struct clock_timer *timer)
{
    struct clock_timer **at = &timers;

    if (timer == NULL)
        return;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    free(timer);
}

static void time_passes(void)
{
    clock_us += UINT64_C(1000) * TLS_NETWORK_MEMBERS_MS;
    for (bool more = true; more;) {
        more = false;
        for (struct clock_timer *timer = timers; timer != NULL && !more; timer = timer->next) {
            more = timer->started;
            if (more) {
                timer->started = false;
                timer->fire(timer->data);
            }
        }
    }
}

static const struct clock_ops clock_table = {.monotonic_us = monotonic_us,
                                             .timer_new = timer_new,
                                             .timer_start = timer_start,
                                             .timer_stop = timer_stop,
                                             .timer_free = timer_free};

/* ---- two members ---- */

struct member {
    struct site *site;
    struct tls_context *context;
    struct tls_network network;
    struct network_ops ops;
    char refused[512], address[64];
    size_t refused_count;
};

struct user {
    struct member *member;
    struct network_stream *stream;
    size_t opened, closed;
    struct buf received;
    char reason[512];
    uint64_t expected;    /* ask for this id when it opens; 0: do not ask */
    bool close_on_opened; /* inside the event */
    bool close_on_received;
    bool is;
};

static struct site site;
static struct member one, two;
static struct user dialler, acceptor;
static struct network_listener *listener;

static void on_refused(void *data, const char *address, const char *text)
{
    struct member *member = data;

    member->refused_count++;
    snprintf(member->refused, sizeof(member->refused), "%s", text);
    snprintf(member->address, sizeof(member->address), "%s", address);
}

static void user_close(struct user *user)
{
    struct network_stream *stream = user->stream;

    user->stream = NULL;
    user->member->ops.close(stream);
}

static void on_opened(void *data)
{
    struct user *user = data;

    user->opened++;
    if (user->expected != 0)
        user->is = user->member->ops.peer_is(user->stream, user->expected);
    if (user->close_on_opened || (user->expected != 0 && !user->is))
        user_close(user);
}

static void on_received(void *data, const uint8_t *bytes, size_t length)
{
    struct user *user = data;

    buf_append(&user->received, bytes, length);
    if (user->close_on_received)
        user_close(user);
}

static void on_closed(void *data, const struct err *err)
{
    struct user *user = data;

    user->closed++;
    user->stream = NULL;
    snprintf(user->reason, sizeof(user->reason), "%s", err->text);
}

static void on_readable(void *data)
{
    (void)data;
    fail_msg("the network in memory hands everything over by itself");
}

static void on_accepted(void *data, struct network_stream *stream)
{
    const struct network_events events = {
        .data = &acceptor,
        .opened = on_opened,
        .received = on_received,
        .closed = on_closed,
        .readable = acceptor.member->network.wake == NULL ? NULL : on_readable};

    (void)data;
    acceptor.stream = stream;
    acceptor.member->ops.start(stream, &events);
}

static void member_open(struct member *member, struct site *of, enum tls_kind kind,
                        const char *name)
{
    memset(member, 0, sizeof(*member));
    member->site = of;
    member->context = site_context(of, kind, name);
    member->network = (struct tls_network){
        .below = {.listen = memory_listen,
                  .listener_close = memory_listener_close,
                  .connect = memory_connect,
                  .start = memory_start,
                  .send = memory_send,
                  .unsent_bytes = memory_unsent,
                  .peer = memory_peer,
                  .close = memory_close},
        .clock = &clock_table,
        .context = member->context,
        .protocol = TLS_NETWORK_MEMBERS,
        .handshake_ms = TLS_NETWORK_MEMBERS_MS,
        .replicas_only = true,
        .refused = on_refused,
        .data = member,
    };
    network_tls_ops(&member->network, &member->ops);
}

static int open_members(void **state)
{
    struct err err;

    (void)state;
    memset(&dialler, 0, sizeof(dialler));
    memset(&acceptor, 0, sizeof(acceptor));
    site_open(&site, "demo");
    member_open(&one, &site, TLS_REPLICA, "1");
    member_open(&two, &site, TLS_REPLICA, "2");
    dialler.member = &one;
    acceptor.member = &two;
    buf_init(&dialler.received);
    buf_init(&acceptor.received);
    assert_int_equal(two.ops.listen(two.ops.context, "here", on_accepted, NULL, &listener, &err),
                     0);
    return 0;
}

static int close_members(void **state)
{
    (void)state;
    if (dialler.stream != NULL)
        user_close(&dialler);
    if (acceptor.stream != NULL)
        user_close(&acceptor);
    two.ops.listener_close(listener);
    assert_int_equal(stream_count, 0);
    assert_null(timers);
    tls_context_free(one.context);
    tls_context_free(two.context);
    buf_close(&dialler.received);
    buf_close(&acceptor.received);
    site_close(&site);
    return 0;
}

static void dial(const char *address)
{
    const struct network_events events = {
        .data = &dialler, .opened = on_opened, .received = on_received, .closed = on_closed};

    dialler.stream = dialler.member->ops.connect(dialler.member->ops.context, address, &events);
}

static void say(struct user *user, const void *bytes, size_t length)
{
    uint8_t *copy = check_alloc(length);

    memcpy(copy, bytes, length);
    user->member->ops.send(user->stream, copy, length);
}

static void contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

/* ---- cases ---- */

static void members_prove_their_ids_and_bytes_come_whole(void **state)
{
    enum { LONG = 3 << 20 };
    uint8_t *bytes = check_alloc(LONG);

    (void)state;
    for (size_t i = 0; i < LONG; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    dialler.expected = 2;
    dial("here");
    deliver(100);
    assert_int_equal(dialler.opened, 1);
    assert_true(dialler.is);
    assert_true(two.ops.peer_is(acceptor.stream, 1));
    say(&dialler, bytes, LONG);
    assert_true(one.ops.unsent_bytes(dialler.stream) >= LONG); /* what waits is counted */
    deliver(4096);
    assert_int_equal(one.ops.unsent_bytes(dialler.stream), 0);
    assert_int_equal(acceptor.received.length, LONG);
    assert_memory_equal(acceptor.received.bytes, bytes, LONG);
    say(&acceptor, "back", 4);
    deliver(1);
    assert_int_equal(dialler.received.length, 4);
    assert_int_equal(one.refused_count + two.refused_count, 0);
    free(bytes);
}

static void the_end_of_one_side_is_told_to_the_other(void **state)
{
    (void)state;
    dial("here");
    deliver(4096);
    user_close(&dialler);
    deliver(4096);
    assert_int_equal(acceptor.closed, 1);
    assert_int_equal(two.refused_count, 0); /* a death is no refusal */
}

static void a_certificate_of_another_member_is_refused_in_both_directions(void **state)
{
    (void)state;
    dialler.expected = 3;
    dial("here");
    deliver(4096);
    assert_false(dialler.is);
    contains(one.refused, "names ckpt://demo/replica/2, not member 3");
    assert_string_equal(one.address, "here");
    deliver(4096);
    assert_int_equal(acceptor.closed, 1);

    dialler.expected = 0;
    dial("here");
    deliver(4096);
    assert_false(two.ops.peer_is(acceptor.stream, 3)); /* it said so in its hello */
    contains(two.refused, "names ckpt://demo/replica/1, not member 3");
    assert_string_equal(two.address, "10.0.0.9:1");
}

static void an_agent_is_no_member(void **state)
{
    (void)state;
    tls_context_free(one.context);
    member_open(&one, &site, TLS_AGENT, "n1");
    dial("here");
    deliver(4096);
    contains(two.refused, "ckpt://demo/agent/n1, not a replica of cluster demo");
    assert_int_equal(acceptor.closed, 1);
    assert_int_equal(acceptor.received.length, 0);
    assert_int_equal(dialler.closed, 1);
}

static void a_member_of_another_ca_is_refused(void **state)
{
    struct site foreign;

    (void)state;
    site_open(&foreign, "demo");
    tls_context_free(one.context);
    member_open(&one, &foreign, TLS_REPLICA, "1");
    dial("here");
    deliver(4096);
    assert_int_equal(dialler.opened, 0);
    assert_int_equal(dialler.closed, 1);
    contains(dialler.reason, "one CA");
    contains(one.refused, "one CA");
    contains(two.refused, "our certificate is not of its CA");
    site_close(&foreign);
}

/* A new certificate of the same CA ends nothing, nor do dates; a new CA ends what the old one has
 * vouched for, at once and on one side only if only that side has it. */
static void a_new_ca_ends_the_connections_of_the_old_one(void **state)
{
    struct site fresh;
    struct err err;
    char command[400];

    (void)state;
    site_issue(&site, TLS_REPLICA, "2", 4);
    dial("here");
    deliver(4096);
    site_must(tls_context_reload(two.context, &err), &err); /* it ends soon */
    user_close(&dialler);
    deliver(4096);
    dial("here");
    deliver(4096);
    assert_int_equal(dialler.opened, 2);
    sleep(5);
    network_tls_recheck(&one.network);
    network_tls_recheck(&two.network);
    assert_int_equal(dialler.closed, 0);
    site_open(&fresh, "demo");
    site_issue(&fresh, TLS_REPLICA, "1", TLS_YEAR_S);
    snprintf(command, sizeof(command), "cp %s/* %s/", fresh.dir, site.dir);
    assert_int_equal(system(command), 0);
    site_must(tls_context_reload(one.context, &err), &err);
    network_tls_recheck(&one.network);
    assert_int_equal(dialler.closed, 1);
    contains(one.refused, "is no longer good");
    deliver(4096);
    assert_int_equal(acceptor.closed, 2);
    site_close(&fresh);
}

/* Its engine goes by the files of its beginning. */
static void a_handshake_under_way_does_not_outlive_its_ca(void **state)
{
    struct site fresh;
    char command[400];
    struct err err;

    (void)state;
    dial("here");
    assert_true(deliver_one(streams[0], 4096));
    site_open(&fresh, "demo");
    site_issue(&fresh, TLS_REPLICA, "1", TLS_YEAR_S);
    snprintf(command, sizeof(command), "cp %s/* %s/", fresh.dir, site.dir);
    assert_int_equal(system(command), 0);
    site_must(tls_context_reload(one.context, &err), &err);
    network_tls_recheck(&one.network);
    deliver(4096); /* two still shows a certificate of the old CA */
    assert_int_equal(dialler.opened, 0);
    assert_int_equal(dialler.closed, 1);
    contains(one.refused, "is no longer good");
    site_close(&fresh);
}

static void nobody_there_is_no_matter_of_tls(void **state)
{
    (void)state;
    dial("nowhere");
    deliver(4096);
    assert_int_equal(dialler.closed, 1);
    assert_string_equal(dialler.reason, "end of the line");
    assert_int_equal(one.refused_count, 0);
}

static void a_handshake_that_stalls_ends_on_both_sides(void **state)
{
    (void)state;
    dial("here");
    assert_true(deliver_one(streams[0], 1)); /* connected, and a hello is on its way */
    time_passes();
    deliver(4096);
    assert_int_equal(dialler.closed, 1);
    assert_int_equal(acceptor.closed, 1);
    contains(one.refused, "no complete handshake within 1500 ms");
    contains(two.refused, "no complete handshake within 1500 ms");
    /* one that is over is not ended by time */
    memset(&one.refused, 0, sizeof(one.refused));
    dial("here");
    deliver(4096);
    time_passes();
    assert_int_equal(dialler.opened, 1);
    assert_int_equal(dialler.closed, 1);
}

static void a_connection_may_end_at_any_byte_of_the_handshake(void **state)
{
    size_t opened = 0;

    (void)state;
    for (size_t steps = 0; steps < 40; steps++) {
        size_t done = 0;

        dialler.opened = dialler.closed = acceptor.closed = 0;
        dial("here");
        for (bool more = true; more && done < steps;) {
            more = false;
            for (size_t i = 0; i < stream_count && !more; i++)
                more = deliver_one(streams[i], 97);
            done++;
        }
        if (steps % 2 == 0 && acceptor.stream != NULL)
            user_close(&acceptor);
        else
            user_close(&dialler);
        deliver(4096);
        opened += dialler.opened;
        if (dialler.stream != NULL)
            user_close(&dialler);
        if (acceptor.stream != NULL)
            user_close(&acceptor);
        assert_true(dialler.closed <= 1 && acceptor.closed <= 1);
        assert_int_equal(stream_count, 0);
        assert_null(timers);
    }
    assert_true(opened > 0); /* the last ones were through */
}

static void a_stream_may_be_closed_inside_its_own_events(void **state)
{
    (void)state;
    dialler.close_on_opened = true;
    dial("here");
    deliver(4096);
    assert_int_equal(dialler.opened, 1);
    assert_int_equal(dialler.closed, 0); /* who closes is not told */
    assert_int_equal(acceptor.closed, 1);
    dialler.close_on_opened = false;
    acceptor.close_on_received = true;
    dial("here");
    deliver(4096);
    say(&dialler, "one", 3);
    say(&dialler, "two", 3);
    deliver(4096);
    assert_int_equal(acceptor.received.length, 3); /* nothing after the close */
    assert_int_equal(dialler.closed, 1);
}

static void plain_bytes_and_flipped_ones_end_the_connection(void **state)
{
    static const uint8_t plain[] = "CKRF\0\0\0\1 a frame as without TLS";

    (void)state;
    dial("here");
    assert_true(deliver_one(streams[0], 1));
    buf_clear(&streams[1]->waiting);
    buf_append(&streams[1]->waiting, plain, sizeof(plain));
    deliver(4096);
    contains(two.refused, "what came is not TLS");
    assert_int_equal(acceptor.closed, 1);
    assert_int_equal(dialler.closed, 1);

    dial("here");
    deliver(4096);
    say(&dialler, "vote for me", 11);
    for (size_t i = 0; i < stream_count; i++) {
        if (streams[i]->waiting.length > 0)
            streams[i]->waiting.bytes[9] ^= 4;
    }
    deliver(4096);
    assert_int_equal(acceptor.received.length, 0);
    assert_int_equal(acceptor.closed, 2);
    contains(acceptor.reason, "TLS:");
}

/* ---- a crowd ---- */

enum { CROWD = 20 };
_Static_assert(2 * CROWD <= (int)STREAMS_MAX, "both ends of each");

static struct user crowd[CROWD];

static void on_wake(void *data)
{
    (void)data;
}

/* A turn of handshakes, and what it has both ends say. */
static void turn_and_deliver(void)
{
    network_tls_run(&two.network);
    deliver(4096);
}

static void crowd_comes(void)
{
    for (size_t i = 0; i < CROWD; i++) {
        const struct network_events events = {
            .data = &crowd[i], .opened = on_opened, .received = on_received, .closed = on_closed};

        crowd[i] = (struct user){.member = &one};
        buf_init(&crowd[i].received);
        crowd[i].stream = one.ops.connect(one.ops.context, "here", &events);
        deliver(4096);
    }
    acceptor.stream = NULL; /* the ends of all are told to it */
}

static void crowd_goes(void)
{
    for (size_t i = 0; i < CROWD; i++) {
        user_close(&crowd[i]);
        buf_close(&crowd[i].received);
    }
    deliver(4096);
    assert_uint_equal(acceptor.closed, CROWD);
}

/* A peer waits with a limit of its own: the first of a crowd are through while the last wait for
 * their first turn. A round has time for one turn here. */
static void who_has_begun_goes_before_a_crowd(void **state)
{
    (void)state;
    two.network.wake = on_wake;
    clock_step_us = TLS_NETWORK_ROUND_US;
    crowd_comes();
    for (size_t i = 0; i < CROWD; i++) {
        assert_true(network_tls_has_work(&two.network));
        assert_uint_equal(acceptor.opened, i);
        turn_and_deliver(); /* its first */
        turn_and_deliver(); /* its second */
        assert_uint_equal(acceptor.opened, i + 1);
        assert_uint_equal(crowd[i].opened, 1);
    }
    assert_false(network_tls_has_work(&two.network));
    clock_step_us = 0;
    crowd_goes();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_members, close_members)
    const struct CMUnitTest tests[] = {
        CASE(members_prove_their_ids_and_bytes_come_whole),
        CASE(the_end_of_one_side_is_told_to_the_other),
        CASE(a_certificate_of_another_member_is_refused_in_both_directions),
        CASE(an_agent_is_no_member),
        CASE(a_member_of_another_ca_is_refused),
        CASE(a_new_ca_ends_the_connections_of_the_old_one),
        CASE(a_handshake_under_way_does_not_outlive_its_ca),
        CASE(nobody_there_is_no_matter_of_tls),
        CASE(a_handshake_that_stalls_ends_on_both_sides),
        CASE(a_connection_may_end_at_any_byte_of_the_handshake),
        CASE(a_stream_may_be_closed_inside_its_own_events),
        CASE(plain_bytes_and_flipped_ones_end_the_connection),
        CASE(who_has_begun_goes_before_a_crowd),
    };
#undef CASE

    return cmocka_run_group_tests(tests, NULL, NULL);
}
