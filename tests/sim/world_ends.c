/* What the committed state wants ended, at each index, and why: I20, I30, I39, I58; and the
 * walltimes that it has: I33.
 *
 * Flow     after each entry that is applied first: which parts of jobs are to end from then on,
 *          with the run that they are in; what made a job end must have happened. Orders that an
 *          agent gets name the index that they were derived from: each of them must be what the
 *          state of that index wants, and the parts that they name are those of that state.
 * Shapes   per job and agent the indexes at which this changed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/ends.h"
#include "fsm/level.h"
#include "src/base/check.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name
#define REASON(name)     CKPT__V1__REASON__REASON_##name

/* From this index on. */
struct want {
    uint64_t index;
    uint64_t run; /* of the part; 0: there is none */
    /* of one whose job has stopped, or that has left it: it may be told to end all the same */
    uint64_t last_run;
    bool ends; /* it is told to; or there is none, and nothing of the job may run there */
    /* by the state's clock; walltime_ms 0: none */
    uint64_t began_ms, walltime_ms;
};

struct wants {
    struct want *items;
    size_t count, capacity;
};

struct move {
    uint64_t index;
    uint32_t state; /* from then on */
};

struct end_checks {
    struct wants wants[WORLD_JOBS_MAX][WORLD_AGENTS_MAX];
    bool terminating[WORLD_JOBS_MAX];               /* as of the last entry */
    Ckpt__V1__RequeuePolicy policy[WORLD_JOBS_MAX]; /* that the job was registered with */
    bool sensitive[WORLD_JOBS_MAX];
    struct {
        struct move *items;
        size_t count, capacity;
    } moves[WORLD_JOBS_MAX];
};

void ends_init(struct world *world)
{
    world->ends = check_calloc(1, sizeof(*world->ends));
}

void ends_close(struct world *world)
{
    for (unsigned job = 0; job < WORLD_JOBS_MAX; job++)
        for (unsigned agent = 0; agent < WORLD_AGENTS_MAX; agent++)
            free(world->ends->wants[job][agent].items);
    for (unsigned job = 0; job < WORLD_JOBS_MAX; job++)
        free(world->ends->moves[job].items);
    free(world->ends);
}

/* ---- moves ---- */

static void job_moved(struct world *world, unsigned job, struct move move)
{
    size_t *capacity = &world->ends->moves[job].capacity;

    if (world->ends->moves[job].count == *capacity) {
        *capacity = *capacity == 0 ? 8 : 2 * *capacity;
        world->ends->moves[job].items =
            check_realloc(world->ends->moves[job].items, *capacity, sizeof(struct move));
    }
    world->ends->moves[job].items[world->ends->moves[job].count++] = move;
}

void ends_event(struct world *world, const Ckpt__V1__Event *event, uint64_t index)
{
    const struct world_job *job = job_find(world, event->allocation_id);

    if (job == NULL ||
        (event->kind != EVENT(ALLOCATION_STATE) && event->kind != EVENT(ALLOCATION_REGISTERED)))
        return;
    job_moved(world, (unsigned)(job - world->jobs), (struct move){index, event->new_state});
}

bool ends_moved_at(const struct world *world, unsigned job, uint64_t index)
{
    for (size_t i = world->ends->moves[job].count; i > 0; i--)
        if (world->ends->moves[job].items[i - 1].index == index)
            return true;
    return false;
}

static bool stopped_at(const struct world *world, unsigned job, uint64_t index)
{
    uint32_t state = 0;

    for (size_t i = 0;
         i < world->ends->moves[job].count && world->ends->moves[job].items[i].index <= index; i++)
        state = world->ends->moves[job].items[i].state;
    return state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_REQUEUED ||
           state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_SUSPENDED;
}

bool ends_repeats_at(const struct world *world, unsigned job, uint64_t index, bool node_failure)
{
    Ckpt__V1__RequeuePolicy policy = world->ends->policy[job];

    return stopped_at(world, job, index) && !world->ends->sensitive[job] &&
           (policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ALWAYS ||
            (node_failure && policy == CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_ON_NODE_FAILURE));
}

/* ---- what is wanted ---- */

