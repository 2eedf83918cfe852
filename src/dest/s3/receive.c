/* Chunks on their way here. See receive.h.
 *
 * Flow     receive_files -> for each chunk ask_chunk ... range_came, until all have -> give_pair ->
 *          check_pair, by a thread -> pair_done -> file_end, by a thread, after a file's last
 *          chunk. One whose bytes are wrong is asked for once more.
 *          Two chunks are hashed at a time (sha256_pair.h): one that has come waits for the next
 *          one, unless nothing more is on its way.
 * Shapes   a slot is a chunk: asked for, come, or at a thread. Counts of what is left are the
 *          caller's thread's alone.
 */
#include "src/dest/s3/receive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/check.h"
#include "src/dest/copy.h"
#include "src/dest/crew.h"
#include "src/dest/s3/buffers.h"
#include "src/dest/sha256_pair.h"

/* Files that are made durable at a time: each is open, and files without bytes come as quickly as
 * they can be made. */
enum { ENDINGS_MAX = 64 };

/* A chunk on its way, and through the threads. Of two that go together the first has the task. */
struct slot {
    struct crew_task task;
    struct receiving *receiving;
    struct slot *partner; /* NULL: it goes alone */
    struct receive_chunk chunk;
    struct buffer buffer;
    size_t ranges; /* of the chunk, that have not come */
    bool is_busy, asked_again;
    int result;
    struct err why;
};

/* The end of a file. */
struct ending {
    struct crew_task task;
    struct receiving *receiving;
    const struct manifest_entry *entry;
    int result;
    struct err why;
};

struct receiving {
    const struct receive_request *request;
    struct crew *crew;
    size_t *left; /* chunks of each entry that are still to come */
    struct slot slots[RECEIVE_CHUNKS_MAX];
    struct slot *waiting; /* for a partner; NULL: none */
    struct buffers buffers;
    size_t busy; /* slots */
    size_t busy_bytes;
    size_t asked; /* of them, that have not come */
    size_t endings;
    bool failed;
    struct err err;
};

/* The first failure counts. No further chunk is asked for after it. */
static void receiving_fail(struct receiving *receiving, const struct err *why)
{
    if (!receiving->failed)
        receiving->err = *why;
    receiving->failed = true;
}

static size_t index_of(const struct receiving *receiving, const struct manifest_entry *entry)
{
    return (size_t)(entry - receiving->request->manifest->entries);
}

/* ---- the end of a file ---- */

static void end_file(struct crew_task *task)
{
    struct ending *ending = LIST_ITEM(task, struct ending, task);
    const struct receive_request *request = ending->receiving->request;

    ending->result = request->ops->end(request->data, ending->entry, &ending->why);
}

static void ending_done(struct crew_task *task)
{
    struct ending *ending = LIST_ITEM(task, struct ending, task);

    ending->receiving->endings--;
    if (ending->result != 0)
        receiving_fail(ending->receiving, &ending->why);
    free(ending);
}

static void give_ending(struct receiving *receiving, const struct manifest_entry *entry)
{
    struct ending *ending;

    if (receiving->request->ops == NULL)
        return;
    ending = check_calloc(1, sizeof(*ending));
    ending->receiving = receiving;
    ending->entry = entry;
    receiving->endings++;
    crew_give(receiving->crew, &ending->task, end_file, ending_done);
}

/* ---- chunks that have come ---- */

/* Compared before anything is done with it: the bytes went through the network, and perhaps
 * through a store that has lost some. */
static int check_chunk(const struct receiving *receiving, const struct receive_chunk *chunk,
                       const uint8_t digest[SHA256_BYTES], struct err *err)
{
    const struct receive_request *request = receiving->request;
    const struct shard_at *at = request->at;

    if (memcmp(digest, manifest_chunk_hash(chunk->entry, chunk->chunk), SHA256_BYTES) != 0)
        return err_set(err, ERR_CORRUPT,
                       "s3://%s/%s%s%s is not what was written: its bytes do not match the SHA-256 "
                       "in the manifest",
                       at->part.bucket, at->part.key, at->folder, chunk->entry->path);
    return request->ops == NULL ? 0 : request->ops->chunk(request->data, chunk, err);
}

static void check_pair(struct crew_task *task)
{
    struct slot *slot = LIST_ITEM(task, struct slot, task);
    struct slot *of[2] = {slot, slot->partner};
    uint8_t digests[2][SHA256_BYTES];

    if (slot->partner == NULL)
        sha256_of(slot->chunk.bytes, slot->chunk.length, digests[0]);
    else
        sha256_pair((const struct sha256_piece[2]){{slot->chunk.bytes, slot->chunk.length},
                                                   {of[1]->chunk.bytes, of[1]->chunk.length}},
                    digests);
    for (size_t i = 0; i < 2 && of[i] != NULL; i++)
        of[i]->result = check_chunk(slot->receiving, &of[i]->chunk, digests[i], &of[i]->why);
}

