/* The history of evaluations gives every earlier one back, to the bit, for as long as it says it does. */
#include <math.h>

#include "src/broker/explain/history.h"
#include "tests/support/test.h"

enum { JOBS = 40 };

/* Everything, kept the simple way. */
struct kept {
    uint64_t row[EVAL_COLUMN_COUNT];
    uint32_t flags;
    uint8_t verdict;
    uint64_t now_ms;
};

struct world {
    struct history *history;
    struct eval_view before, now;
    uint8_t verdict_before[JOBS], verdict[JOBS];
    struct history_row rows[JOBS];
    uint64_t since_ms[JOBS], ends_ms[JOBS];
    struct kept *kept; /* by cycle, then job */
    uint64_t now_ms, random;
    uint32_t cycle;
};

static void world_open(struct world *world, uint64_t bytes, size_t cycles)
{
    memset(world, 0, sizeof(*world));
    world->history = history_new(bytes);
    eval_view_alloc(&world->before, JOBS);
    eval_view_alloc(&world->now, JOBS);
    world->before.count = world->now.count = JOBS;
    world->kept = calloc((cycles + 1) * JOBS, sizeof(*world->kept));
    world->random = test_seed();
    world->now_ms = 1700000000123;
    for (int i = 0; i < JOBS; i++) {
        world->since_ms[i] = world->now_ms - test_random(&world->random) % 100000;
        world->ends_ms[i] = i % 3 == 0 ? 0 : world->now_ms + test_random(&world->random) % 3000000;
    }
}

static void world_close(struct world *world)
{
    history_free(world->history);
    eval_view_free(&world->before);
    eval_view_free(&world->now);
    free(world->kept);
}

static double seconds(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (double)(to_ms - from_ms) / 1e3 : 0;
}

static void change_something(struct world *world, size_t i)
{
    uint64_t which = test_random(&world->random) % 12;

    if (which == 0)
        world->since_ms[i] = world->now_ms + test_random(&world->random) % 3 * 1000 - 1000;
    else if (which == 1)
        world->now.waiting_gain_gpu_s[i] = (double)(test_random(&world->random) % 1000);
    else if (which == 2)
        world->now.flags[i] ^= 1u << test_random(&world->random) % 10;
    else if (which == 3)
        world->verdict[i] = (uint8_t)(test_random(&world->random) % EVAL_VERDICT_COUNT);
    else if (which == 4)
        world->now.size_bytes[i] = test_random(&world->random) % 9 == 0 ? NAN : 1e12;
    else if (which == 5 && world->ends_ms[i] != 0)
        world->ends_ms[i] += 500;
}

/* The verdict that counts comes after the note. */
static void turn(struct world *world, size_t i)
{
    struct history_sample noted = {&world->now, i, world->verdict[i]};

    world->verdict[i] = (uint8_t)((world->verdict[i] + 1) % EVAL_VERDICT_COUNT);
    history_turn(world->history, &world->rows[i], noted);
}

/* As evaluator.c does it: the rows of the cycle before are put aside, then filled anew. */
static void world_cycle(struct world *world, unsigned changes)
{
    struct eval_policy policy = {.pressure = (double)world->cycle};

    world->now_ms += test_random(&world->random) % 5 == 0 ? 0 : test_random(&world->random) % 60000;
    policy.phi_gpu_s_per_byte = (double)++world->cycle;
    history_cycle(world->history, world->now_ms, &policy);
    for (size_t i = 0; i < JOBS; i++) {
        struct kept *kept = &world->kept[world->cycle * JOBS + i];

#define X(column) world->before.column[i] = world->now.column[i];
        EVAL_VIEW_COLUMNS(X)
#undef X
        world->before.flags[i] = world->now.flags[i];
        world->verdict_before[i] = world->verdict[i];
        if (test_random(&world->random) % 100 < changes)
            change_something(world, i);
        world->now.age_s[i] = seconds(world->since_ms[i], world->now_ms);
        world->now.walltime_left_s[i] =
            world->ends_ms[i] == 0 ? INFINITY : seconds(world->now_ms, world->ends_ms[i]);
        history_note(world->history, &world->rows[i],
                     (struct history_sample){&world->before, i, world->verdict_before[i]},
                     (struct history_sample){&world->now, i, world->verdict[i]});
        if (test_random(&world->random) % 400 < changes)
            turn(world, i);
        eval_row_take(&world->now, i, kept->row);
        kept->flags = world->now.flags[i];
        kept->verdict = world->verdict[i];
        kept->now_ms = world->now_ms;
    }
}

