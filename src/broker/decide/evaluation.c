/* One cycle of the evaluator. See evaluation.h.
 *
 * The file reads in the order in which a cycle goes: the price, the beginning, the rows of a block,
 * the taking of those that fire, the admitted ones, the end. */
#include "src/broker/decide/evaluation.h"

#include <stdlib.h>
#include <string.h>

#include "fsm/quota.h"
#include "src/base/check.h"
#include "src/broker/decide/evaluator.h"

enum {
    EVALUATION_WINDOW_CYCLES = 2, /* what is admitted keeps the targets busy until the next is */
    EVALUATION_QUOTA_MS = 60000,  /* between two refusals of a tenant's limit */
    EVALUATION_FILLED_MAX = EVALUATOR_BLOCK_ROWS /* rows in a turn: then it is enough */
};

/* ---- the beginning ---- */

bool evaluation_runs(const struct evaluation *evaluation)
{
    return evaluation->phase >= EVALUATION_SCORE;
}

bool evaluation_price(struct evaluation *evaluation, const struct fsm *fsm)
{
    CHECK(!evaluation_runs(evaluation));
    if (evaluation->phase == EVALUATION_IDLE)
        fsm_grantable_begin(&evaluation->price_scan, evaluation->price_best, 1);
    evaluation->phase = EVALUATION_PRICE;
    return fsm_grantable_step(fsm, &evaluation->price_scan, EVALUATOR_CHUNK_ROWS);
}

void evaluation_begin(struct evaluation *evaluation, struct fsm *fsm, const struct nodes *nodes,
                      uint64_t now_ms, const struct eval_fleet_rates *rates)
{
    struct evaluator_cycle *cycle = &evaluation->keep.cycle;
    struct admission_room rooms[FSM_TARGETS_MAX];

    CHECK(evaluation->phase == EVALUATION_PRICE);
    evaluation->fsm = fsm;
    evaluation->row_count = fsm_allocation_slots(fsm);
    evaluator_rows_reach(&evaluation->rows, evaluation->row_count);
    evaluator_cycle_begin(cycle, fsm, nodes, now_ms, &evaluation->price_scan);
    evaluator_keep_begin(&evaluation->keep, fsm, rates);
    memset(evaluation->running, 0, sizeof(evaluation->running));
    evaluation->picked.count = evaluation->picked.next = 0;
    evaluator_actions_begin(&evaluation->actions);
    evaluator_claims_begin(&evaluation->claims, fsm, cycle);
    admission_rooms(fsm, &evaluation->price_scan, cycle->now_ms,
                    fsm_policy(fsm)->evaluation_interval_ms * EVALUATION_WINDOW_CYCLES, rooms);
    admission_begin(evaluation->admission, rooms);
    evaluation->next_row = evaluation->scored_end = 0;
    evaluation->phase = EVALUATION_SCORE;
}

/* ---- scoring a block ---- */

/* A row whose verdict stands is counted. A row that fires or has an alarm is picked instead: its
 * verdict stands when it is taken, with all of its terms. */
static void note_verdict(struct evaluation *evaluation, struct evaluator_block *block, uint32_t row,
                         uint8_t verdict)
{
    struct picked *picked = &evaluation->picked;

    evaluation->running[block->group[row]]++;
    if (block->registered_index[row] == 0)
        return;
    if (eval_verdict_fires((enum eval_verdict)verdict) || block->view.alarm_h[row] > 0) {
        picked->rows[picked->count++] = (uint16_t)row;
        return;
    }
    evaluation->verdict_counts[verdict]++;
    block->verdict[row] = verdict;
}

/* Who gives nodes up for a sensitive job that waits is looked for among all that run. */
static void look_for_claims(struct evaluation *evaluation, const struct evaluator_block *block,
                            uint32_t first)
{
    for (uint32_t row = 0; evaluation->claims.wanted && row < block->rows; row++)
        if (block->registered_index[row] != 0)
            evaluator_claims_look(&evaluation->claims, evaluation->fsm,
                                  fsm_allocation_find_slot(evaluation->fsm, first + row));
}

/* Brings the block's rows up to date and gives all verdicts; then the terms of those that are
 * picked. Returns how many rows were filled. */
