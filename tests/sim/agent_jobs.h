/* The part of a scheduler that keeps jobs going: it looks at each allocation at times, starts a
 * ckpt-run where one is missing, restarts what was stopped, and at the end lets every application
 * finish and waits for every allocation to have ended.
 *
 * Flow     a timer asks the broker for each job in turn (src/client); what it does about the answer
 *          is drawn, until calm.
 * Shapes   one per world, on a node of its own. A rank that has finished is not started again in
 *          the same run of its allocation, unless its node left and came back in between: between
 *          two looks nothing but the number of the part's run tells that.
 * Checks   L: after calm each allocation whose ranks are all on shipping agents comes to its end.
 */
#ifndef CKPT_TESTS_SIM_AGENT_JOBS_H
#define CKPT_TESTS_SIM_AGENT_JOBS_H

#include "tests/sim/world.h"

struct agent_jobs;

enum agent_jobs_launch {
    AGENT_JOBS_AGAIN,
    /* of another run of the allocation; what is left of the one before is killed */
    AGENT_JOBS_ANEW,
    AGENT_JOBS_ANEW_FROM_SCRATCH,
    /* on a node that is none of the job's: it stays until it is */
    AGENT_JOBS_SPARE
};

struct agent_jobs_ops {
    void *data;
    bool (*runs)(void *data, unsigned agent, const char *allocation_id); /* a ckpt-run is there */
    void (*launch)(void *data, unsigned agent, const char *allocation_id,
                   enum agent_jobs_launch how);
    /* It lost shards: perhaps nothing is left to start from, and people have to decide. */
    bool (*spoiled)(void *data, const char *allocation_id);
};

struct agent_jobs *agent_jobs_new(struct world *world, unsigned node,
                                  const struct agent_jobs_ops *ops);
void agent_jobs_free(struct agent_jobs *jobs); /* NULL allowed */
/* The application of this rank has come to its end with status 0, in this run of its part. */
void agent_jobs_finished(struct agent_jobs *jobs, unsigned agent, const char *allocation_id,
                         uint64_t run);
/* Another run of its allocation begins. */
void agent_jobs_begins(struct agent_jobs *jobs, unsigned agent, const char *allocation_id);
void agent_jobs_calm(struct agent_jobs *jobs);
/* What has not come to its end yet after calm; "": nothing. */
const char *agent_jobs_unsettled(struct agent_jobs *jobs);

#endif
