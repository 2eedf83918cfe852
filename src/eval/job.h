/* The model for one job, as straight-line expressions: what both the passes over a block (timing.c,
 * terms.c, score.c) and the loop for verdicts alone (decide.c) are made of, so that they give the
 * same bits.
 *
 * Flow     job_write, job_walltime, job_hazard, job_value, job_cost, job_guards, each from what the
 *          caller and those before it filled in.
 * Shapes   inlined into loops, where the struct is registers; no branches, so that gcc makes
 *          vectors of it.
 * Units    seconds and GPU-seconds; conditions are 0 or 1 as doubles because a loop of one element
 *          type vectorises best.
 */
#ifndef CKPT_EVAL_JOB_H
#define CKPT_EVAL_JOB_H

#include <math.h>

#include "src/eval/block.h"

#define JOB_STEP static inline __attribute__((always_inline)) void

struct job {
#define X(column) double column;
    EVAL_VIEW_COLUMNS(X)
    EVAL_RESULT_COLUMNS(X)
#undef X
    /* as in struct block */
    double up, sensitive, first_one, done, reclaim, stays, sure, stall_s, slot_s, horizon_s, h_fail,
        h_kill, late, due;
    double code; /* of the verdict */
};

/* By value, so that a loop holds it in registers. */
struct job_policy {
    double cycle_s, quiesce_s, stall_fraction, near_s;
    double min_usual_s, min_sensitive_s, max_usual_s, max_sensitive_s; /* infinity: no backstop */
    double lambda_node, clamp, restart_s;
    double backlog_yield, backlog_per_gpu, phi, storage_factor, certainty;
};

static inline double job_or_infinity(double seconds)
{
    return seconds > 0 ? seconds : INFINITY;
}

static inline struct job_policy job_policy_of(const struct block_policy *policy)
{
    const struct eval_policy *given = policy->given;

    return (struct job_policy){.cycle_s = given->cycle_s,
                               .quiesce_s = given->quiesce_s,
                               .stall_fraction = given->stall_fraction,
                               .near_s = given->near_completion_s,
                               .min_usual_s = given->min_interval_s,
                               .min_sensitive_s = given->sensitive_min_interval_s,
                               .max_usual_s = job_or_infinity(given->max_interval_s),
                               .max_sensitive_s = job_or_infinity(given->sensitive_max_interval_s),
                               .lambda_node = given->lambda_node_per_s,
                               .clamp = policy->clamp,
                               .restart_s = given->restart_s,
                               .backlog_yield = policy->backlog_yield,
                               .backlog_per_gpu = policy->backlog_per_gpu,
                               .phi = given->phi_gpu_s_per_byte,
                               .storage_factor = policy->storage_factor,
                               .certainty = given->certainty};
}

/* write_s stays 0 in an outage here, so that nothing that is made of it is infinite. */
JOB_STEP job_write(const struct job_policy *policy, struct job *job)
{
    double rate = job->bandwidth_bytes_per_s, up = job->up, write_s;

    up = rate > 0 ? up : 0.0;
    write_s = job->size_bytes / (up > 0 ? rate : INFINITY);
    up = write_s < EVAL_NUMBER_MAX ? up : 0.0; /* a rate so small that the write never ends */
    write_s = up > 0 ? write_s : 0.0;
    job->up = up;
    job->write_s = write_s;
    job->stall_s = policy->stall_fraction * job->stall_factor * write_s + policy->quiesce_s;
}

/* The slot: the last moment at which a checkpoint asked for now, rather than a cycle (or a grace)
 * later, ends in time. */
JOB_STEP job_walltime(const struct job_policy *policy, struct job *job)
{
    double mean_s = job->write_s, left_s = job->walltime_left_s, grace_s = job->grace_s;
    double half = job->age_s / 2, asked = job->done;
    double estimate = EVAL_WRITE_QUANTILE_FACTOR * mean_s;
    double write_s = job->write_quantile_s > 0 ? job->write_quantile_s : estimate;
    double margin = policy->cycle_s > grace_s ? policy->cycle_s : grace_s;
    double slot_s = write_s + policy->quiesce_s + margin;
    double until = left_s - slot_s * (1 - asked);
    double is_late = left_s + grace_s < mean_s + policy->quiesce_s ? 1.0 : 0.0;
    double reached = left_s <= slot_s ? 1.0 : 0.0;

    until = until > 0 ? until : 0.0;
    job->slot_s = slot_s;
    job->horizon_s = half < until ? half : until;
    job->late = is_late;
    job->due = reached * (1 - is_late) * (1 - asked);
}

