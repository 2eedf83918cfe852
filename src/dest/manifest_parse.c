/* Reading a MANIFEST, strictly. See manifest.h for the form.
 *
 * Flow     self-hash over everything before the last line -> entries by a cursor that never passes
 *          the end -> names, order and totals -> written again and compared byte for byte, so that
 *          one shard has exactly one valid text.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/frame.h"
#include "src/dest/manifest_internal.h"

#define SELF_PREFIX "# self sha256="
enum { SELF_LINE_BYTES = sizeof(SELF_PREFIX) - 1 + 2 * SHA256_BYTES + 1 };

struct cursor {
    const char *at;
    const char *end;
};

static size_t cursor_left(const struct cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static bool take_literal(struct cursor *cursor, const char *literal)
{
    size_t length = strlen(literal);

    if (cursor_left(cursor) < length || memcmp(cursor->at, literal, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

/* Leading zeros are taken here and refused by the comparison with the written form. */
static bool take_number(struct cursor *cursor, unsigned base, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *begin = cursor->at;

    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at < (char)('0' + base)) {
        uint64_t digit = (uint64_t)(*cursor->at - '0');
        if (number > (UINT64_MAX - digit) / base)
            return false;
        number = number * base + digit;
        cursor->at++;
    }
    *ret_number = number;
    return cursor->at > begin;
}

static bool take_digest(struct cursor *cursor, uint8_t ret_digest[SHA256_BYTES])
{
    if (cursor_left(cursor) < 2 * SHA256_BYTES || sha256_parse(cursor->at, ret_digest) != 0)
        return false;
    cursor->at += 2 * SHA256_BYTES;
    return true;
}

/* A name up to and including its newline, unescaped. */
static bool take_name(struct cursor *cursor, char ret_name[MANIFEST_PATH_MAX_BYTES])
{
    size_t length = 0;

    while (cursor->at < cursor->end && *cursor->at != '\n') {
        char c = *cursor->at++;
        if (c == '\\') {
            if (cursor->at == cursor->end || (*cursor->at != '\\' && *cursor->at != 'n'))
                return false;
            c = *cursor->at++ == 'n' ? '\n' : '\\';
        }
        if (c == '\0' || length + 1 >= MANIFEST_PATH_MAX_BYTES)
            return false;
        ret_name[length++] = c;
    }
    ret_name[length] = '\0';
    return take_literal(cursor, "\n");
}

static bool take_directory(struct cursor *cursor, struct manifest *manifest)
{
    char name[MANIFEST_PATH_MAX_BYTES];
    uint64_t mode;

    if (!take_literal(cursor, "mode=") || !take_number(cursor, 8, &mode) || mode > 0777 ||
        !take_literal(cursor, " name=") || !take_name(cursor, name))
        return false;
    manifest_add(manifest, name, true)->mode = (uint32_t)mode;
    return true;
}

/* The length of a chunk's frame; not more than compressing makes of it. */
static bool take_frame(struct cursor *cursor, struct manifest_entry *file, size_t i)
{
    uint64_t length;

    if (file->frame_ends == NULL)
        return true;
    if (!take_literal(cursor, " lz4=") || !take_number(cursor, 10, &length) || length == 0 ||
        length > frame_bound((size_t)manifest_chunk_bytes(file, i)))
        return false;
    file->frame_ends[i] = manifest_stored_at(file, i) + length;
    return true;
}

/* A size that is made up takes no memory, since each chunk has a line. The hash of the tree is read
 * over: it is computed again when the written form is compared, as is the sum of the frames. */
