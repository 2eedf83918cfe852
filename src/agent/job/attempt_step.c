/* One checkpoint attempt of a job as a pure state machine. See attempt_step.h. */
#include "src/agent/job/attempt_end_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/durable/kept.h"
#include "src/base/check.h"

enum {
    BROKEN_WAIT_US = 500000,
    UNFINISHED_WAIT_US = 3000000, /* for the rest of a sentinel that is not made by rename */
    TOLD_MAX = 8
};

/* ---- waiting for the application ---- */

/* An application that tells nothing may compute on until it comes to save, or while it saves. */
static void take_stall(const struct attempt_stepping *step, uint64_t told_ms)
{
    struct attempt *attempt = step->attempt;

    CHECK(step->entry->allocation_id[0] != '\0');
    attempt->stall_told = told_ms != 0;
    attempt->stall_ms =
        told_ms != 0 ? told_ms : attempt_stall_ms(attempt, step->entry, step->facts->now_us);
}

static void take_sentinel(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;
    const struct sentinel *sentinel = &step->facts->sentinel;
    char detail[JOB_DETAIL_BYTES];

    CHECK(step->entry->rank_count == 0);
    CHECK(step->facts->answer == ASK_FINISHED);
    take_stall(step, sentinel->stall_ms);
    attempt->told_bytes = sentinel->bytes;
    attempt->saved_at_ms = sentinel->saved_at_ms;
    memcpy(attempt->label, sentinel->label, sizeof(attempt->label));
    if (strcmp(sentinel->status, "0") == 0) {
        if (ranks_step_missing(step->entry, sentinel->label, detail))
            attempt_fail(step, CKPT__V1__REASON__REASON_STEP_MISMATCH, detail);
        else
            attempt_take_written(step);
        return;
    }
    snprintf(detail, sizeof(detail), "%s%.170s",
             step->facts->by_command ? "" : "the application says status=", sentinel->status);
    attempt_fail(step, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, detail);
}

static void take_all_done(const struct attempt_stepping *step, const struct ranks_outcome *outcome)
{
    struct attempt *attempt = step->attempt;

    CHECK(outcome->verdict == RANKS_DONE);
    take_stall(step, outcome->stall_ms);
    attempt->told_bytes = outcome->bytes;
    attempt->saved_at_ms = outcome->saved_at_ms;
    memcpy(attempt->label, outcome->label, sizeof(attempt->label));
    attempt_take_written(step);
}

/* What is there lacks something; false: it has had its time. */
static bool may_be_finished(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;

    CHECK(attempt->unfinished_us <= step->facts->now_us);
    if (attempt->unfinished_us == 0)
        attempt->unfinished_us = step->facts->now_us;
    return step->facts->now_us - attempt->unfinished_us < UNFINISHED_WAIT_US;
}

/* As look_for_sentinel(), of a job whose ranks are known. */
static bool look_for_ranks(const struct attempt_stepping *step)
{
    struct ranks_outcome outcome;

    CHECK(step->entry->rank_count > 0);
    ranks_judge(step->entry, step->facts->answers, step->facts->runs, &outcome);
    switch (outcome.verdict) {
    case RANKS_AWAITED:
        step->attempt->unfinished_us = 0;
        return false;
    case RANKS_UNFINISHED:
        if (may_be_finished(step))
            return false;
        outcome.reason = CKPT__V1__REASON__REASON_APPLICATION_REFUSED;
        break;
    case RANKS_FAILED:
        break;
    case RANKS_DONE:
        take_all_done(step, &outcome);
        return true;
    }
    attempt_fail(step, outcome.reason, outcome.text);
    return true;
}

/* True when the sentinel was there, and when what is there will never be one. */
static bool look_for_sentinel(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;

    CHECK(!attempt_state_cleans(attempt->state));
    if (step->facts->answers != NULL)
        return look_for_ranks(step);
    switch (step->facts->answer) {
    case ASK_NOTHING_YET:
        attempt->unfinished_us = 0;
        return false;
    case ASK_UNFINISHED:
        if (may_be_finished(step))
            return false;
        break;
    case ASK_WRONG:
        break;
    case ASK_FINISHED:
        take_sentinel(step);
        return true;
    }
    attempt_fail(step, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, step->facts->text);
    return true;
}

