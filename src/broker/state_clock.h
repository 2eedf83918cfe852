/* The time that commands are stamped with: runs with the monotonic clock and only leans towards the wall clock.
 *
 * Flow     state_clock_now() for every stamp and for every look whether a deadline has come; state_clock_applied() after every
 *          entry, so that a member that follows learns the time of the leader, not that of its own wall clock.
 * Shapes   the anchor says which time it was at which moment. Entries that come in at the rate of their own stamps are of this
 *          moment and move the anchor; those of a log that is being caught up with are not.
 * Units    milliseconds since the epoch; microseconds of the monotonic clock.
 * Errors   a wall clock that steps, or a leader whose wall clock is off, makes timers at most a tenth faster or slower. A member
 *          that has heard no leader since its start takes its wall clock as it is.
 * Absent   a bound by the other members' clocks: they do not tell each other their wall clocks (ckptctl compares what each one answers). So
 *          when a member whose clock is a year ahead is the first to lead after all were started, the state's time is a year ahead
 *          for good. A bound needs the clock in the answers to the leader's messages, and a leader that waits for a majority of them.
 */
#ifndef CKPT_BROKER_STATE_CLOCK_H
#define CKPT_BROKER_STATE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { STATE_CLOCK_SLEW = 10, STATE_CLOCK_SAMPLE_US = 1000000, STATE_CLOCK_SLACK_MS = 500 };

/* All zero: not started. */
struct state_clock {
    uint64_t anchor_ms, anchor_us;
    uint64_t mark_ms, mark_us; /* the last entry that was compared */
    bool anchored, marked;
};

/* Never below state_ms, the time of the replicated state. */
uint64_t state_clock_now(struct state_clock *clock, uint64_t monotonic_us, uint64_t wall_ms,
                         uint64_t state_ms);
/* An entry was applied and the state's time is state_ms now. */
void state_clock_applied(struct state_clock *clock, uint64_t monotonic_us, uint64_t state_ms);

#endif
