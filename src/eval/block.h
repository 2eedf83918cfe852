/* The intermediate numbers of a block of jobs, in the first-level cache between the passes of the
 * model.
 *
 * Flow     eval_score() (score.c) -> for each block: block_timing (timing.c), then hazard, value,
 *          cost (terms.c) and verdict. What each pass does to one job is in job.h. eval_decide()
 *          (decide.c) does it all in one loop.
 * Shapes   BLOCK_JOBS jobs at once; each pass is one loop without branches over arrays that do not
 *          overlap, so that the compiler vectorises it.
 * Units    seconds and GPU-seconds; the 0/1 arrays are doubles because a pass of one element type
 *          vectorises best.
 */
#ifndef CKPT_EVAL_BLOCK_H
#define CKPT_EVAL_BLOCK_H

#include "src/eval/model.h"

enum { BLOCK_JOBS = 128, EVAL_LINE_DOUBLES = 8 /* of a cache line */ };

/* Constants of the model that are not policy. */
#define EVAL_NUMBER_MAX 1e30 /* an input from here on makes no sense; keeps every product finite */
#define EVAL_USD_MIN    1e-9 /* a GPU-hour that costs less is one without a price */
#define EVAL_WRITE_QUANTILE_FACTOR                                                                 \
    1.25 /* high quantile of the write time over its mean, before any history */
#define EVAL_BACKLOG_YIELD_MAX 0.05 /* p_y from backlog alone, at full pressure */
#define EVAL_RECLAIM_PROBABILITY                                                                   \
    0.05 /* that a lender calls borrowed nodes back while higher work waits */
#define EVAL_WAIT_SAVED_MAX_S                                                                      \
    3600.0                    /* by how much freed nodes bring a waiting job forward, at most */
#define EVAL_ALARM_H_MAX 50.0 /* a certain alarm; far above any clamp, and finite */

/* Policy made safe for dividing. */
struct block_policy {
    const struct eval_policy *given;
    double clamp;
    double backlog_yield;   /* p_y from backlog alone */
    double backlog_per_gpu; /* pressure * (urgency - 1), at least 0 */
    double storage_factor;  /* GPU-seconds per byte and USD/GB-month */
};

struct block {
    double bad[BLOCK_JOBS];       /* 1: inputs make no sense */
    double up[BLOCK_JOBS];        /* 1: storage takes writes */
    double sensitive[BLOCK_JOBS]; /* 1: intervals of its own */
    double first_one[BLOCK_JOBS]; /* 1: none before its period */
    double done[BLOCK_JOBS];      /* 1: the walltime checkpoint was asked for */
    double reclaim[BLOCK_JOBS];   /* that a lender calls its nodes back while higher work waits */
    double stays[BLOCK_JOBS];     /* 1: it never yields its nodes */
    double sure[BLOCK_JOBS];      /* 1: the policy's certainty is that of its hazard */
    double write_s[BLOCK_JOBS];   /* expected; 0 in an outage, so that nothing here is infinite */
    double stall_s[BLOCK_JOBS];   /* c */
    double slot_s[BLOCK_JOBS];    /* walltime left at the last safe moment */
    double horizon_s[BLOCK_JOBS]; /* h */
    double h_fail[BLOCK_JOBS];    /* H of node failures and alarms, clamped */
    double h_kill[BLOCK_JOBS];    /* H of being killed, clamped */
    double late[BLOCK_JOBS];      /* 1: a checkpoint asked for now would not end before SIGKILL */
    double due[BLOCK_JOBS];       /* 1: at the walltime slot, worth it, and still in time */
    double code[BLOCK_JOBS];      /* of the verdict; a double for the loop's sake */
};

/* Of a view from its row `first` on. */
static inline size_t block_jobs(const struct eval_view *view, size_t first)
{
    size_t left = view->count - first;

    return left < BLOCK_JOBS ? left : BLOCK_JOBS;
}

void block_policy_init(struct block_policy *ret_block_policy, const struct eval_policy *policy);
bool eval_policy_valid(const struct eval_policy *policy);
/* Whether a flag of the block changes a number; if so they are decoded into up, sensitive,
 * first_one, done, reclaim, stays and sure. */
bool block_flags_tell(const struct eval_view *view, size_t first, size_t count);
void block_decode_flags(const struct eval_view *view, size_t first, size_t count,
                        struct block *block);
void block_timing(const struct block_policy *policy, const struct eval_view *view, size_t first,
                  size_t count, struct block *block);
/* Results from here on are those of the block alone (row 0 is the block's first job). block_terms()
 * leaves out what is only shown when young_daly_s and failure_probability are NULL. */
void block_terms(const struct block_policy *policy, const struct eval_view *view, size_t first,
                 size_t count, struct block *block, struct eval_result *result);
/* The codes of verdicts, and the flags that stand against each; where no input is bad. */
void block_verdicts(const struct eval_view *view, size_t first, size_t count, const double *codes,
                    uint8_t *ret_verdicts);
/* All of it, pass after pass. */
void block_score(const struct block_policy *policy, const struct eval_view *view, size_t first,
                 size_t count, struct eval_result *rows);

#endif
