/* Places that are read back: where they are, and what put finds by them of what storage has changed
 * or lost. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/manifest.h"
#include "src/dest/spots.h"
#include "src/dest/tree.h"
#include "src/dest/worker.h"
#include "tests/support/test.h"
#include "tests/unit/dest/folders.h"
#include "tests/unit/dest/patterns.h"

enum { CHUNK = MANIFEST_CHUNK_BYTES, SEEDS = 200 };

/* ---- where they are ---- */

static void add_file(struct manifest *manifest, const char *path, uint64_t size_bytes)
{
    manifest_add(manifest, path, false)->size_bytes = size_bytes;
}

static void of_each_quarter_of_a_chunk_a_sixteenth_is_a_place_and_both_ends_of_a_file(void **state)
{
    struct copy_range places[COPY_PLACES_MAX], others[COPY_PLACES_MAX];
    const struct spot_chunk first = {0, 0, {0, CHUNK}}, last = {0, 2, {2 * CHUNK, 1000001}};
    struct manifest manifest;
    struct spots spots = {.files = NULL};
    size_t moved = 0;

    (void)state;
    manifest_init(&manifest);
    add_file(&manifest, "large", 2 * CHUNK + 1000001);
    assert_int_equal(manifest_finish(&manifest, NULL), 0);
    for (unsigned i = 0; i < SEEDS; i++) {
        spots_draw(&spots, &manifest);
        assert_int_equal(spots_places(&spots, &first, places), SPOT_QUARTERS + 1);
        assert_true(places[0].offset == 0 && places[0].length == COPY_BLOCK_BYTES);
        for (uint64_t q = 0; q < SPOT_QUARTERS; q++) {
            const struct copy_range at = places[1 + q];
            assert_true(at.length == CHUNK / 64 && at.offset % COPY_BLOCK_BYTES == 0);
            assert_true(at.offset >= q * CHUNK / 4 && at.offset + at.length <= (q + 1) * CHUNK / 4);
        }
        assert_true(places[1].offset >= COPY_BLOCK_BYTES);
        assert_int_equal(spots_places(&spots, &first, others), SPOT_QUARTERS + 1);
        assert_memory_equal(places, others, (SPOT_QUARTERS + 1) * sizeof(*places));
        moved += places[2].offset != 4 * (uint64_t)COPY_BLOCK_BYTES;
        assert_int_equal(spots_places(&spots, &last, places), SPOT_QUARTERS + 1);
        assert_true(places[4].offset + places[4].length == 2 * CHUNK + 1000001);
        assert_true(places[3].offset + places[3].length <= places[4].offset);
        spots_close(&spots);
    }
    assert_true(moved > SEEDS / 2);
    manifest_close(&manifest);
}

/* A place that no draw takes would be a place where damage is never found. */
static void no_byte_of_a_chunk_is_outside_of_all_draws(void **state)
{
    const size_t lengths[] = {1, 65536, 65537, 70001, 131072 + 4095};
    struct manifest manifest;

    (void)state;
    manifest_init(&manifest);
    add_file(&manifest, "large", 3 * CHUNK);
    assert_int_equal(manifest_finish(&manifest, NULL), 0);
    for (size_t n = 0; n < ARRAY_COUNT(lengths); n++) {
        for (size_t chunk = 0; chunk < 3; chunk++) {
            const struct spot_chunk of = {0, chunk, {777, lengths[n]}};
            uint8_t *taken = calloc(lengths[n], 1);

            assert_non_null(taken);
            for (unsigned i = 0; i < 5 * SEEDS; i++) {
                struct copy_range places[COPY_PLACES_MAX];
                struct spots spots = {.files = NULL};
                size_t count;

                spots_draw(&spots, &manifest);
                count = spots_places(&spots, &of, places);
                for (size_t k = 0; k < count; k++) {
                    assert_true(places[k].offset >= 777 &&
                                places[k].offset + places[k].length <= 777 + lengths[n]);
                    memset(taken + places[k].offset - 777, 1, places[k].length);
                }
                spots_close(&spots);
            }
            assert_null(memchr(taken, 0, lengths[n]));
            free(taken);
        }
    }
    manifest_close(&manifest);
}

/* ---- what storage does ---- */

/* In place of the system's library: what is damaged once the file of that name is durable. */
static const char *damaged_name;
static off_t damaged_at;
static size_t damaged_bytes;

static void damage(const char *path)
{
    uint8_t *bytes = malloc(damaged_bytes);
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0 && bytes != NULL);
    assert_true(pread(fd, bytes, damaged_bytes, damaged_at) == (ssize_t)damaged_bytes);
    for (size_t i = 0; i < damaged_bytes; i++)
        bytes[i] ^= 1;
    assert_true(pwrite(fd, bytes, damaged_bytes, damaged_at) == (ssize_t)damaged_bytes);
    close(fd);
    free(bytes);
}