static bool take_chunks(struct cursor *cursor, struct manifest_entry *file, uint64_t stored_bytes)
{
    size_t count = manifest_chunk_count(file->size_bytes, file->chunk_bytes);
    uint8_t tree[SHA256_BYTES];

    if (cursor_left(cursor) / MANIFEST_CHUNK_LINE_BYTES < count)
        return false;
    file->chunks = check_calloc(count, sizeof(*file->chunks));
    file->chunk_count = count;
    if (stored_bytes > 0)
        manifest_make_frames(file);
    for (size_t i = 0; i < count; i++) {
        if (!take_literal(cursor, MANIFEST_CHUNK_PREFIX) || !take_digest(cursor, file->chunks[i]) ||
            !take_frame(cursor, file, i) || !take_literal(cursor, "\n"))
            return false;
    }
    return take_literal(cursor, "# tree ") && take_digest(cursor, tree);
}

/* Whether the backslash is there only when needed, the comparison of the written form checks. */
static bool take_whole(struct cursor *cursor, struct manifest_entry *file, uint64_t stored_bytes)
{
    if (stored_bytes > 0) {
        if (stored_bytes > frame_bound((size_t)file->size_bytes))
            return false;
        manifest_make_frames(file);
        file->frame_ends[0] = stored_bytes;
        return take_literal(cursor, "# whole ") && take_digest(cursor, file->sha256);
    }
    (void)take_literal(cursor, "\\");
    return take_digest(cursor, file->sha256);
}

/* Memory for a chunk is bounded by what is taken here. */
static bool take_chunk_bytes(struct cursor *cursor, struct manifest_entry *file)
{
    file->chunk_bytes = MANIFEST_CHUNK_BYTES;
    return !take_literal(cursor, " chunk=") ||
           (take_number(cursor, 10, &file->chunk_bytes) &&
            manifest_cut_problem(file->size_bytes, file->chunk_bytes) == NULL);
}

/* ret_stored_bytes 0: it is stored as it is. */
static bool take_file_facts(struct cursor *cursor, struct manifest_entry *file,
                            uint64_t *ret_stored_bytes)
{
    uint64_t mode, generation = 0;

    if (!take_literal(cursor, "size=") || !take_number(cursor, 10, &file->size_bytes) ||
        !take_literal(cursor, " mode=") || !take_number(cursor, 8, &mode) || mode > 0777)
        return false;
    if (take_literal(cursor, " generation=") &&
        (!take_number(cursor, 10, &generation) || generation > MANIFEST_GENERATION_MAX))
        return false;
    if (!take_chunk_bytes(cursor, file))
        return false;
    *ret_stored_bytes = 0;
    if (take_literal(cursor, " lz4=") &&
        (!take_number(cursor, 10, ret_stored_bytes) || *ret_stored_bytes == 0 ||
         file->chunk_bytes != MANIFEST_CHUNK_BYTES))
        return false;
    file->mode = (uint32_t)mode;
    file->generation = (uint32_t)generation;
    return take_literal(cursor, "\n");
}

static bool take_file(struct cursor *cursor, struct manifest *manifest)
{
    char name[MANIFEST_PATH_MAX_BYTES];
    struct manifest_entry file = {0}, *entry;
    uint64_t stored_bytes = 0;
    bool taken = take_file_facts(cursor, &file, &stored_bytes) &&
                 (manifest_chunk_count(file.size_bytes, file.chunk_bytes) > 0
                      ? take_chunks(cursor, &file, stored_bytes)
                      : take_whole(cursor, &file, stored_bytes)) &&
                 take_literal(cursor, " *") && take_name(cursor, name);

    if (!taken) {
        free(file.chunks);
        free(file.frame_ends);
        return false;
    }
    entry = manifest_add(manifest, name, false);
    file.path = entry->path;
    *entry = file;
    return true;
}

static bool take_link(struct cursor *cursor, struct manifest *manifest)
{
    char path[MANIFEST_PATH_MAX_BYTES], to[MANIFEST_PATH_MAX_BYTES];

    if (!take_name(cursor, path) || !take_literal(cursor, MANIFEST_LINK_TO_PREFIX) ||
        !take_name(cursor, to))
        return false;
    manifest_add_link(manifest, path, to);
    return true;
}

/* Up to and including the word of the totals, whose numbers nobody reads: they are written again
 * and compared. */
