/* The deadline of an allocation through order sets and starts (S1-090, I33). */
#include "src/agent/job/walltime.h"
#include "tests/unit/agent/still_agent.h"

enum { LIFE = 7 };

static struct allocation *known(const char *id, uint64_t deadline_us)
{
    struct allocation *allocation = agent_get(&agent, id);

    allocation->entry.life = LIFE;
    allocation->entry.deadline_us = deadline_us;
    return allocation;
}

/* A set whose deadlines, of job and other, all have so much left. */
static void take_set(size_t count, uint64_t life, uint64_t remaining_ms)
{
    static const char *const ids[] = {"job", "other"};
    Ckpt__V1__AllocationDeadline deadlines[2], *pointers[2];
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    uint8_t bytes[512];
    size_t length;

    for (size_t i = 0; i < count; i++) {
        ckpt__v1__allocation_deadline__init(&deadlines[i]);
        deadlines[i].allocation_id = (char *)ids[i];
        deadlines[i].life = life;
        deadlines[i].remaining_ms = remaining_ms;
        deadlines[i].walltime_ms = 60000;
        pointers[i] = &deadlines[i];
    }
    set.n_deadlines = count;
    set.deadlines = pointers;
    assert_true(ckpt__v1__order_set__get_packed_size(&set) <= sizeof(bytes));
    length = ckpt__v1__order_set__pack(&set, bytes);
    agent_take_orders(&agent, ckpt__v1__order_set__unpack(NULL, length, bytes));
}

/* The restart point of the life that is to be started tells of it. */
static void take_restart_point(struct allocation *allocation, uint64_t remaining_ms,
                               uint64_t walltime_ms)
{
    Ckpt__V1__AllocationDeadline deadline = CKPT__V1__ALLOCATION_DEADLINE__INIT;

    deadline.allocation_id = (char *)(uintptr_t) "job";
    deadline.remaining_ms = remaining_ms;
    deadline.walltime_ms = walltime_ms;
    walltime_set(allocation, &deadline, LIFE, still_now_us);
}

/* No broker answers, and the agent was started again in the outage. */
static void a_start_for_an_unknown_life_keeps_the_deadline(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    assert_true(allocation_set_life(allocation, 0, 0));
    assert_uint_equal(allocation->entry.life, 0);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
}