int fsync(int fd)
{
    char link[64], path[512] = "";
    size_t length;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    assert_true(readlink(link, path, sizeof(path) - 1) > 0);
    length = strlen(path);
    if (damaged_name != NULL && length > strlen(damaged_name) &&
        strcmp(path + length - strlen(damaged_name), damaged_name) == 0)
        damage(path);
    return (int)syscall(SYS_fsync, fd);
}

/* ---- where it is read from ---- */

/* In place of the system's library, in several threads. */
static _Atomic uint64_t past_cache_bytes, cached_bytes;
static bool direct_refused;

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;

    if (direct && direct_refused) {
        errno = EINVAL;
        return -1;
    }
    *(direct ? &past_cache_bytes : &cached_bytes) += length;
    return syscall(SYS_pread64, fd, bytes, length, offset);
}

/* On a disk where the build is on one, unlike /dev/shm. */
static int disk_setup(void **state)
{
    struct folders *folders;
    char name[] = "test-spots-XXXXXX";

    assert_int_equal(folders_setup(state), 0);
    folders = *state;
    assert_non_null(getcwd(folders->prefix, sizeof(folders->prefix) - sizeof(name) - 1));
    strcat(strcat(folders->prefix, "/"), mkdtemp(name));
    snprintf(folders->path, sizeof(folders->path), "%s/t/p/a/checkpoints/1-42", folders->prefix);
    direct_refused = false;
    return 0;
}

static int disk_teardown(void **state)
{
    remove_tree(((struct folders *)*state)->prefix);
    return folders_teardown(state);
}

static bool is_on_disk(const struct folders *folders)
{
    int folder = open(folders->prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool bypasses = tree_bypasses(folder);

    close(folder);
    return bypasses;
}

static void write_large_in(const char *folder, const char *name, size_t length, bool text)
{
    uint8_t *bytes = malloc(length);

    assert_non_null(bytes);
    if (text)
        pattern_zeros(bytes, length);
    else
        pattern_noise(bytes, length, 0);
    write_file(folder, name, bytes, length);
    free(bytes);
}

static void write_large(const struct folders *folders, const char *name, size_t length, bool text)
{
    write_large_in(folders->source, name, length, text);
}

static int put_as(struct folders *folders, const char *checkpoint, const char *read_back,
                  const char *compress)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/%s", folders->prefix, checkpoint);
    return verb(folders, "put", "--prefix", folders->prefix, "--path", path, "--part", "n1",
                "--source", folders->source, "--read-back", read_back, "--compress", compress,
                NULL);
}

static int put_damaged(struct folders *folders, const char *name, off_t at, size_t bytes,
                       const char *compress)
{
    int result;

    damaged_name = name;
    damaged_at = at;
    damaged_bytes = bytes;
    result = put_as(folders, "1-42", "sampled", compress);
    damaged_name = NULL;
    return result;
}

/* Two quarters in a row hold a whole one, and so a place, wherever they begin. */
static void half_a_chunk_that_storage_has_lost_is_found_wherever_it_is(void **state)
{
    static const off_t at[] = {0, 4711, CHUNK - 100000, CHUNK + CHUNK / 4, 2 * CHUNK - CHUNK / 8};
    struct folders *folders = *state;

    write_large(folders, "large", 3 * (size_t)CHUNK, false);
    for (size_t i = 0; i < ARRAY_COUNT(at); i++) {
        assert_int_equal(put_damaged(folders, "/large", at[i], CHUNK / 2, "none"),
                         WORKER_EXIT_CORRUPT);
        assert_contains(folders->errors, "reading back");
        assert_false(exists(folders->path, "n1"));
    }
    assert_int_equal(put_as(folders, "1-42", "sampled", "none"), WORKER_EXIT_OK);
    assert_int_equal(put_as(folders, "1-43", "sampled", "none"), WORKER_EXIT_OK);
}

static void the_first_and_the_last_block_of_a_file_are_always_read(void **state)
{
    const size_t size = 2 * (size_t)CHUNK + 4711;
    struct folders *folders = *state;

    write_large(folders, "large", size, false);
    assert_int_equal(put_damaged(folders, "/large", 17, 1, "none"), WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "the 4096 bytes at 0 do not match");
    assert_int_equal(put_damaged(folders, "/large", (off_t)size - 1, 1, "none"),
                     WORKER_EXIT_CORRUPT);
}

static void what_is_stored_compressed_is_read_back_as_it_is_stored(void **state)
{
    struct folders *folders = *state;
    struct stat status;

    write_large(folders, "large", 3 * (size_t)CHUNK, true);
    assert_int_equal(put_as(folders, "1-42", "sampled", "lz4"), WORKER_EXIT_OK);
    assert_int_equal(stat(in_shard(folders, "large.lz4"), &status), 0);
    assert_true(status.st_size < 5 * CHUNK / 2);
    remove_tree(folders->path);
    assert_int_equal(
        put_damaged(folders, "/large.lz4", status.st_size / 4, (size_t)status.st_size / 2, "lz4"),
        WORKER_EXIT_CORRUPT);
    assert_int_equal(put_damaged(folders, "/large.lz4", status.st_size - 1, 1, "lz4"),
                     WORKER_EXIT_CORRUPT);
    assert_contains(folders->errors, "reading back");
}