static void want_note(struct wants *wants, const struct want *want)
{
    struct want *last = wants->count == 0 ? NULL : &wants->items[wants->count - 1];

    if (last != NULL && last->run == want->run && last->ends == want->ends &&
        last->last_run == want->last_run && last->began_ms == want->began_ms &&
        last->walltime_ms == want->walltime_ms)
        return;
    if (wants->count == wants->capacity) {
        wants->capacity = wants->capacity == 0 ? 8 : 2 * wants->capacity;
        wants->items = check_realloc(wants->items, wants->capacity, sizeof(*wants->items));
    }
    wants->items[wants->count++] = *want;
}

static bool stays(const struct fsm_allocation *allocation, uint32_t node_slot)
{
    for (uint32_t i = 0; i < allocation->next_count; i++)
        if (allocation->next[i].node_slot == node_slot)
            return true;
    return false;
}

static void wants_note(struct world *world, const struct fsm *fsm,
                       const struct fsm_allocation *allocation, unsigned job, uint64_t index)
{
    struct want wants[WORLD_AGENTS_MAX];

    for (unsigned agent = 0; agent < world->options.agents; agent++)
        wants[agent] = (struct want){.index = index, .ends = true};
    for (uint32_t i = 0; allocation != NULL && i < allocation->node_count; i++) {
        const struct fsm_node_share *share = &allocation->nodes[i];
        int agent = world_agent_number(fsm_node_name(fsm, share->node_slot));
        CHECK(agent >= 0);
        if (!state_holds_nodes(allocation->state)) {
            wants[agent].last_run = share->run;
            continue;
        }
        wants[agent].run = share->run;
        wants[agent].ends = allocation->terminating ||
                            (allocation->leaving && !stays(allocation, share->node_slot));
        wants[agent].began_ms = allocation->started_at_ms;
        wants[agent].walltime_ms = allocation->walltime_ms;
    }
    for (uint32_t i = allocation == NULL ? 0 : allocation->node_count;
         allocation != NULL && i < fsm_allocation_places(fsm, allocation); i++) {
        struct fsm_place left = fsm_allocation_place(fsm, allocation, i);

        wants[world_agent_number(fsm_node_name(fsm, left.node_slot))].last_run = left.run;
    }
    for (unsigned agent = 0; agent < world->options.agents; agent++)
        want_note(&world->ends->wants[job][agent], &wants[agent]);
}

/* NULL: the job was not there yet. */
static const struct want *want_at(const struct world *world, unsigned job, unsigned agent,
                                  uint64_t index)
{
    const struct wants *wants = &world->ends->wants[job][agent];

    for (size_t i = wants->count; i > 0; i--)
        if (wants->items[i - 1].index <= index)
            return &wants->items[i - 1];
    return NULL;
}

/* ---- walltimes ---- */

bool ends_part(const struct world *world, unsigned job, unsigned agent, uint64_t index,
               struct part_wanted *ret_part)
{
    const struct want *want = want_at(world, job, agent, index);

    if (want == NULL || want->run == 0)
        return false;
    *ret_part = (struct part_wanted){want->run, want->ends, want->began_ms, want->walltime_ms};
    return true;
}

bool ends_has_had(const struct world *world, unsigned job, unsigned agent, uint64_t run,
                  uint64_t walltime_ms, uint64_t *ret_end_ms)
{
    const struct wants *wants = &world->ends->wants[job][agent];

    for (size_t i = wants->count; i > 0; i--)
        if (wants->items[i - 1].run == run && wants->items[i - 1].walltime_ms == walltime_ms) {
            *ret_end_ms = wants->items[i - 1].began_ms + walltime_ms;
            return true;
        }
    return false;
}

/* ---- orders ---- */

bool ends_unwanted(const struct world *world, unsigned job, unsigned agent, uint64_t index,
                   uint64_t run)
{
    const struct want *want = want_at(world, job, agent, index);

    return want != NULL && (want->run == 0 || run < want->run || (want->ends && run == want->run));
}

/* A part that is told to end is told so in its own run, also when its job has stopped. */
static bool end_is_wanted(const struct want *want, uint64_t run)
{
    return want != NULL && want->ends && run != 0 && (run == want->run || run == want->last_run);
}

