/* A restored file is what was written, wherever its chunks came first, and past the page cache. */
#include "src/dest/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/copy.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

enum { END = 12345, SIZE = MANIFEST_CHUNK_BYTES + END };

static void fill(uint8_t *bytes, size_t length, uint8_t first)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(first + i % 251);
}

/* A file of SIZE in {to}, of which the end is written before the beginning. */
static void restore_large(const char *to, uint8_t *bytes)
{
    struct manifest manifest;
    struct target target;
    struct err err = {0};
    int fd;

    manifest_init(&manifest);
    manifest_add(&manifest, "large", false)->size_bytes = SIZE;
    assert_int_equal(manifest_finish(&manifest, &err), 0);
    manifest.entries[0].mode = 0640;
    assert_int_equal(target_open(&target, to, &err), 0);
    assert_int_equal(target_begin(&target, &manifest, &err), 0);
    fd = target_create(&target, &manifest.entries[0], &err);
    assert_true(fd >= 0);
    assert_int_equal(tree_bypasses(target.temporary), (fcntl(fd, F_GETFL) & O_DIRECT) != 0);
    fill(bytes, END, 7);
    assert_int_equal(copy_write((struct copy_end){fd, "large"}, bytes,
                                (struct copy_range){MANIFEST_CHUNK_BYTES, END}, &err),
                     0);
    fill(bytes, MANIFEST_CHUNK_BYTES, 3);
    assert_int_equal(copy_write((struct copy_end){fd, "large"}, bytes,
                                (struct copy_range){0, MANIFEST_CHUNK_BYTES}, &err),
                     0);
    assert_int_equal(target_finish(fd, &manifest.entries[0], &err), 0);
    assert_int_equal(target_publish(&target, &manifest, &err), 0);
    target_close(&target);
    manifest_close(&manifest);
}

/* The end is no whole block. */
static void a_large_file_ends_where_it_should(void **unused)
{
    char folder[512], to[600], file[620];
    struct stat status;
    uint8_t *bytes = copy_alloc(MANIFEST_CHUNK_BYTES), *back = copy_alloc(SIZE);
    int fd;

    (void)unused;
    assert_non_null(getcwd(folder, sizeof(folder) - 20)); /* on a disk, unlike /dev/shm */
    strcat(folder, "/target-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(to, sizeof(to), "%s/back", folder);
    snprintf(file, sizeof(file), "%s/large", to);
    restore_large(to, bytes);
    fd = open(file, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, SIZE);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(read(fd, back, SIZE), SIZE);
    assert_memory_equal(back, bytes, MANIFEST_CHUNK_BYTES);
    fill(bytes, END, 7);
    assert_memory_equal(back + MANIFEST_CHUNK_BYTES, bytes, END);
    close(fd);
    free(bytes);
    free(back);
    remove_tree(folder);
}

/* An object store may give a range a second time: its first bytes are not left. S1-032. */
static void zeros_are_holes_and_nothing_of_before_shows_through(void **unused)
{
    char folder[512], file[620];
    struct stat status;
    uint8_t *bytes = copy_alloc(MANIFEST_CHUNK_BYTES), *back = copy_alloc(SIZE);
    struct manifest manifest;
    struct target target;
    struct err err = {0};
    int fd;

    (void)unused;
    assert_non_null(getcwd(folder, sizeof(folder) - 20)); /* on a disk, unlike /dev/shm */
    strcat(folder, "/target-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/back", folder);
    manifest_init(&manifest);
    manifest_add(&manifest, "large", false)->size_bytes = SIZE;
    assert_int_equal(manifest_finish(&manifest, &err), 0);
    manifest.entries[0].mode = 0640;
    assert_int_equal(target_open(&target, file, &err), 0);
    assert_int_equal(target_begin(&target, &manifest, &err), 0);
    fd = target_create(&target, &manifest.entries[0], &err);
    assert_true(fd >= 0);
    fill(bytes, MANIFEST_CHUNK_BYTES, 9);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(copy_write((struct copy_end){fd, "large"}, bytes,
                                    (struct copy_range){0, MANIFEST_CHUNK_BYTES}, &err),
                         0);
        memset(bytes, 0, MANIFEST_CHUNK_BYTES);
        bytes[COPY_BLOCK_BYTES * 40] = 1;
    }
    assert_int_equal(fstat(fd, &status), 0);
    assert_in_range(status.st_blocks * 512, 1, 1 << 20);
    assert_int_equal(target_finish(fd, &manifest.entries[0], &err), 0);
    assert_int_equal(target_publish(&target, &manifest, &err), 0);
    strcat(file, "/large");
    fd = open(file, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, back, SIZE), SIZE);
    assert_memory_equal(back, bytes, MANIFEST_CHUNK_BYTES);
    close(fd);
    target_close(&target);
    manifest_close(&manifest);
    free(bytes);
    free(back);
    remove_tree(folder);
}

/* Of a work folder without room nothing is said of the destination. */
static void a_full_target_is_not_a_full_destination(void **unused)
{
    const struct err full = {ERR_FULL, "write /w/restore/x: No space left on device"};
    const struct err share = {ERR_QUOTA, "write /w/restore/x: Disk quota exceeded"};
    struct err err = {0};

    (void)unused;
    assert_int_equal(target_failed(&full, &err), -1);
    assert_int_equal(err.code, ERR_NO_ROOM);
    assert_contains(err.text,
                    "there is no room for what is restored: write /w/restore/x: No space");
    assert_int_equal(target_failed(&share, &err), -1);
    assert_int_equal(err.code, ERR_NO_ROOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_file_ends_where_it_should),
        cmocka_unit_test(zeros_are_holes_and_nothing_of_before_shows_through),
        cmocka_unit_test(a_full_target_is_not_a_full_destination)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
