/* What is drawn for one answer of a simulated application. See application_fates.h. */
#include "tests/sim/application_fates.h"

#include "src/base/check.h"

static enum fate draw_fate(struct sim *sim, const struct application_manners *manners,
                           unsigned among)
{
    const uint64_t chances[] = {
        [FATE_NEVER] = manners->never_in,     [FATE_LATE] = manners->late_in,
        [FATE_SLOW] = manners->slow_in,       [FATE_DIES] = manners->dies_in,
        [FATE_PARTIAL] = manners->partial_in, [FATE_REFUSES] = manners->refuses_in,
        [FATE_EMPTY] = manners->empty_in,     [FATE_STALE] = manners->stale_in};

    for (size_t i = FATE_NEVER; i < ARRAY_COUNT(chances); i++)
        if (sim_chance(sim, chances[i] * among))
            return (enum fate)i;
    return FATE_ANSWERS;
}

static enum fate draw_call_fate(struct sim *sim, const struct application_manners *manners,
                                unsigned among)
{
    if (sim_chance(sim, manners->defers_in * among))
        return FATE_DEFERS;
    if (sim_chance(sim, manners->lies_in * among))
        return FATE_LIES;
    if (sim_chance(sim, manners->hangs_up_in * among))
        return FATE_HANGS_UP;
    return draw_fate(sim, manners, among);
}

void answering_draw(struct answering *answering, struct sim *sim,
                    const struct application_manners *manners, bool called, unsigned among)
{
    *answering = (struct answering){.fate = called ? draw_call_fate(sim, manners, among)
                                                   : draw_fate(sim, manners, among)};
}

uint64_t answering_delay(struct answering *answering, struct sim *sim, uint64_t timeout_us)
{
    static const unsigned late_percent[] = {100, 149, 151};

    if (answering->fate == FATE_LATE)
        return timeout_us * late_percent[sim_random(sim, 3)] / 100;
    if (answering->fate == FATE_SLOW)
        answering->left_us = timeout_us * (40 + sim_random(sim, 100)) / 100;
    return 1000 + sim_random(sim, 400000);
}
