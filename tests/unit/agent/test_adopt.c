/* Adoption after a lost journal, killed at each write of it (I30, F-025). */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raft/uv_io.h"
#include "src/agent/node/adopt.h"
#include "tests/support/test.h"

enum { APPLICATIONS = 3, WRITES_MAX = 100, STRANGER = 20001 };

static char folder[32], journal_folder[64], socket_path[64];
static pid_t applications[APPLICATIONS];
static struct disk_ops real, disk;
static int writes_left; /* before the agent is killed */
static bool again;      /* pretenders were found before */
static bool placed;     /* by the agent, in a control group that nobody else makes */
static struct pretender pretenders[APPLICATIONS + 2];
static size_t pretender_count;

static void job_find(void *context, struct job_identity *job)
{
    (void)context;
    job->cgroup[0] = '\0';
    if (placed)
        strcpy(job->cgroup, "/sys/fs/cgroup/agent/jobs/job.0-7");
}

static int dying_write(struct disk_file *file, uint64_t offset, const void *bytes, size_t length,
                       struct err *err)
{
    return writes_left-- > 0 ? real.write(file, offset, bytes, length, err)
                             : err_set(err, ERR_IO, "killed");
}

static int dying_rename(void *context, const char *from, const char *to, struct err *err)
{
    return writes_left-- > 0 ? real.rename(context, from, to, err) : err_set(err, ERR_IO, "killed");
}

/* Of an application, as ckpt-run starts it: the main process, found by its environment. */
static pid_t start_program(const char *program, int number, const char *work_dir)
{
    char node[] = "CKPT_NODE_ID=node-a", id[64], dir[128], agent_socket[160];
    char *const environment[] = {id, node, dir, agent_socket, NULL};
    int ready[2];
    char byte;
    pid_t pid;

    snprintf(id, sizeof(id), "CKPT_ALLOCATION_ID=job-%d", number);
    snprintf(dir, sizeof(dir), "CKPT_DIR=%s", work_dir);
    snprintf(agent_socket, sizeof(agent_socket), "CKPT_AGENT_SOCKET=%s", socket_path);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        if (geteuid() == 0 && strcmp(program, "/bin/sleep") != 0 && setuid(STRANGER) != 0)
            _exit(1);
        execle(program, "sleep", "60", (char *)NULL, environment);
        _exit(1);
    }
    assert_true(pid > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* it has executed */
    close(ready[0]);
    return pid;
}

static pid_t start_application(int number, const char *work_dir)
{
    return start_program("/bin/sleep", number, work_dir);
}