static void release_slot(struct slot *slot)
{
    buffers_give(&slot->receiving->buffers, &slot->buffer);
    slot->is_busy = false;
    slot->receiving->busy--;
    slot->receiving->busy_bytes -= slot->chunk.length;
}

static int ask_slot(struct slot *slot, struct err *err);

/* Bytes may have been damaged on their way here: a checkpoint is called damaged only when the store
 * gives the wrong ones twice. */
static void slot_done(struct slot *slot)
{
    struct receiving *receiving = slot->receiving;
    size_t *left = &receiving->left[index_of(receiving, slot->chunk.entry)];

    if (slot->result != 0 && slot->why.code == ERR_CORRUPT && !slot->asked_again &&
        !receiving->failed) {
        slot->asked_again = true;
        if (ask_slot(slot, &slot->why) == 0)
            return;
    }
    release_slot(slot);
    if (slot->result != 0)
        receiving_fail(receiving, &slot->why);
    else if (--*left == 0)
        give_ending(receiving, slot->chunk.entry);
}

static void pair_done(struct crew_task *task)
{
    struct slot *slot = LIST_ITEM(task, struct slot, task);
    struct slot *partner = slot->partner;

    slot_done(slot);
    if (partner != NULL)
        slot_done(partner);
}

static void give_pair(struct receiving *receiving, struct slot *slot, struct slot *partner)
{
    receiving->waiting = NULL;
    slot->partner = partner;
    crew_give(receiving->crew, &slot->task, check_pair, pair_done);
}

/* A chunk that failed is waited for as well: its ranges are written to its buffer. */
static void range_came(void *data, struct call *call)
{
    struct slot *slot = data;
    struct receiving *receiving = slot->receiving;
    const struct call_result *result = call_result(call);
    struct err why = result->err;

    if (result->outcome != 0) {
        if (why.code == ERR_NOT_FOUND)
            why.code = ERR_CORRUPT; /* it was in the list */
        receiving_fail(receiving, &why);
    }
    call_free(call);
    if (--slot->ranges > 0)
        return;
    receiving->asked--;
    if (receiving->failed) {
        release_slot(slot);
    } else if (receiving->waiting == NULL) {
        receiving->waiting = slot;
    } else {
        give_pair(receiving, receiving->waiting, slot);
    }
}

/* ---- asking ---- */

/* Moves what can be moved; waits for the network or the threads where nothing can. */
static void receiving_step(struct receiving *receiving)
{
    if (receiving->waiting != NULL && receiving->asked == 0)
        give_pair(receiving, receiving->waiting, NULL);
    client_step(receiving->request->client);
    crew_reap(receiving->crew);
}

/* When there is room for so many bytes. */
static struct slot *free_slot(struct receiving *receiving, size_t length)
{
    struct slot *slot = receiving->slots;

    while (receiving->busy == RECEIVE_CHUNKS_MAX ||
           (receiving->busy >= RECEIVE_CHUNKS_MIN &&
            receiving->busy_bytes + length > RECEIVE_BYTES_MAX))
        receiving_step(receiving);
    while (slot->is_busy)
        slot++;
    return slot;
}

/* A connection each, as a store may be fast only with many. */
static size_t range_length(size_t chunk_length)
{
    size_t length = (chunk_length + RECEIVE_RANGES_MAX - 1) / RECEIVE_RANGES_MAX;

    return length > MANIFEST_CHUNK_BYTES ? length : MANIFEST_CHUNK_BYTES;
}

/* A file without chunks is asked for as a whole: a range would be refused for some that are
 * empty, and says nothing more. */
static int ask_slot(struct slot *slot, struct err *err)
{
    struct receiving *receiving = slot->receiving;
    const struct receive_request *asked = receiving->request;
    const struct receive_chunk *chunk = &slot->chunk;
    char key[OBJECT_KEY_MAX_BYTES + 1], range[64];
    uint64_t begin = manifest_chunk_at(chunk->entry, chunk->chunk);
    const size_t length = range_length(chunk->length);
    struct call_request request = {
        .method = "GET", .bucket = asked->at->part.bucket, .key = key, .into_bytes = length};

    if (shard_key(asked->at, chunk->entry->path, key, err) != 0)
        return -1;
    receiving->asked++;
    slot->ranges = (chunk->length + length - 1) / length;
    for (size_t at = 0; at < chunk->length; at += length) {
        if (chunk->length - at < length)
            request.into_bytes = chunk->length - at;
        request.into = slot->buffer.bytes + at;
        snprintf(range, sizeof(range), "bytes=%llu-%llu", (unsigned long long)(begin + at),
                 (unsigned long long)(begin + at + request.into_bytes - 1));
        if (chunk->entry->chunk_count > 0)
            request.headers[0] = (struct sigv4_header){"range", range};
        call_start(call_new(asked->client, &request), range_came, slot);
    }
    return 0;
}

