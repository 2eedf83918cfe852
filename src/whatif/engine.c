/* Time, and what it does to jobs. See engine.h.
 *
 * Flow     engine_run() goes from cycle to cycle; sim_advance() does what lies between two of them,
 *          one thing at a time, always the earliest: the end of a write (storage.h), a timer of a
 *          job, an event of the world.
 * Shapes   timers are an array by job that is walked as a whole when one of them changed: every
 *          cycle's decision walks all jobs anyway.
 */
#include "src/whatif/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

double engine_write_s(const struct sim *sim, size_t job)
{
    const struct world_job *of = &sim->world->jobs[job];
    double rate = fmin(of->injection_bytes_per_s, sim->storage.capacity_bytes_per_s);

    return of->size_bytes / rate;
}

uint32_t engine_group(const struct sim *sim, size_t job)
{
    return sim->busy[sim->world->jobs[job].queue] ? EVAL_GROUPS / 2 : 0;
}

double engine_read_s(const struct sim *sim, size_t job)
{
    return sim->world->jobs[job].size_bytes / sim->world->jobs[job].injection_bytes_per_s;
}

/* ---- counting ---- */

/* Seconds of progress in a second of time. */
static double job_speed(const struct sim *sim, const struct sim_job *job)
{
    if (job->phase == SIM_COMPUTING)
        return 1;
    return job->phase == SIM_WRITING ? 1 - sim->world->scenario.stall_fraction : 0;
}

double engine_age_s(const struct sim *sim, size_t job)
{
    const struct sim_job *of = &sim->jobs[job];

    return of->progress_s - of->saved_s + job_speed(sim, of) * (sim->now_s - of->at_s);
}

void engine_settle(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];
    double seconds = sim->now_s - of->at_s, gpus = sim->world->jobs[job].gpus;
    double rate = job_speed(sim, of);

    CHECK(seconds >= 0);
    /* what the mean hazard takes on the average: the same for all seeds, so that rules can be
     * compared without the luck of single failures */
    if (of->phase != SIM_AWAY && of->phase != SIM_DOWN)
        sim->account->expected_failure_gpu_s += gpus * sim->world->jobs[job].nodes *
                                                sim->world->node_failures_per_s * seconds *
                                                (of->progress_s - of->saved_s + rate * seconds / 2);
    of->progress_s += rate * seconds;
    if (of->phase != SIM_AWAY)
        sim->account->held_gpu_s += gpus * seconds;
    if (of->phase == SIM_WRITING || of->phase == SIM_QUIESCED)
        sim->account->pause_gpu_s += gpus * seconds * (1 - rate);
    if (of->phase == SIM_DOWN)
        sim->account->restart_gpu_s += gpus * seconds;
    of->at_s = sim->now_s;
}

/* Back to the last complete checkpoint; a write that was under way is nothing. The phase is the
 * caller's to change next. */
static void job_lose_progress(struct sim *sim, size_t job, double *cause_gpu_s)
{
    struct sim_job *of = &sim->jobs[job];

    engine_settle(sim, job);
    *cause_gpu_s += sim->world->jobs[job].gpus * (of->progress_s - of->saved_s);
    of->progress_s = of->saved_s;
    if (of->phase == SIM_WRITING) {
        storage_end(&sim->storage, (uint32_t)job);
        sim->account->abandoned++;
    }
    of->due_since_s = -1;
    of->moves = false;
}

/* fmin is a call into libm, which the walks over all jobs would notice. */
static inline double earlier_of(double a_s, double b_s)
{
    return a_s < b_s ? a_s : b_s;
}

/* What comes first of its own: the end of its phase, of its walltime, of its stay. While it is AWAY
 * no walltime runs. */
static void set_timer(struct sim *sim, size_t job)
{
    const struct sim_job *of = &sim->jobs[job];
    double until_s =
        of->phase == SIM_AWAY ? of->until_s : earlier_of(of->until_s, of->walltime_end_s);

    sim->timers_s[job] = of->left ? INFINITY : earlier_of(until_s, sim->world->jobs[job].to_s);
    sim->timer_stale = true;
}

static void job_enter(struct sim *sim, size_t job, enum sim_phase phase, double until_s)
{
    struct sim_job *of = &sim->jobs[job];

    engine_settle(sim, job);
    of->phase = phase;
    of->until_s = until_s;
    set_timer(sim, job);
}

/* It reads its checkpoint back, and computes after that. */
static void job_restart(struct sim *sim, size_t job, double down_s)
{
    double restart_s = sim->world->scenario.restart_s + engine_read_s(sim, job);

    job_enter(sim, job, SIM_DOWN, sim->now_s + down_s + restart_s);
}

