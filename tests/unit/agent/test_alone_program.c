/* The note of the program that a job without a cluster has started last (S4-007). */
#include "src/agent/alone/alone_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/agent/node/proc.h"
#include "tests/support/test.h"

enum { NAME_BYTES = 64 };

static char root[NAME_BYTES];
static struct alone_program own;

static int make_folder(void **state)
{
    struct proc_stat stat;

    (void)state;
    snprintf(root, sizeof(root), "/tmp/test-alone-XXXXXX");
    if (mkdtemp(root) == NULL || proc_read_stat(getpid(), &stat) != 0)
        return -1;
    own = (struct alone_program){
        .pid = getpid(), .start_ticks = stat.start_ticks, .work_dir = "/tmp/my work"};
    return 0;
}

static int remove_folder(void **state)
{
    char command[NAME_BYTES + 16];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static const char *note_path(void)
{
    static char path[NAME_BYTES + 32];

    snprintf(path, sizeof(path), "%s/" ALONE_PROGRAM, root);
    return path;
}

static struct stat note_stat(void)
{
    struct stat status;

    assert_int_equal(stat(note_path(), &status), 0);
    return status;
}

static void note_own(void)
{
    struct err err;

    assert_int_equal(alone_program_write(root, &own, &err), 0);
}

static void note_put(const char *text)
{
    FILE *file = fopen(note_path(), "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static enum alone_program_state look(struct alone_program *ret_program)
{
    return alone_program_look(root, ret_program);
}

/* By its pid, its start and its host. */
static void the_process_that_was_started_last_is_known_while_it_lives(void **state)
{
    struct alone_program read;
    char text[256], host[65] = "";

    (void)state;
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    note_own();
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    assert_int_equal(read.pid, getpid());
    assert_string_equal(read.work_dir, "/tmp/my work");
    own.start_ticks++;
    note_own();
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    snprintf(text, sizeof(text), "pid=%d\nstart=%llu\nhost=another-machine\nwork=/tmp\n",
             (int)getpid(), (unsigned long long)own.start_ticks - 1);
    note_put(text);
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    snprintf(text, sizeof(text), "pid=%d\nstart=%llu\nhost=%s\nwork=/tmp\n", (int)getpid(),
             (unsigned long long)own.start_ticks - 1, host);
    note_put(text); /* of a release before */
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    assert_string_equal(read.work_dir, "/tmp");
}

static void note_change(const char *key, const char *value)
{
    char text[8192] = "", after[8192];
    FILE *file = fopen(note_path(), "r");
    char *at;

    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    at = strstr(text, key);
    assert_non_null(at);
    at += strlen(key);
    snprintf(after, sizeof(after), "%s", at + strcspn(at, "\n"));
    *at = '\0';
    file = fopen(note_path(), "w");
    assert_non_null(file);
    fprintf(file, "%s%s%s", text, value, after);
    fclose(file);
}

/* Neither gone nor followed: the number is another process here, or none. */
static void a_process_of_another_pid_namespace_of_this_machine_is_unseen(void **state)
{
    struct alone_program read;
    int held;

    (void)state;
    note_own();
    note_change("\nnamespace=", "4026500000");
    note_change("\nhost=", "a-container");
    assert_int_equal(look(&read),
                     ALONE_PROGRAM_GONE); /* no keeper holds it: its container has gone */
    held = alone_program_hold(root);
    assert_true(held >= 0);
    assert_int_equal(look(&read), ALONE_PROGRAM_UNSEEN);
    assert_int_equal(read.pid, getpid());
    alone_program_clear(root);
    assert_int_equal(look(&read), ALONE_PROGRAM_UNSEEN);
    close(held);
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    held = alone_program_hold(root);
    note_change("\nboot=", "11111111-2222-3333-4444-555555555555");
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    close(held);
}

static void a_name_of_the_host_in_a_container_hides_no_process(void **state)
{
    struct alone_program read;

    (void)state;
    note_own();
    note_change("\nhost=", "a-container");
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    note_change("\nboot=", "unknown");
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
}

static void an_end_leaves_the_room_and_no_process(void **state)
{
    struct alone_program read;
    struct stat before;

    (void)state;
    alone_program_clear(root);
    assert_int_equal(access(note_path(), F_OK), -1);
    note_own();
    before = note_stat();
    alone_program_clear(root);
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    own.start_ticks++;
    note_own();
    alone_program_clear(root);
    note_change("\n", "\nnamespace=4026500000"); /* nothing is left that this could be of */
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    assert_true(note_stat().st_ino == before.st_ino);
}

static void a_shorter_note_leaves_nothing_of_a_longer_one(void **state)
{
    struct alone_program read;

    (void)state;
    memset(own.work_dir, 'w', sizeof(own.work_dir) - 1);
    own.work_dir[0] = '/';
    note_own();
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    assert_string_equal(read.work_dir, own.work_dir);
    snprintf(own.work_dir, sizeof(own.work_dir), "/w");
    note_own();
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    assert_string_equal(read.work_dir, "/w");
}

/* A limit of the length of files stands for a full disk: no file grows. */
static int write_without_room(rlim_t longest, struct err *err)
{
    const struct rlimit limit = {longest, RLIM_INFINITY};
    struct rlimit before;
    int result;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    result = alone_program_reserve(root, own.work_dir, err);
    if (result == 0)
        result = alone_program_write(root, &own, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    return result;
}

static void room_that_is_reserved_takes_each_later_note_in_place(void **state)
{
    struct alone_program read;
    struct err err = {0};
    struct stat reserved, written;

    (void)state;
    assert_int_equal(alone_program_reserve(root, own.work_dir, &err), 0);
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    reserved = note_stat();
    assert_true(reserved.st_size > 0 && reserved.st_blocks > 0); /* no hole */
    assert_int_equal(write_without_room((rlim_t)reserved.st_size, &err), 0);
    written = note_stat();
    assert_true(written.st_ino == reserved.st_ino && written.st_size == reserved.st_size);
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
    assert_int_equal(alone_program_reserve(root, own.work_dir, &err), 0); /* it is left as it is */
    assert_int_equal(look(&read), ALONE_PROGRAM_LIVES);
}

static void a_folder_without_room_is_refused_with_the_name_and_the_length(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(write_without_room(0, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_contains(err.text, "/" ALONE_PROGRAM ": File too large");
    assert_contains(err.text, "nothing is started without this note of what runs (1024 bytes)");
    assert_contains(err.text, "--dir");
    note_put("pid=1");
    assert_int_equal(write_without_room(5, &err), -1); /* of a release before */
    assert_int_equal(unlink(note_path()), 0);
    assert_int_equal(mkdir(note_path(), 0700), 0);
    assert_int_equal(alone_program_reserve(root, own.work_dir, &err), -1);
    assert_contains(err.text, "Is a directory");
}

static void a_folder_that_has_gone_takes_no_note(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(alone_program_write(root, &own, &err), -1);
    assert_contains(err.text, "No such file");
}

static void a_torn_note_is_of_none(void **state)
{
    struct alone_program read;

    (void)state;
    note_put("pid=12\nsta");
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
    note_put("");
    assert_int_equal(look(&read), ALONE_PROGRAM_GONE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(the_process_that_was_started_last_is_known_while_it_lives),
        TEST(a_process_of_another_pid_namespace_of_this_machine_is_unseen),
        TEST(a_name_of_the_host_in_a_container_hides_no_process),
        TEST(an_end_leaves_the_room_and_no_process),
        TEST(a_shorter_note_leaves_nothing_of_a_longer_one),
        TEST(room_that_is_reserved_takes_each_later_note_in_place),
        TEST(a_folder_without_room_is_refused_with_the_name_and_the_length),
        TEST(a_folder_that_has_gone_takes_no_note),
        TEST(a_torn_note_is_of_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
