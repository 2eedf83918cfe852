/* A checkpoint that the application asks for by itself, at a moment that suits it (ckpt_request()).
 *
 * Flow     a rank's `request` -> RequestCheckpoint at the leader, as the job's owner (own_up.h) ->
 *          the job is asked as for any other checkpoint. A refusal stands in the job's output.
 * Shapes   one request of a job is on its way at a time, and APP_REQUEST_PAUSE_US lie between two:
 *          all ranks may ask. Its request id is made of the step, so that the ranks of all nodes
 *          ask for one checkpoint.
 * Errors   none to the rank: it computes on. While no leader answers, nothing is asked.
 * Absent   a promise: the job may be too near to its end, or its target away.
 * Source   V-014.
 */
#ifndef CKPT_AGENT_APP_REQUEST_H
#define CKPT_AGENT_APP_REQUEST_H

#include "src/agent/job/allocation.h"

#define APP_REQUEST_PAUSE_US UINT64_C(10000000)

/* step: the last one that the application has begun; 0: not known. */
void app_request(struct allocation *allocation, uint64_t step);

#endif
