/* Who may attach to an allocation, and how a ckpt-run comes back. See app_server.h, app_stream.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/agent/app/app_register.h"
#include "src/agent/app/app_stream.h"
#include "src/agent/job/pretenders.h"
#include "src/agent/job/reconcile.h"
#include "src/agent/run/words.h"
#include "src/ask/ask.h"
#include "src/base/log.h"

enum { PARKED_UNTOLD_US = 1000000 };

static bool hello_right(struct app_stream *stream, const Ckpt__V1__AttachHello *hello)
{
    char profiles[ASK_PROFILES_BYTES];
    struct err err = {0};
    const char *wrong;

    if (id_check("the allocation's id", hello->allocation_id, &err) != 0)
        app_stream_refuse(stream, "%s", err.text);
    else if (ask_find(hello->profile) == NULL)
        app_stream_refuse(stream, "the profile \"%.64s\" is unknown; there are: %s", hello->profile,
                          ask_profiles(profiles));
    else if ((hello->asks_group || hello->asks_started) && ask_find(hello->profile)->signal == 0)
        app_stream_refuse(stream,
                          "--ask %s is of no use with profile %s, which sends no signal: leave it "
                          "out",
                          hello->asks_group ? "group" : "started", hello->profile);
    else if (hello->ask_signal != 0 && ask_find(hello->profile)->signal == 0)
        app_stream_refuse(stream,
                          "--ask-signal is of no use with profile %s, which sends no signal: leave "
                          "it out",
                          hello->profile);
    else if (hello->ask_signal > ASK_SIGNAL_MAX)
        app_stream_refuse(stream, "signal %" PRIu32 " is none, there are 1 to %d",
                          hello->ask_signal, ASK_SIGNAL_MAX);
    else if (hello->endpoint[0] != '\0' &&
             (wrong = app_register_endpoint_wrong(hello->endpoint)) != NULL)
        app_stream_refuse(stream, "where ckpt-run answers for its application: %s", wrong);
    else if (hello->outside_endpoint[0] != '\0' &&
             (wrong = app_register_endpoint_wrong(hello->outside_endpoint)) != NULL)
        app_stream_refuse(stream, "where ckpt-run answers for its application: %s", wrong);
    else if (hello->work_dir[0] != '/' || strlen(hello->work_dir) >= LEDGER_WORK_DIR_BYTES - 1)
        app_stream_refuse(stream, "the work folder must be an absolute path of less than %d bytes",
                          LEDGER_WORK_DIR_BYTES - 1);
    else if (hello->ranks > LEDGER_RANKS_MAX)
        app_stream_refuse(stream, "the job has %" PRIu32 " ranks on this node, at most %d can be",
                          hello->ranks, LEDGER_RANKS_MAX);
    else if ((unsigned)hello->restore > CKPT__V1__RESTORE_MODE__RESTORE_MODE_PATH)
        app_stream_refuse(stream, "restore mode %u is unknown; there are own, all and path",
                          (unsigned)hello->restore);
    else
        return true;
    return false;
}

/* Without its folder what runs already has no checkpoints, but the job is well. */
static void folder_looked(void *data, struct opened *take, const char *why)
{
    struct app_stream *stream = data;

    stream->look = NULL;
    stream->folder = take;
    if (take == NULL && !stream->hello->running) {
        app_stream_refuse(stream, "%s", why);
        return;
    }
    app_stream_take_hello(stream);
}

/* Numbers of processes would be other processes' here, in both directions. */
static bool numbers_agree(struct app_stream *stream)
{
    const char *remedy =
        "run it in the agent's (docker run --pid=host, hostPID: true in a pod), or "
        "an agent beside it in its own";
    const struct machine_ops *machine = &stream->agent->machine;
    const pid_t pid = rpc_call_peer(stream->call)->pid;
    struct proc_status own, its;

    if (machine->process_read(machine->context, getpid(), NULL, &own) != 0 || own.nested == 0)
        return true; /* nobody tells */
    if (pid == 0) {
        app_stream_refuse(
            stream,
            "this ckpt-run is in another PID namespace than its agent, which does not "
            "see it: %s",
            remedy);
        return false;
    }
    if (machine->process_read(machine->context, pid, NULL, &its) != 0 || own.nested == its.nested)
        return true;
    app_stream_refuse(
        stream,
        "this ckpt-run is in another PID namespace than its agent, pid %d there and %d "
        "here: %s",
        (int)its.inner_pid, (int)pid, remedy);
    return false;
}

