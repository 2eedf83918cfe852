/* Whether a process is one of a job's (members.h), looked at off the loop: the environment of
 * another process may have to be waited for.
 *
 * Flow     member_look_start() -> done(), on the loop, once; not after member_look_detach().
 */
#ifndef CKPT_AGENT_MEMBER_LOOK_H
#define CKPT_AGENT_MEMBER_LOOK_H

#include <uv.h>

#include "src/agent/node/members.h"

enum member_verdict {
    MEMBER_BELONGS,
    MEMBER_STRANGER, /* it lives, and is none of the job's */
    MEMBER_ENDED,    /* it is not there */
    MEMBER_UNREAD    /* it cannot be read just now */
};

/* start_ticks: of the process that was looked at; 0: MEMBER_ENDED, or not known. */
typedef void member_done_fn(void *data, enum member_verdict verdict, uint64_t start_ticks);
struct member_look;
struct member_look *member_look_start(uv_loop_t *loop, const struct job_members *job, pid_t pid,
                                      member_done_fn *done, void *data);
void member_look_detach(struct member_look *look); /* NULL allowed */

#endif
