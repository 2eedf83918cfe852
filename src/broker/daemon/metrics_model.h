/* Metrics of the decision model: what decisions expected against what came, what is learned,
 * queues, who waits for bandwidth.
 *
 * Flow     metrics_state.c calls _ended() for each checkpoint that completed or failed by itself,
 *          while this member leads, and _read() at each exposition.
 * Units    seconds, bytes, GPU-seconds per byte, ratios; rates per second.
 */
#ifndef CKPT_BROKER_METRICS_MODEL_H
#define CKPT_BROKER_METRICS_MODEL_H

#include "src/broker/broker.h"
#include "src/broker/daemon/metrics.h"

/* A checkpoint that the evaluator decided has ended: what it had expected beside what came. One
 * that somebody asked for says nothing and is passed over. */
void metrics_model_ended(struct metrics *metrics, const struct fsm_checkpoint *checkpoint,
                         bool completed);
void metrics_model_read(struct metrics *metrics, const struct broker *broker);

#endif
