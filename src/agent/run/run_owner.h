/* The verbs of ckpt-run that ask the cluster through the node's agent (src/cli/owner.h), and single
 * calls for the other ones. */
#ifndef CKPT_AGENT_RUN_OWNER_H
#define CKPT_AGENT_RUN_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ckpt/v1/broker.pb-c.h"
#include "src/agent/run/run_call.h"

int run_owner(int argc, char **argv);
/* The job as the cluster has it; NULL: it is not the caller's, or nobody can be asked. The caller
 * frees it. */
enum { RUN_OWNER_JOB_MS = 5000 /* for who has no reason to wait shorter */ };
Ckpt__V1__Allocation *run_owner_job(const char *socket, const char *allocation_id,
                                    uint64_t timeout_ms);
/* The same; *ret_unknown: the cluster has answered that it knows no such job of the caller's. */
Ckpt__V1__Allocation *run_owner_job_asked(const char *socket, const char *allocation_id,
                                          uint64_t timeout_ms, bool *ret_unknown);
/* The same; a failure is printed, and *ret_code is the exit code for it. */
Ckpt__V1__Allocation *run_owner_job_told(const char *socket, const char *allocation_id,
                                         int *ret_code);

/* Its state in the owner's words, with the line that goes on from it (src/cli/owner.h). */
void run_owner_job_print(FILE *out, const char *socket, const Ckpt__V1__Allocation *job,
                         const char *node_id);
/* The line that goes on alone. */
void run_owner_job_next(FILE *out, const char *socket, const Ckpt__V1__Allocation *job);

/* Nothing of it runs any more, until it is restarted. */
bool run_owner_stopped(const Ckpt__V1__Allocation *job);

/* The outcome of a change: of the answer the status and its text; its bytes are closed. */
struct run_owner_change {
    struct run_answer answer;
    uint64_t checkpoint_id; /* created or concerned; 0: none */
};
void run_owner_checkpoint(const char *socket, const char *allocation_id, const char *request_id,
                          struct run_owner_change *ret_change);
void run_owner_migrate(const char *socket, const char *allocation_id,
                       struct run_owner_change *ret_change);
void run_owner_restart(const char *socket, const char *allocation_id, bool from_scratch,
                       struct run_owner_change *ret_change);
/* Ends it for good. The exit code; a failure is printed. */
int run_owner_end(const char *socket, const char *allocation_id);

#endif
