/* The HTTP side port of a daemon: plain HTTP/1.1 by libmicrohttpd inside the loop. A page is a row
 * of its owner's table.
 *
 * Flow     the loop polls MHD's epoll descriptor, and MHD's timeout is a timer of the loop; no
 *          threads. Each request is answered at once, from memory: GET and HEAD of the table's
 *          paths. Any other path is 404, with the list of paths; any other method is 405.
 * Shapes   a client that takes long over a request or an answer is closed, and the slowest client
 *          when there are many (http_guard.h). A connection gets two answers in a turn of the loop.
 *          A client that has sent more requests before the first answer is closed as well. The
 *          site's pointers outlive the port.
 * Errors   an address that cannot be bound fails http_open; a peer's input is answered or cut,
 *          never logged.
 * Source   U11, U14, T-003.
 */
#ifndef CKPT_SERVE_HTTP_H
#define CKPT_SERVE_HTTP_H

#include <stdbool.h>
#include <uv.h>

#include "src/base/err.h"
#include "src/serve/metrics.h"

/* The library's own limits behind those of http_guard.h: the silence of a connection, and its
 * memory, which bounds a request line with its headers. */
enum { HTTP_IDLE_S = 15, HTTP_MEMORY_PER_CONNECTION = 32768 };

#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_HTML "text/html; charset=utf-8"

/* One page: a row of its owner's static table. */
struct http_page {
    const char *path; /* NULL: the end of the table */
    const char *content_type;
    /* Appends the body to an empty buffer and returns the HTTP status, at once, on the loop thread:
     * a page that needs time is no page. Also called for HEAD, but the body is not sent then.
     * verbose: the request has "?verbose". */
    unsigned (*write)(void *data, bool verbose, struct buf *body);
    bool is_public; /* for everybody, also where the site is guarded */
};

/* The pages of a port beside /livez and /healthz (the loop answered), which are public, and
 * /metrics. */
struct http_site {
    /* where pages that are not public are to be had: others are answered 403, with this; NULL: they
     * are for everybody. Copied. */
    const char *guarded;
    const struct http_page *pages; /* NULL: none */
    void *data;                    /* of the pages' functions */
    struct metrics *metrics;       /* of /metrics; NULL: an empty page */
};

struct http;

/* Begins to listen and to answer on the loop. address: an IP address or localhost, and a port; port
 * 0 picks a free one. The site is copied; its pointers outlive the port. 0; or -1 with err:
 * ERR_INVALID for a wrong address, ERR_IO when it cannot be bound. There is no TLS and no login:
 * guard the site, or bind it to an address that only permitted readers can reach. */
int http_open(uv_loop_t *loop, const char *address, const struct http_site *site,
              struct http **ret_http, struct err *err);
/* Takes a stream socket as a connection that was accepted. trusted: it may see all pages. */
void http_adopt(struct http *http, int take_fd, bool trusted);
/* The real port, also when 0 was asked for. */
int http_port(const struct http *http);
/* Stops listening and drops connections; what the loop still holds is freed by the loop. NULL
 * allowed. */
void http_free(struct http *http);

#endif
