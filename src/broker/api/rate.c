/* Calls of users, counted. See rate.h. */
#include "src/broker/api/rate.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/text.h"

enum { MINUTE_US = 60000000, MS_US = 1000 };

struct user {
    char name[ID_MAX_BYTES + 1]; /* "": the place is free */
    uint64_t paid_us;            /* up to here its calls are spread at the pace */
};

struct rate {
    uint64_t step_us;
    uint64_t per_minute;
    struct user users[RATE_USERS_MAX];
};

struct rate *rate_new(uint64_t per_minute)
{
    struct rate *rate;

    if (per_minute == 0)
        return NULL;
    rate = check_calloc(1, sizeof(*rate));
    rate->per_minute = per_minute;
    rate->step_us = per_minute < MINUTE_US ? MINUTE_US / per_minute : 1;
    return rate;
}

void rate_free(struct rate *rate)
{
    free(rate);
}

uint64_t rate_per_minute(const struct rate *rate)
{
    return rate == NULL ? 0 : rate->per_minute;
}

/* The user's place, else the one whose moment is the oldest, made the user's. */
static struct user *user_find(struct rate *rate, const char *name)
{
    struct user *oldest = &rate->users[0];

    for (size_t i = 0; i < RATE_USERS_MAX; i++) {
        struct user *user = &rate->users[i];

        if (strcmp(user->name, name) == 0)
            return user;
        if (user->paid_us < oldest->paid_us)
            oldest = user;
    }
    oldest->paid_us = 0;
    (void)text_copy(oldest->name, sizeof(oldest->name), name);
    return oldest;
}

bool rate_allow(struct rate *rate, const char *user, uint64_t now_ms, uint64_t *ret_wait_ms)
{
    const uint64_t now_us = now_ms * MS_US, burst_us = (uint64_t)RATE_BURST_MS * MS_US;
    struct user *asking;

    CHECK(user[0] != '\0');
    if (rate == NULL)
        return true;
    asking = user_find(rate, user);
    if (asking->paid_us < now_us)
        asking->paid_us = now_us;
    /* a pace slower than the burst still lets one call through */
    if (asking->paid_us > now_us && asking->paid_us + rate->step_us > now_us + burst_us) {
        const uint64_t wait_us = asking->paid_us + rate->step_us - now_us - burst_us;
        const uint64_t all_us = asking->paid_us - now_us;

        *ret_wait_ms = ((rate->step_us > burst_us ? all_us : wait_us) + MS_US - 1) / MS_US;
        return false;
    }
    asking->paid_us += rate->step_us;
    return true;
}
