/* The process of a job driven with random events (I30, F-021, F-025): whatever is seen and told in
 * whatever order, the invariants hold after each step, nothing is told twice of one start, nothing
 * is signalled that is not there, and what ends is told in bounded time. */
#include "src/agent/job/process_step.h"

#include <signal.h>

#include "tests/support/test.h"

enum { RUNS = 3000, STEPS = 200, SECOND_US = 1000000, RUN = 7, SETTLE_STEPS = 4000 };

/* A machine as far as a process sees it. */
struct world {
    struct process process;
    struct ledger_entry entry;
    struct process_facts facts;
    uint64_t random;
    uint32_t last_pid;
    uint64_t timer_us; /* 0: none is set */
    bool stragglers_asked;
    bool stragglers_none; /* they were looked for and none was found, since it was last seen dead */
    unsigned ends_told;   /* of the start that is under way: exits, kills, terminations */
    unsigned starts;
    bool calm; /* what goes wrong is over: everybody answers */
};

static uint64_t draw(struct world *world, uint64_t below)
{
    return test_random(&world->random) % below;
}

static bool chance(struct world *world, uint64_t in)
{
    return draw(world, in) == 0;
}

static void see(struct world *world)
{
    struct process_facts *facts = &world->facts;
    bool runs = world->process.state == PROCESS_RUNNING;

    facts->now_us += draw(world, 3) * (chance(world, 10) ? SECOND_US * 10 : SECOND_US / 20);
    facts->wall_ms = facts->now_us / 1000;
    if (facts->main_alive && chance(world, world->calm ? 3 : 8))
        facts->main_alive = false;
    else if (!facts->main_alive && runs && !world->calm && chance(world, 60))
        facts->main_alive = true;
    if (facts->main_alive)
        facts->group_alive = true;
    else if (world->calm || chance(world, 3))
        facts->group_alive = false;
    facts->unreaped = !world->calm && chance(world, 4);
    facts->attached = !world->calm && chance(world, 2);
    facts->tells = facts->attached && chance(world, 2);
    facts->waits = facts->attached && !facts->tells && chance(world, 2);
    facts->folder_opening = !world->calm && chance(world, 5);
    facts->attempt_busy = !world->calm && chance(world, 3);
    facts->attempt_puts = facts->attempt_busy && chance(world, 2);
    facts->note_found = chance(world, 3);
    facts->note = (struct end_note){.pid = chance(world, 6) ? 0 : world->last_pid,
                                    .start_ticks = world->last_pid,
                                    .run = RUN,
                                    .wait_status = chance(world, 2) ? 0 : 9,
                                    .told_to_end = chance(world, 5),
                                    .will_restart = chance(world, 4)};
}

/* Reports and signals are judged by what is there; what an effect asks for comes about later. */
static void take_effects(struct world *world, enum process_state from,
                         const struct job_effects *effects)
{
    const Ckpt__V1__AgentReport *report = &effects->report;

    if (effects->reporting &&
        report->kind != CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED) {
        assert_true(world->process.state == PROCESS_ABSENT);
        assert_false(report->will_restart && !world->entry.restart_awaited);
        if (from != PROCESS_ABSENT) { /* I30: nothing of it is left */
            assert_false(world->facts.group_alive);
            assert_true(world->stragglers_none);
            world->ends_told++;
        }
    }
    for (size_t i = 0; i < effects->count; i++) {
        const struct job_effect *effect = &effects->effects[i];
        if (effect->kind == EFFECT_TIMER)
            world->timer_us = world->facts.now_us + effect->delay_us + 1;
        else if (effect->kind == EFFECT_TIMER_STOP || effect->kind == EFFECT_FORGET)
            world->timer_us = 0;
        else if (effect->kind == EFFECT_LOOK_FOR_STRAGGLERS)
            world->stragglers_asked = true;
        else if (effect->kind == EFFECT_LOOK_AGAIN)
            world->timer_us = world->facts.now_us;
        else if (effect->kind == EFFECT_SIGNAL) {
            /* SIGTERM is for who has left the group as well */
            assert_true(world->facts.group_alive || effect->signal == SIGTERM);
            assert_int_not_equal(world->entry.pid, 0);
            if (effect->signal == SIGKILL)
                world->facts.group_alive = world->facts.main_alive = false;
        }
        if (effect->kind == EFFECT_FORGET)
            world->stragglers_asked = false;
    }
}

