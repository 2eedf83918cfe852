/* See damaged.h. */
#include "src/broker/api/damaged.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

/* What has ended well needs none; a newer one that is complete heals the others. */
static bool damaged_still(const struct fsm *fsm, const char *id)
{
    const struct fsm_allocation *job = fsm_allocation_find(fsm, id);

    return job != NULL && job->state != CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_COMPLETED &&
           fsm_newest_damaged(fsm, job);
}

static void damaged_add(struct broker_damaged *damaged, const struct fsm *fsm, const char *id)
{
    for (size_t i = 0; i < damaged->count; i++) {
        if (strcmp(damaged->jobs[i], id) == 0)
            return;
    }
    if (damaged->count < BROKER_DAMAGED_MAX && damaged_still(fsm, id))
        snprintf(damaged->jobs[damaged->count++], sizeof(damaged->jobs[0]), "%s", id);
}

/* Damage is rare, and jobs may be a million: the events say where to look, each is read once. */
void damaged_update(struct broker_damaged *damaged, const struct fsm *fsm, uint64_t next_sequence)
{
    const Ckpt__V1__Event *event;
    size_t kept = 0;
    bool gap;

    for (size_t i = 0; i < damaged->count; i++) {
        if (damaged_still(fsm, damaged->jobs[i]))
            memmove(damaged->jobs[kept++], damaged->jobs[i], sizeof(damaged->jobs[0]));
    }
    damaged->count = kept;
    if (damaged->seen >= next_sequence)
        damaged->seen = 0; /* another state was loaded */
    while ((event = fsm_event_after(fsm, damaged->seen, &gap)) != NULL) {
        damaged->seen = event->sequence;
        if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED)
            damaged_add(damaged, fsm, event->allocation_id);
    }
}
