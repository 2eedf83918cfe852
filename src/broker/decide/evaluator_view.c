/* From the replicated state to what the model reads, and back to integers. See evaluator_view.h. In
 * the order of the file: what is the same for every job of a cycle, one row, how long a row holds,
 * rows as views of their own, terms as integers. */
#include "src/broker/decide/evaluator_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/hang.h"
#include "fsm/weight.h"
#include "src/base/check.h"
#include "src/broker/explain/translate.h"
#include "src/broker/health/node_health.h"
#include "src/broker/health/nodes.h"

#define HORIZON_CLAMP 0.7
#define MS_PER_MONTH  (30.0 * 86400 * 1000)
#define MICRO         1e-6

/* ---- the same for every job ---- */

/* A job that waits, as the curves need it. */
struct waiting_item {
    double gain_per_gpu_s;
    double gpus;
    uint32_t preemption_class;
};

static int by_gain_falling(const void *left, const void *right)
{
    const struct waiting_item *a = left, *b = right;

    return (a->gain_per_gpu_s < b->gain_per_gpu_s) - (a->gain_per_gpu_s > b->gain_per_gpu_s);
}

/* Sums over the fresh queue reports. */
struct queue_sums {
    double queued_gpu_ms, running_gpu_ms;
    double urgency_sum;
    size_t count; /* waiting jobs */
    size_t capacity;
    struct waiting_item *items;
};

/* A scheduler that says nothing of urgency means 1. */
static double urgency_of(const Ckpt__V1__WaitingJob *job)
{
    return job->urgency_milli == 0 ? 1 : job->urgency_milli / 1e3;
}

/* Expected remaining wait = the wait so far, at most an hour: all that a queue report tells. */
double evaluator_waiting_gain(const Ckpt__V1__WaitingJob *job)
{
    uint64_t wait_ms =
        job->waited_ms < EVALUATOR_WAIT_MAX_MS ? job->waited_ms : EVALUATOR_WAIT_MAX_MS;

    return urgency_of(job) * (double)wait_ms / 1e3;
}

/* A report that is dated ahead of the state's clock is fresh. */
bool evaluator_queue_fresh(const struct fsm *fsm, const struct fsm_queue *queue, uint64_t now_ms)
{
    return now_ms <= queue->reported_at_ms ||
           now_ms - queue->reported_at_ms <= fsm_policy(fsm)->queue_max_age_ms;
}

static void add_waiting(struct queue_sums *sums, const Ckpt__V1__WaitingJob *job)
{
    if (sums->count == sums->capacity) {
        sums->capacity = sums->capacity == 0 ? 256 : sums->capacity * 2;
        sums->items = check_realloc(sums->items, sums->capacity, sizeof(*sums->items));
    }
    sums->items[sums->count++] =
        (struct waiting_item){.gain_per_gpu_s = evaluator_waiting_gain(job),
                              .gpus = job->gpu_count,
                              .preemption_class = job->preemption_class};
    sums->urgency_sum += urgency_of(job);
}

/* Reports that are too old say nothing: their jobs may have begun long ago. */
static void sum_queues(const struct fsm *fsm, uint64_t now_ms, struct queue_sums *ret_sums)
{
    for (size_t i = 0; i < fsm_queue_count(fsm); i++) {
        struct fsm_queue queue;

        fsm_queue_at(fsm, i, &queue);
        if (!evaluator_queue_fresh(fsm, &queue, now_ms))
            continue;
        ret_sums->queued_gpu_ms += (double)queue.queued_gpu_ms;
        ret_sums->running_gpu_ms += (double)queue.running_gpu_ms;
        for (size_t j = 0; j < queue.waiting_count; j++)
            add_waiting(ret_sums, queue.waiting[j]);
    }
}

/* The items are in falling order of gain per GPU, so that the running sums are those of the best
 * that fit. */
static void build_curve(struct waiting_curve *curve, const struct queue_sums *sums,
                        uint32_t above_class)
{
    double gpus = 0, gain = 0;

    curve->gpus = check_calloc(sums->count, sizeof(double));
    curve->gain_gpu_s = check_calloc(sums->count, sizeof(double));
    for (size_t i = 0; i < sums->count; i++) {
        if (sums->items[i].preemption_class <= above_class)
            continue;
        gpus += sums->items[i].gpus;
        gain += sums->items[i].gpus * sums->items[i].gain_per_gpu_s;
        curve->gpus[curve->count] = gpus;
        curve->gain_gpu_s[curve->count++] = gain;
    }
}

