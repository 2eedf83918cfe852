/* ckptctl drill: the plan with its guards, a run that is followed to its report, the report as text
 * and as a page. V-015 */
#include <stdio.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

#define TEXT(text)  ((char *)(uintptr_t)(text))
#define STATE(name) CKPT__V1__DRILL_STATE__DRILL_STATE_##name
#define KIND(name)  CKPT__V1__DRILL_KIND__DRILL_KIND_##name

enum { MEMBERS = 2 };

static struct scene {
    struct harness h;
    Ckpt__V1__PlanDrillReply plan;
    Ckpt__V1__DrillGuard guards[2], *guard_pointers[2];
    Ckpt__V1__RunDrillReply begun;
    Ckpt__V1__ListDrillsReply armed, ended;
    Ckpt__V1__DrillResult armed_result, result, *armed_pointer, *pointer;
    Ckpt__V1__Drill armed_drill, drill;
    Ckpt__V1__DrillCheck check, *check_pointer;
    Ckpt__V1__DrillMember members[MEMBERS], *member_pointers[MEMBERS];
    Ckpt__V1__DrillWord words[MEMBERS];
} scene;

#define expect_run(code, words) assert_int_equal(harness_run(&scene.h, words), code)

static void fill_members(void)
{
    static const char *const names[MEMBERS] = {"n1", "<b>n2</b>"};

    for (size_t i = 0; i < MEMBERS; i++) {
        ckpt__v1__drill_word__init(&scene.words[i]);
        scene.words[i].probes = 500;
        ckpt__v1__drill_member__init(&scene.members[i]);
        scene.members[i].member_id = i + 1;
        scene.members[i].name = TEXT(names[i]);
        scene.members[i].word = &scene.words[i];
        scene.member_pointers[i] = &scene.members[i];
    }
}

static void fill_drill(void)
{
    ckpt__v1__drill__init(&scene.drill);
    scene.drill.drill_id = 7;
    scene.drill.kind = KIND(LEADER_KILL);
    scene.drill.state = STATE(PASSED);
    scene.drill.member_id = 1;
    scene.drill.term = 4;
    scene.drill.new_term = 5;
    scene.drill.new_leader_id = 2;
    scene.drill.begun_ms = 1700000000000;
    scene.drill.ended_ms = 1700000008500;
    scene.drill.n_members = MEMBERS;
    scene.drill.members = scene.member_pointers;
    scene.armed_drill = scene.drill;
    scene.armed_drill.state = STATE(ARMED);
    scene.armed_drill.ended_ms = 0;
    ckpt__v1__drill_check__init(&scene.check);
    scene.check.name = TEXT("acknowledged changes lost");
    scene.check_pointer = &scene.check;
    ckpt__v1__drill_result__init(&scene.result);
    scene.result.n_checks = 1;
    scene.result.checks = &scene.check_pointer;
    scene.result.away_p50_ms = 61;
    scene.result.away_max_ms = 72;
    scene.result.elected_ms = 35;
    scene.armed_result = scene.result;
    scene.result.drill = &scene.drill;
    scene.armed_result.drill = &scene.armed_drill;
    scene.pointer = &scene.result;
    scene.armed_pointer = &scene.armed_result;
}

static int scene_open(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    harness_init(&scene.h);
    fill_members();
    fill_drill();
    ckpt__v1__list_drills_reply__init(&scene.ended);
    scene.ended.cluster_id = TEXT("demo");
    scene.ended.max_age_ms = 2592000000;
    scene.ended.applied_index = 20;
    scene.ended.n_drills = 1;
    scene.armed = scene.ended;
    scene.armed.applied_index = 10;
    scene.armed.drills = &scene.armed_pointer;
    scene.ended.drills = &scene.pointer;
    ckpt__v1__plan_drill_reply__init(&scene.plan);
    scene.plan.kind = KIND(LEADER_KILL);
    scene.plan.member_name = TEXT("n1");
    scene.plan.does = TEXT("it ends");
    scene.plan.costs = TEXT("a moment");
    scene.plan.lead_ms = 3000;
    scene.plan.possible = true;
    for (size_t i = 0; i < 2; i++) {
        ckpt__v1__drill_guard__init(&scene.guards[i]);
        scene.guards[i].name = TEXT(i == 0 ? "alone" : "supervised");
        scene.guard_pointers[i] = &scene.guards[i];
    }
    scene.plan.n_guards = 2;
    scene.plan.guards = scene.guard_pointers;
    ckpt__v1__run_drill_reply__init(&scene.begun);
    scene.begun.drill_id = 7;
    return 0;
}

