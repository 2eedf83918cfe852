/* Every evaluation of the last while, positive or negative, to the bit: what explain answers about the past from.
 *
 * Flow     history_cycle() notes the policy and the instant of a cycle; history_note() compares each row with the same row one cycle
 *          before. As long as only time went on and the verdict stayed, one run of evaluations grows by a count; else the run is
 *          closed by a record of what was different in it. Walking back from the newest row through the records gives every
 *          earlier one.
 * Shapes   records lie in one ring of bytes_max, made as it fills: the oldest ones of all jobs together go first. A run of evaluations
 *          without a change costs nothing, a change 16 bytes and 8 for each number that changed. HISTORY_CYCLES policies beside. A run
 *          to which only time happens needs no note: its last_cycle may be moved up before the next.
 * Units    milliseconds of the state's clock; cycles are numbered from 1.
 * Errors   what is gone is not found; the oldest instant is told.
 * Absent   replication: it is this leader's, from when it began to lead. Decisions that changed something are in the log.
 */
#ifndef CKPT_BROKER_HISTORY_H
#define CKPT_BROKER_HISTORY_H

#include "src/eval/inputs.h"

enum { HISTORY_CYCLES = 2880 }; /* a day of 30 s */

struct history;

struct history *history_new(uint64_t bytes_max);
void history_free(struct history *history); /* NULL allowed */
void history_clear(struct history *history);

/* A cycle begins. */
void history_cycle(struct history *history, uint64_t now_ms, const struct eval_policy *policy);
uint32_t history_last_cycle(const struct history *history);

/* One job's run of evaluations that goes on. Zero: there was none yet. */
struct history_row {
    uint64_t older;       /* 1 + where the record of the run before is; 0: none */
    uint32_t first_cycle; /* 0: no run */
    uint32_t last_cycle;
};
/* The row as it is now (cycle: the last one). before: the same row as it was at row->last_cycle; not read while there is no run. */
struct history_sample {
    const struct eval_view *view;
    size_t i;
    uint8_t verdict;
};
void history_note(struct history *history, struct history_row *row, struct history_sample before,
                  struct history_sample now);
/* In the same cycle: what was noted gets another verdict. */
void history_turn(struct history *history, struct history_row *row, struct history_sample noted);

/* A run of evaluations; `view` holds room for one: the row as it was at `cycle`. */
struct history_run {
    struct eval_view view;
    uint32_t cycle;
    uint32_t first_cycle, last_cycle; /* as far as it is kept */
    uint8_t verdict;
    uint64_t older;
};
/* The newest run, at its last evaluation; now as for history_note(). */
void history_newest(const struct history *history, const struct history_row *row,
                    struct history_sample now, struct history_run *run);
/* To the run before, at its last evaluation. ret_changed: bits of EVAL_INPUT_* that differ between the two. False: it is not kept. */
bool history_older(const struct history *history, struct history_run *run, uint64_t *ret_changed);
/* To another evaluation of the same run. */
void history_move(const struct history *history, struct history_run *run, uint32_t cycle);

/* The newest cycle that began at or before at_ms, among those that are kept; 0: none. */
uint32_t history_cycle_at(const struct history *history, uint64_t at_ms);
uint32_t history_oldest_cycle(const struct history *history);
/* Of so many cycles, the newest included, every evaluation is there, whatever changed; of single jobs there may be more. */
uint32_t history_kept(const struct history *history);
uint64_t history_cycle_ms(const struct history *history, uint32_t cycle); /* a kept one */
const struct eval_policy *history_policy(const struct history *history, uint32_t cycle);

#endif
