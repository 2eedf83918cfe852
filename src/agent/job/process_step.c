/* The application's process group as a pure state machine. See process_step.h. */
#include "src/agent/job/process_step.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

enum {
    STOP_POLL_US = 50000,
    RUN_POLL_US = 5000000, /* beside the pidfd, and its ckpt-run's word */
    NOTE_POLL_US = 200000,
    STATUS_WAIT_US = 3000000, /* for a ckpt-run that has to attach again to tell the wait status */
    UNREAPED_STATUS_WAIT_US = 60000000, /* ...that is there and stands still */
    STOPPED_STATUS_WAIT_US = 500000,
    REFUSED_STATUS = 125 << 8, /* a ckpt-run that the agent refuses leaves with it */
    RESTART_POLL_US = 1000000,
    RESTART_WAIT_US = 5000000, /* for ckpt-run to come back, or to connect again */
    WARN_US = 30000000
};

/* ---- what a step works on ---- */

struct step {
    struct process *process;
    struct ledger_entry *entry;
    const struct process_facts *facts;
    struct job_effects *effects;
};

static struct job_effect *add_effect(const struct step *step, enum job_effect_kind kind)
{
    return job_effect_add(step->effects, kind);
}

static void add_timer(const struct step *step, uint64_t delay_us)
{
    add_effect(step, EFFECT_TIMER)->delay_us = delay_us;
}

static void add_signal(const struct step *step, int signal)
{
    CHECK(step->entry->pid > 1);
    add_effect(step, EFFECT_SIGNAL)->signal = signal;
}

static void move_to(const struct step *step, enum process_state to)
{
    CHECK(process_move_allowed(step->process->state, to));
    step->process->state = to;
}

static bool time_to_warn(const struct step *step)
{
    CHECK(step->facts->now_us >= step->process->warned_us);
    if (step->facts->now_us - step->process->warned_us < WARN_US)
        return false;
    step->process->warned_us = step->facts->now_us;
    return true;
}

static Ckpt__V1__AgentReport *begin_report(const struct step *step, Ckpt__V1__ReportKind kind)
{
    return job_report_begin(step->effects, kind, step->entry->run);
}

static void set_detail(const struct step *step, const char *text)
{
    job_report_detail(step->effects, text);
}

/* ---- ends ---- */

/* There was nothing left to stop. Not of an application of an earlier run than the one that was to
 * end, whose end is waited for. */
static bool ended_before_stop(const struct step *step)
{
    return step->process->ended_before && step->process->stop_run <= step->entry->run;
}

/* Nobody could tell how it ended, nor was it told to: it may turn out that its work is complete. */
static bool ended_unseen(const struct step *step)
{
    const struct process *process = step->process;

    return process->end == END_UNTOLD && !process->will_restart &&
           (!process_state_stops(process->state) || ended_before_stop(step));
}

/* The application is no more; what its owner is told of it stays. */
static void forget_process(const struct step *step)
{
    struct process *process = step->process;
    struct ledger_entry *entry = step->entry;

    CHECK(process->state == PROCESS_HELD || process->state == PROCESS_LEAVING);
    CHECK(process->stragglers == STRAGGLERS_GONE);
    if (!ended_unseen(step))
        entry->start_ticks = 0;
    entry->ended_at_ms = step->facts->wall_ms;
    entry->ended_status = (uint32_t)process->wait_status;
    entry->pid = 0;
    entry->still = STANDING_NOT;
    entry->stray_count = 0;
    entry->kill_at_us = 0;
    process->gone_us = 0;
    process->stragglers = STRAGGLERS_UNKNOWN;
    move_to(step, PROCESS_ABSENT);
    add_effect(step, EFFECT_FORGET);
}

static void await_start(const struct step *step)
{
    CHECK(step->process->state == PROCESS_ABSENT);
    CHECK(step->entry->restart_awaited || step->entry->start_granted);

    step->process->alone_us = step->facts->now_us;
    add_timer(step, RESTART_POLL_US);
}

