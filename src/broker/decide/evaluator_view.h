/* From the replicated state to what eval_score() reads, and from its result to integers for the
 * log.
 *
 * Flow     evaluator_cycle_begin() takes what is the same for every job (policy, queues, price of
 *          bandwidth); evaluator_fill() writes one row per allocation slot; decision_terms() turns
 *          a scored row into integers.
 * Shapes   a view holds the rows of consecutive allocation slots. Rows without a running allocation
 *          are zero with EVAL_FLAG_NOT_AUTO.
 * Units    seconds, bytes, GPU-seconds as double; integers saturate, NaN becomes 0 and never
 *          decides.
 * Source   src/eval/README.md; A-002; S1-053, S1-063.
 */
#ifndef CKPT_BROKER_EVALUATOR_VIEW_H
#define CKPT_BROKER_EVALUATOR_VIEW_H

#include "fsm/fsm.h"
#include "src/eval/fleet.h"
#include "src/eval/model.h"

struct node_health;
struct nodes;

enum {
    EVALUATOR_WAIT_MAX_MS = 3600000 /* no more than this is counted as a waiting job's gain */
};

#define EVALUATOR_TIME_MAX_MS   1e11 /* three years; no job runs longer */
#define EVALUATOR_BACKLOG_YIELD 0.05 /* p_y at full backlog (src/eval/README.md) */

/* What waiting jobs of classes above c would gain from some GPUs: jobs in falling order of gain per
 * GPU, running sums. */
struct waiting_curve {
    size_t count;
    double *gpus;       /* sum up to and including this job */
    double *gain_gpu_s; /* likewise */
};

/* Of a target, what its jobs' rows are made from. */
struct evaluator_target {
    uint64_t budget_bytes_per_s;     /* when up */
    uint64_t micro_usd_per_gb_month; /* 10^-6 US dollars per 10^9 bytes and 30 days */
    bool known, available;           /* there is such a target; it takes writes now */
};

/* What is the same for every job of a cycle. */
struct evaluator_cycle {
    uint64_t now_ms;           /* of the state's clock: all rows are made for this instant */
    struct eval_policy policy; /* with pressure, urgency and price of bandwidth of this cycle */
    uint64_t default_write_bytes_per_s, grace_ms, timeout_ms; /* of jobs without their own... */
    uint64_t sensitive_timeout_ms;                            /* ... that are sensitive */
    uint32_t node_gpus;                                       /* fsm_node_gpus() */
    struct evaluator_target targets[FSM_TARGETS_MAX];
    const struct nodes *nodes;        /* NULL: nobody hears of nodes */
    const struct node_health *health; /* NULL: every node is well */
    double recall, alarm_lead_s;      /* of health */
    struct eval_fleet_rates rates;
    double *age_factors; /* by node slot; NULL: evaluator_cycle_learned() was not called */
    uint8_t *node_marks; /* likewise: its bin of age and enum node_health_kind */
    uint32_t age_factor_count;
    const char *busy
        /* vClusters whose queue is busy: only compared, in the order of the queues */
        [FSM_QUEUES_MAX];
    uint32_t busy_count;
    struct waiting_curve waiting[FSM_CLASS_MAX + 1]; /* by the class of the running job */
};

/* One evaluation, borrowed: row 0 of its view and result. */
struct evaluator_row {
    struct eval_view view;
    struct eval_result result;
    const struct eval_policy *policy;
    uint64_t evaluated_at_ms;
};

/* A row of a view that was scored with all of its terms, borrowed. */
struct evaluator_scored {
    const struct eval_view *view;
    const struct eval_result *result;
    uint32_t row;
};

/* waiting: what waits for each target makes the price of bandwidth. */
void evaluator_cycle_begin(struct evaluator_cycle *cycle, const struct fsm *fsm,
                           const struct nodes *nodes, uint64_t now_ms,
                           const struct fsm_grantable_scan *waiting);
/* After begin: what the fleet taught. Without it the prior holds. */
void evaluator_cycle_learned(struct evaluator_cycle *cycle, const struct fsm *fsm,
                             const struct eval_fleet_rates *rates);
/* Gives back what begin and learned took; harmless for one that never began but is zeros. */
void evaluator_cycle_end(struct evaluator_cycle *cycle);

