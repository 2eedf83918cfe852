/* A restore as a state machine (I27): each event in each state and each answer of the
 * leader come to what is written here, and nothing else is taken. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/agent/restore_world.h"

static void restore_moves_are_those_of_the_drawing(void **state)
{
    static const char *const expected[] = {
        "PAUSED: ASKING",
        "ASKING: PAUSED HELD NAMING PREPARING SWEEPING READING OVER",
        "HELD: PAUSED ASKING",
        "NAMING: PAUSED",
        "PREPARING: PAUSED ASKING OVER",
        "SWEEPING: PAUSED",
        "READING: PAUSED HELD DROPPING OVER",
        "DROPPING: PAUSED",
        "OVER:"};

    (void)state;
    for (int from = 0; from < RESTORE_STATE_COUNT; from++) {
        char text[128];
        snprintf(text, sizeof(text), "%s:", restore_state_name((enum restore_state)from));
        for (int to = 0; to < RESTORE_STATE_COUNT; to++) {
            if (restore_move_allowed((enum restore_state)from, (enum restore_state)to)) {
                strcat(text, " ");
                strcat(text, restore_state_name((enum restore_state)to));
            }
        }
        assert_string_equal(text, expected[from]);
    }
}

/* ---- every state, every event ---- */

static void nothing_more(void)
{
}

static void at_once(void)
{
    world.facts.now_us = 0;
}

static void after_seconds(void)
{
    world.facts.now_us = 6000000;
}

static void superseded(void)
{
    world.ordered = world.part;
    world.ordered.run = RUN;
    world.ordered.restart_checkpoint_id = OLDER;
    ckpt__v1__order_set__init(&world.orders);
    world.parts[0] = &world.ordered;
    world.orders.n_parts = 1;
    world.orders.parts = world.parts;
    world.facts.orders = &world.orders;
}

static void what_runs(void)
{
    world.restore.asked.what = RESTORE_OWNER;
}

static void last_refusal(void)
{
    world.restore.refusals = 9;
}

static void alone(void)
{
    after_seconds();
    world.restore.asked.what = RESTORE_NOTHING;
    world.facts.outage_run = RUN;
}

static void alone_in_a_run_that_ends(void)
{
    alone();
    world.restore.run = RUN;
    world.restore.begin = BEGIN(ENDING);
}

static void two_shards(void)
{
    world.restore.brought.mode = MODE(ALL);
    world.restore.brought.parts = 2;
    world.restore.brought.part_count = 2;
    world.point.n_shards = 2;
    world.restore.begin = BEGIN(MAY);
}

static void may_begin(void)
{
    world.restore.begin = BEGIN(MAY);
}

static void newest_and_may_begin(void)
{
    may_begin();
    world_name(1);
}

static void may_begin_and_reads(void)
{
    may_begin();
    world.restore.turn.reads_id = NEWEST;
}

static void others_restore(void)
{
    world.restore.begin = BEGIN(RESTORING);
}

static void only_from_the_copy(void)
{
    world.restore.turn.read = READ(ASK);
    world.restore.brought.by_copy = true;
}

static void second_of_two(void)
{
    two_shards();
    world.restore.brought.part_next = 1;
}

static void next_has_no_copy(void)
{
    two_shards();
    only_from_the_copy();
}

static void refused_twice(void)
{
    world.restore.worker_refusals = 2;
    world.restore.turn.reads_id = NEWEST;
}

static void away_for_long(void)
{
    world.restore.away_count = 29;
    world.restore.turn.reads_id = NEWEST;
}

