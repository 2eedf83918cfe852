/* Building, checking and writing a MANIFEST. See manifest.h; reading is manifest_parse.c. */
#include "src/dest/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/manifest_internal.h"

void manifest_init(struct manifest *manifest)
{
    memset(manifest, 0, sizeof(*manifest));
}

void manifest_close(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++) {
        free(manifest->entries[i].path);
        free(manifest->entries[i].chunks);
        free(manifest->entries[i].frame_ends);
    }
    free(manifest->entries);
    manifest_links_close(manifest);
    manifest_init(manifest);
}

/* One above the limit is let in, so that manifest_check() refuses it with a message. */
struct manifest_entry *manifest_add(struct manifest *manifest, const char *path, bool is_directory)
{
    struct manifest_entry *entry;

    CHECK(manifest->count <= MANIFEST_ENTRIES_MAX);
    if (manifest->count == manifest->capacity) {
        manifest->capacity = manifest->capacity == 0 ? 64 : manifest->capacity * 2;
        manifest->entries =
            check_realloc(manifest->entries, manifest->capacity, sizeof(*manifest->entries));
    }
    entry = &manifest->entries[manifest->count++];
    memset(entry, 0, sizeof(*entry));
    entry->path = check_strdup(path);
    entry->is_directory = is_directory;
    entry->chunk_bytes = MANIFEST_CHUNK_BYTES;
    manifest->names_bytes += strlen(path);
    return entry;
}

size_t manifest_chunk_count(uint64_t size_bytes, uint64_t chunk_bytes)
{
    CHECK(chunk_bytes > 0);
    if (size_bytes <= chunk_bytes)
        return 0;
    return (size_t)((size_bytes - 1) / chunk_bytes + 1);
}

uint64_t manifest_chunk_at(const struct manifest_entry *entry, size_t i)
{
    return i * entry->chunk_bytes;
}

uint64_t manifest_chunk_bytes(const struct manifest_entry *entry, size_t i)
{
    uint64_t left = entry->size_bytes - manifest_chunk_at(entry, i);

    CHECK(manifest_chunk_at(entry, i) <= entry->size_bytes);
    return left < entry->chunk_bytes ? left : entry->chunk_bytes;
}

const uint8_t *manifest_chunk_hash(const struct manifest_entry *entry, size_t i)
{
    CHECK(i < entry->chunk_count || i == 0);
    return entry->chunk_count == 0 ? entry->sha256 : entry->chunks[i];
}

void manifest_chunk_set(struct manifest_entry *entry, size_t i, const uint8_t digest[SHA256_BYTES])
{
    CHECK(i < entry->chunk_count || i == 0);
    memcpy(entry->chunk_count == 0 ? entry->sha256 : entry->chunks[i], digest, SHA256_BYTES);
}

/* ---- what is stored ---- */

#define COMPRESSED_SUFFIX ".lz4"

static size_t frame_count(const struct manifest_entry *entry)
{
    return entry->chunk_count == 0 ? 1 : entry->chunk_count;
}

void manifest_make_frames(struct manifest_entry *entry)
{
    CHECK(entry->frame_ends == NULL);
    CHECK(!entry->is_directory);
    entry->frame_ends = check_calloc(frame_count(entry), sizeof(*entry->frame_ends));
}

void manifest_copy_frames(struct manifest_entry *entry, const struct manifest_entry *from)
{
    CHECK(entry->chunk_count == from->chunk_count);
    if (from->frame_ends == NULL)
        return;
    manifest_make_frames(entry);
    memcpy(entry->frame_ends, from->frame_ends, frame_count(from) * sizeof(*from->frame_ends));
}

void manifest_drop_frames(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++) {
        free(manifest->entries[i].frame_ends);
        manifest->entries[i].frame_ends = NULL;
    }
}

uint64_t manifest_stored_at(const struct manifest_entry *entry, size_t i)
{
    if (entry->frame_ends == NULL)
        return manifest_chunk_at(entry, i);
    return i == 0 ? 0 : entry->frame_ends[i - 1];
}

uint64_t manifest_stored_length(const struct manifest_entry *entry, size_t i)
{
    CHECK(i < frame_count(entry));
    return entry->frame_ends == NULL ? manifest_chunk_bytes(entry, i)
                                     : entry->frame_ends[i] - manifest_stored_at(entry, i);
}

