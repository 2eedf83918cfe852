/* The smallest change of one input that turns a job's decision round. See model.h.
 *
 * Flow     each input is moved away from what it is, downwards and upwards, in doubling steps and
 *          over each guard's threshold, until the decision is the other one, then back by
 *          bisection; what is reported was scored and does flip. Between two thresholds the
 *          decision turns at most once, so nothing nearer is passed over. Of all inputs the
 *          smallest relative change wins; a guard that is lifted counts as a change by half.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"

enum { FLIP_BISECTIONS = 60, FLIP_DOUBLINGS = 80, FLIP_THRESHOLDS = 8 };
#define FLIP_FLAG_SIZE 0.5  /* as relative change */
#define FLIP_EXACT     1e-9 /* of an input's scale: anything above nothing may be what flips */

/* What an input may be, and what a change of it is measured against when it is near 0. */
static const struct range {
    const char *name;
    double most;
    double scale;
    double least; /* above 0: 0 means "none", which is no small change to or from anything */
} ranges[EVAL_INPUT_COUNT] = {
    [EVAL_INPUT_age_s] = {"last-checkpoint age", 366 * 86400.0, 600},
    [EVAL_INPUT_gpus] = {"GPUs", 0, 0}, /* no advice: it would be another job */
    [EVAL_INPUT_nodes] = {"nodes", 0, 0},
    [EVAL_INPUT_size_bytes] = {"size", 1e18, 1e9},
    [EVAL_INPUT_bandwidth_bytes_per_s] = {"bandwidth", 1e15, 1e6},
    [EVAL_INPUT_hazard_factor] = {"hazard factor", 1e6, 0.1},
    [EVAL_INPUT_kill_per_s] = {"hazard of a kill per s", 1, 1e-6},
    [EVAL_INPUT_alarm_h] = {"hazard of alarms", EVAL_ALARM_H_MAX, 1e-2},
    [EVAL_INPUT_walltime_left_s] = {"walltime left", 366 * 86400.0, 600},
    [EVAL_INPUT_write_quantile_s] = {"write-time quantile", 366 * 86400.0, 60, 1},
    [EVAL_INPUT_period_s] = {"period", 366 * 86400.0, 600, 1},
    [EVAL_INPUT_usd_per_gb_month] = {"price", 1e3, 1e-3},
    [EVAL_INPUT_waiting_gain_gpu_s] = {"gain of waiting higher-class work", 1e15, 3600},
    [EVAL_INPUT_yield_probability] = {"probability of yielding", 1, 0.05, 1e-6},
    [EVAL_INPUT_grace_s] = {"grace", 86400, 30},
    [EVAL_INPUT_success_probability] = {"probability of success", 1, 0.05},
    [EVAL_INPUT_stall_factor] = {"stall factor", 1e3, 0.1},
};

const char *eval_input_name(enum eval_input input)
{
    CHECK(input >= 0 && input < EVAL_INPUT_COUNT);
    return ranges[input].name;
}

const char *eval_column_name(enum eval_input input)
{
    static const char *const names[] = {
#define X(column) #column,
        EVAL_VIEW_COLUMNS(X)
#undef X
            "flags"};

    CHECK(input >= 0 && input < EVAL_INPUT_COUNT);
    return names[input];
}

struct search {
    const struct eval_policy *policy;
    struct eval_view *one;
    eval_passes_fn *passes; /* NULL: whatever fires does */
    bool fires;             /* as it is */
};

static double *column_of(struct eval_view *view, enum eval_input input)
{
    double *const columns[] = {
#define X(column) view->column,
        EVAL_VIEW_COLUMNS(X)
#undef X
    };

    return columns[input];
}

static bool verdict_flips(const struct search *search)
{
    uint8_t verdict;
    bool fires;

    eval_decide(search->policy, search->one, &verdict);
    fires = eval_verdict_fires((enum eval_verdict)verdict) &&
            (search->passes == NULL || search->passes(search->one, (enum eval_verdict)verdict));
    return fires != search->fires;
}

static bool flips_at(const struct search *search, double *input, double value)
{
    *input = value;
    return verdict_flips(search);
}

