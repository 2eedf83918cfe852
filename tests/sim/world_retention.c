/* When a folder may be removed: I28, I29. What world_collected() asks of the newest complete one,
 * for all of them and by the policy's time.
 *
 * Flow     a folder of a complete checkpoint is kept for the retention since its completion, that
 *          of a failed attempt for a timeout since its end; of a job that may be started again the
 *          newest ones stay whatever their age, until it is COMPLETED, or has been FAILED for the
 *          retention. Of each number of the policy the least counts that was in force since: a
 *          review may have been then. What a part found damaged is none of the newest.
 * Shapes   a record per checkpoint that has ended, and one per job.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/limits.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "tests/sim/world_internal.h"

#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name

/* By the state's clock, and of the policy since then. */
struct ended {
    uint64_t id, at_ms;
    uint64_t retention_ms, timeout_ms;
    uint32_t keep;
    unsigned job;
    unsigned target; /* as destinations_last() */
    bool complete, damaged;
    bool let_go; /* it had expired when a newer one was found damaged */
    bool stays;  /* its folder could not be removed, at the last attempt */
};

struct retention_checks {
    struct ended *items;
    size_t count, capacity;
    struct {
        uint64_t since_ms, retention_ms;
        bool completed, failed;
    } jobs[WORLD_JOBS_MAX];
    uint64_t now_ms;
    uint64_t retention_ms, timeout_ms;
    uint32_t keep;
};

void retention_init(struct world *world)
{
    world->retention = check_calloc(1, sizeof(*world->retention));
}

void retention_close(struct world *world)
{
    free(world->retention->items);
    free(world->retention);
}

static void checkpoint_ended(struct world *world, const Ckpt__V1__Event *event, unsigned job)
{
    struct retention_checks *checks = world->retention;

    if (checks->count == checks->capacity) {
        checks->capacity = checks->capacity == 0 ? 64 : 2 * checks->capacity;
        checks->items = check_realloc(checks->items, checks->capacity, sizeof(*checks->items));
    }
    checks->items[checks->count++] =
        (struct ended){.id = event->checkpoint_id,
                       .at_ms = event->at_ms,
                       .retention_ms = checks->retention_ms,
                       .timeout_ms = checks->timeout_ms,
                       .keep = checks->keep,
                       .job = job,
                       .target = destinations_last(world, job),
                       .complete = event->new_state == CHECKPOINT(COMPLETE)};
}

void retention_event(struct world *world, const Ckpt__V1__Event *event)
{
    struct retention_checks *checks = world->retention;
    const struct world_job *job =
        event->allocation_id[0] == '\0' ? NULL : job_find(world, event->allocation_id);
    unsigned number = job == NULL ? WORLD_JOBS_MAX : (unsigned)(job - world->jobs);

    if (job == NULL)
        return;
    if (event->kind == EVENT(CHECKPOINT_STATE) && event->new_state != CHECKPOINT(COLLECTED) &&
        !fsm_checkpoint_state_active((Ckpt__V1__CheckpointState)event->new_state))
        checkpoint_ended(world, event, number);
    if (event->kind != EVENT(ALLOCATION_STATE))
        return;
    checks->jobs[number].since_ms = event->at_ms;
    checks->jobs[number].retention_ms = checks->retention_ms;
    checks->jobs[number].completed = event->new_state == ALLOCATION(COMPLETED);
    checks->jobs[number].failed = event->new_state == ALLOCATION(FAILED);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void retention_applied(struct world *world, const struct fsm *fsm)
{
    struct retention_checks *checks = world->retention;
    const Ckpt__V1__Policy *policy = fsm_policy(fsm);
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    checks->now_ms = summary.now_ms;
    if (checks->retention_ms == policy->retention_ms && checks->keep == policy->keep_complete &&
        checks->timeout_ms == policy->checkpoint_timeout_ms)
        return;
    checks->retention_ms = policy->retention_ms;
    checks->timeout_ms = policy->checkpoint_timeout_ms;
    checks->keep = policy->keep_complete;
    for (size_t i = 0; i < checks->count; i++) {
        struct ended *item = &checks->items[i];
        item->retention_ms = lesser(item->retention_ms, checks->retention_ms);
        item->timeout_ms = lesser(item->timeout_ms, checks->timeout_ms);
        item->keep = (uint32_t)lesser(item->keep, checks->keep);
    }
    for (unsigned job = 0; job < world->job_count; job++)
        checks->jobs[job].retention_ms =
            lesser(checks->jobs[job].retention_ms, checks->retention_ms);
}

/* Complete ones of its job that came after it. */
static uint32_t newer_of(const struct retention_checks *checks, const struct ended *item)
{
    uint32_t newer = 0;

    for (size_t i = 0; i < checks->count; i++)
        newer += checks->items[i].job == item->job && checks->items[i].complete &&
                 !checks->items[i].damaged && checks->items[i].id > item->id;
    return newer;
}

/* S2-025: enough newer ones are complete, one of them on another destination. */
static bool elsewhere(const struct retention_checks *checks, const struct ended *item)
{
    bool found = false;

    for (size_t i = 0; i < checks->count; i++)
        found |= checks->items[i].job == item->job && checks->items[i].complete &&
                 !checks->items[i].damaged && checks->items[i].id > item->id &&
                 checks->items[i].target != item->target;
    return found && newer_of(checks, item) >= item->keep;
}

/* It is not started again. */
static bool over(const struct retention_checks *checks, unsigned job)
{
    return checks->jobs[job].completed ||
           (checks->jobs[job].failed &&
            checks->now_ms >= checks->jobs[job].since_ms + checks->jobs[job].retention_ms);
}

static struct ended *item_of(struct world *world, uint64_t checkpoint_id, const char *path)
{
    struct retention_checks *checks = world->retention;
    struct ended *item = NULL;

    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].id == checkpoint_id)
            item = &checks->items[i];
    if (item == NULL)
        world_violation(world, "I28", "%s is removed, whose checkpoint has not ended", path);
    return item;
}

