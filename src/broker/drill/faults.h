/* The faults of drills: one row for each kind (faults.c), and the ways by which they reach out of
 * the replicated state, which tests replace.
 *
 * Flow     drills.c asks fault_is_mine() and calls the row's begin(), and end() when the time of a
 *          fault that lasts is over.
 * Absent   storage-outage: the probes ask the state themselves (drills_target_fails()).
 */
#ifndef CKPT_BROKER_FAULTS_H
#define CKPT_BROKER_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/drill.pb-c.h"
#include "src/broker/replica/replica.h"

/* Any may be NULL: this process cannot do that. */
struct fault_ops {
    void *context;
    void (*die)(void *context);                        /* as by SIGKILL; returns in tests alone */
    void (*hang)(void *context, uint64_t duration_ms); /* the loop stands still */
    void (*cut)(void *context, bool off);              /* nothing of Raft is sent or received */
    /* The last backup is restored; done(data, NULL) or with the reason. False: none is known. */
    bool (*restore)(void *context, void (*done)(void *data, const char *failure), void *data);
};

struct fault {
    Ckpt__V1__DrillKind kind;
    /* For people: the plan. */
    const char *does, *costs;
    /* False: this process cannot. NULL: nothing is to be done. */
    bool (*begin)(const struct fault_ops *ops, uint64_t on_ms);
    void (*end)(const struct fault_ops *ops); /* NULL: it has ended by itself */
};

const struct fault *fault_find(Ckpt__V1__DrillKind kind); /* never NULL for a kind of the state */
/* By its role and the record, the fault is this member's now. */
bool fault_is_mine(const Ckpt__V1__Drill *drill, const struct consensus_status *raft);
/* A fault that lasts is on for so long. */
uint64_t fault_on_ms(const Ckpt__V1__Drill *drill);
/* The faults of a ckptd. */
void fault_process_ops(struct fault_ops *ret_ops);

#endif