/* Where guards and the walltime slot turn, as values of the input. */
static size_t list_thresholds(const struct search *search, enum eval_input input,
                              double values[FLIP_THRESHOLDS])
{
    const struct eval_policy *policy = search->policy;
    const struct eval_view *one = search->one;
    bool own = (one->flags[0] & EVAL_FLAG_SENSITIVE) != 0;
    double left_s = one->walltime_left_s[0], grace_s = one->grace_s[0];
    double quantile_s = one->write_quantile_s[0], rate = one->bandwidth_bytes_per_s[0];
    double write_s = one->size_bytes[0] / rate;
    double slot_write_s = quantile_s > 0 ? quantile_s : EVAL_WRITE_QUANTILE_FACTOR * write_s;
    double margin_s = fmax(policy->cycle_s, grace_s);
    double late_write_s = left_s + grace_s - policy->quiesce_s; /* the longest that ends in time */
    double due_write_s =
        (left_s - policy->quiesce_s - margin_s) / EVAL_WRITE_QUANTILE_FACTOR; /* the shortest due */
    size_t count = 0;

    switch (input) {
    case EVAL_INPUT_age_s:
        values[count++] = own ? policy->sensitive_min_interval_s : policy->min_interval_s;
        values[count++] = own ? policy->sensitive_max_interval_s : policy->max_interval_s;
        values[count++] = one->period_s[0];
        break;
    case EVAL_INPUT_period_s:
        values[count++] = one->age_s[0];
        break;
    case EVAL_INPUT_walltime_left_s:
        values[count++] = policy->near_completion_s;
        values[count++] = slot_write_s + policy->quiesce_s + margin_s;
        values[count++] = write_s + policy->quiesce_s - grace_s;
        break;
    case EVAL_INPUT_grace_s:
        values[count++] = write_s + policy->quiesce_s - left_s;
        values[count++] = left_s - slot_write_s - policy->quiesce_s;
        values[count++] = policy->cycle_s;
        break;
    case EVAL_INPUT_write_quantile_s:
        values[count++] = left_s - policy->quiesce_s - margin_s;
        break;
    case EVAL_INPUT_size_bytes:
        values[count++] = late_write_s * rate;
        values[count++] = due_write_s * rate;
        break;
    case EVAL_INPUT_bandwidth_bytes_per_s:
        values[count++] = one->size_bytes[0] / late_write_s;
        values[count++] = one->size_bytes[0] / due_write_s;
        break;
    case EVAL_INPUT_gpus:
    case EVAL_INPUT_nodes:
    case EVAL_INPUT_hazard_factor:
    case EVAL_INPUT_kill_per_s:
    case EVAL_INPUT_alarm_h:
    case EVAL_INPUT_usd_per_gb_month:
    case EVAL_INPUT_waiting_gain_gpu_s:
    case EVAL_INPUT_yield_probability:
    case EVAL_INPUT_success_probability:
    case EVAL_INPUT_stall_factor:
    case EVAL_INPUT_FLAGS:
    case EVAL_INPUT_COUNT:
        break;
    }
    return count;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Where to look in that direction, the nearest first. Returns how many. */
static size_t places_to_look(const struct search *search, enum eval_input input, double from,
                             double sign, double places[FLIP_DOUBLINGS + 3 * FLIP_THRESHOLDS])
{
    double least = fmin(ranges[input].least, from), most = fmax(ranges[input].most, from);
    double step = fmax(from, ranges[input].scale) / 64, values[FLIP_THRESHOLDS], last = from;
    size_t count = 0, known = list_thresholds(search, input, values);

    for (int i = 0; i < FLIP_DOUBLINGS; i++, step *= 2) {
        double next = fmin(fmax(from + sign * step, least), most);

        if (next == last)
            break;
        places[count++] = last = next;
    }
    for (size_t i = 0; i < known; i++) {
        for (int beside = -1; beside <= 1; beside++) {
            double value = values[i] * (1 + beside * FLIP_EXACT);

            if (value >= least && value <= most && (value - from) * sign > 0)
                places[count++] = value;
        }
    }
    qsort(places, count, sizeof(*places), by_size);
    for (size_t i = 0; sign < 0 && i < count / 2; i++) {
        double kept = places[i];

        places[i] = places[count - 1 - i];
        places[count - 1 - i] = kept;
    }
    return count;
}

/* The value nearest to `from` in that direction that flips. */
static bool search_direction(const struct search *search, enum eval_input input, double sign,
                             double *ret_to)
{
    double *number = column_of(search->one, input), from = *number, same = from, other = from;
    double places[FLIP_DOUBLINGS + 3 * FLIP_THRESHOLDS];
    size_t count = places_to_look(search, input, from, sign, places);
    bool found = false;

    for (size_t i = 0; i < count && !found; i++) {
        found = flips_at(search, number, places[i]);
        same = found ? same : places[i];
        other = places[i];
    }
    for (int i = 0; found && i < FLIP_BISECTIONS; i++) {
        double middle = same + (other - same) / 2;
        if (middle == same || middle == other ||
            fabs(other - same) < FLIP_EXACT * ranges[input].scale)
            break;
        if (flips_at(search, number, middle))
            other = middle;
        else
            same = middle;
    }
    *number = from;
    *ret_to = other;
    return found;
}

static void keep_smaller(struct eval_change *best, const struct eval_change *change)
{
    if (best->input == EVAL_INPUT_COUNT || change->relative < best->relative)
        *best = *change;
}

static void search_input(const struct search *search, enum eval_input input,
                         struct eval_change *best)
{
    double from = column_of(search->one, input)[0];

    if (!(from >= 0) || !isfinite(from) || ranges[input].most <= 0 || from < ranges[input].least)
        return;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct eval_change change = {.input = input, .from = from};
        if (!search_direction(search, input, sign, &change.to))
            continue;
        change.relative = fabs(change.to - from) / fmax(from, ranges[input].scale);
        keep_smaller(best, &change);
    }
}