/* Of a quarter of the folders the service may not remove anything; of another eighth it may not
 * until everything works. Their owners may, and agents as them, but for some of them. */
bool world_keeps(struct world *world, const char *path, bool agent)
{
    const char *last = strrchr(path, '/');
    struct ended *item;
    uint64_t id = 0;

    if (last == NULL || checkpoint_id_parse(last + 1, &id) != 0)
        world_violation(world, "I28", "%s is removed, which is no checkpoint's folder", path);
    item = item_of(world, id, path);
    if (agent)
        item->stays = id % 16 == 3;
    else
        item->stays = id % 4 == 3 || (id % 8 == 6 && world->healed_us == 0);
    world->counts.removed_by_agents += agent && !item->stays;
    world->counts.undeleted += item->stays;
    return item->stays;
}

/* Its own folder, of its own job, and it has ended; whether it may go is asked when it does. */
void retention_ordered(struct world *world, const Ckpt__V1__Order *order)
{
    const struct ended *item = item_of(world, order->checkpoint_id, order->path);
    const char *last = strrchr(order->path, '/');
    uint64_t id = 0;

    if (last == NULL || checkpoint_id_parse(last + 1, &id) != 0 || id != order->checkpoint_id ||
        strcmp(world->jobs[item->job].id, order->allocation_id) != 0 ||
        strstr(order->path, order->allocation_id) == NULL ||
        strncmp(order->path, order->target_prefix, strlen(order->target_prefix)) != 0)
        world_violation(world, "I28", "an agent is to remove %s, which is not %" PRIx64 " of %s",
                        order->path, order->checkpoint_id, order->allocation_id);
}

/* D-004: what could not be removed is known until it is. */
void retention_check_known(struct world *world, const struct fsm *fsm)
{
    const struct retention_checks *checks = world->retention;

    for (size_t i = 0; i < checks->count; i++) {
        const struct ended *item = &checks->items[i];
        if (item->stays && fsm_checkpoint_find(fsm, item->id) == NULL &&
            fsm_undeleted_find(fsm, item->id) == NULL)
            world_violation(world, "I28",
                            "the folder of checkpoint %" PRIx64 " of %s stays and is forgotten",
                            item->id, world->jobs[item->job].id);
    }
}

void retention_damaged(struct world *world, uint64_t checkpoint_id)
{
    struct retention_checks *checks = world->retention;

    for (size_t i = 0; i < checks->count; i++) {
        struct ended *item = &checks->items[i];
        item->let_go |= item->complete && newer_of(checks, item) >= item->keep &&
                        checks->now_ms >= item->at_ms + item->retention_ms;
    }
    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].id == checkpoint_id)
            checks->items[i].damaged = true;
}

void retention_collected(struct world *world, uint64_t checkpoint_id, const char *path)
{
    const struct retention_checks *checks = world->retention;
    struct ended *item = item_of(world, checkpoint_id, path);
    uint64_t kept_ms;
    uint32_t newer;

    item->stays = false;
    kept_ms = item->complete ? item->retention_ms : item->timeout_ms;
    newer = newer_of(checks, item);
    if (checks->now_ms < item->at_ms + kept_ms &&
        (!item->complete || (newer < FSM_COMPLETE_KEPT_MAX && !elsewhere(checks, item))))
        world_violation(world, "I28",
                        "%s is removed %" PRIu64 " ms after its checkpoint %s, kept for %" PRIu64,
                        path, checks->now_ms - item->at_ms,
                        item->complete ? "was complete" : "failed", kept_ms);
    if (item->complete && !item->damaged && !item->let_go && newer < item->keep &&
        !over(checks, item->job))
        world_violation(world, "I28",
                        "%s is removed, of %s, which may be started again; %u newer ones are "
                        "complete, and %u stay",
                        path, world->jobs[item->job].id, newer, item->keep);
}
