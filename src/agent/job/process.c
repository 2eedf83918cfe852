/* Sees what process_step.h decides upon, writes down what it says, and does it. See process.h. */
#include "src/agent/job/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/agent/app/app_server.h"
#include "src/agent/durable/end_note.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/walltime.h"
#include "src/base/check.h"
#include "src/base/log.h"

enum { ATTACH_AGAIN_WAIT_US = 3000000 }; /* a living ckpt-run connects again within a few tries */

static const struct clock_ops *clock_of(const struct allocation *allocation)
{
    return &allocation->agent->clock;
}

/* ---- seeing ---- */

/* Of the run that is known here: as it was told, or, for "", as it lies in the work folder. */
static bool find_note(const struct allocation *allocation, const char *told,
                      struct end_note *ret_note)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct machine_file file = {allocation->folder.opened, allocation_user(allocation),
                                      END_NOTE_NAME};
    char text[END_NOTE_BYTES];

    if (told[0] == '\0' && machine->file_read_own(machine->context, &file, text, sizeof(text)) < 0)
        return false;
    return end_note_read(told[0] != '\0' ? told : text, ret_note) &&
           ret_note->life == allocation->entry.life;
}

static bool leader_unreaped(const struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    struct proc_stat stat;

    return machine->process_read(machine->context, (pid_t)entry->pid, &stat, NULL) == 0 &&
           stat.start_ticks == entry->start_ticks && stat.parent > 1;
}

/* Whether anything of the group lives is looked for only where it counts: it takes all of /proc. */
static void see_process(const struct allocation *allocation, const struct process_event *event,
                        struct process_facts *facts)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    const char *told = event->kind == PROCESS_WOKEN ? event->why : "";
    bool ends = process_stopping(allocation) || event->kind == PROCESS_STOP ||
                event->kind == PROCESS_TAKE_OVER || entry->ended;

    facts->leader_alive = machine_alive(machine, (pid_t)entry->pid, entry->start_ticks);
    if (!facts->leader_alive || ends)
        facts->group_alive =
            machine_group_alive(machine, (pid_t)entry->pid, entry->start_ticks, entry->uid);
    if (facts->leader_alive)
        return;
    facts->unreaped = leader_unreaped(allocation);
    if (allocation->process.end == END_UNTOLD)
        facts->note_found = find_note(allocation, told, &facts->note);
}

/* A start that failed may be told by a note. */
static void see_nothing(struct allocation *allocation, const struct process_event *event,
                        struct process_facts *facts)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (event->kind == PROCESS_WOKEN)
        facts->note_found = find_note(allocation, event->why, &facts->note);
    else if (event->kind == PROCESS_LOOK && entry->start_granted && allocation->stream == NULL &&
             user_path_ready(&allocation->folder, entry->work_dir))
        facts->note_found = find_note(allocation, "", &facts->note);
}

static void see_caller(const struct app_stream *stream, struct process_facts *facts)
{
    facts->attached = stream != NULL;
    if (stream == NULL)
        return;
    facts->tells = app_stream_tells(stream);
    facts->waits = app_stream_waits(stream);
}

static void see_facts(struct allocation *allocation, const struct process_event *event,
                      struct process_facts *ret_facts)
{
    *ret_facts = (struct process_facts){
        .now_us = agent_now_us(allocation->agent),
        .wall_ms = clock_of(allocation)->wall_ms(clock_of(allocation)->context),
        .folder_opening = allocation->folder.opening != NULL,
        .attempt_busy = attempt_busy(&allocation->attempt),
        .attempt_puts = allocation->attempt.state == ATTEMPT_PUTTING};
    see_caller(allocation->stream, ret_facts);
    if (event->kind == PROCESS_STARTED || event->kind == PROCESS_UNATTENDED ||
        event->kind == PROCESS_KIN_LOOKED || event->kind == PROCESS_ATTEMPT_ENDED)
        return;
    if (allocation->entry.pid != 0)
        see_process(allocation, event, ret_facts);
    else
        see_nothing(allocation, event, ret_facts);
}

/* ---- doing ---- */

static void process_post(struct allocation *allocation, const struct process_event *event);

