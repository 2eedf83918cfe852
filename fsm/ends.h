/* How a job would come to an end, or back from one: questions for whoever plans that.
 *
 * Shapes   nothing is changed and nothing is kept; the rules themselves ask the same functions.
 */
#ifndef CKPT_FSM_ENDS_H
#define CKPT_FSM_ENDS_H

#include "ckpt/v1/broker.pb-c.h"
#include "fsm/fsm.h"

/* How the job would stop if a preemption took it now. Whether one may take it: fsm_victim_outlook().
 */
Ckpt__V1__StopWay fsm_victim_stop_way(const struct fsm *fsm,
                                      const struct fsm_allocation *allocation);

#endif
