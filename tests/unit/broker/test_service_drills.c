/* Drills as clients ask for them, by a real replica of one member: refusals by name, a plan that
 * changes nothing, a retry. A drill of a kill is refused there: nobody else could lead. V-015 */
#include "ckpt/v1/drill.pb-c.h"
#include "tests/unit/broker/service_calls.h"

#define KIND(name) CKPT__V1__DRILL_KIND__DRILL_KIND_##name

static struct answer answer;

static char *constant(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void run_is(const char *id, const char *kind, int status, const char *text)
{
    Ckpt__V1__DrillRequest request = CKPT__V1__DRILL_REQUEST__INIT;

    request.request_id = constant(id);
    request.name = constant(kind);
    call(OPERATOR("RunDrill"), &request.base, &answer);
    expect(&answer, status, text);
}

static Ckpt__V1__RunDrillReply *reply_of(void)
{
    Ckpt__V1__RunDrillReply *reply =
        ckpt__v1__run_drill_reply__unpack(NULL, answer.length, answer.bytes);

    assert_non_null(reply);
    return reply;
}

static void refusals_have_the_guards_names(void **state)
{
    Ckpt__V1__DrillRequest request = CKPT__V1__DRILL_REQUEST__INIT;

    (void)state;
    run_is("", "restore", RPC_INVALID_ARGUMENT, "REQUEST_ID_MISSING: ");
    run_is("a", "none", RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT: ");
    run_is("b", "leader-kill", RPC_FAILED_PRECONDITION,
           "DRILL_TOLERANCE: 0 more members may fail, a drill needs 1; ");
    request.request_id = constant("c");
    request.name = constant("storage-outage");
    request.target_id = constant("nowhere");
    call(OPERATOR("RunDrill"), &request.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "TARGET_NOT_FOUND: ");
}

static void a_plan_has_all_guards_and_begins_nothing(void **state)
{
    Ckpt__V1__PlanDrillRequest request = CKPT__V1__PLAN_DRILL_REQUEST__INIT;
    Ckpt__V1__ListDrillsRequest list = CKPT__V1__LIST_DRILLS_REQUEST__INIT;
    Ckpt__V1__ListDrillsReply *listed;
    Ckpt__V1__PlanDrillReply *plan;
    char text[2000] = "";

    (void)state;
    call(OPERATOR("PlanDrill"), &request.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "kind");
    request.kind = (Ckpt__V1__DrillKind)77; /* a client of another build: members ended at it */
    call(OPERATOR("PlanDrill"), &request.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "kind");
    request.kind = KIND(STORAGE_OUTAGE);
    memset(text, 'x', sizeof(text) - 1);
    request.target_id = text;
    call(OPERATOR("PlanDrill"), &request.base, &answer);
    expect(&answer, RPC_RESOURCE_EXHAUSTED, "target_id");
    request.target_id = constant("");
    request.kind = KIND(LEADER_KILL);
    request.allocation_id = constant("nobodys");
    call(OPERATOR("PlanDrill"), &request.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "ALLOCATION_NOT_FOUND: ");
    request.allocation_id = constant("");
    call(OPERATOR("PlanDrill"), &request.base, &answer);
    expect(&answer, RPC_OK, "");
    plan = ckpt__v1__plan_drill_reply__unpack(NULL, answer.length, answer.bytes);
    assert_non_null(plan);
    assert_false(plan->possible);
    assert_int_equal(plan->n_guards, 10);
    assert_int_equal(plan->duration_ms, 20000);
    assert_string_equal(plan->guards[0]->text, "");
    assert_non_null(strstr(plan->guards[7]->text, "DRILL_TOLERANCE: "));
    ckpt__v1__plan_drill_reply__free_unpacked(plan, NULL);
    call(OPERATOR("ListDrills"), &list.base, &answer);
    expect(&answer, RPC_OK, "");
    listed = ckpt__v1__list_drills_reply__unpack(NULL, answer.length, answer.bytes);
    assert_int_equal(listed->n_drills, 0);
    ckpt__v1__list_drills_reply__free_unpacked(listed, NULL);
}

/* The answer is lost with the leader that a drill kills: the next one is asked with the same id,
 * and has other facts to add. */
static void a_retry_is_the_first_drill(void **state)
{
    Ckpt__V1__RunDrillReply *first, *again;

    (void)state;
    run_is("d", "restore", RPC_OK, "");
    first = reply_of();
    run_is("d", "leader-kill", RPC_OK, "");
    again = reply_of();
    assert_int_equal(first->drill_id, 1);
    assert_int_equal(again->drill_id, 1);
    assert_false(first->repeated);
    assert_true(again->repeated);
    ckpt__v1__run_drill_reply__free_unpacked(first, NULL);
    ckpt__v1__run_drill_reply__free_unpacked(again, NULL);
    run_is("e", "restore", RPC_FAILED_PRECONDITION, "DRILL_UNDER_WAY: drill 1 is under way; ");
}

static void words_of_no_drill_are_refused(void **state)
{
    Ckpt__V1__ProbeDrillRequest probe = CKPT__V1__PROBE_DRILL_REQUEST__INIT;
    Ckpt__V1__TellDrillRequest told = CKPT__V1__TELL_DRILL_REQUEST__INIT;

    (void)state;
    probe.request_id = constant("p");
    probe.drill_id = 1;
    probe.member_id = 1;
    probe.run = 1;
    call(OPERATOR("ProbeDrill"), &probe.base, &answer);
    expect(&answer, RPC_NOT_FOUND, "DRILL_NOT_FOUND: drill 1 ");
    told.request_id = constant("t");
    told.drill_id = 1;
    told.member_id = 1;
    call(OPERATOR("TellDrill"), &told.base, &answer);
    expect(&answer, RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT: ");
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, open_one, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(refusals_have_the_guards_names),
        WITH(a_plan_has_all_guards_and_begins_nothing),
        WITH(a_retry_is_the_first_drill),
        WITH(words_of_no_drill_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
