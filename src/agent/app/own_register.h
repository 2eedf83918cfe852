/* AppService.RegisterOwnJob on the agent's unix socket: a user of the node registers a job of the
 * own on it, without a key of the cluster.
 *
 * Flow     request -> own_up.h -> BrokerService/RegisterOwnAllocation at the leader, with one
 *          request id however often it is tried -> reply. The broker holds the agent to its own
 *          node, and the job to class 0.
 * Shapes   100 of one user that are registered here and not started.
 * Errors   as gRPC statuses; refusals of the broker go on to the caller as they are.
 */
#ifndef CKPT_AGENT_OWN_REGISTER_H
#define CKPT_AGENT_OWN_REGISTER_H

#include "src/agent/daemon/agent.h"
#include "src/rpc/server.h"

void own_register_serve(struct rpc_server *server, struct agent *agent);

#endif
