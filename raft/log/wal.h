/* The write-ahead log: segments of checksummed records, group commit, one job in flight off the
 * loop.
 *
 * Flow     wal_open() verifies every record, cuts a torn tail and refuses damage in the middle.
 *          Then operations queue up first in, first out; consecutive appends share one sync; done()
 *          comes when the operation is durable.
 * Shapes   files "wal-<first index in 16 hex digits>", preallocated to folder->segment_bytes. A
 *          segment is synced before its successor is created, so only the last one can have a torn
 *          tail. From the bootstrap on there is at least one, and none is ever shorter than it was
 *          made: what is missing was taken away. The end: mark.h remembers how far the log was
 *          synced; one that ends before that was cut, zeroed or lost its last segment. What the
 *          last segment holds is written once more at open: after a failed sync the system may show
 *          bytes that the disk does not have.
 *          Torn or damaged: a record carries its position in the batch that was synced with it. A
 *          bad record followed by a whole one of the same batch was never acknowledged: torn.
 *          Followed by one of a later batch it had been synced: damage.
 * Units    bytes, log indexes, microseconds.
 * Errors   any failed operation is final: failed() is called once, no done() after it (rule S4).
 * Absent   repair of damage: the member leaves the cluster and comes back under a new id.
 * Source   segment header, 64 bytes: "CKPTWAL1", version u32, zero u32, first index u64, zeros,
 *          crc32c u32 at 60. record: crc32c u32 of all after it, payload length u32, index u64,
 *          term u64, type u8, 3 zeros, ordinal u32, payload, zeros up to a multiple of 8. Little
 *          endian. A zero record ends the segment.
 */
#ifndef CKPT_RAFT_WAL_H
#define CKPT_RAFT_WAL_H

#include <raft.h>

#include "raft/log/folder.h"
#include "raft/log/mark.h"
#include "src/base/list.h"
#include "src/base/ops.h"

enum {
    WAL_SEGMENT_BYTES = 8 << 20,
    WAL_SEGMENT_HEADER_BYTES = 64,
    WAL_RECORD_HEADER_BYTES = 32,
    WAL_PAYLOAD_MAX_BYTES = (1 << 20) + (1 << 16), /* the largest entry, or a configuration */
    WAL_SEGMENTS_MAX = 65536,
};

struct wal_segment {
    uint64_t first_index;
    uint64_t last_index; /* first_index - 1 while empty */
    uint64_t used_bytes;
    uint64_t size_bytes;
};

struct wal_record {
    uint64_t index;
    uint64_t term;
    uint8_t type;
    uint32_t ordinal; /* position in the batch that was synced together */
    const uint8_t *payload;
    size_t length;
};

struct wal {
    struct folder *folder;
    const struct clock_ops *clock; /* NULL: syncs are not timed */
    void (*failed)(void *context, const struct err *err);
    void *context;
    /* Of the job while busy. */
    struct wal_segment *segments;
    size_t segment_count;
    uint64_t segment_bytes; /* of each file */
    struct disk_file *tail; /* the last segment's file */
    struct mark mark;       /* how far it certainly reached */
    uint8_t *staging;
    size_t staged;
    bool flushed_unsynced; /* a part of this group was written before the rest was staged */
    struct err job_err;
    int job_status;
    uint64_t job_sync_us, job_sync_us_max, job_sync_count;
    /* Of the loop. */
    struct list queue;
    struct list running;
    bool busy;
    uint64_t busy_since_us; /* with busy */
    bool broken;
    bool held;
    struct disk_job job;
    struct disk_job spare_job;
    bool spare_busy;
    atomic_bool spare_ready;
    uint64_t log_bytes;
    uint64_t first_index,
        last_index; /* durable; last_index = first_index - 1 when empty; 0,0 without any segment */
    uint64_t sync_count, sync_us_total, sync_us_max;
};

/* No job runs yet. An empty folder gives a log without segments: call wal_reset_now() before the
 * first append. */
int wal_open(struct wal *wal, struct folder *folder, const struct clock_ops *clock,
             void (*failed)(void *context, const struct err *err), void *context, struct err *err);
/* Not busy. Operations still queued are completed with done() so that their owners can free them:
 * only after a failure. */
void wal_close(struct wal *wal);
bool wal_busy(const struct wal *wal);
/* How long the job under way has taken; 0: none. A disk that hangs neither fails nor ends it. */
uint64_t wal_busy_us(const struct wal *wal);

/* At open only. Visits every record in order; visit returns -1 to stop with its err. */
int wal_walk(struct wal *wal,
             int (*visit)(void *data, const struct wal_record *record, struct err *err), void *data,
             struct err *err);
int wal_reset_now(struct wal *wal, uint64_t next_index, struct err *err);
/* At open only: one synced batch, for the bootstrap. */
int wal_append_now(struct wal *wal, uint64_t index, const struct raft_entry *entry,
                   struct err *err);

/* Between the two nothing is started: what the caller sends to the peers meanwhile is on its way
 * before our own disk is. */
void wal_hold(struct wal *wal);
void wal_release(struct wal *wal);
/* entries stay the caller's until done. Indexes must follow the last one queued. */
void wal_append(struct wal *wal, uint64_t index, const struct raft_entry *entries, unsigned count,
                void (*done)(void *data), void *data);
/* Removes index and everything after it. */
void wal_truncate(struct wal *wal, uint64_t index);
/* Removes everything; the next append has next_index. */
void wal_reset(struct wal *wal, uint64_t next_index, void (*done)(void *data), void *data);
/* Removes segments that hold only records before index. */
void wal_drop_before(struct wal *wal, uint64_t index);

/* ---- shared by wal.c and wal_recover.c; also for the fuzz target ---- */

/* False unless a whole record with the right checksum begins at bytes. ret_bytes: its padded
 * size. */
bool wal_record_decode(const uint8_t *bytes, size_t left, struct wal_record *ret_record,
                       size_t *ret_bytes);
/* The content of a segment's file. */
struct wal_image {
    const uint8_t *bytes;
    size_t length;
    const char *path; /* for messages */
    bool is_last;     /* no segment follows: a torn record may be the end */
};
/* Is shown each whole record, in order; a status other than 0 ends the walk. */
struct wal_visitor {
    int (*visit)(void *data, const struct wal_record *record, struct err *err);
    void *data;
};
/* Walks one segment's content; visitor NULL: nobody looks. ret_torn: something other than zeros
 * follows the last whole record. ERR_CORRUPT when a synced record is damaged. */
int wal_segment_scan(const struct wal_image *image, const struct wal_visitor *visitor,
                     struct wal_segment *ret_segment, bool *ret_torn, struct err *err);
void wal_segment_header_encode(uint8_t bytes[WAL_SEGMENT_HEADER_BYTES], uint64_t first_index);
int wal_recover(struct wal *wal, struct err *err);
int wal_segment_replace(struct wal *wal, uint64_t first_index, const uint8_t *bytes, size_t keep,
                        struct err *err);
int wal_drop_all_but_last(struct wal *wal, struct err *err);
char *wal_segment_path(const struct wal *wal, uint64_t first_index, char text[FOLDER_PATH_BYTES]);
/* Its first bytes, `most` at most. */
int wal_segment_load(const struct wal *wal, uint64_t first_index, uint64_t most,
                     uint8_t **ret_bytes, size_t *ret_length, struct err *err);

#endif
