/* The agent's unix socket. See app_server.h.
 *
 * A stream's life:  GREETING --hello--> WAITING (order to terminate stands, attempt or reports of the life before) --> SWEEPING
 *                   --> RESTORING --> READY --started--> RUNNING --exited--> OVER; a re-attach goes to RUNNING at once. A hello for
 *                   an application whose ckpt-run has just gone stays PARKED until that one is back, or is taken for lost.
 */
#include "src/agent/app_server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/v1/app.pb-c.h"
#include "src/agent/allocation.h"
#include "src/agent/app_register.h"
#include "src/agent/ask.h"
#include "src/agent/restart_points.h"
#include "src/agent/walltime.h"
#include "src/base/buf.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/rpc/server.h"

#define ATTACH_METHOD "/ckpt.v1.AppService/Attach"

enum { TERMINATE_WAIT_US = 5000000, STREAM_POLL_US = 200000, ERROR_BYTES = 512 };

enum stream_state {
    STREAM_GREETING,
    STREAM_PARKED,
    STREAM_WAITING,
    STREAM_SWEEPING,
    STREAM_RESTORING,
    STREAM_READY,
    STREAM_RUNNING,
    STREAM_OVER
};

struct app_stream {
    struct app_server *server;
    struct rpc_call *call;
    struct allocation *allocation; /* NULL before the hello is taken and once orphaned */
    enum stream_state state;
    Ckpt__V1__AttachHello *hello;
    uint32_t taken_over_pid; /* of the application that had to end for this one; 0: none */
    uint64_t start_ticks;    /* of its application, and the life of that; 0: none yet */
    uint64_t life;
    bool want_restore;
    bool must_end; /* with a refusal: what the caller runs is a second one of the allocation */
    bool first;    /* of this ckpt-run: not a restart in place */
    bool told;     /* for which life */
    bool over;     /* ... which has ended here */
    uint64_t hello_us;
    bool absent_seen; /* WAITING: nothing of the life before is alive */
    uint64_t
        reports_until; /* a restart waits until these are taken: the restart point may depend on them */
    struct clock_timer *timer;
    struct restore *restore;
};

struct app_server {
    struct agent *agent;
    struct rpc_server *server;
};

static void take_hello(struct app_stream *stream);

static const struct restore_result nothing_restored = {.folder = "", .notice = "", .error = ""};

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

static void stream_ready(struct app_stream *stream, const struct restore_result *result)
{
    Ckpt__V1__AttachDown down = CKPT__V1__ATTACH_DOWN__INIT;
    Ckpt__V1__AttachReady ready = CKPT__V1__ATTACH_READY__INIT;
    char folder_text[4096];
    char error_text[ERROR_BYTES];
    char notice_text[ATTACH_NOTICE_BYTES];
    char node[ID_MAX_BYTES + 1];

    snprintf(node, sizeof(node), "%s", stream->server->agent->node_id);
    snprintf(folder_text, sizeof(folder_text), "%s", result->folder);
    snprintf(error_text, sizeof(error_text), "%s", result->error);
    if (result->notice[0] == '\0' && stream->taken_over_pid != 0)
        snprintf(notice_text, sizeof(notice_text),
                 "pid %" PRIu32 " ran on after its ckpt-run had gone; it was ended",
                 stream->taken_over_pid);
    else
        snprintf(notice_text, sizeof(notice_text), "%s", result->notice);
    stream->taken_over_pid = 0;
    ready.checkpoint_id = result->checkpoint_id;
    ready.restore_dir = folder_text;
    ready.error = error_text;
    ready.notice = notice_text;
    ready.node_id = node;
    ready.must_end = stream->must_end;
    if (stream->state == STREAM_READY)
        ready.life = stream->allocation->entry.life;
    down.body_case = CKPT__V1__ATTACH_DOWN__BODY_READY;
    down.ready = &ready;
    stream_send(stream, &down);
}

static void stream_release(struct app_stream *stream)
{
    if (stream->allocation != NULL && stream->allocation->stream == stream) {
        stream->allocation->stream = NULL;
        process_unattended(stream->allocation);
    }
    if (stream->hello != NULL)
        ckpt__v1__attach_hello__free_unpacked(stream->hello, NULL);
    restore_cancel(stream->restore);
    stream->server->agent->clock.timer_free(stream->timer);
    free(stream);
}

