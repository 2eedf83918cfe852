/* Files moved by the threads of a pool. See transfer.h.
 *
 * Flow     plan_items() -> pool_run(move_item) -> plan_again() -> pool_run(move_item) for what is
 *          to be compressed and is not as it was earlier -> tree_settle() where many files were
 *          written.
 *          A chunk: open_large() -> move_large() -> leave_large(); the last one ends its file with
 *          end_large(), while other threads are at the next. A batch: move_small() for each file.
 * Shapes   a chunk's hash has a place of its own in the manifest, so that threads that note hashes
 *          need no lock.
 */
#include "src/dest/posix/transfer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/posix/transfer_internal.h"
#include "src/dest/source.h"
#include "src/dest/tree.h"

enum { BATCH_FILES = 64 };

/* ---- the plan ---- */

/* A chunk outside the sample is no item; a file without any chunk in it is not even opened. */
static bool is_wanted(const struct transfer *transfer, size_t entry, size_t chunk)
{
    const struct manifest_entry *file = &transfer->manifest->entries[entry];

    return transfer->sample == NULL || transfer_checks_spots(transfer, file, chunk) ||
           sample_takes(transfer->sample, entry, chunk, file->chunk_count);
}

static struct item *add_item(struct job *job, size_t entry)
{
    if (job->item_count == job->item_capacity) {
        job->item_capacity = job->item_capacity == 0 ? 64 : job->item_capacity * 2;
        job->items = check_realloc(job->items, job->item_capacity, sizeof(*job->items));
    }
    job->items[job->item_count] = (struct item){.entry = entry};
    return &job->items[job->item_count++];
}

/* Returns how many there are. */
static size_t add_chunks(struct job *job, size_t entry, size_t large)
{
    size_t chunks = job->transfer->manifest->entries[entry].chunk_count, added = 0;

    for (size_t i = 0; i < chunks; i++) {
        struct item *item;
        if (!is_wanted(job->transfer, entry, i))
            continue;
        item = add_item(job, entry);
        item->chunk = i;
        item->large = large;
        added++;
    }
    return added;
}

static void plan_large(struct job *job, size_t entry)
{
    size_t left = add_chunks(job, entry, job->large_count);

    if (left == 0)
        return;
    if (job->large_count == job->large_capacity) {
        job->large_capacity = job->large_capacity == 0 ? 16 : job->large_capacity * 2;
        job->larges = check_realloc(job->larges, job->large_capacity, sizeof(*job->larges));
    }
    job->larges[job->large_count++] = (struct large){
        .entry = entry,
        .left = left,
        .from = -1,
        .to = -1,
        .earlier =
            job->transfer->earlier == NULL
                ? NULL
                : earlier_find(job->transfer->earlier, &job->transfer->manifest->entries[entry]),
        .earlier_fd = -1,
    };
    job->file_count++;
}

/* Large files first, so that no thread begins one when the others have nothing left to do. */
static void plan_items(struct job *job)
{
    const struct manifest *manifest = job->transfer->manifest;
    struct item *batch = NULL;
    uint64_t batch_bytes = 0;
    size_t batch_files = 0;

    for (size_t i = 0; i < manifest->count; i++) {
        if (manifest->entries[i].chunk_count > 0)
            plan_large(job, i);
    }
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        if (entry->is_directory || entry->chunk_count > 0 || !is_wanted(job->transfer, i, 0))
            continue;
        if (batch == NULL || batch_files == BATCH_FILES || batch_bytes >= MANIFEST_CHUNK_BYTES) {
            batch = add_item(job, i);
            batch_bytes = batch_files = 0;
        }
        batch->count = i + 1 - batch->entry;
        batch_bytes += entry->size_bytes;
        batch_files++;
        job->file_count++;
    }
}

