/* Raft's members, the replicated list of them, and who should lead: what differs is proposed until
 * it does not, and leadership goes to the preferred member without flapping. */
#include "src/base/log.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/health/disk_watch.h"
#include "src/broker/replica/leader_watch.h"
#include "src/broker/replica/member_watch.h"
#include "tests/unit/broker/fake_replica.h"

static struct consensus_status status;
static struct consensus_member told;
static size_t told_count, transfers, steps_down;
static uint64_t transferred_to;
static const struct err *transfer_fails;
static bool step_down_fails;
static size_t logged_count;

/* Instead of the real one. */
void log_event(enum log_level level, const char *event, const char *format, ...)
{
    (void)level;
    (void)event;
    (void)format;
    logged_count++;
}

/* Instead of the real one: when its last cycle ended. */
static uint64_t cycle_ms;

uint64_t evaluator_last_cycle_ms(const struct evaluator *evaluator)
{
    return evaluator == NULL ? 0 : cycle_ms;
}

void replica_member_put(struct replica *replica, const struct consensus_member *member)
{
    (void)replica;
    told = *member;
    told_count++;
}

void replica_transfer(struct replica *replica, uint64_t member_id, replica_done_fn *done,
                      void *data)
{
    (void)replica;
    transfers++;
    transferred_to = member_id;
    done(data, transfer_fails, NULL);
}

int replica_yield(struct replica *replica, struct err *err)
{
    (void)replica;
    transfers++;
    transferred_to = 0;
    return transfer_fails == NULL ? 0
                                  : err_set(err, transfer_fails->code, "%s", transfer_fails->text);
}

int replica_step_down(struct replica *replica, struct err *err)
{
    (void)replica;
    steps_down++;
    if (step_down_fails)
        return err_set(err, ERR_REFUSED, "nobody else could be elected");
    status.role = CONSENSUS_FOLLOWER;
    return 0;
}

static void put_peer(size_t i, uint64_t id, const char *name, enum consensus_member_role role)
{
    struct consensus_peer_status *peer = &status.peers[i];

    *peer = (struct consensus_peer_status){.id = id,
                                           .role = role,
                                           .voter = role == CONSENSUS_VOTER,
                                           .connected = true,
                                           .match_index = status.last_index};
    snprintf(peer->name, sizeof(peer->name), "%s", name);
    snprintf(peer->address, sizeof(peer->address), "10.0.0.%" PRIu64 ":9000", id);
    status.peer_count = i + 1;
}

/* Three voters, of whom this one, n1, leads. */
static struct fake *three(void)
{
    struct fake *fake = fake_new(NULL);
    static const struct config_member self = {.id = 1, .name = (char *)(uintptr_t) "n1"};

    fake->config.self = &self;
    fake->config.election_ms = 1000;
    memset(&status, 0, sizeof(status));
    status.member_id = status.leader_id = 1;
    status.member_role = CONSENSUS_VOTER;
    status.role = CONSENSUS_LEADER;
    status.voter_count = 3;
    status.last_index = 500;
    put_peer(0, 2, "n2", CONSENSUS_VOTER);
    put_peer(1, 3, "n3", CONSENSUS_VOTER);
    fake->replica.status = &status;
    told_count = transfers = steps_down = 0;
    transfer_fails = NULL;
    step_down_fails = false;
    return fake;
}

static struct leader_watch *leader_watch;

/* ... and looks whether it should; NULL: nobody is preferred. */
static struct fake *leading(const char *preferred)
{
    struct fake *fake = three();

    fake->config.preferred_leader = (char *)(uintptr_t)preferred;
    leader_watch = leader_watch_new(&fake->broker);
    return fake;
}

/* ... and serves, with cycles that end when the test says so. */
static struct fake *leading_with_evaluator(const char *preferred)
{
    struct fake *fake = leading(preferred);

    fake->broker.evaluator = (struct evaluator *)(void *)&cycle_ms; /* never looked into */
    fake_serve(fake);
    return fake;
}

static void leading_end(struct fake *fake)
{
    leader_watch_free(leader_watch);
    fake_free(fake);
}

static const Ckpt__Log__V1__MemberFacts *facts_of(struct fake *fake, uint64_t id)
{
    const Ckpt__Log__V1__MemberFacts *facts;

    for (size_t i = 0; (facts = fsm_member_at(fake->replica.fsm, i)) != NULL; i++) {
        if (facts->member_id == id)
            return facts;
    }
    return NULL;
}

