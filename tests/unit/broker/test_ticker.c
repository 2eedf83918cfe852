/* Ticks: deadlines of the state fire in time, an idle cluster writes nothing. */
#include "src/broker/replica/ticker.h"
#include "tests/unit/broker/fake_replica.h"

static void short_walltime(Ckpt__V1__AllocationSpec *spec)
{
    spec->walltime_ms = 60000;
    spec->grace_ms = 1000;
}

static void delay_is_bounded_so_that_a_step_of_the_wall_clock_is_noticed(void **state)
{
    (void)state;
    assert_uint_equal(ticker_delay_ms(100, 100), 0);
    assert_uint_equal(ticker_delay_ms(99, 100), 0);
    assert_uint_equal(ticker_delay_ms(350, 100), 250);
    assert_uint_equal(ticker_delay_ms(1000000, 100), TICKER_CHECK_MS);
}

static void an_idle_cluster_proposes_nothing(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct ticker *ticker = ticker_new(&fake->broker);
    uint64_t proposed;

    (void)state;
    fake_serve(fake);
    proposed = fake->replica.proposed_count;
    fake_advance_ms(fake, 3600 * 1000);
    assert_uint_equal(fake->replica.proposed_count, proposed);
    ticker_free(ticker);
    fake_free(fake);
}

static void a_passed_deadline_is_ticked_once(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct ticker *ticker = ticker_new(&fake->broker);
    uint64_t proposed, deadline_ms;

    (void)state;
    fake_serve(fake);
    assert_int_equal(fake_register(fake, "job", 1, 1, short_walltime).status, FSM_OK);
    proposed = fake->replica.proposed_count;
    deadline_ms = fsm_next_deadline_ms(fake->replica.fsm);
    assert_true(deadline_ms < UINT64_MAX);
    fake_advance_ms(fake, deadline_ms - fake_wall_ms(fake) - 1);
    assert_uint_equal(fake->replica.proposed_count, proposed);
    fake_advance_ms(fake, 1);
    assert_uint_equal(fake->replica.proposed_count, proposed + 1);
    assert_true(fsm_next_deadline_ms(fake->replica.fsm) > deadline_ms);
    ticker_free(ticker);
    fake_free(fake);
}

static void a_follower_never_ticks(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct ticker *ticker = ticker_new(&fake->broker);
    uint64_t proposed;

    (void)state;
    fake_serve(fake);
    assert_int_equal(fake_register(fake, "job", 1, 1, short_walltime).status, FSM_OK);
    fake_stop_serving(fake);
    proposed = fake->replica.proposed_count;
    fake_advance_ms(fake, 3600 * 1000);
    assert_uint_equal(fake->replica.proposed_count, proposed);
    /* the next leader ticks at once */
    fake_serve(fake);
    assert_uint_equal(fake->replica.proposed_count, proposed + 1);
    ticker_free(ticker);
    fake_free(fake);
}

static void a_wall_clock_that_steps_back_only_delays(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct ticker *ticker = ticker_new(&fake->broker);
    uint64_t proposed;

    (void)state;
    fake_serve(fake);
    assert_int_equal(fake_register(fake, "job", 1, 1, short_walltime).status, FSM_OK);
    proposed = fake->replica.proposed_count;
    fake->wall_step_ms = -30000;
    fake_advance_ms(fake, 60000);
    assert_uint_equal(fake->replica.proposed_count, proposed);
    fake->wall_step_ms = 0;
    fake_advance_ms(fake, TICKER_CHECK_MS);
    assert_uint_equal(fake->replica.proposed_count, proposed + 1);
    ticker_free(ticker);
    fake_free(fake);
}

static void apply_something(struct fake *fake)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__MemberFacts facts = CKPT__LOG__V1__MEMBER_FACTS__INIT;

    facts.member_id = 1;
    facts.name = (char[]){"n1"};
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_MEMBER_FACTS;
    command.member_facts = &facts;
    (void)fake_do(fake, &command);
}

/* The pause after a Tick begins with the Tick, not with the last entry. */
static void a_deadline_after_a_tick_is_ticked_while_entries_keep_coming(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct ticker *ticker = ticker_new(&fake->broker);
    uint64_t deadline_ms;

    (void)state;
    fake_serve(fake);
    assert_int_equal(fake_register(fake, "job", 1, 1, short_walltime).status, FSM_OK);
    fake_advance_ms(fake, fsm_next_deadline_ms(fake->replica.fsm) - fake_wall_ms(fake));
    deadline_ms = fsm_next_deadline_ms(fake->replica.fsm);
    assert_true(deadline_ms > fake_wall_ms(fake) && deadline_ms < UINT64_MAX);
    while (fake_wall_ms(fake) < deadline_ms + TICKER_RETRY_MS) {
        fake_advance_ms(fake, TICKER_RETRY_MS / 4);
        apply_something(fake);
    }
    assert_true(fsm_next_deadline_ms(fake->replica.fsm) > deadline_ms);
    ticker_free(ticker);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_is_bounded_so_that_a_step_of_the_wall_clock_is_noticed),
        cmocka_unit_test(an_idle_cluster_proposes_nothing),
        cmocka_unit_test(a_passed_deadline_is_ticked_once),
        cmocka_unit_test(a_follower_never_ticks),
        cmocka_unit_test(a_wall_clock_that_steps_back_only_delays),
        cmocka_unit_test(a_deadline_after_a_tick_is_ticked_while_entries_keep_coming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
