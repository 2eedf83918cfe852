/* status and debug check: what each member says, also without a leader or a quorum (U3, S1-062). */
#include "src/rpc/server.h"
#include "tests/support/test.h"
#include "tests/unit/cli/harness.h"

#define ENDPOINTS "--endpoints a:1,b:1,c:1 "

struct cluster {
    struct harness h;
    Ckpt__V1__StatusReply status[3];
    Ckpt__V1__MemberStatus members[3][3];
    Ckpt__V1__MemberStatus *pointers[3][3];
    Ckpt__V1__TargetSpec spec;
    Ckpt__V1__TargetStatus target;
    Ckpt__V1__TargetStatus *targets[1];
    char *warnings[1];
};

static char *const names[3] = {(char[]){"n1"}, (char[]){"n2"}, (char[]){"n3"}};
static char *const addresses[3] = {(char[]){"a:1"}, (char[]){"b:1"}, (char[]){"c:1"}};
static char follower[] = "follower", leader[] = "leader", demo[] = "demo", scratch[] = "scratch",
            folder[] = "/scratch", warning[] = "target scratch is down; see ckptctl targets";

/* Three members, n2 leads in term 7 at index 100, n1 is three entries behind. */
static void cluster_init(struct cluster *c)
{
    memset(c, 0, sizeof(*c));
    harness_init(&c->h);
    ckpt__v1__target_spec__init(&c->spec);
    ckpt__v1__target_status__init(&c->target);
    c->spec.target_id = scratch;
    c->spec.prefix = folder;
    c->target.spec = &c->spec;
    c->target.available = true;
    c->targets[0] = &c->target;
    c->warnings[0] = warning;
    for (size_t i = 0; i < 3; i++) {
        Ckpt__V1__StatusReply *s = &c->status[i];

        ckpt__v1__status_reply__init(s);
        s->cluster_id = demo;
        s->epoch = 1;
        s->term = 7;
        s->leader_id = 2;
        s->leader_name = names[1];
        s->member_id = i + 1;
        s->member_name = names[i];
        s->role = i == 1 ? leader : follower;
        s->quorum = true;
        s->reachable_count = 3;
        s->voter_count = 3;
        s->failure_tolerance = 1;
        s->commit_index = 100;
        s->applied_index = i == 0 ? 97 : 100;
        s->last_commit_age_ms = 42000;
        s->running_count = 4;
        s->allocation_count = 6;
        s->paused_count = 2;
        s->oldest_paused_age_ms = 242000;
        s->targets = c->targets;
        s->n_targets = 1;
        s->members = c->pointers[i];
        s->n_members = 3;
        for (size_t k = 0; k < 3; k++) {
            Ckpt__V1__MemberStatus *m = &c->members[i][k];

            ckpt__v1__member_status__init(m);
            m->member_id = k + 1;
            m->name = names[k];
            m->api_address = addresses[k];
            m->role = k == 1 ? leader : follower;
            m->reachable = true;
            c->pointers[i][k] = m;
        }
    }
}

static void member_answers(struct cluster *c, size_t i)
{
    harness_answer(&c->h, addresses[i], "OperatorService/Status", RPC_OK, NULL, &c->status[i].base);
}

static void lose_quorum(struct cluster *c, size_t i)
{
    c->status[i].quorum = false;
    c->status[i].leader_id = 0;
    c->status[i].reachable_count = 1;
    c->status[i].failure_tolerance = -1;
    for (size_t k = 0; k < 3; k++) {
        c->members[i][k].reachable = k == i;
        c->members[i][k].last_contact_ms = k == i ? 0 : UINT64_MAX;
    }
}

static void status_shows_leader_lag_tolerance_and_what_waits(void **state)
{
    struct cluster c;

    (void)state;
    cluster_init(&c);
    c.status[1].warnings = c.warnings;
    c.status[1].n_warnings = 1;
    for (size_t i = 0; i < 3; i++)
        member_answers(&c, i);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_OK);
    assert_contains(c.h.out, "cluster demo  epoch 1  term 7  commit 100  leader n2");
    assert_contains(c.h.out, "failure tolerance 1 (3 of 3 members reachable)");
    assert_contains(c.h.out,
                    "jobs 4 running, 2 others   checkpoints 0 active, 2 paused (oldest 4m02s)");
    assert_contains(c.h.out, "warning: target scratch is down; see ckptctl targets");
    assert_contains(c.h.out, "n1      a:1      follower     7       97    3");
    assert_contains(c.h.out, "scratch  available");
    assert_lacks(c.h.out, "NO ");
    assert_string_equal(c.h.error, "");
    harness_close(&c.h);
}

