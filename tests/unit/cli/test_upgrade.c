/* ckptctl upgrade and restart-member: who is behind, in which order members are restarted, and what
 * is refused before anything is changed. U-001, U-002. */
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

#define TEXT(text) ((char *)(uintptr_t)(text))
#define NEW        "0.2.0 (bbb, 2026-11-29)"
#define OLD        "0.1.0"

enum { MEMBERS = 3 };

/* n1 leads; n2 and n3 follow. Each answers by itself. */
static struct scene {
    struct harness h;
    Ckpt__V1__StatusReply status[MEMBERS], later[MEMBERS];
    Ckpt__V1__MemberStart start[MEMBERS], later_start[MEMBERS];
    Ckpt__V1__MemberStatus members[MEMBERS];
    Ckpt__V1__MemberStatus *pointers[MEMBERS];
    Ckpt__V1__ListNodesReply nodes;
    Ckpt__V1__NodeStatus node[2];
    Ckpt__V1__NodeStatus *node_pointers[2];
    Ckpt__V1__MutationReply done;
} scene;

static const char *const endpoints[MEMBERS] = {"a:1", "b:1", "c:1"};
static const char *const names[MEMBERS] = {"n1", "n2", "n3"};

#define expect_run(code, words)                                                                    \
    assert_int_equal(harness_run(&scene.h, "--endpoints a:1,b:1,c:1 " words), code)

/* own_level 0: of a build from before levels, which tells no start either. */
static void is_of_build(size_t i, const char *build, uint32_t own_level)
{
    scene.status[i].version = TEXT(build);
    scene.members[i].version = TEXT(build);
    scene.members[i].feature_level = own_level;
    scene.status[i].start = own_level == 0 ? NULL : &scene.start[i];
}

static int scene_open(void **state)
{
    (void)state;
    harness_init(&scene.h);
    ckpt__v1__mutation_reply__init(&scene.done);
    scene.done.index = 77;
    for (size_t i = 0; i < MEMBERS; i++) {
        Ckpt__V1__MemberStatus *member = &scene.members[i];
        Ckpt__V1__StatusReply *status = &scene.status[i];

        ckpt__v1__member_status__init(member);
        member->member_id = i + 1;
        member->name = TEXT(names[i]);
        member->api_address = TEXT(endpoints[i]);
        member->role = TEXT(i == 0 ? "leader" : "follower");
        member->reachable = member->voter = true;
        scene.pointers[i] = member;
        ckpt__v1__member_start__init(&scene.start[i]);
        scene.start[i].at_ms = 100;
        scene.start[i].supervised_by = TEXT("INVOCATION_ID");
        ckpt__v1__status_reply__init(status);
        status->cluster_id = TEXT("demo");
        status->leader_id = 1;
        status->leader_name = TEXT("n1");
        status->member_id = i + 1;
        status->member_name = TEXT(names[i]);
        status->role = member->role;
        status->quorum = true;
        status->voter_count = status->reachable_count = MEMBERS;
        status->failure_tolerance = 1;
        status->feature_level = 1;
        status->n_members = MEMBERS;
        status->members = scene.pointers;
        is_of_build(i, NEW, 2);
    }
    ckpt__v1__list_nodes_reply__init(&scene.nodes);
    for (size_t i = 0; i < 2; i++) {
        ckpt__v1__node_status__init(&scene.node[i]);
        scene.node[i].node_id = TEXT(i == 0 ? "gpu-a" : "gpu-b");
        scene.node[i].version = TEXT(i == 0 ? OLD : NEW);
        scene.node_pointers[i] = &scene.node[i];
    }
    scene.nodes.n_nodes = 2;
    scene.nodes.nodes = scene.node_pointers;
    harness_answer(&scene.h, NULL, "OperatorService/ListNodes", RPC_OK, "", &scene.nodes.base);
    return 0;
}

/* Answers are given as they are then: after a test has made them. */
static void members_answer(void)
{
    for (size_t i = 0; i < MEMBERS; i++)
        harness_answer(&scene.h, endpoints[i], "OperatorService/Status", RPC_OK, "",
                       &scene.status[i].base);
}

static int scene_close(void **state)
{
    (void)state;
    harness_close(&scene.h);
    return 0;
}

