/* The part of an attempt that asks. See attempt_call.h. */
#include "src/agent/job/allocation.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/agent/job/attempt_call.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum { BROKEN_WAIT_US = 500000, DEFERRALS_MAX = 32, DEFERRAL_MIN_MS = 1000 };

static const struct clock_ops *clock_of(const struct allocation *allocation)
{
    return &allocation->agent->clock;
}

static void hang_up(struct attempt *attempt)
{
    attempt->ask->hang_up(attempt->call);
    attempt->call = NULL;
}

uint64_t deferral_granted(uint64_t asked_ms, uint64_t used_ms, uint64_t max_ms)
{
    uint64_t granted_ms = asked_ms;

    CHECK(used_ms <= max_ms);
    if (granted_ms < max_ms / DEFERRALS_MAX)
        granted_ms = max_ms / DEFERRALS_MAX;
    if (granted_ms < DEFERRAL_MIN_MS)
        granted_ms = DEFERRAL_MIN_MS;
    return granted_ms < max_ms - used_ms ? granted_ms : max_ms - used_ms;
}

void deferral_count(uint64_t *timeout_ms, uint64_t *longest_ms, uint64_t deferred_ms)
{
    if (deferred_ms <= *longest_ms)
        return;
    *timeout_ms += deferred_ms - *longest_ms;
    *longest_ms = deferred_ms;
}

static void call_alive(void *data)
{
    struct allocation *allocation = data;

    allocation->attempt.alive_us = agent_now_us(allocation->agent);
}

static void call_estimate(void *data, uint64_t estimate_ms)
{
    (void)estimate_ms;
    call_alive(data);
}

static void call_answered(void *data)
{
    struct allocation *allocation = data;

    if (allocation->attempt.state == ATTEMPT_ASKED)
        attempt_look_for_sentinel(allocation);
}

/* The journal first, together with the report: an agent that restarts asks again, at its time. */
static void attempt_defer(struct allocation *allocation, uint64_t granted_ms)
{
    struct attempt *attempt = &allocation->attempt;
    struct ledger_entry *entry = &allocation->entry;
    Ckpt__V1__AgentReport report;

    entry->deferred_ms += granted_ms;
    deferral_count(&attempt->timeout_ms, &attempt->longest_deferral_ms, entry->deferred_ms);
    entry->timeout_ms = attempt->timeout_ms;
    entry->longest_deferral_ms = attempt->longest_deferral_ms;
    entry->deferred_until_us = agent_now_us(allocation->agent) + granted_ms * 1000;
    entry->phase = PHASE_DEFERRED;
    attempt_report_prepare(attempt, &report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_DEFERRED;
    report.deferral_ms = entry->deferred_ms;
    allocation->agent->counters.deferrals++;
    allocation_commit(allocation, &report, 0);
    allocation_machine(allocation)->folder_watch_free(attempt->watch);
    attempt->watch = NULL;
    attempt_move(allocation, ATTEMPT_DEFERRED);
    clock_of(allocation)->timer_start(attempt->timer, granted_ms * 1000);
    agent_reconcile_soon(allocation->agent); /* it may have been hurried meanwhile */
}

static void call_deferred(void *data, uint64_t defer_ms)
{
    struct allocation *allocation = data;
    const struct ledger_entry *entry = &allocation->entry;
    uint64_t granted_ms;

    if (allocation->attempt.state != ATTEMPT_ASKED)
        return; /* it wrote a sentinel beside its call */
    hang_up(&allocation->attempt);
    user_path_close(&allocation->socket);
    granted_ms = deferral_granted(defer_ms, entry->deferred_ms, entry->max_deferral_ms);
    log_info("deferral", "allocation=%s hint=%s asked_ms=%" PRIu64 " granted_ms=%" PRIu64,
             entry->allocation_id, allocation->attempt.hint, defer_ms, granted_ms);
    if (process_stopping(allocation))
        attempt_fail(allocation, process_stop_reason(allocation),
                     "the application is being stopped and asked for more time");
    else if (granted_ms == 0)
        attempt_fail(allocation, CKPT__V1__REASON__REASON_APPLICATION_REFUSED,
                     "the application asked to be deferred beyond max_deferral");
    else
        attempt_defer(allocation, granted_ms);
}

static void call_broken(void *data, Ckpt__V1__Reason reason, const char *text)
{
    struct allocation *allocation = data;
    struct attempt *attempt = &allocation->attempt;

    if (attempt->state != ATTEMPT_ASKED)
        return;
    attempt->broken = true;
    attempt->outcome.reason = reason;
    snprintf(attempt->outcome.detail, sizeof(attempt->outcome.detail), "%s", text);
    hang_up(attempt);
    clock_of(allocation)->timer_start(attempt->timer, BROKEN_WAIT_US);
}

static const struct ask_events call_events = {.alive = call_alive,
                                              .estimate = call_estimate,
                                              .answered = call_answered,
                                              .deferred = call_deferred,
                                              .broken = call_broken};

bool attempt_call_broke(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    struct attempt_outcome outcome = attempt->outcome;

    if (!attempt->broken)
        return false;
    attempt_fail(allocation, outcome.reason, outcome.detail);
    return true;
}

int attempt_fire(struct allocation *allocation, struct err *err)
{
    struct attempt *attempt = &allocation->attempt;
    const struct ledger_entry *entry = &allocation->entry;
    const struct clock_ops *clock = clock_of(allocation);
    struct ask_target target = attempt_target(allocation);
    const struct ask_listener listener = {&call_events, allocation};
    uint64_t elapsed_ms = (agent_now_us(allocation->agent) - entry->asked_at_us) / 1000;
    struct ask_request request = {.checkpoint_id = attempt->checkpoint_id,
                                  .attempt = attempt->attempt,
                                  .hint = attempt->hint,
                                  .directory = attempt->directory,
                                  .deadline_ms = clock->wall_ms(clock->context) +
                                                 attempt->timeout_ms - elapsed_ms,
                                  .max_deferral_ms = entry->max_deferral_ms - entry->deferred_ms};

    CHECK(attempt->state == ATTEMPT_ASKED && attempt->call == NULL);
    attempt->broken = false;
    allocation->agent->counters.signals_sent++;
    return attempt->ask->fire(attempt->ask, &target, &request, &listener, &attempt->call, err);
}

/* The answer to the question before was taken, so this one is another; the journal knows before it is asked. */
void attempt_ask_again(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    char detail[ATTEMPT_DETAIL_BYTES];
    Ckpt__V1__Reason reason;
    struct err err = {0};

    CHECK(attempt->state == ATTEMPT_DEFERRED && attempt->call == NULL);
    reason = attempt_preflight(allocation, detail, sizeof(detail));
    if (reason != CKPT__V1__REASON__REASON_NONE) {
        attempt_await_handler(allocation, reason, detail);
        return;
    }
    allocation->entry.phase = PHASE_ASKED;
    allocation_commit(allocation, NULL, 0);
    attempt_move(allocation, ATTEMPT_ASKED);
    attempt_watch(allocation);
    if (attempt_fire(allocation, &err) != 0)
        attempt_fail(allocation, CKPT__V1__REASON__REASON_NOT_ATTACHED, err.text);
}

void attempt_resume_deferral(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    uint64_t now_us = agent_now_us(allocation->agent);
    uint64_t until_us = allocation->entry.deferred_until_us;

    attempt_move(allocation, ATTEMPT_DEFERRED);
    clock_of(allocation)->timer_start(attempt->timer, until_us > now_us ? until_us - now_us : 0);
}
