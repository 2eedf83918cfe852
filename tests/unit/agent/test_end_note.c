/* How an application ended, or could not be started, is read from what its ckpt-run leaves in the
 * work folder (F-021, F-025). */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/agent/ended_job.h"

static char folder[32];

static void make_folder(void)
{
    strcpy(folder, "/tmp/test-stop-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(job->entry.work_dir, sizeof(job->entry.work_dir), "%s", folder);
    job->entry.uid = geteuid();
    job->entry.gid = getegid();
    user_path_take(&job->folder, folder, opened_here(folder));
}

static void write_note(const struct end_note *note)
{
    struct machine_file file = {opened_here(folder), allocation_user(job), END_NOTE_NAME};
    char text[END_NOTE_BYTES];
    struct err err;

    assert_int_equal(agent.machine.file_write(agent.machine.context, &file, text,
                                              end_note_format(note, text), &err),
                     0);
    opened_close((struct opened *)(uintptr_t)file.folder);
}

/* What ckpt-run leaves in the work folder, of the application that runs but for what differs. */
static void leave_note(const struct end_note *difference)
{
    struct end_note note = *difference;

    note.pid += PID;
    note.start_ticks += START_TICKS;
    note.run += RUN;
    make_folder();
    write_note(&note);
}

static void remove_note(void)
{
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(unlink(END_NOTE_NAME) + rmdir(folder), 0);
}

/* The agent sees it dead. */
static void ends(void)
{
    main_lives = group_lives = false;
    still_first_fire(job);
}

static void what_ckpt_run_left_tells_the_status(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.wait_status = 0});
    ends();
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
}

static void what_ckpt_run_left_tells_a_failure(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.wait_status = 9});
    ends();
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), RUN, 9);
}

static void what_ckpt_run_left_of_one_told_to_end_says_nothing_of_its_work(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.told_to_end = true});
    ends();
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
}

static void what_was_left_of_another_start_does_not_count(void **state)
{
    static const struct end_note others[] = {{.pid = 1}, {.start_ticks = 1}, {.run = 1}};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        leave_note(&others[i]);
        ends_untold();
        remove_note();
        expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
        still_agent_close(state);
        set_up(state);
    }
}

static void what_was_left_is_looked_for_when_a_stop_finds_it_ended(void **state)
{
    (void)state;
    leave_note(&(struct end_note){.wait_status = 0});
    main_lives = group_lives = false;
    stop(STOP_BY_ORDER, RUN);
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
}

/* By an agent that restarted: whoever has not taken the status stands still, and will tell it. */
static void a_ckpt_run_that_stands_still_is_waited_for(void **state)
{
    (void)state;
    main_lives = group_lives = false;
    zombie_of = 99;
    still_first_fire(job);
    still_now_us += 50 * SECOND_US;
    still_first_fire(job);
    assert_int_equal(job->process.state, PROCESS_ENDED);
    still_now_us += 10 * SECOND_US;
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
}

static void nobody_waits_for_a_process_that_init_does_not_take(void **state)
{
    (void)state;
    zombie_of = 1;
    ends_untold();
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
}

/* What is alive has not ended, whoever says so. */
static void a_note_of_what_is_alive_does_not_count(void **state)
{
    (void)state;
    exits(0, false);
    assert_int_equal(job->process.state, PROCESS_RUNNING);
    ends_untold();
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
}

/* Woken before the note is there, as by a ckpt-run whose folder is slow: it is looked for until it
 * is. */
static void a_note_that_comes_after_the_end_is_found(void **state)
{
    (void)state;
    make_folder();
    ends();
    assert_int_equal(job->process.state, PROCESS_ENDED);
    still_now_us += SECOND_US;
    write_note(&(struct end_note){.pid = PID, .start_ticks = START_TICKS, .run = RUN});
    still_first_fire(job);
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
}

static struct opened *looked_at;

static struct path_open *open_again(void *context, enum opened_kind kind, const char *path,
                                    uid_t uid, opened_done_fn *done, void *data)
{
    (void)context, (void)kind, (void)uid, (void)done, (void)data;
    looked_at = opened_here(path);
    return (struct path_open *)&looked_at;
}

