/* Files moved by the threads of a pool. See transfer.h.
 *
 * Flow     plan_items() -> pool_run(move_item) -> tree_settle() where many files were written.
 *          A chunk: open_large() -> move_chunk() -> leave_large(); the last one ends its file with
 *          finish_file(), while other threads are at the next. A batch: move_small() for each file.
 * Shapes   a chunk's hash has a place of its own in the manifest, so that threads that note hashes
 *          need no lock.
 */
#include "src/dest/posix/transfer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/check.h"
#include "src/dest/fault.h"
#include "src/dest/source.h"
#include "src/dest/tree.h"

enum { BATCH_FILES = 64 };

/* A file of several chunks while it is moved. */
struct large {
    size_t left; /* chunks that are not done */
    int from;    /* -1: not open */
    int to;      /* -1: not open, or nothing is written yet, since all is as it was earlier */
    const struct manifest_entry *earlier; /* NULL: there is nothing to take over */
    int earlier_fd;
    bool *held; /* of each chunk: it is as it was earlier, and not written yet */
};

/* Either a chunk of a large file, or `count` entries that begin with this one, of which the small
 * files are meant. */
struct item {
    size_t entry;
    size_t count;
    size_t chunk;
    size_t large; /* which; of a chunk */
};

/* The lock covers `larges`. */
struct job {
    const struct transfer *transfer;
    struct item *items;
    size_t item_count, item_capacity;
    struct large *larges;
    size_t large_count, large_capacity;
    size_t file_count; /* that are moved */
    bool settle;
    pthread_mutex_t lock;
};

/* ---- the plan ---- */

