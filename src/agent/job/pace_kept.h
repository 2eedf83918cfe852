/* A job's pace (pace_step.h) through the agent's own restart.
 *
 * Flow     before each heartbeat pace_keep() writes into the journal what its ranks have said, when
 *          that is worth a record. The next agent counts these ranks from pace_resume() on, while
 *          their processes live: a rank that hangs never comes back to say another step.
 * Worth    another set of ranks; a gap that has doubled; other steps when the ranks are quiet for
 *          longer than their steps take, or PACE_KEPT_US after the last record.
 * Time     quiet time begins anew with the agent. A rank that is only on its way back steps then.
 * Source   V-030.
 */
#ifndef CKPT_AGENT_PACE_KEPT_H
#define CKPT_AGENT_PACE_KEPT_H

struct allocation;

enum { PACE_KEPT_US = 60000000 };

void pace_keep(struct allocation *allocation);
void pace_resume(struct allocation *allocation);

#endif
