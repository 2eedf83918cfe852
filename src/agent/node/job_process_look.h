/* Whether a process is one of a job's (job_processes.h), looked at off the loop: the environment of
 * another process may have to be waited for.
 *
 * Flow     job_process_look_start() -> done(), on the loop, once; not after
 *          job_process_look_detach().
 */
#ifndef CKPT_AGENT_JOB_PROCESS_LOOK_H
#define CKPT_AGENT_JOB_PROCESS_LOOK_H

#include <uv.h>

#include "src/agent/node/job_processes.h"

enum process_verdict {
    VERDICT_BELONGS,
    VERDICT_STRANGER, /* it lives, and is none of the job's */
    VERDICT_ENDED,    /* it is not there */
    VERDICT_UNREAD    /* it cannot be read just now */
};

/* start_ticks: of the process that was looked at; 0: VERDICT_ENDED, or not known. */
typedef void process_done_fn(void *data, enum process_verdict verdict, uint64_t start_ticks);
struct job_process_look;
struct job_process_look *job_process_look_start(uv_loop_t *loop, const struct job_identity *job,
                                                pid_t pid, process_done_fn *done, void *data);
void job_process_look_detach(struct job_process_look *look); /* NULL allowed */

#endif
