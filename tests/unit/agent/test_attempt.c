/* Whom an attempt does not ask yet: a group with a momentary process that has no handler. And how long it has when it is put off. */
#include "src/agent/job/executor.h"

#include <signal.h>

#include "src/agent/job/attempt_step.h"
#include "tests/unit/agent/still_agent.h"

enum { RUN = 7, PID = 100, START_TICKS = 5000, CHECKPOINT = 42 };

static struct allocation *job;
static const struct ask_events *heard; /* on the call */
static bool wiped_here;

/* The main process would die from SIGUSR1. */
static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    (void)context;
    if (ret_stat != NULL)
        *ret_stat =
            (struct proc_stat){.pid = pid, .group = PID, .state = 'R', .start_ticks = START_TICKS};
    if (ret_status != NULL)
        *ret_status = (struct proc_status){0};
    return 0;
}

static size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    const struct proc_stat stat = {.pid = PID, .group = group, .start_ticks = START_TICKS};

    (void)context;
    each(data, &stat);
    return 1;
}

static struct cleanup *folders_remove(void *context, struct machine_user user,
                                      const struct machine_folders *folders,
                                      void (*done)(void *data), void *data)
{
    (void)context, (void)user;
    wiped_here = folders->wipe;
    done(data);
    return NULL;
}

static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    still_machine_ops(&machine);
    machine.process_read = process_read;
    machine.group_each = group_each;
    machine.folders_remove = folders_remove;
    still_agent_open(&machine);
    job = agent_get(&agent, "job");
    job->entry.run = RUN;
    snprintf(job->entry.work_dir, sizeof(job->entry.work_dir), "/proc/self");
    user_path_take(&job->folder, job->entry.work_dir, opened_here("/proc"));
    process_attached(job, &(struct process_identity){.pid = PID, .start_ticks = START_TICKS}, 0,
                     false);
    still_now_us += 60 * SECOND_US; /* long after its start */
    return 0;
}

/* That the attempt has failed for want of a handler. */
static void expect_no_handler(void)
{
    const struct ledger_report *kept = ledger_report_after(agent.ledger, 0);
    Ckpt__V1__AgentReport *report;

    assert_non_null(kept);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_CHECKPOINT_FAILED);
    assert_int_equal(report->reason, CKPT__V1__REASON__REASON_NO_HANDLER);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

static void order_attempt(void)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    order.checkpoint_id = CHECKPOINT;
    order.attempt = 1;
    order.run = RUN;
    order.timeout_ms = 60000;
    attempt_post(job, ATTEMPT_START, &order);
}

static void a_first_look_long_after_the_start_is_not_the_last(void **state)
{
    (void)state;
    order_attempt();
    assert_int_equal(job->attempt.state, ATTEMPT_WAITING);
    still_now_us += 6 * SECOND_US;
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_NONE);
    expect_no_handler();
}

/* What its step makes of a look at the instant of now. */
static enum attempt_state looks(bool opening)
{
    const struct attempt_event tick = {.kind = ATTEMPT_TICK};
    struct attempt_facts facts = {.now_us = still_now_us,
                                  .runs = true,
                                  .ready = CKPT__V1__REASON__REASON_NO_HANDLER,
                                  .opening = opening,
                                  .text = "why"};
    struct attempt attempt = job->attempt;
    struct ledger_entry entry = job->entry;
    struct job_effects effects;

    job_effects_begin(&effects);
    attempt_step(&attempt, &entry, &tick, &facts, &effects);
    return attempt.state;
}

/* A program that loads for long is no deaf one: it has as long as the attempt. */
static void who_has_opened_the_library_has_all_of_the_time(void **state)
{
    (void)state;
    order_attempt();
    still_now_us += 59 * SECOND_US;
    assert_int_equal(looks(true), ATTEMPT_WAITING);
    assert_int_equal(looks(false), ATTEMPT_NONE);
    still_now_us += 2 * SECOND_US;
    assert_int_equal(looks(true), ATTEMPT_NONE);
}

