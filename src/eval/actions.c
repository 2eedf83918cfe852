/* See actions.h. */
#include "src/eval/actions.h"

#include <math.h>
#include <stddef.h>

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

static double or_never(bool possible, double net_gpu_s)
{
    return possible && !isnan(net_gpu_s) ? net_gpu_s : -INFINITY;
}

/* U - G*R is Y of the model. The claimant waits while the checkpoint is written; the job itself stands still as long. */
static double yield_after_checkpoint(const struct eval_situation *s)
{
    return s->claim_gpu_s - s->gpus * s->restart_s - s->claim_per_s * s->stall_s - s->cost_gpu_s;
}

static double yield_at_once(const struct eval_situation *s)
{
    return s->claim_gpu_s - s->gpus * s->restart_s - s->gpus * s->age_s;
}

/* The failure that comes with alarm_p costs its downtime, a restart and the work lost; leaving costs a checkpoint and a restart. */
static double move_away(const struct eval_situation *s)
{
    double failure_s = s->down_s + s->restart_s + s->lost_s;

    return s->gpus * (s->alarm_p * failure_s - s->restart_s) - s->cost_gpu_s;
}

void eval_ledger(const struct eval_situation *situation, struct eval_ledger *ret_ledger)
{
    double *net = ret_ledger->net_gpu_s;
    bool may = situation->guards_allow;

    net[EVAL_ACTION_CONTINUE] = 0;
    net[EVAL_ACTION_CHECKPOINT] = or_never(may, situation->value_gpu_s - situation->cost_gpu_s);
    net[EVAL_ACTION_CHECKPOINT_AND_YIELD] =
        or_never(may && situation->yield_asked, yield_after_checkpoint(situation));
    net[EVAL_ACTION_KILL_AND_YIELD] = or_never(situation->yield_asked, yield_at_once(situation));
    net[EVAL_ACTION_MIGRATE] = or_never(may && situation->spare, move_away(situation));
    ret_ledger->best = EVAL_ACTION_CONTINUE;
    for (int action = 0; action < EVAL_ACTION_COUNT; action++) {
        if (net[action] > net[ret_ledger->best])
            ret_ledger->best = (enum eval_action)action;
    }
}
