/* See evaluator.h. */
#include "src/broker/decide/evaluator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"
#include "src/broker/decide/admission.h"
#include "src/broker/decide/decision_inputs.h"
#include "src/broker/decide/evaluator_actions.h"
#include "src/broker/decide/evaluator_block.h"
#include "src/broker/decide/evaluator_claims.h"
#include "src/broker/decide/evaluator_keep.h"
#include "src/broker/decide/evaluator_picked.h"
#include "src/broker/decide/learner.h"
#include "src/broker/explain/translate.h"

enum {
    EVALUATOR_BATCH_MAX = 256,   /* decisions per command */
    EVALUATOR_IN_FLIGHT_MAX = 4, /* commands: those that are applied in one turn of the loop */
    EVALUATOR_WINDOW_CYCLES = 2, /* what is admitted keeps the targets busy until the next is */
    EVALUATOR_FILLED_MAX = EVALUATOR_BLOCK_ROWS, /* rows in a turn: then it is enough */
    EVALUATOR_DECISION_MAX_BYTES = 640 +
                                   (EVAL_COLUMN_COUNT + EVAL_SITUATION_COUNT) * sizeof(uint64_t) +
                                   SOURCE_COUNT * sizeof(uint64_t)
};
_Static_assert(EVALUATOR_BATCH_MAX <= (int)FSM_DECISIONS_PER_COMMAND_MAX, "a batch is one command");
_Static_assert(EVALUATOR_BATCH_MAX *EVALUATOR_DECISION_MAX_BYTES <= FSM_COMMAND_MAX_BYTES,
               "a batch fits into a command");

struct evaluator {
    struct broker *broker;
    struct replica_observer observer;
    struct clock_timer *timer;
    bool serving;
    bool again;           /* another cycle at once after this one */
    uint64_t interval_ms; /* by which the next cycle was scheduled */
    bool target_up[FSM_TARGETS_MAX];
    uint64_t last_cycle_ms;
    /* the cycle that runs, and its rows */
    bool in_cycle;
    uint32_t row_count;  /* slots when it began */
    uint32_t next_row;   /* to be taken */
    uint32_t scored_end; /* rows below are scored */
    uint64_t cycle_began_us, cycle_spent_us;
    struct evaluator_keep keep;
    struct learner *learner;
    uint32_t running[UINT8_MAX + 1]; /* jobs of the cycle, by fsm_group() */
    struct evaluator_block **blocks; /* one per EVALUATOR_BLOCK_ROWS slots */
    uint32_t block_count;
    struct picked picked;
    struct picked *one; /* a row that is looked at again */
    uint64_t verdict_counts[EVAL_VERDICT_COUNT];
    /* before a cycle: the price of bandwidth, looked up in steps */
    bool pricing;
    struct fsm_grantable_scan price_scan;
    struct fsm_waiting price_best[FSM_TARGETS_MAX];
    /* what fires and has no deadline; when all rows are scored the best are proposed */
    struct admission *admission;
    bool closed;
    /* the batch being filled; while EVALUATOR_IN_FLIGHT_MAX are on their way the cycle waits */
    size_t in_flight_count;
    bool stalled; /* batch_done() goes on */
    size_t decision_count;
    Ckpt__Log__V1__Decision decisions[EVALUATOR_BATCH_MAX];
    Ckpt__Log__V1__Decision *decision_pointers[EVALUATOR_BATCH_MAX];
    Ckpt__V1__DecisionTerms terms[EVALUATOR_BATCH_MAX];
    struct decision_inputs inputs[EVALUATOR_BATCH_MAX];
    struct evaluator_actions actions;
    struct evaluator_claims claims;
};

static uint64_t monotonic_us(const struct evaluator *evaluator)
{
    return evaluator->broker->clock.monotonic_us(evaluator->broker->clock.context);
}

static uint64_t state_now_ms(const struct evaluator *evaluator)
{
    return replica_state_ms(evaluator->broker->replica);
}