/* F-021: that nobody tells how it ended is not said before whoever could has had the time. */
static void check_patience(const struct world *world, enum process_state from)
{
    const struct process *process = &world->process;
    const struct process_facts *facts = &world->facts;
    uint64_t since_us =
        process->gone_us > process->unattended_us ? process->gone_us : process->unattended_us;

    if ((from != PROCESS_RUNNING && from != PROCESS_ENDED) || process->end != END_UNTOLD ||
        (process->state != PROCESS_CLEARING && process->state != PROCESS_HELD))
        return;
    assert_false(facts->tells);
    assert_false(facts->folder_opening);
    assert_true(facts->now_us - since_us >= (facts->unreaped ? 60 : 3) * (uint64_t)SECOND_US);
}

static void step(struct world *world, const struct process_event *event)
{
    enum process_state from = world->process.state;
    struct job_effects effects;

    if (event->kind == PROCESS_STRAGGLERS_LOOKED &&
        world->process.stragglers == STRAGGLERS_LOOKED_FOR)
        world->stragglers_none = event->count == 0;
    else if (event->kind == PROCESS_STARTED || event->kind == PROCESS_RESUMED)
        world->stragglers_none = false;
    process_step(&world->process, &world->entry, event, &world->facts, &effects);
    take_effects(world, from, &effects);
    check_patience(world, from);
    /* it is looked at again by itself, but where a checkpoint is waited for */
    if (world->process.state != PROCESS_ABSENT && world->process.state != PROCESS_HELD)
        assert_int_not_equal(world->timer_us, 0);
    assert_true(world->ends_told <= world->starts);
    /* one end per start, told when it is over and not before */
    assert_uint_equal(world->ends_told,
                      world->starts - (world->process.state == PROCESS_ABSENT ? 0 : 1));
}

static void start(struct world *world)
{
    struct process_event event = {
        .kind = PROCESS_STARTED, .pid = ++world->last_pid, .report = chance(world, 2)};

    event.start_ticks = event.pid;
    world->entry.ended = false;
    world->starts++;
    world->facts.main_alive = world->facts.group_alive = true;
    step(world, &event);
}

static void stop(struct world *world)
{
    struct process_event event = {.kind = PROCESS_STOP};

    event.ask =
        (struct process_stop_ask){.cause = chance(world, 2) ? STOP_BY_ORDER : STOP_BY_WALLTIME,
                                  .reason = CKPT__V1__REASON__REASON_ALLOCATION_ENDED,
                                  .grace_ms = draw(world, 5000),
                                  .run = RUN - 1 + draw(world, 3),
                                  .epoch = draw(world, 3)};
    step(world, &event);
}

/* The agent dies: what is in the journal is all that is left. */
static void restart_agent(struct world *world)
{
    world->process =
        (struct process){.state = PROCESS_ABSENT, .wait_status = PROCESS_STATUS_UNKNOWN};
    world->timer_us = 0;
    world->stragglers_asked = false;
    step(world, &(struct process_event){.kind = PROCESS_RESUMED});
}

static void random_event(struct world *world)
{
    struct process_event event = {.kind = PROCESS_LOOK, .why = "because"};

    if (world->stragglers_asked && chance(world, 3)) {
        world->stragglers_asked = false;
        event = (struct process_event){.kind = PROCESS_STRAGGLERS_LOOKED,
                                       .count = chance(world, 3) ? 1 : 0};
    } else if (world->process.state == PROCESS_ABSENT && chance(world, 4)) {
        world->entry.start_granted = true;
    } else if (chance(world, 8)) {
        event.kind = PROCESS_WOKEN;
    } else if (chance(world, 10)) {
        event.kind = PROCESS_UNATTENDED;
    } else if (chance(world, 10)) {
        event.kind = PROCESS_ATTEMPT_ENDED;
    } else if (chance(world, 30)) {
        event.kind = PROCESS_RESTART_FAILED;
    } else if (process_state_unstopped(world->process.state) && chance(world, 30)) {
        event.kind = PROCESS_TAKE_OVER;
    }
    step(world, &event);
}

