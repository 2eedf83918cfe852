/* Orders against what is in hand: which steps follow. Pure, so that the whole table is a unit test.
 *
 * Flow     the broker sends the whole set of orders each time it changes; what is in hand but not
 *          in the set is withdrawn. The caller runs it again after each set, each attach and each
 *          end of an attempt, until it yields nothing. An application of a run that the set does
 *          not name ends, unless that run began after the state from which the set was derived: it
 *          came with a restart point, which may overtake the set. So no set ends what was started
 *          after it.
 * Shapes   caller's arrays; at most two steps per order and two per hand. An order is of a run
 *          (proto/ckpt/v1/agent.proto).
 * Errors   an order that does not make sense (id, kind, path), or of which the set has another one
 *          before, yields STEP_IGNORE with a text: it is logged, never carried out.
 * Absent   no I/O, no clock; COLLECT and VERIFY orders, which are of no job (owner_orders.h).
 *          Fencing is done before (ledger.h).
 * Source   invariants I22, I25.
 */
#ifndef CKPT_AGENT_RECONCILE_H
#define CKPT_AGENT_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/v1/agent.pb-c.h"

enum {
    RECONCILE_ORDERS_MAX = 1024,
    RECONCILE_PATH_MAX_BYTES = 2048,
    RECONCILE_PREFIX_MAX_BYTES = 1025,
    RECONCILE_SHA256_HEX = 64
};

/* Of one allocation. (checkpoint_id, attempt) is the highest ever started here: anything not above
 * it is used up. */
struct hand {
    const char *allocation_id;
    uint64_t checkpoint_id;
    uint32_t attempt;
    bool busy;           /* the attempt is in progress */
    bool cancelling;     /* ... and on its way out already */
    bool put_off;        /* ... and waits until its application is asked again */
    bool still;          /* ... its part is verified, and the application stands still for it */
    uint64_t timeout_ms; /* of the attempt, as far as it is known */
    Ckpt__V1__AfterCheckpoint after; /* likewise */
    Ckpt__V1__BarrierPhase barrier;
    uint64_t agreed_step;
    bool runs;          /* an application of this run */
    bool stopping;      /* SIGTERM was sent, by order or walltime */
    bool ended;         /* it is over here: a ckpt-run that comes must not start it again */
    bool terminated;    /* an order to terminate was carried out and reported */
    uint64_t run;       /* of its application, or of the last one; 0: there was none */
    uint64_t ended_run; /* it and all before are over here */
    /* of the order that ended it: those of this epoch are answered; 0: not known (any more) */
    uint64_t ended_epoch;
};

enum step_kind {
    STEP_START = 1,
    STEP_CANCEL,
    STEP_EXTEND,
    STEP_HURRY,
    STEP_AFTER,
    STEP_BARRIER,
    STEP_TERMINATE,
    STEP_LATER, /* nothing yet: the caller comes again in a moment */
    STEP_END,   /* it may not run here */
    STEP_IGNORE
};
struct step {
    enum step_kind kind;
    const char *allocation_id;
    const Ckpt__V1__Order *order; /* NULL for STEP_CANCEL, STEP_END */
    const char *why;              /* STEP_IGNORE */
};

/* NULL: nothing. */
const char *reconcile_order_wrong(const Ckpt__V1__Order *order);

/* early_until: the agent has just started, and a ckpt-run may be about to attach an application
 * that the journal does not know, of a run up to this one. 0: it has not, or none can be. ret_steps
 * has room for 2 * (n_orders + hand_count). Cancels come first, ends last. Returns how many. */
size_t reconcile(const struct hand *hands, size_t hand_count, const Ckpt__V1__OrderSet *set,
                 uint64_t early_until, struct step *ret_steps);

/* What the set says of `run` is not meant for the later `own` run (0: none yet). A set of a later
 * epoch is right all the same: the cluster was restored, and the state knows of no later run. */
bool reconcile_late(const Ckpt__V1__OrderSet *set, uint64_t run, uint64_t own);
/* Of the allocation, as the set names it; NULL: it may not run here, or began later. */
const Ckpt__V1__AllocationPart *reconcile_part(const Ckpt__V1__OrderSet *set,
                                               const char *allocation_id);
/* The state from which the set was derived knew of the run: when the set does not name it, it is
 * over. */
bool reconcile_judges(const Ckpt__V1__OrderSet *set, uint64_t run);
/* The set (NULL: none has come) names a later run of this part, or none and knew of this one:
 * nothing of it begins any more. */
bool reconcile_run_over(const Ckpt__V1__OrderSet *set, const char *allocation_id, uint64_t run);

#endif