static void what_raft_has_committed_becomes_history_once(void **state)
{
    struct fake *fake = three();
    struct member_watch *watch = member_watch_new(&fake->broker);
    uint64_t proposed;

    (void)state;
    fake_serve(fake);
    assert_int_equal(facts_of(fake, 2)->role, CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER);
    assert_string_equal(facts_of(fake, 3)->raft_address, "10.0.0.3:9000");
    proposed = fake->replica.proposed_count;
    fake_advance_ms(fake, 60 * 1000);
    assert_uint_equal(fake->replica.proposed_count, proposed); /* an idle cluster writes nothing */
    put_peer(2, 4, "n4", CONSENSUS_LEARNER);
    status.change_index = 501; /* not committed yet */
    fake_advance_ms(fake, 5 * 1000);
    assert_null(facts_of(fake, 4));
    status.change_index = 0;
    fake_advance_ms(fake, 5 * 1000);
    assert_int_equal(facts_of(fake, 4)->role, CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_LEARNER);
    put_peer(1, 4, "n4", CONSENSUS_VOTER); /* n3 is gone */
    fake_advance_ms(fake, 5 * 1000);
    assert_int_equal(facts_of(fake, 3)->role, CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_REMOVED);
    assert_int_equal(facts_of(fake, 4)->role, CKPT__LOG__V1__MEMBER_ROLE__MEMBER_ROLE_VOTER);
    member_watch_free(watch);
    fake_free(fake);
}

static void the_replicated_addresses_go_into_the_book_and_new_ones_come_back(void **state)
{
    struct fake *fake = three();
    struct member_watch *watch = member_watch_new(&fake->broker);
    size_t before;

    (void)state;
    fake_serve(fake);
    fake_advance_ms(fake, 2000);
    assert_uint_equal(told.id, 3);
    assert_string_equal(told.address, "10.0.0.3:9000");
    before = told_count;
    snprintf(status.peers[0].address, sizeof(status.peers[0].address),
             "10.9.9.9:9000"); /* it moved */
    fake_advance_ms(fake, 2000);
    assert_string_equal(facts_of(fake, 2)->raft_address, "10.9.9.9:9000");
    assert_uint_equal(told_count, before + 1);
    assert_uint_equal(told.id, 2);
    fake->replica.contact_of_2 = "10.9.9.9:7443"; /* and says where its clients find it */
    fake_advance_ms(fake, 2000);
    assert_string_equal(facts_of(fake, 2)->api_address, "10.9.9.9:7443");
    before = fake->replica.proposed_count;
    fake_advance_ms(fake, 10 * 1000);
    assert_uint_equal(fake->replica.proposed_count, before);
    member_watch_free(watch);
    fake_free(fake);
}

static void a_follower_proposes_nothing(void **state)
{
    struct fake *fake = three();
    struct member_watch *watch = member_watch_new(&fake->broker);
    uint64_t before = fake->replica.proposed_count;

    (void)state;
    status.role = CONSENSUS_FOLLOWER;
    fake_advance_ms(fake, 10 * 1000);
    assert_uint_equal(fake->replica.proposed_count, before);
    member_watch_free(watch);
    fake_free(fake);
}

static void the_preferred_member_takes_over_when_it_was_well_for_a_while(void **state)
{
    struct fake *fake = leading("n3");

    (void)state;
    fake_serve(fake);
    status.peers[1].match_index = status.last_index - LEADER_WATCH_LAG_MAX - 1;
    fake_advance_ms(fake, 60 * 1000);
    assert_uint_equal(transfers, 0); /* it lags */
    status.peers[1].match_index = status.last_index;
    fake_advance_ms(fake, LEADER_WATCH_STABLE_MS - LEADER_WATCH_MS);
    status.peers[1].connected =
        false; /* a moment only: it has to be well for the whole time again */
    fake_advance_ms(fake, LEADER_WATCH_MS);
    status.peers[1].connected = true;
    fake_advance_ms(fake, LEADER_WATCH_STABLE_MS - LEADER_WATCH_MS);
    assert_uint_equal(transfers, 0);
    fake_advance_ms(fake, 3 * LEADER_WATCH_MS);
    assert_uint_equal(transfers, 1);
    assert_uint_equal(transferred_to, 3);
    leading_end(fake);
}

static void hand_overs_that_do_not_last_become_rare(void **state)
{
    struct fake *fake = leading("n3");

    (void)state;
    fake_serve(fake); /* and leads again after each, or still */
    fake_advance_ms(fake, 3600 * 1000);
    assert_in_range(transfers, 6, 14);
    leading_end(fake);
}

static void a_learner_or_an_unknown_name_is_never_preferred(void **state)
{
    struct fake *fake = leading("n3");

    (void)state;
    put_peer(1, 3, "n3", CONSENSUS_LEARNER);
    fake_serve(fake);
    fake_advance_ms(fake, 60 * 1000);
    fake->config.preferred_leader = (char *)(uintptr_t) "n7";
    fake_advance_ms(fake, 60 * 1000);
    assert_uint_equal(transfers, 0);
    leading_end(fake);
}

