/* When a call is tried again, and when it has been tried often enough: pure.
 *
 * Flow     retry_failed() after each try that came to nothing; retry_is_over() says whether it was
 *          the last one, retry_pause_us() how long to wait for the next one.
 * Units    microseconds of the monotonic clock.
 */
#ifndef CKPT_DEST_S3_RETRY_H
#define CKPT_DEST_S3_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum { RETRY_TRIES_MAX = 12, RETRY_FIRST_MS = 100, RETRY_LAST_MS = 5000 };

/* Of one call; all zero before its first try. */
struct retry {
    unsigned tries; /* have failed */
    /* Since when: the first answer that said no, or the begin of the first try without one. */
    uint64_t since_us;
};

/* A try that had no answer has stood for nothing since it began. */
void retry_failed(struct retry *retry, uint64_t begun_us, uint64_t now_us, bool answered);
/* A call is given up when it has failed for as long as the patience. Nothing else may have
 * succeeded at the store for so long either; or the call has failed RETRY_TRIES_MAX times. */
bool retry_is_over(const struct retry *retry, uint64_t now_us, uint64_t success_us,
                   uint64_t patience_us);
/* Twice as long each time up to RETRY_LAST_MS, of which chance takes up to a half, so that many do
 * not come at once. */
uint64_t retry_pause_us(const struct retry *retry, uint64_t dice);

#endif
