/* One checkpoint attempt of an allocation. See attempt.h. */
#include "src/agent/job/attempt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/app/app_server.h"
#include "src/agent/durable/kept.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/attempt_call.h"
#include "src/agent/job/attempt_put.h"
#include "src/agent/run/words.h"
#include "src/ask/ask.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum {
    WAITING_POLL_US = 100000,
    ASKED_POLL_US = 200000,
    ATTACH_WAIT_US = 5000000,  /* for ckpt-run to come; one that is there may restore for longer */
    HANDLER_WAIT_US = 5000000, /* after its start and after the order */
    UNFINISHED_WAIT_US = 3000000, /* for the rest of a sentinel that is not made by rename */
    HANDLER_WAIT_SHARE = 4,       /* ...but of the order's timeout no more than a quarter */
    RESPONSIVE_LEAD_MAX_MS = 5000
};

bool attempt_busy(const struct attempt *attempt)
{
    return attempt->state != ATTEMPT_NONE;
}

bool attempt_writes(const struct attempt *attempt)
{
    return attempt->state != ATTEMPT_NONE && attempt->state != ATTEMPT_WAITING;
}

void attempt_move(struct allocation *allocation, enum attempt_state to)
{
    struct attempt *attempt = &allocation->attempt;

    CHECK(attempt_move_allowed(attempt->state, to));
    log_info("attempt", "allocation=%s hint=%s from=%s to=%s", allocation->entry.allocation_id,
             attempt->hint, attempt_state_name(attempt->state), attempt_state_name(to));
    attempt->state = to;
    attempt_check(attempt, &allocation->entry);
}

static const struct clock_ops *clock_of(const struct allocation *allocation)
{
    return &allocation->agent->clock;
}

struct ask_target attempt_target(struct allocation *allocation)
{
    struct asked *asked = &allocation->attempt.asked;

    *asked = (struct asked){.machine = allocation_machine(allocation),
                            .group = (pid_t)allocation->entry.pid,
                            .user = allocation_user(allocation),
                            .folder = allocation->folder.opened,
                            .registered = allocation->entry.endpoint[0] != '\0',
                            .socket = allocation->socket.opened,
                            .why = allocation->socket.why};
    return (struct ask_target){.node = &asked_node,
                               .context = asked,
                               .loop = allocation->agent->loop,
                               .group = asked->group,
                               .uid = asked->user.uid};
}

/* ---- ends ---- */

void attempt_report_prepare(const struct attempt *attempt, Ckpt__V1__AgentReport *report)
{
    ckpt__v1__agent_report__init(report);
    report->checkpoint_id = attempt->checkpoint_id;
    report->attempt = attempt->attempt;
    report->life = attempt->life;
}

/* The attempt is used up and its end is known to the journal in one step. */
static void attempt_report_end(struct allocation *allocation, Ckpt__V1__AgentReport *report,
                               uint64_t asked_at_us)
{
    struct attempt *attempt = &allocation->attempt;

    CHECK(!attempt->reported);
    attempt->reported = true;
    allocation->entry.checkpoint_id = attempt->checkpoint_id;
    allocation->entry.attempt = attempt->attempt;
    allocation->entry.phase = PHASE_ENDED;
    allocation_commit(allocation, report, asked_at_us);
}

/* When the application was told to begin, as far as it did not put it off. */
static uint64_t begun_at_us(const struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    return entry->deferred_until_us != 0 ? entry->deferred_until_us : entry->asked_at_us;
}

/* The application stood still until its sentinel came; 0: it has not come. */
static uint64_t stall_ms_of(const struct allocation *allocation)
{
    uint64_t asked_at_us = begun_at_us(allocation);
    uint64_t done_at_us = allocation->attempt.done_at_us;

    return asked_at_us > 0 && done_at_us > asked_at_us ? (done_at_us - asked_at_us) / 1000 : 0;
}

/* To the job's own output: its user reads no agent's log. */
static void say_failed(struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    char id[CHECKPOINT_ID_TEXT_BYTES], reason[WORDS_BYTES];

    app_stream_say(allocation->stream, "checkpoint %s was not taken (attempt %" PRIu32 "): %s%s%s",
                   checkpoint_id_format(attempt->checkpoint_id, id), attempt->attempt,
                   words_enum(&ckpt__v1__reason__descriptor, (int)attempt->outcome.reason, reason),
                   attempt->outcome.detail[0] != '\0' ? ": " : "", attempt->outcome.detail);
}

