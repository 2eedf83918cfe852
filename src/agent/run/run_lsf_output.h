/* The output of echkpnt and erestart, and what is told of one that failed.
 *
 * Flow     lsf_output_prepare() at the start of ckpt-run; lsf_output_open() in the process that
 *          becomes the program; lsf_failure_text() when it has ended.
 * Shapes   LSB_ECHKPNT_KEEP_OUTPUT: echkpnt.out, echkpnt.err, erestart.out and erestart.err in
 *          DIR/JOBID, appended. A job that goes on from another id's checkpoint gets that one's
 *          folder, and a link of the earlier name leads to it. Without KEEP_OUTPUT the output is
 *          thrown away, and the errors of the last time alone lie in the work folder.
 * Errors   ERR_INVALID, ERR_IO: the folder cannot be made, or is not this user's to write to.
 */
#ifndef CKPT_AGENT_RUN_LSF_OUTPUT_H
#define CKPT_AGENT_RUN_LSF_OUTPUT_H

#include "src/agent/run/run_lsf.h"

/* A program as it is run for a job. */
struct lsf_call {
    const struct lsf_settings *settings;
    enum lsf_program program;
    const char *allocation_id, *work_dir;
};

/* The folder is made where it is to be kept. */
int lsf_output_prepare(const struct lsf_settings *settings, const char *allocation_id,
                       struct err *err);
/* The job goes on from a checkpoint of the job `before`. Where that has no folder, or this one has
 * files already, both stay as they are. */
void lsf_output_follow(const struct lsf_settings *settings, const char *allocation_id,
                       const char *before);
/* Standard output and error of this process. -1: a file cannot
 * be opened, and errno says why. */
int lsf_output_open(const struct lsf_call *call);
/* How it has failed, for people: its status, and the last line of its errors, or the file that has
 * them. Returns text. */
const char *lsf_failure_text(const struct lsf_call *call, int wait_status, char *text, size_t size);
/* The last line of a text with something in it, as it can be shown; "": there is none. */
const char *lsf_last_line(char *text, char *ret_line, size_t size);

#endif
