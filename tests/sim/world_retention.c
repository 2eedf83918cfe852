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
#include "tests/sim/agent_store.h"
#include "tests/sim/agent_world.h"
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
    unsigned home;   /* the job that wrote it: it lies in that one's folder */
    unsigned target; /* as destinations_last() */
    bool complete, damaged;
    bool early;  /* its tenant had more bytes than it may */
    bool let_go; /* it had expired when a newer one was found damaged, or went over */
    bool stays;  /* its folder could not be removed, at the last attempt */
};

enum { KEPT_LEAST = 2 };

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
                       .home = job,
                       .target = destinations_last(world, job),
                       .complete = event->new_state == CHECKPOINT(COMPLETE)};
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

/* I56: of what may be started again the two newest stay. */
static void let_go_early(struct world *world, const Ckpt__V1__Event *event)
{
    const struct retention_checks *checks = world->retention;
    struct ended *item = item_of(world, event->checkpoint_id, "a checkpoint over the limit");

    item->early = true;
    world->counts.let_go_early++;
    if (!item->damaged && !over(checks, item->job) && newer_of(checks, item) < KEPT_LEAST)
        world_violation(world, "I56",
                        "%" PRIx64 " of %s goes for its tenant, and %u newer ones stay", item->id,
                        world->jobs[item->job].id, newer_of(checks, item));
}

/* What had expired stays behind, and goes although nothing newer is left. */
static void went_over(struct world *world, const Ckpt__V1__Event *event, unsigned to)
{
    struct retention_checks *checks = world->retention;
    struct ended *item = item_of(world, event->checkpoint_id, "what went over");

    for (size_t i = 0; i < checks->count; i++)
        checks->items[i].let_go |= checks->items[i].job == item->job;
    item->job = to;
    item->let_go = false;
}

const char *retention_home(struct world *world, uint64_t checkpoint_id)
{
    return world->jobs[item_of(world, checkpoint_id, "a folder")->home].id;
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
    if (event->kind == EVENT(CONTINUED))
        went_over(world, event, number);
    world->counts.over_quota += event->kind == EVENT(QUOTA) &&
                                event->new_state == CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_REFUSED;
    if (event->kind == EVENT(QUOTA) &&
        event->new_state == CKPT__V1__QUOTA_CHANGE__QUOTA_CHANGE_EXPIRED)
        let_go_early(world, event);
    if (event->kind != EVENT(ALLOCATION_STATE))
        return;
    checks->jobs[number].since_ms = event->at_ms;
    checks->jobs[number].retention_ms = checks->retention_ms;
    checks->jobs[number].completed = event->new_state == ALLOCATION(COMPLETED);
    checks->jobs[number].failed = event->new_state == ALLOCATION(FAILED);
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
        strcmp(world->jobs[item->home].id, order->allocation_id) != 0 ||
        strstr(order->path, order->allocation_id) == NULL ||
        strncmp(order->path, order->target_prefix, strlen(order->target_prefix)) != 0)
        world_violation(world, "I28", "an agent is to remove %s, which is not %" PRIx64 " of %s",
                        order->path, order->checkpoint_id, order->allocation_id);
}

/* Of every second one the control nodes may not read anything. */
bool retention_hides(const char *path)
{
    const char *last = strrchr(path, '/');
    uint64_t id = 0;

    return last != NULL && checkpoint_id_parse(last + 1, &id) == 0 && id % 2 == 1;
}

/* What a node reads again is a complete checkpoint, with that job's path. */
void retention_read_again(struct world *world, const Ckpt__V1__Order *order)
{
    const char *last = strrchr(order->path, '/');
    uint64_t id = 0;

    world->counts.read_again++;
    if (last == NULL || checkpoint_id_parse(last + 1, &id) != 0 || id != order->checkpoint_id ||
        strstr(order->path, retention_home(world, id)) == NULL ||
        strncmp(order->path, order->target_prefix, strlen(order->target_prefix)) != 0 ||
        !state_checks_completed(world, id))
        world_violation(world, "I52",
                        "an agent is to read %s again, which is not %" PRIx64 " of %s, complete",
                        order->path, order->checkpoint_id, order->allocation_id);
}

/* Of a part that is gone nobody but its writer can say so. */
static bool writers_ready(const struct fsm *fsm, uint64_t checkpoint_id)
{
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, checkpoint_id);

    for (uint32_t i = 0; checkpoint != NULL && i < checkpoint->shard_count; i++) {
        const struct fsm_node *node = fsm_node_find_slot(fsm, checkpoint->shards[i].node_slot);

        if (node == NULL || node->state != CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY)
            return false;
    }
    return checkpoint != NULL;
}

/* What storage damaged of the last checkpoint of a job that may be started again is found; "": all
 * of it was. */
const char *retention_rotten(struct world *world)
{
    static char text[192];
    char path_end[ID_MAX_BYTES + 64], id[CHECKPOINT_ID_TEXT_BYTES];
    struct world_member *leader = members_leader(world);
    const struct fsm *fsm = leader == NULL ? NULL : replica_fsm(leader->broker.replica);

    text[0] = '\0';
    for (unsigned i = 0; fsm != NULL && i < world->job_count && world_shipping_store() != NULL;
         i++) {
        const struct fsm_allocation *job = fsm_allocation_find(fsm, world->jobs[i].id);

        if (job == NULL || job->last_complete_id == 0 || job->state == ALLOCATION(COMPLETED) ||
            !writers_ready(fsm, job->last_complete_id))
            continue;
        snprintf(path_end, sizeof(path_end), "/%s/checkpoints/%s",
                 retention_home(world, job->last_complete_id),
                 checkpoint_id_format(job->last_complete_id, id));
        if (agent_store_spoiled(world_shipping_store(), path_end))
            snprintf(text, sizeof(text), "checkpoint %s of %.60s is damaged, and nobody knows", id,
                     job->id);
    }
    return text;
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

/* It may have expired before a newer one was found damaged: what expires is not taken back. */
bool retention_let_go(const struct world *world, uint64_t checkpoint_id)
{
    const struct retention_checks *checks = world->retention;

    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].id == checkpoint_id)
            return checks->items[i].let_go || checks->items[i].early;
    return false;
}

void retention_damaged(struct world *world, uint64_t checkpoint_id)
{
    struct retention_checks *checks = world->retention;

    for (size_t i = 0; i < checks->count; i++) {
        struct ended *item = &checks->items[i];
        item->let_go |=
            item->complete && newer_of(checks, item) >= item->keep &&
            (checks->now_ms >= item->at_ms + item->retention_ms || elsewhere(checks, item));
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
    if (checks->now_ms < item->at_ms + kept_ms && !item->early &&
        (!item->complete ||
         (newer < FSM_COMPLETE_KEPT_MAX && !item->let_go && !elsewhere(checks, item))))
        world_violation(world, "I28",
                        "%s is removed %" PRIu64 " ms after its checkpoint %s, kept for %" PRIu64,
                        path, checks->now_ms - item->at_ms,
                        item->complete ? "was complete" : "failed", kept_ms);
    if (item->complete && !item->damaged && !item->let_go && newer < item->keep && !item->early &&
        !over(checks, item->job))
        world_violation(world, "I28",
                        "%s is removed, of %s, which may be started again; %u newer ones are "
                        "complete, and %u stay",
                        path, world->jobs[item->job].id, newer, item->keep);
}