static ranks_done_fn *looked;
static struct ranks_seen seen;
static struct proc_stat main_process;
static const char
    *was; /* what the main process ran when it was read for the first time; NULL: the same */
static int signals;

static struct ranks_look *ranks_look(void *context, const struct job_identity *identity, int signal,
                                     ranks_done_fn *done, void *data)
{
    (void)context, (void)identity, (void)signal;
    assert_ptr_equal(data, job);
    looked = done;
    return (struct ranks_look *)&seen;
}

static void ranks_look_detach(struct ranks_look *look)
{
    (void)look;
}

static int main_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                     struct proc_status *ret_status)
{
    (void)context, (void)pid;
    if (ret_stat != NULL) {
        *ret_stat = main_process;
        if (was != NULL)
            snprintf(ret_stat->name, sizeof(ret_stat->name), "%s", was);
        was = NULL;
    }
    if (ret_status != NULL)
        *ret_status = (struct proc_status){.caught = UINT64_C(1) << (SIGUSR1 - 1)};
    return 0;
}

static int group_signal(void *context, pid_t group, int signal, struct err *err)
{
    (void)context, (void)group, (void)err;
    signals += signal == SIGUSR1;
    return 0;
}

/* A wrapper script was seen, and has since executed a launcher, which catches the signal to hand
 * it on. */
static void a_program_that_was_executed_after_the_look_is_looked_at_again(void **state)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    (void)state;
    agent.machine.ranks_look = ranks_look;
    agent.machine.ranks_detach = ranks_look_detach;
    agent.machine.process_read = main_read;
    agent.machine.group_signal = group_signal;
    main_process = (struct proc_stat){
        .pid = PID, .group = PID, .name = "orted", .state = 'R', .start_ticks = START_TICKS};
    snprintf(seen.main_name, sizeof(seen.main_name), "sh");
    order.checkpoint_id = CHECKPOINT;
    order.attempt = 1;
    order.run = RUN;
    order.timeout_ms = 60000;
    attempt_post(job, ATTEMPT_START, &order);
    assert_non_null(looked);
    looked(job, &seen);
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_WAITING);
    assert_int_equal(signals, 0);
    looked = NULL;
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_non_null(looked);
    looked(job, &seen);
    was = "sh"; /* and it executes between that and the question whether the signal is caught */
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_null(was);
    assert_int_equal(job->attempt.state, ATTEMPT_WAITING);
    assert_int_equal(signals, 0);
    snprintf(seen.items[0].name, sizeof(seen.items[0].name), "orted");
    seen.items[0].pid = PID;
    seen.items[0].launcher = true;
    seen.count = 1;
    looked = NULL;
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_non_null(looked);
    looked(job, &seen);
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_WAITING);
    assert_int_equal(signals, 0);
    attempt_post(job, ATTEMPT_CANCEL, NULL);
}

/* As the journal of an agent that ended gives it back. */
static void resume_deferred(uint64_t until_us)
{
    job->entry.checkpoint_id = CHECKPOINT;
    job->entry.attempt = 1;
    job->entry.phase = PHASE_DEFERRED;
    job->entry.timeout_ms = 600000;
    job->entry.asked_at_us = still_now_us;
    job->entry.max_deferral_ms = 300000;
    job->entry.deferred_ms = 100000;
    if (job->entry.longest_deferral_ms == 0)
        job->entry.longest_deferral_ms = job->entry.deferred_ms;
    job->entry.deferred_until_us = until_us;
    attempt_post(job, ATTEMPT_RESUME, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_DEFERRED);
}

static void hurry(void)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    order.timeout_ms = 600000;
    attempt_post(job, ATTEMPT_HURRY, &order);
}

/* Before its time, or after it. */
static void expect_second_look(void)
{
    hurry();
    assert_int_equal(job->attempt.state, ATTEMPT_DEFERRED);
    still_now_us += 6 * SECOND_US;
    hurry();
    assert_int_equal(job->attempt.state, ATTEMPT_NONE);
    expect_no_handler();
}

