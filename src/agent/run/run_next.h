/* How a job goes on whose ckpt-run leaves: its output ends with the line to be typed.
 *
 * Flow     the cluster is asked what the job has become, for NEXT_MS at most, since it hears of the
 *          end a moment later than ckpt-run. Then one line of run_owner_job_next().
 * Errors   none: without an answer, or for a job that runs on elsewhere, nothing is said.
 */
#ifndef CKPT_AGENT_RUN_NEXT_H
#define CKPT_AGENT_RUN_NEXT_H

enum { NEXT_MS = 2000 };

void run_next_say(const char *socket, const char *allocation_id);

#endif