uint64_t manifest_stored_bytes(const struct manifest_entry *entry)
{
    return entry->frame_ends == NULL ? entry->size_bytes
                                     : entry->frame_ends[frame_count(entry) - 1];
}

const char *manifest_stored_path(const struct manifest_entry *entry,
                                 char buffer[MANIFEST_PATH_MAX_BYTES])
{
    int length;

    if (entry->frame_ends == NULL)
        return entry->path;
    length = snprintf(buffer, MANIFEST_PATH_MAX_BYTES, "%s" COMPRESSED_SUFFIX, entry->path);
    CHECK(length > 0 && length < MANIFEST_PATH_MAX_BYTES);
    return buffer;
}

const char *manifest_compression_problem(const struct manifest *manifest,
                                         const struct manifest_entry *entry)
{
    const char *slash = strrchr(entry->path, '/');
    const char *name = slash == NULL ? entry->path : slash + 1;
    char path[MANIFEST_PATH_MAX_BYTES];

    if (entry->is_directory || entry->size_bytes == 0)
        return "has nothing to compress";
    if (strlen(name) + strlen(COMPRESSED_SUFFIX) > MANIFEST_NAME_MAX_BYTES ||
        strlen(entry->path) + strlen(COMPRESSED_SUFFIX) >= sizeof(path))
        return "has a name that is too long for that of a compressed file";
    snprintf(path, sizeof(path), "%s" COMPRESSED_SUFFIX, entry->path);
    if (manifest_find(manifest, path) != NULL || manifest_has_link(manifest, path))
        return "is compressed under a name that another one has";
    return NULL;
}

/* What lies in the shard, as tree_list() would list it. The caller closes it. */
static int list_stored(const struct manifest *manifest, struct manifest *stored, struct err *err)
{
    char path[MANIFEST_PATH_MAX_BYTES];

    manifest_init(stored);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        manifest_add(stored, manifest_stored_path(entry, path), entry->is_directory)->size_bytes =
            entry->is_directory ? 0 : manifest_stored_bytes(entry);
    }
    manifest_copy_links(stored, manifest);
    return manifest_finish(stored, err);
}

int manifest_compare_stored(const struct manifest *manifest, const struct manifest *found,
                            struct err *err)
{
    struct manifest stored;
    bool compressed = false;
    int result;

    for (size_t i = 0; i < manifest->count && !compressed; i++)
        compressed = manifest->entries[i].frame_ends != NULL;
    if (!compressed)
        return manifest_compare(manifest, found, err);
    result = list_stored(manifest, &stored, err);
    if (result == 0)
        result = manifest_compare(&stored, found, err);
    manifest_close(&stored);
    return result;
}

bool manifest_same_bytes(const struct manifest_entry *one, const struct manifest_entry *other)
{
    if (one->size_bytes != other->size_bytes || one->chunk_bytes != other->chunk_bytes ||
        one->chunk_count != other->chunk_count)
        return false;
    if (one->chunk_count == 0)
        return memcmp(one->sha256, other->sha256, SHA256_BYTES) == 0;
    return memcmp(one->chunks, other->chunks, one->chunk_count * SHA256_BYTES) == 0;
}

static void make_chunks(struct manifest_entry *entry)
{
    size_t count =
        entry->is_directory ? 0 : manifest_chunk_count(entry->size_bytes, entry->chunk_bytes);

    if (count == entry->chunk_count)
        return;
    free(entry->chunks);
    entry->chunks = count == 0 ? NULL : check_calloc(count, sizeof(*entry->chunks));
    entry->chunk_count = count;
}

void manifest_cut(struct manifest_entry *entry, uint64_t chunk_bytes)
{
    CHECK(!entry->is_directory && entry->frame_ends == NULL);
    if (chunk_bytes != MANIFEST_CHUNK_BYTES)
        CHECK(manifest_cut_problem(entry->size_bytes, chunk_bytes) == NULL);
    entry->chunk_bytes = chunk_bytes;
    entry->known_hashes = 0;
    make_chunks(entry);
}

