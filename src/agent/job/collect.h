/* Folders of expired checkpoints that this node is to remove: COLLECT orders (agent.proto).
 *
 * Flow     collections_look() after each order set -> `ckpt-worker collect --as owner` for one
 *          folder after the other -> COLLECTED or COLLECT_FAILED, which ends the order.
 * Shapes   one worker at a time: removing is not urgent, and the node has other things to do. What
 *          was reported is known by checkpoint and attempt until no set names it any more. An agent
 *          that restarts does it again: what is gone is success.
 * Errors   a worker that fails, or cannot be started, is reported with its reason: the state gives
 *          the folder to another node later. While a worker that cannot be killed is there, nothing
 *          is removed. An order that makes no sense is ignored (reconcile.h tells it).
 */
#ifndef CKPT_AGENT_COLLECT_H
#define CKPT_AGENT_COLLECT_H

struct agent;
struct collections;

struct collections *collections_new(struct agent *agent);
/* A worker at work is ended. */
void collections_free(struct collections *collections);
void collections_look(struct collections *collections);

#endif
