/* A job of an agent driven with random events (I22, I30, I33, I34): orders, ends, deaths of the
 * agent and whatever is seen, in any order. The invariants of job_check() hold after each step; an
 * application is asked once per attempt and only when the journal has it; each attempt and each
 * start has one end; nothing of an attempt is left over; what was made to stand still does so until
 * it is to go on or to end, and not for longer; and all of it ends in bounded time. */
#include "src/agent/job/job_step.h"

#include "tests/support/test.h"

enum { RUNS = 2000, STEPS = 300, SECOND_US = 1000000, RUN = 7, SETTLE_STEPS = 6000, QUEUE = 16 };

/* What an executor holds, the journal, and the world as far as a job sees it. */
struct world {
    struct process process;
    struct attempt attempt;
    struct ledger_entry entry, journal;
    struct job_facts facts;
    struct job_event queue[QUEUE];
    size_t queued;
    uint64_t random;
    uint64_t timer_us, attempt_timer_us, walltime_us; /* 0: it is not set */
    uint32_t last_pid, last_attempt;
    uint32_t asked_attempt; /* the last whose application was asked for the first time */
    bool stragglers_asked, call, watch, stage, put, put_killed, abandon, removing;
    unsigned starts, ends, orders, attempt_ends;
    bool frozen;            /* some of it stands still */
    bool freezing, thawing; /* at most one of them */
    bool let_go;            /* the agent died while it let it go on */
    bool told_to_end;
    bool calm; /* what goes wrong is over: everybody answers */
    char why[8];
};

static bool attempt_seen[ATTEMPT_STATE_COUNT], process_seen[PROCESS_STATE_COUNT];

static uint64_t draw(struct world *world, uint64_t below)
{
    return test_random(&world->random) % below;
}

static bool chance(struct world *world, uint64_t in)
{
    return draw(world, in) == 0;
}

/* ---- what is seen ---- */

static void see_process(struct world *world)
{
    struct process_facts *facts = &world->facts.process;
    bool runs = world->process.state == PROCESS_RUNNING;

    if (facts->main_alive && chance(world, world->calm ? 3 : 15))
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
    facts->note_found = chance(world, 3);
    facts->note = (struct end_note){.pid = chance(world, 6) ? 0 : world->last_pid,
                                    .start_ticks = world->last_pid,
                                    .run = RUN,
                                    .wait_status = chance(world, 2) ? 0 : 9,
                                    .told_to_end = chance(world, 5),
                                    .will_restart = chance(world, 4)};
}

static void see_attempt(struct world *world)
{
    struct attempt_facts *facts = &world->facts.attempt;

    *facts =
        (struct attempt_facts){.now_us = world->facts.process.now_us,
                               .wall_ms = world->facts.process.wall_ms,
                               .other_run = attempt_awaits(&world->attempt) && chance(world, 10),
                               .takes_direct = chance(world, 2),
                               .attached = world->facts.process.attached,
                               .folder_opening = world->facts.process.folder_opening,
                               .answer = (enum ask_answer)draw(world, 4),
                               .prepared = chance(world, 2),
                               .lost = chance(world, 4) ? "the agent ended" : NULL,
                               .growth = draw(world, 2)};
    if (chance(world, 2)) {
        snprintf(facts->memory, sizeof(facts->memory), "/memory/1000");
        facts->memory_room = draw(world, 100);
    }
    if (chance(world, 3))
        facts->ready = CKPT__V1__REASON__REASON_NO_HANDLER;
    if (!chance(world, 3) && facts->answer != ASK_UNFINISHED)
        facts->answer = ASK_NOTHING_YET;
    facts->sentinel.bytes = draw(world, 200);
    snprintf(facts->sentinel.status, sizeof(facts->sentinel.status), "%u",
             (unsigned)chance(world, 6));
}

