/* Schedulers: clients that register, change, checkpoint, preempt, end and read jobs, through
 * src/client as it ships.
 *
 * Flow     each scheduler has a timer; when it fires, one request is drawn. Its end goes into the
 *          history. At times an answered request is sent again, as a late duplicate: the outcome
 *          must be the first one.
 * Shapes   at most IN_FLIGHT_MAX requests of a scheduler at once; KEPT_MAX answered mutations are
 *          remembered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/limits.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum {
    IN_FLIGHT_MAX = 16,
    KEPT_MAX = 256,
    JOBS_ALIVE_MAX = 12,
    TIMEOUT_MS = 4000,
    PERIOD_BASE_MS = 36000000,
    CANDIDATES_MAX = 6
};
#define NO_OPERATION SIZE_MAX

struct kept {
    const char *method;
    const ProtobufCMessageDescriptor *type;
    uint8_t *bytes;
    size_t length;
    uint64_t index, id;
};

struct scheduler {
    struct world *world;
    unsigned number;
    struct client *client;
    struct clock_timer *timer;
    struct clock_ops clock;
    unsigned in_flight;
    bool stopped;
    uint64_t requests;
    struct kept kept[KEPT_MAX];
    unsigned kept_count;
    uint64_t active_seen; /* a checkpoint that a read told of */
};

enum effect {
    EFFECT_NONE,
    EFFECT_REGISTER,
    EFFECT_END,
    EFFECT_RESTART,
    EFFECT_PREEMPT,
    EFFECT_CANCEL
};

struct request {
    struct scheduler *scheduler;
    const char *method;
    const ProtobufCMessageDescriptor *type;
    uint8_t *bytes; /* packed, for repetitions */
    size_t length;
    unsigned job;
    size_t operation; /* of the history */
    uint64_t value;
    enum effect effect;
    uint32_t preemption_class; /* with which it acts */
    bool reclaims;
    uint32_t node_mask; /* where it runs from then on; 0: as before */
    uint64_t known;     /* index that was acknowledged when it was made */
    bool late;          /* all is well: somebody answers whom the schedulers know */
    bool repeats;       /* a request that was answered before, with these: */
    uint64_t index, id;
};

/* ---- ends ---- */

static void job_start(struct world *world, struct world_job *job)
{
    job->runs = true;
    places_start(world, job, job->node_mask);
}

static void victims_check(struct world *world, const struct request *request,
                          const Ckpt__V1__RequestPreemptionReply *reply)
{
    for (size_t i = 0; i < reply->n_victims; i++) {
        const struct world_job *job = job_find(world, reply->victims[i]->allocation_id);
        if (job == NULL)
            world_violation(world, "I32", "victim %s was never registered",
                            reply->victims[i]->allocation_id);
        if (job->preemption_class >= request->preemption_class)
            world_violation(world, "I32", "class %u preempts %s of class %u",
                            request->preemption_class, job->id, job->preemption_class);
        if (job->sensitive)
            world_violation(world, "I31", "%s is sensitive and a victim", job->id);
        if (request->reclaims && !job->borrowed)
            world_violation(world, "P-005", "%s has no borrowed node and gives some back", job->id);
    }
    if (reply->n_victims == 0 || reply->n_victims > FSM_VICTIMS_MAX)
        world_violation(world, "P-050", "%zu victims", reply->n_victims);
}

struct outcome {
    uint64_t index, id; /* of the checkpoint or the preemption */
    bool repeated;
};

static struct outcome outcome_of(const ProtobufCMessage *reply)
{
    const Ckpt__V1__MutationReply *mutation = (const void *)reply;
    const Ckpt__V1__RequestPreemptionReply *preemption = (const void *)reply;

    if (reply->descriptor == &ckpt__v1__request_preemption_reply__descriptor)
        return (struct outcome){preemption->index, preemption->preemption_id, preemption->repeated};
    return (struct outcome){mutation->index, mutation->checkpoint_id, mutation->repeated};
}

