/* Grants, and the duty's life. See dispatcher.h. A look at what waits goes: schedule_grants() ->
 * on_grant_timer() -> look_step() until all are compared -> grant_waiting() -> derive_grants() ->
 * propose_grants(). One look is in progress and one batch in flight at a time; whatever is applied
 * meanwhile is a reason for the next look. */
#include "src/broker/dispatch/dispatcher.h"

#include <math.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/dispatch/dispatcher_grants.h"
#include "src/broker/dispatch/dispatcher_internal.h"
#include "src/broker/health/nodes.h"

enum {
    GRANTS_PER_COMMAND_MAX = 1024,
    GRANTS_LOOK_MAX = 8192,    /* best waiting checkpoints, shared by the targets */
    GRANTS_VISITS_MAX = 16384, /* waiting ones compared in one turn of the loop */
    GRANTS_QUICK_US = 1000,    /* a look that needs no pause */
    GRANTS_PAUSE_FACTOR = 10,
    GRANTS_PAUSE_MAX_US = 1000000,
    GRANTS_RETRY_US = 100000 /* after a refusal */
};

/* ---- grants ---- */

/* What the nodes of the job can write together: their own rate times their number, or the policy's
 * default. Never 0, which would be no grant. */
static uint64_t wanted_rate(const struct fsm *fsm, const struct fsm_allocation *allocation,
                            uint32_t node_count)
{
    uint64_t per_node = allocation->write_bytes_per_s > 0
                            ? allocation->write_bytes_per_s
                            : fsm_policy(fsm)->default_write_bytes_per_s;
    uint64_t rate;

    if (__builtin_mul_overflow(per_node, (uint64_t)node_count, &rate) || rate > FSM_BANDWIDTH_MAX)
        rate = FSM_BANDWIDTH_MAX;
    return rate > 0 ? rate : 1;
}

/* One that waits for its grant. */
struct waiting {
    const struct fsm_checkpoint *checkpoint;
    const struct fsm_allocation *allocation;
    double gain_gpu_s_per_byte;
};

/* What a job that this leader has not evaluated yet would gain is taken from its decision. */
static struct waiting waiting_of(const struct dispatcher *dispatcher, uint64_t checkpoint_id)
{
    const struct fsm *fsm = replica_fsm(dispatcher->broker->replica);
    struct waiting waiting = {.checkpoint = fsm_checkpoint_find(fsm, checkpoint_id)};

    CHECK(waiting.checkpoint != NULL);
    waiting.allocation = fsm_allocation_at(fsm, waiting.checkpoint->allocation_slot);
    if (!evaluator_gain(dispatcher->broker->evaluator, waiting.allocation,
                        &waiting.gain_gpu_s_per_byte))
        waiting.gain_gpu_s_per_byte = (double)waiting.checkpoint->priority_gpu_ms_per_gb / 1e12;
    return waiting;
}

/* Deadlines go first: they would be too late afterwards. What somebody asked for goes before what
 * the evaluator decided. Among equals the gain of now counts, not that of the decision: what waits
 * goes on computing, so its gain grows and it is not passed over for ever. */
static int by_gain(const void *left, const void *right)
{
    const struct waiting *a = left, *b = right;
    bool a_asked = a->checkpoint->terms == NULL, b_asked = b->checkpoint->terms == NULL;
    bool a_late = fsm_grant_urgent(a->checkpoint), b_late = fsm_grant_urgent(b->checkpoint);

    if (a_late != b_late)
        return a_late ? -1 : 1;
    if (a_asked != b_asked)
        return a_asked ? -1 : 1;
    if (a->gain_gpu_s_per_byte != b->gain_gpu_s_per_byte)
        return a->gain_gpu_s_per_byte < b->gain_gpu_s_per_byte ? 1 : -1;
    return (a->checkpoint->id > b->checkpoint->id) - (a->checkpoint->id < b->checkpoint->id);
}

/* Those that an outage held up stay in front, in the state's order. */
static void sort_waiting(struct waiting *waiting, size_t count)
{
    size_t resumed = 0;

    while (resumed < count && waiting[resumed].checkpoint->resumed_from_outage)
        resumed++;
    if (count > resumed)
        qsort(waiting + resumed, count - resumed, sizeof(*waiting), by_gain);
}

/* What the packing needs to know of one that waits. Nobody passes those that an outage held up. */
static struct grant_candidate candidate_of(const struct fsm *fsm, const struct waiting *waiting)
{
    const struct fsm_checkpoint *checkpoint = waiting->checkpoint;
    const struct fsm_allocation *allocation = waiting->allocation;