void world_ordered(struct world *world, unsigned agent, const Ckpt__V1__OrderSet *orders)
{
    if (orders->index > raft_checks_committed(world))
        world_violation(world, "I20",
                        "%s gets orders of index %" PRIu64 ", and %" PRIu64 " is committed",
                        world_agent_name(agent), orders->index, raft_checks_committed(world));
    walltimes_ordered(world, agent, orders);
    for (size_t i = 0; i < orders->n_orders; i++) {
        const Ckpt__V1__Order *order = orders->orders[i];
        const struct world_job *job = job_find(world, order->allocation_id);

        if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_SCAN)
            continue; /* of no job, and it changes nothing */
        if (job == NULL)
            world_violation(world, "I20", "an order for %s, which nobody registered",
                            order->allocation_id);
        if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT) {
            state_checks_ordered(world, order, orders->index);
            destinations_ordered(world, (unsigned)(job - world->jobs), order);
        } else if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_COLLECT) {
            retention_ordered(world, order);
        } else if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_VERIFY) {
            retention_read_again(world, order);
        } else if (!end_is_wanted(
                       want_at(world, (unsigned)(job - world->jobs), agent, orders->index),
                       order->run))
            world_violation(world, "I39",
                            "%s is ordered to end %s, run %" PRIx64 ", and the state of index "
                            "%" PRIu64 " does not say so",
                            world_agent_name(agent), job->id, order->run, orders->index);
    }
}

bool ends_wanted(const struct world *world, unsigned job, unsigned agent)
{
    const struct wants *wants = &world->ends->wants[job][agent];

    return wants->count > 0 && wants->items[wants->count - 1].ends;
}

/* ---- why ---- */

/* It may compute again less than a checkpoint takes (kill-and-yield). */
static bool cheap(const struct world *world, const struct fsm_allocation *allocation,
                  uint64_t index)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation->id);

    if (allocation->state == CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_STARTING ||
        state_checks_times(world, job)->runs_index == index) /* it was, before this entry */
        return true;
    return victims_strategy(world, allocation, CKPT__V1__STRATEGY__STRATEGY_AUTO) &&
           allocation->last_complete_id != 0;
}

/* None can be written: nowhere, or not by all. */
static bool unsavable(const struct world *world, const struct fsm *fsm,
                      const struct fsm_allocation *allocation)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation->id);

    return victims_strategy(world, allocation, CKPT__V1__STRATEGY__STRATEGY_NONE) ||
           allocation->unresponsive || /* it is not waited for again */
           allocation->hung_since_ms != 0 ||
           victims_targets_moved(world) || /* in this entry, before or after it was taken */
           destinations_moved(world, fsm, (unsigned)(job - world->jobs)) ||
           !fsm_destination_available(fsm, allocation) ||
           job->finished_us > state_checks_times(world, job)->began_us;
}

/* A part of it may not have answered: it has neither said a pause nor written its shard. */
static bool silent(const struct fsm_checkpoint *checkpoint)
{
    for (uint32_t i = 0; checkpoint != NULL && i < checkpoint->shard_count; i++)
        if (!checkpoint->shards[i].verified && checkpoint->shards[i].stall_ms == 0)
            return true;
    return false;
}

/* I58: nobody who is not forced ends without a checkpoint, but in the ways that are known before,
 * and for the silence of its application until the deadline. Known is that it writes none, that it
 * does not answer, and that a part of it has finished. At level 1 every failure was enough. */