static void keep(struct request *request, const ProtobufCMessage *reply)
{
    const struct outcome outcome = outcome_of(reply);
    struct scheduler *scheduler = request->scheduler;
    struct kept *kept = &scheduler->kept[scheduler->kept_count++ % KEPT_MAX];

    free(kept->bytes);
    *kept = (struct kept){request->method, request->type, request->bytes,
                          request->length, outcome.index, outcome.id};
    request->bytes = NULL;
}

/* I6: what was acknowledged once is acknowledged again, with the same outcome. */
static void repetition_check(const struct request *request, int status, const char *text,
                             const ProtobufCMessage *reply)
{
    struct outcome outcome;

    struct world *world = request->scheduler->world;

    if (!request->late && (status == RPC_DEADLINE_EXCEEDED || status == RPC_UNAVAILABLE ||
                           status == RPC_RESOURCE_EXHAUSTED))
        return; /* nobody answered it */
    if (status != RPC_OK)
        world_violation(world, "I6",
                        "%s was acknowledged at index %" PRIu64 ", its repetition ends with %s: %s",
                        request->method, request->index, rpc_status_name(status), text);
    outcome = outcome_of(reply);
    if (!outcome.repeated || outcome.index != request->index || outcome.id != request->id)
        world_violation(world, "I6",
                        "%s was acknowledged at index %" PRIu64 ", its repetition at %" PRIu64,
                        request->method, request->index, outcome.index);
}

/* F-015: a failure of a job that waits for its next run already takes nothing from it. */
static bool end_repeats(const struct request *request, uint64_t index)
{
    Ckpt__V1__EndAllocationRequest *end =
        ckpt__v1__end_allocation_request__unpack(NULL, request->length, request->bytes);
    bool repeats;

    CHECK(end != NULL);
    repeats = end->failed &&
              ends_repeats_at(request->scheduler->world, request->job, index, end->node_failure);
    ckpt__v1__end_allocation_request__free_unpacked(end, NULL);
    return repeats;
}

/* I6: it was done in the entry that the answer names. */
static void effect_check(const struct request *request, const Ckpt__V1__MutationReply *reply)
{
    struct world *world = request->scheduler->world;
    bool done = true;

    if (request->effect == EFFECT_REGISTER || request->effect == EFFECT_END ||
        request->effect == EFFECT_RESTART)
        done = ends_moved_at(world, request->job, reply->index);
    if (request->effect == EFFECT_END && !done)
        done = end_repeats(request, reply->index);
    else if (request->effect == EFFECT_CANCEL)
        done = state_checks_ended_at(world, reply->checkpoint_id, reply->index);
    if (!done)
        world_violation(world, "I6",
                        "%s of %s is acknowledged at index %" PRIu64 ", which did nothing of it",
                        request->method, world->jobs[request->job].id, reply->index);
}

