/* Failover drills as a record: which guards hold them back, how they go on by the state's clock,
 * what they count and what lets them pass. V-015 */
#include "tests/unit/fsm/expect.h"

#include "fsm/audit.h"
#include "fsm/core/state.h"
#include "fsm/drill.h"
#include "fsm/level.h"
#include "src/base/check.h"

#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name
#define KIND(name)  CKPT__V1__DRILL_KIND__DRILL_KIND_##name

enum { LEAD_MS = FSM_DRILL_LEAD_MS, FAULT_MS = 10000 };

static void open_cluster(struct script *script)
{
    script_start(script);
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "role %d voter name=n%d", i, i);
}

static const Ckpt__V1__Drill *drill_of(const struct script *script, uint64_t id)
{
    const Ckpt__V1__Drill *drill = fsm_drill_find(script->fsm, id);

    assert_non_null(drill);
    return drill;
}

static void tick_after(struct script *script, uint64_t ms)
{
    expect_ok(script, "after %" PRIu64, ms);
    expect_ok(script, "tick");
}

/* To the words of a leader's end. */
static void run_to_settling(struct script *script, const char *words)
{
    expect_ok(script, "drill %s", words);
    tick_after(script, LEAD_MS);
    assert_int_equal(fsm_drill_open(script->fsm)->state, STATE(FAULT));
    expect_ok(script, "leader 2");
    tick_after(script, FAULT_MS);
    assert_int_equal(fsm_drill_open(script->fsm)->state, STATE(SETTLING));
}

static const char *broken_check(const Ckpt__V1__Drill *drill)
{
    struct fsm_drill_check checks[FSM_DRILL_CHECK_COUNT];

    if (fsm_drill_check(drill, checks))
        return "";
    for (size_t i = 0; i < FSM_DRILL_CHECK_COUNT; i++)
        if (checks[i].failed)
            return checks[i].name;
    fail_msg("no check failed");
    return NULL;
}

static void a_drill_goes_on_by_the_states_clock_and_passes(void **unused)
{
    struct script script;
    const Ckpt__V1__Drill *drill;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "drill leader-kill member=1");
    drill = drill_of(&script, 1);
    assert_int_equal(drill->state, STATE(ARMED));
    assert_int_equal(drill->n_members, 3);
    tick_after(&script, LEAD_MS - 1);
    assert_int_equal(drill->state, STATE(ARMED));
    tick_after(&script, 1);
    assert_int_equal(drill->state, STATE(FAULT));
    assert_int_equal(drill->fault_ms, drill->begun_ms + LEAD_MS);
    expect_ok(&script, "leader 3");
    assert_int_equal(drill->new_leader_id, 3);
    tick_after(&script, FAULT_MS);
    assert_int_equal(drill->state, STATE(SETTLING));
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "tell 1 member=%d", i);
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_string_equal(broken_check(drill), "");
    assert_int_equal(drill->state, STATE(PASSED));
    assert_int_equal(fsm_drill_passed_ms(script.fsm), drill->ended_ms);
    assert_null(fsm_drill_open(script.fsm));
    script_close(&script);
}

static void each_guard_refuses_by_its_own_status(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    expect_status(&script, DRILL_UNSUPERVISED, "drill leader-kill unsupervised");
    expect_status(&script, DRILL_TOLERANCE, "drill member-loss member=2 tolerance=0");
    expect_status(&script, DRILL_UPGRADE, "drill leader-hang builds=2");
    expect_status(&script, DRILL_BEHIND, "drill leader-hang behind");
    expect_status(&script, TARGET_NOT_FOUND, "drill storage-outage target=none");
    expect_status(&script, ALLOCATION_NOT_FOUND, "drill leader-kill job=none");
    expect_ok(&script, "register late nodes=n1 later id=r1");
    expect_status(&script, ALLOCATION_ENDED, "drill leader-kill job=late");
    expect_status(&script, INVALID_ARGUMENT, "drill none");
    expect_status(&script, INVALID_ARGUMENT, "drill leader-kill duration=1999");
    expect_status(&script, INVALID_ARGUMENT, "drill leader-kill duration=600001");
    expect_status(&script, INVALID_ARGUMENT, "drill leader-kill target=scratch");
    expect_status(&script, INVALID_ID, "drill storage-outage");
    expect_ok(&script, "target scratch down");
    expect_status(&script, DRILL_OUTAGE, "drill leader-kill");
    expect_ok(&script, "target scratch up");
    assert_null(fsm_drill_at(script.fsm, 0));
    /* A hang and a loss end no process. */
    expect_ok(&script, "drill leader-hang unsupervised");
    expect_status(&script, DRILL_UNDER_WAY, "drill leader-kill");
    script_close(&script);
}

