/* Asking criu, which saves a program from outside: the job's ckpt-run calls it (--profile criu);
 * the rest is call.c's.
 *
 * Flow     ckpt-run serves the address, and brings it when it attaches.
 */
#include "src/ask/call.h"
#include "src/ask/rows.h"

static enum ask_ready criu_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops;
    return ask_call_preflight(target,
                              "its ckpt-run does not save it from outside: start it with "
                              "--profile criu",
                              ret_detail, size);
}

const struct ask_ops ask_criu = {.about =
                                     "criu, from outside; the program need not know of checkpoints",
                                 .served = true,
                                 .leaves_stopped = true,
                                 .preflight = criu_preflight,
                                 ASK_CALL_OPS};
