/* What must hold on compute nodes. See agent_checks.h. */
#include "tests/sim/agent_checks.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/job/allocation.h"
#include "src/base/check.h"
#include "tests/sim/agent_checks_internal.h"
#include "tests/sim/agent_walltimes.h"

#define REPORT(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

enum {
    LATE_US = 500000,         /* that a timer of an agent that runs may be late */
    KILL_LATE_US = 2000000,   /* from SIGKILL until nothing of the group lives */
    FORGOTTEN_US = 2000000,   /* that a walltime has ended for, on a clock that is a little wrong */
    WALLTIME_EARLY_MS = 6000, /* that an agent may have been told */
    LOOK_US = 20000,          /* at timers, which many events do not move */
    STRAY_MAX_US =
        8000000 /* from when all members are equal until nothing lives where its job left: an
                    agent may wait 5 s for the welcome of one that leads no more */
};

unsigned checks_agent(const struct agent_machine *machine)
{
    return machine->config.agent_node - WORLD_AGENT_NODE;
}

struct rank *checks_rank(struct agent_checks *checks, unsigned agent, const char *allocation_id)
{
    unsigned bucket = agent;
    struct rank *rank;

    for (const char *at = allocation_id; *at != '\0'; at++)
        bucket = bucket * 31 + (unsigned char)*at;
    bucket %= RANK_BUCKETS;
    for (rank = checks->buckets[bucket]; rank != NULL; rank = rank->next)
        if (rank->agent == agent && strcmp(rank->allocation_id, allocation_id) == 0)
            return rank;
    CHECK(checks->rank_count < RANKS_KEPT_MAX);
    rank = check_calloc(1, sizeof(*rank));
    rank->agent = agent;
    snprintf(rank->allocation_id, sizeof(rank->allocation_id), "%s", allocation_id);
    rank->next = checks->buckets[bucket];
    checks->buckets[bucket] = rank;
    checks->ranks[checks->rank_count++] = rank;
    return rank;
}

/* ---- what happens to applications ---- */

static const struct allocation *allocation_of(const struct agent_machine *machine, const char *id)
{
    return machine->running ? agent_find(&machine->agent, id) : NULL;
}

/* The checkpoint's id. */
static uint64_t read_hint(const char *hint, uint32_t *ret_attempt)
{
    char id[HINT_TEXT_BYTES];
    uint64_t checkpoint_id;
    char *attempt;

    snprintf(id, sizeof(id), "%s", hint);
    attempt = strrchr(id, '-');
    *attempt++ = '\0';
    CHECK(checkpoint_id_parse(id, &checkpoint_id) == 0);
    *ret_attempt = (uint32_t)strtoul(attempt, NULL, 10);
    return checkpoint_id;
}

static void on_done(void *data, struct agent_machine *machine,
                    const struct application_setup *setup, const char *hint, unsigned rank,
                    const char *label)
{
    struct agent_checks *checks = data;
    struct world_rank of = {checks_agent(machine), rank, setup->ranks == 0 ? 1 : setup->ranks};
    uint32_t attempt;
    uint64_t checkpoint_id = read_hint(hint, &attempt);

    world_rank_said(checks->world, &of, checkpoint_id, attempt, label);
}

static void on_deferred(void *data, struct application *application, const char *hint)
{
    struct agent_checks *checks = data;
    uint32_t attempt;
    uint64_t checkpoint_id = read_hint(hint, &attempt);

    checks->world->counts.deferred++;
    world_rank_put_off(checks->world, checkpoint_id, attempt);
    agent_asked_put_off(checks->asked, checks_agent(application_machine(application)), hint);
}

static void on_command(void *data, enum application_command_event event)
{
    const struct agent_checks *checks = data;

    checks->world->counts.commands[event]++;
}

/* The answer is one that an agent which is down, or stands still, has not withdrawn yet. */
static bool on_wants(void *data, const struct agent_machine *machine, const char *allocation_id,
                     const char *hint)
{
    const struct allocation *allocation = allocation_of(machine, allocation_id);

    (void)data;
    if (!machine->running || machine->dying || sim_paused(machine->sim, machine->config.agent_node))
        return true;
    return allocation != NULL && strcmp(allocation->attempt.hint, hint) == 0 &&
           attempt_writes(&allocation->attempt) && !attempt_state_cleans(allocation->attempt.state);
}

