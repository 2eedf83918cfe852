/* A checkpoint that takes over from the one before what has not changed, and stays whole when that
 * one goes. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/manifest.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"
#include "tests/unit/dest/patterns.h"

static const char *checkpoint_path(const struct folders *folders, const char *checkpoint)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/%s", folders->prefix, checkpoint);
    return path;
}

static int run_at(struct folders *folders, const char *name, const char *checkpoint,
                  const char *option, const char *value)
{
    return verb(folders, name, "--prefix", folders->prefix, "--path",
                checkpoint_path(folders, checkpoint), "--part", "n1", option, value, NULL);
}

static void put(struct folders *folders, const char *checkpoint, const char *option,
                const char *value)
{
    assert_int_equal(verb(folders, "put", "--prefix", folders->prefix, "--path",
                          checkpoint_path(folders, checkpoint), "--part", "n1", "--source",
                          folders->source, option, value, NULL),
                     WORKER_EXIT_OK);
}

static uint64_t number_said(const struct folders *folders, const char *key)
{
    char value[32];

    assert_int_equal(worker_output_get(folders->out, key, value, sizeof(value)), 0);
    return strtoull(value, NULL, 10);
}

static struct stat status_of(const struct folders *folders, const char *checkpoint,
                             const char *name)
{
    struct stat status;
    char path[600];

    snprintf(path, sizeof(path), "%s/n1/%s", checkpoint_path(folders, checkpoint), name);
    assert_int_equal(lstat(path, &status), 0);
    return status;
}

static void write_bytes(const char *folder, const char *name, off_t at, const char *text)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

static void check_back(struct folders *folders, const char *checkpoint)
{
    assert_int_equal(run_at(folders, "verify", checkpoint, NULL, NULL), WORKER_EXIT_OK);
    assert_int_equal(run_at(folders, "restore", checkpoint, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    remove_tree(folders->to);
}

/* ---- files ---- */

static void unchanged_files_are_not_written_and_outlive_where_they_came_from(void **state)
{
    struct folders *folders = *state;

    put(folders, "1-1", NULL, NULL);
    assert_uint_equal(number_said(folders, "written_bytes"), 70006);
    write_text(folders->source, "sub/b.txt", "HELLO\n");
    put(folders, "1-2", NULL, NULL);
    assert_uint_equal(number_said(folders, "size_bytes"), 70006);
    assert_uint_equal(number_said(folders, "written_bytes"), 6);
    assert_uint_equal(number_said(folders, "saved_bytes"), 70000);
    assert_uint_equal(status_of(folders, "1-2", "a.bin").st_ino,
                      status_of(folders, "1-1", "a.bin").st_ino);
    assert_uint_equal(status_of(folders, "1-2", "sub/b.txt").st_nlink, 1);
    assert_int_equal(verb(folders, "collect", "--prefix", folders->prefix, "--path",
                          checkpoint_path(folders, "1-1"), NULL),
                     WORKER_EXIT_OK);
    check_back(folders, "1-2");
}

static void at_the_limit_of_generations_a_file_is_written_anew(void **state)
{
    static const uint64_t written[] = {70006, 0, 0, 70006, 0};
    struct folders *folders = *state;
    char checkpoint[16];

    for (unsigned i = 0; i < 5; i++) {
        snprintf(checkpoint, sizeof(checkpoint), "1-%u", i);
        put(folders, checkpoint, "--generations", "2");
        assert_uint_equal(number_said(folders, "written_bytes"), written[i]);
        check_back(folders, checkpoint);
    }
    put(folders, "1-9", "--generations", "0");
    assert_uint_equal(number_said(folders, "written_bytes"), 70006);
}

/* By content, whatever clocks and names say. */
static void a_file_of_the_same_size_and_time_with_other_bytes_is_written(void **state)
{
    struct folders *folders = *state;
    struct timespec times[2];
    struct stat status;
    char path[512];

    snprintf(path, sizeof(path), "%s/a.bin", folders->source);
    assert_int_equal(stat(path, &status), 0);
    put(folders, "1-1", NULL, NULL);
    write_bytes(folders->source, "a.bin", 35000, "x");
    times[0] = status.st_atim;
    times[1] = status.st_mtim;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    put(folders, "1-2", NULL, NULL);
    assert_uint_equal(number_said(folders, "saved_bytes"), 6);
    check_back(folders, "1-2");
}

static void the_newest_shard_of_the_part_is_where_it_comes_from(void **state)
{
    struct folders *folders = *state;

    put(folders, "1-1", NULL, NULL);
    write_text(folders->source, "sub/b.txt", "second");
    put(folders, "1-2", NULL, NULL);
    put(folders, "1-3", NULL, NULL);
    assert_uint_equal(number_said(folders, "written_bytes"), 0);
    assert_uint_equal(status_of(folders, "1-3", "sub/b.txt").st_ino,
                      status_of(folders, "1-2", "sub/b.txt").st_ino);
}

/* ---- what must not be taken over ---- */

/* By whoever may write there; storage that goes bad leaves the time as it is. */
static void what_was_written_to_since_is_not_taken_over(void **state)
{
    struct folders *folders = *state;

    put(folders, "1-1", NULL, NULL);
    usleep(50000); /* more than a tick of the clock of changes */
    write_bytes(checkpoint_path(folders, "1-1"), "n1/a.bin", 12345, "damage");
    put(folders, "1-2", "--read-back", "never");
    assert_uint_equal(number_said(folders, "written_bytes"), 70000);
    check_back(folders, "1-2");
}