void app_stream_greet(struct app_stream *stream)
{
    const struct machine_ops *machine = &stream->agent->machine;

    if (!numbers_agree(stream) || !hello_right(stream, stream->hello))
        return;
    stream->state = STREAM_LOOKING;
    stream->look = machine->path_open(machine->context, OPENED_FOLDER, stream->hello->work_dir,
                                      rpc_call_peer(stream->call)->uid, folder_looked, stream);
}

bool app_stream_identity(const struct app_stream *stream, uint32_t pid, uint64_t start_ticks,
                         struct process_identity *ret_identity, const char **ret_why)
{
    const struct machine_ops *machine = &stream->agent->machine;
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
    *ret_identity = (struct process_identity){(pid_t)pid, start_ticks, machine_user_of(&status)};
    return true;
}

/* The journal does not know it: its folder was lost, or another ckpt-run had come in its place. True: it must not run, since its
 * run has ended here. */
static bool attach_unknown(struct app_stream *stream, const Ckpt__V1__AttachHello *hello)
{
    struct allocation *allocation = stream->allocation;
    struct process_identity identity;
    const char *why;
    bool over;

    if (!app_stream_identity(stream, hello->pid, hello->start_time_ticks, &identity, &why))
        return false;
    over = !allocation_set_run(allocation, 0, hello->run);
    if (!over)
        app_stream_clear_end(allocation);
    process_attached(allocation, &identity, 0, false);
    pretenders_attached(stream->agent, &allocation->entry);
    agent_reconcile_soon(stream->agent);
    return over;
}

static void asked_told(void *data, const struct restore_word *word)
{
    struct app_stream *stream = data;

    stream->named = true;
    stream->named_run = word->run;
    app_stream_take_owner(stream->allocation, word->owner);
    app_stream_take_profile(stream, word);
}

/* A ckpt-run that has taken the application over has an address of its own. */
static void take_served(struct allocation *allocation, const Ckpt__V1__AttachHello *hello)
{
    struct ledger_entry *entry = &allocation->entry;
    const char *endpoint =
        entry->way_open == WAY_OUTSIDE ? hello->outside_endpoint : hello->endpoint;

    if (!ask_find(entry->profile)->served || strcmp(entry->endpoint, endpoint) == 0)
        return;
    snprintf(entry->endpoint, sizeof(entry->endpoint), "%s", endpoint);
    allocation_commit(allocation, NULL, 0);
}

/* ckpt-run comes back: after the agent's restart, or after a broken stream. */
static void hello_running(struct app_stream *stream, const Ckpt__V1__AttachHello *hello)
{
    struct allocation *allocation = stream->allocation;
    struct ledger_entry *entry = &allocation->entry;
    bool over = false;

    stream->state = STREAM_RUNNING;
    if (allocation->process.state == PROCESS_ABSENT) {
        app_stream_take_identity(stream);
        /* it was started with what its ckpt-run says */
        app_stream_take_profile(stream, &(struct restore_word){.profile = ""});
        over = attach_unknown(stream, hello);
    }
    log_info("reattached", "allocation=%s pid=%" PRIu32 " process=%s", entry->allocation_id,
             hello->pid, process_state_name(allocation->process.state));
    take_served(allocation, hello);
    app_stream_ready(stream, &(struct restore_result){.folder = "", .notice = "", .error = ""});
    if (stream->folder != NULL && strcmp(entry->work_dir, hello->work_dir) == 0 &&
        (allocation->folder.opened == NULL || !attempt_busy(&allocation->attempt))) {
        user_path_take(&allocation->folder, entry->work_dir, stream->folder);
        stream->folder = NULL;
    }
    if (over)
        process_stop(allocation,
                     &(struct process_stop_ask){.cause = STOP_BY_ORDER,
                                                .reason = (Ckpt__V1__Reason)entry->end_reason,
                                                .grace_ms = entry->grace_ms,
                                                .run = entry->ended_run});
    else if (entry->ended)
        app_stream_send_end(stream, (Ckpt__V1__Reason)entry->end_reason);
}

/* Nothing but its own word says that it is of a run that the cluster does not name: it is not
 * taken for the job's, and its end says nothing of the job. Of a run before, an end is told, and
 * heard as what it is. */
