/* Events as lines, and the stream that goes on at the next leader without gaps or repeats (U10).
 * Real gRPC over loopback. */
#include <pthread.h>
#include <uv.h>

#include "src/base/check.h"
#include "src/cli/event_text.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

/* ---- two members on a loop of their own thread ---- */

struct member {
    struct cluster *cluster;
    struct rpc_server *server;
    char address[32];
    uint64_t last; /* it knows the events up to this one */
    bool leads;    /* else it names the other one */
    bool breaks;   /* its stream ends with UNAVAILABLE after what it knows */
    bool repeats;  /* sends the last event seen once more */
    bool hangs;    /* never answers Status */
    int requests;
    uint64_t last_after; /* of the last request */
};

struct cluster {
    uv_loop_t loop;
    uv_async_t stop;
    pthread_t thread;
    struct member members[2];
};

static void send_event(struct rpc_call *call, uint64_t sequence)
{
    static char job[] = "a-1";
    Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;
    uint8_t bytes[256];

    event.sequence = sequence;
    event.index = 100 + sequence;
    event.at_ms = 1700000000000 + sequence;
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE;
    event.allocation_id = job;
    event.checkpoint_id = 5;
    event.new_state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING;
    CHECK(ckpt__v1__event__get_packed_size(&event) <= sizeof(bytes));
    rpc_call_send(call, bytes, ckpt__v1__event__pack(&event, bytes));
}

static void on_watch(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct member *member = data;
    struct member *other = &member->cluster->members[member == &member->cluster->members[0]];
    Ckpt__V1__WatchRequest *request = ckpt__v1__watch_request__unpack(NULL, length, bytes);
    uint64_t after = request->after_sequence;
    bool follow = request->follow;

    ckpt__v1__watch_request__free_unpacked(request, NULL);
    member->requests++;
    member->last_after = after;
    if (!member->leads) {
        rpc_call_trailer(call, "ckpt-leader-hint", other->leads ? other->address : "");
        rpc_call_finish(call, RPC_UNAVAILABLE, "NOT_LEADER: ask the other one");
        return;
    }
    for (uint64_t s = after + (member->repeats && after > 0 ? 0 : 1); s <= member->last; s++)
        send_event(call, s);
    if (member->breaks) {
        member->leads = false;
        other->leads = true;
        rpc_call_finish(call, RPC_UNAVAILABLE, "going down");
    } else if (!follow) {
        rpc_call_finish(call, RPC_OK, NULL);
    }
}

static void on_status(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    static char name[] = "n1";
    struct member *member = data;
    Ckpt__V1__StatusReply reply = CKPT__V1__STATUS_REPLY__INIT;
    uint8_t packed[256];

    (void)bytes;
    (void)length;
    if (member->hangs)
        return;
    reply.leader_id = 1;
    reply.leader_name = name;
    reply.member_id = member->leads ? 1 : 2;
    reply.quorum = true;
    rpc_call_reply(call, packed, ckpt__v1__status_reply__pack(&reply, packed));
}

static void on_stop(uv_async_t *async)
{
    struct cluster *cluster = async->data;

    for (size_t i = 0; i < 2; i++)
        rpc_server_free(cluster->members[i].server, NULL, NULL);
    uv_close((uv_handle_t *)async, NULL);
}

static void *serve(void *data)
{
    struct cluster *cluster = data;

    uv_run(&cluster->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&cluster->loop) == 0);
    return NULL;
}

static void cluster_prepare(struct cluster *cluster)
{
    static const struct rpc_handlers watch = {.on_message = on_watch};
    static const struct rpc_handlers status = {.on_message = on_status};
    struct err err;

    *cluster = (struct cluster){0};
    CHECK(uv_loop_init(&cluster->loop) == 0);
    CHECK(uv_async_init(&cluster->loop, &cluster->stop, on_stop) == 0);
    cluster->stop.data = cluster;
    for (size_t i = 0; i < 2; i++) {
        struct member *member = &cluster->members[i];

        member->cluster = cluster;
        member->server = rpc_server_new(&cluster->loop, &(struct rpc_server_config){0});
        rpc_server_add_method(member->server, "/ckpt.v1.BrokerService/Watch", false, true, &watch,
                              member);
        rpc_server_add_method(member->server, "/ckpt.v1.OperatorService/Status", false, false,
                              &status, member);
        CHECK(rpc_server_listen(member->server, "127.0.0.1:0", &err) == 0);
        snprintf(member->address, sizeof(member->address), "127.0.0.1:%d",
                 rpc_server_port(member->server, 0));
    }
}