/* ---- writing ---- */

void engine_begin_write(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];
    const struct world_job *what = &sim->world->jobs[job];

    CHECK(of->phase == SIM_COMPUTING);
    job_enter(sim, job, SIM_WRITING, INFINITY);
    of->snapshot_s = of->progress_s;
    of->write_began_s = sim->now_s;
    of->due_since_s = -1;
    storage_begin(&sim->storage, (uint32_t)job, what->size_bytes, what->injection_bytes_per_s);
}

/* Its nodes go to the claimant; what waiting cost that one is counted. Alarms were about those
 * nodes. */
static void give_away(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];
    double waited_s = sim->now_s - of->yield_asked_s;

    sim->account->yields++;
    sim->account->yield_wait_s += waited_s;
    sim->account->yield_wait_max_s = fmax(sim->account->yield_wait_max_s, waited_s);
    sim->account->claim_cost_gpu_s += of->yield_urgency * sim->world->jobs[job].gpus * waited_s;
    of->yields = false;
    of->told_s = -1;
    of->alarm_count = 0;
    job_enter(sim, job, SIM_AWAY, sim->now_s + sim->world->scenario.away_s);
}

/* Off its alarmed nodes, onto as many spares as there are: failures that the alarms announce strike
 * nodes that nobody uses then. */
static void move_off(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];

    of->moves = false;
    for (uint32_t i = 0; i < of->alarm_count && sim->spares >= 1; i++) {
        sim->dodged[of->alarms[i].id] = true;
        sim->spares -= 1;
    }
    of->alarm_count = 0;
    sim->account->migrations++;
    job_restart(sim, job, 0);
}

static void complete_write(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];

    storage_end(&sim->storage, (uint32_t)job);
    if (sim->world->scenario.quiesce_s >
        0) /* all of it at once, whenever the application takes it */
        job_enter(sim, job, SIM_QUIESCED, sim->now_s + sim->world->scenario.quiesce_s);
    else
        job_enter(sim, job, SIM_COMPUTING, INFINITY);
    of->saved_s = of->snapshot_s;
    eval_history_note(&of->writes, sim->now_s - of->write_began_s);
    eval_success_note(&of->success, true);
    eval_stall_note(&of->stall,
                    sim->world->scenario.stall_fraction * (sim->now_s - of->write_began_s),
                    sim->now_s - of->write_began_s);
    sim->account->checkpoints++;
    sim->account->bytes_written += sim->world->jobs[job].size_bytes;
    if (of->yields)
        give_away(sim, job);
    else if (of->moves)
        move_off(sim, job);
    rule_grant(sim);
}

/* ---- what happens to a job ---- */

/* What they announced has come, or another failure before it. */
static void forget_alarms(struct sim_job *job, uint32_t node)
{
    for (uint32_t i = 0; i < job->alarm_count; i++) {
        if (job->alarms[i].node == node)
            job->alarms[i--] = job->alarms[--job->alarm_count];
    }
}

static void on_failure(struct sim *sim, const struct world_event *event)
{
    struct sim_job *of = &sim->jobs[event->job];
    bool yields = of->yields;

    if (sim->fleet.world != NULL)
        fleet_failed(&sim->fleet, event->node, sim->now_s);
    forget_alarms(of, event->node);
    if (of->phase == SIM_AWAY)
        return;
    if (event->alarm != 0 && sim->dodged[event->alarm]) {
        sim->account->dodged++;
        return;
    }
    sim->account->failures++;
    job_lose_progress(sim, event->job, &sim->account->lost_failure_gpu_s);
    if (yields)
        give_away(sim, event->job);
    else
        job_restart(sim, event->job, sim->world->scenario.down_s);
    rule_grant(sim);
}

static void on_alarm(struct sim *sim, const struct world_event *event)
{
    struct sim_job *of = &sim->jobs[event->job];

    if (sim->fleet.world != NULL)
        fleet_alarmed(&sim->fleet, event->node, sim->now_s);
    if (of->phase == SIM_AWAY)
        return;
    forget_alarms(of, event->node); /* of several of one node the newest counts */
    if (of->alarm_count < SIM_ALARMS_MAX)
        of->alarms[of->alarm_count++] =
            (struct sim_alarm){.since_s = sim->now_s, .id = event->alarm, .node = event->node};
}

