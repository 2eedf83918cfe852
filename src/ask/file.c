/* Asking by the request file alone: the application looks for <work>/request by itself, or a
 * stand-in that ckpt-run has put before it does (src/agent/run/run_stand_in.h).
 *
 * Flow     prepare leaves the request; fire does nothing more, and poll reads <work>/done.
 * Errors   whether anybody looks is not known before it answers: one that does not is a timeout.
 * Source   S1-030; programs that poll for a stop file of their own.
 */
#include "src/ask/folder.h"
#include "src/ask/rows.h"
#include "src/base/check.h"

static enum ask_ready file_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops, (void)target, (void)ret_detail, (void)size;
    return ASK_READY;
}

static int file_fire(const struct ask_ops *ops, const struct ask_target *target,
                     const struct ask_request *request, const struct ask_listener *listener,
                     struct ask_call **ret_call, struct err *err)
{
    (void)ops, (void)target, (void)request, (void)listener, (void)err;
    *ret_call = NULL;
    return 0;
}

static void file_hang_up(struct ask_call *call)
{
    CHECK(call == NULL);
}

const struct ask_ops ask_file = {.about = "a file that it looks for, no signal",
                                 .stands_in = true,
                                 .preflight = file_preflight,
                                 .fire = file_fire,
                                 .hang_up = file_hang_up,
                                 ASK_FOLDER_OPS};
