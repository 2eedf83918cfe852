/* ckptctl member: what is shown, what is asked before something is lost, and the steps of a
 * replacement. */
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

#define TEXT(text) ((char *)(uintptr_t)(text))

/* n1 leads, n2 is down, n4 learns. */
static struct scene {
    struct harness h;
    Ckpt__V1__StatusReply status;
    Ckpt__V1__MemberStatus members[3];
    Ckpt__V1__MemberStatus *pointers[3];
    Ckpt__V1__MutationReply done;
} scene;

#define expect_run(code, words)                                                                    \
    assert_int_equal(harness_run(&scene.h, "--endpoints a:1 " words), code)
#define REPLACE(words) "member replace " words " --raft h:1 --api h:2"

static int scene_open(void **state)
{
    static const struct {
        uint64_t id;
        const char *name, *role;
        bool reachable, voter;
        uint64_t lag;
    } members[] = {{1, "n1", "leader", true, true, 0},
                   {2, "n2", "unknown", false, true, 0},
                   {4, "n4", "learner", true, false, 40}};

    (void)state;
    harness_init(&scene.h);
    ckpt__v1__status_reply__init(&scene.status);
    ckpt__v1__mutation_reply__init(&scene.done);
    scene.done.index = 77;
    for (size_t i = 0; i < 3; i++) {
        Ckpt__V1__MemberStatus *member = &scene.members[i];

        ckpt__v1__member_status__init(member);
        member->member_id = members[i].id;
        member->name = TEXT(members[i].name);
        member->role = TEXT(members[i].role);
        member->raft_address = TEXT("10.0.0.1:9000");
        member->reachable = members[i].reachable;
        member->voter = members[i].voter;
        member->lag_entries = members[i].lag;
        member->match_index = 500 - members[i].lag;
        scene.pointers[i] = member;
    }
    scene.status.cluster_id = TEXT("demo");
    scene.status.leader_id = scene.status.member_id = 1;
    scene.status.leader_name = scene.status.member_name = TEXT("n1");
    scene.status.quorum = true;
    scene.status.voter_count = 2;
    scene.status.reachable_count = 1;
    scene.status.failure_tolerance = -1;
    scene.status.n_members = 3;
    scene.status.members = scene.pointers;
    harness_answer(&scene.h, "a:1", "OperatorService/Status", RPC_OK, "", &scene.status.base);
    return 0;
}

static int scene_close(void **state)
{
    (void)state;
    harness_close(&scene.h);
    return 0;
}

/* n4 has all of the log. */
static void n4_has_all(void)
{
    scene.members[2].lag_entries = 0;
    scene.members[2].match_index = 500;
}

static void scene_take(const char *method)
{
    harness_answer(&scene.h, NULL, method, RPC_OK, "", &scene.done.base);
}

static const Ckpt__V1__MemberRequest *asked(void)
{
    return (const Ckpt__V1__MemberRequest *)scene.h.last_request;
}

static void the_list_says_who_votes_and_who_is_behind(void **state)
{
    (void)state;
    expect_run(CLI_OK, "member list");
    assert_contains(scene.h.out, "ID  MEMBER  VOTES  ROLE");
    assert_contains(scene.h.out, "n2      yes    unreachable");
    assert_contains(scene.h.out, "n4      no     learner");
    assert_contains(scene.h.out, "460      40");
    expect_run(CLI_OK, "member list -o name");
    assert_string_equal(scene.h.out, "n1\nn2\nn4\n");
}

static void an_addition_needs_both_addresses(void **state)
{
    (void)state;
    expect_run(CLI_USAGE, "member add n5 --raft h:1");
    assert_contains(scene.h.error, "try: ckptctl member add n4 --id 4 --raft");
    scene_take("OperatorService/AddMember");
    expect_run(CLI_OK, "member add n5 --id 5 --raft h:1 --api h:2");
    assert_contains(scene.h.out, "done: add n5 as a learner (index 77)");
    assert_contains(scene.h.error, "next: ckptctl member promote n5");
    assert_int_equal(asked()->member_id, 5);
    assert_string_equal(asked()->raft_address, "h:1");
    assert_string_equal(asked()->api_address, "h:2");
}