/* The agent keeps many that have ended. */
static void the_last_of_a_job_to_end_closes_its_work_folder(void **state)
{
    (void)state;
    resume_deferred(still_now_us + SECOND_US);
    job->process.state = PROCESS_ABSENT; /* and nothing is left of it */
    job->entry.pid = 0;
    attempt_post(job, ATTEMPT_CANCEL, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_NONE);
    assert_null(job->folder.opened);
}

static char worked[1024]; /* the arguments of the last worker */

static int no_worker(void *context, const char *const *arguments, struct machine_user user,
                     uint64_t deadline_ms, worker_done_fn *done, void *data,
                     struct worker **ret_worker, struct err *err)
{
    (void)context, (void)user, (void)deadline_ms, (void)done, (void)data, (void)ret_worker;
    worked[0] = '\0';
    for (size_t i = 0; arguments[i] != NULL; i++) {
        strcat(worked, arguments[i]);
        strcat(worked, " ");
    }
    return err_set(err, ERR_IO, "no worker here"); /* so the attempt goes on at once */
}

/* N-003: what it has written there, and here. */
static void a_sensitive_attempt_that_is_cancelled_is_overwritten(void **state)
{
    (void)state;
    agent.machine.worker_start = no_worker;
    for (int sensitive = 0; sensitive < 2; sensitive++) {
        job->entry.wipe = sensitive == 1;
        snprintf(job->entry.staged, sizeof(job->entry.staged), ".part-0000.tmp.0123456789abcdef");
        resume_deferred(still_now_us + 100 * SECOND_US);
        attempt_post(job, ATTEMPT_CANCEL, NULL);
        assert_int_equal(job->attempt.state, ATTEMPT_NONE);
        assert_true(strncmp(worked, "abandon ", 8) == 0);
        assert_contains(worked, sensitive == 1 ? "--wipe yes " : "--wipe no ");
        assert_int_equal(wiped_here, sensitive == 1);
    }
}

static void a_deferred_attempt_that_is_hurried_looks_again(void **state)
{
    (void)state;
    resume_deferred(still_now_us + 100 * SECOND_US);
    expect_second_look();
}

static void a_deferred_attempt_looks_again_though_its_agent_was_away(void **state)
{
    (void)state;
    resume_deferred(still_now_us - 20 * SECOND_US);
    expect_second_look();
}

static struct folder_watch *folder_watch(void *context, const struct opened *folder,
                                         void (*changed)(void *data), void *data)
{
    (void)context, (void)folder, (void)changed, (void)data;
    return NULL;
}

static void folder_watch_free(struct folder_watch *watch)
{
    (void)watch;
}

static enum ask_ready call_preflight(const struct ask_ops *ops, const struct ask_target *target,
                                     char *ret_detail, size_t size)
{
    (void)ops, (void)target, (void)ret_detail, (void)size;
    return ASK_READY;
}

static int call_fire(const struct ask_ops *ops, const struct ask_target *target,
                     const struct ask_request *request, const struct ask_listener *listener,
                     struct ask_call **ret_call, struct err *err)
{
    (void)ops, (void)target, (void)request, (void)err;
    assert_ptr_equal(listener->data, job);
    heard = listener->events;
    *ret_call = NULL;
    return 0;
}

static void call_hang_up(struct ask_call *call)
{
    (void)call;
}

static void ask_again(void)
{
    static const struct ask_ops calls = {
        .preflight = call_preflight, .fire = call_fire, .hang_up = call_hang_up};

    job->executor.ask = &calls;
    attempt_post(job, ATTEMPT_TICK, NULL);
    assert_int_equal(job->attempt.state, ATTEMPT_ASKED);
}

static void ask_and_hear_defer(uint64_t defer_ms)
{
    ask_again();
    heard->deferred(job, defer_ms);
    assert_int_equal(job->attempt.state, ATTEMPT_DEFERRED);
    assert_uint_equal(job->entry.timeout_ms, job->attempt.timeout_ms);
}

static void extend(uint64_t timeout_ms, uint64_t deferred_ms)
{
    Ckpt__V1__Order order = CKPT__V1__ORDER__INIT;

    order.timeout_ms = timeout_ms;
    order.deferred_ms = deferred_ms;
    attempt_post(job, ATTEMPT_EXTEND, &order);
    assert_uint_equal(job->entry.timeout_ms, job->attempt.timeout_ms);
}

