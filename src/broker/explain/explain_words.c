/* Guards and changes of one evaluation in words with their numbers. See explain.h. Each guard is
 * one line: its name, whether it let the checkpoint pass, and what it was decided by. What would
 * flip the verdict is found by src/eval/flip.c; here are the rules that stand beside the model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fsm/pause.h"
#include "fsm/quota.h"
#include "src/base/check.h"
#include "src/base/id.h"
#include "src/base/number.h"
#include "src/broker/broker.h"
#include "src/broker/decide/evaluator.h"
#include "src/broker/decide/evaluator_view.h"
#include "src/broker/explain/explain.h"

#define PPM 1e6

const char *explain_number(double number, char text[32])
{
    snprintf(text, 32, "%.17g", number);
    return text;
}

/* The names are those of EVAL_FLAG_, in lower case. */
const char *explain_flags(uint32_t flags, char *text, size_t size)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } names[] = {{EVAL_FLAG_ACTIVE, "active"},
                 {EVAL_FLAG_STORAGE_DOWN, "storage_down"},
                 {EVAL_FLAG_NOT_AUTO, "not_auto"},
                 {EVAL_FLAG_WALLTIME_DONE, "walltime_done"},
                 {EVAL_FLAG_RECLAIMABLE, "reclaimable"},
                 {EVAL_FLAG_SENSITIVE, "sensitive"},
                 {EVAL_FLAG_UNHEALTHY, "unhealthy"},
                 {EVAL_FLAG_WAITING, "waiting"},
                 {EVAL_FLAG_STAYS, "stays"},
                 {EVAL_FLAG_DOUBTED, "doubted"},
                 {EVAL_FLAG_FIRST, "first"}};
    size_t used = 0;

    CHECK(size > 0);
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if ((flags & names[i].flag) == 0)
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", names[i].name);
        CHECK(used < size);
    }
    return text;
}

static const char *ok_or_blocks(bool ok)
{
    return ok ? "ok" : "blocks";
}

/* The verdict is not the model's: a guard that counts from the last attempt, which the model does
 * not know, overruled it. */
static bool is_overruled(const struct explained *explained)
{
    return explained->verdict == EVAL_SKIP_MIN_INTERVAL &&
           explained->result.verdict[0] != EVAL_SKIP_MIN_INTERVAL;
}

/* A decision of the log was made when the job answered, or was asked in spite of that: only the
 * last evaluation is of the job as it is. */
static bool is_unresponsive(const struct explained *explained)
{
    return explained->allocation->unresponsive &&
           explained->source == CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST;
}

/* Between the end of an attempt and the next periodic decision. */
static double attempt_interval_s(const struct explained *explained)
{
    if (is_unresponsive(explained))
        return (double)fsm_attempt_interval_ms(replica_fsm(explained->broker->replica),
                                               explained->allocation) /
               1e3;
    return (explained->view.flags[0] & EVAL_FLAG_SENSITIVE) != 0
               ? explained->policy.sensitive_min_interval_s
               : explained->policy.min_interval_s;
}

/* Since the end of the last attempt, at the evaluation; false: there was none by then, or another
 * one has ended since. */
static bool attempt_age_s(const struct explained *explained, double *ret_age_s)
{
    uint64_t end_ms = explained->allocation->last_attempt_end_ms;

    if (end_ms == 0 || end_ms > explained->evaluated_at_ms)
        return false;
    *ret_age_s = (double)(explained->evaluated_at_ms - end_ms) / 1e3;
    return true;
}

/* What the guard of the last attempt lets pass while it blocks: whatever is not periodic. */
static bool passes_attempt(const struct eval_view *one, enum eval_verdict verdict)
{
    return verdict_purpose(one, verdict, 0) != CKPT__V1__PURPOSE__PURPOSE_PERIODIC;
}

/* ... nor because of an alarm, where nobody answers. */
static bool passes_silence(const struct eval_view *one, enum eval_verdict verdict)
{
    return passes_attempt(one, verdict) &&
           verdict_purpose(one, verdict, 0) != CKPT__V1__PURPOSE__PURPOSE_PROACTIVE;
}

