/* What is told of an application that was stopped, or ended by itself just before (F-021, F-022). */
#include "src/agent/durable/end_note.h"
#include "src/agent/job/process.h"
#include "src/agent/job/walltime.h"

#include <signal.h>
#include <unistd.h>

#include "tests/unit/agent/still_agent.h"

enum { LIFE = 7, PID = 100, START_TICKS = 5000 };

static struct allocation *job;
static bool leader_lives, group_lives;
static pid_t zombie_of; /* its parent, which has not taken its status; 0: it is gone */
static unsigned terms;

static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    (void)context, (void)ret_status;
    if ((!leader_lives && zombie_of == 0) || pid != PID)
        return -1;
    if (ret_stat != NULL)
        *ret_stat = (struct proc_stat){.pid = PID,
                                       .parent = leader_lives ? 99 : zombie_of,
                                       .group = PID,
                                       .threads = 1,
                                       .state = leader_lives ? 'R' : 'Z',
                                       .start_ticks = START_TICKS};
    return 0;
}

static size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    (void)context, (void)group, (void)each, (void)data;
    return group_lives ? 1 : 0;
}

static int group_signal(void *context, pid_t group, int signal, struct err *err)
{
    (void)context, (void)group, (void)err;
    terms += signal == SIGTERM;
    return 0;
}

/* What has left the group, to be found once. */
static size_t kin_left;
static struct kin kin_asked;
static void (*kin_done)(void *data, size_t count);

static struct kin_look *kin_kill_fake(void *context, const struct kin *kin,
                                      void (*done)(void *data, size_t count), void *data)
{
    (void)context, (void)data;
    kin_asked = *kin;
    kin_done = done;
    return kin_left > 0 ? (struct kin_look *)&kin_asked : NULL;
}

static void kin_detach_fake(struct kin_look *look)
{
    (void)look;
}

static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    still_machine_ops(&machine);
    machine.process_read = process_read;
    machine.group_each = group_each;
    machine.group_signal = group_signal;
    machine.kin_kill = kin_kill_fake;
    machine.kin_detach = kin_detach_fake;
    leader_lives = group_lives = true;
    zombie_of = 0;
    terms = 0;
    kin_left = 0;
    kin_done = NULL;
    still_agent_open(&machine);
    job = agent_get(&agent, "job");
    job->entry.life = LIFE;
    process_attached(job, &(struct process_identity){.pid = PID, .start_ticks = START_TICKS}, 0,
                     false);
    return 0;
}

static void stop(enum process_stop_cause cause, uint64_t life)
{
    process_stop(job, &(struct process_stop_ask){.cause = cause,
                                                 .reason = CKPT__V1__REASON__REASON_MIGRATED,
                                                 .grace_ms = 1000,
                                                 .life = life});
}

/* The only report, of which life and with which status. */
static void expect_report(Ckpt__V1__ReportKind kind, uint64_t life, int32_t status)
{
    const struct ledger_report *kept = ledger_report_after(agent.ledger, 0);
    Ckpt__V1__AgentReport *report;

    assert_non_null(kept);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_int_equal(report->kind, kind);
    assert_uint_equal(report->life, life);
    assert_int_equal(report->exit_status, status);
    assert_uint_equal(report->will_restart, 0);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_int_equal(job->process.state, PROCESS_ABSENT);
}

#define KIND(name) CKPT__V1__REPORT_KIND__REPORT_KIND_##name

static void exits(int32_t status, bool told_to_end)
{
    process_exited(job, &(struct process_exit){.wait_status = status, .told_to_end = told_to_end});
}

/* The leader has ended by itself; what it left behind is being killed when the stop comes. */
static void ends_before(int32_t status, enum process_stop_cause cause, uint64_t life)
{
    leader_lives = false;
    exits(status, false);
    assert_int_equal(job->process.state, PROCESS_RUNNING);
    stop(cause, life);
    group_lives = false;
    still_first_fire(job);
}

