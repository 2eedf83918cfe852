/* What the agent of a node says runs there, and which of it must not: applications of allocations that the state knows but not, or no
 * longer, on this node, or of an earlier life of them. A node that was lost may come back while its jobs run elsewhere, and a job may be
 * ended, and started again, from outside.
 *
 * Flow     hello and heartbeats carry the whole set; reports of starts and ends keep it fresh in between. A heartbeat also tells which
 *          starts the state waits for in vain: their report was lost (NodeRunning).
 * Shapes   one set per attached stream, at most DISPATCHER_RUNNING_MAX ids. An allocation that the state does not know is left alone:
 *          it may be about to be registered.
 * Source   F-006, F-007, F-022.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/broker/dispatch/dispatcher_internal.h"

static struct running_item *running_find(const struct running_set *set, const char *allocation_id)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->items[i].id, allocation_id) == 0)
            return &set->items[i];
    }
    return NULL;
}

static void running_add(struct running_set *set, const char *allocation_id, uint64_t life,
                        uint64_t report)
{
    struct running_item *item = running_find(set, allocation_id);

    if (item == NULL) {
        if (!id_valid(allocation_id) || set->count == DISPATCHER_RUNNING_MAX)
            return;
        if (set->count == set->capacity) {
            set->capacity = set->capacity == 0 ? 8 : 2 * set->capacity;
            set->items = check_realloc(set->items, set->capacity, sizeof(*set->items));
        }
        item = &set->items[set->count++];
        snprintf(item->id, sizeof(item->id), "%s", allocation_id);
    }
    item->life = life;
    item->report = report;
}

static bool running_drop(struct running_set *set, const char *allocation_id)
{
    struct running_item *item = running_find(set, allocation_id);

    if (item == NULL)
        return false;
    *item = set->items[--set->count];
    return true;
}

/* One without a life may be found to be an older one without another word: by a report that was applied meanwhile. */
static bool running_same(const struct running_set *a, const struct running_set *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct running_item *other = running_find(b, a->items[i].id);

        if (other == NULL || other->life != a->items[i].life ||
            (other->life == 0 && a->items[i].report != 0))
            return false;
    }
    return a->count == b->count;
}

bool running_take_all(struct running_set *set, uint64_t report,
                      Ckpt__V1__RunningAllocation *const *items, size_t count)
{
    struct running_set fresh = {.report = report};
    bool changed;

    for (size_t i = 0; i < count; i++)
        running_add(&fresh, items[i]->allocation_id, items[i]->life, report);
    changed = !running_same(&fresh, set);
    running_close(set);
    *set = fresh;
    return changed;
}

/* What an agent repeats from before it said what runs is no news of that. */
bool running_take_report(struct running_set *set, const Ckpt__V1__AgentReport *report)
{
    bool news = report->sequence > set->report;

    switch (report->kind) {
    case CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED:
        if (news)
            running_add(set, report->allocation_id, report->life,
                        report->application_age_ms == 0 ? 0 : report->sequence);
        return true; /* orders from before its start are not obeyed */
    case CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED:
    case CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED:
    case CKPT__V1__REPORT_KIND__REPORT_KIND_WALLTIME_KILLED:
        return news && running_drop(set, report->allocation_id);
    default: /* about checkpoints */
        return false;
    }
}

void running_close(struct running_set *set)
{
    free(set->items);
    *set = (struct running_set){0};
}

size_t running_orphans(const struct running_set *set, const struct fsm *fsm, uint32_t node_slot,
                       struct running_orphan *ret_orphans)
{
    static uint32_t here[DISPATCHER_RUNNING_MAX]; /* of one call, on the one loop thread */
    static uint64_t lives[DISPATCHER_RUNNING_MAX];
    size_t here_count =
        fsm_allocations_on_node(fsm, node_slot, here, lives, DISPATCHER_RUNNING_MAX);
    struct fsm_summary summary;
    size_t count = 0;

    if (here_count > DISPATCHER_RUNNING_MAX)
        return 0; /* not all are known: nothing is stopped by mistake */
    fsm_get_summary(fsm, &summary);
    for (size_t i = 0; i < set->count; i++) {
        const struct running_item *item = &set->items[i];
        const struct fsm_allocation *allocation = fsm_allocation_find(fsm, item->id);
        size_t j = 0;

        if (allocation == NULL)
            continue;
        while (j < here_count && here[j] != allocation->slot)
            j++;
        if (j == here_count) /* any life that began so far */
            ret_orphans[count++] = (struct running_orphan){
                allocation, life_make(summary.epoch, summary.command_count)};
        else if (item->life != 0 && item->life < lives[j])
            ret_orphans[count++] = (struct running_orphan){allocation, item->life};
        else if (item->life == 0 && item->report != 0 &&
                 item->report <= fsm_node_at(fsm, node_slot)->last_report_sequence &&
                 !fsm_nameless_is_present(allocation, node_slot))
            ret_orphans[count++] = (struct running_orphan){allocation, lives[j] - 1};
    }
    return count;
}

size_t running_awaited(const struct running_set *set, const struct fsm *fsm, uint32_t node_slot,
                       const struct running_item **ret_items)
{
    size_t count = 0;

    if (set->report != fsm_node_at(fsm, node_slot)->last_report_sequence)
        return 0;
    for (size_t i = 0; i < set->count && count < FSM_RUNNING_PER_COMMAND_MAX; i++) {
        const struct fsm_allocation *allocation = fsm_allocation_find(fsm, set->items[i].id);

        if (allocation != NULL && fsm_part_awaits(allocation, node_slot, set->items[i].life))
            ret_items[count++] = &set->items[i];
    }
    return count;
}
