/* A trial tells of a program that saves when it is asked, and leaves no `done` (S3-066). */
#include "src/agent/run/run_try_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/agent/run/run_say.h"
#include "tests/support/test.h"

static char root[64];

/* Of so many seconds ago. */
static void put_file(const char *name, int age_s)
{
    const time_t now = time(NULL);
    const struct timespec times[2] = {{now - age_s, 0}, {now - age_s, 0}};
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

static bool is_said(void)
{
    struct try_watch watch = {.said = false};

    try_watch_look("work", &watch);
    return watch.said;
}

static int set_up(void **state)
{
    (void)state;
    run_say_quiet(true);
    snprintf(root, sizeof(root), "/tmp/ckpt-watch-XXXXXX");
    return mkdtemp(root) == NULL || chdir(root) != 0 || mkdir("work", 0700) != 0 ||
           mkdir("work/out", 0700) != 0 || mkdir("below", 0700) != 0;
}

static int tear_down(void **state)
{
    char line[128];

    (void)state;
    assert_int_equal(chdir("/"), 0);
    snprintf(line, sizeof(line), "rm -rf %s", root);
    return system(line);
}

static void a_newer_file_that_is_quiet_and_no_done_is_said(void **state)
{
    (void)state;
    put_file("below/state", 10);
    assert_false(is_said()); /* it was not asked */
    put_file("work/request", 20);
    assert_true(is_said());
    put_file("below/state", 30);
    assert_false(is_said()); /* of before the question */
    put_file("below/state", 0);
    assert_false(is_said()); /* it may still write */
    put_file("below/state", 10);
    put_file("work/done", 5);
    assert_false(is_said()); /* it has said that all is written */
    assert_int_equal(unlink("work/done") | unlink("below/state"), 0);
    put_file("work/out/state", 10);
    assert_true(is_said());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        a_newer_file_that_is_quiet_and_no_done_is_said, set_up, tear_down)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
