/* What preemptions come to: who is released, until when the others have time, and what happens to
 * one that never lets go.
 *
 *   WAITING --every victim released--> RELEASED
 *      |  deadline: a stuck victim is forced, or withdrawn and replaced by another one
 *      +--no other one--> EXPIRED
 *
 * Flow     apply_preempt.c takes victims; allocations say when their nodes are free (released) or
 *          stay (kept); a Tick at the deadline escalates (escalation.c). This file only keeps
 *          count: it changes no job. The one who waits gets nothing before all are released (P-024,
 *          P-050): its nodes are listed with RELEASED only.
 * Shapes   a ring of FSM_PREEMPTIONS_MAX by id; an allocation is the victim of one at a time
 *          (view.preemption_id).
 * Source   P-024, P-050, S1-066, L4.
 */
#include "fsm/preempt/preemption.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

#include <malloc.h>

#define STATE(name)  CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name
#define VICTIM(name) CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name
#define REASON(name) CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_##name

/* ---- what is asked for ---- */

Ckpt__V1__PreemptionReason fsm_preemption_reason(const Ckpt__V1__RequestPreemptionRequest *request)
{
    CHECK(request != NULL);
    return request->reason == REASON(UNSPECIFIED) ? REASON(PRIORITY) : request->reason;
}

/* From the request alone and the policy of now: a replacement for a victim is looked for by the
 * same rules, perhaps much later. A sensitive claim is forced and has no price (N-001, S1-066). */
struct victim_search fsm_preemption_search(const struct fsm *fsm,
                                           const Ckpt__V1__RequestPreemptionRequest *request,
                                           uint8_t acting_class)
{
    Ckpt__V1__PreemptionReason reason = fsm_preemption_reason(request);

    return (struct victim_search){
        .request = request,
        .reason = reason,
        .acting_class = acting_class,
        .forced = request->forced || reason == REASON(SENSITIVE), /* S1-066 */
        .nodes = request->nodes_needed,
        .gpus = request->gpus_needed,
        .value_gpu_ms = reason == REASON(SENSITIVE) ? 0 : request->value_gpu_ms,
        .max = (uint32_t)fsm_min(fsm_max(fsm->policy.max_victims, 1), FSM_VICTIMS_MAX)};
}

/* ---- the ring ---- */

/* The ring keeps the last FSM_PREEMPTIONS_MAX ids: older ones are not looked for one by one. */
const struct fsm_preemption *fsm_preemption_next(const struct fsm *fsm, uint64_t after)
{
    uint64_t last = fsm->preemption_sequence;
    uint64_t id = after + 1;

    if (last > FSM_PREEMPTIONS_MAX)
        id = fsm_max(id, last - FSM_PREEMPTIONS_MAX + 1);
    for (; after != UINT64_MAX && id <= last; id++)
        if (preemption_find(fsm, id) != NULL)
            return &preemption_find(fsm, id)->view;
    return NULL;
}

/* Those are the victims that a preemption waits for. */
bool fsm_victim_gives(const struct fsm_preemption_victim *victim)
{
    CHECK(victim != NULL);
    return victim->state == VICTIM(STOPPING) || victim->state == VICTIM(SHRINKING);
}

/* The nodes' names are given back before (preemption_forget_victims), where the state goes on. */
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
    CHECK(preemption->view.id != 0);
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        const struct fsm_preemption_victim *victim = &preemption->view.victims[i];
        struct allocation *allocation;

        for (uint32_t j = 0; j < victim->node_count; j++)
            fsm_node_unrefer(fsm, victim->node_slots[j]);
        if (!fsm_victim_gives(victim))
            continue;
        allocation = allocation_edit(fsm, allocation_find(fsm, victim->allocation_id));
        if (allocation != NULL && allocation->view.preemption_id == preemption->view.id)
            allocation->view.preemption_id = 0;
    }
}

/* The ring is full when its oldest one still waits: it has victims that would be nobody's. */
enum fsm_status fsm_preemption_make_room(struct fsm *fsm, struct fsm_outcome *outcome)
{
    const struct preemption *oldest =
        fsm->preemptions[preemption_place(fsm->preemption_sequence + 1)];

    CHECK(outcome != NULL);
    if (oldest == NULL || oldest->view.state != STATE(WAITING))
        return FSM_OK;
    outcome->current = FSM_PREEMPTIONS_MAX;
    outcome->limit = FSM_PREEMPTIONS_MAX;
    return FSM_PREEMPTIONS_FULL;
}

