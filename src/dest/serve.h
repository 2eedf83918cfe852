/* The daemon's side of a kind of destination whose workers cannot do all by themselves: a worker
 * runs as the user of a job, and reads what users and stores have written. So what nobody else may
 * know stays in the daemon.
 *
 * Flow     worker_start() asks the row of the task's destination (destination.h). With `serve` the
 *          worker inherits an end of a socket whose number is in its environment as `variable`; the
 *          daemon answers what comes from the other one: a datagram each, in order.
 * Shapes   one state for each worker, from its start to its end; all on the loop's thread.
 * Errors   an answer is always given: whatever is wrong is said in it, in the kind's own protocol.
 */
#ifndef CKPT_DEST_SERVE_H
#define CKPT_DEST_SERVE_H

#include <stddef.h>

/* Of a request and of an answer. Longer requests are cut, and told by their length. */
enum { SERVE_MESSAGE_BYTES = 8192 };

/* What a kind does for its workers. */
struct destination_serve {
    const char *variable;
    /* The worker's arguments as in worker.h; they say what the task is, and so what it may ask for.
     * Never NULL: what cannot be served is refused by the answers. */
    void *(*open)(const char *const *arguments);
    /* Blocks never. Returns the length of the answer, 1 to SERVE_MESSAGE_BYTES. `length` is the
     * request's own; above SERVE_MESSAGE_BYTES it was cut. */
    size_t (*answer)(void *state, const char *request, size_t length,
                     char ret_answer[SERVE_MESSAGE_BYTES]);
    void (*close)(void *state);
};

#endif