/* Ranks are named here: the state's own deadline, which is a little later, knows none. Those who
 * wait for a step that others do not come to are not at fault: the node of these others tells. */
static bool out_of_time(const struct attempt_stepping *step)
{
    const struct ledger_entry *entry = step->entry;
    const struct barrier_facts *barrier = &step->facts->barrier;
    bool agreed = !barrier->takes_part || step->attempt->agreed_step != 0;
    char detail[JOB_DETAIL_BYTES];

    CHECK(step->attempt->state == ATTEMPT_ASKED);
    if (entry->rank_count == 0 || (barrier->aware && !agreed) ||
        step->facts->now_us - entry->asked_at_us < step->attempt->timeout_ms * 1000)
        return false;
    if (agreed)
        ranks_name_silent(entry, detail);
    else
        snprintf(detail, sizeof(detail),
                 "of %" PRIu32 " ranks on this node these have not come to a step: %s",
                 entry->rank_count, barrier->awaited);
    attempt_fail(step, CKPT__V1__REASON__REASON_CHECKPOINT_TIMEOUT, detail);
    return true;
}

/* In the last half of the timeout. An agent does not look at what lies elsewhere, where each look
 * may hang: who writes there is taken to go on. */
static bool goes_on(const struct attempt_stepping *step)
{
    const struct attempt *attempt = step->attempt;

    CHECK(attempt->state == ATTEMPT_ASKED || attempt->state == ATTEMPT_PUTTING);
    return attempt->state == ATTEMPT_PUTTING || attempt_elsewhere(step->entry) ||
           attempt_told_progress(attempt, step->entry) || step->facts->growth != attempt->progress;
}

/* Once while its files are on their way: a deadline that passes then is not the application's. */
static bool tells_answered(const struct attempt_stepping *step)
{
    return step->attempt->state == ATTEMPT_PUTTING && !step->attempt->answer_told;
}

/* P-040: who has written in the last half of the timeout, or has written all and is being copied,
 * gets the one extension. */
static void watch_progress(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;
    uint64_t now_us = step->facts->now_us;
    Ckpt__V1__AgentReport *report;

    CHECK(attempt->state == ATTEMPT_ASKED || attempt->state == ATTEMPT_PUTTING);
    if (!attempt_may_be_extended(attempt, step->entry) && !tells_answered(step))
        return;
    if (attempt->state == ATTEMPT_ASKED && !attempt->progress_taken &&
        attempt_second_half(attempt, step->entry, now_us)) {
        attempt->progress_taken = true;
        attempt->progress = step->facts->growth;
    }
    if (!attempt_near_the_end(attempt, step->entry, now_us))
        return;
    if (!goes_on(step))
        return;
    report = attempt_begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_RESPONSIVE);
    attempt->answer_told = attempt->state == ATTEMPT_PUTTING;
    if (attempt->answer_told) /* 0 would be that it has not answered */
        report->stall_ms = attempt->stall_ms > 0 ? attempt->stall_ms : 1;
    step->entry->responsive_reported = true;
}

/* The journal has it together with the report: an agent that restarts asks again, at its time. */
static void defer_attempt(const struct attempt_stepping *step, uint64_t granted_ms)
{
    struct attempt *attempt = step->attempt;
    struct ledger_entry *entry = step->entry;

    CHECK(granted_ms > 0);
    entry->deferred_ms += granted_ms;
    deferral_count(&attempt->timeout_ms, &attempt->longest_deferral_ms, entry->deferred_ms);
    entry->timeout_ms = attempt->timeout_ms;
    entry->longest_deferral_ms = attempt->longest_deferral_ms;
    entry->deferred_until_us = step->facts->now_us + granted_ms * 1000;
    entry->phase = PHASE_DEFERRED;
    attempt_begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_DEFERRED)->deferral_ms =
        entry->deferred_ms;
    attempt_add_effect(step, EFFECT_UNWATCH);
    attempt_add_effect(step, EFFECT_WITHDRAW);
    attempt_move_to(step, ATTEMPT_DEFERRED);
    attempt_add_timer(step, granted_ms * 1000);
    attempt_add_effect(step, EFFECT_RECONCILE); /* it may have been hurried meanwhile */
}

