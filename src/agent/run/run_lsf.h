/* LSF's words for a job that is saved from outside: the text of bsub -k, the variables and
 * lsf.conf, and the programs that they lead to.
 *
 * Flow     lsf_settings_parse() from the command line; lsf_settings_find() adds what the
 *          environment says, else $LSF_ENVDIR/lsf.conf (/etc); lsf_program_find() names a program.
 * Shapes   without a method: echkpnt and erestart, in LSF_ECHKPNTDIR, else LSF_SERVERDIR. With
 *          one: echkpnt.METHOD and erestart.METHOD, in LSB_ECHKPNT_METHOD_DIR, else LSF_SERVERDIR.
 *          "default" is LSF's own method, which LSF_SERVERDIR has.
 * Errors   ERR_INVALID: a word is wrong; ERR_NOT_FOUND: a program cannot be run, with the folder
 *          that was looked into.
 * Source   S3-012, S3-067, S3-068; bsub(1), lsf.conf(5), echkpnt(8), erestart(8).
 */
#ifndef CKPT_AGENT_RUN_LSF_H
#define CKPT_AGENT_RUN_LSF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"

enum {
    LSF_METHOD_BYTES = 65,
    LSF_PATH_MAX = 4000, /* of the folder, as LSF's */
    LSF_PERIOD_MAX_MIN = 5256000,
    LSF_CONF_MAX_BYTES = 1 << 20,
    LSF_OPTIONS_MAX = 10 /* words of a program's line, with the NULL */
};
#define LSF_METHOD_DEFAULT "default"

enum lsf_program { LSF_ECHKPNT, LSF_ERESTART };

struct lsf_settings {
    char folder[PATH_MAX];                 /* of bsub -k, absolute */
    char method[LSF_METHOD_BYTES];         /* "": none */
    char method_dir[PATH_MAX];             /* "": none is named; these two likewise */
    char server_dir[PATH_MAX];             /* LSF_SERVERDIR */
    char echkpnt_dir[PATH_MAX];            /* LSF_ECHKPNTDIR */
    bool keep_output;                      /* LSB_ECHKPNT_KEEP_OUTPUT */
    bool copies, forces, extended;         /* -c, -f, -x */
    uint32_t period_min, first_period_min; /* 0: none is named */
};

/* text: "DIR [init=MIN] [MIN] [method=NAME]"; options: "-c -f -x", NULL: none. */
int lsf_settings_parse(const char *text, const char *options, struct lsf_settings *ret_settings,
                       struct err *err);
/* Words of the line stay. */
int lsf_settings_find(struct lsf_settings *settings, struct err *err);
/* 1 to 64 of A-Z a-z 0-9 _ -. */
bool lsf_method_valid(const char *method);
/* The value of a name in the text of an lsf.conf, without its quotes; false: it has none. */
bool lsf_conf_value(const char *text, const char *name, char *ret_value, size_t size);

/* "echkpnt.METHOD", as its first word is; returns text. */
enum { LSF_NAME_BYTES = LSF_METHOD_BYTES + 16 };
const char *lsf_program_name(const struct lsf_settings *settings, enum lsf_program program,
                             char text[LSF_NAME_BYTES]);
int lsf_program_find(const struct lsf_settings *settings, enum lsf_program program,
                     char ret_path[PATH_MAX], struct err *err);
/* erestart itself starts the job and waits for it; a method's only says how it is started. */
bool lsf_erestart_is_job(const struct lsf_settings *settings);

/* echkpnt [-c] [-f] [-s] [-x] -d FOLDER GROUP and erestart [-c] [-f] FOLDER, NULL-terminated: all
 * stay the caller's. */
void lsf_echkpnt_line(const struct lsf_settings *settings, bool stops, const char *name,
                      const char *folder, const char *group, const char *ret_line[LSF_OPTIONS_MAX]);
void lsf_erestart_line(const struct lsf_settings *settings, const char *name, const char *folder,
                       const char *ret_line[LSF_OPTIONS_MAX]);
/* Runs a program with such a line in the place of this process; returns where that has failed. */
void lsf_execute(const char *program, const char *const *line);
/* The job as LSB_JOBID: LSF's own word comes before the allocation's. */
const char *lsf_job(const char *allocation_id);
/* The variables that both find. started_in: the folder of the job. */
void lsf_environment(const struct lsf_settings *settings, const char *allocation_id,
                     const char *folder, const char *started_in);

#endif