static void the_status_names_who_is_behind_and_what_comes(void **state)
{
    (void)state;
    is_of_build(0, OLD, 0);
    scene.status[0].feature_level = 0;
    members_answer();
    expect_run(CLI_OK, "upgrade status");
    assert_contains(scene.h.out, "cluster level 1   newest build " NEW);
    assert_contains(scene.h.out, "n1      leader      0      1  0.1.0");
    assert_contains(scene.h.out, "1      1  0.1.0                    behind  gpu-a");
    assert_contains(scene.h.out, "1      2  " NEW "  newest  gpu-b");
    assert_contains(scene.h.out, "finalize raises the level 1 -> 2 and switches on:");
    assert_contains(scene.h.out, "keys of the policy: ");
    assert_contains(scene.h.out, "orphan_rule");
    assert_contains(scene.h.out, "ways of asking: shm, file, exec");
    assert_contains(scene.h.out, "behind: n1 (0.1.0, level 1)");
    expect_run(CLI_OK, "upgrade status -o json");
    assert_contains(scene.h.out, "\"cluster_level\": 1");
    assert_contains(scene.h.out, "\"newest_level\": 2");
    expect_run(CLI_OK, "upgrade status -o name"); /* those behind */
    assert_string_equal(scene.h.out, "n1\n");
    is_of_build(0, NEW, 0);
    members_answer();
    expect_run(CLI_OK, "upgrade status -o name");
    assert_string_equal(scene.h.out, "");
    assert_contains(scene.h.error, "no member is behind");
}

static void the_plan_has_the_leader_last_and_finalize_after_it(void **state)
{
    const char *agents, *second, *third, *leader, *finalize;

    (void)state;
    for (size_t i = 0; i < MEMBERS; i++)
        is_of_build(i, OLD, i == 1 ? 1 : 0);
    scene.node[1].version = TEXT("0.9.0 (ccc, 2027-01-01)");
    is_of_build(2, NEW, 2);
    members_answer();
    expect_run(CLI_OK, "upgrade plan");
    agents = strstr(scene.h.out, "1. agents of 2 nodes");
    second = strstr(scene.h.out, "2. n2 (follower, 0.1.0): exchange its program, then ckptctl "
                                 "restart-member n2");
    third = strstr(scene.h.out, "3. n1 (leader, 0.1.0): exchange its program, then systemctl "
                                "restart ckptd on its host; it costs a hand-over");
    finalize = strstr(scene.h.out, "4. ckptctl upgrade finalize");
    assert_non_null(agents);
    assert_non_null(second);
    assert_non_null(third);
    assert_non_null(finalize);
    leader = strstr(scene.h.out, "n3 (");
    assert_null(leader); /* it has the build already */
    assert_contains(scene.h.out, "failure tolerance 1 -> 0 until it is back");
    assert_contains(scene.h.out, "quorum    ok");
}

static void a_guard_that_does_not_hold_is_told_and_ends_with_4(void **state)
{
    (void)state;
    scene.status[0].failure_tolerance = 0;
    scene.status[0].reachable_count = 2;
    scene.members[1].lag_entries = 5000;
    members_answer();
    expect_run(CLI_REFUSED, "upgrade plan");
    assert_contains(scene.h.out, "quorum    DOES NOT HOLD: failure tolerance is 0 (2 of 3");
    assert_contains(scene.h.out, "catch-up  DOES NOT HOLD: n2 is 5000 entries behind");
    assert_contains(scene.h.out, "storage   ok");
}

static void finalize_asks_and_raises_the_level_once(void **state)
{
    const Ckpt__V1__SetPolicyRequest *asked;

    (void)state;
    members_answer();
    harness_answer(&scene.h, NULL, "OperatorService/SetPolicy", RPC_OK, "", &scene.done.base);
    expect_run(CLI_USAGE, "upgrade finalize");
    assert_contains(scene.h.error, "the cluster's level rises 1 -> 2 for good: no member can be");
    assert_contains(scene.h.error, "agents of 1 nodes are of a lower level");
    assert_string_equal(scene.h.last_method, "OperatorService/ListNodes");
    expect_run(CLI_OK, "upgrade finalize --yes");
    assert_string_equal(scene.h.last_method, "OperatorService/SetPolicy");
    asked = (const Ckpt__V1__SetPolicyRequest *)scene.h.last_request;
    assert_int_equal(asked->policy->feature_level, 2);
    assert_int_equal(asked->policy->zeros, 0);
}

