/* I11: an older copy of a follower's folder is put back while a leader lives that knows what it had
 * acknowledged since: it must not be taken back. In the middle of faults nobody may know
 * (README.md, "Known limit"), so this is a trial at the end.
 *
 * Flow     older_keep() copies what is durable at one follower; requests are repeated and
 *          acknowledged; older_put_back() stops that follower, gives it the copy, and waits until
 *          it has ended itself for good.
 */
#include <inttypes.h>

#include "tests/sim/world_internal.h"

enum { TOLD_MAX_US = 10 * SECOND_US }; /* it starts within 3.2 s, dials, and is told */

static uint64_t last_index(const struct world_member *member)
{
    return raft_last_index(&member_consensus(member)->raft);
}

/* The leader goes on without it: it keeps what it knows. */
static bool majority_without(const struct world *world, const struct world_member *leader,
                             const struct world_member *member)
{
    const struct raft_configuration *configuration = &member_consensus(leader)->raft.configuration;
    unsigned voters = 0, up = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        const struct world_member *other = &world->members[configuration->servers[i].id - 1];
        if (configuration->servers[i].role != RAFT_VOTER)
            continue;
        voters++;
        up += other != member && other->up;
    }
    return 2 * up > voters;
}

/* What the leader knows that this voter has durably. 0: it is none, or nobody leads. */
static uint64_t acknowledged(struct world *world, const struct world_member *member)
{
    const struct world_member *leader = members_leader(world);
    const struct raft *raft;
    unsigned place;

    if (leader == NULL || leader == member || !majority_without(world, leader, member))
        return 0;
    raft = &member_consensus(leader)->raft;
    place = core_server_place(member_consensus(leader), member->number + 1);
    return place < raft->configuration.n && raft->configuration.servers[place].role == RAFT_VOTER
               ? raft->leader_state.progress[place].match_index
               : 0;
}

void older_keep(struct world *world)
{
    world->older.member = NULL;
    for (unsigned i = 0; i < world->member_count; i++) {
        struct world_member *member = &world->members[i];
        if (!member->up || member->rotten || acknowledged(world, member) == 0)
            continue;
        world->older.member = member;
        world->older.last_index = last_index(member);
        sim_disk_keep(world->sim, i);
    }
}

void older_put_back(struct world *world)
{
    struct world_member *member = world->older.member;
    uint64_t known = member != NULL && member->up ? acknowledged(world, member) : 0;
    uint64_t end_us = sim_now_us(world->sim) + TOLD_MAX_US;
    const struct world_member *leader = members_leader(world);
    uint64_t term = leader == NULL ? 0 : member_consensus(leader)->raft.current_term;

    if (known <= world->older.last_index)
        return; /* the copy has all that, as far as anybody knows */
    world->counts.older++;
    faults_put_back(world, member);
    while (!member->lost && sim_now_us(world->sim) < end_us)
        world_step(world);
    if (!member->lost && members_leader(world) == leader &&
        member_consensus(leader)->raft.current_term == term)
        world_violation(world, "I11",
                        "member %u is back with a log up to %" PRIu64
                        " at most, had acknowledged %" PRIu64 ", and goes on",
                        member->number + 1, world->older.last_index, known);
}
