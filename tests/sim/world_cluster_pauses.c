/* Pauses of the whole cluster by its operator: while one lasts the broker decides nothing.
 *
 * Flow     a desk of its own pauses the cluster for a moment, again and again, and ends some pauses
 *          early. At each event of the history: nothing was decided, chosen or expired for a quota
 *          since the event of the pause. All else was begun before, or is somebody's who may
 *          (fsm/pause.h).
 * Shapes   short pauses with an end: what converges after healing waits for none of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name

enum { PAUSE_MIN_MS = 200, PAUSE_MOST_MS = 2000, PAUSE_CALL_MS = 1000, EARLY_IN = 4 };

struct cluster_pauses {
    struct world *world;
    struct client *client;
    bool calling;
    uint64_t requests;
    uint64_t since_ms, until_ms;   /* of the state's clock, by the events; 0: it is not paused */
    bool migrated[WORLD_JOBS_MAX]; /* the job stopped to run elsewhere */
};

static void on_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct cluster_pauses *pauses = data;

    (void)reply;
    pauses->calling = false;
    if (status == RPC_INTERNAL || status == RPC_UNKNOWN || status == RPC_UNIMPLEMENTED ||
        status == RPC_INVALID_ARGUMENT)
        world_violation(pauses->world, "API", "PauseCluster ends with %s: %s",
                        rpc_status_name(status), text);
}

static void on_timer(void *data)
{
    struct cluster_pauses *pauses = data;
    struct world *world = pauses->world;
    uint64_t mean_us = (uint64_t)60 * SECOND_US / world->options.cluster_pauses;
    Ckpt__V1__PauseClusterRequest message = CKPT__V1__PAUSE_CLUSTER_REQUEST__INIT;
    static char reason[] = "a trial", by[] = "the simulator";
    char id[48];
    unsigned before;

    if (world->phase != WORLD_CHAOS)
        return;
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, 2 * mean_us), on_timer, pauses);
    if (pauses->calling)
        return;
    snprintf(id, sizeof(id), "pause-%" PRIu64, ++pauses->requests);
    message.request_id = id;
    message.by = by;
    message.reason = reason;
    message.resume = sim_chance(world->sim, EARLY_IN);
    message.duration_ms = PAUSE_MIN_MS + sim_random(world->sim, PAUSE_MOST_MS - PAUSE_MIN_MS);
    pauses->calling = true;
    before = sim_enter(world->sim, WORLD_SCHEDULER_NODE);
    client_call(pauses->client,
                &(struct client_request){.method = "OperatorService/PauseCluster",
                                         .message = &message.base,
                                         .reply_type = &ckpt__v1__mutation_reply__descriptor,
                                         .timeout_ms = PAUSE_CALL_MS},
                on_done, pauses);
    sim_leave(world->sim, before);
}

static bool lasts(const struct cluster_pauses *pauses, const Ckpt__V1__Event *event)
{
    return pauses->since_ms != 0 && event->at_ms < pauses->until_ms;
}

/* Decided by the model, in this entry: what begins anew in a new epoch was decided before. */
static bool was_decided(const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);

    return event->kind == EVENT(CHECKPOINT_STATE) && event->old_state == CHECKPOINT(UNSPECIFIED) &&
           checkpoint != NULL && checkpoint->inputs != NULL &&
           checkpoint->inputs->index == event->index;
}

static void note_stop(struct world *world, const Ckpt__V1__Event *event)
{
    const struct world_job *job = job_find(world, event->allocation_id);

    if (event->kind == EVENT(ALLOCATION_STATE) && job != NULL)
        world->cluster_pauses->migrated[job - world->jobs] =
            event->new_state == ALLOCATION(REQUEUED) &&
            event->reason == CKPT__V1__REASON__REASON_MIGRATED;
}

static bool had_stopped(Ckpt__V1__AllocationState state)
{
    return state == ALLOCATION(REQUEUED) || state == ALLOCATION(SUSPENDED) ||
           state == ALLOCATION(FAILED);
}

static bool moves(const struct world *world, const Ckpt__V1__Event *event)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, event->allocation_id);

    return job != NULL && world->cluster_pauses->migrated[job - world->jobs];
}

void cluster_pauses_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    struct cluster_pauses *pauses = world->cluster_pauses;

    if (pauses == NULL)
        return;
    if (event->kind == EVENT(CLUSTER_PAUSED)) {
        pauses->since_ms = event->at_ms;
        pauses->until_ms = event->number == 0 ? UINT64_MAX : event->at_ms + event->number;
        world->counts.cluster_pauses++;
    } else if (event->kind == EVENT(CLUSTER_RESUMED)) {
        pauses->since_ms = 0;
    } else if (lasts(pauses, event) && was_decided(fsm, event)) {
        world_violation(world, "PAUSE",
                        "checkpoint %" PRIx64 " was decided at %" PRIu64
                        ", the cluster is paused since %" PRIu64,
                        event->checkpoint_id, event->at_ms, pauses->since_ms);
    } else if (lasts(pauses, event) &&
               (event->kind == EVENT(QUOTA) &&
                event->new_state == CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_EXPIRED)) {
        world_violation(world, "PAUSE", "a checkpoint of %s expired for a quota",
                        event->allocation_id);
    } else if (lasts(pauses, event) && event->kind == EVENT(ALLOCATION_STATE) &&
               event->new_state == ALLOCATION(STARTING) &&
               had_stopped((Ckpt__V1__AllocationState)event->old_state) && !moves(world, event)) {
        world_violation(world, "PAUSE", "%s was restarted, the cluster is paused since %" PRIu64,
                        event->allocation_id, pauses->since_ms);
    }
    note_stop(world, event);
}

void cluster_pauses_start(struct world *world)
{
    const struct client_config config = {.endpoints = world->endpoints};
    struct cluster_pauses *pauses;
    struct err err;

    if (world->options.cluster_pauses == 0)
        return;
    pauses = check_calloc(1, sizeof(*pauses));
    pauses->world = world;
    world->cluster_pauses = pauses;
    CHECK(client_new(&world->scheduler_loops[0].uv, &config, &pauses->client, &err) == 0);
    sim_after(world->sim, SIM_NODES_MAX, SECOND_US, on_timer, pauses);
}

void cluster_pauses_close(struct world *world)
{
    if (world->cluster_pauses != NULL)
        client_free(world->cluster_pauses->client);
    free(world->cluster_pauses);
}
