/* Uploads in parts. See upload.h. */
#include "src/dest/s3/upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"

int uploads_list(struct uploads *uploads, const char *prefix, struct err *err)
{
    list_init(&uploads->open);
    return object_list_uploads(uploads->client, uploads->bucket, prefix, &uploads->old, err);
}

void uploads_close(struct uploads *uploads)
{
    while (!list_empty(&uploads->open))
        upload_free(LIST_ITEM(uploads->open.next, struct upload, node));
    buf_close(&uploads->old);
}

/* The id; NULL: there is none. Where there are several of one key, each of a try whose answer was
 * lost, the first in the list is as good as any; the others are aborted when the shard stands. */
static const char *find_old(const struct uploads *uploads, const char *key)
{
    const struct buf *old = &uploads->old;

    for (size_t at = 0; at < old->length;) {
        const char *old_key = (const char *)old->bytes + at;
        const char *id = old_key + strlen(old_key) + 1;

        if (strcmp(old_key, key) == 0)
            return id;
        at += strlen(old_key) + strlen(id) + 2;
    }
    return NULL;
}

bool uploads_has(const struct uploads *uploads, const char *key)
{
    return find_old(uploads, key) != NULL;
}

/* No store is known that takes fewer parts; what says so of less than the least is misread. */
enum { PARTS_SURE = 1000, PARTS_LEAST = 100 };

/* What a store says of a number that it does not take: "InvalidArgument: Part number must be an
 * integer between 1 and 1000, inclusive". 0: it has refused something else. */
static size_t parts_of_refusal(const struct err *why)
{
    static const char before[] = "between 1 and ";
    const char *at = strstr(why->text, before);
    unsigned long number = at == NULL ? 0 : strtoul(at + strlen(before), NULL, 10);

    if (at == NULL && strstr(why->text, "InvalidArgument") == NULL &&
        strstr(why->text, "InvalidPart") == NULL)
        return 0;
    return number >= PARTS_LEAST && number < OBJECT_PARTS_MAX ? number : PARTS_SURE;
}

/* Only a number that is refused is an answer; all else is a failure like another one. */
static int ask_parts(struct client *client, const struct upload_place *place, const char *upload_id,
                     size_t *ret_parts_max, struct err *err)
{
    static const uint8_t byte[1] = {0};
    struct call_request request = {.method = "PUT",
                                   .bucket = place->bucket,
                                   .key = place->key,
                                   .body = byte,
                                   .body_bytes = sizeof(byte)};
    struct buf query = {0};
    struct err why = {0};
    struct call *call;

    object_part_query(&query, OBJECT_PARTS_MAX, upload_id);
    request.query = (const char *)query.bytes;
    call = call_new(client, &request);
    *ret_parts_max = 0;
    if (call_run(client, call, &why) == 0)
        *ret_parts_max = OBJECT_PARTS_MAX;
    else if (call_result(call)->status == 400)
        *ret_parts_max = parts_of_refusal(&why);
    call_free(call);
    buf_close(&query);
    return *ret_parts_max > 0 ? 0 : err_set(err, why.code, "%s", why.text);
}

bool upload_must_ask(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (manifest_chunk_count(manifest->entries[i].size_bytes, MANIFEST_CHUNK_BYTES) >
            PARTS_SURE)
            return true;
    return false;
}

int upload_parts_max(struct client *client, const struct upload_place *place,
                     const struct manifest *manifest, size_t *ret_parts_max, struct err *err)
{
    char upload_id[OBJECT_UPLOAD_ID_BYTES];
    struct err ignored = {0};
    int result;

    *ret_parts_max = PARTS_SURE;
    if (!upload_must_ask(manifest))
        return 0;
    if (object_create_upload(client, place->bucket, place->key, upload_id, err) != 0)
        return -1;
    result = ask_parts(client, place, upload_id, ret_parts_max, err);
    (void)object_abort_upload(client, place->bucket, place->key, upload_id, &ignored);
    return result;
}

/* Twice as large each time: a file that grows has its chunks where they were, which the store then
 * copies, but for the few sizes at which they double. */
