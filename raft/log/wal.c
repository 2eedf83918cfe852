/* Writing the log: the queue of operations, group commit, segments. See wal.h. */
#include "raft/log/wal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/safety.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/crc32c.h"

/* What is synced together is also applied together, in one turn of the loop: about 20 ms of it per
 * megabyte of commands. */
enum { STAGING_BYTES = 1 << 20, GROUP_BYTES_MAX = 1 << 19, ALIGNMENT = 8 };
_Static_assert(WAL_PAYLOAD_MAX_BYTES + WAL_RECORD_HEADER_BYTES + WAL_SEGMENT_HEADER_BYTES <
                   WAL_SEGMENT_BYTES,
               "a record fits into a segment");

enum operation_kind { OPERATION_APPEND, OPERATION_TRUNCATE, OPERATION_RESET, OPERATION_DROP };

/* An operation waits in `queue` and is worked on in `running`. A reference to the entries is
 * enough: libraft keeps them until it is told that they are stored. */
struct operation {
    struct list node;
    enum operation_kind kind;
    uint64_t index;
    const struct raft_entry *entries;
    unsigned count;
    void (*done)(void *data);
    void *data;
};

static struct wal *of_job(struct disk_job *job)
{
    return (struct wal *)(void *)((char *)job - offsetof(struct wal, job));
}

static struct wal_segment *tail_segment(struct wal *wal)
{
    CHECK(wal->segment_count > 0 && wal->tail != NULL);
    return &wal->segments[wal->segment_count - 1];
}

/* ---- in the job ---- */

static uint64_t now_us(const struct wal *wal)
{
    return wal->clock == NULL ? 0 : wal->clock->monotonic_us(wal->clock->context);
}

/* Says where it was: the operator looks at this disk, and at this place of this file when it is
 * read back wrongly. */
static int tail_failed(struct wal *wal, const char *side, struct err *err)
{
    const struct wal_segment *segment = tail_segment(wal);
    char path[FOLDER_PATH_BYTES];

    return err_wrap(err, "%s %s offset %" PRIu64, wal_segment_path(wal, segment->first_index, path),
                    side, segment->used_bytes - wal->staged);
}

static void sync_measured(struct wal *wal, uint64_t begin)
{
    uint64_t took = now_us(wal) - begin;

    wal->job_sync_count++;
    wal->job_sync_us += took;
    if (took > wal->job_sync_us_max)
        wal->job_sync_us_max = took;
}

/* Writes what is staged without a sync, to make room for the next record of the same group. */
static int tail_flush(struct wal *wal, struct err *err)
{
    struct wal_segment *segment = tail_segment(wal);

    if (wal->staged == 0)
        return 0;
    if (wal->folder->disk->write(wal->tail, segment->used_bytes - wal->staged, wal->staging,
                                 wal->staged, err) != 0)
        return tail_failed(wal, "from", err);
    wal->staged = 0;
    wal->flushed_unsynced = true;
    return 0;
}

/* All that was appended is durable afterwards. Usually nothing of the group was written before, and
 * write and sync are one call; else the parts written before are only covered by a sync of the
 * whole file. */
static int tail_commit(struct wal *wal, struct err *err)
{
    struct wal_segment *segment = tail_segment(wal);
    const struct disk_ops *disk = wal->folder->disk;
    uint64_t begin;
    int status;

    if (wal->flushed_unsynced && tail_flush(wal, err) != 0)
        return -1;
    begin = now_us(wal);
    if (wal->staged > 0)
        status = disk->write_sync(wal->tail, segment->used_bytes - wal->staged, wal->staging,
                                  wal->staged, err);
    else
        status = disk->sync(wal->tail, err);
    sync_measured(wal, begin);
    if (status != 0)
        return tail_failed(wal, wal->staged > 0 ? "from" : "up to", err);
    wal->staged = 0;
    wal->flushed_unsynced = false;
    return 0;
}

/* The blocks are written, not only reserved: at an error ext4 (Linux 6.18, errors=remount-ro) may
 * call a synced write into a reserved block a success and forget that the block was written. Of 300
 * such errors under a writer 9 took acknowledged records back, of 300 on written blocks none. */
