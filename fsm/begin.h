/* The checkpoint that a run does not begin from, or not yet: for people who wait for the run or
 * restart it.
 *
 * Flow     fsm_begin_point() in fsm.h has the checkpoint that a run begins from. This file says why
 *          it is not the newest one, how much work is repeated, and which parts still read.
 * Units    run time in ms; parts and places are counted.
 */
#ifndef CKPT_FSM_BEGIN_H
#define CKPT_FSM_BEGIN_H

#include "fsm/fsm.h"

/* The work that a job repeats when it does not wait for a checkpoint on a target that is away
 * (S2-007), 0: none; and the instant at which it begins without the checkpoint, 0: never. */
struct fsm_discard {
    uint64_t discarded_ms, at_ms;
};
void fsm_begin_discards(const struct fsm *fsm, const struct fsm_allocation *view,
                        struct fsm_discard *ret_discard);
/* The newest checkpoint that the starting run does not begin from, and why. */
struct fsm_begin_without {
    Ckpt__V1__BeginCause cause;
    uint64_t checkpoint_id, repeated_ms; /* as in BeginWithout */
};
void fsm_begin_without(const struct fsm *fsm, const struct fsm_allocation *view,
                       struct fsm_begin_without *ret_without);
struct fsm_reads { /* the job's parts that read their files, or wait in line to read */
    const struct fsm_target *target; /* the source; NULL: no part reads or waits */
    uint32_t reading, waiting;       /* parts */
    uint32_t place, line; /* the job's place, from 1, 0: none waits, or far behind; jobs in line */
};
void fsm_reads(const struct fsm *fsm, const struct fsm_allocation *allocation,
               struct fsm_reads *ret_reads);

#endif