static void say_verified(struct allocation *allocation, const struct attempt_shard *shard)
{
    const struct attempt *attempt = &allocation->attempt;
    char id[CHECKPOINT_ID_TEXT_BYTES], size[WORDS_BYTES], took[WORDS_BYTES], stall[WORDS_BYTES];

    app_stream_say(allocation->stream,
                   "checkpoint %s: the part of this node, %s, is written and verified in %s at "
                   "%s/%s; the application stood still for %s",
                   checkpoint_id_format(attempt->checkpoint_id, id),
                   words_size(shard->size_bytes, size), words_duration(shard->write_ms, took),
                   attempt->path, allocation->agent->node_id,
                   words_duration(stall_ms_of(allocation), stall));
}

static void report_outcome(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    struct agent_counters *counters = &allocation->agent->counters;
    Ckpt__V1__AgentReport report;

    attempt_report_prepare(attempt, &report);
    report.kind = attempt->outcome.kind;
    report.reason = attempt->outcome.reason;
    report.detail = attempt->outcome.detail;
    report.stall_ms = stall_ms_of(allocation);
    if (report.kind == CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING)
        counters->checkpoints_abandoned++;
    else
        counters->checkpoints_failed++;
    if (report.kind == CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED)
        kept_failed(allocation);
    attempt_report_end(allocation, &report, 0);
    if (report.kind == CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED)
        say_failed(allocation);
}

static void attempt_end(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    CHECK(attempt->reported && attempt->worker == NULL && attempt->cleanup == NULL);
    clock_of(allocation)->timer_stop(attempt->timer);
    attempt_move(allocation, ATTEMPT_NONE);
    process_attempt_ended(allocation);
    allocation_rest(allocation);
    agent_reconcile_soon(allocation->agent);
}

static void attempt_cleaned(void *data)
{
    struct allocation *allocation = data;

    allocation->attempt.cleanup = NULL;
    if (!allocation->attempt.reported)
        report_outcome(allocation);
    attempt_end(allocation);
}

void attempt_clean_local(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct attempt *attempt = &allocation->attempt;
    const char *folders[] = {attempt->directory};

    CHECK(attempt->state == ATTEMPT_CLEANING);
    attempt->cleanup = machine->folders_remove(machine->context, allocation_user(allocation),
                                               folders, 1, attempt_cleaned, allocation);
}

static void stop_watching(struct allocation *allocation)
{
    struct ask_target target = attempt_target(allocation);

    allocation_machine(allocation)->folder_watch_free(allocation->attempt.watch);
    allocation->attempt.watch = NULL;
    allocation->attempt.ask->hang_up(allocation->attempt.call);
    allocation->attempt.call = NULL;
    clock_of(allocation)->timer_stop(allocation->attempt.timer);
    allocation->attempt.ask->clear(&target);
}

void attempt_finish(struct allocation *allocation, Ckpt__V1__ReportKind kind,
                    Ckpt__V1__Reason reason, const char *detail)
{
    struct attempt *attempt = &allocation->attempt;

    attempt->outcome = (struct attempt_outcome){.kind = kind, .reason = reason};
    snprintf(attempt->outcome.detail, sizeof(attempt->outcome.detail), "%s", detail);
    if (attempt->state == ATTEMPT_WAITING) {
        report_outcome(allocation);
        attempt_end(allocation);
        return;
    }
    stop_watching(allocation);
    attempt_move(allocation, ATTEMPT_CLEANING);
    attempt_clean(allocation);
}

void attempt_fail(struct allocation *allocation, Ckpt__V1__Reason reason, const char *detail)
{
    attempt_finish(allocation, CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED, reason,
                   detail);
}

