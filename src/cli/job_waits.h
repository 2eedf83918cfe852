/* What a job waits for, as people read it. */
#ifndef CKPT_CLI_JOB_WAITS_H
#define CKPT_CLI_JOB_WAITS_H

#include "ckpt/v1/broker.pb-c.h"
#include "src/cli/cli.h"

/* A line for each thing: to read its checkpoint before it begins, and to have what it saved read
 * before its nodes go. */
void job_waits_print(struct cli *cli, const Ckpt__V1__Allocation *job);
/* Of a victim alone; check NULL: nothing. */
void job_waits_release(struct cli *cli, const char *allocation_id,
                       const Ckpt__V1__ReleaseCheck *check);

#endif
