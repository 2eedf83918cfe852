/* Compute nodes: which agent runs on each, and its crashes and restarts. See struct
 * world_agent_ops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

enum {
    RESTART_SPREAD_US = 3000000,
    LONG_AWAY_US = 9000000, /* until a silence has a second witness */
    IDLE_CHECK_US = 10000
};

struct world_job *job_find(struct world *world, const char *id)
{
    static const char prefix[] = "job-";
    char *end;
    unsigned long number;

    if (strncmp(id, prefix, sizeof(prefix) - 1) != 0 || id[sizeof(prefix) - 1] < '0' ||
        id[sizeof(prefix) - 1] > '9')
        return NULL;
    number = strtoul(id + sizeof(prefix) - 1, &end, 10);
    return *end == '\0' && number < world->job_count ? &world->jobs[number] : NULL;
}

const char *world_agent_name(unsigned agent)
{
    static const char *const names[WORLD_AGENTS_MAX] = {"node-0", "node-1", "node-2", "node-3",
                                                        "node-4", "node-5", "node-6", "node-7"};

    CHECK(agent < WORLD_AGENTS_MAX);
    return names[agent];
}

/* Asked of each node of each event: no sscanf(). */
int world_agent_number(const char *node_id)
{
    const char *digit = strncmp(node_id, "node-", 5) == 0 ? node_id + 5 : "";

    return digit[0] >= '0' && digit[0] < '0' + WORLD_AGENTS_MAX && digit[1] == '\0' ? digit[0] - '0'
                                                                                    : -1;
}

void agents_init(struct world *world)
{
    for (unsigned i = 0; i < world->options.agents; i++) {
        struct world_agent *agent = &world->agents[i];
        agent->ops =
            i < world->options.shipping_agents ? &world_agent_shipping : &world_agent_model;
        snprintf(agent->name, sizeof(agent->name), "%s", world_agent_name(i));
        if (world->options.drift)
            agent->drift_ppm = (int64_t)sim_random(world->sim, 20001) - 10000;
        sim_clock_set_drift(world->sim, WORLD_AGENT_NODE + i, agent->drift_ppm);
    }
}

void agent_start(struct world *world, unsigned number)
{
    struct world_agent *agent = &world->agents[number];
    unsigned before = sim_enter(world->sim, WORLD_AGENT_NODE + number);

    CHECK(agent->process == NULL);
    sim_loop_init(&agent->loop, world->sim, WORLD_AGENT_NODE + number);
    agent->process = agent->ops->start(world, number);
    sim_leave(world->sim, before);
}

void agents_start(struct world *world)
{
    for (unsigned i = 0; i < world->options.agents; i++)
        agent_start(world, i);
}

struct restart {
    struct world *world;
    unsigned agent;
};

static void restart_fire(void *data)
{
    struct restart restart = *(struct restart *)data;

    free(data);
    if (restart.world->phase != WORLD_OVER && restart.world->agents[restart.agent].process == NULL)
        agent_start(restart.world, restart.agent);
}

static void agent_end(struct world *world, unsigned number)
{
    struct world_agent *agent = &world->agents[number];
    unsigned before = sim_enter(world->sim, WORLD_AGENT_NODE + number);

    if (agent->process != NULL)
        agent->ops->crash(world, number, agent->process);
    agent->process = NULL;
    sim_worker_crash(world->sim, WORLD_AGENT_NODE + number);
    sim_leave(world->sim, before);
    sim_crash(world->sim, WORLD_AGENT_NODE + number);
}

void agent_kill(struct world *world, unsigned number)
{
    bool long_away = world->options.witness > 0 && sim_chance(world->sim, 4);

    agent_kill_for(world, number,
                   long_away ? LONG_AWAY_US + sim_random(world->sim, 2 * LONG_AWAY_US)
                             : 100000 + sim_random(world->sim, RESTART_SPREAD_US));
}

void agent_kill_for(struct world *world, unsigned number, uint64_t away_us)
{
    struct restart *restart;

    if (world->agents[number].process == NULL)
        return;
    agent_end(world, number);
    restart = check_alloc(sizeof(*restart));
    *restart = (struct restart){world, number};
    sim_on_drop(sim_schedule(world->sim, SIM_NODES_MAX, away_us, restart_fire, restart), free);
}

void agents_calm(struct world *world)
{
    for (unsigned i = 0; i < world->options.agents; i++) {
        struct world_agent *agent = &world->agents[i];
        unsigned before = sim_enter(world->sim, WORLD_AGENT_NODE + i);
        agent->ops->calm(world, i, agent->process);
        sim_leave(world->sim, before);
        if (agent->process == NULL)
            agent_start(world, i);
    }
}

/* After every event of the node; timers that do not fire are noticed without one. */
void agents_check(struct world *world)
{
    uint64_t touched = sim_touched(world->sim) >> WORLD_AGENT_NODE;
    uint64_t now = sim_now_us(world->sim);

    touched &= (UINT64_C(1) << world->options.agents) - 1;
    if (now - world->agents_checked_us >= IDLE_CHECK_US) {
        world->agents_checked_us = now;
        touched = (UINT64_C(1) << world->options.agents) - 1;
    }
    for (; touched != 0; touched &= touched - 1) {
        unsigned number = (unsigned)__builtin_ctzll(touched);
        struct world_agent *agent = &world->agents[number];
        if (agent->process != NULL && agent->ops->check != NULL)
            agent->ops->check(world, number, agent->process);
    }
}

void agents_close(struct world *world)
{
    for (unsigned i = 0; i < world->options.agents; i++) {
        agent_end(world, i);
        world->agents[i].ops->close(world, i);
    }
}
