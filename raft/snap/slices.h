/* A file made of a state that goes on changing: filled in slices on the loop, each worked on and
 * written off it.
 *
 * Flow     slices_begin() -> fill() on the loop -> job: write() off it -> fill() ... -> the job of
 *          the last slice -> finished(). The loop is held for a slice at a time, and for none while
 *          one is being written.
 * Shapes   memory: one slice, and what the source holds.
 * Units    bytes of a slice as fill() gave it.
 * Errors   finished(-1, err): the source, the disk: the file is removed, since it may be what fills
 *          the disk; or slices_cancel(), which leaves it as it is.
 */
#ifndef CKPT_RAFT_SLICES_H
#define CKPT_RAFT_SLICES_H

#include "raft/core/consensus.h"
#include "raft/io_ops.h"
#include "src/base/buf.h"

enum { SLICE_BYTES = 128 << 10 };

/* Where the content comes from. fill() and write() alternate and never run at the same time, so
 * that what they share needs no lock; each returns 0, or -1 with err, which ends the file. */
struct slices_source {
    void *context;
    /* On the loop: puts about SLICE_BYTES of the content into the slice, which is empty, and sets
     * *ret_last with the last ones. The state may change between two calls; it is the source that
     * must hold back what the file has not got yet. */
    int (*fill)(void *context, struct buf *slice, bool *ret_last, struct err *err);
    /* Off the loop: puts what becomes of the slice (compressed, say) into the file. The writer is
     * only valid during the call. It touches nothing that the loop may touch meanwhile. */
    int (*write)(void *context, const struct buf *slice, bool last,
                 const struct consensus_writer *file, struct err *err);
    /* On the loop, exactly once, before finished(), however the file ended: neither of the two will
     * be called again, and what the source holds back can go. */
    void (*release)(void *context);
};

/* One file in work. The storage is the caller's; all zero is one that does not run. */
struct slices {
    const struct disk_ops *disk;
    struct slices_source source;
    const char *path;
    struct disk_job job;
    struct disk_file *file;
    /* Written so far. It stays readable after finished(), until the next slices_begin(). */
    uint64_t file_bytes;
    struct buf slice;
    uint64_t slice_count;
    bool running, cancelled;
    bool last; /* the slice at work is the last one */
    int status;
    struct err err;
    void (*finished)(void *context, int status, const struct err *err);
    void *context;
};

/* Begins the file, which is emptied when it exists; not while this one is running. The first fill()
 * runs inside this call. The path must live until finished(), which is never called from inside:
 * also a first fill() that fails is told of later. The file is not synced: its user does that. */
void slices_begin(struct slices *slices, const struct disk_ops *disk, const char *path,
                  const struct slices_source *source,
                  void (*finished)(void *context, int status, const struct err *err),
                  void *context);
/* Gives the file up: finished(-1, ERR_UNAVAILABLE) follows when the slice at work is written, also
 * when that was the last one. The partial file stays. Nothing happens when nothing runs. */
void slices_cancel(struct slices *slices);
/* Forgets what is running, without finished(): closes the file, frees the slice and releases the
 * source. Only when no job is under way, or jobs never come back (a simulated crash). */
void slices_close(struct slices *slices);

#endif