static void tell_exit(const struct step *step)
{
    struct process *process = step->process;
    Ckpt__V1__AgentReport *report =
        begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);

    CHECK(process->state == PROCESS_HELD || process->state == PROCESS_LEAVING);
    report->exit_status = process->wait_status;
    report->will_restart = process->will_restart;
    report->end = process_end(process);
    if (process->wait_status != 0)
        report->reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    set_detail(step, process_end_detail(process));
    forget_process(step);
    if (process->will_restart) {
        step->entry->restart_awaited = true;
        step->entry->awaited_status = process->wait_status;
        await_start(step);
    }
    add_effect(step, EFFECT_RECONCILE);
}

/* The work was done before the stop and need not be done again. */
static bool finished_before_stop(const struct step *step)
{
    return ended_before_stop(step) && step->process->end == END_STATUS &&
           step->process->wait_status == 0;
}

static void tell_stop(const struct step *step)
{
    struct process *process = step->process;
    struct ledger_entry *entry = step->entry;
    bool walltime = process->cause == STOP_BY_WALLTIME;
    Ckpt__V1__AgentReport *report;

    CHECK(process->state == PROCESS_ABSENT || process->state == PROCESS_LEAVING);
    if (process->cause == STOP_BY_TAKEOVER) {
        process->will_restart = true;
        tell_exit(step);
        return;
    }
    report = begin_report(step, walltime ? CKPT__V1__REPORT_KIND__REPORT_KIND_WALLTIME_KILLED
                                         : CKPT__V1__REPORT_KIND__REPORT_KIND_TERMINATED);
    report->reason = (Ckpt__V1__Reason)entry->end_reason;
    report->run = walltime ? entry->run : process->stop_run;
    report->exit_status = process->wait_status;
    report->end = process->end_asked ? process_end(process) : report->end;
    if (finished_before_stop(step)) {
        report->kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
        report->reason = CKPT__V1__REASON__REASON_NONE;
        report->run = entry->run;
    }
    if (process->state != PROCESS_ABSENT)
        forget_process(step);
    else
        set_detail(step, "no application of it was known on this node");
    entry->terminated = entry->terminated || !walltime;
    add_effect(step, EFFECT_RECONCILE);
}

/* ---- nothing of it runs ---- */

/* It was to be started again in place, and will not be: the allocation has ended. */
static void tell_restart_failed(const struct step *step, const char *why)
{
    struct ledger_entry *entry = step->entry;
    Ckpt__V1__AgentReport *report;

    CHECK(step->process->state == PROCESS_ABSENT);
    CHECK(entry->restart_awaited);
    entry->restart_awaited = false;
    entry->start_granted = false;
    add_effect(step, EFFECT_TIMER_STOP);
    report = begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
    report->reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    report->exit_status = entry->awaited_status;
    snprintf(step->effects->detail, sizeof(step->effects->detail), "not started again: %.160s",
             why);
    add_effect(step, EFFECT_RECONCILE);
}

/* ckpt-run could not start it: the allocation ends as by an application that ended so. */
static void tell_start_failed(const struct step *step, int32_t wait_status, const char *why)
{
    Ckpt__V1__AgentReport *report;

    CHECK(step->process->state == PROCESS_ABSENT);
    CHECK(step->entry->start_granted);
    if (step->entry->restart_awaited) {
        tell_restart_failed(step, why);
        return;
    }
    step->entry->start_granted = false;
    report = begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
    report->reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    report->exit_status = wait_status != 0 ? wait_status : PROCESS_STATUS_UNKNOWN;
    snprintf(step->effects->detail, sizeof(step->effects->detail), "not started: %.160s", why);
    add_effect(step, EFFECT_RECONCILE);
}

/* Of what could not be started. */
static bool failed_note(const struct step *step)
{
    return step->facts->note_found && step->facts->note.pid == 0;
}

