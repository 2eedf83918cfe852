/* Shards whose files are stored compressed: what lies there, that it comes back, and that nothing
 * else changes by it. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/dest/manifest.h"
#include "src/dest/posix/transfer_internal.h"
#include "src/dest/source.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"
#include "tests/unit/dest/patterns.h"

enum { CHUNK = MANIFEST_CHUNK_BYTES };
#define VERB(...) verb(folders, __VA_ARGS__, NULL)
#define AT_N1     "--prefix", folders->prefix, "--path", folders->path, "--part", "n1"

/* ---- what is written, and read ---- */

/* Text where the letter of a chunk says so, else noise; one letter a chunk, the last one short. */
static void write_chunks(const struct folders *folders, const char *name, const char *letters)
{
    size_t length = (strlen(letters) - 1) * (size_t)CHUNK + 4711;
    uint8_t *bytes = malloc(length);

    assert_non_null(bytes);
    for (size_t at = 0; at < length; at += CHUNK) {
        const size_t count = length - at < CHUNK ? length - at : CHUNK;

        if (letters[at / CHUNK] == 'n')
            pattern_noise(bytes + at, count, at);
        else
            pattern_text(bytes + at, count, at);
    }
    write_file(folders->source, name, bytes, length);
    free(bytes);
}

static void write_text_of(const struct folders *folders, const char *name, size_t length)
{
    char *bytes = malloc(length);

    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = "0.125 "[i % 6];
    write_file(folders->source, name, bytes, length);
    free(bytes);
}

static void change_byte(const struct folders *folders, const char *name, off_t at)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folders->source, name);
    fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "X", 1, at), 1);
    close(fd);
}

static int put_with(struct folders *folders, const char *option, const char *value)
{
    return VERB("put", AT_N1, "--source", folders->source, "--compress", "lz4", option, value);
}

static void put_as(struct folders *folders, const char *checkpoint, const char *word)
{
    snprintf(folders->path, sizeof(folders->path), "%s/t/p/a/checkpoints/%s", folders->prefix,
             checkpoint);
    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--compress", word),
                     WORKER_EXIT_OK);
}

static void check_back(struct folders *folders)
{
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    remove_tree(folders->to);
}

static uint64_t number_said(const struct folders *folders, const char *key)
{
    char value[32];

    assert_int_equal(worker_output_get(folders->out, key, value, sizeof(value)), 0);
    return strtoull(value, NULL, 10);
}

static bool has(const struct folders *folders, const char *name)
{
    return access(in_shard(folders, name), F_OK) == 0;
}

/* The script of src/dest/README.md. */
static bool standard_tools_take_it(const struct folders *folders)
{
    char command[1024];

    snprintf(command, sizeof(command),
             "awk '/^```/{on=0} on{print} /^```sh/{on=1}' src/dest/README.md > %s/check && "
             "sh %s/check %s/n1 >/dev/null 2>&1",
             folders->root, folders->root, folders->path);
    return system(command) == 0;
}

static void what_shrinks_is_stored_so_and_all_else_as_it_is(void **state)
{
    static const char *const threads[] = {"8", "1"};
    struct folders *folders = *state;
    uint64_t size, written;

    write_chunks(folders, "large", "tttt");
    write_chunks(folders, "noise", "nn");
    write_chunks(folders, "mixed\nname", "tnt");
    write_text_of(folders, "sub/text", 50000);
    write_text_of(folders, "block", 4096);
    for (size_t i = 0; i < test_often(1, 2); i++) {
        assert_int_equal(put_with(folders, "--threads", threads[i]), WORKER_EXIT_OK);
        size = number_said(folders, "size_bytes");
        written = number_said(folders, "written_bytes");
        assert_uint_equal(number_said(folders, "saved_bytes"), size - written);
        assert_in_range(written, 2 * CHUNK, size / 2);
        assert_true(has(folders, "large.lz4") && has(folders, "mixed\nname.lz4"));
        assert_true(has(folders, "sub/text.lz4") && !has(folders, "sub/text"));
        assert_true(has(folders, "noise") && has(folders, "block"));
        assert_true(has(folders, "nothing") && has(folders, "sub/b.txt"));
        assert_true(standard_tools_take_it(folders));
        assert_int_equal(VERB("restore", AT_N1, "--to", folders->to, "--threads", threads[i]),
                         WORKER_EXIT_OK);
        assert_true(same_trees(folders->source, folders->to));
        remove_tree(folders->to);
        check_back(folders);
        assert_int_equal(put_with(folders, NULL, NULL), WORKER_EXIT_OK);
        assert_value(folders, "reused", "1");
        remove_tree(folders->prefix);
        assert_int_equal(mkdir(folders->prefix, 0755), 0);
    }
}

