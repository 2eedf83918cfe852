/* A cluster that began from a backup, until somebody has adopted what its state names.
 *
 * Flow     restoring a backup calls fsm_begin_passive() on the state, before the first entry. From
 *          then on commands about jobs, nodes and checkpoints are refused (PASSIVE), the leader's
 *          own ones too, and its duties do not begin. The command adopt_cluster ends it.
 * Shapes   the state that was backed up may have another heir: the cluster itself, which runs on.
 *          Nothing may be removed at its targets, and no agent may hear an order of this one.
 */
#ifndef CKPT_FSM_PASSIVE_H
#define CKPT_FSM_PASSIVE_H

#include <stdbool.h>
#include <stdint.h>

struct fsm;

/* Also raises the feature level to this build's: all members begin with this state. */
void fsm_begin_passive(struct fsm *fsm);
/* The state's clock when it was backed up; 0: it is not passive. */
uint64_t fsm_passive_since_ms(const struct fsm *fsm);

#endif
