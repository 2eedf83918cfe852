/* Faults in the middle of a barrier: what befalls the leader, or the agent of the rank, at a moment
 * when ranks hear that they are asked, say at which step they are, or are told where they meet.
 * Each phase of a barrier is one commit, a few milliseconds: faults at any time rarely hit one.
 */
#include <stdlib.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

enum { SOON_US = 30000, PAUSE_US = 3000000 };

static void kill_leader(void *data)
{
    struct world_member *leader = members_leader(data);

    if (leader != NULL)
        member_kill(leader);
}

static void stop_leader(void *data)
{
    struct world *world = data;
    const struct world_member *leader = members_leader(world);

    if (leader != NULL)
        sim_pause(world->sim, leader->number, 1 + sim_random(world->sim, PAUSE_US));
}

static void handed_over(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    (void)data;
    (void)failed;
    (void)outcome;
}

static void hand_over(void *data)
{
    struct world *world = data;
    struct world_member *leader = members_leader(world);
    unsigned before;

    if (leader == NULL)
        return;
    before = sim_enter(world->sim, leader->number);
    replica_transfer(leader->broker.replica, 0, handed_over, NULL);
    sim_leave(world->sim, before);
}

struct node_fault {
    struct world *world;
    unsigned agent;
};

static void kill_agent(void *data)
{
    struct node_fault fault = *(struct node_fault *)data;

    free(data);
    agent_kill(fault.world, fault.agent);
}

static void reset_agent(void *data)
{
    struct node_fault fault = *(struct node_fault *)data;

    free(data);
    for (unsigned member = 0; member < fault.world->member_count; member++)
        sim_reset_connections(fault.world->sim, WORLD_AGENT_NODE + fault.agent, member);
}

static void on_node(struct world *world, unsigned agent, void (*befall)(void *data))
{
    struct node_fault *fault = check_alloc(sizeof(*fault));

    *fault = (struct node_fault){world, agent};
    sim_on_drop(
        sim_schedule(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, SOON_US), befall, fault),
        free);
}

void barriers_fault(struct world *world, unsigned agent)
{
    static void (*const of_leaders[])(void *data) = {kill_leader, stop_leader, hand_over};
    uint64_t which;

    if (world->phase != WORLD_CHAOS || sim_random(world->sim, 100) >= world->options.barriers)
        return;
    world->counts.barrier_faults++;
    which = sim_random(world->sim, ARRAY_COUNT(of_leaders) + 2);
    if (which < ARRAY_COUNT(of_leaders))
        sim_after(world->sim, SIM_NODES_MAX, 1 + sim_random(world->sim, SOON_US), of_leaders[which],
                  world);
    else
        on_node(world, agent, which == ARRAY_COUNT(of_leaders) ? kill_agent : reset_agent);
}