static int ask_chunk(struct receiving *receiving, const struct manifest_entry *entry, size_t chunk,
                     struct err *err)
{
    size_t length = (size_t)manifest_chunk_bytes(entry, chunk);
    struct slot *slot = free_slot(receiving, length);

    if (receiving->failed)
        return 0;
    slot->receiving = receiving;
    slot->asked_again = false;
    slot->buffer = buffers_take(&receiving->buffers, length);
    slot->chunk = (struct receive_chunk){entry, chunk, slot->buffer.bytes, length};
    slot->is_busy = true;
    receiving->busy++;
    receiving->busy_bytes += length;
    if (ask_slot(slot, err) == 0)
        return 0;
    release_slot(slot);
    return -1;
}

/* Which chunks come is known before the first is asked for. */
static size_t count_chunks(const struct receiving *receiving, size_t index)
{
    const struct manifest_entry *entry = &receiving->request->manifest->entries[index];
    const struct sample *sample = receiving->request->sample;
    size_t all = entry->chunk_count > 0 ? entry->chunk_count : 1, count = 0;

    if (sample == NULL)
        return all;
    for (size_t i = 0; i < all; i++)
        count += sample_takes(sample, index, i, entry->chunk_count);
    return count;
}

/* An empty file has nothing to be asked for; that its hash is that of nothing is seen all the
 * same. */
static int take_empty(struct receiving *receiving, const struct manifest_entry *entry,
                      struct err *err)
{
    static uint8_t nothing[1];
    const struct receive_chunk chunk = {.entry = entry, .bytes = nothing};
    uint8_t digest[SHA256_BYTES];

    sha256_of(nothing, 0, digest);
    if (check_chunk(receiving, &chunk, digest, err) != 0)
        return -1;
    give_ending(receiving, entry);
    return 0;
}

static int receive_entry(struct receiving *receiving, size_t index, struct err *err)
{
    const struct receive_request *request = receiving->request;
    const struct manifest_entry *entry = &request->manifest->entries[index];
    size_t count = entry->chunk_count > 0 ? entry->chunk_count : 1;

    receiving->left[index] = entry->is_directory ? 0 : count_chunks(receiving, index);
    if (receiving->left[index] == 0)
        return 0;
    while (receiving->endings >= ENDINGS_MAX)
        receiving_step(receiving);
    if (request->ops != NULL && request->ops->begin(request->data, entry, err) != 0)
        return -1;
    if (entry->size_bytes == 0)
        return take_empty(receiving, entry, err);
    for (size_t i = 0; i < count && !receiving->failed; i++) {
        if (request->sample != NULL && !sample_takes(request->sample, index, i, entry->chunk_count))
            continue;
        if (ask_chunk(receiving, entry, i, err) != 0)
            return -1;
    }
    return 0;
}

static void wake_client(void *data)
{
    client_wake(data);
}

/* Also after a failure: what is on its way, or at a thread, uses buffers of ours. */
static void drain_calls(struct receiving *receiving)
{
    while (receiving->busy > 0 || receiving->endings > 0)
        receiving_step(receiving);
}

int receive_files(const struct receive_request *request, struct err *err)
{
    struct receiving *receiving = check_calloc(1, sizeof(*receiving));
    const struct manifest *manifest = request->manifest;
    struct err why = {0};
    int result;

    receiving->request = request;
    receiving->buffers.idle_max_bytes = RECEIVE_BYTES_MAX;
    receiving->crew = crew_open(request->threads, wake_client, request->client);
    receiving->left = check_calloc(manifest->count + 1, sizeof(*receiving->left));
    for (size_t i = 0; i < manifest->count && !receiving->failed; i++) {
        if (receive_entry(receiving, i, &why) != 0)
            receiving_fail(receiving, &why);
    }
    drain_calls(receiving);
    result = receiving->failed ? err_set(err, receiving->err.code, "%s", receiving->err.text) : 0;
    crew_close(receiving->crew);
    buffers_close(&receiving->buffers);
    free(receiving->left);
    free(receiving);
    return result;
}
