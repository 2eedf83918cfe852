/* What preemptions come to: who is released, until when the others have time, and what happens to one that never lets go.
 *
 *   WAITING --every victim released--> RELEASED
 *      |  deadline: a stuck victim is forced, or withdrawn and replaced by another one
 *      +--no other one--> EXPIRED
 *
 * Flow     apply_preempt.c takes victims; allocations say when their nodes are free (released) or stay (escaped); a Tick at the deadline
 *          escalates. The one who waits gets nothing before all are released (P-024, P-050): its nodes are listed with RELEASED only.
 * Shapes   a ring of FSM_PREEMPTIONS_MAX by id; an allocation is the victim of one at a time (view.preemption_id).
 * Source   P-024, P-050, S1-066, L4.
 */
#include "fsm/core/state.h"

#include <malloc.h>

#define STATE(name)  CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name
#define VICTIM(name) CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name
#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

/* ---- the ring ---- */

static size_t preemption_index(uint64_t id)
{
    return (size_t)((id - 1) % FSM_PREEMPTIONS_MAX);
}

const struct preemption *fsm_preemption_look(const struct fsm *fsm, uint64_t id)
{
    const struct preemption *preemption = id == 0 ? NULL : fsm->preemptions[preemption_index(id)];

    return preemption != NULL && preemption->view.id == id ? preemption : NULL;
}

struct preemption *fsm_preemption_get(struct fsm *fsm, uint64_t id)
{
    struct preemption *preemption = id == 0 ? NULL : fsm->preemptions[preemption_index(id)];

    if (preemption == NULL || preemption->view.id != id)
        return NULL;
    if (!list_empty(fsm->snapshots))
        fsm_save_preemption(fsm, preemption_index(id));
    return preemption;
}

const struct fsm_preemption *fsm_preemption_next(const struct fsm *fsm, uint64_t after)
{
    uint64_t last = fsm->preemption_sequence;
    uint64_t id = after + 1;

    if (last > FSM_PREEMPTIONS_MAX)
        id = fsm_max(id, last - FSM_PREEMPTIONS_MAX + 1);
    for (; after != UINT64_MAX && id <= last; id++)
        if (fsm_preemption_look(fsm, id) != NULL)
            return &fsm_preemption_look(fsm, id)->view;
    return NULL;
}

static bool victim_gives(const struct fsm_preemption_victim *victim)
{
    return victim->state == VICTIM(STOPPING) || victim->state == VICTIM(SHRINKING);
}

void fsm_preemption_free(struct fsm *fsm, struct preemption *preemption)
{
    union {
        const void *constant;
        void *changing;
    } pointer;

    if (preemption == NULL)
        return;
    fsm_timer_set(&fsm->timers, &preemption->timer, 0);
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        pointer.constant = preemption->view.victims[i].node_slots;
        free(pointer.changing);
        fsm_intern_release(fsm, preemption->view.victims[i].allocation_id);
    }
    pointer.constant = preemption->view.request;
    if (pointer.constant != NULL)
        fsm_message_free(pointer.changing);
    free(preemption);
}

/* An ended one may still have victims that were too far to turn back; they are nobody's then. */
static void preemption_forget_victims(struct fsm *fsm, const struct preemption *preemption)
{
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        const struct fsm_preemption_victim *victim = &preemption->view.victims[i];
        struct allocation *allocation;

        for (uint32_t j = 0; j < victim->node_count; j++)
            fsm_node_unrefer(fsm, victim->node_slots[j]);
        if (!victim_gives(victim))
            continue;
        allocation = fsm_allocation_get(fsm, victim->allocation_id);
        if (allocation != NULL && allocation->view.preemption_id == preemption->view.id)
            allocation->view.preemption_id = 0;
    }
}

enum fsm_status fsm_preemption_make_room(struct fsm *fsm, struct fsm_outcome *outcome)
{
    const struct preemption *oldest =
        fsm->preemptions[preemption_index(fsm->preemption_sequence + 1)];

    if (oldest == NULL || oldest->view.state != STATE(WAITING))
        return FSM_OK;
    outcome->current = FSM_PREEMPTIONS_MAX;
    outcome->limit = FSM_PREEMPTIONS_MAX;
    return FSM_PREEMPTIONS_FULL;
}

struct preemption *fsm_preemption_place(struct fsm *fsm, uint64_t id)
{
    size_t i = preemption_index(id);
    struct preemption *preemption = check_calloc(1, sizeof(*preemption));

