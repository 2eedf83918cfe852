/* Asking by a call to what the application registered; the rest is call.c's.
 *
 * Flow     preflight looks at the endpoint.
 * Source   S1-038..S1-042, P-043.
 */
#include "src/ask/call.h"
#include "src/ask/rows.h"

static enum ask_ready grpc_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops;
    return ask_call_preflight(
        target,
        "the application has not registered where it is to be called: it must "
        "call AppService.Register on $CKPT_AGENT_SOCKET",
        ret_detail, size);
}

static bool grpc_shown(const struct ask_target *target)
{
    char why[ASK_NAME_BYTES];

    return target->node->endpoint(target->context, why, sizeof(why)) != ASK_UNREGISTERED;
}

const struct ask_ops ask_grpc = {.about = "a call to what the application registered",
                                 .registers = true,
                                 .shown = grpc_shown,
                                 .preflight = grpc_preflight,
                                 ASK_CALL_OPS};