/* What one of them has saved is of a step that the others will have left; NULL: none is done. */
static const struct ledger_rank *find_done(const struct ledger_entry *entry)
{
    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        if (entry->ranks[i].state == RANK_DONE)
            return &entry->ranks[i];
    }
    return NULL;
}

/* Nobody can tell it that what it was asked is put off: it would save twice under one hint, at the
 * end while that is copied. NULL: there is none. */
static const struct ledger_rank *find_signalled(const struct ledger_entry *entry)
{
    CHECK(entry->rank_count <= LEDGER_RANKS_MAX);
    for (uint32_t i = 0; i < entry->rank_count; i++) {
        if (entry->ranks[i].by != RANK_BY_STREAM)
            return &entry->ranks[i];
    }
    return NULL;
}

/* Why it is not put off; false: nothing speaks against it. */
static bool refuse_defer(const struct ledger_entry *entry, uint64_t granted_ms,
                         char ret_detail[JOB_DETAIL_BYTES])
{
    const struct ledger_rank *done = find_done(entry);
    const struct ledger_rank *signalled = find_signalled(entry);

    CHECK(entry->phase == PHASE_ASKED);
    if (done != NULL)
        snprintf(ret_detail, JOB_DETAIL_BYTES,
                 "a rank asked to be deferred after rank %" PRIu32 " was done", done->number);
    else if (signalled != NULL)
        snprintf(ret_detail, JOB_DETAIL_BYTES,
                 "a rank asked to be deferred, and rank %" PRIu32 " was asked by a signal and does "
                 "not hear of it: let all ranks use the library, or none defer",
                 signalled->number);
    else if (granted_ms == 0)
        snprintf(ret_detail, JOB_DETAIL_BYTES,
                 "the application asked to be deferred beyond max_deferral");
    else
        return false;
    return true;
}

static void take_defer(const struct attempt_stepping *step, uint64_t defer_ms)
{
    const struct ledger_entry *entry = step->entry;
    char detail[JOB_DETAIL_BYTES];
    uint64_t granted_ms;

    if (step->attempt->state != ATTEMPT_ASKED)
        return; /* it wrote a sentinel beside its call */
    CHECK(entry->deferred_ms <= entry->max_deferral_ms);
    attempt_add_effect(step, EFFECT_HANG_UP);
    attempt_add_effect(step, EFFECT_SOCKET_CLOSE);
    granted_ms = deferral_granted(defer_ms, entry->deferred_ms, entry->max_deferral_ms);
    if (step->facts->stopping) {
        attempt_fail(step, step->facts->stop_reason,
                     "the application is being stopped and asked for more time");
    } else if (refuse_defer(entry, granted_ms, detail)) {
        attempt_fail(step, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, detail);
    } else {
        defer_attempt(step, granted_ms);
    }
}

/* S1-040: in all, from the question on. Each report is replicated, so that only a word that is a
 * quarter longer is one more, and no more than TOLD_MAX of an attempt. */
static void take_estimate(const struct attempt_stepping *step, uint64_t estimate_ms)
{
    struct attempt *attempt = step->attempt;
    Ckpt__V1__AgentReport *report;
    uint64_t told_ms, begun_us;

    CHECK(estimate_ms > 0 && estimate_ms <= ATTEMPT_TOLD_MAX_MS);
    if (attempt->state != ATTEMPT_ASKED)
        return;
    begun_us = attempt_begun_us(step->entry);
    CHECK(step->facts->now_us >= begun_us);
    attempt->alive_us = step->facts->now_us;
    told_ms = (step->facts->now_us - begun_us) / 1000 + estimate_ms;
    if (told_ms > ATTEMPT_TOLD_MAX_MS)
        told_ms = ATTEMPT_TOLD_MAX_MS;
    if (attempt->told_count == TOLD_MAX ||
        told_ms <= attempt->told_write_ms + attempt->told_write_ms / 4)
        return;
    attempt->told_count++;
    attempt->told_write_ms = told_ms;
    report = attempt_begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED);
    report->barrier = step->facts->barrier.takes_part;
    report->told_write_ms = told_ms;
    step->effects->since_us = step->entry->asked_at_us;
}

