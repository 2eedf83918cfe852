/* Files on their way to the store. See send.h.
 *
 * Flow     send_files -> list_there (what is there already) -> for each file send_whole, or
 *          send_in_parts -> send_part ..., finish_ready -> drain_slots.
 *          Of a file that the previous shard has, nothing leaves while its chunks are the same:
 *          after the last one it is copied as a whole; at the first that differs the upload begins,
 *          and those before it are copied as parts (hold_back, copy_parts). After a copy that
 *          failed there are no others, and what it was of is read again and sent.
 *          One thread reads and hashes a chunk while libcurl's connections empty their buffers into
 *          the network: between two chunks the client is stepped.
 * Shapes   a slot is a buffer and the PUT that reads from it; buffers are kept for the next one.
 */
#include "src/dest/s3/send.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/base/list.h"
#include "src/dest/copy.h"
#include "src/dest/fault.h"
#include "src/dest/pace.h"
#include "src/dest/s3/buffers.h"
#include "src/dest/s3/upload.h"
#include "src/dest/s3/xml.h"
#include "src/dest/sha256_pair.h"
#include "src/dest/source.h"

/* Copies without a buffer that are on their way at a time; what a store copies at once. */
enum { COPIES_MAX = 16 };
#define COPY_MAX_BYTES (UINT64_C(5) << 30)

/* What bytes are read for. */
enum purpose {
    TO_HASH_AND_SEND,
    TO_HASH, /* the store has them, and the manifest needs their hash */
    TO_SEND  /* the manifest has their hash, from an earlier reading */
};

/* Bytes in memory: read, then hashed, then a PUT on its way. */
struct slot {
    struct sending *sending;
    struct manifest_entry *entry;
    size_t chunk;          /* of the entry, and the part of the upload, from 0 on */
    struct upload *upload; /* NULL: a whole file */
    enum purpose purpose;
    bool is_copy; /* the call on its way has the store copy these bytes */
    struct buffer buffer;
    size_t length;
    uint64_t started_us; /* its PUT */
    bool is_busy;
};

/* Hashed together; and what is quick and slow of a chunk's answer (send_window). */
enum { READ_MAX = 2, QUICK_US = 2000000, SLOW_US = 4000000 };

/* The whole of it. */
struct sending {
    const struct send_request *request;
    struct manifest there; /* the folder's objects */
    struct uploads uploads;
    struct buffers buffers;
    struct slot slots[SEND_CALLS_MAX];
    struct slot *read[READ_MAX]; /* and not hashed yet */
    size_t read_count;
    size_t busy;
    uint64_t busy_bytes, window_bytes;
    size_t copying; /* without a buffer, all files together */
    bool may_copy;  /* no copy has failed */
    struct send_result result;
    bool failed;
    struct err err;
};

uint64_t send_window(uint64_t bytes, uint64_t took_us)
{
    if (bytes == 0)
        return SEND_BYTES_MAX / 2;
    if (took_us < QUICK_US && bytes + MANIFEST_CHUNK_BYTES <= SEND_BYTES_MAX)
        return bytes + MANIFEST_CHUNK_BYTES;
    if (took_us > SLOW_US && bytes >= (READ_MAX + 1) * (uint64_t)MANIFEST_CHUNK_BYTES)
        return bytes - MANIFEST_CHUNK_BYTES;
    return bytes;
}

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

/* ---- slots ---- */

static void release_slot(struct slot *slot)
{
    buffers_give(&slot->sending->buffers, &slot->buffer);
    slot->is_busy = false;
    slot->sending->busy--;
    slot->sending->busy_bytes -= slot->length;
}

/* ---- copies ---- */

/* What may be copied of a file as it is written now; NULL: nothing. */
static const struct manifest_entry *find_earlier(const struct sending *sending,
                                                 const struct manifest_entry *entry)
{
    return sending->may_copy ? previous_find(sending->request->previous, entry) : NULL;
}

/* What an earlier put of the same source had brought there may have been copied as well: the
 * higher number is the safe one. */
static void note_copied(struct sending *sending, struct manifest_entry *entry, uint64_t bytes)
{
    const struct manifest_entry *earlier = previous_find(sending->request->previous, entry);

    if (earlier != NULL)
        entry->generation = earlier->generation + 1;
    sending->result.saved_bytes += bytes;
}

static int take_etag(void *data, const char *path, const char *text)
{
    if (strcmp(path, "CopyPartResult/ETag") == 0 || strcmp(path, "CopyObjectResult/ETag") == 0)
        snprintf(data, CALL_ETAG_BYTES, "%s", text);
    return 0;
}

