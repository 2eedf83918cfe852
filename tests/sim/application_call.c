/* An application that is called. See application_call.h. */
#include "tests/sim/application_call.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/rpc/client.h"
#include "src/rpc/server.h"

#define CHECKPOINT_METHOD "/ckpt.v1.AppCheckpointService/Checkpoint"
#define REGISTER_METHOD   "/ckpt.v1.AppService/Register"

enum { REGISTER_AGAIN_US = 1000000, REGISTER_TIMEOUT_MS = 5000 };

struct application_call {
    char *allocation_id;
    char endpoint[MACHINE_NAME_BYTES + 32];
    struct clock_ops clock;
    struct clock_timer *again;
    struct rpc_channel *channel; /* to its agent */
    struct rpc_server *server;
    struct rpc_call *asked; /* NULL: no question is open */
    struct application_call_events events;
};

/* ---- questions ---- */

static void on_message(struct rpc_call *rpc, void *data, const uint8_t *bytes, size_t length)
{
    struct application_call *call = data;
    Ckpt__V1__AppCheckpointRequest *request =
        ckpt__v1__app_checkpoint_request__unpack(NULL, length, bytes);

    CHECK(request != NULL);
    application_call_end(call); /* of an agent that is no more */
    call->asked = rpc;
    call->events.asked(call->events.data, request);
    ckpt__v1__app_checkpoint_request__free_unpacked(request, NULL);
}

static void on_cancel(struct rpc_call *rpc, void *data)
{
    struct application_call *call = data;

    if (call->asked != rpc)
        return;
    call->asked = NULL;
    call->events.withdrawn(call->events.data);
}

static void say(struct application_call *call, const Ckpt__V1__AppCheckpointUpdate *update)
{
    struct buf bytes;

    if (call->asked == NULL)
        return;
    buf_init(&bytes);
    ckpt__v1__app_checkpoint_update__pack(
        update, buf_extend(&bytes, ckpt__v1__app_checkpoint_update__get_packed_size(update)));
    rpc_call_send(call->asked, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

void application_call_end(struct application_call *call)
{
    struct rpc_call *asked = call->asked;

    call->asked = NULL;
    if (asked != NULL)
        rpc_call_finish(asked, RPC_OK, NULL);
}

void application_call_progress(struct application_call *call, uint32_t ppm)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_PROGRESS_PPM;
    update.progress_ppm = ppm;
    say(call, &update);
}

void application_call_done(struct application_call *call, uint64_t bytes, const char *label)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DONE_BYTES;
    update.done_bytes = bytes;
    update.label = (char *)(uintptr_t)label;
    say(call, &update);
    application_call_end(call);
}

void application_call_failed(struct application_call *call, const char *why)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_FAILED;
    update.failed = (char *)(uintptr_t)why;
    say(call, &update);
    application_call_end(call);
}

void application_call_defer(struct application_call *call, uint64_t ms)
{
    Ckpt__V1__AppCheckpointUpdate update = CKPT__V1__APP_CHECKPOINT_UPDATE__INIT;

    update.body_case = CKPT__V1__APP_CHECKPOINT_UPDATE__BODY_DEFER_MS;
    update.defer_ms = ms;
    say(call, &update);
    application_call_end(call);
}

/* ---- where ---- */

static void on_registered(struct rpc_client_call *rpc, void *data, const struct rpc_end *end)
{
    struct application_call *call = data;

    (void)rpc;
    if (end->status != RPC_OK)
        call->clock.timer_start(call->again, REGISTER_AGAIN_US);
}

static void register_now(void *data)
{
    static const struct rpc_client_handlers handlers = {.on_end = on_registered};
    struct application_call *call = data;
    Ckpt__V1__RegisterRequest request = CKPT__V1__REGISTER_REQUEST__INIT;
    struct rpc_client_call *rpc;
    struct buf bytes;

    request.allocation_id = call->allocation_id;
    request.endpoint = call->endpoint;
    buf_init(&bytes);
    ckpt__v1__register_request__pack(
        &request, buf_extend(&bytes, ckpt__v1__register_request__get_packed_size(&request)));
    rpc = rpc_channel_open(call->channel, REGISTER_METHOD, REGISTER_TIMEOUT_MS, true, &handlers,
                           call);
    rpc_client_call_send(rpc, bytes.bytes, bytes.length);
    rpc_client_call_half_close(rpc);
    buf_close(&bytes);
}

/* ---- life ---- */

struct application_call *application_call_new(struct agent_machine *machine, pid_t pid,
                                              const char *allocation_id,
                                              const struct application_call_events *events)
{
    static const struct rpc_handlers handlers = {.on_message = on_message, .on_cancel = on_cancel};
    const struct rpc_server_config config = {0};
    struct application_call *call = check_calloc(1, sizeof(*call));
    unsigned before = sim_enter(machine->sim, machine->config.applications_node);
    char address[128];
    struct err err;

    call->allocation_id = check_strdup(allocation_id);
    call->events = *events;
    snprintf(call->endpoint, sizeof(call->endpoint), "unix:/run/%s-app-%d.sock", machine->name,
             (int)pid);
    sim_node_clock(machine->sim, machine->config.applications_node, &call->clock);
    call->again = call->clock.timer_new(call->clock.context, register_now, call);
    call->server = rpc_server_new(&machine->applications_loop.uv, &config);
    rpc_server_add_method(call->server, CHECKPOINT_METHOD, false, true, &handlers, call);
    CHECK(rpc_server_listen(call->server, call->endpoint, &err) == 0);
    snprintf(address, sizeof(address), "%s#%d", machine->address, (int)pid);
    call->channel = rpc_channel_new(&machine->applications_loop.uv, address, NULL);
    call->clock.timer_start(call->again, 0);
    sim_leave(machine->sim, before);
    return call;
}

static void nobody_withdraws(void *data)
{
    (void)data;
}

void application_call_free(struct application_call *call)
{
    if (call == NULL)
        return;
    call->events.withdrawn = nobody_withdraws;
    rpc_server_free(call->server, NULL, NULL);
    rpc_channel_free(call->channel);
    call->clock.timer_free(call->again);
    free(call->allocation_id);
    free(call);
}