/* ---- proposals -------------------------------------------------------------------------------------------------------- */

static void batch_done(void *data, const struct err *failed, const struct fsm_outcome *outcome)
{
    struct evaluator *evaluator = data;

    (void)failed; /* what was not taken is found again in the next cycle */
    (void)outcome;
    CHECK(evaluator->in_flight_count > 0);
    evaluator->in_flight_count--;
    if (evaluator->serving && evaluator->stalled)
        evaluator->broker->clock.timer_start(evaluator->timer, 0);
    evaluator->stalled = false;
}

static void propose_batch(struct evaluator *evaluator)
{
    Ckpt__Log__V1__Command command = CKPT__LOG__V1__COMMAND__INIT;
    Ckpt__Log__V1__DecisionBatch batch = CKPT__LOG__V1__DECISION_BATCH__INIT;
    struct consensus_status status;
    struct decision_basis basis;

    if (evaluator->decision_count == 0)
        return;
    batch.n_decisions = evaluator->decision_count;
    batch.decisions = evaluator->decision_pointers;
    replica_get_status(evaluator->broker->replica, &status);
    decision_basis(&evaluator->keep.cycle.policy, status.member_id, &basis);
    batch.basis = &basis.message;
    command.body_case = CKPT__LOG__V1__COMMAND__BODY_DECISIONS;
    command.decisions = &batch;
    evaluator->decision_count = 0;
    evaluator->in_flight_count++;
    replica_propose(evaluator->broker->replica, &command, batch_done, evaluator);
}

static void add_decision(struct evaluator *evaluator, const struct picked *picked,
                         const struct fsm_allocation *allocation, uint32_t row)
{
    size_t i = evaluator->decision_count;
    Ckpt__Log__V1__Decision *decision = &evaluator->decisions[i];

    CHECK(i < EVALUATOR_BATCH_MAX);
    ckpt__log__v1__decision__init(decision);
    decision->allocation_id = translate_text(allocation->id);
    decision->purpose = decision_purpose(&picked->view, &picked->result, row);
    decision->after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE;
    decision->priority_gpu_ms_per_gb = decision_priority(&picked->view, &picked->result, row);
    decision_terms(&picked->view, &picked->result, row, decision->purpose, &evaluator->terms[i]);
    decision->terms = &evaluator->terms[i];
    sources_age(evaluator->broker, allocation, evaluator->keep.cycle.now_ms,
                evaluator->inputs[i].ages_ms);
    decision_inputs(&picked->view, &picked->result, row, evaluator->keep.cycle.now_ms,
                    &evaluator->inputs[i]);
    decision->inputs = &evaluator->inputs[i].message;
    evaluator->decision_pointers[i] = decision;
    evaluator->decision_count++;
}

/* S1-022: the checkpoint that was worth it, or the one that the move needs, ends in a move. */
static void add_move(struct evaluator *evaluator, const struct picked *picked,
                     const struct fsm_allocation *allocation, uint32_t row, const char *spare)
{
    size_t i = evaluator->decision_count;
    Ckpt__Log__V1__Decision *decision = &evaluator->decisions[i];

    add_decision(evaluator, picked, allocation, row);
    decision->purpose = CKPT__V1__PURPOSE__PURPOSE_MIGRATE;
    decision->after = CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_MIGRATE;
    decision->spare_node_id = translate_text(spare);
    evaluator->terms[i].purpose = decision->purpose;
    evaluator->terms[i].verdict = translate_text(eval_action_name(EVAL_ACTION_MIGRATE));
    decision_ledger(&evaluator->actions.situation, &evaluator->inputs[i]);
}

/* ---- one cycle -------------------------------------------------------------------------------------------------------- */