static void look_absent(const struct step *step)
{
    struct process *process = step->process;
    const struct ledger_entry *entry = step->entry;
    const struct process_facts *facts = step->facts;

    CHECK(process->state == PROCESS_ABSENT);
    if (!entry->restart_awaited && !entry->start_granted)
        return;
    if (entry->start_granted && !facts->attached && failed_note(step)) {
        tell_start_failed(step, facts->note.wait_status, facts->note.why);
        return;
    }
    if (facts->attached)
        process->alone_us = facts->now_us;
    if (facts->now_us - process->alone_us < RESTART_WAIT_US)
        add_timer(step, RESTART_POLL_US);
    else if (entry->restart_awaited)
        tell_restart_failed(step, "ckpt-run is gone");
}

/* Its end was told as of one that nobody saw. Only of this very start, and while none of its run is
 * awaited. */
static void tell_finished_late(const struct step *step)
{
    struct ledger_entry *entry = step->entry;
    const struct end_note *note = &step->facts->note;

    CHECK(step->process->state == PROCESS_ABSENT);
    if (!step->facts->note_found || note->wait_status != 0 || note->told_to_end ||
        note->will_restart || entry->restart_awaited || note->start_ticks == 0 ||
        note->start_ticks == LEDGER_NEVER_STARTED || note->start_ticks != entry->start_ticks)
        return;
    entry->start_ticks = 0;
    begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
    set_detail(step, "its ckpt-run tells only now how it ended");
    add_effect(step, EFFECT_RECONCILE);
}

static void woken_absent(const struct step *step)
{
    const struct end_note *note = &step->facts->note;

    CHECK(step->process->state == PROCESS_ABSENT);
    if (!step->entry->start_granted)
        tell_finished_late(step);
    else if (failed_note(step))
        tell_start_failed(step, note->wait_status, note->why);
    else
        tell_start_failed(step, PROCESS_STATUS_UNKNOWN, "its ckpt-run does not say why");
}

/* ---- it ended by itself ---- */

/* What was found is of exactly the start that has ended. */
static void take_note(const struct step *step)
{
    struct process *process = step->process;
    const struct ledger_entry *entry = step->entry;
    const struct end_note *note = &step->facts->note;

    CHECK(process->state != PROCESS_ABSENT);
    if (process->end != END_UNTOLD || !step->facts->note_found || step->facts->main_alive ||
        entry->start_ticks == LEDGER_NEVER_STARTED || note->pid != entry->pid ||
        note->start_ticks != entry->start_ticks)
        return;
    process->end = note->told_to_end && note->wait_status == 0 ? END_ON_SIGNAL : END_STATUS;
    if (process->end == END_STATUS)
        process->wait_status = note->wait_status;
    snprintf(process->why, sizeof(process->why), "%s", note->why);
    process->will_restart = note->will_restart && !entry->ended;
    process->end_asked = note->told_to_end;
    add_effect(step, EFFECT_LOG_NOTE);
}

/* Its ckpt-run says that the note lies in the folder of that name: what was opened under it may be
 * another one, removed since. */
static void seek_note(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process->gone_us != 0);
    if (process->end != END_UNTOLD || !process->note_told || step->facts->attempt_busy)
        return;
    process->note_told = false;
    add_effect(step, EFFECT_FOLDER_ANEW);
}

/* Nothing is left of it. Once its group has gone what has left that is looked for; it has the same
 * grace as the group, where that has one. */
static bool all_gone(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process->state != PROCESS_ABSENT);
    CHECK(process->state != PROCESS_RUNNING);
    if (step->facts->group_alive)
        return false;
    if (step->entry->start_ticks == LEDGER_NEVER_STARTED)
        process->stragglers = STRAGGLERS_GONE;
    if (process->stragglers == STRAGGLERS_UNKNOWN) {
        process->stragglers = STRAGGLERS_LOOKED_FOR;
        add_effect(step, EFFECT_LOOK_FOR_STRAGGLERS)->signal =
            process->state == PROCESS_TERMINATING ? 0 : SIGKILL;
    }
    return process->stragglers == STRAGGLERS_GONE;
}

