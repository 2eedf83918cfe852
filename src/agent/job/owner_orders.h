/* What a node does at a destination by order, as the owner of what lies there: it removes folders
 * of expired checkpoints (COLLECT), and reads parts of complete ones again (VERIFY, agent.proto).
 *
 * Flow     owner_orders_look() after each order set -> `ckpt-worker VERB --as owner` for each order
 *          -> one report, which ends the order.
 * Shapes   of each kind so many workers at a time: removing is not urgent, and goes one after the
 *          other; a preemption may wait for a reading, so as many run as a set of the broker names.
 *          What was reported is known by checkpoint and attempt until no set names it any more;
 *          of each kind OWNER_ORDERS_KNOWN_MAX are known, and the rest of a longer set waits. What
 *          no set names any more is ended, without a report. An agent that restarts does all again:
 *          what is gone was removed, and reading twice is harmless.
 * Errors   a worker that fails, or cannot be started, is reported with its reason: the state gives
 *          the order to another node. While one that cannot be killed is there, none of its kind is
 *          started. An order that makes no sense is ignored (reconcile.h tells it).
 */
#ifndef CKPT_AGENT_OWNER_ORDERS_H
#define CKPT_AGENT_OWNER_ORDERS_H

struct agent;
struct owner_orders;

enum { OWNER_ORDERS_KNOWN_MAX = 64 };

struct owner_orders *owner_orders_new(struct agent *agent);
/* Workers at work are ended. */
void owner_orders_free(struct owner_orders *orders);
void owner_orders_look(struct owner_orders *orders);

#endif
