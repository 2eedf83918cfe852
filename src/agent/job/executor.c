/* Carries out what a job's steps decide. See executor.h. */
#include "src/agent/job/executor.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "fsm/names.h"
#include "src/agent/job/allocation.h"
#include "src/agent/job/copies.h"
#include "src/agent/job/memory.h"
#include "src/agent/job/ranks.h"
#include "src/agent/job/ranks_stream.h"
#include "src/agent/job/sight.h"
#include "src/base/check.h"
#include "src/base/log.h"

static const struct clock_ops *clock_of(const struct allocation *allocation)
{
    return &allocation->agent->clock;
}

/* ---- events ---- */

void process_post(struct allocation *allocation, enum process_event_kind kind)
{
    CHECK(kind != PROCESS_STARTED && kind != PROCESS_WOKEN);
    CHECK(kind != PROCESS_STOP && kind != PROCESS_RESTART_FAILED);
    job_post(allocation, &(struct job_event){.part = JOB_PROCESS, .process = {.kind = kind}});
}

void attempt_post(struct allocation *allocation, enum attempt_event_kind kind,
                  const Ckpt__V1__Order *order)
{
    CHECK(order != NULL ||
          (kind != ATTEMPT_START && kind != ATTEMPT_EXTEND && kind != ATTEMPT_HURRY));
    CHECK(kind != ATTEMPT_UNASKED && kind != ATTEMPT_BROKE && kind != ATTEMPT_UNFROZEN);
    CHECK(kind != ATTEMPT_DEFER && kind != ATTEMPT_PUT_ENDED && kind != ATTEMPT_GIVE_UP);
    CHECK(order == NULL || !allocation->executor.stepping);
    job_post(allocation,
             &(struct job_event){.part = JOB_ATTEMPT, .attempt = {.kind = kind, .order = order}});
}

void walltime_post(struct allocation *allocation, enum walltime_event_kind kind,
                   const struct walltime_word *word)
{
    job_post(allocation,
             &(struct job_event){.part = JOB_WALLTIME, .walltime = {.kind = kind, .word = *word}});
}

/* Each reason once: the agent's log is read, not each job's. */
static void tell_no_cgroup(struct allocation *allocation, const struct err *why)
{
    const uint32_t bit = UINT32_C(1) << why->code;

    CHECK(why->code < 32);
    if ((allocation->agent->cgroup_told & bit) != 0)
        return;
    allocation->agent->cgroup_told |= bit;
    log_warning("no_cgroup", "allocation=%s text=\"%s; others for such a reason are not logged\"",
                allocation->entry.allocation_id, why->text);
}

/* What is held gets a group of its own, before it can start anything; what runs has one or not. */
static void take_cgroup(struct allocation *allocation, const struct process_identity *identity,
                        bool held)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct ledger_entry *entry = &allocation->entry;
    struct job_identity job;
    struct err why;

    allocation_identity(entry, &job);
    job.group = identity->pid;
    job.stragglers.start_ticks = identity->start_ticks;
    job.cgroup[0] = '\0';
    if (!held) {
        machine->job_find(machine->context, &job);
    } else if (allocation->agent->cgroups.jobs[0] != '\0' &&
               machine->job_place(machine->context, &allocation->agent->cgroups, &job, &why) != 0) {
        job.cgroup[0] = '\0';
        tell_no_cgroup(allocation, &why);
    }
    memcpy(entry->cgroup, job.cgroup, sizeof(entry->cgroup));
}

void process_attached(struct allocation *allocation, const struct process_identity *identity,
                      uint64_t restored_checkpoint_id, bool report)
{
    CHECK(allocation->process.state == PROCESS_ABSENT);
    ledger_set_user(&allocation->entry, identity->user.uid, identity->user.gid,
                    identity->user.groups);
    take_cgroup(allocation, identity, report);
    job_post(allocation,
             &(struct job_event){.part = JOB_PROCESS,
                                 .process = {.kind = PROCESS_STARTED,
                                             .pid = (uint32_t)identity->pid,
                                             .start_ticks = identity->start_ticks,
                                             .report = report,
                                             .restored_checkpoint_id = restored_checkpoint_id}});
}