static void a_level_that_is_there_is_not_raised(void **state)
{
    (void)state;
    scene.status[0].feature_level = 2;
    members_answer();
    expect_run(CLI_OK, "upgrade finalize --yes");
    assert_contains(scene.h.error, "nothing to do: the cluster's level is 2");
    assert_string_equal(scene.h.last_method, "OperatorService/ListNodes");
}

static void the_cluster_refuses_while_a_member_is_behind(void **state)
{
    (void)state;
    is_of_build(1, OLD, 0);
    members_answer();
    harness_answer(&scene.h, NULL, "OperatorService/SetPolicy", RPC_FAILED_PRECONDITION,
                   "FEATURE_LEVEL: feature_level (behind: n2, 0.1.0)", NULL);
    expect_run(CLI_REFUSED, "upgrade finalize --yes");
    assert_contains(scene.h.error, "FEATURE_LEVEL: feature_level (behind: n2, 0.1.0)");
}

static void a_leader_that_knows_no_levels_is_not_asked(void **state)
{
    (void)state;
    is_of_build(0, OLD, 0);
    members_answer();
    expect_run(CLI_REFUSED, "upgrade finalize --yes");
    assert_contains(scene.h.error, "the leader itself is behind: n1 (0.1.0, level 1)");
    assert_string_equal(scene.h.last_method, "OperatorService/ListNodes");
}

/* ---- restart-member ---- */

/* From the third answer on a member has another start. */
static void members_come_back(void)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        scene.later[i] = scene.status[i];
        scene.later_start[i] = scene.start[i];
        scene.later_start[i].at_ms = 200 + i;
        scene.later[i].start = &scene.later_start[i];
        harness_answer(&scene.h, endpoints[i], "OperatorService/Status", RPC_OK, "",
                       &scene.status[i].base);
        scene.h.answers[scene.h.answer_count - 1].turns = 2;
        harness_answer(&scene.h, endpoints[i], "OperatorService/Status", RPC_OK, "",
                       &scene.later[i].base);
        harness_answer(&scene.h, endpoints[i], "OperatorService/RestartMember", RPC_OK, "",
                       &scene.done.base);
    }
}

static void members_are_restarted_the_leader_last(void **state)
{
    const char *first, *second, *last;

    (void)state;
    members_come_back();
    expect_run(CLI_OK, "restart-member --all --yes");
    assert_contains(scene.h.error, "waited for: n2, n3, n1");
    first = strstr(scene.h.out, "done: n2 restarted: " NEW);
    second = strstr(scene.h.out, "done: n3 restarted");
    last = strstr(scene.h.out, "done: n1 restarted");
    assert_true(first != NULL && first < second && second < last);
}

static void one_that_does_not_come_back_stops_the_rest(void **state)
{
    (void)state;
    members_answer();
    for (size_t i = 0; i < MEMBERS; i++)
        harness_answer(&scene.h, endpoints[i], "OperatorService/RestartMember", RPC_OK, "",
                       &scene.done.base);
    expect_run(CLI_TIMEOUT, "restart-member --all --yes --wait-for 1s");
    assert_contains(scene.h.error, "n2 has not come back in 1.0s: no other member was restarted");
    assert_contains(scene.h.error, "journalctl -u ckptd");
    assert_lacks(scene.h.out, "n3");
}

static void what_nobody_starts_again_is_not_asked(void **state)
{
    (void)state;
    scene.start[1].supervised_by = TEXT("");
    is_of_build(2, OLD, 0);
    members_answer();
    expect_run(CLI_REFUSED, "restart-member n2 --yes");
    assert_contains(scene.h.error, "cannot restart n2: NOT_SUPERVISED");
    assert_contains(scene.h.error, "supervised: yes");
    expect_run(CLI_REFUSED, "restart-member 3 --yes");
    assert_contains(scene.h.error, "cannot restart n3: its build (0.1.0) knows no such request");
    assert_contains(scene.h.error, "try: on the host of n3: systemctl restart ckptd");
    expect_run(CLI_REFUSED, "restart-member --all --yes");
    expect_run(CLI_NOT_FOUND, "restart-member n9 --yes");
    expect_run(CLI_USAGE, "restart-member n2 --all");
    expect_run(CLI_USAGE, "restart-member");
}

