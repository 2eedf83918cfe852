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

static void take_room(uint64_t *room, uint64_t bytes)
{
    CHECK(room != NULL);
    *room -= bytes < *room ? bytes : *room;
}

uint64_t memory_user_max(const struct agent *agent)
{
    uint64_t most = agent->memory_user_max_bytes;

    CHECK(agent->memory_path[0] != '\0' || agent->memory_max_bytes == 0);
    return most > 0 && most < agent->memory_max_bytes ? most : agent->memory_max_bytes / 4 * 3;
}

uint64_t memory_room(const struct agent *agent, const struct allocation *but)
{
    uint64_t room = agent->memory_max_bytes, own = memory_user_max(agent);

    CHECK(agent->memory_path[0] == '\0' || room > 0);
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct allocation *other = LIST_ITEM(at, struct allocation, node);

        if (other == but || !attempt_writes(&other->attempt) || other->entry.memory[0] == '\0')
            continue;
        take_room(&room, other->entry.last_bytes);
        if (but != NULL && other->entry.uid == but->entry.uid)
            take_room(&own, other->entry.last_bytes);
    }
    return but != NULL && own < room ? own : room;
}

/* ---- the end ---- */

static bool has_copy(const struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->copy_count <= LEDGER_COPIES_MAX);
    for (uint32_t i = 0; i < entry->copy_count; i++)
        if (memory_holds(allocation->agent, entry->copies[i].work_dir))
            return true;
    return false;
}

static bool needs_folder(const struct allocation *allocation)
{
    return allocation->process.state != PROCESS_ABSENT || allocation->entry.restart_awaited ||
           allocation->stream != NULL || attempt_busy(&allocation->attempt) || has_copy(allocation);
}

/* Root's worker, since the folder lies in root's: it follows no link. */
void memory_close(const struct allocation *allocation)
{
    const struct agent *agent = allocation->agent;
    char home[LEDGER_WORK_DIR_BYTES];
    const char *folders[MACHINE_FOLDERS_MAX] = {home};

    memory_home(agent, (uid_t)allocation->entry.uid, home);
    if (home[0] == '\0')
        return;
    CHECK(memory_holds(agent, home));
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct allocation *other = LIST_ITEM(at, struct allocation, node);

        if (other->entry.uid == allocation->entry.uid && needs_folder(other))
            return;
    }
    (void)agent->machine.folders_remove(
        agent->machine.context, (struct machine_user){.uid = 0},
        &(struct machine_folders){folders, 1, allocation->entry.wipe}, NULL, NULL);
}

uint64_t memory_copies_max(const struct agent *agent)
{
    CHECK(agent->memory_path[0] != '\0' || agent->memory_max_bytes == 0);
    return agent->memory_max_bytes / 2;
}
