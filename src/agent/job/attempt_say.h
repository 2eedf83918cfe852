/* What the job's own output is told of an attempt, one line each, where a ckpt-run is attached.
 *
 * Flow     attempt_do.c calls it with the effects that say so, after the journal has them.
 * Errors   none: who is not there is told nothing.
 */
#ifndef CKPT_AGENT_ATTEMPT_SAY_H
#define CKPT_AGENT_ATTEMPT_SAY_H

#include "src/agent/job/allocation.h"

/* Who is asked from here on, and who is not: once for as many ranks as there are. */
void attempt_say_ranks(struct allocation *allocation);
/* How it is asked, where nobody had said it: once for each run. */
void attempt_say_way(struct allocation *allocation);
/* EFFECT_SAY_LOCAL: where it is written, and why not in memory. */
void attempt_say_local(struct allocation *allocation, const char *why);
/* EFFECT_SAY_FAILED, EFFECT_SAY_VERIFIED: how it ended. */
void attempt_say_end(struct allocation *allocation, const struct job_effects *effects,
                     const struct job_effect *effect);
/* That it stands still, while no leader answers. */
void attempt_say_standing(const struct allocation *allocation);

#endif