static void what_ends_is_told_with_its_status(void **state)
{
    (void)state;
    leader_lives = group_lives = false;
    exits(9, false);
    expect_report(KIND(APPLICATION_EXITED), LIFE, 9);
}

/* An orderly end on a signal that ckpt-run passed on: the work is not complete, so that it can be started again. */
static void what_was_told_from_outside_to_end_has_not_finished(void **state)
{
    (void)state;
    leader_lives = group_lives = false;
    exits(0, true);
    expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
}

static void what_was_told_from_outside_before_an_order_has_not_finished(void **state)
{
    (void)state;
    leader_lives = false;
    exits(0, true);
    stop(STOP_BY_ORDER, LIFE);
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), LIFE, PROCESS_STATUS_UNKNOWN);
}

/* ---- nobody tells how it ended ---- */

static char folder[32];

/* What ckpt-run leaves in the work folder, of the application that runs but for what differs. */
static void leave_note(const struct end_note *difference)
{
    struct end_note note = {.pid = PID + difference->pid,
                            .start_ticks = START_TICKS + difference->start_ticks,
                            .life = LIFE + difference->life,
                            .wait_status = difference->wait_status,
                            .told_to_end = difference->told_to_end};
    char text[END_NOTE_BYTES];
    struct err err;

    strcpy(folder, "/tmp/test-stop-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(job->entry.work_dir, sizeof(job->entry.work_dir), "%s", folder);
    job->entry.uid = geteuid();
    job->entry.gid = getegid();
    user_path_take(&job->folder, folder, opened_here(folder));
    assert_int_equal(
        agent.machine.file_write(
            agent.machine.context,
            &(struct machine_file){job->folder.opened, allocation_user(job), END_NOTE_NAME}, text,
            end_note_format(&note, text), &err),
        0);
}

static void remove_note(void)
{
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(unlink(END_NOTE_NAME) + rmdir(folder), 0);
}

/* It is gone, and no ckpt-run comes to tell how it ended. */
static void ends_untold(void)
{
    leader_lives = group_lives = false;
    still_first_fire(job);
    still_now_us += 2 * SECOND_US;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_RUNNING);
    still_now_us += 2 * SECOND_US;
    still_first_fire(job);
}

static void what_ckpt_run_left_tells_the_status(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.wait_status = 0});
    ends_untold();
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), LIFE, 0);
}

static void what_ckpt_run_left_tells_a_failure(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.wait_status = 9});
    ends_untold();
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), LIFE, 9);
}

static void what_ckpt_run_left_of_one_told_to_end_says_nothing_of_its_work(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.told_to_end = true});
    ends_untold();
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
}

static void what_was_left_of_another_start_does_not_count(void **state)
{
    static const struct end_note others[] = {{.pid = 1}, {.start_ticks = 1}, {.life = 1}};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        leave_note(&others[i]);
        ends_untold();
        remove_note();
        expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
        still_agent_close(state);
        set_up(state);
    }
}

static void what_was_left_is_looked_for_when_a_stop_finds_it_ended(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.wait_status = 0});
    leader_lives = group_lives = false;
    stop(STOP_BY_ORDER, LIFE);
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), LIFE, 0);
}

/* By an agent that restarted: whoever has not taken the status stands still, and will tell it. */
static void a_ckpt_run_that_stands_still_is_waited_for(void **state)
{
    (void)state;
    leader_lives = group_lives = false;
    zombie_of = 99;
    still_first_fire(job);
    still_now_us += 50 * SECOND_US;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_RUNNING);
    still_now_us += 10 * SECOND_US;
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
}

static void nobody_waits_for_a_process_that_init_does_not_take(void **state)
{
    (void)state;
    zombie_of = 1;
    ends_untold();
    expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
}

