/* What apply_preempt.c, escalation.c and preemption.c share of preemptions. */
#ifndef CKPT_FSM_PREEMPT_PREEMPTION_H
#define CKPT_FSM_PREEMPT_PREEMPTION_H

#include "fsm/core/state.h"

/* As asked; PRIORITY when it does not say. */
Ckpt__V1__PreemptionReason fsm_preemption_reason(const Ckpt__V1__RequestPreemptionRequest *request);
/* Takes off what the victims that were not withdrawn cover. */
void fsm_preemption_missing(const struct fsm_preemption *view, struct victim_search *search);
void fsm_preemption_end(struct fsm *fsm, struct preemption *preemption,
                        Ckpt__V1__PreemptionState state, Ckpt__V1__Reason reason);
void fsm_victim_set(const struct fsm *fsm, struct fsm_preemption_victim *victim,
                    Ckpt__V1__VictimState state);
/* It is to give up nodes, and has not yet. */
bool fsm_victim_gives(const struct fsm_preemption_victim *victim);
/* Until when it may still let go by itself. */
uint64_t fsm_victim_bound_ms(const struct fsm *fsm, const struct fsm_preemption_victim *victim);

#endif
