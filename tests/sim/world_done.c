/* I6: what is acknowledged was done in the entry that the answer names. The ends and restarts of
 * jobs, and cancels: world_load.c.
 *
 * Flow     whenever an entry is first applied: what it has made of jobs, checkpoints, policy,
 *          destinations, nodes, queues. An answer: each value that was asked for is there as of its
 *          index, unless another command of the same entry has put something else there.
 * Shapes   a series per thing, an item per entry that changed it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/broker.pb-c.h"
#include "ckpt/v1/operator.pb-c.h"
#include "fsm/node_life.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name

enum { POLICY_FIELDS_MAX = 64 };

struct job_item {
    uint64_t index;
    uint64_t period_ms, walltime_ms;
    uint32_t strategy, preemption_class, requeue_policy;
    uint32_t nodes; /* agents that it has, or keeps when its checkpoint has ended */
    uint32_t moves; /* to other states, in the entry: it may have been started elsewhere */
    bool sensitive;
    bool stays; /* nothing stops it: its nodes are those asked for last */
    /* a checkpoint of it has ended in the entry, and what waited for that with it */
    bool interrupted;
};
struct policy_item {
    uint64_t index;
    Ckpt__V1__Policy policy;
};
struct target_item {
    uint64_t index;
    uint64_t write_bytes_per_s;
    uint64_t measured_bytes_per_s;
    uint32_t staging_share_ppm;
    bool is_default, available;
};
struct node_item {
    uint64_t index;
    uint32_t state;
    bool wanted; /* an operator wants it out of use */
};
struct queue_item {
    uint64_t index;
    uint64_t queued_gpu_ms, running_gpu_ms;
};
struct spare_item {
    uint64_t index;
    bool known;
};
struct checkpoint_item { /* when it began */
    uint64_t index;
    uint64_t id, ended_index; /* 0: not yet */
    unsigned job;
    uint32_t after;
};
struct victim_item {
    uint64_t index;
    uint64_t preemption_id;
    unsigned job;
};

/* Of items that begin with their index, which rises. */
struct series {
    uint8_t *items;
    size_t size, count, capacity;
};

struct done_checks {
    struct series jobs[WORLD_JOBS_MAX];
    struct series targets[WORLD_TARGETS_MAX], nodes[WORLD_AGENTS_MAX];
    struct series policies, queues, checkpoints, victims, spares;
    bool touched[WORLD_JOBS_MAX]; /* by events of this entry */
    bool interrupted[WORLD_JOBS_MAX];
    uint32_t moves[WORLD_JOBS_MAX];
    bool any_touched;
    uint32_t nodes_touched; /* agents */
};

static const struct {
    size_t offset, count, size;
} all_series[] = {
#define SERIES(field, many, item)                                                                  \
    {                                                                                              \
        offsetof(struct done_checks, field), many, sizeof(struct item)                             \
    }
    SERIES(jobs, WORLD_JOBS_MAX, job_item),
    SERIES(targets, WORLD_TARGETS_MAX, target_item),
    SERIES(nodes, WORLD_AGENTS_MAX, node_item),
    SERIES(policies, 1, policy_item),
    SERIES(queues, 1, queue_item),
    SERIES(spares, 1, spare_item),
    SERIES(checkpoints, 1, checkpoint_item),
    SERIES(victims, 1, victim_item),
#undef SERIES
};

static struct series *series_of(struct done_checks *checks, size_t kind, size_t i)
{
    return (struct series *)(void *)((char *)checks + all_series[kind].offset) + i;
}

void done_init(struct world *world)
{
    world->done = check_calloc(1, sizeof(*world->done));
    for (size_t kind = 0; kind < ARRAY_COUNT(all_series); kind++)
        for (size_t i = 0; i < all_series[kind].count; i++)
            series_of(world->done, kind, i)->size = all_series[kind].size;
}

void done_close(struct world *world)
{
    for (size_t kind = 0; kind < ARRAY_COUNT(all_series); kind++)
        for (size_t i = 0; i < all_series[kind].count; i++)
            free(series_of(world->done, kind, i)->items);
    free(world->done);
}

/* ---- series ---- */

static uint64_t index_of(const struct series *series, size_t i)
{
    uint64_t index;

    memcpy(&index, series->items + i * series->size, sizeof(index));
    return index;
}

