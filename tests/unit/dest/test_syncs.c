/* The syncs of a put, each with its reason: one more costs every checkpoint a turn of the disk. How
 * long it waits for the clock of changes, and how much it has read when storage begins to write. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/dest/copy.h"
#include "src/dest/manifest.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

/* In place of the system's library: what was synced, a line each, in order. */
static char synced[8192];
static char prefix[128];
static int64_t slept_us;

/* Below the prefix, without the digits of a hidden name. */
static void note_sync(const char *call, int fd)
{
    char link[64], path[512] = "";
    const char *from;
    char *hidden;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    assert_true(readlink(link, path, sizeof(path) - 1) > 0);
    from = strncmp(path, prefix, strlen(prefix)) == 0 ? path + strlen(prefix) : path;
    hidden = strstr(path, ".tmp.");
    if (hidden != NULL)
        memmove(hidden + 4, hidden + 5 + 16, strlen(hidden + 5 + 16) + 1);
    snprintf(synced + strlen(synced), sizeof(synced) - strlen(synced), "%s %s\n", call, from);
}

int fsync(int fd)
{
    note_sync("file", fd);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    note_sync("data", fd);
    return (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    note_sync("all", fd);
    return (int)syscall(SYS_syncfs, fd);
}

/* Of a source that is read once, by one thread: bytes that storage was not told of yet. */
static uint64_t read_bytes, begun_bytes, untold_max_bytes;

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    char link[64], path[512] = "";

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    assert_true(readlink(link, path, sizeof(path) - 1) > 0);
    if (strstr(path, "/src/large") != NULL && length > COPY_BLOCK_BYTES)
        read_bytes += length;
    if (read_bytes - begun_bytes > untold_max_bytes)
        untold_max_bytes = read_bytes - begun_bytes;
    return syscall(SYS_pread64, fd, bytes, length, offset);
}

int sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
    begun_bytes += (uint64_t)length;
    return (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

int nanosleep(const struct timespec *wait, struct timespec *left)
{
    slept_us += wait->tv_sec * INT64_C(1000000) + wait->tv_nsec / 1000;
    return (int)syscall(SYS_nanosleep, wait, left);
}

static int put_at(struct folders *folders, const char *checkpoint)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/%s", folders->prefix, checkpoint);
    snprintf(prefix, sizeof(prefix), "%s", folders->prefix);
    synced[0] = '\0';
    return verb(folders, "put", "--prefix", folders->prefix, "--path", path, "--part", "n1",
                "--source", folders->source, "--cluster", "0123456789abcdef", NULL);
}

static void put_large(struct folders *folders, const char *checkpoint, int byte)
{
    const size_t length = 3 * (size_t)MANIFEST_CHUNK_BYTES;
    uint8_t *bytes = malloc(length);
    char path[300];

    assert_non_null(bytes);
    memset(bytes, byte, length);
    write_file(folders->source, "large", bytes, length);
    free(bytes);
    read_bytes = begun_bytes = untold_max_bytes = 0;
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/%s", folders->prefix, checkpoint);
    assert_int_equal(verb(folders, "put", "--prefix", folders->prefix, "--path", path, "--part",
                          "n1", "--source", folders->source, "--threads", "1", NULL),
                     WORKER_EXIT_OK);
    assert_uint_equal(read_bytes, length);
}

static void make_source(struct folders *folders)
{
    remove_tree(folders->source);
    assert_int_equal(mkdir(folders->source, 0700), 0);
    write_text(folders->source, "state.bin", "what it computed");
}

/* The file, its list, the folder with both, the name, and the name of the checkpoint's own folder:
 * each is lost without its sync. The folders above are durable since the first one. */
static const char each_syncs[] = "file /t/p/a/checkpoints\n"
                                 "file /t/p/a/checkpoints/1-2/.n1.tmp/state.bin\n"
                                 "file /t/p/a/checkpoints/1-2/.n1.tmp/MANIFEST\n"
                                 "file /t/p/a/checkpoints/1-2/.n1.tmp\n"
                                 "file /t/p/a/checkpoints/1-2\n";

