/* The fields of a preemption, of its victims, and of a folder that could not be deleted. How to add
 * one: record.h. The bounds are those of PreemptionRecord, VictimRecord and UndeletedRecord;
 * Preemption, Victim and Undeleted of the API have the same fields. */
#ifndef CKPT_FSM_RECORDS_PREEMPTION_H
#define CKPT_FSM_RECORDS_PREEMPTION_H

#include "fsm/limits.h"
#include "fsm/records/record.h"

/* clang-format off */
#define FSM_PREEMPTION(FIELD, TEXT)                                                                \
    FIELD(uint64_t, cost_gpu_ms, RECORD_ANY)      /* of the victims, when they were chosen */      \
    FIELD(uint64_t, asked_at_ms, RECORD_ANY)                                                       \
    FIELD(uint64_t, ended_at_ms, RECORD_ANY)                    /* 0: WAITING */                   \
    FIELD(uint64_t, deadline_ms, 2 * FSM_TIME_MAX_MS)                                              \
        /* WAITING: then who is not released is forced or replaced; 0: ended */                    \
    FIELD(Ckpt__V1__PreemptionState, state, RECORD_ANY)                                            \
    FIELD(uint32_t, escalations, RECORD_ANY)                                                       \
    FIELD(uint32_t, refusal, RECORD_ANY)     /* EXPIRED: why there was no other; 0: none */

#define FSM_VICTIM(FIELD, TEXT)                                                                    \
    TEXT(allocation_id)                                                                            \
    FIELD(uint64_t, checkpoint_id, RECORD_ANY)                  /* 0: none */                      \
    FIELD(uint64_t, since_ms, FSM_TIME_MAX_MS)                                                     \
    FIELD(Ckpt__V1__VictimState, state, RECORD_ANY)                                                \
    FIELD(uint32_t, gpu_count, RECORD_ANY)                      /* on the nodes of use */          \
    FIELD(Ckpt__V1__Reason, reason, RECORD_ANY)                 /* WITHDRAWN: why it goes on */

#define FSM_UNDELETED(FIELD, TEXT)                                                                 \
    TEXT(allocation_id)                                         /* that job may have left */       \
    TEXT(reason)                                     /* of the last attempt; "": none */           \
    FIELD(uint64_t, size_bytes, RECORD_ANY)          /* 0: not known, of a failed checkpoint */    \
    FIELD(uint64_t, since_ms, FSM_TIME_MAX_MS)                                                     \
    FIELD(uint64_t, tried_at_ms, FSM_TIME_MAX_MS)               /* last; 0: never */               \
    FIELD(uint32_t, attempts, RECORD_ANY)                                                          \
        /* 0: none yet: it had to leave its job's list before */

/* ... and what the path needs: UndeletedRecord alone. */
#define FSM_UNDELETED_KEPT(FIELD, TEXT)                                                            \
    TEXT(tenant)                                                                                   \
    TEXT(project)                                                                                  \
    TEXT(owner)                                          /* of its job, as registered; "": none */ \
    FIELD(uint64_t, not_before_ms, 2 * FSM_TIME_MAX_MS) /* its agent may write there until then */ \
    FIELD(uint64_t, given_at_ms, FSM_TIME_MAX_MS)               /* to a node; 0: it is not */      \
    FIELD(uint32_t, node_slot, FSM_NODES_MAX - 1)               /* with given: which */            \
    FIELD(bool, given, true)                         /* a node's agent is to remove it */          \
    FIELD(bool, sensitive, true)                     /* as its job was: it is wiped */
/* clang-format on */

#endif
