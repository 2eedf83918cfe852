/* Asking by a signal: a request file, one signal to the process group, a sentinel file when the application has written.
 *
 * Flow     preflight reads SigCgt of every process; prepare makes <work>/out/<hint>/ and <work>/request; fire signals the group;
 *          poll reads <work>/done.
 * Shapes   profiles: "signal" (SIGUSR1) and "signal-usr2".
 * Errors   a sentinel that is incomplete or of another hint counts as nothing yet.
 * Source   S1-031, S1-032, decisions 11 and 14.
 */
#include "src/agent/ask.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

static enum ask_ready signal_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                       char *ret_detail, size_t size)
{
    struct proc_stat culprit = {0};

    switch (machine_group_catches(target->machine, target->group, ops->signal, &culprit)) {
    case MACHINE_CATCHES:
        return ASK_READY;
    case MACHINE_WOULD_DIE:
        snprintf(ret_detail, size,
                 "pid %d (%s) of the group does not catch signal %d (%s) and would die from it",
                 (int)culprit.pid, culprit.name, ops->signal, strsignal(ops->signal));
        return ASK_NO_HANDLER;
    case MACHINE_NONE_CATCHES:
        snprintf(ret_detail, size, "no process of group %d catches signal %d (%s)",
                 (int)target->group, ops->signal, strsignal(ops->signal));
        return ASK_NO_HANDLER;
    }
    CHECK_UNREACHABLE("machine_catches");
}

static void work_path(const struct ask_target *target, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", target->work_dir, name);
}

static void remove_file(const struct ask_target *target, const char *name)
{
    char path[PATH_MAX];

    work_path(target, name, path);
    target->machine->file_remove(target->machine->context, target->user, path);
}

static int signal_prepare(const struct ask_target *target, const char *hint, const char *directory,
                          uint64_t deadline_ms, struct err *err)
{
    const struct machine_ops *machine = target->machine;
    char text[PATH_MAX + 256];
    char path[PATH_MAX];
    size_t length = request_format(hint, directory, deadline_ms, text, sizeof(text));

    if (length == 0)
        return err_set(err, ERR_INVALID, "the work folder's path is too long");
    /* a sentinel of an earlier life of the cluster may carry the same hint */
    remove_file(target, "done");
    work_path(target, "out", path);
    if (machine->folder_make(machine->context, target->user, path, true, err) != 0 ||
        machine->folder_make(machine->context, target->user, directory, false, err) != 0)
        return -1;
    work_path(target, "request", path);
    return machine->file_write(machine->context, target->user, path, text, length, err);
}

static int signal_fire(const struct ask_ops *ops, const struct ask_target *target, struct err *err)
{
    return target->machine->group_signal(target->machine->context, target->group, ops->signal, err);
}

static ssize_t read_small(const struct ask_target *target, const char *name, char *text,
                          size_t size)
{
    char path[PATH_MAX];

    work_path(target, name, path);
    return target->machine->file_read(target->machine->context, target->user, path, text, size);
}

static bool signal_prepared(const struct ask_target *target, const char *hint)
{
    char text[SENTINEL_MAX_BYTES + 1];
    char line[HINT_TEXT_BYTES + 16];

    if (read_small(target, "request", text, sizeof(text)) <= 0)
        return false;
    snprintf(line, sizeof(line), "hint=%s\n", hint);
    return strncmp(text, line, strlen(line)) == 0;
}

static enum ask_answer signal_poll(const struct ask_target *target, const char *hint,
                                   struct sentinel *ret_sentinel)
{
    char text[SENTINEL_MAX_BYTES + 1];
    ssize_t length = read_small(target, "done", text, sizeof(text));
    struct sentinel sentinel;

    if (length <= 0 || sentinel_parse(text, (size_t)length, &sentinel) != 0)
        return ASK_NOTHING_YET;
    if (strcmp(sentinel.hint, hint) != 0)
        return ASK_NOTHING_YET; /* stale */
    *ret_sentinel = sentinel;
    return ASK_DONE;
}

static struct machine_growth signal_growth(const struct ask_target *target, const char *directory)
{
    return target->machine->folder_growth(target->machine->context, target->user, directory);
}

static void signal_clear(const struct ask_target *target)
{
    remove_file(target, "request");
    remove_file(target, "done");
}

#define SIGNAL_OPS(name, number)                                                                   \
    {                                                                                              \
        .profile = name, .signal = number, .preflight = signal_preflight,                          \
        .prepare = signal_prepare, .fire = signal_fire, .prepared = signal_prepared,               \
        .poll = signal_poll, .growth = signal_growth, .clear = signal_clear                        \
    }
static const struct ask_ops ask_table[] = {
    SIGNAL_OPS("signal", SIGUSR1),
    SIGNAL_OPS("signal-usr2", SIGUSR2),
};

const struct ask_ops *ask_find(const char *profile)
{
    if (profile[0] == '\0')
        return &ask_table[0];
    for (size_t i = 0; i < ARRAY_COUNT(ask_table); i++) {
        if (strcmp(ask_table[i].profile, profile) == 0)
            return &ask_table[i];
    }
    return NULL;
}

const char *ask_profiles(void)
{
    return "signal (SIGUSR1), signal-usr2 (SIGUSR2); shm, grpc, exec, criu and dmtcp are "
           "UNIMPLEMENTED in this version";
}
