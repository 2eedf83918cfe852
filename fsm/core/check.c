/* Verifies the named invariants (tests/README: I21 ...) and every index against the tables. Reads
 * only.
 *
 * Flow     one pass over allocations, checkpoints, targets and nodes each; sums are compared with
 *          the counters that apply maintains. A violation's line begins with the invariant's name;
 *          INDEX is bookkeeping, RANGE a bound, RECORD is of one record's fields (moved.c).
 * Absent   I20, I22, I25, I37..I40: not visible in one member's state.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>

#include "fsm/cluster/policy_fields.h"
#include "fsm/core/registry.h"
#include "fsm/job/job.h"
#include "fsm/node_life.h"

#define STATE(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define ENDS(name)  CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name

enum { CHECKED_INVARIANTS = 19, CHECK_TEXT_BYTES = 320 };

/* What names a target, counted from the records, beside the counts that apply keeps. */
struct target_names {
    uint32_t jobs, going, checkpoints, folders;
};

struct node_names {
    uint32_t names, going;
    const struct allocation *last; /* that was counted in going */
};

/* Sums that the walk over the records makes. What apply counts up is often counted down here, so
 * that 0 means that every one was found. */
struct checker {
    const struct fsm *fsm;
    void (*violation)(void *context, const char *text);
    void *context;
    uint32_t allocations_by_state[FSM_STATES_ALLOCATION];
    uint32_t checkpoints_by_state[FSM_STATES_CHECKPOINT];
    uint32_t active, armed, collectable, hung;
    uint64_t hazard_sum_e12;
    struct tenant *tenants;                       /* sums over their allocations */
    uint32_t *references;                         /* by slot of the basis */
    uint32_t giving;                              /* nodes up, minus the victims that do */
    struct target_names targets[FSM_TARGETS_MAX]; /* by slot */
    struct node_names *nodes;                     /* likewise */
};

/* Goes on after a violation: one broken index shows itself in several, and all of them help. */
static void check_expect(struct checker *checker, bool holds, const char *what, const char *subject,
                         uint64_t number)
{
    char text[CHECK_TEXT_BYTES];

    CHECK(checker->fsm != NULL);
    if (holds)
        return;
    snprintf(text, sizeof(text), "%s (%s %" PRIu64 ")", what, subject, number);
    checker->violation(checker->context, text);
}

/* The job's list against what the job's record says of it. */
static void check_allocation_checkpoints(struct checker *checker,
                                         const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    uint32_t count = 0;
    uint32_t active = 0;
    uint64_t newest_complete = 0;
    uint64_t last_id = 0;

    CHECK(checker->fsm != NULL);
    for (const struct list *at = allocation->checkpoints.next; at != &allocation->checkpoints;
         at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, in_allocation);

        count++;
        active += fsm_checkpoint_state_active(checkpoint->view.state);
        if (checkpoint->view.state == STATE(COMPLETE) && !checkpoint->view.damaged &&
            !checkpoint->expired)
            newest_complete = checkpoint->view.id;
        check_expect(checker, checkpoint->view.id > last_id, "I26 ids of an allocation increase",
                     view->id, checkpoint->view.id);
        check_expect(checker, checkpoint->view.allocation_slot == view->slot,
                     "INDEX foreign checkpoint", view->id, checkpoint->view.id);
        last_id = checkpoint->view.id;
    }
    check_expect(checker, active <= 1, "I21 at most one active checkpoint", view->id, active);
    check_expect(checker, view->active_checkpoint_id == (active == 0 ? 0 : last_id),
                 "I21 the newest one alone is active", view->id, view->active_checkpoint_id);
    check_expect(checker, count == allocation->checkpoint_count, "INDEX checkpoint count", view->id,
                 count);
    check_expect(checker, count <= FSM_CHECKPOINTS_PER_ALLOCATION_MAX, "INDEX checkpoint limit",
                 view->id, count);
    check_expect(checker,
                 view->last_complete_id == newest_complete ||
                     !fsm_allocation_restartable(allocation),
                 "I27 last complete is the newest", view->id, view->last_complete_id);
}

/* I27..I29: a job that may be started again has something to start from, once it had. */
static void check_restart_point(struct checker *checker, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *last = checkpoint_find(checker->fsm, view->last_complete_id);
    bool restartable = fsm_allocation_restartable(allocation);

    CHECK(checker->fsm != NULL);
    if (view->last_complete_id == 0) {
        check_expect(checker,
                     !restartable || view->complete_count == 0 ||
                         fsm_damaged_count(allocation) > 0 || fsm_allocation_continued(allocation),
                     "I28 a restartable job keeps its last complete checkpoint", view->id,
                     view->complete_count);
        return;
    }
    if (last == NULL) {
        check_expect(checker, false, "I28 the last complete checkpoint exists", view->id,
                     view->last_complete_id);
        return;
    }
    check_expect(checker, last->view.allocation_slot == view->slot,
                 "I27 a job is restarted from a checkpoint of its own", view->id, last->view.id);
    check_expect(checker, last->view.state == STATE(COMPLETE),
                 "I27 only COMPLETE is restarted from", view->id, last->view.id);
    check_expect(checker, !restartable || (!last->expired && !last->collected),
                 "I28 the last complete checkpoint is not collected", view->id, last->view.id);
    check_expect(checker, view->previous_complete_id < view->last_complete_id,
                 "I29 the previous complete one is older", view->id, view->previous_complete_id);
}