void process_restart_failed(struct allocation *allocation, const char *why, bool granted)
{
    CHECK(!allocation->executor.stepping);
    job_post(allocation,
             &(struct job_event){
                 .part = JOB_PROCESS,
                 .process = {.kind = PROCESS_RESTART_FAILED, .why = why, .granted = granted}});
}

void process_woken(struct allocation *allocation, const char *note)
{
    CHECK(!allocation->executor.stepping);
    job_post(allocation, &(struct job_event){.part = JOB_PROCESS,
                                             .process = {.kind = PROCESS_WOKEN, .why = note}});
}

void process_stop(struct allocation *allocation, const struct process_stop_ask *ask)
{
    CHECK(ask->cause != STOP_BY_TAKEOVER);
    job_post(allocation, &(struct job_event){.part = JOB_PROCESS,
                                             .process = {.kind = PROCESS_STOP, .ask = *ask}});
}

static void process_look(void *data)
{
    process_post(data, PROCESS_LOOK);
}

static void attempt_tick(void *data)
{
    attempt_post(data, ATTEMPT_TICK, NULL);
}

static void path_looked(void *data)
{
    attempt_post(data, ATTEMPT_LOOKED, NULL);
}

static void walltime_fired(void *data)
{
    walltime_post(data, WALLTIME_OVER, &(struct walltime_word){0});
}

static void post_give_up(struct allocation *allocation, Ckpt__V1__Reason reason)
{
    CHECK(process_state_stops(allocation->process.state));
    job_post(allocation,
             &(struct job_event){.part = JOB_ATTEMPT,
                                 .attempt = {.kind = ATTEMPT_GIVE_UP, .reason = reason}});
}

/* ---- effects ---- */

static void signal_group(const struct allocation *allocation, int signal)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    pid_t group = (pid_t)allocation->entry.pid;

    CHECK(allocation->process.state != PROCESS_ABSENT);
    CHECK(group > 1);
    if (machine->group_signal(machine->context, group, signal, NULL) == 0)
        log_info("signal", "allocation=%s group=%d signal=%d", allocation->entry.allocation_id,
                 (int)group, signal);
}

static void ending_done(void *data, const struct still_result *result)
{
    struct allocation *allocation = data;

    CHECK(allocation->executor.ending != NULL);
    allocation->executor.ending = NULL;
    log_info("signalled", "allocation=%s way=%s processes=%zu rounds=%" PRIu32,
             allocation->entry.allocation_id, still_way_name(allocation->executor.ending_way),
             result->count, result->rounds);
}

/* The whole job, wherever its launcher has put it. A kill overtakes what asks it to end. */
static void end_job(struct allocation *allocation, enum still_way way)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;
    struct job_identity job;

    if (way == STILL_KILL && executor->ending != NULL && executor->ending_way == STILL_END)
        signal_group(allocation,
                     SIGTERM); /* it may not have heard of it yet: its grace was short */
    if (way == STILL_KILL)
        signal_group(allocation, SIGKILL); /* at once: the rest takes a look at /proc */
    if (executor->ending != NULL) {
        if (executor->ending_way != way)
            machine->job_still_change(executor->ending, way);
        executor->ending_way = way;
        return;
    }
    allocation_identity(&allocation->entry, &job);
    executor->ending_way = way;
    executor->ending = machine->job_still(machine->context, &job, way, ending_done, allocation);
    if (executor->ending != NULL || way == STILL_KILL)
        return;
    signal_group(allocation, SIGCONT); /* a stopped process would not see the next one */
    signal_group(allocation, SIGTERM);
}

static void stragglers_looked(void *data, size_t count)
{
    struct allocation *allocation = data;

    CHECK(allocation->executor.look != NULL);
    allocation->executor.look = NULL;
    if (count > 0 && allocation->executor.look_kills)
        log_info("stragglers_killed", "allocation=%s count=%zu", allocation->entry.allocation_id,
                 count);
    job_post(allocation,
             &(struct job_event){.part = JOB_PROCESS,
                                 .process = {.kind = PROCESS_STRAGGLERS_LOOKED, .count = count}});
}

