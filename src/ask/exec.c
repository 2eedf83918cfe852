/* Asking by a command: the job's ckpt-run runs it (ckpt-run --checkpoint-cmd), beside an
 * application that need not know of checkpoints; the rest is call.c's.
 *
 * Flow     ckpt-run serves the address, and brings it when it attaches.
 */
#include <stdio.h>

#include "src/ask/call.h"
#include "src/ask/rows.h"
#include "src/base/check.h"

static enum ask_ready exec_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops;
    switch (target->node->endpoint(target->context, ret_detail, size)) {
    case ASK_REGISTERED:
        return ASK_READY;
    case ASK_UNREGISTERED:
        snprintf(ret_detail, size,
                 "its ckpt-run has no command that takes a checkpoint: start it with "
                 "--checkpoint-cmd");
        return ASK_NO_HANDLER;
    case ASK_CLOSED:
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("ask_endpoint");
}

const struct ask_ops ask_exec = {
    .about = "a command of the job", .served = true, .preflight = exec_preflight, ASK_CALL_OPS};
