/* Asking by a call: AppCheckpointService.Checkpoint (proto/ckpt/v1/app.proto). See call.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/ask/call.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/rpc/client.h"

#define CHECKPOINT_METHOD "/ckpt.v1.AppCheckpointService/Checkpoint"

enum {
    ANSWER_MAX_BYTES = 65536,
    KEEPALIVE_MS = 24 * 3600 * 1000, /* longer than any attempt */
    QUARTER_PPM = 250000,
    BROKEN_TEXT_BYTES = 200
};

struct ask_call {
    struct rpc_channel *channel;
    struct rpc_client_call *call; /* NULL: it has ended */
    struct ask_target target;
    char hint[HINT_TEXT_BYTES];
    struct ask_listener listener;
    bool answered;
    bool estimated, estimate_refused; /* these were logged */
    uint32_t quarters;                /* of the progress that were logged */
};

/* The status in a sentinel is a line of at most 200 characters, and not "0". */
static void failed_status(const char *text, char status[])
{
    size_t room = sizeof(((struct sentinel *)0)->status) - 1, i = 0;

    for (; text[i] != '\0' && i < room; i++)
        status[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    status[i] = '\0';
    if (i == 0 || strcmp(status, "0") == 0)
        snprintf(status, room, "failed");
}

static void call_answered(struct ask_call *call, const struct sentinel *sentinel)
{
    char text[SENTINEL_MAX_BYTES];
    size_t length = sentinel_format(sentinel, text);
    struct err err = {0};

    call->answered = true;
    if (call->target.node->file_write(call->target.context, "done", text, length, &err) != 0)
        call->listener.events->broken(call->listener.data, CKPT__V1__REASON__REASON_WRITE_FAILED,
                                      err.text);
    else
        call->listener.events->answered(call->listener.data);
}

static void call_alive(struct ask_call *call, const Ckpt__V1__AppCheckpointUpdate *update)
{
    if (update->progress_ppm / QUARTER_PPM > call->quarters) {
        call->quarters = update->progress_ppm / QUARTER_PPM;
        log_info("progress", "hint=%s progress_ppm=%" PRIu32, call->hint, update->progress_ppm);
    }
    call->listener.events->alive(call->listener.data);
}

/* A negative number comes as a very large one. A refused estimate is a sign of life all the same,
 * and is logged once for each question: the application may go on saying it. 0: as good as done. */
static void call_estimate(struct ask_call *call, const Ckpt__V1__AppCheckpointUpdate *update)
{
    uint64_t ms = update->estimate_ms;

    if (ms == 0 || ms > ASK_ESTIMATE_MAX_MS) {
        if (ms != 0 && !call->estimate_refused)
            log_warning("estimate_refused",
                        "hint=%s estimate_ms=%" PRId64 " limit_ms=%" PRIu64
                        " text=\"estimate_ms is the time that the checkpoint still needs, up to "
                        "7 days: correct it in the application\"",
                        call->hint, (int64_t)ms, ASK_ESTIMATE_MAX_MS);
        call->estimate_refused = call->estimate_refused || ms != 0;
        call->listener.events->alive(call->listener.data);
        return;
    }
    if (!call->estimated)
        log_info("estimate", "hint=%s estimate_ms=%" PRIu64, call->hint, ms);
    call->estimated = true;
    call->listener.events->estimate(call->listener.data, ms);
}

/* The call may be gone afterwards. */
static void call_update(struct ask_call *call, const Ckpt__V1__AppCheckpointUpdate *update)
{
    struct sentinel sentinel = {.status = "0"};

    memcpy(sentinel.hint, call->hint, sizeof(sentinel.hint));
    switch (update->body_case) {
    case CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_ESTIMATE_MS:
        call_estimate(call, update);
        return;
    case CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_PROGRESS_PPM:
        call_alive(call, update);
        return;
    case CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DEFER_MS:
        call->answered = true;
        call->listener.events->deferred(call->listener.data, update->defer_ms);
        return;
    case CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES:
        sentinel.bytes = update->done_bytes;
        sentinel.saved_at_ms = update->saved_at_ms;
        if (update->label[0] == '\0' || label_valid(update->label))
            snprintf(sentinel.label, sizeof(sentinel.label), "%s", update->label);
        else
            failed_status("its label is not 1 to 64 of A-Z a-z 0-9 . _ : -", sentinel.status);
        call_answered(call, &sentinel);
        return;
    case CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED:
        failed_status(update->failed, sentinel.status);
        call_answered(call, &sentinel);
        return;
    case CKPT__V1__APP_CHECKPOINT_UPDATE__BODY__NOT_SET: /* of a later version */
    case _CKPT__V1__APP_CHECKPOINT_UPDATE__BODY__CASE_IS_INT_SIZE:
        return;
    }
}

static void on_message(struct rpc_client_call *rpc, void *data, const uint8_t *bytes, size_t length)
{
    struct ask_call *call = data;
    Ckpt__V1__AppCheckpointUpdate *update;

    (void)rpc;
    if (call->answered)
        return;
    update = ckpt__v1__app_checkpoint_update__unpack(NULL, length, bytes);
    if (update == NULL) {
        call->answered = true;
        call->listener.events->broken(call->listener.data,
                                      CKPT__V1__REASON__REASON_APPLICATION_REFUSED,
                                      "the application's answer does not decode");
        return;
    }
    call_update(call, update);
    ckpt__v1__app_checkpoint_update__free_unpacked(update, NULL);
}

static void on_end(struct rpc_client_call *rpc, void *data, const struct rpc_end *end)
{
    struct ask_call *call = data;
    Ckpt__V1__Reason reason = end->status == RPC_UNAVAILABLE
                                  ? CKPT__V1__REASON__REASON_NOT_ATTACHED
                                  : CKPT__V1__REASON__REASON_APPLICATION_REFUSED;
    char text[BROKEN_TEXT_BYTES];

    (void)rpc;
    call->call = NULL;
    if (call->answered)
        return;
    call->answered = true;
    if (end->status == RPC_OK)
        snprintf(text, sizeof(text), "the application ended the call without an answer");
    else
        snprintf(text, sizeof(text), "the call ended without an answer: %s %.150s",
                 rpc_status_name(end->status), end->message);
    call->listener.events->broken(call->listener.data, reason, text);
}

static void call_start(struct ask_call *call, const struct ask_request *request)
{
    static const struct rpc_client_handlers handlers = {.on_message = on_message, .on_end = on_end};
    Ckpt__V1__AppCheckpointRequest message = CKPT__V1__APP_CHECKPOINT_REQUEST__INIT;
    char *directory = check_strdup(request->directory);
    struct buf bytes;

    message.checkpoint_id = request->checkpoint_id;
    message.attempt = request->attempt;
    message.directory = directory;
    message.deadline_ms = request->deadline_ms;
    message.max_deferral_ms = request->max_deferral_ms;
    message.stops = request->stops;
    buf_init(&bytes);
    ckpt__v1__app_checkpoint_request__pack(
        &message, buf_extend(&bytes, ckpt__v1__app_checkpoint_request__get_packed_size(&message)));
    call->call = rpc_channel_open(call->channel, CHECKPOINT_METHOD, 0, false, &handlers, call);
    rpc_client_call_send(call->call, bytes.bytes, bytes.length);
    rpc_client_call_half_close(call->call);
    buf_close(&bytes);
    free(directory);
}

enum ask_ready ask_call_preflight(const struct ask_target *target, const char *unregistered,
                                  char *ret_detail, size_t size)
{
    switch (target->node->endpoint(target->context, ret_detail, size)) {
    case ASK_REGISTERED:
        return ASK_READY;
    case ASK_UNREGISTERED:
        snprintf(ret_detail, size, "%s", unregistered);
        return ASK_NO_HANDLER;
    case ASK_CLOSED:
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("ask_endpoint");
}

int ask_call_fire(const struct ask_ops *ops, const struct ask_target *target,
                  const struct ask_request *request, const struct ask_listener *listener,
                  struct ask_call **ret_call, struct err *err)
{
    const struct rpc_channel_config config = {.keepalive_ms = KEEPALIVE_MS,
                                              .message_max_bytes = ANSWER_MAX_BYTES,
                                              .check_peer = true,
                                              .peer_uid = target->uid};
    struct ask_call *call = check_calloc(1, sizeof(*call));
    char address[ASK_ADDRESS_BYTES];

    (void)ops;
    (void)err;
    call->target = *target;
    call->listener = *listener;
    snprintf(call->hint, sizeof(call->hint), "%s", request->hint);
    call->channel = rpc_channel_new(
        target->loop, target->node->endpoint_address(target->context, address), &config);
    call_start(call, request);
    *ret_call = call;
    return 0;
}

void ask_call_hang_up(struct ask_call *call)
{
    if (call == NULL)
        return;
    if (call->call != NULL)
        rpc_client_call_cancel(call->call);
    rpc_channel_free(call->channel);
    free(call);
}
