/* See metrics_model.h. */
#include "src/broker/daemon/metrics_model.h"

#include <stdio.h>
#include <string.h>

#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/dispatch/dispatcher.h"
#include "src/eval/inputs.h"

static void set_value(struct metrics *metrics, enum metric metric, double value)
{
    metrics_set(metrics, metric, NULL, NULL, value);
}

/* ---- expected against actual ---- */

/* The slowest shard decides when a checkpoint is complete. */
static uint64_t written_ms(const struct fsm_checkpoint *checkpoint)
{
    uint64_t ms = 0;

    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        uint64_t shard_ms = checkpoint->shards[i].stall_ms + checkpoint->shards[i].write_ms;

        ms = shard_ms > ms ? shard_ms : ms;
    }
    return ms;
}

/* Expected against actual. Bounded: a ratio with nothing below it says nothing. */
static void checkpoint_estimates(struct metrics *metrics, const struct fsm_checkpoint *checkpoint)
{
    uint64_t ms = written_ms(checkpoint);

    if (checkpoint->terms == NULL)
        return;
    if (checkpoint->size_bytes > 0)
        metrics_observe_of(metrics, METRIC_ESTIMATE_RATIO, "size",
                           (double)checkpoint->terms->size_bytes / (double)checkpoint->size_bytes);
    if (ms > 0)
        metrics_observe_of(metrics, METRIC_ESTIMATE_RATIO, "write_time",
                           (double)checkpoint->terms->write_ms / (double)ms);
}

/* Sums of expected and actual: their quotient tells whether success is judged rightly, over
 * many. */
static void checkpoint_success(struct metrics *metrics, const struct fsm_checkpoint *checkpoint,
                               bool completed)
{
    const struct fsm_inputs *inputs = checkpoint->inputs;
    double expected;

    if (inputs == NULL || inputs->column_count != EVAL_COLUMN_COUNT ||
        strcmp(inputs->basis->names, eval_input_names()) != 0)
        return; /* asked for, or decided by another version */
    memcpy(&expected, &inputs->columns[EVAL_INPUT_success_probability], sizeof(expected));
    if (!(expected >= 0 && expected <= 1))
        return;
    metrics_add(metrics, METRIC_ESTIMATE_SUCCESS, "expected", NULL, expected);
    metrics_add(metrics, METRIC_ESTIMATE_SUCCESS, "actual", NULL, completed);
}

void metrics_model_ended(struct metrics *metrics, const struct fsm_checkpoint *checkpoint,
                         bool completed)
{
    if (completed)
        checkpoint_estimates(metrics, checkpoint);
    checkpoint_success(metrics, checkpoint, completed);
}

/* ---- at each exposition ---- */

/* As the model counts them in this moment. */
static void read_queues(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);
    uint64_t now_ms = replica_state_ms(broker->replica),
             max_age_ms = fsm_policy(fsm)->queue_max_age_ms;
    double queued = 0, running = 0;

    for (size_t i = 0; i < fsm_queue_count(fsm); i++) {
        struct fsm_queue queue;
        bool counted;

        fsm_queue_at(fsm, i, &queue);
        counted = now_ms <= queue.reported_at_ms + max_age_ms;
        metrics_set(metrics, METRIC_QUEUE_AGE, queue.vcluster, NULL,
                    now_ms > queue.reported_at_ms ? (double)(now_ms - queue.reported_at_ms) / 1e3
                                                  : 0);
        metrics_set(metrics, METRIC_QUEUE_WAITING, queue.vcluster, NULL,
                    (double)queue.waiting_count);
        metrics_set(metrics, METRIC_QUEUE_COUNTED, queue.vcluster, NULL, counted);
        queued += counted ? (double)queue.queued_gpu_ms : 0;
        running += counted ? (double)queue.running_gpu_ms : 0;
    }
    set_value(metrics, METRIC_PRESSURE, evaluator_pressure(queued, running));
}

/* 0 on followers, which learn nothing; what is in the state has a time on every member. */
static void read_learned(struct metrics *metrics, const struct broker *broker)
{
    static const char *const ages[FSM_AGE_BINS] = {"1h", "4h", "1d", "4d", "16d", "64d", "more"};
    const Ckpt__Log__V1__SetLearned *saved = fsm_learned(replica_fsm(broker->replica));
    struct eval_fleet_rates rates = {.node_failures_per_s = 0};
    char group[32];

    evaluator_rates(broker->evaluator, &rates);
    set_value(metrics, METRIC_LEARNED_SAVED, saved == NULL ? 0 : (double)saved->at_ms / 1e3);
    set_value(metrics, METRIC_LEARNED_FAILURES, rates.node_failures_per_s);
    set_value(metrics, METRIC_LEARNED_CERTAINTY, rates.certainty);
    metrics_set(metrics, METRIC_LEARNED_ALARMS, "recall", NULL, rates.alarms.recall);
    metrics_set(metrics, METRIC_LEARNED_ALARMS, "precision", NULL, rates.alarms.precision);
    metrics_set(metrics, METRIC_LEARNED_ALARMS, "lead_seconds", NULL, rates.alarms.lead_s);
    for (int bin = 0; bin < FSM_AGE_BINS; bin++)
        metrics_set(metrics, METRIC_LEARNED_AGE_FACTOR, ages[bin], NULL, rates.age_factors[bin]);
    for (int i = 0; i < FSM_GROUPS; i++) {
        const char *busy = i < FSM_GROUPS_CALM ? "" : " busy";
        int calm = i % FSM_GROUPS_CALM;

        if (calm <= FSM_CLASS_MAX)
            snprintf(group, sizeof(group), "%d%s", calm, busy);
        else
            snprintf(group, sizeof(group), "borrowed%s", busy);
        metrics_set(metrics, METRIC_LEARNED_KILLS, group, NULL, rates.kills_per_s[i]);
        metrics_set(metrics, METRIC_LEARNED_DEMANDS, group, NULL, rates.demands_per_s[i]);
    }
}

/* As the leader's last look left it; 0 elsewhere. */
static void read_bandwidth_queue(struct metrics *metrics, const struct broker *broker)
{
    const struct fsm *fsm = replica_fsm(broker->replica);

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        Ckpt__V1__TargetStatus status = CKPT__V1__TARGET_STATUS__INIT;

        if (target == NULL)
            continue;
        dispatcher_fill_queue(broker->dispatcher, slot, &status);
        metrics_set(metrics, METRIC_BANDWIDTH_WAITING, target->id, NULL, status.waiting_count);
        metrics_set(metrics, METRIC_BANDWIDTH_WAVES, target->id, NULL, status.wave_count);
        metrics_set(metrics, METRIC_BANDWIDTH_PRICE, target->id, NULL,
                    (double)status.price_gpu_ms_per_gb / 1e12);
    }
}

void metrics_model_read(struct metrics *metrics, const struct broker *broker)
{
    read_queues(metrics, broker);
    read_learned(metrics, broker);
    read_bandwidth_queue(metrics, broker);
}
