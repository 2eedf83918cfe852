/* I45: a restored set is one checkpoint: which one a part begins from, and whose shard. A part is a
 * place among the nodes of its job, and goes on with the shard of that place, whoever wrote it.
 *
 * Flow     each event of a job tells which places its nodes have; a checkpoint that is complete
 *          tells who wrote the shard of each place.
 * Shapes   places are bits: the same run of a part may have had several, when others left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "tests/sim/agent_store.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name

struct written {
    uint64_t checkpoint_id;
    uint32_t count;
    unsigned writers[WORLD_AGENTS_MAX]; /* by place */
};

struct part_checks {
    struct {
        uint64_t run;
        uint32_t places;
        bool joined; /* when it came, or since */
        bool began;  /* an application of that run, and from which checkpoint the last one did */
        uint64_t from;
    } parts[WORLD_JOBS_MAX][WORLD_AGENTS_MAX];
    struct written *written;
    size_t count;
};

void parts_init(struct world *world)
{
    world->parts = check_calloc(1, sizeof(*world->parts));
}

void parts_close(struct world *world)
{
    free(world->parts->written);
    free(world->parts);
}

static void places_take(struct world *world, const struct fsm *fsm, const struct world_job *job)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, job->id);
    struct fsm_part part;

    if (allocation == NULL)
        return;
    for (uint32_t i = 0; i < allocation->node_count; i++) {
        int agent = world_agent_number(fsm_node_name(fsm, allocation->nodes[i].node_slot));
        uint64_t run = allocation->nodes[i].run;
        CHECK(agent >= 0);
        if (world->parts->parts[job - world->jobs][agent].run != run) {
            world->parts->parts[job - world->jobs][agent].run = run;
            world->parts->parts[job - world->jobs][agent].places = 0;
            world->parts->parts[job - world->jobs][agent].joined = false;
            world->parts->parts[job - world->jobs][agent].began = false;
        }
        world->parts->parts[job - world->jobs][agent].places |= UINT32_C(1) << i;
        if (fsm_part_on(fsm, allocation, allocation->nodes[i].node_slot, &part) && part.joined)
            world->parts->parts[job - world->jobs][agent].joined = true;
    }
}

static void writers_take(struct part_checks *checks, const struct fsm *fsm,
                         const struct fsm_checkpoint *checkpoint)
{
    struct written *written;

    CHECK(checkpoint->shard_count <= WORLD_AGENTS_MAX);
    checks->written = check_realloc(checks->written, checks->count + 1, sizeof(*checks->written));
    written = &checks->written[checks->count++];
    *written = (struct written){.checkpoint_id = checkpoint->id, .count = checkpoint->shard_count};
    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        written->writers[i] =
            (unsigned)world_agent_number(fsm_node_name(fsm, checkpoint->shards[i].node_slot));
}

/* Nothing is passed over that is whole. */
static void damaged_take(struct world *world, const Ckpt__V1__Event *event)
{
    char text[CHECKPOINT_ID_TEXT_BYTES], path_end[ID_MAX_BYTES + 64];

    snprintf(path_end, sizeof(path_end), "/%s/checkpoints/%s",
             retention_home(world, event->checkpoint_id),
             checkpoint_id_format(event->checkpoint_id, text));
    if (!state_checks_completed(world, event->checkpoint_id) || world_shipping_store() == NULL ||
        !agent_store_spoiled(world_shipping_store(), path_end))
        world_violation(world, "I45", "checkpoint %s of %s is said to be damaged, and is whole",
                        text, event->allocation_id);
    retention_damaged(world, event->checkpoint_id);
}

void parts_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct world_job *job = job_find(world, event->allocation_id);
    const struct fsm_checkpoint *checkpoint;

    if (job == NULL)
        return;
    places_take(world, fsm, job);
    if (event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_DAMAGED)
        damaged_take(world, event);
    if (event->kind != CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE ||
        event->new_state != CHECKPOINT(COMPLETE))
        return;
    checkpoint = fsm_checkpoint_find(fsm, event->checkpoint_id);
    if (checkpoint != NULL)
        writers_take(world->parts, fsm, checkpoint);
}

bool parts_may_begin_from(const struct world *world, const struct world_job *job, unsigned agent,
                          uint64_t run, uint64_t checkpoint_id, unsigned writer)
{
    const struct part_checks *checks = world->parts;

    if (checks->parts[job - world->jobs][agent].run != run)
        return true; /* it is of another run, and will hear of it */
    for (size_t i = 0; i < checks->count; i++) {
        const struct written *written = &checks->written[i];
        if (written->checkpoint_id != checkpoint_id)
            continue;
        for (uint32_t place = 0; place < (job->elastic ? WORLD_AGENTS_MAX : written->count);
             place++)
            if (written->writers[place % written->count] == writer &&
                (checks->parts[job - world->jobs][agent].places >> place & 1) != 0)
                return true;
    }
    return false;
}

bool parts_joined(const struct world *world, const struct world_job *job, unsigned agent,
                  uint64_t run)
{
    return world->parts->parts[job - world->jobs][agent].run != run ||
           world->parts->parts[job - world->jobs][agent].joined;
}

/* Those that have ended in the run of their part count as well: the others would go on with what
 * they left. What begins on a node that its job has left, of which its agent has yet to hear, is
 * ended by its next orders. */
void parts_began(struct world *world, const struct world_job *job, unsigned agent, uint64_t run,
                 uint64_t checkpoint_id)
{
    struct part_checks *checks = world->parts;
    unsigned number = (unsigned)(job - world->jobs);

    if (checks->parts[number][agent].run != run || checks->parts[number][agent].joined ||
        !state_checks_has_part(world, job->id, agent, run))
        return;
    checks->parts[number][agent].began = true;
    checks->parts[number][agent].from = checkpoint_id;
    for (unsigned other = 0; other < WORLD_AGENTS_MAX; other++)
        if (other != agent && checks->parts[number][other].began &&
            !checks->parts[number][other].joined &&
            checks->parts[number][other].from != checkpoint_id &&
            state_checks_has_part(world, job->id, other, checks->parts[number][other].run))
            world_violation(world, "I45", "%s begins on %s from %" PRIx64 ", on %s from %" PRIx64,
                            job->id, world->agents[agent].name, checkpoint_id,
                            world->agents[other].name, checks->parts[number][other].from);
}
