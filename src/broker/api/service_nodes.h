/* OperatorService about nodes: their status, and the jobs on one of them.
 *
 * Shapes   a reply names at most NODES_JOBS_MAX jobs and looks at NODES_LOOKED_MAX of those that
 *          have stopped; its texts live in the scratch.
 */
#ifndef CKPT_BROKER_SERVICE_NODES_H
#define CKPT_BROKER_SERVICE_NODES_H

#include "ckpt/v1/operator.pb-c.h"
#include "src/broker/api/request.h"

struct broker;
struct fsm_node;
struct scratch;

enum { NODES_JOBS_MAX = 1000, NODES_HELD_MAX = 100, NODES_LOOKED_MAX = 100000 };
/* Nodes that could take a part over are counted up to so many, for so many jobs: each count is a
 * walk over all nodes. */
enum { NODES_SUCCESSORS_MAX = 100, NODES_SUCCESSORS_JOBS = 16, NODES_COPIES_MAX = 1024 };
enum { NODES_NAMED_MAX = 4 }; /* of each state, in Status */

/* Everything of NodeStatus. */
void nodes_fill(const struct broker *broker, const struct fsm_node *node, struct scratch *scratch,
                Ckpt__V1__NodeStatus *ret_item);
/* Of a filled item for a scheduler of one tenant: the jobs of others are not counted, and what
 * people wrote of the node is not told. */
void nodes_narrow(const struct request *request, const struct fsm_node *node,
                  struct scratch *scratch, Ckpt__V1__NodeStatus *item);
/* For Status: how many nodes are in which state, with the first NODES_NAMED_MAX, and how many
 * agents are connected. Returns a warning:
 * of how many nodes the agent alone is silent, and how many stopped jobs are not begun elsewhere
 * because of that (NODE_SILENT), of those in the first NODES_LOOKED_MAX slots. NULL: no such
 * node. */
char *nodes_status(const struct broker *broker, struct scratch *scratch,
                   Ckpt__V1__StatusReply *reply);
/* For Status: so many jobs hang on theirs. */
char *nodes_hung_warning(uint32_t count, struct scratch *scratch);
/* GetNode */
void nodes_answer(struct request *request, struct scratch *scratch);

#endif
