/* `ckpt-worker verify FOLDER`, the check that the documents name for people: all of a folder, by
 * its MANIFESTs alone, without a cluster and without keys. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)
enum { LARGE_BYTES = 20000000 };

static const char *part_of(const struct folders *folders, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folders->path, name);
    return path;
}

static void put_part(struct folders *folders, const char *part, const char *compress)
{
    assert_int_equal(VERB("put", "--prefix", folders->prefix, "--path", folders->path, "--part",
                          part, "--source", folders->source, "--compress", compress),
                     WORKER_EXIT_OK);
}

static void make_large(const struct folders *folders)
{
    char *bytes = check_calloc(1, LARGE_BYTES);

    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    write_file(folders->source, "optimizer.bin", bytes, LARGE_BYTES);
    free(bytes);
}

static void overwrite(const char *folder, const char *name, off_t at)
{
    char path[600];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "ROT!", 4, at), 4);
    assert_int_equal(close(fd), 0);
}

static int sha256sum(const char *folder)
{
    char command[700];

    snprintf(command, sizeof(command), "cd '%s' && sha256sum -c --strict --quiet MANIFEST", folder);
    return system(command);
}

/* `sha256sum -c MANIFEST` does not find them. */
static void four_bytes_of_a_large_file_are_found_and_named(void **state)
{
    struct folders *folders = *state;

    make_large(folders);
    put_part(folders, "part-0000", "none");
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_OK);
    assert_contains(folders->out, "part-0000: 4 files, 20070006 bytes\n");
    overwrite(part_of(folders, "part-0000"), "optimizer.bin", 18000000);
    assert_int_equal(sha256sum(part_of(folders, "part-0000")), 0);
    assert_int_equal(VERB("verify", part_of(folders, "part-0000")), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "part-0000/optimizer.bin is not what was written");
    assert_contains(folders->errors, "bytes at 16777216");
    assert_int_equal(VERB("verify", folders->path, "--threads", "1"), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "optimizer.bin");
}

static void all_parts_are_read_also_behind_a_damaged_one(void **state)
{
    struct folders *folders = *state;

    put_part(folders, "part-0000", "none");
    put_part(folders, "part-0001", "lz4");
    put_part(folders, "part-0002", "none");
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_OK);
    overwrite(part_of(folders, "part-0000"), "sub/b.txt", 0);
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_contains(folders->out, "damaged=");
    assert_contains(folders->out, "part-0001: 3 files");
    assert_contains(folders->out, "part-0002: 3 files");
    assert_int_equal(unlink(part_of(folders, "part-0002/MANIFEST")), 0);
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "2 parts are damaged");
    assert_contains(folders->out, "part-0002: the shard has no manifest");
}

/* Missing, more, of another size; of the MANIFEST itself. */
static void each_kind_of_damage_fails(void **state)
{
    struct folders *folders = *state;

    put_part(folders, "part-0000", "none");
    write_text(part_of(folders, "part-0000"), "more", "x");
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"more\" is there but not in the manifest");
    assert_int_equal(unlink(part_of(folders, "part-0000/more")), 0);
    assert_int_equal(truncate(part_of(folders, "part-0000/a.bin"), 5), 0);
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"a.bin\" has 5 bytes");
    assert_int_equal(unlink(part_of(folders, "part-0000/a.bin")), 0);
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"a.bin\" is missing");
    overwrite(part_of(folders, "part-0000"), "MANIFEST", 3);
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "its own hash");
}

/* Changed so that no other byte has its value by chance; and back. */
static void turn_byte(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x15;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static off_t changes_are_found(struct folders *folders, const char *name, off_t step)
{
    struct stat status;
    char path[700];

    snprintf(path, sizeof(path), "%s/part-0000/%s", folders->path, name);
    assert_int_equal(stat(path, &status), 0);
    assert_true(status.st_size > 0);
    for (off_t at = 0; at < status.st_size; at += step) {
        turn_byte(path, at);
        if (VERB("verify", folders->path) != WORKER_EXIT_CORRUPT)
            fail_msg("byte %lld of %s is not missed", (long long)at, name);
        turn_byte(path, at);
    }
    return status.st_size;
}

/* V-020: by the command that JOBS.md names, in a part as stored and in a compressed one. */
static void each_changed_byte_is_found(void **state)
{
    static const char *const ways[] = {"none", "lz4"};
    struct folders *folders = *state;
    char command[900], words[5001];

    memset(words, 'w', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    write_text(folders->source, "words", words);
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        put_part(folders, "part-0000", ways[i]);
        assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_OK);
        assert_true(changes_are_found(folders, "MANIFEST", 1) > 64);
        (void)changes_are_found(folders, i == 0 ? "words" : "words.lz4", 1);
        if (i == 0)
            (void)changes_are_found(folders, "a.bin", 997);
        assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_OK);
        snprintf(command, sizeof(command), "rm -r '%s'", folders->path);
        assert_int_equal(system(command), 0);
    }
}

static void a_download_lacks_links_and_empty_folders(void **state)
{
    struct folders *folders = *state;
    char command[900];

    snprintf(command, sizeof(command), "ln -s a.bin '%s/last'", folders->source);
    assert_int_equal(system(command), 0);
    put_part(folders, "part-0000", "none");
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_OK);
    snprintf(command, sizeof(command), "rm '%s/part-0000/last'; rmdir '%s/part-0000/sub/empty'",
             folders->path, folders->path);
    assert_int_equal(system(command), 0);
    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_CORRUPT);
    assert_int_equal(VERB("verify", folders->path, "--downloaded", "yes"), WORKER_EXIT_OK);
    assert_int_equal(symlink("sub", part_of(folders, "part-0000/last")), 0);
    assert_int_equal(VERB("verify", folders->path, "--downloaded", "yes"), WORKER_EXIT_CORRUPT);
    assert_int_equal(unlink(part_of(folders, "part-0000/last")), 0);
    overwrite(part_of(folders, "part-0000"), "a.bin", 9);
    assert_int_equal(VERB("verify", folders->path, "--downloaded", "yes"), WORKER_EXIT_CORRUPT);
}

static void what_is_no_checkpoint_is_said_to_be_none(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(VERB("verify", folders->path), WORKER_EXIT_NOT_FOUND);
    assert_int_equal(VERB("verify", folders->source), WORKER_EXIT_NOT_FOUND);
    assert_contains(folders->errors, "no MANIFEST");
    assert_int_equal(VERB("verify", "s3://bucket/x"), WORKER_EXIT_USAGE);
    assert_contains(folders->errors, "--downloaded yes");
    put_part(folders, "part-0000", "none");
    assert_int_equal(VERB("verify", folders->path, "--downloaded", "perhaps"), WORKER_EXIT_USAGE);
    assert_int_equal(VERB("verify", folders->path, "more"), WORKER_EXIT_USAGE);
    assert_int_equal(chdir(folders->path), 0);
    assert_int_equal(VERB("verify", "."), WORKER_EXIT_OK);
    assert_int_equal(VERB("verify", "part-0000"), WORKER_EXIT_OK);
    assert_int_equal(chdir("/"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ON_DISK(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
        ON_DISK(four_bytes_of_a_large_file_are_found_and_named),
        ON_DISK(all_parts_are_read_also_behind_a_damaged_one),
        ON_DISK(each_kind_of_damage_fails),
        ON_DISK(each_changed_byte_is_found),
        ON_DISK(a_download_lacks_links_and_empty_folders),
        ON_DISK(what_is_no_checkpoint_is_said_to_be_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
