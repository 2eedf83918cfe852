/* The deadline of an allocation through order sets and starts (S1-090, I33). */
#include "src/agent/job/executor.h"
#include "tests/unit/agent/still_agent.h"

enum { RUN = 7 };

/* Of the state from which the next one is derived. */
static uint64_t set_index, point_index;

static struct allocation *known(const char *id, uint64_t deadline_us)
{
    struct allocation *allocation = agent_get(&agent, id);

    set_index = point_index = 0;
    allocation->entry.run = allocation->entry.named_run = RUN;
    allocation->entry.deadline_us = deadline_us;
    return allocation;
}

/* A set of parts, of job and other, that all have so much left of their walltime; 0: it has no
 * end. */
static void take_set(size_t count, uint64_t run, uint64_t remaining_ms)
{
    static const char *const ids[] = {"job", "other"};
    Ckpt__V1__AllocationPart parts[2], *pointers[2];
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    uint8_t bytes[512];
    size_t length;

    for (size_t i = 0; i < count; i++) {
        ckpt__v1__allocation_part__init(&parts[i]);
        parts[i].allocation_id = (char *)ids[i];
        parts[i].run = run;
        parts[i].remaining_ms = remaining_ms;
        parts[i].walltime_ms = remaining_ms == 0 ? 0 : 60000;
        pointers[i] = &parts[i];
    }
    set.n_parts = count;
    set.parts = pointers;
    set.index = set_index;
    set.runs_until = RUN + 10;
    assert_true(ckpt__v1__order_set__get_packed_size(&set) <= sizeof(bytes));
    length = ckpt__v1__order_set__pack(&set, bytes);
    agent_take_orders(&agent, ckpt__v1__order_set__unpack(NULL, length, bytes));
}

/* The restart point of the run that is to be started tells of it. */
static void take_restart_point(struct allocation *allocation, uint64_t remaining_ms,
                               uint64_t walltime_ms)
{
    Ckpt__V1__AllocationPart part = CKPT__V1__ALLOCATION_PART__INIT;

    part.allocation_id = (char *)(uintptr_t) "job";
    part.remaining_ms = remaining_ms;
    part.walltime_ms = walltime_ms;
    allocation_take_part(
        allocation, &part,
        &(struct walltime_word){.index = point_index, .came_us = still_now_us, .run = RUN});
}

static void a_later_run_has_none_of_the_run_before(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    assert_true(allocation_set_run(allocation, 0, RUN + 1));
    assert_uint_equal(allocation->entry.deadline_us, 0);
    take_set(1, RUN + 1, 40000);
    assert_uint_equal(allocation->entry.deadline_us, 50 * SECOND_US);
}

/* What is left is counted from when it came: of two that tell of the run that is to be started the
 * one that took longer is no later end, be it the restart point or the set. Of another walltime it
 * is. */