static uint32_t score_block(struct evaluation *evaluation, uint32_t first, uint32_t end)
{
    uint8_t verdicts[EVALUATOR_BLOCK_ROWS];
    uint32_t rows = end - first < EVALUATOR_BLOCK_ROWS ? end - first : EVALUATOR_BLOCK_ROWS, filled;
    struct evaluator_block *block = evaluator_rows_make(&evaluation->rows, first, rows);
    const struct eval_policy *policy = &evaluation->keep.cycle.policy;

    filled = evaluator_block_refresh(block, &evaluation->keep, first, rows);
    evaluator_block_decide(block, policy, verdicts);
    evaluation->picked.count = evaluation->picked.next = 0;
    for (uint32_t row = 0; row < rows; row++)
        note_verdict(evaluation, block, row, verdicts[row]);
    picked_score(&evaluation->picked, block, policy);
    look_for_claims(evaluation, block, first);
    evaluation->scored_end = first + rows;
    return filled;
}

/* ---- taking what was picked ---- */

/* The job of a slot, as long as it is the one that was scored, and runs. */
static const struct fsm_allocation *scored_job(const struct evaluation *evaluation,
                                               const struct evaluator_block *block, uint32_t slot)
{
    const struct fsm_allocation *allocation = fsm_allocation_find_slot(evaluation->fsm, slot);

    if (!evaluator_runs(allocation) ||
        block->registered_index[slot % EVALUATOR_BLOCK_ROWS] != allocation->registered_index)
        return NULL;
    return allocation;
}

/* The model counts from the last complete checkpoint. A failed one counts as well: the state
 * machine would skip the decision. */
static void guard_last_attempt(struct evaluation *evaluation,
                               const struct fsm_allocation *allocation, uint32_t i)
{
    struct picked *picked = &evaluation->picked;
    Ckpt__V1__Purpose purpose = decision_purpose(&picked->view, &picked->result, i);

    if (purpose != CKPT__V1__PURPOSE__PURPOSE_PERIODIC &&
        (purpose != CKPT__V1__PURPOSE__PURPOSE_PROACTIVE || !allocation->unresponsive))
        return;
    if (allocation->last_attempt_end_ms != 0 &&
        evaluation->keep.cycle.now_ms <
            allocation->last_attempt_end_ms + fsm_attempt_interval_ms(evaluation->fsm, allocation))
        picked->result.verdict[i] = EVAL_SKIP_MIN_INTERVAL;
}

/* The state refuses what does not fit below the limit of its tenant. It is asked again only so
 * often that the leader goes on making room: each time would take another job's place. */
static void guard_quota(struct evaluation *evaluation, const struct fsm_allocation *allocation,
                        uint32_t i)
{
    struct picked *picked = &evaluation->picked;
    enum eval_verdict verdict = picked->result.verdict[i];
    struct fsm_quota quota;

    if (eval_verdict_fires(verdict) && verdict != EVAL_CHECKPOINT_WALLTIME &&
        fsm_quota_refuses(evaluation->fsm, allocation, &quota) && quota.refused_at_ms != 0 &&
        evaluation->keep.cycle.now_ms < quota.refused_at_ms + EVALUATION_QUOTA_MS)
        picked->result.verdict[i] = EVAL_SKIP_QUOTA;
}

/* Whether a job that fires is admitted is known when all rows are scored. Until then one that waits
 * for bandwidth is said to wait. */
static void note_candidate(struct evaluation *evaluation, struct evaluator_block *block,
                           const struct fsm_allocation *allocation, uint32_t i)
{
    const struct picked *picked = &evaluation->picked;
    uint32_t row = picked->rows[i];
    struct admission_candidate candidate = {
        .gain_gpu_s_per_byte = decision_gain(&picked->view, &picked->result, i),
        .size_bytes = picked->view.size_bytes[i],
        .registered_index = block->registered_index[row],
        .slot = allocation->slot,
        .target = fsm_destination(evaluation->fsm, allocation)->slot,
        .verdict = picked->result.verdict[i]};

    if (block->verdict[row] != EVAL_SKIP_PACED)
        block->verdict[row] = candidate.verdict;
    admission_add(evaluation->admission, &candidate);
}

/* Takes the picked row i. Deadlines and moves are decided here: they do not wait for the other
 * rows, since they would be too late afterwards. */
