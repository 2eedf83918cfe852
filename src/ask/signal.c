/* Asking by a signal: a request file, one signal to the process group, a sentinel file when the
 * application has written.
 *
 * Flow     preflight reads SigCgt of every process; fire signals the group; the rest is
 *          folder.c's.
 * Shapes   profiles: "signal" (SIGUSR1) and "signal-usr2".
 * Source   S1-031, S1-032, decisions 11 and 14.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/ask/folder.h"
#include "src/ask/rows.h"
#include "src/base/check.h"

static int number_of(const struct ask_ops *ops)
{
    return *(const int *)ops->own;
}

static enum ask_ready signal_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                       char *ret_detail, size_t size)
{
    struct ask_process culprit = {0};
    int number = number_of(ops);

    switch (target->node->group_catches(target->context, number, &culprit)) {
    case ASK_CATCHES:
        return ASK_READY;
    case ASK_WOULD_DIE:
        snprintf(
            ret_detail, size,
            "pid %d (%.40s) does not catch signal %d (SIG%s) and would die from it: let it catch "
            "or ignore it (in a shell: trap '' %s), or let it exec the program",
            (int)culprit.pid, culprit.name, number, sigabbrev_np(number), sigabbrev_np(number));
        return ASK_NO_HANDLER;
    case ASK_NONE_CATCHES:
        snprintf(ret_detail, size,
                 "no process of group %d catches signal %d (SIG%s): install a handler for it, or "
                 "start with another --profile",
                 (int)target->group, number, sigabbrev_np(number));
        return ASK_NO_HANDLER;
    case ASK_UNREAD:
        snprintf(ret_detail, size, "the processes of group %d cannot be read", (int)target->group);
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("ask_catches");
}

static int signal_fire(const struct ask_ops *ops, const struct ask_target *target,
                       const struct ask_request *request, const struct ask_listener *listener,
                       struct ask_call **ret_call, struct err *err)
{
    (void)request;
    (void)listener;
    *ret_call = NULL;
    return target->node->group_signal(target->context, number_of(ops), err);
}

static void signal_hang_up(struct ask_call *call)
{
    CHECK(call == NULL);
}

static const int usr1 = SIGUSR1, usr2 = SIGUSR2;

#define SIGNAL_OPS(text, number)                                                                   \
    {                                                                                              \
        .about = text, .own = &number, .preflight = signal_preflight, .fire = signal_fire,         \
        .hang_up = signal_hang_up, ASK_FOLDER_OPS                                                  \
    }
const struct ask_ops ask_signal_usr1 = SIGNAL_OPS("SIGUSR1", usr1);
const struct ask_ops ask_signal_usr2 = SIGNAL_OPS("SIGUSR2", usr2);
