/* The calls of a cluster's leader, answered for the one job of alone_step.h on a unix socket: the
 * agent above it is the same as under a cluster, and knows no other one.
 *
 * Flow     AgentService.Session: hello → welcome and the order set; each report → its
 *          acknowledgement, and the set anew. BrokerService.GetRestartPoint. RequestCheckpoint, by
 *          which applications and users ask for one now.
 * Shapes   one stream at a time, the newest; alone is the caller's and outlives the server. Notes
 *          of checkpoints are written off the loop.
 * Errors   all other calls are UNIMPLEMENTED, as the server itself answers them.
 */
#ifndef CKPT_AGENT_ALONE_SERVER_H
#define CKPT_AGENT_ALONE_SERVER_H

#include <uv.h>

#include "src/agent/alone/alone_step.h"
#include "src/base/err.h"

struct alone_server;

/* address: "unix:PATH". acknowledged: the agent drops its reports up to this one. */
int alone_server_new(uv_loop_t *loop, struct alone *alone, const char *address,
                     uint64_t acknowledged, struct alone_server **ret_server, struct err *err);
void alone_server_free(struct alone_server *server); /* NULL allowed */

/* A name that no cluster has: the mark of all checkpoints of jobs without one. */
#define ALONE_CLUSTER "ckpt-run --standalone"

#endif