static void only_what_ckpt_run_writes_is_a_note(void **state)
{
    static const char *const wrong[] = {
        "",
        "pid=100 start_ticks=5000 life=0-7 wait_status=0 told_to_end=0",
        "pid=100 start_ticks=5000 life=0-7 wait_status=0 told_to_end=0\n\n",
        "pid=100 start_ticks=5000 life=0-7 wait_status=00 told_to_end=0\n",
        "pid=100 start_ticks=5000 life=0-7 wait_status=-1 told_to_end=0\n",
        "pid=100 start_ticks=5000 life=0-7 wait_status=127 told_to_end=0\n", /* stopped */
        "pid=100 start_ticks=5000 life=0-7 wait_status=0 told_to_end=2\n",
        "pid=100 start_ticks=5000 life=0-7 wait_status=0\n",
        " wait_status=0 told_to_end=0\n"};
    struct end_note note = {.pid = PID, .start_ticks = START_TICKS, .life = LIFE};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(end_note_take(wrong[i], &note));
    assert_true(
        end_note_take("pid=100 start_ticks=5000 life=0-7 wait_status=768 told_to_end=1\n", &note));
    assert_int_equal(note.wait_status, 768);
    assert_true(note.told_to_end);
}

/* The newest report of those after the first one. */
static void expect_late(uint64_t count)
{
    const struct ledger_report *kept = ledger_report_after(agent.ledger, 1);
    Ckpt__V1__AgentReport *report;

    assert_uint_equal(ledger_last_sequence(agent.ledger), 1 + count);
    if (count == 0)
        return;
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_int_equal(report->kind, KIND(APPLICATION_EXITED));
    assert_int_equal(report->exit_status, 0);
    assert_int_equal(report->reason, CKPT__V1__REASON__REASON_NONE);
    assert_uint_equal(report->life, LIFE);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

static void says_late(const struct process_exit *difference)
{
    process_exited(job, &(struct process_exit){.start_ticks = START_TICKS + difference->start_ticks,
                                               .life = LIFE + difference->life,
                                               .wait_status = difference->wait_status,
                                               .told_to_end = difference->told_to_end});
}

static void a_late_word_of_finished_work_counts_once(void **state)
{
    (void)state;
    ends_untold();
    expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
    says_late(&(struct process_exit){.start_ticks = 1});
    says_late(&(struct process_exit){.life = 1});
    says_late(&(struct process_exit){.wait_status = 9});
    says_late(&(struct process_exit){.told_to_end = true});
    expect_late(0);
    says_late(&(struct process_exit){.wait_status = 0});
    expect_late(1);
    says_late(&(struct process_exit){.wait_status = 0});
    expect_late(1);
}

static void a_late_word_counts_for_what_had_ended_before_its_stop(void **state)
{
    (void)state;
    leader_lives = false;
    stop(STOP_BY_ORDER, LIFE);
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), LIFE, PROCESS_STATUS_UNKNOWN);
    says_late(&(struct process_exit){.wait_status = 0});
    expect_late(1);
}

static void a_late_word_of_what_was_told_to_end_does_not_count(void **state)
{
    (void)state;
    stop(STOP_BY_ORDER, LIFE);
    leader_lives = group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), LIFE, PROCESS_STATUS_UNKNOWN);
    says_late(&(struct process_exit){.wait_status = 0});
    expect_late(0);
}

static void a_late_word_of_what_was_told_does_not_count(void **state)
{
    (void)state;
    leader_lives = group_lives = false;
    exits(9, false);
    expect_report(KIND(APPLICATION_EXITED), LIFE, 9);
    says_late(&(struct process_exit){.wait_status = 0});
    expect_late(0);
}

static void what_is_seen_alive_again_has_not_ended(void **state)
{
    (void)state;
    leader_lives = false;
    still_first_fire(job);
    leader_lives = true;
    still_first_fire(job);
    still_now_us += 10 * SECOND_US;
    leader_lives = group_lives = false;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_RUNNING); /* its status is awaited from here on */
    still_now_us += 10 * SECOND_US;
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), LIFE, PROCESS_STATUS_UNKNOWN);
}

