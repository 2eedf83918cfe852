/* Asks the leader from where an application starts: BrokerService/GetRestartPoint.
 *
 * Flow     restart_points_ask() opens the call. Its owner gives the end of the call to
 *          restart_points_end(), which says when to ask again.
 * Shapes   one channel pair for all restores of the agent.
 */
#ifndef CKPT_AGENT_RESTART_POINTS_H
#define CKPT_AGENT_RESTART_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/rpc/client.h"

struct agent;
struct restart_points;

int restart_points_new(struct agent *agent, const char *brokers, struct restart_points **ret_points,
                       struct err *err);
void restart_points_free(struct restart_points *points);
/* As session_recheck(). */
void restart_points_recheck(struct restart_points *points);

struct agent *restart_points_agent(const struct restart_points *points);
/* data: what the handlers get. */
struct rpc_client_call *restart_points_ask(struct restart_points *points, const char *allocation_id,
                                           const struct rpc_client_handlers *handlers, void *data);
/* The call has ended. Returns after how many ms it is to be repeated. */
uint64_t restart_points_end(struct restart_points *points, const struct rpc_end *end);

#endif
