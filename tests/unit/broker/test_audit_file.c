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
#include "tests/support/sign_keys.h"
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

static uint64_t signed_last(const char *name)
{
    char path[256], text[SIGNED_HEAD_TEXT_BYTES] = "";
    FILE *file;
    const char *at;

    snprintf(path, sizeof(path), "%s/%s.sig", folder, name);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    at = strstr(text, "\"last\": ");
    assert_non_null(at);
    return strtoull(at + strlen("\"last\": "), NULL, 10);
}

/* The newest head of each file; of an earlier file it stays as it was. */
static void the_head_of_each_file_is_signed(void **state)
{
    const struct signed_head like = {.cluster = "hpc", .member = "n1", .at_ms = 7};
    char private_path[96], public_path[96], first[AUDIT_FILE_NAME_BYTES];
    struct sign_key *key;
    struct audit_file file;
    struct err err;

    (void)state;
    snprintf(private_path, sizeof(private_path), "%s/key", root);
    snprintf(public_path, sizeof(public_path), "%s/pem", root);
    sign_keys_make(private_path, public_path);
    assert_int_equal(sign_key_load(private_path, &key, &err), 0);
    assert_int_equal(audit_file_open(folder, &file, &err), 0);
    assert_int_equal(append(&file, 1, 1, 3, &err), 0);
    snprintf(first, sizeof(first), "%s", file.name);
    assert_uint_equal(signed_last(first), 0);
    assert_int_equal(audit_file_sign(&file, &like, key, &err), 0);
    assert_uint_equal(signed_last(first), 3);
    assert_int_equal(append(&file, 1, 4, 9, &err), 0);
    reopen(&file); /* killed before it signed */
    assert_uint_equal(signed_last(first), 3);
    assert_int_equal(audit_file_sign(&file, &like, key, &err), 0);
    assert_uint_equal(signed_last(first), 9);
    assert_int_equal(append(&file, 2, 5, 6, &err), 0);
    assert_int_equal(audit_file_sign(&file, &like, key, &err), 0);
    assert_uint_equal(signed_last(file.name), 6);
    assert_uint_equal(signed_last(first), 9);
    reopen(&file); /* finds its files among those */
    assert_uint_equal(file.sequence, 6);
    audit_file_close(&file);
    sign_key_free(key);
    assert_int_equal(unlink(private_path), 0);
    assert_int_equal(unlink(public_path), 0);
}

/* It was given with the batch, and is of the bytes. */
static void the_last_links_hash_is_found_again(void **state)
{
    uint8_t hash[BLAKE2B_BYTES] = {0};
    struct audit_batch batch = {.epoch = 1, .first = 1, .last = 2};
    struct buf links = {0};
    struct audit_file file;
    struct err err;

    (void)state;
    test_audit_chained(&links, 1, 1, hash);
    test_audit_chained(&links, 1, 2, hash);
    batch.bytes = links.bytes;
    batch.length = links.length;
    memcpy(batch.hash, hash, sizeof(hash));
    assert_int_equal(audit_file_open(folder, &file, &err), 0);
    assert_int_equal(audit_file_append(&file, &batch, &err), 0);
    assert_memory_equal(file.hash, hash, sizeof(hash));
    memset(file.hash, 0, sizeof(file.hash));
    reopen(&file);
    assert_memory_equal(file.hash, hash, sizeof(hash));
    assert_uint_equal(file.first, 1);
    audit_file_close(&file);
    buf_close(&links);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_head_of_each_file_is_signed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_links_hash_is_found_again, setup, teardown),
        cmocka_unit_test_setup_teardown(files_go_on_where_they_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unfinished_link_is_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_trail_is_refused_with_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_is_told, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
