/* A job whose application ends as a test says, beside a still agent: for tests of what is told of
 * its end. */
#ifndef TESTS_UNIT_AGENT_ENDED_JOB_H
#define TESTS_UNIT_AGENT_ENDED_JOB_H

#include <signal.h>
#include <unistd.h>

#include "src/agent/durable/end_note.h"
#include "src/agent/job/executor.h"
#include "tests/unit/agent/still_agent.h"

enum { RUN = 7, PID = 100, START_TICKS = 5000 };

static struct allocation *job;
static bool main_lives, group_lives;
static pid_t zombie_of; /* its parent, which has not taken its status; 0: it is gone */
static unsigned terms;

static inline int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                               struct proc_status *ret_status)
{
    (void)context, (void)ret_status;
    if ((!main_lives && zombie_of == 0) || pid != PID)
        return -1;
    if (ret_stat != NULL)
        *ret_stat = (struct proc_stat){.pid = PID,
                                       .parent = main_lives ? 99 : zombie_of,
                                       .group = PID,
                                       .threads = 1,
                                       .state = main_lives ? 'R' : 'Z',
                                       .start_ticks = START_TICKS};
    return 0;
}

static inline size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    (void)context, (void)group, (void)each, (void)data;
    return group_lives ? 1 : 0;
}

static inline int group_signal(void *context, pid_t group, int signal, struct err *err)
{
    (void)context, (void)group, (void)err;
    terms += signal == SIGTERM;
    return 0;
}

/* What has left the group, to be found once. */
static size_t stragglers_left;
static struct stragglers stragglers_asked;
static bool stragglers_killed;
static void (*stragglers_done)(void *data, size_t count);

static inline struct stragglers_look *stragglers_find_fake(void *context,
                                                           const struct job_identity *identity,
                                                           bool kill,
                                                           void (*done)(void *data, size_t count),
                                                           void *data)
{
    (void)context, (void)data;
    stragglers_asked = identity->stragglers;
    stragglers_killed = kill;
    stragglers_done = done;
    return stragglers_left > 0 ? (struct stragglers_look *)&stragglers_asked : NULL;
}

static inline void stragglers_detach_fake(struct stragglers_look *look)
{
    (void)look;
}

static inline int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    still_machine_ops(&machine);
    machine.process_read = process_read;
    machine.group_each = group_each;
    machine.group_signal = group_signal;
    machine.stragglers_find = stragglers_find_fake;
    machine.stragglers_detach = stragglers_detach_fake;
    main_lives = group_lives = true;
    zombie_of = 0;
    terms = 0;
    stragglers_left = 0;
    stragglers_done = NULL;
    still_agent_open(&machine);
    job = agent_get(&agent, "job");
    job->entry.run = RUN;
    process_attached(job, &(struct process_identity){.pid = PID, .start_ticks = START_TICKS}, 0,
                     false);
    return 0;
}

static inline void stop(enum process_stop_cause cause, uint64_t run)
{
    process_stop(job, &(struct process_stop_ask){.cause = cause,
                                                 .reason = CKPT__V1__REASON__REASON_MIGRATED,
                                                 .grace_ms = 1000,
                                                 .run = run});
}

/* The only report, of which run and with which status. */
static inline void expect_report(Ckpt__V1__ReportKind kind, uint64_t run, int32_t status)
{
    const struct ledger_report *kept = ledger_report_after(agent.ledger, 0);
    Ckpt__V1__AgentReport *report;

    assert_non_null(kept);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_int_equal(report->kind, kind);
    assert_uint_equal(report->run, run);
    assert_int_equal(report->exit_status, status);
    assert_uint_equal(report->will_restart, 0);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_int_equal(job->process.state, PROCESS_ABSENT);
}

#define KIND(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

/* Its ckpt-run wakes the agent, with what differs from a note of the application that runs and was
 * ended by nothing. */
static inline void wakes(const struct end_note *difference)
{
    struct end_note note = *difference;
    char text[END_NOTE_BYTES];

    note.pid += PID;
    note.start_ticks += START_TICKS;
    note.run += job->entry.run;
    end_note_format(&note, text);
    process_woken(job, text);
}

static inline void exits(int32_t status, bool told_to_end)
{
    wakes(&(struct end_note){.wait_status = status, .told_to_end = told_to_end});
}

/* It is gone, and no ckpt-run comes to tell how it ended. */
static inline void ends_untold(void)
{
    main_lives = group_lives = false;
    still_first_fire(job);
    still_now_us += 2 * SECOND_US;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_ENDED);
    still_now_us += 2 * SECOND_US;
    still_first_fire(job);
}

/* What the agent that comes after it makes of the journal. */
static inline struct allocation *resumed(void)
{
    struct allocation *again = allocation_new(&agent, "job", ledger_find(agent.ledger, "job"));

    process_post(again, PROCESS_RESUMED);
    return again;
}

#endif
