/* A state from a backup: passive until it is adopted. See passive.h.
 *
 * Between the backup and the adoption nobody was asked or heard. So back-offs, deadlines of stops
 * and what is kept for a time go on where they stood, and what was being written begins again. A
 * walltime is the nodes' reservation, which ended when it ended. */
#include "fsm/core/registry.h"
#include "fsm/job/job.h"

void fsm_begin_passive(struct fsm *fsm)
{
    uint32_t level;

    CHECK(fsm != NULL);
    if (!fsm->initialised)
        return;
    level = fsm_level(fsm);
    fsm->policy.feature_level = FSM_LEVEL_NEWEST;
    if (level < 2)
        fsm_level_2_begins(fsm);
    fsm->policy.zeros = fsm_policy_zeros(&fsm->policy);
    fsm->passive_since_ms = fsm_max(fsm->now_ms, 1);
}

uint64_t fsm_passive_since_ms(const struct fsm *fsm)
{
    CHECK(fsm != NULL);
    return fsm->passive_since_ms;
}

static uint64_t shifted_ms(uint64_t instant_ms, uint64_t by_ms)
{
    return instant_ms == 0 ? 0 : fsm_add(instant_ms, by_ms);
}

/* A job that ended before is kept for as long as it would have been: due.c reads the shift. */
static void adopt_allocation(struct fsm *fsm, struct allocation *allocation, uint64_t by_ms)
{
    struct checkpoint *active = checkpoint_edit(fsm, checkpoint_find_active(fsm, allocation));

    CHECK(allocation->view.id != NULL);
    allocation->terminate_deadline_ms = shifted_ms(allocation->terminate_deadline_ms, by_ms);
    allocation->grace_end_ms = shifted_ms(allocation->grace_end_ms, by_ms);
    if (active != NULL && allocation->view.terminating) {
        active->view.deadline_ms = shifted_ms(active->view.deadline_ms, by_ms);
        active->stop_deadline_ms = shifted_ms(active->stop_deadline_ms, by_ms);
        active->stop_limit_ms = shifted_ms(active->stop_limit_ms, by_ms);
        fsm_checkpoint_arm(fsm, active);
    } else if (active != NULL) {
        fsm_checkpoint_renew(fsm, active);
    }
    fsm_allocation_arm(fsm, allocation);
}

static void adopt_kept(struct fsm *fsm, const struct allocation *allocation, uint64_t by_ms)
{
    CHECK(allocation->view.id != NULL);
    for (struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next) {
        struct checkpoint *checkpoint =
            checkpoint_edit(fsm, LIST_ITEM(at, struct checkpoint, in_allocation));
        struct verification *verification = checkpoint->verification;

        if (verification != NULL) {
            verification->view.deadline_ms = shifted_ms(verification->view.deadline_ms, by_ms);
            fsm_timer_set(&fsm->timers, &verification->timer, verification->view.deadline_ms);
        }
        if (checkpoint->collect_at_ms == 0)
            continue;
        checkpoint->collect_at_ms = shifted_ms(checkpoint->collect_at_ms, by_ms);
        fsm_checkpoint_arm(fsm, checkpoint);
    }
}

/* A target is looked at anew; until then its last state counts from now. */
static void adopt_targets(struct fsm *fsm)
{
    CHECK(fsm->targets.used <= FSM_TARGETS_MAX);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++) {
        struct target *target = target_edit(fsm, target_find_slot(fsm, slot));

        if (target == NULL || target->view.available)
            continue;
        target->view.since_ms = fsm->now_ms;
        fsm_failover_arm(fsm, target);
    }
}

static void adopt_preemptions(struct fsm *fsm)
{
    const struct fsm_preemption *view;

    for (uint64_t after = 0; (view = fsm_preemption_next(fsm, after)) != NULL; after = view->id)
        fsm_preemption_settle(fsm, preemption_edit(fsm, preemption_find(fsm, view->id)));
}

/* Work in proportion to the state, once in the life of a restored cluster. outcome: current
 * checkpoints that begin again. */
enum fsm_status fsm_apply_adopt_cluster(struct fsm *fsm, const fsm_command *command,
                                        struct fsm_outcome *outcome)
{
    struct fsm_event event = {.kind = CKPT__V1__EVENT_KIND__EVENT_KIND_EPOCH,
                              .new_state = (uint32_t)fsm->epoch,
                              .subject = fsm->cluster_id};
    uint64_t by_ms;

    CHECK(command->body_case == CKPT__LOG__V1__COMMAND__BODY_ADOPT_CLUSTER);
    CHECK(outcome != NULL);
    (void)command;
    if (fsm->passive_since_ms == 0)
        return FSM_OK;
    by_ms = fsm->now_ms - fsm->passive_since_ms;
    fsm->passive_since_ms = 0;
    fsm->adopted_at_ms = fsm->now_ms;
    fsm->adopted_shift_ms = by_ms;
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++) {
        struct allocation *allocation = allocation_edit(fsm, allocation_find_slot(fsm, slot));

        if (allocation == NULL)
            continue;
        adopt_kept(fsm, allocation, by_ms);
        outcome->current += allocation->view.active_checkpoint_id != 0;
        adopt_allocation(fsm, allocation, by_ms);
    }
    adopt_targets(fsm);
    adopt_preemptions(fsm);
    event.number = outcome->current;
    fsm_event_emit(fsm, &event);
    return FSM_OK;
}