/* A job that holds no nodes, or writes for a demand already, has nothing more to give. */
static void on_demand(struct sim *sim, const struct world_event *event)
{
    struct sim_job *of = &sim->jobs[event->job];

    if (of->phase == SIM_AWAY || of->yields)
        return;
    if (sim->fleet.world != NULL)
        fleet_demanded(&sim->fleet, engine_group(sim, event->job), event->on);
    of->yield_asked_s = sim->now_s;
    of->yield_urgency = event->urgency;
    of->moves = false;
    if (event->on) {
        sim->account->kills++;
        job_lose_progress(sim, event->job, &sim->account->lost_kill_gpu_s);
        give_away(sim, event->job);
        rule_grant(sim);
        return;
    }
    of->yields = true;
    if (of->phase == SIM_WRITING)
        return;
    if (of->phase == SIM_COMPUTING &&
        rule_writes_before_yielding(sim, event->job, event->urgency)) {
        engine_begin_write(sim, event->job);
        return;
    }
    job_lose_progress(sim, event->job, &sim->account->lost_kill_gpu_s);
    give_away(sim, event->job);
}

static void on_event(struct sim *sim, const struct world_event *event)
{
    switch (event->kind) {
    case EVENT_FAILURE:
        on_failure(sim, event);
        return;
    case EVENT_ALARM:
        on_alarm(sim, event);
        return;
    case EVENT_DEMAND:
        on_demand(sim, event);
        return;
    case EVENT_ANNOUNCEMENT:
        if (sim->jobs[event->job].phase != SIM_AWAY)
            sim->jobs[event->job].told_s = sim->now_s;
        return;
    case EVENT_REGIME:
        CHECK(event->job < SIM_QUEUES_MAX);
        sim->busy[event->job] = event->on;
        return;
    case EVENT_OUTAGE:
        storage_set_down(&sim->storage, event->on && sim->rule != WHATIF_ORACLE);
        rule_grant(sim);
        return;
    }
    CHECK_UNREACHABLE("an event out of range");
}

/* Nodes for another walltime. */
static void begin_allocation(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];

    of->walltime_end_s = sim->now_s + world_walltime_s(sim->world, job, of->allocation++);
    of->walltime_asked = false;
    set_timer(sim, job);
}

static void on_walltime(struct sim *sim, size_t job)
{
    sim->account->walltimes++;
    job_lose_progress(sim, job, &sim->account->lost_walltime_gpu_s);
    begin_allocation(sim, job);
    job_restart(sim, job, 0);
    rule_grant(sim);
}

/* Its end: what it computed is done, a write that still runs is for nothing. */
static void job_leave(struct sim *sim, size_t job)
{
    engine_settle(sim, job);
    if (sim->jobs[job].phase == SIM_WRITING)
        storage_end(&sim->storage, (uint32_t)job);
    sim->jobs[job].left = true;
    job_enter(sim, job, SIM_AWAY, INFINITY);
    rule_grant(sim);
}

/* Several things may be due at once: the end of its phase first, then its walltime, which may have
 * ended while it was down. */
static void on_timer(struct sim *sim, size_t job)
{
    struct sim_job *of = &sim->jobs[job];

    if (sim->world->jobs[job].to_s <= sim->now_s) {
        job_leave(sim, job);
        return;
    }
    if (of->phase == SIM_AWAY && of->until_s <= sim->now_s) {
        begin_allocation(sim, job);
        if (of->progress_s > 0 || of->allocation > 1)
            job_restart(sim, job, 0);
        else
            job_enter(sim, job, SIM_COMPUTING, INFINITY); /* it begins only now */
    } else if ((of->phase == SIM_DOWN || of->phase == SIM_QUIESCED) && of->until_s <= sim->now_s) {
        job_enter(sim, job, SIM_COMPUTING, INFINITY);
    }
    if (of->phase != SIM_AWAY && of->walltime_end_s <= sim->now_s)
        on_walltime(sim, job);
}

/* ---- time ---- */

static double next_timer_s(struct sim *sim)
{
    if (sim->timer_stale) {
        sim->timer_s = INFINITY;
        for (size_t i = 0; i < sim->world->job_count; i++)
            sim->timer_s = earlier_of(sim->timer_s, sim->timers_s[i]);
        sim->timer_stale = false;
    }
    return sim->timer_s;
}

static void fire_timers(struct sim *sim)
{
    for (size_t i = 0; i < sim->world->job_count; i++) {
        if (sim->timers_s[i] <= sim->now_s)
            on_timer(sim, i);
    }
    sim->timer_stale = true;
}

