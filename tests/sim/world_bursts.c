/* Commands that come in bursts to every member that thinks it leads, also to one that was deposed
 * and does not know it yet: logs get tails that are never committed, followers fall far behind.
 *
 * Flow     a timer draws how many and when the next ones come. Each changes little: a tick, or a
 *          large preemption request whose candidates do not exist.
 * Shapes   nobody waits for the outcome.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum {
    BURST_MAX = 24,
    CANDIDATE_BYTES = 120,
    GAP_US = 2000,
    HEALED_US = 3 * SECOND_US /* they go on for a while: who fell behind catches up under load */
};

/* Leaves nothing behind in the state but the instant that is in it. */
void bursts_propose(struct world_member *member)
{
    unsigned before = sim_enter(member->world->sim, member->number);
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Tick tick = CKPT__LOG__V1__TICK__INIT;

    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &tick;
    replica_propose(member->broker.replica, &command, NULL, NULL);
    sim_leave(member->world->sim, before);
}

/* Candidates that do not exist: the request is refused. */
void bursts_propose_large(struct world_member *member, size_t bytes)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__V1__RequestPreemptionRequest request = CKPT__V1__REQUEST_PREEMPTION_REQUEST__INIT;
    unsigned before = sim_enter(member->world->sim, member->number);
    size_t count = 1 + bytes / CANDIDATE_BYTES;
    char id[48], name[CANDIDATE_BYTES + 1], **names = check_calloc(count, sizeof(*names));

    snprintf(id, sizeof(id), "burst-%" PRIu64, ++member->world->burst_count);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (size_t i = 0; i < count; i++)
        names[i] = name;
    request.request_id = id;
    request.preemption_class = 10;
    request.nodes_needed = 1;
    request.candidates = names;
    request.n_candidates = count;
    command.request_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_REQUEST_PREEMPTION;
    command.request_preemption = &request;
    replica_propose(member->broker.replica, &command, NULL, NULL);
    free(names);
    sim_leave(member->world->sim, before);
}

static void propose_one(struct world *world, struct world_member *member)
{
    uint64_t bytes = world->options.burst_bytes;

    if (bytes > 1000 && sim_chance(world->sim, 16))
        bursts_propose_large(member, sim_random(world->sim, bytes));
    else
        bursts_propose(member);
}

static void propose_all(void *data)
{
    struct world *world = data;

    for (unsigned i = 0; i < world->member_count; i++)
        if (world->members[i].up && !world->members[i].doomed &&
            member_consensus(&world->members[i])->raft.state == RAFT_LEADER)
            propose_one(world, &world->members[i]);
}

bool bursts_go_on(const struct world *world)
{
    return world->options.bursts > 0 &&
           (world->phase == WORLD_CHAOS || (world->phase == WORLD_HEALED &&
                                            sim_now_us(world->sim) < world->healed_us + HEALED_US));
}

static void burst(void *data)
{
    struct world *world = data;
    uint64_t count = 1 + sim_random(world->sim, BURST_MAX);
    uint64_t mean_us = (uint64_t)SECOND_US * (BURST_MAX / 2) / world->options.bursts;

    if (!bursts_go_on(world))
        return;
    for (uint64_t n = 0; n < count; n++)
        sim_after(world->sim, SIM_NODES_MAX, sim_random(world->sim, count * GAP_US), propose_all,
                  world);
    sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, 2 * mean_us), burst, world);
}

void bursts_start(struct world *world)
{
    if (world->options.bursts > 0)
        sim_after(world->sim, SIM_NODES_MAX, SECOND_US, burst, world);
}