static void take_broke(const struct attempt_stepping *step, const struct attempt_event *event)
{
    struct attempt_outcome *outcome = &step->attempt->outcome;

    if (step->attempt->state != ATTEMPT_ASKED)
        return;
    CHECK(event->reason != CKPT__V1__REASON__REASON_NONE);
    *outcome = (struct attempt_outcome){
        .kind = CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED, .reason = event->reason};
    memcpy(outcome->detail, event->text, sizeof(outcome->detail));
    attempt_add_effect(step, EFFECT_HANG_UP);
    attempt_move_to(step, ATTEMPT_BROKEN);
    attempt_add_timer(step, BROKEN_WAIT_US);
}

/* ---- the worker ---- */

static void take_removed(const struct attempt_stepping *step)
{
    CHECK(step->attempt->state == ATTEMPT_REMOVING);
    if (step->entry->phase != PHASE_ENDED)
        attempt_tell_outcome(step);
    /* not before: an agent that is killed would ask the same once more */
    attempt_add_effect(step, EFFECT_WITHDRAW);
    attempt_end(step);
}

/* ---- orders ---- */

static void begin_attempt(const struct attempt_stepping *step, uint64_t id, uint32_t number,
                          uint32_t part)
{
    CHECK(step->attempt->state == ATTEMPT_NONE);
    *step->attempt = (struct attempt){.state = ATTEMPT_NONE,
                                      .checkpoint_id = id,
                                      .attempt = number,
                                      .part = part,
                                      .seen_at_us = step->facts->now_us};
    hint_format(id, number, step->attempt->hint);
    attempt_add_effect(step, EFFECT_SOCKET_CLOSE); /* its application may listen anew */
}

static void take_order(const struct attempt_stepping *step, const Ckpt__V1__Order *order)
{
    struct attempt *attempt = step->attempt;

    CHECK(order->attempt != 0);
    CHECK(order->deferred_ms < order->timeout_ms);
    CHECK(order->checkpoint_id != 0);
    begin_attempt(step, order->checkpoint_id, order->attempt, order->part);
    attempt->run = order->run;
    attempt->after = order->after;
    attempt->timeout_ms = order->timeout_ms;
    attempt->longest_deferral_ms = order->deferred_ms;
    attempt->max_deferral_ms = order->max_deferral_ms;
    attempt->granted_bytes_per_s = order->granted_bytes_per_s;
    attempt_order_put(attempt, order);
    attempt->extended = order->extended;
    snprintf(attempt->target_prefix, sizeof(attempt->target_prefix), "%s", order->target_prefix);
    snprintf(attempt->path, sizeof(attempt->path), "%s", order->path);
    attempt_move_to(step, ATTEMPT_WAITING);
    attempt_add_effect(step, EFFECT_ATTEMPT_LOOK);
}