/* I30: nodes are held together and given back together, and nobody is let in beside what runs. */
static void check_parts(struct checker *checker, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    uint32_t terminated = 0, exited = 0, gpus = 0;

    CHECK(checker->fsm != NULL);
    for (uint32_t i = 0; i < view->node_count; i++) {
        const struct assignment *part = &allocation->assignments[i];

        terminated += part->terminated;
        check_expect(checker,
                     !part->away || !allocation->assigned ||
                         (part->terminated &&
                          fsm_node_gone(&node_at(checker->fsm, view->nodes[i].node_slot)->view)),
                     "I30 only of a node that is gone nobody's word is needed", view->id, i);
        exited += part->exited;
        gpus += view->nodes[i].gpu_count;
        check_expect(checker,
                     view->nodes[i].run <=
                         run_make(checker->fsm->epoch, checker->fsm->command_count),
                     "INDEX a run began in the past", view->id, view->nodes[i].run);
        check_expect(checker,
                     list_empty(&part->in_node) != (allocation->assigned || fsm_part_unended(part)),
                     "I30 nodes are held all or not at all", view->id, i);
    }
    check_expect(checker, terminated == allocation->terminated_count, "INDEX terminated parts",
                 view->id, terminated);
    check_expect(checker, exited == allocation->exited_count, "INDEX exited parts", view->id,
                 exited);
    check_expect(checker, gpus == view->gpu_count, "INDEX gpu count", view->id, gpus);
    check_expect(checker, fsm_allocation_runs(allocation) == allocation->assigned,
                 "I30 an ended allocation holds no nodes", view->id, view->state);
    check_expect(checker,
                 view->terminating || view->leaving || !allocation->assigned || terminated == 0,
                 "I30 parts end only by a terminate order", view->id, terminated);
    check_expect(checker,
                 !view->terminating || view->active_checkpoint_id != 0 ||
                     terminated < view->node_count,
                 "I30 an allocation whose parts ended has ended", view->id, terminated);
    /* nobody would ever report anything again */
    check_expect(checker, !allocation->assigned || view->terminating || exited < view->node_count,
                 "F-021 what ended on all its nodes has ended", view->id, exited);
}

/* I23, I31..I33: a job stops by a checkpoint or by an order, with a walltime that still counts. */
static void check_stopping(struct checker *checker, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *active = checkpoint_find(checker->fsm, view->active_checkpoint_id);
    bool stops = active != NULL &&
                 active->view.after != CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;

    CHECK(checker->fsm != NULL);
    check_expect(checker,
                 view->state != ENDS(CHECKPOINTING_TO_STOP) || stops || view->terminating ||
                     fsm_verify_held(checker->fsm, allocation) != NULL,
                 "I23 stopping means a stopping checkpoint or a terminate order", view->id,
                 view->state);
    check_expect(checker, !stops || view->state == ENDS(CHECKPOINTING_TO_STOP),
                 "I23 a stopping checkpoint means CHECKPOINTING_TO_STOP", view->id, view->state);
    check_expect(checker, active == NULL || fsm_allocation_runs(allocation),
                 "I23 an ended allocation has no active checkpoint", view->id, view->state);
    check_expect(checker, !view->terminating || fsm_allocation_runs(allocation),
                 "I30 only a running allocation is terminated", view->id, view->state);
    check_expect(checker,
                 !view->sensitive ||
                     (view->preempted_count == 0 && allocation->preemptor_class == 0),
                 "I31 a sensitive allocation is never a victim", view->id, view->preempted_count);
    check_expect(checker,
                 allocation->preemptor_class == 0 ||
                     allocation->preemptor_class > view->preemption_class,
                 "I32 preemption goes to lower classes", view->id, allocation->preemptor_class);
    check_expect(checker,
                 view->walltime_ms == 0 || !fsm_allocation_runs(allocation) || view->terminating ||
                     allocation->timer.at_ms == view->started_at_ms + view->walltime_ms ||
                     allocation->timer.at_ms == fsm_walltime_due_ms(checker->fsm, view) ||
                     ((view->leaving || !list_empty(&allocation->in_reads)) &&
                      allocation->timer.at_ms < view->started_at_ms + view->walltime_ms),
                 "I33 the walltime's deadline stands", view->id, allocation->timer.at_ms);
}

