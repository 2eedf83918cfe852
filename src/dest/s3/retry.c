/* Pauses between tries, and their end. See retry.h. */
#include "src/dest/s3/retry.h"

#include "src/base/check.h"

void retry_failed(struct retry *retry, uint64_t begun_us, uint64_t now_us, bool answered)
{
    CHECK(now_us >= begun_us);
    if (retry->tries++ == 0)
        retry->since_us = answered ? now_us : begun_us;
}

bool retry_is_over(const struct retry *retry, uint64_t now_us, uint64_t success_us,
                   uint64_t patience_us)
{
    CHECK(retry->tries > 0);
    CHECK(now_us >= retry->since_us);
    if (now_us - retry->since_us < patience_us)
        return false;
    return now_us - success_us >= patience_us || retry->tries >= RETRY_TRIES_MAX;
}

uint64_t retry_pause_us(const struct retry *retry, uint64_t dice)
{
    unsigned shift = retry->tries < 7 ? retry->tries - 1 : 6;
    uint64_t pause_ms = (uint64_t)RETRY_FIRST_MS << shift;

    CHECK(retry->tries > 0);
    if (pause_ms > RETRY_LAST_MS)
        pause_ms = RETRY_LAST_MS;
    return pause_ms * 500 + dice % (pause_ms * 500);
}