static void a_promotion_waits_until_the_learner_has_caught_up(void **state)
{
    (void)state;
    scene_take("OperatorService/PromoteMember");
    /* 40 entries behind, and its own addition may be among them: the leader would refuse it */
    expect_run(CLI_TIMEOUT, "member promote n4 --wait-for 1ms");
    assert_contains(scene.h.error, "n4 has not caught up in time (40 behind)");
    assert_null(scene.h.last_request);
    n4_has_all();
    expect_run(CLI_OK, "member promote n4");
    assert_string_equal(asked()->name, "n4");
    assert_int_equal(asked()->member_id, 4); /* a retry means no other one of that name */
    expect_run(CLI_OK, "member promote 4");
    assert_int_equal(asked()->member_id, 4);
    scene_close(state);
    scene_open(state);
    scene.members[2].lag_entries = 5000;
    scene_take("OperatorService/PromoteMember");
    expect_run(CLI_TIMEOUT, "member promote n4 --wait-for 1ms");
    assert_contains(scene.h.error, "n4 has not caught up in time (5000 behind)");
    assert_null(scene.h.last_request);
    expect_run(CLI_NOT_FOUND, "member promote n9");
    assert_contains(scene.h.error, "there is no member n9");
}

static void a_removal_shows_numbers_and_asks(void **state)
{
    (void)state;
    scene_take("OperatorService/RemoveMember");
    expect_run(CLI_USAGE, "member remove n2");
    assert_contains(scene.h.error, "remove n2 (id 2, unreachable) for ever");
    assert_contains(scene.h.error, "voters 2 -> 1, reachable 1 -> 1, failure tolerance -1 -> 0");
    assert_contains(scene.h.error, "needs --yes");
    assert_null(scene.h.last_request);
    expect_run(CLI_OK, "member remove n2 --yes");
    assert_string_equal(asked()->name, "n2");
    expect_run(CLI_OK, "member remove n1 --dry-run");
    assert_contains(scene.h.error, "leader: hands over first");
}

static void a_refusal_of_the_cluster_is_passed_on(void **state)
{
    (void)state;
    harness_answer(&scene.h, NULL, "OperatorService/RemoveMember", RPC_FAILED_PRECONDITION,
                   "MEMBER_REFUSED: without n1 1 voters would remain", NULL);
    expect_run(CLI_REFUSED, "member remove n1 --yes");
    assert_contains(scene.h.error, "cannot remove n1: MEMBER_REFUSED: without n1");
}

static void a_replacement_adds_promotes_and_removes(void **state)
{
    (void)state;
    n4_has_all();
    scene_take("OperatorService/AddMember");
    scene_take("OperatorService/PromoteMember");
    scene_take("OperatorService/RemoveMember");
    expect_run(CLI_OK, REPLACE("n2 n4 --id 4") " --yes");
    assert_contains(scene.h.error, "4. remove n2 for ever");
    assert_contains(scene.h.out, "done: add n4 as a learner");
    assert_contains(scene.h.out, "done: promote n4 to a voter");
    assert_contains(scene.h.out, "done: remove n2");
    assert_string_equal(scene.h.last_method, "OperatorService/RemoveMember");
    assert_string_equal(asked()->name, "n2");
}

/* Nothing is asked of the leader before OLD is known: a typing error would leave one voter more. */
static void a_replacement_of_nobody_changes_nothing(void **state)
{
    (void)state;
    scene_take("OperatorService/AddMember");
    scene_take("OperatorService/PromoteMember");
    scene_take("OperatorService/RemoveMember");
    expect_run(CLI_NOT_FOUND, REPLACE("n9 n5 --id 5") " --yes");
    assert_contains(scene.h.error, "cannot replace n9: there is no member n9 among the 3; nothing");
    assert_contains(scene.h.error, "try: ckptctl member list\n");
    assert_lacks(scene.h.error, "plan:");
    expect_run(CLI_NOT_FOUND, REPLACE("n9 n4 --id 4") " --yes");
    assert_contains(scene.h.error, "ckptctl member list, or ckptctl member promote n4 alone");
    expect_run(CLI_USAGE, "member replace n2 n5 --yes");
    scene.status.leader_id = 0;
    expect_run(CLI_NO_LEADER, REPLACE("n2 n5 --id 5") " --yes");
    assert_contains(scene.h.error, "nobody is known to lead (1 of 2 voters reachable)");
    assert_null(scene.h.last_request);
    /* but one that was interrupted after the removal may be asked for again */
    scene.status.leader_id = 1;
    scene.members[2].voter = true;
    expect_run(CLI_OK, REPLACE("n9 n4 --id 4") " --yes");
    assert_contains(scene.h.error, "replace n9, which is no member any more, by n4");
}

