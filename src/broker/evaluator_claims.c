/* See evaluator_claims.h. */
#include "src/broker/evaluator_claims.h"

#include <string.h>

#include "src/broker/evaluator_actions.h"

static bool is_sensitive(const Ckpt__V1__WaitingJob *job)
{
    return job->sensitive && job->gpu_count > 0 && job->job_id[0] != '\0';
}

/* By whoever, also when nothing came of it: nodes that were won for it and went to others are not won again at once. */
static bool claimed_lately(const struct fsm *fsm, uint64_t now_ms, const char *job_id)
{
    const struct fsm_preemption *at = fsm_preemption_next(fsm, 0);

    for (; at != NULL; at = fsm_preemption_next(fsm, at->id)) {
        bool lately = at->asked_at_ms + EVALUATOR_CLAIM_AGAIN_MS > now_ms ||
                      at->state == CKPT__V1__PREEMPTION_STATE__PREEMPTION_STATE_WAITING;

        if (lately && strcmp(at->request->for_job, job_id) == 0)
            return true;
    }
    return false;
}

/* The one with most to gain per GPU; NULL: none. */
static const Ckpt__V1__WaitingJob *most_urgent(const struct fsm *fsm, uint64_t now_ms,
                                               bool (*fits)(const void *context,
                                                            const Ckpt__V1__WaitingJob *job),
                                               const void *context)
{
    const Ckpt__V1__WaitingJob *best = NULL;
    size_t looked_at = 0;

    for (size_t i = 0; i < fsm_queue_count(fsm) && looked_at < EVALUATOR_CLAIM_JOBS_MAX; i++) {
        struct fsm_queue queue;

        fsm_queue_at(fsm, i, &queue);
        if (!evaluator_queue_fresh(fsm, &queue, now_ms))
            continue;
        for (size_t j = 0; j < queue.waiting_count; j++) {
            const Ckpt__V1__WaitingJob *job = queue.waiting[j];

            if (!is_sensitive(job))
                continue;
            looked_at++;
            if ((best == NULL || evaluator_waiting_gain(job) > evaluator_waiting_gain(best)) &&
                fits(context, job) && !claimed_lately(fsm, now_ms, job->job_id))
                best = job;
        }
    }
    return best;
}

static bool any(const void *context, const Ckpt__V1__WaitingJob *job)
{
    (void)context;
    (void)job;
    return true;
}

static bool all_targets_up(const struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_at(fsm, slot);

        if (target != NULL && !target->available)
            return false;
    }
    return true;
}

void evaluator_claims_begin(struct evaluator_claims *claims, const struct fsm *fsm,
                            const struct evaluator_cycle *cycle)
{
    *claims = (struct evaluator_claims){
        .wanted = cycle->policy.pressure > EVALUATOR_DEEP_QUEUE && all_targets_up(fsm) &&
                  most_urgent(fsm, cycle->now_ms, any, NULL) != NULL};
}

void evaluator_claims_look(struct evaluator_claims *claims, const struct fsm *fsm,
                           const struct fsm_allocation *allocation)
{
    uint32_t gpus = allocation->gpu_count;
    uint64_t cost;

    if (!claims->wanted)
        return;
    claims->gpus += allocation->gpu_count;
    claims->nodes += allocation->node_count;
    if (fsm_victim_hint(fsm, allocation, &cost) != FSM_OK)
        return;
    for (size_t i = 0; i < FSM_VICTIMS_MAX; i++) {
        uint32_t smaller = claims->largest[i];

        if (smaller >= gpus)
            continue;
        claims->largest[i] = gpus;
        gpus = smaller;
    }
}

/* What is there: idle GPUs, and those that the most victims of one decision could give. */
struct supply {
    uint64_t idle, victims;
};

static bool is_lacking(const void *context, const Ckpt__V1__WaitingJob *job)
{
    const struct supply *supply = context;

    return job->gpu_count > supply->idle && job->gpu_count - supply->idle <= supply->victims;
}

static struct supply supply_of(const struct evaluator_claims *claims, const struct fsm *fsm,
                               const struct evaluator_cycle *cycle)
{
    struct supply supply = {0, 0};
    uint32_t max = fsm_policy(fsm)->max_victims;
    uint64_t idle = 0;

    for (uint32_t i = 0; i < max && i < FSM_VICTIMS_MAX; i++)
        supply.victims += claims->largest[i];
    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++)
        idle += evaluator_node_idle(cycle, fsm, slot);
    if (claims->nodes > 0)
        supply.idle = (idle * claims->gpus + claims->nodes - 1) / claims->nodes;
    return supply;
}

const Ckpt__V1__WaitingJob *evaluator_claims_choose(const struct evaluator_claims *claims,
                                                    const struct fsm *fsm,
                                                    const struct evaluator_cycle *cycle,
                                                    uint32_t *ret_gpus)
{
    const Ckpt__V1__WaitingJob *job;
    struct supply supply;

    if (!claims->wanted || !all_targets_up(fsm))
        return NULL;
    supply = supply_of(claims, fsm, cycle);
    job = most_urgent(fsm, cycle->now_ms, is_lacking, &supply);
    if (job != NULL)
        *ret_gpus = (uint32_t)(job->gpu_count - supply.idle);
    return job;
}
