/* What a step of a job needs to know of the world, seen just before it: processes, the note of an
 * end, the handler, the sentinel. What costs much is looked at only where the step may need it.
 */
#ifndef CKPT_AGENT_SIGHT_H
#define CKPT_AGENT_SIGHT_H

#include "src/agent/job/job_step.h"
#include "src/ask/ask.h"

struct allocation;

void sight_see(struct allocation *allocation, const struct job_event *event,
               struct job_facts *ret_facts);
/* Whom the way of asking has before it now. */
struct ask_target sight_target(struct allocation *allocation);

#endif
