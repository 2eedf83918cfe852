/* Nodes for sensitive jobs that wait in a deep queue. See evaluator_claims.h. The same search
 * (most_urgent) is made twice: at the beginning of the cycle, to know whether anything is to be
 * counted at all, and at its end, among the jobs that what is there does not suffice for. */
#include "src/broker/decide/evaluator_claims.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fsm/pause.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/broker/broker.h"
#include "src/broker/decide/evaluator_actions.h"
#include "src/broker/health/nodes.h"

/* A job that could be claimed for: it says how many GPUs it needs, and who it is. */
static bool is_sensitive(const Ckpt__V1__WaitingJob *job)
{
    return job->sensitive && job->gpu_count > 0 && job->job_id[0] != '\0';
}

/* By whoever, also when nothing came of it: nodes that were won for it and went to others are not
 * won again at once. */
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

/* A job whose claim was refused is passed over for a while, so that another one has its turn. */
static bool refused_lately(const struct evaluator_claims *claims, const char *job_id)
{
    for (size_t i = 0; i < EVALUATOR_CLAIM_REFUSED_MAX; i++)
        if (claims->refused[i].until_ms > claims->cycle_ms &&
            strcmp(claims->refused[i].job_id, job_id) == 0)
            return true;
    return false;
}

/* The job has begun: under its own name, as far as the scheduler gives its allocation that name. */
static bool job_runs(const struct fsm *fsm, const char *job_id)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, job_id);

    return allocation != NULL &&
           (allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
            allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING ||
            allocation->state ==
                CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_CHECKPOINTING_TO_STOP);
}

/* Its report is older than a sensitive job's start, which may be its own: allocations need not have
 * the scheduler's name of the job. */
static bool may_have_started(const struct evaluator_claims *claims, const struct fsm *fsm,
                             const struct fsm_queue *queue)
{
    for (size_t i = 0; i < claims->start_count && i < EVALUATOR_CLAIM_STARTS_MAX; i++) {
        const struct fsm_allocation *allocation = fsm_allocation_find_slot(fsm, claims->starts[i]);

        if (allocation != NULL && allocation->state_since_ms >= queue->reported_at_ms &&
            strcmp(allocation->vcluster, queue->vcluster) == 0)
            return true;
    }
    return claims->start_count > EVALUATOR_CLAIM_STARTS_MAX;
}

/* The one with most to gain per GPU; NULL: none. */
static const Ckpt__V1__WaitingJob *most_urgent(
    const struct evaluator_claims *claims, const struct fsm *fsm, uint64_t now_ms,
    bool (*fits)(const void *context, const Ckpt__V1__WaitingJob *job), const void *context)
{
    const Ckpt__V1__WaitingJob *best = NULL;
    size_t looked_at = 0;

    for (size_t i = 0; i < fsm_queue_count(fsm) && looked_at < EVALUATOR_CLAIM_JOBS_MAX; i++) {
        struct fsm_queue queue;

        fsm_queue_at(fsm, i, &queue);
        if (!evaluator_queue_fresh(fsm, &queue, now_ms) || may_have_started(claims, fsm, &queue))
            continue;
        for (size_t j = 0; j < queue.waiting_count; j++) {
            const Ckpt__V1__WaitingJob *job = queue.waiting[j];

            if (!is_sensitive(job))
                continue;
            looked_at++;
            if ((best == NULL || evaluator_waiting_gain(job) > evaluator_waiting_gain(best)) &&
                fits(context, job) && !job_runs(fsm, job->job_id) &&
                !refused_lately(claims, job->job_id) && !claimed_lately(fsm, now_ms, job->job_id))
                best = job;
        }
    }
    return best;
}

/* At the beginning of a cycle nothing is counted yet. */
static bool any_job(const void *context, const Ckpt__V1__WaitingJob *job)
{
    (void)context;
    (void)job;
    return true;
}

static bool all_targets_up(const struct fsm *fsm)
{
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target != NULL && !target->available)
            return false;
    }
    return true;
}