static void an_end_waits_for_what_has_left_the_group(void **state)
{
    (void)state;
    kin_left = 1;
    leader_lives = group_lives = false;
    process_exited(job, &(struct process_exit){.wait_status = 9});
    assert_uint_equal(kin_asked.life, LIFE);
    assert_uint_equal(kin_asked.start_ticks, START_TICKS);
    still_first_fire(job); /* nobody has looked yet */
    kin_done(job, 1);      /* one was killed, it may have started another */
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_RUNNING);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    kin_done(job, 0);
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), LIFE, 9);
}

static void a_stop_waits_for_what_has_left_the_group(void **state)
{
    (void)state;
    kin_left = 1;
    stop(STOP_BY_ORDER, LIFE);
    assert_null(kin_done); /* not while its group lives */
    leader_lives = group_lives = false;
    process_exited(job, &(struct process_exit){.wait_status = 0});
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    kin_done(job, 0);
    still_first_fire(job);
    expect_report(KIND(TERMINATED), LIFE, 0);
}

static void what_had_finished_before_an_order_has_exited(void **state)
{
    (void)state;
    ends_before(0, STOP_BY_ORDER, LIFE);
    expect_report(KIND(APPLICATION_EXITED), LIFE, 0);
    assert_true(job->entry.terminated);
}

static void what_had_finished_before_its_walltime_has_exited(void **state)
{
    (void)state;
    ends_before(0, STOP_BY_WALLTIME, LIFE);
    expect_report(KIND(APPLICATION_EXITED), LIFE, 0);
}

/* A leader tells of a life of the job, which has a minute left of this walltime. */
static void tell_walltime(uint64_t life, uint64_t walltime_ms)
{
    Ckpt__V1__AllocationDeadline deadline = CKPT__V1__ALLOCATION_DEADLINE__INIT;
    Ckpt__V1__AllocationDeadline *deadlines[] = {&deadline};
    Ckpt__V1__OrderSet set = CKPT__V1__ORDER_SET__INIT;
    uint8_t bytes[128];

    deadline.allocation_id = (char[]){"job"};
    deadline.life = life;
    deadline.remaining_ms = 60000;
    deadline.walltime_ms = walltime_ms;
    set.deadlines = deadlines;
    set.n_deadlines = 1;
    assert_true(ckpt__v1__order_set__get_packed_size(&set) <= sizeof(bytes));
    agent_take_orders(
        &agent, ckpt__v1__order_set__unpack(NULL, ckpt__v1__order_set__pack(&set, bytes), bytes));
}

static void fire_walltime(void)
{
    void (*poll)(void *data) = still_first_fire;

    still_first_fire = NULL;
    walltime_init(job);
    still_first_fire(job);
    still_first_fire = poll;
}

/* It was started while nobody could tell its life; a leader has told the end of its walltime since. */
static void fire_told_walltime(void)
{
    job->entry.life = 0;
    tell_walltime(LIFE, 60000);
    fire_walltime();
}

static void expect_killed_in(uint64_t life)
{
    fire_walltime();
    leader_lives = group_lives = false;
    exits(9, false);
    expect_report(KIND(WALLTIME_KILLED), life, 9);
    assert_uint_equal(job->entry.ended_life, life); /* the next one may begin */
}

/* Or the report would be about whatever life the job has when it comes (found by the simulator). */
static void what_has_no_life_is_told_as_killed_in_that_of_its_walltime(void **state)
{
    (void)state;
    job->entry.life = 0;
    tell_walltime(LIFE, 60000);
    expect_killed_in(LIFE);
}

/* Two lives that follow each other mostly have one walltime. */
static void what_has_a_life_is_told_as_killed_in_it_though_the_next_one_has_its_walltime(
    void **state)
{
    (void)state;
    tell_walltime(LIFE, 60000);
    tell_walltime(LIFE + 1, 60000);
    expect_killed_in(LIFE);
}