/* Nor is a set of before the outage read as if it came now. */
static void an_old_set_does_not_move_a_deadline(void **state)
{
    struct allocation *allocation = known("job", 0);
    struct allocation *other = known("other", 0);

    (void)state;
    take_set(2, 0, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    still_now_us += 5 * SECOND_US;
    assert_true(allocation_set_life(allocation, 0, 0));
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    assert_true(allocation_set_life(allocation, 0, LIFE + 1));
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    assert_uint_equal(other->entry.deadline_us, 30 * SECOND_US);
}

static void a_later_life_has_none_of_the_life_before(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    assert_true(allocation_set_life(allocation, 0, LIFE + 1));
    assert_uint_equal(allocation->entry.deadline_us, 0);
    take_set(1, LIFE + 1, 40000);
    assert_uint_equal(allocation->entry.deadline_us, 50 * SECOND_US);
}

/* What is left is counted from when it came: of two that tell of the life that is to be started the one that took longer is no later
 * end, be it the restart point or the set. Of another walltime it is. */
static void what_comes_late_is_no_later_end(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, LIFE, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    still_now_us += 5 * SECOND_US;
    take_restart_point(allocation, 20000, 60000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_set(1, LIFE, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
    take_restart_point(allocation, 20000, 70000);
    assert_uint_equal(allocation->entry.deadline_us, 35 * SECOND_US);
}

/* The restart point tells of another walltime than the sets that come after it and are older: the life began when it did, also when
 * what is told of it in the end is the first again. */
static void another_walltime_is_of_the_same_begin(void **state)
{
    struct allocation *allocation = known("job", 0);

    (void)state;
    take_set(1, LIFE, 20000);
    still_now_us += 5 * SECOND_US;
    take_restart_point(allocation, 30000, 70000);
    assert_uint_equal(allocation->entry.deadline_us, 40 * SECOND_US);
    take_set(1, LIFE, 20000);
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
}

/* Nor when it has passed: what would begin is the life that it ended. */
static void a_start_for_an_unknown_life_keeps_a_passed_deadline(void **state)
{
    struct allocation *allocation = known("job", 5 * SECOND_US);

    (void)state;
    assert_false(allocation_leader_needed(allocation));
    assert_true(allocation_set_life(allocation, 0, 0));
    assert_uint_equal(allocation->entry.deadline_us, 5 * SECOND_US);
    assert_true(allocation_set_life(allocation, 0, 0));
    assert_uint_equal(allocation->entry.deadline_us, 5 * SECOND_US);
}

/* A broker that does not know lives says that the allocation runs. */
static void a_passed_deadline_is_of_the_run_before(void **state)
{
    struct allocation *allocation = known("job", 5 * SECOND_US);

    (void)state;
    assert_true(allocation_set_life(allocation, 1, 0));
    assert_uint_equal(allocation->entry.deadline_us, 0);
    allocation->entry.deadline_us = 30 * SECOND_US;
    assert_true(allocation_set_life(allocation, 1, 0));
    assert_uint_equal(allocation->entry.deadline_us, 30 * SECOND_US);
}

static void nothing_starts_without_a_leader_after_the_end_of_its_life(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    assert_false(allocation_leader_needed(allocation));
    allocation->entry.ended_life = LIFE - 1;
    assert_false(allocation_leader_needed(allocation));
    allocation->entry.ended_life = LIFE;
    assert_true(allocation_leader_needed(allocation));
    allocation->entry.life = 0;
    assert_false(allocation_leader_needed(allocation));
    allocation->entry.ended = true;
    assert_true(allocation_leader_needed(allocation));
}

/* Its clock began anew. Of an allocation that never had a walltime nothing is forgotten. */
static void nothing_starts_without_a_leader_when_a_reboot_took_its_deadline(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    allocation->entry.walltime_ms = 60000;
    assert_false(allocation_leader_needed(allocation));
    allocation->entry.deadline_us = 0;
    assert_true(allocation_leader_needed(allocation));
    allocation->entry.walltime_ms = 0;
    assert_false(allocation_leader_needed(allocation));
}

static void an_unknown_life_after_an_ended_one_has_none_of_it(void **state)
{
    struct allocation *allocation = known("job", 30 * SECOND_US);

    (void)state;
    allocation->entry.ended_life = LIFE;
    assert_true(allocation_set_life(allocation, 0, 0));
    assert_uint_equal(allocation->entry.deadline_us, 0);
}

int main(void)
{
#define DEADLINE_TEST(name)                                                                        \
    cmocka_unit_test_setup_teardown(name, still_agent_set_up, still_agent_close)
    const struct CMUnitTest tests[] = {
        DEADLINE_TEST(a_start_for_an_unknown_life_keeps_the_deadline),
        DEADLINE_TEST(an_old_set_does_not_move_a_deadline),
        DEADLINE_TEST(what_comes_late_is_no_later_end),
        DEADLINE_TEST(another_walltime_is_of_the_same_begin),
        DEADLINE_TEST(a_later_life_has_none_of_the_life_before),
        DEADLINE_TEST(a_start_for_an_unknown_life_keeps_a_passed_deadline),
        DEADLINE_TEST(a_passed_deadline_is_of_the_run_before),
        DEADLINE_TEST(nothing_starts_without_a_leader_after_the_end_of_its_life),
        DEADLINE_TEST(nothing_starts_without_a_leader_when_a_reboot_took_its_deadline),
        DEADLINE_TEST(an_unknown_life_after_an_ended_one_has_none_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
