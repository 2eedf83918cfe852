/* Finding and reading shards. See shards.h.
 *
 * Flow     shard_find -> shard_folders -> for each try_folder (is it the recorded manifest?) ->
 *          take_manifest -> check_listing. shard_read -> for each chunk start_chunk ...
 *          chunk_done -> chunk_check -> the reader's sink.
 * Shapes   READS_MAX chunks are on their way at a time, each with a buffer of its own, which is
 *          kept for the next one.
 */
#include "src/dest/s3/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

/* Enough to hide the way to a store and back, and 128 MiB of buffers at most. */
enum { READS_MAX = 8 };

/* Text of UTF-8, as keys are by definition: a store would refuse other bytes, or change them. */
static bool is_utf8(const char *text)
{
    const uint8_t *c = (const uint8_t *)text;

    while (*c != '\0') {
        unsigned more = *c < 0x80                 ? 0
                        : *c >= 0xC2 && *c < 0xE0 ? 1
                        : *c >= 0xE0 && *c < 0xF0 ? 2
                                                  : 3;

        if (*c >= 0x80 && (*c < 0xC2 || *c > 0xF4))
            return false;
        if ((*c == 0xE0 && c[1] < 0xA0) || (*c == 0xED && c[1] > 0x9F) ||
            (*c == 0xF0 && c[1] < 0x90) || (*c == 0xF4 && c[1] > 0x8F))
            return false;
        for (c++; more > 0; more--, c++) {
            if ((*c & 0xC0) != 0x80)
                return false;
        }
    }
    return true;
}

int shard_key(const struct shard_at *at, const char *file, char ret_key[OBJECT_KEY_MAX_BYTES + 1],
              struct err *err)
{
    int length =
        snprintf(ret_key, OBJECT_KEY_MAX_BYTES + 1, "%s%s%s", at->part.key, at->folder, file);

    if (length > OBJECT_KEY_MAX_BYTES)
        return err_set(err, ERR_REFUSED,
                       "the key of \"%.100s\" has %d bytes, a store takes %d at most; let the "
                       "application use shorter names",
                       file, length, OBJECT_KEY_MAX_BYTES);
    if (!is_utf8(file))
        return err_set(err, ERR_REFUSED, "the name of \"%.100s\" is no UTF-8, as keys have to be",
                       file);
    return 0;
}

/* ---- lists ---- */

struct folder_list {
    const struct location *part;
    struct buf *folders;
};

/* Other things below a part are none of ours, and are left alone by all but collect. */
static bool is_shard_folder(const char *name)
{
    return strlen(name) == SHARD_FOLDER_BYTES - 1 && strspn(name, "0123456789abcdef") == 16 &&
           name[16] == '/';
}

static int note_folder(void *data, const struct object_listed *listed, struct err *err)
{
    struct folder_list *list = data;
    size_t length = strlen(list->part->key);

    (void)err;
    if (listed->is_folder && strncmp(listed->key, list->part->key, length) == 0 &&
        is_shard_folder(listed->key + length))
        buf_append(list->folders, listed->key + length, SHARD_FOLDER_BYTES);
    return 0;
}

int shard_folders(struct client *client, const struct location *part, struct buf *ret_folders,
                  struct err *err)
{
    struct folder_list list = {part, ret_folders};

    buf_clear(ret_folders);
    return object_list(client, &(struct object_below){part->bucket, part->key, true}, note_folder,
                       &list, err);
}

struct file_list {
    size_t prefix_length;
    struct manifest *found;
    bool has_manifest;
};

/* The store's order is that of bytes, as is the manifest's. */
static int note_file(void *data, const struct object_listed *listed, struct err *err)
{
    struct file_list *list = data;
    const char *name = listed->key + list->prefix_length;

    if (strcmp(name, MANIFEST_NAME) == 0) {
        list->has_manifest = true;
        return 0;
    }
    if (list->found->count >= MANIFEST_ENTRIES_MAX)
        return err_set(err, ERR_CORRUPT, "there are more than %d files", MANIFEST_ENTRIES_MAX);
    manifest_add(list->found, name, false)->size_bytes = listed->size_bytes;
    return 0;
}