/* The script begins 16 minutes after midnight. */
static void drills_begin_within_the_window_alone_also_over_midnight(void **unused)
{
    static const struct {
        unsigned from, minutes;
        bool open;
    } rows[] = {{1440, 1440, true}, {16, 1, true},    {15, 1, false},
                {17, 1439, false},  {1439, 18, true}, {1439, 17, false}};
    struct script script;

    (void)unused;
    open_cluster(&script);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        expect_ok(&script, "policy drill_from=%u drill_minutes=%u", rows[i].from, rows[i].minutes);
        if (rows[i].open) {
            expect_ok(&script, "drill leader-kill");
            expect_ok(&script, "leader 2");
        } else {
            expect_status(&script, DRILL_WINDOW, "drill leader-kill");
        }
    }
    script_close(&script);
}

/* V-013: a member of an earlier release would not know the command. */
static void a_cluster_of_level_1_is_asked_for_none(void **unused)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__StartDrill start = CKPT__LOG__V1__START_DRILL__INIT;
    struct fsm_outcome outcome = {.status = FSM_OK};
    struct script script;

    (void)unused;
    script_open(&script);
    expect_ok(&script, "init level=1");
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_START_DRILL;
    command.start_drill = &start;
    assert_int_equal(fsm_validate_level(script.fsm, &command, &outcome), FSM_FEATURE_LEVEL);
    assert_int_equal(outcome.current, 2);
    script_close(&script);
}

static void another_leader_before_the_fault_aborts_it(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "drill leader-kill");
    expect_ok(&script, "leader 2");
    assert_int_equal(drill_of(&script, 1)->state, STATE(ABORTED));
    assert_int_equal(drill_of(&script, 1)->fault_ms, 0);
    tick_after(&script, LEAD_MS + FAULT_MS);
    assert_int_equal(fsm_drill_passed_ms(script.fsm), 0);
    script_close(&script);
}

static void a_lost_change_and_one_that_was_done_twice_fail_it(void **unused)
{
    static const struct {
        int probes;
        const char *broken;
    } rows[] = {{2, ""}, {3, "acknowledged changes lost"}, {1, "changes done twice"}};

    (void)unused;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fsm_audit before, after;
        struct script script;

        open_cluster(&script);
        run_to_settling(&script, "leader-kill");
        /* A process that was started again counts anew; a retry is not counted. */
        fsm_get_audit(script.fsm, &before);
        expect_ok(&script, "probe 1 member=1 run=5");
        expect_ok(&script, "probe 1 member=1 run=7 id=a");
        expect_ok(&script, "probe 1 member=1 run=7 id=b");
        fsm_get_audit(script.fsm, &after); /* probes push no record of anybody out */
        assert_true(before.sequence > 0 && after.sequence == before.sequence);
        expect_ok(&script, "probe 1 member=1 run=7 id=a");
        expect_status(&script, DRILL_NOT_FOUND, "probe 1 member=1 run=5");
        expect_status(&script, DRILL_NOT_FOUND, "probe 1 member=9 run=5");
        expect_status(&script, DRILL_NOT_FOUND, "probe 2 member=1 run=7");
        expect_ok(&script, "tell 1 member=1 run=7 probes=%d", rows[i].probes);
        expect_ok(&script, "tell 1 member=2");
        expect_ok(&script, "tell 1 member=3");
        tick_after(&script, FSM_DRILL_LOOK_MS);
        assert_string_equal(broken_check(drill_of(&script, 1)), rows[i].broken);
        assert_int_equal(drill_of(&script, 1)->state,
                         rows[i].broken[0] == '\0' ? STATE(PASSED) : STATE(FAILED));
        script_close(&script);
    }
}

static void a_member_that_is_silent_or_differs_fails_it(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    run_to_settling(&script, "leader-kill");
    expect_ok(&script, "tell 1 member=1");
    expect_ok(&script, "tell 1 member=2");
    tick_after(&script, 29999);
    assert_int_equal(drill_of(&script, 1)->state, STATE(SETTLING));
    tick_after(&script, 1);
    assert_int_equal(drill_of(&script, 1)->state, STATE(FAILED));
    assert_string_equal(broken_check(drill_of(&script, 1)), "members that told nothing");
    run_to_settling(&script, "leader-hang");
    expect_ok(&script, "tell 2 member=1 other_state");
    expect_ok(&script, "tell 2 member=2");
    expect_ok(&script, "tell 2 member=3 away=10001");
    expect_ok(&script, "tell 2 member=1"); /* the first word counts */
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_string_equal(broken_check(drill_of(&script, 2)), "members with another state");
    script_close(&script);
}

