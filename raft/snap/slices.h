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

struct slices_source {
    void *context;
    /* On the loop: about SLICE_BYTES more for the file, *ret_last with the last ones. */
    int (*fill)(void *context, struct buf *slice, bool *ret_last, struct err *err);
    /* Off the loop: what becomes of them in the file. */
    int (*write)(void *context, const struct buf *slice, bool last,
                 const struct consensus_writer *file, struct err *err);
    /* On the loop, once: neither of the two will be called again. Before finished(). */
    void (*release)(void *context);
};

struct slices {
    const struct disk_ops *disk;
    struct slices_source source;
    const char *path;
    struct disk_job job;
    struct disk_file *file;
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

/* The path must live until finished(), which is never called from inside. */
void slices_begin(struct slices *slices, const struct disk_ops *disk, const char *path,
                  const struct slices_source *source,
                  void (*finished)(void *context, int status, const struct err *err),
                  void *context);
void slices_cancel(struct slices *slices); /* finished(-1) follows soon, if running */
/* Forgets what is running, without finished(). Only when no job is, or jobs never come back. */
void slices_close(struct slices *slices);

#endif
