/* Duty of the leader: scores every running allocation once a cycle and proposes the checkpoints
 * that are worth their cost.
 *
 * Flow     each policy.evaluation_interval_ms the rows of what changed are filled again from the
 *          state (evaluator_keep.h), eval_decide() gives all verdicts, and of what fires as much as
 *          the targets can take (admission.h), the best first, goes into DecisionBatch commands, a
 *          few of them in flight, with the terms that eval_score() gives of these rows; the state
 *          machine re-checks every guard. The others wait for bandwidth and are weighed again. A
 *          cycle starts at once after leadership is gained, when all rows are filled, and after a
 *          target came back. What of targets and policy changes during a cycle counts from the next
 *          one on.
 * Shapes   one row per allocation slot (evaluator_block.h), kept from cycle to cycle: the last
 *          evaluation of every allocation, positive or negative, can be explained. A cycle runs in
 *          chunks of EVALUATOR_CHUNK_ROWS, one per turn of the loop, fewer where many are filled,
 *          then in batches of decisions.
 * Units    GPU-seconds and seconds as double inside, saturated integers in commands.
 * Errors   a batch that cannot be proposed is dropped: the next cycle decides again from the state.
 * When     The questions below may be asked at any time, on any member: where nothing was
 *          evaluated, or nobody leads here, they say so. Answers that borrow are valid until the
 *          next turn of the loop.
 * Absent   evaluations by followers.
 * Source   S1-050..S1-056, S1-063, S1-068, A-002, T-006.
 */
#ifndef CKPT_BROKER_EVALUATOR_H
#define CKPT_BROKER_EVALUATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/v1/common.pb-c.h"

struct broker;
struct evaluator;
struct evaluator_row; /* evaluator_view.h */
struct fsm_allocation;
struct eval_fleet_rates; /* learner.h */

enum { EVALUATOR_CHUNK_ROWS = 16384 }; /* at most, in a turn of the loop */

/* On every member, after broker->replica, broker->metrics and broker->nodes; it rests until this
 * member leads. Freed after the replica was closed, when no batch is on its way. */
struct evaluator *evaluator_new(struct broker *broker);
void evaluator_free(struct evaluator *evaluator);

/* The last evaluation of the allocation, valid until the next turn of the loop. false: never
 * evaluated by this leader (not running, or registered since the last cycle); allocation may be
 * NULL. */
bool evaluator_last(const struct evaluator *evaluator, const struct fsm_allocation *allocation,
                    struct evaluator_row *ret_row);

/* What a checkpoint of the allocation would gain, GPU-seconds per byte, as of the last evaluation;
 * negative below its cost. Also while one waits for its grant: the gain grows with the work at
 * stake. false as for evaluator_last. */
bool evaluator_gain(const struct evaluator *evaluator, const struct fsm_allocation *allocation,
                    double *ret_gpu_s_per_byte);

/* What the least of the admitted ones gains per byte where the last cycle left some out; false: it
 * admitted all, or none. */
bool evaluator_admission_line(const struct evaluator *evaluator, uint32_t target_slot,
                              double *ret_gpu_s_per_byte);

/* What this leader learned of the fleet; unchanged on a member that does not lead. */
void evaluator_rates(const struct evaluator *evaluator, struct eval_fleet_rates *ret_rates);
/* Wall clock at the end of the last complete cycle; 0: none since this member leads. */
uint64_t evaluator_last_cycle_ms(const struct evaluator *evaluator);

#endif
