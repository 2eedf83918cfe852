/* The ends of walltimes that leaders tell and agents keep: I33, too early and too late.
 *
 * Flow     each entry that is applied first: the state's time then. An order set names the index
 *          that it was derived from: of each part on its node that has a walltime it must tell what
 *          is left, as of a moment between that entry and now. What an agent keeps for what it runs
 *          is what it was told.
 * Shapes   one time per index. The state's time is what counts: it falls behind the world's when
 *          leaders follow each other whose messages are slow (src/broker/replica/state_clock.h).
 * Absent   ends that come too early of a leader whose wall clock was set: the state's time may then
 *          be another than the world's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/base/check.h"
#include "tests/sim/agent_machine.h"
#include "tests/sim/agent_walltimes.h"
#include "tests/sim/world_internal.h"

enum {
    SLACK_MS = 100,          /* agents do not note ends that differ by half of it */
    TOLD_LATE_US = 10000000, /* what a restart point may take, beside the agent's own standstills */
    DRIFTED = 50,            /* two clocks, one in 100 wrong each */
    NAMED_LATE_US = 500000   /* that a timer of an agent that runs may be late */
};

struct walltime_checks {
    struct applied {
        uint64_t now_ms;   /* of the state; 0: not seen */
        uint64_t first_us; /* of the world */
    } * applied;           /* by index */
    size_t count;
    uint64_t last_index;
};

void walltimes_init(struct world *world)
{
    world->walltimes = check_calloc(1, sizeof(*world->walltimes));
}

void walltimes_close(struct world *world)
{
    free(world->walltimes->applied);
    free(world->walltimes);
}

void walltimes_applied(struct world *world, const struct fsm *fsm, uint64_t index)
{
    struct walltime_checks *checks = world->walltimes;
    struct fsm_summary summary;

    if (index >= checks->count) {
        size_t count = 2 * index + 256;
        checks->applied = check_realloc(checks->applied, count, sizeof(*checks->applied));
        memset(checks->applied + checks->count, 0,
               (count - checks->count) * sizeof(*checks->applied));
        checks->count = count;
    }
    fsm_get_summary(fsm, &summary);
    checks->applied[index] = (struct applied){summary.now_ms, sim_now_us(world->sim)};
    checks->last_index = index;
}

uint64_t walltimes_last_index(const struct world *world)
{
    return world->walltimes->last_index;
}

/* What the state's time was at least, so long ago. */
static uint64_t state_ms_before(const struct world *world, uint64_t us)
{
    const struct walltime_checks *checks = world->walltimes;
    uint64_t index = checks->last_index;

    while (index > 0 && checks->applied[index].first_us + us > sim_now_us(world->sim))
        index--;
    return checks->count == 0 ? 0 : checks->applied[index].now_ms;
}

static uint64_t drifted_ms(const struct world *world)
{
    return world->options.drift ? sim_now_us(world->sim) / 1000 / DRIFTED : 0;
}

/* What the state's time is, but for drift, when no member's clock was set. */
static uint64_t wall_ms(const struct world *world)
{
    return sim_wall_ms(world->sim, WORLD_SCHEDULER_NODE);
}

/* ---- what leaders tell ---- */

static const Ckpt__V1__AllocationPart *part_of(const Ckpt__V1__OrderSet *orders,
                                               const char *allocation_id)
{
    for (size_t i = 0; i < orders->n_parts; i++)
        if (strcmp(orders->parts[i]->allocation_id, allocation_id) == 0)
            return orders->parts[i];
    return NULL;
}

/* As of the state of the index. */
static void check_part(struct world *world, unsigned agent, const struct world_job *job,
                       const Ckpt__V1__AllocationPart *part, uint64_t index)
{
    const struct walltime_checks *checks = world->walltimes;
    struct part_wanted wanted = {0};
    uint64_t end_ms, state_ms, told_ms;

    (void)ends_part(world, (unsigned)(job - world->jobs), agent, index, &wanted);
    if (wanted.run != part->run || wanted.walltime_ms != part->walltime_ms)
        world_violation(world, wanted.run != part->run ? "I39" : "I33",
                        "%s is told that %s, run %" PRIx64 ", may run for %" PRIu64
                        " ms, and the state of index %" PRIu64 " does not say so",
                        world_agent_name(agent), job->id, part->run, part->walltime_ms, index);
    if (part->walltime_ms == 0)
        return;
    end_ms = wanted.began_ms + wanted.walltime_ms;
    state_ms = end_ms - part->remaining_ms; /* when it was told, unless it was over */
    told_ms = index < checks->count ? checks->applied[index].now_ms : 0;
    if (part->remaining_ms > 0 && state_ms < told_ms)
        world_violation(world, "I33",
                        "%s is told that %s, run %" PRIx64 ", has %" PRIu64
                        " ms left, at least %" PRIu64 " too many",
                        world_agent_name(agent), job->id, part->run, part->remaining_ms,
                        told_ms - state_ms);
    if (world->counts.clock_steps == 0 && state_ms > wall_ms(world) + drifted_ms(world) + SLACK_MS)
        world_violation(world, "I33",
                        "%s is told that %s, run %" PRIx64 ", has %" PRIu64
                        " ms left, at least %" PRIu64 " too few",
                        world_agent_name(agent), job->id, part->run, part->remaining_ms,
                        state_ms - wall_ms(world));
}