static void series_add(struct series *series, const void *item)
{
    if (series->count == series->capacity) {
        series->capacity = series->capacity == 0 ? 8 : 2 * series->capacity;
        series->items = check_realloc(series->items, series->capacity, series->size);
    }
    memcpy(series->items + series->count++ * series->size, item, series->size);
}

/* As of the index; NULL: it was not there. */
static const void *series_at(const struct series *series, uint64_t index)
{
    for (size_t i = series->count; i > 0; i--)
        if (index_of(series, i - 1) <= index)
            return series->items + (i - 1) * series->size;
    return NULL;
}

/* A new item, unless only its index would be new. */
static void series_note(struct series *series, const void *item)
{
    const size_t rest = series->size - sizeof(uint64_t);
    const uint8_t *last =
        series->count == 0 ? NULL : series->items + (series->count - 1) * series->size;

    if (last == NULL ||
        memcmp(last + sizeof(uint64_t), (const uint8_t *)item + sizeof(uint64_t), rest) != 0)
        series_add(series, item);
}

/* ---- what entries make ---- */

static struct checkpoint_item *checkpoint_find(struct world *world, uint64_t id)
{
    const struct series *series = &world->done->checkpoints;

    for (size_t i = series->count; i > 0; i--) {
        struct checkpoint_item *item = (struct checkpoint_item *)(void *)series->items + (i - 1);
        if (item->id == id)
            return item;
    }
    return NULL;
}

static void checkpoint_event(struct world *world, const Ckpt__V1__Event *event, unsigned job,
                             uint64_t index)
{
    struct checkpoint_item *item;

    if (event->old_state == CHECKPOINT(UNSPECIFIED)) {
        const struct checkpoint_item fresh = {index, event->checkpoint_id, 0, job, 0};
        series_add(&world->done->checkpoints, &fresh);
        return;
    }
    if (fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)event->new_state))
        return;
    world->done->interrupted[job] = true;
    item = checkpoint_find(world, event->checkpoint_id);
    if (item != NULL && item->ended_index == 0)
        item->ended_index = index;
}

void done_event(struct world *world, const Ckpt__V1__Event *event, uint64_t index)
{
    const struct world_job *job =
        event->allocation_id[0] == '\0' ? NULL : job_find(world, event->allocation_id);
    struct done_checks *checks = world->done;
    unsigned number = job == NULL ? WORLD_JOBS_MAX : (unsigned)(job - world->jobs);

    if ((event->kind == EVENT(NODE_STATE) || event->kind == EVENT(NODE_DRAINED) ||
         event->kind == EVENT(NODE_REMOVED)) &&
        world_agent_number(event->subject) >= 0)
        checks->nodes_touched |= UINT32_C(1) << world_agent_number(event->subject);
    if (job == NULL)
        return;
    checks->touched[number] = checks->any_touched = true;
    checks->moves[number] += event->kind == EVENT(ALLOCATION_STATE);
    if (event->kind == EVENT(CHECKPOINT_STATE))
        checkpoint_event(world, event, number, index);
    if (event->kind == EVENT(PREEMPTION)) {
        const struct victim_item victim = {index, event->number, number};
        series_add(&checks->victims, &victim);
        checks->interrupted[number] = true;
    }
}

static uint32_t mask_of(const struct fsm *fsm, const struct fsm_node_share *shares, uint32_t count)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < count; i++)
        mask |= UINT32_C(1) << world_agent_number(fsm_node_name(fsm, shares[i].node_slot));
    return mask;
}

static void note_job(struct world *world, const struct fsm *fsm, unsigned number, uint64_t index)
{
    const struct fsm_allocation *job = world->found[number];
    struct job_item item;

    if (job == NULL)
        return;
    memset(&item, 0, sizeof(item));
    item.index = index;
    item.period_ms = job->period_ms;
    item.walltime_ms = job->walltime_ms;
    item.strategy = (uint32_t)job->strategy;
    item.preemption_class = job->preemption_class;
    item.requeue_policy = (uint32_t)job->requeue_policy;
    item.sensitive = job->sensitive;
    item.nodes = job->next_count > 0 ? mask_of(fsm, job->next, job->next_count)
                                     : mask_of(fsm, job->nodes, job->node_count);
    item.stays = state_holds_nodes(job->state) && job->state != ALLOCATION(CHECKPOINTING_TO_STOP) &&
                 !job->terminating;
    item.interrupted = world->done->interrupted[number];
    item.moves = world->done->moves[number];
    series_add(&world->done->jobs[number], &item);
}