/* A shard that the worker is copying is worth more than telling at once that the application
 * crashed: it is what the restart needs. An application that finished needs no checkpoint, so that
 * is told at once. */
static void look_held(const struct step *step)
{
    CHECK(step->process->state == PROCESS_HELD);
    if (step->process->wait_status != 0 && step->facts->attempt_puts)
        add_effect(step, EFFECT_TIMER_STOP);
    else
        tell_exit(step);
}

static void look_clearing(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process->state == PROCESS_CLEARING);
    if (all_gone(step)) {
        move_to(step, PROCESS_HELD);
        add_effect(step, EFFECT_ATTEMPT_GONE);
        add_effect(step, EFFECT_LOOK_AGAIN);
        return;
    }
    if (process->killed_us == 0)
        process->killed_us = process->warned_us = step->facts->now_us;
    if (step->facts->group_alive)
        add_signal(step, SIGKILL);
    if (time_to_warn(step))
        add_effect(step, EFFECT_WARN_UNKILLABLE);
    add_timer(step, STOP_POLL_US);
}

/* How it ended is known, or nobody will tell any more. */
static void decide_end(const struct step *step)
{
    struct process *process = step->process;

    CHECK(!step->facts->main_alive);
    if (process->wait_status != 0 && step->facts->waits)
        process->will_restart = true;
    move_to(step, PROCESS_CLEARING);
    look_clearing(step);
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Dead, but nobody has told how. While its ckpt-run is attached it will, however long it stands
 * still: another word for the end would be a guess that costs finished work. Without it, it gets a
 * moment to come back. */
static void await_note(const struct step *step)
{
    struct process *process = step->process;
    const struct process_facts *facts = step->facts;
    uint64_t waited_us = facts->now_us - later_of(process->gone_us, process->unattended_us);
    uint64_t wait_us = facts->unreaped ? UNREAPED_STATUS_WAIT_US : STATUS_WAIT_US;

    CHECK(process->state == PROCESS_ENDED);
    CHECK(process->end == END_UNTOLD);
    seek_note(step);
    if (facts->tells) {
        if (time_to_warn(step))
            add_effect(step, EFFECT_WARN_UNTOLD);
        add_timer(step, STATUS_WAIT_US);
    } else if (waited_us < wait_us || facts->folder_opening) {
        add_timer(step, NOTE_POLL_US);
    } else {
        decide_end(step);
    }
}

static void look_ended(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process->state == PROCESS_ENDED);
    if (step->facts->main_alive) {
        process->gone_us = 0;
        move_to(step, PROCESS_RUNNING);
        add_timer(step, RUN_POLL_US);
        return;
    }
    if (process->end != END_UNTOLD)
        decide_end(step);
    else
        await_note(step);
}

static void look_running(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process->state == PROCESS_RUNNING);
    if (step->facts->main_alive) {
        add_timer(step, RUN_POLL_US);
        return;
    }
    process->gone_us = process->warned_us = step->facts->now_us;
    move_to(step, PROCESS_ENDED);
    look_ended(step);
}

/* ---- it is stopped ---- */

static void give_up_attempt(const struct step *step)
{
    CHECK(process_state_stops(step->process->state));
    add_effect(step, EFFECT_ATTEMPT_GIVE_UP)->reason = process_stop_why(step->process, step->entry);
}

/* A checkpoint that the worker is still copying may complete until the grace ends; then it is
 * reported before the end. The note comes a moment after the end. */