/* A name that the compressed file would take, or that leaves no room for it. */
static void a_stored_name_that_is_not_free_is_not_taken(void **state)
{
    struct folders *folders = *state;
    char longest[256] = "";

    memset(longest, 'x', 252);
    write_text_of(folders, longest, 50000);
    write_text_of(folders, "a", 50000);
    write_text_of(folders, "a.lz4", 50000);
    assert_int_equal(put_with(folders, NULL, NULL), WORKER_EXIT_OK);
    assert_true(has(folders, longest) && has(folders, "a") && has(folders, "a.lz4.lz4"));
    assert_false(has(folders, "a.lz4"));
    check_back(folders);
}

/* ---- from one checkpoint to the next ---- */

static void unchanged_files_are_linked_and_changed_ones_written_whole(void **state)
{
    static const off_t changes[] = {2 * (off_t)CHUNK + 5, 100, 3 * (off_t)CHUNK + 9};
    struct folders *folders = *state;
    uint64_t size, first, written;
    char checkpoint[16];

    write_chunks(folders, "large", "tttt");
    write_chunks(folders, "other", "ttt");
    write_text_of(folders, "sub/text", 50000);
    put_as(folders, "1-0", "lz4");
    size = number_said(folders, "size_bytes");
    first = number_said(folders, "written_bytes");
    put_as(folders, "1-1", "lz4");
    assert_uint_equal(number_said(folders, "written_bytes"), 0);
    assert_uint_equal(number_said(folders, "saved_bytes"), size);
    for (unsigned i = 0; i < test_often(1, 3); i++) {
        change_byte(folders, "large", changes[i]);
        snprintf(checkpoint, sizeof(checkpoint), "1-%u", 2 + i);
        put_as(folders, checkpoint, "lz4");
        written = number_said(folders, "written_bytes");
        assert_in_range(written, first / 4, first - first / 4); /* "large" alone */
        check_back(folders);
    }
    write_chunks(folders, "large", "tttttt"); /* of another length */
    put_as(folders, "1-9", "lz4");
    check_back(folders);
    assert_true(standard_tools_take_it(folders));
}

/* A target's word may change between two checkpoints: what is there is linked as it lies there. */
static void what_was_stored_the_other_way_is_linked_or_written_anew(void **state)
{
    struct folders *folders = *state;

    write_chunks(folders, "large", "ttt");
    write_text_of(folders, "sub/text", 50000);
    put_as(folders, "1-1", "none");
    put_as(folders, "1-2", "lz4");
    assert_uint_equal(number_said(folders, "written_bytes"), 0);
    assert_true(has(folders, "large") && has(folders, "sub/text"));
    change_byte(folders, "large", CHUNK + 7);
    change_byte(folders, "sub/text", 7);
    put_as(folders, "1-3", "lz4");
    assert_true(has(folders, "large.lz4") && has(folders, "sub/text.lz4"));
    check_back(folders);
    put_as(folders, "1-4", "none");
    assert_uint_equal(number_said(folders, "written_bytes"), 0);
    assert_true(has(folders, "large.lz4") && has(folders, "sub/text.lz4"));
    check_back(folders);
    change_byte(folders, "large", CHUNK + 8);
    change_byte(folders, "sub/text", 8);
    put_as(folders, "1-5", "none");
    assert_true(has(folders, "large") && has(folders, "sub/text"));
    check_back(folders);
    write_text(folders->source, "sub/text.lz4", "now a file of this name is there");
    put_as(folders, "1-6", "lz4");
    write_text_of(folders, "a", 50000);
    put_as(folders, "1-7", "lz4");
    write_text(folders->source, "a.lz4", "and of this one, too");
    put_as(folders, "1-8", "lz4");
    assert_true(has(folders, "a") && has(folders, "a.lz4"));
    check_back(folders);
}

