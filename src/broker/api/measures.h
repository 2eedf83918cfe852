/* The measures of one sensitive job: how much it writes, loses and has at stake, how long that
 * takes, and how far it is.
 *
 * Flow     a function that answers about a job asks measures_hidden(), and then clears them in its
 *          message, or refuses with MEASURES_HIDDEN where the answer is nothing else.
 * Shapes   told to the job's owner, to an admin of its tenant (own.h), and to a scheduler, which
 *          accounts for it. Each other caller gets states, reasons, nodes, instants, ids. Without
 *          TLS nobody shows that he is a scheduler. Sums over jobs have all jobs in them: of a
 *          tenant, of a node, of the cluster.
 * Absent   backups, which are the whole state; text that an application says itself; events of a
 *          job whose record has gone.
 * Source   N-005.
 */
#ifndef CKPT_BROKER_MEASURES_H
#define CKPT_BROKER_MEASURES_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/broker/api/request.h"

/* allocation NULL: no. */
bool measures_hidden(const struct request *request, const struct fsm_allocation *allocation);
/* The same of a call that no owner may make. */
bool measures_hidden_from(const struct rpc_call *call, const struct fsm_allocation *allocation);
void measures_clear_job(Ckpt__V1__Allocation *job);
void measures_clear_checkpoint(Ckpt__V1__Checkpoint *checkpoint);
void measures_clear_event(Ckpt__V1__Event *event);

#endif
