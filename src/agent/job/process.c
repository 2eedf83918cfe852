/* The application's process group. See process.h. */
#include "src/agent/job/process.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/app/app_server.h"
#include "src/agent/durable/end_note.h"
#include "src/agent/durable/kept.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/process_absent.h"
#include "src/agent/job/walltime.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum {
    STOP_POLL_US = 50000,
    RUN_POLL_US = 2000000,    /* beside the pidfd */
    STATUS_WAIT_US = 3000000, /* for a ckpt-run that has to attach again to tell the wait status */
    UNREAPED_STATUS_WAIT_US = 60000000, /* ...that is there and stands still */
    STOPPED_STATUS_WAIT_US = 500000,
    NOTE_POLL_US = 200000,
    UNTOLD_LOG_US = 30000000,
    ATTACH_AGAIN_WAIT_US = 3000000, /* a living ckpt-run connects again within a few tries */
    UNKILLABLE_LOG_US = 30000000,
    OWN_GRACE_MS = 30000, /* where no order tells it */
    REPORT_WHY_BYTES = 200
};

static const char *const state_names[] = {
#define X(name) #name,
    PROCESS_STATES(X)
#undef X
};
static const bool state_moves[PROCESS_STATE_COUNT][PROCESS_STATE_COUNT] = {
    [PROCESS_ABSENT] = {[PROCESS_RUNNING] = true},
    [PROCESS_RUNNING] = {[PROCESS_ABSENT] = true, [PROCESS_TERMINATING] = true},
    [PROCESS_TERMINATING] = {[PROCESS_ABSENT] = true, [PROCESS_KILLING] = true},
    [PROCESS_KILLING] = {[PROCESS_ABSENT] = true},
};

const char *process_state_name(enum process_state state)
{
    return state_names[state];
}

bool process_move_allowed(enum process_state from, enum process_state to)
{
    return state_moves[from][to];
}

static void process_move(struct allocation *allocation, enum process_state to)
{
    CHECK(process_move_allowed(allocation->process.state, to));
    log_info("process", "allocation=%s pid=%" PRIu32 " from=%s to=%s",
             allocation->entry.allocation_id, allocation->entry.pid,
             process_state_name(allocation->process.state), process_state_name(to));
    allocation->process.state = to;
}

static const struct clock_ops *clock_of(const struct allocation *allocation)
{
    return &allocation->agent->clock;
}

static bool leader_alive(const struct allocation *allocation)
{
    return machine_alive(allocation_machine(allocation), (pid_t)allocation->entry.pid,
                         allocation->entry.start_ticks);
}

static bool group_alive(const struct allocation *allocation)
{
    return machine_group_alive(allocation_machine(allocation), (pid_t)allocation->entry.pid,
                               allocation->entry.start_ticks, allocation->entry.uid);
}

static void signal_group(const struct allocation *allocation, int signal)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    pid_t group = (pid_t)allocation->entry.pid;

    CHECK(group > 1);
    if (machine->group_signal(machine->context, group, signal, NULL) == 0)
        log_info("signal", "allocation=%s group=%d signal=%d", allocation->entry.allocation_id,
                 (int)group, signal);
}

/* ---- ends ---- */

/* There was nothing left to stop. Not of an application of an earlier life than the one that was to end, whose end is waited for. */
static bool ended_before_stop(const struct allocation *allocation)
{
    const struct process *process = &allocation->process;

    return process->ended_before && process->stop_life <= allocation->entry.life;
}

/* Nobody could tell how it ended, nor was it told to: it may turn out that its work is complete. */
static bool ended_unseen(const struct allocation *allocation)
{
    const struct process *process = &allocation->process;

    return !process->status_known && !process->will_restart &&
           (!process_stopping(allocation) || ended_before_stop(allocation));
}

