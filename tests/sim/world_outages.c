/* What probes must find out of destinations: I35, L3. Chaos knows how each of them is; the state is
 * asked whether the cluster does.
 *
 * Flow     every LOOK_US: a destination has failed, or has answered well, for as long as all
 *          samples of the verdict take, under one leader that has served meanwhile; when that has
 *          applied all of its log, its state says so.
 * Shapes   one look at all destinations.
 */
#include <inttypes.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum {
    LOOK_US = 100000,
    PROBE_MAX_MS = 50,    /* of a destination that is neither slow nor hanging */
    UNKILLABLE_MS = 1000, /* then a probe that hangs counts as one that does */
    PROPOSED_MS = 500     /* the verdict is in the log */
};

/* One sample more than the verdict takes: its proposal may find another one of the destination
 * under way. Before the first a probe ends that was begun otherwise. */
static uint64_t verdict_us(const struct world_member *leader, const struct world_target *target)
{
    const struct config_storage_watch *limits = &leader->config->storage_watch;
    uint64_t longest_ms = limits->timeout_ms + UNKILLABLE_MS, sample_ms = PROBE_MAX_MS, ms,
             samples =
                 target->state == WORLD_STORAGE_UP ? limits->successes_up : limits->failures_down;

    if (target->state == WORLD_STORAGE_HANGING)
        sample_ms = longest_ms;
    ms = longest_ms + (samples + 1) * (limits->interval_ms + sample_ms);
    return 1000 * (ms + ms / 50 + PROPOSED_MS); /* clocks run 1 % wrong */
}

/* The first sample after the log stood still: what was proposed before, the contrary maybe, was
 * under way until then. */
static uint64_t next_proposal_us(const struct world *world, const struct world_member *leader)
{
    uint64_t ms = leader->config->storage_watch.interval_ms + PROBE_MAX_MS;

    return world->outages.stood_us == 0
               ? 0
               : world->outages.stood_us + LOOK_US + 1000 * (ms + ms / 50 + PROPOSED_MS);
}

static void target_check(struct world *world, const struct world_member *leader,
                         const struct world_target *target, uint64_t since_us)
{
    const struct fsm_target *known = fsm_target_find(member_fsm(leader), target->id);
    bool well = target->state == WORLD_STORAGE_UP;
    uint64_t now_us = sim_now_us(world->sim), released_us;
    bool held = drills_hold_target(world, (unsigned)(target - world->targets), &released_us);

    if (since_us < target->since_us)
        since_us = target->since_us;
    if (since_us < released_us)
        since_us = released_us;
    if (known == NULL || held || target->state == WORLD_STORAGE_SLOW || target->told ||
        now_us < since_us + verdict_us(leader, target) || now_us < next_proposal_us(world, leader))
        return;
    if (known->available != well)
        world_violation(world, well ? "L3" : "I35",
                        "%s %s since %" PRIu64 " ms, member %u serves, and has it as %s",
                        target->id, well ? "is well" : "fails", (now_us - since_us) / 1000,
                        leader->number + 1, well ? "unavailable" : "available");
    if (!well && world->outages.seen_us[target - world->targets] != target->since_us)
        world->counts.outages++;
    world->outages.seen_us[target - world->targets] = target->since_us;
}

/* Does all that is in its log hold? */
static bool log_whole(struct world *world, const struct world_member *leader)
{
    uint64_t now_us = sim_now_us(world->sim), last_index;
    struct raft *raft = (struct raft *)(uintptr_t)&member_consensus(leader)->raft;
    struct fsm_summary summary;

    last_index = raft_last_index(raft);
    fsm_get_summary(member_fsm(leader), &summary);
    if (summary.applied_index != world->outages.applied_index ||
        summary.applied_index == last_index)
        world->outages.moved_us = now_us;
    else if (now_us >= world->outages.moved_us + 1000 * PROPOSED_MS)
        world->outages.stood_us = now_us;
    world->outages.applied_index = summary.applied_index;
    return summary.applied_index == last_index;
}

void outages_check(struct world *world)
{
    uint64_t now_us = sim_now_us(world->sim), since_us;
    const struct world_member *leader;
    const struct raft *raft;
    struct consensus_status status;

    if (now_us < world->outages.next_us)
        return;
    world->outages.next_us = now_us + LOOK_US;
    leader = members_leader(world);
    raft = leader == NULL ? NULL : &member_consensus(leader)->raft;
    if (leader == NULL || leader->number + 1 != world->outages.leader ||
        leader->starts != world->outages.starts || raft->current_term != world->outages.term) {
        world->outages.leader = leader == NULL ? 0 : leader->number + 1;
        world->outages.starts = leader == NULL ? 0 : leader->starts;
        world->outages.term = leader == NULL ? 0 : raft->current_term;
        world->outages.since_us = now_us;
        return;
    }
    replica_get_status(leader->broker.replica, &status);
    if (!status.accepts_writes) /* its disk is full */
        world->outages.since_us = now_us;
    if (!log_whole(world, leader))
        return;
    since_us = sim_paused_until_us(world->sim, leader->number);
    if (since_us < world->outages.since_us)
        since_us = world->outages.since_us;
    for (unsigned i = 0; i < world->options.targets; i++)
        target_check(world, leader, &world->targets[i], since_us);
}

/* Somebody wanted its end, or its job's; an outage or a failover is no reason. */
bool outage_ends_paused(const struct fsm *fsm, const Ckpt__V1__Event *event, bool cancel_asked)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, event->allocation_id);
    bool ends = allocation == NULL || allocation->terminating ||
                allocation->state_since_ms >= event->at_ms || /* and began again in this entry */
                !state_holds_nodes(allocation->state);

    switch (event->reason) {
    case CKPT__V1__REASON__REASON_CANCELLED_BY_REQUEST:
        return cancel_asked;
    case CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED:
    case CKPT__V1__REASON__REASON_ALLOCATION_ENDED:
        return ends;
    case CKPT__V1__REASON__REASON_NEW_EPOCH:   /* under another id */
    case CKPT__V1__REASON__REASON_REPLACED:    /* likewise, on other nodes */
    case CKPT__V1__REASON__REASON_FAILED_OVER: /* likewise, at another target */
        return allocation != NULL && (allocation->active_checkpoint_id != 0 || ends);
    default:
        return false;
    }
}