JOB_STEP job_hazard(const struct job_policy *policy, struct job *job)
{
    double fail = job->nodes * policy->lambda_node * job->hazard_factor;
    double killed = job->kill_per_s, h_alarm = job->alarm_h, horizon_s = job->horizon_s;
    double h, scale;

    h_alarm = h_alarm < EVAL_ALARM_H_MAX ? h_alarm : EVAL_ALARM_H_MAX;
    h_alarm += fail * horizon_s;
    h = h_alarm + killed * horizon_s;
    scale = policy->clamp / (h > policy->clamp ? h : policy->clamp);
    job->hazard_per_s = fail + killed;
    job->h_fail = h_alarm * scale;
    job->h_kill = killed * horizon_s * scale;
}

JOB_STEP job_value(const struct job_policy *policy, struct job *job)
{
    double gpus = job->gpus, u_waiting = job->waiting_gain_gpu_s, left_s = job->walltime_left_s;
    double progress = gpus * job->age_s, fail = job->h_fail, killed = job->h_kill;
    double at_risk = progress / (1 - (fail + killed) * (4.0 / 3));
    double wait_s = left_s < EVAL_WAIT_SAVED_MAX_S ? left_s : EVAL_WAIT_SAVED_MAX_S;
    double u_backlog = policy->backlog_per_gpu * gpus * (wait_s > 0 ? wait_s : 0.0);
    double u = u_waiting + u_backlog;
    double gain = u - gpus * policy->restart_s;
    double bounded = gain < progress ? gain : progress;
    double yield = job->yield_probability, called = job->reclaim, stays = job->stays;
    double share, expected, completes = job->success_probability;

    /* p_y: what the scheduler says, else from the backlog alone; more on borrowed nodes while
     * higher work waits; never where no preemption takes the job */
    yield = yield > 0 ? yield : policy->backlog_yield;
    called = u_waiting > 0 ? called : 0.0;
    yield += (1 - yield) * called;
    yield = stays > 0 ? 0.0 : yield;
    share = yield * (bounded > 0 ? bounded : 0.0) / (u > 0 ? u : 1.0);
    expected = at_risk * fail;
    expected = job->due > 0 ? progress : expected;
    job->recompute_saved = completes * expected;
    job->preemptability = completes * (at_risk * killed + share * u_waiting);
    job->backlog_relief = completes * (share * u_backlog);
}

JOB_STEP job_cost(const struct job_policy *policy, struct job *job)
{
    double wasted = job->gpus * job->stall_s;

    job->write_time = policy->phi * job->size_bytes;
    job->compute_waste = job->up > 0 ? wasted : INFINITY;
    job->storage_cost = job->size_bytes * job->usd_per_gb_month * policy->storage_factor;
}

/* Assigned from the weakest reason to the strongest, so that the first in the order of precedence
 * stays. Equality of value and cost is no checkpoint; infinity is never exceeded. */
JOB_STEP job_guards(const struct job_policy *policy, struct job *job)
{
    double age_s = job->age_s, left_s = job->walltime_left_s, own = job->sensitive;
    double period_s = job->period_s > 0 ? job->period_s : INFINITY;
    double value = job->recompute_saved + job->preemptability + job->backlog_relief;
    double cost = job->write_time + job->compute_waste + job->storage_cost;
    double worth = value > cost ? 1.0 : 0.0, code = EVAL_SKIP_VALUE;
    double min_interval_s = own > 0 ? policy->min_sensitive_s : policy->min_usual_s;
    double max_interval_s = own > 0 ? policy->max_sensitive_s : policy->max_usual_s;
    /* the longest interval stands for hazards that the model does not know: it ends one only where
     * the highest that may be would */
    double doubt = value >= cost * (policy->certainty * job->sure) ? 1.0 : 0.0;

    min_interval_s = job->first_one > 0 && period_s > min_interval_s ? period_s : min_interval_s;
    left_s = job->late > 0 ? -1.0 : left_s;
    doubt = age_s >= max_interval_s ? doubt : 0.0;
    code = doubt > 0 ? (double)EVAL_CHECKPOINT_MAX_INTERVAL : code;
    code = age_s >= period_s ? (double)EVAL_CHECKPOINT_PERIOD : code;
    code = worth > 0 ? (double)EVAL_CHECKPOINT_VALUE : code;
    code = age_s < min_interval_s ? (double)EVAL_SKIP_MIN_INTERVAL : code;
    code = left_s < policy->near_s ? (double)EVAL_SKIP_NEAR_COMPLETION : code;
    code = job->due * worth > 0 ? (double)EVAL_CHECKPOINT_WALLTIME : code;
    job->code = job->up > 0 ? code : (double)EVAL_SKIP_STORAGE_DOWN;
}

#endif