/* It is in the answer's text: without it a copy has failed, whatever its status says, which may
 * have been sent before the copy was begun. */
static bool copy_succeeded(const struct call *call, char ret_etag[CALL_ETAG_BYTES])
{
    const struct buf *answer = call_answer(call);

    ret_etag[0] = '\0';
    if (call_result(call)->outcome != 0)
        return false;
    (void)xml_read(answer->bytes, answer->length, take_etag, ret_etag, NULL);
    return ret_etag[0] != '\0';
}

/* One that failed, of a whole file: the store may carry it out over what is sent to the same key
 * instead, and what it copies from may have rotted since. A part that comes late has another ETag
 * than the one that the upload's end names. */
static bool fail_late(struct sending *sending, const struct call *call)
{
    const struct call_result *result = call_result(call);
    struct err err = {0};

    if (result->outcome != 0 && !result->may_come)
        return false;
    err_set(&err, ERR_BUSY, "a copy has failed that the store may carry out yet");
    sending->result.late_copy = true;
    sending_fail(sending, &err);
    return true;
}

/* A copy of parts or of all of a file, whose bytes are in no buffer. */
struct copy {
    struct sending *sending;
    struct upload *upload;
    size_t part;
    bool is_whole;
    uint64_t bytes;
};

static void copy_done(void *data, struct call *call)
{
    struct copy *copy = data;
    struct upload *upload = copy->upload;
    struct sending *sending = copy->sending;
    char etag[CALL_ETAG_BYTES];

    sending->copying--;
    upload->copying--;
    if (!copy_succeeded(call, etag)) {
        sending->may_copy = false;
        upload->copy_failed = true;
        if (copy->is_whole)
            (void)fail_late(sending, call);
    } else {
        note_copied(sending, upload->entry, copy->bytes);
        if (copy->is_whole)
            upload->left = 0;
        else
            upload_part_done(upload, copy->part, etag);
    }
    free(copy);
    call_free(call);
}

static void start_copy(struct sending *sending, struct upload *upload, size_t part, bool is_whole)
{
    struct client *client = sending->request->client;
    struct copy *copy = check_calloc(1, sizeof(*copy));
    struct call_request request = {.bucket = sending->request->at->part.bucket, .key = upload->key};
    struct previous_range range = {.path = upload->entry->path};
    struct buf query = {0};

    *copy = (struct copy){sending, upload, part, is_whole, upload->entry->size_bytes};
    if (!is_whole) {
        copy->bytes = range.length = manifest_chunk_bytes(upload->entry, part);
        range.offset = manifest_chunk_at(upload->entry, part);
        object_part_query(&query, (unsigned)part + 1, upload->id);
        request.query = (const char *)query.bytes;
    }
    upload->copying++;
    sending->copying++;
    call_start(previous_copy(sending->request->previous, client, &range, &request), copy_done,
               copy);
    client_move(client);
    buf_close(&query);
}

/* ---- one chunk ---- */

static void start_slot(struct slot *slot);

/* The buffer is free for the next file when the store has answered, not when the last byte was
 * sent: until then a new try may need it again. */
static void slot_done(void *data, struct call *call)
{
    struct slot *slot = data;
    struct sending *sending = slot->sending;
    const struct call_result *result = call_result(call);
    char etag[CALL_ETAG_BYTES];
    bool copied = slot->is_copy && copy_succeeded(call, etag);

    if (slot->is_copy && !copied) {
        bool is_late = slot->upload == NULL && fail_late(sending, call);

        call_free(call);
        sending->may_copy = false;
        if (is_late) {
            release_slot(slot);
            return;
        }
        start_slot(slot); /* its bytes are here */
        return;
    }
    if (result->outcome != 0) {
        sending_fail(sending, &result->err);
    } else {
        if (copied)
            note_copied(sending, slot->entry, slot->length);
        if (slot->upload != NULL)
            upload_part_done(slot->upload, slot->chunk, copied ? etag : result->etag);
        if (!copied && slot->length >= MANIFEST_CHUNK_BYTES)
            sending->window_bytes =
                send_window(sending->window_bytes, pace_clock_us() - slot->started_us);
    }
    release_slot(slot);
    call_free(call);
}

/* Whether the store has these very bytes at the same place of the previous shard's file. */
static bool is_same(const struct slot *slot)
{
    const struct manifest_entry *earlier = find_earlier(slot->sending, slot->entry);

    return earlier != NULL && previous_has(earlier, slot->entry, slot->chunk);
}