/* Between two jobs the gain is shared in proportion: half the GPUs of a job are worth half of
 * it. */
double waiting_gain_gpu_s(const struct waiting_curve *curve, double gpus)
{
    size_t low = 0, high = curve->count;
    double before_gpus, before_gain, share;

    while (low < high) { /* the first job whose running sum reaches gpus */
        size_t middle = low + (high - low) / 2;

        if (curve->gpus[middle] < gpus)
            low = middle + 1;
        else
            high = middle;
    }
    before_gpus = low > 0 ? curve->gpus[low - 1] : 0;
    before_gain = low > 0 ? curve->gain_gpu_s[low - 1] : 0;
    if (low == curve->count || curve->gpus[low] <= before_gpus)
        return before_gain;
    share = (gpus - before_gpus) / (curve->gpus[low] - before_gpus);
    return before_gain + share * (curve->gain_gpu_s[low] - before_gain);
}

/* A-002; 1 when something is queued and nothing runs. */
double evaluator_pressure(double queued_gpu_ms, double running_gpu_ms)
{
    if (running_gpu_ms <= 0)
        return queued_gpu_ms > 0 ? 1 : 0;
    return fmin(1, queued_gpu_ms / running_gpu_ms);
}

/* As the dispatcher sees it: nothing more is granted from three quarters of the budget on. */
static bool target_is_full(const struct fsm_target *target)
{
    return target->granted_bytes_per_s >= target->budget_bytes_per_s / 4 * 3;
}

/* The price of a byte is what the next one would bring: the best index among those that wait, also
 * when others are granted before it. Not the sum of them: a byte goes to one, and what the others
 * would gain is lost with the byte that follows. The index of the last admitted bounds the same
 * multiplier from above, this one from below; it is this one that the state holds. What was asked
 * for and what has a deadline has no index. With several targets the lowest price counts, so that
 * no job pays for the crowd at another target. */
static double shadow_price(const struct fsm *fsm, const struct fsm_grantable_scan *waiting)
{
    double lowest = INFINITY;

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        double price = (double)waiting->sums[slot].price_gpu_ms_per_gb / 1e3 / 1e9;

        CHECK(slot < FSM_TARGETS_MAX);
        if (target != NULL && target->available)
            lowest = fmin(lowest, target_is_full(target) ? price : 0);
    }
    return isfinite(lowest) ? lowest : 0;
}

/* The policy's integers in the units of the model. */
static void set_policy(struct eval_policy *policy, const Ckpt__V1__Policy *from)
{
    policy->cycle_s = (double)from->evaluation_interval_ms / 1e3;
    policy->min_interval_s = (double)from->min_interval_ms / 1e3;
    policy->max_interval_s = (double)from->max_interval_ms / 1e3;
    policy->sensitive_min_interval_s = (double)from->sensitive_min_interval_ms / 1e3;
    policy->sensitive_max_interval_s = (double)from->sensitive_max_interval_ms / 1e3;
    policy->lambda_node_per_s = from->node_failures_per_1000_node_days_milli / 1e3 / 1e3 / 86400;
    policy->quiesce_s = (double)from->quiesce_ms / 1e3;
    policy->stall_fraction = from->stall_fraction_ppm * MICRO;
    policy->restart_s = (double)from->restart_cost_ms / 1e3;
    policy->usd_per_gpu_hour = (double)from->micro_usd_per_gpu_hour * MICRO;
    policy->retention_months = (double)from->retention_ms / MS_PER_MONTH;
    policy->horizon_clamp = HORIZON_CLAMP;
    policy->near_completion_s = (double)from->near_completion_ms / 1e3;
}

/* What of a target goes into the rows of its jobs. */
static struct evaluator_target target_now(const struct fsm_target *target)
{
    if (target == NULL)
        return (struct evaluator_target){.known = false};
    return (struct evaluator_target){.budget_bytes_per_s = fsm_target_budget_when_up(target),
                                     .micro_usd_per_gb_month = target->cost_micro_usd_per_gb_month,
                                     .known = true,
                                     .available = target->available};
}

/* Copies what it needs: the state may change while the cycle goes on, and all rows are to be made
 * from one instant. */
