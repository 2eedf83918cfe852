/* Hangs: running jobs of which no rank steps any more, as far as their ranks say steps.
 *
 * Flow     the leader hears how long the ranks of each node have been quiet
 *          (src/broker/decide/hangs.h) and proposes a Hang with the evidence. The state takes it
 *          only while the job could step: it runs, nothing is under way, all its nodes are heard.
 *          A Hang of quiet time 0 ends it: a rank has stepped again.
 * Shapes   hung_since_ms is a mark of a job that is RUNNING, as `unresponsive` is. Each move to
 *          another state but a checkpoint's takes it off. The evidence stays until the next hang.
 * Units    milliseconds.
 * Source   V-030.
 */
#ifndef CKPT_FSM_HANG_H
#define CKPT_FSM_HANG_H

#include "fsm/fsm.h"

enum {
    FSM_HANG_GAPS = 10,   /* so many times its gap between steps is a hang */
    FSM_HANG_UNPACED = 6, /* so many times hang_after, where it has stepped once: the first step of
                             a program may build what all others use */
    FSM_HANG_TEXT_BYTES = FSM_DETAIL_BYTES
};

/* For so long no rank of a job that hangs has stepped. gap_p99_ms: 0 where there is no gap yet. */
uint64_t fsm_hang_limit_ms(const Ckpt__V1__Policy *policy, uint64_t gap_p99_ms);
/* OK: it could step now. Else why nothing may be said of it: NOT_HUNG. */
enum fsm_status fsm_hang_possible(const struct fsm *fsm, const struct fsm_allocation *allocation);
/* Ranks of that part could step: its application has not finished. */
bool fsm_hang_steps(const struct fsm *fsm, const struct fsm_allocation *allocation, uint32_t place);
/* It is HUNG. */
bool fsm_hung(const struct fsm_allocation *allocation);

#endif