/* Which of the two it is nobody can tell any more. The last one: told late, the report is not about those that follow. */
static void what_has_no_life_is_told_as_killed_in_the_last_that_had_its_walltime(void **state)
{
    (void)state;
    tell_walltime(LIFE, 60000);
    tell_walltime(LIFE + 1, 60000);
    assert_true(allocation_set_life(job, 0, 0));
    expect_killed_in(LIFE + 1);
}

static void what_has_no_life_is_not_told_as_killed_in_one_of_another_walltime(void **state)
{
    (void)state;
    tell_walltime(LIFE, 60000);
    tell_walltime(LIFE + 1, 70000);
    assert_true(allocation_set_life(job, 0, 0));
    assert_uint_equal(job->entry.walltime_ms, 60000);
    expect_killed_in(0);
}

static void what_has_no_life_is_not_told_as_killed_in_one_that_began_after_its_start(void **state)
{
    (void)state;
    still_now_us += SECOND_US;
    job->entry.life = 0;
    tell_walltime(LIFE, 60000);
    expect_killed_in(0);
}

static void what_has_no_life_and_had_finished_before_its_walltime_has_exited(void **state)
{
    (void)state;
    leader_lives = false;
    exits(0, false);
    fire_told_walltime();
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), LIFE, 0);
}

static void what_had_failed_before_an_order_is_told_as_stopped(void **state)
{
    (void)state;
    ends_before(9, STOP_BY_ORDER, LIFE);
    expect_report(KIND(TERMINATED), LIFE, 9);
}

/* The end of the later life is waited for, which nothing else would tell. */
static void an_order_for_a_later_life_is_answered(void **state)
{
    (void)state;
    ends_before(0, STOP_BY_ORDER, LIFE + 1);
    expect_report(KIND(TERMINATED), LIFE + 1, 0);
}

static void what_ends_with_0_when_told_to_has_not_finished(void **state)
{
    (void)state;
    stop(STOP_BY_ORDER, LIFE);
    assert_uint_equal(terms, 1);
    leader_lives = group_lives = false;
    exits(0, false);
    expect_report(KIND(TERMINATED), LIFE, 0);
}

/* Nor when the agent that told it was another one. */
static void what_was_told_by_the_agent_before_has_not_finished(void **state)
{
    static const struct ledger_entry entry = {.allocation_id = "stopped",
                                              .pid = PID,
                                              .start_ticks = START_TICKS,
                                              .life = LIFE,
                                              .ended = true,
                                              .ended_life = LIFE};

    (void)state;
    job = allocation_new(&agent, "stopped", &entry);
    leader_lives = false;
    process_resume(job);
    exits(0, false);
    group_lives = false;
    still_first_fire(job);
    expect_report(KIND(TERMINATED), LIFE, 0);
    allocation_free(job);
}

/* ---- an agent that restarts ---- */

/* What the agent that comes after it makes of the journal. */
static struct allocation *resumed(void)
{
    struct allocation *again = allocation_new(&agent, "job", ledger_find(agent.ledger, "job"));

    process_resume(again);
    return again;
}

static void expect_state_at(struct allocation *again, uint64_t at_us, enum process_state expected)
{
    still_now_us = at_us;
    still_first_fire(again);
    assert_int_equal(again->process.state, expected);
}

static void a_grace_goes_on_where_it_was(void **state)
{
    uint64_t began_us = still_now_us;
    struct allocation *again;

    (void)state;
    stop(STOP_BY_ORDER, LIFE); /* a second */
    still_now_us += 400000;
    again = resumed();
    assert_uint_equal(terms, 2);
    expect_state_at(again, began_us + 990000, PROCESS_TERMINATING);
    expect_state_at(again, began_us + 1000000, PROCESS_KILLING);
    allocation_free(again);
}