static void a_restart_that_would_cost_the_quorum_is_refused(void **state)
{
    (void)state;
    scene.members[2].lag_entries = 101;
    members_answer();
    /* n1 leads and n3 has not caught up: without n2 one of three would decide */
    expect_run(CLI_REFUSED, "restart-member n2 --yes");
    assert_contains(scene.h.error, "QUORUM_AT_RISK: without it 1 of 3 voters are there");
    harness_answer(&scene.h, "b:1", "OperatorService/RestartMember", RPC_FAILED_PRECONDITION,
                   "QUORUM_AT_RISK: of the member", NULL);
    expect_run(CLI_REFUSED, "restart-member n2 --yes --accept-outage");
    assert_contains(scene.h.error, "cannot restart n2: QUORUM_AT_RISK: of the member");
    expect_run(CLI_OK, "restart-member n3 --dry-run"); /* the one that lags may */
}

/* ---- canary ---- */

static void a_canary_is_followed_to_its_verdict(void **state)
{
    Ckpt__V1__Canary canary = CKPT__V1__CANARY__INIT;
    Ckpt__V1__CanaryCheck check = CKPT__V1__CANARY_CHECK__INIT;
    Ckpt__V1__CanaryCheck *checks[] = {&check};

    (void)state;
    check.name = TEXT("elections");
    check.value = TEXT("0 changes of the leader");
    check.limit = TEXT("at most 3");
    canary.state = TEXT("passed");
    canary.n_checks = 1;
    canary.checks = checks;
    scene.status[1].canary = &canary;
    members_answer();
    harness_answer(&scene.h, "b:1", "OperatorService/StartCanary", RPC_OK, "", &scene.done.base);
    expect_run(CLI_OK, "upgrade canary n2 15m");
    assert_contains(scene.h.out, "elections  0 changes of the leader  at most 3  ok");
    assert_contains(scene.h.out, "done: n2 with build " NEW " passed its watch");
    expect_run(CLI_USAGE, "upgrade canary n2");
    expect_run(CLI_USAGE, "upgrade canary n2 fast");
    expect_run(CLI_NOT_FOUND, "upgrade canary n9 15m");
}

/* The member runs its old build again: it was put back. */
static void a_canary_that_was_put_back_ends_with_1(void **state)
{
    (void)state;
    scene.later[1] = scene.status[1];
    scene.later_start[1] = scene.start[1];
    scene.later[1].version = TEXT(OLD);
    scene.later[1].start = &scene.later_start[1];
    scene.later_start[1].put_back_build = TEXT(NEW);
    scene.later_start[1].put_back_why = TEXT("elections: 5 changes of the leader");
    harness_answer(&scene.h, "b:1", "OperatorService/Status", RPC_OK, "", &scene.status[1].base);
    scene.h.answers[scene.h.answer_count - 1].turns = 1;
    harness_answer(&scene.h, "b:1", "OperatorService/Status", RPC_OK, "", &scene.later[1].base);
    members_answer();
    harness_answer(&scene.h, "b:1", "OperatorService/StartCanary", RPC_OK, "", &scene.done.base);
    expect_run(CLI_FAILED, "upgrade canary n2 15m");
    assert_contains(scene.h.error, "n2 with build " NEW " failed its watch: elections: 5 changes "
                                   "of the leader; it runs again with build 0.1.0");
    expect_run(CLI_REFUSED, "upgrade plan");
    assert_contains(scene.h.out, "canary    DOES NOT HOLD: n2 was put back from " NEW);
    expect_run(CLI_REFUSED, "upgrade finalize --yes");
    assert_contains(scene.h.error, "cannot raise the level: n2 was put back from " NEW);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, scene_open, scene_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(the_status_names_who_is_behind_and_what_comes),
        WITH(the_plan_has_the_leader_last_and_finalize_after_it),
        WITH(a_guard_that_does_not_hold_is_told_and_ends_with_4),
        WITH(finalize_asks_and_raises_the_level_once),
        WITH(a_level_that_is_there_is_not_raised),
        WITH(the_cluster_refuses_while_a_member_is_behind),
        WITH(a_leader_that_knows_no_levels_is_not_asked),
        WITH(members_are_restarted_the_leader_last),
        WITH(one_that_does_not_come_back_stops_the_rest),
        WITH(what_nobody_starts_again_is_not_asked),
        WITH(a_restart_that_would_cost_the_quorum_is_refused),
        WITH(a_canary_is_followed_to_its_verdict),
        WITH(a_canary_that_was_put_back_ends_with_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