/* The checkpoints that began in this entry. */
static void note_checkpoints(struct world *world, const struct fsm *fsm, uint64_t index)
{
    const struct series *series = &world->done->checkpoints;

    for (size_t i = series->count; i > 0 && index_of(series, i - 1) == index; i--) {
        struct checkpoint_item *item = (struct checkpoint_item *)(void *)series->items + (i - 1);
        const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, item->id);
        item->after = checkpoint == NULL ? 0 : (uint32_t)checkpoint->after;
    }
}

static void note_jobs(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct done_checks *checks = world->done;

    if (!checks->any_touched)
        return;
    for (unsigned job = 0; job < world->job_count; job++)
        if (checks->touched[job])
            note_job(world, fsm, job, index);
    note_checkpoints(world, fsm, index);
    memset(checks->touched, 0, sizeof(checks->touched));
    memset(checks->interrupted, 0, sizeof(checks->interrupted));
    memset(checks->moves, 0, sizeof(checks->moves));
    checks->any_touched = false;
}

static void note_nodes(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct done_checks *checks = world->done;

    for (unsigned i = 0; checks->nodes_touched >> i != 0; i++) {
        const struct fsm_node *node = fsm_node_find(fsm, world_agent_name(i));
        const struct node_item item = {index, node == NULL ? 0 : (uint32_t)node->state,
                                       node != NULL && fsm_node_refusal(node) != FSM_OK};

        if ((checks->nodes_touched >> i & 1) != 0)
            series_add(&checks->nodes[i], &item);
    }
    checks->nodes_touched = 0;
}

static void note_targets(struct world *world, const struct fsm *fsm, uint64_t index)
{
    for (unsigned i = 0; i < world->options.targets; i++) {
        const struct fsm_target *target = fsm_target_find(fsm, world->targets[i].id);
        struct target_item item;

        if (target == NULL)
            continue;
        memset(&item, 0, sizeof(item));
        item.index = index;
        item.write_bytes_per_s = target->write_bytes_per_s;
        item.staging_share_ppm = target->staging_share_ppm;
        item.is_default = target->is_default;
        item.measured_bytes_per_s = target->measured_bytes_per_s;
        item.available = target->available;
        series_note(&world->done->targets[i], &item);
    }
}

static void note_spare(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct spare_item item;

    memset(&item, 0, sizeof(item));
    item.index = index;
    item.known = fsm_target_find(fsm, WORLD_SPARE_TARGET) != NULL;
    series_note(&world->done->spares, &item);
}

static void note_queue(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct queue_item item;
    struct fsm_queue queue;

    memset(&item, 0, sizeof(item));
    item.index = index;
    for (size_t i = 0; i < fsm_queue_count(fsm); i++) {
        fsm_queue_at(fsm, i, &queue);
        if (strcmp(queue.vcluster, "vc") != 0)
            continue;
        item.queued_gpu_ms = queue.queued_gpu_ms;
        item.running_gpu_ms = queue.running_gpu_ms;
        series_note(&world->done->queues, &item);
    }
}

void done_applied(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct policy_item item;

    note_jobs(world, fsm, index);
    note_nodes(world, fsm, index);
    note_targets(world, fsm, index);
    note_spare(world, fsm, index);
    note_queue(world, fsm, index);
    memset(&item, 0, sizeof(item));
    item.index = index;
    item.policy = *fsm_policy(fsm);
    series_note(&world->done->policies, &item);
}

/* ---- answers ---- */

struct answer {
    struct world *world;
    const char *what, *of;
    uint64_t index;
};

struct value {
    const char *name;
    uint64_t asked, now, before;
};

/* All of them, unless another command of the entry has overruled them: then one at least is neither
 * as asked for nor as it was before. */
static void values_check(const struct answer *answer, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].now != values[i].asked && values[i].now != values[i].before)
            return;
    for (size_t i = 0; i < count; i++)
        if (values[i].now != values[i].asked)
            world_violation(answer->world, "I6",
                            "%s of %s is acknowledged at index %" PRIu64 ", and %s is %" PRIu64
                            " there as before, not %" PRIu64,
                            answer->what, answer->of, answer->index, values[i].name, values[i].now,
                            values[i].asked);
}

