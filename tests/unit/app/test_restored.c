/* libckptapp, of what a rank begins from: folders and the step, without an agent. */
#include <errno.h>
#include <sys/stat.h>

#include "src/app/handle.h"

#include "tests/support/test.h"

static void make_folders(const char *base, const char *const *names)
{
    char path[512];

    for (; *names != NULL; names++) {
        snprintf(path, sizeof(path), "%s/%s", base, *names);
        assert_int_equal(mkdir(path, 0700), 0);
    }
}

/* As restored() of the Python module: each rank with its folder, those of a part or of all. */
static void each_restored_rank_is_told_with_its_folder(void **state)
{
    static const char *const of_part[] = {"rank-00010", "rank-2", "rank-x", "other", NULL};
    static const char *const of_all[] = {"part-0000", "part-0000/rank-0", "part-0001",
                                         "part-0001/rank-1", NULL};
    char base[] = "/tmp/test-app-XXXXXX", folder[512], wanted[512];

    (void)state;
    unsetenv("CKPT_APP_SOCKET");
    assert_non_null(mkdtemp(base));
    setenv("CKPT_RESTORE_DIR", base, 1);
    assert_int_equal(ckpt_restored_next(NULL, -1, folder, sizeof(folder)), -1);
    assert_int_equal(errno, ENOENT);
    make_folders(base, of_part);
    assert_int_equal(ckpt_restored_next(NULL, -1, folder, sizeof(folder)), 2);
    snprintf(wanted, sizeof(wanted), "%s/rank-2", base);
    assert_string_equal(folder, wanted);
    assert_int_equal(ckpt_restored_next(NULL, 2, folder, sizeof(folder)), 10);
    snprintf(wanted, sizeof(wanted), "%s/rank-00010", base);
    assert_string_equal(folder, wanted);
    assert_int_equal(ckpt_restored_next(NULL, 10, folder, sizeof(folder)), -1);
    assert_int_equal(ckpt_restored_next(NULL, 2, folder, 5), -1);
    assert_int_equal(errno, ERANGE);
    make_folders(base, of_all);
    assert_int_equal(ckpt_restored_next(NULL, -1, folder, sizeof(folder)), 0);
    assert_int_equal(ckpt_restored_next(NULL, 0, folder, sizeof(folder)), 1);
    snprintf(wanted, sizeof(wanted), "%s/part-0001/rank-1", base);
    assert_string_equal(folder, wanted);
    snprintf(folder, sizeof(folder), "rm -r %s", base);
    assert_int_equal(system(folder), 0);
    assert_uint_equal(ckpt_restored_step(NULL), 0);
    setenv("CKPT_RESTORE_LABEL", "281", 1);
    assert_uint_equal(ckpt_restored_step(NULL), 281);
    setenv("CKPT_RESTORE_LABEL", "best", 1);
    assert_uint_equal(ckpt_restored_step(NULL), 0);
    unsetenv("CKPT_RESTORE_LABEL");
    unsetenv("CKPT_RESTORE_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_restored_rank_is_told_with_its_folder),
    };

    return cmocka_run_group_tests_name("restored", tests, NULL, NULL);
}
