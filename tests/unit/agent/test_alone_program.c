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

/* By its pid, its start and its host. */
static void the_process_that_was_started_last_is_known_while_it_lives(void **state)
{
    struct alone_program read;
    char text[160];

    (void)state;
    assert_false(alone_program_lives(root, &read));
    note_own();
    assert_true(alone_program_lives(root, &read));
    assert_int_equal(read.pid, getpid());
    assert_string_equal(read.work_dir, "/tmp/my work");
    own.start_ticks++;
    note_own();
    assert_false(alone_program_lives(root, &read));
    snprintf(text, sizeof(text), "pid=%d\nstart=%llu\nhost=another-machine\nwork=/tmp\n",
             (int)getpid(), (unsigned long long)own.start_ticks - 1);
    note_put(text);
    assert_false(alone_program_lives(root, &read));
}

static void a_shorter_note_leaves_nothing_of_a_longer_one(void **state)
{
    struct alone_program read;

    (void)state;
    memset(own.work_dir, 'w', sizeof(own.work_dir) - 1);
    own.work_dir[0] = '/';
    note_own();
    assert_true(alone_program_lives(root, &read));
    assert_string_equal(read.work_dir, own.work_dir);
    snprintf(own.work_dir, sizeof(own.work_dir), "/w");
    note_own();
    assert_true(alone_program_lives(root, &read));
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
    assert_false(alone_program_lives(root, &read));
    reserved = note_stat();
    assert_true(reserved.st_size > 0 && reserved.st_blocks > 0); /* no hole */
    assert_int_equal(write_without_room((rlim_t)reserved.st_size, &err), 0);
    written = note_stat();
    assert_true(written.st_ino == reserved.st_ino && written.st_size == reserved.st_size);
    assert_true(alone_program_lives(root, &read));
    assert_int_equal(alone_program_reserve(root, own.work_dir, &err), 0); /* it is left as it is */
    assert_true(alone_program_lives(root, &read));
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
    assert_false(alone_program_lives(root, &read));
    note_put("");
    assert_false(alone_program_lives(root, &read));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(the_process_that_was_started_last_is_known_while_it_lives),
        TEST(a_shorter_note_leaves_nothing_of_a_longer_one),
        TEST(room_that_is_reserved_takes_each_later_note_in_place),
        TEST(a_folder_without_room_is_refused_with_the_name_and_the_length),
        TEST(a_folder_that_has_gone_takes_no_note),
        TEST(a_torn_note_is_of_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
