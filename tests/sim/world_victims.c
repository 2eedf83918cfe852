/* Checks of what stops without having asked for it: I24, I30, I31, I32, I35. Each reads the events
 * of an entry when it is first applied.
 *
 * Flow     an outage: the events behind TARGET_DOWN pause, one by one, what was active there. A
 *          victim: what the state says of it after the entry that took it. An end by order: on none
 *          of its nodes anything lives, or the node is down, or has had its time.
 * Shapes   one record per job; the victims of one entry.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fsm/level.h"
#include "fsm/limits.h"
#include "src/base/check.h"
#include "tests/sim/agent_world.h"
#include "tests/sim/world_internal.h"

#define CHECKPOINT(name) CKPT__V1__CHECKPOINT_STATE__CHECKPOINT_STATE_##name
#define ALLOCATION(name) CKPT__V1__ALLOCATION_STATE__ALLOCATION_STATE_##name
#define EVENT(name)      CKPT__V1__EVENT_KIND__EVENT_KIND_##name
#define REASON(name)     CKPT__V1__REASON__REASON_##name

enum { TAKEN_MAX = 256, LEFTOVER_US = 5000000 };

struct victim_facts {
    bool ending;            /* a terminate order stands */
    uint64_t overdue_ms;    /* of the state's clock: then silent nodes count as done */
    bool without;           /* taken in an outage: it is to end FAILED */
    uint64_t preemption_id; /* that has taken it in this entry; 0: none, or it has ended since */
    bool leaving;           /* some of its nodes are */
    uint64_t left_by_ms;    /* of the state's clock: then they have, silent or not */
    uint32_t held;          /* agents: its nodes, those that leave included */
};

struct victim_checks {
    struct victim_facts jobs[WORLD_JOBS_MAX];
    uint64_t known[WORLD_AGENTS_MAX]; /* up to which report, before this entry */
    unsigned removals[WORLD_AGENTS_MAX];
    uint64_t before_ms; /* the state's clock before this entry, whose commands may be of seconds */
    uint32_t down;      /* agents: as of the last event, not as of the whole entry */
    uint32_t off;       /* likewise, of those: an operator has said so, rightly or not */
    uint64_t back_us[WORLD_AGENTS_MAX]; /* when it was heard again after that; 0: never */
    Ckpt__V1__Strategy strategies[WORLD_JOBS_MAX]; /* before this entry */
    unsigned taken[TAKEN_MAX];                     /* jobs, in this entry */
    unsigned taken_count;
    bool targets_moved; /* in this entry */
    uint32_t to_pause;
    char target_id[ID_MAX_BYTES + 1]; /* of these */
};

void victims_init(struct world *world)
{
    world->victims = check_calloc(1, sizeof(*world->victims));
}

void victims_close(struct world *world)
{
    free(world->victims);
}

/* ---- outages ---- */

/* I24: an outage pauses; it ends nothing. */
static void outage_event(struct world *world, const Ckpt__V1__Event *event)
{
    struct victim_checks *checks = world->victims;

    if (checks->to_pause == 0)
        return;
    if (event->kind != EVENT(CHECKPOINT_STATE) || event->new_state != CHECKPOINT(PAUSED))
        world_violation(world, "I24",
                        "%s is unavailable, %u checkpoints there are not paused, and event %" PRIu64
                        " is of kind %d, checkpoint %" PRIx64 ", state %u",
                        checks->target_id, checks->to_pause, event->sequence, (int)event->kind,
                        event->checkpoint_id, event->new_state);
    checks->to_pause--;
}

static void target_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    struct victim_checks *checks = world->victims;
    const struct fsm_target *target = fsm_target_find(fsm, event->subject);

    checks->targets_moved = true;
    if (event->kind != EVENT(TARGET_DOWN) || target == NULL)
        return;
    checks->to_pause = state_checks_unpaused(world, target->slot);
    snprintf(checks->target_id, sizeof(checks->target_id), "%s", target->id);
}

