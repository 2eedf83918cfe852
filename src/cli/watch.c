/* The stream of events, followed from leader to leader. */
#include "src/cli/watch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/members.h"
#include "src/client/client.h"

struct watch {
    struct cli *cli;
    const struct watch_options *options;
    watch_event_fn *on_event;
    void *data;
    uv_loop_t loop;
    uv_timer_t retry;
    uv_timer_t limit; /* of a watch that does not follow */
    bool looked;      /* who answers at all */
    struct rpc_follow *follow;
    struct rpc_client_call *call; /* NULL between two streams */
    uint64_t last_sequence;
    char last_text[256]; /* why the last stream ended */
    bool lost;           /* a remark about it is out */
    bool ended;
    enum cli_exit code;
};

static void open_stream(uv_timer_t *timer);

static void end_watch(struct watch *watch, enum cli_exit code)
{
    if (watch->ended)
        return;
    watch->ended = true;
    watch->code = code;
    uv_timer_stop(&watch->retry);
    uv_timer_stop(&watch->limit);
    uv_stop(&watch->loop);
}

static void on_message(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                       size_t length)
{
    struct watch *watch = data;
    Ckpt__V1__Event *event = ckpt__v1__event__unpack(NULL, length, bytes);

    (void)call;
    if (event == NULL) {
        end_watch(watch, cli_fail(watch->cli, CLI_FAILED, "the same version of ckptctl as of ckptd",
                                  "an event that cannot be read (%zu bytes)", length));
        return;
    }
    if (watch->lost) {
        cli_note(watch->cli, "remark: events go on after %" PRIu64, watch->last_sequence);
        watch->lost = false;
    }
    if (!watch->ended && event->current && watch->last_sequence == 0) {
        watch->last_sequence = event->sequence; /* 0 but of the last one */
        if (!watch->on_event(watch->cli, watch->data, event))
            end_watch(watch, CLI_OK);
    } else if (!watch->ended && event->sequence > watch->last_sequence) {
        watch->last_sequence = event->sequence;
        if (!watch->on_event(watch->cli, watch->data, event))
            end_watch(watch, CLI_OK);
    }
    ckpt__v1__event__free_unpacked(event, NULL);
}

static void on_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct watch *watch = data;
    uint64_t delay_ms = 0;

    (void)call;
    watch->call = NULL;
    if (watch->ended)
        return;
    if (end->status == RPC_OK && !watch->options->follow) {
        end_watch(watch, CLI_OK);
        return;
    }
    snprintf(watch->last_text, sizeof(watch->last_text), "%s", end->message);
    /* a following stream that ends with OK was closed by a member that shuts down */
    if (end->status != RPC_OK && !rpc_follow_result(watch->follow, end, &delay_ms)) {
        end_watch(watch, call_failed(watch->cli, "watch events", end->status, end->message, false));
        return;
    }
    if (!watch->lost && watch->last_sequence > watch->options->after_sequence) {
        cli_note(watch->cli,
                 "remark: the stream broke after %" PRIu64 " (%s %s); going on at the leader",
                 watch->last_sequence, rpc_status_name(end->status), end->message);
        watch->lost = true;
    }
    uv_timer_start(&watch->retry, open_stream, delay_ms, 0);
}

static void open_stream(uv_timer_t *timer)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    struct watch *watch = timer->data;
    Ckpt__V1__WatchRequest request = CKPT__V1__WATCH_REQUEST__INIT;
    uint8_t *bytes;
    size_t length;

    CHECK(watch->call == NULL);
    request.after_sequence = watch->last_sequence;
    request.follow = watch->options->follow;
    request.stale = watch->options->stale;
    request.current = watch->options->current && watch->last_sequence == 0;
    request.allocation_id = watch->options->allocation_id;
    length = ckpt__v1__watch_request__get_packed_size(&request);
    bytes = check_alloc(length + 1);
    ckpt__v1__watch_request__pack(&request, bytes);
    watch->call = rpc_channel_open(rpc_follow_channel(watch->follow),
                                   "/ckpt.v1.BrokerService/Watch", 0, false, &handlers, watch);
    if (watch->call != NULL) {
        rpc_client_call_send(watch->call, bytes, length);
        rpc_client_call_half_close(watch->call);
    }
    free(bytes);
}