static void count_verdicts(struct evaluator *evaluator)
{
    for (int verdict = 0; verdict < EVAL_VERDICT_COUNT; verdict++) {
        double count = (double)evaluator->verdict_counts[verdict];
        const char *decision =
            eval_verdict_fires((enum eval_verdict)verdict) ? "checkpoint" : "skip";

        if (count == 0)
            continue;
        metrics_add(evaluator->broker->metrics, METRIC_EVALUATIONS, decision,
                    eval_verdict_name((enum eval_verdict)verdict), count);
        metrics_add(evaluator->broker->metrics, METRIC_L_EVALUATIONS, decision, NULL, count);
    }
    memset(evaluator->verdict_counts, 0, sizeof(evaluator->verdict_counts));
}

/* Places for the blocks of so many rows. */
static void reach_rows(struct evaluator *evaluator, uint32_t rows)
{
    uint32_t count = (rows + EVALUATOR_BLOCK_ROWS - 1) / EVALUATOR_BLOCK_ROWS;

    if (count <= evaluator->block_count)
        return;
    evaluator->blocks = check_realloc(evaluator->blocks, count, sizeof(*evaluator->blocks));
    memset(evaluator->blocks + evaluator->block_count, 0,
           (count - evaluator->block_count) * sizeof(*evaluator->blocks));
    evaluator->block_count = count;
}

static void begin_cycle(struct evaluator *evaluator)
{
    const struct fsm *fsm = replica_fsm(evaluator->broker->replica);
    struct admission_room rooms[FSM_TARGETS_MAX];
    struct eval_fleet_rates rates;

    CHECK(!evaluator->in_cycle);
    evaluator->row_count = fsm_allocation_slots(fsm);
    reach_rows(evaluator, evaluator->row_count);
    evaluator_cycle_begin(&evaluator->keep.cycle, fsm, evaluator->broker->nodes,
                          state_now_ms(evaluator), &evaluator->price_scan);
    learner_rates(evaluator->learner, &rates);
    evaluator_keep_begin(&evaluator->keep, replica_fsm_mutable(evaluator->broker->replica), &rates);
    memset(evaluator->running, 0, sizeof(evaluator->running));
    evaluator->picked.count = evaluator->picked.next = 0;
    evaluator_actions_begin(&evaluator->actions);
    evaluator_claims_begin(&evaluator->claims, fsm, &evaluator->keep.cycle);
    admission_rooms(fsm, &evaluator->price_scan, evaluator->keep.cycle.now_ms,
                    fsm_policy(fsm)->evaluation_interval_ms * EVALUATOR_WINDOW_CYCLES, rooms);
    admission_begin(evaluator->admission, rooms);
    evaluator->closed = false;
    evaluator->in_cycle = true;
    evaluator->again = false;
    evaluator->next_row = 0;
    evaluator->scored_end = 0;
}

/* One step; true: the price is known. */
static bool find_price(struct evaluator *evaluator)
{
    const struct fsm *fsm = replica_fsm(evaluator->broker->replica);
    uint64_t began_us = monotonic_us(evaluator);

    if (!evaluator->pricing) {
        fsm_grantable_begin(&evaluator->price_scan, evaluator->price_best, 1);
        evaluator->cycle_began_us = began_us;
        evaluator->cycle_spent_us = 0;
    }
    evaluator->pricing = !fsm_grantable_step(fsm, &evaluator->price_scan, EVALUATOR_CHUNK_ROWS);
    evaluator->cycle_spent_us += monotonic_us(evaluator) - began_us;
    return !evaluator->pricing;
}

static void abandon_cycle(struct evaluator *evaluator)
{
    evaluator->pricing = false;
    evaluator->in_cycle = false;
    evaluator->decision_count = 0;
}

static void schedule_next(struct evaluator *evaluator)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(evaluator->broker->replica));
    uint64_t due_us = evaluator->cycle_began_us + policy->evaluation_interval_ms * 1000;
    uint64_t now_us = monotonic_us(evaluator);

    evaluator->interval_ms = policy->evaluation_interval_ms;
    evaluator->broker->clock.timer_start(
        evaluator->timer, evaluator->again || due_us <= now_us ? 1000 : due_us - now_us);
}