static void a_checkpoint_of_one_file_takes_five_syncs(void **state)
{
    struct folders *folders = *state;

    make_source(folders);
    assert_int_equal(put_at(folders, "1-1"), WORKER_EXIT_OK);
    write_text(folders->source, "state.bin", "what it computed then");
    assert_int_equal(put_at(folders, "1-2"), WORKER_EXIT_OK);
    assert_string_equal(synced, each_syncs);
}

/* Nobody has proven them durable: whoever made them may have been killed before. */
static void the_first_checkpoint_syncs_all_folders_above_it(void **state)
{
    struct folders *folders = *state;
    char path[300];

    make_source(folders);
    assert_int_equal(put_at(folders, "1-1"), WORKER_EXIT_OK);
    assert_string_equal(synced, "file \nfile /t\nfile /t/p\nfile /t/p/a\n"
                                "file /t/p/a/checkpoints\n"
                                "file /t/p/a/checkpoints/1-1/.n1.tmp/state.bin\n"
                                "file /t/p/a/checkpoints/1-1/.n1.tmp/MANIFEST\n"
                                "file /t/p/a/checkpoints/1-1/.n1.tmp\n"
                                "file /t/p/a/checkpoints/1-1\n");
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/1-1/n1", folders->prefix);
    remove_tree(path); /* as if it had never come to its name */
    assert_int_equal(put_at(folders, "1-2"), WORKER_EXIT_OK);
    assert_string_equal(synced, "file /t/p/a/checkpoints\n"
                                "file \nfile /t\nfile /t/p\nfile /t/p/a\n"
                                "file /t/p/a/checkpoints/1-2/.n1.tmp/state.bin\n"
                                "file /t/p/a/checkpoints/1-2/.n1.tmp/MANIFEST\n"
                                "file /t/p/a/checkpoints/1-2/.n1.tmp\n"
                                "file /t/p/a/checkpoints/1-2\n");
}

/* An older name of the checkpoint's folder itself proves nothing. */
static void a_folder_that_another_part_made_is_made_durable_as_well(void **state)
{
    struct folders *folders = *state;
    char path[300];

    make_source(folders);
    assert_int_equal(put_at(folders, "1-1"), WORKER_EXIT_OK);
    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/1-2", folders->prefix);
    assert_int_equal(mkdir(path, 0700), 0);
    write_text(folders->source, "state.bin", "what it computed then");
    assert_int_equal(put_at(folders, "1-2"), WORKER_EXIT_OK);
    assert_string_equal(synced, each_syncs);
}

/* Files that were written in the last tick are waited for, others are not; never for more than the
 * 20 ms that a file system elsewhere gets. */
static void an_application_that_is_done_is_not_waited_for(void **state)
{
    struct folders *folders = *state;
    struct timespec now;
    struct stat status;
    char path[300];

    make_source(folders);
    snprintf(path, sizeof(path), "%s/state.bin", folders->source);
    assert_int_equal(stat(path, &status), 0);
    do
        assert_int_equal(clock_gettime(CLOCK_REALTIME_COARSE, &now), 0);
    while (now.tv_sec == status.st_ctim.tv_sec &&
           now.tv_nsec / 1000 <= status.st_ctim.tv_nsec / 1000);
    slept_us = 0;
    assert_int_equal(put_at(folders, "1-1"), WORKER_EXIT_OK);
    assert_int_equal(slept_us, 0);
    for (int i = 0; i < 5; i++) {
        make_source(folders);
        slept_us = 0;
        assert_int_equal(put_at(folders, "1-2"), WORKER_EXIT_OK);
        assert_true(slept_us <= 20000);
    }
}

/* Also where there is one to compare with: of a large file that has changed everywhere nothing
 * waits for a whole chunk to be hashed. */
static void storage_begins_to_write_while_the_rest_of_a_chunk_is_read(void **state)
{
    struct folders *folders = *state;

    put_large(folders, "1-1", 1);
    assert_true(untold_max_bytes <= COPY_WRITE_OUT_BYTES);
    put_large(folders, "1-2", 2);
    assert_true(untold_max_bytes <= COPY_WRITE_OUT_BYTES);
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_checkpoint_of_one_file_takes_five_syncs),
        T(the_first_checkpoint_syncs_all_folders_above_it),
        T(a_folder_that_another_part_made_is_made_durable_as_well),
        T(an_application_that_is_done_is_not_waited_for),
        T(storage_begins_to_write_while_the_rest_of_a_chunk_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