/* A job that gives nodes up, in part or whole, from the job's side; the victims' rows are the other
 * side (check_victim). */
static void check_giving(struct checker *checker, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const struct checkpoint *active = checkpoint_find(checker->fsm, view->active_checkpoint_id);

    CHECK(checker->fsm != NULL);
    check_expect(checker,
                 view->next_count == 0 ||
                     ((view->state == ENDS(RUNNING) || view->state == ENDS(STARTING)) &&
                      !view->terminating &&
                      (active == NULL ? view->leaving || fsm_release_held(checker->fsm, view->slot)
                                      : active->view.after ==
                                            CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE)),
                 "I30 nodes leave after a checkpoint that goes on", view->id, view->next_count);
    check_expect(checker, !view->leaving || (view->next_count > 0 && allocation->timer.at_ms != 0),
                 "I30 what leaves has a deadline", view->id, view->next_count);
    check_expect(checker, view->preemption_id == 0 || fsm_allocation_runs(allocation),
                 "I30 a victim that let go is released", view->id, view->preemption_id);
    checker->giving += view->preemption_id != 0;
}

/* One that let go, or was withdrawn, is nobody's business any more. */
static void check_victim(struct checker *checker, const struct preemption *preemption,
                         const struct fsm_preemption_victim *victim)
{
    const struct allocation *allocation = allocation_find(checker->fsm, victim->allocation_id);
    uint64_t id = preemption->view.id;

    CHECK(checker->fsm != NULL);
    if (victim->state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_STOPPING &&
        victim->state != CKPT__V1__VICTIM_STATE__VICTIM_STATE_SHRINKING)
        return;
    checker->giving--;
    if (allocation == NULL) {
        check_expect(checker, false, "I30 a victim that gives nodes up exists",
                     victim->allocation_id, id);
        return;
    }
    check_expect(checker, allocation->view.preemption_id == id,
                 "I30 a victim gives its nodes to one preemption", victim->allocation_id, id);
    check_expect(checker, !allocation->view.sensitive,
                 "I31 a sensitive allocation is never a victim", victim->allocation_id, id);
    check_expect(checker, allocation->view.preemption_class < preemption->view.acting_class,
                 "I32 preemption goes to lower classes", victim->allocation_id, id);
    check_expect(checker,
                 victim->state == CKPT__V1__VICTIM_STATE__VICTIM_STATE_SHRINKING ||
                     allocation->view.terminating ||
                     allocation->view.state == ENDS(CHECKPOINTING_TO_STOP),
                 "I30 a victim stops", victim->allocation_id, id);
}

static void check_preemption(struct checker *checker, const struct preemption *preemption)
{
    bool waits = preemption->view.state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING;

    checker->armed += preemption->timer.position != 0;
    check_expect(checker, waits == (preemption->timer.position != 0),
                 "L4 a preemption that waits has a deadline", "preemption", preemption->view.id);
    check_expect(checker, preemption->timer.at_ms == preemption->view.deadline_ms || !waits,
                 "L4 the deadline is the timer's", "preemption", preemption->view.id);
    check_expect(checker, preemption->view.victim_count <= FSM_VICTIMS_MAX, "I30 victims",
                 "preemption", preemption->view.victim_count);
    for (uint32_t i = 0; i < preemption->view.victim_count; i++) {
        const struct fsm_preemption_victim *victim = &preemption->view.victims[i];

        check_expect(checker,
                     preemption->view.state !=
                             CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_RELEASED ||
                         victim->state == CKPT__V1__VICTIM_STATE__VICTIM_STATE_RELEASED ||
                         victim->state == CKPT__V1__VICTIM_STATE__VICTIM_STATE_WITHDRAWN,
                     "I30 released means every victim", victim->allocation_id, preemption->view.id);
        for (uint32_t j = 0; j < victim->node_count; j++)
            checker->nodes[victim->node_slots[j]].names++;
        check_victim(checker, preemption, victim);
    }
}

/* A job that has a node in both of its sets, now and next, counts there once. */
static void count_share(struct checker *checker, const struct allocation *allocation,
                        const struct fsm_node_share *share)
{
    struct node_names *names = &checker->nodes[share->node_slot];

    CHECK(checker->fsm != NULL);
    names->names++;
    if (fsm_allocation_goes_on(allocation) && names->last != allocation) {
        names->last = allocation;
        names->going++;
    }
}

static void count_nodes(struct checker *checker, const struct allocation *allocation)
{
    CHECK(checker->fsm != NULL);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        count_share(checker, allocation, &allocation->view.nodes[i]);
    for (uint32_t i = 0; i < allocation->view.next_count; i++)
        count_share(checker, allocation, &allocation->view.next[i]);
    for (uint32_t i = 0; i < allocation->departed_count; i++)
        checker->nodes[allocation->departed[i]->node_slot].names++;
}

