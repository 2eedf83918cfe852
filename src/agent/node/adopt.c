/* See adopt.h. */
#include "src/agent/node/adopt.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/node/proc.h"
#include "src/agent/node/proc_environment.h"
#include "src/base/check.h"
#include "src/base/log.h"

/* An entry as of one that was just attached. It goes on when it is taken up: it may stand still for
 * a checkpoint that nobody knows of any more. */
static bool entry_of(const struct machine_ops *machine, pid_t pid,
                     const struct proc_environment *found, struct ledger_entry *ret_entry)
{
    struct job_identity job = {.group = pid};
    struct proc_stat stat;
    struct proc_status status;
    uint64_t run = 0;

    if (machine->process_read(machine->context, pid, &stat, &status) != 0 || !proc_living(&stat) ||
        stat.group != pid || found->work_dir[0] != '/' || proc_is_secure(pid))
        return false;
    if (checkpoint_id_parse(found->run, &run) != 0)
        run = 0;
    *ret_entry = (struct ledger_entry){.pid = (uint32_t)pid,
                                       .start_ticks = stat.start_ticks,
                                       .run = run,
                                       .still = STANDING_LET_GO};
    ledger_set_user(ret_entry, status.uid, status.gid, status.groups);
    snprintf(ret_entry->allocation_id, sizeof(ret_entry->allocation_id), "%s",
             found->allocation_id);
    snprintf(ret_entry->work_dir, sizeof(ret_entry->work_dir), "%s", found->work_dir);
    memcpy(job.stragglers.allocation_id, ret_entry->allocation_id,
           sizeof(job.stragglers.allocation_id));
    job.stragglers.run = run;
    machine->job_find(machine->context, &job);
    memcpy(ret_entry->cgroup, job.cgroup, sizeof(ret_entry->cgroup));
    return true;
}

struct finds {
    const struct machine_ops *machine;
    const struct ledger *journal; /* NULL: it is new */
    struct ledger *adopted;
    struct list *pretenders;
    size_t pretender_count;
};

static struct pretender *pretender_find(const struct finds *finds, const struct ledger_entry *entry)
{
    for (struct list *at = finds->pretenders->next; at != finds->pretenders; at = at->next) {
        struct pretender *pretender = LIST_ITEM(at, struct pretender, node);
        if (strcmp(pretender->allocation_id, entry->allocation_id) == 0 &&
            pretender->run == entry->run && pretender->uid == entry->uid)
            return pretender;
    }
    return NULL;
}

/* It is what the journal knows, or has been started by that. */
static bool is_known(const struct finds *finds, const struct ledger_entry *entry)
{
    const struct ledger_entry *known =
        finds->journal == NULL ? NULL : ledger_find(finds->journal, entry->allocation_id);

    return known != NULL && known->pid != 0 && known->run == entry->run && known->uid == entry->uid;
}

static void add_pretender(struct finds *finds, const struct ledger_entry *entry)
{
    struct pretender *pretender = pretender_find(finds, entry);

    if (pretender != NULL && pretender->start_ticks <= entry->start_ticks)
        return;
    if (pretender == NULL) {
        if (finds->pretender_count == PRETENDERS_MAX)
            return;
        finds->pretender_count++;
        pretender = check_calloc(1, sizeof(*pretender));
        list_push_back(finds->pretenders, &pretender->node);
    }
    memcpy(pretender->allocation_id, entry->allocation_id, sizeof(pretender->allocation_id));
    memcpy(pretender->work_dir, entry->work_dir, sizeof(pretender->work_dir));
    pretender->run = entry->run;
    pretender->pid = (pid_t)entry->pid;
    pretender->start_ticks = entry->start_ticks;
    pretender->uid = entry->uid;
}

static int adopt(struct finds *finds, pid_t pid, const struct proc_environment *found,
                 struct err *err)
{
    const struct ledger_entry *known = ledger_find(finds->adopted, found->allocation_id);
    struct ledger_entry entry;

    if (!entry_of(finds->machine, pid, found, &entry))
        return 0;
    if (is_known(finds, &entry))
        return 0;
    if (entry.cgroup[0] == '\0' || finds->journal != NULL) {
        add_pretender(finds, &entry);
        return 0;
    }
    if (known != NULL && known->start_ticks <= entry.start_ticks)
        return 0;
    log_warning("adopted", "allocation=%s run=%s pid=%d text=\"the journal is new, it runs\"",
                entry.allocation_id, found->run, (int)pid);
    return ledger_commit(finds->adopted, &entry, NULL, 0, 0, err);
}

static int adopt_each(struct finds *finds, const struct adopt_for *whose, const char *socket,
                      struct err *err)
{
    DIR *folder = opendir("/proc");
    struct dirent *item;
    int result = 0;

    while (result == 0 && folder != NULL && (item = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)strtol(item->d_name, NULL, 10);
        struct proc_environment found;

        if (pid > 1 && proc_read_environment(pid, &found) &&
            strcmp(found.node_id, whose->node_id) == 0 && strcmp(found.socket, socket) == 0)
            result = adopt(finds, pid, &found, err);
    }
    if (folder != NULL)
        closedir(folder);
    return result;
}

int adopt_running(const struct machine_ops *machine, const struct adopt_for *whose,
                  struct ledger *ledger, struct list *ret_pretenders, struct err *err)
{
    const bool journal = ledger_next(ledger, NULL) != NULL || ledger_last_sequence(ledger) > 0;
    struct finds finds = {
        .machine = machine, .journal = journal ? ledger : NULL, .pretenders = ret_pretenders};
    char own[PATH_MAX];
    int result;

    if ((journal && !whose->again) || proc_socket_name(whose->socket, own) != 0)
        return 0;
    finds.adopted = ledger_new();
    result = adopt_each(&finds, whose, own, err);
    if (result == 0 && !journal)
        result = ledger_adopt(ledger, finds.adopted, err);
    ledger_close(finds.adopted);
    return result;
}