/* A restore places the ids that its snapshot has, so a place may be empty or have an older one. */
struct preemption *fsm_preemption_place(struct fsm *fsm, uint64_t id)
{
    size_t i = preemption_place(id);
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

/* L4: one and a half timeouts, the deferral, the grace, and a silent node. It is for a victim that
 * waits for its grant; one that writes or ends has a deadline of its own. */
static uint64_t victim_patience_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    uint64_t timeout_ms = fsm_checkpoint_timeout_ms(fsm, allocation);

    CHECK(allocation->view.id != NULL);
    return fsm_min(timeout_ms + timeout_ms / 2 + fsm->policy.max_deferral_ms +
                       fsm_allocation_grace_ms(fsm, allocation) + FSM_TERMINATE_SLACK_MS,
                   FSM_DURATION_MAX_MS);
}

/* Until when it may still let go by itself. */
uint64_t fsm_victim_bound_ms(const struct fsm *fsm, const struct fsm_preemption_victim *victim)
{
    const struct allocation *allocation = allocation_find(fsm, victim->allocation_id);
    const struct checkpoint *active = checkpoint_find_active(fsm, allocation);
    const struct checkpoint *held = fsm_verify_held(fsm, allocation);
    uint64_t end_ms = fsm_allocation_grace_ms(fsm, allocation) + FSM_TERMINATE_SLACK_MS;

    CHECK(victim->allocation_id != NULL);
    if (allocation->view.terminating || allocation->view.leaving)
        return fsm_max(allocation->terminate_deadline_ms, fsm->now_ms) + 1;
    if (active != NULL && fsm_checkpoint_writes(active))
        return active->view.deadline_ms + end_ms;
    if (held != NULL) /* its checkpoint is read once more */
        return held->verification->view.deadline_ms + end_ms;
    return victim->since_ms + victim_patience_ms(fsm, allocation);
}

/* What the victims that were not withdrawn do not cover. */
void fsm_preemption_missing(const struct fsm_preemption *view, struct victim_search *search)
{
    CHECK(view->id != 0);
    CHECK(search != NULL);
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

    CHECK(view->id != 0);
    if (view->state != STATE(WAITING))
        return 0;
    fsm_preemption_missing(view, &search);
    if (search.nodes > 0 || search.gpus > 0)
        return fsm->now_ms;
    for (uint32_t i = 0; i < view->victim_count; i++)
        if (fsm_victim_gives(&view->victims[i]))
            deadline_ms = fsm_min(deadline_ms, fsm_victim_bound_ms(fsm, &view->victims[i]));
    CHECK(deadline_ms != UINT64_MAX);
    return deadline_ms;
}

/* The deadline is kept in the record as well, for people and for a restore. */
static void preemption_arm(struct fsm *fsm, struct preemption *preemption)
{
    CHECK(preemption->view.id != 0);
    preemption->view.deadline_ms = preemption_deadline_ms(fsm, &preemption->view);
    fsm_timer_set(&fsm->timers, &preemption->timer, preemption->view.deadline_ms);
}

void fsm_preemption_end(struct fsm *fsm, struct preemption *preemption,
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
    fsm_moved(fsm, FSM_RECORD_PREEMPTION, preemption->view.id);
    fsm_event_emit(fsm, &event);
}

void fsm_victim_set(const struct fsm *fsm, struct fsm_preemption_victim *victim,
                    Ckpt__V1__VictimState state)
{
    CHECK(victim != NULL);
    victim->state = state;
    victim->since_ms = fsm->now_ms;
}

void fsm_victim_withdraw(const struct fsm *fsm, struct fsm_preemption_victim *victim,
                         Ckpt__V1__Reason reason)
{
    fsm_victim_set(fsm, victim, VICTIM(WITHDRAWN));
    if (fsm_level(fsm) >= 2)
        victim->reason = reason;
}

/* The row of the victim that still gives; NULL: it let go, was withdrawn, or there is no
 * preemption. Texts are compared, since the row may outlive the job that it names. */
static struct fsm_preemption_victim *preemption_victim(struct preemption *preemption,
                                                       const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    for (uint32_t i = 0; preemption != NULL && i < preemption->view.victim_count; i++)
        if (fsm_victim_gives(&preemption->view.victims[i]) &&
            strcmp(preemption->view.victims[i].allocation_id, allocation->view.id) == 0)
            return &preemption->view.victims[i];
    return NULL;
}