/* Each batch was committed and applied: nothing is on its way any more. */
static void end_cycle(struct evaluator *evaluator)
{
    CHECK(evaluator->decision_count == 0 && evaluator->in_flight_count == 0);
    evaluator_claims_end(&evaluator->claims, evaluator->broker, &evaluator->keep.cycle);
    evaluator_keep_end(&evaluator->keep);
    evaluator->in_cycle = false;
    evaluator->last_cycle_ms = broker_wall_ms(evaluator->broker);
    count_verdicts(evaluator);
    metrics_observe(evaluator->broker->metrics, METRIC_EVALUATION_DURATION,
                    (double)evaluator->cycle_spent_us / 1e6);
    metrics_observe(evaluator->broker->metrics, METRIC_EVALUATION_CYCLE,
                    (double)(monotonic_us(evaluator) - evaluator->cycle_began_us) / 1e6);
    learner_advance(evaluator->learner, evaluator->running);
    if (evaluator->serving) /* proposing may end the leadership */
        schedule_next(evaluator);
}

/* The model counts from the last complete checkpoint. A failed one counts as well: the state
 * machine would skip the decision. */
static void guard_last_attempt(const struct evaluator *evaluator, struct picked *picked,
                               const struct fsm_allocation *allocation, uint32_t i)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(evaluator->broker->replica));
    uint64_t interval_ms =
        allocation->sensitive ? policy->sensitive_min_interval_ms : policy->min_interval_ms;

    if (decision_purpose(&picked->view, &picked->result, i) != CKPT__V1__PURPOSE__PURPOSE_PERIODIC)
        return;
    if (allocation->last_attempt_end_ms != 0 &&
        evaluator->keep.cycle.now_ms < allocation->last_attempt_end_ms + interval_ms)
        picked->result.verdict[i] = EVAL_SKIP_MIN_INTERVAL;
}

/* NULL: this cycle does not know it. */
static struct evaluator_block *block_of(const struct evaluator *evaluator, uint32_t slot)
{
    return slot / EVALUATOR_BLOCK_ROWS < evaluator->block_count
               ? evaluator->blocks[slot / EVALUATOR_BLOCK_ROWS]
               : NULL;
}

/* Whether a job that fires is admitted is known when all rows are scored. Until then one that waits
 * for bandwidth is said to wait. */
static void note_candidate(struct evaluator *evaluator, struct evaluator_block *block,
                           const struct fsm_allocation *allocation, uint32_t i)
{
    const struct picked *picked = &evaluator->picked;
    uint32_t row = picked->rows[i];
    struct admission_candidate candidate = {.gain_gpu_s_per_byte =
                                                decision_gain(&picked->view, &picked->result, i),
                                            .size_bytes = picked->view.size_bytes[i],
                                            .registered_index = block->registered_index[row],
                                            .slot = allocation->slot,
                                            .target = allocation->target_slot,
                                            .verdict = picked->result.verdict[i]};

    if (block->verdict[row] != EVAL_SKIP_PACED)
        block->verdict[row] = candidate.verdict;
    admission_add(evaluator->admission, &candidate);
}

/* The verdict of a candidate is known. */
static void settle(struct evaluator *evaluator, const struct admission_candidate *candidate,
                   enum eval_verdict verdict)
{
    struct evaluator_block *block = block_of(evaluator, candidate->slot);

    CHECK(block != NULL);
    block->verdict[candidate->slot % EVALUATOR_BLOCK_ROWS] = (uint8_t)verdict;
    evaluator->verdict_counts[verdict]++;
}

static void left_out(void *context, const struct admission_candidate *candidate)
{
    settle(context, candidate, EVAL_SKIP_PACED);
}

/* As long as it is the job that was scored, and runs. */
static const struct fsm_allocation *scored_job(const struct evaluator *evaluator,
                                               const struct evaluator_block *block, uint32_t slot)
{
    const struct fsm_allocation *allocation =
        fsm_allocation_find_slot(replica_fsm(evaluator->broker->replica), slot);

    if (!evaluator_runs(allocation) ||
        block->registered_index[slot % EVALUATOR_BLOCK_ROWS] != allocation->registered_index)
        return NULL;
    return allocation;
}