/* From here on, into a file, until last_logged(). */
static FILE *begin_log(int *ret_stderr)
{
    FILE *log = tmpfile();

    assert_non_null(log);
    *ret_stderr = dup(STDERR_FILENO);
    assert_true(*ret_stderr >= 0);
    assert_true(dup2(fileno(log), STDERR_FILENO) >= 0);
    return log;
}

/* The value of the key in the last line of the event. */
static long last_logged(FILE *log, int former_stderr, const char *event, const char *key)
{
    char line[1024];
    long value = -1;

    assert_true(dup2(former_stderr, STDERR_FILENO) >= 0);
    close(former_stderr);
    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL)
        if (strstr(line, event) != NULL && strstr(line, key) != NULL)
            value = strtol(strstr(line, key) + strlen(key), NULL, 10);
    fclose(log);
    return value;
}

/* By the agent that was told, the one that restarts, and one whose longer grace changes nothing any more. */
static void what_is_left_of_a_grace_is_logged(void **state)
{
    struct allocation *again;
    int former_stderr;
    FILE *log = begin_log(&former_stderr);

    (void)state;
    stop(STOP_BY_ORDER, LIFE); /* a second */
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 1000);
    still_now_us += 400000;
    log = begin_log(&former_stderr);
    again = resumed();
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 600);
    still_now_us += 100000;
    log = begin_log(&former_stderr);
    process_stop(again, &(struct process_stop_ask){
                            .cause = STOP_BY_ORDER, .grace_ms = 120000, .life = LIFE});
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 500);
    still_now_us += SECOND_US;
    log = begin_log(&former_stderr);
    process_stop(again, &(struct process_stop_ask){
                            .cause = STOP_BY_ORDER, .grace_ms = 120000, .life = LIFE});
    assert_int_equal(last_logged(log, former_stderr, "event=stop ", "grace_ms="), 0);
    allocation_free(again);
}

static void a_grace_that_was_ordered_is_not_cut_short(void **state)
{
    uint64_t began_us = still_now_us;
    struct allocation *again;

    (void)state;
    process_stop(
        job, &(struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 120000, .life = LIFE});
    again = resumed();
    expect_state_at(again, began_us + 119 * SECOND_US, PROCESS_TERMINATING);
    expect_state_at(again, began_us + 120 * SECOND_US, PROCESS_KILLING);
    allocation_free(again);
}

static void a_grace_that_became_shorter_stays_so(void **state)
{
    uint64_t began_us = still_now_us;
    struct allocation *again;

    (void)state;
    process_stop(
        job, &(struct process_stop_ask){.cause = STOP_BY_ORDER, .grace_ms = 120000, .life = LIFE});
    stop(STOP_BY_WALLTIME, LIFE);
    again = resumed();
    expect_state_at(again, began_us + SECOND_US, PROCESS_KILLING);
    allocation_free(again);
}

/* An older agent did not write down when it ends: it begins again. */
static void a_grace_whose_end_is_not_known_begins_again(void **state)
{
    struct ledger_entry entry;
    struct allocation *again;

    (void)state;
    stop(STOP_BY_ORDER, LIFE);
    entry = *ledger_find(agent.ledger, "job");
    entry.kill_at_us = 0;
    entry.grace_ms = 7000;
    again = allocation_new(&agent, "job", &entry);
    process_resume(again);
    expect_state_at(again, still_now_us + 6 * SECOND_US, PROCESS_TERMINATING);
    expect_state_at(again, still_now_us + SECOND_US, PROCESS_KILLING);
    allocation_free(again);
}

