/* Where data goes, and how much of it at once: I31, I36. Computed from what schedulers and
 * operators asked for, not from sums of the state.
 *
 * Flow     when a member is the first to apply it: a checkpoint that is created, one that is
 *          dispatched; each order that an agent takes.
 * Shapes   one record per job; the budgets of the entry before.
 * Absent   who bypasses the budget is not asked: those with a deadline count for nothing here,
 *          fsm_check() counts them as the state does.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define PURPOSE(name)    CKPT__V1__PURPOSE__PURPOSE_##name

enum { PPM = 1000000 };

struct destination_checks {
    uint64_t budgets[WORLD_TARGETS_MAX]; /* after the entry before */
    uint32_t dispatched;                 /* targets, in this entry */
    uint64_t counted[WORLD_JOBS_MAX];    /* checkpoint that had no deadline when it was granted */
    uint8_t targets[WORLD_JOBS_MAX];     /* slot + 1; 0: not known */
};

void destinations_init(struct world *world)
{
    world->destinations = check_calloc(1, sizeof(*world->destinations));
}

void destinations_close(struct world *world)
{
    free(world->destinations);
}

/* ---- I31 ---- */

/* What is written of a job goes to its own destination; and the broker itself moves no job that is
 * sensitive. What it decided otherwise may be a request's to move the job by now: by a later
 * command of the entry, or since it was made when it is renewed. */
static void created(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, event->allocation_id);
    const struct world_job *job = job_find(world, event->allocation_id);

    if (checkpoint == NULL || allocation == NULL || job == NULL)
        return;
    if (checkpoint->target_slot != allocation->target_slot)
        world_violation(world, "I31", "checkpoint %" PRIx64 " of %s goes to destination %u, not %u",
                        checkpoint->id, job->id, checkpoint->target_slot, allocation->target_slot);
    world->destinations->targets[job - world->jobs] = (uint8_t)(allocation->target_slot + 1);
    if (job->sensitive && checkpoint->terms != NULL &&
        checkpoint->terms->purpose == PURPOSE(MIGRATE))
        world_violation(world, "I31", "%s is sensitive, and the broker moves it", job->id);
}

/* Below its prefix, in a folder of its own name. */
void destinations_ordered(struct world *world, unsigned job, const Ckpt__V1__Order *order)
{
    unsigned place = world->destinations->targets[job];
    const struct world_target *target = &world->targets[place - 1];
    size_t length;

    if (place == 0 || place > world->options.targets)
        return;
    length = strlen(target->prefix);
    if (strcmp(order->target_prefix, target->prefix) != 0 ||
        strncmp(order->path, target->prefix, length) != 0 || order->path[length] != '/' ||
        strstr(order->path, "/../") != NULL || strstr(order->path, order->allocation_id) == NULL)
        world_violation(world, "I31",
                        "%s is ordered to write below %s to %s, its destination is %s",
                        order->allocation_id, order->target_prefix, order->path, target->prefix);
}

/* ---- I36 ---- */

/* What is left beside staging, or what its storage system measures. */
static uint64_t budget_of(const struct fsm_target *target)
{
    uint64_t staging =
        (uint64_t)((__uint128_t)target->write_bytes_per_s * target->staging_share_ppm / PPM);
    uint64_t left = target->write_bytes_per_s - staging;

    if (!target->available)
        return 0;
    return target->measured_bytes_per_s > 0 && target->measured_bytes_per_s < left
               ? target->measured_bytes_per_s
               : left;
}

static void check_sum(struct world *world, const struct fsm *fsm, const struct fsm_target *target)
{
    uint64_t sum = 0;

    for (unsigned job = 0; job < world->job_count; job++) {
        const struct fsm_checkpoint *checkpoint =
            fsm_checkpoint_find(fsm, world->destinations->counted[job]);

        if (checkpoint != NULL && checkpoint->target_slot == target->slot &&
            (checkpoint->state == CHECKPOINT(DISPATCHED) ||
             checkpoint->state == CHECKPOINT(WRITING)))
            sum += checkpoint->granted_bytes_per_s;
    }
    if (sum > budget_of(target))
        world_violation(world, "I36",
                        "%" PRIu64 " bytes per second of %s are granted, %" PRIu64
                        " are left beside staging",
                        sum, target->id, budget_of(target));
}

void destinations_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    const struct world_job *job = job_find(world, event->allocation_id);
    bool counts;

    if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE || checkpoint == NULL ||
        job == NULL)
        return;
    if (event->old_state == CHECKPOINT(UNSPECIFIED))
        created(world, fsm, event);
    if (event->new_state != CHECKPOINT(DISPATCHED))
        return;
    counts = !grants_has_deadline(fsm, checkpoint);
    world->destinations->counted[job - world->jobs] = counts ? event->checkpoint_id : 0;
    if (counts && checkpoint->target_slot < WORLD_TARGETS_MAX)
        world->destinations->dispatched |= UINT32_C(1) << checkpoint->target_slot;
}

/* Where the entry changed the budget as well, it may have done so after the grants. */
void destinations_applied(struct world *world, const struct fsm *fsm)
{
    struct destination_checks *checks = world->destinations;

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm) && slot < WORLD_TARGETS_MAX; slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        uint64_t budget = target == NULL ? 0 : budget_of(target);

        if ((checks->dispatched >> slot & 1) != 0 && budget == checks->budgets[slot])
            check_sum(world, fsm, target);
        checks->budgets[slot] = budget;
    }
    checks->dispatched = 0;
}