static void process_forget(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    if (!ended_unseen(allocation))
        allocation->entry.start_ticks = 0;
    kept_ended(allocation);
    allocation_machine(allocation)->pid_watch_free(process->watch);
    allocation_machine(allocation)->kin_detach(process->look);
    if (!attempt_busy(&allocation->attempt)) { /* many allocations are kept, few descriptors */
        user_path_close(&allocation->folder);
        user_path_close(&allocation->socket);
    }
    process->watch = NULL;
    process->look = NULL;
    process->exit_waits = false;
    clock_of(allocation)->timer_stop(process->timer);
    process_move(allocation, PROCESS_ABSENT);
    allocation->entry.pid = 0;
    allocation->entry.kill_at_us = 0;
}

/* Status 0 of one that was told to end is no sign of finished work: nobody may take it for that. */
static void take_status(struct process *process, int32_t wait_status, bool told_to_end)
{
    process->status_known = true;
    process->told_to_end = told_to_end && wait_status == 0;
    process->wait_status = process->told_to_end ? PROCESS_STATUS_UNKNOWN : wait_status;
}

/* Of the application that has ended. */
static void note_take(struct allocation *allocation, const char *told)
{
    const struct ledger_entry *entry = &allocation->entry;
    struct end_note note;

    if (allocation->process.status_known || entry->start_ticks == MACHINE_NEVER_STARTED ||
        !process_note_find(allocation, told, &note) || note.pid != entry->pid ||
        note.start_ticks != entry->start_ticks)
        return;
    log_info("end_note", "allocation=%s pid=%" PRIu32 " wait_status=%d told_to_end=%d",
             entry->allocation_id, entry->pid, (int)note.wait_status, note.told_to_end);
    take_status(&allocation->process, note.wait_status, note.told_to_end);
    allocation->process.will_restart = note.will_restart && !entry->ended;
}

/* Its ckpt-run says that it lies in the folder of that name: what was opened under it may be another one, removed since. */
static void note_look_anew(struct allocation *allocation)
{
    if (!allocation->process.woken || attempt_busy(&allocation->attempt))
        return;
    allocation->process.woken = false;
    user_path_close(&allocation->folder);
    (void)user_path_ready(&allocation->folder, allocation->entry.work_dir);
}