/* P-043, I34: whichever node's came first */
static void of_the_deferrals_of_all_nodes_the_longest_counts(void **state)
{
    (void)state;
    agent.machine.folder_watch = folder_watch;
    agent.machine.folder_watch_free = folder_watch_free;
    job->entry.longest_deferral_ms = 150000; /* another node's */
    resume_deferred(still_now_us);
    ask_and_hear_defer(20000);
    assert_uint_equal(job->entry.deferred_ms, 120000);
    assert_uint_equal(job->attempt.timeout_ms, 600000);
    ask_and_hear_defer(50000);
    assert_uint_equal(job->entry.deferred_ms, 170000);
    assert_uint_equal(job->attempt.timeout_ms, 620000);
    extend(650000, 200000);
    assert_uint_equal(job->attempt.timeout_ms, 650000);
    ask_and_hear_defer(20000);
    assert_uint_equal(job->attempt.timeout_ms, 650000);
    extend(660000, 150000); /* longer by the extension, and before it has heard of all */
    assert_uint_equal(job->attempt.timeout_ms, 710000);
    extend(710000, 200000);
    assert_uint_equal(job->attempt.timeout_ms, 710000);
}

static size_t reports_of_telling(uint64_t *ret_last_ms)
{
    const struct ledger_report *kept = NULL;
    size_t count = 0;

    for (uint64_t after = 0; (kept = ledger_report_after(agent.ledger, after)) != NULL;
         after = kept->sequence) {
        Ckpt__V1__AgentReport *report =
            ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);

        if (report->told_write_ms != 0) {
            assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_STARTED);
            assert_uint_equal(report->checkpoint_id, CHECKPOINT);
            *ret_last_ms = report->told_write_ms;
            count++;
        }
        ckpt__v1__agent_report__free_unpacked(report, NULL);
    }
    return count;
}

/* S1-040: in all since it was asked, and again when it is a quarter longer; a cluster of the first
 * level is not told. */
static void what_it_expects_is_told_when_it_is_more(void **state)
{
    uint64_t last_ms = 0;

    (void)state;
    agent.machine.folder_watch = folder_watch;
    agent.machine.folder_watch_free = folder_watch_free;
    resume_deferred(still_now_us);
    ask_again();
    heard->estimate(job, 1000);
    assert_int_equal(reports_of_telling(&last_ms), 0);
    agent.feature_level = 2;
    still_now_us += 2 * SECOND_US;
    heard->estimate(job, 8000);
    assert_int_equal(reports_of_telling(&last_ms), 1);
    assert_uint_equal(last_ms, 10000);
    assert_uint_equal(job->attempt.alive_us, still_now_us);
    still_now_us += 5 * SECOND_US;
    heard->estimate(job, 3000);
    heard->estimate(job, 5500); /* 12.5 s */
    assert_int_equal(reports_of_telling(&last_ms), 1);
    heard->estimate(job, 5501);
    assert_int_equal(reports_of_telling(&last_ms), 2);
    assert_uint_equal(last_ms, 12501);
    heard->estimate(job, ASK_ESTIMATE_MAX_MS);
    assert_int_equal(reports_of_telling(&last_ms), 3);
    assert_uint_equal(last_ms, ASK_ESTIMATE_MAX_MS); /* and never more */
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_first_look_long_after_the_start_is_not_the_last),
        T(who_has_opened_the_library_has_all_of_the_time),
        T(a_program_that_was_executed_after_the_look_is_looked_at_again),
        T(the_last_of_a_job_to_end_closes_its_work_folder),
        T(a_sensitive_attempt_that_is_cancelled_is_overwritten),
        T(a_deferred_attempt_that_is_hurried_looks_again),
        T(a_deferred_attempt_looks_again_though_its_agent_was_away),
        T(of_the_deferrals_of_all_nodes_the_longest_counts),
        T(what_it_expects_is_told_when_it_is_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