static eval_passes_fn *attempt_passes(const struct explained *explained)
{
    return is_unresponsive(explained) ? passes_silence : passes_attempt;
}

/* The last attempt, failed or complete, ended so shortly before that no periodic one could be
 * decided; so also not when the model's verdict turned. */
static bool attempt_holds(const struct explained *explained)
{
    double age_s;

    if (is_overruled(explained))
        return true;
    return attempt_age_s(explained, &age_s) && age_s < attempt_interval_s(explained) &&
           (!eval_verdict_fires(explained->verdict) ||
            attempt_passes(explained)(&explained->view, explained->verdict));
}

/* One checkpoint at a time; the end of a walltime may hurry one that waits. */
static void guard_active(const struct explained *explained, char *text)
{
    bool active = (explained->view.flags[0] & EVAL_FLAG_ACTIVE) != 0;
    char id[CHECKPOINT_ID_TEXT_BYTES];
    bool hurries = active && explained->result.verdict[0] == EVAL_CHECKPOINT_WALLTIME;
    const char *which = active ? "ended since" : "none";

    if (active && explained->source == CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST &&
        explained->allocation->active_checkpoint_id != 0)
        which = checkpoint_id_format(explained->allocation->active_checkpoint_id, id);
    snprintf(text, EXPLAIN_TEXT_BYTES, "one_active: %s (%s%s)", ok_or_blocks(!active || hurries),
             which, hurries ? ", which waited and is hurried" : "");
}

/* Once it is reached: whether the highest hazard that may be is worth a checkpoint, as the model
 * has it. */
static void guard_max_interval(const struct explained *explained, double max_s, char *text)
{
    uint32_t flags = explained->view.flags[0];
    double age_s = explained->view.age_s[0], certainty = explained->policy.certainty;
    double value = eval_result_value(&explained->result, 0);
    double cost = eval_result_cost(&explained->result, 0);
    bool always = certainty == 0 || (flags & (EVAL_FLAG_SENSITIVE | EVAL_FLAG_DOUBTED)) != 0;

    if (!(max_s > 0))
        snprintf(text, EXPLAIN_TEXT_BYTES, "max_interval: ok (none)");
    else if (age_s < max_s)
        snprintf(text, EXPLAIN_TEXT_BYTES, "max_interval: ok (%.1f s of %.1f s)", age_s, max_s);
    else if (always)
        snprintf(text, EXPLAIN_TEXT_BYTES, "max_interval: reached (%.1f s of %.1f s%s)", age_s,
                 max_s,
                 (flags & EVAL_FLAG_DOUBTED) != 0 ? "; its application died by itself before" : "");
    else
        snprintf(text, EXPLAIN_TEXT_BYTES,
                 "max_interval: %s (%.1f s of %.1f s; the hazard may be %.4g times what is "
                 "believed, and with that a checkpoint is %sworth it)",
                 value >= cost * certainty ? "reached" : "ok", age_s, max_s, 1 / certainty,
                 value >= cost * certainty ? "" : "not ");
}

/* The two smallest intervals and the largest one: between progress, between attempts, and at
 * most. */
