/* See adopt.h. */
#include "src/agent/adopt.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/proc.h"
#include "src/base/log.h"

struct found {
    char allocation_id[ID_MAX_BYTES + 1];
    char node_id[ID_MAX_BYTES + 1];
    char work_dir[LEDGER_WORK_DIR_BYTES];
    char socket[PATH_MAX];
    char life[CHECKPOINT_ID_TEXT_BYTES];
};

static void take_variable(const char *text, const char *name, char *ret_value, size_t size)
{
    size_t length = strlen(name);

    if (strncmp(text, name, length) != 0 || text[length] != '=' ||
        strlen(text + length + 1) >= size)
        return;
    snprintf(ret_value, size, "%s", text + length + 1);
}

static bool read_environment(pid_t pid, struct found *ret_found)
{
    char path[64];
    char *text = NULL;
    size_t size = 0;
    FILE *file;

    *ret_found = (struct found){.allocation_id = ""};
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (getdelim(&text, &size, '\0', file) > 0) {
        if (strncmp(text, "CKPT_", 5) != 0)
            continue;
        take_variable(text, "CKPT_ALLOCATION_ID", ret_found->allocation_id,
                      sizeof(ret_found->allocation_id));
        take_variable(text, "CKPT_NODE_ID", ret_found->node_id, sizeof(ret_found->node_id));
        take_variable(text, "CKPT_DIR", ret_found->work_dir, sizeof(ret_found->work_dir));
        take_variable(text, "CKPT_AGENT_SOCKET", ret_found->socket, sizeof(ret_found->socket));
        take_variable(text, "CKPT_LIFE", ret_found->life, sizeof(ret_found->life));
    }
    free(text);
    fclose(file);
    return id_valid(ret_found->allocation_id);
}

/* An entry as of one that was just attached. */
static bool entry_of(const struct machine_ops *machine, pid_t pid, const struct found *found,
                     struct ledger_entry *ret_entry)
{
    struct proc_stat stat;
    struct proc_status status;
    uint64_t life = 0;

    if (machine->process_read(machine->context, pid, &stat, &status) != 0 || !proc_living(&stat) ||
        stat.group != pid || found->work_dir[0] != '/' ||
        !machine->folder_owned(machine->context, found->work_dir, status.uid))
        return false;
    if (checkpoint_id_parse(found->life, &life) != 0)
        life = 0;
    *ret_entry = (struct ledger_entry){.pid = (uint32_t)pid,
                                       .uid = status.uid,
                                       .gid = status.gid,
                                       .start_ticks = stat.start_ticks,
                                       .life = life};
    snprintf(ret_entry->allocation_id, sizeof(ret_entry->allocation_id), "%s",
             found->allocation_id);
    snprintf(ret_entry->work_dir, sizeof(ret_entry->work_dir), "%s", found->work_dir);
    return true;
}

static int adopt(const struct machine_ops *machine, pid_t pid, const struct found *found,
                 struct ledger *adopted, struct err *err)
{
    const struct ledger_entry *known = ledger_find(adopted, found->allocation_id);
    struct ledger_entry entry;

    if (!entry_of(machine, pid, found, &entry) ||
        (known != NULL && known->start_ticks <= entry.start_ticks))
        return 0;
    log_warning("adopted", "allocation=%s life=%s pid=%d text=\"the journal is new, it runs\"",
                entry.allocation_id, found->life, (int)pid);
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
        struct found found;

        if (pid > 1 && read_environment(pid, &found) && strcmp(found.node_id, node_id) == 0 &&
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
