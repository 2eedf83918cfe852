/* What is left of a job whose process group has ended: in its control group, or in a session or a
 * group of its own (job_processes.h). It must not outlive the application either.
 *
 * Flow     stragglers_find() looks once, anew, and kills what it finds where it is told to;
 *          stragglers_start() does that off the loop. Who finds some looks again until there are
 *          none: one that was just killed may have started another.
 * Errors   what cannot be read just now counts as found.
 * Source   I30.
 */
#ifndef CKPT_AGENT_STRAGGLERS_H
#define CKPT_AGENT_STRAGGLERS_H

#include <uv.h>

#include "src/agent/node/job_processes.h"

/* How many there were. */
size_t stragglers_find(const struct job_identity *job, bool kill);

struct stragglers_look;
struct stragglers_look *stragglers_start(uv_loop_t *loop, const struct job_identity *job, bool kill,
                                         void (*done)(void *data, size_t count), void *data);
void stragglers_detach(struct stragglers_look *look); /* NULL allowed; done() does not come */

#endif
