/* One transfer's rate, held by all its threads together.
 *
 * Shapes   whoever has moved bytes books them and sleeps until they are due; threads wait side by
 *          side, each for its own bytes.
 * Units    bytes per second; 0 is unlimited. After a stall the pace does not catch up more than a
 *          second's worth: a worker that made up for minutes would exceed its grant for as long.
 */
#ifndef CKPT_DEST_PACE_H
#define CKPT_DEST_PACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pace {
    pthread_mutex_t lock;
    uint64_t rate_bytes_per_s;
    uint64_t due_us; /* monotonic time at which what was booked is allowed to be done */
    /* Bytes that are only read count as well; else the grant is of writing, and what is read back
     * goes at full speed. */
    bool of_reading;
};

/* The clock of the rate begins now. */
void pace_init(struct pace *pace, uint64_t rate_bytes_per_s);
void pace_close(struct pace *pace);
/* How much to move before it is booked, so that no sleep is long; never 0. */
size_t pace_piece(const struct pace *pace, size_t most_bytes);
/* Books bytes that were moved, and says when they are due. */
uint64_t pace_count(struct pace *pace, size_t moved_bytes);
/* Whether what was booked is still to be waited for: who may not sleep moves nothing then. */
bool pace_holds(struct pace *pace);
/* Books bytes that were moved and sleeps until they are due. */
void pace_book(struct pace *pace, size_t moved_bytes);
/* The clock that paces and durations are measured with. */
uint64_t pace_clock_us(void);

#endif