/* RELEASED needs both: that nobody is waited for, and that what was given covers the need. A victim
 * whose nodes broke while it stopped gave nothing, and the deadline, which is now, finds others. */
void fsm_preemption_settle(struct fsm *fsm, struct preemption *preemption)
{
    struct victim_search missing =
        fsm_preemption_search(fsm, preemption->view.request, preemption->view.acting_class);
    bool waits = false;

    CHECK(preemption->view.id != 0);
    if (preemption->taking || preemption->view.state != STATE(WAITING))
        return;
    fsm_preemption_missing(&preemption->view, &missing);
    for (uint32_t i = 0; i < preemption->view.victim_count; i++)
        waits |= fsm_victim_gives(&preemption->view.victims[i]);
    if (waits || missing.nodes > 0 || missing.gpus > 0)
        preemption_arm(fsm, preemption);
    else
        fsm_preemption_end(fsm, preemption, STATE(RELEASED), CKPT__V1__REASON__REASON_NONE);
}

/* Its nodes leave now: those that nobody can use meanwhile are not what it gave, and are looked for
 * elsewhere. */
void fsm_preemption_leaves(struct fsm *fsm, const struct allocation *allocation)
{
    struct preemption *preemption =
        preemption_edit(fsm, preemption_find(fsm, allocation->view.preemption_id));
    struct fsm_preemption_victim *victim = preemption_victim(preemption, allocation);
    union {
        const uint32_t *constant;
        uint32_t *changing;
    } slots;
    uint32_t kept = 0;

    CHECK(allocation->view.id != NULL);
    if (victim == NULL)
        return;
    slots.constant = victim->node_slots;
    for (uint32_t i = 0; i < victim->node_count; i++) {
        uint32_t slot = slots.constant[i];

        if (fsm_node_serves(fsm, slot)) {
            slots.changing[kept++] = slot;
            fsm_node_freed(fsm, node_at(fsm, slot), preemption->view.acting_class);
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

/* Called when the nodes are free. A job that nobody waits for has no victim's row. */
void fsm_preemption_released(struct fsm *fsm, struct allocation *allocation)
{
    struct preemption *preemption =
        preemption_edit(fsm, preemption_find(fsm, allocation->view.preemption_id));
    struct fsm_preemption_victim *victim = preemption_victim(preemption, allocation);

    CHECK(allocation->view.id != NULL);
    allocation->view.preemption_id = 0;
    if (victim == NULL)
        return;
    fsm_victim_set(fsm, victim, VICTIM(RELEASED));
    fsm_preemption_settle(fsm, preemption);
}

/* No other one is looked for here: the caller is in the middle of a change. The deadline is now, so
 * the next Tick does it. */
void fsm_preemption_lost(struct fsm *fsm, uint64_t id, const struct allocation *allocation,
                         Ckpt__V1__Reason reason)
{
    struct preemption *preemption = preemption_edit(fsm, preemption_find(fsm, id));
    struct fsm_preemption_victim *victim = preemption_victim(preemption, allocation);

    CHECK(allocation->view.id != NULL);
    if (victim == NULL)
        return;
    fsm_victim_withdraw(fsm, victim, reason);
    preemption->view.escalations++;
    fsm_preemption_settle(fsm, preemption);
}

/* The job is free to be somebody else's victim from now on. */
void fsm_preemption_kept(struct fsm *fsm, struct allocation *allocation, Ckpt__V1__Reason reason)
{
    CHECK(allocation->view.id != NULL);
    fsm_preemption_lost(fsm, allocation->view.preemption_id, allocation, reason);
    allocation->view.preemption_id = 0;
}

/* One that is no preemption's victim any more is nobody's to force. */
bool fsm_preemption_forced(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct preemption *preemption = preemption_find(fsm, allocation->view.preemption_id);

    CHECK(allocation->view.id != NULL);
    return preemption != NULL && preemption->view.state == STATE(WAITING) &&
           fsm_preemption_search(fsm, preemption->view.request, preemption->view.acting_class)
               .forced;
}

/* The checkpoint of the epoch before is begun again under another id. */
void fsm_preemption_renewed(struct fsm *fsm, const struct allocation *allocation)
{
    struct fsm_preemption_victim *victim = preemption_victim(
        preemption_edit(fsm, preemption_find(fsm, allocation->view.preemption_id)), allocation);

    CHECK(allocation->view.id != NULL);
    if (victim != NULL)
        victim->checkpoint_id = allocation->view.active_checkpoint_id;
}
