/* An attempt until its application is asked: when it can be, where it is to write, and what the
 * journal has before anything is done. See attempt_end_step.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/job/attempt_end_step.h"
#include "src/base/check.h"

enum {
    WAITING_POLL_US = 100000,
    OPENING_POLL_US = 500000, /* it may take a minute, and each look goes through all of /proc */
    ATTACH_WAIT_US = 5000000, /* for ckpt-run to come; one that is there may restore for longer */
    HANDLER_WAIT_SHARE = 4    /* ...but of the order's timeout no more than a quarter */
};

const char attempt_exited[] = "the application ended before it had written its checkpoint";

/* Where the application writes, and under which name it is asked to. */
void attempt_set_directory(struct attempt *attempt, const struct ledger_entry *entry)
{
    CHECK(attempt->hint[0] != '\0');
    if (entry->staged[0] != '\0')
        snprintf(attempt->directory, sizeof(attempt->directory), "%s/%s", entry->path,
                 entry->staged);
    else
        snprintf(attempt->directory, sizeof(attempt->directory), "%s/out/%s",
                 entry->memory[0] != '\0' ? entry->memory : entry->work_dir, attempt->hint);
}

/* The journal first: from here on this (id, attempt) is used up, whatever happens to the agent. */
static void journal_attempt(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;
    struct ledger_entry *entry = step->entry;

    CHECK(attempt_awaits(attempt));
    entry->checkpoint_id = attempt->checkpoint_id;
    entry->attempt = attempt->attempt;
    entry->attempt_part = attempt->part;
    entry->phase = PHASE_ASKING;
    entry->asked_at_us = step->facts->now_us;
    entry->after = (uint32_t)attempt->after;
    entry->timeout_ms = attempt->timeout_ms;
    entry->longest_deferral_ms = attempt->longest_deferral_ms;
    entry->max_deferral_ms = attempt->max_deferral_ms;
    entry->deferred_ms = entry->deferred_until_us = 0;
    entry->granted_bytes_per_s = attempt->granted_bytes_per_s;
    attempt_keep_put(attempt, entry);
    entry->extended = attempt->extended;
    entry->responsive_reported = false;
    memcpy(entry->target_prefix, attempt->target_prefix, sizeof(entry->target_prefix));
    memcpy(entry->path, attempt->path, sizeof(entry->path));
    entry->barrier_told = BARRIER_UNTOLD;
    step->effects->commit = true;
}

static void begin_asking(const struct attempt_stepping *step)
{
    struct ledger_entry *entry = step->entry;

    CHECK(attempt_awaits(step->attempt));
    if (step->attempt->state == ATTEMPT_WAITING)
        entry->staged[0] = entry->memory[0] = '\0';
    journal_attempt(step);
    attempt_set_directory(step->attempt, entry);
    ranks_begin(entry, step->facts->ranks);
    attempt_move_to(step, ATTEMPT_ASKING);
    attempt_add_effect(step, EFFECT_ASK);
}

/* What this node or this destination cannot do is done as it always can be. */
static void settle_staging(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;

    CHECK(attempt->state == ATTEMPT_WAITING);
    if (!(attempt->staging == CKPT__V1__STAGING__STAGING_DIRECT && step->facts->takes_direct) &&
        !(attempt->staging == CKPT__V1__STAGING__STAGING_MEMORY && step->facts->memory[0] != '\0'))
        attempt->staging = CKPT__V1__STAGING__STAGING_LOCAL;
}

/* A memory that others have filled must cost nobody a checkpoint. */
static void write_local(const struct attempt_stepping *step, Ckpt__V1__Reason found,
                        const char *why)
{
    CHECK(step->attempt->staging == CKPT__V1__STAGING__STAGING_MEMORY);
    CHECK(!step->effects->reporting);
    step->attempt->staging = CKPT__V1__STAGING__STAGING_LOCAL;
    snprintf(step->effects->detail, sizeof(step->effects->detail), "%s", why);
    job_effect_add(step->effects, EFFECT_SAY_LOCAL)->reason = found;
}