void evaluator_cycle_begin(struct evaluator_cycle *cycle, const struct fsm *fsm,
                           const struct nodes *nodes, uint64_t now_ms,
                           const struct fsm_grantable_scan *waiting)
{
    struct queue_sums sums = {0};

    memset(cycle, 0, sizeof(*cycle));
    cycle->now_ms = now_ms;
    cycle->nodes = nodes;
    cycle->health = node_health_any(nodes_health(nodes)) ? nodes_health(nodes) : NULL;
    cycle->recall = cycle->health != NULL ? node_health_recall(cycle->health) : 0;
    cycle->alarm_lead_s = cycle->health != NULL ? node_health_alarm_lead_s(cycle->health) : 0;
    set_policy(&cycle->policy, fsm_policy(fsm));
    cycle->default_write_bytes_per_s = fsm_policy(fsm)->default_write_bytes_per_s;
    cycle->grace_ms = fsm_policy(fsm)->grace_ms;
    cycle->node_gpus = fsm_node_gpus(fsm);
    cycle->timeout_ms = fsm_policy(fsm)->checkpoint_timeout_ms;
    cycle->sensitive_timeout_ms = fsm_policy(fsm)->sensitive_timeout_ms;
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++)
        cycle->targets[slot] = target_now(fsm_target_find_slot(fsm, slot));
    sum_queues(fsm, now_ms, &sums);
    cycle->policy.pressure = evaluator_pressure(sums.queued_gpu_ms, sums.running_gpu_ms);
    cycle->policy.backlog_urgency = sums.count > 0 ? sums.urgency_sum / (double)sums.count : 1;
    cycle->policy.phi_gpu_s_per_byte = shadow_price(fsm, waiting);
    if (sums.count > 0) {
        qsort(sums.items, sums.count, sizeof(*sums.items), by_gain_falling);
        for (uint32_t class = 0; class <= FSM_CLASS_MAX; class ++)
            build_curve(&cycle->waiting[class], &sums, class);
    }
    free(sums.items);
}

void evaluator_cycle_end(struct evaluator_cycle *cycle)
{
    for (uint32_t class = 0; class <= FSM_CLASS_MAX; class ++) {
        free(cycle->waiting[class].gpus);
        free(cycle->waiting[class].gain_gpu_s);
        cycle->waiting[class] = (struct waiting_curve){0};
    }
    free(cycle->age_factors);
    free(cycle->node_marks);
    cycle->age_factors = NULL;
    cycle->node_marks = NULL;
}

/* ---- rows ---- */

static void clear_row(struct eval_view *view, uint32_t row)
{
    view->age_s[row] = view->gpus[row] = view->nodes[row] = view->size_bytes[row] = 0;
    view->bandwidth_bytes_per_s[row] = 0;
    view->hazard_factor[row] = 1;
    view->kill_per_s[row] = view->alarm_h[row] = 0;
    view->walltime_left_s[row] = INFINITY;
    view->write_quantile_s[row] = view->period_s[row] = view->usd_per_gb_month[row] = 0;
    view->waiting_gain_gpu_s[row] = view->yield_probability[row] = view->grace_s[row] = 0;
    view->success_probability[row] = view->stall_factor[row] = 1;
    view->flags[row] = EVAL_FLAG_NOT_AUTO;
}

/* Mean over the nodes: the job's hazard is the sum of its nodes'. Alarms of theirs add up; the
 * other inputs of the row are there. */
static void fill_hazard(const struct evaluator_cycle *cycle,
                        const struct fsm_allocation *allocation, struct eval_view *view,
                        uint32_t row)
{
    double horizon_s = cycle->health != NULL ? eval_horizon_s(&cycle->policy, view, row) : 0;
    double write_s = view->bandwidth_bytes_per_s[row] > 0
                         ? view->size_bytes[row] / view->bandwidth_bytes_per_s[row]
                         : INFINITY;
    double sum = 0;

    view->hazard_factor[row] = 1;
    view->alarm_h[row] = 0;
    if (allocation->node_count == 0)
        return;
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        uint32_t slot = allocation->nodes[i].node_slot;
        struct node_hazard hazard = {.factor = 1};

        if (cycle->health != NULL)
            hazard = node_health_hazard(cycle->health, slot, horizon_s, write_s);
        if (hazard.unwell)
            view->flags[row] |= EVAL_FLAG_UNHEALTHY;
        view->alarm_h[row] += hazard.alarm_h;
        sum += hazard.factor * evaluator_age_factor(cycle, slot);
    }
    view->hazard_factor[row] = sum / allocation->node_count;
}