    CHECK(checkpoint->target_slot < FSM_TARGETS_MAX);
    return (struct grant_candidate){
        .checkpoint_id = checkpoint->id,
        .target = checkpoint->target_slot,
        .wanted_bytes_per_s = wanted_rate(fsm, allocation, checkpoint->shard_count),
        .size_bytes = allocation->size_estimate_bytes,
        .timeout_ms = allocation->checkpoint_timeout_ms > 0
                          ? allocation->checkpoint_timeout_ms
                          : fsm_policy(fsm)->checkpoint_timeout_ms,
        .parts = checkpoint->shard_count,
        .gain_gpu_s_per_byte = fsm_grant_weighed(checkpoint) ? waiting->gain_gpu_s_per_byte : 0,
        .bypass = fsm_grant_urgent(checkpoint),
        .unproven = !checkpoint->resumed_from_outage && fsm_allocation_unproven(allocation)};
}

/* A target that cannot be written has a budget of 0, which grants nothing. */
static void targets_of(const struct fsm *fsm, struct grant_target targets[FSM_TARGETS_MAX])
{
    for (uint32_t slot = 0; slot < FSM_TARGETS_MAX; slot++) {
        const struct fsm_target *target =
            slot < fsm_target_slots(fsm) ? fsm_target_find_slot(fsm, slot) : NULL;

        targets[slot] = (struct grant_target){0};
        if (target == NULL || !target->available)
            continue;
        targets[slot].budget_bytes_per_s = target->budget_bytes_per_s;
        targets[slot].granted_bytes_per_s = target->granted_bytes_per_s;
        targets[slot].places = target->max_writes;
        targets[slot].writing = target->writing_count;
        targets[slot].unproven_bytes_per_s =
            fsm_target_unproven_rate(fsm, slot, &targets[slot].unproven_writing);
    }
}

/* What is granted next, at most what one command takes. The caller frees *ret_grants. */
static size_t derive_grants(struct dispatcher *dispatcher, size_t count, struct grant **ret_grants)
{
    const struct fsm *fsm = replica_fsm(dispatcher->broker->replica);
    struct grant_target targets[FSM_TARGETS_MAX];
    struct waiting *waiting = check_calloc(count, sizeof(*waiting));
    struct grant_candidate *candidates = check_calloc(count, sizeof(*candidates));
    size_t granted;

    for (size_t i = 0; i < count; i++)
        waiting[i] = waiting_of(dispatcher, dispatcher->grant_ids[i]);
    sort_waiting(waiting, count);
    for (size_t i = 0; i < count; i++)
        candidates[i] = candidate_of(fsm, &waiting[i]);
    targets_of(fsm, targets);
    *ret_grants = check_calloc(count, sizeof(**ret_grants));
    granted = grants_pack(candidates, count, targets, *ret_grants);
    if (granted > GRANTS_PER_COMMAND_MAX)
        granted = GRANTS_PER_COMMAND_MAX; /* the rest after this one is applied */
    queue_note(&dispatcher->queue, candidates, count, *ret_grants, granted, targets);
    free(candidates);
    free(waiting);
    return granted;
}

static void on_granted(void *data, const struct err *failed, const struct fsm_outcome *outcome);

/* Grants as a command. The state checks each again when it is applied: a checkpoint that ended
 * meanwhile is skipped, and a budget is never passed (I36). */
static void propose_grants(struct dispatcher *dispatcher, const struct grant *grants, size_t count)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__GrantBatch batch = CKPT__LOG__V1__GRANT_BATCH__INIT;
    Ckpt__Log__V1__Grant *messages = check_calloc(count, sizeof(*messages));
    Ckpt__Log__V1__Grant **pointers = check_calloc(count, sizeof(Ckpt__Log__V1__Grant *));

    for (size_t i = 0; i < count; i++) {
        ckpt__log__v1__grant__init(&messages[i]);
        messages[i].checkpoint_id = grants[i].checkpoint_id;
        messages[i].bytes_per_s = grants[i].bytes_per_s;
        messages[i].timeout_ms =
            grants[i].timeout_ms < FSM_DURATION_MAX_MS ? grants[i].timeout_ms : FSM_DURATION_MAX_MS;
        messages[i].bypass_budget = grants[i].bypass_budget;
        pointers[i] = &messages[i];
    }
    batch.n_grants = count;
    batch.grants = pointers;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_GRANTS;
    command.grants = &batch;
    dispatcher->grant_in_flight = true;
    metrics_add(dispatcher->broker->metrics, METRIC_GRANTS, NULL, NULL, (double)count);
    replica_propose(dispatcher->broker->replica, &command, on_granted, dispatcher);
    free(pointers);
    free(messages);
}

