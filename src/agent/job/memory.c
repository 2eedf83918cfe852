/* The node's memory as a place where applications write checkpoints. See memory.h. */
#include "src/agent/job/memory.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

void memory_home(const struct agent *agent, uid_t uid, char ret_home[LEDGER_WORK_DIR_BYTES])
{
    int length;

    CHECK(agent->memory_path != NULL);
    ret_home[0] = '\0';
    if (agent->memory_path[0] == '\0')
        return;
    length = snprintf(ret_home, LEDGER_WORK_DIR_BYTES, "%s/%u", agent->memory_path, (unsigned)uid);
    CHECK(length < LEDGER_WORK_DIR_BYTES); /* the configuration's limit */
}

bool memory_holds(const struct agent *agent, const char *work_dir)
{
    size_t length = strlen(agent->memory_path);

    CHECK(work_dir != NULL);
    CHECK(length == 0 || agent->memory_path[0] == '/');
    return length > 0 && strncmp(work_dir, agent->memory_path, length) == 0 &&
           work_dir[length] == '/';
}

uint64_t memory_room(const struct agent *agent, const struct allocation *but)
{
    uint64_t room = agent->memory_max_bytes;

    CHECK(agent->memory_path[0] == '\0' || room > 0);
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct allocation *other = LIST_ITEM(at, struct allocation, node);
        uint64_t bytes = other->entry.last_bytes;

        if (other == but || !attempt_writes(&other->attempt) || other->entry.memory[0] == '\0')
            continue;
        room -= bytes < room ? bytes : room;
    }
    return room;
}

uint64_t memory_copies_max(const struct agent *agent)
{
    CHECK(agent->memory_path[0] != '\0' || agent->memory_max_bytes == 0);
    return agent->memory_max_bytes / 2;
}