static void assert_kept(const struct world *world, const struct history_run *run, size_t job)
{
    const struct kept *kept = &world->kept[run->cycle * JOBS + job];
    uint64_t bits[EVAL_COLUMN_COUNT];

    eval_row_take(&run->view, 0, bits);
    assert_memory_equal(bits, kept->row, sizeof(bits));
    assert_int_equal(run->view.flags[0], kept->flags);
    assert_int_equal(run->verdict, kept->verdict);
    assert_uint_equal(history_cycle_ms(world->history, run->cycle), kept->now_ms);
    assert_double_near(history_policy(world->history, run->cycle)->phi_gpu_s_per_byte,
                       (double)run->cycle, 0);
}

/* Returns how many evaluations were found again, without a gap. */
static size_t walk(const struct world *world, size_t job)
{
    struct history_run run;
    uint64_t changed;
    uint32_t expected = world->cycle;
    size_t found = 0;

    eval_view_alloc(&run.view, 1);
    history_newest(world->history, &world->rows[job],
                   (struct history_sample){&world->now, job, world->verdict[job]}, &run);
    do {
        assert_int_equal(run.last_cycle, expected);
        assert_true(run.first_cycle <= run.last_cycle);
        for (uint32_t cycle = run.last_cycle; cycle >= run.first_cycle; cycle--) {
            history_move(world->history, &run, cycle);
            assert_kept(world, &run, job);
            found++;
        }
        expected = run.first_cycle - 1;
    } while (history_older(world->history, &run, &changed));
    eval_view_free(&run.view);
    return found;
}

static void every_evaluation_is_given_back_to_the_bit(void **state)
{
    enum { CYCLES = 1500 };
    struct world world;

    (void)state;
    world_open(&world, 64 << 20, CYCLES);
    for (int cycle = 0; cycle < CYCLES; cycle++)
        world_cycle(&world, 30);
    for (size_t job = 0; job < JOBS; job++)
        assert_uint_equal(walk(&world, job), CYCLES);
    assert_int_equal(history_kept(world.history), CYCLES);
    world_close(&world);
}

/* The memory is what was allowed, whatever happens; what is left is still right. */
static void the_oldest_give_way_when_the_memory_is_used_up(void **state)
{
    enum { CYCLES = 2500 };
    struct world world;
    size_t least = SIZE_MAX, most = 0;

    (void)state;
    world_open(&world, 1, CYCLES); /* one segment: 512 KiB */
    for (int cycle = 0; cycle < CYCLES; cycle++)
        world_cycle(&world, 100);
    for (size_t job = 0; job < JOBS; job++) {
        size_t found = walk(&world, job);

        least = found < least ? found : least;
        most = found > most ? found : most;
    }
    print_message("%zu to %zu of %d evaluations are kept\n", least, most, CYCLES);
    assert_true(least > 400 && most < CYCLES);
    assert_in_range(history_kept(world.history), least - 10, least);
    world_close(&world);
}

/* A job about which nothing changes keeps its history without any memory, as long as the cycles themselves are known. */
static void quiet_jobs_reach_back_as_far_as_the_cycles(void **state)
{
    enum { CYCLES = HISTORY_CYCLES + 500 };
    struct world world;

    (void)state;
    world_open(&world, 1, CYCLES);
    for (int job = 0; job < JOBS; job++)
        world.ends_ms[job] = 0;
    for (int cycle = 0; cycle < CYCLES; cycle++)
        world_cycle(&world, 0);
    assert_int_equal(history_oldest_cycle(world.history), CYCLES - HISTORY_CYCLES + 1);
    for (size_t job = 0; job < JOBS; job++)
        assert_uint_equal(walk(&world, job), HISTORY_CYCLES);
    assert_int_equal(history_kept(world.history), HISTORY_CYCLES);
    world_close(&world);
}

static void the_cycle_in_force_at_an_instant_is_found(void **state)
{
    struct history *history = history_new(1);
    struct eval_policy policy = {0};

    (void)state;
    assert_int_equal(history_cycle_at(history, 1000), 0);
    for (uint64_t i = 1; i <= HISTORY_CYCLES + 10; i++)
        history_cycle(history, i * 1000, &policy);
    assert_int_equal(history_cycle_at(history, 10999), 0); /* forgotten */
    assert_int_equal(history_cycle_at(history, 11000), 11);
    assert_int_equal(history_cycle_at(history, 11999), 11);
    assert_int_equal(history_cycle_at(history, 2000500), 2000);
    assert_int_equal(history_cycle_at(history, UINT64_MAX), HISTORY_CYCLES + 10);
    history_clear(history);
    assert_int_equal(history_kept(history), 0);
    assert_int_equal(history_cycle_at(history, UINT64_MAX), 0);
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_evaluation_is_given_back_to_the_bit),
        cmocka_unit_test(the_oldest_give_way_when_the_memory_is_used_up),
        cmocka_unit_test(quiet_jobs_reach_back_as_far_as_the_cycles),
        cmocka_unit_test(the_cycle_in_force_at_an_instant_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