static void on_meets(void *data, struct agent_machine *machine,
                     const struct application_setup *setup, const char *hint, unsigned rank,
                     uint64_t step)
{
    struct agent_checks *checks = data;
    struct world_rank of = {checks_agent(machine), rank, setup->ranks};
    uint32_t attempt;
    uint64_t checkpoint_id = read_hint(hint, &attempt);

    world_rank_meets(checks->world, &of, checkpoint_id, attempt, step);
}

/* The request that the application finds is that of the attempt which its agent has in hand. */
static void on_asked(void *data, struct application *application, unsigned number, const char *hint)
{
    struct agent_checks *checks = data;
    struct agent_machine *machine = application_machine(application);
    const char *id = application_allocation(application);
    const struct allocation *allocation = allocation_of(machine, id);
    unsigned agent = checks_agent(machine);
    struct rank *rank;

    checks->counters.asked++;
    switch (agent_asked_take(checks->asked, agent, number, hint)) {
    case QUESTION_NEW:
        break;
    case QUESTION_AFTER_DEFERRAL:
        return;
    case QUESTION_TWICE:
        world_violation(checks->world, "I22", "%s is asked for %s on %s a second time", id, hint,
                        machine->name);
    }
    if ((application_is_called(application) || application_is_told(application, number)) &&
        (allocation == NULL || strcmp(allocation->attempt.hint, hint) != 0 ||
         machine->agent.orders == NULL))
        return; /* withdrawn meanwhile */
    if (allocation == NULL || strcmp(allocation->attempt.hint, hint) != 0)
        world_violation(checks->world, "I22", "%s on %s: the request is of %s, the attempt is %s",
                        id, machine->name, hint,
                        allocation == NULL ? "nobody's" : allocation->attempt.hint);
    if (agent_asked_before(checks->asked, agent, number, hint))
        return; /* another rank was first */
    rank = checks_rank(checks, agent, id);
    /* This run is asked for it again, by another attempt: what completes it from here on is not the report of the run before. */
    if (allocation->attempt.checkpoint_id == rank->passed_id)
        rank->passed_id = 0;
    world_asked(checks->world, agent, id, allocation->attempt.checkpoint_id,
                allocation->attempt.attempt, machine->agent.orders->epoch,
                machine->agent.orders->term);
}

static void on_stepped(void *data, const struct agent_machine *machine,
                       const struct application_setup *setup)
{
    const struct agent_checks *checks = data;

    if (hangs_stepped(checks->world, setup->allocation_id, setup->part_run))
        hangs_begin(checks->world, setup->allocation_id, checks_agent(machine));
}

static bool on_hangs(void *data, const struct agent_machine *machine,
                     const struct application_setup *setup)
{
    const struct agent_checks *checks = data;

    return hangs_now(checks->world, setup->allocation_id, setup->part_run) &&
           hangs_there(checks->world, setup->allocation_id, checks_agent(machine));
}

static const char *on_computes(void *data, const char *allocation_id)
{
    struct agent_checks *checks = data;

    return continues_first(checks->world, allocation_id);
}

static const char *on_wrote(void *data, const char *allocation_id, uint64_t checkpoint_id)
{
    struct agent_checks *checks = data;

    return state_checks_completed(checks->world, checkpoint_id)
               ? retention_home(checks->world, checkpoint_id)
               : allocation_id;
}

static void on_ended(void *data, struct application *application)
{
    struct agent_checks *checks = data;
    struct rank *rank = checks_rank(checks, checks_agent(application_machine(application)),
                                    application_allocation(application));

    CHECK(rank->living == application);
    rank->living = NULL;
    rank->began_sequence = 0;
    checks->counters.runs_ended++;
}

__attribute__((noreturn)) static void on_violation(void *data, const char *invariant,
                                                   const char *text)
{
    struct agent_checks *checks = data;

    world_violation(checks->world, invariant, "%s", text);
}

