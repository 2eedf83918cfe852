/* What the agent of a node says runs there, and which of it must not: applications of allocations that the state knows but not, or no
 * longer, on this node. A node that was lost may come back while its jobs run elsewhere, and a job may be ended from outside.
 *
 * Flow     hello and heartbeats carry the whole set; reports of starts and ends keep it fresh in between.
 * Shapes   one set per attached stream, at most DISPATCHER_RUNNING_MAX ids. An allocation that the state does not know is left alone:
 *          it may be about to be registered.
 * Source   F-006, F-007, F-022.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/dispatcher_internal.h"

static size_t running_find(const struct running_set *set, const char *allocation_id)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->ids[i], allocation_id) == 0)
            return i;
    }
    return SIZE_MAX;
}

static bool running_add(struct running_set *set, const char *allocation_id)
{
    if (!id_valid(allocation_id) || set->count == DISPATCHER_RUNNING_MAX ||
        running_find(set, allocation_id) != SIZE_MAX)
        return false;
    if (set->count == set->capacity) {
        set->capacity = set->capacity == 0 ? 8 : 2 * set->capacity;
        set->ids = check_realloc(set->ids, set->capacity, sizeof(*set->ids));
    }
    snprintf(set->ids[set->count++], sizeof(*set->ids), "%s", allocation_id);
    return true;
}

static bool running_drop(struct running_set *set, const char *allocation_id)
{
    size_t at = running_find(set, allocation_id);

    if (at == SIZE_MAX)
        return false;
    set->count--;
    memmove(set->ids[at], set->ids[set->count], sizeof(*set->ids));
    return true;
}

bool running_take_all(struct running_set *set, Ckpt__V1__RunningAllocation *const *items,
                      size_t count)
{
    struct running_set fresh = {0};
    bool changed;

    for (size_t i = 0; i < count; i++)
        running_add(&fresh, items[i]->allocation_id);
    changed = fresh.count != set->count;
    for (size_t i = 0; i < fresh.count && !changed; i++)
        changed = running_find(set, fresh.ids[i]) == SIZE_MAX;
    running_close(set);
    *set = fresh;
    return changed;
}

bool running_take_report(struct running_set *set, const Ckpt__V1__AgentReport *report)
{
    switch (report->kind) {
    case CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED:
        running_add(set, report->allocation_id);
        return true; /* orders from before its start are not obeyed */
    case CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED:
    case CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED:
    case CKPT__V1__REPORT_KIND__REPORT_KIND_WALLTIME_KILLED:
        return running_drop(set, report->allocation_id);
    default: /* about checkpoints */
        return false;
    }
}

void running_close(struct running_set *set)
{
    free(set->ids);
    *set = (struct running_set){0};
}

size_t running_orphans(const struct running_set *set, const struct fsm *fsm, uint32_t node_slot,
                       const struct fsm_allocation **ret_orphans)
{
    static uint32_t here[DISPATCHER_RUNNING_MAX]; /* of one call, on the one loop thread */
    size_t here_count = fsm_allocations_on_node(fsm, node_slot, here, DISPATCHER_RUNNING_MAX);
    size_t count = 0;

    if (here_count > DISPATCHER_RUNNING_MAX)
        return 0; /* not all are known: nothing is stopped by mistake */
    for (size_t i = 0; i < set->count; i++) {
        const struct fsm_allocation *allocation = fsm_allocation_find(fsm, set->ids[i]);
        bool belongs = allocation == NULL;

        for (size_t j = 0; j < here_count && !belongs; j++)
            belongs = here[j] == allocation->slot;
        if (!belongs)
            ret_orphans[count++] = allocation;
    }
    return count;
}