/* What is kept from cycle to cycle stays (in_flight and what follows it); the rest begins anew. */
void evaluator_claims_begin(struct evaluator_claims *claims, const struct fsm *fsm,
                            const struct evaluator_cycle *cycle)
{
    memset(claims, 0, offsetof(struct evaluator_claims, in_flight));
    claims->cycle_ms = cycle->now_ms;
    claims->wanted = cycle->policy.pressure > EVALUATOR_DEEP_QUEUE &&
                     most_urgent(claims, fsm, cycle->now_ms, any_job, NULL) != NULL;
}

/* One that started before any report that still counts is of no interest. */
static void note_start(struct evaluator_claims *claims, const struct fsm *fsm,
                       const struct fsm_allocation *allocation)
{
    if (!allocation->sensitive ||
        allocation->state_since_ms + fsm_policy(fsm)->queue_max_age_ms < claims->cycle_ms)
        return;
    if (claims->start_count < EVALUATOR_CLAIM_STARTS_MAX)
        claims->starts[claims->start_count] = allocation->slot;
    if (claims->start_count <= EVALUATOR_CLAIM_STARTS_MAX)
        claims->start_count++;
}

/* Counts one running allocation, and keeps the GPUs of the largest ones that may be victims, in
 * falling order. */
void evaluator_claims_look(struct evaluator_claims *claims, const struct fsm *fsm,
                           const struct fsm_allocation *allocation)
{
    uint32_t gpus = allocation->gpu_count, slot = allocation->slot;
    uint64_t cost;

    if (!claims->wanted)
        return;
    claims->gpus += allocation->gpu_count;
    claims->nodes += allocation->node_count;
    note_start(claims, fsm, allocation);
    if (!fsm_destination_available(fsm, allocation) ||
        fsm_victim_outlook(fsm, allocation, &cost) != FSM_OK)
        return;
    for (size_t i = 0; i < FSM_VICTIMS_MAX; i++) {
        uint32_t smaller = claims->largest[i], its_slot = claims->slots[i];

        if (smaller >= gpus)
            continue;
        claims->largest[i] = gpus;
        claims->slots[i] = slot;
        gpus = smaller;
        slot = its_slot;
    }
}

/* An idle node that told how many GPUs it has counts with these; the others are counted as
 * nodes. */
bool evaluator_claims_count(struct evaluator_claims *claims, const struct fsm *fsm,
                            const struct nodes *nodes, const struct evaluator_cycle *cycle)
{
    uint32_t slots = claims->wanted ? fsm_node_slots(fsm) : 0;
    uint32_t end = claims->next_node + EVALUATOR_CLAIM_NODES_PER_TURN;

    for (; claims->next_node < end && claims->next_node < slots; claims->next_node++) {
        uint32_t gpus = nodes_gpus(nodes, claims->next_node);

        if (!evaluator_node_idle(cycle, fsm, claims->next_node))
            continue;
        claims->idle_gpus += gpus;
        claims->idle_nodes += gpus == 0;
    }
    return claims->next_node >= slots;
}

/* What is there: idle GPUs, and those that the most victims of one decision could give. */
struct supply {
    uint64_t idle, victims;
};

/* Idle GPUs do not suffice, and victims could give the rest. */
static bool is_lacking(const void *context, const Ckpt__V1__WaitingJob *job)
{
    const struct supply *supply = context;

    return job->gpu_count > supply->idle && job->gpu_count - supply->idle <= supply->victims;
}

/* Work that cannot be saved is not ended for a claim of our own. The destination is asked again at
 * the end of the cycle, since it may have gone down meanwhile. NULL: not the i-th. */
static const struct fsm_allocation *possible_victim(const struct evaluator_claims *claims,
                                                    const struct fsm *fsm, uint32_t i)
{
    const struct fsm_allocation *allocation =
        claims->largest[i] == 0 ? NULL : fsm_allocation_find_slot(fsm, claims->slots[i]);

    return allocation != NULL && fsm_destination_available(fsm, allocation) ? allocation : NULL;
}

/* At most max_victims allocations are stopped by one decision, so that the largest ones count. */
static struct supply supply_of(const struct evaluator_claims *claims, const struct fsm *fsm)
{
    struct supply supply = {0, 0};
    uint32_t max = fsm_policy(fsm)->max_victims;