/* As far as the last one tells how much it takes. */
static void check_memory(const struct attempt_stepping *step)
{
    uint64_t room = step->facts->memory_room, needed = step->entry->last_bytes;
    char detail[JOB_DETAIL_BYTES];

    if (step->attempt->staging != CKPT__V1__STAGING__STAGING_MEMORY || needed <= room)
        return;
    CHECK(step->attempt->state == ATTEMPT_WAITING);
    snprintf(detail, sizeof(detail),
             "the last checkpoint had %" PRIu64 " bytes here, and other jobs leave %" PRIu64
             " of memory.max_bytes",
             needed, room);
    write_local(step, CKPT__V1__REASON__REASON_NONE, detail);
}

static void begin_staging(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;
    struct ledger_entry *entry = step->entry;
    bool direct = attempt->staging == CKPT__V1__STAGING__STAGING_DIRECT;

    CHECK(attempt->state == ATTEMPT_WAITING);
    entry->staged[0] = entry->memory[0] = '\0';
    if (!direct)
        memcpy(entry->memory, step->facts->memory, sizeof(entry->memory));
    entry->rank_count = 0; /* as they are found when it is asked */
    journal_attempt(step);
    attempt_set_directory(attempt, entry);
    attempt->put_started = direct; /* something is at the destination */
    attempt_move_to(step, ATTEMPT_STAGING);
    attempt_add_effect(step, EFFECT_STAGE);
}

/* It can be asked: now, or as soon as there is a folder for it. */
static void begin_attempting(const struct attempt_stepping *step)
{
    struct attempt *attempt = step->attempt;

    CHECK(step->facts->ready == CKPT__V1__REASON__REASON_NONE);
    if (attempt->state == ATTEMPT_WAITING) {
        settle_staging(step);
        check_memory(step);
    }
    if (attempt->state == ATTEMPT_STAGED || attempt->staging == CKPT__V1__STAGING__STAGING_LOCAL)
        begin_asking(step);
    else
        begin_staging(step);
}

/* The tmpfs has less room than the agent had counted, since somebody wrote there. */
static void take_memory_full(const struct attempt_stepping *step, const char *why)
{
    struct ledger_entry *entry = step->entry;

    CHECK(entry->memory[0] != '\0' && entry->staged[0] == '\0');
    write_local(step, CKPT__V1__REASON__REASON_MEMORY_FULL, why);
    entry->memory[0] = '\0';
    attempt_keep_put(step->attempt, entry);
    attempt_set_directory(step->attempt, entry);
    step->effects->commit = true;
    attempt_move_to(step, ATTEMPT_STAGED);
    attempt_add_effect(step, EFFECT_ATTEMPT_LOOK);
}

/* Meanwhile its application may have ended, or become another one: it is looked at anew. */
void attempt_take_stage_ended(const struct attempt_stepping *step,
                              const struct attempt_event *event)
{
    if (step->attempt->state != ATTEMPT_STAGING)
        return; /* it was killed: ATTEMPT_PUT_ENDED tells */
    if (event->reason == CKPT__V1__REASON__REASON_MEMORY_FULL) {
        take_memory_full(step, event->text);
        return;
    }
    if (event->reason != CKPT__V1__REASON__REASON_NONE) {
        attempt_fail(step, event->reason, event->text);
        return;
    }
    CHECK((event->text[0] != '\0') == (step->entry->memory[0] == '\0'));
    snprintf(step->entry->staged, sizeof(step->entry->staged), "%s", event->text);
    step->effects->commit = true;
    attempt_move_to(step, ATTEMPT_STAGED);
    attempt_add_effect(step, EFFECT_ATTEMPT_LOOK);
}