static void guard_intervals(const struct explained *explained, char *min_text, char *attempt_text,
                            char *max_text)
{
    const struct eval_policy *policy = &explained->policy;
    bool own = (explained->view.flags[0] & EVAL_FLAG_SENSITIVE) != 0;
    double min_s = own ? policy->sensitive_min_interval_s : policy->min_interval_s;
    double max_s = own ? policy->sensitive_max_interval_s : policy->max_interval_s;
    bool first = (explained->view.flags[0] & EVAL_FLAG_FIRST) != 0;
    bool blocks = attempt_holds(explained) && !eval_verdict_fires(explained->verdict);
    double age_s = explained->view.age_s[0], attempt_s;

    if (first)
        min_s = fmax(min_s, explained->view.period_s[0]);
    snprintf(min_text, EXPLAIN_TEXT_BYTES,
             "min_interval: %s (%.1f s of progress at stake, at least %.1f s %s)",
             ok_or_blocks(!(age_s < min_s)), age_s, min_s,
             first ? "before the first one" : "between two");
    if (attempt_age_s(explained, &attempt_s))
        snprintf(
            attempt_text, EXPLAIN_TEXT_BYTES,
            "last_attempt: %s (ended %.1f s before, at least %.1f s between two periodic ones%s)",
            ok_or_blocks(!blocks), attempt_s, attempt_interval_s(explained),
            is_unresponsive(explained) ? ", the longer the oftener it did not answer" : "");
    else
        snprintf(attempt_text, EXPLAIN_TEXT_BYTES, "last_attempt: %s",
                 blocks ? "blocks (it ended shortly before)"
                 : explained->allocation->last_attempt_end_ms == 0
                     ? "ok (none)"
                     : "ok (its end then is not known any more)");
    guard_max_interval(explained, max_s, max_text);
}

/* Health never blocks; how old it is decides how much it is worth. */
static void guard_health(const struct explained *explained, char *text)
{
    uint32_t age_ms = explained->ages_ms[SOURCE_AGENTS];

    if (!explained->aged[SOURCE_AGENTS])
        snprintf(text, EXPLAIN_TEXT_BYTES, "health: ok (its age then is not known any more)");
    else if (age_ms == SOURCE_NOTHING)
        snprintf(text, EXPLAIN_TEXT_BYTES, "health: blind (not all of its nodes were heard of)");
    else
        snprintf(text, EXPLAIN_TEXT_BYTES, "health: ok (inputs %.0f s old)", age_ms / 1e3);
}

/* What is known is how it is now: a decision of the log had room. */
static void guard_quota(const struct explained *explained, char *text)
{
    char stored[NUMBER_TEXT_BYTES], limit[NUMBER_TEXT_BYTES], needs[NUMBER_TEXT_BYTES];
    struct fsm_quota quota;
    bool refuses =
        fsm_quota_refuses(replica_fsm(explained->broker->replica), explained->allocation, &quota);

    if (quota.max_bytes == 0 || explained->source != CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST)
        snprintf(text, EXPLAIN_TEXT_BYTES, "tenant_quota: ok (%s)",
                 quota.max_bytes == 0 ? "no limit" : "it was decided");
    else
        snprintf(text, EXPLAIN_TEXT_BYTES,
                 "tenant_quota: %s (tenant %.64s has %s stored and under way of %s, this one is "
                 "expected to take %s%s)",
                 ok_or_blocks(!refuses), explained->allocation->tenant,
                 number_format(NUMBER_SIZE, quota.stored_bytes + quota.running_bytes, stored),
                 number_format(NUMBER_SIZE, quota.max_bytes, limit),
                 number_format(NUMBER_SIZE, explained->allocation->size_estimate_bytes, needs),
                 refuses ? ": ckptctl tenants" : "");
}

/* As it is now: a decision of the log was taken. */
static void guard_pause(const struct explained *explained, char *text)
{
    const struct fsm_pause *pause = fsm_pause(replica_fsm(explained->broker->replica));
    uint64_t now_ms = replica_state_ms(explained->broker->replica);

    if (pause == NULL || explained->source != CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST)
        snprintf(text, EXPLAIN_TEXT_BYTES, "pause: ok (%s)",
                 pause == NULL ? "the cluster is not paused" : "it was decided");
    else
        snprintf(text, EXPLAIN_TEXT_BYTES,
                 "pause: blocks (the cluster is paused since %.0f s by %.64s: %.80s; ckptctl "
                 "cluster resume)",
                 now_ms > pause->since_ms ? (double)(now_ms - pause->since_ms) / 1e3 : 0, pause->by,
                 pause->reason);
}

