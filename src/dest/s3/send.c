/* Files on their way to the store. See send.h.
 *
 * Flow     send_files -> list_there (what is there already) -> for each file send_whole, or
 *          send_in_parts -> find_upload, send_part ..., complete_ready -> drain_slots.
 *          One thread reads and hashes a chunk while libcurl's connections empty their buffers into
 *          the network: between two chunks the client is stepped.
 * Shapes   a slot is a buffer and the PUT that reads from it; buffers are kept for the next one.
 */
#include "src/dest/s3/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/dest/fault.h"
#include "src/dest/sha256.h"
#include "src/dest/source.h"

/* A file that is sent in parts. */
struct upload {
    struct list node; /* in sending.uploads, until it is completed */
    struct manifest_entry *entry;
    char key[OBJECT_KEY_MAX_BYTES + 1];
    char id[OBJECT_UPLOAD_ID_BYTES];
    char (*etags)[CALL_ETAG_BYTES]; /* "": not there yet */
    size_t part_count, left;        /* left: to be sent or on their way */
    uint64_t part_bytes;
};

/* A PUT on its way. */
struct slot {
    struct sending *sending;
    struct upload *upload; /* NULL: a whole file */
    size_t part;           /* from 0 on */
    uint8_t *bytes;
    size_t length, capacity;
    bool is_busy;
};

/* The whole of it. */
struct sending {
    const struct send_request *request;
    struct manifest there;  /* the folder's objects */
    struct buf old_uploads; /* key, id, key, id ... each with its terminator */
    struct sha256 sha256;
    struct list uploads;
    struct slot slots[SEND_CALLS_MAX];
    size_t busy;
    uint64_t busy_bytes;
    bool failed;
    struct err err;
};

/* What failed first is told; what fails after it is mostly a consequence. */
static void sending_fail(struct sending *sending, const struct err *why)
{
    if (!sending->failed)
        sending->err = *why;
    sending->failed = true;
}

/* ---- reading ---- */

static int read_range(int fd, const char *path, uint64_t offset, uint8_t *bytes, size_t length,
                      struct err *err)
{
    while (length > 0) {
        ssize_t got = pread(fd, bytes, length, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_set(err, "read", path);
        if (got == 0)
            return err_set(err, ERR_CORRUPT,
                           "%s became shorter after the application had said done", path);
        bytes += got;
        offset += (uint64_t)got;
        length -= (size_t)got;
    }
    return 0;
}

/* The chunks that these bytes are, from the first one on. */
static void hash_chunks(struct sha256 *sha256, struct manifest_entry *entry, size_t first,
                        const uint8_t *bytes, size_t length)
{
    uint8_t digest[SHA256_BYTES];

    for (size_t at = 0, chunk = first; at < length || at == 0; chunk++) {
        size_t piece = (size_t)manifest_chunk_bytes(entry, chunk);

        CHECK(at + piece <= length);
        sha256_start(sha256);
        sha256_update(sha256, bytes + at, piece);
        sha256_finish(sha256, digest);
        manifest_chunk_set(entry, chunk, digest);
        at += piece;
        if (piece == 0)
            return;
    }
}

/* What is in the store already is hashed only. */
static int hash_range(struct sha256 *sha256, int fd, struct manifest_entry *entry, size_t chunk,
                      uint8_t *buffer, struct err *err)
{
    size_t length = (size_t)manifest_chunk_bytes(entry, chunk);

    if (read_range(fd, entry->path, (uint64_t)chunk * MANIFEST_CHUNK_BYTES, buffer, length, err) !=
        0)
        return -1;
    hash_chunks(sha256, entry, chunk, buffer, length);
    return 0;
}

static int hash_file(struct sha256 *sha256, int fd, struct manifest_entry *entry, struct err *err)
{
    size_t count = entry->chunk_count > 0 ? entry->chunk_count : 1;
    uint8_t *buffer = check_alloc((size_t)manifest_chunk_bytes(entry, 0) + 1);
    int result = 0;

    for (size_t i = 0; i < count && result == 0; i++)
        result = hash_range(sha256, fd, entry, i, buffer, err);
    free(buffer);
    return result;
}

/* ---- slots ---- */

static void upload_free(struct upload *upload)
{
    list_remove(&upload->node);
    free(upload->etags);
    free(upload);
}

/* The buffer is free for the next file when the store has answered, not when the last byte was
 * sent: until then a new try may need it again. */
static void slot_done(void *data, struct call *call)
{
    struct slot *slot = data;
    struct sending *sending = slot->sending;
    const struct call_result *result = call_result(call);

    if (result->outcome != 0) {
        sending_fail(sending, &result->err);
    } else if (slot->upload != NULL) {
        memcpy(slot->upload->etags[slot->part], result->etag, CALL_ETAG_BYTES);
        CHECK(slot->upload->left > 0);
        slot->upload->left--;
    }
    slot->is_busy = false;
    sending->busy--;
    sending->busy_bytes -= slot->length;
    call_free(call);
}

/* One with room for so many bytes. NULL: sending has failed. Memory is bounded by bytes, and
 * connections by number: small files are many at a time, chunks are four. A file part that is
 * larger than all of it goes alone. */
static struct slot *take_slot(struct sending *sending, size_t length)
{
    struct slot *slot = sending->slots;

