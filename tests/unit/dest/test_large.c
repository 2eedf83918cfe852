/* Shards of large files and of many: chunks, threads, and the script that checks them with standard
 * tools. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/manifest.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"
#include "tests/unit/dest/patterns.h"

#define VERB(...) verb(folders, __VA_ARGS__, NULL)
#define AT_N1     "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

static void write_large(const char *folder, const char *name, size_t length)
{
    uint8_t *bytes = malloc(length);

    assert_non_null(bytes);
    pattern_numbers(bytes, length);
    write_file(folder, name, bytes, length);
    free(bytes);
}

/* The script of src/dest/README.md, on the shard: what it says of a file, or "". */
static const char *check_with_standard_tools(const struct folders *folders, int *ret_status)
{
    static char said[512];
    char command[1024];
    FILE *output;
    size_t length;

    snprintf(command, sizeof(command),
             "awk '/^```/{on=0} on{print} /^```sh/{on=1}' src/dest/README.md > %s/check && "
             "sh %s/check %s/n1 2>/dev/null",
             folders->root, folders->root, folders->path);
    output = popen(command, "r");
    assert_non_null(output);
    length = fread(said, 1, sizeof(said) - 1, output);
    said[length] = '\0';
    *ret_status = pclose(output);
    return said;
}

static void files_of_many_chunks_come_back_and_are_checked_by_standard_tools(void **state)
{
    static const char name[] = "sub/large\\ \nfile";
    struct folders *folders = *state;
    int status;

    write_large(folders->source, name, 2 * (size_t)MANIFEST_CHUNK_BYTES + 4711);
    write_large(folders->source, "two", 2 * (size_t)MANIFEST_CHUNK_BYTES);
    write_large(folders->source, "one", MANIFEST_CHUNK_BYTES);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_string_equal(check_with_standard_tools(folders, &status), "");
    assert_int_equal(status, 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    assert_value(folders, "reused", "1");
    flip_bit(in_shard(folders, name), 2 * (off_t)MANIFEST_CHUNK_BYTES + 4000);
    assert_string_equal(check_with_standard_tools(folders, &status),
                        "sub/large\\ \nfile: FAILED\n");
    assert_int_not_equal(status, 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "the 4711 bytes at 33554432");
}

/* Files enough for several batches, and large ones, by more threads than there are processors. */
static void many_files_and_chunks_come_back_whatever_the_number_of_threads(void **state)
{
    static const char *const threads[] = {"1", "2", "8"};
    struct folders *folders = *state;
    char name[64];

    for (unsigned i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "sub/file %u", i);
        write_file(folders->source, name, name, i % sizeof(name));
    }
    write_large(folders->source, "large", 3 * (size_t)MANIFEST_CHUNK_BYTES + 1);
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--threads", threads[i],
                              "--read-back", "always"),
                         WORKER_EXIT_OK);
        assert_int_equal(VERB("verify", AT_N1, "--threads", threads[i]), WORKER_EXIT_OK);
        assert_int_equal(VERB("restore", AT_N1, "--to", folders->to, "--threads", threads[i]),
                         WORKER_EXIT_OK);
        assert_true(same_trees(folders->source, folders->to));
        remove_tree(folders->to);
        remove_tree(folders->prefix);
        assert_int_equal(mkdir(folders->prefix, 0755), 0);
    }
}

/* As an object store with few parts has it cut: in the shard the MANIFEST is another one. */
static void cut_shard(const struct folders *folders, uint64_t chunk_bytes)
{
    static uint8_t bytes[1 << 20];
    struct manifest manifest;
    struct buf text = {0};
    int fd = open(in_shard(folders, MANIFEST_NAME), O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, bytes, sizeof(bytes));
    uint8_t *chunk = malloc(chunk_bytes);

    assert_true(fd >= 0 && length > 0 && chunk != NULL);
    close(fd);
    assert_int_equal(manifest_parse(bytes, (size_t)length, &manifest, NULL), 0);
    for (size_t i = 0; i < manifest.count; i++) {
        struct manifest_entry *entry = &manifest.entries[i];

        if (entry->size_bytes <= chunk_bytes)
            continue;
        manifest_cut(entry, chunk_bytes);
        fd = open(in_shard(folders, entry->path), O_RDONLY | O_CLOEXEC);
        for (size_t k = 0; k < entry->chunk_count; k++) {
            uint8_t digest[SHA256_BYTES];

            length = read(fd, chunk, chunk_bytes);
            sha256_of(chunk, (size_t)length, digest);
            manifest_chunk_set(entry, k, digest);
        }
        close(fd);
    }
    manifest_encode(&manifest, &text);
    write_file(folders->path, "n1/" MANIFEST_NAME, text.bytes, text.length);
    buf_close(&text);
    manifest_close(&manifest);
    free(chunk);
}

