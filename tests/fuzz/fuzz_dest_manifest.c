/* manifest_parse() on arbitrary bytes, as they are and with a self-hash made right. What is
 * accepted must be written again as the same bytes, and every path in it must be harmless.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size);

static void check_accepted(const struct manifest *manifest, const uint8_t *bytes, size_t length)
{
    struct buf text;

    buf_init(&text);
    manifest_encode(manifest, &text);
    CHECK(text.length == length && memcmp(text.bytes, bytes, length) == 0);
    for (size_t i = 0; i < manifest->count; i++) {
        CHECK(manifest->entries[i].path[0] != '/');
        CHECK(strstr(manifest->entries[i].path, "/../") == NULL);
        CHECK(strncmp(manifest->entries[i].path, "../", 3) != 0);
        CHECK(manifest->entries[i].is_directory ||
              manifest->entries[i].chunk_count ==
                  manifest_chunk_count(manifest->entries[i].size_bytes,
                                       manifest->entries[i].chunk_bytes));
        CHECK(manifest->entries[i].chunk_bytes <= MANIFEST_CHUNK_MAX_BYTES);
        CHECK(manifest->entries[i].frame_ends == NULL ||
              (!manifest->entries[i].is_directory && manifest->entries[i].size_bytes > 0));
        CHECK(i == 0 || strcmp(manifest->entries[i - 1].path, manifest->entries[i].path) < 0);
    }
    for (size_t i = 0; i < manifest->link_count; i++) {
        const struct manifest_link *link = &manifest->links[i];

        CHECK(link->path[0] != '/' && link->to[0] != '/' && link->to[0] != '\0');
        CHECK(manifest_link_problem(link->path, link->to) == NULL);
        CHECK(manifest_find(manifest, link->path) == NULL);
        CHECK(i == 0 || strcmp(link[-1].path, link->path) < 0);
    }
    buf_close(&text);
}

static void parse(const uint8_t *bytes, size_t length)
{
    struct manifest manifest;
    struct err err = {0};

    if (manifest_parse(bytes, length, &manifest, &err) == 0) {
        check_accepted(&manifest, bytes, length);
        manifest_close(&manifest);
    } else {
        CHECK((err.code == ERR_CORRUPT || err.code == ERR_REFUSED) && err.text[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct buf sealed;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    parse(bytes, length);
    buf_init(&sealed);
    buf_append(&sealed, bytes, length);
    sha256_of(bytes, length, digest);
    buf_printf(&sealed, "# self sha256=%s\n", sha256_format(digest, hex));
    parse(sealed.bytes, sealed.length);
    buf_close(&sealed);
    return 0;
}

/* Without the last line: the target adds a right one. */
size_t fuzz_seed_input(size_t i, uint8_t *bytes, size_t size)
{
    static const char *const paths[] = {
        "a", "dir", "dir/back\\slash", "dir/new\nline", "dir/sub", "dir/sub/deep", "z"};
    struct manifest manifest;
    struct buf text;
    size_t length;

    if (i > sizeof(paths) / sizeof(paths[0]))
        return 0;
    manifest_init(&manifest);
    for (size_t k = 0; k < i; k++) {
        struct manifest_entry *entry = manifest_add(&manifest, paths[k], k == 1 || k == 4);
        entry->mode = 0644;
        entry->size_bytes = entry->is_directory ? 0 : k * k * k * 500000; /* the last have chunks */
        entry->generation = entry->is_directory ? 0 : (uint32_t)k / 2;
    }
    if (i > 2)
        manifest_add_link(&manifest, "last", "dir/back\\slash");
    if (i > 4)
        manifest_add_link(&manifest, "dir/sub/up", "../../a\nb");
    CHECK(manifest_finish(&manifest, NULL) == 0);
    if (i == sizeof(paths) / sizeof(paths[0]))
        manifest_cut(&manifest.entries[i - 1], (uint64_t)2 * MANIFEST_CHUNK_BYTES); /* "z" */
    for (size_t k = 2; k < i; k += 3) { /* "dir/back\\slash" and "dir/sub/deep", which has chunks */
        struct manifest_entry *entry = &manifest.entries[k];
        if (entry->is_directory)
            continue;
        manifest_make_frames(entry);
        for (size_t c = 0; c == 0 || c < entry->chunk_count; c++)
            entry->frame_ends[c] = 1000 * (c + 1);
    }
    buf_init(&text);
    manifest_encode(&manifest, &text);
    buf_append(&text, "", 1);
    length = (size_t)(strstr((char *)text.bytes, "# self") - (char *)text.bytes);
    CHECK(length <= size);
    memcpy(bytes, text.bytes, length);
    buf_close(&text);
    manifest_close(&manifest);
    return length;
}
