/* The socket over which a daemon serves one of its workers (serve.h), on a libuv loop.
 *
 * Flow     serving_open() before the worker is started, serving_begin() when it runs,
 *          serving_close() when it has ended or could not be started.
 * Shapes   a worker that asks faster than SERVING_PER_S is answered later, not refused: the socket
 *          holds what waits, and then the worker's own writes do. One that takes no answers is
 *          served no more. Of many requests at once SERVING_TURN are answered in a turn of the
 *          loop, so that nobody else waits for them.
 */
#ifndef CKPT_DEST_WORKER_SERVE_H
#define CKPT_DEST_WORKER_SERVE_H

#include <uv.h>

#include "src/base/err.h"
#include "src/dest/serve.h"

enum { SERVING_PER_S = 2000, SERVING_TURN = 32, SERVING_TICK_MS = 10 };

struct serving;

/* ret_worker_end is the caller's to close once the worker has it. Arguments as serve->open() wants
 * them. -1 with ERR_IO. */
int serving_open(uv_loop_t *loop, const struct destination_serve *serve,
                 const char *const *arguments, struct serving **ret_serving, int *ret_worker_end,
                 struct err *err);
void serving_begin(struct serving *serving);
/* Freed when its handles are closed on the loop. NULL: nothing. */
void serving_close(struct serving *serving);

#endif