/* All chunks of the files that a first run has only compared. */
static void plan_again(struct job *job)
{
    job->item_count = 0;
    for (size_t i = 0; i < job->large_count; i++) {
        struct large *large = &job->larges[i];
        if (!large->again)
            continue;
        large->earlier = NULL;
        large->left = add_chunks(job, large->entry, i);
    }
}

/* ---- one file ---- */

/* Storage begins to read what is wanted soon. Where bytes are only compared, it is storage that is
 * to be read: the page cache is asked to forget them. A wish: where it is not granted the cache is
 * checked, which is better than nothing. */
static void read_ahead(const struct transfer *transfer, int from,
                       const struct manifest_entry *entry, size_t chunk)
{
    struct copy_range range = transfer_range(entry, chunk);

    if (transfer_checks_spots(transfer, entry, chunk))
        return; /* transfer_check_spots() asks for the places */
    if (transfer->purpose == TRANSFER_CHECK)
        range = (struct copy_range){manifest_stored_at(entry, chunk),
                                    manifest_stored_length(entry, chunk)};
    if (transfer->purpose == TRANSFER_CHECK && transfer->to.folder < 0)
        (void)posix_fadvise(from, (off_t)range.offset, (off_t)range.length, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(from, (off_t)range.offset, (off_t)range.length, POSIX_FADV_WILLNEED);
}

/* Of a file that is hashed where it lies, before it is. While a page of a mapping is dirty, stores
 * into it leave no stamp; once it is written out the next one is a fault, which does. */
static int write_out(int from, struct copy_range range, const char *name, struct err *err)
{
    return sync_file_range(from, (off_t)range.offset, (off_t)range.length,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                               SYNC_FILE_RANGE_WAIT_AFTER) == 0
               ? 0
               : fault_set(err, "write out", name);
}

/* Of a shard's compressed file it is the frame that is read. */
static int move_chunk(const struct job *job, struct copier *copier, struct manifest_entry *entry,
                      size_t chunk, const int fds[2], struct err *err)
{
    const struct transfer *transfer = job->transfer;
    const struct copy_range range = transfer_range(entry, chunk);
    const struct copy_frame frame = {
        .stored = {manifest_stored_at(entry, chunk), manifest_stored_length(entry, chunk)},
        .range = range};
    const struct copy_end from = {fds[0], entry->path}, to = {fds[1], transfer->to.label};
    bool expand = transfer->purpose == TRANSFER_CHECK && entry->frame_ends != NULL;
    uint8_t digest[SHA256_BYTES];

    if (transfer_checks_spots(transfer, entry, chunk))
        return transfer_check_spots(transfer, copier, entry, chunk, fds[0], err);
    if (transfer->in_place && !job->settle && write_out(fds[0], range, entry->path, err) != 0)
        return -1;
    transfer_note_spots(transfer, copier, entry, chunk, range);
    if ((expand ? copy_expand(copier, from, to, &frame, digest, err)
                : copy_range(copier, from, to, range, digest, err)) != 0)
        return -1;
    if (transfer->purpose == TRANSFER_TAKE) {
        transfer_keep_spots(transfer, copier, entry, chunk);
        manifest_chunk_set(entry, chunk, digest);
        return 0;
    }
    if (memcmp(digest, manifest_chunk_hash(entry, chunk), SHA256_BYTES) == 0)
        return 0;
    return err_set(err, ERR_CORRUPT,
                   "%s/%s is not what was written: the %" PRIu64 " bytes at %" PRIu64
                   " do not match the SHA-256 in the manifest",
                   transfer->from.label, entry->path, range.length, range.offset);
}

/* ---- items ---- */

/* Closes `from`. */
static int move_small(struct job *job, struct copier *copier, struct manifest_entry *entry,
                      int from, struct err *err)
{
    const struct manifest_entry *earlier =
        job->transfer->earlier == NULL ? NULL : earlier_find(job->transfer->earlier, entry);
    int fds[2] = {from, -1};

    if (earlier != NULL || job->transfer->compresses)
        return transfer_take_small(job, copier, entry, earlier, from, err);
    if (job->transfer->to.folder >= 0) {
        fds[1] = transfer_open_to(job->transfer, entry, from, err);
        if (fds[1] < 0)
            return transfer_close_failed(job, entry, fds, err);
    }
    if (move_chunk(job, copier, entry, 0, fds, err) != 0)
        return transfer_close_failed(job, entry, fds, err);
    return transfer_finish_file(job, entry, fds, err);
}

static bool is_small(const struct transfer *transfer, size_t entry)
{
    const struct manifest_entry *file = &transfer->manifest->entries[entry];

    return !file->is_directory && file->chunk_count == 0 && is_wanted(transfer, entry, 0);
}

/* All are opened and asked for before the first one is read, so that storage has them at hand: one
 * after the other each would take its whole time. */
static int move_batch(struct job *job, struct copier *copier, const struct item *item,
                      struct err *err)
{
    const struct transfer *transfer = job->transfer;
    size_t opened = 0, done = 0, end = item->entry + item->count;
    int from[BATCH_FILES], result = 0;

    for (size_t i = item->entry; result == 0 && i < end; i++) {
        if (!is_small(transfer, i))
            continue;
        from[opened] = transfer_open_from(transfer, &transfer->manifest->entries[i], err);
        if (from[opened] < 0)
            result = -1;
        else
            read_ahead(transfer, from[opened++], &transfer->manifest->entries[i], 0);
    }
    for (size_t i = item->entry; result == 0 && i < end; i++) {
        if (is_small(transfer, i))
            result = move_small(job, copier, &transfer->manifest->entries[i], from[done++], err);
    }
    while (done < opened)
        close(from[done++]);
    return result;
}

/* Whether it is compressed, and what may be taken over. A compressed file is linked as a whole or
 * not at all. */
static void settle_large(const struct job *job, struct large *large, int from)
{
    const struct transfer *transfer = job->transfer;
    const struct manifest_entry *entry = &transfer->manifest->entries[large->entry];

    if (transfer->compresses)
        large->compressed = transfer_compresses(transfer, entry, from);
    if (large->compressed && large->earlier != NULL &&
        large->earlier->size_bytes != entry->size_bytes)
        large->earlier = NULL;
    if (large->earlier == NULL || large->held != NULL)
        return;
    large->held = check_calloc(entry->chunk_count, sizeof(*large->held));
    if (!large->compressed)
        large->earlier_fd = earlier_open_file(transfer->earlier, large->earlier);
}

static int begin_large(struct job *job, struct large *large, struct err *err)
{
    const struct transfer *transfer = job->transfer;
    struct manifest_entry *entry = &transfer->manifest->entries[large->entry];
    int from = transfer_open_from(transfer, entry, err);

    if (from < 0)
        return -1;
    if (!large->again)
        settle_large(job, large, from);
    if (large->earlier == NULL && transfer->to.folder >= 0) {
        if (large->compressed && entry->frame_ends == NULL)
            manifest_make_frames(entry);
        large->to = transfer_open_to(transfer, entry, from, err);
        if (large->to < 0) {
            close(from);
            return -1;
        }
    }
    large->from = from;
    return 0;
}

/* Whoever comes first opens it for all. */
static int open_large(struct job *job, const struct item *item, int ret_fds[2], struct err *err)
{
    struct large *large = &job->larges[item->large];
    int result = 0;

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    if (large->from < 0)
        result = begin_large(job, large, err);
    ret_fds[0] = large->from;
    ret_fds[1] = large->to;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return result;
}

/* Whether it was the last one, which then has the descriptors for its own. */
static bool leave_large(struct job *job, const struct item *item, int ret_fds[2])
{
    struct large *large = &job->larges[item->large];
    bool last;

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    last = --large->left == 0;
    ret_fds[0] = large->from;
    ret_fds[1] = large->to;
    if (last)
        large->from = large->to = -1;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return last;
}

static int move_large(struct job *job, struct copier *copier, const struct item *item,
                      const int fds[2], struct err *err)
{
    const struct large *large = &job->larges[item->large];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];

    if (large->compressed)
        return large->earlier != NULL ? transfer_compare_chunk(job, copier, item, fds[0], err)
                                      : transfer_compress_chunk(job, copier, item, fds, err);
    return large->earlier != NULL ? transfer_take_chunk(job, copier, item, fds[0], err)
                                  : move_chunk(job, copier, entry, item->chunk, fds, err);
}

