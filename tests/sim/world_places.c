/* What jobs run on: the shares that a scheduler names, other sets to scale to, and what it makes of
 * the broker's answers.
 *
 * Flow     a request names a set; linearizable reads tell which set the job has. An application
 *          starts on a node that is new to it; what leaves is ended by the broker's orders, never
 *          by the scheduler.
 */
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

void places_fill(struct world *world, uint32_t mask, bool borrowed, struct node_shares *ret_shares)
{
    static char home[] = "lender";

    ret_shares->count = 0;
    for (unsigned i = 0; i < world->options.agents; i++)
        if ((mask >> i & 1) != 0) {
            Ckpt__V1__NodeShare *share = &ret_shares->items[ret_shares->count];
            ckpt__v1__node_share__init(share);
            share->node_id = world->agents[i].name;
            share->gpu_count = (uint32_t)sim_random(world->sim, 8); /* some of few, or of none */
            share->borrowed = borrowed;
            share->home_vcluster = home;
            share->gpu_memory_used_bytes = 1000000 + sim_random(world->sim, 1000000000);
            ret_shares->pointers[ret_shares->count++] = share;
        }
}

uint32_t places_draw(struct world *world, struct world_job *job)
{
    struct sim *sim = world->sim;
    uint32_t joins = UINT32_C(1) << sim_random(sim, world->options.agents),
             leaves = UINT32_C(1) << sim_random(sim, world->options.agents), mask;

    job->scaled = true;
    switch (sim_random(sim, 8)) {
    case 0: /* any */
        mask = (uint32_t)sim_random(sim, UINT64_C(1) << world->options.agents);
        break;
    case 1: /* one in another's place */
        mask = (job->node_mask & ~leaves) | joins;
        break;
    case 2:
    case 3:
    case 4:
        mask = job->node_mask | joins;
        break;
    default:
        mask = job->node_mask & ~leaves;
    }
    return mask != 0 ? mask : joins;
}

uint32_t places_mask(const Ckpt__V1__AllocationSpec *spec)
{
    uint32_t mask = 0;

    for (size_t i = 0; i < spec->n_nodes; i++) {
        int agent = world_agent_number(spec->nodes[i]->node_id);
        CHECK(agent >= 0);
        mask |= UINT32_C(1) << agent;
    }
    return mask;
}

void places_start(struct world *world, const struct world_job *job, uint32_t mask)
{
    for (unsigned agent = 0; agent < world->options.agents; agent++)
        if ((mask >> agent & 1) != 0) {
            struct world_agent *own = &world->agents[agent];
            unsigned before = sim_enter(world->sim, WORLD_AGENT_NODE + agent);
            own->ops->job_started(world, agent, own->process, job);
            sim_leave(world->sim, before);
        }
}

void places_placed(struct world_job *job, uint32_t mask, uint64_t index)
{
    if (index < job->node_index)
        return; /* an answer that was overtaken */
    job->node_index = index;
    job->scaled |= job->node_mask != mask;
    job->node_mask = mask;
}

/* It may run again without anybody's having asked for it. */
void places_known(struct world *world, struct world_job *job,
                  const Ckpt__V1__Allocation *allocation)
{
    uint32_t before = job->node_mask;
    bool newer = allocation->applied_index >= job->node_index;

    places_placed(job, places_mask(allocation->spec), allocation->applied_index);
    job->runs |= newer && job->comes_back && state_holds_nodes(allocation->state);
    if (job->runs)
        places_start(world, job, job->node_mask & ~before);
}
