/* Blocking work on destinations in a process of its own: ckpt-worker. A hung mount hangs the
 * worker, never the daemon.
 *
 * Flow     worker_start() spawns `ckpt-worker VERB ...` found beside the running program, with the
 * request as arguments; the worker prints result lines "key=value" on stdout and an error text on
 * stderr; worker_done_fn gets them. Verbs: probe PREFIX | put | verify | restore | collect
 * (src/store/README.md has the arguments). Shapes   a worker that passes its deadline is killed;
 * one that does not die (D state) is reported `unkillable` once and kept until it is reaped;
 * worker_active() then still counts it. Units    milliseconds; bytes per second for the rate limit.
 */
#ifndef CKPT_STORE_WORKER_H
#define CKPT_STORE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "src/base/err.h"

enum { WORKER_OUTPUT_MAX_BYTES = 65536, WORKER_ARGUMENTS_MAX = 32 };

struct worker;
struct worker_result {
    int exit_code; /* 0 ok; else see `error` */
    bool timed_out;
    bool unkillable; /* SIGKILL had no effect within a second: D state */
    bool cancelled;
    uint64_t duration_ms;
    char error[512];    /* first line of stderr, or what happened */
    const char *output; /* stdout, lines of key=value, NUL-terminated; valid during the callback */
};
typedef void worker_done_fn(void *data, const struct worker_result *result);

/* Full path of the worker program; "" finds `ckpt-worker` in the folder of /proc/self/exe. Copied.
 */
void worker_set_program(const char *path);
/* arguments: verb first, NULL-terminated. uid/gid: run as (-1: unchanged). done is called exactly
 * once. */
int worker_start(uv_loop_t *loop, const char *const *arguments, uid_t uid, gid_t gid,
                 uint64_t deadline_ms, worker_done_fn *done, void *data, struct worker **ret_worker,
                 struct err *err);
void worker_cancel(struct worker *worker); /* SIGKILL; done still comes, with cancelled = true */
size_t worker_active(void);
/* The value of `key` in the output, copied; -1 when absent or too long. */
int worker_output_get(const char *output, const char *key, char *ret_value, size_t size);

#endif