int shard_list(struct client *client, const struct shard_at *at, struct manifest *ret_found,
               bool *ret_has_manifest, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct file_list list = {.found = ret_found};

    manifest_init(ret_found);
    if (shard_key(at, "", key, err) != 0)
        return -1;
    list.prefix_length = strlen(key);
    if (object_list(client, &(struct object_below){at->part.bucket, key, false}, note_file, &list,
                    err) != 0) {
        manifest_close(ret_found);
        return -1;
    }
    *ret_has_manifest = list.has_manifest;
    return 0;
}

static size_t next_file(const struct manifest *manifest, size_t i)
{
    while (i < manifest->count && manifest->entries[i].is_directory)
        i++;
    return i;
}

/* Folders are no objects. Both are in the order of bytes. */
int shard_compare(const struct manifest *expected, const struct manifest *found, struct err *err)
{
    size_t one = next_file(expected, 0), other = 0;

    for (; one < expected->count || other < found->count;
         one = next_file(expected, one + 1), other++) {
        const struct manifest_entry *is = other < found->count ? &found->entries[other] : NULL;
        const struct manifest_entry *was = one < expected->count ? &expected->entries[one] : NULL;
        int order = was == NULL ? 1 : is == NULL ? -1 : strcmp(was->path, is->path);

        if (order < 0)
            return err_set(err, ERR_CORRUPT, "\"%s\" is missing", was->path);
        if (order > 0)
            return err_set(err, ERR_CORRUPT, "\"%s\" is there but not in the manifest", is->path);
        if (was->size_bytes != is->size_bytes)
            return err_set(err, ERR_CORRUPT, "\"%s\" has %llu bytes, the manifest says %llu",
                           is->path, (unsigned long long)is->size_bytes,
                           (unsigned long long)was->size_bytes);
    }
    return 0;
}

/* ---- finding one ---- */

/* Its own hash is checked before anything in it is believed. */
static int take_manifest(struct shard_found *found, const char *label, struct err *err)
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(found->text.bytes, found->text.length, digest);
    sha256_format(digest, found->summary.manifest_sha256);
    if (manifest_parse(found->text.bytes, found->text.length, &found->manifest, err) != 0)
        return err_wrap(err, "%s", label);
    found->summary.size_bytes = found->manifest.size_bytes;
    found->summary.file_count = found->manifest.file_count;
    return 0;
}

/* 1: this folder is the shard; 0: another one may be, else err; -1: err. */
static int try_folder(struct client *client, const struct destination_place *place,
                      struct shard_found *found, struct err *err)
{
    char key[OBJECT_KEY_MAX_BYTES + 1], hex[SHA256_HEX_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct err why = {0};

    if (shard_key(&found->at, MANIFEST_NAME, key, err) != 0)
        return -1;
    if (object_get(client, found->at.part.bucket, key, &found->text, &why) != 0)
        return why.code == ERR_NOT_FOUND ? 0 : err_set(err, why.code, "%s", why.text);
    sha256_of(found->text.bytes, found->text.length, digest);
    sha256_format(digest, hex);
    if (place->manifest_sha256 == NULL || strcmp(hex, place->manifest_sha256) == 0)
        return 1;
    err_set(err, ERR_CORRUPT, "%s/%s: the manifest's SHA-256 is %s, recorded was %.64s",
            place->path, place->part, hex, place->manifest_sha256);
    return 0;
}

/* What is missing, of another size or too much is told before a byte is read. */
static int check_listing(struct client *client, struct shard_found *found, struct err *err)
{
    struct manifest listed;
    bool has_manifest;
    int result;

    if (shard_list(client, &found->at, &listed, &has_manifest, err) != 0)
        return -1;
    result = shard_compare(&found->manifest, &listed, err);
    manifest_close(&listed);
    return result;
}

/* Without a recorded hash the first that is whole in its listing will do. */
static int find_among(struct client *client, const struct destination_place *place,
                      const struct buf *folders, struct shard_found *found, struct err *err)
{
    struct err why = {0};

    err_set(&why, folders->length == 0 ? ERR_NOT_FOUND : ERR_CORRUPT,
            folders->length == 0 ? "%s/%s: there is no such shard"
                                 : "%s/%s: the shard has no manifest",
            place->path, place->part);
    for (size_t at = 0; at < folders->length; at += SHARD_FOLDER_BYTES) {
        int is_it;

        memcpy(found->at.folder, folders->bytes + at, SHARD_FOLDER_BYTES);
        is_it = try_folder(client, place, found, &why);
        if (is_it < 0)
            break;
        if (is_it == 0)
            continue;
        if (take_manifest(found, place->path, &why) == 0 && check_listing(client, found, &why) == 0)
            return 0;
        manifest_close(&found->manifest);
        if (place->manifest_sha256 != NULL || why.code != ERR_CORRUPT)
            break;
    }
    return err_set(err, why.code, "%s", why.text);
}

int shard_find(struct client *client, const struct destination_place *place,
               struct shard_found *found, struct err *err)
{
    struct buf folders = {0};
    int result = -1;

