/* This member's part of drills: whom a fault hits, once and in its term; a fault that ends by the
 * member's own clock; and what goes into its word. V-015 */
#include <uv.h>

#include "fsm/drill.h"
#include "src/broker/drill/drills.h"
#include "tests/unit/broker/fake_replica.h"

#define KIND(name) CKPT__V1__DRILL_KIND__DRILL_KIND_##name

enum { DURATION_MS = 8000, ON_MS = DURATION_MS / 2 };

static struct scene {
    struct fake *fake;
    uv_loop_t loop;
    struct fault_ops ops;
    struct drills_duty *duty;
    unsigned died, cuts, restores;
    uint64_t hung_ms;
    bool off;
    struct consensus_status status; /* of a leader that two others answer */
} scene;

static void on_die(void *context)
{
    (void)context;
    scene.died++;
}

static void on_hang(void *context, uint64_t duration_ms)
{
    (void)context;
    scene.hung_ms += duration_ms;
}

static void on_cut(void *context, bool off)
{
    (void)context;
    scene.off = off;
    scene.cuts += off;
}

static bool on_restore(void *context, void (*done)(void *data, const char *failure), void *data)
{
    (void)context, (void)done, (void)data;
    scene.restores++;
    return true;
}

static void do_command(Ckpt__Log__V1__Command *command)
{
    struct fsm_outcome outcome = fake_do(scene.fake, command);

    if (outcome.status != FSM_OK)
        fail_msg("%s", fsm_status_name(outcome.status));
    fake_settle(scene.fake);
}

static void make_voter(uint64_t id)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__MemberRoleChange change = CKPT__LOG__V1__MEMBER_ROLE_CHANGE__INIT;

    change.member_id = id;
    change.name = (char[]){"n"};
    change.role = CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_ROLE;
    command.member_role = &change;
    do_command(&command);
}

static int open_scene(void **state)
{
    static char api[] = "127.0.0.1:1";

    (void)state;
    memset(&scene, 0, sizeof(scene));
    assert_int_equal(uv_loop_init(&scene.loop), 0);
    scene.fake = fake_new(NULL);
    scene.fake->config.members[0].api = api;
    scene.fake->broker.loop = &scene.loop;
    scene.ops =
        (struct fault_ops){.die = on_die, .hang = on_hang, .cut = on_cut, .restore = on_restore};
    scene.duty = drills_new(&scene.fake->broker, &scene.ops, NULL);
    scene.fake->broker.drills = scene.duty;
    fake_serve(scene.fake);
    make_voter(1);
    make_voter(2);
    scene.fake->config.election_ms = 1000;
    scene.status = (struct consensus_status){
        .member_id = 1,
        .leader_id = 1,
        .role = CONSENSUS_LEADER,
        .member_role = CONSENSUS_VOTER,
        .term = scene.fake->replica.term,
        .quorum = true,
        .accepts_writes = true,
        .voter_count = 3,
        .peer_count = 2,
        .peers = {{.id = 2, .voter = true, .connected = true},
                  {.id = 3, .voter = true, .connected = true}},
    };
    scene.fake->replica.status = &scene.status;
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    fake_stop_serving(scene.fake); /* it tells the duty */
    drills_free(scene.duty);
    uv_run(&scene.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&scene.loop), 0);
    fake_free(scene.fake);
    return 0;
}

static void tick(void)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__Tick message = CKPT__LOG__V1__TICK__INIT;

    command.body_case = CKPT__LOG__V1__COMMAND__BODY_TICK;
    command.tick = &message;
    do_command(&command);
}

static void start_drill(Ckpt__V1__DrillKind kind, uint64_t member_id)
{
    static unsigned number;
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__StartDrill start = CKPT__LOG__V1__START_DRILL__INIT;
    char id[32], target[] = "scratch";

    snprintf(id, sizeof(id), "drill-%u", ++number);
    start.kind = kind;
    start.member_id = member_id;
    start.duration_ms = DURATION_MS;
    start.supervised = true;
    start.tolerance = 1;
    if (kind == KIND(STORAGE_OUTAGE))
        start.target_id = target;
    command.request_id = id;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_START_DRILL;
    command.start_drill = &start;
    do_command(&command);
}

static void to_the_fault(Ckpt__V1__DrillKind kind, uint64_t member_id)
{
    start_drill(kind, member_id);
    fake_advance_ms(scene.fake, FSM_DRILL_LEAD_MS - 1);
    tick();
    assert_int_equal(scene.died + scene.cuts + scene.restores + (unsigned)scene.hung_ms, 0);
    fake_advance_ms(scene.fake, 1);
    tick();
}

static void the_leader_of_the_records_term_alone_fails_and_once(void **state)
{
    (void)state;
    to_the_fault(KIND(LEADER_KILL), 1);
    assert_int_equal(scene.died, 1);
    tick();
    assert_int_equal(scene.died, 1);
}

/* Its process was started again, and leads again: the record names its term of before. */
static void one_that_leads_again_does_not_fail_again(void **state)
{
    (void)state;
    start_drill(KIND(LEADER_KILL), 1);
    fake_advance_ms(scene.fake, FSM_DRILL_LEAD_MS);
    scene.fake->replica.term++;
    scene.status.term++;
    tick();
    assert_int_equal(scene.died, 0);
}

/* Another member has failed in the time of the lead: without this leader none would be elected. */
/* The time of the fault has come, and passes. */
static void expect_alive(void)
{
    fake_advance_ms(scene.fake, FSM_DRILL_LEAD_MS);
    tick();
    assert_int_equal(scene.died, 0);
}