/* All that follows from one job and its checkpoints; what is summed over jobs comes at the end. */
static void check_allocation(struct checker *checker, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;
    const char *const broken[] = {fsm_begin_broken(checker->fsm, allocation),
                                  fsm_read_broken(checker->fsm, allocation),
                                  fsm_departed_broken(checker->fsm, allocation)};

    CHECK(checker->fsm != NULL);
    checker->allocations_by_state[view->state]++;
    checker->armed += allocation->timer.position != 0;
    checker->targets[view->target_slot].jobs++;
    checker->targets[view->target_slot].going +=
        view->state != ENDS(COMPLETED) && view->state != ENDS(FAILED);
    check_expect(checker, allocation_find(checker->fsm, view->id) == allocation,
                 "INDEX allocation map", view->id, view->slot);
    check_expect(
        checker,
        fsm_bitmap_get(&checker->fsm->running_by_class[view->preemption_class], view->slot) ==
            (fsm_allocation_runs(allocation) && !view->sensitive),
        "INDEX candidates by class", view->id, view->slot);
    check_allocation_checkpoints(checker, allocation);
    check_restart_point(checker, allocation);
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++)
        check_expect(checker, broken[i] == NULL, broken[i], view->id, view->restart_id);
    check_parts(checker, allocation);
    check_stopping(checker, allocation);
    check_giving(checker, allocation);
    count_nodes(checker, allocation);
}

/* Numbers of one checkpoint among each other: pauses, timeouts, deadlines, grants. */
static void check_checkpoint_counts(struct checker *checker, const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const char *name = fsm_checkpoint_state_name(view->state);
    bool active = fsm_checkpoint_state_active(view->state);
    bool paused = view->state == STATE(PAUSED);
    uint32_t unresumed = view->paused_count - view->resumed_count;

    CHECK(checker->fsm != NULL);
    /* one that ended while paused (by a cancel, by its allocation's end) was not resumed */
    check_expect(checker,
                 unresumed <= 1 && (unresumed == 1) >= paused && (!active || unresumed == paused),
                 "I24 a paused checkpoint is resumed exactly once", name, view->id);
    check_expect(checker,
                 view->timeout_ms <= checkpoint->base_timeout_ms +
                                         (view->extended ? checkpoint->base_timeout_ms / 2 : 0) +
                                         (view->deferred_ms - view->deferred_before_ms),
                 "I34 one extension of half the timeout, and what was deferred", name, view->id);
    check_expect(checker,
                 view->deferred_before_ms <= view->deferred_ms &&
                     view->deferred_ms <= view->max_deferral_ms &&
                     view->max_deferral_ms <= FSM_DAY_MS,
                 "I34 deferred by max_deferral at most", name, view->id);
    check_expect(checker, fsm_checkpoint_writes(checkpoint) == (view->deadline_ms != 0),
                 "I23 what is dispatched has a deadline", name, view->id);
    check_expect(checker,
                 checkpoint->stop_deadline_ms == 0 ||
                     (checkpoint->stop_deadline_ms <= checkpoint->stop_limit_ms &&
                      view->deadline_ms <=
                          fsm_max(checkpoint->stop_deadline_ms, view->dispatched_at_ms + 1)),
                 "L4 no attempt goes beyond its stop", name, view->id);
    check_expect(checker, fsm_checkpoint_writes(checkpoint) || view->granted_bytes_per_s == 0,
                 "I36 only writers hold bandwidth", name, view->id);
    check_expect(checker, !checkpoint->expired || !active, "I28 an active one never expires", name,
                 view->id);
    check_expect(checker, view->state != STATE(COLLECTED) || checkpoint->collected,
                 "INDEX collected state", name, view->id);
    check_expect(checker, checkpoint->timer.position == 0 || checkpoint->timer.at_ms != 0,
                 "INDEX timer", name, view->id);
}

/* A basis lives as long as an input refers to it, so the references are counted. */
static void check_inputs(struct checker *checker, const struct checkpoint *checkpoint)
{
    const struct fsm_checkpoint *view = &checkpoint->view;
    const char *name = fsm_checkpoint_state_name(view->state);
    const struct basis *basis;

    CHECK(checker->fsm != NULL);
    if (checkpoint->inputs == NULL)
        return;
    basis = checkpoint->inputs->basis;
    check_expect(checker, basis_at(checker->fsm, basis->view.slot) == basis, "INDEX basis", name,
                 view->id);
    check_expect(checker,
                 fsm_checkpoint_state_active(view->state) ||
                     (view->attempt > 0 && !checkpoint->collected),
                 "INDEX inputs are kept with a folder", name, view->id);
    checker->references[basis->view.slot]++;
}

