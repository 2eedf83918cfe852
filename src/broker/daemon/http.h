/* The HTTP side port: metrics, health and role URLs, a live page. Plain HTTP/1.1 by libmicrohttpd
 * inside the loop.
 *
 * Flow     MHD's epoll descriptor is polled by the loop and its timeout is a timer of the loop; no
 *          threads. Each request is answered at once from what this process holds. /metrics /livez
 *          /readyz[?verbose] /leader /follower / (200 or 503 with one line of text; anything else
 *          404)
 * Shapes   who takes long over a request or its answer is shown out, and the slowest when there are many (src/base/http_guard.h);
 *          GET and HEAD only.
 * Errors   an address that cannot be bound fails http_open; anything from a peer is answered or
 *          cut, never logged.
 * Source   U11, U14, T-003.
 */
#ifndef CKPT_BROKER_HTTP_H
#define CKPT_BROKER_HTTP_H

#include "src/base/err.h"

struct broker;
struct http;

enum { HTTP_IDLE_S = 15, HTTP_MEMORY_PER_CONNECTION = 32768 };

/* address host:port; port 0 picks a free one. */
int http_open(struct broker *broker, const char *address, struct http **ret_http, struct err *err);
int http_port(const struct http *http);
/* Stops listening and drops connections; what the loop still holds is freed by the loop. */
void http_free(struct http *http);

#endif
