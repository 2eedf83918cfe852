/* The texts that LSF's programs and their caller leave for each other: what erestart says, the
 * command that a method's erestart has written, and what a checkpoint knows of its job.
 *
 * Shapes   .echkpnt in the folder of a checkpoint, lines of NAME=VALUE as LSF's: the method that
 *          took it, and the job, process and process group that it is of. .restart_cmd there:
 *          LSB_RESTART_CMD=COMMAND.
 * Errors   ERR_CORRUPT: such a file is none; ERR_EMPTY: it is not there.
 * Source   S3-024 to S3-028, S3-068; erestart(8).
 */
#ifndef CKPT_AGENT_RUN_LSF_ANSWER_H
#define CKPT_AGENT_RUN_LSF_ANSWER_H

#include <sys/types.h>

#include "src/agent/run/run_lsf.h"

enum {
    LSF_ANSWER_MAX_BYTES = 4096, /* of erestart's first words */
    LSF_COMMAND_BYTES = 16384,
    LSF_JOB_BYTES = 256
};

enum lsf_answer {
    LSF_ANSWER_NONE,      /* more may come */
    LSF_ANSWER_CHANGED,   /* pid= and pgid= are told */
    LSF_ANSWER_UNCHANGED, /* it has closed its standard error without a word */
    LSF_ANSWER_FAILED     /* any other text */
};
/* The words of erestart on its standard error. last: it has closed it, or has been silent for
 * a while. Numbers are of CHANGED. */
enum lsf_answer lsf_answer_read(const char *text, bool last, pid_t *ret_pid, pid_t *ret_group);

/* A start of erestart as ckpt-run must know it: the file is in the work folder. */
void lsf_group_write(const char *work_dir, pid_t pid, pid_t group);
/* False: there is none, or it is of processes that have gone. */
bool lsf_group_read(const char *work_dir, pid_t *ret_group);
void lsf_group_drop(const char *work_dir);

struct lsf_record {
    char method[LSF_METHOD_BYTES]; /* "": none */
    char method_dir[PATH_MAX];     /* "": none */
    char job[LSF_JOB_BYTES];       /* LSB_JOBID, then */
    pid_t pid, group;              /* 0: not known */
};
/* errno. */
int lsf_record_write(const char *folder, const struct lsf_record *record);
int lsf_record_read(const char *folder, struct lsf_record *ret_record, struct err *err);

/* ERR_EMPTY: erestart has left none, and the command of before is started. */
int lsf_command_read(const char *folder, char ret_command[LSF_COMMAND_BYTES], struct err *err);
/* The words of a command as one line for a shell, which LSF tells as LSB_ERESTART_USRCMD; the
 * caller frees it. */
char *lsf_command_line(char *const *command);

#endif
