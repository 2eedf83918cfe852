/* I44: a checkpoint is of one step, and of every rank of every part of its job. What the ranks
 * themselves said at the nodes against what the state makes of it.
 *
 * Flow     world_rank_said() by each rank at the moment it is done with its part of an attempt,
 *          world_rank_meets() when it is told at which step; when a checkpoint is complete, what
 *          was said of the attempt that completed it is compared.
 * Shapes   one record per attempt and node, and one per meeting, for ever.
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
    uint32_t at;          /* ... that have been at a step */
    char labels[WORLD_RANKS_MAX][LABEL_MAX_BYTES + 1]; /* what each said last */
};

/* Where the ranks of an attempt were told to meet, last; 0: nowhere yet. One that a rank has put
 * off may have another step then, and what was saved tells whether all had it. */
struct meeting {
    uint64_t checkpoint_id, step;
    uint32_t attempt;
    bool put_off;
};

struct rank_checks {
    uint64_t ends[WORLD_JOBS_MAX]; /* the checkpoint that was ordered to end the job */
    struct said *said;
    size_t count;
    struct meeting *meetings;
    size_t meeting_count;
};

void rank_checks_init(struct world *world)
{
    world->ranks = check_calloc(1, sizeof(*world->ranks));
}

void rank_checks_close(struct world *world)
{
    free(world->ranks->said);
    free(world->ranks->meetings);
    free(world->ranks);
}

