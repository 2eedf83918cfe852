/* AppService.RegisterOwnJob on the agent's unix socket: a user of the node registers a job of the
 * own on it, without a key of the cluster.
 *
 * Flow     request -> ckpt-worker name (a directory of users may not answer) ->
 *          BrokerService/RegisterOwnAllocation at the leader, with one request id however often it
 *          is tried -> reply. The broker holds the agent to its own node, and the job to class 0.
 * Shapes   one channel pair for all; four at a time of one user, and 100 of one user that are
 *          registered here and not started.
 * Errors   as gRPC statuses; refusals of the broker go on to the caller as they are.
 */
#ifndef CKPT_AGENT_OWN_REGISTER_H
#define CKPT_AGENT_OWN_REGISTER_H

#include <stdbool.h>

#include "src/agent/daemon/agent.h"
#include "src/rpc/server.h"

struct own_registrar;

/* tenants: the site's table (own_tenant.h), which lives as long; NULL: every call is refused, with
 * the key that allows it. */
int own_registrar_new(struct agent *agent, const char *brokers, const char *tenants,
                      struct own_registrar **ret_registrar, struct err *err);
/* After the server, which ends its calls. */
void own_registrar_free(struct own_registrar *registrar);
void own_register_serve(struct rpc_server *server, struct agent *agent);

#endif