/* Closes it. */
static int end_large(struct job *job, struct copier *copier, const struct item *item, int fds[2],
                     struct err *err)
{
    const struct large *large = &job->larges[item->large];

    if (large->compressed)
        return large->earlier != NULL ? transfer_compare_finish(job, item, fds, err)
                                      : transfer_compress_finish(job, item, fds, err);
    return large->earlier != NULL
               ? transfer_take_finish(job, copier, item, fds, err)
               : transfer_finish_file(job, &job->transfer->manifest->entries[item->entry], fds,
                                      err);
}

/* After a failure the file stays open for close_larges(), since other threads may be at it. */
static int move_item(void *context, size_t number, struct copier *copier, struct err *err)
{
    struct job *job = context;
    const struct item *item = &job->items[number];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    int fds[2];

    if (item->count > 0)
        return move_batch(job, copier, item, err);
    if (open_large(job, item, fds, err) != 0) {
        transfer_give_up(job, item, err);
        return -1;
    }
    read_ahead(job->transfer, fds[0], entry, item->chunk);
    if (move_large(job, copier, item, fds, err) != 0) {
        if (job->transfer->purpose == TRANSFER_TAKE)
            (void)source_check_file(fds[0], entry, err);
        transfer_give_up(job, item, err);
        return -1;
    }
    return leave_large(job, item, fds) ? end_large(job, copier, item, fds, err) : 0;
}