/* Ends the stream; it is gone. */
static void stream_finish(struct app_stream *stream)
{
    struct rpc_call *call = stream->call;

    rpc_call_set_data(call, NULL);
    stream_release(stream);
    rpc_call_finish(call, RPC_OK, NULL);
}

/* Its application has not begun, and what was brought for it may have been swept away since: ckpt-run starts over. */
static void stream_start_over(struct app_stream *stream)
{
    struct rpc_call *call = stream->call;

    log_info("attach_starts_over", "allocation=%s pid=%" PRIu32, stream->hello->allocation_id,
             stream->hello->pid);
    rpc_call_set_data(call, NULL);
    stream_release(stream);
    rpc_call_finish(call, RPC_ABORTED, "the agent does not know this process; start over");
}

__attribute__((format(printf, 2, 3))) static void stream_refuse(struct app_stream *stream,
                                                                const char *format, ...)
{
    char text[ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_warning("attach_refused", "allocation=%s text=\"%s\"",
                stream->allocation != NULL ? stream->allocation->entry.allocation_id : "", text);
    stream_ready(stream, &(struct restore_result){.folder = "", .notice = "", .error = text});
    stream_finish(stream);
}

static void stream_send_end(struct app_stream *stream, Ckpt__V1__Reason reason)
{
    Ckpt__V1__AttachDown down = CKPT__V1__ATTACH_DOWN__INIT;
    Ckpt__V1__AttachEnd end = CKPT__V1__ATTACH_END__INIT;
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&ckpt__v1__reason__descriptor, (int)reason);
    char text[64];

    snprintf(text, sizeof(text), "%s", value == NULL ? "ended" : value->name);
    end.reason = text;
    down.body_case = CKPT__V1__ATTACH_DOWN__BODY_END;
    down.end = &end;
    stream_send(stream, &down);
}

void app_stream_end(struct app_stream *stream, Ckpt__V1__Reason reason)
{
    stream_send_end(stream, reason);
    if (stream->state != STREAM_RUNNING)
        stream_finish(stream);
}

void app_stream_orphan(struct app_stream *stream)
{
    restore_cancel(stream->restore);
    stream->restore = NULL;
    stream->state = STREAM_OVER;
    stream->allocation = NULL;
}

/* ---- before the application starts ---- */

static void restore_done(void *data, const struct restore_result *result)
{
    struct app_stream *stream = data;

    stream->restore = NULL;
    if (result->error[0] != '\0') {
        process_restart_failed(stream->allocation, result->error);
        stream_refuse(stream, "%s", result->error);
        return;
    }
    if (stream->over)
        return; /* the timer tells */
    stream->state = STREAM_READY;
    stream_ready(stream, result);
}

static void clear_end(struct allocation *allocation)
{
    struct ledger_entry *entry = &allocation->entry;

    entry->ended = false;
    entry->terminated = false;
    entry->end_reason = 0;
}

/* An order to end it waited for this, and the end of its walltime: that comes with the answer, since no order set may come any more. */
static void restore_told(void *data, uint64_t epoch, uint64_t life,
                         const Ckpt__V1__AllocationDeadline *deadline)
{
    struct app_stream *stream = data;
    struct agent *agent = stream->server->agent;

    stream->told = true;
    if (allocation_set_life(stream->allocation, epoch, life)) {
        if (stream->first)
            clear_end(stream->allocation);
        if (deadline != NULL)
            walltime_set(stream->allocation, deadline, life, agent_now_us(agent));
        walltime_start(stream->allocation);
    } else {
        stream->over = true;
        agent->clock.timer_start(stream->timer, 0);
    }
    agent_reconcile_soon(agent);
}

