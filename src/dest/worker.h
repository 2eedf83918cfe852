/* Blocking work on destinations in a process of its own: ckpt-worker. A hung mount hangs the
 * worker, never the daemon.
 *
 * Flow     worker_start() spawns `ckpt-worker VERB ...` beside the running program, with the
 *          request as arguments. Or it gives the task to a waiting worker that has done another
 *          task for the same user (tasks.h, worker_process.h). The worker prints result lines
 *          "key=value" on stdout and an error text on stderr; worker_done_fn gets them. Verbs:
 *          probe, prepare, put, verify, restore, get, collect, abandon, keep (README.md has
 *          the arguments). A caller's turn:
 *
 *              const char *const arguments[] = {"verify", "--path", path, "--part", part, NULL};
 *              const struct worker_task task = {
 *                  .arguments = arguments, .deadline_ms = 60000, .done = on_done, .data = data};
 *
 *              worker_start(loop, &task, &worker, &err);
 *              on_done: result->exit_code == WORKER_EXIT_OK
 *                           ? worker_output_get(result->output, "size_bytes", text, sizeof(text))
 *                           : result->error says why, for people
 *
 * Shapes   a worker that passes its deadline is killed. A worker that does not die (D state) is
 *          reported `unkillable` once and kept until it is reaped. worker_active() then still
 *          counts it, but its handle must not be used any more: worker_hangs() tells when it is
 *          gone. Output beyond WORKER_OUTPUT_MAX_BYTES is read and dropped.
 * Units    milliseconds; bytes per second for the rate limit.
 * Errors   WORKER_PARENT in the worker's environment is the process id of its daemon: a worker that
 *          finds itself with another parent lost its daemon before the kernel knew that it wants to
 *          die with it.
 */
#ifndef CKPT_DEST_WORKER_H
#define CKPT_DEST_WORKER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "src/base/err.h"

/* Of a worker's environment: what begins so is the daemon's word for this one task, what has the
 * other beginning (keys of object stores) no worker inherits, whose user may read it. */
#define WORKER_WORDS   "CKPT_WORKER_"
#define WORKER_SECRETS "AWS_"
#define WORKER_PARENT  WORKER_WORDS "PARENT"
enum { WORKER_OUTPUT_MAX_BYTES = 65536, WORKER_ARGUMENTS_MAX = 32, WORKER_CAUSE_BYTES = 32 };

/* The one cause that is no Reason of the API: the destination is well. */
#define WORKER_CAUSE_NO_ROOM "target_full"

/* Exit codes of ckpt-worker; scripts and tests may rely on them. Append only. */
enum worker_exit {
    WORKER_EXIT_OK = 0,
    WORKER_EXIT_USAGE = 2,
    WORKER_EXIT_NOT_FOUND = 3,   /* no such shard or source */
    WORKER_EXIT_CORRUPT = 4,     /* a shard is not what its manifest says */
    WORKER_EXIT_UNAVAILABLE = 5, /* prefix missing, no space, I/O error: worth another try */
    WORKER_EXIT_EMPTY = 6,       /* the source holds no bytes */
    WORKER_EXIT_REFUSED = 7 /* path outside the prefix, symbolic link, device, a target in use */
};

/* A worker that was started; the caller holds the pointer until its done() was called. */
struct worker;

/* How a worker ended, for the time of the callback. */
struct worker_result {
    int exit_code;        /* enum worker_exit; -1 when a signal ended it; see `error` */
    bool timed_out;       /* it passed its deadline */
    bool unkillable;      /* SIGKILL had no effect within a second: D state */
    uint64_t hang_id;     /* of an unkillable one, never used again: for worker_hangs() */
    bool cancelled;       /* by worker_cancel() */
    uint64_t duration_ms; /* from worker_start() on, by the loop's clock */
    char error[512];      /* first line of stderr, or what happened */
    const char *output; /* stdout, lines of key=value, NUL-terminated; valid during the callback */
    /* the destination's fault, as a Reason of the API in small letters, without REASON_:
     * "storage_quota"; "": another fault, or not known */
    char cause[WORKER_CAUSE_BYTES];
};
typedef void worker_done_fn(void *data, const struct worker_result *result);

/* Full path of the worker program, of all kinds of destinations; "" finds `ckpt-worker`, or the one
 * that the kind's row names, in the folder of /proc/self/exe. Copied. */
void worker_set_program(const char *path);
/* Where that is. */
int worker_program(char ret_path[PATH_MAX], struct err *err);
/* The task of a worker. The arguments are copied. */
struct worker_task {
    const char *const *arguments; /* verb first, NULL-terminated, at most WORKER_ARGUMENTS_MAX */
    /* As whom it is done, with the groups: tasks with the same text may be done by one process, one
     * after the other. Its arguments have it as --as. "": as this program's user; NULL: by a
     * process of its own. */
    const char *user;
    /* The thing that root makes for the user first, as a text: only a process that began with it
     * does this task. NULL: nothing. */
    const char *claim;
    uint64_t deadline_ms; /* from the start; then the worker is killed */
    worker_done_fn *done;
    void *data;
};

/* Starts the program and returns at once. The worker begins as this process' user; with --as it
 * becomes another one by itself. done is called exactly once, on the loop's thread, never from
 * inside this call; it may start another worker. 0, or -1 with ERR_IO when there is no such program
 * or no process can be made: then done is never called. */
int worker_start(uv_loop_t *loop, const struct worker_task *task, struct worker **ret_worker,
                 struct err *err);
/* How long processes wait for a next task; 30 s when nothing is said. 0: not at all. */
void worker_set_idle(uint64_t ms);
/* Ends those that wait. */
void worker_retire_idle(void);
/* SIGKILL to the worker and its group; done still comes, with cancelled = true. Of one that is
 * ending already: nothing. */
void worker_cancel(struct worker *worker);
/* How many tasks there are, in this program, those that hang included. */
size_t worker_active(void);
/* Whether that unkillable one is still there. */
bool worker_hangs(uint64_t hang_id);
/* The value of `key` in the output, copied with a terminator; -1 when absent or longer than size -
 * 1. The first line with that key counts. */
int worker_output_get(const char *output, const char *key, char *ret_value, size_t size);

#endif
