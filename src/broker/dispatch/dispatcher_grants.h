/* Which waiting checkpoints get bandwidth now. Pure.
 *
 * Flow     candidates in the order of granting, targets with their budget and what is granted ->
 *          grants.
 * Shapes   per target: strict order. A checkpoint takes a place per part, all at once; one that has
 *          more parts than there are places goes when nothing else is written. The first that does
 *          not fit holds back all after it, except those that bypass. Half of a budget and half of
 *          the places at most are for jobs of which nothing tells that they answer, and each takes
 *          half of what is left of that budget; one that has more parts than that goes when no
 *          other of its kind is written. Who waits for such ones
 *          alone holds back nobody, so that a few applications that hang do not stop the
 *          checkpoints of all others until their time is over.
 * Units    bytes per second, milliseconds.
 * Source   S1-045, D-001, D-002, S2-032; strict order, no skipping, deadline candidates are not
 *          held back.
 * Errors   none: what does not fit is not granted. A candidate without a rate is a bug of the
 *          caller (CHECK).
 */
#ifndef CKPT_BROKER_DISPATCHER_GRANTS_H
#define CKPT_BROKER_DISPATCHER_GRANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A checkpoint that waits. */
struct grant_candidate {
    uint64_t checkpoint_id;
    uint32_t target;             /* index of its target */
    uint64_t wanted_bytes_per_s; /* what its nodes can write together; > 0 */
    uint64_t size_bytes;
    uint64_t timeout_ms;        /* the policy's or the allocation's */
    uint32_t parts;             /* places that it takes; > 0 */
    double gain_gpu_s_per_byte; /* 0: it is not weighed, since somebody asked for it */
    bool bypass;                /* a deadline stands behind it */
    bool unproven;              /* others go past: fsm_allocation_unproven() */
};
struct grant_target {
    uint64_t budget_bytes_per_s;   /* 0: nothing is granted */
    uint64_t granted_bytes_per_s;  /* brought up to date */
    uint64_t unproven_bytes_per_s; /* of these, of unproven ones; likewise */
    uint32_t places;               /* parts that may be written at a time; 0: no limit */
    uint32_t writing;              /* of these, taken; brought up to date */
    uint32_t unproven_writing;     /* of these, by unproven ones; likewise */
    bool full;                     /* the first in line did not fit; set here */
};
/* What a checkpoint may write with, and for how long. */
struct grant {
    uint64_t checkpoint_id;
    uint64_t bytes_per_s; /* of all its nodes together */
    uint64_t timeout_ms;  /* grant_timeout_ms() */
    bool bypass_budget;   /* takes the sum over the budget */
};

/* Writes at most candidate_count grants, returns how many. The sum of those without bypass_budget
 * never exceeds a budget. */
size_t grants_pack(const struct grant_candidate *candidates, size_t candidate_count,
                   struct grant_target *targets, struct grant *ret_grants);
/* max(timeout, twice the time to write size at this rate); decision 4 of the requirements. */
uint64_t grant_timeout_ms(uint64_t timeout_ms, uint64_t size_bytes, uint64_t bytes_per_s);

#endif
