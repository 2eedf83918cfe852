/* A start empties a work folder that a start has made, and none of somebody's own. V-011. */
#include "src/agent/run/run_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

static char base[64];

static int make_base(void **state)
{
    (void)state;
    snprintf(base, sizeof(base), "/tmp/ckpt-run-folder-XXXXXX");
    return mkdtemp(base) != NULL && setenv("TMPDIR", "/nowhere", 1) == 0 ? 0 : -1;
}

static int remove_base(void **state)
{
    char line[96];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", base);
    return system(line);
}

static void make_file(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* Release 0.1.0 left no mark: its jobs begin again where they were. */
static void the_default_folder_is_taken_with_all_that_is_in_it(void **state)
{
    char path[PATH_MAX], again[PATH_MAX], mark[PATH_MAX + 32], wanted[128], job[64];
    struct err err = {0};

    (void)state;
    snprintf(job, sizeof(job), "%s",
             strrchr(base, '/') + 1); /* nobody else has a job of that name */
    snprintf(wanted, sizeof(wanted), "/var/tmp/ckpt-%u/%s", (unsigned)geteuid(), job);
    assert_int_equal(run_folder_make(NULL, job, path, &err), 0);
    assert_string_equal(path, wanted);
    snprintf(mark, sizeof(mark), "%s/%s", path, RUN_FOLDER_MARK);
    assert_int_equal(unlink(mark), 0);
    make_file(path, "done");
    assert_int_equal(run_folder_make(NULL, job, again, &err), 0);
    assert_string_equal(again, path);
    assert_int_equal(access(mark, F_OK), 0);
    snprintf(again, sizeof(again), "%s/done", wanted);
    assert_int_equal(unlink(again) + unlink(mark) + rmdir(path), 0);
}

static void a_folder_that_was_removed_is_made_again(void **state)
{
    char named[96], link_of[96], path[PATH_MAX], mark[PATH_MAX + 32];
    struct err err = {0};

    (void)state;
    snprintf(named, sizeof(named), "%s/gone/deep", base);
    snprintf(link_of, sizeof(link_of), "%s/link", base);
    assert_int_equal(symlink(named, link_of), 0);
    assert_int_equal(run_folder_make(named, "job", path, &err), 0);
    snprintf(mark, sizeof(mark), "%s/%s", path, RUN_FOLDER_MARK);
    assert_int_equal(run_folder_keep(link_of, "job", path, &err), 0);
    assert_int_equal(unlink(mark), 0);
    assert_int_equal(run_folder_keep(named, "job", path, &err), 0);
    assert_int_equal(access(mark, F_OK), -1); /* it is there, and nothing is done */
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(run_folder_keep(named, "job", path, &err), 0);
    assert_int_equal(access(mark, F_OK), 0);
    assert_int_equal(unlink(mark) + rmdir(path), 0);
    snprintf(named, sizeof(named), "%s/other", base);
    assert_int_equal(run_folder_keep(named, "job", path, &err), -1);
    assert_contains(err.text, "and its name leads to");
}

static void a_named_folder_is_taken_with_a_mark_alone(void **state)
{
    char named[96], path[PATH_MAX];
    struct err err = {0};

    (void)state;
    snprintf(named, sizeof(named), "%s/named", base);
    assert_int_equal(mkdir(named, 0700), 0);
    make_file(named, "done");
    assert_int_equal(run_folder_make(named, "job", path, &err), -1);
    assert_non_null(strstr(err.text, "has an entry \"done\" that no ckpt-run has made"));
    assert_non_null(strstr(err.text, "touch " RUN_FOLDER_MARK " in it"));
    make_file(named, RUN_FOLDER_MARK);
    assert_int_equal(run_folder_make(named, "job", path, &err), 0);
}

/* A reader of it is not waited for. */
static void a_pipe_with_the_name_of_the_mark_stops_nothing(void **state)
{
    char named[96], mark[128], path[PATH_MAX];
    struct err err = {0};

    (void)state;
    snprintf(named, sizeof(named), "%s/piped", base);
    snprintf(mark, sizeof(mark), "%s/%s", named, RUN_FOLDER_MARK);
    assert_int_equal(mkdir(named, 0700), 0);
    assert_int_equal(mkfifo(mark, 0600), 0);
    alarm(10);
    assert_int_equal(run_folder_make(named, "job", path, &err), 0);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_folder_is_taken_with_all_that_is_in_it),
        cmocka_unit_test(a_folder_that_was_removed_is_made_again),
        cmocka_unit_test(a_named_folder_is_taken_with_a_mark_alone),
        cmocka_unit_test(a_pipe_with_the_name_of_the_mark_stops_nothing),
    };

    return cmocka_run_group_tests(tests, make_base, remove_base);
}