/* With what its application told, while that counts. */
static void guard_storage(const struct explained *explained, char ret_text[EXPLAIN_TEXT_BYTES])
{
    const struct fsm_allocation *allocation = explained->allocation;
    bool down = (explained->view.flags[0] & EVAL_FLAG_STORAGE_DOWN) != 0;
    char told[96] = "";

    if (allocation != NULL && allocation->told_write_ms != 0 && allocation->learned.count == 0)
        snprintf(told, sizeof(told), "; its application says that it writes for %" PRIu64 " ms",
                 allocation->told_write_ms);
    snprintf(ret_text, EXPLAIN_TEXT_BYTES, "storage: %s (%.0f bytes/s usable%s)",
             ok_or_blocks(!down), down ? 0 : explained->view.bandwidth_bytes_per_s[0], told);
}

/* In the order in which people ask: the intervals, what is under way, storage, strategy, the end of
 * the job. */
void explain_guards(const struct explained *explained,
                    char ret_texts[EXPLAIN_GUARDS][EXPLAIN_TEXT_BYTES])
{
    const struct eval_view *view = &explained->view;
    uint32_t flags = view->flags[0];
    bool near = view->walltime_left_s[0] < explained->policy.near_completion_s;

    guard_intervals(explained, ret_texts[0], ret_texts[5], ret_texts[6]);
    guard_active(explained, ret_texts[1]);
    guard_storage(explained, ret_texts[2]);
    snprintf(ret_texts[3], EXPLAIN_TEXT_BYTES, "strategy: %s",
             flags & EVAL_FLAG_NOT_AUTO ? "blocks (not auto)" : "ok (auto)");
    if (isinf(view->walltime_left_s[0]))
        snprintf(ret_texts[4], EXPLAIN_TEXT_BYTES, "near_completion: ok (no walltime)");
    else
        snprintf(ret_texts[4], EXPLAIN_TEXT_BYTES,
                 "near_completion: %s (%.0f s left, protected below %.0f s)", ok_or_blocks(!near),
                 view->walltime_left_s[0], explained->policy.near_completion_s);
    guard_health(explained, ret_texts[7]);
    guard_quota(explained, ret_texts[8]);
    guard_pause(explained, ret_texts[9]);
}

/* A change of a millionfold or more is told as the largest. */
static uint64_t in_ppm(double share)
{
    return share < 1e12 ? (uint64_t)(share * PPM) : UINT64_C(1000000000000000000);
}

/* Others gain more per byte: no input of the job alone says when it is its turn. */
static void flip_paced(const struct explained *explained, char *ret_text, size_t size)
{
    double line, gain = decision_gain(&explained->view, &explained->result, 0);
    const struct fsm_target *target = /* NULL: the job has ended, and its target was removed */
        fsm_destination(replica_fsm(explained->broker->replica), explained->allocation);

    if (explained->source == CKPT__V1__EXPLAIN_SOURCE__EXPLAIN_SOURCE_LAST && target != NULL &&
        evaluator_admission_line(explained->broker->evaluator, target->slot, &line))
        snprintf(ret_text, size,
                 "its storage target has room for it, or it gains more than the least that was "
                 "admitted: %.6g GPU-s per GB against %.6g",
                 line * 1e9, gain * 1e9);
    else
        snprintf(ret_text, size, "its storage target has room for it");
}

/* Of what payoffs come from: the change of a checkpoint's verdict would not change the choice of
 * another action. */
static bool payoff_change(const struct explained *explained, struct explain_change *ret_change)
{
    struct eval_payoff_change change;

    if (!eval_payoffs_smallest_change(&explained->situation, &change))
        return false;
    ret_change->input = change.number;
    explain_number(change.from, ret_change->from);
    explain_number(change.to, ret_change->to);
    ret_change->relative_ppm = in_ppm(change.relative);
    return true;
}

/* The smallest single change of an input; the rules beside the model come first, since they stand
 * over it. */
