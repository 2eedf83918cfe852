/* See world_options.h. */
#include "tests/sim/world_options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

enum { SEED_BYTES = 8 };

#define OPTION(member)                                                                             \
    {                                                                                              \
#member, offsetof(struct world_options, member),                                           \
            sizeof(((struct world_options *)0)->member)                                            \
    }
static const struct option {
    const char *name;
    size_t offset, size;
} known[] = {
    OPTION(seed),
    OPTION(replicas),
    OPTION(agents),
    OPTION(schedulers),
    OPTION(targets),
    OPTION(shipping_agents),
    OPTION(seconds),
    OPTION(operations_per_s),
    OPTION(snapshot_entries),
    OPTION(bursts),
    OPTION(burst_bytes),
    OPTION(slow_in),
    OPTION(slow_ms),
    OPTION(crashes),
    OPTION(disk_deaths),
    OPTION(disk_errors),
    OPTION(partitions),
    OPTION(one_way),
    OPTION(resets),
    OPTION(pauses),
    OPTION(clock_steps),
    OPTION(slow_disks),
    OPTION(full_disks),
    OPTION(rots),
    OPTION(old_copies),
    OPTION(storage_flaps),
    OPTION(agent_crashes),
    OPTION(transfers),
    OPTION(wipes),
    OPTION(overtakes),
    OPTION(membership),
    OPTION(mistakes),
    OPTION(elected),
    OPTION(scaling),
    OPTION(named),
    OPTION(epochs),
    OPTION(operator_calls),
    OPTION(alarms),
    OPTION(deferrals),
    OPTION(copies),
    OPTION(preferred),
    OPTION(kept_caches),
    OPTION(lost_syncs),
    OPTION(read_errors),
    OPTION(fills),
    OPTION(lost_files),
    OPTION(flips),
    OPTION(odd_values),
    OPTION(older),
    OPTION(agent_disks),
    OPTION(callers),
    OPTION(regions),
    OPTION(lookers),
    OPTION(commands),
    OPTION(ranks),
    OPTION(barriers),
    OPTION(restores),
    OPTION(spoils),
    OPTION(readers),
    OPTION(quotas),
    OPTION(cluster_pauses),
    OPTION(drills),
    OPTION(drill_trial),
    OPTION(discards),
    OPTION(direct),
    OPTION(late_writes),
    OPTION(continues),
    OPTION(memory),
    OPTION(comes_back),
    OPTION(hung),
    OPTION(restart_wait),
    OPTION(domains),
    OPTION(witness),
    OPTION(streams),
    OPTION(silence),
    OPTION(absent),
    OPTION(hang),
    OPTION(straggler),
    OPTION(unready),
    OPTION(drift),
    OPTION(unruly),
    OPTION(unsafe),
    OPTION(verbose),
};

static uint64_t option_get(const struct world_options *options, const struct option *option)
{
    const void *at = (const char *)options + option->offset;

    return option->size == 8   ? *(const uint64_t *)at
           : option->size == 4 ? *(const uint32_t *)at
                               : *(const bool *)at;
}

static void option_put(struct world_options *options, const struct option *option, uint64_t value)
{
    void *at = (char *)options + option->offset;

    if (option->size == 8)
        *(uint64_t *)at = value;
    else if (option->size == 4)
        *(uint32_t *)at = (uint32_t)value;
    else
        *(bool *)at = value != 0;
}

static const struct option *option_find(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, name, length) == 0)
            return &known[i];
    return NULL;
}

const char *world_options_set(struct world_options *options, const char *assignment)
{
    size_t length = strcspn(assignment, "=");
    const struct option *option = option_find(assignment, length);
    char *end;
    uint64_t value;

    if (option == NULL)
        return "no option has this name; a run prints all of them behind \"options:\"";
    if (assignment[length] == '\0' || !isdigit((unsigned char)assignment[length + 1]))
        return "behind the name of an option stand = and a whole number";
    errno = 0;
    value = strtoull(assignment + length + 1, &end, 10);
    if (*end != '\0')
        return "a whole number in decimal digits is wanted";
    if (errno == ERANGE || (option->size == 4 && value > UINT32_MAX))
        return "the number is too large for this option";
    option_put(options, option, value);
    return NULL;
}