static void a_fault_that_did_not_come_fails_it(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "drill member-loss member=3");
    tick_after(&script, LEAD_MS);
    tick_after(&script, FAULT_MS);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "tell 1 member=%d %s", i, i == 2 ? "fault" : "");
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_string_equal(broken_check(drill_of(&script, 1)), "the fault did not come");
    expect_ok(&script, "drill member-loss member=3");
    tick_after(&script, LEAD_MS);
    tick_after(&script, FAULT_MS);
    for (int i = 1; i <= 3; i++)
        expect_ok(&script, "tell 2 member=%d away=%d %s", i, i == 3 ? 15000 : 20,
                  i == 3 ? "fault" : "");
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_int_equal(drill_of(&script, 2)->state, STATE(PASSED));
    script_close(&script);
}

static void tell_all(struct script *script, uint64_t drill)
{
    for (int i = 1; i <= 3; i++)
        expect_ok(script, "tell %" PRIu64 " member=%d", drill, i);
}

/* S1-062: paused ones are resumed exactly once. */
static void an_outage_waits_for_the_target_and_counts_what_was_resumed(void **unused)
{
    struct script script;
    const Ckpt__V1__Drill *drill;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j1 nodes=n1 id=r1");
    expect_ok(&script, "drill storage-outage target=scratch job=j1");
    drill = drill_of(&script, 1);
    tick_after(&script, LEAD_MS);
    assert_int_not_equal(drill->checkpoint_id, 0);
    expect_ok(&script, "after 700");
    expect_ok(&script, "target scratch down");
    expect_ok(&script, "target other down");
    assert_int_equal(drill->down_ms, 700);
    tick_after(&script, FAULT_MS - 700);
    tell_all(&script, 1);
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_int_equal(drill->state, STATE(SETTLING));
    expect_ok(&script, "target scratch up");
    assert_int_equal(drill->up_ms, FAULT_MS + FSM_DRILL_LOOK_MS);
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_string_equal(broken_check(drill), "");
    assert_int_equal(drill->state, STATE(PASSED));
    assert_int_equal(drill->paused, 1);
    assert_int_equal(drill->resumed, 1);
    assert_true(drill->checkpoint_complete);
    script_close(&script);
}

static void the_jobs_checkpoint_must_come(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j1 nodes=n1 id=r1");
    run_to_settling(&script, "leader-kill job=j1");
    tell_all(&script, 1);
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_int_equal(drill_of(&script, 1)->state, STATE(SETTLING));
    expect_ok(&script, "cancel 1-1");
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_string_equal(broken_check(drill_of(&script, 1)), "the checkpoint did not come");
    script_close(&script);
}

static void a_restore_needs_a_backup_and_reads_the_newest_checkpoint(void **unused)
{
    struct script script;
    const Ckpt__V1__Drill *drill;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "node n1 ready boot=b1");
    expect_ok(&script, "register j1 nodes=n1 id=r1");
    expect_ok(&script, "request j1");
    expect_ok(&script, "grant 1-1");
    expect_ok(&script, "report n1 shard_verified j1 ckpt=1-1");
    expect_ok(&script, "drill restore tolerance=0");
    drill = drill_of(&script, 1);
    tick_after(&script, LEAD_MS);
    assert_int_not_equal(drill->checkpoint_id, 0);
    tick_after(&script, FAULT_MS);
    expect_ok(&script, "tell 1 member=1 backup");
    expect_ok(&script, "tell 1 member=2");
    expect_ok(&script, "tell 1 member=3");
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_int_equal(drill->state, STATE(SETTLING)); /* the checkpoint is not read yet */
    expect_ok(&script, "verified 1-1 whole");
    tick_after(&script, FSM_DRILL_LOOK_MS);
    assert_string_equal(broken_check(drill), "");
    assert_int_equal(drill->state, STATE(PASSED));
    script_close(&script);
}

static void the_oldest_gives_way_and_ids_go_on(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    for (int i = 0; i < FSM_DRILLS_MAX + 3; i++) {
        expect_ok(&script, "drill leader-kill");
        expect_ok(&script, "leader 2");
    }
    assert_int_equal(fsm_drill_at(script.fsm, 0)->drill_id, 4);
    assert_int_equal(fsm_drill_at(script.fsm, FSM_DRILLS_MAX - 1)->drill_id, FSM_DRILLS_MAX + 3);
    assert_null(fsm_drill_at(script.fsm, FSM_DRILLS_MAX));
    script_close(&script);
}