    memset(found, 0, sizeof(*found));
    if (location_of_part(place, &found->at.part, err) == 0 &&
        shard_folders(client, &found->at.part, &folders, err) == 0)
        result = find_among(client, place, &folders, found, err);
    buf_close(&folders);
    return result;
}

void shard_found_close(struct shard_found *found)
{
    buf_close(&found->text);
    manifest_close(&found->manifest);
}

/* ---- reading ---- */

/* A chunk on its way. */
struct chunk_read {
    struct reading *reading;
    const struct manifest_entry *entry;
    size_t chunk, length;
    uint8_t *bytes;
    char range[64];
    struct call *call;
    bool is_busy;
};

struct reading {
    struct client *client;
    const struct shard_at *at;
    const struct manifest *manifest;
    const struct shard_reader *reader;
    struct sha256 sha256;
    size_t *left; /* chunks of each entry that are still to come */
    struct chunk_read slots[READS_MAX];
    size_t busy;
    bool failed;
    struct err err;
};

/* The first failure counts. No further chunk is asked for after it. */
static void reading_fail(struct reading *reading, const struct err *why)
{
    if (!reading->failed)
        reading->err = *why;
    reading->failed = true;
}

/* Compared before anything is done with it: the bytes went through the network, and perhaps
 * through a store that has lost some. */
static int chunk_check(struct chunk_read *slot, struct err *err)
{
    struct reading *reading = slot->reading;
    const struct shard_reader *reader = reading->reader;
    size_t index = (size_t)(slot->entry - reading->manifest->entries);
    uint8_t digest[SHA256_BYTES];

    sha256_start(&reading->sha256);
    sha256_update(&reading->sha256, slot->bytes, slot->length);
    sha256_finish(&reading->sha256, digest);
    if (memcmp(digest, manifest_chunk_hash(slot->entry, slot->chunk), SHA256_BYTES) != 0)
        return err_set(err, ERR_CORRUPT,
                       "s3://%s/%s%s%s is not what was written: its bytes do not match the SHA-256 "
                       "in the manifest",
                       reading->at->part.bucket, reading->at->part.key, reading->at->folder,
                       slot->entry->path);
    if (reader->sink != NULL &&
        reader->sink(reader->data, slot->entry, slot->chunk, slot->bytes, slot->length, err) != 0)
        return -1;
    if (--reading->left[index] == 0 && reader->ended != NULL)
        return reader->ended(reader->data, slot->entry, err);
    return 0;
}

static void chunk_done(void *data, struct call *call)
{
    struct chunk_read *slot = data;
    const struct call_result *result = call_result(call);
    struct err why = {0};

    if (result->outcome != 0) {
        why = result->err;
        if (why.code == ERR_NOT_FOUND)
            why.code = ERR_CORRUPT; /* it was in the list */
        reading_fail(slot->reading, &why);
    }
    if (result->outcome == 0 && !slot->reading->failed && chunk_check(slot, &why) != 0)
        reading_fail(slot->reading, &why);
    call_free(call);
    slot->is_busy = false;
    slot->reading->busy--;
}

/* Steps until one of the chunks has come. */
static struct chunk_read *free_slot(struct reading *reading)
{
    while (reading->busy == READS_MAX)
        client_step(reading->client);
    for (size_t i = 0; i < READS_MAX; i++) {
        if (!reading->slots[i].is_busy)
            return &reading->slots[i];
    }
    CHECK_UNREACHABLE("a slot is free");
}

/* A file without chunks is asked for as a whole: a range would be refused for some that are
 * empty, and says nothing more. */
static int start_chunk(struct reading *reading, const struct manifest_entry *entry, size_t chunk,
                       struct err *err)
{
    struct chunk_read *slot = free_slot(reading);
    char key[OBJECT_KEY_MAX_BYTES + 1];
    uint64_t begin = (uint64_t)chunk * MANIFEST_CHUNK_BYTES;
    struct call_request request = {.method = "GET", .bucket = reading->at->part.bucket};

