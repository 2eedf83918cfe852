/* Verdicts alone, in one loop over the columns: each number of the view is read once and nothing
 * but the verdict is written.
 *
 * Flow     eval_decide() for each block: one loop gives the codes of all verdicts and tells whether
 *          an input may make no sense; where one does, the block is scored by the passes, which
 *          know which.
 * Source   score.c has the passes; job.h what both are made of.
 */
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"
#include "src/eval/job.h"
#include "src/eval/vector.h"

enum {
    LINE_JOBS = EVAL_LINE_DOUBLES,
    LINE_FLAGS = EVAL_LINE_DOUBLES * sizeof(double) / sizeof(uint32_t),
    FETCH_AHEAD_JOBS = 5 * LINE_JOBS
};
_Static_assert(BLOCK_JOBS % LINE_JOBS == 0, "a block is whole cache lines");

static inline __attribute__((always_inline)) uint64_t bits_of(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

/* The sign is set when an input may make no sense (block_timing() says for sure). A sum of numbers
 * that are not negative is below the limit only when each of them is, and NaN when one is; the bits
 * of either are above those of the limit. */
static inline __attribute__((always_inline)) uint64_t job_doubtful(const struct job *job)
{
    double sum = job->age_s + job->gpus + job->nodes + job->size_bytes + job->hazard_factor +
                 job->kill_per_s + job->write_quantile_s + job->period_s + job->usd_per_gb_month +
                 job->waiting_gain_gpu_s + job->grace_s + job->stall_factor;
    double unbounded = job->bandwidth_bytes_per_s + job->alarm_h;
    uint64_t signs =
        bits_of(job->age_s) | bits_of(job->gpus) | bits_of(job->nodes) | bits_of(job->size_bytes) |
        bits_of(job->hazard_factor) | bits_of(job->kill_per_s) | bits_of(job->write_quantile_s) |
        bits_of(job->period_s) | bits_of(job->usd_per_gb_month) | bits_of(job->waiting_gain_gpu_s) |
        bits_of(job->grace_s) | bits_of(job->stall_factor) | bits_of(job->bandwidth_bytes_per_s) |
        bits_of(job->alarm_h) | bits_of(job->yield_probability) | bits_of(job->success_probability);
    uint64_t left = bits_of(job->walltime_left_s) & (UINT64_MAX >> 1);

    return signs | (bits_of(EVAL_NUMBER_MAX / 2) - bits_of(sum)) |
           (bits_of(INFINITY) - bits_of(unbounded)) | (bits_of(INFINITY) - left) |
           (bits_of(1) - bits_of(job->yield_probability)) |
           (bits_of(1) - bits_of(job->success_probability));
}

/* A cache line of each column at a time: so many streams at once are more than the processor
 * follows by itself, and as many lines asked for together as a block has would keep the loop
 * waiting. long: the columns by name */
static inline __attribute__((always_inline)) uint64_t decide_loop(const struct job_policy *given,
                                                                  const struct eval_view *view,
                                                                  size_t first, size_t count,
                                                                  const struct block *flags,
                                                                  double *codes)
{
    const struct job_policy policy = *given;
    size_t left = view->count - first;
    uint64_t doubtful[LINE_JOBS] = {0}, any = 0;
#define X(column) const double *column = view->column + first;
    EVAL_VIEW_COLUMNS(X)
#undef X

    for (size_t line = 0; line < count; line += LINE_JOBS) {
        if (line + FETCH_AHEAD_JOBS < left) {
#define X(column) __builtin_prefetch(column + line + FETCH_AHEAD_JOBS);
            EVAL_VIEW_COLUMNS(X)
#undef X
        }
        VECTOR_LOOP
        for (size_t k = 0; k < LINE_JOBS; k++) {
            size_t i = line + k;
            struct job job = {.up = flags != NULL ? flags->up[i] : 1.0,
                              .sensitive = flags != NULL ? flags->sensitive[i] : 0.0,
                              .first_one = flags != NULL ? flags->first_one[i] : 0.0,
                              .done = flags != NULL ? flags->done[i] : 0.0,
                              .reclaim = flags != NULL ? flags->reclaim[i] : 0.0,
                              .stays = flags != NULL ? flags->stays[i] : 0.0,
                              .sure = flags != NULL ? flags->sure[i] : 1.0};
#define X(column) job.column = column[i];
            EVAL_VIEW_COLUMNS(X)
#undef X
            doubtful[k] |= job_doubtful(&job);
            job_write(&policy, &job);
            job_walltime(&policy, &job);
            job_hazard(&policy, &job);
            job_value(&policy, &job);
            job_cost(&policy, &job);
            job_guards(&policy, &job);
            codes[i] = job.code;
        }
    }
    for (size_t k = 0; k < LINE_JOBS; k++)
        any |= doubtful[k];
    return any;
}

VECTOR_PASS static uint64_t decide_plain(const struct job_policy *policy,
                                         const struct eval_view *view, size_t first, size_t count,
                                         double *codes)
{
    return decide_loop(policy, view, first, count, NULL, codes);
}

VECTOR_PASS static uint64_t decide_flagged(const struct job_policy *policy,
                                           const struct eval_view *view, size_t first, size_t count,
                                           const struct block *flags, double *codes)
{
    return decide_loop(policy, view, first, count, flags, codes);
}

/* A block's flags are read before its columns: those of the next one are asked for. */
static void fetch_flags(const struct eval_view *view, size_t first)
{
    for (size_t i = first; i < first + BLOCK_JOBS && i < view->count; i += LINE_FLAGS)
        __builtin_prefetch(view->flags + i);
}

/* Of whole cache lines. False: an input may make no sense. */
static bool decide_block(const struct job_policy *policy, const struct eval_view *view,
                         size_t first, size_t count, uint8_t *ret_verdicts)
{
    double codes[BLOCK_JOBS];
    uint64_t doubtful;

    CHECK(count > 0 && count <= BLOCK_JOBS && count % LINE_JOBS == 0);
    fetch_flags(view, first + BLOCK_JOBS);
    if (block_flags_tell(view, first, count)) {
        struct block block;

        block_decode_flags(view, first, count, &block);
        doubtful = decide_flagged(policy, view, first, count, &block, codes);
    } else {
        doubtful = decide_plain(policy, view, first, count, codes);
    }
    if ((int64_t)doubtful < 0)
        return false;
    block_verdicts(view, first, count, codes, ret_verdicts);
    return true;
}

static void decide_by_passes(const struct block_policy *policy, const struct eval_view *view,
                             size_t first, size_t count, uint8_t *ret_verdicts)
{
    double columns[7][BLOCK_JOBS];
    struct eval_result rows = {.recompute_saved = columns[0],
                               .preemptability = columns[1],
                               .backlog_relief = columns[2],
                               .write_time = columns[3],
                               .compute_waste = columns[4],
                               .storage_cost = columns[5],
                               .hazard_per_s = columns[6],
                               .verdict = ret_verdicts};

    block_score(policy, view, first, count, &rows);
}

VECTOR_PASS void eval_times(double now_ms, const double *since_ms, const double *end_ms,
                            size_t count, double *ret_since_s, double *ret_left_s)
{
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        double passed_ms = now_ms - since_ms[i], left_ms = end_ms[i] - now_ms;

        ret_since_s[i] = (passed_ms > 0 ? passed_ms : 0.0) / 1e3;
        ret_left_s[i] = (left_ms > 0 ? left_ms : 0.0) / 1e3;
    }
}

void eval_decide(const struct eval_policy *policy, const struct eval_view *view,
                 uint8_t *ret_verdict)
{
    struct block_policy block_policy;
    struct job_policy numbers;

    CHECK(view->count <= view->capacity);
    if (!eval_policy_valid(policy)) {
        memset(ret_verdict, EVAL_SKIP_BAD_INPUT, view->count);
        return;
    }
    block_policy_init(&block_policy, policy);
    numbers = job_policy_of(&block_policy);
    for (size_t first = 0; first < view->count; first += BLOCK_JOBS) {
        size_t count = block_jobs(view, first), rest = count % LINE_JOBS, whole = count - rest;

        if (whole > 0 && !decide_block(&numbers, view, first, whole, ret_verdict + first))
            decide_by_passes(&block_policy, view, first, whole, ret_verdict + first);
        if (rest > 0)
            decide_by_passes(&block_policy, view, first + whole, rest, ret_verdict + first + whole);
    }
}