static void unforced_check(struct world *world, const struct fsm *fsm,
                           const struct fsm_allocation *allocation)
{
    const struct world_job *job = job_find(world, allocation->id);
    const struct fsm_checkpoint *checkpoint =
        fsm_checkpoint_find(fsm, state_checks_newest(world, allocation->id));
    bool known = victims_taken_now(world, allocation->id) &&
                 (victims_strategy(world, allocation, CKPT__V1__STRATEGY__STRATEGY_NONE) ||
                  allocation->unresponsive || allocation->hung_since_ms != 0 ||
                  fsm_part_finished(fsm, allocation) ||
                  job->finished_us > state_checks_times(world, job)->began_us);
    bool holds = true;

    if (fsm_level(fsm) < 2 || victims_forced(fsm, allocation))
        return;
    if (allocation->terminate_reason == REASON(PREEMPTED_WITHOUT_CHECKPOINT))
        holds = known;
    else if (allocation->terminate_reason == REASON(CHECKPOINT_TIMEOUT))
        holds = silent(checkpoint);
    else
        return;
    world->counts.unforced_ends++;
    if (!holds)
        world_violation(world, "I58",
                        "%s is told to end for reason %s, nobody forces it, and its checkpoint is "
                        "%s (%s)",
                        allocation->id,
                        fsm_reason_word(allocation->terminate_reason, (char[FSM_WORD_BYTES]){0}),
                        checkpoint == NULL ? "none" : fsm_checkpoint_state_name(checkpoint->state),
                        fsm_reason_word(checkpoint == NULL ? REASON(NONE) : checkpoint->reason,
                                        (char[FSM_WORD_BYTES]){0}));
}

/* Who is saved before it ends is told to end when that has ended, in this entry; a victim without
 * when it costs less, or cannot be. Nobody for less. */
static void cause_check(struct world *world, const struct fsm *fsm,
                        const struct fsm_allocation *allocation, uint64_t index)
{
    uint64_t id = state_checks_newest(world, allocation->id);
    const struct fsm_checkpoint *checkpoint = fsm_checkpoint_find(fsm, id);
    bool released = releases_ended_at(world, id, index);
    Ckpt__V1__CheckpointState state =
        checkpoint == NULL || !(released || state_checks_ended_at(world, id, index))
            ? CHECKPOINT(UNSPECIFIED)
            : checkpoint->state;
    bool taken = victims_taken_now(world, allocation->id), holds = true;
    bool saved = state == CHECKPOINT(COMPLETE) && !checkpoint->damaged &&
                 checkpoint->after != CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;

    switch (allocation->terminate_reason) {
    case REASON(PREEMPTED):
        holds = saved || (taken && cheap(world, allocation, index));
        break;
    case REASON(MIGRATED): /* a job that nobody can checkpoint begins anew */
        holds = saved ||
                (allocation->requeue_policy != CKPT__V1__REQUEUE_POLICY__REQUEUE_POLICY_NEVER &&
                 victims_strategy(world, allocation, CKPT__V1__STRATEGY__STRATEGY_NONE));
        break;
    case REASON(ENDED_BY_SCHEDULER):
        holds = saved;
        break;
    case REASON(CHECKPOINT_TIMEOUT):
        holds =
            state == CHECKPOINT(TIMED_OUT) &&
            checkpoint->purpose == CKPT__V1__PURPOSE__PURPOSE_PREEMPT; /* others go on: S3-069 */
        break;
    case REASON(PREEMPTED_WITHOUT_CHECKPOINT):
        holds = state == CHECKPOINT(FAILED) || (released && checkpoint->damaged) ||
                (taken && unsavable(world, fsm, allocation)) ||
                victims_forced_away(world, fsm, allocation);
        break;
    default: /* a node, the application, the walltime */
        break;
    }
    if (!holds)
        world_violation(
            world, "I30", "%s is told to end for reason %s, its last checkpoint %" PRIx64 " is %s",
            allocation->id,
            fsm_reason_word(allocation->terminate_reason, (char[FSM_WORD_BYTES]){0}), id,
            checkpoint == NULL ? "none" : fsm_checkpoint_state_name(checkpoint->state));
}

void ends_applied(struct world *world, const struct fsm *fsm, uint64_t index)
{
    walltimes_applied(world, fsm, index);
    for (unsigned job = 0; job < world->job_count; job++) {
        const struct fsm_allocation *allocation = world->found[job];
        bool terminating = allocation != NULL && allocation->terminating;

        if (allocation == NULL && world->ends->wants[job][0].count == 0)
            continue; /* not yet */
        wants_note(world, fsm, allocation, job, index);
        if (allocation != NULL) {
            world->ends->policy[job] = allocation->requeue_policy;
            world->ends->sensitive[job] = allocation->sensitive;
        }
        if (terminating && !world->ends->terminating[job]) {
            cause_check(world, fsm, allocation, index);
            unforced_check(world, fsm, allocation);
        }
        world->ends->terminating[job] = terminating;
    }
}
