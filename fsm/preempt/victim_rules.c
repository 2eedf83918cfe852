/* Who may be a victim, and what stopping it costs (P-002, P-010..P-014, P-060, P-070, I31, I32).
 *
 * Flow     check() goes through the rules in the order of precedence; cost() adds the checkpoint,
 *          the work that is lost without one, and what the walltime says. victims.c makes sets of
 *          them, placement advice shows them.
 * Units    GPU-milliseconds.
 */
#include "fsm/core/registry.h"
#include "fsm/ends.h"
#include "fsm/hang.h"
#include "fsm/job/job.h"

#define ENDS(name)   CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define REASON(name) CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_##name
#define KIND(name)   CKPT__V1__VCLUSTER_KIND__VCLUSTER_KIND_##name
#define WAY(name)    CKPT__V1__STOP_WAY__STOP_WAY_##name

enum { WALLTIME_LATE_PERCENT = 90, WALLTIME_EARLY_PERCENT = 10, NONE_PROTECTED_CLASS = 7 };

/* ---- what stopping one costs ---- */

/* Measured. While nothing was: computed from the size and the bandwidth per node, or what its
 * application told if that is longer. */
static uint64_t victim_write_ms(const struct fsm *fsm, const struct fsm_allocation *view)
{
    uint64_t bytes_per_s = view->write_bytes_per_s != 0 ? view->write_bytes_per_s
                                                        : fsm->policy.default_write_bytes_per_s;

    CHECK(view->id != NULL);
    if (view->write_estimate_ms != 0)
        return view->write_estimate_ms;
    bytes_per_s = fsm_max(fsm_multiply(bytes_per_s, view->node_count), 1);
    return fsm_max((uint64_t)((__uint128_t)view->size_estimate_bytes * 1000 / bytes_per_s),
                   fsm_told_write_ms(&fsm->policy, view));
}

/* c of the model: how long a checkpoint holds the GPUs. */
static uint64_t victim_stall_ms(const struct fsm *fsm, const struct fsm_allocation *view)
{
    uint64_t write_ms = victim_write_ms(fsm, view);

    CHECK(view->id != NULL);
    return fsm_add((uint64_t)((__uint128_t)write_ms * fsm->policy.stall_fraction_ppm / FSM_PPM),
                   fsm->policy.quiesce_ms);
}

/* Not whether it may be a victim: one that cannot is terminated, and costs what is at stake. One
 * that did not answer the last time is not waited for again (S1-033). */
bool fsm_victim_can_checkpoint(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return !fsm_checkpoints_nothing(&allocation->view) &&
           allocation->view.state != ENDS(STARTING) &&
           fsm_destination_available(fsm, &allocation->view);
}

/* Kill-and-yield: with less work at stake than a checkpoint takes, going back to the last one is
 * cheaper and faster. */
bool fsm_victim_needs_no_checkpoint(const struct fsm *fsm, const struct allocation *allocation)
{
    const struct fsm_allocation *view = &allocation->view;

    CHECK(allocation->view.id != NULL);
    return view->strategy == CKPT__V1__STRATEGY__STRATEGY_AUTO && view->last_complete_id != 0 &&
           view->state == ENDS(RUNNING) && view->active_checkpoint_id == 0 &&
           fsm_since(fsm, view->last_complete_snapshot_ms) < victim_stall_ms(fsm, view);
}

/* Without a checkpoint where nothing or too little is at stake, and where a part has finished or
 * nobody answers, so that none can be made. */
Ckpt__V1__StopWay fsm_victim_stop_way(const struct fsm *fsm, const struct fsm_allocation *view)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    bool can = fsm_victim_can_checkpoint(fsm, allocation);

    CHECK(view->id != NULL);
    if (!fsm_allocation_runs(allocation) || view->terminating)
        return WAY(UNSPECIFIED);
    if (view->state == ENDS(STARTING))
        return WAY(NOT_BEGUN);
    if (can && fsm_victim_needs_no_checkpoint(fsm, allocation))
        return WAY(LESS_AT_STAKE);
    if (fsm_level(fsm) >= 2 && view->state == ENDS(CHECKPOINTING_TO_STOP) &&
        fsm_verify_held(fsm, allocation) != NULL)
        return WAY(LESS_AT_STAKE); /* it stands still, saved, and that is being read again */
    if (can)
        return fsm_part_finished(fsm, view) ? WAY(PART_FINISHED) : WAY(CHECKPOINT);
    if (view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE)
        return WAY(STRATEGY_NONE);
    return fsm_destination_available(fsm, view) ? WAY(UNRESPONSIVE) : WAY(STORAGE_AWAY);
}

