/* How a job would come to an end, or back from one: questions for whoever plans that.
 *
 * Shapes   nothing is changed and nothing is kept; the rules themselves ask the same functions.
 */
#ifndef CKPT_FSM_ENDS_H
#define CKPT_FSM_ENDS_H

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/fsm.h"

/* How the job would stop if a preemption took it now. fsm_victim_outlook() tells whether one
 * may. */
Ckpt__V1__StopWay fsm_victim_stop_way(const struct fsm *fsm,
                                      const struct fsm_allocation *allocation);

/* Since when nobody hears the node's agent; 0: it is heard, or none ever spoke from there. */
uint64_t fsm_node_silent_since_ms(const struct fsm_node *node);
/* A node of the last run of a stopped job that is only silent, so that no restart is taken
 * elsewhere (NODE_SILENT). NULL: there is none. */
const struct fsm_node *fsm_allocation_silent(const struct fsm *fsm,
                                             const struct fsm_allocation *allocation);
/* Likewise one that is heard, or silent, and that has not said yet that its run has ended
 * (RUN_NOT_ENDED, or NODE_SILENT). */
const struct fsm_node *fsm_allocation_unended(const struct fsm *fsm,
                                              const struct fsm_allocation *allocation);
/* Likewise one for which no agent ever spoke: it keeps the broker from a choice that leaves it out,
 * and nobody else. */
const struct fsm_node *fsm_allocation_never_heard(const struct fsm *fsm,
                                                  const struct fsm_allocation *allocation);
/* It would be refused as RUN_NOT_ENDED now, for nodes that are heard: a moment may change that. */
bool fsm_restart_ends_soon(const struct fsm *fsm,
                           const Ckpt__V1__RestartAllocationRequest *request);
bool fsm_continue_ends_soon(const struct fsm *fsm, const Ckpt__V1__AllocationSpec *spec);
/* The state does not know that this part of a stopped job has ended. It counted as done without its
 * node's word, or a scheduler ended the job. Nobody has said that the machine is off. The node may
 * be one for which no agent ever spoke. */
bool fsm_part_unheard(const struct fsm *fsm, const struct fsm_allocation *allocation,
                      uint32_t place);
/* Places are those of its parts, and behind them those of what has left it and may run on. */
struct fsm_place {
    uint64_t run;
    uint32_t node_slot;
};
uint32_t fsm_allocation_places(const struct fsm *fsm, const struct fsm_allocation *allocation);
struct fsm_place fsm_allocation_place(const struct fsm *fsm,
                                      const struct fsm_allocation *allocation, uint32_t place);

#endif