static void nothing_done(const struct answer *answer, const char *missing)
{
    world_violation(answer->world, "I6",
                    "%s of %s is acknowledged at index %" PRIu64 ", where there is no %s",
                    answer->what, answer->of, answer->index, missing);
}

static uint32_t shares_mask(Ckpt__V1__NodeShare *const *shares, size_t count)
{
    Ckpt__V1__AllocationSpec spec = CKPT__V1__ALLOCATION_SPEC__INIT;

    spec.nodes = (Ckpt__V1__NodeShare **)(uintptr_t)shares;
    spec.n_nodes = count;
    return places_mask(&spec);
}

/* The job's items of the entry itself and of before it. */
static const struct job_item *job_items(struct answer *answer, const char *id,
                                        const struct job_item **ret_before)
{
    static const struct job_item none;
    const struct world_job *job = job_find(answer->world, id);
    const struct series *series = &answer->world->done->jobs[job - answer->world->jobs];
    const struct job_item *now = series_at(series, answer->index),
                          *before = series_at(series, answer->index - 1);

    answer->of = job->id;
    if (now == NULL || now->index != answer->index)
        nothing_done(answer, "change of it");
    *ret_before = before == NULL ? &none : before;
    return now;
}

/* What was not asked for is as it is. */
static struct value value_of(const char *name, bool wanted, uint64_t asked, uint64_t now,
                             uint64_t before)
{
    return (struct value){name, wanted ? asked : now, now, wanted ? before : now};
}

static struct value nodes_of(Ckpt__V1__NodeShare *const *shares, size_t count,
                             const struct job_item *now, const struct job_item *before,
                             uint32_t own_moves)
{
    return value_of("its set of nodes",
                    count > 0 && now->stays && !now->interrupted && now->moves == own_moves,
                    shares_mask(shares, count), now->nodes, before->nodes);
}

/* Each has a period of its own, which tells whether another one has followed in the entry. */
static void update_check(struct answer *answer, const Ckpt__V1__UpdateAllocationRequest *request)
{
    const struct job_item *before, *now = job_items(answer, request->allocation_id, &before);
    const struct value values[] = {
        {"the period", request->period_ms, now->period_ms, before->period_ms},
        value_of("the walltime", request->walltime_ms != 0, request->walltime_ms, now->walltime_ms,
                 before->walltime_ms),
        value_of("the strategy", request->strategy != CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED,
                 request->strategy, now->strategy, before->strategy),
        nodes_of(request->nodes, request->n_nodes, now, before, 0),
    };

    values_check(answer, values, ARRAY_COUNT(values));
}

static void restart_check(struct answer *answer, const Ckpt__V1__RestartAllocationRequest *request)
{
    const struct job_item *before, *now = job_items(answer, request->allocation_id, &before);
    const struct value nodes = nodes_of(request->nodes, request->n_nodes, now, before, 1);

    if (now->period_ms == before->period_ms) /* else an update has followed */
        values_check(answer, &nodes, 1);
}

static void register_check(struct answer *answer, const Ckpt__V1__AllocationSpec *spec)
{
    const struct job_item *before, *now = job_items(answer, spec->allocation_id, &before);
    const struct value values[] = {
        {"the period", spec->period_ms, now->period_ms, before->period_ms},
        {"the class", spec->preemption_class, now->preemption_class, now->preemption_class},
        {"sensitive",
         spec->sensitive || spec->vcluster_kind == CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_SENSITIVE,
         now->sensitive, now->sensitive},
        {"the requeue policy",
         spec->requeue_policy != 0 ? spec->requeue_policy
                                   : CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ON_NODE_FAILURE,
         now->requeue_policy, now->requeue_policy},
        {"the walltime", spec->walltime_ms, now->walltime_ms, now->walltime_ms},
        {"the strategy", spec->strategy, now->strategy, now->strategy},
        nodes_of(spec->nodes, spec->n_nodes, now, now, 0),
    };

    values_check(answer, values, ARRAY_COUNT(values));
}

/* The checkpoint that the answer names had begun, of this job, and had not ended before; one that
 * began with it does what was asked. */