static uint64_t least_chunk(uint64_t size_bytes, size_t parts_max)
{
    uint64_t chunk_bytes = MANIFEST_CHUNK_BYTES;

    while (chunk_bytes <= MANIFEST_CHUNK_MAX_BYTES &&
           manifest_chunk_count(size_bytes, chunk_bytes) > parts_max)
        chunk_bytes *= 2;
    return chunk_bytes;
}

int upload_cut(struct manifest *manifest, size_t parts_max, struct err *err)
{
    CHECK(parts_max > 1);
    for (size_t i = 0; i < manifest->count; i++) {
        struct manifest_entry *entry = &manifest->entries[i];
        uint64_t chunk_bytes = least_chunk(entry->size_bytes, parts_max);

        if (entry->is_directory)
            continue;
        if (chunk_bytes > MANIFEST_CHUNK_MAX_BYTES)
            return err_set(
                err, ERR_UNFIT,
                "\"%s\" has %llu bytes, and the store takes %zu parts of an object, which "
                "are of 1 GiB at most: write it as several files, or have the store take "
                "more parts (Swift: max_upload_part_num of s3api)",
                entry->path, (unsigned long long)entry->size_bytes, parts_max);
        manifest_cut(entry, chunk_bytes);
    }
    return 0;
}

struct upload *upload_new(struct uploads *uploads, struct manifest_entry *entry, const char *key)
{
    struct upload *upload = check_calloc(1, sizeof(*upload));

    CHECK(entry->chunk_count > 0 && entry->chunk_count <= OBJECT_PARTS_MAX);
    upload->of = uploads;
    upload->entry = entry;
    snprintf(upload->key, sizeof(upload->key), "%s", key);
    upload->left = entry->chunk_count;
    upload->etags = check_calloc(entry->chunk_count, sizeof(*upload->etags));
    list_push_back(&uploads->open, &upload->node);
    return upload;
}

void upload_free(struct upload *upload)
{
    list_remove(&upload->node);
    free(upload->etags);
    free(upload);
}

/* What a killed put has brought there. A part that is not of our number and size is none of ours:
 * it is written over, or left out at the end. */
static void note_part(void *data, const struct object_part *part)
{
    struct upload *upload = data;
    size_t index = part->number - 1;

    if (index >= upload->entry->chunk_count || part->etag[0] == '\0' ||
        manifest_chunk_bytes(upload->entry, index) != part->size_bytes)
        return;
    if (upload->etags[index][0] == '\0' && upload->left > 0)
        upload->left--;
    snprintf(upload->etags[index], CALL_ETAG_BYTES, "%s", part->etag);
}

static int list_parts(struct upload *upload, struct err *err)
{
    const struct object_upload asked = {upload->of->bucket, upload->key, upload->id};

    return object_list_parts(upload->of->client, &asked, note_part, upload, err);
}

int upload_begin(struct upload *upload, struct err *err)
{
    const struct uploads *of = upload->of;
    const char *id = find_old(of, upload->key);

    if (id == NULL)
        return object_create_upload(of->client, of->bucket, upload->key, upload->id, err);
    snprintf(upload->id, sizeof(upload->id), "%s", id);
    return list_parts(upload, err);
}

void upload_part_done(struct upload *upload, size_t part, const char *etag)
{
    CHECK(part < upload->entry->chunk_count && upload->left > 0);
    snprintf(upload->etags[part], CALL_ETAG_BYTES, "%s", etag);
    upload->left--;
}

/* An answer without an ETag: the list of parts has it. */
static int fill_etags(struct upload *upload, struct err *err)
{
    for (size_t i = 0; i < upload->entry->chunk_count; i++) {
        if (upload->etags[i][0] == '\0')
            return list_parts(upload, err);
    }
    return 0;
}

int upload_complete(struct upload *upload, struct err *err)
{
    const struct object_whole whole = {upload->id, upload->etags, upload->entry->chunk_count,
                                       upload->entry->size_bytes};

    CHECK(upload->left == 0);
    if (fill_etags(upload, err) != 0)
        return -1;
    return object_complete_upload(upload->of->client, upload->of->bucket, upload->key, &whole, err);
}