/* The allocation slots first .. end-1 as rows 0 .. of the view, which has room for them. */
void evaluator_fill(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                    struct eval_view *view, uint32_t first, uint32_t end);

/* What the times of a row follow from, in milliseconds, and the instant from which on its other
 * numbers may be different although nothing changed: 0 when they depend on the time all along. */
struct evaluator_times {
    double since_ms; /* progress counts from here */
    double end_ms;   /* of its walltime; infinite: none */
    double until_ms;
};
/* Of a row that was just filled. */
void evaluator_row_times(const struct evaluator_cycle *cycle, const struct fsm *fsm,
                         const struct fsm_allocation *allocation, const struct eval_view *view,
                         uint32_t row, struct evaluator_times *ret_times);
double evaluator_yield_probability(const struct evaluator_cycle *cycle, uint32_t group,
                                   double age_s, double walltime_left_s);
/* Until when what is learned into it holds, but for the probability to yield, which follows the
 * times. */
double evaluator_learned_until_ms(const struct evaluator_cycle *cycle,
                                  const struct fsm_allocation *allocation,
                                  const struct eval_view *view, uint32_t row);
/* The class above which waiting jobs may get the job's nodes; EVALUATOR_YIELDS_NEVER: none. */
enum { EVALUATOR_YIELDS_NEVER = 0xff };
uint8_t evaluator_yields_class(const struct fsm_allocation *allocation);
bool evaluator_runs(const struct fsm_allocation *allocation); /* NULL allowed */

static inline uint8_t evaluator_mark(uint32_t age_bin, unsigned kind)
{
    return (uint8_t)(age_bin << 2 | kind);
}
static inline unsigned evaluator_mark_kind(uint8_t mark)
{
    return mark & 3;
}

/* Of a node, for how long ago it failed last. */
double evaluator_age_factor(const struct evaluator_cycle *cycle, uint32_t node_slot);
/* What is learned into a row that holds the rest. */
void evaluator_fill_learned(const struct evaluator_cycle *cycle,
                            const struct fsm_allocation *allocation,
                            const struct fsm_target *target, struct eval_view *view, uint32_t row);
/* fsm_group(), by the queues as they were when the cycle began. */
uint32_t evaluator_group(const struct evaluator_cycle *cycle,
                         const struct fsm_allocation *allocation);

/* The rows first .. end-1 as a view and a result of their own (nothing is copied). */
struct eval_view evaluator_view_rows(const struct eval_view *view, size_t first, size_t end);
struct eval_result evaluator_result_rows(const struct eval_result *result, size_t first);

/* GPU time that waits over GPU time that runs, at most 1; 1 when something waits and nothing
 * runs. */
double evaluator_pressure(double queued_gpu_ms, double running_gpu_ms);
/* Not older than the policy lets a queue report speak. */
bool evaluator_queue_fresh(const struct fsm *fsm, const struct fsm_queue *queue, uint64_t now_ms);
/* Of a waiting job, per GPU, in seconds. */
double evaluator_waiting_gain(const Ckpt__V1__WaitingJob *job);
/* What waiting jobs would gain from this many GPUs, at most. */
double waiting_gain_gpu_s(const struct waiting_curve *curve, double gpus);

/* For the log, which holds integers alone. Saturating; NaN is 0. */
int64_t saturate_int64(double value);
uint64_t saturate_uint64(double value);
/* verdict's text is static. */
void decision_terms(const struct eval_view *view, const struct eval_result *result, size_t row,
                    Ckpt__V1__Purpose purpose, Ckpt__V1__DecisionTerms *ret_terms);
/* Adds which weight counted; the row has the number alone. */
void decision_weighed(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      Ckpt__V1__DecisionTerms *terms);
/* What a checkpoint of that verdict is for; decision_purpose(): of the row's own verdict. */
Ckpt__V1__Purpose verdict_purpose(const struct eval_view *view, enum eval_verdict verdict,
                                  size_t row);
Ckpt__V1__Purpose decision_purpose(const struct eval_view *view, const struct eval_result *result,
                                   size_t row);
/* (value - waste - storage cost) per byte, GPU-seconds; never NaN. */
double decision_gain(const struct eval_view *view, const struct eval_result *result, size_t row);
/* The same in GPU-milliseconds per 10^9 bytes; never negative. */
uint64_t decision_priority(const struct eval_view *view, const struct eval_result *result,
                           size_t row);

#endif
