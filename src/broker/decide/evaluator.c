/* When a cycle is due, and what becomes of its decisions. See evaluator.h; what a cycle does is in
 * evaluation.c. */
#include "src/broker/decide/evaluator.h"

#include <stdlib.h>
#include <string.h>

#include "fsm/pause.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/evaluation.h"
#include "src/broker/decide/learner.h"

enum { EVALUATOR_IN_FLIGHT_MAX = 4 }; /* commands: those that are applied in one turn of the loop */

struct evaluator {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer; /* the next cycle, or the next turn of the one that runs */
    bool serving;
    bool again;           /* another cycle at once after this one */
    uint64_t interval_ms; /* by which the next cycle was scheduled */
    bool target_up[FSM_TARGETS_MAX];
    uint64_t last_cycle_ms;
    uint64_t cycle_began_us, cycle_spent_us;
    size_t in_flight_count; /* batches; while EVALUATOR_IN_FLIGHT_MAX are, the cycle waits */
    bool stalled;           /* batch_done() goes on */
    struct learner *learner;
    struct evaluation evaluation;
};

static uint64_t monotonic_us(const struct evaluator *evaluator)
{
    return evaluator->broker->clock.monotonic_us(evaluator->broker->clock.context);
}

/* ---- one turn of a cycle ---- */

static void batch_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct evaluator *evaluator = data;

    (void)failed; /* what was not taken is found again in the next cycle */
    (void)outcome;
    CHECK(evaluator->in_flight_count > 0);
    evaluator->in_flight_count--;
    if (evaluator->serving && evaluator->stalled)
        evaluator->broker->clock.timer_start(evaluator->timer, 0);
    evaluator->stalled = false;
}

/* One step; true: the price is known. */
static bool find_price(struct evaluator *evaluator)
{
    uint64_t began_us = monotonic_us(evaluator);
    bool done;

    if (evaluator->evaluation.phase == EVALUATION_IDLE) {
        evaluator->cycle_began_us = began_us;
        evaluator->cycle_spent_us = 0;
    }
    done = evaluation_price(&evaluator->evaluation, replica_fsm(evaluator->broker->replica));
    evaluator->cycle_spent_us += monotonic_us(evaluator) - began_us;
    return done;
}

static void begin_cycle(struct evaluator *evaluator)
{
    struct replica *replica = evaluator->broker->replica;
    struct eval_fleet_rates rates;

    learner_rates(evaluator->learner, &rates);
    evaluation_begin(&evaluator->evaluation, replica_fsm_mutable(replica), evaluator->broker->nodes,
                     replica_state_ms(replica), &rates);
    evaluator->again = false;
}

/* Decides one turn's share and proposes it. True: everything is proposed. */
static bool run_cycle(struct evaluator *evaluator)
{
    struct evaluation *evaluation = &evaluator->evaluation;
    uint64_t began_us = monotonic_us(evaluator);
    bool done = evaluation_step(evaluation);

    /* the first cycle after the pause finds the same again */
    if (fsm_pause(replica_fsm(evaluator->broker->replica)) != NULL)
        evaluation->batch.count = 0;
    if (evaluation->batch.count > 0) {
        evaluator->in_flight_count++;
        evaluator_batch_propose(&evaluation->batch, evaluator->broker->replica,
                                &evaluation->keep.cycle.policy, batch_done, evaluator);
    }
    evaluator->cycle_spent_us += monotonic_us(evaluator) - began_us;
    return done;
}

/* One turn's share of what claims need to know; true: all of it. */
static bool count_idle(struct evaluator *evaluator)
{
    uint64_t began_us = monotonic_us(evaluator);
    bool done = evaluation_count_idle(&evaluator->evaluation);

    evaluator->cycle_spent_us += monotonic_us(evaluator) - began_us;
    return done;
}

/* ---- between two cycles ---- */

static void schedule_next(struct evaluator *evaluator)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(evaluator->broker->replica));
    uint64_t due_us = evaluator->cycle_began_us + policy->evaluation_interval_ms * 1000;
    uint64_t now_us = monotonic_us(evaluator);

    evaluator->interval_ms = policy->evaluation_interval_ms;
    evaluator->broker->clock.timer_start(
        evaluator->timer, evaluator->again || due_us <= now_us ? 1000 : due_us - now_us);
}

static void count_verdicts(struct metrics *metrics, uint64_t counts[EVAL_VERDICT_COUNT])
{
    for (int verdict = 0; verdict < EVAL_VERDICT_COUNT; verdict++) {
        double count = (double)counts[verdict];
        const char *decision =
            eval_verdict_fires((enum eval_verdict)verdict) ? "checkpoint" : "skip";

        counts[verdict] = 0;
        if (count == 0)
            continue;
        metrics_add(metrics, METRIC_EVALUATIONS, decision,
                    eval_verdict_name((enum eval_verdict)verdict), count);
        metrics_add(metrics, METRIC_L_EVALUATIONS, decision, NULL, count);
    }
}

/* Each batch was committed and applied: nothing is on its way any more. */
static void end_cycle(struct evaluator *evaluator)
{
    struct metrics *metrics = evaluator->broker->metrics;

    CHECK(evaluator->in_flight_count == 0);
    evaluation_end(&evaluator->evaluation, evaluator->broker);
    evaluator->last_cycle_ms = broker_wall_ms(evaluator->broker);
    count_verdicts(metrics, evaluator->evaluation.verdict_counts);
    metrics_observe(metrics, METRIC_EVALUATION_DURATION, (double)evaluator->cycle_spent_us / 1e6);
    metrics_observe(metrics, METRIC_EVALUATION_CYCLE,
                    (double)(monotonic_us(evaluator) - evaluator->cycle_began_us) / 1e6);
    learner_advance(evaluator->learner, evaluator->evaluation.running);
    if (evaluator->serving) /* proposing may end the leadership */
        schedule_next(evaluator);
}