static void see(struct world *world)
{
    struct process_facts *facts = &world->facts.process;

    facts->now_us += draw(world, 3) * (chance(world, 10) ? SECOND_US * 10 : SECOND_US / 20);
    facts->wall_ms = facts->now_us / 1000;
    see_process(world);
    see_attempt(world);
}

/* ---- the executor ---- */

static void post(struct world *world, const struct job_event *event)
{
    assert_true(world->queued < QUEUE);
    world->queue[world->queued++] = *event;
}

static void post_process(struct world *world, enum process_event_kind kind)
{
    post(world,
         &(struct job_event){.part = JOB_PROCESS, .process = {.kind = kind, .why = world->why}});
}

static void post_attempt(struct world *world, enum attempt_event_kind kind, Ckpt__V1__Reason reason)
{
    post(world,
         &(struct job_event){.part = JOB_ATTEMPT, .attempt = {.kind = kind, .reason = reason}});
}

/* I22: once per attempt, whatever happens to the agent, and never before the journal has it. */
static void ask(struct world *world)
{
    assert_uint_equal(world->journal.attempt, world->attempt.attempt);
    assert_int_equal(world->journal.phase, world->entry.phase);
    assert_true(process_state_unstopped(world->process.state) ||
                world->attempt.state != ATTEMPT_ASKING || world->entry.phase == PHASE_ASKED);
    if (world->entry.phase == PHASE_ASKING) {
        assert_true(world->attempt.attempt > world->asked_attempt);
        world->asked_attempt = world->attempt.attempt;
    }
    assert_false(world->call || world->watch);
    world->watch = world->call = true;
    if (chance(world, 8))
        post_attempt(world, ATTEMPT_UNASKED, CKPT__V1__REASON__REASON_NOT_ATTACHED);
    else
        post_attempt(world, ATTEMPT_FIRED, CKPT__V1__REASON__REASON_NONE);
}

static void carry_out_attempt(struct world *world, const struct job_effect *effect)
{
    uint64_t now_us = world->facts.process.now_us;

    if (effect->kind == EFFECT_ATTEMPT_TIMER)
        world->attempt_timer_us = now_us + effect->delay_us + 1;
    else if (effect->kind == EFFECT_ATTEMPT_TIMER_STOP)
        world->attempt_timer_us = 0;
    else if (effect->kind == EFFECT_ATTEMPT_LOOK)
        post_attempt(world, ATTEMPT_TICK, CKPT__V1__REASON__REASON_NONE);
    else if (effect->kind == EFFECT_ASK)
        ask(world);
    else if (effect->kind == EFFECT_HEAR_AGAIN)
        world->watch = true;
    else if (effect->kind == EFFECT_FREEZE) {
        assert_true(world->journal.still);
        assert_false(world->freezing);
        world->frozen = world->freezing = true;
        world->thawing = false; /* it turns: of what came unknown */
        world->let_go = false;
    } else if (effect->kind == EFFECT_THAW) {
        world->freezing = false;
        world->thawing = true;
    } else if (effect->kind == EFFECT_UNWATCH)
        world->watch = false;
    else if (effect->kind == EFFECT_HANG_UP)
        world->call = false;
    else if (effect->kind == EFFECT_STAGE) {
        assert_false(world->stage || world->put || world->abandon || world->removing);
        assert_int_equal(world->journal.phase, PHASE_ASKING);
        world->stage = true;
        world->put_killed = false;
    } else if (effect->kind == EFFECT_PUT || effect->kind == EFFECT_ABANDON) {
        assert_false(world->stage || world->put || world->abandon); /* one worker at a time */
        assert_false(world->removing);
        world->put = effect->kind == EFFECT_PUT;
        world->abandon = effect->kind == EFFECT_ABANDON;
        world->put_killed = false;
    } else if (effect->kind == EFFECT_PUT_KILL)
        world->put_killed = true;
    else if (effect->kind == EFFECT_REMOVE) {
        assert_false(world->stage || world->put || world->abandon); /* nothing reads it any more */
        world->removing = true;
    } else if (effect->kind == EFFECT_ATTEMPT_ENDED)
        post_process(world, PROCESS_ATTEMPT_ENDED);
}