const char *manifest_cut_problem(uint64_t size_bytes, uint64_t chunk_bytes)
{
    if (chunk_bytes == 0 || chunk_bytes % MANIFEST_CHUNK_BYTES != 0)
        return "has chunks of other sizes than multiples of 16 MiB";
    if (chunk_bytes > MANIFEST_CHUNK_MAX_BYTES)
        return "has chunks over 1 GiB";
    return chunk_bytes < size_bytes ? NULL : "has a chunk that is larger than the file";
}

static const char *component_problem(const char *name, size_t length)
{
    if (length == 0)
        return "has an empty component";
    if (length > MANIFEST_NAME_MAX_BYTES)
        return "has a component over 255 bytes";
    if ((length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.'))
        return "has a component \".\" or \"..\"";
    return NULL;
}

const char *manifest_path_problem(const char *path)
{
    const char *problem = NULL;
    const char *at = path;
    size_t depth = 0;

    if (strlen(path) >= MANIFEST_PATH_MAX_BYTES)
        return "is over 4095 bytes";
    if (strcmp(path, MANIFEST_NAME) == 0)
        return "is the name of the checkpoint's own manifest";
    if (strcmp(path, "-") == 0)
        return "is what sha256sum takes for its standard input";
    if (strchr(path, '\r') != NULL)
        return "holds a carriage return, which sha256sum -c cannot check";
    for (;;) {
        size_t length = strcspn(at, "/");
        problem = component_problem(at, length);
        if (problem != NULL)
            return problem;
        if (++depth > MANIFEST_DEPTH_MAX)
            return "is more than 64 levels deep";
        if (at[length] == '\0')
            return NULL;
        at += length + 1;
    }
}

/* Bytes, not letters: the same order in every locale. */
static int entry_compare(const void *a, const void *b)
{
    const struct manifest_entry *one = a, *other = b;

    return strcmp(one->path, other->path);
}

const struct manifest_entry *manifest_find(const struct manifest *manifest, const char *path)
{
    const struct manifest_entry key = {.path = (char *)(uintptr_t)path}; /* is only compared */

    if (manifest->count == 0)
        return NULL;
    return bsearch(&key, manifest->entries, manifest->count, sizeof(key), entry_compare);
}

bool manifest_same_contents(const struct manifest *one, const struct manifest *other)
{
    if (one->count != other->count)
        return false;
    for (size_t i = 0; i < one->count; i++) {
        const struct manifest_entry *a = &one->entries[i], *b = &other->entries[i];
        if (strcmp(a->path, b->path) != 0 || a->is_directory != b->is_directory ||
            a->mode != b->mode || (!a->is_directory && !manifest_same_bytes(a, b)))
            return false;
    }
    return manifest_links_compare(one, other, NULL) == 0;
}

/* The parent of a path is among the first entries, and a directory: a link is none. */
static bool parent_listed(const struct manifest *manifest, size_t count, const char *path)
{
    const char *slash = strrchr(path, '/');
    char parent[MANIFEST_PATH_MAX_BYTES];
    struct manifest_entry key = {.path = parent};
    const struct manifest_entry *found;

    if (slash == NULL)
        return true;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    found = count == 0 ? NULL : bsearch(&key, manifest->entries, count, sizeof(key), entry_compare);
    return found != NULL && found->is_directory;
}

static int entry_check(struct manifest *manifest, size_t i, struct err *err)
{
    const struct manifest_entry *entry = &manifest->entries[i];
    const char *problem = manifest_path_problem(entry->path);

    if (problem == NULL && i > 0 && strcmp(manifest->entries[i - 1].path, entry->path) >= 0)
        problem = "is listed twice or out of order";
    if (problem == NULL && !parent_listed(manifest, i, entry->path))
        problem = "lies in a folder that is not listed";
    if (problem == NULL && entry->mode > 0777)
        problem = "has a mode over 0777";
    if (problem == NULL && entry->generation > MANIFEST_GENERATION_MAX)
        problem = "has a generation over 255";
    if (problem == NULL && entry->frame_ends != NULL)
        problem = manifest_compression_problem(manifest, entry);
    if (problem == NULL && !entry->is_directory &&
        entry->size_bytes > UINT64_MAX - manifest->size_bytes)
        problem = "makes the total size overflow";
    if (problem != NULL)
        return err_set(err, ERR_REFUSED, "\"%s\" %s", entry->path, problem);
    return 0;
}

static int link_check(const struct manifest *manifest, size_t i, struct err *err)
{
    const struct manifest_link *link = &manifest->links[i];
    const char *problem = manifest_path_problem(link->path);

    if (problem == NULL && i > 0 && strcmp(link[-1].path, link->path) >= 0)
        problem = "is listed twice or out of order";
    if (problem == NULL && manifest_find(manifest, link->path) != NULL)
        problem = "is listed as a file or folder and as a link";
    if (problem == NULL && !parent_listed(manifest, manifest->count, link->path))
        problem = "lies in a folder that is not listed";
    if (problem != NULL)
        return err_set(err, ERR_REFUSED, "\"%.200s\" %s", link->path, problem);
    problem = manifest_link_problem(link->path, link->to);
    if (problem == NULL)
        return 0;
    return err_set(err, ERR_REFUSED,
                   "\"%.150s\" is a symbolic link, and its text \"%.150s\" %s: a checkpoint keeps "
                   "relative links within its own folder",
                   link->path, link->to, problem);
}

/* Unlike finish it does not sort: for manifest_parse() the order is part of the form. */
int manifest_check(struct manifest *manifest, struct err *err)
{
    manifest->file_count = 0;
    manifest->size_bytes = 0;
    if (manifest->count + manifest->link_count > MANIFEST_ENTRIES_MAX)
        return err_set(err, ERR_REFUSED, "more than %d files, folders and links",
                       MANIFEST_ENTRIES_MAX);
    for (size_t i = 0; i < manifest->count; i++) {
        if (entry_check(manifest, i, err) != 0)
            return -1;
        if (!manifest->entries[i].is_directory) {
            manifest->file_count++;
            manifest->size_bytes += manifest->entries[i].size_bytes;
        }
    }
    for (size_t i = 0; i < manifest->link_count; i++)
        if (link_check(manifest, i, err) != 0)
            return -1;
    return 0;
}

/* Before room is made for their hashes: a file of holes takes no space and may have any size. */
static int check_chunks(const struct manifest *manifest, struct err *err)
{
    const uint64_t max = MANIFEST_MAX_BYTES / MANIFEST_CHUNK_LINE_BYTES;
    uint64_t chunks = 0;

    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];

        if (entry->is_directory)
            continue;
        chunks += manifest_chunk_count(entry->size_bytes, entry->chunk_bytes);
        if (chunks > max)
            return err_set(err, ERR_REFUSED,
                           "with \"%s\" (%" PRIu64 " bytes) the files have over %" PRIu64
                           " TiB, more than a manifest carries: divide them among more nodes, or "
                           "write no files of holes",
                           entry->path, entry->size_bytes,
                           max * MANIFEST_CHUNK_BYTES / ((uint64_t)1 << 40));
    }
    return 0;
}

