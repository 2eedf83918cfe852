/* Logic over the machine's table. See machine.h. */
#include "src/agent/node/machine.h"

#include "src/agent/durable/ledger.h"

#include <string.h>

#include "src/base/check.h"

struct machine_user machine_user_of(const struct proc_status *status)
{
    struct machine_user user = {.uid = status->uid, .gid = status->gid};

    memcpy(user.groups, status->groups, sizeof(user.groups));
    return user;
}

struct machine_user machine_peer_user(const struct machine_ops *machine, pid_t pid, uid_t uid,
                                      gid_t gid)
{
    struct proc_status status;

    if (machine->process_read(machine->context, pid, NULL, &status) == 0 && status.uid == uid &&
        status.gid == gid)
        return machine_user_of(&status);
    return (struct machine_user){.uid = uid, .gid = gid};
}

bool machine_alive(const struct machine_ops *machine, pid_t pid, uint64_t start_ticks)
{
    struct proc_stat stat;
    bool known = pid > 0 && start_ticks != LEDGER_NEVER_STARTED;
    int result = known ? machine->process_read(machine->context, pid, &stat, NULL) : -1;

    return result > 0 || (result == 0 && stat.start_ticks == start_ticks && proc_living(&stat));
}

struct group_others {
    const struct machine_ops *machine;
    bool has_main; /* its main process is known: all are of its group */
    uint64_t start_ticks;
    uid_t uid;
    size_t count;
};

static bool others_each(void *data, const struct proc_stat *stat)
{
    struct group_others *others = data;
    struct proc_status status;

    if (others->has_main)
        return false; /* one is enough */
    if (stat->session != stat->group && stat->start_ticks >= others->start_ticks &&
        (others->machine->process_read(others->machine->context, stat->pid, NULL, &status) != 0 ||
         status.uid == others->uid))
        return false;
    others->count++;
    return true;
}

bool machine_group_alive(const struct machine_ops *machine, pid_t group, uint64_t start_ticks,
                         uid_t uid)
{
    struct group_others others = {.machine = machine, .start_ticks = start_ticks, .uid = uid};
    struct proc_stat main_process;

    if (start_ticks == LEDGER_NEVER_STARTED)
        return false;
    others.has_main = machine->process_read(machine->context, group, &main_process, NULL) == 0;
    if (others.has_main && main_process.start_ticks != start_ticks)
        return false;
    return machine->group_each(machine->context, group, others_each, &others) > others.count;
}

struct catches {
    const struct machine_ops *machine;
    int signal;
    size_t seen;
    struct proc_catching *catching;
};

static bool catches_each(void *data, const struct proc_stat *stat)
{
    struct catches *catches = data;
    struct proc_status status;
    int result =
        catches->machine->process_read(catches->machine->context, stat->pid, NULL, &status);

    catches->seen++;
    if (result == 0)
        return proc_catching_add(catches->catching, stat, &status, catches->signal);
    /* below 0: gone between the two reads */
    catches->catching->unread = catches->catching->unread || result > 0;
    return true;
}

enum proc_catches machine_group_catches(const struct machine_ops *machine, pid_t group, int signal,
                                        struct proc_catching *ret_catching)
{
    struct catches catches = {.machine = machine, .signal = signal, .catching = ret_catching};
    size_t count;

    CHECK(signal >= 1 && signal <= 64);
    *ret_catching = (struct proc_catching){.culprit = 0};
    count = machine->group_each(machine->context, group, catches_each, &catches);
    ret_catching->unread = ret_catching->unread || count != catches.seen;
    return proc_catching_end(ret_catching);
}