static void checkpoint_check(struct answer *answer, const char *job_id, uint64_t checkpoint_id,
                             uint32_t after)
{
    const struct checkpoint_item *item = checkpoint_find(answer->world, checkpoint_id);

    answer->of = job_id;
    if (item == NULL || item->index > answer->index ||
        strcmp(answer->world->jobs[item->job].id, job_id) != 0 ||
        (item->ended_index != 0 && item->ended_index < answer->index))
        nothing_done(answer, "checkpoint of it");
    if (item->index == answer->index && item->after != 0 &&
        after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE)
        values_check(answer,
                     &(struct value){"what follows the checkpoint", after, item->after,
                                     CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE},
                     1);
}

/* Without a checkpoint it moves only where nobody can write one, and where it may run again. */
static void migration_check(struct answer *answer, const char *job_id, uint64_t checkpoint_id)
{
    const struct world_job *job = job_find(answer->world, job_id);
    const struct series *series = &answer->world->done->jobs[job - answer->world->jobs];
    const struct job_item *now = series_at(series, answer->index),
                          *before = series_at(series, answer->index - 1);

    if (checkpoint_id != 0) {
        checkpoint_check(answer, job_id, checkpoint_id,
                         CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE);
        return;
    }
    answer->of = job->id;
    if (now == NULL ||
        (now->strategy != CKPT__V1__STRATEGY__STRATEGY_NONE &&
         (before == NULL || before->strategy != CKPT__V1__STRATEGY__STRATEGY_NONE)) ||
        now->requeue_policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER)
        nothing_done(answer, "checkpoint of it, nor a reason to move it without one");
}

static void preemption_check(struct answer *answer, const Ckpt__V1__RequestPreemptionReply *reply)
{
    const struct series *series = &answer->world->done->victims;

    for (size_t v = 0; v < reply->n_victims; v++) {
        bool found = false;

        answer->of = reply->victims[v]->allocation_id;
        for (size_t i = series->count; i > 0 && index_of(series, i - 1) >= answer->index; i--) {
            const struct victim_item *item =
                (const struct victim_item *)(const void *)series->items + (i - 1);
            found |= item->index == answer->index && item->preemption_id == reply->preemption_id &&
                     strcmp(answer->world->jobs[item->job].id, answer->of) == 0;
        }
        if (!found)
            nothing_done(answer, "victim of it");
    }
}

/* Usual reports lie between; none is like another one. */
static bool queue_is_odd(const struct queue_item *item)
{
    return (item->queued_gpu_ms <= 1 || item->queued_gpu_ms >= QUEUE_GPU_MS_MAX) &&
           (item->running_gpu_ms <= 1 || item->running_gpu_ms >= QUEUE_GPU_MS_MAX);
}

static void queue_check(struct answer *answer, const Ckpt__V1__ReportQueueRequest *request)
{
    static const struct queue_item none;
    const struct series *series = &answer->world->done->queues;
    const struct queue_item *now = series_at(series, answer->index),
                            *before = series_at(series, answer->index - 1);

    answer->of = request->vcluster;
    now = now == NULL ? &none : now;
    before = before == NULL ? &none : before;
    /* Odd reports are like each other: one before, and one that has followed in the entry. */
    if (answer->world->options.odd_values > 0 && queue_is_odd(now))
        return;
    values_check(
        answer,
        (const struct value[]){
            {"what waits", request->queued_gpu_ms, now->queued_gpu_ms, before->queued_gpu_ms},
            {"what runs", request->running_gpu_ms, now->running_gpu_ms, before->running_gpu_ms}},
        2);
}

static uint64_t policy_value(const Ckpt__V1__Policy *policy, const ProtobufCFieldDescriptor *field)
{
    uint64_t value = 0;

    memcpy(&value, (const char *)policy + field->offset,
           field->type == PROTOBUF_C_TYPE_UINT64 ? sizeof(uint64_t) : sizeof(uint32_t));
    return value;
}

static void policy_check(struct answer *answer, const Ckpt__V1__Policy *asked)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;
    const struct series *series = &answer->world->done->policies;
    const struct policy_item *now = series_at(series, answer->index),
                             *before = series_at(series, answer->index - 1);
    struct value values[POLICY_FIELDS_MAX];

    answer->of = "the cluster";
    CHECK(descriptor->n_fields <= POLICY_FIELDS_MAX);
    if (now == NULL || before == NULL)
        nothing_done(answer, "policy");
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        bool emptied = field->id < 60 && (asked->zeros >> field->id & 1) != 0;

        values[i] = value_of(field->name,
                             (policy_value(asked, field) != 0 || emptied) &&
                                 strcmp(field->name, "zeros") != 0,
                             policy_value(asked, field), policy_value(&now->policy, field),
                             policy_value(&before->policy, field));
    }
    values_check(answer, values, descriptor->n_fields);
}

