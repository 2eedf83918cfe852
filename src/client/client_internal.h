/* What client.c and wait.c share.
 *
 * Shapes   exactly one of follow and channel is set: a client follows the leader among its
 *          endpoints, or stays with one of them. Open calls are in `calls`, each with a timer for
 *          its next attempt or its deadline.
 */
#ifndef CKPT_CLIENT_CLIENT_INTERNAL_H
#define CKPT_CLIENT_CLIENT_INTERNAL_H

#include "src/base/list.h"
#include "src/client/client.h"
#include "src/rpc/timers.h"

struct client {
    uv_loop_t *loop;             /* NULL: client_call_wait only */
    struct rpc_follow *follow;   /* NULL: one endpoint, without retries */
    struct rpc_channel *channel; /* that one */
    char *endpoints;
    const struct tls_context *tls;
    uint64_t attempt_ms;
    uint64_t timeout_ms;
    struct rpc_timers timers;
    struct list calls;
    uint64_t waited_ms;       /* of attempts that were cut short, since anything was heard */
    uint64_t waited_until_ms; /* so far it is counted */
    bool freeing;
};

/* A client without endpoints; its maker sets follow or channel. */
struct client *client_make(uv_loop_t *loop, uint64_t attempt_ms, uint64_t timeout_ms);

#endif