/* A chunk outside the sample is no item; a file without any chunk in it is not even opened. */
static bool is_wanted(const struct transfer *transfer, size_t entry, size_t chunk)
{
    const struct manifest_entry *file = &transfer->manifest->entries[entry];

    return transfer->sample == NULL ||
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

static void plan_large(struct job *job, size_t entry)
{
    size_t chunks = job->transfer->manifest->entries[entry].chunk_count, left = 0;

    for (size_t i = 0; i < chunks; i++) {
        struct item *item;
        if (!is_wanted(job->transfer, entry, i))
            continue;
        item = add_item(job, entry);
        item->chunk = i;
        item->large = job->large_count;
        left++;
    }
    if (left == 0)
        return;
    if (job->large_count == job->large_capacity) {
        job->large_capacity = job->large_capacity == 0 ? 16 : job->large_capacity * 2;
        job->larges = check_realloc(job->larges, job->large_capacity, sizeof(*job->larges));
    }
    job->larges[job->large_count++] = (struct large){
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

/* ---- one file ---- */

static int open_from(const struct transfer *transfer, const struct manifest_entry *entry,
                     struct err *err)
{
    struct stat status;
    int fd;

    if (transfer->purpose == TRANSFER_TAKE)
        return source_open_file(transfer->from.folder, transfer->from.label, entry, err);
    fd = tree_open_file(transfer->from.folder, entry->path, transfer->from.label, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) != 0) {
        fault_set(err, "fstat", entry->path);
    } else if ((uint64_t)status.st_size != entry->size_bytes) {
        err_set(err, ERR_CORRUPT, "%s/%s has %" PRIu64 " bytes, the manifest says %" PRIu64,
                transfer->from.label, entry->path, (uint64_t)status.st_size, entry->size_bytes);
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

/* What is written is new in a folder that nobody else knows: a file that is there is a failure. */
static int open_to(const struct transfer *transfer, const struct manifest_entry *entry,
                   struct err *err)
{
    int fd = tree_open_beneath(transfer->to.folder, entry->path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    return fd >= 0 ? fd : fault_set(err, "create", entry->path);
}

static int open_file(const struct transfer *transfer, const struct manifest_entry *entry,
                     int ret_fds[2], struct err *err)
{
    int to = -1;
    int from = open_from(transfer, entry, err);

    if (from < 0)
        return -1;
    if (transfer->to.folder >= 0) {
        to = open_to(transfer, entry, err);
        if (to < 0) {
            close(from);
            return -1;
        }
    }
    ret_fds[0] = from;
    ret_fds[1] = to;
    return 0;
}

/* Where bytes are only compared, storage is to be read: the page cache is asked to forget them. A
 * wish: where it is not granted the cache is checked, which is better than nothing. */
static void forget_cached(const struct transfer *transfer, int from, struct copy_range range)
{
    if (transfer->purpose != TRANSFER_CHECK || transfer->to.folder >= 0)
        return;
    (void)posix_fadvise(from, (off_t)range.offset, (off_t)range.length, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(from, (off_t)range.offset, (off_t)range.length, POSIX_FADV_WILLNEED);
}

static struct copy_range range_of(const struct manifest_entry *entry, size_t chunk)
{
    return (struct copy_range){(uint64_t)chunk * MANIFEST_CHUNK_BYTES,
                               manifest_chunk_bytes(entry, chunk)};
}

/* Storage begins while the next chunk is hashed. */
static void begin_flush(int to, struct copy_range range)
{
    (void)sync_file_range(to, (off_t)range.offset, (off_t)range.length, SYNC_FILE_RANGE_WRITE);
}

static int move_chunk(const struct transfer *transfer, struct copier *copier,
                      struct manifest_entry *entry, size_t chunk, const int fds[2], struct err *err)
{
    const struct copy_range range = range_of(entry, chunk);
    uint8_t digest[SHA256_BYTES];

    forget_cached(transfer, fds[0], range);
    if (copy_range(copier, (struct copy_end){fds[0], entry->path},
                   (struct copy_end){fds[1], transfer->to.label}, range, digest, err) != 0)
        return -1;
    if (fds[1] >= 0 && entry->chunk_count > 0)
        begin_flush(fds[1], range);
    if (transfer->purpose == TRANSFER_TAKE) {
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

/* Durable where no settling follows. Both are closed in any case. */
static int finish_file(const struct job *job, const struct manifest_entry *entry, const int fds[2],
                       struct err *err)
{
    const struct transfer *transfer = job->transfer;
    int result = 0;

    if (transfer->purpose == TRANSFER_TAKE)
        result = source_check_file(fds[0], entry, err);
    close(fds[0]);
    if (fds[1] < 0)
        return result;
    if (result == 0 && transfer->with_modes && fchmod(fds[1], entry->mode) != 0)
        result = fault_set(err, "chmod", entry->path);
    if (result == 0 && !job->settle && fsync(fds[1]) != 0)
        result = fault_set(err, "fsync", entry->path);
    if (close(fds[1]) != 0 && result == 0)
        result = fault_set(err, "close", entry->path);
    return result;
}

/* A source that changed is why bytes were missing. */
static int close_failed(const struct job *job, const struct manifest_entry *entry, const int fds[2],
                        struct err *err)
{
    if (job->transfer->purpose == TRANSFER_TAKE)
        (void)source_check_file(fds[0], entry, err);
    close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
    return -1;
}

/* ---- taking over ----
 *
 * Whether a file is the same as it was earlier is known only when its last chunk is hashed. Until a
 * chunk turns out to be another one nothing of the file is written, and chunks are only noted as
 * held:
 *
 *     all chunks held      take_finish() links the earlier file
 *     a chunk differs      begin_writing(); from then on each chunk that is the same is cloned, or
 *                          written from memory, where its bytes still are
 *     the last one done    write_held(): those before the first difference are cloned, or read
 *                          once more; the source's stamps tell that they are those that were hashed
 */

static void add_saved(struct job *job, uint64_t bytes)
{
    if (job->transfer->saved_bytes == NULL)
        return;
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    *job->transfer->saved_bytes += bytes;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
}

/* The second name is durable with the folder that it stands in, its bytes have long been. */
static bool link_file(struct job *job, struct manifest_entry *entry,
                      const struct manifest_entry *earlier)
{
    if (!manifest_same_bytes(entry, earlier) ||
        earlier_link(job->transfer->earlier, earlier, job->transfer->to.folder) != 0)
        return false;
    entry->generation = earlier->generation + 1;
    add_saved(job, entry->size_bytes);
    return true;
}

/* A small file is in memory whole when it is known whether it has to be written. */
static int take_small(struct job *job, struct copier *copier, struct manifest_entry *entry,
                      const struct manifest_entry *earlier, struct err *err)
{
    const struct copy_range range = range_of(entry, 0);
    int fds[2] = {open_from(job->transfer, entry, err), -1};

    if (fds[0] < 0)
        return -1;
    if (copy_hold(copier, (struct copy_end){fds[0], entry->path}, range, entry->sha256, err) != 0)
        return close_failed(job, entry, fds, err);
    if (!link_file(job, entry, earlier)) {
        fds[1] = open_to(job->transfer, entry, err);
        if (fds[1] < 0 || copy_release(copier, (struct copy_end){fds[1], job->transfer->to.label},
                                       range, err) != 0)
            return close_failed(job, entry, fds, err);
    }
    return finish_file(job, entry, fds, err);
}

/* By the first chunk that is another one. */
static int begin_writing(struct job *job, const struct item *item, int *ret_to, struct err *err)
{
    struct large *large = &job->larges[item->large];

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    if (large->to < 0)
        large->to = open_to(job->transfer, &job->transfer->manifest->entries[item->entry], err);
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
    const struct copy_range range = range_of(entry, item->chunk);

    if (large->earlier_fd < 0 || earlier_clone(large->earlier_fd, to, range) != 0)
        return false;
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    entry->generation = large->earlier->generation + 1;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    add_saved(job, range.length);
    return true;
}

static int take_chunk(struct job *job, struct copier *copier, const struct item *item, int from,
                      struct err *err)
{
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    const struct manifest_entry *earlier = job->larges[item->large].earlier;
    const struct copy_range range = range_of(entry, item->chunk);
    struct copy_end to = {-1, job->transfer->to.label};
    bool same;

    if (copy_hold(copier, (struct copy_end){from, entry->path}, range, entry->chunks[item->chunk],
                  err) != 0)
        return -1;
    same = item->chunk < earlier->chunk_count &&
           memcmp(entry->chunks[item->chunk], earlier->chunks[item->chunk], SHA256_BYTES) == 0;
    if (same && hold_chunk(job, item))
        return 0;
    if (begin_writing(job, item, &to.fd, err) != 0)
        return -1;
    if (same && clone_chunk(job, item, to.fd))
        return 0;
    if (copy_release(copier, to, range, err) != 0)
        return -1;
    begin_flush(to.fd, range);
    return 0;
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
        const struct copy_range range = range_of(entry, one.chunk);
        if (!held[one.chunk] || clone_chunk(job, &one, fds[1]))
            continue;
        if (copy_hold(copier, (struct copy_end){fds[0], entry->path}, range, NULL, err) != 0 ||
            copy_release(copier, (struct copy_end){fds[1], job->transfer->to.label}, range, err) !=
                0)
            return -1;
        begin_flush(fds[1], range);
    }
    return 0;
}

/* By the last chunk. */
static int take_finish(struct job *job, struct copier *copier, const struct item *item, int fds[2],
                       struct err *err)
{
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];

    if (fds[1] < 0 && link_file(job, entry, job->larges[item->large].earlier))
        return finish_file(job, entry, fds, err);
    if (fds[1] < 0)
        fds[1] = open_to(job->transfer, entry, err);
    if (fds[1] < 0 || write_held(job, copier, item, fds, err) != 0)
        return close_failed(job, entry, fds, err);
    return finish_file(job, entry, fds, err);
}

/* ---- items ---- */

static int move_small(struct job *job, struct copier *copier, struct manifest_entry *entry,
                      struct err *err)
{
    const struct manifest_entry *earlier =
        job->transfer->earlier == NULL ? NULL : earlier_find(job->transfer->earlier, entry);
    int fds[2];

    if (earlier != NULL)
        return take_small(job, copier, entry, earlier, err);
    if (open_file(job->transfer, entry, fds, err) != 0)
        return -1;
    if (move_chunk(job->transfer, copier, entry, 0, fds, err) != 0)
        return close_failed(job, entry, fds, err);
    return finish_file(job, entry, fds, err);
}

static int move_batch(struct job *job, struct copier *copier, const struct item *item,
                      struct err *err)
{
    for (size_t i = item->entry; i < item->entry + item->count; i++) {
        struct manifest_entry *entry = &job->transfer->manifest->entries[i];
        if (!entry->is_directory && entry->chunk_count == 0 && is_wanted(job->transfer, i, 0) &&
            move_small(job, copier, entry, err) != 0)
            return -1;
    }
    return 0;
}

static int begin_large(struct job *job, const struct item *item, struct err *err)
{
    struct large *large = &job->larges[item->large];
    const struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    int fds[2] = {-1, -1};

    if (large->earlier == NULL) {
        if (open_file(job->transfer, entry, fds, err) != 0)
            return -1;
        large->to = fds[1];
    } else {
        fds[0] = open_from(job->transfer, entry, err);
        if (fds[0] < 0)
            return -1;
        large->earlier_fd = earlier_open_file(job->transfer->earlier, large->earlier);
        large->held = check_calloc(entry->chunk_count, sizeof(*large->held));
    }
    large->from = fds[0];
    return 0;
}

/* Whoever comes first opens it for all. */
static int open_large(struct job *job, const struct item *item, int ret_fds[2], struct err *err)
{
    const struct large *large = &job->larges[item->large];
    int result = 0;

    CHECK(pthread_mutex_lock(&job->lock) == 0);
    if (large->from < 0)
        result = begin_large(job, item, err);
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

/* After a failure the file stays open for close_larges(), since other threads may be at it. */
static int move_item(void *context, size_t number, struct copier *copier, struct err *err)
{
    struct job *job = context;
    const struct item *item = &job->items[number];
    struct manifest_entry *entry = &job->transfer->manifest->entries[item->entry];
    bool takes = item->count == 0 && job->larges[item->large].earlier != NULL;
    int fds[2], result;

    if (item->count > 0)
        return move_batch(job, copier, item, err);
    if (open_large(job, item, fds, err) != 0)
        return -1;
    result = takes ? take_chunk(job, copier, item, fds[0], err)
                   : move_chunk(job->transfer, copier, entry, item->chunk, fds, err);
    if (result != 0) {
        if (job->transfer->purpose == TRANSFER_TAKE)
            (void)source_check_file(fds[0], entry, err);
        return -1;
    }
    if (!leave_large(job, item, fds))
        return 0;
    return takes ? take_finish(job, copier, item, fds, err) : finish_file(job, entry, fds, err);
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
    int result;

    plan_items(&job);
    job.settle = transfer->to.folder >= 0 && job.file_count >= TREE_SETTLE_COUNT &&
                 tree_settles(transfer->to.folder);
    CHECK(pthread_mutex_init(&job.lock, NULL) == 0);
    result = pool_run(pool, job.item_count, move_item, &job, err);
    close_larges(&job);
    CHECK(pthread_mutex_destroy(&job.lock) == 0);
    if (result == 0 && job.settle)
        result = tree_settle(transfer->to.folder, transfer->to.label, err);
    free(job.items);
    free(job.larges);
    return result;
}
