/* The verbs of ckpt-run that ask the cluster through the node's agent (src/cli/owner.h). */
#ifndef CKPT_AGENT_RUN_OWNER_H
#define CKPT_AGENT_RUN_OWNER_H

#include "ckpt/v1/broker.pb-c.h"

int run_owner(int argc, char **argv);
/* The job as the cluster has it; NULL: it is not the caller's, or nobody can be asked. The caller
 * frees it. */
Ckpt__V1__Allocation *run_owner_job(const char *socket, const char *allocation_id);

/* Ends it for good. The exit code; a failure is printed. */
int run_owner_end(const char *socket, const char *allocation_id);

#endif