    CHECK(id != 0);
    if (!list_empty(fsm->snapshots))
        fsm_save_preemption(fsm, i);
    if (fsm->preemptions[i] != NULL) {
        CHECK(fsm->preemptions[i]->view.state != STATE(WAITING));
        preemption_forget_victims(fsm, fsm->preemptions[i]);
    }
    fsm_preemption_free(fsm, fsm->preemptions[i]);
    fsm->preemptions[i] = preemption;
    preemption->view.id = id;
    preemption->timer.kind = TIMER_PREEMPTION;
    preemption->timer.key = id;
    return preemption;
}

/* ---- deadlines ---- */

/* L4: one and a half timeouts, the deferral, the grace, and a silent node. */
static uint64_t victim_patience_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    uint64_t timeout_ms = fsm_checkpoint_timeout_ms(fsm, allocation);

    return fsm_min(timeout_ms + timeout_ms / 2 + fsm->policy.max_deferral_ms +
                       fsm_allocation_grace_ms(fsm, allocation) + FSM_TERMINATE_SLACK_MS,
                   FSM_DURATION_MAX_MS);
}

/* Until when it may still let go by itself. */
static uint64_t victim_bound_ms(const struct fsm *fsm, const struct fsm_preemption_victim *victim)
{
    const struct allocation *allocation = fsm_allocation_named(fsm, victim->allocation_id);
    const struct checkpoint *active = fsm_checkpoint_look_active(fsm, allocation);
    uint64_t end_ms = fsm_allocation_grace_ms(fsm, allocation) + FSM_TERMINATE_SLACK_MS;

    if (allocation->view.terminating || allocation->view.leaving)
        return fsm_max(allocation->terminate_deadline_ms, fsm->now_ms) + 1;
    if (active != NULL && fsm_checkpoint_writes(active))
        return active->view.deadline_ms + end_ms;
    return victim->since_ms + victim_patience_ms(fsm, allocation);
}

/* What the victims that were not withdrawn do not cover. */
static void preemption_missing(const struct fsm_preemption *view, struct victim_search *search)
{
    for (uint32_t i = 0; i < view->victim_count; i++) {
        const struct fsm_preemption_victim *victim = &view->victims[i];

        if (victim->state == VICTIM(WITHDRAWN))
            continue;
        search->nodes -= (uint32_t)fsm_min(search->nodes, victim->node_count);
        search->gpus -= (uint32_t)fsm_min(search->gpus, victim->gpu_count);
        search->max -= search->max > 0;
    }
    if (search->value_gpu_ms > 0)
        search->value_gpu_ms =
            search->value_gpu_ms > view->cost_gpu_ms ? search->value_gpu_ms - view->cost_gpu_ms : 1;
    search->max = (uint32_t)fsm_min(search->max, FSM_VICTIMS_MAX - view->victim_count);
}

/* ---- progress ---- */

/* The earliest bound, or now when a victim was lost and its nodes are still missing. */
static uint64_t preemption_deadline_ms(const struct fsm *fsm, const struct fsm_preemption *view)
{
    struct victim_search search = fsm_preemption_search(fsm, view->request, view->acting_class);
    uint64_t deadline_ms = UINT64_MAX;

    if (view->state != STATE(WAITING))
        return 0;
    preemption_missing(view, &search);
    if (search.nodes > 0 || search.gpus > 0)
        return fsm->now_ms;
    for (uint32_t i = 0; i < view->victim_count; i++)
        if (victim_gives(&view->victims[i]))
            deadline_ms = fsm_min(deadline_ms, victim_bound_ms(fsm, &view->victims[i]));
    CHECK(deadline_ms != UINT64_MAX);
    return deadline_ms;
}

static void preemption_arm(struct fsm *fsm, struct preemption *preemption)
{
    preemption->view.deadline_ms = preemption_deadline_ms(fsm, &preemption->view);
    fsm_timer_set(&fsm->timers, &preemption->timer, preemption->view.deadline_ms);
}

static void preemption_end(struct fsm *fsm, struct preemption *preemption,
                           Ckpt__V1__PreemptionState state, Ckpt__V1__Reason reason)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_PREEMPTION_STATE,
                              .old_state = preemption->view.state,
                              .new_state = state,
                              .reason = reason,
                              .subject = preemption->view.request->for_job,
                              .number = preemption->view.id};

    CHECK(preemption->view.state == STATE(WAITING));
    preemption->view.state = state;
    preemption->view.ended_at_ms = fsm->now_ms;
    preemption_arm(fsm, preemption);
    fsm_event_emit(fsm, &event);
}

static void victim_set(const struct fsm *fsm, struct fsm_preemption_victim *victim,
                       Ckpt__V1__VictimState state)
{
    victim->state = state;
    victim->since_ms = fsm->now_ms;
}

