/* Preemption: choose victims, checkpoint and stop them, all or none (P-001..P-070, I31, I32, S1-065..S1-067).
 *
 * Flow     gather() lists who may be a victim, lowest class first; choose() finds a set; stop() asks each for a stopping checkpoint or,
 *          when none can be written and the request is forced, terminates it.
 * Choice   the lowest highest class first (P-003), then the fewest victims (P-050), then greedily the cheapest that still lets the
 *          others cover the need (P-015). No set: nothing changes (P-016).
 * Shapes   at most FSM_VICTIM_CANDIDATES_MAX candidates are looked at, at most policy.max_victims are taken.
 */
#include "fsm/state.h"

#define ENDS(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum { WALLTIME_LATE_PERCENT = 90, WALLTIME_EARLY_PERCENT = 10 };

struct candidate {
    const struct allocation *allocation;
    uint64_t cost;
    uint32_t node_count;
    uint8_t class;
    bool chosen;
};

struct candidates {
    struct candidate *items; /* the cheapest first */
    uint32_t *by_size;       /* indexes, most nodes first */
    uint32_t *eligible;      /* of by_size, those up to the class that is tried */
    size_t count, eligible_count;
    enum fsm_status refusal; /* of the last one that may not be a victim */
    uint64_t refusal_current, refusal_limit;
    bool storage_unavailable; /* some were left out for that alone */
};

static uint64_t candidate_write_ms(const struct fsm *fsm, const struct fsm_allocation *view)
{
    uint64_t bytes_per_s = view->write_bytes_per_s != 0 ? view->write_bytes_per_s
                                                        : fsm->policy.default_write_bytes_per_s;

    if (view->write_estimate_ms != 0)
        return view->write_estimate_ms;
    bytes_per_s = fsm_max(fsm_multiply(bytes_per_s, view->node_count), 1);
    return (uint64_t)((__uint128_t)view->size_estimate_bytes * 1000 / bytes_per_s);
}

/* P-011..P-014: GPU-ms of the checkpoint, plus what is lost without one; nearly done jobs are dear, young ones cheap. */
static uint64_t candidate_cost(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t cost = fsm_multiply(candidate_write_ms(fsm, view), fsm_max(view->gpu_count, 1));
    uint64_t used_ms = fsm_since(fsm, view->started_at_ms);

    if (view->non_preemptible)
        cost = fsm_add(cost, fsm_allocation_age_gpu_ms(fsm, allocation));
    if (view->walltime_ms == 0)
        return cost;
    if (used_ms > view->walltime_ms / 100 * WALLTIME_LATE_PERCENT)
        return fsm_multiply(fsm_add(cost, 1), 16);
    return used_ms < view->walltime_ms / 100 * WALLTIME_EARLY_PERCENT ? cost / 2 : cost;
}

static bool candidate_can_checkpoint(const struct fsm *fsm, const struct allocation *allocation)
{
    return allocation->view.strategy != CKPT__V1__STRATEGY__STRATEGY_NONE &&
           fsm_target_slot(fsm, allocation->view.target_slot)->view.available;
}

/* P-010, P-070, I31, I32: OK when it may be a victim. */
static enum fsm_status candidate_check(const struct fsm *fsm, const struct allocation *allocation,
                                       const Ckpt__V1__RequestPreemptionRequest *request,
                                       uint64_t *ret_current, uint64_t *ret_limit)
{
    const struct fsm_allocation *view = &allocation->view;
    bool none = view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE;
    bool storage = fsm_target_slot(fsm, view->target_slot)->view.available;
    uint64_t left_ms = fsm_add(view->started_at_ms, view->walltime_ms);

    *ret_current = view->state;
    *ret_limit = 0;
    left_ms = left_ms > fsm->now_ms ? left_ms - fsm->now_ms : 0;
    if (!fsm_allocation_runs(allocation))
        return FSM_ALLOCATION_ENDED;
    if (view->sensitive)
        return FSM_SENSITIVE;
    *ret_current = view->preemption_class;
    *ret_limit = request->preemption_class;
    if (view->preemption_class >= request->preemption_class)
        return FSM_CLASS_TOO_LOW;
    if (none && view->preemption_class >= 7)
        return FSM_NOT_CHECKPOINTABLE;
    *ret_current = left_ms;
    *ret_limit = fsm->policy.near_completion_ms;
    if (view->walltime_ms != 0 && left_ms < fsm->policy.near_completion_ms)
        return FSM_NEAR_COMPLETION;
    *ret_current = view->state;
    *ret_limit = 0;
    /* one that waits to stop in an outage can still be forced */
    if (view->terminating ||
        (view->state == ENDS(CHECKPOINTING_TO_STOP) && (storage || !request->forced)))
        return FSM_CHECKPOINTING;
    return none || storage || request->forced ? FSM_OK : FSM_STORAGE_UNAVAILABLE;
}