/* I6: ... and all of what it asks for. */
static void done_look(const struct request *request, const ProtobufCMessage *reply)
{
    ProtobufCMessage *message =
        protobuf_c_message_unpack(request->type, NULL, request->length, request->bytes);

    CHECK(message != NULL);
    done_check(request->scheduler->world, request->method, message, reply);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void mutation_ended(struct request *request, const Ckpt__V1__MutationReply *reply)
{
    struct world *world = request->scheduler->world;
    struct world_job *job = &world->jobs[request->job];

    history_answered(world, request->known, reply->index, true, request->method);
    effect_check(request, reply);
    done_look(request, &reply->base);
    if (request->operation != NO_OPERATION)
        history_end(world, request->operation, request->value, reply->index);
    keep(request, &reply->base);
    if (request->effect == EFFECT_REGISTER || request->effect == EFFECT_RESTART) {
        places_placed(job, request->node_mask != 0 ? request->node_mask : job->node_mask,
                      reply->index);
        job_start(world, job);
    } else if (request->effect == EFFECT_END) {
        job->runs = false;
        job->node_index = reply->index > job->node_index ? reply->index : job->node_index;
    }
}

static void read_ended(struct request *request, int status, const ProtobufCMessage *message)
{
    struct world *world = request->scheduler->world;
    const Ckpt__V1__Allocation *allocation = (const void *)message;

    world->counts.reads++;
    if (status == RPC_NOT_FOUND && state_checks_gone(world, request->job)) {
        history_forget(world, request->operation); /* no write of anyone */
        return;
    }
    if (status == RPC_NOT_FOUND) {
        history_end(world, request->operation, 0, 0);
        return;
    }
    history_answered(world, request->known, allocation->applied_index, false, request->method);
    history_end(world, request->operation, allocation->spec->period_ms, allocation->applied_index);
    places_known(world, &world->jobs[request->job], allocation);
    if (allocation->active_checkpoint_id != 0)
        request->scheduler->active_seen = allocation->active_checkpoint_id;
}

static void request_free(struct request *request)
{
    free(request->bytes);
    free(request);
}

static void on_done(void *data, int status, const char *text, const ProtobufCMessage *reply)
{
    struct request *request = data;
    struct world *world = request->scheduler->world;
    bool unknown = status == RPC_DEADLINE_EXCEEDED || status == RPC_UNAVAILABLE ||
                   status == RPC_RESOURCE_EXHAUSTED;
    bool read = strcmp(request->method, "BrokerService/GetAllocation") == 0;

    request->scheduler->in_flight--;
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " scheduler %u %s job %u: %s %s\n", sim_now_us(world->sim),
                request->scheduler->number, request->method, request->job, rpc_status_name(status),
                status == RPC_OK ? "" : text);
    if (request->repeats)
        repetition_check(request, status, text, reply);
    else if (unknown && request->late)
        world_violation(world, "I7", "%s, asked when all is well, ends with %s: %s",
                        request->method, rpc_status_name(status), text);
    else if (unknown)
        world->counts.unknown++;
    else if (status == RPC_INTERNAL || status == RPC_UNKNOWN || status == RPC_UNIMPLEMENTED)
        world_violation(world, "API", "%s ends with %s: %s", request->method,
                        rpc_status_name(status), text);
    else if (read && (status == RPC_OK || status == RPC_NOT_FOUND))
        read_ended(request, status, reply);
    else if (status != RPC_OK) {
        world->counts.refused++;
        if (request->operation != NO_OPERATION)
            history_forget(world, request->operation);
    } else if (request->effect == EFFECT_PREEMPT) {
        victims_check(world, request, (const void *)reply);
        done_look(request, reply);
        history_answered(world, request->known, outcome_of(reply).index, true, request->method);
        if (world->options.named > 0)
            keep(request, reply);
    } else {
        world->counts.acknowledged++;
        mutation_ended(request, (const void *)reply);
    }
    request_free(request);
}

/* ---- begins ---- */

static void request_send(struct scheduler *scheduler, const struct request *request,
                         const ProtobufCMessage *message)
{
    struct request *own = check_alloc(sizeof(*own));
    const ProtobufCMessageDescriptor *reply =
        strcmp(request->method, "BrokerService/RequestPreemption") == 0
            ? &ckpt__v1__request_preemption_reply__descriptor
        : strcmp(request->method, "BrokerService/GetAllocation") == 0
            ? &ckpt__v1__allocation__descriptor
            : &ckpt__v1__mutation_reply__descriptor;

    *own = *request;
    own->scheduler = scheduler;
    own->known = history_acknowledged(scheduler->world);
    own->late = scheduler->stopped && members_known(scheduler->world);
    own->type = message->descriptor;
    own->length = protobuf_c_message_get_packed_size(message);
    own->bytes = check_alloc(own->length + 1);
    protobuf_c_message_pack(message, own->bytes);
    scheduler->in_flight++;
    scheduler->requests++;
    scheduler->world->counts.requests++;
    client_call(scheduler->client,
                &(struct client_request){.method = request->method,
                                         .message = message,
                                         .reply_type = reply,
                                         .timeout_ms = TIMEOUT_MS},
                on_done, own);
}