static void move_to(struct sim *sim, double now_s)
{
    sim->now_s = now_s;
    storage_advance(&sim->storage, now_s);
}

/* Everything up to to_s. What happens at the same time: writes end first, then timers, then
 * events. */
static void sim_advance(struct sim *sim, double to_s)
{
    const struct world *world = sim->world;

    for (;;) {
        uint32_t writer = 0;
        double event_s =
            sim->next_event < world->event_count ? world->events[sim->next_event].at_s : INFINITY;
        double timer_s = next_timer_s(sim), done_s = storage_next_s(&sim->storage, &writer);
        double next_s = earlier_of(earlier_of(event_s, timer_s), done_s);

        if (next_s > to_s)
            break;
        move_to(sim, next_s > sim->now_s ? next_s : sim->now_s);
        if (done_s <= next_s)
            complete_write(sim, writer);
        else if (timer_s <= next_s)
            fire_timers(sim);
        else
            on_event(sim, &world->events[sim->next_event++]);
    }
    move_to(sim, to_s);
}

/* Jobs of a history begin when they did; generated ones all run from second 0. */
static void open_sim(struct sim *sim, const struct world *world, enum whatif_rule rule,
                     struct whatif_account *account)
{
    double bandwidth = world->scenario.bandwidth_bytes_per_s;

    memset(sim, 0, sizeof(*sim));
    memset(account, 0, sizeof(*account));
    sim->world = world;
    sim->rule = rule;
    sim->account = account;
    sim->timer_stale = true;
    sim->spares = world->scenario.spares;
    sim->timers_s = check_calloc(world->job_count, sizeof(*sim->timers_s));
    sim->jobs = check_calloc(world->job_count, sizeof(*sim->jobs));
    sim->dodged = check_calloc(world->alarm_count + 1, sizeof(*sim->dodged));
    storage_init(&sim->storage, bandwidth > 0 && rule != WHATIF_ORACLE ? bandwidth : INFINITY);
    for (size_t i = 0; i < world->job_count; i++) {
        sim->jobs[i].until_s = INFINITY;
        sim->jobs[i].due_since_s = -1;
        sim->jobs[i].told_s = sim->jobs[i].stall = -1;
        if (world->jobs[i].from_s > 0) {
            sim->jobs[i].phase = SIM_AWAY;
            sim->jobs[i].until_s = world->jobs[i].from_s;
            sim->jobs[i].walltime_end_s = INFINITY;
            set_timer(sim, i);
        } else {
            begin_allocation(sim, i);
        }
    }
    rule_open(sim);
}

/* What a job has computed counts as useful although its last part is not saved: the end of the
 * world is no failure. */
static void close_sim(struct sim *sim)
{
    struct whatif_account *account = sim->account;
    double sum;

    for (size_t i = 0; i < sim->world->job_count; i++) {
        engine_settle(sim, i);
        account->useful_gpu_s += sim->world->jobs[i].gpus * sim->jobs[i].progress_s;
    }
    sum = account->useful_gpu_s + account->lost_failure_gpu_s + account->lost_kill_gpu_s +
          account->lost_walltime_gpu_s + account->pause_gpu_s + account->restart_gpu_s;
    CHECK(fabs(sum - account->held_gpu_s) <= 1e-6 * account->held_gpu_s + 1e-3);
    rule_close(sim);
    storage_free(&sim->storage);
    free(sim->dodged);
    free(sim->jobs);
    free(sim->timers_s);
}

/* After a decision, as the broker's leader does. */
static void sim_learn(struct sim *sim)
{
    uint32_t running[EVAL_GROUPS] = {0};

    for (size_t i = 0; i < sim->world->job_count; i++) {
        if (sim->jobs[i].phase != SIM_AWAY)
            running[engine_group(sim, i)]++;
    }
    fleet_advance(&sim->fleet, running, sim->now_s);
}

void engine_run(const struct world *world, enum whatif_rule rule,
                struct whatif_account *ret_account)
{
    struct sim sim;
    double cycle_s = world->scenario.cycle_s;

    open_sim(&sim, world, rule, ret_account);
    for (uint64_t cycle = 1; sim.now_s < world->end_s; cycle++) {
        sim_advance(&sim, fmin((double)cycle * cycle_s, world->end_s));
        sim.spares =
            fmin(sim.spares + world->scenario.spares * cycle_s / fmax(world->scenario.repair_s, 1),
                 world->scenario.spares);
        rule_decide(&sim);
        if (sim.fleet.world != NULL)
            sim_learn(&sim);
    }
    close_sim(&sim);
}
