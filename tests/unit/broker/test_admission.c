/* How many of a cycle's decisions are proposed: the best that fit, held beside sorting all of them
 * (D-001, D-002). */
#include <stdlib.h>

#include "src/broker/decide/admission.h"
#include "tests/support/test.h"

enum { JOBS_MAX = 400, TARGETS = 3 };

struct fate {
    bool left_out, admitted;
};

static void note_left_out(void *context, const struct admission_candidate *candidate)
{
    struct fate *fate = (struct fate *)context + candidate->slot;

    assert_false(fate->left_out);
    fate->left_out = true;
}

static int best_first(const void *left, const void *right)
{
    const struct admission_candidate *a = left, *b = right;

    if (a->gain_gpu_s_per_byte != b->gain_gpu_s_per_byte)
        return a->gain_gpu_s_per_byte < b->gain_gpu_s_per_byte ? 1 : -1;
    return (a->slot > b->slot) - (a->slot < b->slot);
}

static void close_and_check_order(struct admission *admission, struct fate *fates)
{
    const struct admission_candidate *at;
    struct admission_candidate last;
    bool first = true;

    admission_close(admission);
    while ((at = admission_next(admission)) != NULL) {
        assert_false(fates[at->slot].admitted || fates[at->slot].left_out);
        fates[at->slot].admitted = true;
        assert_true(first || best_first(&last, at) < 0);
        last = *at;
        first = false;
    }
}

/* One candidate after the other in their order: admitted while there is room or they are few. */
static void check_fates(struct admission_candidate *jobs, size_t count,
                        const struct admission_room rooms[FSM_TARGETS_MAX],
                        const struct admission *admission, const struct fate *fates)
{
    double bytes[TARGETS] = {0}, lines[TARGETS] = {0}, line;
    uint64_t taken[TARGETS] = {0};
    bool some_left[TARGETS] = {0};

    qsort(jobs, count, sizeof(*jobs), best_first);
    for (size_t i = 0; i < count; i++) {
        uint32_t target = jobs[i].target;
        bool fits = bytes[target] < rooms[target].bytes || taken[target] < rooms[target].count ||
                    (jobs[i].gain_gpu_s_per_byte > rooms[target].clear_gain_gpu_s_per_byte &&
                     taken[target] < ADMISSION_BETTER_MAX);

        assert_int_equal(fates[jobs[i].slot].admitted, fits && !some_left[target]);
        assert_int_equal(fates[jobs[i].slot].left_out, !fits || some_left[target]);
        some_left[target] |= !fits;
        if (fits)
            lines[target] = jobs[i].gain_gpu_s_per_byte;
        bytes[target] += fits ? jobs[i].size_bytes : 0;
        taken[target] += fits;
    }
    for (uint32_t target = 0; target < TARGETS; target++) {
        bool drawn = some_left[target] && taken[target] > 0;

        assert_int_equal(admission_line(admission, target, &line), drawn);
        assert_double_near(line, drawn ? lines[target] : 0, 0);
    }
}

static void the_best_that_fit_are_admitted_whatever_the_order(void **state)
{
    struct fate fates[JOBS_MAX];
    struct admission *admission = admission_new(note_left_out, fates);
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct admission_room rooms[FSM_TARGETS_MAX] = {0};
        struct admission_candidate jobs[JOBS_MAX];
        size_t count = test_random(&random) % JOBS_MAX;

        memset(fates, 0, sizeof(fates));
        for (uint32_t target = 0; target < TARGETS; target++)
            rooms[target] =
                (struct admission_room){(double)(test_random(&random) % 4000) - 500,
                                        test_random(&random) % 3 * test_random(&random) % 100,
                                        (double)(test_random(&random) % 60)};
        admission_begin(admission, rooms);
        for (uint32_t i = 0; i < count; i++) {
            jobs[i] = (struct admission_candidate){
                .gain_gpu_s_per_byte = (double)(test_random(&random) % 50) - 5,
                .size_bytes = (double)(test_random(&random) % 40),
                .slot = i,
                .target = (uint32_t)(test_random(&random) % TARGETS)};
            admission_add(admission, &jobs[i]);
        }
        close_and_check_order(admission, fates);
        check_fates(jobs, count, rooms, admission, fates);
    }
    admission_free(admission);
}

/* However much room there is, a cycle's log is bounded; the target with most of them gives way. */
static void a_cycle_admits_a_bounded_number(void **state)
{
    enum { CANDIDATES = ADMISSION_MAX + 5000, FEW = 100 };
    struct fate *fates = calloc(CANDIDATES, sizeof(*fates));
    struct admission *admission = admission_new(note_left_out, fates);
    struct admission_room rooms[FSM_TARGETS_MAX] = {{1e30, 0, 0}, {1e30, 0, 0}};
    size_t left_out = 0;

    (void)state;
    admission_begin(admission, rooms);
    for (uint32_t i = 0; i < CANDIDATES; i++)
        admission_add(admission, &(struct admission_candidate){
                                     .gain_gpu_s_per_byte = i < FEW ? 0 : (double)(i % 1000 + 1),
                                     .size_bytes = 1,
                                     .slot = i,
                                     .target = i < FEW});
    close_and_check_order(admission, fates);
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        left_out += fates[i].left_out;
        assert_true(fates[i].admitted != fates[i].left_out);
        assert_false(i < FEW && fates[i].left_out);
    }
    assert_uint_equal(left_out, CANDIDATES - ADMISSION_MAX);
    admission_free(admission);
    free(fates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_that_fit_are_admitted_whatever_the_order),
        cmocka_unit_test(a_cycle_admits_a_bounded_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