    for (uint32_t i = 0, count = 0; count < max && i < FSM_VICTIMS_MAX; i++) {
        if (possible_victim(claims, fsm, i) == NULL)
            continue;
        supply.victims += claims->largest[i];
        count++;
    }
    supply.idle = claims->idle_gpus;
    if (claims->nodes > 0)
        supply.idle += (claims->idle_nodes * claims->gpus + claims->nodes - 1) / claims->nodes;
    return supply;
}

/* NULL: nobody. */
static const Ckpt__V1__WaitingJob *choose_job(const struct evaluator_claims *claims,
                                              const struct fsm *fsm,
                                              const struct evaluator_cycle *cycle,
                                              uint32_t *ret_gpus)
{
    const Ckpt__V1__WaitingJob *job;
    struct supply supply;

    if (!claims->wanted || claims->in_flight || fsm_pause(fsm) != NULL)
        return NULL;
    supply = supply_of(claims, fsm);
    job = most_urgent(claims, fsm, cycle->now_ms, is_lacking, &supply);
    if (job != NULL)
        *ret_gpus = (uint32_t)(job->gpu_count - supply.idle);
    return job;
}

/* A claim that never came to a decision (no leader, no room) is made again by a later cycle. */
static void claim_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct evaluator_claims *claims = data;
    struct evaluator_claims_refused *refused =
        &claims->refused[claims->refused_count % EVALUATOR_CLAIM_REFUSED_MAX];

    claims->in_flight = false;
    if (failed != NULL || outcome->status == FSM_OK)
        return;
    log_warning("claim_refused", "job=%s status=%s current=%" PRIu64 " limit=%" PRIu64,
                claims->asked.job_id, fsm_status_name(outcome->status), outcome->current,
                outcome->limit);
    *refused = claims->asked;
    claims->refused_count++;
}

/* Whom the state machine may choose from while a destination is down: a sensitive claim would have
 * others killed too. None: all. */
static size_t name_candidates(const struct evaluator_claims *claims, const struct fsm *fsm,
                              char *candidates[FSM_VICTIMS_MAX])
{
    size_t count = 0;

    for (uint32_t i = 0; i < FSM_VICTIMS_MAX && !all_targets_up(fsm); i++) {
        const struct fsm_allocation *allocation = possible_victim(claims, fsm, i);

        if (allocation != NULL)
            candidates[count++] = text_message(allocation->id);
    }
    return count;
}

/* By RequestPreemption, as a scheduler would: the state machine decides who yields. */
static void propose_claim(struct evaluator_claims *claims, const struct broker *broker,
                          char *job_id, uint32_t gpus)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestPreemptionRequest claim = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    struct consensus_status status;
    char request_id[64], *candidates[FSM_VICTIMS_MAX];

    replica_get_status(broker->replica, &status);
    /* not by the state's clock, which may stand still: one process leads in a term */
    snprintf(request_id, sizeof(request_id), "claim-%" PRIu64 "-%" PRIu64, status.term,
             ++claims->count);
    claim.request_id = command.request_id = request_id;
    claim.preemption_class = FSM_CLASS_MAX;
    claim.gpus_needed = gpus;
    claim.for_job = job_id;
    claim.n_candidates = name_candidates(claims, replica_fsm(broker->replica), candidates);
    claim.candidates = candidates;
    claim.reason = CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_PREEMPTION;
    command.request_preemption = &claim;
    claims->in_flight = true;
    replica_propose(broker->replica, &command, claim_done, claims);
}

/* At most one claim in a cycle: what it frees is counted before the next one is made. */
void evaluator_claims_end(struct evaluator_claims *claims, const struct broker *broker,
                          const struct evaluator_cycle *cycle)
{
    uint32_t gpus = 0;
    const Ckpt__V1__WaitingJob *job =
        choose_job(claims, replica_fsm(broker->replica), cycle, &gpus);

    if (job == NULL)
        return;
    log_info("claim", "job=%s gpus=%u pressure=%.3f", job->job_id, gpus, cycle->policy.pressure);
    snprintf(claims->asked.job_id, sizeof(claims->asked.job_id), "%s", job->job_id);
    claims->asked.until_ms = cycle->now_ms + EVALUATOR_CLAIM_REFUSED_MS;
    propose_claim(claims, broker, claims->asked.job_id, gpus);
}
