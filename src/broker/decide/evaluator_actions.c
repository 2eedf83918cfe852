/* See evaluator_actions.h. */
#include "src/broker/decide/evaluator_actions.h"

#include <math.h>

#include "src/base/check.h"
#include "src/broker/health/node_health.h"

/* Spares are looked for when the first row needs one: most cycles need none. */
void evaluator_actions_begin(struct evaluator_actions *actions)
{
    actions->looked = false;
    actions->spare_count = 0;
}

/* Of all its nodes: probability that at least one announced failure comes. */
static double alarm_probability(const struct node_health *health,
                                const struct fsm_allocation *allocation, uint32_t *ret_alarmed)
{
    double hazard = 0;

    *ret_alarmed = 0;
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        struct node_hazard of =
            node_health_hazard(health, allocation->nodes[i].node_slot, INFINITY, 0);

        if (!(of.alarm_h > 0))
            continue;
        (*ret_alarmed)++;
        hazard += of.alarm_h;
    }
    return -expm1(-hazard);
}

/* A move begins with a checkpoint of its own: nothing but the smallest interval, the value and the
 * tenant's limit, which are of checkpoints after which a job goes on, may stand against one. */
static bool guards_allow(enum eval_verdict verdict, uint32_t flags)
{
    if ((flags & EVAL_FLAG_ACTIVE) != 0)
        return false;
    return eval_verdict_fires(verdict) || verdict == EVAL_SKIP_VALUE ||
           verdict == EVAL_SKIP_MIN_INTERVAL || verdict == EVAL_SKIP_QUOTA;
}

/* What a failure that is announced costs a job that stays: what it has not saved, and then, until
 * it comes, checkpoints at the best interval under that hazard p/L and half an interval of work:
 * sqrt(2 c p L) in all, so that p times this is expected. */
static double lost_s(const struct eval_situation *situation, double lead_s)
{
    double pause_s = situation->gpus > 0 ? situation->cost_gpu_s / situation->gpus : INFINITY;

    if (!(situation->alarm_p > 0))
        return 0;
    return situation->age_s + sqrt(2 * pause_s * lead_s / situation->alarm_p);
}

/* What payoffs come from, in GPU-seconds. The value of a checkpoint is at most what it could save:
 * the work at stake times the probability that it is lost. */
bool evaluator_actions_situation(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                                 const struct fsm_allocation *allocation,
                                 const struct evaluator_scored *scored,
                                 struct eval_situation *ret_situation, uint32_t *ret_alarmed)
{
    const Ckpt__V1__Policy *policy = fsm_policy(fsm);
    const struct eval_view *view = scored->view;
    const struct eval_result *result = scored->result;
    uint32_t row = scored->row;
    double value_gpu_s =
        result->recompute_saved[row] + result->preemptability[row] + result->backlog_relief[row];
    double at_stake_gpu_s = view->gpus[row] * view->age_s[row];

    *ret_situation = (struct eval_situation){
        .gpus = view->gpus[row],
        .age_s = view->age_s[row],
        .cost_gpu_s =
            result->write_time[row] + result->compute_waste[row] + result->storage_cost[row],
        .guards_allow = guards_allow((enum eval_verdict)result->verdict[row], view->flags[row]),
        .restart_s = (double)policy->restart_cost_ms / 1e3,
        .down_s = (double)policy->node_down_after_ms / 1e3,
        .alarm_p = alarm_probability(cycle->health, allocation, ret_alarmed)};
    ret_situation->value_gpu_s =
        fmin(value_gpu_s,
             at_stake_gpu_s * fmax(ret_situation->alarm_p, result->failure_probability[row]));
    ret_situation->lost_s = lost_s(ret_situation, node_health_alarm_lead_s(cycle->health));
    return *ret_alarmed > 0;
}

