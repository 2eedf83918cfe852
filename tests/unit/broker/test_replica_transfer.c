/* Leadership is handed over: what waits meanwhile, and what the caller is told of each end that it
 * can have. */
#include "tests/unit/broker/replica_fixture.h"

static void a_hand_over_waits_for_what_is_in_flight_and_leaves_no_fate_unknown(void **state)
{
    struct answer flying;
    struct answer queued;
    struct answer transfer = {0};
    struct answer second = {0};

    (void)state;
    serve(1);
    propose_numbered(1, &flying);
    turn();
    propose_numbered(2, &queued);
    replica_transfer(replica, 3, take_answer, &transfer);
    replica_transfer(replica, 2, take_answer, &second);
    assert_int_equal(second.failed, ERR_REFUSED);
    turn();
    assert_uint_equal(fake.count, 1); /* the second one is held back */
    assert_uint_equal(fake.transfers_asked, 0);
    commit_one();
    assert_int_equal(flying.failed, ERR_NONE);
    fake.refuse_transfers = 1;
    turn();
    turn();
    assert_uint_equal(fake.transfers_asked, 2);
    assert_uint_equal(fake.transfer_member, 3);
    turn();
    assert_uint_equal(fake.transfers_asked, 2); /* it was told once */
    assert_int_equal(transfer.count, 0);
    follow(2, 3);
    assert_int_equal(transfer.count, 1);
    assert_int_equal(transfer.failed, ERR_NONE);
    assert_int_equal(queued.failed, ERR_UNAVAILABLE);
}

/* Begins a hand-over that has been asked for, to `member_id` (0: any), and loses the leadership to
 * nobody yet. */
static void hand_over_and_lose(uint64_t member_id, struct answer *transfer)
{
    memset(transfer, 0, sizeof(*transfer));
    serve(fake.term + 1);
    replica_transfer(replica, member_id, take_answer, transfer);
    turn();
    follow(fake.term + 1, 0);
    assert_int_equal(transfer->count, 0); /* who leads shows what came of it */
}

static void a_hand_over_is_judged_by_who_leads_afterwards(void **state)
{
    struct answer transfer;

    (void)state;
    hand_over_and_lose(3, &transfer);
    follow(fake.term, 2);
    assert_int_equal(transfer.failed, ERR_REFUSED);
    hand_over_and_lose(3, &transfer);
    follow(fake.term, 3);
    assert_int_equal(transfer.failed, ERR_NONE);
    hand_over_and_lose(0, &transfer);
    follow(fake.term, 2);
    assert_int_equal(transfer.failed, ERR_NONE);
    hand_over_and_lose(0, &transfer);
    lead(fake.term + 1); /* nobody else wanted it */
    assert_int_equal(transfer.failed, ERR_REFUSED);
    assert_int_equal(transfer.count, 1);
    follow(fake.term + 1, 0);
    drop_all();
    hand_over_and_lose(3, &transfer);
    clock_us += REPLICA_TRANSFER_MS * UINT64_C(1000) - 1;
    turn();
    assert_int_equal(transfer.count, 0);
    clock_us += 1;
    turn();
    assert_int_equal(transfer.failed, ERR_TIMEOUT);
    follow(fake.term, 3);
    assert_int_equal(transfer.count, 1);
}

static void closing_ends_a_hand_over_without_saying_that_it_was_done(void **state)
{
    struct answer transfer;
    bool closed = false;

    (void)state;
    hand_over_and_lose(0, &transfer);
    replica_close(replica, mark_closed, &closed);
    replica = NULL;
    assert_true(closed);
    assert_int_equal(transfer.count, 1);
    assert_int_equal(transfer.failed, ERR_TIMEOUT);
}

static void a_hand_over_that_nobody_takes_is_given_up(void **state)
{
    struct answer waiting;
    struct answer transfer = {0};

    (void)state;
    serve(1);
    replica_transfer(replica, 0, take_answer, &transfer);
    propose_numbered(1, &waiting);
    clock_us += (REPLICA_CATCH_UP_MS - 1) * UINT64_C(1000);
    turn();
    assert_uint_equal(fake.transfers_asked, 1);
    assert_uint_equal(fake.count, 0);
    clock_us += REPLICA_TRANSFER_MS * UINT64_C(1000) - 1; /* counts from then on */
    turn();
    assert_int_equal(transfer.count, 0);
    clock_us += 1;
    turn();
    assert_int_equal(transfer.failed, ERR_REFUSED);
    assert_uint_equal(fake.count, 1);
    commit_one();
    assert_int_equal(waiting.failed, ERR_NONE);
    memset(&transfer, 0, sizeof(transfer));
    follow(2, 3);
    replica_transfer(replica, 0, take_answer, &transfer);
    assert_int_equal(transfer.failed, ERR_UNAVAILABLE);
}

static void a_hand_over_without_a_voter_that_caught_up_is_refused_soon(void **state)
{
    struct answer waiting;
    struct answer transfer = {0};

    (void)state;
    serve(1);
    fake.refuse_transfers = SIZE_MAX;
    replica_transfer(replica, 0, take_answer, &transfer);
    propose_numbered(1, &waiting);
    turn();
    assert_int_equal(transfer.count, 0);
    clock_us += REPLICA_CATCH_UP_MS * UINT64_C(1000);
    turn();
    assert_int_equal(transfer.failed, ERR_REFUSED);
    assert_uint_equal(fake.count, 1);
    commit_one();
    assert_int_equal(waiting.failed, ERR_NONE);
}

/* It does not become fit by waiting, and changes wait meanwhile. */
static void a_hand_over_is_refused_at_once_when_nobody_is_fit_to_lead(void **state)
{
    struct answer waiting;
    struct answer transfer = {0};

    (void)state;
    serve(1);
    fake.refuse_transfers = SIZE_MAX;
    fake.refuse_with = ERR_REFUSED;
    replica_transfer(replica, 0, take_answer, &transfer);
    propose_numbered(1, &waiting);
    turn();
    assert_int_equal(transfer.failed, ERR_REFUSED);
    assert_uint_equal(fake.transfers_asked, 1);
    assert_uint_equal(fake.count, 1);
    commit_one();
    assert_int_equal(waiting.failed, ERR_NONE);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_hand_over_waits_for_what_is_in_flight_and_leaves_no_fate_unknown),
        TEST(a_hand_over_is_judged_by_who_leads_afterwards),
        TEST(closing_ends_a_hand_over_without_saying_that_it_was_done),
        TEST(a_hand_over_that_nobody_takes_is_given_up),
        TEST(a_hand_over_is_refused_at_once_when_nobody_is_fit_to_lead),
        TEST(a_hand_over_without_a_voter_that_caught_up_is_refused_soon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