static int scene_close(void **state)
{
    (void)state;
    harness_close(&scene.h);
    return 0;
}

static void answer_plan(void)
{
    harness_answer(&scene.h, NULL, "OperatorService/PlanDrill", RPC_OK, "", &scene.plan.base);
}

static void answer_list(const char *endpoint, const Ckpt__V1__ListDrillsReply *reply)
{
    harness_answer(&scene.h, endpoint, "OperatorService/ListDrills", RPC_OK, "", &reply->base);
}

static void the_plan_has_the_guards_and_their_exit_code(void **state)
{
    (void)state;
    answer_plan();
    expect_run(CLI_OK, "drill plan leader-kill");
    assert_contains(scene.h.out, "plan: drill leader-kill of n1");
    assert_contains(scene.h.out, "it may cost  a moment");
    assert_contains(scene.h.out, "supervised  ok");
    expect_run(CLI_OK, "drill plan leader_kill -o json");
    assert_contains(scene.h.out, "\"possible\": true");
    expect_run(CLI_USAGE, "drill plan leader");
    assert_contains(scene.h.error, "no drill is called \"leader\": leader-kill, leader-hang");
    expect_run(CLI_USAGE, "drill plan leader-kill --duration 1s");
}

static void a_guard_that_does_not_hold_is_refused(void **state)
{
    (void)state;
    scene.plan.possible = false;
    scene.guards[1].text = TEXT("DRILL_UNSUPERVISED: nobody");
    answer_plan();
    harness_answer(&scene.h, NULL, "OperatorService/RunDrill", RPC_FAILED_PRECONDITION,
                   "DRILL_UNSUPERVISED: nobody", NULL);
    expect_run(CLI_REFUSED, "drill plan leader-kill");
    assert_contains(scene.h.out, "supervised  DOES NOT HOLD: DRILL_UNSUPERVISED: nobody");
    expect_run(CLI_REFUSED, "drill run leader-kill --yes");
    assert_contains(scene.h.error, "DRILL_UNSUPERVISED");
}

/* The leader may be the one that does not answer: the newest answer of any member counts. */
static void a_run_is_followed_by_what_any_member_says(void **state)
{
    (void)state;
    answer_plan();
    harness_answer(&scene.h, NULL, "OperatorService/RunDrill", RPC_OK, "", &scene.begun.base);
    answer_list("a:1", &scene.armed);
    answer_list("b:1", &scene.ended);
    expect_run(CLI_USAGE, "--endpoints a:1,b:1 drill run leader-kill");
    assert_contains(scene.h.error, "needs --yes");
    expect_run(CLI_OK, "--endpoints a:1,b:1 drill run leader-kill --yes --job j");
    assert_contains(scene.h.out, "drill 7: leader-kill, PASSED");
    assert_contains(scene.h.out, "61 ms in the middle, 72 ms at most");
    assert_contains(scene.h.out, "1000 asked for and acknowledged");
    assert_contains(scene.h.out, "acknowledged changes lost");
    expect_run(CLI_OK, "--endpoints a:1,b:1 drill run leader-kill --yes --no-wait");
    assert_contains(scene.h.error, "ckptctl drill report 7");
}

