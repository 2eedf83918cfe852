/* The HTTP side port of a daemon: plain HTTP/1.1 by libmicrohttpd inside the loop. A page is a row
 * of its owner's table.
 *
 * Flow     MHD's epoll descriptor is polled by the loop and its timeout is a timer of the loop; no
 *          threads. Each request is answered at once from what the process holds: GET and HEAD of
 *          the table's paths; anything else is 404, with the paths that there are, or 405.
 * Shapes   who takes long over a request or its answer is shown out, and the slowest when there are
 *          many (http_guard.h). A connection gets two answers in a turn of the loop: who has sent
 *          more requests before the first answer is shown out as well. What the site names outlives
 *          the port.
 * Errors   an address that cannot be bound fails http_open; anything from a peer is answered or
 *          cut, never logged.
 * Source   U11, U14, T-003.
 */
#ifndef CKPT_SERVE_HTTP_H
#define CKPT_SERVE_HTTP_H

#include <stdbool.h>
#include <uv.h>

#include "src/base/err.h"
#include "src/serve/metrics.h"

/* The library's own limits behind those of http_guard.h: how long a connection may be silent, and
 * how much it may hold, which bounds a request line with its headers. */
enum { HTTP_IDLE_S = 15, HTTP_MEMORY_PER_CONNECTION = 32768 };

#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_HTML "text/html; charset=utf-8"

/* One page: a row of its owner's static table. */
struct http_page {
    const char *path; /* NULL: the end of the table */
    const char *content_type;
    /* Appends the body to an empty buffer and returns the HTTP status, at once, on the loop thread:
     * a page that needs time is no page. Called for HEAD as well, whose body is not sent. verbose:
     * the request has "?verbose". */
    unsigned (*write)(void *data, bool verbose, struct buf *body);
};

/* What a port answers beside /livez (the loop answered) and /metrics; kept as it is given. */
struct http_site {
    const struct http_page *pages; /* NULL: none */
    void *data;                    /* of their functions */
    struct metrics *metrics;       /* what /metrics renders; NULL: an empty page */
};

struct http;

/* Begins to listen and to answer on the loop. address: an IP address or localhost, and a port; port
 * 0 picks a free one. The site is copied, what it points to outlives the port. 0; or -1 with err:
 * ERR_INVALID for an address that is none, ERR_IO when it cannot be bound. No TLS and no login:
 * bind it to where only those who may read can reach it. */
int http_open(uv_loop_t *loop, const char *address, const struct http_site *site,
              struct http **ret_http, struct err *err);
/* The port that is listened on, also when 0 was asked for. */
int http_port(const struct http *http);
/* Stops listening and drops connections; what the loop still holds is freed by the loop. NULL
 * allowed. */
void http_free(struct http *http);

#endif
