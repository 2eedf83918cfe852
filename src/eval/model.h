/* The decision model: is a checkpoint of this job worth its cost now? Pure functions, floating point allowed here only.
 *
 * Flow     the broker fills struct eval_view (structure of arrays, one slot per running allocation) from the committed state,
 *          calls eval_score() once a cycle, and turns the slots with verdict CHECKPOINT into proposals (integers).
 * Units    GPU-seconds for value and cost; seconds; bytes; bytes per second; failures per second.
 * Errors   unknown, zero, NaN or infinite inputs have a defined verdict; NaN never decides.
 * Source   Young 1974, Daly 2006; the model is written out in src/eval/README.md with each term.
 */
#ifndef CKPT_EVAL_MODEL_H
#define CKPT_EVAL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Append only; names are shown by explain and counted in metrics. */
#define EVAL_VERDICTS(X)                                                                           \
    X(SKIP_VALUE, "value_below_cost")                                                              \
    X(CHECKPOINT_VALUE, "value_exceeds_cost")                                                      \
    X(CHECKPOINT_MAX_INTERVAL, "max_interval_reached")                                             \
    X(CHECKPOINT_PERIOD, "declared_period_reached")                                                \
    X(CHECKPOINT_WALLTIME, "last_safe_slot_before_walltime")                                       \
    X(SKIP_ACTIVE, "one_active")                                                                   \
    X(SKIP_MIN_INTERVAL, "min_interval")                                                           \
    X(SKIP_STORAGE_DOWN, "storage_unavailable")                                                    \
    X(SKIP_STRATEGY, "strategy_not_auto")                                                          \
    X(SKIP_BAD_INPUT, "bad_input")                                                                 \
    X(SKIP_NEAR_COMPLETION, "near_completion")

enum eval_verdict {
#define X(name, text) EVAL_##name,
    EVAL_VERDICTS(X)
#undef X
        EVAL_VERDICT_COUNT
};
const char *eval_verdict_name(enum eval_verdict verdict);
bool eval_verdict_fires(enum eval_verdict verdict);

enum eval_flag { /* bits of eval_view.flags */
    EVAL_FLAG_ACTIVE = 1,        /* a checkpoint is active or paused */
    EVAL_FLAG_STORAGE_DOWN = 2,  /* its target is unavailable */
    EVAL_FLAG_NOT_AUTO = 4,      /* strategy manual or none */
    EVAL_FLAG_WALLTIME_DONE = 8, /* the walltime checkpoint was already asked for */
    EVAL_FLAG_RECLAIMABLE = 16   /* borrowed nodes */
};

/* Parameters of one cycle, the same for every job. From the replicated policy. */
struct eval_policy {
    double cycle_s;
    double min_interval_s;
    double max_interval_s;
    double lambda_node_per_s;  /* prior hazard of one healthy node */
    double quiesce_s;
    double stall_fraction;
    double restart_s;
    double usd_per_gpu_hour;
    double retention_months;
    double horizon_clamp;      /* of H; 0.7 */
    double phi_gpu_s_per_byte; /* shadow price of shared bandwidth; 0: uncontended */
    double pressure;           /* backlog, 0..1 */
    double backlog_urgency;    /* mean, 1 = equal */
    double near_completion_s;
};

/* Inputs: one array element per job, all arrays of `count`. The view owns nothing; the caller allocates with eval_view_alloc. */
struct eval_view {
    size_t count;
    size_t capacity;
    double *age_s;              /* progress since the snapshot instant of the last complete checkpoint */
    double *gpus;
    double *nodes;
    double *size_bytes;
    double *bandwidth_bytes_per_s; /* min(job's injection, usable share of its target); 0 in an outage */
    double *hazard_factor;      /* product of health multipliers; 1 = healthy */
    double *kill_per_s;         /* hazard of being killed without warning beside node failures */
    double *alarm_h;            /* sum over alarms of -ln(1 - p_post*(1-exp(-h/L))); 0: none */
    double *walltime_left_s;    /* infinite: none */
    double *write_quantile_s;   /* high quantile of its write time; 0: estimate from w */
    double *period_s;           /* 0: none */
    double *usd_per_gb_month;
    double *waiting_gain_gpu_s; /* U_pre */
    double *yield_probability;  /* p_y; 0: from backlog alone */
    double *grace_s;
    uint32_t *flags;
};
void eval_view_alloc(struct eval_view *view, size_t capacity);
void eval_view_free(struct eval_view *view);

/* Outputs per job, GPU-seconds. */
struct eval_result {
    double *recompute_saved;
    double *preemptability;
    double *backlog_relief;
    double *write_time;
    double *compute_waste;
    double *storage_cost;
    double *write_s;
    double *hazard_per_s;
    double *failure_probability;
    double *young_daly_s;
    uint8_t *verdict;
};
void eval_result_alloc(struct eval_result *result, size_t capacity);
void eval_result_free(struct eval_result *result);

void eval_score(const struct eval_policy *policy, const struct eval_view *view,
                struct eval_result *ret_result);

/* Writes in words the smallest single change that flips job i's decision, e.g. "last-checkpoint age >= 3h11m (in 52 min)". */
void eval_flip_text(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                    const struct eval_result *result, char *ret_text, size_t size);

#endif