static void a_leader_that_does_not_come_to_serve_yields(void **state)
{
    struct fake *fake = leading(NULL);

    (void)state;
    fake_advance_ms(fake, LEADER_WATCH_READY_MS - LEADER_WATCH_MS);
    assert_uint_equal(transfers, 0);
    fake_advance_ms(fake, 3 * LEADER_WATCH_MS);
    assert_uint_equal(transfers, 1);
    assert_uint_equal(transferred_to, 0);
    leading_end(fake);
}

/* The evaluator ends no cycle any more, whatever the reason: nobody is checkpointed, so another
 * leader has to. */
static void a_leader_whose_evaluator_is_stuck_hands_over(void **state)
{
    struct fake *fake = leading_with_evaluator(NULL);

    (void)state;
    for (cycle_ms = 1; cycle_ms <= 20; cycle_ms++)
        fake_advance_ms(fake, 30 * 1000);
    assert_uint_equal(transfers, 0);
    fake_advance_ms(fake, LEADER_WATCH_CYCLE_MS - 2 * LEADER_WATCH_MS);
    assert_uint_equal(transfers, 0);
    fake_advance_ms(fake, LEADER_WATCH_CYCLES * 30 * 1000);
    assert_in_range(transfers, 1, 8);
    assert_uint_equal(transferred_to, 0);
    leading_end(fake);
}

static const struct err nobody_takes_it = {ERR_UNAVAILABLE, "no connected voter has caught up"};

/* Not within so long: first it asks as often as it may. */
static void expect_gives_up_after(struct fake *fake, uint64_t ms)
{
    fake_advance_ms(fake, ms);
    assert_uint_equal(steps_down, 0);
    fake_advance_ms(fake, LEADER_WATCH_ANSWER_MS + 2 * LEADER_WATCH_MS);
    assert_uint_equal(transfers, LEADER_WATCH_VAIN);
    assert_uint_equal(steps_down, 1);
}

/* Refused, or taken by nobody: both come to nothing. */
static void a_leader_that_cannot_serve_gives_up_when_nobody_takes_over(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        struct fake *fake = leading(NULL);

        transfer_fails = refused ? &nobody_takes_it : NULL;
        expect_gives_up_after(fake, LEADER_WATCH_READY_MS + LEADER_WATCH_RETRY_MS);
        fake_advance_ms(fake, 3600 * 1000); /* another one leads */
        assert_uint_equal(transfers, LEADER_WATCH_VAIN);
        assert_uint_equal(steps_down, 1);
        leading_end(fake);
    }
}

static void a_leader_whose_evaluator_is_stuck_gives_up_when_nobody_takes_over(void **state)
{
    struct fake *fake = leading_with_evaluator(NULL);

    (void)state;
    transfer_fails = &nobody_takes_it;
    expect_gives_up_after(fake, LEADER_WATCH_CYCLES * 30 * 1000 + LEADER_WATCH_RETRY_MS);
    leading_end(fake);
}

/* One that leads again each time, as nobody else can, leads longer and longer; so does one that may
 * not give up. */
static void giving_up_becomes_rare_when_it_does_not_last(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct fake *fake = leading(NULL);

        transfer_fails = &nobody_takes_it;
        step_down_fails = fails;
        for (unsigned s = 0; s < 3600; s++) {
            fake_advance_ms(fake, 1000);
            status.role = CONSENSUS_LEADER;
        }
        assert_in_range(transfers, 4, 10);
        assert_in_range(steps_down, 3, 5);
        leading_end(fake);
    }
}

/* It led well so far, and had long pauses between its offers. */
static void offers_to_the_preferred_member_do_not_delay_what_is_necessary(void **state)
{
    struct fake *fake = leading_with_evaluator("n3");
    size_t offers;

    (void)state;
    for (cycle_ms = 1; cycle_ms <= 60; cycle_ms++)
        fake_advance_ms(fake, 30 * 1000);
    offers = transfers;
    assert_in_range(offers, 4, 14);
    for (cycle_ms = 100; transfers == offers; cycle_ms++)
        fake_advance_ms(fake, LEADER_WATCH_MS); /* one more, so the next one is far away */
    assert_uint_equal(transferred_to, 3);
    offers = transfers;
    fake_advance_ms(fake, LEADER_WATCH_CYCLES * 30 * 1000 + 2 * LEADER_WATCH_MS);
    assert_uint_equal(transfers, offers + 1);
    assert_uint_equal(transferred_to, 0);
    fake_advance_ms(fake, LEADER_WATCH_RETRY_MS);
    assert_uint_equal(transfers, offers + 2);
    leading_end(fake);
}

/* Hand-overs to the preferred member are refused as well; this one serves. */
static void a_leader_that_serves_never_gives_up(void **state)
{
    struct fake *fake = leading("n3");

    (void)state;
    fake_serve(fake);
    transfer_fails = &nobody_takes_it;
    fake_advance_ms(fake, 3600 * 1000);
    assert_true(transfers > LEADER_WATCH_VAIN);
    assert_uint_equal(steps_down, 0);
    leading_end(fake);
}