/* ---- damage ---- */

/* Each bit of the frame's head and each shorter length: told, and nothing is restored. */
static void damage_is_found_wherever_it_is(void **state)
{
    struct folders *folders = *state;
    struct stat status;

    write_chunks(folders, "large", "tt");
    write_text_of(folders, "sub/text", 50000);
    assert_int_equal(put_with(folders, NULL, NULL), WORKER_EXIT_OK);
    assert_int_equal(stat(in_shard(folders, "large.lz4"), &status), 0);
    for (off_t at = 0; at < status.st_size; at += at < 16 ? 1 : 77777) {
        flip_bit(in_shard(folders, "large.lz4"), at);
        assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
        assert_int_equal(VERB("restore", AT_N1, "--to", folders->to), WORKER_EXIT_CORRUPT);
        assert_false(exists(folders->root, "back"));
        flip_bit(in_shard(folders, "large.lz4"), at);
    }
    assert_int_equal(verify_n1(folders), WORKER_EXIT_OK);
    assert_int_equal(truncate(in_shard(folders, "sub/text.lz4"), 100), 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "sub/text.lz4");
    assert_int_equal(unlink(in_shard(folders, "sub/text.lz4")), 0);
    assert_int_equal(verify_n1(folders), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "\"sub/text.lz4\" is missing");
}

/* Damage below what was taken over is read back: all is compressed once more. */
static void what_was_taken_over_and_damaged_is_written_anew(void **state)
{
    struct folders *folders = *state;
    struct timespec times[2];
    struct stat status;
    char path[600];

    write_chunks(folders, "large", "ttt");
    put_as(folders, "1-1", "lz4");
    snprintf(path, sizeof(path), "%s", in_shard(folders, "large.lz4"));
    assert_int_equal(stat(path, &status), 0);
    times[0] = status.st_atim;
    times[1] = status.st_mtim;
    flip_bit(path, 300);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    put_as(folders, "1-2", "lz4"); /* a sample has the first chunk */
    assert_in_range(number_said(folders, "written_bytes"), 1, CHUNK);
    check_back(folders);
}

/* No thread waits for a place that nobody gives: the folder at the destination is full. */
static void a_put_that_fails_half_way_ends(void **state)
{
    struct folders *folders = *state;

    if (geteuid() != 0 || mount("tmpfs", folders->prefix, "tmpfs", 0, "size=20m") != 0) {
        print_message("# SKIP a file system cannot be mounted here\n");
        skip();
    }
    write_chunks(folders, "large", "tntntntn");
    assert_int_equal(put_with(folders, "--threads", "8"), WORKER_EXIT_UNAVAILABLE);
    assert_value(folders, "cause", "storage_full");
    write_chunks(folders, "large", "tttt");
    assert_int_equal(put_with(folders, "--threads", "8"), WORKER_EXIT_OK);
    check_back(folders);
    assert_int_equal(umount2(folders->prefix, MNT_DETACH), 0);
}

/* ---- the node's own copy ---- */

/* It holds the files as they were written, and the MANIFEST of the destination. */
static void the_nodes_own_copy_counts_with_the_manifest_of_compressed_files(void **state)
{
    struct folders *folders = *state;
    char manifest[256], copies[128], sha256[SHA256_HEX_BYTES], kept[256];

    write_chunks(folders, "large", "tt");
    write_text_of(folders, "sub/text", 50000);
    snprintf(manifest, sizeof(manifest), "%s/manifest", folders->root);
    snprintf(copies, sizeof(copies), "%s/copies/1-42", folders->root);
    snprintf(kept, sizeof(kept), "%s/n1", copies);
    assert_int_equal(put_with(folders, "--manifest-to", manifest), WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "manifest_sha256", sha256, sizeof(sha256)), 0);
    assert_int_equal(VERB("retain", "--source", folders->source, "--manifest", manifest, "--path",
                          copies, "--part", "n1"),
                     WORKER_EXIT_OK);
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->to, "--copy", copies, "--from", "copy",
                          "--manifest-sha256", sha256),
                     WORKER_EXIT_OK);
    assert_value(folders, "copy", "used");
    assert_int_equal(VERB("restore", AT_N1, "--to", folders->source), WORKER_EXIT_OK);
    assert_true(same_trees(folders->source, folders->to));
    remove_tree(folders->to);
    snprintf(manifest, sizeof(manifest), "%.180s/sub/text", kept);
    flip_bit(manifest, 4000);
    assert_int_equal(
        VERB("restore", AT_N1, "--to", folders->to, "--copy", copies, "--manifest-sha256", sha256),
        WORKER_EXIT_OK);
    assert_value(folders, "copy", "lost");
    assert_true(same_trees(folders->source, folders->to));
}