/* Also duplicates of other schedulers' ids must not exist: the number is in it. */
static char *request_id(struct scheduler *scheduler, char text[48])
{
    snprintf(text, 48, "s%u-%" PRIu64, scheduler->number, scheduler->requests);
    return text;
}

/* How its applications are asked. */
static const struct application_way *way_draw(const struct world *world, unsigned job)
{
    const struct world_options *options = &world->options;
    const bool ships = options->shipping_agents > 0 && !options->older;

    if (options->callers > 0 && sim_random(world->sim, 100) < options->callers)
        return application_way_at(WAY_CALL);
    if (options->regions > 0 && ships && sim_random(world->sim, 100) < options->regions)
        return application_way_at(WAY_REGION);
    if (options->lookers > 0 && ships && sim_random(world->sim, 100) < options->lookers)
        return application_way_at(WAY_FILE);
    if (options->commands > 0 && ships && sim_random(world->sim, 100) < options->commands)
        return application_way_at(WAY_COMMAND);
    return application_way_at(job % 4 == 3 ? WAY_SECOND_SIGNAL : WAY_FIRST_SIGNAL);
}

static void do_register(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    struct sim *sim = world->sim;
    struct world_job *job;
    Ckpt__V1__RegisterAllocationRequest message = CKPT__V1__REGISTER_ALLOCATION_REQUEST__INIT;
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;
    struct node_shares shares;
    char id[48], texts[] = WORLD_TENANT "\0project\0vc";
    struct request request = {.method = "BrokerService/RegisterAllocation",
                              .effect = EFFECT_REGISTER};
    const struct world_job *old;
    unsigned alive = 0;

    for (unsigned i = 0; i < world->job_count; i++)
        alive += world->jobs[i].runs;
    if (world->job_count == WORLD_JOBS_MAX || alive >= JOBS_ALIVE_MAX)
        return;
    job = &world->jobs[request.job = world->job_count++];
    snprintf(job->id, sizeof(job->id), "job-%u", request.job);
    job->node_mask = UINT32_C(1) << sim_random(sim, world->options.agents);
    if (sim_chance(sim, 3))
        job->node_mask |= UINT32_C(1) << sim_random(sim, world->options.agents);
    job->preemption_class = (uint32_t)sim_random(sim, 10);
    alone_draw(world, job);
    job->borrowed = sim_chance(sim, 3) && (!job->sensitive || sim_chance(sim, 8));
    old = continues_draw(world, job);
    places_fill(world, job->node_mask, job->borrowed, &shares);
    spec.nodes = shares.pointers;
    spec.n_nodes = shares.count;
    spec.allocation_id = job->id;
    spec.tenant = texts;
    spec.project = texts + 7;
    spec.vcluster = texts + 15;
    job->way = way_draw(world, request.job);
    if (world->options.ranks > 0 && application_way_signals(job->way) &&
        sim_random(sim, 100) < world->options.ranks)
        rank_checks_draw(world, job);
    if (old != NULL) {
        continues_program(old, job);
        spec.continues = (char *)(uintptr_t)old->id;
    }
    if (world->options.restores > 0 && sim_random(sim, 100) < world->options.restores) {
        job->elastic = true;
        spec.restore = sim_chance(sim, 2) ? CKPT__V1__RESTORE_MODE__RESTORE_MODE_ALL
                                          : CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH;
    }
    spec.profile = (char *)(uintptr_t)job->way->profile;
    spec.preemption_class = job->preemption_class;
    if (job->sensitive && request.job % 2 == 1) /* its vCluster says so for it */
        spec.vcluster_kind = CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE;
    else
        spec.sensitive = job->sensitive;
    spec.reactive_min_nodes = spec.reactive_max_nodes = sim_chance(sim, 2);
    spec.strategy = sim_chance(sim, 4) ? CKPT__V1__STRATEGY__STRATEGY_MANUAL
                                       : CKPT__V1__STRATEGY__STRATEGY_AUTO;
    if (sim_chance(sim, 5))
        spec.walltime_ms = job->walltime_min_ms = 8000 + sim_random(sim, 40000);
    if (world->options.targets > 1 && sim_chance(sim, 2) && !job->sensitive)
        spec.target_id = world->targets[1].id;
    comebacks_draw(world, job, &spec);
    request.value = spec.period_ms = PERIOD_BASE_MS + ++world->register_value;
    message.request_id = request_id(scheduler, id);
    message.spec = &spec;
    if (world->options.direct > 0 && sim_random(sim, 100) < world->options.direct)
        spec.staging = CKPT__V1__STAGING__STAGING_DIRECT;
    else if (world->options.memory > 0 && sim_random(sim, 100) < world->options.memory)
        spec.staging = CKPT__V1__STAGING__STAGING_MEMORY;
    request.operation = history_begin(world, request.job, true, request.value);
    request_send(scheduler, &request, &message.base);
}

