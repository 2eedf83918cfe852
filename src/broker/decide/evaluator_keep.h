/* Which kept rows a new cycle finds out of date.
 *
 * Flow     evaluator_keep_begin() compares what a cycle gives to every row (policy, targets,
 *          learned rates, waiting jobs, nodes) with what the last one gave; evaluator_keep_stale()
 *          says of a row whether any of that is its own, whether its allocation changed
 *          (fsm_take_changed_allocations()), or whether the time has come at which it may be
 *          different by itself.
 * Shapes   one for an evaluator: two cycles and a bit for each allocation slot.
 * Rule     a row that is not stale holds the very bits that evaluator_fill() would give:
 *          tests/unit/broker/test_evaluator_keep.c.
 */
#ifndef CKPT_BROKER_EVALUATOR_KEEP_H
#define CKPT_BROKER_EVALUATOR_KEEP_H

#include "src/broker/decide/evaluator_block.h"

enum {
    EVALUATOR_NODES_TOLD_MAX = 256 /* changed in a cycle; of more every row is filled again */
};

/* Many jobs have as many GPUs. */
struct evaluator_gain {
    double gpus, gain_gpu_s; /* gpus 0: none */
    uint8_t class;
};
enum { EVALUATOR_GAINS = 1024 };

struct evaluator_keep {
    struct fsm *fsm;
    struct evaluator_cycle cycle, before;
    bool has_before; /* rows were filled in the cycle before */
    bool all;        /* every row is out of date */
    bool some;       /* those of some group or target are */
    bool moving;     /* what waits is other than before, or jobs are asked to yield */
    bool groups[UINT8_MAX + 1], targets[UINT8_MAX + 1]; /* whose rows are out of date */
    uint64_t *changed; /* a bit for each slot that is not refreshed yet in this cycle */
    uint32_t changed_words;
    uint32_t taken_words;          /* of the state, in this cycle */
    struct eval_fleet_rates rates; /* as held */
    bool rates_held;
    struct evaluator_gain gains[EVALUATOR_GAINS]; /* of this cycle, as asked for */
};

void evaluator_keep_init(struct evaluator_keep *keep);
void evaluator_keep_close(struct evaluator_keep *keep);
/* Nothing is kept any more: the next cycle fills every row. */
void evaluator_keep_forget(struct evaluator_keep *keep);

/* keep->cycle was begun (evaluator_cycle_begin()) and becomes what the rows are compared with;
 * rates: as learned. */
void evaluator_keep_begin(struct evaluator_keep *keep, struct fsm *fsm,
                          const struct eval_fleet_rates *rates);
/* The cycle came to all of its rows; it becomes the one before. */
void evaluator_keep_end(struct evaluator_keep *keep);

/* The 64 slots from 64 * word on: takes over what changed. Before evaluator_keep_stale() of
 * them. */
void evaluator_keep_take(struct evaluator_keep *keep, uint32_t word);
/* The slots of this word that changed, among those that evaluator_keep_take() took over. */
uint64_t evaluator_keep_changed(const struct evaluator_keep *keep, uint32_t word);
/* The slots of this word whose row may be out of date or moving. until_ms: the least until_ms of
 * their rows. */
uint64_t evaluator_keep_bits(const struct evaluator_keep *keep, uint32_t word, double until_ms);
bool evaluator_keep_stale(const struct evaluator_keep *keep, const struct evaluator_block *block,
                          uint32_t row, uint32_t slot);
/* What the row's gain from waiting jobs is in this cycle. */
double evaluator_keep_gain(struct evaluator_keep *keep, const struct evaluator_block *block,
                           uint32_t row);
void evaluator_keep_filled(struct evaluator_keep *keep, uint32_t slot);

#endif