/* L-001, L-002: how many nodes are in which state, and the names of those that are not ready. */
static void nodes_that_are_not_ready_are_named(void **state)
{
    char *ids[] = {(char[]){"a"}, (char[]){"b"}, (char[]){"c"}, (char[]){"d"}};
    const struct {
        char *state;
        uint64_t count;
        size_t named;
    } all[] = {{(char[]){"ready"}, 12, 4}, {(char[]){"draining"}, 6, 4}, {(char[]){"down"}, 1, 1}};
    Ckpt__V1__NodesInState items[3], *pointers[3];
    struct cluster c;

    (void)state;
    cluster_init(&c);
    for (size_t i = 0; i < 3; i++) {
        ckpt__v1__nodes_in_state__init(&items[i]);
        items[i].state = all[i].state;
        items[i].count = all[i].count;
        items[i].node_ids = ids;
        items[i].n_node_ids = all[i].named;
        pointers[i] = &items[i];
    }
    c.status[1].node_states = pointers;
    c.status[1].n_node_states = 3;
    for (size_t i = 0; i < 3; i++)
        member_answers(&c, i);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_OK);
    assert_contains(c.h.out, "\nnodes 12 ready, 6 draining (a, b, c, d and 2 more), 1 down (a)\n");
    c.status[1].n_node_states = 0; /* of an older build, or of a cluster without nodes */
    member_answers(&c, 1);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_OK);
    assert_lacks(c.h.out, "\nnodes ");
    harness_close(&c.h);
}

static void what_only_a_follower_knows_of_itself_is_told_too(void **state)
{
    static char disk[] =
        "the disk of n3 is nearly full (0 MB free), changes are refused: free space",
                other[] = "member n2 is unreachable (last contact 9 s ago): check ckptd there";
    char *own[] = {disk, other};
    struct cluster c;

    (void)state;
    cluster_init(&c);
    c.status[2].warnings = own;
    c.status[2].n_warnings = 2;
    for (size_t i = 0; i < 3; i++)
        member_answers(&c, i);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_OK);
    assert_contains(c.h.out, "warning: the disk of n3 is nearly full");
    assert_lacks(c.h.out, "n2 is unreachable"); /* the leader knows better */
    assert_lacks(c.h.out, "the clock of");
    c.status[0].now_ms = c.status[1].now_ms + UINT64_C(400) * 86400000;
    member_answers(&c, 0);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_OK);
    assert_contains(c.h.out, "warning: the clock of n1 is 400d00h ahead of that of n2");
    harness_close(&c.h);
}

static void any_single_member_answers_without_a_quorum(void **state)
{
    (void)state;
    for (size_t alive = 0; alive < 3; alive++) {
        struct cluster c;

        cluster_init(&c);
        lose_quorum(&c, alive);
        member_answers(&c, alive);
        assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_NO_LEADER);
        assert_int_equal(strncmp(c.h.out,
                                 "NO QUORUM (1 of 3 reachable) — data below may be stale, last "
                                 "commit 42 s ago\n",
                                 strlen("NO QUORUM (1 of 3 reachable) — data below may be stale, "
                                        "last commit 42 s ago\n")),
                         0);
        assert_contains(c.h.out, "leader none");
        assert_contains(c.h.out, "unreachable");
        assert_contains(c.h.out, "scratch");
        assert_lacks(c.h.out, "failure tolerance");
        assert_contains(c.h.error, " does not answer at ");
        harness_close(&c.h);
    }
}

/* By name where its address is a member's; the number that the name stood for is told beside it. */
static void a_member_that_does_not_answer_is_named_with_the_reason(void **state)
{
    struct cluster c;

    (void)state;
    cluster_init(&c);
    member_answers(&c, 1);
    harness_answer(&c.h, "a:1", "OperatorService/Status", RPC_UNAVAILABLE,
                   "a:1: connection refused (127.0.1.1)", NULL);
    harness_answer(&c.h, "d:1", "OperatorService/Status", RPC_UNAVAILABLE,
                   "d:1: connection refused (10.0.0.9)", NULL);
    assert_int_equal(harness_run(&c.h, "--endpoints a:1,b:1,c:1,d:1 status"), CLI_OK);
    assert_contains(c.h.error, "remark: n1 does not answer at a:1 (127.0.1.1): connection refused");
    assert_contains(c.h.error, "remark: n3 does not answer at c:1: connection refused");
    assert_contains(c.h.error, "remark: no answer from d:1: connection refused (10.0.0.9)");
    harness_close(&c.h);
}