static struct fsm_preemption_victim *preemption_victim(struct preemption *preemption,
                                                       const struct allocation *allocation)
{
    for (uint32_t i = 0; preemption != NULL && i < preemption->view.victim_count; i++)
        if (victim_gives(&preemption->view.victims[i]) &&
            strcmp(preemption->view.victims[i].allocation_id, allocation->view.id) == 0)
            return &preemption->view.victims[i];
    return NULL;
}

void fsm_preemption_settle(struct fsm *fsm, struct preemption *preemption)
{
    struct victim_search missing =
        fsm_preemption_search(fsm, preemption->view.request, preemption->view.acting_class);
    bool waits = false;

    if (preemption->taking || preemption->view.state != STATE(WAITING))
        return;
    preemption_missing(&preemption->view, &missing);
    for (uint32_t i = 0; i < preemption->view.victim_count; i++)
        waits |= victim_gives(&preemption->view.victims[i]);
    if (waits || missing.nodes > 0 || missing.gpus > 0)
        preemption_arm(fsm, preemption);
    else
        preemption_end(fsm, preemption, STATE(RELEASED), CKPT__V1__REASON__REASON_NONE);
}

/* Its nodes leave now: those that nobody can use meanwhile are not what it gave, and are looked for elsewhere. */
void fsm_preemption_leaves(struct fsm *fsm, const struct allocation *allocation)
{
    struct fsm_preemption_victim *victim =
        preemption_victim(fsm_preemption_get(fsm, allocation->view.preemption_id), allocation);
    union {
        const uint32_t *constant;
        uint32_t *changing;
    } slots;
    uint32_t kept = 0;

    if (victim == NULL)
        return;
    slots.constant = victim->node_slots;
    for (uint32_t i = 0; i < victim->node_count; i++) {
        uint32_t slot = slots.constant[i];

        if (fsm_node_serves(fsm, slot)) {
            slots.changing[kept++] = slot;
            continue;
        }
        fsm_node_unrefer(fsm, slot);
        for (uint32_t j = 0; j < allocation->view.node_count; j++)
            if (allocation->view.nodes[j].node_slot == slot)
                victim->gpu_count -=
                    (uint32_t)fsm_min(victim->gpu_count, allocation->view.nodes[j].gpu_count);
    }
    victim->node_count = kept;
}

void fsm_preemption_released(struct fsm *fsm, struct allocation *allocation)
{
    struct preemption *preemption = fsm_preemption_get(fsm, allocation->view.preemption_id);
    struct fsm_preemption_victim *victim = preemption_victim(preemption, allocation);

    allocation->view.preemption_id = 0;
    if (victim == NULL)
        return;
    victim_set(fsm, victim, VICTIM(RELEASED));
    fsm_preemption_settle(fsm, preemption);
}

void fsm_preemption_lost(struct fsm *fsm, uint64_t id, const struct allocation *allocation)
{
    struct preemption *preemption = fsm_preemption_get(fsm, id);
    struct fsm_preemption_victim *victim = preemption_victim(preemption, allocation);

    if (victim == NULL)
        return;
    victim_set(fsm, victim, VICTIM(WITHDRAWN));
    preemption->view.escalations++;
    fsm_preemption_settle(fsm, preemption);
}

void fsm_preemption_kept(struct fsm *fsm, struct allocation *allocation)
{
    fsm_preemption_lost(fsm, allocation->view.preemption_id, allocation);
    allocation->view.preemption_id = 0;
}

/* The checkpoint of the epoch before is begun again under another id. */
void fsm_preemption_renewed(struct fsm *fsm, const struct allocation *allocation)
{
    struct fsm_preemption_victim *victim =
        preemption_victim(fsm_preemption_get(fsm, allocation->view.preemption_id), allocation);

    if (victim != NULL)
        victim->checkpoint_id = allocation->view.active_checkpoint_id;
}

/* ---- escalation ---- */

/* Its checkpoint was to stop it; now it only saves its work. Not while nodes write: they were asked to stop. */
static void victim_turn_back(struct fsm *fsm, struct allocation *allocation)
{
    struct checkpoint *active = fsm_checkpoint_active(fsm, allocation);

    CHECK(active != NULL);
    CHECK(!fsm_checkpoint_writes(active));
    active->view.purpose = CKPT__V1__PURPOSE__PURPOSE_PERIODIC;
    active->view.after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    active->view.priority_gpu_ms_per_gb =
        (uint64_t)((__uint128_t)fsm_min(active->view.recompute_saved_gpu_ms, UINT32_MAX) *
                   1000000000 / fsm_max(allocation->view.size_estimate_bytes, 1));
    allocation->preemptor_class = 0;
    allocation->view.walltime_asked = false; /* it may have been for the last safe slot */
    fsm_allocation_go_on(fsm, allocation, CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE);
}

