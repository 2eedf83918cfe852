/* The smallest single changes that would flip one job's decision, in words. See model.h.
 *
 * Flow     the job is copied into a view of one and scored again with one input changed; where the
 *          answer is monotone in that input the turning point is found by bisection.
 */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"
#include "src/eval/block.h"

enum { EXPLAIN_BISECTIONS = 60, EXPLAIN_DOUBLINGS = 60, DURATION_TEXT_BYTES = 32 };
#define EXPLAIN_AGE_MAX_S  (366 * 86400.0)
#define EXPLAIN_GROWTH_MAX 16.0 /* a change beyond this factor is no advice */

struct explain {
    const struct eval_policy *policy;
    struct eval_view one;     /* the job alone, inputs to be changed */
    struct eval_result score; /* of `one` */
    char *text;
    size_t size;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct explain *explain, const char *format,
                                                      ...)
{
    va_list arguments;
    int wanted;

    if (explain->used + 1 >= explain->size)
        return;
    va_start(arguments, format);
    wanted =
        vsnprintf(explain->text + explain->used, explain->size - explain->used, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        explain->used += (size_t)wanted < explain->size - explain->used
                             ? (size_t)wanted
                             : explain->size - explain->used - 1;
}

/* "45s", "12m", "3h11m", "2d04h"; rounded up so that the advice holds. */
static const char *duration_text(double seconds, char text[DURATION_TEXT_BYTES])
{
    unsigned long long s = seconds > 0 ? (unsigned long long)ceil(fmin(seconds, 1e12)) : 0;
    unsigned long long m = (s + 59) / 60;

    if (s < 120)
        snprintf(text, DURATION_TEXT_BYTES, "%llus", s);
    else if (m < 60)
        snprintf(text, DURATION_TEXT_BYTES, "%llum", m);
    else if (m < 24 * 60)
        snprintf(text, DURATION_TEXT_BYTES, "%lluh%02llum", m / 60, m % 60);
    else
        snprintf(text, DURATION_TEXT_BYTES, "%llud%02lluh", m / (24 * 60), m / 60 % 24);
    return text;
}

/* To three digits, upwards, so that the advice holds as printed. */
static double round_up(double number)
{
    double unit = number > DBL_MIN * 1e3 ? pow(10, floor(log10(number)) - 2) : 1;

    return ceil(number / unit) * unit;
}

static bool fires_now(struct explain *explain)
{
    eval_score(explain->policy, &explain->one, &explain->score);
    return eval_verdict_fires((enum eval_verdict)explain->score.verdict[0]);
}

/* Scores the copy with *input = value; the input stays changed. */
static bool fires_with(struct explain *explain, double *input, double value)
{
    *input = value;
    return fires_now(explain);
}

/* Between `no` (does not fire) and `yes` (fires): the value nearest to `no` that fires. Restores
 * the input. */
static double turning_point(struct explain *explain, double *input, double no, double yes)
{
    double given = *input;

    for (int i = 0; i < EXPLAIN_BISECTIONS; i++) {
        double middle = no + (yes - no) / 2;
        if (fires_with(explain, input, middle))
            yes = middle;
        else
            no = middle;
    }
    *input = given;
    return yes;
}

/* The smallest value above the given one that fires, found by doubling and bisection; negative when
 * none does. */
static double grow_until_fires(struct explain *explain, double *input, double step, double limit)
{
    double given = *input, no = given;

    for (int i = 0; i < EXPLAIN_DOUBLINGS && step <= limit; i++, step *= 2) {
        if (fires_with(explain, input, given + step)) {
            *input = given;
            return turning_point(explain, input, no, given + step);
        }
        no = given + step;
    }
    *input = given;
    return -1;
}

static void say_age(struct explain *explain)
{
    char needed_text[DURATION_TEXT_BYTES], in_text[DURATION_TEXT_BYTES];
    double age_s = explain->one.age_s[0];
    double needed_s = grow_until_fires(explain, &explain->one.age_s[0], 1, EXPLAIN_AGE_MAX_S);

    if (needed_s >= 0)
        say(explain, "last-checkpoint age >= %s (in %s)", duration_text(needed_s, needed_text),
            duration_text(needed_s - age_s, in_text));
    else
        say(explain, "no last-checkpoint age alone");
}

static void say_bandwidth(struct explain *explain)
{
    double *bandwidth = &explain->one.bandwidth_bytes_per_s[0];
    double given = *bandwidth;
    double needed =
        given > 0 ? grow_until_fires(explain, bandwidth, given / 16, given * EXPLAIN_GROWTH_MAX)
                  : -1;

    if (needed >= 0)
        say(explain, " | bandwidth >= %.3g GB/s (now %.3g)", round_up(needed / 1e9), given / 1e9);
}

static void say_waiting(struct explain *explain)
{
    double *waiting = &explain->one.waiting_gain_gpu_s[0];
    double needed, given = *waiting;

    if ((explain->one.flags[0] & EVAL_FLAG_STAYS) != 0 ||
        (explain->one.yield_probability[0] == 0 && explain->policy->pressure <= 0.5))
        return; /* nothing would be yielded however much waits */
    needed = grow_until_fires(explain, waiting, explain->one.gpus[0] + 1, 1e15);
    if (needed >= 0)
        say(explain, " | gain of waiting higher-class work >= %.3g GPU-s (now %.3g)",
            round_up(needed), given);
}

/* Away from what it is, to three digits, so that the advice holds as printed. */
static double round_away(double number, double from)
{
    double unit = number > DBL_MIN * 1e3 ? pow(10, floor(log10(number)) - 2) : 1;

    return number > from ? ceil(number / unit) * unit : floor(number / unit) * unit;
}

/* The smallest change, when it is none of those that are always told. */
static void say_smallest(struct explain *explain)
{
    struct eval_change change;

    if (!eval_smallest_change(explain->policy, &explain->one, 0, &change) ||
        change.input == EVAL_INPUT_FLAGS || change.input == EVAL_INPUT_age_s ||
        change.input == EVAL_INPUT_bandwidth_bytes_per_s ||
        change.input == EVAL_INPUT_waiting_gain_gpu_s)
        return;
    say(explain, "%s %s %.3g (now %.3g) | ", eval_input_name(change.input),
        change.to > change.from ? ">=" : "<=", round_away(change.to, change.from), change.from);
}

static void say_value_flip(struct explain *explain)
{
    say_smallest(explain);
    say_age(explain);
    say_bandwidth(explain);
    say_waiting(explain);
}

static void say_first_bad_input(struct explain *explain)
{
    if (!eval_policy_valid(explain->policy)) {
        say(explain, "every number of the policy is zero or more and below 1e30");
        return;
    }
#define X(column)                                                                                  \
    if (!(explain->one.column[0] >= 0 && explain->one.column[0] < EVAL_NUMBER_MAX) &&              \
        explain->one.column != explain->one.walltime_left_s) {                                     \
        say(explain, #column " is %g: it must be zero or more and below 1e30",                     \
            explain->one.column[0]);                                                               \
        return;                                                                                    \
    }
    EVAL_VIEW_COLUMNS(X)
#undef X
    say(explain, "walltime_left_s is a number, yield_probability and success_probability are "
                 "between 0 and 1");
}

/* A guard that is lifted is the whole answer only when the job would fire then. */
static void say_then(struct explain *explain)
{
    if (fires_now(explain))
        return;
    say(explain, "; then ");
    if (explain->score.verdict[0] == EVAL_SKIP_VALUE)
        say_value_flip(explain);
    else if (explain->score.verdict[0] == EVAL_SKIP_MIN_INTERVAL)
        say_age(explain);
    else
        say(explain, "%s", eval_verdict_name((enum eval_verdict)explain->score.verdict[0]));
}

static bool near_with(struct explain *explain, double left_s)
{
    explain->one.walltime_left_s[0] = left_s;
    eval_score(explain->policy, &explain->one, &explain->score);
    return explain->score.verdict[0] == EVAL_SKIP_NEAR_COMPLETION;
}

static void say_near_completion(struct explain *explain)
{
    char text[DURATION_TEXT_BYTES];
    double left_s = explain->one.walltime_left_s[0], given = fmax(left_s, -EXPLAIN_AGE_MAX_S);
    double near = 0, far = 1;

    while (far < EXPLAIN_AGE_MAX_S && near_with(explain, given + far))
        far *= 2;
    for (int i = 0; i < EXPLAIN_BISECTIONS; i++) {
        double middle = near + (far - near) / 2;
        if (near_with(explain, given + middle))
            near = middle;
        else
            far = middle;
    }
    say(explain, "walltime longer by %s", duration_text(far, text));
    explain->one.walltime_left_s[0] = given + far;
    say_then(explain);
    explain->one.walltime_left_s[0] = left_s;
}

/* What fires now: how much less age would not. */
static void say_fired_flip(struct explain *explain)
{
    char text[DURATION_TEXT_BYTES];
    double *age = &explain->one.age_s[0];
    double given = *age;

    if (fires_with(explain, age, 0)) {
        *age = given;
        say(explain, "no lower last-checkpoint age alone");
        return;
    }
    *age = given;
    say_smallest(explain);
    say(explain, "last-checkpoint age < %s",
        duration_text(turning_point(explain, age, 0, given), text));
}

static void say_guard(struct explain *explain, const char *lifted, uint32_t flag)
{
    say(explain, "%s", lifted);
    explain->one.flags[0] &= ~flag;
    say_then(explain);
    explain->one.flags[0] |= flag;
}

static void say_flip(struct explain *explain, enum eval_verdict verdict)
{
    switch (verdict) {
    case EVAL_SKIP_VALUE:
        say_value_flip(explain);
        return;
    case EVAL_SKIP_MIN_INTERVAL:
        say_age(explain);
        return;
    case EVAL_SKIP_ACTIVE:
        say_guard(explain, "its active checkpoint ends", EVAL_FLAG_ACTIVE);
        return;
    case EVAL_SKIP_STORAGE_DOWN:
        say_guard(explain, "its storage target takes writes again", EVAL_FLAG_STORAGE_DOWN);
        return;
    case EVAL_SKIP_STRATEGY:
        say_guard(explain, "its strategy is auto, and it runs on all its nodes",
                  EVAL_FLAG_NOT_AUTO);
        return;
    case EVAL_SKIP_BAD_INPUT:
        say_first_bad_input(explain);
        return;
    case EVAL_SKIP_NEAR_COMPLETION:
        say_near_completion(explain);
        return;
    case EVAL_SKIP_PACED:
        say(explain, "its storage target has room for it");
        return;
    case EVAL_CHECKPOINT_VALUE:
    case EVAL_CHECKPOINT_MAX_INTERVAL:
    case EVAL_CHECKPOINT_PERIOD:
    case EVAL_CHECKPOINT_WALLTIME:
        say_fired_flip(explain);
        return;
    case EVAL_CHECKPOINT_MOVE: /* never the model's */
    case EVAL_SKIP_QUOTA:
    case EVAL_VERDICT_COUNT:
        break;
    }
    CHECK_UNREACHABLE("a verdict out of range");
}

void eval_flip_text(const struct eval_policy *policy, const struct eval_view *view, size_t i,
                    const struct eval_result *result, char *ret_text, size_t size)
{
    struct explain explain = {.policy = policy, .text = ret_text, .size = size};

    CHECK(i < view->count && size > 0 && result->verdict[i] < EVAL_VERDICT_COUNT);
    ret_text[0] = '\0';
    eval_view_alloc(&explain.one, 1);
    eval_result_alloc(&explain.score, 1);
    eval_view_copy_row(view, i, &explain.one);
    say_flip(&explain, (enum eval_verdict)result->verdict[i]);
    eval_view_free(&explain.one);
    eval_result_free(&explain.score);
}