/* What the job's nodes can inject, at most what its target takes: in an outage what it will take
 * afterwards. The flag alone says that it takes nothing now, and is all that has to change. */
static double usable_bandwidth(const struct fsm_allocation *allocation,
                               const struct fsm_target *target, const Ckpt__V1__Policy *policy)
{
    uint64_t per_node = allocation->write_bytes_per_s > 0 ? allocation->write_bytes_per_s
                                                          : policy->default_write_bytes_per_s;

    if (target == NULL)
        return 0;
    return fmin((double)allocation->node_count * (double)per_node,
                (double)fsm_target_budget_when_up(target));
}

static double seconds_between(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (double)(to_ms - from_ms) / 1e3 : 0;
}

/* What a failure would cost is counted from here: the start, or the last snapshot that is safe. */
static uint64_t progress_since_ms(const struct fsm_allocation *allocation)
{
    return allocation->last_complete_snapshot_ms > allocation->started_at_ms
               ? allocation->last_complete_snapshot_ms
               : allocation->started_at_ms;
}

static double age_s(const struct fsm_allocation *allocation, uint64_t now_ms)
{
    return seconds_between(progress_since_ms(allocation), now_ms);
}

static double walltime_left_s(const struct fsm_allocation *allocation, uint64_t now_ms)
{
    if (allocation->walltime_ms == 0)
        return INFINITY;
    return seconds_between(now_ms, allocation->started_at_ms + allocation->walltime_ms);
}

/* Its active checkpoint writes nothing yet, or was put off. Asked only where it can decide: looking
 * up costs a cache miss. */
static bool active_waits(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    const struct fsm_checkpoint *active;

    if (allocation->active_checkpoint_id == 0 || allocation->terminating ||
        allocation->walltime_ms == 0 || allocation->walltime_asked)
        return false;
    active = fsm_checkpoint_find(fsm, allocation->active_checkpoint_id);
    CHECK(active != NULL);
    return active->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_REQUESTED ||
           active->state == CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_PAUSED ||
           fsm_checkpoint_put_off(active);
}

/* Its next checkpoint is the first one, for which a time was said. */
static bool is_first(const struct fsm_allocation *allocation)
{
    return allocation->first_period_ms != 0 && allocation->last_complete_id == 0;
}

/* What stands for or against a checkpoint without being a number. */
static uint32_t flags_of(const struct fsm *fsm, const struct fsm_allocation *allocation,
                         const struct fsm_target *target)
{
    uint32_t flags = 0;

    if (allocation->active_checkpoint_id != 0 || allocation->terminating)
        flags |= EVAL_FLAG_ACTIVE;
    if (active_waits(fsm, allocation))
        flags |= EVAL_FLAG_WAITING;
    if (target == NULL || !target->available)
        flags |= EVAL_FLAG_STORAGE_DOWN;
    if (allocation->strategy == CKPT__V1__STRATEGY__STRATEGY_MANUAL ||
        allocation->strategy == CKPT__V1__STRATEGY__STRATEGY_NONE ||
        fsm_part_finished(fsm, allocation))
        flags |= EVAL_FLAG_NOT_AUTO;
    if (allocation->walltime_asked)
        flags |= EVAL_FLAG_WALLTIME_DONE;
    if (is_first(allocation))
        flags |= EVAL_FLAG_FIRST;
    if (allocation->borrowed_count > 0)
        flags |= EVAL_FLAG_RECLAIMABLE;
    if (allocation->sensitive)
        flags |= EVAL_FLAG_SENSITIVE;
    if (fsm_victim_never(allocation))
        flags |= EVAL_FLAG_STAYS;
    return flags;
}

uint8_t evaluator_yields_class(const struct fsm_allocation *allocation)
{
    CHECK(allocation->preemption_class <= FSM_CLASS_MAX);
    return fsm_victim_never(allocation) || fsm_checkpoints_nothing(allocation)
               ? EVALUATOR_YIELDS_NEVER
               : allocation->preemption_class;
}

bool evaluator_runs(const struct fsm_allocation *allocation)
{
    return allocation != NULL &&
           allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_RUNNING &&
           !fsm_hung(allocation);
}

