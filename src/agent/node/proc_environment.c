/* What ckpt-run told an application by its environment. See proc_environment.h. */
#include "src/agent/node/proc_environment.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_variable(const char *text, const char *name, char *ret_value, size_t size)
{
    size_t length = strlen(name);

    if (strncmp(text, name, length) != 0 || text[length] != '=' ||
        strlen(text + length + 1) >= size)
        return;
    snprintf(ret_value, size, "%s", text + length + 1);
}

bool proc_read_environment(pid_t pid, struct proc_environment *ret_found)
{
    char path[64];
    char *text = NULL;
    size_t size = 0;
    FILE *file;

    *ret_found = (struct proc_environment){.allocation_id = ""};
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
        take_variable(text, "CKPT_RUN", ret_found->run, sizeof(ret_found->run));
    }
    free(text);
    fclose(file);
    return id_valid(ret_found->allocation_id);
}

bool proc_is_secure(pid_t pid)
{
    Elf64_auxv_t item;
    bool secure = true;
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return true;
    while (fread(&item, sizeof(item), 1, file) == 1 && item.a_type != AT_NULL)
        if (item.a_type == AT_SECURE)
            secure = item.a_un.a_val != 0;
    fclose(file);
    return secure;
}
