/* Operation table for the machine under the agent: processes, work folders and destinations. With the clock
 * table (src/base/ops.h) and, for the journal, the disk table (raft/io_ops.h) it is everything that the agent's logic takes from its node beside RPC, so that the same logic runs on a
 * real node and in the simulator.
 *
 * Flow     real: machine_uv_ops(); the simulator brings its own. machine_alive() and machine_group_catches() are logic over the table.
 * Shapes   handles belong to the implementation and are given back once. Callbacks come on the loop thread, never from inside the call
 *          that asked for them.
 * Errors   -1 with err; ERR_FULL when there is no space, ERR_LOCKED, ERR_NOT_FOUND, else ERR_IO. What has no err is best effort.
 * Absent   retries.
 */
#ifndef CKPT_AGENT_MACHINE_H
#define CKPT_AGENT_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "src/agent/daemon/sensors.h"
#include "src/agent/node/job_process_look.h"
#include "src/agent/node/opened.h"
#include "src/agent/node/proc.h"
#include "src/agent/node/ranks.h"
#include "src/agent/node/still.h"
#include "src/agent/node/stragglers.h"
#include "src/ask/ask.h"
#include "src/base/err.h"
#include "src/dest/worker.h"

struct folder_watch; /* of a folder */
struct cleanup;      /* a removal that runs */
struct pid_watch;    /* of a process */

/* Files of a job are touched as its user, so that a link in its folder never makes the agent write elsewhere. */
struct machine_user {
    uid_t uid;
    gid_t gid;
    char groups
        [PROC_GROUPS_BYTES]; /* supplementary ones, as in proc.h: workers have them, file operations here do not need them */
};

/* What lies below a work folder, and as whom it is touched. */
struct machine_file {
    const struct opened *folder; /* NULL: it is not open, and everything fails */
    struct machine_user user;
    const char *name;
};

/* Memory that an application shares with its agent (region.h), and as whom it is touched. */
struct machine_region {
    const char *path; /* src/ask/region.h */
    struct machine_user user;
};

/* Of the files below a folder, as deep as a checkpoint may be (MANIFEST_DEPTH_MAX), and of so many names. */
struct machine_growth {
    uint64_t sum; /* changes with any name's size or time of change */
    size_t files; /* at least 1 when there are more names than are looked at */
};

enum { MACHINE_FOLDERS_MAX = 3, MACHINE_WAITS_BYTES = 64 };

/* Trees that go, one after the other. */
struct machine_folders {
    const char *const *paths;
    size_t count; /* up to MACHINE_FOLDERS_MAX */
    bool wipe;    /* their files are overwritten before: of a sensitive job */
};

struct machine_ops {
    void *context;

    /* ---- processes ---- */
    /* Either result may be NULL: not wanted. -1: no such process; 1: it cannot be read just now, which says nothing of it. */
    int (*process_read)(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status);
    /* Where in the kernel its first thread waits, such as futex_wait_queue; "": not known. */
    void (*process_waits)(void *context, pid_t pid, char ret_where[MACHINE_WAITS_BYTES]);
    /* Calls each() for the living processes of the group until it says false; how many it saw, and one more when not all could be read. */
    size_t (*group_each)(void *context, pid_t group, proc_each_fn *each, void *data);
    int (*group_signal)(void *context, pid_t group, int signal, struct err *err);
    /* Finds what is left of a job, and kills it where told to, see stragglers.h, off the loop; done() comes once with how many there were,
     * unless detached. NULL: the machine has none to find. */
    struct stragglers_look *(*stragglers_find)(void *context, const struct job_identity *job,
                                               bool kill, void (*done)(void *data, size_t count),
                                               void *data);
    void (*stragglers_detach)(struct stragglers_look *look); /* NULL allowed */
    /* ended() once when the process is gone. NULL: cannot be watched, or gone already; the caller polls as well. */
    struct pid_watch *(*pid_watch)(void *context, pid_t pid, void (*ended)(void *data), void *data);
    void (*pid_watch_free)(struct pid_watch *watch); /* NULL allowed; no callback afterwards */
    uint32_t (*load_milli)(void *context);           /* load average of a minute, in thousandths */
    /* Memory errors and temperatures below root, see sensors.h; done() comes once, unless detached. NULL: the machine has none to read. */
    struct sensors_reading *(*sensors_start)(void *context, const char *root,
                                             void (*done)(void *data,
                                                          const struct sensors *sensors),
                                             void *data);
    void (*sensors_detach)(struct sensors_reading *reading);

    /* ---- whole jobs: see job_processes.h for whom that is ---- */
    /* Who of it is a rank, see ranks.h, off the loop; done() comes once, unless detached. NULL: the
     * machine tells no ranks apart. */
    struct ranks_look *(*ranks_look)(void *context, const struct job_identity *job, int signal,
                                     ranks_done_fn *done, void *data);
    void (*ranks_detach)(struct ranks_look *look); /* NULL allowed */
    /* Whether that process is one of it, see job_process_look.h. done() comes once, unless
     * detached. */
    struct job_process_look *(*job_process_look)(void *context, const struct job_identity *job,
                                                 pid_t pid, process_done_fn *done, void *data);
    void (*process_detach)(struct job_process_look *look); /* NULL allowed */
    /* To that very process; -1 also when it is gone. */
    int (*process_signal)(void *context, pid_t pid, uint64_t start_ticks, int signal,
                          struct err *err);
    /* See still.h. NULL: the machine has no way to do it, and nothing was done. */
    struct job_still *(*job_still)(void *context, const struct job_identity *job,
                                   enum still_way way, still_done_fn *done, void *data);
    void (*job_still_change)(struct job_still *still, enum still_way way);
    void (*job_still_detach)(struct job_still *still); /* NULL allowed */

