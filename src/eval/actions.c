/* See actions.h. */
#include "src/eval/actions.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "src/base/check.h"

const char *eval_action_name(enum eval_action action)
{
    static const char *const names[] = {
#define X(name, text) text,
        EVAL_ACTIONS(X)
#undef X
    };
    return (size_t)action < ARRAY_COUNT(names) ? names[action] : "unknown";
}

enum { CHANGE_DOUBLINGS = 60, CHANGE_BISECTIONS = 60 };

/* What may change, how far, and what a change is measured against when it is near 0. The number of
 * GPUs is none: it would be another job. */
static const struct changeable {
    const char *name;
    size_t offset;
    double most, scale;
} changeable[] = {
#define CHANGEABLE(number, most, scale)                                                            \
    {                                                                                              \
#number, offsetof(struct eval_situation, number), most, scale                              \
    }
    CHANGEABLE(age_s, 1e9, 600),        CHANGEABLE(value_gpu_s, 1e18, 3600),
    CHANGEABLE(cost_gpu_s, 1e18, 3600), CHANGEABLE(claim_gpu_s, 1e18, 3600),
    CHANGEABLE(claim_per_s, 1e9, 1),    CHANGEABLE(stall_s, 1e9, 60),
    CHANGEABLE(restart_s, 1e9, 60),     CHANGEABLE(alarm_p, 1, 0.05),
    CHANGEABLE(down_s, 1e9, 60),        CHANGEABLE(lost_s, 1e9, 600),
#undef CHANGEABLE
};

static double or_never(bool possible, double net_gpu_s)
{
    return possible && !isnan(net_gpu_s) ? net_gpu_s : -INFINITY;
}

/* U - G*R is Y of the model. The claimant waits while the checkpoint is written; the job itself
 * stands still as long. */
static double yield_after_checkpoint(const struct eval_situation *s)
{
    return s->claim_gpu_s - s->gpus * s->restart_s - s->claim_per_s * s->stall_s - s->cost_gpu_s;
}

static double yield_at_once(const struct eval_situation *s)
{
    return s->claim_gpu_s - s->gpus * s->restart_s - s->gpus * s->age_s;
}

/* The failure that comes with alarm_p costs its downtime, a restart and the work lost; leaving
 * costs a checkpoint and a restart. */
static double move_away(const struct eval_situation *s)
{
    double failure_s = s->down_s + s->restart_s + s->lost_s;

    return s->gpus * (s->alarm_p * failure_s - s->restart_s) - s->cost_gpu_s;
}

void eval_payoffs(const struct eval_situation *situation, struct eval_payoffs *ret_payoffs)
{
    double *net = ret_payoffs->net_gpu_s;
    bool may = situation->guards_allow;

    net[EVAL_ACTION_CONTINUE] = 0;
    net[EVAL_ACTION_CHECKPOINT] = or_never(may, situation->value_gpu_s - situation->cost_gpu_s);
    net[EVAL_ACTION_CHECKPOINT_AND_YIELD] =
        or_never(may && situation->yield_asked, yield_after_checkpoint(situation));
    net[EVAL_ACTION_KILL_AND_YIELD] = or_never(situation->yield_asked, yield_at_once(situation));
    net[EVAL_ACTION_MIGRATE] = or_never(may && situation->spare, move_away(situation));
    ret_payoffs->best = EVAL_ACTION_CONTINUE;
    for (int action = 0; action < EVAL_ACTION_COUNT; action++) {
        if (net[action] > net[ret_payoffs->best])
            ret_payoffs->best = (enum eval_action)action;
    }
}

static bool another_is_best(const struct eval_situation *situation, const struct changeable *what,
                            double value, enum eval_action best)
{
    struct eval_situation changed = *situation;
    struct eval_payoffs payoffs;

    memcpy((char *)&changed + what->offset, &value, sizeof(value));
    eval_payoffs(&changed, &payoffs);
    return payoffs.best != best;
}

/* Every net is linear in each number, so in one direction the best action turns for good where it
 * turns first: doubling steps, then bisection. */
static bool turning_point(const struct eval_situation *situation, const struct changeable *what,
                          enum eval_action best, double sign, double *ret_to)
{
    double from, same, other = 0, step;
    bool found = false;

    memcpy(&from, (const char *)situation + what->offset, sizeof(from));
    step = fmax(from, what->scale) / 64;
    same = from;
    for (int i = 0; i < CHANGE_DOUBLINGS && !found; i++, step *= 2) {
        other = fmin(fmax(from + sign * step, 0), what->most);
        found = another_is_best(situation, what, other, best);
        same = found ? same : other;
    }
    for (int i = 0; found && i < CHANGE_BISECTIONS; i++) {
        double middle = same + (other - same) / 2;

        if (another_is_best(situation, what, middle, best))
            other = middle;
        else
            same = middle;
    }
    *ret_to = other;
    return found;
}

bool eval_payoffs_smallest_change(const struct eval_situation *situation,
                                  struct eval_payoff_change *ret_change)
{
    struct eval_payoffs payoffs;
    bool found = false;

    eval_payoffs(situation, &payoffs);
    for (size_t i = 0; i < ARRAY_COUNT(changeable); i++) {
        struct eval_payoff_change change = {.number = changeable[i].name};

        memcpy(&change.from, (const char *)situation + changeable[i].offset, sizeof(change.from));
        if (!(change.from >= 0) || !isfinite(change.from))
            continue;
        for (int sign = -1; sign <= 1; sign += 2) {
            if (!turning_point(situation, &changeable[i], payoffs.best, sign, &change.to))
                continue;
            change.relative =
                fabs(change.to - change.from) / fmax(change.from, changeable[i].scale);
            if (!found || change.relative < ret_change->relative)
                *ret_change = change;
            found = true;
        }
    }
    return found;
}