/* What holds over the parts of a checkpoint: their ranks, where they lie, who reads them again. */
static void check_checkpoint_parts(struct checker *checker, const struct checkpoint *checkpoint)
{
    const char *name = fsm_checkpoint_state_name(checkpoint->view.state);
    const char *const broken[] = {
        fsm_ranks_broken(checkpoint), fsm_copies_broken(checker->fsm, checkpoint),
        fsm_verify_broken(checker->fsm, checkpoint), fsm_continue_broken(checker->fsm, checkpoint)};

    CHECK(checker->fsm != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++)
        check_expect(checker, broken[i] == NULL, broken[i], name, checkpoint->view.id);
}

/* What a checkpoint's state means for its shards and its target. */
static void check_checkpoint(struct checker *checker, const struct checkpoint *checkpoint)
{
    const struct fsm *fsm = checker->fsm;
    const struct fsm_checkpoint *view = &checkpoint->view;
    const struct target *target = target_at(fsm, view->target_slot);
    const char *name = fsm_checkpoint_state_name(view->state);
    bool all_verified = true;

    CHECK(checker->fsm != NULL);
    checker->checkpoints_by_state[view->state]++;
    checker->active += fsm_checkpoint_state_active(view->state);
    checker->armed += checkpoint->timer.position != 0;
    checker->armed += checkpoint->verification != NULL;
    checker->collectable += checkpoint->expired && !checkpoint->collected;
    checker->targets[view->target_slot].checkpoints++;
    checker->targets[view->target_slot].folders += fsm_checkpoint_has_folder(checkpoint);
    check_checkpoint_counts(checker, checkpoint);
    check_inputs(checker, checkpoint);
    check_checkpoint_parts(checker, checkpoint);
    for (uint32_t i = 0; i < view->shard_count; i++)
        checker->nodes[checkpoint->shards[i].node_slot].names++;
    for (uint32_t i = 0; i < view->shard_count; i++)
        all_verified = all_verified && checkpoint->shards[i].verified;
    check_expect(checker,
                 all_verified ||
                     (view->state != STATE(COMPLETE) && view->state != STATE(COLLECTED)),
                 "I27 COMPLETE means every shard is verified", name, view->id);
    check_expect(checker, !all_verified || !fsm_checkpoint_state_active(view->state),
                 "I23 with every shard verified it is complete", name, view->id);
    check_expect(checker,
                 target->view.available || view->state == STATE(PAUSED) ||
                     !fsm_checkpoint_state_active(view->state),
                 "I35 nothing is asked of an unavailable target", name, view->id);
    check_expect(checker, !target->view.available || view->state != STATE(PAUSED),
                 "I24 nothing stays paused when its target is back", name, view->id);
    check_expect(checker,
                 view->id >> CHECKPOINT_SEQUENCE_BITS <= fsm->epoch &&
                     (view->id >> CHECKPOINT_SEQUENCE_BITS < fsm->epoch ||
                      view->id <= checkpoint_id_make(fsm->epoch, fsm->checkpoint_sequence)),
                 "I26 no id beyond the sequence", name, view->id);
}

/* I36: grants are summed from the list of active checkpoints, and every active one is in one
 * list. */
static void check_target(struct checker *checker, const struct target *target)
{
    const struct fsm_target *view = &target->view;
    uint64_t granted = 0, budgeted = 0, last_id = 0;
    uint32_t paused = 0;
    const char *broken;

    CHECK(checker->fsm != NULL);
    for (const struct list *at = target->active.next; at != &target->active; at = at->next) {
        const struct checkpoint *checkpoint = LIST_ITEM_CONST(at, struct checkpoint, queue);

        granted += checkpoint->view.granted_bytes_per_s;
        budgeted += checkpoint->bypass_budget ? 0 : checkpoint->view.granted_bytes_per_s;
        paused += checkpoint->view.state == STATE(PAUSED);
        check_expect(checker, fsm_checkpoint_state_active(checkpoint->view.state),
                     "INDEX an ended checkpoint is listed as active", view->id,
                     checkpoint->view.id);
        check_expect(checker, checkpoint->view.id > last_id, "INDEX active list by id", view->id,
                     checkpoint->view.id);
        last_id = checkpoint->view.id;
        checker->active--;
    }
    checker->armed += target->timer.position != 0;
    check_expect(checker, granted == view->granted_bytes_per_s, "I36 sum of grants", view->id,
                 granted);
    check_expect(checker, budgeted == target->budgeted_bytes_per_s, "I36 sum of budgeted grants",
                 view->id, budgeted);
    check_expect(checker,
                 budgeted <= fsm_max(view->budget_bytes_per_s, target->excused_bytes_per_s),
                 "I36 grants within the budget", view->id, budgeted);
    check_expect(
        checker,
        view->budget_bytes_per_s == (view->available ? fsm_target_budget_when_up(view) : 0),
        "I36 budget of what is configured and measured", view->id, view->budget_bytes_per_s);
    check_expect(checker,
                 view->measured_bytes_per_s == 0 ||
                     (view->measured_at_ms > 0 && view->measured_at_ms <= checker->fsm->now_ms),
                 "RANGE instant of what is measured", view->id, view->measured_at_ms);
    check_expect(checker, paused == view->paused_count, "INDEX paused count", view->id, paused);
    broken = fsm_read_target_broken(checker->fsm, target);
    check_expect(checker, broken == NULL, broken, view->id, view->reading_count);
    broken = fsm_writes_broken(target);
    check_expect(checker, broken == NULL, broken, view->id, view->writing_count);
}