/* Each part that may run is named, and none else; one that is told to end is not any more when it
 * has. */
void walltimes_ordered(struct world *world, unsigned agent, const Ckpt__V1__OrderSet *orders)
{
    struct part_wanted wanted;

    for (unsigned job = 0; job < world->job_count; job++) {
        const Ckpt__V1__AllocationPart *part = part_of(orders, world->jobs[job].id);

        if (part != NULL)
            check_part(world, agent, &world->jobs[job], part, orders->index);
        else if (ends_part(world, job, agent, orders->index, &wanted) && !wanted.ends)
            world_violation(world, "I39", "%s is not told that %s, run %" PRIx64 ", may run there",
                            world_agent_name(agent), world->jobs[job].id, wanted.run);
    }
}

/* ---- what agents keep ---- */

/* From an order set, to the millisecond: whatever clocks show. */
static void check_taken(struct world *world, const struct agent_machine *machine,
                        const struct ledger_entry *entry)
{
    const struct agent *agent = &machine->agent;
    const Ckpt__V1__AllocationPart *part =
        agent->orders == NULL ? NULL : part_of(agent->orders, entry->allocation_id);

    if (part == NULL || part->walltime_ms == 0 || part->run != entry->run ||
        part->walltime_ms != entry->walltime_ms)
        return;
    if (entry->deadline_us == 0 ||
        entry->deadline_us > agent->orders_taken_us + 1000 * (part->remaining_ms + SLACK_MS / 2))
        world_violation(world, "I33",
                        "%s was told that %s has %" PRIu64 " ms left, and keeps %" PRIu64
                        " us from then",
                        machine->name, entry->allocation_id, part->remaining_ms,
                        entry->deadline_us - agent->orders_taken_us);
}

void walltimes_kept(struct world *world, const struct agent_machine *machine,
                    const struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    const struct world_job *job = job_find(world, entry->allocation_id);
    unsigned agent = machine->config.agent_node - WORLD_AGENT_NODE;
    uint64_t now_us = agent_now_us(&machine->agent), end_ms, left_ms, told_ms;

    if (allocation->process.state == PROCESS_ABSENT || entry->run == 0 || job == NULL)
        return;
    check_taken(world, machine, entry);
    if (entry->deadline_us == 0)
        return;
    if (!ends_has_had(world, (unsigned)(job - world->jobs), agent, entry->run, entry->walltime_ms,
                      &end_ms))
        world_violation(world, "I33",
                        "%s keeps a walltime of %" PRIu64 " ms for %s, run %" PRIx64
                        ", which it never had",
                        machine->name, entry->walltime_ms, job->id, entry->run);
    left_ms = entry->deadline_us > now_us ? (entry->deadline_us - now_us) / 1000 : 0;
    if (world->counts.clock_steps == 0 &&
        wall_ms(world) + left_ms + drifted_ms(world) + SLACK_MS < end_ms)
        world_violation(world, "I33", "%s is to end on %s %" PRIu64 " ms before its walltime",
                        job->id, machine->name, end_ms - wall_ms(world) - left_ms);
    /* Where a clock was set forward, a job has ended before its agent, which may be away, has heard
     * so; its record may be gone by then. */
    if (world->counts.clock_steps > 0 && ends_wanted(world, (unsigned)(job - world->jobs), agent) &&
        (machine->agent.orders == NULL ||
         part_of(machine->agent.orders, entry->allocation_id) == NULL))
        return;
    told_ms = state_ms_before(world, TOLD_LATE_US +
                                         sim_paused_us(machine->sim, machine->config.agent_node));
    if (left_ms > SLACK_MS && told_ms + left_ms > end_ms + drifted_ms(world) + SLACK_MS)
        world_violation(world, "I33", "%s is to end on %s %" PRIu64 " ms after its walltime",
                        job->id, machine->name, told_ms + left_ms - end_ms);
}

void walltimes_named(struct world *world, const struct agent_machine *machine,
                     const struct allocation *allocation)
{
    const struct agent *agent = &machine->agent;
    const Ckpt__V1__OrderSet *orders = agent->orders;
    const struct ledger_entry *entry = &allocation->entry;
    const struct world_job *job = job_find(world, entry->allocation_id);
    uint64_t judged_us = allocation->process.started_us; /* or with the set, whichever came later */

    if (!process_state_unstopped(allocation->process.state) || orders == NULL || job == NULL)
        return;
    if (judged_us < agent->orders_taken_us)
        judged_us = agent->orders_taken_us;
    if (agent_now_us(agent) > judged_us + NAMED_LATE_US && entry->run <= orders->runs_until &&
        part_of(orders, entry->allocation_id) == NULL &&
        ends_unwanted(world, (unsigned)(job - world->jobs),
                      machine->config.agent_node - WORLD_AGENT_NODE, orders->index, entry->run))
        world_violation(world, "I30",
                        "%s, run %" PRIx64 ", runs on on %s, whose orders do not name it", job->id,
                        entry->run, machine->name);
}