static void close_larges(const struct job *job)
{
    for (size_t i = 0; i < job->large_count; i++) {
        const int fds[] = {job->larges[i].from, job->larges[i].to, job->larges[i].earlier_fd};
        for (size_t k = 0; k < ARRAY_COUNT(fds); k++) {
            if (fds[k] >= 0)
                close(fds[k]);
        }
        free(job->larges[i].held);
    }
}

int transfer_run(const struct transfer *transfer, struct pool *pool, struct err *err)
{
    struct job job = {.transfer = transfer};
    const struct transfer_side *written = transfer->in_place ? &transfer->from : &transfer->to;
    int result = 0;

    CHECK(!transfer->in_place || transfer->to.folder < 0);
    CHECK(!transfer->compresses ||
          (transfer->purpose == TRANSFER_TAKE && transfer->to.folder >= 0));
    plan_items(&job);
    job.settle = written->folder >= 0 && job.file_count >= TREE_SETTLE_COUNT &&
                 tree_settles(written->folder);
    CHECK(pthread_mutex_init(&job.lock, NULL) == 0);
    CHECK(pthread_cond_init(&job.turn, NULL) == 0);
    if (transfer->in_place && job.settle) /* before they are hashed: see write_out() */
        result = tree_settle(written->folder, written->label, err);
    if (result == 0)
        result = pool_run(pool, job.item_count, move_item, &job, err);
    if (result == 0 && transfer->compresses) {
        plan_again(&job);
        result = pool_run(pool, job.item_count, move_item, &job, err);
    }
    close_larges(&job);
    CHECK(pthread_cond_destroy(&job.turn) == 0);
    CHECK(pthread_mutex_destroy(&job.lock) == 0);
    if (result == 0 && job.settle && !transfer->in_place)
        result = tree_settle(written->folder, written->label, err);
    free(job.items);
    free(job.larges);
    return result;
}
