/* The processes of this node, as the looks of all its jobs share them: read once, and from then on
 * only who is new, who may have changed, and the asking job's own.
 *
 * The table keeps the facts that decide whether a process can be a job's: its parent, group,
 * session and user, its start, and the job that its environment names. Nobody is taken for one
 * of a job by the table's word: process_table_find() says whom a job's look has to read now, and
 * what is read then decides (job_processes.h). The table's word is good for one thing, that a
 * process is a stranger. A stranger comes to belong in these ways, and is noticed so:
 *
 *   it was born, or has a pid that came again   the count of forks, and the listing of /proc: where
 *                                               few were born, of the numbers given since alone
 *   it was moved into the job's control group   cgroup.procs, which each look reads
 *   it joined a process group of the job        only from within a session; each look asks the
 *                                               kernel for the groups of those sessions
 *   it is below one of the job                  each look reads all that is below one of the job
 *   it executed a program and names the job     it is read again when its age has doubled, until it
 *   in its environment                          has executed one and was read at an age of 10 s;
 *                                               after that PROCESS_TURN of such strangers a look,
 *                                               by turns; and all of them by a look that is anew
 *
 * Flow     process_table_refresh(), then process_table_find(); environments are read by who asked,
 *          outside of the lock, as they may have to be waited for, and told to the table.
 * Shapes   as many entries of some 100 bytes as the node has processes. One table for all threads:
 *          each call takes its lock. process_table_node() lives as long as the program.
 * Errors   `unread`: a process could not be read just now; it is new to the next look again.
 * Absent   signal masks, states, names: those of a job's process are read each time.
 */
#ifndef CKPT_AGENT_PROCESS_TABLE_H
#define CKPT_AGENT_PROCESS_TABLE_H

#include "src/agent/node/job_processes.h"
#include "src/agent/node/proc_source.h"

enum { PROCESS_TURN = 16 };

/* For whom somebody looks. */
struct process_asker {
    const struct job_identity *job;
    const pid_t *inside; /* of its control group, by number */
    size_t inside_count;
};

struct process_found {
    pid_t *pids; /* processes to read: all of the job's are among them, by number */
    size_t count;
    struct proc_stat *unnamed; /* processes whose environment is read first; pid, start and image */
    size_t unnamed_count;
};

/* The job that an environment names; NULL of each: none. */
struct process_names {
    const char *allocation_id;
    const char *work_dir;
    const char *run;
};

struct process_table *process_table_new(const struct proc_source *source);
void process_table_free(struct process_table *table); /* NULL allowed */
/* The one of this program's node. */
struct process_table *process_table_node(void);
const struct proc_source *process_table_source(const struct process_table *table);

/* False: not all of it could be read. */
bool process_table_refresh(struct process_table *table, const struct process_asker *asker,
                           enum process_look look);
/* The caller closes it. */
void process_table_find(struct process_table *table, const struct process_asker *asker,
                        struct process_found *ret_found);
void process_found_close(struct process_found *found);

/* The job that the environment of the process and program names. */
void process_table_name(struct process_table *table, const struct proc_stat *stat,
                        const struct process_names *names);
/* A process as it was just read. */
void process_table_take(struct process_table *table, const struct proc_stat *stat, uid_t uid,
                        const struct process_names *names);

#endif
