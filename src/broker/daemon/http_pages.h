/* The pages of ckptd's HTTP port: the table, without HTTP.
 *
 * Flow     path -> status and body, from what this process holds: no waiting, no reads of a quorum.
 *          /livez is the loop alone (it answered); /readyz is about this member's use to clients;
 *          /leader and /follower are for load balancers. 503 never means "restart me" but for
 *          /livez, which is always 200.
 * Source   U11.
 * Shapes   a page is written into the caller's buffer on the loop thread, from what is at hand; the
 *          live page has at most 50 rows, so that it never holds the loop.
 * Errors   a page does not fail: what is not known is said to be unknown.
 */
#ifndef CKPT_BROKER_HTTP_PAGES_H
#define CKPT_BROKER_HTTP_PAGES_H

#include "src/serve/http.h"

/* Their data is a struct broker. */
extern const struct http_page http_pages[];

#endif