static int segment_prepare(struct wal *wal, const char *path, struct disk_file **ret_file,
                           struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    struct disk_file *file;

    if (disk->open(disk->context, path, DISK_OPEN_CREATE, &file, err) != 0)
        return -1;
    if (disk->allocate(file, wal->segment_bytes, err) != 0 ||
        disk->write_zeros(file, wal->segment_bytes, err) != 0 || disk->sync(file, err) != 0) {
        disk->close(file);
        return err_wrap(err, "%s from offset 0 up to offset %" PRIu64, path, wal->segment_bytes);
    }
    *ret_file = file;
    return 0;
}

/* The spare one, or a new one. A full disk costs the reserve here, once: a member that cannot go on
 * with its log would stop. */
static int segment_take(struct wal *wal, char path[FOLDER_PATH_BYTES], struct disk_file **ret_file,
                        struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;

    folder_path(wal->folder, "tmp-wal-spare", path);
    if (atomic_exchange(&wal->spare_ready, false))
        return disk->open(disk->context, path, DISK_OPEN_WRITE, ret_file, err);
    folder_path(wal->folder, "tmp-wal-next", path);
    if (segment_prepare(wal, path, ret_file, err) == 0)
        return 0;
    if (!folder_spend_reserve(wal->folder))
        return -1;
    return segment_prepare(wal, path, ret_file, err);
}

/* The segment before it is synced by the caller; header and name are durable before records
 * follow. */
static int segment_start(struct wal *wal, uint64_t first_index, struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    char temporary[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES];
    uint8_t header[WAL_SEGMENT_HEADER_BYTES];
    struct disk_file *file;

    if (segment_take(wal, temporary, &file, err) != 0)
        return err_wrap(err, "new log segment");
    wal_segment_header_encode(header, first_index);
    wal_segment_path(wal, first_index, path);
    if (folder_fill(wal->folder, file, temporary, header, sizeof(header), err) != 0 ||
        disk->rename(disk->context, temporary, path, err) != 0 ||
        disk->sync_dir(disk->context, wal->folder->path, err) != 0) {
        disk->close(file);
        return err_wrap(err, "new log segment %s", path);
    }
    disk->close(wal->tail);
    wal->tail = file;
    wal->segments = check_realloc(wal->segments, wal->segment_count + 1, sizeof(*wal->segments));
    wal->segments[wal->segment_count++] = (struct wal_segment){
        first_index, first_index - 1, WAL_SEGMENT_HEADER_BYTES, wal->segment_bytes};
    return 0;
}

/* The last segment becomes a new file with the first `keep` bytes: in one step, so that no file is
 * ever shorter than it was made. */
int wal_segment_replace(struct wal *wal, uint64_t first_index, const uint8_t *bytes, size_t keep,
                        struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    char temporary[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES];
    struct disk_file *file;

    CHECK(bytes != NULL);
    if (segment_take(wal, temporary, &file, err) != 0)
        return err_wrap(err, "new log segment");
    wal_segment_path(wal, first_index, path);
    if (folder_fill(wal->folder, file, temporary, bytes, keep, err) != 0 ||
        disk->rename(disk->context, temporary, path, err) != 0 ||
        disk->sync_dir(disk->context, wal->folder->path, err) != 0) {
        disk->close(file);
        return err_wrap(err, "replace %s", path);
    }
    disk->close(wal->tail);
    wal->tail = file;
    return 0;
}

/* Stages one record; a full segment is synced before the next one is begun, so that only the last
 * one can have a torn end. */