/* Deadlines and moves do not wait for the others: they would be too late afterwards. */
static void take_row(struct evaluator *evaluator, struct evaluator_block *block, uint32_t first,
                     uint32_t i)
{
    struct picked *picked = &evaluator->picked;
    uint32_t row = picked->rows[i];
    const struct fsm_allocation *allocation = scored_job(evaluator, block, first + row);
    uint8_t scored = picked->result.verdict[i]; /* by the model alone */
    enum eval_verdict verdict;                  /* and behind the guard beside it */
    const char *spare = NULL;
    bool moves;

    if (allocation == NULL)
        return;
    guard_last_attempt(evaluator, picked, allocation, i);
    verdict = picked->result.verdict[i];
    CHECK(verdict < EVAL_VERDICT_COUNT);
    moves = evaluator_actions_move(&evaluator->actions, &evaluator->keep.cycle,
                                   replica_fsm(evaluator->broker->replica), allocation,
                                   &picked->view, &picked->result, i, &spare);
    if (!moves && eval_verdict_fires(verdict) && verdict != EVAL_CHECKPOINT_WALLTIME) {
        note_candidate(evaluator, block, allocation, i);
        return;
    }
    if (moves) {
        picked->result.verdict[i] = scored; /* what is logged is computed again from the row */
        add_move(evaluator, picked, allocation, i, spare);
        verdict = EVAL_CHECKPOINT_MOVE;
    } else if (eval_verdict_fires(verdict)) {
        add_decision(evaluator, picked, allocation, i);
    }
    evaluator->verdict_counts[verdict]++;
    block->verdict[row] = (uint8_t)verdict;
}

/* The slots that this cycle looks at: allocations registered beyond them since it began wait for
 * the next one. */
static uint32_t cycle_rows(const struct evaluator *evaluator)
{
    uint32_t slots = fsm_allocation_slots(replica_fsm(evaluator->broker->replica));

    return slots < evaluator->row_count ? slots : evaluator->row_count;
}

/* The block of the slots from first on, with room for so many rows. */
static struct evaluator_block *reach_block(struct evaluator *evaluator, uint32_t first,
                                           uint32_t rows)
{
    struct evaluator_block **block = &evaluator->blocks[first / EVALUATOR_BLOCK_ROWS];
    struct evaluator_block *larger;

    if (*block != NULL && (*block)->view.capacity >= rows)
        return *block;
    larger = evaluator_block_new(rows);
    if (*block != NULL)
        evaluator_block_move(*block, larger);
    evaluator_block_free(*block);
    *block = larger;
    return larger;
}

/* Of a row whose verdict stands: what fires and what has an alarm is picked. */
static void note_verdict(struct evaluator *evaluator, struct evaluator_block *block, uint32_t row,
                         uint8_t verdict)
{
    struct picked *picked = &evaluator->picked;

    evaluator->running[block->group[row]]++;
    if (block->registered_index[row] == 0)
        return;
    if (eval_verdict_fires((enum eval_verdict)verdict) || block->view.alarm_h[row] > 0) {
        picked->rows[picked->count++] = (uint16_t)row;
        return;
    }
    evaluator->verdict_counts[verdict]++;
    block->verdict[row] = verdict;
}

/* Who gives nodes up for a sensitive job that waits is looked for among all that run. */
static void look_for_claims(struct evaluator *evaluator, const struct evaluator_block *block,
                            uint32_t first)
{
    const struct fsm *fsm = replica_fsm(evaluator->broker->replica);

    for (uint32_t row = 0; evaluator->claims.wanted && row < block->rows; row++)
        if (block->registered_index[row] != 0)
            evaluator_claims_look(&evaluator->claims, fsm,
                                  fsm_allocation_find_slot(fsm, first + row));
}

