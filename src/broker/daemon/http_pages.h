/* What the HTTP port answers, without HTTP.
 *
 * Flow     path -> status and body, from what this process holds: no waiting, no reads of a quorum.
 *          /livez is the loop alone (it answered); /readyz is about this member's use to clients; /leader and /follower are for load
 *          balancers. 503 never means "restart me" but for /livez, which is always 200.
 * Source   U11.
 */
#ifndef CKPT_BROKER_HTTP_PAGES_H
#define CKPT_BROKER_HTTP_PAGES_H

#include <stdbool.h>

#include "src/base/buf.h"

struct broker;

struct http_page {
    unsigned status;
    const char *content_type;
};
void http_page_write(struct broker *broker, const char *path, bool verbose,
                     struct http_page *ret_page, struct buf *ret_body);

#endif