static void carry_out(struct world *world, const struct job_effect *effect)
{
    uint64_t now_us = world->facts.process.now_us;

    if (effect->kind == EFFECT_TIMER)
        world->timer_us = now_us + effect->delay_us + 1;
    else if (effect->kind == EFFECT_TIMER_STOP || effect->kind == EFFECT_FORGET)
        world->timer_us = 0;
    else if (effect->kind == EFFECT_LOOK_FOR_STRAGGLERS)
        world->stragglers_asked = true;
    else if (effect->kind == EFFECT_LOOK_AGAIN)
        post_process(world, PROCESS_LOOK);
    else if (effect->kind == EFFECT_ATTEMPT_GONE)
        post_attempt(world, ATTEMPT_GONE, CKPT__V1__REASON__REASON_NONE);
    else if (effect->kind == EFFECT_ATTEMPT_GIVE_UP)
        post_attempt(world, ATTEMPT_GIVE_UP, effect->reason);
    else if (effect->kind == EFFECT_WALLTIME)
        world->walltime_us = world->entry.deadline_us;
    else if (effect->kind == EFFECT_SIGNAL && effect->signal == 9) {
        /* I35: who lives has its grace, but for who stands still and has nothing to save */
        if (world->facts.process.main_alive && !world->told_to_end)
            assert_true(world->frozen && !world->thawing && !world->let_go);
        world->facts.process.group_alive = world->facts.process.main_alive = false;
    } else
        carry_out_attempt(world, effect);
    if (effect->kind == EFFECT_SIGNAL && effect->signal == 15)
        world->told_to_end = true;
    if (effect->kind == EFFECT_SIGNAL &&
        effect->signal == 15) /* nothing runs on after it is saved */
        assert_true(world->attempt.state != ATTEMPT_STILL);
    if (effect->kind == EFFECT_FORGET)
        world->stragglers_asked = world->frozen = world->freezing = world->thawing = false;
}

static void count_report(struct world *world, const Ckpt__V1__AgentReport *report)
{
    bool ends = report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED ||
                report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED ||
                report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_WALLTIME_KILLED;

    if (ends && world->entry.pid == 0 && world->journal.pid != 0)
        world->ends++;
    if (report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED ||
        report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED ||
        report->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING) {
        world->attempt_ends++;
        assert_int_equal(world->entry.phase, PHASE_ENDED);
        assert_uint_equal(report->attempt, world->last_attempt);
    }
}

/* I33: of one walltime the end only moves earlier while something runs. */
static void check_deadline(const struct world *world, const struct ledger_entry *before, bool ran)
{
    if (ran && world->process.state != PROCESS_ABSENT && before->deadline_us != 0 &&
        before->walltime_ms == world->entry.walltime_ms)
        assert_true(world->entry.deadline_us <= before->deadline_us);
}

/* An attempt whose end is to be reported; what is verified is reported before it is removed. */
static bool untold(const struct world *world)
{
    return attempt_busy(&world->attempt) && world->attempt.state != ATTEMPT_STILL &&
           !(world->attempt.state == ATTEMPT_REMOVING && world->entry.phase == PHASE_ENDED);
}

static void take(struct world *world, const struct job_event *event)
{
    const struct job job = {&world->process, &world->attempt, &world->entry};
    struct ledger_entry before = world->entry;
    bool ran = world->process.state != PROCESS_ABSENT;
    struct job_effects effects;

    job_step(&job, event, &world->facts, &effects);
    assert_true(effects.commit || !effects.reporting);
    attempt_seen[world->attempt.state] = process_seen[world->process.state] = true;
    if (effects.reporting)
        count_report(world, &effects.report);
    if (effects.commit)
        world->journal = world->entry;
    check_deadline(world, &before, ran);
    for (size_t i = 0; i < effects.count; i++)
        carry_out(world, &effects.effects[i]);
    if (world->attempt.state == ATTEMPT_NONE)
        assert_false(world->call || world->watch || world->stage || world->put || world->abandon ||
                     world->removing);
    assert_uint_equal(world->attempt_ends, world->orders - untold(world));
    assert_uint_equal(world->ends, world->starts - (world->process.state != PROCESS_ABSENT));
}

