/* All is written: the application stands still where it is to end with the checkpoint, and the
 * worker copies. See attempt_end_step.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/durable/kept.h"
#include "src/agent/job/attempt_end_step.h"
#include "src/base/check.h"

enum { PUT_POLL_US = 200000, SAY_STILL_US = 10000000 };

/* Nothing is computed that the checkpoint does not have. */
static bool must_stand_still(const struct attempt_stepping *step)
{
    CHECK(step->entry->phase != PHASE_NONE);
    return step->entry->after > CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE &&
           step->facts->runs && !step->facts->stopping;
}

void attempt_begin_put(const struct attempt_stepping *step)
{
    step->attempt->put_started = true;
    attempt_move_to(step, ATTEMPT_PUTTING);
    attempt_add_timer(step, PUT_POLL_US);
    attempt_add_effect(step, EFFECT_PUT);
}

static void begin_freeze(const struct attempt_stepping *step)
{
    step->entry->still = STANDING_STILL;
    step->effects->commit = true;
    step->attempt->said_us = step->facts->now_us;
    attempt_add_effect(step, EFFECT_FREEZE);
}

/* All of it is written. The journal knows before anything stands still. */
void attempt_take_written(const struct attempt_stepping *step)
{
    step->attempt->done_at_us = step->facts->now_us;
    attempt_add_effect(step, EFFECT_UNWATCH);
    if (!must_stand_still(step)) {
        attempt_begin_put(step);
        return;
    }
    begin_freeze(step);
    attempt_move_to(step, ATTEMPT_FREEZING);
}

void attempt_take_after(const struct attempt_stepping *step, const Ckpt__V1__Order *order)
{
    struct attempt *attempt = step->attempt;

    CHECK(attempt->state < ATTEMPT_STATE_COUNT);
    if (attempt->state == ATTEMPT_NONE || attempt_state_cleans(attempt->state) ||
        order->after <= CKPT__V1__AFTER_CHECKPOINT__AFTER_CHECKPOINT_CONTINUE)
        return;
    attempt->after = order->after;
    if (attempt->state == ATTEMPT_WAITING)
        return; /* the journal has it when it is asked */
    step->entry->after = (uint32_t)order->after;
    step->effects->commit = true;
    if (attempt->state == ATTEMPT_PUTTING && step->entry->still == STANDING_NOT &&
        must_stand_still(step))
        begin_freeze(step);
}

void attempt_begin_still(const struct attempt_stepping *step)
{
    CHECK(step->entry->still == STANDING_STILL);
    attempt_move_to(step, ATTEMPT_STILL);
    attempt_add_timer(step, SAY_STILL_US);
}

void attempt_say_still(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;

    CHECK(attempt->state == ATTEMPT_PUTTING || attempt->state == ATTEMPT_STILL);
    if (step->entry->still == STANDING_STILL && step->facts->runs &&
        step->facts->now_us - attempt->said_us >= SAY_STILL_US) {
        attempt->said_us = step->facts->now_us;
        attempt_add_effect(step, EFFECT_SAY_STILL);
    }
    if (attempt->state == ATTEMPT_STILL)
        attempt_add_timer(step, SAY_STILL_US);
}

void attempt_take_frozen(const struct attempt_stepping *step)
{
    if (step->attempt->state != ATTEMPT_FREEZING)
        return;
    CHECK(step->entry->still == STANDING_STILL);
    attempt_begin_put(step);
}

void attempt_take_unfrozen(const struct attempt_stepping *step, const char *why)
{
    struct attempt_outcome outcome = {.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED,
                                      .reason = CKPT__V1__REASON__REASON_NOT_FROZEN};
    bool puts = step->attempt->state == ATTEMPT_PUTTING;

    if (step->attempt->state != ATTEMPT_FREEZING && !puts)
        return;
    CHECK(step->entry->still == STANDING_STILL);
    snprintf(outcome.detail, sizeof(outcome.detail), "%s", why);
    attempt_finish(step, &outcome, puts);
}

/* An agent that ends before this is written thaws it once more. */
void attempt_take_thawed(const struct attempt_stepping *step)
{
    CHECK(step->attempt->state != ATTEMPT_STILL);
    step->effects->commit = step->entry->still != STANDING_NOT;
    step->entry->still = STANDING_NOT;
}

