/* Keeps a small HTTP port open to those who do ask: a peer that takes long over a step is shown
 * out, and so is the one that has been at its step for longest when there are many.
 *
 * Flow     http_guard_enter when a connection is accepted; http_guard_step when its request is
 *          complete, and when it is answered; http_guard_leave when it is closed. http_guard_look
 *          now and then.
 * Shapes   guests are the caller's, one per connection. Showing out is shutdown(2): the HTTP
 *          library finds the end of the connection and closes it, which is when the guest leaves.
 * Units    milliseconds of the caller's clock.
 * Absent   an answer to who is shown out: a peer that is too slow to ask would not read it.
 */
#ifndef CKPT_SERVE_HTTP_GUARD_H
#define CKPT_SERVE_HTTP_GUARD_H

#include <stdbool.h>
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

/* A connection, in its owner's memory from http_guard_enter() to http_guard_leave(). */
struct http_guest {
    struct list node;       /* alone once it was shown out */
    uint64_t since_ms;      /* when its present step began */
    uint64_t answered_turn; /* of the loop; 0: it was not yet */
    int fd;
    bool trusted; /* may see all pages; its owner's */
};

struct http_guard {
    struct list guests; /* the one whose step began first is the first */
    size_t count;
};

void http_guard_init(struct http_guard *guard);
/* A connection was accepted on fd, and its first step begins: to send a request. When it is one too
 * many, the guest whose step began first is shown out, which may be one that is just being
 * answered. */
void http_guard_enter(struct http_guard *guard, struct http_guest *guest, int fd, uint64_t now_ms);
/* The guest has finished a step and begins the next one. Of one that was shown out: nothing. */
void http_guard_step(struct http_guard *guard, struct http_guest *guest, uint64_t now_ms);
/* The connection is closed, its descriptor no longer touched. Also of one that was shown out; after
 * it the guest's memory may go. */
void http_guard_leave(struct http_guard *guard, struct http_guest *guest);
/* Shows out everybody whose step takes HTTP_GUARD_STEP_MS or longer; at least every
 * HTTP_GUARD_LOOK_MS while there are guests. Costs nothing per guest that is in time. */
void http_guard_look(struct http_guard *guard, uint64_t now_ms);

#endif