static unsigned some_job(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    unsigned recent = world->job_count < 16 ? world->job_count : 16;

    return world->job_count - 1 - (unsigned)sim_random(world->sim, recent);
}

static bool scales(struct world *world)
{
    return world->options.scaling > 0 && sim_random(world->sim, 100) < world->options.scaling;
}

/* Nodes join and leave, with a checkpoint before it or at once; or what bounds and decides
 * changes. */
static void update_draw(struct world *world, struct world_job *job,
                        Ckpt__V1__UpdateAllocationRequest *message, struct node_shares *shares)
{
    struct sim *sim = world->sim;

    if (sim_chance(sim, 6))
        message->walltime_ms = 8000 + sim_random(sim, 80000);
    if (message->walltime_ms != 0 &&
        (job->walltime_min_ms == 0 || message->walltime_ms < job->walltime_min_ms))
        job->walltime_min_ms = message->walltime_ms;
    if (sim_chance(sim, 8))
        message->strategy = (Ckpt__V1__Strategy)(1 + sim_random(sim, 3));
    job->forced |= message->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE;
    if (world->options.domains > 0 && sim_chance(sim, 3))
        message->target_id = world->targets[sim_random(sim, world->options.targets)].id;
    if (sim_chance(sim, 5))
        return;
    places_fill(world, places_draw(world, job), job->borrowed, shares);
    message->nodes = shares->pointers;
    message->n_nodes = shares->count;
    message->force = sim_chance(sim, 5);
    job->forced |= message->force;
}

static void do_update(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    struct node_shares shares;
    Ckpt__V1__UpdateAllocationRequest message = CKPT__V1__UPDATE_ALLOCATION_REQUEST__INIT;
    struct request request = {.method = "BrokerService/UpdateAllocation",
                              .job = some_job(scheduler)};
    char id[48];

    message.request_id = request_id(scheduler, id);
    message.allocation_id = world->jobs[request.job].id;
    request.value = message.period_ms = PERIOD_BASE_MS + ++world->register_value;
    if (scales(world))
        update_draw(world, &world->jobs[request.job], &message, &shares);
    request.operation = history_begin(world, request.job, true, request.value);
    request_send(scheduler, &request, &message.base);
}

static void do_read(struct scheduler *scheduler, unsigned job)
{
    struct world *world = scheduler->world;
    Ckpt__V1__GetAllocationRequest message = CKPT__V1__GET_ALLOCATION_REQUEST__INIT;
    struct request request = {.method = "BrokerService/GetAllocation", .job = job};

    message.allocation_id = world->jobs[request.job].id;
    request.operation = history_begin(world, request.job, false, 0);
    request_send(scheduler, &request, &message.base);
}

static void do_checkpoint(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    Ckpt__V1__RequestCheckpointRequest message = CKPT__V1__REQUEST_CHECKPOINT_REQUEST__INIT;
    struct request request = {.method = "BrokerService/RequestCheckpoint",
                              .job = some_job(scheduler),
                              .operation = NO_OPERATION};
    char id[48];

    message.request_id = request_id(scheduler, id);
    message.allocation_id = world->jobs[request.job].id;
    if (sim_chance(world->sim, 4))
        message.after = (Ckpt__V1__AfterCheckpoint)(1 + sim_random(world->sim, 4));
    request_send(scheduler, &request, &message.base);
}