static void resume_attempt(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;
    const struct ledger_entry *entry = step->entry;
    uint64_t now_us = step->facts->now_us;

    CHECK(entry->phase != PHASE_NONE);
    begin_attempt(step, entry->checkpoint_id, entry->attempt, entry->attempt_part);
    attempt_set_directory(attempt, entry);
    attempt->run = entry->run;
    attempt->after = (Ckpt__V1__AfterCheckpoint)entry->after;
    attempt->said_us = now_us;
    attempt->timeout_ms = entry->timeout_ms;
    attempt->longest_deferral_ms = entry->longest_deferral_ms;
    attempt->granted_bytes_per_s = entry->granted_bytes_per_s;
    attempt_resume_put(attempt, entry);
    attempt->extended = entry->extended;
    memcpy(attempt->target_prefix, entry->target_prefix, sizeof(attempt->target_prefix));
    memcpy(attempt->path, entry->path, sizeof(attempt->path));
    if (entry->phase == PHASE_ENDED && entry->still == STANDING_STILL) {
        attempt_begin_still(step); /* until the first orders */
    } else if (kept_copy_making(step->entry) != NULL) {
        attempt_clean_up(step, ATTEMPT_REMOVING);
    } else if (entry->phase == PHASE_ENDED) {
        if (entry->work_dir[0] != '\0') /* the agent may have ended between report and removal */
            attempt_add_effect(step, EFFECT_SWEEP);
    } else if (entry->phase == PHASE_DEFERRED) {
        attempt_move_to(step, ATTEMPT_DEFERRED);
        attempt_add_timer(
            step, entry->deferred_until_us > now_us ? entry->deferred_until_us - now_us : 0);
    } else {
        attempt->put_started = true; /* perhaps: the worker died with the agent */
        attempt_move_to(step, ATTEMPT_RESUMING);
        attempt_add_effect(step, EFFECT_FOLDER_OPEN);
    }
}

/* What the application has done meanwhile is in its work folder. A request that is there may have
 * been followed by its signal, which is never sent twice; one that is gone was not written yet, or
 * withdrawn by an agent that ended before it could tell why. */
static void resume_asked(const struct attempt_stepping *step)
{
    const struct attempt_facts *facts = step->facts;

    CHECK(step->attempt->state == ATTEMPT_RESUMING);
    if (look_for_sentinel(step))
        return;
    if (step->entry->still != STANDING_NOT) {
        attempt_fail(step, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT,
                     "what the application had said is gone from its work folder");
    } else if (!facts->prepared) {
        attempt_fail(step, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT,
                     step->entry->phase == PHASE_ASKING
                         ? "the agent ended before it asked the application"
                         : "the agent ended while it withdrew what it had asked");
    } else if (!facts->runs) {
        attempt_fail(step, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT,
                     "the application ended while the agent was away");
    } else if (facts->lost != NULL) {
        attempt_fail(step, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT, facts->lost);
    } else {
        attempt_add_effect(step, EFFECT_HEAR_AGAIN);
        attempt_begin_asked(step);
    }
}

static void take_looked(const struct attempt_stepping *step)
{
    const struct attempt *attempt = step->attempt;

    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state == ATTEMPT_RESUMING && !step->facts->folder_opening)
        resume_asked(step);
    else if (attempt_awaits(attempt) || (attempt->state == ATTEMPT_DEFERRED &&
                                         step->entry->deferred_until_us <= step->facts->now_us))
        attempt_add_timer(step, 0);
}

static bool worker_runs(const struct attempt *attempt)
{
    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    return attempt->state == ATTEMPT_PUTTING || attempt->state == ATTEMPT_STAGING;
}

static void take_cancel(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;

    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state == ATTEMPT_NONE || attempt_state_cleans(attempt->state))
        return;
    if (attempt->state == ATTEMPT_STILL) {
        attempt_leave_still(step);
        return;
    }
    attempt_finish(
        step, &(struct attempt_outcome){.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING},
        worker_runs(attempt));
}

static void take_give_up(const struct attempt_stepping *step, Ckpt__V1__Reason reason)
{
    struct attempt *attempt = step->attempt;
    struct attempt_outcome outcome = {.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED,
                                      .reason = reason,
                                      .detail =
                                          "the checkpoint was not complete when the grace ended"};

    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state == ATTEMPT_NONE || attempt_state_cleans(attempt->state) ||
        step->facts->other_run)
        return;
    if (attempt->state == ATTEMPT_STILL) {
        attempt_leave_still(step);
        return;
    }
    attempt_finish(step, &outcome, worker_runs(attempt));
}