static void check_node(struct checker *checker, const struct node *node)
{
    CHECK(checker->fsm != NULL);
    check_expect(checker, node_find_any(checker->fsm, node->view.id) == node, "INDEX node map",
                 node->view.id, node->view.slot);
    checker->armed += node->timer.position != 0;
    check_expect(checker, fsm_node_broken(node) == NULL, fsm_node_broken(node), node->view.id,
                 node->view.state);
}

/* Tenants keep what left, so they hold at least what their allocations hold; one that is full no
 * longer counts. */
static void check_tenant(struct checker *checker, uint32_t i)
{
    const struct tenant *tenant = checker->fsm->tenants[i];
    const struct tenant *sum = &checker->tenants[i];
    struct fsm_account now;

    CHECK(checker->fsm != NULL);
    fsm_tenant_account(checker->fsm, i, 0, &now);
    check_expect(checker, fsm_account_balanced(&now), "I42 GPU time of a tenant adds up",
                 tenant->id, now.held_gpu_ms);
    check_expect(checker,
                 tenant->computing_gpus == sum->computing_gpus &&
                     tenant->restarting_gpus == sum->restarting_gpus,
                 "INDEX GPUs of a tenant", tenant->id, tenant->computing_gpus);
    if (now.held_gpu_ms == UINT64_MAX)
        return;
    check_expect(checker,
                 now.useful_gpu_ms >= sum->account.useful_gpu_ms &&
                     now.pending_gpu_ms == sum->account.pending_gpu_ms,
                 "I42 a tenant has what its allocations have", tenant->id, now.pending_gpu_ms);
    for (size_t cause = 0; cause < FSM_LOSS_COUNT; cause++)
        check_expect(checker, now.lost_gpu_ms[cause] >= sum->account.lost_gpu_ms[cause],
                     "I42 a tenant lost what its allocations lost", tenant->id, cause);
}

/* The job's account as of now, and its part of the sums that its tenant must have. */
static void check_account(struct checker *checker, const struct allocation *allocation)
{
    struct tenant *sum = &checker->tenants[allocation->tenant_slot];
    struct fsm_account now;
    uint32_t starting = 0;

    CHECK(checker->fsm != NULL);
    fsm_allocation_account(checker->fsm, &allocation->view, 0, &now);
    check_expect(checker, fsm_account_balanced(&now), "I42 GPU time adds up", allocation->view.id,
                 now.held_gpu_ms);
    check_expect(checker, allocation->assigned || now.pending_gpu_ms == 0,
                 "I42 nothing is pending of what holds nothing", allocation->view.id,
                 now.pending_gpu_ms);
    for (uint32_t i = 0; i < allocation->view.node_count; i++)
        starting += allocation->assignments[i].starting;
    check_expect(checker,
                 starting == allocation->starting_count &&
                     allocation->account_restarting == (starting > 0) &&
                     allocation->account_gpus ==
                         (allocation->assigned ? fsm_account_gpus(&allocation->view) : 0),
                 "INDEX rate of an account", allocation->view.id, starting);
    check_expect(checker,
                 !allocation->assigned || allocation->view.state == ENDS(CHECKPOINTING_TO_STOP) ||
                     (allocation->view.state == ENDS(STARTING)) == (starting > 0),
                 "I43 STARTING means that a part of it is to start", allocation->view.id, starting);
    checker->hazard_sum_e12 += allocation->hazard_rate_e12;
    checker->hung += allocation->view.hung_since_ms != 0;
    sum->account.useful_gpu_ms = fsm_add(sum->account.useful_gpu_ms, now.useful_gpu_ms);
    sum->account.pending_gpu_ms = fsm_add(sum->account.pending_gpu_ms, now.pending_gpu_ms);
    for (size_t cause = 0; cause < FSM_LOSS_COUNT; cause++)
        sum->account.lost_gpu_ms[cause] =
            fsm_add(sum->account.lost_gpu_ms[cause], now.lost_gpu_ms[cause]);
    *(allocation->account_restarting ? &sum->restarting_gpus : &sum->computing_gpus) +=
        allocation->account_gpus;
}

