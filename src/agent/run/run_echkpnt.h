/* Checkpoints by a site's echkpnt, as LSF calls it (ckpt-run -k): the front of run_command.h that
 * speaks LSF's contract.
 *
 * Flow     run_echkpnt_open() once: both programs are there, or ckpt-run does not start. For each
 *          checkpoint run_echkpnt_group() says of which process group it is to be, and
 *          run_echkpnt_become() is the child that runs the program.
 * Shapes   as the job's user, in the folder of the checkpoint, which is -d and LSB_CHKPNT_DIR as
 *          well: whatever the program writes to it is the checkpoint. -s where the checkpoint ends
 *          the job: it stands still then, and the agent kills it when the checkpoint is committed.
 *          -k would kill it before.
 * Errors   of open: run_lsf.h. A program that ends otherwise than with 0 has failed.
 * Source   S3-010 to S3-021, S3-067, S3-068.
 */
#ifndef CKPT_AGENT_RUN_ECHKPNT_H
#define CKPT_AGENT_RUN_ECHKPNT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "src/agent/run/run_options.h"
#include "src/base/err.h"

#define RUN_FORCED_LABEL "forced-may-not-restart"

/* Without -k in the options nothing is looked for. work_dir: the caller's, for as long as this is
 * used. */
int run_echkpnt_open(const struct run_options *options, const char *work_dir, struct err *err);
/* The way of saving is this one. */
bool run_echkpnt_is_on(void);
/* application: the process that ckpt-run has started. False: erestart has not started the job
 * yet. */
bool run_echkpnt_group(pid_t application, pid_t *ret_group);

struct echkpnt_call {
    const char *folder; /* of the checkpoint */
    pid_t application, group;
    bool stops; /* the checkpoint ends the job */
};
/* In a child with a session of its own. */
__attribute__((noreturn)) void run_echkpnt_become(const struct echkpnt_call *call);
/* How it has failed, for people; returns text. */
const char *run_echkpnt_failure(int wait_status, char *text, size_t size);
/* The label of a checkpoint to which the program has given none; "": none. */
const char *run_echkpnt_label(void);

#endif
