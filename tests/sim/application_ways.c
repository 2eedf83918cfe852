/* Ways of asking that simulated applications know. See application_ways.h. */
#include "tests/sim/application_ways.h"

#include <signal.h>
#include <stddef.h>

#include "src/ask/ask.h"
#include "src/base/check.h"

static const struct application_way ways[] = {
    [WAY_FIRST_SIGNAL] = {.profile = "signal", .signal = SIGUSR1},
    [WAY_SECOND_SIGNAL] = {.profile = "signal-usr2", .signal = SIGUSR2},
    [WAY_CALL] = {.profile = "grpc", .signal = SIGUSR1, .calls = true},
    [WAY_REGION] = {.profile = "shm", .signal = SIGUSR1, .region = true}};

const struct application_way *application_way_at(enum application_way_row row)
{
    const struct ask_ops *ask;

    CHECK((size_t)row < ARRAY_COUNT(ways));
    ask = ask_find(ways[row].profile);
    CHECK(ask != NULL);
    CHECK(ask->registers == ways[row].calls);
    CHECK(ask->region == ways[row].region);
    CHECK(ask->signal == 0 || ask->signal == ways[row].signal);
    return &ways[row];
}
