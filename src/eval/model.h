/* The decision model: is a checkpoint of this job worth its cost now? Pure functions, floating
 * point allowed here only.
 *
 * Flow     the broker fills struct eval_view (structure of arrays, one slot per running allocation)
 *          from the committed state, calls eval_score() once a cycle, and turns the slots whose
 *          verdict fires into proposals (integers).
 * Shapes   view and result own their arrays; results hold as many elements as their capacity, at
 *          least view->count.
 * Units    GPU-seconds for value and cost; seconds; bytes; bytes per second; failures per second.
 * Errors   an input that is NaN, or impossibly negative or large (1e30 and more), gives
 *          SKIP_BAD_INPUT with all terms 0; NaN never decides and never comes out. In an outage
 *          (bandwidth 0 or the flag) write_s, compute_waste and young_daly_s are infinite.
 * Absent   choosing among actions beside checkpointing (actions.h), pacing (pace.h), learning the
 *          inputs (learn.h).
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
    X(SKIP_NEAR_COMPLETION, "near_completion")                                                     \
    X(SKIP_PACED, "waits_for_bandwidth")                                                           \
    X(CHECKPOINT_MOVE, "checkpoint_and_migrate")                                                   \
    X(SKIP_QUOTA, "tenant_over_quota")

/* The first that holds counts: bad input, strategy, active (not at the walltime slot while it
 * waits), storage down, walltime slot, near completion, minimum interval, value above cost,
 * declared period, maximum interval. Else: value below cost. The broker replaces the model's
 * verdict by that of the payoffs of actions, of pacing or of the tenant's limit. */
enum eval_verdict {
#define X(name, text) EVAL_##name,
    EVAL_VERDICTS(X)
#undef X
        EVAL_VERDICT_COUNT
};
const char *eval_verdict_name(enum eval_verdict verdict);
bool eval_verdict_fires(enum eval_verdict verdict);

enum eval_flag {                             /* bits of eval_view.flags */
                 EVAL_FLAG_ACTIVE = 1,       /* a checkpoint is active or paused */
                 EVAL_FLAG_STORAGE_DOWN = 2, /* its target is unavailable */
                 /* strategy manual or none, or a part has finished: nothing is asked */
                 EVAL_FLAG_NOT_AUTO = 4,
                 EVAL_FLAG_WALLTIME_DONE = 8, /* the walltime checkpoint was asked for already */
                 EVAL_FLAG_RECLAIMABLE = 16,  /* borrowed nodes */
                 EVAL_FLAG_SENSITIVE = 32,    /* has minimum and maximum interval of its own */
                 /* a node's health raises its hazard; changes no verdict */
                 EVAL_FLAG_UNHEALTHY = 64,
                 /* the active checkpoint writes nothing yet: the walltime slot hurries it */
                 EVAL_FLAG_WAITING = 128,
                 EVAL_FLAG_STAYS = 256,   /* no preemption takes its nodes: p_y is 0 */
                 EVAL_FLAG_DOUBTED = 512, /* it died by itself before: its hazard is not known */
                 /* none is complete yet, and period_s is when the first one is due, not before */
                 EVAL_FLAG_FIRST = 1024
};

/* Parameters of one cycle, the same for every job, from the replicated policy. A negative or absurd
 * one makes every verdict SKIP_BAD_INPUT. */
#define EVAL_POLICY_NUMBERS(X)                                                                     \
    X(cycle_s)                                                                                     \
    X(min_interval_s)                                                                              \
    X(max_interval_s) /* 0: no backstop */                                                         \
    X(sensitive_min_interval_s)                                                                    \
    X(sensitive_max_interval_s) /* 0: no backstop */                                               \
    X(lambda_node_per_s)        /* prior hazard of one healthy node */                             \
    X(quiesce_s)                                                                                   \
    X(stall_fraction) /* of the write during which the job does not compute; 1: synchronous */     \
    X(restart_s)                                                                                   \
    X(usd_per_gpu_hour) /* 0 (below 1e-9): money is not weighed, storage_cost is 0 */              \
    X(retention_months)                                                                            \
    X(horizon_clamp)      /* of H; 0.7, also taken for anything outside (0, 0.74] */               \
    X(phi_gpu_s_per_byte) /* shadow price of shared bandwidth; 0: uncontended */                   \
    X(pressure)           /* backlog, 0..1 */                                                      \
    X(backlog_urgency)    /* mean, 1 = equal */                                                    \
    X(near_completion_s)                                                                           \
    X(certainty) /* of the hazard, 0..1: believed over the highest that what was seen allows */

struct eval_policy {
#define X(number) double number;
    EVAL_POLICY_NUMBERS(X)
#undef X
};

/* Inputs: one array element per job, all arrays of `count`. eval_view_alloc sets everything to 0,
 * except hazard_factor, success_probability and stall_factor to 1 and walltime_left_s to
 * infinity. */