bool explain_change(const struct explained *explained, struct explain_change *ret_change)
{
    struct eval_change change;
    double age_s, needed_s = attempt_interval_s(explained);

    memset(ret_change, 0, sizeof(*ret_change));
    if (explained->verdict == EVAL_SKIP_PACED || explained->verdict == EVAL_SKIP_QUOTA)
        return false;
    if (explained->has_payoffs)
        return payoff_change(explained, ret_change);
    if (explained->verdict == EVAL_CHECKPOINT_MOVE)
        return false; /* what payoffs came from is not known */
    if (is_overruled(explained)) {
        if (!attempt_age_s(explained, &age_s))
            return false;
        ret_change->input = "last_attempt_age_s";
        explain_number(age_s, ret_change->from);
        explain_number(needed_s, ret_change->to);
        ret_change->relative_ppm = in_ppm((needed_s - age_s) / fmax(age_s, 1e-3));
        return true;
    }
    if (!eval_smallest_change_guarded(&explained->policy, &explained->view, 0,
                                      attempt_holds(explained) ? attempt_passes(explained) : NULL,
                                      &change))
        return false;
    ret_change->input = eval_column_name(change.input);
    ret_change->cleared_flag = change.flag;
    ret_change->relative_ppm = in_ppm(change.relative);
    if (change.input == EVAL_INPUT_FLAGS) {
        explain_flags(change.flag, ret_change->cleared, sizeof(ret_change->cleared));
        change.from = explained->view.flags[0];
        change.to = explained->view.flags[0] & ~change.flag;
    }
    explain_number(change.from, ret_change->from);
    explain_number(change.to, ret_change->to);
    return true;
}

/* By how much the action was the best one. */
static void flip_payoffs(const struct eval_payoffs *payoffs, char *ret_text, size_t size)
{
    enum eval_action second = EVAL_ACTION_CONTINUE;

    for (int action = 0; action < EVAL_ACTION_COUNT; action++)
        if (action != (int)payoffs->best &&
            (second == payoffs->best || payoffs->net_gpu_s[action] > payoffs->net_gpu_s[second]))
            second = (enum eval_action)action;
    snprintf(ret_text, size, "%s (net %.6g GPU-s) is not better than %s (net %.6g GPU-s) any more",
             eval_action_name(payoffs->best), payoffs->net_gpu_s[payoffs->best],
             eval_action_name(second), payoffs->net_gpu_s[second]);
}

/* Returns how much was said. */
static size_t flip_attempt(const struct explained *explained, char *ret_text, size_t size)
{
    double age_s, needed_s = attempt_interval_s(explained);
    int said;

    if (attempt_age_s(explained, &age_s))
        said = snprintf(ret_text, size, "last attempt ended >= %.0f s before (in %.0f s)",
                        ceil(needed_s), ceil(fmax(needed_s - age_s, 0)));
    else
        said = snprintf(ret_text, size, "the last attempt ended longer before");
    CHECK(said >= 0 && (size_t)said < size);
    return (size_t)said;
}

/* The same in a sentence. */
void explain_flips(const struct explained *explained, char *ret_text, size_t size)
{
    size_t said = 0;

    if (explained->has_payoffs) {
        flip_payoffs(&explained->payoffs, ret_text, size);
        return;
    }
    if (explained->verdict == EVAL_SKIP_PACED) {
        flip_paced(explained, ret_text, size);
        return;
    }
    if (explained->verdict == EVAL_SKIP_QUOTA) {
        snprintf(ret_text, size, "its tenant has room for it below its limit of bytes");
        return;
    }
    if (explained->verdict == EVAL_CHECKPOINT_MOVE) {
        snprintf(ret_text, size, "moving it is not better than to stay any more");
        return;
    }
    if (attempt_holds(explained) && !eval_verdict_fires(explained->verdict))
        said = flip_attempt(explained, ret_text, size);
    if (is_overruled(explained))
        return;
    if (said > 0)
        said += (size_t)snprintf(ret_text + said, size - said, "; then ");
    CHECK(said < size);
    eval_flip_text(&explained->policy, &explained->view, 0, &explained->result, ret_text + said,
                   size - said);
}