static void look_for_stragglers(struct allocation *allocation, bool kill)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;
    struct job_identity job;

    CHECK(executor->look == NULL);
    CHECK(allocation->process.stragglers == STRAGGLERS_LOOKED_FOR);
    allocation_identity(&allocation->entry, &job);
    executor->look_kills = kill;
    executor->look =
        machine->stragglers_find(machine->context, &job, kill, stragglers_looked, allocation);
    if (executor->look != NULL)
        return;
    process_post(allocation, PROCESS_STRAGGLERS_LOOKED);
    process_post(allocation, PROCESS_LOOK);
}

/* What is held of the application that is no more. */
static void let_go(struct allocation *allocation)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;

    CHECK(allocation->process.state == PROCESS_ABSENT);
    machine->pid_watch_free(executor->watch);
    machine->stragglers_detach(executor->look);
    machine->job_still_detach(executor->still);
    machine->job_still_detach(executor->ending);
    executor->watch = NULL;
    executor->look = NULL;
    executor->still = NULL;
    executor->ending = NULL;
    clock_of(allocation)->timer_stop(executor->timer);
    if (allocation->entry.cgroup[0] != '\0')
        machine->job_leave(machine->context, allocation->entry.cgroup);
    allocation->entry.cgroup[0] = '\0';
    if (!attempt_busy(&allocation->attempt)) { /* many allocations are kept, few descriptors */
        user_path_close(&allocation->folder);
        user_path_close(&allocation->socket);
    }
    memory_close(allocation);
    allocation_rest(allocation);
}

static void log_stop(const struct allocation *allocation, const struct job_event *event,
                     uint64_t grace_us)
{
    const struct ledger_entry *entry = &allocation->entry;
    const struct process *process = &allocation->process;
    bool asked = event->part == JOB_PROCESS && event->process.kind == PROCESS_STOP;
    char run[CHECKPOINT_ID_TEXT_BYTES];

    log_info("stop", "allocation=%s run=%s pid=%" PRIu32 " cause=%s reason=%s grace_ms=%" PRIu64,
             entry->allocation_id,
             checkpoint_id_format(asked ? event->process.ask.run : entry->ended_run, run),
             entry->pid, process_stop_cause_name(asked ? event->process.ask.cause : process->cause),
             fsm_enum_name(&ckpt__v1__reason__descriptor,
                           asked ? (int)event->process.ask.reason : (int)entry->end_reason),
             grace_us / 1000);
}

static void log_effect(const struct allocation *allocation, const struct job_event *event,
                       const struct job_effect *effect)
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

static void set_walltime(struct allocation *allocation)
{
    struct clock_timer *timer = allocation->executor.walltime_timer;
    uint64_t now_us = agent_now_us(allocation->agent);
    uint64_t deadline_us = allocation->entry.deadline_us;

    if (deadline_us == 0)
        clock_of(allocation)->timer_stop(timer);
    else
        clock_of(allocation)->timer_start(timer, deadline_us > now_us ? deadline_us - now_us : 0);
}

static void attempt_ended(struct allocation *allocation)
{
    CHECK(!attempt_busy(&allocation->attempt));
    CHECK(allocation->executor.put_job == NULL);
    ranks_forget(allocation);
    process_post(allocation, PROCESS_ATTEMPT_ENDED);
    if (allocation->stream != NULL)
        allocation->agent->callers->poll(allocation->stream);
    allocation_rest(allocation);
    agent_reconcile_soon(allocation->agent);
}

static void open_folder(struct allocation *allocation)
{
    const struct ledger_entry *entry = &allocation->entry;

    (void)user_path_ready(&allocation->folder, entry->work_dir, entry->uid);
}