static void look_leaving(const struct step *step)
{
    struct process *process = step->process;
    const struct process_facts *facts = step->facts;

    CHECK(process->state == PROCESS_LEAVING);
    seek_note(step);
    add_timer(step, STOP_POLL_US);
    if (facts->attempt_busy && facts->now_us >= step->entry->kill_at_us)
        give_up_attempt(step);
    else if (facts->attempt_busy)
        add_effect(step, EFFECT_ATTEMPT_GONE);
    else if (process->end != END_UNTOLD || !facts->attached ||
             facts->now_us - process->gone_us >= STOPPED_STATUS_WAIT_US)
        tell_stop(step);
}

static void look_stopping(const struct step *step)
{
    struct process *process = step->process;
    const struct process_facts *facts = step->facts;

    CHECK(process->state == PROCESS_TERMINATING || process->state == PROCESS_KILLING);
    if (all_gone(step)) {
        if (process->gone_us == 0)
            process->gone_us = facts->now_us;
        move_to(step, PROCESS_LEAVING);
        add_effect(step, EFFECT_ATTEMPT_GONE);
        add_effect(step, EFFECT_LOOK_AGAIN);
        return;
    }
    add_timer(step, STOP_POLL_US);
    if (process->state == PROCESS_TERMINATING && facts->now_us >= step->entry->kill_at_us) {
        process->killed_us = process->warned_us = facts->now_us;
        move_to(step, PROCESS_KILLING);
        if (facts->group_alive)
            add_signal(step, SIGKILL);
        give_up_attempt(step);
    } else if (process->state == PROCESS_KILLING && time_to_warn(step)) {
        add_effect(step, EFFECT_WARN_UNKILLABLE);
    }
}

/* It has nothing to save: a grace would let it compute what no checkpoint has. Not while it is only
 * being made to stand still: then its checkpoint is not written, and it gets its grace. */
static void kill_still(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process->state == PROCESS_TERMINATING);
    process->killed_us = process->warned_us = step->facts->now_us;
    move_to(step, PROCESS_KILLING);
    if (step->facts->group_alive)
        add_signal(step, SIGKILL);
}

static void ask_to_end(const struct step *step)
{
    CHECK(step->process->state == PROCESS_TERMINATING);
    if (step->facts->stands_still)
        give_up_attempt(step); /* which lets it go on */
    if (step->entry->start_ticks != LEDGER_NEVER_STARTED)
        add_signal(step, SIGTERM);
}

static void begin_stop(const struct step *step)
{
    CHECK(process_state_unstopped(step->process->state));

    step->process->ended_before = !step->facts->main_alive;
    move_to(step, PROCESS_TERMINATING);
    if (step->facts->stands_still && !step->facts->freezing)
        kill_still(step);
    else
        ask_to_end(step);
    take_note(step);
    look_stopping(step);
}

/* In the journal before anything acts on it, with the end of the grace, which is no longer for an
 * agent that restarts; and told to whoever waits to start the application. */
static void end_allocation(const struct step *step, const struct process_stop_ask *ask)
{
    struct ledger_entry *entry = step->entry;

    CHECK(!process_state_stops(step->process->state) || step->process->cause == STOP_BY_TAKEOVER);
    CHECK(ask->cause != STOP_BY_TAKEOVER);
    step->process->cause = ask->cause;
    step->process->stop_run = ask->run;
    if (ask->epoch > step->process->stop_epoch)
        step->process->stop_epoch = ask->epoch;
    entry->ended = true;
    entry->end_reason = (uint32_t)ask->reason;
    if (ask->run > entry->ended_run)
        entry->ended_run = ask->run;
    step->effects->commit = true;
    if (step->facts->attached)
        add_effect(step, EFFECT_END_STREAM)->reason = ask->reason;
}

/* With what is left of the grace, whoever began it. */
static void log_stop(const struct step *step, uint64_t kill_at_us)
{
    uint64_t now_us = step->facts->now_us;

    add_effect(step, EFFECT_LOG_STOP)->delay_us = kill_at_us > now_us ? kill_at_us - now_us : 0;
}

