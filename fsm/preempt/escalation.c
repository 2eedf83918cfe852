/* What is done about victims that do not let go in time: they are forced, or withdrawn and replaced
 * by others. Called at the deadline that preemption.c keeps.
 *
 * Flow     fsm_preemption_due() escalates each victim whose bound has passed, then looks for others
 *          in place of those that were withdrawn. No others: who can be turned back keeps its
 *          nodes, and the preemption is EXPIRED.
 * Absent   patience that ends while a victim writes or is being terminated: both have deadlines of
 *          their own, which come first.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/preempt/preemption.h"

#define STATE(name)  CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_##name
#define VICTIM(name) CKPT__V1__VICTIM_STATE__VICTIM_STATE_##name
#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

/* Its checkpoint was to stop it; now it only saves its work. Not while nodes write: they were asked
 * to stop. */
static void victim_turn_back(struct fsm *fsm, struct allocation *allocation)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

    CHECK(allocation->view.id != NULL);
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

/* One that writes was asked to stop and may do so; one that is terminated is gone. Only what still
 * waits can be taken back. */
static bool victim_may_turn_back(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct checkpoint *active = checkpoint_find_active(fsm, allocation);

    return !allocation->view.terminating && active != NULL && !fsm_checkpoint_writes(active);
}

/* It keeps its nodes. A checkpoint that waits goes on as a periodic one: it is worth having. */
static void victim_withdraw(struct fsm *fsm, struct fsm_preemption_victim *victim,
                            struct allocation *allocation)
{
    bool shrinks = victim->state == VICTIM(SHRINKING);
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

    CHECK(victim->allocation_id != NULL);
    CHECK(allocation->view.id != NULL);
    fsm_victim_withdraw(fsm, victim, CKPT__V1__REASON__REASON_STORAGE_UNAVAILABLE);
    allocation->view.preemption_id = 0;
    if (active != NULL) /* nobody waits for it any more */
        active->stop_deadline_ms = 0;
    if (shrinks)
        fsm_scale_undo(fsm, allocation);
    else
        victim_turn_back(fsm, allocation);
}

/* What it was to give up is forgotten where its own stop won over that: then it stops
 * now. */
static void victim_force(struct fsm *fsm, const struct fsm_preemption_victim *victim,
                         struct allocation *allocation, uint8_t acting_class)
{
    struct fsm_plan without = {CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT, ENDS(FAILED),
                               CKPT__V1__REASON__REASON_PREEMPTED_WITHOUT_CHECKPOINT};

    CHECK(victim->allocation_id != NULL);
    CHECK(allocation->view.id != NULL);
    if (victim->state == VICTIM(SHRINKING) && allocation->view.next_count > 0) {
        fsm_scale_done(fsm, allocation, CKPT__V1__REASON__REASON_SCALED_WITHOUT_CHECKPOINT);
        return;
    }
    allocation->preemptor_class = acting_class;
    fsm_terminate_begin(fsm, allocation, without);
}

/* Why the last victim that was lost goes on. */
static Ckpt__V1__Reason expiry_reason(const struct fsm_preemption *view)
{
    CHECK(view->id != 0);
    for (uint32_t i = view->victim_count; i-- > 0;)
        if (view->victims[i].state == VICTIM(WITHDRAWN))
            return view->victims[i].reason;
    return CKPT__V1__REASON__REASON_NONE;
}

/* Nobody is left to take: who can be turned back keeps its nodes, the others are on their way
 * out. */
static void preemption_expire(struct fsm *fsm, struct preemption *preemption,
                              enum fsm_status refusal)
{
    CHECK(preemption->view.id != 0);
    if (fsm_level(fsm) >= 2)
        preemption->view.refusal = refusal;
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        struct fsm_preemption_victim *victim = &preemption->view.victims[i];
        struct allocation *allocation;

        if (!fsm_victim_gives(victim))
            continue;
        allocation = allocation_edit(fsm, allocation_find(fsm, victim->allocation_id));
        if (victim_may_turn_back(fsm, allocation))
            victim_withdraw(fsm, victim, allocation);
    }
    fsm_preemption_end(fsm, preemption, STATE(EXPIRED), expiry_reason(&preemption->view));
}

/* What is missing is taken from others, or the preemption ends without it. */
static void preemption_replace(struct fsm *fsm, struct preemption *preemption)
{
    struct victim_search search =
        fsm_preemption_search(fsm, preemption->view.request, preemption->view.acting_class);
    struct victim_set set;
    struct fsm_outcome ignored = {.status = FSM_OK};
    enum fsm_status status;

    CHECK(preemption->view.id != 0);
    search.goes_on = preemption;
    fsm_preemption_missing(&preemption->view, &search);
    if (search.nodes == 0 && search.gpus == 0) {
        fsm_preemption_settle(fsm, preemption);
        return;
    }
    status = fsm_victims_choose(fsm, &search, &set, &ignored);
    if (status != FSM_OK)
        preemption_expire(fsm, preemption, status);
    else
        fsm_preemption_take(fsm, preemption, &search, &set);
}

/* Past its bound it neither writes nor is being terminated. With its destination available it waits
 * for a grant, which is the leader's business: it gets the same time again. One whose checkpoint is
 * complete and was to be read once more is let go by the deadline of that, which is due as well. */
static void victim_escalate(struct fsm *fsm, struct fsm_preemption_victim *victim,
                            uint8_t acting_class, bool forced)
{
    struct allocation *allocation =
        allocation_edit(fsm, allocation_find(fsm, victim->allocation_id));

    CHECK(victim->allocation_id != NULL);
    if (fsm_verify_held(fsm, allocation) != NULL)
        return;
    if (fsm_destination_available(fsm, &allocation->view))
        victim->since_ms = fsm->now_ms;
    else if (forced)
        victim_force(fsm, victim, allocation, acting_class);
    else
        victim_withdraw(fsm, victim, allocation);
}

/* As in a first choice, nothing settles while victims are handled one by one. */
void fsm_preemption_due(struct fsm *fsm, struct preemption *preemption)
{
    struct fsm_preemption *view = &preemption->view;
    bool forced = fsm_preemption_search(fsm, view->request, view->acting_class).forced;

    CHECK(preemption->view.id != 0);
    CHECK(view->state == STATE(WAITING));
    preemption->taking = true;
    for (uint32_t i = 0; i < view->victim_count; i++) {
        if (!fsm_victim_gives(&view->victims[i]) ||
            fsm_victim_bound_ms(fsm, &view->victims[i]) > fsm->now_ms)
            continue;
        view->escalations++;
        victim_escalate(fsm, &view->victims[i], view->acting_class, forced);
    }
    preemption->taking = false;
    preemption_replace(fsm, preemption);
}