static int record_write(struct wal *wal, uint64_t index, const struct raft_entry *entry,
                        uint32_t ordinal, struct err *err)
{
    struct wal_segment *segment = tail_segment(wal);
    size_t padded =
        WAL_RECORD_HEADER_BYTES + ((entry->buf.len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    uint8_t *at;

    CHECK(entry->buf.len <= WAL_PAYLOAD_MAX_BYTES);
    CHECK(WAL_SEGMENT_HEADER_BYTES + padded <= wal->segment_bytes);
    CHECK(index == segment->last_index + 1);
    if (segment->used_bytes + padded > segment->size_bytes) {
        if (tail_commit(wal, err) != 0 || segment_start(wal, index, err) != 0)
            return -1;
        segment = tail_segment(wal);
    }
    if (wal->staged + padded > STAGING_BYTES + WAL_PAYLOAD_MAX_BYTES && tail_flush(wal, err) != 0)
        return -1;
    at = wal->staging + wal->staged;
    memset(at, 0, WAL_RECORD_HEADER_BYTES);
    bytes_put(at + 4, entry->buf.len, 4);
    bytes_put(at + 8, index, 8);
    bytes_put(at + 16, entry->term, 8);
    at[24] = (uint8_t)entry->type;
    bytes_put(at + 28, ordinal, 4);
    memcpy(at + WAL_RECORD_HEADER_BYTES, entry->buf.base, entry->buf.len);
    memset(at + WAL_RECORD_HEADER_BYTES + entry->buf.len, 0,
           padded - WAL_RECORD_HEADER_BYTES - entry->buf.len);
    bytes_put(at, crc32c(0, at + 4, WAL_RECORD_HEADER_BYTES - 4 + entry->buf.len), 4);
    wal->staged += padded;
    segment->used_bytes += padded;
    segment->last_index = index;
    return 0;
}

/* Removes the last segment; the one before it becomes the tail. The order, newest first and each
 * removal durable before the next, keeps the log without gaps whenever the member dies. */
static int segment_pop(struct wal *wal, struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    char path[FOLDER_PATH_BYTES];

    wal_segment_path(wal, tail_segment(wal)->first_index, path);
    disk->close(wal->tail);
    wal->tail = NULL;
    if (disk->unlink(disk->context, path, err) != 0 ||
        disk->sync_dir(disk->context, wal->folder->path, err) != 0)
        return err_wrap(err, "remove %s", path);
    wal->segment_count--;
    if (wal->segment_count == 0)
        return 0;
    wal_segment_path(wal, wal->segments[wal->segment_count - 1].first_index, path);
    return disk->open(disk->context, path, DISK_OPEN_WRITE, &wal->tail, err);
}

struct cut {
    uint64_t index;
    uint64_t offset;
};

/* The offset behind the last record that stays. */
static int cut_visit(void *data, const struct wal_record *record, struct err *err)
{
    struct cut *cut = data;

    (void)err;
    if (record->index < cut->index)
        cut->offset +=
            WAL_RECORD_HEADER_BYTES + ((record->length + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    return 0;
}

/* The records are scanned again rather than their offsets being kept for each of them: cutting is
 * rare. */
static int tail_cut(struct wal *wal, uint64_t index, struct err *err)
{
    struct wal_segment *segment = tail_segment(wal), ignored;
    struct cut cut = {index, WAL_SEGMENT_HEADER_BYTES};
    uint8_t *bytes;
    size_t length;
    bool torn;
    int status;

    if (wal_segment_load(wal, segment->first_index, UINT64_MAX, &bytes, &length, err) != 0)
        return -1;
    status = wal_segment_scan(&(struct wal_image){bytes, length, "the log", true},
                              &(struct wal_visitor){cut_visit, &cut}, &ignored, &torn, err);
    if (status == 0)
        status = wal_segment_replace(wal, segment->first_index, bytes, cut.offset, err);
    free(bytes);
    if (status != 0)
        return err_wrap(err, "truncate the log");
    segment->used_bytes = cut.offset;
    segment->last_index = index - 1;
    return 0;
}

/* Removes all segments but the last. Oldest first: what is left is without gaps whenever the member
 * dies. */
int wal_drop_all_but_last(struct wal *wal, struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    char path[FOLDER_PATH_BYTES];

    while (wal->segment_count > 1) {
        /* The last one may have taken the name of one before. */
        if (wal->segments[0].first_index != tail_segment(wal)->first_index) {
            wal_segment_path(wal, wal->segments[0].first_index, path);
            if (disk->unlink(disk->context, path, err) != 0 ||
                disk->sync_dir(disk->context, wal->folder->path, err) != 0)
                return err_wrap(err, "remove %s", path);
        }
        wal->segment_count--;
        memmove(wal->segments, wal->segments + 1, wal->segment_count * sizeof(*wal->segments));
    }
    return 0;
}

/* There is a segment at every moment: a folder without any has lost them. */
static int reset_work(struct wal *wal, uint64_t next_index, struct err *err)
{
    if (wal->mark.index >= next_index && mark_lower(&wal->mark, next_index - 1, err) != 0)
        return -1;
    while (wal->segment_count > 1 && tail_segment(wal)->first_index > next_index)
        if (segment_pop(wal, err) != 0)
            return -1;
    if (segment_start(wal, next_index, err) != 0)
        return -1;
    return wal_drop_all_but_last(wal, err);
}

static int truncate_work(struct wal *wal, uint64_t index, struct err *err)
{
    /* First: a bound above the log's end would be taken for a loss. */
    if (wal->mark.index >= index && mark_lower(&wal->mark, index - 1, err) != 0)
        return -1;
    while (wal->segment_count > 1 && tail_segment(wal)->first_index >= index)
        if (segment_pop(wal, err) != 0)
            return -1;
    if (wal->segment_count == 0 || tail_segment(wal)->first_index > index)
        return reset_work(wal, index, err);
    return tail_segment(wal)->last_index < index ? 0 : tail_cut(wal, index, err);
}

/* The oldest goes first, each removal durable before the next: the log begins later, and never has
 * a gap. */
static int drop_work(struct wal *wal, uint64_t index, struct err *err)
{
    const struct disk_ops *disk = wal->folder->disk;
    char path[FOLDER_PATH_BYTES];

    while (wal->segment_count > 1 && wal->segments[0].last_index < index) {
        wal_segment_path(wal, wal->segments[0].first_index, path);
        if (disk->unlink(disk->context, path, err) != 0 ||
            disk->sync_dir(disk->context, wal->folder->path, err) != 0)
            return err_wrap(err, "remove %s", path);
        wal->segment_count--;
        memmove(wal->segments, wal->segments + 1, wal->segment_count * sizeof(*wal->segments));
    }
    return 0;
}

/* The ordinal counts through the whole group: wal.h says how that tells a torn end from damage. */
static int appends_work(struct wal *wal, struct err *err)
{
    uint32_t ordinal = 0;

    for (struct list *at = wal->running.next; at != &wal->running; at = at->next) {
        struct operation *operation = LIST_ITEM(at, struct operation, node);
        for (unsigned i = 0; i < operation->count; i++, ordinal++)
            if (record_write(wal, operation->index + i, &operation->entries[i], ordinal, err) != 0)
                return err_wrap(err, "append to the log");
    }
    if (tail_commit(wal, err) != 0)
        return err_wrap(err, "append to the log");
    mark_raise(&wal->mark, tail_segment(wal)->last_index);
    return 0;
}

static int operation_work(struct wal *wal, struct operation *operation, struct err *err)
{
    switch (operation->kind) {
    case OPERATION_APPEND:
        return appends_work(wal, err);
    case OPERATION_TRUNCATE:
        return truncate_work(wal, operation->index, err);
    case OPERATION_RESET:
        return reset_work(wal, operation->index, err);
    case OPERATION_DROP:
        return drop_work(wal, operation->index, err);
    }
    CHECK_UNREACHABLE("operation kind");
}

static void wal_work(struct disk_job *job)
{
    struct wal *wal = of_job(job);

    wal->job_sync_us = wal->job_sync_us_max = wal->job_sync_count = 0;
    wal->job_status =
        operation_work(wal, LIST_ITEM(wal->running.next, struct operation, node), &wal->job_err);
}

/* ---- on the loop ---- */

/* On the loop, when a job is back: what it left is one unbroken log. */
static void wal_check(const struct wal *wal)
{
    CHECK(wal->segment_count <= WAL_SEGMENTS_MAX);
    CHECK(wal->segment_count == 0 || wal->segments != NULL);
    CHECK(wal->segment_count > 0 || wal->last_index == 0);
    CHECK(wal->last_index + 1 >= wal->first_index);
    CHECK(wal->segment_count == 0 || wal->first_index > 0);
    CHECK(wal->sync_us_max <= wal->sync_us_total || wal->sync_count == 0);
    for (size_t i = 0; i < wal->segment_count && i < 2; i++) { /* the others have not changed */
        const struct wal_segment *segment = &wal->segments[wal->segment_count - 1 - i];

        CHECK(segment->last_index + 1 >= segment->first_index);
        CHECK(segment->used_bytes >= WAL_SEGMENT_HEADER_BYTES);
        CHECK(segment->used_bytes <= segment->size_bytes);
        CHECK(i == 0 || segment->last_index + 1 == segment[1].first_index);
    }
}

/* The loop reads these copies while the next job changes the segments. */
static void wal_publish(struct wal *wal)
{
    wal->log_bytes = 0;
    for (size_t i = 0; i < wal->segment_count; i++)
        wal->log_bytes += wal->segments[i].used_bytes;
    wal->first_index = wal->segment_count == 0 ? 0 : wal->segments[0].first_index;
    wal->last_index = wal->segment_count == 0 ? 0 : tail_segment(wal)->last_index;
    wal->sync_count += wal->job_sync_count;
    wal->sync_us_total += wal->job_sync_us;
    if (wal->job_sync_us_max > wal->sync_us_max)
        wal->sync_us_max = wal->job_sync_us_max;
    wal->job_sync_us = wal->job_sync_us_max = wal->job_sync_count = 0;
    wal_check(wal);
}

static void spare_work(struct disk_job *job)
{
    struct wal *wal = (struct wal *)(void *)((char *)job - offsetof(struct wal, spare_job));
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;

    folder_path(wal->folder, "tmp-wal-spare", path);
    /* Without a spare the next segment is made when it is needed, which is slower and reports the
     * error. */
    if (segment_prepare(wal, path, &file, NULL) != 0)
        return;
    wal->folder->disk->close(file);
    atomic_store(&wal->spare_ready, true);
}

static void spare_done(struct disk_job *job)
{
    struct wal *wal = (struct wal *)(void *)((char *)job - offsetof(struct wal, spare_job));

    wal->spare_busy = false;
}

/* Appends do not wait for the allocation of the next segment: it is made beside them when the one
 * in use is half full. */
static void spare_request(struct wal *wal)
{
    struct wal_segment *segment = tail_segment(wal);

    if (wal->spare_busy || atomic_load(&wal->spare_ready) ||
        segment->used_bytes < segment->size_bytes / 2 || !wal->folder->accepts_writes)
        return;
    wal->spare_busy = true;
    wal->spare_job.work = spare_work;
    wal->spare_job.done = spare_done;
    wal->folder->disk->submit(wal->folder->disk->context, &wal->spare_job);
}

static size_t operation_bytes(const struct operation *operation)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < operation->count; i++)
        bytes += operation->entries[i].buf.len + WAL_RECORD_HEADER_BYTES;
    return bytes;
}

/* Everything that waits, as far as it is appends, goes into one sync. */
static void wal_kick(struct wal *wal)
{
    size_t bytes = 0;

    if (wal->busy || wal->broken || wal->held || list_empty(&wal->queue))
        return;
    do {
        struct list *node = wal->queue.next;
        struct operation *operation = LIST_ITEM(node, struct operation, node);
        if (!list_empty(&wal->running) && operation->kind != OPERATION_APPEND)
            break;
        bytes += operation_bytes(operation);
        list_remove(node);
        list_push_back(&wal->running, node);
        if (operation->kind != OPERATION_APPEND)
            break;
    } while (!list_empty(&wal->queue) && bytes < GROUP_BYTES_MAX);
    wal->busy = true;
    wal->busy_since_us = now_us(wal);
    wal->folder->disk->submit(wal->folder->disk->context, &wal->job);
}

/* done() may queue more, or free its owner: the operation is gone before it runs. */
static void operations_complete(struct list *operations)
{
    while (!list_empty(operations)) {
        struct operation *operation = LIST_ITEM(operations->next, struct operation, node);
        void (*done)(void *data) = operation->done;
        void *data = operation->data;
        list_remove(&operation->node);
        free(operation);
        if (done != NULL)
            done(data);
    }
}

static void wal_done(struct disk_job *job)
{
    struct wal *wal = of_job(job);
    struct list finished;

    wal->busy = false;
    /* S4: nothing is tried again. After a failed sync nobody knows what the disk has. */
    if (wal->job_status != 0 && safety_rule(4)) {
        wal->broken = true;
        wal->failed(wal->context, &wal->job_err);
        return;
    }
    wal_publish(wal);
    list_init(&finished);
    while (!list_empty(&wal->running)) {
        struct list *node = wal->running.next;
        list_remove(node);
        list_push_back(&finished, node);
    }
    spare_request(wal);
    wal_kick(wal); /* the next sync runs while the callbacks do */
    operations_complete(&finished);
}

static void wal_enqueue(struct wal *wal, struct operation *operation)
{
    list_push_back(&wal->queue, &operation->node);
    wal_kick(wal);
}

static struct operation *operation_new(enum operation_kind kind, uint64_t index)
{
    struct operation *operation = check_calloc(1, sizeof(*operation));

    operation->kind = kind;
    operation->index = index;
    return operation;
}

void wal_hold(struct wal *wal)
{
    CHECK(!wal->held);
    wal->held = true;
}

void wal_release(struct wal *wal)
{
    CHECK(wal->held);
    wal->held = false;
    wal_kick(wal);
}

void wal_append(struct wal *wal, uint64_t index, const struct raft_entry *entries, unsigned count,
                void (*done)(void *data), void *data)
{
    struct operation *operation = operation_new(OPERATION_APPEND, index);

    CHECK(wal != NULL);
    CHECK(entries != NULL);
    CHECK(count > 0);
    operation->entries = entries;
    operation->count = count;
    operation->done = done;
    operation->data = data;
    wal_enqueue(wal, operation);
}

void wal_truncate(struct wal *wal, uint64_t index)
{
    CHECK(wal != NULL);
    wal_enqueue(wal, operation_new(OPERATION_TRUNCATE, index));
}

void wal_reset(struct wal *wal, uint64_t next_index, void (*done)(void *data), void *data)
{
    struct operation *operation = operation_new(OPERATION_RESET, next_index);

    CHECK(wal != NULL);
    operation->done = done;
    operation->data = data;
    wal_enqueue(wal, operation);
}

void wal_drop_before(struct wal *wal, uint64_t index)
{
    CHECK(wal != NULL);
    wal_enqueue(wal, operation_new(OPERATION_DROP, index));
}

/* A broken log never works off its queue. */
bool wal_busy(const struct wal *wal)
{
    return wal->busy || wal->spare_busy || (!wal->broken && !list_empty(&wal->queue));
}

uint64_t wal_busy_us(const struct wal *wal)
{
    CHECK(wal != NULL);
    return wal->busy ? now_us(wal) - wal->busy_since_us : 0;
}

int wal_open(struct wal *wal, struct folder *folder, const struct clock_ops *clock,
             void (*failed)(void *context, const struct err *err), void *context, struct err *err)
{
    CHECK(wal != NULL);
    CHECK(folder != NULL);
    memset(wal, 0, sizeof(*wal));
    wal->folder = folder;
    wal->segment_bytes = folder->segment_bytes > 0 ? folder->segment_bytes : WAL_SEGMENT_BYTES;
    wal->clock = clock;
    wal->failed = failed;
    wal->context = context;
    wal->job.work = wal_work;
    wal->job.done = wal_done;
    list_init(&wal->queue);
    list_init(&wal->running);
    wal->staging =
        check_alloc(STAGING_BYTES + 2 * (WAL_PAYLOAD_MAX_BYTES + WAL_RECORD_HEADER_BYTES));
    if (mark_open(&wal->mark, folder, err) != 0 || wal_recover(wal, err) != 0) {
        wal_close(wal);
        return -1;
    }
    wal_publish(wal);
    return 0;
}

void wal_close(struct wal *wal)
{
    CHECK(wal != NULL);
    operations_complete(&wal->running);
    operations_complete(&wal->queue);
    if (wal->tail != NULL)
        wal->folder->disk->close(wal->tail);
    wal->tail = NULL;
    mark_close(&wal->mark);
    free(wal->segments);
    wal->segments = NULL;
    free(wal->staging);
    wal->staging = NULL;
}

int wal_reset_now(struct wal *wal, uint64_t next_index, struct err *err)
{
    CHECK(!wal->busy);
    if (reset_work(wal, next_index, err) != 0)
        return -1;
    wal_publish(wal);
    return 0;
}

int wal_append_now(struct wal *wal, uint64_t index, const struct raft_entry *entry, struct err *err)
{
    CHECK(entry != NULL);
    CHECK(!wal->busy);
    if (record_write(wal, index, entry, 0, err) != 0 || tail_commit(wal, err) != 0)
        return -1;
    mark_raise(&wal->mark, index);
    wal_publish(wal);
    return 0;
}
