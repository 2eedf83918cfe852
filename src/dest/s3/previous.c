/* What has not changed is copied by the store. See previous.h. */
#include "src/dest/s3/previous.h"

#include <stdio.h>
#include <string.h>

#include "src/base/check.h"

/* Checkpoints that are looked at, those with the highest numbers: retention leaves few. And how
 * long a store may be silent while it copies. */
enum { SIBLINGS_MAX = 16, COPY_STALL_MS = 120000, MODIFIED_BYTES = 40 };

/* ---- which one ---- */

/* Keys of checkpoints, each with its slash; the highest number first. */
struct siblings {
    const char *own; /* is left out */
    char keys[SIBLINGS_MAX][OBJECT_KEY_MAX_BYTES + 1];
    size_t count;
};

/* Numbers as texts: the longer one is the higher one. */
static bool is_higher(const char *one, const char *other)
{
    size_t length = strlen(one), other_length = strlen(other);

    return length != other_length ? length > other_length : strcmp(one, other) > 0;
}

static int note_sibling(void *data, const struct object_listed *listed, struct err *err)
{
    struct siblings *siblings = data;
    size_t at = 0;

    (void)err;
    if (!listed->is_folder || strlen(listed->key) > OBJECT_KEY_MAX_BYTES ||
        strncmp(siblings->own, listed->key, strlen(listed->key)) == 0)
        return 0;
    while (at < siblings->count && is_higher(siblings->keys[at], listed->key))
        at++;
    if (at == SIBLINGS_MAX)
        return 0;
    if (siblings->count < SIBLINGS_MAX)
        siblings->count++;
    memmove(siblings->keys[at + 1], siblings->keys[at],
            (siblings->count - 1 - at) * sizeof(siblings->keys[0]));
    snprintf(siblings->keys[at], sizeof(siblings->keys[at]), "%s", listed->key);
    return 0;
}

/* Of ".../checkpoints/1-42/part-0000/": the lengths of what ends with the last slash but one, and
 * but two. */
static void split_key(const char *key, size_t *ret_checkpoint, size_t *ret_checkpoints)
{
    size_t at = strlen(key) - 1;

    while (at > 0 && key[at - 1] != '/')
        at--;
    *ret_checkpoint = at;
    at = at > 0 ? at - 1 : 0;
    while (at > 0 && key[at - 1] != '/')
        at--;
    *ret_checkpoints = at;
}

/* Times of one store compare as texts. */
static int note_modified(void *data, const struct object_listed *listed, struct err *err)
{
    (void)err;
    snprintf(data, MODIFIED_BYTES, "%s", listed->modified);
    return 0;
}

/* When the shard was finished, by the store's clock; "": it is none. */
static int find_finished(struct client *client, const struct shard_at *at,
                         char ret_modified[MODIFIED_BYTES])
{
    char key[OBJECT_KEY_MAX_BYTES + 1];

    ret_modified[0] = '\0';
    if (shard_key(at, MANIFEST_NAME, key, NULL) != 0)
        return 0;
    return object_list(client, &(struct object_below){.bucket = at->part.bucket, .prefix = key},
                       note_modified, ret_modified, NULL);
}

/* The part's shards in one checkpoint; a later one than was found before is noted. -1: the store
 * does not answer, and is not asked for others. */
static int look_into(struct previous *previous, struct client *client, const char *checkpoint,
                     const char *part, char newest[MODIFIED_BYTES])
{
    struct shard_at at = previous->at;
    struct buf folders = {0};
    int result;

    if (snprintf(at.part.key, sizeof(at.part.key), "%s%s", checkpoint, part) >=
        (int)sizeof(at.part.key))
        return 0;
    result = shard_folders(client, &at.part, &folders, NULL);
    for (size_t i = 0; result == 0 && i < folders.length; i += SHARD_FOLDER_BYTES) {
        char modified[MODIFIED_BYTES];

        memcpy(at.folder, folders.bytes + i, SHARD_FOLDER_BYTES);
        result = find_finished(client, &at, modified);
        if (result == 0 && strcmp(modified, newest) > 0) {
            memcpy(newest, modified, MODIFIED_BYTES);
            previous->at = at;
        }
    }
    buf_close(&folders);
    return result;
}