static struct call *copy_of_slot(const struct slot *slot, const struct call_request *request)
{
    const struct send_request *sent = slot->sending->request;
    struct previous_range range = {.path = slot->entry->path};

    if (slot->upload != NULL) {
        range.offset = manifest_chunk_at(slot->entry, slot->chunk);
        range.length = slot->length;
    }
    return previous_copy(sent->previous, sent->client, &range, request);
}

/* The call begins with the next step of the client. */
static void start_slot(struct slot *slot)
{
    struct sending *sending = slot->sending;
    char key[OBJECT_KEY_MAX_BYTES + 1], hex[SHA256_HEX_BYTES];
    struct call_request request = {
        .method = "PUT", .bucket = sending->request->at->part.bucket, .key = key};
    struct buf query = {0};

    CHECK(shard_key(sending->request->at, slot->entry->path, key, NULL) == 0);
    if (slot->upload != NULL) {
        object_part_query(&query, (unsigned)slot->chunk + 1, slot->upload->id);
        request.query = (const char *)query.bytes;
    }
    slot->is_copy = is_same(slot);
    if (!slot->is_copy) {
        request.body = slot->buffer.bytes;
        request.body_bytes = slot->length;
        request.body_sha256 = sha256_format(manifest_chunk_hash(slot->entry, slot->chunk), hex);
    }
    slot->started_us = pace_clock_us();
    call_start(slot->is_copy ? copy_of_slot(slot, &request)
                             : call_new(sending->request->client, &request),
               slot_done, slot);
    buf_close(&query);
}

/* ---- parts that are the same ---- */

/* One that goes on may hold parts that were copied. */
static int begin_upload(struct sending *sending, struct upload *upload, struct err *err)
{
    if (uploads_has(&sending->uploads, upload->key))
        note_copied(sending, upload->entry, 0);
    return upload_begin(upload, err);
}

/* The upload begins, and what was held back so far is copied into it. */
static void copy_parts(struct sending *sending, struct upload *upload)
{
    struct err why = {0};

    if (begin_upload(sending, upload, &why) != 0) {
        sending_fail(sending, &why);
        return;
    }
    for (size_t part = 0; part < upload->same && !sending->failed; part++) {
        while (sending->copying >= COPIES_MAX)
            client_step(sending->request->client);
        if (sending->may_copy)
            start_copy(sending, upload, part, false);
        else
            upload->copy_failed = true;
    }
}

/* True: the slot is done with. A part is held back as long as all of the file may be the same. */
static bool hold_back(const struct slot *slot)
{
    struct sending *sending = slot->sending;
    struct upload *upload = slot->upload;
    const struct manifest_entry *earlier;

    if (upload == NULL || upload->id[0] != '\0')
        return false;
    if (!is_same(slot)) {
        copy_parts(sending, upload);
        return sending->failed;
    }
    earlier = find_earlier(sending, upload->entry);
    upload->same++;
    CHECK(slot->chunk + 1 == upload->same);
    if (upload->same == upload->entry->chunk_count) {
        if (earlier->size_bytes == upload->entry->size_bytes &&
            earlier->size_bytes <= COPY_MAX_BYTES)
            start_copy(sending, upload, 0, true);
        else
            copy_parts(sending, upload);
    }
    return true;
}

/* ---- hashing ---- */

/* What was read and has no hash yet: one chunk, or two together (sha256_pair.h). */
static void hash_read(struct sending *sending)
{
    struct sha256_piece pieces[READ_MAX] = {{NULL, 0}};
    uint8_t digests[READ_MAX][SHA256_BYTES] = {{0}};
    struct slot *slots[READ_MAX];
    size_t count = 0;

    for (size_t i = 0; i < sending->read_count; i++) {
        struct slot *slot = sending->read[i];

        if (slot->purpose == TO_SEND)
            continue;
        pieces[count] = (struct sha256_piece){slot->buffer.bytes, slot->length};
        slots[count++] = slot;
    }
    if (count == READ_MAX)
        sha256_pair(pieces, digests);
    else if (count == 1)
        sha256_of(pieces[0].bytes, pieces[0].length, digests[0]);
    for (size_t i = 0; i < count; i++) {
        CHECK(slots[i]->chunk == slots[i]->entry->known_hashes);
        manifest_chunk_set(slots[i]->entry, slots[i]->chunk, digests[i]);
        slots[i]->entry->known_hashes++;
    }
}