/* READY, without a job, and without a sign that it is about to fail itself. */
bool evaluator_node_idle(const struct evaluator_cycle *cycle, const struct fsm *fsm, uint32_t slot)
{
    const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

    return node != NULL && node->state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY &&
           node->allocation_count == 0 && !node_health_hazard(cycle->health, slot, 1, 0).unwell;
}

/* From the highest slot down, so that the spare that is promised first has the lowest of them. */
static void look_for_spares(struct evaluator_actions *actions, const struct evaluator_cycle *cycle,
                            const struct fsm *fsm)
{
    actions->looked = true;
    for (uint32_t slot = fsm_node_slots(fsm); slot-- > 0;) {
        if (!evaluator_node_idle(cycle, fsm, slot))
            continue;
        actions->spares[actions->spare_count++] = slot;
        if (actions->spare_count == EVALUATOR_SPARES_MAX)
            return;
    }
}

/* S3-045, S2-028, S2-029. */
static bool spare_fits(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const struct fsm_node *node, bool near)
{
    return fsm_platform_may_move(fsm, allocation, node) &&
           (near ? fsm_domain_fits(fsm, allocation, node)
                 : fsm_domain_allows(fsm, allocation, node));
}

/* Brings so many on which the job could go on to the end, where they are promised next; false:
 * there are fewer. A cycle takes several turns of the loop: one that was taken since, or removed,
 * is forgotten. */
static bool line_up_spares(struct evaluator_actions *actions, const struct evaluator_cycle *cycle,
                           const struct fsm *fsm, const struct fsm_allocation *allocation,
                           uint32_t wanted)
{
    uint32_t fit[EVALUATOR_SPARES_MAX], fit_count = 0, kept = 0;

    for (uint32_t i = 2 * actions->spare_count; i-- > 0 && fit_count < wanted;) {
        bool near = i >= actions->spare_count; /* these are looked at first */
        uint32_t *spare = &actions->spares[i % actions->spare_count];

        if (*spare == UINT32_MAX)
            continue;
        if (!evaluator_node_idle(cycle, fsm, *spare)) {
            *spare = UINT32_MAX;
        } else if (spare_fits(fsm, allocation, fsm_node_find_slot(fsm, *spare), near)) {
            fit[fit_count++] = *spare;
            *spare = UINT32_MAX;
        }
    }
    for (uint32_t i = 0; i < actions->spare_count; i++)
        if (actions->spares[i] != UINT32_MAX)
            actions->spares[kept++] = actions->spares[i];
    for (uint32_t i = fit_count; i-- > 0;)
        actions->spares[kept++] = fit[i];
    actions->spare_count = kept;
    return fit_count == wanted;
}

/* What is cheap to refuse comes first. A spare is promised when payoffs have decided, so that
 * rows which stay take none. */
bool evaluator_actions_move(struct evaluator_actions *actions, const struct evaluator_cycle *cycle,
                            const struct fsm *fsm, const struct fsm_allocation *allocation,
                            const struct evaluator_scored *scored, const char **ret_spare)
{
    struct eval_situation situation;
    struct eval_payoffs payoffs;
    uint32_t alarmed;

    if (cycle->health == NULL || !(scored->view->alarm_h[scored->row] > 0) ||
        allocation->sensitive || /* F-008: an operator moves it */
        allocation->requeue_policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER ||
        fsm_move_too_soon(fsm, allocation) ||
        !evaluator_actions_situation(cycle, fsm, allocation, scored, &situation, &alarmed))
        return false;
    if (!actions->looked)
        look_for_spares(actions, cycle, fsm);
    situation.spare = line_up_spares(actions, cycle, fsm, allocation, alarmed);
    eval_payoffs(&situation, &payoffs);
    if (payoffs.best != EVAL_ACTION_MIGRATE)
        return false;
    actions->situation = situation;
    *ret_spare = fsm_node_at(fsm, actions->spares[actions->spare_count - 1])->id;
    actions->spare_count -= alarmed;
    return true;
}
