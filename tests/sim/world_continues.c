/* Jobs under a new id, which go on from the checkpoints of one that has stopped: I57.
 *
 * Flow     a scheduler draws one that has stopped when it registers a job; an event tells of each
 *          checkpoint that goes over; what an application restores says whose computation it is.
 * Shapes   the new one is made like the old one, on as many nodes. Nothing is asked of one that is
 *          refused: the other one may have been restarted, or continued, meanwhile.
 */
#include <inttypes.h>

#include "tests/sim/world_internal.h"

enum { CANDIDATES_MAX = 6 };

/* As the leader's state has it, with something to begin from. */
static const struct world_job *stopped_job(struct world *world, unsigned *ret_parts)
{
    const struct world_member *leader = members_leader(world);

    for (unsigned i = 0; leader != NULL && i < CANDIDATES_MAX; i++) {
        const struct world_job *job = &world->jobs[sim_random(world->sim, world->job_count)];
        const struct fsm_allocation *view = fsm_allocation_find(member_fsm(leader), job->id);
        const struct fsm_checkpoint *point =
            view == NULL || state_holds_nodes(view->state)
                ? NULL
                : fsm_restart_point(member_fsm(leader), job->id, 0);

        if (point == NULL)
            continue;
        *ret_parts = point->shard_count;
        return job;
    }
    return NULL;
}

const struct world_job *continues_draw(struct world *world, struct world_job *job)
{
    const struct world_job *old;
    unsigned first, parts;

    if (world->options.continues == 0 || sim_random(world->sim, 100) >= world->options.continues)
        return NULL;
    old = stopped_job(world, &parts);
    if (old == NULL)
        return NULL;
    first = (unsigned)sim_random(world->sim, world->options.agents);
    job->node_mask = 0;
    for (unsigned i = 0; i < parts; i++)
        job->node_mask |= UINT32_C(1) << (first + i) % world->options.agents;
    job->sensitive = old->sensitive;
    job->before = old;
    job->first = old->first != NULL ? old->first : old;
    return old;
}

void continues_program(const struct world_job *old, struct world_job *job)
{
    job->way = old->way;
    job->ranks = old->ranks;
    job->ranks_in_group = old->ranks_in_group;
    job->ranks_with_streams = old->ranks_with_streams;
    job->labels = old->labels;
}

const char *continues_first(struct world *world, const char *allocation_id)
{
    const struct world_job *job = job_find(world, allocation_id);

    return job == NULL || job->first == NULL ? allocation_id : job->first->id;
}

/* One that was complete and whole, of a job that held nothing, and is as sensitive. */
void continues_event(struct world *world, const Ckpt__V1__Event *event)
{
    const struct world_job *to, *from;

    if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_CONTINUED)
        return;
    to = job_find(world, event->allocation_id);
    from = job_find(world, event->subject);
    if (to == NULL || from == NULL || from->sensitive != to->sensitive ||
        to->first != (from->first != NULL ? from->first : from) ||
        !state_checks_goes_over(world, event->checkpoint_id, from, to))
        world_violation(world, "I57", "checkpoint %" PRIx64 " of %s goes over to %s",
                        event->checkpoint_id, event->subject, event->allocation_id);
    world->counts.continued++;
}