int manifest_finish(struct manifest *manifest, struct err *err)
{
    if (check_chunks(manifest, err) != 0)
        return -1;
    for (size_t i = 0; i < manifest->count; i++)
        make_chunks(&manifest->entries[i]);
    if (manifest->count > 1)
        qsort(manifest->entries, manifest->count, sizeof(*manifest->entries), entry_compare);
    manifest_links_sort(manifest);
    return manifest_check(manifest, err);
}

/* What `split -b CHUNK --filter=sha256sum FILE | sha256sum` prints. */
static void tree_of(const struct manifest_entry *entry, uint8_t ret_digest[SHA256_BYTES])
{
    char hex[SHA256_HEX_BYTES];
    struct sha256 sha256;

    sha256_init(&sha256);
    sha256_start(&sha256);
    for (size_t i = 0; i < entry->chunk_count; i++) {
        sha256_update(&sha256, sha256_format(entry->chunks[i], hex), SHA256_HEX_BYTES - 1);
        sha256_update(&sha256, "  -\n", 4);
    }
    sha256_finish(&sha256, ret_digest);
    sha256_close(&sha256);
}

static void append_chunks(struct buf *text, const struct manifest_entry *entry)
{
    char hex[SHA256_HEX_BYTES];
    uint8_t tree[SHA256_BYTES];

    for (size_t i = 0; i < entry->chunk_count; i++) {
        buf_printf(text, "# chunk %s", sha256_format(entry->chunks[i], hex));
        if (entry->frame_ends != NULL)
            buf_printf(text, " lz4=%" PRIu64, manifest_stored_length(entry, i));
        buf_append(text, "\n", 1);
    }
    tree_of(entry, tree);
    buf_printf(text, "# tree %s *", sha256_format(tree, hex));
}