/* I46: frozen for a checkpoint that may yet become complete, or about to go on or to end. */
static void check_still(const struct world *world)
{
    if (world->frozen && !world->freezing && !world->thawing && world->entry.pid != 0 &&
        process_state_unstopped(world->process.state) && world->process.gone_us == 0)
        assert_true(world->attempt.state == ATTEMPT_PUTTING ||
                    world->attempt.state == ATTEMPT_STILL ||
                    world->attempt.state == ATTEMPT_RESUMING);
    if (world->attempt.state == ATTEMPT_STILL && !world->let_go && world->process.gone_us == 0)
        assert_true(world->frozen && !world->thawing);
}

static void drain(struct world *world)
{
    for (size_t i = 0; i < world->queued; i++) {
        struct job_event event = world->queue[i];
        if (i > 0)
            see_attempt(world);
        take(world, &event);
    }
    world->queued = 0;
    check_still(world);
}

/* ---- what happens ---- */

static void start(struct world *world)
{
    struct job_event event = {.part = JOB_PROCESS,
                              .process = {.kind = PROCESS_STARTED, .pid = ++world->last_pid}};

    event.process.start_ticks = event.process.pid;
    event.process.report = chance(world, 2);
    world->entry.ended = false;
    world->told_to_end = world->let_go = false;
    world->starts++;
    world->facts.process.main_alive = world->facts.process.group_alive = true;
    post(world, &event);
    drain(world);
}

static void order(struct world *world)
{
    static const enum attempt_event_kind kinds[] = {ATTEMPT_EXTEND, ATTEMPT_HURRY, ATTEMPT_CANCEL,
                                                    ATTEMPT_AFTER};
    struct job_event event = {.part = JOB_ATTEMPT};
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    event.attempt.order = &order;
    event.attempt.kind = attempt_busy(&world->attempt) ? kinds[draw(world, 4)] : ATTEMPT_START;
    order.timeout_ms = 1000 + draw(world, 60000);
    order.deferred_ms = draw(world, 1000);
    order.after = (Ckpt__V1__AfterCheckpoint)draw(world, 5);
    if (event.attempt.kind == ATTEMPT_START) {
        order.checkpoint_id = 1;
        order.attempt = ++world->last_attempt;
        order.max_deferral_ms = draw(world, 10000);
        order.run = RUN;
        order.staging = (Ckpt__V1__Staging)draw(world, 4);
        world->orders++;
    }
    post(world, &event);
    drain(world);
    if (event.attempt.kind == ATTEMPT_AFTER && world->attempt.state == ATTEMPT_PUTTING &&
        order.after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE &&
        process_state_unstopped(world->process.state) && world->process.gone_us == 0)
        assert_true(world->entry.still && world->frozen);
}

static void stop(struct world *world)
{
    struct job_event event = {.part = JOB_PROCESS, .process = {.kind = PROCESS_STOP}};

    event.process.ask =
        (struct process_stop_ask){.cause = STOP_BY_ORDER,
                                  .reason = CKPT__V1__REASON__REASON_ALLOCATION_ENDED,
                                  .grace_ms = draw(world, 5000),
                                  .run = RUN - 1 + draw(world, 3),
                                  .epoch = draw(world, 3)};
    post(world, &event);
    drain(world);
}