static void compression_is_refused_where_there_is_none(void **state)
{
    struct folders *folders = *state;

    assert_int_equal(VERB("put", AT_N1, "--source", folders->source, "--compress", "zstd"),
                     WORKER_EXIT_USAGE);
    assert_contains(folders->errors, "\"zstd\" is not none or lz4");
    assert_int_equal(VERB("put", "--prefix", "s3://bucket", "--path", "s3://bucket/t/p/a/c/1-1",
                          "--part", "n1", "--source", folders->source, "--compress", "lz4"),
                     WORKER_EXIT_USAGE);
    assert_contains(folders->errors, "of the kind s3, where nothing is stored compressed");
}

#define T(name) cmocka_unit_test_setup_teardown(name, folders_setup, folders_teardown)
/* The chunk before has no place yet, and the one behind could not be read. */
static void who_waits_for_a_place_is_told_what_failed(void **state)
{
    struct folders *folders = *state;
    struct manifest manifest;
    int source = open(folders->source, O_RDONLY | O_DIRECTORY);
    const struct transfer transfer = {.purpose = TRANSFER_TAKE,
                                      .manifest = &manifest,
                                      .from = {source, folders->source},
                                      .to = {-1, ""},
                                      .compresses = true};
    struct large large = {.left = 3, .from = -1, .to = -1, .earlier_fd = -1, .compressed = true};
    struct job job = {.transfer = &transfer, .larges = &large, .large_count = 1};
    const struct item waits = {.chunk = 1}, failed = {.chunk = 2};
    struct copier copier;
    struct pace pace;
    struct err err = {.code = ERR_IO, .text = "read large: no such luck"};
    int fds[2] = {-1, -1};

    write_chunks(folders, "0-large", "ttt");
    assert_int_equal(source_list(source, folders->source, &manifest, NULL), 0);
    assert_int_equal(manifest.entries[0].chunk_count, 3);
    manifest_make_frames(&manifest.entries[0]);
    assert_int_equal(pthread_mutex_init(&job.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&job.turn, NULL), 0);
    pace_init(&pace, 0);
    copier_init(&copier, &pace);
    fds[0] = openat(source, "0-large", O_RDONLY | O_CLOEXEC);
    transfer_give_up(&job, &failed, &err);
    err = (struct err){0};
    assert_int_equal(transfer_compress_chunk(&job, &copier, &waits, fds, &err), -1);
    assert_string_equal(err.text, "read large: no such luck");
    transfer_give_up(&job, &waits, &(struct err){.text = "another"}); /* the first one counts */
    assert_int_equal(transfer_compress_chunk(&job, &copier, &waits, fds, &err), -1);
    assert_string_equal(err.text, "read large: no such luck");
    copier_close(&copier);
    pace_close(&pace);
    assert_int_equal(pthread_cond_destroy(&job.turn), 0);
    assert_int_equal(pthread_mutex_destroy(&job.lock), 0);
    manifest_close(&manifest);
    close(fds[0]);
    close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_shrinks_is_stored_so_and_all_else_as_it_is),
        T(a_stored_name_that_is_not_free_is_not_taken),
        T(unchanged_files_are_linked_and_changed_ones_written_whole),
        T(what_was_stored_the_other_way_is_linked_or_written_anew),
        T(damage_is_found_wherever_it_is),
        T(what_was_taken_over_and_damaged_is_written_anew),
        T(a_put_that_fails_half_way_ends),
        T(who_waits_for_a_place_is_told_what_failed),
        T(the_nodes_own_copy_counts_with_the_manifest_of_compressed_files),
        T(compression_is_refused_where_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