/* Those that the seed did not draw. */
static void print_given(FILE *stream, const struct world_options *options)
{
    struct world_options drawn;
    const char *before = " OPTIONS=\"";

    world_options_draw(options->seed, options->replicas, &drawn);
    drawn.unsafe = options->unsafe;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        uint64_t value = option_get(options, &known[i]);

        if (value == option_get(&drawn, &known[i]))
            continue;
        fprintf(stream, "%s%s=%" PRIu64, before, known[i].name, value);
        before = " ";
    }
    if (strcmp(before, " ") == 0)
        fputc('"', stream);
}

void world_options_print(FILE *stream, const struct world_options *options)
{
    fprintf(stream, "repeat with: make sim SEED=%" PRIu64 " REPLICAS=%u", options->seed,
            options->replicas);
    if (options->unsafe != 0)
        fprintf(stream, " UNSAFE=%u", options->unsafe);
    print_given(stream, options);
    fprintf(stream, "\noptions:");
    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        fprintf(stream, " %s=%" PRIu64, known[i].name, option_get(options, &known[i]));
    fprintf(stream, "\n");
}

static uint64_t next(uint64_t *state, uint64_t below)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* A kind of fault is there in two runs of three, and then rare or frequent. */
static unsigned rate(uint64_t *state, unsigned most)
{
    return next(state, 3) == 0
               ? 0
               : 1 + (unsigned)next(state, next(state, 2) == 0 ? most : most / 3 + 1);
}

/* All of the agents, some beside the model, or none. */
static unsigned draw_shipping(uint64_t *state, unsigned agents)
{
    switch (next(state, 4)) {
    case 0:
        return 0;
    case 1:
        return 1 + (unsigned)next(state, agents);
    default:
        return agents;
    }
}