/* What is learned and the hazard come last: both are made from the other numbers of the row. */
static void fill_row(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                     const struct fsm_allocation *allocation, struct eval_view *view, uint32_t row)
{
    const Ckpt__V1__Policy *policy = fsm_policy(fsm);
    const struct fsm_target *target = fsm_destination(fsm, allocation);
    uint8_t class = evaluator_yields_class(allocation);

    view->age_s[row] = age_s(allocation, cycle->now_ms);
    view->gpus[row] = fsm_allocation_weight(fsm, allocation).gpus;
    view->nodes[row] = allocation->node_count;
    view->size_bytes[row] = (double)allocation->size_estimate_bytes;
    view->bandwidth_bytes_per_s[row] = usable_bandwidth(allocation, target, policy);
    view->kill_per_s[row] = 0;
    view->walltime_left_s[row] = walltime_left_s(allocation, cycle->now_ms);
    view->write_quantile_s[row] = 0;
    view->period_s[row] =
        (double)(is_first(allocation) ? allocation->first_period_ms : allocation->period_ms) / 1e3;
    view->usd_per_gb_month[row] =
        target != NULL ? (double)target->cost_micro_usd_per_gb_month * MICRO : 0;
    view->waiting_gain_gpu_s[row] =
        class != EVALUATOR_YIELDS_NEVER
            ? waiting_gain_gpu_s(&cycle->waiting[class], allocation->gpu_count)
            : 0;
    view->yield_probability[row] = 0;
    view->grace_s[row] =
        (double)(allocation->grace_ms > 0 ? allocation->grace_ms : policy->grace_ms) / 1e3;
    view->success_probability[row] = 1;
    view->stall_factor[row] = 1;
    view->flags[row] = flags_of(fsm, allocation, target);
    evaluator_fill_learned(cycle, allocation, target, view, row);
    fill_hazard(cycle, allocation, view, row);
}

void evaluator_fill(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                    struct eval_view *view, uint32_t first, uint32_t end)
{
    CHECK(first <= end && end - first <= view->capacity);
    for (uint32_t slot = first; slot < end; slot++) {
        const struct fsm_allocation *allocation = fsm_allocation_find_slot(fsm, slot);

        if (evaluator_runs(allocation))
            fill_row(cycle, fsm, allocation, view, slot - first);
        else
            clear_row(view, slot - first);
    }
}

/* ---- how long rows hold ---- */

/* What the row was filled from is what the cycle knows, by which the next one sees what has
 * changed. */
static bool as_cycle_began(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                           const struct fsm_allocation *allocation)
{
    const Ckpt__V1__Policy *policy = fsm_policy(fsm);
    const struct fsm_target *target = fsm_destination(fsm, allocation);
    const struct evaluator_target *then = &cycle->targets[target->slot];
    struct evaluator_target now = target_now(target);

    if (then->known != now.known || then->available != now.available ||
        then->budget_bytes_per_s != now.budget_bytes_per_s ||
        then->micro_usd_per_gb_month != now.micro_usd_per_gb_month ||
        cycle->default_write_bytes_per_s != policy->default_write_bytes_per_s ||
        cycle->grace_ms != policy->grace_ms || cycle->node_gpus != fsm_node_gpus(fsm) ||
        cycle->node_marks == NULL)
        return false;
    if (cycle->health != NULL && (node_health_recall(cycle->health) != cycle->recall ||
                                  node_health_alarm_lead_s(cycle->health) != cycle->alarm_lead_s))
        return false;
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        uint32_t slot = allocation->nodes[i].node_slot;

        if (slot >= cycle->age_factor_count)
            return false;
        if (cycle->health != NULL &&
            (evaluator_mark_kind(cycle->node_marks[slot]) == NODE_HEALTH_UNWELL ||
             evaluator_mark_kind(cycle->node_marks[slot]) != node_health_kind(cycle->health, slot)))
            return false;
    }
    return true;
}

/* Times that the history of evaluations cannot tell from the ones before are noted in each
 * cycle. */
static bool times_pass(const struct evaluator_cycle *cycle, const struct evaluator_times *times)
{
    double now_ms = (double)cycle->now_ms;

    return times->since_ms <= now_ms && now_ms - times->since_ms < EVALUATOR_TIME_MAX_MS &&
           (isinf(times->end_ms) || times->end_ms - now_ms < EVALUATOR_TIME_MAX_MS);
}