static void a_leader_without_which_no_majority_is_left_does_not_fail(void **state)
{
    (void)state;
    start_drill(KIND(LEADER_KILL), 1);
    scene.status.peers[0].connected = false;
    expect_alive();
    scene.status.peers[0].connected = true;
    tick();
    assert_int_equal(scene.died, 0); /* the time of the fault runs */
}

/* It answers, but takes no more soon: what it has is of no use where another one fails. */
static void a_leader_beside_one_whose_disk_is_nearly_full_does_not_fail(void **state)
{
    (void)state;
    start_drill(KIND(LEADER_KILL), 1);
    scene.status.peers[0].unfit = CONSENSUS_DISK_FULL;
    expect_alive();
}

/* The drill's leader is gone: the next one has a member less to spare, or is that follower. */
static void a_follower_under_the_next_leader_is_not_cut_off(void **state)
{
    (void)state;
    scene.status.role = CONSENSUS_FOLLOWER;
    start_drill(KIND(MEMBER_LOSS), 1);
    scene.status.term++;
    fake_advance_ms(scene.fake, FSM_DRILL_LEAD_MS);
    tick();
    scene.status.term--;
    scene.status.role = CONSENSUS_LEADER;
    tick();
    assert_int_equal(scene.cuts, 0);
    scene.status.role = CONSENSUS_FOLLOWER;
    tick();
    assert_int_equal(scene.cuts, 1);
}

static void another_members_fault_is_not_its_own(void **state)
{
    (void)state;
    to_the_fault(KIND(LEADER_KILL), 2);
    assert_int_equal(scene.died, 0);
}

static void a_hang_lasts_for_half_of_the_duration(void **state)
{
    (void)state;
    to_the_fault(KIND(LEADER_HANG), 1);
    assert_int_equal(scene.hung_ms, ON_MS);
}

/* Nothing is applied meanwhile: nobody is heard. */
static void a_cut_ends_by_the_members_own_clock(void **state)
{
    (void)state;
    scene.status.role = CONSENSUS_FOLLOWER;
    to_the_fault(KIND(MEMBER_LOSS), 1);
    assert_true(scene.off);
    fake_advance_ms(scene.fake, ON_MS - 1);
    assert_true(scene.off);
    fake_advance_ms(scene.fake, 1);
    assert_false(scene.off);
    tick();
    assert_int_equal(scene.cuts, 1);
}

static void a_process_that_cannot_bring_the_fault_about_goes_on(void **state)
{
    (void)state;
    scene.ops.cut = NULL;
    scene.status.role = CONSENSUS_FOLLOWER;
    to_the_fault(KIND(MEMBER_LOSS), 1);
    assert_int_equal(scene.cuts, 0);
    fake_advance_ms(scene.fake, DURATION_MS);
    tick();
}

static void probes_of_the_target_fail_for_half_of_the_duration(void **state)
{
    (void)state;
    assert_false(drills_target_fails(scene.duty, "scratch"));
    assert_false(drills_target_fails(NULL, "scratch"));
    to_the_fault(KIND(STORAGE_OUTAGE), 1);
    assert_true(drills_target_fails(scene.duty, "scratch"));
    assert_false(drills_target_fails(scene.duty, "other"));
    fake_advance_ms(scene.fake, ON_MS - 1);
    assert_true(drills_target_fails(scene.duty, "scratch"));
    fake_advance_ms(scene.fake, 1);
    assert_false(drills_target_fails(scene.duty, "scratch"));
}

static void a_restore_is_asked_for_once(void **state)
{
    (void)state;
    to_the_fault(KIND(RESTORE), 1);
    assert_int_equal(scene.restores, 1);
    tick();
    assert_int_equal(scene.restores, 1);
    assert_int_equal(scene.died + scene.cuts + (unsigned)scene.hung_ms, 0);
}

/* A process that starts again comes by drills of the past, and has no time for a probe. */
static void a_probe_on_its_way_ends_with_the_drill(void **state)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__LeaderElected elected = CKPT__LOG__V1__LEADER_ELECTED__INIT;
    size_t timers = 0;

    (void)state;
    start_drill(KIND(LEADER_KILL), 1);
    fake_advance_ms(scene.fake, 100); /* a probe has begun, and is not answered */
    elected.member_id = 2;
    elected.term = ++scene.fake->replica.term;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_LEADER_ELECTED;
    command.leader_elected = &elected;
    do_command(&command); /* aborts the drill */
    for (struct list *at = scene.fake->timers.next; at != &scene.fake->timers; at = at->next) {
        assert_false(LIST_ITEM(at, struct fake_timer, node)->armed);
        timers++;
    }
    assert_int_equal(timers, 2); /* the duty's own */
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(the_leader_of_the_records_term_alone_fails_and_once),
        WITH(one_that_leads_again_does_not_fail_again),
        WITH(a_leader_without_which_no_majority_is_left_does_not_fail),
        WITH(a_leader_beside_one_whose_disk_is_nearly_full_does_not_fail),
        WITH(a_follower_under_the_next_leader_is_not_cut_off),
        WITH(another_members_fault_is_not_its_own),
        WITH(a_hang_lasts_for_half_of_the_duration),
        WITH(a_cut_ends_by_the_members_own_clock),
        WITH(a_process_that_cannot_bring_the_fault_about_goes_on),
        WITH(probes_of_the_target_fail_for_half_of_the_duration),
        WITH(a_restore_is_asked_for_once),
        WITH(a_probe_on_its_way_ends_with_the_drill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