/* Returns how many rows were filled. */
static uint32_t score_block(struct evaluator *evaluator, uint32_t first, uint32_t end)
{
    uint8_t verdicts[EVALUATOR_BLOCK_ROWS];
    uint32_t rows = end - first < EVALUATOR_BLOCK_ROWS ? end - first : EVALUATOR_BLOCK_ROWS, filled;
    struct evaluator_block *block = reach_block(evaluator, first, rows);

    filled = evaluator_block_refresh(block, &evaluator->keep, first, rows);
    evaluator_block_decide(block, &evaluator->keep.cycle.policy, verdicts);
    evaluator->picked.count = evaluator->picked.next = 0;
    for (uint32_t row = 0; row < rows; row++)
        note_verdict(evaluator, block, row, verdicts[row]);
    picked_score(&evaluator->picked, block, &evaluator->keep.cycle.policy);
    look_for_claims(evaluator, block, first);
    evaluator->scored_end = first + rows;
    return filled;
}

/* Scores blocks, and takes what was picked of them, up to a batch of decisions. */
static void run_chunk(struct evaluator *evaluator, uint32_t rows)
{
    struct picked *picked = &evaluator->picked;
    uint32_t scored = 0, filled = 0;

    for (;;) {
        uint32_t first = evaluator->next_row;

        if (evaluator->scored_end == first) {
            if (first >= rows || scored >= EVALUATOR_CHUNK_ROWS || filled >= EVALUATOR_FILLED_MAX)
                return;
            filled += score_block(evaluator, first, rows);
            scored += EVALUATOR_BLOCK_ROWS;
        }
        while (picked->next < picked->count) {
            if (evaluator->decision_count == EVALUATOR_BATCH_MAX)
                return;
            take_row(evaluator, block_of(evaluator, first), first, picked->next++);
        }
        evaluator->next_row = evaluator->scored_end;
    }
}

static void add_admitted(struct evaluator *evaluator, const struct evaluator_block *block,
                         const struct fsm_allocation *allocation, uint8_t verdict)
{
    struct picked *one = evaluator->one;

    picked_score_one(one, block, allocation->slot % EVALUATOR_BLOCK_ROWS,
                     &evaluator->keep.cycle.policy);

    one->result.verdict[0] = verdict;
    add_decision(evaluator, one, allocation, 0);
}

/* A batch of those that were admitted. True: these were the last ones. */
static bool take_admitted(struct evaluator *evaluator)
{
    const struct admission_candidate *candidate = NULL;

    if (!evaluator->closed)
        admission_close(evaluator->admission);
    evaluator->closed = true;
    while (evaluator->decision_count < EVALUATOR_BATCH_MAX &&
           (candidate = admission_next(evaluator->admission)) != NULL) {
        const struct evaluator_block *block = block_of(evaluator, candidate->slot);
        const struct fsm_allocation *allocation = scored_job(evaluator, block, candidate->slot);

        settle(evaluator, candidate, (enum eval_verdict)candidate->verdict);
        if (allocation != NULL)
            add_admitted(evaluator, block, allocation, candidate->verdict);
    }
    return candidate == NULL;
}

/* One turn's share. True: everything is proposed. */
static bool run_cycle(struct evaluator *evaluator)
{
    uint64_t began_us = monotonic_us(evaluator);
    uint32_t rows = cycle_rows(evaluator);
    bool done = false;

    if (evaluator->next_row < rows)
        run_chunk(evaluator, rows);
    else
        done = take_admitted(evaluator);
    propose_batch(evaluator); /* texts of the state are borrowed until here only */
    evaluator->cycle_spent_us += monotonic_us(evaluator) - began_us;
    return done;
}

/* A turn's share of what claims need to know; true: all of it. */
static bool count_idle(struct evaluator *evaluator)
{
    uint64_t began_us = monotonic_us(evaluator);
    bool done = evaluator_claims_count(&evaluator->claims, replica_fsm(evaluator->broker->replica),
                                       evaluator->broker->nodes, &evaluator->keep.cycle);

    evaluator->cycle_spent_us += monotonic_us(evaluator) - began_us;
    return done;
}

