/* One transfer's rate. See pace.h. */
#include "src/dest/pace.h"

#include <errno.h>
#include <time.h>

#include "src/base/check.h"

enum { PACE_CATCH_UP_US = 1000000, PACE_PIECES_PER_S = 16 };

uint64_t pace_clock_us(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void pace_init(struct pace *pace, uint64_t rate_bytes_per_s)
{
    CHECK(pthread_mutex_init(&pace->lock, NULL) == 0);
    pace->rate_bytes_per_s = rate_bytes_per_s;
    pace->due_us = pace_clock_us();
    pace->of_reading = false;
}

void pace_close(struct pace *pace)
{
    CHECK(pthread_mutex_destroy(&pace->lock) == 0);
}

size_t pace_piece(const struct pace *pace, size_t most_bytes)
{
    uint64_t wanted = pace->rate_bytes_per_s / PACE_PIECES_PER_S;

    if (pace->rate_bytes_per_s == 0 || wanted > most_bytes)
        return most_bytes;
    return wanted < 1 ? 1 : (size_t)wanted;
}

uint64_t pace_count(struct pace *pace, size_t moved_bytes)
{
    uint64_t now_us = pace_clock_us(), due_us;

    if (pace->rate_bytes_per_s == 0)
        return now_us;
    CHECK(pthread_mutex_lock(&pace->lock) == 0);
    if (pace->due_us + PACE_CATCH_UP_US < now_us)
        pace->due_us = now_us - PACE_CATCH_UP_US;
    pace->due_us += (uint64_t)moved_bytes * 1000000 / pace->rate_bytes_per_s;
    due_us = pace->due_us;
    CHECK(pthread_mutex_unlock(&pace->lock) == 0);
    return due_us;
}

bool pace_holds(struct pace *pace)
{
    uint64_t due_us;

    if (pace->rate_bytes_per_s == 0)
        return false;
    CHECK(pthread_mutex_lock(&pace->lock) == 0);
    due_us = pace->due_us;
    CHECK(pthread_mutex_unlock(&pace->lock) == 0);
    return due_us > pace_clock_us();
}

void pace_book(struct pace *pace, size_t moved_bytes)
{
    uint64_t due_us;
    struct timespec until;

    if (pace->rate_bytes_per_s == 0)
        return;
    due_us = pace_count(pace, moved_bytes);
    until.tv_sec = (time_t)(due_us / 1000000);
    until.tv_nsec = (long)(due_us % 1000000) * 1000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}