static void expect_same_member(const char *words)
{
    char line[128];

    snprintf(line, sizeof(line), "--endpoints a:1 " REPLACE("%s --id 5") " --yes", words);
    assert_int_equal(harness_run(&scene.h, line), CLI_USAGE);
    assert_contains(scene.h.error, " is the same member (id 2)\n");
    assert_lacks(scene.h.error, "plan:");
    assert_null(scene.h.last_request);
}

/* By its name or its id, each on either side. */
static void a_member_is_not_replaced_by_itself(void **state)
{
    (void)state;
    scene_take("OperatorService/AddMember");
    scene_take("OperatorService/PromoteMember");
    scene_take("OperatorService/RemoveMember");
    expect_same_member("n2 n2");
    expect_same_member("2 n2");
    expect_same_member("n2 2");
    expect_same_member("2 2");
    /* whose name is also another one's id */
    scene.members[1].name = TEXT("1");
    expect_same_member("2 1");
}

/* Whoever is added with another one's id as its name is the one that is promoted; what follows
 * would take a vote from the cluster. */
static void a_replacement_promotes_whom_it_has_added(void **state)
{
    (void)state;
    n4_has_all();
    scene.members[2].member_id = 5;
    scene.members[2].name = TEXT("2");
    scene_take("OperatorService/AddMember");
    harness_answer(&scene.h, NULL, "OperatorService/PromoteMember", RPC_FAILED_PRECONDITION,
                   "MEMBER_REFUSED: it is not reachable", NULL);
    expect_run(CLI_REFUSED, REPLACE("n1 2 --id 5") " --yes");
    assert_string_equal(scene.h.last_method, "OperatorService/PromoteMember");
    assert_int_equal(asked()->member_id, 5);
    assert_contains(scene.h.error, "ckptctl member remove 5 gives it up");
    expect_run(CLI_REFUSED, REPLACE("n1 2") " --yes"); /* the broker chose its id */
    assert_int_equal(asked()->member_id, 5);
}

/* A leader has not reached yet whom it was told of just now: that is no reason to start it. */
static void a_member_that_was_just_added_is_not_called_unreachable(void **state)
{
    (void)state;
    scene.members[2].reachable = false;
    expect_run(CLI_TIMEOUT, "member promote n4 --wait-for 100ms");
    assert_contains(scene.h.error, "n4 is 40 entries behind, the leader is making contact with it");
    assert_lacks(scene.h.error, "start it");
    expect_run(CLI_TIMEOUT, "member promote n4 --wait-for 4s");
    assert_contains(scene.h.error, "n4 is 40 entries behind and not reachable: start it");
}

/* What the plan of a removal shows is what is removed. */
static void digits_are_an_id(void **state)
{
    (void)state;
    scene.members[1].name = TEXT("4");
    scene_take("OperatorService/RemoveMember");
    expect_run(CLI_OK, "member remove 4 --yes");
    assert_int_equal(asked()->member_id, 4);
    expect_run(CLI_USAGE, "member remove 2");
    assert_contains(scene.h.error, "remove 4 (id 2, unreachable) for ever");
    expect_run(CLI_USAGE, "member remove 4");
    assert_lacks(scene.h.error, "(id 2");
}

static void the_plan_of_a_replacement_has_numbers(void **state)
{
    (void)state;
    scene.status.voter_count = 3;
    scene.status.reachable_count = 2;
    scene.status.commit_index = 500;
    expect_run(CLI_USAGE, REPLACE("n2 n5 --id 5")); /* without --yes the plan is all */
    assert_contains(scene.h.error, "plan: replace n2 (id 2, unreachable) by n5\n");
    assert_contains(scene.h.error, "voters 3 -> 4 -> 3, quorum 2 -> 3 -> 2, reachable 2 -> 3 -> 3, "
                                   "failure tolerance 0 -> 0 -> 1\n");
    assert_contains(scene.h.error, "behind the leader n1 (log index 500): n2 0 (unreachable); "
                                   "n4 40; n5 all of them\n");
    expect_run(CLI_USAGE, REPLACE("n1 n4 --id 4"));
    assert_contains(scene.h.error, "replace n1 (id 1, leader: hands over first) by n4\n");
    assert_contains(scene.h.error, "1. add n4 as a learner (done)  2.");
    assert_contains(scene.h.error, "reachable 2 -> 3 -> 2, failure tolerance 0 -> 0 -> 0\n");
}

