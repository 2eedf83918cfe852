/* The living processes of a job, wherever its launcher has put them: one picture of them.
 *
 *   in its control group          all that was started since the job's first process was placed
 *   in its main process's group  the main process is what ckpt-run started
 *   by environment                the variables of ckpt-run name this job, run and work folder:
 *                                 what a daemon (slurmstepd) has started for it (stragglers.h)
 *   by descent                    a child of one of these, and its children
 *   by having been one            what the journal knows: ranks that were asked, and strays, which
 *                                 were found by descent alone when the job was made to stand still;
 *                                 and who is in a group or session that such a process has begun
 *
 * Flow     job_processes_look() asks the table of this node's processes (process_table.h) who may
 *          belong, and reads those from /proc: job_processes_add() for each, then
 *          job_processes_settle(), which are pure, so that they are tested with texts. ranks.h and
 *          still.h go on from there.
 * Shapes   the picture owns its texts, job_processes_close() frees them. It holds the job's
 *          processes, who is between one of them and another, and perhaps some who turned out to be
 *          none.
 * Errors   `unread`: some process could not be read just now, which says nothing of it.
 * Absent   processes of other users, unless the job is root's: a user cannot make the agent signal
 *          them, nor can they pass as part of another's job. Outside of a control group, processes
 *          that empty their environment, leave the group and lose their parent before they were
 *          seen.
 */
#ifndef CKPT_AGENT_JOB_PROCESSES_H
#define CKPT_AGENT_JOB_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/agent/durable/ledger.h"
#include "src/agent/node/cgroup.h"
#include "src/agent/node/proc.h"

/* What the environment says of a process that the application has started. */
struct stragglers {
    char allocation_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    uint64_t run;
    uint64_t start_ticks; /* of the application */
    uid_t uid;
};

enum { JOB_PROCESSES_KNOWN_MAX = LEDGER_RANKS_MAX + LEDGER_STRAYS_MAX };

struct process_id {
    pid_t pid;
    uint64_t start_ticks;
};

/* Whom it is about. */
_Static_assert((int)CGROUP_PATH_BYTES == (int)LEDGER_CGROUP_BYTES,
               "the journal has the folder of a group");
struct job_identity {
    struct stragglers stragglers;   /* the environment's rule; start_ticks are the main process's */
    pid_t group;                    /* of the main process, and its pid */
    char cgroup[CGROUP_PATH_BYTES]; /* its own; "": none */
    /* who was seen to belong to it: whatever has become of its parents and its environment */
    uint32_t known_count;
    struct process_id known[JOB_PROCESSES_KNOWN_MAX];
    uint32_t ranks_declared; /* on this node, as its user said; 0: nothing said */
    bool asks_group;         /* its user wants the whole process group asked */
    bool asks_started;       /* ... or its main process alone */
};

/* How much a look takes from the table of processes. */
enum process_look {
    PROCESS_KNOWN, /* strangers are as they were read, see process_table.h */
    PROCESS_ANEW   /* all that can have become the job's since they were read are read */
};
struct process_table;

enum {
    PROCESS_NO_PARENT = -1,
    PROCESS_ENVIRONMENT_BYTES = 262144 /* variables beyond are not seen */
};

struct job_process {
    struct proc_stat stat;
    uid_t uid;
    uint64_t caught;  /* bit n - 1 is signal n */
    uint64_t ignored; /* likewise */
    bool known;       /* uid and masks are; of what cannot belong they are not read */
    bool in_cgroup;
    bool belongs;      /* since job_processes_settle() */
    bool stray;        /* ... but by descent or knowledge alone: it is lost without these */
    int parent;        /* its place in the table, since job_processes_settle() */
    char *environment; /* "NAME=value" with a NUL after each; NULL: none was read */
    size_t environment_bytes;
    char *command; /* words with a NUL after each; NULL: not of interest */
    size_t command_bytes;
};

struct job_processes {
    struct job_process *items; /* by pid, since job_processes_settle() */
    size_t count;
    size_t capacity;
    bool unread;
};

void job_processes_init(struct job_processes *table);
void job_processes_close(struct job_processes *table);
/* Takes over the texts of `process`. */
void job_processes_add(struct job_processes *table, const struct job_process *process);
/* Adds those that belong by descent alone to those that are known of the job. */
void job_processes_know(const struct job_processes *table, struct job_identity *job);
void job_processes_settle(struct job_processes *table, const struct job_identity *job);
/* NULL: the process is not there. */
struct job_process *job_processes_find(const struct job_processes *table, pid_t pid);
/* The variable's value; NULL: it has none. */
const char *job_process_variable(const struct job_process *process, const char *name);
/* As much from the table as `look` says, settled. Not for the loop: an environment may have to be
 * waited for. */
void job_processes_look(struct job_processes *table, const struct job_identity *job,
                        enum process_look look);
/* The same, of another table than this node's: for tests. */
void job_processes_look_in(struct job_processes *table, const struct job_identity *job,
                           struct process_table *processes, enum process_look look);
/* Only that process, those above it and the main process: whether it belongs. Not for the loop
 * either. */
void job_processes_read_one(struct job_processes *table, const struct job_identity *job, pid_t pid);

#endif