static void send_read(struct sending *sending)
{
    hash_read(sending);
    for (size_t i = 0; i < sending->read_count; i++) {
        struct slot *slot = sending->read[i];

        if (slot->purpose == TO_HASH || sending->failed || hold_back(slot))
            release_slot(slot);
        else
            start_slot(slot);
    }
    sending->read_count = 0;
    client_move(sending->request->client); /* the first bytes leave while the next chunk is read */
}

/* Of chunks that are larger than the window's, some go at a time all the same: else nothing would
 * be read while one is sent. */
static bool has_room(const struct sending *sending, size_t length)
{
    size_t window_chunks = (size_t)(sending->window_bytes / MANIFEST_CHUNK_BYTES);

    return sending->busy < SEND_CALLS_MAX &&
           (sending->busy_bytes + length <= sending->window_bytes ||
            sending->busy < (window_chunks < SEND_LARGE_MAX ? window_chunks : SEND_LARGE_MAX));
}

/* One with room for so many bytes. NULL: sending has failed. Memory is bounded by bytes, and
 * connections by number: small files are many at a time, chunks are few. */
static struct slot *take_slot(struct sending *sending, size_t length)
{
    struct slot *slot = sending->slots;

    while (!has_room(sending, length)) {
        if (sending->read_count == sending->busy)
            send_read(sending);
        else
            client_step(sending->request->client); /* two are hashed faster than one and one */
    }
    if (sending->failed)
        return NULL;
    while (slot->is_busy)
        slot++;
    slot->sending = sending;
    slot->buffer = buffers_take(&sending->buffers, length);
    slot->length = length;
    slot->is_busy = true;
    sending->busy++;
    sending->busy_bytes += length;
    return slot;
}

/* A chunk that is to be read. */
struct piece {
    struct manifest_entry *entry;
    size_t chunk;
    struct upload *upload; /* NULL: the file is sent whole */
    enum purpose purpose;
};

static int read_piece(struct sending *sending, int fd, const struct piece *piece, struct err *err)
{
    uint64_t begin = manifest_chunk_at(piece->entry, piece->chunk);
    size_t length = (size_t)manifest_chunk_bytes(piece->entry, piece->chunk);
    struct slot *slot = take_slot(sending, length);

    if (slot == NULL)
        return 0;
    slot->entry = piece->entry;
    slot->chunk = piece->chunk;
    slot->upload = piece->upload;
    slot->purpose = piece->purpose;
    if (read_range(fd, piece->entry->path, begin, slot->buffer.bytes, length, err) != 0 ||
        (piece->purpose == TO_SEND && source_check_file(fd, piece->entry, err) != 0)) {
        release_slot(slot);
        return -1;
    }
    sending->read[sending->read_count++] = slot;
    if (sending->read_count == READ_MAX)
        send_read(sending);
    return 0;
}

/* Also after a failure: what is on its way reads from buffers of ours. */
static void drain_slots(struct sending *sending)
{
    while (sending->busy > 0 || sending->copying > 0) {
        if (sending->read_count > 0)
            send_read(sending);
        else
            client_step(sending->request->client);
    }
}

/* Of a chunk that is not in the store. */
static enum purpose purpose_of(const struct manifest_entry *entry, size_t chunk)
{
    return chunk < entry->known_hashes ? TO_SEND : TO_HASH_AND_SEND;
}

/* What is in the store already. */
static int hash_file(struct sending *sending, int fd, struct manifest_entry *entry, struct err *err)
{
    size_t count = entry->chunk_count > 0 ? entry->chunk_count : 1;
    int result = 0;

    for (size_t i = entry->known_hashes; i < count && result == 0 && !sending->failed; i++)
        result = read_piece(sending, fd,
                            &(struct piece){.entry = entry, .chunk = i, .purpose = TO_HASH}, err);
    return result;
}

/* One PUT; the store has it whole or not at all. */
static int send_whole(struct sending *sending, int fd, struct manifest_entry *entry,
                      struct err *err)
{
    return read_piece(sending, fd, &(struct piece){.entry = entry, .purpose = purpose_of(entry, 0)},
                      err);
}

/* ---- files in parts ---- */

/* Read and hashed also where it is there, since the manifest needs all hashes. */
static int send_part(struct sending *sending, int fd, struct upload *upload, size_t part,
                     struct err *err)
{
    struct piece piece = {.entry = upload->entry, .chunk = part, .upload = upload};
    bool is_there = upload->etags[part][0] != '\0';

    if (is_there && part < upload->entry->known_hashes)
        return 0;
    piece.purpose = is_there ? TO_HASH : purpose_of(upload->entry, part);
    return read_piece(sending, fd, &piece, err);
}

/* What could not be copied is read once more, and sent by the hash that it has: the store refuses
 * bytes that have become others. */
