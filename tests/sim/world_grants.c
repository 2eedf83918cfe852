/* The order in which an outage's end lets checkpoints go on, and the time that one has which stops
 * a victim: L3, L4.
 *
 * Flow     what was paused is REQUESTED again when its destination is back, with what would be lost
 *          now; grants take it in that order, before all that was not paused. Whoever has a
 *          deadline may be granted beside them, beyond the budget. The leader chooses by the state
 *          that it has then; what befalls the chosen before its grant is applied was not for it to
 *          know.
 * Shapes   one record per job: at most one of its checkpoints is active.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/weight.h"
#include "src/base/check.h"
#include "src/broker/dispatch/dispatcher_internal.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name

/* It was paused, and waits for its grant. */
struct resumed {
    uint64_t id; /* 0: none does */
    uint64_t entry;
    uint32_t target_slot;
    uint64_t saved_gpu_ms;
    bool held; /* since then it could not be granted for a while */
};

/* As of the last entry. */
struct job_seen {
    uint64_t snapshot_ms;
    uint64_t weight_gpus;
};

/* The attempt that was under way last, and its timeout as it was dispatched, or first seen. */
struct attempt_seen {
    uint64_t id;
    uint32_t attempt;
    uint64_t timeout_ms;
};

/* One that stops or shrinks a victim: since the outage that paused it last, since the victim was
 * taken last. */
struct stop {
    /* of the state's clock, as all of these; before, it may have been to go on */
    uint64_t taken_ms;
    uint64_t id; /* 0: no attempt of it yet */
    uint32_t paused;
    uint64_t begins_ms;   /* its first attempt was dispatched, or became a stop */
    uint64_t timeout_ms;  /* of that attempt */
    uint64_t deferred_ms; /* before that attempt */
};

struct grant_checks {
    struct stop stops[WORLD_JOBS_MAX];
    struct attempt_seen attempts[WORLD_JOBS_MAX];
    struct job_seen seen[WORLD_JOBS_MAX];
    struct resumed jobs[WORLD_JOBS_MAX];
    bool updated[WORLD_JOBS_MAX];  /* in this entry */
    uint64_t late[WORLD_JOBS_MAX]; /* had a deadline as the leader could choose last; 0: none */
    uint64_t entry;                /* counts them */
    uint64_t budgets[WORLD_TARGETS_MAX],
        budget_entries[WORLD_TARGETS_MAX]; /* and when it changed */
};

void grants_init(struct world *world)
{
    world->grants = check_calloc(1, sizeof(*world->grants));
}

void grants_close(struct world *world)
{
    free(world->grants);
}

/* What the job would compute again. */
static uint64_t age_gpu_ms(const struct job_seen *job, uint64_t now_ms)
{
    return now_ms <= job->snapshot_ms ? 0 : (now_ms - job->snapshot_ms) * job->weight_gpus;
}

/* By a later command of the same entry. */
static bool updated_again(const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const Ckpt__V1__Event *later = event;
    bool gap;

    while ((later = fsm_event_after(fsm, later->sequence, &gap)) != NULL)
        if (later->kind == EVENT(ALLOCATION_UPDATED) &&
            strcmp(later->allocation_id, event->allocation_id) == 0)
            return true;
    return false;
}

/* The entry may have moved its snapshot and its GPUs, each before that or after. */
static bool may_be_at_stake(const struct job_seen *before, const struct job_seen *after,
                            uint64_t now_ms, uint64_t gpu_ms)
{
    const struct job_seen mixed[] = {*before,
                                     *after,
                                     {before->snapshot_ms, after->weight_gpus},
                                     {after->snapshot_ms, before->weight_gpus}};

    for (size_t i = 0; i < sizeof(mixed) / sizeof(mixed[0]); i++)
        if (age_gpu_ms(&mixed[i], now_ms) == gpu_ms)
            return true;
    return false;
}

