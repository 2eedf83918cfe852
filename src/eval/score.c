/* The verdict of every job: the guards in their order, then value against cost. See model.h.
 *
 * Flow     eval_score() walks the view in blocks that stay in the first-level cache.
 */
#include <math.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"
#include "src/eval/job.h"
#include "src/eval/vector.h"

VECTOR_PASS static void pass_guards(const struct job_policy *given, const struct eval_view *view,
                                    size_t first, size_t count, struct block *block,
                                    const struct eval_result *result)
{
    const struct job_policy policy = *given;
    const double *age = view->age_s + first;
    const double *left = view->walltime_left_s + first;
    const double *period = view->period_s + first;
    const double *saved = result->recompute_saved, *preempt = result->preemptability;
    const double *relief = result->backlog_relief, *write_time = result->write_time;
    const double *waste = result->compute_waste, *storage = result->storage_cost;

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        struct job job = {.age_s = age[i],
                          .walltime_left_s = left[i],
                          .period_s = period[i],
                          .sensitive = block->sensitive[i],
                          .first_one = block->first_one[i],
                          .sure = block->sure[i],
                          .up = block->up[i],
                          .late = block->late[i],
                          .due = block->due[i],
                          .recompute_saved = saved[i],
                          .preemptability = preempt[i],
                          .backlog_relief = relief[i],
                          .write_time = write_time[i],
                          .compute_waste = waste[i],
                          .storage_cost = storage[i]};
        job_guards(&policy, &job);
        block->code[i] = job.code;
    }
}

/* bad: NULL when no input is. In two steps, because a loop over elements of many sizes does as many
 * jobs at once as the smallest allows, which are more than the registers hold. */
static inline __attribute__((always_inline)) void flags_loop(const uint32_t *flags,
                                                             const double *bad, const double *code,
                                                             size_t count, uint8_t *verdict)
{
    uint32_t chosen_of[BLOCK_JOBS];

    VECTOR_LOOP
    for (size_t i = 0; i < count; i++) {
        uint32_t flag = flags[i], chosen = (uint32_t)(int32_t)code[i];
        uint32_t passes = chosen == (uint32_t)EVAL_CHECKPOINT_WALLTIME ? EVAL_FLAG_WAITING : 0;
        uint32_t active = (flag & passes) != 0 ? 0 : flag & EVAL_FLAG_ACTIVE;
        chosen = active != 0 ? (uint32_t)EVAL_SKIP_ACTIVE : chosen;
        chosen = (flag & EVAL_FLAG_NOT_AUTO) != 0 ? (uint32_t)EVAL_SKIP_STRATEGY : chosen;
        chosen_of[i] = bad != NULL && bad[i] > 0 ? (uint32_t)EVAL_SKIP_BAD_INPUT : chosen;
    }
    VECTOR_LOOP
    for (size_t i = 0; i < count; i++)
        verdict[i] = (uint8_t)chosen_of[i];
}

VECTOR_PASS static void pass_flags(const uint32_t *flags, const double *bad, const double *code,
                                   size_t count, uint8_t *verdict)
{
    flags_loop(flags, bad, code, count, verdict);
}

VECTOR_PASS static void pass_flags_good(const uint32_t *flags, const double *code, size_t count,
                                        uint8_t *verdict)
{
    flags_loop(flags, NULL, code, count, verdict);
}

void block_verdicts(const struct eval_view *view, size_t first, size_t count, const double *codes,
                    uint8_t *ret_verdicts)
{
    pass_flags_good(view->flags + first, codes, count, ret_verdicts);
}

void block_score(const struct block_policy *policy, const struct eval_view *view, size_t first,
                 size_t count, struct eval_result *rows)
{
    const struct job_policy numbers = job_policy_of(policy);
    struct block block;

    block_timing(policy, view, first, count, &block);
    block_terms(policy, view, first, count, &block, rows);
    pass_guards(&numbers, view, first, count, &block, rows);
    pass_flags(view->flags + first, block.bad, block.code, count, rows->verdict);
}

static void refuse_all(const struct eval_view *view, struct eval_result *result)
{
#define X(column) memset(result->column, 0, view->count * sizeof(*result->column));
    EVAL_RESULT_COLUMNS(X)
#undef X
    memset(result->verdict, EVAL_SKIP_BAD_INPUT, view->count);
}

void eval_score(const struct eval_policy *policy, const struct eval_view *view,
                struct eval_result *ret_result)
{
    struct block_policy block_policy;

    CHECK(view->count <= view->capacity);
    if (!eval_policy_valid(policy)) {
        refuse_all(view, ret_result);
        return;
    }
    block_policy_init(&block_policy, policy);
    for (size_t first = 0; first < view->count; first += BLOCK_JOBS) {
        struct eval_result rows = {.verdict = ret_result->verdict + first};
#define X(column) rows.column = ret_result->column + first;
        EVAL_RESULT_COLUMNS(X)
#undef X
        block_score(&block_policy, view, first, block_jobs(view, first), &rows);
    }
}