/* I39: a run that began after its allocation was restarted is not ended by orders from before that. */
static void check_orders_new(struct agent_checks *checks, struct agent_machine *machine,
                             const struct allocation *allocation)
{
    const char *id = allocation->entry.allocation_id;
    const struct rank *rank = checks_rank(checks, checks_agent(machine), id);
    const struct world_job *job = job_find(checks->world, id);
    const Ckpt__V1__OrderSet *orders = machine->agent.orders;
    const struct job_times *times;

    if (allocation->process.cause != STOP_BY_ORDER || orders == NULL || job == NULL ||
        !state_checks_is_run(checks->world, job, checks_agent(machine), allocation->entry.run))
        return;
    times = state_checks_times(checks->world, job);
    if (rank->group_start_ticks >= times->began_us && orders->index < times->began_index)
        world_violation(checks->world, "I39",
                        "%s was begun again at index %" PRIu64
                        ", its new run on %s is ended by orders of index %" PRIu64,
                        id, times->began_index, machine->name, orders->index);
}

/* I33, I39: of this run, by what was asked for; not where the leaders' clocks are set. */
static void check_walltime_over(struct agent_checks *checks, const struct agent_machine *machine,
                                const struct ledger_entry *entry)
{
    const struct world_job *job = job_find(checks->world, entry->allocation_id);
    uint64_t ran_ms;

    if (job == NULL || job->walltime_min_ms == 0)
        world_violation(checks->world, "I39", "%s is ended on %s by a walltime that it never had",
                        entry->allocation_id, machine->name);
    if (checks->world->options.clock_steps > 0 || checks->world->options.drift ||
        !state_checks_is_run(checks->world, job, checks_agent(machine), entry->run))
        return;
    ran_ms = sim_wall_ms(machine->sim, 0) - state_checks_started_ms(checks->world, job);
    if (ran_ms + WALLTIME_EARLY_MS < job->walltime_min_ms)
        world_violation(checks->world, "I33",
                        "%s is ended on %s by its walltime of %" PRIu64 " ms after %" PRIu64 " ms",
                        entry->allocation_id, machine->name, job->walltime_min_ms, ran_ms);
}

/* The last set that its agent took is from a state that knew its run and did not want it. */
static bool unwanted(struct agent_checks *checks, const struct agent_machine *machine,
                     const struct ledger_entry *entry)
{
    const struct world_job *job = job_find(checks->world, entry->allocation_id);
    const struct seen_agent *seen = &checks->agents[checks_agent(machine)];

    return job != NULL && entry->run <= seen->set_runs &&
           ends_unwanted(checks->world, (unsigned)(job - checks->world->jobs),
                         checks_agent(machine), seen->set_index, entry->run);
}

/* F-005, I39: a leader has told it to, or the walltime has; whoever is alone ends nobody. */
static void check_ordered(struct agent_checks *checks, struct agent_machine *machine,
                          const struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    struct rank *rank = checks_rank(checks, checks_agent(machine), entry->allocation_id);
    bool walltime = entry->end_reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED;

    if (walltime) {
        check_walltime_over(checks, machine, entry);
        return;
    }
    if (entry->run > rank->ordered_run && unwanted(checks, machine, entry))
        rank->ordered_run = entry->run; /* its end goes on, whatever sets come */
    if (entry->run > rank->ordered_run)
        world_violation(checks->world, "I39",
                        "%s, run %" PRIx64 ", is ended on %s for reason %d, and no order said so",
                        entry->allocation_id, entry->run, machine->name, (int)entry->end_reason);
}

static void check_terminated(struct agent_checks *checks, struct agent_machine *machine,
                             pid_t group)
{
    struct agent *agent = &machine->agent;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if ((pid_t)allocation->entry.pid != group || allocation->process.cause == STOP_BY_TAKEOVER)
            continue;
        checks->counters.terminated++;
        check_orders_new(checks, machine, allocation);
        check_ordered(checks, machine, allocation);
        world_terminated(checks->world, checks_agent(machine), allocation->entry.allocation_id);
    }
}

