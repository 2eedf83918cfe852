/* Asking by a command: the job's ckpt-run runs it (ckpt-run --checkpoint-cmd), beside an
 * application that need not know of checkpoints; the rest is call.c's.
 *
 * Flow     ckpt-run serves the address, and brings it when it attaches.
 */
#include "src/ask/call.h"
#include "src/ask/rows.h"

static enum ask_ready exec_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops;
    return ask_call_preflight(target,
                              "its ckpt-run has no command that takes a checkpoint: start it with "
                              "--checkpoint-cmd, or with -k for a site's echkpnt",
                              ret_detail, size);
}

const struct ask_ops ask_exec = {.about = "a command of the job",
                                 .served = true,
                                 .leaves_stopped = true,
                                 .preflight = exec_preflight,
                                 ASK_CALL_OPS};