static void process_look(void *data)
{
    process_post(data, &(struct process_event){.kind = PROCESS_LOOK});
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

static void kin_looked(void *data, size_t count)
{
    struct allocation *allocation = data;

    allocation->process_executor.look = NULL;
    if (count > 0)
        log_info("kin_killed", "allocation=%s count=%zu", allocation->entry.allocation_id, count);
    process_post(allocation, &(struct process_event){.kind = PROCESS_KIN_LOOKED, .count = count});
}

static void look_for_kin(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    const struct ledger_entry *entry = &allocation->entry;
    struct kin kin = {.life = entry->life, .start_ticks = entry->start_ticks, .uid = entry->uid};

    memcpy(kin.allocation_id, entry->allocation_id, sizeof(kin.allocation_id));
    memcpy(kin.work_dir, entry->work_dir, sizeof(kin.work_dir));
    allocation->process_executor.look =
        machine->kin_kill(machine->context, &kin, kin_looked, allocation);
    if (allocation->process_executor.look != NULL)
        return;
    process_post(allocation, &(struct process_event){.kind = PROCESS_KIN_LOOKED});
    process_look(allocation);
}

/* What is held of the application that is no more. */
static void let_go(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct process_executor *executor = &allocation->process_executor;

    machine->pid_watch_free(executor->watch);
    machine->kin_detach(executor->look);
    executor->watch = NULL;
    executor->look = NULL;
    clock_of(allocation)->timer_stop(executor->timer);
    if (!attempt_busy(&allocation->attempt)) { /* many allocations are kept, few descriptors */
        user_path_close(&allocation->folder);
        user_path_close(&allocation->socket);
    }
}

static void log_stop(const struct allocation *allocation, const struct process_event *event,
                     uint64_t grace_us)
{
    const struct ledger_entry *entry = &allocation->entry;
    bool asked = event->kind == PROCESS_STOP;
    char life[CHECKPOINT_ID_TEXT_BYTES];

    log_info("stop", "allocation=%s life=%s pid=%" PRIu32 " cause=%d reason=%d grace_ms=%" PRIu64,
             entry->allocation_id,
             checkpoint_id_format(asked ? event->ask.life : entry->ended_life, life), entry->pid,
             (int)(asked ? event->ask.cause : allocation->process.cause),
             (int)(asked ? event->ask.reason : (Ckpt__V1__Reason)entry->end_reason),
             grace_us / 1000);
}

static void log_effect(const struct allocation *allocation, const struct process_event *event,
                       const struct process_effect *effect)
{
    const struct process *process = &allocation->process;
    const struct ledger_entry *entry = &allocation->entry;
    const char *id = entry->allocation_id;

    if (effect->kind == EFFECT_LOG_STOP)
        log_stop(allocation, event, effect->delay_us);
    else if (effect->kind == EFFECT_LOG_NOTE)
        log_info("end_note", "allocation=%s wait_status=%d told_to_end=%d", id,
                 (int)process->wait_status, process->end == END_ON_SIGNAL);
    else if (effect->kind == EFFECT_WARN_UNTOLD)
        log_warning("status_awaited",
                    "allocation=%s pid=%" PRIu32
                    " text=\"it has ended, its ckpt-run is attached and does not say how\"",
                    id, entry->pid);
    else if (effect->kind == EFFECT_WARN_UNKILLABLE)
        log_error("unkillable",
                  "allocation=%s group=%" PRIu32 " text=\"still there after SIGKILL\"", id,
                  entry->pid);
    else if (effect->kind == EFFECT_WARN_TAKE_OVER)
        log_warning("take_over", "allocation=%s pid=%" PRIu32 " text=\"its ckpt-run is gone\"", id,
                    entry->pid);
}

static void carry_out(struct allocation *allocation, const struct process_event *event,
                      const struct process_effect *effect)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct process_executor *executor = &allocation->process_executor;

    switch (effect->kind) {
    case EFFECT_WATCH:
        executor->watch = machine->pid_watch(machine->context, (pid_t)allocation->entry.pid,
                                             process_look, allocation);
        return;
    case EFFECT_TIMER:
        clock_of(allocation)->timer_start(executor->timer, effect->delay_us);
        return;
    case EFFECT_TIMER_STOP:
        clock_of(allocation)->timer_stop(executor->timer);
        return;
    case EFFECT_LOOK_AGAIN:
        process_look(allocation);
        return;
    case EFFECT_SIGNAL:
        signal_group(allocation, effect->signal);
        return;
    case EFFECT_LOOK_FOR_KIN:
        look_for_kin(allocation);
        return;
    case EFFECT_FOLDER_ANEW:
        user_path_close(&allocation->folder);
        (void)user_path_ready(&allocation->folder, allocation->entry.work_dir);
        return;
    case EFFECT_ATTEMPT_GONE:
        attempt_application_gone(allocation);
        return;
    case EFFECT_ATTEMPT_GIVE_UP:
        attempt_give_up(allocation, effect->reason);
        return;
    case EFFECT_END_STREAM:
        if (allocation->stream != NULL)
            app_stream_end(allocation->stream, effect->reason);
        return;
    case EFFECT_FORGET:
        let_go(allocation);
        return;
    case EFFECT_WALLTIME:
        walltime_start(allocation);
        return;
    case EFFECT_RECONCILE:
        agent_reconcile_soon(allocation->agent);
        return;
    case EFFECT_LOG_STOP:
    case EFFECT_LOG_NOTE:
    case EFFECT_WARN_UNTOLD:
    case EFFECT_WARN_UNKILLABLE:
    case EFFECT_WARN_TAKE_OVER:
        log_effect(allocation, event, effect);
        return;
    }
}

