/* The agent's unix socket. See app_server.h.
 *
 * A stream's life:  GREETING --hello--> LOOKING (at its work folder) --> WAITING (attempt or reports of the run before) --> SWEEPING
 *                   --> RESTORING --> READY --started--> RUNNING --ended--> OVER; a re-attach goes to RUNNING at once, but
 *                   by ASKING a broker whose it is when nobody is known to own it here. A hello for an application whose ckpt-run
 *                   has just gone stays PARKED until that one is back, or is taken for lost.
 */
#include "src/agent/app/app_server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/agent/app/app_end.h"
#include "src/agent/app/app_jobs.h"
#include "src/agent/app/app_register.h"
#include "src/agent/app/app_stream.h"
#include "src/agent/app/own_call.h"
#include "src/agent/app/own_get.h"
#include "src/agent/app/own_register.h"
#include "src/agent/durable/kept.h"
#include "src/agent/job/pretenders.h"
#include "src/agent/job/reconcile.h"
#include "src/agent/run/words.h"
#include "src/ask/ask.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/text.h"

#define ATTACH_METHOD "/ckpt.v1.AppService/Attach"

enum { SAY_AGAIN_US = 10000000, SOCKET_CONNECTIONS_MAX = 2048 };

struct app_server {
    struct agent *agent;
    struct rpc_server *server;
    struct own_method own_methods[OWN_CALL_COUNT];
};

/* ---- answers ---- */

static void stream_send(struct app_stream *stream, const Ckpt__V1__AttachDown *down)
{
    struct buf bytes;

    buf_init(&bytes);
    ckpt__v1__attach_down__pack(down,
                                buf_extend(&bytes, ckpt__v1__attach_down__get_packed_size(down)));
    rpc_call_send(stream->call, bytes.bytes, bytes.length);
    buf_close(&bytes);
}

/* With the work that its end cost: nobody else knows when it was. */
static void name_taken_over(const struct app_stream *stream, const struct restore_result *result,
                            char text[ATTACH_NOTICE_BYTES])
{
    const struct ledger_entry *entry = &stream->allocation->entry;
    bool saved = result->snapshot_at_ms > entry->started_at_ms;
    uint64_t from_ms = saved ? result->snapshot_at_ms : entry->started_at_ms;
    char lost[WORDS_BYTES];

    snprintf(text, ATTACH_NOTICE_BYTES,
             "pid %" PRIu32 " ran on after its ckpt-run had gone; it was ended; lost: %s of work, "
             "since %s",
             stream->taken_over_pid,
             words_duration(entry->ended_at_ms > from_ms ? entry->ended_at_ms - from_ms : 0, lost),
             saved ? "its last checkpoint" : "it was started");
}

void app_stream_ready(struct app_stream *stream, const struct restore_result *result)
{
    Ckpt__V1__AttachDown down = CKPT__V1__ATTACH_DOWN__INIT;
    Ckpt__V1__AttachReady ready = CKPT__V1__ATTACH_READY__INIT;
    char folder_text[4096];
    char error_text[STREAM_ERROR_BYTES];
    char notice_text[ATTACH_NOTICE_BYTES];
    char path_text[LEDGER_PATH_BYTES], uri_text[LEDGER_PATH_BYTES + 8];
    char label_text[LABEL_MAX_BYTES + 1], scratch_text[STREAM_ERROR_BYTES];
    char node[ID_MAX_BYTES + 1], app_socket[128], region[ASK_REGION_PATH_BYTES];

    snprintf(node, sizeof(node), "%s", stream->agent->node_id);
    snprintf(app_socket, sizeof(app_socket), "%s", stream->agent->app_socket);
    snprintf(folder_text, sizeof(folder_text), "%s", result->folder);
    snprintf(error_text, sizeof(error_text), "%s", result->error);
    if (result->notice[0] == '\0' && stream->taken_over_pid != 0 && stream->allocation != NULL)
        name_taken_over(stream, result, notice_text);
    else
        snprintf(notice_text, sizeof(notice_text), "%s", result->notice);
    stream->taken_over_pid = 0;
    ready.checkpoint_id = result->checkpoint_id;
    ready.restore_dir = folder_text;
    ready.error = error_text;
    ready.notice = notice_text;
    ready.snapshot_at_ms = result->snapshot_at_ms;
    snprintf(path_text, sizeof(path_text), "%s", result->path == NULL ? "" : result->path);
    ready.path = path_text;
    snprintf(uri_text, sizeof(uri_text), "%s", result->uri == NULL ? "" : result->uri);
    ready.restore_uri = uri_text;
    snprintf(label_text, sizeof(label_text), "%s", result->label == NULL ? "" : result->label);
    ready.restore_label = label_text;
    snprintf(scratch_text, sizeof(scratch_text), "%s",
             result->scratch == NULL ? "" : result->scratch);
    ready.scratch = scratch_text;
    ready.begins_without = result->begins_without;
    ready.node_id = node;
    ready.app_socket = app_socket;
    ready.app_requests = app_socket[0] != '\0';
    ready.must_end = stream->must_end;
    ready.may_come = stream->may_come;
    ready.cause_wait_status = stream->cause_wait_status;
    if (stream->state == STREAM_READY) {
        ready.run = stream->allocation->entry.run;
        ready.part = stream->allocation->entry.part;
        ready.parts = stream->allocation->entry.parts;
        ready.shm_sought = stream->allocation->entry.way_open == WAY_SOUGHT;
        ready.outside = stream->allocation->entry.outside[0] != '\0';
        if (allocation_region_claim(stream->allocation, region))
            ready.shm = region;
        if (stream->attributes != NULL)
            ready.attributes = stream->attributes;
        ready.stays_when_finished = stream->comes_back && ready.parts > 1;
        ready.checkpoint_parts = result->parts;
        ready.restore = result->mode;
    }
    down.body_case = CKPT__V1__ATTACH_DOWN__BODY_READY;
    down.ready = &ready;
    stream_send(stream, &down);
}