void evaluator_row_times(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                         const struct fsm_allocation *allocation, const struct eval_view *view,
                         uint32_t row, struct evaluator_times *ret_times)
{
    double now_ms = (double)cycle->now_ms;

    ret_times->since_ms = (double)progress_since_ms(allocation);
    ret_times->end_ms = allocation->walltime_ms == 0
                            ? INFINITY
                            : (double)(allocation->started_at_ms + allocation->walltime_ms);
    if (!as_cycle_began(cycle, fsm, allocation) || !times_pass(cycle, ret_times)) {
        ret_times->until_ms = 0;
        return;
    }
    ret_times->until_ms = evaluator_learned_until_ms(cycle, allocation, view, row);
    if (ret_times->end_ms > now_ms) /* a run of evaluations ends there */
        ret_times->until_ms = fmin(ret_times->until_ms, ret_times->end_ms);
}

/* The columns of the view from `first` on. The view may be changed through it. */
struct eval_view evaluator_view_rows(const struct eval_view *view, size_t first, size_t end)
{
    CHECK(first <= end && end <= view->capacity);
    return (struct eval_view){.count = end - first,
                              .capacity = end - first,
                              .age_s = view->age_s + first,
                              .gpus = view->gpus + first,
                              .nodes = view->nodes + first,
                              .size_bytes = view->size_bytes + first,
                              .bandwidth_bytes_per_s = view->bandwidth_bytes_per_s + first,
                              .hazard_factor = view->hazard_factor + first,
                              .kill_per_s = view->kill_per_s + first,
                              .alarm_h = view->alarm_h + first,
                              .walltime_left_s = view->walltime_left_s + first,
                              .write_quantile_s = view->write_quantile_s + first,
                              .period_s = view->period_s + first,
                              .usd_per_gb_month = view->usd_per_gb_month + first,
                              .waiting_gain_gpu_s = view->waiting_gain_gpu_s + first,
                              .yield_probability = view->yield_probability + first,
                              .grace_s = view->grace_s + first,
                              .success_probability = view->success_probability + first,
                              .stall_factor = view->stall_factor + first,
                              .flags = view->flags + first};
}

struct eval_result evaluator_result_rows(const struct eval_result *result, size_t first)
{
    return (struct eval_result){.recompute_saved = result->recompute_saved + first,
                                .preemptability = result->preemptability + first,
                                .backlog_relief = result->backlog_relief + first,
                                .write_time = result->write_time + first,
                                .compute_waste = result->compute_waste + first,
                                .storage_cost = result->storage_cost + first,
                                .write_s = result->write_s + first,
                                .hazard_per_s = result->hazard_per_s + first,
                                .failure_probability = result->failure_probability + first,
                                .young_daly_s = result->young_daly_s + first,
                                .verdict = result->verdict + first};
}

/* ---- to integers ---- */

/* Limits below those of the type: sums of two saturated numbers fit as well. */
int64_t saturate_int64(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 9.2e18)
        return INT64_C(9200000000000000000);
    if (value <= -9.2e18)
        return INT64_C(-9200000000000000000);
    return (int64_t)value;
}

uint64_t saturate_uint64(double value)
{
    return value > 0 ? (uint64_t)saturate_int64(value) : 0;
}

/* What a checkpoint is worth, without its costs. */
static double value_gpu_s(const struct eval_result *result, size_t row)
{
    return result->recompute_saved[row] + result->preemptability[row] + result->backlog_relief[row];
}

/* The terms as they are logged and told. A target that is down has a bandwidth of 0 for people,
 * although the row counts with what it will have. */