static void do_cancel(struct scheduler *scheduler)
{
    Ckpt__V1__CancelCheckpointRequest message = CKPT__V1__CANCEL_CHECKPOINT_REQUEST__INIT;
    struct request request = {.method = "BrokerService/CancelCheckpoint",
                              .operation = NO_OPERATION,
                              .effect = EFFECT_CANCEL};
    char id[48];

    if (scheduler->active_seen == 0)
        return;
    message.request_id = request_id(scheduler, id);
    message.checkpoint_id = scheduler->active_seen;
    state_checks_cancel(scheduler->world, scheduler->active_seen);
    request_send(scheduler, &request, &message.base);
}

static void do_end(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    Ckpt__V1__EndAllocationRequest message = CKPT__V1__END_ALLOCATION_REQUEST__INIT;
    struct request request = {.method = "BrokerService/EndAllocation",
                              .job = some_job(scheduler),
                              .operation = NO_OPERATION,
                              .effect = EFFECT_END};
    char id[48];

    world->jobs[request.job].ended = true;
    message.request_id = request_id(scheduler, id);
    message.allocation_id = world->jobs[request.job].id;
    message.failed = sim_chance(world->sim, 3);
    message.node_failure = message.failed && sim_chance(world->sim, 2);
    if (message.failed)
        message.reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    request_send(scheduler, &request, &message.base);
}

static void do_restart(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    Ckpt__V1__RestartAllocationRequest message = CKPT__V1__RESTART_ALLOCATION_REQUEST__INIT;
    struct request request = {.method = "BrokerService/RestartAllocation",
                              .job = some_job(scheduler),
                              .operation = NO_OPERATION,
                              .effect = EFFECT_RESTART};
    struct node_shares shares;
    char id[48];

    message.request_id = request_id(scheduler, id);
    message.allocation_id = world->jobs[request.job].id;
    message.from_scratch = sim_chance(world->sim, 4);
    world->jobs[request.job].anew |= message.from_scratch;
    if (scales(world)) {
        request.node_mask = places_draw(world, &world->jobs[request.job]);
        places_fill(world, request.node_mask, world->jobs[request.job].borrowed, &shares);
        message.nodes = shares.pointers;
        message.n_nodes = shares.count;
    }
    request_send(scheduler, &request, &message.base);
}

static void do_migrate(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    Ckpt__V1__RequestMigrationRequest message = CKPT__V1__REQUEST_MIGRATION_REQUEST__INIT;
    struct request request = {.method = "BrokerService/RequestMigration",
                              .job = some_job(scheduler),
                              .operation = NO_OPERATION};
    char id[48];

    message.request_id = request_id(scheduler, id);
    message.allocation_id = world->jobs[request.job].id;
    request_send(scheduler, &request, &message.base);
}

/* Why, for how much, and which nodes help. */
static void preempt_draw(struct world *world, struct request *request,
                         Ckpt__V1__RequestPreemptionRequest *message, char *home, char **useful,
                         char **named)
{
    struct sim *sim = world->sim;

    request->preemption_class = message->preemption_class = 1 + (uint32_t)sim_random(sim, 10);
    message->nodes_needed = 1 + (uint32_t)sim_random(sim, 3);
    message->forced = sim_chance(sim, 3);
    if (sim_chance(sim, 4)) {
        message->reason = CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE;
        message->preemption_class = 10;
    } else if (sim_chance(sim, 3)) {
        message->reason = CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_RECLAIM;
        message->home_vcluster = home;
        request->reclaims = true;
    }
    if (message->reason != CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_UNSPECIFIED)
        request->preemption_class = 10;
    if (sim_chance(sim, 4))
        message->gpus_needed = 1 + (uint32_t)sim_random(sim, 12);
    if (sim_chance(sim, 4))
        message->value_gpu_ms = 1 + sim_random(sim, 2000000);
    message->candidates = named;
    while (world->options.named > 0 && world->job_count > 0 &&
           sim_random(sim, 100) < world->options.named && message->n_candidates < CANDIDATES_MAX)
        named[message->n_candidates++] = world->jobs[sim_random(sim, world->job_count)].id;
    if (!sim_chance(sim, 3))
        return;
    message->useful_nodes = useful;
    for (unsigned i = 0; i < world->options.agents; i++)
        if (sim_chance(sim, 2))
            useful[message->n_useful_nodes++] = world->agents[i].name;
}