/* Of what is held open, and of all parts. */
static void carry_out_shared(struct allocation *allocation, const struct job_event *event,
                             const struct job_effect *effect)
{
    switch ((int)effect->kind) {
    case EFFECT_FOLDER_ANEW:
        user_path_close(&allocation->folder);
        open_folder(allocation);
        return;
    case EFFECT_FOLDER_OPEN:
        open_folder(allocation);
        return;
    case EFFECT_FOLDER_CLOSE:
        user_path_close(&allocation->folder);
        return;
    case EFFECT_SOCKET_CLOSE:
        user_path_close(&allocation->socket);
        return;
    case EFFECT_ATTEMPT_GONE:
        attempt_post(allocation, ATTEMPT_GONE, NULL);
        return;
    case EFFECT_ATTEMPT_GIVE_UP:
        post_give_up(allocation, effect->reason);
        return;
    case EFFECT_ATTEMPT_ENDED:
        attempt_ended(allocation);
        return;
    case EFFECT_WALLTIME:
        set_walltime(allocation);
        return;
    case EFFECT_RECONCILE:
        agent_reconcile_soon(allocation->agent);
        return;
    default:
        log_effect(allocation, event, effect);
        return;
    }
}

static void carry_out(struct allocation *allocation, const struct job_event *event,
                      const struct job_effect *effect)
{
    const struct machine_ops *machine = allocation_machine(allocation);
    struct executor *executor = &allocation->executor;

    CHECK(executor->stepping);
    switch ((int)effect->kind) {
    case EFFECT_WATCH:
        CHECK(executor->watch == NULL);
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
        end_job(allocation, effect->signal == SIGKILL ? STILL_KILL : STILL_END);
        return;
    case EFFECT_LOOK_FOR_STRAGGLERS:
        look_for_stragglers(allocation, effect->signal == SIGKILL);
        return;
    case EFFECT_END_STREAM:
        if (allocation->stream != NULL)
            allocation->agent->callers->end(allocation->stream, effect->reason);
        return;
    case EFFECT_FORGET:
        let_go(allocation);
        return;
    default:
        carry_out_shared(allocation, event, effect);
        return;
    }
}

/* ---- the step ---- */

static void count_report(struct agent_counters *counters, Ckpt__V1__ReportKind kind)
{
    counters->checkpoints_started += kind == CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED;
    counters->checkpoints_verified += kind == CKPT__V1__REPORT_KIND__REPORT_KIND_SHARD_VERIFIED;
    counters->checkpoints_failed += kind == CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED;
    counters->checkpoints_abandoned += kind == CKPT__V1__REPORT_KIND__REPORT_KIND_STOPPED_WRITING;
    counters->deferrals += kind == CKPT__V1__REPORT_KIND__REPORT_KIND_DEFERRED;
}

static void write_down(struct allocation *allocation, struct job_effects *effects)
{
    CHECK(allocation->executor.stepping);
    CHECK(effects->commit);
    if (effects->reporting)
        count_report(&allocation->agent->counters, effects->report.kind);
    allocation_commit(allocation, effects->reporting ? &effects->report : NULL, effects->since_us);
}

static void count_walltime(struct allocation *allocation, const struct job_event *event)
{
    struct agent_counters *counters = &allocation->agent->counters;

    if (event->part != JOB_WALLTIME || event->walltime.kind != WALLTIME_OVER ||
        !process_state_unstopped(allocation->process.state))
        return;
    counters->walltime_kills++;
    counters->walltime_conflicts += attempt_busy(&allocation->attempt);
}

static void log_moves(const struct allocation *allocation, enum process_state process, uint32_t pid,
                      enum attempt_state attempt)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (allocation->process.state != process)
        log_info("process", "allocation=%s pid=%" PRIu32 " from=%s to=%s", entry->allocation_id,
                 pid != 0 ? pid : entry->pid, process_state_name(process),
                 process_state_name(allocation->process.state));
    if (allocation->attempt.state != attempt)
        log_info("attempt", "allocation=%s hint=%s from=%s to=%s", entry->allocation_id,
                 allocation->attempt.hint, attempt_state_name(attempt),
                 attempt_state_name(allocation->attempt.state));
}