/* The journal knows before it goes on: what computes again has its grace when it is to end. */
void attempt_let_go(const struct attempt_stepping *step)
{
    CHECK(step->entry->still <= STANDING_LET_GO);
    if (step->entry->still == STANDING_NOT)
        return;
    step->entry->still = STANDING_LET_GO;
    step->effects->commit = true;
    attempt_add_effect(step, EFFECT_THAW);
}

/* Its report is told: what is at the destination stays. */
void attempt_leave_still(const struct attempt_stepping *step)
{
    CHECK(step->attempt->state == ATTEMPT_STILL);
    attempt_add_effect(step, EFFECT_ATTEMPT_TIMER_STOP);
    attempt_let_go(step);
    attempt_clean_up(step, ATTEMPT_REMOVING);
}

/* ---- the worker has ended ---- */

static void take_verified(const struct attempt_stepping *step, const struct attempt_put *put)
{
    const struct attempt *attempt = step->attempt;
    uint64_t begun_us = attempt_begun_us(step->entry), now_us = step->facts->now_us;
    Ckpt__V1__AgentReport *report =
        attempt_begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED);

    uint64_t asked_ms =
        begun_us == 0 || begun_us > now_us ? 0 : step->facts->wall_ms - (now_us - begun_us) / 1000;
    /* files that were written before the question, by a program that a wrapper speaks for */
    uint64_t state_ms = attempt->saved_at_ms != 0 && attempt->saved_at_ms < asked_ms
                            ? attempt->saved_at_ms
                            : asked_ms;

    CHECK(attempt->state == ATTEMPT_PUTTING);
    ranks_check_done(step->entry);
    report->ranks = step->entry->rank_count > 0 ? step->entry->rank_count : 1;
    report->ranks_all = step->entry->ranks_all;
    for (uint32_t i = 0; i < step->entry->rank_count; i++)
        report->rank_print += rank_print(step->entry->ranks[i].number);
    memcpy(step->effects->label, attempt->label, sizeof(step->effects->label));
    report->size_bytes = put->size_bytes;
    report->written_bytes = put->written_bytes;
    report->staging = (Ckpt__V1__Staging)step->entry->staging;
    report->write_ms = put->write_ms;
    report->stall_ms = attempt->stall_ms;
    memcpy(step->effects->manifest, put->manifest_sha256, sizeof(step->effects->manifest));
    step->effects->since_us = begun_us;
    attempt_use_up(step);
    report->saved_before_ms = asked_ms > state_ms ? asked_ms - state_ms : 0;
    kept_verified(step->entry, put->size_bytes, state_ms);
    if (put->manifest_left && put->size_bytes <= step->facts->copy_max_bytes)
        kept_copy_begin(step->entry, put->size_bytes, put->manifest_sha256);
    attempt_add_effect(step, EFFECT_SAY_VERIFIED);
    attempt_stop_asking(step);
    if (step->entry->still == STANDING_STILL && step->facts->runs) {
        attempt_begin_still(step);
        return;
    }
    attempt_let_go(step); /* what is seen to live after all */
    attempt_clean_up(step, ATTEMPT_REMOVING);
}

void attempt_take_put(const struct attempt_stepping *step, const struct attempt_put *put)
{
    const struct attempt *attempt = step->attempt;
    char detail[JOB_DETAIL_BYTES];

    CHECK(attempt->state == ATTEMPT_PUTTING || attempt->state == ATTEMPT_HALTING);
    if (attempt->state == ATTEMPT_HALTING) {
        attempt_clean_up(step, attempt->put_started ? ATTEMPT_ABANDONING : ATTEMPT_REMOVING);
    } else if (!put->verified) {
        attempt_fail(step, put->reason, put->detail);
    } else if (put->size_bytes < attempt->told_bytes) {
        snprintf(detail, sizeof(detail),
                 "%" PRIu64 " bytes were said to be written, %" PRIu64 " are there",
                 attempt->told_bytes, put->size_bytes);
        attempt_fail(step, CKPT__V1__REASON__REASON_VERIFY_FAILED, detail);
    } else {
        take_verified(step, put);
    }
}