static void await_until(const struct attempt_stepping *step, Ckpt__V1__Reason reason,
                        const char *why, uint64_t until_us)
{
    CHECK(attempt_awaits(step->attempt) || step->attempt->state == ATTEMPT_DEFERRED);
    if (step->facts->now_us <= until_us)
        attempt_add_timer(step, step->facts->opening ? OPENING_POLL_US : WAITING_POLL_US);
    else
        attempt_fail(step, reason, why);
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A process without a handler may be a momentary one, at any time. What has none is told before
 * the broker takes it for unresponsive. One that is on its way to its loop has all of the time. */
static void await_handler(const struct attempt_stepping *step, Ckpt__V1__Reason reason,
                          const char *why)
{
    const struct attempt *attempt = step->attempt;
    uint64_t all_us = attempt->timeout_ms * 1000, share_us = all_us / HANDLER_WAIT_SHARE;
    uint64_t wait_us = share_us < ATTEMPT_HANDLER_WAIT_US ? share_us : ATTEMPT_HANDLER_WAIT_US;
    uint64_t from_us = attempt->seen_at_us;

    CHECK(reason != CKPT__V1__REASON__REASON_NONE);
    if (attempt->state == ATTEMPT_DEFERRED)
        from_us = later_of(from_us, step->entry->deferred_until_us);
    await_until(step, reason, why,
                step->facts->looking   ? UINT64_MAX
                : step->facts->opening ? from_us + all_us
                                       : later_of(from_us + wait_us, step->facts->started_us +
                                                                         ATTEMPT_HANDLER_WAIT_US));
}

/* Nothing is asked in the name of a run that it is not of; that one's ckpt-run may be about to
 * come. It comes while nothing is written only, so that a folder is not kept for it. */
void attempt_try_asking(const struct attempt_stepping *step)
{
    const struct attempt_facts *facts = step->facts;
    uint64_t attached_us = step->attempt->seen_at_us + ATTACH_WAIT_US;

    CHECK(attempt_awaits(step->attempt));
    if (facts->other_run)
        await_until(step, CKPT__V1__REASON__REASON_NOT_ATTACHED,
                    "an application of another run of the allocation runs here", attached_us);
    else if (facts->stopping)
        attempt_fail(step, facts->stop_reason, "the application is being stopped");
    else if (!facts->runs && step->attempt->state == ATTEMPT_STAGED)
        attempt_fail(step, CKPT__V1__REASON__REASON_APPLICATION_EXITED, attempt_exited);
    else if (!facts->runs)
        await_until(step, CKPT__V1__REASON__REASON_NOT_ATTACHED,
                    "no application of the allocation runs on this node",
                    facts->attached ? UINT64_MAX : attached_us);
    else if (step->entry->still !=
             STANDING_NOT) /* after the attempt before: it is about to go on */
        attempt_add_timer(step, WAITING_POLL_US);
    else if (facts->ready == CKPT__V1__REASON__REASON_NONE)
        begin_attempting(step);
    else
        await_handler(step, facts->ready, facts->text);
}

/* The answer to the question before was taken, so this one is another; the journal knows before it
 * is asked. */
void attempt_ask_again(const struct attempt_stepping *step)
{
    const struct attempt_facts *facts = step->facts;

    CHECK(step->attempt->state == ATTEMPT_DEFERRED);
    if (!facts->runs || facts->ready != CKPT__V1__REASON__REASON_NONE) {
        await_handler(step,
                      facts->runs ? facts->ready : CKPT__V1__REASON__REASON_APPLICATION_EXITED,
                      facts->runs ? facts->text : attempt_exited);
        return;
    }
    step->entry->phase = PHASE_ASKED;
    step->entry->barrier_told = BARRIER_UNTOLD;
    ranks_begin(step->entry, step->facts->ranks);
    step->effects->commit = true;
    attempt_move_to(step, ATTEMPT_ASKING);
    attempt_add_effect(step, EFFECT_ASK);
}

void attempt_begin_asked(const struct attempt_stepping *step)
{
    CHECK(step->attempt->state == ATTEMPT_ASKING || step->attempt->state == ATTEMPT_RESUMING);
    if (step->entry->phase == PHASE_ASKING) {
        attempt_begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED)->barrier =
            step->facts->barrier.takes_part;
        step->effects->since_us = step->entry->asked_at_us;
        step->entry->phase = PHASE_ASKED;
    }
    step->attempt->progress_taken = false;
    attempt_move_to(step, ATTEMPT_ASKED);
    attempt_add_timer(step, ASKED_POLL_US);
}

void attempt_take_unasked(const struct attempt_stepping *step, const struct attempt_event *event)
{
    if (step->attempt->state != ATTEMPT_ASKING)
        return;
    CHECK(event->reason != CKPT__V1__REASON__REASON_NONE);
    if (event->reason == CKPT__V1__REASON__REASON_WRITE_FAILED)
        attempt_add_effect(step, EFFECT_FOLDER_CLOSE); /* it may be another one by now */
    attempt_fail(step, event->reason, event->text);
}