static void check_tables(struct checker *checker)
{
    const struct fsm *fsm = checker->fsm;

    CHECK(checker->fsm != NULL);
    for (uint32_t slot = 0; slot < fsm->allocations.slot_end; slot++)
        if (allocation_find_slot(fsm, slot) != NULL) {
            check_allocation(checker, allocation_at(fsm, slot));
            check_account(checker, allocation_at(fsm, slot));
        }
    for (uint32_t i = 0; i < fsm->tenant_count; i++)
        check_tenant(checker, i);
    for (size_t i = 0; i < fsm->checkpoint_refs; i++) {
        check_expect(checker, i == 0 || fsm->checkpoints[i].id > fsm->checkpoints[i - 1].id,
                     "I26 ids strictly increase", "checkpoint", fsm->checkpoints[i].id);
        if (fsm->checkpoints[i].checkpoint != NULL)
            check_checkpoint(checker, fsm->checkpoints[i].checkpoint);
    }
    for (size_t i = 0; i < FSM_PREEMPTIONS_MAX; i++)
        if (fsm->preemptions[i] != NULL)
            check_preemption(checker, fsm->preemptions[i]);
    for (uint32_t slot = 0; slot < fsm->targets.slot_end; slot++)
        if (target_find_slot(fsm, slot) != NULL)
            check_target(checker, target_at(fsm, slot));
    for (uint32_t slot = 0; slot < fsm->nodes.slot_end; slot++)
        if (node_find_slot(fsm, slot) != NULL)
            check_node(checker, node_at(fsm, slot));
}

/* Each folder below a target is counted once: by its checkpoint's record, or here. */
static void check_undeleted(struct checker *checker)
{
    const struct fsm *fsm = checker->fsm;
    const struct fsm_undeleted *view;
    uint32_t count = 0;

    CHECK(checker->fsm != NULL);
    for (uint32_t place = 0; (view = fsm_undeleted_next(fsm, place)) != NULL;
         place = view->place + 1) {
        const struct checkpoint *checkpoint = checkpoint_find(fsm, view->checkpoint_id);

        count++;
        checker->targets[view->target_slot].checkpoints++;
        checker->targets[view->target_slot].folders += checkpoint == NULL;
        if (view->given)
            checker->nodes[view->node_slot].names++;
        check_expect(checker, view == fsm_undeleted_find(fsm, view->checkpoint_id),
                     "INDEX undeleted folders by checkpoint", "checkpoint", view->checkpoint_id);
        check_expect(checker,
                     checkpoint == NULL ? !view->listed
                                        : view->listed && checkpoint->undeleted != NULL &&
                                              &checkpoint->undeleted->view == view &&
                                              checkpoint->expired && !checkpoint->collected,
                     "I28 what could not be removed was to be", "checkpoint", view->checkpoint_id);
    }
    check_expect(checker, count == fsm->undeleted_count && count == fsm->undeleted_map.count,
                 "INDEX undeleted folders", "count", count);
}

/* What the last leader says is inside its numbers happened: the next one takes the difference. */
static void check_learned(struct checker *checker)
{
    const struct fsm *fsm = checker->fsm;

    CHECK(checker->fsm != NULL);
    if (fsm->learned == NULL)
        return;
    check_expect(checker, fsm_learned_counts_agree(fsm, fsm->learned),
                 "INDEX what was learned is inside what was counted", "term", fsm->learned->term);
}

static void check_bases(struct checker *checker)
{
    const struct fsm *fsm = checker->fsm;

    CHECK(checker->fsm != NULL);
    for (uint32_t slot = 0; slot < fsm->bases.slot_end; slot++) {
        const struct basis *basis = basis_find_slot(fsm, slot);

        if (basis != NULL)
            check_expect(checker,
                         basis->reference_count > 0 &&
                             basis->reference_count == checker->references[slot],
                         "INDEX references of a basis", "slot", slot);
    }
    check_expect(checker, fsm->basis_map.count == fsm->bases.used, "INDEX basis map", "count",
                 fsm->basis_map.count);
}

/* When all records have been looked at. */
static void check_target_names(struct checker *checker, const struct target *target)
{
    const struct target_names *names = &checker->targets[target->view.slot];

    CHECK(checker->fsm != NULL);
    check_expect(checker,
                 target->job_count == names->jobs && target->going_count == names->going &&
                     target->checkpoint_count == names->checkpoints &&
                     target->folder_count == names->folders,
                 "INDEX who names a target", target->view.id, names->jobs);
    check_expect(checker,
                 !target->removed || ((target->going_count == 0 || target->view.draining) &&
                                      target->folder_count == 0 && !target->view.is_default &&
                                      (target_named(target) || fsm_level(checker->fsm) < 2)),
                 "INDEX nothing needs a removed target", target->view.id, target->going_count);
}

/* A removed node stays exactly as long as a record names it. */
static void check_node_names(struct checker *checker, const struct node *node)
{
    const struct node_names *names = &checker->nodes[node->view.slot];

    CHECK(checker->fsm != NULL);
    check_expect(checker,
                 node->name_count == names->names + node->copy_count &&
                     node->going_count == names->going,
                 "INDEX who names a node", node->view.id, names->names);
    check_expect(checker, fsm_copies_counted(node), "INDEX copies on a node", node->view.id,
                 node->copy_count);
    check_expect(checker, !node->removed || (node->going_count == 0 && node->name_count > 0),
                 "INDEX nothing needs a removed node", node->view.id, node->going_count);
}

