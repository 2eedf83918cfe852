/* Control groups of jobs (cgroup v2): one folder per run of a job, in which everything that the
 * application starts is born. It is frozen, thawed and killed whole, by one write each.
 *
 *     PARENT/jobs/ALLOCATION.RUN    PARENT: the key `cgroup`, a path; or, for "auto", the agent's
 *     PARENT/agent                  own group, in which the agent then moves to this leaf
 *
 * Flow     cgroup_open() once, at the agent's start: finds where jobs may have groups, and removes
 *          the empty ones of before. cgroup_place() while the application's first process is still
 *          held, so that all that descends from it is inside. Then cgroup_freeze(), cgroup_kill();
 *          cgroup_remove() when all of it has ended. cgroup_find() for what runs although the
 *          journal does not know it.
 * Shapes   caller's storage. A group is named by its folder, an absolute path; "": none.
 * Errors   -1 with err, whose text has the next step. ERR_LOCKED of cgroup_open(): another agent
 *          has that folder; each would take the other's groups for what is left of its own
 *          jobs. ERR_REFUSED of cgroup_place(): the process is
 *          in a group of a scheduler or a container, which counts and limits by it, or in one that
 *          has a limit. It is never taken out of there: such a job is stopped by signals (still.h).
 * Absent   limits and accounting: no controller is enabled. Version 1 hierarchies, but for reading
 *          whose a process is. All calls but cgroup_wait() are short writes to kernel memory.
 * Source   cgroups(7), the kernel's cgroup-v2.rst: "frozen 1" in cgroup.events comes only when all
 *          processes stand still; /proc/PID/stat goes on saying S.
 */
#ifndef CKPT_AGENT_CGROUP_H
#define CKPT_AGENT_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

enum { CGROUP_PATH_BYTES = 768 };

/* Where version 2 is mounted. Hosts with both versions have it beside the others. */
struct cgroup_mount {
    char folder[256];
    char root[256]; /* what of the hierarchy is mounted there: "/" but in some containers */
};

/* Texts alone. -1: there is none in /proc/self/mountinfo. */
int cgroup_parse_mounts(const char *mountinfo, struct cgroup_mount *ret_mount);
/* Of /proc/PID/cgroup, the group in version 2: "/user.slice"; -1: the text has none. */
int cgroup_parse_own(const char *text, char ret_path[CGROUP_PATH_BYTES]);
/* Of /proc/PID/cgroup, the first path that a scheduler or a container runtime has made, in either
 * version; false: none. */
bool cgroup_parse_foreign(const char *text, char ret_path[CGROUP_PATH_BYTES]);

struct cgroups {
    char jobs[CGROUP_PATH_BYTES]; /* the folder of jobs' groups; "": jobs get none */
    int lock;                     /* that folder, open: its agent is this process */
};

/* `key`: "off", "auto" or the folder of a group that is the agent's to fill. "auto" that is not
 * permitted is no error: jobs get none, and *ret_why says why, for the log. */
int cgroup_open(const char *key, struct cgroups *ret_cgroups, struct err *ret_why, struct err *err);

/* What the key says, for a check of the configuration: nothing is made, moved or removed. -1: jobs
 * would get no groups, or the agent would not start. */
int cgroup_check(const char *key, struct err *err);

/* Makes the run's group, unless it is there, and moves the process with its future children there.
 * `run` as checkpoint_id_format() writes it. What is left in groups of the allocation's other runs
 * is killed: of one allocation a node runs one application. */
int cgroup_place(const struct cgroups *cgroups, const char *allocation_id, const char *run,
                 pid_t pid, char ret_folder[CGROUP_PATH_BYTES], struct err *err);

/* Whether a limit of memory or processor time holds in `folder` that does not hold for jobs' groups
 * as well: its own, or of a group above it, which `folder` becomes then. */
bool cgroup_limited(char folder[CGROUP_PATH_BYTES], const char *jobs);

/* The run's group that the process is in already, also where the key was another one then. -1: it
 * is in none that an agent of this user has made. */
int cgroup_find(const char *allocation_id, const char *run, pid_t pid,
                char ret_folder[CGROUP_PATH_BYTES]);

/* Asks for it; cgroup_wait() says when it is so. */
int cgroup_freeze(const char *folder, bool frozen, struct err *err);
/* All processes stand still (or none does so any more), at the latest after `ms`. Not for the
 * loop. */
bool cgroup_wait(const char *folder, bool frozen, int ms);
/* SIGKILL to all, also to frozen ones and to those that are being born. -1 also on kernels before
 * 5.14, which have no such file. */
int cgroup_kill(const char *folder, struct err *err);
/* With the groups that the application made below it. ERR_LOCKED: processes are left in it. */
int cgroup_remove(const char *folder, struct err *err);
/* Its processes and those of groups below it. Returns how many, at most `max`. */
size_t cgroup_pids(const char *folder, pid_t *pids, size_t max);

#endif