/* long: a line for each option */
void world_options_draw(uint64_t seed, unsigned replicas, struct world_options *ret_options)
{
    uint64_t state = seed ^ UINT64_C(0x6f7074696f6e73);

    *ret_options = (struct world_options){
        .seed = seed,
        .replicas = replicas,
        .agents = 2 + (unsigned)next(&state, 4),
        .schedulers = 1 + (unsigned)next(&state, 3),
        .targets = 1 + (unsigned)next(&state, 2),
        .seconds = 60,
        .operations_per_s = 2 + (unsigned)next(&state, 15),
        .snapshot_entries = 20 + next(&state, 300),
        .bursts = next(&state, 3) != 0 ? 0 : 10 + (unsigned)next(&state, 60),
        .burst_bytes = next(&state, 12) == 0 ? 200000 : 200,
        .slow_in = next(&state, 3) == 0 ? 5 + (unsigned)next(&state, 30) : 200,
        .slow_ms = next(&state, 3) == 0 ? 1000 : 100,
        .crashes = rate(&state, 20),
        .disk_deaths = rate(&state, 12),
        .disk_errors = rate(&state, 6),
        .partitions = rate(&state, 12),
        .one_way = rate(&state, 8),
        .resets = rate(&state, 30),
        .pauses = rate(&state, 12),
        .clock_steps = rate(&state, 6),
        .slow_disks = rate(&state, 6),
        .full_disks = rate(&state, 6),
        .rots = rate(&state, 3),
        .storage_flaps = rate(&state, 8),
        .agent_crashes = rate(&state, 10),
        .transfers = rate(&state, 10),
        .drift = next(&state, 3) == 0,
        .unruly = next(&state, 4) == 0,
    };
    ret_options->shipping_agents = draw_shipping(&state, ret_options->agents);
    ret_options->membership = next(&state, 3) == 0 ? 6 + (unsigned)next(&state, 30) : 0;
    ret_options->wipes = next(&state, 4) == 0 ? 1 + (unsigned)next(&state, 6) : 0;
    ret_options->elected = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 60) : 0;
    ret_options->overtakes = next(&state, 24) == 0 ? 1 + (unsigned)next(&state, 3) : 0;
    ret_options->absent = next(&state, 3) == 0;
    ret_options->hang = next(&state, 4) == 0;
    ret_options->straggler = next(&state, 4) == 0;
    ret_options->scaling = next(&state, 2) == 0 ? 5 + (unsigned)next(&state, 60) : 0;
    ret_options->named = next(&state, 2) == 0 ? 10 + (unsigned)next(&state, 60) : 0;
    ret_options->operator_calls = next(&state, 3) == 0 ? 6 + (unsigned)next(&state, 80) : 0;
    ret_options->epochs = next(&state, 6) == 0 ? 1 + (unsigned)next(&state, 4) : 0;
    ret_options->alarms = next(&state, 4) == 0 ? 5 + (unsigned)next(&state, 60) : 0;
    ret_options->preferred = next(&state, 6) == 0 ? 1 + (unsigned)next(&state, replicas) : 0;
    ret_options->streams = next(&state, 6) == 0;
    ret_options->deferrals = next(&state, 3) == 0 ? 2 + (unsigned)next(&state, 8) : 0;
    ret_options->kept_caches = next(&state, 3) == 0 ? 20 + (unsigned)next(&state, 81) : 0;
    ret_options->lost_syncs = next(&state, 4) == 0 ? 1 + (unsigned)next(&state, 8) : 0;
    ret_options->read_errors = next(&state, 4) == 0 ? 1 + (unsigned)next(&state, 8) : 0;
    ret_options->fills = next(&state, 4) == 0 ? 1 + (unsigned)next(&state, 6) : 0;
    ret_options->lost_files = next(&state, 4) == 0 ? 1 + (unsigned)next(&state, 4) : 0;
    ret_options->agent_disks = next(&state, 2) == 0 ? 1 + (unsigned)next(&state, 12) : 0;
    if (ret_options->membership > 0) {
        ret_options->rots = next(&state, 3) == 0 ? 1 + (unsigned)next(&state, 4) : 0;
        ret_options->wipes = next(&state, 3) == 0 ? 1 + (unsigned)next(&state, 4) : 0;
        ret_options->mistakes = next(&state, 2) == 0 ? 5 + (unsigned)next(&state, 30) : 0;
    }
    ret_options->unready = next(&state, 8) == 0;
    ret_options->flips = next(&state, 6) == 0 ? 1 + (unsigned)next(&state, 6) : 0;
    ret_options->odd_values = next(&state, 3) == 0 ? 2 + (unsigned)next(&state, 8) : 0;
    ret_options->older = next(&state, 6) == 0;
    ret_options->callers = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 91) : 0;
    ret_options->ranks = next(&state, 3) == 0 ? 0 : 10 + (unsigned)next(&state, 91);
    ret_options->barriers = next(&state, 3) == 0 ? 1 + (unsigned)next(&state, 12) : 0;
    ret_options->restores = next(&state, 3) == 0 ? 0 : 10 + (unsigned)next(&state, 91);
    ret_options->spoils = next(&state, 3) == 0 ? 5 + (unsigned)next(&state, 40) : 0;
    ret_options->copies = next(&state, 3) == 0   ? 0
                          : next(&state, 2) == 0 ? 1
                                                 : 500 + (unsigned)next(&state, 8000);
    if (ret_options->targets > 1)
        ret_options->domains = next(&state, 3) == 0 ? 0 : 20 + (unsigned)next(&state, 81);
    ret_options->readers = next(&state, 2) == 0 ? 1 + (unsigned)next(&state, 3) : 0;
    ret_options->discards = next(&state, 3) == 0 ? 5 + (unsigned)next(&state, 40) : 0;
    ret_options->direct = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 91) : 0;
    ret_options->quotas = next(&state, 3) == 0 ? 20 + (unsigned)next(&state, 70) : 0;
    ret_options->late_writes = next(&state, 3) == 0 ? 5 + (unsigned)next(&state, 60) : 0;
    ret_options->memory = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 91) : 0;
    ret_options->continues = next(&state, 2) == 0 ? 20 + (unsigned)next(&state, 81) : 0;
    ret_options->comes_back = next(&state, 3) == 0 ? 0 : 20 + (unsigned)next(&state, 81);
    ret_options->restart_wait = next(&state, 3) == 0 ? 2 + (unsigned)next(&state, 20) : 0;
    ret_options->hung = next(&state, 3) == 0 ? 2 + (unsigned)next(&state, 12) : 0;
    ret_options->witness = next(&state, 4) == 0 ? 0 : 10 + (unsigned)next(&state, 91);
    ret_options->regions = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 91) : 0;
    ret_options->cluster_pauses = next(&state, 3) == 0 ? 2 + (unsigned)next(&state, 10) : 0;
    ret_options->lookers = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 91) : 0;
    ret_options->drills = next(&state, 3) == 0 ? 2 + (unsigned)next(&state, 8) : 0;
    ret_options->drill_trial = next(&state, 4) == 0 ? 1 + (unsigned)next(&state, 5) : 0;
    ret_options->commands = next(&state, 3) == 0 ? 10 + (unsigned)next(&state, 91) : 0;
}