static void a_start_that_does_not_come_is_told_by_the_agent_after(void **state)
{
    const struct ledger_report *kept;
    Ckpt__V1__AgentReport *report;
    struct allocation *again;

    (void)state;
    leader_lives = group_lives = false;
    process_exited(job, &(struct process_exit){.wait_status = 9, .will_restart = true});
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    again = resumed();
    assert_false(allocation_idle(again));
    expect_state_at(again, still_now_us + 4 * SECOND_US, PROCESS_ABSENT);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    expect_state_at(again, still_now_us + SECOND_US, PROCESS_ABSENT);
    kept = ledger_report_after(agent.ledger, 1);
    assert_non_null(kept);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_int_equal(report->kind, KIND(APPLICATION_EXITED));
    assert_int_equal(report->exit_status, 9);
    assert_uint_equal(report->will_restart, 0);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_true(allocation_idle(again));
    expect_state_at(again, still_now_us + 60 * SECOND_US, PROCESS_ABSENT);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 2); /* once */
    allocation_free(again);
}

int main(void)
{
#define PROCESS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)
    const struct CMUnitTest tests[] = {
        PROCESS_TEST(what_ends_is_told_with_its_status),
        PROCESS_TEST(what_was_told_from_outside_to_end_has_not_finished),
        PROCESS_TEST(what_was_told_from_outside_before_an_order_has_not_finished),
        PROCESS_TEST(what_ckpt_run_left_tells_the_status),
        PROCESS_TEST(what_ckpt_run_left_tells_a_failure),
        PROCESS_TEST(what_ckpt_run_left_of_one_told_to_end_says_nothing_of_its_work),
        PROCESS_TEST(what_was_left_of_another_start_does_not_count),
        PROCESS_TEST(what_was_left_is_looked_for_when_a_stop_finds_it_ended),
        PROCESS_TEST(a_ckpt_run_that_stands_still_is_waited_for),
        PROCESS_TEST(nobody_waits_for_a_process_that_init_does_not_take),
        cmocka_unit_test(only_what_ckpt_run_writes_is_a_note),
        PROCESS_TEST(a_late_word_of_finished_work_counts_once),
        PROCESS_TEST(a_late_word_counts_for_what_had_ended_before_its_stop),
        PROCESS_TEST(a_late_word_of_what_was_told_to_end_does_not_count),
        PROCESS_TEST(a_late_word_of_what_was_told_does_not_count),
        PROCESS_TEST(what_is_seen_alive_again_has_not_ended),
        PROCESS_TEST(an_end_waits_for_what_has_left_the_group),
        PROCESS_TEST(a_stop_waits_for_what_has_left_the_group),
        PROCESS_TEST(what_had_finished_before_an_order_has_exited),
        PROCESS_TEST(what_had_finished_before_its_walltime_has_exited),
        PROCESS_TEST(what_has_no_life_is_told_as_killed_in_that_of_its_walltime),
        PROCESS_TEST(what_has_a_life_is_told_as_killed_in_it_though_the_next_one_has_its_walltime),
        PROCESS_TEST(what_has_no_life_is_told_as_killed_in_the_last_that_had_its_walltime),
        PROCESS_TEST(what_has_no_life_is_not_told_as_killed_in_one_of_another_walltime),
        PROCESS_TEST(what_has_no_life_is_not_told_as_killed_in_one_that_began_after_its_start),
        PROCESS_TEST(what_has_no_life_and_had_finished_before_its_walltime_has_exited),
        PROCESS_TEST(what_had_failed_before_an_order_is_told_as_stopped),
        PROCESS_TEST(an_order_for_a_later_life_is_answered),
        PROCESS_TEST(what_ends_with_0_when_told_to_has_not_finished),
        PROCESS_TEST(what_was_told_by_the_agent_before_has_not_finished),
        PROCESS_TEST(a_grace_goes_on_where_it_was),
        PROCESS_TEST(what_is_left_of_a_grace_is_logged),
        PROCESS_TEST(a_grace_that_was_ordered_is_not_cut_short),
        PROCESS_TEST(a_grace_that_became_shorter_stays_so),
        PROCESS_TEST(a_grace_whose_end_is_not_known_begins_again),
        PROCESS_TEST(a_start_that_does_not_come_is_told_by_the_agent_after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