/* One turn: the price, then rows and decisions, then idle nodes. A cycle whose batches are all on
 * their way waits for them: batch_done() starts the timer again. */
static void on_timer(void *data)
{
    struct evaluator *evaluator = data;
    bool done;

    if (!evaluator->serving || fsm_policy(replica_fsm(evaluator->broker->replica)) == NULL)
        return;
    evaluator->stalled = evaluator->in_flight_count >= EVALUATOR_IN_FLIGHT_MAX;
    if (evaluator->stalled)
        return;
    if (!evaluation_runs(&evaluator->evaluation)) {
        if (!find_price(evaluator)) {
            evaluator->broker->clock.timer_start(evaluator->timer, 0);
            return;
        }
        begin_cycle(evaluator);
    }
    done = run_cycle(evaluator);
    if (!evaluator->serving) /* proposing may end the leadership */
        return;
    evaluator->stalled = done && evaluator->in_flight_count > 0;
    if (evaluator->stalled)
        return;
    if (done && count_idle(evaluator))
        end_cycle(evaluator);
    else
        evaluator->broker->clock.timer_start(evaluator->timer, 0);
}

/* ---- what others ask ---- */

bool evaluator_last(const struct evaluator *evaluator, const struct fsm_allocation *allocation,
                    struct evaluator_row *ret_row)
{
    return evaluator != NULL && allocation != NULL &&
           evaluation_last(&evaluator->evaluation, allocation, ret_row);
}

bool evaluator_gain(const struct evaluator *evaluator, const struct fsm_allocation *allocation,
                    double *ret_gpu_s_per_byte)
{
    struct evaluator_row row;

    if (!evaluator_last(evaluator, allocation, &row))
        return false;
    *ret_gpu_s_per_byte = decision_gain(&row.view, &row.result, 0);
    return true;
}

bool evaluator_admission_line(const struct evaluator *evaluator, uint32_t target_slot,
                              double *ret_gpu_s_per_byte)
{
    return admission_line(evaluator->evaluation.admission, target_slot, ret_gpu_s_per_byte);
}

void evaluator_rates(const struct evaluator *evaluator, struct eval_fleet_rates *ret_rates)
{
    if (evaluator != NULL && evaluator->serving)
        learner_rates(evaluator->learner, ret_rates);
}

uint64_t evaluator_last_cycle_ms(const struct evaluator *evaluator)
{
    return evaluator != NULL && evaluator->serving ? evaluator->last_cycle_ms : 0;
}

/* ---- leadership ---- */

/* Remembers which targets are up; true when one came back. */
static bool note_targets(struct evaluator *evaluator)
{
    const struct fsm *fsm = replica_fsm(evaluator->broker->replica);
    bool recovered = false;

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        bool up = target != NULL && target->available;

        CHECK(slot < FSM_TARGETS_MAX);
        recovered |= up && !evaluator->target_up[slot];
        evaluator->target_up[slot] = up;
    }
    return recovered;
}

static void on_serving(void *context)
{
    struct evaluator *evaluator = context;

    evaluator->serving = true;
    evaluator->last_cycle_ms = 0;
    learner_load(evaluator->learner);
    note_targets(evaluator);
    evaluator->broker->clock.timer_start(evaluator->timer, 0);
}

static void on_not_serving(void *context)
{
    struct evaluator *evaluator = context;

    evaluator->serving = false;
    evaluation_forget(&evaluator->evaluation);
    evaluator->broker->clock.timer_stop(evaluator->timer);
}

/* A policy with another interval counts from the last cycle, not only from the next one on. */
static void follow_interval(struct evaluator *evaluator)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(evaluator->broker->replica));

    if (evaluator->last_cycle_ms == 0 || evaluator->evaluation.phase != EVALUATION_IDLE ||
        policy->evaluation_interval_ms == evaluator->interval_ms)
        return; /* end_cycle() schedules by what is in force then */
    schedule_next(evaluator);
}

/* A target that came back is a reason for a cycle at once: jobs that waited for it have much to
 * lose. */
static void on_applied(void *context)
{
    struct evaluator *evaluator = context;
    bool in_cycle = evaluation_runs(&evaluator->evaluation);

    if (!evaluator->serving)
        return;
    follow_interval(evaluator);
    if (!note_targets(evaluator))
        return;
    log_info("evaluate_after_recovery", "in_cycle=%d", in_cycle);
    evaluator->again = true;
    if (!in_cycle)
        evaluator->broker->clock.timer_start(evaluator->timer, 0);
}

struct evaluator *evaluator_new(struct broker *broker)
{
    struct evaluator *evaluator = check_calloc(1, sizeof(*evaluator));

    evaluator->broker = broker;
    evaluation_init(&evaluator->evaluation);
    evaluator->learner = learner_new(broker);
    evaluator->timer = broker->clock.timer_new(broker->clock.context, on_timer, evaluator);
    evaluator->observer = (struct replica_observer){.context = evaluator,
                                                    .acts = true,
                                                    .serving = on_serving,
                                                    .not_serving = on_not_serving,
                                                    .applied = on_applied};
    replica_observe(broker->replica, &evaluator->observer);
    return evaluator;
}

void evaluator_free(struct evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    evaluator->broker->clock.timer_free(evaluator->timer);
    evaluation_close(&evaluator->evaluation);
    learner_free(evaluator->learner);
    free(evaluator);
}
