/* Jobs whose last checkpoint is damaged: nobody would notice before the restart.
 *
 * Flow     who answers for the status brings the list up to date by the events that came since.
 * Shapes   BROKER_DAMAGED_MAX jobs, of which those that are mended leave; what is more is not
 *          listed. The list is a member's own (broker.h): each makes it from its applied state.
 */
#ifndef CKPT_BROKER_DAMAGED_H
#define CKPT_BROKER_DAMAGED_H

#include "src/broker/broker.h"

/* next_sequence: of the event that comes next in this state. */
void damaged_update(struct broker_damaged *damaged, const struct fsm *fsm, uint64_t next_sequence);

#endif