/* A manual job is asked and may take all of its timeout; a job of strategy none writes nothing, nor
 * is one expected to that does not answer. */
static uint64_t victim_checkpoint_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    if (fsm_checkpoints_nothing(&allocation->view))
        return 0;
    if (allocation->view.strategy == CKPT__V1__STRATEGY__STRATEGY_MANUAL) /* P-012 */
        return fsm_checkpoint_timeout_ms(fsm, allocation);
    return victim_write_ms(fsm, &allocation->view);
}

/* P-011..P-014: the checkpoint, what is lost without one, and the walltime: nearly done jobs are
 * dear, young ones cheap. */
uint64_t fsm_victim_cost(const struct fsm *fsm, const struct allocation *allocation, bool shrinks)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t gpus = fsm_max(fsm_allocation_weight(fsm, view).gpus, 1);
    uint64_t cost = fsm_multiply(victim_checkpoint_ms(fsm, allocation), gpus);
    uint64_t used_ms = fsm_since(fsm, view->started_at_ms);

    CHECK(allocation->view.id != NULL);
    if (view->state == ENDS(STARTING)) /* it has computed nothing yet */
        return 0;
    if (!fsm_victim_can_checkpoint(fsm, allocation) || fsm_part_finished(fsm, view))
        cost = fsm_add(cost, fsm_allocation_age_gpu_ms(fsm, allocation));
    else if (!shrinks && fsm_victim_needs_no_checkpoint(fsm, allocation))
        cost = fsm_min(cost, fsm_allocation_age_gpu_ms(fsm, allocation));
    if (view->walltime_ms == 0 || shrinks)
        return cost;
    if (used_ms > view->walltime_ms / 100 * WALLTIME_LATE_PERCENT)
        return fsm_multiply(fsm_add(cost, 1), 16);
    return used_ms < view->walltime_ms / 100 * WALLTIME_EARLY_PERCENT ? cost / 2 : cost;
}

/* ---- who may be one ---- */

/* Work since it came back must be worth more than stopping it again: the checkpoint and the restart
 * (min_progress). */
static uint64_t victim_protected_ms(const struct fsm *fsm, const struct allocation *allocation)
{
    CHECK(allocation->view.id != NULL);
    return fsm_add(victim_stall_ms(fsm, &allocation->view), fsm->policy.restart_cost_ms);
}

/* A job that is nearly done frees its nodes soon by itself. One that was preempted and came back is
 * protected until it has made some progress, or it would be stopped again and again and never end.
 * Shrinking is no stop, and a sensitive claim does not wait for progress. */
static enum fsm_status victim_check_time(const struct fsm *fsm, const struct victim_search *asked,
                                         const struct allocation *allocation, bool shrinks,
                                         uint64_t *ret_current, uint64_t *ret_limit)
{
    const struct fsm_allocation *view = &allocation->view;
    uint64_t end_ms = fsm_add(view->started_at_ms, view->walltime_ms);

    CHECK(asked->acting_class <= FSM_CLASS_MAX);
    CHECK(allocation->view.id != NULL);
    *ret_current = end_ms > fsm->now_ms ? end_ms - fsm->now_ms : 0;
    *ret_limit = fsm->policy.near_completion_ms;
    if (view->walltime_ms != 0 && *ret_current < *ret_limit)
        return FSM_NEAR_COMPLETION;
    if (view->resumed_at_ms == 0 || shrinks || asked->reason == REASON(SENSITIVE))
        return FSM_OK;
    *ret_current = fsm_since(fsm, view->resumed_at_ms);
    *ret_limit = victim_protected_ms(fsm, allocation);
    return *ret_current <= *ret_limit ? FSM_JUST_RESUMED : FSM_OK;
}

/* The kind is asked as well: a job that an earlier version took as no more than of such a vCluster
 * is in snapshots and backups as it was. */