static void take_row(struct evaluation *evaluation, struct evaluator_block *block, uint32_t first,
                     uint32_t i)
{
    struct picked *picked = &evaluation->picked;
    struct evaluator_scored scored = {&picked->view, &picked->result, i};
    uint32_t row = picked->rows[i];
    const struct fsm_allocation *allocation = scored_job(evaluation, block, first + row);
    uint8_t by_model = picked->result.verdict[i]; /* and not yet behind the guard beside it */
    enum eval_verdict verdict;
    const char *spare = NULL;
    bool moves;

    if (allocation == NULL)
        return;
    guard_last_attempt(evaluation, allocation, i);
    guard_quota(evaluation, allocation, i);
    verdict = picked->result.verdict[i];
    CHECK(verdict < EVAL_VERDICT_COUNT);
    moves = evaluator_actions_move(&evaluation->actions, &evaluation->keep.cycle, evaluation->fsm,
                                   allocation, &scored, &spare);
    if (!moves && eval_verdict_fires(verdict) && verdict != EVAL_CHECKPOINT_WALLTIME) {
        note_candidate(evaluation, block, allocation, i);
        return;
    }
    if (moves) {
        picked->result.verdict[i] = by_model; /* what is logged is computed again from the row */
        verdict = EVAL_CHECKPOINT_MOVE;
    }
    if (moves || eval_verdict_fires(verdict))
        evaluator_batch_add(&evaluation->batch, &evaluation->keep.cycle, evaluation->fsm,
                            allocation, &scored);
    if (moves) /* S1-022 */
        evaluator_batch_make_move(&evaluation->batch, spare, &evaluation->actions.situation);
    evaluation->verdict_counts[verdict]++;
    block->verdict[row] = (uint8_t)verdict;
}

/* Scores blocks, and takes what was picked of them, until the turn's share is done or the batch is
 * full. */
static void score_chunk(struct evaluation *evaluation, uint32_t rows)
{
    struct picked *picked = &evaluation->picked;
    uint32_t scored = 0, filled = 0;

    for (;;) {
        uint32_t first = evaluation->next_row;

        if (evaluation->scored_end == first) {
            if (first >= rows || scored >= EVALUATOR_CHUNK_ROWS || filled >= EVALUATION_FILLED_MAX)
                return;
            filled += score_block(evaluation, first, rows);
            scored += EVALUATOR_BLOCK_ROWS;
        }
        while (picked->next < picked->count) {
            if (evaluator_batch_full(&evaluation->batch))
                return;
            take_row(evaluation, evaluator_rows_block(&evaluation->rows, first), first,
                     picked->next++);
        }
        evaluation->next_row = evaluation->scored_end;
    }
}

/* ---- those that were admitted ---- */

/* The verdict of a candidate is known. */
static void settle_candidate(struct evaluation *evaluation,
                             const struct admission_candidate *candidate, enum eval_verdict verdict)
{
    struct evaluator_block *block = evaluator_rows_block(&evaluation->rows, candidate->slot);

    CHECK(block != NULL);
    block->verdict[candidate->slot % EVALUATOR_BLOCK_ROWS] = (uint8_t)verdict;
    evaluation->verdict_counts[verdict]++;
}

static void left_out(void *context, const struct admission_candidate *candidate)
{
    settle_candidate(context, candidate, EVAL_SKIP_PACED);
}

static void add_admitted(struct evaluation *evaluation, const struct evaluator_block *block,
                         const struct fsm_allocation *allocation, uint8_t verdict)
{
    struct picked *one = evaluation->one;
    const struct evaluator_scored scored = {&one->view, &one->result, 0};

    picked_score_one(one, block, allocation->slot % EVALUATOR_BLOCK_ROWS,
                     &evaluation->keep.cycle.policy);
    one->result.verdict[0] = verdict;
    evaluator_batch_add(&evaluation->batch, &evaluation->keep.cycle, evaluation->fsm, allocation,
                        &scored);
}

/* A batch of those that were admitted. True: these were the last ones. */
static bool take_admitted(struct evaluation *evaluation)
{
    const struct admission_candidate *candidate = NULL;

    while (!evaluator_batch_full(&evaluation->batch) &&
           (candidate = admission_next(evaluation->admission)) != NULL) {
        const struct evaluator_block *block =
            evaluator_rows_block(&evaluation->rows, candidate->slot);
        const struct fsm_allocation *allocation = scored_job(evaluation, block, candidate->slot);

        settle_candidate(evaluation, candidate, (enum eval_verdict)candidate->verdict);
        if (allocation != NULL)
            add_admitted(evaluation, block, allocation, candidate->verdict);
    }
    return candidate == NULL;
}

