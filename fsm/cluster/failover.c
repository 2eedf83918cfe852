/* A target that is away for long, and where its checkpoints go meanwhile (S2-026). Off unless the
 * target names another one.
 *
 * Flow     an outage arms the target's timer; when it is due and the other target takes writes,
 *          every checkpoint that waits begins again there, under a new id, and new ones follow.
 *          The end of the outage takes it back for new ones; what was begun elsewhere stays there.
 * Shapes   the instant is a field: a restored member looks at it when the others do.
 */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

/* Where to; NULL: nowhere now. */
static const struct target *failover_other(const struct fsm *fsm, const struct target *target)
{
    const struct target *other = target_find(fsm, target->view.failover_target_id);

    CHECK(target->view.id != NULL);
    return other == NULL || other == target || !other->view.available || other->view.draining
               ? NULL
               : other;
}

static void failover_event(struct fsm *fsm, const struct target *target, uint64_t moved)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_FAILOVER,
                              .subject = target->view.id,
                              .old_state = !target->view.failed_over,
                              .new_state = target->view.failed_over,
                              .number = moved};

    CHECK(target->view.id != NULL);
    fsm_event_emit(fsm, &event);
}

/* Called whenever the availability or the name of the other target changes. */
void fsm_failover_arm(struct fsm *fsm, struct target *target)
{
    bool wanted = !target->view.available && !target->removed &&
                  target->view.failover_target_id[0] != '\0' && !target->view.failed_over;

    CHECK(target->view.id != NULL);
    if (target->view.failed_over &&
        (target->view.available || target->view.failover_target_id[0] == '\0')) {
        target->view.failed_over = false;
        failover_event(fsm, target, 0);
        fsm_destinations_changed(fsm);
    }
    target->failover_at_ms =
        wanted ? fsm_max(fsm_add(target->view.since_ms, fsm->policy.failover_after_ms), fsm->now_ms)
               : 0;
    fsm_timer_set(&fsm->timers, &target->timer, target->failover_at_ms);
}

/* Those of a sensitive job wait on, unless the other target is of its pool and its jurisdiction. */
static bool failover_takes(const struct fsm *fsm, const struct target *target,
                           const struct checkpoint *checkpoint)
{
    const struct target *other = failover_other(fsm, target);
    const struct allocation *job = allocation_at(fsm, checkpoint->view.allocation_slot);

    CHECK(other != NULL);
    return !job->view.sensitive || fsm_pool_takes(other, job->view.jurisdiction);
}

/* Those that wait, collected first: each leaves the list when it begins again elsewhere. */
static uint64_t failover_waiting(struct fsm *fsm, struct target *target,
                                 struct checkpoint ***ret_waiting)
{
    uint64_t count = 0;
    struct checkpoint **waiting =
        fsm_arena_take(&fsm->arena, (target->view.paused_count + 1) * sizeof(struct checkpoint *));

    CHECK(target->view.failed_over);
    for (struct list *at = target->active.next; at != &target->active; at = at->next) {
        struct checkpoint *checkpoint = LIST_ITEM(at, struct checkpoint, queue);

        CHECK(count < target->view.paused_count);
        if (failover_takes(fsm, target, checkpoint))
            waiting[count++] = checkpoint;
    }
    *ret_waiting = waiting;
    return count;
}

/* While the other target is away too, it is looked at again after the same time. */
void fsm_failover_due(struct fsm *fsm, struct target *target)
{
    struct checkpoint **waiting;
    uint64_t count;

    CHECK(!target->view.available);
    if (failover_other(fsm, target) == NULL) {
        target->failover_at_ms = fsm_add(fsm->now_ms, fsm->policy.failover_after_ms);
        fsm_timer_set(&fsm->timers, &target->timer, target->failover_at_ms);
        return;
    }
    target->failover_at_ms = 0;
    fsm_timer_set(&fsm->timers, &target->timer, 0);
    target->view.failed_over = true;
    fsm_destinations_changed(fsm);
    count = failover_waiting(fsm, target, &waiting);
    failover_event(fsm, target, count);
    for (uint64_t i = 0; i < count; i++) {
        fsm_hold_checkpoint(fsm, waiting[i]);
        fsm_hold_allocation(fsm, allocation_at(fsm, waiting[i]->view.allocation_slot));
        fsm_checkpoint_fail_over(fsm, waiting[i]);
    }
}
