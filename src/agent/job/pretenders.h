/* Processes that say by their environment that they are a job's, when nothing else says so: the
 * journal was lost, and no control group of the agent holds them. Anybody may write such an
 * environment, so none of them is taken for the job's, and nothing of them is reported.
 *
 * Flow     the agent's start finds them (node/adopt.h), and a ckpt-run may name one whose run the
 *          cluster does not know. A pretender is dropped when the process has ended, or when its
 *          ckpt-run has attached it. It is ended, with the job's grace, by a broker's word: another
 *          run of the allocation on this node, none although it knows that run, the order to end
 *          the run, or another owner. A ckpt-run of the same user that starts the allocation anew
 *          ends it too.
 * Shapes   a list of the agent, at most PRETENDERS_MAX; looked through at each order set and while
 *          one of them is being ended.
 * Errors   one of root is no other owner's: what root starts in a user's job has its environment.
 *          One that has the number of another process by now is left alone.
 * Absent   the journal: they are found again by the next start (PRETENDERS_MARK, a file of the
 *          state folder). Those that a ckpt-run has named come back with it.
 * Source   I30, F-025.
 */
#ifndef CKPT_AGENT_JOB_PRETENDERS_H
#define CKPT_AGENT_JOB_PRETENDERS_H

#include "src/agent/daemon/agent.h"
#include "src/agent/node/adopt.h"

#define PRETENDERS_MARK "pretenders"

/* Copies it; one that is there already counts once. */
void pretenders_add(struct agent *agent, const struct pretender *pretender);
void pretenders_free(struct agent *agent);
/* The set has come, or may have. */
void pretenders_take_orders(struct agent *agent);
/* True: one that pretends to be of it lives, and is being ended as the order says. */
bool pretenders_terminate(struct agent *agent, const Ckpt__V1__Order *order);
/* A ckpt-run of that user starts it anew: the pid of one that has to end before; 0: none. */
pid_t pretenders_take_over(struct agent *agent, const char *allocation_id, uid_t uid);
/* A broker has named its owner: pretenders of other users are ended. */
void pretenders_take_owner(struct agent *agent, const char *allocation_id, uid_t owner);
/* Its ckpt-run has attached it, and what belongs to the same run goes with it. */
void pretenders_attached(struct agent *agent, const struct ledger_entry *entry);

#endif