static int set_up(void **state)
{
    (void)state;
    placed = true;
    strcpy(folder, "/tmp/test-adopt-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(journal_folder, sizeof(journal_folder), "%s/state", folder);
    snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
    for (int i = 0; i < APPLICATIONS; i++)
        applications[i] = start_application(i, folder);
    disk_uv_ops(NULL, &real); /* nothing here needs its loop */
    disk = real;
    disk.write = dying_write;
    disk.rename = dying_rename;
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    for (int i = 0; i < APPLICATIONS; i++) {
        kill(applications[i], SIGKILL);
        waitpid(applications[i], NULL, 0);
    }
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

/* A start of the agent, as far as adoption goes; true when it was not killed. *ret_count: what it
 * knows then. */
static bool start_agent(int writes, size_t *ret_count)
{
    const struct ledger_entry *entry = NULL;
    struct machine_ops machine;
    struct ledger *ledger;
    struct list found;
    struct err err;
    bool survived;

    *ret_count = 0;
    writes_left = writes;
    machine_uv_ops(NULL, &machine); /* nor this */
    machine.job_find = job_find;
    list_init(&found);
    pretender_count = 0;
    if (ledger_open(&disk, journal_folder, "node-a", "boot-1", &ledger, &err) != 0)
        return false;
    survived = adopt_running(
                   &machine,
                   &(struct adopt_for){.node_id = "node-a", .socket = socket_path, .again = again},
                   ledger, &found, &err) == 0;
    while (!list_empty(&found)) {
        struct pretender *pretender = LIST_ITEM(found.next, struct pretender, node);
        list_remove(&pretender->node);
        assert_true(pretender_count < APPLICATIONS + 2);
        pretenders[pretender_count++] = *pretender;
        free(pretender);
    }
    while ((entry = ledger_next(ledger, entry)) != NULL) {
        assert_true(entry->still && entry->phase == PHASE_NONE); /* it is to go on */
        ++*ret_count;
    }
    ledger_close(ledger);
    return survived;
}

/* Anybody can write the environment: it makes nothing the job's. */
static void what_no_group_of_the_agent_holds_is_a_pretender(void **state)
{
    char command[192];
    pid_t more;
    size_t count;

    (void)state;
    placed = false;
    snprintf(command, sizeof(command), "mkdir %s", journal_folder);
    assert_int_equal(system(command), 0);
    assert_true(start_agent(WRITES_MAX, &count));
    placed = true;
    assert_uint_equal(count, 0);
    assert_uint_equal(pretender_count, APPLICATIONS);
    for (size_t i = 0; i < pretender_count; i++) {
        assert_int_equal(strncmp(pretenders[i].allocation_id, "job-", 4), 0);
        assert_int_equal(pretenders[i].uid, geteuid());
        assert_string_equal(pretenders[i].work_dir, folder);
        assert_true(pretenders[i].start_ticks > 0 && pretenders[i].kill_at_us == 0);
    }
    assert_true(start_agent(WRITES_MAX, &count)); /* nothing of them was written */
    assert_uint_equal(count, APPLICATIONS);
    assert_uint_equal(pretender_count, 0);
    /* with a journal, only what it does not know, and only where there were some before */
    more = start_application(APPLICATIONS, folder);
    placed = false;
    assert_true(start_agent(WRITES_MAX, &count));
    assert_uint_equal(pretender_count, 0);
    again = true;
    assert_true(start_agent(WRITES_MAX, &count));
    again = false;
    kill(more, SIGKILL);
    waitpid(more, NULL, 0);
    assert_uint_equal(count, APPLICATIONS);
    assert_uint_equal(pretender_count, 1);
    assert_string_equal(pretenders[0].allocation_id, "job-3");
}

static void an_agent_killed_while_it_adopts_finds_all_at_its_next_start(void **state)
{
    char command[192];
    bool survived = false;
    int writes = 0;
    size_t count;

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s && mkdir %s", journal_folder, journal_folder);
    for (; !survived && writes < WRITES_MAX; writes++) {
        assert_int_equal(system(command), 0);
        survived = start_agent(writes, &count);
        assert_true(start_agent(WRITES_MAX, &count));
        assert_uint_equal(count, APPLICATIONS);
    }
    assert_true(survived);
    assert_true(writes > 1);
}

/* Its checkpoints fail, but it holds its nodes and must end when it is told to. Likewise when what
 * its folder's name leads to is another's, or no folder. */
static void an_application_without_its_work_folder_is_found(void **state)
{
    char gone[64], others[64], command[256];
    pid_t more[2];
    size_t count;

    (void)state;
    snprintf(gone, sizeof(gone), "%s/gone", folder);
    snprintf(others, sizeof(others), "%s/others", folder);
    snprintf(command, sizeof(command), "mkdir %s %s && touch %s", journal_folder, gone, others);
    assert_int_equal(system(command), 0);
    more[0] = start_application(APPLICATIONS, gone);
    more[1] = start_application(APPLICATIONS + 1, others); /* no folder of its user's */
    assert_int_equal(rmdir(gone), 0);
    assert_true(start_agent(WRITES_MAX, &count));
    for (int i = 0; i < 2; i++) {
        kill(more[i], SIGKILL);
        waitpid(more[i], NULL, 0);
    }
    assert_uint_equal(count, APPLICATIONS + 2);
}

/* A user chooses the environment of a program with the set-user-id bit, and is not who it runs
 * as. */
static void a_program_that_runs_as_another_than_who_started_it_is_not_taken(void **state)
{
    char program[64], command[320];
    size_t count;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("# SKIP several users need root\n");
        skip();
    }
    snprintf(program, sizeof(program), "%s/program", folder);
    snprintf(command, sizeof(command),
             "mkdir %s && chmod 755 %s && cp /bin/sleep %s && chmod 4755 %s", journal_folder,
             folder, program, program);
    assert_int_equal(system(command), 0);
    pid = start_program(program, APPLICATIONS, folder);
    assert_true(start_agent(WRITES_MAX, &count));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_uint_equal(count, APPLICATIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_no_group_of_the_agent_holds_is_a_pretender, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_agent_killed_while_it_adopts_finds_all_at_its_next_start,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_application_without_its_work_folder_is_found, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_program_that_runs_as_another_than_who_started_it_is_not_taken, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