static const struct {
    enum restore_state state;
    struct restore_event event;
    void (*with)(void);
    const char *expected;
} rows[] = {
#define AWAY .why = {REASON(STORAGE_UNAVAILABLE), "no answer"}
    {RESTORE_PAUSED, {.kind = RESTORE_TIMER}, nothing_more, "ASK -> ASKING"},
    {RESTORE_PAUSED, {.kind = RESTORE_WAKE}, nothing_more, "-> PAUSED"},
    {RESTORE_HELD, {.kind = RESTORE_TIMER}, nothing_more, "ASK -> ASKING"},
    {RESTORE_HELD, {.kind = RESTORE_WAKE}, nothing_more, "WAIT:0 -> PAUSED"},
    {RESTORE_ASKING, {.kind = RESTORE_WAKE}, nothing_more, "-> ASKING"},
    {RESTORE_ASKING, {.kind = RESTORE_POINT}, nothing_more, "TELL:9 OVER:SCRATCH -> OVER"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_GARBLED},
     nothing_more,
     "WAIT:500 -> PAUSED"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_LEADERLESS, .delay_ms = 700},
     at_once,
     "WAIT:700 -> PAUSED"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_LEADERLESS},
     after_seconds,
     "SAY:LEADERLESS WAIT:500 -> PAUSED"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_LEADERLESS},
     alone,
     "TELL_ALONE:9 OVER:ALONE -> OVER"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_LEADERLESS},
     alone_in_a_run_that_ends,
     "SAY:LEADERLESS WAIT:500 -> PAUSED"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_UNREGISTERED},
     at_once,
     "WAIT:500 -> PAUSED"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_UNREGISTERED},
     after_seconds,
     "SAY:UNREGISTERED WAIT:500 -> PAUSED"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_UNREGISTERED},
     last_refusal,
     "OVER:UNREGISTERED -> OVER"},
    {RESTORE_ASKING,
     {.kind = RESTORE_UNANSWERED, .silence = RESTORE_UNREGISTERED},
     what_runs,
     "OVER:NOBODYS -> OVER"},
    {RESTORE_NAMING, {.kind = RESTORE_WAKE}, nothing_more, "-> NAMING"},
    {RESTORE_NAMING, {.kind = RESTORE_NAMED, .uid = BOB}, nothing_more, "WAIT:0 -> PAUSED"},
    {RESTORE_NAMING,
     {.kind = RESTORE_NAMED, .end = RESTORE_MISSING},
     nothing_more,
     "WAIT:0 -> PAUSED"},
    {RESTORE_NAMING,
     {.kind = RESTORE_NAMED, .end = RESTORE_FAILED, AWAY},
     nothing_more,
     "SAY:OWNER_UNKNOWN WAIT:500 -> PAUSED"},
    {RESTORE_NAMING,
     {.kind = RESTORE_UNSTARTED, AWAY},
     nothing_more,
     "SAY:OWNER_UNKNOWN WAIT:2000 -> PAUSED"},
    {RESTORE_PREPARING, {.kind = RESTORE_WAKE}, nothing_more, "-> PREPARING"},
    {RESTORE_PREPARING, {.kind = RESTORE_PREPARED}, nothing_more, "WAIT:0 -> PAUSED"},
    {RESTORE_PREPARING,
     {.kind = RESTORE_PREPARED, .end = RESTORE_FAILED, AWAY},
     nothing_more,
     "WAIT:0 -> PAUSED"},
    {RESTORE_PREPARING,
     {.kind = RESTORE_PREPARED, .end = RESTORE_REFUSED, AWAY},
     nothing_more,
     "OVER:UNWRITABLE -> OVER"},
    {RESTORE_PREPARING, {.kind = RESTORE_UNSTARTED, AWAY}, may_begin, "OVER:SCRATCH -> OVER"},
    {RESTORE_PREPARING, {.kind = RESTORE_UNSTARTED, AWAY}, newest_and_may_begin, "READ -> READING"},
    {RESTORE_SWEEPING, {.kind = RESTORE_WAKE}, nothing_more, "-> SWEEPING"},
    {RESTORE_SWEEPING, {.kind = RESTORE_SWEPT}, nothing_more, "WAIT:0 -> PAUSED"},
    {RESTORE_READING, {.kind = RESTORE_WAKE}, nothing_more, "-> READING"},
    {RESTORE_READING, {.kind = RESTORE_WAKE}, superseded, "DROP -> DROPPING"},
    {RESTORE_READING, {.kind = RESTORE_STARTED}, nothing_more, "LOOK_LATER -> READING"},
    {RESTORE_READING, {.kind = RESTORE_UNSTARTED, AWAY}, nothing_more, "WAIT:2000 -> PAUSED"},
    {RESTORE_READING, {.kind = RESTORE_LOOK}, nothing_more, "LOOK -> READING"},
    {RESTORE_READING, {.kind = RESTORE_LOOKED}, nothing_more, "SAY:READING LOOK_LATER -> READING"},
    {RESTORE_READING, {.kind = RESTORE_READ}, may_begin, "LOOK_END OVER:RESTORED -> OVER"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .copy = RESTORE_COPY_USED},
     may_begin_and_reads,
     "LOOK_END COUNT_COPY LEAVE:14 OVER:RESTORED -> OVER"},
    {RESTORE_READING, {.kind = RESTORE_READ}, others_restore, "LOOK_END FOUND WAIT:5000 -> HELD"},
    {RESTORE_READING, {.kind = RESTORE_READ}, two_shards, "LOOK_END READ -> READING"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .copy = RESTORE_COPY_FAILED},
     second_of_two,
     "LOOK_END COPY_FAILED:1 OVER:RESTORED -> OVER"},
    {RESTORE_READING, {.kind = RESTORE_READ}, next_has_no_copy, "LOOK_END WAIT:0 -> PAUSED"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_CORRUPT, AWAY},
     nothing_more,
     "LOOK_END WARN FOUND WAIT:5000 -> HELD"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_MISSING, AWAY},
     nothing_more,
     "LOOK_END WARN FOUND WAIT:5000 -> HELD"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_CORRUPT, .copy = RESTORE_COPY_FAILED, AWAY},
     only_from_the_copy,
     "LOOK_END COPY_FAILED WAIT:0 -> PAUSED"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_REFUSED, AWAY},
     nothing_more,
     "LOOK_END WARN WAIT:2000 -> PAUSED"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_REFUSED, AWAY},
     refused_twice,
     "LOOK_END WARN LEAVE:14 OVER:UNREADABLE -> OVER"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_FAILED, AWAY},
     nothing_more,
     "LOOK_END WARN SAY:AWAY WAIT:2000 -> PAUSED"},
    {RESTORE_READING,
     {.kind = RESTORE_READ, .end = RESTORE_FAILED, AWAY},
     away_for_long,
     "LOOK_END WARN SAY:AWAY LEAVE:14 WAIT:2000 -> PAUSED"},
    {RESTORE_DROPPING, {.kind = RESTORE_WAKE}, superseded, "-> DROPPING"},
    {RESTORE_DROPPING, {.kind = RESTORE_LOOK}, nothing_more, "LOOK -> DROPPING"},
    {RESTORE_DROPPING,
     {.kind = RESTORE_LOOKED},
     nothing_more,
     "SAY:READING LOOK_LATER -> DROPPING"},
    {RESTORE_DROPPING,
     {.kind = RESTORE_READ, .end = RESTORE_CORRUPT, AWAY},
     nothing_more,
     "LOOK_END WAIT:0 -> PAUSED"},