/* A cleaner took the work folder while it ran, and ckpt-run left its note in a new one. */
static void a_note_in_another_folder_of_that_name_is_found(void **state)
{
    (void)state;
    make_folder();
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_note(&(struct end_note){.pid = PID, .start_ticks = START_TICKS, .run = RUN});
    agent.machine.path_open = open_again;
    main_lives = group_lives = false;
    still_now_us += 2 * SECOND_US;
    process_woken(job, "");
    assert_int_equal(job->process.state, PROCESS_ENDED);
    assert_non_null(job->folder.opening);
    job->folder.opening = NULL;
    job->folder.opened = looked_at;
    still_first_fire(job);
    remove_note();
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
}

/* Its ckpt-run starts it again: also an agent that was away hears of that. */
static void a_note_tells_of_another_start(void **state)
{
    const struct ledger_report *kept;
    Ckpt__V1__AgentReport *report;

    (void)state;
    leave_note(&(struct end_note){.wait_status = 9, .will_restart = true});
    ends();
    remove_note();
    assert_int_equal(job->process.state, PROCESS_ABSENT);
    assert_true(job->entry.restart_awaited);
    kept = ledger_report_after(agent.ledger, 0);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_uint_equal(report->will_restart, 1);
    assert_int_equal(report->exit_status, 9);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

/* ---- what could not be started ---- */

/* A ckpt-run was told to start it; the agent after that one knows so. */
static struct allocation *resumed_when_granted(void)
{
    struct allocation *again;

    make_folder();
    main_lives = group_lives = false;
    job->entry.pid = 0;
    job->entry.start_ticks = 0;
    job->entry.start_granted = true;
    allocation_commit(job, NULL, 0);
    again = resumed();
    user_path_take(&again->folder, folder, opened_here(folder));
    return again;
}

static void expect_not_started(int32_t status, const char *why)
{
    const struct ledger_report *kept = ledger_report_after(agent.ledger, 0);
    Ckpt__V1__AgentReport *report;

    assert_non_null(kept);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_int_equal(report->kind, KIND(APPLICATION_EXITED));
    assert_int_equal(report->exit_status, status);
    assert_uint_equal(report->run, RUN);
    assert_string_equal(report->detail, why);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
}

/* F-025: else its job would be starting for ever. */
static void what_could_not_be_started_while_the_agent_was_away_is_told(void **state)
{
    struct allocation *again = resumed_when_granted();

    (void)state;
    still_first_fire(again);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    write_note(&(struct end_note){.run = RUN, .wait_status = 127 << 8, .why = "nothing: gone"});
    still_now_us += SECOND_US;
    still_first_fire(again);
    expect_not_started(127 << 8, "not started: nothing: gone");
    assert_false(again->entry.start_granted);
    still_first_fire(again);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 1); /* once */
    remove_note();
    allocation_free(again);
}

static void a_failed_start_of_another_run_does_not_count(void **state)
{
    struct allocation *again = resumed_when_granted();

    (void)state;
    write_note(&(struct end_note){.run = RUN - 1, .wait_status = 127 << 8, .why = "gone"});
    still_first_fire(again);
    assert_uint_equal(ledger_last_sequence(agent.ledger), 0);
    assert_true(again->entry.start_granted);
    remove_note();
    allocation_free(again);
}

static void a_start_whose_ckpt_run_leaves_no_note_failed_all_the_same(void **state)
{
    (void)state;
    make_folder();
    ends_untold();
    expect_report(KIND(APPLICATION_EXITED), RUN, PROCESS_STATUS_UNKNOWN);
    assert_int_equal(ledger_acknowledge(agent.ledger, 1, &(struct err){0}), 0);
    job->entry.start_granted = true;
    process_woken(job, "");
    assert_uint_equal(ledger_last_sequence(agent.ledger), 2);
    assert_false(job->entry.start_granted);
    assert_int_equal(rmdir(folder), 0);
}

