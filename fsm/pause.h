/* A cluster that an operator has paused: for maintenance of what it stands on.
 *
 * Flow     the command pause_cluster begins it and ends it; with a duration a Tick ends it by
 *          itself. While it lasts, the broker asks for no checkpoint, restarts, moves and removes
 *          nothing by itself, and people's requests for such are refused (CLUSTER_PAUSED). All that
 *          was under way ends as it would have: checkpoints that were asked for, preemptions, and
 *          moves with the restart that follows them.
 * Shapes   facts are taken as ever: reports, nodes that come and go, ends of jobs, new jobs. A
 *          sensitive claim and a preemption with force are taken as well (P-006, S1-066). A program
 *          that dies is started again in place by its ckpt-run, which needs no broker for it.
 */
#ifndef CKPT_FSM_PAUSE_H
#define CKPT_FSM_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/common.pb-c.h"
#include "fsm/limits.h"
#include "fsm/status.h"

struct fsm;
struct fsm_allocation;
struct fsm_outcome;

struct fsm_pause {
    uint64_t since_ms;
    uint64_t until_ms; /* 0: until somebody ends it */
    char by[FSM_PAUSE_BY_BYTES];
    char reason[FSM_DETAIL_BYTES];
};

/* NULL: it is not paused. */
const struct fsm_pause *fsm_pause(const struct fsm *fsm);
/* CLUSTER_PAUSED with who and since when; OK: it is not paused. */
enum fsm_status fsm_pause_refusal(const struct fsm *fsm, struct fsm_outcome *outcome);
/* Texts are borrowed, as those of all messages that are made from the state. */
void fsm_pause_to_message(const struct fsm_pause *pause, Ckpt__V1__ClusterPause *ret_message);
/* The job stays stopped until the pause ends: it is no move that was under way. */
bool fsm_pause_holds(const struct fsm *fsm, const struct fsm_allocation *allocation);

#endif
