/* The manifest's one text form: what is written is read back, everything else is refused. */
#include "src/dest/manifest.h"

#include <time.h>

#include "tests/support/test.h"

static void add(struct manifest *manifest, const char *path, uint64_t size_bytes)
{
    struct manifest_entry *entry = manifest_add(manifest, path, size_bytes == UINT64_MAX);

    entry->mode = entry->is_directory ? 0755 : 0644;
    entry->size_bytes = entry->is_directory ? 0 : size_bytes;
    sha256_of(path, strlen(path), entry->sha256);
}

static void build(struct manifest *manifest)
{
    manifest_init(manifest);
    add(manifest, "z", 3);
    add(manifest, "dir/new\nline", 0);
    add(manifest, "dir", UINT64_MAX);
    add(manifest, "dir/back\\slash", 7);
    add(manifest, "dir-x", 1);
    assert_int_equal(manifest_finish(manifest, NULL), 0);
}

/* One file of three chunks, taken over from two checkpoints ago. */
static void build_large(struct manifest *manifest)
{
    uint8_t digest[SHA256_BYTES];

    manifest_init(manifest);
    add(manifest, "large\nand \\", 2 * (uint64_t)MANIFEST_CHUNK_BYTES + 5);
    manifest->entries[0].generation = 2;
    assert_int_equal(manifest_finish(manifest, NULL), 0);
    for (uint8_t i = 0; i < 3; i++) {
        sha256_of(&i, 1, digest);
        manifest_chunk_set(&manifest->entries[0], i, digest);
    }
}

/* The same file where a destination takes two parts of it. */
static void build_cut(struct manifest *manifest)
{
    build_large(manifest);
    manifest_cut(&manifest->entries[0], 2 * (uint64_t)MANIFEST_CHUNK_BYTES);
    for (uint8_t i = 0; i < 2; i++) {
        uint8_t digest[SHA256_BYTES];

        sha256_of(&i, 1, digest);
        manifest_chunk_set(&manifest->entries[0], i, digest);
    }
}

/* Replaces the last line by the right one for the text before it. */
static void reseal(struct buf *text)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    buf_append(text, "", 1);
    text->length = (size_t)((uint8_t *)strstr((char *)text->bytes, "# self") - text->bytes);
    sha256_of(text->bytes, text->length, digest);
    buf_printf(text, "# self sha256=%s\n", sha256_format(digest, hex));
}

static void sha256_is_the_published_function(void **state)
{
    uint8_t digest[SHA256_BYTES], parsed[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    (void)state;
    sha256_of("abc", 3, digest); /* FIPS 180-2, B.1 */
    assert_string_equal(sha256_format(digest, hex),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(sha256_parse(hex, parsed), 0);
    assert_memory_equal(parsed, digest, SHA256_BYTES);
    hex[63] = 'D';
    assert_int_equal(sha256_parse(hex, parsed), -1);
}

static void what_is_encoded_is_parsed_again(void **state)
{
    struct manifest manifest, parsed;
    struct buf text;
    struct err err;

    (void)state;
    build(&manifest);
    buf_init(&text);
    manifest_encode(&manifest, &text);
    assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, &err), 0);
    assert_uint_equal(parsed.count, 5);
    assert_uint_equal(parsed.file_count, 4);
    assert_uint_equal(parsed.size_bytes, 11);
    assert_string_equal(parsed.entries[2].path, "dir/back\\slash");
    assert_string_equal(parsed.entries[3].path, "dir/new\nline");
    assert_uint_equal(parsed.entries[2].size_bytes, 7);
    assert_true(parsed.entries[0].is_directory);
    assert_memory_equal(parsed.entries[4].sha256, manifest.entries[4].sha256, SHA256_BYTES);
    assert_int_equal(manifest_compare(&manifest, &parsed, &err), 0);
    buf_close(&text);
    manifest_close(&manifest);
    manifest_close(&parsed);
}

static void chunks_are_counted_by_the_size(void **state)
{
    const uint64_t chunk = MANIFEST_CHUNK_BYTES;
    const struct manifest_entry entry = {.size_bytes = 2 * chunk + 5, .chunk_bytes = chunk};

    (void)state;
    assert_uint_equal(manifest_chunk_count(0, chunk), 0);
    assert_uint_equal(manifest_chunk_count(chunk, chunk), 0);
    assert_uint_equal(manifest_chunk_count(chunk + 1, chunk), 2);
    assert_uint_equal(manifest_chunk_count(2 * chunk, chunk), 2);
    assert_uint_equal(manifest_chunk_count(2 * chunk + 1, chunk), 3);
    assert_uint_equal(manifest_chunk_count(2 * chunk + 1, 2 * chunk), 2);
    assert_uint_equal(manifest_chunk_at(&entry, 2), 2 * chunk);
    assert_uint_equal(manifest_chunk_bytes(&entry, 1), chunk);
    assert_uint_equal(manifest_chunk_bytes(&entry, 2), 5);
}

