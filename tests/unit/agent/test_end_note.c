/* When what ckpt-run has left in the work folder is looked for: not before that has been opened. */
#include "src/agent/durable/end_note.h"

#include <unistd.h>

#include "tests/unit/agent/still_agent.h"

enum { LIFE = 7, PID = 100, START_TICKS = 5000 };

static struct allocation *job;

static int process_read(void *context, pid_t pid, struct proc_stat *ret_stat,
                        struct proc_status *ret_status)
{
    (void)context, (void)pid, (void)ret_stat, (void)ret_status;
    return -1;
}

static size_t group_each(void *context, pid_t group, proc_each_fn *each, void *data)
{
    (void)context, (void)group, (void)each, (void)data;
    return 0;
}

static struct kin_look *kin_kill_none(void *context, const struct kin *kin,
                                      void (*done)(void *data, size_t count), void *data)
{
    (void)context, (void)kin, (void)done, (void)data;
    return NULL;
}

/* Its application has ended without anybody's word. */
static int set_up(void **state)
{
    struct machine_ops machine;

    (void)state;
    still_machine_ops(&machine);
    machine.process_read = process_read;
    machine.group_each = group_each;
    machine.kin_kill = kin_kill_none;
    still_agent_open(&machine);
    job = agent_get(&agent, "job");
    job->entry.life = LIFE;
    process_attached(job,
                     &(struct process_identity){.pid = PID,
                                                .start_ticks = START_TICKS,
                                                .user = {.uid = geteuid(), .gid = getegid()}},
                     0, false);
    return 0;
}

/* After a restart of the agent beside many jobs, whose folders are opened a few at a time. */
static void the_note_is_waited_for_while_its_folder_is_being_opened(void **state)
{
    const struct end_note note = {.pid = PID, .start_ticks = START_TICKS, .life = LIFE};
    char folder[] = "/tmp/test-end-note-XXXXXX", text[END_NOTE_BYTES];
    const struct ledger_report *kept;
    Ckpt__V1__AgentReport *report;
    struct machine_file file;
    struct err err;

    (void)state;
    assert_non_null(mkdtemp(folder));
    file = (struct machine_file){opened_here(folder), allocation_user(job), END_NOTE_NAME};
    assert_int_equal(
        agent.machine.file_write(NULL, &file, text, end_note_format(&note, text), &err), 0);
    job->folder.opening = (struct path_open *)(void *)job;
    for (int i = 0; i < 3; i++) {
        still_first_fire(job);
        still_now_us += 4 * SECOND_US;
    }
    assert_null(ledger_report_after(agent.ledger, 0));
    job->folder.opening = NULL;
    job->folder.opened = (struct opened *)(uintptr_t)file.folder;
    still_first_fire(job);
    kept = ledger_report_after(agent.ledger, 0);
    assert_non_null(kept);
    report = ckpt__v1__agent_report__unpack(NULL, kept->length, kept->bytes);
    assert_non_null(report);
    assert_int_equal(report->kind, CKPT__V1__REPORT_KIND__REPORT_KIND_APPLICATION_EXITED);
    assert_int_equal(report->exit_status, 0);
    ckpt__v1__agent_report__free_unpacked(report, NULL);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(unlink(END_NOTE_NAME) + rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_note_is_waited_for_while_its_folder_is_being_opened,
                                        set_up, still_agent_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