/* Decision 11: the default action of the signal that asks is to kill. */
static void check_caught(struct agent_checks *checks, const struct agent_machine *machine,
                         pid_t group, int signal)
{
    uint64_t bit = UINT64_C(1) << (signal - 1);

    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++) {
        const struct machine_process *process = machine->processes[i];
        if (process != NULL && process->living && process->group == group &&
            ((process->caught | process->ignored) & bit) == 0)
            world_violation(checks->world, "S1-031", "pid %d on %s would die from being asked",
                            (int)process->pid, machine->name);
    }
}

/* It has saved all, and stands still; what began to do so again when its agent began anew may not
 * have come to it yet. */
static bool stands_still(const struct agent_machine *machine, const struct rank *rank)
{
    const struct machine_process *main_process = agent_machine_find(machine, rank->group);
    const struct allocation *allocation = allocation_of(machine, rank->allocation_id);

    return (main_process != NULL && main_process->stopped) ||
           (allocation != NULL && allocation->entry.still == STANDING_STILL &&
            allocation->attempt.state != ATTEMPT_FREEZING);
}

/* I35: who lives is told to end before it is killed. */
static void check_told(struct agent_checks *checks, const struct agent_machine *machine,
                       pid_t group, int signal)
{
    for (size_t i = 0; i < checks->rank_count; i++) {
        struct rank *rank = checks->ranks[i];
        if (rank->agent != checks_agent(machine) || rank->group != group || rank->living == NULL)
            continue;
        rank->told |= signal == SIGTERM;
        if (!rank->told && !stands_still(machine, rank))
            world_violation(checks->world, "I35", "%s is killed on %s without SIGTERM before",
                            rank->allocation_id, machine->name);
    }
}

void agent_checks_signal(struct agent_checks *checks, struct agent_machine *machine, pid_t group,
                         int signal)
{
    if (signal == SIGTERM || signal == SIGKILL)
        check_told(checks, machine, group, signal);
    if (signal == SIGTERM)
        check_terminated(checks, machine, group);
    else if (signal == SIGUSR1 || signal == SIGUSR2)
        check_caught(checks, machine, group, signal);
}

void agent_checks_signal_one(struct agent_checks *checks, struct agent_machine *machine,
                             const struct machine_process *process, int signal)
{
    if (((process->caught | process->ignored) >> (signal - 1) & 1) == 0)
        world_violation(checks->world, "S1-031", "pid %d (%s) on %s would die from being asked",
                        (int)process->pid, process->program.name, machine->name);
}

/* ---- after every event ---- */

static bool below(struct fence a, struct fence b)
{
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.term < b.term;
}

/* I39: which runs a leader has told it to end, and may. */
static void check_orders(struct agent_checks *checks, unsigned agent,
                         const Ckpt__V1__OrderSet *orders)
{
    world_ordered(checks->world, agent, orders);
    for (size_t i = 0; i < orders->n_orders; i++) {
        const Ckpt__V1__Order *order = orders->orders[i];
        struct rank *rank;

        rank = checks_rank(checks, agent, order->allocation_id);
        if (order->kind == CKPT__V1__ORDER_KIND__ORDER_KIND_CHECKPOINT)
            attempt_times_ordered(&rank->times, order);
        if (order->kind != CKPT__V1__ORDER_KIND__ORDER_KIND_TERMINATE)
            continue;
        if (order->run > rank->ordered_run)
            rank->ordered_run = order->run;
    }
}

