/* Facts of /proc about processes: the processes of a group, the signals that they catch, their
 * starts.
 *
 * Flow     proc_read_stat() and proc_read_status() for one process; proc_group() calls back for
 *          each living process of a process group. proc_catching_add() for each of a group says in
 *          the end what a signal would do to it.
 * Shapes   caller's storage; parsing is separate from reading, so that it can be tested with texts.
 * Units    start_ticks as in /proc/PID/stat field 22: with the pid it names a process for the life
 *          of the boot.
 * Errors   -1: no such process, or one that this program may not see. 1: not to be read just now
 *          (no descriptor, no memory): it may well live, and nothing follows from it. The parsers:
 *          -1, a text that is not what the kernel writes.
 * Source   proc(5). Requirement decision 11: SIGUSR1's default action kills, so the handler is
 *          looked for first.
 */
#ifndef CKPT_AGENT_PROC_H
#define CKPT_AGENT_PROC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    pid_t pid;
    char name[64];
    char state; /* of its first thread: R S D Z T ... */
    pid_t parent;
    pid_t group;
    pid_t session;
    uint64_t threads;
    uint64_t start_ticks;
    bool executed; /* a program since it was forked; or of the kernel's own, which never do */
    /* of where the program, its arguments and its environment lie: each exec() lays them anew. 0:
     * there are none, or none that this program may see */
    uint64_t image;
};
enum { PROC_GROUPS_BYTES = 1024 };

struct proc_status {
    uid_t uid; /* real */
    gid_t gid;
    char groups
        /* supplementary: "27,1001"; as many of the first as fit; "" of a process that is more than
         * one user */
        [PROC_GROUPS_BYTES];
    uint64_t caught; /* bit n - 1 is signal n */
    uint64_t ignored;
    unsigned nested; /* numbers of it: one for each PID namespace from that of /proc inwards; 0: not
                      * told */
    pid_t inner_pid; /* the innermost of these, which it itself has for its own */
};

int proc_parse_stat(const char *text, struct proc_stat *ret_stat);
int proc_parse_status(const char *text, struct proc_status *ret_status);
/* Of a file of /proc/PID, at most `max` bytes. NULL: it is empty, or cannot be read, and then
 * *ret_result is -1 or 1 as above. The caller frees it. */
char *proc_read_bytes(pid_t pid, const char *file, size_t max, size_t *ret_bytes, int *ret_result);
int proc_read_stat(pid_t pid, struct proc_stat *ret_stat);
int proc_read_status(pid_t pid, struct proc_status *ret_status);
/* Where in the kernel its first thread waits: its function's name. "": it does not wait, or that
 * cannot be read. */
void proc_read_waits(pid_t pid, char *ret_where, size_t size);
/* Of one thread: its state, where proc_read_stat() has the first thread's. */
int proc_read_thread(pid_t pid, pid_t thread, struct proc_stat *ret_stat);
/* A zombie does not, unless only its first thread has ended. */
bool proc_living(const struct proc_stat *stat);

/* To that very process: one that has its number since is spared. -1 with errno: it is gone, or may
 * not be signalled. */
int proc_signal(pid_t pid, uint64_t start_ticks, int signal);

/* The socket's path as both ends of it write it, whatever folder they are in. -1: its folder is not
 * there. */
int proc_socket_name(const char *path, char ret_name[PATH_MAX]);

/* Living processes of the group; each() returns false to stop. Returns how many it saw, and one
 * more when not all could be read. */
typedef bool proc_each_fn(void *data, const struct proc_stat *stat);
size_t proc_group(pid_t group, proc_each_fn *each, void *data);

/* Whether a whole group can be asked by a signal. */
enum proc_catches {
    PROC_CATCHES,      /* at least one process catches the signal, and none would die from it */
    PROC_WOULD_DIE,    /* one neither catches nor ignores it */
    PROC_NONE_CATCHES, /* all ignore it: nobody would answer */
    PROC_UNREAD        /* not all of them can be read just now */
};
struct proc_catching {
    bool any;
    bool unread;
    pid_t culprit; /* the process that would die; 0: none */
    char culprit_name[64];
};
/* False: one would die, and who else there is does not matter. */
bool proc_catching_add(struct proc_catching *catching, const struct proc_stat *stat,
                       const struct proc_status *status, int signal);
enum proc_catches proc_catching_end(const struct proc_catching *catching);

/* How many files of /proc/PID this program has opened so far, by all of its threads. */
uint64_t proc_files_opened(void);

#endif
