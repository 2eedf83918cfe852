/* Asking by a call to what the application registered; the rest is call.c's.
 *
 * Flow     preflight looks at the endpoint.
 * Source   S1-038..S1-042, P-043.
 */
#include <stdio.h>

#include "src/ask/call.h"
#include "src/ask/rows.h"
#include "src/base/check.h"

static enum ask_ready grpc_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops;
    switch (target->node->endpoint(target->context, ret_detail, size)) {
    case ASK_REGISTERED:
        return ASK_READY;
    case ASK_UNREGISTERED:
        snprintf(ret_detail, size,
                 "the application has not registered where it is to be called: it must call "
                 "AppService.Register on $CKPT_AGENT_SOCKET");
        return ASK_NO_HANDLER;
    case ASK_CLOSED:
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("ask_endpoint");
}

const struct ask_ops ask_grpc = {.about = "a call to what the application registered",
                                 .registers = true,
                                 .preflight = grpc_preflight,
                                 ASK_CALL_OPS};