/* Of a file that is the same nothing is written: what lies there since is read back all the same,
 * and all of it written anew where it has changed. */
static void what_is_taken_over_is_read_back_by_places_and_written_anew(void **state)
{
    static const char *const ways[] = {"none", "lz4"};
    struct folders *folders = *state;
    char path[600];

    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        const char *stored = i == 0 ? "large" : "large.lz4";
        struct timespec times[2];
        struct stat status;

        write_large(folders, "large", 3 * (size_t)CHUNK, i > 0);
        assert_int_equal(put_as(folders, "1-1", "sampled", ways[i]), WORKER_EXIT_OK);
        assert_int_equal(put_as(folders, "1-2", "sampled", ways[i]), WORKER_EXIT_OK);
        assert_value(folders, "written_bytes", "0");
        snprintf(path, sizeof(path), "%s/t/p/a/checkpoints/1-2/n1/%s", folders->prefix, stored);
        assert_int_equal(stat(path, &status), 0);
        times[0] = status.st_atim, times[1] = status.st_mtim;
        damaged_at = 0, damaged_bytes = (size_t)CHUNK / 2;
        damage(path);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_int_equal(put_as(folders, "1-3", "sampled", ways[i]), WORKER_EXIT_OK);
        assert_int_equal(verb(folders, "verify", "--prefix", folders->prefix, "--path",
                              strcat(strcpy(path, folders->prefix), "/t/p/a/checkpoints/1-3"),
                              "--part", "n1", NULL),
                         WORKER_EXIT_OK);
        remove_tree(folders->prefix);
        assert_int_equal(mkdir(folders->prefix, 0755), 0);
    }
}

static void an_application_s_own_files_at_the_destination_are_read_back_by_places(void **state)
{
    struct folders *folders = *state;
    char name[300], path[600];

    assert_int_equal(verb(folders, "stage", "--prefix", folders->prefix, "--path", folders->path,
                          "--part", "n1", NULL),
                     WORKER_EXIT_OK);
    assert_int_equal(worker_output_get(folders->out, "name", name, sizeof(name)), 0);
    snprintf(path, sizeof(path), "%s/%s", folders->path, name);
    write_large_in(path, "large", 2 * (size_t)CHUNK, false);
    damaged_name = "/large", damaged_at = CHUNK / 2, damaged_bytes = CHUNK;
    assert_int_equal(verb(folders, "publish", "--prefix", folders->prefix, "--path", folders->path,
                          "--part", "n1", "--name", name, NULL),
                     WORKER_EXIT_CORRUPT);
    damaged_name = NULL;
    assert_false(exists(folders->path, "n1"));
}

/* Where the file system does not read so, the page cache is asked to forget it, as elsewhere. */
static void storage_is_read_and_not_the_page_cache(void **state)
{
    struct folders *folders = *state;

    if (!is_on_disk(folders)) {
        print_message("# SKIP the build is on no disk\n");
        skip();
    }
    write_large(folders, "large", 2 * (size_t)CHUNK + 4711, false);
    past_cache_bytes = cached_bytes = 0;
    assert_int_equal(put_as(folders, "1-42", "sampled", "none"), WORKER_EXIT_OK);
    assert_in_range(past_cache_bytes, 2 * CHUNK / 16, 2 * CHUNK / 16 + 10 * COPY_BLOCK_BYTES);
    assert_in_range(cached_bytes, 2 * CHUNK + 4711, 2 * CHUNK + 4711 + 200000); /* the source */
    direct_refused = true;
    remove_tree(folders->path);
    assert_int_equal(put_damaged(folders, "/large", 17, 1, "none"), WORKER_EXIT_CORRUPT);
    assert_int_equal(put_as(folders, "1-43", "sampled", "none"), WORKER_EXIT_OK);
}

#define T(name) cmocka_unit_test_setup_teardown(name, disk_setup, disk_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_each_quarter_of_a_chunk_a_sixteenth_is_a_place_and_both_ends_of_a_file),
        cmocka_unit_test(no_byte_of_a_chunk_is_outside_of_all_draws),
        T(half_a_chunk_that_storage_has_lost_is_found_wherever_it_is),
        T(the_first_and_the_last_block_of_a_file_are_always_read),
        T(what_is_stored_compressed_is_read_back_as_it_is_stored),
        T(what_is_taken_over_is_read_back_by_places_and_written_anew),
        T(an_application_s_own_files_at_the_destination_are_read_back_by_places),
        T(storage_is_read_and_not_the_page_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
