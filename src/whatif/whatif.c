/* One run, its scenario by name and by numbers. See whatif.h.
 *
 * Shapes   `numbers` is WHATIF_NUMBERS as a table: setting, checking, help and the notes of a plot
 *          walk it, so a new number is a row there and its use in the engine.
 */
#include "src/whatif/whatif.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/base/number.h"
#include "src/whatif/engine.h"

struct number {
    const char *name;
    const char *unit;
    double low, high;
    size_t offset;
};

static const struct number numbers[] = {
#define X(name, unit, usual, low, high)                                                            \
    {#name, unit, low, high, offsetof(struct whatif_scenario, name)},
    WHATIF_NUMBERS(X)
#undef X
};

void whatif_scenario_init(struct whatif_scenario *ret_scenario)
{
    *ret_scenario = (struct whatif_scenario){
#define X(name, unit, usual, low, high) .name = usual,
        WHATIF_NUMBERS(X)
#undef X
    };
}

static double *number_field(struct whatif_scenario *scenario, const struct number *number)
{
    return (double *)(void *)((char *)scenario + number->offset);
}

bool whatif_number_at(size_t i, struct whatif_number *ret_number)
{
    struct whatif_scenario usual;

    if (i >= ARRAY_COUNT(numbers))
        return false;
    whatif_scenario_init(&usual);
    *ret_number = (struct whatif_number){.name = numbers[i].name,
                                         .unit = numbers[i].unit,
                                         .usual = *number_field(&usual, &numbers[i]),
                                         .low = numbers[i].low,
                                         .high = numbers[i].high};
    return true;
}

/* What its unit says of a number: "bytes/s", "bytes", "s", or a share, which ends at 1. *ret_scale:
 * what number_parse() counts in one. */
static enum number_kind kind_of(const struct number *number, double *ret_scale)
{
    const char *unit = number->unit;

    *ret_scale = 1;
    if (strncmp(unit, "bytes/s", strlen("bytes/s")) == 0)
        return NUMBER_RATE;
    if (strncmp(unit, "bytes", strlen("bytes")) == 0)
        return NUMBER_SIZE;
    if (unit[0] == 's' && strchr(" ,;", unit[1]) != NULL) {
        *ret_scale = 1e3;
        return NUMBER_DURATION;
    }
    *ret_scale = 1e6;
    return number->high == 1 ? NUMBER_SHARE : NUMBER_PLAIN;
}

/* A plain number in its own unit, or one with a unit ("200GB/s", "5m", "30%") as elsewhere. */
static bool parse_value(const struct number *number, const char *text, double *ret_value)
{
    const struct number_range any = {0, UINT64_MAX};
    double scale;
    enum number_kind kind = kind_of(number, &scale);
    uint64_t exact;
    char *end;

    if (text[0] < '0' || text[0] > '9' || text[1] == 'x' || text[1] == 'X')
        return false; /* strtod() takes blanks, signs, words and other bases */
    *ret_value = strtod(text, &end);
    if (*end == '\0')
        return true;
    if (kind == NUMBER_PLAIN || number_parse(kind, text, any, &exact, NULL) != 0)
        return false;
    *ret_value = (double)exact / scale;
    return true;
}

int whatif_scenario_set(struct whatif_scenario *scenario, const char *assignment, struct err *err)
{
    const char *equals = strchr(assignment, '=');
    size_t length = equals != NULL ? (size_t)(equals - assignment) : 0;
    double value;

    if (equals == NULL || equals[1] == '\0')
        return err_set(err, ERR_INVALID, "\"%s\" is not name=number", assignment);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        if (strlen(number->name) != length || memcmp(number->name, assignment, length) != 0)
            continue;
        if (!parse_value(number, equals + 1, &value) ||
            !(value >= number->low && value <= number->high))
            return err_set(err, ERR_INVALID, "%s is \"%s\": it must be a number from %g to %g (%s)",
                           number->name, equals + 1, number->low, number->high, number->unit);
        *number_field(scenario, number) = value;
        return 0;
    }
    return err_set(err, ERR_INVALID, "no number of a scenario is called \"%.*s\"", (int)length,
                   assignment);
}