void attempt_verified(struct allocation *allocation, const struct attempt_shard *shard)
{
    struct attempt *attempt = &allocation->attempt;
    Ckpt__V1__AgentReport report;
    char manifest[72];

    attempt_report_prepare(attempt, &report);
    snprintf(manifest, sizeof(manifest), "%s", shard->manifest_sha256);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED;
    report.size_bytes = shard->size_bytes;
    report.manifest_sha256 = manifest;
    report.write_ms = shard->write_ms;
    report.stall_ms = stall_ms_of(allocation);
    allocation->agent->counters.checkpoints_verified++;
    kept_verified(allocation, begun_at_us(allocation), shard->size_bytes);
    attempt_report_end(allocation, &report, begun_at_us(allocation));
    say_verified(allocation, shard);
    stop_watching(allocation);
    attempt_move(allocation, ATTEMPT_CLEANING);
    attempt_clean_local(allocation);
}

/* ---- asking ---- */

/* The work folder is known once the application is attached. */
static void attempt_set_directory(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    snprintf(attempt->directory, sizeof(attempt->directory), "%s/out/%s",
             allocation->entry.work_dir, attempt->hint);
}

static void entry_take_attempt(struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;
    struct ledger_entry *entry = &allocation->entry;

    entry->checkpoint_id = attempt->checkpoint_id;
    entry->attempt = attempt->attempt;
    entry->phase = PHASE_ASKING;
    entry->asked_at_us = agent_now_us(allocation->agent);
    entry->timeout_ms = attempt->timeout_ms;
    entry->longest_deferral_ms = attempt->longest_deferral_ms;
    entry->max_deferral_ms = attempt->max_deferral_ms;
    entry->deferred_ms = 0;
    entry->deferred_until_us = 0;
    entry->granted_bytes_per_s = attempt->granted_bytes_per_s;
    entry->extended = attempt->extended;
    entry->responsive_reported = false;
    snprintf(entry->target_prefix, sizeof(entry->target_prefix), "%s", attempt->target_prefix);
    snprintf(entry->path, sizeof(entry->path), "%s", attempt->path);
}

static void sentinel_changed(void *data);

void attempt_watch(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct attempt *attempt = &allocation->attempt;

    attempt->watch = machine->folder_watch(machine->context, allocation->folder.opened,
                                           sentinel_changed, allocation);
    attempt->progress_taken = false;
    clock_of(allocation)->timer_start(attempt->timer, ASKED_POLL_US);
}