/* What an earlier life left in out/ and restore/ is gone now; the stream that asked may be as well, another one waits then. */
static void sweep_done(void *data)
{
    struct allocation *allocation = data;
    struct app_stream *stream = allocation->stream;
    struct agent *agent = allocation->agent;
    const struct ledger_entry *entry = &allocation->entry;

    allocation->sweep = NULL;
    if (stream == NULL || stream->state != STREAM_SWEEPING)
        return;
    stream->state = STREAM_RESTORING;
    stream->restore = restore_start(
        agent->restart_points, &(struct restore_ask){.allocation_id = entry->allocation_id,
                                                     .work_dir = entry->work_dir,
                                                     .user = allocation_user(allocation),
                                                     .from_scratch = !stream->want_restore,
                                                     .alone = !allocation_leader_needed(allocation),
                                                     .told = restore_told,
                                                     .done = restore_done,
                                                     .data = stream});
}

static void stream_sweep(struct app_stream *stream)
{
    struct allocation *allocation = stream->allocation;
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    char out[LEDGER_WORK_DIR_BYTES + 16];
    char restore[LEDGER_WORK_DIR_BYTES + 16];
    const char *folders[] = {out, restore};

    snprintf(out, sizeof(out), "%s/out", entry->work_dir);
    snprintf(restore, sizeof(restore), "%s/restore", entry->work_dir);
    CHECK(allocation->sweep == NULL);
    stream->state = STREAM_SWEEPING;
    allocation->sweep = machine->folders_remove(machine->context, allocation_user(allocation),
                                                folders, 2, sweep_done, allocation);
}

/* The life before is over: what is known of the allocation is the caller's from here on. */
static void take_identity(struct app_stream *stream)
{
    struct ledger_entry *entry = &stream->allocation->entry;
    const Ckpt__V1__AttachHello *hello = stream->hello;
    const struct rpc_peer *peer = rpc_call_peer(stream->call);

    snprintf(entry->profile, sizeof(entry->profile), "%s", ask_find(hello->profile)->profile);
    snprintf(entry->work_dir, sizeof(entry->work_dir), "%s", hello->work_dir);
    if (entry->uid != peer->uid)
        entry->start_ticks = 0; /* how that one ended is for its own user to say */
    entry->uid = peer->uid;
    entry->gid = peer->gid;
    entry->endpoint[0] = '\0'; /* of the life before */
}

/* An order to terminate may still stand from before a restart of the allocation; the next order set is without it. Of one that names
 * its life that is known as soon as ckpt-run's own is. */
static bool terminate_stands(struct app_stream *stream)
{
    return agent_ordered_to_terminate(stream->server->agent,
                                      stream->allocation->entry.allocation_id);
}

static void stream_wait(struct app_stream *stream)
{
    struct allocation *allocation = stream->allocation;
    struct agent *agent = stream->server->agent;
    const struct ledger_report *first;

    if (allocation->entry.ended && !stream->first) {
        app_stream_end(stream, (Ckpt__V1__Reason)allocation->entry.end_reason);
        return;
    }
    if (terminate_stands(stream) && agent_now_us(agent) - stream->hello_us > TERMINATE_WAIT_US) {
        app_stream_end(stream, CKPT__V1__REASON__REASON_ALLOCATION_ENDED);
        return;
    }
    if (allocation->process.state == PROCESS_ABSENT && !stream->absent_seen) {
        stream->absent_seen = true;
        stream->reports_until = ledger_last_sequence(agent->ledger);
    }
    first = ledger_report_after(agent->ledger, 0);
    if (terminate_stands(stream) || !stream->absent_seen || attempt_writes(&allocation->attempt) ||
        allocation->sweep != NULL || /* it would take what is restored for this one */
        (stream->want_restore && first != NULL && first->sequence <= stream->reports_until)) {
        agent->clock.timer_start(stream->timer, STREAM_POLL_US);
        return;
    }
    agent->clock.timer_stop(stream->timer);
    take_identity(stream);
    allocation_commit(allocation, NULL, 0);
    stream_sweep(stream);
}

void app_stream_poll(struct app_stream *stream)
{
    /* from the loop, not from within whatever has just changed */
    if (stream->state == STREAM_WAITING)
        stream->server->agent->clock.timer_start(stream->timer, 0);
}

bool app_stream_asks(const struct app_stream *stream)
{
    return stream->first && !stream->told &&
           (stream->state == STREAM_WAITING || stream->state == STREAM_SWEEPING ||
            stream->state == STREAM_RESTORING);
}

