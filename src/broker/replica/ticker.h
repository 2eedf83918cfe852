/* Duty of the leader: proposes a Tick when the earliest deadline of the state has passed. An idle
 * cluster writes nothing.
 *
 * Flow     after each applied entry the timer is set to fsm_next_deadline_ms(); when the wall clock
 *          has reached it, Tick.
 * Shapes   one Tick in flight.
 * Units    milliseconds. The timer runs at most TICKER_CHECK_MS so that a step of the wall clock is
 *          noticed.
 * Errors   a Tick that fails is repeated after TICKER_RETRY_MS while this member leads.
 */
#ifndef CKPT_BROKER_TICKER_H
#define CKPT_BROKER_TICKER_H

#include <stdint.h>

struct broker;
struct ticker;

enum { TICKER_CHECK_MS = 1000, TICKER_RETRY_MS = 20 };

/* Begins at `serving`, rests at `not_serving`. Freed after the replica was closed. */
struct ticker *ticker_new(struct broker *broker);
void ticker_free(struct ticker *ticker);

/* How long to wait before looking again; 0: propose now. */
uint64_t ticker_delay_ms(uint64_t deadline_ms, uint64_t now_ms);

#endif