static void take_extend(const struct attempt_stepping *step, const Ckpt__V1__Order *order)
{
    struct attempt *attempt = step->attempt;
    struct ledger_entry *entry = step->entry;
    uint64_t timeout_ms = order->timeout_ms, longest_ms = order->deferred_ms;

    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state == ATTEMPT_NONE || attempt_state_cleans(attempt->state))
        return;
    deferral_count(&timeout_ms, &longest_ms, attempt->longest_deferral_ms);
    attempt->extended = order->extended;
    if (timeout_ms > attempt->timeout_ms) {
        attempt->timeout_ms = timeout_ms;
        attempt->longest_deferral_ms = longest_ms;
    }
    if (attempt->state == ATTEMPT_WAITING)
        return;
    entry->extended = order->extended;
    entry->timeout_ms = attempt->timeout_ms;
    entry->longest_deferral_ms = attempt->longest_deferral_ms;
    step->effects->commit = true;
}

static void take_hurry(const struct attempt_stepping *step, const Ckpt__V1__Order *order)
{
    struct ledger_entry *entry = step->entry;

    CHECK(order->max_deferral_ms == 0);
    take_extend(step, order);
    if (step->attempt->state != ATTEMPT_DEFERRED)
        return;
    entry->max_deferral_ms = entry->deferred_ms;
    if (entry->deferred_until_us > step->facts->now_us)
        entry->deferred_until_us = step->facts->now_us;
    attempt_ask_again(step);
}

static void take_changed_order(const struct attempt_stepping *step,
                               const struct attempt_event *event)
{
    CHECK(event->order != NULL);
    if (event->kind == ATTEMPT_EXTEND)
        take_extend(step, event->order);
    else if (event->kind == ATTEMPT_HURRY)
        take_hurry(step, event->order);
    else
        attempt_take_after(step, event->order);
}

/* ---- the step ---- */

static void take_gone(const struct attempt_stepping *step)
{
    struct attempt_outcome gone = {.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED,
                                   .reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED};

    snprintf(gone.detail, sizeof(gone.detail), "%s", attempt_exited);
    switch (step->attempt->state) {
    case ATTEMPT_WAITING:
    case ATTEMPT_STAGED:
        attempt_try_asking(step);
        return;
    case ATTEMPT_STAGING:
        attempt_finish(step, &gone, true);
        return;
    case ATTEMPT_ASKED:
    case ATTEMPT_BROKEN:
        if (look_for_sentinel(step))
            return;
        attempt_fail(step, CKPT__V1__REASON__REASON_APPLICATION_EXITED, attempt_exited);
        return;
    case ATTEMPT_ASKING:
    case ATTEMPT_DEFERRED:
        attempt_fail(step, CKPT__V1__REASON__REASON_APPLICATION_EXITED, attempt_exited);
        return;
    case ATTEMPT_FREEZING: /* all of it was written */
        attempt_begin_put(step);
        return;
    case ATTEMPT_STILL:
        attempt_clean_up(step, ATTEMPT_REMOVING);
        return;
    case ATTEMPT_NONE:
    case ATTEMPT_RESUMING:
    case ATTEMPT_PUTTING:
    case ATTEMPT_HALTING:
    case ATTEMPT_ABANDONING:
    case ATTEMPT_REMOVING:
    case ATTEMPT_STATE_COUNT:
        return;
    }
}

static void take_tick(const struct attempt_stepping *step)
{
    const struct attempt_outcome outcome = step->attempt->outcome;

    switch (step->attempt->state) {
    case ATTEMPT_WAITING:
    case ATTEMPT_STAGED:
        attempt_try_asking(step);
        return;
    case ATTEMPT_ASKED:
        if (look_for_sentinel(step) || out_of_time(step))
            return;
        if (!attempt_step_barrier(step))
            watch_progress(step);
        if (step->attempt->state != ATTEMPT_ASKED)
            return;
        attempt_add_timer(step, ASKED_POLL_US);
        return;
    case ATTEMPT_BROKEN:
        if (!look_for_sentinel(step))
            attempt_finish(step, &outcome, false);
        return;
    case ATTEMPT_PUTTING:
        watch_progress(step);
        attempt_add_timer(step, ASKED_POLL_US);
        attempt_say_still(step);
        return;
    case ATTEMPT_STILL:
        attempt_say_still(step);
        return;
    case ATTEMPT_DEFERRED:
        attempt_ask_again(step);
        return;
    case ATTEMPT_NONE:
    case ATTEMPT_STAGING:
    case ATTEMPT_ASKING:
    case ATTEMPT_RESUMING:
    case ATTEMPT_FREEZING:
    case ATTEMPT_HALTING:
    case ATTEMPT_ABANDONING:
    case ATTEMPT_REMOVING:
    case ATTEMPT_STATE_COUNT:
        return;
    }
}