static void damage_there_is_read_back_and_the_file_written_anew(void **state)
{
    struct folders *folders = *state;
    struct timespec times[2];
    struct stat status;
    char path[600];

    put(folders, "1-1", NULL, NULL);
    status = status_of(folders, "1-1", "a.bin");
    times[0] = status.st_atim;
    times[1] = status.st_mtim;
    snprintf(path, sizeof(path), "%s/n1/a.bin", checkpoint_path(folders, "1-1"));
    write_bytes(checkpoint_path(folders, "1-1"), "n1/a.bin", 12345, "damage");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    put(folders, "1-2", "--read-back", "always");
    assert_uint_equal(number_said(folders, "written_bytes"), 70006);
    check_back(folders, "1-2");
    assert_int_equal(run_at(folders, "verify", "1-1", NULL, NULL), WORKER_EXIT_CORRUPT);
}

static void what_is_cut_gone_or_a_link_there_is_written(void **state)
{
    static const char *const names[] = {"1-1", "1-2", "1-3", "1-4"};
    struct folders *folders = *state;
    char path[600];

    put(folders, names[0], NULL, NULL);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/n1/a.bin", checkpoint_path(folders, names[i]));
        if (i == 0)
            assert_int_equal(truncate(path, 10), 0);
        else
            assert_int_equal(unlink(path), 0);
        if (i == 2)
            assert_int_equal(symlink("/etc/passwd", path), 0);
        put(folders, names[i + 1], NULL, NULL);
        assert_uint_equal(number_said(folders, "written_bytes"), 70000);
        check_back(folders, names[i + 1]);
    }
}

/* ---- large files ---- */

enum { CHUNKS = 5 };

static void write_large(const struct folders *folders)
{
    const size_t length = CHUNKS * (size_t)MANIFEST_CHUNK_BYTES - 1234;
    uint8_t *bytes = malloc(length);

    assert_non_null(bytes);
    pattern_numbers(bytes, length);
    write_file(folders->source, "large", bytes, length);
    free(bytes);
}

/* Where put looks first, or elsewhere. */
static const off_t at_sight = MANIFEST_CHUNK_BYTES / 2, elsewhere = 99;

static void change_chunk(const struct folders *folders, unsigned chunk, off_t at)
{
    write_bytes(folders->source, "large", (off_t)chunk * MANIFEST_CHUNK_BYTES + at, "other bytes");
}

static void large_files_are_linked_or_written_whatever_chunk_differs(void **state)
{
    struct folders *folders = *state;
    char checkpoint[16];

    write_large(folders);
    put(folders, "1-0", NULL, NULL);
    put(folders, "1-1", NULL, NULL);
    assert_uint_equal(number_said(folders, "written_bytes"), 0);
    for (unsigned i = 0; i < 2 * CHUNKS; i += 2) {
        change_chunk(folders, i % CHUNKS, i < CHUNKS ? elsewhere : at_sight);
        snprintf(checkpoint, sizeof(checkpoint), "1-%u", 2 + i);
        put(folders, checkpoint, "--threads", i % 4 == 2 ? "1" : "4");
        assert_uint_equal(number_said(folders, "saved_bytes"), 70006); /* tmpfs shares no blocks */
        check_back(folders, checkpoint);
    }
}

/* The same on a file system that shares blocks. */
static void unchanged_chunks_are_shared_where_the_file_system_can(void **state)
{
    struct folders *folders = *state;
    char command[512];
    uint64_t written;

    snprintf(command, sizeof(command),
             "exec 2>/dev/null; truncate -s 400M %s/image && mkfs.xfs -q -m reflink=1 %s/image && "
             "mount -o loop %s/image %s",
             folders->root, folders->root, folders->root, folders->prefix);
    if (geteuid() != 0 || system(command) != 0) {
        print_message("# SKIP xfs cannot be mounted here\n");
        skip();
    }
    write_large(folders);
    put(folders, "1-0", NULL, NULL);
    change_chunk(folders, 1, elsewhere);
    change_chunk(folders, 3, at_sight);
    put(folders, "1-1", NULL, NULL);
    written = number_said(folders, "written_bytes");
    check_back(folders, "1-1");
    assert_int_equal(verb(folders, "collect", "--prefix", folders->prefix, "--path",
                          checkpoint_path(folders, "1-0"), NULL),
                     WORKER_EXIT_OK);
    check_back(folders, "1-1");
    assert_int_equal(umount2(folders->prefix, MNT_DETACH), 0);
    assert_uint_equal(written, 2 * MANIFEST_CHUNK_BYTES);
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(unchanged_files_are_not_written_and_outlive_where_they_came_from),
        T(at_the_limit_of_generations_a_file_is_written_anew),
        T(a_file_of_the_same_size_and_time_with_other_bytes_is_written),
        T(the_newest_shard_of_the_part_is_where_it_comes_from),
        T(what_was_written_to_since_is_not_taken_over),
        T(damage_there_is_read_back_and_the_file_written_anew),
        T(what_is_cut_gone_or_a_link_there_is_written),
        T(large_files_are_linked_or_written_whatever_chunk_differs),
        T(unchanged_chunks_are_shared_where_the_file_system_can),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
