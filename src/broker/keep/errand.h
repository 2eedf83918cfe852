/* The one worker that a duty of the leader has at a time.
 *
 * Flow     errand_start() as worker_start(); the task's done gets the task's data, which is the
 *          duty, when the errand is over: another one may be started from inside.
 * Shapes   a part of the duty's record, zero at first. A worker may outlive its duty, so what
 *          worker.h calls back is a small record of its own.
 * Errors   those of worker_start(); then no errand runs, and done is never called.
 */
#ifndef CKPT_BROKER_ERRAND_H
#define CKPT_BROKER_ERRAND_H

#include "fsm/fsm.h"
#include "src/dest/mark.h"
#include "src/dest/worker.h"

struct errand {
    struct errand_run *run; /* NULL: no worker */
};

/* The words of this cluster for a worker that writes or removes at a target: --cluster and
 * --cluster-id (mark.h). cluster_id is the state's. */
struct errand_claim {
    char claim[MARK_CLAIM_BYTES];
    const char *cluster_id;
};
void errand_claim(const struct fsm *fsm, struct errand_claim *ret_claim);

/* None runs yet. The task is copied. */
int errand_start(struct errand *errand, uv_loop_t *loop, const struct worker_task *task,
                 struct err *err);
bool errand_runs(const struct errand *errand);
/* Ends its worker; done still comes, with cancelled = true. */
void errand_cancel(struct errand *errand);
/* Its duty is going: likewise, and done does not come any more. */
void errand_close(struct errand *errand);

#endif