static void large_files_come_back_with_their_chunks(void **state)
{
    struct manifest manifest, parsed;
    struct buf text;

    (void)state;
    build_large(&manifest);
    buf_init(&text);
    manifest_encode(&manifest, &text);
    assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, NULL), 0);
    assert_string_equal(parsed.entries[0].path, "large\nand \\");
    assert_uint_equal(parsed.entries[0].generation, 2);
    assert_uint_equal(parsed.entries[0].chunk_count, 3);
    assert_true(manifest_same_bytes(&manifest.entries[0], &parsed.entries[0]));
    parsed.entries[0].chunks[2][31] ^= 1;
    assert_false(manifest_same_bytes(&manifest.entries[0], &parsed.entries[0]));
    buf_close(&text);
    manifest_close(&manifest);
    manifest_close(&parsed);
}

static void replace_text(struct buf *text, const char *from, const char *to)
{
    struct buf changed;
    const char *at;

    buf_append(text, "", 1);
    at = strstr((char *)text->bytes, from);
    assert_non_null(at);
    buf_init(&changed);
    buf_append(&changed, text->bytes, (size_t)(at - (char *)text->bytes));
    buf_printf(&changed, "%s%s", to, at + strlen(from));
    buf_close(text);
    *text = changed;
}

/* Right in their self-hash: what they say does not hold together. */
static void chunks_that_do_not_fit_the_file_are_refused(void **state)
{
    static const char *const changes[][2] = {
        {"size=33554437", "size=33554432"},
        {"size=33554437", "size=50331649"},
        {"size=33554437", "size=16777216"},
        {"size=33554437", "size=18446744073709551615"},
        {"# chunk 6e", "# chunk 6f"}, /* the tree is of others */
        {"# tree ", "# tree 0"},
        {"# chunk 6e", "# chunks 6e"},
        {" generation=2", " generation=0"},
        {" generation=2", " generation=02"},
        {" generation=2", " generation=256"},
        {" generation=2", " generation="},
        {" *large", " *\\large"},
    };
    struct manifest manifest, parsed;
    struct err err;

    (void)state;
    build_large(&manifest);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct buf text;

        buf_init(&text);
        manifest_encode(&manifest, &text);
        replace_text(&text, changes[i][0], changes[i][1]);
        reseal(&text);
        err.code = ERR_NONE;
        assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        buf_close(&text);
    }
    manifest_close(&manifest);
}

static void check_every_bit(const struct manifest *manifest)
{
    struct manifest parsed;
    struct buf text;

    buf_init(&text);
    manifest_encode(manifest, &text);
    for (size_t i = 0; i < text.length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text.bytes[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, NULL), -1);
            text.bytes[i] ^= (uint8_t)(1 << bit);
        }
        assert_int_equal(manifest_parse(text.bytes, i, &parsed, NULL), -1);
    }
    buf_close(&text);
}

static void every_flipped_bit_is_noticed(void **state)
{
    struct manifest manifest;

    (void)state;
    build(&manifest);
    check_every_bit(&manifest);
    manifest_close(&manifest);
    build_large(&manifest);
    check_every_bit(&manifest);
    manifest_close(&manifest);
    build_cut(&manifest);
    check_every_bit(&manifest);
    manifest_close(&manifest);
}

static void a_file_that_was_cut_comes_back_with_its_chunks(void **state)
{
    const uint64_t chunk = MANIFEST_CHUNK_BYTES;
    struct manifest manifest, parsed, usual;
    struct buf text;

    (void)state;
    build_cut(&manifest);
    buf_init(&text);
    manifest_encode(&manifest, &text);
    assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, NULL), 0);
    assert_uint_equal(parsed.entries[0].chunk_bytes, 2 * chunk);
    assert_uint_equal(parsed.entries[0].chunk_count, 2);
    assert_uint_equal(manifest_chunk_at(&parsed.entries[0], 1), 2 * chunk);
    assert_uint_equal(manifest_chunk_bytes(&parsed.entries[0], 1), 5);
    assert_true(manifest_same_bytes(&manifest.entries[0], &parsed.entries[0]));
    buf_append(&text, "", 1);
    assert_contains((const char *)text.bytes, "mode=0644 generation=2 chunk=33554432\n# chunk ");
    build_large(&usual);
    assert_false(manifest_same_bytes(&manifest.entries[0], &usual.entries[0]));
    manifest_cut(&parsed.entries[0], chunk);
    assert_uint_equal(parsed.entries[0].chunk_count, 3);
    buf_close(&text);
    manifest_close(&usual);
    manifest_close(&manifest);
    manifest_close(&parsed);
}