static void report_exit(struct allocation *allocation)
{
    struct process *process = &allocation->process;
    Ckpt__V1__AgentReport report;
    char unseen[] = "exit status unknown: neither ckpt-run nor the agent saw the end";
    char told[] =
        "its ckpt-run was told to end it: status 0 does not say that its work is complete";
    char taken_over[] =
        "its ckpt-run was gone: ended by the agent, another ckpt-run starts it again";

    ckpt__v1__agent_report__init(&report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
    report.exit_status = process->wait_status;
    report.will_restart = process->will_restart ? 1 : 0;
    report.life = allocation->entry.life;
    if (!process->status_known)
        report.detail = process_stopping(allocation) ? taken_over : unseen;
    else if (process->told_to_end)
        report.detail = told;
    if (process->wait_status != 0)
        report.reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    process_forget(allocation);
    if (process->will_restart) {
        allocation->entry.restart_awaited = true;
        allocation->entry.awaited_status = process->wait_status;
        process_restart_await(allocation);
    }
    allocation_commit(allocation, &report, 0);
    agent_reconcile_soon(allocation->agent);
}

static void warn_unkillable(struct allocation *allocation, uint64_t now_us)
{
    struct process *process = &allocation->process;

    if (now_us - process->killed_us <= UNKILLABLE_LOG_US)
        return;
    process->killed_us = now_us;
    log_error("unkillable", "allocation=%s group=%" PRIu32 " text=\"still there after SIGKILL\"",
              allocation->entry.allocation_id, allocation->entry.pid);
}

static void kin_looked(void *data, size_t count)
{
    struct allocation *allocation = data;
    struct process *process = &allocation->process;

    process->look = NULL;
    process->kin_gone = count == 0;
    if (count > 0)
        log_info("kin_killed", "allocation=%s count=%zu", allocation->entry.allocation_id, count);
    clock_of(allocation)->timer_start(process->timer, count > 0 ? STOP_POLL_US : 0);
}

/* Once its group has gone: nothing is left that had left it. Else it is being killed, without a grace: who wants one stays in the group. */
static bool kin_gone(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    struct process *process = &allocation->process;
    struct kin kin = {.life = entry->life, .start_ticks = entry->start_ticks, .uid = entry->uid};

    if (process->kin_gone || entry->start_ticks == MACHINE_NEVER_STARTED)
        return true;
    if (process->look != NULL)
        return false;
    memcpy(kin.allocation_id, entry->allocation_id, sizeof(kin.allocation_id));
    memcpy(kin.work_dir, entry->work_dir, sizeof(kin.work_dir));
    process->look = machine->kin_kill(machine->context, &kin, kin_looked, allocation);
    process->kin_gone = process->look == NULL;
    return process->kin_gone;
}

/* True: the leader was the last of its group, and of what has left it. Else what it has left behind must not write beside the next life, nor stay on a node
 * that is given to others: it is killed, and the end is told when it is gone. */
static bool remains_gone(struct allocation *allocation)
{
    struct process *process = &allocation->process;
    uint64_t now_us = agent_now_us(allocation->agent);
    bool group = group_alive(allocation);

    if (!group && kin_gone(allocation))
        return true;
    if (process->killed_us == 0)
        process->killed_us = now_us;
    process->remains = true;
    if (group)
        signal_group(allocation, SIGKILL);
    warn_unkillable(allocation, now_us);
    clock_of(allocation)->timer_start(process->timer, STOP_POLL_US);
    return false;
}

/* A shard that the worker is copying is worth more than telling at once that the application crashed: it is what the restart
 * needs. An application that finished needs no checkpoint, so that is told at once. */
static void process_ended_by_itself(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    process->remains = false;
    if (!remains_gone(allocation))
        return;
    attempt_application_gone(allocation);
    if (process->state != PROCESS_RUNNING)
        return; /* told by what the attempt's end brought about */
    if (process->wait_status != 0 && allocation->attempt.state == ATTEMPT_PUTTING) {
        process->exit_waits = true;
        clock_of(allocation)->timer_stop(process->timer);
        return;
    }
    report_exit(allocation);
}

/* The work is done and need not be done again. */
static bool finished_before_stop(const struct allocation *allocation)
{
    const struct process *process = &allocation->process;

    return ended_before_stop(allocation) && process->status_known && process->wait_status == 0;
}

static void finish_stop(struct allocation *allocation)
{
    struct process *process = &allocation->process;
    bool walltime = process->cause == STOP_BY_WALLTIME;
    char unknown[] = "no application of it was known on this node";
    Ckpt__V1__AgentReport report;

    if (process->cause == STOP_BY_TAKEOVER) {
        process->will_restart = true;
        report_exit(allocation);
        return;
    }
    allocation->entry.start_granted = false;
    ckpt__v1__agent_report__init(&report);
    report.kind = walltime ? CKPT__V1__REPORT_KIND__REPORT_KIND_WALLTIME_KILLED
                           : CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED;
    report.reason = (Ckpt__V1__Reason)allocation->entry.end_reason;
    report.life = walltime ? allocation->entry.life : process->stop_life;
    report.exit_status = process->status_known ? process->wait_status : PROCESS_STATUS_UNKNOWN;
    if (finished_before_stop(allocation)) {
        report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
        report.reason = CKPT__V1__REASON__REASON_NONE;
        report.life = allocation->entry.life;
    }
    if (process->state != PROCESS_ABSENT)
        process_forget(allocation);
    else
        report.detail = unknown;
    allocation->entry.terminated = allocation->entry.terminated || !walltime;
    allocation_commit(allocation, &report, 0);
    agent_reconcile_soon(allocation->agent);
}

/* ---- stopping ---- */

static void kill_group(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    process->killed_us = agent_now_us(allocation->agent);
    process_move(allocation, PROCESS_KILLING);
    if (group_alive(allocation))
        signal_group(allocation, SIGKILL);
    attempt_give_up(allocation, process_stop_reason(allocation));
}

/* The wait status comes with ckpt-run's message, a moment after the end. */
static bool status_awaited(const struct allocation *allocation, uint64_t now_us)
{
    const struct process *process = &allocation->process;

    return !process->status_known && allocation->stream != NULL &&
           now_us - process->gone_us < STOPPED_STATUS_WAIT_US;
}

/* A checkpoint that the worker is still copying may complete until the grace ends; then it is reported before the end. */
static void stop_poll(struct allocation *allocation)
{
    struct process *process = &allocation->process;
    uint64_t now_us = agent_now_us(allocation->agent);

    clock_of(allocation)->timer_start(process->timer, STOP_POLL_US);
    if (!group_alive(allocation) && kin_gone(allocation)) {
        if (process->gone_us == 0)
            process->gone_us = now_us;
        note_take(allocation, "");
        if (!process->status_known)
            note_look_anew(allocation);
        attempt_application_gone(allocation);
        if (!attempt_busy(&allocation->attempt) && !status_awaited(allocation, now_us)) {
            finish_stop(allocation);
            return;
        }
    }
    if (process->state == PROCESS_TERMINATING) {
        if (now_us >= allocation->entry.kill_at_us)
            kill_group(allocation);
    } else if (process->gone_us == 0) {
        warn_unkillable(allocation, now_us);
    }
}

static void stop_start(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    process_move(allocation, PROCESS_TERMINATING);
    process->exit_waits = false;
    process->ended_before = !leader_alive(allocation);
    if (group_alive(allocation)) {
        signal_group(allocation, SIGCONT); /* a stopped process would not see the next one */
        signal_group(allocation, SIGTERM);
    }
    stop_poll(allocation);
}

/* Journalled before anything acts on it, with the end of the grace, which is no longer for an agent that restarts; and told to whoever waits to start the application: but not to one that has yet to hear for
 * which life it would, which may be a later one. */
static void end_allocation(struct allocation *allocation, const struct process_stop_ask *ask)
{
    struct ledger_entry *entry = &allocation->entry;

    allocation->process.cause = ask->cause;
    allocation->process.stop_life = ask->life;
    if (ask->epoch > allocation->process.stop_epoch)
        allocation->process.stop_epoch = ask->epoch;
    entry->ended = true;
    entry->end_reason = (uint32_t)ask->reason;
    if (ask->life > entry->ended_life)
        entry->ended_life = ask->life;
    allocation_commit(allocation, NULL, 0);
    if (allocation->stream != NULL && !app_stream_asks(allocation->stream))
        app_stream_end(allocation->stream, ask->reason);
}

/* With what is left of the grace, whoever began it. */
static void log_stop(const struct allocation *allocation, const struct process_stop_ask *ask,
                     uint64_t kill_at_us)
{
    uint64_t now_us = agent_now_us(allocation->agent);
    char life[CHECKPOINT_ID_TEXT_BYTES];

    log_info("stop", "allocation=%s life=%s pid=%" PRIu32 " cause=%d reason=%d grace_ms=%" PRIu64,
             allocation->entry.allocation_id, checkpoint_id_format(ask->life, life),
             allocation->entry.pid, (int)ask->cause, (int)ask->reason,
             kill_at_us > now_us ? (kill_at_us - now_us) / 1000 : 0);
}

void process_stop(struct allocation *allocation, const struct process_stop_ask *ask)
{
    struct process *process = &allocation->process;
    struct ledger_entry *entry = &allocation->entry;
    uint64_t kill_at_us = ask->kill_at_us != 0
                              ? ask->kill_at_us
                              : agent_now_us(allocation->agent) + ask->grace_ms * 1000;
    bool stopping = process_stopping(allocation);
    bool sooner = !stopping || kill_at_us < entry->kill_at_us;

    CHECK(ask->cause != STOP_BY_TAKEOVER);
    log_stop(allocation, ask, sooner ? kill_at_us : entry->kill_at_us);
    if (sooner && process->state != PROCESS_ABSENT)
        entry->kill_at_us = kill_at_us;
    if (!stopping || process->cause == STOP_BY_TAKEOVER)
        end_allocation(allocation, ask);
    else if (sooner)
        allocation_commit(allocation, NULL, 0);
    if (stopping)
        return;
    if (process->state == PROCESS_ABSENT) {
        entry->restart_awaited = false; /* told by what follows */
        finish_stop(allocation);
    } else {
        stop_start(allocation);
    }
}

uint64_t process_own_grace_ms(const struct allocation *allocation)
{
    return allocation->entry.grace_ms > 0 ? allocation->entry.grace_ms : OWN_GRACE_MS;
}

bool process_take_over(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    if (process->state != PROCESS_RUNNING)
        return false;
    log_warning("take_over", "allocation=%s pid=%" PRIu32 " text=\"its ckpt-run is gone\"",
                allocation->entry.allocation_id, allocation->entry.pid);
    process->cause = STOP_BY_TAKEOVER;
    allocation->entry.kill_at_us =
        agent_now_us(allocation->agent) + process_own_grace_ms(allocation) * 1000;
    stop_start(allocation);
    return true;
}

bool process_stopping(const struct allocation *allocation)
{
    return allocation->process.state == PROCESS_TERMINATING ||
           allocation->process.state == PROCESS_KILLING;
}

Ckpt__V1__Reason process_stop_reason(const struct allocation *allocation)
{
    return allocation->process.cause == STOP_BY_TAKEOVER
               ? CKPT__V1__REASON__REASON_APPLICATION_EXITED
               : (Ckpt__V1__Reason)allocation->entry.end_reason;
}

void process_unattended(struct allocation *allocation)
{
    allocation->process.unattended_us = agent_now_us(allocation->agent);
}

bool process_abandoned(const struct allocation *allocation)
{
    const struct process *process = &allocation->process;

    return process->state != PROCESS_ABSENT && allocation->stream == NULL &&
           agent_now_us(allocation->agent) - process->unattended_us >= ATTACH_AGAIN_WAIT_US;
}

/* ---- watching ---- */

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Its parent lives and has not taken its status: init, which takes over from a ckpt-run that is gone, would have done so. */
static bool unreaped(const struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct proc_stat stat;

    return machine->process_read(machine->context, (pid_t)allocation->entry.pid, &stat, NULL) ==
               0 &&
           stat.start_ticks == allocation->entry.start_ticks && stat.parent > 1;
}

/* How it ended is known, or nobody will tell any more. */
static void status_decided(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    if (process->wait_status != 0 && allocation->stream != NULL &&
        app_stream_waits(allocation->stream))
        process->will_restart = true;
    process_ended_by_itself(allocation);
}

/* Dead, but ckpt-run has not told how. While it is attached it will, however long it stands still: another word for the end would be a
 * guess that costs finished work. Without it, it gets a moment to come back. */
static void status_await(struct allocation *allocation)
{
    struct process *process = &allocation->process;
    uint64_t now_us = agent_now_us(allocation->agent);
    uint64_t waited_us = now_us - later_of(process->gone_us, process->unattended_us);
    uint64_t wait_us = unreaped(allocation) ? UNREAPED_STATUS_WAIT_US : STATUS_WAIT_US;

    note_take(allocation, "");
    if (process->status_known) {
        status_decided(allocation);
        return;
    }
    note_look_anew(allocation);
    if (allocation->stream != NULL && app_stream_tells(allocation->stream)) {
        if (now_us - later_of(process->gone_us, process->untold_us) >= UNTOLD_LOG_US) {
            process->untold_us = now_us;
            log_warning("status_awaited",
                        "allocation=%s pid=%" PRIu32
                        " text=\"it has ended, its ckpt-run is attached and does not say how\"",
                        allocation->entry.allocation_id, allocation->entry.pid);
        }
        clock_of(allocation)->timer_start(process->timer, STATUS_WAIT_US);
        return;
    }
    if (waited_us < wait_us || allocation->folder.opening != NULL)
        clock_of(allocation)->timer_start(process->timer, NOTE_POLL_US);
    else
        status_decided(allocation);
}

static void run_poll(struct allocation *allocation)
{
    struct process *process = &allocation->process;

    if (process->exit_waits)
        return;
    if (process->remains) {
        process_ended_by_itself(allocation);
        return;
    }
    if (leader_alive(allocation)) {
        process->gone_us = 0;
        clock_of(allocation)->timer_start(process->timer, RUN_POLL_US);
        return;
    }
    if (process->gone_us == 0)
        process->gone_us = agent_now_us(allocation->agent);
    status_await(allocation);
}

static void process_poll(void *data)
{
    struct allocation *allocation = data;

    switch (allocation->process.state) {
    case PROCESS_RUNNING:
        run_poll(allocation);
        return;
    case PROCESS_TERMINATING:
    case PROCESS_KILLING:
        stop_poll(allocation);
        return;
    case PROCESS_ABSENT:
        process_restart_poll(allocation);
        return;
    case PROCESS_STATE_COUNT:
        return;
    }
}

static void process_watch(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct process *process = &allocation->process;

    process->started_us = agent_now_us(allocation->agent);
    process->woken = false;
    process->gone_us = 0;
    process->untold_us = 0;
    process->killed_us = 0;
    process->unattended_us = process->started_us;
    process->status_known = false;
    process->wait_status = PROCESS_STATUS_UNKNOWN;
    process->told_to_end = false;
    process->will_restart = false;
    process->exit_waits = false;
    process->remains = false;
    process->kin_gone = false;
    process->ended_before = false;
    process_move(allocation, PROCESS_RUNNING);
    process->watch = machine->pid_watch(machine->context, (pid_t)allocation->entry.pid,
                                        process_poll, allocation);
    clock_of(allocation)->timer_start(process->timer, RUN_POLL_US);
}

/* ---- from outside ---- */

void process_init(struct allocation *allocation)
{
    allocation->process = (struct process){.state = PROCESS_ABSENT};
    allocation->process.timer =
        clock_of(allocation)->timer_new(clock_of(allocation)->context, process_poll, allocation);
}

void process_close(struct allocation *allocation)
{
    allocation_machine(allocation)->pid_watch_free(allocation->process.watch);
    allocation_machine(allocation)->kin_detach(allocation->process.look);
    clock_of(allocation)->timer_free(allocation->process.timer);
    allocation->process = (struct process){.state = PROCESS_ABSENT};
}

void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report)
{
    struct ledger_entry *entry = &allocation->entry;
    Ckpt__V1__AgentReport started;

    CHECK(allocation->process.state == PROCESS_ABSENT);
    entry->pid = (uint32_t)identity->pid;
    entry->start_ticks = identity->start_ticks;
    ledger_set_user(entry, identity->user.uid, identity->user.gid, identity->user.groups);
    entry->kill_at_us = 0;
    entry->restart_awaited = false;
    entry->start_granted = false;
    entry->started_at_ms = clock_of(allocation)->wall_ms(clock_of(allocation)->context);
    ckpt__v1__agent_report__init(&started);
    started.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED;
    started.restored_checkpoint_id = restored_checkpoint_id;
    started.life = entry->life;
    allocation_commit(allocation, report ? &started : NULL, agent_now_us(allocation->agent));
    process_watch(allocation);
    walltime_start(allocation); /* it may be over already */
}