bool app_stream_tells(const struct app_stream *stream)
{
    return stream->state == STREAM_RUNNING;
}

bool app_stream_waits(const struct app_stream *stream)
{
    return stream->state == STREAM_WAITING;
}

static void stream_timer(void *data)
{
    struct app_stream *stream = data;

    if (stream->state == STREAM_PARKED)
        take_hello(stream);
    else if (stream->state == STREAM_WAITING)
        stream_wait(stream);
    else if (stream->over)
        app_stream_end(stream, CKPT__V1__REASON__REASON_ALLOCATION_ENDED);
}

/* ---- hello ---- */

/* Of what runs already the folder is not looked at: without it there are no checkpoints, but the job is well. */
static bool work_dir_right(const struct app_stream *stream, const Ckpt__V1__AttachHello *hello,
                           char *ret_why, size_t size)
{
    const struct machine_ops *machine = &stream->server->agent->machine;
    uid_t uid = rpc_call_peer(stream->call)->uid;
    const char *network;

    if (hello->work_dir[0] != '/' || strlen(hello->work_dir) >= LEDGER_WORK_DIR_BYTES - 1) {
        snprintf(ret_why, size, "the work folder must be an absolute path of less than %d bytes",
                 LEDGER_WORK_DIR_BYTES - 1);
        return false;
    }
    if (hello->running)
        return true;
    if (!machine->folder_owned(machine->context, hello->work_dir, uid)) {
        snprintf(ret_why, size, "the work folder %s is not a folder of user %u", hello->work_dir,
                 (unsigned)uid);
        return false;
    }
    network = machine->folder_network(machine->context, hello->work_dir);
    if (network != NULL) {
        snprintf(
            ret_why, size,
            "a work folder on %s can hold up the agent, and with it all jobs of the node; choose "
            "one on a local disk by --work-dir or $TMPDIR, not %s",
            network, hello->work_dir);
        return false;
    }
    return true;
}

/* The identity that ckpt-run gives, checked: the caller's user, its own process group. */
static bool identity_right(const struct app_stream *stream, uint32_t pid, uint64_t start_ticks,
                           struct process_identity *ret_identity, const char **ret_why)
{
    const struct machine_ops *machine = &stream->server->agent->machine;
    const struct rpc_peer *peer = rpc_call_peer(stream->call);
    struct proc_status status;
    struct proc_stat stat;

    if (pid < 2 || pid > INT32_MAX ||
        machine->process_read(machine->context, (pid_t)pid, &stat, &status) != 0 ||
        stat.start_ticks != start_ticks) {
        *ret_why = "no such process";
        return false;
    }
    if (status.uid != peer->uid) {
        *ret_why = "the process belongs to another user";
        return false;
    }
    if (stat.group != (pid_t)pid) {
        *ret_why = "the process does not lead a process group of its own";
        return false;
    }
    *ret_identity = (struct process_identity){(pid_t)pid, start_ticks, status.uid, status.gid};
    return true;
}

/* The journal does not know it: its folder was lost, or another ckpt-run had come in its place. True: it must not run, since its
 * life has ended here. */
static bool attach_unknown(struct app_stream *stream, const Ckpt__V1__AttachHello *hello)
{
    struct allocation *allocation = stream->allocation;
    struct ledger_entry *entry = &allocation->entry;
    struct process_identity identity;
    const char *why;
    bool over;

    if (!identity_right(stream, hello->pid, hello->start_time_ticks, &identity, &why))
        return false;
    over = !allocation_set_life(allocation, 0, hello->life) || (hello->life == 0 && entry->ended);
    if (!over)
        clear_end(allocation);
    process_attached(allocation, &identity, 0, false);
    agent_reconcile_soon(stream->server->agent);
    return over;
}

