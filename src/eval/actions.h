/* The best action for a job: the payoffs in GPU-seconds of continue, checkpoint, yield with or
 * without a checkpoint, migrate.
 *
 * Flow     the terms of eval_score() for one job, the gain of yielding, and its alarms ->
 *          eval_payoffs() -> the action of the highest net gain. Ties and NaN go to the earlier
 *          action, so that nothing is done without a reason.
 * Units    GPU-seconds; seconds; probabilities.
 * Errors   the net gain is minus infinity for an action that cannot be taken (storage down, no
 *          claim, no spare) or whose number is NaN.
 * Absent   the choice of several victims together: the state machine has its rules (class,
 *          placement, at most three).
 * Source   src/eval/README.md, "Actions".
 */
#ifndef CKPT_EVAL_ACTIONS_H
#define CKPT_EVAL_ACTIONS_H

#include <stdbool.h>

#define EVAL_ACTIONS(X)                                                                            \
    X(CONTINUE, "continue")                                                                        \
    X(CHECKPOINT, "checkpoint")                                                                    \
    X(CHECKPOINT_AND_YIELD, "checkpoint_and_yield")                                                \
    X(KILL_AND_YIELD, "kill_and_yield")                                                            \
    X(MIGRATE, "checkpoint_and_migrate")

enum eval_action {
#define X(name, text) EVAL_ACTION_##name,
    EVAL_ACTIONS(X)
#undef X
        EVAL_ACTION_COUNT
};
const char *eval_action_name(enum eval_action action);

#define EVAL_SITUATION_NUMBERS(X)                                                                  \
    X(double, gpus)                                                                                \
    X(double, age_s)       /* a: progress that is not saved */                                     \
    X(double, value_gpu_s) /* of a checkpoint, without what yielding gains */                      \
    X(double, cost_gpu_s)  /* of a checkpoint; infinite in an outage */                            \
    X(bool, guards_allow)  /* a checkpoint may be begun now */                                     \
    X(bool, yield_asked)   /* the scheduler names this job */                                      \
    X(double, claim_gpu_s) /* U: what the claimant gains when the nodes are free at once */        \
    X(double, claim_per_s) /* and loses per second that it waits: urgency x GPUs */                \
    X(double, stall_s)     /* c: how long the claimant would wait for a checkpoint */              \
    X(double, restart_s)   /* R */                                                                 \
    X(bool, spare)         /* a healthy node waits */                                              \
    X(double, alarm_p)     /* p_post: probability that an alarm's failure comes */                 \
    X(double, down_s)      /* D: how long a failure stops the job before it restarts */            \
    X(double, lost_s) /* work lost in the window until it would strike, checkpoints considered */

struct eval_situation {
#define X(type, number) type number;
    EVAL_SITUATION_NUMBERS(X)
#undef X
};

struct eval_payoffs {
    double net_gpu_s[EVAL_ACTION_COUNT];
    enum eval_action best;
};

void eval_payoffs(const struct eval_situation *situation, struct eval_payoffs *ret_payoffs);

/* The smallest relative change of one number that makes another action the best; a slightly smaller
 * change does not. False: none. */
struct eval_payoff_change {
    const char *number; /* as in EVAL_SITUATION_NUMBERS */
    double from, to;
    double relative;
};
bool eval_payoffs_smallest_change(const struct eval_situation *situation,
                                  struct eval_payoff_change *ret_change);

#endif