enum { NOTE_LINE_MAX = 140 }; /* what a line of the plot has room for */

/* Appends "name=value" to the last note, or begins the next one when that has no room; the last
 * line may end in "...". */
static void note_number(struct whatif_plot *plot, const char *name, double value)
{
    char text[80];
    char *last = plot->notes[plot->note_count - 1];
    size_t length = strlen(last);

    snprintf(text, sizeof(text), " %s=%.6g", name, value);
    if (length + strlen(text) < NOTE_LINE_MAX) {
        memcpy(last + length, text, strlen(text) + 1);
    } else if (plot->note_count < WHATIF_NOTES_MAX) {
        snprintf(plot->notes[plot->note_count++], WHATIF_NOTE_BYTES, "   %s", text);
    } else if (length < 4 || strcmp(last + length - 4, " ...") != 0) {
        memcpy(last + length, " ...", 5);
    }
}

void whatif_plot_assume(struct whatif_plot *plot, const struct whatif_run *run)
{
    const struct whatif_scenario *scenario = run->scenario;
    struct whatif_scenario usual;
    char failures[80] = "failures as recorded";
    bool differs = false;

    whatif_scenario_init(&usual);
    if (run->trace == NULL && run->history == NULL)
        snprintf(failures, sizeof(failures), "%g failures per 1000 node-days",
                 scenario->failures_per_1000_node_days);
    snprintf(plot->notes[0], WHATIF_NOTE_BYTES,
             "seed %" PRIu64 "; decided every %g s; a restart takes %g s and reading, after a "
             "failure %g s more; %s, %s",
             run->seed, scenario->cycle_s, scenario->restart_s, scenario->down_s, failures,
             scenario->learn > 0 ? "their rate learned" : "the mean told");
    plot->note_count = 1;
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        double value = *number_field((struct whatif_scenario *)(uintptr_t)scenario, &numbers[i]);

        if (value == *number_field(&usual, &numbers[i]))
            continue;
        if (!differs)
            snprintf(plot->notes[plot->note_count++], WHATIF_NOTE_BYTES, "not as usual:");
        differs = true;
        note_number(plot, numbers[i].name, value);
    }
}

/* ---- named scenarios: what differs from the usual numbers ---- */

static const struct {
    const char *name;
    const char *numbers[16];
} scenarios[] = {
    {"exponential", {NULL}},
    {"weibull", {"weibull_shape=0.6", NULL}},
    {"alarms", {"recall=0.4", "precision=0.6", NULL}},
    {"alarms-more", {"recall=0.6", "precision=0.4", NULL}},
    {"preemption", {"demand_per_hour=0.25", "kill_share=0.45", NULL}},
    {"yielding", {"demand_per_hour=0.25", "kill_share=0", "urgency=1", "announce_share=0.6", NULL}},
    {"walltime", {"walltime_min_s=36000", "walltime_max_s=129600", NULL}},
    {"contention", {"bandwidth_bytes_per_s=200e9", NULL}},
    {"saturated", {"bandwidth_bytes_per_s=120e9", NULL}},
    {"outages", {"outage_every_s=432000", "outage_s=3600", NULL}},
    {"everything",
     {"weibull_shape=0.7", "recall=0.4", "precision=0.6", "demand_per_hour=0.25", "kill_share=0.45",
      "walltime_min_s=36000", "walltime_max_s=129600", "bandwidth_bytes_per_s=600e9",
      "outage_every_s=432000", "outage_s=3600", NULL}},
};

const char *whatif_scenario_name(size_t i)
{
    return i < ARRAY_COUNT(scenarios) ? scenarios[i].name : NULL;
}

bool whatif_scenario_named(const char *name, struct whatif_scenario *ret_scenario)
{
    for (size_t i = 0; i < ARRAY_COUNT(scenarios); i++) {
        if (strcmp(scenarios[i].name, name) != 0)
            continue;
        whatif_scenario_init(ret_scenario);
        for (size_t k = 0; scenarios[i].numbers[k] != NULL; k++) {
            struct err err;
            CHECK(whatif_scenario_set(ret_scenario, scenarios[i].numbers[k], &err) == 0);
        }
        return true;
    }
    return false;
}