static void do_preempt(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    Ckpt__V1__RequestPreemptionRequest message = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    struct request request = {.method = "BrokerService/RequestPreemption",
                              .operation = NO_OPERATION,
                              .effect = EFFECT_PREEMPT};
    char id[48], home[] = "lender", *useful[32], *named[CANDIDATES_MAX];

    CHECK(world->options.agents <= ARRAY_COUNT(useful));
    message.request_id = request_id(scheduler, id);
    preempt_draw(world, &request, &message, home, useful, named);
    request_send(scheduler, &request, &message.base);
}

/* Missing, negative or huge numbers: all are 0, or each is one of those. */
static void queue_odd(struct sim *sim, Ckpt__V1__ReportQueueRequest *message)
{
    Ckpt__V1__WaitingJob *waiting = message->waiting[0];
    bool missing = sim_chance(sim, 3);

    message->queued_gpu_ms = missing ? 0 : odd_number(sim);
    message->running_gpu_ms = missing ? 0 : odd_number(sim);
    message->n_waiting = sim_random(sim, 2);
    waiting->urgency_milli = (uint32_t)odd_number(sim);
    waiting->gpu_count = (uint32_t)odd_number(sim);
    waiting->waited_ms = odd_number(sim);
}

static void do_queue(struct scheduler *scheduler)
{
    struct world *world = scheduler->world;
    Ckpt__V1__ReportQueueRequest message = CKPT__V1__REPORT_QUEUE_REQUEST__INIT;
    Ckpt__V1__WaitingJob waiting = CKPT__V1__WAITING_JOB__INIT, *pointer = &waiting;
    struct request request = {.method = "BrokerService/ReportQueue", .operation = NO_OPERATION};
    char id[48], name[32], vcluster[] = "vc";

    message.request_id = request_id(scheduler, id);
    message.vcluster = vcluster;
    message.queued_gpu_ms = sim_random(world->sim, QUEUE_GPU_MS_MAX);
    message.running_gpu_ms = sim_random(world->sim, QUEUE_GPU_MS_MAX);
    waiting.job_id = name;
    waiting.preemption_class = (uint32_t)sim_random(world->sim, 11);
    waiting.urgency_milli = (uint32_t)sim_random(world->sim, 5000);
    waiting.gpu_count = 1 + (uint32_t)sim_random(world->sim, 16);
    waiting.waited_ms = sim_random(world->sim, 10000000);
    waiting.sensitive = waiting.preemption_class == FSM_CLASS_MAX; /* the evaluator claims nodes */
    snprintf(name, sizeof(name), "waiting-%u", waiting.gpu_count);
    message.waiting = &pointer;
    message.n_waiting = 1;
    if (odd_draw(world))
        queue_odd(world->sim, &message);
    request_send(scheduler, &request, &message.base);
}

static void repeat(struct scheduler *scheduler, const struct kept *kept)
{
    struct request request = {.method = kept->method,
                              .operation = NO_OPERATION,
                              .repeats = true,
                              .index = kept->index,
                              .id = kept->id};
    ProtobufCMessage *message =
        protobuf_c_message_unpack(kept->type, NULL, kept->length, kept->bytes);

    CHECK(message != NULL);
    request_send(scheduler, &request, message);
    protobuf_c_message_free_unpacked(message, NULL);
}