/* Other commands of the same entry may have undone it again: only one operator is there, and it has
 * one call under way. */
static void spare_check(struct answer *answer, bool known)
{
    const struct spare_item *now = series_at(&answer->world->done->spares, answer->index);

    answer->of = WORLD_SPARE_TARGET;
    if (now == NULL || now->known != known)
        nothing_done(answer, known ? "such destination" : "removal");
}

static void target_check(struct answer *answer, const Ckpt__V1__TargetSpec *spec)
{
    unsigned number = 0;
    const struct target_item *now, *before;

    if (strcmp(spec->target_id, WORLD_SPARE_TARGET) == 0) {
        spare_check(answer, true);
        return;
    }
    while (strcmp(answer->world->targets[number].id, spec->target_id) != 0)
        number++;
    CHECK(number < answer->world->options.targets);
    answer->of = answer->world->targets[number].id;
    now = series_at(&answer->world->done->targets[number], answer->index);
    before = series_at(&answer->world->done->targets[number], answer->index - 1);
    if (now == NULL || before == NULL)
        nothing_done(answer, "such destination");
    values_check(answer,
                 (const struct value[]){
                     {"its bandwidth", spec->write_bytes_per_s, now->write_bytes_per_s,
                      before->write_bytes_per_s},
                     {"its share for staging", spec->staging_share_ppm, now->staging_share_ppm,
                      before->staging_share_ppm},
                     value_of("being the default", spec->is_default, true, now->is_default,
                              before->is_default),
                 },
                 3);
}

/* A node that is gone moves nowhere by a drain, so that no event tells of it. */
static void drain_check(struct answer *answer, const char *node_id)
{
    const struct series *series = &answer->world->done->nodes[world_agent_number(node_id)];
    const struct node_item *now = series_at(series, answer->index);

    answer->of = node_id;
    if (now == NULL || (now->index != answer->index && !now->wanted &&
                        now->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN &&
                        now->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST))
        nothing_done(answer, "drain of it");
}

/* Its agent may be back in the same entry. */
static void removal_check(struct answer *answer, const char *node_id)
{
    const struct series *series = &answer->world->done->nodes[world_agent_number(node_id)];
    const struct node_item *now = series_at(series, answer->index);

    answer->of = node_id;
    if (now == NULL || (now->index != answer->index && now->state != 0))
        nothing_done(answer, "removal of it");
}

void done_check(struct world *world, const char *what, const ProtobufCMessage *request,
                const ProtobufCMessage *reply)
{
    const ProtobufCMessageDescriptor *type = request->descriptor;
    const Ckpt__V1__MutationReply *mutation = (const void *)reply;
    struct answer answer = {.world = world, .what = what};

    if (type == &ckpt__v1__request_preemption_request__descriptor) {
        answer.index = ((const Ckpt__V1__RequestPreemptionReply *)(const void *)reply)->index;
        preemption_check(&answer, (const void *)reply);
        return;
    }
    CHECK(reply->descriptor == &ckpt__v1__mutation_reply__descriptor);
    answer.index = mutation->index;
    if (type == &ckpt__v1__register_allocation_request__descriptor)
        register_check(&answer,
                       ((const Ckpt__V1__RegisterAllocationRequest *)(const void *)request)->spec);
    else if (type == &ckpt__v1__update_allocation_request__descriptor)
        update_check(&answer, (const void *)request);
    else if (type == &ckpt__v1__restart_allocation_request__descriptor)
        restart_check(&answer, (const void *)request);
    else if (type == &ckpt__v1__request_checkpoint_request__descriptor) {
        const Ckpt__V1__RequestCheckpointRequest *own = (const void *)request;
        checkpoint_check(&answer, own->allocation_id, mutation->checkpoint_id, own->after);
    } else if (type == &ckpt__v1__request_migration_request__descriptor) {
        const Ckpt__V1__RequestMigrationRequest *own = (const void *)request;
        migration_check(&answer, own->allocation_id, mutation->checkpoint_id);
    } else if (type == &ckpt__v1__report_queue_request__descriptor)
        queue_check(&answer, (const void *)request);
    else if (type == &ckpt__v1__set_policy_request__descriptor)
        policy_check(&answer, ((const Ckpt__V1__SetPolicyRequest *)(const void *)request)->policy);
    else if (type == &ckpt__v1__put_target_request__descriptor)
        target_check(&answer, ((const Ckpt__V1__PutTargetRequest *)(const void *)request)->spec);
    else if (type == &ckpt__v1__remove_target_request__descriptor)
        spare_check(&answer, false);
    else if (type == &ckpt__v1__drain_node_request__descriptor)
        drain_check(&answer, ((const Ckpt__V1__DrainNodeRequest *)(const void *)request)->node_id);
    else if (type == &ckpt__v1__remove_node_request__descriptor)
        removal_check(&answer,
                      ((const Ckpt__V1__RemoveNodeRequest *)(const void *)request)->node_id);
}

