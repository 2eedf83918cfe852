/* Asking by a signal: a request file, one signal to each rank, a sentinel file of each that has
 * written. Where nothing numbers ranks, the signal goes to each process that catches it while none
 * above it in the job does; or to the process group, where the job's user wants that.
 *
 * Flow     preflight has SigCgt of each rank, or of every process that could be asked; the rest is
 *          folder.c's. Launchers and wrapper scripts are not signalled: they are no ranks.
 * Shapes   profiles: "signal" (SIGUSR1) and "signal-usr2"; a job's user may name any other signal.
 * Source   S1-031, S1-032, S4-003, decisions 11 and 14.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/ask/folder.h"
#include "src/ask/rows.h"
#include "src/base/check.h"
#include "src/base/signal_name.h"

/* Their numbers stand for processes that are known. */
static bool asks_ranks(const struct ask_target *target)
{
    struct ask_rank first;

    if (target->node->rank_count(target->context) == 0)
        return false;
    target->node->rank(target->context, 0, &first);
    return first.pid != 0;
}

/* Of its profile, or of its user's own. */
static int signal_of(const struct ask_ops *ops, const struct ask_target *target)
{
    CHECK(ops->signal != 0);
    CHECK(target->signal >= 0 && target->signal <= ASK_SIGNAL_MAX);
    return target->signal != 0 ? target->signal : ops->signal;
}

static bool rank_catches(const struct ask_ops *ops, const struct ask_target *target,
                         const struct ask_rank *rank)
{
    if (target->signal != 0)
        return rank->catches_asked;
    return ops->signal == SIGUSR1 ? rank->catches_usr1 : rank->catches_usr2;
}

static enum ask_ready preflight_ranks(const struct ask_ops *ops, const struct ask_target *target,
                                      char *ret_detail, size_t size)
{
    size_t count = target->node->rank_count(target->context);
    const int number = signal_of(ops, target);
    char name[SIGNAL_NAME_BYTES];
    struct ask_rank rank;

    for (size_t i = 0; i < count; i++) {
        target->node->rank(target->context, i, &rank);
        if (rank.tells || rank_catches(ops, target, &rank))
            continue;
        snprintf(ret_detail, size,
                 "rank %" PRIu32 ", pid %d (%.40s), does not catch signal %d (SIG%s): install a "
                 "handler for it, or start with another --profile",
                 rank.number, (int)rank.pid, rank.name, number, signal_name_format(number, name));
        return ASK_NO_HANDLER;
    }
    return ASK_READY;
}

static enum ask_ready signal_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                       char *ret_detail, size_t size)
{
    struct ask_process culprit = {0};
    const int number = signal_of(ops, target);
    char name[SIGNAL_NAME_BYTES];

    if (asks_ranks(target))
        return preflight_ranks(ops, target, ret_detail, size);
    switch (target->node->job_catches(target->context, number, &culprit)) {
    case ASK_CATCHES:
        return ASK_READY;
    case ASK_WOULD_DIE:
        snprintf(
            ret_detail, size,
            "pid %d (%.40s) does not catch signal %d (SIG%s) and would die from it: let it catch "
            "or ignore it (in a shell: trap '' %s), or start without --ask group",
            (int)culprit.pid, culprit.name, number, signal_name_format(number, name), name);
        return ASK_NO_HANDLER;
    case ASK_NONE_CATCHES:
        snprintf(ret_detail, size,
                 "no process of the job, whose group is %d, catches signal %d (SIG%s): install a "
                 "handler for it, or start with another --profile",
                 (int)target->group, number, signal_name_format(number, name));
        return ASK_NO_HANDLER;
    case ASK_UNREAD:
        snprintf(ret_detail, size, "the processes of group %d cannot be read", (int)target->group);
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("ask_catches");
}

/* One that has ended meanwhile is seen by who waits for it. */
static int signal_fire(const struct ask_ops *ops, const struct ask_target *target,
                       const struct ask_request *request, const struct ask_listener *listener,
                       struct ask_call **ret_call, struct err *err)
{
    size_t count = target->node->rank_count(target->context), told = 0;
    const int number = signal_of(ops, target);
    struct ask_rank rank;

    (void)listener;
    *ret_call = NULL;
    if (!asks_ranks(target))
        return target->node->job_signal(target->context, number, err);
    for (size_t i = 0; i < count; i++) {
        target->node->rank(target->context, i, &rank);
        if (rank.tells)
            target->node->rank_tell(target->context, i, request);
        told += rank.tells || target->node->rank_signal(target->context, i, number, err) == 0;
    }
    return told > 0 ? 0 : -1;
}

static void signal_hang_up(struct ask_call *call)
{
    CHECK(call == NULL);
}

#define SIGNAL_OPS(text, number)                                                                   \
    {                                                                                              \
        .about = text, .signal = number, .ranks = true, .preflight = signal_preflight,             \
        .fire = signal_fire, .hang_up = signal_hang_up, ASK_FOLDER_OPS                             \
    }
const struct ask_ops ask_signal_usr1 = SIGNAL_OPS("SIGUSR1", SIGUSR1);
const struct ask_ops ask_signal_usr2 = SIGNAL_OPS("SIGUSR2", SIGUSR2);