/* ---- victims ---- */

/* I31, I32: whoever took it, the scheduler, the evaluator's claim or an escalation. */
static void victim_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    struct victim_checks *checks = world->victims;
    const struct world_job *job = job_find(world, event->allocation_id);
    const struct fsm_preemption *preemption = fsm_preemption_next(fsm, event->number - 1);

    if (job == NULL)
        world_violation(world, "I32", "victim %s was never registered", event->allocation_id);
    if (job->sensitive)
        world_violation(world, "I31", "%s is sensitive and a victim", job->id);
    if (preemption == NULL || preemption->id != event->number)
        return; /* others have its place */
    if (job->preemption_class >= preemption->acting_class)
        world_violation(world, "I32", "class %u preempts %s of class %u", preemption->acting_class,
                        job->id, job->preemption_class);
    CHECK(checks->taken_count < TAKEN_MAX);
    checks->taken[checks->taken_count++] = (unsigned)(job - world->jobs);
    checks->jobs[job - world->jobs].preemption_id = event->number;
}

/* Of the nodes that it was to give. One that shrinks has left them in the same entry where its
 * parts there had ended before. */
static bool holds_given(const struct fsm_allocation *allocation,
                        const struct fsm_preemption *preemption)
{
    for (uint32_t i = 0; i < preemption->victim_count; i++) {
        const struct fsm_preemption_victim *victim = &preemption->victims[i];

        if (strcmp(victim->allocation_id, allocation->id) != 0)
            continue;
        for (uint32_t j = 0; j < victim->node_count; j++)
            for (uint32_t k = 0; k < allocation->node_count; k++)
                if (allocation->nodes[k].node_slot == victim->node_slots[j])
                    return true;
    }
    return false;
}

bool victims_strategy(const struct world *world, const struct fsm_allocation *allocation,
                      Ckpt__V1__Strategy strategy)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation->id);

    return allocation->strategy == strategy ||
           world->victims->strategies[job - world->jobs] == strategy;
}

/* It had not started when it was taken: nothing is written for it, and nothing is lost. */
static bool released_before_it_ran(const struct fsm_allocation *allocation)
{
    return (allocation->terminating ? allocation->terminate_reason : allocation->reason) ==
           REASON(PREEMPTED);
}

/* That of its next checkpoint; or of the one that it had when it was taken, which has ended with it
 * in this entry: a victim that does not answer is not waited for. */
static bool victim_saves(struct world *world, const struct fsm *fsm,
                         const struct fsm_allocation *allocation, uint64_t index)
{
    uint64_t id = state_checks_newest(world, allocation->id);
    const struct fsm_checkpoint *had = fsm_checkpoint_find(fsm, id);

    if (fsm_destination_available(fsm, allocation))
        return true;
    return had != NULL && state_checks_ended_at(world, id, index) &&
           fsm_target_at(fsm, had->target_slot)->available;
}

/* I35: nothing is asked of a destination that is unavailable. Who is taken all the same is forced
 * to, is told to end, and fails. */
static void victim_check(struct world *world, const struct fsm *fsm, unsigned number,
                         uint64_t index)
{
    struct victim_facts *facts = &world->victims->jobs[number];
    const char *id = world->jobs[number].id;
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, id);
    const struct fsm_preemption *preemption = fsm_preemption_next(fsm, facts->preemption_id - 1);

    if (facts->preemption_id == 0 || allocation == NULL || preemption == NULL ||
        preemption->id != facts->preemption_id ||
        victims_strategy(world, allocation, CKPT__V1__STRATEGY__STRATEGY_NONE) ||
        destinations_moved(world, fsm, number) || victim_saves(world, fsm, allocation, index) ||
        released_before_it_ran(allocation))
        return;
    world->counts.forced++;
    if (!preemption->request->forced &&
        preemption->request->reason != CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE)
        world_violation(world, "I35",
                        "%s is a victim of preemption %" PRIu64
                        ", which does not force, in an outage",
                        id, preemption->id);
    if (!state_holds_nodes(allocation->state))
        return;
    if (!allocation->terminating && !allocation->leaving && holds_given(allocation, preemption))
        world_violation(world, "I35", "%s is taken by force in an outage, and is not told to end",
                        id);
    facts->without = allocation->terminating &&
                     allocation->terminate_reason == REASON(PREEMPTED_WITHOUT_CHECKPOINT);
}