/* What a chunk takes in memory is told by a text that may be anybody's. */
static void chunks_of_sizes_that_cannot_be_are_refused(void **state)
{
    static const struct {
        const char *facts;
        bool right;
    } files[] = {
        {"size=33554437 mode=0644 chunk=33554432", true},
        {"size=33554437 mode=0644 chunk=16777216", false}, /* is not said */
        {"size=33554437 mode=0644 chunk=0", false},
        {"size=33554437 mode=0644 chunk=", false},
        {"size=33554437 mode=0644 chunk=33554433", false},
        {"size=33554437 mode=0644 chunk=033554432", false},
        {"size=33554432 mode=0644 chunk=33554432", false}, /* as large as the file */
        {"size=5 mode=0644 chunk=33554432", false},
        {"size=33554437 mode=0644 lz4=9 chunk=33554432", false},
        {"size=33554437 mode=0644 chunk=33554432 lz4=9", false},
        {"size=1073741825 mode=0644 chunk=1073741824", true},
        {"size=1090519041 mode=0644 chunk=1090519040", false}, /* over 1 GiB */
        {"size=18446744073709551615 mode=0644 chunk=9223372036854775808", false},
    };
    static const char hash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct manifest made, parsed;
        struct buf text = {0};
        char tree[] = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", *found;

        /* of a right file of two chunks of these hashes: its tree */
        build_cut(&made);
        for (uint8_t k = 0; k < 2; k++) {
            uint8_t digest[SHA256_BYTES];

            assert_int_equal(sha256_parse(hash, digest), 0);
            manifest_chunk_set(&made.entries[0], k, digest);
        }
        manifest_encode(&made, &text);
        buf_append(&text, "", 1);
        found = strstr((char *)text.bytes, "# tree ");
        assert_non_null(found);
        memcpy(tree, found + 7, sizeof(tree) - 1);
        buf_clear(&text);
        buf_printf(&text,
                   "# ckpt-manifest 2\n# file %s\n# chunk %s\n# chunk %s\n# tree %s *f\n"
                   "# total files=1 directories=0 bytes=%.*s\n# self",
                   files[i].facts, hash, hash, tree, (int)strcspn(files[i].facts + 5, " "),
                   files[i].facts + 5);
        reseal(&text);
        if ((manifest_parse(text.bytes, text.length, &parsed, NULL) == 0) != files[i].right)
            fail_msg("%s", files[i].facts);
        if (files[i].right)
            manifest_close(&parsed);
        buf_close(&text);
        manifest_close(&made);
    }
}

/* Also a text whose self-hash is right must have the one form: nobody can smuggle a path in. */
static void resealed_texts_of_another_form_are_refused(void **state)
{
    static const char hash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    static const char *const bodies[] = {
        "# ckpt-manifest 1\n# total files=0 directories=0 bytes=0\n",
        "# ckpt-manifest 2\n# total files=1 directories=0 bytes=0\n",
        "# ckpt-manifest 2\n# total files=0 directories=0 bytes=0\nmore\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n%s *../x\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n%s */x\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n%s *MANIFEST\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n%s *-\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n%s *a/b\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n%s *a\\\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0644\n\\%s *a\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=01 mode=0644\n%s *a\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=0999\n%s *a\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=1 mode=7644\n%s *a\n# total files=1 directories=0 "
        "bytes=1\n",
        "# ckpt-manifest 2\n# file size=99999999999999999999 mode=0644\n%s *a\n# total files=1 "
        "directories=0 bytes=1\n",
        "# ckpt-manifest 2\n# directory mode=0755 name=a/../b\n# total files=0 directories=1 "
        "bytes=0\n",
        "# ckpt-manifest 2\n# directory mode=0755 name=b\n# directory mode=0755 name=a\n"
        "# total files=0 directories=2 bytes=0\n",
        "# ckpt-manifest 2\n# directory mode=0755 name=a\n# directory mode=0755 name=a\n"
        "# total files=0 directories=2 bytes=0\n",
    };
    struct manifest parsed;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct buf text;
        const char *hole = strstr(bodies[i], "%s");
        buf_init(&text);
        buf_append(&text, bodies[i], hole == NULL ? strlen(bodies[i]) : (size_t)(hole - bodies[i]));
        if (hole != NULL)
            buf_printf(&text, "%s%s", hash, hole + 2);
        buf_printf(&text, "# self");
        reseal(&text);
        err.code = ERR_NONE;
        assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, &err), -1);
        assert_int_equal(err.code, ERR_CORRUPT);
        buf_close(&text);
    }
}

