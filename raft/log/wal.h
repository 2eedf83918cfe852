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
 *          synced; one that ends before that was cut, zeroed or lost its last segment. The last
 *          segment is written once more at open: after a failed sync the system may show bytes that
 *          the disk does not have. Torn or damaged: a record carries its position in the batch that
 *          was synced with it. A bad record followed by a whole one of the same batch was never
 *          acknowledged: torn. Followed by one of a later batch it had been synced: damage.
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
    /* More are never kept: a folder with more of them is refused. */
    WAL_SEGMENTS_MAX = 65536,
};

/* One file. used_bytes: header and whole records; what follows is zero, or not written yet. */
struct wal_segment {
    uint64_t first_index;
    uint64_t last_index; /* first_index - 1 while empty */
    uint64_t used_bytes;
    uint64_t size_bytes;
};

/* One record as it lies in a file; the payload points into the bytes that it was decoded from. */
struct wal_record {
    uint64_t index;
    uint64_t term;
    uint8_t type;
    uint32_t ordinal; /* position in the batch that was synced together */
    const uint8_t *payload;
    size_t length;
};

/* One log. The storage is the caller's, the folder must outlive it. The fields of the job are read
 * by the loop only while `busy` is false. */
struct wal {
    struct folder *folder;
    const struct clock_ops *clock; /* NULL: syncs are not timed */
    /* The first failure, on the loop. Nothing is written after it, and nothing more comes back. */
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

/* Reads and checks the whole log; no job runs yet. An empty folder gives a log without segments:
 * call wal_reset_now() before the first append. clock NULL: syncs are not timed. On -1 the log is
 * closed. */
int wal_open(struct wal *wal, struct folder *folder, const struct clock_ops *clock,
             void (*failed)(void *context, const struct err *err), void *context, struct err *err);
/* Not while wal_busy(). Operations still queued are completed with done() so that their owners can
 * free them, though nothing of them was written: only after a failure, or at the end of the
 * member. */
void wal_close(struct wal *wal);
/* A job of the log, or of the file that it prepares, is under way, or will be. */
bool wal_busy(const struct wal *wal);
/* How long the job under way has taken; 0: none. A disk that hangs neither fails nor ends it, so
 * that this is the only sign of it. */
uint64_t wal_busy_us(const struct wal *wal);

/* At open only. Visits every record in order, with its payload valid during the visit; visit
 * returns -1 to stop with its err. */
int wal_walk(struct wal *wal,
             int (*visit)(void *data, const struct wal_record *record, struct err *err), void *data,
             struct err *err);
/* At open only: an empty log whose first record will have next_index. Durable when it returns 0. */
int wal_reset_now(struct wal *wal, uint64_t next_index, struct err *err);
/* At open only: one record, as a batch of its own, for a bootstrap or a recovery. Durable when it
 * returns 0. */
int wal_append_now(struct wal *wal, uint64_t index, const struct raft_entry *entry,
                   struct err *err);

/* Between the two nothing is started: what the caller sends to the peers meanwhile is on its way
 * before our own disk is. Not nested. */
void wal_hold(struct wal *wal);
void wal_release(struct wal *wal);
/* Queues count (1 or more) entries, which and whose bytes stay the caller's until done(). Indexes
 * must follow the last one queued. done() runs when all of them are durable, never from inside. */
void wal_append(struct wal *wal, uint64_t index, const struct raft_entry *entries, unsigned count,
                void (*done)(void *data), void *data);
/* Queues the removal of index and everything after it. Nobody is told when it is done: what is
 * appended next is written behind it in any case. */
void wal_truncate(struct wal *wal, uint64_t index);
/* Queues the removal of everything, for a snapshot that replaces the log; the next append has
 * next_index. */
void wal_reset(struct wal *wal, uint64_t next_index, void (*done)(void *data), void *data);
/* Queues the removal of segments that hold only records before index; the last segment always
 * stays. A lower bound for what is kept: records before index may stay with others of their
 * segment. */
void wal_drop_before(struct wal *wal, uint64_t index);

/* ---- shared by wal.c and wal_recover.c; also for the fuzz target ---- */

/* False unless a whole record with the right checksum begins at bytes. ret_bytes: its padded size.
 * Trusts nothing of what it reads. */
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
/* The first bytes of a segment's file. */
void wal_segment_header_encode(uint8_t bytes[WAL_SEGMENT_HEADER_BYTES], uint64_t first_index);
/* Finds the segments of the folder, checks each of them and fills wal->segments and wal->tail; the
 * last step of wal_open(). */
int wal_recover(struct wal *wal, struct err *err);
/* In the job or at open: the last segment gets a new file with the first `keep` of these bytes. */
int wal_segment_replace(struct wal *wal, uint64_t first_index, const uint8_t *bytes, size_t keep,
                        struct err *err);
/* In the job or at open: removes all segments but the last. */
int wal_drop_all_but_last(struct wal *wal, struct err *err);
/* Writes the path of the segment into text and returns it; the disk is not asked. */
char *wal_segment_path(const struct wal *wal, uint64_t first_index, char text[FOLDER_PATH_BYTES]);
/* Its first bytes, `most` at most, which the caller frees. ERR_CORRUPT: a file larger than any that
 * is ever written. */
int wal_segment_load(const struct wal *wal, uint64_t first_index, uint64_t most,
                     uint8_t **ret_bytes, size_t *ret_length, struct err *err);

#endif