/* I25: the fence only rises, also through crashes; orders that are taken are at or below it and do not go back. */
static void check_fence(struct agent_checks *checks, const struct agent_machine *machine)
{
    struct seen_agent *seen = &checks->agents[checks_agent(machine)];
    const struct fence fence = ledger_fence(machine->agent.ledger);
    const Ckpt__V1__OrderSet *orders = machine->agent.orders;
    struct fence taken;

    if (below(fence, seen->fence))
        world_violation(checks->world, "I25", "the fence of %s fell to %" PRIu64 ".%" PRIu64,
                        machine->name, fence.epoch, fence.term);
    seen->fence = fence;
    if (seen->starts != machine->agent_starts) {
        seen->orders = (struct fence){0, 0};
        seen->order_sets = 0;
    }
    seen->starts = machine->agent_starts;
    if (orders == NULL)
        return;
    taken = (struct fence){orders->epoch, orders->term};
    if (below(taken, seen->orders) || below(fence, taken))
        world_violation(checks->world, "I25",
                        "%s took orders of %" PRIu64 ".%" PRIu64 " with fence %" PRIu64 ".%" PRIu64,
                        machine->name, taken.epoch, taken.term, fence.epoch, fence.term);
    seen->orders = taken;
    if (machine->agent.counters.order_sets != seen->order_sets)
        check_orders(checks, checks_agent(machine), orders);
    seen->set_index = orders->index;
    seen->set_runs = orders->runs_until;
    seen->order_sets = machine->agent.counters.order_sets;
}

/* Something that an application started lives. */
static bool straggler_lives(const struct agent_machine *machine, uint64_t start_ticks)
{
    for (size_t i = 0; i < MACHINE_PROCESSES_MAX; i++)
        if (machine->processes[i] != NULL && machine->processes[i]->living &&
            (machine->processes[i]->origin_ticks == start_ticks ||
             machine->processes[i]->cgroup_ticks == start_ticks))
            return true;
    return false;
}

/* I30: nothing of its process group, nor of what has left that, is left on nodes that are given back. */
static void check_group_gone(struct agent_checks *checks, const struct agent_machine *machine,
                             const struct rank *rank)
{
    if (rank->group != 0 &&
        (machine_group_alive(&machine->ops, rank->group, rank->group_start_ticks, MACHINE_USER) ||
         straggler_lives(machine, rank->group_start_ticks)))
        world_violation(checks->world, "I30", "group %d of %s is left on %s", (int)rank->group,
                        rank->allocation_id, machine->name);
}