/* The slots that this cycle looks at: allocations registered beyond them since it began wait for
 * the next one. */
static uint32_t cycle_rows(const struct evaluation *evaluation)
{
    uint32_t slots = fsm_allocation_slots(evaluation->fsm);

    return slots < evaluation->row_count ? slots : evaluation->row_count;
}

bool evaluation_step(struct evaluation *evaluation)
{
    uint32_t rows = cycle_rows(evaluation);

    CHECK(evaluation_runs(evaluation) && evaluation->batch.count == 0);
    if (evaluation->phase == EVALUATION_SCORE && evaluation->next_row < rows) {
        score_chunk(evaluation, rows);
        return false;
    }
    if (evaluation->phase == EVALUATION_SCORE) {
        admission_close(evaluation->admission);
        evaluation->phase = EVALUATION_ADMIT;
    }
    if (evaluation->phase == EVALUATION_ADMIT && take_admitted(evaluation))
        evaluation->phase = EVALUATION_CLAIM;
    return evaluation->phase == EVALUATION_CLAIM;
}

/* ---- the end ---- */

bool evaluation_count_idle(struct evaluation *evaluation)
{
    CHECK(evaluation->phase == EVALUATION_CLAIM);
    return evaluator_claims_count(&evaluation->claims, evaluation->fsm,
                                  evaluation->keep.cycle.nodes, &evaluation->keep.cycle);
}

void evaluation_end(struct evaluation *evaluation, const struct broker *broker)
{
    CHECK(evaluation->phase == EVALUATION_CLAIM && evaluation->batch.count == 0);
    evaluator_claims_end(&evaluation->claims, broker, &evaluation->keep.cycle);
    evaluator_keep_end(&evaluation->keep);
    evaluation->phase = EVALUATION_IDLE;
}

void evaluation_abandon(struct evaluation *evaluation)
{
    evaluation->phase = EVALUATION_IDLE;
    evaluation->batch.count = 0;
}

void evaluation_forget(struct evaluation *evaluation)
{
    evaluation_abandon(evaluation);
    evaluator_keep_forget(&evaluation->keep);
    evaluator_rows_clear(&evaluation->rows);
}

/* ---- what the last cycle said ---- */

/* The row was scored in this cycle, but not taken yet. */
static bool is_picked(const struct evaluation *evaluation, uint32_t slot)
{
    const struct picked *picked = &evaluation->picked;

    if (!evaluation_runs(evaluation) || slot < evaluation->next_row ||
        slot >= evaluation->scored_end)
        return false;
    for (uint32_t i = picked->next; i < picked->count; i++)
        if (picked->rows[i] == slot % EVALUATOR_BLOCK_ROWS)
            return true;
    return false;
}

bool evaluation_last(const struct evaluation *evaluation, const struct fsm_allocation *allocation,
                     struct evaluator_row *ret_row)
{
    uint32_t row;
    const struct evaluator_block *block = evaluator_rows_find(&evaluation->rows, allocation, &row);
    struct picked *one = evaluation->one;

    if (block == NULL)
        return false;
    picked_score_one(one, block, row, &block->policy);
    /* what stands over the model is known when the row is taken */
    if (block->verdict[row] != EVALUATOR_NEVER && !is_picked(evaluation, allocation->slot))
        one->result.verdict[0] = block->verdict[row];
    *ret_row = (struct evaluator_row){.view = evaluator_view_rows(&one->view, 0, 1),
                                      .result = evaluator_result_rows(&one->result, 0),
                                      .policy = &block->policy,
                                      .evaluated_at_ms = block->evaluated_at_ms};
    return true;
}

void evaluation_init(struct evaluation *evaluation)
{
    memset(evaluation, 0, sizeof(*evaluation));
    evaluation->one = check_calloc(1, sizeof(*evaluation->one));
    picked_init(evaluation->one);
    picked_init(&evaluation->picked);
    evaluator_keep_init(&evaluation->keep);
    evaluation->admission = admission_new(left_out, evaluation);
}

void evaluation_close(struct evaluation *evaluation)
{
    evaluation_abandon(evaluation);
    admission_free(evaluation->admission);
    evaluator_rows_close(&evaluation->rows);
    picked_close(&evaluation->picked);
    picked_close(evaluation->one);
    free(evaluation->one);
    evaluator_keep_close(&evaluation->keep);
}