static void take_changed(const struct attempt_stepping *step)
{
    CHECK(step->attempt->state < ATTEMPT_STATE_COUNT);
    if (step->attempt->state == ATTEMPT_ASKED || step->attempt->state == ATTEMPT_BROKEN)
        look_for_sentinel(step);
}

/* What comes of the folder for it, and of the question. */
static void take_asking(const struct attempt_stepping *step, const struct attempt_event *event)
{
    if (event->kind == ATTEMPT_STAGE_ENDED)
        attempt_take_stage_ended(step, event);
    else if (event->kind == ATTEMPT_UNASKED)
        attempt_take_unasked(step, event);
    else if (step->attempt->state == ATTEMPT_ASKING)
        attempt_begin_asked(step);
}

static void take_event(const struct attempt_stepping *step, const struct attempt_event *event)
{
    CHECK(event->kind <= ATTEMPT_GIVE_UP);
    switch (event->kind) {
    case ATTEMPT_START:
        take_order(step, event->order);
        return;
    case ATTEMPT_RESUME:
        resume_attempt(step);
        return;
    case ATTEMPT_CANCEL:
        take_cancel(step);
        return;
    case ATTEMPT_EXTEND:
    case ATTEMPT_HURRY:
    case ATTEMPT_AFTER:
        take_changed_order(step, event);
        return;
    case ATTEMPT_TICK:
        take_tick(step);
        return;
    case ATTEMPT_BARRIER:
        attempt_take_barrier(step, event->order);
        return;
    case ATTEMPT_CHANGED:
        take_changed(step);
        return;
    case ATTEMPT_LOOKED:
        take_looked(step);
        return;
    case ATTEMPT_STAGE_ENDED:
    case ATTEMPT_FIRED:
    case ATTEMPT_UNASKED:
        take_asking(step, event);
        return;
    case ATTEMPT_ALIVE:
        step->attempt->alive_us = step->facts->now_us;
        return;
    case ATTEMPT_ESTIMATE:
        take_estimate(step, event->estimate_ms);
        return;
    case ATTEMPT_DEFER:
        take_defer(step, event->defer_ms);
        return;
    case ATTEMPT_BROKE:
        take_broke(step, event);
        return;
    case ATTEMPT_FROZEN:
        attempt_take_frozen(step);
        return;
    case ATTEMPT_UNFROZEN:
        attempt_take_unfrozen(step, event->text);
        return;
    case ATTEMPT_THAWED:
        attempt_take_thawed(step);
        return;
    case ATTEMPT_PUT_ENDED:
        attempt_take_put(step, &event->put);
        return;
    case ATTEMPT_ABANDONED:
        attempt_clean_up(step, ATTEMPT_REMOVING);
        return;
    case ATTEMPT_REMOVED:
        take_removed(step);
        return;
    case ATTEMPT_GONE:
        take_gone(step);
        return;
    case ATTEMPT_GIVE_UP:
        take_give_up(step, event->reason);
        return;
    }
}

void attempt_step(struct attempt *attempt, struct ledger_entry *entry,
                  const struct attempt_event *event, const struct attempt_facts *facts,
                  struct job_effects *ret_effects)
{
    const struct attempt_stepping step = {attempt, entry, facts, ret_effects};

    CHECK(facts->now_us >= attempt->seen_at_us);
    job_effects_begin(ret_effects);
    take_event(&step, event);
    CHECK(!ret_effects->reporting || ret_effects->commit);
    attempt_check(attempt, entry);
}