/* I30: who is reported as ended has ended. */
static void check_report(struct agent_checks *checks, const struct agent_machine *machine,
                         const struct ledger_report *kept)
{
    Ckpt__V1__AgentReport *report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    struct rank *rank;
    bool stopped, exited;

    CHECK(report != NULL);
    rank = checks_rank(checks, checks_agent(machine), report->allocation_id);
    stopped = report->kind == REPORT(TERMINATED) || report->kind == REPORT(WALLTIME_KILLED);
    exited = report->kind == REPORT(APPLICATION_EXITED);
    if (stopped)
        check_group_gone(checks, machine, rank);
    if (report->kind == REPORT(SHARD_VERIFIED))
        rank->verified_id = report->checkpoint_id;
    if (report->kind == REPORT(APPLICATION_STARTED))
        rank->began_sequence = kept->sequence;
    if (exited && report->exit_status == 0 && job_find(checks->world, report->allocation_id))
        job_find(checks->world, report->allocation_id)->finished_us = sim_now_us(machine->sim);
    if ((stopped || exited) && rank->living != NULL)
        world_violation(checks->world, "I30", "%s is reported as ended on %s and lives (%d)",
                        report->allocation_id, machine->name, (int)report->kind);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

/* What an agent has stored it tells, until the state has it: no crash and no error of its disk loses it. After a removal of its node the
 * state counts from the first report again, and the agent numbers what it kept anew when it is told so. */
static void check_reports(struct agent_checks *checks, const struct agent_machine *machine)
{
    struct seen_agent *seen = &checks->agents[checks_agent(machine)];
    uint64_t last = ledger_last_sequence(machine->agent.ledger);
    uint64_t known = victims_known(checks->world, checks_agent(machine));
    unsigned removals = victims_removals(checks->world, checks_agent(machine));
    const struct ledger_report *report = ledger_report_after(machine->agent.ledger, known);
    bool alike = last <= known || (report != NULL && report->sequence == known + 1 &&
                                   ledger_pending_count(machine->agent.ledger) >= last - known);

    if (seen->removals != removals && last < seen->sequence)
        seen->sequence = last;
    if (alike)
        seen->removals = removals;
    if (last < seen->sequence)
        world_violation(checks->world, "REPORTS",
                        "%s has stored report %" PRIu64 ", and knows of %" PRIu64, machine->name,
                        seen->sequence, last);
    if (!alike && seen->removals == removals)
        world_violation(checks->world, "REPORTS",
                        "%s has reports up to %" PRIu64 ", the state knows those up to %" PRIu64
                        ", and the next one is %" PRIu64,
                        machine->name, last, known, report == NULL ? 0 : report->sequence);
    while ((report = ledger_report_after(machine->agent.ledger, seen->sequence)) != NULL) {
        seen->sequence = report->sequence;
        check_report(checks, machine, report);
    }
    seen->sequence = last;
}

/* I33: while one process lives its end moves only earlier, but by as much as the walltime that was registered anew is longer; and it
 * comes. */
static void check_walltime(struct agent_checks *checks, const struct agent_machine *machine,
                           const struct allocation *allocation, struct rank *rank)
{
    const struct ledger_entry *entry = &allocation->entry;
    bool same =
        entry->pid != 0 && rank->start_ticks == entry->start_ticks && rank->deadline_us != 0 &&
        (rank->walltime_ms == entry->walltime_ms ||
         (rank->walltime_ms != 0 && entry->walltime_ms != 0 && rank->deadline_run == entry->run));
    uint64_t most_us = rank->deadline_us + 1000 * entry->walltime_ms;
    uint64_t now_us = agent_now_us(&machine->agent), end_us = entry->deadline_us;

    if (end_us == 0 || end_us > now_us || rank->start_ticks != entry->start_ticks)
        rank->over_us = 0;
    if (end_us != 0 && end_us <= now_us && (rank->over_us == 0 || rank->over_us > now_us))
        rank->over_us = end_us == rank->deadline_us ? end_us : now_us;
    /* 1: it was over before the machine began */
    if (same && entry->deadline_us > 1 && entry->deadline_us + 1000 * rank->walltime_ms > most_us)
        world_violation(checks->world, "I33",
                        "the walltime of %s on %s was extended by %" PRIu64 " us",
                        entry->allocation_id, machine->name,
                        entry->deadline_us + 1000 * rank->walltime_ms - most_us);
    if (entry->deadline_us != rank->deadline_us || entry->start_ticks != rank->start_ticks ||
        rank->deadline_sets != machine->agent.counters.order_sets)
        walltimes_kept(checks->world, machine, allocation);
    rank->start_ticks = entry->start_ticks;
    rank->deadline_us = entry->deadline_us;
    rank->walltime_ms = entry->walltime_ms;
    rank->deadline_sets = machine->agent.counters.order_sets;
    rank->deadline_run = entry->run;
    if (entry->deadline_us == 0 || entry->run == 0)
        return;
    rank->end_run = entry->run;
    rank->end_us = sim_now_us(machine->sim) + end_us - now_us;
    rank->end_boots = machine->boots;
}

/* I33: a grace ends when it was to, or earlier, also for an agent that restarts meanwhile. */
static void check_grace(struct agent_checks *checks, const struct agent_machine *machine,
                        const struct allocation *allocation, struct rank *rank)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (!entry->ended || !process_state_stops(allocation->process.state)) {
        rank->kill_by_us = 0;
        return;
    }
    if (rank->kill_by_us != 0 && rank->stop_ticks == entry->start_ticks &&
        entry->kill_at_us > rank->kill_at_us)
        world_violation(checks->world, "I33", "the grace of %s on %s got longer by %" PRIu64 " us",
                        entry->allocation_id, machine->name, entry->kill_at_us - rank->kill_at_us);
    rank->stop_ticks = entry->start_ticks;
    rank->kill_at_us = entry->kill_at_us;
    rank->kill_seen_us = sim_now_us(machine->sim);
    rank->kill_by_us = sim_now_us(machine->sim) + entry->kill_at_us - agent_now_us(&machine->agent);
}

