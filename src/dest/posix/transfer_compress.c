/* Files that are stored compressed. See transfer_internal.h.
 *
 * Where a chunk lies in the stored file is known only when all before it are compressed. Threads
 * compress side by side, and each then waits until the chunk before its own has a place; since
 * chunks are handed out in their order, there is always one that waits for nobody.
 *
 *     there is nothing to take over    transfer_compress_chunk() of each chunk
 *     an earlier file of this size     transfer_compare_chunk() until one differs; where none does
 *                                      the file is linked, else another run compresses all of it,
 *                                      and hashes what was not yet
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/frame.h"
#include "src/dest/posix/transfer_internal.h"

/* Pieces of a large file that are tried, at even distances. */
enum { SAMPLES = 16 };

/* ---- does it pay? ---- */

static bool is_worth(uint64_t length, uint64_t stored)
{
    return stored <= length - length / 10;
}

/* A file system keeps whole blocks: in the last one nothing can be saved. Of 32 TiB and more the
 * longer lines might not fit into a MANIFEST. */
static bool may_compress(const struct transfer *transfer, const struct manifest_entry *entry)
{
    return transfer->compresses && entry->size_bytes > COPY_BLOCK_BYTES &&
           transfer->manifest->size_bytes / MANIFEST_CHUNK_BYTES < MANIFEST_MAX_BYTES / 128 &&
           manifest_compression_problem(transfer->manifest, entry) == NULL;
}

/* What cannot be read is told by who reads all of it. */
bool transfer_compresses(const struct transfer *transfer, const struct manifest_entry *entry,
                         int from)
{
    uint8_t sample[FRAME_SAMPLE_BYTES];
    uint64_t length = 0, stored = 0;

    CHECK(entry->chunk_count > 0);
    if (!may_compress(transfer, entry))
        return false;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        ssize_t got = pread(from, sample, sizeof(sample),
                            (off_t)(i * (entry->size_bytes - sizeof(sample)) / (SAMPLES - 1)));
        if (got <= 0)
            return false;
        length += (uint64_t)got;
        stored += frame_try(sample, (size_t)got);
    }
    return is_worth(length, stored);
}

/* ---- small files ---- */

int transfer_store_held(struct job *job, struct copier *copier, struct manifest_entry *entry,
                        int *ret_to, struct err *err)
{
    const struct transfer *transfer = job->transfer;
    const struct copy_range range = transfer_range(entry, 0);
    size_t stored = 0;

    if (may_compress(transfer, entry))
        stored = copy_compress(copier, (size_t)range.length);
    if (stored > 0 && is_worth(range.length, stored)) {
        manifest_make_frames(entry);
        entry->frame_ends[0] = stored;
    }
    *ret_to = transfer_open_to(transfer, entry, -1, err); /* a small one */
    if (*ret_to < 0)
        return -1;
    const struct copy_end to = {*ret_to, transfer->to.label};
    if (entry->frame_ends == NULL)
        return copy_release(copier, to, range, err);
    transfer_add_saved(job, range.length - stored);
    return copy_write_compressed(copier, to, (struct copy_range){0, stored}, err);
}

/* ---- as it was earlier? ---- */

static bool is_left(struct job *job, const struct large *large)
{
    bool again;

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    again = large->again;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return again;
}

static void leave_to_again(struct job *job, struct large *large)
{
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    large->again = true;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
}

int transfer_compare_chunk(struct job *job, struct copier *copier, const struct item *item,
                           int from, struct err *err)
{
    struct large *large = &job->larges[item->large];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];

    if (is_left(job, large))
        return 0;
    if (copy_range(copier, (struct copy_end){from, entry->path}, (struct copy_end){-1, NULL},
                   transfer_range(entry, item->chunk), entry->chunks[item->chunk], err) != 0)
        return -1;
    large->held[item->chunk] = true;
    if (memcmp(entry->chunks[item->chunk], large->earlier->chunks[item->chunk], SHA256_BYTES) != 0)
        leave_to_again(job, large);
    return 0;
}

int transfer_compare_finish(struct job *job, const struct item *item, const int fds[2],
                            struct err *err)
{
    struct large *large = &job->larges[item->large];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];

    if (!is_left(job, large) && !transfer_link_file(job, entry, large->earlier))
        leave_to_again(job, large);
    return transfer_finish_file(job, entry, fds, err);
}

/* ---- chunks of large files ---- */

/* -1: another chunk failed, and this is why. */
static int take_place(struct job *job, const struct item *item, size_t stored,
                      struct copy_range *ret_place, struct err *err)
{
    struct large *large = &job->larges[item->large];
    struct err why = {0};
    bool failed;

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    while (!large->failed && large->placed != item->chunk)
        CHECK(pthread_cond_wait(&job->turn, &job->lock) == 0);
    failed = large->failed;
    if (failed) {
        why = job->why;
    } else {
        *ret_place = (struct copy_range){large->end, stored};
        large->end += stored;
        job->transfer->manifest->entries[item->entry].frame_ends[item->chunk] = large->end;
        large->placed++;
        CHECK(pthread_cond_broadcast(&job->turn) == 0);
    }
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return failed ? err_set(err, why.code, "%s", why.text) : 0;
}

void transfer_give_up(struct job *job, const struct item *item, const struct err *why)
{
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    if (job->why.text[0] == '\0')
        job->why = *why;
    job->larges[item->large].failed = true;
    CHECK(pthread_cond_broadcast(&job->turn) == 0);
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
}

/* Storage writes while the next chunk is compressed. */
static void begin_write_out(int to, struct copy_range place)
{
    (void)sync_file_range(to, (off_t)place.offset, (off_t)place.length, SYNC_FILE_RANGE_WRITE);
}

int transfer_compress_chunk(struct job *job, struct copier *copier, const struct item *item,
                            const int fds[2], struct err *err)
{
    const struct large *large = &job->larges[item->large];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    const struct copy_range range = transfer_range(entry, item->chunk);
    bool hashed = large->held != NULL && large->held[item->chunk];
    struct copy_range place;

    if (copy_hold(copier, (struct copy_end){fds[0], entry->path}, range,
                  hashed ? NULL : entry->chunks[item->chunk], err) != 0 ||
        take_place(job, item, copy_compress(copier, (size_t)range.length), &place, err) != 0)
        return -1;
    transfer_note_spots(job->transfer, copier, entry, item->chunk, place);
    if (copy_write_compressed(copier, (struct copy_end){fds[1], job->transfer->to.label}, place,
                              err) != 0)
        return -1;
    transfer_keep_spots(job->transfer, copier, entry, item->chunk);
    begin_write_out(fds[1], place);
    return 0;
}

int transfer_compress_finish(struct job *job, const struct item *item, const int fds[2],
                             struct err *err)
{
    const struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    uint64_t stored = manifest_stored_bytes(entry);

    CHECK(job->larges[item->large].placed == entry->chunk_count);
    if (stored < entry->size_bytes)
        transfer_add_saved(job, entry->size_bytes - stored);
    return transfer_finish_file(job, entry, fds, err);
}