/* A second stop may shorten the grace, never lengthen it. */
static void take_stop(const struct step *step, const struct process_stop_ask *ask)
{
    struct process *process = step->process;
    struct ledger_entry *entry = step->entry;
    uint64_t kill_at_us =
        ask->kill_at_us != 0 ? ask->kill_at_us : step->facts->now_us + ask->grace_ms * 1000;
    bool stopping = process_state_stops(process->state);
    bool sooner = !stopping || kill_at_us < entry->kill_at_us;

    log_stop(step, sooner ? kill_at_us : entry->kill_at_us);
    if (sooner && process->state != PROCESS_ABSENT)
        entry->kill_at_us = kill_at_us;
    if (!stopping || process->cause == STOP_BY_TAKEOVER)
        end_allocation(step, ask);
    else if (sooner)
        step->effects->commit = true;
    if (stopping)
        return;
    if (process->state == PROCESS_ABSENT) {
        entry->restart_awaited = false; /* told by what follows */
        entry->start_granted = false;
        tell_stop(step);
    } else {
        begin_stop(step);
    }
}

static void take_over(const struct step *step)
{
    struct process *process = step->process;

    CHECK(process_state_unstopped(process->state));
    CHECK(!step->facts->stands_still);
    add_effect(step, EFFECT_WARN_TAKE_OVER);
    process->cause = STOP_BY_TAKEOVER;
    step->entry->kill_at_us = step->facts->now_us + process_grace_ms(step->entry) * 1000;
    begin_stop(step);
}

/* ---- it begins ---- */

static void begin_running(const struct step *step)
{
    struct process *process = step->process;
    uint64_t now_us = step->facts->now_us;

    CHECK(process->state == PROCESS_ABSENT);
    *process = (struct process){.state = PROCESS_ABSENT,
                                .wait_status = PROCESS_STATUS_UNKNOWN,
                                .started_us = now_us,
                                .unattended_us = now_us,
                                .cause = process->cause,
                                .stop_run = process->stop_run,
                                .stop_epoch = process->stop_epoch};
    move_to(step, PROCESS_RUNNING);
    add_effect(step, EFFECT_WATCH);
    add_timer(step, RUN_POLL_US);
}

/* Nobody knows what it was being checkpointed for: if it stands still it does so for nothing. */
static void let_unknown_go_on(const struct step *step)
{
    struct ledger_entry *entry = step->entry;

    CHECK(entry->pid != 0);
    entry->still = STANDING_LET_GO; /* until it goes on */
    add_effect(step, EFFECT_THAW);
}

static void take_start(const struct step *step, const struct process_event *event)
{
    struct ledger_entry *entry = step->entry;
    Ckpt__V1__AgentReport *report;

    CHECK(entry->pid == 0);
    entry->pid = event->pid;
    entry->start_ticks = event->start_ticks;
    entry->restart_awaited = false;
    entry->start_granted = false;
    entry->started_at_ms = step->facts->wall_ms;
    step->effects->commit = true;
    if (event->report) {
        report = begin_report(step, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_STARTED);
        report->restored_checkpoint_id = event->restored_checkpoint_id;
        report->user = entry->owned ? entry->owner_uid + 1 : 0;
        step->effects->since_us = step->facts->now_us;
    } else {
        let_unknown_go_on(step);
    }
    begin_running(step);
    add_effect(step, EFFECT_WALLTIME); /* it may be over already */
}

/* A stop that was under way goes on: what ends now may have been told to before. */
static void resume_stop(const struct step *step)
{
    const struct ledger_entry *entry = step->entry;
    bool walltime = entry->end_reason == CKPT__V1__REASON__REASON_WALLTIME_EXCEEDED;
    struct process_stop_ask ask = {.cause = walltime ? STOP_BY_WALLTIME : STOP_BY_ORDER,
                                   .reason = (Ckpt__V1__Reason)entry->end_reason,
                                   .grace_ms = process_grace_ms(entry),
                                   .kill_at_us = entry->kill_at_us,
                                   .run = walltime ? entry->run : entry->ended_run};

    CHECK(entry->ended);
    take_stop(step, &ask);
    step->process->ended_before = false;
}