static void cluster_start(struct cluster *cluster)
{
    CHECK(pthread_create(&cluster->thread, NULL, serve, cluster) == 0);
}

static void cluster_stop(struct cluster *cluster)
{
    uv_async_send(&cluster->stop);
    CHECK(pthread_join(cluster->thread, NULL) == 0);
}

static int run(struct harness *h, const struct cluster *cluster, const char *words)
{
    char all[256];

    snprintf(all, sizeof(all), "--endpoints %s,%s %s", cluster->members[0].address,
             cluster->members[1].address, words);
    return harness_run(h, all);
}

static void a_watch_goes_on_at_the_next_leader_without_gap_or_repeat(void **state)
{
    struct cluster cluster;
    struct harness h;

    (void)state;
    cluster_prepare(&cluster);
    cluster.members[0].leads = true;
    cluster.members[0].breaks = true;
    cluster.members[0].last = 3;
    cluster.members[1].last = 6;
    cluster.members[1].repeats = true;
    harness_init(&h);
    h.network = true;
    cluster_start(&cluster);
    assert_int_equal(run(&h, &cluster, "events -f --max 6 -o name"), CLI_OK);
    cluster_stop(&cluster);
    assert_string_equal(h.out, "1\n2\n3\n4\n5\n6\n");
    assert_uint_equal(cluster.members[1].last_after, 3);
    assert_contains(h.error, "the stream broke after 3");
    assert_contains(h.error, "events go on after 3");
    harness_close(&h);
}

static void a_follower_sends_the_watch_to_the_leader(void **state)
{
    struct cluster cluster;
    struct harness h;

    (void)state;
    cluster_prepare(&cluster);
    cluster.members[1].leads = true;
    cluster.members[1].last = 2;
    harness_init(&h);
    h.network = true;
    cluster_start(&cluster);
    assert_int_equal(run(&h, &cluster, "events -o json"), CLI_OK);
    assert_contains(h.out, "\"events\": [");
    assert_contains(h.out, "\"sequence\": 2");
    assert_string_equal(h.error, "");
    assert_int_equal(run(&h, &cluster, "events --after 1"), CLI_OK);
    assert_contains(h.out, " a-1 checkpoint 0-5 WRITING\n");
    cluster_stop(&cluster);
    assert_int_equal(cluster.members[0].requests, 2);
    harness_close(&h);
}

/* A watch that does not follow ends within --timeout also when nobody leads. */
static void without_a_leader_the_history_ends_with_its_exit_code(void **state)
{
    struct cluster cluster;
    struct harness h;

    (void)state;
    cluster_prepare(&cluster);
    harness_init(&h);
    h.network = true;
    cluster_start(&cluster);
    assert_int_equal(run(&h, &cluster, "events --timeout 300ms"), CLI_TIMEOUT);
    cluster_stop(&cluster);
    assert_int_equal(run(&h, &cluster, "events --timeout 300ms"), CLI_NO_LEADER);
    assert_contains(h.error, "none of 2 members");
    harness_close(&h);
}

static void status_over_the_network_asks_each_member_once(void **state)
{
    struct cluster cluster;
    struct harness h;

    (void)state;
    cluster_prepare(&cluster);
    cluster.members[0].leads = true;
    harness_init(&h);
    h.network = true;
    cluster_start(&cluster);
    assert_int_equal(run(&h, &cluster, "status -o name"), CLI_OK);
    assert_string_equal(h.out, "n1\n");
    cluster_stop(&cluster);
    assert_int_equal(run(&h, &cluster, "status"), CLI_NO_LEADER);
    assert_int_equal(run(&h, &cluster, "jobs --timeout 200ms"), CLI_NO_LEADER);
    harness_close(&h);
}