/* ---- runs ---- */

double whatif_waste(const struct whatif_account *account)
{
    return account->held_gpu_s > 0 ? 1 - account->useful_gpu_s / account->held_gpu_s : 0;
}

static int check_scenario(const struct whatif_scenario *scenario, struct err *err)
{
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        double value = *number_field((struct whatif_scenario *)scenario, &numbers[i]);
        if (!(value >= numbers[i].low && value <= numbers[i].high))
            return err_set(err, ERR_INVALID, "%s is %g: it must be from %g to %g (%s)",
                           numbers[i].name, value, numbers[i].low, numbers[i].high,
                           numbers[i].unit);
    }
    if (scenario->fill_min > scenario->fill_max ||
        (scenario->walltime_max_s > 0 && scenario->walltime_min_s > scenario->walltime_max_s))
        return err_set(err, ERR_INVALID,
                       "a lower limit is above its upper limit: fill_min %g, "
                       "fill_max %g, walltime_min_s %g, walltime_max_s %g",
                       scenario->fill_min, scenario->fill_max, scenario->walltime_min_s,
                       scenario->walltime_max_s);
    return 0;
}

static int make_world(const struct whatif_run *run, struct world *world, struct err *err)
{
    if (check_scenario(run->scenario, err) != 0)
        return -1;
    if (run->history != NULL)
        return world_from_history(world, run->scenario, run->seed, run->history, err);
    if (run->trace != NULL)
        return world_read_trace(world, run->scenario, run->seed, run->trace, err);
    world_generate(world, run->scenario, run->seed);
    return 0;
}

int whatif_run(const struct whatif_run *run, struct whatif_account *ret_account, struct err *err)
{
    struct world world;

    if (make_world(run, &world, err) != 0)
        return -1;
    engine_run(&world, run->rule, ret_account);
    world_free(&world);
    return 0;
}

/* ---- the bound ---- */

/* Pause and lost work at byte price phi, relative to held time, and the bandwidth that it takes. */
static double waste_at_price(const struct world *world, double phi, double *ret_bytes_per_s)
{
    double waste = 0, gpus = 0, stall = world->scenario.stall_fraction;

    *ret_bytes_per_s = 0;
    for (size_t i = 0; i < world->job_count; i++) {
        const struct world_job *job = &world->jobs[i];
        double hazard = job->nodes * world->node_failures_per_s;
        double stall_s =
            stall * job->size_bytes / job->injection_bytes_per_s + world->scenario.quiesce_s;
        double interval_s =
            sqrt(2 * (stall_s + phi * job->size_bytes / job->gpus) / fmax(hazard, 1e-300));
        waste += job->gpus * (stall_s / (interval_s + stall_s) + hazard * interval_s / 2);
        *ret_bytes_per_s += job->size_bytes / (interval_s + stall_s);
        gpus += job->gpus;
    }
    return gpus > 0 ? waste / gpus : 0;
}

/* The price of a byte at which all jobs together use just the bandwidth that there is: bisected,
 * since what they use only falls with it. */
int whatif_shared_bound(const struct whatif_run *run, double *ret_waste, struct err *err)
{
    struct world world;
    double low = 0, high = 1e3, used, capacity;

    if (make_world(run, &world, err) != 0)
        return -1;
    capacity = world.scenario.bandwidth_bytes_per_s;
    *ret_waste = waste_at_price(&world, 0, &used);
    for (int i = 0; capacity > 0 && used > capacity && i < 200; i++) {
        double middle = low + (high - low) / 2;
        double waste = waste_at_price(&world, middle, &used);
        if (used > capacity) {
            low = middle;
        } else {
            high = middle;
            *ret_waste = waste;
        }
        used = INFINITY; /* until the loop ends */
    }
    world_free(&world);
    return 0;
}