static void refuse_run(struct app_stream *stream)
{
    const Ckpt__V1__AttachHello *hello = stream->hello;
    char own[CHECKPOINT_ID_TEXT_BYTES], named[CHECKPOINT_ID_TEXT_BYTES];
    struct process_identity identity;
    const char *why;

    if (app_stream_identity(stream, hello->pid, hello->start_time_ticks, &identity, &why)) {
        struct pretender pretender = {.run = hello->run,
                                      .pid = identity.pid,
                                      .start_ticks = identity.start_ticks,
                                      .uid = identity.user.uid};
        snprintf(pretender.allocation_id, sizeof(pretender.allocation_id), "%s",
                 hello->allocation_id);
        snprintf(pretender.work_dir, sizeof(pretender.work_dir), "%s", hello->work_dir);
        pretenders_add(stream->agent, &pretender);
        pretenders_take_orders(stream->agent);
    }
    stream->must_end = stream->named_run != 0;
    checkpoint_id_format(hello->run, own);
    if (stream->named_run != 0)
        app_stream_refuse(
            stream,
            "what runs as pid %" PRIu32 " says that it is of run %s of allocation %s, "
            "and the cluster names run %s on this node: start it anew",
            hello->pid, own, hello->allocation_id, checkpoint_id_format(stream->named_run, named));
    else
        app_stream_refuse(stream,
                          "the cluster names no run of allocation %s on this node, and pid %" PRIu32
                          " says that it is of run %s",
                          hello->allocation_id, hello->pid, own);
}

/* A run above the cluster's, or one of which it knows nothing. */
static bool run_unknown(const struct app_stream *stream)
{
    const Ckpt__V1__OrderSet *orders = stream->agent->orders;
    const uint64_t run = stream->hello->run;

    if (stream->named_run != 0)
        return run > stream->named_run;
    return run != 0 && (!stream->named || orders == NULL || !reconcile_judges(orders, run));
}

/* Of what nobody owns, the caller comes first. */
static void asked(void *data, const struct restore_result *result)
{
    struct app_stream *stream = data;

    stream->restorer = NULL;
    if (result->error[0] == '\0' && run_unknown(stream)) {
        refuse_run(stream);
        return;
    }
    if (result->error[0] == '\0') {
        hello_running(stream, stream->hello);
        return;
    }
    stream->must_end = true;
    app_stream_refuse(stream, "%s", result->error);
}

static const struct restore_caller asking = {
    .told = asked_told, .waits = app_stream_waits, .done = asked};

static void refuse_second(struct app_stream *stream, const struct allocation *allocation)
{
    stream->must_end = true;
    app_stream_refuse(stream,
                      "allocation %s already runs on this node as pid %" PRIu32
                      "; end its ckpt-run first, or the job: ckpt-run end %s",
                      allocation->entry.allocation_id, allocation->entry.pid,
                      allocation->entry.allocation_id);
}

/* Its ckpt-run has gone, and this one did not find it by its keeper. */
static void refuse_other(struct app_stream *stream, const struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    char clock[WORDS_BYTES];

    app_stream_refuse(
        stream,
        "allocation %s runs on here as pid %" PRIu32 " since %s, without its ckpt-run, "
        "in the work folder %.200s; the same command with that folder goes on with it "
        "while its keeper is there, `ckpt-run end %s` ends it, and --replace starts "
        "this one in its place",
        entry->allocation_id, entry->pid, words_clock(entry->started_at_ms, clock), entry->work_dir,
        entry->allocation_id);
}

