/* A failure in a work folder names the folder, and how full it is where that is the cause. V-001 */
#include "src/agent/node/folder_fault.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

static char path[] = "/tmp/ckpt-folder-fault-XXXXXX";
static struct opened *folder;

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(path) == NULL)
        return -1;
    folder = opened_here(path);
    return folder == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    opened_close(folder);
    return rmdir(path);
}

static void a_full_folder_is_named_with_its_size(void **state)
{
    static const int full[] = {ENOSPC, EDQUOT};

    (void)state;
    for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
        struct err err = {0};
        char wanted[200];

        snprintf(wanted, sizeof(wanted), "write request.new in the work folder %s: %s (", path,
                 strerror(full[i]));
        assert_int_equal(folder_fault(folder, "write", "request.new", full[i], &err), -1);
        assert_int_equal(err.code, ERR_FULL);
        assert_int_equal(strncmp(err.text, wanted, strlen(wanted)), 0);
        assert_contains(err.text, "B of ");
        assert_contains(err.text, "B are free)");
    }
}

static void another_failure_is_named_alone(void **state)
{
    struct err err = {0};
    char wanted[200];

    (void)state;
    snprintf(wanted, sizeof(wanted), "create out in the work folder %s: Permission denied", path);
    assert_int_equal(folder_fault(folder, "create", "out", EACCES, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_string_equal(err.text, wanted);
    assert_int_equal(folder_fault(NULL, "create", "out", ENOSPC, &err), -1);
    assert_string_equal(err.text, "create out in the work folder: No space left on device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_folder_is_named_with_its_size),
        cmocka_unit_test(another_failure_is_named_alone),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
