/* See errand.h. */
#include "src/broker/keep/errand.h"

#include <stdlib.h>

#include "src/base/check.h"

/* Lives until the worker is done, which may be after the errand's duty was freed. */
struct errand_run {
    struct errand *errand; /* NULL: its result is not wanted any more */
    struct worker *worker;
    worker_done_fn *done;
    void *data;
};

static void on_done(void *data, const struct worker_result *result)
{
    struct errand_run run = *(struct errand_run *)data;

    free(data);
    if (run.errand == NULL)
        return;
    run.errand->run = NULL;
    run.done(run.data, result);
}

void errand_claim(const struct fsm *fsm, struct errand_claim *ret_claim)
{
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    ret_claim->cluster_id = summary.cluster_id;
    (void)mark_claim_format(mark_of(summary.cluster_id), summary.epoch, ret_claim->claim);
}

int errand_start(struct errand *errand, uv_loop_t *loop, const struct worker_task *task,
                 struct err *err)
{
    struct errand_run *run = check_calloc(1, sizeof(*run));
    struct worker_task own = *task;

    CHECK(errand->run == NULL);
    *run = (struct errand_run){.errand = errand, .done = task->done, .data = task->data};
    own.done = on_done;
    own.data = run;
    if (worker_start(loop, &own, &run->worker, err) != 0) {
        free(run);
        return -1;
    }
    errand->run = run;
    return 0;
}

bool errand_runs(const struct errand *errand)
{
    return errand->run != NULL;
}

void errand_cancel(struct errand *errand)
{
    if (errand->run != NULL)
        worker_cancel(errand->run->worker);
}

void errand_close(struct errand *errand)
{
    if (errand->run == NULL)
        return;
    errand->run->errand = NULL;
    worker_cancel(errand->run->worker);
    errand->run = NULL;
}
