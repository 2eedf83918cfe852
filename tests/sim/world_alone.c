/* Sensitive jobs, beside whom nobody is: I68.
 *
 * Flow     after each entry nodes are looked at that a sensitive job has, or is to get; and when an
 *          application begins, the others that live on its node.
 * Shapes   one bit per node: a sensitive job shared it before level 2, which allowed that. The run
 *          of each part on a node for which no agent has spoken, or which was removed; all runs of
 *          a job whose record the state keeps no more.
 * Absent   the job that a sensitive one continues: it has ended, and its owner is the same. Nodes
 *          of which an operator said that they are off, and who were not (RUNBOOK): what lives
 *          there is unknown to the state.
 */
#include "fsm/ends.h"
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

#define FORGOTTEN UINT64_MAX /* all runs: there is no record of the job */

/* Of nodes for which no agent has spoken, or which were removed: a restart elsewhere forgets the
 * former's, a job that gets the node anew does not see the latter's (RUNBOOK). A part that has left
 * its job is known, and an order is to end it. */
static void note_unheard(struct world *world, const struct fsm *fsm, unsigned job)
{
    const struct fsm_allocation *view = world->found[job];
    uint64_t *runs = world->alone.unheard_runs[job];

    for (unsigned agent = 0; agent < WORLD_AGENTS_MAX; agent++)
        if (view == NULL || runs[agent] == FORGOTTEN)
            runs[agent] = view == NULL ? FORGOTTEN : 0;
    for (uint32_t i = 0; view != NULL && i < fsm_allocation_places(fsm, view); i++) {
        const struct fsm_place place = fsm_allocation_place(fsm, view, i);
        const char *name = fsm_node_name(fsm, place.node_slot);
        const struct fsm_node *node = fsm_node_find(fsm, name);
        bool known = node != NULL && node->slot == place.node_slot &&
                     (node->boot_id[0] != '\0' || i >= view->node_count);

        runs[world_agent_number(name)] = known ? 0 : place.run;
    }
}

bool alone_left_unheard(const struct world *world, unsigned job, unsigned agent, uint64_t run)
{
    uint64_t unheard = world->alone.unheard_runs[job][agent];

    CHECK(job < world->job_count);
    if (unheard == FORGOTTEN)
        return true;
    return run <= unheard && (!state_checks_has_node(world, world->jobs[job].id, agent) ||
                              victims_removals(world, agent) > 0);
}

void alone_applied(struct world *world, const struct fsm *fsm)
{
    struct alone_nodes nodes = {.sensitive = 0};

    for (unsigned job = 0; job < world->job_count; job++)
        note_unheard(world, fsm, job);
    for (unsigned i = 0; i < world->job_count; i++)
        if (world->found[i] != NULL && state_holds_nodes(world->found[i]->state))
            add_nodes(fsm, world->found[i], &nodes);
    for (unsigned agent = 0; agent < world->options.agents; agent++) {
        if ((nodes.sensitive >> agent & 1) == 0 || nodes.holders[agent] < 2)
            continue;
        if (fsm_level(fsm) < 2)
            world->alone.shared_nodes |= UINT32_C(1) << agent;
        if ((world->alone.shared_nodes >> agent & 1) == 0)
            world_violation(world, "I68", "%s has a sensitive job and %u beside it",
                            world_agent_name(agent), nodes.holders[agent] - 1);
    }
}

void alone_begins(struct world *world, const char *allocation_id, const char *other_id,
                  uint64_t other_run, unsigned agent)
{
    const struct world_job *job = job_find(world, allocation_id);
    const struct world_job *other = job_find(world, other_id);

    CHECK(job != NULL && other != NULL && job != other);
    if (job->before == other ||
        alone_left_unheard(world, (unsigned)(other - world->jobs), agent, other_run))
        return;
    if ((job->sensitive || other->sensitive) && (world->alone.shared_nodes >> agent & 1) == 0 &&
        !victims_was_off(world, agent))
        world_violation(world, "I68", "%s begins on %s beside %s, and %s is sensitive", job->id,
                        world_agent_name(agent), other->id, job->sensitive ? job->id : other->id);
}