static void a_drill_that_has_not_passed_is_told_by_the_exit_code(void **state)
{
    (void)state;
    scene.drill.state = STATE(FAILED);
    scene.check.failed = true;
    answer_plan();
    harness_answer(&scene.h, NULL, "OperatorService/RunDrill", RPC_OK, "", &scene.begun.base);
    answer_list("a:1", &scene.ended);
    expect_run(CLI_FAILED, "--endpoints a:1 drill run leader-kill --yes");
    assert_contains(scene.h.out, "FAILED");
    scene.drill.state = STATE(ABORTED);
    expect_run(CLI_REFUSED, "--endpoints a:1 drill run leader-kill --yes");
    assert_contains(scene.h.out, "nothing was failed");
}

static void the_list_says_when_one_is_due(void **state)
{
    (void)state;
    answer_list(NULL, &scene.ended);
    expect_run(CLI_OK, "drill list");
    assert_contains(scene.h.out, "leader-kill  PASSED");
    assert_contains(scene.h.error, "no drill has passed yet; one is due every 30d");
    scene.ended.last_passed_ms = scene.drill.ended_ms;
    scene.ended.now_ms = scene.drill.ended_ms + scene.ended.max_age_ms;
    expect_run(CLI_OK, "drill list");
    assert_string_equal(scene.h.error, "");
    scene.ended.now_ms++;
    expect_run(CLI_OK, "drill list -o name");
    assert_string_equal(scene.h.out, "7\n");
    assert_contains(scene.h.error, "the last one that passed is 30d");
}

static void a_report_is_found_by_its_number_or_is_the_last_one(void **state)
{
    (void)state;
    answer_list(NULL, &scene.ended);
    expect_run(CLI_OK, "drill report");
    assert_contains(scene.h.out, "drill 7: leader-kill, PASSED");
    expect_run(CLI_OK, "drill report 7 -o json");
    assert_contains(scene.h.out, "\"away_max_ms\": 72");
    scene.pointer = &scene.armed_result;
    expect_run(CLI_OK, "drill report");
    assert_contains(scene.h.out, "drill 7: leader-kill, ARMED");
    assert_contains(scene.h.out, "it is under way");
    assert_lacks(scene.h.out, "acknowledged changes lost");
    expect_run(CLI_NOT_FOUND, "drill report 8");
    assert_contains(scene.h.error, "there is no drill 8");
    expect_run(CLI_USAGE, "drill report last");
    scene.ended.n_drills = 0;
    expect_run(CLI_NOT_FOUND, "drill report");
    assert_contains(scene.h.error, "there was no drill yet");
}

/* A member's name is a text of a configuration, and drives no browser. */
static void the_page_needs_nothing_else_and_holds_no_foreign_markup(void **state)
{
    char path[] = "/tmp/drill-XXXXXX", words[128], page[8192] = "";
    int fd = mkstemp(path);
    ssize_t length;

    (void)state;
    assert_true(fd >= 0);
    answer_list(NULL, &scene.ended);
    snprintf(words, sizeof(words), "drill report --html %s", path);
    expect_run(CLI_OK, words);
    length = read(fd, page, sizeof(page) - 1);
    assert_true(length > 0);
    close(fd);
    unlink(path);
    assert_contains(page, "<b class=\"v PASSED\">PASSED</b>");
    assert_contains(page, "&lt;b&gt;n2&lt;/b&gt;, term 5 after 4");
    assert_lacks(page, "<b>n2");
    assert_lacks(page, "http");
    assert_contains(page, "<h2>All drills</h2>");
    expect_run(CLI_FAILED, "drill report --html /nowhere/at/all");
    assert_contains(scene.h.error, "cannot write /nowhere/at/all");
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, scene_open, scene_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(the_plan_has_the_guards_and_their_exit_code),
        WITH(a_guard_that_does_not_hold_is_refused),
        WITH(a_run_is_followed_by_what_any_member_says),
        WITH(a_drill_that_has_not_passed_is_told_by_the_exit_code),
        WITH(the_list_says_when_one_is_due),
        WITH(a_report_is_found_by_its_number_or_is_the_last_one),
        WITH(the_page_needs_nothing_else_and_holds_no_foreign_markup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