#undef AWAY
};

static void each_event_comes_to_what_the_state_makes_of_it(void **state)
{
    bool taken[RESTORE_STATE_COUNT][RESTORE_EVENT_COUNT] = {{false}};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world_begin();
        world_enter(rows[i].state);
        rows[i].with();
        taken[rows[i].state][rows[i].event.kind] = true;
        if (strcmp(world_step(&rows[i].event, text), rows[i].expected) != 0)
            print_error("row %zu, %s, event %d\n", i, restore_state_name(rows[i].state),
                        (int)rows[i].event.kind);
        assert_string_equal(text, rows[i].expected);
    }
    for (int from = 0; from < RESTORE_STATE_COUNT; from++)
        for (int kind = 0; kind < RESTORE_EVENT_COUNT; kind++)
            assert_int_equal(
                taken[from][kind],
                restore_event_allowed((enum restore_state)from, (enum restore_event_kind)kind));
}

static int ends_by(const struct restore_event *event)
{
    const pid_t child = fork();
    char text[256];
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        world_step(event, text);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void an_event_that_a_state_cannot_have_is_a_bug(void **state)
{
    (void)state;
    for (int from = 0; from < RESTORE_STATE_COUNT; from++) {
        for (int kind = 0; kind < RESTORE_EVENT_COUNT; kind++) {
            const struct restore_event event = {.kind = (enum restore_event_kind)kind};

            world_begin();
            world_enter((enum restore_state)from);
            if (!restore_event_allowed((enum restore_state)from, event.kind))
                assert_int_equal(ends_by(&event), SIGABRT);
        }
    }
}

/* ---- every answer of the leader ---- */

static void of_a_user(void)
{
    strcpy(world.owner, "ann");
    world.point.owner = world.owner;
}

static void of_a_known_user(void)
{
    of_a_user();
    strcpy(world.restore.owner.name, "ann");
    world.restore.owner.named = true;
    world.restore.owner.uid = BOB;
}

static void of_nobody(void)
{
    world.restore.owner.first = false;
    world.point.owner_rule = RULE(REGISTERED);
}

static void of_whoever_comes(void)
{
    world.restore.owner.first = false;
    world.point.owner_rule = RULE(FIRST);
}

static void of_who_came_first(void)
{
    of_whoever_comes();
    world.point.user = BOB + 1;
}

static void of_root(void)
{
    of_nobody();
    world.restore.asked.uid = 0;
}

static void of_another_profile(void)
{
    strcpy(world.profile, "grpc");
    world.point.profile = world.profile;
    strcpy(world.restore.asked.profile, "signal");
}

static void of_a_foreign_profile(void)
{
    of_another_profile();
    world.facts.profile_known = false;
}

static void it_is_elsewhere(void)
{
    world.nodes[0] = world.node[1];
}

static void it_has_no_run(void)
{
    world.runs[0] = 0;
}

static void it_has_ended(void)
{
    world.point.allocation_state = STATE(FAILED);
    world.point.n_node_ids = world.point.n_runs = 0;
}

static void it_has_ended_for_long(void)
{
    it_has_ended();
    after_seconds();
}

static void it_has_ended_for_good(void)
{
    it_has_ended();
    last_refusal();
}

static void who_waits_for_a_restart(void)
{
    it_has_ended();
    world.restore.asked.wait = WAIT(RESTART);
}

static void it_comes_back(void)
{
    it_has_ended();
    world.point.restarts = true;
}

static void it_comes_back_still(void)
{
    it_comes_back();
    world.restore.awaits = true;
}

static void it_is_completed(void)
{
    last_refusal();
    world.point.allocation_state = STATE(COMPLETED);
    world.restore.asked.wait = WAIT(ANY);
}

static void a_spare(void)
{
    it_is_elsewhere();
    world.restore.asked.wait = WAIT(ANY);
}

static void it_starts_elsewhere(void)
{
    it_is_elsewhere();
    world.restore.awaits = true;
    world.point.allocation_state = STATE(STARTING);
}

static void it_is_restarted_here(void)
{
    world.restore.awaits = true;
}

static void it_only_asks_why(void)
{
    it_has_ended();
    world.restore.asked.wait = WAIT(NONE);
}

static void it_asks_why_too_early(void)
{
    world.restore.asked.wait = WAIT(NONE);
}

static void it_has_finished(void)
{
    world.restore.asked.finished_run = RUN;
}

static void it_prepares(void)
{
    world.restore.prepares = true;
    world.point.checkpoints_path = world.path;
}

static void it_prepares_for_another(void)
{
    it_prepares();
    world.restore.asked.uid = 0;
}

static void it_has_no_checkpoints(void)
{
    world.restore.prepares = true;
}

static void newest(void)
{
    world_name(1);
}

static void newest_of_two(void)
{
    world_pair();
    world_name(2);
}

static void scratch_beside_others(void)
{
    newest_of_two();
    world.restore.asked.what = RESTORE_NOTHING;
}

static void begun_from_what_is_gone(void)
{
    newest_of_two();
    world.part.restart_checkpoint_id = OLDER;
}

static void joined(void)
{
    newest_of_two();
    world.part.joined = true;
}

static void another_way(void)
{
    newest_of_two();
    world.point.restored_as = MODE(PATH);
    world.point.restored_part = 1;
}

static void all_of_two(void)
{
    newest_of_two();
    world.point.restore = MODE(ALL);
}

static void all_of_too_many(void)
{
    newest();
    world.point.n_shards = 257;
    world.point.restore = MODE(ALL);
}

/* Of one shard the other part verifies all. */
static void path_without_a_share(void)
{
    world_pair();
    world_name(1);
    world.nodes[0] = world.node[1];
    world.nodes[1] = world.node[0];
    world.point.restore = MODE(PATH);
}

static void no_shard_of_its_own(void)
{
    newest_of_two();
    world.point.own_shard = 0;
}

static void shard_that_is_not_there(void)
{
    newest_of_two();
    world.point.own_shard = 3;
}

static void has_to_ask(void)
{
    newest();
    world.part.read = READ(ASK);
}

static void has_asked(void)
{
    has_to_ask();
    world.restore.turn.reads_id = NEWEST;
    world.restore.run = RUN;
}

static void has_asked_and_was_heard(void)
{
    has_asked();
    world.restore.turn.heard = true;
}

static void has_a_copy(void)
{
    has_to_ask();
    world.entry.copy_count = 1;
    world.entry.copies[0] =
        (struct ledger_copy){.checkpoint_id = NEWEST, .state = COPY_HERE, .uid = ANN};
    strcpy(world.entry.copies[0].manifest_sha256, MANIFEST);
}

static void has_a_copy_that_is_bobs(void)
{
    has_a_copy();
    world.entry.copies[0].uid = BOB;
}

static void is_in_line(void)
{
    newest();
    world.part.read = READ(WAITS);
}

static void is_let_in(void)
{
    newest();
    world.part.read = READ(MAY);
}

static void has_restored(void)
{
    newest();
    world_bring(RESTORE_HAS);
}

static void has_restored_first(void)
{
    has_restored();
    world.part.begin = BEGIN(RESTORING);
}

static void has_restored_unheard(void)
{
    has_restored_first();
    world.restore.unheard = true;
}

static void has_restored_and_runs(void)
{
    has_restored();
    world.part.begin = BEGIN(RUNS);
}

static void has_restored_of_another_run(void)
{
    has_restored();
    world.restore.run = RUN - 1;
}

static void found_damaged(void)
{
    newest();
    world_bring(RESTORE_DAMAGED);
}

static void found_damaged_and_nothing_left(void)
{
    found_damaged();
    world.restore.brought.folder[0] = '\0';
    world.point.checkpoint_id = 0;
}

static void brought_another(void)
{
    newest();
    world_bring(RESTORE_HAS);
    world.point.checkpoint_id = OLDER;
}

static void run_that_ends(void)
{
    world.part.begin = BEGIN(ENDING);
}

static void names_what_runs(void)
{
    what_runs();
}

static void names_what_runs_elsewhere(void)
{
    what_runs();
    it_is_elsewhere();
}

static const struct {
    void (*with)(void);
    const char *expected;
} answers[] = {
    {of_a_user, "NAME -> NAMING"},
    {of_a_known_user, "OVER:STRANGER -> OVER"},
    {of_nobody, "OVER:UNOWNED -> OVER"},
    {of_whoever_comes, "TELL:9 OVER:SCRATCH -> OVER"},
    {of_who_came_first, "OVER:STRANGER -> OVER"},
    {of_root, "TELL:9 OVER:SCRATCH -> OVER"},
    {names_what_runs, "TELL:9 OVER:SCRATCH -> OVER"},
    {names_what_runs_elsewhere, "TELL OVER:SCRATCH -> OVER"},
    {of_another_profile, "OVER:PROFILE_OTHER -> OVER"},
    {of_a_foreign_profile, "OVER:PROFILE_UNKNOWN -> OVER"},
    {it_is_elsewhere, "WAIT:500 -> PAUSED"},
    {it_has_no_run, "WAIT:500 -> PAUSED"},
    {it_has_ended, "WAIT:500 -> PAUSED"},
    {it_has_ended_for_long, "SAY:REFUSAL WAIT:500 -> PAUSED"},
    {it_has_ended_for_good, "OVER:REFUSED -> OVER"},
    {who_waits_for_a_restart, "OVER:REFUSED -> OVER"},
    {it_comes_back, "HURRY SAY_AWAITS WAIT:5000 -> HELD"},
    {it_comes_back_still, "SAY:REFUSAL WAIT:5000 -> HELD"},
    {it_is_completed, "OVER:REFUSED -> OVER"},
    {a_spare, "HURRY SAY_AWAITS WAIT:5000 -> HELD"},
    {it_starts_elsewhere, "SAY:REFUSAL WAIT:5000 -> HELD"},
    {it_is_restarted_here, "HURRY TELL:9 OVER:SCRATCH -> OVER"},
    {it_only_asks_why, "OVER:RUN_ENDED -> OVER"},
    {it_asks_why_too_early, "WAIT:500 -> PAUSED"},
    {it_has_finished, "WAIT:5000 -> HELD"},
    {it_prepares, "TELL:9 PREPARE -> PREPARING"},
    {it_prepares_for_another, "TELL:9 OVER:SCRATCH -> OVER"},
    {it_has_no_checkpoints, "TELL:9 OVER:SCRATCH -> OVER"},
    {newest, "TELL:9 READ -> READING"},
    {newest_of_two, "TELL:9 READ -> READING"},
    {scratch_beside_others, "TELL:9 OVER:BESIDE -> OVER"},
    {begun_from_what_is_gone, "TELL:9 OVER:BEGUN_GONE -> OVER"},
    {joined, "TELL:9 OVER:JOINED -> OVER"},
    {another_way, "TELL:9 OVER:MODE_OTHER -> OVER"},
    {all_of_two, "TELL:9 READ -> READING"},
    {all_of_too_many, "TELL:9 OVER:TOO_MANY -> OVER"},
    {path_without_a_share, "TELL:9 OVER:RESTORED -> OVER"},
    {no_shard_of_its_own, "TELL:9 OVER:NO_SHARD -> OVER"},
    {shard_that_is_not_there, "TELL:9 OVER:NO_SHARD -> OVER"},
    {has_to_ask, "TELL:9 WANT:14 WAIT:5000 -> HELD"},
    {has_asked, "TELL:9 WAIT:5000 -> HELD"},
    {has_asked_and_was_heard, "TELL:9 WANT:14 WAIT:5000 -> HELD"},
    {has_a_copy, "TELL:9 READ -> READING"},
    {has_a_copy_that_is_bobs, "TELL:9 WANT:14 WAIT:5000 -> HELD"},
    {is_in_line, "TELL:9 SAY:IN_LINE WAIT:5000 -> HELD"},
    {is_let_in, "TELL:9 READ -> READING"},
    {has_restored, "TELL:9 OVER:RESTORED -> OVER"},
    {has_restored_first, "TELL:9 SAY:OTHERS WAIT:5000 -> HELD"},
    {has_restored_unheard, "TELL:9 SAY:OTHERS FOUND WAIT:5000 -> HELD"},
    {has_restored_and_runs, "TELL:9 SAY:BEGIN WAIT:5000 -> HELD"},
    {has_restored_of_another_run, "TELL:9 READ -> READING"},
    {found_damaged, "TELL:9 SAY:ANOTHER WAIT:5000 -> HELD"},
    {found_damaged_and_nothing_left, "TELL:9 SAY:BEGIN WAIT:5000 -> HELD"},
    {brought_another, "TELL:9 SWEEP -> SWEEPING"},
    {run_that_ends, "TELL:9 SAY:BEGIN WAIT:5000 -> HELD"},
};

static void each_answer_of_the_leader_comes_to_what_it_says(void **state)
{
    const struct restore_event event = {.kind = RESTORE_POINT};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        world_begin();
        answers[i].with();
        if (strcmp(world_step(&event, text), answers[i].expected) != 0)
            print_error("answer %zu\n", i);
        assert_string_equal(text, answers[i].expected);
    }
}

/* The application hears at the end which checkpoint was passed over, and why. */
static void what_was_passed_over_is_kept(void **state)
{
    const struct restore_event event = {.kind = RESTORE_POINT};
    char text[256];

    (void)state;
    world_begin();
    brought_another();
    world_step(&event, text);
    assert_uint_equal(world.restore.passed.checkpoint_id, NEWEST);
    assert_false(world.restore.passed.given_up);

    world_begin();
    brought_another();
    world.restore.outage = (struct restore_outage){600000, 5000, 3600000};
    world_step(&event, text);
    assert_uint_equal(world.restore.passed.checkpoint_id, NEWEST);
    assert_true(world.restore.passed.given_up);
    assert_uint_equal(world.restore.passed.repeated_ms, 600000);
    assert_uint_equal(world.restore.passed.max_ms, 3600000);
    assert_true(world.restore.left_away);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restore_moves_are_those_of_the_drawing),
        cmocka_unit_test(each_event_comes_to_what_the_state_makes_of_it),
        cmocka_unit_test(an_event_that_a_state_cannot_have_is_a_bug),
        cmocka_unit_test(each_answer_of_the_leader_comes_to_what_it_says),
        cmocka_unit_test(what_was_passed_over_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