/* When nobody errs any more each end is told, within the longest of its waits. */
static void settle(struct world *world)
{
    uint64_t began_us = world->facts.now_us;

    world->calm = true;
    world->facts.main_alive = false;
    for (int i = 0; world->process.state != PROCESS_ABSENT && i < SETTLE_STEPS; i++) {
        see(world);
        if (world->stragglers_asked) {
            world->stragglers_asked = false;
            step(world, &(struct process_event){.kind = PROCESS_STRAGGLERS_LOOKED});
        }
        if (world->timer_us == 0) /* HELD: its checkpoint ends */
            step(world, &(struct process_event){.kind = PROCESS_ATTEMPT_ENDED});
        else
            world->facts.now_us =
                world->timer_us > world->facts.now_us ? world->timer_us : world->facts.now_us;
        step(world, &(struct process_event){.kind = PROCESS_LOOK});
    }
    assert_int_equal(world->process.state, PROCESS_ABSENT);
    assert_true(world->facts.now_us - began_us < 400 * (uint64_t)SECOND_US);
}

static void run(uint64_t seed)
{
    struct world world = {.random = seed,
                          .entry = {.allocation_id = "job", .run = RUN},
                          .facts = {.now_us = 1000 * SECOND_US},
                          .last_pid = 100,
                          .process = {.wait_status = PROCESS_STATUS_UNKNOWN}};

    for (int i = 0; i < STEPS; i++) {
        see(&world);
        if (world.process.state == PROCESS_ABSENT && chance(&world, 5))
            start(&world);
        else if (chance(&world, 20))
            stop(&world);
        else if (chance(&world, 40))
            restart_agent(&world);
        else
            random_event(&world);
    }
    settle(&world);
}

static void whatever_happens_each_start_has_one_end(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (unsigned i = 0; i < RUNS; i++)
        run(seed + i);
}

/* ---- rows of the drawing that a random walk does not explain ---- */

static struct world still(void)
{
    struct world world = {.entry = {.allocation_id = "job", .run = RUN},
                          .facts = {.now_us = 1000 * SECOND_US},
                          .last_pid = 100,
                          .process = {.wait_status = PROCESS_STATUS_UNKNOWN}};

    start(&world);
    return world;
}

static void look(struct world *world, uint64_t after_us)
{
    world->facts.now_us += after_us;
    step(world, &(struct process_event){.kind = PROCESS_LOOK});
}

/* What a crashed application was being checkpointed for is told first. */
static void a_crash_is_told_after_the_checkpoint_that_is_copied(void **state)
{
    struct world world = still();

    (void)state;
    world.facts.main_alive = world.facts.group_alive = false;
    world.facts.attempt_busy = world.facts.attempt_puts = true;
    world.facts.note_found = true;
    world.facts.note = (struct end_note){.pid = 101, .start_ticks = 101, .wait_status = 9};
    look(&world, 0);
    assert_int_equal(world.process.state, PROCESS_CLEARING);
    step(&world, &(struct process_event){.kind = PROCESS_STRAGGLERS_LOOKED});
    look(&world, 0);
    assert_int_equal(world.process.state, PROCESS_HELD);
    look(&world, 10 * SECOND_US);
    assert_int_equal(world.process.state, PROCESS_HELD);
    world.facts.attempt_busy = world.facts.attempt_puts = false;
    step(&world, &(struct process_event){.kind = PROCESS_ATTEMPT_ENDED});
    assert_int_equal(world.process.state, PROCESS_ABSENT);
    assert_uint_equal(world.entry.ended_status, 9);
}

