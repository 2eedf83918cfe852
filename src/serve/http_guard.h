/* Keeps a small HTTP port open to those who do ask: a peer that takes long over a step is shown
 * out, and so is the one that has been at its step for longest when there are many.
 *
 * Flow     http_guard_enter when a connection is accepted; http_guard_step when its request is
 *          complete, and when it is answered; http_guard_leave when it is closed. http_guard_look
 *          now and then.
 * Shapes   guests are the caller's, one per connection. Showing out is shutdown(2): the HTTP
 *          library finds the end of the connection and closes it, which is when the guest leaves.
 * Units    milliseconds of the caller's clock.
 */
#ifndef CKPT_SERVE_HTTP_GUARD_H
#define CKPT_SERVE_HTTP_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/list.h"

enum {
    HTTP_GUARD_STEP_MS = 5000, /* to send a request, to take its answer, to send the next */
    HTTP_GUARD_GUESTS_MAX = 192,
    /* for the library: those who were shown out are still closing */
    HTTP_GUARD_CONNECTIONS_MAX = 256,
    HTTP_GUARD_LOOK_MS = 1000
};

struct http_guest {
    struct list node;
    uint64_t since_ms;
    uint64_t answered_turn; /* of the loop; 0: it was not yet */
    int fd;
};

struct http_guard {
    struct list guests; /* the one whose step began first is the first */
    size_t count;
};

void http_guard_init(struct http_guard *guard);
void http_guard_enter(struct http_guard *guard, struct http_guest *guest, int fd, uint64_t now_ms);
void http_guard_step(struct http_guard *guard, struct http_guest *guest, uint64_t now_ms);
void http_guard_leave(struct http_guard *guard, struct http_guest *guest);
void http_guard_look(struct http_guard *guard, uint64_t now_ms);

#endif