    while (sending->busy == SEND_CALLS_MAX ||
           (sending->busy > 0 && sending->busy_bytes + length > SEND_BYTES_MAX))
        client_step(sending->request->client);
    if (sending->failed)
        return NULL;
    while (slot->is_busy)
        slot++;
    if (slot->capacity < length) {
        free(slot->bytes);
        slot->bytes = check_alloc(length);
        slot->capacity = length;
    }
    slot->sending = sending;
    slot->length = length;
    return slot;
}

/* A step at once lets the first bytes leave while the next file is read. */
static void start_slot(struct slot *slot, const char *key, const char *query, const char *sha256)
{
    struct sending *sending = slot->sending;
    const struct call_request request = {.method = "PUT",
                                         .bucket = sending->request->at->part.bucket,
                                         .key = key,
                                         .query = query,
                                         .body = slot->bytes,
                                         .body_bytes = slot->length,
                                         .body_sha256 = sha256};

    slot->is_busy = true;
    sending->busy++;
    sending->busy_bytes += slot->length;
    call_start(call_new(sending->request->client, &request), slot_done, slot);
    client_step(sending->request->client);
}

/* Also after a failure: what is on its way reads from buffers of ours. */
static void drain_slots(struct sending *sending)
{
    while (sending->busy > 0)
        client_step(sending->request->client);
}

/* ---- whole files ---- */

/* One PUT; the store has it whole or not at all. */
static int send_whole(struct sending *sending, int fd, struct manifest_entry *entry,
                      const char *key, struct err *err)
{
    struct slot *slot = take_slot(sending, (size_t)entry->size_bytes);
    char hex[SHA256_HEX_BYTES];

    if (slot == NULL)
        return 0;
    if (read_range(fd, entry->path, 0, slot->bytes, slot->length, err) != 0)
        return -1;
    hash_chunks(&sending->sha256, entry, 0, slot->bytes, slot->length);
    slot->upload = NULL;
    start_slot(slot, key, NULL, sha256_format(manifest_chunk_hash(entry, 0), hex));
    return 0;
}

/* ---- files in parts ---- */

/* All parts but the last are of one size, which is what lets a part that is found there be taken
 * for ours by its number and size. */
static uint64_t bytes_of_part(const struct upload *upload, size_t part)
{
    uint64_t begin = part * upload->part_bytes;
    uint64_t left = upload->entry->size_bytes - begin;

    return left < upload->part_bytes ? left : upload->part_bytes;
}

/* What a killed put has brought there. */
static void note_part(void *data, const struct object_part *part)
{
    struct upload *upload = data;
    size_t index = part->number - 1;

    if (index >= upload->part_count || bytes_of_part(upload, index) != part->size_bytes ||
        part->etag[0] == '\0')
        return;
    if (upload->etags[index][0] == '\0' && upload->left > 0)
        upload->left--;
    memcpy(upload->etags[index], part->etag, CALL_ETAG_BYTES);
}

/* Only what has the number and the size of a part of ours is taken for one. */
static int list_parts(struct sending *sending, struct upload *upload, struct err *err)
{
    const struct object_upload asked = {sending->request->at->part.bucket, upload->key, upload->id};

    return object_list_parts(sending->request->client, &asked, note_part, upload, err);
}

/* An upload that a killed put began goes on. Where there are several of one key, each of a try
 * whose answer was lost, the first in the list is as good as any; the others are aborted when
 * the shard stands. */
static int find_upload(struct sending *sending, struct upload *upload, struct err *err)
{
    const char *bucket = sending->request->at->part.bucket;
    const struct buf *old = &sending->old_uploads;

    for (size_t at = 0; at < old->length;) {
        const char *key = (const char *)old->bytes + at;
        const char *id = key + strlen(key) + 1;

        at += strlen(key) + strlen(id) + 2;
        if (strcmp(key, upload->key) != 0)
            continue;
        memcpy(upload->id, id, strlen(id) + 1);
        return list_parts(sending, upload, err);
    }
    return object_create_upload(sending->request->client, bucket, upload->key, upload->id, err);
}

/* As many chunks to a part as the limit of parts asks for: one up to 156 GiB. */
static struct upload *upload_new(struct sending *sending, struct manifest_entry *entry,
                                 const char *key)
{
    struct upload *upload = check_calloc(1, sizeof(*upload));
    size_t chunks = (entry->chunk_count + OBJECT_PARTS_MAX - 1) / OBJECT_PARTS_MAX;

    upload->entry = entry;
    memcpy(upload->key, key, strlen(key) + 1);
    upload->part_bytes = (uint64_t)chunks * MANIFEST_CHUNK_BYTES;
    upload->part_count = (entry->chunk_count + chunks - 1) / chunks;
    upload->left = upload->part_count;
    upload->etags = check_calloc(upload->part_count, sizeof(*upload->etags));
    list_push_back(&sending->uploads, &upload->node);
    return upload;
}

/* Read and hashed in any case, since the manifest needs all hashes; sent where it is not there
 * yet. */
static int send_part(struct sending *sending, int fd, struct upload *upload, size_t part,
                     struct err *err)
{
    size_t chunks = (size_t)(upload->part_bytes / MANIFEST_CHUNK_BYTES);
    size_t length = (size_t)bytes_of_part(upload, part);
    bool is_there = upload->etags[part][0] != '\0';
    struct slot *slot = take_slot(sending, length);
    struct buf query = {0};
    char hex[SHA256_HEX_BYTES];