static bool follow_new(struct watch *watch, const char *endpoints)
{
    const struct rpc_channel_config config = {.tls = watch->cli->tls};
    struct err err;

    if (rpc_follow_new(&watch->loop, endpoints, &config, &watch->follow, &err) == 0)
        return true;
    watch->follow = NULL;
    end_watch(watch, cli_fail(watch->cli, CLI_USAGE, NULL, "--endpoints: %s", err.text));
    return false;
}

/* Nothing came at once: there may be no quorum, or the member that was asked hangs. */
static void look_around(struct watch *watch)
{
    char leader[CALL_ENDPOINT_BYTES], *endpoints;

    watch->looked = true;
    if (call_without_quorum(watch->cli, "watch events", leader)) {
        end_watch(watch, CLI_NO_LEADER);
        return;
    }
    uv_timer_start(&watch->limit, watch->limit.timer_cb, watch->cli->timeout_ms, 0);
    if (leader[0] == '\0' || watch->last_sequence > watch->options->after_sequence)
        return;
    if (watch->call != NULL)
        rpc_client_call_cancel(watch->call);
    watch->call = NULL;
    rpc_follow_free(watch->follow);
    endpoints = call_leader_first(watch->cli, leader);
    if (follow_new(watch, endpoints))
        uv_timer_start(&watch->retry, open_stream, 0, 0);
    free(endpoints);
}

static void on_limit(uv_timer_t *timer)
{
    struct watch *watch = timer->data;

    if (!watch->looked) {
        look_around(watch);
        return;
    }
    end_watch(watch,
              call_failed(watch->cli, "watch events", RPC_DEADLINE_EXCEEDED,
                          watch->last_text[0] != '\0' ? watch->last_text : "the stream did not end",
                          false));
}

static void close_all(struct watch *watch)
{
    if (watch->call != NULL) {
        rpc_client_call_cancel(watch->call);
        watch->call = NULL;
    }
    rpc_follow_free(watch->follow);
    uv_close((uv_handle_t *)&watch->retry, NULL);
    uv_close((uv_handle_t *)&watch->limit, NULL);
    uv_run(&watch->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&watch->loop) == 0);
}

/* The member that knows most; false, with the message printed: nobody answers. */
static bool best_member(struct cli *cli, char endpoint[CALL_ENDPOINT_BYTES],
                        enum cli_exit *ret_code)
{
    struct members members;
    bool found;

    members_ask(cli, CALL_QUICK, &members);
    found = members.best != NULL;
    if (!found)
        *ret_code = members_nobody(cli, &members, "watch events");
    for (size_t i = 0; i < members.count && found; i++)
        if (members.answers[i].reply == &members.best->base)
            snprintf(endpoint, CALL_ENDPOINT_BYTES, "%s", members.answers[i].endpoint);
    if (found)
        cli->stale = (struct cli_stale){
            .asked = true, .age_ms = UINT64_MAX, .applied_index = members.best->applied_index};
    members_free(&members);
    return found;
}

enum cli_exit watch_run(struct cli *cli, const struct watch_options *options,
                        watch_event_fn *on_event, void *data)
{
    struct watch watch = {.cli = cli,
                          .options = options,
                          .on_event = on_event,
                          .data = data,
                          .last_sequence = options->after_sequence};
    char endpoint[CALL_ENDPOINT_BYTES] = "";

    if (options->stale && !best_member(cli, endpoint, &watch.code))
        return watch.code;
    watch.looked = options->stale || cli->timeout_set;
    CHECK(uv_loop_init(&watch.loop) == 0);
    CHECK(uv_timer_init(&watch.loop, &watch.retry) == 0);
    CHECK(uv_timer_init(&watch.loop, &watch.limit) == 0);
    watch.retry.data = &watch;
    watch.limit.data = &watch;
    if (follow_new(&watch, options->stale ? endpoint : cli->endpoints)) {
        uv_timer_start(&watch.retry, open_stream, 0, 0);
        if (!options->follow)
            uv_timer_start(&watch.limit, on_limit, watch.looked ? cli->timeout_ms : CALL_FIRST_MS,
                           0);
        uv_run(&watch.loop, UV_RUN_DEFAULT);
    }
    close_all(&watch);
    return watch.code;
}
