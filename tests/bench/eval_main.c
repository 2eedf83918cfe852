/* How long one evaluation takes: 1,000 to 1,000,000 allocations of mixed ages and sizes, beside
 * reading the same bytes once.
 *
 * Flow     a view is filled with seeded values, every page of it written, pushed out of the caches
 *          before each round, and scored: verdicts alone (decide) and with all terms written out
 *          (score). Prints JSON lines.
 * Units    milliseconds of processor time, medians of the rounds; ratios are taken round by round.
 *          "read" loads every byte of the view's arrays once, as wide as the processor can and with
 *          prefetches, by the better of two orders.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/check.h"
#include "src/eval/model.h"

enum { ROUNDS = 21 };

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); /* not what others take of the core */
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(values[0]), compare);
    return values[ROUNDS / 2];
}

static void fill(struct eval_view *view, size_t count)
{
    uint64_t state = 1;

    view->count = count;
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        view->age_s[i] = (double)(state >> 40 & 0xffff);
        view->nodes[i] = (double)(1 + (state >> 20) % 64);
        view->gpus[i] = view->nodes[i] * 8;
        view->size_bytes[i] = view->gpus[i] * 80e9 * (double)(30 + (state >> 8) % 70) / 100;
        view->bandwidth_bytes_per_s[i] = view->nodes[i] * 1.5625e9;
        view->hazard_factor[i] = view->success_probability[i] = view->stall_factor[i] = 1;
        view->kill_per_s[i] = view->alarm_h[i] = view->write_quantile_s[i] = 0; /* written pages */
        view->period_s[i] = view->waiting_gain_gpu_s[i] = view->yield_probability[i] = 0;
        view->walltime_left_s[i] = (double)(state >> 30 & 0x3ffff) + 60;
        view->usd_per_gb_month[i] = 0.02;
        view->grace_s[i] = 30;
    }
}

/* ---- a good reader of the same bytes ---- */

typedef uint64_t words __attribute__((vector_size(64), aligned(8), may_alias));

/* As wide as the processor loads; no sum of doubles, which would wait for the one before. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__)
#define WIDEST                                                                                     \
    __attribute__((noinline, optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST __attribute__((noinline))
#endif

enum {
    LINE_DOUBLES = 8,
    LINES_AT_ONCE = 8,
    STEP = LINE_DOUBLES * LINES_AT_ONCE,
    COLUMN_AHEAD = 4 * STEP, /* the best of 2, 4, 8, 16 */
    STREAMS_AHEAD = 5 * LINE_DOUBLES
};

/* One column after the other: what the processor's own prefetching is made for. */
WIDEST static uint64_t read_column(const void *bytes, size_t doubles)
{
    const double *array = bytes;
    words sums[LINES_AT_ONCE] = {0}, sum = {0};
    uint64_t all = 0;

    for (size_t i = 0; i + STEP <= doubles; i += STEP)
        for (size_t k = 0; k < LINES_AT_ONCE; k++) {
            __builtin_prefetch(array + i + COLUMN_AHEAD + k * LINE_DOUBLES);
            sums[k] ^= *(const words *)(array + i + k * LINE_DOUBLES);
        }
    for (size_t k = 0; k < LINES_AT_ONCE; k++)
        sum ^= sums[k];
    for (size_t k = 0; k < LINE_DOUBLES; k++)
        all ^= sum[k];
    return all;
}

/* A line of each column at a time: as the rule has to read them. */
WIDEST static uint64_t read_streams(const double *const *arrays, size_t count, size_t doubles)
{
    words sum = {0};
    uint64_t all = 0;

    for (size_t i = 0; i + LINE_DOUBLES <= doubles; i += LINE_DOUBLES)
        for (size_t a = 0; a < count; a++) {
            __builtin_prefetch(arrays[a] + i + STREAMS_AHEAD);
            sum ^= *(const words *)(arrays[a] + i);
        }
    for (size_t k = 0; k < LINE_DOUBLES; k++)
        all ^= sum[k];
    return all;
}

