/* What a run does not begin from, or not yet: for those who wait for it, and for who restarts it.
 *
 * Flow     which checkpoint a run begins from is fsm.h's (fsm_begin_point); here is why it is not
 *          the newest one, what that costs, and who still reads.
 * Units    run time in ms; parts and places are counted.
 */
#ifndef CKPT_FSM_BEGIN_H
#define CKPT_FSM_BEGIN_H

#include "fsm/fsm.h"

/* What a job repeats that does not wait for a checkpoint whose target is away (S2-007), 0: nothing
 * is; and when it begins without it, 0: never. */
struct fsm_discard {
    uint64_t discarded_ms, at_ms;
};
void fsm_begin_discards(const struct fsm *fsm, const struct fsm_allocation *view,
                        struct fsm_discard *ret_discard);
/* What the run that is to start does not begin from, and why. */
struct fsm_begin_without {
    Ckpt__V1__BeginCause cause;
    uint64_t checkpoint_id, repeated_ms; /* as in BeginWithout */
};
void fsm_begin_without(const struct fsm *fsm, const struct fsm_allocation *view,
                       struct fsm_begin_without *ret_without);
struct fsm_reads { /* which of its parts read what they begin from, or wait in line to */
    const struct fsm_target *target; /* from where; NULL: none does either */
    uint32_t reading, waiting;       /* parts */
    uint32_t place, line; /* of the job, from 1, 0: none waits, or far behind; of so many jobs */
};
void fsm_reads(const struct fsm *fsm, const struct fsm_allocation *allocation,
               struct fsm_reads *ret_reads);

#endif