void process_resume(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;
    bool walltime = entry->end_reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED;

    if (entry->pid == 0) {
        if (entry->restart_awaited || entry->start_granted)
            process_restart_await(allocation);
        return;
    }
    process_watch(allocation);
    if (entry->ended) /* the stop was under way */
        process_stop(allocation, &(struct process_stop_ask){
                                     .cause = walltime ? STOP_BY_WALLTIME : STOP_BY_ORDER,
                                     .reason = (Ckpt__V1__Reason)entry->end_reason,
                                     .grace_ms = process_own_grace_ms(allocation),
                                     .kill_at_us = entry->kill_at_us,
                                     .life = walltime ? entry->life : entry->ended_life});
    else if (!leader_alive(allocation))
        run_poll(allocation);
    allocation->process.ended_before = false; /* it may have been told to end before */
}

void process_woken(struct allocation *allocation, const char *note)
{
    if (allocation->process.state == PROCESS_ABSENT) {
        process_woken_absent(allocation, note);
        return;
    }
    if (!leader_alive(allocation))
        note_take(allocation, note);
    allocation->process.woken = true;
    process_poll(allocation);
}

void process_attempt_ended(struct allocation *allocation)
{
    if (allocation->process.exit_waits)
        report_exit(allocation);
    if (allocation->stream != NULL)
        app_stream_poll(allocation->stream);
}