/* The state lets it in, or has its place back. */
static void restore_reads(void *data, uint64_t checkpoint_id, bool wanted)
{
    struct app_stream *stream = data;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;

    report.kind = wanted ? CKPT__V1__REPORT_KIND__REPORT_KIND_READ_WANTED
                         : CKPT__V1__REPORT_KIND__REPORT_KIND_READ_ENDED;
    report.restored_checkpoint_id = checkpoint_id;
    report.run = stream->allocation->entry.run;
    allocation_commit(stream->allocation, &report, 0);
}

/* Nobody is left who would read: another one is let in. */
static void stream_release(struct app_stream *stream)
{
    uint64_t reading = restorer_reading(stream->restorer);

    if (stream->allocation != NULL && reading != 0)
        restore_reads(stream, reading, false);
    if (stream->allocation != NULL && stream->allocation->stream == stream) {
        stream->allocation->stream = NULL;
        process_post(stream->allocation, PROCESS_UNATTENDED);
        allocation_rest(stream->allocation);
    }
    if (stream->hello != NULL)
        ckpt__v1__attach_hello__free_unpacked(stream->hello, NULL);
    restorer_cancel(stream->restorer);
    stream->agent->machine.path_open_detach(stream->look);
    stream->agent->machine.opened_close(stream->folder);
    stream->agent->clock.timer_free(stream->timer);
    free(stream->attributes);
    free(stream);
}

/* Ends the stream; it is gone. */
void app_stream_finish(struct app_stream *stream)
{
    struct rpc_call *call = stream->call;

    rpc_call_set_data(call, NULL);
    stream_release(stream);
    rpc_call_finish(call, RPC_OK, NULL);
}

/* Its application has not begun, and what was brought for it may have been swept away since: ckpt-run starts over. */
void app_stream_start_over(struct app_stream *stream)
{
    struct rpc_call *call = stream->call;

    log_info("attach_starts_over", "allocation=%s pid=%" PRIu32, stream->hello->allocation_id,
             stream->hello->pid);
    rpc_call_set_data(call, NULL);
    stream_release(stream);
    rpc_call_finish(call, RPC_ABORTED, "the agent does not know this process; start over");
}