static uint64_t monotonic_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* U3: a stopped process that still accepts connections does not cost its whole timeout. */
static void a_hung_member_does_not_delay_the_status(void **state)
{
    struct cluster cluster;
    struct harness h;
    uint64_t started_ms;

    (void)state;
    cluster_prepare(&cluster);
    cluster.members[0].hangs = true;
    cluster.members[1].leads = true;
    harness_init(&h);
    h.network = true;
    cluster_start(&cluster);
    started_ms = monotonic_ms();
    assert_int_equal(run(&h, &cluster, "status -o name"), CLI_OK);
    assert_true(monotonic_ms() - started_ms < 900);
    assert_string_equal(h.out, "n1\n");
    assert_int_equal(run(&h, &cluster, "status"), CLI_OK);
    assert_contains(h.error, "no answer within 150 ms of the first one");
    started_ms = monotonic_ms();
    assert_int_equal(run(&h, &cluster, "status --timeout 4s"), CLI_OK); /* of the first answer */
    assert_true(monotonic_ms() - started_ms < 900);
    assert_contains(h.error, "no answer within 150 ms of the first one");
    cluster_stop(&cluster);
    harness_close(&h);
}

/* ---- lines ---- */

static void assert_line(Ckpt__V1__Event *event, struct event_history *history, const char *expected)
{
    char text[EVENT_TEXT_BYTES];

    event->at_ms = 1700000000000;
    event_text(event, history, false, text);
    /* after date and time */
    assert_string_equal(strchr(strchr(text, ' ') + 1, ' ') + 1, expected);
}

static void each_kind_reads_as_a_sentence(void **state)
{
    static char n2[] = "n2", n3[] = "n3", scratch[] = "scratch", job[] = "a-1", empty[] = "";
    static char full[] = "no space left";
    struct event_history history = {0};
    Ckpt__V1__Event event = CKPT__V1__EVENT__INIT;

    (void)state;
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_LEADER;
    event.subject = n2;
    event.term = 7;
    assert_line(&event, &history, "n2 leads (term 7): 0 paused requests carried over");
    event.subject = n3;
    event.term = 8;
    event.number = 17;
    assert_line(&event, &history, "n2→n3 leader change (term 8): 17 paused requests carried over");
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE;
    event.allocation_id = job;
    event.checkpoint_id = (UINT64_C(1) << 40) | 42;
    event.old_state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_WRITING;
    event.new_state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED;
    event.number = 1;
    event.reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    event.subject = empty;
    assert_line(&event, &history,
                "a-1 checkpoint 1-42 WRITING → PAUSED attempt 1 (storage unavailable)");
    event.subject = full;
    assert_line(
        &event, &history,
        "a-1 checkpoint 1-42 WRITING → PAUSED attempt 1 (storage unavailable): no space left");
    event.new_state = CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_COMPLETE;
    event.size_bytes = 2 << 20;
    event.duration_ms = 2500;
    event.reason = 0;
    event.subject = empty;
    assert_line(&event, &history,
                "a-1 checkpoint 1-42 WRITING → COMPLETE attempt 1, 2.0 MiB in 2.5s");
    /* what it starts from may be an older one: the active one waits for storage */
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_STATE;
    event.old_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING;
    event.new_state = CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING;
    assert_line(&event, &history, "a-1 RUNNING → STARTING, active checkpoint 1-42");
    event.reason = CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE;
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_DOWN;
    event.subject = scratch;
    assert_line(&event, &history, "target scratch unavailable (storage unavailable)");
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_UP;
    event.number = 3;
    event.reason = 0;
    assert_line(&event, &history, "target scratch available: 3 paused checkpoints resume");
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION;
    event.subject = empty;
    assert_line(&event, &history, "a-1 preempted by preemption 3");
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_LEADER;
    event.new_state = 2;
    assert_line(&event, &(struct event_history){0},
                "member 2 leads (term 8): 3 paused requests carried over");
    event.subject = scratch;
    event.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_NODE_STATE;
    event.new_state = 3;
    assert_line(&event, &history, "node scratch down");
    event.kind = (Ckpt__V1__EventKind)77;
    assert_line(&event, &history, "event of kind 77");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watch_goes_on_at_the_next_leader_without_gap_or_repeat),
        cmocka_unit_test(a_follower_sends_the_watch_to_the_leader),
        cmocka_unit_test(without_a_leader_the_history_ends_with_its_exit_code),
        cmocka_unit_test(status_over_the_network_asks_each_member_once),
        cmocka_unit_test(a_hung_member_does_not_delay_the_status),
        cmocka_unit_test(each_kind_reads_as_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
