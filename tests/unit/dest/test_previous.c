/* What a store may copy from the shard before: by hashes alone, at the same place, a few times. */
#include "src/dest/s3/previous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define CHUNK ((uint64_t)MANIFEST_CHUNK_BYTES)

/* A file; a letter for each chunk's hash. The entries before are void afterwards. */
static struct manifest_entry *add_file(struct manifest *manifest, const char *path,
                                       uint64_t size_bytes, const char *chunks)
{
    struct manifest_entry *entry;
    struct err err = {0};

    manifest_add(manifest, path, false)->size_bytes = size_bytes;
    assert_int_equal(manifest_finish(manifest, &err), 0);
    entry = (struct manifest_entry *)(uintptr_t)manifest_find(manifest, path);
    for (size_t i = 0; chunks[i] != '\0'; i++) {
        uint8_t digest[SHA256_BYTES];

        memset(digest, chunks[i], sizeof(digest));
        manifest_chunk_set(entry, i, digest);
    }
    return entry;
}

static void chunks_are_the_same_by_place_size_and_hash(void **unused)
{
    struct manifest before, now;
    const struct manifest_entry *file, *entry;

    (void)unused;
    manifest_init(&before);
    manifest_init(&now);
    file = add_file(&before, "f", 3 * CHUNK + 5, "abcd");
    entry = add_file(&now, "f", 3 * CHUNK + 9, "axcd");
    assert_true(previous_has(file, entry, 0));
    assert_false(previous_has(file, entry, 1)); /* another hash */
    assert_true(previous_has(file, entry, 2));
    assert_false(previous_has(file, entry, 3)); /* of another length */
    manifest_close(&now);
    manifest_init(&now);
    entry = add_file(&now, "f", 5 * CHUNK, "abcde");
    assert_true(previous_has(file, entry, 1));
    assert_false(previous_has(file, entry, 4)); /* that one ends before */
    manifest_close(&now);
    manifest_init(&now);
    entry = add_file(&now, "f", 5, "a");
    assert_false(previous_has(file, entry, 0)); /* one chunk is not of chunks */
    manifest_close(&before);
    manifest_init(&before);
    file = add_file(&before, "f", 5, "a");
    assert_true(previous_has(file, entry, 0));
    manifest_close(&before);
    manifest_close(&now);
}

/* As when the store takes other numbers of parts now. */
static void chunks_of_other_sizes_are_others(void **unused)
{
    struct manifest before, now;
    struct manifest_entry *file, *entry;

    (void)unused;
    manifest_init(&before);
    manifest_init(&now);
    file = add_file(&before, "f", 3 * CHUNK, "aaa");
    entry = add_file(&now, "f", 3 * CHUNK, "aaa");
    assert_true(previous_has(file, entry, 0));
    manifest_cut(entry, 2 * CHUNK);
    for (size_t i = 0; i < 2; i++)
        manifest_chunk_set(entry, i, manifest_chunk_hash(file, 0));
    assert_false(previous_has(file, entry, 0));
    assert_false(previous_has(file, entry, 1)); /* also where the length is the same */
    manifest_cut(file, 2 * CHUNK);
    for (size_t i = 0; i < 2; i++)
        manifest_chunk_set(file, i, manifest_chunk_hash(entry, 0));
    assert_true(previous_has(file, entry, 0));
    assert_true(previous_has(file, entry, 1));
    manifest_close(&before);
    manifest_close(&now);
}

static void a_file_is_copied_so_often_and_no_more(void **unused)
{
    struct previous previous = {.is_there = true, .generations_max = 2};
    struct manifest now;
    const struct manifest_entry *entry;
    struct manifest_entry *file;

    (void)unused;
    manifest_init(&previous.manifest);
    manifest_init(&now);
    add_file(&previous.manifest, "f", PREVIOUS_MIN_BYTES, "a");
    add_file(&previous.manifest, "e", PREVIOUS_MIN_BYTES - 1, "a");
    file = (struct manifest_entry *)(uintptr_t)manifest_find(&previous.manifest, "f");
    entry = add_file(&now, "f", PREVIOUS_MIN_BYTES, "a");
    assert_ptr_equal(previous_find(&previous, entry), file);
    file->generation = 1;
    assert_ptr_equal(previous_find(&previous, entry), file);
    file->generation = 2;
    assert_null(previous_find(&previous, entry));
    file->generation = 0;
    assert_null(previous_find(&previous, add_file(&now, "g", PREVIOUS_MIN_BYTES, "a")));
    assert_null(previous_find(&previous, add_file(&now, "e", PREVIOUS_MIN_BYTES - 1, "a")));
    previous_close(&previous);
    assert_null(previous_find(&previous, manifest_find(&now, "f")));
    manifest_close(&now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_are_the_same_by_place_size_and_hash),
                                       cmocka_unit_test(chunks_of_other_sizes_are_others),
                                       cmocka_unit_test(a_file_is_copied_so_often_and_no_more)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