static void write_down(struct allocation *allocation, struct process_effects *effects)
{
    struct process_report *told = &effects->report;
    Ckpt__V1__AgentReport report;

    if (!effects->reporting) {
        allocation_commit(allocation, NULL, 0);
        return;
    }
    ckpt__v1__agent_report__init(&report);
    report.kind = told->kind;
    report.reason = told->reason;
    report.exit_status = told->exit_status;
    report.will_restart = told->will_restart;
    report.life = told->life;
    report.restored_checkpoint_id = told->restored_checkpoint_id;
    report.detail = told->detail;
    allocation_commit(allocation, &report, told->since_us);
}

static void take_event(struct allocation *allocation, const struct process_event *event)
{
    struct process *process = &allocation->process;
    enum process_state from = process->state;
    uint32_t pid = allocation->entry.pid;
    struct process_effects effects;
    struct process_facts facts;

    see_facts(allocation, event, &facts);
    process_step(process, &allocation->entry, event, &facts, &effects);
    if (process->state != from)
        log_info("process", "allocation=%s pid=%" PRIu32 " from=%s to=%s",
                 allocation->entry.allocation_id, pid != 0 ? pid : allocation->entry.pid,
                 process_state_name(from), process_state_name(process->state));
    if (effects.commit)
        write_down(allocation, &effects);
    for (size_t i = 0; i < effects.count; i++)
        carry_out(allocation, event, &effects.effects[i]);
}

/* What an effect brings about waits until all those before it are done. */
static void process_post(struct allocation *allocation, const struct process_event *event)
{
    struct process_executor *executor = &allocation->process_executor;

    CHECK(executor->waiting < PROCESS_EVENTS_MAX);
    executor->events[executor->waiting++] = *event;
    if (executor->stepping)
        return;
    executor->stepping = true;
    for (size_t i = 0; i < executor->waiting; i++)
        take_event(allocation, &executor->events[i]);
    executor->waiting = 0;
    executor->stepping = false;
}

/* ---- from outside ---- */

void process_init(struct allocation *allocation)
{
    allocation->process =
        (struct process){.state = PROCESS_ABSENT, .wait_status = PROCESS_STATUS_UNKNOWN};
    allocation->process_executor = (struct process_executor){0};
    allocation->process_executor.timer =
        clock_of(allocation)->timer_new(clock_of(allocation)->context, process_look, allocation);
}

void process_close(struct allocation *allocation)
{
    struct process_executor *executor = &allocation->process_executor;

    CHECK(!executor->stepping);
    allocation_machine(allocation)->pid_watch_free(executor->watch);
    allocation_machine(allocation)->kin_detach(executor->look);
    clock_of(allocation)->timer_free(executor->timer);
    allocation->process = (struct process){.state = PROCESS_ABSENT};
}

void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report)
{
    struct ledger_entry *entry = &allocation->entry;

    CHECK(allocation->process.state == PROCESS_ABSENT);
    ledger_set_user(entry, identity->user.uid, identity->user.gid, identity->user.groups);
    process_post(allocation,
                 &(struct process_event){.kind = PROCESS_STARTED,
                                         .pid = (uint32_t)identity->pid,
                                         .start_ticks = identity->start_ticks,
                                         .report = report,
                                         .restored_checkpoint_id = restored_checkpoint_id});
}

void process_restart_failed(struct allocation *allocation, const char *why)
{
    CHECK(!allocation->process_executor.stepping);
    process_post(allocation, &(struct process_event){.kind = PROCESS_RESTART_FAILED, .why = why});
}

void process_resume(struct allocation *allocation)
{
    process_post(allocation, &(struct process_event){.kind = PROCESS_RESUMED});
}

void process_woken(struct allocation *allocation, const char *note)
{
    CHECK(!allocation->process_executor.stepping);
    process_post(allocation, &(struct process_event){.kind = PROCESS_WOKEN, .why = note});
}

void process_stop(struct allocation *allocation, const struct process_stop_ask *ask)
{
    process_post(allocation, &(struct process_event){.kind = PROCESS_STOP, .ask = *ask});
}

bool process_take_over(struct allocation *allocation)
{
    if (!process_state_unstopped(allocation->process.state))
        return false;
    process_post(allocation, &(struct process_event){.kind = PROCESS_TAKE_OVER});
    return true;
}

bool process_stopping(const struct allocation *allocation)
{
    return process_state_stops(allocation->process.state);
}

Ckpt__V1__Reason process_stop_reason(const struct allocation *allocation)
{
    return process_stop_why(&allocation->process, &allocation->entry);
}

void process_unattended(struct allocation *allocation)
{
    process_post(allocation, &(struct process_event){.kind = PROCESS_UNATTENDED});
}

bool process_abandoned(const struct allocation *allocation)
{
    const struct process *process = &allocation->process;

    return process->state != PROCESS_ABSENT && allocation->stream == NULL &&
           agent_now_us(allocation->agent) - process->unattended_us >= ATTACH_AGAIN_WAIT_US;
}

void process_attempt_ended(struct allocation *allocation)
{
    process_post(allocation, &(struct process_event){.kind = PROCESS_ATTEMPT_ENDED});
    if (allocation->stream != NULL)
        app_stream_poll(allocation->stream);
}
