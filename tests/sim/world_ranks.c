/* I44: a checkpoint is of one step, and of every rank of every part of its job. What the ranks
 * themselves said at the nodes against what the state makes of it.
 *
 * Flow     world_rank_said() by each rank at the moment it is done with its part of an attempt;
 *          when a checkpoint is complete, what was said of the attempt that completed it is
 *          compared.
 * Shapes   one record per attempt and node, for ever.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name

#define CONTINUES CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE

struct said {
    uint64_t checkpoint_id;
    uint32_t attempt;
    unsigned agent;
    uint32_t done, ranks; /* bits by rank: those that said it, those that there are */
    bool differs;         /* from the first one's label */
    char label[LABEL_MAX_BYTES + 1];
};

struct rank_checks {
    uint64_t ends[WORLD_JOBS_MAX]; /* the checkpoint that was ordered to end the job */
    struct said *said;
    size_t count;
};

void rank_checks_init(struct world *world)
{
    world->ranks = check_calloc(1, sizeof(*world->ranks));
}

void rank_checks_close(struct world *world)
{
    free(world->ranks->said);
    free(world->ranks);
}

void rank_checks_draw(struct world *world, struct world_job *job)
{
    struct sim *sim = world->sim;
    /* applications of the shipping agents know no barrier */
    unsigned labels = world->options.shipping_agents > 0 ? LABELS_AGREED : LABELS_AGREED + 1;

    job->ranks = (unsigned)sim_random(sim, WORLD_RANKS_MAX + 1);
    job->ranks_in_group = sim_chance(sim, 2);
    job->labels = (enum world_labels)sim_random(sim, labels);
}

unsigned world_ranks_of(const struct world_job *job)
{
    return job->ranks == 0 ? 1 : job->ranks;
}

/* The latest are asked for most. */
static struct said *find(const struct rank_checks *checks, unsigned agent, uint64_t checkpoint_id,
                         uint32_t attempt)
{
    for (size_t i = checks->count; i-- > 0;)
        if (checks->said[i].checkpoint_id == checkpoint_id && checks->said[i].agent == agent &&
            checks->said[i].attempt == attempt)
            return &checks->said[i];
    return NULL;
}

void world_rank_said(struct world *world, unsigned agent, uint64_t checkpoint_id, uint32_t attempt,
                     unsigned rank, unsigned ranks, const char *label)
{
    struct rank_checks *checks = world->ranks;
    struct said *said = find(checks, agent, checkpoint_id, attempt);

    CHECK(rank < ranks && ranks < 32);
    if (said == NULL) {
        checks->said = check_realloc(checks->said, checks->count + 1, sizeof(*checks->said));
        said = &checks->said[checks->count++];
        *said = (struct said){.checkpoint_id = checkpoint_id, .attempt = attempt, .agent = agent};
        CHECK(snprintf(said->label, sizeof(said->label), "%s", label) < (int)sizeof(said->label));
    }
    said->ranks |= (UINT32_C(1) << ranks) - 1;
    said->done |= UINT32_C(1) << rank;
    said->differs |= strcmp(said->label, label) != 0;
}

static void check_complete(struct world *world, const struct fsm *fsm,
                           const struct fsm_checkpoint *checkpoint, const struct world_job *job)
{
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        const char *node = fsm_node_name(fsm, checkpoint->shards[i].node_slot);
        const struct said *said = find(world->ranks, (unsigned)world_agent_number(node),
                                       checkpoint->id, checkpoint->attempt);
        if (said == NULL || said->done != said->ranks)
            world_violation(world, "I44",
                            "checkpoint %" PRIx64
                            " is complete, of the ranks %x of %s %x were done",
                            checkpoint->id, said == NULL ? 0 : said->ranks, node,
                            said == NULL ? 0 : said->done);
        if (said->differs || strcmp(said->label, checkpoint->label) != 0)
            world_violation(world, "I44",
                            "checkpoint %" PRIx64 " of step \"%s\" is complete, %s said \"%s\"%s",
                            checkpoint->id, checkpoint->label, node, said->label,
                            said->differs ? " and something else" : "");
        world->counts.labelled += i == 0 && said->label[0] != '\0';
        world->counts.met += i == 0 && job != NULL && job->labels == LABELS_AGREED;
    }
}

/* I46: what it computes from here on would be lost. */
static void check_still(struct world *world, const struct fsm *fsm,
                        const struct fsm_checkpoint *checkpoint, const struct world_job *job)
{
    if (job == NULL || checkpoint->after <= CONTINUES ||
        world->ranks->ends[job - world->jobs] != checkpoint->id)
        return; /* it goes on, or was to when its ranks were asked */
    for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
        const char *node = fsm_node_name(fsm, checkpoint->shards[i].node_slot);
        if (world_shipping_moves((unsigned)world_agent_number(node), job->id))
            world_violation(world, "I46",
                            "checkpoint %" PRIx64
                            " that ends %s is complete, and it computes on %s",
                            checkpoint->id, job->id, node);
    }
    world->counts.stood_still++;
}

void rank_checks_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct fsm_checkpoint *checkpoint =
        event->kind == CKPT__V1__EVENT_KIND__EVENT_KIND_CHECKPOINT_STATE
            ? fsm_checkpoint_find(fsm, event->checkpoint_id)
            : NULL;
    const struct world_job *job = job_find(world, event->allocation_id);

    if (checkpoint == NULL || checkpoint->state != event->new_state)
        return; /* more of the entry followed */
    if (event->new_state == CHECKPOINT(DISPATCHED) && job != NULL)
        world->ranks->ends[job - world->jobs] = checkpoint->after > CONTINUES ? checkpoint->id : 0;
    if (event->new_state != CHECKPOINT(COMPLETE))
        return;
    check_complete(world, fsm, checkpoint, job);
    check_still(world, fsm, checkpoint, job);
}