static void on_timer(void *data)
{
    struct evaluator *evaluator = data;
    bool done;

    if (!evaluator->serving || fsm_policy(replica_fsm(evaluator->broker->replica)) == NULL)
        return;
    evaluator->stalled = evaluator->in_flight_count >= EVALUATOR_IN_FLIGHT_MAX;
    if (evaluator->stalled)
        return;
    if (!evaluator->in_cycle) {
        if (!find_price(evaluator)) {
            evaluator->broker->clock.timer_start(evaluator->timer, 0);
            return;
        }
        begin_cycle(evaluator);
    }
    done = run_cycle(evaluator);
    if (!evaluator->serving) /* proposing may end the leadership */
        return;
    evaluator->stalled = done && evaluator->in_flight_count > 0;
    if (evaluator->stalled)
        return;
    if (done && count_idle(evaluator))
        end_cycle(evaluator);
    else
        evaluator->broker->clock.timer_start(evaluator->timer, 0);
}

/* ---- what the last cycle said ------------------------------------------------------------------------------------------ */

/* NULL when this leader has not evaluated it; else its block and the row there. */
static const struct evaluator_block *evaluated_row(const struct evaluator *evaluator,
                                                   const struct fsm_allocation *allocation,
                                                   uint32_t *ret_row)
{
    const struct evaluator_block *block;

    if (evaluator == NULL || allocation == NULL)
        return NULL;
    block = block_of(evaluator, allocation->slot);
    *ret_row = allocation->slot % EVALUATOR_BLOCK_ROWS;
    if (block == NULL || *ret_row >= block->rows || block->registered_index[*ret_row] == 0 ||
        block->registered_index[*ret_row] != allocation->registered_index)
        return NULL;
    return block;
}

/* Scored, but not taken yet. */
static bool is_picked(const struct evaluator *evaluator, uint32_t slot)
{
    const struct picked *picked = &evaluator->picked;

    if (!evaluator->in_cycle || slot < evaluator->next_row || slot >= evaluator->scored_end)
        return false;
    for (uint32_t i = picked->next; i < picked->count; i++)
        if (picked->rows[i] == slot % EVALUATOR_BLOCK_ROWS)
            return true;
    return false;
}

bool evaluator_last(const struct evaluator *evaluator, const struct fsm_allocation *allocation,
                    struct evaluator_row *ret_row)
{
    uint32_t row;
    const struct evaluator_block *block = evaluated_row(evaluator, allocation, &row);
    struct picked *one;

    if (block == NULL)
        return false;
    ret_row->policy = &block->policy;
    one = evaluator->one;
    picked_score_one(one, block, row, ret_row->policy);
    /* what stands over the model is known when the row is taken */
    if (block->verdict[row] != EVALUATOR_NEVER && !is_picked(evaluator, allocation->slot))
        one->result.verdict[0] = block->verdict[row];
    ret_row->view = evaluator_view_rows(&one->view, 0, 1);
    ret_row->result = evaluator_result_rows(&one->result, 0);
    ret_row->evaluated_at_ms = block->evaluated_at_ms;
    return true;
}

bool evaluator_gain(const struct evaluator *evaluator, const struct fsm_allocation *allocation,
                    double *ret_gpu_s_per_byte)
{
    struct evaluator_row row;

    if (!evaluator_last(evaluator, allocation, &row))
        return false;
    *ret_gpu_s_per_byte = decision_gain(&row.view, &row.result, 0);
    return true;
}

bool evaluator_admission_line(const struct evaluator *evaluator, uint32_t target_slot,
                              double *ret_gpu_s_per_byte)
{
    return admission_line(evaluator->admission, target_slot, ret_gpu_s_per_byte);
}

void evaluator_rates(const struct evaluator *evaluator, struct eval_fleet_rates *ret_rates)
{
    if (evaluator != NULL && evaluator->serving)
        learner_rates(evaluator->learner, ret_rates);
}

