/* See jobs.h. */
#include "tests/unit/eval/jobs.h"

struct eval_policy seed_policy(double failures_per_1000_node_days)
{
    return (struct eval_policy){.cycle_s = 60,
                                .lambda_node_per_s = failures_per_1000_node_days / 1000 / 86400,
                                .stall_fraction = 1,
                                .restart_s = 180,
                                .usd_per_gpu_hour = 2,
                                .retention_months = 12.0 / 730,
                                .horizon_clamp = 0.7,
                                .backlog_urgency = 1};
}

void job_init(struct job *job)
{
    eval_view_alloc(&job->view, 1);
    eval_result_alloc(&job->result, 1);
    job->view.count = 1;
    job->view.nodes[0] = 64;
    job->view.gpus[0] = 512;
    job->view.size_bytes[0] = 512 * 80e9;
    job->view.bandwidth_bytes_per_s[0] = 100e9;
}

void job_close(struct job *job)
{
    eval_view_free(&job->view);
    eval_result_free(&job->result);
}

enum eval_verdict job_score(struct job *job, const struct eval_policy *policy)
{
    eval_score(policy, &job->view, &job->result);
    return (enum eval_verdict)job->result.verdict[0];
}

double job_value(const struct job *job)
{
    return eval_result_value(&job->result, 0);
}

double job_cost(const struct job *job)
{
    return eval_result_cost(&job->result, 0);
}

double job_interval_s(struct job *job, const struct eval_policy *policy)
{
    double given = job->view.age_s[0], no = 0, yes = 1e9;

    while (yes - no > 0.01) {
        double middle = (no + yes) / 2;
        job->view.age_s[0] = middle;
        if (eval_verdict_fires(job_score(job, policy)))
            yes = middle;
        else
            no = middle;
    }
    job->view.age_s[0] = given;
    return yes;
}