static void resumed_note(struct world *world, const struct fsm *fsm, unsigned number,
                         const Ckpt__V1__Event *event)
{
    uint64_t checkpoint_id = event->checkpoint_id;
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);
    const struct fsm_allocation *allocation =
        checkpoint == NULL ? NULL : fsm_allocation_find_slot(fsm, checkpoint->allocation_slot);
    const struct job_seen *before = &world->grants->seen[number];
    struct job_seen after;

    if (allocation == NULL)
        return;
    world->grants->jobs[number] =
        (struct resumed){checkpoint_id, world->grants->entry, checkpoint->target_slot,
                         checkpoint->recompute_saved_gpu_ms, false};
    if (checkpoint->state != CHECKPOINT(REQUESTED))
        return; /* more of the entry followed, which may also be what the job has done since */
    if (world->grants->updated[number] && updated_again(fsm, event))
        return; /* on nodes that it had neither before the entry nor has after it */
    after = (struct job_seen){allocation->last_complete_snapshot_ms,
                              fsm_allocation_weight(fsm, allocation).gpus};
    if (!may_be_at_stake(before, &after, checkpoint->state_since_ms,
                         checkpoint->recompute_saved_gpu_ms))
        world_violation(world, "L3",
                        "checkpoint %" PRIx64 " of %s goes on with %" PRIu64
                        " GPU ms at stake, now it is %" PRIu64,
                        checkpoint_id, allocation->id, checkpoint->recompute_saved_gpu_ms,
                        age_gpu_ms(before, checkpoint->state_since_ms));
}

/* What was for the last safe slot is a stopping request's as soon as one meets it, and as late as
 * before. */
bool grants_has_deadline(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint)
{
    const struct fsm_allocation *allocation =
        fsm_allocation_find_slot(fsm, checkpoint->allocation_slot);

    if (!fsm_grant_urgent(checkpoint))
        return false;
    if (checkpoint->purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT)
        return true;
    return allocation != NULL && allocation->walltime_ms != 0 &&
           (checkpoint->purpose == CKPT__V1__PURPOSE__PURPOSE_WALLTIME ||
            checkpoint->after != CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE);
}

/* Since that entry, or by an earlier command of this one. */
static bool budget_changed(const struct grant_checks *checks, const struct fsm *fsm, uint32_t slot,
                           uint64_t entry)
{
    const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

    return checks->budget_entries[slot] > entry || target == NULL ||
           target->budget_bytes_per_s != checks->budgets[slot];
}

/* The leader chose among all that waited since the destination is back. One that was held, or a
 * budget that changed, may have been otherwise when it did. Who had a deadline then is granted
 * beside the others, also when it has none any more as the grant is applied. */
static void order_check(struct world *world, const struct fsm *fsm, unsigned number,
                        uint64_t checkpoint_id)
{
    struct grant_checks *checks = world->grants;
    const struct fsm_checkpoint *granted = fsm_checkpoint_find(fsm, checkpoint_id);
    const struct resumed *own = &checks->jobs[number];

    if (granted == NULL || checks->late[number] == checkpoint_id)
        return;
    for (unsigned job = 0; job < world->job_count; job++) {
        const struct resumed *other = &checks->jobs[job];
        bool same = own->id == checkpoint_id && own->entry == other->entry;

        if (job == number || other->id == 0 || other->target_slot != granted->target_slot ||
            other->held || budget_changed(checks, fsm, other->target_slot, other->entry) ||
            (own->id == checkpoint_id && !same))
            continue;
        if (!same || own->saved_gpu_ms < other->saved_gpu_ms ||
            (own->saved_gpu_ms == other->saved_gpu_ms && own->id > other->id))
            world_violation(world, "L3",
                            "checkpoint %" PRIx64 " is granted (%" PRIu64
                            " GPU ms at stake%s), %" PRIx64 " of %s (%" PRIu64
                            ") waits since the outage",
                            checkpoint_id, granted->recompute_saved_gpu_ms,
                            own->id == checkpoint_id ? "" : ", not paused", other->id,
                            world->jobs[job].id, other->saved_gpu_ms);
    }
}

/* A preemption takes the job, or it is to stop, or goes on. That one which shrinks for a preemption
 * is to stop for another reason gives it no more time: who waits, waits still. */
static bool stop_begins_anew(const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, event->allocation_id);

    if (event->kind != EVENT(ALLOCATION_STATE))
        return event->kind == EVENT(PREEMPTION);
    return event->new_state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP ||
           allocation == NULL || allocation->preemption_id == 0;
}

void grants_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct world_job *job = job_find(world, event->allocation_id);
    struct resumed *resumed;

    if (job != NULL && stop_begins_anew(fsm, event))
        world->grants->stops[job - world->jobs] = (struct stop){.taken_ms = event->at_ms};
    if (job != NULL && event->kind == EVENT(ALLOCATION_UPDATED))
        world->grants->updated[job - world->jobs] = true;
    if (event->kind != EVENT(CHECKPOINT_STATE) || job == NULL)
        return;
    resumed = &world->grants->jobs[job - world->jobs];
    if (event->new_state == CHECKPOINT(DISPATCHED))
        order_check(world, fsm, (unsigned)(job - world->jobs), event->checkpoint_id);
    if (resumed->id == event->checkpoint_id)
        resumed->id = 0;
    if (event->old_state == CHECKPOINT(PAUSED) && event->new_state == CHECKPOINT(REQUESTED))
        resumed_note(world, fsm, (unsigned)(job - world->jobs), event);
}

