/* What apply_preempt.c, escalation.c and preemption.c share of preemptions. Who else calls into
 * them (allocations that let go, or keep their nodes) finds it in core/state.h.
 *
 * Flow     apply_preempt.c makes a preemption and takes its victims; preemption.c counts who is
 *          released; escalation.c acts at the deadline. The states and the rules: preemption.c, and
 *          RULES.md under Preemption.
 */
#ifndef CKPT_FSM_PREEMPT_PREEMPTION_H
#define CKPT_FSM_PREEMPT_PREEMPTION_H

#include "fsm/core/state.h"

/* As asked; PRIORITY when it does not say. */
Ckpt__V1__PreemptionReason fsm_preemption_reason(const Ckpt__V1__RequestPreemptionRequest *request);
/* Takes off what the victims that were not withdrawn cover: from the nodes and GPUs that are
 * needed, from the number of victims and from the value that the whole may cost. Nodes and GPUs of
 * 0 afterwards: nothing is missing. */
void fsm_preemption_missing(const struct fsm_preemption *view, struct victim_search *search);
/* Of a WAITING one, once. Disarms its deadline; its victims are not touched. */
void fsm_preemption_end(struct fsm *fsm, struct preemption *preemption,
                        Ckpt__V1__PreemptionState state, Ckpt__V1__Reason reason);
/* The only writer of a victim's state after it was taken; its time begins anew. */
void fsm_victim_set(const struct fsm *fsm, struct fsm_preemption_victim *victim,
                    Ckpt__V1__VictimState state);
/* It keeps its nodes, and the row says why. */
void fsm_victim_withdraw(const struct fsm *fsm, struct fsm_preemption_victim *victim,
                         Ckpt__V1__Reason reason);
/* It is to give up nodes, and has not yet. */
bool fsm_victim_gives(const struct fsm_preemption_victim *victim);
/* Until when it may still let go by itself: one that is being terminated until its nodes count as
 * done, one that writes until its deadline and the grace, any other by the patience of L4. The
 * allocation must exist: one that left was released before. */
uint64_t fsm_victim_bound_ms(const struct fsm *fsm, const struct fsm_preemption_victim *victim);

#endif