/* Targets and nodes last: all who name them have been counted by then. */
static void check_names(struct checker *checker)
{
    CHECK(checker->fsm != NULL);
    for (uint32_t slot = 0; slot < checker->fsm->nodes.slot_end; slot++)
        if (node_find_slot(checker->fsm, slot) != NULL)
            check_node_names(checker, node_at(checker->fsm, slot));
    for (uint32_t slot = 0; slot < checker->fsm->targets.slot_end; slot++)
        if (target_find_slot(checker->fsm, slot) != NULL)
            check_target_names(checker, target_at(checker->fsm, slot));
}

/* The counters of the whole state against what was found. */
static void check_sums(struct checker *checker)
{
    const struct fsm *fsm = checker->fsm;
    uint32_t collectable = 0, past_requests = 0;

    CHECK(checker->fsm != NULL);
    for (uint32_t state = 0; state < FSM_STATES_ALLOCATION; state++)
        check_expect(checker,
                     checker->allocations_by_state[state] == fsm->allocations_by_state[state],
                     "INDEX allocations by state", "state", state);
    for (uint32_t state = 0; state < FSM_STATES_CHECKPOINT; state++)
        check_expect(checker,
                     checker->checkpoints_by_state[state] == fsm->checkpoints_by_state[state],
                     "INDEX checkpoints by state", "state", state);
    check_expect(checker, checker->active == 0,
                 "INDEX every active checkpoint is in its target's list", "missing",
                 checker->active);
    check_expect(checker, checker->giving == 0, "I30 who gives nodes up is listed as a victim",
                 "missing", checker->giving);
    checker->armed +=
        (fsm->pause != NULL && fsm->pause->view.until_ms != 0) + (fsm->drills->timer.position != 0);
    check_expect(checker, checker->armed == fsm->timers.count, "INDEX timers", "armed",
                 checker->armed);
    for (const struct list *at = fsm->collectable->next; at != fsm->collectable; at = at->next)
        collectable++;
    check_expect(checker, collectable == checker->collectable, "INDEX collectable list", "listed",
                 collectable);
    for (const struct past_request *at = fsm->past_request_oldest; at != NULL; at = at->next) {
        check_expect(checker, at->index <= fsm->index && at->at_ms <= fsm->now_ms,
                     "RANGE a request was answered in the past", at->request_id, at->index);
        past_requests++;
    }
    check_expect(checker,
                 past_requests == fsm->past_request_count &&
                     past_requests == fsm->past_request_map.count,
                 "INDEX past requests", "listed", past_requests);
    check_expect(checker, fsm->allocation_map.count == fsm->allocations.used,
                 "INDEX allocation map", "count", fsm->allocation_map.count);
    check_expect(checker, fsm->node_map.count == fsm->nodes.used, "INDEX node map", "count",
                 fsm->node_map.count);
}

/* What a command would stop the program for is a violation here. */
static void check_broken(void *context, const char *condition, uint64_t key)
{
    check_expect(context, false, "RECORD", condition, key);
}

/* The tables first: what follows compares sums that they make. */
size_t fsm_check(const struct fsm *fsm, void (*violation)(void *context, const char *text),
                 void *context)
{
    struct checker checker = {.fsm = fsm, .violation = violation, .context = context};

    CHECK(fsm != NULL);
    CHECK(violation != NULL);
    checker.tenants = check_calloc(fsm->tenant_count + 1, sizeof(*checker.tenants));
    checker.nodes = check_calloc(fsm->nodes.slot_end + 1, sizeof(*checker.nodes));
    checker.references = check_calloc(fsm->bases.slot_end + 1, sizeof(*checker.references));
    check_tables(&checker);
    check_bases(&checker);
    check_undeleted(&checker);
    check_names(&checker);
    check_sums(&checker);
    check_learned(&checker);
    check_expect(&checker, fsm_quota_counted(fsm), "I56 bytes of tenants", "", fsm->tenant_count);
    check_expect(&checker, fsm_pools_kept(fsm), "I55 sensitive ones in their pool", "", 0);
    check_expect(&checker, checker.hazard_sum_e12 == fsm->hazard_sum_e12, "INDEX sum of hazards",
                 "e12", fsm->hazard_sum_e12);
    check_expect(&checker, checker.hung == fsm->hung_count, "INDEX hung", "jobs", checker.hung);
    fsm_records_expect(fsm, &(struct record_report){check_broken, &checker});
    free(checker.tenants);
    free(checker.references);
    free(checker.nodes);
    return CHECKED_INVARIANTS;
}