    if (slot == NULL)
        return 0;
    if (read_range(fd, upload->entry->path, part * upload->part_bytes, slot->bytes, length, err) !=
        0)
        return -1;
    hash_chunks(&sending->sha256, upload->entry, part * chunks, slot->bytes, length);
    if (is_there)
        return 0;
    slot->upload = upload;
    slot->part = part;
    object_part_query(&query, (unsigned)part + 1, upload->id);
    start_slot(slot, upload->key, (const char *)query.bytes,
               chunks > 1 ? NULL : sha256_format(manifest_chunk_hash(upload->entry, part), hex));
    buf_close(&query);
    return 0;
}

/* An answer without an ETag: the list of parts has it. */
static int fill_etags(struct sending *sending, struct upload *upload, struct err *err)
{
    for (size_t i = 0; i < upload->part_count; i++) {
        if (upload->etags[i][0] == '\0')
            return list_parts(sending, upload, err);
    }
    return 0;
}

/* An upload is completed as soon as its last part is there, so that few are open at a time.
 * Others go on while the store answers. */
static int complete_ready(struct sending *sending, struct err *err)
{
    struct list *next;

    for (struct list *node = sending->uploads.next; node != &sending->uploads; node = next) {
        struct upload *upload = LIST_ITEM(node, struct upload, node);
        const struct object_whole whole = {upload->id, upload->etags, upload->part_count,
                                           upload->entry->size_bytes};

        next = node->next;
        if (upload->left > 0)
            continue;
        if (fill_etags(sending, upload, err) != 0 ||
            object_complete_upload(sending->request->client, sending->request->at->part.bucket,
                                   upload->key, &whole, err) != 0)
            return -1;
        next = node->next; /* others may have come or gone meanwhile */
        upload_free(upload);
    }
    return 0;
}

/* The upload counts one part more than there are until all were read, so that it cannot be
 * completed too early. */
static int send_in_parts(struct sending *sending, int fd, struct manifest_entry *entry,
                         const char *key, struct err *err)
{
    struct upload *upload = upload_new(sending, entry, key);
    size_t part_count = upload->part_count;

    if (find_upload(sending, upload, err) != 0)
        return -1;
    upload->left++; /* not ready while its parts are still read */
    for (size_t i = 0; i < part_count && !sending->failed; i++) {
        if (send_part(sending, fd, upload, i, err) != 0 || complete_ready(sending, err) != 0)
            return -1;
    }
    upload->left--;
    return complete_ready(sending, err);
}

/* ---- all ---- */

/* What a killed put of the same source has brought there is of the same bytes. */
static bool is_there(const struct sending *sending, const struct manifest_entry *entry)
{
    size_t low = 0, high = sending->there.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(sending->there.entries[middle].path, entry->path);

        if (order == 0)
            return sending->there.entries[middle].size_bytes == entry->size_bytes;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* The file is looked at again after it was read: one that was written meanwhile is refused,
 * whatever was sent of it. */
static int send_file(struct sending *sending, struct manifest_entry *entry, struct err *err)
{
    const struct send_request *request = sending->request;
    char key[OBJECT_KEY_MAX_BYTES + 1];
    int fd, result;

    if (shard_key(request->at, entry->path, key, err) != 0)
        return -1;
    fd = source_open_file(request->source, request->label, entry, err);
    if (fd < 0)
        return -1;
    if (is_there(sending, entry))
        result = hash_file(&sending->sha256, fd, entry, err);
    else if (entry->chunk_count > 0)
        result = send_in_parts(sending, fd, entry, key, err);
    else
        result = send_whole(sending, fd, entry, key, err);
    if (source_check_file(fd, entry, err) != 0)
        result = -1;
    close(fd);
    return result;
}

/* In the order of the list, which is that of keys and then of the uploads' beginnings. */
static int note_upload(void *data, const char *key, const char *upload_id, struct err *err)
{
    struct sending *sending = data;

    (void)err;
    buf_append(&sending->old_uploads, key, strlen(key) + 1);
    buf_append(&sending->old_uploads, upload_id, strlen(upload_id) + 1);
    return 0;
}

/* Of a folder that nobody has written to both lists are empty, and cost two requests. */
static int list_there(struct sending *sending, struct err *err)
{
    const struct send_request *request = sending->request;
    char key[OBJECT_KEY_MAX_BYTES + 1];
    bool has_manifest;

    if (shard_key(request->at, "", key, err) != 0 ||
        shard_list(request->client, request->at, &sending->there, &has_manifest, err) != 0)
        return -1;
    if (object_list_uploads(request->client, request->at->part.bucket, key, note_upload, sending,
                            err) != 0)
        return -1;
    *request->ret_resumed = sending->there.count > 0 || sending->old_uploads.length > 0;
    return 0;
}

static void sending_close(struct sending *sending)
{
    drain_slots(sending);
    while (!list_empty(&sending->uploads))
        upload_free(LIST_ITEM(sending->uploads.next, struct upload, node));
    for (size_t i = 0; i < SEND_CALLS_MAX; i++)
        free(sending->slots[i].bytes);
    manifest_close(&sending->there);
    buf_close(&sending->old_uploads);
    sha256_close(&sending->sha256);
}

int send_files(const struct send_request *request, struct manifest *manifest, struct err *err)
{
    struct sending sending = {.request = request};
    struct err why = {0};
    int result = list_there(&sending, err);

    if (result != 0)
        return -1;
    list_init(&sending.uploads);
    sha256_init(&sending.sha256);
    for (size_t i = 0; i < manifest->count && !sending.failed; i++) {
        if (!manifest->entries[i].is_directory &&
            send_file(&sending, &manifest->entries[i], &why) != 0)
            sending_fail(&sending, &why);
    }
    drain_slots(&sending);
    if (!sending.failed && complete_ready(&sending, &why) != 0)
        sending_fail(&sending, &why);
    sending_close(&sending);
    return sending.failed ? err_set(err, sending.err.code, "%s", sending.err.text) : 0;
}