/* What runs after a reboot was named by a leader since, whose first orders bring the end again: until then nobody here can know it. */
static bool end_forgotten(const struct agent_machine *machine, const struct ledger_entry *entry,
                          const struct rank *rank)
{
    bool same = entry->run == rank->end_run && machine->boots == rank->end_boots;

    return rank->living != NULL && entry->deadline_us == 0 && rank->end_us != 0 && same &&
           sim_now_us(machine->sim) > rank->end_us + FORGOTTEN_US;
}

static void check_late(struct agent_checks *checks, const struct agent_machine *machine,
                       const struct allocation *allocation, const struct rank *rank)
{
    const struct ledger_entry *entry = &allocation->entry;
    const struct process *process = &allocation->process;
    uint64_t now_us = agent_now_us(&machine->agent);

    walltimes_named(checks->world, machine, allocation);
    if (process_state_unstopped(process->state) && rank->over_us != 0 &&
        now_us > rank->over_us + LATE_US && now_us > process->started_us + LATE_US)
        world_violation(checks->world, "I33", "%s runs on %s past its walltime",
                        entry->allocation_id, machine->name);
    if (process_state_unstopped(process->state) && now_us > process->started_us + FORGOTTEN_US &&
        end_forgotten(machine, entry, rank))
        world_violation(checks->world, "I33",
                        "%s runs on %s, and the end of its walltime is forgotten",
                        entry->allocation_id, machine->name);
    if (process->state == PROCESS_TERMINATING && now_us > entry->kill_at_us + LATE_US)
        world_violation(checks->world, "I33", "%s has had its grace on %s and is not killed",
                        entry->allocation_id, machine->name);
    if (process->state == PROCESS_KILLING && rank->living != NULL &&
        !application_process(rank->living)->frozen && now_us > process->killed_us + KILL_LATE_US)
        world_violation(checks->world, "I33", "%s lives on %s after SIGKILL", entry->allocation_id,
                        machine->name);
}

/* What was reported before ckpt-run asked counts when it asks: of a job of one node the report makes the checkpoint complete. */
static void check_passed(struct agent_checks *checks, const struct agent_machine *machine,
                         struct rank *rank)
{
    const struct world_job *job;
    char text[CHECKPOINT_ID_TEXT_BYTES];

    if (rank->passed_id == 0 || !state_checks_completed(checks->world, rank->passed_id) ||
        agent_store_spoiled_of(checks->store, rank->allocation_id))
        return;
    job = job_find(checks->world, rank->allocation_id);
    if (job != NULL && !job->scaled && (job->node_mask & (job->node_mask - 1)) == 0)
        world_violation(checks->world, "I28",
                        "%s began on %s from an older checkpoint while the report that completed "
                        "%s was on its way",
                        rank->allocation_id, machine->name,
                        checkpoint_id_format(rank->passed_id, text));
    rank->passed_id = 0;
}

void agent_checks_machine(struct agent_checks *checks, struct agent_machine *machine)
{
    struct agent *agent = &machine->agent;
    struct seen_agent *seen = &checks->agents[checks_agent(machine)];
    uint64_t now_us = sim_now_us(machine->sim), awake_us = 0;

    if (seen->down || !machine->running || machine->dying)
        awake_us = now_us;
    else if (sim_paused(machine->sim,
                        machine->config.agent_node)) /* what is due waits for this end */
        awake_us = now_us + sim_pause_left_us(machine->sim, machine->config.agent_node);
    if (awake_us > seen->awake_us)
        seen->awake_us = awake_us;
    seen->down = !machine->running || machine->dying;
    if (!machine->running || machine->dying)
        return;
    check_fence(checks, machine);
    check_reports(checks, machine);
    if (now_us - seen->looked_us < LOOK_US)
        return;
    seen->looked_us = now_us;
    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        struct rank *rank =
            checks_rank(checks, checks_agent(machine), allocation->entry.allocation_id);
        check_walltime(checks, machine, allocation, rank);
        check_grace(checks, machine, allocation, rank);
        if (now_us > seen->awake_us + 2 * LATE_US)
            check_late(checks, machine, allocation, rank);
        attempt_times_check(checks->world, machine->name, &allocation->attempt, &rank->times);
        check_passed(checks, machine, rank);
    }
}

