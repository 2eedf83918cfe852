/* How an attempt moves on, and how it ends. See attempt_end_step.h. */
#include "src/agent/job/attempt_end_step.h"

#include <stdio.h>

#include "src/agent/durable/kept.h"
#include "src/base/check.h"

void attempt_move_to(const struct attempt_stepping *step, enum attempt_state to)
{
    CHECK(attempt_move_allowed(step->attempt->state, to));
    step->attempt->state = to;
    attempt_check(step->attempt, step->entry);
}

void attempt_add_effect(const struct attempt_stepping *step, enum job_effect_kind kind)
{
    CHECK(kind >= EFFECT_ATTEMPT_TIMER);
    job_effect_add(step->effects, kind);
}

void attempt_add_timer(const struct attempt_stepping *step, uint64_t delay_us)
{
    CHECK(step->attempt->state != ATTEMPT_NONE);
    CHECK(!attempt_state_cleans(step->attempt->state));
    job_effect_add(step->effects, EFFECT_ATTEMPT_TIMER)->delay_us = delay_us;
}

Ckpt__V1__AgentReport *attempt_begin_report(const struct attempt_stepping *step,
                                            Ckpt__V1__ReportKind kind)
{
    Ckpt__V1__AgentReport *report = job_report_begin(step->effects, kind, step->attempt->run);

    CHECK(step->attempt->state != ATTEMPT_NONE);
    CHECK(step->attempt->state != ATTEMPT_HALTING);
    CHECK(step->attempt->state != ATTEMPT_ABANDONING);
    report->checkpoint_id = step->attempt->checkpoint_id;
    report->attempt = step->attempt->attempt;
    return report;
}

/* ---- ends ---- */

/* The attempt is used up and its end is known to the journal in one step. */
void attempt_use_up(const struct attempt_stepping *step)
{
    CHECK(step->attempt->checkpoint_id >= step->entry->checkpoint_id);
    CHECK(step->effects->reporting);
    step->entry->checkpoint_id = step->attempt->checkpoint_id;
    step->entry->attempt = step->attempt->attempt;
    step->entry->phase = PHASE_ENDED;
}

void attempt_tell_outcome(const struct attempt_stepping *step)
{
    const struct attempt_outcome *outcome = &step->attempt->outcome;
    Ckpt__V1__AgentReport *report = attempt_begin_report(step, outcome->kind);

    CHECK(outcome->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED ||
          outcome->kind == CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING);
    report->reason = outcome->reason;
    report->stall_ms = step->attempt->stall_ms;
    job_report_detail(step->effects, outcome->detail);
    attempt_use_up(step);
    if (outcome->kind != CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED)
        return;
    kept_failed(step->entry, outcome->reason, outcome->detail, step->facts->wall_ms);
    attempt_add_effect(step, EFFECT_SAY_FAILED);
}

void attempt_end(const struct attempt_stepping *step)
{
    CHECK(step->entry->phase == PHASE_ENDED);
    attempt_add_effect(step, EFFECT_ATTEMPT_TIMER_STOP);
    attempt_move_to(step, ATTEMPT_NONE);
    attempt_add_effect(step, EFFECT_ATTEMPT_ENDED);
}

void attempt_stop_asking(const struct attempt_stepping *step)
{
    CHECK(step->attempt->state != ATTEMPT_NONE);
    attempt_add_effect(step, EFFECT_UNWATCH);
    attempt_add_effect(step, EFFECT_HANG_UP);
    attempt_add_effect(step, EFFECT_ATTEMPT_TIMER_STOP);
    attempt_add_effect(step, EFFECT_CLEAR);
}

/* What the destination keeps in spite of this is a temporary folder that no restore ever reads; the
 * next put of this node for the allocation, of whatever checkpoint, or the collection of this one
 * removes it. So an unreachable destination does not hold the report back. */
void attempt_clean_up(const struct attempt_stepping *step, enum attempt_state to)
{
    CHECK(attempt_state_cleans(to));
    attempt_move_to(step, to);
    attempt_add_effect(step, to == ATTEMPT_HALTING      ? EFFECT_PUT_KILL
                             : to == ATTEMPT_ABANDONING ? EFFECT_ABANDON
                                                        : EFFECT_REMOVE);
}

/* What failed, or is withdrawn, is told when nothing of it is left. */
void attempt_finish(const struct attempt_stepping *step, const struct attempt_outcome *outcome,
                    bool worker_runs)
{
    struct attempt *attempt = step->attempt;

    CHECK(!worker_runs || attempt->state == ATTEMPT_PUTTING || attempt->state == ATTEMPT_STAGING);
    CHECK(attempt->state != ATTEMPT_NONE);
    CHECK(!attempt_state_cleans(attempt->state));
    attempt->outcome = *outcome;
    if (attempt->state == ATTEMPT_WAITING) {
        attempt_tell_outcome(step);
        attempt_end(step);
        return;
    }
    attempt_let_go(step);
    attempt_stop_asking(step);
    attempt_clean_up(step, worker_runs            ? ATTEMPT_HALTING
                           : attempt->put_started ? ATTEMPT_ABANDONING
                                                  : ATTEMPT_REMOVING);
}

void attempt_fail(const struct attempt_stepping *step, Ckpt__V1__Reason reason, const char *detail)
{
    struct attempt_outcome outcome = {.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED,
                                      .reason = reason};

    CHECK(reason != CKPT__V1__REASON__REASON_NONE);
    snprintf(outcome.detail, sizeof(outcome.detail), "%s", detail);
    attempt_finish(step, &outcome, false);
}