static void candidates_add(const struct fsm *fsm, struct candidates *candidates,
                           const struct allocation *allocation,
                           const Ckpt__V1__RequestPreemptionRequest *request)
{
    struct candidate *candidate = &candidates->items[candidates->count];
    uint64_t current;
    uint64_t limit;
    enum fsm_status status = candidate_check(fsm, allocation, request, &current, &limit);

    if (status != FSM_OK) {
        candidates->refusal = status;
        candidates->refusal_current = current;
        candidates->refusal_limit = limit;
        candidates->storage_unavailable |= status == FSM_STORAGE_UNAVAILABLE;
        return;
    }
    candidate->allocation = allocation;
    candidate->cost = candidate_cost(fsm, allocation);
    candidate->node_count = allocation->view.node_count;
    candidate->class = allocation->view.preemption_class;
    candidate->chosen = false;
    candidates->count++;
}

static void candidates_add_named(const struct fsm *fsm, struct candidates *candidates,
                                 const Ckpt__V1__RequestPreemptionRequest *request)
{
    for (size_t i = 0; i < request->n_candidates; i++) {
        const struct allocation *allocation = fsm_allocation_named(fsm, request->candidates[i]);
        bool named_before = false;

        for (size_t j = 0; j < candidates->count; j++)
            named_before |= candidates->items[j].allocation == allocation;
        if (allocation == NULL)
            candidates->refusal = FSM_ALLOCATION_NOT_FOUND;
        else if (!named_before)
            candidates_add(fsm, candidates, allocation, request);
    }
}

static void candidates_add_any(const struct fsm *fsm, struct candidates *candidates,
                               const Ckpt__V1__RequestPreemptionRequest *request)
{
    uint32_t looked_at = 0;

    for (uint32_t class = 0; class < request->preemption_class; class ++) {
        const struct bitmap *slots = &fsm->running_by_class[class];

        for (uint32_t slot = fsm_bitmap_next(slots, 0);
             slot != UINT32_MAX && looked_at < FSM_VICTIM_CANDIDATES_MAX;
             slot = fsm_bitmap_next(slots, slot + 1)) {
            candidates_add(fsm, candidates, fsm_allocation_look(fsm, slot), request);
            looked_at++;
        }
    }
}

/* Sorts the items by cost and slot, and the indexes by size. */
static void candidates_order(struct fsm *fsm, struct candidates *candidates)
{
    size_t count = candidates->count;
    struct sort_item *order = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*order));
    struct candidate *sorted = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(*sorted));

    for (size_t i = 0; i < count; i++)
        order[i] =
            (struct sort_item){UINT64_MAX - candidates->items[i].cost,
                               candidates->items[i].allocation->view.slot, &candidates->items[i]};
    fsm_sort(order, count);
    for (size_t i = 0; i < count; i++)
        sorted[i] = *(const struct candidate *)order[i].item;
    candidates->items = sorted;
    candidates->by_size = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(uint32_t));
    candidates->eligible = fsm_arena_take(&fsm->arena, (count + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < count; i++)
        order[i] = (struct sort_item){sorted[i].node_count, i, &sorted[i]};
    fsm_sort(order, count);
    for (size_t i = 0; i < count; i++)
        candidates->by_size[i] = (uint32_t)order[i].low;
}

static void candidates_limit(struct candidates *candidates, uint32_t class)
{
    candidates->eligible_count = 0;
    for (size_t i = 0; i < candidates->count; i++)
        if (candidates->items[candidates->by_size[i]].class <= class)
            candidates->eligible[candidates->eligible_count++] = candidates->by_size[i];
}

/* Nodes of the `count` largest eligible ones that are not chosen, leaving out one. */
static uint64_t candidates_largest(const struct candidates *candidates, size_t count,
                                   size_t without)
{
    uint64_t nodes = 0;

    for (size_t i = 0; i < candidates->eligible_count && count > 0; i++) {
        size_t at = candidates->eligible[i];

        if (at == without || candidates->items[at].chosen)
            continue;
        nodes += candidates->items[at].node_count;
        count--;
    }
    return nodes;
}

/* The cheapest set of exactly `size` that covers the need, greedily. */
static bool candidates_choose_size(struct candidates *candidates, uint32_t class, size_t size,
                                   uint64_t need)
{
    if (candidates_largest(candidates, size, SIZE_MAX) < need)
        return false;
    for (size_t left = size; left > 0; left--) {
        size_t i = 0;

        for (; i < candidates->count; i++) {
            struct candidate *candidate = &candidates->items[i];

            if (!candidate->chosen && candidate->class <= class &&
                candidate->node_count + candidates_largest(candidates, left - 1, i) >= need)
                break;
        }
        CHECK(i < candidates->count);
        candidates->items[i].chosen = true;
        need -= fsm_min(need, candidates->items[i].node_count);
        if (need == 0)
            break;
    }
    return true;
}