/* ---- ends ---- */

/* What a scheduler has asked for ends at once, whatever runs. */
static bool ended_by_order(const struct world_job *job, const Ckpt__V1__Event *event)
{
    return state_holds_nodes(event->old_state) && !state_holds_nodes(event->new_state) &&
           !job->ended;
}

/* Several nodes may go and come back in one entry: who is down at an end is what the events before
 * it say. */
static void node_event(struct world *world, const Ckpt__V1__Event *event)
{
    char name[ID_MAX_BYTES + 1];
    int agent;
    uint32_t bit;

    /* the evidence stands behind the name */
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(event->subject, ":"), event->subject);
    agent = world_agent_number(name);

    if (agent < 0)
        return;
    if (event->kind == EVENT(NODE_REMOVED)) {
        world->victims->removals[agent]++;
        world->counts.nodes_removed++;
        return;
    }
    bit = UINT32_C(1) << agent;
    if (event->kind == EVENT(NODE_OFF)) {
        witness_check(world, (unsigned)agent, event->new_state);
        world->victims->off |= bit;
        return;
    }
    world->victims->down &= ~bit;
    if (event->new_state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_READY ||
        event->old_state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN) {
        if ((world->victims->off & bit) != 0)
            world->victims->back_us[agent] = sim_now_us(world->sim);
        world->victims->off &= ~bit;
    }
    if (event->new_state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_DOWN ||
        event->new_state == CKPT__LOG__V1__NODE_STATE__NODE_STATE_AGENT_LOST)
        world->victims->down |= bit;
}

/* As far as the state knew before this entry. */
static bool lives(const struct world *world, const struct world_job *job, unsigned agent)
{
    uint64_t known = world->victims->known[agent];

    return agent < world->options.shipping_agents
               ? world_shipping_lives(agent, job->id, known)
               : world_model_lives(agent, (unsigned)(job - world->jobs), known);
}

/* I30: nodes are given back when all parts have ended, or their node is down now, or after the time
 * that a silent node gets: who was told late, was away, or cannot kill it may then still have it
 * alive. */
static void check_released(struct world *world, const struct fsm *fsm, const struct world_job *job,
                           Ckpt__V1__Reason reason)
{
    const struct victim_facts *facts = &world->victims->jobs[job - world->jobs];
    struct fsm_summary summary;
    bool overdue;

    fsm_get_summary(fsm, &summary);
    overdue = facts->ending && summary.now_ms >= facts->overdue_ms;
    for (unsigned agent = 0; agent < world->options.agents; agent++) {
        if (!state_checks_has_node(world, job->id, agent) ||
            (world->victims->down >> agent & 1) != 0 ||
            (overdue && !world_shipping_overstays(agent, job->id)))
            continue;
        if ((agent < world->options.shipping_agents || !overdue) && lives(world, job, agent))
            world_violation(world, "I30", "%s has ended by order (%s), and lives on %s", job->id,
                            fsm_reason_word(reason, (char[FSM_WORD_BYTES]){0}),
                            world_agent_name(agent));
    }
}

static void check_left(struct world *world, const struct world_job *job, uint32_t left,
                       bool overdue)
{
    for (unsigned agent = 0; agent < world->options.agents; agent++)
        if ((left >> agent & 1) != 0 && (world->victims->down >> agent & 1) == 0 && !overdue &&
            lives(world, job, agent))
            world_violation(world, "I30", "%s has left %s, and lives there", job->id,
                            world_agent_name(agent));
}

/* I30: nodes that leave are given back as those of a job that ends; what is forced to leave at once
 * is ended afterwards. */
