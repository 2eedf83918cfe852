/* Between the socket of the ranks (app_line_server.h) and the jobs of this node (job/ranks.h).
 *
 * Flow     a rank says hello: the allocation of that name, while an application of it is here and
 *          it is of the same user and run. From then on what the rank says goes to the allocation,
 *          and what the allocation says goes to the rank.
 * Shapes   one socket per agent; agent->rank_streams and agent->app_socket tell the others of it.
 */
#ifndef CKPT_AGENT_APP_RANKS_H
#define CKPT_AGENT_APP_RANKS_H

#include "src/agent/daemon/agent.h"
#include "src/net/network.h"

struct app_ranks;

/* path: absolute, of the socket. */
int app_ranks_new(struct agent *agent, const struct network_ops *network, const char *path,
                  struct app_ranks **ret_ranks, struct err *err);
void app_ranks_free(struct app_ranks *ranks); /* after agent_close(); NULL allowed */

#endif