static void report_started(struct allocation *allocation)
{
    Ckpt__V1__AgentReport report;

    attempt_report_prepare(&allocation->attempt, &report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED;
    allocation->entry.phase = PHASE_ASKED;
    allocation->agent->counters.checkpoints_started++;
    allocation_commit(allocation, &report, allocation->entry.asked_at_us);
}

/* The journal first: from here on this (id, attempt) is used up, whatever happens to the agent. */
static void attempt_ask(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    struct ask_target target = attempt_target(allocation);
    uint64_t wall_ms = clock_of(allocation)->wall_ms(clock_of(allocation)->context);
    struct ask_request request = {.hint = attempt->hint,
                                  .directory = attempt->directory,
                                  .deadline_ms = wall_ms + attempt->timeout_ms};
    struct err err = {0};

    attempt_set_directory(allocation);
    entry_take_attempt(allocation);
    allocation_commit(allocation, NULL, 0);
    attempt_move(allocation, ATTEMPT_ASKED);
    if (attempt->ask->prepare(&target, &request, &err) != 0) {
        user_path_close(&allocation->folder); /* it may be another one by now */
        attempt_fail(allocation, CKPT__V1__REASON__REASON_WRITE_FAILED, err.text);
        return;
    }
    attempt_watch(allocation);
    if (attempt_fire(allocation, &err) != 0) {
        attempt_fail(allocation, CKPT__V1__REASON__REASON_NOT_ATTACHED, err.text);
        return;
    }
    report_started(allocation);
}

static void attempt_set_ask(struct allocation *allocation)
{
    const struct ask_ops *ask = ask_find(allocation->entry.profile);

    CHECK(ask != NULL); /* checked when it was attached; "" before */
    allocation->attempt.ask = ask;
}

static bool attempt_of_other_life(const struct allocation *allocation)
{
    return allocation->attempt.state == ATTEMPT_WAITING &&
           allocation->process.state != PROCESS_ABSENT &&
           allocation_other_life(allocation, allocation->attempt.life);
}

/* Nothing is asked in the name of a life that it is not of; that one's ckpt-run may be about to come. */
static void attempt_await(struct allocation *allocation, const char *why)
{
    struct attempt *attempt = &allocation->attempt;

    if (agent_now_us(allocation->agent) - attempt->seen_at_us > ATTACH_WAIT_US)
        attempt_fail(allocation, CKPT__V1__REASON__REASON_NOT_ATTACHED, why);
    else
        clock_of(allocation)->timer_start(attempt->timer, WAITING_POLL_US);
}

Ckpt__V1__Reason attempt_preflight(struct allocation *allocation, char *ret_detail, size_t size)
{
    const struct attempt *attempt = &allocation->attempt;
    struct ask_target target;

    if (!user_path_ready(&allocation->folder, allocation->entry.work_dir)) {
        snprintf(ret_detail, size, "%s", allocation->folder.why);
        return CKPT__V1__REASON__REASON_WRITE_FAILED;
    }
    if (allocation->entry.endpoint[0] != '\0')
        (void)user_path_ready(&allocation->socket, allocation->entry.endpoint + strlen("unix:"));
    target = attempt_target(allocation);
    return attempt->ask->preflight(attempt->ask, &target, ret_detail, size) == ASK_READY
               ? CKPT__V1__REASON__REASON_NONE
               : CKPT__V1__REASON__REASON_NO_HANDLER;
}

/* A process without a handler may be a momentary one, at any time. What has none is told before the broker takes it for unresponsive. */
void attempt_await_handler(struct allocation *allocation, Ckpt__V1__Reason reason, const char *why)
{
    const struct attempt *attempt = &allocation->attempt;
    uint64_t wait_us = attempt->timeout_ms * 1000 / HANDLER_WAIT_SHARE;
    uint64_t from_us = attempt->seen_at_us, until_us;

    if (attempt->state == ATTEMPT_DEFERRED && from_us < allocation->entry.deferred_until_us)
        from_us = allocation->entry.deferred_until_us;
    until_us = from_us + (wait_us < HANDLER_WAIT_US ? wait_us : HANDLER_WAIT_US);
    if (until_us < allocation->process.started_us + HANDLER_WAIT_US)
        until_us = allocation->process.started_us + HANDLER_WAIT_US;
    if (agent_now_us(allocation->agent) > until_us)
        attempt_fail(allocation, reason, why);
    else
        clock_of(allocation)->timer_start(attempt->timer, WAITING_POLL_US);
}

static void attempt_try(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    uint64_t now_us = agent_now_us(allocation->agent);
    char detail[ATTEMPT_DETAIL_BYTES] = "";
    Ckpt__V1__Reason reason;

    CHECK(attempt->state == ATTEMPT_WAITING);
    attempt_set_ask(allocation); /* it may have been attached since */
    if (attempt_of_other_life(allocation)) {
        attempt_await(allocation, "an application of another life of the allocation runs here");
    } else if (process_stopping(allocation)) {
        attempt_fail(allocation, process_stop_reason(allocation),
                     "the application is being stopped");
    } else if (allocation->process.state == PROCESS_ABSENT || allocation->process.gone_us != 0) {
        if (allocation->stream == NULL && now_us - attempt->seen_at_us > ATTACH_WAIT_US)
            attempt_fail(allocation, CKPT__V1__REASON__REASON_NOT_ATTACHED,
                         "no application of the allocation runs on this node");
        else
            clock_of(allocation)->timer_start(attempt->timer, WAITING_POLL_US);
    } else if ((reason = attempt_preflight(allocation, detail, sizeof(detail))) ==
               CKPT__V1__REASON__REASON_NONE) {
        attempt_ask(allocation);
    } else {
        attempt_await_handler(allocation, reason, detail);
    }
}

/* ---- waiting for the application ---- */

static void take_sentinel(struct allocation *allocation, const struct sentinel *sentinel)
{
    struct attempt *attempt = &allocation->attempt;
    char detail[ATTEMPT_DETAIL_BYTES];

    attempt->done_at_us = agent_now_us(allocation->agent);
    attempt->told_bytes = sentinel->bytes;
    if (strcmp(sentinel->status, "0") != 0) {
        snprintf(detail, sizeof(detail), "the application says status=%s", sentinel->status);
        attempt_fail(allocation, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, detail);
        return;
    }
    allocation_machine(allocation)->folder_watch_free(attempt->watch);
    attempt->watch = NULL;
    attempt_move(allocation, ATTEMPT_PUTTING);
    clock_of(allocation)->timer_start(attempt->timer, ASKED_POLL_US);
    attempt_put(allocation);
}

/* True when the sentinel was there, and when what is there will never be one. */
bool attempt_look_for_sentinel(struct allocation *allocation)
{
    struct ask_target target = attempt_target(allocation);
    struct attempt *attempt = &allocation->attempt;
    struct sentinel sentinel;
    struct err err = {0};

    switch (attempt->ask->poll(&target, attempt->hint, &sentinel, &err)) {
    case ASK_NOTHING_YET:
        attempt->unfinished_us = 0;
        return false;
    case ASK_UNFINISHED:
        if (attempt->unfinished_us == 0)
            attempt->unfinished_us = agent_now_us(allocation->agent);
        if (agent_now_us(allocation->agent) - attempt->unfinished_us < UNFINISHED_WAIT_US)
            return false;
        break;
    case ASK_WRONG:
        break;
    case ASK_FINISHED:
        take_sentinel(allocation, &sentinel);
        return true;
    }
    attempt_fail(allocation, CKPT__V1__REASON__REASON_APPLICATION_REFUSED, err.text);
    return true;
}

static void sentinel_changed(void *data)
{
    struct allocation *allocation = data;

    if (allocation->attempt.state == ATTEMPT_ASKED)
        attempt_look_for_sentinel(allocation);
}

static void report_responsive(struct allocation *allocation)
{
    Ckpt__V1__AgentReport report;

    attempt_report_prepare(&allocation->attempt, &report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_RESPONSIVE;
    allocation->entry.responsive_reported = true;
    allocation_commit(allocation, &report, 0);
}

/* In the last half of the timeout, on the call (S1-041). */
static bool told_progress(const struct allocation *allocation)
{
    const struct attempt *attempt = &allocation->attempt;

    return attempt->alive_us > allocation->entry.asked_at_us &&
           (attempt->alive_us - allocation->entry.asked_at_us) / 1000 >= attempt->timeout_ms / 2;
}

/* P-040: who has written in the last half of the timeout, or has written all and is being copied, gets the one extension. It is
 * asked for a little before the end, so that the request reaches the leader before its own deadline fires. */
static void watch_progress(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    struct ask_target target = attempt_target(allocation);
    uint64_t elapsed_ms = (agent_now_us(allocation->agent) - allocation->entry.asked_at_us) / 1000;
    uint64_t lead_ms = attempt->timeout_ms / 10;

    if (attempt->extended || allocation->entry.responsive_reported)
        return;
    if (lead_ms > RESPONSIVE_LEAD_MAX_MS)
        lead_ms = RESPONSIVE_LEAD_MAX_MS;
    if (!attempt->progress_taken && elapsed_ms >= attempt->timeout_ms / 2) {
        attempt->progress_taken = true;
        attempt->progress = attempt->ask->growth(&target, attempt->hint);
    }
    if (elapsed_ms < attempt->timeout_ms - lead_ms)
        return;
    if (attempt->state == ATTEMPT_PUTTING || told_progress(allocation) ||
        (attempt->progress_taken &&
         attempt->ask->growth(&target, attempt->hint) != attempt->progress))
        report_responsive(allocation);
}

static void attempt_tick(void *data)
{
    struct allocation *allocation = data;
    struct attempt *attempt = &allocation->attempt;

    switch (attempt->state) {
    case ATTEMPT_WAITING:
        attempt_try(allocation);
        return;
    case ATTEMPT_ASKED:
        if (attempt_look_for_sentinel(allocation))
            return;
        if (attempt_call_broke(allocation))
            return;
        watch_progress(allocation);
        clock_of(allocation)->timer_start(attempt->timer, ASKED_POLL_US);
        return;
    case ATTEMPT_PUTTING:
        watch_progress(allocation);
        clock_of(allocation)->timer_start(attempt->timer, ASKED_POLL_US);
        return;
    case ATTEMPT_DEFERRED:
        attempt_ask_again(allocation);
        return;
    case ATTEMPT_NONE:
    case ATTEMPT_CLEANING:
    case ATTEMPT_RESUMING:
    case ATTEMPT_STATE_COUNT:
        return;
    }
}

/* ---- from outside ---- */

void attempt_init(struct allocation *allocation)
{
    allocation->attempt = (struct attempt){.state = ATTEMPT_NONE, .ask = ask_find("")};
    allocation->attempt.timer =
        clock_of(allocation)->timer_new(clock_of(allocation)->context, attempt_tick, allocation);
}

void attempt_close(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    attempt_put_detach(allocation);
    attempt->ask->hang_up(attempt->call);
    allocation_machine(allocation)->remove_detach(attempt->cleanup);
    allocation_machine(allocation)->folder_watch_free(attempt->watch);
    clock_of(allocation)->timer_free(attempt->timer);
    *attempt = (struct attempt){0};
}

static void attempt_reset(struct allocation *allocation, uint64_t checkpoint_id,
                          uint32_t attempt_number)
{
    struct attempt *attempt = &allocation->attempt;

    CHECK(attempt->state == ATTEMPT_NONE && attempt->worker == NULL && attempt->cleanup == NULL);
    attempt->checkpoint_id = checkpoint_id;
    attempt->attempt = attempt_number;
    attempt->seen_at_us = agent_now_us(allocation->agent);
    attempt->done_at_us = 0;
    attempt->alive_us = 0;
    attempt->unfinished_us = 0;
    attempt->broken = false;
    attempt->put_started = false;
    attempt->reported = false;
    user_path_close(&allocation->socket); /* its application may listen anew */
    hint_format(checkpoint_id, attempt_number, attempt->hint);
    attempt_set_ask(allocation);
}

void attempt_start(struct allocation *allocation, const Ckpt__V1__Order *order)
{
    struct attempt *attempt = &allocation->attempt;

    attempt_reset(allocation, order->checkpoint_id, order->attempt);
    attempt->life = order->life;
    attempt->timeout_ms = order->timeout_ms;
    attempt->longest_deferral_ms = order->deferred_ms;
    attempt->max_deferral_ms = order->max_deferral_ms;
    attempt->granted_bytes_per_s = order->granted_bytes_per_s;
    attempt->extended = order->extended;
    snprintf(attempt->target_prefix, sizeof(attempt->target_prefix), "%s", order->target_prefix);
    snprintf(attempt->path, sizeof(attempt->path), "%s", order->path);
    attempt_move(allocation, ATTEMPT_WAITING);
    attempt_try(allocation);
}

/* The agent may have ended between the report and the removal. */
static void sweep_ended(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const char *folders[] = {allocation->attempt.directory};

    if (allocation->entry.work_dir[0] != '\0')
        machine->folders_remove(machine->context, allocation_user(allocation), folders, 1, NULL,
                                NULL);
}

void attempt_resume(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    const struct ledger_entry *entry = &allocation->entry;

    CHECK(entry->phase != PHASE_NONE);
    attempt_reset(allocation, entry->checkpoint_id, entry->attempt);
    attempt_set_directory(allocation);
    if (entry->phase == PHASE_ENDED) {
        sweep_ended(allocation);
        return;
    }
    attempt->life = entry->life;
    attempt->timeout_ms = entry->timeout_ms;
    attempt->longest_deferral_ms = entry->longest_deferral_ms;
    attempt->granted_bytes_per_s = entry->granted_bytes_per_s;
    attempt->extended = entry->extended;
    snprintf(attempt->target_prefix, sizeof(attempt->target_prefix), "%s", entry->target_prefix);
    snprintf(attempt->path, sizeof(attempt->path), "%s", entry->path);
    if (entry->phase == PHASE_DEFERRED) {
        attempt_resume_deferral(allocation);
        return;
    }
    attempt->put_started = true; /* perhaps: the worker died with the agent */
    attempt_move(allocation, ATTEMPT_RESUMING);
    (void)user_path_ready(&allocation->folder, entry->work_dir);
}

/* What the application has done meanwhile is in its work folder. */
static void attempt_resume_asked(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;
    const struct ledger_entry *entry = &allocation->entry;
    struct ask_target target = attempt_target(allocation);

    attempt_move(allocation, ATTEMPT_ASKED);
    if (attempt_look_for_sentinel(allocation))
        return;
    if (entry->phase == PHASE_ASKING && !attempt->ask->prepared(&target, attempt->hint)) {
        attempt_fail(allocation, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT,
                     "the agent ended before it asked the application");
        return;
    }
    if (allocation->process.state == PROCESS_ABSENT || allocation->process.gone_us != 0) {
        attempt_fail(allocation, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT,
                     "the application ended while the agent was away");
        return;
    }
    if (attempt->ask->lost != NULL) {
        attempt_fail(allocation, CKPT__V1__REASON__REASON_AGENT_LOST_ATTEMPT, attempt->ask->lost);
        return;
    }
    if (entry->phase == PHASE_ASKING)
        report_started(allocation); /* the request is there: it may have been asked, once only */
    attempt_watch(allocation);
}

void attempt_path_looked(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    if (attempt->state == ATTEMPT_RESUMING && allocation->folder.opening == NULL)
        attempt_resume_asked(allocation);
    else if (attempt->state == ATTEMPT_WAITING ||
             (attempt->state == ATTEMPT_DEFERRED &&
              allocation->entry.deferred_until_us <= agent_now_us(allocation->agent)))
        clock_of(allocation)->timer_start(attempt->timer, 0);
}

void attempt_cancel(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    if (attempt->state == ATTEMPT_NONE || attempt->state == ATTEMPT_CLEANING)
        return;
    attempt_put_cancel(allocation);
    attempt_finish(allocation, CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING,
                   CKPT__V1__REASON__REASON_NONE, "");
}

void attempt_extend(struct allocation *allocation, const Ckpt__V1__Order *order)
{
    struct attempt *attempt = &allocation->attempt;
    uint64_t timeout_ms = order->timeout_ms, longest_ms = order->deferred_ms;

    if (attempt->state == ATTEMPT_NONE || attempt->state == ATTEMPT_CLEANING)
        return;
    deferral_count(&timeout_ms, &longest_ms, attempt->longest_deferral_ms);
    attempt->extended = order->extended;
    if (timeout_ms > attempt->timeout_ms) {
        attempt->timeout_ms = timeout_ms;
        attempt->longest_deferral_ms = longest_ms;
    }
    if (attempt->state == ATTEMPT_WAITING)
        return;
    allocation->entry.extended = order->extended;
    allocation->entry.timeout_ms = attempt->timeout_ms;
    allocation->entry.longest_deferral_ms = attempt->longest_deferral_ms;
    allocation_commit(allocation, NULL, 0);
}

void attempt_hurry(struct allocation *allocation)
{
    struct ledger_entry *entry = &allocation->entry;
    uint64_t now_us = agent_now_us(allocation->agent);

    CHECK(allocation->attempt.state == ATTEMPT_DEFERRED);
    entry->max_deferral_ms = entry->deferred_ms;
    if (entry->deferred_until_us > now_us)
        entry->deferred_until_us = now_us;
    attempt_ask_again(allocation);
}

void attempt_application_gone(struct allocation *allocation)
{
    struct attempt *attempt = &allocation->attempt;

    if (attempt->state == ATTEMPT_WAITING)
        attempt_try(allocation);
    else if (attempt->state == ATTEMPT_DEFERRED ||
             (attempt->state == ATTEMPT_ASKED && !attempt_look_for_sentinel(allocation)))
        attempt_fail(allocation, CKPT__V1__REASON__REASON_APPLICATION_EXITED,
                     "the application ended before it had written its checkpoint");
}

void attempt_give_up(struct allocation *allocation, Ckpt__V1__Reason reason)
{
    if (allocation->attempt.state == ATTEMPT_NONE ||
        allocation->attempt.state == ATTEMPT_CLEANING || attempt_of_other_life(allocation))
        return;
    attempt_put_cancel(allocation);
    attempt_fail(allocation, reason, "the checkpoint was not complete when the grace ended");
}
