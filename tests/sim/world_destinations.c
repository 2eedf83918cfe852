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

enum { PPM = 1000000, MADE_MAX = 64 /* in one entry; more are not looked at */ };

struct made {
    uint64_t id;
    unsigned job;
};

struct destination_checks {
    uint64_t rules;   /* what destinations follow from, after the entry before */
    bool failed_over; /* a target did in this entry, or came back: it may have done both */
    struct made made[MADE_MAX];
    unsigned made_count;
    bool updated[WORLD_JOBS_MAX];        /* in this entry */
    uint64_t budgets[WORLD_TARGETS_MAX]; /* after the entry before */
    uint32_t dispatched;                 /* targets, in this entry */
    uint64_t counted[WORLD_JOBS_MAX];    /* checkpoint that had no deadline when it was granted */
    uint8_t targets[WORLD_JOBS_MAX];     /* slot + 1 of the job's newest one; 0: not known */
    uint64_t newest[WORLD_JOBS_MAX];     /* which that is */
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

const char *world_domain_draw(struct world *world)
{
    if (world->options.domains == 0 || sim_random(world->sim, 100) >= world->options.domains)
        return "";
    return sim_chance(world->sim, 2) ? "d0" : "d1";
}

static void mix(uint64_t *hash, const char *text, uint64_t number)
{
    for (; *text != '\0'; text++)
        *hash = (*hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    *hash = (*hash ^ number) * UINT64_C(0x100000001b3);
}

static uint64_t rules_of(const struct fsm *fsm)
{
    uint64_t hash = fsm_policy(fsm)->node_chooses_target;

    for (uint32_t slot = 0; slot < fsm_node_slots(fsm); slot++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, slot);

        if (node != NULL)
            mix(&hash, node->domain, slot + 1);
    }
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target != NULL)
            mix(&hash, target->domain,
                8 * slot + 4 * target->draining + 2 * target->failed_over + target->is_default);
    }
    return hash;
}

static bool rules_moved(const struct world *world, const struct fsm *fsm)
{
    return world->destinations->failed_over ||
           (world->options.domains > 0 && world->destinations->rules != rules_of(fsm));
}

bool destinations_moved(const struct world *world, const struct fsm *fsm, unsigned job)
{
    return rules_moved(world, fsm) || world->destinations->updated[job];
}

unsigned destinations_last(const struct world *world, unsigned job)
{
    return world->destinations->targets[job];
}

/* The domain of the first node, when all of them have it. */
static const char *domain_of(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint)
{
    const struct fsm_node *first = fsm_node_find_slot(fsm, checkpoint->shards[0].node_slot);

    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, checkpoint->shards[i].node_slot);

        if (node == NULL || first == NULL || strcmp(node->domain, first->domain) != 0)
            return "";
    }
    return first->domain;
}

/* The job's own destination, unless its nodes have another one nearer. */
static bool slot_right(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const struct fsm_checkpoint *checkpoint, uint32_t other_slot)
{
    const struct fsm_target *own = fsm_target_find_slot(fsm, allocation->target_slot);
    const struct fsm_target *other = fsm_target_find_slot(fsm, other_slot);
    const char *domain = domain_of(fsm, checkpoint);
    bool nearer = false;

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        nearer |= target != NULL && domain[0] != '\0' && strcmp(target->domain, domain) == 0;
    }
    if (fsm_policy(fsm)->node_chooses_target == 0 || !nearer ||
        (own != NULL && strcmp(own->domain, domain) == 0))
        return other_slot == allocation->target_slot;
    return other != NULL && strcmp(other->domain, domain) == 0;
}

/* In an outage that lasts what is right for a target is right for the one it fails over to. */
static bool goes_right(const struct fsm *fsm, const struct fsm_allocation *allocation,
                       const struct fsm_checkpoint *checkpoint)
{
    const struct fsm_target *taken = fsm_target_find_slot(fsm, checkpoint->target_slot);
    bool right = taken != NULL && !taken->failed_over &&
                 slot_right(fsm, allocation, checkpoint, taken->slot);

    if (allocation->sensitive) /* I55: its pool has one target */
        return taken != NULL && taken->pool == CKPT__V1__POOL__POOL_SENSITIVE;
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm) && taken != NULL; slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);

        if (target != NULL && target->failed_over &&
            strcmp(target->failover_target_id, taken->id) == 0)
            right |= slot_right(fsm, allocation, checkpoint, slot);
    }
    return right;
}

/* Where what destinations follow from changed in the entry, it may have done so after this. */
static void check_made(struct world *world, const struct fsm *fsm)
{
    struct destination_checks *checks = world->destinations;
    bool moved = rules_moved(world, fsm);

    for (unsigned i = 0; i < checks->made_count; i++) {
        const struct made *made = &checks->made[i];
        const char *id = world->jobs[made->job].id;
        const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, made->id);
        const struct fsm_allocation *allocation = fsm_allocation_find(fsm, id);

        if (!moved && !checks->updated[made->job] && checkpoint != NULL && allocation != NULL &&
            !goes_right(fsm, allocation, checkpoint))
            world_violation(world, "I31", "checkpoint %" PRIx64 " of %s goes to destination %u",
                            checkpoint->id, id, checkpoint->target_slot);
    }
    checks->made_count = 0;
    memset(checks->updated, 0, sizeof(checks->updated));
    checks->failed_over = false;
    if (moved)
        checks->rules = rules_of(fsm);
}

/* What is written of a job goes to its own destination; and the broker itself moves no job that is
 * sensitive. What it decided otherwise may be a request's to move the job by now: by a later
 * command of the entry, or since it was made when it is renewed. */
static void created(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, event->allocation_id);
    const struct world_job *job = job_find(world, event->allocation_id);
    struct destination_checks *checks = world->destinations;

    if (checkpoint == NULL || allocation == NULL || job == NULL)
        return;
    if (checks->made_count < MADE_MAX)
        checks->made[checks->made_count++] =
            (struct made){checkpoint->id, (unsigned)(job - world->jobs)};
    checks->targets[job - world->jobs] = (uint8_t)(checkpoint->target_slot + 1);
    checks->newest[job - world->jobs] = checkpoint->id;
    if (job->sensitive && checkpoint->terms != NULL &&
        checkpoint->terms->purpose == PURPOSE(MIGRATE))
        world_violation(world, "I31", "%s is sensitive, and the broker moves it", job->id);
}

/* Below its prefix, in a folder of its own name. Of a checkpoint whose beginning was not seen, in a
 * cluster that was recovered from an older state, nothing is known. */
void destinations_ordered(struct world *world, unsigned job, const Ckpt__V1__Order *order)
{
    unsigned place = world->destinations->targets[job];
    const struct world_target *target = &world->targets[place - 1];
    size_t length;

    if (place == 0 || place > world->options.targets ||
        order->checkpoint_id != world->destinations->newest[job])
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

    world->destinations->failed_over |=
        event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_TARGET_FAILOVER;
    if (job != NULL && event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_ALLOCATION_UPDATED)
        world->destinations->updated[job - world->jobs] = true;
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

    check_made(world, fsm);
    for (uint32_t slot = 0; slot < fsm_target_slots(fsm) && slot < WORLD_TARGETS_MAX; slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        uint64_t budget = target == NULL ? 0 : budget_of(target);

        if ((checks->dispatched >> slot & 1) != 0 && budget == checks->budgets[slot])
            check_sum(world, fsm, target);
        checks->budgets[slot] = budget;
    }
    checks->dispatched = 0;
}
