/* A job without an application. See process_absent.h. */
#include "src/agent/job/process_absent.h"

#include <stdio.h>

#include "src/agent/durable/end_note.h"
#include "src/agent/job/allocation.h"
#include "src/base/check.h"

enum {
    RESTART_POLL_US = 1000000,
    RESTART_WAIT_US = 5000000, /* for ckpt-run to come back, or to connect again */
    REPORT_WHY_BYTES = 200
};

/* Of the life that is known here: as it was told, or else as it lies in the work folder. */
bool process_note_find(const struct allocation *allocation, const char *told,
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

void process_restart_await(struct allocation *allocation)
{
    allocation->process.alone_us = agent_now_us(allocation->agent);
    allocation->agent->clock.timer_start(allocation->process.timer, RESTART_POLL_US);
}

void process_restart_failed(struct allocation *allocation, const char *why)
{
    struct ledger_entry *entry = &allocation->entry;
    Ckpt__V1__AgentReport report;
    char detail[REPORT_WHY_BYTES];

    if (allocation->process.state != PROCESS_ABSENT || !entry->restart_awaited)
        return;
    entry->restart_awaited = false;
    entry->start_granted = false;
    allocation->agent->clock.timer_stop(allocation->process.timer);
    snprintf(detail, sizeof(detail), "not started again: %s", why);
    ckpt__v1__agent_report__init(&report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
    report.reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    report.exit_status = entry->awaited_status;
    report.detail = detail;
    report.life = entry->life;
    allocation_commit(allocation, &report, 0);
    agent_reconcile_soon(allocation->agent);
}

/* The allocation ends as by an application that ended so. */
static void start_failed(struct allocation *allocation, int32_t wait_status, const char *why)
{
    Ckpt__V1__AgentReport report;
    char detail[REPORT_WHY_BYTES];

    CHECK(allocation->process.state == PROCESS_ABSENT);
    if (allocation->entry.restart_awaited) {
        process_restart_failed(allocation, why);
        return;
    }
    allocation->entry.start_granted = false;
    snprintf(detail, sizeof(detail), "not started: %s", why);
    ckpt__v1__agent_report__init(&report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
    report.reason = CKPT__V1__REASON__REASON_APPLICATION_EXITED;
    report.exit_status = wait_status != 0 ? wait_status : PROCESS_STATUS_UNKNOWN;
    report.detail = detail;
    report.life = allocation->entry.life;
    allocation_commit(allocation, &report, 0);
    agent_reconcile_soon(allocation->agent);
}

/* Whom the agent before this one had told to start it could not, and has left. */
static bool start_failed_unheard(struct allocation *allocation)
{
    struct end_note note;

    if (!allocation->entry.start_granted || allocation->stream != NULL ||
        !user_path_ready(&allocation->folder, allocation->entry.work_dir) ||
        !process_note_find(allocation, "", &note) || note.pid != 0)
        return false;
    start_failed(allocation, note.wait_status, note.why);
    return true;
}

void process_restart_poll(struct allocation *allocation)
{
    struct process *process = &allocation->process;
    struct ledger_entry *entry = &allocation->entry;
    uint64_t now_us = agent_now_us(allocation->agent);

    if ((!entry->restart_awaited && !entry->start_granted) || start_failed_unheard(allocation))
        return;
    if (allocation->stream != NULL)
        process->alone_us = now_us;
    if (now_us - process->alone_us < RESTART_WAIT_US)
        allocation->agent->clock.timer_start(process->timer, RESTART_POLL_US);
    else
        process_restart_failed(allocation, "ckpt-run is gone");
}

/* Its end was told as of one that nobody saw. Only of this very start, and while none of its life is awaited. */
static void finished_late(struct allocation *allocation, const struct end_note *note)
{
    struct ledger_entry *entry = &allocation->entry;
    char detail[] = "its ckpt-run tells only now how it ended";
    Ckpt__V1__AgentReport report;

    if (note->wait_status != 0 || note->told_to_end || note->will_restart ||
        entry->restart_awaited || note->start_ticks == 0 ||
        note->start_ticks == MACHINE_NEVER_STARTED || note->start_ticks != entry->start_ticks)
        return;
    entry->start_ticks = 0;
    ckpt__v1__agent_report__init(&report);
    report.kind = CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED;
    report.life = entry->life;
    report.detail = detail;
    allocation_commit(allocation, &report, 0);
    agent_reconcile_soon(allocation->agent);
}

/* Nothing runs: a start that was granted has failed, or it is about one whose end had to be told without its status. */
void process_woken_absent(struct allocation *allocation, const char *told)
{
    struct end_note note;
    bool found = process_note_find(allocation, told, &note);

    if (allocation->entry.start_granted)
        start_failed(allocation, found && note.pid == 0 ? note.wait_status : PROCESS_STATUS_UNKNOWN,
                     found && note.pid == 0 ? note.why : "its ckpt-run does not say why");
    else if (found)
        finished_late(allocation, &note);
}