static void an_election_is_named_as_such(void **state)
{
    struct cluster c;

    (void)state;
    cluster_init(&c);
    for (size_t i = 0; i < 2; i++) {
        c.status[i].leader_id = 0;
        member_answers(&c, i);
    }
    assert_int_equal(harness_run(&c.h, ENDPOINTS "-q status"), CLI_NO_LEADER);
    assert_contains(c.h.out, "NO LEADER (an election is under way)");
    assert_string_equal(c.h.error, "");
    harness_close(&c.h);
}

/* As after a start of all members: nobody has led yet, and none has to be started. */
static void a_majority_that_has_not_elected_yet_is_no_lost_quorum(void **state)
{
    static char founding[] = "founding";
    struct cluster c;

    (void)state;
    cluster_init(&c);
    for (size_t i = 0; i < 3; i++) {
        c.status[i].quorum = false;
        c.status[i].leader_id = 0;
        c.status[i].last_commit_age_ms = UINT64_MAX;
        member_answers(&c, i);
    }
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_NO_LEADER);
    assert_contains(c.h.out, "NO LEADER (an election is under way)");
    assert_lacks(c.h.out, "NO QUORUM");
    for (size_t i = 0; i < 3; i++) {
        c.status[i].role = founding;
        c.status[i].voter_count = 0;
        c.status[i].reachable_count = 0;
        member_answers(&c, i);
    }
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_NO_LEADER);
    assert_contains(c.h.out, "NOT FOUNDED YET (3 members answer)");
    assert_lacks(c.h.out, " of 0");
    harness_close(&c.h);
}

/* An old leader that was cut off still believes in itself: the member with a quorum is believed. */
static void the_member_with_a_quorum_is_believed(void **state)
{
    struct cluster c;

    (void)state;
    cluster_init(&c);
    lose_quorum(&c, 0);
    c.status[0].role = leader;
    c.status[0].leader_id = 1;
    c.status[0].applied_index = 500;
    member_answers(&c, 0);
    member_answers(&c, 2);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_OK);
    assert_contains(c.h.out, "leader n2");
    assert_int_equal(harness_run(&c.h, ENDPOINTS "-o name status"), CLI_OK);
    assert_string_equal(c.h.out, "n2\n");
    harness_close(&c.h);
}

static void members_beyond_the_given_endpoint_are_found(void **state)
{
    struct cluster c;

    (void)state;
    cluster_init(&c);
    for (size_t i = 0; i < 3; i++)
        member_answers(&c, i);
    assert_int_equal(harness_run(&c.h, "--endpoints a:1 -o json status"), CLI_OK);
    assert_uint_equal(c.h.call_count, 3);
    assert_contains(c.h.out, "\"version\": 1");
    assert_contains(c.h.out, "\"endpoint\": \"c:1\"");
    assert_contains(c.h.out, "\"member_name\": \"n2\"");
    harness_close(&c.h);
}

static void nobody_answering_is_said_with_the_reason(void **state)
{
    struct cluster c;

    (void)state;
    cluster_init(&c);
    assert_int_equal(harness_run(&c.h, ENDPOINTS "status"), CLI_NO_LEADER);
    assert_contains(c.h.error, "none of 3 members answers; a:1: connection refused");
    assert_string_equal(c.h.out, "");
    harness_close(&c.h);
}

/* A wrong address must not put two clusters into one table. */
static void members_of_another_cluster_are_left_out(void **state)
{
    static char other[] = "other";
    struct cluster c;

    (void)state;
    cluster_init(&c);
    c.status[2].cluster_id = other;
    c.status[2].term = 99;
    for (size_t i = 0; i < 3; i++)
        member_answers(&c, i);
    assert_int_equal(harness_run(&c.h, "--endpoints a:1,b:1,c:1 status"), CLI_OK);
    assert_contains(c.h.error, "remark: c:1 is left out: it belongs to cluster other");
    assert_contains(c.h.out, "cluster demo  epoch 1  term 7");
    assert_lacks(c.h.out, "99");
    harness_close(&c.h);
}

/* ---- debug check ---- */

struct checks {
    struct cluster c;
    Ckpt__V1__DebugCheckReply replies[3];
    Ckpt__V1__HashAt at[3][2];
    Ckpt__V1__HashAt *pointers[3][2];
};