static void resume_process(const struct step *step)
{
    struct ledger_entry *entry = step->entry;

    CHECK(step->process->state == PROCESS_ABSENT);
    if (entry->pid == 0) {
        if (entry->restart_awaited || entry->start_granted)
            await_start(step);
        return;
    }
    begin_running(step);
    if (entry->still == STANDING_LET_GO)
        add_effect(step, EFFECT_THAW);
    if (entry->ended) {
        resume_stop(step);
    } else {
        entry->kill_at_us = 0; /* of a takeover */
        take_note(step);
        look_running(step);
    }
}

/* ---- the step ---- */

static void look(const struct step *step)
{
    if (step->process->state != PROCESS_ABSENT)
        take_note(step);
    switch (step->process->state) {
    case PROCESS_ABSENT:
        look_absent(step);
        return;
    case PROCESS_RUNNING:
        look_running(step);
        return;
    case PROCESS_ENDED:
        look_ended(step);
        return;
    case PROCESS_CLEARING:
        look_clearing(step);
        return;
    case PROCESS_HELD:
        look_held(step);
        return;
    case PROCESS_TERMINATING:
    case PROCESS_KILLING:
        look_stopping(step);
        return;
    case PROCESS_LEAVING:
        look_leaving(step);
        return;
    case PROCESS_STATE_COUNT:
        return;
    }
}

static void take_woken(const struct step *step)
{
    if (step->process->state == PROCESS_ABSENT) {
        woken_absent(step);
        return;
    }
    step->process->note_told = true;
    look(step);
}

static void take_stragglers_looked(const struct step *step, size_t count)
{
    if (step->process->stragglers != STRAGGLERS_LOOKED_FOR)
        return;
    step->process->stragglers = count == 0 ? STRAGGLERS_GONE : STRAGGLERS_UNKNOWN;
    add_timer(step, count == 0 ? 0 : STOP_POLL_US);
}

static void take_event(const struct step *step, const struct process_event *event)
{
    CHECK(event->kind <= PROCESS_RESTART_FAILED);
    switch (event->kind) {
    case PROCESS_STARTED:
        take_start(step, event);
        return;
    case PROCESS_RESUMED:
        resume_process(step);
        return;
    case PROCESS_LOOK:
        look(step);
        return;
    case PROCESS_WOKEN:
        take_woken(step);
        return;
    case PROCESS_STRAGGLERS_LOOKED:
        take_stragglers_looked(step, event->count);
        return;
    case PROCESS_ATTEMPT_ENDED:
        if (step->process->state == PROCESS_HELD)
            look_held(step);
        else if (step->process->state == PROCESS_LEAVING)
            add_effect(step, EFFECT_LOOK_AGAIN); /* its nodes are wanted */
        return;
    case PROCESS_UNATTENDED:
        step->process->unattended_us = step->facts->now_us;
        return;
    case PROCESS_STOP:
        take_stop(step, &event->ask);
        return;
    case PROCESS_TAKE_OVER:
        take_over(step);
        return;
    case PROCESS_RESTART_FAILED:
        if (step->process->state != PROCESS_ABSENT)
            return;
        if (step->entry->restart_awaited)
            tell_restart_failed(step, event->why);
        else if (event->granted && step->entry->start_granted) /* the state may count it as begun */
            tell_start_failed(step, REFUSED_STATUS, event->why);
        return;
    }
}

void process_step(struct process *process, struct ledger_entry *entry,
                  const struct process_event *event, const struct process_facts *facts,
                  struct job_effects *ret_effects)
{
    const struct step step = {process, entry, facts, ret_effects};

    CHECK(facts->now_us >= process->gone_us);
    job_effects_begin(ret_effects);
    take_event(&step, event);
    CHECK(!ret_effects->reporting || ret_effects->commit);
    process_check(process, entry);
}