static void only_what_ckpt_run_writes_is_a_note(void **state)
{
    static const char *const wrong[] = {
        "", "pid=100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=0 will_restart=0 why=",
        "pid=100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=0 will_restart=0 why=\n\n",
        "pid=100 start_ticks=5000 run=0-7 wait_status=00 told_to_end=0 will_restart=0 why=\n",
        "pid=100 start_ticks=5000 run=0-7 wait_status=-1 told_to_end=0 will_restart=0 why=\n",
        /* stopped */
        "pid=100 start_ticks=5000 run=0-7 wait_status=127 told_to_end=0 will_restart=0 why=\n",
        "pid=100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=2 will_restart=0 why=\n",
        "pid=100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=0 will_restart=2 why=\n",
        "pid=100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=0\n",
        "pid=100 start_ticks=5000 run=7 wait_status=0 told_to_end=0 will_restart=0 why=\n",
        "pid=+100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=0 will_restart=0 why=\n",
        "pid=100 start_ticks=5000 run=0-7 wait_status=0 told_to_end=0 will_restart=0 why=\x01\n",
        " wait_status=0 told_to_end=0 will_restart=0 why=\n"};
    char text[END_NOTE_BYTES];
    struct end_note note;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(end_note_read(wrong[i], &note));
    assert_true(end_note_read(
        "pid=100 start_ticks=5000 run=0-7 wait_status=768 told_to_end=1 will_restart=0 why=\n",
        &note));
    assert_uint_equal(note.pid, 100);
    assert_uint_equal(note.start_ticks, 5000);
    assert_uint_equal(note.run, 7);
    assert_int_equal(note.wait_status, 768);
    assert_true(note.told_to_end);
    assert_false(note.will_restart);
    note = (struct end_note){.run = 7, .wait_status = 127 << 8, .will_restart = true};
    memset(note.why, 'y', sizeof(note.why) - 1);
    end_note_format(&note, text);
    memset(&note, 0, sizeof(note));
    assert_true(end_note_read(text, &note));
    assert_uint_equal(strlen(note.why), sizeof(note.why) - 1);
    assert_true(note.will_restart);
}

/* After a restart of the agent beside many jobs, whose folders are opened a few at a time. */
static void the_note_is_waited_for_while_its_folder_is_being_opened(void **state)
{
    struct opened *opened;

    (void)state;
    leave_note(&(struct end_note){.wait_status = 0});
    opened = job->folder.opened;
    job->folder.opened = NULL;
    job->folder.opening = (struct path_open *)(void *)job;
    main_lives = group_lives = false;
    for (int i = 0; i < 3; i++) {
        still_first_fire(job);
        still_now_us += 4 * SECOND_US;
    }
    assert_null(ledger_report_after(agent.ledger, 0));
    job->folder.opening = NULL;
    job->folder.opened = opened;
    still_first_fire(job);
    expect_report(KIND(APPLICATION_EXITED), RUN, 0);
    remove_note();
}

int main(void)
{
#define NOTE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, still_agent_close)
    const struct CMUnitTest tests[] = {
        NOTE_TEST(what_ckpt_run_left_tells_the_status),
        NOTE_TEST(what_ckpt_run_left_tells_a_failure),
        NOTE_TEST(what_ckpt_run_left_of_one_told_to_end_says_nothing_of_its_work),
        NOTE_TEST(what_was_left_of_another_start_does_not_count),
        NOTE_TEST(what_was_left_is_looked_for_when_a_stop_finds_it_ended),
        NOTE_TEST(a_ckpt_run_that_stands_still_is_waited_for),
        NOTE_TEST(nobody_waits_for_a_process_that_init_does_not_take),
        NOTE_TEST(a_note_of_what_is_alive_does_not_count),
        NOTE_TEST(a_note_that_comes_after_the_end_is_found),
        NOTE_TEST(a_note_in_another_folder_of_that_name_is_found),
        NOTE_TEST(a_note_tells_of_another_start),
        NOTE_TEST(what_could_not_be_started_while_the_agent_was_away_is_told),
        NOTE_TEST(a_failed_start_of_another_run_does_not_count),
        NOTE_TEST(a_start_whose_ckpt_run_leaves_no_note_failed_all_the_same),
        NOTE_TEST(the_note_is_waited_for_while_its_folder_is_being_opened),
        cmocka_unit_test(only_what_ckpt_run_writes_is_a_note),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