static void a_replacement_stops_at_the_first_step_that_fails(void **state)
{
    (void)state;
    n4_has_all();
    scene_take("OperatorService/AddMember");
    harness_answer(&scene.h, NULL, "OperatorService/PromoteMember", RPC_FAILED_PRECONDITION,
                   "MEMBER_REFUSED: member n4 is not reachable", NULL);
    expect_run(CLI_REFUSED, REPLACE("n2 n4 --id 4") " --yes");
    assert_string_equal(scene.h.last_method, "OperatorService/PromoteMember");
    assert_contains(scene.h.error, "next: the same command again goes on here, ckptctl member "
                                   "remove n4 gives it up");
    scene_close(state);
    scene_open(state);
    n4_has_all();
    scene_take("OperatorService/AddMember");
    scene_take("OperatorService/PromoteMember");
    harness_answer(&scene.h, NULL, "OperatorService/RemoveMember", RPC_FAILED_PRECONDITION,
                   "MEMBER_REFUSED: writes would wait", NULL);
    expect_run(CLI_REFUSED, REPLACE("n2 n4 --id 4") " --yes");
    assert_contains(scene.h.error, "n4 votes, and n2 is not known to be removed; next: ckptctl "
                                   "member remove n2");
}

static void a_transfer_names_the_member_before_it_asks(void **state)
{
    (void)state;
    scene_take("OperatorService/TransferLeadership");
    expect_run(CLI_REFUSED, "transfer");
    assert_contains(scene.h.error, "n1 leads, and no other voter is reachable and has caught up");
    assert_null(scene.h.last_request);
    scene.members[1].reachable = true;
    expect_run(CLI_OK, "transfer");
    assert_string_equal(asked()->name, "n2");
    assert_contains(scene.h.out, "done: transfer leadership to n2");
    scene.members[2].voter = true;
    scene.status.leader_id = 2;
    expect_run(CLI_OK, "transfer");
    assert_string_equal(asked()->name, "n4"); /* the next one behind the leader */
    scene_close(state);
    scene_open(state);
    scene.members[1].reachable = true;
    harness_answer(&scene.h, NULL, "OperatorService/TransferLeadership", RPC_UNAVAILABLE,
                   "OUTCOME_UNKNOWN: leadership was lost, to whom is not known", NULL);
    expect_run(CLI_TIMEOUT, "transfer");
    assert_contains(scene.h.error,
                    "try: ckptctl transfer n2"); /* and not: to any other one again */
    scene.status.leader_id = 0;
    expect_run(CLI_NO_LEADER, "transfer");
}

static void an_unknown_outcome_of_a_removal_names_the_id(void **state)
{
    (void)state;
    harness_answer(&scene.h, NULL, "OperatorService/RemoveMember", RPC_DEADLINE_EXCEEDED, "late",
                   NULL);
    expect_run(CLI_TIMEOUT, "member remove n2 --yes");
    assert_contains(scene.h.error, "try: ckptctl member remove 2");
    assert_int_equal(asked()->member_id, 2);
}

int main(void)
{
#define MEMBER_TEST(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)
    const struct CMUnitTest tests[] = {
        MEMBER_TEST(the_list_says_who_votes_and_who_is_behind),
        MEMBER_TEST(an_addition_needs_both_addresses),
        MEMBER_TEST(a_promotion_waits_until_the_learner_has_caught_up),
        MEMBER_TEST(a_removal_shows_numbers_and_asks),
        MEMBER_TEST(a_refusal_of_the_cluster_is_passed_on),
        MEMBER_TEST(a_replacement_adds_promotes_and_removes),
        MEMBER_TEST(a_replacement_of_nobody_changes_nothing),
        MEMBER_TEST(a_member_is_not_replaced_by_itself),
        MEMBER_TEST(a_replacement_promotes_whom_it_has_added),
        MEMBER_TEST(a_member_that_was_just_added_is_not_called_unreachable),
        MEMBER_TEST(digits_are_an_id),
        MEMBER_TEST(the_plan_of_a_replacement_has_numbers),
        MEMBER_TEST(a_replacement_stops_at_the_first_step_that_fails),
        MEMBER_TEST(a_transfer_names_the_member_before_it_asks),
        MEMBER_TEST(an_unknown_outcome_of_a_removal_names_the_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
