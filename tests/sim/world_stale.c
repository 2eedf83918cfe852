/* One who asks any member, leading or not, for what it has: each stale answer says how old it may
 * be, and that is true (I7).
 *
 * Flow     a timer: each member in turn, one read after the other. What is answered was so when it
 *          was asked, or later.
 * Shapes   one call at a time, a client for each member: it does not follow the leader.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum { TIMEOUT_MS = 1000, EVERY_US = 700000 };

struct stale_reads {
    struct world *world;
    struct client *clients[WORLD_MEMBERS_MAX];
    unsigned member; /* of the call under way */
    bool busy;
    uint64_t asked_us, count;
};

static const struct {
    const char *method;
    const ProtobufCMessageDescriptor *request, *reply;
} reads[] = {
#define READ(service, method, name)                                                                \
    {                                                                                              \
#service "/" #method, &ckpt__v1__##name##_request__descriptor,                             \
            &ckpt__v1__##name##_reply__descriptor                                                  \
    }
    READ(OperatorService, GetLosses, get_losses),
    READ(OperatorService, ListTenants, list_tenants),
    READ(OperatorService, GetCalibration, get_calibration),
    READ(BrokerService, ListAllocations, list_allocations),
    READ(BrokerService, ListCheckpoints, list_checkpoints),
    READ(BrokerService, ListPreemptions, list_preemptions),
    READ(BrokerService, ListUndeleted, list_undeleted),
#undef READ
};

static void *field_of(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    CHECK(field != NULL);
    return (char *)(uintptr_t)message + field->offset;
}

static void on_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct stale_reads *stale = data;
    struct world *world = stale->world;
    const struct world_member *member = &world->members[stale->member];

    (void)text;
    stale->busy = false;
    if (status != RPC_OK || !member->up || member->doomed)
        return;
    world->counts.stale_reads++;
    bounds_age_answered(world, stale->member, *(const uint64_t *)field_of(reply, "data_age_ms"),
                        *(const uint64_t *)field_of(reply, "applied_index"), stale->asked_us);
}

static void ask(struct stale_reads *stale)
{
    struct world *world = stale->world;
    size_t i = stale->count / world->member_count % ARRAY_COUNT(reads);
    union {
        ProtobufCMessage base;
        Ckpt__V1__GetLossesRequest losses;
        Ckpt__V1__GetCalibrationRequest calibration;
        Ckpt__V1__ListAllocationsRequest allocations;
        Ckpt__V1__ListCheckpointsRequest checkpoints;
        Ckpt__V1__ListPreemptionsRequest preemptions;
        Ckpt__V1__ListUndeletedRequest undeleted;
    } message;
    unsigned before;

    stale->member = (unsigned)(stale->count++ % world->member_count);
    if (!world->members[stale->member].up)
        return;
    before = sim_enter(world->sim, WORLD_SCHEDULER_NODE);
    if (stale->clients[stale->member] == NULL) {
        char endpoint[32];
        const struct client_config config = {.endpoints = endpoint};
        struct err err;

        snprintf(endpoint, sizeof(endpoint), "member%u:7443", stale->member + 1);
        CHECK(client_new(&world->scheduler_loops[0].uv, &config, &stale->clients[stale->member],
                         &err) == 0);
    }
    protobuf_c_message_init(reads[i].request, &message);
    *(protobuf_c_boolean *)field_of(&message.base, "stale") = 1;
    stale->busy = true;
    stale->asked_us = sim_now_us(world->sim);
    client_call(stale->clients[stale->member],
                &(struct client_request){.method = reads[i].method,
                                         .message = &message.base,
                                         .reply_type = reads[i].reply,
                                         .timeout_ms = TIMEOUT_MS},
                on_done, stale);
    sim_leave(world->sim, before);
}

static void on_timer(void *data)
{
    struct stale_reads *stale = data;

    if (stale->world->phase != WORLD_CHAOS)
        return;
    sim_after(stale->world->sim, SIM_NODES_MAX, EVERY_US, on_timer, stale);
    if (!stale->busy)
        ask(stale);
}

void stale_start(struct world *world)
{
    if (world->options.operator_calls == 0)
        return;
    world->stale = check_calloc(1, sizeof(*world->stale));
    world->stale->world = world;
    sim_after(world->sim, SIM_NODES_MAX, SECOND_US, on_timer, world->stale);
}

void stale_close(struct world *world)
{
    if (world->stale == NULL)
        return;
    for (unsigned i = 0; i < WORLD_MEMBERS_MAX; i++)
        if (world->stale->clients[i] != NULL)
            client_free(world->stale->clients[i]);
    free(world->stale);
}
