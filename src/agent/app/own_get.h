/* AppService.GetOwnCheckpoint on the agent's unix socket: a complete checkpoint of a job of the
 * caller's is brought into a folder of the caller's.
 *
 * Flow     own_up.h: ListCheckpoints at the leader, which answers of the user's own jobs alone ->
 *          `ckpt-worker get` for one part after the other, as the caller, who alone may write
 *          there -> reply. Object stores are read with the agent's keys, of which the worker sees
 *          none.
 * Shapes   a part alone becomes the folder; several become folders in it, which is there by then.
 * Errors   as gRPC statuses: NOT_FOUND as the broker's own.h has it. FAILED_PRECONDITION: it is not
 *          complete, or damaged, or the folder takes nothing. UNAVAILABLE: the destination is away,
 *          and the same call again brings what is missing.
 * Absent   a place in the line of those who read at the target. One part is read at a time, and 4
 *          requests of a user are on their way at most.
 */
#ifndef CKPT_AGENT_OWN_GET_H
#define CKPT_AGENT_OWN_GET_H

#include "src/agent/daemon/agent.h"
#include "src/rpc/server.h"

void own_get_serve(struct rpc_server *server, struct agent *agent);

#endif