#define SPOIL(name, change)                                                                        \
    static void spoil_##name(Ckpt__V1__Drill *drill)                                               \
    {                                                                                              \
        change;                                                                                    \
    }
SPOIL(id, drill->drill_id = 0)
SPOIL(kind, drill->kind = KIND(UNSPECIFIED))
SPOIL(state, drill->state = STATE(UNSPECIFIED))
SPOIL(due, drill->due_ms = 0)
SPOIL(look, drill->look_ms = 0)
SPOIL(ended, drill->ended_ms = 1)
SPOIL(duration, drill->duration_ms = 0)
SPOIL(members, drill->members[0]->member_id = 0)
SPOIL(fault, drill->fault_ms = 1)
SPOIL(paused, drill->paused_before = 1)
SPOIL(resumed, drill->resumed = UINT64_MAX)
SPOIL(future, drill->begun_ms = UINT64_MAX)
SPOIL(checkpoint, drill->checkpoint_id = 1)
SPOIL(complete, drill->checkpoint_complete = true)
SPOIL(no_fault, drill->state = STATE(FAULT))

/* A snapshot's record that would stop the program later is refused while it is read. */
static void a_record_that_contradicts_itself_is_not_taken(void **unused)
{
    static const struct {
        const char *what;
        void (*spoil)(Ckpt__V1__Drill *drill);
    } rows[] = {
#define ROW(change) {#change, spoil_##change}
        ROW(id),      ROW(kind),     ROW(state),      ROW(due),      ROW(look),
        ROW(ended),   ROW(duration), ROW(members),    ROW(fault),    ROW(paused),
        ROW(resumed), ROW(future),   ROW(checkpoint), ROW(complete), ROW(no_fault),
#undef ROW
    };
    struct script script;

    (void)unused;
    for (size_t i = 0; i <= ARRAY_COUNT(rows); i++) {
        Ckpt__V1__DrillMember member = CKPT__V1__DRILL_MEMBER__INIT, *members[] = {&member};
        Ckpt__V1__Drill drill = CKPT__V1__DRILL__INIT;

        open_cluster(&script);
        drill.drill_id = 1;
        drill.kind = KIND(LEADER_KILL);
        drill.state = STATE(ARMED);
        drill.duration_ms = FAULT_MS;
        drill.look_ms = drill.due_ms = 2000000;
        member.member_id = 1;
        drill.members = members;
        drill.n_members = 1;
        if (i < ARRAY_COUNT(rows))
            rows[i].spoil(&drill);
        if (fsm_drill_valid(script.fsm, &drill) != (i == ARRAY_COUNT(rows)))
            fail_msg("%s", i == ARRAY_COUNT(rows) ? "a whole one" : rows[i].what);
        script_close(&script);
    }
}

static void a_restored_epoch_aborts_it(void **unused)
{
    struct script script;

    (void)unused;
    open_cluster(&script);
    expect_ok(&script, "drill leader-kill");
    expect_ok(&script, "epoch 2");
    assert_int_equal(drill_of(&script, 1)->state, STATE(ABORTED));
    script_close(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drill_goes_on_by_the_states_clock_and_passes),
        cmocka_unit_test(each_guard_refuses_by_its_own_status),
        cmocka_unit_test(drills_begin_within_the_window_alone_also_over_midnight),
        cmocka_unit_test(a_cluster_of_level_1_is_asked_for_none),
        cmocka_unit_test(another_leader_before_the_fault_aborts_it),
        cmocka_unit_test(a_lost_change_and_one_that_was_done_twice_fail_it),
        cmocka_unit_test(a_member_that_is_silent_or_differs_fails_it),
        cmocka_unit_test(a_fault_that_did_not_come_fails_it),
        cmocka_unit_test(an_outage_waits_for_the_target_and_counts_what_was_resumed),
        cmocka_unit_test(the_jobs_checkpoint_must_come),
        cmocka_unit_test(a_restore_needs_a_backup_and_reads_the_newest_checkpoint),
        cmocka_unit_test(the_oldest_gives_way_and_ids_go_on),
        cmocka_unit_test(a_record_that_contradicts_itself_is_not_taken),
        cmocka_unit_test(a_restored_epoch_aborts_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