static void tell_walltime(struct world *world)
{
    struct job_event event = {.part = JOB_WALLTIME, .walltime = {.kind = WALLTIME_TOLD}};

    event.walltime.word = (struct walltime_word){.index = draw(world, 1000),
                                                 .came_us = world->facts.process.now_us,
                                                 .run = RUN,
                                                 .remaining_ms = draw(world, 100000),
                                                 .grace_ms = draw(world, 3000),
                                                 .walltime_ms = draw(world, 3) * 100000};
    post(world, &event);
    drain(world);
}

/* The agent dies: what is in the journal is all that is left, and its worker dies with it. */
static void restart_agent(struct world *world)
{
    world->entry = world->journal;
    world->process =
        (struct process){.state = PROCESS_ABSENT, .wait_status = PROCESS_STATUS_UNKNOWN};
    world->attempt = (struct attempt){.state = ATTEMPT_NONE};
    world->timer_us = world->attempt_timer_us = 0;
    world->stragglers_asked = world->call = world->watch = false;
    world->stage = world->put = world->abandon = world->removing = false;
    world->let_go = world->let_go || world->thawing; /* which goes on to its end */
    world->frozen = world->frozen && !world->thawing;
    world->freezing = world->thawing = false;
    /* what the journal does not know of never was */
    world->starts = world->ends + (world->entry.pid != 0);
    world->orders = world->attempt_ends;
    take(world, &(struct job_event){.part = JOB_PROCESS, .process = {.kind = PROCESS_RESUMED}});
    world->orders += world->entry.phase != PHASE_NONE && world->entry.phase != PHASE_ENDED;
    if (world->entry.phase != PHASE_NONE)
        take(world, &(struct job_event){.part = JOB_ATTEMPT, .attempt = {.kind = ATTEMPT_RESUME}});
    drain(world);
}

/* Of what is under way something comes to its end. True: it did. */
static bool work_ends(struct world *world)
{
    struct job_event event = {.part = JOB_ATTEMPT, .attempt = {.kind = ATTEMPT_PUT_ENDED}};

    if (!world->calm && !chance(world, 4))
        return false;
    if (world->freezing) {
        event.attempt.kind = chance(world, 6) ? ATTEMPT_UNFROZEN : ATTEMPT_FROZEN;
        world->freezing = false;
    } else if (world->thawing && (world->calm || chance(world, 3))) {
        event.attempt.kind = ATTEMPT_THAWED;
        world->thawing = world->frozen = false;
    } else if (world->stage) {
        world->stage = false;
        if (!world->put_killed) {
            event.attempt.kind = ATTEMPT_STAGE_ENDED;
            event.attempt.reason = chance(world, 3) ? CKPT__V1__REASON__REASON_STORAGE_FULL
                                                    : CKPT__V1__REASON__REASON_NONE;
            if (world->journal.memory[0] == 0)
                snprintf(event.attempt.text, sizeof(event.attempt.text), ".part.tmp.1");
        }
    } else if (world->put) {
        event.attempt.put.verified = !world->put_killed && !chance(world, 3);
        event.attempt.put.reason = CKPT__V1__REASON__REASON_WRITE_FAILED;
        event.attempt.put.size_bytes = 150;
        world->put = false;
    } else if (world->abandon) {
        event.attempt.kind = ATTEMPT_ABANDONED;
        world->abandon = false;
    } else if (world->removing) {
        event.attempt.kind = ATTEMPT_REMOVED;
        world->removing = false;
    } else {
        return false;
    }
    post(world, &event);
    return true;
}

static void call_speaks(struct world *world)
{
    static const enum attempt_event_kind kinds[] = {ATTEMPT_ALIVE, ATTEMPT_CHANGED, ATTEMPT_DEFER,
                                                    ATTEMPT_BROKE};
    struct job_event event = {.part = JOB_ATTEMPT};

    event.attempt.kind = kinds[draw(world, 4)];
    event.attempt.reason = CKPT__V1__REASON__REASON_NO_HANDLER;
    if (event.attempt.kind == ATTEMPT_DEFER)
        event.attempt.defer_ms = draw(world, 5000);
    post(world, &event);
}