void rank_checks_draw(struct world *world, struct world_job *job)
{
    struct sim *sim = world->sim;

    job->ranks = (unsigned)sim_random(sim, WORLD_RANKS_MAX + 1);
    job->ranks_in_group = sim_chance(sim, 2);
    job->labels = (enum world_labels)sim_random(sim, LABELS_AGREED + 1);
    job->ranks_with_streams = job->labels == LABELS_AGREED || sim_chance(sim, 2);
    if (job->ranks == 0 && job->labels == LABELS_AGREED) /* without a number nobody has a stream */
        job->ranks = 1;
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

static struct said *get_said(struct rank_checks *checks, const struct world_rank *rank,
                             uint64_t checkpoint_id, uint32_t attempt)
{
    struct said *said = find(checks, rank->agent, checkpoint_id, attempt);

    CHECK(rank->number < rank->ranks && rank->ranks <= WORLD_RANKS_MAX);
    if (said == NULL) {
        checks->said = check_realloc(checks->said, checks->count + 1, sizeof(*checks->said));
        said = &checks->said[checks->count++];
        *said =
            (struct said){.checkpoint_id = checkpoint_id, .attempt = attempt, .agent = rank->agent};
    }
    said->ranks |= (UINT32_C(1) << rank->ranks) - 1;
    return said;
}

void world_rank_said(struct world *world, const struct world_rank *rank, uint64_t checkpoint_id,
                     uint32_t attempt, const char *label)
{
    struct said *said = get_said(world->ranks, rank, checkpoint_id, attempt);

    CHECK(strlen(label) < sizeof(said->labels[0]));
    strcpy(said->labels[rank->number], label);
    said->done |= UINT32_C(1) << rank->number;
}

static struct meeting *find_meeting(const struct rank_checks *checks, uint64_t checkpoint_id,
                                    uint32_t attempt)
{
    for (size_t i = checks->meeting_count; i-- > 0;)
        if (checks->meetings[i].checkpoint_id == checkpoint_id &&
            checks->meetings[i].attempt == attempt)
            return &checks->meetings[i];
    return NULL;
}

static struct meeting *add_meeting(struct rank_checks *checks, const struct meeting *meeting)
{
    CHECK(find_meeting(checks, meeting->checkpoint_id, meeting->attempt) == NULL);
    checks->meetings =
        check_realloc(checks->meetings, checks->meeting_count + 1, sizeof(*checks->meetings));
    checks->meetings[checks->meeting_count] = *meeting;
    return &checks->meetings[checks->meeting_count++];
}

static void check_told(struct world *world, const struct world_rank *rank,
                       const struct meeting *told)
{
    struct rank_checks *checks = world->ranks;
    struct meeting *meeting = find_meeting(checks, told->checkpoint_id, told->attempt);
    const struct said *said = find(checks, rank->agent, told->checkpoint_id, told->attempt);

    if (said == NULL || said->at != said->ranks)
        world_violation(world, "I44",
                        "a rank on %s is to save step %" PRIu64 " for %" PRIx64
                        ", and of its node's ranks %x only %x had come to one",
                        world_agent_name(rank->agent), told->step, told->checkpoint_id,
                        said == NULL ? 0 : said->ranks, said == NULL ? 0 : said->at);
    if (meeting != NULL && !meeting->put_off && meeting->step != told->step)
        world_violation(
            world, "I44",
            "a rank on %s is to save step %" PRIu64 " for %" PRIx64 ", another one step %" PRIu64,
            world_agent_name(rank->agent), told->step, told->checkpoint_id, meeting->step);
    if (meeting == NULL)
        add_meeting(checks, told);
    else
        meeting->step = told->step;
}

void world_rank_put_off(struct world *world, uint64_t checkpoint_id, uint32_t attempt)
{
    const struct meeting none = {.checkpoint_id = checkpoint_id, .attempt = attempt};
    struct meeting *meeting = find_meeting(world->ranks, checkpoint_id, attempt);

    if (meeting == NULL)
        meeting = add_meeting(world->ranks, &none);
    meeting->put_off = true;
}

void world_rank_meets(struct world *world, const struct world_rank *rank, uint64_t checkpoint_id,
                      uint32_t attempt, uint64_t step)
{
    const struct meeting told = {.checkpoint_id = checkpoint_id, .step = step, .attempt = attempt};

    barriers_fault(world, rank->agent);
    if (step == 0) {
        get_said(world->ranks, rank, checkpoint_id, attempt)->at |= UINT32_C(1) << rank->number;
        return;
    }
    world->counts.told_steps++;
    check_told(world, rank, &told);
}

/* Of a job whose ranks meet: what they saved is the step that they were told, which one in so many
 * miscounts. Ranks of model agents are told by no stream. */
static void check_met(struct world *world, const struct fsm *fsm,
                      const struct fsm_checkpoint *checkpoint)
{
    const struct meeting *meeting = find_meeting(world->ranks, checkpoint->id, checkpoint->attempt);
    bool ships = false;

    if (meeting != NULL && meeting->step == 0)
        meeting = NULL;
    for (uint32_t i = 0; i < checkpoint->shard_count; i++)
        ships |= (unsigned)world_agent_number(fsm_node_name(fsm, checkpoint->shards[i].node_slot)) <
                 world->options.shipping_agents;
    if ((meeting == NULL && ships) ||
        (meeting != NULL && strtoull(checkpoint->label, NULL, 10) - meeting->step > 1))
        world_violation(world, "I44",
                        "checkpoint %" PRIx64 " of step \"%s\" is complete, its ranks were told "
                        "%" PRIu64,
                        checkpoint->id, checkpoint->label, meeting == NULL ? 0 : meeting->step);
    world->counts.met++;
    world->counts.met_on_streams += meeting != NULL;
}

static void check_labels(struct world *world, const struct fsm_checkpoint *checkpoint,
                         const struct said *said)
{
    for (unsigned rank = 0; rank < WORLD_RANKS_MAX; rank++)
        if ((said->ranks >> rank & 1) != 0 && strcmp(said->labels[rank], checkpoint->label) != 0)
            world_violation(world, "I44",
                            "checkpoint %" PRIx64
                            " of step \"%s\" is complete, rank %u on %s said \"%s\"",
                            checkpoint->id, checkpoint->label, rank, world_agent_name(said->agent),
                            said->labels[rank]);
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
        check_labels(world, checkpoint, said);
        if (checkpoint->label[0] == '\0' &&
            (checkpoint->shard_count > 1 || (said->ranks & (said->ranks - 1)) != 0))
            world_violation(world, "I44",
                            "checkpoint %" PRIx64 " is complete, of several that named no step",
                            checkpoint->id);
    }
    world->counts.labelled += checkpoint->label[0] != '\0';
    if (job != NULL && job->labels == LABELS_AGREED)
        check_met(world, fsm, checkpoint);
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