/* The leader hears what runs where it should not, and has it ended within its grace: no walltime has to come to its aid. */
const char *agent_checks_unsettled(struct agent_checks *checks)
{
    checks->unsettled[0] = '\0';
    for (size_t i = 0; i < checks->rank_count; i++) {
        struct rank *rank = checks->ranks[i];
        uint64_t now_us;
        if (rank->living != NULL && application_process(rank->living)->stopped)
            snprintf(checks->unsettled, sizeof(checks->unsettled), "%s stands still on %s",
                     rank->allocation_id, application_machine(rank->living)->name);
        if (rank->living == NULL || checks_of_job(checks, rank->living)) {
            rank->stray_us = 0;
            continue;
        }
        now_us = sim_now_us(application_machine(rank->living)->sim);
        if (rank->stray_us == 0 || checks->agents[rank->agent].awake_us > now_us)
            rank->stray_us = now_us; /* who stands still is told later */
        snprintf(checks->unsettled, sizeof(checks->unsettled), "%s lives on %s, which it left",
                 rank->allocation_id, application_machine(rank->living)->name);
        if (now_us - rank->stray_us > STRAY_MAX_US)
            world_violation(checks->world, "I27", "%s", checks->unsettled);
    }
    return checks->unsettled;
}

bool agent_checks_lives(struct agent_checks *checks, unsigned agent, const char *allocation_id,
                        uint64_t known)
{
    const struct rank *rank = checks_rank(checks, agent, allocation_id);

    return rank->living != NULL && rank->began_sequence != 0 && rank->began_sequence <= known;
}

/* SIGTERM has come, or is on its way: to a job of many processes for as long as these are looked
 * for. */
static bool is_ended(const struct rank *rank)
{
    return rank->told || agent_machine_ends(application_machine(rank->living),
                                            application_process(rank->living)->group);
}

bool agent_checks_moves(struct agent_checks *checks, unsigned agent, const char *allocation_id)
{
    const struct rank *rank = checks_rank(checks, agent, allocation_id);

    return rank->living != NULL && checks_of_job(checks, rank->living) &&
           application_moves(rank->living) && !is_ended(rank);
}

bool agent_checks_overstays(struct agent_checks *checks, unsigned agent, const char *allocation_id)
{
    const struct rank *rank = checks_rank(checks, agent, allocation_id);
    const struct seen_agent *seen = &checks->agents[agent];
    uint64_t now_us = sim_now_us(checks->world->sim);

    return rank->living != NULL && rank->kill_by_us != 0 && now_us < rank->kill_seen_us + LATE_US &&
           !application_process(rank->living)->frozen && !seen->down &&
           now_us > rank->kill_by_us + KILL_LATE_US && now_us > seen->awake_us + KILL_LATE_US;
}

/* ---- life ---- */

struct agent_checks *agent_checks_new(struct world *world, struct agent_store *store)
{
    struct agent_checks *checks = check_calloc(1, sizeof(*checks));

    checks->world = world;
    checks->store = store;
    checks->asked = agent_asked_new();
    checks->applications = (struct application_checks){.data = checks,
                                                       .attaches = checks_attaches,
                                                       .started = checks_started,
                                                       .asked = on_asked,
                                                       .done = on_done,
                                                       .deferred = on_deferred,
                                                       .command = on_command,
                                                       .wants = on_wants,
                                                       .meets = on_meets,
                                                       .stepped = on_stepped,
                                                       .hangs = on_hangs,
                                                       .ended = on_ended,
                                                       .computes = on_computes,
                                                       .wrote = on_wrote,
                                                       .violation = on_violation};
    return checks;
}

void agent_checks_free(struct agent_checks *checks)
{
    for (size_t i = 0; i < checks->rank_count; i++)
        free(checks->ranks[i]);
    agent_asked_free(checks->asked);
    free(checks);
}

const struct application_checks *agent_checks_of_applications(struct agent_checks *checks)
{
    return &checks->applications;
}

const struct agent_checks_counters *agent_checks_counters(const struct agent_checks *checks)
{
    return &checks->counters;
}