static void random_event(struct world *world)
{
    if (work_ends(world)) {
        /* posted */
    } else if (world->stragglers_asked && chance(world, 3)) {
        world->stragglers_asked = false;
        post(world, &(struct job_event){
                        .part = JOB_PROCESS,
                        .process = {.kind = PROCESS_STRAGGLERS_LOOKED, .count = chance(world, 3)}});
    } else if (world->call && chance(world, 3)) {
        call_speaks(world);
    } else if (chance(world, 3)) {
        post_attempt(world, chance(world, 3) ? ATTEMPT_LOOKED : ATTEMPT_TICK,
                     CKPT__V1__REASON__REASON_NONE);
    } else if (chance(world, 10)) {
        post_process(world, PROCESS_WOKEN);
    } else if (chance(world, 12)) {
        post_process(world, PROCESS_UNATTENDED);
    } else if (process_state_unstopped(world->process.state) &&
               world->entry.still != STANDING_STILL && chance(world, 40)) {
        post_process(world, PROCESS_TAKE_OVER);
    } else if (world->walltime_us != 0 && world->walltime_us <= world->facts.process.now_us) {
        world->walltime_us = 0;
        post(world, &(struct job_event){.part = JOB_WALLTIME, .walltime = {.kind = WALLTIME_OVER}});
    } else {
        post_process(world, PROCESS_LOOK);
    }
    drain(world);
}

/* When nobody errs any more all of it ends, within the longest of its waits. */
static void settle(struct world *world)
{
    world->calm = true;
    world->facts.process.main_alive = false;
    for (int i = 0; i < SETTLE_STEPS &&
                    (world->process.state != PROCESS_ABSENT || attempt_busy(&world->attempt));
         i++) {
        see(world);
        if (!work_ends(world) && world->stragglers_asked) {
            world->stragglers_asked = false;
            post(world, &(struct job_event){.part = JOB_PROCESS,
                                            .process = {.kind = PROCESS_STRAGGLERS_LOOKED}});
        }
        post_process(world, PROCESS_LOOK);
        post_attempt(world,
                     world->attempt.state == ATTEMPT_RESUMING ? ATTEMPT_LOOKED : ATTEMPT_TICK,
                     CKPT__V1__REASON__REASON_NONE);
        drain(world);
    }
    assert_int_equal(world->process.state, PROCESS_ABSENT);
    assert_int_equal(world->attempt.state, ATTEMPT_NONE);
}

static void run(uint64_t seed)
{
    struct world *world = test_calloc(1, sizeof(*world));

    world->random = seed;
    snprintf(world->entry.allocation_id, sizeof(world->entry.allocation_id), "job");
    world->entry.run = RUN;
    world->journal = world->entry;
    world->facts.process.now_us = 1000 * (uint64_t)SECOND_US;
    world->last_pid = 100;
    world->process.wait_status = PROCESS_STATUS_UNKNOWN;
    for (int i = 0; i < STEPS; i++) {
        see(world);
        if (world->process.state == PROCESS_ABSENT && !attempt_writes(&world->attempt) &&
            chance(world, 4))
            start(world);
        else if (chance(world, attempt_busy(&world->attempt) ? 60 : 8))
            order(world);
        else if (chance(world, 60))
            stop(world);
        else if (chance(world, 40))
            tell_walltime(world);
        else if (chance(world, 50))
            restart_agent(world);
        else
            random_event(world);
    }
    settle(world);
    test_free(world);
}

static void whatever_happens_each_start_and_each_attempt_has_one_end(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (unsigned i = 0; i < RUNS; i++)
        run(seed + i);
    for (size_t i = 0; i < ATTEMPT_STATE_COUNT; i++)
        assert_true(attempt_seen[i]);
    for (size_t i = 0; i < PROCESS_STATE_COUNT; i++)
        assert_true(process_seen[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_each_start_and_each_attempt_has_one_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