void decision_terms(const struct eval_view *view, const struct eval_result *result, size_t row,
                    Ckpt__V1__Purpose purpose, Ckpt__V1__DecisionTerms *ret_terms)
{
    ckpt__v1__decision_terms__init(ret_terms);
    ret_terms->recompute_saved_gpu_ms = saturate_int64(result->recompute_saved[row] * 1e3);
    ret_terms->preemptability_gpu_ms = saturate_int64(result->preemptability[row] * 1e3);
    ret_terms->backlog_relief_gpu_ms = saturate_int64(result->backlog_relief[row] * 1e3);
    ret_terms->write_time_gpu_ms = saturate_int64(result->write_time[row] * 1e3);
    ret_terms->compute_waste_gpu_ms = saturate_int64(result->compute_waste[row] * 1e3);
    ret_terms->storage_cost_gpu_ms = saturate_int64(result->storage_cost[row] * 1e3);
    ret_terms->value_gpu_ms = saturate_int64(value_gpu_s(result, row) * 1e3);
    ret_terms->cost_gpu_ms = saturate_int64(
        (result->write_time[row] + result->compute_waste[row] + result->storage_cost[row]) * 1e3);
    ret_terms->age_ms = saturate_uint64(view->age_s[row] * 1e3);
    ret_terms->size_bytes = saturate_uint64(view->size_bytes[row]);
    ret_terms->write_ms = saturate_uint64(result->write_s[row] * 1e3);
    ret_terms->hazard_per_s_e12 = saturate_uint64(result->hazard_per_s[row] * 1e12);
    ret_terms->failure_probability_ppm = saturate_uint64(result->failure_probability[row] * 1e6);
    ret_terms->young_daly_ms = saturate_uint64(result->young_daly_s[row] * 1e3);
    ret_terms->bandwidth_bytes_per_s = (view->flags[row] & EVAL_FLAG_STORAGE_DOWN) != 0
                                           ? 0
                                           : saturate_uint64(view->bandwidth_bytes_per_s[row]);
    ret_terms->purpose = purpose;
    ret_terms->gpu_count = (uint32_t)view->gpus[row];
    ret_terms->verdict = translate_text(eval_verdict_name(result->verdict[row]));
}

/* Of a row that was filled before its allocation changed: its GPUs, as the row says no more. */
void decision_weighed(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      Ckpt__V1__DecisionTerms *terms)
{
    struct fsm_weight weight = fsm_allocation_weight(fsm, allocation);

    terms->weighed_nodes = weight.gpus == terms->gpu_count ? weight.nodes : 0;
}

Ckpt__V1__Purpose decision_purpose(const struct eval_view *view, const struct eval_result *result,
                                   size_t row)
{
    return verdict_purpose(view, (enum eval_verdict)result->verdict[row], row);
}

/* A checkpoint because of its value is PROACTIVE when something is wrong with a node of the job,
 * else PERIODIC. */
Ckpt__V1__Purpose verdict_purpose(const struct eval_view *view, enum eval_verdict verdict,
                                  size_t row)
{
    switch (verdict) {
    case EVAL_CHECKPOINT_WALLTIME:
        return CKPT__V1__PURPOSE__PURPOSE_WALLTIME;
    case EVAL_CHECKPOINT_VALUE:
        return (view->flags[row] & EVAL_FLAG_UNHEALTHY) != 0 || view->alarm_h[row] > 0
                   ? CKPT__V1__PURPOSE__PURPOSE_PROACTIVE
                   : CKPT__V1__PURPOSE__PURPOSE_PERIODIC;
    case EVAL_CHECKPOINT_MAX_INTERVAL:
    case EVAL_CHECKPOINT_PERIOD:
        return CKPT__V1__PURPOSE__PURPOSE_PERIODIC;
    case EVAL_CHECKPOINT_MOVE:
        return CKPT__V1__PURPOSE__PURPOSE_MIGRATE;
    case EVAL_SKIP_VALUE:
    case EVAL_SKIP_ACTIVE:
    case EVAL_SKIP_MIN_INTERVAL:
    case EVAL_SKIP_STORAGE_DOWN:
    case EVAL_SKIP_STRATEGY:
    case EVAL_SKIP_BAD_INPUT:
    case EVAL_SKIP_NEAR_COMPLETION:
    case EVAL_SKIP_PACED:
    case EVAL_SKIP_QUOTA:
    case EVAL_VERDICT_COUNT:
        break;
    }
    return CKPT__V1__PURPOSE__PURPOSE_UNSPECIFIED;
}

/* A job of no known size counts as one byte, so that it is never divided by 0. */
double decision_gain(const struct eval_view *view, const struct eval_result *result, size_t row)
{
    double gain_gpu_s =
        value_gpu_s(result, row) - result->compute_waste[row] - result->storage_cost[row];

    return isnan(gain_gpu_s) ? 0 : gain_gpu_s / fmax(view->size_bytes[row], 1);
}

uint64_t decision_priority(const struct eval_view *view, const struct eval_result *result,
                           size_t row)
{
    return saturate_uint64(decision_gain(view, result, row) * 1e3 * 1e9);
}
