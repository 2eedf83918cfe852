/* What metrics read from the state, from raft and from the parts of the broker.
 *
 * Flow     metrics_state_read() runs before each exposition and sets gauges;
 *          metrics_state_events() runs after each applied entry on the leader and counts the new
 *          events of the state.
 * Shapes   no storage of its own beside the cursor into the events.
 * When     Both on the loop thread, never from inside a callback of the state machine. A new leader
 *          begins with the cursor at the newest event, so that nothing is counted by two leaders.
 */
#ifndef CKPT_BROKER_METRICS_STATE_H
#define CKPT_BROKER_METRICS_STATE_H

#include <stdint.h>

struct broker;
struct metrics;

/* Events with a sequence above *cursor are counted; the cursor moves. */
void metrics_state_events(struct metrics *metrics, const struct broker *broker, uint64_t *cursor);
/* Sets every gauge to what it is now. Parts that a test does without are left out. */
void metrics_state_read(struct metrics *metrics, const struct broker *broker);

#endif
