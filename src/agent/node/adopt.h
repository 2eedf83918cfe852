/* What runs on this node although the journal is new: its folder was lost, the applications were
 * not.
 *
 * Flow     once, before anything else, and only with an empty journal: the main processes
 *          of groups in /proc whose environment says that they were started through this agent's
 *          socket become entries, as if the journal had known them. Their ckpt-runs attach again;
 *          without them their applications are ended by orders and walltimes all the same. All of
 *          them are written at once: killed before, the next start finds them again.
 * Shapes   one per allocation, the oldest: what an application starts inherits its environment.
 *          A work folder that is gone or another user's does not matter: without one that is its
 *          user's, checkpoints fail.
 * Errors   a process whose environment cannot be read is not found: an agent that is not root sees
 *          its own user's only.
 * Absent   attempts, reports and the fence: those are lost. A process that its user dresses up as
 *          another's is believed until it ends.
 * Source   I30, F-025.
 */
#ifndef CKPT_AGENT_ADOPT_H
#define CKPT_AGENT_ADOPT_H

#include "src/agent/durable/ledger.h"
#include "src/agent/node/machine.h"

/* -1: the journal cannot be written. */
int adopt_running(const struct machine_ops *machine, const char *node_id, const char *socket,
                  struct ledger *ledger, struct err *err);

#endif