static void what_comes_late_is_no_later_end(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, RUN, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    still_now_us += 5 * SECOND_US;
    take_restart_point(allocation, 20000, 60000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_set(1, RUN, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_restart_point(allocation, 20000, 70000);
    assert_uint_equal(allocation->entry.deadline_us, 35 * SECOND_US);
}

/* The restart point tells of another walltime than the sets that come after it and are older: the
 * run began when it did, also when what is told of it in the end is the first again. */
static void another_walltime_is_of_the_same_begin(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, RUN, 20000);
    still_now_us += 5 * SECOND_US;
    take_restart_point(allocation, 30000, 70000);
    assert_uint_equal(allocation->entry.deadline_us, 40 * SECOND_US);
    take_set(1, RUN, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
}

/* S1-090: the scheduler registers that it has no end any more. */
static void a_walltime_that_was_taken_away_ends_nothing(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, RUN, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_set(1, RUN, 0);
    assert_uint_equal(allocation->entry.deadline_us, 0);
    assert_uint_equal(allocation->entry.walltime_ms, 0);
    assert_uint_equal(ledger_find(agent.ledger, "job")->deadline_us, 0);
}

/* I33: the set was on its way when the scheduler registered a walltime, of which the restart point
 * told. */
static void a_set_from_before_a_walltime_does_not_take_it_away(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    point_index = 20;
    take_restart_point(allocation, 20000, 60000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    still_now_us += SECOND_US;
    set_index = 19;
    take_set(1, RUN, 0);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_set(0, RUN, 0);
    assert_uint_equal(allocation->entry.named_run, RUN);
    still_now_us += SECOND_US;
    set_index = 21;
    take_set(1, RUN, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_set(1, RUN, 0);
    assert_uint_equal(allocation->entry.deadline_us, 0);
}

/* ---- what may start while no leader can be asked ---- */

/* The fresh run of a job that the agent has orders for, also when it was started again since: its
 * walltime is that run's. */
static void what_was_named_last_may_start_in_an_outage(void **state)
{
    struct allocation *allocation = known("job", 5 * SECOND_US);

    (void)state;
    allocation->entry.ended_run = RUN;
    take_set(1, RUN + 1, 20000);
    assert_uint_equal(allocation_outage_run(allocation), RUN + 1);
    assert_uint_equal(ledger_find(agent.ledger, "job")->named_run, RUN + 1);
    ckpt__v1__order_set__free_unpacked(agent.orders, NULL);
    agent.orders = NULL; /* as after its restart */
    still_now_us += 5 * SECOND_US;
    assert_uint_equal(allocation_outage_run(allocation), RUN + 1);
    assert_true(allocation_set_run(allocation, 0, RUN + 1));
    assert_uint_equal(allocation->entry.run, RUN + 1);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
}

static void what_was_never_named_waits_for_a_leader(void **state)
{
    (void)state;
    assert_uint_equal(allocation_outage_run(agent_get(&agent, "job")), 0);
}

static void what_is_named_no_more_waits_for_a_leader(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, RUN, 20000);
    assert_uint_equal(allocation_outage_run(allocation), RUN);
    take_set(0, RUN, 0);
    assert_uint_equal(allocation_outage_run(allocation), 0);
    assert_uint_equal(ledger_find(agent.ledger, "job")->named_run, 0);
}

/* A restart point may come before the set of the state that it is from. */
static void a_set_from_before_a_run_does_not_unname_it(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    allocation->entry.named_run = RUN + 20;
    take_set(0, RUN, 0);
    assert_uint_equal(allocation_outage_run(allocation), RUN + 20);
}

static void what_ended_here_waits_for_a_leader(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    assert_uint_equal(allocation_outage_run(allocation), RUN);
    allocation->entry.ended_run = RUN - 1;
    assert_uint_equal(allocation_outage_run(allocation), RUN);
    allocation->entry.ended_run = RUN;
    assert_uint_equal(allocation_outage_run(allocation), 0);
}

/* While one of the run before ran, that one's walltime counted. */
static void the_next_run_has_its_own_walltime_in_an_outage(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, RUN, 20000);
    allocation->process.state = PROCESS_RUNNING;
    take_set(1, RUN + 1, 40000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    allocation->process.state = PROCESS_ABSENT;
    allocation->entry.ended_run = RUN;
    assert_uint_equal(allocation_outage_run(allocation), RUN + 1);
    assert_uint_equal(allocation->entry.deadline_us, 50 * SECOND_US);
}

/* Its clock began anew. Of an allocation without a walltime nothing is forgotten. */
static void what_lost_its_deadline_in_a_reboot_waits_for_a_leader(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    allocation->entry.walltime_ms = 60000;
    assert_uint_equal(allocation_outage_run(allocation), RUN);
    allocation->entry.deadline_us = 0;
    assert_uint_equal(allocation_outage_run(allocation), 0);
    allocation->entry.walltime_ms = 0;
    assert_uint_equal(allocation_outage_run(allocation), RUN);
}

int main(void)
{
#define DEADLINE_TEST(name)                                                                        \
    cmocka_unit_test_setup_teardown(name, still_agent_set_up, still_agent_close)
    const struct CMUnitTest tests[] = {
        DEADLINE_TEST(what_comes_late_is_no_later_end),
        DEADLINE_TEST(another_walltime_is_of_the_same_begin),
        DEADLINE_TEST(a_later_run_has_none_of_the_run_before),
        DEADLINE_TEST(a_walltime_that_was_taken_away_ends_nothing),
        DEADLINE_TEST(a_set_from_before_a_walltime_does_not_take_it_away),
        DEADLINE_TEST(what_was_named_last_may_start_in_an_outage),
        DEADLINE_TEST(what_was_never_named_waits_for_a_leader),
        DEADLINE_TEST(what_is_named_no_more_waits_for_a_leader),
        DEADLINE_TEST(a_set_from_before_a_run_does_not_unname_it),
        DEADLINE_TEST(what_ended_here_waits_for_a_leader),
        DEADLINE_TEST(the_next_run_has_its_own_walltime_in_an_outage),
        DEADLINE_TEST(what_lost_its_deadline_in_a_reboot_waits_for_a_leader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