static int send_uncopied(struct sending *sending, struct upload *upload, struct err *err)
{
    const struct send_request *request = sending->request;
    int fd, result = 0;

    upload->copy_failed = false;
    if (upload->id[0] == '\0' && begin_upload(sending, upload, err) != 0)
        return -1;
    fd = source_open_file(request->source, request->label, upload->entry, err);
    if (fd < 0)
        return -1;
    for (size_t part = 0; part < upload->same && result == 0 && !sending->failed; part++) {
        if (upload->etags[part][0] == '\0')
            result = read_piece(
                sending, fd,
                &(struct piece){
                    .entry = upload->entry, .chunk = part, .upload = upload, .purpose = TO_SEND},
                err);
    }
    close(fd);
    return result;
}

/* An upload is completed as soon as its last part is there, so that few are open at a time.
 * Others go on while the store answers. */
static int finish_ready(struct sending *sending, struct err *err)
{
    struct list *next, *open = &sending->uploads.open;

    for (struct list *node = open->next; node != open; node = next) {
        struct upload *upload = LIST_ITEM(node, struct upload, node);

        if (!upload->is_reading && upload->copy_failed && upload->copying == 0 &&
            send_uncopied(sending, upload, err) != 0)
            return -1;
        next = node->next;
        if (upload->is_reading || upload->left > 0)
            continue;
        /* one that was copied as a whole was not begun */
        if (upload->id[0] != '\0' && upload_complete(upload, err) != 0)
            return -1;
        next = node->next; /* others may have come or gone meanwhile */
        upload_free(upload);
    }
    return 0;
}

/* The upload begins at once, but where all of the file may turn out to be the same. It cannot be
 * completed before all was read. */
static int send_in_parts(struct sending *sending, int fd, struct manifest_entry *entry,
                         const char *key, struct err *err)
{
    struct upload *upload = upload_new(&sending->uploads, entry, key);

    if ((find_earlier(sending, entry) == NULL || uploads_has(&sending->uploads, key)) &&
        begin_upload(sending, upload, err) != 0)
        return -1;
    upload->is_reading = true;
    for (size_t i = 0; i < entry->chunk_count && !sending->failed; i++) {
        if (send_part(sending, fd, upload, i, err) != 0 || finish_ready(sending, err) != 0)
            return -1;
    }
    upload->is_reading = false;
    return finish_ready(sending, err);
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
    if (is_there(sending, entry)) {
        note_copied(sending, entry, 0);
        result = hash_file(sending, fd, entry, err);
    } else if (entry->chunk_count > 0) {
        result = send_in_parts(sending, fd, entry, key, err);
    } else {
        result = send_whole(sending, fd, entry, err);
    }
    if (source_check_file(fd, entry, err) != 0)
        result = -1;
    close(fd);
    return result;
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
    if (uploads_list(&sending->uploads, key, err) != 0)
        return -1;
    sending->result.resumed = sending->there.count > 0 || sending->uploads.old.length > 0;
    return 0;
}

static void sending_close(struct sending *sending)
{
    drain_slots(sending);
    uploads_close(&sending->uploads);
    buffers_close(&sending->buffers);
    manifest_close(&sending->there);
}

/* Reading a file once more, after its copy failed, makes more to wait for. */
static int finish_all(struct sending *sending, struct err *err)
{
    drain_slots(sending);
    while (!sending->failed && !list_empty(&sending->uploads.open)) {
        if (finish_ready(sending, err) != 0)
            return -1;
        drain_slots(sending);
    }
    return 0;
}

int send_files(const struct send_request *request, struct manifest *manifest,
               struct send_result *ret_result, struct err *err)
{
    struct sending sending = {.request = request,
                              .uploads = {request->client, request->at->part.bucket},
                              .buffers = {.idle_max_bytes = SEND_BYTES_MAX},
                              .window_bytes = send_window(0, 0),
                              .may_copy = true};
    struct err why = {0};

    list_init(&sending.uploads.open);
    if (list_there(&sending, &why) != 0)
        sending_fail(&sending, &why);
    for (size_t i = 0; i < manifest->count && !sending.failed; i++) {
        if (!manifest->entries[i].is_directory &&
            send_file(&sending, &manifest->entries[i], &why) != 0)
            sending_fail(&sending, &why);
    }
    if (finish_all(&sending, &why) != 0)
        sending_fail(&sending, &why);
    sending_close(&sending);
    *ret_result = sending.result;
    return sending.failed ? err_set(err, sending.err.code, "%s", sending.err.text) : 0;
}