/* Whoever comes back in a moment is not told that it waits for one. */
__attribute__((format(printf, 2, 3))) static void stream_park(struct app_stream *stream,
                                                              const char *format, ...)
{
    uint64_t now_us = agent_now_us(stream->agent);
    char why[STREAM_ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    if (stream->state != STREAM_PARKED) {
        log_info("attach_parked", "allocation=%s text=\"%s\"", stream->hello->allocation_id, why);
        stream->parked_us = now_us;
    }
    stream->state = STREAM_PARKED;
    if (now_us - stream->parked_us >= PARKED_UNTOLD_US)
        app_stream_waits(stream, why);
    stream->agent->clock.timer_start(stream->timer, STREAM_POLL_US);
}

/* The application that is known runs; the caller is not the ckpt-run that started it. True: go on, it is being ended. An
 * application outlives its ckpt-run and goes on being checkpointed: it ends only when there is somebody to start it again.
 * While it stands still for the checkpoint that is to end it, the next ckpt-run waits: in its
 * grace it would compute what that checkpoint does not have. */
static bool take_over(struct app_stream *stream, struct allocation *allocation)
{
    uint32_t pid;

    if (stream->hello->running || allocation->stream != NULL) {
        refuse_second(stream, allocation);
        return false;
    }
    pid = allocation->entry.pid; /* it may be gone before the next call returns */
    if (allocation->entry.still == STANDING_STILL) {
        stream_park(stream,
                    "pid %" PRIu32 " of allocation %s stands still here until its checkpoint is "
                    "committed and it is ended; the next one begins then",
                    pid, allocation->entry.allocation_id);
        return false;
    }
    if (!allocation_abandoned(allocation)) {
        stream_park(stream,
                    "pid %" PRIu32 " of allocation %s still runs here, and its ckpt-run has gone; "
                    "it may come back in a moment",
                    pid, allocation->entry.allocation_id);
        return false;
    }
    if (process_state_unstopped(allocation->process.state) && !stream->hello->replace) {
        refuse_other(stream, allocation);
        return false;
    }
    if (process_state_unstopped(allocation->process.state)) {
        process_post(allocation, PROCESS_TAKE_OVER);
        stream->taken_over_pid = pid;
    }
    return true;
}

/* Who has attached in an outage owns it while something of it is here. What another one has asked for and nobody has granted yet is
 * nobody's: who comes then waits for the answer. */
static bool user_admitted(struct app_stream *stream, struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    const struct app_stream *other = allocation->stream;
    uid_t uid = rpc_call_peer(stream->call)->uid;
    bool asked_for = other != NULL && !other->told && other->state != STREAM_RUNNING;
    char text[OWNER_TEXT_BYTES];

    if (allocation_stranger(allocation, uid)) {
        allocation_owner_text(entry->allocation_id, entry->owner, entry->owner_uid, uid, text);
        stream->must_end = true;
        app_stream_refuse(stream, "%s", text);
        return false;
    }
    if (asked_for && rpc_call_peer(other->call)->uid == uid)
        return true;
    if (asked_for) {
        stream_park(stream,
                    "another user has asked to start allocation %s here; whose it is, the cluster "
                    "has still to say",
                    entry->allocation_id);
        return false;
    }
    if ((allocation->process.state != PROCESS_ABSENT || other != NULL || entry->restart_awaited) &&
        entry->uid != uid && (uid != 0 || !entry->restart_awaited)) {
        stream->must_end = true;
        app_stream_refuse(stream, "allocation %s is another user's on this node",
                          entry->allocation_id);
        return false;
    }
    return true;
}

/* A process of the caller's that pretends to be of it ends first: two of it would run. */
static bool pretender_in_the_way(struct app_stream *stream)
{
    const char *id = stream->hello->allocation_id;
    const pid_t pid = pretenders_take_over(stream->agent, id, rpc_call_peer(stream->call)->uid);

    if (pid == 0)
        return false;
    stream_park(stream,
                "pid %d says that it is of allocation %s, and its ckpt-run has gone; unless that "
                "one comes back, it is ended and the next one begins",
                (int)pid, id);
    return true;
}

/* Something of it is in that folder, or will be. A folder is its user's: another user that names it
 * has none of it, and keeps nobody out. */
static bool holds_folder(const struct allocation *allocation, const char *work_dir, uid_t uid)
{
    const struct app_stream *stream = allocation->stream;

    if (stream != NULL && rpc_call_peer(stream->call)->uid == uid &&
        strcmp(stream->hello->work_dir, work_dir) == 0)
        return true;
    return (allocation->process.state != PROCESS_ABSENT || allocation->entry.restart_awaited) &&
           allocation->entry.uid == uid && strcmp(allocation->entry.work_dir, work_dir) == 0;
}

/* Two jobs in one work folder would take each other's questions and answers, and the start of one
 * empties what the other writes its checkpoint into. True: it is another's. */
static bool folder_in_the_way(struct app_stream *stream, const struct allocation *own)
{
    const struct list *all = &stream->agent->allocations;
    const uid_t uid = rpc_call_peer(stream->call)->uid;

    for (struct list *at = all->next; at != all; at = at->next) {
        const struct allocation *other = LIST_ITEM(at, struct allocation, node);

        if (other == own || !holds_folder(other, stream->hello->work_dir, uid))
            continue;
        app_stream_refuse(stream,
                          "the work folder %.400s is that of allocation %s, which is on this node: "
                          "each has a folder of its own; name another one with --work-dir",
                          stream->hello->work_dir, other->entry.allocation_id);
        return true;
    }
    return false;
}

/* Who may not have the allocation is refused; who must wait for it is parked. */
static bool hello_admitted(struct app_stream *stream, struct allocation *allocation, bool same)
{
    const Ckpt__V1__AttachHello *hello = stream->hello;

    if (!user_admitted(stream, allocation))
        return false;
    if (!hello->running && folder_in_the_way(stream, allocation))
        return false;
    if (!hello->running && pretender_in_the_way(stream))
        return false;
    if (allocation->process.state != PROCESS_ABSENT && !same &&
        machine_alive(&stream->agent->machine, (pid_t)allocation->entry.pid,
                      allocation->entry.start_ticks))
        return take_over(stream, allocation);
    if (allocation->process.state != PROCESS_ABSENT && !same && hello->running) {
        /* what it knows is not of the one whose end is being told */
        stream_park(stream, "the cluster has still to hear how allocation %s ended here before",
                    hello->allocation_id);
        return false;
    }
    if (allocation->stream != NULL && !same && !hello->running) {
        app_stream_refuse(stream, "another ckpt-run is attached to allocation %s",
                          hello->allocation_id);
        return false;
    }
    return true;
}

/* Allocations that the agent cannot forget because of this user, who may have made up their names. */
static size_t held_by(struct agent *agent, uid_t uid)
{
    size_t count = 0;

    for (struct list *at = agent->allocations.next; at != &agent->allocations; at = at->next) {
        const struct allocation *allocation = LIST_ITEM(at, struct allocation, node);
        if (allocation->stream != NULL)
            count += rpc_call_peer(allocation->stream->call)->uid == uid;
        else if (allocation->process.state != PROCESS_ABSENT)
            count += allocation->entry.uid == uid;
    }
    return count;
}

/* NULL: there is no room, and the stream is refused. */
static struct allocation *find_or_add(struct app_stream *stream)
{
    const char *allocation_id = stream->hello->allocation_id;
    uid_t uid = rpc_call_peer(stream->call)->uid;
    struct agent *agent = stream->agent;
    struct allocation *allocation = agent_find(agent, allocation_id);

    if (allocation != NULL)
        return allocation;
    if (held_by(agent, uid) >= AGENT_ALLOCATIONS_PER_USER) {
        app_stream_refuse(stream,
                          "user %u has %d allocations on this node already, as many as one user "
                          "may; start this one when another has ended",
                          (unsigned)uid, AGENT_ALLOCATIONS_PER_USER);
        return NULL;
    }
    allocation = agent_get(agent, allocation_id);
    if (allocation == NULL)
        app_stream_refuse(stream, "this node holds %d allocations already", AGENT_ALLOCATIONS_MAX);
    return allocation;
}

/* The agent's own journal holds it, or that it is over. */
static bool run_kept(const struct ledger_entry *entry, uint64_t run)
{
    return run == entry->run || run == entry->named_run || run <= entry->ended_run;
}

void app_stream_take_hello(struct app_stream *stream)
{
    const Ckpt__V1__AttachHello *hello = stream->hello;
    struct allocation *allocation;
    bool same;

    allocation = find_or_add(stream);
    if (allocation == NULL)
        return;
    same = hello->running && allocation->entry.pid == hello->pid &&
           allocation->entry.start_ticks == hello->start_time_ticks;
    /* never confirmed beside another one, ended or not: it would run unseen */
    if (hello->held && !same) {
        allocation->started_over = true;
        allocation->started_over_pid = rpc_call_peer(stream->call)->pid;
        app_stream_start_over(stream);
        return;
    }
    if (!hello_admitted(stream, allocation, same))
        return;
    if (allocation->stream != NULL)
        app_stream_finish(allocation->stream); /* its connection is half dead: ckpt-run came back */
    stream->allocation = allocation;
    allocation->stream = stream;
    if (hello->running && allocation->process.state == PROCESS_ABSENT &&
        (!allocation->entry.owned || !run_kept(&allocation->entry, hello->run))) {
        stream->state = STREAM_ASKING;
        app_stream_ask(stream, RESTORE_OWNER, &asking);
        return;
    }
    if (hello->running) {
        hello_running(stream, hello);
        return;
    }
    stream->state = STREAM_WAITING;
    stream->want_restore = hello->want_restore;
    stream->first = hello->restart_count == 0;
    app_stream_wait(stream);
}