static void note_leaving(struct world *world, const struct fsm *fsm, unsigned number)
{
    struct victim_facts *facts = &world->victims->jobs[number];
    const struct fsm_allocation *allocation = world->found[number];
    uint32_t held = 0;
    struct fsm_summary summary;

    fsm_get_summary(fsm, &summary);
    for (uint32_t i = 0;
         allocation != NULL && state_holds_nodes(allocation->state) && i < allocation->node_count;
         i++)
        held |=
            UINT32_C(1) << world_agent_number(fsm_node_name(fsm, allocation->nodes[i].node_slot));
    if (held != 0 && !world->jobs[number].forced && world->jobs[number].finished_us == 0)
        check_left(world, &world->jobs[number], facts->held & ~held,
                   facts->leaving && summary.now_ms >= facts->left_by_ms);
    facts->held = held;
    if (held != 0 && allocation->leaving && !facts->leaving)
        facts->left_by_ms =
            world->victims->before_ms + FSM_TERMINATE_SLACK_MS +
            (allocation->grace_ms > 0 ? allocation->grace_ms : fsm_policy(fsm)->grace_ms);
    facts->leaving = held != 0 && allocation->leaving;
}

/* I30: a node may have the job's last run until its agent, a boot, or a word that the machine is
 * off has said otherwise, heard or silent: nothing of the job begins elsewhere before. A node that
 * the job had given up before is none of that run. */
static void check_restart(struct world *world, const struct fsm *fsm, const struct world_job *job)
{
    const struct fsm_allocation *allocation = fsm_allocation_find(fsm, job->id);
    uint32_t named = 0;

    if (allocation == NULL || fsm_level(fsm) < 2)
        return;
    for (uint32_t i = 0; i < allocation->node_count; i++)
        named |=
            UINT32_C(1) << world_agent_number(fsm_node_name(fsm, allocation->nodes[i].node_slot));
    for (unsigned agent = 0; agent < world->options.agents; agent++)
        if ((~world->victims->off & ~named) >> agent & 1 &&
            state_checks_has_node(world, job->id, agent) && lives(world, job, agent))
            world_violation(world, "I30", "%s begins elsewhere, and lives on %s, which is %s",
                            job->id, world_agent_name(agent),
                            (world->victims->down >> agent & 1) != 0 ? "silent" : "heard");
}

static void end_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    const struct world_job *job = job_find(world, event->allocation_id);
    struct victim_facts *facts;

    if (job != NULL && event->new_state == ALLOCATION(STARTING) &&
        !state_holds_nodes(event->old_state) && event->old_state != 0)
        check_restart(world, fsm, job);
    if (job == NULL || state_holds_nodes(event->new_state))
        return;
    facts = &world->victims->jobs[job - world->jobs];
    if (ended_by_order(job, event))
        check_released(world, fsm, job, event->reason);
    if (facts->without && event->reason == REASON(PREEMPTED_WITHOUT_CHECKPOINT) &&
        event->new_state != ALLOCATION(FAILED))
        world_violation(world, "I35", "%s was forced to end in an outage, and is in state %u",
                        job->id, event->new_state);
    *facts = (struct victim_facts){0};
}

uint64_t victims_known(const struct world *world, unsigned agent)
{
    return world->victims->known[agent];
}

unsigned victims_removals(const struct world *world, unsigned agent)
{
    return world->victims->removals[agent];
}

bool victims_off(const struct world *world, unsigned agent)
{
    return (world->victims->off >> agent & 1) != 0;
}

bool victims_was_off(const struct world *world, unsigned agent)
{
    uint64_t back_us = world->victims->back_us[agent];

    return victims_off(world, agent) ||
           (back_us != 0 && sim_now_us(world->sim) < back_us + LEFTOVER_US);
}

bool victims_targets_moved(const struct world *world)
{
    return world->victims->targets_moved;
}