/* A shard whose MANIFEST does not prove itself is none. */
static bool read_manifest(struct previous *previous, struct client *client)
{
    char key[OBJECT_KEY_MAX_BYTES + 1];
    struct buf text = {0};
    bool is_one = shard_key(&previous->at, MANIFEST_NAME, key, NULL) == 0 &&
                  object_get(client, previous->at.part.bucket, key, &text, NULL) == 0 &&
                  manifest_parse(text.bytes, text.length, &previous->manifest, NULL) == 0;

    buf_close(&text);
    return is_one;
}

void previous_open(struct previous *previous, struct client *client, const struct location *own,
                   unsigned generations_max)
{
    struct siblings siblings = {.own = own->key};
    char checkpoints[OBJECT_KEY_MAX_BYTES + 1], newest[MODIFIED_BYTES] = "";
    size_t checkpoint_at, checkpoints_at;

    memset(previous, 0, sizeof(*previous));
    previous->generations_max = generations_max;
    previous->at.part = *own;
    manifest_init(&previous->manifest);
    if (generations_max == 0)
        return;
    split_key(own->key, &checkpoint_at, &checkpoints_at);
    snprintf(checkpoints, sizeof(checkpoints), "%.*s", (int)checkpoints_at, own->key);
    if (checkpoints_at == 0 ||
        object_list(
            client,
            &(struct object_below){.bucket = own->bucket, .prefix = checkpoints, .folders = true},
            note_sibling, &siblings, NULL) != 0)
        return;
    for (size_t i = 0; i < siblings.count; i++) {
        if (look_into(previous, client, siblings.keys[i], own->key + checkpoint_at, newest) != 0)
            return;
    }
    previous->is_there = newest[0] != '\0' && read_manifest(previous, client);
}

void previous_close(struct previous *previous)
{
    previous->is_there = false;
    manifest_close(&previous->manifest);
}

/* ---- what it holds ---- */

const struct manifest_entry *previous_find(const struct previous *previous,
                                           const struct manifest_entry *entry)
{
    const struct manifest_entry *file;
    char key[OBJECT_KEY_MAX_BYTES + 1];

    if (!previous->is_there || entry->size_bytes < PREVIOUS_MIN_BYTES)
        return NULL;
    file = manifest_find(&previous->manifest, entry->path);
    return file != NULL && !file->is_directory && file->generation < previous->generations_max &&
                   shard_key(&previous->at, file->path, key, NULL) == 0
               ? file
               : NULL;
}

bool previous_has(const struct manifest_entry *file, const struct manifest_entry *entry,
                  size_t chunk)
{
    if (file->chunk_bytes != entry->chunk_bytes ||
        (file->chunk_count == 0) != (entry->chunk_count == 0) ||
        (chunk > 0 && chunk >= file->chunk_count))
        return false;
    return manifest_chunk_bytes(file, chunk) == manifest_chunk_bytes(entry, chunk) &&
           memcmp(manifest_chunk_hash(file, chunk), manifest_chunk_hash(entry, chunk),
                  SHA256_BYTES) == 0;
}

/* The source is named in a header, which is signed. */
struct call *previous_copy(const struct previous *previous, struct client *client,
                           const struct previous_range *range, const struct call_request *request)
{
    char key[OBJECT_KEY_MAX_BYTES + 1], bytes[64];
    struct call_request copy = *request;
    struct buf source = {0};
    struct call *call;

    CHECK(previous->is_there && shard_key(&previous->at, range->path, key, NULL) == 0);
    buf_printf(&source, "/%s/", previous->at.part.bucket);
    sigv4_encode(&source, key, true);
    buf_append(&source, "", 1);
    copy.method = "PUT";
    copy.stall_ms = COPY_STALL_MS;
    copy.headers[0] = (struct sigv4_header){"x-amz-copy-source", (const char *)source.bytes};
    if (range->length > 0) {
        snprintf(bytes, sizeof(bytes), "bytes=%llu-%llu", (unsigned long long)range->offset,
                 (unsigned long long)(range->offset + range->length - 1));
        copy.headers[1] = (struct sigv4_header){"x-amz-copy-source-range", bytes};
    }
    call = call_new(client, &copy);
    buf_close(&source);
    return call;
}
