/* Calls of the cluster's API that the owner of a job makes over the agent's socket, without a key.
 *
 * Flow     ckpt-run hint, restart, explain, ... call methods of BrokerService and OperatorService
 *          here; each row of the table goes to the leader as it is, with the word whose it is
 *          (own_up.h). The broker looks whose job it is about (src/broker/api/own.h), and answers;
 *          the answer goes back as it is.
 * Errors   refusals of the broker go on to the caller as they are.
 */
#ifndef CKPT_AGENT_OWN_CALL_H
#define CKPT_AGENT_OWN_CALL_H

#include "src/agent/daemon/agent.h"
#include "src/rpc/server.h"

enum { OWN_CALL_COUNT = 10 };
/* A row of the table as it is served; lives as long as the server. */
struct own_method {
    const struct own_call_row *row;
    struct agent *agent;
};
void own_call_serve(struct rpc_server *server, struct agent *agent,
                    struct own_method methods[OWN_CALL_COUNT]);

#endif
