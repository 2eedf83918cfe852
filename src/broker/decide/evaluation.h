/* One cycle of the evaluator: from the price of bandwidth to the last decision.
 *
 * Flow     price ──► score ──► admit ──► claim ──► idle
 *          evaluation_price() looks up, in steps, what waits for each target; evaluation_begin()
 *          takes what is the same for every job (evaluator_view.h) and finds out which kept rows
 *          are out of date (evaluator_keep.h). evaluation_step() then scores block after block and
 *          takes what fires: deadlines and moves go into the batch at once, the others are
 *          candidates (admission.h). When all rows are scored it puts the admitted candidates into
 *          the batch, the best first. evaluation_count_idle() and evaluation_end() claim nodes for
 *          a sensitive job that waits (evaluator_claims.h).
 * Shapes   one for an evaluator. It keeps the rows from cycle to cycle, so that the last evaluation
 *          of every job can be explained. Each call is one turn's share: EVALUATOR_CHUNK_ROWS rows
 *          at most, fewer where many are filled, or one batch of decisions.
 * Units    the state's clock in milliseconds; what a row holds says evaluator_view.h.
 * Errors   none. evaluation_abandon() drops a cycle at any point; the next one begins anew from the
 *          state.
 * Absent   when a cycle is due, and what becomes of a proposal: evaluator.c. Nothing here proposes
 *          a decision by itself: the caller proposes the batch before it gives the loop back.
 */
#ifndef CKPT_BROKER_EVALUATION_H
#define CKPT_BROKER_EVALUATION_H

#include "src/broker/decide/admission.h"
#include "src/broker/decide/evaluator_actions.h"
#include "src/broker/decide/evaluator_batch.h"
#include "src/broker/decide/evaluator_claims.h"
#include "src/broker/decide/evaluator_keep.h"
#include "src/broker/decide/evaluator_picked.h"
#include "src/broker/decide/evaluator_rows.h"

enum evaluation_phase {
    EVALUATION_IDLE,  /* between two cycles */
    EVALUATION_PRICE, /* what waits for each target is looked up */
    EVALUATION_SCORE, /* rows are scored, and taken */
    EVALUATION_ADMIT, /* all are: the best of those that can wait are decided */
    EVALUATION_CLAIM  /* idle nodes are counted */
};

struct evaluation {
    enum evaluation_phase phase;
    const struct fsm *fsm; /* of the cycle that runs */
    struct fsm_grantable_scan price_scan;
    struct fsm_waiting price_best[FSM_TARGETS_MAX];
    struct evaluator_keep keep; /* and what is the same for every job: keep.cycle */
    struct evaluator_rows rows;
    uint32_t row_count;   /* slots when the cycle began */
    uint32_t next_row;    /* to be taken */
    uint32_t scored_end;  /* rows below are scored */
    struct picked picked; /* of the block that is taken */
    struct picked *one;   /* a row that is looked at again */
    struct admission *admission;
    struct evaluator_actions actions;
    struct evaluator_claims claims;
    uint32_t running[UINT8_MAX + 1]; /* jobs of the cycle, by fsm_group() */
    uint64_t verdict_counts[EVAL_VERDICT_COUNT];
    struct evaluator_batch batch; /* what the last step decided */
};

void evaluation_init(struct evaluation *evaluation);
void evaluation_close(struct evaluation *evaluation);

/* A cycle scores rows or claims nodes: one that only looks up the price does not count. */
bool evaluation_runs(const struct evaluation *evaluation);

/* One step of the price of bandwidth; true: it is known, and evaluation_begin() comes next. */
bool evaluation_price(struct evaluation *evaluation, const struct fsm *fsm);
/* Begins to score. fsm is the leader's state, which must stay the same object until the cycle ends
 * or is abandoned; its list of changed allocations is taken. rates: what the fleet taught. */
void evaluation_begin(struct evaluation *evaluation, struct fsm *fsm, const struct nodes *nodes,
                      uint64_t now_ms, const struct eval_fleet_rates *rates);
/* One turn's share of scoring and admitting. What it decides is in the batch, which the caller
 * proposes at once: its texts are borrowed from the state. True: these are the last decisions. */
bool evaluation_step(struct evaluation *evaluation);
/* After the last step: one turn's share of what claims need to know; true: all of it. */
bool evaluation_count_idle(struct evaluation *evaluation);
/* Every decision of the cycle is applied: proposes a claim if one is due, and ends the cycle. */
void evaluation_end(struct evaluation *evaluation, const struct broker *broker);
/* Drops the cycle that runs, if one does. */
void evaluation_abandon(struct evaluation *evaluation);
/* Leadership ends: drops the cycle and all rows. */
void evaluation_forget(struct evaluation *evaluation);

/* As evaluator_last(). */
bool evaluation_last(const struct evaluation *evaluation, const struct fsm_allocation *allocation,
                     struct evaluator_row *ret_row);

#endif
