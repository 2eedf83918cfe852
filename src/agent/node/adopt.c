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

static int adopt(const struct machine_ops *machine, pid_t pid, const struct proc_environment *found,
                 struct ledger *adopted, struct err *err)
{
    const struct ledger_entry *known = ledger_find(adopted, found->allocation_id);
    struct ledger_entry entry;

    if (!entry_of(machine, pid, found, &entry) ||
        (known != NULL && known->start_ticks <= entry.start_ticks))
        return 0;
    log_warning("adopted", "allocation=%s run=%s pid=%d text=\"the journal is new, it runs\"",
                entry.allocation_id, found->run, (int)pid);
    return ledger_commit(adopted, &entry, NULL, 0, 0, err);
}

static int adopt_each(const struct machine_ops *machine, const char *node_id, const char *socket,
                      struct ledger *adopted, struct err *err)
{
    DIR *folder = opendir("/proc");
    struct dirent *item;
    int result = 0;

    while (result == 0 && folder != NULL && (item = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)strtol(item->d_name, NULL, 10);
        struct proc_environment found;

        if (pid > 1 && proc_read_environment(pid, &found) && strcmp(found.node_id, node_id) == 0 &&
            strcmp(found.socket, socket) == 0)
            result = adopt(machine, pid, &found, adopted, err);
    }
    if (folder != NULL)
        closedir(folder);
    return result;
}

int adopt_running(const struct machine_ops *machine, const char *node_id, const char *socket,
                  struct ledger *ledger, struct err *err)
{
    char own[PATH_MAX];
    struct ledger *adopted;
    int result;

    if (ledger_next(ledger, NULL) != NULL || ledger_last_sequence(ledger) > 0 ||
        proc_socket_name(socket, own) != 0)
        return 0;
    adopted = ledger_new();
    result = adopt_each(machine, node_id, own, adopted, err);
    if (result == 0)
        result = ledger_adopt(ledger, adopted, err);
    ledger_close(adopted);
    return result;
}
