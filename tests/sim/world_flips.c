/* I10: a bit of one member's state flips in its memory. It must notice with the first entry whose
 * leader says another hash, and end itself.
 *
 * Flow     do_flip() changes one number of a follower's state. From then on nothing that it applies
 *          counts as what the cluster decided (flips_applied); each entry that it applies is
 *          compared here as well, with what the entry itself says.
 * Shapes   one record per member, with the hashes of what it applied since.
 * Absent   a flip of a leader: all others would stop and say so, as the product does (RUNBOOK,
 *          Member with corrupt data). So one that is about to campaign dies first, as by the power;
 *          and one that writes its state, so that its disk never has the flip.
 */
#include <inttypes.h>
#include <stdio.h>

#include "src/base/check.h"
#include "tests/sim/state_flip.h"
#include "tests/sim/world_internal.h"

enum { AGAIN_US = 20 * SECOND_US, ID_SKIP_MAX = 7 };

/* The newest entry that it had when it began: those up to there are not compared, the state is made
 * anew from them. */
void flips_started(struct world_member *member)
{
    member->flip.odd = false;
    member->flip.began_index = raft_last_index(&member_consensus(member)->raft);
}

bool flips_odd_at(const struct world_member *member, uint64_t index)
{
    return index > member->flip.index && index <= member->flip.last_index;
}

static uint64_t applied_index(const struct world_member *member)
{
    struct fsm_summary summary;

    fsm_get_summary(member_fsm(member), &summary);
    return summary.applied_index;
}

static uint64_t adopted(const struct world_member *member)
{
    struct replica_stats stats;

    replica_get_stats(member->broker.replica, &stats);
    return stats.snapshots_read;
}

static bool writes_state(const struct world_member *member)
{
    return state_is_written(member_fsm(member)) || take_running(&member_consensus(member)->take);
}

/* One that follows somebody, applies what it never had before, and can only become leader by
 * others' votes. */
static bool may_flip(const struct world_member *member)
{
    const struct world *world = member->world;
    const struct world_member *leader = members_leader((struct world *)(uintptr_t)world);
    const struct raft *raft;
    unsigned voters = 0;

    if (!member->up || member->doomed || leader == NULL || leader == member || member->flip.odd ||
        (member->flip.at_us != 0 && sim_now_us(world->sim) - member->flip.at_us < AGAIN_US))
        return false;
    raft = &member_consensus(member)->raft;
    for (unsigned i = 0; i < raft->configuration.n; i++)
        voters += raft->configuration.servers[i].role == RAFT_VOTER;
    return raft->state == RAFT_FOLLOWER && voters > 1 && !writes_state(member) &&
           applied_index(member) > member->flip.began_index;
}

/* Either the hash itself, or a number that comes out with the next checkpoint: until then nobody
 * can tell. */
void do_flip(struct world *world)
{
    struct world_member *member = &world->members[sim_random(world->sim, world->member_count)];
    uint64_t index;

    if (!may_flip(member))
        return;
    index = applied_index(member);
    member->flip = (struct world_flip){.odd = true,
                                       .began_index = member->flip.began_index,
                                       .index = index,
                                       .last_index = index,
                                       .adopted = adopted(member),
                                       .at_us = sim_now_us(world->sim)};
    world->counts.flips++;
    if (!world->options.streams && sim_chance(world->sim, 2)) /* who watches is told of each id */
        state_flip_ids(member_fsm(member), 1 + sim_random(world->sim, ID_SKIP_MAX));
    else
        state_flip_hash(member_fsm(member), (unsigned)sim_random(world->sim, 64));
    if (world->options.verbose)
        fprintf(stderr, "%12" PRIu64 " member %u: a bit of its state flips at index %" PRIu64 "\n",
                sim_now_us(world->sim), member->number + 1, index);
}

/* What the leader of the entry says of an earlier index, beside what this member had there. */
static void entry_check(struct world_member *member, uint64_t index)
{
    const struct world_flip *flip = &member->flip;
    const struct raft_entry *entry = safety_entry(&member_consensus(member)->raft, index);
    uint64_t known, hash;

    if (entry == NULL || entry->type != RAFT_COMMAND ||
        !fsm_entry_check(entry->buf.base, entry->buf.len, &known, &hash) ||
        !flips_odd_at(member, known) || index - known >= WORLD_FLIP_HASHES ||
        flip->hashes[known % WORLD_FLIP_HASHES] == 0 ||
        flip->hashes[known % WORLD_FLIP_HASHES] == hash)
        return;
    if (!member->doomed)
        world_violation(
            member->world, "I10",
            "member %u applies entry %" PRIu64 " and goes on, whose leader had hash %016" PRIx64
            " at index %" PRIu64 ", not %016" PRIx64,
            member->number + 1, index, hash, known, flip->hashes[known % WORLD_FLIP_HASHES]);
}

bool flips_applied(struct world_member *member, uint64_t index, uint64_t hash)
{
    struct world_flip *flip = &member->flip;

    if (flip->odd && adopted(member) != flip->adopted)
        flip->odd = false; /* another state came */
    if (!flip->odd)
        return false;
    CHECK(index > flip->last_index);
    for (uint64_t gap = flip->last_index + 1; gap < index; gap++) /* of libraft's own entries */
        flip->hashes[gap % WORLD_FLIP_HASHES] = 0;
    flip->last_index = index;
    flip->hashes[index % WORLD_FLIP_HASHES] = hash;
    entry_check(member, index);
    return true;
}

/* It says that its state is wrong: that must be true. */
void flips_ended(struct world_member *member)
{
    if (!member->doomed || member->fatal.code != ERR_CORRUPT || member->rotten)
        return;
    if (!member->flip.odd)
        world_violation(member->world, "I10", "member %u ends itself and has nothing wrong: %s",
                        member->number + 1, member->fatal.text);
    member->world->counts.flips_told++;
}

void flips_step(struct world *world)
{
    for (uint64_t touched = world_touched_members(world); touched != 0; touched &= touched - 1) {
        struct world_member *member = &world->members[__builtin_ctzll(touched)];
        if (member->up && member->flip.odd &&
            (member_consensus(member)->raft.state != RAFT_FOLLOWER || writes_state(member)))
            member_kill(member);
    }
}

void flips_heal(struct world *world)
{
    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].up && world->members[i].flip.odd)
            member_kill(&world->members[i]);
}