static bool victim_sensitive(const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return view->sensitive || view->vcluster_kind == KIND(SENSITIVE);
}

/* P-010, P-060, P-070, I31, I32: OK when it may be a victim. What lasts is asked before what
 * passes, so that the refusal of a single candidate says what a repeat would not change. */
enum fsm_status fsm_victim_check(const struct fsm *fsm, const struct victim_search *asked,
                                 const struct allocation *allocation, bool shrinks,
                                 uint64_t *ret_current, uint64_t *ret_limit)
{
    const struct fsm_allocation *view = &allocation->view;
    bool none = view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE;
    bool storage = fsm_destination_available(fsm, view);
    enum fsm_status status;
    bool gives;

    CHECK(allocation->view.id != NULL);
    *ret_current = view->state;
    *ret_limit = 0;
    if (!fsm_allocation_runs(allocation))
        return FSM_ALLOCATION_ENDED;
    if (victim_sensitive(view))
        return FSM_SENSITIVE;
    *ret_current = view->node_count - view->borrowed_count;
    *ret_limit = view->node_count;
    if (view->vcluster_kind == KIND(SERVICE) && !shrinks && *ret_current > 0)
        return FSM_BORROWED_ONLY; /* one that shrinks gives back what it borrowed */
    *ret_current = view->preemption_class;
    *ret_limit = asked->acting_class;
    if (view->preemption_class >= asked->acting_class)
        return FSM_CLASS_TOO_LOW;
    if (none && view->preemption_class >= NONE_PROTECTED_CLASS)
        return FSM_NOT_CHECKPOINTABLE;
    status = victim_check_time(fsm, asked, allocation, shrinks, ret_current, ret_limit);
    if (status != FSM_OK)
        return status;
    *ret_current = view->state;
    *ret_limit = 0;
    if (view->terminating || view->leaving)
        return FSM_CHECKPOINTING;
    if (view->state == ENDS(STARTING)) /* nothing is written for it */
        return FSM_OK;
    gives = view->state == ENDS(CHECKPOINTING_TO_STOP) || (shrinks && view->preemption_id != 0);
    if (gives && (storage || !asked->forced)) /* one that waits in an outage can still be forced */
        return FSM_CHECKPOINTING;
    return none || storage || asked->forced ? FSM_OK : FSM_STORAGE_UNAVAILABLE;
}

/* ---- for others ---- */

/* The rules of check() that no class, force or time lifts; a service that can shrink gives back
 * what it borrowed. */
bool fsm_checkpoints_nothing(const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    return view->unresponsive || fsm_hung(view) ||
           view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE;
}

bool fsm_victim_never(const struct fsm_allocation *view)
{
    CHECK(view->id != NULL);
    if (victim_sensitive(view) || view->preemption_class >= FSM_CLASS_MAX)
        return true;
    if (view->vcluster_kind == KIND(SERVICE) && view->reactive_min_nodes == 0 &&
        view->node_count > view->borrowed_count)
        return true;
    return view->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE &&
           view->preemption_class >= NONE_PROTECTED_CLASS;
}

/* As the strongest request would see it that is no reclaim: by the highest class, without force. */
enum fsm_status fsm_victim_outlook(const struct fsm *fsm, const struct fsm_allocation *view,
                                   uint64_t *ret_cost_gpu_ms)
{
    const struct allocation *allocation = allocation_at(fsm, view->slot);
    struct victim_search asked = {.reason = REASON(PRIORITY), .acting_class = FSM_CLASS_MAX};
    uint64_t current;
    uint64_t limit;

    CHECK(ret_cost_gpu_ms != NULL);
    CHECK(view->id != NULL);
    *ret_cost_gpu_ms = fsm_victim_cost(fsm, allocation, false);
    return fsm_victim_check(fsm, &asked, allocation, false, &current, &limit);
}

/* The evaluator's own stop: no class is known but the highest. */
bool fsm_victim_allowed(const struct fsm *fsm, const struct allocation *allocation)
{
    uint64_t ignored;

    CHECK(allocation->view.id != NULL);
    return fsm_victim_outlook(fsm, &allocation->view, &ignored) == FSM_OK;
}