static uint64_t attempt_timeout_ms(struct attempt_seen *seen,
                                   const struct fsm_checkpoint *checkpoint)
{
    if (seen->id != checkpoint->id || seen->attempt != checkpoint->attempt)
        *seen = (struct attempt_seen){checkpoint->id, checkpoint->attempt, checkpoint->timeout_ms};
    return seen->timeout_ms;
}

/* L4: all attempts, late reports and an extension share one and a half timeouts of the first one,
 * and what was put off meanwhile. */
static void stop_check(struct world *world, const struct fsm *fsm, unsigned number,
                       const struct fsm_allocation *allocation)
{
    struct stop *stop = &world->grants->stops[number];
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(fsm, allocation->active_checkpoint_id);
    uint64_t timeout_ms, most_ms;

    if (checkpoint == NULL ||
        (checkpoint->state != CHECKPOINT(DISPATCHED) && checkpoint->state != CHECKPOINT(WRITING)))
        return;
    timeout_ms = attempt_timeout_ms(&world->grants->attempts[number], checkpoint);
    if (checkpoint->purpose != CKPT__V1__PURPOSE__PURPOSE_PREEMPT && allocation->preemption_id == 0)
        return; /* a preemption waits for no other one */
    if (stop->id != checkpoint->id || stop->paused != checkpoint->paused_count)
        *stop = (struct stop){stop->taken_ms,
                              checkpoint->id,
                              checkpoint->paused_count,
                              checkpoint->dispatched_at_ms > stop->taken_ms
                                  ? checkpoint->dispatched_at_ms
                                  : stop->taken_ms,
                              timeout_ms,
                              checkpoint->deferred_before_ms};
    most_ms = stop->timeout_ms + stop->timeout_ms / 2 + checkpoint->deferred_ms - stop->deferred_ms;
    if (checkpoint->deadline_ms > stop->begins_ms + most_ms &&
        checkpoint->deadline_ms > checkpoint->dispatched_at_ms + 1) /* too late, and ends at once */
        world_violation(world, "L4",
                        "checkpoint %" PRIx64 " stops or shrinks %s since %" PRIu64
                        " ms, attempt %u may last %" PRIu64 " ms from then, of %" PRIu64,
                        checkpoint->id, allocation->id, stop->begins_ms, checkpoint->attempt,
                        checkpoint->deadline_ms - stop->begins_ms, most_ms);
}

void grants_applied(struct world *world, const struct fsm *fsm)
{
    struct grant_checks *checks = world->grants;

    for (unsigned job = 0; job < world->job_count; job++) {
        const struct fsm_allocation *allocation = world->found[job];
        checks->updated[job] = false;
        if (allocation == NULL)
            continue;
        stop_check(world, fsm, job, allocation);
        checks->jobs[job].held |=
            allocation->terminating || allocation->leaving ||
            allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING;
        checks->seen[job] = (struct job_seen){allocation->last_complete_snapshot_ms,
                                              fsm_allocation_weight(fsm, allocation).gpus};
    }
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm) && slot < WORLD_TARGETS_MAX; slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        uint64_t budget = target == NULL ? 0 : target->budget_bytes_per_s;

        if (budget != checks->budgets[slot])
            checks->budget_entries[slot] = checks->entry;
        checks->budgets[slot] = budget;
    }
    checks->entry++;
}

/* A leader chooses by its newest state, of its own term, unless a grant is on its way: until that
 * is applied it stays with what it knew. */
void grants_leader_applied(struct world_member *member)
{
    struct world *world = member->world;
    const struct raft *raft = &member_consensus(member)->raft;
    const struct dispatcher *dispatcher = member->broker.dispatcher;
    const struct fsm *fsm = member_fsm(member);
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    if (raft->state != RAFT_LEADER || summary.applied_term != raft->current_term ||
        dispatcher == NULL || dispatcher->grant_in_flight)
        return;
    for (unsigned job = 0; job < world->job_count; job++) {
        const struct fsm_allocation *allocation = world->found[job];
        const struct fsm_checkpoint *checkpoint =
            allocation == NULL ? NULL : fsm_checkpoint_find(fsm, allocation->active_checkpoint_id);
        bool late = checkpoint != NULL && grants_has_deadline(fsm, checkpoint);

        world->grants->late[job] = late ? checkpoint->id : 0;
    }
}
