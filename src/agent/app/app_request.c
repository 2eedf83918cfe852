/* Checkpoints that applications ask for by themselves. See app_request.h. */
#include "src/agent/app/app_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/app/own_up.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"

#define REQUEST_METHOD "/ckpt.v1.BrokerService/RequestCheckpoint"

enum { REQUEST_TIMEOUT_MS = 10000, TEXT_BYTES = 600 };

/* Its job may be gone when the answer comes: it is found by its name. */
struct request {
    struct agent *agent;
    char allocation_id[ID_MAX_BYTES + 1];
};

static void request_answered(struct rpc_client_call *call, void *data, const uint8_t *bytes,
                             size_t length)
{
    (void)call, (void)data, (void)bytes, (void)length; /* the order follows */
}

/* Ranks of other nodes ask for the same one, and may be the first. */
static bool is_under_way(const char *text)
{
    return strncmp(text, "CHECKPOINT_ACTIVE", 17) == 0 || strncmp(text, "CHECKPOINTING", 13) == 0;
}

static void request_end(struct rpc_client_call *call, void *data, const struct rpc_end *end)
{
    struct request *request = data;
    struct allocation *allocation = agent_find(request->agent, request->allocation_id);
    char text[TEXT_BYTES], said[TEXT_BYTES + 64];

    (void)call;
    own_asker_answered(request->agent->own_asker, end);
    if (allocation != NULL)
        allocation->requesting = false;
    text_shown(end->message, text, sizeof(text));
    if (end->status != RPC_OK && !is_under_way(text)) {
        log_info("app_request_refused", "allocation=%s status=%s text=\"%s\"",
                 request->allocation_id, rpc_status_name(end->status), text);
        snprintf(said, sizeof(said), "the checkpoint that the application asked for: %s", text);
        if (allocation != NULL && allocation->stream != NULL)
            request->agent->callers->say(allocation->stream, said);
    }
    free(request);
}

static void request_send(struct allocation *allocation, uint64_t step)
{
    static const struct rpc_client_handlers handlers = {.on_message = request_answered,
                                                        .on_end = request_end};
    const struct ledger_entry *entry = &allocation->entry;
    Ckpt__V1__RequestCheckpointRequest message = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    struct request *request = check_calloc(1, sizeof(*request));
    char id[ID_MAX_BYTES + 1];
    struct buf bytes;

    request->agent = allocation->agent;
    text_copy(request->allocation_id, sizeof(request->allocation_id), entry->allocation_id);
    snprintf(id, sizeof(id), "app-%.64s-%" PRIu64 "-%s%" PRIu64, entry->allocation_id, entry->run,
             step == 0 ? "at" : "", step == 0 ? agent_now_us(allocation->agent) : step);
    message.allocation_id = request->allocation_id;
    message.request_id = id;
    buf_init(&bytes);
    ckpt__v1__request_checkpoint_request__pack(
        &message,
        buf_extend(&bytes, ckpt__v1__request_checkpoint_request__get_packed_size(&message)));
    own_asker_call(allocation->agent->own_asker,
                   &(struct own_ask){.path = REQUEST_METHOD,
                                     .request = &bytes,
                                     .owner = entry->owner,
                                     .uid = entry->uid,
                                     .known = true,
                                     .timeout_ms = REQUEST_TIMEOUT_MS},
                   &handlers, request);
    buf_close(&bytes);
}

void app_request(struct allocation *allocation, uint64_t step)
{
    uint64_t now_us = agent_now_us(allocation->agent);

    if (allocation->agent->own_asker == NULL || allocation->requesting ||
        attempt_busy(&allocation->attempt) ||
        (allocation->requested_us != 0 && now_us - allocation->requested_us < APP_REQUEST_PAUSE_US))
        return;
    allocation->requesting = true;
    allocation->requested_us = now_us;
    request_send(allocation, step);
}