/* The copy of an S3 checkpoint that a node keeps is read by its manifest, and standard tools check
 * it. */
static void a_file_with_larger_chunks_is_read_and_checked_by_standard_tools(void **state)
{
    static const char name[] = "sub/large chunk=5 \n file";
    struct folders *folders = *state;
    int status;

    write_large(folders->source, name, 5 * (size_t)MANIFEST_CHUNK_BYTES + 4711);
    write_large(folders->source, "two", 2 * (size_t)MANIFEST_CHUNK_BYTES);
    assert_int_equal(put_n1(folders), WORKER_EXIT_OK);
    cut_shard(folders, 3 * (uint64_t)MANIFEST_CHUNK_BYTES);
    assert_string_equal(check_with_standard_tools(folders, &status), "");
    assert_int_equal(status, 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    flip_bit(in_shard(folders, name), 5 * (off_t)MANIFEST_CHUNK_BYTES + 4000);
    check_with_standard_tools(folders, &status);
    assert_int_not_equal(status, 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "the 33559143 bytes at 50331648");
}

static uint64_t room_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

/* A file of that length with a few bytes at some places, and holes between them. */
static void write_sparse(const char *folder, const char *name, off_t length, const off_t *at,
                         size_t count)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pwrite(fd, "bytes", 5, at[i]), 5);
    assert_int_equal(ftruncate(fd, length), 0);
    close(fd);
}

/* There and in the folder that gets them back, with their sizes, also where the end is a hole.
 * Zeros that were written become holes as well. S1-032. */
static void sparse_files_stay_sparse_there_and_back(void **state)
{
    enum { FILES = 3 };
    static const char *const names[FILES] = {"sparse", "small", "zeros"};
    static const char *const compressions[] = {"none", "lz4"};
    const off_t at[] = {100, (off_t)MANIFEST_CHUNK_BYTES + 70000,
                        9 * (off_t)MANIFEST_CHUNK_BYTES - 3};
    struct folders *folders = *state;
    uint8_t *zeros = calloc(3, MANIFEST_CHUNK_BYTES);
    char path[512];

    assert_non_null(zeros);
    write_sparse(folders->source, names[0], 10 * (off_t)MANIFEST_CHUNK_BYTES + 12345, at, 3);
    write_sparse(folders->source, names[1], 300000, at, 1);
    write_file(folders->source, names[2], zeros, 2 * (size_t)MANIFEST_CHUNK_BYTES + 65536 + 7);
    free(zeros);
    for (size_t i = 0; i < sizeof(compressions) / sizeof(compressions[0]); i++) {
        assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--compress",
                              compressions[i], "--read-back", "always"),
                         WORKER_EXIT_OK);
        assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
        for (size_t k = 0; k < FILES && i == 0; k++)
            assert_in_range(room_of(in_shard(folders, names[k])), 0, 512 << 10);
        assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
        assert_true(same_trees(folders->source, folders->to));
        for (size_t k = 0; k < FILES; k++) {
            snprintf(path, sizeof(path), "%s/%s", folders->to, names[k]);
            assert_in_range(room_of(path), 0, 512 << 10);
        }
        remove_tree(folders->to);
        remove_tree(folders->path);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(files_of_many_chunks_come_back_and_are_checked_by_standard_tools),
        T(a_file_with_larger_chunks_is_read_and_checked_by_standard_tools),
        T(many_files_and_chunks_come_back_whatever_the_number_of_threads),
        T(sparse_files_stay_sparse_there_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