/* Members are at 100, 101, 102 and remember the hashes of two entries before. */
static void checks_init(struct checks *k)
{
    cluster_init(&k->c);
    for (size_t i = 0; i < 3; i++) {
        Ckpt__V1__DebugCheckReply *r = &k->replies[i];

        ckpt__v1__debug_check_reply__init(r);
        member_answers(&k->c, i);
        r->member_id = i + 1;
        r->applied_index = 100 + i;
        r->state_hash = 0x1000 + r->applied_index;
        r->invariants_checked = 30;
        r->history = k->pointers[i];
        r->n_history = 2;
        for (size_t h = 0; h < 2; h++) {
            ckpt__v1__hash_at__init(&k->at[i][h]);
            k->at[i][h].index = r->applied_index - 2 + h;
            k->at[i][h].hash = 0x1000 + k->at[i][h].index;
            k->pointers[i][h] = &k->at[i][h];
        }
    }
}

static void check_answers(struct checks *k, size_t i)
{
    harness_answer(&k->c.h, addresses[i], "OperatorService/DebugCheck", RPC_OK, NULL,
                   &k->replies[i].base);
}

static void equal_hashes_at_a_common_index_pass(void **state)
{
    struct checks k;

    (void)state;
    checks_init(&k);
    for (size_t i = 0; i < 3; i++)
        check_answers(&k, i);
    assert_int_equal(harness_run(&k.c.h, ENDPOINTS "debug check"), CLI_OK);
    assert_contains(k.c.h.out, "hashes compared at index 100");
    assert_lacks(k.c.h.out, "MISMATCH");
    harness_close(&k.c.h);
}

static void the_member_with_another_hash_is_named(void **state)
{
    struct checks k;

    (void)state;
    checks_init(&k);
    k.at[2][0].hash = 0xbad; /* n3 at index 100 */
    for (size_t i = 0; i < 3; i++)
        check_answers(&k, i);
    assert_int_equal(harness_run(&k.c.h, ENDPOINTS "debug check"), CLI_FAILED);
    assert_contains(k.c.h.out, "c:1            3  MISMATCH");
    assert_contains(k.c.h.out, "a:1            1  ok");
    assert_contains(k.c.h.error, "0 violations, 1 members with another state hash");
    harness_close(&k.c.h);
}

static void a_violated_invariant_fails(void **state)
{
    static char text[] = "I24: checkpoint 1-4 is active twice";
    static char *violations[] = {text};
    struct checks k;

    (void)state;
    checks_init(&k);
    k.replies[0].violations = violations;
    k.replies[0].n_violations = 1;
    for (size_t i = 0; i < 3; i++)
        check_answers(&k, i);
    assert_int_equal(harness_run(&k.c.h, ENDPOINTS "debug check"), CLI_FAILED);
    assert_contains(k.c.h.out, "violation on member 1: I24: checkpoint 1-4 is active twice");
    assert_int_equal(harness_run(&k.c.h, ENDPOINTS "-o json debug check"), CLI_FAILED);
    assert_contains(k.c.h.out, "\"verdict\": \"VIOLATED\"");
    harness_close(&k.c.h);
}

static void a_silent_member_makes_the_check_partial(void **state)
{
    struct checks k;

    (void)state;
    checks_init(&k);
    check_answers(&k, 0);
    check_answers(&k, 1);
    assert_int_equal(harness_run(&k.c.h, ENDPOINTS "debug check"), CLI_PARTIAL);
    assert_contains(k.c.h.error, "1 of 3 members could not be checked");
    assert_contains(k.c.h.out, "unreachable");
    harness_close(&k.c.h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_shows_leader_lag_tolerance_and_what_waits),
        cmocka_unit_test(nodes_that_are_not_ready_are_named),
        cmocka_unit_test(what_only_a_follower_knows_of_itself_is_told_too),
        cmocka_unit_test(any_single_member_answers_without_a_quorum),
        cmocka_unit_test(an_election_is_named_as_such),
        cmocka_unit_test(a_majority_that_has_not_elected_yet_is_no_lost_quorum),
        cmocka_unit_test(a_member_that_does_not_answer_is_named_with_the_reason),
        cmocka_unit_test(the_member_with_a_quorum_is_believed),
        cmocka_unit_test(members_beyond_the_given_endpoint_are_found),
        cmocka_unit_test(members_of_another_cluster_are_left_out),
        cmocka_unit_test(nobody_answering_is_said_with_the_reason),
        cmocka_unit_test(equal_hashes_at_a_common_index_pass),
        cmocka_unit_test(the_member_with_another_hash_is_named),
        cmocka_unit_test(a_violated_invariant_fails),
        cmocka_unit_test(a_silent_member_makes_the_check_partial),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
