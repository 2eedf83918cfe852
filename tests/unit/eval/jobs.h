/* One job to score, and how to score it alone. */
#ifndef CKPT_TESTS_UNIT_EVAL_JOBS_H
#define CKPT_TESTS_UNIT_EVAL_JOBS_H

#include "src/eval/model.h"

/* The seed's job: 64 nodes x 8 GPUs x 80 GB at 100 GB/s, so w = c = 409.6 s; 2.34 failures per 1000
 * node-days unless changed. */
struct eval_policy seed_policy(double failures_per_1000_node_days);

struct job {
    struct eval_view view;
    struct eval_result result;
};
void job_init(struct job *job); /* the seed's job at age 0 */
void job_close(struct job *job);
enum eval_verdict job_score(struct job *job, const struct eval_policy *policy);
double job_value(const struct job *job);
double job_cost(const struct job *job);
/* Smallest age, to a hundredth of a second, at which the verdict fires; all else unchanged. */
double job_interval_s(struct job *job, const struct eval_policy *policy);

#endif