/* Level-triggered: any applied entry may have made room. A look that took long is followed by a
 * pause, so that looking never takes more than a tenth of the loop. */
static void schedule_grants(struct dispatcher *dispatcher, uint64_t delay_us)
{
    uint64_t pause_us = dispatcher->grant_look_us >= GRANTS_QUICK_US
                            ? dispatcher->grant_look_us * GRANTS_PAUSE_FACTOR
                            : 0;

    if (!dispatcher->serving || dispatcher->grant_scheduled || dispatcher->grant_in_flight)
        return;
    if (pause_us > GRANTS_PAUSE_MAX_US)
        pause_us = GRANTS_PAUSE_MAX_US;
    dispatcher->grant_scheduled = true;
    dispatcher->broker->clock.timer_start(dispatcher->grant_timer,
                                          delay_us > pause_us ? delay_us : pause_us);
}

/* After a refusal the next look waits a little: it would find the same. */
static void on_granted(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct dispatcher *dispatcher = data;

    dispatcher->grant_in_flight = false;
    schedule_grants(dispatcher, failed == NULL && outcome->status == FSM_OK ? 0 : GRANTS_RETRY_US);
}

/* One step of the look; true: done. */
static bool look_step(struct dispatcher *dispatcher)
{
    const struct fsm *fsm = replica_fsm(dispatcher->broker->replica);

    if (!dispatcher->grant_looking) {
        uint32_t targets = fsm_target_slots(fsm);

        fsm_grantable_begin(&dispatcher->grant_scan, dispatcher->grant_best,
                            GRANTS_LOOK_MAX / (targets > 0 ? targets : 1));
        dispatcher->grant_spent_us = 0;
    }
    dispatcher->grant_looking =
        !fsm_grantable_step(fsm, &dispatcher->grant_scan, GRANTS_VISITS_MAX);
    return !dispatcher->grant_looking;
}

/* The scan took several turns: what may not be granted any more is left out. */
static void grant_waiting(struct dispatcher *dispatcher)
{
    const struct fsm *fsm = replica_fsm(dispatcher->broker->replica);
    size_t waiting = 0, count;
    struct grant *grants;

    for (size_t i = 0; i < dispatcher->grant_scan.count; i++)
        if (fsm_grant_possible(fsm, dispatcher->grant_best[i].id))
            dispatcher->grant_ids[waiting++] = dispatcher->grant_best[i].id;
    if (waiting == 0) {
        queue_clear(&dispatcher->queue);
        return;
    }
    count = derive_grants(dispatcher, waiting, &grants);
    if (count > 0)
        propose_grants(dispatcher, grants, count);
    free(grants);
}

/* One turn of a look. A look that has more to compare goes on in the next turn of the loop. */
static void on_grant_timer(void *data)
{
    struct dispatcher *dispatcher = data;
    const struct clock_ops *clock = &dispatcher->broker->clock;
    uint64_t began_us = clock->monotonic_us(clock->context);
    bool done;

    dispatcher->grant_scheduled = false;
    if (!dispatcher->serving || dispatcher->grant_in_flight)
        return;
    done = look_step(dispatcher);
    if (done)
        grant_waiting(dispatcher);
    dispatcher->grant_spent_us += clock->monotonic_us(clock->context) - began_us;
    if (done) {
        dispatcher->grant_look_us = dispatcher->grant_spent_us;
    } else {
        dispatcher->grant_scheduled = true;
        clock->timer_start(dispatcher->grant_timer, 0);
    }
}

/* ---- life ---- */

static void on_serving(void *context)
{
    struct dispatcher *dispatcher = context;

    dispatcher->serving = true;
    nodes_start(dispatcher->broker->nodes);
    dispatcher_sessions_changed(dispatcher);
    schedule_grants(dispatcher, 0);
}

/* What waits is forgotten: the next leader looks anew, from the state. */
static void on_not_serving(void *context)
{
    struct dispatcher *dispatcher = context;

    dispatcher->serving = false;
    dispatcher->grant_scheduled = false;
    dispatcher->grant_looking = false;
    dispatcher->broker->clock.timer_stop(dispatcher->grant_timer);
    nodes_stop(dispatcher->broker->nodes);
    queue_clear(&dispatcher->queue);
    dispatcher_sessions_end(dispatcher);
}