static void append_entry(struct buf *text, const struct manifest_entry *entry)
{
    char hex[SHA256_HEX_BYTES];

    if (entry->is_directory) {
        buf_printf(text, "# directory mode=%04o name=", (unsigned)entry->mode);
        manifest_append_name(text, entry->path);
        return;
    }
    CHECK(entry->chunk_count == manifest_chunk_count(entry->size_bytes, entry->chunk_bytes));
    buf_printf(text, "# file size=%" PRIu64 " mode=%04o", entry->size_bytes, (unsigned)entry->mode);
    if (entry->generation > 0)
        buf_printf(text, " generation=%u", (unsigned)entry->generation);
    if (entry->chunk_bytes != MANIFEST_CHUNK_BYTES)
        buf_printf(text, " chunk=%" PRIu64, entry->chunk_bytes);
    if (entry->frame_ends != NULL)
        buf_printf(text, " lz4=%" PRIu64, manifest_stored_bytes(entry));
    buf_append(text, "\n", 1);
    if (entry->chunk_count > 0)
        append_chunks(text, entry);
    else if (entry->frame_ends != NULL)
        buf_printf(text, "# whole %s *", sha256_format(entry->sha256, hex));
    else
        buf_printf(text, "%s%s *", strpbrk(entry->path, "\\\n") != NULL ? "\\" : "",
                   sha256_format(entry->sha256, hex));
    manifest_append_name(text, entry->path);
}

void manifest_encode(const struct manifest *manifest, struct buf *text)
{
    char hex[SHA256_HEX_BYTES];
    uint8_t self[SHA256_BYTES];
    size_t begin = text->length;

    buf_printf(text, MANIFEST_HEAD "%d\n",
               manifest->link_count > 0 ? MANIFEST_VERSION_LINKS : MANIFEST_VERSION);
    if (manifest->link_count > 0)
        buf_printf(text, MANIFEST_ADVICE);
    for (size_t i = 0; i < manifest->count; i++)
        append_entry(text, &manifest->entries[i]);
    manifest_links_encode(manifest, text);
    buf_printf(text, "# total files=%zu directories=%zu bytes=%" PRIu64 "\n", manifest->file_count,
               manifest->count - manifest->file_count, manifest->size_bytes);
    sha256_of(text->bytes + begin, text->length - begin, self);
    buf_printf(text, "# self sha256=%s\n", sha256_format(self, hex));
}

/* What is wrong at the first place where the sorted lists differ. */
static int report_difference(const struct manifest_entry *expected,
                             const struct manifest_entry *found, struct err *err)
{
    int order = expected == NULL ? 1 : found == NULL ? -1 : strcmp(expected->path, found->path);

    if (order < 0)
        return err_set(err, ERR_CORRUPT, "\"%s\" is missing", expected->path);
    if (order > 0)
        return err_set(err, ERR_CORRUPT, "\"%s\" is there but not in the manifest", found->path);
    if (expected->is_directory != found->is_directory)
        return err_set(err, ERR_CORRUPT, "\"%s\" is a %s, the manifest says %s", found->path,
                       found->is_directory ? "folder" : "file",
                       expected->is_directory ? "folder" : "file");
    return err_set(err, ERR_CORRUPT, "\"%s\" has %" PRIu64 " bytes, the manifest says %" PRIu64,
                   found->path, found->size_bytes, expected->size_bytes);
}

int manifest_compare(const struct manifest *expected, const struct manifest *found, struct err *err)
{
    size_t longest = expected->count > found->count ? expected->count : found->count;

    for (size_t i = 0; i < longest; i++) {
        const struct manifest_entry *one = i < expected->count ? &expected->entries[i] : NULL;
        const struct manifest_entry *other = i < found->count ? &found->entries[i] : NULL;
        if (one == NULL || other == NULL || strcmp(one->path, other->path) != 0 ||
            one->is_directory != other->is_directory || one->size_bytes != other->size_bytes)
            return report_difference(one, other, err);
    }
    return manifest_links_compare(expected, found, err);
}
