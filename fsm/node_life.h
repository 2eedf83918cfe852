/* The life of a node: its states, who takes nothing new, who counts as lost.
 *
 * Flow     apply_node.c hears of a node (its agent speaks, is silent, a second witness speaks) and
 *          of what an operator wants of it; fsm/cluster/node_life.c makes the state of both.
 * Shapes   nothing is kept here; the table and its drawing are in fsm/cluster/node_life.c.
 * Source   L-001..L-003, F-006, S3-060, V-003.
 */
#ifndef CKPT_FSM_NODE_LIFE_H
#define CKPT_FSM_NODE_LIFE_H

#include "fsm/fsm.h"

enum { FSM_STATES_NODE = CKPT__LOG__V1__NODE_STATE__NODE_STATE_DISABLED + 1 };

/* AGENT_LOST or DOWN: everything that ran there counts as lost. */
bool fsm_node_gone(const struct fsm_node *node);
/* The wish of an operator, also while it is gone. */
Ckpt__Log__V1__NodeWanted fsm_node_wanted(const struct fsm_node *node);
/* OK: it takes new work; else NODE_DRAINING or NODE_DISABLED. */
enum fsm_status fsm_node_refusal(const struct fsm_node *node);
bool fsm_node_move_allowed(Ckpt__Log__V1__NodeState from, Ckpt__Log__V1__NodeState to);

#endif