static void on_applied(void *context)
{
    struct dispatcher *dispatcher = context;

    if (!dispatcher->serving)
        return;
    dispatcher_sessions_changed(dispatcher);
    schedule_grants(dispatcher, 0);
}

struct dispatcher *dispatcher_new(struct broker *broker)
{
    struct dispatcher *dispatcher = check_calloc(1, sizeof(*dispatcher));

    dispatcher->broker = broker;
    list_init(&dispatcher->sessions);
    dispatcher->grant_ids = check_realloc(NULL, GRANTS_LOOK_MAX, sizeof(*dispatcher->grant_ids));
    dispatcher->grant_best = check_realloc(NULL, GRANTS_LOOK_MAX, sizeof(*dispatcher->grant_best));
    dispatcher->grant_timer =
        broker->clock.timer_new(broker->clock.context, on_grant_timer, dispatcher);
    dispatcher->observer = (struct replica_observer){.context = dispatcher,
                                                     .acts = true,
                                                     .serving = on_serving,
                                                     .not_serving = on_not_serving,
                                                     .applied = on_applied};
    replica_observe(broker->replica, &dispatcher->observer);
    if (broker->rpc != NULL)
        dispatcher_sessions_serve(dispatcher);
    return dispatcher;
}

void dispatcher_free(struct dispatcher *dispatcher)
{
    if (dispatcher == NULL)
        return;
    dispatcher_sessions_close(dispatcher);
    dispatcher->broker->clock.timer_free(dispatcher->grant_timer);
    free(dispatcher->by_slot);
    free(dispatcher->hello_by_slot);
    free(dispatcher->grant_ids);
    free(dispatcher->grant_best);
    queue_close(&dispatcher->queue);
    free(dispatcher);
}

/* Position and wave are of the last look. The expected start is the time in which the target writes
 * what is in front, at its whole budget: a lower bound. */
void dispatcher_fill_place(struct dispatcher *dispatcher, Ckpt__V1__Checkpoint *checkpoint)
{
    const struct queue_place *place;
    const struct fsm_target *target;
    uint64_t bytes;

    if (dispatcher == NULL || !dispatcher->serving ||
        checkpoint->state != CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED)
        return;
    place = queue_find(&dispatcher->queue, checkpoint->checkpoint_id);
    if (place == NULL)
        return;
    checkpoint->queue_position = place->position;
    checkpoint->wave = place->wave;
    target = fsm_target_find_slot(replica_fsm(dispatcher->broker->replica), place->target);
    if (target == NULL || place->bytes_per_s == 0)
        return;
    bytes = place->bytes_ahead +
            fsm_target_writing_bytes(replica_fsm(dispatcher->broker->replica), place->target,
                                     replica_state_ms(dispatcher->broker->replica));
    checkpoint->expected_start_ms =
        replica_state_ms(dispatcher->broker->replica) +
        (uint64_t)((unsigned __int128)bytes * 1000 / place->bytes_per_s);
}

void dispatcher_fill_queue(const struct dispatcher *dispatcher, uint32_t target_slot,
                           Ckpt__V1__TargetStatus *target)
{
    const struct queue_target *queue;

    if (dispatcher == NULL || !dispatcher->serving)
        return;
    CHECK(target_slot < FSM_TARGETS_MAX);
    queue = &dispatcher->queue.targets[target_slot];
    target->waiting_count = queue->waiting_count;
    target->wave_count = queue->wave_count;
    target->price_gpu_ms_per_gb = (uint64_t)fmin(queue->price_gpu_s_per_byte * 1e12, 9e18);
}

/* ---- who is connected ---- */

size_t dispatcher_connected_count(const struct dispatcher *dispatcher)
{
    return dispatcher != NULL ? dispatcher->attached_count : 0;
}

bool dispatcher_node_connected(const struct dispatcher *dispatcher, const char *node_id,
                               uint64_t *ret_heartbeat_age_ms)
{
    const struct fsm_node *node;

    *ret_heartbeat_age_ms = UINT64_MAX;
    if (dispatcher == NULL)
        return false;
    node = fsm_node_find(replica_fsm(dispatcher->broker->replica), node_id);
    if (node == NULL)
        return false;
    *ret_heartbeat_age_ms = nodes_heartbeat_age_ms(dispatcher->broker->nodes, node->slot);
    return node->slot < dispatcher->slot_count && dispatcher->by_slot[node->slot] != NULL;
}
