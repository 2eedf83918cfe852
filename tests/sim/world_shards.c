/* I27: a checkpoint is of all nodes that its job has. What world_state.c asks of each shard, this
 * asks of their number. I47: an id is of one set of nodes, whatever its attempt.
 *
 * Flow     when an attempt is dispatched each node of the job has a shard to write, and no other;
 *          when it is complete these are its shards.
 * Shapes   one attempt at a time of each job.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name

struct shard_checks {
    struct {
        uint64_t id;
        uint32_t nodes; /* agents, when it was dispatched last */
    } jobs[WORLD_JOBS_MAX];
};

void shards_init(struct world *world)
{
    world->shards = check_calloc(1, sizeof(*world->shards));
}

void shards_close(struct world *world)
{
    free(world->shards);
}

static uint32_t shards_of(const struct fsm *fsm, const struct fsm_checkpoint *checkpoint)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        mask |=
            UINT32_C(1) << world_agent_number(fsm_node_name(fsm, checkpoint->shards[i].node_slot));
    return mask;
}

static uint32_t nodes_of(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < allocation->node_count; i++)
        mask |=
            UINT32_C(1) << world_agent_number(fsm_node_name(fsm, allocation->nodes[i].node_slot));
    return mask;
}

/* Before anybody asks what its ranks said of it. */
static void check_verified(struct world *world, const struct fsm *fsm,
                           const struct fsm_checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        if (!checkpoint->shards[i].verified)
            world_violation(world, "I27",
                            "checkpoint %" PRIx64 " is complete, the shard of %s is not verified",
                            checkpoint->id, fsm_node_name(fsm, checkpoint->shards[i].node_slot));
}

/* I47: a part's folder has the name of its place, so two nodes that write one place of one
 * checkpoint write one folder. A late worker of the first would write into the second's. */
static void check_writers(struct world *world, const struct fsm_checkpoint *checkpoint,
                          unsigned number, uint32_t nodes)
{
    if (world->shards->jobs[number].id == checkpoint->id &&
        world->shards->jobs[number].nodes != nodes)
        world_violation(world, "I47",
                        "checkpoint %" PRIx64 " of %s was ordered from agents %x, and attempt %u "
                        "is from agents %x",
                        checkpoint->id, world->jobs[number].id, world->shards->jobs[number].nodes,
                        checkpoint->attempt, nodes);
    world->shards->jobs[number].nodes = nodes;
}

void shards_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct world_job *job = event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE
                                      ? job_find(world, event->allocation_id)
                                      : NULL;
    const struct fsm_checkpoint *checkpoint =
        job == NULL ? NULL : fsm_checkpoint_find(fsm, event->checkpoint_id);
    uint32_t shards, nodes;
    unsigned number;

    if (checkpoint == NULL || checkpoint->state != event->new_state ||
        (event->new_state != CHECKPOINT(DISPATCHED) && event->new_state != CHECKPOINT(COMPLETE)))
        return; /* more of the entry followed */
    number = (unsigned)(job - world->jobs);
    shards = shards_of(fsm, checkpoint);
    nodes = nodes_of(fsm, fsm_allocation_find_slot(fsm, checkpoint->allocation_slot));
    if (event->new_state == CHECKPOINT(COMPLETE))
        check_verified(world, fsm, checkpoint);
    if (event->new_state == CHECKPOINT(COMPLETE))
        nodes = world->shards->jobs[number].id == checkpoint->id ? world->shards->jobs[number].nodes
                                                                 : shards;
    else
        check_writers(world, checkpoint, number, nodes);
    world->shards->jobs[number].id = checkpoint->id;
    if (shards != nodes)
        world_violation(world, "I27",
                        "checkpoint %" PRIx64 " of %s is %s with shards of agents %x, %s has %x",
                        checkpoint->id, job->id, fsm_checkpoint_state_name(checkpoint->state),
                        shards, job->id, nodes);
}