/* Alone among the voters' disks its own may be late (S3), but what needs it is: reads of the log,
 * snapshots, the vote after a restart. */
static void a_leader_whose_disk_hangs_or_is_full_hands_over(void **state)
{
    struct fake *fake = three();
    struct disk_watch *watch;

    (void)state;
    status.accepts_writes = true;
    watch = disk_watch_new(&fake->broker);
    fake_serve(fake);
    status.log_write_ms = fake->config.election_ms - 1;
    fake_advance_ms(fake, 60 * 1000);
    assert_uint_equal(transfers, 0);
    status.log_write_ms = fake->config.election_ms;
    fake_advance_ms(fake, 2 * DISK_WATCH_MS);
    assert_uint_equal(transfers, 1);
    fake_advance_ms(fake, DISK_WATCH_HANDOVER_MS - 2 * DISK_WATCH_MS);
    assert_uint_equal(transfers, 1); /* not before that one had its time */
    fake_advance_ms(fake, 3 * DISK_WATCH_MS);
    assert_uint_equal(transfers, 2);
    status.log_write_ms = 0;
    fake_advance_ms(fake, 60 * 1000);
    assert_uint_equal(transfers, 2);
    status.accepts_writes = false;
    fake_advance_ms(fake, 2 * DISK_WATCH_MS);
    assert_uint_equal(transfers, 3);
    disk_watch_free(watch);
    fake_free(fake);
}

/* A line each time would be one for every member that asks again. */
static void a_snapshot_that_cannot_be_read_is_told_once_for_each_cause(void **state)
{
    struct fake *fake = three();
    struct disk_watch *watch;
    char text[64] = "/data/snapshot-7 offset 4096: read file: Input/output error";
    size_t lines;

    (void)state;
    status.accepts_writes = true;
    status.snapshot_unreadable_error = text;
    watch = disk_watch_new(&fake->broker);
    fake_serve(fake);
    lines = logged_count;
    fake_advance_ms(fake, 1000);
    assert_uint_equal(logged_count, lines);
    for (unsigned i = 0; i < 3 * DISK_WATCH_READS_MS / 1000; i++) {
        status.snapshot_unreadable_total++;
        fake_advance_ms(fake, 1000);
        assert_uint_equal(logged_count, lines + 1);
    }
    /* another one is told at once, and those that follow it when some time has passed */
    for (text[15] = '0'; text[15] < '8'; text[15]++) {
        status.snapshot_unreadable_total++;
        fake_advance_ms(fake, 1000);
        assert_uint_equal(logged_count, lines + 2);
    }
    fake_advance_ms(fake, DISK_WATCH_READS_MS);
    assert_uint_equal(logged_count, lines + 3);
    fake_advance_ms(fake, 2 * DISK_WATCH_READS_MS);
    assert_uint_equal(logged_count, lines + 3);
    disk_watch_free(watch);
    fake_free(fake);
}

static void a_cluster_of_one_keeps_its_leader(void **state)
{
    struct fake *fake = leading(NULL);

    (void)state;
    status.voter_count = 1;
    status.peer_count = 0;
    fake_advance_ms(fake, 60 * 1000);
    assert_uint_equal(transfers, 0);
    assert_uint_equal(steps_down, 0);
    leading_end(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_raft_has_committed_becomes_history_once),
        cmocka_unit_test(the_replicated_addresses_go_into_the_book_and_new_ones_come_back),
        cmocka_unit_test(a_follower_proposes_nothing),
        cmocka_unit_test(the_preferred_member_takes_over_when_it_was_well_for_a_while),
        cmocka_unit_test(hand_overs_that_do_not_last_become_rare),
        cmocka_unit_test(a_learner_or_an_unknown_name_is_never_preferred),
        cmocka_unit_test(a_leader_that_does_not_come_to_serve_yields),
        cmocka_unit_test(a_leader_whose_evaluator_is_stuck_hands_over),
        cmocka_unit_test(a_leader_that_cannot_serve_gives_up_when_nobody_takes_over),
        cmocka_unit_test(a_leader_whose_evaluator_is_stuck_gives_up_when_nobody_takes_over),
        cmocka_unit_test(giving_up_becomes_rare_when_it_does_not_last),
        cmocka_unit_test(offers_to_the_preferred_member_do_not_delay_what_is_necessary),
        cmocka_unit_test(a_leader_that_serves_never_gives_up),
        cmocka_unit_test(a_leader_whose_disk_hangs_or_is_full_hands_over),
        cmocka_unit_test(a_snapshot_that_cannot_be_read_is_told_once_for_each_cause),
        cmocka_unit_test(a_cluster_of_one_keeps_its_leader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
