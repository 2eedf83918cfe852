/* The log's file (S2-015): where it is, how large it grows, and what becomes of lines that it does
 * not take. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/log_file.h"

enum { LINES = 2000, DEADLINE_S = 20 };

static char folder[] = "/tmp/ckpt-log-XXXXXX", path[64], old[64], diverted[64];
static int own_stderr;

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ckpt-log-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/log", folder);
    snprintf(old, sizeof(old), "%s/log.old", folder);
    snprintf(diverted, sizeof(diverted), "%s/stderr", folder);
    own_stderr = dup(STDERR_FILENO);
    return dup2(open(diverted, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_file_close();
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    unlink(path);
    unlink(old);
    unlink(diverted);
    return rmdir(folder);
}

static char *contents(const char *name)
{
    static char bytes[2][1 << 21];
    static int next;
    char *text = bytes[next++ % 2];
    int fd = open(name, O_RDONLY);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(bytes[0]) - 1);

    text[length < 0 ? 0 : length] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

/* The thread writes when it comes to it. */
static bool comes(const char *name, const char *word)
{
    for (int i = 0; i < DEADLINE_S * 100; i++) {
        if (strstr(contents(name), word) != NULL)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

static void lines_go_to_the_file_and_a_restart_appends(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(log_file_open(path, 0, &err), 0);
    log_info("one", "number=%d", 1);
    log_debug("hidden", "number=%d", 1);
    log_file_close();
    assert_non_null(strstr(contents(path), "event=one number=1\n"));
    assert_null(strstr(contents(path), "hidden"));
    assert_int_equal(log_file_open(path, 0, &err), 0);
    log_info("two", "number=%d", 2);
    log_file_close();
    log_info("three", "number=%d", 3); /* nobody takes it any more */
    assert_non_null(strstr(contents(path), "event=one"));
    assert_non_null(strstr(contents(path), "event=two"));
    assert_null(strstr(contents(path), "three"));
    assert_string_not_equal(contents(diverted), "");
    assert_null(strstr(contents(diverted), "event=one"));
}

/* No line is cut or lost while at most two files hold them, and neither is over the limit. */
static void a_full_file_is_kept_as_old_and_begun_anew(void **state)
{
    struct stat now, before;
    struct err err;
    char last[32];

    (void)state;
    assert_int_equal(log_file_open(path, LOG_FILE_MIN_BYTES, &err), 0);
    for (int i = 0; i < LINES; i++) { /* some four files */
        snprintf(last, sizeof(last), "line=%d.\n", i);
        log_info("filler", "text=\"%0*d\" line=%d.", 60, 0, i);
        if (i % 500 == 499)
            assert_true(comes(path, last));
    }
    log_file_close();
    assert_int_equal(stat(path, &now), 0);
    assert_int_equal(stat(old, &before), 0);
    assert_in_range(now.st_size, 1, LOG_FILE_MIN_BYTES);
    assert_in_range(before.st_size, LOG_FILE_MIN_BYTES - 1000, LOG_FILE_MIN_BYTES);
    assert_non_null(strstr(contents(path), last));
    assert_int_equal(count_of(contents(path), "\n"), count_of(contents(path), "time="));
    assert_int_equal(count_of(contents(old), "\n"), count_of(contents(old), ".\n"));
    /* the two are one after the other */
    snprintf(last, sizeof(last), "line=%d.\n",
             atoi(strstr(contents(path), "line=") + strlen("line=")) - 1);
    assert_non_null(strstr(contents(old), last));
    assert_string_equal(contents(diverted), "");
}

/* As it is when another program rotates. */
static void a_file_that_was_moved_away_is_begun_anew(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(log_file_open(path, 0, &err), 0);
    log_info("before", "number=%d", 1);
    assert_true(comes(path, "event=before"));
    assert_int_equal(rename(path, old), 0);
    log_info("after", "number=%d", 2);
    log_file_close();
    assert_non_null(strstr(contents(path), "event=after"));
    assert_null(strstr(contents(old), "after"));
}

static void what_cannot_be_the_file_is_refused_at_the_opening(void **state)
{
    char missing[96];
    struct err err;

    (void)state;
    snprintf(missing, sizeof(missing), "%s/no/log", folder);
    assert_int_equal(log_file_open(missing, 0, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, missing));
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(log_file_open(path, 0, &err), -1); /* nobody reads it, and nobody waits */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(log_file_open(folder, 0, &err), -1);
    assert_int_equal(log_file_open("/dev/null", 0, &err), -1);
    assert_int_equal(err.code, ERR_REFUSED);
    log_info("still", "number=%d", 1); /* to stderr */
    assert_non_null(strstr(contents(diverted), "event=still"));
}

/* A limit on the size of files stands for a disk that is full. */
static void no_room_is_told_at_the_opening_and_costs_no_line_later(void **state)
{
    struct rlimit before, least;
    struct err err;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    least = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    assert_int_equal(log_file_open(path, 0, &err), -1);
    assert_non_null(strstr(err.text, "takes no line"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(log_file_open(path, 0, &err), 0);
    log_info("first", "number=%d", 1);
    assert_true(comes(path, "event=first"));
    least.rlim_cur = 4096; /* stderr is a file too, and shorter */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    for (int i = 0; i < 48; i++)
        log_info("filler", "text=\"%0*d\"", 20, 0);
    log_info("last", "number=%d", 2);
    assert_true(comes(diverted, "event=last"));
    assert_int_equal(count_of(contents(diverted), "event=log_file_failed"), 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    log_info("again", "number=%d", 3);
    log_file_close();
    assert_non_null(strstr(contents(path), "event=again"));
}

int main(void)
{
#define WITH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(lines_go_to_the_file_and_a_restart_appends),
        WITH(a_full_file_is_kept_as_old_and_begun_anew),
        WITH(a_file_that_was_moved_away_is_begun_anew),
        WITH(what_cannot_be_the_file_is_refused_at_the_opening),
        WITH(no_room_is_told_at_the_opening_and_costs_no_line_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