uint64_t evaluator_last_cycle_ms(const struct evaluator *evaluator)
{
    return evaluator != NULL && evaluator->serving ? evaluator->last_cycle_ms : 0;
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

/* Remembers which targets are up; true when one came back. */
static bool note_targets(struct evaluator *evaluator)
{
    const struct fsm *fsm = replica_fsm(evaluator->broker->replica);
    bool recovered = false;

    for (uint32_t slot = 0; slot < fsm_target_slots(fsm); slot++) {
        const struct fsm_target *target = fsm_target_find_slot(fsm, slot);
        bool up = target != NULL && target->available;

        CHECK(slot < FSM_TARGETS_MAX);
        recovered |= up && !evaluator->target_up[slot];
        evaluator->target_up[slot] = up;
    }
    return recovered;
}

static void on_serving(void *context)
{
    struct evaluator *evaluator = context;

    evaluator->serving = true;
    evaluator->last_cycle_ms = 0;
    learner_load(evaluator->learner);
    note_targets(evaluator);
    evaluator->broker->clock.timer_start(evaluator->timer, 0);
}

static void on_not_serving(void *context)
{
    struct evaluator *evaluator = context;

    evaluator->serving = false;
    abandon_cycle(evaluator);
    evaluator_keep_forget(&evaluator->keep);
    evaluator->broker->clock.timer_stop(evaluator->timer);
    for (uint32_t i = 0; i < evaluator->block_count; i++)
        if (evaluator->blocks[i] != NULL)
            evaluator_block_clear(evaluator->blocks[i]);
}

/* A policy with another interval counts from the last cycle, not only from the next one on. */
static void follow_interval(struct evaluator *evaluator)
{
    const Ckpt__V1__Policy *policy = fsm_policy(replica_fsm(evaluator->broker->replica));

    if (evaluator->last_cycle_ms == 0 || evaluator->in_cycle || evaluator->pricing ||
        policy->evaluation_interval_ms == evaluator->interval_ms)
        return; /* end_cycle() schedules by what is in force then */
    schedule_next(evaluator);
}

static void on_applied(void *context)
{
    struct evaluator *evaluator = context;

    if (!evaluator->serving)
        return;
    follow_interval(evaluator);
    if (!note_targets(evaluator))
        return;
    log_info("evaluate_after_recovery", "in_cycle=%d", evaluator->in_cycle);
    evaluator->again = true;
    if (!evaluator->in_cycle)
        evaluator->broker->clock.timer_start(evaluator->timer, 0);
}

struct evaluator *evaluator_new(struct broker *broker)
{
    struct evaluator *evaluator = check_calloc(1, sizeof(*evaluator));

    evaluator->broker = broker;
    evaluator->one = check_calloc(1, sizeof(*evaluator->one));
    picked_init(evaluator->one);
    picked_init(&evaluator->picked);
    evaluator_keep_init(&evaluator->keep);
    evaluator->learner = learner_new(broker);
    evaluator->admission = admission_new(left_out, evaluator);
    evaluator->timer = broker->clock.timer_new(broker->clock.context, on_timer, evaluator);
    evaluator->observer = (struct replica_observer){.context = evaluator,
                                                    .serving = on_serving,
                                                    .not_serving = on_not_serving,
                                                    .applied = on_applied};
    replica_observe(broker->replica, &evaluator->observer);
    return evaluator;
}

void evaluator_free(struct evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    evaluator->broker->clock.timer_free(evaluator->timer);
    abandon_cycle(evaluator);
    learner_free(evaluator->learner);
    admission_free(evaluator->admission);
    for (uint32_t i = 0; i < evaluator->block_count; i++)
        evaluator_block_free(evaluator->blocks[i]);
    free(evaluator->blocks);
    picked_close(&evaluator->picked);
    picked_close(evaluator->one);
    free(evaluator->one);
    evaluator_keep_close(&evaluator->keep);
    free(evaluator);
}
