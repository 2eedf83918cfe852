/* The audit trail of a member as files: what a kill leaves, where the next file begins, and a disk
 * that takes nothing. F-018, V-016 */
#include "src/broker/keep/audit_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "tests/support/audit_record.h"
#include "tests/support/test.h"

static char root[64], folder[96];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ckpt-audit-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof(folder), "%s/audit", root);
    return 0;
}

static int teardown(void **state)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;

    (void)state;
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
    if (entries != NULL)
        closedir(entries);
    (void)rmdir(folder);
    return rmdir(root);
}

static int append(struct audit_file *file, uint64_t epoch, uint64_t first, uint64_t last,
                  struct err *err)
{
    struct audit_batch batch = {.epoch = epoch, .first = first, .last = last};
    struct buf links = {0};
    int result;

    for (uint64_t i = first; i <= last; i++)
        test_audit_link(&links, epoch, i);
    batch.bytes = links.bytes;
    batch.length = links.length;
    result = audit_file_append(file, &batch, err);
    buf_close(&links);
    return result;
}

static void reopen(struct audit_file *file)
{
    struct err err;

    audit_file_close(file);
    if (audit_file_open(folder, file, &err) != 0)
        fail_msg("%s", err.text);
}

static void files_go_on_where_they_ended(void **state)
{
    struct audit_file file;
    struct err err;
    struct stat status;

    (void)state;
    assert_int_equal(audit_file_open(folder, &file, &err), 0);
    assert_uint_equal(file.epoch, 0);
    assert_int_equal(append(&file, 1, 1, 3, &err), 0);
    assert_int_equal(append(&file, 1, 4, 9, &err), 0);
    reopen(&file);
    assert_uint_equal(file.epoch, 1);
    assert_uint_equal(file.sequence, 9);
    assert_string_equal(file.name, "audit-00000001-00000000000000000001.audit");
    assert_int_equal(append(&file, 2, 5, 6, &err), 0); /* restored from a backup */
    reopen(&file);
    assert_string_equal(file.name, "audit-00000002-00000000000000000005.audit");
    assert_uint_equal(file.sequence, 6);
    assert_int_equal(fstatat(file.folder, file.name, &status, 0), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    audit_file_close(&file);
}

/* An unfinished link was never told to be written. */
static void an_unfinished_link_is_cut_off(void **state)
{
    struct audit_file file;
    struct err err;
    int fd;

    (void)state;
    assert_int_equal(audit_file_open(folder, &file, &err), 0);
    assert_int_equal(append(&file, 1, 1, 2, &err), 0);
    fd = openat(file.folder, file.name, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "\x46\0\0\0\x09\x03", 6), 6); /* of a length, and its begin */
    close(fd);
    reopen(&file);
    assert_uint_equal(file.sequence, 2);
    assert_int_equal(append(&file, 1, 3, 3, &err), 0);
    reopen(&file);
    assert_uint_equal(file.sequence, 3);
    audit_file_close(&file);
}

static void what_is_no_trail_is_refused_with_the_file(void **state)
{
    struct audit_file file;
    struct err err;
    int fd;

    (void)state;
    assert_int_equal(audit_file_open(folder, &file, &err), 0);
    assert_int_equal(append(&file, 1, 1, 2, &err), 0);
    fd = openat(file.folder, file.name, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "a note\n", 7), 7);
    close(fd);
    audit_file_close(&file);
    assert_int_equal(audit_file_open(folder, &file, &err), -1);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_contains(err.text, "audit-00000001-00000000000000000001.audit");
    audit_file_close(&file);
}

static void a_folder_that_cannot_be_is_told(void **state)
{
    struct audit_file file;
    struct err err;
    int fd = open(folder, O_CREAT | O_WRONLY, 0600);

    (void)state;
    close(fd);
    assert_int_equal(audit_file_open(folder, &file, &err), -1);
    assert_contains(err.text, folder);
    audit_file_close(&file);
    assert_int_equal(unlink(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_go_on_where_they_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unfinished_link_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_trail_is_refused_with_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_is_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