static void search_flags(const struct search *search, struct eval_change *best)
{
    static const uint32_t flags[] = {EVAL_FLAG_ACTIVE, EVAL_FLAG_STORAGE_DOWN, EVAL_FLAG_NOT_AUTO,
                                     EVAL_FLAG_WALLTIME_DONE};

    for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
        struct eval_change change = {
            .input = EVAL_INPUT_FLAGS, .flag = flags[i], .relative = FLIP_FLAG_SIZE};
        if ((search->one->flags[0] & flags[i]) == 0)
            continue; /* raising a guard is no advice */
        search->one->flags[0] &= ~flags[i];
        if (verdict_flips(search))
            keep_smaller(best, &change);
        search->one->flags[0] |= flags[i];
    }
}

bool eval_smallest_change(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                          struct eval_change *ret_change)
{
    return eval_smallest_change_guarded(policy, view, i, NULL, ret_change);
}

bool eval_smallest_change_guarded(const struct eval_policy *policy, const struct eval_view *view,
                                  size_t i, eval_passes_fn *passes, struct eval_change *ret_change)
{
    struct eval_change best = {.input = EVAL_INPUT_COUNT};
    struct eval_view one;
    struct search search = {.policy = policy, .one = &one, .passes = passes};

    CHECK(i < view->count);
    eval_view_alloc(&one, 1);
    eval_view_copy_row(view, i, &one);
    search.fires =
        verdict_flips(&search); /* .fires is false until here: differs from it when it fires */
    search_flags(&search, &best);
    for (int input = 0; input < EVAL_INPUT_FLAGS; input++)
        search_input(&search, (enum eval_input)input, &best);
    eval_view_free(&one);
    if (best.input == EVAL_INPUT_COUNT)
        return false;
    *ret_change = best;
    return true;
}

void eval_change_apply(const struct eval_change *change, struct eval_view *view, size_t i)
{
    CHECK(i < view->count && change->input < EVAL_INPUT_COUNT);
    if (change->input == EVAL_INPUT_FLAGS)
        view->flags[i] &= ~change->flag;
    else
        column_of(view, change->input)[i] = change->to;
}
