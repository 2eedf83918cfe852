/* The checkpoints that are looked at beside the written one: never more than so many, of any
 * number. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/posix/neighbours.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

static int make(const struct folders *folders, const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", folders->prefix, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void expect(struct folders *folders, const char *own, const char *const *expected,
                   size_t count)
{
    struct neighbours neighbours;
    char path[300];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folders->prefix, own);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    neighbours_open(&neighbours, fd, path);
    assert_uint_equal(neighbours.count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(neighbours.names[i], expected[i]);
    neighbours_close(&neighbours);
    assert_int_equal(close(fd), 0);
}

/* Numbers are compared as such, and what is hidden is no checkpoint. */
static void the_next_one_before_comes_first(void **state)
{
    struct folders *folders = *state;
    static const char *const made[] = {"1-10", "1-9", ".1-8.gone.0123456789abcdef", "2-1", "1-2"};
    static const char *const of_10[] = {"1-9", "1-2", "2-1"}, *const of_2_1[] = {"1-10", "1-9",
                                                                                 "1-2"};

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        assert_int_equal(close(make(folders, made[i])), 0);
    expect(folders, "1-10", of_10, 3);
    expect(folders, "2-1", of_2_1, 3);
}

static void of_thousands_a_few_are_looked_at(void **state)
{
    struct folders *folders = *state;
    static const char *const expected[] = {"1-1199", "1-1198", "1-1197", "1-1196",
                                           "3-1200", "3-1199", "3-1198", "3-1197"};
    char name[32];

    for (unsigned i = 1; i <= 1200; i++) {
        snprintf(name, sizeof(name), "1-%u", i);
        assert_int_equal(close(make(folders, name)), 0);
        snprintf(name, sizeof(name), "3-%u", i);
        assert_int_equal(close(make(folders, name)), 0);
    }
    expect(folders, "1-1200", expected, sizeof(expected) / sizeof(expected[0]));
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_next_one_before_comes_first),
        T(of_thousands_a_few_are_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