bool victims_taken_now(const struct world *world, const char *allocation_id)
{
    const struct victim_checks *checks = world->victims;

    for (unsigned i = 0; i < checks->taken_count; i++)
        if (strcmp(world->jobs[checks->taken[i]].id, allocation_id) == 0)
            return true;
    return false;
}

/* Where its youngest checkpoint is bound for, or the next one would be. */
static bool storage_away(const struct world *world, const struct fsm *fsm,
                         const struct fsm_allocation *allocation)
{
    const struct world_job *job = job_find((struct world *)(uintptr_t)world, allocation->id);
    unsigned last = destinations_last(world, (unsigned)(job - world->jobs));

    return !fsm_destination_available(fsm, allocation) ||
           (last != 0 && !fsm_target_at(fsm, last - 1)->available);
}

bool victims_forced(const struct fsm *fsm, const struct fsm_allocation *allocation)
{
    const struct fsm_preemption *preemption =
        allocation->preemption_id == 0 ? NULL
                                       : fsm_preemption_next(fsm, allocation->preemption_id - 1);

    return preemption != NULL && preemption->id == allocation->preemption_id &&
           (preemption->request->forced ||
            preemption->request->reason ==
                CKPT__V1__PREEMPTION_REASON__PREEMPTION_REASON_SENSITIVE);
}

bool victims_forced_away(const struct world *world, const struct fsm *fsm,
                         const struct fsm_allocation *allocation)
{
    return victims_forced(fsm, allocation) && storage_away(world, fsm, allocation);
}

/* ---- every entry ---- */

void victims_event(struct world *world, const struct fsm *fsm, const Ckpt__V1__Event *event)
{
    outage_event(world, event);
    if (event->kind == EVENT(TARGET_DOWN) || event->kind == EVENT(TARGET_UP))
        target_event(world, fsm, event);
    else if (event->kind == EVENT(PREEMPTION))
        victim_event(world, fsm, event);
    else if (event->kind == EVENT(NODE_STATE) || event->kind == EVENT(NODE_DRAINED) ||
             event->kind == EVENT(NODE_REMOVED) || event->kind == EVENT(NODE_OFF))
        node_event(world, event);
    else if (event->kind == EVENT(ALLOCATION_STATE))
        end_event(world, fsm, event);
}

static void note_ending(const struct world *world, const struct fsm *fsm, unsigned number)
{
    struct victim_facts *facts = &world->victims->jobs[number];
    const struct fsm_allocation *allocation = world->found[number];

    if (allocation == NULL || !allocation->terminating)
        return;
    if (facts->ending)
        return;
    facts->ending = true;
    facts->overdue_ms =
        world->victims->before_ms + FSM_TERMINATE_SLACK_MS +
        (allocation->grace_ms > 0 ? allocation->grace_ms : fsm_policy(fsm)->grace_ms);
}

void victims_applied(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct victim_checks *checks = world->victims;
    struct fsm_summary summary;

    for (unsigned i = 0; i < checks->taken_count; i++)
        if (!checks->targets_moved)
            victim_check(world, fsm, checks->taken[i], index);
    if (checks->to_pause > 0)
        world_violation(world, "I24", "%s is unavailable, and %u checkpoints there are not paused",
                        checks->target_id, checks->to_pause);
    checks->taken_count = 0;
    checks->targets_moved = false;
    for (unsigned number = 0; number < world->job_count; number++) {
        note_ending(world, fsm, number);
        checks->strategies[number] = world->found[number] == NULL
                                         ? CKPT__V1__STRATEGY__STRATEGY_UNSPECIFIED
                                         : world->found[number]->strategy;
    }
    for (unsigned number = 0; number < world->job_count; number++)
        note_leaving(world, fsm, number);
    for (unsigned agent = 0; agent < world->options.agents; agent++) {
        const struct fsm_node *node = fsm_node_find(fsm, world_agent_name(agent));
        checks->known[agent] = node == NULL ? 0 : node->last_report_sequence;
    }
    fsm_get_summary(fsm, &summary);
    checks->before_ms = summary.now_ms;
}
