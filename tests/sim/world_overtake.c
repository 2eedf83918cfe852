/* A leader that is overtaken and comes back: figure 8 of the Raft paper, which chance does not find
 * within thousands of runs.
 *
 * Flow     CUT: the leader is cut off and takes an entry that nobody else gets → RIVAL: the others
 *          elect one, which is cut off in turn before its first entry leaves it → AGAIN: the first
 *          leads a newer term and brings the others its old entry; its own disk is slow. As soon as
 *          that is committed, or a while later, it is cut off and dies → LAST: the rival meets the
 *          others. Whatever does not go that way ends the attempt, and the links heal.
 * Shapes   one at a time. The entry fills a frame, so that nothing of the new term travels with it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum {
    ATTEMPT_MAX_US = 10 * SECOND_US,
    AGAIN_US = 1500000,
    SLOWNESS = 3000,
    COMMAND_BYTES = 200000,
    COMMANDS_PER_ENTRY = 2
};

static void say(const struct world *world, const char *what)
{
    if (!world->options.verbose)
        return;
    fprintf(stderr,
            "%12" PRIu64 " overtake: %s (stage %d, first %u, rival %u, index %" PRIu64 ")\n",
            sim_now_us(world->sim), what, (int)world->overtake.stage, world->overtake.first + 1,
            world->overtake.rival + 1, world->overtake.index);
}

static void cut_off(struct world *world, unsigned a, bool up)
{
    for (unsigned i = 0; i < world->member_count; i++)
        if (i != a) {
            sim_link_set(world->sim, a, i, up);
            sim_link_set(world->sim, i, a, up);
        }
}

static void overtake_end(struct world *world)
{
    struct world_overtake *overtake = &world->overtake;

    say(world, "over");
    overtake->stage = OVERTAKE_NONE;
    sim_disk_set_slowness(world->sim, overtake->first, 1);
    cut_off(world, overtake->first, true);
    cut_off(world, overtake->rival, true);
}

void overtake_elected(struct world_member *member)
{
    struct world *world = member->world;
    struct world_overtake *overtake = &world->overtake;

    if (overtake->stage == OVERTAKE_CUT && member->number != overtake->first) {
        overtake->stage = OVERTAKE_RIVAL;
        overtake->rival = member->number;
        cut_off(world, overtake->rival, false);
    } else if (overtake->stage == OVERTAKE_RIVAL && member->number == overtake->first) {
        overtake->stage = OVERTAKE_AGAIN;
        overtake->until_us = sim_now_us(world->sim) + AGAIN_US;
    } else if (overtake->stage == OVERTAKE_LAST) {
        overtake->until_us = 0;
    } else {
        return;
    }
    say(world, "elected");
}

/* The first one's entry is stored, and so is the rival's: all but these two meet the first one,
 * whose disk is slow from now on. */
static void first_returns(struct world *world, const struct raft *first)
{
    struct world_overtake *overtake = &world->overtake;
    const struct world_member *rival = &world->members[overtake->rival];

    if (overtake->returned || !rival->up || first->last_stored < overtake->index ||
        first->last_stored < raft_last_index((struct raft *)(uintptr_t)first) ||
        member_consensus(rival)->raft.last_stored < overtake->index)
        return;
    overtake->returned = true;
    sim_disk_set_slowness(world->sim, overtake->first, SLOWNESS);
    cut_off(world, overtake->first, true);
    cut_off(world, overtake->rival, false);
    say(world, "the first returns");
}

void overtake_step(struct world *world)
{
    struct world_overtake *overtake = &world->overtake;
    struct world_member *first = &world->members[overtake->first];
    const struct raft *raft;
    uint64_t now_us = sim_now_us(world->sim);

    if (overtake->stage == OVERTAKE_NONE)
        return;
    if (world->phase != WORLD_CHAOS || now_us >= overtake->until_us ||
        (!first->up && overtake->stage != OVERTAKE_LAST)) {
        overtake_end(world);
        return;
    }
    if (!first->up)
        return;
    raft = &member_consensus(first)->raft;
    if (overtake->stage == OVERTAKE_RIVAL)
        first_returns(world, raft);
    if (overtake->stage == OVERTAKE_AGAIN && raft->commit_index >= overtake->index) {
        say(world, "committed");
        world->counts.overtaken++;
        cut_off(world, overtake->rival, true);
        cut_off(world, overtake->first, false);
        member_kill(first);
        overtake->stage = OVERTAKE_LAST;
        overtake->until_us = now_us + ATTEMPT_MAX_US;
    }
}

void overtake_begin(struct world *world)
{
    struct world_overtake *overtake = &world->overtake;
    struct world_member *leader = members_leader(world);

    if (overtake->stage != OVERTAKE_NONE || leader == NULL || world->options.membership > 0 ||
        world->member_count < 3)
        return;
    *overtake = (struct world_overtake){.stage = OVERTAKE_CUT,
                                        .first = leader->number,
                                        .rival = leader->number,
                                        .until_us = sim_now_us(world->sim) + ATTEMPT_MAX_US};
    cut_off(world, leader->number, false);
    overtake->index = raft_last_index(&member_consensus(leader)->raft) + 1;
    for (unsigned i = 0; i < COMMANDS_PER_ENTRY * REPLICA_ENTRIES_IN_FLIGHT; i++)
        bursts_propose_large(leader, COMMAND_BYTES);
    say(world, "cut off");
}