/* ckpt-run comes back: after the agent's restart, or after a broken stream. */
static void hello_running(struct app_stream *stream, const Ckpt__V1__AttachHello *hello)
{
    struct allocation *allocation = stream->allocation;
    struct ledger_entry *entry = &allocation->entry;
    bool over = false;

    stream->state = STREAM_RUNNING;
    stream->start_ticks = hello->start_time_ticks;
    stream->life = hello->life;
    if (allocation->process.state == PROCESS_ABSENT) {
        take_identity(stream);
        over = attach_unknown(stream, hello);
    }
    log_info("reattached", "allocation=%s pid=%" PRIu32 " process=%s", entry->allocation_id,
             hello->pid, process_state_name(allocation->process.state));
    stream_ready(stream, &nothing_restored);
    if (over)
        process_stop(allocation,
                     &(struct process_stop_ask){.cause = STOP_BY_ORDER,
                                                .reason = (Ckpt__V1__Reason)entry->end_reason,
                                                .grace_ms = entry->grace_ms,
                                                .life = entry->ended_life});
    else if (entry->ended)
        stream_send_end(stream, (Ckpt__V1__Reason)entry->end_reason);
}

static bool hello_right(struct app_stream *stream, const Ckpt__V1__AttachHello *hello)
{
    char why[ERROR_BYTES];

    if (!id_valid(hello->allocation_id))
        stream_refuse(stream, "the allocation id must be 1 to 128 characters of A-Z a-z 0-9 . _ -");
    else if (ask_find(hello->profile) == NULL)
        stream_refuse(stream, "the profile \"%.64s\" is unknown; there are: %s", hello->profile,
                      ask_profiles());
    else if (!work_dir_right(stream, hello, why, sizeof(why)))
        stream_refuse(stream, "%s", why);
    else
        return true;
    return false;
}

static void refuse_second(struct app_stream *stream, const struct allocation *allocation)
{
    stream->must_end = true;
    stream_refuse(stream,
                  "allocation %s already runs on this node as pid %" PRIu32
                  "; end its ckpt-run first, or the job: ckptctl end %s",
                  allocation->entry.allocation_id, allocation->entry.pid,
                  allocation->entry.allocation_id);
}

static void stream_park(struct app_stream *stream)
{
    if (stream->state != STREAM_PARKED)
        log_info("attach_parked", "allocation=%s text=\"another one of it has not ended yet\"",
                 stream->hello->allocation_id);
    stream->state = STREAM_PARKED;
    stream->server->agent->clock.timer_start(stream->timer, STREAM_POLL_US);
}

/* The application that is known runs; the caller is not the ckpt-run that started it. True: go on, it is being ended. An
 * application outlives its ckpt-run and goes on being checkpointed: it ends only when there is somebody to start it again. */
static bool take_over(struct app_stream *stream, struct allocation *allocation)
{
    uint32_t pid;

    if (stream->hello->running || allocation->stream != NULL) {
        refuse_second(stream, allocation);
        return false;
    }
    if (!process_abandoned(allocation)) {
        stream_park(stream);
        return false;
    }
    pid = allocation->entry.pid; /* it may be gone before the next call returns */
    if (process_take_over(allocation))
        stream->taken_over_pid = pid;
    return true;
}

/* Who may not have the allocation is refused; who must wait for it is parked. */
static bool hello_admitted(struct app_stream *stream, struct allocation *allocation, bool same)
{
    const Ckpt__V1__AttachHello *hello = stream->hello;

    if ((allocation->process.state != PROCESS_ABSENT || allocation->stream != NULL) &&
        allocation->entry.uid != rpc_call_peer(stream->call)->uid) {
        stream->must_end = true;
        stream_refuse(stream, "allocation %s is another user's on this node", hello->allocation_id);
        return false;
    }
    if (allocation->process.state != PROCESS_ABSENT && !same &&
        machine_alive(&stream->server->agent->machine, (pid_t)allocation->entry.pid,
                      allocation->entry.start_ticks))
        return take_over(stream, allocation);
    if (allocation->process.state != PROCESS_ABSENT && !same && hello->running) {
        stream_park(stream); /* what it knows is not of the one whose end is being told */
        return false;
    }
    if (allocation->stream != NULL && !same && !hello->running) {
        stream_refuse(stream, "another ckpt-run is attached to allocation %s",
                      hello->allocation_id);
        return false;
    }
    return true;
}