static bool victim_may_turn_back(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct checkpoint *active = fsm_checkpoint_look_active(fsm, allocation);

    return !allocation->view.terminating && active != NULL && !fsm_checkpoint_writes(active);
}

static void victim_withdraw(struct fsm *fsm, struct fsm_preemption_victim *victim,
                            struct allocation *allocation)
{
    bool shrinks = victim->state == VICTIM(SHRINKING);
    struct checkpoint *active = fsm_checkpoint_active(fsm, allocation);

    victim_set(fsm, victim, VICTIM(WITHDRAWN));
    allocation->view.preemption_id = 0;
    if (active != NULL) /* nobody waits for it any more */
        active->stop_deadline_ms = 0;
    if (shrinks)
        fsm_scale_undo(fsm, allocation);
    else
        victim_turn_back(fsm, allocation);
}

/* What it was to give up is forgotten where its own stop won over that: then it stops now. */
static void victim_force(struct fsm *fsm, const struct fsm_preemption_victim *victim,
                         struct allocation *allocation, uint8_t acting_class)
{
    struct fsm_plan without = {CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT, ENDS(FAILED),
                               CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT};

    if (victim->state == VICTIM(SHRINKING) && allocation->view.next_count > 0) {
        fsm_scale_done(fsm, allocation, CKPT__V1__REASON__REASON_SCALED_WITHOUT_CHECKPOINT);
        return;
    }
    allocation->preemptor_class = acting_class;
    fsm_terminate_begin(fsm, allocation, without);
}

/* Nobody is left to take: who can be turned back keeps its nodes, the others are on their way out. */
static void preemption_expire(struct fsm *fsm, struct preemption *preemption)
{
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        struct fsm_preemption_victim *victim = &preemption->view.victims[i];
        struct allocation *allocation;

        if (!victim_gives(victim))
            continue;
        allocation = fsm_allocation_get(fsm, victim->allocation_id);
        if (victim_may_turn_back(fsm, allocation))
            victim_withdraw(fsm, victim, allocation);
    }
    preemption_end(fsm, preemption, STATE(EXPIRED), CKPT__V1__REASON__REASON_NONE);
}

/* What is missing is taken from others, or the preemption ends without it. */
static void preemption_replace(struct fsm *fsm, struct preemption *preemption)
{
    struct victim_search search =
        fsm_preemption_search(fsm, preemption->view.request, preemption->view.acting_class);
    struct victim_set set;
    struct fsm_outcome ignored = {.status = FSM_OK};

    search.goes_on = preemption;
    preemption_missing(&preemption->view, &search);
    if (search.nodes == 0 && search.gpus == 0)
        fsm_preemption_settle(fsm, preemption);
    else if (fsm_victims_choose(fsm, &search, &set, &ignored) != FSM_OK)
        preemption_expire(fsm, preemption);
    else
        fsm_preemption_take(fsm, preemption, &search, &set);
}

/* Past its bound it neither writes nor is being terminated. With its destination available it waits for a grant, which is the leader's
 * business: it gets the same time again. */
static void victim_escalate(struct fsm *fsm, struct fsm_preemption_victim *victim,
                            uint8_t acting_class, bool forced)
{
    struct allocation *allocation = fsm_allocation_get(fsm, victim->allocation_id);

    if (fsm_target_slot(fsm, allocation->view.target_slot)->view.available)
        victim->since_ms = fsm->now_ms;
    else if (forced)
        victim_force(fsm, victim, allocation, acting_class);
    else
        victim_withdraw(fsm, victim, allocation);
}

void fsm_preemption_due(struct fsm *fsm, struct preemption *preemption)
{
    struct fsm_preemption *view = &preemption->view;
    bool forced = fsm_preemption_search(fsm, view->request, view->acting_class).forced;

    CHECK(view->state == STATE(WAITING));
    preemption->taking = true;
    for (uint32_t i = 0; i < view->victim_count; i++) {
        if (!victim_gives(&view->victims[i]) ||
            victim_bound_ms(fsm, &view->victims[i]) > fsm->now_ms)
            continue;
        view->escalations++;
        victim_escalate(fsm, &view->victims[i], view->acting_class, forced);
    }
    preemption->taking = false;
    preemption_replace(fsm, preemption);
}
