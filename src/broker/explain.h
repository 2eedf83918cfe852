/* Why an allocation was, or was not, checkpointed: the evaluator's last row of it in numbers and words.
 *
 * Flow     evaluator_last() -> terms, guards and the smallest change that flips -> an ExplainReply.
 * Shapes   the reply and its texts live during use() only.
 * Units    those of ExplainReply and DecisionTerms.
 * Errors   false: this leader has not evaluated the allocation.
 * Source   src/eval/README.md.
 */
#ifndef CKPT_BROKER_EXPLAIN_H
#define CKPT_BROKER_EXPLAIN_H

#include <stdbool.h>

#include "ckpt/v1/broker.pb-c.h"

struct broker;

/* Hands the last evaluation of the allocation to use() before it returns. false: never evaluated by this leader (not running, or
 * registered since the last cycle). */
bool explain_last(const struct broker *broker, const char *allocation_id,
                  void (*use)(void *context, const Ckpt__V1__ExplainReply *reply), void *context);

#endif
