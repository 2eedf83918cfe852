/* How often each user of the nodes may ask: one who asks in a loop does not take the others' turns.
 *
 * Flow     service.c asks rate_allow() before a call that an agent passes on for a user goes
 *          further. A refusal says how long it is until the next call is taken.
 * Shapes   a user has a moment up to which the calls so far are spread at the limit's pace. A call
 *          moves it on by one step, and is refused when it lies more than RATE_BURST_MS ahead. So a
 *          user who was quiet may send that many calls at once. RATE_USERS_MAX users are known; a
 *          further one takes the place of the one whose moment is the oldest.
 * Units    microseconds within, milliseconds outside; of the monotonic clock.
 * Absent   schedulers and operators: their certificates are trusted with the whole cluster. Each
 *          member counts what it is asked itself.
 * Source   K-007.
 */
#ifndef CKPT_BROKER_RATE_H
#define CKPT_BROKER_RATE_H

#include <stdbool.h>
#include <stdint.h>

enum { RATE_USERS_MAX = 1024, RATE_BURST_MS = 10000 };

struct rate;

/* per_minute 0: no limit, NULL is returned. */
struct rate *rate_new(uint64_t per_minute);
void rate_free(struct rate *rate); /* NULL allowed */
/* False: the call is refused, and the user may send the next one after *ret_wait_ms. NULL allowed:
 * every call is taken. */
bool rate_allow(struct rate *rate, const char *user, uint64_t now_ms, uint64_t *ret_wait_ms);
uint64_t rate_per_minute(const struct rate *rate);

#endif
