/* Ways of asking that simulated applications know. See application_ways.h. */
#include "tests/sim/application_ways.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include "src/ask/ask.h"
#include "src/base/check.h"
#include "tests/sim/application.h"

static const struct application_way ways[] = {
    [WAY_FIRST_SIGNAL] = {.profile = "signal", .signal = SIGUSR1},
    [WAY_SECOND_SIGNAL] = {.profile = "signal-usr2", .signal = SIGUSR2},
    [WAY_CALL] = {.profile = "grpc", .signal = SIGUSR1, .calls = true},
    [WAY_REGION] = {.profile = "shm", .signal = SIGUSR1, .region = true},
    [WAY_FILE] = {.profile = "file", .signal = SIGUSR1, .looks = true},
    [WAY_COMMAND] = {.profile = "exec", .signal = SIGUSR1, .served = true}};

bool application_way_signals(const struct application_way *way)
{
    return !way->calls && !way->region && !way->looks && !way->served;
}

const struct application_way *application_way_at(enum application_way_row row)
{
    const struct ask_ops *ask;

    CHECK((size_t)row < ARRAY_COUNT(ways));
    ask = ask_find(ways[row].profile);
    CHECK(ask != NULL);
    CHECK(ask->registers == ways[row].calls);
    CHECK(ask->region == ways[row].region);
    CHECK(ask->stands_in == ways[row].looks);
    CHECK(ask->served == ways[row].served);
    CHECK(ask->signal == 0 || ask->signal == ways[row].signal);
    return &ways[row];
}

void application_label(const struct application_setup *setup, struct sim *sim, const char *hint,
                       char label[LABEL_MAX_BYTES + 1])
{
    unsigned epoch, sequence;

    label[0] = '\0';
    if (sscanf(hint, "%u-%u-", &epoch, &sequence) != 2)
        sequence = 0;
    /* by the hint: one that answers twice says the same */
    if (setup->labels == LABELS_NONE &&
        (setup->manners->mislabels_in == 0 || sequence % setup->manners->mislabels_in != 0))
        snprintf(label, LABEL_MAX_BYTES + 1, "unordered");
    if (setup->labels == LABELS_NONE || sequence == 0)
        return;
    snprintf(label, LABEL_MAX_BYTES + 1, "%u",
             sequence + sim_chance(sim, setup->manners->mislabels_in));
}