static void log_walltime(const struct allocation *allocation, const struct job_event *event)
{
    const struct ledger_entry *entry = &allocation->entry;

    if (event->part == JOB_WALLTIME && event->walltime.kind == WALLTIME_TOLD &&
        entry->deadline_us != 0)
        log_info("walltime", "allocation=%s remaining_ms=%" PRIu64 " grace_ms=%" PRIu64,
                 entry->allocation_id, event->walltime.word.remaining_ms, entry->grace_ms);
}

static void take_event(struct allocation *allocation, const struct job_event *event)
{
    const struct job job = {&allocation->process, &allocation->attempt, &allocation->entry};
    enum process_state process = allocation->process.state;
    enum attempt_state attempt = allocation->attempt.state;
    uint32_t pid = allocation->entry.pid;
    struct job_effects effects;
    struct job_facts facts;

    CHECK(allocation->executor.stepping);
    count_walltime(allocation, event);
    sight_see(allocation, event, &facts);
    job_step(&job, event, &facts, &effects);
    log_moves(allocation, process, pid, attempt);
    if (effects.commit) {
        write_down(allocation, &effects);
        log_walltime(allocation, event);
    }
    for (size_t i = 0; i < effects.count; i++) {
        if (!attempt_carry_out(allocation, &effects, &effects.effects[i]))
            carry_out(allocation, event, &effects.effects[i]);
    }
}

/* What an effect brings about waits until all those before it are done. */
void job_post(struct allocation *allocation, const struct job_event *event)
{
    struct executor *executor = &allocation->executor;

    CHECK(executor->waiting < JOB_EVENTS_MAX);
    CHECK(executor->stepping || executor->waiting == 0);
    executor->events[executor->waiting++] = *event;
    if (executor->stepping)
        return;
    executor->stepping = true;
    for (size_t i = 0; i < executor->waiting; i++)
        take_event(allocation, &executor->events[i]);
    executor->waiting = 0;
    executor->stepping = false;
}

/* ---- begin and end ---- */

void executor_init(struct allocation *allocation)
{
    const struct clock_ops *clock = clock_of(allocation);
    struct executor *executor = &allocation->executor;

    allocation->process =
        (struct process){.state = PROCESS_ABSENT, .wait_status = PROCESS_STATUS_UNKNOWN};
    allocation->attempt = (struct attempt){.state = ATTEMPT_NONE};
    executor->ask = ask_find("");
    CHECK(executor->ask != NULL);
    executor->ranks_looked = path_looked;
    executor->hearing = &attempt_hearing;
    executor->timer = clock->timer_new(clock->context, process_look, allocation);
    executor->attempt_timer = clock->timer_new(clock->context, attempt_tick, allocation);
    executor->walltime_timer = clock->timer_new(clock->context, walltime_fired, allocation);
    allocation->folder = (struct user_path){.machine = allocation_machine(allocation),
                                            .clock = clock,
                                            .looked = path_looked,
                                            .data = allocation,
                                            .kind = OPENED_FOLDER};
    allocation->socket = allocation->folder;
    allocation->socket.kind = OPENED_SOCKET;
}

void executor_close(struct allocation *allocation)
{
    struct executor *executor = &allocation->executor;

    CHECK(!executor->stepping);
    CHECK(executor->waiting == 0);
    attempt_detach(allocation);
    copies_detach(allocation);
    ranks_hang_up(allocation);
    allocation_machine(allocation)->pid_watch_free(executor->watch);
    allocation_machine(allocation)->stragglers_detach(executor->look);
    allocation_machine(allocation)->job_still_detach(executor->ending);
    clock_of(allocation)->timer_free(executor->timer);
    clock_of(allocation)->timer_free(executor->attempt_timer);
    clock_of(allocation)->timer_free(executor->walltime_timer);
    user_path_close(&allocation->folder);
    user_path_close(&allocation->socket);
}