static bool take_entries(struct cursor *cursor, struct manifest *manifest)
{
    uint64_t version;

    if (!take_literal(cursor, MANIFEST_HEAD) || !take_number(cursor, 10, &version) ||
        version < MANIFEST_VERSION || !take_literal(cursor, "\n") ||
        (version > MANIFEST_VERSION && !take_literal(cursor, MANIFEST_ADVICE)))
        return false;
    while (!take_literal(cursor, "# total ")) {
        if (manifest->count + manifest->link_count == MANIFEST_ENTRIES_MAX)
            return false;
        if (take_literal(cursor, MANIFEST_LINK_PREFIX)) {
            if (!take_link(cursor, manifest))
                return false;
        } else if (take_literal(cursor, "# directory ")
                       ? !take_directory(cursor, manifest)
                       : !take_literal(cursor, "# file ") || !take_file(cursor, manifest)) {
            return false;
        }
    }
    return true;
}

/* Its own hash holds, so that somebody wrote it so: it is no damage. */
static bool is_of_later_version(const uint8_t *text, size_t length, uint64_t *ret_version)
{
    struct cursor cursor = {(const char *)text, (const char *)text + length};

    return take_literal(&cursor, MANIFEST_HEAD) && take_number(&cursor, 10, ret_version) &&
           take_literal(&cursor, "\n") && *ret_version > MANIFEST_VERSION_LINKS;
}

/* The last line hashes everything before it. */
static bool self_hash_holds(const uint8_t *text, size_t length)
{
    uint8_t stated[SHA256_BYTES], actual[SHA256_BYTES];
    struct cursor cursor = {(const char *)text + length - SELF_LINE_BYTES,
                            (const char *)text + length};

    if (!take_literal(&cursor, SELF_PREFIX) || !take_digest(&cursor, stated) ||
        !take_literal(&cursor, "\n"))
        return false;
    sha256_of(text, length - SELF_LINE_BYTES, actual);
    return memcmp(stated, actual, SHA256_BYTES) == 0;
}

static bool written_form_equals(const struct manifest *manifest, const uint8_t *text, size_t length)
{
    struct buf written;
    bool equal;

    buf_init(&written);
    manifest_encode(manifest, &written);
    equal = written.length == length && memcmp(written.bytes, text, length) == 0;
    buf_close(&written);
    return equal;
}

int manifest_parse(const uint8_t *text, size_t length, struct manifest *ret_manifest,
                   struct err *err)
{
    struct manifest manifest;
    struct cursor cursor = {(const char *)text, (const char *)text + length};
    uint64_t version;

    if (length < SELF_LINE_BYTES || length > MANIFEST_MAX_BYTES)
        return err_set(err, ERR_CORRUPT, "the manifest has %zu bytes, allowed are %d to %d", length,
                       (int)SELF_LINE_BYTES, MANIFEST_MAX_BYTES);
    if (!self_hash_holds(text, length))
        return err_set(err, ERR_CORRUPT,
                       "the manifest does not match its own hash: it is cut or was changed");
    if (is_of_later_version(text, length, &version))
        return err_set(err, ERR_REFUSED,
                       "the manifest is of version %" PRIu64
                       ", and this program reads up to %d: use a later one",
                       version, MANIFEST_VERSION_LINKS);
    manifest_init(&manifest);
    cursor.end -= SELF_LINE_BYTES;
    if (!take_entries(&cursor, &manifest)) {
        err_set(err, ERR_CORRUPT, "the manifest is not well formed at byte %zu",
                (size_t)(cursor.at - (const char *)text));
        goto fail;
    }
    if (manifest_check(&manifest, err) != 0) {
        if (err != NULL)
            err->code = ERR_CORRUPT;
        err_wrap(err, "the manifest is not valid");
        goto fail;
    }
    if (!written_form_equals(&manifest, text, length)) {
        err_set(err, ERR_CORRUPT, "the manifest is not in its one written form");
        goto fail;
    }
    *ret_manifest = manifest;
    return 0;
fail:
    manifest_close(&manifest);
    return -1;
}