    /* ---- their control groups: see cgroup.h ---- */
    /* The job's main process gets one while it is held. -1 with err: it has
     * none. */
    int (*job_place)(void *context, const struct cgroups *cgroups, struct job_identity *job,
                     struct err *err);
    /* What runs already, in the one that it has; "": in none. */
    void (*job_find)(void *context, struct job_identity *job);
    /* All of it has ended. */
    void (*job_leave)(void *context, const char *cgroup);

    /* ---- what users name: no path of theirs is resolved on the loop, see opened.h ---- */
    struct path_open *(*path_open)(void *context, enum opened_kind kind, const char *path,
                                   uid_t uid, opened_done_fn *done, void *data);
    void (*path_open_detach)(struct path_open *open); /* NULL allowed */
    void (*opened_close)(struct opened *opened);      /* NULL allowed */
    const char *(*opened_address)(const struct opened *opened, char text[OPENED_ADDRESS_BYTES]);

    /* ---- below a work folder that is open ---- */
    /* may_exist: one that is there already is fine. */
    int (*folder_make)(void *context, const struct machine_file *folder, bool may_exist,
                       struct err *err);
    /* A symbolic link to `to`, which is not looked at. */
    int (*link_make)(void *context, const struct machine_file *link, const char *to,
                     struct err *err);
    struct machine_growth (*folder_growth)(void *context, const struct machine_file *folder);
    /* Removes the trees off the loop, as far as it can; done() comes once, unless detached. done NULL: nobody waits. */
    struct cleanup *(*folders_remove)(void *context, struct machine_user user,
                                      const struct machine_folders *folders,
                                      void (*done)(void *data), void *data);
    void (*remove_detach)(struct cleanup *cleanup); /* NULL allowed */
    /* changed() when a sentinel (src/ask/sentinel.h) is written in or moved into the folder; the caller polls as well. NULL: cannot be watched. */
    struct folder_watch *(*folder_watch)(void *context, const struct opened *folder,
                                         void (*changed)(void *data), void *data);
    void (*folder_watch_free)(struct folder_watch *watch); /* NULL allowed */
    /* Of a regular file, at most size - 1 bytes and a NUL; -1: there is none; ASK_FILE_OTHER: what
     * has the name is none, or may not be read. */
    ssize_t (*file_read)(void *context, const struct machine_file *file, char *text, size_t size);
    /* The same, of a file that is the user's own: others may be allowed to write into its folder. */
    ssize_t (*file_read_own)(void *context, const struct machine_file *file, char *text,
                             size_t size);
    /* Replaces: a reader finds the old content or the new one. Outlives the agent, not the machine. */
    int (*file_write)(void *context, const struct machine_file *file, const char *text,
                      size_t length, struct err *err);
    void (*file_remove)(void *context, const struct machine_file *file);

    /* ---- memory that is shared with an application: see region.h ---- */
    /* Before its application starts: nobody but its user has the name from here on. */
    int (*region_claim)(void *context, const struct machine_region *region, struct err *err);
    int (*region_read)(void *context, const struct machine_region *region, size_t offset,
                       void *ret_bytes, size_t length, struct err *err);
    int (*region_write)(void *context, const struct machine_region *region, size_t offset,
                        const void *bytes, size_t length, struct err *err);
    int (*region_change)(void *context, const struct machine_region *region,
                         enum ask_region_change change, const size_t *offsets, size_t count,
                         struct err *err);
    /* Its application has ended. */
    void (*region_remove)(void *context, const struct machine_region *region);

    /* ---- destinations: ckpt-worker, see src/dest/worker.h ---- */
    int (*worker_start)(void *context, const char *const *arguments, struct machine_user user,
                        uint64_t deadline_ms, worker_done_fn *done, void *data,
                        struct worker **ret_worker, struct err *err);
    void (*worker_cancel)(struct worker *worker);

    /* Ends the agent's program, not its machine. */
    __attribute__((noreturn)) void (*fail)(void *context);
};

/* The machine that this program runs on. */
void machine_uv_ops(uv_loop_t *loop, struct machine_ops *ret_ops);

/* Whose process that is, with the groups that it has. */
struct machine_user machine_user_of(const struct proc_status *status);
/* The user of a peer of a socket, with the groups of its process while that is still there. */
struct machine_user machine_peer_user(const struct machine_ops *machine, pid_t pid, uid_t uid,
                                      gid_t gid);
/* `pid` lives (a zombie does not) and was started at `start_ticks`; also when that cannot be read. */
bool machine_alive(const struct machine_ops *machine, pid_t pid, uint64_t start_ticks);
/* The group whose main process was started then has a living process, as far as can be read. Its
 * number stays taken while any lives, also after the main process; a process of that number with
 * another start has begun a group of its own. Without a main process the number may have come
 * again: then only processes of the user that were started later count, and none of a daemon, which
 * called setsid(): an application's never does, since ckpt-run starts it within its own. */
bool machine_group_alive(const struct machine_ops *machine, pid_t group, uint64_t start_ticks,
                         uid_t uid);

/* Whether the group can be asked by the signal, and who is in its way. */
enum proc_catches machine_group_catches(const struct machine_ops *machine, pid_t group, int signal,
                                        struct proc_catching *ret_catching);

#endif