/* ---- reads ---- */

/* I7: what was read was so at some index from `known` on; of as many things as the answer has, each
 * by itself. */
static bool was_so(const struct series *series, uint64_t known,
                   bool (*same)(const void *item, const void *told), const void *told)
{
    for (size_t i = series->count; i > 0; i--) {
        if (same(series->items + (i - 1) * series->size, told))
            return true;
        if (index_of(series, i - 1) <= known)
            return false;
    }
    return series->count == 0; /* nothing is known of it */
}

static bool same_policy(const void *item, const void *told)
{
    const ProtobufCMessageDescriptor *descriptor = &ckpt__v1__policy__descriptor;
    const struct policy_item *was = item;

    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (policy_value(&was->policy, &descriptor->fields[i]) !=
            policy_value(told, &descriptor->fields[i]))
            return false;
    return true;
}

static bool same_target(const void *item, const void *told)
{
    const struct target_item *was = item;
    const Ckpt__V1__TargetStatus *status = told;

    return was->write_bytes_per_s == status->spec->write_bytes_per_s &&
           was->staging_share_ppm == status->spec->staging_share_ppm &&
           was->is_default == status->spec->is_default && was->available == status->available &&
           was->measured_bytes_per_s == status->measured_bytes_per_s;
}

static bool same_node(const void *item, const void *told)
{
    static const char *const names[] = {"unknown", "ready",      "degraded", "down",
                                        "drain",   "agent_lost", "drained",  "disabled"};
    const struct node_item *was = item;
    const Ckpt__V1__NodeStatus *status = told;

    CHECK(was->state < ARRAY_COUNT(names));
    return strncmp(status->state, names[was->state], strlen(names[was->state])) == 0;
}

static void was_check(struct world *world, const char *what, const char *of, uint64_t known,
                      bool was)
{
    if (!was)
        world_violation(world, "I7",
                        "%s tells of %s what was not so since index %" PRIu64
                        ", which was acknowledged before it was asked for",
                        what, of, known);
}

void done_read(struct world *world, const char *what, uint64_t known, const ProtobufCMessage *reply)
{
    struct done_checks *checks = world->done;

    if (reply->descriptor == &ckpt__v1__get_policy_reply__descriptor) {
        const Ckpt__V1__GetPolicyReply *policy = (const void *)reply;
        was_check(world, what, "the policy", known,
                  was_so(&checks->policies, known, same_policy, policy->policy));
    } else if (reply->descriptor == &ckpt__v1__list_targets_reply__descriptor) {
        const Ckpt__V1__ListTargetsReply *targets = (const void *)reply;
        for (size_t i = 0; i < targets->n_targets; i++)
            for (unsigned t = 0; t < world->options.targets; t++)
                if (strcmp(world->targets[t].id, targets->targets[i]->spec->target_id) == 0)
                    was_check(world, what, world->targets[t].id, known,
                              was_so(&checks->targets[t], known, same_target, targets->targets[i]));
    } else if (reply->descriptor == &ckpt__v1__list_nodes_reply__descriptor) {
        const Ckpt__V1__ListNodesReply *nodes = (const void *)reply;
        for (size_t i = 0; i < nodes->n_nodes; i++) {
            int agent = world_agent_number(nodes->nodes[i]->node_id);
            if (agent >= 0 && strcmp(nodes->nodes[i]->state, "unknown") != 0)
                was_check(world, what, nodes->nodes[i]->node_id, known,
                          was_so(&checks->nodes[agent], known, same_node, nodes->nodes[i]));
        }
    }
}
