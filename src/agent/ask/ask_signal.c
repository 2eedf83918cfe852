/* Asking by a signal: a request file, one signal to the process group, a sentinel file when the application has written.
 *
 * Flow     preflight reads SigCgt of every process; fire signals the group; the rest is ask_folder.c's.
 * Shapes   profiles: "signal" (SIGUSR1) and "signal-usr2".
 * Source   S1-031, S1-032, decisions 11 and 14.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/ask/ask_folder.h"
#include "src/base/check.h"

static enum ask_ready signal_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                       char *ret_detail, size_t size)
{
    struct proc_stat culprit = {0};

    switch (machine_group_catches(target->machine, target->group, ops->signal, &culprit)) {
    case MACHINE_CATCHES:
        return ASK_READY;
    case MACHINE_WOULD_DIE:
        snprintf(
            ret_detail, size,
            "pid %d (%.40s) does not catch signal %d (SIG%s) and would die from it: let it catch "
            "or ignore it (in a shell: trap '' %s), or let it exec the program",
            (int)culprit.pid, culprit.name, ops->signal, sigabbrev_np(ops->signal),
            sigabbrev_np(ops->signal));
        return ASK_NO_HANDLER;
    case MACHINE_NONE_CATCHES:
        snprintf(ret_detail, size,
                 "no process of group %d catches signal %d (SIG%s): install a handler for it, or "
                 "start with another --profile",
                 (int)target->group, ops->signal, sigabbrev_np(ops->signal));
        return ASK_NO_HANDLER;
    case MACHINE_UNREAD:
        snprintf(ret_detail, size, "the processes of group %d cannot be read", (int)target->group);
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("machine_catches");
}

static int signal_fire(const struct ask_ops *ops, const struct ask_target *target,
                       const struct ask_request *request, const struct ask_events *events,
                       void *data, struct ask_call **ret_call, struct err *err)
{
    (void)request;
    (void)events;
    (void)data;
    *ret_call = NULL;
    return target->machine->group_signal(target->machine->context, target->group, ops->signal, err);
}

static void signal_hang_up(struct ask_call *call)
{
    CHECK(call == NULL);
}

#define SIGNAL_OPS(name, number)                                                                   \
    {                                                                                              \
        .profile = name, .signal = number, .preflight = signal_preflight,                          \
        .prepare = ask_folder_prepare, .fire = signal_fire, .hang_up = signal_hang_up,             \
        .prepared = ask_folder_prepared, .poll = ask_folder_poll, .growth = ask_folder_growth,     \
        .clear = ask_folder_clear                                                                  \
    }
const struct ask_ops ask_signal_usr1 = SIGNAL_OPS("signal", SIGUSR1);
const struct ask_ops ask_signal_usr2 = SIGNAL_OPS("signal-usr2", SIGUSR2);