static bool candidates_choose(struct candidates *candidates, uint32_t max_victims, uint64_t need)
{
    for (uint32_t class = 0; class <= FSM_CLASS_MAX; class ++) {
        candidates_limit(candidates, class);
        if (candidates_largest(candidates, max_victims, SIZE_MAX) < need)
            continue;
        for (size_t size = 1; size <= max_victims; size++)
            if (candidates_choose_size(candidates, class, size, need))
                return true;
    }
    return false;
}

static void victim_stop(struct fsm *fsm, struct allocation *allocation, struct fsm_victim *victim)
{
    struct checkpoint_ask ask = {.purpose = CKPT__V1__PURPOSE__PURPOSE_PREEMPT,
                                 .after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_STOP};
    struct fsm_plan without = {CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT, ENDS(FAILED),
                               CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT};
    struct fsm_outcome asked = {.status = FSM_OK};

    fsm_copy_id(victim->allocation_id, allocation->view.id);
    victim->node_count = allocation->view.node_count;
    victim->checkpoint_id = 0;
    if (candidate_can_checkpoint(fsm, allocation) &&
        fsm_checkpoint_ask(fsm, allocation, &ask, &asked) == FSM_OK)
        victim->checkpoint_id = asked.checkpoint_id;
    else
        fsm_terminate_begin(fsm, allocation, without); /* S1-066, P-022 */
}

static void preempt_apply(struct fsm *fsm, const struct candidates *candidates,
                          const Ckpt__V1__RequestPreemptionRequest *request,
                          struct fsm_outcome *outcome)
{
    outcome->preemption_id = ++fsm->preemption_sequence;
    for (size_t i = 0; i < candidates->count; i++) {
        struct allocation *allocation;
        struct fsm_victim *victim = &outcome->victims[outcome->victim_count];
        struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION,
                                  .subject = request->for_job,
                                  .number = outcome->preemption_id};

        if (!candidates->items[i].chosen)
            continue;
        allocation = fsm_allocation_slot(fsm, candidates->items[i].allocation->view.slot);
        event.allocation_id = allocation->view.id;
        CHECK(outcome->victim_count < FSM_VICTIMS_MAX);
        CHECK(!allocation->view.sensitive);
        CHECK(allocation->view.preemption_class < request->preemption_class);
        outcome->victim_count++;
        allocation->preemptor_class = (uint8_t)request->preemption_class;
        fsm->preemptions_total++;
        fsm->losses.demands[fsm_group(&allocation->view)]++;
        fsm_event_emit(fsm, &event);
        victim_stop(fsm, allocation, victim);
    }
}

static enum fsm_status preempt_refusal(const struct candidates *candidates, uint32_t max_victims,
                                       const Ckpt__V1__RequestPreemptionRequest *request,
                                       struct fsm_outcome *outcome)
{
    if (request->n_candidates == 1 && candidates->count == 0) {
        outcome->current = candidates->refusal_current;
        outcome->limit = candidates->refusal_limit;
        return candidates->refusal;
    }
    outcome->current = candidates_largest(candidates, max_victims, SIZE_MAX);
    outcome->limit = max_victims;
    return candidates->storage_unavailable ? FSM_STORAGE_UNAVAILABLE : FSM_NO_VICTIMS;
}

enum fsm_status fsm_apply_preemption(struct fsm *fsm, const fsm_command *command,
                                     struct fsm_outcome *outcome)
{
    const Ckpt__V1__RequestPreemptionRequest *request = command->request_preemption;
    uint32_t max_victims = (uint32_t)fsm_min(fsm_max(fsm->policy.max_victims, 1), FSM_VICTIMS_MAX);
    size_t capacity = request->n_candidates > 0
                          ? request->n_candidates
                          : fsm_min(fsm->allocations.used, FSM_VICTIM_CANDIDATES_MAX);
    struct candidates candidates = {
        .items = fsm_arena_take(&fsm->arena, (capacity + 1) * sizeof(*candidates.items))};

    outcome->current = request->preemption_class;
    if (request->preemption_class == 0) /* nothing is lower */
        return FSM_CLASS_TOO_LOW;
    outcome->current = 0;
    if (request->n_candidates > 0)
        candidates_add_named(fsm, &candidates, request);
    else
        candidates_add_any(fsm, &candidates, request);
    candidates_order(fsm, &candidates);
    if (!candidates_choose(&candidates, max_victims, request->nodes_needed))
        return preempt_refusal(&candidates, max_victims, request, outcome);
    preempt_apply(fsm, &candidates, request, outcome);
    return FSM_OK;
}