static const struct kept *some_kept(struct scheduler *scheduler)
{
    unsigned count = scheduler->kept_count < KEPT_MAX ? scheduler->kept_count : KEPT_MAX;

    return &scheduler->kept[(scheduler->kept_count - 1 - sim_random(scheduler->world->sim, count)) %
                            KEPT_MAX];
}

static void draw(struct scheduler *scheduler)
{
    uint64_t kind = sim_random(scheduler->world->sim, 100);

    if (scheduler->world->job_count == 0 || kind < 8)
        do_register(scheduler);
    else if (kind < 30)
        do_update(scheduler);
    else if (kind < 60)
        do_read(scheduler, some_job(scheduler));
    else if (kind < 72)
        do_checkpoint(scheduler);
    else if (kind < 75)
        do_cancel(scheduler);
    else if (kind < 79)
        do_end(scheduler);
    else if (kind < 85)
        do_restart(scheduler);
    else if (kind < 88)
        do_migrate(scheduler);
    else if (kind < 91)
        do_preempt(scheduler);
    else if (kind < 94)
        do_queue(scheduler);
    else if (scheduler->kept_count > 0)
        repeat(scheduler, some_kept(scheduler));
}

static void on_timer(void *data)
{
    struct scheduler *scheduler = data;
    struct world *world = scheduler->world;
    uint64_t mean_us =
        (uint64_t)SECOND_US * world->options.schedulers / world->options.operations_per_s;

    if (scheduler->stopped)
        return;
    scheduler->clock.timer_start(scheduler->timer, 1 + sim_random(world->sim, 2 * mean_us));
    if (scheduler->in_flight < IN_FLIGHT_MAX)
        draw(scheduler);
}

/* ---- life ---- */

void load_init(struct world *world)
{
    for (unsigned i = 0; i < world->options.schedulers; i++) {
        unsigned node = WORLD_SCHEDULER_NODE + i;
        const struct client_config config = {.endpoints = world->endpoints};
        struct scheduler *scheduler = check_calloc(1, sizeof(*scheduler));
        struct err err;

        sim_loop_init(&world->scheduler_loops[i], world->sim, node);
        scheduler->world = world;
        scheduler->number = i;
        sim_node_clock(world->sim, node, &scheduler->clock);
        scheduler->timer =
            scheduler->clock.timer_new(scheduler->clock.context, on_timer, scheduler);
        CHECK(client_new(&world->scheduler_loops[i].uv, &config, &scheduler->client, &err) == 0);
        world->schedulers[i] = scheduler;
    }
}

void load_start(struct world *world)
{
    for (unsigned i = 0; i < world->options.schedulers; i++)
        world->schedulers[i]->clock.timer_start(world->schedulers[i]->timer, 1000 * (i + 1));
}

void load_stop(struct world *world)
{
    for (unsigned i = 0; i < world->options.schedulers; i++)
        world->schedulers[i]->stopped = true;
}

bool load_idle(const struct world *world)
{
    for (unsigned i = 0; i < world->options.schedulers; i++)
        if (world->schedulers[i]->in_flight > 0)
            return false;
    return true;
}

void load_repeat(struct world *world)
{
    for (unsigned i = 0; i < world->options.schedulers; i++) {
        struct scheduler *scheduler = world->schedulers[i];
        unsigned count = scheduler->kept_count < KEPT_MAX ? scheduler->kept_count : KEPT_MAX;
        unsigned before = sim_enter(world->sim, WORLD_SCHEDULER_NODE + i);

        for (unsigned n = 0; n < count; n++)
            repeat(scheduler, &scheduler->kept[n]);
        for (unsigned job = i; job < world->job_count; job += world->options.schedulers)
            do_read(scheduler, job);
        sim_leave(world->sim, before);
    }
}

void load_close(struct world *world)
{
    for (unsigned i = 0; i < world->options.schedulers; i++) {
        struct scheduler *scheduler = world->schedulers[i];

        client_free(scheduler->client);
        scheduler->clock.timer_free(scheduler->timer);
        for (unsigned n = 0; n < KEPT_MAX; n++)
            free(scheduler->kept[n].bytes);
        free(scheduler);
    }
}
