/* A job's pace (pace_step.h) in heartbeats, with the ranks that hold it up.
 *
 * Flow     ranks say their steps (ranks.h). Before each heartbeat pace_turns() counts the time, and
 *          pace_word_new() judges it, and looks at the processes of those that are behind when that
 *          is worth it.
 * Shapes   PACE_BEHIND_MAX ranks, those with the lowest steps.
 * Source   /proc/PID/wchan and the state in /proc/PID/stat, of a process's first thread.
 */
#ifndef CKPT_AGENT_PACE_H
#define CKPT_AGENT_PACE_H

#include "ckpt/v1/agent.pb-c.h"

struct allocation;

enum { PACE_BEHIND_MAX = 8 };

/* Before each heartbeat, and at no other time: the next word is of a turn more. */
void pace_turns(struct allocation *allocation);
/* NULL: no rank here says steps. The caller gives it to pace_word_free(). */
Ckpt__V1__StepsWord *pace_word_new(struct allocation *allocation);
void pace_word_free(Ckpt__V1__StepsWord *word); /* NULL allowed */

#endif
