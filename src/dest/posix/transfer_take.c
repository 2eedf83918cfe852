/* What has not changed is taken over. See transfer_internal.h.
 *
 * Whether a file is the same as it was earlier is known only when its last chunk is hashed. Until a
 * chunk turns out to be another one nothing of the file is written, and chunks are only noted as
 * held. Most that are others show it by one block, so that these are never held:
 *
 *     all chunks held      take_finish() links the earlier file
 *     a chunk differs      begin_writing(); from then on each chunk that is the same is cloned, or
 *                          written from memory, where its bytes still are
 *     the last one done    write_held(): those before the first difference are cloned, or read
 *                          once more; the source's stamps tell that they are those that were hashed
 */
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/posix/transfer_internal.h"

int transfer_take_small(struct job *job, struct copier *copier, struct manifest_entry *entry,
                        const struct manifest_entry *earlier, int from, struct err *err)
{
    const struct copy_range range = transfer_range(entry, 0);
    int fds[2] = {from, -1};

    if (copy_hold(copier, (struct copy_end){fds[0], entry->path}, range, entry->sha256, err) != 0)
        return transfer_close_failed(job, entry, fds, err);
    if ((earlier == NULL || !transfer_link_file(job, entry, earlier)) &&
        transfer_store_held(job, copier, entry, &fds[1], err) != 0)
        return transfer_close_failed(job, entry, fds, err);
    return transfer_finish_file(job, entry, fds, err);
}

/* By the first chunk that is another one. */
static int begin_writing(struct job *job, const struct item *item, int *ret_to, struct err *err)
{
    struct large *large = &job->larges[item->large];

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    if (large->to < 0)
        large->to = transfer_open_to(job->transfer, &job->transfer->manifest->entries[item->entry],
                                     large->from, err);
    *ret_to = large->to;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return *ret_to >= 0 ? 0 : -1;
}

/* Of a chunk that is as it was earlier: while nothing of the file is written it is held. */
static bool hold_chunk(struct job *job, const struct item *item)
{
    struct large *large = &job->larges[item->large];
    bool hold;

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    hold = large->to < 0;
    large->held[item->chunk] = hold;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return hold;
}

/* Its generation is the whole file's: a file has one number, and one chunk that is shared is enough
 * for damage to reach it. */
static bool clone_chunk(struct job *job, const struct item *item, int to)
{
    const struct large *large = &job->larges[item->large];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    const struct copy_range range = transfer_range(entry, item->chunk);

    if (large->earlier_fd < 0 || earlier_clone(large->earlier_fd, to, range) != 0)
        return false;
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    entry->generation = large->earlier->generation + 1;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    transfer_add_saved(job, range.length);
    return true;
}

/* One block of most chunks that have changed tells so, before all of such a chunk is hashed. A
 * failure to read is left to who reads the chunk. */
static bool differs_at_sight(const struct large *large, int from, struct copy_range range)
{
    const off_t at = (off_t)(range.offset + range.length / 2);
    size_t length = (size_t)(range.length - range.length / 2);
    uint8_t now[COPY_BLOCK_BYTES], before[COPY_BLOCK_BYTES];
    ssize_t got;

    if (large->earlier_fd < 0)
        return false;
    if (length > sizeof(now))
        length = sizeof(now);
    got = pread(from, now, length, at);
    return got > 0 && pread(large->earlier_fd, before, (size_t)got, at) == got &&
           memcmp(now, before, (size_t)got) != 0;
}

/* It is written as it is read, and hashed between. */
static int write_through(struct job *job, struct copier *copier, const struct item *item, int from,
                         struct err *err)
{
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    const struct copy_range range = transfer_range(entry, item->chunk);
    struct copy_end to = {-1, job->transfer->to.label};

    if (begin_writing(job, item, &to.fd, err) != 0)
        return -1;
    transfer_note_spots(job->transfer, copier, entry, item->chunk, range);
    if (copy_range(copier, (struct copy_end){from, entry->path}, to, range,
                   entry->chunks[item->chunk], err) != 0)
        return -1;
    transfer_keep_spots(job->transfer, copier, entry, item->chunk);
    return 0;
}

int transfer_take_chunk(struct job *job, struct copier *copier, const struct item *item, int from,
                        struct err *err)
{
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    const struct manifest_entry *earlier = job->larges[item->large].earlier;
    const struct copy_range range = transfer_range(entry, item->chunk);
    struct copy_end to = {-1, job->transfer->to.label};
    bool same;

    if (differs_at_sight(&job->larges[item->large], from, range))
        return write_through(job, copier, item, from, err);
    transfer_note_spots(job->transfer, copier, entry, item->chunk, range);
    if (copy_hold(copier, (struct copy_end){from, entry->path}, range, entry->chunks[item->chunk],
                  err) != 0)
        return -1;
    transfer_keep_spots(job->transfer, copier, entry, item->chunk);
    same = item->chunk < earlier->chunk_count &&
           memcmp(entry->chunks[item->chunk], earlier->chunks[item->chunk], SHA256_BYTES) == 0;
    if (same && hold_chunk(job, item))
        return 0;
    if (begin_writing(job, item, &to.fd, err) != 0)
        return -1;
    if (same && clone_chunk(job, item, to.fd))
        return 0;
    return copy_release(copier, to, range, err);
}

/* The chunks that were held, when the file turned out to be another one: read again where the file
 * system cannot share them. */
static int write_held(struct job *job, struct copier *copier, const struct item *item,
                      const int fds[2], struct err *err)
{
    const struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    const bool *held = job->larges[item->large].held;
    struct item one = *item;

    for (one.chunk = 0; one.chunk < entry->chunk_count; one.chunk++) {
        const struct copy_range range = transfer_range(entry, one.chunk);
        if (!held[one.chunk] || clone_chunk(job, &one, fds[1]))
            continue;
        if (copy_hold(copier, (struct copy_end){fds[0], entry->path}, range, NULL, err) != 0 ||
            copy_release(copier, (struct copy_end){fds[1], job->transfer->to.label}, range, err) !=
                0)
            return -1;
    }
    return 0;
}

int transfer_take_finish(struct job *job, struct copier *copier, const struct item *item,
                         int fds[2], struct err *err)
{
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];

    if (fds[1] < 0 && transfer_link_file(job, entry, job->larges[item->large].earlier))
        return transfer_finish_file(job, entry, fds, err);
    if (fds[1] < 0)
        fds[1] = transfer_open_to(job->transfer, entry, fds[0], err);
    if (fds[1] < 0 || write_held(job, copier, item, fds, err) != 0)
        return transfer_close_failed(job, entry, fds, err);
    return transfer_finish_file(job, entry, fds, err);
}