/* I30: the grace of the stop is for the checkpoint as well, no longer. */
static void a_stop_waits_for_the_checkpoint_until_its_grace_ends(void **state)
{
    struct world world = still();
    struct process_event event = {.kind = PROCESS_STOP};
    struct job_effects effects;
    bool given_up = false;

    (void)state;
    world.facts.attempt_busy = world.facts.attempt_puts = true;
    event.ask = (struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 5000, .run = RUN};
    step(&world, &event);
    world.facts.main_alive = world.facts.group_alive = false;
    look(&world, 50000);
    step(&world, &(struct process_event){.kind = PROCESS_STRAGGLERS_LOOKED});
    look(&world, 0);
    assert_int_equal(world.process.state, PROCESS_LEAVING);
    look(&world, 4 * SECOND_US);
    assert_int_equal(world.process.state, PROCESS_LEAVING);
    world.facts.now_us += SECOND_US;
    process_step(&world.process, &world.entry, &(struct process_event){.kind = PROCESS_LOOK},
                 &world.facts, &effects);
    for (size_t i = 0; i < effects.count; i++)
        given_up = given_up || effects.effects[i].kind == EFFECT_ATTEMPT_GIVE_UP;
    assert_true(given_up);
    world.facts.attempt_busy = world.facts.attempt_puts = false;
    look(&world, SECOND_US);
    assert_int_equal(world.process.state, PROCESS_ABSENT);
    assert_true(world.entry.terminated);
}

static bool lets_go(struct world *world, const struct process_event *event)
{
    struct job_effects effects;
    bool thaws = false;

    process_step(&world->process, &world->entry, event, &world->facts, &effects);
    for (size_t i = 0; i < effects.count; i++)
        thaws = thaws || effects.effects[i].kind == EFFECT_THAW;
    assert_true(!thaws || effects.commit || world->entry.still);
    return thaws;
}

/* Its agent may have lost the journal while it stood still: nobody else lets it go on. */
static void what_runs_unknown_to_the_journal_goes_on(void **state)
{
    struct process_event event = {.kind = PROCESS_STARTED, .pid = 77, .start_ticks = 77};
    const struct process_event resumed = {.kind = PROCESS_RESUMED};
    struct world world = still();

    (void)state;
    world.process = (struct process){.wait_status = PROCESS_STATUS_UNKNOWN};
    world.entry.pid = 0;
    assert_true(lets_go(&world, &event));
    /* until it does, whatever happens to the agent */
    assert_int_equal(world.entry.still, STANDING_LET_GO);
    world.process = (struct process){.wait_status = PROCESS_STATUS_UNKNOWN};
    assert_true(lets_go(&world, &resumed));
    world.process = (struct process){.wait_status = PROCESS_STATUS_UNKNOWN};
    world.entry.phase = PHASE_ASKED;
    world.entry.still = STANDING_STILL; /* for the attempt */
    assert_false(lets_go(&world, &resumed));
    world.process = (struct process){.wait_status = PROCESS_STATUS_UNKNOWN};
    world.entry = (struct ledger_entry){.allocation_id = "job", .run = RUN};
    event.report = true; /* it has just been started */
    assert_false(lets_go(&world, &event));
    assert_false(world.entry.still);
}

/* Its ckpt-run was told to start it, and the agent died before it heard of that: the state may
 * count the part as begun. Another ckpt-run that is refused says nothing of it. */
static void a_start_that_is_refused_when_it_begins_anew_is_told(void **state)
{
    (void)state;
    for (unsigned granted = 0; granted < 2; granted++) {
        struct process process = {.wait_status = PROCESS_STATUS_UNKNOWN};
        struct ledger_entry entry = {.allocation_id = "job", .run = RUN, .start_granted = true};
        struct process_facts facts = {.now_us = 1000 * SECOND_US};
        struct process_event event = {.kind = PROCESS_RESTART_FAILED,
                                      .why = "the folder belongs to another user",
                                      .granted = granted != 0};
        struct job_effects effects;

        process_step(&process, &entry, &event, &facts, &effects);
        assert_int_equal(effects.reporting, granted != 0);
        assert_int_equal(entry.start_granted, granted == 0);
        if (granted == 0)
            continue;
        assert_int_equal(effects.report.kind,
                         CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
        assert_int_equal(effects.report.exit_status, 125 << 8);
        assert_uint_equal(effects.report.run, RUN);
        assert_non_null(strstr(effects.detail, "not started: the folder belongs to another user"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_each_start_has_one_end),
        cmocka_unit_test(a_crash_is_told_after_the_checkpoint_that_is_copied),
        cmocka_unit_test(a_stop_waits_for_the_checkpoint_until_its_grace_ends),
        cmocka_unit_test(what_runs_unknown_to_the_journal_goes_on),
        cmocka_unit_test(a_start_that_is_refused_when_it_begins_anew_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