static void the_empty_manifest_of_the_right_form_is_read(void **state)
{
    struct manifest parsed;
    struct buf text;

    (void)state;
    buf_init(&text);
    buf_printf(&text, "# ckpt-manifest 2\n# total files=0 directories=0 bytes=0\n# self");
    reseal(&text);
    assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, NULL), 0);
    assert_uint_equal(parsed.count, 0);
    manifest_close(&parsed);
    buf_close(&text);
}

/* Sorted, checked, written, read again and compared. */
static void a_manifest_of_100000_files_takes_less_than_two_seconds(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { LIMIT_S = 20 };
#else
    enum { LIMIT_S = 2 };
#endif
    enum { FILES = 100000, FOLDERS = 100 };
    struct manifest manifest, parsed;
    clock_t begin = clock();
    struct buf text;
    char path[64];

    (void)state;
    manifest_init(&manifest);
    for (unsigned i = FOLDERS; i-- > 0;) {
        snprintf(path, sizeof(path), "folder-%02u", i);
        (void)manifest_add(&manifest, path, true);
    }
    for (unsigned i = FILES; i-- > 0;) {
        snprintf(path, sizeof(path), "folder-%02u/file-%05u.bin", i % FOLDERS, i);
        manifest_add(&manifest, path, false)->size_bytes = i;
    }
    assert_int_equal(manifest_finish(&manifest, NULL), 0);
    buf_init(&text);
    manifest_encode(&manifest, &text);
    assert_int_equal(manifest_parse(text.bytes, text.length, &parsed, NULL), 0);
    assert_int_equal(manifest_compare(&manifest, &parsed, NULL), 0);
    assert_true(clock() - begin < LIMIT_S * CLOCKS_PER_SEC);
    buf_close(&text);
    manifest_close(&manifest);
    manifest_close(&parsed);
}

static void names_that_cannot_be_carried_are_refused_by_name(void **state)
{
    static const char *const names[] = {"MANIFEST", "-",   "a\rb", "/a",  "a/",
                                        "a//b",     "./a", "..",   "a/.", ""};
    char deep[2 * (MANIFEST_DEPTH_MAX + 1) + 1], longest[MANIFEST_NAME_MAX_BYTES + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_non_null(manifest_path_problem(names[i]));
    assert_null(manifest_path_problem("sub/MANIFEST"));
    assert_null(manifest_path_problem("sub/-"));
    assert_null(manifest_path_problem("...a"));
    for (size_t i = 0; i < sizeof(deep); i++)
        deep[i] = i % 2 == 0 ? 'd' : '/';
    deep[2 * (MANIFEST_DEPTH_MAX + 1) - 1] = '\0';
    assert_non_null(manifest_path_problem(deep));
    deep[2 * MANIFEST_DEPTH_MAX - 1] = '\0';
    assert_null(manifest_path_problem(deep));
    memset(longest, 'n', sizeof(longest));
    longest[MANIFEST_NAME_MAX_BYTES + 1] = '\0';
    assert_non_null(manifest_path_problem(longest));
    longest[MANIFEST_NAME_MAX_BYTES] = '\0';
    assert_null(manifest_path_problem(longest));
}

static void comparing_names_the_first_difference(void **state)
{
    struct manifest one, other;
    struct err err;

    (void)state;
    build(&one);
    build(&other);
    other.entries[4].size_bytes = 4;
    assert_int_equal(manifest_compare(&one, &other, &err), -1);
    assert_string_equal(err.text, "\"z\" has 4 bytes, the manifest says 3");
    other.entries[4].size_bytes = 3;
    other.count = 4;
    assert_int_equal(manifest_compare(&one, &other, &err), -1);
    assert_string_equal(err.text, "\"z\" is missing");
    assert_int_equal(manifest_compare(&other, &one, &err), -1);
    assert_string_equal(err.text, "\"z\" is there but not in the manifest");
    other.count = 5;
    other.entries[0].is_directory = false;
    assert_int_equal(manifest_compare(&one, &other, &err), -1);
    assert_string_equal(err.text, "\"dir\" is a file, the manifest says folder");
    manifest_close(&one);
    manifest_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_the_published_function),
        cmocka_unit_test(what_is_encoded_is_parsed_again),
        cmocka_unit_test(chunks_are_counted_by_the_size),
        cmocka_unit_test(large_files_come_back_with_their_chunks),
        cmocka_unit_test(a_file_that_was_cut_comes_back_with_its_chunks),
        cmocka_unit_test(chunks_of_sizes_that_cannot_be_are_refused),
        cmocka_unit_test(chunks_that_do_not_fit_the_file_are_refused),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(resealed_texts_of_another_form_are_refused),
        cmocka_unit_test(the_empty_manifest_of_the_right_form_is_read),
        cmocka_unit_test(a_manifest_of_100000_files_takes_less_than_two_seconds),
        cmocka_unit_test(names_that_cannot_be_carried_are_refused_by_name),
        cmocka_unit_test(comparing_names_the_first_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