static void take_hello(struct app_stream *stream)
{
    struct agent *agent = stream->server->agent;
    const Ckpt__V1__AttachHello *hello = stream->hello;
    struct allocation *allocation;
    bool same;

    if (!hello_right(stream, hello))
        return;
    allocation = agent_get(agent, hello->allocation_id);
    if (allocation == NULL) {
        stream_refuse(stream, "this node holds %d allocations already", AGENT_ALLOCATIONS_MAX);
        return;
    }
    same = hello->running && allocation->entry.pid == hello->pid &&
           allocation->entry.start_ticks == hello->start_time_ticks;
    /* never confirmed beside another one, ended or not: it would run unseen */
    if (hello->held && !same) {
        stream_start_over(stream);
        return;
    }
    if (!hello_admitted(stream, allocation, same))
        return;
    if (allocation->stream != NULL)
        stream_finish(allocation->stream); /* its connection is half dead: ckpt-run came back */
    stream->allocation = allocation;
    allocation->stream = stream;
    if (hello->running) {
        hello_running(stream, hello);
        return;
    }
    stream->state = STREAM_WAITING;
    stream->want_restore = hello->want_restore;
    stream->first = hello->restart_count == 0;
    stream->hello_us = agent_now_us(agent);
    stream_wait(stream);
}

/* ---- the application's life ---- */

static void take_started(struct app_stream *stream, const Ckpt__V1__AttachStarted *started)
{
    struct process_identity identity;
    const char *why;

    if (stream->state != STREAM_READY) {
        stream_refuse(stream, "the application was started before this agent was ready for it");
        return;
    }
    if (!identity_right(stream, started->pid, started->start_time_ticks, &identity, &why)) {
        stream_refuse(stream, "pid %" PRIu32 ": %s", started->pid, why);
        return;
    }
    if (stream->allocation->process.state != PROCESS_ABSENT) {
        stream_refuse(stream, "another process of this allocation is attached");
        return;
    }
    stream->state = STREAM_RUNNING;
    stream->start_ticks = started->start_time_ticks;
    stream->life = stream->allocation->entry.life;
    process_attached(stream->allocation, &identity, started->restored_checkpoint_id, true);
    stream_ready(stream,
                 &nothing_restored); /* ckpt-run may reap it now, should it have ended already */
    agent_reconcile_soon(stream->server->agent);
}

static void take_exited(struct app_stream *stream, const Ckpt__V1__AttachExited *exited)
{
    if (stream->state != STREAM_RUNNING) {
        stream_refuse(stream, "no application was started on this stream");
        return;
    }
    stream->state = STREAM_OVER;
    process_exited(stream->allocation, &(struct process_exit){.start_ticks = stream->start_ticks,
                                                              .life = stream->life,
                                                              .wait_status = exited->wait_status,
                                                              .will_restart = exited->will_restart,
                                                              .told_to_end = exited->told_to_end});
}

static void on_request(struct rpc_call *call, void *data)
{
    struct app_server *server = data;
    const struct clock_ops *clock = &server->agent->clock;
    struct app_stream *stream = check_calloc(1, sizeof(*stream));

    stream->server = server;
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
        stream_refuse(stream, "a hello is expected first, and once");
    } else if (stream->state != STREAM_GREETING && stream->allocation == NULL) {
        stream_refuse(stream, "the agent has forgotten this allocation; attach again");
    } else {
        switch (up->body_case) {
        case CKPT__V1__ATTACH_UP__BODY_HELLO:
            stream->hello = up->hello;
            up->hello = NULL;
            up->body_case = CKPT__V1__ATTACH_UP__BODY__NOT_SET;
            take_hello(stream);
            break;
        case CKPT__V1__ATTACH_UP__BODY_STARTED:
            take_started(stream, up->started);
            break;
        case CKPT__V1__ATTACH_UP__BODY_EXITED:
            take_exited(stream, up->exited);
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
        stream_finish(stream);
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
    struct app_server *server = check_calloc(1, sizeof(*server));
    char address[512];
    int result;

    server->agent = agent;
    server->server = rpc_server_new(agent->loop, NULL);
    rpc_server_add_method(server->server, ATTACH_METHOD, true, true, &attach, server);
    app_register_serve(server->server, agent);
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
