/* AppService.Register on the agent's unix socket: where an application of the gRPC way is to be
 * called.
 *
 * Flow     the caller is who SO_PEERCRED says: a process of the job's process group, as the job's
 *          user; the endpoint is a unix socket of that user. The journal has it before the answer
 *          goes out, so it outlives the agent; it ends with the application's life.
 * Errors   refusals are gRPC statuses with the next step in the text. The last registration counts.
 * Source   S1-038.
 */
#ifndef CKPT_AGENT_APP_REGISTER_H
#define CKPT_AGENT_APP_REGISTER_H

#include <stddef.h>

#include "src/agent/daemon/agent.h"
#include "src/rpc/server.h"

void app_register_serve(struct rpc_server *server, struct agent *agent);
/* "unix:" and an absolute path that fits into a socket's address, without "..". NULL: it is; else
 * why not. */
const char *app_register_endpoint_wrong(const char *endpoint);

#endif
