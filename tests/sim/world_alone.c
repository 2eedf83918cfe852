/* Sensitive jobs, beside whom nobody is: I68.
 *
 * Flow     after each entry nodes are looked at that a sensitive job has, or is to get; and when an
 *          application begins, the others that live on its node.
 * Shapes   one bit per node: a sensitive job shared it before level 2, which allowed that.
 * Absent   nodes of which an operator said that they are off, and who were not (RUNBOOK): what
 *          lives there is unknown to the state.
 */
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

struct alone_nodes {
    unsigned holders[WORLD_AGENTS_MAX]; /* jobs that have the node, or are to get it */
    uint32_t sensitive;                 /* bits: one of them is */
};

static void add_nodes(const struct fsm *fsm, const struct fsm_allocation *job,
                      struct alone_nodes *nodes)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < job->node_count; i++)
        mask |= UINT32_C(1) << world_agent_number(fsm_node_name(fsm, job->nodes[i].node_slot));
    for (uint32_t i = 0; i < job->next_count; i++)
        mask |= UINT32_C(1) << world_agent_number(fsm_node_name(fsm, job->next[i].node_slot));
    for (unsigned agent = 0; agent < WORLD_AGENTS_MAX; agent++)
        nodes->holders[agent] += mask >> agent & 1;
    if (job->sensitive)
        nodes->sensitive |= mask;
}

/* One that is sensitive would be refused beside others: it gets nodes of no job, if there are any.
 * The first job of a run finds room. */
void alone_draw(struct world *world, struct world_job *job)
{
    const uint32_t drawn = job->node_mask;
    uint32_t taken = 0;

    job->sensitive = sim_chance(world->sim, job == world->jobs ? 3 : 10);
    for (unsigned i = 0; i < world->job_count; i++)
        if (world->jobs[i].runs)
            taken |= world->jobs[i].node_mask;
    for (unsigned agent = 0; agent < world->options.agents && job->sensitive; agent++)
        if ((taken >> agent & 1) == 0) {
            job->node_mask = UINT32_C(1) << agent | (drawn & ~taken);
            return;
        }
}

void alone_applied(struct world *world, const struct fsm *fsm)
{
    struct alone_nodes nodes = {.sensitive = 0};

    for (unsigned i = 0; i < world->job_count; i++)
        if (world->found[i] != NULL && state_holds_nodes(world->found[i]->state))
            add_nodes(fsm, world->found[i], &nodes);
    for (unsigned agent = 0; agent < world->options.agents; agent++) {
        if ((nodes.sensitive >> agent & 1) == 0 || nodes.holders[agent] < 2)
            continue;
        if (fsm_level(fsm) < 2)
            world->shared_nodes |= UINT32_C(1) << agent;
        if ((world->shared_nodes >> agent & 1) == 0)
            world_violation(world, "I68", "%s has a sensitive job and %u beside it",
                            world_agent_name(agent), nodes.holders[agent] - 1);
    }
}

void alone_begins(struct world *world, const char *allocation_id, const char *other_id,
                  unsigned agent)
{
    const struct world_job *job = job_find(world, allocation_id);
    const struct world_job *other = job_find(world, other_id);

    CHECK(job != NULL && other != NULL && job != other);
    if ((job->sensitive || other->sensitive) && (world->shared_nodes >> agent & 1) == 0 &&
        !victims_was_off(world, agent))
        world_violation(world, "I68", "%s begins on %s beside %s, and %s is sensitive", job->id,
                        world_agent_name(agent), other->id, job->sensitive ? job->id : other->id);
}