    if (shard_key(reading->at, entry->path, key, err) != 0)
        return -1;
    if (slot->bytes == NULL)
        slot->bytes = check_alloc(MANIFEST_CHUNK_BYTES);
    slot->reading = reading;
    slot->entry = entry;
    slot->chunk = chunk;
    slot->length = (size_t)manifest_chunk_bytes(entry, chunk);
    request.key = key;
    request.into = slot->bytes;
    request.into_bytes = slot->length;
    snprintf(slot->range, sizeof(slot->range), "bytes=%llu-%llu", (unsigned long long)begin,
             (unsigned long long)(begin + slot->length - 1));
    if (entry->chunk_count > 0)
        request.header = (struct sigv4_header){"range", slot->range};
    slot->is_busy = true;
    reading->busy++;
    call_start(call_new(reading->client, &request), chunk_done, slot);
    return 0;
}

/* An empty file has nothing to be read. */
static int end_empty(struct reading *reading, const struct manifest_entry *entry, struct err *err)
{
    static const uint8_t nothing[1];
    struct chunk_read slot = {
        .reading = reading, .entry = entry, .bytes = (uint8_t *)(uintptr_t)nothing};

    return chunk_check(&slot, err);
}

/* Which chunks come is known before the first is asked for. */
static size_t count_chunks(const struct reading *reading, size_t index)
{
    const struct manifest_entry *entry = &reading->manifest->entries[index];
    const struct sample *sample = reading->reader->sample;
    size_t all = entry->chunk_count > 0 ? entry->chunk_count : 1, count = 0;

    if (sample == NULL)
        return all;
    for (size_t i = 0; i < all; i++)
        count += sample_takes(sample, index, i, entry->chunk_count);
    return count;
}

static int read_entry(struct reading *reading, size_t index, struct err *err)
{
    const struct manifest_entry *entry = &reading->manifest->entries[index];
    const struct sample *sample = reading->reader->sample;
    size_t count = entry->chunk_count > 0 ? entry->chunk_count : 1;

    if (entry->is_directory)
        return 0;
    reading->left[index] = count_chunks(reading, index);
    if (entry->size_bytes == 0)
        return reading->left[index] > 0 ? end_empty(reading, entry, err) : 0;
    for (size_t i = 0; i < count && !reading->failed; i++) {
        if (sample != NULL && !sample_takes(sample, index, i, entry->chunk_count))
            continue;
        if (start_chunk(reading, entry, i, err) != 0)
            return -1;
    }
    return 0;
}

int shard_read(struct client *client, const struct shard_at *at, const struct manifest *manifest,
               const struct shard_reader *reader, struct err *err)
{
    struct reading reading = {.client = client, .at = at, .manifest = manifest, .reader = reader};
    struct err why = {0};

    sha256_init(&reading.sha256);
    reading.left = check_calloc(manifest->count + 1, sizeof(*reading.left));
    for (size_t i = 0; i < manifest->count && !reading.failed; i++) {
        if (read_entry(&reading, i, &why) != 0)
            reading_fail(&reading, &why);
    }
    while (reading.busy > 0)
        client_step(client);
    for (size_t i = 0; i < READS_MAX; i++)
        free(reading.slots[i].bytes);
    free(reading.left);
    sha256_close(&reading.sha256);
    return reading.failed ? err_set(err, reading.err.code, "%s", reading.err.text) : 0;
}