/* Every byte that an evaluation reads, once. */
static uint64_t read_once(const struct eval_view *view, bool streams)
{
    const double *const arrays[] = {
#define X(column) view->column,
        EVAL_VIEW_COLUMNS(X)
#undef X
    };
    uint64_t all = read_column(view->flags, view->count / 2);

    if (streams)
        return all ^ read_streams(arrays, ARRAY_COUNT(arrays), view->count);
    for (size_t a = 0; a < ARRAY_COUNT(arrays); a++)
        all ^= read_column(arrays[a], view->count);
    return all;
}

/* Pushes the view out of the caches: the real case, as an evaluation runs every 30 s. */
static double cold_ms(void)
{
    static uint8_t *other;
    static const size_t size = 256u << 20;

    if (other == NULL)
        other = check_alloc(size);
    memset(other, (int)now_ms() & 0xff, size);
    return now_ms();
}

/* By the better of the two readers. */
static double read_cold_ms(const struct eval_view *view, volatile uint64_t *sink)
{
    double t0 = cold_ms(), columns_ms, streams_ms;

    *sink = read_once(view, false);
    columns_ms = now_ms() - t0;
    t0 = cold_ms();
    *sink = read_once(view, true);
    streams_ms = now_ms() - t0;
    return columns_ms < streams_ms ? columns_ms : streams_ms;
}

/* Of verdicts over reading when every 16th job lies on borrowed nodes: in each block a flag that
 * changes numbers. */
static double ratio_with_flags(const struct eval_policy *policy, struct eval_view *view,
                               struct eval_result *result, uint8_t *verdicts)
{
    double ratio[ROUNDS];
    volatile uint64_t sink;

    for (size_t i = 0; i < view->count; i += 16)
        view->flags[i] = EVAL_FLAG_RECLAIMABLE;
    eval_score(policy, view, result);
    for (int round = 0; round < ROUNDS; round++) {
        double read_ms = read_cold_ms(view, &sink), t0 = cold_ms();

        eval_decide(policy, view, verdicts);
        ratio[round] = (now_ms() - t0) / read_ms;
    }
    (void)sink;
    CHECK(memcmp(verdicts, result->verdict, view->count) == 0);
    return median(ratio);
}

static void measure(size_t count)
{
    struct eval_policy policy = {.cycle_s = 30,
                                 .min_interval_s = 300,
                                 .max_interval_s = 21600,
                                 .lambda_node_per_s = 6.5e-3 / 86400,
                                 .quiesce_s = 1,
                                 .stall_fraction = 1,
                                 .restart_s = 180,
                                 .usd_per_gpu_hour = 2,
                                 .retention_months = 0.25,
                                 .horizon_clamp = 0.7};
    struct eval_view view;
    struct eval_result result;
    double decide[ROUNDS], score[ROUNDS], read[ROUNDS];
    double decide_ratio[ROUNDS], score_ratio[ROUNDS];
    uint8_t *verdicts = check_calloc(count, 1);
    size_t fires = 0;
    volatile uint64_t sink;

    eval_view_alloc(&view, count);
    eval_result_alloc(&result, count);
    fill(&view, count);
    eval_score(&policy, &view, &result);
    eval_decide(&policy, &view, verdicts);
    CHECK(memcmp(verdicts, result.verdict, count) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        double t0;

        read[round] = read_cold_ms(&view, &sink);
        t0 = cold_ms();
        eval_decide(&policy, &view, verdicts);
        decide[round] = now_ms() - t0;
        t0 = cold_ms();
        eval_score(&policy, &view, &result);
        score[round] = now_ms() - t0;
        decide_ratio[round] = decide[round] / read[round];
        score_ratio[round] = score[round] / read[round];
    }
    (void)sink;
    for (size_t i = 0; i < count; i++)
        fires += eval_verdict_fires(result.verdict[i]);
    printf("{\"allocations\": %zu, \"read_ms\": %.3f, \"decide_ms\": %.3f, \"decide_over_read\": "
           "%.2f, \"score_ms\": %.3f, \"score_over_read\": %.2f, \"fires\": %zu, "
           "\"decide_over_read_with_flags\": %.2f}\n",
           count, median(read), median(decide), median(decide_ratio), median(score),
           median(score_ratio), fires, ratio_with_flags(&policy, &view, &result, verdicts));
    eval_view_free(&view);
    eval_result_free(&result);
    free(verdicts);
}

int main(void)
{
    measure(1000);
    measure(10000);
    measure(100000);
    measure(1000000);
    return 0;
}