__attribute__((format(printf, 2, 3))) void app_stream_refuse(struct app_stream *stream,
                                                             const char *format, ...)
{
    char text[STREAM_ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_warning("attach_refused", "allocation=%s text=\"%s\"",
                stream->allocation != NULL ? stream->allocation->entry.allocation_id : "", text);
    app_stream_ready(stream, &(struct restore_result){.folder = "", .notice = "", .error = text});
    app_stream_finish(stream);
}

static void stream_say(struct app_stream *stream, const char *said)
{
    Ckpt__V1__AttachDown down = CKPT__V1__ATTACH_DOWN__INIT;
    Ckpt__V1__AttachNotice notice = CKPT__V1__ATTACH_NOTICE__INIT;
    char text[STREAM_NOTICE_BYTES];

    snprintf(text, sizeof(text), "%s", said);
    for (char *at = text; *at != '\0'; at++)
        *at = *at >= ' ' && *at <= '~' ? *at : '?'; /* protocol texts are UTF-8 */
    notice.text = text;
    down.body_case = CKPT__V1__ATTACH_DOWN__BODY_NOTICE;
    down.notice = &notice;
    stream_send(stream, &down);
}

void app_stream_send_end(struct app_stream *stream, Ckpt__V1__Reason reason)
{
    Ckpt__V1__AttachDown down = CKPT__V1__ATTACH_DOWN__INIT;
    Ckpt__V1__AttachEnd end = CKPT__V1__ATTACH_END__INIT;
    char text[APP_END_BYTES], why[WORDS_BYTES];

    end.reason = stream->allocation != NULL
                     ? text_message(app_end_text(stream->allocation, reason, text))
                     : text_message(words_enum(&ckpt__v1__reason__descriptor, (int)reason, why));
    end.for_good = reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED;
    down.body_case = CKPT__V1__ATTACH_DOWN__BODY_END;
    down.end = &end;
    stream_send(stream, &down);
}

static void stream_end(struct app_stream *stream, Ckpt__V1__Reason reason)
{
    if (stream->first && !stream->told)
        return;
    app_stream_send_end(stream, reason);
    if (stream->state != STREAM_RUNNING)
        app_stream_finish(stream);
}

static void stream_orphan(struct app_stream *stream)
{
    restorer_cancel(stream->restorer);
    stream->restorer = NULL;
    stream->state = STREAM_OVER;
    stream->allocation = NULL;
}

/* ---- before the application starts ---- */

static void restore_done(void *data, const struct restore_result *result)
{
    struct app_stream *stream = data;

    stream->restorer = NULL;
    if (result->error[0] != '\0') {
        process_restart_failed(stream->allocation, result->error,
                               stream->allocation->started_over &&
                                   stream->allocation->started_over_pid ==
                                       rpc_call_peer(stream->call)->pid);
        stream->may_come = result->may_come;
        stream->cause_wait_status = result->cause_wait_status;
        app_stream_refuse(stream, "%s", result->error);
        return;
    }
    if (stream->over)
        return; /* the timer tells */
    kept_restored(&stream->allocation->entry, result->checkpoint_id, result->path,
                  result->snapshot_at_ms);
    stream->allocation->started_over = false;
    stream->allocation->entry.start_granted = true;
    allocation_commit(stream->allocation, NULL, 0);
    if (result->from_copy)
        stream_say(stream, "its part of the checkpoint came from the copy that this node kept, "
                           "without a byte from the destination");
    if (result->unwritten[0] != '\0')
        stream_say(stream, result->unwritten);
    stream->state = STREAM_READY;
    app_stream_ready(stream, result);
}

void app_stream_clear_end(struct allocation *allocation)
{
    struct ledger_entry *entry = &allocation->entry;

    entry->ended = false;
    entry->terminated = false;
    entry->end_reason = 0;
}

void app_stream_take_owner(struct allocation *allocation, const struct restore_owner *owner)
{
    struct ledger_entry *entry = &allocation->entry;

    if (owner == NULL)
        return;
    entry->owned = true;
    entry->owner_uid = owner->uid;
    pretenders_take_owner(allocation->agent, entry->allocation_id, owner->uid);
    snprintf(entry->owner, sizeof(entry->owner), "%s", owner->name);
}

/* At once, and again now and then: whoever looks at the job's output sees why nothing happens. */
void app_stream_waits(void *data, const char *why)
{
    struct app_stream *stream = data;
    uint64_t now_us = agent_now_us(stream->agent);

    if (stream->said_us != 0 && now_us - stream->said_us < SAY_AGAIN_US)
        return;
    stream->said_us = now_us;
    stream_say(stream, why);
}

/* At once where it is new, or where its ckpt-run is to know for how long it is worth it. */
static void stream_awaited(void *data, const char *why, uint64_t restart_wait_ms,
                           uint32_t cause_wait_status)
{
    struct app_stream *stream = data;
    Ckpt__V1__AttachDown down = CKPT__V1__ATTACH_DOWN__INIT;
    Ckpt__V1__AttachNotice notice = CKPT__V1__ATTACH_NOTICE__INIT;
    char text[STREAM_NOTICE_BYTES];

    if (restart_wait_ms == 0) {
        snprintf(text, sizeof(text), "%s; waiting for that (--stay)", why);
        app_stream_waits(stream, text);
        return;
    }
    words_cut(why, text, sizeof(text));
    stream->said_us = agent_now_us(stream->agent);
    notice.text = text;
    notice.restart_wait_ms = restart_wait_ms;
    notice.cause_wait_status = cause_wait_status;
    down.body_case = CKPT__V1__ATTACH_DOWN__BODY_NOTICE;
    down.notice = &notice;
    stream_send(stream, &down);
}

/* The state goes on by it. */
static void restore_found(void *data, const struct restore_found *found)
{
    struct app_stream *stream = data;
    Ckpt__V1__AgentReport report = CKPT__V1__AGENT_REPORT__INIT;
    char detail[JOB_DETAIL_BYTES], text[STREAM_ERROR_BYTES], id[CHECKPOINT_ID_TEXT_BYTES];

    words_cut(found->detail, detail, sizeof(detail));
    if (found->damaged) { /* each at once: there may be no start that tells of it */
        snprintf(text, sizeof(text), "checkpoint %s is passed over, it is damaged: %s",
                 checkpoint_id_format(found->checkpoint_id, id), found->detail);
        stream_say(stream, text);
    }
    report.kind = found->damaged ? CKPT__V1__REPORT_KIND__REPORT_KIND_RESTART_DAMAGED
                                 : CKPT__V1__REPORT_KIND__REPORT_KIND_RESTORED;
    report.restored_checkpoint_id = found->checkpoint_id;
    report.restore =
        found->damaged ? CKPT__V1__RESTORE_MODE__RESTORE_MODE_UNSPECIFIED : found->mode;
    report.run = stream->allocation->entry.run;
    report.detail = detail;
    allocation_commit(stream->allocation, &report, 0);
}

/* The caller's, with the groups that its process has now; a process that cannot be read has none. */
static struct machine_user stream_user(const struct app_stream *stream)
{
    const struct rpc_peer *peer = rpc_call_peer(stream->call);

    return machine_peer_user(&stream->agent->machine, peer->pid, peer->uid, peer->gid);
}

void app_stream_take_identity(struct app_stream *stream)
{
    struct ledger_entry *entry = &stream->allocation->entry;
    const Ckpt__V1__AttachHello *hello = stream->hello;
    struct machine_user user = stream_user(stream);

    snprintf(entry->work_dir, sizeof(entry->work_dir), "%s", hello->work_dir);
    if (entry->uid != user.uid)
        entry->start_ticks = 0; /* how that one ended is for its own user to say */
    ledger_set_user(entry, user.uid, user.gid, user.groups);
    snprintf(entry->endpoint, sizeof(entry->endpoint), "%s", hello->endpoint);
    snprintf(entry->outside_endpoint, sizeof(entry->outside_endpoint), "%s",
             hello->outside_endpoint);
    entry->ranks_declared = hello->ranks;
    entry->asks_group = hello->asks_group;
    entry->asks_started = hello->asks_started;
    entry->ask_signal = hello->ask_signal;
    entry->imported = hello->imports;
    user_path_take(&stream->allocation->folder, entry->work_dir, stream->folder);
    stream->folder = NULL;
}

/* An order to end it waited for this, and the end of its walltime: that comes with the answer, since no order set may come any more. */
static void restore_told(void *data, const struct restore_word *word)
{
    struct app_stream *stream = data;
    struct agent *agent = stream->agent;

    if (!stream->told)
        app_stream_take_identity(stream);
    app_stream_take_profile(stream, word);
    stream->told = true;
    stream->comes_back = word->comes_back;
    free(stream->attributes);
    stream->attributes = check_strdup(word->attributes);
    if (word->places != 0) {
        stream->allocation->entry.part = word->place;
        stream->allocation->entry.parts = word->places;
    }
    app_stream_take_owner(stream->allocation, word->owner);
    if (word->owner_rule != CKPT__V1__OWNER_RULE__OWNER_RULE_UNSPECIFIED)
        stream->allocation->entry.owner_rule = word->owner_rule;
    allocation_commit(stream->allocation, NULL, 0);
    if (allocation_set_run(stream->allocation, word->epoch, word->run)) {
        if (stream->first)
            app_stream_clear_end(stream->allocation);
        if (word->part != NULL)
            allocation_take_part(stream->allocation, word->part,
                                 &(struct walltime_word){.epoch = word->epoch,
                                                         .index = word->index,
                                                         .came_us = agent_now_us(agent),
                                                         .run = word->run});
        walltime_post(stream->allocation, WALLTIME_WANTED, &(struct walltime_word){0});
    } else {
        stream->over = true;
        agent->clock.timer_start(stream->timer, 0);
    }
    agent_reconcile_soon(agent);
}

/* 0: what ran here last has not finished, or is not known. */
static uint64_t stream_finished_run(const struct app_stream *stream)
{
    return stream->hello->running ? 0 : stream->hello->run;
}

/* For which run it may start when no broker can be asked; 0: none. What nobody is known to own is
 * left to whoever comes only where a broker has said so. */
static uint64_t outage_run(void *data)
{
    const struct app_stream *stream = data;
    struct allocation *allocation = stream->allocation;
    const struct ledger_entry *entry = &allocation->entry;

    if (stream_finished_run(stream) != 0)
        return 0;
    if (!entry->owned && rpc_call_peer(stream->call)->uid != 0 &&
        entry->owner_rule != CKPT__V1__OWNER_RULE__OWNER_RULE_FIRST)
        return 0;
    return allocation_outage_run(allocation);
}

static void sweep_done(void *data);

/* The allocation waits for it, not the stream alone: the next one would bring what it takes away. */
static void restore_sweeps(void *data, const char *folder)
{
    struct app_stream *stream = data;
    struct allocation *allocation = stream->allocation;
    const struct machine_ops *machine = allocation_machine(allocation);

    CHECK(allocation->sweep == NULL);
    allocation->sweep = machine->folders_remove(
        machine->context, stream_user(stream),
        &(struct machine_folders){&folder, 1, allocation->entry.wipe}, sweep_done, allocation);
}

void app_stream_ask(struct app_stream *stream, enum restore_what what,
                    const struct restore_caller *caller)
{
    struct allocation *allocation = stream->allocation;
    struct restore_owner owner;

    stream->restorer =
        restorer_start(stream->agent->restart_points,
                       &(struct restore_ask){.allocation_id = allocation->entry.allocation_id,
                                             .work_dir = stream->hello->work_dir,
                                             .folder = stream->folder,
                                             .user = stream_user(stream),
                                             .what = what,
                                             .owner = allocation_owner(allocation, &owner),
                                             .wait = stream->hello->wait,
                                             .finished_run = stream_finished_run(stream),
                                             .prepares = what != RESTORE_OWNER && stream->first &&
                                                         !allocation->entry.restart_awaited,
                                             .override = stream->hello->restore,
                                             .profile = stream->hello->profile,
                                             .caller = caller,
                                             .data = stream});
}

static const struct restore_caller starting = {.told = restore_told,
                                               .waits = app_stream_waits,
                                               .done = restore_done,
                                               .outage_run = outage_run,
                                               .awaited = stream_awaited,
                                               .found = restore_found,
                                               .reads = restore_reads,
                                               .sweep = restore_sweeps};

/* What an earlier run left in out/ and restore/ is gone now, or what was brought for an earlier
 * choice; the stream that asked may be as well, another one waits then. */
static void sweep_done(void *data)
{
    struct allocation *allocation = data;
    struct app_stream *stream = allocation->stream;

    allocation->sweep = NULL;
    if (stream == NULL)
        return;
    restorer_swept(stream->restorer);
    if (stream->state != STREAM_SWEEPING)
        return;
    stream->state = STREAM_RESTORING;
    app_stream_ask(stream, stream->want_restore ? RESTORE_FILES : RESTORE_NOTHING, &starting);
}

static void stream_sweep(struct app_stream *stream)
{
    struct allocation *allocation = stream->allocation;
    const struct machine_ops *machine = allocation_machine(allocation);
    const char *work_dir = stream->hello->work_dir;
    char out[LEDGER_WORK_DIR_BYTES + 16];
    char restore[LEDGER_WORK_DIR_BYTES + 16];
    const char *folders[] = {out, restore};

    snprintf(out, sizeof(out), "%s/out", work_dir);
    snprintf(restore, sizeof(restore), "%s/restore", work_dir);
    CHECK(allocation->sweep == NULL);
    stream->state = STREAM_SWEEPING;
    allocation->sweep = machine->folders_remove(
        machine->context, stream_user(stream),
        &(struct machine_folders){folders, 2, allocation->entry.wipe}, sweep_done, allocation);
}

void app_stream_wait(struct app_stream *stream)
{
    struct allocation *allocation = stream->allocation;
    struct agent *agent = stream->agent;
    const struct ledger_report *first;

    if (allocation->entry.ended && !stream->first) {
        stream_end(stream, (Ckpt__V1__Reason)allocation->entry.end_reason);
        return;
    }
    if (allocation->process.state == PROCESS_ABSENT && !stream->absent_seen) {
        stream->absent_seen = true;
        stream->reports_until = ledger_last_sequence(agent->ledger);
    }
    first = ledger_report_after(agent->ledger, 0);
    if (!stream->absent_seen || attempt_writes(&allocation->attempt) ||
        allocation->sweep != NULL || /* it would take what is restored for this one */
        (stream->want_restore && first != NULL && first->sequence <= stream->reports_until)) {
        agent->clock.timer_start(stream->timer, STREAM_POLL_US);
        return;
    }
    agent->clock.timer_stop(stream->timer);
    stream_sweep(stream);
}

static void stream_poll(struct app_stream *stream)
{
    /* from the loop, not from within whatever has just changed */
    if (stream->state == STREAM_WAITING)
        stream->agent->clock.timer_start(stream->timer, 0);
    else if (stream->state == STREAM_RESTORING)
        restorer_wake(stream->restorer);
}

static uid_t stream_uid(const struct app_stream *stream)
{
    return rpc_call_peer(stream->call)->uid;
}

static bool stream_tells(const struct app_stream *stream)
{
    return stream->state == STREAM_RUNNING;
}

static bool stream_waits(const struct app_stream *stream)
{
    return stream->state == STREAM_WAITING;
}

static bool stream_starts(const struct app_stream *stream)
{
    return stream->state != STREAM_RUNNING && stream->state != STREAM_OVER;
}

static bool stream_awaits(const struct app_stream *stream)
{
    return stream->state == STREAM_RESTORING && restorer_awaiting(stream->restorer);
}

static const struct caller_ops stream_ops = {.uid = stream_uid,
                                             .tells = stream_tells,
                                             .awaits = stream_awaits,
                                             .waits = stream_waits,
                                             .starts = stream_starts,
                                             .end = stream_end,
                                             .say = stream_say,
                                             .poll = stream_poll,
                                             .orphan = stream_orphan};

static void stream_timer(void *data)
{
    struct app_stream *stream = data;

    if (stream->state == STREAM_PARKED)
        app_stream_take_hello(stream);
    else if (stream->state == STREAM_WAITING)
        app_stream_wait(stream);
    else if (stream->over)
        stream_end(stream, CKPT__V1__REASON__REASON_ALLOCATION_ENDED);
}

/* ---- the application's life ---- */

static void take_started(struct app_stream *stream, const Ckpt__V1__AttachStarted *started)
{
    struct process_identity identity;
    const char *why;

    if (stream->state != STREAM_READY) {
        app_stream_refuse(stream, "the application was started before this agent was ready for it");
        return;
    }
    if (reconcile_run_over(stream->agent->orders, stream->allocation->entry.allocation_id,
                           stream->allocation->entry.run)) {
        app_stream_start_over(stream); /* it is held still, and of what came after it was ready */
        return;
    }
    if (!app_stream_identity(stream, started->pid, started->start_time_ticks, &identity, &why)) {
        app_stream_refuse(stream, "pid %" PRIu32 ": %s", started->pid, why);
        return;
    }
    if (stream->allocation->process.state != PROCESS_ABSENT) {
        app_stream_refuse(stream, "another process of this allocation is attached");
        return;
    }
    stream->state = STREAM_RUNNING;
    process_attached(stream->allocation, &identity, started->restored_checkpoint_id, true);
    app_stream_ready(stream,
                     &(struct restore_result){
                         .folder = "",
                         .notice = "",
                         .error = ""}); /* ckpt-run may reap it now, should it have ended already */
    agent_reconcile_soon(stream->agent);
}

/* The stream only wakes: what has ended, and how, stands in the note. */
static void take_ended(struct app_stream *stream, const Ckpt__V1__AttachEnded *ended)
{
    bool started = stream->state == STREAM_RUNNING;

    if (!started && stream->state != STREAM_READY) {
        app_stream_refuse(stream, "nothing was started, or to be started, on this stream");
        return;
    }
    stream->state = STREAM_OVER;
    process_woken(stream->allocation, ended->note);
}

static void on_request(struct rpc_call *call, void *data)
{
    struct app_server *server = data;
    const struct clock_ops *clock = &server->agent->clock;
    struct app_stream *stream = check_calloc(1, sizeof(*stream));

    stream->agent = server->agent;
    stream->call = call;
    stream->state = STREAM_GREETING;
    stream->timer = clock->timer_new(clock->context, stream_timer, stream);
    rpc_call_set_data(call, stream);
}

static void on_message(struct rpc_call *call, void *data, const uint8_t *bytes, size_t length)
{
    struct app_stream *stream = rpc_call_data(call);
    Ckpt__V1__AttachUp *up = ckpt__v1__attach_up__unpack(NULL, length, bytes);

    (void)data;
    if (stream == NULL) {
        /* finished already */
    } else if (up == NULL || (stream->state == STREAM_GREETING) !=
                                 (up->body_case == CKPT__V1__ATTACH_UP__BODY_HELLO)) {
        app_stream_refuse(stream, "a hello is expected first, and once");
    } else if (stream->state != STREAM_GREETING && stream->allocation == NULL) {
        app_stream_refuse(stream, "the agent has forgotten this allocation; attach again");
    } else {
        switch (up->body_case) {
        case CKPT__V1__ATTACH_UP__BODY_HELLO:
            stream->hello = up->hello;
            up->hello = NULL;
            up->body_case = CKPT__V1__ATTACH_UP__BODY__NOT_SET;
            app_stream_greet(stream);
            break;
        case CKPT__V1__ATTACH_UP__BODY_STARTED:
            take_started(stream, up->started);
            break;
        case CKPT__V1__ATTACH_UP__BODY_ENDED:
            take_ended(stream, up->ended);
            break;
        case CKPT__V1__ATTACH_UP__BODY__NOT_SET:
        case _CKPT__V1__ATTACH_UP__BODY__CASE_IS_INT_SIZE:
            break;
        }
    }
    if (up != NULL)
        ckpt__v1__attach_up__free_unpacked(up, NULL);
}

static void on_half_close(struct rpc_call *call, void *data)
{
    struct app_stream *stream = rpc_call_data(call);

    (void)data;
    if (stream != NULL)
        app_stream_finish(stream);
}

static void on_cancel(struct rpc_call *call, void *data)
{
    struct app_stream *stream = rpc_call_data(call);

    (void)data;
    if (stream != NULL)
        stream_release(stream);
}

/* ---- life ---- */

int app_server_new(struct agent *agent, const char *socket_path, struct app_server **ret_server,
                   struct err *err)
{
    static const struct rpc_handlers attach = {.on_request = on_request,
                                               .on_message = on_message,
                                               .on_half_close = on_half_close,
                                               .on_cancel = on_cancel};
    /* one connection per ckpt-run; a user has half of them at most */
    const struct rpc_server_config config = {.connections_max = SOCKET_CONNECTIONS_MAX};
    struct app_server *server = check_calloc(1, sizeof(*server));
    char address[512];
    int result;

    server->agent = agent;
    agent->callers = &stream_ops;
    server->server = rpc_server_new(agent->loop, &config);
    rpc_server_add_method(server->server, ATTACH_METHOD, true, true, &attach, server);
    app_register_serve(server->server, agent);
    app_jobs_serve(server->server, agent);
    own_register_serve(server->server, agent);
    own_get_serve(server->server, agent);
    own_call_serve(server->server, agent, server->own_methods);
    snprintf(address, sizeof(address), "unix:%s", socket_path);
    result = rpc_server_listen(server->server, address, err);
    *ret_server = server;
    return result;
}

struct closing {
    struct app_server *server;
    void (*freed)(void *data);
    void *data;
};

static void server_freed(void *data)
{
    struct closing closing = *(struct closing *)data;

    free(data);
    free(closing.server);
    closing.freed(closing.data);
}

void app_server_free(struct app_server *server, void (*freed)(void *data), void *data)
{
    struct closing *closing = check_calloc(1, sizeof(*closing));

    *closing = (struct closing){server, freed, data};
    rpc_server_free(server->server, server_freed, closing);
}