#define EVAL_VIEW_COLUMNS(X)                                                                       \
    X(age_s) /* progress since the snapshot instant of the last complete checkpoint */             \
    X(gpus)                                                                                        \
    X(nodes)                                                                                       \
    X(size_bytes)                                                                                  \
    X(bandwidth_bytes_per_s) /* min(job's injection, usable share of its target); 0: outage */     \
    X(hazard_factor)    /* mean over its nodes of the health multipliers' product; 1: healthy */   \
    X(kill_per_s)       /* hazard of being killed without warning beside node failures */          \
    X(alarm_h)          /* sum of eval_alarm_hazard() over its alarms; 0: none */                  \
    X(walltime_left_s)  /* until SIGTERM; infinite: none */                                        \
    X(write_quantile_s) /* high quantile of its write time; 0: estimate from w */                  \
    X(period_s)         /* 0: none */                                                              \
    X(usd_per_gb_month)                                                                            \
    X(waiting_gain_gpu_s)  /* U_pre */                                                             \
    X(yield_probability)   /* p_y; 0: from backlog alone */                                        \
    X(grace_s)             /* SIGTERM to SIGKILL */                                                \
    X(success_probability) /* of a checkpoint begun now; multiplies the value */                   \
    X(stall_factor)        /* measured stall fraction over the policy's; 1: as the policy says */

struct eval_view {
    size_t count;
    size_t capacity;
#define X(column) double *column;
    EVAL_VIEW_COLUMNS(X)
#undef X
    uint32_t *flags;
    double *memory; /* holds the columns */
};
void eval_view_alloc(struct eval_view *view, size_t capacity);
void eval_view_free(struct eval_view *view);
/* Copies row i into row 0 of a view with room for one; its count becomes 1. */
void eval_view_copy_row(const struct eval_view *view, size_t i, struct eval_view *ret_one);

/* Outputs per job. GPU-seconds unless the name says otherwise. */
#define EVAL_RESULT_COLUMNS(X)                                                                     \
    X(recompute_saved) /* at the walltime slot: everything since the last checkpoint */            \
    X(preemptability)                                                                              \
    X(backlog_relief)                                                                              \
    X(write_time) /* shadow price of the shared storage, not seconds: those are write_s */         \
    X(compute_waste)                                                                               \
    X(storage_cost)                                                                                \
    X(write_s)                                                                                     \
    X(hazard_per_s)                                                                                \
    X(failure_probability) /* over the model's horizon */                                          \
    X(young_daly_s)

struct eval_result {
#define X(column) double *column;
    EVAL_RESULT_COLUMNS(X)
#undef X
    uint8_t *verdict;
    double *memory; /* holds the columns */
};
void eval_result_alloc(struct eval_result *result, size_t capacity);
void eval_result_free(struct eval_result *result);
double eval_result_value(const struct eval_result *result, size_t i);
double eval_result_cost(const struct eval_result *result, size_t i);

void eval_score(const struct eval_policy *policy, const struct eval_view *view,
                struct eval_result *ret_result);
/* The verdicts alone, bit for bit those of eval_score(), at about the cost of reading the view: for
 * clusters where few of many jobs fire. */
void eval_decide(const struct eval_policy *policy, const struct eval_view *view,
                 uint8_t *ret_verdict);

/* For `count` jobs at one instant: seconds since since_ms and until end_ms (infinite: never), not
 * below 0. Milliseconds are whole, so every way to compute the seconds gives the same bits. */
void eval_times(double now_ms, const double *since_ms, const double *end_ms, size_t count,
                double *ret_since_s, double *ret_left_s);

/* Seconds over which eval_score() counts failures of job i: half the age, cut at the planned
 * walltime checkpoint. The broker needs it to fill alarm_h. */
double eval_horizon_s(const struct eval_policy *policy, const struct eval_view *view, size_t i);
/* One alarm's share of H: precision p (0..1), mean lead L between alarm and failure, s seconds
 * since the alarm. 0 for inputs that make no sense; finite for a certain alarm. */
struct eval_alarm {
    double precision;
    double lead_s;
    double since_s;
};
double eval_alarm_hazard(const struct eval_alarm *alarm, double horizon_s);

/* The smallest relative change of one input that flips the decision (to fire or not), when it is
 * applied exactly. False: no single change does. GPUs and nodes are held: with other ones it would
 * be another job. */
enum eval_input {
#define X(column) EVAL_INPUT_##column,
    EVAL_VIEW_COLUMNS(X)
#undef X
        EVAL_INPUT_FLAGS,
    EVAL_INPUT_COUNT
};
struct eval_change {
    enum eval_input input;
    double from, to;
    uint32_t flag; /* for EVAL_INPUT_FLAGS: the cleared flag */
    double relative;
};
const char *eval_input_name(enum eval_input input);  /* in words; not for FLAGS */
const char *eval_column_name(enum eval_input input); /* "age_s", ..., "flags" */
bool eval_smallest_change(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                          struct eval_change *ret_change);
/* For a decision under a guard that the model does not know: true: row 0 with this verdict passes
 * the guard. */
typedef bool eval_passes_fn(const struct eval_view *one, enum eval_verdict verdict);
bool eval_smallest_change_guarded(const struct eval_policy *policy, const struct eval_view *view,
                                  size_t i, eval_passes_fn *passes, struct eval_change *ret_change);
void eval_change_apply(const struct eval_change *change, struct eval_view *view, size_t i);

/* Writes in words the smallest single changes that flip job i's decision, separated by " | ", e.g.
 * "last-checkpoint age >= 3h11m (in 52m) | bandwidth >= 14.0 GB/s". Cuts at size. Alarms are held
 * as they are. */
void eval_flip_text(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                    const struct eval_result *result, char *ret_text, size_t size);

#endif
